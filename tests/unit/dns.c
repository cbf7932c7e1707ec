/* DNS messages: bytes in, bytes out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "net/dns_answer.h"

#define BYTES(text) {text, sizeof(text) - 1}
#define ASKS(counts, rest) BYTES("\x12\x34\x01\x00" counts rest)
#define ONE "\0\1\0\0\0\0\0\0"
#define WITH_OPT "\0\1\0\0\0\0\0\1"
#define NPM "\3nPm\7example\0"
#define A_IN "\0\1\0\1"
#define OPT "\0\0\x29\x04\xd0\0\0\0\0\0\0"
#define LONG_LABEL "\x3f" "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static const struct {
    const char *name;
    struct slice message;
    enum dns_reading reading;
    const char *text; /* the name as it is shown; NULL: there is none */
} readings[] = {
    {"a question", ASKS(ONE, NPM A_IN), DNS_READ, "nPm.example"},
    {"with EDNS", ASKS(WITH_OPT, NPM A_IN OPT), DNS_READ, "nPm.example"},
    {"the root", ASKS(ONE, "\0" A_IN), DNS_READ, "."},
    {"a dot in a label", ASKS(ONE, "\5a.b.c\0" A_IN), DNS_READ, "a\\.b\\.c"},
    {"a NUL in a label", ASKS(ONE, "\3a\0b\0" A_IN), DNS_READ, "a\\000b"},
    {"a backslash in a label", ASKS(ONE, "\2a\\\0" A_IN), DNS_READ, "a\\\\"},
    {"a label of 63 bytes", ASKS(ONE, LONG_LABEL "\0" A_IN), DNS_READ,
     "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},
    {"nothing", BYTES(""), DNS_DROPPED, NULL},
    {"eleven bytes", BYTES("\x12\x34\x01\0\0\1\0\0\0\0\0"), DNS_DROPPED, NULL},
    {"an answer", BYTES("\x12\x34\x81\0\0\1\0\0\0\0\0\0" NPM A_IN), DNS_DROPPED, NULL},
    {"a header alone", ASKS("\0\0\0\0\0\0\0\0", ""), DNS_MALFORMED, NULL},
    {"a question that is not there", ASKS(ONE, ""), DNS_MALFORMED, NULL},
    {"a name without an end", ASKS(ONE, "\3npm"), DNS_MALFORMED, NULL},
    {"a name of 256 bytes", ASKS(ONE, LONG_LABEL LONG_LABEL LONG_LABEL LONG_LABEL "\0" A_IN), DNS_MALFORMED, NULL},
    {"a pointer to itself", ASKS(ONE, "\xc0\x0c" A_IN), DNS_MALFORMED, NULL},
    {"a pointer to the header", ASKS(ONE, "\3npm\xc0\0" A_IN), DNS_MALFORMED, NULL},
    {"a pointer forward", ASKS(ONE, "\3npm\xc0\x14" "\7example\0" A_IN), DNS_MALFORMED, NULL},
    {"an extended label", ASKS(ONE, "\x41\1" A_IN), DNS_MALFORMED, NULL},
    {"no class", ASKS(ONE, NPM "\0\1"), DNS_MALFORMED, NULL},
    {"a byte behind the end", ASKS(ONE, NPM A_IN "x"), DNS_MALFORMED, "nPm.example"},
    {"a byte behind an OPT", ASKS(WITH_OPT, NPM A_IN OPT "x"), DNS_MALFORMED, "nPm.example"},
    {"an OPT that is not there", ASKS(WITH_OPT, NPM A_IN), DNS_MALFORMED, "nPm.example"},
    {"two OPT", ASKS("\0\1\0\0\0\0\0\2", NPM A_IN OPT OPT), DNS_MALFORMED, "nPm.example"},
    {"an OPT with a name", ASKS(WITH_OPT, NPM A_IN "\1a" OPT), DNS_MALFORMED, "nPm.example"},
    {"an answer with the question", ASKS("\0\1\0\1\0\0\0\0", NPM A_IN "\xc0\x0c\0\1\0\1\0\0\0\0\0\4\1\2\3\4"), DNS_MALFORMED, "nPm.example"},
    {"an update", BYTES("\x12\x34\x28\0\0\1\0\0\0\0\0\0" NPM A_IN), DNS_UNKNOWN, NULL},
    {"another version of EDNS", ASKS(WITH_OPT, NPM A_IN "\0\0\x29\x04\xd0\0\1\0\0\0\0"), DNS_VERSION, "nPm.example"},
    {"another record behind", ASKS(WITH_OPT, NPM A_IN "\0\0\1\0\1\0\0\0\0\0\4\1\2\3\4"), DNS_READ, "nPm.example"},
};

static void messages_are_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof readings / sizeof *readings; i++) {
        struct buf text = {0};
        struct fault why = {0};
        struct dns_question q;
        enum dns_reading r = dns_question_read(readings[i].message, &q, &why);

        if (r != readings[i].reading || q.named != (readings[i].text != NULL))
            fail_msg("%s: %d (%s)", readings[i].name, (int)r, why.text);
        if ((r == DNS_MALFORMED || r == DNS_UNKNOWN || r == DNS_VERSION) != (why.reason != REASON_NONE))
            fail_msg("%s: another reason, %s", readings[i].name, reason_code(why.reason));
        dns_question_text(&text, &q);
        if (q.named && !slice_is(buf_slice(&text), readings[i].text))
            fail_msg("%s: %.*s", readings[i].name, SLICE_ARG(buf_slice(&text)));
        buf_free(&text);
    }
}

