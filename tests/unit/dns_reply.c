/* The tool's side of DNS: what it asks is a question that our listener reads, and what that answers it reads; resolv.conf. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "cmd/name_server.h"
#include "tests/unit/scratch.h"

enum { ID = 0x1234 };

static struct addr parse(const char *text)
{
    struct addr a;

    if (!addr_parse_ip(slice_of(text), &a))
        fail_msg("%s is no address", text);
    return a;
}

static struct dns_question asked(const char *host, uint16_t type)
{
    const struct dns_question made = dns_question_make(host, type);
    struct dns_question q;
    struct buf out = {0};

    dns_ask_write(&out, &made, ID);
    assert_int_equal(dns_question_read(buf_slice(&out), &q, NULL), DNS_READ);
    buf_free(&out);
    return q;
}

static void what_is_asked_is_a_question(void **state)
{
    struct dns_question q = asked("npm.example", DNS_AAAA);
    char host[NAME_MAX_LEN + 1];

    (void)state;
    assert_true(dns_question_host(&q, host, NULL));
    assert_string_equal(host, "npm.example");
    assert_int_equal(q.id, ID);
    assert_int_equal(q.type, DNS_AAAA);
    assert_true(q.edns && q.recursion && q.most == DNS_UDP_MOST);
}

static void what_our_listener_answers_is_read(void **state)
{
    static const struct {
        const char *name;
        struct dns_answer answer;
        const char *first; /* address */
        size_t n;
    } rows[] = {
        {"an address", {.n_addresses = 1}, "10.0.0.1", 1},
        {"as many as there may be", {.n_addresses = DNS_ADDRESSES_MAX}, "10.0.0.1", DNS_ADDRESSES_MAX},
        {"nothing of the type", {.nothing = true}, NULL, 0},
        {"a refusal with words", {.code = DNS_NXDOMAIN, .explained = true, .error = 18, .text = "exeat host_not_listed 7f3a9c"}, NULL, 0},
        {"one that a terminal would obey", {.code = DNS_REFUSED, .explained = true, .error = 0, .text = "\x1b[2Jx"}, NULL, 0},
        {"a version", {.code = DNS_BADVERS}, NULL, 0},
    };
    struct addr addresses[DNS_ADDRESSES_MAX];

    (void)state;
    for (size_t i = 0; i < DNS_ADDRESSES_MAX; i++) {
        addresses[i] = parse("10.0.0.1");
        addresses[i].ip[3] = (unsigned char)(1 + i);
    }
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct dns_question q = asked("npm.example", DNS_A);
        struct dns_answer a = rows[i].answer;
        struct addr first = parse(rows[i].first ? rows[i].first : "0.0.0.0");
        struct dns_reply r;
        struct buf out = {0};

        a.addresses = addresses;
        dns_answer_write(&out, &q, &a, DNS_UDP_MOST);
        if (!dns_reply_read(buf_slice(&out), ID, &r) || r.code != a.code || r.n != rows[i].n || r.explained != a.explained ||
            (r.n && !addr_ip_equals(&r.list[0], &first)) || r.error != a.error)
            fail_msg("%s: code %u, %zu addresses, \"%s\"", rows[i].name, r.code, r.n, r.text);
        if (a.explained)
            assert_string_equal(r.text, a.text[0] == '\x1b' ? "?[2Jx" : a.text);
        assert_false(dns_reply_read(buf_slice(&out), ID + 1, &r)); /* of another question */
        for (size_t n = 0; n < buf_len(&out); n++)
            dns_reply_read(slice_cut(buf_slice(&out), 0, n), ID, &r); /* nothing but sanitizers looks at that */
        buf_free(&out);
    }
}

#define HEAD "\x12\x34\x81\x80\0\1"
#define NPM "\3npm\7example\0\0\1\0\1"
#define OPT(len) "\0\0\x29\x04\xd0\0\0\0\0\0" len
#define BYTES(text) {text, sizeof(text) - 1}

