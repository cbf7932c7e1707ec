/*
 * The keys that issuers publish, as they were last fetched, by the issuers' names. The clerk fetches them; the supervisor keeps them
 * (here, and in the state directory) and hands them on; workers and the keeper verify by them. The set is opaque here:
 * who verifies parses it.
 */
#ifndef PROXY_KEYRING_H
#define PROXY_KEYRING_H

#include "authz/issuer.h"
#include "base/pack.h"

enum { KEYRING_SET_MAX = 48 << 10 /* bytes of a set: it travels in one message */ };

struct keyring;

struct keyring *keyring_new(void);
void keyring_free(struct keyring *r);

/* Copies. True when the set is another one than before. */
bool keyring_put(struct keyring *r, struct slice issuer, struct slice uri, int64_t fetched_s, struct slice set);
/* The newest set of an issuer, when it is from this URL; borrowed until the next put. */
bool keyring_find(const struct keyring *r, struct slice issuer, struct slice uri, int64_t *fetched_s, struct slice *set);
/* Drop what no issuer of c publishes. */
void keyring_keep(struct keyring *r, const struct conf *c);
/* Every issuer whose keys are here gets them. What an issuer cannot use is said, and left out. */
void keyring_apply(const struct keyring *r, struct issuers *issuers);

/* MSG_KEYS: all that is here, one message each. */
void keyring_send(const struct keyring *r, void (*send)(void *arg, struct slice message), void *arg);
void keyring_pack(struct buf *out, struct slice issuer, struct slice uri, int64_t fetched_s, struct slice set);
/* Put what one message says; *changed as keyring_put. False when it cannot be read. */
bool keyring_take(struct keyring *r, struct slice message, bool *changed);

/*
 * The state directory's keys/ISSUER, mode 0600: "exeat.keys/1 SECONDS URL" and a newline, then the set. A gateway that starts
 * while the issuer is away goes on by it, until jwks-max-age.
 */
bool keyring_store(const char *state, const char *issuer, struct slice uri, int64_t fetched_s, struct slice set, struct fault *why);
/*
 * Put what is stored for the issuers of c, where the URL is still the configured one. False and why when a file that is there
 * cannot be read, or everybody can write it; the others are put all the same.
 */
bool keyring_load(struct keyring *r, const struct conf *c, const char *state, struct fault *why);
/* For tools: issuers gets what the gateway of c stored. False and why as keyring_load. */
bool keyring_apply_stored(const struct conf *c, struct issuers *issuers, struct fault *why);

#endif
