/*
 * The routes by which a sandbox's request can carry a secret out: one row each, which says how it is sent. A route of the kind
 * PASSAGE_CARRIES is tried in every spelling (audit/spelling.h), others with it as it is alone. Private to audit/.
 */
#ifndef AUDIT_PASSAGE_H
#define AUDIT_PASSAGE_H

#include "audit/check.h"

enum { PASSAGE_CARRIES = 1, PASSAGE_TOGETHER = 2 /* one request alone carries nothing */, PASSAGE_UPSTREAM = 4 /* the service names it to its upstream */ };

/* What is to be carried. Texts live as long as the evidence. */
struct cargo {
    const char *plain;    /* the secret */
    const char *text;     /* as it is spelt */
    bool is_escaped;      /* it holds % on purpose: nothing in it is escaped again */
    const char *nonce;
    const char *near;     /* a path beside the first protected one, ended by / */
    const char *known;    /* the first protected path */
    const char *method;   /* that content is sent with: POST or PUT */
    enum who who;
};

struct passage {
    const char *id;
    const char *place;  /* "in the query" */
    unsigned run;       /* RUN_WRITES, RUN_LISTENER */
    unsigned kind;      /* PASSAGE_... */
    const char *field;  /* the request field it stands in; NULL: in none, or in several */
    void (*send)(struct evidence *e, const struct cargo *c);
    const char *advice; /* what closes it at the gateway */
};

extern const struct passage passages[];
extern const size_t n_passages;

#endif
