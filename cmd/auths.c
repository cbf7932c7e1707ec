/* Owns the table of where such files are. */
#include "cmd/auths.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"

enum { MOST = 1 << 20 };

/* In the order in which each client looks; the first is what it writes when none is there. */
static const struct where {
    const char *client, *variable, *below; /* variable NULL: below stands by itself, a "~" is $HOME, a "%" who runs this */
} table[] = {
    {"docker", "DOCKER_CONFIG", "config.json"},
    {"docker", NULL, "~/.docker/config.json"},
    {"skopeo", "REGISTRY_AUTH_FILE", ""},
    {"skopeo", "XDG_RUNTIME_DIR", "containers/auth.json"},
    {"skopeo", NULL, "/run/containers/%/auth.json"},
    {"skopeo", NULL, "~/.config/containers/auth.json"},
    {"skopeo", NULL, "~/.docker/config.json"},
};

bool auths_are_of(const struct client *c)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(table[i].client, c->name) == 0)
            return true;
    return false;
}

static char *fill_in(const char *path)
{
    const char *home = getenv("HOME");
    struct buf out = {0};

    for (; *path; path++)
        if (*path == '~')
            buf_text(&out, home ? home : "");
        else if (*path == '%')
            buf_printf(&out, "%u", (unsigned)getuid());
        else
            buf_char(&out, *path);
    return buf_take_text(&out);
}

/* Its path (give); NULL: the variable is not set. */
static char *path_of(const struct where *w)
{
    const char *value = w->variable ? getenv(w->variable) : NULL;

    if (!w->variable)
        return fill_in(w->below);
    if (!value || !*value)
        return NULL;
    return *w->below ? file_join(value, w->below) : text_copy(slice_of(value));
}

/* The first that is there, else the first that could be (give). */
static char *find_file(const struct client *c)
{
    char *first = NULL;

    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        char *path = strcmp(table[i].client, c->name) == 0 ? path_of(&table[i]) : NULL;

        if (path && file_exists(path)) {
            free(first);
            return path;
        }
        if (first)
            free(path);
        else
            first = path;
    }
    return first;
}

/* Of this place: with its port where that is not the usual one, and as older versions wrote it, with "https://" in front. */
static const char *find_auth(const json_t *file, const struct keeping_place *p)
{
    static const char *const before[] = {"", "https://", "http://"};
    const json_t *auths = json_object_get(file, "auths");
    const char *auth = NULL;

    for (size_t i = 0; i < sizeof before / sizeof *before && !auth; i++) {
        struct buf key = {0};
        char *text;

        buf_printf(&key, "%s%s", before[i], p->host);
        if (p->port != (p->is_tls ? 443 : 80))
            buf_printf(&key, ":%u", (unsigned)p->port);
        text = buf_take_text(&key);
        auth = json_string_value(json_object_get(json_object_get(auths, text), "auth"));
        free(text);
    }
    return auth;
}

/* What stands behind the user's name (give). */
static char *decode(const char *auth)
{
    struct buf both = {0};
    char *password = NULL;
    ptrdiff_t colon;

    if (auth && text_unbase64(slice_of(auth), &both) && (colon = slice_find(buf_slice(&both), ':')) >= 0)
        password = text_copy(slice_from(buf_slice(&both), (size_t)colon + 1));
    buf_wipe(&both);
    return password;
}

char *auths_read(const struct client *c, const struct keeping_place *p, char **file)
{
    struct buf text = {0};
    char *password = NULL;
    json_t *root = NULL;

    *file = find_file(c);
    if (*file && file_read(*file, MOST, &text, NULL) && (root = json_loadb(buf_slice(&text).ptr, buf_len(&text), 0, NULL)))
        password = decode(find_auth(root, p));
    json_decref(root);
    buf_wipe(&text);
    return password;
}
