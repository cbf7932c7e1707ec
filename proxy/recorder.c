/*
 * Owns the batch of this turn and every record that nobody waits for until the scribe has acknowledged it. It never
 * learns what a record says.
 */
#include "proxy/recorder.h"

#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/pack.h"
#include "base/say.h"
#include "proxy/role.h"

enum { KEEP_MAX = 4 << 20, WAITING_MAX = 4 << 20, COUNT_AT = 8, SETTLE_MS = 2000 };

/*
 * A batch costs the scribe a wake-up, whatever is in it: it waits until nothing else is ready, but no longer than this.
 * What only tells of an end waits for a record that somebody needs, or RIDE_MS.
 */
enum { GATHER_RECORDS = 96, GATHER_TURNS = 16, GATHER_NS = 1200 * 1000, RIDE_MS = 5 };

struct recorder {
    struct loop *loop;
    struct channel *scribe; /* NULL: none */
    bool open;
    uint64_t next;     /* role_seq of the next record */
    uint64_t answered; /* the scribe has answered up to here */
    uint64_t written;  /* records acknowledged */
    uint64_t lost;     /* records beyond KEEP_MAX, not told yet */
    struct buf draft;  /* the record under construction */
    struct buf batch;  /* the message of this turn, with its head; empty when count is 0 */
    uint32_t count;
    bool due;         /* it is to go with this turn or soon after; else it waits for company */
    struct timer *ride;
    bool draft_rides; /* the record under construction can wait for company */
    unsigned turns;   /* that it has waited */
    int64_t gathers_since_ns; /* when the first of those ended */
    struct buf sent;  /* nobody waits, no answer yet: u64 role_seq and the record, one after another */
    struct buf again; /* nobody waits, to be sent when the scribe is open: records one after another */
    struct record_wait waiting; /* heads of rings; waiting is in order of role_seq */
    struct record_wait failed;  /* get false at the end of the turn */
    uint64_t generation;        /* 0: records carry none */
    void (*on_settled)(void *arg);
    void *settled_arg;
    struct timer *settling;
};

/* ---- rings of waits ---- */

static void ring_init(struct record_wait *head)
{
    head->next = head->prev = head;
}

static bool ring_is_empty(const struct record_wait *head)
{
    return head->next == head;
}

static void ring_add(struct record_wait *head, struct record_wait *w)
{
    w->prev = head->prev;
    w->next = head;
    head->prev->next = w;
    head->prev = w;
}

static void ring_remove(struct record_wait *w)
{
    w->prev->next = w->next;
    w->next->prev = w->prev;
    w->next = w->prev = NULL;
}

/* All of from to the end of to. */
static void ring_move(struct record_wait *to, struct record_wait *from)
{
    while (!ring_is_empty(from)) {
        struct record_wait *w = from->next;

        ring_remove(w);
        ring_add(to, w);
    }
}

static void tell(struct record_wait *w, bool ok)
{
    ring_remove(w);
    w->on_recorded(w->arg, ok);
}

/* Callbacks may add and cancel, so always look at the first; what they add comes after role_seq. */
static void tell_up_to(struct recorder *r, uint64_t role_seq, bool ok)
{
    while (!ring_is_empty(&r->waiting) && r->waiting.next->role_seq <= role_seq)
        tell(r->waiting.next, ok);
}

/* Who fails again from inside a callback is told in the next turn. */
static void tell_failed(struct recorder *r)
{
    struct record_wait now;

    ring_init(&now);
    ring_move(&now, &r->failed);
    while (!ring_is_empty(&now))
        tell(now.next, false);
}

/* ---- records ---- */

static void nothing(void *arg)
{
    (void)arg;
}

/* There is work for the end of the turn: the loop must come by there before it waits again. */
static void nudge(struct recorder *r)
{
    loop_defer(r->loop, nothing, NULL);
}

static void fail_later(struct recorder *r, struct record_wait *wait)
{
    if (ring_is_empty(&r->failed))
        nudge(r);
    ring_add(&r->failed, wait);
}

static bool has_room(const struct recorder *r, size_t n)
{
    return buf_len(&r->sent) + buf_len(&r->again) + n <= KEEP_MAX;
}

/* The front entry of sent: its number and its record, borrowed. */
static uint64_t sent_front(const struct recorder *r, struct slice *record)
{
    struct unpack u = unpack_start(buf_slice(&r->sent));
    uint64_t role_seq = unpack_u64(&u);
    struct slice start = u.left;

    unpack_bytes(&u);
    assert(!u.bad);
    *record = slice_cut(start, 0, start.len - u.left.len);
    return role_seq;
}

