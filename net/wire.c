/* Owns the bytes read before TLS began, and the knowledge that the socket is empty. */
#include "net/wire.h"

#include <errno.h>
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
    bool drained;     /* nothing more until the loop says so */
    bool spoken;      /* the handshake is done */
    size_t silent;    /* bytes since the peer last said something */
    bool closed;      /* the peer's end is there: only it says that the socket is empty */
    struct buf early; /* read before TLS began */
    uint64_t *n_in, *n_out;
};

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
    if (w->drained) {
        BIO_set_retry_read(bio);
        return -1;
    }
    do
        got = recv(w->fd, into, (size_t)room, 0);
    while (got < 0 && errno == EINTR);
    if (got > 0) {
        *w->n_in += (uint64_t)got;
        w->silent += (size_t)got;
    }
    w->drained = got < 0 || (got > 0 && got < room && !w->closed);
    if (got < 0 && errno == EAGAIN)
        BIO_set_retry_read(bio);
    return (int)got;
}

static int wire_write(BIO *bio, const char *bytes, int len)
{
    struct wire *w = BIO_get_data(bio);
    ssize_t put;

    BIO_clear_retry_flags(bio);
    do
        put = send(w->fd, bytes, (size_t)len, MSG_NOSIGNAL);
    while (put < 0 && errno == EINTR);
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

struct wire *wire_attach(SSL *ssl, int fd, struct slice early, uint64_t *n_in, uint64_t *n_out)
{
    struct wire *w = calloc(1, sizeof *w);
    BIO *bio = BIO_new(wire_method());

    if (!w || !bio)
        abort();
    *w = (struct wire){.ssl = ssl, .bio = bio, .fd = fd, .n_in = n_in, .n_out = n_out};
    buf_append(&w->early, early);
    BIO_set_data(bio, w);
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl, bio, bio);
    return w;
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
}

bool wire_is_drained(const struct wire *w)
{
    return w->drained && buf_len(&w->early) == 0 && !SSL_has_pending(w->ssl);
}

bool wire_waits(const struct wire *w)
{
    return BIO_should_retry(w->bio);
}
