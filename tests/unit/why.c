/* What an exchange's records come to when they are told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "journal/query.h"
#include "journal/story.h"
#include "tests/unit/scratch.h"
#include "tests/unit/journal_fixture.h"

#define TUNNEL "01890a5d-ac96-774b-bcce-b302099aaaaa"
#define INNER "01890a5d-ac96-774b-bcce-b302099bbbbb"
#define DENIED "01890a5d-ac96-774b-bcce-b302099ccccc"
#define TWIN "01890a5d-ac96-774b-0000-b302099ccccc"

static void put_dial(struct journal *j, const char *id, const char *address, enum reason reason, const char *detail)
{
    struct record_writer *w = journal_begin(j, RECORD_DIAL, id);

    record_text(w, FIELD_SANDBOX, SLICE("s1"));
    record_text(w, FIELD_HOST, SLICE("npm.example"));
    record_number(w, FIELD_PORT, 443);
    record_text(w, FIELD_ADDRESSES, SLICE("192.0.2.7, 192.0.2.8"));
    if (address)
        record_text(w, FIELD_ADDRESS, slice_of(address));
    record_text(w, FIELD_OUTCOME, address ? SLICE("complete") : SLICE("failed"));
    record_reason(w, FIELD_REASON, reason);
    if (detail)
        record_text(w, FIELD_DETAIL, slice_of(detail));
    record_number(w, FIELD_DURATION_US, 12345);
    journal_end(j, "porter");
}

static void put_result(struct journal *j, const char *id, const char *tunnel, int status, enum reason reason)
{
    struct record_writer *w = journal_begin(j, RECORD_RESULT, id);
    struct id parsed;

    if (tunnel) {
        assert_true(id_parse(slice_of(tunnel), &parsed));
        record_id(w, FIELD_TUNNEL, &parsed);
    }
    record_text(w, FIELD_SANDBOX, SLICE("s1"));
    record_number(w, FIELD_STATUS, status);
    if (reason != REASON_NONE)
        record_reason(w, FIELD_REASON, reason);
    record_number(w, FIELD_REQUEST_BYTES, 17);
    record_number(w, FIELD_RESPONSE_BYTES, 4711);
    record_number(w, FIELD_DURATION_US, 2345678);
    record_text(w, FIELD_OUTCOME, reason == REASON_NONE ? SLICE("complete") : SLICE("failed"));
    journal_end(j, "worker 0");
}

/* As on a transparent listener; NULL: without. */
static void journal_decision_by(struct journal *j, const char *id, const char *way, const char *meant)
{
    struct record_writer *w = journal_begin(j, RECORD_DECISION, id);

    record_text(w, FIELD_ACTION, SLICE("allow"));
    record_reason(w, FIELD_REASON, REASON_ALLOWED);
    record_text(w, FIELD_LISTENER, SLICE("explicit"));
    record_text_if(w, FIELD_ARRIVAL, way);
    record_text_if(w, FIELD_MEANT, meant);
    record_text(w, FIELD_METHOD, SLICE("GET"));
    record_text(w, FIELD_SCHEME, SLICE("https"));
    record_text(w, FIELD_HOST, SLICE("npm.example"));
    record_number(w, FIELD_PORT, 443);
    record_text(w, FIELD_PATH, SLICE("/x"));
    journal_end(j, "worker 0");
}

/* A tunnel, a request through it, a refused one, and a finding. */
static void write_journal(struct journal *j)
{
    struct record_writer *w;

    journal_open(j, 1000);
    journal_decision(j, TUNNEL, NULL, "s1", "CONNECT", "npm.example", NULL, REASON_ALLOWED);
    put_dial(j, TUNNEL, "192.0.2.7:443", REASON_ALLOWED, NULL);
    journal_decision(j, INNER, TUNNEL, "s1", "GET", "npm.example", "/left-pad", REASON_ALLOWED);
    put_result(j, INNER, TUNNEL, 200, REASON_NONE);
    journal_decision(j, DENIED, TUNNEL, "s1", "POST", "npm.example", "/-/user", REASON_CANARY_LEAK);
    w = journal_begin(j, RECORD_FINDING, DENIED);
    record_reason(w, FIELD_REASON, REASON_CANARY_LEAK);
    record_text(w, FIELD_CANARY, SLICE("c-17"));
    record_text(w, FIELD_CANARY_ENCODING, SLICE("base64"));
    record_text(w, FIELD_CANARY_PLACE, SLICE("body"));
    record_number(w, FIELD_CANARY_OFFSET, 5);
    record_text(w, FIELD_CANARY_OWNER, SLICE("s2"));
    journal_end(j, "worker 0");
    put_result(j, TUNNEL, NULL, 200, REASON_NONE);
}

