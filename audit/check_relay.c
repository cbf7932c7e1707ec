/* RL: can it be made to speak to somebody else? What arrives at the listener is proof. */
#include <stdlib.h>

#include "audit/check.h"
#include "audit/framing.h"
#include "audit/probes.h"
#include "audit/state.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* Paths that caches of packages fetch, and one that looks like nothing. */
static const char *const shapes[] = {"pool/main/e/{nonce}_1.0_all.deb", "{nonce}"};

static void found(struct evidence *e, enum route route, const char *path)
{
    struct audit *a = e->audit;

    if (a->route != ROUTE_NONE)
        return;
    a->route = route;
    free(a->route_path);
    a->route_path = text_copy(slice_of(path));
}

/* Who came with a nonce of this check, for a note; false: nobody. */
static void judge_hits(const struct evidence *e, struct finding *f, const char *how)
{
    char who[120];

    if (e->n_hits)
        finding_set(f, VERDICT_FAIL, "%s: the service came to %s", how, describe_hit(&e->hits[0], who));
    else
        finding_set(f, VERDICT_PASS, "%s: the listener was not called (%zu tried)", how, e->n);
}

/* ---- RL-1 ---- */

static void send_absolute_to(struct evidence *e, const char *host, enum who who)
{
    for (size_t i = 0; i < COUNT(shapes); i++) {
        ask(e, (struct probe){.who = who, .path = words(e, "http://%s/%s", host, fill(e, shapes[i], nonce_new(e))), .variant = "absolute form"});
        if (evidence_is_hit(e)) {
            found(e, ROUTE_ABSOLUTE, shapes[i]);
            return;
        }
    }
}

static void send_absolute(struct evidence *e)
{
    const char *host = outside_host(e);

    if (!host)
        return;
    send_absolute_to(e, host, good_or_nobody(e));
    if (has_good(e) && !evidence_is_hit(e))
        send_absolute_to(e, host, WHO_NOBODY);
}

static void judge_absolute(const struct evidence *e, struct finding *f)
{
    judge_hits(e, f, "asked for a whole URL elsewhere");
}

/* ---- RL-2 ---- */

enum { HIGH_PORT = 9002 };

static struct turn *send_tunnel(struct evidence *e, const char *host, unsigned port)
{
    const char *n = nonce_new(e);

    return ask(e, (struct probe){.method = "CONNECT", .who = good_or_nobody(e), .path = words(e, "%s:%u", host, port), .is_bare = true, .host = words(e, "%s:%u", host, port),
                                 .inside = slice_of(words(e, "GET /%s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", n, host)), .variant = "CONNECT"});
}

/* A page that any path may have: a tunnel's answer has neither length nor type. */
static bool is_page(const struct turn *x)
{
    struct slice value;

    return turn_field(x, "Content-Length", 0, &value) || turn_field(x, "Transfer-Encoding", 0, &value) || turn_field(x, "Content-Type", 0, &value);
}

static void send_connect(struct evidence *e)
{
    static const unsigned ports[] = {443, HIGH_PORT, 80};
    const char *host = outside_host(e);

    for (size_t i = 0; host && i < COUNT(ports); i++) {
        const struct turn *x = send_tunnel(e, host, ports[i]);

        if (turn_is_2xx(x) && (!is_page(x) || evidence_is_hit(e)))
            found(e, ROUTE_CONNECT, "");
    }
}

/* A 2xx is a tunnel even if nobody could be reached through it; 502 and its like say that it went there. */
static void judge_connect(const struct evidence *e, struct finding *f)
{
    judge_hits(e, f, "CONNECT to elsewhere");
    for (size_t i = 0; i < e->n; i++) {
        const struct turn *x = e->list[i];

        if (turn_is_2xx(x) && !is_page(x))
            finding_worsen(f, VERDICT_FAIL, "CONNECT %s: %d, a tunnel", x->shown, x->status);
        else if (x->status == 502 || x->status == 503 || x->status == 504)
            finding_worsen(f, VERDICT_INCONCLUSIVE, "CONNECT %s: %d, so it tried", x->shown, x->status);
    }
}

