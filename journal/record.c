/*
 * Owns the packed form of a record and its JSON members. Packed: u32 length of what follows, u16 kind, then fields: u8
 * field, then text and hex: u16 length and bytes; number: u64; bool: u8; id: 16 bytes; reason: u16. Little-endian.
 */
#include "journal/record.h"

#include <assert.h>
#include <endian.h>
#include <string.h>

#include "base/pack.h"
#include "base/put.h"

enum { HEX_MAX = 64, TEXT_TOTAL = 12 * 1024, LENGTH_SIZE = 4, KEY_MAX = 40 };

/* Of a label: comma, braces, group and key; of a value that is neither text nor hex, a reason and its severity the longest. */
enum { LABEL_MAX = 2 * KEY_MAX + 8, SMALL_MAX = 96 };

static const char *const kind_names[N_RECORD_KINDS] = {
#define KIND(upper, name) name,
#define FIELD(upper, name, type)
#include "journal/record.def"
#undef KIND
#undef FIELD
};

static const struct {
    const char *name;
    enum field_type type;
} fields[N_RECORD_FIELDS] = {
#define KIND(upper, name)
#define FIELD(upper, name, type) {name, TYPE_##type},
#include "journal/record.def"
#undef KIND
#undef FIELD
};

_Static_assert(N_RECORD_FIELDS <= 128, "struct record_writer has 128 bits of seen");

const char *record_kind_name(enum record_kind k)
{
    assert(k < N_RECORD_KINDS);
    return kind_names[k];
}

const char *record_field_name(enum record_field f)
{
    assert(f < N_RECORD_FIELDS);
    return fields[f].name;
}

enum field_type record_field_type(enum record_field f)
{
    assert(f < N_RECORD_FIELDS);
    return fields[f].type;
}

/* ---- building ---- */

/* A length as text and hex have it; where the bytes go. */
static inline char *put_length(char *at, size_t len)
{
    at[0] = (char)(len & 0xff);
    at[1] = (char)(len >> 8);
    return at + 2;
}

struct record_writer record_begin(struct buf *out, enum record_kind kind)
{
    char *start = buf_reserve(out, LENGTH_SIZE + RECORD_MAX);

    assert(kind < N_RECORD_KINDS);
    return (struct record_writer){
        .out = out, .start = start, .at = put_length(start + LENGTH_SIZE, kind), .text_left = TEXT_TOTAL};
}

/* The field's number and where its size bytes go, which the caller writes at once. */
static inline char *begin_field(struct record_writer *w, enum record_field f, enum field_type type, size_t size)
{
    uint64_t bit = 1ULL << (f % 64);
    char *at = w->at;

    assert(f < N_RECORD_FIELDS && fields[f].type == type);
    assert(!(w->seen[f / 64] & bit));
    assert(1 + size <= (size_t)(w->start + LENGTH_SIZE + RECORD_MAX - at));
    w->seen[f / 64] |= bit;
    w->at = at + 1 + size;
    *at = (char)f;
    return at + 1;
}

/* The longest front of text of at most max bytes that cuts no UTF-8 sequence (when it is UTF-8). */
static struct slice cut_text(struct slice text, size_t max)
{
    struct slice front = slice_cut(text, 0, max);

    for (size_t back = 0; back < 4 && back < front.len; back++) {
        struct slice shorter = slice_cut(front, 0, front.len - back);

        if (slice_is_utf8(shorter))
            return shorter;
    }
    return front;
}

void record_text(struct record_writer *w, enum record_field f, struct slice text)
{
    static const struct slice mark = {"...", 3};
    size_t max = w->text_left < RECORD_TEXT_MAX ? w->text_left : RECORD_TEXT_MAX;
    bool whole = text.len <= max;
    struct slice front = whole ? text : cut_text(text, max > mark.len ? max - mark.len : 0);

    size_t len = front.len + (whole ? 0 : mark.len);
    char *at = put_length(begin_field(w, f, TYPE_TEXT, 2 + len), len);

    memcpy(at, front.ptr, front.len);
    if (!whole)
        memcpy(at + front.len, mark.ptr, mark.len);
    w->text_left -= front.len;
}

void record_text_if(struct record_writer *w, enum record_field f, const char *text)
{
    if (text && text[0])
        record_text(w, f, slice_of(text));
}

void record_number(struct record_writer *w, enum record_field f, int64_t n)
{
    uint64_t value = htole64((uint64_t)n);

    memcpy(begin_field(w, f, TYPE_NUMBER, sizeof value), &value, sizeof value);
}

