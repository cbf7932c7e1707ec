/* Owns the socket, its TLS and the bytes on their way in and out. Knows nothing of HTTP. */
#include "net/stream.h"

#include <assert.h>
#include <errno.h>
#include <openssl/err.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "net/tls.h"
#include "net/wire.h"

enum {
    READ_SIZE = 64 * 1024, /* one look at the socket */
    READ_TURN = 4,         /* looks in one event, so that one stream does not starve the others */
    WRITE_DIRECT = 8 * 1024,
};

struct stream {
    struct loop *loop;
    struct watch *watch;
    int fd;
    SSL *ssl;
    SSL *under;        /* the TLS that ssl goes through; NULL: none */
    struct wire *wire; /* ssl's */
    stream_on *on;
    void *arg;
    struct buf in, out;
    struct slice fresh; /* input still in the shared buffer, while on() runs */
    bool up;            /* plain, or handshake done */
    bool ended;         /* END, CUT or FAIL was told: no more input */
    bool gone;          /* CUT or FAIL was told: no more events at all */
    bool broken;        /* writing failed */
    bool ending;        /* stream_end was called */
    bool shut;          /* close_notify and FIN are out */
    bool was_high;      /* pending was over STREAM_HIGH: ROOM is owed */
    bool closed;        /* the peer's end is in the socket: a short read does not mean that it is empty */
    bool tls_wants_write;
    bool flush_due; /* on_flush is deferred */
    bool guessed;   /* plain: that the socket is empty, from a short read; of TLS the wire knows */
    bool look_due;   /* stream_look_again was called */
    bool busy; /* keeps its TLS buffers */
    bool dead;
    uint64_t n_in, n_out;
    struct lane_seat turn; /* events wait in it when their lane is out */
    struct fault *fault; /* NULL: nothing to tell, as of most */
};

static char shared[READ_SIZE];

/* Read and write interest, from the queues alone. */
static void update_interest(struct stream *s)
{
    unsigned want = 0;

    if (s->dead)
        return;
    if (!s->ended && buf_len(&s->in) < STREAM_INPUT)
        want |= WATCH_READ;
    if (!s->broken && (s->tls_wants_write || (s->up && (buf_len(&s->out) || (s->ending && !s->shut)))))
        want |= WATCH_WRITE;
    watch_want(s->watch, want ? want | WATCH_EDGE : 0);
}

static void tell(struct stream *s, enum stream_event event)
{
    if (s->dead || s->gone)
        return;
    if (event == STREAM_CUT || event == STREAM_FAIL)
        s->gone = true;
    if (event == STREAM_END || s->gone)
        s->ended = true;
    s->on(s->arg, event);
}

static void on_again(void *arg);

/* Come back at the end of the turn for what the descriptor will not announce. */
static void again(struct stream *s)
{
    if (!s->dead)
        loop_defer(s->loop, on_again, s);
}

/* ---- plain and TLS transport: > 0 bytes moved, 0 wait, -1 end, -2 cut, -3 failure ---- */

enum { WAIT = 0, GOT_END = -1, GOT_CUT = -2, GOT_FAIL = -3 };

/*
 * SSL_get_error answers from the thread's error queue first, and what others left there would break a connection that
 * only waits: so it is asked last.
 */
static int from_tls_error(struct stream *s, int result)
{
    if ((wire_waits(s->wire) && !SSL_want_nothing(s->ssl)) || tls_stands_still(s->ssl)) {
        s->tls_wants_write = s->tls_wants_write || SSL_want_write(s->ssl);
        return WAIT;
    }
    switch (SSL_get_error(s->ssl, result)) {
    case SSL_ERROR_ZERO_RETURN:
        return GOT_END;
    case SSL_ERROR_SYSCALL:
        ERR_clear_error();
        return GOT_CUT;
    default:
        if (tls_error_is_cut()) {
            ERR_clear_error();
            return GOT_CUT;
        }
        tls_explain(s->ssl, fault_kept(&s->fault));
        return GOT_FAIL;
    }
}

static int pull(struct stream *s, char *into, size_t room)
{
    ssize_t got;

    if (s->ssl) {
        int n = SSL_read(s->ssl, into, (int)room);

        if (n <= 0)
            return from_tls_error(s, n);
        wire_has_spoken(s->wire);
        return n;
    }
    got = wire_recv(s->fd, into, room, 0);
    if (got > 0) {
        s->n_in += (uint64_t)got;
        return (int)got;
    }
    if (got == 0)
        return GOT_END;
    return errno == EAGAIN ? WAIT : GOT_CUT;
}

