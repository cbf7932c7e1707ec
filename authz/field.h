/* Request fields that mean authority: by name, case folded, "_" and "-" the same (as CGI makes them). Pure. */
#ifndef AUTHZ_FIELD_H
#define AUTHZ_FIELD_H

#include "base/slice.h"

/* Carries a credential: Authorization, Cookie, X-Api-Key, Private-Token, ... Proxy-Authorization is the gateway's own. */
bool field_is_credential(struct slice name);
/*
 * Claims something that only a gateway may say, or changes what the request is: X-Forwarded-*, X-Real-IP,
 * X-Original-URL, X-HTTP-Method-Override, Remote-User, ...
 */
bool field_is_ambient(struct slice name);
/* Belongs to one connection, or to us and the client (RFC 9110 7.6.1, 11.7): never forwarded, whatever is configured. */
bool field_is_hop(struct slice name);
/* A token (RFC 9110 5.6.2), as every field name is. */
bool field_is_name(struct slice name);

#endif
