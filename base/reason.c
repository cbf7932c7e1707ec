#include "base/reason.h"

#include <assert.h>

enum { info = SEVERITY_INFO, low = SEVERITY_LOW, medium = SEVERITY_MEDIUM, high = SEVERITY_HIGH, critical = SEVERITY_CRITICAL };

static const struct reason_entry entries[N_REASONS] = {
#define REASON(upper, code, status, error, ede, level, text) {#code, status, error, ede, (enum severity)(level), text},
#include "base/reason.def"
#undef REASON
};

const struct reason_entry *reason_get(enum reason r)
{
    assert(r < N_REASONS);
    return &entries[r];
}

const char *reason_code(enum reason r)
{
    return reason_get(r)->code;
}

struct slice reason_sentence(enum reason r)
{
    struct slice text = slice_of(reason_get(r)->text);
    ptrdiff_t end = slice_search(text, SLICE(". "));

    return end < 0 ? text : slice_cut(text, 0, (size_t)end + 1);
}

struct slice reason_advice(enum reason r)
{
    struct slice rest = slice_from(slice_of(reason_get(r)->text), reason_sentence(r).len);

    return slice_from(rest, rest.len ? 1 : 0);
}

bool reason_find(struct slice code, enum reason *out)
{
    for (int i = 0; i < N_REASONS; i++)
        if (slice_is(code, entries[i].code)) {
            *out = (enum reason)i;
            return true;
        }
    return false;
}

const char *severity_name(enum severity s)
{
    static const char *const names[] = {"info", "low", "medium", "high", "critical"};

    return names[s];
}

bool reason_is_token(enum reason r)
{
    return r >= REASON_TOKEN_MISSING && r <= REASON_TOKEN_BINDING;
}
