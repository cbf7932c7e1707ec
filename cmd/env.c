/* `exeat env`: how a client is pointed at this gateway, and made to trust its CA. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/say.h"
#include "base/secret.h"
#include "base/text.h"
#include "certs/ca.h"
#include "cmd/command.h"
#include "net/addr.h"
#include "proxy/config.h"

#define SYSTEM_TRUST "/etc/ssl/certs/ca-certificates.crt"

enum { TOKEN_MOST = 16 << 10, TRUST_MOST = 8 << 20 };

enum { CURL = 1, GIT = 2, PIP = 4, NPM = 8, NODE = 16, CARGO = 32, GO = 64, PYTHON = 128, AWS = 256, WGET = 512,
       APT = 1024, JAVA = 2048, EVERY = 4095 };

static const struct client {
    const char *name;
    unsigned bit;
    const char *note; /* what no variable can do */
} clients[] = {
    {"curl", CURL, NULL},
    {"git", GIT, NULL},
    {"pip", PIP, NULL},
    {"npm", NPM, NULL},
    {"node", NODE, "node before 24 does not read proxy variables; its fetch then fails closed"},
    {"cargo", CARGO, NULL},
    {"go", GO, NULL},
    {"python", PYTHON, NULL},
    {"aws", AWS, NULL},
    {"wget", WGET, "wget reads no variable for the CA: --ca-certificate=BUNDLE, or ca_certificate in ~/.wgetrc"},
    {"apt", APT, "apt reads no variable for the CA: Acquire::https::CaInfo \"BUNDLE\"; in /etc/apt/apt.conf.d"},
    {"java", JAVA, "java needs -Dhttps.proxyHost, -Dhttps.proxyPort and a trust store with the root: keytool -importcert"},
};

enum value { PROXY, BUNDLE, ROOT, LITERAL };

static const struct variable {
    const char *name;
    unsigned clients;
    enum value value;
    const char *text; /* LITERAL */
} variables[] = {
    {"http_proxy", EVERY, PROXY, NULL},
    {"https_proxy", EVERY, PROXY, NULL},
    {"HTTP_PROXY", EVERY, PROXY, NULL},
    {"HTTPS_PROXY", EVERY, PROXY, NULL},
    {"SSL_CERT_FILE", CURL | CARGO | GO | PYTHON, BUNDLE, NULL},
    {"CURL_CA_BUNDLE", CURL, BUNDLE, NULL},
    {"REQUESTS_CA_BUNDLE", PIP | PYTHON, BUNDLE, NULL},
    {"PIP_CERT", PIP, BUNDLE, NULL},
    {"GIT_SSL_CAINFO", GIT, BUNDLE, NULL},
    {"CARGO_HTTP_CAINFO", CARGO, BUNDLE, NULL},
    {"AWS_CA_BUNDLE", AWS, BUNDLE, NULL},
    {"NODE_EXTRA_CA_CERTS", NODE | NPM, ROOT, NULL},
    {"NODE_USE_ENV_PROXY", NODE, LITERAL, "1"},
    /* a cafile elsewhere would hide NODE_EXTRA_CA_CERTS */
    {"npm_config_cafile", NPM, BUNDLE, NULL},
    {"npm_config_update_notifier", NPM, LITERAL, "false"},
    /* with the first CONNECT, not only after a 407 */
    {"GIT_CONFIG_COUNT", GIT, LITERAL, "1"},
    {"GIT_CONFIG_KEY_0", GIT, LITERAL, "http.proxyAuthMethod"},
    {"GIT_CONFIG_VALUE_0", GIT, LITERAL, "basic"},
};

struct env {
    const char *client; /* NULL: all */
    unsigned bits;
    char *proxy, *bundle, *root;
};

static void env_clear(struct env *e)
{
    if (e->proxy)
        secret_wipe(e->proxy, strlen(e->proxy));
    free(e->proxy);
    free(e->bundle);
    free(e->root);
}

static bool choose_client(const struct invocation *inv, struct env *e)
{
    e->client = option_text(inv->options, "client");
    e->bits = EVERY;
    for (size_t i = 0; e->client && i < sizeof clients / sizeof *clients; i++)
        if (strcmp(clients[i].name, e->client) == 0)
            e->bits = clients[i].bit;
    return true;
}

