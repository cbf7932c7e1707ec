/* Field lines (RFC 9112 5): one strict reading of them for heads and trailers. Pure; private to net/. */
#ifndef NET_LINE_H
#define NET_LINE_H

#include "net/head.h"

/* RFC 9110 5.6.2 */
bool line_is_token(struct slice s);
/* Where the first control octet (below 0x20, or 0x7f) stands at or after from; s.len when there is none. */
size_t line_control(struct slice s, size_t from);
/*
 * "name: value" without its CRLF. Refused: no or blank name, white space around it, a fold. Controls in the value were
 * refused by line_control when the bytes came.
 */
bool line_field(struct slice line, struct field *out, struct fault *why);
/* Cut the first line, without CRLF, from s (which ends every line with CRLF). */
bool line_next(struct slice *s, struct slice *line);
/* A head of whole lines, the empty one included, as llhttp reads it; agrees says that framing and version are what we found. */
bool head_second_opinion(enum message_kind kind, struct slice raw, const struct head *h, struct fault *why);
/* The start line, without CRLF, into h, which is cleared before. */
bool head_start_line(enum message_kind kind, struct slice line, const struct message_limits *limits, struct head *h,
                     struct fault *why);
/* The start line and fields of raw, which holds no controls but HTAB and CRLF, into h; fields is room for as many as there are lines. */
bool head_parse(enum message_kind kind, struct slice raw, const struct message_limits *limits, struct field *fields,
                struct head *h, struct fault *why);

#endif
