/* `exeat firewall`: the kernel's rules that make the gateway a sandbox's only way out. */
#include <stdlib.h>
#include <string.h>

#include "base/conf.h"
#include "base/text.h"
#include "cmd/command.h"
#include "firewall/firewall.h"
#include "firewall/ruleset.h"
#include "net/place.h"
#include "proxy/config.h"
#include "proxy/listen_check.h"

/* ---- the doors, by the configuration ---- */

struct choice {
    const struct invocation *inv;
    struct plan *plan;
    size_t n_named; /* how many of --listener were found */
};

static bool is_named(const struct invocation *inv, const char *name)
{
    for (size_t i = 0; i < option_count(inv->options, "listener"); i++)
        if (strcmp(option_text_at(inv->options, "listener", i), name) == 0)
            return true;
    return false;
}

/* A listener that is bound to a sandbox is no door for another: behind it one need show no token. */
static bool is_for_it(struct choice *c, const char *name, const char *sandbox)
{
    const char *own = option_text(c->inv->options, "sandbox");

    if (is_named(c->inv, name)) {
        c->n_named++;
        return true;
    }
    return option_count(c->inv->options, "listener") == 0 && (!sandbox || (own && strcmp(own, sandbox) == 0));
}

static bool add_listeners(struct choice *c, const struct conf *conf, struct fault *why)
{
    for (size_t i = 0; i < conf_count(conf, "listen"); i++) {
        const struct conf_item *l = conf_item(conf, "listen", i);
        struct place place;

        if (!is_for_it(c, conf_name(l), conf_text(l, "sandbox")))
            continue;
        if (!place_parse(conf_text(l, "address"), &place, why))
            return false;
        if (place.kind != PLACE_TCP)
            continue;
        if (!plan_add_door(c->plan, &(struct plan_door){place.addr, false, strcmp(conf_text(l, "mode"), "transparent") == 0}, why))
            return false;
    }
    return true;
}

static bool knows(const char *section)
{
    size_t n;
    const struct conf_section *const *all = gateway_sections(&n);

    for (size_t i = 0; i < n; i++)
        if (strcmp(all[i]->name, section) == 0)
            return true;
    return false;
}

static bool add_dns(struct choice *c, const struct conf *conf, struct fault *why)
{
    for (size_t i = 0; knows("dns") && i < conf_count(conf, "dns"); i++) {
        const struct conf_item *d = conf_item(conf, "dns", i);
        struct addr at;

        if (!is_for_it(c, conf_name(d), conf_text(d, "sandbox")))
            continue;
        if (!addr_parse(slice_of(conf_text(d, "address")), &at))
            return conf_refuse(d, "address", -1, why, "dns.%s: expected an address such as 10.0.0.1:53", conf_name(d));
        if (!plan_add_door(c->plan, &(struct plan_door){at, true, false}, why) ||
            !plan_add_door(c->plan, &(struct plan_door){at, false, false}, why))
            return false;
    }
    return true;
}

/* What services listen on is what a program without a proxy connects to. */
static bool add_ports(struct plan *p, const struct conf *conf, struct fault *why)
{
    static const char *const keys[] = {"ports", "plain-ports"};

    for (size_t i = 0; i < conf_count(conf, "services"); i++) {
        const struct conf_item *s = conf_item(conf, "services", i);
        size_t written = conf_list_count(s, "ports") + conf_list_count(s, "plain-ports");

        if (written == 0 && !plan_add_port(p, 443, why))
            return false;
        for (size_t k = 0; k < 2; k++)
            for (size_t j = 0; j < conf_list_count(s, keys[k]); j++) {
                uint64_t port;

                if (!slice_decimal(slice_of(conf_list_text(s, keys[k], j)), 65535, &port) || port == 0)
                    return conf_refuse(s, keys[k], (int)j, why, "expected a port");
                if (!plan_add_port(p, (uint16_t)port, why))
                    return false;
            }
    }
    return true;
}

