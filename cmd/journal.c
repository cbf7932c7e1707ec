#include "cmd/journal.h"

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
