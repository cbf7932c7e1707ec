/*
 * Paths and the spellings they are compared in (RFC 3986 6.2.2). Pure.
 */
#ifndef AUTHZ_PATH_H
#define AUTHZ_PATH_H

#include "base/buf.h"
#include "base/fault.h"

/*
 * Append the canonical spelling of raw, an absolute path without a query: unreserved characters decoded, hexadecimal
 * digits in upper case, printable characters that RFC 3986 has no place for encoded. Encoded slashes stay %2F. Empty
 * segments stay. Refused as path_invalid: no leading slash; dot segments, also encoded, beside an encoded slash or with
 * a parameter ("..;x"); "%25" that two hexadecimal digits follow; a backslash, a control or NUL, literal or encoded;
 * octets that are not ASCII, and encoded ones that are not UTF-8; a bad escape; space, "#" and "?".
 * canonical(canonical(x)) = canonical(x). On failure what out held before is all it holds.
 */
bool path_canonical(struct slice raw, struct buf *out, struct fault *why);

/*
 * Append what a careless server may take a canonical path for: every escape decoded, parameters (";x") dropped,
 * empty segments gone. Deny rules look at this too; nothing is ever allowed by it.
 */
void path_loosen(struct slice canonical, struct buf *out);
/* False when loosening would change nothing. */
bool path_is_loose(struct slice canonical);

/*
 * Take the next unit of text off *s, in canonical spelling: one character, or an escape of three.
 * 0 at the end; also, with *bad set, at a bad escape. For queries, which are compared unit by unit.
 */
size_t path_unit(struct slice *s, char unit[3], bool *bad);

#endif
