/*
 * The content coding of a request's body (RFC 9110 8.4): what must be opened before it can be looked into.
 */
#ifndef PROXY_CODING_H
#define PROXY_CODING_H

#include "net/head.h"

enum coding {
    CODING_NONE,
    CODING_GZIP,  /* git sends its longer requests so */
    CODING_OTHER, /* nobody here can open it */
};

/* CODING_NONE when there is no body. */
enum coding coding_of(const struct head *h);

#endif
