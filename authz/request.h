/*
 * The canonical request: what authorize() judges. One spelling for every entry
 * (plain, tunnel, transparent, DNS) and every tool. Pure.
 */
#ifndef AUTHZ_REQUEST_H
#define AUTHZ_REQUEST_H

#include "net/head.h"
#include "net/name.h"

enum scheme { SCHEME_HTTP, SCHEME_HTTPS };

struct request {
    bool connect;                  /* a CONNECT: host and port alone */
    enum scheme scheme;            /* for CONNECT: by the port's list, decided in policy */
    char host[NAME_MAX_LEN + 1];   /* canonical */
    uint16_t port;
    struct slice method;           /* as sent; borrowed */
    struct slice target;           /* origin-form as it will be forwarded: path?query as written; borrowed */
    struct slice raw_path;         /* borrowed from target */
    struct slice query;            /* without '?', borrowed; has_query says whether there was one */
    bool has_query;
    bool websocket;                /* it asks for WebSocket (RFC 6455); whether rightly, net/upgrade.h says */
    struct buf path;               /* canonical path (authz/path.h), owned */
    struct slice carrier;          /* the field that the leave token came in, in place of what it means to services; it goes no further */
    const struct head *head;       /* the request's fields; borrowed; may be NULL (explain without fields) */
};

/* What the connection already fixed. */
struct request_context {
    bool tunnelled;        /* inside a CONNECT: host and port below are the tunnel's */
    bool transparent;      /* the client knows of no proxy: it meant this port, and this host unless that is NULL */
    enum scheme scheme;    /* in both */
    const char *host;      /* canonical */
    uint16_t port;
};

/*
 * Read a head into a canonical request. Outside a tunnel only absolute-form
 * http:// targets and CONNECT authority-form are requests to a proxy; https:// absolute-form is refused,
 * as are origin-form and asterisk-form. Inside, origin-form ("*" for OPTIONS refused), or absolute-form that names the
 * tunnel's own destination. Host, target and tunnel must agree: else authority_mismatch.
 * On a transparent listener only origin-form, whose host is the one of the connection, or else the one of the Host field.
 * why->reason: request_malformed, host_missing, proxy_request, not_a_proxy_request, host_invalid, path_invalid, authority_mismatch. No heap beyond r->path.
 * r is zeroed before its first use; reading again uses its memory again. Clear with request_clear().
 */
bool request_read(struct request *r, const struct head *head, const struct request_context *context,
                  struct fault *why);
/* The same from a method and a URL (ws and wss: a WebSocket), or CONNECT and host:port (explain, env). url must outlive r. */
bool request_from_url(struct request *r, struct slice method, struct slice url, struct fault *why);
void request_clear(struct request *r);

#endif
