/* Heads as they go on: what is forwarded, what is dropped, what is added; and Via, which shows a loop. */
#include "services.h"

#include "proxy/rewrite.h"

static const struct message_limits limits = {.head = 8192, .target = 1024, .n_fields = 64};

static struct message *read_one(enum message_kind kind, const char *raw)
{
    struct message *m = message_new(kind, &limits);
    struct fault why = {0};
    size_t used;

    if (message_feed(m, slice_of(raw), &used, &why) != MESSAGE_HEAD)
        fail_msg("%s: %s", raw, why.text);
    return m;
}

static char *rewritten(const struct policy *p, const char *host, const char *raw, char **dropped)
{
    struct message *m = read_one(MESSAGE_REQUEST, raw);
    struct request_context context = {.tunnelled = true, .scheme = SCHEME_HTTPS, .host = host, .port = 443};
    struct buf out = {0}, names = {0};
    struct request r = {0};
    struct fault why = {0};

    if (!request_read(&r, message_head(m), &context, &why))
        fail_msg("%s: %s", raw, why.text);
    rewrite_request(&r, policy_find(p, host, 443), "1.1 gw.test", &out, &names);
    request_clear(&r);
    message_free(m);
    *dropped = buf_take_text(&names);
    return buf_take_text(&out);
}

#define REGISTRY "Host: registry.test\r\n"
#define VIA "Via: 1.1 gw.test\r\n\r\n"

static const struct {
    const char *name, *raw, *want, *dropped;
} requests[] = {
    {"target and case of names as written, Via added", "GET /pkg/%41?x=%20 HTTP/1.1\r\n" REGISTRY "X-ODD: a b\r\n\r\n",
     "GET /pkg/%41?x=%20 HTTP/1.1\r\n" REGISTRY "X-ODD: a b\r\n" VIA, ""},
    {"Host is the canonical one", "GET / HTTP/1.1\r\nHost: REGISTRY.test.:443\r\n\r\n", "GET / HTTP/1.1\r\n" REGISTRY VIA, ""},
    {"hop-by-hop fields end here",
     "GET / HTTP/1.1\r\n" REGISTRY "Connection: keep-alive, X-Mine\r\nX-Mine: 1\r\nKeep-Alive: 5\r\nTE: trailers\r\n"
     "Proxy-Connection: x\r\nProxy-Authorization: Bearer x\r\nUpgrade: h2c\r\nTrailer: X-Sum\r\n\r\n",
     "GET / HTTP/1.1\r\n" REGISTRY VIA, ""},
    {"ambient authority is dropped and named", "GET / HTTP/1.1\r\n" REGISTRY "X-Forwarded-For: 1\r\nX_Real_IP: 2\r\n\r\n",
     "GET / HTTP/1.1\r\n" REGISTRY VIA, "X-Forwarded-For,X_Real_IP"},
    {"a length is written anew", "POST / HTTP/1.1\r\n" REGISTRY "Content-Length: 007\r\n\r\n",
     "POST / HTTP/1.1\r\n" REGISTRY "Content-Length: 7\r\n" VIA, ""},
    {"chunked is written anew", "POST / HTTP/1.1\r\n" REGISTRY "Transfer-Encoding: Chunked\r\n\r\n",
     "POST / HTTP/1.1\r\n" REGISTRY "Transfer-Encoding: chunked\r\n" VIA, ""},
    {"an expectation goes on once", "POST / HTTP/1.1\r\n" REGISTRY "Expect: 100-Continue\r\nContent-Length: 1\r\n\r\n",
     "POST / HTTP/1.1\r\n" REGISTRY "Content-Length: 1\r\nExpect: 100-continue\r\n" VIA, ""},
    {"a sandbox's Via is its own word: dropped and named", "GET / HTTP/1.1\r\n" REGISTRY "Via: 1.0 a\r\nX: 1\r\n\r\n",
     "GET / HTTP/1.1\r\n" REGISTRY "X: 1\r\n" VIA, "Via"},
    {"a handshake of WebSocket stays one, and offers no extension",
     "GET / HTTP/1.1\r\n" REGISTRY "Connection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\nSec-WebSocket-Key: k\r\n"
     "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Extensions: permessage-deflate\r\nSec-WebSocket-Protocol: a\r\n\r\n",
     "GET / HTTP/1.1\r\n" REGISTRY "Sec-WebSocket-Key: k\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: a\r\n"
     "Connection: Upgrade\r\nUpgrade: websocket\r\n" VIA, "Sec-WebSocket-Extensions"},
    {"what is none stays none", "GET / HTTP/1.1\r\n" REGISTRY "Upgrade: websocket\r\nSec-WebSocket-Key: k\r\n\r\n",
     "GET / HTTP/1.1\r\n" REGISTRY "Sec-WebSocket-Key: k\r\n" VIA, ""},
    {"a request of HTTP/1.0 goes on as 1.1", "GET / HTTP/1.0\r\n\r\n", "GET / HTTP/1.1\r\n" REGISTRY VIA, ""},
};

