/*
 * A quest: one look-up at the name servers for all questions of one client that want the same name at the same time. So a client's A and AAAA
 * are one, and a resolver that leads back to the gateway by way of others goes round once: what comes back waits for itself, until its time is over.
 */
#ifndef PROXY_QUEST_H
#define PROXY_QUEST_H

#include <sys/queue.h>

#include "net/resolve.h"

struct quest;

/* One that waits; part of what its owner has, who fills in the first two. */
struct quest_member {
    resolve_done *done; /* as in net/resolve.h; once it is called, the member is in no quest */
    void *arg;
    struct quest *quest; /* NULL: in none */
    TAILQ_ENTRY(quest_member) link;
};

/* Those under way at one resolver. */
struct quests {
    TAILQ_HEAD(, quest) list;
};

void quests_init(struct quests *q);
/*
 * Join the quest of this client for host (canonical), or begin one. Borrows both texts. Never calls done before it returns. False and why as
 * resolve_start().
 */
bool quest_join(struct quests *q, struct resolver *r, struct slice client, const char *host, struct quest_member *m, struct fault *why);
/* done will not be called. One that is in none is fine. */
void quest_leave(struct quest_member *m);

#endif
