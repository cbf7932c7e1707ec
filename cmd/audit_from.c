#include "cmd/audit_from.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "audit/leak.h"
#include "audit/target.h"
#include "base/file.h"
#include "base/say.h"
#include "base/text.h"
#include "cmd/entrance.h"
#include "cmd/planting.h"
#include "cmd/receipt.h"

/* Whoever ends the run still wants the canary taken back. */
static volatile sig_atomic_t stopped;

static void on_signal(int number)
{
    (void)number;
    stopped = 1;
}

static void listen_for_the_end(void)
{
    struct sigaction a = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};

    sigaction(SIGINT, &a, NULL);
    sigaction(SIGTERM, &a, NULL);
    sigaction(SIGHUP, &a, NULL);
}

struct run {
    const struct invocation *inv;
    const struct manifest *manifest;
    struct target *target;
    unsigned allowed;
    const char *sandbox;
    struct gateway_config *config;
    const struct service *service;
    struct entrance entrance;
    struct planting *planting;
    struct leak *leak;
};

/* ---- before anything is sent ---- */

static bool check_words(const struct invocation *inv, struct fault *why)
{
    static const char *const others[] = {"attest", "all", "tenant2", "issuer-key", "check", "through", "sarif", "html", "policy"};

    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (option_count(inv->options, others[i]) || option_flag(inv->options, others[i]) || option_text(inv->options, others[i]))
            return fault_set(why, FAULT_USAGE, "--from sends a canary and none of the checks: --%s does not go with it", others[i]);
    return true;
}

/* As the gateway has it: by the host and port of the manifest's url. */
static bool find_service(struct run *r, struct fault *why)
{
    const struct base_url *u = &r->target->base[0];

    r->service = policy_find(r->config->policy, u->host, u->at.port);
    if (!r->service)
        return fault_set(why, FAULT_USAGE, "%s lists no service for %.100s port %u, the url of %.60s in the manifest; a sandbox could not ask there, and nothing would be shown", r->inv->config,
                         u->host, u->at.port, r->target->name);
    if (u->tls != service_is_tls_port(r->service, u->at.port))
        return fault_set(why, FAULT_USAGE, "port %u of service %.60s is for %s, and the manifest's url says %s", u->at.port, service_name(r->service), u->tls ? "plain HTTP" : "TLS",
                         u->tls ? "https" : "http");
    return true;
}

static bool check_reach(const struct run *r, struct fault *why)
{
    if (r->entrance.is_unix || manifest_reaches(r->manifest, &r->entrance.at))
        return true;
    return fault_set(why, FAULT_REFUSED, "listener %s is at %s, outside reach.ranges of the manifest; add that address there", r->entrance.name, r->entrance.address);
}

static bool prepare(struct run *r, struct fault *why)
{
    json_t *status = NULL;
    bool ok = check_words(r->inv, why) && (r->config = gateway_config_load(r->inv->config, why)) && find_service(r, why) &&
              (status = planting_ask(r->config, r->inv->config, why)) &&
              entrance_find(&r->entrance, r->config, status, r->sandbox, option_text(r->inv->options, "leave-token"), why) && check_reach(r, why);

    json_decref(status);
    return ok;
}

/* ---- while it runs ---- */

static void on_result(void *arg, const struct leak_result *result, size_t done, size_t all)
{
    const bool *is_terminal = arg;

    if (*is_terminal)
        fprintf(stderr, "\r\033[K%zu/%zu %s, %s: %s", done, all, result->route, result->spelling, leak_verdict_name(result->verdict));
}

/* The gateway's own root, so that nobody need name it. */
static char *root_of(const struct run *r)
{
    const char *named = option_text(r->inv->options, "gateway-ca");

    return named ? text_copy(slice_of(named)) : gateway_state(r->config, "ca/root.pem");
}

static bool send_all(struct run *r, struct fault *why)
{
    bool is_terminal = !r->inv->quiet && !r->inv->json && isatty(2);
    char *root = root_of(r);
    struct leak_options o = {
        .allowed = r->allowed,
        .rate = option_number(r->inv->options, "rate", 0),
        .requests = option_number(r->inv->options, "requests", 0),
        .gateway = &r->entrance.at,
        .connect = r->entrance.is_unix ? entrance_connect : NULL,
        .arg = &r->entrance,
        .leave_token = r->entrance.token ? secret_slice(r->entrance.token).ptr : NULL,
        .gateway_ca = root,
        .gateway_name = r->config->name,
        .service = r->service,
        .canary = planting_canary(r->planting),
        .control = planting_control(r->planting),
        .stop = &stopped,
        .on_result = on_result,
        .progress = &is_terminal,
    };

    r->leak = leak_run(r->target, &o, why);
    if (is_terminal)
        fprintf(stderr, "\r\033[K");
    free(root);
    return r->leak != NULL;
}