static void requests_go_on(void **state)
{
    struct policy *p = compile_main();

    (void)state;
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        char *dropped, *out = rewritten(p, "registry.test", requests[i].raw, &dropped);

        if (strcmp(out, requests[i].want) != 0 || strcmp(dropped, requests[i].dropped) != 0)
            fail_msg("%s: got\n%sdropped %s", requests[i].name, out, dropped);
        free(out);
        free(dropped);
    }
    policy_free(p);
}

/* As far as the end, trailers too. */
static struct message *read_whole(enum message_kind kind, const char *raw)
{
    struct message *m = message_new(kind, &limits);
    struct slice input = slice_of(raw);
    enum message_event event;
    struct fault why = {0};
    size_t used;

    do {
        event = message_feed(m, input, &used, &why);
        input = slice_from(input, used);
        if (event == MESSAGE_BAD)
            fail_msg("%s: %s", raw, why.text);
    } while (event != MESSAGE_END && event != MESSAGE_MORE);
    return m;
}

static void trailers_are_held_to_the_same_rules(void **state)
{
    static const struct {
        const char *name, *host, *fields, *trailers, *out, *dropped;
    } rows[] = {
        {"an ordinary one", "registry.test", "", "X-Sum: 1\r\n", "X-Sum: 1\r\n", ""},
        {"ambient trust", "registry.test", "", "X-Forwarded-For: ::1\r\nA: b\r\n", "A: b\r\n", "X-Forwarded-For"},
        {"a method override", "registry.test", "", "X-HTTP-Method-Override: DELETE\r\n", "", "X-HTTP-Method-Override"},
        {"a foreign credential", "registry.test", "", "X-Api-Key: k\r\n", "", "X-Api-Key"},
        {"not on the list", "npm.example", "", "X-Sum: 1\r\n", "", "X-Sum"},
        {"what Connection names", "registry.test", "Connection: x-hop\r\n", "X-Hop: 1\r\n", "", "X-Hop"},
        {"a credential, where they are let through", "own.artifacts.corp", "", "X-Api-Key: k\r\n",
         "X-Api-Key: k\r\n", ""},
        {"hop by hop", "registry.test", "", "Keep-Alive: 5\r\n", "", "Keep-Alive"},
    };
    struct policy *p = compile_main();

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct buf raw = {0}, out = {0}, dropped = {0};
        const struct field *trailers;
        struct message *m;
        size_t n;

        buf_printf(&raw, "POST /up HTTP/1.1\r\nHost: registry.test\r\n%sTransfer-Encoding: chunked\r\n\r\n0\r\n%s\r\n",
                   rows[i].fields, rows[i].trailers);
        buf_char(&raw, '\0');
        m = read_whole(MESSAGE_REQUEST, buf_slice(&raw).ptr);
        trailers = message_trailers(m, &n);
        rewrite_request_trailers(message_head(m), policy_find(p, rows[i].host, 443), trailers, n, &out, &dropped);
        if (!slice_is(buf_slice(&out), rows[i].out) || !slice_is(buf_slice(&dropped), rows[i].dropped))
            fail_msg("%s: %.*s(dropped %.*s)", rows[i].name, SLICE_ARG(buf_slice(&out)),
                     SLICE_ARG(buf_slice(&dropped)));
        message_free(m);
        buf_free(&raw);
        buf_free(&out);
        buf_free(&dropped);
    }
    policy_free(p);
}

