/* `exeat status`: what the running gateway says of itself, through the admin socket. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cmd/admin.h"
#include "cmd/command.h"
#include "proxy/config.h"
#include "proxy/counters.h"

#define REQUEST "{\"command\":\"status\"}"

/* ---- text ---- */

static const char *text_of(const json_t *o, const char *key)
{
    const char *text = json_string_value(json_object_get(o, key));

    return text ? text : "?";
}

static long long number_of(const json_t *o, const char *key)
{
    return (long long)json_integer_value(json_object_get(o, key));
}

static void print_uptime(struct buf *out, long long s)
{
    if (s >= 86400)
        buf_printf(out, "%lld d %lld h", s / 86400, s % 86400 / 3600);
    else if (s >= 3600)
        buf_printf(out, "%lld h %lld min", s / 3600, s % 3600 / 60);
    else if (s >= 60)
        buf_printf(out, "%lld min %lld s", s / 60, s % 60);
    else
        buf_printf(out, "%lld s", s);
}

static void print_head(struct buf *out, const json_t *status)
{
    bool open = json_is_true(json_object_get(json_object_get(status, "journal"), "open"));
    const json_t *reload = json_object_get(status, "reload");

    buf_printf(out, "%s: exeat %s, policy generation %lld, up ",
               json_is_true(json_object_get(status, "ready")) ? "ready" : "NOT READY", text_of(status, "version"),
               number_of(status, "generation"));
    print_uptime(out, number_of(status, "uptime_s"));
    buf_printf(out, "\njournal %s\n", open ? "open" : "CLOSED: nothing leaves until it accepts records again");
    if (json_is_false(json_object_get(reload, "ok")))
        buf_printf(out, "last reload REFUSED: %s\n", text_of(reload, "error"));
}

static void print_role(struct buf *out, const json_t *role)
{
    const char *name = text_of(role, "role");
    struct buf label = {0};

    buf_text(&label, name);
    if (strcmp(name, "worker") == 0)
        buf_printf(&label, " %lld", number_of(role, "index"));
    buf_printf(out, "%-12.*s %-9s %8lld %10lld %9lld %8lld\n", SLICE_ARG(buf_slice(&label)), text_of(role, "state"),
               number_of(role, "pid"), number_of(role, "uid"), number_of(role, "restarts"),
               number_of(json_object_get(role, "cell"), "refused"));
    if (json_string_length(json_object_get(role, "trouble")))
        buf_printf(out, "  %s\n", text_of(role, "trouble"));
    buf_free(&label);
}

static void print_roles(struct buf *out, const json_t *status)
{
    const json_t *role;
    size_t i;

    buf_printf(out, "\n%-12s %-9s %8s %10s %9s %8s\n", "ROLE", "STATE", "PID", "UID", "RESTARTS", "REFUSED");
    json_array_foreach(json_object_get(status, "roles"), i, role)
        print_role(out, role);
}

/* One line for each kind of role: what it may not, and by what walls. */
static void print_cell(struct buf *out, const json_t *role)
{
    const json_t *cell = json_object_get(role, "cell"), *wall;
    size_t i;

    buf_printf(out, "%-12s %s", text_of(role, "role"), text_of(cell, "may_not"));
    json_array_foreach(json_object_get(cell, "missing"), i, wall)
        buf_printf(out, "%s%s", i ? ", " : " (not held by: ", json_string_value(wall));
    buf_text(out, json_array_size(json_object_get(cell, "missing")) ? ")\n" : "\n");
}

/* It has no cell; what it keeps of root's powers is how tight it is. */
static void print_supervisor(struct buf *out, const json_t *supervisor)
{
    const json_t *powers = json_object_get(supervisor, "powers"), *power;
    size_t i;

    buf_printf(out, "%-12s %s", "supervisor", json_array_size(powers) ? "use other powers of root than" : "use any power of root\n");
    json_array_foreach(powers, i, power)
        buf_printf(out, "%s %s", i ? "," : "", json_string_value(power));
    buf_text(out, json_array_size(powers) ? "\n" : "");
}

static void print_cells(struct buf *out, const json_t *status)
{
    const json_t *role;
    const char *before = "";
    size_t i;

    buf_printf(out, "\n%-12s MAY NOT\n", "ROLE");
    print_supervisor(out, json_object_get(status, "supervisor"));
    json_array_foreach(json_object_get(status, "roles"), i, role) {
        if (strcmp(before, text_of(role, "role")) != 0)
            print_cell(out, role);
        before = text_of(role, "role");
    }
}

