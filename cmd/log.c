/* `exeat log`: is the journal whole, and what is in it. */
#include <ctype.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/say.h"
#include "base/text.h"
#include "cmd/journal.h"
#include "journal/query.h"
#include "journal/view.h"

enum { PRINT_AT = 64 * 1024, PROGRESS_MS = 500 };

/* ---- verify ---- */

/* One line on a terminal, drawn over and over. */
struct progress {
    int64_t shown_ms;
    bool shown;
};

static void show_progress(void *arg, uint64_t records)
{
    struct progress *p = arg;
    int64_t now = clock_mono_ms();

    if (now - p->shown_ms < PROGRESS_MS)
        return;
    p->shown_ms = now;
    p->shown = true;
    fprintf(stderr, "\r%" PRIu64 " records", records);
}

static bool is_head(const char *text)
{
    size_t len = strlen(text);

    for (size_t i = 0; i < len; i++)
        if (!isxdigit((unsigned char)text[i]) || isupper((unsigned char)text[i]))
            return false;
    return len == 64;
}

static void put_verdict_json(struct buf *out, const struct log_verdict *v)
{
    buf_printf(out, "{\"schema\":\"exeat.log-verify/1\",\"intact\":%s,\"records\":%" PRIu64 ",\"segments\":%" PRIu64,
               v->intact ? "true" : "false", v->records, v->segments);
    buf_text(out, ",\"first_ts\":");
    text_json(out, slice_of(v->first_ts));
    buf_text(out, ",\"last_ts\":");
    text_json(out, slice_of(v->last_ts));
    buf_printf(out, ",\"head\":\"%s\"", v->head);
    if (!v->intact) {
        buf_text(out, ",\"place\":");
        text_json(out, slice_of(v->place));
        buf_text(out, ",\"fault\":");
        text_json(out, slice_of(v->fault));
    }
    buf_text(out, "}\n");
}

static const char *plural(uint64_t n)
{
    return n == 1 ? "" : "s";
}

static void put_verdict(struct buf *out, const struct log_verdict *v, bool expected)
{
    if (!v->intact) {
        buf_printf(out, "not intact: ");
        view_put(out, v->place);
        buf_text(out, ": ");
        view_put(out, v->fault);
        buf_printf(out, "\n%" PRIu64 " records before it are in order\n", v->records);
        return;
    }
    buf_printf(out, "intact: %" PRIu64 " record%s in %" PRIu64 " segment%s, head %s\n", v->records, plural(v->records),
               v->segments, plural(v->segments), v->head);
    if (v->records) {
        buf_text(out, "from ");
        view_put(out, v->first_ts);
        buf_text(out, " to ");
        view_put(out, v->last_ts);
        buf_char(out, '\n');
    }
    if (expected)
        buf_text(out, "the head you kept is in it: nothing up to it is missing\n");
    else
        buf_text(out, "A chain cannot show whether records were cut off at its end, or the last one changed: keep the head\n"
                      "on another machine, and give it here next time: --expect-head\n");
}

static int run_verify(const struct invocation *inv)
{
    const char *expected = option_text(inv->options, "expect-head");
    struct progress progress = {.shown_ms = clock_mono_ms()};
    struct log_verdict v;
    struct fault why = {0};
    struct buf out = {0};
    char *directory;
    bool ok, show = !inv->quiet && isatty(STDERR_FILENO);
    int status;

    if (expected && !is_head(expected))
        return command_misuse(inv, "a head is 64 hexadecimal digits in lower case");
    if (!(directory = journal_directory(inv, &why)))
        return command_fail(inv, &why);
    ok = log_verify(directory, expected, show ? show_progress : NULL, &progress, &v, &why);
    if (progress.shown)
        fputs("\r\x1b[K", stderr);
    if (ok && v.intact && !v.records)
        ok = fault_set(&why, FAULT_IO, "%s holds no record: nothing was verified. Is it the right directory, and has the "
                       "gateway ever been started?", directory);
    free(directory);
    if (!ok)
        return command_fail(inv, &why);
    if (inv->json)
        put_verdict_json(&out, &v);
    else
        put_verdict(&out, &v, expected);
    status = command_print(inv, &out);
    return status == STATUS_YES && !v.intact ? STATUS_NO : status;
}

static const struct option_spec verify_options[] = {
    {"expect-head", 'e', OPTION_TEXT, "HEX", NULL, "a head noted earlier and kept elsewhere; it must occur", false, false},
    JOURNAL_OPTION,
    {0},
};

