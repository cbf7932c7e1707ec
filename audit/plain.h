/*
 * Text for people, of words that a service or whoever came to the listener may have chosen: nothing of it moves a terminal's cursor, turns
 * the direction of what follows, hides, or is no UTF-8, which no report could hold. Pure.
 */
#ifndef AUDIT_PLAIN_H
#define AUDIT_PLAIN_H

#include <stddef.h>

/* The length of the one harmless character of UTF-8 that text begins with; 0: none does. */
size_t plain_character(const char *text);
/* In place: each byte of what is none becomes '?'; a character that was cut off at the end goes. */
void plain_make(char *text);

#endif
