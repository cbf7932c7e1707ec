/* Owns the run: what is sent in which order, and the verdict of each route. */
#include "audit/leak.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "audit/ferry.h"
#include "audit/probes.h"
#include "audit/passage.h"
#include "audit/plain.h"
#include "audit/spelling.h"
#include "audit/state.h"
#include "base/clock.h"
#include "base/reason.h"

/* What became of one request, by what came back. */
enum fate {
    FATE_NONE,
    FATE_ARRIVED, /* the service had it */
    FATE_SCANNED, /* refused for what is in it */
    FATE_RULED,   /* refused by a rule, whatever is in it */
    FATE_FAILED,  /* the gateway cannot just now, or the sandbox may not any more */
    FATE_LOST,    /* no answer */
    FATE_UNSENT,
};

struct leak {
    struct audit *audit;
    struct ferry *ferry; /* NULL: the listener is TCP */
    struct leak_options options;
    struct leak_result *list;
    const struct passage **of; /* the route of each */
    const struct spelling_of **in;
    size_t n, done;
    struct evidence own;
    const char *known, *near, *method;
    enum who who;
    char trouble[400];
};

/* ---- what the gateway says ---- */

/* Its own answer names it in Proxy-Status, and it takes that away from the service's. The code is the last parameter. */
static bool read_reason(const struct leak *l, const struct turn *x, char out[64], enum reason *reason)
{
    struct slice value, name = slice_of(l->options.gateway_name);
    ptrdiff_t at;

    if (!turn_field(x, "Proxy-Status", 0, &value) || !slice_starts(value, name) || value.len <= name.len || value.ptr[name.len] != ';' ||
        (at = slice_search(value, SLICE("details=\""))) < 0)
        return false;
    value = slice_from(value, (size_t)at + strlen("details=\""));
    if ((at = slice_find(value, '"')) < 0)
        return false;
    value = slice_cut(value, 0, (size_t)at);
    snprintf(out, 64, "%.*s", (int)(value.len < 63 ? value.len : 63), value.ptr);
    return reason_find(value, reason) || (*reason = REASON_NONE, true);
}

/* The id of its record: whole in the problem it describes, shortened in the status line of a refused tunnel. */
static void read_record(const struct turn *x, char out[48])
{
    json_t *problem = json_loadb(buf_slice(&x->body).ptr, buf_len(&x->body), 0, NULL);
    const char *id = json_string_value(json_object_get(problem, "exchange"));
    struct slice head = buf_slice(&x->head), line = head;

    if (id) {
        snprintf(out, 48, "%.40s", id);
    } else if (slice_next(&head, '\r', &line)) {
        const char *last = line.ptr + line.len;

        while (last > line.ptr && last[-1] != ' ')
            last--;
        snprintf(out, 48, "%.*s", (int)(line.ptr + line.len - last < 40 ? line.ptr + line.len - last : 40), last);
    }
    json_decref(problem);
}

/* Reasons for which the service had the request before the gateway refused its answer. */
static bool is_of_the_answer(enum reason r)
{
    static const enum reason list[] = {REASON_UPSTREAM_MALFORMED, REASON_UPSTREAM_CLOSED, REASON_UPSTREAM_TIMEOUT, REASON_CREDENTIAL_REFLECTED, REASON_ANSWER_UNSCANNABLE,
                                       REASON_HANDOFF_UNDECLARED, REASON_HANDOFF_UNREADABLE, REASON_UPSTREAM_PROXY_AUTH, REASON_UPSTREAM_WEBSOCKET};

    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (r == list[i])
            return true;
    return false;
}

static enum fate fate_of_reason(enum reason r)
{
    const struct reason_entry *entry = reason_get(r);

    if (is_of_the_answer(r))
        return FATE_ARRIVED;
    if (r == REASON_CANARY_LEAK || r == REASON_UNSCANNABLE)
        return FATE_SCANNED;
    if (r == REASON_NONE || reason_is_token(r) || r == REASON_SANDBOX_QUARANTINED || entry->status == 429 || entry->status >= 500)
        return FATE_FAILED;
    return FATE_RULED;
}

static enum fate fate_of(const struct leak *l, const struct turn *x, char reason[64])
{
    enum reason r;

