/* Owns what a check sent and got. Must not judge. */
#include "audit/evidence.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "audit/beacon_answer.h"
#include "audit/state.h"
#include "base/clock.h"
#include "base/text.h"

void evidence_clear(struct evidence *e)
{
    for (size_t i = 0; i < e->n; i++)
        turn_free(e->list[i]);
    for (size_t i = 0; i < e->n_texts; i++)
        free(e->texts[i]);
    free(e->texts);
    beacon_hits_free(e->hits, e->n_hits);
    beacon_hits_free(e->upstream_hits, e->n_upstream_hits);
    *e = (struct evidence){0};
}

/* ---- asking ---- */

/* Requests go out at the budget's rate, evenly. */
static void pace(struct audit *a)
{
    int64_t now_ns = clock_mono_ns();

    if (a->next_ns > now_ns) {
        struct timespec t = {.tv_sec = (a->next_ns - now_ns) / 1000000000, .tv_nsec = (a->next_ns - now_ns) % 1000000000};

        nanosleep(&t, NULL);
        now_ns = a->next_ns;
    }
    a->next_ns = now_ns + a->interval_ns;
}

static struct turn *send_one(struct audit *a, const struct probe *p)
{
    struct turn *x;

    if (a->is_dead || a->sent + a->kept_back >= a->budget) {
        x = turn_new(p);
        x->outcome = OUTCOME_BUDGET;
        return x;
    }
    pace(a);
    x = transport_send(a->transport, p);
    if (x->outcome == OUTCOME_METHOD)
        return x;
    a->sent++;
    a->silent = x->outcome == OUTCOME_TIMEOUT ? a->silent + 1 : 0;
    if (a->silent >= SILENT_MAX)
        a->is_dead = true;
    return x;
}

struct turn *ask(struct evidence *e, struct probe p)
{
    struct turn *x;

    assert(e->n < TURNS_MAX);
    x = send_one(e->audit, &p);
    e->list[e->n++] = x;
    return x;
}

struct turn *ask_once(struct evidence *e, const struct turn *before, struct probe p)
{
    struct turn *x;

    if (e->is_through || !turn_answered(before))
        return ask(e, p);
    assert(e->n < TURNS_MAX);
    x = turn_copy(before);
    free(x->variant);
    x->variant = text_copy(slice_of(p.variant));
    x->tag = p.tag;
    e->list[e->n++] = x;
    return x;
}

void evidence_copy(struct evidence *e, const struct evidence *from)
{
    for (e->n = 0; e->n < from->n; e->n++)
        e->list[e->n] = turn_copy(from->list[e->n]);
    memcpy(e->nonces, from->nonces, sizeof e->nonces);
    e->n_nonces = from->n_nonces;
    memcpy(e->missing, from->missing, sizeof e->missing);
    memcpy(e->not_applicable, from->not_applicable, sizeof e->not_applicable);
    memcpy(e->left, from->left, sizeof e->left);
    e->has_no_upstream = from->has_no_upstream;
    e->number = from->number;
}

/* ---- who came ---- */

static void gather(struct evidence *e, bool is_upstream, struct hit **out, size_t *n_out)
{
    beacon_hits_free(*out, *n_out);
    *out = NULL;
    *n_out = 0;
    for (size_t i = 0; i < e->n_nonces; i++) {
        struct hit *list;
        size_t n = beacon_hits(e->audit->beacon, e->nonces[i], is_upstream, &list);

        *out = realloc(*out, (*n_out + n + 1) * sizeof **out);
        if (!*out)
            abort();
        for (size_t j = 0; j < n; j++)
            (*out)[(*n_out)++] = list[j]; /* with its bytes */
        free(list);
    }
}

void evidence_collect(struct evidence *e)
{
    if (!e->audit->beacon)
        return;
    gather(e, false, &e->hits, &e->n_hits);
    gather(e, true, &e->upstream_hits, &e->n_upstream_hits);
}

bool evidence_is_hit(struct evidence *e)
{
    evidence_collect(e);
    return e->n_hits > 0;
}

/* ---- reasons ---- */

bool evidence_called(const struct evidence *e, const struct turn *x, const struct hit *hits, size_t n_hits)
{
    for (size_t i = 0; i < e->n_nonces; i++)
        for (size_t j = 0; turn_names(x, e->nonces[i]) && j < n_hits; j++)
            if (text_holds(buf_slice(&hits[j].bytes), slice_of(e->nonces[i])))
                return true;
    return false;
}

static void reason(char out[200], const char *format, va_list args) __attribute__((format(printf, 2, 0)));
static void reason(char out[200], const char *format, va_list args)
{
    if (!out[0])
        vsnprintf(out, 200, format, args);
}

void evidence_missing(struct evidence *e, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    reason(e->missing, format, args);
    va_end(args);
}

