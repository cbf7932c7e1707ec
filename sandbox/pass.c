#include "sandbox/pass.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char before[] = "Proxy-Authorization: Bearer ";

enum { BEFORE = sizeof before - 1 };

static bool is_same(const struct pass *p, const struct stat *st)
{
    return p->file == st->st_ino && p->size == st->st_size && p->changed.tv_sec == st->st_ctim.tv_sec &&
           p->changed.tv_nsec == st->st_ctim.tv_nsec;
}

static bool fail(struct pass *p, const char *what)
{
    snprintf(p->trouble, sizeof p->trouble, "%.100s: %s", p->path, what);
    return p->len > 0;
}

/* A JWT in its compact form has these characters; anything else in a head field could be another field. */
static bool is_token(const char *text, size_t n)
{
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.";

    for (size_t i = 0; i < n; i++)
        if (!memchr(alphabet, text[i], sizeof alphabet - 1))
            return false;
    return n > 0;
}

static bool take(struct pass *p, const struct stat *st, char *text, size_t n)
{
    while (n && (text[n - 1] == '\n' || text[n - 1] == '\r'))
        n--;
    if (n > PASS_TOKEN_MAX)
        return fail(p, "more than a token is in it");
    if (!is_token(text, n))
        return fail(p, n ? "this is no leave token" : "there is no token in it");
    memcpy(p->field, before, BEFORE);
    memcpy(p->field + BEFORE, text, n);
    memcpy(p->field + BEFORE + n, "\r\n", 3);
    p->len = BEFORE + n + 2;
    p->file = st->st_ino;
    p->size = st->st_size;
    p->changed = st->st_ctim;
    p->trouble[0] = '\0';
    return true;
}

static bool read_file(struct pass *p, int fd, const struct stat *st)
{
    char text[PASS_TOKEN_MAX + 3];
    size_t n = 0;
    ssize_t got = 1;
    bool ok;

    while (n < sizeof text && (got = read(fd, text + n, sizeof text - n)) != 0) {
        if (got < 0 && errno != EINTR)
            return fail(p, strerror(errno));
        n += got > 0 ? (size_t)got : 0;
    }
    ok = take(p, st, text, n);
    explicit_bzero(text, sizeof text);
    return ok;
}

bool pass_refresh(struct pass *p)
{
    struct stat st;
    bool ok;
    int fd;

    if (p->len && stat(p->path, &st) == 0 && is_same(p, &st)) {
        p->trouble[0] = '\0';
        return true;
    }
    fd = open(p->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0)
        ok = fail(p, strerror(errno));
    else if (!S_ISREG(st.st_mode))
        ok = fail(p, "it is no plain file");
    else
        ok = read_file(p, fd, &st);
    if (fd >= 0)
        close(fd);
    return ok;
}

const char *pass_token(const struct pass *p, size_t *len)
{
    *len = p->len ? p->len - BEFORE - 2 : 0;
    return p->len ? p->field + BEFORE : "";
}
