/*
 * What differs between two listings of rulesets, as nft writes them: the one there should be and the one there is. Pure.
 */
#ifndef FIREWALL_DRIFT_H
#define FIREWALL_DRIFT_H

#include "base/buf.h"

enum drift_kind {
    DRIFT_MISSING, /* a line, or a whole chain or table, that should be there */
    DRIFT_ADDED,   /* one that should not */
    DRIFT_MOVED,   /* one in another place: order decides */
};

struct drift {
    enum drift_kind kind;
    struct slice table; /* "inet exeat_vm1" */
    struct slice block; /* "chain forward"; empty: the table itself */
    struct slice text;  /* the rule; empty: the whole block, or table */
    size_t line;        /* of the text it was made from; 0: it is of none there */
};

typedef void drift_found(void *arg, const struct drift *d);

/*
 * Call found for each difference of there from wanted, in wanted's order. source is the text that wanted was made from: its lines
 * are what d->line counts. Slices are borrowed from the texts. The number of differences.
 */
size_t drift_compare(struct slice wanted, struct slice there, struct slice source, drift_found *found, void *arg);

#endif
