#include "base/guess.h"

#include <string.h>

static size_t min3(size_t a, size_t b, size_t c)
{
    size_t least = a < b ? a : b;

    return least < c ? least : c;
}

/* Levenshtein's distance; words of 40 bytes or more are nobody's typing error. */
static size_t distance(const char *a, const char *b)
{
    enum { LONGEST = 40 };
    size_t row[LONGEST + 1], n_a = strlen(a), n_b = strlen(b);

    if (n_a >= LONGEST || n_b >= LONGEST)
        return LONGEST;
    for (size_t j = 0; j <= n_b; j++)
        row[j] = j;
    for (size_t i = 1; i <= n_a; i++) {
        size_t corner = row[0];

        row[0] = i;
        for (size_t j = 1; j <= n_b; j++) {
            size_t above = row[j];

            row[j] = min3(above + 1, row[j - 1] + 1, corner + (a[i - 1] != b[j - 1]));
            corner = above;
        }
    }
    return row[n_b];
}

void guess_try(struct guess *g, const char *candidate)
{
    size_t d = distance(g->word, candidate), len = strlen(g->word);
    size_t near = len < 4 ? 1 : 2;

    if (len >= 2 && strncmp(g->word, candidate, len) == 0)
        d = 1; /* the beginning of it */
    if (d <= near && (!g->best || d < g->distance)) {
        g->best = candidate;
        g->distance = d;
    }
}
