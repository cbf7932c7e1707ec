/* What the clerk tells of the gateway: metrics text, readiness, status. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proxy/report.h"

#define UP(role) "{\"role\":\"" role "\",\"index\":0,\"pid\":1,\"uid\":0,\"state\":\"up\",\"restarts\":0}"
#define STATUS(ready, roles) "{\"ok\":true,\"status\":{\"ready\":" ready ",\"roles\":[" roles "]}}"

enum { NOW = 1800000000 };

/* One of each kind. */
static const char services[] = "services:\n"
    "  npm: {hosts: [npm.test], allow: [\"GET /**\"], scope: a, audit: \"waived: not yet\"}\n"
    "  pypi: {hosts: [pypi.test], allow: [\"GET /**\"], scope: a}\n"
    "  git: {hosts: [git.test], allow: [\"GET /**\"], scope: a}\n"
    "  old: {hosts: [old.test], allow: [\"GET /**\"], scope: a}\n";
static struct policy *policy;

static int make_policy(void **state)
{
    static const struct conf_section *const sections[] = {&services_section};
    struct conf *c = conf_parse(slice_of(services), "t", "/", sections, 1, NULL);
    static const struct attested git = {NOW - 100, NOW + 100, ""}, old = {NOW - 1000, NOW - 10, ""};

    (void)state;
    assert_non_null(c);
    assert_non_null(policy = policy_compile(c, NULL));
    conf_free(c);
    policy_set_attested(policy, service_index(policy_find(policy, "git.test", 443)), &git);
    policy_set_attested(policy, service_index(policy_find(policy, "old.test", 443)), &old);
    return 0;
}

static int free_policy(void **state)
{
    (void)state;
    policy_free(policy);
    return 0;
}

static struct counters one, two;
static const struct metrics_page pages[] = {{"worker 0", &one}, {"worker 1", &two}};

static struct metrics make_metrics(bool journal_one, bool journal_two)
{
    one = two = (struct counters){0};
    one.values[COUNTER_EXCHANGES] = 7;
    two.values[COUNTER_EXCHANGES] = 5;
    one.values[COUNTER_JOURNAL_OPEN] = journal_one;
    two.values[COUNTER_JOURNAL_OPEN] = journal_two;
    one.decisions[REASON_ALLOWED] = 4;
    two.decisions[REASON_ALLOWED] = 2;
    two.decisions[REASON_HOST_NOT_LISTED] = 1;
    return (struct metrics){.version = "1.2.3", .generation = 9, .pages = pages, .n_pages = 2, .policy = policy, .now_s = NOW};
}

static void test_metrics(void **state)
{
    static const char *const lines[] = {
        "# TYPE exeat_exchanges_total counter\n",
        "exeat_exchanges_total{role=\"worker 0\"} 7\n",
        "exeat_exchanges_total{role=\"worker 1\"} 5\n",
        "# TYPE exeat_exchanges_open gauge\n",
        "# TYPE exeat_journal_open gauge\n",
        "exeat_journal_open{role=\"worker 1\"} 0\n",
        "exeat_decisions_total{reason=\"allowed\"} 6\n",
        "exeat_decisions_total{reason=\"host_not_listed\"} 1\n",
        "exeat_decisions_total{reason=\"canary_leak\"} 0\n",
        "exeat_build_info{version=\"1.2.3\"} 1\n",
        "exeat_policy_generation 9\n",
        "exeat_service_audit_waived{service=\"npm\"} 1\n",
        "exeat_service_open{service=\"npm\"} 1\n",
        "exeat_service_open{service=\"pypi\"} 0\n",
        "exeat_service_open{service=\"git\"} 1\n",
        "exeat_service_open{service=\"old\"} 0\n",
        "exeat_service_audit_age_seconds{service=\"git\"} 100\n",
        "exeat_service_audit_age_seconds{service=\"old\"} 1000\n",
    };
    struct metrics m = make_metrics(true, false);
    struct buf out = {0};
    char *text;

    (void)state;
    metrics_write(&out, &m);
    text = buf_take_text(&out);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (!strstr(text, lines[i]))
            fail_msg("no line %s", lines[i]);
    assert_null(strstr(text, "exeat_service_audit_age_seconds{service=\"pypi\"}"));
    assert_null(strstr(text, "exeat_service_audit_waived{service=\"git\"}"));
    assert_null(strstr(text, "reason=\"none\""));
    assert_null(strstr(text, "\n\n"));
    free(text);
}

