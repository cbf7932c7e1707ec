/*
 * Where a client that knows of no proxy keeps a registry's password, and so the leave token, which it then shows to a transparent listener
 * (docs/clients.md). For `exeat env --transparent`.
 */
#ifndef CMD_KEEPING_H
#define CMD_KEEPING_H

#include <stdint.h>

#include "base/buf.h"
#include "cmd/client.h"

/* Where a listed host is served. */
struct keeping_place {
    const char *host;
    uint16_t port;
    bool is_tls;
};

/* "FILE: LINE" for this place, or what to run; what a client cannot keep, and what to do instead. */
void keeping_write(const struct client *c, const struct keeping_place *p, const char *token, struct buf *out);
/*
 * The same read back, from the file that a client keeps it in by itself: *file (give) is its name, NULL for a client that keeps none; the
 * token (give) of this place, NULL when it has none.
 */
char *keeping_read(const struct client *c, const struct keeping_place *p, char **file);

#endif
