/*
 * The opening handshake of a WebSocket (RFC 6455 4), request and answer. Pure; keeps nothing.
 */
#ifndef NET_UPGRADE_H
#define NET_UPGRADE_H

#include "net/head.h"

/* Does the request ask for WebSocket: Connection: upgrade with it in Upgrade? */
bool upgrade_is_asked(const struct head *request);
/* Does it name WebSocket in Upgrade, whether or not Connection says so too? */
bool upgrade_is_meant(const struct head *request);
/*
 * RFC 6455 4.2.1: a GET of HTTP/1.1 without content, Upgrade: websocket and nothing else, Connection: upgrade, one Sec-WebSocket-Key
 * of 16 bytes in base64, Sec-WebSocket-Version 13, subprotocols that are tokens, each once. why->reason: websocket_handshake.
 */
bool upgrade_check_request(const struct head *request, struct fault *why);
/*
 * RFC 6455 4.1, of a 101 to that request: Upgrade: websocket, Connection: upgrade, the one Sec-WebSocket-Accept that belongs to the
 * key, no extension (none is offered on), at most one subprotocol, of those offered. why->reason: upstream_websocket.
 */
bool upgrade_check_answer(const struct head *request, const struct head *answer, struct fault *why);
/* The Sec-WebSocket-Accept of a key. */
void upgrade_accept(struct slice key, struct buf *out);

/* A field that is not forwarded with a handshake: Sec-WebSocket-Extensions. What is compressed cannot be looked into. */
bool upgrade_is_dropped(struct slice name);
/* A field without which the service cannot answer a handshake: Sec-WebSocket-Key, -Version, -Protocol. */
bool upgrade_is_needed(struct slice name);

#endif
