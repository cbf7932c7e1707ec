#include "firewall/ruleset.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/text.h"

const char *const ruleset_families[] = {"netdev", "inet", "bridge", NULL};

/* Never steered: this network, loopback, link-local with most clouds' metadata, the metadata of others, multicast and broadcast. */
#define NEVER4 "{ 0.0.0.0/8, 100.100.100.200, 127.0.0.0/8, 168.63.129.16, 169.254.0.0/16, 192.0.0.192, 224.0.0.0/3 }"
#define NEVER6 "{ ::/96, ::ffff:0:0/96, fd00:42::/32, fd00:c1::/32, fd00:ec2::/32, fd20:ce::/32, fe80::/10, ff00::/8 }"

struct writer {
    const struct plan *p;
    struct buf *out;
};

/* ---- words ---- */

void ruleset_table(const char *name, struct buf *out)
{
    buf_printf(out, "exeat_%s", name);
}

static const char *proto(int family)
{
    return family == AF_INET ? "ip" : "ip6";
}

static void put_hex128(struct buf *out, const struct addr *a)
{
    buf_text(out, "0x");
    text_hex(out, slice_make(a->ip, 16));
}

static void put_addresses(struct buf *out, const struct plan_addresses *a, int family,
                          void (*put)(struct buf *out, const struct addr *a))
{
    const char *before = "{ ";

    for (size_t i = 0; i < a->n; i++) {
        if (a->list[i].family != family)
            continue;
        buf_text(out, before);
        put(out, &a->list[i]);
        before = ", ";
    }
    buf_text(out, " } ");
}

static void put_mac(struct buf *out, const unsigned char mac[6])
{
    for (int i = 0; i < 6; i++)
        buf_printf(out, "%s%02x", i ? ":" : "", mac[i]);
    buf_char(out, ' ');
}

static void put_ports(struct writer *w)
{
    buf_text(w->out, "tcp dport { ");
    for (size_t i = 0; i < w->p->n_ports; i++)
        buf_printf(w->out, "%s%u", i ? ", " : "", (unsigned)w->p->ports[i]);
    buf_text(w->out, " } ");
}

static bool has_doors(const struct plan *p, int family, bool udp)
{
    for (size_t i = 0; i < p->n_doors; i++)
        if (p->doors[i].at.family == family && p->doors[i].udp == udp)
            return true;
    return false;
}

/* "10.0.0.1 . 3128, 10.0.0.1 . 3129" */
static void put_places(struct writer *w, int family, bool udp)
{
    const char *before = "";

    for (size_t i = 0; i < w->p->n_doors; i++) {
        const struct plan_door *d = &w->p->doors[i];

        if (d->at.family != family || d->udp != udp)
            continue;
        buf_text(w->out, before);
        addr_ip_text(w->out, &d->at);
        buf_printf(w->out, " . %u", (unsigned)d->at.port);
        before = ", ";
    }
}

static void put_doors(struct writer *w, int family, bool udp)
{
    buf_text(w->out, "{ ");
    put_places(w, family, udp);
    buf_text(w->out, " } ");
}

/* Where its DHCP goes, behind other places. */
static void put_dhcp_places(struct writer *w)
{
    const struct plan_addresses *g = &w->p->gateways;

    buf_text(w->out, ", 255.255.255.255 . 67");
    for (size_t i = 0; i < g->n; i++) {
        if (g->list[i].family != AF_INET)
            continue;
        buf_text(w->out, ", ");
        addr_ip_text(w->out, &g->list[i]);
        buf_text(w->out, " . 67");
    }
}

static void begin(struct writer *w)
{
    buf_text(w->out, "        ");
}

static void end(struct writer *w, const char *verdict, const char *comment)
{
    buf_printf(w->out, "counter %s comment \"%s\"\n", verdict, comment);
}

static void end_pass(struct writer *w, const char *comment)
{
    buf_printf(w->out, "meta mark set 0x%08" PRIx32 " ", (uint32_t)RULESET_MARK);
    end(w, "accept", comment);
}

