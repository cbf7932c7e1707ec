/* Look-ups against a name server played here, on loopback: what it says for a name is in the table. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/resolve.h"

enum { TYPE_A = 1, TYPE_CNAME = 5, TYPE_AAAA = 28, TTL = 60, NOERROR = 0, SERVFAIL = 2, NXDOMAIN = 3, REFUSED = 5 };

struct entry {
    const char *owner; /* NULL: the name asked for */
    int type;
    const char *data;
};

struct script {
    const char *name;
    int code;
    bool silent, only_tcp, foreign_question;
    int many; /* that many A records */
    struct entry answer[6];
};

static const struct script scripts[] = {
    {.name = "four.test", .answer = {{NULL, TYPE_A, "192.0.2.1"}}},
    {.name = "six.test", .answer = {{NULL, TYPE_AAAA, "2001:db8::1"}}},
    {.name = "both.test", .answer = {{NULL, TYPE_A, "192.0.2.1"}, {NULL, TYPE_A, "192.0.2.2"}, {NULL, TYPE_AAAA, "2001:db8::1"}}},
    {.name = "chain.test",
     .answer = {{NULL, TYPE_CNAME, "mid.test"}, {"mid.test", TYPE_CNAME, "end.test"}, {"end.test", TYPE_A, "192.0.2.3"}}},
    {.name = "dangling.test", .answer = {{NULL, TYPE_CNAME, "gone.test"}}},
    {.name = "stranger.test", .answer = {{NULL, TYPE_A, "192.0.2.4"}, {"other.test", TYPE_A, "192.0.2.66"}}},
    {.name = "nx.test", .code = NXDOMAIN},
    {.name = "servfail.test", .code = SERVFAIL},
    {.name = "refused.test", .code = REFUSED},
    {.name = "empty.test"},
    {.name = "long.test", .only_tcp = true, .answer = {{NULL, TYPE_A, "192.0.2.5"}}},
    {.name = "silent.test", .silent = true},
    {.name = "spoofed.test", .foreign_question = true, .answer = {{NULL, TYPE_A, "192.0.2.66"}}},
    {.name = "many.test", .many = 45},
};

struct server {
    struct loop *loop;
    struct addr addr;
    int udp, tcp, talk;
    struct watch *watch_udp, *watch_tcp, *watch_talk;
    int asked, asked_tcp;
};

static const struct script *find_script(const char *name)
{
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++)
        if (strcasecmp(scripts[i].name, name) == 0)
            return &scripts[i];
    return NULL;
}

static void put16(struct buf *b, unsigned n)
{
    buf_char(b, (char)(n >> 8));
    buf_char(b, (char)(n & 0xff));
}

static void put_name(struct buf *b, const char *name)
{
    struct slice left = slice_of(name), label;

    while (slice_next(&left, '.', &label)) {
        buf_char(b, (char)label.len);
        buf_append(b, label);
    }
    buf_char(b, 0);
}

static void put_record(struct buf *b, const char *owner, int type, const char *data)
{
    struct buf rdata = {0};
    struct addr a;

    if (type == TYPE_CNAME) {
        put_name(&rdata, data);
    } else {
        assert_true(addr_parse_ip(slice_of(data), &a));
        buf_append(&rdata, slice_make(a.ip, type == TYPE_A ? 4 : 16));
    }
    put_name(b, owner);
    put16(b, (unsigned)type);
    put16(b, 1);
    put16(b, 0);
    put16(b, TTL);
    put16(b, (unsigned)buf_len(&rdata));
    buf_append(b, buf_slice(&rdata));
    buf_free(&rdata);
}

/* The name and type of the question. */
static unsigned read_question(struct slice query, char *name)
{
    size_t at = 12, len = 0;

    while (query.ptr[at]) {
        size_t label = (unsigned char)query.ptr[at++];

        memcpy(name + len, query.ptr + at, label);
        len += label;
        at += label;
        name[len++] = '.';
    }
    name[len - 1] = '\0';
    return (unsigned)(unsigned char)query.ptr[at + 1] << 8 | (unsigned char)query.ptr[at + 2];
}

