/*
 * What workers say to porter, keeper and scribe, and the usher to porter and scribe, under libFuzzer: the three roles as they are, on real
 * channels, with name servers and services that do what the input says. Each event is a message of the fuzzer's making or a sound one, to one
 * of the three. What must hold:
 *
 *   an address is dialled only when it is one of the answer, the class of it may be, and the gateway does not listen
 *   there, also where it listens at every address; what was dialled is given only when the dial is in the journal;
 *   the usher is told of the same addresses alone, and of none where it asks for the porter's own question;
 *   a certificate is given only for a listed host;
 *   a worker, or an usher, that breaks its table is heard no more, and told of once; the roles go on: after each run an honest worker
 *   gets its record written, its certificate, and its connection, and an honest usher its addresses;
 *   the journal they wrote verifies.
 */
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "authz/revocation.h"
#include "base/pack.h"
#include "base/say.h"
#include "certs/ca.h"
#include "journal/log.h"
#include "net/dial.h"
#include "net/resolve.h"
#include "net/routes.h"
#include "proxy/config.h"
#include "proxy/recorder.h"
#include "tests/fuzz/lib/files.h"
#include "tests/fuzz/lib/fuzz.h"

/* Beside the worker's channels to each role: the usher's to the porter; and of one that asks nothing but the porter's own questions. */
enum { USHER = N_ROLES, ECHO, SENDERS };
enum { EVENTS_MAX = 60, VERIFY_EACH = 500, VERIFY_MOST = 5000, PATIENCE = 20, HONEST = 7, HOSTILE = 3, GENERATION = 1 };

#define OWN "8.8.4.4:443"
#define OWN_WILD "0.0.0.0:8443" /* of which HERE is one, as the kernel says it */
#define HERE "9.9.9.9:8443"
#define OWN_QUESTION "10.0.0.1:5353" /* where the porter's own come from */

static const char text[] =
    "gateway: {name: gw.test}\n"
    "listen: {main: {address: \"127.0.0.1:3128\"}}\n"
    "journal: {directory: journal, segment: 1m, min-free: 0}\n"
    "services: {registry: {hosts: [registry.test], ports: [443], allow: [\"GET /**\"], scope: s, audit: \"waived: a test\"},\n"
    "  open: {hosts: [\"*.open.test\"], ports: [443, 8443], plain-ports: [80], allow: [\"GET /**\"], scope: s, audit: \"waived: a test\"}}\n";

static struct loop *loop;
static struct role_context roles[N_ROLES];
static int supervisor; /* the far end of what they tell it */
static EVP_PKEY *leaf_key;

/* ---- name servers and services, in place of net/resolve.c and net/dial.c ---- */

struct resolve {
    resolve_done *done;
    void *arg;
};

struct dial {
    dial_done *done;
    void *arg;
    struct addr address;
};

static struct slice answers; /* what name servers say: of each address a byte of kind, and its bytes */
static struct resolution answer;
static struct addr told[1024]; /* every address that they said since the input began, which has no room for more */
static size_t n_told;
static int refusals; /* so many dials fail */

struct resolver *resolver_new(struct loop *l, const struct resolver_settings *settings, struct fault *why)
{
    static char one;

    (void)l, (void)settings, (void)why;
    return (struct resolver *)&one;
}

void resolver_free(struct resolver *r)
{
    (void)r;
}

void resolver_rest(struct resolver *r)
{
    (void)r;
}

bool resolver_asks_from(const struct resolver *r, const struct addr *a)
{
    struct addr own;

    (void)r;
    return addr_parse(SLICE(OWN_QUESTION), &own) && addr_equals(&own, a);
}

/* ---- which addresses are this machine's, in place of net/routes.c ---- */

struct routes *routes_open(struct fault *why)
{
    static char one;

    (void)why;
    return (struct routes *)&one;
}

void routes_close(struct routes *r)
{
    (void)r;
}

bool routes_end_here(struct routes *r, const struct addr *a)
{
    struct addr here;

    (void)r;
    return addr_parse(SLICE(HERE), &here) && addr_ip_equals(&here, a);
}

