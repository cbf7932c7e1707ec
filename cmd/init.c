/* `exeat init`: a complete gateway in an empty directory, ready to serve. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "authz/signer.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/say.h"
#include "base/text.h"
#include "canary/canary.h"
#include "certs/ca.h"
#include "cmd/command.h"
#include "cmd/setup.h"
#include "net/addr.h"
#include "proxy/config.h"

enum { SERVICES_MOST = 100 };

static const struct setup_service examples[] = {
    {"npm", "npm.example", 443, "npm-read"},
    {"pypi", "pypi.example", 443, "pypi-read"},
};

static bool is_empty(const char *directory, struct fault *why)
{
    DIR *d = opendir(directory);
    struct dirent *e;
    bool empty = true;

    if (!d)
        return fault_set(why, FAULT_IO, "%s: %s", directory, strerror(errno));
    while ((e = readdir(d)))
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            empty = false;
    closedir(d);
    return empty || fault_set(why, FAULT_USAGE, "%s is not empty; name a new or an empty directory", directory);
}

static bool make_directories(const char *directory, struct fault *why)
{
    static const char *const names[] = {"issuer", "journal"};

    if (!file_make_directory(directory, 0700, why) || !is_empty(directory, why))
        return false;
    if (chmod(directory, 0700) < 0)
        return fault_set(why, FAULT_IO, "%s: %s", directory, strerror(errno));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *path = file_join(directory, names[i]);
        bool ok = file_make_directory(path, 0700, why);

        free(path);
        if (!ok)
            return false;
    }
    return true;
}

static bool write_file(const char *directory, const char *name, mode_t mode, struct buf *text, struct fault *why)
{
    char *path = file_join(directory, name);
    bool ok = file_replace(path, mode, buf_slice(text), why);

    buf_wipe(text);
    free(path);
    return ok;
}

static bool write_canaries(const char *directory, struct fault *why)
{
    static const char *const kinds[] = {"aws", "github", "npm"};
    struct registry *r = registry_new();
    struct buf text = {0};
    bool ok = true;

    for (size_t i = 0; ok && i < sizeof kinds / sizeof *kinds; i++)
        ok = registry_mint(r, kinds[i], "", clock_wall_s(), why) != NULL;
    if (ok) {
        registry_json(r, &text);
        ok = write_file(directory, "canaries.json", 0600, &text, why);
    }
    registry_free(r);
    return ok;
}

static bool write_keys(const char *directory, const char *name, struct fault *why)
{
    char *issuer = file_join(directory, "issuer"), *ca = file_join(directory, "ca");
    bool ok = signer_create(issuer, "local", why) && ca_init(ca, name, why);

    free(issuer);
    free(ca);
    return ok;
}

/* What was written is read again, as serve will; then the CA is fitted to the hosts. */
static bool finish(const char *path, struct fault *why)
{
    struct gateway_config *c = gateway_config_load(path, why);
    bool issued, ok = c && gateway_ensure_ca(c, &issued, why);

    gateway_config_free(c);
    return ok;
}

static bool write_all(const char *directory, const struct setup *s, struct fault *why)
{
    char *path = file_join(directory, "proxy.conf");
    struct buf text = {0};
    bool ok;

    setup_write(s, &text);
    ok = write_file(directory, "proxy.conf", 0644, &text, why) && write_keys(directory, s->name, why) &&
         write_canaries(directory, why) && finish(path, why);
    free(path);
    return ok;
}

/* ---- options ---- */

/* The machine's own name when it is one that a token can carry. */
static bool read_name(const struct invocation *inv, struct setup *s, struct fault *why)
{
    const char *given = option_text(inv->options, "name");
    char host[256] = "";

    if (given) {
        if (name_canonical(slice_of(given), s->name, why))
            return true;
        fault_prefix(why, "--name");
        if (why)
            why->kind = FAULT_USAGE;
        return false;
    }
    if (gethostname(host, sizeof host - 1) < 0 || !name_canonical(slice_of(host), s->name, NULL))
        return name_canonical(SLICE("gateway.example"), s->name, why);
    return true;
}

static bool read_address(const struct invocation *inv, const char *option, const char *fallback, const char **out,
                         struct fault *why)
{
    const char *given = option_text(inv->options, option);
    struct addr a;

    *out = given ? given : fallback;
    return addr_parse(slice_of(*out), &a) ||
           fault_set(why, FAULT_USAGE, "--%s: expected address and port such as %s, found \"%s\"", option, fallback,
                     *out);
}