static const struct {
    const char *name;
    const char *wire;
    size_t len;
    const char *host; /* NULL: it is none */
} hosts[] = {
#define WIRE(text) text, sizeof(text) - 1
    {"letters of both cases", WIRE("\3NpM\7example\0"), "npm.example"},
    {"digits and hyphens", WIRE("\5a-1-2\1b\0"), "a-1-2.b"},
    {"an A-label", WIRE("\x0b" "xn--ber-goa\4test\0"), "xn--ber-goa.test"},
    {"an A-label that is none", WIRE("\x0a" "xn--zzzzzz\4test\0"), NULL},
    {"a dot in a label", WIRE("\x0bnpm.example\0"), NULL},
    {"a NUL at the end", WIRE("\4npm\0\7example\0"), NULL},
    {"an underscore", WIRE("\4_tcp\3npm\0"), NULL},
    {"a hyphen in front", WIRE("\2-a\1b\0"), NULL},
    {"an address", WIRE("\2" "10\1" "0\1" "0\1" "1\0"), NULL},
    {"a full-width letter", WIRE("\3\xef\xbd\x81\4test\0"), NULL},
    {"the root", WIRE("\0"), NULL},
};

static void names_are_hosts_or_none(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        struct dns_question q = {.named = true, .name_len = hosts[i].len};
        char host[NAME_MAX_LEN + 1];
        struct fault why = {0};
        bool is;

        memcpy(q.name, hosts[i].wire, hosts[i].len);
        is = dns_question_host(&q, host, &why);
        if (is != (hosts[i].host != NULL) || (is && strcmp(host, hosts[i].host) != 0) || (!is && why.reason != REASON_HOST_INVALID))
            fail_msg("%s: %s", hosts[i].name, is ? host : why.text);
    }
}

#define REPLY(flags, counts, rest) BYTES("\x12\x34" flags "\0\1" counts NPM A_IN rest)

static const struct addr v4 = {.family = AF_INET, .ip = {10, 0, 0, 1}}, v6 = {.family = AF_INET6, .ip = {0xfd, [15] = 7}};

