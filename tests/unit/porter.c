/*
 * The porter over its real channels: a worker and a scribe are played here, the name server too. As root the test has a
 * network of its own, where 8.8.8.8 and 10.9.9.9 are this host; otherwise only what loopback allows is tried.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/pack.h"
#include "journal/record.h"
#include "proxy/config.h"
#include "tests/unit/nameserver.h"

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
    {0},
};

/* Another configuration: "fixed" is another service, "away" is gone, "named" is as it was. */
static const char other_services[] =
    "services:\n"
    "  named:\n"
    "    hosts: [global.test, mixed.test, private.test, rebound.test, metadata.test, nx.test, silent.test]\n"
    "    ports: [39181]\n    scope: a\n    allow: [\"GET /**\"]\n    audit: \"waived: a test\"\n"
    "  fixed:\n"
    "    hosts: [other.test]\n    addresses: [\"127.0.0.1:39181\"]\n"
    "    ports: [443]\n    scope: a\n    allow: [\"GET /**\"]\n    audit: \"waived: a test\"\n";

static const char services[] =
    "services:\n"
    "  named:\n"
    "    hosts: [global.test, mixed.test, private.test, rebound.test, metadata.test, nx.test, silent.test]\n"
    "    ports: [39181]\n    scope: a\n    allow: [\"GET /**\"]\n    audit: \"waived: a test\"\n"
    "  intranet:\n"
    "    hosts: [intranet.test]\n    allow-private: true\n"
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
    int reported, gone; /* violations; channels of workers that were dropped */
    bool own_network;
    bool malformed; /* something the porter sent; an assertion would jump out of the loop */
} bench;

/* ---- the scribe ---- */

static void scribe_says(enum role_message type, uint64_t seq)
{
    struct buf out = {0};

    pack_u64(&out, seq);
    if (type == MSG_REFUSED)
        pack_bytes(&out, SLICE("the disk is full"));
    channel_send(bench.scribe, type, buf_slice(&out), -1);
    buf_free(&out);
}

static void on_record(void *arg, uint16_t type, struct slice payload, int fd)
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

static void on_scribe_end(void *arg)
{
    (void)arg;
}

static const struct channel_handler scribe_handler = {on_record, on_scribe_end};

/* ---- the worker ---- */

static void on_answer(void *arg, uint16_t type, struct slice payload, int fd)
{
    struct unpack u = unpack_start(payload);
    struct slice text;

    (void)arg;
    bench.n_answers++;
    bench.type = (enum role_message)type;
    bench.fd = fd;
    bench.id = unpack_u32(&u);
    bench.reason = type == MSG_NOT_DIALLED ? (enum reason)unpack_u16(&u) : REASON_NONE;
    text = unpack_bytes(&u);
    snprintf(bench.text, sizeof bench.text, "%.*s", SLICE_ARG(text));
    bench.malformed |= !unpack_done(&u);
    loop_stop(bench.loop);
}

static void on_worker_end(void *arg)
{
    (void)arg;
    bench.gone++;
}

static const struct channel_handler worker_handler = {on_answer, on_worker_end};

static void pack_dial(struct buf *out, uint32_t id, const char *host, uint16_t port)
{
    struct id exchange = {{EXCHANGE_BYTE}};

    pack_u32(out, id);
    pack_u64(out, bench.says);
    buf_append(out, slice_make(exchange.bytes, sizeof exchange.bytes));
    pack_bytes(out, SLICE("sb-1"));
    pack_bytes(out, slice_of(host));
    pack_u16(out, port);
}

static void send_dial(uint32_t id, const char *host, uint16_t port)
{
    struct buf out = {0};

    buf_clear(&bench.journal);
    bench.n_answers = 0;
    bench.fd = -1;
    pack_dial(&out, id, host, port);
    assert_true(channel_send(bench.worker, MSG_DIAL, buf_slice(&out), -1));
    buf_free(&out);
}

static void send_cancel(uint32_t id)
{
    struct buf out = {0};

    pack_u32(&out, id);
    assert_true(channel_send(bench.worker, MSG_DIAL_CANCEL, buf_slice(&out), -1));
    buf_free(&out);
}

static void stop(void *arg)
{
    loop_stop(arg);
}

static void turn_for(int64_t ms)
{
    struct timer *t = timer_new(bench.loop, stop, bench.loop);

    timer_set(t, ms);
    loop_run(bench.loop);
    timer_free(t);
}

