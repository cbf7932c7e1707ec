/* `exeat listener`: doors for single sandboxes, made and taken away while the gateway runs. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "cmd/admin.h"
#include "cmd/command.h"
#include "proxy/config.h"

static json_t *ask(const struct invocation *inv, struct slice line, struct fault *why)
{
    size_t n;
    const struct conf_section *const *sections = gateway_sections(&n);
    struct conf *conf = conf_load(inv->config, sections, n, why);
    const char *admin = conf ? conf_text(conf_section(conf, "admin"), "address") : NULL;
    json_t *answer = NULL;

    if (conf && (!admin || !*admin))
        fault_set(why, FAULT_USAGE, "%s has no admin.address: without that socket nobody can ask", inv->config);
    else if (conf && !(answer = admin_call(admin, line, why)) && why->kind == FAULT_MISSING)
        fault_set(why, FAULT_IO, "no gateway answers on %s; start it: exeat serve -c %s", admin, inv->config);
    conf_free(conf);
    return answer;
}

static void put_word(struct buf *line, const char *key, const char *value)
{
    if (!value)
        return;
    buf_printf(line, ",\"%s\":", key);
    text_json(line, slice_of(value));
}

/* A file's name means the caller's directory, and the gateway has another. */
static char *absolute(const char *path)
{
    char *here, *whole;

    if (!path || path[0] == '/')
        return path ? text_copy(slice_of(path)) : NULL;
    if (!(here = realpath(".", NULL)))
        return text_copy(slice_of(path));
    whole = file_join(here, path);
    free(here);
    return whole;
}

static int print_done(const struct invocation *inv, const json_t *answer, const char *done)
{
    const char *address = json_string_value(json_object_get(answer, "address"));
    const char *no_tproxy = json_string_value(json_object_get(answer, "no-tproxy"));
    struct buf out = {0};

    if (inv->json) {
        buf_printf(&out, "{\"schema\":\"exeat.listener-%s/1\",\"name\":", inv->command->name);
        text_json(&out, slice_of(inv->args[0]));
        if (address)
            put_word(&out, "address", address);
        put_word(&out, "no-tproxy", no_tproxy);
        buf_text(&out, "}\n");
    } else {
        buf_printf(&out, "%s %s%s%s\n", done, inv->args[0], address ? ": " : "", address ? address : "");
        if (no_tproxy)
            buf_printf(&out, "no TPROXY there (%s) until the gateway starts again, with CAP_NET_RAW or CAP_NET_ADMIN; REDIRECT and names that lead there work now\n", no_tproxy);
    }
    return command_print(inv, &out);
}

static int run_add(const struct invocation *inv)
{
    char *token_file = absolute(option_text(inv->options, "token-file"));
    struct buf line = {0};
    struct fault why = {0};
    json_t *answer;
    int status;

    buf_text(&line, "{\"command\":\"listener\",\"action\":\"add\"");
    put_word(&line, "name", inv->args[0]);
    put_word(&line, "address", inv->args[1]);
    put_word(&line, "mode", option_flag(inv->options, "transparent") ? "transparent" : NULL);
    put_word(&line, "sandbox", option_text(inv->options, "sandbox"));
    put_word(&line, "token-file", token_file);
    put_word(&line, "owner", option_text(inv->options, "owner"));
    buf_char(&line, '}');
    answer = ask(inv, buf_slice(&line), &why);
    status = answer ? print_done(inv, answer, "listening:") : command_fail(inv, &why);
    json_decref(answer);
    buf_free(&line);
    free(token_file);
    return status;
}

static int run_remove(const struct invocation *inv)
{
    struct buf line = {0};
    struct fault why = {0};
    json_t *answer;
    int status;

    buf_text(&line, "{\"command\":\"listener\",\"action\":\"remove\"");
    put_word(&line, "name", inv->args[0]);
    buf_char(&line, '}');
    answer = ask(inv, buf_slice(&line), &why);
    status = answer ? print_done(inv, answer, "removed") : command_fail(inv, &why);
    json_decref(answer);
    buf_free(&line);
    return status;
}

/* ---- list ---- */

static const char *text_of(const json_t *o, const char *key)
{
    const char *text = json_string_value(json_object_get(o, key));

    return text ? text : "";
}

