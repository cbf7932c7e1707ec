/* `exeat token inspect`: what a token says, and what the gateway would say of it, check by check. */
#include <assert.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "authz/claims.h"
#include "authz/revocation.h"
#include "base/clock.h"
#include "base/say.h"
#include "base/text.h"
#include "cmd/token.h"

enum { CHECKS_MAX = 24 };

struct check {
    const char *name;
    enum claims_outcome outcome;
    struct fault why;
};

struct report {
    struct check checks[CHECKS_MAX];
    size_t count;
};

static void add_check(void *arg, const char *name, enum claims_outcome outcome, const struct fault *why)
{
    struct report *r = arg;

    if (r->count < CHECKS_MAX)
        r->checks[r->count++] = (struct check){name, outcome, *why};
}

static void check_revoked(struct report *r, const struct claims *c, const char *path, int64_t now_s)
{
    struct fault why = {0};
    struct revocations *revocations = NULL;
    struct identity *identity = NULL;
    enum claims_outcome outcome = CLAIMS_NOT_MADE;

    if (!c->jti || !c->sandbox || !c->issued_s)
        goto out;
    if (!(revocations = revocations_read(path, &why))) {
        say_warning("%s", why.text);
        why.reason = REASON_NONE;
        goto out;
    }
    identity = identity_make(
        &(struct identity_claims){.jti = c->jti, .sandbox = c->sandbox, .issued_s = c->issued_s}, &why);
    outcome = CLAIMS_PASSED;
    if (revocations_quarantines(revocations, identity)) {
        outcome = CLAIMS_FAILED;
        fault_reason(&why, REASON_SANDBOX_QUARANTINED, "its sandbox is in quarantine; see exeat quarantine list");
    } else if (revocations_has(revocations, identity, now_s)) {
        outcome = CLAIMS_FAILED;
        fault_reason(&why, REASON_TOKEN_REVOKED, "%s lists its jti, its sandbox, or when it was issued", path);
    }
out:
    add_check(r, "revocation", outcome, &why);
    identity_unref(identity);
    revocations_free(revocations);
}

/* What went wrong first; NULL when nothing did. */
static const struct check *first_failure(const struct report *r)
{
    for (size_t i = 0; i < r->count; i++)
        if (r->checks[i].outcome == CLAIMS_FAILED)
            return &r->checks[i];
    return NULL;
}

static int status_of(const struct report *r)
{
    if (first_failure(r))
        return STATUS_NO;
    for (size_t i = 0; i < r->count; i++)
        if (r->checks[i].outcome == CLAIMS_NOT_MADE)
            return STATUS_FAILED;
    return STATUS_YES;
}

/* ---- text ---- */

/* As it reads best, in ASCII: what a hostile token says must not move the cursor of a terminal. */
static void print_part(struct buf *out, const char *title, const json_t *value, struct slice raw)
{
    char *text = value ? json_dumps(value, JSON_INDENT(2) | JSON_ENSURE_ASCII | JSON_PRESERVE_ORDER) : NULL;

    buf_printf(out, "%s\n", title);
    if (text) {
        buf_printf(out, "%s\n\n", text);
    } else if (raw.len == 0) {
        buf_text(out, "not there\n\n");
    } else {
        buf_text(out, "not readable: ");
        text_json(out, slice_cut(raw, 0, 2000));
        buf_text(out, "\n\n");
    }
    free(text);
}

static void print_span(struct buf *out, int64_t s)
{
    if (s >= 2 * 86400)
        buf_printf(out, "%lld days", (long long)(s / 86400));
    else if (s >= 2 * 3600)
        buf_printf(out, "%lld hours", (long long)(s / 3600));
    else if (s >= 120)
        buf_printf(out, "%lld minutes", (long long)(s / 60));
    else
        buf_printf(out, "%lld s", (long long)s);
}

static void print_time(struct buf *out, const char *what, int64_t at_s, int64_t now_s)
{
    if (!at_s)
        return;
    buf_printf(out, "%-12s ", what);
    clock_rfc3339(out, at_s * 1000000000);
    buf_truncate(out, buf_len(out) - 11); /* no nanoseconds */
    buf_text(out, "Z  ");
    if (at_s > now_s)
        buf_text(out, "in ");
    print_span(out, at_s > now_s ? at_s - now_s : now_s - at_s);
    buf_text(out, at_s > now_s ? "\n" : " ago\n");
}

/* What is known of it by the checks so far; a hostile token's words stay one line. */
static void print_word(struct buf *out, const char *what, const char *text)
{
    struct buf quoted = {0};
    struct slice word;

    if (!text)
        return;
    text_json(&quoted, slice_of(text));
    word = buf_slice(&quoted);
    assert(word.len >= 2); /* its quotation marks */
    buf_printf(out, "%-12s %.*s\n", what, SLICE_ARG(slice_cut(word, 1, word.len - 1)));
    buf_free(&quoted);
}

static void print_check(struct buf *out, const struct check *c)
{
    static const char *const marks[] = {
        [CLAIMS_PASSED] = "ok", [CLAIMS_FAILED] = "REFUSED", [CLAIMS_NOT_MADE] = "not made"};

    buf_printf(out, "%-9s %-13s", marks[c->outcome], c->name);
    if (c->outcome == CLAIMS_FAILED)
        buf_printf(out, " %s: %s", reason_code(c->why.reason), c->why.text);
    else if (c->outcome == CLAIMS_PASSED && c->why.text[0])
        buf_printf(out, " %s", c->why.text);
    while (slice_ends(buf_slice(out), SLICE(" ")))
        buf_truncate(out, buf_len(out) - 1);
    buf_char(out, '\n');
}

