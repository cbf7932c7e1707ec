/* `exeat audit`: what a listed service does for who should get nothing, and where it can be made to go. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/report.h"
#include "base/file.h"
#include "base/guess.h"
#include "base/say.h"
#include "cmd/command.h"

enum { NAMED_MAX = 130, RATE_OUTSIDE_MAX = 20 };

/* ---- while it runs ---- */

struct progress {
    bool is_terminal;
};

static void on_finding(void *arg, const struct check *c, const struct finding *f, size_t done, size_t all)
{
    const struct progress *p = arg;

    if (p->is_terminal)
        fprintf(stderr, "\r\033[K%zu/%zu %s %s", done, all, c->id, verdict_name(f->verdict));
}

/* ---- reports ---- */

static bool write_report(const struct invocation *inv, const char *option, const struct audit *a, void (*report)(const struct audit *, struct buf *), struct fault *why)
{
    const char *path = option_text(inv->options, option);
    struct buf out = {0};
    bool ok;

    if (!path)
        return true;
    report(a, &out);
    ok = file_replace(path, 0644, buf_slice(&out), why);
    buf_free(&out);
    return ok;
}

static int write_all(const struct invocation *inv, const struct audit *a)
{
    struct fault why = {0};
    struct buf out = {0};
    int status;

    if (!write_report(inv, "junit", a, report_junit, &why) || !write_report(inv, "sarif", a, report_sarif, &why) || !write_report(inv, "html", a, report_html, &why) ||
        !write_report(inv, "exchanges", a, report_exchanges, &why)) {
        command_fail(inv, &why);
        return STATUS_FAILED;
    }
    if (inv->json)
        report_json(a, &out);
    else
        report_text(a, inv->verbose, &out);
    status = command_print(inv, &out);
    buf_free(&out);
    if (status != STATUS_YES)
        return status;
    return audit_is_passing(a) ? STATUS_YES : STATUS_NO;
}

/* ---- options ---- */

static bool is_check(const char *id)
{
    const struct check_group *g;

    for (size_t i = 0; (g = check_group_at(i)); i++)
        for (size_t j = 0; j < g->n; j++)
            if (strcasecmp(g->checks[j].id, id) == 0)
                return true;
    return false;
}

static bool read_named(const struct invocation *inv, const char *named[NAMED_MAX + 1], struct fault *why)
{
    size_t n = option_count(inv->options, "check");

    if (n > NAMED_MAX)
        return fault_set(why, FAULT_USAGE, "more than %d checks", NAMED_MAX);
    for (size_t i = 0; i < n; i++) {
        named[i] = option_text_at(inv->options, "check", i);
        if (!is_check(named[i]))
            return fault_set(why, FAULT_USAGE, "there is no check \"%.40s\"; docs/handoff.md lists them", named[i]);
    }
    return true;
}

static unsigned allowed_of(const struct invocation *inv)
{
    static const struct {
        const char *option;
        unsigned run;
    } rows[] = {{"active", RUN_WRITES}, {"tenant2", RUN_TENANTS}, {"issuer-key", RUN_ISSUER}, {"beacon", RUN_LISTENER}};
    unsigned allowed = 0;

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (option_flag(inv->options, rows[i].option))
            allowed |= rows[i].run;
    return allowed;
}

/* A service on another machine is somebody's at work. */
static bool read_rate(const struct invocation *inv, const struct manifest *m, struct audit_options *o, struct fault *why)
{
    o->rate = option_number(inv->options, "rate", 0);
    o->requests = option_number(inv->options, "requests", 0);
    if (!manifest_is_loopback(m) && o->rate > RATE_OUTSIDE_MAX)
        return fault_set(why, FAULT_USAGE, "--rate above %d is for manifests that reach loopback alone", RATE_OUTSIDE_MAX);
    return true;
}

/* Say what else it might have been. */
static struct target *open_target(const struct manifest *m, const char *name, struct fault *why)
{
    struct guess g = {.word = name};
    struct target *t = target_open(m, name, why);

    for (size_t i = 0; !t && why->kind == FAULT_USAGE && manifest_service_name(m, i); i++)
        guess_try(&g, manifest_service_name(m, i));
    if (g.best)
        fault_set(why, FAULT_USAGE, "the manifest has no service \"%.60s\"; did you mean %.60s?", name, g.best);
    return t;
}

