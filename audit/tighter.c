/* Owns what a tighter policy says, and what it may claim. Must not know how it is written down. */
#include "audit/tighter.h"

#include <stdlib.h>
#include <string.h>

#include "audit/clients.h"
#include "audit/probes.h"
#include "audit/rehearsal.h"
#include "audit/remedy.h"
#include "audit/state.h"
#include "base/clock.h"
#include "base/text.h"

#define BIT(line) (1u << (line))

bool tighter_is_weak(const struct audit_result *r)
{
    enum verdict v = r->finding.verdict;

    return r->check->send && (v == VERDICT_FAIL || v == VERDICT_WEAK || v == VERDICT_OPEN || v == VERDICT_INCONCLUSIVE);
}

/* ---- which probes did it ---- */

/* Refused, and nobody heard of it: it is no part of the weakness. */
static bool is_harmless(const struct evidence *e, const struct turn *x)
{
    return turn_is_refusal(x) && !evidence_called(e, x, e->hits, e->n_hits) && !evidence_called(e, x, e->upstream_hits, e->n_upstream_hits);
}

/* Does the answer show what another request sent? */
static bool shows_another(const struct evidence *e, const struct turn *x)
{
    for (size_t i = 0; i < e->n_nonces; i++)
        if (!turn_names(x, e->nonces[i]) && turn_holds(x, e->nonces[i]))
            return true;
    return false;
}

/* Does it repeat what it was sent? */
static bool shows_own(const struct evidence *e, const struct turn *x)
{
    for (size_t i = 0; i < e->n_nonces; i++)
        if (turn_names(x, e->nonces[i]) && turn_holds(x, e->nonces[i]))
            return true;
    return false;
}

/* Did it carry something that would be known again, and the answer does not show it? */
static bool is_lost(const struct evidence *e, const struct turn *x)
{
    for (size_t i = 0; i < e->n_nonces; i++)
        if (strstr(x->asked.fields, e->nonces[i]))
            return !turn_holds(x, e->nonces[i]);
    return false;
}

static bool only_reads(const struct turn *x)
{
    return slice_is(slice_of(x->method), "GET") || slice_is(slice_of(x->method), "HEAD");
}

/* Is this one of the probes that must not get through? */
static bool is_at_work(enum remedy_how how, const struct evidence *e, size_t i)
{
    const struct turn *x = e->list[i];

    switch (how) {
    case REMEDY_EDGES: /* challenges are refusals, too; and what is refused was read */
    case REMEDY_SIZES:
        return true;
    case REMEDY_REQUESTS:
        return !is_harmless(e, x);
    case REMEDY_WRITES:
        return !only_reads(x) && !is_harmless(e, x);
    case REMEDY_VARIANTS:
        return i > 0 && !is_harmless(e, x);
    case REMEDY_PAGES:
        return shows_another(e, x);
    case REMEDY_FIELDS: /* what the good credential gets without any field is no field's work; nor is a canary's that did not come back */
        return !is_lost(e, x) && (x->asked.fields[0] || x->asked.host || (x->who == WHO_FIRST && turn_is_2xx(x)) || !only_reads(x));
    default:
        return false;
    }
}

/* ---- what keeps them out ---- */

/* Which line refuses for this reason; LINES: none, the gateway itself. */
static enum tighter_line line_of(enum reason reason)
{
    switch (reason) {
    case REASON_METHOD_NOT_ALLOWED:
    case REASON_PATH_NOT_ALLOWED:
    case REASON_QUERY_NOT_ALLOWED:
    case REASON_BIND_NOT_ALLOWED: return LINE_RULES;
    case REASON_DENIED_BY_RULE: return LINE_DENY;
    case REASON_CREDENTIAL_FOREIGN: return LINE_CREDENTIALS;
    case REASON_BODY_TOO_LARGE: return LINE_BODY;
    case REASON_TARGET_TOO_LONG: return LINE_TARGET;
    default: return LINES;
    }
}

