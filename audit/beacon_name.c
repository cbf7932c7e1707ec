/* Owns the answers about names of the audit's zone. Must not know who asks. */
#include "audit/beacon_name.h"

#include <string.h>

bool beacon_name_read(struct slice query, const char *zone, struct dns_question *q, char host[NAME_MAX_LEN + 1])
{
    struct fault why = {0};
    struct slice name, end = slice_of(zone);

    if (dns_question_read(query, q, &why) != DNS_READ || !q->named || !dns_question_host(q, host, &why))
        return false;
    name = slice_of(host);
    return name.len > end.len && slice_ends(name, end) && name.ptr[name.len - end.len - 1] == '.';
}

void beacon_name_write(const struct dns_question *q, const struct addr *a, struct buf *out)
{
    bool has = a && q->type == DNS_A && a->family == AF_INET;

    dns_answer_write(out, q, &(struct dns_answer){.code = DNS_NOERROR, .addresses = a, .n_addresses = has, .nothing = !has}, dns_answer_room(q));
}

bool beacon_name_pick(const char *pair, size_t asked, struct addr *out)
{
    struct slice rest = slice_of(pair), first = {"", 0};

    slice_next(&rest, ' ', &first);
    return addr_parse_ip(asked == 0 || rest.len == 0 ? first : rest, out);
}
