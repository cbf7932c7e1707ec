/* Interfaces as the kernel has them, and the routing that TPROXY needs: rtnetlink, by libmnl. */
#ifndef FIREWALL_LINK_H
#define FIREWALL_LINK_H

#include <net/if.h>
#include <stdint.h>

#include "base/fault.h"

struct link_facts {
    bool exists;
    bool is_bridge;
    char bridge[IFNAMSIZ];  /* of which it is a port; "" */
    bool has_xdp;           /* a program sees frames before any rule */
    bool has_early_filter;  /* so does traffic control on ingress, by a qdisc or by a program alone */
    char upper[IFNAMSIZ];   /* an interface that takes frames from it by their hardware address (macvlan, ipvlan); "" */
};

/* What there is of that name; that there is nothing is a fact too. */
bool link_look(const char *name, struct link_facts *out, struct fault *why);
/* A pair of virtual Ethernet interfaces, one of this name. */
bool link_make(const char *name, struct fault *why);

/* What carries mark is looked up in table, and that says: here. Families are AF_INET and AF_INET6. */
struct link_steering {
    int family;
    uint32_t mark, table;
};

/* Both are done when it is there already (or not any more). */
bool link_steer(const struct link_steering *s, struct fault *why);
bool link_unsteer(const struct link_steering *s, struct fault *why);
/* Are rule and route there? */
bool link_is_steered(const struct link_steering *s, bool *rule, bool *route, struct fault *why);

#endif
