/* `exeat explain`: the decision about one request, step by step, from the function that decides them all. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "authz/field.h"
#include "authz/token.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/say.h"
#include "base/secret.h"
#include "base/text.h"
#include "cmd/command.h"
#include "cmd/explain.h"
#include "handoff/attestation.h"
#include "proxy/config.h"
#include "proxy/keyring.h"
#include "proxy/listen_check.h"

enum { STEP_COLUMN = 22 };

/* One explanation while it is made. */
struct explanation {
    struct conf *conf;
    struct policy *policy;
    struct revocations *revocations; /* of the state directory; NULL: they cannot be read */
    struct identity *identity; /* NULL: no token */
    struct field *fields;      /* of --field */
    size_t n_fields;
    const char *method, *url;
    struct decision decision; /* the last one made */
    bool json, colour;
    const char *step_method, *step_target; /* whose steps are being taken */
    struct buf steps;                      /* as they will be printed */
};

/* ---- one step after the other ---- */

static void begin_request(struct explanation *e, const char *method, const char *target)
{
    e->step_method = method;
    e->step_target = target;
    if (!e->json)
        buf_printf(&e->steps, "%s%s %s\n", buf_len(&e->steps) ? "\n" : "", method, target);
}

static void json_step(struct explanation *e, const char *name, bool ok, const char *detail)
{
    buf_text(&e->steps, buf_len(&e->steps) ? ",{\"method\":" : "{\"method\":");
    text_json(&e->steps, slice_of(e->step_method));
    buf_text(&e->steps, ",\"target\":");
    text_json(&e->steps, slice_of(e->step_target));
    buf_text(&e->steps, ",\"step\":");
    text_json(&e->steps, slice_of(name));
    buf_printf(&e->steps, ",\"ok\":%s,\"detail\":", ok ? "true" : "false");
    text_json(&e->steps, slice_of(detail));
    buf_char(&e->steps, '}');
}

static void on_step(void *arg, const char *name, bool ok, const char *detail)
{
    struct explanation *e = arg;
    const char *on = !e->colour ? "" : ok ? "\033[32m" : "\033[31m", *off = e->colour ? "\033[0m" : "";

    if (e->json)
        json_step(e, name, ok, detail);
    else
        buf_printf(&e->steps, "  %s%-3s%s  %-*s  %s\n", on, ok ? "yes" : "no", off, STEP_COLUMN, name, detail);
}

/* What was refused before authorize() could look. */
static void refuse(struct explanation *e, const char *step, const struct fault *why)
{
    e->decision = (struct decision){.reason = why->reason};
    snprintf(e->decision.detail, sizeof e->decision.detail, "%.*s", (int)sizeof e->decision.detail - 1, why->text);
    on_step(e, step, false, why->text);
}

static bool judge(struct explanation *e, struct request *r)
{
    const struct trace trace = {on_step, e};

    e->decision = authorize(e->policy, e->identity, r, clock_wall_s(), &trace);
    return e->decision.allowed;
}

/* The CONNECT that an https URL needs first. */
static bool judge_tunnel(struct explanation *e, const struct request *inner)
{
    struct request r = {.connect = true, .method = SLICE("CONNECT"), .port = inner->port};
    char target[NAME_MAX_LEN + 8];

    memcpy(r.host, inner->host, sizeof r.host);
    snprintf(target, sizeof target, "%s:%u", r.host, r.port);
    begin_request(e, "CONNECT", target);
    return judge(e, &r);
}

static void explain(struct explanation *e)
{
    struct head head = {.fields = e->fields, .n_fields = e->n_fields};
    struct request r = {0};
    struct fault why = {0};

    if (!request_from_url(&r, slice_of(e->method), slice_of(e->url), &why)) {
        begin_request(e, e->method, e->url);
        refuse(e, "request", &why);
    } else if (r.connect || r.scheme == SCHEME_HTTP || judge_tunnel(e, &r)) {
        r.head = &head;
        begin_request(e, e->method, e->url);
        judge(e, &r);
    }
    request_clear(&r);
}

/* ---- who asks ---- */

static struct identity *make_identity(const struct invocation *inv, struct fault *why)
{
    const char *scope = option_text(inv->options, "scope");
    int64_t now_s = clock_wall_s();
    const struct identity_claims claims = {
        .sandbox = option_text(inv->options, "sandbox"),
        .issuer = "explain",
        .issuer_name = "(assumed)",
        .scope = scope,
        .issued_s = now_s,
        .expires_s = now_s + 60,
    };

    return identity_make(&claims, why);
}

static struct secret *read_token(const char *path, struct fault *why)
{
    struct buf text = {0};
    struct secret *token = NULL;