/* ---- name servers and services ---- */

static void read_answer(void)
{
    answer = (struct resolution){0};
    while (answers.len && answer.count < 4) {
        struct addr *a = &answer.list[answer.count++].addr;
        bool is_v6 = fuzz_byte(&answers) & 1;
        struct slice ip = fuzz_take(&answers, is_v6 ? 16 : 4);

        a->family = is_v6 ? AF_INET6 : AF_INET;
        memcpy(a->ip, ip.ptr, ip.len);
        told[n_told++ % (sizeof told / sizeof *told)] = *a;
    }
    if (answer.count == 0)
        fault_reason(&answer.fault, REASON_NAME_NOT_RESOLVED, "no such name");
}

static void on_answer(void *arg)
{
    struct resolve *v = arg;

    if (v->done) {
        read_answer();
        v->done(v->arg, &answer);
    }
    free(v);
}

struct resolve *resolve_start(struct resolver *r, const char *name, resolve_done *done, void *arg, struct fault *why)
{
    struct resolve *v = malloc(sizeof *v);

    (void)r, (void)why;
    assert(strcmp(name, "registry.test") == 0 || slice_ends(slice_of(name), SLICE(".open.test")));
    *v = (struct resolve){done, arg};
    loop_defer(loop, on_answer, v);
    return v;
}

void resolve_cancel(struct resolve *v)
{
    if (v)
        v->done = NULL;
}

static bool is_own(const struct addr *a)
{
    struct addr own, here;

    return addr_parse(SLICE(OWN), &own) && addr_parse(SLICE(HERE), &here) && (addr_equals(&own, a) || addr_equals(&here, a));
}

static bool was_answered(const struct addr *a)
{
    for (size_t i = 0; i < answer.count; i++)
        if (addr_ip_equals(&answer.list[i].addr, a))
            return true;
    return false;
}

static bool was_told(const struct addr *a)
{
    for (size_t i = 0; i < n_told && i < sizeof told / sizeof *told; i++)
        if (addr_ip_equals(&told[i], a))
            return true;
    return false;
}

static void on_dial(void *arg)
{
    struct dial *d = arg;
    struct fault why = {0};
    int fds[2] = {-1, -1};

    if (d->done && refusals-- > 0) {
        fault_reason(&why, REASON_CONNECT_REFUSED, "refused");
        d->done(d->arg, -1, &d->address, &why);
    } else if (d->done) {
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
            abort();
        close(fds[1]);
        d->done(d->arg, fds[0], &d->address, NULL);
    }
    free(d);
}

struct dial *dial_start(struct loop *l, const struct addr *list, size_t n, const struct dial_settings *settings,
                        dial_done *done, void *arg)
{
    struct dial *d = malloc(sizeof *d);

    (void)settings;
    assert(n);
    for (size_t i = 0; i < n; i++)
        assert(was_answered(&list[i]) && addr_classify(&list[i]) == ADDR_GLOBAL && !is_own(&list[i]));
    *d = (struct dial){done, arg, list[0]};
    loop_defer(l, on_dial, d);
    return d;
}

void dial_cancel(struct dial *d)
{
    if (d)
        d->done = NULL;
}

/* ---- the roles ---- */

static const struct role_ops *ops_of(enum role r)
{
    return r == ROLE_PORTER ? &porter_ops : r == ROLE_KEEPER ? &keeper_ops : &scribe_ops;
}

static void must(bool ok, const struct fault *why)
{
    if (ok)
        return;
    fprintf(stderr, "%s\n", why->text);
    abort();
}

static void on_word(void *arg, uint16_t type, struct slice payload, int fd)
{
    (void)arg, (void)type, (void)payload, (void)fd;
}

static void on_silence(void *arg)
{
    (void)arg;
}

static void add_ca(struct bundle *files)
{
    static const char *const hosts[] = {"registry.test", "*.open.test"};
    struct fault why = {0};
    bool issued;

    must(ca_init(files_path("ca"), "gw.test", &why), &why);
    must(ca_ensure_intermediate(files_path("ca"), "gw.test", hosts, 2, &issued, &why), &why);
    must(ca_add_files(files_path("ca"), files, &why), &why);
}

