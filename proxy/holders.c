/* Owns the list of holders, in memory and on disk. */
#include "proxy/holders.h"

#include <jansson.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/table.h"
#include "base/text.h"

#define HEAD "exeat.holders/1\n"

enum { DIGEST_HEX = 64, FILE_MAX = 4 << 20, WHO_MAX = 1024 };

struct holder {
    char *who;
    int64_t until_s;   /* as it is known */
    int64_t written_s; /* as the file has it: no sooner */
};

struct holders {
    char *path;
    struct table *by_identity; /* by its digest in hex */
};

static void *must(void *p)
{
    if (!p)
        abort();
    return p;
}

static void holder_free(struct holder *one)
{
    if (one)
        free(one->who);
    free(one);
}

static void free_one(void *arg, struct slice key, void *value)
{
    (void)arg, (void)key;
    holder_free(value);
}

void holders_free(struct holders *h)
{
    if (!h)
        return;
    table_each(h->by_identity, free_one, NULL);
    table_free(h->by_identity);
    free(h->path);
    free(h);
}

static void name_of(struct slice identity, struct buf *out)
{
    unsigned char digest[DIGEST_HEX / 2];

    if (!EVP_Q_digest(NULL, "SHA256", NULL, identity.ptr, identity.len, digest, NULL))
        abort();
    text_hex(out, slice_make(digest, sizeof digest));
}

/* ---- the file: a head, then a line for each: digest, seconds since 1970, who as a JSON string ---- */

static bool read_line(struct holders *h, struct slice line, int64_t now_s)
{
    struct slice name, seconds;
    json_t *who = NULL;
    uint64_t until_s = 0;
    bool ok = slice_next(&line, ' ', &name) && slice_next(&line, ' ', &seconds) && name.len == DIGEST_HEX &&
              slice_decimal(seconds, (uint64_t)1 << 40, &until_s) &&
              (who = json_loadb(line.ptr, line.len, JSON_DECODE_ANY, NULL)) && json_string_length(who) > 0 &&
              json_string_length(who) <= WHO_MAX && !table_get(h->by_identity, name);

    if (ok && (int64_t)until_s > now_s) {
        struct holder *one = must(calloc(1, sizeof *one));

        *one = (struct holder){text_copy(slice_of(json_string_value(who))), (int64_t)until_s, (int64_t)until_s};
        table_put(h->by_identity, name, one);
    }
    json_decref(who);
    return ok;
}

static bool read_file(struct holders *h, int64_t now_s, struct fault *why)
{
    struct buf text = {0};
    struct slice rest, line;
    size_t n = 1;
    bool ok = file_check_guarded(h->path, why) && file_read_regular(h->path, FILE_MAX, &text, why);

    rest = buf_slice(&text);
    if (ok && !slice_starts(rest, SLICE(HEAD)))
        ok = fault_set(why, FAULT_SYNTAX, "%s:1: is no list of holders", h->path);
    rest = slice_from(rest, sizeof HEAD - 1);
    while (ok && rest.len && slice_next(&rest, '\n', &line))
        if (n++, line.len && !read_line(h, line, now_s))
            ok = fault_set(why, FAULT_SYNTAX, "%s:%zu: says nothing that was written here; remove the file when no sandbox of before runs "
                           "any more", h->path, n);
    buf_free(&text);
    return ok;
}

struct holders *holders_open(const char *path, int64_t now_s, struct fault *why)
{
    struct holders *h = must(calloc(1, sizeof *h));

    h->path = text_copy(slice_of(path));
    h->by_identity = table_new();
    if (!file_exists(path) || read_file(h, now_s, why))
        return h;
    holders_free(h);
    return NULL;
}

static void put_line(void *arg, struct slice key, void *value)
{
    const struct holder *one = value;
    struct buf *out = arg;

    if (!one->who[0]) /* it could not be written down */
        return;
    buf_append(out, key);
    buf_printf(out, " %lld ", (long long)one->written_s);
    text_json(out, slice_of(one->who));
    buf_char(out, '\n');
}

static bool write_file(const struct holders *h, struct fault *why)
{
    struct buf out = {0};
    bool ok;

    buf_text(&out, HEAD);
    table_each(h->by_identity, put_line, &out);
    ok = file_replace(h->path, 0600, buf_slice(&out), why);
    buf_free(&out);
    return ok;
}

/* ---- taking ---- */

struct sweep {
    int64_t now_s;
    struct slice over;
};

static void find_over(void *arg, struct slice key, void *value)
{
    struct sweep *s = arg;

    if (((const struct holder *)value)->until_s <= s->now_s)
        s->over = key;
}

/* Those that are over make room; when none is, no other may come. */
static bool make_room(struct holders *h, int64_t now_s)
{
    struct sweep sweep = {.now_s = now_s};
    struct buf key = {0};

    if (table_count(h->by_identity) < HOLDERS_MOST)
        return true;
    table_each(h->by_identity, find_over, &sweep);
    if (sweep.over.len == 0)
        return false;
    buf_append(&key, sweep.over);
    holder_free(table_remove(h->by_identity, buf_slice(&key)));
    buf_free(&key);
    return true;
}

static struct holder *place_for(struct holders *h, struct slice name, int64_t now_s)
{
    struct holder *one;

    if (!make_room(h, now_s))
        return NULL;
    one = must(calloc(1, sizeof *one));
    one->who = text_copy(slice_make("", 0));
    table_put(h->by_identity, name, one);
    return one;
}

/* What is not in the file did not happen. */
static enum holders_answer note(struct holders *h, struct holder *one, struct slice who, int64_t until_s, struct fault *why)
{
    struct holder before = *one;

    one->who = text_copy(who);
    one->until_s = until_s;
    one->written_s = until_s + HOLDERS_AHEAD_S;
    if (write_file(h, why)) {
        free(before.who);
        return HOLDERS_YES;
    }
    free(one->who);
    *one = before;
    return HOLDERS_UNWRITTEN;
}

enum holders_answer holders_take(struct holders *h, struct slice identity, struct slice who, int64_t until_s, int64_t now_s,
                                 struct fault *why)
{
    struct buf name = {0};
    struct holder *one;
    enum holders_answer answer = HOLDERS_YES;
    bool same;

    name_of(identity, &name);
    one = table_get(h->by_identity, buf_slice(&name));
    if (!one)
        one = place_for(h, buf_slice(&name), now_s);
    buf_free(&name);
    if (!one)
        return HOLDERS_FULL;
    same = slice_is(who, one->who);
    if (!same && one->until_s > now_s)
        return HOLDERS_ANOTHER;
    if (!same || until_s > one->written_s)
        answer = note(h, one, who, until_s, why);
    else if (until_s > one->until_s)
        one->until_s = until_s;
    return answer;
}
