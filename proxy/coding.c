/* Reads Content-Encoding. Pure. */
#include "proxy/coding.h"

static bool is_gzip(struct slice value)
{
    return slice_is_nocase(value, "gzip") || slice_is_nocase(value, "x-gzip"); /* RFC 9110 8.4.1.3 */
}

/* One coding at most is opened: two of them, in one field or in two, are CODING_OTHER. */
enum coding coding_of(const struct head *h)
{
    enum coding coding = CODING_NONE;

    if (h->framing == FRAMING_NONE || (h->framing == FRAMING_LENGTH && h->length == 0))
        return CODING_NONE;
    for (size_t i = 0; i < h->n_fields; i++) {
        struct slice value = h->fields[i].value;

        if (!slice_is_nocase(h->fields[i].name, "content-encoding") || slice_is_nocase(value, "identity"))
            continue;
        coding = coding == CODING_NONE && is_gzip(value) ? CODING_GZIP : CODING_OTHER;
    }
    return coding;
}
