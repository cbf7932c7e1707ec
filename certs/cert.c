/* Owns how a certificate is put together and read; knows no policy: neither names nor lifetimes are decided here. */
#include "certs/cert.h"

#include <openssl/asn1.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>

bool cert_fault(struct fault *why, const char *what)
{
    const char *reason = ERR_reason_error_string(ERR_peek_last_error());

    ERR_clear_error();
    return fault_set(why, FAULT_CRYPTO, "%s: %s", what, reason ? reason : "OpenSSL refused");
}

void cert_forget_errors(void)
{
    ERR_clear_error();
}

EVP_PKEY *cert_new_key(struct fault *why)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");

    if (!key)
        cert_fault(why, "drawing a P-256 key");
    return key;
}

bool cert_key_id(EVP_PKEY *key, unsigned char out[CERT_KEY_ID_LEN], struct fault *why)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int len = 0;
    X509_PUBKEY *public = NULL;
    const unsigned char *bits;
    int n_bits;
    bool ok = X509_PUBKEY_set(&public, key) == 1 &&
              X509_PUBKEY_get0_param(NULL, &bits, &n_bits, NULL, public) == 1 &&
              EVP_Digest(bits, (size_t)n_bits, digest, &len, EVP_sha256(), NULL) == 1;

    X509_PUBKEY_free(public);
    if (!ok || len < CERT_KEY_ID_LEN)
        return cert_fault(why, "key id");
    memcpy(out, digest, CERT_KEY_ID_LEN);
    return true;
}

static bool set_serial(X509 *x)
{
    unsigned char bytes[CERT_SERIAL_LEN];
    BIGNUM *number = NULL;
    bool ok;

    secret_random(bytes, sizeof bytes);
    number = BN_bin2bn(bytes, sizeof bytes, NULL);
    ok = number && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(x));
    BN_free(number);
    return ok;
}

/* An extension from its structure (borrowed), in place of one of its kind. */
static bool add(X509 *x, int nid, void *value, bool critical, struct fault *why)
{
    if (value && X509_add1_ext_i2d(x, nid, value, critical, X509V3_ADD_REPLACE) == 1)
        return true;
    return cert_fault(why, OBJ_nid2sn(nid));
}

static bool add_subject_key_id(X509 *x, EVP_PKEY *key, struct fault *why)
{
    unsigned char id[CERT_KEY_ID_LEN];
    ASN1_OCTET_STRING *value = ASN1_OCTET_STRING_new();
    bool ok = value && cert_key_id(key, id, why) && ASN1_OCTET_STRING_set(value, id, sizeof id) &&
              add(x, NID_subject_key_identifier, value, false, why);

    ASN1_OCTET_STRING_free(value);
    return ok;
}

static bool add_authority_key_id(X509 *x, const X509 *issuer, struct fault *why)
{
    const ASN1_OCTET_STRING *id = X509_get0_subject_key_id((X509 *)issuer);
    AUTHORITY_KEYID *value = AUTHORITY_KEYID_new();
    bool ok = value && id && (value->keyid = ASN1_OCTET_STRING_dup(id)) &&
              add(x, NID_authority_key_identifier, value, false, why);

    AUTHORITY_KEYID_free(value);
    return ok || (id ? false : fault_set(why, FAULT_CRYPTO, "the issuer has no subject key id"));
}

bool cert_renew(X509 *x, int64_t from_s, int64_t to_s, struct fault *why)
{
    return (set_serial(x) && ASN1_TIME_set(X509_getm_notBefore(x), (time_t)from_s) &&
            ASN1_TIME_set(X509_getm_notAfter(x), (time_t)to_s)) ||
           cert_fault(why, "serial and dates");
}

X509 *cert_new(EVP_PKEY *public_key, const X509_NAME *subject, const X509 *issuer, int64_t from_s, int64_t to_s,
               struct fault *why)
{
    const X509_NAME *issuer_name = issuer ? X509_get_subject_name(issuer) : subject;
    X509 *x = X509_new();
    bool ok = x && issuer_name && X509_set_version(x, X509_VERSION_3) && X509_set_issuer_name(x, issuer_name) &&
              (!subject || X509_set_subject_name(x, subject)) && X509_set_pubkey(x, public_key);

    if (!ok)
        cert_fault(why, "certificate");
    else if (cert_renew(x, from_s, to_s, why) && add_subject_key_id(x, public_key, why) &&
             (!issuer || add_authority_key_id(x, issuer, why)))
        return x;
    X509_free(x);
    return NULL;
}

static bool add_name_entry(X509_NAME *name, int nid, const char *text)
{
    return X509_NAME_add_entry_by_NID(name, nid, MBSTRING_UTF8, (const unsigned char *)text, -1, -1, 0) == 1;
}

