#include "cmd/fronting.h"

#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"

enum { WAIT_S = 10, HEAD_MOST = 16384 };

static void write_question(const struct fronting *f, struct buf *out)
{
    bool is_usual = strcmp(f->port, f->is_tls ? "443" : "80") == 0;

    buf_printf(out, "TRACE / HTTP/1.1\r\nHost: %s%s%s\r\nUser-Agent: exeat-doctor\r\n", f->host, is_usual ? "" : ":",
               is_usual ? "" : f->port);
    if (f->credentials) {
        buf_text(out, "Authorization: Basic ");
        text_base64(out, slice_of(f->credentials));
        buf_text(out, "\r\n");
    }
    buf_text(out, "\r\n");
}

/* Blocking from here on, and not for ever. */
static void settle(int fd)
{
    struct timeval wait = {.tv_sec = WAIT_S};

    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
}

/* False: no handshake came about. */
static bool shake_hands(SSL *ssl, const struct fronting *f, enum fronting_leaf *leaf, struct fault *why)
{
    SSL_set_tlsext_host_name(ssl, f->host);
    SSL_set1_host(ssl, f->host);
    if (SSL_connect(ssl) != 1) {
        const char *said = ERR_reason_error_string(ERR_peek_last_error());

        return fault_set(why, FAULT_REFUSED, "%s", said ? said : "it closes");
    }
    if (f->root)
        *leaf = SSL_get_verify_result(ssl) == X509_V_OK ? FRONTING_OURS : FRONTING_FOREIGN;
    return true;
}

static ssize_t read_some(SSL *ssl, int fd, char *to, size_t most)
{
    return ssl ? SSL_read(ssl, to, (int)most) : read(fd, to, most);
}

static bool converse(SSL *ssl, int fd, const struct fronting *f, struct asking *out, struct fault *why)
{
    struct buf question = {0}, head = {0};
    ssize_t got = 1;
    bool ok;

    write_question(f, &question);
    ok = ssl ? SSL_write(ssl, buf_slice(&question).ptr, (int)buf_len(&question)) > 0 : file_write_fd(fd, buf_slice(&question), why);
    while (ok && got > 0 && slice_search(buf_slice(&head), SLICE("\r\n\r\n")) < 0 && buf_len(&head) < HEAD_MOST)
        if ((got = read_some(ssl, fd, buf_reserve(&head, 4096), 4096)) > 0)
            buf_commit(&head, (size_t)got);
    ok = buf_len(&head) ? asking_read(buf_slice(&head), out, why) : fault_set(why, FAULT_IO, "it accepts, and closes without an answer");
    buf_wipe(&question);
    buf_free(&head);
    return ok;
}

bool fronting_ask(const struct fronting *f, struct asking *out, enum fronting_leaf *leaf, struct fault *why)
{
    SSL_CTX *context = f->is_tls ? SSL_CTX_new(TLS_client_method()) : NULL;
    SSL *ssl = NULL;
    int fd = asking_connect(f->host, f->port, why);
    bool ok = fd >= 0;

    *out = (struct asking){0};
    *leaf = FRONTING_UNJUDGED;
    if (ok)
        settle(fd);
    if (ok && context) {
        if (f->root)
            SSL_CTX_load_verify_locations(context, f->root, NULL);
        ssl = SSL_new(context);
        ok = ssl && SSL_set_fd(ssl, fd) == 1 && shake_hands(ssl, f, leaf, why);
    }
    ok = ok && converse(ssl, fd, f, out, why);
    SSL_free(ssl);
    SSL_CTX_free(context);
    ERR_clear_error();
    if (fd >= 0)
        close(fd);
    return ok;
}
