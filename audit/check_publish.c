/* PW: can somebody who may read write? */
#include "audit/check.h"
#include "audit/probes.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* ---- PW-1 ---- */

static void send_publish(struct evidence *e)
{
    struct written w = {0};

    send_git_push(e, good_or_nobody(e));
    if (write_whole(e, "write", good_or_nobody(e), &w))
        write_undo(e, &w);
}

static void judge_publish(const struct evidence *e, struct finding *f)
{
    judge_write(e, f, "publishing with the reader's credential");
}

/* ---- PW-2 ---- */

static void send_tags(struct evidence *e)
{
    const char *n = nonce_new(e), *path = baseline_at(e, 0)->path, *name;

    if (e->target->dialect == DIALECT_NPM && path[0] == '/') {
        ask(e, (struct probe){.method = "PUT", .path = words(e, "/-/package%s/dist-tags/%s", path, n), .who = good_or_nobody(e), .body = SLICE("\"1.0.0\""), .body_type = "application/json", .tag = TAG_WRITE, .variant = "a tag"});
        if (turn_is_2xx(e->list[0]))
            ask(e, (struct probe){.method = "DELETE", .path = words(e, "/-/package%s/dist-tags/%s", path, n), .who = good_or_nobody(e), .tag = TAG_REMOVE, .variant = "clean up"});
    } else if (e->target->dialect == DIALECT_OCI && (name = writable(e, "write", &n))) {
        ask(e, (struct probe){.method = "PUT", .path = words(e, "/v2/%s/manifests/%s", name, n), .who = good_or_nobody(e), .body = SLICE("{}"), .body_type = "application/vnd.oci.image.manifest.v1+json", .tag = TAG_WRITE,
                              .variant = "a tag, of a manifest that is none"});
    } else if (!e->missing[0]) {
        evidence_na(e, "it has no tags that are known");
    }
}

/* 400 to a manifest that is none comes from who would have taken a good one. */
static void judge_tags(const struct evidence *e, struct finding *f)
{
    const struct turn *x = e->list[0];

    judge_write(e, f, "a tag with the reader's credential");
    if (e->target->dialect == DIALECT_OCI && x->status == 400)
        finding_set(f, VERDICT_FAIL, "a tag would be taken with the reader's credential: 400 for what was in it, not 401 or 403");
}

/* ---- PW-3 ---- */

enum { TAG_DELETE = 1, TAG_NO_METHOD };

static void send_delete(struct evidence *e)
{
    struct written w = {0};

    if (!write_whole(e, "write", good_or_nobody(e), &w))
        return;
    if (w.remove)
        ask(e, (struct probe){.method = w.remove_method, .path = w.remove, .is_bare = e->target->dialect == DIALECT_OCI && strstr(w.remove, "/uploads/"), .who = good_or_nobody(e), .tag = TAG_DELETE, .variant = turn_is_2xx(w.answer) ? "what was written" : "what is not there"});
    if (has_good(e) && w.remove)
        ask(e, (struct probe){.method = w.remove_method, .path = w.remove, .who = WHO_NOBODY, .variant = "nobody deletes"});
    if (has_good(e) && w.remove && !turn_is_2xx(w.answer))
        ask(e, (struct probe){.method = "EXEATAUDIT", .path = w.remove, .who = good_or_nobody(e), .tag = TAG_NO_METHOD, .variant = "a method that there is not"});
    if (turn_is_2xx(w.answer) && turn_is_2xx(write_read(e, &w, good_or_nobody(e))) && turn_holds(e->list[e->n - 1], w.content))
        evidence_left(e, "%.120s", w.name);
}

static void judge_delete(const struct evidence *e, struct finding *f)
{
    size_t i = 0, j = 0;
    const struct turn *x = tagged(e, TAG_DELETE, &i), *nobody = i < e->n ? e->list[i] : NULL, *odd = tagged(e, TAG_NO_METHOD, &j);

    if (!x)
        finding_set(f, VERDICT_NOT_RUN, "there was nothing to delete");
    else if (is_page_for_all(e, x))
        finding_set(f, VERDICT_INCONCLUSIVE, "a DELETE is answered as every path is: %d", x->status);
    else if (turn_is_2xx(x))
        finding_set(f, VERDICT_FAIL, "the reader's credential deletes: %d", x->status);
    else if (x->status == 404 && odd && odd->status == 404)
        finding_set(f, VERDICT_INCONCLUSIVE, "DELETE of what is not there: 404, as with any method");
    else if (x->status == 404 && nobody && nobody->who == WHO_NOBODY && (nobody->status == 401 || nobody->status == 403))
        finding_set(f, VERDICT_WEAK, "the reader's credential may delete: 404 for what is not there, where nobody gets %d", nobody->status);
    else if (turn_is_refusal(x))
        finding_set(f, VERDICT_PASS, "the reader's credential does not delete: %d", x->status);
    else
        finding_set(f, VERDICT_INCONCLUSIVE, "DELETE: %d", x->status);
}

/* ---- PW-4 ---- */

