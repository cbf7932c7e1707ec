/* Owns how a tighter policy is written: as a part of proxy.conf, with the checks behind each line. */
#include <string.h>

#include "audit/clients.h"
#include "audit/remedy.h"
#include "audit/state.h"
#include "audit/tighter.h"
#include "authz/attested.h"
#include "base/text.h"

#define BIT(line) (1u << (line))

/* ---- where the service is ---- */

static bool is_address(const struct base_url *u)
{
    struct addr a;

    return addr_parse_ip(slice_of(u->host), &a);
}

/* The gateway lists services by name: one that the manifest knows by its address alone is given one. */
static void put_hosts(const struct target *t, struct buf *out)
{
    const struct base_url *u = &t->base[0];

    if (is_address(u))
        buf_printf(out, "    hosts: [%s.internal]  # the manifest has its address alone: write the name that its clients call it by\n", t->name);
    else
        buf_printf(out, "    hosts: [\"%s\"]\n", u->host);
}

static void put_place(const struct tighter *t, struct buf *out)
{
    const struct target *target = audit_target(t->audit);
    const struct base_url *u = &target->base[0];
    enum addr_class class = addr_classify(&u->at);
    const char *ca = target_text(target, "ca-file");

    put_hosts(target, out);
    buf_printf(out, "    %s: [%u]\n", u->tls ? "ports" : "plain-ports", u->at.port);
    if (is_address(u) || target_text(target, "address") || class == ADDR_LOOPBACK || class == ADDR_LINKLOCAL) {
        buf_text(out, "    addresses: [\"");
        addr_text(out, &u->at);
        buf_text(out, "\"]\n");
    }
    if (class == ADDR_PRIVATE)
        buf_text(out, "    allow-private: true\n");
    if (ca && u->tls) {
        buf_text(out, "    ca-file: ");
        text_json(out, slice_of(ca));
        buf_char(out, '\n');
    }
    if (t->audit->options.service)
        buf_printf(out, "    scope: \"%s\"\n", service_scope(t->audit->options.service));
    else
        buf_printf(out, "    scope: \"%s:read\"  # what leave tokens must carry\n", target->name);
}

/* What a client would show, the gateway puts in. */
static void put_credential(const struct tighter *t, struct buf *out)
{
    const struct target *target = audit_target(t->audit);
    const char *from = conf_text(target->item, "credential.from");
    enum credential_form form = target->first.form;

    if (!from || form == CREDENTIAL_PROXY_BASIC || form == CREDENTIAL_PROXY_BEARER)
        return;
    buf_text(out, "    credential:  # what its clients would show is the gateway's to put in; for one sandbox, unless {sandbox} is in its name\n      from: ");
    text_json(out, slice_of(from));
    buf_text(out, "\n      as: ");
    text_json(out, slice_of(conf_text(target->item, "credential.as")));
    buf_char(out, '\n');
    if (!target->base[0].tls)
        buf_text(out, "    inject-plain: accepted  # since the service speaks plain HTTP: who is on the way reads it\n");
}

/* ---- lines, and why ---- */

/* "  # covers AN-2 PW-1", and a line's end. */
static void put_checks(const struct tighter *t, unsigned line, struct buf *out)
{
    size_t n = 0;

    for (size_t i = 0; i < audit_count(t->audit); i++)
        if (t->of[i].claim == CLAIM_LINES && t->of[i].lines & BIT(line))
            buf_printf(out, "%s %s", n++ ? "" : "  # covers", audit_result(t->audit, i)->check->id);
    buf_char(out, '\n');
}

static void put_item(struct slice text, struct buf *out)
{
    buf_text(out, "      - ");
    text_json(out, text);
    buf_char(out, '\n');
}

/* Those of the preset, below its folder: written with others, they must be written, too. */
static void put_preset_rules(const struct target *t, struct buf *out)
{
    const char *const *rules = clients_preset(t)->allow;

    for (size_t i = 0; rules[i]; i++) {
        struct buf rule = {0};
        size_t method = strcspn(rules[i], " ") + 1;

        buf_printf(&rule, "%.*s%s%s", (int)method, rules[i], clients_preset_path(t), rules[i] + method);
        put_item(buf_slice(&rule), out);
        buf_free(&rule);
    }
}

static void put_allow(const struct tighter *t, struct buf *out)
{
    const struct target *target = audit_target(t->audit);
    struct buf rule = {0};

    if (clients_preset(target))
        put_preset_rules(target, out);
    for (size_t i = 0; i < clients_rule_count(target); i++) {
        buf_clear(&rule);
        clients_rule(target, i, &rule);
        put_item(buf_slice(&rule), out);
    }
    for (size_t i = 0; i < t->n_beside; i++) {
        buf_clear(&rule);
        buf_printf(&rule, "GET,HEAD %s%s?", target->base[0].path, t->beside[i]);
        put_item(buf_slice(&rule), out);
    }
    buf_free(&rule);
}

static void put_rules(const struct tighter *t, struct buf *out)
{
    const struct target *target = audit_target(t->audit);
    const struct preset *preset = clients_preset(target);

    if (preset) {
        buf_printf(out, "    preset: %s", preset->name);
        if (t->n_beside)
            buf_char(out, '\n');
        else
            put_checks(t, LINE_RULES, out);
    }
    if (preset && clients_preset_path(target)[0])
        buf_printf(out, "    preset-path: %s\n", clients_preset_path(target));
    if (preset && t->n_beside == 0)
        return;
    if (clients_are_guessed(target))
        buf_text(out, "    # What clients need is not in the manifest (clients): these are the folders that it names. Look whether it is enough.\n");
    else if (preset)
        buf_text(out, "    # The preset's rules, and what the manifest names beside them (protected).\n");
    buf_text(out, "    allow:");
    put_checks(t, LINE_RULES, out);
    put_allow(t, out);
}

