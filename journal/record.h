/*
 * Journal records as typed messages. A role builds one; the scribe, and only the scribe, writes it as a
 * line. record.def lists the kinds and fields: name in JSON and type. Hostile bytes are data here and are escaped there.
 */
#ifndef JOURNAL_RECORD_H
#define JOURNAL_RECORD_H

#include "base/buf.h"
#include "base/fault.h"
#include "base/id.h"
#include "base/reason.h"

enum record_kind {
#define KIND(upper, name) RECORD_##upper,
#define FIELD(upper, name, type)
#include "journal/record.def"
#undef KIND
#undef FIELD
    N_RECORD_KINDS
};

enum record_field {
#define KIND(upper, name)
#define FIELD(upper, name, type) FIELD_##upper,
#include "journal/record.def"
#undef KIND
#undef FIELD
    N_RECORD_FIELDS
};

enum field_type { TYPE_TEXT, TYPE_NUMBER, TYPE_BOOL, TYPE_ID, TYPE_HEX, TYPE_REASON };

/*
 * Building: appends one record to out (a batch is records one after another, each with its length in front). Fields are put in
 * any order; in that of record.def they are read quickest.
 */
struct record_writer {
    struct buf *out;
    char *start, *at; /* the record in out, and where it goes on: room for RECORD_MAX was made at once */
    size_t text_left; /* bytes of text the record may still take */
    bool seen[N_RECORD_FIELDS]; /* fields written: one twice is our mistake */
};

#define RECORD_TEXT_MAX 4096   /* of one text */
#define RECORD_MAX (16 * 1024) /* of a whole record; texts that no longer fit are cut to what is left, down to their "..." */

struct record_writer record_begin(struct buf *out, enum record_kind kind);
void record_text(struct record_writer *w, enum record_field f, struct slice text); /* cut at 4096 bytes, marked by "..." */
void record_text_if(struct record_writer *w, enum record_field f, const char *text); /* the same; NULL or "": nothing is put */
void record_number(struct record_writer *w, enum record_field f, int64_t n);
void record_bool(struct record_writer *w, enum record_field f, bool yes);
void record_id(struct record_writer *w, enum record_field f, const struct id *id);
void record_hex(struct record_writer *w, enum record_field f, struct slice bytes);
void record_reason(struct record_writer *w, enum record_field f, enum reason r); /* severity goes with it */
void record_end(struct record_writer *w);

/* Reading: one record of a batch, checked; the values are borrowed from the batch, packed as record.c describes. */
struct record_view {
    enum record_kind kind;
    size_t size; /* of the fields as they came packed */
    unsigned n_items;
    struct record_item {
        const char *value;
        uint16_t len, field;
    } items[N_RECORD_FIELDS]; /* in the order of record.def, whatever order they came in */
};

/*
 * The next record of a batch. False at the end; *bad set when the message is not ours (unknown kind or field, wrong type,
 * bad length): fatal to the sender.
 */
bool record_read(struct slice *batch, struct record_view *out, bool *bad);
/* Its members of a JSON object, without braces and without those that the scribe stamps, each with a comma in front; redacted. */
void record_render(struct buf *out, const struct record_view *v);

/*
 * Replace what looks like a JWT in out from offset from on by "[token removed]"; how many there were. Done with
 * everything that is rendered: a token in a record is our bug, and must not become a leak too.
 */
size_t record_redact(struct buf *out, size_t from);

const char *record_kind_name(enum record_kind k);
const char *record_field_name(enum record_field f);
enum field_type record_field_type(enum record_field f);

#endif