static unsigned put_answers(struct buf *b, const struct script *s, unsigned type)
{
    unsigned n = 0;

    for (const struct entry *e = s->answer; e->data; e++)
        if (e->type == TYPE_CNAME || e->type == (int)type) {
            put_record(b, e->owner ? e->owner : s->name, e->type, e->data);
            n++;
        }
    for (int i = 0; i < s->many && type == TYPE_A; i++, n++) {
        struct buf text = {0};

        buf_printf(&text, "192.0.2.%d%c", i + 1, 0);
        put_record(b, s->name, TYPE_A, buf_slice(&text).ptr);
        buf_free(&text);
    }
    return n;
}

/* False: nothing is said. */
static bool respond(struct slice query, bool tcp, struct buf *out)
{
    char name[256];
    unsigned type = read_question(query, name), n = 0;
    const struct script *s = find_script(name);
    struct buf answers = {0};
    bool cut = s && s->only_tcp && !tcp;

    if (!s || s->silent)
        return false;
    if (!cut)
        n = put_answers(&answers, s, type);
    buf_append(out, slice_cut(query, 0, 2));
    put16(out, 0x8180u | (cut ? 0x200u : 0) | (unsigned)s->code);
    put16(out, 1);
    put16(out, n);
    put16(out, 0);
    put16(out, 0);
    put_name(out, s->foreign_question ? "elsewhere.test" : name);
    put16(out, type);
    put16(out, 1);
    buf_append(out, buf_slice(&answers));
    buf_free(&answers);
    return true;
}

static void on_udp(void *arg, unsigned ready)
{
    struct server *s = arg;
    struct sockaddr_storage from;
    socklen_t len = sizeof from;
    char query[2048];
    ssize_t got = recvfrom(s->udp, query, sizeof query, 0, (struct sockaddr *)&from, &len);
    struct buf out = {0};

    (void)ready;
    assert_true(got > 12);
    s->asked++;
    if (respond(slice_make(query, (size_t)got), false, &out))
        sendto(s->udp, buf_slice(&out).ptr, buf_len(&out), 0, (struct sockaddr *)&from, len);
    buf_free(&out);
}

static void end_talk(struct server *s)
{
    watch_free(s->watch_talk);
    s->watch_talk = NULL;
    if (s->talk >= 0)
        close(s->talk);
    s->talk = -1;
}

/* A question comes whole here: it is small, and this is loopback. */
static void on_talk(void *arg, unsigned ready)
{
    struct server *s = arg;
    unsigned char size[2];
    char query[2048];
    struct buf out = {0}, framed = {0};
    size_t len;

    (void)ready;
    if (recv(s->talk, size, 2, 0) != 2) {
        end_talk(s);
        return;
    }
    len = (size_t)size[0] << 8 | size[1];
    assert_true(len <= sizeof query && recv(s->talk, query, len, 0) == (ssize_t)len);
    s->asked_tcp++;
    if (respond(slice_make(query, len), true, &out)) {
        put16(&framed, (unsigned)buf_len(&out));
        buf_append(&framed, buf_slice(&out));
        send(s->talk, buf_slice(&framed).ptr, buf_len(&framed), MSG_NOSIGNAL);
    }
    buf_free(&framed);
    buf_free(&out);
}

static void on_tcp(void *arg, unsigned ready)
{
    struct server *s = arg;

    (void)ready;
    end_talk(s);
    s->talk = accept(s->tcp, NULL, NULL);
    s->watch_talk = watch_new(s->loop, s->talk, WATCH_READ, on_talk, s);
}

/* UDP and TCP with one port number. */
static void server_open(struct server *s, struct loop *l)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof in;

    *s = (struct server){.loop = l, .talk = -1};
    s->tcp = socket(AF_INET, SOCK_STREAM, 0);
    s->udp = socket(AF_INET, SOCK_DGRAM, 0);
    assert_int_equal(bind(s->tcp, (struct sockaddr *)&in, sizeof in), 0);
    assert_int_equal(getsockname(s->tcp, (struct sockaddr *)&in, &len), 0);
    assert_int_equal(bind(s->udp, (struct sockaddr *)&in, sizeof in), 0);
    assert_int_equal(listen(s->tcp, 4), 0);
    addr_from_sockaddr(&s->addr, (struct sockaddr *)&in);
    s->watch_udp = watch_new(l, s->udp, WATCH_READ, on_udp, s);
    s->watch_tcp = watch_new(l, s->tcp, WATCH_READ, on_tcp, s);
}

