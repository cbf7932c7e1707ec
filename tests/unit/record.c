/* Records as messages and as JSON members: every byte comes out as data, groups are one object, no token passes. */
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/pack.h"
#include "journal/record.h"
#include "tests/unit/record_fixture.h"

/* The only record of batch as a parsed object; the text stays in *line. */
static json_t *read_one(const struct buf *batch, struct buf *line)
{
    struct slice rest = buf_slice(batch);
    enum record_kind kind;
    json_error_t error;
    bool bad;

    buf_clear(line);
    buf_char(line, '{');
    assert_true(record_next(&rest, &kind, line, &bad));
    buf_char(line, '}');
    assert_int_equal(rest.len, 0);
    assert_false(record_next(&rest, &kind, line, &bad));
    assert_false(bad);
    json_t *o = json_loadb(buf_slice(line).ptr, buf_len(line), JSON_REJECT_DUPLICATES, &error);

    if (!o)
        fail_msg("%s: %.*s", error.text, (int)buf_len(line), buf_slice(line).ptr);
    return o;
}

static const char *member(const json_t *o, const char *group, const char *key)
{
    return json_string_value(json_object_get(group ? json_object_get(o, group) : o, key));
}

static const struct text_row {
    const char *name;
    struct slice in;
    const char *out; /* as jansson reads it back */
} texts[] = {
    {"plain", SLICE("npm"), "npm"},
    {"empty", SLICE(""), ""},
    {"quotes and backslash", SLICE("a\"b\\c"), "a\"b\\c"},
    {"a newline cannot begin a second line", SLICE("x\n{\"seq\":1}"), "x\n{\"seq\":1}"},
    {"ANSI escape", SLICE("\x1b[2J"), "\x1b[2J"},
    {"DEL", SLICE("a\x7f"), "a\x7f"},
    {"UTF-8 stays", SLICE("gr\xc3\xbc\xc3\x9f"), "gr\xc3\xbc\xc3\x9f"},
    {"invalid UTF-8: each byte as its number", SLICE("\xff\xc3"), "\xc3\xbf\xc3\x83"},
    {"surrogate half", SLICE("\xed\xa0\x80"), "\xc3\xad\xc2\xa0\xc2\x80"},
    {"eight plain bytes, then a quote", SLICE("12345678\""), "12345678\""},
    {"control at the eighth byte", SLICE("1234567\x01" "9"), "1234567\x01" "9"},
};

static void hostile_bytes_are_data_in_every_text_field(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        for (unsigned f = 0; f < N_RECORD_FIELDS; f++) {
            struct buf batch = {0}, line = {0};

            if (record_field_type(f) != TYPE_TEXT)
                continue;
            struct record_writer w = record_begin(&batch, RECORD_DECISION);

            record_text(&w, f, texts[i].in);
            record_end(&w);
            json_t *o = read_one(&batch, &line);
            char *name = strdup(record_field_name(f)), *dot = strchr(name, '.');

            if (dot)
                *dot = '\0';
            if (strcmp(member(o, dot ? name : NULL, dot ? dot + 1 : name), texts[i].out) != 0)
                fail_msg("%s, field %s: %s", texts[i].name, record_field_name(f), buf_slice(&line).ptr);
            assert_null(memchr(buf_slice(&line).ptr, '\n', buf_len(&line)));
            free(name);
            json_decref(o);
            buf_free(&batch);
            buf_free(&line);
        }
}

static void a_nul_byte_is_written_as_its_symbol_for_readers_take_no_nul(void **state)
{
    struct buf batch = {0}, line = {0};
    struct slice rest;
    json_t *read;
    enum record_kind kind;
    bool bad;

    (void)state;
    struct record_writer w = record_begin(&batch, RECORD_DECISION);
    record_text(&w, FIELD_PATH, slice_make("/a\0b", 4));
    record_end(&w);
    rest = buf_slice(&batch);
    assert_true(record_next(&rest, &kind, &line, &bad));
    assert_true(slice_is(buf_slice(&line), "\"http\":{\"path\":\"/a\\u2400b\"}"));
    read = json_loadb(buf_slice(&line).ptr + 7, buf_len(&line) - 7, JSON_REJECT_DUPLICATES, NULL); /* behind "http": */
    assert_non_null(read);
    json_decref(read);
    buf_free(&batch);
    buf_free(&line);
}

