/* `exeat token revoke`: tell the running gateway, or else write it down for the next one. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "authz/claims.h"
#include "authz/revocation.h"
#include "base/clock.h"
#include "base/text.h"
#include "cmd/admin.h"
#include "cmd/token.h"

struct order {
    enum revocation_kind kind;
    struct buf value;
    int64_t until_s; /* 0: for good */
};

static bool read_time(const char *text, int64_t now_s, struct order *o, struct fault *why)
{
    int64_t ns;
    uint64_t seconds;

    if (strcmp(text, "now") == 0)
        seconds = (uint64_t)now_s + 1; /* what was issued in this second too */
    else if (clock_parse(slice_of(text), &ns) && ns > 0)
        seconds = (uint64_t)(ns / 1000000000);
    else if (!slice_decimal(slice_of(text), 253402300799, &seconds))
        return fault_set(why, FAULT_USAGE,
                         "--issued-before is \"%.40s\"; expected now, 2026-01-02T03:04:05Z or seconds", text);
    if ((int64_t)seconds > now_s + 1)
        return fault_set(why, FAULT_USAGE, "--issued-before lies in the future: tokens issued until then would be "
                                           "refused as well");
    o->kind = REVOKE_ISSUED_BEFORE;
    o->until_s = 0;
    buf_decimal(&o->value, seconds);
    return true;
}

/* The jti that a token claims, whoever signed it: to revoke one too many is no harm. */
static bool read_token(const char *file, const struct token_config *c, struct order *o, struct fault *why)
{
    struct buf token = {0};
    struct claims claims = {0};
    json_t *jti, *exp;
    bool ok = token_read(file, &token, why);

    if (!ok)
        goto out;
    claims_check(&claims, buf_slice(&token), c->issuers, c->audience, clock_wall_s(), NULL, NULL);
    jti = json_object_get(claims.payload, "jti");
    exp = json_object_get(claims.payload, "exp");
    o->kind = REVOKE_JTI;
    if (!json_is_string(jti)) {
        ok = fault_set(why, FAULT_SYNTAX, "%s: not a token with a jti", file);
        goto out;
    }
    buf_text(&o->value, json_string_value(jti));
    if (o->until_s && json_is_integer(exp) && json_integer_value(exp) + 300 > o->until_s)
        o->until_s = json_integer_value(exp) + 300;
out:
    claims_clear(&claims);
    buf_wipe(&token);
    return ok;
}

static bool read_order(const struct invocation *inv, const struct token_config *c, struct order *o, struct fault *why)
{
    const char *jti = option_text(inv->options, "jti"), *sandbox = option_text(inv->options, "sandbox");
    const char *before = option_text(inv->options, "issued-before");
    int64_t now_s = clock_wall_s(), for_s = option_number(inv->options, "for", issuers_longest_s(c->issuers) * 1000);

    if ((jti != NULL) + (sandbox != NULL) + (before != NULL) + (inv->n_args > 0) != 1)
        return fault_set(why, FAULT_USAGE, "say one of --jti, --sandbox, --issued-before, or a file with the token");
    o->until_s = for_s ? now_s + (for_s + 999) / 1000 : 0;
    if (inv->n_args)
        return read_token(inv->args[0], c, o, why);
    if (before)
        return read_time(before, now_s, o, why);
    o->kind = jti ? REVOKE_JTI : REVOKE_SANDBOX;
    buf_text(&o->value, jti ? jti : sandbox);
    return revocation_check(o->kind, buf_slice(&o->value), why);
}

/* FAULT_MISSING when no gateway runs. */
static bool tell_gateway(const char *admin, const struct order *o, struct fault *why)
{
    struct buf line = {0};
    json_t *answer;

    buf_printf(&line, "{\"command\":\"revoke\",\"kind\":\"%s\",\"value\":", revocation_kind_name(o->kind));
    text_json(&line, buf_slice(&o->value));
    buf_printf(&line, ",\"until\":%lld}", (long long)o->until_s);
    answer = admin_call(admin, buf_slice(&line), why);
    buf_free(&line);
    json_decref(answer);
    return answer != NULL;
}