static bool journal_has(const char *text)
{
    return slice_search(buf_slice(&bench.journal), slice_of(text)) >= 0;
}

/* ---- setting up ---- */

static void give_address(int fd, const char *name, const char *address)
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

static bool make_network(void)
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

static int open_origin(void)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), one = 1;

    in.sin_addr.s_addr = htonl(bench.own_network ? INADDR_ANY : INADDR_LOOPBACK);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    assert_int_equal(bind(fd, (struct sockaddr *)&in, sizeof in), 0);
    assert_int_equal(listen(fd, 32), 0);
    return fd;
}

static struct conf *read_conf(const char *listed)
{
    struct buf server = {0}, text = {0};
    size_t n;
    const struct conf_section *const *sections = gateway_sections(&n);
    struct fault why = {0};
    struct conf *c;

    addr_text(&server, &bench.server.addr);
    buf_printf(&text, "gateway: {name: gw.test}\n"
                      "resolver: {servers: [\"%.*s\"], timeout: 200ms}\n"
                      "limits: {dial-time: 2s}\n"
                      "publish: {address: \"127.0.0.1:39183\"}\n%s", SLICE_ARG(buf_slice(&server)), listed);
    c = conf_parse(buf_slice(&text), "proxy.conf", "/", sections, n, &why);
    if (!c)
        fail_msg("%s", why.text);
    buf_free(&server);
    buf_free(&text);
    return c;
}

static struct channel *join_worker(int index)
{
    int pair[2];

    assert_true(channel_pair(pair, NULL));
    porter_ops.on_peer(&bench.context, ROLE_WORKER, index, pair[1]);
    return channel_new(bench.loop, pair[0], &worker_handler, NULL);
}

static void on_report(void *arg, uint16_t type, struct slice payload, int fd)
{
    struct unpack u = unpack_start(payload);

    (void)arg;
    bench.malformed |= type != MSG_VIOLATION || fd >= 0 || unpack_u8(&u) != ROLE_WORKER || unpack_u16(&u) != 0 ||
                       unpack_bytes(&u).len == 0 || !unpack_done(&u);
    bench.reported++;
}

static const struct channel_handler supervisor_handler = {on_report, on_scribe_end};

/* As the supervisor says it: a publish listener, and one on a port that the kernel chose. */
static void tell_own(void)
{
    struct buf payload = {0};

    pack_u16(&payload, 2);
    pack_bytes(&payload, SLICE("127.0.0.1:39183"));
    pack_bytes(&payload, SLICE("0.0.0.0:39184"));
    porter_ops.on_control(&bench.context, MSG_OWN, buf_slice(&payload));
    buf_free(&payload);
}

static int set_up(void **state)
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
    assert_true(channel_pair(pair, NULL));
    bench.context.control = channel_new(bench.loop, pair[0], &worker_handler, NULL);
    bench.supervisor = channel_new(bench.loop, pair[1], &supervisor_handler, NULL);
    assert_false(porter_ops.gather(&bench.context, &why)); /* not before it knows what is never to be dialled */
    tell_own();
    if (!porter_ops.gather(&bench.context, &why) || !porter_ops.start(&bench.context, &why))
        fail_msg("%s", why.text);
    scribe_says(MSG_RECORDED, 0);
    turn_for(10);
    return 0;
}

static int tear_down(void **state)
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

/* ---- the rows ---- */

