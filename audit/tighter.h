/*
 * The tighter policy: the part of proxy.conf that lists the audited service and keeps sandboxes from as much of what was found weak as a
 * gateway can, without closing what the service's real clients need (audit/clients.h). What is claimed is tried: each probe of each weak check is put to
 * the gateway's own decision (audit/fate.h). Private to audit/.
 */
#ifndef AUDIT_TIGHTER_H
#define AUDIT_TIGHTER_H

#include "audit/audit.h"
#include "audit/fate.h"

/* What the policy says beside where the service is. */
enum tighter_line {
    LINE_RULES,       /* preset, or allow */
    LINE_DENY,
    LINE_CREDENTIALS, /* client-credentials */
    LINE_FIELDS,      /* forward-fields */
    LINE_BODY,
    LINE_TARGET,
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

/* Of an audit that is done (kept). Never NULL; policy is NULL, and why says why, when none can be made. */
struct tighter *tighter_make(const struct audit *a);
void tighter_free(struct tighter *t);
bool tighter_is_weak(const struct audit_result *r);
/* Do FU-9 and CR-5 stand on what this one found: somebody came with a credential that is the service's own? */
bool tighter_is_followed(const struct audit *a, const struct audit_result *r);
/* How many weak checks there are with this claim; CLAIM_NONE: all weak ones. */
size_t tighter_count(const struct tighter *t, enum tighter_claim claim);
/* As YAML that may stand in proxy.conf, each line with the checks that it covers; whatever it is, it can be read by config check. */
void tighter_yaml(const struct tighter *t, struct buf *out);
/* Why only the service can mend the ith result: a clause without a full stop. */
void tighter_why(const struct tighter *t, size_t i, struct buf *out);

#endif
