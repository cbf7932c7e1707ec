/*
 * HTTP/1.x messages (RFC 9112): a strict incremental parser, llhttp as its second opinion, and what
 * it finds. One meaning per message: everything that two readers could take for
 * two things is refused here, whatever llhttp thinks of it. Pure: bytes in, events out.
 *
 * Beyond llhttp's strict mode it refuses: folded lines, missing or repeated Host
 * in HTTP/1.1 requests, HTTP/0.9 and 2.0, empty field names, Transfer-Encoding in
 * HTTP/1.0 or other than exactly "chunked", Content-Length together with
 * Transfer-Encoding, repeated Content-Length (even equal), Content-Length that is
 * not plain digits, more than one space in the request line, bare CR or LF, NUL
 * and controls in values, white space before the colon, chunk sizes with signs,
 * blanks or more than 15 digits, bare LF in chunk lines, chunk extensions longer than 1 KiB a body,
 * trailers that frame, route or authenticate (RFC 9110 6.5.1), a Connection field that names more than 32 options or a
 * field that belongs to both ends, content announced by 1xx and 204.
 */
#ifndef NET_HEAD_H
#define NET_HEAD_H

#include "base/buf.h"
#include "base/fault.h"

struct field {
    struct slice name, value; /* value without optional white space around it */
};

enum framing {
    FRAMING_NONE,    /* no body */
    FRAMING_LENGTH,  /* Content-Length */
    FRAMING_CHUNKED, /* Transfer-Encoding: chunked */
    FRAMING_CLOSE,   /* response: until the connection ends */
};

/* A parsed head. All slices are borrowed from its message, until the next head. */
struct head {
    struct slice method, target; /* request */
    int status;                  /* response */
    struct slice reason;         /* response */
    int minor;                   /* HTTP/1.minor: 0 or 1 */
    struct field *fields;
    size_t n_fields;
    enum framing framing;
    uint64_t length;       /* FRAMING_LENGTH */
    bool keep_alive;       /* as version and Connection say (RFC 9112 9.3) */
    bool upgrade;          /* Connection: upgrade with an Upgrade field */
    bool no_options;       /* head_parse saw no Connection field: nobody need look for one again */
    bool plain;            /* head_parse saw nothing in it that is read in more than one way: no second opinion is needed */
    bool expect_continue;  /* Expect: 100-continue, HTTP/1.1 */
    bool expect_other;     /* any other expectation */
};

/* The first field of that name (case folded), or NULL; count of them. */
const struct field *head_field(const struct head *h, const char *name);
size_t head_count(const struct head *h, const char *name);
/* Does a comma-separated list field (all its lines) hold this token, case folded? */
bool head_lists(const struct head *h, const char *name, const char *token);
/*
 * Is the field hop-by-hop (RFC 9110 7.6.1): Connection and what it names,
 * Keep-Alive, Proxy-Connection, Proxy-Authorization, Proxy-Authenticate, TE, Trailer,
 * Transfer-Encoding, Upgrade?
 */
bool head_is_hop(const struct head *h, struct slice name);

enum message_kind { MESSAGE_REQUEST, MESSAGE_RESPONSE };

enum message_event {
    MESSAGE_MORE,     /* all input used; wants more */
    MESSAGE_HEAD,     /* message_head() is complete; body, if any, follows */
    MESSAGE_BODY,     /* message_body() is a piece of content, transfer coding removed; borrowed from the input */
    MESSAGE_TRAILERS, /* message_trailers() are complete (only when there were any); END follows */
    MESSAGE_END,      /* the message is whole; the next byte is another message's */
    MESSAGE_BAD,      /* refused; why says it. Nothing of this connection may be used again */
};

struct message;

struct message_limits {
    size_t head;     /* bytes of start line and fields, also of all trailers */
    size_t target;   /* bytes of the target */
    size_t n_fields; /* fields in a head */
};

/* limits is kept. Memory for a head is taken at its first byte and given back by message_reset. */
struct message *message_new(enum message_kind kind, const struct message_limits *limits);
void message_free(struct message *m);

/*
 * Read some of input, up to the next event; *used says how much. Call again with
 * the rest until MORE or BAD. BAD sets why->reason: request_malformed, head_too_large,
 * target_too_long, version_not_supported; for responses upstream_malformed.
 * After END call message_reset before the next message.
 */
enum message_event message_feed(struct message *m, struct slice input, size_t *used, struct fault *why);
/* The peer's end came: END when that ends a FRAMING_CLOSE body, MORE between messages, else BAD. */
enum message_event message_finish(struct message *m, struct fault *why);
/* Ready for the next message on the same connection; memory of the head is let go. */
void message_reset(struct message *m);

/* Response only: the request was HEAD (no body follows), or CONNECT. Call before its head arrives. */
void message_expect(struct message *m, bool head_request);

const struct head *message_head(const struct message *m);
struct slice message_body(const struct message *m);
/* Content that the length, or the chunk under way, still announces. */
uint64_t message_announced(const struct message *m);
/* Fields of the trailer section, as an array that lives until message_reset. */
const struct field *message_trailers(const struct message *m, size_t *n);
/* True when a first byte of a message has been seen and its end has not. */
bool message_is_open(const struct message *m);
/* Everything of it was read: the next feed says END, whatever the input. */
bool message_is_whole(const struct message *m);

#endif
