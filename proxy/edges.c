#include "proxy/edges.h"

#include <stdlib.h>
#include <sys/queue.h>

#include "base/buf.h"
#include "base/table.h"
#include "base/text.h"

struct entry {
    TAILQ_ENTRY(entry) link;
    struct sight sight; /* its texts are this entry's; count: since it was told last */
    char *key, *service, *host, *listed;
    size_t key_len;
    int64_t due_ms;
};

struct edges {
    struct table *table;
    TAILQ_HEAD(entries, entry) entries; /* the one that is due next first: all wait alike long */
    struct buf key;
    struct sight told;
};

struct edges *edges_new(void)
{
    struct edges *e = calloc(1, sizeof *e);

    if (!e)
        abort();
    e->table = table_new();
    TAILQ_INIT(&e->entries);
    return e;
}

static void entry_free(struct edges *e, struct entry *at)
{
    table_remove(e->table, slice_make(at->key, at->key_len));
    TAILQ_REMOVE(&e->entries, at, link);
    free(at->key);
    free(at->service);
    free(at->host);
    free(at->listed);
    free(at);
}

void edges_free(struct edges *e)
{
    if (!e)
        return;
    while (!TAILQ_EMPTY(&e->entries))
        entry_free(e, TAILQ_FIRST(&e->entries));
    table_free(e->table);
    buf_free(&e->key);
    free(e);
}

/* What makes an edge another one: not how long a signature lasts, which is another with each. */
static struct slice key_of(struct edges *e, const struct sight *s)
{
    const struct edge *edge = &s->edge;

    buf_clear(&e->key);
    buf_printf(&e->key, "%s\n%d", s->service, (int)edge->kind);
    if (edge->kind != EDGE_OTHERS)
        buf_printf(&e->key, "\n%s\n%s\n%u\n%s\n%s\n%d%d%d%d%d%d%s", edge->to.scheme, edge->to.host, edge->to.port, s->listed,
                   edge->why, edge->unclear, edge->downgrade, edge->to.userinfo, s->declared, s->refused, edge->presigned,
                   edge->signature.method);
    return buf_slice(&e->key);
}

static struct entry *entry_new(struct edges *e, const struct sight *s, struct slice key, int64_t now_ms, int64_t wall_s)
{
    struct entry *at = calloc(1, sizeof *at);

    if (!at)
        abort();
    at->sight = *s;
    at->sight.edge.to.query = at->sight.edge.text = slice_make("", 0);
    at->sight.service = at->service = text_copy(slice_of(s->service));
    at->sight.host = at->host = text_copy(slice_of(s->host));
    at->sight.listed = at->listed = text_copy(slice_of(s->listed));
    at->sight.first_s = at->sight.last_s = wall_s;
    at->sight.count = 0;
    at->key = text_copy(key);
    at->key_len = key.len;
    at->due_ms = now_ms + EDGES_MS;
    TAILQ_INSERT_TAIL(&e->entries, at, link);
    table_put(e->table, key, at);
    return at;
}

static struct sight others_of(const struct sight *s)
{
    struct sight others = *s;

    others.edge = (struct edge){.kind = EDGE_OTHERS, .unclear = true, .why = ""};
    others.listed = "";
    others.declared = others.refused = false;
    return others;
}

const struct sight *edges_see(struct edges *e, const struct sight *s, int64_t now_ms, int64_t wall_s)
{
    struct sight others;
    struct entry *at = table_get(e->table, key_of(e, s));

    if (!at && table_count(e->table) >= EDGES_MOST && s->edge.kind != EDGE_OTHERS) {
        others = others_of(s);
        return edges_see(e, &others, now_ms, wall_s);
    }
    if (!at) {
        e->told = entry_new(e, s, key_of(e, s), now_ms, wall_s)->sight;
        e->told.count = 1;
        return &e->told;
    }
    if (at->sight.count++ == 0)
        at->sight.first_s = wall_s;
    at->sight.last_s = wall_s;
    return NULL;
}

/* Told, it waits anew; quiet, it goes: the next of it is a first. False: it had nothing to tell. */
static bool tell(struct edges *e, struct entry *at, int64_t now_ms)
{
    if (at->sight.count == 0) {
        entry_free(e, at);
        return false;
    }
    e->told = at->sight;
    at->sight.count = 0;
    at->due_ms = now_ms + EDGES_MS;
    TAILQ_REMOVE(&e->entries, at, link);
    TAILQ_INSERT_TAIL(&e->entries, at, link);
    return true;
}

const struct sight *edges_next(struct edges *e, int64_t now_ms, bool all)
{
    struct entry *at;

    while ((at = TAILQ_FIRST(&e->entries)) && (all || at->due_ms <= now_ms))
        if (tell(e, at, now_ms))
            return &e->told;
    return NULL;
}