static void add_line(const struct tighter *t, struct tighter_of *of, struct fate f)
{
    enum tighter_line line = f.kind == FATE_PLAIN ? (t->on & BIT(LINE_FIELDS) ? LINE_FIELDS : LINES) : line_of(f.reason);

    if ((line == LINE_BODY || line == LINE_TARGET) && !(t->on & BIT(line)))
        line = LINE_RULES; /* the preset's */
    if (line != LINES)
        of->lines |= BIT(line);
}

/* Whose judge says whether an answer leads elsewhere: a signed URL is one in a redirect (RD-1). */
static const struct check *judge_of_edges(const struct tighter *t, const struct audit_result *r)
{
    for (size_t i = 0; slice_is(slice_of(r->check->id), "RD-2") && i < audit_count(t->audit); i++)
        if (slice_is(slice_of(audit_result(t->audit, i)->check->id), "RD-1"))
            return audit_result(t->audit, i)->check;
    return r->check;
}

/* Does the ith answer, by itself, lead elsewhere? Where the service went there itself, no answer is behind it. */
static bool leads_away(const struct tighter *t, const struct audit_result *r, size_t i)
{
    const struct evidence *e = &r->evidence;
    struct rehearsal *h;
    bool leads;

    if (evidence_called(e, e->list[i], e->hits, e->n_hits))
        return false;
    h = rehearsal_new(e);
    for (size_t j = 0; j < e->n; j++)
        if (j != i)
            rehearsal_refuse(h, j, 0);
    leads = !rehearsal_is_good(h, judge_of_edges(t, r));
    rehearsal_free(h);
    return leads;
}

/* An answer that would not come back. */
static bool is_stopped_edge(const struct tighter *t, enum remedy_how how, const struct audit_result *r, size_t i)
{
    return how == REMEDY_EDGES && t->on & BIT(LINE_EDGES) && leads_away(t, r, i);
}

/* Do answers that clients need lead elsewhere? Then the gateway cannot keep them back. */
static bool is_needed_edge(const struct tighter *t, const struct audit_result *r)
{
    enum who client = audit_target(t->audit)->first.secret ? WHO_FIRST : WHO_NOBODY;

    for (size_t i = 0; i < r->evidence.n; i++)
        for (size_t j = 0; j < t->audit->n_baselines; j++)
            if (r->evidence.list[i]->who == client && slice_is(slice_of(r->evidence.list[i]->asked.path), t->audit->baselines[j].path) && leads_away(t, r, i))
                return true;
    return false;
}

/* Where the credential itself is what is tried, the sandbox brings it. */
static struct fate fate_for(const struct tighter *t, const struct check *c, const struct turn *x)
{
    struct turn y = *x;

    if (c->run & RUN_SHOWS && x->who != WHO_NOBODY)
        y.who = WHO_TOKEN;
    return fate_of(t->policy, audit_target(t->audit), &y);
}

/* By its judge: what would it say if the gateway answered what it does not let through? */
static void rehearse(const struct tighter *t, enum remedy_how how, const struct audit_result *r, struct tighter_of *of)
{
    struct rehearsal *h = rehearsal_new(&r->evidence);
    const struct turn *through = NULL;
    size_t n = 0;

    for (size_t i = 0; i < r->evidence.n; i++) {
        const struct turn *x = r->evidence.list[i];
        struct fate f = fate_for(t, r->check, x);

        if (f.kind != FATE_REFUSED && !is_stopped_edge(t, how, r, i)) {
            through = through || !is_at_work(how, &r->evidence, i) ? through : x;
            continue;
        }
        n++;
        if (f.kind != FATE_REFUSED)
            of->lines |= BIT(LINE_EDGES);
        else if (is_at_work(how, &r->evidence, i))
            add_line(t, of, f);
        rehearsal_refuse(h, i, f.kind == FATE_REFUSED ? reason_get(f.reason)->status : 502);
    }
    if (n && rehearsal_is_good(h, r->check))
        of->claim = of->lines ? CLAIM_LINES : CLAIM_ITSELF;
    else
        of->passes = through;
    rehearsal_free(h);
}

