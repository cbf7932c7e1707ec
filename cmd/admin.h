/*
 * Asking the running gateway: one JSON object in one line to its admin socket, one line of answer,
 * {"ok": true, ...} or {"ok": false, "error": "..."}. Blocking; for commands only.
 */
#ifndef CMD_ADMIN_H
#define CMD_ADMIN_H

#include "base/buf.h"
#include "base/fault.h"

struct json_t;

#define ADMIN_ANSWER_MAX (1 << 20)

/*
 * Send request (one line, without its newline) to address ("unix:/run/exeat/admin.sock") and append the
 * answer, without its newline, to answer. Waits five seconds at most.
 * why->kind: FAULT_MISSING when no gateway listens there, FAULT_PERMISSION when we may not
 * ask, FAULT_TIMEOUT, FAULT_IO; FAULT_USAGE for an address that is not unix:.
 */
bool admin_ask(const char *address, struct slice request, struct buf *answer, struct fault *why);

/*
 * The same, with the answer read: the object (give: json_decref()) when it says "ok": true; otherwise
 * NULL with the gateway's error (FAULT_REFUSED), or FAULT_SYNTAX when the answer is no such object.
 */
struct json_t *admin_call(const char *address, struct slice request, struct fault *why);

/* As admin_ask, for what takes longer than five seconds. */
bool admin_ask_within(const char *address, struct slice request, int64_t wait_ms, struct buf *answer,
                      struct fault *why);

/* A connected stream socket to "unix:PATH", for a client that speaks something else there; -1 and why. */
int admin_connect(const char *address, struct fault *why);

#endif
