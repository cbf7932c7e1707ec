/*
 * What clients and services of the session's fuzzer say. Names are those of seeds/session.txt; a word's place in its
 * table is its byte in an input.
 */
#ifndef TESTS_WORDS_H
#define TESTS_WORDS_H

#include "base/buf.h"

struct word {
    const char *name;
    /*
     * $T the token, $U that of another sandbox, $J junk: as Proxy-Authorization lines; $N a number of its own; $C the canary;
     * $L WORDS_LARGE bytes, $K WORDS_MIDDLE. Of a WebSocket's client: $M the canary, $H and $I its halves, under the mask "abcd"; $B a
     * whole frame of WORDS_LARGE bytes.
     */
    const char *text;
};

#define WORDS_LARGE 300000
#define WORDS_MIDDLE 5000 /* more than the world's body-collect */

extern const struct word words_requests[], words_responses[];
extern const size_t words_n_requests, words_n_responses;

/* The text of a word. tokens: two. */
void words_expand(const struct word *w, const struct buf *tokens, unsigned number, struct buf *out);

#endif
