/* Owns the page of all checks, docs/checks.md: from the same rows that audits and reports are made of. */
#include "audit/report.h"

static void put_cell(const char *text, struct buf *out)
{
    for (const char *c = text; *c; c++)
        if (*c == '|')
            buf_text(out, "\\|");
        else
            buf_char(out, *c);
}

static const char *needs_of(unsigned run, char out[64])
{
    static const struct {
        unsigned run;
        const char *word;
    } rows[] = {{RUN_WRITES, "--active "}, {RUN_TENANTS, "--tenant2 "}, {RUN_ISSUER, "--issuer-key "}, {RUN_LISTENER, "--beacon "}, {RUN_NAMED, "--check "}};
    struct buf text = {0};
    size_t n;

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (run & rows[i].run)
            buf_text(&text, rows[i].word);
    n = buf_len(&text) < 63 ? buf_len(&text) : 63;
    memcpy(out, buf_slice(&text).ptr, n);
    out[n > 0 ? n - 1 : 0] = 0;
    buf_free(&text);
    return out;
}

static void put_check(const struct check *c, struct buf *out)
{
    char needs[64];

    buf_printf(out, "### %s: ", c->id);
    put_cell(c->title, out);
    buf_printf(out, "\n\n%s; %s%s%s%s.\n\n", severity_name(c->severity), c->send ? "needs " : "not run: no fixture shows both a good and a bad answer to it; needs ",
               needs_of(c->run, needs)[0] ? needs : "nothing, it only reads", c->standard[0] ? "; basis: " : "", c->standard);
    if (c->at_service[0])
        buf_printf(out, "- At the service: %s\n", c->at_service);
    if (c->at_gateway[0])
        buf_printf(out, "- At the gateway: %s\n", c->at_gateway);
    buf_char(out, '\n');
}

void report_catalogue(struct buf *out)
{
    const struct check_group *g;

    buf_text(out, "# The checks of the audit\n\nWritten by `exeat audit --catalogue`; docs/handoff.md says how to run them and how to read what comes of it. What to do about a finding stands under its check: at the "
                  "service, and until then at the gateway.\n\n");
    for (size_t i = 0; (g = check_group_at(i)); i++) {
        buf_printf(out, "## %s: %s\n\n", g->prefix, g->title);
        for (size_t j = 0; j < g->n; j++)
            put_check(&g->checks[j], out);
    }
    buf_truncate(out, buf_len(out) - 1);
}
