/* Owns the visitors of one role. Knows no question and no answer. */
#include "proxy/desk.h"

#include <stdlib.h>
#include <unistd.h>

enum { UNLISTED_MAX = 64 };

void desk_open(struct desk *d, struct role_context *context, const struct desk_rules *rules)
{
    *d = (struct desk){.context = context, .rules = rules};
}

static void leave(struct visitor *v)
{
    struct visitor **at = &v->desk->first;

    while (*at != v)
        at = &(*at)->next;
    *at = v->next;
    v->desk->rules->on_leave(v);
    channel_free(v->channel);
    v->channel = NULL;
    loop_defer(v->desk->context->loop, free, v); /* its own message may be what called this */
}

static void on_message(void *arg, uint16_t type, struct slice payload, int fd)
{
    struct visitor *v = arg;

    if (fd >= 0) {
        close(fd);
        desk_expel(v, "a descriptor with a question");
        return;
    }
    v->desk->rules->on_message(v, type, payload);
}

static void on_end(void *arg)
{
    leave(arg);
}

void desk_seat(struct desk *d, enum role role, int index, int fd)
{
    static const struct channel_handler handler = {.on_message = on_message, .on_end = on_end};
    struct visitor *v;

    for (v = d->first; v && (v->index != index || v->role != role); v = v->next)
        continue;
    if (v)
        leave(v);
    v = calloc(1, d->rules->size);
    if (!v)
        abort();
    v->desk = d;
    v->role = role;
    v->index = index;
    v->next = d->first;
    d->first = v;
    v->channel = channel_new(d->context->loop, fd, &handler, v);
}

void desk_close(struct desk *d)
{
    while (d->first)
        leave(d->first);
}

void desk_answer(struct visitor *v, enum role_message type, const struct buf *payload, int fd)
{
    channel_send(v->channel, type, buf_slice(payload), fd);
}

void desk_expel(struct visitor *v, const char *what)
{
    role_violation(v->desk->context, v->role, v->index, what);
    leave(v);
}

bool desk_bears_unlisted(struct visitor *v)
{
    if (++v->unlisted <= UNLISTED_MAX)
        return true;
    desk_expel(v, "questions for what no service lists");
    return false;
}
