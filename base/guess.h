/* What somebody meant: the known word nearest to the one they wrote. Pure. */
#ifndef BASE_GUESS_H
#define BASE_GUESS_H

#include <stddef.h>

/* Start with word set and the rest zero; best stays NULL when nothing is near enough to be meant. */
struct guess {
    const char *word;
    const char *best; /* borrowed from the candidates */
    size_t distance;
};

void guess_try(struct guess *g, const char *candidate);

#endif
