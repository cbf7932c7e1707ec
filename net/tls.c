/* Owns the two kinds of context. Certificates and keys of leaves belong to certs/. */
#include "net/tls.h"

#include <openssl/err.h>
#include <openssl/sha.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>

#include "base/pack.h"
#include "net/name.h"

static const unsigned char http_1_1[] = "\x08http/1.1";

enum { READ_BUFFER = 32 * 1024, TICKETS = 1 /* that a client gets after a handshake */ };

/* What the callbacks of one connection need. */
struct expected {
    const char *host; /* accepting: the name that must be asked for; kept. NULL: on_name judges it */
    tls_on_name *on_name;
    bool sni_refused;
    bool shown_ticket;
    void (*on_session)(void *arg, SSL_SESSION *session);
    void *arg;
};

static int expected_slot = -1;

static void expected_free(void *parent, void *ptr, CRYPTO_EX_DATA *data, int slot, long argl, void *argp)
{
    (void)parent, (void)data, (void)slot, (void)argl, (void)argp;
    free(ptr);
}

static struct expected *expected_of(const SSL *ssl)
{
    return SSL_get_ex_data(ssl, expected_slot);
}

static bool openssl_fault(struct fault *why, const char *what)
{
    unsigned long code = ERR_peek_last_error();
    const char *text = code ? ERR_reason_error_string(code) : NULL;

    fault_set(why, FAULT_CRYPTO, "%s: %s", what, text ? text : "OpenSSL gave no reason");
    ERR_clear_error();
    return false;
}

SSL_CTX *tls_context_new(const SSL_METHOD *method, struct fault *why)
{
    SSL_CTX *ctx = SSL_CTX_new(method);

    if (!ctx) {
        openssl_fault(why, "TLS context");
        return NULL;
    }
    if (expected_slot < 0)
        expected_slot = SSL_get_ex_new_index(0, NULL, NULL, NULL, expected_free);
    SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
    SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                              SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_read_ahead(ctx, 1);
    SSL_CTX_set_default_read_buffer_len(ctx, READ_BUFFER);
    if (!SSL_CTX_set_cipher_list(ctx, "ECDHE+AESGCM:ECDHE+CHACHA20") ||
        !SSL_CTX_set_ciphersuites(ctx, "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256:TLS_AES_256_GCM_SHA384") ||
        !SSL_CTX_set1_groups_list(ctx, "X25519:P-256:P-384")) {
        openssl_fault(why, "TLS ciphers");
        SSL_CTX_free(ctx);
        return NULL;
    }
    return ctx;
}

static SSL *connection_new(SSL_CTX *ctx, struct expected e, struct fault *why)
{
    struct expected *kept = malloc(sizeof *kept);
    SSL *ssl = SSL_new(ctx);

    if (!kept)
        abort();
    *kept = e;
    if (!ssl || !SSL_set_ex_data(ssl, expected_slot, kept)) {
        openssl_fault(why, "TLS connection");
        SSL_free(ssl);
        free(kept);
        return NULL;
    }
    return ssl;
}

/* ---- accepting ---- */

struct tls_server {
    SSL_CTX *ctx;
};

/* The one host_name of a server_name extension (RFC 6066 3); false when it has another form. */
static bool sni_name(const unsigned char *ext, size_t len, struct slice *name)
{
    size_t list, n;

    if (len < 5)
        return false;
    list = (size_t)ext[0] << 8 | ext[1];
    n = (size_t)ext[3] << 8 | ext[4];
    if (list != len - 2 || ext[2] != TLSEXT_NAMETYPE_host_name || n != len - 5 || n == 0)
        return false;
    *name = slice_make(ext + 5, n);
    return true;
}

/* Of the outer ClientHello: an encrypted one in it (ECH) is nothing to us, and no client insists on it (RFC 9849 6.1.6). */
static struct slice hello_name(SSL *ssl)
{
    const unsigned char *ext;
    struct slice name;
    size_t len;

    if (SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_server_name, &ext, &len) && sni_name(ext, len, &name))
        return name;
    return slice_make("", 0);
}

static enum tls_verdict judge_name(SSL *ssl, const struct expected *e)
{
    struct slice name = hello_name(ssl);
    char host[NAME_MAX_LEN + 1];

    if (e->on_name)
        return e->on_name(e->arg, ssl, name);
    return name.len && name_canonical(name, host, NULL) && strcmp(host, e->host) == 0 ? TLS_GO : TLS_REFUSE;
}

