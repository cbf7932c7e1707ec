/* Bytes as text and back: hexadecimal, base64 (RFC 4648), JSON strings (RFC 8259). */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include "base/buf.h"

/* Lower-case hexadecimal. */
void text_hex(struct buf *out, struct slice bytes);
bool text_unhex(struct slice hex, struct buf *out);

/* Standard alphabet with padding (RFC 4648 4). */
void text_base64(struct buf *out, struct slice bytes);
/* URL alphabet without padding (RFC 4648 5, RFC 7515 2). */
void text_base64url(struct buf *out, struct slice bytes);
/*
 * Strict decoding: whole groups, no white space, no stray bits, padding exactly
 * as the form wants it (base64: required; base64url: refused).
 */
bool text_unbase64(struct slice in, struct buf *out);
bool text_unbase64url(struct slice in, struct buf *out);

/*
 * A JSON string with its quotes. Bytes that are not UTF-8, controls and DEL are
 * written as \u00XX (the byte's value), so that the line stays one line and
 * every byte can be told; no other escapes than \" \\ \n \r \t \u. NUL is written as
 * its symbol, \u2400: readers in C refuse a text with NUL in it.
 */
void text_json(struct buf *out, struct slice bytes);

/* A copy as NUL-terminated text (give); aborts without memory. */
char *text_copy(struct slice s);

#endif
