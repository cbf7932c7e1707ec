/*
 * A prisoner's line to its parent: what became of closing its cell, and the ear of it. For tests only; include after
 * cmocka.h.
 */
#ifndef TESTS_UNIT_PRISONER_H
#define TESTS_UNIT_PRISONER_H

#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

struct prisoner_word {
    unsigned walls;
    int error; /* of the attempt; -1: the cell could not be closed */
};

static inline void prisoner_give(int fd, const struct prisoner_word *word, int ear)
{
    struct iovec part = {(void *)word, sizeof *word};
    char space[CMSG_SPACE(sizeof ear)] = {0};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};

    if (ear >= 0) {
        struct cmsghdr *h;

        m.msg_control = space;
        m.msg_controllen = sizeof space;
        h = CMSG_FIRSTHDR(&m);
        h->cmsg_level = SOL_SOCKET;
        h->cmsg_type = SCM_RIGHTS;
        h->cmsg_len = CMSG_LEN(sizeof ear);
        memcpy(CMSG_DATA(h), &ear, sizeof ear);
    }
    if (sendmsg(fd, &m, 0) < 0)
        _exit(2);
}

static inline int prisoner_take(int fd, struct prisoner_word *word)
{
    struct iovec part = {word, sizeof *word};
    char space[CMSG_SPACE(sizeof(int))];
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    int ear = -1;

    assert_int_equal(recvmsg(fd, &m, MSG_CMSG_CLOEXEC), sizeof *word);
    if (CMSG_FIRSTHDR(&m))
        memcpy(&ear, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof ear);
    return ear;
}

#endif
