/*
 * Presets: what a well-known kind of client needs, as rules, fields and limits. Never hosts: those are the operator's.
 */
#ifndef AUTHZ_PRESET_H
#define AUTHZ_PRESET_H

#include <stdint.h>

struct preset {
    const char *name;
    const char *help;          /* one line, for `config schema` and docs */
    const char *const *allow;  /* rules, ended by NULL; a service's own `allow` stands for them */
    const char *const *deny;   /* added to a service's own */
    const char *const *fields; /* request fields that are forwarded */
    uint64_t body;             /* bytes of a request body */
    uint64_t target;           /* bytes of a target */
};

#define PRESET_CHOICES "none|npm-read|pypi-read|git-clone"

/* NULL for "none" and for names that are not there. */
const struct preset *preset_find(const char *name);

#endif
