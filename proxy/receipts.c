/* Receipts of audits, for the journal: who audited what, what came of it, and the hash that stands for what was sent and received. */
#include <jansson.h>
#include <string.h>

#include "base/text.h"
#include "proxy/supervisor.h"

enum { ROOT_DIGITS = 64 };

static const char *text_of(const json_t *request, const char *key)
{
    const char *text = json_string_value(json_object_get(request, key));

    return text ? text : "";
}

static void put(struct record_writer *w, enum record_field field, const char *text)
{
    if (*text)
        record_text(w, field, slice_of(text));
}

static void record(struct supervisor *s, const struct asker *who, const json_t *request, struct slice root, const struct id *id)
{
    struct record_writer w = recorder_begin(s->recorder, RECORD_AUDIT);

    record_id(&w, FIELD_ID, id);
    put(&w, FIELD_SERVICE, text_of(request, "service"));
    put(&w, FIELD_OUTCOME, text_of(request, "outcome"));
    put(&w, FIELD_SANDBOX, text_of(request, "sandbox"));
    put(&w, FIELD_CANARY, text_of(request, "canary"));
    record_number(&w, FIELD_AUDIT_EXCHANGES, json_integer_value(json_object_get(request, "exchanges")));
    record_hex(&w, FIELD_AUDIT_ROOT, root);
    put(&w, FIELD_AUDIT_CHECKS, text_of(request, "checks"));
    put(&w, FIELD_DETAIL, text_of(request, "detail"));
    record_text(&w, FIELD_BY, SLICE("admin"));
    record_number(&w, FIELD_UID, (int64_t)who->uid);
    recorder_end(s->recorder, &w, NULL);
}

json_t *receipt_order(struct supervisor *s, const struct asker *who, const json_t *request)
{
    struct id id = id_new(loop_wall_ns(s->loop) / 1000000);
    const char *root = text_of(request, "root");
    struct buf bytes = {0}, text = {0};
    json_t *answer;

    if (!*text_of(request, "service") || !*text_of(request, "outcome") || strlen(root) != ROOT_DIGITS || !text_unhex(slice_of(root), &bytes)) {
        answer = json_pack("{s:b, s:s}", "ok", 0, "error", "audit wants service, outcome, and root: a SHA-256 in hexadecimal");
    } else {
        record(s, who, request, buf_slice(&bytes), &id);
        id_text(&text, &id);
        answer = json_pack("{s:b, s:s%}", "ok", 1, "id", buf_slice(&text).ptr, buf_len(&text));
    }
    buf_free(&bytes);
    buf_free(&text);
    return answer;
}
