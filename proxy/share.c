#include "proxy/share.h"

uint64_t share_most(const struct share *s, uint64_t active)
{
    uint64_t part;

    if (!s->own || !s->common)
        return s->own;
    part = s->common / (active + 1);
    if (part == 0)
        part = 1;
    return part < s->own ? part : s->own;
}

bool share_allows(const struct share *s, uint64_t held, uint64_t more, uint64_t active)
{
    uint64_t most = share_most(s, active);

    return held <= most && more <= most - held;
}