static const struct row {
    const char *name, *host;
    uint16_t port;
    const char *address; /* dialled; NULL: refused with reason */
    enum reason reason;
    const char *record[4]; /* all in the journal, before the answer */
    bool own_network;      /* needs one */
} rows[] = {
    {"a fixed address is dialled, loopback too", "fixed.test", 443, "127.0.0.1:39181", REASON_NONE,
     {"dial ", "\"reason\":\"allowed\"", "\"address\":\"127.0.0.1:39181\"", "\"sandbox\":\"sb-1\""}, false},
    {"the record names exchange, service and destination", "fixed.test", 443, "127.0.0.1:39181", REASON_NONE,
     {"\"id\":\"ab000000-0000", "\"service\":\"fixed\"", "\"host\":\"fixed.test\"", "\"outcome\":\"complete\""}, false},
    {"nobody listens there", "away.test", 443, NULL, REASON_CONNECT_REFUSED,
     {"\"reason\":\"connect_refused\"", "\"outcome\":\"failed\"", "\"addresses\":\"127.0.0.1:39182\""}, false},
    {"the gateway's own listener is never dialled", "own.test", 443, NULL, REASON_ADDRESS_DENIED,
     {"\"reason\":\"address_denied\"", "\"outcome\":\"refused\"", "own listener"}, false},
    {"nor one on every address, by any of loopback's", "chosen.test", 443, NULL, REASON_ADDRESS_DENIED,
     {"\"reason\":\"address_denied\"", "\"outcome\":\"refused\"", "127.9.9.9:39184 (own listener)"}, false},
    {"a host that no service lists", "evil.test", 443, NULL, REASON_DIAL_UNLISTED,
     {"\"reason\":\"dial_unlisted\"", "\"severity\":\"high\"", "\"host\":\"evil.test\""}, false},
    {"a listed host on a port that is not", "fixed.test", 8443, NULL, REASON_DIAL_UNLISTED,
     {"\"reason\":\"dial_unlisted\"", "\"port\":8443"}, false},
    {"a name that points to loopback", "rebound.test", PORT, NULL, REASON_ADDRESS_DENIED,
     {"\"reason\":\"address_denied\"", "127.0.0.1:39181 (loopback)", "\"severity\":\"high\""}, false},
    {"a name that points to cloud metadata", "metadata.test", PORT, NULL, REASON_ADDRESS_DENIED,
     {"\"reason\":\"address_denied\"", "(metadata)"}, false},
    {"a name that points to a private address", "private.test", PORT, NULL, REASON_ADDRESS_DENIED,
     {"\"reason\":\"address_denied\"", "(private)"}, false},
    {"a name that does not exist", "nx.test", PORT, NULL, REASON_NAME_NOT_RESOLVED,
     {"\"reason\":\"name_not_resolved\"", "NXDOMAIN"}, false},
    {"a name server that does not answer", "silent.test", PORT, NULL, REASON_NAME_TIMEOUT,
     {"\"reason\":\"name_timeout\""}, false},
    {"a global address is dialled", "global.test", PORT, "8.8.8.8:39181", REASON_NONE, {"\"reason\":\"allowed\""}, true},
    {"a private address with allow-private", "intranet.test", PORT, "10.9.9.9:39181", REASON_NONE,
     {"\"reason\":\"allowed\"", "\"service\":\"intranet\""}, true},
    {"of a mixed set only what is allowed is dialled, and the rest is a finding", "mixed.test", PORT, "8.8.8.8:39181",
     REASON_NONE, {"finding ", "\"reason\":\"address_denied\"", "10.9.9.9:39181 (private)", "[::1]:39181 (loopback)"},
     true},
};

static void check_descriptor(void)
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

static void run_row(const struct row *r, uint32_t id)
{
    send_dial(id, r->host, r->port);
    loop_run(bench.loop);
    assert_int_equal(bench.id, id);
    if (!r->address)
        turn_for(10); /* what nobody waits for is on its way yet */
    for (int i = 0; i < 4 && r->record[i]; i++)
        if (!journal_has(r->record[i]))
            fail_msg("%s: no %s in %.*s", r->name, r->record[i], SLICE_ARG(buf_slice(&bench.journal)));
    if (r->address) {
        if (bench.type != MSG_DIALLED)
            fail_msg("%s: %s %s", r->name, reason_code(bench.reason), bench.text);
        assert_string_equal(bench.text, r->address);
        check_descriptor();
    } else {
        assert_int_equal(bench.type, MSG_NOT_DIALLED);
        assert_int_equal(bench.fd, -1);
        assert_string_equal(reason_code(bench.reason), reason_code(r->reason));
        assert_true(*bench.text);
        assert_int_equal(accept(bench.origin, NULL, NULL), -1); /* nobody was dialled */
    }
}

static void test_rows(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].own_network && !bench.own_network)
            continue;
        print_message("  %s\n", rows[i].name);
        run_row(&rows[i], (uint32_t)i);
    }
}

