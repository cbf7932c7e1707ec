/*
 * Canaries: synthetic secrets, planted to be caught, and the
 * registry of them. Needs only base.
 */
#ifndef CANARY_CANARY_H
#define CANARY_CANARY_H

#include "base/buf.h"
#include "base/conf.h"
#include "base/fault.h"
#include "base/slice.h"

/* canaries.{file,on-leak} */
extern const struct conf_section canaries_section;

#define CANARY_COUNT_MAX 10000
#define CANARY_VALUE_MAX 512 /* bytes; the scanner holds back the longest encoding of the longest value */
#define CANARY_BITS_MIN 80   /* of the random part, so that nothing else is ever taken for it */
#define CANARY_FILE_MAX ((size_t)16 << 20)

struct canary { /* borrowed from its registry; texts NUL-terminated */
    const char *id;      /* [A-Za-z0-9._-]{1,63}; "leave-token" is the scanner's own and refused */
    const char *kind;    /* [A-Za-z0-9._-]{1,63}: one of registry_kinds(), or the operator's word */
    const char *sandbox; /* whose it is; "" is everybody's */
    const char *value;   /* the whole secret */
    const char *created; /* RFC 3339 */
    bool plain;          /* looked for as it is alone */
    size_t value_len, random_from, random_len; /* value[random_from, +random_len) is the random part */
};

struct registry;

/*
 * canaries.json: {"schema":"exeat.canaries/1","canaries":[{"id","kind","sandbox","value",
 * "random_from","random_len","created"}]}. Strict: a member that is missing, unknown or of another type, an
 * id or value that stands twice, a value that is empty, too long or has a random part under CANARY_BITS_MIN
 * refuses the file. why (FAULT_SYNTAX) says "name: canaries[3] (id): what"; a value is never in it.
 */
struct registry *registry_parse(struct slice json, const char *name, struct fault *why);
struct registry *registry_new(void);
void registry_free(struct registry *r); /* values are wiped */
/* The file again; out holds secrets then (buf_wipe). */
void registry_json(const struct registry *r, struct buf *out);

/*
 * A real secret that passes by here on purpose and must not come back: at most its last CANARY_VALUE_MAX bytes are looked for.
 * No mint, no mark, and no check of what it is made of.
 */
void registry_add_secret(struct registry *r, const char *id, struct slice value);
/* Another way to write it: looked for as it is alone, in no further encoding. */
void registry_add_spelling(struct registry *r, const char *id, struct slice value);

/* Take one out: nobody looks for it after the next load. False when no canary has this id. */
bool registry_remove(struct registry *r, const char *id);

size_t registry_count(const struct registry *r);
/* Borrowed until registry_free; later mints do not move it. */
const struct canary *registry_get(const struct registry *r, size_t i);

/*
 * Mint one of a kind: it looks real, ends in the mark (canary_is_marked) and is unique in r. sandbox may be "".
 * Returns the new entry (borrowed); NULL and why when kind is unknown, sandbox is no name, or r is full.
 */
const struct canary *registry_mint(struct registry *r, const char *kind, const char *sandbox, int64_t now_s,
                                   struct fault *why);
/* Of the kind that exeat audit --from plants, and takes back: who sends one is refused as any, but not put in quarantine. */
#define CANARY_AUDIT_KIND "exeat-audit"
/* By its id: "exeat-audit-1a2b3c". */
bool canary_is_audits(struct slice id);
/* "aws|generic|...": kind names, for --help. */
const char *registry_kinds(void);
/* Where one of this kind is found by whoever looks for secrets: "~/.npmrc, as ...". */
const char *registry_where(const char *kind);

/*
 * The mark by which a minted value can be told synthetic: its last six characters follow from its random part.
 * Who finds such a text somewhere needs no registry to know it; who does not know this program sees nothing.
 */
bool canary_is_marked(const struct canary *c);

/* Bits of a random text: its length times what its character classes allow; 0 when it plainly is not random. */
unsigned canary_bits(struct slice random);

#endif