static bool read_configuration(const struct invocation *inv, struct plan *p, struct fault *why)
{
    struct choice choice = {inv, p, 0};
    size_t n;
    const struct conf_section *const *sections = gateway_sections(&n);
    struct conf *conf = conf_load(inv->config, sections, n, why), *added = NULL;
    const char *ports = option_text(inv->options, "redirect");
    bool ok = false;

    if (!conf || !(added = listen_added_load(conf_text(conf_section(conf, "gateway"), "state"), why)))
        goto out;
    if (!add_listeners(&choice, conf, why) || !add_listeners(&choice, added, why) || !add_dns(&choice, conf, why))
        goto out;
    if (choice.n_named < option_count(inv->options, "listener")) {
        fault_set(why, FAULT_USAGE, "--listener: %s has %zu of the %zu that are named; exeat listener list shows all", inv->config,
                  choice.n_named, option_count(inv->options, "listener"));
        goto out;
    }
    ok = ports ? plan_set_ports(p, ports, why) : add_ports(p, conf, why);
out:
    conf_free(conf);
    conf_free(added);
    return ok;
}

/* ---- the plan ---- */

static bool take_texts(const struct invocation *inv, struct plan *p, const char *option,
                       bool (*take)(struct plan *p, const char *text, struct fault *why), struct fault *why)
{
    for (size_t i = 0; i < option_count(inv->options, option); i++)
        if (!take(p, option_text_at(inv->options, option, i), why))
            return false;
    return true;
}

/* Who asks for steering is not left with none. */
static bool steers_as_said(const struct invocation *inv, const struct plan *p, struct fault *why)
{
    const char *ports = option_text(inv->options, "redirect");

    if (p->steer != PLAN_STEER_NONE || (ports ? strcmp(ports, "none") == 0 : !option_flag(inv->options, "tproxy")))
        return true;
    return fault_set(why, FAULT_USAGE, "%s: no transparent listener is left for this sandbox to steer to; add one to %s: listen.NAME: "
                     "{ address: \"ADDRESS:PORT\", mode: transparent }", ports ? "--redirect" : "--tproxy", inv->config);
}

static bool read_plan(const struct invocation *inv, struct plan *p, struct fault *why)
{
    *p = (struct plan){.dhcp = option_flag(inv->options, "dhcp"),
                       .steer = option_flag(inv->options, "tproxy") ? PLAN_STEER_TPROXY : PLAN_STEER_REDIRECT};
    return take_texts(inv, p, "interface", plan_set_interface, why) && take_texts(inv, p, "name", plan_set_name, why) &&
           take_texts(inv, p, "bridge", plan_set_bridge, why) && take_texts(inv, p, "mac", plan_set_mac, why) &&
           take_texts(inv, p, "source", plan_add_source, why) && take_texts(inv, p, "gateway", plan_add_gateway, why) &&
           read_configuration(inv, p, why) && plan_finish(p, why) && steers_as_said(inv, p, why);
}

static void put_name(struct buf *out, const struct invocation *inv, const char *name)
{
    buf_printf(out, "{\"schema\":\"exeat.firewall-%s/1\",\"name\":", inv->command->name);
    text_json(out, slice_of(name));
}

static int run_print(const struct invocation *inv)
{
    struct fault why = {0};
    struct buf out = {0}, text = {0};
    struct plan p;

    if (!read_plan(inv, &p, &why))
        return command_fail(inv, &why);
    if (!inv->json) {
        ruleset_write(&p, &out);
        return command_print(inv, &out);
    }
    ruleset_write(&p, &text);
    put_name(&out, inv, p.name);
    buf_text(&out, ",\"ruleset\":");
    text_json(&out, buf_slice(&text));
    buf_text(&out, "}\n");
    buf_free(&text);
    return command_print(inv, &out);
}

/* ---- apply, remove ---- */

/* A name that is misspelt is told before all the rest that may be lacking. */
static bool is_there(const struct invocation *inv, struct fault *why)
{
    struct plan p = {0};

    if (!take_texts(inv, &p, "interface", plan_set_interface, why))
        return false;
    if (firewall_finds(p.interface, why))
        return true;
    fault_prefix(why, "nothing was changed; a sandbox must not start at %s", p.interface);
    return false;
}

static int run_apply(const struct invocation *inv)
{
    struct fault why = {0};
    struct buf out = {0};
    struct plan p;

    if (!is_there(inv, &why) || !read_plan(inv, &p, &why))
        return command_fail(inv, &why);
    if (!firewall_apply(&p, &why)) {
        fault_prefix(&why, "nothing was changed; a sandbox must not start at %s", p.interface);
        return command_fail(inv, &why);
    }
    if (inv->json) {
        put_name(&out, inv, p.name);
        buf_printf(&out, ",\"interface\":\"%s\",\"doors\":%zu}\n", p.interface, p.n_doors);
    } else {
        buf_printf(&out, "firewall %s is in force at %s: %zu %s reachable, and nothing else\n", p.name,
                   p.interface, p.n_doors, p.n_doors == 1 ? "door of the gateway is" : "doors of the gateway are");
    }
    return command_print(inv, &out);
}

