/*
 * What one check sent and what came back. The helpers here are the words that checks are written in: ask, a fresh nonce, a path of
 * the service's upstream, the baselines that answers are held against.
 */
#ifndef AUDIT_EVIDENCE_H
#define AUDIT_EVIDENCE_H

#include "audit/beacon.h"
#include "audit/turn.h"

enum { NONCES_MAX = 160, TURNS_MAX = 200, BASELINES_MAX = 8 };

/* One path, as it answers everybody. Exchanges are NULL where there was nobody to ask as. */
struct baseline {
    char *path;
    struct turn *none, *good, *second, *junk;
    struct turn *through; /* what nobody gets through the gateway, which may put a credential of its own in */
};

struct audit;

struct evidence {
    struct audit *audit;
    const struct target *target;
    bool audit_writes; /* --active */
    bool is_through;   /* asked through the gateway */
    struct turn *list[TURNS_MAX];
    size_t n;
    char nonces[NONCES_MAX][NONCE_LEN + 1];
    size_t n_nonces;
    char **texts; /* what probes borrow */
    size_t n_texts;
    struct hit *hits, *upstream_hits; /* who came with one of the nonces: at the listener, at the upstream */
    size_t n_hits, n_upstream_hits;
    char missing[200];       /* why it was not run */
    bool has_no_upstream;    /* because its owner says that there is no upstream: it does not apply */
    char not_applicable[200];
    char left[200];          /* what was written and could not be removed */
    int64_t number;          /* one thing measured, for the judge */
};

void evidence_clear(struct evidence *e);
/* The exchange, kept by the evidence; never NULL. */
struct turn *ask(struct evidence *e, struct probe p);
/*
 * The exchange that p would be, when it was asked before: a copy of that, with p's tag and variant, at no cost of the budget. Asked all the
 * same through the gateway, or when before is NULL or has no answer.
 */
struct turn *ask_once(struct evidence *e, const struct turn *before, struct probe p);
/* All that another check sent and got, as if this one had: for checks that ask the same and judge it differently. */
void evidence_copy(struct evidence *e, const struct evidence *from);
/* Fill hits and upstream_hits with who came so far. */
void evidence_collect(struct evidence *e);
/* Has anybody come to the listener with one of the nonces by now? */
bool evidence_is_hit(struct evidence *e);

/* Has one of these hits a nonce in it that x has, too? */
bool evidence_called(const struct evidence *e, const struct turn *x, const struct hit *hits, size_t n_hits);

/* Reasons not to ask; what was asked before stays. */
void evidence_missing(struct evidence *e, const char *format, ...) __attribute__((format(printf, 2, 3)));
void evidence_na(struct evidence *e, const char *format, ...) __attribute__((format(printf, 2, 3)));
void evidence_left(struct evidence *e, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Texts that live as long as the evidence. */
const char *words(struct evidence *e, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A fresh one: a letter and 19 letters or digits. Who comes with it came because of this check. */
const char *nonce_new(struct evidence *e);
/* template with each of this word, "{url}", replaced. */
const char *fill_in(struct evidence *e, struct slice template, const char *word, const char *text);
/* The same with {nonce}. */
const char *fill(struct evidence *e, const char *template, const char *nonce);

/* A path that the service gets from its upstream, which we play; NULL (and the reason in missing) when it cannot be had. */
const char *fetched(struct evidence *e, const char *nonce);
/* Have the upstream answer what carries this nonce so. */
void upstream_acts(struct evidence *e, const char *nonce, enum act act, const char *to);
void upstream_acts_otherwise(struct evidence *e, enum act act, const char *to);
/* "http://outside/nonce...": a place that nobody should be sent to; NULL (and missing) without a listener. */
const char *outside_host(struct evidence *e);
const char *inside_host(struct evidence *e);
const char *bare_host(struct evidence *e);
/* "NONCE.zone", a name that only the audit's own name server knows; NULL and missing without one. */
const char *zone_host(struct evidence *e, const char *nonce);
/* The name of what may be written, with a fresh nonce; NULL and missing when the manifest names nothing. */
const char *writable(struct evidence *e, const char *key, const char **nonce);

/* Where, for who writes in ways of its own: the path of it ("POST /notes ..." says /notes), and the method that it says, or PUT. */
const char *writable_path(struct evidence *e, const char **nonce, const char **method);

/* Who to ask as when the good credential is wanted: nobody, when there is none. */
enum who good_or_nobody(const struct evidence *e);
bool has_good(const struct evidence *e);
bool has_second(const struct evidence *e);

/* Baselines of the protected paths. 0 is the first, and always there. */
size_t baseline_count(const struct evidence *e);
const struct baseline *baseline_at(const struct evidence *e, size_t i);
/* What it answers who shows nothing: the service, or, when that is who was asked, the gateway before it. */
const struct turn *baseline_none(const struct evidence *e, const struct baseline *b);
/* What a path that nobody has answers, anonymously. */
const struct turn *nowhere(const struct evidence *e);
/* Does everybody get what the good credential gets? */
bool is_open(const struct baseline *b);
/* Was x let in where the baseline's path lets the good credential in: like it, and not like nobody? */
bool is_let_in(const struct baseline *b, const struct turn *x);

/* Is this host one of the service's own, its upstream, or in hands-to? Ports are not looked at. */
bool is_declared(const struct target *t, struct slice host);
/* The host of a URL, "" for a path alone: "http://u@HOST:1/x" and "//HOST/x". */
struct slice host_of_url(struct slice url);
/* A credential that came to the listener and is none of those we sent: the name of its field, or NULL. */
const char *foreign_credential(const struct target *t, const struct hit *h);
/* And one that is the good credential or the second tenant's. */
const char *carried_credential(const struct target *t, const struct hit *h);

/* The next with this tag behind *i (start at 0); NULL: no more. */
const struct turn *tagged(const struct evidence *e, int tag, size_t *i);

#endif
