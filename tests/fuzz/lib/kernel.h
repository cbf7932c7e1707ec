/*
 * The kernel as a fuzzer wants it, in place of some of libc's calls: a clock that moves when it is told, connections that
 * come when they are told, and sockets that break as TCP's do. Sockets are pairs of unix sockets: the near end is the
 * gateway's, the far end the test's.
 */
#ifndef TESTS_KERNEL_H
#define TESTS_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Between begin and end the clock stands still but for kernel_advance; it goes on where it stood. Outside it is the real
 * one. What takes 20 seconds of processor time in between is aborted, for libFuzzer cannot tell.
 */
void kernel_begin(void);
void kernel_end(void);
void kernel_advance(int64_t ms);

/* What accept4() is called on, bound to 10.0.0.1:port: readable while connections wait. At most two. */
int kernel_listener(uint16_t port);

/* How a connection comes to one (net/steer.h), and what it meant. */
struct kernel_way {
    bool is_redirected, is_tproxy; /* neither: it meant the listener */
    uint32_t address;              /* in the order of this machine */
    uint16_t port;
};

/* A connection to the listener of that port waits from now on, as from 10.0.0.source; the far end, non-blocking (given). */
int kernel_connect(uint16_t to, uint8_t source, const struct kernel_way *way);
/* A connected pair; the near end is given too. */
int kernel_pair(int *near);
/* Close the far end so that the near one hears a reset, whatever was sent before. */
void kernel_reset(int far);
/* Was the near end closed with a reset? Then the end that the far one reads is none. */
bool kernel_was_reset(int far);
/* How many near ends are open. */
size_t kernel_open_ends(void);

#endif
