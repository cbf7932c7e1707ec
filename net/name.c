/* Spells host names in the one way that everything else compares. Owns nothing and looks nothing up. */
#include "net/name.h"

#include <idn2.h>
#include <string.h>

enum { LABEL_MAX = 63, UNICODE_MAX = 4 * NAME_MAX_LEN };

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Letters, digits and hyphens, already in lower case. */
static bool is_ldh(char c)
{
    return (c >= 'a' && c <= 'z') || is_digit(c) || c == '-';
}

static bool is_high(char c)
{
    return (unsigned char)c >= 0x80;
}

static bool refuse_byte(char c, struct fault *why)
{
    if (c > 0x20 && c < 0x7f)
        return fault_reason(why, REASON_HOST_INVALID, "the host has a '%c'; names are letters, digits and hyphens", c);
    return fault_reason(why, REASON_HOST_INVALID, "the host has the byte 0x%02x; names are letters, digits and hyphens",
                        (unsigned char)c);
}

/* What holds for every label, in Unicode or not. */
static bool check_label(struct slice label, struct fault *why)
{
    if (label.len == 0)
        return fault_reason(why, REASON_HOST_INVALID, "the host has an empty label");
    if (label.ptr[0] == '-' || label.ptr[label.len - 1] == '-')
        return fault_reason(why, REASON_HOST_INVALID, "a label of the host starts or ends with a hyphen");
    return true;
}

static bool is_number(struct slice label)
{
    bool hex = label.len >= 2 && label.ptr[0] == '0' && label.ptr[1] == 'x';

    for (size_t i = hex ? 2 : 0; i < label.len; i++)
        if (!is_digit(label.ptr[i]) && !(hex && label.ptr[i] >= 'a' && label.ptr[i] <= 'f'))
            return false;
    return true;
}

/* A name of ASCII letters into out; its last label decides whether some reader would take it for an IPv4 address. */
static bool fold(struct slice host, char out[NAME_MAX_LEN + 1], struct fault *why)
{
    size_t start = 0;

    if (host.len > NAME_MAX_LEN)
        return fault_reason(why, REASON_HOST_INVALID, "the host is longer than %d bytes", NAME_MAX_LEN);
    for (size_t i = 0; i < host.len; i++) {
        out[i] = lower(host.ptr[i]);
        if (is_ldh(out[i]))
            continue;
        if (out[i] != '.')
            return refuse_byte(out[i], why);
        if (!check_label(slice_make(out + start, i - start), why))
            return false;
        if (i - start > LABEL_MAX)
            return fault_reason(why, REASON_HOST_INVALID, "a label of the host is longer than %d bytes", LABEL_MAX);
        start = i + 1;
    }
    out[host.len] = '\0';
    struct slice last = slice_make(out + start, host.len - start);

    if (!check_label(last, why))
        return false;
    if (last.len > LABEL_MAX)
        return fault_reason(why, REASON_HOST_INVALID, "a label of the host is longer than %d bytes", LABEL_MAX);
    if (is_number(last))
        return fault_reason(why, REASON_HOST_INVALID, "the host reads as an IP address; services are listed by name");
    return true;
}

/* Unicode, or a label that claims to be the A-label of something: libidn2 must look. */
static bool needs_idna(struct slice host)
{
    for (size_t i = 0; i < host.len; i++) {
        if (is_high(host.ptr[i]))
            return true;
        if ((i == 0 || host.ptr[i - 1] == '.') && slice_starts_nocase(slice_from(host, i), SLICE("xn--")))
            return true;
    }
    return false;
}

