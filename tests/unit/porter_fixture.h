/*
 * For tests: the porter over its real channels; a worker and a scribe are played here, the name server too. As root a test
 * has a network of its own, where 8.8.8.8 and 10.9.9.9 are this host; otherwise only what loopback allows is tried.
 * Include after cmocka.h; bench_set_up and bench_tear_down are the group's.
 */
#ifndef TESTS_UNIT_PORTER_FIXTURE_H
#define TESTS_UNIT_PORTER_FIXTURE_H

#include <errno.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/pack.h"
#include "journal/record.h"
#include "proxy/config.h"
#include "tests/unit/nameserver.h"
#include "tests/unit/record_fixture.h"
#include "tests/unit/scratch.h"

enum { PORT = 39181, CLOSED_PORT = 39182, PUBLISH_PORT = 39183, EXCHANGE_BYTE = 0xab };

static const struct script scripts[] = {
    {.name = "global.test", .answer = {{NULL, TYPE_A, "8.8.8.8"}}},
    {.name = "mixed.test", .answer = {{NULL, TYPE_A, "10.9.9.9"}, {NULL, TYPE_A, "8.8.8.8"}, {NULL, TYPE_AAAA, "::1"}}},
    {.name = "private.test", .answer = {{NULL, TYPE_A, "10.9.9.9"}}},
    {.name = "intranet.test", .answer = {{NULL, TYPE_A, "10.9.9.9"}}},
    {.name = "rebound.test", .answer = {{NULL, TYPE_A, "127.0.0.1"}}},
    {.name = "metadata.test", .answer = {{NULL, TYPE_A, "169.254.169.254"}}},
    {.name = "nx.test", .code = NXDOMAIN},
    {.name = "silent.test", .silent = true},
    {.name = "*.open.test", .code = NXDOMAIN},
    {0},
};

static const char services[] =
    "services:\n"
    "  named:\n"
    "    hosts: [global.test, mixed.test, private.test, rebound.test, metadata.test, nx.test, silent.test]\n"
    "    ports: [39181]\n    scope: a\n    allow: [\"GET /**\"]\n    audit: \"waived: a test\"\n"
    "  intranet:\n"
    "    hosts: [intranet.test]\n    allow-private: true\n"
    "    ports: [39181]\n    scope: a\n    allow: [\"GET /**\"]\n    audit: \"waived: a test\"\n"
    "  open:\n"
    "    hosts: [\"*.open.test\"]\n"
    "    ports: [39181]\n    scope: a\n    allow: [\"GET /**\"]\n    audit: \"waived: a test\"\n"
    "  fixed:\n"
    "    hosts: [fixed.test]\n    addresses: [\"127.0.0.1:39181\"]\n"
    "    ports: [443]\n    scope: a\n    allow: [\"GET /**\"]\n    audit: \"waived: a test\"\n"
    "  away:\n"
    "    hosts: [away.test]\n    addresses: [\"127.0.0.1:39182\"]\n"
    "    ports: [443]\n    scope: a\n    allow: [\"GET /**\"]\n    audit: \"waived: a test\"\n"
    "  chosen:\n"
    "    hosts: [chosen.test]\n    addresses: [\"127.9.9.9:39184\"]\n"
    "    ports: [443]\n    scope: a\n    allow: [\"GET /**\"]\n    audit: \"waived: a test\"\n"
    "  beside:\n"
    "    hosts: [beside.test]\n    allow-private: true\n    addresses: [\"10.9.9.9:39184\"]\n"
    "    ports: [443]\n    scope: a\n    allow: [\"GET /**\"]\n    audit: \"waived: a test\"\n"
    "  later:\n"
    "    hosts: [later.test]\n    allow-private: true\n    addresses: [\"172.20.1.1:39184\"]\n"
    "    ports: [443]\n    scope: a\n    allow: [\"GET /**\"]\n    audit: \"waived: a test\"\n"
    "  shut:\n"
    "    hosts: [shut.test]\n    addresses: [\"127.0.0.1:39181\"]\n"
    "    ports: [443]\n    scope: a\n    allow: [\"GET /**\"]\n    audit: \"waived: a test\"\n"
    "  own:\n"
    "    hosts: [own.test]\n    addresses: [\"127.0.0.1:39183\"]\n"
    "    ports: [443]\n    scope: a\n    allow: [\"GET /**\"]\n    audit: \"waived: a test\"\n";

