/*
 * The rules that the kernel has, by libnftables, in the network namespace of who asks. A change is one transaction: all of it is in
 * force, or nothing is.
 */
#ifndef FIREWALL_KERNEL_H
#define FIREWALL_KERNEL_H

#include "base/buf.h"
#include "base/fault.h"

/* Carry out text. False and why: which line of it the kernel or nft does not take, and what to do. */
bool kernel_run(struct slice text, struct fault *why);

/*
 * What libnftables said of a text that it did not carry out, in our words: which line it was, and the module of the kernel that line
 * takes. Always false. Pure.
 */
bool kernel_refused(struct slice said, struct slice text, struct fault *why);

/* Append all tables of that name as nft writes them, without counters; nothing when there are none. */
bool kernel_list(const char *table, struct buf *out, struct fault *why);
/* Append everything that is there. */
bool kernel_list_all(struct buf *out, struct fault *why);

/*
 * What kernel_list would give after kernel_run(text) on a fresh machine that has an interface of this name: done in a network
 * namespace of its own, which is gone again when this returns.
 */
bool kernel_rehearse(struct slice text, const char *table, const char *interface, struct buf *out, struct fault *why);

#endif
