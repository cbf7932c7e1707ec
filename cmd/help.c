/* Writes help for people from the tables of commands and options. */
#include "cmd/help.h"

#include <string.h>

#include "base/slice.h"
#include "cmd/command.h"

enum { WIDTH = 80, COLUMN = 26 };

static const char *const topics[] = {
    [TOPIC_GATEWAY] = "the gateway",
    [TOPIC_POLICY] = "what may go out",
    [TOPIC_LEAVE] = "by whose leave",
    [TOPIC_SECRETS] = "certificates and canaries",
    [TOPIC_EVIDENCE] = "what happened",
};

/* Words of text, wrapped; each line starts with indent spaces (the first is already in place). */
static void wrap(struct buf *out, struct slice text, size_t indent, size_t column)
{
    struct slice word;
    bool first = true;

    while (slice_next(&text, ' ', &word)) {
        if (word.len == 0)
            continue;
        if (!first && column + 1 + word.len > WIDTH) {
            buf_printf(out, "\n%*s", (int)indent, "");
            column = indent;
            first = true;
        }
        if (!first) {
            buf_char(out, ' ');
            column++;
        }
        buf_append(out, word);
        column += word.len;
        first = false;
    }
    buf_char(out, '\n');
}

void help_paragraphs(const char *text, void (*each)(void *arg, struct slice text, bool verbatim), void *arg)
{
    struct slice left = slice_of(text), line;
    struct buf paragraph = {0};

    while (slice_next(&left, '\n', &line)) {
        bool verbatim = line.len && line.ptr[0] == ' ';

        if ((verbatim || line.len == 0) && buf_len(&paragraph)) {
            each(arg, buf_slice(&paragraph), false);
            buf_clear(&paragraph);
        }
        if (verbatim) {
            each(arg, line, true);
        } else if (line.len) {
            buf_append(&paragraph, line);
            buf_char(&paragraph, ' ');
        }
    }
    if (buf_len(&paragraph))
        each(arg, buf_slice(&paragraph), false);
    buf_free(&paragraph);
}

void help_lines(const char *text, void (*each)(void *arg, struct slice text, bool verbatim), void *arg)
{
    struct slice left = slice_of(text), line;
    struct buf indented = {0};

    while (slice_next(&left, '\n', &line)) {
        if (line.len == 0)
            continue;
        buf_clear(&indented);
        buf_printf(&indented, "%s%.*s", line.ptr[0] == ' ' ? "" : "  ", SLICE_ARG(line));
        each(arg, buf_slice(&indented), true);
    }
    buf_free(&indented);
}

static void add_paragraph(void *arg, struct slice text, bool verbatim)
{
    struct buf *out = arg;

    if (verbatim) {
        buf_append(out, text);
        buf_char(out, '\n');
        return;
    }
    buf_char(out, '\n');
    wrap(out, text, 0, 0);
}

/* "  left   right", right wrapped in its column; on a line of its own when left is long. */
static void row(struct buf *out, struct slice left, const char *right)
{
    buf_printf(out, "  %.*s", SLICE_ARG(left));
    if (left.len + 4 > COLUMN)
        buf_printf(out, "\n%*s", COLUMN, "");
    else
        buf_printf(out, "%*s", (int)(COLUMN - left.len - 2), "");
    wrap(out, slice_of(right), COLUMN, COLUMN);
}

void help_option(const struct option_spec *o, struct buf *out)
{
    if (o->letter)
        buf_printf(out, "-%c, ", o->letter);
    buf_printf(out, "--%s", o->name);
    if (o->value)
        buf_printf(out, " %s", o->value);
}

static void options(struct buf *out, const char *title, const struct option_spec *o)
{
    struct buf left = {0};

    if (!o || !o->name)
        return;
    buf_printf(out, "\n%s:\n", title);
    for (; o->name; o++) {
        buf_clear(&left);
        if (!o->letter)
            buf_text(&left, "    ");
        help_option(o, &left);
        row(out, buf_slice(&left), o->help);
    }
    buf_free(&left);
}

void help_usage(const struct command *c, struct buf *out)
{
    command_title(c, out);
    if (c->subcommands) {
        buf_text(out, " COMMAND ...");
        return;
    }
    for (const struct option_spec *o = c->options; o && o->name; o++)
        if (o->required)
            buf_printf(out, " --%s %s", o->name, o->value ? o->value : "");
    buf_text(out, " [options]");
    if (c->arguments)
        buf_printf(out, " %s", c->arguments);
}

void command_help(const struct command *c, struct buf *out)
{
    buf_text(out, "usage: ");
    help_usage(c, out);
    buf_printf(out, "\n       %s\n", c->summary);
    if (c->help)
        help_paragraphs(c->help, add_paragraph, out);
    if (c->subcommands)
        buf_text(out, "\ncommands:\n");
    for (const struct command *const *s = c->subcommands; s && *s; s++)
        if ((*s)->topic != TOPIC_HIDDEN)
            row(out, slice_of((*s)->name), (*s)->summary);
    options(out, "options", c->options);
    options(out, "everywhere", command_options);
    if (c->examples) {
        buf_text(out, "\nexamples:\n");
        help_lines(c->examples, add_paragraph, out);
    }
}

void command_list(struct buf *out)
{
    buf_text(out, "usage: exeat COMMAND [options] ...\n"
                  "       the only door out of sandboxes that run untrusted code\n");
    for (int topic = 0; topic < TOPIC_HIDDEN; topic++) {
        bool any = false;

        for (const struct command *const *c = commands_all(); *c; c++) {
            if ((int)(*c)->topic != topic)
                continue;
            if (!any)
                buf_printf(out, "\n%s:\n", topics[topic]);
            any = true;
            row(out, slice_of((*c)->name), (*c)->summary);
        }
    }
    options(out, "everywhere", command_options);
    buf_text(out, "\nexit status: 0 yes, 1 a negative answer, 2 usage or configuration, 3 could not tell or failed\n"
                  "\nexeat COMMAND --help tells more.\n");
}
