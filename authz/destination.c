/* Reads and matches destinations. Knows no service. */
#include "authz/destination.h"

#include <string.h>

bool destination_parse(struct slice text, struct destination *out, struct fault *why)
{
    struct fault bad = {0};
    bool suffix;
    struct slice host = {0};
    char *name;

    *out = (struct destination){.plain = slice_starts_nocase(text, SLICE("http://"))};
    if (out->plain)
        text = slice_from(text, 7);
    else if (slice_starts_nocase(text, SLICE("https://")))
        text = slice_from(text, 8);
    suffix = slice_starts(text, SLICE("*."));
    text = slice_from(text, suffix ? 2 : 0);
    if (slice_find(text, '/') >= 0 || slice_find(text, '*') >= 0)
        return fault_set(why, FAULT_SYNTAX, "expected a host, with http:// in front or :PORT behind it if need be");
    if (!name_split_authority(text, 0, &host, &out->port, &bad))
        return fault_set(why, FAULT_SYNTAX, "%s", bad.text);
    memcpy(out->host, "*.", 2);
    name = out->host + (suffix ? 2 : 0);
    if (!name_canonical(host, name, &bad))
        return fault_set(why, FAULT_SYNTAX, "%s", bad.text);
    if (suffix && !strchr(name, '.'))
        return fault_set(why, FAULT_SYNTAX, "%s is too wide: a suffix has at least two labels", out->host);
    return true;
}

bool destination_holds(const struct destination *d, bool is_tls, struct slice host, uint16_t port, bool was_plain)
{
    if (is_tls ? d->plain : !d->plain && !was_plain)
        return false;
    if (port != (d->port ? d->port : is_tls ? 443 : 80))
        return false;
    return name_matches(slice_of(d->host), host);
}