    if (strcmp(path, "-") != 0)
        return secret_read_file(path, TOKEN_CREDENTIAL_MAX, why);
    if (file_read_fd(STDIN_FILENO, "standard input", TOKEN_CREDENTIAL_MAX, &text, why)) {
        struct slice s = buf_slice(&text);

        token = secret_new(slice_ends(s, SLICE("\n")) ? slice_cut(s, 0, s.len - 1) : s);
    }
    buf_wipe(&text);
    return token;
}

static struct revocations *read_revocations(const struct conf *c, struct fault *why)
{
    char *path = file_join(conf_text(conf_section(c, "gateway"), "state"), "revocations");
    struct revocations *r = revocations_read(path, why);

    free(path);
    return r;
}

/*
 * The verifier of the workers, for one token. False when it could not be asked; when it was and refused, the first step
 * says so and e->identity stays NULL.
 */
static bool verify(struct explanation *e, const struct invocation *inv, struct slice token, struct fault *why)
{
    const struct token_context context = {.listener = option_text(inv->options, "listener"), .now_s = clock_wall_s()};
    struct bundle *files = bundle_new();
    struct revocations *revocations = NULL;
    struct issuers *issuers = NULL;
    struct verifier *v = NULL;
    struct fault refused = {0};
    bool ok = false;

    if (!issuers_read_files(e->conf, files, why) || !(issuers = issuers_compile(e->conf, files, why)) ||
        !keyring_apply_stored(e->conf, issuers, why) || !(revocations = read_revocations(e->conf, why)))
        goto out;
    v = verifier_new(issuers, conf_text(conf_section(e->conf, "gateway"), "name"), revocations, 1);
    if (!(e->identity = verifier_check(v, token, &context, &refused))) {
        begin_request(e, e->method, e->url);
        refuse(e, "token", &refused);
    }
    ok = true;
out:
    verifier_free(v);
    issuers_free(issuers);
    revocations_free(revocations);
    bundle_free(files);
    return ok;
}

/* Of a sandbox that is only named: the file says it, when we may read it. */
static void look_for_quarantine(struct explanation *e)
{
    struct fault why = {0};

    if (e->revocations && revocations_quarantines(e->revocations, e->identity)) {
        fault_reason(&why, REASON_SANDBOX_QUARANTINED, "sandbox %.64s is in quarantine", identity_sandbox(e->identity));
        begin_request(e, e->method, e->url);
        refuse(e, "quarantine", &why);
        identity_unref(e->identity);
        e->identity = NULL;
    }
}

static bool identify(struct explanation *e, const struct invocation *inv, struct fault *why)
{
    const char *path = option_text(inv->options, "token-file");
    struct secret *token = NULL;
    bool ok = true;

    if (path) {
        ok = (token = read_token(path, why)) && verify(e, inv, secret_slice(token), why);
    } else if (option_text(inv->options, "sandbox")) {
        ok = (e->identity = make_identity(inv, why)) != NULL;
        if (ok)
            look_for_quarantine(e);
    }
    secret_free(token);
    return ok;
}

/* ---- the answer ---- */

static bool is_dropped(const struct explanation *e, size_t field)
{
    return e->decision.allowed && !service_forwards_field(e->decision.service, e->fields[field].name);
}

static void text_dropped(const struct explanation *e, struct buf *out)
{
    const char *before = "not forwarded: ";

    for (size_t i = 0; i < e->n_fields; i++)
        if (is_dropped(e, i)) {
            buf_printf(out, "%s%.*s", before, SLICE_ARG(e->fields[i].name));
            before = ", ";
        }
    if (*before == ',')
        buf_char(out, '\n');
}

static void json_dropped(const struct explanation *e, struct buf *out)
{
    const char *before = "";

    buf_text(out, ",\"not_forwarded\":[");
    for (size_t i = 0; i < e->n_fields; i++)
        if (is_dropped(e, i)) {
            buf_text(out, before);
            text_json(out, e->fields[i].name);
            before = ",";
        }
    buf_char(out, ']');
}

static void text_edges(const struct service *s, struct buf *out)
{
    if (!service_enforces_edges(s))
        return;
    buf_text(out, "Its answers may send the client on to its own hosts");
    for (size_t i = 0; service_destination(s, i); i++) {
        const struct destination *d = service_destination(s, i);

        buf_printf(out, ", %s%s", d->plain ? "http://" : "", d->host);
        if (d->port)
            buf_printf(out, ":%u", (unsigned)d->port);
    }
    buf_text(out, "; others are refused (handoff-edges: enforce).\n");
}

