/*
 * A channel between two roles: a SOCK_SEQPACKET pair, one message a packet, at most one descriptor with it.
 * A message is a u16 type and a payload (base/pack.h). Messages that do not fit the socket wait in order.
 */
#ifndef NET_IPC_H
#define NET_IPC_H

#include "base/fault.h"
#include "base/slice.h"
#include "net/loop.h"

#define IPC_MAX (64 * 1024) /* bytes of a payload */

struct channel;

struct channel_handler {
    /* fd is -1 or given to the receiver. payload is borrowed. May call channel_free. */
    void (*on_message)(void *arg, uint16_t type, struct slice payload, int fd);
    /* The other side is gone; called once, nothing follows. May call channel_free. */
    void (*on_end)(void *arg);
};

/* Takes fd. handler and arg are kept. */
struct channel *channel_new(struct loop *l, int fd, const struct channel_handler *handler, void *arg);
void channel_free(struct channel *c);
/* fd (-1: none) is borrowed and duplicated as needed. False when the other side is gone or 16 MiB wait. */
bool channel_send(struct channel *c, uint16_t type, struct slice payload, int fd);
/* Bytes that wait to be sent, and messages. */
size_t channel_pending(const struct channel *c);
size_t channel_waiting(const struct channel *c);
bool channel_pair(int fds[2], struct fault *why);

#endif