X509_NAME *cert_name(const char *organisation, const char *label, EVP_PKEY *key, struct fault *why)
{
    unsigned char id[CERT_KEY_ID_LEN];
    struct buf text = {0};
    char *common = NULL;
    X509_NAME *name = NULL;

    if (!cert_key_id(key, id, why))
        return NULL;
    buf_printf(&text, "%s %02x%02x%02x%02x", label, id[0], id[1], id[2], id[3]);
    common = buf_take_text(&text);
    name = X509_NAME_new();
    if (!name || !add_name_entry(name, NID_organizationName, organisation) ||
        !add_name_entry(name, NID_commonName, common)) {
        cert_fault(why, organisation);
        X509_NAME_free(name);
        name = NULL;
    }
    free(common);
    return name;
}

/* Bit n of a KeyUsage in DER order for an X509v3_KU_* mask (RFC 5280 4.2.1.3). */
static bool add_usage(X509 *x, unsigned usage, struct fault *why)
{
    static const unsigned bits[] = {X509v3_KU_DIGITAL_SIGNATURE, X509v3_KU_NON_REPUDIATION,
                                    X509v3_KU_KEY_ENCIPHERMENT,  X509v3_KU_DATA_ENCIPHERMENT,
                                    X509v3_KU_KEY_AGREEMENT,     X509v3_KU_KEY_CERT_SIGN,
                                    X509v3_KU_CRL_SIGN};
    ASN1_BIT_STRING *value = ASN1_BIT_STRING_new();
    bool ok = value;

    for (size_t i = 0; ok && i < sizeof bits / sizeof *bits; i++)
        if (usage & bits[i])
            ok = ASN1_BIT_STRING_set_bit(value, (int)i, 1) == 1;
    ok = ok && add(x, NID_key_usage, value, true, why);
    ASN1_BIT_STRING_free(value);
    return ok;
}

static bool add_basic(X509 *x, bool authority, int path_len, struct fault *why)
{
    BASIC_CONSTRAINTS *value = BASIC_CONSTRAINTS_new();
    bool ok = value;

    if (ok && authority) {
        value->ca = 0xff;
        value->pathlen = ASN1_INTEGER_new();
        ok = value->pathlen && ASN1_INTEGER_set(value->pathlen, path_len);
    }
    ok = ok && add(x, NID_basic_constraints, value, true, why);
    BASIC_CONSTRAINTS_free(value);
    return ok;
}

bool cert_add_authority(X509 *x, int path_len, struct fault *why)
{
    return add_basic(x, true, path_len, why) && add_usage(x, X509v3_KU_KEY_CERT_SIGN | X509v3_KU_CRL_SIGN, why);
}

bool cert_add_end_entity(X509 *x, unsigned usage, struct fault *why)
{
    return add_basic(x, false, 0, why) && add_usage(x, usage, why);
}

bool cert_add_server_auth(X509 *x, struct fault *why)
{
    EXTENDED_KEY_USAGE *value = EXTENDED_KEY_USAGE_new();
    bool ok = value && sk_ASN1_OBJECT_push(value, OBJ_nid2obj(NID_server_auth)) > 0 &&
              add(x, NID_ext_key_usage, value, false, why);

    EXTENDED_KEY_USAGE_free(value);
    return ok;
}

/* The subject is empty, so the name is critical (RFC 5280 4.2.1.6). */
bool cert_set_host(X509 *x, const char *host, struct fault *why)
{
    GENERAL_NAMES *value = GENERAL_NAMES_new();
    GENERAL_NAME *name = GENERAL_NAME_new();
    ASN1_IA5STRING *text = ASN1_IA5STRING_new();
    bool ok = value && name && text && ASN1_STRING_set(text, host, -1) == 1;

    if (ok) {
        GENERAL_NAME_set0_value(name, GEN_DNS, text);
        text = NULL;
        ok = sk_GENERAL_NAME_push(value, name) > 0;
    }
    if (ok) {
        name = NULL;
        ok = add(x, NID_subject_alt_name, value, true, why);
    }
    ASN1_IA5STRING_free(text);
    GENERAL_NAME_free(name);
    GENERAL_NAMES_free(value);
    return ok;
}

bool cert_sign(X509 *x, EVP_PKEY *key, struct fault *why)
{
    return X509_sign(x, key, EVP_sha256()) > 0 || cert_fault(why, "signing");
}

bool cert_is_p256(EVP_PKEY *key)
{
    char group[32] = "";

    return EVP_PKEY_is_a(key, "EC") && EVP_PKEY_get_group_name(key, group, sizeof group, NULL) == 1 &&
           OBJ_txt2nid(group) == NID_X9_62_prime256v1;
}

static int64_t time_of(const ASN1_TIME *t)
{
    struct tm tm;

    return ASN1_TIME_to_tm(t, &tm) == 1 ? (int64_t)timegm(&tm) : 0;
}

int64_t cert_not_before(const X509 *x)
{
    return time_of(X509_get0_notBefore(x));
}

int64_t cert_not_after(const X509 *x)
{
    return time_of(X509_get0_notAfter(x));
}

void cert_serial(const X509 *x, unsigned char out[CERT_SERIAL_LEN])
{
    BIGNUM *number = ASN1_INTEGER_to_BN(X509_get0_serialNumber(x), NULL);

    if (!number || BN_bn2binpad(number, out, CERT_SERIAL_LEN) < 0)
        memset(out, 0, CERT_SERIAL_LEN);
    BN_free(number);
}
