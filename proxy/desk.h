/*
 * The desk of a role that others ask, most of them workers: one visitor for each, as long as its channel lives. A visitor that breaks the
 * table is shown out: nothing more is read of it, the supervisor is told and ends it, and the others are served on.
 */
#ifndef PROXY_DESK_H
#define PROXY_DESK_H

#include "proxy/role.h"

struct desk;

/* The first member of what a role keeps of a worker. */
struct visitor {
    struct visitor *next;
    struct desk *desk;
    enum role role;
    int index; /* among those of its kind */
    struct channel *channel;
    unsigned unlisted;
};

struct desk_rules {
    size_t size; /* bytes of what the role keeps, zero at first */
    /* A message without a descriptor: no question has one. May call desk_expel as its last act. */
    void (*on_message)(struct visitor *v, uint16_t type, struct slice payload);
    /* It is gone or shown out: drop what it waits for. The desk frees v itself, at the end of the turn. */
    void (*on_leave)(struct visitor *v);
};

struct desk {
    struct role_context *context;
    const struct desk_rules *rules;
    struct visitor *first;
};

/* context and rules are kept. */
void desk_open(struct desk *d, struct role_context *context, const struct desk_rules *rules);
/* Takes fd, the channel of this process; the one it had before leaves. */
void desk_seat(struct desk *d, enum role role, int index, int fd);
void desk_close(struct desk *d);

void desk_answer(struct visitor *v, enum role_message type, const struct buf *payload, int fd);
/* It broke the table: how, in one line. */
void desk_expel(struct visitor *v, const char *what);
/*
 * It asked for something that no service lists. A worker asks only for what it has allowed by the same policy: many of
 * these are no accident. False: it was shown out for it.
 */
bool desk_bears_unlisted(struct visitor *v);

#endif