static const struct command command_verify = {
    .name = "verify",
    .summary = "check that no record was changed, removed, inserted or moved",
    .topic = TOPIC_EVIDENCE,
    .has_json = true,
    .help = "Walks the whole chain: every record carries the SHA-256 of the line before it. Prints the head, the hash of the "
            "last line. The status is 1, with place and reason, when the chain does not hold, and 3 "
            "when there is no record at all.\n"
            "\n"
            "What a chain cannot show: records cut off at its end, or a journal written anew by somebody who may write "
            "there. Against that, keep heads on another machine and compare with --expect-head.",
    .examples = "exeat log verify\nexeat log verify --expect-head $(cat /mnt/elsewhere/head)",
    .options = verify_options,
    .run = run_verify,
};

/* ---- query ---- */

struct printing {
    const struct invocation *inv;
    struct buf out;
    int status;
};

static bool print_line(void *arg, struct slice line)
{
    struct printing *p = arg;

    if (p->inv->json) {
        buf_append(&p->out, line);
    } else {
        json_t *o = json_loadb(line.ptr, line.len, 0, NULL);

        view_put_line(&p->out, o);
        json_decref(o);
    }
    buf_char(&p->out, '\n');
    if (buf_len(&p->out) >= PRINT_AT)
        p->status = command_print(p->inv, &p->out);
    return p->status == STATUS_YES;
}

static bool read_query(const struct invocation *inv, struct query *q, struct fault *why)
{
    const struct option_set *o = inv->options;

    *q = (struct query){
        .kind = option_text(o, "kind"),
        .sandbox = option_text(o, "sandbox"),
        .service = option_text(o, "service"),
        .host = option_text(o, "host"),
        .reason = option_text(o, "reason"),
        .action = option_text(o, "action"),
        .id = option_text(o, "id"),
        .last = (size_t)option_number(o, "last", 0),
    };
    return journal_moment(inv, "since", &q->since_ns, why) && journal_moment(inv, "until", &q->until_ns, why) &&
           query_check(q, why);
}

static int run_query(const struct invocation *inv)
{
    struct printing p = {.inv = inv, .status = STATUS_YES};
    struct fault why = {0};
    struct query q;
    size_t matched;
    char *directory;
    bool ok;

    if (!read_query(inv, &q, &why) || !(directory = journal_directory(inv, &why)))
        return command_fail(inv, &why);
    ok = query_run(directory, &q, print_line, &p, &matched, &why);
    free(directory);
    if (p.status == STATUS_YES)
        p.status = command_print(inv, &p.out);
    buf_free(&p.out);
    if (!ok && p.status == STATUS_YES)
        return command_fail(inv, &why);
    if (p.status != STATUS_YES || matched)
        return p.status;
    say_note("no record fits");
    return STATUS_NO;
}

static const struct option_spec query_options[] = {
    {"kind", 'k', OPTION_TEXT, "KIND", NULL,
     "boot, config, decision, dial, result, certificate, finding, connection, revocation, heartbeat, lost, shutdown, limit, reload, "
     "listener, grant, edge, keys, question, upstream, lookup, audit", false, false},
    {"sandbox", 's', OPTION_TEXT, "NAME", NULL, "of this sandbox", false, false},
    {"service", 0, OPTION_TEXT, "NAME", NULL, "to this service", false, false},
    {"host", 0, OPTION_TEXT, "HOST", NULL, "to this host", false, false},
    {"reason", 'r', OPTION_TEXT, "CODE", NULL, "with this reason code; exeat why --reasons lists them", false, false},
    {"action", 'a', OPTION_CHOICE, "ACTION", "allow|deny", "what was decided", false, false},
    {"id", 'i', OPTION_TEXT, "ID", NULL, "of this exchange; its last six digits will do", false, false},
    {"since", 0, OPTION_TEXT, "TIME", NULL, "not before this time, or this long ago (15m)", false, false},
    {"until", 0, OPTION_TEXT, "TIME", NULL, "not after it", false, false},
    {"last", 'n', OPTION_COUNT, "N", NULL, "only the last N", false, false},
    JOURNAL_OPTION,
    {0},
};

static const struct command command_query = {
    .name = "query",
    .summary = "records that fit, in order",
    .topic = TOPIC_EVIDENCE,
    .has_json = true,
    .help = "Prints the records for which every given option holds: one line each for people, or, with --format json, as they "
            "stand in the journal. docs/journal.md explains kinds and members. The status is 1 when nothing fits.",
    .examples = "exeat log query --last 20\nexeat log query --action deny --since 1h --sandbox vm1\n"
                "exeat log query --kind finding --format json",
    .options = query_options,
    .run = run_query,
};

static const struct command *const subcommands[] = {&command_verify, &command_query, NULL};

const struct command command_log = {
    .name = "log",
    .summary = "the journal: is it whole, and what is in it",
    .topic = TOPIC_EVIDENCE,
    .subcommands = subcommands,
};
