/* Owns the list of routes. Must not judge what came of them. */
#include "audit/passage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/spelling.h"
#include "base/text.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static struct turn *go(struct evidence *e, const struct cargo *c, struct probe p)
{
    p.has_secret = true;
    if (!p.is_bare)
        p.who = c->who;
    p.is_bare = false;
    return ask(e, p);
}

/* As it can stand in a URL. */
static const char *escaped(struct evidence *e, const struct cargo *c, const char *text)
{
    struct buf out = {0};
    const char *kept;

    if (c->is_escaped)
        return text;
    spelling_escape(slice_of(text), &out);
    kept = words(e, "%.*s", SLICE_ARG(buf_slice(&out)));
    buf_wipe(&out);
    return kept;
}

static char joint(const char *path)
{
    return strchr(path, '?') ? '&' : '?';
}

/* A fresh path of the writable kind, or the known one. */
static const char *place_to_write(struct evidence *e, const struct cargo *c)
{
    const char *template = e->target->dialect == DIALECT_HTTP ? target_text(e->target, "write") : NULL;

    return template ? fill(e, template, c->nonce) : c->known;
}

static void send_content(struct evidence *e, const struct cargo *c, struct slice body, const char *type, const char *field)
{
    go(e, c, (struct probe){.method = c->method, .path = place_to_write(e, c), .body = body, .body_type = type, .fields = {field}});
}

/* ---- in the target ---- */

static void send_query(struct evidence *e, const struct cargo *c)
{
    go(e, c, (struct probe){.path = words(e, "%s%c%s=%s", c->known, joint(c->known), c->nonce, escaped(e, c, c->text))});
}

static void send_path(struct evidence *e, const struct cargo *c)
{
    go(e, c, (struct probe){.path = words(e, "%s%s", c->near, escaped(e, c, c->text))});
}

static void send_name(struct evidence *e, const struct cargo *c)
{
    if (e->target->dialect == DIALECT_NPM)
        go(e, c, (struct probe){.path = words(e, "/%s", c->text)});
    else if (e->target->dialect == DIALECT_OCI)
        go(e, c, (struct probe){.path = words(e, "/v2/%s/tags/list", c->text)});
    else
        evidence_na(e, "services of its kind have no names but paths");
}

static void send_search(struct evidence *e, const struct cargo *c)
{
    if (e->target->dialect == DIALECT_NPM)
        go(e, c, (struct probe){.path = words(e, "/-/v1/search?text=%s", escaped(e, c, c->text))});
    else if (e->target->dialect == DIALECT_OCI)
        go(e, c, (struct probe){.path = words(e, "/v2/_catalog?last=%s", escaped(e, c, c->text))});
    else if (target_count(e->target, "listings") == 0)
        evidence_missing(e, "the manifest names no listings");
    for (size_t i = 0; i < target_count(e->target, "listings"); i++) {
        const char *at = target_text_at(e->target, "listings", i);

        if (at[0] == '/')
            go(e, c, (struct probe){.path = words(e, "%s%cq=%s", at, joint(at), escaped(e, c, c->text))});
    }
}

/* ---- in a field ---- */

static void send_field(struct evidence *e, const struct cargo *c)
{
    go(e, c, (struct probe){.path = c->known, .fields = {words(e, "X-Exeat-Audit: %s", c->text)}});
}

static void send_cookie(struct evidence *e, const struct cargo *c)
{
    go(e, c, (struct probe){.path = c->known, .fields = {words(e, "Cookie: session=%s", c->text)}});
}

static void send_agent(struct evidence *e, const struct cargo *c)
{
    go(e, c, (struct probe){.path = c->known, .fields = {words(e, "User-Agent: client/1.0 (%s)", c->text)}});
}

static void send_referer(struct evidence *e, const struct cargo *c)
{
    go(e, c, (struct probe){.path = c->known, .fields = {words(e, "Referer: http://intranet.example/%s", c->text)}});
}

