/*
 * The machines of a session and its exchanges under libFuzzer: a real worker, whose kernel, clock, roles, clients and
 * services do what the input says. Each byte of the input is an event (the table at the end), most with an argument. What
 * must hold, whatever happens and in whatever order:
 *
 *   nothing is dialled and nothing reaches a service without a written decision that allows it, and no leaf is asked for before one: but
 *   where a client was steered, for a listed host;
 *   neither a canary nor a token's signature reaches a service, nor the front of a canary that the client said whole;
 *   a service hears well-formed requests, a client well-formed answers, no more of them than it asked for;
 *   after a handshake of WebSocket each hears well-formed frames, and no canary is in what they carry, over messages too;
 *   what ends properly is whole: what was broken off is never taken for an end;
 *   a written decision that allows has exactly one result;
 *   a peer that falls silent is closed in bounded time; then no connection, exchange or descriptor is left.
 *
 * The edges of both machines, and that one operation is in flight, are asserted by their enter().
 */
#include <sanitizer/lsan_interface.h>
#include <stdio.h>
#include <unistd.h>

#include "authz/path.h"
#include "net/frame.h"
#include "net/upgrade.h"
#include "base/say.h"
#include "proxy/role.h"
#include "tests/fuzz/lib/fuzz.h"
#include "tests/fuzz/lib/heard.h"
#include "tests/fuzz/lib/kernel.h"
#include "tests/fuzz/lib/peer.h"
#include "tests/fuzz/lib/words.h"
#include "tests/fuzz/lib/world.h"

enum { CLIENTS = 3, SERVICES = 8, EVENTS_MAX = 160, FRONT_MIN = 8, LEAK_CHECK_EACH = 2000, SILENCE_MS = 5000, SILENCES_MAX = 500 };

struct client {
    struct peer peer;
    struct buf said, said_inside; /* before TLS, and in it */
    bool steered;
};

struct service {
    struct peer peer;
    struct message *requests;
    size_t read; /* bytes of peer.in that went through it */
    char host[256];
    size_t asked; /* requests without an answer */
    bool handshake; /* the last request was one of WebSocket */
    bool talks;     /* and it went on with frames */
    struct frame_reader frames;
    struct buf told, pinged; /* what they carried: messages, control frames */
};

static struct {
    struct world *world;
    struct client clients[CLIENTS];
    struct service services[SERVICES];
    size_t n_services;
    struct buf tokens[2];
    char jtis[2][16];
    unsigned serial;
} run;

/* ---- what a client hears ---- */

static void check_client(const struct client *c)
{
    struct slice in = buf_slice(&c->peer.in);
    bool whole = c->peer.end == PEER_ENDED;

    if (c->steered && slice_starts(buf_slice(&c->said), SLICE("\x16"))) {
        heard_check_tls(in);
        return;
    }
    if (!c->peer.plain && !buf_len(&c->said_inside)) {
        heard_check(buf_slice(&c->said), in, whole);
        return;
    }
    heard_check(buf_slice(&c->said), slice_cut(in, 0, c->peer.plain), false);
    heard_check(buf_slice(&c->said_inside), slice_from(in, c->peer.plain), whole);
}

/* ---- what a service hears ---- */

static void check_request(struct service *s, const struct head *h)
{
    struct slice target = h->target, raw = {0};
    struct buf path = {0};
    const struct field *host = head_field(h, "host");

    slice_next(&target, '?', &raw);
    assert(path_canonical(raw, &path, NULL));
    assert(host && slice_is(host->value, s->host));
    assert(roles_allowed(run.world->roles, h->method, host->value, buf_slice(&path)));
    buf_free(&path);
    s->handshake = upgrade_check_request(h, NULL);
    s->asked++;
}

/* Whoever asked for WebSocket and goes on with something that no method begins with talks in frames. */
static bool begins_to_talk(const struct service *s, struct slice in)
{
    return s->handshake && s->read < in.len && !(in.ptr[s->read] >= 'A' && in.ptr[s->read] <= 'Z');
}

static void listen_to(struct service *s, struct slice in)
{
    enum frame_event event;
    struct frame f;
    size_t used;

    s->frames.masked = true;
    s->frames.message_max = UINT32_MAX;
    do {
        event = frame_read(&s->frames, slice_from(in, s->read), &used, &f, NULL);
        s->read += used;
        assert(event != FRAME_BAD);
        if (event == FRAME_PIECE || event == FRAME_CONTROL)
            buf_append(event == FRAME_PIECE ? &s->told : &s->pinged, f.payload);
    } while (event != FRAME_MORE);
    assert(slice_search(buf_slice(&s->told), SLICE(WORLD_CANARY)) < 0);
    assert(slice_search(buf_slice(&s->pinged), SLICE(WORLD_CANARY)) < 0);
}