static void text_answer(const struct explanation *e, struct buf *out)
{
    const struct decision *d = &e->decision;
    const struct reason_entry *reason = reason_get(d->reason);
    const char *on = !e->colour ? "" : d->allowed ? "\033[1;32m" : "\033[1;31m", *off = e->colour ? "\033[0m" : "";

    buf_append(out, buf_slice(&e->steps));
    if (!d->allowed) {
        buf_printf(out, "\n%sdenied%s: %s (%d). %s\n", on, off, reason->code, reason->status, reason->text);
        return;
    }
    buf_printf(out, "\n%sallowed%s by service %s", on, off, service_name(d->service));
    if (d->observed)
        buf_text(out, ", which observes: no rule allows this, and the record will say so");
    else if (d->rule[0])
        buf_printf(out, ", rule \"%s\"", d->rule);
    buf_text(out, strcmp(e->method, "CONNECT") == 0 ? ". Each request inside is judged by itself.\n" : ".\n");
    text_dropped(e, out);
    text_edges(d->service, out);
}

void explain_member(struct buf *out, const char *name, const char *value)
{
    buf_printf(out, ",\"%s\":", name);
    text_json(out, slice_of(value));
}

static void json_answer(const struct explanation *e, struct buf *out)
{
    const struct decision *d = &e->decision;

    buf_text(out, "{\"schema\":\"exeat.explain/1\"");
    explain_member(out, "method", e->method);
    explain_member(out, "url", e->url);
    explain_member(out, "sandbox", e->identity ? identity_sandbox(e->identity) : "");
    buf_printf(out, ",\"allowed\":%s", d->allowed ? "true" : "false");
    explain_member(out, "reason", reason_code(d->reason));
    buf_printf(out, ",\"status\":%d", reason_get(d->reason)->status);
    explain_member(out, "text", reason_get(d->reason)->text);
    explain_member(out, "detail", d->detail);
    explain_member(out, "service", d->service ? service_name(d->service) : "");
    explain_member(out, "rule", d->rule);
    buf_printf(out, ",\"observed\":%s", d->observed ? "true" : "false");
    if (d->service)
        explain_member(out, "handoff_edges", service_enforces_edges(d->service) ? "enforce" : "observe");
    json_dropped(e, out);
    buf_text(out, ",\"steps\":[");
    buf_append(out, buf_slice(&e->steps));
    buf_text(out, "]}\n");
}

static void hint(const struct explanation *e)
{
    if (e->decision.reason == REASON_TOKEN_MISSING)
        say_note("add --token-file FILE, or --sandbox NAME --scope \"...\" to judge it as if a token came along");
}

static int answer(const struct invocation *inv, struct explanation *e)
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
    hint(e);
    return e->decision.allowed ? STATUS_YES : STATUS_NO;
}

/* ---- the command ---- */

static bool read_fields(struct explanation *e, const struct option_set *options, struct fault *why)
{
    size_t n = option_count(options, "field");

    if (!(e->fields = calloc(n + 1, sizeof *e->fields)))
        abort();
    for (; e->n_fields < n; e->n_fields++) {
        struct slice value = slice_of(option_text_at(options, "field", e->n_fields)), name;

        slice_next(&value, ':', &name);
        if (!value.ptr || !field_is_name(name))
            return fault_set(why, FAULT_USAGE, "--field: expected \"Name: value\"");
        e->fields[e->n_fields] = (struct field){name, slice_trim(value)};
    }
    return true;
}

static bool is_url(struct slice text)
{
    static const char *const schemes[] = {"https://", "http://", "wss://", "ws://"};

    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
        if (slice_starts_nocase(text, slice_of(schemes[i])))
            return true;
    return false;
}

static bool check_words(const struct explanation *e, const struct option_set *options, struct fault *why)
{
    struct slice url = slice_of(e->url);
    bool token = option_text(options, "token-file"), sandbox = option_text(options, "sandbox");

    if (token && (sandbox || option_text(options, "scope")))
        return fault_set(why, FAULT_USAGE, "--token-file says who asks; --sandbox and --scope would say it again");
    if (!sandbox && option_text(options, "scope"))
        return fault_set(why, FAULT_USAGE, "--scope needs --sandbox");
    if (!field_is_name(slice_of(e->method)))
        return fault_set(why, FAULT_USAGE, "\"%s\" is not a method; write METHOD URL", e->method);
    if (strcmp(e->method, "CONNECT") != 0 && !is_url(url))
        return fault_set(why, FAULT_USAGE, "\"%.100s\" is not a URL: it starts with neither https:// nor http://, wss:// nor ws://",
                         e->url);
    return true;
}

static bool load_audits(struct explanation *e, struct fault *why)
{
    struct bundle *files = bundle_new();
    bool ok = attestation_add_files(conf_text(conf_section(e->conf, "gateway"), "state"), e->conf, e->policy, files, why) &&
              attestation_use(e->policy, e->conf, files, clock_wall_s(), why);

    bundle_free(files);
    return ok;
}