/* What is up to role_seq has its answer: written, or else to be sent again. */
static void settle(struct recorder *r, uint64_t role_seq, bool ok)
{
    struct slice record;

    while (buf_len(&r->sent) && sent_front(r, &record) <= role_seq) {
        if (!ok)
            buf_append(&r->again, record);
        buf_consume(&r->sent, sizeof(uint64_t) + record.len);
    }
}

/* Everything under way is void: the scribe is gone. */
static void lose_scribe(struct recorder *r)
{
    channel_free(r->scribe);
    r->scribe = NULL;
    r->open = false;
    r->answered = r->next - 1;
    r->count = 0;
    r->due = false;
    r->turns = 0;
    buf_clear(&r->batch);
    settle(r, UINT64_MAX, false);
    if (!ring_is_empty(&r->waiting))
        nudge(r);
    ring_move(&r->failed, &r->waiting);
}

static void send_batch(struct recorder *r)
{
    struct slice message = buf_slice(&r->batch);
    bool ok;

    if (!r->count)
        return;
    for (int i = 0; i < 4; i++)
        ((char *)message.ptr)[COUNT_AT + i] = (char)(r->count >> (8 * i) & 0xff);
    ok = channel_send(r->scribe, MSG_RECORDS, message, -1);
    r->count = 0;
    r->due = false;
    r->turns = 0;
    buf_clear(&r->batch);
    if (!ok)
        lose_scribe(r);
}

static void set_aside(struct recorder *r, struct slice record, struct record_wait *wait)
{
    if (wait)
        fail_later(r, wait);
    else if (has_room(r, record.len))
        buf_append(&r->again, record);
    else
        r->lost++;
}

static void keep(struct recorder *r, uint64_t role_seq, struct slice record)
{
    if (!has_room(r, record.len + sizeof role_seq))
        return;
    pack_u64(&r->sent, role_seq);
    buf_append(&r->sent, record);
}

static void make_due(struct recorder *r)
{
    if (!r->due)
        nudge(r);
    r->due = true;
}

static void on_ride(void *arg)
{
    struct recorder *r = arg;

    if (r->count)
        make_due(r);
}

static void add(struct recorder *r, struct slice record, struct record_wait *wait, bool rides)
{
    uint64_t role_seq;

    if (r->count && buf_len(&r->batch) + record.len > IPC_MAX)
        send_batch(r);
    if (!recorder_is_open(r)) {
        set_aside(r, record, wait);
        return;
    }
    role_seq = r->next++;
    if (!r->count) {
        pack_u64(&r->batch, role_seq);
        pack_u32(&r->batch, 0); /* the count, when it is sent */
        if (rides)
            timer_set(r->ride, RIDE_MS);
    }
    buf_append(&r->batch, record);
    r->count++;
    if (!rides || r->count >= GATHER_RECORDS)
        make_due(r);
    if (wait) {
        wait->role_seq = role_seq;
        ring_add(&r->waiting, wait);
    } else {
        keep(r, role_seq, record);
    }
}

/* The draft, which w has written, is done. */
static void end(struct recorder *r, struct record_writer *w, struct record_wait *wait, bool rides)
{
    if (r->generation)
        record_number(w, FIELD_GENERATION, (int64_t)r->generation);
    record_end(w);
    add(r, buf_slice(&r->draft), wait, rides);
    buf_clear(&r->draft);
}

static void add_lost(struct recorder *r)
{
    struct record_writer w = record_begin(&r->draft, RECORD_LOST);

    record_text(&w, FIELD_DETAIL, SLICE("more results than fit while the journal was closed"));
    record_number(&w, FIELD_LOST_RECORDS, (int64_t)r->lost);
    r->lost = 0;
    end(r, &w, NULL, false);
}

/* The scribe takes records: first those that were set aside. What does not fit now waits for the next answer. */
static void send_again(struct recorder *r)
{
    struct buf list = r->again;
    struct unpack u = unpack_start(buf_slice(&list));

    if (!recorder_is_open(r))
        return;
    r->again = (struct buf){0};
    while (u.left.len) {
        struct slice start = u.left;

        unpack_bytes(&u);
        assert(!u.bad);
        add(r, slice_cut(start, 0, start.len - u.left.len), NULL, false);
    }
    buf_free(&list);
    if (r->lost && recorder_is_open(r))
        add_lost(r);
}

/* ---- the scribe's answers ---- */

static void on_recorded(struct recorder *r, uint64_t role_seq)
{
    if (role_seq > r->answered) {
        r->written += role_seq - r->answered;
        r->answered = role_seq;
        settle(r, role_seq, true);
        tell_up_to(r, role_seq, true);
    }
    r->open = r->scribe != NULL;
    if (buf_len(&r->again) || r->lost)
        send_again(r);
}

static void on_refused(struct recorder *r, uint64_t role_seq)
{
    r->open = false;
    if (role_seq <= r->answered)
        return;
    r->answered = role_seq;
    settle(r, role_seq, false);
    tell_up_to(r, role_seq, false);
}

