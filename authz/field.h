/* Request fields that mean authority: by name, case folded, "_" and "-" the same (as CGI makes them). Pure. */
#ifndef AUTHZ_FIELD_H
#define AUTHZ_FIELD_H

#include "base/slice.h"

enum {
    /* Carries a credential: Authorization, Cookie, X-Api-Key, Private-Token, ... Not Proxy-Authorization, our own. */
    FIELD_CREDENTIAL = 1,
    /*
     * Claims something that only a gateway may say, or changes what the request is: X-Forwarded-*, X-Real-IP,
     * X-Original-URL, X-HTTP-Method-Override, Remote-User, Via (we write our own), Impersonate-User, ...
     */
    FIELD_AMBIENT = 2,
    /* Belongs to one connection, or to the client and us (RFC 9110 7.6.1, 11.7): never forwarded. */
    FIELD_HOP = 4,
};

/* Which of these a name has; 0: none. */
unsigned field_meaning(struct slice name);
/* One field to a service that reads names as CGI does: without case, "_" and "-" the same. */
bool field_is_same(struct slice a, struct slice b);
/* A token (RFC 9110 5.6.2), as every field name is. */
bool field_is_name(struct slice name);

#endif
