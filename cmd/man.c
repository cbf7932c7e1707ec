/* Writes the manual, roff of the man macros, from the same tables as --help. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "cmd/command.h"
#include "cmd/help.h"
#include "sandbox/helper.h"

/* Text with roff's own characters made harmless; a line never starts with a control character. */
static void escape(struct buf *out, struct slice text)
{
    if (text.len && (text.ptr[0] == '.' || text.ptr[0] == '\''))
        buf_text(out, "\\&");
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] == '\\')
            buf_text(out, "\\e");
        else if (text.ptr[i] == '-')
            buf_text(out, "\\-");
        else
            buf_char(out, text.ptr[i]);
    }
}

static void paragraph(void *arg, struct slice text, bool verbatim)
{
    struct buf *out = arg;

    buf_text(out, verbatim ? ".EX\n" : ".PP\n");
    escape(out, text);
    buf_text(out, verbatim ? "\n.EE\n" : "\n");
}

static void options(struct buf *out, const struct option_spec *o)
{
    struct buf left = {0};

    for (; o && o->name; o++) {
        buf_clear(&left);
        help_option(o, &left);
        buf_text(out, ".TP\n.B ");
        escape(out, buf_slice(&left));
        buf_char(out, '\n');
        escape(out, slice_of(o->help));
        buf_char(out, '\n');
    }
    buf_free(&left);
}

static void head(struct buf *out, const char *page, const char *summary)
{
    buf_text(out, ".TH ");
    for (const char *p = page; *p; p++)
        buf_char(out, *p >= 'a' && *p <= 'z' ? (char)(*p - 'a' + 'A') : *p);
    buf_printf(out, " 1 \"\" \"exeat %s\" \"Exeat\"\n.SH NAME\n", EXEAT_VERSION);
    escape(out, slice_of(page));
    buf_text(out, " \\- ");
    escape(out, slice_of(summary));
    buf_char(out, '\n');
}

static void synopsis(struct buf *out, const struct command *c)
{
    struct buf usage = {0};

    help_usage(c, &usage);
    buf_text(out, ".nf\n");
    escape(out, buf_slice(&usage));
    buf_text(out, "\n.fi\n");
    buf_free(&usage);
}

static void foot(struct buf *out)
{
    buf_text(out, ".SH COMMON OPTIONS\n");
    options(out, command_options);
    buf_text(out, ".SH EXIT STATUS\n0 yes, 1 a negative answer, 2 usage or configuration, 3 could not tell or failed.\n");
}

/* Body of a command: what it does and its options; examples last. */
static void body(struct buf *out, const struct command *c)
{
    if (c->help)
        help_paragraphs(c->help, paragraph, out);
    options(out, c->options);
    if (c->examples)
        buf_text(out, ".PP\nExamples:\n");
    if (c->examples)
        help_lines(c->examples, paragraph, out);
}

static void overview(struct buf *out)
{
    head(out, "exeat", "the only door out of sandboxes that run untrusted code");
    buf_text(out, ".SH SYNOPSIS\nexeat COMMAND [options] ...\n.SH COMMANDS\n");
    for (const struct command *const *c = commands_all(); *c; c++) {
        if ((*c)->topic == TOPIC_HIDDEN)
            continue;
        buf_printf(out, ".TP\n.B exeat\\-%s(1)\n", (*c)->name);
        escape(out, slice_of((*c)->summary));
        buf_char(out, '\n');
    }
    foot(out);
}

void command_man_page(const struct command *c, struct buf *out)
{
    struct buf page = {0};
    char *name;

    if (!c) {
        overview(out);
        return;
    }
    buf_printf(&page, "exeat-%s", c->name);
    name = buf_take_text(&page);
    head(out, name, c->summary);
    free(name);
    buf_text(out, ".SH SYNOPSIS\n");
    if (!c->subcommands)
        synopsis(out, c);
    for (const struct command *const *s = c->subcommands; s && *s; s++)
        synopsis(out, *s);
    buf_text(out, ".SH DESCRIPTION\n");
    body(out, c);
    for (const struct command *const *s = c->subcommands; s && *s; s++) {
        buf_printf(out, ".SH %s\n", (*s)->name);
        escape(out, slice_of((*s)->summary));
        buf_char(out, '\n');
        body(out, *s);
    }
    foot(out);
}

/* ---- the helpers, whose words are in sandbox/helper.h ---- */

#define OPTION(name, value, text) {name, 0, OPTION_TEXT, value, NULL, text, false, false},
static const struct option_spec relay_options[] = {RELAY_OPTIONS(OPTION){0}};
static const struct option_spec credential_options[] = {CREDENTIAL_OPTIONS(OPTION){0}};
#undef OPTION

static const struct helper {
    const char *name, *summary, *usage, *help, *examples;
    const struct option_spec *options;
} helpers[] = {
    {"exeat-relay", RELAY_SUMMARY, RELAY_USAGE, RELAY_HELP, RELAY_EXAMPLES, relay_options},
    {"exeat-credential", CREDENTIAL_SUMMARY, CREDENTIAL_USAGE, CREDENTIAL_HELP, CREDENTIAL_EXAMPLES, credential_options},
};

static void helper_page(const struct helper *h, struct buf *out)
{
    head(out, h->name, h->summary);
    buf_text(out, ".SH SYNOPSIS\n");
    escape(out, slice_of(h->name));
    buf_char(out, ' ');
    escape(out, slice_of(h->usage));
    buf_text(out, "\n.SH DESCRIPTION\n");
    help_paragraphs(h->help, paragraph, out);
    buf_text(out, ".SH OPTIONS\n");
    options(out, h->options);
    buf_text(out, ".SH EXAMPLES\n");
    help_lines(h->examples, paragraph, out);
}

static bool write_text(const char *directory, const char *page, struct buf *text, struct fault *why)
{
    struct buf path = {0};
    char *name;
    bool ok;

    buf_printf(&path, "%s/%s.1", directory, page);
    name = buf_take_text(&path);
    ok = file_replace(name, 0644, buf_slice(text), why);
    buf_free(text);
    free(name);
    return ok;
}

static bool write_helpers(const char *directory, struct fault *why)
{
    struct buf text = {0};
    bool ok = true;

    for (size_t i = 0; ok && i < sizeof helpers / sizeof *helpers; i++) {
        helper_page(&helpers[i], &text);
        ok = write_text(directory, helpers[i].name, &text, why);
    }
    return ok;
}

static bool write_page(const char *directory, const struct command *c, struct fault *why)
{
    struct buf page = {0}, text = {0};
    char *name;
    bool ok;

    buf_printf(&page, "exeat%s%s", c ? "-" : "", c ? c->name : "");
    name = buf_take_text(&page);
    command_man_page(c, &text);
    ok = write_text(directory, name, &text, why);
    free(name);
    return ok;
}

static int run(const struct invocation *inv)
{
    struct fault why = {0};

    if (!file_make_directory(inv->args[0], 0755, &why) || !write_page(inv->args[0], NULL, &why) ||
        !write_helpers(inv->args[0], &why))
        return command_fail(inv, &why);
    for (const struct command *const *c = commands_all(); *c; c++)
        if ((*c)->topic != TOPIC_HIDDEN && !write_page(inv->args[0], *c, &why))
            return command_fail(inv, &why);
    return STATUS_YES;
}

const struct command command_man = {
    .name = "man",
    .summary = "write the manual pages into a directory",
    .arguments = "DIR",
    .min_args = 1,
    .max_args = 1,
    .topic = TOPIC_HIDDEN,
    .run = run,
};
