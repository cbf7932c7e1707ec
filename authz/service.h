/*
 * A service as policy sees it: everything its part of the configuration says, checked and canonical. The getters that
 * other rooms use are in authz/policy.h. Internal to authz.
 */
#ifndef AUTHZ_SERVICE_H
#define AUTHZ_SERVICE_H

#include "authz/destination.h"
#include "authz/policy.h"
#include "authz/ruleset.h"

enum { SERVICE_PORTS_MAX = 64 };

enum service_credentials { CREDENTIALS_REFUSE, CREDENTIALS_STRIP, CREDENTIALS_ALLOW };

struct ports {
    uint16_t list[SERVICE_PORTS_MAX];
    size_t count;
};

struct texts {
    char **list;
    size_t count;
};

struct service {
    char *name;
    size_t index;
    uint64_t mark;
    const struct preset *preset; /* NULL: none */
    struct texts hosts;          /* canonical */
    struct ports tls, plain;
    struct texts addresses;
    bool allow_private;
    char *ca_file;
    char *scope;
    struct ruleset rules;
    enum service_credentials credentials;
    char *own_field; /* that the gateway puts in itself; NULL: none */
    bool strips_ranges; /* whole answers only */
    bool asserts_once;
    struct slice *fields; /* that are forwarded; none: all that may be */
    size_t n_fields;
    uint64_t body, target;
    char *audit;
    int64_t audit_max_age_ms;
    struct acceptances accepts;
    struct attested attested;
    const struct revocations *revocations; /* NULL: nothing is shut */
    struct identity_mark closed;           /* of its name, in those */
    unsigned char digest[SERVICE_DIGEST_SIZE];
    bool observe, unscannable, websocket;
    bool enforces_edges;
    struct destination *destinations; /* that answers may send on to */
    size_t n_destinations;
};

/* Compile one item; NULL and why with its place when anything in it is refused. */
struct service *service_compile(const struct conf_item *item, size_t index, struct fault *why);
void service_free(struct service *s);
/* When all the rest is read: mark and digest. */
void service_make_marks(struct service *s, const struct conf_item *item);
bool ports_hold(const struct ports *p, uint16_t port);
/* Takes text. */
void texts_add(struct texts *t, char *text);
void texts_free(struct texts *t);

#endif
