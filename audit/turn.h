/*
 * A turn: one request of the audit and what came back. It owns all its texts. Nothing here is printed as it is: `shown` is
 * the target without secrets, for reports.
 */
#ifndef AUDIT_TURN_H
#define AUDIT_TURN_H

#include "base/buf.h"

enum { TURN_FIELDS_MAX = 12, TURN_BODY_MAX = 256 * 1024, TURN_HEAD_MAX = 64 * 1024 };

enum who {
    WHO_NOBODY, /* B0 */
    WHO_FIRST,  /* B1: the good credential */
    WHO_SECOND, /* B2: the second tenant's */
    WHO_JUNK,   /* Bx: one that nobody gave out */
    WHO_TOKEN,  /* a token made for this probe */
};

enum outcome {
    OUTCOME_NONE,
    OUTCOME_ANSWERED,
    OUTCOME_REFUSED, /* nothing listens there */
    OUTCOME_CLOSED,  /* closed without a whole answer */
    OUTCOME_TIMEOUT,
    OUTCOME_NOISE,   /* what came is not HTTP */
    OUTCOME_TLS,     /* no TLS, or a certificate that does not verify */
    OUTCOME_BUDGET,  /* not sent: the budget is used up, or the service no longer answers */
    OUTCOME_METHOD,  /* not sent: the manifest does not allow the method */
};

/* What to send. All is borrowed. */
struct probe {
    const char *variant;    /* what is special about it, for people; may be NULL */
    enum who who;
    const char *token;      /* of WHO_TOKEN */
    unsigned base;          /* which of the target's URLs */
    const char *method;     /* NULL: GET */
    const char *path;       /* below the base's path; a whole URL (a proxy's request); or, with is_bare, as it is */
    bool is_bare;           /* path goes into the request line as it stands */
    bool is_by_hand;        /* only the first head that comes is read, be it 1xx (CONNECT always is) */
    bool reads_on;          /* of is_by_hand: what comes behind the head is read too, until nothing does for a moment */
    const char *host;       /* NULL: what belongs to the path */
    const char *source;     /* the address to ask from; NULL: any */
    const char *fields[TURN_FIELDS_MAX]; /* "Name: value", ended by NULL */
    struct slice body;
    const char *body_type;  /* Content-Type of the body */
    bool has_secret;        /* the path holds a secret: it is not shown */
    struct slice inside;    /* of CONNECT: what is sent through the tunnel once it stands */
    int tag;                /* for the judge */
};

struct turn {
    int tag;
    enum who who;
    char *variant, *method, *shown;
    enum outcome outcome;
    int status;             /* 0: none */
    struct buf head;        /* the last head, lines ended by \r\n; status line first */
    struct buf body;
    bool is_shared;         /* sent for another check, and taken for this one too */
    bool is_cut;            /* there was more body than TURN_BODY_MAX */
    int64_t took_ms;
    unsigned char request_hash[32], response_hash[32]; /* SHA-256 of head and body, as sent and received */
    char *note;             /* what the check saw in it, for the report; NULL: nothing */
    struct asked {          /* the probe as it was: secrets may be in it, and none of it is ever printed */
        unsigned base;
        bool is_bare;
        char *path, *host;  /* host NULL: what belongs to the path */
        char *fields;       /* "Name: value\n" each */
        char *content;      /* the beginning of the body, or what went through a tunnel */
        size_t body_len;
    } asked;
};

struct turn *turn_new(const struct probe *p);
/* The same, for another check (give). */
struct turn *turn_copy(const struct turn *x);
void turn_free(struct turn *x);

/* The value of the nth (0: first) field of this name, trimmed; false when there is none. */
bool turn_field(const struct turn *x, const char *name, size_t n, struct slice *value);
/* Is this text in the probe: its path, Host, fields or content? */
bool turn_names(const struct turn *x, const char *text);
bool turn_answered(const struct turn *x);
bool turn_is_2xx(const struct turn *x);
/* 401, 403, 404, 405, 407, 410, 421, 501, 400, or closed without an answer: it does not do it. */
bool turn_is_refusal(const struct turn *x);
/* Is text anywhere in the head's fields or the body, ASCII case folded; percent-, base64- and hex-encoded too? */
bool turn_holds(const struct turn *x, const char *text);
/* "200", "closed", "time-out"... */
void turn_describe(const struct turn *x, struct buf *out);
/* Say what was seen (replaces). */
void turn_note(struct turn *x, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * Same class: status, whether a challenge came with it, media type, and of JSON objects the names at the top and the first error's code.
 * An exchange without an answer is like none.
 */
bool turn_alike(const struct turn *a, const struct turn *b);

/* Is needle in hay, ASCII case folded? */
bool text_holds(struct slice hay, struct slice needle);
/* The same, and in the encodings that a URL or an error page may put it in. */
bool text_holds_encoded(struct slice hay, struct slice needle);

#endif
