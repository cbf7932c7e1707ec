/*
 * `exeat doctor`: why a client does not get out. Looks at its environment as it would, puts one question to the gateway, and says of
 * each thing on the way whether it is right, and what would mend it.
 */
#include <jansson.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "cmd/asking.h"
#include "cmd/client.h"
#include "cmd/command.h"
#include "cmd/doctor.h"
#include "cmd/findings.h"
#include "cmd/fronting.h"
#include "cmd/keeping.h"
#include "proxy/config.h"

enum { TOKEN_MOST = 16384, SKEW_S = 30, SOON_S = 60 };

struct doctor {
    const struct invocation *inv;
    const struct client *client;
    struct conf *conf; /* NULL: there is none here, as in a sandbox */
    struct findings found;
    char *host, *port, *credentials; /* of the proxy; NULL: none found. credentials: "user:token", decoded */
    struct asking answer;
    bool asked, is_expired;
};

#define POINT "eval \"$(exeat env --client NAME --with-token FILE)\" on the gateway's machine prints what is to be set here"

/* ---- proxy ---- */

static int unhex(char c)
{
    const char *digits = "0123456789abcdef", *at = c ? strchr(digits, c >= 'A' && c <= 'F' ? c - 'A' + 'a' : c) : NULL;

    return at ? (int)(at - digits) : -1;
}

/* Percent-decoded (give). */
static char *decode(struct slice s)
{
    struct buf out = {0};

    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] == '%' && i + 2 < s.len + 0 && unhex(s.ptr[i + 1]) >= 0 && unhex(s.ptr[i + 2]) >= 0) {
            buf_char(&out, (char)(unhex(s.ptr[i + 1]) * 16 + unhex(s.ptr[i + 2])));
            i += 2;
        } else {
            buf_char(&out, s.ptr[i]);
        }
    }
    return buf_take_text(&out);
}

/* [http://][USER[:PASSWORD]@]HOST:PORT[/] */
static bool read_proxy(struct doctor *d, struct slice url)
{
    ptrdiff_t at, colon = -1;

    if (slice_starts_nocase(url, SLICE("http://")))
        url = slice_from(url, 7);
    else if (slice_search(url, SLICE("://")) >= 0)
        return false;
    if (slice_ends(url, SLICE("/")))
        url = slice_cut(url, 0, url.len - 1);
    if ((at = slice_find(url, '@')) >= 0) {
        d->credentials = decode(slice_cut(url, 0, (size_t)at));
        url = slice_from(url, (size_t)at + 1);
    }
    for (size_t i = 0; i < url.len; i++)
        if (url.ptr[i] == ':')
            colon = (ptrdiff_t)i;
    if (colon <= 0 || (size_t)colon + 1 == url.len)
        return false;
    d->host = text_copy(slice_cut(url, 0, (size_t)colon));
    d->port = text_copy(slice_from(url, (size_t)colon + 1));
    return true;
}

/* What stands behind "-Dhttps.proxyHost=" and the like in Java's options. */
static struct slice java_option(const char *options, const char *name)
{
    struct slice all = slice_of(options ? options : ""), word;

    while (slice_next(&all, ' ', &word))
        if (slice_starts(word, SLICE("-D")) && slice_starts(slice_from(word, 2), slice_of(name)) &&
            slice_starts(slice_from(word, 2 + strlen(name)), SLICE("=")))
            return slice_from(word, 3 + strlen(name));
    return slice_make("", 0);
}

static void check_java_proxy(struct doctor *d)
{
    const char *options = getenv("JAVA_TOOL_OPTIONS");
    struct slice host = java_option(options, "https.proxyHost"), port = java_option(options, "https.proxyPort");

    if (host.len == 0) {
        findings_add(&d->found, "proxy", FINDING_WRONG, POINT, "JAVA_TOOL_OPTIONS has no -Dhttps.proxyHost: it would go out by itself");
        return;
    }
    d->host = text_copy(host);
    d->port = text_copy(port.len ? port : SLICE("443"));
    findings_add(&d->found, "proxy", FINDING_OK, NULL, "JAVA_TOOL_OPTIONS names %s:%s", d->host, d->port);
}

