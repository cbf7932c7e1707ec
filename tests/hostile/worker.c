/*
 * A worker that was taken over: what takes the worker's place in build/hostile, a program that is otherwise the shipped one.
 * (`worker_ops` is found here before the library's; nothing of this is in build/exeat.) It is spawned, handed its things and
 * closed in as every worker, and then does what a connection to its listener tells it, line by line:
 *
 *     PEER TYPE HEX     send that peer (supervisor, porter, keeper, scribe) a message of this number and payload
 *     PEER TYPE HEX fd  the same with a descriptor
 *     PEER TYPE HEX fds the same with two, as no channel of ours sends it
 *     listener CALL     try to spoil the listening socket for who has it after us: shut, wait, linger
 *
 * What peers say comes back as "PEER TYPE HEX", with " fd" when a descriptor came; "PEER gone" when a channel ended.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/slice.h"
#include "net/loop.h"
#include "proxy/role.h"
#include "proxy/spawn.h"

enum { LINE_MAX_BYTES = 4096 };

static struct peer {
    enum role role;
    struct channel *channel;
    int fd; /* the channel's */
} peers[N_ROLES];

static struct role_context *context;
static int listener = -1, commander = -1;
static struct watch *listening, *obeying;
static char line[LINE_MAX_BYTES];
static size_t line_len;

static void tell(const struct buf *b)
{
    if (commander >= 0 && send(commander, buf_slice(b).ptr, buf_len(b), MSG_NOSIGNAL) < 0)
        return;
}

/* ---- peers ---- */

static void on_message(void *arg, uint16_t type, struct slice payload, int fd)
{
    const struct peer *p = arg;
    struct buf b = {0};

    buf_printf(&b, "%s %u ", role_name(p->role), type);
    for (size_t i = 0; i < payload.len; i++)
        buf_printf(&b, "%02x", (unsigned char)payload.ptr[i]);
    buf_text(&b, payload.len ? "" : "-");
    buf_text(&b, fd >= 0 ? " fd\n" : "\n");
    tell(&b);
    buf_free(&b);
    if (fd >= 0)
        close(fd);
}

static void on_end(void *arg)
{
    struct peer *p = arg;
    struct buf b = {0};

    buf_printf(&b, "%s gone\n", role_name(p->role));
    tell(&b);
    buf_free(&b);
    channel_free(p->channel);
    p->channel = NULL;
}

static const struct channel_handler handler = {on_message, on_end};

static void on_peer(struct role_context *c, enum role role, int index, int fd)
{
    struct peer *p = &peers[role];

    (void)index;
    channel_free(p->channel);
    p->role = role;
    p->fd = fd;
    p->channel = channel_new(c->loop, fd, &handler, p);
}

/* ---- orders ---- */

static struct channel *channel_of(struct slice name)
{
    if (slice_is(name, role_name(ROLE_SUPERVISOR)))
        return context->control;
    for (int r = 0; r < N_ROLES; r++)
        if (peers[r].channel && slice_is(name, role_name((enum role)r)))
            return peers[r].channel;
    return NULL;
}

static bool unhex(struct slice text, struct buf *out)
{
    for (size_t i = 0; i + 1 < text.len; i += 2) {
        char two[3] = {text.ptr[i], text.ptr[i + 1], '\0'}, *end;
        char byte = (char)strtol(two, &end, 16);

        if (*end)
            return false;
        buf_append(out, slice_make(&byte, 1));
    }
    return true;
}

static int descriptor_of(struct slice name)
{
    for (int r = 0; r < N_ROLES; r++)
        if (peers[r].channel && slice_is(name, role_name((enum role)r)))
            return peers[r].fd;
    return ROLE_CONTROL_FD;
}

