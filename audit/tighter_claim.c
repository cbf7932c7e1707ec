/* Owns what a tighter policy may claim: which probes of a check do its work, and what becomes of them. Must not know how the policy is made. */
#include <string.h>

#include "audit/probes.h"
#include "audit/rehearsal.h"
#include "audit/remedy.h"
#include "audit/state.h"
#include "audit/tighter.h"
#include "authz/field.h"

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
bool tighter_shows_own(const struct evidence *e, const struct turn *x)
{
    for (size_t i = 0; i < e->n_nonces; i++)
        if (turn_names(x, e->nonces[i]) && turn_holds(x, e->nonces[i]))
            return true;
    return false;
}

/* Does it carry something that would be known again, in a field or as Host? */
static bool carries(const struct evidence *e, const struct turn *x)
{
    for (size_t i = 0; i < e->n_nonces; i++)
        if (strstr(x->asked.fields, e->nonces[i]) || (x->asked.host && strstr(x->asked.host, e->nonces[i])))
            return true;
    return false;
}

/* Where canaries are sent, those that came back did it; else whatever has a field. What the good credential gets without one is no field's work. */
static bool is_fields_work(const struct evidence *e, const struct turn *x)
{
    for (size_t i = 0; i < e->n; i++)
        if (carries(e, e->list[i]))
            return carries(e, x) && tighter_shows_own(e, x);
    return x->asked.fields[0] || x->asked.host || (x->who == WHO_FIRST && turn_is_2xx(x));
}

static bool only_reads(const struct turn *x)
{
    return slice_is(slice_of(x->method), "GET") || slice_is(slice_of(x->method), "HEAD");
}

/* Is this one of the probes that must not get through? */
bool tighter_is_at_work(enum remedy_how how, const struct evidence *e, size_t i)
{
    const struct turn *x = e->list[i];

    switch (how) {
    case REMEDY_EDGES: /* challenges are refusals, too */
        return true;
    case REMEDY_SIZES: /* what is refused was read */
        return strlen(x->asked.path) > COVERT_MAX;
    case REMEDY_REQUESTS:
        return !is_harmless(e, x);
    case REMEDY_WRITES:
        return !only_reads(x) && !is_harmless(e, x);
    case REMEDY_VARIANTS:
        return i > 0 && !is_harmless(e, x);
    case REMEDY_PAGES:
        return shows_another(e, x);
    case REMEDY_FIELDS:
        return is_fields_work(e, x);
    default:
        return false;
    }
}

/* ---- what keeps them out ---- */

/* Which line refuses for this reason; LINES: none, the gateway itself. */
enum tighter_line tighter_line_of(enum reason reason)
{
    switch (reason) {
    case REASON_METHOD_NOT_ALLOWED:
    case REASON_PATH_NOT_ALLOWED:
    case REASON_QUERY_NOT_ALLOWED:
    case REASON_BIND_NOT_ALLOWED: return LINE_RULES;
    case REASON_DENIED_BY_RULE: return LINE_DENY;
    case REASON_CREDENTIAL_FOREIGN: return LINE_CREDENTIALS;
    case REASON_BODY_TOO_LARGE: /* there is none where rules only read */
    case REASON_TARGET_TOO_LONG: return LINE_RULES;
    default: return LINES;
    }
}

/* Are its fields all of those that no gateway passes on, or is it the Host that is wrong? */
static bool is_dropped_anyway(const struct turn *x)
{
    struct slice rest = slice_of(x->asked.fields), line;
    size_t n = 0;

    while (slice_next(&rest, '\n', &line)) {
        struct slice name = slice_cut(line, 0, (size_t)(slice_find(line, ':') + 1));

        if (name.len == 0 || slice_is_nocase(name, "accept:"))
            continue;
        name.len--;
        n++;
        if (!(field_meaning(name) & (FIELD_AMBIENT | FIELD_HOP)))
            return false;
    }
    return n || x->asked.host;
}

static void add_line(const struct tighter *t, enum remedy_how how, struct tighter_of *of, const struct turn *x, struct fate f)
{
    enum tighter_line line = f.kind == FATE_PLAIN ? (t->on & BIT(LINE_FIELDS) ? LINE_FIELDS : LINE_RULES) : tighter_line_of(f.reason);

    if (how == REMEDY_FIELDS && is_dropped_anyway(x))
        return;
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
bool tighter_is_needed_edge(const struct tighter *t, const struct audit_result *r)
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
            through = through || !tighter_is_at_work(how, &r->evidence, i) ? through : x;
            continue;
        }
        n++;
        if (f.kind != FATE_REFUSED)
            of->lines |= BIT(LINE_EDGES);
        else if (tighter_is_at_work(how, &r->evidence, i))
            add_line(t, how, of, x, f);
        rehearsal_refuse(h, i, f.kind == FATE_REFUSED ? reason_get(f.reason)->status : 502);
    }
    if (n && (n == r->evidence.n || rehearsal_is_good(h, r->check))) /* of nothing no judge can tell, and nothing it is */
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

        if (!tighter_is_at_work(how, &r->evidence, i))
            continue;
        f = fate_of(t->policy, audit_target(t->audit), r->evidence.list[i]);
        n++;
        if (f.kind == FATE_REFUSED || (how == REMEDY_FIELDS && f.kind == FATE_PLAIN))
            add_line(t, how, of, r->evidence.list[i], f);
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

void tighter_try_all(struct tighter *t)
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
