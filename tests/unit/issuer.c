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
    assert_string_equal(issuer_types(is), "JWT");
    assert_true(issuer_takes_type(is, SLICE("jwt")) && issuer_takes_type(is, SLICE("application/JWT")));
    assert_false(issuer_takes_type(is, SLICE("at+jwt")) || issuer_takes_type(is, SLICE("")));
    assert_int_equal(issuer_max_lifetime_s(is), 3600);
    assert_int_equal(issuer_leeway_s(is), 5);
    assert_false(issuer_pins_source(is));
    assert_true(issuer_allows(is, ALGORITHM_RS256));
    assert_int_equal(key_algorithm(issuer_key(is, SLICE("r1"))), ALGORITHM_RS256);
    assert_null(issuer_key(is, SLICE("r")));
    assert_null(issuer_key(is, SLICE("")));

    is = issuers_find(all, SLICE("other"));
    assert_string_equal(issuer_claim(is), "other");
    assert_string_equal(issuer_types(is), "at+jwt");
    assert_null(issuer_mapping(is));
    assert_null(issuer_naming(is));
    assert_null(issuer_keys_uri(is));
    assert_true(issuer_has_keys(is, INT64_MAX, &why));
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
        {"several types", "types: [at+jwt, JWT]", "{\"keys\":[E]}", NULL},
        {"no type", "types: []", "{\"keys\":[E]}", "media types such as"},
        {"a type twice", "types: [JWT, application/jwt]", "{\"keys\":[E]}", "twice"},
        {"type and types", "type: JWT, types: [JWT]", "{\"keys\":[E]}", "write one of them"},
        {"keys from a file and from a URL", "issuer: i, jwks-uri: 'https://i.test/keys'", "{\"keys\":[E]}", "either jwks, a file, or jwks-uri"},
        {"a map", "map: {'a:1': s}", "{\"keys\":[E]}", NULL},
        {"a map that means nothing", "map: {'a': s}", "{\"keys\":[E]}", "expected CLAIM:VALUE"},
        {"a sandbox by claims", "sandbox: '{a}'", "{\"keys\":[E]}", NULL},
        {"a sandbox by nothing", "sandbox: 'a'", "{\"keys\":[E]}", "no claim is in it"},
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
    assert_true(first != generation_of("sandbox: '{a}'", "{\"keys\":[E]}"));
    assert_true(generation_of("map: {'a:1': s}", "{\"keys\":[E]}") != generation_of("map: {'a:1': t}", "{\"keys\":[E]}"));
    assert_true(generation_of("map: {'a:1': s}", "{\"keys\":[E]}") != generation_of("map: {'a:2': s}", "{\"keys\":[E]}"));
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

/* The issuer pub alone, with its keys at a URL. */
static struct issuers *compile_published(const char *item, struct fault *why)
{
    struct bundle *files = bundle_new();
    struct buf text = {0};
    struct issuers *all;
    struct conf *c;

    buf_printf(&text, "issuers:\n  pub: { issuer: 'https://i.test', %s }\n", item);
    buf_char(&text, '\0');
    c = read_conf(buf_slice(&text).ptr);
    all = issuers_compile(c, files, why);
    bundle_free(files);
    buf_free(&text);
    conf_free(c);
    return all;
}

