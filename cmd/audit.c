/* `exeat audit`: what a listed service does for who should get nothing, and where it can be made to go. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/report.h"
#include "base/file.h"
#include "base/guess.h"
#include "base/say.h"
#include "base/secret.h"
#include "cmd/attest.h"
#include "cmd/audit_from.h"
#include "cmd/command.h"
#include "cmd/journal.h"
#include "cmd/receipt.h"

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

static const char *const files[] = {"junit", "sarif", "html", "exchanges", "policy"};
enum { N_FILES = sizeof files / sizeof *files };

static bool is_policy_alone(const struct invocation *inv)
{
    return slice_is(slice_of(option_text(inv->options, "policy")), "-");
}

/* An audit takes its time: where it is to be written shall not turn out at its end to be nowhere. */
static bool may_write(const struct invocation *inv, struct fault *why)
{
    for (size_t i = 0; i < N_FILES; i++) {
        const char *path = option_text(inv->options, files[i]);

        if (!path || (strcmp(files[i], "policy") == 0 && is_policy_alone(inv)) || file_may_replace(path, why))
            continue;
        fault_prefix(why, "--%s", files[i]);
        why->kind = FAULT_USAGE;
        return false;
    }
    return true;
}

static int write_all(const struct invocation *inv, const struct audit *a)
{
    bool policy_alone = is_policy_alone(inv);
    struct fault why = {0};
    struct buf out = {0};
    int status;

    if (!write_report(inv, "junit", a, report_junit, &why) || !write_report(inv, "sarif", a, report_sarif, &why) || !write_report(inv, "html", a, report_html, &why) ||
        !write_report(inv, "exchanges", a, report_exchanges, &why) || (!policy_alone && !write_report(inv, "policy", a, report_policy, &why))) {
        command_fail(inv, &why);
        return STATUS_FAILED;
    }
    if (policy_alone)
        report_policy(a, &out);
    else if (inv->json)
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
            return fault_set(why, FAULT_USAGE, "there is no check \"%.40s\"; exeat audit --catalogue lists them", named[i]);
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

/* The gateway's address and the leave token: what a sandbox has. */
static bool read_gateway(const struct invocation *inv, struct addr *at, struct secret **token, struct audit_options *o, struct fault *why)
{
    const char *through = option_text(inv->options, "through"), *path = option_text(inv->options, "leave-token");

    if ((!through && !path) || option_text(inv->options, "from"))
        return true;
    if (!through || !path)
        return fault_set(why, FAULT_USAGE, "--through and --leave-token go together; a token: exeat token issue --sandbox audit --scope ... --output FILE");
    if (!addr_parse(slice_of(through), at) || at->port == 0)
        return fault_set(why, FAULT_USAGE, "--through is the gateway's address and port, such as 127.0.0.1:3128");
    if (!(*token = secret_read_file(path, 16 * 1024, why)))
        return false;
    o->gateway = at;
    o->leave_token = secret_slice(*token).ptr;
    o->gateway_ca = option_text(inv->options, "gateway-ca");
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
    else if (!t && !manifest_find(m, name) && manifest_service_name(m, 0))
        fault_set(why, FAULT_USAGE, "the manifest has no service \"%.60s\"; its first is %.60s", name, manifest_service_name(m, 0));
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

/* ---- one service, or all of the manifest ---- */

struct job {
    const struct invocation *inv;
    const struct manifest *manifest;
    struct attest *attest; /* NULL: no --attest */
    struct audit_options options;
    struct progress progress;
};

static int fail(const struct job *j, struct audit *a, struct target *t, const struct fault *why, int status)
{
    command_fail(j->inv, why);
    audit_free(a);
    target_free(t);
    return status;
}

/* Sign it, and have it in the journal, or say that it is not there. */
static bool put_on_record(const struct job *j, const struct audit *a, struct fault *why)
{
    const char *name = service_name(j->options.service);
    struct fault untold = {0};
    char *id;

    if (!attest_write(j->attest, j->options.service, a, why))
        return false;
    id = attest_record(j->attest, j->options.service, a, &untold);
    if (!id)
        say_warning("%s: the journal has no record of this audit: %s", name, untold.text);
    if (!j->inv->quiet)
        say_note("%s: %s is on record%s%s; a gateway that runs goes by it from its next reload: exeat reload -c %s", name,
                 audit_is_passing(a) ? "an audit that passed" : "an audit that did not pass, so that the service is closed,", id ? ": exeat why " : "", id ? id : "",
                 j->inv->config);
    free(id);
    return true;
}

static int audit_one(struct job *j, const char *name)
{
    struct fault why = {0};
    struct target *t = open_target(j->manifest, name, &why);
    struct audit *a;
    int status;

    if (!t || (j->attest && !(j->options.service = attest_service(j->attest, name, &why))))
        return fail(j, NULL, t, &why, STATUS_USAGE);
    a = audit_run(t, &j->options, &why);
    if (j->progress.is_terminal)
        fprintf(stderr, "\r\033[K");
    if (!a)
        return fail(j, NULL, t, &why, STATUS_FAILED);
    if (audit_shut_out(a).len)
        say_warning("%s: the gateway let nothing through (%.*s), so nothing is covered; why it did not: exeat why --refused", name,
                    SLICE_ARG(slice_cut(audit_shut_out(a), 0, 120)));
    status = write_all(j->inv, a);
    if (j->attest && !put_on_record(j, a, &why))
        return fail(j, a, t, &why, STATUS_FAILED);
    audit_free(a);
    target_free(t);
    return status;
}

/* The worst of them counts: who could not be audited did not pass. */
static int audit_all(struct job *j)
{
    const char *name;
    int worst = STATUS_YES;

    for (size_t i = 0; (name = manifest_service_name(j->manifest, i)); i++) {
        int status = audit_one(j, name);

        if (status > worst)
            worst = status;
    }
    return worst;
}

static bool check_words(const struct invocation *inv, struct fault *why)
{
    bool all = option_flag(inv->options, "all");

    if (all == (inv->n_args == 1))
        return fault_set(why, FAULT_USAGE, "name the SERVICE, or say --all");
    for (size_t i = 0; all && i < N_FILES; i++)
        if (option_text(inv->options, files[i]))
            return fault_set(why, FAULT_USAGE, "--%s is a file of one service; with --all use --format json", files[i]);
    if (option_flag(inv->options, "attest") && option_count(inv->options, "check"))
        return fault_set(why, FAULT_USAGE, "--attest wants a whole audit, not --check");
    return true;
}

static int send_canary(const struct invocation *inv, const struct manifest *m)
{
    struct fault why = {0};
    struct target *t = inv->n_args ? open_target(m, inv->args[0], &why) : NULL;
    int status;

    if (!inv->n_args)
        fault_set(&why, FAULT_USAGE, "name the SERVICE that the canary is sent to");
    status = t ? audit_from(inv, m, t, allowed_of(inv)) : command_fail(inv, &why);
    target_free(t);
    return status;
}

/* Checks that wait for somebody to come would all be not-run, without a word of why. */
static void warn_of_no_listener(const struct invocation *inv, const struct manifest *m)
{
    if (!option_flag(inv->options, "beacon") || conf_list_count(manifest_section(m, "listener"), "addresses") ||
        conf_list_count(manifest_section(m, "upstream"), "addresses"))
        return;
    say_warning("--beacon: %s says nowhere to listen, so checks that wait for the service to come are not run; say where: listener: "
                "{ addresses: [\"ADDRESS\"] }", option_text(inv->options, "manifest"));
}

static int run_audits(const struct invocation *inv)
{
    const char *named[NAMED_MAX + 1] = {NULL};
    struct job j = {.inv = inv, .progress = {!inv->quiet && !inv->json && isatty(2)}};
    struct fault why = {0};
    struct manifest *m = NULL;
    struct secret *token = NULL;
    struct addr gateway;
    int status;

    j.options = (struct audit_options){.allowed = allowed_of(inv), .on_finding = on_finding, .arg = &j.progress};
    if (!check_words(inv, &why) || !may_write(inv, &why) || !(m = manifest_load(option_text(inv->options, "manifest"), &why)) || !read_named(inv, named, &why) ||
        !read_rate(inv, m, &j.options, &why) || !read_gateway(inv, &gateway, &token, &j.options, &why) ||
        (option_flag(inv->options, "attest") && !(j.attest = attest_open(inv->config, &why)))) {
        command_fail(inv, &why);
        secret_free(token);
        manifest_free(m);
        return STATUS_USAGE;
    }
    warn_of_no_listener(inv, m);
    j.manifest = m;
    j.options.named = named[0] ? named : NULL;
    if (option_text(inv->options, "from"))
        status = send_canary(inv, m);
    else
        status = inv->n_args ? audit_one(&j, inv->args[0]) : audit_all(&j);
    attest_free(j.attest);
    secret_free(token);
    manifest_free(m);
    return status;
}

static int run(const struct invocation *inv)
{
    if (option_flag(inv->options, "catalogue"))
        return print_catalogue(inv);
    if (option_text(inv->options, "check-exchanges"))
        return inv->n_args ? receipt_check(inv, inv->args[0], option_text(inv->options, "check-exchanges")) : command_misuse(inv, "name the SERVICE whose exchanges they are");
    if (!option_text(inv->options, "manifest"))
        return command_misuse(inv, "of which manifest? Name it with -m FILE");
    return run_audits(inv);
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
            "With --attest the gateway goes by the result: what was found is signed and kept in the state directory of the configuration (-c), for "
            "this configuration of the service and for audit-max-age. A service without it, or whose last audit did not pass, is closed. Of weaknesses "
            "only those count as accepted that the gateway's configuration accepts. The service must be named as it is there. Give the new "
            "configuration with -c before a reload, and no service is closed by it.\n\n"
            "Every report ends with the tighter policy: configuration for the gateway that keeps sandboxes from what was found weak, as far as a gateway can; --policy "
            "writes it alone. With it in force, --through asks again through the gateway and shows what is covered.\n\n"
            "What was sent and received stands in attestations/SERVICE.exchanges of the state directory then, and a running gateway puts a hash that stands for it "
            "into the journal; --check-exchanges holds such a file against that, and the status is 1 when it was changed.\n\n"
            "With --from it sends none of the checks, but a secret that is planted for this run: the gateway that runs by the configuration (-c) is told to "
            "look for it, then it is sent as somebody in that sandbox would, by each part of a request and in each spelling, and is taken back. A "
            "control, which is no secret, is sent by the same ways: what the control cannot do says nothing. Exit status: 1 it came out, 3 that cannot "
            "be told. --active tries contents too, --beacon places to be sent on to.\n\n"
            "No packet goes to an address that the manifest does not name. Exit status: 0 passing, 1 not passing, 2 the words or the manifest are "
            "off, 3 the audit could not be made.",
    .examples = "exeat audit packages --manifest audit.yaml --beacon\nexeat audit packages -m audit.yaml --active --beacon --rate 100 --html report.html\nexeat audit packages -m audit.yaml --check AN-1 "
                "--check RL-1 --beacon --format json\nexeat audit packages -m audit.yaml --active --beacon --policy packages.yaml\nexeat audit packages -m audit.yaml --active --beacon --through 127.0.0.1:3128 --leave-token audit.jwt\n"
                "exeat audit packages -m audit.yaml --from vm1 -c proxy.conf\nexeat audit --all -m audit.yaml --active --beacon --attest -c proxy.conf; exeat reload -c proxy.conf",
    .options =
        (const struct option_spec[]){
            {.name = "manifest", .letter = 'm', .type = OPTION_TEXT, .value = "FILE", .help = "the owner's manifest"},
            {.name = "all", .type = OPTION_FLAG, .help = "every service of the manifest, one after another"},
            {.name = "attest", .type = OPTION_FLAG, .help = "sign the result, so that the gateway opens or closes the service by it"},
            {.name = "active", .type = OPTION_FLAG, .help = "checks that write, too"},
            {.name = "tenant2", .type = OPTION_FLAG, .help = "checks that need a second tenant, too"},
            {.name = "issuer-key", .type = OPTION_FLAG, .help = "checks that need the issuer's key, too"},
            {.name = "beacon", .type = OPTION_FLAG, .help = "checks that need the listener, too"},
            {.name = "check", .type = OPTION_TEXT, .value = "ID", .help = "this check alone (may stand several times); one that may disturb runs only so", .repeat = true},
            {.name = "rate", .type = OPTION_COUNT, .value = "N", .help = "requests a second (reach.rate of the manifest)"},
            {.name = "requests", .type = OPTION_COUNT, .value = "N", .help = "requests in all (reach.requests)"},
            {.name = "through", .type = OPTION_TEXT, .value = "ADDRESS:PORT", .help = "ask what is weak again through the gateway there: what is good then is covered"},
            {.name = "from", .type = OPTION_TEXT, .value = "SANDBOX", .help = "plant a canary, send it from there through the running gateway, and say where it came out"},
            {.name = "leave-token", .type = OPTION_TEXT, .value = "FILE", .help = "the leave token for --through, or of the sandbox when no listener has one"},
            {.name = "gateway-ca", .type = OPTION_TEXT, .value = "FILE", .help = "the gateway's root, for services behind TLS"},
            {.name = "policy", .type = OPTION_TEXT, .value = "FILE", .help = "write the tighter policy of the gateway there, as a part of proxy.conf (-: print it in place of the report)"},
            {.name = "junit", .type = OPTION_TEXT, .value = "FILE", .help = "write JUnit XML there"},
            {.name = "sarif", .type = OPTION_TEXT, .value = "FILE", .help = "write SARIF 2.1.0 there"},
            {.name = "html", .type = OPTION_TEXT, .value = "FILE", .help = "write one HTML page there"},
            {.name = "catalogue", .type = OPTION_FLAG, .help = "print every check and what to do about it, as docs/checks.md has it"},
            {.name = "exchanges", .type = OPTION_TEXT, .value = "FILE", .help = "write every exchange there, a JSON line each, with SHA-256 of what was sent and received"},
            {.name = "check-exchanges", .type = OPTION_TEXT, .value = "FILE", .help = "audit nothing: is this file the exchanges of an audit that the journal has?"},
            JOURNAL_OPTION,
            {0},
        },
    .topic = TOPIC_EVIDENCE,
    .has_json = true,
    .run = run,
};
