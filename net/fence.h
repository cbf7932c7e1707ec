/*
 * A fence: which files a process may still reach by their names (Landlock). It holds for good, for this thread and every
 * child; it takes nothing away from descriptors that are open. Needs no root, only no_new_privs.
 */
#ifndef NET_FENCE_H
#define NET_FENCE_H

#include "base/fault.h"

/*
 * From here on files are reached only beneath the directory (borrowed; -1: none), and there only to read, write, make, rename
 * and remove them. Kernels that know how also refuse to bind by TCP, to connect by TCP unless dials says so, and signals and
 * abstract sockets of others. *stands tells whether the kernel has Landlock; false and why only when it has, and refuses.
 */
bool fence_close(int beneath, bool dials, bool *stands, struct fault *why);

#endif
