/*
 * One rule of a service: "METHOD[,METHOD] /path/pattern[?query]", and the values its captures are bound to.
 * Internal to authz.
 */
#ifndef AUTHZ_RULE_H
#define AUTHZ_RULE_H

#include <stdint.h>

#include "authz/pattern.h"
#include "authz/request.h"

enum { METHODS_MAX = 32, METHOD_LEN_MAX = 24, RULE_LEN_MAX = 255 };

/* The methods that the rules of one service speak of; each is a bit. */
struct methods {
    char names[METHODS_MAX][METHOD_LEN_MAX + 1];
    size_t count;
};

/* The bit of a method; 0: no rule speaks of it. */
uint32_t methods_bit(const struct methods *m, struct slice method);

/* {name} of `bind`: the canonical segments that a capture of this name may be. */
struct bind {
    char *name;
    char **values;
    size_t count;
    bool used;
};

struct rule {
    char *text; /* as written */
    size_t len; /* at most RULE_LEN_MAX */
    uint32_t methods;
    struct pattern *pattern;
    struct pattern *loose;                      /* deny rules, and all of a preset */
    const struct bind *binds[PATTERN_CAPTURES]; /* allow rules; one for each capture */
};

/* Read a rule; methods it is the first to speak of are added. loose: it has that pattern, and captures need no bind. why has no place. */
bool rule_parse(struct rule *r, const char *text, struct methods *m, bool loose, struct bind *binds, size_t n_binds,
                struct fault *why);
void rule_clear(struct rule *r);

/* How near a request comes to an allow rule. */
enum rule_fit { RULE_OTHER_PATH, RULE_OTHER_METHOD, RULE_OTHER_QUERY, RULE_OTHER_BIND, RULE_FITS };
/* other: with RULE_OTHER_BIND, which capture it is. */
enum rule_fit rule_judge(const struct rule *r, uint32_t method, const struct request *q, size_t *other);
/* loose: the path as path_loosen() leaves it; of a rule that has such a pattern, is that one's way to read it, too? */
bool rule_fits_loosely(const struct rule *r, uint32_t method, const struct request *q, struct slice loose);
bool rule_denies(const struct rule *r, uint32_t method, const struct request *q, struct slice loose);

#endif