/* Services from --service, or the examples; *list is given. */
static bool read_services(const struct invocation *inv, struct setup *s, struct setup_service **list, struct fault *why)
{
    size_t n = option_count(inv->options, "service");

    *list = NULL;
    s->services = examples;
    s->n_services = sizeof examples / sizeof *examples;
    if (n == 0)
        return true;
    if (n > SERVICES_MOST)
        return fault_set(why, FAULT_USAGE, "--service: at most %d; write the others into proxy.conf", SERVICES_MOST);
    if (!(*list = calloc(n, sizeof **list)))
        abort();
    s->services = *list;
    s->n_services = n;
    for (size_t i = 0; i < n; i++) {
        if (!setup_service_parse(option_text_at(inv->options, "service", i), &(*list)[i], why))
            return false;
        for (size_t j = 0; j < i; j++)
            if (strcmp((*list)[i].name, (*list)[j].name) == 0)
                return fault_set(why, FAULT_USAGE, "--service: \"%s\" stands here twice", (*list)[i].name);
    }
    return true;
}

static bool read_options(const struct invocation *inv, struct setup *s, struct setup_service **list, struct fault *why)
{
    const char *publish = option_text(inv->options, "publish");

    return read_services(inv, s, list, why) && read_name(inv, s, why) &&
           read_address(inv, "listen", "127.0.0.1:3128", &s->listen, why) &&
           ((publish && strcmp(publish, "off") == 0) ||
            read_address(inv, "publish", "127.0.0.1:9464", &s->publish, why));
}

static void next_commands(const struct invocation *inv, const char *directory, const struct setup *s, struct buf *out)
{
    const char *exeat = inv->program;
    const struct setup_service *first = &s->services[0];
    const char *below = first->host[0] == '*' ? "www" : ""; /* some name under *.suffix */
    char port[8] = "";

    if (first->port != 443)
        snprintf(port, sizeof port, ":%u", (unsigned)first->port);
    buf_printf(out,
               "A gateway is ready in %s. Start it:\n"
               "\n"
               "  %s -c %s/proxy.conf serve\n"
               "\n"
               "and in another terminal, as a sandbox would go out:\n"
               "\n"
               "  export EXEAT_CONFIG=%s/proxy.conf\n"
               "  eval \"$(%s token issue --sandbox demo --scope %s:read | %s env --with-token -)\"\n"
               "  curl https://%s%s%s/\n"
               "  %s why --last\n",
               directory, exeat, directory, directory, exeat, first->name, exeat, below,
               first->host + (below[0] ? 1 : 0), port, exeat);
    if (s->services == examples)
        buf_printf(out, "\nIts services (npm.example, pypi.example) are examples: write yours into %s/proxy.conf,\n"
                   "or begin anew with: %s init --service NAME=HOST DIR\n", directory, exeat);
}

static int run(const struct invocation *inv)
{
    struct setup s = {0};
    struct setup_service *services = NULL;
    struct fault why = {0};
    struct buf out = {0};
    char *directory = realpath(inv->args[0], NULL);
    int status = STATUS_YES;

    if (!read_options(inv, &s, &services, &why) || !make_directories(inv->args[0], &why)) {
        status = command_fail(inv, &why);
        goto out;
    }
    if (!directory && !(directory = realpath(inv->args[0], NULL)))
        directory = text_copy(slice_of(inv->args[0]));
    if (!write_all(directory, &s, &why)) {
        status = command_fail(inv, &why);
        say_note("%s is not complete; remove it before another try", directory);
        goto out;
    }
    next_commands(inv, directory, &s, &out);
    if (inv->quiet)
        buf_free(&out);
    else
        status = command_print(inv, &out);
out:
    free(services);
    free(directory);
    return status;
}

static const struct option_spec options[] = {
    {.name = "service", .letter = 's', .type = OPTION_TEXT, .value = "NAME=HOST[:PORT][,PRESET]",
     .help = "list this service; without a preset: GET and HEAD, every path", .repeat = true},
    {.name = "name", .letter = 'n', .type = OPTION_TEXT, .value = "HOST",
     .help = "the gateway's name, the aud of its tokens (this machine's)"},
    {.name = "listen", .letter = 'l', .type = OPTION_TEXT, .value = "ADDRESS:PORT",
     .help = "where sandboxes come in (127.0.0.1:3128)"},
    {.name = "publish", .letter = 'p', .type = OPTION_TEXT, .value = "ADDRESS:PORT",
     .help = "where monitoring reads (127.0.0.1:9464); off: nowhere"},
    {0},
};

const struct command command_init = {
    .name = "init",
    .summary = "make a complete gateway in an empty directory, and say what to do next",
    .arguments = "DIR",
    .min_args = 1,
    .max_args = 1,
    .help = "Writes DIR/proxy.conf and what it needs: a CA, whose root sandboxes are to trust, and its intermediate for "
            "the listed hosts; an issuer of leave tokens with a fresh key; a few canaries to plant; an empty journal. "
            "Nothing is overwritten: DIR must be new or empty.\n\n"
            "Presets: npm-read, pypi-read, debian-read, oci-pull, git-clone, cargo-read, go-proxy, maven-read.\n",
    .examples = "  exeat init run\n"
                "  exeat init --service pkgs=npm.example,npm-read --service files=artifacts.corp:8443 run\n",
    .options = options,
    .topic = TOPIC_GATEWAY,
    .run = run,
};
