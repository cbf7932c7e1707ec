#include "firewall/link.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/bpf.h>
#include <linux/fib_rules.h>
#include <linux/if_link.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MESSAGE_SIZE = 1024 };

/* ---- asking ---- */

struct ask {
    union {
        char bytes[MESSAGE_SIZE];
        struct nlmsghdr header; /* for its alignment */
    } buffer;
    struct nlmsghdr *message;
};

static void *begin(struct ask *a, uint16_t type, uint16_t flags, size_t header_size)
{
    memset(&a->buffer, 0, sizeof a->buffer);
    a->message = mnl_nlmsg_put_header(a->buffer.bytes);
    a->message->nlmsg_type = type;
    a->message->nlmsg_flags = NLM_F_REQUEST | flags;
    a->message->nlmsg_seq = 1;
    return mnl_nlmsg_put_extra_header(a->message, header_size);
}

static int receive(struct mnl_socket *socket, mnl_cb_t each, void *arg)
{
    size_t size = MNL_SOCKET_BUFFER_SIZE;
    char *buffer = malloc(size);
    int more = 1;

    if (!buffer)
        abort();
    while (more > 0) {
        ssize_t n = mnl_socket_recvfrom(socket, buffer, size);

        more = n > 0 ? mnl_cb_run(buffer, (size_t)n, 1, mnl_socket_get_portid(socket), each, arg) : -1;
    }
    free(buffer);
    return more;
}

/* Send it and hand each answer to each. False and errno as the kernel says. */
static bool call(struct ask *a, mnl_cb_t each, void *arg)
{
    struct mnl_socket *socket = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);
    int saved;
    bool ok;

    if (!socket)
        return false;
    ok = mnl_socket_bind(socket, 0, MNL_SOCKET_AUTOPID) == 0 && mnl_socket_sendto(socket, a->message, a->message->nlmsg_len) > 0 &&
         receive(socket, each, arg) >= 0;
    saved = errno;
    mnl_socket_close(socket);
    errno = saved;
    return ok;
}

static bool fail(struct fault *why, const char *what)
{
    if (errno == EPERM)
        return fault_set(why, FAULT_PERMISSION, "%s: %s; run it as root (CAP_NET_ADMIN)", what, strerror(errno));
    return fault_set(why, FAULT_IO, "%s: %s", what, strerror(errno));
}

/* ---- interfaces ---- */

struct seen {
    struct link_facts *facts;
    int index, master;
};

static int on_info(const struct nlattr *attribute, void *arg)
{
    struct seen *s = arg;

    if (mnl_attr_get_type(attribute) == IFLA_INFO_KIND && mnl_attr_validate(attribute, MNL_TYPE_NUL_STRING) >= 0)
        s->facts->is_bridge = strcmp(mnl_attr_get_str(attribute), "bridge") == 0;
    return MNL_CB_OK;
}

static int on_xdp(const struct nlattr *attribute, void *arg)
{
    struct seen *s = arg;

    if (mnl_attr_get_type(attribute) == IFLA_XDP_ATTACHED && mnl_attr_validate(attribute, MNL_TYPE_U8) >= 0)
        s->facts->has_xdp = mnl_attr_get_u8(attribute) != XDP_ATTACHED_NONE;
    return MNL_CB_OK;
}

static int on_attribute(const struct nlattr *attribute, void *arg)
{
    struct seen *s = arg;

    switch (mnl_attr_get_type(attribute)) {
    case IFLA_MASTER:
        s->master = (int)mnl_attr_get_u32(attribute);
        break;
    case IFLA_LINKINFO:
        return mnl_attr_parse_nested(attribute, on_info, s);
    case IFLA_XDP:
        return mnl_attr_parse_nested(attribute, on_xdp, s);
    default:
        break;
    }
    return MNL_CB_OK;
}

static int on_link(const struct nlmsghdr *message, void *arg)
{
    const struct ifinfomsg *info = mnl_nlmsg_get_payload(message);
    struct seen *s = arg;

    s->facts->exists = true;
    s->index = info->ifi_index;
    return mnl_attr_parse(message, sizeof *info, on_attribute, s);
}

static int on_qdisc(const struct nlmsghdr *message, void *arg)
{
    const struct tcmsg *tc = mnl_nlmsg_get_payload(message);
    struct seen *s = arg;

    if (tc->tcm_ifindex == s->index && tc->tcm_parent == TC_H_INGRESS)
        s->facts->has_early_filter = true;
    return MNL_CB_OK;
}

/* Programs that are attached without a qdisc (tcx, Linux 6.6). An older kernel knows no such place. */
static bool has_programs(int index)
{
    enum { TCX_INGRESS = 46 };
    union bpf_attr query = {0};

    query.query.target_fd = (uint32_t)index;
    query.query.attach_type = TCX_INGRESS;
    return syscall(SYS_bpf, BPF_PROG_QUERY, &query, sizeof query) == 0 && query.query.prog_cnt > 0;
}

