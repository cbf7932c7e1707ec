/* Times and sizes as people write them. */
#include "base/conf.h"

#include <string.h>

struct unit {
    const char *suffix;
    int64_t factor;
};

static const struct unit times[] = {
    {"ms", 1}, {"s", 1000}, {"m", 60 * 1000}, {"h", 3600 * 1000}, {"d", 24 * 3600 * 1000}, {0},
};
static const struct unit sizes[] = {{"", 1}, {"k", 1 << 10}, {"m", 1 << 20}, {"g", 1 << 30}, {0}};

enum { MOST_BITS = 53 }; /* what JSON numbers carry exactly */

/* Digits and a unit, nothing else: no sign, no space, no fraction, no leading zero. */
static bool parse(struct slice text, const struct unit *units, int64_t *out)
{
    const int64_t most = (int64_t)1 << MOST_BITS;
    size_t digits = 0;
    uint64_t n;

    while (digits < text.len && text.ptr[digits] >= '0' && text.ptr[digits] <= '9')
        digits++;
    if ((digits > 1 && text.ptr[0] == '0') || !slice_decimal(slice_cut(text, 0, digits), (uint64_t)most, &n))
        return false;
    for (; units->suffix; units++)
        if (slice_is(slice_from(text, digits), units->suffix)) {
            if ((int64_t)n > most / units->factor)
                return false;
            *out = (int64_t)n * units->factor;
            return true;
        }
    return false;
}

bool conf_parse_time(struct slice text, int64_t *ms)
{
    if (slice_is(text, "0")) {
        *ms = 0;
        return true;
    }
    return parse(text, times, ms);
}

bool conf_parse_size(struct slice text, int64_t *bytes)
{
    return parse(text, sizes, bytes);
}
