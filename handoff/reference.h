/*
 * Where a URI reference leads (RFC 3986 5): scheme, host and port, as the client that follows it least carefully would
 * have it. Backslashes are slashes, tabs and line ends inside are skipped, any number of slashes stands before the
 * authority (WHATWG URL 4.4): a reference that anybody reads as leading elsewhere does. Pure.
 */
#ifndef HANDOFF_REFERENCE_H
#define HANDOFF_REFERENCE_H

#include "net/name.h"

enum { REFERENCE_SCHEME_MAX = 15 };

enum reference_kind {
    REFERENCE_NONE,    /* to no place: mailto:, data:, javascript: and such */
    REFERENCE_SAME,    /* relative: to where it came from */
    REFERENCE_PLACE,   /* to scheme, host and port */
    REFERENCE_UNCLEAR, /* nobody can say for sure; host has what stands there, as far as it can be printed */
};

struct reference {
    char scheme[REFERENCE_SCHEME_MAX + 1]; /* lower case */
    char host[NAME_MAX_LEN + 1];           /* canonical name, or an address literal ("10.0.0.1", "[::1]") */
    uint16_t port;                         /* as written, or the scheme's own; 0: neither is known */
    bool userinfo;                         /* "user@" stands before the host */
    struct slice query;                    /* without "?", borrowed from the text; "" when there is none */
};

/*
 * Read text as met in a document or field of base. cut: text is only the beginning of what stood there. *out is set for
 * PLACE and UNCLEAR.
 */
enum reference_kind reference_read(const struct reference *base, struct slice text, bool cut, struct reference *out);
/* From https to something that can be read on the way. */
bool reference_is_downgrade(const struct reference *base, const struct reference *to);

#endif
