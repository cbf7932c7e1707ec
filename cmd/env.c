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
#include "certs/jks.h"
#include "cmd/client.h"
#include "cmd/command.h"
#include "cmd/keeping.h"
#include "net/addr.h"
#include "proxy/config.h"

#define RELAY_NOTE "it cannot carry a token: run exeat-relay --token-file beside it, and give its address here with --relay"
#define SYSTEM_TRUST "/etc/ssl/certs/ca-certificates.crt"

enum { TOKEN_MOST = 16 << 10, TRUST_MOST = 8 << 20 };

struct env {
    const struct client *client; /* NULL: all */
    unsigned bits;
    bool by_relay; /* proxy is the address of one */
    bool transparent; /* there is none to be told of */
    const struct policy *policy;
    char *token;
    char *proxy, *host, *port;
    char *bundle, *root, *wgetrc, *apt_conf, *trust_store; /* where the client will find them */
    char *java;
};

static void env_clear(struct env *e)
{
    char *const all[] = {e->host, e->port, e->bundle, e->root, e->wgetrc, e->apt_conf, e->trust_store, e->java};

    if (e->proxy)
        secret_wipe(e->proxy, strlen(e->proxy));
    if (e->token)
        secret_wipe(e->token, strlen(e->token));
    free(e->token);
    free(e->proxy);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

static void choose_client(const struct invocation *inv, struct env *e)
{
    const char *name = option_text(inv->options, "client");

    e->client = name ? client_find(name) : NULL;
    e->bits = e->client ? e->client->bit : ~0u;
    e->transparent = option_flag(inv->options, "transparent");
    e->by_relay = option_text(inv->options, "relay") != NULL;
}

static bool is_wanted(const struct env *e, const struct client *c)
{
    return e->client ? e->client == c : true;
}

/* ---- the proxy's URL ---- */

/* Where sandboxes reach the listener: its address, or the gateway's name when it takes all addresses. */
static bool write_authority(const struct invocation *inv, const struct gateway_config *c, struct buf *out,
                            struct fault *why)
{
    const char *name = option_text(inv->options, "listener"), *relay = option_text(inv->options, "relay");
    const struct conf_item *l = name ? conf_find(c->conf, "listen", name) : conf_item(c->conf, "listen", 0);
    static const unsigned char zeros[16];
    struct addr a;

    if (relay && !addr_parse(slice_of(relay), &a))
        return fault_set(why, FAULT_USAGE, "--relay: no address and port: %.60s", relay);
    if (relay) {
        addr_text(out, &a);
        return true;
    }
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

/* For where clients keep it themselves. */
static bool read_token(const struct invocation *inv, struct env *e, struct fault *why)
{
    const char *file = option_text(inv->options, "with-token");
    struct buf url = {0};
    bool ok = !file || write_token(file, &url, why);
    struct slice token = buf_slice(&url);

    if (ok && file)
        token = slice_cut(token, 4, token.len - 1); /* of "jwt:TOKEN@" */
    e->token = text_copy(file && ok ? token : SLICE("TOKEN"));
    buf_wipe(&url);
    return ok;
}

static bool make_proxy(const struct invocation *inv, const struct gateway_config *c, struct env *e, struct fault *why)
{
    const char *token = option_text(inv->options, "with-token");
    struct buf url = {0}, authority = {0};
    bool ok;

    if (e->transparent)
        return read_token(inv, e, why);

    buf_text(&url, "http://");
    ok = (!token || write_token(token, &url, why)) && write_authority(inv, c, &authority, why);
    if (ok) {
        char *colon;

        buf_append(&url, buf_slice(&authority));
        e->proxy = buf_take_text(&url);
        e->host = buf_take_text(&authority);
        colon = strrchr(e->host, ':');
        e->port = text_copy(slice_of(colon + 1));
        *colon = '\0';
    }
    buf_free(&authority);
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

/* A file of the CA's directory that clients read; *there is where they will find it: beside the bundle, wherever that is. */
static bool write_beside(const struct gateway_config *c, const char *name, const char *bundle, struct slice text, char **there,
                         struct fault *why)
{
    struct buf path = {0};
    char *file;
    const char *slash = strrchr(bundle, '/');
    bool ok;

    buf_printf(&path, "ca/%s", name);
    file = buf_take_text(&path);
    *there = gateway_state(c, file);
    free(file);
    ok = refresh(*there, text, why);
    buf_append(&path, slice_make(bundle, slash ? (size_t)(slash - bundle) + 1 : 0));
    buf_text(&path, name);
    free(*there);
    *there = buf_take_text(&path);
    return ok;
}

/* What takes no certificates from a variable takes a file that says where they are. */
static bool write_files(const struct gateway_config *c, struct slice certificates, struct env *e, struct fault *why)
{
    struct buf wgetrc = {0}, apt = {0}, store = {0};
    bool ok;

    buf_printf(&wgetrc, "ca_certificate = %s\n", e->bundle);
    buf_printf(&apt, "Acquire::https::CaInfo \"%s\";\n", e->bundle);
    ok = jks_write(certificates, &store, why) &&
         write_beside(c, "wgetrc", e->bundle, buf_slice(&wgetrc), &e->wgetrc, why) &&
         write_beside(c, "apt.conf", e->bundle, buf_slice(&apt), &e->apt_conf, why) &&
         write_beside(c, "trust.jks", e->bundle, buf_slice(&store), &e->trust_store, why);
    buf_free(&wgetrc);
    buf_free(&apt);
    buf_free(&store);
    return ok;
}

static void make_java(struct env *e)
{
    struct buf out = {0};

    if (!e->transparent)
        buf_printf(&out, "-Dhttps.proxyHost=%s -Dhttps.proxyPort=%s -Dhttp.proxyHost=%s -Dhttp.proxyPort=%s ", e->host, e->port,
                   e->host, e->port);
    buf_printf(&out, "-Djavax.net.ssl.trustStore=%s -Djavax.net.ssl.trustStoreType=jks", e->trust_store);
    e->java = buf_take_text(&out);
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
    if (!write_files(c, buf_slice(&text), e, why))
        goto out;
    make_java(e);
    ok = true;
out:
    buf_free(&text);
    buf_free(&root);
    free(bundle);
    free(ca);
    return ok;
}

/* ---- output ---- */

static const char *value_of(const struct env *e, const struct client_variable *v)
{
    switch (v->value) {
    case CLIENT_PROXY:
        return e->proxy;
    case CLIENT_BUNDLE:
        return e->bundle;
    case CLIENT_ROOT:
        return e->root;
    case CLIENT_WGETRC:
        return e->wgetrc;
    case CLIENT_APT_CONF:
        return e->apt_conf;
    case CLIENT_JAVA:
        return e->java;
    default:
        return v->text;
    }
}

static bool is_set(const struct env *e, const struct client_variable *v)
{
    return v->clients & e->bits && !(e->transparent && (v->value == CLIENT_PROXY || v->value == CLIENT_WITH_PROXY));
}

/* A line of its own, if it says anything new: not every client tells ports apart. */
static void put_place(const struct env *e, const struct client *c, const struct keeping_place *p, struct buf *out)
{
    struct buf line = {0};
    struct slice rest = buf_slice(out), other;
    bool is_new = true;

    keeping_write(c, p, e->token, &line);
    while (is_new && slice_next(&rest, '\n', &other))
        is_new = !slice_equals(other, buf_slice(&line));
    if (is_new)
        buf_printf(out, "%s%.*s", buf_len(out) ? "\n" : "", SLICE_ARG(buf_slice(&line)));
    buf_wipe(&line);
}

/* A line for each place that is listed by its name. False: none is. */
static bool put_keeping(const struct env *e, const struct client *c, struct buf *out)
{
    size_t n;
    const char *const *hosts = policy_hosts(e->policy, &n);

    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; hosts[i][0] != '*' && k < policy_count(e->policy); k++) {
            const struct service *s = policy_service(e->policy, k);
            uint16_t port;

            for (size_t at = 0; service_lists_name(s, hosts[i]) && (port = service_tls_port(s, at)); at++)
                put_place(e, c, &(struct keeping_place){hosts[i], port, true}, out);
            for (size_t at = 0; service_lists_name(s, hosts[i]) && (port = service_plain_port(s, at)); at++)
                put_place(e, c, &(struct keeping_place){hosts[i], port, false}, out);
        }
    return buf_len(out) > 0;
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

/* What no variable can do for a client. False: nothing. */
static bool put_note(const struct env *e, const struct client *c, struct buf *out)
{
    if (e->transparent)
        return put_keeping(e, c, out);
    bool wants_relay = !c->carries_token && c->proxy[0] && !e->by_relay;

    buf_text(out, c->note ? c->note : "");
    if (wants_relay)
        buf_printf(out, "%s%s", c->note ? "; " : "", RELAY_NOTE);
    return c->note || wants_relay;
}

static void write_shell(const struct env *e, struct buf *out)
{
    for (const struct client_variable *v = client_variables(); v->name; v++) {
        if (!is_set(e, v))
            continue;
        buf_printf(out, "export %s=", v->name);
        quote(out, value_of(e, v));
        buf_char(out, '\n');
    }
    for (const struct client *c = client_all(); c->name; c++) {
        struct buf note = {0};

        struct slice rest, line;

        if (is_wanted(e, c) && put_note(e, c, &note))
            for (rest = buf_slice(&note); slice_next(&rest, '\n', &line);)
                buf_printf(out, "# %s: %.*s\n", c->name, SLICE_ARG(line));
        buf_free(&note);
    }
}

static void write_json(const struct env *e, struct buf *out)
{
    bool any = false;

    buf_text(out, "{\"schema\":\"exeat.env/1\",\"client\":");
    text_json(out, slice_of(e->client ? e->client->name : "all"));
    buf_text(out, ",\"variables\":{");
    for (const struct client_variable *v = client_variables(); v->name; v++) {
        if (!is_set(e, v))
            continue;
        buf_text(out, any ? "," : "");
        any = true;
        text_json(out, slice_of(v->name));
        buf_char(out, ':');
        text_json(out, slice_of(value_of(e, v)));
    }
    buf_text(out, "},\"notes\":[");
    any = false;
    for (const struct client *c = client_all(); c->name; c++) {
        struct buf note = {0};

        if (is_wanted(e, c) && put_note(e, c, &note)) {
            buf_text(out, any ? "," : "");
            any = true;
            text_json(out, buf_slice(&note));
        }
        buf_free(&note);
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
    e.policy = c ? c->policy : NULL;
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
     .choices = CLIENT_NAMES,
     .help = "only what this one needs: " CLIENT_LIST},
    {.name = "with-token", .type = OPTION_TEXT, .value = "FILE",
     .help = "put the leave token from FILE (-: standard input) into the proxy's address"},
    {.name = "transparent", .type = OPTION_FLAG,
     .help = "for a client that knows of no proxy: the CA's variables, and as remarks where it keeps the token for each listed host"},
    {.name = "listener", .type = OPTION_TEXT, .value = "NAME", .help = "which listener (the first)"},
    {.name = "relay", .type = OPTION_TEXT, .value = "ADDRESS",
     .help = "go to the exeat-relay that listens there, which adds the token"},
    {.name = "ca-bundle", .type = OPTION_TEXT, .value = "FILE",
     .help = "where the sandbox will have STATE/ca/bundle.pem, when not there"},
    {0},
};

const struct command command_env = {
    .name = "env",
    .summary = "shell lines that point clients at this gateway and make them trust its CA",
    .help = "Prints export lines for the shell. Most of these variables replace a client's trust, so they name a "
            "bundle of the system's certificates and the gateway's root, which is written to STATE/ca/bundle.pem; beside it "
            "what wget, apt and Java want instead: wgetrc, apt.conf, trust.jks.\n\n"
            "There is no token in them unless --with-token asks for it: the lines then are a secret.\n",
    .examples = "  eval \"$(exeat env)\"\n"
                "  eval \"$(exeat token issue --sandbox demo --scope npm:read | exeat env --with-token -)\"\n"
                "  exeat env --client npm --transparent\n"
                "  exeat env --client git --ca-bundle /etc/ssl/certs/ca-certificates.crt\n",
    .options = options,
    .topic = TOPIC_GATEWAY,
    .has_json = true,
    .run = run,
};
