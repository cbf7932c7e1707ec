/* exeat serve: the gateway in the foreground. And `exeat role`, what its processes run. */
#include <stdlib.h>
#include <string.h>

#include "base/say.h"
#include "cmd/command.h"
#include "proxy/spawn.h"
#include "proxy/supervisor.h"

static void say_warnings(const struct gateway_config *c)
{
    for (size_t i = 0; i < c->n_warnings; i++)
        say_warning("%s", c->warnings[i]);
}

static int run_serve(const struct invocation *inv)
{
    struct fault why = {0};
    struct gateway_config *config = gateway_config_load(inv->config, &why);
    bool issued = false;

    if (!config)
        return command_fail(inv, &why);
    if (!gateway_ensure_ca(config, &issued, &why)) {
        gateway_config_free(config);
        return command_fail(inv, &why);
    }
    if (issued)
        say_note("the CA's intermediate was issued anew for the listed hosts");
    say_warnings(config);
    return supervisor_run(config, inv->config, inv->verbose);
}

static const char help[] =
    "Runs the gateway in the foreground until SIGTERM or SIGINT; open exchanges may finish for ten seconds.\n"
    "\n"
    "When every listener accepts it says \"exeat: ready\" and the addresses on standard error, and tells a service "
    "manager (sd_notify). Each of its processes is closed in by seccomp and Landlock; started as root, it also gets a user "
    "and, all but one, an empty network of its own. What is off otherwise is said at the start, and by exeat status.\n"
    "\n"
    "SIGHUP reads the configuration again, as exeat reload does. Listening sockets that a service manager hands over "
    "(LISTEN_FDS) are used for the listener they are named after, or that has their address; a DNS listener (dns.NAME) takes two, "
    "for connections and for datagrams.\n";

const struct command command_serve = {
    .name = "serve",
    .summary = "run the gateway",
    .help = help,
    .examples = "exeat -c run/proxy.conf serve\n",
    .topic = TOPIC_GATEWAY,
    .run = run_serve,
};