/* Kinds that have a hardware or network address of their own on a lower interface, and so take frames from it. */
static bool takes_frames(const char *kind)
{
    return strcmp(kind, "macvlan") == 0 || strcmp(kind, "macvtap") == 0 || strcmp(kind, "ipvlan") == 0 || strcmp(kind, "ipvtap") == 0;
}

struct one_link {
    uint32_t lower;
    char kind[IFNAMSIZ];
    bool is_elsewhere; /* the lower one is in another namespace */
};

static int on_one_kind(const struct nlattr *attribute, void *arg)
{
    struct one_link *l = arg;

    if (mnl_attr_get_type(attribute) == IFLA_INFO_KIND && mnl_attr_validate(attribute, MNL_TYPE_NUL_STRING) >= 0)
        snprintf(l->kind, sizeof l->kind, "%s", mnl_attr_get_str(attribute));
    return MNL_CB_OK;
}

static int on_one_attribute(const struct nlattr *attribute, void *arg)
{
    struct one_link *l = arg;

    switch (mnl_attr_get_type(attribute)) {
    case IFLA_LINK:
        l->lower = mnl_attr_get_u32(attribute);
        break;
    case IFLA_LINK_NETNSID:
        l->is_elsewhere = true;
        break;
    case IFLA_LINKINFO:
        return mnl_attr_parse_nested(attribute, on_one_kind, l);
    default:
        break;
    }
    return MNL_CB_OK;
}

static int on_each_link(const struct nlmsghdr *message, void *arg)
{
    const struct ifinfomsg *info = mnl_nlmsg_get_payload(message);
    struct seen *s = arg;
    struct one_link l = {0};

    mnl_attr_parse(message, sizeof *info, on_one_attribute, &l);
    if (l.lower == (uint32_t)s->index && !l.is_elsewhere && takes_frames(l.kind))
        if_indextoname((unsigned)info->ifi_index, s->facts->upper);
    return MNL_CB_OK;
}

bool link_look(const char *name, struct link_facts *out, struct fault *why)
{
    struct seen s = {.facts = out};
    struct ask a;

    *out = (struct link_facts){0};
    begin(&a, RTM_GETLINK, NLM_F_ACK, sizeof(struct ifinfomsg));
    mnl_attr_put_strz(a.message, IFLA_IFNAME, name);
    if (!call(&a, on_link, &s))
        return errno == ENODEV || fail(why, name);
    if (s.master)
        if_indextoname((unsigned)s.master, out->bridge);
    out->has_early_filter = has_programs(s.index);
    begin(&a, RTM_GETLINK, NLM_F_DUMP, sizeof(struct ifinfomsg));
    if (!call(&a, on_each_link, &s))
        return fail(why, "interfaces");
    begin(&a, RTM_GETQDISC, NLM_F_DUMP, sizeof(struct tcmsg));
    return call(&a, on_qdisc, &s) || fail(why, "traffic control");
}

bool link_make(const char *name, struct fault *why)
{
    struct nlattr *info, *data;
    struct ask a;

    begin(&a, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK, sizeof(struct ifinfomsg));
    mnl_attr_put_strz(a.message, IFLA_IFNAME, name);
    info = mnl_attr_nest_start(a.message, IFLA_LINKINFO);
    mnl_attr_put_strz(a.message, IFLA_INFO_KIND, "veth");
    data = mnl_attr_nest_start(a.message, IFLA_INFO_DATA);
    mnl_attr_nest_end(a.message, data);
    mnl_attr_nest_end(a.message, info);
    return call(&a, NULL, NULL) || fail(why, "an interface to try the rules on");
}

/* ---- the routing of what is steered ---- */

static struct fib_rule_hdr *begin_rule(struct ask *a, const struct link_steering *s, uint16_t type, uint16_t flags)
{
    struct fib_rule_hdr *rule = begin(a, type, flags, sizeof *rule);

    rule->family = (uint8_t)s->family;
    rule->action = FR_ACT_TO_TBL;
    if (type != RTM_GETRULE) {
        mnl_attr_put_u32(a->message, FRA_FWMARK, s->mark);
        mnl_attr_put_u32(a->message, FRA_TABLE, s->table);
    }
    return rule;
}

