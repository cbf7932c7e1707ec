/*
 * Questions to another role, each with one answer: to the porter (dial) and to
 * the keeper (certify). A message starts with a u32 id that the answer repeats.
 */
#ifndef PROXY_ASKS_H
#define PROXY_ASKS_H

#include "base/pack.h"
#include "net/ipc.h"

struct asks;
struct ask; /* one that waits; NULL once answered or cancelled */

/*
 * The answer: its type, the rest of its payload, and a descriptor (given, or -1). type 0: the role is gone and will not answer.
 * From the loop, never from inside ask_start.
 */
typedef void ask_answer(void *arg, uint16_t type, struct unpack *payload, int fd);

struct asks *asks_new(struct loop *l, size_t most);
void asks_free(struct asks *a);
/* Takes fd: a channel to the role, the first or a new one after a restart. */
void asks_attach(struct asks *a, int fd);
/* Send something that has no answer. */
bool asks_tell(struct asks *a, uint16_t type, struct slice payload);

/* body follows the id. NULL when the role is not there or too many wait. */
struct ask *ask_start(struct asks *a, uint16_t type, struct slice body, ask_answer *on, void *arg);
/* The answer is not wanted any more; when cancel_type is not 0 the role is told. NULL is fine. */
void ask_cancel(struct ask *k, uint16_t cancel_type);

#endif