static void every_type_reads_back(void **state)
{
    struct buf batch = {0}, line = {0};
    struct id id = {{0x01, 0x89, 0x0a, 0x5d, 0xac, 0x96, 0x77, 0x4b, 0xbc, 0xce, 0xb3, 0x02, 0x09, 0x9a, 0x80, 0x57}};

    (void)state;
    struct record_writer w = record_begin(&batch, RECORD_DECISION);
    record_id(&w, FIELD_ID, &id);
    record_number(&w, FIELD_CONN, INT64_MIN);
    record_number(&w, FIELD_PORT, 443);
    record_bool(&w, FIELD_OBSERVED, true);
    record_bool(&w, FIELD_REUSED, false);
    record_hex(&w, FIELD_SERIAL, slice_make("\x00\xff", 2));
    record_reason(&w, FIELD_REASON, REASON_CANARY_LEAK);
    record_end(&w);
    json_t *o = read_one(&batch, &line);

    assert_string_equal(member(o, NULL, "id"), "01890a5d-ac96-774b-bcce-b302099a8057");
    assert_true(json_integer_value(json_object_get(o, "conn")) == INT64_MIN);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(o, "http"), "port")), 443);
    assert_true(json_is_true(json_object_get(o, "observed")));
    assert_true(json_is_false(json_object_get(o, "reused")));
    assert_string_equal(member(o, "certificate", "serial"), "00ff");
    assert_string_equal(member(o, NULL, "reason"), "canary_leak");
    assert_string_equal(member(o, NULL, "severity"), "critical");
    json_decref(o);
    buf_free(&batch);
    buf_free(&line);
}

static void a_group_is_one_object_whatever_the_order(void **state)
{
    struct buf batch = {0}, line = {0};

    (void)state;
    struct record_writer w = record_begin(&batch, RECORD_DECISION);
    record_text(&w, FIELD_HOST, SLICE("npm.example"));
    record_text(&w, FIELD_TOKEN_JTI, SLICE("j1"));
    record_text(&w, FIELD_METHOD, SLICE("GET"));
    record_text(&w, FIELD_SANDBOX, SLICE("s1"));
    record_text(&w, FIELD_TOKEN_ISS, SLICE("ci"));
    record_end(&w);
    json_t *o = read_one(&batch, &line); /* refuses duplicate members */

    assert_true(slice_is(buf_slice(&line), "{\"sandbox\":\"s1\",\"token\":{\"jti\":\"j1\",\"iss\":\"ci\"},"
                                           "\"http\":{\"method\":\"GET\",\"host\":\"npm.example\"}}"));
    json_decref(o);
    buf_free(&batch);
    buf_free(&line);
}

/* Any value that a field may have, told from those of others. */
static void put_any(struct record_writer *w, unsigned f)
{
    const struct id id = {{(unsigned char)f}};
    const char text[] = {'t', (char)('0' + f / 64), (char)('0' + f % 64), '\0'};

    switch (record_field_type(f)) {
    case TYPE_TEXT:
        record_text(w, f, slice_of(text));
        break;
    case TYPE_NUMBER:
        record_number(w, f, f);
        break;
    case TYPE_BOOL:
        record_bool(w, f, f % 2);
        break;
    case TYPE_ID:
        record_id(w, f, &id);
        break;
    case TYPE_HEX:
        record_hex(w, f, slice_of(text));
        break;
    case TYPE_REASON:
        record_reason(w, f, REASON_ALLOWED);
        break;
    }
}

