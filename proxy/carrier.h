/*
 * Where a client shows its leave token. On explicit listeners: Proxy-Authorization, Bearer, or Basic with the token as password.
 * On transparent ones, whose clients know of no proxy: Exeat-Token, the token alone; else Authorization, Bearer or Basic, which then
 * is not the service's. Where the listener has a token of its own, Authorization stays what the client means by it.
 */
#ifndef PROXY_CARRIER_H
#define PROXY_CARRIER_H

#include "proxy/exchange.h"

/*
 * The token's text, borrowed from the head or scratch; *present says whether there is such a field, and x->request knows which, so
 * that it goes no further. False and why when it is no credential.
 */
bool carrier_find(struct exchange *x, struct buf *scratch, struct slice *token, bool *present, struct fault *why);

/*
 * On transparent listeners: does the request show what proved the session's identity, letter for letter? Then it is that, if it is good still
 * (verifier_recheck), as in a tunnel.
 */
bool carrier_is_known(struct exchange *x);
/* It proved x->identity, by this token: the session's from now on, until another one is shown. */
void carrier_remember(struct exchange *x, struct slice token);

#endif
