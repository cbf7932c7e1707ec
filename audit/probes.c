/* Owns how things are written to services of each kind. */
#include "audit/probes.h"

#include <jansson.h>
#include <openssl/sha.h>
#include <stdio.h>

#include "audit/beacon_answer.h"
#include "audit/state.h"

static const char *marker(struct evidence *e, const char *nonce)
{
    return words(e, "exeat-audit-canary-%s", nonce);
}

static const char *content(struct evidence *e, const struct written *w)
{
    struct buf text = {0};
    const char *kept;

    buf_text(&text, marker(e, w->content));
    while (buf_len(&text) < w->padding)
        buf_text(&text, " exeat-audit");
    kept = words(e, "%.*s", SLICE_ARG(buf_slice(&text)));
    buf_free(&text);
    return kept;
}

/* The path (and query) of a Location that is a whole URL, a path, or absent. */
static const char *location_path(struct evidence *e, const struct turn *x)
{
    struct slice value;
    ptrdiff_t at;

    if (!turn_field(x, "Location", 0, &value))
        return NULL;
    if ((at = slice_search(value, SLICE("://"))) > 0) {
        value = slice_from(value, (size_t)at + 3);
        if ((at = slice_find(value, '/')) < 0)
            return NULL;
        value = slice_from(value, (size_t)at);
    }
    return words(e, "%.*s", SLICE_ARG(value));
}

/* ---- http ---- */

/* Where what was made is: Location, or below the path by the id in the answer; NULL: it does not say. */
static const char *made_at(struct evidence *e, const struct turn *x, const char *path)
{
    const char *at = turn_is_2xx(x) ? location_path(e, x) : NULL;
    json_t *json = json_loadb(buf_slice(&x->body).ptr, buf_len(&x->body), 0, NULL);
    const json_t *id = json_object_get(json, "id");

    if (!at && turn_is_2xx(x) && json_is_string(id))
        at = words(e, "%s/%s", path, json_string_value(id));
    else if (!at && turn_is_2xx(x) && json_is_integer(id))
        at = words(e, "%s/%lld", path, (long long)json_integer_value(id));
    json_decref(json);
    return at;
}

void made_undo(struct evidence *e, const struct turn *x, const char *path)
{
    const char *at = made_at(e, x, path);

    if (at)
        ask(e, (struct probe){.method = "DELETE", .path = at, .who = x->who, .variant = "clean up", .tag = TAG_REMOVE});
    else if (turn_is_2xx(x))
        evidence_left(e, "what %.100s made", path);
}

/* "POST /notes {"text": "{content}"}": where things are made in a collection, not by their name. */
static void make_http(struct evidence *e, struct written *w)
{
    struct slice rest = slice_of(w->name), method = {"", 0}, path = {"", 0};
    const char *at;

    slice_next(&rest, ' ', &method);
    slice_next(&rest, ' ', &path);
    at = words(e, "%.*s", SLICE_ARG(path));
    w->answer = ask(e, (struct probe){.method = words(e, "%.*s", SLICE_ARG(method)), .path = at, .who = w->who, .body = slice_of(fill_in(e, rest, "{content}", content(e, w))),
                                      .body_type = slice_starts(rest, SLICE("{")) ? "application/json" : "application/x-www-form-urlencoded", .tag = TAG_WRITE, .variant = "write"});
    w->name = at;
    w->read = w->remove = made_at(e, w->answer, at);
    w->remove_method = "DELETE";
    if (turn_is_2xx(w->answer) && !w->read)
        evidence_left(e, "what %s made", at);
    if (!w->read)
        w->read = at;
    if (!w->remove && !turn_is_2xx(w->answer))
        w->remove = words(e, "%s/%s", at, w->nonce);
}

static void write_http(struct evidence *e, struct written *w)
{
    if (strchr(w->name, ' ')) {
        make_http(e, w);
        return;
    }
    w->read = w->remove = w->name;
    w->remove_method = "DELETE";
    w->answer = ask(e, (struct probe){.method = "PUT", .path = w->name, .who = w->who, .body = slice_of(content(e, w)),
                                      .body_type = "text/plain", .tag = TAG_WRITE, .variant = "write"});
}

/* ---- npm ---- */

static const char *package_document(struct evidence *e, const struct written *w)
{
    const char *name = w->name, *about = marker(e, w->content), *text = content(e, w);
    struct buf data = {0}, sum = {0};
    unsigned char hash[20];
    const char *doc;

    SHA1((const unsigned char *)text, strlen(text), hash);
    text_hex(&sum, slice_make(hash, sizeof hash));
    text_base64(&data, slice_of(text));
    doc = words(e,
                "{\"_id\":\"%s\",\"name\":\"%s\",\"description\":\"%s\",\"dist-tags\":{\"latest\":\"1.0.0\"},\"versions\":{\"1.0.0\":{\"name\":\"%s\",\"version\":\"1.0.0\","
                "\"description\":\"%s\",\"dist\":{\"shasum\":\"%.*s\",\"tarball\":\"http://registry.invalid/%s/-/%s-1.0.0.tgz\"}}},"
                "\"_attachments\":{\"%s-1.0.0.tgz\":{\"content_type\":\"application/octet-stream\",\"data\":\"%.*s\",\"length\":%zu}}}",
                name, name, about, name, about, SLICE_ARG(buf_slice(&sum)), name, name, name, SLICE_ARG(buf_slice(&data)), strlen(text));
    buf_free(&data);
    buf_free(&sum);
    return doc;
}