void evidence_na(struct evidence *e, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    reason(e->not_applicable, format, args);
    va_end(args);
}

void evidence_left(struct evidence *e, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    reason(e->left, format, args);
    va_end(args);
}

/* ---- words ---- */

static const char *keep(struct evidence *e, char *text)
{
    e->texts = realloc(e->texts, (e->n_texts + 1) * sizeof *e->texts);
    if (!e->texts)
        abort();
    e->texts[e->n_texts++] = text;
    return text;
}

const char *words(struct evidence *e, const char *format, ...)
{
    struct buf text = {0};
    va_list args;

    va_start(args, format);
    buf_vprintf(&text, format, args);
    va_end(args);
    return keep(e, buf_take_text(&text));
}

const char *nonce_new(struct evidence *e)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    unsigned char random[NONCE_LEN];
    char *n = e->nonces[e->n_nonces];

    assert(e->n_nonces < NONCES_MAX);
    secret_random(random, sizeof random);
    n[0] = 'x';
    for (size_t i = 1; i < NONCE_LEN; i++)
        n[i] = letters[random[i] % (sizeof letters - 1)];
    n[NONCE_LEN] = 0;
    e->n_nonces++;
    return n;
}

const char *fill_in(struct evidence *e, struct slice template, const char *word, const char *text)
{
    struct buf out = {0};
    ptrdiff_t at;

    while ((at = slice_search(template, slice_of(word))) >= 0) {
        buf_append(&out, slice_cut(template, 0, (size_t)at));
        buf_text(&out, text);
        template = slice_from(template, (size_t)at + strlen(word));
    }
    buf_append(&out, template);
    return keep(e, buf_take_text(&out));
}

const char *fill(struct evidence *e, const char *template, const char *nonce)
{
    return fill_in(e, slice_of(template), "{nonce}", nonce);
}

/* ---- listener and upstream ---- */

static bool plays_upstream(const struct evidence *e)
{
    for (size_t i = 0; e->audit->beacon && i < e->target->n_places; i++)
        if (e->target->places[i].is_upstream)
            return true;
    return false;
}

const char *fetched(struct evidence *e, const char *nonce)
{
    const char *template = target_text(e->target, "fetch");

    if (target_has_no_upstream(e->target)) {
        e->has_no_upstream = e->has_no_upstream || !e->missing[0];
        evidence_missing(e, "the manifest says that it gets nothing from an upstream (fetch: none)");
    } else if (!template)
        evidence_missing(e, "the manifest has no fetch: what the service gets from an upstream, or none");
    else if (!plays_upstream(e))
        evidence_missing(e, "the audit does not play the service's upstream (upstream.addresses and --beacon)");
    else
        return fill(e, template, nonce);
    return NULL;
}

void upstream_acts(struct evidence *e, const char *nonce, enum act act, const char *to)
{
    if (e->audit->beacon)
        beacon_act(e->audit->beacon, nonce, act, to);
}

void upstream_acts_otherwise(struct evidence *e, enum act act, const char *to)
{
    if (e->audit->beacon)
        beacon_act_otherwise(e->audit->beacon, act, to);
}

static const char *listener(struct evidence *e, const char *key)
{
    const char *host = target_listener(e->target, key);

    if (!e->audit->beacon)
        evidence_missing(e, "it needs the listener (--beacon, and listener.addresses in the manifest)");
    else if (!host)
        evidence_missing(e, "the manifest has no listener.%s", key);
    return e->audit->beacon ? host : NULL;
}

const char *outside_host(struct evidence *e)
{
    return listener(e, "outside");
}

const char *inside_host(struct evidence *e)
{
    return listener(e, "inside");
}

const char *bare_host(struct evidence *e)
{
    return listener(e, "bare");
}

const char *zone_host(struct evidence *e, const char *nonce)
{
    if (!e->audit->beacon)
        evidence_missing(e, "it needs the listener (--beacon, and listener.addresses in the manifest)");
    else if (!e->target->zone)
        evidence_missing(e, "the manifest has no zone of the audit's own (listener.zone, listener.zone-address)");
    else
        return words(e, "%s.%s", nonce, e->target->zone);
    return NULL;
}

const char *writable(struct evidence *e, const char *key, const char **nonce)
{
    const char *template = target_text(e->target, key);

    if (!template) {
        evidence_missing(e, "the manifest has no %s: nothing may be written", key);
        return NULL;
    }
    *nonce = nonce_new(e);
    return fill(e, template, *nonce);
}

const char *writable_path(struct evidence *e, const char **nonce, const char **method)
{
    const char *name = writable(e, "write", nonce);
    struct slice rest = slice_of(name ? name : ""), first, path;

    *method = "PUT";
    if (!name)
        return NULL;
    if (slice_next(&rest, ' ', &first) && slice_next(&rest, ' ', &path) && rest.len) {
        *method = words(e, "%.*s", SLICE_ARG(first));
        return words(e, "%.*s", SLICE_ARG(path));
    }
    return name[0] == '/' || strstr(name, "://") ? name : words(e, "/%s", name);
}

