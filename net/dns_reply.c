#include "net/dns_reply.h"

#include <ldns/ldns.h>
#include <string.h>

enum { OPTION_EDE = 15, OPT = 41, ROOM = 1232 };

static void put_u16(struct buf *out, unsigned n)
{
    buf_char(out, (char)(n >> 8));
    buf_char(out, (char)(n & 0xff));
}

void dns_ask_write(struct buf *out, const struct dns_question *q, uint16_t id)
{
    put_u16(out, id);
    put_u16(out, 0x0100); /* RD */
    put_u16(out, 1);
    put_u16(out, 0);
    put_u16(out, 0);
    put_u16(out, 1);
    buf_append(out, slice_make(q->name, q->name_len));
    put_u16(out, q->type);
    put_u16(out, DNS_IN);
    buf_char(out, 0); /* the root, whose OPT it is */
    put_u16(out, OPT);
    put_u16(out, ROOM);
    put_u16(out, 0);
    put_u16(out, 0);
    put_u16(out, 0);
}

static void take_address(const ldns_rr *rr, struct dns_reply *out)
{
    bool v6 = ldns_rr_get_type(rr) == LDNS_RR_TYPE_AAAA;
    const ldns_rdf *data = ldns_rr_rd_count(rr) == 1 ? ldns_rr_rdf(rr, 0) : NULL;
    struct addr *a = &out->list[out->n];

    if ((!v6 && ldns_rr_get_type(rr) != LDNS_RR_TYPE_A) || !data || ldns_rdf_size(data) != (v6 ? 16 : 4) || out->n == DNS_ADDRESSES_MAX)
        return;
    *a = (struct addr){.family = v6 ? AF_INET6 : AF_INET};
    memcpy(a->ip, ldns_rdf_data(data), ldns_rdf_size(data));
    out->n++;
}

/* The options one after another, each with its number and length in front (RFC 6891 6.1.2). */
static void take_options(struct slice options, struct dns_reply *out)
{
    while (options.len >= 4) {
        const uint8_t *at = (const uint8_t *)options.ptr;
        unsigned number = ldns_read_uint16(at);
        size_t len = ldns_read_uint16(at + 2), n = 0;
        struct slice value = slice_cut(options, 4, 4 + len);

        if (value.len < len)
            return;
        options = slice_from(options, 4 + len);
        if (number != OPTION_EDE || value.len < 2 || out->explained)
            continue;
        out->explained = true;
        out->error = ldns_read_uint16(at + 4);
        for (size_t i = 2; i < value.len && n < sizeof out->text - 1; i++)
            out->text[n++] = value.ptr[i] >= ' ' && value.ptr[i] < 0x7f ? value.ptr[i] : '?';
    }
}

bool dns_reply_read(struct slice message, uint16_t id, struct dns_reply *out)
{
    ldns_pkt *p = NULL;
    const ldns_rdf *options;
    bool ok;

    *out = (struct dns_reply){0};
    if (message.len < DNS_HEADER || ldns_wire2pkt(&p, (const uint8_t *)message.ptr, message.len) != LDNS_STATUS_OK)
        return false;
    if ((ok = ldns_pkt_qr(p) && ldns_pkt_id(p) == id)) {
        out->code = (unsigned)ldns_pkt_edns_extended_rcode(p) << 4 | ldns_pkt_get_rcode(p);
        for (size_t i = 0; i < ldns_rr_list_rr_count(ldns_pkt_answer(p)); i++)
            take_address(ldns_rr_list_rr(ldns_pkt_answer(p), i), out);
        if ((options = ldns_pkt_edns_data(p)))
            take_options(slice_make(ldns_rdf_data(options), ldns_rdf_size(options)), out);
    }
    ldns_pkt_free(p);
    return ok;
}
