/*
 * ClientHellos under libFuzzer: the first bytes of a client inside a tunnel, as net/tls.c sees them. When the handshake
 * gets past the hello, it asked for the tunnel's host by name; whatever ends it has a reason. The first byte seeds the
 * cuts; the result does not depend on them. The same bytes at a transparent listener (tls_server_arrive), where the certificate is
 * waited for, come to the same.
 */
#include <openssl/err.h>

#include "net/name.h"
#include "net/tls.h"
#include "tests/fuzz/lib/fuzz.h"
#include "tests/fuzz/lib/pki.h"

#define HOST "registry.test"

static struct tls_server *server;
static X509 *cert;
static EVP_PKEY *key;

static void set_up(void)
{
    struct pki pki;

    server = tls_server_new(NULL);
    pki_init(&pki);
    key = EVP_EC_gen("P-256");
    cert = pki_issue(&pki, HOST, key);
    pki_clear(&pki);
}

enum outcome { WAITS, PASSED, REFUSED };

struct result {
    enum outcome outcome;
    enum reason reason;
};

/* Did the server answer with a ServerHello (a handshake record, RFC 8446 5.1)? Else it sent an alert, or nothing. */
static bool has_answered(SSL *ssl)
{
    char *out;
    long len = BIO_get_mem_data(SSL_get_wbio(ssl), &out);

    return len > 0 && out[0] == 0x16;
}

/* At first the certificate is not there. */
static enum tls_verdict on_name(void *arg, SSL *ssl, struct slice name)
{
    bool *asked = arg;
    char host[NAME_MAX_LEN + 1];

    if (!name.len || !name_canonical(name, host, NULL) || strcmp(host, HOST) != 0)
        return TLS_REFUSE;
    if (!*asked) {
        *asked = true;
        return TLS_WAIT;
    }
    assert(tls_bind(ssl, host, SLICE("main"), NULL));
    return SSL_use_cert_and_key(ssl, cert, key, NULL, 1) ? TLS_GO : TLS_FAIL;
}

static int shake(SSL *ssl)
{
    int done;

    do {
        ERR_clear_error();
        done = SSL_do_handshake(ssl);
    } while (done != 1 && tls_stands_still(ssl));
    return done;
}

static struct result shake_hands(struct slice input, unsigned seed, bool arrives)
{
    bool asked = false;
    SSL *ssl = arrives ? tls_server_arrive(server, on_name, &asked, NULL) : tls_server_accept(server, HOST, SLICE("sb-1"), NULL);
    struct result r = {WAITS, REASON_NONE};
    struct fault why = {0};

    if (!arrives)
        SSL_use_cert_and_key(ssl, cert, key, NULL, 1);
    SSL_set_bio(ssl, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    BIO_set_mem_eof_return(SSL_get_rbio(ssl), -1);
    while (input.len && r.outcome == WAITS) {
        struct slice piece = fuzz_take(&input, seed ? fuzz_cut(&seed, 100) : input.len);
        int done;

        BIO_write(SSL_get_rbio(ssl), piece.ptr, (int)piece.len);
        done = shake(ssl);
        if (done != 1 && SSL_get_error(ssl, done) != SSL_ERROR_WANT_READ) {
            r.outcome = REFUSED;
            tls_explain(ssl, &why);
            r.reason = why.reason;
        } else if (has_answered(ssl)) {
            r.outcome = PASSED;
        }
    }
    SSL_free(ssl);
    return r;
}

/* Case does not count, and letters may be spread over records: so only what every hello in one record must have. */
static bool names_host(struct slice input)
{
    for (size_t i = 0; i + sizeof HOST - 1 <= input.len; i++)
        if (slice_is_nocase(slice_cut(input, i, i + sizeof HOST - 1), HOST))
            return true;
    return false;
}

static bool is_one_record(struct slice input)
{
    return input.len >= 5 && input.len == 5 + ((size_t)(uint8_t)input.ptr[3] << 8 | (uint8_t)input.ptr[4]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice input = slice_make(data, size);
    struct result whole, pieces, arrived;
    unsigned seed;

    if (!server)
        set_up();
    seed = 1u + fuzz_byte(&input);
    whole = shake_hands(input, 0, false);
    pieces = shake_hands(input, seed, false);
    arrived = shake_hands(input, 0, true);
    assert(arrived.outcome == whole.outcome && arrived.reason == whole.reason);
    assert(whole.outcome == PASSED || whole.outcome == pieces.outcome || pieces.outcome == PASSED);
    if (whole.outcome == REFUSED && pieces.outcome == REFUSED)
        assert(whole.reason && whole.reason == pieces.reason);
    if (whole.outcome == PASSED && is_one_record(input))
        assert(names_host(input));
    return 0;
}
