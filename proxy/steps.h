/*
 * The handlers of the exchange machine, one per state, and what they share. Only exchange.c and the files of handlers
 * (decide.c, content.c, reach.c, relay.c ...) include this.
 */
#ifndef PROXY_STEPS_H
#define PROXY_STEPS_H

#include "proxy/exchange.h"

typedef enum exchange_state exchange_handler(struct exchange *x, struct event ev);

exchange_handler decide_on_authorize, decide_on_record;           /* decide.c */
exchange_handler reach_on_dial, reach_on_trust, reach_on_certify; /* reach.c */
exchange_handler content_on_collect;                              /* content.c */
exchange_handler relay_on_forward;                                /* relay.c */
exchange_handler websocket_on_socket;                             /* websocket.c */
exchange_handler vouch_on_grant;                                  /* vouch.c */

/*
 * A CONNECT to where a connection lies open, for a name whose leaf is at hand, needs nobody: its record goes with that of the
 * first request in the tunnel, which is forwarded when both are written.
 */
bool reach_needs_nobody(const struct exchange *x);
/* To wait for the record of such a CONNECT, which is granted meanwhile: without it the session is cut. */
struct record_wait *reach_opening(struct session *s);

/* Another leave token, of whomever, among the credentials that go to the service (stray.c); place is where. */
bool stray_token(const struct exchange *x, struct hit *hit, char *place, size_t room);

/* A canary in a response (or nothing, when there is none) accuses the service; the response goes on. */
void relay_note_hit(struct exchange *x, const struct hit *hit, const char *place);
/* May its method be sent once more when the first time failed (RFC 9110 9.2.2)? */
bool relay_is_idempotent(const struct exchange *x);
/* The gateway's own credential comes back: nothing further is told to the client, who must never have it. */
enum exchange_state relay_reflected(struct exchange *x, struct hit hit, const char *place);

/* What passed over a WebSocket: bytes and frames each way, the code of the close frame that came first. */
struct websocket_tally {
    uint64_t up_bytes, down_bytes, up_frames, down_frames;
    int code;
};

/* Of an exchange without one: nothing. */
struct websocket_tally websocket_tally(const struct exchange *x);
bool websocket_is_closing(const struct exchange *x);
/* x->reason is set: both sides are told, and the exchange ends. */
enum exchange_state websocket_refuse(struct exchange *x);
/* Of an exchange without one: nothing. */
void websocket_end(struct exchange *x);

/* Recorded and allowed: by an idle connection of its bucket, or by a new one; before that by way of GRANT where one is due. */
enum exchange_state decide_proceed(struct exchange *x);

/*
 * The request's content (content.c).
 *   begin: before any of it is taken.
 *   take: one event of it; the state after a refusal, or EXCHANGE_STAY. *more is false when the input gives nothing further for now.
 */
void content_begin(struct exchange *x);
enum exchange_state content_take(struct exchange *x, bool *more);
/* In FORWARD: what passes from now on is looked through for the canaries that there are now. */
enum exchange_state content_renew(struct exchange *x);

/*
 * The gateway's own credential (vouch.c), of services that have one (service_own_field).
 *   find: x->grant is one that is at hand, or NULL.     drop: it is needed no more, nor waited for.
 *   is_due: it must be had before anything goes out.    distrust: the service did not take it.
 *   write: the request's head, with the credential when there is one.
 */
void vouch_find(struct exchange *x);
void vouch_drop(struct exchange *x);
bool vouch_is_due(const struct exchange *x);
void vouch_distrust(struct exchange *x);
void vouch_write(const struct exchange *x, struct buf *out);

/*
 * Limits (admit.c). Each gives EXCHANGE_STAY, or the state after a refusal.
 *   sandbox: its connection, exchanges in flight, records; of a CONNECT handshakes too. As soon as the identity is known.
 *   request: what an allowed request asks for: names, URLs, bytes; a dial when no connection is idle.
 *   bytes: n more bytes of content go out.
 */