/* ---- the proxy's URL ---- */

/* Where sandboxes reach the listener: its address, or the gateway's name when it takes all addresses. */
static bool write_authority(const struct invocation *inv, const struct gateway_config *c, struct buf *out,
                            struct fault *why)
{
    const char *name = option_text(inv->options, "listener");
    const struct conf_item *l = name ? conf_find(c->conf, "listen", name) : conf_item(c->conf, "listen", 0);
    static const unsigned char zeros[16];
    struct addr a;

    if (!l)
        return fault_set(why, FAULT_USAGE, "no listener \"%s\" in %s", name, inv->config);
    if (!addr_parse(slice_of(conf_text(l, "address")), &a))
        return fault_set(why, FAULT_SYNTAX, "listen.%s: no address", conf_name(l));
    if (memcmp(a.ip, zeros, sizeof zeros) == 0)
        buf_printf(out, "%s:%u", c->name, (unsigned)a.port);
    else
        addr_text(out, &a);
    return true;
}

/* A token goes into the URL as it is: its alphabet needs no escaping there. */
static bool write_token(const char *file, struct buf *out, struct fault *why)
{
    struct buf text = {0};
    struct slice token;
    bool ok;

    ok = strcmp(file, "-") == 0 ? file_read_fd(STDIN_FILENO, "standard input", TOKEN_MOST, &text, why)
                                : file_read(file, TOKEN_MOST, &text, why);
    token = buf_slice(&text);
    while (token.len && strchr("\r\n", token.ptr[token.len - 1]))
        token.len--;
    for (size_t i = 0; ok && i < token.len; i++)
        ok = strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.", token.ptr[i]) &&
             token.ptr[i];
    if (ok && token.len)
        buf_printf(out, "jwt:%.*s@", SLICE_ARG(token));
    else if (!why->kind)
        ok = fault_set(why, FAULT_SYNTAX, "%s: this is no leave token", strcmp(file, "-") ? file : "standard input");
    buf_wipe(&text);
    return ok;
}

static bool make_proxy(const struct invocation *inv, const struct gateway_config *c, struct env *e, struct fault *why)
{
    const char *token = option_text(inv->options, "with-token");
    struct buf url = {0};
    bool ok;

    buf_text(&url, "http://");
    ok = (!token || write_token(token, &url, why)) && write_authority(inv, c, &url, why);
    if (ok)
        e->proxy = buf_take_text(&url);
    buf_wipe(&url);
    return ok;
}

/* ---- trust ---- */

/* Replace the file only when its content changed: others may be reading it, or it may not be ours to write. */
static bool refresh(const char *path, struct slice bytes, struct fault *why)
{
    struct buf there = {0};
    bool same = file_read(path, TRUST_MOST * 2, &there, NULL) && slice_equals(buf_slice(&there), bytes);

    buf_free(&there);
    return same || file_replace(path, 0644, bytes, why);
}

/* Most variables replace the system's trust, so they must point to the whole: the system's and our root. */
static bool make_trust(const struct invocation *inv, const struct gateway_config *c, struct env *e, struct fault *why)
{
    const char *elsewhere = option_text(inv->options, "ca-bundle");
    char *ca = gateway_state(c, "ca"), *bundle = gateway_state(c, "ca/bundle.pem");
    struct buf text = {0}, root = {0};
    bool ok = false;

    e->root = gateway_state(c, "ca/root.pem");
    if (!ca_is_there(ca, why) || !file_read(e->root, TRUST_MOST, &root, why))
        goto out;
    if (!file_read(SYSTEM_TRUST, TRUST_MOST, &text, NULL))
        say_warning("no %s here: the bundle holds the gateway's root alone", SYSTEM_TRUST);
    buf_append(&text, buf_slice(&root));
    if (!refresh(bundle, buf_slice(&text), why))
        goto out;
    e->bundle = text_copy(slice_of(elsewhere ? elsewhere : bundle));
    if (elsewhere) {
        free(e->root);
        e->root = text_copy(slice_of(elsewhere));
    }
    ok = true;
out:
    buf_free(&text);
    buf_free(&root);
    free(bundle);
    free(ca);
    return ok;
}

