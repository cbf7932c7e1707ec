#include "cmd/name_server.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"

enum { FILE_MOST = 65536, PORT = 53, WAIT_MS = 1000, TRIES = 2, ANSWER_MOST = 4096 };

/* "nameserver 10.0.0.1 # ..." */
static bool read_line(struct slice line, struct addr *out)
{
    size_t n = 0;

    line = slice_trim(line);
    if (!slice_starts(line, SLICE("nameserver")))
        return false;
    line = slice_from(line, strlen("nameserver"));
    if (line.len == 0 || (line.ptr[0] != ' ' && line.ptr[0] != '\t'))
        return false;
    line = slice_trim(line);
    while (n < line.len && line.ptr[n] != ' ' && line.ptr[n] != '\t' && line.ptr[n] != '#' && line.ptr[n] != ';')
        n++;
    if (!addr_parse_ip(slice_cut(line, 0, n), out))
        return false;
    out->port = PORT;
    return true;
}

size_t name_servers_read(const char *path, struct addr *out)
{
    struct buf text = {0};
    struct slice left, line;
    size_t n = 0;

    if (file_read(path, FILE_MOST, &text, NULL)) {
        left = buf_slice(&text);
        while (n < NAME_SERVERS_MAX && slice_next(&left, '\n', &line))
            n += read_line(line, &out[n]);
    }
    buf_free(&text);
    return n;
}

/* What others send there is left aside. */
static bool wait_for(int fd, const struct addr *server, uint16_t id, struct dns_reply *out)
{
    int64_t deadline_ms = clock_mono_ms() + WAIT_MS, left;

    while ((left = deadline_ms - clock_mono_ms()) > 0) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        struct sockaddr_storage sa;
        socklen_t len = sizeof sa;
        char message[ANSWER_MOST];
        struct addr from;
        ssize_t got;

        if (poll(&p, 1, (int)left) <= 0)
            continue;
        if ((got = recvfrom(fd, message, sizeof message, 0, (struct sockaddr *)&sa, &len)) < 0)
            return false;
        addr_from_sockaddr(&from, (struct sockaddr *)&sa);
        if (addr_equals(&from, server) && dns_reply_read(slice_make(message, (size_t)got), id, out))
            return true;
    }
    return false;
}

bool name_server_ask(const struct addr *server, const char *host, uint16_t type, struct dns_reply *out, struct fault *why)
{
    const struct dns_question q = dns_question_make(host, type);
    struct sockaddr_storage sa;
    socklen_t len = addr_to_sockaddr(server, &sa);
    int fd = socket(server->family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct buf question = {0};
    uint16_t id = 0;
    bool ok = false;

    if (getrandom(&id, sizeof id, 0) != sizeof id || fd < 0)
        fault_set(why, FAULT_IO, "%s", strerror(errno));
    dns_ask_write(&question, &q, id);
    for (int i = 0; i < TRIES && fd >= 0 && !ok; i++) {
        if (sendto(fd, buf_slice(&question).ptr, buf_len(&question), 0, (struct sockaddr *)&sa, len) < 0) {
            fault_set(why, FAULT_IO, "%s", strerror(errno));
            break;
        }
        if (!(ok = wait_for(fd, server, id, out)))
            fault_set(why, FAULT_TIMEOUT, "no answer");
    }
    if (fd >= 0)
        close(fd);
    buf_free(&question);
    return ok;
}