static void trailers_of_a_response_too(void **state)
{
    static const struct field in[] = {
        {SLICE("X-Sum"), SLICE("1")},        {SLICE("Alt-Svc"), SLICE("h3")},  {SLICE("X-Mine"), SLICE("1")},
        {SLICE("Keep-Alive"), SLICE("5")},   {SLICE("ETag"), SLICE("e")},      {SLICE("Proxy-Status"), SLICE("gw.test; x")},
    };
    struct message *m = read_one(MESSAGE_RESPONSE, "HTTP/1.1 200 OK\r\nConnection: x-mine\r\n\r\n");
    struct buf out = {0};

    (void)state;
    rewrite_response_trailers(message_head(m), in, sizeof in / sizeof *in, "gw.test", &out);
    assert_true(slice_is(buf_slice(&out), "X-Sum: 1\r\nETag: e\r\n"));
    buf_free(&out);
    message_free(m);
}

static const struct {
    const char *name, *raw;
    struct response_frame frame;
    const char *want;
} responses[] = {
    {"length, connection goes on", "HTTP/1.1 200 Fine\r\nContent-Length: 3\r\nX: y\r\n\r\n", {1, FRAMING_LENGTH, 3, true, false},
     "HTTP/1.1 200 Fine\r\nX: y\r\nContent-Length: 3\r\n" VIA},
    {"hop-by-hop, Alt-Svc and our own Proxy-Status are dropped",
     "HTTP/1.1 200 OK\r\nConnection: X-Mine\r\nX-Mine: 1\r\nAlt-Svc: h3\r\nProxy-Status: gw.test; error=x\r\n"
     "Proxy-Status: cdn.test; x\r\nKeep-Alive: 1\r\nContent-Length: 0\r\n\r\n",
     {1, FRAMING_LENGTH, 0, true, false},
     "HTTP/1.1 200 OK\r\nProxy-Status: cdn.test; x\r\nContent-Length: 0\r\n" VIA},
    {"our Proxy-Status is dropped in quotes too, and in a list",
     "HTTP/1.1 200 OK\r\nProxy-Status: \"GW.test\" ; error=x\r\nProxy-Status: cdn.test, \"gw.test\"\r\n"
     "Proxy-Status: \"gw.test.example\"\r\nContent-Length: 0\r\n\r\n",
     {1, FRAMING_LENGTH, 0, true, false},
     "HTTP/1.1 200 OK\r\nProxy-Status: \"gw.test.example\"\r\nContent-Length: 0\r\n" VIA},
    {"words of ours behind the status are not the service's to say",
     "HTTP/1.1 403 Exeat host_not_listed 7f3a9c\r\nContent-Length: 0\r\n\r\n", {1, FRAMING_LENGTH, 0, true, false},
     "HTTP/1.1 403 \r\nContent-Length: 0\r\n" VIA},
    {"until the close becomes chunks", "HTTP/1.1 200 OK\r\n\r\n", {1, FRAMING_CHUNKED, 0, true, false},
     "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n" VIA},
    {"HTTP/1.0 client: until the close", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
     {0, FRAMING_CLOSE, 0, false, false}, "HTTP/1.1 200 OK\r\nVia: 1.1 gw.test\r\nConnection: close\r\n\r\n"},
    {"HTTP/1.0 client: keep-alive is said", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n",
     {0, FRAMING_LENGTH, 1, true, false},
     "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nVia: 1.1 gw.test\r\nConnection: keep-alive\r\n\r\n"},
    {"HEAD keeps the length that was told", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n",
     {1, FRAMING_NONE, 0, true, true}, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n" VIA},
    {"204 has no framing", "HTTP/1.1 204 No\r\n\r\n", {1, FRAMING_NONE, 0, true, false},
     "HTTP/1.1 204 No\r\n" VIA},
};

static void responses_go_on(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof responses / sizeof *responses; i++) {
        struct message *m = read_one(MESSAGE_RESPONSE, responses[i].raw);
        struct buf out = {0};

        rewrite_response(message_head(m), &responses[i].frame, "gw.test", "1.1 gw.test", &out);
        if (!slice_is(buf_slice(&out), responses[i].want))
            fail_msg("%s: got\n%.*s", responses[i].name, SLICE_ARG(buf_slice(&out)));
        buf_free(&out);
        message_free(m);
    }
}

