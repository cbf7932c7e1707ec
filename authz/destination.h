/*
 * Where a service may send its clients on to, as hands-off-to has it: "host", "host:port", "http://host", each also with
 * "*.suffix" for all names below. Without a port the scheme's own; without a scheme https, or the one that the client came
 * with. Pure.
 */
#ifndef AUTHZ_DESTINATION_H
#define AUTHZ_DESTINATION_H

#include "net/name.h"

struct destination {
    bool plain;                       /* "http://": also where the client came by https */
    uint16_t port;                    /* 0: the scheme's own */
    char host[2 + NAME_MAX_LEN + 1];  /* canonical, "*." in front for a suffix */
};

/* False and why (without a place) when text is none. */
bool destination_parse(struct slice text, struct destination *out, struct fault *why);
/* Does it take in this place? host is canonical; was_plain: the client came by plain HTTP. */
bool destination_holds(const struct destination *d, bool is_tls, struct slice host, uint16_t port, bool was_plain);

#endif
