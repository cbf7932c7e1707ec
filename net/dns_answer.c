/* Owns nothing. A failure of libldns here is want of memory: the role may abort (base/buf.h). */
#include "net/dns_answer.h"

#include <ldns/ldns.h>
#include <stdlib.h>
#include <string.h>

static void *must(void *p)
{
    if (!p)
        abort();
    return p;
}

const char *dns_code_name(enum dns_code c)
{
    switch (c) {
    case DNS_NOERROR:
        return "NOERROR";
    case DNS_FORMERR:
        return "FORMERR";
    case DNS_SERVFAIL:
        return "SERVFAIL";
    case DNS_NXDOMAIN:
        return "NXDOMAIN";
    case DNS_NOTIMP:
        return "NOTIMP";
    case DNS_REFUSED:
        return "REFUSED";
    case DNS_BADVERS:
        return "BADVERS";
    }
    abort();
}

size_t dns_answer_room(const struct dns_question *q)
{
    return q->most < DNS_UDP_MOST ? q->most : DNS_UDP_MOST;
}

static ldns_rdf *owner(const struct dns_question *q)
{
    return must(ldns_dname_new_frm_data((uint16_t)q->name_len, q->name));
}

static ldns_rr *record(const struct dns_question *q, ldns_rr_type type, uint32_t ttl)
{
    ldns_rr *rr = must(ldns_rr_new());

    ldns_rr_set_owner(rr, owner(q));
    ldns_rr_set_type(rr, type);
    ldns_rr_set_class(rr, LDNS_RR_CLASS_IN);
    ldns_rr_set_ttl(rr, ttl);
    return rr;
}

static void push(ldns_rr *rr, ldns_rdf *value)
{
    ldns_rr_push_rdf(rr, must(value));
}

static void add_question(ldns_pkt *p, const struct dns_question *q)
{
    ldns_rr *rr = must(ldns_rr_new());

    ldns_rr_set_question(rr, true);
    ldns_rr_set_owner(rr, owner(q));
    ldns_rr_set_type(rr, (ldns_rr_type)q->type);
    ldns_rr_set_class(rr, (ldns_rr_class)q->class);
    ldns_pkt_push_rr(p, LDNS_SECTION_QUESTION, rr);
}

static void add_address(ldns_pkt *p, const struct dns_question *q, const struct addr *a, uint32_t ttl)
{
    bool old = a->family == AF_INET;
    ldns_rr *rr = record(q, old ? LDNS_RR_TYPE_A : LDNS_RR_TYPE_AAAA, ttl);

    push(rr, ldns_rdf_new_frm_data(old ? LDNS_RDF_TYPE_A : LDNS_RDF_TYPE_AAAA, old ? 4 : 16, a->ip));
    ldns_pkt_push_rr(p, LDNS_SECTION_ANSWER, rr);
}

/* A zone of its own, as far as caches are told. */
static void add_soa(ldns_pkt *p, const struct dns_question *q, uint32_t ttl)
{
    const uint32_t numbers[] = {1, 3600, 1200, 604800, ttl};
    ldns_rr *rr = record(q, LDNS_RR_TYPE_SOA, ttl);

    push(rr, ldns_dname_new_frm_str("localhost."));
    push(rr, ldns_dname_new_frm_str("nobody.invalid."));
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        push(rr, ldns_native2rdf_int32(i ? LDNS_RDF_TYPE_PERIOD : LDNS_RDF_TYPE_INT32, numbers[i]));
    ldns_pkt_push_rr(p, LDNS_SECTION_AUTHORITY, rr);
}

static void add_hinfo(ldns_pkt *p, const struct dns_question *q, uint32_t ttl)
{
    static const unsigned char cpu[] = "\7RFC8482", os[] = "";
    ldns_rr *rr = record(q, LDNS_RR_TYPE_HINFO, ttl);

    push(rr, ldns_rdf_new_frm_data(LDNS_RDF_TYPE_STR, sizeof cpu - 1, cpu));
    push(rr, ldns_rdf_new_frm_data(LDNS_RDF_TYPE_STR, 1, os));
    ldns_pkt_push_rr(p, LDNS_SECTION_ANSWER, rr);
}

static void add_error(ldns_pkt *p, const struct dns_answer *a)
{
    ldns_edns_option_list *options = must(ldns_edns_option_list_new());
    struct buf data = {0};

    buf_char(&data, (char)(a->error >> 8));
    buf_char(&data, (char)a->error);
    buf_text(&data, a->text ? a->text : "");
    ldns_edns_option_list_push(options, must(ldns_edns_new_from_data(LDNS_EDNS_EDE, buf_len(&data), buf_slice(&data).ptr)));
    ldns_pkt_set_edns_option_list(p, options);
    buf_free(&data);
}

static void add_edns(ldns_pkt *p, const struct dns_question *q, const struct dns_answer *a)
{
    ldns_pkt_set_edns_udp_size(p, DNS_UDP_MOST);
    ldns_pkt_set_edns_extended_rcode(p, (uint8_t)(a->code >> 4));
    ldns_pkt_set_edns_do(p, q->dnssec_ok);
    if (a->explained)
        add_error(p, a);
}

static ldns_pkt *compose(const struct dns_question *q, const struct dns_answer *a, bool truncated)
{
    ldns_pkt *p = must(ldns_pkt_new());

    ldns_pkt_set_id(p, q->id);
    ldns_pkt_set_qr(p, true);
    ldns_pkt_set_opcode(p, (ldns_pkt_opcode)q->opcode);
    ldns_pkt_set_rd(p, q->recursion);
    ldns_pkt_set_cd(p, q->checking_off);
    ldns_pkt_set_ra(p, true);
    ldns_pkt_set_tc(p, truncated);
    ldns_pkt_set_rcode(p, (ldns_pkt_rcode)(a->code & 15));
    if (q->named)
        add_question(p, q);
    for (size_t i = 0; !truncated && i < a->n_addresses; i++)
        add_address(p, q, &a->addresses[i], a->ttl_s);
    if (a->any && !truncated)
        add_hinfo(p, q, a->ttl_s);
    if (a->nothing && !truncated)
        add_soa(p, q, a->ttl_s);
    if (q->edns)
        add_edns(p, q, a);
    return p;
}

/* False: it does not fit. */
static bool append(struct buf *out, ldns_pkt *p, size_t most)
{
    uint8_t *wire = NULL;
    size_t len = 0;
    bool fits;

    if (ldns_pkt2wire(&wire, p, &len) != LDNS_STATUS_OK)
        abort();
    ldns_pkt_free(p);
    fits = len <= most;
    if (fits)
        buf_append(out, slice_make(wire, len));
    free(wire);
    return fits;
}

void dns_answer_write(struct buf *out, const struct dns_question *q, const struct dns_answer *a, size_t most)
{
    struct dns_answer bare = {.code = a->code};

    if (append(out, compose(q, a, a->truncated), most) || append(out, compose(q, a, true), most))
        return;
    append(out, compose(q, &bare, true), most);
}
