/* Words for records. Every text from a record goes through view_put: whoever chose it does not choose what a terminal does. */
#include "journal/story.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "base/clock.h"
#include "journal/view.h"

enum { NO_CODE = 1005 /* RFC 6455 7.1.5 */ };

/* The sentence in b, which is empty after. */
static void add(json_t *story, struct buf *b)
{
    if (buf_len(b))
        json_array_append_new(story, json_stringn(buf_slice(b).ptr, buf_len(b)));
    buf_clear(b);
}

/* "before text" when the member is there. */
static void put(struct buf *b, const char *before, const json_t *record, const char *name)
{
    const char *text = view_text(record, name);

    if (!text || !*text)
        return;
    buf_text(b, before);
    view_put(b, text);
}

static void tell_who(json_t *story, struct buf *b, const json_t *d)
{
    if (view_text(d, "sandbox")) {
        put(b, "Sandbox ", d, "sandbox");
        put(b, ", by leave token ", d, "token.jti");
        put(b, " of ", d, "token.iss");
    } else {
        buf_text(b, view_text(d, "dns.type") ? "A client" : "A client without a verified leave token");
    }
    put(b, ", from ", d, "client");
    put(b, " on listener ", d, "listener");
    buf_text(b, ", asked for ");
    view_put_request(b, d);
    put(b, ", inside the tunnel ", d, "tunnel");
    buf_char(b, '.');
    add(story, b);
}

/* To a transparent listener: what the client thinks it talks to. */
static void tell_arrival(json_t *story, struct buf *b, const json_t *d)
{
    const char *way = view_text(d, "arrival");

    if (!way || !view_text(d, "meant"))
        return;
    if (strcmp(way, "direct") == 0) {
        put(b, "It connected to ", d, "meant");
        buf_text(b, ", this listener: a name led it here, and no firewall.");
    } else {
        put(b, "It meant to connect to ", d, "meant");
        if (strcmp(way, "redirect") == 0 || strcmp(way, "tproxy") == 0)
            buf_printf(b, ", and the firewall brought it here (%s).", strcmp(way, "tproxy") == 0 ? "TPROXY" : "REDIRECT");
        else
            put(b, ", and came by ", d, "arrival");
    }
    add(story, b);
}

/* The reason's own words, what was seen, and what can be done. */
static void tell_reason(json_t *story, struct buf *b, const json_t *record, const char *before)
{
    const char *code = view_text(record, "reason"), *detail = view_text(record, "detail");
    struct slice what = {"", 0}, advice = {"", 0};
    enum reason r;

    buf_text(b, before);
    view_put(b, code ? code : "no reason");
    put(b, " (severity ", record, "severity");
    if (view_text(record, "severity"))
        buf_char(b, ')');
    if (code && reason_find(slice_of(code), &r)) {
        what = reason_sentence(r);
        advice = reason_advice(r);
    }
    buf_text(b, what.len ? ": " : ".");
    buf_append(b, what);
    if (detail && *detail) {
        buf_text(b, " In this case: ");
        view_put(b, detail);
        buf_char(b, '.');
    }
    add(story, b);
    if (advice.len) {
        buf_text(b, "What you can do: ");
        buf_append(b, advice);
        add(story, b);
    }
}

static bool is_refusal(const json_t *decision)
{
    const char *action = view_text(decision, "action");

    return action && strcmp(action, "deny") == 0;
}

static bool has_advice(const json_t *record)
{
    enum reason r;

    return reason_find(slice_of(view_text(record, "reason")), &r) && reason_advice(r).len > 0;
}

static void tell_decision(json_t *story, struct buf *b, const json_t *d)
{
    if (is_refusal(d)) {
        tell_reason(story, b, d, "The gateway refused it: ");
        if (!has_advice(d))
            buf_printf(b, "What you can do: Look at each step with exeat explain %s, then change the request, the "
                          "token or the rule.", view_text(d, "dns.type") ? "--dns NAME" : "METHOD URL");
        add(story, b);
        return;
    }
    buf_text(b, "The gateway allowed it");
    put(b, ": service ", d, "service");
    put(b, ", rule ", d, "rule");
    if (view_flag(d, "observed"))
        buf_text(b, "; the service is only observed, no rule matched");
    buf_char(b, '.');
    add(story, b);
}

