/* Knows how texts are escaped elsewhere, writer by writer: none escapes all that it might. Owns nothing. */
#include "handoff/spelling.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "base/buf.h"

/* ---- percent signs: letters and digits stand as they are, and so does what each keeps ---- */

static const struct percent {
    const char *name, *keeps, *digits;
} percents[] = {
    {"percent", "-._~", "0123456789ABCDEF"}, /* RFC 3986 2.3 */
    {"percent-lower", "-._~", "0123456789abcdef"},
    {"percent-slash", "-._~/", "0123456789ABCDEF"},                /* Python's quote */
    {"percent-component", "-._~!'()*", "0123456789ABCDEF"},        /* encodeURIComponent */
    {"percent-component-lower", "-._!()*", "0123456789abcdef"},    /* .NET's UrlEncode */
    {"percent-form", "-._*", "0123456789ABCDEF"},                  /* forms of browsers, Java's URLEncoder */
    {"percent-query", "-._", "0123456789ABCDEF"},                  /* PHP's urlencode */
    {"percent-path", "-._~/+=:@!$&'()*,;", "0123456789ABCDEF"},    /* RFC 3986 3.3 */
    {"percent-segment", "-._~$&+=:@", "0123456789ABCDEF"},         /* Go's PathEscape */
    {"percent-segments", "-._~$&+,/:;=@", "0123456789ABCDEF"},     /* Go's URL.EscapedPath */
    {"percent-url", "-._~;,/?:@&=+$#!'()*", "0123456789ABCDEF"},   /* encodeURI */
    {"percent-search", "-._~!$%&()*+,/:;=?@[\\]^`{|}", "0123456789ABCDEF"}, /* the query of a browser's URL */
};

static void spell_percent(const struct percent *p, struct slice secret, struct buf *out)
{
    for (size_t i = 0; i < secret.len; i++) {
        unsigned char c = (unsigned char)secret.ptr[i];

        if (isalnum(c) || (c && strchr(p->keeps, c))) {
            buf_char(out, (char)c);
            continue;
        }
        buf_char(out, '%');
        buf_char(out, p->digits[c >> 4]);
        buf_char(out, p->digits[c & 15]);
    }
}

/* ---- JSON and HTML: a character, and what stands for it ---- */

#define JSON_PLAIN "\"\\\"", "\\\\\\" /* RFC 8259 7 */
#define HTML_TAGS "&&amp;", "<&lt;", ">&gt;"
enum { SWAPS_MAX = 12 };

static const struct swaps {
    const char *name, *list[SWAPS_MAX];
} swapped[] = {
    {"json", {JSON_PLAIN}},
    {"json-slash", {JSON_PLAIN, "/\\/"}},
    {"json-tags", {JSON_PLAIN, "<\\u003c", ">\\u003e", "&\\u0026"}},       /* Go, Rails */
    {"json-tags-upper", {JSON_PLAIN, "<\\u003C", ">\\u003E", "&\\u0026"}}, /* Django */
    {"json-gson", {JSON_PLAIN, "<\\u003c", ">\\u003e", "&\\u0026", "'\\u0027", "=\\u003d"}},
    {"json-net", {"\"\\u0022", "\\\\\\", "<\\u003C", ">\\u003E", "&\\u0026", "'\\u0027", "+\\u002B", "`\\u0060"}}, /* System.Text.Json */
    {"json-html", {"\"\\u0022", "\\\\\\", "<\\u003c", ">\\u003e", "&\\u0026", "'\\u0027"}},                         /* Newtonsoft's EscapeHtml */
    {"json-php", {"\"\\u0022", "\\\\\\", "<\\u003C", ">\\u003E", "&\\u0026", "'\\u0027", "/\\/"}},                  /* JSON_HEX_... */
    {"json-unicode",
     {"\"\\u0022", "\\\\u005c", "<\\u003c", ">\\u003e", "&\\u0026", "'\\u0027", "=\\u003d", "+\\u002b", "/\\u002f"}},
    {"html", {HTML_TAGS, "\"&quot;", "'&#39;"}},
    {"html-php", {HTML_TAGS, "\"&quot;", "'&#039;"}},
    {"html-hex", {HTML_TAGS, "\"&quot;", "'&#x27;"}}, /* Python, Django */
    {"html-decimal", {HTML_TAGS, "\"&#34;", "'&#39;"}}, /* Jinja, Go's html */
    {"html-go", {HTML_TAGS, "\"&#34;", "'&#39;", "+&#43;"}}, /* html/template */
    {"html-net", {HTML_TAGS, "\"&quot;", "'&#x27;", "+&#x2B;", "`&#x60;"}},
    {"html-mustache", {HTML_TAGS, "\"&quot;", "'&#39;", "/&#x2F;", "`&#x60;", "=&#x3D;"}},
    {"html-handlebars", {HTML_TAGS, "\"&quot;", "'&#x27;", "`&#x60;", "=&#x3D;"}},
};

static void spell_swapped(const struct swaps *s, struct slice secret, struct buf *out)
{
    for (size_t i = 0; i < secret.len; i++) {
        const char *stands = NULL;

        for (size_t k = 0; k < SWAPS_MAX && s->list[k] && !stands; k++)
            if (s->list[k][0] == secret.ptr[i])
                stands = s->list[k] + 1;
        if (stands)
            buf_text(out, stands);
        else
            buf_char(out, secret.ptr[i]);
    }
}

/* ---- all of them ---- */

enum { N_PERCENTS = sizeof percents / sizeof *percents, N_SWAPPED = sizeof swapped / sizeof *swapped, N_SPELLINGS = N_PERCENTS + N_SWAPPED };

static const char *spell(size_t which, struct slice secret, struct buf *out)
{
    if (which < N_PERCENTS) {
        spell_percent(&percents[which], secret, out);
        return percents[which].name;
    }
    spell_swapped(&swapped[which - N_PERCENTS], secret, out);
    return swapped[which - N_PERCENTS].name;
}

void spelling_each(struct slice secret, void (*take)(void *arg, const char *name, struct slice spelled), void *arg)
{
    struct buf texts[N_SPELLINGS] = {0};

    for (size_t i = 0; i < N_SPELLINGS; i++) {
        const char *name = spell(i, secret, &texts[i]);
        size_t same = 0;

        while (same < i && !slice_equals(buf_slice(&texts[same]), buf_slice(&texts[i])))
            same++;
        if (same == i && !slice_equals(secret, buf_slice(&texts[i])))
            take(arg, name, buf_slice(&texts[i]));
    }
    for (size_t i = 0; i < N_SPELLINGS; i++)
        buf_wipe(&texts[i]);
}