static void look_at_service(struct service *s)
{
    struct slice in = buf_slice(&s->peer.in);
    enum message_event event = MESSAGE_END;
    size_t used;

    assert(slice_search(in, SLICE(WORLD_CANARY)) < 0);
    for (size_t i = 0; i < 2; i++) /* the last 43 characters are the signature */
        assert(slice_search(in, slice_from(buf_slice(&run.tokens[i]), buf_len(&run.tokens[i]) - 43)) < 0);
    if (s->talks) {
        listen_to(s, in);
        return;
    }
    while (s->read < in.len || event != MESSAGE_MORE) {
        if ((s->talks = !message_is_open(s->requests) && begins_to_talk(s, in))) {
            listen_to(s, in);
            return;
        }
        event = message_feed(s->requests, slice_from(in, s->read), &used, NULL);
        s->read += used;
        assert(event != MESSAGE_BAD);
        if (event == MESSAGE_HEAD)
            check_request(s, message_head(s->requests));
        else if (event == MESSAGE_END)
            message_reset(s->requests);
        if (event == MESSAGE_END && s->read == in.len)
            return;
    }
}

/* Did anybody say the whole of the canary, as it is? */
static bool canary_was_said(void)
{
    for (size_t i = 0; i < CLIENTS; i++)
        if (slice_search(buf_slice(&run.clients[i].said), SLICE(WORLD_CANARY)) >= 0 ||
            slice_search(buf_slice(&run.clients[i].said_inside), SLICE(WORLD_CANARY)) >= 0)
            return true;
    return false;
}

/* What a service heard last must not be the front of a canary: none of it is let go before it is clear that it is none. */
static void check_held_back(const struct service *s)
{
    struct slice in = buf_slice(&s->peer.in);

    for (size_t n = FRONT_MIN; n < sizeof WORLD_CANARY - 1; n++)
        assert(!slice_ends(in, slice_cut(SLICE(WORLD_CANARY), 0, n)));
}

/* ---- turns ---- */

static bool pump(void)
{
    bool moved = false;

    for (size_t i = 0; i < CLIENTS; i++)
        moved |= peer_pump(&run.clients[i].peer);
    roles_read(run.world->roles);
    for (size_t i = 0; i < run.n_services; i++)
        if (peer_pump(&run.services[i].peer)) {
            moved = true;
            look_at_service(&run.services[i]);
        }
    return moved;
}

static void turn(void)
{
    pump();
    world_turn();
    pump();
}

/* ---- clients ---- */

static struct client *client_of(uint8_t b)
{
    return &run.clients[b % CLIENTS];
}

static void client_end(struct client *c)
{
    if (c->peer.fd >= 0 || c->peer.end != PEER_OPEN || buf_len(&c->peer.in))
        check_client(c);
    peer_clear(&c->peer);
    buf_free(&c->said);
    buf_free(&c->said_inside);
    *c = (struct client){.peer = {.fd = -1}};
}

static void client_begin_by(struct client *c, uint16_t to, const struct kernel_way *way)
{
    client_end(c);
    peer_init(&c->peer, kernel_connect(to, (uint8_t)(1 + (c - run.clients)), way));
}

static void client_begin(struct client *c)
{
    client_begin_by(c, WORLD_EXPLICIT, &(struct kernel_way){0});
}

static void client_say(struct client *c, struct slice bytes)
{
    if (c->peer.fd < 0 || c->peer.end != PEER_OPEN)
        client_begin(c);
    if (c->peer.ending)
        return;
    buf_append(c->peer.ssl ? &c->said_inside : &c->said, bytes);
    peer_send(&c->peer, bytes);
}

static void on_request(uint8_t a, struct slice *input)
{
    struct buf text = {0};

    (void)input;
    run.serial++;
    words_expand(&words_requests[a / CLIENTS % words_n_requests], run.tokens, run.serial, &text);
    client_say(client_of(a), buf_slice(&text));
    buf_free(&text);
}

static void on_say(uint8_t a, struct slice *input)
{
    client_say(client_of(a), fuzz_take(input, a));
}

static void on_tls(uint8_t a, struct slice *input)
{
    static const char *const names[] = {"registry.test", "upload.test", "other.test"};
    struct peer *p = &client_of(a)->peer;
    SSL *ssl;

    (void)input;
    if (p->fd < 0 || p->ssl || p->ending || p->end != PEER_OPEN || buf_len(&p->out))
        return;
    ssl = SSL_new(run.world->client);
    SSL_set_tlsext_host_name(ssl, names[a / CLIENTS % 3]);
    SSL_set_connect_state(ssl);
    peer_start_tls(p, ssl);
}

static void on_connect(uint8_t a, struct slice *input)
{
    (void)input;
    client_begin(client_of(a));
}

