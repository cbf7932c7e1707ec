/* TLS of the proxy itself: certificate, key, and whose certificates it asks for. What goes on in it is the stream's. */
#include <openssl/err.h>
#include <openssl/pem.h>
#include <stdlib.h>

#include "net/tls.h"

struct tls_door {
    SSL_CTX *ctx;
};

static const unsigned char session_context[] = "exeat listener";

static bool failed(struct fault *why, const char *what)
{
    unsigned long code = ERR_peek_last_error();
    const char *text = code ? ERR_reason_error_string(code) : NULL;

    ERR_clear_error();
    return fault_set(why, FAULT_CRYPTO, "%s: %s", what, text ? text : "it cannot be read");
}

static BIO *reader(struct slice pem)
{
    BIO *bio = BIO_new_mem_buf(pem.ptr, (int)pem.len);

    if (!bio)
        abort();
    return bio;
}

static bool use_chain(SSL_CTX *ctx, struct slice pem, struct fault *why)
{
    BIO *bio = reader(pem);
    X509 *leaf = PEM_read_bio_X509(bio, NULL, NULL, NULL), *next = NULL;
    bool ok = leaf && SSL_CTX_use_certificate(ctx, leaf) == 1;

    while (ok && (next = PEM_read_bio_X509(bio, NULL, NULL, NULL)))
        if (SSL_CTX_add0_chain_cert(ctx, next) != 1) {
            X509_free(next);
            ok = false;
        }
    X509_free(leaf);
    BIO_free(bio);
    if (ok)
        ERR_clear_error(); /* the end of the file is one */
    return ok || failed(why, "the certificate");
}

static bool use_key(SSL_CTX *ctx, struct slice pem, struct fault *why)
{
    BIO *bio = reader(pem);
    EVP_PKEY *key = PEM_read_bio_PrivateKey(bio, NULL, NULL, (void *)"");
    bool ok = key && SSL_CTX_use_PrivateKey(ctx, key) == 1;

    EVP_PKEY_free(key);
    BIO_free(bio);
    return ok || failed(why, "the key"); /* also when it is another certificate's */
}

/* Named in the handshake too, so that a client with several certificates knows which. */
static bool ask_clients(SSL_CTX *ctx, struct slice pem, struct fault *why)
{
    BIO *bio = reader(pem);
    X509 *ca;
    size_t n = 0;

    while ((ca = PEM_read_bio_X509(bio, NULL, NULL, NULL))) {
        n += X509_STORE_add_cert(SSL_CTX_get_cert_store(ctx), ca) == 1 && SSL_CTX_add_client_CA(ctx, ca) == 1;
        X509_free(ca);
    }
    BIO_free(bio);
    if (!n)
        return failed(why, "client-ca");
    ERR_clear_error();
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    return true;
}

struct tls_door *tls_door_new(struct slice chain, struct slice key, struct slice client_ca, struct fault *why)
{
    struct tls_door *t = calloc(1, sizeof *t);

    if (!t)
        abort();
    t->ctx = tls_context_new(TLS_server_method(), why);
    if (!t->ctx || !use_chain(t->ctx, chain, why) || !use_key(t->ctx, key, why) ||
        (client_ca.len && !ask_clients(t->ctx, client_ca, why))) {
        tls_door_free(t);
        return NULL;
    }
    SSL_CTX_set_options(t->ctx, SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA | SSL_OP_NO_TICKET);
    SSL_CTX_set_session_cache_mode(t->ctx, SSL_SESS_CACHE_OFF); /* each connection shows its certificate */
    SSL_CTX_set_num_tickets(t->ctx, 0);
    SSL_CTX_set_session_id_context(t->ctx, session_context, sizeof session_context - 1);
    return t;
}

void tls_door_free(struct tls_door *t)
{
    if (!t)
        return;
    SSL_CTX_free(t->ctx);
    free(t);
}

SSL *tls_door_accept(struct tls_door *t, struct fault *why)
{
    SSL *ssl = SSL_new(t->ctx);

    if (!ssl)
        failed(why, "TLS connection");
    else
        SSL_set_accept_state(ssl);
    return ssl;
}

bool tls_peer_digest(const SSL *ssl, unsigned char digest[32])
{
    X509 *peer = SSL_get0_peer_certificate(ssl);

    return peer && SSL_get_verify_result(ssl) == X509_V_OK && X509_digest(peer, EVP_sha256(), digest, NULL) == 1;
}
