/* What the commands of `exeat token` share: the part of the configuration that tokens are judged by. */
#ifndef CMD_TOKEN_H
#define CMD_TOKEN_H

#include "authz/issuer.h"
#include "base/conf.h"
#include "cmd/command.h"

extern const struct command token_issue, token_inspect, token_renew, token_revoke;

struct token_config {
    struct conf *conf;
    struct bundle *files; /* the key sets */
    struct issuers *issuers;
    const char *audience; /* gateway.name */
    const char *admin;    /* "unix:/...", or NULL */
    char *revocations;    /* the file */
};

/* Less than a gateway needs: no CA, no journal, so it need not be root who asks. Zeroed when it fails. */
bool token_config_load(struct token_config *c, const char *path, struct fault *why);
void token_config_clear(struct token_config *c);

/* Read a token from FILE, or standard input when file is NULL or "-"; one newline at the end is dropped. */
bool token_read(const char *file, struct buf *out, struct fault *why);

/*
 * Issue what the TOKEN_OPTIONS of inv ask for, by the configuration as it is now, and append it and a newline to token
 * (wipe it). *life_ms is how long it is good. warn: say which of the wished scopes no service asks for. FAULT_USAGE:
 * nothing but another command line or configuration will help.
 */
bool token_make(const struct invocation *inv, bool warn, struct buf *token, int64_t *life_ms, struct fault *why);

/* What a token is to be: the options that `issue` and `renew` share. */
#define TOKEN_OPTIONS \
    {"sandbox", 's', OPTION_TEXT, "NAME", NULL, "who it is for: the token's sub", false, true}, \
    {"scope", 0, OPTION_TEXT, "SCOPES", NULL, "what for: scopes of services, with blanks between them", false, \
     false}, \
    {"lifetime", 0, OPTION_TIME, "TIME", NULL, "how long it is good; 15m, or the issuer's max-lifetime when shorter", false, \
     false}, \
    {"client-id", 0, OPTION_TEXT, "ID", NULL, "who asked for it; exeat-cli", false, false}, \
    {"listener", 0, OPTION_TEXT, "NAME", NULL, "bind it: good at this listener only", false, false}, \
    {"certificate", 0, OPTION_TEXT, "FILE", NULL, "bind it to this client certificate (PEM): good only where it is shown", \
     false, false}, \
    {"details", 0, OPTION_TEXT, "FILE", NULL, "authorization_details that narrow it", false, false}, \
    {"issuer", 0, OPTION_TEXT, "NAME", NULL, "which of the configured issuers; the one that can", false, false}

#endif