/* What was refused, where anything was. */
static void print_refusals(struct buf *out, const json_t *role)
{
    const json_t *cell = json_object_get(role, "cell");
    const char *what;
    json_t *times;

    if (!number_of(cell, "refused"))
        return;
    buf_printf(out, "refused: %s %lld:", text_of(role, "role"), number_of(role, "index"));
    json_object_foreach(json_object_get(cell, "refusals"), what, times)
        buf_printf(out, " %s %lld", what, (long long)json_integer_value(times));
    buf_printf(out, "; ended for it %lld times\n", number_of(cell, "ended"));
}

static void print_listeners(struct buf *out, const json_t *status)
{
    const json_t *listener;
    size_t i;

    buf_printf(out, "\n%-12s ADDRESS\n", "LISTENER");
    json_array_foreach(json_object_get(status, "listeners"), i, listener)
        buf_printf(out, "%-12s %s\n", text_of(listener, "name"), text_of(listener, "address"));
}

/* Without "exeat_" in front and "_total" behind: here a person reads. */
static void print_counters(struct buf *out, const json_t *status)
{
    const json_t *counters = json_object_get(status, "counters");

    buf_text(out, "\nCOUNTER\n");
    for (int c = 0; c < N_COUNTERS; c++) {
        struct slice name = slice_from(slice_of(counter_name((enum counter)c)), strlen("exeat_"));

        if (c == COUNTER_JOURNAL_OPEN)
            continue;
        if (slice_ends(name, SLICE("_total")))
            name = slice_cut(name, 0, name.len - strlen("_total"));
        buf_printf(out, "%-28.*s %14lld\n", SLICE_ARG(name), number_of(counters, counter_name((enum counter)c)));
    }
}

static void print_quarantined(struct buf *out, const json_t *one)
{
    const char *why = json_string_value(json_object_get(one, "why"));

    buf_printf(out, "quarantine: sandbox %s, since %.19sZ, by %s%s%s\n", text_of(one, "sandbox"), text_of(one, "since"),
               text_of(one, "by"), why && *why ? ": " : "", why ? why : "");
}

static void print_closed_by_hand(struct buf *out, const json_t *one)
{
    const char *why = json_string_value(json_object_get(one, "why"));

    buf_printf(out, "warning: service %s is closed: by hand, since %.19sZ, by %s%s%s\n", text_of(one, "service"), text_of(one, "since"),
               text_of(one, "by"), why && *why ? ": " : "", why ? why : "");
}

/* Whose keys are away: its tokens are refused, now or at some time. */
static void print_issuer(struct buf *out, const json_t *issuer)
{
    const char *error = text_of(issuer, "error");
    bool good = json_is_true(json_object_get(issuer, "good"));

    if (good && !*error)
        return;
    buf_printf(out, "warning: issuer %s", text_of(issuer, "issuer"));
    if (!good)
        buf_text(out, number_of(issuer, "fetched") ? " is closed, its keys are too old" : " is closed, its keys were not fetched yet");
    if (*error)
        buf_printf(out, "%s%s: %s", good ? "'s keys cannot be fetched from " : "; ", text_of(issuer, "uri"), error);
    if (good) {
        buf_text(out, "; those that are here are good until ");
        clock_rfc3339(out, (int64_t)number_of(issuer, "until") * 1000000000);
        buf_truncate(out, buf_len(out) - 11); /* no nanoseconds */
        buf_char(out, 'Z');
    }
    buf_char(out, '\n');
}

/* Clients that cannot work at all, and say so only to themselves. */
static void print_distrust(struct buf *out, const json_t *status)
{
    long long n = number_of(json_object_get(status, "counters"), counter_name(COUNTER_UNKNOWN_CA));

    if (n)
        buf_printf(out, "warning: %lld handshake%s ended by clients that do not trust the gateway's CA; who they are: exeat log query "
                        "--reason client_unknown_ca; mend it there: exeat env, exeat doctor\n",
                   n, n == 1 ? " was" : "s were");
}

