/* Tells answers that last from those that end by themselves. */
#include "proxy/lasting.h"

static bool is_type(struct slice value, const char *type)
{
    struct slice word = slice_make("", 0);

    return slice_next(&value, ';', &word) && slice_is_nocase(slice_trim(word), type);
}

bool lasting_is(const struct head *response)
{
    static const char *const types[] = {"text/event-stream", "application/x-ndjson", "application/json-seq"};
    const struct field *f = response->framing == FRAMING_LENGTH ? NULL : head_field(response, "content-type");

    for (size_t i = 0; f && i < sizeof types / sizeof *types; i++)
        if (is_type(f->value, types[i]))
            return true;
    return false;
}

/* All of them are made of lines. */
bool lasting_may_rest(struct slice piece)
{
    return piece.len && (piece.ptr[piece.len - 1] == '\n' || piece.ptr[piece.len - 1] == '\r');
}