/* ---- who, and baselines ---- */

bool has_good(const struct evidence *e)
{
    return e->target->first.secret != NULL;
}

bool has_second(const struct evidence *e)
{
    return e->target->second.secret != NULL;
}

enum who good_or_nobody(const struct evidence *e)
{
    return has_good(e) ? WHO_FIRST : WHO_NOBODY;
}

size_t baseline_count(const struct evidence *e)
{
    return e->audit->n_baselines;
}

const struct baseline *baseline_at(const struct evidence *e, size_t i)
{
    assert(i < e->audit->n_baselines);
    return &e->audit->baselines[i];
}

const struct turn *baseline_none(const struct evidence *e, const struct baseline *b)
{
    return e->is_through && b->through ? b->through : b->none;
}

const struct turn *nowhere(const struct evidence *e)
{
    return e->audit->nowhere;
}

bool is_open(const struct baseline *b)
{
    if (b->good)
        return turn_is_2xx(b->none) && turn_alike(b->none, b->good);
    return turn_is_2xx(b->none);
}

bool is_let_in(const struct baseline *b, const struct turn *x)
{
    if (!turn_answered(x) || turn_alike(x, b->none))
        return false;
    if (b->good && turn_alike(x, b->good))
        return true;
    return turn_is_2xx(x) && !turn_is_2xx(b->none);
}

/* ---- hosts ---- */

struct slice host_of_url(struct slice url)
{
    ptrdiff_t at = slice_search(url, SLICE("//"));
    size_t end = 0;

    if (at < 0 || (at > 0 && url.ptr[at - 1] != ':'))
        return slice_make("", 0);
    url = slice_from(url, (size_t)at + 2);
    while (end < url.len && !strchr("/?#\\ \t\"'<>", url.ptr[end]))
        end++;
    url = slice_cut(url, 0, end);
    while ((at = slice_find(url, '@')) >= 0)
        url = slice_from(url, (size_t)at + 1);
    if (slice_starts(url, SLICE("["))) {
        at = slice_find(url, ']');
        return at < 0 ? url : slice_cut(url, 1, (size_t)at);
    }
    at = slice_find(url, ':');
    return at < 0 ? url : slice_cut(url, 0, (size_t)at);
}

bool is_declared(const struct target *t, struct slice host)
{
    const char *upstream = target_upstream(t);

    if (host.len == 0 || (upstream && slice_is_nocase(host, upstream)))
        return true;
    for (size_t i = 0; i < t->n_base; i++)
        if (slice_is_nocase(host, t->base[i].host))
            return true;
    for (size_t i = 0; i < target_count(t, "hands-to"); i++)
        if (slice_is_nocase(host, target_text_at(t, "hands-to", i)))
            return true;
    return false;
}

static bool is_ours(const struct target *t, struct slice value)
{
    const struct credential *list[] = {&t->first, &t->second, &t->gateway};
    bool ours = slice_search(value, SLICE("nobody-gave-this-out")) >= 0 || slice_search(value, SLICE("ZXhlYXQ6bm9ib2R5")) >= 0 ||
                slice_search(value, SLICE("exeat-audit-canary")) >= 0;

    for (size_t i = 0; i < sizeof list / sizeof *list && !ours; i++)
        ours = list[i]->secret && text_holds_encoded(value, secret_slice(list[i]->secret));
    return ours;
}

static const char *const carriers[] = {"Authorization", "Proxy-Authorization", "Cookie", "X-Api-Key", "Private-Token", "X-Auth-Token", "X-JFrog-Art-Api"};

const char *foreign_credential(const struct target *t, const struct hit *h)
{
    for (size_t i = 0; i < sizeof carriers / sizeof *carriers; i++) {
        struct slice value = beacon_field(buf_slice(&h->bytes), carriers[i]);

        if (value.len && !is_ours(t, value))
            return carriers[i];
    }
    return NULL;
}

const char *carried_credential(const struct target *t, const struct hit *h)
{
    const struct secret *list[] = {t->first.secret, t->second.secret};

    for (size_t i = 0; i < sizeof carriers / sizeof *carriers; i++) {
        struct slice value = beacon_field(buf_slice(&h->bytes), carriers[i]);

        for (size_t j = 0; value.len && j < 2; j++)
            if (list[j] && text_holds_encoded(value, secret_slice(list[j])))
                return carriers[i];
    }
    return NULL;
}

const struct turn *tagged(const struct evidence *e, int tag, size_t *i)
{
    while (*i < e->n)
        if (e->list[(*i)++]->tag == tag)
            return e->list[*i - 1];
    return NULL;
}