/* ASCII letters in lower case, label edges checked; what is Unicode stays as it is. */
static bool prepare(struct slice host, char out[UNICODE_MAX + 1], struct fault *why)
{
    struct slice rest, label;

    if (host.len > UNICODE_MAX)
        return fault_reason(why, REASON_HOST_INVALID, "the host is longer than %d bytes", NAME_MAX_LEN);
    for (size_t i = 0; i < host.len; i++) {
        out[i] = lower(host.ptr[i]);
        if (!is_ldh(out[i]) && out[i] != '.' && !is_high(out[i]))
            return refuse_byte(out[i], why);
    }
    out[host.len] = '\0';
    rest = slice_make(out, host.len);
    while (slice_next(&rest, '.', &label))
        if (!check_label(label, why))
            return false;
    return true;
}

/*
 * Without the mapping of UTS 46: a name that is not already IDNA 2008 (capital or full-width letters, ideographic
 * full stops, decomposed accents) is refused and not turned into what it resembles. A-labels must survive the
 * round trip.
 */
static bool to_ascii(struct slice host, char out[NAME_MAX_LEN + 1], struct fault *why)
{
    char text[UNICODE_MAX + 1];
    uint8_t *ascii = NULL;
    bool ok = false;
    int rc;

    if (!prepare(host, text, why))
        return false;
    rc = idn2_lookup_u8((const uint8_t *)text, &ascii, IDN2_NO_TR46 | IDN2_ALABEL_ROUNDTRIP);
    if (rc == IDN2_OK)
        ok = fold(slice_of((const char *)ascii), out, why);
    else
        fault_reason(why, REASON_HOST_INVALID, "the host is not an internationalised name: %s", idn2_strerror(rc));
    idn2_free(ascii);
    return ok;
}

bool name_canonical(struct slice host, char out[NAME_MAX_LEN + 1], struct fault *why)
{
    if (host.len && host.ptr[host.len - 1] == '.')
        host.len--;
    if (host.len == 0)
        return fault_reason(why, REASON_HOST_INVALID, "the host is empty");
    return needs_idna(host) ? to_ascii(host, out, why) : fold(host, out, why);
}

static bool read_port(struct slice text, uint16_t *port, struct fault *why)
{
    uint64_t n;

    if (!slice_decimal(text, UINT16_MAX, &n) || text.ptr[0] == '0')
        return fault_reason(why, REASON_REQUEST_MALFORMED, "the port is not a number from 1 to 65535");
    *port = (uint16_t)n;
    return true;
}

/* Where the host ends: behind the bracket of a literal, else at the first colon. -1: the bracket is not closed. */
static ptrdiff_t host_end(struct slice authority)
{
    ptrdiff_t at;

    if (authority.len && authority.ptr[0] == '[') {
        at = slice_find(authority, ']');
        return at < 0 ? -1 : at + 1;
    }
    at = slice_find(authority, ':');
    return at < 0 ? (ptrdiff_t)authority.len : at;
}

bool name_split_authority(struct slice authority, uint16_t fallback, struct slice *host, uint16_t *port,
                          struct fault *why)
{
    ptrdiff_t end = host_end(authority);
    struct slice rest;

    if (slice_find(authority, '@') >= 0)
        return fault_reason(why, REASON_REQUEST_MALFORMED, "the authority carries user information");
    if (end < 0)
        return fault_reason(why, REASON_HOST_INVALID, "the host has a bracket that is not closed");
    *host = slice_cut(authority, 0, (size_t)end);
    rest = slice_from(authority, (size_t)end);
    if (host->len == 0)
        return fault_reason(why, REASON_HOST_INVALID, "the host is empty");
    if (rest.len == 0) {
        *port = fallback;
        return true;
    }
    if (rest.ptr[0] != ':')
        return fault_reason(why, REASON_HOST_INVALID, "something stands between host and port");
    return read_port(slice_from(rest, 1), port, why);
}

bool name_matches(struct slice pattern, struct slice name)
{
    if (!slice_starts(pattern, SLICE("*.")))
        return slice_equals(pattern, name);
    pattern = slice_from(pattern, 1);
    return name.len > pattern.len && name.ptr[0] != '.' && slice_ends(name, pattern);
}
