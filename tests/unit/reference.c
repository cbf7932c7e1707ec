/* handoff/reference.h, handoff/presigned.h: where references lead, and for how long signed ones do. */
#include "handoff/presigned.h"
#include "handoff/reference.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>

static const struct reference page = {.scheme = "https", .host = "registry.test", .port = 443};

#define HIGH_LABEL "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static const struct row {
    const char *requirement, *text;
    enum reference_kind kind;
    const char *place; /* "scheme host port[ @]" */
} table[] = {
    {"a whole URL", "https://files.test/a?b#c", REFERENCE_PLACE, "https files.test 443"},
    {"a port of its own", "https://files.test:8443/", REFERENCE_PLACE, "https files.test 8443"},
    {"an empty port is the scheme's", "https://files.test:/", REFERENCE_PLACE, "https files.test 443"},
    {"plain HTTP", "http://files.test", REFERENCE_PLACE, "http files.test 80"},
    {"case does not count", "HTTPS://FILES.Test/", REFERENCE_PLACE, "https files.test 443"},
    {"a trailing dot does not count", "https://files.test./", REFERENCE_PLACE, "https files.test 443"},
    {"a host alone takes the scheme of the page", "//files.test/a", REFERENCE_PLACE, "https files.test 443"},
    {"a path is the same place", "/a//b", REFERENCE_SAME, ""},
    {"a relative path is the same place", "a/https://files.test", REFERENCE_SAME, ""},
    {"a name with a colon behind a slash is a path", "./x:y", REFERENCE_SAME, ""},
    {"a query alone", "?next=https://files.test", REFERENCE_SAME, ""},
    {"a fragment alone", "#x", REFERENCE_SAME, ""},
    {"nothing", "", REFERENCE_SAME, ""},
    {"user information", "https://registry.test@evil.test/", REFERENCE_PLACE, "https evil.test 443 @"},
    {"the last @ counts", "https://a@registry.test@evil.test/", REFERENCE_PLACE, "https evil.test 443 @"},
    {"an @ in the path is none", "https://files.test/@corp/x", REFERENCE_PLACE, "https files.test 443"},
    {"an @ in a query is none", "https://files.test?@evil.test", REFERENCE_PLACE, "https files.test 443"},
    {"an @ in a fragment is none", "https://files.test#@evil.test", REFERENCE_PLACE, "https files.test 443"},
    {"backslashes are slashes", "\\\\evil.test\\a", REFERENCE_PLACE, "https evil.test 443"},
    {"a slash and a backslash", "/\\evil.test/", REFERENCE_PLACE, "https evil.test 443"},
    {"a backslash ends the host", "https://evil.test\\@registry.test/", REFERENCE_PLACE, "https evil.test 443"},
    {"three slashes", "///evil.test/", REFERENCE_PLACE, "https evil.test 443"},
    {"one slash behind the scheme", "https:/evil.test/", REFERENCE_PLACE, "https evil.test 443"},
    {"none behind the scheme", "http:evil.test/", REFERENCE_PLACE, "http evil.test 80"},
    {"tabs and line ends are skipped", "ht\ttps:/\n/ev\ril.test/", REFERENCE_PLACE, "https evil.test 443"},
    {"between the slashes too", "/\t/evil.test", REFERENCE_PLACE, "https evil.test 443"},
    {"white space in front", " \t\x01https://evil.test", REFERENCE_PLACE, "https evil.test 443"},
    {"white space behind", "https://evil.test \n", REFERENCE_PLACE, "https evil.test 443"},
    {"another scheme with a host", "git+ssh://git@files.test/x", REFERENCE_PLACE, "git+ssh files.test 0 @"},
    {"ssh", "ssh://files.test/x", REFERENCE_PLACE, "ssh files.test 22"},
    {"ftp", "ftp://files.test/x", REFERENCE_PLACE, "ftp files.test 21"},
    {"mail is no place", "mailto:a@files.test", REFERENCE_NONE, ""},
    {"data is no place", "data:text/html,https://files.test", REFERENCE_NONE, ""},
    {"a script is no place", "javascript:location='https://files.test'", REFERENCE_NONE, ""},
    {"a file is no place of ours", "file:///etc/passwd", REFERENCE_UNCLEAR, "file  0"},
    {"an IPv4 address", "http://10.0.0.1:81/", REFERENCE_PLACE, "http 10.0.0.1 81"},
    {"an IPv6 address", "http://[::1]/", REFERENCE_PLACE, "http [::1] 80"},
    {"a number for an address", "http://2130706433/", REFERENCE_UNCLEAR, "http 2130706433 80"},
    {"a short address", "http://127.1/", REFERENCE_UNCLEAR, "http 127.1 80"},
    {"a bracket that is not closed", "http://[::1/", REFERENCE_UNCLEAR, "http [::1 0"},
    {"percent in a host", "https://evil%2etest/", REFERENCE_UNCLEAR, "https evil%2etest 443"},
    {"an underscore in a host", "https://a_b.test/", REFERENCE_UNCLEAR, "https a_b.test 443"},
    {"a space in a host", "https://evil.test .registry.test/", REFERENCE_UNCLEAR, "https evil.test?.registry.test 443"},
    {"a label too long", "https://" HIGH_LABEL ".test/", REFERENCE_UNCLEAR, "https " HIGH_LABEL ".test 443"},
    {"full-width letters", "https://\xef\xbd\x85vil.test/", REFERENCE_UNCLEAR, "https ???vil.test 443"},
    {"a port that is none", "https://files.test:x/", REFERENCE_UNCLEAR, "https files.test:x 0"},
    {"a port too high", "https://files.test:65536/", REFERENCE_UNCLEAR, "https files.test:65536 0"},
    {"no host", "https://", REFERENCE_UNCLEAR, "https  0"},
    {"a scheme alone", "http:", REFERENCE_UNCLEAR, "http  0"},
};

