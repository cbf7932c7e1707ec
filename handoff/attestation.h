/*
 * Attestations: what an audit found of one service, signed by whoever audited: this gateway with a key of its own, or another
 * machine that `attesters` lists. JWT, ES256 (RFC 7519), "typ": "exeat-attestation+jwt", in the state directory's
 * attestations/SERVICE.jwt; of two, the one of the configuration in force counts. Claims: iss (who audited), sub (the service), iat (when), exp (when something accepted ends), and
 *
 *   config   SHA-256 of what the configuration decides of the service (service_digest), in hexadecimal: another
 *            configuration, and the audit was of something else
 *   passing  true or false; failing: the checks that kept it from passing
 *   probes   version of the probe set
 *
 * Roles get the texts and the public keys in their bundle, and judge by themselves. Pure, but for attestation_add_files.
 */
#ifndef HANDOFF_ATTESTATION_H
#define HANDOFF_ATTESTATION_H

#include "authz/policy.h"
#include "authz/signer.h"
#include "base/buf.h"
#include "base/bundle.h"

#define ATTESTATION_DIRECTORY "attestations"
/* Of the gateway's own: state/attestation.key and .jwks, made by the first audit (signer_create). */
#define ATTESTATION_KEY "attestation"
/* Version of the probe set: goes up when a check asks or judges differently, which makes older audits worthless. */
#define ATTESTATION_PROBES "1"

/* attesters.NAME.jwks */
extern const struct conf_section attesters_section;

/* Borrowed. */
struct attestation {
    const char *attester;        /* iss: the gateway's name, or who it is */
    const char *service;
    const unsigned char *digest; /* service_digest */
    int64_t at_s;
    int64_t until_s;             /* exp; 0: none */
    bool is_passing;
    const char *const *failing;  /* NULL-ended; when it is not passing */
    const char *summary;         /* a JSON object: what else is worth keeping ("summary"); NULL: nothing */
};

/*
 * Put a token into state/attestations/SERVICE.jwt, which is made when it is not there. What is there of another configuration stays
 * beside it as SERVICE.before.jwt: whoever audits for a new one before it is in force does not close the service under the old one.
 */
bool attestation_write(const char *state, const char *service, struct slice token, struct fault *why);

/* Append it in compact form. */
bool attestation_sign(const struct signer *key, const struct attestation *a, struct buf *out, struct fault *why);

/*
 * Read what there is below state into files: "attestation.SERVICE" and ".before" for each service of p, "attester.jwks" (the gateway's own
 * key) and "attester.NAME.jwks" for those that c lists. What is not there is no failure; what cannot be read is.
 */
bool attestation_add_files(const char *state, const struct conf *c, const struct policy *p, struct bundle *files,
                           struct fault *why);
/* All of that into another bundle: what a role is handed. */
void attestation_copy(struct bundle *to, const struct bundle *from, const struct conf *c);
/*
 * Judge each of them, and tell p. A service whose attestation is not to be believed is closed, and says why. NULL and why: a
 * key set of an attester that cannot be read, with its place. files as above, whole or the part of it that a role has.
 */
bool attestation_use(struct policy *p, const struct conf *c, const struct bundle *files, int64_t now_s, struct fault *why);

#endif