    reason[0] = '\0';
    if (x->outcome == OUTCOME_BUDGET || x->outcome == OUTCOME_METHOD)
        return FATE_UNSENT;
    if (x->outcome != OUTCOME_ANSWERED)
        return FATE_LOST;
    return read_reason(l, x, reason, &r) ? fate_of_reason(r) : FATE_ARRIVED;
}

/* Of all that one route sent: arrived when any of it did, or, where one alone carries nothing, all. *which decides. */
static enum fate fate_of_all(const struct leak *l, const struct evidence *e, bool together, char reason[64], const struct turn **which)
{
    enum fate first = FATE_NONE;
    char text[64];

    *which = NULL;
    reason[0] = '\0';
    for (size_t i = 0; i < e->n; i++) {
        enum fate f = fate_of(l, e->list[i], text);

        if (!*which || (f == FATE_ARRIVED && !together) || (f != FATE_ARRIVED && together && first == FATE_ARRIVED)) {
            first = f;
            *which = e->list[i];
            memcpy(reason, text, sizeof text);
        }
        if (f == FATE_ARRIVED && !together)
            break;
    }
    return first;
}

/* ---- where it was seen ---- */

static bool holds(struct slice hay, const char *plain, const char *spelt)
{
    return text_holds_encoded(hay, slice_of(plain)) || text_holds(hay, slice_of(spelt));
}

static const char *spell(struct evidence *e, const struct spelling_of *s, const char *plain)
{
    struct buf out = {0};
    const char *text;

    s->spell(slice_of(plain), &out);
    text = words(e, "%.*s", SLICE_ARG(buf_slice(&out)));
    buf_wipe(&out);
    return text;
}

/* By the nonce of this route; what only the upstream was asked for has no other name than the secret. */
static bool came_to(const struct leak *l, const struct evidence *e, const struct passage *route, bool is_upstream, const char *plain, const char *spelt,
                    char who[120])
{
    struct hit *list = NULL;
    size_t n = l->audit->beacon ? beacon_hits(l->audit->beacon, NULL, is_upstream, &list) : 0;
    bool found = false;

    for (size_t i = 0; i < n && !found; i++) {
        struct slice bytes = buf_slice(&list[i].bytes);

        found = holds(bytes, plain, spelt) && (text_holds(bytes, slice_of(e->nonces[0])) || (is_upstream && route->kind & PASSAGE_UPSTREAM));
        if (found)
            describe_hit(&list[i], who);
    }
    beacon_hits_free(list, n);
    return found;
}

static bool is_in_answer(const struct leak *l, const struct evidence *e, const char *plain, const char *spelt)
{
    char reason[64];

    for (size_t i = 0; i < e->n; i++) {
        const struct turn *x = e->list[i];

        if (fate_of(l, x, reason) == FATE_ARRIVED && !reason[0] && (holds(buf_slice(&x->head), plain, spelt) || holds(buf_slice(&x->body), plain, spelt)))
            return true;
    }
    return false;
}

/* ---- the verdict of one route ---- */

