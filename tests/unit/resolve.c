/* Look-ups against a name server played here, on loopback: what it says for a name is in the table. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "net/resolve.h"
#include "tests/unit/nameserver.h"

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
    {0},
};

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
    struct resolver *r = resolver_new(l, &(struct resolver_settings){.servers = servers, .n_servers = n, .timeout_ms = timeout_ms, .pending_max = max}, &why);

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

    server_open(&s, t.loop, scripts);
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
    server_open(&s, t.loop, scripts);
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
    server_open(&s, t.loop, scripts);
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
    server_open(&s, t.loop, scripts);
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
    assert_null(resolver_new(l, &(struct resolver_settings){.timeout_ms = 100, .pending_max = 1}, &why));
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
