#include "firewall/drift.h"

#include <stdlib.h>

enum { LINES_MOST = 4096 };

/* A line of a listing, and where it stands. */
struct item {
    struct slice table, block, text; /* text empty: the head of the block or table */
    size_t line;
};

struct items {
    struct item *list;
    size_t n;
};

struct compare {
    struct items wanted, there, source;
    drift_found *found;
    void *arg;
    size_t n;
};

/* ---- reading ---- */

static void *grown(void *list, size_t n, size_t size)
{
    void *more = n & (n - 1) ? list : realloc(list, (n ? 2 * n : 1) * size);

    if (!more)
        abort();
    return more;
}

static void add(struct items *all, struct item one)
{
    all->list = grown(all->list, all->n, sizeof one);
    all->list[all->n++] = one;
}


static bool opens(struct slice line, struct slice *head)
{
    if (!slice_ends(line, SLICE(" {")))
        return false;
    *head = slice_cut(line, 0, line.len - 2);
    return true;
}

/* Lines by tables and blocks; what stands outside, and what begins with '#', is passed over. */
static void read(struct slice text, struct items *out)
{
    struct slice left = text, line, head, table = {"", 0}, block = {"", 0};
    size_t number = 0;

    while (out->n < LINES_MOST && slice_next(&left, '\n', &line)) {
        line = slice_trim(line);
        number++;
        if (line.len == 0 || line.ptr[0] == '#')
            continue;
        if (opens(line, &head) && table.len == 0 && slice_starts(head, SLICE("table "))) {
            table = slice_from(head, 6);
            add(out, (struct item){table, {"", 0}, {"", 0}, number});
        } else if (slice_is(line, "}")) {
            *(block.len ? &block : &table) = slice_make("", 0);
        } else if (table.len && block.len == 0 && opens(line, &head)) {
            block = head;
            add(out, (struct item){table, block, {"", 0}, number});
        } else if (table.len) {
            add(out, (struct item){table, block, line, number});
        }
    }
}

/* ---- comparing ---- */

static bool is_of(const struct item *i, const struct item *head)
{
    return slice_equals(i->table, head->table) && slice_equals(i->block, head->block);
}

static bool is_head(const struct item *i)
{
    return i->text.len == 0;
}

static bool is_table(const struct item *i)
{
    return is_head(i) && i->block.len == 0;
}

static const struct item *find_head(const struct items *all, const struct item *head)
{
    for (size_t i = 0; i < all->n; i++)
        if (is_head(&all->list[i]) && is_of(&all->list[i], head))
            return &all->list[i];
    return NULL;
}

/* The lines of one block, borrowed: pointers in order; *n of them. */
static const struct item **lines_of(const struct items *all, const struct item *head, size_t *n)
{
    const struct item **lines = calloc(all->n + 1, sizeof *lines);

    if (!lines)
        abort();
    *n = 0;
    for (size_t i = 0; i < all->n; i++)
        if (!is_head(&all->list[i]) && is_of(&all->list[i], head))
            lines[(*n)++] = &all->list[i];
    return lines;
}

/* The line of the source that became the i-th of a block. */
static size_t source_line(const struct compare *c, const struct item *head, size_t i)
{
    size_t n, line;
    const struct item **lines = lines_of(&c->source, head, &n);

    line = i < n ? lines[i]->line : 0;
    free(lines);
    return line;
}

static void tell(struct compare *c, enum drift_kind kind, const struct item *i, size_t line)
{
    struct drift d = {kind, i->table, i->block, i->text, line};

    c->n++;
    c->found(c->arg, &d);
}

/*
 * Which lines stay in order: the longest common part. keep_a and keep_b are set for those of either side.
 */
static void align(const struct item **a, size_t n, const struct item **b, size_t m, bool *keep_a, bool *keep_b)
{
    size_t *best = calloc((n + 1) * (m + 1), sizeof *best), i, j;

    if (!best)
        abort();
    for (i = n; i-- > 0;)
        for (j = m; j-- > 0;) {
            size_t skip_a = best[(i + 1) * (m + 1) + j], skip_b = best[i * (m + 1) + j + 1];

            best[i * (m + 1) + j] = slice_equals(a[i]->text, b[j]->text) ? 1 + best[(i + 1) * (m + 1) + j + 1]
                                    : skip_a > skip_b                      ? skip_a
                                                                           : skip_b;
        }
    for (i = 0, j = 0; i < n && j < m;) {
        if (slice_equals(a[i]->text, b[j]->text))
            keep_a[i++] = keep_b[j++] = true;
        else if (best[(i + 1) * (m + 1) + j] >= best[i * (m + 1) + j + 1])
            i++;
        else
            j++;
    }
    free(best);
}

/* Is a line like this among those that did not stay? It is taken, so that one answers for one. */
static bool take_stray(const struct item *line, const struct item **others, size_t n, bool *keep)
{
    for (size_t i = 0; i < n; i++)
        if (!keep[i] && slice_equals(others[i]->text, line->text)) {
            keep[i] = true;
            return true;
        }
    return false;
}

static void compare_lines(struct compare *c, const struct item *head)
{
    size_t n, m;
    const struct item **a = lines_of(&c->wanted, head, &n), **b = lines_of(&c->there, head, &m);
    bool *keep_a = calloc(n + 1, sizeof *keep_a), *keep_b = calloc(m + 1, sizeof *keep_b);

    if (!keep_a || !keep_b)
        abort();
    align(a, n, b, m, keep_a, keep_b);
    for (size_t i = 0; i < n; i++)
        if (!keep_a[i])
            tell(c, take_stray(a[i], b, m, keep_b) ? DRIFT_MOVED : DRIFT_MISSING, a[i], source_line(c, head, i));
    for (size_t j = 0; j < m; j++)
        if (!keep_b[j])
            tell(c, DRIFT_ADDED, b[j], 0);
    free(keep_a);
    free(keep_b);
    free(a);
    free(b);
}

static bool table_is_there(const struct items *all, const struct item *of)
{
    struct item head = {.table = of->table, .block = {"", 0}};

    return find_head(all, &head);
}

size_t drift_compare(struct slice wanted, struct slice there, struct slice source, drift_found *found, void *arg)
{
    struct compare c = {.found = found, .arg = arg};

    read(wanted, &c.wanted);
    read(there, &c.there);
    read(source, &c.source);
    for (size_t i = 0; i < c.wanted.n; i++) {
        const struct item *head = &c.wanted.list[i], *origin = find_head(&c.source, head);

        if (!is_head(head))
            continue;
        if (find_head(&c.there, head))
            compare_lines(&c, head);
        else if (is_table(head) || table_is_there(&c.there, head))
            tell(&c, DRIFT_MISSING, head, origin ? origin->line : 0);
    }
    for (size_t i = 0; i < c.there.n; i++)
        if (is_head(&c.there.list[i]) && !find_head(&c.wanted, &c.there.list[i]))
            tell(&c, DRIFT_ADDED, &c.there.list[i], 0);
    free(c.wanted.list);
    free(c.there.list);
    free(c.source.list);
    return c.n;
}