static void say(struct leak_result *r, enum leak_verdict v, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void say(struct leak_result *r, enum leak_verdict v, const char *format, ...)
{
    va_list args;

    r->verdict = v;
    va_start(args, format);
    vsnprintf(r->note, sizeof r->note, format, args);
    va_end(args);
    plain_make(r->note);
}

static const char *answer_text(const struct turn *x, char out[64])
{
    struct buf text = {0};

    turn_describe(x, &text);
    snprintf(out, 64, "%.*s", (int)(buf_len(&text) < 60 ? buf_len(&text) : 60), buf_slice(&text).ptr);
    buf_free(&text);
    return out;
}

static bool look_around(struct leak *l, struct leak_result *r, const struct passage *route, const struct spelling_of *s, char who[120])
{
    char plain[CANARY_TEXT_MAX];
    const char *spelt;

    snprintf(plain, sizeof plain, "%.*s", SLICE_ARG(l->options.canary));
    spelt = spell(&r->canary, s, plain);
    who[0] = '\0';
    r->is_in_answer = is_in_answer(l, &r->canary, plain, spelt);
    r->is_at_listener = came_to(l, &r->canary, route, false, plain, spelt, who);
    r->is_at_upstream = came_to(l, &r->canary, route, true, plain, spelt, who);
    explicit_bzero(plain, sizeof plain);
    return r->is_in_answer || r->is_at_listener || r->is_at_upstream;
}

static void say_out(struct leak_result *r, const struct turn *x, const char *who)
{
    char answer[64];

    say(r, LEAK_OUT, "the gateway let it through to the service (%s)%s%s%s%s", answer_text(x, answer), r->is_in_answer ? "; it stands in the service's answer" : "",
        r->is_at_listener ? "; the listener was asked for it: " : r->is_at_upstream ? "; the service's upstream was asked for it: " : "",
        r->is_at_listener || r->is_at_upstream ? who : "", x->status >= 400 ? "; what the service made of it does not matter" : "");
}

/* The control's way is closed, or nothing can be told of it. */
static void say_without_control(struct leak_result *r, enum fate control, const char *reason, const struct turn *x)
{
    char answer[64];

    if (control == FATE_RULED || control == FATE_SCANNED)
        say(r, LEAK_CLOSED, "the gateway lets nothing by this route: %s", reason);
    else if (control == FATE_UNSENT && x->outcome == OUTCOME_METHOD)
        say(r, LEAK_NOT_RUN, "the manifest does not allow %s", x->method);
    else if (control == FATE_UNSENT)
        say(r, LEAK_NOT_RUN, "nothing more was sent: the budget was used up, the service stopped answering, or the run was ended");
    else
        say(r, LEAK_INCONCLUSIVE, "the control did not arrive (%s%s%s), which proves nothing", answer_text(x, answer), reason[0] ? ", " : "", reason);
}

static void judge(struct leak *l, struct leak_result *r, const struct passage *route, const struct spelling_of *s)
{
    bool together = route->kind & PASSAGE_TOGETHER, is_forwarded;
    char control_reason[64], who[120], answer[64];
    const struct turn *control, *canary;
    enum fate of_control = fate_of_all(l, &r->control, together, control_reason, &control);
    enum fate of_canary = fate_of_all(l, &r->canary, together, r->reason, &canary);

    r->record[0] = '\0';
    if (r->control.not_applicable[0] || !control) {
        say(r, LEAK_NOT_RUN, "%s", r->control.not_applicable[0] ? r->control.not_applicable : r->control.missing);
        return;
    }
    is_forwarded = !route->field || service_forwards_field(l->options.service, slice_of(route->field));
    if (look_around(l, r, route, s, who) || (of_canary == FATE_ARRIVED && is_forwarded)) {
        r->is_at_service = true;
        say_out(r, canary, who);
        return;
    }
    if (r->reason[0])
        read_record(canary, r->record);
    if (of_canary == FATE_ARRIVED)
        say(r, LEAK_CLOSED, "the gateway does not forward %s", route->field);
    else if (of_control != FATE_ARRIVED)
        say_without_control(r, of_control, control_reason, control);
    else if (of_canary == FATE_SCANNED || of_canary == FATE_RULED)
        say(r, LEAK_STOPPED, "refused: %s", r->reason);
    else if (!canary || of_canary == FATE_UNSENT)
        say(r, LEAK_INCONCLUSIVE, "the control arrived, and the canary was not sent: the budget was used up, or the run was ended");
    else
        say(r, LEAK_INCONCLUSIVE, "the control arrived, and of the canary nothing is known (%s%s%s)", answer_text(canary, answer), r->reason[0] ? ", " : "", r->reason);
}

/* ---- sending ---- */

static bool is_ended(const struct leak *l)
{
    return l->options.stop && *l->options.stop;
}

static void send_one(struct leak *l, struct evidence *e, const struct passage *route, const struct spelling_of *s, struct slice secret)
{
    const char *plain;

    e->audit = l->audit;
    e->target = l->audit->target;
    e->audit_writes = l->options.allowed & RUN_WRITES;
    if (route->run & RUN_WRITES & ~l->options.allowed) {
        evidence_missing(e, "it needs --active");
        return;
    }
    if (route->run & RUN_LISTENER & ~l->options.allowed) {
        evidence_missing(e, "it needs --beacon");
        return;
    }
    plain = words(e, "%.*s", SLICE_ARG(secret));
    route->send(e, &(struct cargo){.plain = plain, .text = spell(e, s, plain), .is_escaped = s->is_escaped, .nonce = nonce_new(e), .near = l->near,
                                   .known = l->known, .method = l->method, .who = l->who});
}

/* The control first: what it cannot do, the canary need not try. */
static void try_route(struct leak *l, size_t i)
{
    struct leak_result *r = &l->list[i];

    l->audit->is_dead |= is_ended(l);
    send_one(l, &r->control, l->of[i], l->in[i], l->options.control);
    if (r->control.n)
        send_one(l, &r->canary, l->of[i], l->in[i], l->options.canary);
    judge(l, r, l->of[i], l->in[i]);
    if (l->options.on_result)
        l->options.on_result(l->options.progress, r, ++l->done, l->n);
}

/* ---- the first of all ---- */

static enum fate knock(struct leak *l, enum who who, char reason[64], const struct turn **x)
{
    *x = ask(&l->own, (struct probe){.path = l->known, .who = who, .variant = "the first control"});
    return fate_of(l, *x, reason);
}

/* A bound listener's token-file is looked at anew after each reload: a moment without a token means nothing. */
static enum fate knock_until_token(struct leak *l, enum who who, char reason[64], const struct turn **x)
{
    enum { TRIES = 50, WAIT_NS = 100000000 };
    struct timespec t = {.tv_nsec = WAIT_NS};
    enum fate f = knock(l, who, reason, x);

    for (int i = 0; i < TRIES && !l->options.leave_token && strcmp(reason, reason_code(REASON_TOKEN_MISSING)) == 0; i++) {
        nanosleep(&t, NULL);
        f = knock(l, who, reason, x);
    }
    return f;
}

/* Something that is no secret gets through, or nothing else need be tried. A credential of the manifest's may be foreign there. */
static bool is_let_through(struct leak *l)
{
    char reason[64], record[48] = "", answer[64];
    const struct turn *x;
    enum fate f;

    l->who = l->audit->target->first.secret ? WHO_FIRST : WHO_NOBODY;
    f = knock_until_token(l, l->who, reason, &x);
    if (f == FATE_RULED && l->who == WHO_FIRST && strcmp(reason, reason_code(REASON_CREDENTIAL_FOREIGN)) == 0) {
        l->who = WHO_NOBODY;
        f = knock(l, l->who, reason, &x);
    }
    if (f == FATE_ARRIVED && !reason[0])
        return true;
    if (reason[0])
        read_record(x, record);
    if (reason[0])
        snprintf(l->trouble, sizeof l->trouble, "what is no secret has no answer of the service's either: GET %.80s: %s; see: exeat why %s", l->known,
                 reason, record);
    else
        snprintf(l->trouble, sizeof l->trouble, "what is no secret did not arrive either: GET %.80s: %s; does the gateway listen there, and the service run?", l->known,
                 answer_text(x, answer));
    return false;
}

/* Content is sent with POST where the rules have it, else with PUT. */
static void choose_method(struct leak *l)
{
    const char *template = l->audit->target->dialect == DIALECT_HTTP ? target_text(l->audit->target, "write") : NULL;
    char reason[64];
    const struct turn *x;

    l->method = "POST";
    if (!(l->options.allowed & RUN_WRITES))
        return;
    x = ask(&l->own, (struct probe){.method = "POST", .path = template ? fill(&l->own, template, nonce_new(&l->own)) : l->known, .who = l->who, .body = SLICE("exeat"),
                                    .body_type = "text/plain", .variant = "may it POST?"});
    if (x->outcome == OUTCOME_METHOD || (fate_of(l, x, reason) == FATE_RULED && strcmp(reason, reason_code(REASON_METHOD_NOT_ALLOWED)) == 0))
        l->method = "PUT";
}

static void choose_paths(struct leak *l)
{
    const struct target *t = l->audit->target;
    const char *slash, *end;

    l->known = target_count(t, "protected") ? target_text_at(t, "protected", 0) : "/";
    end = l->known + strcspn(l->known, "?");
    slash = l->known;
    for (const char *p = l->known; p < end; p++)
        if (*p == '/')
            slash = p;
    l->near = words(&l->own, "%.*s/", (int)(slash - l->known), l->known);
}

/* ---- all of it ---- */

static void make_list(struct leak *l)
{
    for (size_t i = 0; i < n_passages; i++)
        l->n += passages[i].kind & PASSAGE_CARRIES ? n_spellings : 1;
    l->list = calloc(l->n, sizeof *l->list);
    l->of = calloc(l->n, sizeof *l->of);
    l->in = calloc(l->n, sizeof *l->in);
    if (!l->list || !l->of || !l->in)
        abort();
    for (size_t i = 0, n = 0; i < n_passages; i++)
        for (size_t j = 0; j < (passages[i].kind & PASSAGE_CARRIES ? n_spellings : 1); j++, n++) {
            l->list[n] = (struct leak_result){.route = passages[i].id, .place = passages[i].place, .advice = passages[i].advice, .spelling = spellings[j].name,
                                              .verdict = LEAK_NOT_RUN};
            l->of[n] = &passages[i];
            l->in[n] = &spellings[j];
        }
}

static void run_all(struct leak *l)
{
    choose_method(l);
    for (size_t i = 0; i < l->n; i++)
        try_route(l, i);
    if (!is_ended(l))
        trial_settle(l->audit);
    for (size_t i = 0; i < l->n; i++)
        judge(l, &l->list[i], l->of[i], l->in[i]);
}

struct leak *leak_run(struct target *t, const struct leak_options *o, struct fault *why)
{
    struct audit_options options = {.allowed = o->allowed, .rate = o->rate, .requests = o->requests, .service = o->service};
    struct leak *l = calloc(1, sizeof *l);

    if (!l)
        abort();
    l->options = *o;
    if (!(l->audit = audit_open(t, &options, why)) || (o->connect && !(l->ferry = ferry_new(o->connect, o->arg, why)))) {
        leak_free(l);
        return NULL;
    }
    l->own.audit = l->audit;
    l->own.target = t;
    make_list(l);
    if (o->connect)
        transport_ferried(l->audit->transport, l->ferry, o->leave_token, o->gateway_ca, false);
    else
        transport_through(l->audit->transport, o->gateway, o->leave_token, o->gateway_ca, false);
    choose_paths(l);
    if (is_let_through(l))
        run_all(l);
    else
        for (size_t i = 0; i < l->n; i++)
            say(&l->list[i], LEAK_NOT_RUN, "not even the first control arrived");
    return l;
}

void leak_free(struct leak *l)
{
    if (!l)
        return;
    for (size_t i = 0; i < l->n; i++) {
        evidence_clear(&l->list[i].control);
        evidence_clear(&l->list[i].canary);
    }
    free(l->list);
    free(l->of);
    free(l->in);
    evidence_clear(&l->own);
    audit_free(l->audit);
    ferry_free(l->ferry);
    free(l);
}

/* ---- what came of it ---- */

size_t leak_count(const struct leak *l)
{
    return l->n;
}

const struct leak_result *leak_result(const struct leak *l, size_t i)
{
    return &l->list[i];
}

size_t leak_with(const struct leak *l, enum leak_verdict v)
{
    size_t n = 0;

    for (size_t i = 0; i < l->n; i++)
        n += l->list[i].verdict == v;
    return n;
}

enum leak_verdict leak_verdict(const struct leak *l)
{
    if (leak_with(l, LEAK_OUT))
        return LEAK_OUT;
    return l->trouble[0] || is_ended(l) || leak_with(l, LEAK_INCONCLUSIVE) ? LEAK_INCONCLUSIVE : LEAK_STOPPED;
}

const char *leak_trouble(const struct leak *l)
{
    return l->trouble;
}

size_t leak_requests(const struct leak *l)
{
    return l->audit->sent;
}

const struct target *leak_target(const struct leak *l)
{
    return l->audit->target;
}

const char *leak_verdict_name(enum leak_verdict v)
{
    static const char *const names[LEAK_VERDICTS] = {
        [LEAK_OUT] = "out", [LEAK_INCONCLUSIVE] = "inconclusive", [LEAK_STOPPED] = "stopped", [LEAK_CLOSED] = "closed", [LEAK_NOT_RUN] = "not-run"};

    return names[v];
}
