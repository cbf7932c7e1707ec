/* Owns the table of files and lines: one row a client. */
#include "cmd/keeping.h"

#include <string.h>

#include "base/slice.h"

#define NETRC "machine HOST login jwt password TOKEN"

/*
 * HOST and TOKEN stand for themselves; PLACE for the host and its port, where that is not the scheme's own; SCHEME for "http://" of what
 * is plain, which apt.auth.conf wants to be told, and for nothing otherwise.
 */
static const struct keeping {
    const char *client, *where, *line;
} table[] = {
    {"curl", "~/.netrc (mode 0600), with curl -n", NETRC},
    {"git", "~/.netrc (mode 0600)", NETRC},
    {"pip", "~/.netrc (mode 0600), or the index's URL", NETRC},
    {"python", "~/.netrc (mode 0600), which requests reads", NETRC},
    {"go", "~/.netrc (mode 0600)", NETRC},
    {"wget", "~/.netrc (mode 0600)", NETRC},
    {"npm", "~/.npmrc (mode 0600)", "//PLACE/:_authToken=TOKEN"},
    {"apt", "/etc/apt/auth.conf (mode 0600)", "machine SCHEMEHOST login jwt password TOKEN"},
    {"skopeo", "run, with the token on standard input", "skopeo login --username jwt --password-stdin PLACE"},
    {"docker", "run, with the token on standard input", "docker login --username jwt --password-stdin PLACE"},
    {"maven", "~/.m2/settings.xml, among servers, with the repository's id",
     "<server><id>HOST</id><username>jwt</username><password>TOKEN</password></server>"},
};

static void put_place(const struct keeping_place *p, struct buf *out)
{
    buf_text(out, p->host);
    if (p->port != (p->is_tls ? 443 : 80))
        buf_printf(out, ":%u", (unsigned)p->port);
}

static void fill_in(struct slice line, const struct keeping_place *p, const char *token, struct buf *out)
{
    static const char *const words[] = {"HOST", "PLACE", "SCHEME", "TOKEN"};

    while (line.len) {
        size_t i = 0, n = sizeof words / sizeof *words;

        while (i < n && !slice_starts(line, slice_of(words[i])))
            i++;
        if (i == 0 || i == 3)
            buf_text(out, i ? token : p->host);
        else if (i == 1)
            put_place(p, out);
        else if (i == 2)
            buf_text(out, p->is_tls ? "" : "http://");
        else
            buf_char(out, line.ptr[0]);
        line = slice_from(line, i < n ? strlen(words[i]) : 1);
    }
}

void keeping_write(const struct client *c, const struct keeping_place *p, const char *token, struct buf *out)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (strcmp(table[i].client, c->name) != 0)
            continue;
        buf_printf(out, "%s: ", table[i].where);
        fill_in(slice_of(table[i].line), p, token, out);
        return;
    }
    buf_text(out, "keeps no password for a host by itself: give it a listener of its own with token-file, where it carries nothing");
}
