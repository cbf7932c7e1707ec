/* Owns the descriptors of state; the listening sockets are listening.c's. Starts nothing. */
#include "proxy/assets.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/secret.h"
#include "base/text.h"
#include "proxy/counters.h"
#include "proxy/tally.h"

enum { PINS = 32768 /* unbound tokens alive at once; 1.5 MiB */ };

static void *must(void *p)
{
    if (!p)
        abort();
    return p;
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

static bool open_journal(struct assets *a, const struct gateway_config *c, struct fault *why)
{
    const char *directory = conf_text(conf_section(c->conf, "journal"), "directory");

    a->journal_path = text_copy(slice_of(directory));
    if (!file_make_directory(directory, 0700, why))
        return false;
    a->journal_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (a->journal_fd < 0)
        return fault_set(why, FAULT_IO, "%s: %s", directory, strerror(errno));
    return (a->journal_end = counters_create(why)) >= 0;
}

static bool open_counters(struct assets *a, struct fault *why)
{
    a->counters = must(calloc((size_t)a->n_workers + 1, sizeof *a->counters));
    for (int i = 0; i <= a->n_workers; i++)
        a->counters[i] = -1;
    for (int i = 0; i <= a->n_workers; i++)
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
    secret_random(a->tally_secret, sizeof a->tally_secret);
    a->tallies = must(calloc((size_t)a->n_workers, sizeof *a->tallies));
    a->tallies_to_read = must(calloc((size_t)a->n_workers, sizeof *a->tallies_to_read));
    for (int i = 0; i < a->n_workers; i++)
        a->tallies[i] = a->tallies_to_read[i] = -1;
    for (int i = 0; i < a->n_workers; i++)
        if ((a->tallies[i] = tally_create(a->tally_secret, why)) < 0 ||
            (a->tallies_to_read[i] = open_to_read(a->tallies[i], why)) < 0)
            return false;
    return true;
}

static bool open_tokens(struct assets *a, const char *state, struct fault *why)
{
    char *revocations = file_join(state, "revocations"), *spent = file_join(state, "spent");

    a->revocations = revocations_create(revocations, why);
    if (a->revocations)
        a->spent = spent_open(spent, why);
    free(revocations);
    free(spent);
    return a->spent && (a->pins = pins_create(PINS, why));
}

bool assets_open(struct assets *a, const struct gateway_config *config, struct fault *why)
{
    const char *state = conf_text(conf_section(config->conf, "gateway"), "state");

    *a = (struct assets){.journal_fd = -1, .journal_end = -1, .n_workers = config->workers};
    return file_make_directory(state, 0700, why) && lock_state(state, why) && open_journal(a, config, why) &&
           open_counters(a, why) && open_tallies(a, why) && open_tokens(a, state, why) &&
           listening_open(&a->listening, config, (size_t)a->n_workers, why);
}

void assets_mend(struct assets *a, int worker)
{
    if (a->pins)
        pins_mend(a->pins);
    if (a->spent)
        spent_mend(a->spent);
    if (worker >= 0)
        tally_mend(a->tallies[worker], a->tally_secret);
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

    if (stat(a->journal_path, &there) < 0)
        return fault_set(why, FAULT_IO, "the journal's directory %s: %s", a->journal_path, strerror(errno));
    if (fstat(a->journal_fd, &here) == 0 && here.st_ino == there.st_ino && here.st_dev == there.st_dev)
        return true;
    return fault_set(why, FAULT_REFUSED, "the journal's directory %s is another one than before", a->journal_path);
}

bool assets_find_journal(struct assets *a, uid_t uid, gid_t gid, struct fault *why)
{
    int fd;

    if (assets_journal_is_in_place(a, why))
        return true;
    fd = open(a->journal_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return fault_set(why, FAULT_IO, "the journal's directory %s: %s", a->journal_path, strerror(errno));
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
    listening_close(&a->listening);
    assets_mend(a, -1);
    free(a->journal_path);
    close_all(a->counters, a->n_workers + 1);
    close_all(a->tallies, a->n_workers);
    close_all(a->tallies_to_read, a->n_workers);
    if (a->journal_fd >= 0)
        close(a->journal_fd);
    if (a->journal_end >= 0)
        close(a->journal_end);
    revocations_free(a->revocations);
    pins_free(a->pins);
    spent_free(a->spent);
    *a = (struct assets){.journal_fd = -1, .journal_end = -1};
}