static void references_lead_where_a_careless_client_goes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const struct row *r = &table[i];
        struct reference to;
        char place[400] = "";
        enum reference_kind kind = reference_read(&page, slice_of(r->text), false, &to);

        if (kind == REFERENCE_PLACE || kind == REFERENCE_UNCLEAR)
            snprintf(place, sizeof place, "%s %s %u%s", to.scheme, to.host, to.port, to.userinfo ? " @" : "");
        if (kind != r->kind || strcmp(place, r->place) != 0)
            fail_msg("%s: %d \"%s\"", r->requirement, (int)kind, place);
    }
}

static const struct cut_row {
    const char *requirement, *text;
    enum reference_kind kind;
} cut_table[] = {
    {"the host is whole", "https://files.test/a", REFERENCE_PLACE},
    {"in the host", "https://files.te", REFERENCE_UNCLEAR},
    {"behind the scheme", "https://", REFERENCE_UNCLEAR},
    {"in the scheme", "htt", REFERENCE_UNCLEAR},
    {"white space so far", "    ", REFERENCE_UNCLEAR},
    {"nothing so far", "", REFERENCE_UNCLEAR},
    {"one slash so far", "/", REFERENCE_UNCLEAR},
    {"a path", "/a", REFERENCE_SAME},
    {"a relative path", "a/b", REFERENCE_SAME},
    {"data", "data:x", REFERENCE_NONE},
};

static void of_a_cut_reference_only_what_is_sure(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cut_table / sizeof *cut_table; i++) {
        struct reference to;
        enum reference_kind kind = reference_read(&page, slice_of(cut_table[i].text), true, &to);

        if (kind != cut_table[i].kind)
            fail_msg("%s: %d", cut_table[i].requirement, (int)kind);
    }
}

static void an_endless_host_is_unclear(void **state)
{
    static char text[100000];
    struct reference to;

    (void)state;
    memset(text, 'a', sizeof text);
    memcpy(text, "https://", 8);
    assert_int_equal(reference_read(&page, slice_make(text, sizeof text), false, &to), REFERENCE_UNCLEAR);
}

static void https_to_what_can_be_read_is_a_downgrade(void **state)
{
    struct reference plain = {.scheme = "http", .host = "registry.test", .port = 80}, to;

    (void)state;
    reference_read(&page, SLICE("http://registry.test/"), false, &to);
    assert_true(reference_is_downgrade(&page, &to));
    assert_false(reference_is_downgrade(&plain, &to));
    reference_read(&page, SLICE("https://other.test/"), false, &to);
    assert_false(reference_is_downgrade(&page, &to));
    reference_read(&page, SLICE("ws://other.test/"), false, &to);
    assert_true(reference_is_downgrade(&page, &to));
}

enum { NOW = 1767323045 }; /* 2026-01-02T03:04:05Z */

static const struct signed_row {
    const char *requirement, *query;
    bool is_signed;
    int64_t lifetime_s;
    const char *method;
} signed_table[] = {
    {"S3, version 4", "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Expires=900&X-Amz-Signature=abc", true, 900, ""},
    {"Cloud Storage, version 4", "X-Goog-Expires=3600&X-Goog-Signature=abc", true, 3600, ""},
    {"case does not count", "x-amz-expires=60&x-amz-signature=abc", true, 60, ""},
    {"Azure, to read", "sv=2020&se=2026-01-02T03%3A14%3A05Z&sp=r&sig=abc", true, 600, "GET"},
    {"Azure, to write", "se=2026-01-02T04:04:05Z&sp=rw&sig=abc", true, 3600, "PUT"},
    {"Azure, to delete", "se=2026-01-03&sp=rwd&sig=abc", true, 75355, "DELETE"},
    {"CloudFront", "Expires=1767323105&Signature=abc&Key-Pair-Id=K", true, 60, ""},
    {"over already", "Expires=1&Signature=abc", true, 0, ""},
    {"a lifetime that cannot be read", "X-Amz-Expires=never&X-Amz-Signature=abc", true, -1, ""},
    {"no lifetime", "X-Amz-Signature=abc", true, -1, ""},
    {"an expiry alone", "Expires=1767323105", false, -1, ""},
    {"sig alone", "sig=abc", false, -1, ""},
    {"a signature alone", "Signature=abc", false, -1, ""},
    {"a name alone", "X-Amz-Signature", false, -1, ""},
    {"nothing", "", false, -1, ""},
};

static void signed_urls_are_known_by_their_names(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof signed_table / sizeof *signed_table; i++) {
        const struct signed_row *r = &signed_table[i];
        struct presigned p;
        bool is_signed = presigned_read(slice_of(r->query), NOW, &p);

        if (is_signed != r->is_signed || p.lifetime_s != r->lifetime_s || strcmp(p.method, r->method) != 0)
            fail_msg("%s: %d %lld \"%s\"", r->requirement, is_signed, (long long)p.lifetime_s, p.method);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(references_lead_where_a_careless_client_goes),
        cmocka_unit_test(of_a_cut_reference_only_what_is_sure),
        cmocka_unit_test(an_endless_host_is_unclear),
        cmocka_unit_test(https_to_what_can_be_read_is_a_downgrade),
        cmocka_unit_test(signed_urls_are_known_by_their_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
