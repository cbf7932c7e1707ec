/*
 * How a probe is put into words: what stands in its request line, and its fields, with the credential it is sent with. Private to
 * audit/.
 */
#ifndef AUDIT_WORDING_H
#define AUDIT_WORDING_H

#include "audit/target.h"
#include "audit/turn.h"

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
/* The fields, each ended by a NUL; "Name:" has one left out that who sends would add. There are secrets in them. */
void wording_fields(const struct way *w, const struct probe *p, struct buf *out);
/* All of the request, but the body, as it goes over the wire. There are secrets in it. */
void wording_head(const struct way *w, const struct probe *p, const char *method, const char *agent, struct buf *out);

#endif