static int push(struct stream *s, struct slice bytes)
{
    ssize_t put;

    if (s->ssl) {
        int n = SSL_write(s->ssl, bytes.ptr, (int)(bytes.len < INT32_MAX ? bytes.len : INT32_MAX));

        return n > 0 ? n : from_tls_error(s, n);
    }
    put = wire_send(s->fd, bytes.ptr, bytes.len);
    if (put > 0) {
        s->n_out += (uint64_t)put;
        return (int)put;
    }
    return errno == EAGAIN ? WAIT : GOT_CUT;
}

/* ---- reading ---- */

/* Hand over n bytes that lie in the shared buffer; what nobody consumes is kept. */
static void deliver(struct stream *s, size_t n)
{
    if (buf_len(&s->in)) {
        buf_append(&s->in, slice_make(shared, n));
        tell(s, STREAM_DATA);
        return;
    }
    s->fresh = slice_make(shared, n);
    tell(s, STREAM_DATA);
    if (!s->dead && s->fresh.len)
        buf_append(&s->in, s->fresh);
    s->fresh = (struct slice){0};
}

static void finish_reading(struct stream *s, int result)
{
    tell(s, result == GOT_END ? STREAM_END : result == GOT_CUT ? STREAM_CUT : STREAM_FAIL);
}

/* Fill the shared buffer from as many records as there are, so that one event carries them all. */
static int gather(struct stream *s, size_t *have)
{
    *have = 0;
    while (*have < sizeof shared) {
        int got = pull(s, shared + *have, sizeof shared - *have);

        if (got <= 0) {
            s->guessed = false;
            return got;
        }
        *have += (size_t)got;
        s->guessed = true;
        if (!s->ssl)
            return *have < sizeof shared && !s->closed ? WAIT : 1; /* a short read: what comes later is a new edge */
        if (s->busy && wire_is_drained(s->wire))
            return WAIT; /* asking once more would only hear so; an idle stream asks, which gives its buffer back */
    }
    return 1;
}

static void read_some(struct stream *s)
{
    for (int i = 0; i < READ_TURN && !s->ended && !s->dead && buf_len(&s->in) < STREAM_INPUT; i++) {
        size_t have;
        int result = gather(s, &have);

        if (have)
            deliver(s, have);
        if (s->dead)
            return;
        if (result < 0)
            finish_reading(s, result);
        if (result <= 0)
            return;
    }
    /* There is more in the socket or inside OpenSSL, and no new edge will tell of it. */
    if (!s->dead && !s->ended && buf_len(&s->in) < STREAM_INPUT)
        again(s);
}

/* ---- writing ---- */

static void shut_if_done(struct stream *s)
{
    if (!s->ending || s->shut || buf_len(&s->out) || !s->up || s->broken)
        return;
    s->shut = true;
    if (s->ssl) {
        ERR_clear_error();
        SSL_shutdown(s->ssl);
        if (s->under)
            SSL_shutdown(s->under);
        ERR_clear_error();
    }
    shutdown(s->fd, SHUT_WR);
}

static void write_out(struct stream *s)
{
    while (s->up && !s->broken && buf_len(&s->out)) {
        int put = push(s, buf_slice(&s->out));

        if (put == WAIT)
            break;
        if (put < 0) {
            s->broken = true;
            buf_free(&s->out);
            break;
        }
        buf_consume(&s->out, (size_t)put);
    }
    if (s->out.cap && buf_len(&s->out) == 0)
        buf_free(&s->out);
    shut_if_done(s);
}

/* ---- events ---- */

static void shake_hands(struct stream *s)
{
    int result;

    ERR_clear_error();
    result = SSL_do_handshake(s->ssl);
    if (result == 1) {
        wire_has_spoken(s->wire);
        s->up = true;
        tell(s, STREAM_UP);
        return;
    }
    result = from_tls_error(s, result);
    if (result == WAIT && !tls_stands_still(s->ssl))
        stream_look_again(s);
    if (result == GOT_END || result == GOT_CUT) {
        fault_set(fault_kept(&s->fault), FAULT_IO, "the peer closed during the TLS handshake");
        tell(s, STREAM_CUT);
    } else if (result == GOT_FAIL) {
        tell(s, STREAM_FAIL);
    }
}