/* To the transparent listener, by each way; meant for a service's port, plain or not, for one that none has, or for the gateway itself. */
static void on_steer(uint8_t a, struct slice *input)
{
    static const uint16_t ports[] = {443, 80, 22, WORLD_EXPLICIT};
    unsigned how = a / CLIENTS % 3, meant = a / CLIENTS / 3 % 4;

    (void)input;
    roles_steered(run.world->roles);
    client_begin_by(client_of(a), WORLD_TRANSPARENT, &(struct kernel_way){.is_redirected = how == 1, .is_tproxy = how == 2, .port = ports[meant],
                                                                         .address = meant == 3 ? 0x0a000001 : 0xcb007109});
    client_of(a)->steered = true;
}

static void on_close(uint8_t a, struct slice *input)
{
    struct client *c = client_of(a);

    (void)input;
    if (c->peer.fd < 0)
        return;
    if (a & 128) {
        peer_reset(&c->peer);
    } else if (a & 64) {
        peer_finish(&c->peer);
    } else {
        c->peer.end = c->peer.end == PEER_OPEN ? PEER_CUT : c->peer.end;
        client_end(c);
    }
}

/* ---- services ---- */

/* 0: the newest. */
static struct service *service_of(uint8_t b)
{
    return run.n_services ? &run.services[run.n_services - 1 - b % SERVICES % run.n_services] : NULL;
}

static void service_say(struct service *s, const struct word *w)
{
    struct buf text = {0};

    words_expand(w, run.tokens, run.serial, &text);
    peer_send(&s->peer, buf_slice(&text));
    s->asked = 0;
    buf_free(&text);
}

static void on_answer(uint8_t a, struct slice *input)
{
    (void)input;
    if (service_of(a))
        service_say(service_of(a), &words_responses[a / SERVICES % words_n_responses]);
}

static void on_reply(uint8_t a, struct slice *input)
{
    struct slice bytes = fuzz_take(input, a);

    if (service_of(a))
        peer_send(&service_of(a)->peer, bytes);
}

static void on_leave(uint8_t a, struct slice *input)
{
    struct service *s = service_of(a);

    (void)input;
    if (s && a & 128)
        peer_reset(&s->peer);
    else if (s)
        peer_finish(&s->peer);
}

static SSL_CTX *tls_of(const char *host, bool other)
{
    static SSL_CTX *registry, *upload;

    if (!registry) {
        registry = world_service("registry.test");
        upload = world_service("upload.test");
    }
    return (strcmp(host, "upload.test") == 0) != other ? upload : registry;
}

static void service_begin(int fd, const char *host, uint16_t port, bool other)
{
    struct service *s = &run.services[run.n_services++];
    SSL *ssl;

    *s = (struct service){.requests = message_new(MESSAGE_REQUEST, &heard_limits)};
    snprintf(s->host, sizeof s->host, "%s", host);
    peer_init(&s->peer, fd);
    if (port != 443)
        return;
    ssl = SSL_new(tls_of(host, other));
    SSL_set_accept_state(ssl);
    peer_start_tls(&s->peer, ssl);
}

/* ---- roles ---- */

static void dial(bool other)
{
    char host[256];
    uint16_t port;
    int near, far;

    if (!roles_dials(run.world->roles) || run.n_services == SERVICES)
        return;
    far = kernel_pair(&near);
    roles_dialled(run.world->roles, near, host, &port);
    close(near); /* the worker has its own */
    service_begin(far, host, port, other);
}

static void on_dial(uint8_t a, struct slice *input)
{
    (void)input;
    if (a % 8 == 7 && roles_dials(run.world->roles))
        roles_not_dialled(run.world->roles, a);
    else
        dial(a % 8 == 6);
}

/* fault: 0 none, 1 no answer but no, 2 another host's, 3 half of it, 4 soon over. */
static void certify(uint8_t fault)
{
    struct roles *roles = run.world->roles;
    const char *host = roles_certify(roles);
    int64_t until_s = world_now_s() + (fault == 4 ? 30 : 86400);
    struct buf chain = {0};

    if (!*host)
        return;
    if (fault != 1)
        pki_chain(&run.world->gateway, fault == 2 ? "wrong.test" : host, roles_leaf_key(roles), until_s, &chain);
    if (fault == 3)
        buf_truncate(&chain, buf_len(&chain) / 2);
    roles_certified(roles, buf_slice(&chain), until_s);
    buf_free(&chain);
}

static void on_certify(uint8_t a, struct slice *input)
{
    (void)input;
    certify(a % 8);
}

static void on_write(uint8_t a, struct slice *input)
{
    (void)a, (void)input;
    roles_write(run.world->roles);
}

static void on_refuse(uint8_t a, struct slice *input)
{
    (void)a, (void)input;
    roles_refuse(run.world->roles);
}