enum scribe_mood { WRITES, WAITS, REFUSES };

static struct bench {
    struct role_context context;
    uint64_t says; /* the generation that the worker says it decided by */
    struct loop *loop;
    struct server server;
    struct channel *worker, *scribe, *supervisor;
    int origin;
    enum scribe_mood mood;
    uint64_t last_seq;
    struct buf journal; /* members of all records since the last question */
    int n_answers, fd;
    uint32_t id;
    enum role_message type;
    enum reason reason;
    char text[256]; /* address or detail */
    int limited;        /* answers to others than the first worker that say so */
    enum role accused;  /* whom the porter may tell of */
    int reported, gone; /* violations; channels of workers that were dropped */
    bool own_network;
    bool malformed; /* something the porter sent; an assertion would jump out of the loop */
} bench;

/* ---- the scribe ---- */

static inline void scribe_says(enum role_message type, uint64_t seq)
{
    struct buf out = {0};

    pack_u64(&out, seq);
    if (type == MSG_REFUSED)
        pack_bytes(&out, SLICE("the disk is full"));
    channel_send(bench.scribe, type, buf_slice(&out), -1);
    buf_free(&out);
}

static inline void on_record(void *arg, uint16_t type, struct slice payload, int fd)
{
    struct unpack u = unpack_start(payload);
    uint64_t first = unpack_u64(&u);
    uint32_t count = unpack_u32(&u);
    enum record_kind kind;
    bool bad = false;

    (void)arg;
    bench.malformed |= type != MSG_RECORDS || fd >= 0;
    for (uint32_t i = 0; i < count; i++) {
        struct buf members = {0};

        bench.malformed |= !record_next(&u.left, &kind, &members, &bad);
        buf_printf(&bench.journal, "%s %.*s\n", record_kind_name(kind), SLICE_ARG(buf_slice(&members)));
        buf_free(&members);
    }
    bench.last_seq = first + count - 1;
    if (bench.mood != WAITS)
        scribe_says(bench.mood == WRITES ? MSG_RECORDED : MSG_REFUSED, bench.last_seq);
}

static inline void on_scribe_end(void *arg)
{
    (void)arg;
}

static const struct channel_handler scribe_handler = {on_record, on_scribe_end};

/* ---- the worker ---- */

static inline void on_answer(void *arg, uint16_t type, struct slice payload, int fd)
{
    struct unpack u = unpack_start(payload);
    struct slice text;

    bench.n_answers++;
    bench.type = (enum role_message)type;
    bench.fd = fd;
    bench.id = unpack_u32(&u);
    bench.reason = type == MSG_NOT_DIALLED || type == MSG_NOT_FOUND ? (enum reason)unpack_u16(&u) : REASON_NONE;
    bench.limited += arg && (bench.reason == REASON_LIMIT_DIALS || bench.reason == REASON_LIMIT_LOOKUPS);
    text = unpack_bytes(&u);
    snprintf(bench.text, sizeof bench.text, "%.*s", SLICE_ARG(text));
    bench.malformed |= !unpack_done(&u);
    loop_stop(bench.loop);
}

static inline void on_worker_end(void *arg)
{
    (void)arg;
    bench.gone++;
}

static const struct channel_handler worker_handler = {on_answer, on_worker_end};

static inline void pack_dial_of(struct buf *out, uint32_t id, const char *sandbox, const char *host, uint16_t port)
{
    struct id exchange = {{EXCHANGE_BYTE}};

    pack_u32(out, id);
    pack_u64(out, bench.says);
    buf_append(out, slice_make(exchange.bytes, sizeof exchange.bytes));
    pack_bytes(out, slice_of(sandbox));
    pack_bytes(out, slice_of(host));
    pack_u16(out, port);
}

static inline void pack_dial(struct buf *out, uint32_t id, const char *host, uint16_t port)
{
    pack_dial_of(out, id, "sb-1", host, port);
}

static inline void send_dial(uint32_t id, const char *host, uint16_t port)
{
    struct buf out = {0};

    buf_clear(&bench.journal);
    bench.n_answers = 0;
    bench.fd = -1;
    pack_dial(&out, id, host, port);
    assert_true(channel_send(bench.worker, MSG_DIAL, buf_slice(&out), -1));
    buf_free(&out);
}

