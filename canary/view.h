/*
 * Views: the ways in which one secret can stand in raw bytes. A view spells a
 * secret as literals over the raw bytes, and says which bytes around a literal carry bits
 * of the secret too. A view that cannot be spelt as literals (MIME line breaks, compression) comes as a decoder
 * beside spell, one that maps its decoded offsets back to raw ones. Adding a view is adding a row.
 */
#ifndef CANARY_VIEW_H
#define CANARY_VIEW_H

#include "base/slice.h"

/*
 * A raw match is [start - lead, end + trail) for a literal found at [start, end).
 * The literal itself depends on the secret alone, whatever stands before and after it.
 */
struct spelling {
    const char *view; /* "identity", "base64", "base64url", "hex", "percent" */
    char *literal;    /* its owner's; not NUL-terminated */
    size_t len;
    unsigned lead, trail;
    bool any_case; /* of its letters */
};

/* The secret's spellings in every view, handed one by one to take(arg, s), which owns s.literal then. */
void view_spell(struct slice secret, void (*take)(void *arg, struct spelling s), void *arg);
/* Only as it is. */
void view_spell_plain(struct slice secret, void (*take)(void *arg, struct spelling s), void *arg);

#endif