/* By its probes: where one leaves what another one finds, none of the first kind may do its work. */
static void try_each(const struct tighter *t, enum remedy_how how, const struct audit_result *r, struct tighter_of *of)
{
    size_t n = 0;

    for (size_t i = 0; i < r->evidence.n; i++) {
        struct fate f;

        if (!is_at_work(how, &r->evidence, i))
            continue;
        f = fate_of(t->policy, audit_target(t->audit), r->evidence.list[i]);
        n++;
        if (f.kind == FATE_REFUSED || (how == REMEDY_FIELDS && f.kind == FATE_PLAIN))
            add_line(t, of, f);
        else if (!of->passes)
            of->passes = r->evidence.list[i];
    }
    if (n && !of->passes)
        of->claim = of->lines ? CLAIM_LINES : CLAIM_ITSELF;
}

static void try_one(const struct tighter *t, const struct audit_result *r, struct tighter_of *of)
{
    enum remedy_how how = remedy_of(r->check->id)->how;

    *of = (struct tighter_of){.claim = CLAIM_SERVICE};
    if (how == REMEDY_REQUESTS || how == REMEDY_VARIANTS || how == REMEDY_SIZES || how == REMEDY_EDGES)
        rehearse(t, how, r, of);
    else if (how != REMEDY_NONE)
        try_each(t, how, r, of);
}

bool tighter_is_followed(const struct audit *a, const struct audit_result *r)
{
    for (size_t i = 0; check_counts_calls(r->check) && i < r->evidence.n_hits; i++)
        if (foreign_credential(audit_target(a), &r->evidence.hits[i]))
            return true;
    return false;
}

/* FU-9 and CR-5 are made of what others found: closed when all of those are. */
static void follow(const struct tighter *t, struct tighter_of *of)
{
    unsigned lines = 0;
    size_t n = 0, closed = 0;

    for (size_t i = 0; i < audit_count(t->audit); i++)
        if (tighter_is_followed(t->audit, audit_result(t->audit, i))) {
            n++;
            closed += t->of[i].claim >= CLAIM_ITSELF;
            lines |= t->of[i].lines;
        }
    *of = (struct tighter_of){.claim = n == 0 || closed < n ? CLAIM_SERVICE : lines ? CLAIM_LINES : CLAIM_ITSELF, .lines = lines};
}

static void try_all(struct tighter *t)
{
    bool is_proxy = audit_target(t->audit)->dialect == DIALECT_PROXY;

    for (int followers = 0; followers < 2; followers++)
        for (size_t i = 0; i < audit_count(t->audit); i++) {
            const struct audit_result *r = audit_result(t->audit, i);
            enum remedy_how how = remedy_of(r->check->id)->how;

            if (!tighter_is_weak(r) || (how == REMEDY_FOLLOWS) != followers)
                continue;
            if (is_proxy)
                t->of[i] = (struct tighter_of){.claim = CLAIM_SERVICE};
            else if (followers)
                follow(t, &t->of[i]);
            else
                try_one(t, r, &t->of[i]);
        }
}

/* ---- making it ---- */

static bool compile(struct tighter *t)
{
    static const struct conf_section *const sections[] = {&services_section};
    const struct attested good = {.at_s = clock_wall_s(), .until_s = clock_wall_s() + 86400};
    struct buf text = {0};
    struct conf *c;

    policy_free(t->policy);
    t->policy = NULL;
    tighter_yaml(t, &text);
    c = conf_parse(buf_slice(&text), "the tighter policy", "/", sections, 1, &t->why);
    if (c)
        t->policy = policy_compile(c, &t->why);
    if (t->policy)
        policy_set_attested(t->policy, 0, &good);
    conf_free(c);
    buf_free(&text);
    return t->policy;
}

/* Something that its upstream has, of any name. */
static bool serves_fetch(const struct tighter *t)
{
    const char *template = target_text(audit_target(t->audit), "fetch"), *at = template ? strstr(template, "{nonce}") : NULL;
    struct buf path = {0};
    struct turn *x;
    char *text;
    bool ok;

    if (!at || template[0] != '/')
        return true;
    buf_printf(&path, "%.*sexeat%s", (int)(at - template), template, at + 7);
    text = buf_take_text(&path);
    x = turn_new(&(struct probe){.path = text});
    ok = fate_of(t->policy, audit_target(t->audit), x).kind != FATE_REFUSED;
    turn_free(x);
    free(text);
    return ok;
}