/* As an usher does. more: bytes behind the message. */
static inline void send_look_up(struct channel *usher, uint32_t id, const char *client, const char *from, const char *host, const char *more)
{
    struct buf out = {0};

    pack_u32(&out, id);
    pack_u64(&out, bench.says);
    buf_append(&out, SLICE("0123456789abcdef"));
    pack_bytes(&out, slice_of(client));
    pack_bytes(&out, slice_of(from));
    pack_bytes(&out, slice_of(host));
    pack_u8(&out, 0);
    buf_text(&out, more);
    channel_send(usher, MSG_LOOKUP, buf_slice(&out), -1);
    buf_free(&out);
}

static inline void send_cancel(uint32_t id)
{
    struct buf out = {0};

    pack_u32(&out, id);
    assert_true(channel_send(bench.worker, MSG_DIAL_CANCEL, buf_slice(&out), -1));
    buf_free(&out);
}

static inline void stop(void *arg)
{
    loop_stop(arg);
}

static inline void turn_for(int64_t ms)
{
    struct timer *t = timer_new(bench.loop, stop, bench.loop);

    timer_set(t, ms);
    loop_run(bench.loop);
    timer_free(t);
}

static inline bool journal_has(const char *text)
{
    return slice_search(buf_slice(&bench.journal), slice_of(text)) >= 0;
}

/* ---- setting up ---- */

static inline void give_address(int fd, const char *name, const char *address)
{
    struct ifreq r = {0};
    struct sockaddr_in in = {.sin_family = AF_INET};
    struct addr a;

    assert_true(addr_parse_ip(slice_of(address), &a));
    memcpy(&in.sin_addr, a.ip, 4);
    snprintf(r.ifr_name, sizeof r.ifr_name, "%s", name);
    memcpy(&r.ifr_addr, &in, sizeof in);
    assert_int_equal(ioctl(fd, SIOCSIFADDR, &r), 0);
    r.ifr_flags = IFF_UP;
    assert_int_equal(ioctl(fd, SIOCSIFFLAGS, &r), 0);
}

static inline bool make_network(void)
{
    int fd;

    if (geteuid() != 0 || unshare(CLONE_NEWNET) != 0)
        return false;
    fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    give_address(fd, "lo", "127.0.0.1");
    give_address(fd, "lo:1", "10.9.9.9");
    give_address(fd, "lo:2", "8.8.8.8");
    close(fd);
    return true;
}

static inline int open_origin(void)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), one = 1;

    in.sin_addr.s_addr = htonl(bench.own_network ? INADDR_ANY : INADDR_LOOPBACK);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    while (bind(fd, (struct sockaddr *)&in, sizeof in) != 0) { /* without a network of its own: its ports are one test's at a time */
        assert_true(errno == EADDRINUSE && !bench.own_network);
        usleep(20000);
    }
    assert_int_equal(listen(fd, 32), 0);
    return fd;
}

static inline struct conf *read_conf(const char *listed)
{
    struct buf server = {0}, text = {0};
    size_t n;
    const struct conf_section *const *sections = gateway_sections(&n);
    struct fault why = {0};
    struct conf *c;

    addr_text(&server, &bench.server.addr);
    buf_printf(&text, "gateway: {name: gw.test}\n"
                      "resolver: {servers: [\"%.*s\"], timeout: 200ms}\n"
                      "limits: {dial-time: 2s, names: 12, sandbox-names: 3}\n"
                      "publish: {address: \"127.0.0.1:39183\"}\n%s", SLICE_ARG(buf_slice(&server)), listed);
    c = conf_parse(buf_slice(&text), "proxy.conf", "/", sections, n, &why);
    if (!c)
        fail_msg("%s", why.text);
    buf_free(&server);
    buf_free(&text);
    return c;
}

static inline struct channel *join_as(enum role role, int index)
{
    int pair[2];

    assert_true(channel_pair(pair, NULL));
    porter_ops.on_peer(&bench.context, role, index, pair[1]);
    return channel_new(bench.loop, pair[0], &worker_handler, index ? &bench : NULL);
}

