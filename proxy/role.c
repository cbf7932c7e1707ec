/*
 * The frame every role runs in: what the supervisor sends is taken in here, the rest is the role's own part.
 */
#include "proxy/role.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/pack.h"
#include "base/say.h"
#include "handoff/attestation.h"
#include "proxy/cell.h"
#include "proxy/config.h"
#include "proxy/spawn.h"

static const char *const names[N_ROLES] = {"supervisor", "worker", "porter", "keeper", "scribe", "clerk", "usher"};

const char *role_name(enum role r)
{
    return names[r];
}

static const struct role_ops *ops_of(enum role r)
{
    switch (r) {
    case ROLE_WORKER:
        return &worker_ops;
    case ROLE_PORTER:
        return &porter_ops;
    case ROLE_KEEPER:
        return &keeper_ops;
    case ROLE_SCRIBE:
        return &scribe_ops;
    case ROLE_CLERK:
        return &clerk_ops;
    case ROLE_USHER:
        return &usher_ops;
    default:
        return NULL;
    }
}

void role_label(enum role r, int index, char *out, size_t size)
{
    if (r == ROLE_WORKER)
        snprintf(out, size, "%s %d", role_name(r), index);
    else
        snprintf(out, size, "%s", role_name(r));
}

void role_distrust(struct role_context *c, const char *what)
{
    (void)c;
    say_error("the supervisor sent what its table does not allow: %s", what);
    exit(3);
}

void role_violation(struct role_context *c, enum role peer, int index, const char *what)
{
    struct buf message = {0};

    pack_u8(&message, (uint8_t)peer);
    pack_u16(&message, (uint16_t)index);
    pack_bytes(&message, slice_of(what));
    channel_send(c->control, MSG_VIOLATION, buf_slice(&message), -1);
    buf_free(&message);
}

static void tell(struct role_context *c, enum role_message type, const char *text)
{
    struct buf message = {0};

    pack_bytes(&message, slice_of(text));
    channel_send(c->control, type, buf_slice(&message), -1);
    buf_free(&message);
}

void role_trouble(struct role_context *c, const char *text)
{
    tell(c, MSG_TROUBLE, text);
}

static void fail(struct role_context *c, const struct fault *why)
{
    tell(c, MSG_FAILED, why->text);
    exit(2);
}

/* ---- MSG_CONFIG ---- */

static bool compiles_policy(enum role r)
{
    return r != ROLE_SCRIBE;
}

static void set_clear(struct role_set *s)
{
    policy_free(s->policy);
    conf_free(s->conf);
    bundle_free(s->files);
    *s = (struct role_set){0};
}

/* A failure leaves what there is of it to set_clear. */
static bool set_read(struct role_set *s, enum role role, uint64_t generation, int fd, struct fault *why)
{
    struct slice text;
    size_t n;
    const struct conf_section *const *sections = gateway_sections(&n);

    *s = (struct role_set){.generation = generation};
    if (!(s->files = bundle_open(fd, why)))
        return false;
    if (!bundle_get(s->files, "proxy.conf", &text))
        return fault_set(why, FAULT_MISSING, "no configuration was handed over");
    if (!(s->conf = conf_parse(text, "proxy.conf", "/", sections, n, why)))
        return false;
    if (!compiles_policy(role))
        return true;
    if (!(s->policy = policy_compile(s->conf, why)))
        return false;
    policy_set_generation(s->policy, generation);
    return attestation_use(s->policy, s->conf, s->files, clock_wall_s(), why);
}

static void set_use(struct role_context *c, const struct role_set *s)
{
    c->generation = s->generation;
    c->files = s->files;
    c->conf = s->conf;
    c->policy = s->policy;
}

/* ---- the cell ---- */

static void tell_closed(struct role_context *c, unsigned walls, int ear)
{
    struct buf message = {0};

    pack_u32(&message, walls);
    channel_send(c->control, MSG_CLOSED, buf_slice(&message), ear);
    buf_free(&message);
    if (ear >= 0)
        close(ear);
}