static void put_denies(const struct tighter *t, struct buf *out)
{
    buf_text(out, "    deny:\n");
    for (size_t i = 0; i < t->n_denies; i++) {
        buf_text(out, "      - ");
        text_json(out, slice_of(t->denies[i].rule));
        buf_printf(out, "  # covers %s\n", audit_result(t->audit, t->denies[i].result)->check->id);
    }
}

static void put_fields(const struct tighter *t, struct buf *out)
{
    size_t n = 0;

    buf_text(out, "    forward-fields: [");
    for (size_t i = 0; t->fields[i]; i++)
        if (!t->is_dropped[i])
            buf_printf(out, "%s%s", n++ ? ", " : "", t->fields[i]);
    buf_char(out, ']');
    put_checks(t, LINE_FIELDS, out);
}

static void put_edges(const struct tighter *t, struct buf *out)
{
    const struct target *target = audit_target(t->audit);
    size_t n = target_count(target, "hands-to");

    buf_text(out, "    handoff-edges: enforce");
    put_checks(t, LINE_EDGES, out);
    if (n == 0)
        return;
    buf_text(out, "    hands-off-to:  # the manifest's hands-to\n");
    for (size_t i = 0; i < n; i++)
        put_item(slice_of(target_text_at(target, "hands-to", i)), out);
}

static void put_lines(const struct tighter *t, struct buf *out)
{
    put_rules(t, out);
    if (t->on & BIT(LINE_DENY))
        put_denies(t, out);
    buf_printf(out, "    client-credentials: %s", t->on & BIT(LINE_CREDENTIALS) ? "refuse" : "allow  # its clients bring their own");
    put_checks(t, LINE_CREDENTIALS, out);
    if (t->on & BIT(LINE_CREDENTIALS))
        put_credential(t, out);
    if (t->on & BIT(LINE_FIELDS))
        put_fields(t, out);
    if (t->on & BIT(LINE_EDGES))
        put_edges(t, out);
}

/* ---- what stands around it ---- */

void tighter_why(const struct tighter *t, size_t i, struct buf *out)
{
    const struct tighter_of *of = &t->of[i];
    const struct remedy *r = remedy_of(audit_result(t->audit, i)->check->id);

    if (audit_target(t->audit)->dialect == DIALECT_PROXY)
        buf_text(out, "a forward proxy is no service of a gateway's: list the hosts that it is for, not the proxy");
    else if (r->why_not)
        buf_text(out, r->why_not);
    else if (r->how == REMEDY_FOLLOWS)
        buf_text(out, "it happens when the service answers what its clients ask for");
    else if (of->passes)
        buf_printf(out, "what shows it is what its clients ask for, too: %s %.100s", of->passes->method, of->passes->shown);
    else
        buf_text(out, "no request of a sandbox's is behind it");
}

static void put_head(const struct tighter *t, struct buf *out)
{
    const char *name = audit_target(t->audit)->name;

    buf_printf(out, "# services.%s, tighter: what the audit of ", name);
    attested_day(audit_began_s(t->audit), out);
    buf_printf(out, " found weak and a gateway can keep sandboxes from, %zu of %zu.\n", tighter_count(t, CLAIM_LINES) + tighter_count(t, CLAIM_ITSELF), tighter_count(t, CLAIM_NONE));
    buf_printf(out, "# Put it in the place of services.%s in proxy.conf; then: exeat config check, exeat reload, and the audit again, with --through.\n", name);
}

static void put_by_itself(const struct tighter *t, struct buf *out)
{
    size_t n = 0;

    for (size_t i = 0; i < audit_count(t->audit); i++)
        if (t->of[i].claim == CLAIM_ITSELF)
            buf_printf(out, "%s %s", n++ ? "" : "# By itself a gateway that lists the service keeps sandboxes from", audit_result(t->audit, i)->check->id);
    if (n)
        buf_text(out, ".\n");
}

static void put_service_only(const struct tighter *t, struct buf *out)
{
    if (tighter_count(t, CLAIM_SERVICE))
        buf_text(out, "# Only the service can mend:\n");
    for (size_t i = 0; i < audit_count(t->audit); i++)
        if (t->of[i].claim == CLAIM_SERVICE) {
            buf_printf(out, "#   %s: ", audit_result(t->audit, i)->check->id);
            tighter_why(t, i, out);
            buf_text(out, ".\n");
        }
}

void tighter_yaml(const struct tighter *t, struct buf *out)
{
    const struct target *target = audit_target(t->audit);

    put_head(t, out);
    put_by_itself(t, out);
    put_service_only(t, out);
    if (target->dialect == DIALECT_PROXY)
        return;
    buf_printf(out, "services:\n  %s:\n", target->name);
    put_place(t, out);
    put_lines(t, out);
    if (!t->audit->options.gateway)
        buf_text(out, "    # audit: \"waived: for the audit through the gateway\"  # a closed service lets none of its probes in; take the line out again\n");
}