enum exchange_state admit_sandbox(struct exchange *x);
enum exchange_state admit_request(struct exchange *x);
enum exchange_state admit_bytes(struct exchange *x, size_t n);
/* The refusal in x->reason, before anything is recorded: RECORD, or REPLY when it is only counted. */
enum exchange_state admit_refusal(struct exchange *x);
/* x is about to be recorded. */
void admit_records(struct exchange *x);
/* x is at the DIAL state, or leaves it. */
void admit_dial(struct exchange *x, bool begins);
/* x ends: what it held is given back. */
void admit_release(struct exchange *x);
/* Does the source show junk for tokens? Then only those that are remembered are looked at. */
bool admit_tokens(struct exchange *x);
void admit_junk(struct exchange *x, enum reason why);

/*
 * Handoff edges (lookout.c): where answers send the client on to.
 *   head: of a response, before any of it goes out, and how its content is framed. EXCHANGE_STAY, or the state after a refusal.
 *   content: x->down has been started, and is looked through if there is need to.
 *   refusal: x->down is barred, or a head was not to pass.
 * Where it may come to a refusal, the head and the first 64 KiB wait for each other, at most a second and a bit: whoever is refused
 * then can be told why.
 *   hold: what stands in out from offset from on is that head.   pass, tick: what waits goes out, if it is enough or waits long enough; show: in any case.
 *   take_back: it never goes out.
 */
enum exchange_state lookout_head(struct exchange *x, const struct head *h, enum framing framing);
/* Of the end of an answer of head h. False: it must not pass (lookout_refusal). */
bool lookout_trailers(struct exchange *x, const struct head *h, const struct field *trailers, size_t n);
void lookout_content(struct exchange *x);
void lookout_hold(struct exchange *x, struct buf *out, size_t from);
void lookout_pass(struct exchange *x);
void lookout_tick(struct exchange *x, int64_t now_ms);
void lookout_show(struct exchange *x);
void lookout_take_back(struct exchange *x);
enum exchange_state lookout_refusal(struct exchange *x) __attribute__((cold));
void lookout_free(struct lookout *w);

/*
 * Another policy is in force (decide.c): what it allows goes on under it, by a new connection where the service is
 * another one now and nothing was sent; what it does not allow is refused, or cut, with policy_changed.
 */
enum exchange_state decide_again(struct exchange *x);

/*
 * Refuse or fail: note why (once), and go to RECORD when the decision has not been recorded, to REPLY when the client
 * can still be answered, else cut. text may be NULL.
 */
enum exchange_state exchange_refuse(struct exchange *x, enum reason reason, const char *text) __attribute__((cold));
/* A canary or the token was found at place: record the finding and refuse. */
enum exchange_state exchange_leak(struct exchange *x, const struct hit *hit, const char *place) __attribute__((cold));
/* Over, with this outcome for the result record. */
enum exchange_state exchange_end(struct exchange *x, enum exchange_end how, const char *outcome);

/* The leave token of this exchange, borrowed; empty when there is none. */
struct slice exchange_token(const struct exchange *x);
bool exchange_is_connect(const struct exchange *x);
/* The stream events of x->upstream, translated. */
void exchange_on_upstream(void *arg, enum stream_event event);
/*
 * The tunnel's token is about to end: the client is told to come again, in a tunnel that a fresh one opens, before its next
 * request is late. For the last tenth of a token's life, at most half a minute; for an answer that is still on its way when
 * its head goes out (coming), for the last minute. There is no telling it later: clients put their next request on a
 * connection in the moment an answer ends (Node's agent does, before it looks whether the connection ended too).
 */
bool exchange_is_last_of_tunnel(const struct exchange *x, bool coming);
/* The next request in this tunnel would be refused, and none has come yet: so that the client asks again where it is not. */
bool exchange_is_tunnel_over(const struct exchange *x);
/* Is the token over, and what it may be overrun by? */
bool exchange_is_over(const struct exchange *x);
/* Something moved: the deadline of this state starts anew. */
void exchange_progress(struct exchange *x);
/* Close the connection to the service and forget it. */
void exchange_drop_upstream(struct exchange *x, bool clean);

/* Whose the token of the session's bound listener is (a reference); NULL and why. */
struct identity *decide_bound(const struct session *s, struct fault *why);

#endif