/* Every field, each a step further on than the one before: in all orders that there are steps. */
static void every_order_of_the_fields_is_read_as_the_same(void **state)
{
    struct buf batch = {0}, line = {0}, first = {0};

    (void)state;
    for (unsigned step = 1; step < N_RECORD_FIELDS; step++) {
        struct record_writer w = record_begin(&batch, RECORD_DECISION);

        for (unsigned from = 0; from < step; from++)
            for (unsigned f = from; f < N_RECORD_FIELDS; f += step)
                put_any(&w, step % 2 ? f : N_RECORD_FIELDS - 1 - f);
        record_end(&w);
        json_decref(read_one(&batch, &line));
        if (step == 1)
            buf_append(&first, buf_slice(&line));
        if (!slice_equals(buf_slice(&line), buf_slice(&first)))
            fail_msg("step %u: %.*s", step, SLICE_ARG(buf_slice(&line)));
        buf_clear(&batch);
    }
    buf_free(&batch);
    buf_free(&line);
    buf_free(&first);
}

static void fields_of_a_group_are_neighbours_in_the_table(void **state)
{
    (void)state;
    for (unsigned f = 1; f < N_RECORD_FIELDS; f++)
        for (unsigned g = 0; g + 1 < f; g++) {
            const char *a = record_field_name(f), *b = record_field_name(g), *between = record_field_name(f - 1);
            size_t len = strcspn(a, ".") + 1;

            if (strchr(a, '.') && strncmp(a, b, len) == 0 && strncmp(a, between, len) != 0)
                fail_msg("%s stands apart from %s", a, b);
        }
}

static void a_long_text_is_cut_at_a_character(void **state)
{
    struct buf batch = {0}, line = {0}, text = {0};
    const char *got;

    (void)state;
    for (int i = 0; i < 3000; i++)
        buf_text(&text, "\xc3\xbc");
    buf_char(&text, 'x'); /* so that 4093 falls into a character */
    struct record_writer w = record_begin(&batch, RECORD_DECISION);
    record_text(&w, FIELD_PATH, buf_slice(&text));
    record_end(&w);
    json_t *o = read_one(&batch, &line);

    got = member(o, "http", "path");
    assert_int_equal(strlen(got), 4092 + 3);
    assert_string_equal(got + 4092 - 2, "\xc3\xbc...");
    json_decref(o);
    buf_free(&batch);
    buf_free(&line);
    buf_free(&text);
}

static void a_text_of_just_the_limit_is_whole(void **state)
{
    struct buf batch = {0}, line = {0};
    char text[RECORD_TEXT_MAX];

    (void)state;
    memset(text, 'a', sizeof text);
    struct record_writer w = record_begin(&batch, RECORD_DECISION);
    record_text(&w, FIELD_PATH, slice_make(text, sizeof text));
    record_end(&w);
    json_t *o = read_one(&batch, &line);

    assert_int_equal(strlen(member(o, "http", "path")), RECORD_TEXT_MAX);
    assert_null(strchr(member(o, "http", "path"), '.'));
    json_decref(o);
    buf_free(&batch);
    buf_free(&line);
}

static void a_text_no_longer_than_the_mark_of_a_cut_is_never_cut(void **state)
{
    struct buf batch = {0}, line = {0};
    char text[RECORD_TEXT_MAX];

    (void)state;
    memset(text, 'a', sizeof text);
    struct record_writer w = record_begin(&batch, RECORD_DECISION);
    record_text(&w, FIELD_DETAIL, slice_make(text, sizeof text));
    record_text(&w, FIELD_PATH, slice_make(text, sizeof text));
    record_text(&w, FIELD_QUERY, slice_make(text, sizeof text)); /* nothing is left */
    record_text(&w, FIELD_VERSION, SLICE("1.1"));
    record_text(&w, FIELD_USER_AGENT, SLICE("curl"));
    record_end(&w);
    json_t *o = read_one(&batch, &line);

    assert_int_equal(strlen(member(o, "http", "query")), RECORD_TEXT_MAX);
    assert_string_equal(member(o, "http", "version"), "1.1");
    assert_string_equal(member(o, "http", "user_agent"), "...");
    json_decref(o);
    buf_free(&batch);
    buf_free(&line);
}

