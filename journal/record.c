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

enum { HEX_MAX = 64, TEXT_TOTAL = 12 * 1024, LENGTH_SIZE = 4 };

#define MARK "..." /* behind a text that is cut */

/*
 * What a member takes in JSON at most: so much for each byte of its value, and so much besides, with its label, quotes and a
 * value that is neither text nor hex, of which a reason with its severity is the longest.
 */
enum { LABEL_MAX = 32, EACH_MAX = PUT_JSON_MAX(1) - 2, ITEM_MAX = LABEL_MAX + 96 };

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

/* A reason's value in JSON, with the member severity that goes with it. */
static const struct slice reasons[N_REASONS] = {
#define REASON(upper, code, status, error, ede, level, text) SLICE("\"" #code "\",\"severity\":\"" #level "\""),
#include "base/reason.def"
#undef REASON
};

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

/* What each type of field takes of a record at most, besides the bytes of texts; a cut text has its mark. */
enum { PACKED_TEXT = 3 + sizeof MARK - 1, PACKED_NUMBER = 1 + 8, PACKED_BOOL = 1 + 1, PACKED_ID = 1 + sizeof(struct id),
       PACKED_HEX = 3 + HEX_MAX, PACKED_REASON = 1 + 2 };

enum {
#define KIND(upper, name)
#define FIELD(upper, name, type) +PACKED_##type
    PACKED_MAX = TEXT_TOTAL + sizeof(uint16_t)
#include "journal/record.def"
#undef KIND
#undef FIELD
};
_Static_assert(PACKED_MAX <= RECORD_MAX, "there is room for every field, once");

