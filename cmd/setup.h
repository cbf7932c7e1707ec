/* The text of a first proxy.conf, for `exeat init`. Pure but for setup_servers. */
#ifndef CMD_SETUP_H
#define CMD_SETUP_H

#include "base/buf.h"
#include "base/fault.h"
#include "net/name.h"

struct setup_service {
    char name[64];
    char host[NAME_MAX_LEN + 3]; /* canonical, perhaps with "*." in front */
    uint16_t port;
    char preset[32]; /* "" for the simple rule: reading */
};

struct setup {
    char name[NAME_MAX_LEN + 1]; /* of the gateway, canonical */
    const char *listen;          /* "127.0.0.1:3128" */
    const char *publish;         /* NULL: off */
    const struct setup_service *services;
    size_t n_services;
};

/* "NAME=HOST[:PORT][,PRESET]"; why (FAULT_USAGE) says which part is off. */
bool setup_service_parse(const char *text, struct setup_service *out, struct fault *why);
/* The file. Every line is explained; what a person may want next stands there as a comment. */
void setup_write(const struct setup *s, struct buf *out);

#endif