static void a_record_stays_below_its_limit_however_much_is_put_in(void **state)
{
    struct buf batch = {0}, line = {0};
    char text[8192];

    (void)state;
    memset(text, '\xff', sizeof text); /* not UTF-8, and six bytes each when written */
    struct record_writer w = record_begin(&batch, RECORD_DECISION);
    for (unsigned f = 0; f < N_RECORD_FIELDS; f++)
        if (record_field_type(f) == TYPE_TEXT)
            record_text(&w, f, slice_make(text, sizeof text));
        else if (record_field_type(f) == TYPE_HEX)
            record_hex(&w, f, slice_make(text, 64));
        else
            put_any(&w, f);
    record_end(&w);
    assert_true(buf_len(&batch) <= RECORD_MAX + 4);
    json_decref(read_one(&batch, &line));
    buf_free(&batch);
    buf_free(&line);
}

/* Messages that are not ours. bytes: what follows the length. */
static const struct bad_row {
    const char *name;
    struct slice bytes;
} bad_rows[] = {
    {"empty", SLICE("")},
    {"half a kind", SLICE("\x02")},
    {"unknown kind", SLICE("\xff\x00")},
    {"unknown field", SLICE("\x02\x00\x7f\x00")},
    {"text shorter than it says", SLICE("\x02\x00\x03\x05\x00" "deny")},
    {"text longer than the limit", SLICE("\x02\x00\x03\xff\xff")},
    {"no length", SLICE("\x02\x00\x03")},
    {"a field twice", SLICE("\x02\x00\x03\x01\x00" "a\x03\x01\x00" "b")},
    {"a field twice, a greater one between", SLICE("\x02\x00\x03\x00\x00\x05\x00\x00\x03\x00\x00")},
    {"a field twice, a lesser one between", SLICE("\x02\x00\x05\x00\x00\x03\x00\x00\x05\x00\x00")},
    {"a field twice behind a greater one", SLICE("\x02\x00\x06\x00\x00\x05\x00\x00\x05\x00\x00")},
    {"unknown field behind known ones", SLICE("\x02\x00\x03\x00\x00\x05\x00\x00\xff\x00\x00")},
    {"reason out of the registry", SLICE("\x02\x00\x04\xff\x7f")},
    {"number cut short", SLICE("\x02\x00\x02\x01\x00")},
};

static void what_is_not_ours_is_refused(void **state)
{
    (void)state;
    assert_int_equal(FIELD_ACTION, 3); /* the rows count on it */
    for (size_t i = 0; i < sizeof bad_rows / sizeof *bad_rows; i++) {
        struct buf batch = {0}, out = {0};
        struct slice rest;
        enum record_kind kind;
        bool bad = false;

        pack_bytes(&batch, bad_rows[i].bytes);
        rest = buf_slice(&batch);
        if (record_next(&rest, &kind, &out, &bad) || !bad)
            fail_msg("accepted: %s", bad_rows[i].name);
        buf_free(&batch);
        buf_free(&out);
    }
}

static void a_bool_of_two_and_a_length_past_the_batch_are_refused(void **state)
{
    struct buf batch = {0}, out = {0};
    struct slice rest;
    enum record_kind kind;
    bool bad = false;

    (void)state;
    pack_u32(&batch, 4);
    pack_u16(&batch, RECORD_DECISION);
    pack_u8(&batch, FIELD_OBSERVED);
    pack_u8(&batch, 2);
    rest = buf_slice(&batch);
    assert_false(record_next(&rest, &kind, &out, &bad));
    assert_true(bad);
    rest = slice_cut(buf_slice(&batch), 0, 7);
    assert_false(record_next(&rest, &kind, &out, &bad));
    assert_true(bad);
    buf_free(&batch);
    buf_free(&out);
}

#define HEADER "eyJhbGciOiJFUzI1NiIsInR5cCI6ImF0K2p3dCJ9"
#define CLAIMS "eyJzdWIiOiJzMSIsImp0aSI6ImoxIn0"

