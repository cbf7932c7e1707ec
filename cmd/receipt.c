#include "cmd/receipt.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "cmd/admin.h"
#include "cmd/journal.h"
#include "journal/query.h"
#include "journal/view.h"

/* ---- into the journal ---- */

static void put(struct buf *line, const char *key, const char *value)
{
    if (!value || !*value)
        return;
    buf_printf(line, ",\"%s\":", key);
    text_json(line, slice_of(value));
}

char *receipt_hand(const char *admin, const struct receipt *r, const struct receipt_record *about, struct fault *why)
{
    struct buf line = {0};
    json_t *answer = NULL;
    char *id = NULL;

    if (!admin || !*admin) {
        fault_set(why, FAULT_MISSING, "the configuration has no admin.address, by which the gateway could be told");
        return NULL;
    }
    buf_printf(&line, "{\"command\":\"audit\",\"exchanges\":%zu,\"root\":\"", r->n);
    text_hex(&line, slice_make((const char *)r->root, RECEIPT_HASH));
    buf_text(&line, "\",\"checks\":");
    text_json(&line, buf_slice(&r->checks));
    put(&line, "service", about->service);
    put(&line, "outcome", about->outcome);
    put(&line, "detail", about->detail);
    put(&line, "sandbox", about->sandbox);
    put(&line, "canary", about->canary);
    buf_char(&line, '}');
    if ((answer = admin_call(admin, buf_slice(&line), why)))
        id = text_copy(slice_of(json_string_value(json_object_get(answer, "id"))));
    json_decref(answer);
    buf_free(&line);
    return id;
}

/* ---- out of it ---- */

struct search {
    const char *root; /* of the file */
    json_t *match;    /* the last record with it */
    json_t *last;     /* the last of all */
};

static bool look(void *arg, struct slice line)
{
    struct search *s = arg;
    json_t *record = json_loadb(line.ptr, line.len, 0, NULL);
    const char *root = view_text(record, "audit.root");

    if (root && strcmp(root, s->root) == 0) {
        json_decref(s->match);
        s->match = json_incref(record);
    }
    json_decref(s->last);
    s->last = record;
    return true;
}

static const char *word(const json_t *record, const char *name)
{
    const char *text = view_text(record, name);

    return text ? text : "";
}

static void put_match(const struct invocation *inv, const json_t *record, const struct receipt *r, struct buf *out)
{
    if (inv->json) {
        buf_printf(out, "{\"schema\":\"exeat.audit-receipt/1\",\"same\":true,\"exchanges\":%zu,\"root\":\"%s\",\"record\":\"%s\",\"ts\":\"%s\"}\n", r->n,
                   word(record, "audit.root"), word(record, "id"), word(record, "ts"));
        return;
    }
    buf_printf(out, "the same: these are the %zu exchanges of the audit of ", r->n);
    view_put(out, word(record, "service"));
    buf_text(out, " that the journal has since ");
    view_put(out, word(record, "ts"));
    buf_printf(out, " (%s; exeat why %s)\nwhether the journal itself is whole says exeat log verify\n", word(record, "outcome"), word(record, "id"));
}

static void put_other(const struct invocation *inv, const json_t *last, const struct receipt *r, struct buf *out)
{
    struct buf checks = {0};

    if (last)
        receipt_compare(slice_of(word(last, "audit.checks")), buf_slice(&r->checks), &checks);
    if (inv->json) {
        buf_printf(out, "{\"schema\":\"exeat.audit-receipt/1\",\"same\":false,\"exchanges\":%zu,\"record\":\"%s\",\"differs\":", r->n, word(last, "id"));
        text_json(out, buf_slice(&checks));
        buf_text(out, "}\n");
    } else if (!last) {
        buf_text(out, "NOT the same: the journal has no audit of this service\n");
    } else {
        buf_printf(out, "NOT the same as any audit of this service in the journal. The last, exeat why %s, has %lld exchanges, the file %zu; they differ in %.*s\n",
                   word(last, "id"), (long long)view_number(last, "audit.exchanges", 0), r->n, SLICE_ARG(buf_len(&checks) ? buf_slice(&checks) : SLICE("their order")));
    }
    buf_free(&checks);
}

static bool find(const char *directory, const char *service, const struct receipt *r, struct search *s, struct fault *why)
{
    struct query q = {.kind = record_kind_name(RECORD_AUDIT), .service = service};
    struct buf hex = {0};
    size_t matched;
    bool ok;

    text_hex(&hex, slice_make((const char *)r->root, RECEIPT_HASH));
    buf_char(&hex, '\0');
    s->root = buf_slice(&hex).ptr;
    ok = query_run(directory, &q, look, s, &matched, why);
    buf_free(&hex);
    return ok;
}

int receipt_check(const struct invocation *inv, const char *service, const char *path)
{
    struct fault why = {0}, bad = {0};
    struct buf text = {0}, out = {0};
    struct receipt r = {0};
    struct search s = {0};
    char *directory = NULL;
    int status;

    if (!file_read_regular(path, RECEIPT_MAX, &text, &why)) {
        status = command_fail(inv, &why);
    } else if (!receipt_make(buf_slice(&text), &r, &bad)) {
        fault_set(&why, FAULT_REFUSED, "%s: %s", path, bad.text);
        status = command_fail(inv, &why);
    } else if (!(directory = journal_directory(inv, &why)) || !find(directory, service, &r, &s, &why)) {
        status = command_fail(inv, &why);
    } else {
        if (s.match)
            put_match(inv, s.match, &r, &out);
        else
            put_other(inv, s.last, &r, &out);
        status = command_print(inv, &out);
        status = status == STATUS_YES && !s.match ? STATUS_NO : status;
    }
    json_decref(s.match);
    json_decref(s.last);
    receipt_clear(&r);
    free(directory);
    buf_free(&out);
    buf_free(&text);
    return status;
}