/* ---- RL-3 ---- */

static void send_host(struct evidence *e)
{
    const char *host = outside_host(e);

    for (size_t i = 0; host && i < COUNT(shapes); i++) {
        ask(e, (struct probe){.who = good_or_nobody(e), .path = words(e, "/%s", fill(e, shapes[i], nonce_new(e))), .host = host, .variant = "Host of the listener"});
        if (evidence_is_hit(e))
            found(e, ROUTE_HOST, shapes[i]);
    }
}

static void judge_host(const struct evidence *e, struct finding *f)
{
    judge_hits(e, f, "asked with another Host");
}

/* ---- RL-4 ---- */

static void send_in_path(struct evidence *e)
{
    static const char *const forms[] = {"/%s/%s", "/http://%s/%s", "/http:/%s/%s", "/proxy/%s/%s", "/proxy/http://%s/%s", "/fetch/%s/%s", "/fetch/http://%s/%s",
                                        "/HTTPS///%s/%s", "/remote/%s/%s", "/cors/http://%s/%s"};
    const char *host = outside_host(e);

    for (size_t i = 0; host && i < COUNT(forms); i++)
        for (size_t j = 0; j < COUNT(shapes); j++) {
            struct buf path = {0}, route = {0};
            const char *shape = fill(e, shapes[j], nonce_new(e));
            const char *percent = strstr(forms[i], "%s");

            buf_printf(&path, "%.*s%s/%s", (int)(percent - forms[i]), forms[i], host, shape);
            buf_printf(&route, "%.*s{host}/%s", (int)(percent - forms[i]), forms[i], shapes[j]);
            ask(e, (struct probe){.who = good_or_nobody(e), .path = words(e, "%.*s", SLICE_ARG(buf_slice(&path))), .variant = "target in the path"});
            if (evidence_is_hit(e))
                found(e, ROUTE_PATH, words(e, "%.*s", SLICE_ARG(buf_slice(&route))));
            buf_free(&path);
            buf_free(&route);
            if (e->n_hits)
                return;
        }
}

static void judge_in_path(const struct evidence *e, struct finding *f)
{
    judge_hits(e, f, "asked for a path that names another host");
}

/* ---- the way that was found, to another host or port ---- */

static const char *route_path(struct evidence *e, const char *host)
{
    const char *template = e->audit->route_path, *at = strstr(template, "{host}");

    if (!at)
        return fill(e, template, nonce_new(e));
    return fill(e, words(e, "%.*s%s%s", (int)(at - template), template, host, at + 6), nonce_new(e));
}

static struct turn *send_by_route(struct evidence *e, const char *host, unsigned port, const char *variant)
{
    const char *where = host_port(e, host, port);

    switch (e->audit->route) {
    case ROUTE_ABSOLUTE:
        return ask(e, (struct probe){.who = good_or_nobody(e), .path = words(e, "http://%s/%s", where, route_path(e, where)), .variant = variant, .tag = (int)port});
    case ROUTE_HOST:
        return ask(e, (struct probe){.who = good_or_nobody(e), .path = words(e, "/%s", route_path(e, where)), .host = where, .variant = variant, .tag = (int)port});
    case ROUTE_PATH:
        return ask(e, (struct probe){.who = good_or_nobody(e), .path = route_path(e, where), .variant = variant, .tag = (int)port});
    default:
        return send_tunnel(e, host, port);
    }
}

/* ---- RL-5 ---- */

static const unsigned other_ports[] = {22, 25, 8080, HIGH_PORT};

static void send_ports(struct evidence *e)
{
    const char *host = outside_host(e);

    for (size_t i = 0; host && e->audit->route != ROUTE_NONE && i < COUNT(other_ports); i++) {
        send_by_route(e, host, other_ports[i], "another port");
        if (e->audit->route != ROUTE_CONNECT)
            send_tunnel(e, host, other_ports[i]);
    }
}

