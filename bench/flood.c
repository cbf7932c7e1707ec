/*
 * A hostile sandbox: as many connections as told, each doing one wicked thing again and again, as fast as it is
 * answered. It never ends by itself. How often it has done it by now is kept at the start of standard output, a file.
 * Kinds:
 *
 *   slow        half a request head, then a byte a second; anew when it is cut
 *   junk        requests with tokens that do not verify, each another
 *   denials     requests of a valid token for what no rule allows
 *   handshakes  CONNECT, a whole TLS handshake, and away
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench/wire.h"

enum { TEXT_MAX = 8192, ANSWER_MAX = 8192, RETRY_MS = 20, DRIP_MS = 1000, EVENTS = 256 };

enum kind { SLOW, JUNK, DENIALS, HANDSHAKES };
static const char *const kinds[] = {"slow", "junk", "denials", "handshakes"};

enum step { WAITS, ASKS, HEARS, SHAKES };

struct attacker {
    struct wire wire; /* fd -1: between connections */
    enum step step;
    uint64_t due_ms; /* WAITS: connect then; slow: the next byte */
    char text[TEXT_MAX], answer[ANSWER_MAX];
    size_t len, sent, heard;
};

static struct plan {
    enum kind kind;
    const char *address, *source, *tunnel, *host, *token;
    SSL_CTX *tls;
    unsigned connections;
} plan;

static int epoll_fd;
static uint64_t serial;
static uint64_t n_acts; /* requests sent whole, bytes dripped */

static uint64_t now_ms(void)
{
    return wire_now_ns() / 1000000;
}

static void write_text(struct attacker *a)
{
    static const char get[] = "GET http://%s/else/%llu HTTP/1.1\r\nHost: %s\r\n";
    unsigned long long n = ++serial;
    int len;

    if (plan.kind == SLOW)
        len = snprintf(a->text, TEXT_MAX, "GET http://%s/%llu HTTP/1.1\r\nHost: %s\r\nX: ", plan.host, n, plan.host);
    else if (plan.kind == HANDSHAKES)
        len = snprintf(a->text, TEXT_MAX, "CONNECT %s HTTP/1.1\r\nHost: %s\r\nProxy-Authorization: Bearer %s\r\n\r\n",
                       plan.tunnel, plan.tunnel, plan.token);
    else {
        len = snprintf(a->text, TEXT_MAX, get, plan.host, n, plan.host);
        len += snprintf(a->text + len, TEXT_MAX - (size_t)len, "Proxy-Authorization: Bearer %s", plan.token);
        if (plan.kind == JUNK) /* the last characters of its signature are others each time */
            len += snprintf(a->text + len - 8, TEXT_MAX - (size_t)len + 8, "%08llx", n & 0xffffffff) - 8;
        len += snprintf(a->text + len, TEXT_MAX - (size_t)len, "\r\n\r\n");
    }
    a->len = (size_t)len;
    a->sent = a->heard = 0;
}

static void want(struct attacker *a, uint32_t events)
{
    struct epoll_event e = {.events = events, .data.ptr = a};

    epoll_ctl(epoll_fd, EPOLL_CTL_MOD, a->wire.fd, &e);
}

static void hang_up(struct attacker *a)
{
    struct linger reset = {.l_onoff = 1};

    if (a->wire.fd >= 0) {
        setsockopt(a->wire.fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset); /* no port is kept waiting */
        wire_close(&a->wire);
    }
    a->wire = (struct wire){.fd = -1};
    a->step = WAITS;
    a->due_ms = now_ms() + (plan.kind == SLOW ? 200 : RETRY_MS);
}

/* From the sandbox's own address. */
static int connect_from(const char *address, const char *source)
{
    struct sockaddr_in to = {.sin_family = AF_INET}, from = {.sin_family = AF_INET};
    char host[64] = "";
    int fd, one = 1;

    snprintf(host, sizeof host, "%.*s", (int)strcspn(address, ":"), address);
    to.sin_port = htons((uint16_t)strtoul(address + strcspn(address, ":") + 1, NULL, 10));
    if (inet_pton(AF_INET, host, &to.sin_addr) != 1 || inet_pton(AF_INET, source, &from.sin_addr) != 1)
        die("%s, %s: expected IPv4 addresses", address, source);
    fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof one);
    if (bind(fd, (struct sockaddr *)&from, sizeof from) == 0 &&
        (connect(fd, (struct sockaddr *)&to, sizeof to) == 0 || errno == EINPROGRESS))
        return fd;
    close(fd);
    return -1;
}

static void begin(struct attacker *a)
{
    struct epoll_event e = {.events = EPOLLOUT, .data.ptr = a};

    a->wire.fd = connect_from(plan.address, plan.source);
    if (a->wire.fd < 0) {
        hang_up(a);
        return;
    }
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, a->wire.fd, &e);
    write_text(a);
    a->step = ASKS;
}