static const char *dial_verb(const char *outcome)
{
    if (strcmp(outcome, "refused") == 0)
        return "refused to dial";
    return strcmp(outcome, "cut") == 0 ? "gave up dialling" : "could not reach";
}

static void tell_dial(json_t *story, struct buf *b, const json_t *dial, bool of_tunnel)
{
    const char *address = view_text(dial, "address"), *outcome = view_text(dial, "outcome");
    const char *reason = view_text(dial, "reason");
    int64_t us = view_number(dial, "duration_us", -1);
    bool failed = (reason && strcmp(reason, "allowed") != 0 && strcmp(reason, "none") != 0) || !address;

    if (!dial)
        return;
    if (failed) {
        buf_printf(b, "The porter %s ", dial_verb(outcome ? outcome : ""));
        view_put_request(b, dial);
        put(b, ", which resolves to ", dial, "addresses");
        tell_reason(story, b, dial, ": ");
        return;
    }
    buf_printf(b, "%s dialled ", of_tunnel ? "For its tunnel the porter" : "The porter");
    view_put(b, address);
    if (us >= 0) {
        buf_text(b, ", connected in ");
        view_put_duration(b, us);
    }
    buf_char(b, '.');
    add(story, b);
}

static void tell_finding(json_t *story, struct buf *b, const json_t *f)
{
    if (!view_text(f, "canary.id")) {
        tell_reason(story, b, f, "It was noticed: ");
        return;
    }
    put(b, "The canary ", f, "canary.id");
    put(b, ", planted for ", f, "canary.owner");
    put(b, view_text(f, "canary.owner") ? ", was seen in " : " was seen in ", f, "canary.place");
    put(b, ", encoded as ", f, "canary.encoding");
    if (view_number(f, "canary.offset", -1) >= 0)
        buf_printf(b, ", at offset %" PRId64, view_number(f, "canary.offset", 0));
    buf_char(b, '.');
    add(story, b);
}

static bool has_reason(const json_t *record, const char *code)
{
    const char *own = view_text(record, "reason");

    return own && strcmp(own, code) == 0;
}

/* The result gives a reason that neither the decision nor the dial has given already. */
static bool is_news(const struct story *s)
{
    const char *code = view_text(s->result, "reason");

    return code && strcmp(code, "allowed") != 0 && strcmp(code, "none") != 0 && !has_reason(s->decision, code) &&
           !has_reason(s->dial, code);
}

static void tell_websocket(json_t *story, struct buf *b, const json_t *r)
{
    int64_t client = view_number(r, "websocket.client_frames", -1), code = view_number(r, "websocket.close", 0);

    if (client < 0)
        return;
    buf_printf(b, "It was a WebSocket: %" PRId64 " frame%s came from the client, %" PRId64 " from the service", client,
               client == 1 ? "" : "s", view_number(r, "websocket.service_frames", 0));
    if (code == NO_CODE)
        buf_text(b, "; it was closed without a code");
    else if (code)
        buf_printf(b, "; it was closed with %" PRId64, code);
    buf_char(b, '.');
    add(story, b);
}

static void tell_result(json_t *story, struct buf *b, const struct story *s)
{
    const json_t *r = s->result;
    int64_t status = view_number(r, "http.status", 0), us = view_number(r, "duration_us", -1);

    if (!r && !s->question && !is_refusal(s->decision) && json_array_size(s->sums) == 0)
        buf_text(b, "There is no record of its end: it is still under way, or the worker died.");
    add(story, b);
    if (!r)
        return;
    if (is_news(s))
        tell_reason(story, b, r, "It did not go well: ");
    if (status)
        buf_printf(b, "The client got status %" PRId64 "; ", status);
    else
        buf_text(b, "The client got no status; ");
    buf_printf(b, "%" PRId64 " bytes of body went to the service and %" PRId64 " came back",
               view_number(r, "http.request_bytes", 0), view_number(r, "http.response_bytes", 0));
    if (us >= 0) {
        buf_text(b, ", in ");
        view_put_duration(b, us);
    }
    if (view_flag(r, "reused"))
        buf_text(b, ", over a pooled connection");
    put(b, "; outcome: ", r, "outcome");
    buf_char(b, '.');
    add(story, b);
    tell_websocket(story, b, r);
}

