/* `exeat service`: close a listed service by hand, at once, and open it again; which are open, and why others are not. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "authz/revocation.h"
#include "base/clock.h"
#include "base/say.h"
#include "base/text.h"
#include "cmd/command.h"
#include "cmd/order.h"
#include "proxy/config.h"
#include "proxy/standing.h"

enum { ROOM = 20 };

static const char *text_of(const json_t *o, const char *key)
{
    const char *text = json_string_value(json_object_get(o, key));

    return text ? text : "";
}

/* ---- when no gateway runs: the configuration, and the file that the next gateway reads ---- */

/* What a gateway that starts now would say (give); NULL and why. */
static json_t *read_list(const struct invocation *inv, const struct order *o, struct fault *why)
{
    struct gateway_config *c = gateway_config_load(inv->config, why);
    struct revocations *r = c ? revocations_read(o->ledger, why) : NULL;
    json_t *answer = r ? standing_list(c->policy, r, clock_wall_s()) : NULL;

    revocations_free(r);
    gateway_config_free(c);
    return answer;
}

/* Into the file, with the answer a gateway would give (give); NULL and why. */
static json_t *write_down(const struct invocation *inv, const struct order *o, enum revocation_kind kind, const struct suspension *c, struct fault *why)
{
    struct gateway_config *config = gateway_config_load(inv->config, why);
    struct revocations *r = config ? revocations_read(o->ledger, why) : NULL;
    const struct service *s = NULL;
    struct fault unlisted = {0};
    json_t *answer = NULL;

    if (!r)
        goto out;
    s = standing_find(config->policy, inv->args[0], &unlisted);
    if (kind == REVOKE_CLOSE && !s)
        *why = unlisted;
    else if (kind == REVOKE_OPEN && !revocations_suspends(r, kind, c->name))
        fault_set(why, FAULT_REFUSED, "service %.*s was not closed by hand; see: exeat service list", SLICE_ARG(c->name));
    else if (revocations_append_suspension(o->ledger, kind, c, why))
        answer = standing_of(s, clock_wall_s());
out:
    revocations_free(r);
    gateway_config_free(config);
    return answer;
}

/* ---- close, open ---- */

static void print_opened(struct buf *out, const char *name, const json_t *answer)
{
    if (json_is_true(json_object_get(answer, "open")))
        buf_printf(out, "%s is open%s%s%s\n", name, *text_of(answer, "waived") ? " (audit " : "", text_of(answer, "waived"), *text_of(answer, "waived") ? ")" : "");
    else
        buf_printf(out, "%s is not closed by hand any more, but it stays closed: %s; this opens no service without an audit: exeat audit %s --attest\n", name,
                   text_of(answer, "why"), name);
}

static int print_done(const struct invocation *inv, const struct order *o, enum revocation_kind kind, const json_t *answer, bool told)
{
    const char *name = inv->args[0];
    bool open = kind == REVOKE_OPEN && json_is_true(json_object_get(answer, "open"));
    struct buf out = {0};
    int status;

    if (inv->json) {
        buf_printf(&out, "{\"schema\":\"exeat.service-%s/1\",\"service\":", inv->command->name);
        text_json(&out, slice_of(name));
        buf_printf(&out, ",\"open\":%s,\"why\":", open ? "true" : "false");
        text_json(&out, slice_of(kind == REVOKE_CLOSE ? "closed by hand" : text_of(answer, "why")));
        buf_printf(&out, ",\"by\":\"%s\"}\n", told ? "gateway" : "file");
    } else if (kind == REVOKE_OPEN) {
        print_opened(&out, name, answer);
    } else {
        buf_printf(&out, "%s is closed%s\n", name, told ? "; nothing goes there from now on, and what was open is cut" : "");
    }
    if (!told && !inv->quiet)
        say_note("no running gateway was told: written to %s, which the next one reads", o->ledger);
    status = command_print(inv, &out);
    return status == STATUS_YES && kind == REVOKE_OPEN && !open ? STATUS_NO : status;
}

static int change(const struct invocation *inv, enum revocation_kind kind)
{
    struct suspension c = {.name = slice_of(inv->args[0]), .by = SLICE("file"), .uid = -1};
    struct order o = {0};
    struct fault why = {0};
    json_t *answer = NULL;
    bool absent = false;
    int status;

    if (kind == REVOKE_CLOSE)
        c.why = slice_of(option_text(inv->options, "reason"));
    if (order_open(&o, inv->config, &why) && revocation_check(kind, c.name, &why) &&
        !(answer = order_give(&o, "service", inv->command->name, "service", &c, &absent, &why)) && absent)
        answer = write_down(inv, &o, kind, &c, &why);
    status = answer ? print_done(inv, &o, kind, answer, !absent) : command_fail(inv, &why);
    json_decref(answer);
    order_clear(&o);
    return status;
}

static int run_close(const struct invocation *inv)
{
    return change(inv, REVOKE_CLOSE);
}

static int run_open(const struct invocation *inv)
{
    return change(inv, REVOKE_OPEN);
}

/* ---- list ---- */

static json_t *closed_by_hand(const json_t *answer, const char *name)
{
    json_t *one;
    size_t i;

    json_array_foreach(json_object_get(answer, "closed"), i, one)
        if (strcmp(text_of(one, "service"), name) == 0)
            return one;
    return NULL;
}