/* What the manifest says that clients ask for must come through. */
static bool serves_clients(const struct tighter *t)
{
    if (!serves_fetch(t))
        return false;
    for (size_t i = 0; i < t->audit->n_baselines; i++)
        if (turn_answered(t->audit->baselines[i].none) && fate_of(t->policy, audit_target(t->audit), t->audit->baselines[i].none).kind == FATE_REFUSED)
            return false;
    return true;
}

/* What the manifest protects is asked for by somebody, if not by every client of the preset's. */
static void add_beside(struct tighter *t)
{
    for (size_t i = 0; i < t->audit->n_baselines; i++) {
        const struct baseline *b = &t->audit->baselines[i];

        if (turn_answered(b->none) && b->path[0] == '/' && !strpbrk(b->path, "*{?") && line_of(fate_of(t->policy, audit_target(t->audit), b->none).reason) == LINE_RULES)
            t->beside[t->n_beside++] = b->path;
    }
}

/* A rule for what was asked, up to what the audit chose itself, and all that lies below. Empty: nothing of it stands. */
static void deny_rule(const struct tighter *t, const struct evidence *e, const struct turn *x, struct buf *out)
{
    const struct target *target = audit_target(t->audit);
    struct slice path = slice_cut(slice_of(x->asked.path), 0, strcspn(x->asked.path, "?"));
    bool is_cut = false;

    for (size_t i = 0; i < e->n_nonces; i++) {
        ptrdiff_t at = slice_search(path, slice_of(e->nonces[i]));

        if (at < 0)
            continue;
        is_cut = true;
        path = slice_cut(path, 0, (size_t)at);
        while (path.len && path.ptr[path.len - 1] != '/')
            path.len--;
    }
    if (path.len <= 1 || path.ptr[0] != '/' || slice_find(path, '*') >= 0 || slice_find(path, '{') >= 0)
        return;
    buf_printf(out, "%s %s%.*s%s", x->method, x->asked.is_bare ? "" : target->base[x->asked.base].path, SLICE_ARG(path), is_cut ? "**" : "");
}

static bool has_deny(const struct tighter *t, const char *rule)
{
    for (size_t i = 0; i < t->n_denies; i++)
        if (strcmp(t->denies[i].rule, rule) == 0)
            return true;
    return false;
}

/* Add one, unless clients need it, or it cannot be said as a rule. */
static void add_deny(struct tighter *t, size_t result, const struct turn *x)
{
    struct buf rule = {0};

    deny_rule(t, &audit_result(t->audit, result)->evidence, x, &rule);
    if (buf_len(&rule) == 0 || t->n_denies == DENIES_MAX)
        return;
    t->denies[t->n_denies].result = result;
    t->denies[t->n_denies].rule = buf_take_text(&rule);
    if (!has_deny(t, t->denies[t->n_denies].rule)) {
        t->n_denies++;
        t->on |= BIT(LINE_DENY);
        if (compile(t) && serves_clients(t))
            return;
        t->why = (struct fault){0};
        t->n_denies--;
        t->on &= t->n_denies ? ~0u : ~BIT(LINE_DENY);
    }
    free(t->denies[t->n_denies].rule);
}

/* What came through by a path of its own is denied by it. */
static void deny_what_passes(struct tighter *t)
{
    for (size_t i = 0; i < audit_count(t->audit); i++) {
        const struct audit_result *r = audit_result(t->audit, i);
        enum remedy_how how = remedy_of(r->check->id)->how;

        if (!t->of[i].passes || (how != REMEDY_REQUESTS && how != REMEDY_WRITES && how != REMEDY_PAGES))
            continue;
        for (size_t j = 0; j < r->evidence.n && t->policy; j++)
            if (is_at_work(how, &r->evidence, j) && fate_of(t->policy, audit_target(t->audit), r->evidence.list[j]).kind != FATE_REFUSED)
                add_deny(t, i, r->evidence.list[j]);
    }
}