static const struct redact_row {
    const char *name, *in, *out;
} redactions[] = {
    {"a token alone", HEADER "." CLAIMS ".c2lnbmF0dXJl", "[token removed]"},
    {"a token inside", "Bearer " HEADER "." CLAIMS ".c2ln, then", "Bearer [token removed], then"},
    {"two of them", HEADER "." CLAIMS ".a " HEADER "." CLAIMS ".b", "[token removed] [token removed]"},
    {"cut short", HEADER "." CLAIMS "...", "[token removed]"},
    {"dots percent-encoded", "/" HEADER "%2E" CLAIMS "%2ec2ln", "/[token removed]"},
    {"a header that begins with a space", "eyAiYWxnIjoiRVMyNTYifQ." CLAIMS ".c2ln", "[token removed]"},
    {"no dots: not a token", HEADER CLAIMS, HEADER CLAIMS},
    {"one dot: not a token", HEADER "." CLAIMS, HEADER "." CLAIMS},
    {"too short: not a token", "eyJ.abc.def", "eyJ.abc.def"},
    {"a host with ey in it", "monkey.a-rather-long-name.of-a-service.corp.example", NULL},
    {"ends in ey", "key", NULL},
};

static void what_looks_like_a_token_is_removed(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof redactions / sizeof *redactions; i++) {
        const struct redact_row *row = &redactions[i];
        struct buf batch = {0}, line = {0};
        struct record_writer w = record_begin(&batch, RECORD_DECISION);

        record_text(&w, FIELD_DETAIL, slice_of(row->in));
        record_text(&w, FIELD_SANDBOX, SLICE("s1"));
        record_end(&w);
        json_t *o = read_one(&batch, &line);

        if (strcmp(member(o, NULL, "detail"), row->out ? row->out : row->in) != 0)
            fail_msg("%s: %s", row->name, member(o, NULL, "detail"));
        assert_string_equal(member(o, NULL, "sandbox"), "s1");
        json_decref(o);
        buf_free(&batch);
        buf_free(&line);
    }
}

/* Whether docs/journal.md has a row for name: "| `name` |" at the start of a line. */
static bool is_documented(struct slice text, const char *name)
{
    struct buf row = {0};
    bool found;

    buf_printf(&row, "\n| `%s` |", name);
    found = slice_search(text, buf_slice(&row)) >= 0;
    buf_free(&row);
    return found;
}

static bool is_ours(struct slice name)
{
    static const char *const stamped[] = {"schema", "seq", "ts", "mono", "role", "role_seq", "kind", "prev"};

    for (size_t i = 0; i < sizeof stamped / sizeof *stamped; i++)
        if (slice_is(name, stamped[i]))
            return true;
    for (unsigned k = 0; k < N_RECORD_KINDS; k++)
        if (slice_is(name, record_kind_name(k)))
            return true;
    for (unsigned f = 0; f < N_RECORD_FIELDS; f++)
        if (slice_is(name, record_field_name(f)))
            return true;
    return false;
}

static void the_documentation_has_every_kind_and_member_and_no_other(void **state)
{
    struct buf text = {0};
    struct slice rest, line, name;
    struct fault why = {0};

    (void)state;
    if (!file_read("docs/journal.md", 1 << 20, &text, &why))
        fail_msg("%s (run from the root of the tree)", why.text);
    for (unsigned k = 0; k < N_RECORD_KINDS; k++)
        if (!is_documented(buf_slice(&text), record_kind_name(k)))
            fail_msg("kind %s is missing", record_kind_name(k));
    for (unsigned f = 0; f < N_RECORD_FIELDS; f++)
        if (!is_documented(buf_slice(&text), record_field_name(f)))
            fail_msg("member %s is missing", record_field_name(f));
    rest = buf_slice(&text);
    while (slice_next(&rest, '\n', &line)) {
        if (!slice_starts(line, SLICE("| `")))
            continue;
        line = slice_from(line, 3);
        assert_true(slice_next(&line, '`', &name));
        if (!is_ours(name))
            fail_msg("%.*s is no kind or member", (int)name.len, name.ptr);
    }
    buf_free(&text);
}