/* Tell the gateway, or write it down when there is none. *told says which. */
static bool carry_out(const struct token_config *c, const struct order *o, bool *told, struct fault *why)
{
    *told = c->admin && tell_gateway(c->admin, o, why);
    if (*told)
        return true;
    if (c->admin && why->kind != FAULT_MISSING)
        return false;
    return revocations_append(c->revocations, o->kind, buf_slice(&o->value), o->until_s, why);
}

static void print_done(const struct invocation *inv, const struct token_config *c, const struct order *o, bool told,
                       struct buf *out)
{
    if (inv->json) {
        buf_printf(out, "{\"schema\":\"exeat.token-revoke/1\",\"kind\":\"%s\",\"value\":",
                   revocation_kind_name(o->kind));
        text_json(out, buf_slice(&o->value));
        buf_printf(out, ",\"until\":%lld,\"by\":\"%s\"}\n", (long long)o->until_s, told ? "gateway" : "file");
        return;
    }
    buf_printf(out, "revoked %s %.*s", revocation_kind_name(o->kind), SLICE_ARG(buf_slice(&o->value)));
    if (o->until_s) {
        buf_text(out, " until ");
        clock_rfc3339(out, o->until_s * 1000000000);
        buf_truncate(out, buf_len(out) - 11);
        buf_char(out, 'Z');
    }
    if (told)
        buf_text(out, ": the running gateway holds to it from now on\n");
    else
        buf_printf(out, ": %s; written to %s, which the next gateway reads\n",
                   c->admin ? "no gateway runs" : "admin.address is not set, so no running gateway was told",
                   c->revocations);
}

static int run(const struct invocation *inv)
{
    struct token_config c = {0};
    struct order o = {0};
    struct fault why = {0};
    struct buf out = {0};
    bool told;
    int status;

    if (!token_config_load(&c, inv->config, &why))
        return command_fail(inv, &why);
    if (!read_order(inv, &c, &o, &why)) {
        status = command_fail(inv, &why);
    } else if (!carry_out(&c, &o, &told, &why)) {
        why.kind = why.kind == FAULT_REFUSED ? FAULT_IO : why.kind; /* asked for and not done: no negative answer */
        status = command_fail(inv, &why);
    } else {
        print_done(inv, &c, &o, told, &out);
        status = command_print(inv, &out);
    }
    buf_free(&o.value);
    token_config_clear(&c);
    return status;
}

const struct command token_revoke = {
    .name = "revoke",
    .summary = "refuse a token, a sandbox's tokens, or all that were issued before a time",
    .arguments = "[FILE|-]",
    .max_args = 1,
    .help = "A running gateway is told through its admin socket and cuts what is open at once, on all workers. When "
            "none runs, the revocation is written to the file `revocations` in its state directory; the output says "
            "which of the two was done.\n"
            "\n"
            "By jti (or with a file that holds the token) it lasts as long as any token can, so that it is never "
            "outlived. By sandbox, tokens issued meanwhile are refused as well; --for says how long, 0 for good.\n"
            "\n"
            "--issued-before now takes in the whole second: issue the next token a second later.\n",
    .examples = "  exeat token revoke --jti 0198c5b2-7c1f-7a41-9d7e-2f6f0a9a8057\n"
                "  exeat token revoke vm1.jwt\n"
                "  exeat token revoke --sandbox vm1 --for 1d\n"
                "  exeat token revoke --issued-before now\n",
    .options =
        (const struct option_spec[]){
            {"jti", 0, OPTION_TEXT, "ID", NULL, "the token with this jti", false, false},
            {"sandbox", 's', OPTION_TEXT, "NAME", NULL, "every token of this sandbox", false, false},
            {"issued-before", 0, OPTION_TEXT, "TIME", NULL, "every token older than that: now, a date, or seconds",
             false, false},
            {"for", 0, OPTION_TIME, "TIME", NULL, "how long; without it, as long as any token can live; 0: for good",
             false, false},
            {0},
        },
    .has_json = true,
    .run = run,
};
