/* Owns a compiled template. Knows no token: claims are JSON. */
#include "authz/naming.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "authz/mapping.h"
#include "base/text.h"

enum { CLAIMS_MAX = 8 };

struct naming {
    char *prefix, *template;
    char *before[CLAIMS_MAX], *claims[CLAIMS_MAX]; /* text, claim, text, claim... */
    char *after;
    size_t n;
    bool written;
};

static bool stays(unsigned char c, bool several)
{
    if (c <= 0x20 || c >= 0x7f || c == '%')
        return false;
    return !several || strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._/-", c);
}

/* ---- compiling ---- */

static bool keeps_apart(const char *text)
{
    for (; *text; text++)
        if (!stays((unsigned char)*text, true))
            return true;
    return false;
}

static bool refuse(const struct conf_item *item, struct fault *why, const char *what)
{
    return conf_refuse(item, "sandbox", -1, why, "sandbox: %s; expected such as \"{project_id}:{job_id}\"", what);
}

static bool add_claim(const struct conf_item *item, struct naming *n, struct slice before, struct slice claim, struct fault *why)
{
    if (n->n == CLAIMS_MAX)
        return refuse(item, why, "more than 8 claims");
    if (!claim_is_name(claim))
        return refuse(item, why, "between { and } stands the name of a claim");
    for (size_t i = 0; i < n->n; i++)
        if (slice_is(claim, n->claims[i]))
            return refuse(item, why, "a claim stands there twice");
    n->before[n->n] = text_copy(before);
    n->claims[n->n] = text_copy(claim);
    n->n++;
    if (n->n > 1 && !keeps_apart(n->before[n->n - 1]))
        return refuse(item, why, "two claims need a character between them that their values do not have, such as a colon");
    return true;
}

static bool read_template(const struct conf_item *item, struct naming *n, struct fault *why)
{
    struct slice rest = slice_of(n->template);
    ptrdiff_t open, end;

    for (size_t i = 0; i < rest.len; i++)
        if ((unsigned char)rest.ptr[i] <= 0x20 || (unsigned char)rest.ptr[i] >= 0x7f || rest.ptr[i] == '%')
            return refuse(item, why, "a character that cannot be in a name");
    while ((open = slice_find(rest, '{')) >= 0) {
        if ((end = slice_find(rest, '}')) < open)
            return refuse(item, why, "a brace without its other one");
        if (!add_claim(item, n, slice_cut(rest, 0, (size_t)open), slice_cut(rest, (size_t)open + 1, (size_t)end), why))
            return false;
        rest = slice_from(rest, (size_t)end + 1);
    }
    n->after = text_copy(rest);
    if (slice_find(rest, '}') >= 0)
        return refuse(item, why, "a brace without its other one");
    return n->n || refuse(item, why, "no claim is in it, so that all tokens would name one sandbox");
}

bool naming_compile(const struct conf_item *item, bool foreign, struct naming **out, struct fault *why)
{
    const char *template = conf_text(item, "sandbox");
    struct buf prefix = {0};
    struct naming *n;

    *out = NULL;
    if (!template && !foreign)
        return true;
    if (!(n = calloc(1, sizeof *n)))
        abort();
    buf_printf(&prefix, "%s:", conf_name(item));
    n->prefix = buf_take_text(&prefix);
    n->template = text_copy(slice_of(template ? template : "{sub}"));
    n->written = template != NULL;
    if (!read_template(item, n, why)) {
        naming_free(n);
        return false;
    }
    *out = n;
    return true;
}

void naming_free(struct naming *n)
{
    if (!n)
        return;
    for (size_t i = 0; i < n->n; i++) {
        free(n->before[i]);
        free(n->claims[i]);
    }
    free(n->after);
    free(n->prefix);
    free(n->template);
    free(n);
}

/* ---- names ---- */

bool naming_is_written(const struct naming *n)
{
    return n && n->written;
}

const char *naming_prefix(const struct naming *n)
{
    return n->prefix;
}

static void put_value(struct buf *out, struct slice value, bool several)
{
    for (size_t i = 0; i < value.len; i++) {
        unsigned char c = (unsigned char)value.ptr[i];

        if (stays(c, several))
            buf_char(out, (char)c);
        else
            buf_printf(out, "%%%02X", c);
    }
}

static bool put_claim(const struct naming *n, const char *claim, const struct json_t *claims, struct buf *out, struct fault *why)
{
    bool known = !json_is_boolean(json_object_get(claims, claim));
    struct buf value = {0};

    known = known && claim_text(claims, claim, &value) && buf_len(&value);
    put_value(out, buf_slice(&value), n->n > 1);
    buf_free(&value);
    return known || fault_reason(why, REASON_TOKEN_CLAIMS, "%s, which names the sandbox, is missing or neither a text nor a whole "
                                 "number", claim);
}

bool naming_make(const struct naming *n, const struct json_t *claims, struct buf *out, struct fault *why)
{
    size_t from = buf_len(out);

    buf_text(out, n->prefix);
    for (size_t i = 0; i < n->n; i++) {
        buf_text(out, n->before[i]);
        if (!put_claim(n, n->claims[i], claims, out, why))
            return false;
    }
    buf_text(out, n->after);
    return buf_len(out) - from <= SANDBOX_NAME_MAX ||
           fault_reason(why, REASON_TOKEN_CLAIMS, "the sandbox's name has %zu bytes, over %d; name it by shorter claims",
                        buf_len(out) - from, SANDBOX_NAME_MAX);
}

void naming_print(const struct naming *n, struct buf *out)
{
    buf_printf(out, "%s%s\n", n ? n->prefix : "", n ? n->template : "");
}