static void send_methods(struct evidence *e)
{
    static const char *const methods[] = {"PUT", "MKCOL", "PROPPATCH", "LOCK", "COPY", "MOVE"};
    const char *n = nonce_new(e), *path = target_text(e->target, "write");

    if (path && path[0] != '/' && (!strstr(path, "://") || strchr(path, ' ')))
        path = NULL;
    path = path ? fill(e, path, n) : words(e, "/%s", n);
    for (size_t i = 0; i < COUNT(methods); i++)
        ask(e, (struct probe){.method = methods[i], .path = path, .who = good_or_nobody(e), .tag = TAG_WRITE, .body = i == 0 ? slice_of(n) : slice_make("", 0), .body_type = i == 0 ? "text/plain" : NULL,
                              .fields = {i > 3 ? words(e, "Destination: %s-2", path) : NULL}});
    for (size_t i = 0; i < COUNT(methods); i++)
        if (turn_is_2xx(e->list[i])) {
            ask(e, (struct probe){.method = "DELETE", .path = path, .who = good_or_nobody(e), .variant = "clean up"});
            break;
        }
}

static void judge_methods(const struct evidence *e, struct finding *f)
{
    judge_write(e, f, "a method that writes");
}

/* ---- PW-5 ---- */

static void judge_session(const struct evidence *e, struct finding *f)
{
    judge_write(e, f, "beginning an upload with the reader's credential");
}

/* ---- PW-6 ---- */

static void send_options(struct evidence *e)
{
    ask(e, (struct probe){.method = "OPTIONS", .path = baseline_at(e, 0)->path, .who = good_or_nobody(e)});
    ask(e, (struct probe){.method = "OPTIONS", .path = baseline_at(e, 0)->path, .who = good_or_nobody(e), .fields = {"Origin: https://other.example", "Access-Control-Request-Method: PUT"}});
}

static void judge_options(const struct evidence *e, struct finding *f)
{
    static const char *const names[] = {"Allow", "Access-Control-Allow-Methods"};
    static const char *const verbs[] = {"PUT", "POST", "DELETE", "PATCH", "MKCOL"};
    struct slice value;

    finding_set(f, VERDICT_PASS, "no method that writes is advertised");
    for (size_t i = 0; i < e->n; i++)
        for (size_t j = 0; j < COUNT(names); j++)
            for (size_t k = 0; turn_field(e->list[i], names[j], 0, &value) && k < COUNT(verbs); k++)
                if (text_holds(value, slice_of(verbs[k])))
                    finding_worsen(f, VERDICT_WEAK, "%s advertises %s to a reader", names[j], verbs[k]);
}

/* ---- PW-7 ---- */

static void send_expect(struct evidence *e)
{
    const char *n = nonce_new(e), *path = target_text(e->target, "write"), *method = "PUT";

    if (path && strchr(path, ' '))
        path = writable_path(e, &n, &method);
    else
        path = path && (path[0] == '/' || strstr(path, "://")) ? fill(e, path, n) : words(e, "/%s", n);
    ask(e, (struct probe){.method = method, .path = path, .who = good_or_nobody(e), .is_by_hand = true, .fields = {"Expect: 100-continue", "Content-Length: 1024"}, .variant = "a head alone"});
}

static void judge_expect(const struct evidence *e, struct finding *f)
{
    const struct turn *x = e->list[0];

    if (x->status == 100)
        finding_set(f, VERDICT_INCONCLUSIVE, "100 before anything is decided: that alone says nothing");
    else if (turn_is_2xx(x))
        finding_set(f, VERDICT_FAIL, "%d to the head of a write", x->status);
    else if (turn_is_refusal(x))
        finding_set(f, VERDICT_PASS, "refused before the content: %d", x->status);
    else if (!turn_answered(x))
        finding_set(f, VERDICT_INCONCLUSIVE, "a head alone is not answered");
    else
        finding_set(f, VERDICT_INCONCLUSIVE, "the answer does not decide: %d", x->status);
}

#define READ "allow: GET and HEAD alone (a read preset); body: 0."

static const struct check checks[] = {
    {"PW-1", SEVERITY_CRITICAL, RUN_WRITES, send_publish, judge_publish, "Does a reader's credential publish?", "RFC 6750 3.1", "Demand a scope of its own for publishing (verdaccio: publish: nobody).", READ},
    {"PW-2", SEVERITY_HIGH, RUN_WRITES, send_tags, judge_tags, "Does a reader's credential set tags?", "", "Demand the scope for writing.", READ},
    {"PW-3", SEVERITY_HIGH, RUN_WRITES, send_delete, judge_delete, "Does a reader's credential delete?", "RFC 9110 9.3.5", "Demand the scope for writing; switch deletion off.", READ},
    {"PW-4", SEVERITY_HIGH, RUN_WRITES, send_methods, judge_methods, "Do methods that write work?", "RFC 4918", "Allow GET and HEAD alone (nginx: limit_except).", READ},
    {"PW-5", SEVERITY_MEDIUM, RUN_WRITES, send_unfinished, judge_session, "Does a reader's credential begin uploads?", "", "Demand the scope for writing before an upload begins.", READ},
    {"PW-6", SEVERITY_MEDIUM, 0, send_options, judge_options, "Are methods that write advertised to a reader?", "RFC 9110 10.2.1", "Advertise what the caller may do.", READ},
    {"PW-7", SEVERITY_MEDIUM, 0, send_expect, judge_expect, "Is a write refused before its content?", "RFC 9110 10.1.1", "Decide on the head.", READ},
};

const struct check_group check_publish = {"PW", "publishing with read scope", checks, COUNT(checks)};