static bool send_two(int to, uint16_t type, struct slice payload)
{
    char space[CMSG_SPACE(2 * sizeof(int))] = {0}, number[] = {(char)(type & 0xff), (char)(type >> 8)};
    struct iovec parts[] = {{number, sizeof number}, {(void *)payload.ptr, payload.len}};
    struct msghdr m = {.msg_iov = parts, .msg_iovlen = 2, .msg_control = space, .msg_controllen = sizeof space};
    struct cmsghdr *h = CMSG_FIRSTHDR(&m);

    *h = (struct cmsghdr){CMSG_LEN(2 * sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
    memset(CMSG_DATA(h), 0, 2 * sizeof(int)); /* standard input, twice */
    return sendmsg(to, &m, MSG_NOSIGNAL) > 0;
}

static bool spoil(struct slice how)
{
    struct linger reset = {.l_onoff = 1};

    if (slice_is(how, "shut"))
        return shutdown(listener, SHUT_RDWR) == 0;
    if (slice_is(how, "wait"))
        return fcntl(listener, F_SETFL, 0) == 0;
    return setsockopt(listener, SOL_SOCKET, SO_LINGER, &reset, sizeof reset) == 0;
}

static bool say(struct slice peer, uint16_t type, struct slice payload, struct slice with)
{
    struct channel *to = channel_of(peer);

    if (slice_is(with, "fds"))
        return to && send_two(descriptor_of(peer), type, payload);
    return to && channel_send(to, type, payload, slice_is(with, "fd") ? 0 : -1);
}

static void obey(struct slice order)
{
    struct slice peer, type, hex;
    struct buf payload = {0}, b = {0};
    uint64_t number;

    if (slice_starts(order, SLICE("listener ")))
        buf_text(&b, spoil(slice_from(order, 9)) ? "spoilt\n" : "not spoilt\n");
    else if (slice_next(&order, ' ', &peer) && slice_next(&order, ' ', &type) && slice_next(&order, ' ', &hex) &&
        slice_decimal(type, UINT16_MAX, &number) && unhex(hex, &payload) &&
        say(peer, (uint16_t)number, buf_slice(&payload), order))
        buf_text(&b, "sent\n");
    else
        buf_text(&b, "not sent\n");
    tell(&b);
    buf_free(&payload);
    buf_free(&b);
}

static void on_orders(void *arg, unsigned ready)
{
    ssize_t got = recv(commander, line + line_len, sizeof line - line_len, MSG_DONTWAIT);
    char *end;

    (void)arg, (void)ready;
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) {
        watch_free(obeying);
        obeying = NULL;
        close(commander);
        commander = -1;
        watch_want(listening, WATCH_READ);
        return;
    }
    line_len += (size_t)got;
    while ((end = memchr(line, '\n', line_len))) {
        size_t n = (size_t)(end - line);

        obey(slice_make(line, n));
        line_len -= n + 1;
        memmove(line, end + 1, line_len);
    }
}

static void on_listener(void *arg, unsigned ready)
{
    (void)arg, (void)ready;
    commander = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (commander < 0)
        return;
    line_len = 0;
    watch_want(listening, 0);
    obeying = watch_new(context->loop, commander, WATCH_READ, on_orders, NULL);
}

/* ---- the role ---- */

static void on_resource(struct role_context *c, enum role_message type, struct slice name, bool flag, int fd)
{
    (void)c, (void)name, (void)flag;
    if (type == MSG_LISTENER && listener < 0)
        listener = fd;
    else
        close(fd);
}

static bool start(struct role_context *c, struct fault *why)
{
    (void)why;
    context = c;
    listening = watch_new(c->loop, listener, WATCH_READ, on_listener, NULL);
    return true;
}

static void on_control(struct role_context *c, enum role_message type, struct slice payload)
{
    struct peer supervisor = {.role = ROLE_SUPERVISOR};

    (void)c;
    on_message(&supervisor, (uint16_t)type, payload, -1);
}

static void stop(struct role_context *c)
{
    loop_stop(c->loop);
}

const struct role_ops worker_ops = {
    .start = start,
    .on_peer = on_peer,
    .on_resource = on_resource,
    .on_control = on_control,
    .stop = stop,
};
