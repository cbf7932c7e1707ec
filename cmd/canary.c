/* exeat canary: plant secrets to be caught, and list them. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/say.h"
#include "base/text.h"
#include "canary/store.h"
#include "cmd/command.h"
#include "proxy/config.h"

/* The registry's file, by the configuration (give); NULL and why. Only the configuration is read. */
static char *file_of(const struct invocation *inv, struct fault *why)
{
    size_t n;
    const struct conf_section *const *sections = gateway_sections(&n);
    struct conf *conf = conf_load(inv->config, sections, n, why);
    char *path = conf ? text_copy(slice_of(conf_text(conf_section(conf, "canaries"), "file"))) : NULL;

    conf_free(conf);
    return path;
}

static void put(struct buf *out, const char *name, const char *value)
{
    buf_printf(out, ",\"%s\":", name);
    text_json(out, slice_of(value));
}

static void put_canary(struct buf *out, const struct canary *c, bool with_value)
{
    buf_text(out, "{\"schema\":\"exeat.canary/1\"");
    put(out, "id", c->id);
    put(out, "kind", c->kind);
    put(out, "sandbox", c->sandbox);
    put(out, "created", c->created);
    put(out, "where", registry_where(c->kind));
    if (with_value)
        put(out, "value", c->value);
    buf_text(out, "}\n");
}

static bool mint(struct registry *r, const struct invocation *inv, int64_t n, struct buf *out, struct fault *why)
{
    const char *sandbox = option_text(inv->options, "sandbox");

    for (int64_t i = 0; i < n; i++) {
        const struct canary *c =
            registry_mint(r, option_text(inv->options, "kind"), sandbox ? sandbox : "", clock_wall_s(), why);

        if (!c)
            return false;
        if (inv->json)
            put_canary(out, c, true);
        else
            buf_printf(out, "%s\n", c->value);
    }
    return true;
}

/* What the values on stdout are, in their order, after they are safely in the file. */
static void tell(const struct registry *r, size_t from, const char *path)
{
    for (size_t i = from; i < registry_count(r); i++) {
        const struct canary *c = registry_get(r, i);

        say_note("%s (%s): plant it in %s", c->id, c->kind, registry_where(c->kind));
    }
    say_note("written to %s; a running gateway looks for it from its next start", path);
}

static int run_new(const struct invocation *inv)
{
    int64_t n = option_number(inv->options, "number", 1);
    struct fault why = {0};
    struct store *store = NULL;
    struct buf out = {0};
    int status = STATUS_YES;
    size_t before;
    char *path;

    if (n < 1 || n > CANARY_COUNT_MAX)
        return command_misuse(inv, "--number: expected 1 to %d", CANARY_COUNT_MAX);
    if (!(path = file_of(inv, &why)) || !(store = store_open(path, &why))) {
        status = command_fail(inv, &why);
        goto out;
    }
    before = registry_count(store_registry(store));
    if (!mint(store_registry(store), inv, n, &out, &why) || !store_save(store, &why)) {
        status = command_fail(inv, &why);
        goto out;
    }
    status = command_print(inv, &out);
    if (!inv->quiet)
        tell(store_registry(store), before, path);
out:
    buf_wipe(&out);
    store_close(store);
    free(path);
    return status;
}

static int run_list(const struct invocation *inv)
{
    struct fault why = {0};
    struct buf out = {0};
    struct registry *r = NULL;
    char *path = file_of(inv, &why);

    if (!path || !(r = registry_load(path, &why))) {
        free(path);
        return command_fail(inv, &why);
    }
    for (size_t i = 0; i < registry_count(r); i++) {
        const struct canary *c = registry_get(r, i);

        if (inv->json)
            put_canary(&out, c, false);
        else
            buf_printf(&out, "%-20s %-10s %-16s %.10s\n", c->id, c->kind, *c->sandbox ? c->sandbox : "-", c->created);
    }
    registry_free(r);
    free(path);
    return command_print(inv, &out);
}

static int run_retire(const struct invocation *inv)
{
    struct fault why = {0};
    char *path = file_of(inv, &why);
    struct store *store = path ? store_open(path, &why) : NULL;
    struct buf out = {0};
    int status;

    if (store && !registry_remove(store_registry(store), inv->args[0]))
        fault_set(&why, FAULT_REFUSED, "%s has no canary %.63s; see: exeat canary list", path, inv->args[0]);
    if (!why.kind && store && store_save(store, &why)) {
        buf_printf(&out, "%s is no longer in %s; a running gateway looks for it until exeat reload\n", inv->args[0], path);
        status = command_print(inv, &out);
    } else {
        status = command_fail(inv, &why);
    }
    buf_free(&out);
    store_close(store);
    free(path);
    return status;
}

static const struct option_spec new_options[] = {
    {.name = "kind", .letter = 'k', .type = OPTION_CHOICE, .value = "KIND",
     .choices = "aws|generic|github|jwt|npm|password", .help = "what it looks like: aws, generic, github, jwt, npm or password", .required = true},
    {.name = "sandbox", .letter = 's', .type = OPTION_TEXT, .value = "NAME", .help = "the sandbox it is planted in"},
    {.name = "number", .letter = 'n', .type = OPTION_COUNT, .value = "N", .help = "so many of them; 1"},
    {0},
};

static const struct command new_command = {
    .name = "new",
    .summary = "mint synthetic secrets to be looked for",
    .help = "Prints the values, one a line, to be planted where a thief would look; what each is goes to standard "
            "error. A request that carries one is stopped and recorded: as it is, in base64, hexadecimal, percent signs "
            "and more, whole or in pieces. A gateway that runs looks for them after exeat reload.\n\n"
            "A value ends in a mark that follows from the rest: whoever finds one can be told that it is synthetic.",
    .examples = "exeat canary new --kind npm --sandbox vm1 >token",
    .options = new_options,
    .has_json = true,
    .run = run_new,
};

static const struct command list_command = {
    .name = "list",
    .summary = "list the canaries, never their values",
    .has_json = true,
    .run = run_list,
};

static const struct command retire_command = {
    .name = "retire",
    .summary = "take one out, so that nobody looks for it any more",
    .arguments = "ID",
    .min_args = 1,
    .max_args = 1,
    .help = "Once what it was planted in is gone, or its value is known. What it stopped so far stays in the journal.",
    .examples = "exeat canary retire npm-1a2b3c && exeat reload",
    .run = run_retire,
};

static const struct command *const subcommands[] = {&list_command, &new_command, &retire_command, NULL};

const struct command command_canary = {
    .name = "canary",
    .summary = "synthetic secrets, planted to be caught on their way out",
    .help = "Canaries stand in the file that canaries.file names, canaries.json by default. It is itself a secret.",
    .subcommands = subcommands,
    .topic = TOPIC_SECRETS,
};
