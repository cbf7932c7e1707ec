/* Owns listening sockets. Accepts nothing and knows no workers but their number. */
#include "proxy/listening.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/text.h"
#include "net/addr.h"
#include "proxy/inherit.h"

enum { BACKLOG = 4096 };

static void *must(void *p)
{
    if (!p)
        abort();
    return p;
}

static bool listen_fault(struct fault *why, const char *name, const char *address, int error)
{
    const char *help = "";

    if (error == EADDRINUSE)
        help = ": another program has it; stop that one or choose another address";
    else if (error == EACCES)
        help = ": ports under 1024 need root";
    else if (error == EADDRNOTAVAIL)
        help = ": no interface of this machine has that address";
    return fault_set(why, FAULT_IO, "listen.%s: %s: %s%s", name, address, strerror(error), help);
}

static int listen_tcp(const struct addr *a, bool shared)
{
    struct sockaddr_storage sa;
    socklen_t len = addr_to_sockaddr(a, &sa);
    int fd = socket(a->family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), one = 1;

    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (shared)
        setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one);
    if (a->family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one);
    if (bind(fd, (struct sockaddr *)&sa, len) < 0 || listen(fd, BACKLOG) < 0) {
        int error = errno;

        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

static void real_address(int fd, struct addr *a)
{
    struct sockaddr_storage sa = {0};
    socklen_t len = sizeof sa;

    if (getsockname(fd, (struct sockaddr *)&sa, &len) == 0)
        addr_from_sockaddr(a, (struct sockaddr *)&sa);
}

/* Is a socket of ours on that port? Then only the kernel can say whether ours is the only one. */
static bool is_ours(const struct listeners *now, const struct addr *a)
{
    struct addr other;

    for (size_t i = 0; now && i < now->n; i++)
        if (addr_parse(slice_of(now->list[i].address), &other) && other.port == a->port && other.family == a->family)
            return true;
    return false;
}

/* Another gateway on the same port would share it silently by SO_REUSEPORT: look first, without it. */
static bool is_taken(const struct listeners *now, const struct addr *a)
{
    int fd;

    if (a->port == 0 || is_ours(now, a))
        return false;
    fd = listen_tcp(a, false);
    if (fd < 0)
        return errno == EADDRINUSE;
    close(fd);
    return false;
}

static bool open_tcp(struct listening *l, struct addr a, size_t n, const struct listeners *now, struct fault *why)
{
    struct buf text = {0};

    l->fds = must(calloc(n, sizeof *l->fds));
    if (is_taken(now, &a))
        return listen_fault(why, l->name, l->address, EADDRINUSE);
    for (; l->n_fds < n; l->n_fds++) {
        int fd = listen_tcp(&a, true);

        if (fd < 0)
            return listen_fault(why, l->name, l->address, errno);
        l->fds[l->n_fds] = fd;
        real_address(fd, &a);
    }
    free(l->address);
    addr_text(&text, &a);
    l->address = buf_take_text(&text);
    return true;
}

/* A socket file left over from a crash is removed: the lock on the state says that no other gateway has it. */
static bool open_unix(struct listening *l, const char *path, struct fault *why)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    mode_t mask;
    int fd;

    if (strlen(path) >= sizeof sa.sun_path)
        return fault_set(why, FAULT_SYNTAX, "%s: longer than %zu bytes", path, sizeof sa.sun_path - 1);
    memcpy(sa.sun_path, path, strlen(path));
    unlink(path);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    mask = umask(0177);
    if (fd < 0 || bind(fd, (struct sockaddr *)&sa, sizeof sa) < 0 || listen(fd, BACKLOG) < 0) {
        listen_fault(why, l->name, path, errno);
        umask(mask);
        if (fd >= 0)
            close(fd);
        return false;
    }
    umask(mask);
    l->fds = must(calloc(1, sizeof *l->fds));
    l->fds[0] = fd;
    l->n_fds = 1;
    return true;
}

/* ---- one listener ---- */

static struct listening *add(struct listeners *to, const char *name, const char *address, bool is_publish)
{
    struct listening *l;

    to->list = must(realloc(to->list, (to->n + 1) * sizeof *to->list));
    l = &to->list[to->n++];
    *l = (struct listening){.name = text_copy(slice_of(name)), .written = text_copy(slice_of(address)),
                            .address = text_copy(slice_of(address)), .is_publish = is_publish};
    return l;
}