void record_bool(struct record_writer *w, enum record_field f, bool yes)
{
    *begin_field(w, f, TYPE_BOOL, 1) = yes;
}

void record_id(struct record_writer *w, enum record_field f, const struct id *id)
{
    memcpy(begin_field(w, f, TYPE_ID, sizeof id->bytes), id->bytes, sizeof id->bytes);
}

void record_hex(struct record_writer *w, enum record_field f, struct slice bytes)
{
    assert(bytes.len <= HEX_MAX);
    memcpy(put_length(begin_field(w, f, TYPE_HEX, 2 + bytes.len), bytes.len), bytes.ptr, bytes.len);
}

void record_reason(struct record_writer *w, enum record_field f, enum reason r)
{
    assert(r < N_REASONS);
    put_length(begin_field(w, f, TYPE_REASON, 2), r);
}

void record_end(struct record_writer *w)
{
    size_t len = (size_t)(w->at - w->start) - LENGTH_SIZE;

    for (int i = 0; i < LENGTH_SIZE; i++)
        w->start[i] = (char)(len >> (8 * i) & 0xff);
    buf_commit(w->out, LENGTH_SIZE + len);
}

/* ---- reading ---- */

/*
 * Of each type: how long a value is, or, when it says so itself in two bytes, 0 and how long it may be; and what it takes in
 * JSON at most, its label with it: so much, and so much for each byte.
 */
static const struct {
    uint8_t size;
    uint16_t most;
    uint8_t room, room_each;
} values[] = {
    [TYPE_TEXT] = {0, RECORD_TEXT_MAX, LABEL_MAX + 2, PUT_JSON_MAX(1) - 2},
    [TYPE_NUMBER] = {8, 8, LABEL_MAX + SMALL_MAX, 0},
    [TYPE_BOOL] = {1, 1, LABEL_MAX + SMALL_MAX, 0},
    [TYPE_ID] = {sizeof(struct id), sizeof(struct id), LABEL_MAX + SMALL_MAX, 0},
    [TYPE_HEX] = {0, HEX_MAX, LABEL_MAX + 2, PUT_HEX_MAX(1)},
    [TYPE_REASON] = {2, 2, LABEL_MAX + SMALL_MAX, 0},
};

static unsigned small(struct slice value)
{
    return (unsigned)(unsigned char)value.ptr[0] | (value.len > 1 ? (unsigned)(unsigned char)value.ptr[1] << 8 : 0);
}

static bool value_is_valid(enum field_type type, struct slice value)
{
    if (type == TYPE_BOOL)
        return small(value) <= 1;
    return type != TYPE_REASON || small(value) < N_REASONS;
}

/* The value of a field of this type from the front of *from; false when it is not whole, or none. */
static inline bool take_value(enum field_type type, struct slice *from, struct slice *value)
{
    size_t len = values[type].size, before = 0;

    if (!len) {
        if (from->len < 2)
            return false;
        before = 2;
        len = small(slice_make(from->ptr, 2));
    }
    if (len > values[type].most || from->len - before < len)
        return false;
    *value = slice_make(from->ptr + before, len);
    *from = (struct slice){from->ptr + before + len, from->len - before - len};
    return value_is_valid(type, *value);
}

static bool parse_fields(struct slice left, struct record_view *v)
{
    v->seen[0] = v->seen[1] = 0;
    v->room = 1; /* the last brace */
    while (left.len) {
        unsigned f = (unsigned char)left.ptr[0];
        enum field_type type;

        if (f >= N_RECORD_FIELDS || v->seen[f / 64] >> (f % 64) & 1)
            return false;
        left = (struct slice){left.ptr + 1, left.len - 1};
        type = fields[f].type;
        if (!take_value(type, &left, &v->values[f]))
            return false;
        v->seen[f / 64] |= 1ULL << (f % 64);
        v->room += values[type].room + values[type].room_each * v->values[f].len;
    }
    return true;
}

bool record_read(struct slice *batch, struct record_view *out, bool *bad)
{
    struct unpack u = unpack_start(*batch);
    unsigned k;

    *bad = false;
    if (!batch->len)
        return false;
    struct unpack record = unpack_start(unpack_bytes(&u));

    k = unpack_u16(&record);
    if (u.bad || record.bad || batch->len - u.left.len > RECORD_MAX + LENGTH_SIZE || k >= N_RECORD_KINDS ||
        !parse_fields(record.left, out)) {
        *bad = true;
        return false;
    }
    out->kind = (enum record_kind)k;
    *batch = u.left;
    return true;
}

