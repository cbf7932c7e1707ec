/* Knows how texts are escaped elsewhere. Owns nothing. */
#include "handoff/spelling.h"

#include <stdbool.h>
#include <string.h>

#include "base/buf.h"

/* RFC 3986 2.3 */
static bool is_unreserved(char c)
{
    return c && strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~", c);
}

static void hex_byte(struct buf *out, char c, const char *digits)
{
    buf_char(out, digits[(unsigned char)c >> 4]);
    buf_char(out, digits[(unsigned char)c & 15]);
}

static void percent(struct buf *out, char c, const char *digits)
{
    if (is_unreserved(c)) {
        buf_char(out, c);
        return;
    }
    buf_char(out, '%');
    hex_byte(out, c, digits);
}

static void percent_upper(struct buf *out, char c)
{
    percent(out, c, "0123456789ABCDEF");
}

static void percent_lower(struct buf *out, char c)
{
    percent(out, c, "0123456789abcdef");
}

/* Of a query: + and / often stand as they are, = and & do not; of a path it is the other way round. The reserved ones of a path: */
static void percent_path(struct buf *out, char c)
{
    if (strchr("/+=:@!$&'()*,;", c))
        buf_char(out, c);
    else
        percent_upper(out, c);
}

/* RFC 8259 7, with the slash that some writers escape. */
static void json_slash(struct buf *out, char c)
{
    if (c == '/' || c == '"' || c == '\\')
        buf_char(out, '\\');
    buf_char(out, c);
}

static void json_plain(struct buf *out, char c)
{
    if (c == '"' || c == '\\')
        buf_char(out, '\\');
    buf_char(out, c);
}

/* As writers do that keep JSON out of HTML's way. */
static void json_unicode(struct buf *out, char c)
{
    if (!strchr("<>&'=+\"/\\", c)) {
        buf_char(out, c);
        return;
    }
    buf_text(out, "\\u00");
    hex_byte(out, c, "0123456789abcdef");
}

static void html(struct buf *out, char c)
{
    static const char *const names[][2] = {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}, {"'", "&#39;"}};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (c == names[i][0][0]) {
            buf_text(out, names[i][1]);
            return;
        }
    buf_char(out, c);
}

static void hex_lower(struct buf *out, char c)
{
    hex_byte(out, c, "0123456789abcdef");
}

static void hex_upper(struct buf *out, char c)
{
    hex_byte(out, c, "0123456789ABCDEF");
}

static const struct {
    const char *name;
    void (*put)(struct buf *out, char c);
} spellings[] = {
    {"percent", percent_upper}, {"percent-lower", percent_lower}, {"percent-path", percent_path}, {"json", json_plain},
    {"json-slash", json_slash}, {"json-unicode", json_unicode},   {"html", html},                 {"hex", hex_lower},
    {"hex-upper", hex_upper},
};

enum { N_SPELLINGS = sizeof spellings / sizeof *spellings };

static void spell(struct slice secret, size_t which, struct buf *out)
{
    for (size_t i = 0; i < secret.len; i++)
        spellings[which].put(out, secret.ptr[i]);
}

void spelling_each(struct slice secret, void (*take)(void *arg, const char *name, struct slice spelled), void *arg)
{
    struct buf texts[N_SPELLINGS] = {0};

    for (size_t i = 0; i < N_SPELLINGS; i++) {
        size_t same = 0;

        spell(secret, i, &texts[i]);
        while (same < i && !slice_equals(buf_slice(&texts[same]), buf_slice(&texts[i])))
            same++;
        if (same == i && !slice_equals(secret, buf_slice(&texts[i])))
            take(arg, spellings[i].name, buf_slice(&texts[i]));
    }
    for (size_t i = 0; i < N_SPELLINGS; i++)
        buf_wipe(&texts[i]);
}