static void on_restart(uint8_t a, struct slice *input)
{
    static const int roles[] = {ROLE_SCRIBE, ROLE_PORTER, ROLE_KEEPER};

    (void)input;
    roles_restart(run.world->roles, roles[a % 3]);
}

static void on_revoke(uint8_t a, struct slice *input)
{
    (void)input;
    world_revoke(run.jtis[a % 2]);
}

/* ---- everybody ---- */

/* All do what is expected of them, for some turns. */
static void on_settle(uint8_t a, struct slice *input)
{
    (void)input;
    for (unsigned i = 0; i <= a % 16u; i++) {
        roles_write(run.world->roles);
        dial(false);
        certify(0);
        for (size_t k = 0; k < run.n_services; k++)
            if (run.services[k].asked)
                service_say(&run.services[k], &words_responses[0]);
        turn();
    }
}

static void on_time(uint8_t a, struct slice *input)
{
    static const int64_t waits[] = {1, 100, 1000, 2500, 5000, 10000, 30000, 60000, 120000, 300000, 900000};

    (void)input;
    world_advance(waits[a % (sizeof waits / sizeof *waits)]);
}

/* A client, or a service, stops reading or goes on. */
static void on_stall(uint8_t a, struct slice *input)
{
    struct service *s = service_of(a);

    (void)input;
    if (!(a & 64))
        client_of(a)->peer.stalled = !client_of(a)->peer.stalled;
    else if (s)
        s->peer.stalled = !s->peer.stalled;
}

static void on_pieces(uint8_t a, struct slice *input)
{
    (void)input;
    peer_pieces(a);
}

/* An event and its argument, with what else it takes from the input. The order is that of their bytes. */
static const struct event_kind {
    const char *name;
    void (*on)(uint8_t a, struct slice *input);
} events[] = {
    {"request", on_request}, {"say", on_say},       {"tls", on_tls},         {"close", on_close}, {"connect", on_connect},
    {"answer", on_answer},   {"reply", on_reply},   {"leave", on_leave},     {"dial", on_dial},   {"certify", on_certify},
    {"write", on_write},     {"refuse", on_refuse}, {"restart", on_restart}, {"revoke", on_revoke}, {"settle", on_settle},
    {"time", on_time},       {"stall", on_stall},   {"pieces", on_pieces},   {"steer", on_steer},
};

static void on_event(struct slice *input)
{
    const struct event_kind *e = &events[fuzz_byte(input) % (sizeof events / sizeof *events)];
    uint8_t a = fuzz_byte(input);

    say_debug("%s %d", e->name, a);
    e->on(a, input);
    turn();
}

/* ---- a run ---- */

static void begin(void)
{
    kernel_begin();
    run.world = world_get();
    run.n_services = 0;
    peer_pieces(0);
    for (size_t i = 0; i < CLIENTS; i++)
        run.clients[i] = (struct client){.peer = {.fd = -1}};
    for (size_t i = 0; i < 2; i++) {
        snprintf(run.jtis[i], sizeof run.jtis[i], "j%u", ++run.serial);
        world_token(i ? "sb-2" : "sb-1", run.jtis[i], &run.tokens[i]);
    }
}

/* Nobody says anything more: whatever is open must end by itself. */
static void fall_silent(void)
{
    size_t waits = 0;

    while (world_open() || world_pooled() || pump()) {
        roles_write(run.world->roles);
        assert(waits++ < SILENCES_MAX);
        world_advance(SILENCE_MS);
        pump();
    }
    assert(!world_exchanges());
}

static void end(void)
{
    for (size_t i = 0; canary_was_said() && i < run.n_services; i++)
        check_held_back(&run.services[i]);
    for (size_t i = 0; i < CLIENTS; i++)
        client_end(&run.clients[i]);
    for (size_t i = 0; i < run.n_services; i++) {
        peer_clear(&run.services[i].peer);
        message_free(run.services[i].requests);
        buf_free(&run.services[i].told);
        buf_free(&run.services[i].pinged);
    }
    roles_write(run.world->roles);
    turn();
    world_advance(SILENCE_MS); /* the last results wait for company */
    turn();
    roles_write(run.world->roles);
    turn();
    roles_close_books(run.world->roles);
    buf_free(&run.tokens[0]);
    buf_free(&run.tokens[1]);
    kernel_end();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static unsigned runs;
    struct slice input = slice_make(data, size);

    begin();
    for (size_t i = 0; input.len && i < EVENTS_MAX; i++)
        on_event(&input);
    fall_silent();
    end();
    assert(kernel_open_ends() == 0);
    if (++runs % LEAK_CHECK_EACH == 0)
        assert(!__lsan_do_recoverable_leak_check());
    return 0;
}