static void what_others_answer(void **state)
{
    static const struct {
        const char *name;
        struct slice message;
        bool read;
        size_t n;
        const char *text; /* NULL: none */
    } rows[] = {
        {"nothing", BYTES(""), false, 0, NULL},
        {"a head alone", BYTES("\x12\x34\x81\x80\0\0\0\0\0\0\0\0"), true, 0, NULL},
        {"a question", BYTES("\x12\x34\1\0\0\1\0\0\0\0\0\0" NPM), false, 0, NULL},
        {"an alias, and an address of that", BYTES(HEAD "\0\2\0\0\0\0" NPM "\xc0\x0c\0\5\0\1\0\0\0\0\0\4\1b\xc0\x10" "\1b\xc0\x10\0\1\0\1\0\0\0\0\0\4\1\2\3\4"), true, 1, NULL},
        {"an address too short", BYTES(HEAD "\0\1\0\0\0\0" NPM "\xc0\x0c\0\1\0\1\0\0\0\0\0\3\1\2\3"), false, 0, NULL},
        {"a record that is not there", BYTES(HEAD "\0\1\0\0\0\0" NPM), false, 0, NULL},
        {"a pointer to itself", BYTES(HEAD "\0\1\0\0\0\0" NPM "\xc0\x1d\0\1\0\1\0\0\0\0\0\4\1\2\3\4"), false, 0, NULL},
        {"words", BYTES(HEAD "\0\0\0\0\0\1" NPM OPT("\x0a") "\0\x0f\0\6\0\x12word"), true, 0, "word"},
        {"words behind another option", BYTES(HEAD "\0\0\0\0\0\1" NPM OPT("\x10") "\0\x0a\0\2ab" "\0\x0f\0\6\0\x12word"), true, 0, "word"},
        {"of two the first", BYTES(HEAD "\0\0\0\0\0\1" NPM OPT("\x10") "\0\x0f\0\4\0\x12" "ab" "\0\x0f\0\4\0\x12" "cd"), true, 0, "ab"},
        {"an option without its number", BYTES(HEAD "\0\0\0\0\0\1" NPM OPT("\x05") "\0\x0f\0\1x"), true, 0, NULL},
        {"an option longer than it is", BYTES(HEAD "\0\0\0\0\0\1" NPM OPT("\x06") "\0\x0f\0\xff\0\x12"), true, 0, NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dns_reply r;
        bool read = dns_reply_read(rows[i].message, ID, &r);

        if (read != rows[i].read || r.n != rows[i].n || r.explained != (rows[i].text != NULL))
            fail_msg("%s: %s, %zu addresses, \"%s\"", rows[i].name, read ? "read" : "not read", r.n, r.text);
        if (rows[i].text)
            assert_string_equal(r.text, rows[i].text);
    }
}

static void resolv_conf(void **state)
{
    static const struct {
        const char *name, *text, *servers[NAME_SERVERS_MAX];
    } rows[] = {
        {"nothing", "", {NULL}},
        {"one", "nameserver 10.0.0.1\n", {"10.0.0.1"}},
        {"without a line's end", "nameserver 10.0.0.1", {"10.0.0.1"}},
        {"with blanks, tabs and words behind", "search x\n\t nameserver \t 10.0.0.1 # ours\nnameserver fd00::1;x\n", {"10.0.0.1", "fd00::1"}},
        {"the first three", "nameserver 10.0.0.1\nnameserver 10.0.0.2\nnameserver 10.0.0.3\nnameserver 10.0.0.4\n", {"10.0.0.1", "10.0.0.2", "10.0.0.3"}},
        {"what is none", "#nameserver 10.0.0.1\nnameservers 10.0.0.2\nnameserver10.0.0.3\nnameserver\nnameserver dns.example\nnameserver fe80::1%eth0\n", {NULL}},
    };
    struct scratch s;
    char *path;

    (void)state;
    scratch_make(&s);
    path = file_join(s.path, "resolv.conf");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct addr out[NAME_SERVERS_MAX];
        size_t n, want = 0;

        scratch_replace(&s, "resolv.conf", slice_of(rows[i].text));
        n = name_servers_read(path, out);
        while (want < NAME_SERVERS_MAX && rows[i].servers[want])
            want++;
        if (n != want)
            fail_msg("%s: %zu", rows[i].name, n);
        for (size_t k = 0; k < n; k++) {
            struct addr a = parse(rows[i].servers[k]);

            assert_true(addr_ip_equals(&out[k], &a) && out[k].port == 53);
        }
    }
    free(path);
    path = file_join(s.path, "none");
    assert_int_equal(name_servers_read(path, (struct addr[NAME_SERVERS_MAX]){{0}}), 0);
    free(path);
    scratch_remove(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_asked_is_a_question),
        cmocka_unit_test(what_our_listener_answers_is_read),
        cmocka_unit_test(what_others_answer),
        cmocka_unit_test(resolv_conf),
    };

    return cmocka_run_group_tests_name("dns_reply", tests, NULL, NULL);
}
