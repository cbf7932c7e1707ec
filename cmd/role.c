/* exeat role NAME INDEX: one process of the gateway; started by `exeat serve` with a channel on descriptor 3. */
#include <string.h>

#include "cmd/command.h"
#include "proxy/spawn.h"

static int run_role(const struct invocation *inv)
{
    uint64_t index;

    if (!slice_decimal(slice_of(inv->args[1]), 1024, &index))
        return STATUS_USAGE;
    return role_main(inv->args[0], (int)index, inv->n_args > 2 && strcmp(inv->args[2], "debug") == 0);
}

const struct command command_role = {
    .name = "role",
    .summary = "one process of the gateway; started by exeat serve",
    .arguments = "NAME INDEX [debug]",
    .min_args = 2,
    .max_args = 3,
    .help = "Not for people: exeat serve runs it.\n",
    .topic = TOPIC_HIDDEN,
    .run = run_role,
};
