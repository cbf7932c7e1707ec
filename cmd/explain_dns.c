/* What a DNS listener answers to a question, step by step, from the function that the usher asks. */
#include "cmd/explain.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "proxy/config.h"
#include "proxy/zone.h"

enum { STEP_COLUMN = 22, LABEL_MAX = 63 };

struct explanation {
    const char *name, *type_name;
    uint16_t type;
    struct conf *conf;
    struct policy *policy;
    struct zones zones;
    const struct zone *zone;
    struct zone_verdict verdict;
    bool json;
    struct buf steps;
};

static void on_step(void *arg, const char *name, bool ok, const char *detail)
{
    struct explanation *e = arg;

    if (!e->json) {
        buf_printf(&e->steps, "  %-3s  %-*s  %s\n", ok ? "yes" : "no", STEP_COLUMN, name, detail);
        return;
    }
    buf_text(&e->steps, buf_len(&e->steps) ? ",{\"step\":" : "{\"step\":");
    text_json(&e->steps, slice_of(name));
    buf_printf(&e->steps, ",\"ok\":%s,\"detail\":", ok ? "true" : "false");
    text_json(&e->steps, slice_of(detail));
    buf_char(&e->steps, '}');
}

/* ---- what is asked ---- */

/* Is it a name that can be sent? A final dot is left out. */
static bool read_name(const char *text, char name[DNS_NAME_MAX], struct fault *why)
{
    struct slice rest = slice_of(text), label;

    if (slice_ends(rest, SLICE(".")) && rest.len > 1)
        rest = slice_cut(rest, 0, rest.len - 1);
    if (rest.len > NAME_MAX_LEN)
        return fault_set(why, FAULT_USAGE, "--dns: names end at %d bytes, this has %zu", NAME_MAX_LEN, rest.len);
    snprintf(name, DNS_NAME_MAX, "%.*s", SLICE_ARG(rest));
    while (slice_next(&rest, '.', &label))
        if (label.len == 0 || label.len > LABEL_MAX)
            return fault_set(why, FAULT_USAGE, "--dns: \"%.100s\" is no name: a label has 1 to %d bytes", text, LABEL_MAX);
    return true;
}

static bool find_zone(struct explanation *e, const char *listener, struct fault *why)
{
    if (e->zones.n == 0)
        return fault_set(why, FAULT_USAGE, "there is no DNS listener in the configuration (dns.NAME)");
    if (!listener && e->zones.n > 1)
        return fault_set(why, FAULT_USAGE, "there are several DNS listeners: say which, --listener %s", e->zones.list[0].name);
    e->zone = listener ? zones_find(&e->zones, slice_of(listener)) : e->zones.list;
    return e->zone || fault_set(why, FAULT_USAGE, "no DNS listener is called %.60s", listener);
}

static bool read_words(struct explanation *e, const struct invocation *inv, char name[DNS_NAME_MAX], struct fault *why)
{
    static const char *const others[] = {"token-file", "sandbox", "scope", "field"};

    if (inv->n_args)
        return fault_set(why, FAULT_USAGE, "--dns NAME is asked in place of METHOD URL");
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (option_count(inv->options, others[i]))
            return fault_set(why, FAULT_USAGE, "--%s says nothing of a DNS question", others[i]);
    e->name = option_text(inv->options, "dns");
    e->type_name = option_text(inv->options, "type");
    if (!e->type_name)
        e->type_name = "A";
    if (!dns_type_find(e->type_name, &e->type))
        return fault_set(why, FAULT_USAGE, "--type: there is no type \"%.40s\"; A, AAAA and HTTPS are some", e->type_name);
    return read_name(e->name, name, why);
}

static bool load(struct explanation *e, const char *path, struct fault *why)
{
    size_t n;
    const struct conf_section *const *sections = gateway_sections(&n);

    return (e->conf = conf_load(path, sections, n, why)) && (e->policy = policy_compile(e->conf, why)) &&
           zones_compile(e->conf, &e->zones, why);
}

/* ---- the answer ---- */

/* Those it is answered with, before each the text before; none where the porter looks them up. */
static void put_addresses(const struct explanation *e, struct buf *out, const char *first, const char *next, const char *quote)
{
    struct addr list[DNS_ADDRESSES_MAX];
    size_t n = e->verdict.kind == ZONE_ADDRESSES ? zone_addresses(e->zone, e->type, list) : 0;

    for (size_t i = 0; i < n; i++) {
        buf_text(out, i ? next : first);
        buf_text(out, quote);
        addr_ip_text(out, &list[i]);
        buf_text(out, quote);
    }
}

static const char *code_text(const struct explanation *e)
{
    return dns_code_name(zone_code(e->verdict.reason));
}

static void text_answer(const struct explanation *e, struct buf *out)
{
    const struct reason_entry *reason = reason_get(e->verdict.reason);

    buf_printf(out, "%s %s, dns.%s\n", e->name, e->type_name, e->zone->name);
    buf_append(out, buf_slice(&e->steps));
    if (e->verdict.kind == ZONE_REFUSED) {
        buf_printf(out, "\nrefused: %s (EDE %d). %s\n", reason->code, reason->ede, reason->text);
        return;
    }
    buf_text(out, "\nanswered");
    put_addresses(e, out, ": ", ", ", "");
    buf_text(out, ".\n");
}

static void json_answer(const struct explanation *e, struct buf *out)
{
    const struct zone_verdict *v = &e->verdict;

    buf_text(out, "{\"schema\":\"exeat.explain-dns/1\"");
    explain_member(out, "name", e->name);
    explain_member(out, "type", e->type_name);
    explain_member(out, "listener", e->zone->name);
    buf_printf(out, ",\"allowed\":%s", v->kind == ZONE_REFUSED ? "false" : "true");
    explain_member(out, "reason", reason_code(v->reason));
    explain_member(out, "code", code_text(e));
    buf_printf(out, ",\"ede\":%d", v->kind == ZONE_REFUSED ? reason_get(v->reason)->ede : 0);
    explain_member(out, "text", reason_get(v->reason)->text);
    explain_member(out, "detail", v->detail);
    explain_member(out, "service", v->service ? service_name(v->service) : "");
    buf_printf(out, ",\"looked_up\":%s,\"addresses\":[", v->kind == ZONE_LOOK_UP ? "true" : "false");
    put_addresses(e, out, "", ",", "\"");
    buf_text(out, "],\"steps\":[");
    buf_append(out, buf_slice(&e->steps));
    buf_text(out, "]}\n");
}

static int answer(const struct invocation *inv, const struct explanation *e)
{
    struct buf out = {0};
    int status;

    if (e->json)
        json_answer(e, &out);
    else
        text_answer(e, &out);
    status = command_print(inv, &out);
    buf_free(&out);
    if (status != STATUS_YES)
        return status;
    return e->verdict.kind == ZONE_REFUSED ? STATUS_NO : STATUS_YES;
}

int explain_dns(const struct invocation *inv)
{
    struct explanation e = {.json = inv->json};
    const struct trace trace = {on_step, &e};
    char name[DNS_NAME_MAX];
    struct dns_question q;
    struct fault why = {0};
    int status;

    if (read_words(&e, inv, name, &why) && load(&e, inv->config, &why) &&
        find_zone(&e, option_text(inv->options, "listener"), &why)) {
        q = dns_question_make(name, e.type);
        e.verdict = zone_judge(e.zone, e.policy, &q, &trace);
        status = answer(inv, &e);
    } else {
        status = command_fail(inv, &why);
    }
    zones_clear(&e.zones);
    policy_free(e.policy);
    conf_free(e.conf);
    buf_free(&e.steps);
    return status;
}