static void print_text(struct buf *out, const json_t *service, const json_t *closed)
{
    const json_t *uid = json_object_get(closed, "uid");
    bool open = json_is_true(json_object_get(service, "open"));

    buf_printf(out, "%-*s  ", ROOM, text_of(closed ? closed : service, "service"));
    if (closed) {
        buf_printf(out, "closed  by hand since %.19sZ by %s", text_of(closed, "since"), text_of(closed, "by"));
        if (uid)
            buf_printf(out, " (uid %lld)", (long long)json_integer_value(uid));
        buf_printf(out, "%s%s", *text_of(closed, "why") ? ": " : "", text_of(closed, "why"));
        if (!service)
            buf_text(out, " (no service of the configuration)");
        else if (!open)
            buf_printf(out, "; and by its audit: %s", text_of(service, "why"));
    } else if (!open) {
        buf_printf(out, "closed  %s", text_of(service, "why"));
    } else {
        buf_printf(out, "open    %s%s", *text_of(service, "waived") ? "audit " : "it passed its last audit", text_of(service, "waived"));
    }
    buf_char(out, '\n');
}

static void print_json(struct buf *out, const json_t *service, json_t *closed)
{
    json_t *one = json_pack("{s:s, s:s, s:b, s:s, s:s, s:O?}", "schema", "exeat.service/1", "service", text_of(closed ? closed : service, "service"),
                            "open", !closed && json_is_true(json_object_get(service, "open")), "why", text_of(service, "why"), "waived",
                            text_of(service, "waived"), "closed", closed);
    char *line = json_dumps(one, JSON_COMPACT);

    buf_printf(out, "%s\n", line ? line : "");
    free(line);
    json_decref(one);
}

static void print_one(const struct invocation *inv, struct buf *out, const json_t *service, json_t *closed)
{
    if (inv->json)
        print_json(out, service, closed);
    else
        print_text(out, service, closed);
}

static void print_list(const struct invocation *inv, struct buf *out, const json_t *answer)
{
    json_t *one, *listed;
    size_t i, j;

    json_array_foreach(json_object_get(answer, "services"), i, one)
        print_one(inv, out, one, closed_by_hand(answer, text_of(one, "service")));
    json_array_foreach(json_object_get(answer, "closed"), i, one) {
        bool found = false;

        json_array_foreach(json_object_get(answer, "services"), j, listed)
            found |= strcmp(text_of(listed, "service"), text_of(one, "service")) == 0;
        if (!found)
            print_one(inv, out, NULL, one);
    }
}

static int run_list(const struct invocation *inv)
{
    struct order o = {0};
    struct fault why = {0};
    struct buf out = {0};
    json_t *answer = NULL;
    bool absent = false;
    int status;

    if (order_open(&o, inv->config, &why) && !(answer = order_give(&o, "service", "list", "service", NULL, &absent, &why)) && absent)
        answer = read_list(inv, &o, &why);
    if (answer)
        print_list(inv, &out, answer);
    status = answer ? command_print(inv, &out) : command_fail(inv, &why);
    buf_free(&out);
    json_decref(answer);
    order_clear(&o);
    return status;
}

static const struct command service_close = {
    .name = "close",
    .summary = "let nothing go to a service, at once, until it is opened",
    .arguments = "NAME",
    .min_args = 1,
    .max_args = 1,
    .help = "A running gateway is told through its admin socket: every further request to the service is refused (service_closed), and "
            "open requests and tunnels to it are cut, on all workers, at once; nothing is dialled there and no credential is granted for "
            "it. It lasts until it is opened, over restarts and reloads, whatever its audits say and whether or not they are waived. "
            "When no gateway runs, it is written to the file `revocations` in its state directory, which the next one reads.\n\n"
            "NAME is that of the service in the configuration. Who closes it again adds a reason; since when, and by whom, stays. The record is of kind revocation, with who ordered it.\n",
    .examples = "  exeat service close npm --reason \"it relays search text, ticket 131\"\n",
    .options = (const struct option_spec[]){{.name = "reason", .type = OPTION_TEXT, .value = "TEXT", .help = "for whoever finds it closed"}, {0}},
    .has_json = true,
    .run = run_close,
};

static const struct command service_open = {
    .name = "open",
    .summary = "open a service that was closed by hand",
    .arguments = "NAME",
    .min_args = 1,
    .max_args = 1,
    .help = "From then on it is what its audit says: this never opens a service that lacks one (handoff_unattested), and says so.\n\n"
            "Exit status: 1 when it was not closed by hand, or when it stays closed for want of an audit that passed.\n",
    .examples = "  exeat service open npm\n",
    .has_json = true,
    .run = run_open,
};

static const struct command service_list = {
    .name = "list",
    .summary = "the listed services: which are open, and why others are not",
    .examples = "  exeat service list\n",
    .has_json = true,
    .run = run_list,
};

const struct command command_service = {
    .name = "service",
    .summary = "close a listed service at once, and open it again",
    .topic = TOPIC_POLICY,
    .subcommands = (const struct command *const[]){&service_list, &service_close, &service_open, NULL},
};