static void begin_route(struct ask *a, const struct link_steering *s, uint16_t type, uint16_t flags)
{
    struct rtmsg *route = begin(a, type, flags, sizeof *route);

    route->rtm_family = (uint8_t)s->family;
    /* Whoever made it may have said less of it: what is to go is found by the rest. */
    route->rtm_protocol = type == RTM_DELROUTE ? RTPROT_UNSPEC : RTPROT_STATIC;
    route->rtm_scope = type == RTM_DELROUTE ? RT_SCOPE_NOWHERE : RT_SCOPE_HOST;
    route->rtm_type = RTN_LOCAL;
    mnl_attr_put_u32(a->message, RTA_TABLE, s->table);
    mnl_attr_put_u32(a->message, RTA_OIF, if_nametoindex("lo"));
}

struct sought {
    const struct link_steering *s;
    bool rule, route;
};

/* What a routing rule asks for; is_narrow: more than a mark. */
struct rule_facts {
    uint32_t mark, mask, table;
    bool is_narrow;
};

static int on_rule_attribute(const struct nlattr *attribute, void *arg)
{
    struct rule_facts *r = arg;

    switch (mnl_attr_get_type(attribute)) {
    case FRA_FWMARK:
        r->mark = mnl_attr_get_u32(attribute);
        break;
    case FRA_FWMASK:
        r->mask = mnl_attr_get_u32(attribute);
        break;
    case FRA_TABLE:
        r->table = mnl_attr_get_u32(attribute);
        break;
    case FRA_PRIORITY:
    case FRA_PROTOCOL:
    case FRA_SUPPRESS_PREFIXLEN:
    case FRA_SUPPRESS_IFGROUP:
    case FRA_PAD:
        break;
    default: /* an interface, a protocol, a port, a user */
        r->is_narrow = true;
    }
    return MNL_CB_OK;
}

static int on_rule(const struct nlmsghdr *message, void *arg)
{
    const struct fib_rule_hdr *rule = mnl_nlmsg_get_payload(message);
    struct sought *sought = arg;
    struct rule_facts r = {.mask = UINT32_MAX, .table = rule->table};

    mnl_attr_parse(message, sizeof *rule, on_rule_attribute, &r);
    r.is_narrow |= rule->src_len || rule->dst_len || rule->tos || (rule->flags & FIB_RULE_INVERT);
    if (rule->family == sought->s->family && rule->action == FR_ACT_TO_TBL && r.mark == sought->s->mark && r.mask == UINT32_MAX &&
        r.table == sought->s->table && !r.is_narrow)
        sought->rule = true;
    return MNL_CB_OK;
}

static int on_route_attribute(const struct nlattr *attribute, void *arg)
{
    uint32_t *table = arg;

    if (mnl_attr_get_type(attribute) == RTA_TABLE)
        *table = mnl_attr_get_u32(attribute);
    return MNL_CB_OK;
}

static int on_route(const struct nlmsghdr *message, void *arg)
{
    const struct rtmsg *route = mnl_nlmsg_get_payload(message);
    struct sought *sought = arg;
    uint32_t table = route->rtm_table;

    mnl_attr_parse(message, sizeof *route, on_route_attribute, &table);
    if (route->rtm_family == sought->s->family && table == sought->s->table && route->rtm_type == RTN_LOCAL &&
        route->rtm_dst_len == 0)
        sought->route = true;
    return MNL_CB_OK;
}

bool link_is_steered(const struct link_steering *s, bool *rule, bool *route, struct fault *why)
{
    struct sought sought = {.s = s};
    struct rtmsg *asked;
    struct ask a;

    begin_rule(&a, s, RTM_GETRULE, NLM_F_DUMP);
    if (!call(&a, on_rule, &sought))
        return fail(why, "routing rules");
    asked = begin(&a, RTM_GETROUTE, NLM_F_DUMP, sizeof *asked);
    asked->rtm_family = (uint8_t)s->family;
    if (!call(&a, on_route, &sought))
        return fail(why, "routes");
    *rule = sought.rule;
    *route = sought.route;
    return true;
}

bool link_steer(const struct link_steering *s, struct fault *why)
{
    bool rule, route;
    struct ask a;

    if (!link_is_steered(s, &rule, &route, why))
        return false;
    begin_rule(&a, s, RTM_NEWRULE, NLM_F_CREATE | NLM_F_ACK);
    if (!rule && !call(&a, NULL, NULL))
        return fail(why, "a routing rule for what is steered");
    begin_route(&a, s, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_ACK);
    return route || call(&a, NULL, NULL) || fail(why, "a route for what is steered");
}

bool link_unsteer(const struct link_steering *s, struct fault *why)
{
    bool rule, route;
    struct ask a;

    if (!link_is_steered(s, &rule, &route, why))
        return false;
    begin_rule(&a, s, RTM_DELRULE, NLM_F_ACK);
    if (rule && !call(&a, NULL, NULL))
        return fail(why, "the routing rule for what was steered");
    begin_route(&a, s, RTM_DELROUTE, NLM_F_ACK);
    return !route || call(&a, NULL, NULL) || fail(why, "the route for what was steered");
}
