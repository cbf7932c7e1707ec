/* Owns where keys are published. Fetches nothing. */
#include "authz/keysource.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

enum { REFRESH_LEAST_MS = 1000, URI_MAX = 1024, ADDRESSES_MAX = 8 };

struct keysources {
    struct keysource *list;
    size_t n;
};

/* https://host[:port]/path; a query is part of the target. */
static bool read_uri(const struct conf_item *item, struct keysource *k, struct fault *why)
{
    struct slice rest = slice_of(k->uri), host = {"", 0};
    ptrdiff_t slash = -1;

    if (slice_starts(rest, SLICE("http://")))
        return conf_refuse(item, "jwks-uri", -1, why, "jwks-uri: who can read or change plain HTTP on its way makes the keys; use https");
    if (slice_starts(rest, SLICE("https://")))
        slash = slice_find(slice_from(rest, 8), '/');
    if (slash < 0 || rest.len > URI_MAX || strpbrk(k->uri, " #\\\"<>{}|^`") ||
        !name_split_authority(slice_cut(rest, 8, 8 + (size_t)slash), 443, &host, &k->port, NULL) ||
        !name_canonical(host, k->host, NULL))
        return conf_refuse(item, "jwks-uri", -1, why,
                           "jwks-uri: expected a URL such as https://ci.example/.well-known/jwks, found \"%.80s\"", k->uri);
    for (size_t i = 0; i < rest.len; i++)
        if (rest.ptr[i] <= 0x20 || rest.ptr[i] >= 0x7f)
            return conf_refuse(item, "jwks-uri", -1, why, "jwks-uri: a character that cannot be in a URL");
    k->target = k->uri + 8 + slash;
    return true;
}

static bool read_addresses(const struct conf_item *item, struct keysource *k, struct fault *why)
{
    struct addr a;

    k->n_addresses = conf_list_count(item, "jwks-addresses");
    for (size_t i = 0; i < k->n_addresses; i++)
        if (i >= ADDRESSES_MAX || !addr_parse(slice_of(conf_list_text(item, "jwks-addresses", i)), &a) || a.port == 0)
            return conf_refuse(item, "jwks-addresses", (int)i, why, "jwks-addresses: expected at most %d of IP:PORT, found \"%.60s\"",
                               ADDRESSES_MAX, conf_list_text(item, "jwks-addresses", i));
    return true;
}

static bool read_times(const struct conf_item *item, struct keysource *k, struct fault *why)
{
    k->refresh_ms = conf_number(item, "jwks-refresh");
    k->max_age_s = conf_number(item, "jwks-max-age") / 1000;
    if (k->refresh_ms < REFRESH_LEAST_MS)
        return conf_refuse(item, "jwks-refresh", -1, why, "jwks-refresh: expected at least 1s");
    if (k->max_age_s * 1000 < k->refresh_ms)
        return conf_refuse(item, "jwks-max-age", -1, why, "jwks-max-age: the keys would be too old before they are fetched again; "
                           "expected no less than jwks-refresh");
    return true;
}

static void set_mark(const struct conf_item *item, struct keysource *k)
{
    unsigned char digest[32];
    struct buf text = {0};

    buf_printf(&text, "%s\n%s\n%d\n", k->uri, k->ca_file ? k->ca_file : "", k->allow_private);
    for (size_t i = 0; i < k->n_addresses; i++)
        buf_printf(&text, "%s\n", conf_list_text(item, "jwks-addresses", i));
    if (!EVP_Q_digest(NULL, "SHA256", NULL, buf_slice(&text).ptr, buf_len(&text), digest, NULL))
        abort();
    memcpy(&k->mark, digest, sizeof k->mark);
    buf_free(&text);
}

bool keysource_read(const struct conf_item *item, struct keysource *out, struct fault *why)
{
    *out = (struct keysource){.issuer = conf_name(item), .item = item};
    if (!conf_has(item, "jwks-uri"))
        return true;
    out->uri = conf_text(item, "jwks-uri");
    out->ca_file = conf_text(item, "jwks-ca-file");
    out->allow_private = conf_bool(item, "jwks-allow-private");
    if (!read_uri(item, out, why) || !read_addresses(item, out, why) || !read_times(item, out, why))
        return false;
    set_mark(item, out);
    return true;
}

struct keysources *keysources_compile(const struct conf *c, struct fault *why)
{
    size_t n = conf_count(c, "issuers");
    struct keysources *all = calloc(1, sizeof *all);

    if (!all || !(all->list = calloc(n + 1, sizeof *all->list)))
        abort();
    for (size_t i = 0; i < n; i++) {
        if (!keysource_read(conf_item(c, "issuers", i), &all->list[all->n], why)) {
            keysources_free(all);
            return NULL;
        }
        all->n += all->list[all->n].host[0] != '\0';
    }
    return all;
}

void keysources_free(struct keysources *k)
{
    if (!k)
        return;
    free(k->list);
    free(k);
}

size_t keysources_count(const struct keysources *k)
{
    return k->n;
}

const struct keysource *keysources_get(const struct keysources *k, size_t i)
{
    return &k->list[i];
}

const struct keysource *keysources_named(const struct keysources *k, struct slice issuer)
{
    for (size_t i = 0; i < k->n; i++)
        if (slice_is(issuer, k->list[i].issuer))
            return &k->list[i];
    return NULL;
}

struct addr keysource_address(const struct keysource *k, size_t i)
{
    struct addr a = {0};

    addr_parse(slice_of(conf_list_text(k->item, "jwks-addresses", i)), &a);
    return a;
}
