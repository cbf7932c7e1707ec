/*
 * The clients that sandboxes use, and what each reads: measured, one row a client and a variable (docs/clients.md). For `exeat env`,
 * which writes these variables, and `exeat doctor`, which looks at them.
 */
#ifndef CMD_CLIENT_H
#define CMD_CLIENT_H

#include <stdbool.h>

/* For option tables. */
#define CLIENT_NAMES \
    "curl|git|pip|npm|node|node20|node24|cargo|apt|go|wget|skopeo|docker|maven|gradle|java|python|aws"
#define CLIENT_LIST \
    "curl, git, pip, npm, node20, node24 (or node), cargo, apt, go, wget, skopeo, docker, maven, gradle, java, python, aws"

struct client {
    const char *name;
    unsigned bit;
    const char *proxy;   /* where it reads the proxy for https:// from, in this order, blanks between; "" for nowhere */
    const char *trust;   /* the same for the CAs it trusts */
    bool adds_trust;     /* what trust names adds to its own; else it stands for them */
    bool system_trust;   /* without them it trusts what the system does */
    bool carries_token;  /* a token in the proxy's address is sent */
    const char *note;    /* what no variable can do; NULL: nothing */
};

/* NULL: no such client. */
const struct client *client_find(const char *name);
/* Every client, ended by a row without a name. */
const struct client *client_all(void);

/* What a variable is set to. */
enum client_value {
    CLIENT_PROXY,     /* the proxy's address, http://[jwt:TOKEN@]HOST:PORT */
    CLIENT_BUNDLE,    /* PEM: the system's certificates and the root */
    CLIENT_ROOT,      /* PEM: the root */
    CLIENT_WGETRC,    /* a file that names the bundle as wget wants it */
    CLIENT_APT_CONF,  /* the same for apt */
    CLIENT_JAVA,      /* options of a virtual machine: proxy, and a trust store of the bundle's certificates */
    CLIENT_LITERAL,
    CLIENT_WITH_PROXY, /* a literal too, of those that are set beside a proxy alone */
};

struct client_variable {
    const char *name;
    unsigned clients; /* the bits of those that read it */
    enum client_value value;
    const char *text; /* of a literal */
};

/* In the order to write them, ended by a row without a name. */
const struct client_variable *client_variables(void);

#endif
