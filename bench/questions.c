/*
 * A hostile sandbox that asks DNS questions: RATE a second, whatever is answered, each for a name of its own below SUFFIX, in turn from some
 * sockets. It never ends by itself. How many it has sent by now is kept at the start of standard output, a file.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { SOCKETS = 8, BATCH = 32, MESSAGE_MAX = 300, HEADER = 12, TURN_NS = 1000000, SECOND_NS = 1000000000 };

static char messages[BATCH][MESSAGE_MAX];
static struct iovec pieces[BATCH];
static struct mmsghdr batch[BATCH];
static uint64_t sent;

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * SECOND_NS + (uint64_t)t.tv_nsec;
}

static struct sockaddr_in parse(const char *text, char *port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)(port ? strtoul(port, NULL, 10) : 0))};

    if (inet_pton(AF_INET, text, &a.sin_addr) != 1)
        die(text);
    return a;
}

/* "n123.SUFFIX A IN", with an OPT. */
static size_t write_question(char *at, const char *suffix, uint64_t n)
{
    static const char header[HEADER] = {0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1}, opt[] = "\0\0\1\0\1\0\0\51\4\320\0\0\0\0\0";
    char *start = at, label[24];

    memcpy(at, header, HEADER);
    at[0] = (char)(n >> 8);
    at[1] = (char)n;
    at += HEADER;
    snprintf(label, sizeof label, "n%llu", (unsigned long long)n);
    for (const char *part = label; *part;) {
        size_t len = strcspn(part, ".");

        *at++ = (char)len;
        memcpy(at, part, len);
        at += len;
        part = part == label ? suffix : part + len + (part[len] == '.');
    }
    memcpy(at, opt, sizeof opt - 1 + 1);
    return (size_t)(at - start) + sizeof opt;
}

/* What the kernel does not take is lost, as on a wire. */
static void send_batch(int fd, const char *suffix)
{
    for (unsigned i = 0; i < BATCH; i++) {
        pieces[i] = (struct iovec){messages[i], write_question(messages[i], suffix, sent + i)};
        batch[i].msg_hdr = (struct msghdr){.msg_iov = &pieces[i], .msg_iovlen = 1};
    }
    if (sendmmsg(fd, batch, BATCH, MSG_DONTWAIT) < 0 && errno != EAGAIN && errno != ECONNREFUSED)
        die("sendmmsg");
    sent += BATCH;
}

static void tell(void)
{
    char text[24];
    int len = snprintf(text, sizeof text, "%llu\n", (unsigned long long)sent);

    if (pwrite(STDOUT_FILENO, text, (size_t)len, 0) < 0)
        die("standard output");
}

/* As many as are due; what was missed while it was stopped is not sent at once. */
static void flood(const int *fds, const char *suffix, uint64_t rate)
{
    uint64_t last = now_ns(), due = 0;

    for (unsigned turn = 0;; turn++) {
        struct timespec pause = {.tv_nsec = TURN_NS};
        uint64_t now = now_ns(), passed = now - last;

        last = now;
        due += rate * (passed < SECOND_NS / 4 ? passed : TURN_NS);
        for (; due >= (uint64_t)BATCH * SECOND_NS; due -= (uint64_t)BATCH * SECOND_NS)
            send_batch(fds[sent / BATCH % SOCKETS], suffix);
        if (turn % 16 == 0)
            tell();
        nanosleep(&pause, NULL);
    }
}

int main(int argc, char **argv)
{
    struct sockaddr_in to, from;
    int fds[SOCKETS];
    char *port;

    if (argc != 5 || !(port = strchr(argv[1], ':'))) {
        fputs("usage: questions ADDRESS:PORT SOURCE RATE SUFFIX >SENT\n", stderr);
        return 2;
    }
    *port++ = '\0';
    to = parse(argv[1], port);
    from = parse(argv[2], NULL);
    for (unsigned i = 0; i < SOCKETS; i++)
        if ((fds[i] = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) < 0 || bind(fds[i], (struct sockaddr *)&from, sizeof from) < 0 ||
            connect(fds[i], (struct sockaddr *)&to, sizeof to) < 0)
            die("socket");
    flood(fds, argv[4], strtoul(argv[3], NULL, 10));
}
