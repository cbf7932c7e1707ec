/*
 * The gateway's CA (design 10): a root that signs one name-constrained
 * intermediate, which signs leaves. Pure but for ca_init, which draws keys. RFC 5280.
 */
#ifndef CERTS_CA_H
#define CERTS_CA_H

#include <openssl/evp.h>
#include <openssl/x509.h>

#include "base/buf.h"
#include "base/fault.h"
#include "base/secret.h"

/*
 * Files in the state's ca/ directory: root.pem, root.key (0600), intermediate.pem, intermediate.key (0600).
 * root: P-256, ten years, pathlen 1, keyCertSign and cRLSign, critical basicConstraints. Refuses to
 * overwrite (FAULT_REFUSED). name: "gw.example".
 */
bool ca_init(const char *directory, const char *name, struct fault *why);

/*
 * Make sure the intermediate's critical name constraints permit exactly these hosts (exact names and
 * "*.suffix" patterns, canonical; n of them): re-issue it from root.key when the set differs or
 * less than a third of its life is left. All IP addresses are excluded, pathlen 0. *issued says whether a new one was written.
 * With no root.key beside it and a differing set: FAULT_REFUSED and what to do. Over 200 names is refused
 * (several intermediates come later).
 */
bool ca_ensure_intermediate(const char *directory, const char *name, const char *const *hosts, size_t n, bool *issued,
                            struct fault *why);

/* The signing half: intermediate certificate and key, root for the chain. */
struct ca;
struct ca *ca_load(struct slice intermediate_pem, struct slice intermediate_key_pem, struct slice root_pem,
                   struct fault *why);
void ca_free(struct ca *c);

/*
 * A leaf for one host and this public key: 24 h (backdated 1 h, never past the intermediate's end),
 * empty subject, critical SAN (dNSName host), AKI, SKI, keyUsage digitalSignature (RSA keys: also
 * keyEncipherment), EKU serverAuth, 128-bit random serial. Appends DER: leaf, then intermediate, each with
 * a u32 length in front (pack_bytes). *not_after_s is when it ends.
 */
bool ca_issue(const struct ca *c, const char *host, EVP_PKEY *public_key, int64_t now_s, struct buf *chain,
              int64_t *not_after_s, struct fault *why);

/* Sentences for `ca show` (text) or an object (json). */
bool ca_describe(const char *directory, bool json, struct buf *out, struct fault *why);

#endif