/* Where the gateway itself listens: nobody is connected to that. */
static void tell_own(struct role_context *c)
{
    struct buf out = {0};

    pack_u16(&out, 2);
    pack_bytes(&out, SLICE(OWN));
    pack_bytes(&out, SLICE(OWN_WILD));
    porter_ops.on_control(c, MSG_OWN, buf_slice(&out));
    buf_free(&out);
}

/* None, so far. */
static void tell_revocations(struct role_context *c)
{
    struct fault why = {0};
    struct revocations *r = revocations_create(files_path("revocations"), &why);

    must(r, &why);
    porter_ops.on_resource(c, MSG_SHARED, SLICE("revocations"), false, dup(revocations_fd(r)));
    revocations_free(r);
}

static void begin_role(enum role r, struct channel *control)
{
    size_t n;
    const struct conf_section *const *sections = gateway_sections(&n);
    struct fault why = {0};
    struct role_context *c = &roles[r];

    *c = (struct role_context){.role = r, .loop = loop, .control = control, .files = bundle_new(), .generation = GENERATION, .directory = -1};
    bundle_add(c->files, "proxy.conf", slice_of(text));
    if (r == ROLE_KEEPER)
        add_ca(c->files);
    c->conf = conf_parse(slice_of(text), "proxy.conf", "/", sections, n, &why);
    must(c->conf, &why);
    c->policy = policy_compile(c->conf, &why);
    must(c->policy, &why);
    policy_set_generation(c->policy, GENERATION);
    if (r == ROLE_SCRIBE) {
        mkdir(files_path("journal"), 0700);
        scribe_ops.on_resource(c, MSG_DIRECTORY, SLICE("journal"), false, open(files_path("journal"), O_RDONLY | O_DIRECTORY));
    }
    if (r == ROLE_PORTER) {
        tell_own(c);
        tell_revocations(c);
    }
    must(!ops_of(r)->gather || ops_of(r)->gather(c, &why), &why);
    must(ops_of(r)->start(c, &why), &why);
}

static int connect_as(enum role who, enum role r, int index)
{
    int fds[2];

    if (!channel_pair(fds, NULL))
        abort();
    ops_of(r)->on_peer(&roles[r], who, index, fds[1]);
    return fds[0];
}

static int connect_worker(enum role r, int index)
{
    return connect_as(ROLE_WORKER, r, index);
}

static void join(enum role sender)
{
    int fds[2];

    if (!channel_pair(fds, NULL))
        abort();
    scribe_ops.on_peer(&roles[ROLE_SCRIBE], sender, 0, fds[0]);
    ops_of(sender)->on_peer(&roles[sender], ROLE_SCRIBE, 0, fds[1]);
}

static void set_up(void)
{
    static const struct channel_handler handler = {on_word, on_silence};
    struct channel *control;
    int fds[2];

    say_level(SAY_ERROR);
    loop = loop_new();
    leaf_key = EVP_EC_gen("P-256");
    if (!channel_pair(fds, NULL))
        abort();
    supervisor = fds[0];
    control = channel_new(loop, fds[1], &handler, NULL);
    begin_role(ROLE_SCRIBE, control);
    begin_role(ROLE_PORTER, control);
    begin_role(ROLE_KEEPER, control);
    join(ROLE_PORTER);
    join(ROLE_KEEPER);
}

/* ---- messages ---- */

static void send_message(int fd, uint16_t type, struct slice payload)
{
    struct buf out = {0};

    pack_u16(&out, type);
    buf_append(&out, payload);
    send(fd, buf_slice(&out).ptr, buf_len(&out), MSG_NOSIGNAL | MSG_DONTWAIT);
    buf_free(&out);
}

static void send_key(int fd)
{
    struct buf out = {0};
    unsigned char *der = NULL;
    int len = i2d_PUBKEY(leaf_key, &der);

    pack_bytes(&out, slice_make(der, (size_t)len));
    send_message(fd, MSG_LEAF_KEY, buf_slice(&out));
    OPENSSL_free(der);
    buf_free(&out);
}

