/* Knows addresses of listeners and how their sockets are made. Accepts nothing. */
#include "net/place.h"

#include <errno.h>
#include <grp.h>
#include <linux/vm_sockets.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 4096, GUEST_MIN = 3, NAME_ROOM = 64 };

static bool parse_unix(const char *path, struct place *out, struct fault *why)
{
    if (path[0] != '/')
        return fault_set(why, FAULT_SYNTAX, "expected unix: and an absolute path, found \"unix:%s\"", path);
    if (strlen(path) > PLACE_PATH_MAX)
        return fault_set(why, FAULT_SYNTAX, "socket names end at %d bytes, this has %zu", PLACE_PATH_MAX, strlen(path));
    out->kind = PLACE_UNIX;
    out->path = path;
    return true;
}

/* CIDs 0 to 2 are the hypervisor's, this machine's and the host's: no guest. */
static bool parse_vsock(struct slice text, struct place *out, struct fault *why)
{
    struct slice cid;
    uint64_t guest, port;

    if (!slice_next(&text, ':', &cid) || !slice_decimal(cid, UINT32_MAX - 1, &guest) || guest < GUEST_MIN ||
        !slice_decimal(text, UINT32_MAX - 1, &port) || port == 0)
        return fault_set(why, FAULT_SYNTAX, "expected vsock:CID:PORT, the guest's CID (3 or more) and a port");
    *out = (struct place){.kind = PLACE_VSOCK, .cid = (uint32_t)guest, .port = (uint32_t)port};
    return true;
}

bool place_parse(const char *text, struct place *out, struct fault *why)
{
    *out = (struct place){.kind = PLACE_TCP};
    if (strncmp(text, "unix:", 5) == 0)
        return parse_unix(text + 5, out, why);
    if (strncmp(text, "vsock:", 6) == 0)
        return parse_vsock(slice_of(text + 6), out, why);
    return addr_parse(slice_of(text), &out->addr) ||
           fault_set(why, FAULT_SYNTAX, "expected an address such as 127.0.0.1:3128, unix:/run/x.sock or vsock:3:3128, found "
                     "\"%s\"", text);
}

bool place_collides(const struct place *a, const struct place *b)
{
    if (a->kind != b->kind)
        return false;
    if (a->kind == PLACE_UNIX)
        return strcmp(a->path, b->path) == 0;
    if (a->kind == PLACE_VSOCK)
        return a->port == b->port;
    return a->addr.family == b->addr.family && a->addr.port == b->addr.port && a->addr.port != 0 &&
           (addr_ip_equals(&a->addr, &b->addr) || addr_is_unspecified(&a->addr) || addr_is_unspecified(&b->addr));
}

/* ---- who may connect ---- */

static bool find_user(const char *name, uid_t *uid)
{
    const struct passwd *user;
    uint64_t number;

    if (slice_decimal(slice_of(name), UINT32_MAX - 1, &number)) {
        *uid = (uid_t)number;
        return true;
    }
    if (!(user = getpwnam(name)))
        return false;
    *uid = user->pw_uid;
    return true;
}

static bool find_group(const char *name, gid_t *gid)
{
    const struct group *group;
    uint64_t number;

    if (slice_decimal(slice_of(name), UINT32_MAX - 1, &number)) {
        *gid = (gid_t)number;
        return true;
    }
    if (!(group = getgrnam(name)))
        return false;
    *gid = group->gr_gid;
    return true;
}

bool place_owner_find(const char *text, struct place_owner *out, struct fault *why)
{
    const char *colon = text ? strchr(text, ':') : NULL;
    char user[NAME_ROOM];

    *out = (struct place_owner){(uid_t)-1, (gid_t)-1};
    if (!text || !*text)
        return true;
    snprintf(user, sizeof user, "%.*s", (int)(colon ? colon - text : (ptrdiff_t)strlen(text)), text);
    if (*user && !find_user(user, &out->uid))
        return fault_set(why, FAULT_SYNTAX, "there is no user \"%s\"", user);
    if (colon && !find_group(colon + 1, &out->gid))
        return fault_set(why, FAULT_SYNTAX, "there is no group \"%.40s\"; expected USER, USER:GROUP or :GROUP", colon + 1);
    return true;
}

/* ---- sockets ---- */

static int close_with(int fd, int error)
{
    if (fd >= 0)
        close(fd);
    errno = error;
    return -1;
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
    if (bind(fd, (struct sockaddr *)&sa, len) < 0 || listen(fd, BACKLOG) < 0)
        return close_with(fd, errno);
    return fd;
}

/* What is in the way: a socket that nobody has any more goes (the lock on the state says that we are alone), and no other file. */
static bool clear_way(const char *path)
{
    struct stat st;

    if (lstat(path, &st) < 0)
        return errno == ENOENT;
    if (!S_ISSOCK(st.st_mode)) {
        errno = EEXIST;
        return false;
    }
    return unlink(path) == 0;
}

bool place_give(const char *path, const struct place_owner *owner)
{
    bool grouped = owner->gid != (gid_t)-1;

    if ((owner->uid != (uid_t)-1 || grouped) && lchown(path, owner->uid, owner->gid) < 0)
        return false;
    return chmod(path, grouped ? 0660 : 0600) == 0;
}

static int listen_unix(const char *path, const struct place_owner *owner)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    mode_t mask;
    bool bound;
    int fd;

    memcpy(sa.sun_path, path, strlen(path));
    if (!clear_way(path))
        return -1;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    mask = umask(0177);
    bound = bind(fd, (struct sockaddr *)&sa, sizeof sa) == 0;
    umask(mask);
    if (!bound)
        return close_with(fd, errno);
    if (!place_give(path, owner) || listen(fd, BACKLOG) < 0) {
        int error = errno;

        unlink(path);
        return close_with(fd, error);
    }
    return fd;
}

static int listen_vsock(uint32_t port)
{
    struct sockaddr_vm sa = {.svm_family = AF_VSOCK, .svm_cid = VMADDR_CID_ANY, .svm_port = port};
    int fd = socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd >= 0 && (bind(fd, (struct sockaddr *)&sa, sizeof sa) < 0 || listen(fd, BACKLOG) < 0))
        return close_with(fd, errno);
    return fd;
}

int place_listen(const struct place *p, bool shared, const struct place_owner *owner)
{
    switch (p->kind) {
    case PLACE_UNIX:
        return listen_unix(p->path, owner);
    case PLACE_VSOCK:
        return listen_vsock(p->port);
    default:
        return listen_tcp(&p->addr, shared);
    }
}
