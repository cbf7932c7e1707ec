/* `exeat why`: what happened to an exchange, in sentences; and what a reason means. */
#include <stdlib.h>

#include "base/text.h"
#include "cmd/journal.h"
#include "journal/query.h"

static void put_reason(struct buf *out, const struct reason_entry *r, bool json)
{
    if (!json) {
        buf_printf(out, "%s (severity %s", r->code, severity_name(r->severity));
        if (r->status)
            buf_printf(out, ", status %d", r->status);
        buf_printf(out, ")\n  %s\n", r->text);
        return;
    }
    buf_printf(out, "{\"schema\":\"exeat.reason/1\",\"reason\":\"%s\",\"severity\":\"%s\",\"status\":%d,\"text\":", r->code,
               severity_name(r->severity), r->status);
    text_json(out, slice_of(r->text));
    buf_text(out, "}\n");
}

static int print_reasons(const struct invocation *inv)
{
    struct buf out = {0};

    for (unsigned r = REASON_ALLOWED; r < N_REASONS; r++)
        put_reason(&out, reason_get(r), inv->json);
    return command_print(inv, &out);
}

static const char introduction[] =
    "<!-- written by `exeat why --markdown`; edit base/reason.def instead -->\n"
    "# Reasons\n"
    "\n"
    "Every refusal, and every end that is not the usual one, has one of these codes: in the answer's status line, its\n"
    "`Proxy-Status` (RFC 9209) and its problem document, in the journal, in `exeat why` and in the metrics. Inside a tunnel\n"
    "407 becomes 403. Without a status: the connection is cut, or it is recorded only.\n"
    "\n"
    "| code | status | severity | what it means, what to do |\n"
    "|---|---|---|---|\n";

static int print_page(const struct invocation *inv)
{
    struct buf out = {0};

    buf_text(&out, introduction);
    for (unsigned r = REASON_ALLOWED; r < N_REASONS; r++) {
        const struct reason_entry *e = reason_get(r);

        buf_printf(&out, "| `%s` | ", e->code);
        if (e->status)
            buf_printf(&out, "%d ", e->status);
        buf_printf(&out, "| %s | %s |\n", severity_name(e->severity), e->text);
    }
    return command_print(inv, &out);
}

static int print_reason(const struct invocation *inv, enum reason r)
{
    struct buf out = {0};

    put_reason(&out, reason_get(r), inv->json);
    return command_print(inv, &out);
}

static int tell(const struct invocation *inv, const char *id)
{
    const struct why_which which = {.id = id, .sandbox = option_text(inv->options, "sandbox"),
                                    .refused = option_flag(inv->options, "refused")};
    struct fault why = {0};
    struct buf out = {0};
    char *directory;
    int status;

    if (!(directory = journal_directory(inv, &why)))
        return command_fail(inv, &why);
    if (query_why(directory, &which, inv->json, &out, &why))
        status = command_print(inv, &out);
    else
        status = command_fail(inv, &why);
    free(directory);
    buf_free(&out);
    return status;
}

static int run(const struct invocation *inv)
{
    const char *id = inv->n_args ? inv->args[0] : NULL;
    enum reason r;

    if (!!id + option_flag(inv->options, "last") + option_flag(inv->options, "refused") +
        option_flag(inv->options, "reasons") + option_flag(inv->options, "markdown") != 1)
        return command_misuse(inv, "give an exchange id or a reason, --last, --refused, --reasons, or --markdown");
    if (option_flag(inv->options, "reasons"))
        return print_reasons(inv);
    if (option_flag(inv->options, "markdown"))
        return print_page(inv);
    if (id && reason_find(slice_of(id), &r))
        return print_reason(inv, r);
    return tell(inv, id);
}

static const struct option_spec options[] = {
    {"last", 'l', OPTION_FLAG, NULL, NULL, "the last exchange that was decided", false, false},
    {"refused", 'r', OPTION_FLAG, NULL, NULL, "the last that was refused, whatever came after it", false, false},
    {"sandbox", 's', OPTION_TEXT, "NAME", NULL, "of this sandbox", false, false},
    {"reasons", 0, OPTION_FLAG, NULL, NULL, "every reason there is, with what can be done", false, false},
    {"markdown", 0, OPTION_FLAG, NULL, NULL, "the same as a page (docs/reasons.md)", false, false},
    JOURNAL_OPTION,
    {0},
};

const struct command command_why = {
    .name = "why",
    .summary = "what happened to an exchange, and what the operator can do",
    .arguments = "[ID|REASON]",
    .max_args = 1,
    .topic = TOPIC_EVIDENCE,
    .has_json = true,
    .help = "Joins what the journal holds about one exchange and tells it: who asked for what, what was decided and why, "
            "where it was sent, how it ended. Every refusal carries the id: whole in the answer's problem+json, its last "
            "six digits in the status line. Either will do. A reason instead of an id is explained by itself.\n"
            "\n"
            "Some clients show only the number of a refusal (git, skopeo), or nothing: --refused finds it without its id.\n"
            "\n"
            "The status is 1 when the journal holds no such exchange.",
    .examples = "exeat why 7f3a9c\nexeat why host_not_listed\nexeat why --refused --sandbox vm1",
    .options = options,
    .run = run,
};
