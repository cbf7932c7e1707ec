/*
 * How a probe is put into words: what stands in its request line, and its fields, with the credential it is sent with. Private to
 * audit/.
 */
#ifndef AUDIT_WORDING_H
#define AUDIT_WORDING_H

#include "audit/target.h"
#include "audit/turn.h"

struct curl_slist;

/* By which way a probe goes. All is borrowed. */
struct way {
    const struct target *target;
    const struct base_url *base; /* which of the target's */
    const struct addr *gateway;  /* NULL: directly */
    const char *leave_token;     /* for the gateway; NULL: it wants none */
    bool is_bare;                /* without the manifest's credentials */
};

/* A gateway is asked for whole URLs where there is no TLS. */
bool wording_is_whole(const struct way *w);

/* Host and port of the service, as a URL has them. */
void wording_authority(const struct way *w, struct buf *out);
/* What stands in the request line. There may be a secret in it. */
void wording_target(const struct way *w, const struct probe *p, struct buf *out);
/* The fields (give: wording_wipe), as libcurl takes them: "Name:" leaves out one that it would add. There are secrets in them. */
struct curl_slist *wording_fields(const struct way *w, const struct probe *p);
/* All of the request, but the body, as it goes over the wire when libcurl does not write it. There are secrets in it. */
void wording_head(const struct way *w, const struct probe *p, const char *method, const char *agent, struct buf *out);

/* The text of line as one more field; line is empty and wiped then. */
void wording_add(struct curl_slist **list, struct buf *line);
/* Overwritten and freed; NULL is fine. */
void wording_wipe(struct curl_slist *list);

#endif