static void send_language(struct evidence *e, const struct cargo *c)
{
    go(e, c, (struct probe){.path = c->known, .fields = {words(e, "Accept: text/%s", c->text)}});
}

/* Instead of a credential: nothing else may say who asks. */
static void send_user(struct evidence *e, const struct cargo *c)
{
    const char *pair = words(e, "%s:%s", c->text, c->nonce);
    struct buf coded = {0};

    text_base64(&coded, slice_of(pair));
    go(e, c, (struct probe){.is_bare = true, .path = c->known, .fields = {words(e, "Authorization: Basic %.*s", SLICE_ARG(buf_slice(&coded)))}});
    buf_wipe(&coded);
}

static void send_bearer(struct evidence *e, const struct cargo *c)
{
    go(e, c, (struct probe){.is_bare = true, .path = c->known, .fields = {words(e, "Authorization: Bearer %s", c->text)}});
}

/* ---- in the content ---- */

static void send_body(struct evidence *e, const struct cargo *c)
{
    send_content(e, c, slice_of(c->text), "text/plain", NULL);
}

static void send_json(struct evidence *e, const struct cargo *c)
{
    send_content(e, c, slice_of(words(e, "{\"name\":\"%s\",\"note\":\"%s\"}", c->nonce, c->text)), "application/json", NULL);
}

/* \u0078 for x: what a JSON reader takes back. */
static void send_json_escapes(struct evidence *e, const struct cargo *c)
{
    struct buf out = {0};

    buf_text(&out, "{\"note\":\"");
    for (const char *p = c->text; *p; p++)
        buf_printf(&out, "\\u%04x", (unsigned)(unsigned char)*p);
    buf_text(&out, "\"}");
    send_content(e, c, buf_slice(&out), "application/json", NULL);
    buf_wipe(&out);
}

static void send_form(struct evidence *e, const struct cargo *c)
{
    send_content(e, c, slice_of(words(e, "name=%s&note=%s", c->nonce, c->text)), "application/x-www-form-urlencoded", NULL);
}

static void send_gzip(struct evidence *e, const struct cargo *c)
{
    struct buf packed = {0};

    spelling_gzip(slice_of(c->text), &packed);
    send_content(e, c, buf_slice(&packed), "text/plain", "Content-Encoding: gzip");
    buf_wipe(&packed);
}

/* Every bit turned over, under the name of a coding that nobody has: whoever does not know it cannot look into it. */
static void send_unknown_coding(struct evidence *e, const struct cargo *c)
{
    struct buf coded = {0};

    for (const char *p = c->text; *p; p++)
        buf_char(&coded, (char)~*p);
    send_content(e, c, buf_slice(&coded), "text/plain", "Content-Encoding: exeat-audit");
    buf_wipe(&coded);
}

/* A package: npm puts the archive into its document, others take it as it is. */
static void send_archive(struct evidence *e, const struct cargo *c)
{
    struct buf tar = {0}, packed = {0}, coded = {0}, body = {0};
    bool is_npm = e->target->dialect == DIALECT_NPM;
    const char *path = is_npm ? words(e, "/exeat-%s", c->nonce) : place_to_write(e, c);

    spelling_tar(slice_of(c->text), &tar);
    spelling_gzip(buf_slice(&tar), &packed);
    text_base64(&coded, buf_slice(&packed));
    if (is_npm)
        buf_printf(&body, "{\"_id\":\"exeat-%s\",\"name\":\"exeat-%s\",\"dist-tags\":{\"latest\":\"1.0.0\"},\"versions\":{\"1.0.0\":{\"name\":\"exeat-%s\",\"version\":\"1.0.0\","
                          "\"dist\":{\"tarball\":\"http://registry.invalid/x.tgz\"}}},\"_attachments\":{\"exeat-%s-1.0.0.tgz\":{\"content_type\":"
                          "\"application/octet-stream\",\"data\":\"%.*s\",\"length\":%zu}}}",
                   c->nonce, c->nonce, c->nonce, c->nonce, SLICE_ARG(buf_slice(&coded)), buf_len(&packed));
    else
        buf_append(&body, buf_slice(&packed));
    go(e, c, (struct probe){.method = is_npm ? "PUT" : c->method, .path = path, .body = buf_slice(&body), .body_type = is_npm ? "application/json" : "application/gzip"});
    buf_wipe(&tar);
    buf_wipe(&packed);
    buf_wipe(&coded);
    buf_wipe(&body);
}