static void on_message(void *arg, uint16_t type, struct slice payload, int fd)
{
    struct recorder *r = arg;
    struct unpack u = unpack_start(payload);
    uint64_t role_seq = unpack_u64(&u);

    if (type == MSG_REFUSED)
        unpack_bytes(&u); /* the scribe itself has said it to people */
    if (fd >= 0 || (type != MSG_RECORDED && type != MSG_REFUSED) || !unpack_done(&u) || role_seq >= r->next) {
        say_error("the scribe answers what was not asked (message %u): its channel is closed", type);
        lose_scribe(r);
    } else if (type == MSG_RECORDED) {
        on_recorded(r, role_seq);
    } else {
        on_refused(r, role_seq);
    }
}

static void on_end(void *arg)
{
    lose_scribe(arg);
}

/* A few short turns. Long ones are of somebody who makes no records: the others do not wait for more of those. */
static bool waits_for_more(struct recorder *r)
{
    int64_t now;

    if (!r->count || r->count >= GATHER_RECORDS || r->turns++ >= GATHER_TURNS || !loop_is_busy(r->loop))
        return false;
    now = clock_mono_ns();
    if (r->turns == 1)
        r->gathers_since_ns = now;
    return now - r->gathers_since_ns < GATHER_NS;
}

static void tell_settled(void *arg)
{
    struct recorder *r = arg;
    void (*done)(void *arg) = r->on_settled;

    r->on_settled = NULL;
    timer_stop(r->settling);
    if (done)
        done(r->settled_arg);
}

static void at_end_of_turn(void *arg)
{
    struct recorder *r = arg;

    tell_failed(r);
    if (r->on_settled)
        r->due = true;
    if (r->due && waits_for_more(r))
        nudge(r);
    else if (r->due)
        send_batch(r);
    if (r->on_settled && recorder_is_settled(r))
        tell_settled(r);
}

/* ---- for the role ---- */

struct recorder *recorder_new(struct loop *loop)
{
    struct recorder *r = calloc(1, sizeof *r);

    if (!r)
        abort();
    r->loop = loop;
    r->next = 1;
    r->ride = timer_new(loop, on_ride, r);
    ring_init(&r->waiting);
    ring_init(&r->failed);
    loop_each_turn(loop, at_end_of_turn, r);
    return r;
}

void recorder_free(struct recorder *r)
{
    if (!r)
        return;
    channel_free(r->scribe);
    timer_free(r->settling);
    timer_free(r->ride);
    buf_free(&r->draft);
    buf_free(&r->batch);
    buf_free(&r->sent);
    buf_free(&r->again);
    free(r);
}

void recorder_attach(struct recorder *r, int fd)
{
    static const struct channel_handler handler = {on_message, on_end};

    lose_scribe(r);
    r->scribe = channel_new(r->loop, fd, &handler, r);
    r->open = true;
    send_again(r);
}

bool recorder_is_open(const struct recorder *r)
{
    return r->open && channel_pending(r->scribe) < WAITING_MAX;
}

bool recorder_is_settled(const struct recorder *r)
{
    return !r->count && r->answered + 1 == r->next && !buf_len(&r->again) && ring_is_empty(&r->failed);
}

void recorder_settle(struct recorder *r, void (*done)(void *arg), void *arg)
{
    assert(!r->on_settled);
    r->on_settled = done;
    r->settled_arg = arg;
    if (!r->settling)
        r->settling = timer_new(r->loop, tell_settled, r);
    timer_set(r->settling, SETTLE_MS);
    nudge(r);
}

void recorder_stamp(struct recorder *r, uint64_t generation)
{
    r->generation = generation;
}

uint64_t recorder_written(const struct recorder *r)
{
    return r->written;
}

struct record_writer recorder_begin(struct recorder *r, enum record_kind kind)
{
    assert(!buf_len(&r->draft));
    r->draft_rides = kind == RECORD_RESULT || kind == RECORD_CONNECTION || kind == RECORD_UPSTREAM;
    return record_begin(&r->draft, kind);
}

static void finish(struct recorder *r, struct record_writer *w, struct record_wait *wait, bool rides)
{
    assert(w->out == &r->draft && (!wait || !record_is_waiting(wait)));
    end(r, w, wait, rides);
}

void recorder_end(struct recorder *r, struct record_writer *w, struct record_wait *wait)
{
    finish(r, w, wait, r->draft_rides && !wait);
}

void recorder_ride(struct recorder *r, struct record_writer *w, struct record_wait *wait)
{
    finish(r, w, wait, true);
}

void recorder_cancel(struct recorder *r, struct record_wait *wait)
{
    (void)r;
    if (record_is_waiting(wait))
        ring_remove(wait);
}
