/* The TLS of a listener itself (listen.NAME.tls): what comes before a session's first request. */
#ifndef PROXY_GREETING_H
#define PROXY_GREETING_H

#include "proxy/session.h"

/* False: this listener has none. Otherwise UP or FAIL of the client's stream follows. */
bool greeting_begin(struct session *s);
/* It is up: which certificate the client showed, for tokens that are bound to one. */
void greeting_note(struct session *s);

#endif