static bool came_to(const struct evidence *e, unsigned port)
{
    for (size_t i = 0; i < e->n_hits; i++)
        if (e->hits[i].at.port == port)
            return true;
    return false;
}

/* Do RL-1 to RL-4 all say whether it relays? */
static bool is_told(const struct audit *a)
{
    for (size_t i = 0; i < a->n_results; i++) {
        const struct audit_result *r = &a->results[i];
        bool is_one = slice_starts(slice_of(r->check->id), SLICE("RL-")) && r->check->id[3] >= '1' && r->check->id[3] <= '4' && !r->check->id[4];

        if (is_one && r->finding.verdict != VERDICT_PASS && r->finding.verdict != VERDICT_FAIL)
            return false;
    }
    return true;
}

/* Where other protocols live decides: a relay of web pages alone has web ports, of which there are many. */
static void judge_ports(const struct evidence *e, struct finding *f)
{
    if (e->audit->route == ROUTE_NONE && !is_told(e->audit))
        finding_set(f, VERDICT_INCONCLUSIVE, "whether it relays at all is not known (RL-1 to RL-4)");
    else if (e->audit->route == ROUTE_NONE)
        finding_set(f, VERDICT_PASS, "it relays nowhere, so to no other port");
    else if (came_to(e, 22) || came_to(e, 25))
        finding_set(f, VERDICT_FAIL, "it relays to port %d as well: no port is closed", came_to(e, 22) ? 22 : 25);
    else
        finding_set(f, VERDICT_PASS, "it relays, but not to ports 22 and 25%s", came_to(e, 8080) || came_to(e, HIGH_PORT) ? "; high ports are open" : "");
}

/* ---- RL-6 ---- */

static void send_neighbour(struct evidence *e)
{
    const struct target *t = e->target;

    for (unsigned i = 1; i < t->n_base; i++) {
        struct buf host = {0};

        if (!addr_equals(&t->base[0].at, &t->base[i].at) || slice_is(slice_of(t->base[0].host), t->base[i].host))
            continue;
        target_authority(t, i, &host);
        ask(e, (struct probe){.path = "/", .who = WHO_NOBODY, .base = i, .variant = "the neighbour, as itself"});
        ask(e, (struct probe){.path = "/", .who = WHO_NOBODY, .host = words(e, "%.*s", SLICE_ARG(buf_slice(&host))), .variant = "the neighbour's Host on the service's connection"});
        ask(e, (struct probe){.path = "/", .who = WHO_NOBODY, .variant = "the service, as itself"});
        buf_free(&host);
        return;
    }
    evidence_na(e, "no other service at the same address is in the manifest (also)");
}

/* The neighbour's page, and not the service's own, which may be of the same kind. */
static bool is_neighbours(const struct turn *x, const struct turn *neighbour, const struct turn *own)
{
    return turn_is_2xx(x) && turn_alike(x, neighbour) && slice_equals(buf_slice(&x->body), buf_slice(&neighbour->body)) && !slice_equals(buf_slice(&x->body), buf_slice(&own->body));
}

static void judge_neighbour(const struct evidence *e, struct finding *f)
{
    const struct turn *neighbour = e->list[0], *x = e->list[1], *own = e->list[2];

    if (!turn_answered(neighbour) || !turn_answered(x) || !turn_answered(own))
        finding_set(f, VERDICT_INCONCLUSIVE, "the service or its neighbour gave no answer");
    else if (is_neighbours(x, neighbour, own))
        finding_set(f, VERDICT_FAIL, "a connection for the service answers for its neighbour: %d", x->status);
    else if (turn_is_2xx(x) && turn_is_2xx(neighbour) && slice_equals(buf_slice(&neighbour->body), buf_slice(&own->body)))
        finding_set(f, VERDICT_INCONCLUSIVE, "the service and its neighbour have the same page: which of them answers cannot be told");
    else
        finding_set(f, VERDICT_PASS, "a connection for the service does not answer for its neighbour: %d", x->status);
}