static void rule(struct writer *w, const char *match, const char *verdict, const char *comment)
{
    begin(w);
    buf_text(w->out, match);
    end(w, verdict, comment);
}

static void begin_chain(struct writer *w, const char *name)
{
    buf_printf(w->out, "    chain %s {\n", name);
}

static void begin_base(struct writer *w, const char *name, const char *type, const char *hook, int priority)
{
    begin_chain(w, name);
    buf_printf(w->out, "        type %s hook %s priority %d; policy accept;\n", type, hook, priority);
}

static void end_chain(struct writer *w)
{
    buf_text(w->out, "    }\n");
}

static void begin_table(struct writer *w, const char *family, const char *what)
{
    buf_printf(w->out, "\n# %s\ntable %s ", what, family);
    ruleset_table(w->p->name, w->out);
    buf_text(w->out, " {\n");
}

/* Where what is refused goes. In netdev the policy drops it after this. */
static void refuse_chain(struct writer *w, bool drops)
{
    begin_chain(w, "refuse");
    begin(w);
    buf_printf(w->out, "limit rate 5/second burst 10 packets counter log prefix \"exeat-%s \" comment \"a few of them a second are "
               "logged\"\n", w->p->name);
    if (drops)
        rule(w, "", "drop", "refused");
    end_chain(w);
}

/* ---- netdev: what comes in ---- */

static void source_of(struct writer *w, int family)
{
    buf_printf(w->out, "%s saddr ", proto(family));
    put_addresses(w->out, &w->p->sources, family, addr_ip_text);
}

static void frames(struct writer *w)
{
    rule(w, "ether type { 8021q, 8021ad } ", "goto refuse", "no tagged frames");
    if (!w->p->has_mac)
        return;
    begin(w);
    buf_text(w->out, "ether saddr != ");
    put_mac(w->out, w->p->mac);
    end(w, "goto refuse", "no other hardware address than the sandbox's");
}

static void arp(struct writer *w)
{
    begin(w);
    buf_text(w->out, "arp operation { request, reply } arp saddr ip ");
    put_addresses(w->out, &w->p->sources, AF_INET, addr_ip_text);
    if (w->p->has_mac) {
        buf_text(w->out, "arp saddr ether ");
        put_mac(w->out, w->p->mac);
    }
    buf_text(w->out, "arp daddr ip ");
    put_addresses(w->out, &w->p->gateways, AF_INET, addr_ip_text);
    end_pass(w, "who has the gateway's address, and here is mine");
}

/* nft has no word yet for the target of a solicitation: 128 bits, 8 bytes into the message. */
static void neighbours(struct writer *w)
{
    begin(w);
    source_of(w, AF_INET6);
    buf_text(w->out, "ip6 hoplimit 255 icmpv6 type nd-neighbor-solicit @th,64,128 ");
    put_addresses(w->out, &w->p->gateways, AF_INET6, put_hex128);
    end_pass(w, "who has the gateway's address");
    begin(w);
    source_of(w, AF_INET6);
    buf_text(w->out, "ip6 hoplimit 255 icmpv6 type nd-neighbor-advert @th,64,128 ");
    put_addresses(w->out, &w->p->sources, AF_INET6, put_hex128);
    end_pass(w, "here is the sandbox's address");
}

static void doors(struct writer *w, int family, bool udp)
{
    if (!has_doors(w->p, family, udp))
        return;
    begin(w);
    source_of(w, family);
    buf_printf(w->out, "%s daddr . %s dport ", proto(family), udp ? "udp" : "tcp");
    put_doors(w, family, udp);
    end_pass(w, udp ? "the gateway's DNS" : "the gateway's listeners");
}

static bool is_steered(const struct plan *p, int family)
{
    return p->steer != PLAN_STEER_NONE && plan_steered(p, family);
}

