#include "firewall/firewall.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "firewall/drift.h"
#include "firewall/kernel.h"
#include "firewall/link.h"
#include "firewall/others.h"
#include "firewall/ruleset.h"

#define HELPERS_SWITCH "/proc/sys/net/netfilter/nf_conntrack_helper"

static const struct link_steering steerings[] = {
    {AF_INET, RULESET_MARK_STEERED, RULESET_ROUTES},
    {AF_INET6, RULESET_MARK_STEERED, RULESET_ROUTES},
};
enum { N_STEERINGS = sizeof steerings / sizeof *steerings };

static bool needs_routing(const struct plan *p, const struct link_steering *s)
{
    return p->steer == PLAN_STEER_TPROXY && plan_steered(p, s->family);
}

/* Where the host's bridges hand packets to the rules of its IP, a connection that TPROXY took over is lost on the way up. */
static void look_at_bridge(const struct plan *p, char *says, size_t size)
{
    static const char *const names[] = {"bridge-nf-call-iptables", "bridge-nf-call-ip6tables"};

    for (size_t i = 0; p->bridge[0] && p->steer == PLAN_STEER_TPROXY && i < 2; i++) {
        struct buf text = {0};
        char path[96];

        snprintf(path, sizeof path, "/proc/sys/net/bridge/%s", names[i]);
        if (file_read(path, 16, &text, NULL) && !slice_starts(buf_slice(&text), SLICE("0")))
            snprintf(says, size, "TPROXY works at a bridge only without this: sysctl net.bridge.%s=0", names[i]);
        buf_free(&text);
    }
}

bool firewall_finds(const char *interface, struct fault *why)
{
    struct link_facts facts;

    if (!link_look(interface, &facts, why))
        return false;
    return facts.exists || fault_set(why, FAULT_MISSING, "there is no interface %s; make it first", interface);
}

/* What the interface is, against what the plan takes it for; "" when they agree. */
static bool look_at_link(const struct plan *p, char *says, size_t size, struct link_facts *facts, struct fault *why)
{
    says[0] = '\0';
    if (!link_look(p->interface, facts, why))
        return false;
    if (!facts->exists)
        snprintf(says, size, "there is no interface %s; make it first", p->interface);
    else if (facts->is_bridge)
        snprintf(says, size, "%s is a bridge; name the sandbox's port of it: --bridge %s --interface PORT", p->interface, p->interface);
    else if (strcmp(facts->bridge, p->bridge) != 0 && facts->bridge[0])
        snprintf(says, size, "%s is a port of the bridge %s; say so: --bridge %s", p->interface, facts->bridge, facts->bridge);
    else if (strcmp(facts->bridge, p->bridge) != 0)
        snprintf(says, size, "%s is no port of %s; ip link set %s master %s", p->interface, p->bridge, p->interface, p->bridge);
    else if (facts->upper[0])
        snprintf(says, size, "%s stands on %s, and what comes to its hardware address is not seen as %s's: ip link del %s", facts->upper,
                 p->interface, p->interface, facts->upper);
    else
        look_at_bridge(p, says, size);
    return true;
}

/* ---- apply, remove ---- */

/* The routing goes when no firewall here steers by it any more: their rules carry its mark. */
static bool tidy_routing(struct fault *why)
{
    struct buf all = {0};
    char mark[16];
    bool ok = kernel_list_all(&all, why);

    snprintf(mark, sizeof mark, "0x%08x", RULESET_MARK_STEERED);
    if (ok && slice_search(buf_slice(&all), slice_of(mark)) < 0)
        for (int i = 0; ok && i < N_STEERINGS; i++)
            ok = link_unsteer(&steerings[i], why);
    buf_free(&all);
    return ok;
}

static bool add_routing(const struct plan *p, struct fault *why)
{
    for (int i = 0; i < N_STEERINGS; i++)
        if (needs_routing(p, &steerings[i]) && !link_steer(&steerings[i], why))
            return false;
    return true;
}

/* The interface that the guard of a ruleset names: `iifname "vm1" meta mark != ...`; empty: there is none. */
static struct slice guarded(struct slice listing)
{
    struct slice left = listing, line, name;
    char mark[32];

    snprintf(mark, sizeof mark, " meta mark != 0x%08x", RULESET_MARK);
    while (slice_next(&left, '\n', &line)) {
        line = slice_trim(line);
        if (!slice_starts(line, SLICE("iifname \"")) || slice_search(line, slice_of(mark)) < 0)
            continue;
        line = slice_from(line, strlen("iifname \""));
        slice_next(&line, '"', &name);
        return name;
    }
    return slice_make("", 0);
}

/* A ruleset of that name at another interface would go, and whoever is behind that would be let out. */
static bool is_free(const struct plan *p, struct fault *why)
{
    struct buf table = {0}, there = {0};
    char other[IFNAMSIZ] = "";
    struct link_facts facts = {0};
    struct slice name;
    bool ok;

    ruleset_table(p->name, &table);
    buf_char(&table, '\0');
    ok = kernel_list(buf_slice(&table).ptr, &there, why);
    name = guarded(buf_slice(&there));
    if (ok && name.len < sizeof other && !slice_is(name, p->interface))
        memcpy(other, name.ptr, name.len);
    buf_free(&table);
    buf_free(&there);
    ok = ok && (!other[0] || link_look(other, &facts, why));
    if (ok && facts.exists)
        return fault_set(why, FAULT_USAGE, "firewall %s is in force at %s, and this would take it away from there: give this one another "
                         "--name, or remove that one first", p->name, other);
    return ok;
}

