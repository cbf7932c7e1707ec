/*
 * Exchange ids: UUIDv7 (RFC 9562 5.7), 16 bytes, ordered by time. The short id
 * that people read is the last six hexadecimal digits.
 */
#ifndef BASE_ID_H
#define BASE_ID_H

#include "base/buf.h"

struct id {
    unsigned char bytes[16];
};

#define ID_TEXT_LEN 36
#define ID_SHORT_LEN 6

/* A new id: wall_ms in front, then 74 random bits. */
struct id id_new(int64_t wall_ms);
bool id_equals(const struct id *a, const struct id *b);
/* 01890a5d-ac96-774b-bcce-b302099a8057 */
void id_text(struct buf *out, const struct id *id);
/* The same where there is room for ID_TEXT_LEN; returns the place behind it. */
char *id_put(char *at, const struct id *id);
/* The last six digits of the same: 9a8057 */
void id_short(struct buf *out, const struct id *id);
bool id_parse(struct slice text, struct id *out);

#endif
