/*
 * The auditor's own listener: it runs in a thread, at the places of the manifest, in two parts. As a place that nobody should be
 * sent to it only remembers who came, and with what. As the service's upstream it also answers as it was told to, by the
 * nonce in the request: with a redirect to a place of the first kind, a challenge whose realm is there, package metadata
 * that name it, pages for one caller alone.
 */
#ifndef AUDIT_BEACON_H
#define AUDIT_BEACON_H

#include "audit/target.h"

enum { NONCE_LEN = 20, HIT_MAX = 32 * 1024, HITS_MAX = 2000 };

enum act {
    ACT_PAGE,            /* a page that everybody may keep */
    ACT_REDIRECT,        /* 302 to `to` */
    ACT_REDIRECT_307,
    ACT_CHALLENGE,       /* 401 Bearer with realm `to` */
    ACT_LINK_NEXT,       /* 200 with Link: <to>; rel="next" */
    ACT_PACKAGE,         /* npm metadata whose tarball is at `to` */
    ACT_PRIVATE_MAX_AGE, /* 401 without Authorization; with it a page of its own, Cache-Control: max-age */
    ACT_PRIVATE_PUBLIC,  /* the same, Cache-Control: public */
    ACT_COOKIE,          /* a page that sets a fresh cookie and says it may be kept */
    ACT_ECHO,            /* a page that repeats the forwarding fields and may be kept */
    ACT_NO_STORE,        /* a fresh number, Cache-Control: no-store */
    ACT_VARY,            /* repeats Accept-Language, Vary: Accept-Language */
    ACT_CHANGED,         /* other bytes under the same name, each time */
    ACT_MISSING,         /* 404 */
    ACT_REBIND,          /* of a name in the zone: `to` has two addresses, the first for who asks first, the second ever after */
};

/* Somebody came. */
struct hit {
    struct addr at;      /* which of our places */
    bool is_upstream;
    bool is_name;        /* a question about a name of the zone: bytes are that name */
    bool is_tls;         /* began a TLS handshake: nothing more is known */
    int64_t at_ms;       /* monotonic */
    struct buf bytes;    /* head and body as they came, at most HIT_MAX */
};

struct beacon;

/* Listen at every place of the target. NULL and why when one of them cannot be had. */
struct beacon *beacon_start(const struct target *t, struct fault *why);
void beacon_free(struct beacon *b);

/* Requests to the upstream that carry this nonce are answered so. */
void beacon_act(struct beacon *b, const char *nonce, enum act act, const char *to);
/* And those that carry none of the nonces: what a service asks before it asks for the thing itself. ACT_PAGE ends it. */
void beacon_act_otherwise(struct beacon *b, enum act act, const char *to);

/*
 * Who came so far: a copy of the list (give: beacon_hits_free). Hits that hold nonce (any case) when it is not NULL; of those at the
 * upstream only when is_upstream, of the others only when not.
 */
size_t beacon_hits(struct beacon *b, const char *nonce, bool is_upstream, struct hit **list);
void beacon_hits_free(struct hit *list, size_t n);

#endif