static int run_remove(const struct invocation *inv)
{
    const char *interface = option_text(inv->options, "interface"), *name = option_text(inv->options, "name");
    struct fault why = {0};
    struct buf out = {0};
    struct plan p = {0};
    bool was;

    if (!name && !interface)
        return command_misuse(inv, "which one: --interface or --name");
    if (!plan_set_name(&p, name ? name : interface, &why) || !firewall_remove(p.name, &was, &why))
        return command_fail(inv, &why);
    if (inv->json) {
        put_name(&out, inv, p.name);
        buf_printf(&out, ",\"removed\":%s}\n", was ? "true" : "false");
    } else {
        buf_printf(&out, was ? "removed firewall %s\n" : "there is no firewall %s\n", p.name);
    }
    int status = command_print(inv, &out);
    return status == STATUS_YES && !was ? STATUS_NO : status;
}

/* ---- check ---- */

struct report {
    const struct invocation *inv;
    struct buf out;
    size_t n;
};

static void on_found_json(struct report *r, const struct firewall_finding *f)
{
    buf_printf(&r->out, "%s{\"what\":\"%s\"", r->n ? "," : "", f->what);
    if (f->line)
        buf_printf(&r->out, ",\"line\":%zu", f->line);
    if (f->table.len) {
        buf_text(&r->out, ",\"table\":");
        text_json(&r->out, f->table);
    }
    if (f->block.len) {
        buf_text(&r->out, ",\"in\":");
        text_json(&r->out, f->block);
    }
    buf_text(&r->out, ",\"text\":");
    text_json(&r->out, f->text);
    buf_char(&r->out, '}');
}

static void on_found(void *arg, const struct firewall_finding *f)
{
    struct report *r = arg;

    if (r->inv->json) {
        on_found_json(r, f);
    } else {
        buf_text(&r->out, f->what);
        if (f->line)
            buf_printf(&r->out, ", line %zu", f->line);
        if (f->table.len)
            buf_printf(&r->out, ", table %.*s", SLICE_ARG(f->table));
        if (f->block.len)
            buf_printf(&r->out, ", %.*s", SLICE_ARG(f->block));
        buf_printf(&r->out, "%s%.*s\n", f->text.len ? ": " : "", SLICE_ARG(f->text));
    }
    r->n++;
}

static int run_check(const struct invocation *inv)
{
    struct report r = {.inv = inv};
    struct fault why = {0};
    struct plan p;
    size_t n;
    int status;

    if (!read_plan(inv, &p, &why))
        return command_fail(inv, &why);
    if (inv->json) {
        put_name(&r.out, inv, p.name);
        buf_text(&r.out, ",\"drift\":[");
    }
    if (!firewall_check(&p, on_found, &r, &n, &why)) {
        buf_free(&r.out);
        return command_fail(inv, &why);
    }
    if (inv->json)
        buf_printf(&r.out, "],\"holds\":%s}\n", n ? "false" : "true");
    else if (n == 0)
        buf_printf(&r.out, "firewall %s at %s is as it should be\n", p.name, p.interface);
    else
        buf_printf(&r.out, "firewall %s at %s is not as it should be: %zu %s; exeat firewall apply puts its own rules right\n", p.name,
                   p.interface, n, n == 1 ? "thing" : "things");
    status = command_print(inv, &r.out);
    return status == STATUS_YES && n ? STATUS_NO : status;
}

