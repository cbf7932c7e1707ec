/* `exeat handoffs`: where services send their clients on to, as the journal has it. */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>

#include "base/say.h"
#include "base/table.h"
#include "base/text.h"
#include "cmd/journal.h"
#include "handoff/edge.h"
#include "journal/query.h"
#include "journal/view.h"

/* All records of one edge, added up. Texts are its own. */
struct link {
    char *service, *kind, *scheme, *host, *listed, *method, *why;
    int64_t port, lifetime_s, count, first_s, last_s;
    bool declared, refused, unclear, downgrade, userinfo;
};

struct graph {
    struct table *by_key;
    struct link **links; /* sorted once all are read */
    size_t n;
    const struct invocation *inv;
};

/* ---- reading ---- */

static char *text_of(const json_t *record, const char *name)
{
    const char *text = view_text(record, name);

    return text_copy(slice_of(text ? text : ""));
}

static struct link *link_new(const json_t *r)
{
    struct link *l = calloc(1, sizeof *l);

    if (!l)
        abort();
    l->service = text_of(r, "service");
    l->kind = text_of(r, "edge.kind");
    l->scheme = text_of(r, "edge.scheme");
    l->host = text_of(r, "edge.host");
    l->why = text_of(r, "detail");
    l->unclear = view_flag(r, "edge.unclear");
    l->downgrade = view_flag(r, "edge.downgrade");
    l->userinfo = view_flag(r, "edge.userinfo");
    l->port = view_number(r, "edge.port", 0);
    l->lifetime_s = -1;
    l->first_s = view_number(r, "edge.first", 0);
    return l;
}

static void link_free(struct link *l)
{
    char **texts[] = {&l->service, &l->kind, &l->scheme, &l->host, &l->listed, &l->method, &l->why};

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        free(*texts[i]);
    free(l);
}

/* What the newest record says of the policy counts, and the longest life of what is signed. */
static void link_add(struct link *l, const json_t *r)
{
    int64_t lifetime_s = view_number(r, "edge.lifetime_s", -1);

    free(l->listed);
    l->listed = text_of(r, "edge.listed");
    l->declared = view_flag(r, "edge.declared");
    l->refused = view_flag(r, "edge.refused");
    l->count += view_number(r, "edge.count", 1);
    l->last_s = view_number(r, "edge.last", 0);
    if (view_text(r, "edge.signed")) {
        free(l->method);
        l->method = text_of(r, "edge.signed");
        l->lifetime_s = lifetime_s > l->lifetime_s ? lifetime_s : l->lifetime_s;
    }
}

static void put_key(struct buf *out, const struct link *l)
{
    buf_printf(out, "%s\n%s\n%s\n%s\n%05" PRId64 "\n%s\n%d%d%d", l->service, l->kind, l->scheme, l->host, l->port, l->why, l->unclear,
               l->downgrade, l->userinfo);
}

static bool take_line(void *arg, struct slice line)
{
    struct graph *g = arg;
    json_t *r = json_loadb(line.ptr, line.len, 0, NULL);
    struct link *l = link_new(r), *known;
    struct buf key = {0};

    put_key(&key, l);
    known = table_get(g->by_key, buf_slice(&key));
    if (known) {
        link_free(l);
    } else {
        g->links = realloc(g->links, (g->n + 1) * sizeof *g->links);
        if (!g->links)
            abort();
        g->links[g->n++] = known = l;
        table_put(g->by_key, buf_slice(&key), l);
    }
    link_add(known, r);
    buf_free(&key);
    json_decref(r);
    return true;
}

static int by_key(const void *a, const void *b)
{
    struct buf one = {0}, other = {0};
    int order;

    put_key(&one, *(struct link *const *)a);
    put_key(&other, *(struct link *const *)b);
    order = slice_compare(buf_slice(&one), buf_slice(&other));
    buf_free(&one);
    buf_free(&other);
    return order;
}

static void graph_clear(struct graph *g)
{
    for (size_t i = 0; i < g->n; i++)
        link_free(g->links[i]);
    free(g->links);
    table_free(g->by_key);
}

/* Only those that nobody declared. What the gateway takes away leads nowhere. */
static void keep_undeclared(struct graph *g)
{
    size_t n = 0;

    for (size_t i = 0; i < g->n; i++) {
        if (g->links[i]->declared || strcmp(g->links[i]->kind, edge_kind_name(EDGE_ALT_SVC)) == 0)
            link_free(g->links[i]);
        else
            g->links[n++] = g->links[i];
    }
    g->n = n;
}

/* ---- places ---- */

static bool is_usual_port(const struct link *l)
{
    bool tls = strcmp(l->scheme, "https") == 0 || strcmp(l->scheme, "wss") == 0;

    return l->port == 0 || l->port == (tls ? 443 : 80);
}