/* ---- in pieces ---- */

static void halve(const struct cargo *c, struct evidence *e, const char *half[2])
{
    size_t len = strlen(c->text);

    half[0] = words(e, "%.*s", (int)(len / 2), c->text);
    half[1] = words(e, "%s", c->text + len / 2);
}

static void send_two_parameters(struct evidence *e, const struct cargo *c)
{
    const char *half[2];

    halve(c, e, half);
    go(e, c, (struct probe){.path = words(e, "%s%c%sa=%s&%sb=%s", c->known, joint(c->known), c->nonce, half[0], c->nonce, half[1])});
}

static void send_two_fields(struct evidence *e, const struct cargo *c)
{
    const char *half[2];

    halve(c, e, half);
    go(e, c, (struct probe){.path = c->known, .fields = {words(e, "X-Exeat-Audit: %s", half[0]), words(e, "X-Exeat-Audit-2: %s", half[1])}});
}

static void send_two_queries(struct evidence *e, const struct cargo *c)
{
    const char *half[2];

    halve(c, e, half);
    for (int i = 0; i < 2; i++)
        go(e, c, (struct probe){.path = words(e, "%s%c%s=%s", c->known, joint(c->known), c->nonce, half[i])});
}

static void send_two_paths(struct evidence *e, const struct cargo *c)
{
    const char *half[2];

    halve(c, e, half);
    for (int i = 0; i < 2; i++)
        go(e, c, (struct probe){.path = words(e, "%s%s", c->near, half[i])});
}

/* ---- on to somewhere else ---- */

static const char *url_to_listener(struct evidence *e, const struct cargo *c)
{
    const char *host = outside_host(e);

    return host ? words(e, "http://%s/%s/%s", host, c->nonce, escaped(e, c, c->text)) : NULL;
}

static void send_url(struct evidence *e, const struct cargo *c)
{
    static const char *const parameters[] = {"url", "u", "uri", "src", "image", "feed", "callback"};
    const char *url = url_to_listener(e, c);

    if (url && target_count(e->target, "fetchers") == 0)
        evidence_missing(e, "the manifest names no fetchers");
    for (size_t i = 0; url && i < target_count(e->target, "fetchers"); i++) {
        const char *at = target_text_at(e->target, "fetchers", i);
        struct buf path = {0};

        buf_printf(&path, "%s%c%s=%s", at, joint(at), parameters[0], url);
        for (size_t j = 1; j < COUNT(parameters); j++)
            buf_printf(&path, "&%s=%s", parameters[j], url);
        go(e, c, (struct probe){.path = words(e, "%.*s", SLICE_ARG(buf_slice(&path)))});
        buf_free(&path);
    }
}

/* As clients do, what is named in Location is asked for next, by the same way. */
static void send_redirect(struct evidence *e, const struct cargo *c)
{
    const char *url = url_to_listener(e, c);

    if (url && target_count(e->target, "redirectors") == 0)
        evidence_missing(e, "the manifest names no redirectors");
    for (size_t i = 0; url && i < target_count(e->target, "redirectors"); i++) {
        const char *at = target_text_at(e->target, "redirectors", i);
        const struct turn *x = go(e, c, (struct probe){.path = words(e, "%s%cnext=%s&url=%s&return=%s&goto=%s&redirect=%s", at, joint(at), url, url, url, url, url)});
        struct slice to;

        if (x->status / 100 == 3 && turn_field(x, "Location", 0, &to) && slice_starts(to, SLICE("http://")))
            go(e, c, (struct probe){.is_bare = true, .path = words(e, "%.*s", SLICE_ARG(to)), .variant = "follow"});
    }
}

