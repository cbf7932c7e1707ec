/* Makes an edge of a reference. Knows no place where one is found. */
#include "handoff/edge.h"

static const struct {
    const char *name, *text;
} kinds[] = {
    [EDGE_NONE] = {"none", ""},
#define EDGE(upper, name, text) [EDGE_##upper] = {name, text},
    EDGE_KINDS(EDGE)
#undef EDGE
};

const char *edge_kind_name(enum edge_kind k)
{
    return kinds[k].name;
}

struct edge edge_unread(const char *why)
{
    return (struct edge){.kind = EDGE_UNREAD, .unclear = true, .why = why, .text = slice_make("", 0), .to.query = slice_make("", 0)};
}

bool edge_make(enum edge_kind kind, const struct reference *from, struct slice text, bool cut, int64_t now_s, struct edge *out)
{
    enum reference_kind r;

    *out = (struct edge){.kind = kind, .why = "", .text = text};
    r = reference_read(from, text, cut, &out->to);
    if (r == REFERENCE_NONE || r == REFERENCE_SAME)
        return false;
    out->unclear = r == REFERENCE_UNCLEAR;
    out->downgrade = reference_is_downgrade(from, &out->to);
    out->presigned = presigned_read(out->to.query, now_s, &out->signature);
    return true;
}

bool edge_give(const struct edge_sink *sink, enum edge_kind kind, struct slice text, bool cut)
{
    struct edge e;

    return !edge_make(kind, sink->from, text, cut, sink->now_s, &e) || sink->found(sink->arg, &e);
}
