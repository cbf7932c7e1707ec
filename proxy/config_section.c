/* Owns the tables of the sections that belong to no room of their own, and the list of all. */
#include "authz/issuer.h"
#include "canary/canary.h"
#include "handoff/attestation.h"
#include "journal/log.h"
#include "proxy/config.h"
#include "proxy/limits.h"
#include "proxy/zone.h"

#define KEYS(array) .keys = array, .n_keys = sizeof array / sizeof *array

static const struct conf_key gateway_keys[] = {
    {"name", CONF_NAME, NULL, NULL, "host name of this gateway: the aud of leave tokens, and what Via says",
     CONF_REQUIRED},
    {"state", CONF_PATH, ".", NULL, "directory of everything the gateway keeps: ca/, revocations and quarantines, spent tokens, its lock", 0},
    {"workers", CONF_TEXT, "auto", NULL, "processes that serve sandboxes: a number, or auto (one a processor)", 0},
    {"user-prefix", CONF_NAME, "exeat", NULL, "started as root, each role runs as PREFIX-ROLE (exeat-worker, ...)", 0},
};
static const struct conf_section gateway_section = {
    .name = "gateway", KEYS(gateway_keys), .help = "The gateway itself."};

static const struct conf_key resolver_keys[] = {
    {"servers", CONF_LIST, "[\"127.0.0.53:53\"]", NULL, "name servers, address and port, asked in this order; none of the gateway's own (dns)", 0},
    {"timeout", CONF_TIME, "2s", NULL, "for one look-up, all servers and retries together", 0},
};
static const struct conf_section resolver_section = {
    .name = "resolver", KEYS(resolver_keys), .help = "Where the names of listed hosts are looked up."};

static const struct conf_key listen_keys[] = {
    {"address", CONF_TEXT, NULL, NULL,
     "where sandboxes connect to: 127.0.0.1:3128, \"[::1]:3128\"; for one sandbox also \"unix:FILE\" (of Firecracker's and "
     "Cloud Hypervisor's vsock: \"unix:PATH_PORT\") and \"vsock:CID:PORT\"", CONF_REQUIRED | CONF_SOURCE},
    {"mode", CONF_CHOICE, "explicit", "explicit|transparent", "explicit: clients are told that this is their proxy; transparent: they know of none (REDIRECT, TPROXY, or a name that "
     "leads here)", 0},
    {"tls.cert", CONF_PATH, NULL, NULL, "clients speak TLS to this listener: its certificate, with the chain (PEM)", 0},
    {"tls.key", CONF_PATH, NULL, NULL, "the certificate's private key; mode 0600", 0},
    {"tls.client-ca", CONF_PATH, NULL, NULL,
     "the CAs of clients' certificates: every client must show one, and tokens may be bound to it (cnf x5t#S256)", 0},
    {"sandbox", CONF_NAME, NULL, NULL, "the one sandbox behind this listener: no token of another is good there", 0},
    {"token-file", CONF_PATH, NULL, NULL,
     "that sandbox's token, kept fresh by the operator and read again when it changes; its clients carry none", 0},
    {"owner", CONF_TEXT, NULL, NULL,
     "who may connect to a unix socket: USER (mode 0600), USER:GROUP or :GROUP (mode 0660); absent: who starts the gateway", 0},
};
static const struct conf_section listen_section = {
    .name = "listen", .named = true, KEYS(listen_keys), .help = "Where sandboxes come in."};

static const struct conf_key publish_keys[] = {
    {"address", CONF_TEXT, NULL, NULL, "read-only HTTP for operators: /metrics /healthz /readyz; absent: off", 0},
};
static const struct conf_section publish_section = {
    .name = "publish", KEYS(publish_keys), .help = "What monitoring may read."};

static const struct conf_key admin_keys[] = {
    {"address", CONF_TEXT, NULL, NULL, "\"unix:FILE\": the socket of status, token revoke and the like; absent: off",
     CONF_SOURCE},
};
static const struct conf_section admin_section = {
    .name = "admin", KEYS(admin_keys), .help = "How the operator's commands reach the running gateway."};

static const struct conf_section *const sections[] = {
    &gateway_section,  &resolver_section, &listen_section,  &dns_section,      &issuers_section, &services_section, &attesters_section,
    &canaries_section, &journal_section,  &limits_section, &publish_section, &admin_section,
};

const struct conf_section *const *gateway_sections(size_t *n)
{
    *n = sizeof sections / sizeof *sections;
    return sections;
}
