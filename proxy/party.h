/*
 * A party: who limits are held against. A sandbox (sub and iss of its token), or, until a good token is shown, a source: an
 * IPv4 address, the /64 of an IPv6 one (a host has all of it), or a listener that serves one sandbox. Sessions and
 * exchanges hold references; a party nobody holds is kept while what it did still counts, so that coming back makes
 * nobody new.
 */
#ifndef PROXY_PARTY_H
#define PROXY_PARTY_H

#include <sys/queue.h>

#include "authz/identity.h"
#include "base/secret.h"
#include "net/lane.h"
#include "net/addr.h"
#include "proxy/sums.h"
#include "proxy/tally.h"

struct parties;
struct session;

struct party {
    enum tally_kind kind;
    char name[80];  /* the sandbox (cut), or the source as text */
    struct tally_seat *seat;
    struct lane lane; /* its share of the worker's time */
    struct sums sums;
    unsigned handshakes; /* since a ticket of TLS was shown */
    struct secret *token; /* of a sandbox, while it is held: shown last */
    TAILQ_HEAD(stranger_list, session) strangers; /* of a source: sessions without a good token, oldest first */
    /* the list's own */
    TAILQ_ENTRY(party) link;
    size_t refs;
    struct slice key;
};

/*
 * All are kept. At most PARTIES_MAX unheld ones are remembered; the one unheld for longest goes first. tell gets every sum
 * that is due, and those of a party before it goes.
 */
typedef void parties_tell(void *arg, const struct party *p, const struct sum *s);
struct parties *parties_new(struct tally *t, struct lanes *lanes, parties_tell *tell, void *arg);
enum { PARTIES_MAX = 8192 };

/* A reference to be given back by party_unref. */
struct party *parties_sandbox(struct parties *ps, const struct identity *i);
struct party *parties_source(struct parties *ps, const struct addr *source, const char *listener);
struct party *party_ref(struct party *p);
/* The token, to be given back by secret_free(): one copy for all that come one after another and show the same. */
struct secret *party_token(struct party *p, struct slice token);
/*
 * Before each handshake: is a ticket worth what it costs? To who makes use of tickets, and now and then to who has not done so
 * lately: most programs that run in sandboxes never resume a session.
 */
bool party_wants_ticket(struct party *p);
/* It has shown one. */
void party_uses_tickets(struct party *p);
void party_unref(struct parties *ps, struct party *p); /* NULL is fine */

/* Each second: sums that are due (all: that there are) are told, and who did nothing lately is forgotten. */
void parties_tick(struct parties *ps, int64_t now_ms, bool all);
size_t parties_count(const struct parties *ps);

#endif
