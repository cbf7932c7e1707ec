/* Questions to the fields of a head (RFC 9110 5). Only looks. */
#include <string.h>

#include "net/head.h"

const struct field *head_field(const struct head *h, const char *name)
{
    struct slice want = slice_of(name);

    for (size_t i = 0; i < h->n_fields; i++)
        if (slice_equals_nocase(h->fields[i].name, want))
            return &h->fields[i];
    return NULL;
}

size_t head_count(const struct head *h, const char *name)
{
    struct slice want = slice_of(name);
    size_t n = 0;

    for (size_t i = 0; i < h->n_fields; i++)
        n += slice_equals_nocase(h->fields[i].name, want);
    return n;
}

static bool lists(const struct head *h, struct slice name, struct slice token)
{
    for (size_t i = 0; i < h->n_fields; i++) {
        struct slice rest = h->fields[i].value, piece;

        if (!slice_equals_nocase(h->fields[i].name, name))
            continue;
        while (slice_next(&rest, ',', &piece))
            if (slice_equals_nocase(slice_trim(piece), token))
                return true;
    }
    return false;
}

bool head_lists(const struct head *h, const char *name, const char *token)
{
    return lists(h, slice_of(name), slice_of(token));
}

static bool is_always_hop(struct slice name)
{
    static const struct slice names[] = {
        {"connection", 10}, {"keep-alive", 10}, {"proxy-connection", 16}, {"proxy-authorization", 19},
        {"proxy-authenticate", 18}, {"te", 2}, {"trailer", 7}, {"transfer-encoding", 17}, {"upgrade", 7},
    };
    const unsigned lengths = 1u << 2 | 1u << 7 | 1u << 10 | 1u << 16 | 1u << 17 | 1u << 18 | 1u << 19;

    if (name.len > 19 || !(lengths >> name.len & 1))
        return false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (slice_equals_nocase(name, names[i]))
            return true;
    return false;
}

bool head_is_hop(const struct head *h, struct slice name)
{
    return is_always_hop(name) || (!h->no_options && lists(h, SLICE("connection"), name));
}
