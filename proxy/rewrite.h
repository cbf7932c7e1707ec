/*
 * Heads as they go on: what is forwarded, what is dropped, what is added (RFC 9110 7.6). Pure.
 */
#ifndef PROXY_REWRITE_H
#define PROXY_REWRITE_H

#include "authz/policy.h"

/*
 * The request head for the service: origin-form target as it was written, Host from
 * the canonical destination, fields that the service forwards and that are not hop-by-hop, Via. Framing is ours:
 * Content-Length or Transfer-Encoding. A handshake of WebSocket (r->websocket) stays one, but offers no extension. Names of dropped end-to-end fields go to dropped, comma-separated.
 */
void rewrite_request(const struct request *r, const struct service *s, const char *via, struct buf *out,
                     struct buf *dropped);

/*
 * The request's trailers for the service, as whole lines: what would not be forwarded as a field is not forwarded as a
 * trailer either, and its name goes to dropped.
 */
void rewrite_request_trailers(const struct head *h, const struct service *s, const struct field *trailers, size_t n,
                              struct buf *out, struct buf *dropped);

struct response_frame {
    int minor;            /* HTTP version of the client */
    enum framing framing; /* towards the client */
    uint64_t length;
    bool keep_alive;      /* the client's connection goes on */
    bool head_only;       /* HEAD: metadata of a body that does not come */
};

/* The response head for the client: no hop-by-hop fields, no Alt-Svc, no Proxy-Status of ours, Via added. */
void rewrite_response(const struct head *h, const struct response_frame *frame, const char *gateway, const char *via,
                      struct buf *out);
/* The response's trailers for the client, as whole lines, under the same rules as its fields. */
void rewrite_response_trailers(const struct head *h, const struct field *trailers, size_t n, const char *gateway,
                               struct buf *out);
/* An interim response (1xx) for the client. */
void rewrite_interim(const struct head *h, const char *gateway, const char *via, struct buf *out);

/* The 101 by which the service switches to WebSocket, for the client. */
void rewrite_switch(const struct head *h, const char *gateway, const char *via, struct buf *out);

/* Does Via already name us (a loop)? */
bool rewrite_is_loop(const struct head *h, const char *gateway);

#endif
