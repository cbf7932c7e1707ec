/* Owns the worker's context and what it is handed. */
#include "tests/fuzz/lib/world.h"

#include <assert.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "authz/pins.h"
#include "authz/revocation.h"
#include "authz/spent.h"
#include "base/say.h"
#include "base/text.h"
#include "proxy/config.h"
#include "proxy/role.h"
#include "proxy/tally.h"
#include "tests/fuzz/lib/kernel.h"
#include "tests/unit/forge.h"

#define SHARED "0123456789abcdef0123456789abcdef"

static const char text[] =
    "gateway: {name: gw.test}\n"
    "listen: {main: {address: \"10.0.0.1:3128\"}, steered: {address: \"10.0.0.1:443\", mode: transparent}}\n"
    "issuers: {hs: {jwks: hs, algorithms: [HS256], type: JWT}}\n"
    "limits: {body-collect: 4k, websocket-idle: 2m, event-stream-idle: 2m, websocket-message: 400k}\n"
    "services:\n"
    "  registry: {hosts: [registry.test], ports: [443], plain-ports: [80], allow: [\"GET,HEAD /pkg/**\"],\n"
    "             ca-file: ca.pem, scope: read, handoff-edges: enforce, audit: \"waived: a test\"}\n"
    "  upload: {hosts: [upload.test], ports: [443], plain-ports: [80], allow: [\"GET,POST,PUT /up/**\"],\n"
    "           ca-file: ca.pem, scope: write, audit: \"waived: a test\"}\n"
    "  talk: {hosts: [talk.test], plain-ports: [80], allow: [\"GET /ws/**\"], websocket: allow,\n"
    "         ca-file: ca.pem, scope: read, audit: \"waived: a test\"}\n";

static struct role_context context = {.role = ROLE_WORKER};
static struct revocations *revocations;
static struct pins *pins;
static struct spent *spent;
static struct world world;
static char directory[] = "/dev/shm/exeat-fuzz-XXXXXX";

static void say_and_abort(const struct fault *why)
{
    fprintf(stderr, "%s\n", why->text);
    abort();
}

static void add_files(struct bundle *files)
{
    struct buf b = {0};

    buf_text(&b, "{\"keys\":[{\"kid\":\"s1\",\"kty\":\"oct\",\"k\":\"");
    text_base64url(&b, SLICE(SHARED));
    buf_text(&b, "\"}]}");
    bundle_add(files, "issuer.hs.jwks", buf_slice(&b));
    buf_clear(&b);
    pki_pem(&world.services, &b);
    bundle_add(files, "service.registry.ca", buf_slice(&b));
    bundle_add(files, "service.upload.ca", buf_slice(&b));
    bundle_add(files, "service.talk.ca", buf_slice(&b));
    buf_clear(&b);
    buf_printf(&b, "{\"schema\":\"exeat.canaries/1\",\"canaries\":[{\"id\":\"c1\",\"kind\":\"npm\",\"sandbox\":\"\",\"value\":\"%s\","
                   "\"random_from\":4,\"random_len\":%zu,\"created\":\"2026-01-01T00:00:00Z\"}]}",
               WORLD_CANARY, sizeof WORLD_CANARY - 5);
    bundle_add(files, "canaries.json", buf_slice(&b));
    buf_free(&b);
}

static void attach(void *arg, int role, int fd)
{
    (void)arg;
    worker_ops.on_peer(&context, (enum role)role, 0, fd);
}

/* The memory that worker and supervisor share. */
static void share(void)
{
    struct fault why = {0};
    static const unsigned char secret[16];
    int fd = counters_create(&why);
    char path[64];

    pins = pins_create(1024, &why);
    snprintf(path, sizeof path, "%s/revocations", directory);
    revocations = revocations_create(path, &why);
    snprintf(path, sizeof path, "%s/spent", directory);
    spent = spent_open(path, &why);
    world.counters = counters_map(fd, false, &why);
    if (!pins || !revocations || !spent || !world.counters)
        say_and_abort(&why);
    worker_ops.on_resource(&context, MSG_SHARED, SLICE("pins"), false, dup(pins_fd(pins)));
    worker_ops.on_resource(&context, MSG_SHARED, SLICE("revocations"), false, dup(revocations_fd(revocations)));
    worker_ops.on_resource(&context, MSG_SHARED, SLICE("spent"), false, dup(spent_fd(spent)));
    worker_ops.on_resource(&context, MSG_SHARED, SLICE("counters/worker 0"), false, fd);
    worker_ops.on_resource(&context, MSG_SHARED, SLICE("tally/worker 0"), false, tally_create(secret, &why));
}