static void tell_tunnel(json_t *story, struct buf *b, const struct story *s)
{
    if (s->inner)
        buf_printf(b, "%zu request%s came through this tunnel, %zu of them refused.", s->inner, s->inner == 1 ? "" : "s",
                   s->inner_refused);
    add(story, b);
    if (s->connection)
        tell_reason(story, b, s->connection, "About the connection: ");
}

/* Over a limit only the first refusal is recorded for itself. */
static void tell_sums(json_t *story, struct buf *b, const struct story *s)
{
    const json_t *last = json_array_get(s->sums, json_array_size(s->sums) - 1);
    int64_t count = 0;

    if (!last)
        return;
    for (size_t i = 0; i < json_array_size(s->sums); i++)
        count += view_number(json_array_get(s->sums, i), "limit.count", 0);
    if (!s->decision) {
        put(b, "Sandbox ", last, "sandbox");
        put(b, "The source ", last, "client");
        tell_reason(story, b, last, " was refused: ");
    }
    buf_printf(b, "%" PRId64 "%s refusal%s for the same reason %s only counted and answered with this id, from ", count,
               s->decision ? " further" : "", count == 1 ? "" : "s", count == 1 ? "was" : "were");
    clock_time_of_day(b, view_number(json_array_get(s->sums, 0), "limit.first", 0));
    buf_text(b, " to ");
    clock_time_of_day(b, view_number(last, "limit.last", 0));
    buf_text(b, " (UTC).");
    add(story, b);
}

static void tell_question(json_t *story, struct buf *b, const struct story *s)
{
    put(b, "It was answered ", s->question, "dns.code");
    put(b, ": ", s->question, "addresses");
    put(b, ", by ", s->question, "dns.transport");
    if (buf_len(b))
        buf_char(b, '.');
    add(story, b);
    if (!s->lookup)
        return;
    put(b, "The porter looked up ", s->lookup, "http.host");
    put(b, ": ", s->lookup, "addresses");
    put(b, "; outcome: ", s->lookup, "outcome");
    put(b, ", ", s->lookup, "detail");
    buf_char(b, '.');
    add(story, b);
}

/* Whoever has the file of exchanges can show that it is the one; the record stands for it. */
static void tell_audit(json_t *story, struct buf *b, const json_t *audit)
{
    put(b, "Service ", audit, "service");
    put(b, " was audited; outcome: ", audit, "outcome");
    put(b, " (", audit, "detail");
    buf_text(b, view_text(audit, "detail") ? ")." : ".");
    add(story, b);
    if (view_text(audit, "sandbox")) {
        put(b, "A secret was planted for it, canary ", audit, "canary.id");
        put(b, ", and sent from inside sandbox ", audit, "sandbox");
        buf_text(b, ": what the journal has of that canary is the audit's.");
        add(story, b);
    }
    buf_printf(b, "%" PRId64 " exchanges", view_number(audit, "audit.exchanges", 0));
    put(b, " have the hash ", audit, "audit.root");
    put(b, "; whether a file of them is the same says exeat audit ", audit, "service");
    buf_text(b, " --check-exchanges FILE.");
    add(story, b);
}

json_t *story_tell(const struct story *s)
{
    json_t *story = json_array();
    struct buf b = {0};

    if (s->audit) {
        tell_audit(story, &b, s->audit);
        buf_free(&b);
        return story;
    }

    if (s->decision) {
        tell_who(story, &b, s->decision);
        tell_arrival(story, &b, s->decision);
        tell_decision(story, &b, s->decision);
    } else if (json_array_size(s->sums) == 0) {
        buf_text(&b, "The journal holds no decision about it, only what follows.");
        add(story, &b);
    }
    tell_question(story, &b, s);
    tell_sums(story, &b, s);
    for (size_t i = 0; i < json_array_size(s->findings); i++)
        tell_finding(story, &b, json_array_get(s->findings, i));
    if (s->dial || !is_refusal(s->decision))
        tell_dial(story, &b, s->dial ? s->dial : s->tunnel_dial, !s->dial);
    if (s->certificate) {
        put(&b, "A certificate was made for ", s->certificate, "http.host");
        put(&b, ", serial ", s->certificate, "certificate.serial");
        buf_char(&b, '.');
        add(story, &b);
    }
    tell_result(story, &b, s);
    tell_tunnel(story, &b, s);
    buf_free(&b);
    return story;
}