static void ask(struct attacker *a)
{
    ssize_t n = wire_write(&a->wire, a->text + a->sent, a->len - a->sent);

    if (n < 0) {
        hang_up(a);
        return;
    }
    a->sent += (size_t)n;
    if (a->sent < a->len)
        return;
    n_acts++;
    a->step = HEARS;
    a->due_ms = now_ms() + DRIP_MS;
    want(a, EPOLLIN);
}

/* Is the answer whole? It has a length, or is a 200 to CONNECT. */
static bool is_whole(const struct attacker *a)
{
    const char *end = strstr(a->answer, "\r\n\r\n"), *length = strstr(a->answer, "Content-Length: ");

    if (!end)
        return false;
    return !length || length > end || a->heard >= (size_t)(end + 4 - a->answer) + strtoul(length + 16, NULL, 10);
}

static void next(struct attacker *a)
{
    if (strstr(a->answer, "Connection: close")) {
        hang_up(a);
    } else if (plan.kind == HANDSHAKES && strncmp(a->answer + 9, "200", 3) == 0) {
        wire_start_client(&a->wire, plan.tls, plan.host);
        a->step = SHAKES;
        want(a, EPOLLIN | EPOLLOUT);
    } else {
        write_text(a);
        a->step = ASKS;
        want(a, EPOLLOUT);
    }
}

static void hear(struct attacker *a)
{
    ssize_t n = wire_read(&a->wire, a->answer + a->heard, ANSWER_MAX - 1 - a->heard);

    if (n < 0 || plan.kind == SLOW) {
        if (n != WIRE_AGAIN)
            hang_up(a);
        return;
    }
    a->heard += (size_t)n;
    a->answer[a->heard] = '\0';
    if (is_whole(a))
        next(a);
}

static void shake(struct attacker *a)
{
    char byte;

    if (wire_read(&a->wire, &byte, 1) < 0 || SSL_is_init_finished(a->wire.ssl))
        hang_up(a);
    else if (SSL_want_read(a->wire.ssl))
        want(a, EPOLLIN);
}

static void on_time(struct attacker *a, uint64_t now)
{
    if (a->due_ms > now)
        return;
    if (a->step == WAITS) {
        begin(a);
    } else if (plan.kind == SLOW && a->step == HEARS) {
        a->due_ms = now + DRIP_MS;
        if (wire_write(&a->wire, "x", 1) < 0)
            hang_up(a);
        else
            n_acts++;
    }
}

static void tell_acts(void)
{
    char text[32];
    int len = snprintf(text, sizeof text, "%20llu\n", (unsigned long long)n_acts);

    if (pwrite(STDOUT_FILENO, text, (size_t)len, 0) != len)
        die("standard output: %s", strerror(errno));
}

static void run(struct attacker *all)
{
    struct epoll_event events[EVENTS];
    uint64_t looked = 0;

    for (;;) {
        int n = epoll_wait(epoll_fd, events, EVENTS, RETRY_MS);
        uint64_t now = now_ms();

        for (int i = 0; i < n; i++) {
            struct attacker *a = events[i].data.ptr;

            if (a->step == ASKS)
                ask(a);
            else if (a->step == HEARS)
                hear(a);
            else if (a->step == SHAKES)
                shake(a);
        }
        for (unsigned i = 0; now >= looked + RETRY_MS && i < plan.connections; i++)
            on_time(&all[i], now);
        if (now >= looked + RETRY_MS) {
            looked = now;
            tell_acts();
        }
    }
}

static const char usage[] =
    "usage: flood KIND ADDRESS SOURCE CONNECTIONS TOKEN HOST TUNNEL CA >ACTS\n"
    "  KIND is slow, junk, denials or handshakes; ADDRESS the proxy; SOURCE the address to come from; HOST a plain\n"
    "  service; TUNNEL the host:port of a TLS service, whose name CA vouches for.\n";

int main(int argc, char **argv)
{
    struct attacker *all;

    if (argc != 9) {
        fputs(usage, stderr);
        return 2;
    }
    for (plan.kind = SLOW; strcmp(argv[1], kinds[plan.kind]) != 0; plan.kind++)
        if (plan.kind == HANDSHAKES)
            die("%s: no such kind", argv[1]);
    plan.address = argv[2];
    plan.source = argv[3];
    plan.connections = (unsigned)strtoul(argv[4], NULL, 10);
    plan.token = argv[5];
    plan.host = argv[6];
    plan.tunnel = argv[7];
    plan.tls = wire_client_context(argv[8]);
    if (plan.kind == HANDSHAKES) {
        char *name = strdup(plan.tunnel);

        name[strcspn(name, ":")] = '\0';
        plan.host = name;
    }
    wire_need_files(plan.connections + 100);
    epoll_fd = epoll_create1(0);
    all = calloc(plan.connections, sizeof *all);
    if (!all || epoll_fd < 0)
        die("%s", strerror(errno));
    for (unsigned i = 0; i < plan.connections; i++)
        all[i].wire.fd = -1;
    run(all);
}
