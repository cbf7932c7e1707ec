/*
 * An expected failure: what kind, and one line for people. Functions that can
 * fail return false (or NULL) and fill the fault; why may always be NULL. What leads to one is cold code: the compiler
 * keeps it out of the way of requests that go well.
 */
#ifndef BASE_FAULT_H
#define BASE_FAULT_H

#include <stdarg.h>
#include <stdbool.h>

#include "base/reason.h"

enum fault_kind {
    FAULT_NONE = 0,
    FAULT_USAGE,      /* the caller's words are off: exit status 2 */
    FAULT_SYNTAX,     /* a file or message cannot be read: exit status 2 */
    FAULT_PERMISSION, /* readable by others, or not by us */
    FAULT_MISSING,    /* no such file, key, name */
    FAULT_LIMIT,      /* over a cap */
    FAULT_REFUSED,    /* understood, and denied */
    FAULT_IO,         /* system call failed */
    FAULT_CRYPTO,     /* OpenSSL or a signature said no */
    FAULT_TIMEOUT,
    FAULT_BUSY,
};

enum { FAULT_TEXT_SIZE = 240 };

struct fault {
    enum fault_kind kind;
    enum reason reason; /* REASON_NONE unless it answers a request */
    char text[FAULT_TEXT_SIZE]; /* one line, no newline, no secret */
};

/* Fill why (when not NULL) and return false, so that `return fault_set(...)` reads well. */
bool fault_set(struct fault *why, enum fault_kind kind, const char *format, ...)
    __attribute__((format(printf, 3, 4), cold));
/* The same, with the reason code that goes to peer and journal. */
bool fault_reason(struct fault *why, enum reason reason, const char *format, ...)
    __attribute__((format(printf, 3, 4), cold));
/* Put "text: " in front of what is there (file names, line numbers). */
void fault_prefix(struct fault *why, const char *format, ...) __attribute__((format(printf, 2, 3), cold));
void fault_clear(struct fault *why);

/* For what is there in thousands and seldom fails: the fault at *at, made (calloc) when that is NULL. The holder frees it. */
struct fault *fault_kept(struct fault **at);
/* One that says nothing. */
extern const struct fault fault_none;

#endif
