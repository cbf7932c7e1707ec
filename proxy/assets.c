/* Owns every listening socket and the descriptors of state. Starts nothing. */
#include "proxy/assets.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/file.h"
#include "base/secret.h"
#include "base/text.h"
#include "proxy/counters.h"
#include "proxy/tally.h"

enum { BACKLOG = 1024, PINS = 32768 /* unbound tokens alive at once; 1.5 MiB */ };

static void *must(void *p)
{
    if (!p)
        abort();
    return p;
}

/* ---- listening sockets ---- */

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

/* Another gateway on the same port would share it silently by SO_REUSEPORT: look first, without it. */
static bool is_taken(const struct addr *a)
{
    int fd;

    if (a->port == 0)
        return false;
    fd = listen_tcp(a, false);
    if (fd < 0)
        return errno == EADDRINUSE;
    close(fd);
    return false;
}

static bool open_tcp(struct listening *l, struct addr a, size_t n, struct fault *why)
{
    struct buf text = {0};

    l->fds = must(calloc(n, sizeof *l->fds));
    if (is_taken(&a))
        return listen_fault(why, l->name, l->address, EADDRINUSE);
    for (; l->n_fds < n; l->n_fds++) {
        int fd = listen_tcp(&a, n > 1);

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

static struct listening *add_listening(struct assets *a, const char *name, const char *address, bool is_publish)
{
    struct listening *l;

    a->listening = must(realloc(a->listening, (a->n_listening + 1) * sizeof *a->listening));
    l = &a->listening[a->n_listening++];
    *l = (struct listening){.name = text_copy(slice_of(name)), .address = text_copy(slice_of(address)),
                            .is_publish = is_publish};
    return l;
}

static bool open_one(struct assets *a, const char *name, const char *address, bool is_publish, struct fault *why)
{
    struct listening *l = add_listening(a, name, address, is_publish);
    struct addr tcp;

    if (slice_starts(slice_of(address), SLICE("unix:")))
        return open_unix(l, address + 5, why);
    if (!addr_parse(slice_of(address), &tcp))
        return fault_set(why, FAULT_SYNTAX, "%s: %s: expected an address such as 127.0.0.1:3128", name, address);
    return open_tcp(l, tcp, is_publish ? 1 : (size_t)a->n_workers, why);
}

static bool open_listening(struct assets *a, struct fault *why)
{
    const struct conf *c = a->config->conf;
    const char *publish = conf_text(conf_section(c, "publish"), "address");
    const char *admin = conf_text(conf_section(c, "admin"), "address");

    for (size_t i = 0; i < conf_count(c, "listen"); i++) {
        const struct conf_item *item = conf_item(c, "listen", i);

        if (!open_one(a, conf_name(item), conf_text(item, "address"), false, why))
            return false;
    }
    if (publish && publish[0] && !open_one(a, "publish", publish, true, why))
        return false;
    return !admin || !admin[0] || open_one(a, "admin", admin, true, why);
}

/* ---- state ---- */

/* One gateway per state directory. The descriptor stays open, and the lock with it, until the process ends. */
static bool lock_state(const char *state, struct fault *why)
{
    char *path = file_join(state, "lock");
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool ok = true;

    if (fd < 0)
        ok = fault_set(why, FAULT_IO, "%s: %s", path, strerror(errno));
    else if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        ok = fault_set(why, FAULT_BUSY, "%s: another gateway uses this state; stop it first", path);
    if (!ok && fd >= 0)
        close(fd);
    free(path);
    return ok;
}

static const char *journal_path(const struct assets *a)
{
    return conf_text(conf_section(a->config->conf, "journal"), "directory");
}

static bool open_journal(struct assets *a, struct fault *why)
{
    const char *directory = journal_path(a);

    if (!file_make_directory(directory, 0700, why))
        return false;
    a->journal_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (a->journal_fd < 0)
        return fault_set(why, FAULT_IO, "%s: %s", directory, strerror(errno));
    return (a->journal_end = counters_create(why)) >= 0;
}

static bool open_counters(struct assets *a, struct fault *why)
{
    a->counters = must(calloc((size_t)a->n_workers, sizeof *a->counters));
    for (int i = 0; i < a->n_workers; i++)
        a->counters[i] = -1;
    for (int i = 0; i < a->n_workers; i++)
        if ((a->counters[i] = counters_create(why)) < 0)
            return false;
    return true;
}

/* Who may only read gets a descriptor of its own, opened for that. */
static int open_to_read(int fd, struct fault *why)
{
    char path[40];
    int again;

    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if ((again = open(path, O_RDONLY | O_CLOEXEC)) < 0)
        fault_set(why, FAULT_IO, "%s: %s; is /proc mounted?", path, strerror(errno));
    return again;
}

static bool open_tallies(struct assets *a, struct fault *why)
{
    unsigned char secret[16];

    secret_random(secret, sizeof secret);
    a->tallies = must(calloc((size_t)a->n_workers, sizeof *a->tallies));
    a->tallies_to_read = must(calloc((size_t)a->n_workers, sizeof *a->tallies_to_read));
    for (int i = 0; i < a->n_workers; i++)
        a->tallies[i] = a->tallies_to_read[i] = -1;
    for (int i = 0; i < a->n_workers; i++)
        if ((a->tallies[i] = tally_create(secret, why)) < 0 ||
            (a->tallies_to_read[i] = open_to_read(a->tallies[i], why)) < 0)
            return false;
    return true;
}

static bool open_tokens(struct assets *a, const char *state, struct fault *why)
{
    char *path = file_join(state, "revocations");

    a->revocations = revocations_create(path, why);
    free(path);
    return a->revocations && (a->pins = pins_create(PINS, why));
}

bool assets_open(struct assets *a, struct gateway_config *config, struct fault *why)
{
    const char *state = conf_text(conf_section(config->conf, "gateway"), "state");

    *a = (struct assets){.config = config, .journal_fd = -1, .journal_end = -1, .n_workers = config->workers};
    return file_make_directory(state, 0700, why) && lock_state(state, why) && open_journal(a, why) &&
           open_counters(a, why) && open_tallies(a, why) && open_tokens(a, state, why) && open_listening(a, why);
}

static int chown_files(int directory_fd, uid_t uid, gid_t gid)
{
    int fd = openat(directory_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *e;
    int failed = d ? 0 : -1;

    while (d && (e = readdir(d)))
        if (e->d_name[0] != '.' && fchownat(directory_fd, e->d_name, uid, gid, AT_SYMLINK_NOFOLLOW) < 0)
            failed = -1;
    if (d)
        closedir(d);
    return failed;
}

bool assets_give_journal(const struct assets *a, uid_t uid, gid_t gid, struct fault *why)
{
    if (fchown(a->journal_fd, uid, gid) < 0 || chown_files(a->journal_fd, uid, gid) < 0)
        return fault_set(why, FAULT_IO, "the journal's directory cannot be given to the scribe: %s", strerror(errno));
    return true;
}

bool assets_journal_is_in_place(const struct assets *a, struct fault *why)
{
    struct stat here, there;

    if (stat(journal_path(a), &there) < 0)
        return fault_set(why, FAULT_IO, "the journal's directory %s: %s", journal_path(a), strerror(errno));
    if (fstat(a->journal_fd, &here) == 0 && here.st_ino == there.st_ino && here.st_dev == there.st_dev)
        return true;
    return fault_set(why, FAULT_REFUSED, "the journal's directory %s is another one than before", journal_path(a));
}

bool assets_find_journal(struct assets *a, uid_t uid, gid_t gid, struct fault *why)
{
    int fd;

    if (assets_journal_is_in_place(a, why))
        return true;
    fd = open(journal_path(a), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return fault_set(why, FAULT_IO, "the journal's directory %s: %s", journal_path(a), strerror(errno));
    close(a->journal_fd);
    a->journal_fd = fd;
    return uid == 0 || assets_give_journal(a, uid, gid, why);
}

static void close_all(int *fds, int n)
{
    for (int i = 0; fds && i < n; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    free(fds);
}

void assets_close(struct assets *a)
{
    for (size_t i = 0; i < a->n_listening; i++) {
        struct listening *l = &a->listening[i];

        for (size_t j = 0; j < l->n_fds; j++)
            close(l->fds[j]);
        if (slice_starts(slice_of(l->address), SLICE("unix:")))
            unlink(l->address + 5);
        free(l->fds);
        free(l->name);
        free(l->address);
    }
    free(a->listening);
    close_all(a->counters, a->n_workers);
    close_all(a->tallies, a->n_workers);
    close_all(a->tallies_to_read, a->n_workers);
    if (a->journal_fd >= 0)
        close(a->journal_fd);
    if (a->journal_end >= 0)
        close(a->journal_end);
    revocations_free(a->revocations);
    pins_free(a->pins);
    *a = (struct assets){.journal_fd = -1, .journal_end = -1};
}