static const struct {
    const char *name;
    struct slice message;
    struct dns_answer answer;
    size_t most;
    struct slice expected;
} answers[] = {
    {"an address", ASKS(ONE, NPM A_IN), {.addresses = &v4, .n_addresses = 1, .ttl_s = 60}, 512,
     REPLY("\x81\x80", "\0\1\0\0\0\0", "\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\x0a\0\0\1")},
    {"an IPv6 address", ASKS(ONE, NPM A_IN), {.addresses = &v6, .n_addresses = 1, .ttl_s = 1}, 512,
     REPLY("\x81\x80", "\0\1\0\0\0\0", "\xc0\x0c\0\x1c\0\1\0\0\0\1\0\x10\xfd\0\0\0\0\0\0\0\0\0\0\0\0\0\0\7")},
    {"an address, with EDNS", ASKS(WITH_OPT, NPM A_IN OPT), {.addresses = &v4, .n_addresses = 1, .ttl_s = 60}, 512,
     REPLY("\x81\x80", "\0\1\0\0\0\1", "\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\x0a\0\0\1" OPT)},
    {"nothing", ASKS(ONE, NPM A_IN), {.nothing = true, .ttl_s = 60}, 512,
     REPLY("\x81\x80", "\0\0\0\1\0\0", "\xc0\x0c\0\6\0\1\0\0\0\x3c\0\x2f\x09localhost\0\6nobody\7invalid\0\0\0\0\1\0\0\x0e\x10\0\0\4\xb0\0\x09\x3a\x80\0\0\0\x3c")},
    {"ANY", ASKS(ONE, NPM A_IN), {.any = true, .ttl_s = 60}, 512,
     REPLY("\x81\x80", "\0\1\0\0\0\0", "\xc0\x0c\0\x0d\0\1\0\0\0\x3c\0\x09\7RFC8482\0")},
    {"refused, without EDNS", ASKS(ONE, NPM A_IN), {.code = DNS_REFUSED, .explained = true, .error = 18, .text = "why"}, 512,
     REPLY("\x81\x85", "\0\0\0\0\0\0", "")},
    {"refused, with EDNS", ASKS(WITH_OPT, NPM A_IN OPT), {.code = DNS_REFUSED, .explained = true, .error = 18, .text = "why"}, 512,
     REPLY("\x81\x85", "\0\0\0\0\0\1", "\0\0\x29\x04\xd0\0\0\0\0\0\x09\0\x0f\0\5\0\x12why")},
    {"another version", ASKS(WITH_OPT, NPM A_IN OPT), {.code = DNS_BADVERS}, 512,
     REPLY("\x81\x80", "\0\0\0\0\0\1", "\0\0\x29\x04\xd0\1\0\0\0\0\0")},
    {"truncated", ASKS(ONE, NPM A_IN), {.truncated = true}, 512, REPLY("\x83\x80", "\0\0\0\0\0\0", "")},
    {"too long", ASKS(ONE, NPM A_IN), {.addresses = &v4, .n_addresses = 1, .ttl_s = 60}, 40, REPLY("\x83\x80", "\0\0\0\0\0\0", "")},
    {"words too long", ASKS(WITH_OPT, NPM A_IN OPT), {.code = DNS_REFUSED, .explained = true, .error = 18, .text = "why"}, 42,
     REPLY("\x83\x85", "\0\0\0\0\0\1", OPT)},
    {"a message without a question", ASKS("\0\0\0\0\0\0\0\0", ""), {.code = DNS_FORMERR}, 512,
     BYTES("\x12\x34\x81\x81\0\0\0\0\0\0\0\0")},
};

static void answers_are_written(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        struct buf out = {0}, hex = {0};
        struct dns_question q;

        dns_question_read(answers[i].message, &q, NULL);
        dns_answer_write(&out, &q, &answers[i].answer, answers[i].most);
        for (size_t k = 0; k < buf_len(&out); k++)
            buf_printf(&hex, "%02x", (unsigned)(unsigned char)buf_slice(&out).ptr[k]);
        if (!slice_equals(buf_slice(&out), answers[i].expected))
            fail_msg("%s: %.*s", answers[i].name, SLICE_ARG(buf_slice(&hex)));
        buf_free(&out);
        buf_free(&hex);
    }
}

static void a_datagram_has_room_for_what_the_client_says_and_no_path_cuts(void **state)
{
    static const struct {
        const char *name, *size; /* of two bytes; NULL: no OPT */
        size_t room;
    } rows[] = {{"none", NULL, 512}, {"512", "\2\0", 512}, {"small", "\0\1", 512}, {"1000", "\3\xe8", 1000}, {"1232", "\4\xd0", 1232},
                {"4096", "\x10\0", 1232}, {"65535", "\xff\xff", 1232}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char message[] = "\x12\x34\1\0" WITH_OPT NPM A_IN OPT;
        size_t len = sizeof message - 1, before_opt = len - sizeof OPT + 1;
        struct dns_question q;

        if (rows[i].size)
            memcpy(message + before_opt + 3, rows[i].size, 2);
        else
            message[11] = 0;
        assert_int_equal(dns_question_read(slice_make(message, rows[i].size ? len : before_opt), &q, NULL), DNS_READ);
        if (dns_answer_room(&q) != rows[i].room)
            fail_msg("%s: %zu", rows[i].name, dns_answer_room(&q));
    }
}

static void types_have_names(void **state)
{
    uint16_t type;

    (void)state;
    assert_true(dns_type_find("HTTPS", &type));
    assert_int_equal(type, 65);
    assert_true(dns_type_find("TYPE1234", &type));
    assert_int_equal(type, 1234);
    assert_false(dns_type_find("NONE", &type));
    assert_false(dns_type_find("", &type));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_are_read),
        cmocka_unit_test(names_are_hosts_or_none),
        cmocka_unit_test(answers_are_written),
        cmocka_unit_test(a_datagram_has_room_for_what_the_client_says_and_no_path_cuts),
        cmocka_unit_test(types_have_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
