/*
 * Assertions: short tokens that say to one service, in the gateway's name, which sandbox asks. JWT, ES256 (RFC 7519, RFC
 * 7518 3.4), act as in RFC 8693 4.1. The keeper holds the keys; everybody may read their public halves.
 *
 * In the state directory: assertion/signing.key signs; next.key and previous.key, when they are there, are published too,
 * so that verifiers know a key before it signs and after. A kid is the libtrust fingerprint of the key (base32 of the first 240
 * bits of SHA-256 of its SubjectPublicKeyInfo, in groups of four), since container registries find keys by that alone.
 */
#ifndef HANDOFF_ASSERTION_H
#define HANDOFF_ASSERTION_H

#include "base/buf.h"
#include "base/bundle.h"
#include "base/fault.h"

#define ASSERTION_DIRECTORY "assertion"

/* Names in bundles, and below the state directory. */
#define ASSERTION_SIGNING "assertion/signing.key"
#define ASSERTION_NEXT "assertion/next.key"
#define ASSERTION_PREVIOUS "assertion/previous.key"
#define ASSERTION_JWKS "assertion.jwks"

/* Make the directory and signing.key when they are not there. directory: state/assertion. */
bool assertion_ensure(const char *directory, struct fault *why);
/* Put the keys that are there into files under the names above, and ASSERTION_JWKS. */
bool assertion_add_files(const char *directory, struct bundle *files, struct fault *why);
/* Make next.key, to be published from the next reload on. Refused when it is there. */
bool assertion_prepare(const char *directory, struct fault *why);
/* next.key signs from the next reload on; what signed is published on as previous.key. Refused without next.key. */
bool assertion_rotate(const char *directory, struct fault *why);

struct assertion_key;
/* From PEM. */
struct assertion_key *assertion_key_parse(struct slice pem, const char *name, struct fault *why);
void assertion_key_free(struct assertion_key *k);
const char *assertion_key_id(const struct assertion_key *k);
/* A self-signed certificate of the key (PEM), for verifiers that take no JWKS. */
bool assertion_certificate(const struct assertion_key *k, const char *gateway, struct buf *out, struct fault *why);

/* Borrowed; NULL or "" leaves an optional claim out. */
struct assertion_claims {
    const char *gateway;   /* iss, and act.sub */
    const char *sandbox;   /* sub */
    const char *audience;
    const char *scope;
    const char *access;    /* a JSON array */
    const char *jti;
    int64_t issued_s, expires_s;
};

/* Append the token in compact form. */
bool assertion_sign(const struct assertion_key *k, const struct assertion_claims *c, struct buf *out, struct fault *why);

#endif