/* "https://files.example:8443" */
static void put_place(struct buf *out, const struct link *l)
{
    if (!l->host[0]) {
        buf_char(out, '-');
        return;
    }
    if (l->scheme[0]) {
        view_put(out, l->scheme);
        buf_text(out, "://");
    }
    view_put(out, l->host);
    if (!is_usual_port(l))
        buf_printf(out, ":%" PRId64, l->port);
}

/* What enforce would make of it. */
static const char *verdict(const struct link *l)
{
    if (l->declared)
        return "declared";
    if (strcmp(l->kind, edge_kind_name(EDGE_ALT_SVC)) == 0)
        return "taken away by the gateway";
    return l->refused ? "refused" : "enforce would refuse it";
}

/* ---- text ---- */

static void put_notes(struct buf *out, const struct link *l)
{
    if (l->listed[0]) {
        buf_text(out, "; service ");
        view_put(out, l->listed);
        buf_text(out, " lists it");
    } else if (!l->unclear) {
        buf_text(out, "; no service lists it");
    }
    if (l->why[0]) {
        buf_text(out, "; ");
        view_put(out, l->why);
    } else if (l->unclear && l->host[0]) {
        buf_text(out, "; where it leads cannot be told for sure");
    }
    if (l->downgrade)
        buf_text(out, "; down to plain HTTP");
    if (l->userinfo)
        buf_text(out, "; with a user name in it");
    if (l->method) {
        buf_text(out, "; signed, for ");
        view_put(out, strcmp(l->method, "unknown") == 0 ? "any method" : l->method);
        if (l->lifetime_s >= 0)
            buf_printf(out, ", %" PRId64 " s", l->lifetime_s);
    }
}

static void put_line(struct buf *out, const struct link *l)
{
    struct buf place = {0};

    put_place(&place, l);
    buf_printf(out, "  %-16s  %-40.*s %8" PRId64 "  %s", l->kind, SLICE_ARG(buf_slice(&place)), l->count, verdict(l));
    put_notes(out, l);
    buf_char(out, '\n');
    buf_free(&place);
}

static bool may_be_declared(const struct link *l)
{
    return !l->declared && !l->unclear && !l->userinfo && strcmp(l->kind, edge_kind_name(EDGE_ALT_SVC)) != 0 &&
           (strncmp(l->scheme, "http", 4) == 0 || strncmp(l->scheme, "ws", 2) == 0);
}

/* What would declare them, to be pasted: of links [from, to), one service's. */
static void put_proposal(struct buf *out, struct link *const *links, size_t n)
{
    struct table *seen = table_new();
    struct buf entry = {0};

    for (size_t i = 0; i < n; i++) {
        const struct link *l = links[i];
        bool plain = strcmp(l->scheme, "http") == 0 || strcmp(l->scheme, "ws") == 0;

        if (!may_be_declared(l))
            continue;
        buf_clear(&entry);
        buf_printf(&entry, "\"%s%s", plain ? "http://" : "", l->host);
        if (!is_usual_port(l))
            buf_printf(&entry, ":%" PRId64, l->port);
        buf_char(&entry, '"');
        if (table_put(seen, buf_slice(&entry), seen))
            continue;
        buf_text(out, table_count(seen) == 1 ? "  to declare them: hands-off-to: [" : ", ");
        buf_append(out, buf_slice(&entry));
    }
    if (table_count(seen))
        buf_text(out, "]\n");
    buf_free(&entry);
    table_free(seen);
}

static size_t end_of_service(const struct graph *g, size_t from)
{
    size_t to = from;

    while (to < g->n && strcmp(g->links[to]->service, g->links[from]->service) == 0)
        to++;
    return to;
}

static void put_text(struct buf *out, const struct graph *g)
{
    for (size_t from = 0, to; from < g->n; from = to) {
        to = end_of_service(g, from);
        view_put(out, g->links[from]->service);
        buf_char(out, '\n');
        for (size_t i = from; i < to; i++)
            put_line(out, g->links[i]);
        put_proposal(out, g->links + from, to - from);
    }
}

/* ---- JSON and DOT ---- */

static void set_text(json_t *o, const char *name, const char *text)
{
    if (text && *text)
        json_object_set_new(o, name, json_string(text));
}

static void set_flag(json_t *o, const char *name, bool yes)
{
    if (yes)
        json_object_set_new(o, name, json_true());
}

