/* Owns what was asked and answered. Must not know how it was sent, or what it means. */
#include "audit/turn.h"

#include <jansson.h>
#include <stdlib.h>
#include <strings.h>

#include "audit/plain.h"
#include "base/text.h"

enum { CONTENT_KEPT = 4096 };

static char *copy_fields(const struct probe *p)
{
    struct buf out = {0};

    for (size_t i = 0; i < TURN_FIELDS_MAX && p->fields[i]; i++)
        buf_printf(&out, "%s\n", p->fields[i]);
    return buf_take_text(&out);
}

static void wipe(char *text)
{
    if (text)
        explicit_bzero(text, strlen(text));
    free(text);
}

struct turn *turn_new(const struct probe *p)
{
    struct turn *x = calloc(1, sizeof *x);

    if (!x)
        abort();
    x->tag = p->tag;
    x->who = p->who;
    x->variant = text_copy(slice_of(p->variant));
    x->method = text_copy(slice_of(p->method ? p->method : "GET"));
    x->shown = text_copy(p->has_secret ? SLICE("[a secret is in it]") : slice_of(p->path));
    x->asked = (struct asked){.base = p->base, .is_bare = p->is_bare, .path = text_copy(slice_of(p->path)), .fields = copy_fields(p), .content = text_copy(slice_cut(p->inside.len ? p->inside : p->body, 0, CONTENT_KEPT)), .body_len = p->body.len};
    if (p->host)
        x->asked.host = text_copy(slice_of(p->host));
    return x;
}

static char *copy_of(const char *text)
{
    return text ? text_copy(slice_of(text)) : NULL;
}

struct turn *turn_copy(const struct turn *x)
{
    struct turn *copy = malloc(sizeof *copy);

    if (!copy)
        abort();
    *copy = *x;
    copy->is_shared = true;
    copy->variant = copy_of(x->variant);
    copy->method = copy_of(x->method);
    copy->shown = copy_of(x->shown);
    copy->note = copy_of(x->note);
    copy->asked.path = copy_of(x->asked.path);
    copy->asked.host = copy_of(x->asked.host);
    copy->asked.fields = copy_of(x->asked.fields);
    copy->asked.content = copy_of(x->asked.content);
    copy->head = copy->body = (struct buf){0};
    buf_append(&copy->head, buf_slice(&x->head));
    buf_append(&copy->body, buf_slice(&x->body));
    return copy;
}

void turn_free(struct turn *x)
{
    if (!x)
        return;
    wipe(x->asked.path);
    wipe(x->asked.host);
    wipe(x->asked.fields);
    wipe(x->asked.content);
    free(x->variant);
    free(x->method);
    free(x->shown);
    free(x->note);
    buf_free(&x->head);
    buf_free(&x->body);
    free(x);
}

bool turn_field(const struct turn *x, const char *name, size_t n, struct slice *value)
{
    struct slice rest = buf_slice(&x->head), line;

    while (slice_next(&rest, '\n', &line)) {
        ptrdiff_t colon = slice_find(line, ':');

        if (colon > 0 && slice_is_nocase(slice_cut(line, 0, (size_t)colon), name) && n-- == 0) {
            if (slice_ends(line, SLICE("\r")))
                line.len--;
            *value = slice_trim(slice_from(line, (size_t)colon + 1));
            return true;
        }
    }
    return false;
}

bool turn_names(const struct turn *x, const char *text)
{
    return strstr(x->asked.path, text) || strstr(x->asked.fields, text) || strstr(x->asked.content, text) || (x->asked.host && strstr(x->asked.host, text));
}

bool turn_answered(const struct turn *x)
{
    return x && x->outcome == OUTCOME_ANSWERED;
}

bool turn_is_2xx(const struct turn *x)
{
    return turn_answered(x) && x->status / 100 == 2;
}

bool turn_is_refusal(const struct turn *x)
{
    static const int statuses[] = {400, 401, 402, 403, 404, 405, 406, 407, 409, 410, 411, 412, 413, 414, 415, 417, 421, 422, 423, 426, 428, 431, 451, 501, 505};

    if (!x)
        return false;
    if (x->outcome == OUTCOME_REFUSED || x->outcome == OUTCOME_CLOSED)
        return true;
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
        if (turn_answered(x) && x->status == statuses[i])
            return true;
    return false;
}

bool text_holds(struct slice hay, struct slice needle)
{
    if (needle.len == 0 || needle.len > hay.len)
        return false;
    for (size_t i = 0; i + needle.len <= hay.len; i++)
        if (slice_folds_alike(hay.ptr + i, needle.ptr, needle.len))
            return true;
    return false;
}