static void send_certify(int fd, uint32_t id, const char *host)
{
    struct buf out = {0};

    pack_u32(&out, id);
    pack_u64(&out, GENERATION);
    pack_bytes(&out, slice_of(host));
    send_message(fd, MSG_CERTIFY, buf_slice(&out));
    buf_free(&out);
}

static void send_dial(int fd, uint32_t id, const char *host, uint16_t port)
{
    struct buf out = {0};

    pack_u32(&out, id);
    pack_u64(&out, GENERATION);
    buf_append(&out, SLICE("0123456789abcdef"));
    pack_bytes(&out, SLICE("sb-1"));
    pack_bytes(&out, slice_of(host));
    pack_u16(&out, port);
    send_message(fd, MSG_DIAL, buf_slice(&out));
    buf_free(&out);
}

static void send_look_up(int fd, uint32_t id, const char *host, const char *from, bool v6)
{
    struct buf out = {0};

    pack_u32(&out, id);
    pack_u64(&out, GENERATION);
    buf_append(&out, SLICE("0123456789abcdef"));
    pack_bytes(&out, SLICE("10.0.0.2"));
    pack_bytes(&out, slice_of(from));
    pack_bytes(&out, slice_of(host));
    pack_u8(&out, v6);
    send_message(fd, MSG_LOOKUP, buf_slice(&out));
    buf_free(&out);
}

/* A sound batch of one record with a text of the input's. */
static void send_record(int fd, uint64_t number, enum record_kind kind, struct slice detail)
{
    struct buf out = {0};
    struct record_writer w;

    pack_u64(&out, number);
    pack_u32(&out, 1);
    w = record_begin(&out, kind);
    record_text(&w, FIELD_DETAIL, detail);
    record_end(&w);
    send_message(fd, MSG_RECORDS, buf_slice(&out));
    buf_free(&out);
}

/* ---- a run ---- */

static void stop(void *arg)
{
    loop_stop(arg);
}

static void turn(void)
{
    char word[1024];

    loop_defer(loop, stop, loop);
    loop_run(loop);
    while (recv(supervisor, word, sizeof word, MSG_DONTWAIT) > 0)
        continue;
}

/* What the usher is told of: what a name server said, and not always last, since two questions may be answered in one turn. */
static void check_found(struct slice payload)
{
    struct unpack u = unpack_start(payload);
    struct addr a;

    unpack_u32(&u);
    unpack_u32(&u);
    for (uint16_t n = unpack_u16(&u); n && !u.bad; n--)
        assert(addr_parse_ip(unpack_bytes(&u), &a) && was_told(&a) && addr_classify(&a) == ADDR_GLOBAL);
    assert(unpack_done(&u));
}