static void check_proxy(struct doctor *d)
{
    struct slice names = slice_of(d->client->proxy), name;

    if (names.len == 0) {
        findings_add(&d->found, "proxy", FINDING_WRONG, d->client->note, "%s reads no proxy from its environment", d->client->name);
        return;
    }
    if (slice_is(names, "JAVA_TOOL_OPTIONS")) {
        check_java_proxy(d);
        return;
    }
    while (slice_next(&names, ' ', &name)) {
        char *variable = text_copy(name);
        const char *value = getenv(variable);

        if (value && *value && read_proxy(d, slice_of(value)))
            findings_add(&d->found, "proxy", FINDING_OK, NULL, "%s names %s:%s", variable, d->host, d->port);
        else if (value && *value)
            findings_add(&d->found, "proxy", FINDING_WRONG, "it must be http://jwt:TOKEN@HOST:PORT; " POINT,
                         "%s is no address of a proxy", variable);
        free(variable);
        if (value && *value)
            return;
    }
    findings_add(&d->found, "proxy", FINDING_WRONG, POINT, "none of %s is set: %s would go out by itself", d->client->proxy,
                 d->client->name);
}

static void check_env_proxy_switch(struct doctor *d)
{
    const char *on = getenv("NODE_USE_ENV_PROXY");

    if (strcmp(d->client->name, "node24") != 0 && strcmp(d->client->name, "node") != 0)
        return;
    if (on && strcmp(on, "1") == 0)
        findings_add(&d->found, "switch", FINDING_OK, NULL, "NODE_USE_ENV_PROXY is 1");
    else
        findings_add(&d->found, "switch", FINDING_WRONG, "export NODE_USE_ENV_PROXY=1",
                     "NODE_USE_ENV_PROXY is not 1: node does not look at the proxy variables");
}

/* ---- what goes around the proxy ---- */

static bool is_near(struct slice entry)
{
    return slice_is(entry, "localhost") || slice_starts(entry, SLICE("127.")) || slice_is(entry, "::1") || slice_is(entry, "[::1]");
}

static void check_no_proxy(struct doctor *d)
{
    static const char *const names[] = {"no_proxy", "NO_PROXY"};

    for (size_t i = 0; i < 2; i++) {
        struct slice list = slice_of(getenv(names[i]) ? getenv(names[i]) : ""), entry;

        while (slice_next(&list, ',', &entry)) {
            entry = slice_trim(entry);
            if (entry.len == 0 || is_near(entry))
                continue;
            findings_add(&d->found, "no_proxy", FINDING_WRONG, "take it out: what goes around the gateway does not get out at all",
                         "%s has \"%.*s\"", names[i], SLICE_ARG(slice_cut(entry, 0, 100)));
            return;
        }
    }
    findings_add(&d->found, "no_proxy", FINDING_OK, NULL, "nothing goes around the gateway");
}

/* ---- the way there, and the gateway's own word ---- */

static bool check_dns(struct doctor *d)
{
    struct fault why = {0};

    if (asking_is_numeric(d->host)) {
        findings_add(&d->found, "dns", FINDING_OK, NULL, "%s needs no look-up", d->host);
        return true;
    }
    if (asking_resolve(d->host, &why)) {
        findings_add(&d->found, "dns", FINDING_OK, NULL, "%s has an address", d->host);
        return true;
    }
    findings_add(&d->found, "dns", FINDING_WRONG, "write it into /etc/hosts, or name the gateway by its address", "%s", why.text);
    return false;
}

static void check_path(struct doctor *d)
{
    struct fault why = {0};

    if (!asking_put(d->host, d->port, d->credentials, &d->answer, &why)) {
        findings_add(&d->found, "gateway", FINDING_WRONG, "is it running (exeat status there), and may this machine connect to it?",
                     "%s:%s: %s", d->host, d->port, why.text);
        return;
    }
    if (d->answer.is_relay) {
        findings_add(&d->found, "gateway", FINDING_WRONG, "the relay's own log says more; look at its --to and --token-file",
                     "exeat-relay is there and cannot help: %s", d->answer.line);
    } else if (!d->answer.reason[0]) {
        findings_add(&d->found, "gateway", FINDING_WRONG, "is that the gateway's address?", "something else answers at %s:%s: %s",
                     d->host, d->port, d->answer.line);
    } else {
        d->asked = true;
        findings_add(&d->found, "gateway", FINDING_OK, NULL, "it answers at %s:%s", d->host, d->port);
    }
}

static void check_clock(struct doctor *d)
{
    int64_t off = d->answer.date_s ? clock_wall_s() - d->answer.date_s : 0;

    if (!d->answer.date_s)
        return;
    if (off >= -SKEW_S && off <= SKEW_S)
        findings_add(&d->found, "clock", FINDING_OK, NULL, "it is the gateway's, to %d s", SKEW_S);
    else
        findings_add(&d->found, "clock", FINDING_WRONG, "set this machine's clock: certificates and tokens are good for minutes",
                     "it is %lld s %s the gateway's", (long long)(off < 0 ? -off : off), off < 0 ? "behind" : "ahead of");
}

