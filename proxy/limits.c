/* Owns the table of limits: each with its default, its unit and its bounds. */
#include "proxy/limits.h"

#include <inttypes.h>

#include "proxy/tally.h"

static const struct conf_key keys[] = {
    {"head", CONF_SIZE, "32k", NULL, "bytes of a request's or response's head", 0},
    {"target", CONF_SIZE, "8k", NULL, "bytes of a request target (414 above)", 0},
    {"credential", CONF_SIZE, "16k", NULL, "bytes of a Proxy-Authorization value (431 above)", 0},
    {"fields", CONF_COUNT, "100", NULL, "header fields in one head (431 above)", 0},
    {"body-collect", CONF_SIZE, "64k", NULL, "bytes of a request body that are scanned before the head goes out", 0},
    {"header-time", CONF_TIME, "10s", NULL, "how long a request head may take to arrive (408 after)", 0},
    {"handshake-time", CONF_TIME, "10s", NULL, "how long a TLS handshake may take, on either side", 0},
    {"idle-time", CONF_TIME, "60s", NULL, "how long a client connection may wait between requests", 0},
    {"body-time", CONF_TIME, "60s", NULL, "how long a body may stand still, in either direction", 0},
    {"websocket-idle", CONF_TIME, "1h", NULL, "how long a WebSocket may stand still, without a frame either way", 0},
    {"websocket-message", CONF_SIZE, "16m", NULL, "bytes of one message on a WebSocket, either way", 0},
    {"event-stream-idle", CONF_TIME, "1h", NULL,
     "how long a response that is a stream of events (text/event-stream, x-ndjson, json-seq) may stand still", 0},
    {"dial-time", CONF_TIME, "10s", NULL, "how long name look-up and connecting may take together (504 after)", 0},
    {"response-time", CONF_TIME, "120s", NULL, "how long an origin may take to begin its response (504 after)", 0},
    {"linger-time", CONF_TIME, "2s", NULL, "how long the last answer may take to be read before the connection is cut",
     0},
    {"overrun", CONF_TIME, "5m", NULL, "how long an exchange in flight may go on after its token has expired", 0},
    {"connections", CONF_COUNT, "10000", NULL, "client connections, for each worker", 0},
    {"memory", CONF_SIZE, "1g", NULL,
     "bytes one worker may hold before it accepts no connection until it holds less", 0},
    {"upstream-idle", CONF_COUNT, "64", NULL, "idle connections kept open to one destination, for each worker", 0},
    {"upstream-idle-total", CONF_COUNT, "256", NULL, "idle connections kept open to all destinations, for each worker",
     0},
    {"upstream-idle-time", CONF_TIME, "55s", NULL, "how long an idle connection to a destination is kept", 0},
    {"token-cache", CONF_COUNT, "10000", NULL, "verified tokens remembered, for each worker", 0},
    {"token-failures", CONF_COUNT, "120", NULL,
     "tokens that do not verify, a minute and source address, before the source's tokens are not looked at", 0},
    {"leaf-cache", CONF_COUNT, "1000", NULL, "host certificates remembered, for each worker", 0},
    {"hang-time", CONF_TIME, "10s", NULL, "how long a role may fail to answer before it is ended and started again", 0},
    {"body-rate", CONF_SIZE, "256", NULL,
     "bytes a second that a client must send or read of a body, averaged over body-time (408, or cut, below)", 0},
    {"sandbox-connections", CONF_COUNT, "1000", NULL, "connections of one sandbox", 0},
    {"source-connections", CONF_COUNT, "500", NULL,
     "connections of one source address that have not shown a good token; the oldest of them makes room", 0},
    {"exchanges", CONF_COUNT, "8192", NULL, "exchanges in flight, of all sandboxes", 0},
    {"sandbox-exchanges", CONF_COUNT, "512", NULL, "exchanges in flight, of one sandbox", 0},
    {"dials", CONF_COUNT, "1024", NULL, "connections to services being made, of all sandboxes", 0},
    {"sandbox-dials", CONF_COUNT, "128", NULL, "connections to services being made, of one sandbox", 0},
    {"lookups", CONF_COUNT, "1024", NULL, "names being looked up, of all sandboxes", 0},
    {"sandbox-lookups", CONF_COUNT, "64", NULL, "names being looked up, of one sandbox", 0},
    {"handshakes", CONF_COUNT, "1024", NULL, "TLS handshakes with clients under way, of all sandboxes", 0},
    {"sandbox-handshakes", CONF_COUNT, "128", NULL, "TLS handshakes with clients under way, of one sandbox; at transparent listeners of one source address", 0},
    {"handshake-rate", CONF_COUNT, "1000", NULL, "TLS handshakes with clients a second, of one sandbox; at transparent listeners of one source address", 0},
    {"failed-handshakes", CONF_COUNT, "120", NULL,
     "TLS handshakes of one sandbox, and of one source address, that may fail in a minute", 0},
    {"records", CONF_COUNT, "50000", NULL, "journal records a second, of all sandboxes", 0},
    {"sandbox-records", CONF_COUNT, "20000", NULL, "journal records a second, of one sandbox; a request makes two", 0},
    {"sandbox-denials", CONF_COUNT, "3000", NULL,
     "denials of one sandbox in a minute that are answered and recorded each for itself", 0},
    {"source-denials", CONF_COUNT, "3000", NULL, "the same for a source address, of requests without a good token", 0},
    {"sandbox-bytes", CONF_SIZE, "4g", NULL, "bytes one sandbox may send to services in an hour, heads and bodies", 0},
    {"sandbox-urls", CONF_COUNT, "20000", NULL, "distinct URLs one sandbox may ask for in an hour", 0},
    {"names", CONF_COUNT, "2000", NULL,
     "new names below listed suffixes that are looked up in an hour, for all sandboxes and clients; the porter holds it, for each worker its share", 0},
    {"sandbox-names", CONF_COUNT, "20", NULL,
     "new names below a listed suffix (*.npm.example) one sandbox may use in an hour; by DNS, one client", 0},
    {"dns-questions", CONF_COUNT, "100", NULL,
     "DNS questions a second of one client, over 10 s; refused above, and left without an answer above twice as many", 0},
    {"dns-questions-total", CONF_COUNT, "5000", NULL, "DNS questions a second of all clients", 0},
    {"dns-names", CONF_COUNT, "1000", NULL, "distinct names one client of a DNS listener may ask for in an hour", 0},
    {"dns-connections", CONF_COUNT, "16", NULL, "TCP connections of one client to DNS listeners", 0},
};