static void where_keys_are_published_is_judged_strictly(void **state)
{
    static const struct {
        const char *name, *item, *says; /* says NULL: accepted */
    } rows[] = {
        {"https", "jwks-uri: 'https://i.test/.well-known/jwks'", NULL},
        {"a port and a query", "jwks-uri: 'https://i.test:8443/keys?a=b'", NULL},
        {"the root", "jwks-uri: 'https://i.test/'", NULL},
        {"plain HTTP", "jwks-uri: 'http://i.test/keys'", "use https"},
        {"no path", "jwks-uri: 'https://i.test'", "expected a URL"},
        {"an address for a host", "jwks-uri: 'https://10.0.0.1/keys'", "expected a URL"},
        {"a user in it", "jwks-uri: 'https://u@i.test/keys'", "expected a URL"},
        {"a fragment", "jwks-uri: 'https://i.test/keys#a'", "expected a URL"},
        {"a blank", "jwks-uri: 'https://i.test/ke ys'", "expected a URL"},
        {"port 0", "jwks-uri: 'https://i.test:0/keys'", "expected a URL"},
        {"a file's", "jwks-uri: 'file:///etc/keys'", "expected a URL"},
        {"RS256", "jwks-uri: 'https://i.test/keys', algorithms: [RS256]", NULL},
        {"a shared key", "jwks-uri: 'https://i.test/keys', algorithms: [HS256]", "not published"},
        {"fixed addresses", "jwks-uri: 'https://i.test/keys', jwks-addresses: ['127.0.0.1:443']", NULL},
        {"an address without a port", "jwks-uri: 'https://i.test/keys', jwks-addresses: ['127.0.0.1']", "IP:PORT"},
        {"a name for an address", "jwks-uri: 'https://i.test/keys', jwks-addresses: ['i.test:443']", "IP:PORT"},
        {"fetched all the time", "jwks-uri: 'https://i.test/keys', jwks-refresh: 0", "at least 1s"},
        {"too old before they are fetched again", "jwks-uri: 'https://i.test/keys', jwks-refresh: 2h, jwks-max-age: 1h", "too old"},
        {"neither file nor URL", "algorithms: [RS256]", "either jwks, a file, or jwks-uri"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct fault why = {0};
        struct issuers *all = compile_published(rows[i].item, &why);

        if (rows[i].says ? all || !strstr(why.text, rows[i].says) : !all)
            fail_msg("%s: %s", rows[i].name, all ? "accepted" : why.text);
        issuers_free(all);
    }
}

#define URI "https://i.test/keys"

static bool set_keys(struct issuers *all, const char *set, int64_t fetched_s, struct fault *why)
{
    char *text = expand(set);
    bool ok = issuers_set_keys(all, SLICE("pub"), SLICE(URI), slice_of(text), fetched_s, why);

    free(text);
    return ok;
}

static void published_keys_come_go_and_grow_old(void **state)
{
    struct issuers *all = compile_published("jwks-uri: '" URI "', jwks-max-age: 1h", NULL);
    const struct issuer *is = issuers_named(all, "pub");
    uint64_t generation = issuers_generation(all);
    struct fault why = {0};

    (void)state;
    assert_string_equal(issuer_keys_uri(is), URI);
    assert_false(issuer_has_keys(is, 1000, &why));
    assert_int_equal(why.reason, REASON_ISSUER_UNAVAILABLE);
    assert_null(issuer_key(is, SLICE("e1")));

    assert_true(set_keys(all, "{\"keys\":[E]}", 1000, &why));
    assert_true(issuer_has_keys(is, 1000, &why) && issuer_has_keys(is, 4599, &why));
    assert_non_null(issuer_key(is, SLICE("e1")));
    assert_true(generation != issuers_generation(all));
    generation = issuers_generation(all);

    assert_false(issuer_has_keys(is, 4600, &why));
    assert_int_equal(why.reason, REASON_ISSUER_UNAVAILABLE);
    assert_true(set_keys(all, "{\"keys\":[E]}", 4600, &why)); /* the same again: younger, and nothing to verify anew */
    assert_true(issuer_has_keys(is, 8199, &why));
    assert_true(generation == issuers_generation(all));

    assert_true(set_keys(all, "{\"keys\":[F]}", 5000, &why)); /* rotated */
    assert_null(issuer_key(is, SLICE("e1")));
    assert_non_null(issuer_key(is, SLICE("e2")));
    assert_true(generation != issuers_generation(all));
    generation = issuers_generation(all);

    assert_false(set_keys(all, "{\"keys\":[]}", 6000, &why)); /* no use: what was, stays */
    assert_non_null(issuer_key(is, SLICE("e2")));
    assert_true(generation == issuers_generation(all));
    assert_int_equal(issuer_keys_until_s(is), 8600);
    assert_true(issuers_set_keys(all, SLICE("pub"), SLICE("https://i.test/other"), SLICE("no set"), 7000, &why)); /* nobody's */
    assert_true(issuers_set_keys(all, SLICE("other"), SLICE(URI), SLICE("no set"), 7000, &why));
    assert_non_null(issuer_key(is, SLICE("e2")));
    issuers_free(all);
}

static void of_a_published_set_what_cannot_be_used_is_left_out(void **state)
{
    static const struct {
        const char *name, *set, *says; /* says NULL: accepted */
        size_t n, left_out;
    } rows[] = {
        {"one", "{\"keys\":[E]}", NULL, 1, 0},
        {"members that nobody asked for", "{\"keys\":[E],\"issuer\":\"x\"}", NULL, 1, 0},
        {"one of another algorithm", "{\"keys\":[E,R]}", NULL, 1, 1},
        {"one of another curve", "{\"keys\":[G,E]}", NULL, 1, 1},
        {"one for encryption", "{\"keys\":[E,{\"kid\":\"x\",\"kty\":\"oct\",\"use\":\"enc\"}]}", NULL, 1, 0},
        {"a shared one", "{\"keys\":[O,E]}", NULL, 1, 1},
        {"what is no key", "{\"keys\":[1,null,\"a\",{},E]}", NULL, 1, 4},
        {"one without kid", "{\"keys\":[{\"kty\":\"oct\"},E]}", NULL, 1, 1},
        {"a kid twice", "{\"keys\":[E,E]}", "stands there twice", 0, 0},
        {"a kid twice, one left out", "{\"keys\":[E,{\"kid\":\"e1\",\"kty\":\"oct\"}]}", NULL, 1, 1},
        {"none that can be used", "{\"keys\":[R]}", "none of its 1 keys", 0, 0},
        {"none", "{\"keys\":[]}", "no key to verify with", 0, 0},
        {"no JSON", "<html>", "x:1:", 0, 0},
        {"no set", "{\"key\":[E]}", "expected a JWK set", 0, 0},
        {"a member twice", "{\"keys\":[E],\"keys\":[F]}", "duplicate", 0, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *text = expand(rows[i].set);
        struct fault why = {0};
        struct keyset *s = keyset_parse(slice_of(text), "x", 1u << ALGORITHM_ES256, KEYSET_PUBLISHED, &why);

        if (rows[i].says ? s || !strstr(why.text, rows[i].says) : !s)
            fail_msg("%s: %s", rows[i].name, s ? "accepted" : why.text);
        if (s && (keyset_count(s) != rows[i].n || keyset_left_out(s) != rows[i].left_out || why.text[0]))
            fail_msg("%s: %zu keys, %zu left out", rows[i].name, keyset_count(s), keyset_left_out(s));
        keyset_free(s);
        free(text);
    }
}

static void what_is_handed_on_has_public_members_alone(void **state)
{
    char *text = expand("{\"keys\":[R,E,{\"kid\":\"p\",\"kty\":\"oct\",\"d\":\"secret\"}],\"more\":\"words\"}");
    struct keyset *s = keyset_parse(slice_of(text), "x", 1u << ALGORITHM_ES256 | 1u << ALGORITHM_RS256, KEYSET_PUBLISHED, NULL);
    struct buf out = {0};
    struct keyset *again;

    (void)state;
    keyset_print(s, &out);
    assert_true(slice_search(buf_slice(&out), SLICE("secret")) < 0 && slice_search(buf_slice(&out), SLICE("words")) < 0);
    again = keyset_parse(buf_slice(&out), "again", 1u << ALGORITHM_ES256 | 1u << ALGORITHM_RS256, KEYSET_FILE, NULL);
    assert_int_equal(keyset_count(again), 2);
    for (size_t i = 0; i < 2; i++)
        assert_true(key_mark(keyset_key(s, i)) == key_mark(keyset_key(again, i)));
    keyset_free(s);
    keyset_free(again);
    buf_free(&out);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_and_written_values),
        cmocka_unit_test(key_sets_are_read_or_refused_with_file_and_key),
        cmocka_unit_test(the_generation_tells_of_every_change),
        cmocka_unit_test(where_keys_are_published_is_judged_strictly),
        cmocka_unit_test(published_keys_come_go_and_grow_old),
        cmocka_unit_test(of_a_published_set_what_cannot_be_used_is_left_out),
        cmocka_unit_test(what_is_handed_on_has_public_members_alone),
        cmocka_unit_test(files_are_read_and_a_shared_key_must_be_private),
    };

    return cmocka_run_group_tests_name("issuer", tests, make_keys, free_keys);
}
