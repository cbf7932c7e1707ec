/*
 * Reads what a client says to its proxy (RFC 9112), byte by byte and without holding any of it, only to know where heads
 * end: there a token can be added. Strict: what it cannot be sure of is BAD, never guessed. Pure; however the bytes are
 * cut, the answers are the same.
 */
#ifndef SANDBOX_SCANNER_H
#define SANDBOX_SCANNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum scan_event {
    SCAN_MORE,   /* all n bytes may pass */
    SCAN_TOKEN,  /* before the next byte, which ends a head, a Proxy-Authorization field may be added */
    SCAN_SWITCH, /* CONNECT or an upgrade was asked for: nothing may pass before scanner_switch() has the answer */
    SCAN_LARGE,  /* a head of more than SCAN_HEAD_MAX bytes */
    SCAN_BAD,    /* no request that we can be sure of; the rest is not to be looked at */
};

enum { SCAN_HEAD_MAX = 32768 };

struct scanner {
    uint8_t state;
    bool connect, absolute, upgrade, has_token, chunked, has_length, old; /* of this head; old: HTTP/1.0 */
    bool first;       /* no head was over before */
    uint8_t n_word;   /* bytes of word, those that did not fit counted up to 255 */
    char word[32];    /* method, start of the target, version, field name or value, in lower case where that is the same */
    uint8_t field;    /* which one the value belongs to */
    uint32_t head;    /* bytes of this head, trailers or chunk line */
    uint64_t left;    /* bytes of content, or of this chunk, to come */
};

void scanner_init(struct scanner *s);
/*
 * Look at n bytes; returns how many of them may pass, and why it stopped there. The rest is to be fed again when the event is
 * dealt with. After SCAN_LARGE or SCAN_BAD: not again.
 */
size_t scanner_feed(struct scanner *s, const unsigned char *bytes, size_t n, enum scan_event *event);
/* After SCAN_SWITCH: yes, what follows is another protocol and passes as it is; or no, another request follows. */
void scanner_switch(struct scanner *s, bool yes);

#endif
