/* `exeat config`: is the configuration good, what does it come to, what could be written in it. */
#include "authz/preset.h"
#include "base/say.h"
#include "base/text.h"
#include "cmd/command.h"
#include "proxy/config.h"

static void json_verdict(const struct gateway_config *c, const struct fault *why, struct buf *out)
{
    buf_printf(out, "{\"schema\":\"exeat.config-check/1\",\"ok\":%s", c ? "true" : "false");
    if (!c) {
        buf_text(out, ",\"error\":");
        text_json(out, slice_of(why->text));
    }
    buf_text(out, ",\"warnings\":[");
    for (size_t i = 0; c && i < c->n_warnings; i++) {
        if (i)
            buf_char(out, ',');
        text_json(out, slice_of(c->warnings[i]));
    }
    buf_text(out, "]}\n");
}

static int run_check(const struct invocation *inv)
{
    struct fault why = {0};
    struct gateway_config *c = gateway_config_load(inv->config, &why);
    int status = STATUS_YES;

    if (c && !gateway_check_ca(c, &why)) {
        gateway_config_free(c);
        c = NULL;
    }
    if (!c)
        status = command_fail(inv, &why);

    if (inv->json) {
        struct buf out = {0};

        json_verdict(c, &why, &out);
        if (command_print(inv, &out) != STATUS_YES)
            status = STATUS_FAILED;
    } else {
        for (size_t i = 0; c && i < c->n_warnings; i++)
            say_warning("%s", c->warnings[i]);
    }
    gateway_config_free(c);
    return status;
}

static int run_print(const struct invocation *inv)
{
    struct fault why = {0};
    struct gateway_config *c = gateway_config_load(inv->config, &why);
    struct buf out = {0};

    if (!c)
        return command_fail(inv, &why);
    conf_print(c->conf, true, &out);
    gateway_config_free(c);
    return command_print(inv, &out);
}

static int run_schema(const struct invocation *inv)
{
    struct buf out = {0};
    size_t n;
    const struct conf_section *const *sections = gateway_sections(&n);

    conf_schema(sections, n, &out);
    return command_print(inv, &out);
}

static const char introduction[] =
    "<!-- written by `exeat config help`; edit the tables of keys instead -->\n"
    "# Configuration\n"
    "\n"
    "`proxy.conf` is YAML. Every value is one line of text that the tables below read, so YAML's own typing never\n"
    "applies: `yes` is not `true`, and `0x10` is no number. Refused, with file, line and column: unknown and duplicate\n"
    "keys, anchors, aliases, tags, merge keys, a second document. `exeat config check` reads everything as `serve`\n"
    "would; `exeat config print` shows what it comes to, defaults included; `exeat config schema` is for editors.\n"
    "[proxy.conf.example](../proxy.conf.example) has every key.\n"
    "\n"
    "- Without `-c FILE`: `$EXEAT_CONFIG`, then `" COMMAND_CONFIG "`; never the current directory.\n"
    "- A *size* is bytes: `512`, `64k`, `256m`, `1g`. A *time*: `250ms`, `2s`, `15m`, `4h`, `7d`.\n"
    "- A *file* is relative to the file it is written in.\n"
    "- A *list* with one entry may be written without its brackets.\n"
    "- `include: services.d/*.conf` (a name, a pattern, or a list of them; in the first file only) reads more files\n"
    "  with the same sections. An item, such as one service, stands in one file.\n"
    "\n";

static int run_help(const struct invocation *inv)
{
    struct buf out = {0};
    size_t n;
    const struct conf_section *const *sections = gateway_sections(&n);

    buf_text(&out, introduction);
    conf_help(sections, n, &out);
    preset_help(&out);
    return command_print(inv, &out);
}

static const struct command check = {
    .name = "check",
    .summary = "read the configuration and every file it names; silent when all is good",
    .help = "Reads what `exeat serve` would read and says what is off, with file, line and column. What is allowed "
            "and still worth a second look is a warning: a waived audit, a listener that sandboxes share.\n",
    .examples = "  exeat -c /etc/exeat/proxy.conf config check && systemctl reload exeat\n",
    .has_json = true,
    .run = run_check,
};

static const struct command print = {
    .name = "print",
    .summary = "the effective configuration, includes and defaults filled in",
    .help = "What it prints can be read again and gives the same.\n",
    .run = run_print,
};

static const struct command schema = {
    .name = "schema",
    .summary = "a JSON Schema of proxy.conf, for editors",
    .examples = "  exeat config schema >exeat.schema.json\n"
                "  # then, as the first line of proxy.conf:\n"
                "  # yaml-language-server: $schema=exeat.schema.json\n",
    .run = run_schema,
};

static const struct command help = {
    .name = "help",
    .summary = "every key with its value, default and meaning, as Markdown",
    .run = run_help,
};

const struct command command_config = {
    .name = "config",
    .summary = "check, print and explain the configuration",
    .topic = TOPIC_POLICY,
    .subcommands = (const struct command *const[]){&check, &print, &schema, &help, NULL},
};
