/*
 * One connection of a client, and the one to the gateway that was made for it: bytes both ways, each way with a buffer of
 * its own, an end passed on as an end and a cut as a cut. With a pass, requests without a token are given one.
 *
 * The loop (sandbox/relay.c) asks what to wait for, waits, and calls link_turn; nothing here blocks.
 */
#ifndef SANDBOX_LINK_H
#define SANDBOX_LINK_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "sandbox/pass.h"
#include "sandbox/endpoint.h"

struct link;

enum { LINK_POLLS = 4 }; /* how many entries of poll() a link fills */

struct link_terms {
    const struct endpoint *gateway; /* kept */
    struct pass *pass;           /* kept; NULL: bytes pass as they are */
    void (*say)(const char *what, const char *detail); /* trouble, for people */
};

/* in and out are the client's (the same, or standard input and output) and non-blocking; taken. NULL: no memory; they are closed. */
struct link *link_new(int in, int out, const struct link_terms *terms, int64_t now_ms);
void link_free(struct link *l);
/* Fill p with what to wait for; returns when to call link_turn at the latest (milliseconds of the same clock; -1: no matter). */
int64_t link_wants(const struct link *l, struct pollfd p[LINK_POLLS]);
/* Do what can be done; p is as link_wants filled it and poll() answered. False: it is over, free it. */
bool link_turn(struct link *l, const struct pollfd p[LINK_POLLS], int64_t now_ms);

#endif
