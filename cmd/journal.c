#include "cmd/journal.h"

#include "base/clock.h"
#include "base/conf.h"
#include "base/text.h"
#include "proxy/config.h"

char *journal_directory(const struct invocation *inv, struct fault *why)
{
    const char *given = option_text(inv->options, "directory");
    const struct conf_section *const *sections;
    struct conf *conf;
    char *directory;
    size_t n;

    if (given)
        return text_copy(slice_of(given));
    sections = gateway_sections(&n);
    if (!(conf = conf_load(inv->config, sections, n, why)))
        return NULL;
    directory = text_copy(slice_of(conf_text(conf_section(conf, "journal"), "directory")));
    conf_free(conf);
    return directory;
}

bool journal_moment(const struct invocation *inv, const char *option, int64_t *ns, struct fault *why)
{
    const char *text = option_text(inv->options, option);
    int64_t ago_ms;

    *ns = 0;
    if (!text || clock_parse(slice_of(text), ns))
        return true;
    if (conf_parse_time(slice_of(text), &ago_ms)) {
        *ns = clock_wall_ns() - ago_ms * 1000000;
        return true;
    }
    return fault_set(why, FAULT_USAGE, "--%s: expected a time such as 2026-01-02T03:04:05Z, or how long ago, such as 15m",
                     option);
}
