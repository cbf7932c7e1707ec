/* exeat role NAME INDEX: one process of the gateway; started by `exeat serve` with a channel on descriptor 3. */
#include <string.h>

#include "cmd/command.h"
#include "proxy/spawn.h"

static bool says(const struct invocation *inv, const char *word)
{
    for (size_t i = 2; i < inv->n_args; i++)
        if (strcmp(inv->args[i], word) == 0)
            return true;
    return false;
}

static int run_role(const struct invocation *inv)
{
    uint64_t index;

    if (!slice_decimal(slice_of(inv->args[1]), 1024, &index))
        return STATUS_USAGE;
    return role_main(inv->args[0], (int)index, says(inv, "apart"), says(inv, "debug"));
}

const struct command command_role = {
    .name = "role",
    .summary = "one process of the gateway; started by exeat serve",
    .arguments = "NAME INDEX [apart] [debug]",
    .min_args = 2,
    .max_args = 4,
    .help = "Not for people: exeat serve runs it.\n",
    .topic = TOPIC_HIDDEN,
    .run = run_role,
};
