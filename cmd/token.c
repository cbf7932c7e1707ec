/* `exeat token`: the group, and what its commands share. */
#include "cmd/token.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/say.h"
#include "proxy/config.h"
#include "proxy/keyring.h"

enum { TOKEN_FILE_MAX = 65536 };

bool token_config_load(struct token_config *c, const char *path, struct fault *why)
{
    size_t n;
    const struct conf_section *const *sections = gateway_sections(&n);
    struct fault stored = {0};

    *c = (struct token_config){.conf = conf_load(path, sections, n, why), .files = bundle_new()};
    if (!c->conf || !issuers_read_files(c->conf, c->files, why) ||
        !(c->issuers = issuers_compile(c->conf, c->files, why))) {
        token_config_clear(c);
        return false;
    }
    if (!keyring_apply_stored(c->conf, c->issuers, &stored))
        say_note("keys that issuers publish, as the gateway stored them: %s", stored.text);
    c->audience = conf_text(conf_section(c->conf, "gateway"), "name");
    c->admin = conf_text(conf_section(c->conf, "admin"), "address");
    c->revocations = file_join(conf_text(conf_section(c->conf, "gateway"), "state"), "revocations");
    return true;
}

void token_config_clear(struct token_config *c)
{
    issuers_free(c->issuers);
    bundle_free(c->files);
    conf_free(c->conf);
    free(c->revocations);
    *c = (struct token_config){0};
}

bool token_read(const char *file, struct buf *out, struct fault *why)
{
    bool ok;

    if (!file || strcmp(file, "-") == 0) {
        if (isatty(STDIN_FILENO))
            say_note("paste the token, then press Ctrl-D");
        ok = file_read_fd(STDIN_FILENO, "standard input", TOKEN_FILE_MAX, out, why);
    } else {
        ok = file_read(file, TOKEN_FILE_MAX, out, why);
    }
    if (ok && slice_ends(buf_slice(out), SLICE("\n")))
        buf_truncate(out, buf_len(out) - 1);
    if (ok && buf_len(out) == 0)
        ok = fault_set(why, FAULT_SYNTAX, "%s: there is no token in it", file ? file : "standard input");
    return ok;
}

const struct command command_token = {
    .name = "token",
    .summary = "issue, renew, look into and revoke leave tokens",
    .topic = TOPIC_LEAVE,
    .subcommands = (const struct command *const[]){&token_issue, &token_renew, &token_inspect, &token_revoke, NULL},
};
