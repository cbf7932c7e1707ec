/* Owns secret bytes and their end; the only place that compares them. */
#include "base/secret.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

struct secret {
    size_t holders;
    size_t len;
    char bytes[];
};

struct secret *secret_new(struct slice s)
{
    struct secret *out = malloc(sizeof *out + s.len + 1);

    if (!out)
        abort();
    out->holders = 1;
    out->len = s.len;
    if (s.len)
        memcpy(out->bytes, s.ptr, s.len);
    out->bytes[s.len] = '\0';
    return out;
}

void secret_free(struct secret *s)
{
    if (!s || --s->holders)
        return;
    secret_wipe(s->bytes, s->len);
    free(s);
}

struct secret *secret_share(struct secret *s)
{
    assert(s->holders);
    s->holders++;
    return s;
}

struct slice secret_slice(const struct secret *s)
{
    return slice_make(s->bytes, s->len);
}

void secret_wipe(void *ptr, size_t len)
{
    explicit_bzero(ptr, len);
}

static uint64_t word_at(const char *p)
{
    uint64_t word;

    memcpy(&word, p, sizeof word);
    return word;
}

bool secret_equals(struct slice a, struct slice b)
{
    uint64_t diff = 0;
    size_t i = 0;

    if (a.len != b.len)
        return false;
    for (; i + sizeof diff <= a.len; i += sizeof diff)
        diff |= word_at(a.ptr + i) ^ word_at(b.ptr + i);
    for (; i < a.len; i++)
        diff |= (unsigned char)(a.ptr[i] ^ b.ptr[i]);
    __asm__("" : "+r"(diff)); /* no compiler knows how it came about: no early way out */
    return diff == 0;
}

void secret_random(void *out, size_t n)
{
    unsigned char *p = out;

    while (n) {
        ssize_t got = getrandom(p, n, 0);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            abort();
        p += got;
        n -= (size_t)got;
    }
}

static bool read_all(int fd, char *into, size_t max, size_t *len)
{
    *len = 0;
    while (*len < max) {
        ssize_t got = read(fd, into + *len, max - *len);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return false;
        if (got == 0)
            return true;
        *len += (size_t)got;
    }
    return true;
}

static bool check_private(int fd, const char *path, struct fault *why)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return fault_set(why, FAULT_IO, "%s: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return fault_set(why, FAULT_PERMISSION, "%s: not a regular file", path);
    if (st.st_mode & 077)
        return fault_set(why, FAULT_PERMISSION, "%s: others can read it (mode %04o); run: chmod 600 %s", path,
                         (unsigned)(st.st_mode & 07777), path);
    return true;
}

struct secret *secret_read_file(const char *path, size_t max, struct fault *why)
{
    struct secret *out = NULL;
    char *bytes = NULL;
    size_t len = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); /* a FIFO is refused, not waited for */

    if (fd < 0) {
        fault_set(why, errno == ENOENT ? FAULT_MISSING : FAULT_PERMISSION, "%s: %s", path, strerror(errno));
        return NULL;
    }
    if (!check_private(fd, path, why))
        goto out;
    if (!(bytes = malloc(max + 1)))
        abort();
    if (!read_all(fd, bytes, max + 1, &len)) {
        fault_set(why, FAULT_IO, "%s: %s", path, strerror(errno));
        goto out;
    }
    if (len > max) {
        fault_set(why, FAULT_LIMIT, "%s: larger than %zu bytes", path, max);
        goto out;
    }
    if (len && bytes[len - 1] == '\n')
        len--;
    out = secret_new(slice_make(bytes, len));
out:
    if (bytes) {
        secret_wipe(bytes, len);
        free(bytes);
    }
    close(fd);
    return out;
}
