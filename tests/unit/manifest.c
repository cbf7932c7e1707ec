/* The owner's manifest: what is refused before a packet is sent, and what is read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "audit/target.h"

#define OWNER "owner: { name: us, statement: ours }\n"
#define SERVICE(keys) OWNER "services:\n  s: { " keys " }\n"
#define REACH(ranges, keys) OWNER "reach: { ranges: [" ranges "] }\nservices:\n  s: { " keys " }\n"

static const struct {
    const char *name, *text;
    const char *refused; /* in the message; NULL: it opens */
} rows[] = {
    {"loopback without naming it", SERVICE("url: \"http://127.0.0.1:80\""), NULL},
    {"loopback of IPv6", SERVICE("url: \"http://[::1]:80\""), NULL},
    {"a path", SERVICE("url: \"https://127.0.0.1/base/\""), NULL},
    {"no owner", "services:\n  s: { url: \"http://127.0.0.1\" }\n", "owner needs"},
    {"an unknown key", SERVICE("url: \"http://127.0.0.1\", colour: red"), "colour"},
    {"no such service", OWNER "services:\n  t: { url: \"http://127.0.0.1\" }\n", "no service"},
    {"an address nobody named", SERVICE("url: \"http://10.0.0.1\""), "nothing is sent"},
    {"a public address", SERVICE("url: \"http://192.0.2.7\""), "nothing is sent"},
    {"a named range", REACH("10.0.0.0/8", "url: \"http://10.1.2.3\""), NULL},
    {"beside a named range", REACH("10.0.0.0/24", "url: \"http://10.0.1.3\""), "nothing is sent"},
    {"loopback, when only another range is named", REACH("10.0.0.0/8", "url: \"http://127.0.0.1\""), "nothing is sent"},
    {"metadata, even when it is named", REACH("169.254.0.0/16", "url: \"http://169.254.169.254\""), "nothing is sent"},
    {"metadata in IPv6, even when it is named", REACH("fd00::/8", "url: \"http://[fd00:ec2::254]\""), "nothing is sent"},
    {"metadata mapped into IPv6", REACH("\"::/8\"", "url: \"http://[::ffff:169.254.169.254]\""), "nothing is sent"},
    {"everything as a range", REACH("0.0.0.0/0", "url: \"http://127.0.0.1\""), "names nothing"},
    {"a range that is none", REACH("10.0.0.0", "url: \"http://127.0.0.1\""), "prefix length"},
    {"a name with a fixed address", SERVICE("url: \"http://npm.example\", address: 127.0.0.1"), NULL},
    {"a name with a fixed address outside", SERVICE("url: \"http://npm.example\", address: 10.0.0.1"), "nothing is sent"},
    {"a further URL outside", SERVICE("url: \"http://127.0.0.1\", also: [\"http://10.0.0.1\"]"), "nothing is sent"},
    {"another scheme", SERVICE("url: \"ftp://127.0.0.1\""), "expected http"},
    {"a user in the URL", SERVICE("url: \"http://u@127.0.0.1\""), "expected http"},
    {"a port that is none", SERVICE("url: \"http://127.0.0.1:0\""), "expected http"},
    {"no host", SERVICE("url: \"http://:80\""), "expected http"},
    {"a blank in the path", SERVICE("url: \"http://127.0.0.1/a b\""), "expected http"},
    {"a kind that is none", SERVICE("url: \"http://127.0.0.1\", kind: gopher"), "expected"},
    {"fetch without a nonce", SERVICE("url: \"http://127.0.0.1\", fetch: /x"), "{nonce}"},
    {"a credential as an argument", SERVICE("url: \"http://127.0.0.1\", credential: { from: \"exec:/bin/true\" }"), "file:NAME"},
    {"a credential in an unknown form", SERVICE("url: \"http://127.0.0.1\", credential: { from: \"env:HOME\", as: magic }"), "header:NAME"},
    {"a credential from the environment", SERVICE("url: \"http://127.0.0.1\", credential: { from: \"env:HOME\", as: \"header:X-Key\" }"), NULL},
    {"a listener outside", OWNER "listener: { addresses: [10.0.0.1] }\nservices:\n  s: { url: \"http://127.0.0.1\" }\n", "reach.ranges"},
    {"an upstream without a port", OWNER "upstream: { addresses: [127.0.0.1] }\nservices:\n  s: { url: \"http://127.0.0.1\" }\n", "with a port"},
};

static void what_opens_and_what_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct fault why = {0};
        struct manifest *m = manifest_parse(slice_of(rows[i].text), "manifest.yaml", "/", &why);
        struct target *t = m ? target_open(m, "s", &why) : NULL;

        if (!rows[i].refused != (t != NULL) || (rows[i].refused && !strstr(why.text, rows[i].refused)))
            fail_msg("%s: %s", rows[i].name, t ? "opened" : why.text);
        target_free(t);
        manifest_free(m);
    }
}

static void what_is_read(void **state)
{
    struct fault why = {0};
    struct manifest *m = manifest_parse(
        SLICE(OWNER "listener: { addresses: [127.0.0.2, 127.0.0.3], ports: [80, 22], outside: out.test }\n"
                    "upstream: { host: up.test, addresses: [\"127.0.0.4:80\"] }\n"
                    "services:\n  s: { url: \"http://NPM.example:4873/base/\", address: 127.0.0.9, kind: npm, methods: [GET],"
                    " accept: { AN-1: \"public until 2027-06-30\", AN-2: \"no date\" } }\n"),
        "manifest.yaml", "/", &why);
    struct target *t = m ? target_open(m, "s", &why) : NULL;
    struct buf url = {0};
    const char *reason = NULL;

    (void)state;
    if (!t)
        fail_msg("%s", why.text);
    target_url(t, 0, &url);
    assert_true(slice_is(buf_slice(&url), "http://npm.example:4873/base"));
    assert_int_equal(t->dialect, DIALECT_NPM);
    assert_int_equal(t->n_places, 5);
    assert_false(t->places[0].is_upstream);
    assert_true(t->places[4].is_upstream);
    assert_true(target_sends(t, "GET"));
    assert_false(target_sends(t, "PUT"));
    assert_true(manifest_is_loopback(m));
    assert_true(target_accepts(t, "AN-1", 1800000000, &reason));  /* January 2027 */
    assert_false(target_accepts(t, "AN-1", 1815000000, &reason)); /* July 2027: no longer */
    assert_false(target_accepts(t, "AN-2", 1800000000, &reason)); /* for ever is not accepted */
    assert_false(target_accepts(t, "AN-3", 1800000000, &reason));
    buf_free(&url);
    target_free(t);
    manifest_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_opens_and_what_is_refused), cmocka_unit_test(what_is_read)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