/* ---- token ---- */

/* The claims (give), read without a look at the signature: whether it is good is the gateway's to say. */
static json_t *read_claims(const char *credentials)
{
    struct slice token = slice_of(credentials), user, part;
    struct buf text = {0};
    json_t *claims = NULL;

    if (slice_next(&token, ':', &user) && slice_next(&token, '.', &part) && slice_next(&token, '.', &part) &&
        text_unbase64url(part, &text))
        claims = json_loadb(buf_slice(&text).ptr, buf_len(&text), 0, NULL);
    buf_free(&text);
    return claims;
}

static void describe_token(struct doctor *d, const json_t *claims)
{
    long long left = json_integer_value(json_object_get(claims, "exp")) - (long long)clock_wall_s();
    const char *who = json_string_value(json_object_get(claims, "sub"));
    const char *scope = json_string_value(json_object_get(claims, "scope"));

    if (left <= 0) {
        d->is_expired = true;
        findings_add(&d->found, "token", FINDING_WRONG, "a fresh one: exeat token issue; for long runs: exeat token renew",
                     "it has expired %lld s ago", -left);
    } else {
        findings_add(&d->found, "token", FINDING_OK, NULL, "sandbox %.64s, scope \"%.200s\", good for %lld s%s", who ? who : "?",
                     scope ? scope : "", left, left < SOON_S ? ": hardly a run" : "");
    }
}

/* The gateway's judgement of it. */
static void check_judgement(struct doctor *d)
{
    enum reason r;
    bool known = reason_find(slice_of(d->answer.reason), &r);

    if (!d->asked || d->is_expired)
        return;
    if (d->answer.status == 407 || d->answer.status == 401 ||
        (option_text(d->inv->options, "transparent") && strcmp(d->answer.reason, "trace_refused") != 0))
        findings_add(&d->found, "leave", FINDING_WRONG, known ? reason_get(r)->text : NULL, "the gateway says %s", d->answer.reason);
    else
        findings_add(&d->found, "leave", FINDING_OK, NULL, "the gateway takes it%s",
                     d->credentials ? "" : option_text(d->inv->options, "transparent") ? ", from the listener's file" : ", from the relay");
}

static void check_token(struct doctor *d)
{
    json_t *claims = d->credentials ? read_claims(d->credentials) : NULL;

    if (claims)
        describe_token(d, claims);
    else if (d->credentials)
        findings_add(&d->found, "token", FINDING_WRONG, "the password must be a leave token: exeat env --with-token FILE",
                     option_text(d->inv->options, "transparent") ? "what it shows there is none" : "there is none in the proxy's address");
    json_decref(claims);
    check_judgement(d);
}

/* The scopes against what services ask for, where the configuration is at hand. */
static void check_scope(struct doctor *d)
{
    json_t *claims = d->conf && d->credentials ? read_claims(d->credentials) : NULL;
    const char *scope = json_string_value(json_object_get(claims, "scope"));
    struct slice all = slice_of(scope ? scope : ""), one;
    size_t open = 0;

    while (claims && slice_next(&all, ' ', &one))
        for (size_t i = 0; i < conf_count(d->conf, "services"); i++)
            open += one.len && slice_is(one, conf_text(conf_item(d->conf, "services", i), "scope"));
    if (claims && open)
        findings_add(&d->found, "scope", FINDING_OK, NULL, "it opens %zu of %zu services", open, conf_count(d->conf, "services"));
    else if (claims)
        findings_add(&d->found, "scope", FINDING_WRONG, "exeat token issue --scope, with what a service of proxy.conf has as its scope",
                     "no service asks for what is in it");
    json_decref(claims);
}

/* ---- without a proxy ---- */

/* What the client would ask instead of the place itself. */
static void check_in_the_way(struct doctor *d)
{
    struct slice names = slice_of(d->client->proxy), name;
    bool is_java = slice_is(names, "JAVA_TOOL_OPTIONS");

    while (names.len && slice_next(&names, ' ', &name)) {
        char *variable = text_copy(name);
        const char *value = getenv(variable);
        bool is_set = value && *value && (!is_java || java_option(value, "https.proxyHost").len > 0);

        if (is_set)
            findings_add(&d->found, "proxy", FINDING_WRONG, is_java ? "take -Dhttps.proxyHost out of it" : "unset it: what goes by a proxy needs none of this",
                         "%s names a proxy: %s would ask that", variable, d->client->name);
        free(variable);
        if (is_set)
            return;
    }
    findings_add(&d->found, "proxy", FINDING_OK, NULL, "no variable names one");
}

