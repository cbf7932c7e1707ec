/* Owns nothing. Every length is libldns's to check; what it leaves to its caller (counts, ends) is checked here. */
#include "net/dns_question.h"

#include <ldns/ldns.h>
#include <stdlib.h>
#include <string.h>

enum { EXTRAS_MAX = 8, PLAIN_MOST = 512 };

static enum dns_reading malformed(struct fault *why, const char *what)
{
    fault_reason(why, REASON_QUESTION_MALFORMED, "%s", what);
    return DNS_MALFORMED;
}

static void read_header(const uint8_t *wire, struct dns_question *out)
{
    out->id = LDNS_ID_WIRE(wire);
    out->opcode = LDNS_OPCODE_WIRE(wire);
    out->recursion = LDNS_RD_WIRE(wire);
    out->checking_off = LDNS_CD_WIRE(wire);
    out->most = PLAIN_MOST;
}

/* A name that libldns put together from elsewhere is not the one that stands here. */
static bool read_name(const uint8_t *wire, size_t len, size_t *at, struct dns_question *out)
{
    size_t from = *at;
    ldns_rdf *name = NULL;
    bool ok = ldns_wire2dname(&name, wire, len, at) == LDNS_STATUS_OK && ldns_rdf_size(name) == *at - from &&
              ldns_rdf_size(name) <= sizeof out->name && memcmp(ldns_rdf_data(name), wire + from, *at - from) == 0;

    if (ok) {
        out->name_len = *at - from;
        memcpy(out->name, wire + from, out->name_len);
    }
    ldns_rdf_deep_free(name);
    return ok;
}

static bool read_question(const uint8_t *wire, size_t len, size_t *at, struct dns_question *out)
{
    if (!read_name(wire, len, at, out) || len - *at < 4)
        return false;
    out->type = ldns_read_uint16(wire + *at);
    out->class = ldns_read_uint16(wire + *at + 2);
    *at += 4;
    out->named = true;
    return true;
}

/* RFC 6891 6.1.2: class and TTL of an OPT are other things. */
static bool read_opt(const ldns_rr *rr, struct dns_question *out)
{
    uint32_t flags = ldns_rr_ttl(rr);

    if (out->edns || ldns_rdf_size(ldns_rr_owner(rr)) != 1)
        return false;
    out->edns = true;
    out->edns_version = flags >> 16 & 0xff;
    out->dnssec_ok = flags >> 15 & 1;
    out->most = (size_t)ldns_rr_get_class(rr);
    if (out->most < PLAIN_MOST)
        out->most = PLAIN_MOST;
    return true;
}

/* What stands behind the question: an OPT; other records are let be (a signature is nothing to us). */
static bool read_extras(const uint8_t *wire, size_t len, size_t *at, struct dns_question *out)
{
    for (unsigned n = LDNS_ARCOUNT(wire); n > 0; n--) {
        ldns_rr *rr = NULL;
        bool ok = ldns_wire2rr(&rr, wire, len, at, LDNS_SECTION_ADDITIONAL) == LDNS_STATUS_OK;

        if (ok && ldns_rr_get_type(rr) == LDNS_RR_TYPE_OPT)
            ok = read_opt(rr, out);
        ldns_rr_free(rr);
        if (!ok)
            return false;
    }
    return true;
}

enum dns_reading dns_question_read(struct slice message, struct dns_question *out, struct fault *why)
{
    const uint8_t *wire = (const uint8_t *)message.ptr;
    size_t at = DNS_HEADER;

    *out = (struct dns_question){0};
    if (message.len < DNS_HEADER || LDNS_QR_WIRE(wire))
        return DNS_DROPPED;
    read_header(wire, out);
    if (out->opcode != LDNS_PACKET_QUERY) {
        fault_reason(why, REASON_QUESTION_NOT_SUPPORTED, "opcode %u", out->opcode);
        return DNS_UNKNOWN;
    }
    if (LDNS_QDCOUNT(wire) != 1)
        return malformed(why, "another number of questions than one");
    if (!read_question(wire, message.len, &at, out))
        return malformed(why, "the name in the question is none");
    if (LDNS_ANCOUNT(wire) || (LDNS_NSCOUNT(wire) && out->type != DNS_IXFR) || LDNS_ARCOUNT(wire) > EXTRAS_MAX)
        return malformed(why, "records that no question has");
    if (LDNS_NSCOUNT(wire))
        return DNS_READ; /* IXFR, which is refused as it is */
    if (!read_extras(wire, message.len, &at, out))
        return malformed(why, "the records behind the question are damaged");
    if (at != message.len)
        return malformed(why, "bytes behind the end of the message");
    if (out->edns_version != 0) {
        fault_reason(why, REASON_QUESTION_NOT_SUPPORTED, "EDNS version %u", out->edns_version);
        return DNS_VERSION;
    }
    return DNS_READ;
}

/* ---- names ---- */

bool dns_question_label(const struct dns_question *q, size_t *at, struct slice *label)
{
    size_t len;

    if (*at >= q->name_len || (len = q->name[*at]) == 0)
        return false;
    *label = slice_make(q->name + *at + 1, len);
    *at += 1 + len;
    return true;
}

static void put_label(struct buf *out, struct slice label)
{
    for (size_t i = 0; i < label.len; i++) {
        unsigned char c = (unsigned char)label.ptr[i];

        if (c <= ' ' || c >= 0x7f)
            buf_printf(out, "\\%03u", c);
        else if (c == '.' || c == '\\')
            buf_printf(out, "\\%c", c);
        else
            buf_char(out, (char)c);
    }
}

void dns_question_text(struct buf *out, const struct dns_question *q)
{
    struct slice label;
    size_t at = 0;

    while (dns_question_label(q, &at, &label)) {
        if (label.ptr != (const char *)q->name + 1)
            buf_char(out, '.');
        put_label(out, label);
    }
    if (at == 0)
        buf_char(out, '.');
}

static bool is_plain(struct slice label)
{
    for (size_t i = 0; i < label.len; i++) {
        char c = label.ptr[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-'))
            return false;
    }
    return true;
}

bool dns_question_host(const struct dns_question *q, char out[NAME_MAX_LEN + 1], struct fault *why)
{
    struct slice label;
    size_t at = 0, n = 0;
    char name[DNS_NAME_MAX];

    while (dns_question_label(q, &at, &label)) {
        if (!is_plain(label))
            return fault_reason(why, REASON_HOST_INVALID, "a label that is not letters, digits and hyphens alone");
        if (n)
            name[n++] = '.';
        memcpy(name + n, label.ptr, label.len);
        n += label.len;
    }
    return name_canonical(slice_make(name, n), out, why);
}

struct dns_question dns_question_make(const char *host, uint16_t type)
{
    struct dns_question q = {.named = true, .recursion = true, .edns = true, .type = type, .class = DNS_IN, .most = PLAIN_MOST};
    struct slice rest = slice_of(host), label;

    while (slice_next(&rest, '.', &label) && q.name_len + label.len + 2 < sizeof q.name) {
        q.name[q.name_len++] = (unsigned char)label.len;
        memcpy(q.name + q.name_len, label.ptr, label.len);
        q.name_len += label.len;
    }
    q.name_len++;
    return q;
}

/* ---- types ---- */

void dns_type_text(struct buf *out, uint16_t type)
{
    char *text = ldns_rr_type2str((ldns_rr_type)type);

    buf_text(out, text ? text : "?");
    free(text);
}

bool dns_type_find(const char *name, uint16_t *type)
{
    ldns_rr_type found = ldns_get_rr_type_by_name(name);

    *type = (uint16_t)found;
    return found != 0;
}