/* ---- RL-7 ---- */

static void send_upgrade(struct evidence *e)
{
    static const char *const upgrades[][3] = {
        {"Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: ZXhlYXQtYXVkaXQtMTIzNA=="},
        {"Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__"},
    };
    const char *host = outside_host(e);

    for (size_t i = 0; host && i < COUNT(upgrades); i++) {
        const char *n = nonce_new(e);

        ask(e, (struct probe){.who = good_or_nobody(e), .path = words(e, "http://%s/%s", host, n), .fields = {upgrades[i][0], upgrades[i][1], upgrades[i][2], "Sec-WebSocket-Version: 13"},
                              .is_by_hand = true, .reads_on = true, .variant = upgrades[i][1]});
        ask(e, (struct probe){.who = good_or_nobody(e), .path = words(e, "/%s", n), .host = host, .fields = {upgrades[i][0], upgrades[i][1], upgrades[i][2], "Sec-WebSocket-Version: 13"},
                              .is_by_hand = true, .reads_on = true, .variant = upgrades[i][1]});
    }
}

/* Behind its 101 comes a frame of settings (RFC 9113 3.4): it speaks HTTP/2 itself, which is no way to somewhere else. */
static bool is_own_http2(const struct evidence *e, const struct turn *x)
{
    struct slice head = buf_slice(&x->head), body = buf_slice(&x->body);
    ptrdiff_t end = slice_search(head, SLICE("\r\n\r\n"));
    struct slice frame = end >= 0 && head.len > (size_t)end + 4 ? slice_from(head, (size_t)end + 4) : body;

    return e->n_hits == 0 && slice_ends(slice_of(x->variant), SLICE("h2c")) && frame.len >= 9 && frame.ptr[3] == 4 && frame.ptr[0] == 0;
}

static void judge_upgrade(const struct evidence *e, struct finding *f)
{
    finding_set(f, VERDICT_PASS, "no protocol was switched to");
    for (size_t i = 0; i < e->n; i++) {
        const struct turn *x = e->list[i];

        if (x->status == 101 && !is_own_http2(e, x))
            finding_worsen(f, VERDICT_FAIL, "%s to the listener: 101, a tunnel", x->variant);
        else if (x->status == 101 && f->verdict == VERDICT_PASS)
            finding_set(f, VERDICT_PASS, "no protocol was switched to but HTTP/2, which it speaks itself");
    }
}

/* ---- RL-8 ---- */

/* The same address as one number, in hexadecimal, inside IPv6. */
static void send_spellings(struct evidence *e, const char *bare)
{
    struct addr a;
    unsigned long n;

    if (!addr_parse_ip(slice_of(bare), &a) || a.family != AF_INET)
        return;
    n = (unsigned long)a.ip[0] << 24 | (unsigned long)a.ip[1] << 16 | (unsigned long)a.ip[2] << 8 | a.ip[3];
    send_by_route(e, words(e, "%lu", n), 80, "the address as one number");
    send_by_route(e, words(e, "0x%lx", n), 80, "the address in hexadecimal");
    send_by_route(e, words(e, "[::ffff:%s]", bare), 80, "the address inside IPv6");
}