/* The record first; the descriptor only when it is written. */
static void test_no_record_no_descriptor(void **state)
{
    int served;
    char c;

    (void)state;
    bench.mood = WAITS;
    send_dial(100, "fixed.test", 443);
    turn_for(60);
    assert_true(journal_has("\"outcome\":\"complete\""));
    assert_int_equal(bench.n_answers, 0);
    scribe_says(MSG_RECORDED, bench.last_seq);
    loop_run(bench.loop);
    assert_int_equal(bench.type, MSG_DIALLED);
    check_descriptor();

    send_dial(101, "fixed.test", 443);
    turn_for(60);
    assert_int_equal(bench.n_answers, 0);
    scribe_says(MSG_REFUSED, bench.last_seq);
    loop_run(bench.loop);
    assert_int_equal(bench.type, MSG_NOT_DIALLED);
    assert_int_equal(bench.reason, REASON_RECORD_UNAVAILABLE);
    served = accept(bench.origin, NULL, NULL);
    assert_int_equal(recv(served, &c, 1, 0), 0); /* closed */
    close(served);

    bench.mood = WRITES;
    send_dial(102, "fixed.test", 443); /* the journal is closed: nothing is even tried */
    loop_run(bench.loop);
    assert_int_equal(bench.reason, REASON_RECORD_UNAVAILABLE);
    assert_int_equal(accept(bench.origin, NULL, NULL), -1);
    scribe_says(MSG_RECORDED, bench.last_seq);
    turn_for(20);
}

static void test_cancel(void **state)
{
    int served;
    char c;

    (void)state;
    send_dial(200, "silent.test", PORT); /* while it is looked up */
    turn_for(30);
    send_cancel(200);
    turn_for(300);
    assert_int_equal(bench.n_answers, 0);
    assert_true(journal_has("\"outcome\":\"cut\""));

    bench.mood = WAITS;
    send_dial(201, "fixed.test", 443); /* while it is recorded */
    turn_for(60);
    send_cancel(201);
    turn_for(20);
    scribe_says(MSG_RECORDED, bench.last_seq);
    bench.mood = WRITES;
    turn_for(40);
    assert_int_equal(bench.n_answers, 0);
    served = accept(bench.origin, NULL, NULL);
    assert_int_equal(recv(served, &c, 1, 0), 0);
    close(served);

    send_cancel(999); /* one that was answered, or never was: fine */
    send_dial(201, "fixed.test", 443); /* the number is free again */
    loop_run(bench.loop);
    assert_int_equal(bench.type, MSG_DIALLED);
    check_descriptor();
}

/* ---- another configuration ---- */

static void expect(const char *what, uint64_t generation, const char *host, bool dialled, const char *recorded)
{
    bench.says = generation;
    send_dial(77, host, 443);
    loop_run(bench.loop);
    if ((bench.type == MSG_DIALLED) != dialled)
        fail_msg("%s: %s", what, dialled ? "not dialled" : "dialled");
    if (dialled)
        check_descriptor();
    turn_for(10);
    if (recorded && !journal_has(recorded))
        fail_msg("%s: no %s in %.*s", what, recorded, SLICE_ARG(buf_slice(&bench.journal)));
}

/* Two look-ups are under way when the old set is dropped: that of a service that is as it was goes on. */
static void settle_under_way(void)
{
    bench.says = 1;
    send_dial(80, "fixed.test", 443);
    turn_for(1); /* it has not begun, or waits for its record */
    porter_ops.settle(&bench.context);
    if (!bench.n_answers)
        loop_run(bench.loop);
    assert_int_equal(bench.id, 80);
    if (bench.type == MSG_DIALLED)
        check_descriptor(); /* it was given before */
    send_dial(81, "silent.test", PORT);
    loop_run(bench.loop);
    assert_int_equal(bench.reason, REASON_NAME_TIMEOUT);
}

static struct role_set build(uint64_t generation, const char *listed)
{
    struct role_set s = {.generation = generation, .conf = read_conf(listed)};

    s.policy = policy_compile(s.conf, NULL);
    assert_non_null(s.policy);
    policy_set_generation(s.policy, generation);
    return s;
}

/* As the frame of every role does it; the set before is given. */
static struct role_set adopt(const struct role_set *next)
{
    struct role_set before = {bench.context.generation, NULL, bench.context.conf, bench.context.policy};

    bench.context.generation = next->generation;
    bench.context.conf = next->conf;
    bench.context.policy = next->policy;
    porter_ops.adopt(&bench.context, &before);
    return before;
}

static void drop(struct role_set *s)
{
    policy_free(s->policy);
    conf_free(s->conf);
}

