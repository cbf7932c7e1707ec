/*
 * What a firewall is to do: whose interface it stands at, who is behind that, which doors of the gateway are open to it. Made of
 * words that people and configurations give, each checked here, so that nothing of them can be more than a name, an address or a
 * port where it is written into a ruleset. Pure.
 */
#ifndef FIREWALL_PLAN_H
#define FIREWALL_PLAN_H

#include <net/if.h>

#include "net/addr.h"

enum { PLAN_NAME_SIZE = 48, PLAN_ADDRESSES_MOST = 16, PLAN_DOORS_MOST = 64, PLAN_PORTS_MOST = 32 };

/* How connections to other addresses come to a transparent listener. */
enum plan_steer { PLAN_STEER_NONE, PLAN_STEER_REDIRECT, PLAN_STEER_TPROXY };

struct plan_addresses {
    struct addr list[PLAN_ADDRESSES_MOST]; /* without ports */
    size_t n;
};

/* A listener's address and port. */
struct plan_door {
    struct addr at;
    bool udp;
    bool takes_all; /* a transparent one: what is steered comes here */
};

struct plan {
    char name[PLAN_NAME_SIZE];   /* "vm1": its tables are exeat_vm1 */
    char interface[IFNAMSIZ];    /* the sandbox's end on this host: a veth, a tap, or a port of bridge */
    char bridge[IFNAMSIZ];       /* "": none */
    bool has_mac;
    unsigned char mac[6];        /* of the sandbox's frames */
    struct plan_addresses sources;  /* the sandbox's */
    struct plan_addresses gateways; /* of this host, that the sandbox knows */
    struct plan_door doors[PLAN_DOORS_MOST];
    size_t n_doors;
    enum plan_steer steer;
    uint16_t ports[PLAN_PORTS_MOST]; /* that are steered, ordered */
    size_t n_ports;
    bool dhcp;
};

/* Each takes one word of the caller's. False and why (FAULT_USAGE) says what is off with it. */
bool plan_set_interface(struct plan *p, const char *interface, struct fault *why);
bool plan_set_bridge(struct plan *p, const char *bridge, struct fault *why);
/* Without one it has the interface's. */
bool plan_set_name(struct plan *p, const char *name, struct fault *why);
bool plan_set_mac(struct plan *p, const char *mac, struct fault *why);
bool plan_add_source(struct plan *p, const char *address, struct fault *why);
bool plan_add_gateway(struct plan *p, const char *address, struct fault *why);
/* "80,443", or "none". */
bool plan_set_ports(struct plan *p, const char *ports, struct fault *why);
bool plan_add_port(struct plan *p, uint16_t port, struct fault *why);

/* An address with its port that something of the gateway listens on; one of loopback is no door, and passed over. */
bool plan_add_door(struct plan *p, const struct plan_door *door, struct fault *why);

/*
 * Is it whole? Doors on all addresses become doors on the gateway's; those on addresses that are not the gateway's go. Without a
 * gateway's address, those of the doors are. Without a transparent door nothing is steered.
 */
bool plan_finish(struct plan *p, struct fault *why);

/* The one transparent door of a family; NULL: none. */
const struct plan_door *plan_steered(const struct plan *p, int family);
bool plan_has_family(const struct plan_addresses *a, int family);

#endif
