/* Owns one key. Must not know tokens: it says yes or no to bytes. */
#include "authz/key.h"

#include <jansson.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/param_build.h>
#include <stdlib.h>
#include <string.h>

#include "base/secret.h"
#include "base/text.h"

enum { KID_MAX = 256, COORDINATE = 32, RSA_MIN_BITS = 2048, RSA_MAX_BITS = 8192, HMAC_MIN = 32, HMAC_MAX = 1024 };

struct key {
    char *kid;
    enum algorithm algorithm;
    EVP_PKEY *public;      /* ES256, RS256 */
    struct secret *shared; /* HS256 */
    uint64_t mark;
};

static const struct {
    const char *name, *kty;
} algorithms[N_ALGORITHMS] = {
    [ALGORITHM_ES256] = {"ES256", "EC"},
    [ALGORITHM_RS256] = {"RS256", "RSA"},
    [ALGORITHM_HS256] = {"HS256", "oct"},
};

const char *algorithm_name(enum algorithm a)
{
    return algorithms[a].name;
}

bool algorithm_find(struct slice name, enum algorithm *out)
{
    for (int a = 0; a < N_ALGORITHMS; a++)
        if (slice_is(name, algorithms[a].name)) {
            *out = (enum algorithm)a;
            return true;
        }
    return false;
}

static const char *text_of(json_t *jwk, const char *name)
{
    return json_string_value(json_object_get(jwk, name));
}

static bool check_use(json_t *jwk, const char *kty, struct fault *why)
{
    static const char *const private_members[] = {"d", "p", "q", "dp", "dq", "qi", "oth", "k"};
    json_t *use = json_object_get(jwk, "use"), *ops = json_object_get(jwk, "key_ops"), *op;
    bool verifies = !ops;
    size_t i;

    for (i = 0; i < sizeof private_members / sizeof private_members[0]; i++)
        if (json_object_get(jwk, private_members[i]) &&
            !(strcmp(private_members[i], "k") == 0 && strcmp(kty, "oct") == 0))
            return fault_set(why, FAULT_SYNTAX,
                             "has the private member \"%s\"; a key set holds public keys only: make a new key",
                             private_members[i]);
    if (use && (!json_is_string(use) || strcmp(json_string_value(use), "sig") != 0))
        return fault_set(why, FAULT_SYNTAX, "\"use\" is not \"sig\"");
    json_array_foreach(ops, i, op)
        if (json_is_string(op) && strcmp(json_string_value(op), "verify") == 0)
            verifies = true;
    return verifies || fault_set(why, FAULT_SYNTAX, "\"key_ops\" does not list \"verify\"");
}

static bool choose_algorithm(json_t *jwk, const char *kty, unsigned allowed, enum algorithm *out, struct fault *why)
{
    json_t *alg = json_object_get(jwk, "alg");
    int a = 0;

    while (a < N_ALGORITHMS && strcmp(algorithms[a].kty, kty) != 0)
        a++;
    if (a == N_ALGORITHMS)
        return fault_set(why, FAULT_SYNTAX, "key type \"%.20s\" is not known; use EC, RSA or oct", kty);
    if (alg && (!json_is_string(alg) || strcmp(json_string_value(alg), algorithms[a].name) != 0))
        return fault_set(why, FAULT_SYNTAX, "\"alg\" is \"%.20s\"; a key of type %s serves %s",
                         json_is_string(alg) ? json_string_value(alg) : "no text", kty, algorithms[a].name);
    if (!(allowed & 1u << a))
        return fault_set(why, FAULT_SYNTAX, "serves %s, which the issuer's algorithms do not list",
                         algorithms[a].name);
    *out = (enum algorithm)a;
    return true;
}

/* A member's bytes, appended. */
static bool bytes_of(json_t *jwk, const char *name, struct buf *out, struct fault *why)
{
    const char *text = text_of(jwk, name);

    if (!text || !*text || !text_unbase64url(slice_of(text), out))
        return fault_set(why, FAULT_SYNTAX, "\"%s\" is not base64url without padding", name);
    return true;
}

static EVP_PKEY *build(const char *type, OSSL_PARAM_BLD *builder)
{
    OSSL_PARAM *params = OSSL_PARAM_BLD_to_param(builder);
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, type, NULL), *check = NULL;
    EVP_PKEY *key = NULL;

    if (params && ctx && EVP_PKEY_fromdata_init(ctx) > 0)
        EVP_PKEY_fromdata(ctx, &key, EVP_PKEY_PUBLIC_KEY, params);
    if (key && (!(check = EVP_PKEY_CTX_new_from_pkey(NULL, key, NULL)) || EVP_PKEY_public_check(check) != 1)) {
        EVP_PKEY_free(key);
        key = NULL;
    }
    EVP_PKEY_CTX_free(check);
    EVP_PKEY_CTX_free(ctx);
    OSSL_PARAM_free(params);
    return key;
}

