/*
 * Sentences for people, on stderr: "exeat worker 1: text". Not the journal:
 * nothing is proven by these lines. One call, one line.
 */
#ifndef BASE_SAY_H
#define BASE_SAY_H

#include <stdarg.h>
#include <stdbool.h>

enum say_level { SAY_ERROR, SAY_WARNING, SAY_NOTE, SAY_DEBUG };

/* Who speaks ("worker 1"); copied, at most 31 characters. */
void say_as(const char *role);
/* Lines above this level are dropped; SAY_NOTE at start. */
void say_level(enum say_level most);
bool say_is_debug(void);

void say_error(const char *format, ...) __attribute__((format(printf, 1, 2), cold));
void say_warning(const char *format, ...) __attribute__((format(printf, 1, 2), cold));
void say_note(const char *format, ...) __attribute__((format(printf, 1, 2), cold));
void say_debug(const char *format, ...) __attribute__((format(printf, 1, 2), cold));

#endif