/* What the supervisor hands over before the first peer is here, and no peer has spoken: from now on the cell is closed. */
static void close_in(struct role_context *c)
{
    const struct role_ops *ops = ops_of(c->role);
    struct fault why = {0};
    unsigned walls = 0;
    int ear = -1;

    if (c->closed)
        return;
    c->closed = true;
    if ((ops->gather && !ops->gather(c, &why)) || !cell_close(c->role, c->directory, &walls, &ear, &why))
        fail(c, &why);
    tell_closed(c, walls | c->walls, ear);
}

/* ---- messages ---- */

static void on_config(struct role_context *c, struct slice payload, int fd)
{
    struct unpack u = unpack_start(payload);
    uint64_t generation = unpack_u64(&u);
    struct fault why = {0};
    struct role_set set;
    bool ok = unpack_done(&u) && fd >= 0 && set_read(&set, c->role, generation, fd, &why);

    if (fd >= 0)
        close(fd);
    if (!ok)
        fail(c, &why);
    set_use(c, &set);
}

static void on_peer(struct role_context *c, struct slice payload, int fd)
{
    struct unpack u = unpack_start(payload);
    uint8_t peer = unpack_u8(&u);
    uint16_t index = unpack_u16(&u);

    if (!unpack_done(&u) || fd < 0 || peer >= N_ROLES)
        role_distrust(c, "a damaged PEER");
    close_in(c);
    if (ops_of(c->role)->on_peer)
        ops_of(c->role)->on_peer(c, (enum role)peer, index, fd);
    else
        close(fd);
}

static void on_resource(struct role_context *c, enum role_message type, struct slice payload, int fd)
{
    struct unpack u = unpack_start(payload);
    struct slice name = unpack_bytes(&u);
    bool flag = type == MSG_LISTENER ? unpack_u8(&u) : false;

    if (!unpack_done(&u) || fd < 0)
        role_distrust(c, "a damaged resource");
    if (type == MSG_DIRECTORY)
        c->directory = fd;
    if (ops_of(c->role)->on_resource)
        ops_of(c->role)->on_resource(c, type, name, flag, fd);
    else
        close(fd);
}

static void on_go(struct role_context *c)
{
    struct fault why = {0};

    close_in(c);
    if (!ops_of(c->role)->start(c, &why))
        fail(c, &why);
    channel_send(c->control, MSG_READY, slice_make("", 0), -1);
}

/* ---- another configuration ---- */

/* What was built for a switch, and what was in force before the last one; each may be empty. */
static struct role_set next, before;

static void did(struct role_context *c, enum role_message type, uint64_t generation)
{
    struct buf message = {0};

    pack_u16(&message, (uint16_t)type);
    pack_u64(&message, generation);
    channel_send(c->control, MSG_DID, buf_slice(&message), -1);
    buf_free(&message);
}

static void cannot(struct role_context *c, uint64_t generation, const struct fault *why)
{
    struct buf message = {0};

    pack_u64(&message, generation);
    pack_bytes(&message, slice_of(why->text));
    channel_send(c->control, MSG_CANNOT, buf_slice(&message), -1);
    buf_free(&message);
}

static void abandon(struct role_context *c)
{
    if (next.generation && ops_of(c->role)->abandon)
        ops_of(c->role)->abandon(c);
    set_clear(&next);
}

static void on_reload(struct role_context *c, uint64_t generation, int fd)
{
    const struct role_ops *ops = ops_of(c->role);
    struct fault why = {0};

    abandon(c);
    if (set_read(&next, c->role, generation, fd, &why) && (!ops->prepare || ops->prepare(c, &next, &why))) {
        did(c, MSG_RELOAD, generation);
        return;
    }
    set_clear(&next);
    cannot(c, generation, &why);
}

static void on_settle(struct role_context *c, uint64_t generation)
{
    if (before.generation && ops_of(c->role)->settle)
        ops_of(c->role)->settle(c);
    set_clear(&before);
    did(c, MSG_SETTLE, generation);
}