/* The answer as text; "" when there is none. */
static char *ask(struct journal *j, const char *id, const char *sandbox)
{
    struct buf out = {0};
    struct fault why = {0};

    if (!query_why(j->scratch.path, &(struct why_which){.id = id, .sandbox = sandbox}, false, &out, &why)) {
        assert_int_equal(why.kind, FAULT_REFUSED);
        assert_int_equal(buf_len(&out), 0);
    }
    return buf_take_text(&out);
}

static void must_say(const char *text, const char *sentence)
{
    if (!text || !strstr(text, sentence))
        fail_msg("not said: %s\nbut:\n%s", sentence, text ? text : "");
}

static void must_not_say(const char *text, const char *sentence)
{
    if (!text || strstr(text, sentence))
        fail_msg("said: %s\nin:\n%s", sentence, text ? text : "");
}

static size_t lines_of(const char *text)
{
    size_t n = 0;

    for (; *text; text++)
        n += *text == '\n';
    return n;
}

static void an_allowed_request_is_told_from_who_to_bytes(void **state)
{
    struct journal j;
    char *text;

    (void)state;
    write_journal(&j);
    text = ask(&j, "9bbbbb", NULL);
    must_say(text, "Exchange " INNER);
    must_say(text, "Sandbox s1, by leave token j1 of https://ci.example, from 10.0.0.7:51234 on listener explicit, asked for "
                   "GET https://npm.example/left-pad, inside the tunnel " TUNNEL ".\n");
    must_say(text, "The gateway allowed it: service npm, rule GET,HEAD /**.\n");
    must_say(text, "For its tunnel the porter dialled 192.0.2.7:443, connected in 12 ms.\n");
    must_say(text, "The client got status 200; 17 bytes of body went to the service and 4711 came back, in 2.3 s; outcome: "
                   "complete.\n");
    must_not_say(text, "c-17"); /* another exchange's */
    assert_in_range(lines_of(text) - 1, 3, 8);
    free(text);
    journal_close(&j);
}