/* ---- as JSON, in the order of record.def, so that groups stay together ---- */

/* How each field's name is written: "key": alone, or in its group {"key": */
struct label {
    char key[KEY_MAX];
    size_t key_len;
    size_t group_len; /* of the name's front before the dot; 0: no group */
    unsigned group;   /* the number of the first field in the same group; 0: no group */
};

static struct label labels[N_RECORD_FIELDS];

/* Fields of a group stand together in record.def; number 0 is the id, which has none. */
static unsigned group_of(size_t f)
{
    struct slice group = slice_make(fields[f].name, labels[f].group_len);

    if (!group.len)
        return 0;
    while (f && labels[f - 1].group_len == group.len && slice_starts(slice_of(fields[f - 1].name), group))
        f--;
    assert(f);
    return (unsigned)f;
}

static void make_labels(void)
{
    for (size_t f = 0; f < N_RECORD_FIELDS; f++) {
        struct slice name = slice_of(fields[f].name);
        ptrdiff_t dot = slice_find(name, '.');
        struct slice key = slice_from(name, (size_t)(dot + 1));
        struct label *l = &labels[f];

        assert(key.len + 3 <= KEY_MAX);
        l->group_len = dot < 0 ? 0 : (size_t)dot;
        l->key[0] = '"';
        memcpy(l->key + 1, key.ptr, key.len);
        memcpy(l->key + 1 + key.len, "\":", 2);
        l->key_len = key.len + 3;
        l->group = group_of(f);
    }
}

static char *put_number(char *at, struct slice value)
{
    struct unpack u = unpack_start(value);
    int64_t n = (int64_t)unpack_u64(&u);

    if (n < 0)
        *at++ = '-';
    return put_decimal(at, n < 0 ? 0 - (uint64_t)n : (uint64_t)n);
}

static char *put_quoted(char *at, const char *plain)
{
    *at++ = '"';
    at = put_slice(at, slice_of(plain));
    *at++ = '"';
    return at;
}

static char *put_reason(char *at, enum reason r)
{
    at = put_quoted(at, reason_code(r));
    at = PUT(at, ",\"severity\":");
    return put_quoted(at, severity_name(reason_get(r)->severity));
}

static char *put_id(char *at, struct slice value)
{
    struct id id;

    memcpy(id.bytes, value.ptr, sizeof id.bytes);
    return id_put(at, &id);
}

static char *put_value(char *at, enum field_type type, struct slice value)
{
    switch (type) {
    case TYPE_TEXT:
        return put_json(at, value);
    case TYPE_NUMBER:
        return put_number(at, value);
    case TYPE_BOOL:
        return small(value) ? PUT(at, "true") : PUT(at, "false");
    case TYPE_REASON:
        return put_reason(at, (enum reason)small(value));
    case TYPE_ID:
    case TYPE_HEX:
        break;
    }
    *at++ = '"';
    at = type == TYPE_ID ? put_id(at, value) : put_hex(at, value);
    *at++ = '"';
    return at;
}

/* Comma, and where the group changes its braces. before: the field written last; f itself when it is the first. */
static char *put_label(char *at, unsigned before, unsigned f)
{
    const struct label *l = &labels[f];
    bool stays = before != f && labels[before].group == l->group;

    if (before != f && !stays && labels[before].group_len)
        *at++ = '}';
    *at++ = ',';
    if (!stays && l->group_len) {
        *at++ = '"';
        at = put_slice(at, slice_make(fields[f].name, l->group_len));
        at = PUT(at, "\":{");
    }
    memcpy(at, l->key, KEY_MAX); /* more than it has, which costs less than to count */
    return at + l->key_len;
}

void record_render(struct buf *out, const struct record_view *v)
{
    size_t start = buf_len(out);
    char *from = buf_reserve(out, v->room), *at = from;
    unsigned before = N_RECORD_FIELDS;

    if (!labels[0].key_len)
        make_labels();
    for (unsigned word = 0; word < 2; word++)
        for (uint64_t left = v->seen[word]; left; left &= left - 1) {
            unsigned f = word * 64 + (unsigned)__builtin_ctzll(left);

            at = put_label(at, before == N_RECORD_FIELDS ? f : before, f);
            at = put_value(at, fields[f].type, v->values[f]);
            before = f;
        }
    if (before != N_RECORD_FIELDS && labels[before].group_len)
        *at++ = '}';
    assert((size_t)(at - from) <= v->room);
    buf_commit(out, (size_t)(at - from));
    record_redact(out, start);
}