const struct conf_section limits_section = {
    .name = "limits",
    .keys = keys,
    .n_keys = sizeof keys / sizeof *keys,
    .help = "How large, how many, how long: everything a peer chooses has a cap, every wait a deadline.",
};

static const struct bound {
    const char *key;
    int64_t least, most;
} bounds[] = {
    {"head", 1 << 10, 1 << 20},
    {"target", 256, 64 << 10},
    {"credential", 512, 128 << 10},
    {"fields", 10, 1000},
    {"body-collect", 0, 16 << 20},
    {"header-time", 100, 600000},
    {"handshake-time", 100, 600000},
    {"idle-time", 100, 3600000},
    {"body-time", 100, 3600000},
    {"websocket-idle", 100, 604800000},
    {"websocket-message", 1, INT64_C(1) << 40},
    {"event-stream-idle", 100, 604800000},
    {"dial-time", 100, 600000},
    {"response-time", 100, 86400000},
    {"linger-time", 0, 60000},
    {"overrun", 0, 86400000},
    {"connections", 1, 1000000},
    {"memory", 16 << 20, INT64_C(1) << 50},
    {"upstream-idle", 0, 10000},
    {"upstream-idle-total", 0, 100000},
    {"upstream-idle-time", 0, 3600000},
    {"token-cache", 1, 10000000},
    {"token-failures", 1, 1000000},
    {"leaf-cache", 1, 1000000},
    {"hang-time", 1000, 600000},
    {"body-rate", 0, 1 << 20},
    {"sandbox-connections", 1, 1000000},
    {"source-connections", 1, 1000000},
    {"exchanges", 1, 10000000},
    {"sandbox-exchanges", 1, 1000000},
    {"dials", 1, 1000000},
    {"sandbox-dials", 1, 1000000},
    {"lookups", 1, 1000000},
    {"sandbox-lookups", 1, 1000000},
    {"handshakes", 1, 1000000},
    {"sandbox-handshakes", 1, 1000000},
    {"handshake-rate", 1, 1000000},
    {"failed-handshakes", 1, 1000000},
    {"records", 1, 10000000},
    {"sandbox-records", 1, 10000000},
    {"sandbox-denials", 1, 10000000},
    {"source-denials", 1, 10000000},
    {"sandbox-bytes", 1024, INT64_C(1) << 50},
    {"sandbox-urls", 1, TALLY_SEEN_MAX / 4},
    {"names", 1, 1000000},
    {"sandbox-names", 1, TALLY_SEEN_MAX / 4},
    {"dns-questions", 1, 100000},
    {"dns-questions-total", 1, 1000000},
    {"dns-names", 1, 1 << 20},
    {"dns-connections", 1, 1024},
};