static void how_it_came_to_a_transparent_listener(void **state)
{
    static const struct {
        const char *way, *meant, *told; /* way NULL: it came to an explicit one */
    } rows[] = {
        {"redirect", "203.0.113.10:443", "It meant to connect to 203.0.113.10:443, and the firewall brought it here (REDIRECT).\n"},
        {"tproxy", "[2001:db8::7]:443", "It meant to connect to [2001:db8::7]:443, and the firewall brought it here (TPROXY).\n"},
        {"direct", "10.66.0.1:443", "It connected to 10.66.0.1:443, this listener: a name led it here, and no firewall.\n"},
        {"tunnel\x1b[1m", "10.66.0.1:443", "It meant to connect to 10.66.0.1:443, and came by tunnel"},
        {"redirect", NULL, NULL},
        {NULL, NULL, NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct journal j;
        char *text;

        journal_open(&j, 1 << 20);
        journal_decision_by(&j, INNER, rows[i].way, rows[i].meant);
        text = ask(&j, INNER, NULL);
        must_say(text, "on listener explicit, asked for GET https://npm.example/x.\n");
        if (rows[i].told)
            must_say(text, rows[i].told);
        else
            must_not_say(text, "connect");
        must_not_say(text, "\x1b");
        free(text);
        journal_close(&j);
    }
}

static void a_refusal_says_why_and_what_to_do(void **state)
{
    struct journal j;
    char *text;

    (void)state;
    write_journal(&j);
    text = ask(&j, DENIED, NULL);
    must_say(text, "The gateway refused it: canary_leak (severity critical): The request carries a planted canary secret.\n");
    must_say(text, "What you can do: Look at the sandbox: it read something it should not have.\n");
    must_say(text, "The canary c-17, planted for s2, was seen in body, encoded as base64, at offset 5.\n");
    must_not_say(text, "still under way");
    must_not_say(text, "dialled"); /* it did not get that far */
    free(text);
    journal_close(&j);
}

static void a_refusal_without_advice_points_to_explain(void **state)
{
    struct journal j;
    char *text;

    (void)state;
    journal_open(&j, 1 << 20);
    journal_decision(&j, DENIED, NULL, "s1", "POST", "npm.example", "/x", REASON_METHOD_NOT_ALLOWED);
    text = ask(&j, NULL, NULL);
    must_say(text, "What you can do: Look at each step with exeat explain");
    free(text);
    journal_close(&j);
}

static void a_tunnel_counts_what_came_through(void **state)
{
    struct journal j;
    struct record_writer *w;
    struct id tunnel;
    char *text;

    (void)state;
    write_journal(&j);
    w = journal_begin(&j, RECORD_CONNECTION, NULL);
    id_parse(SLICE(TUNNEL), &tunnel);
    record_id(w, FIELD_TUNNEL, &tunnel);
    record_reason(w, FIELD_REASON, REASON_CLIENT_UNKNOWN_CA);
    journal_end(&j, "worker 0");
    text = ask(&j, "9aaaaa", NULL);
    must_say(text, "asked for CONNECT npm.example:443.\n");
    must_say(text, "2 requests came through this tunnel, 1 of them refused.\n");
    must_say(text, "About the connection: client_unknown_ca (severity medium): The client does not trust the gateway's CA.");
    must_say(text, "What you can do: Install it: exeat ca export, exeat env.\n");
    free(text);
    journal_close(&j);
}

static void a_failed_dial_is_told_once(void **state)
{
    struct journal j;
    char *text, *first;

    (void)state;
    journal_open(&j, 1 << 20);
    journal_decision(&j, INNER, NULL, "s1", "GET", "npm.example", "/x", REASON_ALLOWED);
    put_dial(&j, INNER, NULL, REASON_CONNECT_REFUSED, "192.0.2.7:443: Connection refused");
    put_result(&j, INNER, NULL, 502, REASON_CONNECT_REFUSED);
    text = ask(&j, INNER, NULL);
    must_say(text, "The porter could not reach npm.example:443, which resolves to 192.0.2.7, 192.0.2.8: connect_refused");
    must_say(text, "In this case: 192.0.2.7:443: Connection refused.");
    must_say(text, "status 502");
    first = strstr(text, "connect_refused");
    assert_null(strstr(first + 1, "connect_refused"));
    free(text);
    journal_close(&j);
}

static void a_late_failure_is_told_with_its_own_reason(void **state)
{
    struct journal j;
    char *text;

    (void)state;
    journal_open(&j, 1 << 20);
    journal_decision(&j, INNER, NULL, "s1", "GET", "npm.example", "/x", REASON_ALLOWED);
    put_dial(&j, INNER, "192.0.2.7:443", REASON_ALLOWED, NULL);
    put_result(&j, INNER, NULL, 502, REASON_UPSTREAM_CERTIFICATE);
    text = ask(&j, INNER, NULL);
    must_say(text, "The porter dialled 192.0.2.7:443");
    must_say(text, "It did not go well: upstream_certificate (severity high): The service's certificate does not verify.\n");
    must_say(text, "What you can do: For a private CA set ca-file.\n");
    free(text);
    journal_close(&j);
}

static void without_an_end_it_says_so(void **state)
{
    struct journal j;
    char *text;

    (void)state;
    journal_open(&j, 1 << 20);
    journal_decision(&j, INNER, NULL, "s1", "GET", "npm.example", "/x", REASON_ALLOWED);
    text = ask(&j, NULL, NULL);
    must_say(text, "There is no record of its end");
    free(text);
    journal_close(&j);
}

static void without_a_token_nobody_is_named(void **state)
{
    struct journal j;
    char *text;

    (void)state;
    journal_open(&j, 1 << 20);
    journal_decision(&j, DENIED, NULL, NULL, "CONNECT", "npm.example", NULL, REASON_TOKEN_MISSING);
    text = ask(&j, NULL, NULL);
    must_say(text, "A client without a verified leave token, from 10.0.0.7:51234 on listener explicit, asked for");
    must_say(text, "token_missing");
    must_say(text, "What you can do: Give the client one: exeat token issue, then exeat env.");
    free(text);
    journal_close(&j);
}

static void the_last_one_is_of_the_sandbox_asked_for(void **state)
{
    struct journal j;
    char *text;

    (void)state;
    write_journal(&j);
    journal_decision(&j, TWIN, NULL, "s9", "GET", "npm.example", "/other", REASON_ALLOWED);
    text = ask(&j, NULL, NULL);
    must_say(text, "Exchange " TWIN);
    free(text);
    text = ask(&j, NULL, "s1");
    must_say(text, "Exchange " DENIED);
    free(text);
    text = ask(&j, NULL, "s0");
    assert_string_equal(text, "");
    free(text);
    journal_close(&j);
}

static void a_short_id_that_fits_two_gives_the_later_and_names_the_other(void **state)
{
    struct journal j;
    char *text;

    (void)state;
    write_journal(&j);
    journal_decision(&j, TWIN, NULL, "s9", "GET", "npm.example", "/other", REASON_ALLOWED);
    text = ask(&j, "9ccccc", NULL);
    must_say(text, "Exchange " TWIN);
    must_say(text, "The same short id also fits: " DENIED ".\n");
    must_not_say(text, "canary_leak");
    free(text);
    text = ask(&j, "9ccccc", "s1");
    must_say(text, "Exchange " DENIED);
    must_not_say(text, "also fits");
    free(text);
    journal_close(&j);
}

static void an_id_that_is_not_there_is_a_negative_answer(void **state)
{
    struct journal j;
    char *text;

    (void)state;
    write_journal(&j);
    text = ask(&j, "000000", NULL);
    assert_string_equal(text, "");
    free(text);
    text = ask(&j, "ffffffff-ffff-7fff-8000-000000000000", NULL); /* of a time that no clock here can count */
    assert_string_equal(text, "");
    free(text);
    journal_close(&j);
    journal_open(&j, 1 << 20); /* nothing in it at all */
    text = ask(&j, NULL, NULL);
    assert_string_equal(text, "");
    free(text);
    journal_close(&j);
}

/* git shows a number and asks on: the refusal is not the last thing that happened. */
static void the_last_refused_is_found_behind_what_was_allowed(void **state)
{
    struct why_which which = {.refused = true};
    struct buf out = {0};
    struct fault why = {0};
    struct journal j;

    (void)state;
    journal_open(&j, 1 << 20);
    journal_decision(&j, DENIED, NULL, "s1", "POST", "npm.example", "/-/user", REASON_METHOD_NOT_ALLOWED);
    journal_decision(&j, INNER, NULL, "s1", "GET", "npm.example", "/left-pad", REASON_ALLOWED);
    journal_decision(&j, TUNNEL, NULL, "s2", "CONNECT", "npm.example", NULL, REASON_ALLOWED);
    assert_true(query_why(j.scratch.path, &which, false, &out, &why));
    buf_char(&out, '\0');
    must_say(buf_slice(&out).ptr, "Exchange " DENIED);
    buf_clear(&out);
    which.sandbox = "s2";
    assert_false(query_why(j.scratch.path, &which, false, &out, &why));
    assert_int_equal(why.kind, FAULT_REFUSED);
    assert_string_equal(why.text, "the journal holds no refused exchange of sandbox s2 yet");
    buf_free(&out);
    journal_close(&j);
}

static void hostile_text_stays_text(void **state)
{
    struct journal j;
    char *text;

    (void)state;
    journal_open(&j, 1 << 20);
    journal_decision(&j, INNER, NULL, "s1\x1b[2J", "GET", "npm.example\nThe gateway allowed it", "/\xc2\x9b" "31m",
                     REASON_HOST_NOT_LISTED);
    text = ask(&j, NULL, NULL);
    must_say(text, "Sandbox s1\\x1b[2J");
    must_say(text, "npm.example\\x0aThe gateway allowed it/\\u009b31m");
    must_not_say(text, "\x1b");
    free(text);
    journal_close(&j);
}

/* Whoever can write to the file writes what no record of ours holds. */
static void a_line_put_there_by_hand_stays_text(void **state)
{
    static const struct {
        const char *line, *said;
    } rows[] = {
        {"{\"kind\":\"decision\",\"id\":\"" DENIED "\",\"http\":{\"scheme\":\"h\\u001b[2J\",\"host\":\"npm.example\"}}\n", "h\\x1b[2J://npm"},
        {"{\"kind\":\"decision\",\"id\":\"\\u001b[2J-b302099ccccc\"}\n", "Exchange \\x1b[2J-b302099ccccc"},
        {"{\"kind\":\"decision\",\"id\":\"" TWIN "\"}\n", "also fits: "},
    };
    struct journal j;
    char *text;

    (void)state;
    journal_open(&j, 1 << 20);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        scratch_put(&j.scratch, "000000000001.ndjson", O_APPEND, slice_of(rows[i].line));
        text = ask(&j, "99ccccc", NULL);
        must_say(text, rows[i].said);
        must_not_say(text, "\x1b");
        free(text);
    }
    journal_close(&j);
}

