/* Owns the talk with Landlock. Debian's headers are those of 6.1: what later kernels know is spelled out here. */
#include "net/fence.h"

#include <errno.h>
#include <linux/landlock.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* By the version of Landlock that brought them (Documentation/userspace-api/landlock.rst). */
enum {
    ACCESS_OF_1 = (1 << 13) - 1, /* execute to make_sym */
    ACCESS_REFER = 1 << 13,      /* 2 */
    ACCESS_TRUNCATE = 1 << 14,   /* 3 */
    ACCESS_IOCTL = 1 << 15,      /* 5 */
    NET_BIND = 1 << 0,           /* 4 */
    NET_CONNECT = 1 << 1,
    SCOPE_ABSTRACT = 1 << 0,     /* 6 */
    SCOPE_SIGNAL = 1 << 1,
};

/* struct landlock_ruleset_attr as of version 6; the kernel takes the length for the version. */
struct ruleset {
    uint64_t files, net, scoped;
};

static struct ruleset ruleset_for(long version, bool dials, size_t *len)
{
    struct ruleset r = {.files = ACCESS_OF_1};

    *len = sizeof r.files;
    if (version >= 2)
        r.files |= ACCESS_REFER;
    if (version >= 3)
        r.files |= ACCESS_TRUNCATE;
    if (version >= 4) {
        r.net = dials ? NET_BIND : NET_BIND | NET_CONNECT;
        *len = sizeof r.files + sizeof r.net;
    }
    if (version >= 5)
        r.files |= ACCESS_IOCTL;
    if (version >= 6) {
        r.scoped = SCOPE_ABSTRACT | SCOPE_SIGNAL;
        *len = sizeof r;
    }
    return r;
}

static bool allow_beneath(int rules, int directory, uint64_t handled)
{
    struct landlock_path_beneath_attr beneath = {
        .allowed_access = handled & (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE |
                                     LANDLOCK_ACCESS_FS_READ_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE |
                                     LANDLOCK_ACCESS_FS_MAKE_REG | ACCESS_TRUNCATE),
        .parent_fd = directory,
    };

    return syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &beneath, 0) == 0;
}

bool fence_close(int beneath, bool dials, bool *stands, struct fault *why)
{
    long version = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    struct ruleset wanted;
    size_t len;
    int rules;
    bool ok;

    *stands = version > 0;
    if (!*stands)
        return true;
    wanted = ruleset_for(version, dials, &len);
    rules = (int)syscall(SYS_landlock_create_ruleset, &wanted, len, 0);
    ok = rules >= 0 && (beneath < 0 || allow_beneath(rules, beneath, wanted.files)) &&
         syscall(SYS_landlock_restrict_self, rules, 0) == 0;
    if (!ok)
        fault_set(why, FAULT_IO, "Landlock: %s", strerror(errno));
    if (rules >= 0)
        close(rules);
    return ok;
}
