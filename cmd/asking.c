#include "cmd/asking.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "sandbox/endpoint.h"

enum { WAIT_MS = 10000, HEAD_MOST = 16384 };

#define NOWHERE "doctor.exeat.invalid:443" /* RFC 6761: never anybody's */

/* "[::1]" and "::1" are the same host here. */
static void bare_host(const char *host, char *out, size_t size)
{
    struct slice s = slice_of(host);

    if (s.len > 1 && s.ptr[0] == '[' && s.ptr[s.len - 1] == ']')
        s = slice_cut(s, 1, s.len - 1);
    snprintf(out, size, "%.*s", SLICE_ARG(s));
}

bool asking_is_numeric(const char *host)
{
    unsigned char ip[16];
    char bare[256];

    bare_host(host, bare, sizeof bare);
    return inet_pton(AF_INET, bare, ip) == 1 || inet_pton(AF_INET6, bare, ip) == 1;
}

/* The addresses (give), by freeaddrinfo(). */
static struct addrinfo *look_up(const char *host, const char *port, struct fault *why)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    char bare[256];
    int error;

    bare_host(host, bare, sizeof bare);
    if ((error = getaddrinfo(bare, port, &hints, &found)) == 0)
        return found;
    fault_set(why, FAULT_MISSING, "%.100s: %s", host, gai_strerror(error));
    return NULL;
}

bool asking_resolve(const char *host, struct fault *why)
{
    struct addrinfo *found = look_up(host, NULL, why);

    if (found)
        freeaddrinfo(found);
    return found != NULL;
}

static bool wait_for(int fd, short events, int64_t deadline_ms)
{
    struct pollfd p = {.fd = fd, .events = events};
    int64_t left;

    while ((left = deadline_ms - clock_mono_ms()) > 0) {
        int n = poll(&p, 1, (int)left);

        if (n > 0)
            return true;
        if (n < 0 && errno != EINTR)
            break;
    }
    errno = ETIMEDOUT;
    return false;
}

/* A connected socket, or -1 with errno. */
static int reach(const struct addrinfo *a, int64_t deadline_ms)
{
    struct endpoint p = {.len = a->ai_addrlen};
    socklen_t len = sizeof(int);
    int fd, error = 0;

    memcpy(&p.address, a->ai_addr, a->ai_addrlen);
    if ((fd = endpoint_connect(&p)) < 0)
        return -1;
    if (!wait_for(fd, POLLOUT, deadline_ms))
        error = ETIMEDOUT;
    else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
        error = errno;
    if (!error)
        return fd;
    close(fd);
    errno = error;
    return -1;
}

static int reach_any(const struct addrinfo *all, int64_t deadline_ms)
{
    int fd = -1;

    for (const struct addrinfo *a = all; a && fd < 0; a = a->ai_next)
        fd = reach(a, deadline_ms);
    return fd;
}

static void write_question(const char *credentials, struct buf *out)
{
    buf_text(out, "CONNECT " NOWHERE " HTTP/1.1\r\nHost: " NOWHERE "\r\nUser-Agent: exeat-doctor\r\n");
    if (credentials) {
        buf_text(out, "Proxy-Authorization: Basic ");
        text_base64(out, slice_of(credentials));
        buf_text(out, "\r\n");
    }
    buf_text(out, "\r\n");
}

/* Up to the end of the head, or of what comes. */
static bool read_head(int fd, int64_t deadline_ms, struct buf *head, struct fault *why)
{
    while (slice_search(buf_slice(head), SLICE("\r\n\r\n")) < 0 && buf_len(head) < HEAD_MOST) {
        ssize_t got;

        if (!wait_for(fd, POLLIN, deadline_ms))
            return fault_set(why, FAULT_TIMEOUT, "it accepts and then says nothing");
        got = read(fd, buf_reserve(head, 4096), 4096);
        if (got < 0 && errno != EAGAIN && errno != EINTR)
            return fault_set(why, FAULT_IO, "%s", strerror(errno));
        if (got == 0)
            break;
        if (got > 0)
            buf_commit(head, (size_t)got);
    }
    return buf_len(head) > 0 || fault_set(why, FAULT_IO, "it accepts, and closes without an answer");
}

static int64_t read_date(struct slice head)
{
    enum { NAME = sizeof "\r\ndate: " - 1 };
    struct slice at = head;
    struct tm t = {0};
    char text[40];

    while (at.len && !slice_starts_nocase(at, SLICE("\r\ndate: ")))
        at = slice_from(at, 1);
    snprintf(text, sizeof text, "%.*s", SLICE_ARG(slice_cut(slice_from(at, NAME), 0, sizeof text - 1)));
    return strptime(text, "%a, %d %b %Y %H:%M:%S GMT", &t) ? (int64_t)timegm(&t) : 0;
}

bool asking_read(struct slice head, struct asking *out, struct fault *why)
{
    struct slice line = head, code, rest, word;

    slice_next(&line, '\r', &rest);
    line = rest;
    for (size_t i = 0; i < line.len && i < sizeof out->line - 1; i++)
        out->line[i] = line.ptr[i] >= ' ' && line.ptr[i] < 0x7f ? line.ptr[i] : '?';
    if (!slice_starts(line, SLICE("HTTP/1.")) || !slice_next(&line, ' ', &rest) || !slice_next(&line, ' ', &code))
        return fault_set(why, FAULT_SYNTAX, "what answers there speaks no HTTP: \"%.60s\"", out->line);
    for (size_t i = 0; i < code.len && i < 3; i++)
        out->status = out->status * 10 + (code.ptr[i] - '0');
    if (slice_next(&line, ' ', &word) && (slice_is(word, "exeat") || slice_is(word, "exeat-relay"))) {
        out->is_relay = slice_is(word, "exeat-relay");
        if (slice_next(&line, ' ', &word))
            snprintf(out->reason, sizeof out->reason, "%.*s", SLICE_ARG(word));
    }
    out->date_s = read_date(head);
    return true;
}

int asking_connect(const char *host, const char *port, struct fault *why)
{
    struct addrinfo *all = look_up(host, port, why);
    int fd = all ? reach_any(all, clock_mono_ms() + WAIT_MS) : -1;

    if (all && fd < 0)
        fault_set(why, FAULT_IO, "%s", strerror(errno));
    if (all)
        freeaddrinfo(all);
    return fd;
}

bool asking_put(const char *host, const char *port, const char *credentials, struct asking *out, struct fault *why)
{
    int64_t deadline_ms = clock_mono_ms() + WAIT_MS;
    struct addrinfo *all = look_up(host, port, why);
    struct buf question = {0}, head = {0};
    int fd = all ? reach_any(all, deadline_ms) : -1;
    bool ok = false;

    *out = (struct asking){0};
    if (all && fd < 0)
        fault_set(why, FAULT_IO, "%s", strerror(errno));
    write_question(credentials, &question);
    if (fd >= 0)
        ok = file_write_fd(fd, buf_slice(&question), why) && read_head(fd, deadline_ms, &head, why) &&
             asking_read(buf_slice(&head), out, why);
    if (fd >= 0)
        close(fd);
    if (all)
        freeaddrinfo(all);
    buf_wipe(&question);
    buf_free(&head);
    return ok;
}