/* A field that is repeated, and that no client needs, is not forwarded. */
static void drop_field(struct tighter *t, const struct turn *x)
{
    static const char *const spared[] = {"User-Agent", "Accept-Language", "Cache-Control", "Pragma"};

    for (size_t i = 0; i < sizeof spared / sizeof *spared; i++)
        for (size_t j = 0; j < sizeof t->is_dropped && t->fields[j]; j++)
            if (slice_is_nocase(slice_of(t->fields[j]), spared[i]) && slice_starts_nocase(slice_of(x->asked.fields), slice_of(spared[i])) && x->asked.fields[strlen(spared[i])] == ':')
                t->is_dropped[j] = true;
}

static void turn_lines_on(struct tighter *t)
{
    bool has_preset = clients_preset(audit_target(t->audit)), is_needed = false;

    for (size_t i = 0; i < audit_count(t->audit); i++)
        is_needed = is_needed || (t->of[i].passes && remedy_of(audit_result(t->audit, i)->check->id)->how == REMEDY_EDGES && is_needed_edge(t, audit_result(t->audit, i)));
    for (size_t i = 0; i < audit_count(t->audit); i++) {
        const struct audit_result *r = audit_result(t->audit, i);

        if (remedy_of(r->check->id)->how == REMEDY_SIZES && t->of[i].claim != CLAIM_NONE && !has_preset)
            t->on |= BIT(LINE_TARGET);
        if (!t->of[i].passes)
            continue;
        if (remedy_of(r->check->id)->how == REMEDY_EDGES && !is_needed)
            t->on |= BIT(LINE_EDGES);
        if (remedy_of(r->check->id)->how != REMEDY_FIELDS)
            continue;
        t->on |= BIT(LINE_FIELDS);
        for (size_t j = 0; j < r->evidence.n; j++)
            if (shows_own(&r->evidence, r->evidence.list[j]))
                drop_field(t, r->evidence.list[j]);
    }
}

/* Does somebody get in without a credential, or is there one that the gateway can put in? Else clients bring their own. */
static bool can_refuse_credentials(const struct target *t, const struct audit *a)
{
    bool is_for_gateway = t->first.form == CREDENTIAL_BEARER || t->first.form == CREDENTIAL_BASIC || t->first.form == CREDENTIAL_FIELD;

    return conf_text(t->item, "credential.from") ? is_for_gateway : turn_is_2xx(a->baselines[0].none);
}

struct tighter *tighter_make(const struct audit *a)
{
    static const char *const reading[] = {"Accept", "Accept-Encoding", "Accept-Language", "Cache-Control", "If-Match", "If-Modified-Since", "If-None-Match", "If-Range", "If-Unmodified-Since", "Pragma", "Range", "User-Agent", NULL};
    struct tighter *t = calloc(1, sizeof *t);
    const struct preset *preset = clients_preset(audit_target(a));

    if (!t || !(t->of = calloc(audit_count(a), sizeof *t->of)))
        abort();
    t->audit = a;
    t->fields = preset ? preset->fields : reading;
    t->on = BIT(LINE_RULES) | (can_refuse_credentials(audit_target(a), a) ? BIT(LINE_CREDENTIALS) : 0);
    if (audit_target(a)->dialect == DIALECT_PROXY) { /* nothing to list: each finding says so */
        try_all(t);
        return t;
    }
    if (!compile(t))
        return t;
    add_beside(t);
    if (!compile(t))
        return t;
    try_all(t);
    deny_what_passes(t);
    turn_lines_on(t);
    if (compile(t))
        try_all(t);
    return t;
}

void tighter_free(struct tighter *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < t->n_denies; i++)
        free(t->denies[i].rule);
    policy_free(t->policy);
    free(t->of);
    free(t);
}

size_t tighter_count(const struct tighter *t, enum tighter_claim claim)
{
    size_t n = 0;

    for (size_t i = 0; i < audit_count(t->audit); i++)
        n += t->of[i].claim != CLAIM_NONE && (claim == CLAIM_NONE || t->of[i].claim == claim);
    return n;
}
