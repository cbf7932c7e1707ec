/* Owns what services.NAME.accept says. */
#include "authz/acceptance.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"

enum { DAY_S = 24 * 60 * 60, DATE_LEN = sizeof "2026-12-31" - 1 };

#define UNTIL " until "

/* "AN-1" */
static bool is_check(const char *name)
{
    size_t letters = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"), digits;

    if (letters != 2 || name[letters] != '-')
        return false;
    digits = strspn(name + 3, "0123456789");
    return digits > 0 && digits <= 3 && name[3 + digits] == '\0' && name[3] != '0';
}

/* "REASON until DATE" */
static bool read_words(struct slice text, struct acceptance *a)
{
    const size_t tail = sizeof UNTIL - 1 + DATE_LEN;
    struct buf midnight = {0};
    int64_t ns;
    bool ok;

    if (text.len <= tail || !slice_equals(slice_cut(text, text.len - tail, text.len - DATE_LEN), SLICE(UNTIL)))
        return false;
    buf_append(&midnight, slice_from(text, text.len - DATE_LEN));
    buf_text(&midnight, "T00:00:00Z");
    ok = clock_parse(buf_slice(&midnight), &ns);
    buf_free(&midnight);
    if (!ok)
        return false;
    a->until_s = ns / 1000000000 + DAY_S;
    a->reason = text_copy(slice_trim(slice_cut(text, 0, text.len - tail)));
    return a->reason[0] != '\0';
}

bool acceptances_read(const struct conf_item *item, struct acceptances *out, struct fault *why)
{
    size_t n = conf_map_count(item, "accept");

    if (!(out->list = calloc(n + 1, sizeof *out->list)))
        abort();
    for (size_t i = 0; i < n; i++) {
        const char *name = conf_map_name(item, "accept", i), *words = conf_map_list_text(item, "accept", i, 0);
        struct acceptance *a = &out->list[out->count++];

        a->check = text_copy(slice_of(name));
        if (!is_check(name))
            return conf_refuse(item, "accept", (int)i, why, "expected a check such as AN-1, found \"%.40s\"", name);
        if (conf_map_list_count(item, "accept", i) != 1 || !read_words(slice_of(words), a))
            return conf_refuse(item, "accept", (int)i, why, "%s: expected \"REASON until 2026-12-31\", found \"%.80s\"",
                               name, words ? words : "");
    }
    return true;
}

void acceptances_clear(struct acceptances *a)
{
    for (size_t i = 0; i < a->count; i++) {
        free(a->list[i].check);
        free(a->list[i].reason);
    }
    free(a->list);
    *a = (struct acceptances){0};
}