static void test_label_escapes(void **state)
{
    struct metrics m = {.version = "a\"b\\c\nd"};
    struct buf out = {0};
    char *text;

    (void)state;
    metrics_write(&out, &m);
    text = buf_take_text(&out);
    assert_non_null(strstr(text, "exeat_build_info{version=\"a\\\"b\\\\c\\nd\"} 1\n"));
    free(text);
}

static void test_ready(void **state)
{
    static const struct {
        const char *name, *answer;
        bool journal_one, journal_two;
        const char *body;
    } rows[] = {
        {"everything is up", STATUS("true", UP("scribe") "," UP("porter")), true, true, "{\"ready\":true}\n"},
        {"a role is down",
         STATUS("false", UP("scribe") ",{\"role\":\"porter\",\"index\":0,\"state\":\"down\"}"), true, true,
         "{\"ready\":false,\"missing\":[\"porter is down\"]}\n"},
        {"a worker is named with its number", STATUS("false", "{\"role\":\"worker\",\"index\":3,\"state\":\"starting\"}"),
         true, true, "{\"ready\":false,\"missing\":[\"worker 3 is starting\"]}\n"},
        {"a role that hangs", STATUS("false", "{\"role\":\"porter\",\"index\":0,\"state\":\"silent\"}"), true, true,
         "{\"ready\":false,\"missing\":[\"porter is silent\"]}\n"},
        {"a role that is down, and why",
         STATUS("false", "{\"role\":\"scribe\",\"index\":0,\"state\":\"down\",\"trouble\":\"no directory\"}"), true, true,
         "{\"ready\":false,\"missing\":[\"scribe is down: no directory\"]}\n"},
        {"a role that is up and cannot work",
         STATUS("false", "{\"role\":\"scribe\",\"index\":0,\"state\":\"up\",\"trouble\":\"disk full\"}"), true, true,
         "{\"ready\":false,\"missing\":[\"scribe: disk full\"]}\n"},
        {"no trouble", STATUS("true", "{\"role\":\"scribe\",\"index\":0,\"state\":\"up\",\"trouble\":\"\"}"), true, true,
         "{\"ready\":true}\n"},
        {"the journal is closed for one worker", STATUS("true", UP("scribe")), true, false,
         "{\"ready\":false,\"missing\":[\"the journal is closed\"]}\n"},
        {"the supervisor says no more", STATUS("false", UP("scribe")), true, true,
         "{\"ready\":false,\"missing\":[\"the supervisor says not ready\"]}\n"},
        {"no answer", "", true, true, "{\"ready\":false,\"missing\":[\"the supervisor does not answer\"]}\n"},
        {"an answer that is none", "[]", true, true,
         "{\"ready\":false,\"missing\":[\"the supervisor does not answer\"]}\n"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct metrics m = make_metrics(rows[i].journal_one, rows[i].journal_two);
        struct buf out = {0};
        bool ready = report_ready(&out, slice_of(rows[i].answer), &m);
        char *text = buf_take_text(&out);

        if (strcmp(text, rows[i].body) != 0)
            fail_msg("%s: expected %s, got %s", rows[i].name, rows[i].body, text);
        assert_int_equal(ready, strstr(rows[i].body, "\"ready\":true") != NULL);
        free(text);
    }
}

static void test_ready_by_issuers(void **state)
{
    static const struct {
        const char *name;
        bool first, second; /* of two that publish: has it good keys? */
        size_t from_files;
        const char *body;
    } rows[] = {
        {"both have keys", true, true, 0, "{\"ready\":true}\n"},
        {"one is away: the other's sandboxes can go on", true, false, 0, "{\"ready\":true}\n"},
        {"both are away, one has its keys in a file", false, false, 1, "{\"ready\":true}\n"},
        {"none has keys: nobody can have leave", false, false, 0,
         "{\"ready\":false,\"missing\":[\"issuer a: its keys are too old: it answered 503\",\"issuer b: its keys were not fetched yet\"]}\n"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct metrics_issuer issuers[] = {
            {"a", "https://a.test/", 1, NOW - 100, NOW - 1, rows[i].first, "it answered 503"},
            {"b", "https://b.test/", 1, 0, 0, rows[i].second, ""},
        };
        struct metrics m = make_metrics(true, true);
        struct buf ready = {0}, told = {0};
        char *text, *status;

        m.issuers = issuers;
        m.n_issuers = 2;
        m.n_file_issuers = rows[i].from_files;
        report_ready(&ready, SLICE(STATUS("true", UP("scribe"))), &m);
        report_status(&told, SLICE(STATUS("true", UP("scribe"))), &m);
        text = buf_take_text(&ready);
        status = buf_take_text(&told);
        if (strcmp(text, rows[i].body) != 0)
            fail_msg("%s: expected %s, got %s", rows[i].name, rows[i].body, text);
        if (!strstr(status, "\"ready\":true") != !strstr(text, "\"ready\":true"))
            fail_msg("%s: status says another thing than readyz: %s", rows[i].name, status);
        free(text);
        free(status);
    }
}

static void test_no_page_is_closed(void **state)
{
    struct metrics m = {0};

    (void)state;
    assert_false(metrics_journal_is_open(&m));
}

static void test_status(void **state)
{
    struct metrics m = make_metrics(true, true);
    struct buf out = {0};
    char *text;

    (void)state;
    report_status(&out, SLICE("{\"ok\":true,\"status\":{\"ready\":true}}"), &m);
    text = buf_take_text(&out);
    assert_non_null(strstr(text, "\"ready\":true"));
    assert_non_null(strstr(text, "\"journal\":{\"open\":true}"));
    assert_non_null(strstr(text, "\"exeat_exchanges_total\":12"));
    assert_non_null(strstr(text, "\"waived\":[{\"service\":\"npm\",\"audit\":\"waived: not yet\"}]"));
    assert_non_null(strstr(text, "\"audited\":[{\"service\":\"git\",\"at\":1799999900,\"until\":1800000100}]"));
    assert_non_null(strstr(text, "{\"service\":\"pypi\",\"why\":\"nobody has audited it\",\"by_hand\":false}"));
    assert_non_null(strstr(text, "{\"service\":\"old\",\"why\":\"its audit of 2027-01-15 counted until 2027-01-15\",\"by_hand\":false}"));
    free(text);
    m = make_metrics(true, false);
    report_status(&out, SLICE("{\"ok\":true,\"status\":{\"ready\":true}}"), &m);
    text = buf_take_text(&out);
    assert_non_null(strstr(text, "\"ready\":false"));
    assert_non_null(strstr(text, "\"journal\":{\"open\":false}"));
    free(text);
    report_status(&out, SLICE("{\"ok\":false,\"error\":\"no\"}"), &m);
    text = buf_take_text(&out);
    assert_string_equal(text, "{\"ok\":false,\"error\":\"no\"}");
    free(text);
}

static void test_is_status(void **state)
{
    (void)state;
    assert_true(report_is(SLICE("{\"command\":\"status\"}"), "status"));
    assert_false(report_is(SLICE("{\"command\":\"revoke\",\"value\":\"status\"}"), "status"));
    assert_false(report_is(SLICE("status"), "status"));
    assert_false(report_is(SLICE("{\"command\":\"status\",\"command\":\"revoke\"}"), "status"));
}

static void test_pages(void **state)
{
    struct fault why = {0};
    int fd = counters_create(&why), other = memfd_create("short", MFD_CLOEXEC);
    struct counters *write_it, *read_it;

    (void)state;
    assert_true(fd >= 0);
    write_it = counters_map(fd, true, &why);
    read_it = counters_map(fd, false, &why);
    write_it->values[COUNTER_DIALS] = 3;
    assert_int_equal(read_it->values[COUNTER_DIALS], 3);
    assert_int_equal(ftruncate(fd, 0), -1); /* its size is sealed */
    assert_null(counters_map(other, false, &why));
    assert_int_equal(why.kind, FAULT_SYNTAX);
    counters_unmap(write_it);
    counters_unmap(read_it);
    counters_unmap(NULL);
    close(fd);
    close(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_metrics),   cmocka_unit_test(test_label_escapes), cmocka_unit_test(test_ready),
        cmocka_unit_test(test_ready_by_issuers),
        cmocka_unit_test(test_no_page_is_closed), cmocka_unit_test(test_status), cmocka_unit_test(test_is_status),
        cmocka_unit_test(test_pages),
    };

    return cmocka_run_group_tests_name("report", tests, make_policy, free_policy);
}
