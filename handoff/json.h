/*
 * JSON as it comes (RFC 8259): the string values that somebody wants, with the names that lead to them. Nothing is held but
 * the names, and the value under way. It is a lenient reader: what is no JSON at all is read as what a lenient client could
 * make of it, and only what would lose the thread ends it. Pure; the pieces may be cut anywhere.
 */
#ifndef HANDOFF_JSON_H
#define HANDOFF_JSON_H

#include "base/slice.h"

enum {
    JSON_DEPTH_MOST = 64,   /* objects and arrays inside each other */
    JSON_NAME_MOST = 31,    /* of a longer name nothing is known but that it is none of ours */
    JSON_VALUE_MOST = 4096, /* of a value; what is longer is cut */
};

struct json_reader;

/*
 * A string value begins: is it wanted? Not 0: it is, and value gets the answer again. Names by json_name and json_depth.
 */
typedef int json_wants(void *arg, const struct json_reader *r);
/* It is whole, escapes decoded (lone surrogates as U+FFFD), or cut. False: read no further. */
typedef bool json_value(void *arg, int wanted, struct slice value, bool cut);

/* Gives a reader; arg is kept. */
struct json_reader *json_reader_new(json_wants *wants, json_value *value, void *arg);
void json_reader_free(struct json_reader *r);

enum json_state {
    JSON_FINE,
    JSON_STOPPED, /* value said so; that value begins at *safe */
    JSON_BROKEN,  /* brackets that do not match: what follows means nothing, to nobody */
    JSON_LOST,    /* NUL, too deep: it may mean something to others */
};

/*
 * Read on. *safe: so many bytes of all that came belong to no value that is wanted and not whole yet; its opening quote is
 * before it. Once it is not FINE nothing is read any more.
 */
enum json_state json_read(struct json_reader *r, struct slice bytes, uint64_t *safe);
/* The text is over: a value that is wanted and not whole is given as cut. False: value said stop. */
bool json_end(struct json_reader *r);

/* The name of the member that leads here, up names out (0: the innermost); arrays have none. "" beyond the outermost. */
struct slice json_name(const struct json_reader *r, size_t up);
/* How many names there are. */
size_t json_depth(const struct json_reader *r);

#endif
