/* `exeat ca`: the gateway's own certificate authority, the root of which sandboxes trust. */
#include <stdlib.h>

#include "base/file.h"
#include "base/say.h"
#include "base/text.h"
#include "certs/ca.h"
#include "cmd/command.h"
#include "proxy/config.h"

/* STATE/ca (give), or NULL and why. Reads the configuration alone: the CA can be looked at while other files are off. */
static char *directory_of(const struct invocation *inv, char **name, struct fault *why)
{
    size_t n;
    const struct conf_section *const *sections = gateway_sections(&n);
    struct conf *conf = conf_load(inv->config, sections, n, why);
    const struct conf_item *gateway;
    char *directory;

    if (!conf)
        return NULL;
    gateway = conf_section(conf, "gateway");
    directory = file_join(conf_text(gateway, "state"), "ca");
    if (name)
        *name = text_copy(slice_of(conf_text(gateway, "name")));
    conf_free(conf);
    return directory;
}

/* The intermediate for the hosts that are listed now; serve would make it otherwise. */
static bool fit_hosts(const struct invocation *inv, struct fault *why)
{
    struct gateway_config *c = gateway_config_load(inv->config, why);
    bool issued, ok = c && gateway_ensure_ca(c, &issued, why);

    gateway_config_free(c);
    return ok;
}

static int run_init(const struct invocation *inv)
{
    struct fault why = {0};
    char *name = NULL;
    char *directory = directory_of(inv, &name, &why);
    int status = STATUS_YES;

    if (!directory || !ca_init(directory, name, &why) || !fit_hosts(inv, &why))
        status = command_fail(inv, &why);
    else if (!inv->quiet)
        say_note("a new root is in %s; sandboxes need it: exeat ca export, or exeat env", directory);
    free(directory);
    free(name);
    return status;
}

static int run_show(const struct invocation *inv)
{
    struct fault why = {0};
    struct buf out = {0};
    char *directory = directory_of(inv, NULL, &why);
    int status;

    if (directory && ca_describe(directory, inv->json, &out, &why))
        status = command_print(inv, &out);
    else
        status = command_fail(inv, &why);
    buf_free(&out);
    free(directory);
    return status;
}

static int run_export(const struct invocation *inv)
{
    const char *path = option_text(inv->options, "output");
    struct fault why = {0};
    struct buf out = {0};
    char *directory = directory_of(inv, NULL, &why);
    int status = STATUS_YES;

    if (!directory || !ca_export(directory, &out, &why) || (path && !file_replace(path, 0644, buf_slice(&out), &why)))
        status = command_fail(inv, &why);
    else if (!path)
        status = command_print(inv, &out);
    buf_free(&out);
    free(directory);
    return status;
}

static const struct command command_init = {
    .name = "init",
    .summary = "a new root in the state's ca/, when there is none",
    .help = "exeat init has done this already. It is for a state whose ca/ was moved away or lost. Every sandbox must "
            "then be given the new root, and a running gateway restarted.",
    .examples = "  exeat ca init\n",
    .run = run_init,
};

static const struct command command_show = {
    .name = "show",
    .summary = "subjects, fingerprints, validity and the names the CA can speak for",
    .help = "The intermediate carries critical name constraints: a client that trusts the root accepts certificates for "
            "the listed hosts and names below them, and for nothing else, whoever has the key.",
    .examples = "  exeat ca show\n"
                "  exeat ca show --format json | jq -r .root.sha256\n",
    .has_json = true,
    .run = run_show,
};

static const struct option_spec export_options[] = {
    {.name = "output", .letter = 'o', .type = OPTION_TEXT, .value = "FILE", .help = "write it there, not to stdout"},
    {0},
};

static const struct command command_export = {
    .name = "export",
    .summary = "the root certificate as PEM, for sandboxes to trust",
    .help = "It is no secret. Never copy ca/root.key: keep it on this machine, or off-line; it is needed only when the "
            "listed hosts change and once a year.",
    .examples = "  exeat ca export > exeat-root.pem\n"
                "  exeat ca export --output /usr/local/share/ca-certificates/exeat.crt && update-ca-certificates\n",
    .options = export_options,
    .run = run_export,
};

static const struct command *const subcommands[] = {&command_init, &command_show, &command_export, NULL};

const struct command command_ca = {
    .name = "ca",
    .summary = "the gateway's certificate authority: show it, export its root",
    .subcommands = subcommands,
    .topic = TOPIC_SECRETS,
};
