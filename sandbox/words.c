#include "sandbox/words.h"

#include <string.h>

static const struct word_spec *find(const struct word_spec *specs, const char *name, size_t len)
{
    for (; specs->name; specs++)
        if (strlen(specs->name) == len && memcmp(specs->name, name, len) == 0)
            return specs;
    return NULL;
}

int words_next(int argc, char **argv, int *at, const struct word_spec *specs, const char **value)
{
    const struct word_spec *spec;
    const char *equals;

    if (*at >= argc)
        return WORD_END;
    *value = argv[(*at)++];
    if (strncmp(*value, "--", 2) != 0)
        return WORD_BARE;
    equals = strchr(*value, '=');
    spec = find(specs, *value + 2, equals ? (size_t)(equals - *value) - 2 : strlen(*value) - 2);
    if (!spec || (equals && !spec->has_value))
        return WORD_UNKNOWN;
    if (equals)
        *value = equals + 1;
    else if (spec->has_value && *at >= argc)
        return WORD_NO_VALUE;
    else if (spec->has_value)
        *value = argv[(*at)++];
    return spec->which;
}