bool limits_check(const struct conf *c, struct fault *why)
{
    const struct conf_item *l = conf_section(c, "limits");

    _Static_assert(sizeof bounds / sizeof *bounds == sizeof keys / sizeof *keys, "each limit has its bounds");
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
        const struct bound *b = &bounds[i];
        int64_t n = conf_number(l, b->key);

        if (n < b->least || n > b->most)
            return conf_refuse(l, b->key, -1, why, "limits.%s must be between %" PRId64 " and %" PRId64 "%s", b->key,
                               b->least, b->most, keys[i].type == CONF_TIME ? " milliseconds" : "");
    }
    return true;
}

enum { RECORD_MS = 5000 };

static size_t size(const struct conf_item *l, const char *key)
{
    return (size_t)conf_number(l, key);
}

struct limits limits_read(const struct conf *c)
{
    const struct conf_item *l = conf_section(c, "limits");

    return (struct limits){
        .head = size(l, "head"),
        .target = size(l, "target"),
        .credential = size(l, "credential"),
        .fields = size(l, "fields"),
        .body_collect = size(l, "body-collect"),
        .header_ms = conf_number(l, "header-time"),
        .handshake_ms = conf_number(l, "handshake-time"),
        .idle_ms = conf_number(l, "idle-time"),
        .body_ms = conf_number(l, "body-time"),
        .websocket_idle_ms = conf_number(l, "websocket-idle"),
        .websocket_message = size(l, "websocket-message"),
        .event_stream_idle_ms = conf_number(l, "event-stream-idle"),
        .dial_ms = conf_number(l, "dial-time"),
        .response_ms = conf_number(l, "response-time"),
        .linger_ms = conf_number(l, "linger-time"),
        .overrun_ms = conf_number(l, "overrun"),
        .record_ms = RECORD_MS,
        .connections = size(l, "connections"),
        .memory = size(l, "memory"),
        .upstream_idle = size(l, "upstream-idle"),
        .upstream_idle_total = size(l, "upstream-idle-total"),
        .upstream_idle_ms = conf_number(l, "upstream-idle-time"),
        .token_cache = size(l, "token-cache"),
        .token_failures = size(l, "token-failures"),
        .leaf_cache = size(l, "leaf-cache"),
        .body_rate = size(l, "body-rate"),
        .source_connections = size(l, "source-connections"),
        .sandbox_connections = size(l, "sandbox-connections"),
        .exchanges = size(l, "exchanges"),
        .sandbox_exchanges = size(l, "sandbox-exchanges"),
        .dials = size(l, "dials"),
        .sandbox_dials = size(l, "sandbox-dials"),
        .lookups = size(l, "lookups"),
        .sandbox_lookups = size(l, "sandbox-lookups"),
        .handshakes = size(l, "handshakes"),
        .sandbox_handshakes = size(l, "sandbox-handshakes"),
        .handshake_rate = size(l, "handshake-rate"),
        .failed_handshakes = size(l, "failed-handshakes"),
        .records = size(l, "records"),
        .sandbox_records = size(l, "sandbox-records"),
        .sandbox_denials = size(l, "sandbox-denials"),
        .source_denials = size(l, "source-denials"),
        .sandbox_bytes = size(l, "sandbox-bytes"),
        .sandbox_urls = size(l, "sandbox-urls"),
        .sandbox_names = size(l, "sandbox-names"),
        .dns_questions = size(l, "dns-questions"),
        .dns_questions_total = size(l, "dns-questions-total"),
        .dns_names = size(l, "dns-names"),
        .dns_connections = size(l, "dns-connections"),
    };
}
