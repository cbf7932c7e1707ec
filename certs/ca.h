/*
 * The gateway's CA: a root that signs one name-constrained intermediate, which signs leaves. RFC 5280.
 * The root is used only by the first two functions, at `ca init` and when the host set changes; the keeper holds the
 * intermediate alone.
 */
#ifndef CERTS_CA_H
#define CERTS_CA_H

#include <openssl/evp.h>
#include <openssl/x509.h>

#include "base/buf.h"
#include "base/bundle.h"
#include "base/fault.h"

/*
 * Files in the state's ca/ directory: root.pem, root.key (0600), intermediate.pem, intermediate.key (0600).
 * root: P-256, ten years, pathlen 1, keyCertSign and cRLSign, critical basicConstraints. Makes the directory; refuses
 * to overwrite a root (FAULT_REFUSED). name: "gw.example", at most 64 characters.
 */
bool ca_init(const char *directory, const char *name, struct fault *why);

/*
 * Make sure the intermediate's critical name constraints permit exactly these hosts (exact names and
 * "*.suffix" patterns, canonical; n of them): re-issue it from root.key, with a fresh key, when the set differs, when
 * a file is missing or the files do not fit each other, or when less than a third of its year is left. All IP
 * addresses are excluded, pathlen 0. *issued says whether a new one was written.
 * With no root.key beside it, one that permits all of the hosts and has not ended stays, with a warning; one that lacks a
 * host is FAULT_MISSING, and what to do. Over 200 names is refused (several intermediates come later).
 */
bool ca_ensure_intermediate(const char *directory, const char *name, const char *const *hosts, size_t n, bool *issued,
                            struct fault *why);

/* Whether ca_init was ever here; else a fault with the remedy. */
bool ca_is_there(const char *directory, struct fault *why);

/* Would ca_ensure_intermediate succeed? The same questions with the same words; writes nothing. */
bool ca_check(const char *directory, const char *const *hosts, size_t n, struct fault *why);

/*
 * Put what the keeper needs into its bundle as "ca/intermediate.pem", "ca/intermediate.key", "ca/root.pem"; and
 * nothing else: root.key never leaves its file. Refuses a key that others can read.
 */
bool ca_add_files(const char *directory, struct bundle *files, struct fault *why);

/* The signing half: intermediate certificate and key, root for the chain. Refuses parts that do not fit each other. */
struct ca;
struct ca *ca_load(struct slice intermediate_pem, struct slice intermediate_key_pem, struct slice root_pem,
                   struct fault *why);
/* The same from a bundle that ca_add_files filled. */
struct ca *ca_load_files(const struct bundle *files, struct fault *why);
void ca_free(struct ca *c);

/*
 * A form: a leaf for one public key (P-256, or RSA of 2048 bits and more; anything else is FAULT_REFUSED) with all but
 * host, serial and dates filled in. Made once per key, since OpenSSL 3 takes longer to write a key than to sign. c is
 * kept, public_key borrowed.
 */
struct ca_form;
struct ca_form *ca_form_new(const struct ca *c, EVP_PKEY *public_key, struct fault *why);
void ca_form_free(struct ca_form *f);

struct ca_issued {
    int64_t not_after_s;
    unsigned char serial[16];
};

/*
 * A leaf for one host (canonical): 24 h (backdated 1 h, never past the intermediate's end), empty subject, critical SAN
 * (dNSName host), AKI, SKI, keyUsage digitalSignature (RSA keys: also keyEncipherment), EKU serverAuth, 128-bit random
 * serial. Appends DER: leaf, then intermediate, each with a u32 length in front (pack_bytes). Which hosts are listed is
 * the caller's to check.
 */
bool ca_issue(struct ca_form *f, const char *host, int64_t now_s, struct buf *chain, struct ca_issued *issued,
              struct fault *why);

/* For `ca show`: lines for people, or one object exeat.ca/1 (json). */
bool ca_describe(const char *directory, bool json, struct buf *out, struct fault *why);
/* For `ca export`: the root as PEM, after a check that it is one. */
bool ca_export(const char *directory, struct buf *out, struct fault *why);

#endif
