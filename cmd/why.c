/* `exeat why`: what happened to an exchange, in sentences. */
#include <stdlib.h>

#include "cmd/journal.h"
#include "journal/query.h"

static int run(const struct invocation *inv)
{
    const char *id = inv->n_args ? inv->args[0] : NULL;
    struct fault why = {0};
    struct buf out = {0};
    char *directory;
    int status;

    if (!id == !option_flag(inv->options, "last"))
        return command_misuse(inv, "give an exchange id, or --last");
    if (!(directory = journal_directory(inv, &why)))
        return command_fail(inv, &why);
    if (query_why(directory, id, option_text(inv->options, "sandbox"), inv->json, &out, &why))
        status = command_print(inv, &out);
    else
        status = command_fail(inv, &why);
    free(directory);
    buf_free(&out);
    return status;
}

static const struct option_spec options[] = {
    {"last", 'l', OPTION_FLAG, NULL, NULL, "the last exchange that was decided", false, false},
    {"sandbox", 's', OPTION_TEXT, "NAME", NULL, "of this sandbox", false, false},
    JOURNAL_OPTION,
    {0},
};

const struct command command_why = {
    .name = "why",
    .summary = "what happened to an exchange, and what the operator can do",
    .arguments = "[ID]",
    .max_args = 1,
    .topic = TOPIC_EVIDENCE,
    .has_json = true,
    .help = "Joins what the journal holds about one exchange and tells it: who asked for what, what was decided and why, "
            "where it was sent, how it ended. Every refusal carries the id: whole in the answer's problem+json, its last "
            "six digits in the status line. Either will do.\n"
            "\n"
            "The status is 1 when the journal holds no such exchange.",
    .examples = "exeat why 7f3a9c\nexeat why --last --sandbox vm1",
    .options = options,
    .run = run,
};