static void elsewhere(struct writer *w, int family)
{
    if (!is_steered(w->p, family))
        return;
    begin(w);
    buf_printf(w->out, "%s daddr %s ", proto(family), family == AF_INET ? NEVER4 : NEVER6);
    end(w, "goto refuse", "no metadata, link-local, loopback, multicast, broadcast");
    begin(w);
    source_of(w, family);
    put_ports(w);
    end_pass(w, "to be steered to the transparent listener");
}

static void dhcp(struct writer *w)
{
    if (!w->p->dhcp)
        return;
    begin(w);
    buf_text(w->out, "ether daddr ff:ff:ff:ff:ff:ff ip saddr 0.0.0.0 ip daddr 255.255.255.255 udp sport 68 udp dport 67 ");
    end_pass(w, "DHCP: an address, please");
    begin(w);
    source_of(w, AF_INET);
    buf_text(w->out, "ip daddr ");
    put_addresses(w->out, &w->p->gateways, AF_INET, addr_ip_text);
    buf_text(w->out, "udp sport 68 udp dport 67 ");
    end_pass(w, "DHCP: for longer, please");
}

static void over_ip4(struct writer *w)
{
    arp(w);
    rule(w, "ip hdrlength != 5 ", "goto refuse", "no IPv4 options");
    rule(w, "ip frag-off & 0x3fff != 0 ", "goto refuse", "no fragments");
    doors(w, AF_INET, false);
    doors(w, AF_INET, true);
    dhcp(w);
    elsewhere(w, AF_INET);
}

static void over_ip6(struct writer *w)
{
    rule(w, "ip6 nexthdr != { tcp, udp, ipv6-icmp } ", "goto refuse", "no fragments, no extension headers");
    neighbours(w);
    doors(w, AF_INET6, false);
    doors(w, AF_INET6, true);
    elsewhere(w, AF_INET6);
}

static void netdev_table(struct writer *w)
{
    begin_table(w, "netdev", "What comes in by the interface: nothing but this.");
    refuse_chain(w, false);
    begin_chain(w, "in");
    buf_printf(w->out, "        type filter hook ingress device \"%s\" priority %d; policy drop;\n", w->p->interface,
               RULESET_INGRESS_PRIORITY);
    frames(w);
    if (plan_has_family(&w->p->sources, AF_INET))
        over_ip4(w);
    if (plan_has_family(&w->p->sources, AF_INET6))
        over_ip6(w);
    rule(w, "", "goto refuse", "everything else");
    end_chain(w);
    buf_text(w->out, "}\n");
}

/* ---- inet: what becomes of it ---- */

static const int families[] = {AF_INET, AF_INET6};

/* Packets of the sandbox: by its interface, or, on a bridge, by its addresses too. */
static void from(struct writer *w, int family)
{
    if (!w->p->bridge[0]) {
        buf_printf(w->out, "iifname \"%s\" ", w->p->interface);
        return;
    }
    buf_printf(w->out, "iifname \"%s\" ", w->p->bridge);
    source_of(w, family);
}

static void to(struct writer *w, int family)
{
    if (!w->p->bridge[0]) {
        buf_printf(w->out, "oifname \"%s\" ", w->p->interface);
        return;
    }
    buf_printf(w->out, "oifname \"%s\" %s daddr ", w->p->bridge, proto(family));
    put_addresses(w->out, &w->p->sources, family, addr_ip_text);
}

/* A rule about all packets from (or to) the sandbox: one, or on a bridge one for each family it has. */
static void each(struct writer *w, void (*match)(struct writer *w, int family), const char *verdict, const char *comment)
{
    for (size_t f = 0; f < 2; f++) {
        if (w->p->bridge[0] ? !plan_has_family(&w->p->sources, families[f]) : f > 0)
            continue;
        begin(w);
        match(w, families[f]);
        end(w, verdict, comment);
    }
}

static void target(struct writer *w, const struct plan_door *d)
{
    addr_text(w->out, &d->at);
    buf_char(w->out, ' ');
}

