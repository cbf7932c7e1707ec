/* Owns a netlink socket and the one question that is asked on it. */
#include "net/routes.h"

#include <arpa/inet.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>

enum { QUESTION_SIZE = 128, ANSWER_SIZE = 4096, STALE_MAX = 8 };

struct routes {
    struct mnl_socket *socket;
    unsigned sequence;
};

struct routes *routes_open(struct fault *why)
{
    struct mnl_socket *socket = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC | SOCK_NONBLOCK);
    struct routes *r;

    if (!socket) {
        fault_set(why, FAULT_IO, "rtnetlink: %s", strerror(errno));
        return NULL;
    }
    if (!(r = calloc(1, sizeof *r)))
        abort();
    r->socket = socket;
    return r;
}

void routes_close(struct routes *r)
{
    if (!r)
        return;
    mnl_socket_close(r->socket);
    free(r);
}

static bool ask(struct routes *r, const struct addr *a)
{
    union {
        char bytes[QUESTION_SIZE];
        struct nlmsghdr header; /* for its alignment */
    } room = {0};
    struct nlmsghdr *message = mnl_nlmsg_put_header(room.bytes);
    size_t len = a->family == AF_INET ? 4 : 16;
    struct rtmsg *route;

    message->nlmsg_type = RTM_GETROUTE;
    message->nlmsg_flags = NLM_F_REQUEST;
    message->nlmsg_seq = ++r->sequence;
    route = mnl_nlmsg_put_extra_header(message, sizeof *route);
    route->rtm_family = (unsigned char)a->family;
    route->rtm_dst_len = (unsigned char)(8 * len);
    mnl_attr_put(message, RTA_DST, len, a->ip);
    mnl_attr_put_u8(message, RTA_IP_PROTO, IPPROTO_TCP);
    mnl_attr_put_u16(message, RTA_DPORT, htons(a->port));
    return mnl_socket_sendto(r->socket, message, message->nlmsg_len) == (ssize_t)message->nlmsg_len;
}

/* Broadcast and anycast are taken here too. */
static int on_route(const struct nlmsghdr *message, void *arg)
{
    const struct rtmsg *route = mnl_nlmsg_get_payload(message);
    bool *away = arg;

    if (message->nlmsg_type == RTM_NEWROUTE && mnl_nlmsg_get_payload_len(message) >= sizeof *route)
        *away = route->rtm_type == RTN_UNICAST;
    return MNL_CB_STOP;
}

static bool is_no_route(int error)
{
    return error == ENETUNREACH || error == EHOSTUNREACH || error == EACCES;
}

/* The kernel answers before the question's sendto() returns; what stands before that answer is of a question that failed. */
static bool is_told_away(struct routes *r)
{
    union {
        char bytes[ANSWER_SIZE];
        struct nlmsghdr header;
    } room;
    bool away = false;

    for (int i = 0; i < STALE_MAX; i++) {
        ssize_t n = mnl_socket_recvfrom(r->socket, room.bytes, sizeof room.bytes);

        if (n < (ssize_t)sizeof room.header)
            return false;
        if (room.header.nlmsg_seq != r->sequence)
            continue;
        if (mnl_cb_run(room.bytes, (size_t)n, r->sequence, 0, on_route, &away) < 0)
            return is_no_route(errno);
        return away;
    }
    return false;
}

bool routes_end_here(struct routes *r, const struct addr *a)
{
    return !r || (a->family != AF_INET && a->family != AF_INET6) || !ask(r, a) || !is_told_away(r);
}