/* The answer to a worker or the usher, its type; 0 when none comes. What comes with it is closed. */
static uint16_t hear(int fd)
{
    static unsigned char bytes[IPC_MAX + 2];
    union {
        char space[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec part = {bytes, sizeof bytes};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.space, .msg_controllen = sizeof control.space};
    uint16_t type;
    ssize_t n;
    int given;

    if ((n = recvmsg(fd, &m, MSG_DONTWAIT)) < 2)
        return 0;
    if (CMSG_FIRSTHDR(&m)) {
        memcpy(&given, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof given);
        close(given);
    }
    type = (uint16_t)(bytes[0] | bytes[1] << 8);
    if (type == MSG_FOUND)
        check_found(slice_make(bytes + 2, (size_t)n - 2));
    return type;
}

static void hear_all(const int *fds)
{
    uint16_t type;

    while (hear(fds[USHER]))
        continue;
    while ((type = hear(fds[ECHO])))
        assert(type != MSG_FOUND);
}

static void expect(int fd, uint16_t type)
{
    uint16_t heard = 0;

    for (int i = 0; i < PATIENCE && heard != type; i++) {
        turn();
        heard = hear(fd);
    }
    assert(heard == type);
    close(fd);
}

/* The roles still do their work for those who keep to their tables. */
static void ask_honestly(void)
{
    int keeper = connect_worker(ROLE_KEEPER, HONEST), porter = connect_worker(ROLE_PORTER, HONEST),
        scribe = connect_worker(ROLE_SCRIBE, HONEST), usher = connect_as(ROLE_USHER, ROLE_PORTER, 0);

    refusals = 0;
    answers = SLICE("\0\x08\x08\x08\x08");
    send_record(scribe, 1, RECORD_DECISION, SLICE("honest"));
    expect(scribe, MSG_RECORDED);
    send_key(keeper);
    send_certify(keeper, 1, "registry.test");
    expect(keeper, MSG_CERTIFIED);
    send_dial(porter, 1, "registry.test", 443);
    expect(porter, MSG_DIALLED);
    answers = SLICE("\0\x08\x08\x08\x08");
    send_look_up(usher, 2, "registry.test", "10.0.0.2:4000", false);
    expect(usher, MSG_FOUND);
    turn();
}

static void on_event(const int *fds, struct slice *input, uint64_t *number)
{
    static const char *const hosts[] = {"registry.test", "a.open.test", "other.test", "REGISTRY.test", "b.open.test"};
    static const int order[] = {ROLE_SCRIBE, ROLE_PORTER, ROLE_KEEPER, USHER};
    uint8_t event = fuzz_byte(input), a = fuzz_byte(input);
    const char *host = hosts[a % 5];
    uint16_t type;

    switch (event % 8) {
    case 0:
        type = (uint16_t)(a | fuzz_byte(input) << 8);
        send_message(fds[order[event / 8 % 4]], type, fuzz_take(input, fuzz_byte(input)));
        break;
    case 1:
        send_key(fds[ROLE_KEEPER]);
        break;
    case 2:
        send_certify(fds[ROLE_KEEPER], a, host);
        break;
    case 3:
        send_dial(fds[ROLE_PORTER], a / 5, host, event & 128 ? 8443 : 443);
        break;
    case 4:
        send_record(fds[ROLE_SCRIBE], (*number)++, (enum record_kind)(a % N_RECORD_KINDS), fuzz_take(input, event / 8));
        break;
    case 5:
        answers = fuzz_take(input, a % 64u);
        refusals = event / 64;
        break;
    case 7:
        send_look_up(fds[event & 128 ? ECHO : USHER], a / 5, host, event & 128 ? OWN_QUESTION : "10.0.0.2:4000", event & 64);
        break;
    default:
        turn();
        hear_all(fds);
        break;
    }
}

static void check_journal(void)
{
    struct log_verdict v;

    assert(log_verify(files_path("journal"), NULL, NULL, NULL, &v, NULL));
    if (!v.intact)
        fprintf(stderr, "%s: %s\n", v.place, v.fault);
    assert(v.intact);
}

/* It grows without end: after a while old segments are not kept, and it cannot be verified. */
static void keep_journal_small(unsigned runs)
{
    if (runs % VERIFY_EACH)
        return;
    if (runs <= VERIFY_MOST)
        check_journal();
    else
        files_keep_last("journal");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static unsigned runs;
    struct slice input = slice_make(data, size);
    uint64_t number = 1;
    int fds[SENDERS];

    if (!loop)
        set_up();
    n_told = 0;
    for (int r = ROLE_PORTER; r <= ROLE_SCRIBE; r++)
        fds[r] = connect_worker((enum role)r, HOSTILE);
    fds[USHER] = connect_as(ROLE_USHER, ROLE_PORTER, 0);
    fds[ECHO] = connect_as(ROLE_USHER, ROLE_PORTER, 1);
    for (size_t i = 0; input.len && i < EVENTS_MAX; i++)
        on_event(fds, &input, &number);
    turn();
    for (int r = ROLE_PORTER; r <= ROLE_SCRIBE; r++)
        close(fds[r]);
    hear_all(fds);
    close(fds[USHER]);
    close(fds[ECHO]);
    turn();
    ask_honestly();
    keep_journal_small(++runs);
    return 0;
}
