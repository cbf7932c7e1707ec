/* `exeat quarantine`: nothing of a sandbox goes out, at once, until it is released. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "authz/revocation.h"
#include "base/text.h"
#include "cmd/command.h"
#include "cmd/order.h"

enum { ROOM = 20 };

/* ---- add, release ---- */

static bool is_listed(const struct order *s, struct slice sandbox, bool *listed, struct fault *why);

/* Into the file, for the next gateway. */
static bool write_down(const struct order *s, enum revocation_kind kind, const struct suspension *q, struct fault *why)
{
    bool listed = true;

    if (kind == REVOKE_RELEASE && !is_listed(s, q->name, &listed, why))
        return false;
    if (!listed)
        return fault_set(why, FAULT_REFUSED, "sandbox %.*s is not in quarantine", SLICE_ARG(q->name));
    return revocations_append_suspension(s->ledger, kind, q, why);
}

static int print_done(const struct invocation *inv, const struct order *s, enum revocation_kind kind,
                      const struct suspension *q, bool told)
{
    struct buf out = {0};

    if (inv->json) {
        buf_printf(&out, "{\"schema\":\"exeat.quarantine-%s/1\",\"sandbox\":", inv->command->name);
        text_json(&out, q->name);
        buf_printf(&out, ",\"by\":\"%s\"}\n", told ? "gateway" : "file");
        return command_print(inv, &out);
    }
    buf_printf(&out, "%s %.*s", kind == REVOKE_QUARANTINE ? "in quarantine:" : "released:", SLICE_ARG(q->name));
    if (told && kind == REVOKE_QUARANTINE)
        buf_text(&out, "; nothing of it goes out from now on, and what was open is cut\n");
    else if (told)
        buf_text(&out, "; its next requests are judged as any\n");
    else
        buf_printf(&out, "; no running gateway was told: written to %s, which the next one reads\n", s->ledger);
    return command_print(inv, &out);
}

static int change(const struct invocation *inv, enum revocation_kind kind)
{
    struct suspension q = {.name = slice_of(inv->args[0]), .by = SLICE("file"), .uid = -1};
    struct order s = {0};
    struct fault why = {0};
    json_t *answer = NULL;
    bool absent = false, ok;
    int status;

    if (kind == REVOKE_QUARANTINE)
        q.why = slice_of(option_text(inv->options, "why"));
    ok = order_open(&s, inv->config, &why) && revocation_check(kind, q.name, &why);
    if (ok && !(answer = order_give(&s, "quarantine", inv->command->name, "sandbox", &q, &absent, &why)))
        ok = absent && write_down(&s, kind, &q, &why);
    if (ok)
        status = print_done(inv, &s, kind, &q, answer != NULL);
    else
        status = command_fail(inv, &why);
    json_decref(answer);
    order_clear(&s);
    return status;
}

static int run_add(const struct invocation *inv)
{
    return change(inv, REVOKE_QUARANTINE);
}

static int run_release(const struct invocation *inv)
{
    return change(inv, REVOKE_RELEASE);
}

/* ---- list ---- */

static void gather(void *arg, const struct suspension *q)
{
    json_t *one = json_pack("{s:s%, s:s%, s:s%, s:s%}", "sandbox", q->name.ptr, q->name.len, "since", q->at.ptr,
                            q->at.len, "by", q->by.ptr, q->by.len, "why", q->why.ptr, q->why.len);

    if (one && q->uid >= 0)
        json_object_set_new(one, "uid", json_integer((json_int_t)q->uid));
    json_array_append_new(arg, one ? one : json_null());
}

/* What the file says (give); NULL and why. */
static json_t *read_ledger(const struct order *s, struct fault *why)
{
    struct revocations *r = revocations_read(s->ledger, why);
    json_t *list = r ? json_array() : NULL;

    if (r)
        revocations_each_suspension(r, REVOKE_QUARANTINE, gather, list);
    revocations_free(r);
    return list;
}

static const char *text_of(const json_t *o, const char *key)
{
    const char *text = json_string_value(json_object_get(o, key));

    return text ? text : "";
}