static bool read_ec(json_t *jwk, struct key *k, struct fault *why)
{
    const char *curve = text_of(jwk, "crv");
    OSSL_PARAM_BLD *builder = NULL;
    struct buf point = {0};
    bool ok = false;

    if (!curve || strcmp(curve, "P-256") != 0) {
        fault_set(why, FAULT_SYNTAX, "\"crv\" is \"%.20s\"; ES256 needs P-256", curve ? curve : "");
        goto out;
    }
    buf_char(&point, 4); /* uncompressed */
    if (!bytes_of(jwk, "x", &point, why))
        goto out;
    if (buf_len(&point) == 1 + COORDINATE && !bytes_of(jwk, "y", &point, why))
        goto out;
    if (buf_len(&point) != 1 + 2 * COORDINATE) {
        fault_set(why, FAULT_SYNTAX, "\"x\" and \"y\" of a P-256 key are %d bytes each", COORDINATE);
        goto out;
    }
    builder = OSSL_PARAM_BLD_new();
    if (builder && OSSL_PARAM_BLD_push_utf8_string(builder, OSSL_PKEY_PARAM_GROUP_NAME, "prime256v1", 0) &&
        OSSL_PARAM_BLD_push_octet_string(builder, OSSL_PKEY_PARAM_PUB_KEY, buf_slice(&point).ptr, buf_len(&point)))
        k->public = build("EC", builder);
    ok = k->public || fault_set(why, FAULT_SYNTAX, "\"x\" and \"y\" are not a point of P-256");
out:
    OSSL_PARAM_BLD_free(builder);
    buf_free(&point);
    return ok;
}

static BIGNUM *number_of(json_t *jwk, const char *name, struct fault *why)
{
    struct buf bytes = {0};
    BIGNUM *n = NULL;

    if (bytes_of(jwk, name, &bytes, why))
        n = BN_bin2bn((const unsigned char *)buf_slice(&bytes).ptr, (int)buf_len(&bytes), NULL);
    buf_free(&bytes);
    return n;
}

static bool read_rsa(json_t *jwk, struct key *k, struct fault *why)
{
    BIGNUM *n = number_of(jwk, "n", why), *e = n ? number_of(jwk, "e", why) : NULL;
    OSSL_PARAM_BLD *builder = NULL;
    bool ok = false;

    if (!n || !e)
        goto out;
    if (BN_num_bits(n) < RSA_MIN_BITS || BN_num_bits(n) > RSA_MAX_BITS) {
        fault_set(why, FAULT_SYNTAX, "an RSA key of %d bits; it must have %d to %d", BN_num_bits(n), RSA_MIN_BITS,
                  RSA_MAX_BITS);
        goto out;
    }
    builder = OSSL_PARAM_BLD_new();
    if (builder && BN_num_bits(e) <= 64 && OSSL_PARAM_BLD_push_BN(builder, OSSL_PKEY_PARAM_RSA_N, n) &&
        OSSL_PARAM_BLD_push_BN(builder, OSSL_PKEY_PARAM_RSA_E, e))
        k->public = build("RSA", builder);
    ok = k->public || fault_set(why, FAULT_SYNTAX, "\"n\" and \"e\" are not a sound RSA key");
out:
    OSSL_PARAM_BLD_free(builder);
    BN_free(n);
    BN_free(e);
    return ok;
}

static bool read_oct(json_t *jwk, struct key *k, struct fault *why)
{
    struct buf bytes = {0};
    bool ok = bytes_of(jwk, "k", &bytes, why);

    if (ok && (buf_len(&bytes) < HMAC_MIN || buf_len(&bytes) > HMAC_MAX))
        ok = fault_set(why, FAULT_SYNTAX, "a shared key of %zu bytes; HS256 needs %d to %d", buf_len(&bytes), HMAC_MIN,
                       HMAC_MAX);
    if (ok)
        k->shared = secret_new(buf_slice(&bytes));
    buf_wipe(&bytes);
    return ok;
}

