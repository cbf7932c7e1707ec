/* Host names: one spelling, all else refused. Rows also stand for the conformance groups authority and address. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "net/name.h"

#define L10 "aaaaaaaaaa"
#define L60 L10 L10 L10 L10 L10 L10
#define L63 L60 "aaa"
#define LONG_253 L63 "." L63 "." L63 "." L60 "a"

static const struct {
    const char *name;
    struct slice host;
    const char *canonical; /* NULL: refused as host_invalid */
} hosts[] = {
    {"a plain name", SLICE("registry.test"), "registry.test"},
    {"capitals are folded", SLICE("REGISTRY.Test"), "registry.test"},
    {"one trailing dot goes", SLICE("registry.test."), "registry.test"},
    {"two trailing dots", SLICE("registry.test.."), NULL},
    {"a leading dot", SLICE(".registry.test"), NULL},
    {"an empty label", SLICE("registry..test"), NULL},
    {"empty", SLICE(""), NULL},
    {"a dot alone", SLICE("."), NULL},
    {"one label", SLICE("localhost"), "localhost"},
    {"one letter", SLICE("a"), "a"},
    {"digits in front", SLICE("4chan.test"), "4chan.test"},
    {"an address in front of a name is a name", SLICE("127.0.0.1.nip.test"), "127.0.0.1.nip.test"},
    {"hyphens inside", SLICE("a-b--c.test"), "a-b--c.test"},
    {"hyphens in third and fourth place", SLICE("r3---sn.test"), "r3---sn.test"},
    {"a leading hyphen", SLICE("-a.test"), NULL},
    {"a trailing hyphen", SLICE("a-.test"), NULL},
    {"a trailing hyphen at the end", SLICE("a.test-"), NULL},
    {"a hyphen before the trailing dot", SLICE("a.test-."), NULL},
    {"an underscore", SLICE("regi_stry.test"), NULL},
    {"a percent sign", SLICE("registry%2etest"), NULL},
    {"a NUL", SLICE("other.test\0.registry.test"), NULL},
    {"a space", SLICE("registry test"), NULL},
    {"a space behind", SLICE("registry.test "), NULL},
    {"a tab", SLICE("registry\t.test"), NULL},
    {"a line end", SLICE("registry.test\r\n"), NULL},
    {"DEL", SLICE("a\x7f.test"), NULL},
    {"a comma", SLICE("registry.test,other.test"), NULL},
    {"a colon", SLICE("registry.test:443"), NULL},
    {"user information", SLICE("user@registry.test"), NULL},
    {"a slash", SLICE("registry.test/x"), NULL},
    {"a backslash", SLICE("registry.test\\x"), NULL},
    {"an asterisk", SLICE("*.registry.test"), NULL},
    {"brackets", SLICE("[registry.test]"), NULL},
    {"a label of 63", SLICE(L63 ".test"), L63 ".test"},
    {"a label of 64", SLICE(L63 "a.test"), NULL},
    {"a last label of 64", SLICE("test." L63 "a"), NULL},
    {"253 bytes", SLICE(LONG_253), LONG_253},
    {"253 bytes and the trailing dot", SLICE(LONG_253 "."), LONG_253},
    {"254 bytes", SLICE(LONG_253 "a"), NULL},

    {"IPv4", SLICE("127.0.0.1"), NULL},
    {"IPv4 with a trailing dot", SLICE("127.0.0.1."), NULL},
    {"IPv4, short", SLICE("127.1"), NULL},
    {"IPv4, one number", SLICE("2130706433"), NULL},
    {"IPv4, octal", SLICE("0177.0.0.1"), NULL},
    {"IPv4, hexadecimal", SLICE("0x7f000001"), NULL},
    {"IPv4, hexadecimal in capitals", SLICE("0X7F.0.0.0X1"), NULL},
    {"IPv4, hexadecimal mixed", SLICE("0x7f.1"), NULL},
    {"IPv4, hexadecimal without digits", SLICE("127.0.0.0x"), NULL},
    {"a number last", SLICE("registry.1"), NULL},
    {"0x last, and not a number", SLICE("a.0xyz"), "a.0xyz"},
    {"0x first is a name", SLICE("0x7f.test"), "0x7f.test"},
    {"metadata service", SLICE("169.254.169.254"), NULL},
    {"IPv6 in brackets", SLICE("[::1]"), NULL},
    {"IPv6", SLICE("::1"), NULL},
    {"IPv6 with a zone", SLICE("[fe80::1%25eth0]"), NULL},
    {"IPv6, future", SLICE("[v1.fe80]"), NULL},

    {"a U-label", SLICE("r\xc3\xa9gistry.test"), "xn--rgistry-bya.test"},
    {"a U-label with capital ASCII", SLICE("R\xc3\xa9gistry.TEST"), "xn--rgistry-bya.test"},
    {"its A-label", SLICE("xn--rgistry-bya.test"), "xn--rgistry-bya.test"},
    {"its A-label in capitals", SLICE("XN--RGISTRY-BYA.test"), "xn--rgistry-bya.test"},
    {"sharp s stays itself (non-transitional)", SLICE("stra\xc3\x9f" "e.test"), "xn--strae-oqa.test"},
    {"final sigma stays itself", SLICE("\xcf\x83\xce\xb1\xcf\x82.test"), "xn--mxa8ab.test"},
    {"a capital U-label is not mapped", SLICE("R\xc3\x89gistry.test"), NULL},
    {"a decomposed accent", SLICE("re\xcc\x81gistry.test"), NULL},
    {"full-width letters", SLICE("\xef\xbd\x81.test"), NULL},
    {"an ideographic full stop", SLICE("registry\xe3\x80\x82test"), NULL},
    {"a full-width full stop", SLICE("registry\xef\xbc\x8etest"), NULL},
    {"a soft hyphen", SLICE("regis\xc2\xadtry.test"), NULL},
    {"a zero-width joiner", SLICE("registry\xe2\x80\x8d.test"), NULL},
    {"a symbol", SLICE("\xe2\x98\x83.test"), NULL},
    {"the A-label of a symbol", SLICE("xn--n3h.test"), NULL},
    {"an A-label of nothing", SLICE("xn--.test"), NULL},
    {"an A-label that does not decode", SLICE("xn--zzzzzz99.test"), NULL},
    {"a mixed direction", SLICE("\xd7\x90" "a.test"), NULL},
    {"a U-label with a trailing hyphen", SLICE("\xc3\xa9-.test"), NULL},
    {"invalid UTF-8", SLICE("r\xe9gistry.test"), NULL},
    {"overlong UTF-8", SLICE("a\xc0\xae.test"), NULL},
    {"a U-label and an underscore", SLICE("r\xc3\xa9_gistry.test"), NULL},
    {"a U-label and a number last", SLICE("r\xc3\xa9.1"), NULL},
    {"a U-label and two trailing dots", SLICE("r\xc3\xa9.test.."), NULL},
};

