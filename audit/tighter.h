/*
 * The tighter policy: the part of proxy.conf that lists the audited service and keeps sandboxes from as much of what was found weak as a
 * gateway can, without closing what the service's real clients need (audit/clients.h). What is claimed is tried: each probe of each weak check is put to
 * the gateway's own decision (audit/fate.h). Private to audit/.
 */
#ifndef AUDIT_TIGHTER_H
#define AUDIT_TIGHTER_H

#include "audit/audit.h"
#include "audit/fate.h"
#include "audit/remedy.h"

/* What the policy says beside where the service is. */
enum tighter_line {
    LINE_RULES,       /* preset, or allow */
    LINE_DENY,
    LINE_CREDENTIALS, /* client-credentials */
    LINE_FIELDS,      /* forward-fields */
    LINE_EDGES,       /* handoff-edges, hands-off-to */
    LINES
};

enum tighter_claim {
    CLAIM_NONE,    /* nothing weak was found */
    CLAIM_SERVICE, /* only the service can mend it */
    CLAIM_ITSELF,  /* the gateway keeps sandboxes from it whatever is configured */
    CLAIM_LINES,   /* the lines of the policy do */
};

struct tighter_of {
    enum tighter_claim claim;
    unsigned lines;             /* bits of enum tighter_line */
    const struct turn *passes;  /* of CLAIM_SERVICE: a probe that clients need, too; NULL: remedy_of() says why not */
};

enum { DENIES_MAX = 48 };

struct tighter {
    const struct audit *audit;
    const char *scope;
    struct tighter_of *of;      /* by the audit's results */
    unsigned on;                /* which lines there are */
    struct {
        char *rule;
        size_t result;          /* whose */
    } denies[DENIES_MAX];
    size_t n_denies;
    const char *beside[BASELINES_MAX]; /* paths that the manifest names and the preset, or clients.allow, leaves out */
    size_t n_beside;
    const char *const *fields;  /* that clients need: of the preset, or what reading needs */
    bool is_dropped[64];        /* of those: they are repeated in answers, and not needed */
    struct policy *policy;      /* as compiled */
    struct fault why;           /* when no policy can be made */
};

/* ---- what it may claim (tighter_claim.c) ---- */

bool tighter_is_weak(const struct audit_result *r);
/* Is the ith probe of those that must not get through, for a check with this remedy? */
bool tighter_is_at_work(enum remedy_how how, const struct evidence *e, size_t i);
/* Does the answer repeat what the probe sent? */
bool tighter_shows_own(const struct evidence *e, const struct turn *x);
/* Do answers that clients need lead elsewhere? Then the gateway cannot keep them back. */
bool tighter_is_needed_edge(const struct tighter *t, const struct audit_result *r);
/* Which line refuses for this reason; LINES: none, the gateway itself. */
enum tighter_line tighter_line_of(enum reason reason);
/* Do FU-9 and CR-5 stand on what this one found: somebody came with a credential that is the service's own? */
bool tighter_is_followed(const struct audit *a, const struct audit_result *r);
/* Fill t->of, by t->policy. */
void tighter_try_all(struct tighter *t);

/* ---- making it (tighter.c) ---- */

/* Of an audit that is done (kept). Never NULL; policy is NULL, and why says why, when none can be made. */
struct tighter *tighter_make(const struct audit *a);
void tighter_free(struct tighter *t);
/* How many weak checks there are with this claim; CLAIM_NONE: all weak ones. */
size_t tighter_count(const struct tighter *t, enum tighter_claim claim);

/* ---- writing it (tighter_yaml.c) ---- */

/* As YAML that may stand in proxy.conf, each line with the checks that it covers; whatever it is, it can be read by config check. */
void tighter_yaml(const struct tighter *t, struct buf *out);
/* Why only the service can mend the ith result: a clause without a full stop. */
void tighter_why(const struct tighter *t, size_t i, struct buf *out);

#endif
