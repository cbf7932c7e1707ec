/* Channels: what a hostile process at the other end may put into a message besides bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/ipc.h"

enum { MOST = 253 /* SCM_MAX_FD */ };

static struct heard {
    int messages, descriptors, ends;
} heard;

static struct channel *channel;

static void on_message(void *arg, uint16_t type, struct slice payload, int fd)
{
    (void)arg, (void)type, (void)payload;
    heard.messages++;
    if (fd < 0)
        return;
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    heard.descriptors++;
    close(fd);
}

static void on_end(void *arg)
{
    (void)arg;
    heard.ends++;
    channel_free(channel);
}

static size_t open_descriptors(void)
{
    size_t n = 0;

    for (int fd = 0; fd < 1024; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* A message with n descriptors, as no channel of ours sends it. */
static void send_with(int to, size_t n)
{
    char space[CMSG_SPACE(MOST * sizeof(int))] = {0};
    struct iovec part = {(void *)"\1\0", 2};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};

    if (n) {
        struct cmsghdr *h;

        m.msg_control = space;
        m.msg_controllen = CMSG_SPACE(n * sizeof(int));
        h = CMSG_FIRSTHDR(&m);
        h->cmsg_level = SOL_SOCKET;
        h->cmsg_type = SCM_RIGHTS;
        h->cmsg_len = CMSG_LEN(n * sizeof(int));
        for (size_t i = 0; i < n; i++)
            memcpy(CMSG_DATA(h) + i * sizeof(int), &(int){STDERR_FILENO}, sizeof(int));
    }
    assert_int_equal(sendmsg(to, &m, MSG_NOSIGNAL), 2);
}

static const struct row {
    const char *name;
    size_t sent;
    int messages, descriptors, ends;
} rows[] = {
    {"none", 0, 1, 0, 0},
    {"one is given", 1, 1, 1, 0},
    {"of two one is given, so that who expects none hears of it, and the other is closed", 2, 1, 1, 0},
    {"of three likewise", 3, 1, 1, 0},
    {"of as many as go into a message likewise", MOST, 1, 1, 0},
};

static void run(const struct row *r, struct loop *l)
{
    static const struct channel_handler handler = {on_message, on_end};
    int pair[2];

    heard = (struct heard){0};
    assert_true(channel_pair(pair, NULL));
    channel = channel_new(l, pair[0], &handler, NULL);
    send_with(pair[1], r->sent);
    loop_defer(l, (void (*)(void *))loop_stop, l); /* one turn, at whose end the loop stops */
    loop_run(l);
    if (!heard.ends)
        channel_free(channel);
    close(pair[1]);
    loop_defer(l, (void (*)(void *))loop_stop, l);
    loop_run(l);
}

static void a_message_brings_one_descriptor_or_none(void **state)
{
    struct loop *l = loop_new();

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t before = open_descriptors(), after;

        run(&rows[i], l);
        after = open_descriptors();
        if (heard.messages != rows[i].messages || heard.descriptors != rows[i].descriptors ||
            heard.ends != rows[i].ends || before != after)
            fail_msg("%s: %d messages, %d descriptors, %d ends, %zu descriptors more open", rows[i].name, heard.messages,
                     heard.descriptors, heard.ends, after - before);
    }
    loop_free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_message_brings_one_descriptor_or_none)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
