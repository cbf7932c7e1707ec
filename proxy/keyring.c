/* Owns the sets. Parses none. */
#include "proxy/keyring.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/say.h"
#include "base/text.h"

#define HEAD "exeat.keys/1 "

struct entry {
    struct entry *next;
    char *issuer, *uri;
    int64_t fetched_s;
    struct buf set;
};

struct keyring {
    struct entry *first;
};

struct keyring *keyring_new(void)
{
    struct keyring *r = calloc(1, sizeof *r);

    if (!r)
        abort();
    return r;
}

static void entry_free(struct entry *e)
{
    free(e->issuer);
    free(e->uri);
    buf_free(&e->set);
    free(e);
}

void keyring_free(struct keyring *r)
{
    struct entry *e;

    if (!r)
        return;
    while ((e = r->first)) {
        r->first = e->next;
        entry_free(e);
    }
    free(r);
}

static struct entry *find(const struct keyring *r, struct slice issuer)
{
    struct entry *e = r->first;

    while (e && !slice_is(issuer, e->issuer))
        e = e->next;
    return e;
}

static struct entry *add(struct keyring *r, struct slice issuer)
{
    struct entry *e = calloc(1, sizeof *e);

    if (!e)
        abort();
    e->issuer = text_copy(issuer);
    e->uri = text_copy(slice_make("", 0));
    e->next = r->first;
    r->first = e;
    return e;
}

bool keyring_put(struct keyring *r, struct slice issuer, struct slice uri, int64_t fetched_s, struct slice set)
{
    struct entry *e = find(r, issuer);
    bool changed;

    if (!e)
        e = add(r, issuer);
    changed = !slice_equals(buf_slice(&e->set), set) || !slice_is(uri, e->uri);
    if (changed) {
        free(e->uri);
        e->uri = text_copy(uri);
        buf_clear(&e->set);
        buf_append(&e->set, set);
    }
    e->fetched_s = fetched_s;
    return changed;
}

bool keyring_find(const struct keyring *r, struct slice issuer, struct slice uri, int64_t *fetched_s, struct slice *set)
{
    const struct entry *e = find(r, issuer);

    if (!e || !slice_is(uri, e->uri))
        return false;
    *fetched_s = e->fetched_s;
    *set = buf_slice(&e->set);
    return true;
}

static bool is_configured(const struct conf *c, const struct entry *e)
{
    const struct conf_item *item = conf_find(c, "issuers", e->issuer);
    const char *uri = item ? conf_text(item, "jwks-uri") : NULL;

    return uri && strcmp(uri, e->uri) == 0;
}

void keyring_keep(struct keyring *r, const struct conf *c)
{
    for (struct entry **at = &r->first; *at;) {
        struct entry *e = *at;

        if (is_configured(c, e)) {
            at = &e->next;
            continue;
        }
        *at = e->next;
        entry_free(e);
    }
}

void keyring_apply(const struct keyring *r, struct issuers *issuers)
{
    for (const struct entry *e = r->first; e; e = e->next) {
        struct fault why = {0};

        if (!issuers_set_keys(issuers, slice_of(e->issuer), slice_of(e->uri), buf_slice(&e->set), e->fetched_s, &why))
            say_warning("published keys are of no use: %s", why.text);
    }
}

/* ---- messages ---- */

void keyring_pack(struct buf *out, struct slice issuer, struct slice uri, int64_t fetched_s, struct slice set)
{
    pack_bytes(out, issuer);
    pack_bytes(out, uri);
    pack_u64(out, (uint64_t)fetched_s);
    pack_bytes(out, set);
}

void keyring_send(const struct keyring *r, void (*send)(void *arg, struct slice message), void *arg)
{
    for (const struct entry *e = r->first; e; e = e->next) {
        struct buf message = {0};

        keyring_pack(&message, slice_of(e->issuer), slice_of(e->uri), e->fetched_s, buf_slice(&e->set));
        send(arg, buf_slice(&message));
        buf_free(&message);
    }
}

bool keyring_take(struct keyring *r, struct slice message, bool *changed)
{
    struct unpack u = unpack_start(message);
    struct slice issuer = unpack_bytes(&u), uri = unpack_bytes(&u);
    int64_t fetched_s = (int64_t)unpack_u64(&u);
    struct slice set = unpack_bytes(&u);

    *changed = unpack_done(&u) && keyring_put(r, issuer, uri, fetched_s, set);
    return unpack_done(&u);
}

/* ---- files ---- */

static char *path_of(const char *state, const char *issuer)
{
    char *directory = file_join(state, "keys"), *path = file_join(directory, issuer);

    free(directory);
    return path;
}

bool keyring_store(const char *state, const char *issuer, struct slice uri, int64_t fetched_s, struct slice set, struct fault *why)
{
    char *directory = file_join(state, "keys"), *path = path_of(state, issuer);
    struct buf text = {0};
    bool ok;

    buf_printf(&text, HEAD "%lld %.*s\n", (long long)fetched_s, SLICE_ARG(uri));
    buf_append(&text, set);
    ok = file_make_directory(directory, 0700, why) && file_replace(path, 0600, buf_slice(&text), why);
    buf_free(&text);
    free(directory);
    free(path);
    return ok;
}

/* "exeat.keys/1 1700000000 https://..." */
static bool read_head(struct slice line, struct slice *uri, int64_t *fetched_s)
{
    struct slice seconds;
    uint64_t n;

    if (!slice_starts(line, SLICE(HEAD)))
        return false;
    line = slice_from(line, sizeof HEAD - 1);
    if (!slice_next(&line, ' ', &seconds) || !slice_decimal(seconds, (uint64_t)1 << 40, &n) || line.len == 0)
        return false;
    *fetched_s = (int64_t)n;
    *uri = line;
    return true;
}

static bool load_one(struct keyring *r, const struct conf_item *item, const char *state, struct fault *why)
{
    char *path = path_of(state, conf_name(item));
    struct buf text = {0};
    struct fault inner = {0};
    struct slice rest, line, uri;
    int64_t fetched_s;
    bool ok = file_check_guarded(path, &inner) && file_read_regular(path, KEYRING_SET_MAX + 2048, &text, &inner);

    rest = buf_slice(&text);
    if (ok && (!slice_next(&rest, '\n', &line) || !read_head(line, &uri, &fetched_s)))
        ok = fault_set(&inner, FAULT_SYNTAX, "%s: no set of keys that was stored here; remove it", path);
    else if (ok && slice_is(uri, conf_text(item, "jwks-uri")))
        keyring_put(r, slice_of(conf_name(item)), uri, fetched_s, rest);
    if (!ok && inner.kind == FAULT_MISSING)
        ok = true;
    if (!ok && why)
        *why = inner;
    buf_free(&text);
    free(path);
    return ok;
}

bool keyring_load(struct keyring *r, const struct conf *c, const char *state, struct fault *why)
{
    bool ok = true;

    for (size_t i = 0; i < conf_count(c, "issuers"); i++)
        if (conf_has(conf_item(c, "issuers", i), "jwks-uri") && !load_one(r, conf_item(c, "issuers", i), state, why))
            ok = false;
    return ok;
}

bool keyring_apply_stored(const struct conf *c, struct issuers *issuers, struct fault *why)
{
    struct keyring *r = keyring_new();
    bool ok = keyring_load(r, c, conf_text(conf_section(c, "gateway"), "state"), why);

    keyring_apply(r, issuers);
    keyring_free(r);
    return ok;
}