static int print_catalogue(const struct invocation *inv)
{
    struct buf out = {0};
    int status;

    report_catalogue(&out);
    status = command_print(inv, &out);
    buf_free(&out);
    return status;
}

static int audit_one(const struct invocation *inv)
{
    const char *named[NAMED_MAX + 1] = {NULL};
    struct progress progress = {!inv->quiet && !inv->json && isatty(2)};
    struct audit_options o = {.allowed = allowed_of(inv), .on_finding = on_finding, .arg = &progress};
    struct fault why = {0};
    struct manifest *m = manifest_load(option_text(inv->options, "manifest"), &why);
    struct target *t = NULL;
    struct audit *a = NULL;
    int status;

    if (!m || !(t = open_target(m, inv->args[0], &why)) || !read_named(inv, named, &why) || !read_rate(inv, m, &o, &why)) {
        command_fail(inv, &why);
        status = STATUS_USAGE;
        goto out;
    }
    o.named = named[0] ? named : NULL;
    a = audit_run(t, &o, &why);
    if (progress.is_terminal)
        fprintf(stderr, "\r\033[K");
    if (a) {
        status = write_all(inv, a);
    } else {
        command_fail(inv, &why);
        status = STATUS_FAILED;
    }
out:
    audit_free(a);
    target_free(t);
    manifest_free(m);
    return status;
}

static int run(const struct invocation *inv)
{
    if (option_flag(inv->options, "catalogue"))
        return print_catalogue(inv);
    if (inv->n_args == 0 || !option_text(inv->options, "manifest"))
        return command_misuse(inv, "which service, of which manifest?");
    return audit_one(inv);
}

const struct command command_audit = {
    .name = "audit",
    .summary = "what a service does for who should get nothing, and where it can be made to go",
    .arguments = "[SERVICE]",
    .max_args = 1,
    .help = "Sends the catalogue of the trust-handoff audit to a service that its owner lists in a manifest, and judges the answers: does it "
            "demand a credential of its own, and does it refuse to act as a conduit? docs/handoff.md explains manifest, verdicts and "
            "each check.\n\n"
            "Without options it only reads. --active writes (with a nonce in everything, which is removed afterwards), --tenant2 uses the second "
            "tenant's credential, --issuer-key makes tokens with the staging issuer's key, --beacon listens where the manifest says and looks for "
            "who comes.\n\n"
            "No packet goes to an address that the manifest does not name. Exit status: 0 passing, 1 not passing, 2 the words or the manifest are "
            "off, 3 the audit could not be made.",
    .examples = "exeat audit packages --manifest audit.yaml --beacon\nexeat audit packages -m audit.yaml --active --beacon --rate 100 --html report.html\nexeat audit packages -m audit.yaml --check AN-1 "
                "--check RL-1 --beacon --format json",
    .options =
        (const struct option_spec[]){
            {.name = "manifest", .letter = 'm', .type = OPTION_TEXT, .value = "FILE", .help = "the owner's manifest"},
            {.name = "active", .type = OPTION_FLAG, .help = "checks that write, too"},
            {.name = "tenant2", .type = OPTION_FLAG, .help = "checks that need a second tenant, too"},
            {.name = "issuer-key", .type = OPTION_FLAG, .help = "checks that need the issuer's key, too"},
            {.name = "beacon", .type = OPTION_FLAG, .help = "checks that need the listener, too"},
            {.name = "check", .type = OPTION_TEXT, .value = "ID", .help = "this check alone (may stand several times); one that may disturb runs only so", .repeat = true},
            {.name = "rate", .type = OPTION_COUNT, .value = "N", .help = "requests a second (reach.rate of the manifest)"},
            {.name = "requests", .type = OPTION_COUNT, .value = "N", .help = "requests in all (reach.requests)"},
            {.name = "junit", .type = OPTION_TEXT, .value = "FILE", .help = "write JUnit XML there"},
            {.name = "sarif", .type = OPTION_TEXT, .value = "FILE", .help = "write SARIF 2.1.0 there"},
            {.name = "html", .type = OPTION_TEXT, .value = "FILE", .help = "write one HTML page there"},
            {.name = "catalogue", .type = OPTION_FLAG, .help = "print every check and what to do about it, as docs/checks.md has it"},
            {.name = "exchanges", .type = OPTION_TEXT, .value = "FILE", .help = "write every exchange there, a JSON line each, with SHA-256 of what was sent and received"},
            {0},
        },
    .topic = TOPIC_EVIDENCE,
    .has_json = true,
    .run = run,
};
