/*
 * Name constraints (RFC 5280 4.2.1.10): which hosts an intermediate may speak for. Private to certs/.
 * A permitted dNSName covers the name itself and everything below it, so "*.npm.example" and
 * "npm.example" both become "npm.example"; exactness is the keeper's work. All IP addresses are excluded.
 */
#ifndef CERTS_CONSTRAINT_H
#define CERTS_CONSTRAINT_H

#include <openssl/x509.h>

#include "base/fault.h"

enum { CONSTRAINT_MOST = 200 };

/* A sorted set of names without duplicates. A zeroed struct is empty. */
struct constraint {
    char **names;
    size_t n;
};

/*
 * The set for these hosts (names and "*.suffix" patterns). No host at all gives "invalid" (RFC 6761), since an
 * empty list would permit every name. Over CONSTRAINT_MOST names: FAULT_LIMIT.
 */
bool constraint_of_hosts(const char *const *hosts, size_t n, struct constraint *out, struct fault *why);
/* What a certificate permits; false when it has no critical constraints in the form that constraint_add writes. */
bool constraint_of_cert(const X509 *x, struct constraint *out);
bool constraint_equals(const struct constraint *a, const struct constraint *b);
/* The first name of want that have lacks, or NULL; borrowed from want. */
const char *constraint_lacks(const struct constraint *have, const struct constraint *want);
void constraint_clear(struct constraint *c);

/* Write the critical extension. */
bool constraint_add(X509 *x, const struct constraint *c, struct fault *why);

#endif
