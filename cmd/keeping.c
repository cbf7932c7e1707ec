/* Owns the table of files and lines: one row a client. */
#include "cmd/keeping.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/slice.h"
#include "base/text.h"
#include "cmd/auths.h"

enum { KEPT_MOST = 1 << 20, TOKEN_LEAST = 40 };

#define NETRC "machine HOST login jwt password TOKEN"

/*
 * HOST and TOKEN stand for themselves; PLACE for the host and its port, where that is not the scheme's own; SCHEME for "http://" of what
 * is plain, which apt.auth.conf wants to be told, and for nothing otherwise.
 */
static const struct keeping {
    const char *client, *where, *line;
    const char *file, *mark; /* where it stands in clear, and what stands before it; NULL: nowhere, or in another form (cmd/auths.h) */
} table[] = {
    {"curl", "~/.netrc (mode 0600), with curl -n", NETRC, "~/.netrc", "machine HOST "},
    {"git", "~/.netrc (mode 0600)", NETRC, "~/.netrc", "machine HOST "},
    {"pip", "~/.netrc (mode 0600), or the index's URL", NETRC, "~/.netrc", "machine HOST "},
    {"python", "~/.netrc (mode 0600), which requests reads", NETRC, "~/.netrc", "machine HOST "},
    {"go", "~/.netrc (mode 0600)", NETRC, "~/.netrc", "machine HOST "},
    {"wget", "~/.netrc (mode 0600)", NETRC, "~/.netrc", "machine HOST "},
    {"npm", "~/.npmrc (mode 0600)", "//PLACE/:_authToken=TOKEN", "~/.npmrc", "//PLACE/:_authToken="},
    {"apt", "/etc/apt/auth.conf (mode 0600)", "machine SCHEMEHOST login jwt password TOKEN", "/etc/apt/auth.conf", "machine SCHEMEHOST "},
    {"skopeo", "run, with the token on standard input", "skopeo login --username jwt --password-stdin PLACE", NULL, NULL},
    {"docker", "run, with the token on standard input", "docker login --username jwt --password-stdin PLACE", NULL, NULL},
    {"maven", "~/.m2/settings.xml, among servers, with the repository's id",
     "<server><id>HOST</id><username>jwt</username><password>TOKEN</password></server>", "~/.m2/settings.xml", "<id>HOST</id>"},
};

static void put_place(const struct keeping_place *p, struct buf *out)
{
    buf_text(out, p->host);
    if (p->port != (p->is_tls ? 443 : 80))
        buf_printf(out, ":%u", (unsigned)p->port);
}

static void fill_in(struct slice line, const struct keeping_place *p, const char *token, struct buf *out)
{
    enum { HOST, PLACE, SCHEME, TOKEN, N_WORDS };
    static const char *const words[N_WORDS] = {"HOST", "PLACE", "SCHEME", "TOKEN"};

    while (line.len) {
        size_t i = 0;

        while (i < N_WORDS && !slice_starts(line, slice_of(words[i])))
            i++;
        if (i == PLACE)
            put_place(p, out);
        else if (i < N_WORDS)
            buf_text(out, i == HOST ? p->host : i == TOKEN ? token : p->is_tls ? "" : "http://");
        else
            buf_char(out, line.ptr[0]);
        line = slice_from(line, i < N_WORDS ? strlen(words[i]) : 1);
    }
}

/* The first run of a token's characters that is one: three parts. */
static struct slice find_token(struct slice text)
{
    size_t n, dots;

    for (; text.len; text = slice_from(text, n ? n : 1)) {
        for (n = dots = 0; n < text.len && (isalnum((unsigned char)text.ptr[n]) || strchr("-_.", text.ptr[n])) && text.ptr[n]; n++)
            dots += text.ptr[n] == '.';
        if (dots == 2 && n > TOKEN_LEAST)
            return slice_cut(text, 0, n);
    }
    return text;
}

/* "~/x" is below $HOME. */
static char *expand(const char *path)
{
    const char *home = getenv("HOME");

    return path[0] == '~' ? file_join(home ? home : "/", path + 2) : text_copy(slice_of(path));
}

char *keeping_read(const struct client *c, const struct keeping_place *p, char **file)
{
    const struct keeping *k = NULL;
    struct buf text = {0}, mark = {0};
    char *token = NULL;
    ptrdiff_t at;

    if (auths_are_of(c))
        return auths_read(c, p, file);
    *file = NULL;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(table[i].client, c->name) == 0)
            k = &table[i];
    if (!k || !k->file)
        return NULL;
    *file = expand(k->file);
    fill_in(slice_of(k->mark), p, "", &mark);
    if (file_read(*file, KEPT_MOST, &text, NULL) && (at = slice_search(buf_slice(&text), buf_slice(&mark))) >= 0) {
        struct slice found = find_token(slice_from(buf_slice(&text), (size_t)at + buf_len(&mark)));

        token = found.len ? text_copy(found) : NULL;
    }
    buf_wipe(&text);
    buf_free(&mark);
    return token;
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
