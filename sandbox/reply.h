/*
 * Watches the first answer of a proxy go by, to know whether it switched: 2xx to a CONNECT, 101 to an upgrade (RFC 9110).
 * Interim answers before it are passed over. Pure.
 */
#ifndef SANDBOX_REPLY_H
#define SANDBOX_REPLY_H

#include <stdbool.h>
#include <stddef.h>

enum reply_says { REPLY_NOT_YET, REPLY_YES, REPLY_NO };

struct reply {
    bool connect;    /* set by the caller: which of the two was asked for */
    unsigned char n; /* bytes of the status line that were seen */
    int code;
    unsigned char end; /* how much of CR LF CR LF was seen, in an interim head */
    bool interim;
};

/* Zeroed but for connect at first. What is no status line says no. Not again after yes or no. */
enum reply_says reply_feed(struct reply *r, const unsigned char *bytes, size_t n);

#endif