static void as_json_it_is_one_object_with_the_records(void **state)
{
    struct journal j;
    struct buf out = {0};
    json_t *o;

    (void)state;
    write_journal(&j);
    assert_true(query_why(j.scratch.path, &(struct why_which){.id = DENIED}, true, &out, NULL));
    o = json_loadb(buf_slice(&out).ptr, buf_len(&out), JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(o);
    assert_string_equal(json_string_value(json_object_get(o, "schema")), "exeat.why/1");
    assert_string_equal(json_string_value(json_object_get(o, "id")), DENIED);
    assert_string_equal(json_string_value(json_object_get(o, "tunnel")), TUNNEL);
    assert_string_equal(json_string_value(json_object_get(o, "action")), "deny");
    assert_string_equal(json_string_value(json_object_get(o, "reason")), "canary_leak");
    assert_string_equal(json_string_value(json_object_get(o, "operator")),
                        "Look at the sandbox: it read something it should not have.");
    assert_int_equal(json_array_size(json_object_get(o, "records")), 2);
    assert_true(json_array_size(json_object_get(o, "story")) >= 3);
    json_decref(o);
    buf_free(&out);
    journal_close(&j);
}

static void every_reason_is_a_sentence(void **state)
{
    (void)state;
    for (int r = 0; r < N_REASONS; r++) {
        struct slice what = reason_sentence((enum reason)r), advice = reason_advice((enum reason)r);

        if (!slice_ends(what, SLICE(".")) || (advice.len && !slice_ends(advice, SLICE("."))))
            fail_msg("%s", reason_code((enum reason)r));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_allowed_request_is_told_from_who_to_bytes),
        cmocka_unit_test(how_it_came_to_a_transparent_listener),
        cmocka_unit_test(a_refusal_says_why_and_what_to_do),
        cmocka_unit_test(a_refusal_without_advice_points_to_explain),
        cmocka_unit_test(a_tunnel_counts_what_came_through),
        cmocka_unit_test(a_failed_dial_is_told_once),
        cmocka_unit_test(a_late_failure_is_told_with_its_own_reason),
        cmocka_unit_test(without_an_end_it_says_so),
        cmocka_unit_test(without_a_token_nobody_is_named),
        cmocka_unit_test(the_last_one_is_of_the_sandbox_asked_for),
        cmocka_unit_test(a_short_id_that_fits_two_gives_the_later_and_names_the_other),
        cmocka_unit_test(an_id_that_is_not_there_is_a_negative_answer),
        cmocka_unit_test(the_last_refused_is_found_behind_what_was_allowed),
        cmocka_unit_test(hostile_text_stays_text),
        cmocka_unit_test(a_line_put_there_by_hand_stays_text),
        cmocka_unit_test(as_json_it_is_one_object_with_the_records),
        cmocka_unit_test(every_reason_is_a_sentence),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