static void put_json(struct buf *out, const struct link *l)
{
    json_t *o = json_pack("{s:s, s:s, s:s}", "schema", "exeat.handoff/1", "service", l->service, "kind", l->kind);
    char *text;

    set_text(o, "scheme", l->scheme);
    set_text(o, "host", l->host);
    if (l->port)
        json_object_set_new(o, "port", json_integer(l->port));
    set_text(o, "listed", l->listed);
    json_object_set_new(o, "declared", json_boolean(l->declared));
    json_object_set_new(o, "refused", json_boolean(l->refused));
    json_object_set_new(o, "enforce_would_refuse", json_boolean(!l->declared && strcmp(l->kind, edge_kind_name(EDGE_ALT_SVC)) != 0));
    set_flag(o, "unclear", l->unclear);
    set_flag(o, "downgrade", l->downgrade);
    set_flag(o, "userinfo", l->userinfo);
    set_text(o, "signed", l->method);
    if (l->lifetime_s >= 0)
        json_object_set_new(o, "lifetime_s", json_integer(l->lifetime_s));
    set_text(o, "detail", l->why);
    json_object_set_new(o, "count", json_integer(l->count));
    json_object_set_new(o, "first", json_integer(l->first_s));
    json_object_set_new(o, "last", json_integer(l->last_s));
    text = json_dumps(o, JSON_COMPACT | JSON_PRESERVE_ORDER);
    buf_printf(out, "%s\n", text);
    free(text);
    json_decref(o);
}

/* A quoted id of DOT: what is no plain text there is left out. */
static void put_id(struct buf *out, struct slice text)
{
    buf_char(out, '"');
    for (size_t i = 0; i < text.len; i++)
        buf_char(out, text.ptr[i] == '"' || text.ptr[i] == '\\' ? '?' : text.ptr[i]);
    buf_char(out, '"');
}

static void put_dot(struct buf *out, const struct graph *g)
{
    buf_text(out, "digraph handoffs {\n  rankdir=LR;\n  node [shape=box];\n");
    for (size_t i = 0; i < g->n; i++) {
        const struct link *l = g->links[i];
        struct buf place = {0};

        put_place(&place, l);
        buf_text(out, "  ");
        put_id(out, slice_of(l->service));
        buf_text(out, " -> ");
        put_id(out, buf_slice(&place));
        buf_text(out, " [label=");
        put_id(out, slice_of(l->kind));
        buf_printf(out, "%s];\n", l->declared ? "" : l->refused ? ", color=red" : ", color=red, style=dashed");
        buf_free(&place);
    }
    buf_text(out, "}\n");
}

/* ---- the command ---- */

static int print(const struct invocation *inv, const struct graph *g)
{
    struct buf out = {0};

    if (option_flag(inv->options, "dot"))
        put_dot(&out, g);
    else if (inv->json)
        for (size_t i = 0; i < g->n; i++)
            put_json(&out, g->links[i]);
    else
        put_text(&out, g);
    return command_print(inv, &out);
}

static int run(const struct invocation *inv)
{
    struct query q = {.kind = record_kind_name(RECORD_EDGE), .service = option_text(inv->options, "service")};
    bool undeclared = option_flag(inv->options, "undeclared"), ok;
    struct graph g = {.inv = inv};
    struct fault why = {0};
    char *directory = NULL;
    size_t matched;
    int status;

    if (inv->json && option_flag(inv->options, "dot"))
        return command_misuse(inv, "--dot and --format json at once");
    if (!journal_moment(inv, "since", &q.since_ns, &why) || !(directory = journal_directory(inv, &why)))
        return command_fail(inv, &why);
    g.by_key = table_new();
    ok = query_run(directory, &q, take_line, &g, &matched, &why);
    free(directory);
    if (g.n)
        qsort(g.links, g.n, sizeof *g.links, by_key);
    if (undeclared)
        keep_undeclared(&g);
    status = ok ? print(inv, &g) : command_fail(inv, &why);
    if (ok && !g.n && !inv->json && !undeclared)
        say_note("no answer has sent anybody on yet");
    if (status == STATUS_YES && undeclared && g.n)
        status = STATUS_NO;
    graph_clear(&g);
    return status;
}

static const struct option_spec options[] = {
    {"service", 0, OPTION_TEXT, "NAME", NULL, "of this service alone", false, false},
    {"since", 0, OPTION_TEXT, "TIME", NULL, "not before this time, or this long ago (24h)", false, false},
    {"undeclared", 'u', OPTION_FLAG, NULL, NULL, "only places that are not declared; status 1 when there is one", false, false},
    {"dot", 0, OPTION_FLAG, NULL, NULL, "as a graph for Graphviz", false, false},
    JOURNAL_OPTION,
    {0},
};

const struct command command_handoffs = {
    .name = "handoffs",
    .summary = "where services send their clients on to",
    .topic = TOPIC_EVIDENCE,
    .has_json = true,
    .help = "Prints every place that answers sent clients on to, by redirects, links, tarballs, realms and the like, as the journal has "
            "it: how often, whether it is declared (the service's own place, or in hands-off-to), which service of the "
            "policy lists it, and whether handoff-edges: enforce would refuse it. All of that as it was when it was last seen; "
            "how often is up to a minute behind.\n"
            "\n"
            "For a service with places that are not declared it also prints the hands-off-to that would declare them: read it before you "
            "paste it.",
    .examples = "exeat handoffs --service npm --since 24h\nexeat handoffs --undeclared\nexeat handoffs --dot | dot -Tsvg -o handoffs.svg",
    .options = options,
    .run = run,
};
