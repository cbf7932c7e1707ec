/* Owns one connection for one question. */
#include "cmd/admin.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"

enum { WAIT_MS = 5000 };

static bool address_of(const char *address, struct sockaddr_un *sun, struct fault *why)
{
    struct slice path = slice_of(address);

    if (!slice_starts(path, SLICE("unix:/")))
        return fault_set(why, FAULT_USAGE, "admin.address is %s; expected unix: and an absolute path", address);
    path = slice_from(path, 5);
    if (path.len >= sizeof sun->sun_path)
        return fault_set(why, FAULT_USAGE, "%s: a socket's path has at most %zu characters", address,
                         sizeof sun->sun_path - 1);
    *sun = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(sun->sun_path, path.ptr, path.len);
    return true;
}

static bool set_wait(int fd, int64_t deadline_ms)
{
    int64_t left = deadline_ms - clock_mono_ms();
    struct timeval wait = {.tv_sec = left / 1000, .tv_usec = left % 1000 * 1000};

    return left > 0 && setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait) == 0 &&
           setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait) == 0;
}

static bool failed(const char *address, int error, int64_t wait_ms, struct fault *why)
{
    if (error == ENOENT || error == ECONNREFUSED)
        return fault_set(why, FAULT_MISSING, "no gateway listens on %s", address);
    if (error == EACCES || error == EPERM)
        return fault_set(why, FAULT_PERMISSION, "%s: %s; ask as the user that started the gateway", address,
                         strerror(error));
    if (error == EAGAIN || error == EWOULDBLOCK)
        return fault_set(why, FAULT_TIMEOUT, "%s: the gateway did not answer within %d s", address,
                         (int)(wait_ms / 1000));
    return fault_set(why, FAULT_IO, "%s: %s", address, strerror(error));
}

static bool send_all(int fd, struct slice bytes)
{
    while (bytes.len) {
        ssize_t put = send(fd, bytes.ptr, bytes.len, MSG_NOSIGNAL);

        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return false;
        bytes = slice_from(bytes, (size_t)put);
    }
    return true;
}

/* One line, without its newline; errno says why not. */
static bool receive_line(int fd, int64_t deadline_ms, struct buf *out)
{
    size_t had = buf_len(out);

    for (;;) {
        ssize_t got;
        ptrdiff_t end;

        errno = EAGAIN;
        if (!set_wait(fd, deadline_ms))
            return false;
        got = recv(fd, buf_reserve(out, 4096), 4096, 0);
        if (got < 0 && errno == EINTR)
            continue;
        errno = got == 0 ? ECONNRESET : errno;
        if (got <= 0)
            return false;
        buf_commit(out, (size_t)got);
        end = slice_find(slice_from(buf_slice(out), had), '\n');
        if (end >= 0) {
            buf_truncate(out, had + (size_t)end);
            return true;
        }
        errno = EMSGSIZE;
        if (buf_len(out) - had > ADMIN_ANSWER_MAX)
            return false;
    }
}

bool admin_ask_within(const char *address, struct slice request, int64_t wait_ms, struct buf *answer, struct fault *why)
{
    int64_t deadline = clock_mono_ms() + wait_ms;
    struct sockaddr_un sun;
    bool ok = false;
    int fd;

    if (!address_of(address, &sun, why))
        return false;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return failed(address, errno, wait_ms, why);
    if (!set_wait(fd, deadline) || connect(fd, (struct sockaddr *)&sun, sizeof sun) < 0 ||
        !send_all(fd, request) || !send_all(fd, SLICE("\n")) || !receive_line(fd, deadline, answer))
        failed(address, errno, wait_ms, why);
    else
        ok = true;
    close(fd);
    return ok;
}

int admin_connect(const char *address, struct fault *why)
{
    struct sockaddr_un sun;
    int fd;

    if (!address_of(address, &sun, why))
        return -1;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&sun, sizeof sun) == 0)
        return fd;
    failed(address, errno, WAIT_MS, why);
    if (fd >= 0)
        close(fd);
    return -1;
}

bool admin_ask(const char *address, struct slice request, struct buf *answer, struct fault *why)
{
    return admin_ask_within(address, request, WAIT_MS, answer, why);
}

struct json_t *admin_call(const char *address, struct slice request, struct fault *why)
{
    struct buf line = {0};
    json_t *answer = NULL, *ok;

    if (!admin_ask(address, request, &line, why))
        goto out;
    answer = json_loadb(buf_slice(&line).ptr, buf_len(&line), JSON_REJECT_DUPLICATES, NULL);
    ok = json_object_get(answer, "ok");
    if (json_is_true(ok))
        goto out;
    if (json_is_false(ok) && json_is_string(json_object_get(answer, "error")))
        fault_set(why, json_is_true(json_object_get(answer, "usage")) ? FAULT_USAGE : FAULT_REFUSED, "%s",
                  json_string_value(json_object_get(answer, "error")));
    else
        fault_set(why, FAULT_SYNTAX, "%s: the answer is not one of a gateway", address);
    json_decref(answer);
    answer = NULL;
out:
    buf_free(&line);
    return answer;
}
