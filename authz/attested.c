/* Owns the words for why a service is closed. Knows no keys and no files. */
#include "authz/attested.h"

#include "base/clock.h"

bool attested_is_open(const struct attested *a, int64_t now_s)
{
    return !a->trouble[0] && a->at_s > 0 && now_s < a->until_s;
}

void attested_day(int64_t wall_s, struct buf *out)
{
    struct buf text = {0};

    clock_rfc3339(&text, wall_s * 1000000000);
    buf_append(out, slice_cut(buf_slice(&text), 0, sizeof "2026-11-30" - 1));
    buf_free(&text);
}

void attested_explain(const struct attested *a, int64_t now_s, struct buf *out)
{
    if (a->trouble[0]) {
        buf_text(out, a->trouble);
    } else if (a->at_s <= 0) {
        buf_text(out, "nobody has audited it");
    } else if (now_s >= a->until_s) {
        buf_text(out, "its audit of ");
        attested_day(a->at_s, out);
        buf_text(out, " counted until ");
        attested_day(a->until_s, out);
    }
}