/* ---- afterwards ---- */

static void take_back(struct run *r)
{
    struct fault why = {0};
    struct buf id = {0};

    if (!r->planting)
        return;
    buf_text(&id, planting_id(r->planting));
    if (!planting_end(r->planting, &why))
        say_warning("canary %.*s is still looked for: %s; exeat canary retire %.*s, then exeat reload", SLICE_ARG(buf_slice(&id)), why.text, SLICE_ARG(buf_slice(&id)));
    r->planting = NULL;
    buf_free(&id);
}

/* Into the file that was asked for, and what stands for them into the journal, by which the canary's records explain themselves. */
static bool keep_exchanges(const struct run *r, const char *canary, struct fault *why)
{
    const char *path = option_text(r->inv->options, "exchanges");
    struct fault untold = {0};
    struct receipt receipt = {0};
    struct buf lines = {0};
    char *id = NULL;
    bool ok;

    leak_exchanges(r->leak, &lines);
    ok = !path || file_replace(path, 0644, buf_slice(&lines), why);
    if (receipt_make(buf_slice(&lines), &receipt, &untold))
        id = receipt_hand(r->config->admin, &receipt,
                          &(struct receipt_record){.service = service_name(r->service), .outcome = leak_verdict_name(leak_verdict(r->leak)), .sandbox = r->sandbox, .canary = canary},
                          &untold);
    if (!id && buf_len(&lines))
        say_warning("the journal has no record of this run: %s", untold.text);
    else if (id && !r->inv->quiet)
        say_note("on record: exeat why %s", id);
    receipt_clear(&receipt);
    buf_free(&lines);
    free(id);
    return ok;
}

static int report(const struct run *r, const char *canary)
{
    const struct leak_planting p = {r->sandbox, r->entrance.name, canary};
    const char *junit = option_text(r->inv->options, "junit");
    struct fault why = {0};
    struct buf out = {0};
    int status;

    if (!keep_exchanges(r, canary, &why)) {
        command_fail(r->inv, &why);
        return STATUS_FAILED;
    }
    if (junit) {
        leak_junit(r->leak, &p, &out);
        if (!file_replace(junit, 0644, buf_slice(&out), &why)) {
            buf_free(&out);
            command_fail(r->inv, &why);
            return STATUS_FAILED;
        }
        buf_clear(&out);
    }
    if (r->inv->json)
        leak_json(r->leak, &p, &out);
    else
        leak_text(r->leak, &p, r->inv->verbose, &out);
    status = command_print(r->inv, &out);
    buf_free(&out);
    if (status != STATUS_YES)
        return status;
    return leak_verdict(r->leak) == LEAK_OUT ? STATUS_NO : leak_verdict(r->leak) == LEAK_INCONCLUSIVE ? STATUS_FAILED : STATUS_YES;
}

static void run_clear(struct run *r)
{
    leak_free(r->leak);
    entrance_clear(&r->entrance);
    gateway_config_free(r->config);
}

int audit_from(const struct invocation *inv, const struct manifest *m, struct target *t, unsigned allowed)
{
    struct run r = {.inv = inv, .manifest = m, .target = t, .allowed = allowed, .sandbox = option_text(inv->options, "from")};
    struct fault why = {0};
    char *canary = NULL;
    int status;

    if (!prepare(&r, &why)) {
        command_fail(inv, &why);
        run_clear(&r);
        return why.kind == FAULT_IO || why.kind == FAULT_TIMEOUT ? STATUS_FAILED : STATUS_USAGE;
    }
    listen_for_the_end();
    if (!(r.planting = planting_begin(r.config, r.sandbox, &why)) || (canary = text_copy(slice_of(planting_id(r.planting))), !send_all(&r, &why))) {
        command_fail(inv, &why);
        status = STATUS_FAILED;
    } else {
        status = -1;
    }
    take_back(&r);
    if (status < 0)
        status = report(&r, canary);
    free(canary);
    run_clear(&r);
    return status;
}
