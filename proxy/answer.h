/*
 * Our own answers: status line with reason and short id, Proxy-Status (RFC 9209),
 * problem+json (RFC 9457), the challenges of a 407 or 401. Pure.
 */
#ifndef PROXY_ANSWER_H
#define PROXY_ANSWER_H

#include "base/id.h"
#include "base/reason.h"

struct answer {
    enum reason reason;
    int status;          /* 0: the reason's own */
    const char *detail;  /* one line, or "" */
    const char *gateway; /* its name, and the realm */
    const struct id *id;
    bool keep_alive;
    bool head_only;      /* the request was HEAD */
    bool basic_alone;    /* of a 401 no Bearer: clients of image registries take its realm for a URL, and ask there */
    int64_t retry_ms;    /* of a 429: Retry-After; 0: a second */
    int minor;           /* HTTP version of the client */
};

int answer_status(const struct answer *a);
/* The whole response. */
void answer_write(const struct answer *a, int64_t wall_s, struct buf *out);
/* "HTTP/1.1 200 Connection established": the answer to CONNECT. */
void answer_established(const struct id *id, int minor, struct buf *out);

#endif