static void put_decision(struct buf *batch, const struct id *id)
{
    struct record_writer w = record_begin(batch, RECORD_DECISION);

    record_id(&w, FIELD_ID, id);
    record_id(&w, FIELD_TUNNEL, id);
    record_number(&w, FIELD_CONN, 1234);
    record_text(&w, FIELD_ACTION, SLICE("allow"));
    record_reason(&w, FIELD_REASON, REASON_ALLOWED);
    record_text(&w, FIELD_SANDBOX, SLICE("sandbox-17"));
    record_text(&w, FIELD_TOKEN_JTI, SLICE("9b8f3c2e-77aa-4a01"));
    record_text(&w, FIELD_TOKEN_ISS, SLICE("https://ci.example"));
    record_text(&w, FIELD_TOKEN_KID, SLICE("k1"));
    record_text(&w, FIELD_TOKEN_SCOPE, SLICE("npm:read git:read"));
    record_number(&w, FIELD_TOKEN_EXP, 1790000000);
    record_text(&w, FIELD_LISTENER, SLICE("explicit"));
    record_text(&w, FIELD_CLIENT, SLICE("10.0.0.7:51234"));
    record_text(&w, FIELD_SERVICE, SLICE("npm"));
    record_text(&w, FIELD_RULE, SLICE("GET,HEAD /**"));
    record_text(&w, FIELD_METHOD, SLICE("GET"));
    record_text(&w, FIELD_SCHEME, SLICE("https"));
    record_text(&w, FIELD_HOST, SLICE("npm.example"));
    record_number(&w, FIELD_PORT, 443);
    record_text(&w, FIELD_PATH, SLICE("/left-pad/-/left-pad-1.3.0.tgz"));
    record_text(&w, FIELD_USER_AGENT, SLICE("npm/9.2.0 node/v18.19.0 linux x64 workspaces/false"));
    record_number(&w, FIELD_GENERATION, 3);
    record_end(&w);
}

/* Only when asked: EXEAT_MEASURE=1 build/tests/record */
static void measure(void **state)
{
    enum { ROUNDS = 100000 };
    struct buf batch = {0}, out = {0};
    struct id id = id_new(1790000000000);
    int64_t start, built, rendered;

    (void)state;
    start = clock_mono_ns();
    for (int i = 0; i < ROUNDS; i++) {
        buf_clear(&batch);
        put_decision(&batch, &id);
    }
    built = clock_mono_ns();
    for (int i = 0; i < ROUNDS; i++) {
        struct slice rest = buf_slice(&batch);
        enum record_kind kind;
        bool bad;

        buf_clear(&out);
        record_next(&rest, &kind, &out, &bad);
    }
    rendered = clock_mono_ns();
    print_message("build %d ns, render %d ns, packed %zu bytes, members %zu bytes\n",
                  (int)((built - start) / ROUNDS), (int)((rendered - built) / ROUNDS), buf_len(&batch), buf_len(&out));
    buf_free(&batch);
    buf_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hostile_bytes_are_data_in_every_text_field),
        cmocka_unit_test(a_nul_byte_is_written_as_its_symbol_for_readers_take_no_nul),
        cmocka_unit_test(every_type_reads_back),
        cmocka_unit_test(a_group_is_one_object_whatever_the_order),
        cmocka_unit_test(every_order_of_the_fields_is_read_as_the_same),
        cmocka_unit_test(fields_of_a_group_are_neighbours_in_the_table),
        cmocka_unit_test(a_long_text_is_cut_at_a_character),
        cmocka_unit_test(a_text_of_just_the_limit_is_whole),
        cmocka_unit_test(a_text_no_longer_than_the_mark_of_a_cut_is_never_cut),
        cmocka_unit_test(a_record_stays_below_its_limit_however_much_is_put_in),
        cmocka_unit_test(what_is_not_ours_is_refused),
        cmocka_unit_test(a_bool_of_two_and_a_length_past_the_batch_are_refused),
        cmocka_unit_test(what_looks_like_a_token_is_removed),
        cmocka_unit_test(the_documentation_has_every_kind_and_member_and_no_other),
    };
    const struct CMUnitTest measures[] = {cmocka_unit_test(measure)};

    return getenv("EXEAT_MEASURE") ? cmocka_run_group_tests(measures, NULL, NULL)
                                   : cmocka_run_group_tests(tests, NULL, NULL);
}