static void test_two_generations(void **state)
{
    struct role_set next = build(2, other_services), last = build(3, services), before;

    (void)state;
    policy_set_generation(bench.context.policy, 1);
    bench.context.generation = 1;
    assert_true(porter_ops.prepare(&bench.context, &next, NULL));
    expect("built, and not in force", 2, "other.test", false, "\"reason\":\"dial_unlisted\"");
    porter_ops.abandon(&bench.context);
    expect("given up", 1, "fixed.test", true, NULL);
    assert_true(porter_ops.prepare(&bench.context, &next, NULL));
    before = adopt(&next);
    expect("in force, by the old one", 1, "fixed.test", true, "\"generation\":2");
    expect("in force, by the new one", 2, "other.test", true, NULL);
    expect("in force, a new host by the old one", 1, "other.test", false, "\"reason\":\"dial_unlisted\"");
    expect("in force, an old host by the new one", 2, "fixed.test", false, "\"reason\":\"dial_unlisted\"");
    settle_under_way();
    drop(&before);
    expect("settled: a straggler is no violation", 1, "fixed.test", false, "\"reason\":\"host_not_listed\"");
    expect("settled: an old host", 2, "fixed.test", false, "\"reason\":\"dial_unlisted\"");
    expect("settled: a new host", 2, "other.test", true, NULL);
    assert_true(porter_ops.prepare(&bench.context, &last, NULL)); /* for the tests that follow */
    before = adopt(&last);
    porter_ops.settle(&bench.context);
    drop(&before);
    bench.says = 3;
}

/* ---- what ends the porter's trust in a worker ---- */

static void v_unknown(void)
{
    channel_send(bench.worker, MSG_CERTIFY, SLICE(""), -1);
}

static void v_short(void)
{
    channel_send(bench.worker, MSG_DIAL, SLICE("\1\0\0\0"), -1);
}

static void v_cancel_short(void)
{
    channel_send(bench.worker, MSG_DIAL_CANCEL, SLICE("\1"), -1);
}

static void v_host(const char *host, uint16_t port, const char *more, int fd)
{
    struct buf out = {0};

    pack_dial(&out, 300, host, port);
    buf_text(&out, more);
    channel_send(bench.worker, MSG_DIAL, buf_slice(&out), fd);
    buf_free(&out);
}

static void v_upper(void)
{
    v_host("Fixed.Test", 443, "", -1);
}

static void v_literal(void)
{
    v_host("127.0.0.1", 443, "", -1);
}

static void v_port(void)
{
    v_host("fixed.test", 0, "", -1);
}

static void v_trailing(void)
{
    v_host("fixed.test", 443, "x", -1);
}

static void v_descriptor(void)
{
    v_host("fixed.test", 443, "", bench.origin);
}

static void v_twice(void)
{
    v_host("silent.test", PORT, "", -1);
    v_host("silent.test", PORT, "", -1);
}

static void v_unlisted_often(void)
{
    for (uint32_t i = 0; i < 65; i++) {
        send_dial(500 + i, "evil.test", 443);
        turn_for(5);
    }
}

static bool other_is_served(void)
{
    bench.worker = join_worker(1);
    send_dial(400, "fixed.test", 443);
    loop_run(bench.loop);
    return bench.type == MSG_DIALLED && bench.id == 400;
}

static void test_violations(void **state)
{
    static const struct {
        const char *name;
        void (*send)(void);
    } violations[] = {
        {"a message of another table", v_unknown},
        {"a dial cut short", v_short},
        {"a cancel cut short", v_cancel_short},
        {"a host that is not canonical", v_upper},
        {"an address in place of a name", v_literal},
        {"port 0", v_port},
        {"bytes behind the message", v_trailing},
        {"a descriptor with a question", v_descriptor},
        {"one number for two open questions", v_twice},
        {"65 dials to what no service lists", v_unlisted_often},
    };

    int quiet = open("/dev/null", O_WRONLY | O_CLOEXEC);

    (void)state;
    for (size_t i = 0; i < sizeof violations / sizeof *violations; i++) {
        int status;
        pid_t child = fork();

        if (child == 0) {
            dup2(quiet, 2);
            bench.worker = join_worker(0); /* its pair is not shared with the process that tests */
            violations[i].send();
            turn_for(100);
            _exit(bench.reported == 1 && bench.gone == 1 && other_is_served() && !bench.malformed ? 0 : 1);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
            fail_msg("%s: not told of, not dropped, or the others with it", violations[i].name);
    }
    close(quiet);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_no_record_no_descriptor),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_two_generations),
        cmocka_unit_test(test_violations),
    };

    return cmocka_run_group_tests_name("porter", tests, set_up, tear_down);
}
