/* The worker's limits, with units, as the limits section of the configuration gives them. */
#ifndef PROXY_LIMITS_H
#define PROXY_LIMITS_H

#include <stddef.h>
#include <stdint.h>

#include "base/conf.h"

extern const struct conf_section limits_section;

struct limits {
    size_t head, target, credential; /* bytes */
    size_t fields;                   /* in a head */
    size_t body_collect;             /* bytes collected before a request's head goes out */
    int64_t header_ms, handshake_ms, idle_ms, body_ms, dial_ms, response_ms, linger_ms, overrun_ms;
    int64_t websocket_idle_ms, event_stream_idle_ms;
    size_t websocket_message;        /* bytes */
    int64_t record_ms; /* how long the scribe may take to acknowledge a decision; not configured */
    size_t connections; /* per worker */
    size_t upstream_idle, upstream_idle_total;
    size_t memory; /* of one worker, in bytes */
    int64_t upstream_idle_ms;
    size_t token_cache, leaf_cache;
    size_t token_failures; /* a minute, for each source */
    size_t body_rate; /* bytes a second */
    /* Of the gateway as a whole; proxy/quota.c holds them. Rates: a second, minute or hour as the key's help says. */
    size_t source_connections, sandbox_connections;
    size_t exchanges, sandbox_exchanges, dials, sandbox_dials, lookups, sandbox_lookups;
    size_t handshakes, sandbox_handshakes, handshake_rate, failed_handshakes;
    size_t records, sandbox_records, sandbox_denials, source_denials;
    size_t sandbox_bytes, sandbox_urls, sandbox_names;
    size_t dns_questions, dns_questions_total, dns_names, dns_connections; /* the usher holds these (proxy/patron.c) */
};

struct limits limits_read(const struct conf *c);
/* Every value is inside the bounds that the code behind it can keep; else false, and why has the place. */
bool limits_check(const struct conf *c, struct fault *why);

#endif