/* The listener of now that has this address; of several on a port the kernel chose, the one with the name. */
static const struct listening *find_same(const struct listeners *now, const struct listening *l)
{
    const struct listening *found = NULL;

    for (size_t i = 0; now && i < now->n; i++) {
        const struct listening *other = &now->list[i];

        if (strcmp(other->written, l->written) != 0 || other->is_publish != l->is_publish)
            continue;
        if (strcmp(other->name, l->name) == 0)
            return other;
        if (!slice_ends(slice_of(l->written), SLICE(":0")))
            found = other;
    }
    return found;
}

static void keep_sockets(struct listening *l, const struct listening *of)
{
    free(l->address);
    l->address = text_copy(slice_of(of->address));
    l->fds = of->fds;
    l->n_fds = of->n_fds;
    l->is_kept = true;
}

static bool take_inherited(struct listening *l)
{
    int fd = inherit_find(l->name, l->written);
    struct addr a = {0};
    struct buf text = {0};

    if (fd < 0)
        return false;
    l->fds = must(calloc(1, sizeof *l->fds));
    l->fds[0] = fd;
    l->n_fds = 1;
    real_address(fd, &a);
    if (a.family == AF_INET || a.family == AF_INET6) {
        addr_text(&text, &a);
        free(l->address);
        l->address = buf_take_text(&text);
    }
    return true;
}

struct opening {
    struct listeners *to;
    const struct listeners *now; /* NULL: the start */
    size_t n_workers;
};

static bool open_one(const struct opening *o, const char *name, const char *address, bool is_publish, struct fault *why)
{
    struct listening *l = add(o->to, name, address, is_publish);
    const struct listening *same = find_same(o->now, l);
    struct addr tcp;

    if (same) {
        keep_sockets(l, same);
        return true;
    }
    if (take_inherited(l))
        return true;
    if (slice_starts(slice_of(address), SLICE("unix:")))
        return open_unix(l, address + 5, why);
    if (!addr_parse(slice_of(address), &tcp))
        return fault_set(why, FAULT_SYNTAX, "%s: %s: expected an address such as 127.0.0.1:3128", name, address);
    return open_tcp(l, tcp, is_publish ? 1 : o->n_workers, o->now, why);
}

static bool open_all(const struct opening *o, const struct conf *c, struct fault *why)
{
    const char *publish = conf_text(conf_section(c, "publish"), "address");
    const char *admin = conf_text(conf_section(c, "admin"), "address");

    for (size_t i = 0; i < conf_count(c, "listen"); i++) {
        const struct conf_item *item = conf_item(c, "listen", i);

        if (!open_one(o, conf_name(item), conf_text(item, "address"), false, why))
            return false;
    }
    if (publish && publish[0] && !open_one(o, "publish", publish, true, why))
        return false;
    return !admin || !admin[0] || open_one(o, "admin", admin, true, why);
}

static void close_one(struct listening *l)
{
    for (size_t i = 0; i < l->n_fds && !l->is_kept; i++)
        close(l->fds[i]);
    if (!l->is_kept && l->n_fds && slice_starts(slice_of(l->address), SLICE("unix:")))
        unlink(l->address + 5);
    if (!l->is_kept)
        free(l->fds);
    free(l->name);
    free(l->written);
    free(l->address);
}

/* ---- all of them ---- */

bool listening_open(struct listeners *out, const struct conf *conf, size_t n_workers, struct fault *why)
{
    struct opening o = {out, NULL, n_workers};

    *out = (struct listeners){0};
    return inherit_begin(why) && open_all(&o, conf, why) && inherit_end(why);
}

void listening_close(struct listeners *l)
{
    for (size_t i = 0; i < l->n; i++)
        close_one(&l->list[i]);
    free(l->list);
    *l = (struct listeners){0};
}

bool listening_plan(struct listeners *plan, const struct listeners *now, const struct conf *conf, size_t n_workers,
                    struct fault *why)
{
    struct opening o = {plan, now, n_workers};

    *plan = (struct listeners){0};
    return open_all(&o, conf, why);
}

void listening_abandon(struct listeners *plan)
{
    listening_close(plan); /* what is kept is left alone */
}

void listening_adopt(struct listeners *now, struct listeners *plan, struct listeners *left)
{
    *left = *now;
    *now = *plan;
    *plan = (struct listeners){0};
    for (size_t i = 0; i < left->n; i++)
        for (size_t j = 0; j < now->n; j++)
            left->list[i].is_kept |= now->list[j].is_kept && now->list[j].fds == left->list[i].fds;
    for (size_t j = 0; j < now->n; j++)
        now->list[j].is_kept = false;
}

bool listening_is_news(const struct listeners *now, const struct listening *l)
{
    for (size_t i = 0; i < now->n; i++)
        if (now->list[i].fds == l->fds && strcmp(now->list[i].name, l->name) == 0)
            return false;
    return true;
}