static void send_inside(struct evidence *e)
{
    const char *inside = inside_host(e), *bare = target_listener(e->target, "bare");
    enum route kept = e->audit->route;
    char *kept_path = e->audit->route_path;

    if (!inside)
        return;
    for (int i = kept == ROUTE_NONE ? ROUTE_ABSOLUTE : (int)kept; i <= (kept == ROUTE_NONE ? ROUTE_HOST : (int)kept); i++) {
        for (size_t j = 0; j < COUNT(shapes); j++) {
            if (kept == ROUTE_NONE) {
                e->audit->route = (enum route)i;
                e->audit->route_path = text_copy(slice_of(shapes[j]));
            }
            send_by_route(e, inside, 80, "a name that is loopback or private");
            if (bare)
                send_by_route(e, bare, 80, "a loopback or private address");
            if (bare && j == 0)
                send_spellings(e, bare);
            if (kept == ROUTE_NONE)
                free(e->audit->route_path);
            if (kept != ROUTE_NONE || i != ROUTE_PATH) /* the shape is the path's */
                break;
        }
    }
    e->audit->route = kept;
    e->audit->route_path = kept_path;
}

static void judge_inside(const struct evidence *e, struct finding *f)
{
    judge_hits(e, f, "asked for something inside");
}

/* ---- RL-9 ---- */

static void send_trace(struct evidence *e)
{
    const char *upstream = target_upstream(e->target), *n = nonce_new(e), *field = words(e, "X-Exeat: %s", n);

    ask(e, (struct probe){.method = "TRACE", .path = "/", .who = good_or_nobody(e), .fields = {field, "Max-Forwards: 0"}});
    if (e->target->dialect == DIALECT_PROXY && upstream)
        ask(e, (struct probe){.method = "TRACE", .path = words(e, "http://%s/", upstream), .who = good_or_nobody(e), .fields = {field, "Max-Forwards: 0"}});
}

static void judge_trace(const struct evidence *e, struct finding *f)
{
    finding_set(f, VERDICT_PASS, "TRACE is not answered with the request");
    for (size_t i = 0; i < e->n; i++)
        if (turn_is_2xx(e->list[i]) && turn_holds(e->list[i], e->nonces[0]))
            finding_worsen(f, VERDICT_FAIL, "TRACE %s repeats the request", e->list[i]->shown);
}

/* ---- RL-10 ---- */

static void send_schemes(struct evidence *e)
{
    static const char *const schemes[] = {"ftp", "gopher", "file", "urn"};
    const char *host = outside_host(e);

    for (size_t i = 0; host && i < COUNT(schemes); i++)
        ask(e, (struct probe){.who = good_or_nobody(e), .is_bare = true, .host = host, .variant = schemes[i],
                              .path = words(e, "%s:%s%s/%s", schemes[i], i == 3 ? "" : "//", i == 2 ? "" : host, nonce_new(e))});
}

static void judge_schemes(const struct evidence *e, struct finding *f)
{
    judge_hits(e, f, "asked for ftp:, gopher:, file:, urn:");
    for (size_t i = 0; i < e->n; i++) {
        const struct turn *x = e->list[i];

        if (x->status == 502 || x->status == 503 || x->status == 504)
            finding_worsen(f, VERDICT_WEAK, "%s: %d, so it tried", x->variant, x->status);
    }
}

/* ---- RL-11 ---- */

static void send_text(struct evidence *e)
{
    static const char *const paths[] = {"/-/v1/search?text=%s", "/search?q=%s", "/%s"};
    const char *n = nonce_new(e), *path;

    if (e->target->dialect == DIALECT_PROXY) {
        evidence_na(e, "a proxy passes on what it is asked: RL-1 to RL-8 say where to");
        return;
    }
    if (!(path = fetched(e, n)))
        return;
    for (size_t i = 0; i < COUNT(paths); i++) {
        const char *percent = strstr(paths[i], "%s");

        ask(e, (struct probe){.path = words(e, "%.*s%s", (int)(percent - paths[i]), paths[i], nonce_new(e)), .variant = "nobody asks", .fields = {"Accept: application/json"}});
    }
    ask(e, (struct probe){.path = path, .variant = "nobody asks"});
    if (has_good(e))
        ask(e, (struct probe){.path = fetched(e, nonce_new(e)), .who = WHO_FIRST, .variant = "with the credential"});
}

