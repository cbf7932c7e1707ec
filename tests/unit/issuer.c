/* Issuers: configuration and key sets, and what is refused of them with which words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "authz/issuer.h"
#include "base/file.h"
#include "tests/unit/forge.h"

static EVP_PKEY *ec, *ec384, *rsa, *rsa1024;
static char *jwk_ec, *jwk_ec2, *jwk_384, *jwk_rsa, *jwk_1024;

#define JWK_OCT "{\"kid\":\"s1\",\"kty\":\"oct\",\"k\":\"AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0\"}"

static char *jwk(EVP_PKEY *key, const char *kid)
{
    struct buf out = {0};

    forge_jwk(&out, key, kid);
    return buf_take_text(&out);
}

static int make_keys(void **state)
{
    (void)state;
    ec = EVP_EC_gen("P-256");
    ec384 = EVP_EC_gen("P-384");
    rsa = EVP_RSA_gen(2048);
    rsa1024 = EVP_RSA_gen(1024);
    jwk_ec = jwk(ec, "e1");
    jwk_ec2 = jwk(ec, "e2");
    jwk_384 = jwk(ec384, "e3");
    jwk_rsa = jwk(rsa, "r1");
    jwk_1024 = jwk(rsa1024, "r2");
    return 0;
}

static int free_keys(void **state)
{
    (void)state;
    EVP_PKEY_free(ec);
    EVP_PKEY_free(ec384);
    EVP_PKEY_free(rsa);
    EVP_PKEY_free(rsa1024);
    free(jwk_ec);
    free(jwk_ec2);
    free(jwk_384);
    free(jwk_rsa);
    free(jwk_1024);
    return 0;
}

static struct conf *read_conf(const char *text)
{
    static const struct conf_section *const sections[] = {&issuers_section};
    struct fault why = {0};
    struct conf *c = conf_parse(slice_of(text), "proxy.conf", "/etc/x", sections, 1, &why);

    if (!c)
        fail_msg("%s", why.text);
    return c;
}

/* Issuer ci with this in its item and this key set, and a sound issuer other after it. */
static struct issuers *compile(const char *item, const char *set, struct fault *why)
{
    struct bundle *files = bundle_new();
    struct buf text = {0}, other = {0};
    struct issuers *all;
    struct conf *c;
    char *yaml;

    buf_printf(&text, "issuers:\n  ci: { jwks: ci.jwks%s%s }\n  other: { jwks: o.jwks }\n", *item ? ", " : "", item);
    yaml = buf_take_text(&text);
    c = read_conf(yaml);
    buf_printf(&other, "{\"keys\":[%s]}", jwk_ec);
    bundle_add(files, "issuer.ci.jwks", slice_of(set));
    bundle_add(files, "issuer.other.jwks", buf_slice(&other));
    all = issuers_compile(c, files, why);
    conf_free(c);
    bundle_free(files);
    buf_free(&other);
    free(yaml);
    return all;
}

static void defaults_and_written_values(void **state)
{
    struct fault why = {0};
    struct buf set = {0};
    struct issuers *all;
    const struct issuer *is;
    char *text;

    (void)state;
    buf_printf(&set, "{\"keys\":[%s,%s]}", jwk_ec, jwk_rsa);
    text = buf_take_text(&set);
    all = compile("issuer: 'https://ci.example', algorithms: [ES256, RS256], type: Application/JWT, max-lifetime: 1h, "
                  "leeway: 5s, pin-source: false", text, &why);
    assert_non_null(all);
    assert_null(issuers_find(all, SLICE("ci")));
    is = issuers_find(all, SLICE("https://ci.example"));
    assert_string_equal(issuer_name(is), "ci");
    assert_string_equal(issuer_type(is), "JWT");
    assert_int_equal(issuer_max_lifetime_s(is), 3600);
    assert_int_equal(issuer_leeway_s(is), 5);
    assert_false(issuer_pins_source(is));
    assert_true(issuer_allows(is, ALGORITHM_RS256));
    assert_int_equal(key_algorithm(issuer_key(is, SLICE("r1"))), ALGORITHM_RS256);
    assert_null(issuer_key(is, SLICE("r")));
    assert_null(issuer_key(is, SLICE("")));

    is = issuers_find(all, SLICE("other"));
    assert_string_equal(issuer_claim(is), "other");
    assert_string_equal(issuer_type(is), "at+jwt");
    assert_int_equal(issuer_max_lifetime_s(is), 900);
    assert_int_equal(issuer_leeway_s(is), 30);
    assert_true(issuer_pins_source(is));
    assert_true(issuer_allows(is, ALGORITHM_ES256));
    assert_false(issuer_allows(is, ALGORITHM_RS256));
    assert_false(issuer_allows(is, ALGORITHM_HS256));
    assert_int_equal(issuers_longest_s(all), 3605);
    issuers_free(all);
    free(text);
}