static int on_client_hello(SSL *ssl, int *alert, void *arg)
{
    struct expected *e = expected_of(ssl);

    (void)arg;
    switch (judge_name(ssl, e)) {
    case TLS_GO:
        return SSL_CLIENT_HELLO_SUCCESS;
    case TLS_WAIT:
        return SSL_CLIENT_HELLO_RETRY;
    case TLS_FAIL:
        *alert = SSL_AD_INTERNAL_ERROR;
        break;
    default:
        *alert = SSL_AD_UNRECOGNIZED_NAME;
    }
    e->sni_refused = true;
    return SSL_CLIENT_HELLO_ERROR;
}

static int on_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_len, const unsigned char *in,
                   unsigned int in_len, void *arg)
{
    unsigned char *selected;

    (void)ssl, (void)arg;
    if (SSL_select_next_proto(&selected, out_len, http_1_1, sizeof http_1_1 - 1, in, in_len) != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = selected;
    return SSL_TLSEXT_ERR_OK;
}

/* What OpenSSL does by itself, and a note of it. */
static SSL_TICKET_RETURN on_ticket(SSL *ssl, SSL_SESSION *session, const unsigned char *name, size_t name_len,
                                   SSL_TICKET_STATUS status, void *arg)
{
    (void)session, (void)name, (void)name_len, (void)arg;
    if (status != SSL_TICKET_EMPTY) {
        expected_of(ssl)->shown_ticket = true;
        SSL_set_num_tickets(ssl, TICKETS);
    }
    if (status == SSL_TICKET_SUCCESS)
        return SSL_TICKET_RETURN_USE;
    return status == SSL_TICKET_SUCCESS_RENEW ? SSL_TICKET_RETURN_USE_RENEW : SSL_TICKET_RETURN_IGNORE_RENEW;
}

struct tls_server *tls_server_new(struct fault *why)
{
    struct tls_server *t = calloc(1, sizeof *t);

    if (!t)
        abort();
    t->ctx = tls_context_new(TLS_server_method(), why);
    if (!t->ctx) {
        free(t);
        return NULL;
    }
    SSL_CTX_set_options(t->ctx, SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
    SSL_CTX_set_client_hello_cb(t->ctx, on_client_hello, NULL);
    SSL_CTX_set_alpn_select_cb(t->ctx, on_alpn, NULL);
    SSL_CTX_set_session_cache_mode(t->ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_num_tickets(t->ctx, TICKETS);
    SSL_CTX_set_session_ticket_cb(t->ctx, NULL, on_ticket, NULL);
    return t;
}

void tls_server_free(struct tls_server *t)
{
    if (!t)
        return;
    SSL_CTX_free(t->ctx);
    free(t);
}

bool tls_bind(SSL *ssl, const char *host, struct slice binding, struct fault *why)
{
    unsigned char digest[SHA256_DIGEST_LENGTH];
    struct buf key = {0};

    pack_bytes(&key, slice_of(host));
    pack_bytes(&key, binding);
    SHA256((const unsigned char *)buf_slice(&key).ptr, buf_len(&key), digest);
    buf_free(&key);
    return SSL_set_session_id_context(ssl, digest, sizeof digest) || openssl_fault(why, "TLS session context");
}

SSL *tls_server_accept(struct tls_server *t, const char *host, struct slice binding, struct fault *why)
{
    SSL *ssl = connection_new(t->ctx, (struct expected){.host = host}, why);

    if (!ssl)
        return NULL;
    if (!tls_bind(ssl, host, binding, why)) {
        SSL_free(ssl);
        return NULL;
    }
    SSL_set_accept_state(ssl);
    return ssl;
}

SSL *tls_server_arrive(struct tls_server *t, tls_on_name *on, void *arg, struct fault *why)
{
    SSL *ssl = connection_new(t->ctx, (struct expected){.on_name = on, .arg = arg}, why);

    if (ssl)
        SSL_set_accept_state(ssl);
    return ssl;
}

void tls_spare_ticket(SSL *ssl)
{
    SSL_set_num_tickets(ssl, 0);
}

bool tls_was_shown_ticket(const SSL *ssl)
{
    const struct expected *e = expected_of(ssl); /* none at a door */

    return e && e->shown_ticket;
}

bool tls_stands_still(const SSL *ssl)
{
    return SSL_want_client_hello_cb(ssl);
}

/* ---- connecting ---- */

struct tls_client {
    SSL_CTX *ctx;
    unsigned holders;
};

static bool trust(SSL_CTX *ctx, struct slice pem, struct fault *why)
{
    X509_STORE *store = SSL_CTX_get_cert_store(ctx);
    BIO *bio = BIO_new_mem_buf(pem.ptr, (int)pem.len);
    X509 *cert;
    int n = 0;

    if (!bio)
        abort();
    while ((cert = PEM_read_bio_X509(bio, NULL, NULL, NULL))) {
        n += X509_STORE_add_cert(store, cert);
        X509_free(cert);
    }
    BIO_free(bio);
    ERR_clear_error();
    return n > 0 || fault_set(why, FAULT_SYNTAX, "no PEM certificate in it");
}

static int on_new_session(SSL *ssl, SSL_SESSION *session)
{
    struct expected *e = expected_of(ssl);

    if (!e || !e->on_session)
        return 0;
    e->on_session(e->arg, session);
    return 1;
}

struct tls_client *tls_client_new(struct slice pem, struct fault *why)
{
    struct tls_client *t = calloc(1, sizeof *t);

    if (!t)
        abort();
    t->holders = 1;
    t->ctx = tls_context_new(TLS_client_method(), why);
    if (!t->ctx || !trust(t->ctx, pem, why)) {
        tls_client_free(t);
        return NULL;
    }
    SSL_CTX_set_verify(t->ctx, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_session_cache_mode(t->ctx, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(t->ctx, on_new_session);
    SSL_CTX_set_alpn_protos(t->ctx, http_1_1, sizeof http_1_1 - 1);
    return t;
}

struct tls_client *tls_client_ref(struct tls_client *t)
{
    t->holders++;
    return t;
}

void tls_client_free(struct tls_client *t)
{
    if (!t || --t->holders)
        return;
    SSL_CTX_free(t->ctx);
    free(t);
}

SSL *tls_client_connect(struct tls_client *t, const char *host, SSL_SESSION *resume,
                        void (*on_session)(void *arg, SSL_SESSION *session), void *arg, struct fault *why)
{
    SSL *ssl = connection_new(t->ctx, (struct expected){.host = host, .on_session = on_session, .arg = arg}, why);

    if (!ssl)
        return NULL;
    /* RFC 9525: a wildcard is a whole label, and a name that stands in the subject alone is none. */
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
    if (!SSL_set1_host(ssl, host) || !SSL_set_tlsext_host_name(ssl, host)) {
        openssl_fault(why, "TLS name");
        SSL_free(ssl);
        return NULL;
    }
    if (resume)
        SSL_set_session(ssl, resume);
    SSL_set_connect_state(ssl);
    return ssl;
}

void tls_keep_buffers(SSL *ssl, bool keep)
{
    if (keep) {
        SSL_clear_mode(ssl, SSL_MODE_RELEASE_BUFFERS);
    } else {
        SSL_set_mode(ssl, SSL_MODE_RELEASE_BUFFERS);
        SSL_free_buffers(ssl); /* refuses while there is data in them */
    }
}

void tls_close(SSL *ssl, bool say, bool resumable)
{
    if (!ssl)
        return;
    ERR_clear_error();
    if (!say && resumable)
        SSL_set_quiet_shutdown(ssl, 1);
    if (say || resumable)
        SSL_shutdown(ssl);
    ERR_clear_error();
    SSL_free(ssl);
}

/* ---- errors ---- */

bool tls_error_is_cut(void)
{
    return ERR_GET_REASON(ERR_peek_last_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING;
}

static bool is_distrust(int reason)
{
    return reason == SSL_R_TLSV1_ALERT_UNKNOWN_CA || reason == SSL_R_SSLV3_ALERT_BAD_CERTIFICATE ||
           reason == SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN;
}

static enum reason reason_of(SSL *ssl, int code)
{
    const struct expected *e = expected_of(ssl);

    if (!SSL_is_server(ssl))
        return code == SSL_R_CERTIFICATE_VERIFY_FAILED ? REASON_UPSTREAM_CERTIFICATE : REASON_UPSTREAM_TLS;
    if (e && e->sni_refused)
        return REASON_SNI_MISMATCH;
    if (is_distrust(code))
        return REASON_CLIENT_UNKNOWN_CA;
    if (code == SSL_R_WRONG_VERSION_NUMBER || code == SSL_R_HTTP_REQUEST || code == SSL_R_UNKNOWN_PROTOCOL)
        return REASON_TUNNEL_NOT_TLS;
    return REASON_CLIENT_TLS;
}

void tls_explain(SSL *ssl, struct fault *why)
{
    unsigned long error = ERR_peek_last_error();
    int code = ERR_GET_REASON(error);
    const char *text = error ? ERR_reason_error_string(error) : NULL;

    if (code == SSL_R_CERTIFICATE_VERIFY_FAILED)
        text = X509_verify_cert_error_string(SSL_get_verify_result(ssl));
    fault_reason(why, reason_of(ssl, code), "%s", text ? text : "the TLS connection broke");
    why->kind = FAULT_CRYPTO;
    ERR_clear_error();
}
