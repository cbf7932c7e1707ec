/* The name servers that this machine asks (resolv.conf(5)), and one question to one of them, as its programs put it. */
#ifndef CMD_NAME_SERVER_H
#define CMD_NAME_SERVER_H

#include "net/dns_reply.h"

enum { NAME_SERVERS_MAX = 3 }; /* what libc reads of them */

/* Those that path names, in its order, into out, which has room for NAME_SERVERS_MAX; how many. Those with a scope ("%eth0") are left out. */
size_t name_servers_read(const char *path, struct addr *out);
/* By UDP, twice; blocks two seconds at most. False and why: there was no answer, or that address cannot be asked. */
bool name_server_ask(const struct addr *server, const char *host, uint16_t type, struct dns_reply *out, struct fault *why);

#endif