static void on_switch(struct role_context *c, uint64_t generation)
{
    if (next.generation != generation || before.generation)
        role_distrust(c, "a switch to what was not built, or before the last one was settled");
    before = (struct role_set){c->generation, c->files, c->conf, c->policy};
    set_use(c, &next);
    next = (struct role_set){0};
    if (ops_of(c->role)->adopt)
        ops_of(c->role)->adopt(c, &before);
    did(c, MSG_SWITCH, generation);
}

static void on_change(struct role_context *c, enum role_message type, struct slice payload, int fd)
{
    struct unpack u = unpack_start(payload);
    uint64_t generation = unpack_u64(&u);

    if (!unpack_done(&u) || !generation || (fd >= 0) != (type == MSG_RELOAD))
        role_distrust(c, "a damaged message about another configuration");
    if (type == MSG_RELOAD)
        on_reload(c, generation, fd);
    else if (type == MSG_SWITCH)
        on_switch(c, generation);
    else if (type == MSG_SETTLE)
        on_settle(c, generation);
    else
        abandon(c);
    if (fd >= 0)
        close(fd);
}

static void on_message(void *arg, uint16_t type, struct slice payload, int fd)
{
    struct role_context *c = arg;

    switch (type) {
    case MSG_CONFIG:
        on_config(c, payload, fd);
        break;
    case MSG_PEER:
        on_peer(c, payload, fd);
        break;
    case MSG_LISTENER:
    case MSG_SHARED:
    case MSG_DIRECTORY:
        on_resource(c, (enum role_message)type, payload, fd);
        break;
    case MSG_GO:
        on_go(c);
        break;
    case MSG_STOP:
        ops_of(c->role)->stop(c);
        break;
    case MSG_PING:
        channel_send(c->control, MSG_PONG, slice_make("", 0), -1);
        break;
    case MSG_RELOAD:
    case MSG_SWITCH:
    case MSG_SETTLE:
    case MSG_ABANDON:
        on_change(c, (enum role_message)type, payload, fd);
        break;
    default:
        if (!ops_of(c->role)->on_control)
            role_distrust(c, "an unknown message");
        ops_of(c->role)->on_control(c, (enum role_message)type, payload);
    }
}

/* The supervisor is gone: nothing of the gateway may outlive it. */
static void on_end(void *arg)
{
    (void)arg;
    _exit(3);
}

static const struct channel_handler handler = {on_message, on_end};

static bool find_role(const char *name, enum role *out)
{
    for (int r = ROLE_WORKER; r < N_ROLES; r++)
        if (strcmp(name, names[r]) == 0) {
            *out = (enum role)r;
            return true;
        }
    return false;
}

/*
 * Signals are the supervisor's business: a terminal's Ctrl-C reaches the whole group, and only it decides. A file over
 * the system's limit (ulimit -f) is an error of write(), no reason to die.
 */
static void ignore_signals(void)
{
    signal(SIGINT, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
}

static void speak_as(const struct role_context *c)
{
    char name[40];

    role_label(c->role, c->index, name, sizeof name);
    say_as(name);
}

int role_main(const char *name, int index, bool apart, bool debug)
{
    static struct role_context c = {.directory = -1};

    if (!find_role(name, &c.role) || index < 0 || fcntl(ROLE_CONTROL_FD, F_GETFD) < 0) {
        say_error("roles are started by exeat serve, not by hand");
        return 2;
    }
    c.index = index;
    c.walls = apart ? CELL_NETWORK : 0;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_DUMPABLE, ROLE_DUMPABLE);
    fcntl(ROLE_CONTROL_FD, F_SETFD, FD_CLOEXEC);
    ignore_signals();
    speak_as(&c);
    if (debug)
        say_level(SAY_DEBUG);
    cell_prepare();
    c.loop = loop_new();
    c.control = channel_new(c.loop, ROLE_CONTROL_FD, &handler, &c);
    loop_run(c.loop);
    return 0;
}
