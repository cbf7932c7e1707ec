/* The sending side of the journal against a scribe played here, on a real loop and a real channel. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/pack.h"
#include "proxy/recorder.h"
#include "proxy/role.h"

enum { MESSAGES = 64, WAITS = 8 };

/* What one MSG_RECORDS said. */
struct heard {
    uint64_t first;
    uint32_t count, read;
    char details[256]; /* of its records, a comma after each */
};

struct bench {
    struct loop *loop;
    struct recorder *r;
    struct channel *scribe;
    struct heard heard[MESSAGES];
    size_t n_heard;
    struct record_wait waits[WAITS];
    char told[64]; /* '+' and '-' in order */
    void (*step)(struct bench *b);
    void (*in_callback)(struct bench *b);
};

static void on_message(void *arg, uint16_t type, struct slice payload, int fd)
{
    struct bench *b = arg;
    struct heard *h = &b->heard[b->n_heard++];
    struct unpack u = unpack_start(payload);
    struct buf members = {0};
    enum record_kind kind;
    bool bad;

    assert_int_equal(fd, -1);
    assert_int_equal(type, MSG_RECORDS);
    assert_true(b->n_heard < MESSAGES);
    h->first = unpack_u64(&u);
    h->count = unpack_u32(&u);
    while (record_next(&u.left, &kind, &members, &bad)) {
        struct slice text = buf_slice(&members);

        h->read++;
        if (text.len < 40 && strlen(h->details) + text.len < sizeof h->details - 1) {
            strncat(h->details, text.ptr, text.len);
            strncat(h->details, ",", 2);
        }
        buf_clear(&members);
    }
    assert_false(bad);
    assert_int_equal(h->read, h->count);
    buf_free(&members);
}

static void on_end(void *arg)
{
    (void)arg;
}

static const struct channel_handler handler = {on_message, on_end};

static void attach(struct bench *b)
{
    int fds[2];

    assert_true(channel_pair(fds, NULL));
    channel_free(b->scribe);
    b->scribe = channel_new(b->loop, fds[0], &handler, b);
    recorder_attach(b->r, fds[1]);
}

static void set_up(struct bench *b)
{
    memset(b, 0, sizeof *b);
    b->loop = loop_new();
    b->r = recorder_new(b->loop);
}

static void tear_down(struct bench *b)
{
    recorder_free(b->r);
    channel_free(b->scribe);
    loop_free(b->loop);
}

static void stop(void *arg)
{
    loop_stop(((struct bench *)arg)->loop);
}

/* The loop for so long that every message has arrived and been answered. */
static void settle(struct bench *b)
{
    struct timer *t = timer_new(b->loop, stop, b);

    timer_set(t, 20);
    loop_run_again(b->loop);
    timer_free(t);
}