static void print_remarks(struct buf *out, const json_t *status)
{
    const json_t *item;
    size_t i;

    if (json_array_size(json_object_get(status, "notes")) || json_array_size(json_object_get(status, "issuers")) || json_array_size(json_object_get(status, "waived")) ||
        json_array_size(json_object_get(status, "closed")) || json_array_size(json_object_get(status, "closed_by_hand")) ||
        json_array_size(json_object_get(status, "quarantined")))
        buf_char(out, '\n');
    json_array_foreach(json_object_get(status, "quarantined"), i, item)
        print_quarantined(out, item);
    json_array_foreach(json_object_get(status, "roles"), i, item)
        print_refusals(out, item);
    json_array_foreach(json_object_get(status, "issuers"), i, item)
        print_issuer(out, item);
    print_distrust(out, status);
    json_array_foreach(json_object_get(status, "notes"), i, item)
        buf_printf(out, "note: %s\n", json_is_string(item) ? json_string_value(item) : "?");
    json_array_foreach(json_object_get(status, "closed_by_hand"), i, item)
        print_closed_by_hand(out, item);
    json_array_foreach(json_object_get(status, "closed"), i, item)
        if (!json_is_true(json_object_get(item, "by_hand")))
            buf_printf(out, "warning: service %s is closed: %s\n", text_of(item, "service"), text_of(item, "why"));
    json_array_foreach(json_object_get(status, "waived"), i, item)
        buf_printf(out, "warning: service %s is open without an audit (%s)\n", text_of(item, "service"),
                   text_of(item, "audit"));
}

static void print_text(struct buf *out, const json_t *status)
{
    print_head(out, status);
    print_roles(out, status);
    print_cells(out, status);
    print_listeners(out, status);
    print_counters(out, status);
    print_remarks(out, status);
}

static void print_json(struct buf *out, const json_t *status)
{
    json_t *whole = json_pack("{s:s}", "schema", "exeat.status/1");
    char *line;

    json_object_update(whole, (json_t *)status);
    line = json_dumps(whole, JSON_COMPACT);
    buf_text(out, line ? line : "");
    buf_char(out, '\n');
    free(line);
    json_decref(whole);
}

/* ---- the command ---- */

/* Read without the files it names: who asks for the status need not be able to read keys. */
static struct conf *read_config(const struct invocation *inv, struct fault *why)
{
    size_t n;
    const struct conf_section *const *sections = gateway_sections(&n);

    return conf_load(inv->config, sections, n, why);
}

/* The answer (give), or NULL and why. */
static json_t *ask(const struct invocation *inv, const struct conf *conf, struct fault *why)
{
    const char *address = conf_text(conf_section(conf, "admin"), "address");
    json_t *answer;

    if (!address || !*address) {
        fault_set(why, FAULT_USAGE, "%s has no admin.address: without that socket nobody can ask", inv->config);
        return NULL;
    }
    answer = admin_call(address, SLICE(REQUEST), why);
    if (!answer && why->kind == FAULT_MISSING)
        fault_set(why, FAULT_MISSING, "no gateway answers on %s; start it: exeat serve -c %s", address, inv->config);
    return answer;
}

static int run(const struct invocation *inv)
{
    struct fault why = {0};
    struct conf *conf = read_config(inv, &why);
    json_t *answer = conf ? ask(inv, conf, &why) : NULL, *status = json_object_get(answer, "status");
    struct buf out = {0};
    int result = STATUS_FAILED;

    if (!conf || !answer) {
        result = command_fail(inv, &why);
        if (conf && why.kind != FAULT_USAGE)
            result = STATUS_FAILED;
        goto out;
    }
    if (inv->json)
        print_json(&out, status);
    else
        print_text(&out, status);
    result = command_print(inv, &out);
    if (result == STATUS_YES && !json_is_true(json_object_get(status, "ready")))
        result = STATUS_NO;
out:
    buf_free(&out);
    json_decref(answer);
    conf_free(conf);
    return result;
}

const struct command command_status = {
    .name = "status",
    .summary = "whether the gateway is ready, and what its processes do",
    .help = "Asks the running gateway through its admin socket: roles with process, user and restarts, what each may not "
            "do and how often it was refused something, whether the journal accepts records, listeners, counters, and what "
            "stands open or is switched off. A role that was refused anything may have been taken over: exeat log query "
            "--kind finding has the records.\n\n"
            "Exit status: 0 ready; 1 running, but not ready; 3 no gateway answers.",
    .examples = "exeat status\nexeat status --format json | jq .roles",
    .topic = TOPIC_GATEWAY,
    .has_json = true,
    .run = run,
};