static void set_mark(json_t *jwk, struct key *k)
{
    static const char *const members[] = {"kty", "crv", "x", "y", "n", "e", "k"};
    unsigned char digest[32];
    struct buf text = {0};

    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
        buf_printf(&text, "%s:%s\n", members[i], text_of(jwk, members[i]) ? text_of(jwk, members[i]) : "");
    if (!EVP_Q_digest(NULL, "SHA256", NULL, buf_slice(&text).ptr, buf_len(&text), digest, NULL))
        abort();
    memcpy(&k->mark, digest, sizeof k->mark);
    buf_wipe(&text);
}

static bool read_kid(json_t *jwk, struct key *k, struct fault *why)
{
    const char *kid = text_of(jwk, "kid");

    if (!kid || !*kid || strlen(kid) > KID_MAX)
        return fault_set(why, FAULT_SYNTAX, "has no \"kid\" of 1 to %d characters", KID_MAX);
    k->kid = text_copy(slice_of(kid));
    return true;
}

struct key *key_from_jwk(struct json_t *jwk, unsigned allowed, struct fault *why)
{
    bool (*const read[N_ALGORITHMS])(json_t *, struct key *, struct fault *) = {
        [ALGORITHM_ES256] = read_ec, [ALGORITHM_RS256] = read_rsa, [ALGORITHM_HS256] = read_oct};
    const char *kty = text_of(jwk, "kty");
    struct key *k = calloc(1, sizeof *k);

    if (!k)
        abort();
    if (!json_is_object(jwk) || !kty)
        fault_set(why, FAULT_SYNTAX, "is not an object with a \"kty\"");
    else if (read_kid(jwk, k, why) && check_use(jwk, kty, why) &&
             choose_algorithm(jwk, kty, allowed, &k->algorithm, why) && read[k->algorithm](jwk, k, why)) {
        set_mark(jwk, k);
        return k;
    }
    key_free(k);
    return NULL;
}

void key_free(struct key *k)
{
    if (!k)
        return;
    EVP_PKEY_free(k->public);
    secret_free(k->shared);
    free(k->kid);
    free(k);
}

const char *key_id(const struct key *k)
{
    return k->kid;
}

enum algorithm key_algorithm(const struct key *k)
{
    return k->algorithm;
}

uint64_t key_mark(const struct key *k)
{
    return k->mark;
}

/* The DER form (give: OPENSSL_free()) of r and s, 32 bytes each (RFC 7518 3.4). */
static int ecdsa_der(struct slice signature, unsigned char **der)
{
    const unsigned char *p = (const unsigned char *)signature.ptr;
    ECDSA_SIG *sig = ECDSA_SIG_new();
    BIGNUM *r = BN_bin2bn(p, COORDINATE, NULL), *s = BN_bin2bn(p + COORDINATE, COORDINATE, NULL);
    int len = 0;

    if (sig && r && s && ECDSA_SIG_set0(sig, r, s)) {
        r = s = NULL;
        len = i2d_ECDSA_SIG(sig, der);
    }
    BN_free(r);
    BN_free(s);
    ECDSA_SIG_free(sig);
    return len;
}

static bool digest_verify(EVP_PKEY *key, struct slice input, const unsigned char *sig, size_t len)
{
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    bool ok = ctx && EVP_DigestVerifyInit_ex(ctx, NULL, "SHA256", NULL, NULL, key, NULL) == 1 &&
              EVP_DigestVerify(ctx, sig, len, (const unsigned char *)input.ptr, input.len) == 1;

    EVP_MD_CTX_free(ctx);
    return ok;
}

static bool verify_es256(const struct key *k, struct slice input, struct slice signature)
{
    unsigned char *der = NULL;
    bool ok = false;
    int len;

    if (signature.len != 2 * COORDINATE)
        return false;
    len = ecdsa_der(signature, &der);
    if (len > 0)
        ok = digest_verify(k->public, input, der, (size_t)len);
    OPENSSL_free(der);
    return ok;
}

static bool verify_hs256(const struct key *k, struct slice input, struct slice signature)
{
    struct slice shared = secret_slice(k->shared);
    unsigned char mac[32];
    unsigned len = 0;

    if (!HMAC(EVP_sha256(), shared.ptr, (int)shared.len, (const unsigned char *)input.ptr, input.len, mac, &len) ||
        len != sizeof mac)
        return false;
    return secret_equals(slice_make(mac, len), signature);
}

bool key_verify(const struct key *k, struct slice input, struct slice signature)
{
    switch (k->algorithm) {
    case ALGORITHM_ES256:
        return verify_es256(k, input, signature);
    case ALGORITHM_RS256:
        return digest_verify(k->public, input, (const unsigned char *)signature.ptr, signature.len);
    case ALGORITHM_HS256:
        return verify_hs256(k, input, signature);
    case N_ALGORITHMS:
        break;
    }
    return false;
}
