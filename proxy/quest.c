#include "proxy/quest.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

struct quest {
    struct quests *all;
    char *client, *host;
    struct resolve *resolve;
    TAILQ_HEAD(, quest_member) members;
    TAILQ_ENTRY(quest) link;
};

void quests_init(struct quests *q)
{
    TAILQ_INIT(&q->list);
}

static void quest_free(struct quest *q)
{
    TAILQ_REMOVE(&q->all->list, q, link);
    free(q->client);
    free(q->host);
    free(q);
}

static void leave(struct quest_member *m)
{
    TAILQ_REMOVE(&m->quest->members, m, link);
    m->quest = NULL;
}

/* Whoever is told may do anything: begin another for the same name, or have others leave this one. */
static void on_resolved(void *arg, const struct resolution *r)
{
    struct quest *q = arg;
    struct quest_member *m;

    q->resolve = NULL;
    while ((m = TAILQ_FIRST(&q->members))) {
        leave(m);
        m->done(m->arg, r);
    }
    quest_free(q);
}

static struct quest *find(struct quests *all, struct slice client, const char *host)
{
    struct quest *q;

    TAILQ_FOREACH(q, &all->list, link)
        if (q->resolve && strcmp(q->host, host) == 0 && slice_is(client, q->client))
            return q;
    return NULL;
}

static struct quest *begin(struct quests *all, struct resolver *r, struct slice client, const char *host, struct fault *why)
{
    struct quest *q = calloc(1, sizeof *q);

    if (!q)
        abort();
    q->all = all;
    q->client = text_copy(client);
    q->host = text_copy(slice_of(host));
    TAILQ_INIT(&q->members);
    TAILQ_INSERT_TAIL(&all->list, q, link);
    if ((q->resolve = resolve_start(r, host, on_resolved, q, why)))
        return q;
    quest_free(q);
    return NULL;
}

bool quest_join(struct quests *all, struct resolver *r, struct slice client, const char *host, struct quest_member *m, struct fault *why)
{
    struct quest *q = find(all, client, host);

    assert(!m->quest);
    if (!q && !(q = begin(all, r, client, host, why)))
        return false;
    m->quest = q;
    TAILQ_INSERT_TAIL(&q->members, m, link);
    return true;
}

void quest_leave(struct quest_member *m)
{
    struct quest *q = m->quest;

    if (!q)
        return;
    leave(m);
    if (!q->resolve || TAILQ_FIRST(&q->members))
        return; /* on_resolved() frees it, or others wait */
    resolve_cancel(q->resolve);
    quest_free(q);
}