static void write_npm(struct evidence *e, struct written *w)
{
    upstream_acts(e, w->nonce, ACT_MISSING, "");
    w->read = words(e, "/%s", w->name);
    w->remove = words(e, "/%s/-rev/1-0", w->name);
    w->remove_method = "DELETE";
    w->answer = ask(e, (struct probe){.method = "PUT", .path = w->read, .who = w->who, .body_type = "application/json", .tag = TAG_WRITE,
                                      .body = slice_of(package_document(e, w)), .variant = "publish"});
}

/* ---- oci ---- */

static const char *digest_of(struct evidence *e, const char *text)
{
    unsigned char hash[32];
    struct buf hex = {0};
    const char *out;

    SHA256((const unsigned char *)text, strlen(text), hash);
    text_hex(&hex, slice_make(hash, sizeof hash));
    out = words(e, "sha256:%.*s", SLICE_ARG(buf_slice(&hex)));
    buf_free(&hex);
    return out;
}

static const char *begin_oci(struct evidence *e, struct written *w)
{
    w->answer = ask(e, (struct probe){.method = "POST", .path = words(e, "/v2/%s/blobs/uploads/", w->name), .who = w->who, .tag = TAG_WRITE, .variant = "begin an upload"});
    return turn_is_2xx(w->answer) ? location_path(e, w->answer) : NULL;
}

static void write_oci(struct evidence *e, struct written *w)
{
    const char *at = begin_oci(e, w), *text = content(e, w), *digest = digest_of(e, text);

    w->read = w->remove = words(e, "/v2/%s/blobs/%s", w->name, digest);
    w->remove_method = "DELETE";
    if (at)
        w->answer = ask(e, (struct probe){.method = "PUT", .path = words(e, "%s%cdigest=%s", at, strchr(at, '?') ? '&' : '?', digest), .is_bare = true,
                                          .who = w->who, .body = slice_of(text), .body_type = "application/octet-stream", .tag = TAG_WRITE, .variant = "upload"});
}

/* ---- all ---- */

static bool prepare(struct evidence *e, const char *key, enum who who, struct written *w)
{
    *w = (struct written){.who = who};
    if (!(w->name = writable(e, key, &w->nonce)))
        return false;
    w->content = nonce_new(e);
    return true;
}

bool write_whole(struct evidence *e, const char *key, enum who who, struct written *w)
{
    return write_sized(e, key, who, 0, w);
}

bool write_sized(struct evidence *e, const char *key, enum who who, size_t len, struct written *w)
{
    if (!prepare(e, key, who, w))
        return false;
    w->padding = len;
    if (e->target->dialect == DIALECT_NPM)
        write_npm(e, w);
    else if (e->target->dialect == DIALECT_OCI)
        write_oci(e, w);
    else
        write_http(e, w);
    return true;
}

bool write_begin(struct evidence *e, const char *key, enum who who, struct written *w)
{
    if (e->target->dialect != DIALECT_OCI)
        return write_whole(e, key, who, w);
    if (!prepare(e, key, who, w))
        return false;
    w->remove = begin_oci(e, w);
    w->remove_method = "DELETE";
    w->read = w->remove;
    return true;
}

struct turn *write_again(struct evidence *e, const struct written *w)
{
    struct written again = *w;

    if (e->target->dialect == DIALECT_NPM)
        write_npm(e, &again);
    else
        write_http(e, &again);
    return again.answer;
}

static struct turn *look(struct evidence *e, const struct written *w, enum who who, int tag)
{
    bool is_upload = w->read && strstr(w->read, "/blobs/uploads/");

    return ask(e, (struct probe){.path = w->read, .is_bare = is_upload, .who = who, .tag = tag, .variant = tag == TAG_GONE ? "is it gone?" : tag == TAG_WRITER ? "who wrote it reads it" : "read it",
                                 .fields = {e->target->dialect == DIALECT_NPM ? "Accept: application/json" : "Accept: */*"}});
}

struct turn *write_read(struct evidence *e, const struct written *w, enum who who)
{
    return look(e, w, who, TAG_READ);
}

struct turn *write_read_own(struct evidence *e, const struct written *w)
{
    return look(e, w, w->who, TAG_WRITER);
}