static bool is_listed(const struct order *s, struct slice sandbox, bool *listed, struct fault *why)
{
    json_t *list = read_ledger(s, why), *one;
    size_t i;

    *listed = false;
    json_array_foreach(list, i, one)
        *listed |= slice_is(sandbox, text_of(one, "sandbox"));
    json_decref(list);
    return list != NULL;
}

static void print_text(struct buf *out, const json_t *one)
{
    const json_t *uid = json_object_get(one, "uid");
    const char *at = text_of(one, "since");

    buf_printf(out, "%-*s  since %.19sZ by %s", ROOM, text_of(one, "sandbox"), at, text_of(one, "by"));
    if (uid)
        buf_printf(out, " (uid %lld)", (long long)json_integer_value(uid));
    buf_printf(out, "%s%s\n", *text_of(one, "why") ? ": " : "", text_of(one, "why"));
}

static void print_json(struct buf *out, json_t *one)
{
    json_t *whole = json_pack("{s:s}", "schema", "exeat.quarantine/1");
    char *line;

    json_object_update(whole, one);
    line = json_dumps(whole, JSON_COMPACT);
    buf_printf(out, "%s\n", line ? line : "");
    free(line);
    json_decref(whole);
}

static int run_list(const struct invocation *inv)
{
    struct order s = {0};
    struct fault why = {0};
    struct buf out = {0};
    json_t *answer = NULL, *list = NULL, *one;
    bool absent = false;
    int status;
    size_t i;

    if (order_open(&s, inv->config, &why) && ((answer = order_give(&s, "quarantine", "list", "sandbox", NULL, &absent, &why)) || absent))
        list = answer ? json_incref(json_object_get(answer, "sandboxes")) : read_ledger(&s, &why);
    json_array_foreach(list, i, one) {
        if (inv->json)
            print_json(&out, one);
        else
            print_text(&out, one);
    }
    if (list && !json_array_size(list) && !inv->json)
        buf_text(&out, "no sandbox is in quarantine\n");
    status = list ? command_print(inv, &out) : command_fail(inv, &why);
    buf_free(&out);
    json_decref(list);
    json_decref(answer);
    order_clear(&s);
    return status;
}

static const struct command quarantine_add = {
    .name = "add",
    .summary = "put a sandbox in quarantine",
    .arguments = "SANDBOX",
    .min_args = 1,
    .max_args = 1,
    .help = "A running gateway is told through its admin socket: every further request of the sandbox is refused "
            "(sandbox_quarantined), whatever token it shows, and its open requests and tunnels are cut, on all workers, at "
            "once. It lasts until it is released, over restarts and reloads. When no gateway runs, it is written to the file "
            "`revocations` in its state directory, which the next one reads.\n",
    .examples = "  exeat quarantine add vm1 --why \"it sent a canary\"\n",
    .options = (const struct option_spec[]){{"why", 0, OPTION_TEXT, "TEXT", NULL, "for whoever finds it there", false, false}, {0}},
    .has_json = true,
    .run = run_add,
};

static const struct command quarantine_release = {
    .name = "release",
    .summary = "let a sandbox out of quarantine",
    .arguments = "SANDBOX",
    .min_args = 1,
    .max_args = 1,
    .help = "Its tokens that have not expired, and were not revoked, are good again: revoke them first (exeat token revoke "
            "--sandbox) when somebody else may have them.\n\n"
            "Exit status: 1 when it was not in quarantine.\n",
    .examples = "  exeat quarantine release vm1\n",
    .has_json = true,
    .run = run_release,
};

static const struct command quarantine_list = {
    .name = "list",
    .summary = "the sandboxes in quarantine: since when, by whom, why",
    .help = "\"by gateway\" says that nobody ordered it: the sandbox had a request in flight at three crashes of a worker within "
            "an hour.\n",
    .examples = "  exeat quarantine list\n",
    .has_json = true,
    .run = run_list,
};

const struct command command_quarantine = {
    .name = "quarantine",
    .summary = "let nothing of a sandbox out, at once, until it is released",
    .topic = TOPIC_LEAVE,
    .subcommands = (const struct command *const[]){&quarantine_list, &quarantine_add, &quarantine_release, NULL},
};
