/*
 * The admin socket: one line of JSON in, one line of JSON out (docs/admin.md). Only root and the user that started
 * the gateway are answered (SO_PEERCRED); everybody else learns just that. It knows no commands.
 */
#ifndef PROXY_CONSOLE_H
#define PROXY_CONSOLE_H

#include <sys/types.h>

#include "base/slice.h"
#include "net/loop.h"

struct console;

#define CONSOLE_LINE_MAX (16 * 1024) /* bytes of a line */
#define CONSOLE_WAIT_MS 5000            /* for the line, and again for its answer */

/*
 * Somebody who may ask, of this user, has sent this line (borrowed, without its newline). Answer with console_answer()
 * and this ticket, from inside the call or later.
 */
typedef void console_ask(void *arg, uint64_t ticket, uid_t uid, struct slice line);

/* Takes fd, a listening unix socket; whoever called listen() on it is the owner. */
struct console *console_new(struct loop *l, int fd, console_ask *ask, void *arg);
void console_free(struct console *a);
/* Borrows line (without newline). A ticket whose visitor is gone is fine. */
void console_answer(struct console *a, uint64_t ticket, struct slice line);

/* The answer to this ticket may take so long. */
void console_wait(struct console *a, uint64_t ticket, int64_t ms);

/* May a process of this user ask, when the gateway is owner's? Pure. */
bool console_may_ask(uid_t asker, uid_t owner);

#endif
