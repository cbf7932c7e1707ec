/* Owns the table of what root's supervisor needs. */
#include "proxy/powers.h"

#include <linux/capability.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "proxy/cell.h"

static const struct power {
    unsigned number;
    const char *name;
    bool opens; /* only until the listening sockets are open */
} kept[] = {
    {CAP_CHOWN, "chown", false},                   /* the journal is the scribe's */
    {CAP_DAC_OVERRIDE, "dac_override", false},     /* and read again at a restart; keys belong to whoever made them */
    {CAP_FOWNER, "fowner", false},
    {CAP_KILL, "kill", false},                     /* roles have users of their own */
    {CAP_SETGID, "setgid", false},
    {CAP_SETUID, "setuid", false},
    {CAP_NET_BIND_SERVICE, "net_bind_service", false}, /* a listener on port 443 */
    {CAP_SYS_ADMIN, "sys_admin", false},           /* network namespaces of the roles */
    {CAP_SETPCAP, "setpcap", true},                /* to shed the rest, last of all */
    {CAP_NET_RAW, "net_raw", true},                /* IP_TRANSPARENT, for what TPROXY brings */
};

enum { N_KEPT = sizeof kept / sizeof *kept, WORDS = 2, BITS = 32 };

static bool is_kept(unsigned number, bool opened)
{
    for (size_t i = 0; i < N_KEPT; i++)
        if (kept[i].number == number)
            return !opened || !kept[i].opens;
    return false;
}

static bool get(struct __user_cap_data_struct *powers)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};

    return syscall(SYS_capget, &head, powers) == 0;
}

static bool set(const struct __user_cap_data_struct *powers)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};

    return syscall(SYS_capset, &head, powers) == 0;
}

/* The bounding set first: dropping from it is a power too. */
static void shed_root(bool opened)
{
    struct __user_cap_data_struct powers[WORDS];
    uint32_t mask[WORDS] = {0};

    for (unsigned n = 0; prctl(PR_CAPBSET_READ, n, 0, 0, 0) >= 0; n++)
        if (!is_kept(n, opened))
            prctl(PR_CAPBSET_DROP, n, 0, 0, 0);
    for (size_t i = 0; i < N_KEPT; i++)
        if (is_kept(kept[i].number, opened))
            mask[kept[i].number / BITS] |= 1U << kept[i].number % BITS;
    if (!get(powers))
        return;
    for (size_t i = 0; i < WORDS; i++) {
        powers[i].permitted &= mask[i];
        powers[i].effective = powers[i].permitted;
        powers[i].inheritable = 0;
    }
    set(powers);
}

void powers_shed(void)
{
    static const struct rlimit none = {0, 0};

    shed_root(false);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    setrlimit(RLIMIT_CORE, &none);
    if (!cell_is_relaxed())
        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

void powers_shed_openers(void)
{
    shed_root(true);
}

const char *powers_next(size_t *at)
{
    struct __user_cap_data_struct powers[WORDS];

    if (!get(powers))
        return NULL;
    while (*at < N_KEPT) {
        const struct power *p = &kept[(*at)++];

        if (powers[p->number / BITS].effective >> p->number % BITS & 1)
            return p->name;
    }
    return NULL;
}
