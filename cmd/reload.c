/* `exeat reload`: have the running gateway read its configuration again, and say what came of it. */
#include <jansson.h>
#include <stdlib.h>

#include "base/say.h"
#include "base/text.h"
#include "cmd/admin.h"
#include "cmd/command.h"
#include "proxy/config.h"

#define REQUEST "{\"command\":\"reload\"}"

enum { WAIT_MS = 240 * 1000 };

/* The address alone: whether the rest is fine, the gateway says. NULL and why when not even that can be read. */
static char *read_address(const struct invocation *inv, struct fault *why)
{
    size_t n;
    const struct conf_section *const *sections = gateway_sections(&n);
    struct conf *conf = conf_load(inv->config, sections, n, why);
    const char *address = conf ? conf_text(conf_section(conf, "admin"), "address") : NULL;
    char *copy = address && *address ? text_copy(slice_of(address)) : NULL;

    if (conf && !copy)
        fault_set(why, FAULT_USAGE, "%s has no admin.address; tell the gateway by a signal: kill -HUP", inv->config);
    conf_free(conf);
    return copy;
}

/* The answer (give), or NULL and why. */
static json_t *ask(const struct invocation *inv, const char *address, struct fault *why)
{
    struct buf line = {0};
    json_t *answer = NULL;

    if (admin_ask_within(address, SLICE(REQUEST), WAIT_MS, &line, why)) {
        answer = json_loadb(buf_slice(&line).ptr, buf_len(&line), JSON_REJECT_DUPLICATES, NULL);
        if (!json_is_boolean(json_object_get(answer, "ok"))) {
            fault_set(why, FAULT_IO, "%s: the answer is not one of a gateway", address);
            json_decref(answer);
            answer = NULL;
        }
    } else if (why->kind == FAULT_MISSING) {
        fault_set(why, FAULT_IO, "no gateway answers on %s; start it: exeat serve -c %s", address, inv->config);
    }
    buf_free(&line);
    return answer;
}

static int print_refusal(const struct invocation *inv, const json_t *answer)
{
    const char *text = json_string_value(json_object_get(answer, "error"));
    const json_t *generation = json_object_get(answer, "generation");
    bool configuration = json_is_true(json_object_get(answer, "configuration"));
    struct fault why = {0};

    if (json_is_integer(generation))
        fault_set(&why, FAULT_REFUSED, "%s; generation %lld stays in force", text ? text : "refused",
                  (long long)json_integer_value(generation));
    else
        fault_set(&why, FAULT_REFUSED, "%s", text ? text : "refused");
    command_fail(inv, &why);
    return configuration ? STATUS_USAGE : STATUS_NO;
}

static int print_done(const struct invocation *inv, const json_t *answer)
{
    long long generation = (long long)json_integer_value(json_object_get(answer, "generation"));
    struct buf out = {0};

    if (inv->json)
        buf_printf(&out, "{\"schema\":\"exeat.reload/1\",\"generation\":%lld}\n", generation);
    else
        buf_printf(&out, "reloaded: generation %lld is in force on every process\n", generation);
    return command_print(inv, &out);
}

static int run(const struct invocation *inv)
{
    struct fault why = {0};
    char *address = read_address(inv, &why);
    json_t *answer = NULL;
    int status;

    if (!address) {
        status = command_fail(inv, &why);
        say_note("the running gateway was not asked, and goes on as it is");
    } else if (!(answer = ask(inv, address, &why))) {
        command_fail(inv, &why);
        status = STATUS_FAILED;
    } else {
        status = json_is_true(json_object_get(answer, "ok")) ? print_done(inv, answer) : print_refusal(inv, answer);
    }
    json_decref(answer);
    free(address);
    return status;
}

const struct command command_reload = {
    .name = "reload",
    .summary = "have the running gateway read its configuration again",
    .help = "The gateway reads the configuration and every file it names, checks it whole, and goes over to it without "
            "closing a listener or a connection; then this command says which generation is in force on every process. "
            "Open requests that are not allowed any more are cut. When anything is refused, nothing changes, and the "
            "reason is printed.\n\n"
            "Read anew: services, issuers with their keys, ca-files, canaries, limits, listen, and the settings of the "
            "journal. A restart takes: gateway (name, state, workers, user-prefix), resolver, journal.directory, "
            "publish.address, admin.address.\n\n"
            "SIGHUP to the gateway does the same; what came of it is then in its log, its journal, and exeat status.\n\n"
            "Exit status: 0 in force; 1 the gateway could not go over to it; 2 the configuration is refused; 3 no gateway "
            "answers.",
    .examples = "exeat config check && exeat reload\n",
    .topic = TOPIC_GATEWAY,
    .has_json = true,
    .run = run,
};