static void server_close(struct server *s)
{
    end_talk(s);
    watch_free(s->watch_udp);
    watch_free(s->watch_tcp);
    close(s->udp);
    close(s->tcp);
}

struct told {
    struct loop *loop;
    int calls;
    struct resolution r;
};

static void on_done(void *arg, const struct resolution *r)
{
    struct told *t = arg;

    t->calls++;
    t->r = *r;
    loop_stop(t->loop);
}

static const struct row {
    const char *name, *host;
    size_t count;
    const char *addresses; /* each followed by a blank, sorted as text; NULL: only counted */
    enum reason reason;
} rows[] = {
    {"an IPv4 address", "four.test", 1, "192.0.2.1 ", REASON_NONE},
    {"an IPv6 address", "six.test", 1, "2001:db8::1 ", REASON_NONE},
    {"every address of both families", "both.test", 3, "192.0.2.1 192.0.2.2 2001:db8::1 ", REASON_NONE},
    {"a chain of aliases is followed", "chain.test", 1, "192.0.2.3 ", REASON_NONE},
    {"an alias that leads nowhere", "dangling.test", 0, "", REASON_NAME_NOT_RESOLVED},
    {"no such name", "nx.test", 0, "", REASON_NAME_NOT_RESOLVED},
    {"the server fails", "servfail.test", 0, "", REASON_NAME_NOT_RESOLVED},
    {"the server refuses", "refused.test", 0, "", REASON_NAME_NOT_RESOLVED},
    {"a name without addresses", "empty.test", 0, "", REASON_NAME_NOT_RESOLVED},
    {"a truncated answer is asked for again over TCP", "long.test", 1, "192.0.2.5 ", REASON_NONE},
    {"no answer", "silent.test", 0, "", REASON_NAME_TIMEOUT},
    {"an answer to another question is no answer", "spoofed.test", 0, "", REASON_NAME_TIMEOUT},
    {"an address of another name is not ours", "stranger.test", 1, "192.0.2.4 ", REASON_NONE},
    {"more addresses than we look at", "many.test", RESOLVE_MAX, NULL, REASON_NONE},
};

static int by_text(const void *a, const void *b)
{
    struct buf x = {0}, y = {0};
    int order;

    addr_ip_text(&x, &((const struct resolved *)a)->addr);
    addr_ip_text(&y, &((const struct resolved *)b)->addr);
    order = slice_compare(buf_slice(&x), buf_slice(&y));
    buf_free(&x);
    buf_free(&y);
    return order;
}

static void check_addresses(struct told *t, const struct row *r)
{
    struct buf text = {0};

    qsort(t->r.list, t->r.count, sizeof *t->r.list, by_text);
    for (size_t i = 0; i < t->r.count; i++) {
        addr_ip_text(&text, &t->r.list[i].addr);
        buf_char(&text, ' ');
        assert_int_equal(t->r.list[i].ttl_s, TTL);
        assert_int_equal(t->r.list[i].addr.port, 0);
    }
    if (r->addresses)
        assert_true(slice_is(buf_slice(&text), r->addresses));
    assert_int_equal(t->r.count, r->count);
    buf_free(&text);
}

static struct resolver *make_resolver(struct loop *l, const struct addr *servers, size_t n, int64_t timeout_ms, size_t max)
{
    struct fault why = {0};
    struct resolver *r = resolver_new(l, &(struct resolver_settings){servers, n, timeout_ms, max}, &why);

    if (!r)
        print_error("%s\n", why.text);
    assert_non_null(r);
    return r;
}

static void run_row(const struct row *row)
{
    struct told t = {.loop = loop_new()};
    struct server s;
    struct resolver *r;
    int64_t begun;

    server_open(&s, t.loop);
    r = make_resolver(t.loop, &s.addr, 1, 300, 4);
    begun = clock_mono_ms();
    assert_non_null(resolve_start(r, row->host, on_done, &t, NULL));
    assert_int_equal(t.calls, 0);
    loop_run(t.loop);
    assert_int_equal(t.calls, 1);
    assert_in_range(clock_mono_ms() - begun, 0, 600);
    check_addresses(&t, row);
    assert_int_equal(t.r.fault.reason, row->reason);
    assert_int_equal(s.asked_tcp > 0, strcmp(row->host, "long.test") == 0);
    resolver_free(r);
    server_close(&s);
    loop_free(t.loop);
}

