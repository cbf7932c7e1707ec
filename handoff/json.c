/* Owns the thread through one JSON text. Knows no members by name. */
#include "handoff/json.h"

#include <stdlib.h>
#include <string.h>

enum where {
    WHERE_BETWEEN, /* anything but a string */
    WHERE_STRING,
    WHERE_ESCAPE,  /* behind a backslash */
    WHERE_HEX,     /* in the digits of \uXXXX */
};

enum role { ROLE_SKIPPED, ROLE_NAME, ROLE_WANTED };

struct level {
    bool is_array;
    bool at_value; /* object: behind the colon */
    uint8_t name_len;
    bool name_cut;
    char name[JSON_NAME_MOST];
};

struct json_reader {
    json_wants *wants;
    json_value *value;
    void *arg;
    enum json_state state;
    enum where where;
    enum role role; /* of the string under way */
    int wanted;
    uint64_t total; /* bytes read */
    uint64_t start; /* of the value under way: its opening quote */
    unsigned digits, code, high;
    size_t len, depth;
    struct level levels[JSON_DEPTH_MOST];
    char text[JSON_VALUE_MOST];
};

struct json_reader *json_reader_new(json_wants *wants, json_value *value, void *arg)
{
    struct json_reader *r = malloc(sizeof *r);

    if (!r)
        abort();
    memset(r, 0, offsetof(struct json_reader, levels)); /* the rest is written before it is read */
    r->wants = wants;
    r->value = value;
    r->arg = arg;
    return r;
}

void json_reader_free(struct json_reader *r)
{
    free(r);
}

static struct level *top(struct json_reader *r)
{
    return r->depth ? &r->levels[r->depth - 1] : NULL;
}

/* ---- names ---- */

struct slice json_name(const struct json_reader *r, size_t up)
{
    for (size_t i = r->depth; i-- > 0;)
        if (!r->levels[i].is_array && up-- == 0)
            return r->levels[i].name_cut ? slice_make("", 0) : slice_make(r->levels[i].name, r->levels[i].name_len);
    return slice_make("", 0);
}

size_t json_depth(const struct json_reader *r)
{
    size_t n = 0;

    for (size_t i = 0; i < r->depth; i++)
        n += !r->levels[i].is_array;
    return n;
}

/* ---- strings ---- */

static void begin_string(struct json_reader *r, uint64_t at)
{
    struct level *l = top(r);

    r->where = WHERE_STRING;
    r->high = 0;
    if (l && !l->is_array && !l->at_value) {
        r->role = ROLE_NAME;
        l->name_len = 0;
        l->name_cut = false;
        return;
    }
    r->wanted = r->wants(r->arg, r);
    r->role = r->wanted ? ROLE_WANTED : ROLE_SKIPPED;
    r->start = at;
    r->len = 0;
}

static void give_value(struct json_reader *r, bool cut)
{
    r->role = ROLE_SKIPPED;
    if (!r->value(r->arg, r->wanted, slice_make(r->text, r->len), cut)) {
        r->state = JSON_STOPPED;
        r->role = ROLE_WANTED; /* what is safe ends before it */
    }
}

static void end_string(struct json_reader *r)
{
    r->where = WHERE_BETWEEN;
    if (r->role == ROLE_WANTED)
        give_value(r, false);
    else
        r->role = ROLE_SKIPPED;
}

static void keep_name(struct level *l, const char *bytes, size_t n)
{
    size_t room = sizeof l->name - l->name_len;

    l->name_cut |= n > room;
    if (n > room)
        n = room;
    memcpy(l->name + l->name_len, bytes, n);
    l->name_len = (uint8_t)(l->name_len + n);
}

/* A value that is too long to keep is judged by its beginning, at once: nothing waits for its end. */
static void keep_value(struct json_reader *r, const char *bytes, size_t n)
{
    size_t room = sizeof r->text - r->len;
    bool cut = n > room;

    if (cut)
        n = room;
    memcpy(r->text + r->len, bytes, n);
    r->len += n;
    if (cut)
        give_value(r, true);
}

static void keep(struct json_reader *r, const char *bytes, size_t n)
{
    if (r->role == ROLE_NAME)
        keep_name(top(r), bytes, n);
    else if (r->role == ROLE_WANTED)
        keep_value(r, bytes, n);
}

static void keep_code(struct json_reader *r, unsigned c)
{
    char out[4];
    size_t n = 0;

    if (c < 0x80) {
        out[n++] = (char)c;
    } else if (c < 0x800) {
        out[n++] = (char)(0xc0 | c >> 6);
    } else if (c < 0x10000) {
        out[n++] = (char)(0xe0 | c >> 12);
        out[n++] = (char)(0x80 | (c >> 6 & 0x3f));
    } else {
        out[n++] = (char)(0xf0 | c >> 18);
        out[n++] = (char)(0x80 | (c >> 12 & 0x3f));
        out[n++] = (char)(0x80 | (c >> 6 & 0x3f));
    }
    if (c >= 0x80)
        out[n++] = (char)(0x80 | (c & 0x3f));
    keep(r, out, n);
}