void write_undo(struct evidence *e, const struct written *w)
{
    const struct turn *x;

    if (!turn_is_2xx(w->answer) || !w->remove)
        return;
    ask(e, (struct probe){.method = w->remove_method, .path = w->remove, .is_bare = strstr(w->remove, "/blobs/uploads/") != NULL, .who = w->who, .tag = TAG_REMOVE, .variant = "clean up"});
    x = look(e, w, w->who, TAG_GONE);
    if (turn_is_2xx(x) && (turn_holds(x, w->content) || strstr(w->remove, "/blobs/uploads/")))
        evidence_left(e, "%.120s", w->name);
}

void send_unfinished(struct evidence *e)
{
    struct written w = {0};

    if (e->target->dialect != DIALECT_OCI) {
        evidence_na(e, "it has no upload in parts that is known");
        return;
    }
    if (!write_begin(e, "write", good_or_nobody(e), &w))
        return;
    if (turn_is_2xx(w.answer) && w.read)
        write_read(e, &w, WHO_NOBODY);
    write_undo(e, &w);
}

void remove_account(struct evidence *e, const char *nonce, const struct turn *made)
{
    json_t *json = json_loadb(buf_slice(&made->body).ptr, buf_len(&made->body), 0, NULL);
    const char *token = json_string_value(json_object_get(json, "token"));
    const struct turn *x;

    if (!token)
        token = "";
    x = ask(e, (struct probe){.method = "DELETE", .path = words(e, "/-/user/org.couchdb.user:%s", nonce), .who = WHO_TOKEN, .token = words(e, "%s", token), .variant = "clean up"});
    if (!turn_is_2xx(x))
        evidence_left(e, "the account %s", nonce);
    json_decref(json);
}

/* Where git reads, it is asked whether it would be pushed to: only the advertisement, nothing is written. */
void send_git_push(struct evidence *e, enum who who)
{
    static const char fetch[] = "service=git-upload-pack";

    for (size_t i = 0; i < baseline_count(e); i++) {
        const char *path = baseline_at(e, i)->path, *at = strstr(path, fetch);

        if (at)
            ask(e, (struct probe){.path = words(e, "%.*sservice=git-receive-pack%s", (int)(at - path), path, at + sizeof fetch - 1), .who = who, .tag = TAG_WRITE, .variant = "may I push?"});
    }
}

bool is_page_for_all(const struct evidence *e, const struct turn *x)
{
    return turn_is_2xx(x) && turn_alike(x, nowhere(e)) && e->n_hits == 0 && e->n_upstream_hits == 0;
}

void judge_write(const struct evidence *e, struct finding *f, const char *what)
{
    const struct turn *x;
    size_t i = 0;

    while ((x = tagged(e, TAG_WRITE, &i))) {
        if (is_page_for_all(e, x))
            finding_worsen(f, VERDICT_INCONCLUSIVE, "%s: %d, as every path is answered: whether it was taken is not in it", what, x->status);
        else if (turn_is_2xx(x))
            finding_worsen(f, VERDICT_FAIL, "%s was taken: %s %.80s: %d", what, x->method, x->shown, x->status);
        else if (turn_is_refusal(x))
            finding_worsen(f, VERDICT_PASS, x->status ? "%s was refused: %d" : "%s was refused: closed without an answer", what, x->status);
        else
            finding_worsen(f, VERDICT_INCONCLUSIVE, "%s: %d does not say whether it was taken", what, x->status);
    }
}

bool token_grants(struct slice token)
{
    struct slice part;
    struct buf text = {0};
    json_t *claims = NULL;
    bool grants = true;

    if (slice_next(&token, '.', &part) && slice_next(&token, '.', &part) && text_unbase64url(part, &text))
        claims = json_loadb(buf_slice(&text).ptr, buf_len(&text), 0, NULL);
    if (json_is_object(claims))
        grants = json_array_size(json_object_get(claims, "access")) > 0 || json_string_length(json_object_get(claims, "scope")) > 0;
    json_decref(claims);
    buf_free(&text);
    return grants;
}

bool is_ours(const struct turn *x)
{
    return slice_starts(buf_slice(&x->body), SLICE("the auditor's page for "));
}

const char *describe_hit(const struct hit *h, char out[120])
{
    struct slice host = beacon_field(buf_slice(&h->bytes), "Host");
    struct buf place = {0};

    addr_text(&place, &h->at);
    if (host.len == 0 || host.len > 60)
        snprintf(out, 120, "%.*s", SLICE_ARG(buf_slice(&place)));
    else
        snprintf(out, 120, "%.*s at %.*s", SLICE_ARG(host), SLICE_ARG(buf_slice(&place)));
    for (char *c = out; *c; c++)
        if (*c < ' ' || *c > '~')
            *c = '?';
    buf_free(&place);
    return out;
}

const char *host_port(struct evidence *e, const char *host, unsigned port)
{
    return port == 80 ? words(e, "%s", host) : words(e, "%s:%u", host, port);
}
