#include "tests/fuzz/lib/peer.h"

#include <openssl/err.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/fuzz/lib/kernel.h"

static size_t pieces;

void peer_pieces(size_t n)
{
    pieces = n;
}

void peer_init(struct peer *p, int fd)
{
    *p = (struct peer){.fd = fd, .up = true};
}

static void drop(struct peer *p)
{
    SSL_free(p->ssl);
    p->ssl = NULL;
    p->fd = -1;
}

void peer_clear(struct peer *p)
{
    if (p->fd >= 0)
        close(p->fd);
    drop(p);
    buf_free(&p->in);
    buf_free(&p->out);
}

void peer_start_tls(struct peer *p, SSL *ssl)
{
    p->ssl = ssl;
    p->up = false;
    p->plain = buf_len(&p->in);
    SSL_set_fd(ssl, p->fd);
}

void peer_send(struct peer *p, struct slice bytes)
{
    if (!p->ending)
        buf_append(&p->out, bytes);
}

void peer_finish(struct peer *p)
{
    p->ending = true;
}

void peer_reset(struct peer *p)
{
    if (p->fd < 0)
        return;
    kernel_reset(p->fd);
    if (p->end == PEER_OPEN)
        p->end = PEER_CUT;
    drop(p);
}

static bool shake_hands(struct peer *p)
{
    int result = SSL_do_handshake(p->ssl);

    p->up = result == 1;
    if (!p->up && SSL_get_error(p->ssl, result) != SSL_ERROR_WANT_READ)
        p->end = PEER_CUT;
    return p->up;
}

static bool write_out(struct peer *p)
{
    struct slice bytes = slice_cut(buf_slice(&p->out), 0, pieces ? pieces : SIZE_MAX);
    ssize_t put;

    if (p->shut || (bytes.len == 0 && !p->ending))
        return false;
    if (bytes.len == 0) {
        if (p->ssl)
            SSL_shutdown(p->ssl);
        shutdown(p->fd, SHUT_WR);
        p->shut = true;
        return true;
    }
    put = p->ssl ? SSL_write(p->ssl, bytes.ptr, (int)bytes.len) : send(p->fd, bytes.ptr, bytes.len, MSG_NOSIGNAL);
    if (put > 0)
        buf_consume(&p->out, (size_t)put);
    return put > 0;
}

static void read_end(struct peer *p, ssize_t got)
{
    bool proper = p->ssl ? SSL_get_error(p->ssl, (int)got) == SSL_ERROR_ZERO_RETURN
                         : got == 0 && !kernel_was_reset(p->fd);

    p->end = proper ? PEER_ENDED : PEER_CUT;
}

static bool read_in(struct peer *p)
{
    char bytes[8192];
    ssize_t got;

    if (p->stalled || p->end != PEER_OPEN)
        return false;
    got = p->ssl ? SSL_read(p->ssl, bytes, sizeof bytes) : recv(p->fd, bytes, sizeof bytes, 0);
    if (got > 0) {
        buf_append(&p->in, slice_make(bytes, (size_t)got));
        return true;
    }
    if (p->ssl ? SSL_get_error(p->ssl, (int)got) == SSL_ERROR_WANT_READ : got < 0 && errno == EAGAIN)
        return false;
    read_end(p, got);
    return true;
}

bool peer_pump(struct peer *p)
{
    bool moved = false;

    if (p->fd < 0)
        return false;
    ERR_clear_error();
    if (!p->up)
        moved = p->end == PEER_OPEN && shake_hands(p);
    while (p->up && write_out(p)) {
        moved = true;
        if (pieces)
            break;
    }
    ERR_clear_error();
    while (p->up && read_in(p))
        moved = true;
    ERR_clear_error();
    return moved;
}