/* The field's number and where its size bytes go, which the caller writes at once. */
static inline char *begin_field(struct record_writer *w, enum record_field f, enum field_type type, size_t size)
{
    char *at = w->at;

    assert(f < N_RECORD_FIELDS && fields[f].type == type && !w->seen[f]);
    w->seen[f] = true;
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

static void put_text(struct record_writer *w, enum record_field f, struct slice text)
{
    char *at = put_length(begin_field(w, f, TYPE_TEXT, 2 + text.len), text.len);

    memcpy(at, text.ptr, text.len);
}

static __attribute__((cold)) void put_cut_text(struct record_writer *w, enum record_field f, struct slice text, size_t max)
{
    struct slice front = cut_text(text, max > strlen(MARK) ? max - strlen(MARK) : 0);
    char cut[RECORD_TEXT_MAX];

    w->text_left -= front.len;
    if (text.len > strlen(MARK)) /* else there is nothing to save */
        text = slice_make(cut, (size_t)(PUT(put_slice(cut, front), MARK) - cut));
    put_text(w, f, text);
}

void record_text(struct record_writer *w, enum record_field f, struct slice text)
{
    size_t max = w->text_left < RECORD_TEXT_MAX ? w->text_left : RECORD_TEXT_MAX;

    if (text.len > max) {
        put_cut_text(w, f, text, max);
        return;
    }
    w->text_left -= text.len;
    put_text(w, f, text);
}

void record_text_if(struct record_writer *w, enum record_field f, const char *text)
{
    size_t len = text ? strlen(text) : 0;

    if (len)
        record_text(w, f, (struct slice){text, len});
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

static unsigned get_u8(const char *at)
{
    return (unsigned char)*at;
}

static unsigned get_u16(const char *at)
{
    return get_u8(at) | get_u8(at + 1) << 8;
}

/* The value of item: so many bytes from the front of *from; false when it has fewer. */
static inline bool take(struct slice *from, size_t len, struct record_item *item)
{
    if (from->len < len)
        return false;
    item->value = from->ptr;
    item->len = (uint16_t)len;
    *from = (struct slice){from->ptr + len, from->len - len};
    return true;
}

/* The same of a value with its length in front. */
static inline bool take_sized(struct slice *from, size_t max, struct record_item *item)
{
    size_t len;

    if (from->len < 2)
        return false;
    len = get_u16(from->ptr);
    *from = (struct slice){from->ptr + 2, from->len - 2};
    return len <= max && take(from, len, item);
}

static inline bool take_value(struct slice *from, enum field_type type, struct record_item *item)
{
    switch (type) {
    case TYPE_TEXT:
        return take_sized(from, RECORD_TEXT_MAX, item);
    case TYPE_HEX:
        return take_sized(from, HEX_MAX, item);
    case TYPE_NUMBER:
        return take(from, sizeof(uint64_t), item);
    case TYPE_ID:
        return take(from, sizeof(struct id), item);
    case TYPE_BOOL:
        return take(from, 1, item) && get_u8(item->value) <= 1;
    case TYPE_REASON:
        return take(from, 2, item) && get_u16(item->value) < N_REASONS;
    }
    return false;
}

/* The place among n items of field f, which is less than the last of them; NULL when it is one of them. */
static struct record_item *insert_item(struct record_item *items, unsigned n, unsigned f)
{
    unsigned at = n;

    while (at && items[at - 1].field > f)
        at--;
    if (at && items[at - 1].field == f)
        return NULL;
    memmove(&items[at + 1], &items[at], (n - at) * sizeof *items);
    return &items[at];
}

static bool parse_fields(struct slice left, struct record_view *v)
{
    unsigned n = 0, next = 0; /* a field that is not less goes to the end, as nearly all do */

    v->size = left.len;
    for (; left.len; n++) {
        unsigned f = get_u8(left.ptr);
        struct record_item *item = f >= next ? &v->items[n] : insert_item(v->items, n, f);

        if (f >= N_RECORD_FIELDS || !item)
            return false;
        if (f >= next)
            next = f + 1;
        item->field = (uint16_t)f;
        left = (struct slice){left.ptr + 1, left.len - 1};
        if (!take_value(&left, fields[f].type, item))
            return false;
    }
    v->n_items = n;
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

/* How a field's name is written: ,"key": alone or within its group, and ,"group":{"key": where the group begins. */
struct label {
    char within[LABEL_MAX], first[LABEL_MAX]; /* the same where there is no group */
    uint8_t within_len, first_len;
    unsigned group; /* the number of the first field in the same group; 0: no group */
};

static struct label labels[N_RECORD_FIELDS];

/* Fields of a group stand together in record.def; number 0 is the id, which has none. */
static unsigned group_of(size_t f, struct slice group)
{
    while (f && slice_starts(slice_of(fields[f - 1].name), group) && fields[f - 1].name[group.len] == '.')
        f--;
    assert(f);
    return (unsigned)f;
}

static void make_label(size_t f)
{
    struct slice name = slice_of(fields[f].name);
    ptrdiff_t dot = slice_find(name, '.');
    struct label *l = &labels[f];
    char *at = l->within;

    assert(name.len + 7 <= LABEL_MAX);
    at = PUT(put_slice(PUT(at, ",\""), slice_from(name, (size_t)(dot + 1))), "\":");
    l->within_len = l->first_len = (uint8_t)(at - l->within);
    memcpy(l->first, l->within, LABEL_MAX);
    if (dot < 0)
        return;
    l->group = group_of(f, slice_cut(name, 0, (size_t)dot));
    at = PUT(put_slice(PUT(l->first, ",\""), slice_cut(name, 0, (size_t)dot)), "\":{");
    at = put_slice(at, slice_make(l->within + 1, l->within_len - 1U));
    l->first_len = (uint8_t)(at - l->first);
}

static __attribute__((cold)) void make_labels(void)
{
    for (size_t f = 0; f < N_RECORD_FIELDS; f++)
        make_label(f);
}

static char *put_number(char *at, const char *value)
{
    struct unpack u = unpack_start(slice_make(value, sizeof(uint64_t)));
    int64_t n = (int64_t)unpack_u64(&u);

    if (n < 0)
        *at++ = '-';
    return put_decimal(at, n < 0 ? 0 - (uint64_t)n : (uint64_t)n);
}

static char *put_id(char *at, const char *value)
{
    struct id id;

    memcpy(id.bytes, value, sizeof id.bytes);
    return id_put(at, &id);
}

static inline char *put_value(char *at, enum field_type type, struct slice value)
{
    switch (type) {
    case TYPE_TEXT:
        return put_json(at, value);
    case TYPE_NUMBER:
        return put_number(at, value.ptr);
    case TYPE_BOOL:
        return get_u8(value.ptr) ? PUT(at, "true") : PUT(at, "false");
    case TYPE_REASON:
        return put_slice(at, reasons[get_u16(value.ptr)]);
    case TYPE_ID:
    case TYPE_HEX:
        break;
    }
    *at++ = '"';
    at = type == TYPE_ID ? put_id(at, value.ptr) : put_hex(at, value);
    *at++ = '"';
    return at;
}

/* Comma and name, and where the group changes, from that of the field before, the braces. */
static inline char *put_label(char *at, const struct label *l, unsigned group_before)
{
    bool stays = l->group == group_before;

    if (!stays && group_before)
        *at++ = '}';
    memcpy(at, stays ? l->within : l->first, LABEL_MAX); /* more than it has, which costs less than to count */
    return at + (stays ? l->within_len : l->first_len);
}

void record_render(struct buf *out, const struct record_view *v)
{
    size_t start = buf_len(out), room = v->size * EACH_MAX + v->n_items * ITEM_MAX + 1;
    const struct record_item *end = v->items + v->n_items;
    char *from = buf_reserve(out, room), *at = from;
    unsigned group = 0;

    if (!labels[0].first_len)
        make_labels();
    for (const struct record_item *item = v->items; item < end; item++) {
        unsigned f = item->field;

        at = put_label(at, &labels[f], group);
        at = put_value(at, fields[f].type, (struct slice){item->value, item->len});
        group = labels[f].group;
    }
    if (group)
        *at++ = '}';
    assert((size_t)(at - from) <= room);
    buf_commit(out, (size_t)(at - from));
    record_redact(out, start);
}