/* ---- output ---- */

static const char *value_of(const struct env *e, const struct variable *v)
{
    switch (v->value) {
    case PROXY:
        return e->proxy;
    case BUNDLE:
        return e->bundle;
    case ROOT:
        return e->root;
    default:
        return v->text;
    }
}

/* 'text', safe in every shell. */
static void quote(struct buf *out, const char *text)
{
    buf_char(out, '\'');
    for (; *text; text++) {
        if (*text == '\'')
            buf_text(out, "'\\''");
        else
            buf_char(out, *text);
    }
    buf_char(out, '\'');
}

static void write_shell(const struct env *e, struct buf *out)
{
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        if (!(variables[i].clients & e->bits))
            continue;
        buf_printf(out, "export %s=", variables[i].name);
        quote(out, value_of(e, &variables[i]));
        buf_char(out, '\n');
    }
    for (size_t i = 0; i < sizeof clients / sizeof *clients; i++)
        if (clients[i].note && clients[i].bit & e->bits)
            buf_printf(out, "# %s\n", clients[i].note);
}

static void write_json(const struct env *e, struct buf *out)
{
    bool any = false;

    buf_text(out, "{\"schema\":\"exeat.env/1\",\"client\":");
    text_json(out, slice_of(e->client ? e->client : "all"));
    buf_text(out, ",\"variables\":{");
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        if (!(variables[i].clients & e->bits))
            continue;
        buf_text(out, any ? "," : "");
        any = true;
        text_json(out, slice_of(variables[i].name));
        buf_char(out, ':');
        text_json(out, slice_of(value_of(e, &variables[i])));
    }
    buf_text(out, "},\"notes\":[");
    any = false;
    for (size_t i = 0; i < sizeof clients / sizeof *clients; i++) {
        if (!clients[i].note || !(clients[i].bit & e->bits))
            continue;
        buf_text(out, any ? "," : "");
        any = true;
        text_json(out, slice_of(clients[i].note));
    }
    buf_text(out, "]}\n");
}

static int run(const struct invocation *inv)
{
    struct fault why = {0};
    struct env e = {0};
    struct buf out = {0};
    struct gateway_config *c = gateway_config_load(inv->config, &why);
    int status;

    choose_client(inv, &e);
    if (c && make_proxy(inv, c, &e, &why) && make_trust(inv, c, &e, &why)) {
        if (inv->json)
            write_json(&e, &out);
        else
            write_shell(&e, &out);
        status = command_print(inv, &out);
    } else {
        status = command_fail(inv, &why);
    }
    env_clear(&e);
    gateway_config_free(c);
    return status;
}

static const struct option_spec options[] = {
    {.name = "client", .type = OPTION_CHOICE, .value = "NAME",
     .choices = "curl|git|pip|npm|node|cargo|go|python|aws|wget|apt|java",
     .help = "only what this one needs: curl, git, pip, npm, node, cargo, go, python, aws, wget, apt, java"},
    {.name = "with-token", .type = OPTION_TEXT, .value = "FILE",
     .help = "put the leave token from FILE (-: standard input) into the proxy's address"},
    {.name = "listener", .type = OPTION_TEXT, .value = "NAME", .help = "which listener (the first)"},
    {.name = "ca-bundle", .type = OPTION_TEXT, .value = "FILE",
     .help = "where the sandbox will have STATE/ca/bundle.pem, when not there"},
    {0},
};

const struct command command_env = {
    .name = "env",
    .summary = "shell lines that point clients at this gateway and make them trust its CA",
    .help = "Prints export lines for the shell. Most of these variables replace a client's trust, so they name a "
            "bundle of the system's certificates and the gateway's root, which is written to STATE/ca/bundle.pem.\n\n"
            "There is no token in them unless --with-token asks for it: the lines then are a secret.\n",
    .examples = "  eval \"$(exeat env)\"\n"
                "  eval \"$(exeat token issue --sandbox demo --scope npm:read | exeat env --with-token -)\"\n"
                "  exeat env --client git --ca-bundle /etc/ssl/certs/ca-certificates.crt\n",
    .options = options,
    .topic = TOPIC_GATEWAY,
    .has_json = true,
    .run = run,
};
