/*
 * An order about what is suspended (a sandbox in quarantine, a service closed by hand): to the running gateway by its admin socket,
 * or, when none runs, into the file that the next one reads. For commands only.
 */
#ifndef CMD_ORDER_H
#define CMD_ORDER_H

#include "authz/suspension.h"
#include "base/fault.h"

struct json_t;
struct conf;

/* What of the configuration is needed: who asks need not be able to read keys. */
struct order {
    struct conf *conf;
    const char *admin; /* NULL: no socket */
    char *ledger;
};

bool order_open(struct order *o, const char *config, struct fault *why);
void order_clear(struct order *o);

/*
 * {"command": command, "action": action, key: s->name, "why": s->why}, the last two only with s. The answer (give); NULL: nobody was
 * asked, when *absent is set, or why says what is off.
 */
struct json_t *order_give(const struct order *o, const char *command, const char *action, const char *key, const struct suspension *s,
                          bool *absent, struct fault *why);

#endif