static void steer_one(struct writer *w, int family)
{
    const struct plan_door *d = plan_steered(w->p, family);

    begin(w);
    from(w, family);
    put_ports(w);
    buf_printf(w->out, "%s daddr . tcp dport != ", proto(family));
    put_doors(w, family, false);
    buf_text(w->out, "counter ");
    if (w->p->steer == PLAN_STEER_REDIRECT) {
        buf_printf(w->out, "dnat %s to ", proto(family));
        target(w, d);
    } else {
        buf_printf(w->out, "tproxy %s to ", proto(family));
        target(w, d);
        buf_printf(w->out, "meta mark set 0x%08" PRIx32 " accept ", (uint32_t)RULESET_MARK_STEERED);
    }
    buf_text(w->out, "comment \"to the transparent listener\"\n");
}

static void steering(struct writer *w)
{
    if (w->p->steer == PLAN_STEER_NONE)
        return;
    begin_base(w, "steer", w->p->steer == PLAN_STEER_REDIRECT ? "nat" : "filter", "prerouting",
               w->p->steer == PLAN_STEER_REDIRECT ? RULESET_STEER_PRIORITY : -150);
    for (size_t f = 0; f < 2; f++)
        if (is_steered(w->p, families[f]))
            steer_one(w, families[f]);
    end_chain(w);
}

static void arrive_one(struct writer *w, int family, bool udp)
{
    if (!has_doors(w->p, family, udp))
        return;
    begin(w);
    from(w, family);
    buf_printf(w->out, "meta mark != 0x%08" PRIx32 " %s daddr . %s dport != { ", (uint32_t)RULESET_MARK_STEERED, proto(family), udp ? "udp" : "tcp");
    put_places(w, family, udp);
    if (udp && family == AF_INET && w->p->dhcp)
        put_dhcp_places(w);
    buf_text(w->out, " } ");
    end(w, "goto refuse", udp ? "DNS goes to no other port of this host" : "what was not steered goes to no port of this host");
}

/*
 * Rules of others may translate addresses on the way (a host-wide redirect of port 53, a published container), or write other marks, and
 * steering may find nobody: all but what TPROXY took goes to a door.
 */
static void arrival(struct writer *w)
{
    begin_base(w, "arrive", "filter", "input", 0);
    for (size_t f = 0; f < 2; f++) {
        arrive_one(w, families[f], false);
        arrive_one(w, families[f], true);
    }
    end_chain(w);
}

/* An interface that goes takes its netdev rules along on many kernels; what comes in without them goes nowhere. */
static void guard(struct writer *w)
{
    begin_base(w, "guard", "filter", "prerouting", -450);
    begin(w);
    buf_printf(w->out, "iifname \"%s\" meta mark != 0x%08" PRIx32 " ", w->p->interface, (uint32_t)RULESET_MARK);
    end(w, "goto refuse", "nothing that did not pass the rules above");
    end_chain(w);
}

static void answers(struct writer *w)
{
    begin_chain(w, "answers");
    rule(w, "ct state established ct direction reply ", "accept", "answers to what it asked");
    if (plan_has_family(&w->p->sources, AF_INET6))
        rule(w, "icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } ", "accept", "who has its address, and here is the gateway's");
    if (w->p->dhcp)
        rule(w, "udp sport 67 udp dport 68 ", "accept", "DHCP: here is one");
    rule(w, "", "goto refuse", "nothing else to the sandbox");
    end_chain(w);
}

static void inet_table(struct writer *w)
{
    begin_table(w, "inet", "What becomes of it, and what goes back.");
    refuse_chain(w, true);
    if (!w->p->bridge[0])
        guard(w);
    steering(w);
    arrival(w);
    begin_base(w, "forward", "filter", "forward", 0);
    each(w, from, "goto refuse", "nothing goes on from here");
    each(w, to, "goto refuse", "nothing comes from elsewhere");
    end_chain(w);
    answers(w);
    begin_base(w, "back", "filter", "output", 0);
    each(w, to, "jump answers", "from this host to the sandbox");
    end_chain(w);
    buf_text(w->out, "}\n");
}