static void progress(struct stream *s, unsigned ready)
{
    bool hidden = s->ssl && (!s->up || s->tls_wants_write); /* records may lie inside OpenSSL, where no poll sees them */

    s->tls_wants_write = false;
    if (!s->up && s->ssl && !s->ended)
        shake_hands(s);
    if (s->dead)
        return;
    if (hidden)
        ready |= WATCH_READ;
    if (s->up && ready & WATCH_WRITE)
        write_out(s);
    if (s->broken) { /* the peer went: what it said before is read first */
        ready |= WATCH_READ;
        if (s->ssl)
            wire_is_ready(s->wire, true);
    }
    if (s->up && ready & WATCH_READ && !s->dead && !s->ended)
        read_some(s);
    if (s->dead)
        return;
    if (s->was_high && buf_len(&s->out) < STREAM_LOW && !s->broken) {
        s->was_high = false;
        tell(s, STREAM_ROOM);
    }
    if (s->broken)
        tell(s, STREAM_CUT);
    update_interest(s);
}

static void take_turn(void *arg, unsigned ready)
{
    struct stream *s = arg;

    s->closed = s->closed || ready & WATCH_CLOSED;
    if (s->ssl && ready & WATCH_READ)
        wire_is_ready(s->wire, s->closed);
    progress(s, ready);
}

static void on_ready(void *arg, unsigned ready)
{
    if (lane_admit(&((struct stream *)arg)->turn, ready))
        take_turn(arg, ready);
}

/* Something is due that the descriptor will not announce: buffered records, bytes handed to TLS, a broken pipe. */
static void on_again(void *arg)
{
    struct stream *s = arg;

    if (s->look_due && s->ssl && !s->dead)
        wire_is_ready(s->wire, false);
    s->look_due = false;
    if (!s->dead && lane_admit(&s->turn, WATCH_READ | WATCH_WRITE))
        progress(s, WATCH_READ | WATCH_WRITE);
}

struct stream *stream_new(struct loop *l, int fd, stream_on *on, void *arg)
{
    struct stream *s = calloc(1, sizeof *s);

    if (!s)
        abort();
    s->loop = l;
    s->fd = fd;
    s->on = on;
    s->arg = arg;
    s->up = true;
    s->turn = (struct lane_seat){.go = take_turn, .arg = s};
    s->watch = watch_new(l, fd, WATCH_READ | WATCH_EDGE, on_ready, s);
    return s;
}

void stream_set_lane(struct stream *s, struct lane *lane)
{
    lane_sit(&s->turn, lane);
}

void stream_set_handler(struct stream *s, stream_on *on, void *arg)
{
    s->on = on;
    s->arg = arg;
}

void stream_start_tls(struct stream *s, SSL *ssl)
{
    assert(!s->under);
    s->under = s->ssl;
    s->ssl = ssl;
    s->up = s->busy = false;
    s->wire = s->under ? wire_attach_over(ssl, s->wire, stream_input(s))
                       : wire_attach(ssl, s->fd, stream_input(s), &s->n_in, &s->n_out);
    wire_is_ready(s->wire, s->closed);
    stream_consume(s, stream_input(s).len);
    again(s);
}

void stream_go_on(struct stream *s)
{
    s->look_due = true;
    again(s);
}

bool stream_was_shown_ticket(const struct stream *s)
{
    return s->ssl && tls_was_shown_ticket(s->ssl);
}

bool stream_peer_digest(const struct stream *s, unsigned char digest[32])
{
    return s->ssl && tls_peer_digest(s->under ? s->under : s->ssl, digest);
}

struct slice stream_input(const struct stream *s)
{
    return s->fresh.len ? s->fresh : buf_slice(&s->in);
}

void stream_consume(struct stream *s, size_t n)
{
    if (s->fresh.len) {
        s->fresh = slice_from(s->fresh, n);
        return;
    }
    bool was_full = buf_len(&s->in) >= STREAM_INPUT;

    buf_consume(&s->in, n);
    if (s->in.cap && buf_len(&s->in) == 0)
        buf_free(&s->in);
    if (was_full && buf_len(&s->in) < STREAM_INPUT) {
        update_interest(s);
        if (s->ssl && !s->ended)
            again(s);
    }
}

void stream_look_again(struct stream *s)
{
    if (s->look_due || s->ended || !(s->ssl ? wire_has_guessed(s->wire) : s->guessed))
        return;
    s->look_due = true;
    again(s);
}

bool stream_is_ended(const struct stream *s)
{
    return s->ended;
}

enum ahead { AHEAD_QUIET, AHEAD_BYTES, AHEAD_END };

static enum ahead look_ahead(struct stream *s)
{
    ssize_t got;
    char byte;

