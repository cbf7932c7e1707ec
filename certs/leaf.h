/*
 * The worker's half: one ephemeral leaf key (P-256) made at start, leaves by host in a bounded cache,
 * ready for SSL_use_cert_and_key. Which leaf is missing, and asking the keeper, is the caller's work.
 */
#ifndef CERTS_LEAF_H
#define CERTS_LEAF_H

#include <openssl/ssl.h>

#include "base/fault.h"
#include "base/slice.h"

struct leaves;
/* Borrowed from the cache until the next leaves_add; whoever keeps one longer holds a reference. */
struct leaf;

/* Keeps at most `most` leaves (1 or more); the least recently found one goes first. */
struct leaves *leaves_new(size_t most, struct fault *why);
void leaves_free(struct leaves *l);
/* Keep at most so many from now on. */
void leaves_limit(struct leaves *l, size_t most);
/* Forget all of them, not the key: the intermediate is another one. */
void leaves_forget(struct leaves *l);
size_t leaves_count(const struct leaves *l);
/* The public key as SubjectPublicKeyInfo DER, for the keeper. */
struct slice leaves_public_key(const struct leaves *l);
/* The leaf for a host when there is one with more than a tenth of its life (at least 5 min) left and whose time has begun; else NULL. */
struct leaf *leaves_find(struct leaves *l, const char *host, int64_t now_s);
/*
 * Store what the keeper gave (the form of ca_issue) in place of what there was for this host; refuses a chain that does
 * not fit key or host.
 */
struct leaf *leaves_add(struct leaves *l, const char *host, struct slice chain, int64_t not_after_s,
                        struct fault *why);

/* One reference more or less. leaf_unref(NULL) is fine. */
struct leaf *leaf_ref(struct leaf *leaf);
void leaf_unref(struct leaf *leaf);
/* Put certificate, chain (the intermediate) and key on one connection, in place of any it has. */
bool leaf_use(const struct leaves *l, const struct leaf *leaf, SSL *ssl, struct fault *why);

#endif
