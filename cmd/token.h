/* What the commands of `exeat token` share: the part of the configuration that tokens are judged by. */
#ifndef CMD_TOKEN_H
#define CMD_TOKEN_H

#include "authz/issuer.h"
#include "base/conf.h"
#include "cmd/command.h"

extern const struct command token_issue, token_inspect, token_revoke;

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

#endif
