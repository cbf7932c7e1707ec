/* Owns the intermediate's key and the profile of a leaf. Signs certificates it has built itself, and nothing else. */
#include "certs/ca.h"

#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>

#include "base/pack.h"
#include "certs/cert.h"
#include "net/name.h"

enum { LEAF_LIFE_S = 24 * 60 * 60, BACKDATE_S = 60 * 60, RSA_BITS_MIN = 2048 };

struct ca {
    X509 *intermediate;
    EVP_PKEY *key;
    struct buf der; /* of the intermediate */
    int64_t from_s, to_s;
};

struct ca_form {
    const struct ca *ca;
    X509 *leaf; /* written over by each issue */
};

static bool check_parts(X509 *intermediate, EVP_PKEY *key, X509 *root, struct fault *why)
{
    bool ok = true;

    if (!cert_is_p256(key))
        ok = fault_set(why, FAULT_REFUSED, "the intermediate's key is not on P-256");
    else if (X509_check_private_key(intermediate, key) != 1)
        ok = fault_set(why, FAULT_REFUSED, "intermediate.key is not the key of intermediate.pem");
    else if (X509_check_issued(root, intermediate) != X509_V_OK ||
             X509_verify(intermediate, X509_get0_pubkey(root)) != 1)
        ok = fault_set(why, FAULT_REFUSED, "intermediate.pem was not signed by root.pem");
    else if (X509_check_ca(intermediate) != 1 || X509_get_pathlen(intermediate) != 0)
        ok = fault_set(why, FAULT_REFUSED, "intermediate.pem is not an authority with path length 0");
    cert_forget_errors();
    return ok;
}

struct ca *ca_load(struct slice intermediate_pem, struct slice intermediate_key_pem, struct slice root_pem,
                   struct fault *why)
{
    X509 *root = cert_parse(root_pem, "root.pem", why);
    struct ca *c = calloc(1, sizeof *c);

    if (!c)
        abort();
    if (!root || !(c->intermediate = cert_parse(intermediate_pem, "intermediate.pem", why)) ||
        !(c->key = cert_parse_key(intermediate_key_pem, "intermediate.key", why)) ||
        !check_parts(c->intermediate, c->key, root, why) || !cert_der(c->intermediate, &c->der, why)) {
        ca_free(c);
        c = NULL;
    } else {
        c->from_s = cert_not_before(c->intermediate);
        c->to_s = cert_not_after(c->intermediate);
    }
    X509_free(root);
    return c;
}

struct ca *ca_load_files(const struct bundle *files, struct fault *why)
{
    struct slice cert, key, root;

    if (bundle_get(files, "ca/intermediate.pem", &cert) && bundle_get(files, "ca/intermediate.key", &key) &&
        bundle_get(files, "ca/root.pem", &root))
        return ca_load(cert, key, root, why);
    fault_set(why, FAULT_MISSING, "the CA's files were not handed over");
    return NULL;
}

void ca_free(struct ca *c)
{
    if (!c)
        return;
    X509_free(c->intermediate);
    EVP_PKEY_free(c->key);
    buf_free(&c->der);
    free(c);
}

static bool check_host(const char *host, struct fault *why)
{
    char canonical[NAME_MAX_LEN + 1];

    if (name_canonical(slice_of(host), canonical, why) && strcmp(canonical, host) == 0)
        return true;
    return fault_set(why, FAULT_REFUSED, "not a canonical host name");
}

static X509 *make_blank(const struct ca *c, EVP_PKEY *public_key, unsigned usage, struct fault *why)
{
    X509 *x = cert_new(public_key, NULL, c->intermediate, c->from_s, c->to_s, why);

    if (x && cert_add_end_entity(x, usage, why) && cert_add_server_auth(x, why))
        return x;
    X509_free(x);
    return NULL;
}

struct ca_form *ca_form_new(const struct ca *c, EVP_PKEY *public_key, struct fault *why)
{
    bool rsa = EVP_PKEY_is_a(public_key, "RSA") && EVP_PKEY_get_bits(public_key) >= RSA_BITS_MIN;
    unsigned usage = X509v3_KU_DIGITAL_SIGNATURE | (rsa ? X509v3_KU_KEY_ENCIPHERMENT : 0);
    struct ca_form *f;

    if (!rsa && !cert_is_p256(public_key)) {
        fault_set(why, FAULT_REFUSED, "a leaf key must be on P-256, or RSA of %d bits and more", RSA_BITS_MIN);
        return NULL;
    }
    if (!(f = calloc(1, sizeof *f)))
        abort();
    f->ca = c;
    if ((f->leaf = make_blank(c, public_key, usage, why)))
        return f;
    ca_form_free(f);
    return NULL;
}

void ca_form_free(struct ca_form *f)
{
    if (!f)
        return;
    X509_free(f->leaf);
    free(f);
}

bool ca_issue(struct ca_form *f, const char *host, int64_t now_s, struct buf *chain, struct ca_issued *issued,
              struct fault *why)
{
    const struct ca *c = f->ca;
    int64_t from_s = now_s - BACKDATE_S < c->from_s ? c->from_s : now_s - BACKDATE_S;
    int64_t to_s = now_s + LEAF_LIFE_S > c->to_s ? c->to_s : now_s + LEAF_LIFE_S;
    struct buf der = {0};
    bool ok = false;

    if (!check_host(host, why))
        return false;
    if (now_s < c->from_s || now_s >= c->to_s)
        return fault_set(why, FAULT_REFUSED, "the intermediate is not valid now; see: exeat ca show");
    if (!cert_renew(f->leaf, from_s, to_s, why) || !cert_set_host(f->leaf, host, why) ||
        !cert_sign(f->leaf, c->key, why) || !cert_der(f->leaf, &der, why))
        goto out;
    pack_bytes(chain, buf_slice(&der));
    pack_bytes(chain, buf_slice(&c->der));
    issued->not_after_s = to_s;
    cert_serial(f->leaf, issued->serial);
    ok = true;
out:
    buf_free(&der);
    return ok;
}