bool firewall_apply(const struct plan *p, struct fault *why)
{
    struct buf text = {0};
    struct link_facts facts;
    char says[FAULT_TEXT_SIZE];
    bool ok;

    if (!look_at_link(p, says, sizeof says, &facts, why))
        return false;
    if (says[0])
        return fault_set(why, FAULT_MISSING, "%s", says);
    if (!is_free(p, why))
        return false;
    ruleset_write(p, &text);
    ok = add_routing(p, why) && kernel_run(buf_slice(&text), why);
    buf_free(&text);
    return (ok ? tidy_routing(why) : tidy_routing(NULL)) && ok;
}

bool firewall_remove(const char *name, bool *was, struct fault *why)
{
    struct buf table = {0}, there = {0}, text = {0};
    bool ok;

    ruleset_table(name, &table);
    buf_char(&table, '\0');
    ok = kernel_list(buf_slice(&table).ptr, &there, why);
    *was = ok && buf_len(&there) > 0;
    if (*was) {
        ruleset_write_removal(name, &text);
        ok = kernel_run(buf_slice(&text), why) && tidy_routing(why);
    }
    buf_free(&table);
    buf_free(&there);
    buf_free(&text);
    return ok;
}

/* ---- check ---- */

struct check {
    const struct plan *p;
    firewall_found *found;
    void *arg;
    size_t n;
};

static void tell(struct check *c, const char *what, struct slice table, struct slice block, const char *says)
{
    struct firewall_finding f = {.what = what, .table = table, .block = block, .text = slice_of(says)};

    c->n++;
    c->found(c->arg, &f);
}

static void on_drift(void *arg, const struct drift *d)
{
    static const char *const kinds[] = {[DRIFT_MISSING] = "missing", [DRIFT_ADDED] = "added", [DRIFT_MOVED] = "moved"};
    struct check *c = arg;
    struct firewall_finding f = {kinds[d->kind], d->line, d->table, d->block, d->text};

    c->n++;
    c->found(c->arg, &f);
}

static bool check_rules(struct check *c, struct fault *why)
{
    struct buf text = {0}, wanted = {0}, there = {0}, table = {0};
    bool ok;

    ruleset_table(c->p->name, &table);
    buf_char(&table, '\0');
    ruleset_write(c->p, &text);
    ok = kernel_list(buf_slice(&table).ptr, &there, why) &&
         kernel_rehearse(buf_slice(&text), buf_slice(&table).ptr, c->p->interface, &wanted, why);
    if (ok)
        drift_compare(buf_slice(&wanted), buf_slice(&there), buf_slice(&text), on_drift, c);
    buf_free(&text);
    buf_free(&wanted);
    buf_free(&there);
    buf_free(&table);
    return ok;
}

static void on_other(void *arg, const struct other *o)
{
    tell(arg, o->what, o->table, o->block, o->says);
}

static bool check_others(struct check *c, struct fault *why)
{
    struct buf all = {0};
    bool ok = kernel_list_all(&all, why);

    if (ok)
        others_look(c->p, buf_slice(&all), on_other, c);
    buf_free(&all);
    return ok;
}

static bool check_routing(struct check *c, struct fault *why)
{
    bool rule, route;
    char says[160];

    for (int i = 0; i < N_STEERINGS; i++) {
        const char *six = steerings[i].family == AF_INET6 ? " -6" : "";

        if (!needs_routing(c->p, &steerings[i]))
            continue;
        if (!link_is_steered(&steerings[i], &rule, &route, why))
            return false;
        snprintf(says, sizeof says, "TPROXY's rule is gone: ip%s rule add fwmark 0x%08x lookup %d", six, RULESET_MARK_STEERED,
                 RULESET_ROUTES);
        if (!rule)
            tell(c, "routing", SLICE(""), SLICE(""), says);
        snprintf(says, sizeof says, "TPROXY's route is gone: ip%s route add local default dev lo table %d", six, RULESET_ROUTES);
        if (!route)
            tell(c, "routing", SLICE(""), SLICE(""), says);
    }
    return true;
}

static bool check_link(struct check *c, struct fault *why)
{
    struct link_facts facts;
    char says[FAULT_TEXT_SIZE];

    if (!look_at_link(c->p, says, sizeof says, &facts, why))
        return false;
    if (says[0])
        tell(c, "interface", SLICE(""), SLICE(""), says);
    if (facts.has_xdp)
        tell(c, "earlier", SLICE(""), SLICE(""), "an XDP program at the interface sees frames before the firewall");
    if (facts.has_early_filter)
        tell(c, "earlier", SLICE(""), SLICE(""), "traffic control (tc qdisc show, bpftool net) can take frames of the interface before the firewall");
    return true;
}

static void check_helpers(struct check *c)
{
    struct buf text = {0};

    if (file_read(HELPERS_SWITCH, 16, &text, NULL) && !slice_starts(buf_slice(&text), SLICE("0")))
        tell(c, "helper", SLICE(""), SLICE(""),
             "connection tracking's helpers are on by themselves: sysctl net.netfilter.nf_conntrack_helper=0");
    buf_free(&text);
}

bool firewall_check(const struct plan *p, firewall_found *found, void *arg, size_t *n, struct fault *why)
{
    struct check c = {.p = p, .found = found, .arg = arg};
    bool ok = check_link(&c, why) && check_rules(&c, why) && check_others(&c, why) && check_routing(&c, why);

    if (ok)
        check_helpers(&c);
    *n = c.n;
    return ok;
}