static void test_rows(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        print_message("  %s\n", rows[i].name);
        run_row(&rows[i]);
    }
}

static void test_second_server(void **state)
{
    struct told t = {.loop = loop_new()};
    struct server s;
    struct addr servers[2];
    struct resolver *r;
    int mute = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof in;

    (void)state;
    assert_int_equal(bind(mute, (struct sockaddr *)&in, sizeof in), 0);
    assert_int_equal(getsockname(mute, (struct sockaddr *)&in, &len), 0);
    addr_from_sockaddr(&servers[0], (struct sockaddr *)&in);
    server_open(&s, t.loop);
    servers[1] = s.addr;
    r = make_resolver(t.loop, servers, 2, 600, 4);
    resolve_start(r, "four.test", on_done, &t, NULL);
    loop_run(t.loop);
    assert_int_equal(t.r.count, 1);
    resolver_free(r);
    server_close(&s);
    close(mute);
    loop_free(t.loop);
}

static void stop(void *arg)
{
    loop_stop(arg);
}

static void turn_for(struct loop *l, int64_t ms)
{
    struct timer *t = timer_new(l, stop, l);

    timer_set(t, ms);
    loop_run(l);
    timer_free(t);
}

static void test_cancel(void **state)
{
    struct told t = {.loop = loop_new()};
    struct server s;
    struct resolver *r;
    struct resolve *v;

    (void)state;
    server_open(&s, t.loop);
    r = make_resolver(t.loop, &s.addr, 1, 120, 4);
    resolve_cancel(resolve_start(r, "four.test", on_done, &t, NULL)); /* before a turn */
    v = resolve_start(r, "silent.test", on_done, &t, NULL);
    turn_for(t.loop, 40);
    assert_int_equal(s.asked > 1, true);
    resolve_cancel(v); /* under way */
    turn_for(t.loop, 300);
    assert_int_equal(t.calls, 0);
    assert_int_equal(resolver_pending(r), 0);
    resolve_cancel(NULL);
    v = resolve_start(r, "silent.test", on_done, &t, NULL);
    resolve_cancel(v);
    resolver_free(r); /* with a cancelled one still inside c-ares */
    turn_for(t.loop, 10);
    assert_int_equal(t.calls, 0);
    server_close(&s);
    loop_free(t.loop);
}

static void test_cap(void **state)
{
    struct told t = {.loop = loop_new()};
    struct server s;
    struct fault why = {0};
    struct resolver *r;

    (void)state;
    server_open(&s, t.loop);
    r = make_resolver(t.loop, &s.addr, 1, 100, 2);
    assert_non_null(resolve_start(r, "silent.test", on_done, &t, &why));
    assert_non_null(resolve_start(r, "silent.test", on_done, &t, &why));
    assert_null(resolve_start(r, "four.test", on_done, &t, &why));
    assert_int_equal(why.kind, FAULT_BUSY);
    assert_int_equal(why.reason, REASON_NAME_NOT_RESOLVED);
    turn_for(t.loop, 200);
    turn_for(t.loop, 200); /* loop_run ends at each answer */
    turn_for(t.loop, 200);
    assert_int_equal(t.calls, 2);
    assert_int_equal(resolver_pending(r), 0);
    assert_non_null(resolve_start(r, "four.test", on_done, &t, &why));
    loop_run(t.loop);
    assert_int_equal(t.r.count, 1);
    resolver_free(r);
    server_close(&s);
    loop_free(t.loop);
}

static void test_no_server(void **state)
{
    struct loop *l = loop_new();
    struct fault why = {0};

    (void)state;
    assert_null(resolver_new(l, &(struct resolver_settings){NULL, 0, 100, 1}, &why));
    assert_int_equal(why.kind, FAULT_MISSING);
    loop_free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows), cmocka_unit_test(test_second_server), cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_cap),  cmocka_unit_test(test_no_server),
    };

    return cmocka_run_group_tests_name("resolve", tests, NULL, NULL);
}