static void print_words(struct buf *out, const struct claims *c, int64_t now_s)
{
    print_part(out, "HEADER", c->header, buf_slice(&c->header_text));
    print_part(out, "CLAIMS", c->payload, buf_slice(&c->payload_text));
    print_word(out, "issuer", c->issuer ? issuer_name(c->issuer) : NULL);
    print_word(out, "sandbox", c->sandbox);
    print_word(out, "scopes", c->scope);
    print_time(out, "issued", c->issued_s, now_s);
    print_time(out, "valid from", c->not_before_s, now_s);
    print_time(out, "expires", c->expires_s, now_s);
}

static void print_verdict(struct buf *out, const struct report *r)
{
    const struct check *failure = first_failure(r);

    buf_text(out, "\nCHECKS\n");
    for (size_t i = 0; i < r->count; i++)
        print_check(out, &r->checks[i]);
    if (failure)
        buf_printf(out, "\nThe gateway would refuse it: %s\n", reason_get(failure->why.reason)->text);
    else if (status_of(r) == STATUS_YES)
        buf_text(out, "\nThe gateway would accept it, at the listener and from the source it is bound to.\n");
    else
        buf_text(out, "\nNot every check could be made.\n");
}

/* ---- JSON ---- */

static void write_json(struct buf *out, const struct claims *c, const struct report *r)
{
    static const char *const outcomes[] = {
        [CLAIMS_PASSED] = "passed", [CLAIMS_FAILED] = "refused", [CLAIMS_NOT_MADE] = "not-made"};
    const struct check *failure = first_failure(r);
    json_t *object = json_pack("{s:s, s:O?, s:O?, s:b}", "schema", "exeat.token-inspect/1", "header", c->header,
                               "claims", c->payload, "accepted", status_of(r) == STATUS_YES);
    json_t *checks = json_array();
    char *line;

    if (c->issuer)
        json_object_set_new(object, "issuer", json_string(issuer_name(c->issuer)));
    if (c->sandbox)
        json_object_set_new(object, "sandbox", json_string(c->sandbox));
    if (c->scope)
        json_object_set_new(object, "scope", json_string(c->scope));
    if (failure)
        json_object_set_new(object, "reason", json_string(reason_code(failure->why.reason)));
    for (size_t i = 0; i < r->count; i++) {
        json_t *one = json_pack("{s:s, s:s}", "name", r->checks[i].name, "outcome", outcomes[r->checks[i].outcome]);

        if (r->checks[i].outcome == CLAIMS_FAILED)
            json_object_set_new(one, "reason", json_string(reason_code(r->checks[i].why.reason)));
        if (r->checks[i].why.text[0])
            json_object_set_new(one, "detail", json_string(r->checks[i].why.text));
        json_array_append_new(checks, one);
    }
    json_object_set_new(object, "checks", checks);
    line = json_dumps(object, JSON_COMPACT | JSON_ENSURE_ASCII);
    if (!line)
        abort();
    buf_printf(out, "%s\n", line);
    free(line);
    json_decref(object);
}

/* Without a configuration nothing can be judged, but the words can be shown. */
static int show_words_only(const struct invocation *inv, struct slice token, const struct fault *config_fault)
{
    static const struct conf_section *const none[] = {&issuers_section};
    struct conf *conf = conf_parse(SLICE(""), "", "/", none, 1, NULL);
    struct bundle *files = bundle_new();
    struct issuers *issuers = conf ? issuers_compile(conf, files, NULL) : NULL;
    struct report r = {0};
    struct claims_trace trace = {add_check, &r};
    struct claims c = {0};
    struct buf out = {0};

    if (issuers && !inv->json) {
        claims_check(&c, token, issuers, "", clock_wall_s(), &trace, NULL);
        print_words(&out, &c, clock_wall_s());
        command_print(inv, &out);
    }
    claims_clear(&c);
    issuers_free(issuers);
    bundle_free(files);
    conf_free(conf);
    buf_free(&out);
    return command_fail(inv, config_fault);
}

static int run(const struct invocation *inv)
{
    int64_t now_s = clock_wall_s();
    struct token_config config = {0};
    struct report r = {0};
    struct claims_trace trace = {add_check, &r};
    struct claims c = {0};
    struct buf token = {0}, out = {0};
    struct fault why = {0};
    int status = STATUS_USAGE;

    if (!token_read(inv->n_args ? inv->args[0] : NULL, &token, &why)) {
        status = command_fail(inv, &why);
        goto out;
    }
    if (!token_config_load(&config, inv->config, &why)) {
        status = show_words_only(inv, buf_slice(&token), &why);
        goto out;
    }
    claims_check(&c, buf_slice(&token), config.issuers, config.audience, now_s, &trace, NULL);
    check_revoked(&r, &c, config.revocations, now_s);
    if (inv->json) {
        write_json(&out, &c, &r);
    } else {
        print_words(&out, &c, now_s);
        print_verdict(&out, &r);
    }
    status = command_print(inv, &out);
    if (status == STATUS_YES)
        status = status_of(&r);
out:
    claims_clear(&c);
    token_config_clear(&config);
    buf_wipe(&token);
    buf_free(&out);
    return status;
}

const struct command token_inspect = {
    .name = "inspect",
    .summary = "what a token says, and each check the gateway would make of it",
    .arguments = "[FILE|-]",
    .max_args = 1,
    .help = "Reads the token from FILE or standard input. Header and claims are shown whatever they are worth; nothing "
            "in them is to be believed unless the signature check says ok.\n"
            "\n"
            "Exit status 1 when the gateway would refuse it, 3 when a check could not be made.\n",
    .examples = "  exeat token issue --sandbox vm1 --scope npm:read | exeat token inspect\n"
                "  exeat token inspect vm1.jwt --format json\n",
    .has_json = true,
    .run = run,
};