/* [https://|http://]HOST[:PORT][/...] */
static bool read_place(struct doctor *d, struct slice url, bool *is_tls)
{
    struct slice host;

    *is_tls = !slice_starts_nocase(url, SLICE("http://"));
    if (slice_starts_nocase(url, SLICE("https://")) || !*is_tls)
        url = slice_from(url, *is_tls ? 8 : 7);
    if (!slice_next(&url, '/', &host) || slice_find(host, '@') >= 0)
        return false;
    url = host;
    if (!slice_next(&url, ':', &host) || host.len == 0)
        return false;
    d->host = text_copy(host);
    d->port = text_copy(url.len ? url : *is_tls ? SLICE("443") : SLICE("80"));
    return true;
}

/* What the client itself would show there. Having none is no fault where the listener has a token of its own: the gateway will say. */
static void look_where_it_keeps(struct doctor *d, bool is_tls)
{
    struct keeping_place place = {d->host, (uint16_t)strtoul(d->port, NULL, 10), is_tls};
    char *file, *token = keeping_read(d->client, &place, &file);
    struct buf both = {0};

    if (token) {
        findings_add(&d->found, "kept", FINDING_OK, NULL, "%s has a token for %s", file, d->host);
        buf_printf(&both, "jwt:%s", token);
        d->credentials = buf_take_text(&both);
        explicit_bzero(token, strlen(token));
    } else {
        findings_add(&d->found, "kept", FINDING_UNKNOWN, "exeat env --client NAME --transparent says where it goes; --with-token FILE asks with the token in that",
                     "%s: no token for %s is read there", file ? file : d->client->name, d->host);
    }
    free(token);
    free(file);
}

static bool read_kept(struct doctor *d, struct fault *why)
{
    const char *file = option_text(d->inv->options, "with-token");
    struct buf text = {0}, both = {0};
    bool ok = !file || file_read(file, TOKEN_MOST, &text, why);

    if (ok && file) {
        buf_printf(&both, "jwt:%.*s", SLICE_ARG(slice_trim(buf_slice(&text))));
        d->credentials = buf_take_text(&both);
    }
    buf_wipe(&text);
    return ok;
}

static void tell_trouble(struct doctor *d, const struct fault *why)
{
    if (why->kind == FAULT_MISSING)
        findings_add(&d->found, "dns", FINDING_WRONG, "name the gateway's DNS listener in /etc/resolv.conf, or write the name into /etc/hosts; is it listed? (exeat why --refused)",
                     "%s", why->text);
    else if (why->kind == FAULT_REFUSED)
        findings_add(&d->found, "gateway", FINDING_WRONG, "is the name listed, with this port? (exeat why --refused there); is that the gateway's address?",
                     "%s:%s: no TLS with that name: %s", d->host, d->port, why->text);
    else
        findings_add(&d->found, "gateway", FINDING_WRONG, "does the name lead to a transparent listener, or the firewall there (exeat firewall check), and does it run?",
                     "%s:%s: %s", d->host, d->port, why->text);
}

static void check_leaf(struct doctor *d, enum fronting_leaf leaf)
{
    if (leaf == FRONTING_FOREIGN)
        findings_add(&d->found, "leaf", FINDING_WRONG, "the name leads past the gateway: look at DNS, /etc/hosts and the firewall; or --root is another gateway's",
                     "the certificate of %s is not of the gateway's CA", d->host);
    else if (leaf == FRONTING_OURS)
        findings_add(&d->found, "leaf", FINDING_OK, NULL, "the certificate of %s is of the gateway's CA", d->host);
}

static void check_front(struct doctor *d, const char *root)
{
    bool is_tls = true;
    enum fronting_leaf leaf;
    struct fault why = {0};

    check_in_the_way(d);
    if (!read_place(d, slice_of(option_text(d->inv->options, "transparent")), &is_tls)) {
        findings_add(&d->found, "place", FINDING_WRONG, "https://npm.example, as the client is told it", "--transparent: no address");
        return;
    }
    if (!read_kept(d, &why)) {
        findings_add(&d->found, "token", FINDING_WRONG, "exeat token issue --output FILE", "%s", why.text);
        return;
    }
    if (!d->credentials)
        look_where_it_keeps(d, is_tls);
    doctor_check_names(d->host, &d->found);
    if (!fronting_ask(&(struct fronting){d->host, d->port, is_tls, root, d->credentials}, &d->answer, &leaf, &why)) {
        tell_trouble(d, &why);
        return;
    }
    findings_add(&d->found, "dns", FINDING_OK, NULL, "%s has an address", d->host);
    check_leaf(d, leaf);
    if (!d->answer.reason[0]) {
        findings_add(&d->found, "gateway", FINDING_WRONG, "the name leads past the gateway: look at DNS, /etc/hosts and the firewall",
                     "something else answers at %s:%s: %s", d->host, d->port, d->answer.line);
        return;
    }
    d->asked = true;
    findings_add(&d->found, "gateway", FINDING_OK, NULL, "it answers for %s:%s", d->host, d->port);
}