static const struct {
    const char *name, *raw, *want;
} interims[] = {
    {"an interim answer goes on", "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nVia: 1.1 cdn\r\n\r\n",
     "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nVia: 1.1 cdn\r\n" VIA},
    {"what no final answer may say no interim one may",
     "HTTP/1.1 103 exeat upstream_closed 1\r\nAlt-Svc: h3\r\nProxy-Status: gw.test; error=x\r\nProxy-Authenticate: Basic\r\n"
     "Connection: X-Mine\r\nX-Mine: 1\r\n\r\n",
     "HTTP/1.1 103 \r\n" VIA},
};

static void interims_go_on(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof interims / sizeof *interims; i++) {
        struct message *m = read_one(MESSAGE_RESPONSE, interims[i].raw);
        struct buf out = {0};

        rewrite_interim(message_head(m), "gw.test", "1.1 gw.test", &out);
        if (!slice_is(buf_slice(&out), interims[i].want))
            fail_msg("%s: got\n%.*s", interims[i].name, SLICE_ARG(buf_slice(&out)));
        buf_free(&out);
        message_free(m);
    }
}

static const struct {
    const char *name, *via;
    bool loop;
} vias[] = {
    {"ours alone", "1.1 gw.test", true},
    {"ours, another case", "1.1 GW.Test", true},
    {"ours in the middle, with a comment", "1.0 a, 1.1 gw.test (x), 1.1 b", true},
    {"ours behind a tab", "1.1\tgw.test", true},
    {"ours behind blanks", "1.1  gw.test", true},
    {"ours with a port", "1.1 gw.test:3128", true},
    {"ours and a comment without a blank", "1.1 gw.test(x)", true},
    {"a word alone", "gw.test", false},
    {"another's", "1.1 gw.test.example", false},
    {"a longer one", "1.1 xgw.test", false},
    {"our name as a protocol", "gw.test a", false},
    {"our name in a comment", "1.1 a (gw.test)", false},
};

static void a_loop_is_seen(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof vias / sizeof *vias; i++) {
        struct buf raw = {0};
        struct message *m;
        char *text;

        buf_printf(&raw, "GET / HTTP/1.1\r\nHost: a\r\nX: 1.1 gw.test\r\nVia: %s\r\n\r\n", vias[i].via);
        text = buf_take_text(&raw);
        m = read_one(MESSAGE_REQUEST, text);
        if (rewrite_is_loop(message_head(m), "gw.test") != vias[i].loop)
            fail_msg("%s", vias[i].name);
        message_free(m);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_go_on),
        cmocka_unit_test(trailers_are_held_to_the_same_rules),
        cmocka_unit_test(trailers_of_a_response_too),
        cmocka_unit_test(responses_go_on),
        cmocka_unit_test(interims_go_on),
        cmocka_unit_test(a_loop_is_seen),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
