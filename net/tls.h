/*
 * TLS contexts (OpenSSL 3): one for all clients we accept, one per trust store
 * towards services. TLS 1.2 and 1.3, ALPN http/1.1, verification always on.
 */
#ifndef NET_TLS_H
#define NET_TLS_H

#include <openssl/ssl.h>

#include "base/buf.h"
#include "base/fault.h"

/* ---- accepting ---- */

struct tls_server;

struct tls_server *tls_server_new(struct fault *why);
void tls_server_free(struct tls_server *t);
/*
 * A connection to be accepted for one canonical host: the ClientHello must name
 * it (RFC 6066 3), else the handshake ends with unrecognized_name and the fault's reason is
 * sni_mismatch. host is kept until the SSL is freed. Tickets are bound to host and binding (who asks), so
 * that none is good elsewhere: one goes out after each handshake. The caller puts certificate and key on it.
 */
SSL *tls_server_accept(struct tls_server *t, const char *host, struct slice binding, struct fault *why);
/*
 * A connection that may ask for any host: on is told the name in its ClientHello (RFC 6066 3; as sent, borrowed, empty: none)
 * from within the handshake, before anything else is looked at. It answers:
 *   TLS_GO      certificate and key are on ssl, and tls_bind() was called
 *   TLS_WAIT    not yet: the handshake stands still, and on is asked again after stream_go_on()
 *   TLS_REFUSE  it ends with unrecognized_name
 *   TLS_FAIL    it ends with internal_error
 * on must not touch the stream, nor free ssl.
 */
enum tls_verdict { TLS_GO, TLS_WAIT, TLS_REFUSE, TLS_FAIL };
typedef enum tls_verdict tls_on_name(void *arg, SSL *ssl, struct slice name);
SSL *tls_server_arrive(struct tls_server *t, tls_on_name *on, void *arg, struct fault *why);
/* Its tickets are good for this host and binding alone. */
bool tls_bind(SSL *ssl, const char *host, struct slice binding, struct fault *why);
/*
 * Before the handshake: no ticket goes out after it, which costs a tenth of what the handshake does. Who shows a ticket, good or
 * not, makes use of them and gets another all the same.
 */
void tls_spare_ticket(SSL *ssl);
/* After it: did the client show one? */
bool tls_was_shown_ticket(const SSL *ssl);
/* Does its handshake stand still, by TLS_WAIT? */
bool tls_stands_still(const SSL *ssl);

/* What all TLS here has in common: versions, ciphers, groups. For net/door.c. */
SSL_CTX *tls_context_new(const SSL_METHOD *method, struct fault *why);

/* ---- accepting as the proxy itself (listen.NAME.tls) ---- */

struct tls_door;

/*
 * chain and key are PEM. client_ca: PEM of the CAs that clients' certificates are from; empty: none is asked for. A client
 * without a good one ends with the handshake.
 */
struct tls_door *tls_door_new(struct slice chain, struct slice key, struct slice client_ca, struct fault *why);
void tls_door_free(struct tls_door *t);
SSL *tls_door_accept(struct tls_door *t, struct fault *why);
/* SHA-256 of the certificate (DER) that the peer showed and that was verified; false: none. */
bool tls_peer_digest(const SSL *ssl, unsigned char digest[32]);

/* ---- connecting ---- */

struct tls_client;

/* Trust exactly the certificates in pem (at least one). */
struct tls_client *tls_client_new(struct slice pem, struct fault *why);
/* One holder more, to be given back by tls_client_free(). Connections hold what they need themselves. */
struct tls_client *tls_client_ref(struct tls_client *t);
void tls_client_free(struct tls_client *t);
/*
 * A connection to host: SNI, name check (RFC 9525: no partial wildcards, no name in the subject alone), chain check. resume (borrowed, may be
 * NULL) is offered. on_session, when given, gets each new ticket's session and takes it.
 */
SSL *tls_client_connect(struct tls_client *t, const char *host, SSL_SESSION *resume,
                        void (*on_session)(void *arg, SSL_SESSION *session), void *arg, struct fault *why);

/* ---- for net/stream.c ---- */
/* Is the newest error of this thread's queue an end without close_notify? */
bool tls_error_is_cut(void);
/* Words and reason for a failed handshake or a broken connection, from the error queue (emptied). */
void tls_explain(SSL *ssl, struct fault *why);

/* Keep the buffers of an idle connection, or give them back whenever they are empty. */
void tls_keep_buffers(SSL *ssl, bool keep);
/* Free it (take; NULL is fine). say: close_notify goes out first. Else, with resumable: nothing goes out, and its session stays fit to be resumed. */
void tls_close(SSL *ssl, bool say, bool resumable);

#endif