/* ---- bridge: between its ports ---- */

static void out_by_port(struct writer *w, const char *match, int family, void (*put)(struct buf *out, const struct addr *a),
                        const char *comment)
{
    begin(w);
    buf_printf(w->out, "oifname \"%s\" %s ", w->p->interface, match);
    put_addresses(w->out, &w->p->sources, family, put);
    end(w, "accept", comment);
}

static void bridge_table(struct writer *w)
{
    bool has4 = plan_has_family(&w->p->sources, AF_INET), has6 = plan_has_family(&w->p->sources, AF_INET6);
    char match[96];

    begin_table(w, "bridge", "Between it and the other ports: nothing; and what is flooded to all of them is not for it.");
    refuse_chain(w, true);
    guard(w);
    begin_base(w, "between", "filter", "forward", 0);
    snprintf(match, sizeof match, "iifname \"%s\" ", w->p->interface);
    rule(w, match, "goto refuse", "nothing to another port");
    snprintf(match, sizeof match, "oifname \"%s\" ", w->p->interface);
    rule(w, match, "goto refuse", "nothing from another port");
    end_chain(w);
    begin_base(w, "out", "filter", "postrouting", 0);
    if (has4) {
        out_by_port(w, "arp daddr ip", AF_INET, addr_ip_text, "who has the sandbox's address");
        out_by_port(w, "ip daddr", AF_INET, addr_ip_text, "to the sandbox");
    }
    if (w->p->dhcp) {
        snprintf(match, sizeof match, "oifname \"%s\" ip daddr 255.255.255.255 udp sport 67 udp dport 68 ", w->p->interface);
        rule(w, match, "accept", "DHCP: here is one");
    }
    if (has6) {
        out_by_port(w, "icmpv6 type nd-neighbor-solicit @th,64,128", AF_INET6, put_hex128, "who has the sandbox's address");
        out_by_port(w, "ip6 daddr", AF_INET6, addr_ip_text, "to the sandbox");
    }
    snprintf(match, sizeof match, "oifname \"%s\" ", w->p->interface);
    rule(w, match, "goto refuse", "what is for others");
    end_chain(w);
    buf_text(w->out, "}\n");
}

/* ---- the whole ---- */

void ruleset_write_removal(const char *name, struct buf *out)
{
    /* Naming a table makes it, so that taking it away never fails. */
    for (size_t i = 0; ruleset_families[i]; i++)
        for (int taking = 0; taking < 2; taking++) {
            buf_printf(out, "%stable %s ", taking ? "delete " : "", ruleset_families[i]);
            ruleset_table(name, out);
            buf_char(out, '\n');
        }
}

static void heading(struct writer *w)
{
    const struct plan *p = w->p;
    struct buf *out = w->out;

    buf_printf(out, "# exeat firewall %s: from %s%s%s", p->name, p->interface, p->bridge[0] ? ", a port of " : "", p->bridge);
    buf_text(out, " only these are reachable:");
    for (size_t i = 0; i < p->n_doors; i++) {
        buf_text(out, i ? ", " : " ");
        addr_text(out, &p->doors[i].at);
        buf_text(out, p->doors[i].udp ? "/udp" : "");
    }
    buf_text(out, ".\n");
    if (p->steer == PLAN_STEER_TPROXY)
        buf_printf(out, "# TPROXY needs this too: ip rule add fwmark 0x%08" PRIx32 " lookup %d; ip route add local default dev lo "
                   "table %d; and both with ip -6.\n", (uint32_t)RULESET_MARK_STEERED, RULESET_ROUTES, RULESET_ROUTES);
    buf_text(out, "\n# One transaction: an earlier one of this name goes as this one comes.\n");
}

void ruleset_write(const struct plan *p, struct buf *out)
{
    struct writer w = {p, out};

    heading(&w);
    ruleset_write_removal(p->name, out);
    netdev_table(&w);
    inet_table(&w);
    if (p->bridge[0])
        bridge_table(&w);
}