static void print_text(struct buf *out, const json_t *l)
{
    const char *trouble = text_of(l, "token");

    buf_printf(out, "%-14s %-34s %-14s %s", text_of(l, "name"), text_of(l, "address"),
               *text_of(l, "sandbox") ? text_of(l, "sandbox") : "-",
               json_is_true(json_object_get(l, "added")) ? "added" : "configured");
    if (*text_of(l, "mode"))
        buf_printf(out, ", %s%s", text_of(l, "mode"), *text_of(l, "no-tproxy") ? " without TPROXY" : "");
    if (*text_of(l, "token-file"))
        buf_printf(out, ", token from %s%s%s", text_of(l, "token-file"), *trouble ? ": NONE: " : "", trouble);
    buf_char(out, '\n');
}

static void print_json(struct buf *out, json_t *l)
{
    json_t *whole = json_pack("{s:s}", "schema", "exeat.listener/1");
    char *line;

    json_object_update(whole, l);
    line = json_dumps(whole, JSON_COMPACT);
    buf_printf(out, "%s\n", line ? line : "");
    free(line);
    json_decref(whole);
}

static int run_list(const struct invocation *inv)
{
    struct fault why = {0};
    json_t *answer = ask(inv, SLICE("{\"command\":\"listener\",\"action\":\"list\"}"), &why), *l;
    struct buf out = {0};
    size_t i;

    if (!answer)
        return command_fail(inv, &why);
    if (!inv->json)
        buf_printf(&out, "%-14s %-34s %-14s %s\n", "LISTENER", "ADDRESS", "SANDBOX", "FROM");
    json_array_foreach(json_object_get(answer, "listeners"), i, l) {
        if (inv->json)
            print_json(&out, l);
        else
            print_text(&out, l);
    }
    json_decref(answer);
    return command_print(inv, &out);
}

static const struct command listener_add = {
    .name = "add",
    .summary = "open another listener of the running gateway",
    .arguments = "NAME ADDRESS",
    .min_args = 2,
    .max_args = 2,
    .help = "ADDRESS is as in the configuration's listen: 127.0.0.1:3129; for one sandbox also unix:FILE and vsock:CID:PORT. It is "
            "checked as the configuration is, opened, and kept in the state directory (listeners.conf), so that it is there again "
            "after a restart. Nothing else of the gateway is touched, no connection and no other listener.\n\n"
            "With --transparent its clients know of no proxy; TPROXY leads there only once the gateway has started again, since it takes "
            "a capability that a running one has given up. REDIRECT and names that lead there work at once.\n\n"
            "With --sandbox no token of another sandbox is good there. With --token-file its clients carry no token: the gateway "
            "takes the one in that file (exeat token renew keeps it fresh), and reads it again when it changes.\n\n"
            "Firecracker and Cloud Hypervisor make a guest's vsock a unix socket: when the guest connects to port 3128 of the host "
            "(CID 2), the VMM connects to the path of its vsock device with _3128 behind it. Listen there.\n",
    .examples = "  exeat listener add vm0 10.0.0.1:3129 --transparent\n"
                "  exeat listener add vm1 unix:/run/exeat/vm1.sock --sandbox vm1 --token-file /run/exeat/vm1.jwt\n"
                "  exeat listener add vm2 unix:/run/fc/vm2.vsock_3128 --sandbox vm2 --token-file /run/exeat/vm2.jwt --owner fc-vm2\n",
    .options =
        (const struct option_spec[]){
            {"transparent", 0, OPTION_FLAG, NULL, NULL, "for clients that know of no proxy (REDIRECT, TPROXY, or a name that leads there)", false, false},
            {"sandbox", 's', OPTION_TEXT, "NAME", NULL, "the one sandbox behind it", false, false},
            {"token-file", 0, OPTION_TEXT, "FILE", NULL, "that sandbox's token, kept fresh", false, false},
            {"owner", 0, OPTION_TEXT, "USER[:GROUP]", NULL, "who may connect to a unix socket", false, false},
            {0},
        },
    .has_json = true,
    .run = run_add,
};

static const struct command listener_remove = {
    .name = "remove",
    .summary = "close one that was added",
    .arguments = "NAME",
    .min_args = 1,
    .max_args = 1,
    .help = "Its connections end once they are idle; what is open on them may finish. To cut that too: exeat quarantine add.\n",
    .examples = "  exeat listener remove vm1\n",
    .has_json = true,
    .run = run_remove,
};

static const struct command listener_list = {
    .name = "list",
    .summary = "all listeners of the running gateway, whose they are, and whether they have a token",
    .examples = "  exeat listener list\n",
    .has_json = true,
    .run = run_list,
};

const struct command command_listener = {
    .name = "listener",
    .summary = "add, remove and list listeners while the gateway runs",
    .topic = TOPIC_GATEWAY,
    .subcommands = (const struct command *const[]){&listener_list, &listener_add, &listener_remove, NULL},
};