static inline struct channel *join_worker(int index)
{
    return join_as(ROLE_WORKER, index);
}

static inline void on_report(void *arg, uint16_t type, struct slice payload, int fd)
{
    struct unpack u = unpack_start(payload);

    (void)arg;
    bench.malformed |= type != MSG_VIOLATION || fd >= 0 || unpack_u8(&u) != bench.accused || unpack_u16(&u) != 0 ||
                       unpack_bytes(&u).len == 0 || !unpack_done(&u);
    bench.reported++;
}

static const struct channel_handler supervisor_handler = {on_report, on_scribe_end};

/* As the supervisor says it: a publish listener, and one on a port that the kernel chose. */
static inline void tell_own(void)
{
    struct buf payload = {0};

    pack_u16(&payload, 2);
    pack_bytes(&payload, SLICE("127.0.0.1:39183"));
    pack_bytes(&payload, SLICE("0.0.0.0:39184"));
    porter_ops.on_control(&bench.context, MSG_OWN, buf_slice(&payload));
    buf_free(&payload);
}

/* One service is closed by hand. */
static inline void tell_revocations(void)
{
    const struct suspension shut = {.name = SLICE("shut"), .by = SLICE("admin")};
    struct revocations *r;
    struct scratch s;
    char *path;

    scratch_make(&s);
    path = file_join(s.path, "revocations");
    assert_non_null(r = revocations_create(path, NULL));
    assert_true(revocations_suspend(r, REVOKE_CLOSE, &shut, NULL));
    porter_ops.on_resource(&bench.context, MSG_SHARED, SLICE("revocations"), false, dup(revocations_fd(r)));
    revocations_free(r);
    free(path);
    scratch_remove(&s);
}

static inline int bench_set_up(void **state)
{
    struct fault why = {0};
    int pair[2];

    (void)state;
    bench.own_network = make_network();
    bench.origin = open_origin();
    bench.loop = bench.context.loop = loop_new();
    server_open(&bench.server, bench.loop, scripts);
    bench.context.role = ROLE_PORTER;
    bench.context.conf = read_conf(services);
    bench.context.policy = policy_compile(bench.context.conf, &why);
    if (!bench.context.policy)
        fail_msg("%s", why.text);
    assert_true(channel_pair(pair, NULL));
    bench.scribe = channel_new(bench.loop, pair[0], &scribe_handler, NULL);
    porter_ops.on_peer(&bench.context, ROLE_SCRIBE, 0, pair[1]);
    bench.worker = join_worker(0);
    bench.accused = ROLE_WORKER;
    assert_true(channel_pair(pair, NULL));
    bench.context.control = channel_new(bench.loop, pair[0], &worker_handler, NULL);
    bench.supervisor = channel_new(bench.loop, pair[1], &supervisor_handler, NULL);
    assert_false(porter_ops.gather(&bench.context, &why)); /* not before it knows what is never to be dialled */
    tell_own();
    assert_false(porter_ops.gather(&bench.context, &why)); /* nor before it knows what is closed */
    tell_revocations();
    if (!porter_ops.gather(&bench.context, &why) || !porter_ops.start(&bench.context, &why))
        fail_msg("%s", why.text);
    scribe_says(MSG_RECORDED, 0);
    turn_for(10);
    return 0;
}

static inline int bench_tear_down(void **state)
{
    (void)state;
    assert_false(bench.malformed);
    porter_ops.stop(&bench.context);
    loop_run(bench.loop);
    channel_free(bench.worker);
    channel_free(bench.scribe);
    channel_free(bench.context.control);
    channel_free(bench.supervisor);
    server_close(&bench.server);
    close(bench.origin);
    buf_free(&bench.journal);
    policy_free(bench.context.policy);
    conf_free(bench.context.conf);
    turn_for(1);
    loop_free(bench.loop);
    return 0;
}

static inline void check_descriptor(void)
{
    int served = accept(bench.origin, NULL, NULL);
    char c = 0;

    assert_true(served >= 0);
    assert_int_equal(send(bench.fd, "x", 1, MSG_NOSIGNAL), 1);
    usleep(2000);
    assert_int_equal(recv(served, &c, 1, MSG_DONTWAIT), 1);
    close(served);
    close(bench.fd);
}

#endif
