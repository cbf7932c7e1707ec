#include "firewall/others.h"

#include <limits.h>
#include <string.h>

#include "base/buf.h"
#include "firewall/ruleset.h"

struct look {
    const struct plan *p;
    others_found *found;
    void *arg;
    struct slice table, block; /* where the line stands */
    bool flows_early;          /* a flow table whose devices come behind its hook */
};

static void tell(const struct look *l, const char *what, const char *says)
{
    const struct other o = {what, l->table, l->block, says};

    l->found(l->arg, &o);
}

/* "... priority -1000; policy accept;"; one that cannot be read is before all. */
static int priority_of(struct slice line)
{
    ptrdiff_t at = slice_search(line, SLICE(" priority "));
    struct slice left = slice_from(line, at < 0 ? line.len : (size_t)at + strlen(" priority ")), word = {"", 0};
    uint64_t n;
    bool minus;

    slice_next(&left, ';', &word);
    minus = slice_starts(word, SLICE("-"));
    if (!slice_decimal(slice_from(word, minus), 1u << 30, &n))
        return INT_MIN;
    return minus ? -(int)n : (int)n;
}

/* Does the line name the device, in quotes or in a list of them? */
static bool names_device(struct slice line, const char *device)
{
    struct slice left = line, word;

    while (slice_next(&left, ' ', &word)) {
        while (word.len && strchr("\",;", word.ptr[word.len - 1]))
            word = slice_cut(word, 0, word.len - 1);
        if (slice_starts(word, SLICE("\"")))
            word = slice_from(word, 1);
        if (slice_is(word, device))
            return true;
    }
    return false;
}

/* Is it of this plan? Those are compared line by line. "inet exeat_vm1" */
static bool is_own(const struct plan *p, struct slice table)
{
    struct slice left = table, family;
    struct buf own = {0};
    bool is = false;

    slice_next(&left, ' ', &family);
    ruleset_table(p->name, &own);
    for (size_t i = 0; ruleset_families[i]; i++)
        is |= slice_is(family, ruleset_families[i]) && slice_equals(left, buf_slice(&own));
    buf_free(&own);
    return is;
}

/* Firewalls side by side have one priority. */
static bool is_before(const struct look *l, int priority, int ours)
{
    return priority <= ours - (slice_search(l->table, SLICE(" exeat_")) >= 0);
}

/* "type filter hook ingress device "eth0" priority -2000; policy accept;" */
static void look_at_base(const struct look *l, struct slice line)
{
    int priority = priority_of(line);

    if (slice_search(line, SLICE(" hook ingress ")) >= 0 && is_before(l, priority, RULESET_INGRESS_PRIORITY) &&
        names_device(line, l->p->interface))
        tell(l, "earlier", "this chain sees the interface's frames before the firewall; give it a higher priority");
    if (l->p->steer == PLAN_STEER_REDIRECT && slice_starts(line, SLICE("type nat hook prerouting ")) &&
        is_before(l, priority, RULESET_STEER_PRIORITY))
        tell(l, "earlier", "this chain can send connections elsewhere before they are steered; give it a higher priority");
}

/* "hook ingress priority -2000", and on a line of its own "devices = { "eth0", "eth1" }" */
static void look_at_flows(struct look *l, struct slice line)
{
    if (slice_starts(line, SLICE("hook ingress ")))
        l->flows_early = is_before(l, priority_of(line), RULESET_INGRESS_PRIORITY);
    if (l->flows_early && slice_search(line, SLICE("devices = ")) >= 0 && names_device(line, l->p->interface))
        tell(l, "earlier", "this flow table sends frames of the interface on before the firewall sees them; give it a higher priority");
}

static void look_at_line(struct look *l, struct slice line)
{
    if (slice_starts(line, SLICE("type ")))
        look_at_base(l, line);
    if (slice_starts(l->block, SLICE("flowtable ")))
        look_at_flows(l, line);
    if (slice_search(line, SLICE("ct helper set ")) >= 0)
        tell(l, "helper", "a connection-tracking helper opens ports by what it reads in packets; take the rule out");
}

void others_look(const struct plan *p, struct slice ruleset, others_found *found, void *arg)
{
    struct look l = {.p = p, .found = found, .arg = arg, .table = {"", 0}, .block = {"", 0}};
    struct slice left = ruleset, line;

    while (slice_next(&left, '\n', &line)) {
        bool opens = slice_ends(line, SLICE(" {"));

        line = slice_trim(line);
        if (opens && slice_starts(line, SLICE("table "))) {
            l.table = slice_cut(line, 6, line.len - 2);
        } else if (opens) {
            l.block = slice_cut(line, 0, line.len - 2);
            l.flows_early = false;
        } else if (!is_own(p, l.table)) {
            look_at_line(&l, line);
        }
    }
}