static void compile_policy(void)
{
    size_t n;
    const struct conf_section *const *sections = gateway_sections(&n);
    struct fault why = {0};

    context.files = bundle_new();
    add_files(context.files);
    context.conf = conf_parse(slice_of(text), "proxy.conf", "/", sections, n, &why);
    context.policy = context.conf ? policy_compile(context.conf, &why) : NULL;
    if (!context.policy)
        say_and_abort(&why);
    context.generation = WORLD_GENERATION;
    policy_set_generation(context.policy, WORLD_GENERATION);
}

static void clean_up(void)
{
    char path[64];

    snprintf(path, sizeof path, "%s/revocations", directory);
    unlink(path);
    snprintf(path, sizeof path, "%s/spent", directory);
    unlink(path);
    rmdir(directory);
}

struct world *world_get(void)
{
    struct fault why = {0};

    if (world.roles)
        return &world;
    if (!mkdtemp(directory))
        abort();
    atexit(clean_up);
    signal(SIGPIPE, SIG_IGN);
    say_level(getenv("FUZZ_SHOW") ? SAY_DEBUG : SAY_ERROR);
    json_object_seed(1);
    pki_init(&world.services);
    pki_init(&world.gateway);
    world.client = pki_client();
    context.loop = loop_new();
    compile_policy();
    share();
    world.roles = roles_new(attach, NULL);
    worker_ops.on_resource(&context, MSG_LISTENER, SLICE("main"), false, kernel_listener(WORLD_EXPLICIT));
    worker_ops.on_resource(&context, MSG_LISTENER, SLICE("steered"), false, kernel_listener(WORLD_TRANSPARENT));
    if (!worker_ops.start(&context, &why))
        say_and_abort(&why);
    return &world;
}

static void stop(void *arg)
{
    loop_stop(arg);
}

void world_turn(void)
{
    loop_defer(context.loop, stop, context.loop);
    loop_run(context.loop);
}

void world_advance(int64_t ms)
{
    kernel_advance(ms);
    world_turn();
}

int64_t world_now_s(void)
{
    return loop_wall_s(context.loop);
}

void world_token(const char *sandbox, const char *jti, struct buf *out)
{
    struct buf claims = {0};
    char *payload;

    buf_printf(&claims, "{\"iss\":\"hs\",\"sub\":\"%s\",\"aud\":\"gw.test\",\"jti\":\"%s\",\"iat\":%lld,\"exp\":%lld,"
                        "\"scope\":\"read write\"}",
               sandbox, jti, (long long)world_now_s(), (long long)world_now_s() + 900);
    payload = buf_take_text(&claims);
    forge_mac_token(out, "{\"typ\":\"JWT\",\"alg\":\"HS256\",\"kid\":\"s1\"}", payload, SHARED);
    free(payload);
}

void world_revoke(const char *jti)
{
    revocations_add(revocations, REVOKE_JTI, slice_of(jti), world_now_s() + 3600, NULL);
}

SSL_CTX *world_service(const char *host)
{
    return pki_server(&world.services, host);
}

uint64_t world_open(void)
{
    return world.counters->values[COUNTER_CONNECTIONS_ACCEPTED] - world.counters->values[COUNTER_CONNECTIONS_CLOSED];
}

uint64_t world_pooled(void)
{
    return world.counters->values[COUNTER_POOLED];
}

uint64_t world_exchanges(void)
{
    return world.counters->values[COUNTER_EXCHANGES_OPEN];
}
