#include <stdio.h>
#include <stdlib.h>

#include "base/reason.h"
#include "cmd/asking.h"
#include "cmd/doctor.h"
#include "cmd/name_server.h"
#include "net/name.h"

#define NOBODY "doctor.exeat.invalid" /* RFC 6761: never anybody's, and no configuration lists it */
#define CHECK "resolver"

/* "exeat host_not_listed 7f3a9c", as our DNS listener says it: the reason; false: it is not one of ours. */
static bool read_reason(const struct dns_reply *r, enum reason *reason)
{
    struct slice words = slice_of(r->text), word;

    return slice_next(&words, ' ', &word) && slice_is(word, "exeat") && slice_next(&words, ' ', &word) && reason_find(word, reason);
}

static void judge(const char *server, const char *host, const struct dns_reply *r, struct findings *f)
{
    struct buf address = {0};
    enum reason reason;

    if (r->n) {
        addr_ip_text(&address, &r->list[0]);
        findings_add(f, CHECK, FINDING_OK, NULL, "%s is a DNS listener of the gateway's, and leads %s to %.*s", server, host, SLICE_ARG(buf_slice(&address)));
    } else if (read_reason(r, &reason)) {
        findings_add(f, CHECK, FINDING_WRONG, reason_get(reason)->text, "%s, a DNS listener of the gateway's, says %s of %s", server, reason_code(reason), host);
    } else {
        findings_add(f, CHECK, FINDING_WRONG, "is there an address of the family that this machine uses in its answer (dns.NAME)?",
                     "%s, a DNS listener of the gateway's, has no address for %s", server, host);
    }
    buf_free(&address);
}

/* Known by how it refuses what nobody lists; then it is asked for the host. */
static void ask(const struct addr *at, const char *server, const char *host, struct findings *f)
{
    struct dns_reply r;
    struct fault why = {0};
    enum reason reason;

    if (!name_server_ask(at, NOBODY, DNS_A, &r, &why)) {
        findings_add(f, CHECK, FINDING_UNKNOWN, "is it there, and may this machine ask it (exeat firewall check)?", "%s: %s", server, why.text);
        return;
    }
    if (!read_reason(&r, &reason)) {
        findings_add(f, CHECK, FINDING_UNKNOWN, "name a DNS listener of the gateway's in /etc/resolv.conf where names are to lead there; steered by "
                     "REDIRECT or TPROXY any will do", "%s is no DNS listener of a gateway's", server);
        return;
    }
    if (!name_server_ask(at, host, DNS_A, &r, &why) || (r.n == 0 && !r.explained && !name_server_ask(at, host, DNS_AAAA, &r, &why)))
        findings_add(f, CHECK, FINDING_WRONG, "is it under a flood? exeat why --refused there", "%s, a DNS listener of the gateway's: %s", server, why.text);
    else
        judge(server, host, &r, f);
}

void doctor_check_names(const char *place, struct findings *f)
{
    struct addr servers[NAME_SERVERS_MAX];
    size_t n = name_servers_read("/etc/resolv.conf", servers);
    char host[NAME_MAX_LEN + 1];

    if (asking_is_numeric(place) || !name_canonical(slice_of(place), host, NULL))
        return;
    if (n == 0)
        findings_add(f, CHECK, FINDING_UNKNOWN, "where names are to lead to the gateway, name its DNS listener there: nameserver 10.0.0.1", "/etc/resolv.conf names no server");
    for (size_t i = 0; i < n; i++) {
        struct buf text = {0};
        char *server;

        addr_ip_text(&text, &servers[i]);
        server = buf_take_text(&text);
        ask(&servers[i], server, host, f);
        free(server);
    }
}
