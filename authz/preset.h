/*
 * Presets: what a well-known kind of client needs, as rules, fields and limits. Never hosts: those are the operator's.
 */
#ifndef AUTHZ_PRESET_H
#define AUTHZ_PRESET_H

#include <stdint.h>

#include "base/buf.h"

struct preset {
    const char *name;
    const char *help;          /* one line, for the docs */
    const char *const *allow;  /* rules, ended by NULL; a service's own `allow` stands for them */
    const char *const *deny;   /* added to a service's own */
    const char *const *fields; /* request fields that are forwarded */
    uint64_t body;             /* bytes of a request body */
    uint64_t target;           /* bytes of a target */
};

#define PRESET_CHOICES "none|npm-read|pypi-read|debian-read|oci-pull|git-clone|cargo-read|go-proxy|maven-read"

/* NULL for "none" and for names that are not there. */
const struct preset *preset_find(const char *name);
/* In the order of PRESET_CHOICES, from 0; NULL behind the last. */
const struct preset *preset_at(size_t i);
/* Append their names as a sentence has them: "a, b and c". */
void preset_names(struct buf *out);
/* Append what each allows, as Markdown. */
void preset_help(struct buf *out);

#endif
