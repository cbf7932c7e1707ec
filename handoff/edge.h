/*
 * Handoff edges (design 2): places that a response sends the client on to. Readers of heads and of contents find them; what
 * is made of them is others' to say. Relative references, which lead back to where they came from, are no edges. Pure.
 */
#ifndef HANDOFF_EDGE_H
#define HANDOFF_EDGE_H

#include "handoff/presigned.h"
#include "handoff/reference.h"
#include "net/head.h"

/* EDGE(upper, name in records, what it is) */
#define EDGE_KINDS(EDGE) \
    EDGE(LOCATION, "location", "a redirect, or where what was made is (RFC 9110 10.2.2)") \
    EDGE(UPLOAD, "upload", "the Location of a 202: where the next piece of an upload goes (OCI)") \
    EDGE(CONTENT_LOCATION, "content-location", "RFC 9110 8.7") \
    EDGE(LINK, "link", "a Link field (RFC 8288)") \
    EDGE(REFRESH, "refresh", "a Refresh field, or its like in HTML") \
    EDGE(ALT_SVC, "alt-svc", "RFC 7838; the gateway takes the field away") \
    EDGE(AUTHENTICATE, "authenticate", "realm, authorization_uri or resource_metadata of a challenge (RFC 9110 11.6.1)") \
    EDGE(REPORT, "report", "Report-To and Reporting-Endpoints: URLs are told there") \
    EDGE(TARBALL, "dist.tarball", "npm metadata") \
    EDGE(FILES, "files.url", "a simple index, as JSON (PEP 691), and its older form") \
    EDGE(CARGO, "cargo.dl", "dl and api of a Cargo index's config.json") \
    EDGE(LFS, "lfs.href", "actions of Git LFS") \
    EDGE(MANIFEST, "manifest.urls", "of an OCI descriptor") \
    EDGE(DIST, "dist.url", "Composer metadata") \
    EDGE(METADATA, "metadata", "endpoints of an authorization server, or who authorizes (RFC 8414, RFC 9728)") \
    EDGE(ANCHOR, "html.a", "a link, as in a simple index (PEP 503)") \
    EDGE(HTML_LINK, "html.link", "a link element") \
    EDGE(BASE, "html.base", "what all relative links of the page start from") \
    EDGE(SOURCE, "html.src", "scripts, images, frames") \
    EDGE(FORM, "html.form", "where a form is sent") \
    EDGE(DATA, "html.data", "a URL in a data-* attribute") \
    EDGE(GO_IMPORT, "go-import", "where a Go module is kept") \
    EDGE(UNREAD, "unread", "what could not be looked into") \
    EDGE(OTHERS, "others", "more places than are kept apart")

enum edge_kind {
    EDGE_NONE,
#define EDGE(upper, name, text) EDGE_##upper,
    EDGE_KINDS(EDGE)
#undef EDGE
    N_EDGE_KINDS
};

struct edge {
    enum edge_kind kind;
    struct reference to;      /* UNREAD: nothing but "" */
    struct slice text;        /* the reference as it was written, maybe only its beginning; borrowed */
    bool unclear;             /* where it leads is anybody's guess; to.host has what stands there */
    bool downgrade;           /* from https to what can be read on the way */
    bool presigned;
    struct presigned signature;
    const char *why;          /* UNREAD: what could not be read (static); else "" */
};

const char *edge_kind_name(enum edge_kind k);

/* The edge that text is, met in something of from; false: it is none. now_s: seconds since 1970. */
bool edge_make(enum edge_kind kind, const struct reference *from, struct slice text, bool cut, int64_t now_s, struct edge *out);
/* Something is there and cannot be read; why is kept. */
struct edge edge_unread(const char *why);

/* One edge was found (borrowed). False: look no further. */
typedef bool edge_found(void *arg, const struct edge *e);

/* Where edges go: embedded by who reads; all of it kept. */
struct edge_sink {
    const struct reference *from;
    int64_t now_s;
    edge_found *found;
    void *arg;
};

/* text as an edge of this kind, to sink, if it is one. False: look no further. */
bool edge_give(const struct edge_sink *sink, enum edge_kind kind, struct slice text, bool cut);

/* The content of a Refresh field, or of its like in HTML: "5; url=..." */
bool edge_give_refresh(const struct edge_sink *sink, struct slice content, bool cut);

/* ---- heads (edge_head.c) ---- */

enum edge_format {
    EDGE_FORMAT_NONE, /* of no kind that sends on */
    EDGE_FORMAT_GUESS, /* what says it is anything else: JSON when it begins so (npm and cargo do not care for types) */
    EDGE_FORMAT_SNIFF, /* what does not say what it is: HTML, too (browsers) */
    EDGE_FORMAT_JSON,
    EDGE_FORMAT_HTML,
};

/* What one look at a response head tells; done for each response, so that it must cost next to nothing. */
struct edge_glance {
    bool sends; /* it has fields that may send on: edge_read_head */
    bool wide;  /* the content is in no encoding that keeps ASCII as it is, or said to be JSON and HTML at once */
    enum edge_format format;
};

struct edge_glance edge_glance(const struct head *h);
/* Every field of a response head that sends on. False when found said so. */
bool edge_read_head(const struct head *h, const struct edge_sink *sink);

/* ---- contents (edge_body.c) ---- */

/* What the next piece of a content makes of GUESS or SNIFF: JSON, HTML, NONE, or the same still (white space). */
enum edge_format edge_guess(enum edge_format format, struct slice piece);

struct edge_reader;

/* Gives a reader of one content, JSON or HTML; sink is copied. guessed: what turns out to be no JSON is no matter. */
struct edge_reader *edge_reader_new(enum edge_format format, bool guessed, const struct edge_sink *sink);
void edge_reader_free(struct edge_reader *r);
/*
 * Read on. *safe: so many bytes of all that came may go on, whatever found will say: those of a reference that is not whole
 * yet are not among them. False when found said so, now or before: what it said it of begins at *safe.
 */
bool edge_reader_feed(struct edge_reader *r, struct slice bytes, uint64_t *safe);
/* The content is over: a reference that is not whole is one that was cut. */
bool edge_reader_end(struct edge_reader *r);

#endif