    if (stream_input(s).len)
        return AHEAD_BYTES;
    if (s->dead || s->ended || s->broken)
        return AHEAD_END;
    got = wire_recv(s->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN))
        return AHEAD_END;
    s->guessed = s->guessed && got >= 0;
    if (got < 0 && s->ssl)
        wire_is_empty(s->wire);
    if (!s->ssl)
        return got > 0 ? AHEAD_BYTES : AHEAD_QUIET;
    if (got < 0 && !SSL_has_pending(s->ssl))
        return AHEAD_QUIET;
    if (got > 0) /* else what OpenSSL holds is looked at: Go's servers send tickets together with the end of the handshake */
        wire_is_ready(s->wire, false);
    got = SSL_peek(s->ssl, &byte, 1);
    if (got > 0 || SSL_has_pending(s->ssl))
        return AHEAD_BYTES;
    return from_tls_error(s, (int)got) == WAIT ? AHEAD_QUIET : AHEAD_END;
}

bool stream_is_quiet(struct stream *s)
{
    return look_ahead(s) == AHEAD_QUIET;
}

bool stream_seems_quiet(const struct stream *s)
{
    return !s->dead && !s->ended && !s->broken && !s->look_due && !s->turn.waits && !stream_input(s).len &&
           !(s->ssl && SSL_has_pending(s->ssl)) && watch_is_silent(s->watch);
}

bool stream_has_spoken(struct stream *s)
{
    return look_ahead(s) == AHEAD_BYTES;
}

/* Written at the end of the turn; only what the socket does not take then costs a change of interest. */
static void on_flush(void *arg)
{
    struct stream *s = arg;

    s->flush_due = false;
    if (buf_len(&s->out)) /* else whoever wrote has flushed */
        lane_enter(s->turn.lane);
    stream_flush(s);
}

struct buf *stream_out(struct stream *s)
{
    return &s->out;
}

bool stream_write(struct stream *s, struct slice bytes)
{
    if (s->broken || s->ending)
        return false;
    if (bytes.len >= WRITE_DIRECT && s->up && !s->dead) {
        write_out(s);
        while (bytes.len && !s->broken && buf_len(&s->out) == 0) {
            int put = push(s, bytes);

            if (put == WAIT)
                break;
            if (put < 0)
                s->broken = true;
            else
                bytes = slice_from(bytes, (size_t)put);
        }
    }
    if (s->broken) {
        again(s);
        return false;
    }
    buf_append(&s->out, bytes);
    if (buf_len(&s->out) >= STREAM_HIGH)
        s->was_high = true;
    if (!s->flush_due)
        loop_defer(s->loop, on_flush, s);
    s->flush_due = true;
    return true;
}

void stream_flush(struct stream *s)
{
    if (s->dead || !s->up || (buf_len(&s->out) == 0 && !s->ending))
        return;
    s->was_high = s->was_high || buf_len(&s->out) >= STREAM_HIGH; /* what was put straight into out counts too */
    write_out(s);
    if ((s->broken && !s->gone) || (s->was_high && buf_len(&s->out) < STREAM_LOW))
        again(s); /* no event of the socket will come of itself */
    if (buf_len(&s->out) >= STREAM_HIGH)
        s->was_high = true;
    update_interest(s);
}

size_t stream_pending(const struct stream *s)
{
    return buf_len(&s->out);
}

void stream_end(struct stream *s)
{
    s->ending = true;
    stream_flush(s);
}

static void bury(void *arg)
{
    struct stream *s = arg;

    buf_free(&s->in);
    buf_free(&s->out);
    free(s->fault);
    free(s);
}

bool stream_close_counted(struct stream *s, bool clean, struct meter *count)
{
    if (!s || s->dead)
        return false;
    s->dead = true;
    lane_rise(&s->turn);
    watch_free(s->watch);
    s->watch = NULL;
    tls_close(s->ssl, clean && s->up && !s->broken && !s->shut, !clean);
    tls_close(s->under, clean && !s->broken && !s->shut, false);
    s->ssl = s->under = NULL;
    count = count && meter_read(s->fd, count) ? count : NULL;
    if (!clean)
        setsockopt(s->fd, SOL_SOCKET, SO_LINGER, &(struct linger){.l_onoff = 1}, sizeof(struct linger));
    close(s->fd);
    loop_defer(s->loop, bury, s);
    return count != NULL;
}

void stream_set_busy(struct stream *s, bool busy)
{
    if (!s->ssl || s->dead)
        return;
    s->busy = busy;
    tls_keep_buffers(s->ssl, busy);
}

const struct fault *stream_fault(const struct stream *s)
{
    return s->fault ? s->fault : &fault_none;
}

uint64_t stream_bytes_in(const struct stream *s)
{
    return s->n_in;
}

uint64_t stream_bytes_out(const struct stream *s)
{
    return s->n_out;
}