static void judge_text(const struct evidence *e, struct finding *f)
{
    finding_set(f, VERDICT_PASS, "what was asked for was not passed on upstream");
    if (e->n_upstream_hits) {
        struct slice line = buf_slice(&e->upstream_hits[0].bytes), path;
        bool is_search = slice_next(&line, '\n', &path) && slice_search(path, SLICE("search")) >= 0;

        finding_set(f, VERDICT_FAIL, "text of the caller's choice (%s) was passed on to the upstream, %zu times", is_search ? "a search" : "a name or path", e->n_upstream_hits);
    }
}

#define DOOR "allow: the exact paths that clients need; the gateway refuses whole URLs, other Hosts and CONNECT within a service by itself."

static const struct check checks[] = {
    {"RL-1", SEVERITY_CRITICAL, RUN_LISTENER, send_absolute, judge_absolute, "Does it fetch a whole URL?", "RFC 9112 3.2.2",
     "Answer requests for other hosts with 421; fix the upstream's name in the configuration (apt-cacher-ng: ForceManaged: 1).", DOOR},
    {"RL-2", SEVERITY_CRITICAL, RUN_LISTENER, send_connect, judge_connect, "Does it open tunnels?", "RFC 9110 9.3.6",
     "Refuse CONNECT (apt-cacher-ng: PassThroughPattern: ^$; squid: deny CONNECT).", DOOR},
    {"RL-3", SEVERITY_HIGH, RUN_LISTENER, send_host, judge_host, "Does it go where Host says?", "RFC 9110 7.4",
     "Answer an unknown Host with 421, and never build the upstream's address from it.", DOOR},
    {"RL-4", SEVERITY_CRITICAL, RUN_LISTENER, send_in_path, judge_in_path, "Does it go where the path says?", "",
     "Serve named repositories only, none that the path names.", DOOR},
    {"RL-5", SEVERITY_MEDIUM, RUN_LISTENER, send_ports, judge_ports, "Does it relay to any port?", "", "Allow the ports of the upstream alone (Safe_ports, AllowUserPorts).", DOOR},
    {"RL-6", SEVERITY_MEDIUM, 0, send_neighbour, judge_neighbour, "Does it answer for its neighbours?", "RFC 9110 15.5.20",
     "Answer 421 when Host is not a name of the connection's.", "The gateway compares CONNECT, SNI and Host itself (421)."},
    {"RL-7", SEVERITY_HIGH, RUN_LISTENER, send_upgrade, judge_upgrade, "Does an upgrade open a tunnel?", "RFC 9110 7.8, RFC 8441", "Refuse Upgrade where it is not needed.", "Upgrade is dropped unless the service allows it."},
    {"RL-8", SEVERITY_CRITICAL, RUN_LISTENER, send_inside, judge_inside, "Does it reach loopback and private addresses?", "RFC 6890",
     "Refuse loopback, private and link-local destinations after looking the name up.", DOOR},
    {"RL-9", SEVERITY_LOW, 0, send_trace, judge_trace, "Does it answer TRACE?", "RFC 9110 9.3.8", "Switch TRACE off.", "The gateway refuses TRACE."},
    {"RL-10", SEVERITY_MEDIUM, RUN_LISTENER, send_schemes, judge_schemes, "Does it fetch ftp:, gopher:, file:?", "", "Allow http and https alone.", DOOR},
    {"RL-11", SEVERITY_HIGH, RUN_LISTENER, send_text, judge_text, "Does it pass the caller's text on upstream?", "",
     "Answer searches and unknown names from what it has; mirror by a list of names.", "deny: searches; allow: names by a list (bind), so that text of the sandbox's choice does not get there."},
    {"RL-12", SEVERITY_HIGH, RUN_NAMED, send_framings, judge_framings, "Do it and its upstream read the same request?", "RFC 9112 6.3", "Refuse requests that can be read in two ways.", "The gateway refuses them and writes requests anew."},
};

const struct check_group check_relay = {"RL", "relay", checks, COUNT(checks)};
