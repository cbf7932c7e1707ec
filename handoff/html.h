/*
 * HTML as it comes: the attributes that somebody wants, of the tags that have some. Nothing is held but the value under way.
 * Comments, scripts and tags nobody wants are no shelter: whatever looks like a wanted tag is read as one, for browsers,
 * pip and search robots do not agree on where those end. Where two of them could part ways inside a wanted tag, that
 * is told (ambiguous). Of names with a prefix, as XML has them, what is behind it counts. Character references are decoded as far as they give ASCII. Pure; the pieces may be cut anywhere.
 */
#ifndef HANDOFF_HTML_H
#define HANDOFF_HTML_H

#include "base/slice.h"

enum {
    HTML_NAME_MOST = 31,    /* of a tag or an attribute */
    HTML_VALUE_MOST = 4096, /* of a value; what is longer is cut */
};

struct html_reader;

/* Does anybody want attributes of this tag (lower case, borrowed)? */
typedef bool html_watches(void *arg, struct slice tag);
/* The value of an attribute (lower case) of such a tag begins: not 0 when it is wanted; value gets the answer again. */
typedef int html_wants(void *arg, struct slice tag, struct slice attribute);
/* It is whole, or cut. False: read no further. */
typedef bool html_value(void *arg, int wanted, struct slice value, bool cut);
/* Another tag seems to begin inside a wanted one, or readers part ways otherwise. False: read no further. */
typedef bool html_ambiguous(void *arg);

struct html_handler {
    html_watches *watches;
    html_wants *wants;
    html_value *value;
    html_ambiguous *ambiguous;
};

/* Gives a reader; handler and arg are kept. */
struct html_reader *html_reader_new(const struct html_handler *handler, void *arg);
void html_reader_free(struct html_reader *r);

enum html_state {
    HTML_FINE,
    HTML_STOPPED, /* the handler said so; what it said it of begins at *safe */
    HTML_LOST,    /* NUL behind "<": another encoding than an ASCII one */
};

/* Read on. *safe: so many bytes of all that came belong to no value that is wanted and not whole yet. */
enum html_state html_read(struct html_reader *r, struct slice bytes, uint64_t *safe);
/* The text is over: a value that is wanted and not whole is given as cut. False: value said stop. */
bool html_end(struct html_reader *r);

#endif
