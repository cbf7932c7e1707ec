/* Owns what a tighter policy says. Must not know how it is written down. */
#include "audit/tighter.h"

#include <stdlib.h>
#include <string.h>

#include "audit/clients.h"
#include "audit/remedy.h"
#include "audit/state.h"
#include "base/clock.h"
#include "base/text.h"

#define BIT(line) (1u << (line))

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

        if (turn_answered(b->none) && b->path[0] == '/' && !strpbrk(b->path, "*{?") && tighter_line_of(fate_of(t->policy, audit_target(t->audit), b->none).reason) == LINE_RULES)
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

static void remove_deny(struct tighter *t, size_t i)
{
    free(t->denies[i].rule);
    t->n_denies--;
    memmove(&t->denies[i], &t->denies[i + 1], (t->n_denies - i) * sizeof *t->denies);
    t->on &= t->n_denies ? ~0u : ~BIT(LINE_DENY);
    t->why = (struct fault){0};
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
        remove_deny(t, t->n_denies - 1);
        compile(t);
        return;
    }
    free(t->denies[t->n_denies].rule);
}

/* A rule that did not close what it was for closes nothing that it should. */
static void drop_idle_denies(struct tighter *t)
{
    size_t n = t->n_denies;

    for (size_t i = n; i-- > 0;)
        if (t->of[t->denies[i].result].claim == CLAIM_SERVICE)
            remove_deny(t, i);
    if (t->n_denies < n && compile(t))
        tighter_try_all(t);
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
            if (tighter_is_at_work(how, &r->evidence, j) && fate_of(t->policy, audit_target(t->audit), r->evidence.list[j]).kind != FATE_REFUSED)
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
    bool is_needed = false;

    for (size_t i = 0; i < audit_count(t->audit); i++)
        is_needed = is_needed || (t->of[i].passes && remedy_of(audit_result(t->audit, i)->check->id)->how == REMEDY_EDGES && tighter_is_needed_edge(t, audit_result(t->audit, i)));
    for (size_t i = 0; i < audit_count(t->audit); i++) {
        const struct audit_result *r = audit_result(t->audit, i);

        if (!t->of[i].passes)
            continue;
        if (remedy_of(r->check->id)->how == REMEDY_EDGES && !is_needed)
            t->on |= BIT(LINE_EDGES);
        if (remedy_of(r->check->id)->how != REMEDY_FIELDS)
            continue;
        t->on |= BIT(LINE_FIELDS);
        for (size_t j = 0; j < r->evidence.n; j++)
            if (tighter_shows_own(&r->evidence, r->evidence.list[j]))
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
        tighter_try_all(t);
        return t;
    }
    if (!compile(t))
        return t;
    add_beside(t);
    if (!compile(t))
        return t;
    tighter_try_all(t);
    deny_what_passes(t);
    turn_lines_on(t);
    if (!compile(t))
        return t;
    tighter_try_all(t);
    drop_idle_denies(t);
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