/* What the service gets from its upstream, by a name that the sandbox chose. */
static void send_upstream(struct evidence *e, const struct cargo *c)
{
    const char *path = fetched(e, escaped(e, c, c->text));

    if (path)
        go(e, c, (struct probe){.path = path});
}

#define NO_QUERY "A rule with no query: \"GET /path?\"; or one that lists the names it may have, \"?ref=*\"."
#define PATHS "Rules with exact paths, or {name} with bind, where a sandbox need not choose freely."
#define FIELDS "forward-fields: list the request fields that the service needs; a preset has such a list."
#define CONTENT "body: 0, or only the methods without content in the rules."
#define CREDENTIALS "client-credentials: refuse, which is the default; let the gateway put in its own (credential)."
#define NOWHERE "deny the path that takes URLs, and set handoff-edges: enforce."

const struct passage passages[] = {
    {"query", "the query", 0, PASSAGE_CARRIES, NULL, send_query, NO_QUERY},
    {"path", "a path segment", 0, PASSAGE_CARRIES, NULL, send_path, PATHS},
    {"header", "a field of its own", 0, PASSAGE_CARRIES, "X-Exeat-Audit", send_field, FIELDS},
    {"body", "the content", RUN_WRITES, PASSAGE_CARRIES, NULL, send_body, CONTENT},
    {"cookie", "Cookie", 0, 0, "Cookie", send_cookie, CREDENTIALS},
    {"agent", "User-Agent", 0, 0, "User-Agent", send_agent, FIELDS},
    {"referer", "Referer", 0, 0, "Referer", send_referer, FIELDS},
    {"accept", "Accept", 0, 0, "Accept", send_language, "Nothing but the scan: clients need this field."},
    {"basic-user", "the user of Basic", 0, 0, "Authorization", send_user, CREDENTIALS},
    {"bearer", "Authorization: Bearer", 0, 0, "Authorization", send_bearer, CREDENTIALS},
    {"name", "a package's name", 0, 0, NULL, send_name, PATHS},
    {"search", "a search text", 0, PASSAGE_CARRIES, NULL, send_search, "deny the search: deny: [\"GET /-/v1/search\"]."},
    {"json", "JSON content", RUN_WRITES, 0, NULL, send_json, CONTENT},
    {"json-escapes", "JSON content, as \\u escapes", RUN_WRITES, 0, NULL, send_json_escapes, CONTENT},
    {"form", "a form", RUN_WRITES, 0, NULL, send_form, CONTENT},
    {"gzip", "gzip content", RUN_WRITES, 0, NULL, send_gzip, CONTENT},
    {"coding", "content in an unknown coding", RUN_WRITES, 0, NULL, send_unknown_coding, "unscannable: refuse, which is the default."},
    {"archive", "a package's archive", RUN_WRITES, 0, NULL, send_archive, CONTENT},
    {"two-parameters", "two parameters, half each", 0, 0, NULL, send_two_parameters, NO_QUERY},
    {"two-fields", "two fields, half each", 0, 0, "X-Exeat-Audit", send_two_fields, FIELDS},
    {"two-queries", "two requests' queries, half each", 0, PASSAGE_TOGETHER, NULL, send_two_queries, NO_QUERY},
    {"two-paths", "two requests' paths, half each", 0, PASSAGE_TOGETHER, NULL, send_two_paths, PATHS},
    {"url", "a URL for the service to fetch", RUN_LISTENER, PASSAGE_CARRIES, NULL, send_url, NOWHERE},
    {"redirect", "a redirect that the service makes", RUN_LISTENER, PASSAGE_CARRIES, NULL, send_redirect, NOWHERE},
    {"upstream", "a name that the service asks its upstream for", RUN_LISTENER, PASSAGE_CARRIES | PASSAGE_UPSTREAM, NULL, send_upstream, PATHS},
};
const size_t n_passages = COUNT(passages);
