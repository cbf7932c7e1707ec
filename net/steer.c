/* Asks the kernel where a connection was going. Knows no listener's name and no policy. */
#include "net/steer.h"

#include <errno.h>
#include <linux/netfilter_ipv4.h>
#include <linux/netfilter_ipv6/ip6_tables.h>
#include <netinet/in.h>
#include <sys/socket.h>

static bool own_address(int fd, struct addr *out)
{
    struct sockaddr_storage sa = {0};
    socklen_t len = sizeof sa;

    if (getsockname(fd, (struct sockaddr *)&sa, &len) < 0 || (sa.ss_family != AF_INET && sa.ss_family != AF_INET6))
        return false;
    addr_from_sockaddr(out, (struct sockaddr *)&sa);
    return true;
}

static bool ask_netfilter(int fd, int family, struct sockaddr_storage *sa)
{
    socklen_t len = sizeof *sa;

    if (family == AF_INET6)
        return getsockopt(fd, IPPROTO_IPV6, IP6T_SO_ORIGINAL_DST, sa, &len) == 0;
    return getsockopt(fd, IPPROTO_IP, SO_ORIGINAL_DST, sa, &len) == 0;
}

static bool original_address(int fd, int family, struct addr *out)
{
    struct sockaddr_storage sa = {0};

    if (!ask_netfilter(fd, family, &sa) || sa.ss_family != family)
        return false;
    addr_from_sockaddr(out, (struct sockaddr *)&sa);
    return true;
}

/* A listener of all addresses has them all as its own: what has another port cannot be one of them. */
static bool is_its_own(const struct addr *a, const struct addr *listener)
{
    return a->port == listener->port && (addr_is_unspecified(listener) || addr_ip_equals(a, listener));
}

bool steer_find(int fd, const struct addr *listener, enum steer_way *way, struct addr *meant)
{
    struct addr here, before;

    if (!own_address(fd, &here))
        return false;
    *meant = here;
    *way = is_its_own(&here, listener) ? STEER_DIRECT : STEER_TPROXY;
    if (*way == STEER_DIRECT && original_address(fd, here.family, &before) && !addr_equals(&before, &here)) {
        *meant = before;
        *way = STEER_REDIRECT;
    }
    return true;
}

const char *steer_way_name(enum steer_way w)
{
    static const char *const names[] = {"direct", "redirect", "tproxy"};

    return names[w];
}

bool steer_take_tproxy(int fd)
{
    int one = 1, is_set = 0, level, option;
    socklen_t len = sizeof is_set;
    struct addr a;

    if (!own_address(fd, &a))
        return false;
    level = a.family == AF_INET6 ? IPPROTO_IPV6 : IPPROTO_IP;
    option = a.family == AF_INET6 ? IPV6_TRANSPARENT : IP_TRANSPARENT;
    if (getsockopt(fd, level, option, &is_set, &len) == 0 && is_set)
        return true;
    return setsockopt(fd, level, option, &one, sizeof one) == 0;
}

bool steer_knows_redirect(int fd)
{
    struct sockaddr_storage sa;
    struct addr a;

    return own_address(fd, &a) && (ask_netfilter(fd, a.family, &sa) || errno != ENOPROTOOPT);
}
