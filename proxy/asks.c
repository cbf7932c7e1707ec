/* Owns the channel to one role and the questions that wait on it. */
#include "proxy/asks.h"

#include <stdlib.h>
#include <sys/queue.h>
#include <unistd.h>

struct ask {
    TAILQ_ENTRY(ask) link;
    struct asks *owner;
    uint32_t id;
    ask_answer *on;
    void *arg;
};

struct asks {
    struct loop *loop;
    struct channel *channel; /* NULL: the role is not there */
    TAILQ_HEAD(, ask) waiting;
    size_t count, most;
    uint32_t next_id;
};

struct asks *asks_new(struct loop *l, size_t most)
{
    struct asks *a = calloc(1, sizeof *a);

    if (!a)
        abort();
    a->loop = l;
    a->most = most;
    TAILQ_INIT(&a->waiting);
    return a;
}

static void drop(struct ask *k)
{
    TAILQ_REMOVE(&k->owner->waiting, k, link);
    k->owner->count--;
    free(k);
}

static void fail_all(struct asks *a)
{
    struct ask *k;

    while ((k = TAILQ_FIRST(&a->waiting))) {
        struct unpack nothing = unpack_start(slice_make("", 0));
        ask_answer *on = k->on;
        void *arg = k->arg;

        drop(k);
        on(arg, 0, &nothing, -1);
    }
}

void asks_free(struct asks *a)
{
    struct ask *k;

    if (!a)
        return;
    while ((k = TAILQ_FIRST(&a->waiting)))
        drop(k);
    channel_free(a->channel);
    free(a);
}

static struct ask *find(struct asks *a, uint32_t id)
{
    struct ask *k;

    TAILQ_FOREACH(k, &a->waiting, link)
        if (k->id == id)
            return k;
    return NULL;
}

static void on_message(void *arg, uint16_t type, struct slice payload, int fd)
{
    struct asks *a = arg;
    struct unpack u = unpack_start(payload);
    struct ask *k = find(a, unpack_u32(&u));
    ask_answer *on;
    void *on_arg;

    if (!k) { /* cancelled meanwhile */
        if (fd >= 0)
            close(fd);
        return;
    }
    on = k->on;
    on_arg = k->arg;
    drop(k);
    on(on_arg, type, &u, fd);
}

static void on_end(void *arg)
{
    struct asks *a = arg;

    channel_free(a->channel);
    a->channel = NULL;
    fail_all(a);
}

static const struct channel_handler handler = {on_message, on_end};

void asks_attach(struct asks *a, int fd)
{
    channel_free(a->channel);
    a->channel = NULL;
    fail_all(a);
    a->channel = channel_new(a->loop, fd, &handler, a);
}

bool asks_tell(struct asks *a, uint16_t type, struct slice payload)
{
    return a->channel && channel_send(a->channel, type, payload, -1);
}

struct ask *ask_start(struct asks *a, uint16_t type, struct slice body, ask_answer *on, void *arg)
{
    struct buf message = {0};
    struct ask *k;
    bool sent;

    if (!a->channel || a->count >= a->most)
        return NULL;
    pack_u32(&message, ++a->next_id);
    buf_append(&message, body);
    sent = channel_send(a->channel, type, buf_slice(&message), -1);
    buf_free(&message);
    if (!sent)
        return NULL;
    k = calloc(1, sizeof *k);
    if (!k)
        abort();
    *k = (struct ask){.owner = a, .id = a->next_id, .on = on, .arg = arg};
    TAILQ_INSERT_TAIL(&a->waiting, k, link);
    a->count++;
    return k;
}

void ask_cancel(struct ask *k, uint16_t cancel_type)
{
    if (!k)
        return;
    if (cancel_type) {
        struct buf message = {0};

        pack_u32(&message, k->id);
        asks_tell(k->owner, cancel_type, buf_slice(&message));
        buf_free(&message);
    }
    drop(k);
}
