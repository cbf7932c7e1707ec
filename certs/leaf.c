/* Owns the worker's leaf key and the leaves made for it. Knows neither the keeper nor connections. */
#include "certs/leaf.h"

#include <assert.h>
#include <openssl/x509v3.h>
#include <stdlib.h>

#include "base/pack.h"
#include "base/table.h"
#include "base/text.h"
#include "certs/cert.h"

enum { LEFT_MIN_S = 5 * 60 };

struct leaf {
    struct leaf *newer, *older; /* by last use */
    char *host;
    X509 *cert;
    STACK_OF(X509) *chain; /* the intermediate; shared by the leaves it signed */
    int64_t from_s, to_s;
    unsigned references;
};

/* The intermediate of the last chain, with its DER: parsing it again would take half of the time an addition takes. */
struct issuer {
    struct buf der;
    X509 *cert;
};

struct leaves {
    struct table *by_host;
    struct leaf *newest, *oldest;
    size_t most;
    struct issuer issuer;
    EVP_PKEY *key;
    struct buf public_key;
};

static bool write_public_key(struct leaves *l, struct fault *why)
{
    unsigned char *der = NULL;
    int len = i2d_PUBKEY(l->key, &der);

    if (len <= 0)
        return cert_fault(why, "writing the leaf key");
    buf_append(&l->public_key, slice_make(der, (size_t)len));
    OPENSSL_free(der);
    return true;
}

struct leaves *leaves_new(size_t most, struct fault *why)
{
    struct leaves *l = calloc(1, sizeof *l);

    if (!l)
        abort();
    assert(most > 0);
    l->most = most;
    l->by_host = table_new();
    if ((l->key = cert_new_key(why)) && write_public_key(l, why))
        return l;
    leaves_free(l);
    return NULL;
}

struct leaf *leaf_ref(struct leaf *leaf)
{
    leaf->references++;
    return leaf;
}

void leaf_unref(struct leaf *leaf)
{
    if (!leaf || --leaf->references > 0)
        return;
    X509_free(leaf->cert);
    sk_X509_pop_free(leaf->chain, X509_free);
    free(leaf->host);
    free(leaf);
}

static void detach(struct leaves *l, struct leaf *leaf)
{
    *(leaf->newer ? &leaf->newer->older : &l->newest) = leaf->older;
    *(leaf->older ? &leaf->older->newer : &l->oldest) = leaf->newer;
    leaf->newer = leaf->older = NULL;
}

static void attach(struct leaves *l, struct leaf *leaf)
{
    leaf->older = l->newest;
    *(l->newest ? &l->newest->newer : &l->oldest) = leaf;
    l->newest = leaf;
}

static void forget(struct leaves *l, struct leaf *leaf)
{
    table_remove(l->by_host, slice_of(leaf->host));
    detach(l, leaf);
    leaf_unref(leaf);
}

void leaves_forget(struct leaves *l)
{
    while (l->newest)
        forget(l, l->newest);
}

void leaves_limit(struct leaves *l, size_t most)
{
    assert(most > 0);
    l->most = most;
    while (table_count(l->by_host) > most)
        forget(l, l->oldest);
}

void leaves_free(struct leaves *l)
{
    if (!l)
        return;
    leaves_forget(l);
    table_free(l->by_host);
    X509_free(l->issuer.cert);
    buf_free(&l->issuer.der);
    EVP_PKEY_free(l->key);
    buf_free(&l->public_key);
    free(l);
}

size_t leaves_count(const struct leaves *l)
{
    return table_count(l->by_host);
}

struct slice leaves_public_key(const struct leaves *l)
{
    return buf_slice(&l->public_key);
}

struct leaf *leaves_find(struct leaves *l, const char *host, int64_t now_s)
{
    struct leaf *leaf = table_get(l->by_host, slice_of(host));
    int64_t least_s;

    if (!leaf)
        return NULL;
    least_s = (leaf->to_s - leaf->from_s) / 10;
    if (leaf->to_s - now_s <= (least_s > LEFT_MIN_S ? least_s : LEFT_MIN_S) || now_s < leaf->from_s)
        return NULL; /* not begun: it was issued while the clock was wrong */
    detach(l, leaf);
    attach(l, leaf);
    return leaf;
}

/*
 * For exactly this host and our key, and of the intermediate by name and key id. The signature is the clients' to check:
 * it would cost this loop 90 microseconds, and the keeper is trusted more than we are.
 */
static bool check(const struct leaves *l, const struct leaf *leaf, struct fault *why)
{
    X509 *issuer = sk_X509_value(leaf->chain, 0);
    bool ok = true;

    if (X509_check_private_key(leaf->cert, l->key) != 1)
        ok = fault_set(why, FAULT_REFUSED, "the leaf is for another key");
    else if (X509_check_host(leaf->cert, leaf->host, 0, X509_CHECK_FLAG_NO_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT,
                             NULL) != 1)
        ok = fault_set(why, FAULT_REFUSED, "the leaf is not for %.200s", leaf->host);
    else if (X509_check_issued(issuer, leaf->cert) != X509_V_OK)
        ok = fault_set(why, FAULT_REFUSED, "the leaf does not name the intermediate that came with it");
    cert_forget_errors();
    return ok;
}

/* The certificate of this DER, borrowed. */
static X509 *issuer_of(struct issuer *i, struct slice der, struct fault *why)
{
    if (i->cert && slice_equals(buf_slice(&i->der), der))
        return i->cert;
    X509_free(i->cert);
    buf_clear(&i->der);
    if ((i->cert = cert_parse_der(der, why)))
        buf_append(&i->der, der);
    return i->cert;
}

static bool parse(struct leaves *l, struct leaf *leaf, struct slice chain, struct fault *why)
{
    struct unpack u = unpack_start(chain);
    struct slice first = unpack_bytes(&u), second = unpack_bytes(&u);
    X509 *issuer;

    if (!unpack_done(&u))
        return fault_set(why, FAULT_SYNTAX, "a chain is a leaf and an intermediate, and nothing else");
    if (!(leaf->cert = cert_parse_der(first, why)) || !(issuer = issuer_of(&l->issuer, second, why)))
        return false;
    if (!(leaf->chain = sk_X509_new_null()) || !X509_up_ref(issuer) || sk_X509_push(leaf->chain, issuer) <= 0)
        abort();
    return true;
}

struct leaf *leaves_add(struct leaves *l, const char *host, struct slice chain, int64_t not_after_s, struct fault *why)
{
    struct leaf *leaf = calloc(1, sizeof *leaf);
    struct leaf *before;

    if (!leaf)
        abort();
    leaf->references = 1;
    leaf->host = text_copy(slice_of(host));
    if (!parse(l, leaf, chain, why) || !check(l, leaf, why)) {
        leaf_unref(leaf);
        return NULL;
    }
    leaf->from_s = cert_not_before(leaf->cert);
    leaf->to_s = cert_not_after(leaf->cert) < not_after_s ? cert_not_after(leaf->cert) : not_after_s;
    if ((before = table_get(l->by_host, slice_of(host))))
        forget(l, before);
    else if (table_count(l->by_host) >= l->most)
        forget(l, l->oldest);
    table_put(l->by_host, slice_of(host), leaf);
    attach(l, leaf);
    return leaf;
}

bool leaf_use(const struct leaves *l, const struct leaf *leaf, SSL *ssl, struct fault *why)
{
    if (SSL_use_cert_and_key(ssl, leaf->cert, l->key, leaf->chain, 1) == 1)
        return true;
    return cert_fault(why, "leaf");
}