/* A key set with E F G R S O written out: EC, the same under another kid, P-384, RSA, a short RSA, a shared key. */
static char *expand(const char *set)
{
    struct buf out = {0};

    for (; *set; set++)
        switch (*set) {
        case 'E':
            buf_text(&out, jwk_ec);
            break;
        case 'F':
            buf_text(&out, jwk_ec2);
            break;
        case 'G':
            buf_text(&out, jwk_384);
            break;
        case 'R':
            buf_text(&out, jwk_rsa);
            break;
        case 'S':
            buf_text(&out, jwk_1024);
            break;
        case 'O':
            buf_text(&out, JWK_OCT);
            break;
        default:
            buf_char(&out, *set);
        }
    return buf_take_text(&out);
}

static void key_sets_are_read_or_refused_with_file_and_key(void **state)
{
    static const struct {
        const char *name, *item, *set, *says; /* says NULL: accepted */
    } rows[] = {
        {"one EC key", "", "{\"keys\":[E]}", NULL},
        {"two keys", "", "{\"keys\":[E,F]}", NULL},
        {"RSA when listed", "algorithms: RS256", "{\"keys\":[R]}", NULL},
        {"shared key when HS256 alone is listed", "algorithms: [HS256]", "{\"keys\":[O]}", NULL},
        {"a key for encryption is left out", "", "{\"keys\":[E,{\"kid\":\"x\",\"kty\":\"oct\",\"use\":\"enc\"}]}", NULL},
        {"not JSON", "", "{keys", "/etc/x/ci.jwks:1:"},
        {"trailing bytes", "", "{\"keys\":[E]} x", "/etc/x/ci.jwks:1:"},
        {"keys twice", "", "{\"keys\":[E],\"keys\":[F]}", "duplicate"},
        {"a member of a key twice", "", "{\"keys\":[{\"kid\":\"a\",\"kid\":\"b\"}]}", "duplicate"},
        {"no set", "", "[]", "/etc/x/ci.jwks: expected a JWK set"},
        {"a lone key", "", "E", "expected a JWK set"},
        {"empty set", "", "{\"keys\":[]}", "no key to verify with"},
        {"only a key for encryption", "", "{\"keys\":[{\"kid\":\"x\",\"kty\":\"oct\",\"use\":\"enc\"}]}",
         "no key to verify with"},
        {"kid twice", "", "{\"keys\":[E,E]}", "key 2: kid e1 stands there twice"},
        {"P-384", "", "{\"keys\":[E,G]}", "/etc/x/ci.jwks: key 2 (kid e3): \"crv\" is \"P-384\""},
        {"RSA when only ES256 is listed", "", "{\"keys\":[R]}", "key 1 (kid r1): serves RS256"},
        {"short RSA", "algorithms: [RS256]", "{\"keys\":[R,S]}", "key 2 (kid r2): an RSA key of 1024 bits"},
        {"shared key when only ES256 is listed", "", "{\"keys\":[O]}", "key 1 (kid s1): serves HS256"},
        {"public key when HS256 is listed", "algorithms: [HS256]", "{\"keys\":[O,E]}", "key 2 (kid e1): serves ES256"},
        {"HS256 beside ES256", "algorithms: [ES256, HS256]", "{\"keys\":[E]}", "proxy.conf:2:"},
        {"unknown algorithm", "algorithms: [ES512]", "{\"keys\":[E]}", "expected ES256, RS256 or HS256"},
        {"algorithm in lower case", "algorithms: [es256]", "{\"keys\":[E]}", "expected ES256, RS256 or HS256"},
        {"none", "algorithms: [none]", "{\"keys\":[E]}", "expected ES256, RS256 or HS256"},
        {"no algorithm", "algorithms: []", "{\"keys\":[E]}", "needs an algorithm"},
        {"an algorithm twice", "algorithms: [ES256, ES256]", "{\"keys\":[E]}", "twice"},
        {"no lifetime", "max-lifetime: 0", "{\"keys\":[E]}", "at least 1s"},
        {"leeway of 5m", "leeway: 5m", "{\"keys\":[E]}", NULL},
        {"leeway over 5m", "leeway: 301s", "{\"keys\":[E]}", "at most 5m"},
        {"empty type", "type: ''", "{\"keys\":[E]}", "media type"},
        {"iss with a blank", "issuer: 'a b'", "{\"keys\":[E]}", "visible"},
        {"an iss that another issuer has", "issuer: other", "{\"keys\":[E]}", "ci has the same iss"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *set = expand(rows[i].set);
        struct fault why = {0};
        struct issuers *all = compile(rows[i].item, set, &why);

        if (rows[i].says ? all || !strstr(why.text, rows[i].says) : !all)
            fail_msg("%s: %s", rows[i].name, all ? "accepted" : why.text);
        issuers_free(all);
        free(set);
    }
}

static uint64_t generation_of(const char *item, const char *set)
{
    char *text = expand(set);
    struct issuers *all = compile(item, text, NULL);
    uint64_t generation = issuers_generation(all);

    issuers_free(all);
    free(text);
    return generation;
}

static void the_generation_tells_of_every_change(void **state)
{
    uint64_t first = generation_of("", "{\"keys\":[E]}");

    (void)state;
    assert_true(first == generation_of("", "{ \"keys\": [ E ] }"));
    assert_true(first != generation_of("", "{\"keys\":[F]}"));
    assert_true(first != generation_of("", "{\"keys\":[E,F]}"));
    assert_true(first != generation_of("max-lifetime: 1m", "{\"keys\":[E]}"));
    assert_true(first != generation_of("type: JWT", "{\"keys\":[E]}"));
    assert_true(first != generation_of("issuer: x", "{\"keys\":[E]}"));
}

static void files_are_read_and_a_shared_key_must_be_private(void **state)
{
    char directory[] = "/tmp/exeat-issuer-XXXXXX", *path, *jwks;
    struct bundle *files = bundle_new(), *again = bundle_new();
    struct fault why = {0};
    struct buf text = {0};
    struct slice blob;
    struct conf *c;

    (void)state;
    assert_non_null(mkdtemp(directory));
    jwks = expand("{\"keys\":[O]}");
    path = file_join(directory, "s.jwks");
    assert_true(file_replace(path, 0644, slice_of(jwks), &why));
    buf_printf(&text, "issuers: { s: { jwks: %s, algorithms: HS256 } }", path);
    buf_char(&text, '\0');
    c = read_conf(buf_slice(&text).ptr);
    assert_false(issuers_read_files(c, files, &why));
    assert_int_equal(why.kind, FAULT_PERMISSION);
    assert_int_equal(chmod(path, 0600), 0);
    assert_true(issuers_read_files(c, files, &why));
    assert_true(bundle_get(files, "issuer.s.jwks", &blob));
    assert_true(slice_is(blob, jwks));
    unlink(path);
    assert_false(issuers_read_files(c, again, &why));
    assert_int_equal(why.kind, FAULT_MISSING);
    assert_non_null(strstr(why.text, "s.jwks"));
    assert_null(issuers_compile(c, again, &why));
    assert_int_equal(why.kind, FAULT_MISSING);
    bundle_free(files);
    bundle_free(again);
    conf_free(c);
    buf_free(&text);
    free(path);
    free(jwks);
    rmdir(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_and_written_values),
        cmocka_unit_test(key_sets_are_read_or_refused_with_file_and_key),
        cmocka_unit_test(the_generation_tells_of_every_change),
        cmocka_unit_test(files_are_read_and_a_shared_key_must_be_private),
    };

    return cmocka_run_group_tests_name("issuer", tests, make_keys, free_keys);
}