/* What was taken back, or closed, while a gateway ran. */
static void load_revocations(struct explanation *e)
{
    struct fault why = {0};

    if (!(e->revocations = read_revocations(e->conf, &why)))
        say_note("whether the sandbox is in quarantine, or the service closed by hand, was not looked at: %s", why.text);
    policy_use_revocations(e->policy, e->revocations);
}

static bool load(struct explanation *e, const char *path, const char *listener, struct fault *why)
{
    size_t n;
    const struct conf_section *const *sections = gateway_sections(&n);

    if (!(e->conf = conf_load(path, sections, n, why)) || !(e->policy = policy_compile(e->conf, why)) || !load_audits(e, why))
        return false;
    load_revocations(e);
    if (listener && !listen_is_known(e->conf, listener))
        return fault_set(why, FAULT_USAGE, "no listener is called %.60s", listener);
    return true;
}

static bool wants_colour(void)
{
    const char *no = getenv("NO_COLOR");

    return isatty(STDOUT_FILENO) && (!no || !*no);
}

/* Two words, or a name: which of the two is not for the table of commands to say. */
static bool has_two_words(const struct invocation *inv, struct fault *why)
{
    return inv->n_args == 2 || fault_set(why, FAULT_USAGE, "what is to be explained? METHOD URL, or --dns NAME");
}

static int run(const struct invocation *inv)
{
    struct explanation e = {.json = inv->json, .colour = !inv->json && wants_colour()};
    struct fault why = {0};
    int status;

    if (option_text(inv->options, "dns"))
        return explain_dns(inv);
    if (!has_two_words(inv, &why))
        return command_fail(inv, &why);
    e.method = inv->args[0];
    e.url = inv->args[1];
    if (!check_words(&e, inv->options, &why) || !read_fields(&e, inv->options, &why) ||
        !load(&e, inv->config, option_text(inv->options, "listener"), &why) || !identify(&e, inv, &why)) {
        status = command_fail(inv, &why);
    } else {
        if (e.decision.reason == REASON_NONE)
            explain(&e);
        status = answer(inv, &e);
    }
    identity_unref(e.identity);
    policy_free(e.policy);
    revocations_free(e.revocations);
    conf_free(e.conf);
    free(e.fields);
    buf_free(&e.steps);
    return status;
}

static const struct option_spec options[] = {
    {"token-file", 't', OPTION_TEXT, "FILE", NULL, "judge with the leave token in this file (-: standard input)", false,
     false},
    {"sandbox", 's', OPTION_TEXT, "NAME", NULL, "judge as if a good token of this sandbox came along", false, false},
    {"scope", 0, OPTION_TEXT, "\"SCOPE ...\"", NULL, "the scopes of that token", false, false},
    {"listener", 'l', OPTION_TEXT, "NAME", NULL, "the listener it comes in by, for tokens that are bound to one", false,
     false},
    {"field", 'f', OPTION_TEXT, "\"NAME: VALUE\"", NULL, "a field of the request; as often as you like", true, false},
    {"dns", 'd', OPTION_TEXT, "NAME", NULL, "in place of METHOD URL: what is a DNS client told of this name?", false, false},
    {"type", 0, OPTION_TEXT, "TYPE", NULL, "with --dns: the type it asks for, such as AAAA or HTTPS; without it, A", false, false},
    {0},
};

const struct command command_explain = {
    .name = "explain",
    .summary = "would this request go out? the decision, step by step",
    .arguments = "[METHOD URL]",
    .min_args = 0,
    .max_args = 2,
    .help = "Asks the function that decides in the running gateway, with the configuration as it is on disk. For an "
            "https URL the CONNECT is judged first, then the request inside. METHOD may be CONNECT, with HOST:PORT for "
            "the URL; GET of a ws or wss URL asks for a WebSocket. Nothing is sent, resolved or recorded.\n"
            "\n"
            "With --dns NAME it is the answer of a DNS listener (--listener NAME says of which, where there are several).\n"
            "\n"
            "What a decision does not know: where the name resolves to, and what the body holds.\n"
            "\n"
            "Exit status: 0 allowed, 1 denied, 2 usage or configuration.\n",
    .examples = "  exeat explain --dns npm.example --type AAAA\n"
                "  exeat explain --sandbox s1 --scope npm:read GET https://npm.example/left-pad\n"
                "  exeat explain --token-file s1.jwt CONNECT npm.example:443\n",
    .options = options,
    .topic = TOPIC_POLICY,
    .has_json = true,
    .run = run,
};
