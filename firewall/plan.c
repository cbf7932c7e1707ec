#include "firewall/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"

/* The kernel takes nearly any byte in an interface's name; a ruleset does not, where "*" is any and a quote ends it. */
static bool set_link(char out[IFNAMSIZ], const char *name, const char *option, struct fault *why)
{
    size_t n = strspn(name, LETTERS);

    if (n == 0 || name[n] || n >= IFNAMSIZ || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return fault_set(why, FAULT_USAGE, "--%s: an interface's name has 1 to %d letters, digits, dots, dashes and underscores",
                         option, IFNAMSIZ - 1);
    if (strcmp(name, "lo") == 0)
        return fault_set(why, FAULT_USAGE, "--%s: lo is this host's own, no sandbox is behind it", option);
    memcpy(out, name, n + 1);
    return true;
}

bool plan_set_interface(struct plan *p, const char *interface, struct fault *why)
{
    return set_link(p->interface, interface, "interface", why);
}

bool plan_set_bridge(struct plan *p, const char *bridge, struct fault *why)
{
    return set_link(p->bridge, bridge, "bridge", why);
}

bool plan_set_name(struct plan *p, const char *name, struct fault *why)
{
    size_t n = strspn(name, LETTERS);

    if (n == 0 || name[n] || n >= sizeof p->name)
        return fault_set(why, FAULT_USAGE, "--name: a firewall's name has 1 to %zu letters, digits, dots, dashes and underscores",
                         sizeof p->name - 1);
    memcpy(p->name, name, n + 1);
    return true;
}

/* Six times two digits with colons between. */
static bool read_mac(const char *text, unsigned char mac[6])
{
    struct slice left = slice_of(text), part;
    size_t n = 0;

    while (slice_next(&left, ':', &part)) {
        char digits[3] = "", *end;

        if (n == 6 || part.len != 2)
            return false;
        memcpy(digits, part.ptr, 2);
        if (strspn(digits, "0123456789abcdefABCDEF") != 2)
            return false;
        mac[n++] = (unsigned char)strtoul(digits, &end, 16);
    }
    return n == 6;
}

bool plan_set_mac(struct plan *p, const char *mac, struct fault *why)
{
    if (!read_mac(mac, p->mac) || (p->mac[0] & 1))
        return fault_set(why, FAULT_USAGE, "--mac: expected the sandbox's own hardware address, such as 02:00:00:00:00:02");
    p->has_mac = true;
    return true;
}

/* ---- addresses ---- */

static bool holds(const struct plan_addresses *a, const struct addr *ip)
{
    for (size_t i = 0; i < a->n; i++)
        if (addr_ip_equals(&a->list[i], ip))
            return true;
    return false;
}

bool plan_has_family(const struct plan_addresses *a, int family)
{
    for (size_t i = 0; i < a->n; i++)
        if (a->list[i].family == family)
            return true;
    return false;
}

static bool is_multicast(const struct addr *a)
{
    return a->family == AF_INET ? a->ip[0] >= 224 : a->ip[0] == 0xff;
}

static bool add(struct plan_addresses *a, struct addr ip, struct fault *why)
{
    ip.port = 0;
    if (holds(a, &ip))
        return true;
    if (a->n == PLAN_ADDRESSES_MOST)
        return fault_set(why, FAULT_USAGE, "more than %d addresses", PLAN_ADDRESSES_MOST);
    a->list[a->n++] = ip;
    return true;
}

static bool add_text(struct plan_addresses *a, const char *text, const char *option, struct fault *why)
{
    struct addr ip;
    struct fault inner = {0};

    if (!addr_parse_ip(slice_of(text), &ip))
        return fault_set(why, FAULT_USAGE, "--%s: expected an IP address such as 10.0.0.2 or fd00::2, found \"%.60s\"", option, text);
    if (addr_is_unspecified(&ip) || is_multicast(&ip) || addr_classify(&ip) == ADDR_LOOPBACK)
        return fault_set(why, FAULT_USAGE, "--%s: %.60s is no address of one machine on a network", option, text);
    return add(a, ip, &inner) || fault_set(why, FAULT_USAGE, "--%s: %s", option, inner.text);
}

bool plan_add_source(struct plan *p, const char *address, struct fault *why)
{
    return add_text(&p->sources, address, "source", why);
}

bool plan_add_gateway(struct plan *p, const char *address, struct fault *why)
{
    return add_text(&p->gateways, address, "gateway", why);
}

/* ---- ports ---- */

static bool steers(const struct plan *p, uint16_t port)
{
    for (size_t i = 0; i < p->n_ports; i++)
        if (p->ports[i] == port)
            return true;
    return false;
}

bool plan_add_port(struct plan *p, uint16_t port, struct fault *why)
{
    size_t i;

    if (steers(p, port))
        return true;
    if (p->n_ports == PLAN_PORTS_MOST)
        return fault_set(why, FAULT_USAGE, "more than %d ports to steer; name those that count: --redirect 80,443", PLAN_PORTS_MOST);
    for (i = p->n_ports++; i > 0 && p->ports[i - 1] > port; i--)
        p->ports[i] = p->ports[i - 1];
    p->ports[i] = port;
    return true;
}

bool plan_set_ports(struct plan *p, const char *ports, struct fault *why)
{
    struct slice left = slice_of(ports), part;
    uint64_t port;

    p->n_ports = 0;
    if (strcmp(ports, "none") == 0)
        return true;
    while (slice_next(&left, ',', &part)) {
        if (!slice_decimal(part, 65535, &port) || port == 0)
            return fault_set(why, FAULT_USAGE, "--redirect: expected ports such as 80,443, or none; found \"%.60s\"", ports);
        if (!plan_add_port(p, (uint16_t)port, why))
            return false;
    }
    return true;
}

/* ---- doors ---- */

bool plan_add_door(struct plan *p, const struct plan_door *door, struct fault *why)
{
    if (addr_classify(&door->at) == ADDR_LOOPBACK)
        return true;
    if (p->n_doors == PLAN_DOORS_MOST)
        return fault_set(why, FAULT_USAGE, "more than %d listeners; name those of this sandbox: --listener NAME", PLAN_DOORS_MOST);
    p->doors[p->n_doors++] = *door;
    return true;
}

const struct plan_door *plan_steered(const struct plan *p, int family)
{
    for (size_t i = 0; i < p->n_doors; i++)
        if (p->doors[i].takes_all && p->doors[i].at.family == family)
            return &p->doors[i];
    return NULL;
}

/* A listener on [::] is there for IPv4 too only where it is not a socket of one family: ours are of one. */
static bool spread(struct plan *p, const struct plan_door *door, struct fault *why)
{
    for (size_t i = 0; i < p->gateways.n; i++) {
        struct plan_door one = *door;

        if (p->gateways.list[i].family != door->at.family)
            continue;
        one.at = p->gateways.list[i];
        one.at.port = door->at.port;
        if (!plan_add_door(p, &one, why))
            return false;
    }
    return true;
}

static int compare_doors(const void *a, const void *b)
{
    const struct plan_door *x = a, *y = b;
    int by_ip = memcmp(x->at.ip, y->at.ip, sizeof x->at.ip);

    if (x->at.family != y->at.family)
        return x->at.family == AF_INET ? -1 : 1;
    if (x->udp != y->udp)
        return x->udp ? 1 : -1;
    return by_ip ? by_ip : (int)x->at.port - (int)y->at.port;
}

/* Each door once, on one of the gateway's addresses and in a family of the sandbox's. */
static bool settle_doors(struct plan *p, struct fault *why)
{
    struct plan_door before[PLAN_DOORS_MOST];
    size_t n = p->n_doors, kept = 0;

    memcpy(before, p->doors, sizeof before);
    p->n_doors = 0;
    for (size_t i = 0; i < n; i++) {
        if (!plan_has_family(&p->sources, before[i].at.family))
            continue;
        if (addr_is_unspecified(&before[i].at) ? !spread(p, &before[i], why)
                                                : holds(&p->gateways, &before[i].at) && !plan_add_door(p, &before[i], why))
            return false;
    }
    qsort(p->doors, p->n_doors, sizeof *p->doors, compare_doors);
    for (size_t i = 0; i < p->n_doors; i++)
        if (kept == 0 || compare_doors(&p->doors[kept - 1], &p->doors[i]) != 0)
            p->doors[kept++] = p->doors[i];
    p->n_doors = kept;
    return true;
}

/* Where nobody says what the gateway's addresses are, the listeners do. */
static bool settle_gateways(struct plan *p, struct fault *why)
{
    bool everywhere = false;

    if (p->gateways.n > 0)
        return true;
    for (size_t i = 0; i < p->n_doors; i++) {
        if (addr_is_unspecified(&p->doors[i].at))
            everywhere = true;
        else if (!add(&p->gateways, p->doors[i].at, why))
            return false;
    }
    return !everywhere || p->gateways.n > 0 ||
           fault_set(why, FAULT_USAGE, "the listeners are on all addresses: say which of this host the sandbox knows, --gateway "
                     "ADDRESS");
}

static bool settle_steering(struct plan *p, struct fault *why)
{
    static const int families[] = {AF_INET, AF_INET6};
    const struct plan_door *one;

    for (size_t f = 0; f < 2; f++)
        for (size_t i = 0; i < p->n_doors; i++)
            if ((one = plan_steered(p, families[f])) && p->doors[i].takes_all && p->doors[i].at.family == families[f] &&
                one != &p->doors[i])
                return fault_set(why, FAULT_USAGE, "two transparent listeners for one sandbox; say which: --listener NAME");
    if (p->n_ports == 0 || (!plan_steered(p, AF_INET) && !plan_steered(p, AF_INET6))) {
        p->steer = PLAN_STEER_NONE;
        p->n_ports = 0;
    }
    return true;
}

/* A neighbour is told apart from another by its hardware address alone. */
static bool check_words(const struct plan *p, struct fault *why)
{
    if (p->sources.n == 0)
        return fault_set(why, FAULT_USAGE, "whose frames may come in: --source ADDRESS of the sandbox, for IPv4 and for IPv6");
    for (size_t i = 0; i < p->sources.n; i++)
        if (holds(&p->gateways, &p->sources.list[i]))
            return fault_set(why, FAULT_USAGE, "an address is the sandbox's (--source) or the gateway's (--gateway), not both");
    if (p->bridge[0] && !p->has_mac)
        return fault_set(why, FAULT_USAGE, "a bridge tells its ports' frames apart by hardware address: say the sandbox's, --mac");
    return !p->bridge[0] || strcmp(p->bridge, p->interface) != 0 ||
           fault_set(why, FAULT_USAGE, "--interface is the sandbox's port of the bridge, not the bridge itself");
}

bool plan_finish(struct plan *p, struct fault *why)
{
    if (!p->name[0])
        memcpy(p->name, p->interface, sizeof p->interface);
    if (!settle_gateways(p, why) || !check_words(p, why) || !settle_doors(p, why) || !settle_steering(p, why))
        return false;
    return p->n_doors > 0 ||
           fault_set(why, FAULT_USAGE, "no listener is left for this sandbox: they are on other addresses than the gateway's, of "
                     "another family than the sandbox's, or bound to a sandbox (--sandbox NAME); exeat listener list shows them, "
                     "exeat listener add opens one");
}