/* A first half of a pair whose second does not come. */
static void drop_half(struct json_reader *r)
{
    if (r->high)
        keep_code(r, 0xfffd);
    r->high = 0;
}

static void keep_unit(struct json_reader *r, unsigned unit)
{
    if (unit >= 0xdc00 && unit < 0xe000) {
        unsigned high = r->high;

        r->high = 0;
        keep_code(r, high ? 0x10000 + ((high - 0xd800) << 10) + (unit - 0xdc00) : 0xfffd);
        return;
    }
    drop_half(r);
    if (unit >= 0xd800 && unit < 0xdc00)
        r->high = unit;
    else
        keep_code(r, unit);
}

static void read_escape(struct json_reader *r, char c)
{
    static const char letters[] = "bfnrt", means[] = "\b\f\n\r\t";
    const char *found;

    if (c == 'u') {
        r->where = WHERE_HEX;
        r->digits = r->code = 0;
        return;
    }
    r->where = WHERE_STRING;
    drop_half(r);
    found = c ? strchr(letters, c) : NULL;
    keep(r, found ? &means[found - letters] : &c, 1);
}

/* What is no digit ends the escape as it is: a careless reader goes on with it. False: the byte is not used. */
static bool read_hex(struct json_reader *r, char c)
{
    unsigned low = (unsigned char)(c | 0x20);
    unsigned digit = c >= '0' && c <= '9' ? (unsigned)(c - '0') : low >= 'a' && low <= 'f' ? low - 'a' + 10 : 16;

    if (digit == 16) {
        r->where = WHERE_STRING;
        keep_unit(r, 0xfffd);
        return false;
    }
    r->code = r->code << 4 | digit;
    if (++r->digits == 4) {
        r->where = WHERE_STRING;
        keep_unit(r, r->code);
    }
    return true;
}

/* Bytes of a string up to what ends or escapes; how many. */
static size_t read_run(struct json_reader *r, struct slice bytes)
{
    const char *quote = memchr(bytes.ptr, '"', bytes.len);
    size_t n = quote ? (size_t)(quote - bytes.ptr) : bytes.len;
    const char *escape = memchr(bytes.ptr, '\\', n);

    if (escape)
        n = (size_t)(escape - bytes.ptr);
    if (n) {
        drop_half(r);
        keep(r, bytes.ptr, n);
    }
    if (r->state != JSON_FINE || n == bytes.len)
        return n;
    if (escape) {
        r->where = WHERE_ESCAPE;
        return n + 1;
    }
    drop_half(r);
    if (r->state == JSON_FINE)
        end_string(r);
    return n + 1;
}

/* ---- between strings ---- */

static void open_level(struct json_reader *r, bool is_array)
{
    struct level *l = &r->levels[r->depth];

    if (r->depth == JSON_DEPTH_MOST) {
        r->state = JSON_LOST;
        return;
    }
    l->is_array = is_array;
    l->at_value = l->name_cut = false;
    l->name_len = 0;
    r->depth++;
}

static void close_level(struct json_reader *r, bool is_array)
{
    if (!r->depth || top(r)->is_array != is_array)
        r->state = JSON_BROKEN;
    else
        r->depth--;
}

static void read_mark(struct json_reader *r, char c, uint64_t at)
{
    switch (c) {
    case '"':
        begin_string(r, at);
        break;
    case '{':
    case '[':
        open_level(r, c == '[');
        break;
    case '}':
    case ']':
        close_level(r, c == ']');
        break;
    case ':':
    case ',':
        if (r->depth)
            top(r)->at_value = c == ':';
        break;
    case '\0':
        r->state = JSON_LOST; /* another encoding than UTF-8 */
        break;
    default:
        break;
    }
}

static size_t read_between(struct json_reader *r, struct slice bytes)
{
    size_t i = 0;

    while (i < bytes.len && r->where == WHERE_BETWEEN && r->state == JSON_FINE) {
        read_mark(r, bytes.ptr[i], r->total + i);
        i++;
    }
    return i;
}

static size_t read_some(struct json_reader *r, struct slice bytes)
{
    switch (r->where) {
    case WHERE_BETWEEN:
        return read_between(r, bytes);
    case WHERE_ESCAPE:
        read_escape(r, bytes.ptr[0]);
        return 1;
    case WHERE_HEX:
        return read_hex(r, bytes.ptr[0]);
    default:
        return read_run(r, bytes);
    }
}

enum json_state json_read(struct json_reader *r, struct slice bytes, uint64_t *safe)
{
    while (bytes.len && r->state == JSON_FINE) {
        size_t n = read_some(r, bytes);

        bytes = slice_from(bytes, n);
        r->total += n;
    }
    *safe = r->role == ROLE_WANTED ? r->start : r->total;
    return r->state;
}

bool json_end(struct json_reader *r)
{
    if (r->state == JSON_FINE && r->role == ROLE_WANTED)
        give_value(r, true);
    return r->state != JSON_STOPPED;
}