#define PLAN_OPTIONS                                                                                                             \
    {"interface", 'i', OPTION_TEXT, "IF", NULL, "the sandbox's end on this host: a veth, a tap, a port of a bridge", false, true}, \
        {"name", 'n', OPTION_TEXT, "NAME", NULL, "what the firewall is called (as the interface)", false, false},                \
        {"source", 0, OPTION_TEXT, "ADDRESS", NULL, "an address of the sandbox; no other may come in", true, false},             \
        {"gateway", 0, OPTION_TEXT, "ADDRESS", NULL, "an address of this host that it knows (those of the listeners)", true, false}, \
        {"bridge", 0, OPTION_TEXT, "BRIDGE", NULL, "the interface is a port of this", false, false},                             \
        {"mac", 0, OPTION_TEXT, "ADDRESS", NULL, "the sandbox's hardware address; a bridge needs it", false, false},             \
        {"sandbox", 's', OPTION_TEXT, "NAME", NULL, "who is behind it: listeners bound to it are its doors too", false, false},  \
        {"listener", 0, OPTION_TEXT, "NAME", NULL, "only these of listen and dns", true, false},                                 \
        {"redirect", 0, OPTION_TEXT, "PORTS", NULL, "steered to the transparent listener (the services' ports); or none", false, false}, \
        {"tproxy", 0, OPTION_FLAG, NULL, NULL, "steer by TPROXY in place of REDIRECT", false, false},                            \
        {"dhcp", 0, OPTION_FLAG, NULL, NULL, "let it ask this host for its address", false, false},                              \
    {                                                                                                                            \
        0                                                                                                                        \
    }

static const struct command firewall_print = {
    .name = "print",
    .summary = "the rules, as nft reads them",
    .help = "The same text for the same configuration and options, each rule with what it is for. exeat firewall print ... | nft -f - "
            "puts it in force as apply does, but for the routing that --tproxy needs, which it names.\n",
    .examples = "  exeat firewall print --interface vm1 --source 10.0.0.2\n",
    .options = (const struct option_spec[]){PLAN_OPTIONS},
    .has_json = true,
    .run = run_print,
};

static const struct command firewall_apply_command = {
    .name = "apply",
    .summary = "put the rules in force",
    .help = "From the interface only the listeners of the configuration (and its DNS) are reachable that are at the gateway's "
            "addresses: TCP and DNS over IPv4 and IPv6, ARP and neighbour discovery for those addresses, and nothing else: no other "
            "port, no other host, no ICMP, multicast, broadcast, fragment or tagged frame, no other source address. To the sandbox "
            "only answers go. With a transparent listener, connections to the services' ports anywhere are steered to it.\n\n"
            "One transaction: rules of an earlier apply under the same name are in force until these are. If anything of it is "
            "refused, nothing changes, and it says what is lacking.\n\n"
            "For a bridge, apply it to each port with the sandbox's addresses; then no sandbox sees another's frames.\n",
    .examples = "  exeat firewall apply --interface vm1 --source 10.0.0.2 --source fd00::2\n"
                "  exeat firewall apply --bridge br0 --interface tap1 --mac 02:00:00:00:00:02 --source 10.0.0.2\n",
    .options = (const struct option_spec[]){PLAN_OPTIONS},
    .has_json = true,
    .run = run_apply,
};

static const struct command firewall_check_command = {
    .name = "check",
    .summary = "are they in force, whole and unchanged?",
    .help = "With the options of apply. What the kernel has is held against what apply would make of it today: each rule that is "
            "missing, added, changed or out of order is named, with the line of print it was; so is an interface that is gone or "
            "joined a bridge, what sees its frames before the rules do, and routing that TPROXY needs. Status 0: all is there. 1: not.\n",
    .examples = "  exeat firewall check --interface vm1 --source 10.0.0.2\n",
    .options = (const struct option_spec[]){PLAN_OPTIONS},
    .has_json = true,
    .run = run_check,
};

static const struct command firewall_remove_command = {
    .name = "remove",
    .summary = "take them away",
    .help = "Afterwards the sandbox reaches whatever this host lets it reach. Status 1: there were none.\n",
    .examples = "  exeat firewall remove --interface vm1\n",
    .options =
        (const struct option_spec[]){
            {"interface", 'i', OPTION_TEXT, "IF", NULL, "the interface it has its name from", false, false},
            {"name", 'n', OPTION_TEXT, "NAME", NULL, "what it is called", false, false},
            {0},
        },
    .has_json = true,
    .run = run_remove,
};

const struct command command_firewall = {
    .name = "firewall",
    .summary = "rules of the kernel that leave a sandbox no way but the gateway",
    .topic = TOPIC_GATEWAY,
    .subcommands = (const struct command *const[]){&firewall_print, &firewall_apply_command, &firewall_check_command,
                                                   &firewall_remove_command, NULL},
};
