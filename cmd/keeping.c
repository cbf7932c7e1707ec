/* Owns the table of files and lines: one row a client. */
#include "cmd/keeping.h"

#include <string.h>

#include "base/slice.h"

#define NETRC "machine HOST login jwt password TOKEN"

/* HOST and TOKEN stand for themselves. */
static const struct keeping {
    const char *client, *where, *line;
} table[] = {
    {"curl", "~/.netrc (mode 0600), with curl -n", NETRC},
    {"git", "~/.netrc (mode 0600)", NETRC},
    {"pip", "~/.netrc (mode 0600), or the index's URL", NETRC},
    {"python", "~/.netrc (mode 0600), which requests reads", NETRC},
    {"go", "~/.netrc (mode 0600)", NETRC},
    {"wget", "~/.netrc (mode 0600)", NETRC},
    {"npm", "~/.npmrc (mode 0600)", "//HOST/:_authToken=TOKEN"},
    {"apt", "/etc/apt/auth.conf (mode 0600)", NETRC},
    {"skopeo", "run, with the token on standard input", "skopeo login --username jwt --password-stdin HOST"},
    {"docker", "run, with the token on standard input", "docker login --username jwt --password-stdin HOST"},
    {"maven", "~/.m2/settings.xml, among servers, with the repository's id",
     "<server><id>HOST</id><username>jwt</username><password>TOKEN</password></server>"},
};

static void fill_in(struct slice line, const char *host, const char *token, struct buf *out)
{
    while (line.len) {
        bool is_host = slice_starts(line, SLICE("HOST")), is_token = slice_starts(line, SLICE("TOKEN"));

        if (is_host || is_token)
            buf_text(out, is_host ? host : token);
        else
            buf_char(out, line.ptr[0]);
        line = slice_from(line, is_host ? 4 : is_token ? 5 : 1);
    }
}

void keeping_write(const struct client *c, const char *host, const char *token, struct buf *out)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (strcmp(table[i].client, c->name) != 0)
            continue;
        buf_printf(out, "%s: ", table[i].where);
        fill_in(slice_of(table[i].line), host, token, out);
        return;
    }
    buf_text(out, "keeps no password for a host by itself: give it a listener of its own with token-file, where it carries nothing");
}