static void hosts_have_one_spelling(void **state)
{
    char out[NAME_MAX_LEN + 1], again[NAME_MAX_LEN + 1];

    (void)state;
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        struct fault why = {0};
        bool ok = name_canonical(hosts[i].host, out, &why);

        if (ok != (hosts[i].canonical != NULL) || (ok && strcmp(out, hosts[i].canonical) != 0))
            fail_msg("%s: %s %s", hosts[i].name, ok ? out : "refused", why.text);
        if (!ok && (why.reason != REASON_HOST_INVALID || why.kind != FAULT_REFUSED || why.text[0] == '\0'))
            fail_msg("%s: refused as %s", hosts[i].name, reason_code(why.reason));
        if (ok && (!name_canonical(slice_of(out), again, &why) || strcmp(out, again) != 0))
            fail_msg("%s: the canonical form is not its own", hosts[i].name);
    }
    assert_false(name_canonical(SLICE("a..b"), out, NULL));
}

static void a_very_long_unicode_name_is_refused(void **state)
{
    char out[NAME_MAX_LEN + 1], text[3000];
    struct fault why = {0};

    (void)state;
    for (size_t i = 0; i < sizeof text; i += 2)
        memcpy(text + i, "\xc3\xa9", 2);
    assert_false(name_canonical(slice_make(text, sizeof text), out, &why));
    assert_false(name_canonical(slice_make(text, 1000), out, &why));
    assert_int_equal(why.reason, REASON_HOST_INVALID);
}

