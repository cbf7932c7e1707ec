/*
 * The whole configuration of a gateway: the sections of all rooms, read and
 * checked together, with every file they name in memory. What load accepts, the
 * roles can start with. Opens files, starts nothing, writes nothing but ca_ensure.
 */
#ifndef PROXY_CONFIG_H
#define PROXY_CONFIG_H

#include "authz/policy.h"
#include "base/bundle.h"
#include "base/conf.h"
#include "handoff/handoff.h"
#include "proxy/role.h"

/* Every section, in the order of proxy.conf.example. */
const struct conf_section *const *gateway_sections(size_t *n);

struct gateway_config {
    struct conf *conf;
    struct conf *added;      /* listeners made while a gateway ran (proxy/listen_check.h) */
    struct policy *policy;
    struct handoffs *handoffs;
    int workers;             /* gateway.workers, "auto" counted */
    const char *name;        /* gateway.name; these are borrowed from conf */
    const char *state;       /* gateway.state, absolute */
    const char *user_prefix; /* gateway.user-prefix */
    const char *admin;       /* "unix:/..." or NULL */
    const char *publish;     /* "127.0.0.1:9464" or NULL */
    struct bundle *files;    /* every file but the CA's, as gateway_bundle names them */
    struct bundle *ca;       /* the CA's, as ca_add_files names them; NULL before gateway_ensure_ca */
    struct bundle *attestations; /* as attestation_add_files names them */
    struct bundle *patterns; /* of the canaries, compiled (proxy/lexicon.h); NULL: not, or there are none */
    struct bundle *assertion; /* as assertion_add_files names them; empty when no service is told who asks */
    char **warnings;         /* "proxy.conf:12:8: services.npm: ..." */
    size_t n_warnings;
};

/*
 * Read path and everything it names. NULL and why when any of it is refused:
 * the text begins with the place in the configuration, or the name of the file that is off.
 */
struct gateway_config *gateway_config_load(const char *path, struct fault *why);
void gateway_config_free(struct gateway_config *c);

/* Files below the state directory (give): "ca", "canaries.json", "revocations". */
char *gateway_state(const struct gateway_config *c, const char *name);

/* Is the CA as gateway_ensure_ca needs it? Writes nothing. */
bool gateway_check_ca(const struct gateway_config *c, struct fault *why);

/*
 * Make the CA's intermediate fit the listed hosts (certs/ca.h), and read it; *issued says whether a new one was
 * written. So with the key of assertions, where a service needs one. Before any role is given its bundle.
 */
bool gateway_ensure_ca(struct gateway_config *c, bool *issued, struct fault *why);

/*
 * May a gateway that runs by now go over to next? Not when what it is bound to since its start differs: why names the
 * place, and says that it takes a restart.
 */
bool gateway_check_change(const struct gateway_config *now, const struct gateway_config *next, struct fault *why);
/* SHA-256 of the effective configuration, as records tell it. */
void gateway_digest(const struct gateway_config *c, unsigned char digest[32]);

/*
 * What a role is handed (give); usher: "canaries.json" when there are canaries, and DNS listeners; with it, for workers too, what lexicon_copy puts in:
 *   every role: "proxy.conf", the effective configuration
 *   worker and clerk: what attestation_add_files puts in
 *   worker: "issuer.NAME.jwks", "canaries.json" when there are canaries, "ca.system" when a service needs the
 *           system's trust, "service.NAME.ca" for each ca-file, "ca.root.pem", "ca.intermediate.pem" (certificates)
 *   keeper: what ca_add_files puts in; where it grants credentials "issuer.NAME.jwks" and the keys of assertions
 *   clerk: "assertion.jwks" when there are such keys; "ca.system" and "issuer.NAME.ca" where keys are fetched from; where
 *          it exchanges tokens "service.NAME.ca"
 * After gateway_ensure_ca.
 */
struct bundle *gateway_bundle(const struct gateway_config *c, enum role role);

#endif