/* In base64 a text stands in one of three ways; the characters that its neighbours reach into are left out. */
static bool holds_base64(struct slice hay, struct slice needle)
{
    bool found = false;

    for (size_t shift = 0; shift < 3 && !found; shift++) {
        struct buf plain = {0}, coded = {0};
        size_t from = shift == 0 ? 0 : shift + 1, to;

        for (size_t i = 0; i < shift; i++)
            buf_char(&plain, 0);
        buf_append(&plain, needle);
        text_base64url(&coded, buf_slice(&plain));
        to = (shift + needle.len) * 8 / 6;
        found = slice_search(hay, slice_cut(buf_slice(&coded), from, to)) >= 0;
        buf_free(&plain);
        buf_free(&coded);
    }
    return found;
}

static bool holds_percent(struct slice hay, struct slice needle)
{
    struct buf coded = {0};
    bool found;

    for (size_t i = 0; i < needle.len; i++)
        buf_printf(&coded, "%%%02x", (unsigned char)needle.ptr[i]);
    found = text_holds(hay, buf_slice(&coded));
    buf_free(&coded);
    return found;
}

bool text_holds_encoded(struct slice hay, struct slice needle)
{
    struct buf hex = {0};
    bool found;

    if (needle.len < 6)
        return text_holds(hay, needle);
    text_hex(&hex, needle);
    found = text_holds(hay, needle) || text_holds(hay, buf_slice(&hex)) || holds_base64(hay, needle) || holds_percent(hay, needle);
    buf_free(&hex);
    return found;
}

bool turn_holds(const struct turn *x, const char *text)
{
    return x && (text_holds_encoded(buf_slice(&x->head), slice_of(text)) || text_holds_encoded(buf_slice(&x->body), slice_of(text)));
}

void turn_describe(const struct turn *x, struct buf *out)
{
    static const char *const words[] = {[OUTCOME_NONE] = "not sent",       [OUTCOME_REFUSED] = "nothing listens",
                                        [OUTCOME_CLOSED] = "closed without an answer", [OUTCOME_TIMEOUT] = "no answer in time",
                                        [OUTCOME_NOISE] = "not HTTP",      [OUTCOME_TLS] = "TLS failed",
                                        [OUTCOME_BUDGET] = "not sent",     [OUTCOME_METHOD] = "not sent: method not allowed"};

    if (!x)
        buf_text(out, "not sent");
    else if (x->outcome == OUTCOME_ANSWERED)
        buf_printf(out, "%d", x->status);
    else
        buf_printf(out, x->note ? "%s: %s" : "%s", words[x->outcome], x->note);
}

void turn_note(struct turn *x, const char *format, ...)
{
    struct buf text = {0};
    va_list args;

    va_start(args, format);
    buf_vprintf(&text, format, args);
    va_end(args);
    free(x->note);
    x->note = buf_take_text(&text);
    plain_make(x->note);
}

/* ---- classes ---- */

static struct slice media_type(const struct turn *x)
{
    struct slice value, type;

    if (!turn_field(x, "Content-Type", 0, &value))
        return slice_make("", 0);
    slice_next(&value, ';', &type);
    return slice_trim(type);
}

static bool has_challenge(const struct turn *x)
{
    struct slice value;

    return turn_field(x, "WWW-Authenticate", 0, &value) || turn_field(x, "Proxy-Authenticate", 0, &value);
}

/* Names at the top, then the first error's code. Objects come in any order: the names are sorted. */
static void outline(json_t *object, struct buf *out)
{
    const json_t *errors = json_object_get(object, "errors");
    const char *code = json_string_value(json_object_get(json_array_get(errors, 0), "code"));
    char *text;
    json_t *names = json_object();
    const char *name;
    json_t *value;

    if (!code)
        code = json_string_value(json_object_get(object, "error"));
    json_object_foreach (object, name, value)
        json_object_set_new(names, name, json_true());
    text = json_dumps(names, JSON_COMPACT | JSON_SORT_KEYS);
    buf_text(out, text ? text : "");
    buf_text(out, code ? code : "");
    free(text);
    json_decref(names);
}

static bool same_outline(const struct turn *a, const struct turn *b)
{
    json_t *ja = json_loadb(buf_slice(&a->body).ptr, buf_len(&a->body), 0, NULL);
    json_t *jb = json_loadb(buf_slice(&b->body).ptr, buf_len(&b->body), 0, NULL);
    struct buf ta = {0}, tb = {0};
    bool same = json_is_object(ja) == json_is_object(jb);

    if (json_is_object(ja) && json_is_object(jb)) {
        outline(ja, &ta);
        outline(jb, &tb);
        same = slice_equals(buf_slice(&ta), buf_slice(&tb));
    }
    buf_free(&ta);
    buf_free(&tb);
    json_decref(ja);
    json_decref(jb);
    return same;
}

bool turn_alike(const struct turn *a, const struct turn *b)
{
    if (!turn_answered(a) || !turn_answered(b))
        return false;
    return a->status == b->status && has_challenge(a) == has_challenge(b) &&
           slice_equals_nocase(media_type(a), media_type(b)) && same_outline(a, b);
}