static const struct {
    const char *name, *authority, *host; /* host NULL: refused */
    uint16_t port;
    enum reason reason;
} authorities[] = {
    {"no port: the fallback", "registry.test", "registry.test", 80, 0},
    {"a port", "registry.test:443", "registry.test", 443, 0},
    {"the largest port", "registry.test:65535", "registry.test", 65535, 0},
    {"leading zeros", "registry.test:00443", NULL, 0, REASON_REQUEST_MALFORMED},
    {"a literal keeps its brackets", "[::1]:443", "[::1]", 443, 0},
    {"a literal without a port", "[::1]", "[::1]", 80, 0},
    {"empty", "", NULL, 0, REASON_HOST_INVALID},
    {"no host", ":443", NULL, 0, REASON_HOST_INVALID},
    {"an empty port", "registry.test:", NULL, 0, REASON_REQUEST_MALFORMED},
    {"port zero", "registry.test:0", NULL, 0, REASON_REQUEST_MALFORMED},
    {"port 65536", "registry.test:65536", NULL, 0, REASON_REQUEST_MALFORMED},
    {"six digits", "registry.test:000443", NULL, 0, REASON_REQUEST_MALFORMED},
    {"a sign", "registry.test:+80", NULL, 0, REASON_REQUEST_MALFORMED},
    {"a minus", "registry.test:-80", NULL, 0, REASON_REQUEST_MALFORMED},
    {"a blank before the port", "registry.test: 80", NULL, 0, REASON_REQUEST_MALFORMED},
    {"a blank behind the port", "registry.test:80 ", NULL, 0, REASON_REQUEST_MALFORMED},
    {"a name for a port", "registry.test:http", NULL, 0, REASON_REQUEST_MALFORMED},
    {"hexadecimal", "registry.test:0x50", NULL, 0, REASON_REQUEST_MALFORMED},
    {"two ports", "registry.test:80:80", NULL, 0, REASON_REQUEST_MALFORMED},
    {"IPv6 without brackets", "::1:443", NULL, 0, REASON_HOST_INVALID},
    {"user information", "user@registry.test:80", NULL, 0, REASON_REQUEST_MALFORMED},
    {"user information with a password", "u:p@registry.test", NULL, 0, REASON_REQUEST_MALFORMED},
    {"an empty user", "@registry.test", NULL, 0, REASON_REQUEST_MALFORMED},
    {"an open bracket", "[::1", NULL, 0, REASON_HOST_INVALID},
    {"text behind a bracket", "[::1]x:80", NULL, 0, REASON_HOST_INVALID},
};

static void authorities_are_split_strictly(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof authorities / sizeof *authorities; i++) {
        struct slice host = {0};
        struct fault why = {0};
        uint16_t port = 0;
        bool ok = name_split_authority(slice_of(authorities[i].authority), 80, &host, &port, &why);

        if (ok != (authorities[i].host != NULL))
            fail_msg("%s: %s", authorities[i].name, ok ? "accepted" : why.text);
        if (ok && (!slice_is(host, authorities[i].host) || port != authorities[i].port))
            fail_msg("%s: %.*s and %u", authorities[i].name, SLICE_ARG(host), port);
        if (!ok && why.reason != authorities[i].reason)
            fail_msg("%s: refused as %s", authorities[i].name, reason_code(why.reason));
    }
}

static const struct {
    const char *name, *pattern, *host;
    bool matches;
} matches[] = {
    {"the same name", "npm.example", "npm.example", true},
    {"a name below an exact one", "npm.example", "a.npm.example", false},
    {"another name", "npm.example", "npm.exampl", false},
    {"one label below", "*.npm.example", "a.npm.example", true},
    {"two labels below", "*.npm.example", "a.b.npm.example", true},
    {"the suffix itself", "*.npm.example", "npm.example", false},
    {"a longer last label", "*.npm.example", "xnpm.example", false},
    {"the suffix in front", "*.npm.example", "npm.example.other.test", false},
    {"nothing before the dot", "*.npm.example", ".npm.example", false},
    {"an asterisk is no name", "npm.example", "*.npm.example", false},
};

static void patterns_match_whole_labels(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof matches / sizeof *matches; i++)
        if (name_matches(slice_of(matches[i].pattern), slice_of(matches[i].host)) != matches[i].matches)
            fail_msg("%s", matches[i].name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts_have_one_spelling),
        cmocka_unit_test(a_very_long_unicode_name_is_refused),
        cmocka_unit_test(authorities_are_split_strictly),
        cmocka_unit_test(patterns_match_whole_labels),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