/* ---- the command ---- */

static struct conf *read_config(const struct invocation *inv)
{
    size_t n;
    const struct conf_section *const *sections = gateway_sections(&n);

    return conf_load(inv->config, sections, n, NULL);
}

/* The gateway's root (give), from --root or from the state beside the configuration; NULL: not at hand. */
static char *find_root(const struct doctor *d)
{
    const char *named = option_text(d->inv->options, "root");
    char *path;

    if (named)
        return text_copy(slice_of(named));
    if (!d->conf)
        return NULL;
    path = file_join(conf_text(conf_section(d->conf, "gateway"), "state"), "ca/root.pem");
    if (!file_exists(path)) {
        free(path);
        path = NULL;
    }
    return path;
}

static void examine(struct doctor *d)
{
    char *root = find_root(d);

    if (option_text(d->inv->options, "transparent")) {
        check_front(d, root);
    } else {
        check_proxy(d);
        check_env_proxy_switch(d);
        check_no_proxy(d);
        if (d->host && check_dns(d))
            check_path(d);
    }
    if (d->asked)
        check_clock(d);
    if (d->host)
        check_token(d);
    check_scope(d);
    doctor_check_trust(d->client, root, &d->found);
    free(root);
}

static int run(const struct invocation *inv)
{
    const char *name = option_text(inv->options, "client");
    struct doctor d = {.inv = inv, .client = client_find(name ? name : "curl"), .conf = read_config(inv)};
    struct buf out = {0};
    int status;

    examine(&d);
    if (inv->json)
        findings_json(&d.found, d.client->name, &out);
    else
        findings_text(&d.found, &out);
    status = command_print(inv, &out);
    if (status == STATUS_YES && findings_any_wrong(&d.found))
        status = STATUS_NO;
    findings_clear(&d.found);
    if (d.credentials)
        explicit_bzero(d.credentials, strlen(d.credentials));
    free(d.credentials);
    free(d.host);
    free(d.port);
    conf_free(d.conf);
    return status;
}

const struct command command_doctor = {
    .name = "doctor",
    .summary = "what keeps a client here from getting out",
    .help = "Looks at the environment as the client would, where the client is to run: the proxy it would use, what would go around it, the "
            "way to the gateway, the clock, the token, the CAs it trusts. Of each it says whether it is right and, if not, what would "
            "mend it. The gateway is asked one question, a CONNECT to a name that nobody has; its refusal is in the journal.\n\n"
            "With --transparent it goes by no proxy, but to the place itself, by its name: does that lead to the gateway, and is the certificate "
            "the gateway's? The question is a TRACE then, which no policy allows. The name servers in /etc/resolv.conf are asked too, for a name that nobody has and for "
            "the place: is one a DNS listener of the gateway's, and where does it lead?\n\n"
            "In a sandbox there is no configuration to read; --root names the gateway's root then (exeat ca export), so that what the client "
            "trusts can be held against it.\n\n"
            "Exit status: 0 nothing wrong, 1 something is.",
    .examples = "exeat doctor --client git\nexeat doctor --client npm --transparent https://npm.example --with-token vm1.jwt\nexeat doctor --client npm --root /etc/exeat/root.pem --format json",
    .options =
        (const struct option_spec[]){
            {.name = "client", .type = OPTION_CHOICE, .value = "NAME", .choices = CLIENT_NAMES, .help = "which client (curl): " CLIENT_LIST},
            {.name = "transparent", .type = OPTION_TEXT, .value = "URL", .help = "it knows of no proxy: the place that it asks for, https://npm.example"},
            {.name = "with-token", .type = OPTION_TEXT, .value = "FILE", .help = "with --transparent: the leave token that it shows there, when not the one in ~/.npmrc, ~/.netrc, auth.conf, settings.xml or where docker login and skopeo login keep it"},
            {.name = "root", .type = OPTION_TEXT, .value = "FILE", .help = "the gateway's root (STATE/ca/root.pem, where that is here)"},
            {0},
        },
    .topic = TOPIC_GATEWAY,
    .has_json = true,
    .run = run,
};
