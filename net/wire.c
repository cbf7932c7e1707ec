/* Owns the bytes read before TLS began, and the knowledge that the socket is empty. */
#include "net/wire.h"

#include <errno.h>
#include <openssl/err.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/buf.h"

/* A record has 16 KiB at most, and an empty one is refused after a few: an honest peer says something within this. */
enum { SILENT_MAX = 48 * 1024 };

struct wire {
    SSL *ssl; /* borrowed: it owns us */
    BIO *bio;
    int fd;
    struct wire *under; /* the TLS that this one goes through; NULL: the socket itself */
    bool drained;     /* nothing more until the loop says so */
    bool guessed;     /* that it is drained, from a short read */
    bool spoken;      /* the handshake is done */
    size_t silent;    /* bytes since the peer last said something */
    bool closed;      /* the peer's end is there: only it says that the socket is empty */
    struct buf early; /* read before TLS began */
    uint64_t *n_in, *n_out;
};

/* What SSL_read or SSL_write of the TLS beneath said, as a BIO says it. */
static int told_beneath(struct wire *w, int result)
{
    SSL *under = w->under->ssl;

    if (result > 0)
        return result;
    if (wire_waits(w->under) && !SSL_want_nothing(under)) {
        BIO_set_flags(w->bio, (SSL_want_write(under) ? BIO_FLAGS_WRITE : BIO_FLAGS_READ) | BIO_FLAGS_SHOULD_RETRY);
        return -1;
    }
    result = SSL_get_error(under, result) == SSL_ERROR_ZERO_RETURN ? 0 : -1;
    ERR_clear_error(); /* or they would be taken for errors of the one above */
    return result;
}

static int read_beneath(struct wire *w, char *into, int room)
{
    int got = told_beneath(w, SSL_read(w->under->ssl, into, room));

    if (got > 0) {
        wire_has_spoken(w->under);
        w->silent += (size_t)got;
    }
    return got;
}

ssize_t wire_recv(int fd, void *into, size_t room, int flags)
{
    ssize_t got;

    do
        got = recv(fd, into, room, flags);
    while (got < 0 && errno == EINTR);
    return got;
}

ssize_t wire_send(int fd, const void *bytes, size_t len)
{
    ssize_t put;

    do
        put = send(fd, bytes, len, MSG_NOSIGNAL);
    while (put < 0 && errno == EINTR);
    return put;
}

static int wire_read(BIO *bio, char *into, int room)
{
    struct wire *w = BIO_get_data(bio);
    ssize_t got;

    BIO_clear_retry_flags(bio);
    if (buf_len(&w->early)) {
        struct slice early = slice_cut(buf_slice(&w->early), 0, (size_t)room);

        memcpy(into, early.ptr, early.len);
        buf_consume(&w->early, early.len);
        if (buf_len(&w->early) == 0)
            buf_free(&w->early);
        return (int)early.len;
    }
    if (w->spoken && w->silent > SILENT_MAX) {
        errno = EPROTO;
        return -1;
    }
    if (w->under)
        return read_beneath(w, into, room);
    if (w->drained) {
        BIO_set_retry_read(bio);
        return -1;
    }
    got = wire_recv(w->fd, into, (size_t)room, 0);
    if (got > 0) {
        *w->n_in += (uint64_t)got;
        w->silent += (size_t)got;
    }
    w->guessed = got > 0 && got < room && !w->closed;
    w->drained = got < 0 || w->guessed;
    if (got < 0 && errno == EAGAIN)
        BIO_set_retry_read(bio);
    return (int)got;
}

static int wire_write(BIO *bio, const char *bytes, int len)
{
    struct wire *w = BIO_get_data(bio);
    ssize_t put;

    BIO_clear_retry_flags(bio);
    if (w->under)
        return told_beneath(w, SSL_write(w->under->ssl, bytes, len));
    put = wire_send(w->fd, bytes, (size_t)len);
    if (put > 0)
        *w->n_out += (uint64_t)put;
    if (put < 0 && errno == EAGAIN)
        BIO_set_retry_write(bio);
    return (int)put;
}

static long wire_control(BIO *bio, int command, long number, void *ptr)
{
    (void)bio, (void)number, (void)ptr;
    return command == BIO_CTRL_FLUSH ? 1 : 0;
}

static int wire_destroy(BIO *bio)
{
    struct wire *w = BIO_get_data(bio);

    if (w) {
        buf_free(&w->early);
        free(w);
    }
    return 1;
}

static const BIO_METHOD *wire_method(void)
{
    static BIO_METHOD *method;

    if (!method) {
        method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "exeat wire");
        if (!method)
            abort();
        BIO_meth_set_read(method, wire_read);
        BIO_meth_set_write(method, wire_write);
        BIO_meth_set_ctrl(method, wire_control);
        BIO_meth_set_destroy(method, wire_destroy);
    }
    return method;
}

static struct wire *attach(SSL *ssl, const struct wire *as, struct slice early)
{
    struct wire *w = calloc(1, sizeof *w);
    BIO *bio = BIO_new(wire_method());

    if (!w || !bio)
        abort();
    *w = *as;
    w->ssl = ssl;
    w->bio = bio;
    buf_append(&w->early, early);
    BIO_set_data(bio, w);
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl, bio, bio);
    return w;
}

struct wire *wire_attach(SSL *ssl, int fd, struct slice early, uint64_t *n_in, uint64_t *n_out)
{
    return attach(ssl, &(struct wire){.fd = fd, .n_in = n_in, .n_out = n_out}, early);
}

struct wire *wire_attach_over(SSL *ssl, struct wire *under, struct slice early)
{
    return attach(ssl, &(struct wire){.fd = -1, .under = under}, early);
}

void wire_has_spoken(struct wire *w)
{
    w->spoken = true;
    w->silent = 0;
}

void wire_is_ready(struct wire *w, bool closed)
{
    w->drained = false;
    w->closed = w->closed || closed;
    if (w->under)
        wire_is_ready(w->under, closed);
}

bool wire_is_drained(const struct wire *w)
{
    if (buf_len(&w->early) || SSL_has_pending(w->ssl))
        return false;
    return w->under ? wire_is_drained(w->under) : w->drained;
}

bool wire_has_guessed(const struct wire *w)
{
    return w->guessed;
}

void wire_is_empty(struct wire *w)
{
    w->guessed = false;
    w->drained = true;
}

bool wire_waits(const struct wire *w)
{
    return BIO_should_retry(w->bio);
}
