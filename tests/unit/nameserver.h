/*
 * A name server for tests, on loopback, UDP and TCP on one port: what it says for a name is in a table. Included
 * after cmocka.h.
 */
#ifndef TESTS_NAMESERVER_H
#define TESTS_NAMESERVER_H

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/addr.h"
#include "net/loop.h"

enum { TYPE_A = 1, TYPE_CNAME = 5, TYPE_AAAA = 28, TTL = 60, NOERROR = 0, SERVFAIL = 2, NXDOMAIN = 3, REFUSED = 5 };

struct entry {
    const char *owner; /* NULL: the name asked for */
    int type;
    const char *data;
};

struct script {
    const char *name;
    int code;
    bool silent, only_tcp, foreign_question;
    int many; /* that many A records */
    struct entry answer[6];
};

struct server {
    struct loop *loop;
    const struct script *scripts; /* ended by one without a name; other names get no answer */
    struct addr addr;
    int udp, tcp, talk;
    struct watch *watch_udp, *watch_tcp, *watch_talk;
    int asked, asked_tcp;
    struct addr from; /* whoever asked last by UDP */
};

static const struct script *find_script(const struct server *s, const char *name)
{
    for (const struct script *at = s->scripts; at->name; at++)
        if (strcasecmp(at->name, name) == 0 || (at->name[0] == '*' && slice_ends(slice_of(name), slice_of(at->name + 1))))
            return at;
    return NULL;
}

static void put16(struct buf *b, unsigned n)
{
    buf_char(b, (char)(n >> 8));
    buf_char(b, (char)(n & 0xff));
}

static void put_name(struct buf *b, const char *name)
{
    struct slice left = slice_of(name), label;

    while (slice_next(&left, '.', &label)) {
        buf_char(b, (char)label.len);
        buf_append(b, label);
    }
    buf_char(b, 0);
}

static void put_record(struct buf *b, const char *owner, int type, const char *data)
{
    struct buf rdata = {0};
    struct addr a;

    if (type == TYPE_CNAME) {
        put_name(&rdata, data);
    } else {
        assert_true(addr_parse_ip(slice_of(data), &a));
        buf_append(&rdata, slice_make(a.ip, type == TYPE_A ? 4 : 16));
    }
    put_name(b, owner);
    put16(b, (unsigned)type);
    put16(b, 1);
    put16(b, 0);
    put16(b, TTL);
    put16(b, (unsigned)buf_len(&rdata));
    buf_append(b, buf_slice(&rdata));
    buf_free(&rdata);
}

/* The name and type of the question. */
static unsigned read_question(struct slice query, char *name)
{
    size_t at = 12, len = 0;

    while (query.ptr[at]) {
        size_t label = (unsigned char)query.ptr[at++];

        memcpy(name + len, query.ptr + at, label);
        len += label;
        at += label;
        name[len++] = '.';
    }
    name[len - 1] = '\0';
    return (unsigned)(unsigned char)query.ptr[at + 1] << 8 | (unsigned char)query.ptr[at + 2];
}

static unsigned put_answers(struct buf *b, const struct script *s, unsigned type)
{
    unsigned n = 0;

    for (const struct entry *e = s->answer; e->data; e++)
        if (e->type == TYPE_CNAME || e->type == (int)type) {
            put_record(b, e->owner ? e->owner : s->name, e->type, e->data);
            n++;
        }
    for (int i = 0; i < s->many && type == TYPE_A; i++, n++) {
        struct buf text = {0};

        buf_printf(&text, "192.0.2.%d%c", i + 1, 0);
        put_record(b, s->name, TYPE_A, buf_slice(&text).ptr);
        buf_free(&text);
    }
    return n;
}

/* False: nothing is said. */
static bool respond(const struct server *server, struct slice query, bool tcp, struct buf *out)
{
    char name[256];
    unsigned type = read_question(query, name), n = 0;
    const struct script *s = find_script(server, name);
    struct buf answers = {0};
    bool cut = s && s->only_tcp && !tcp;

    if (!s || s->silent)
        return false;
    if (!cut)
        n = put_answers(&answers, s, type);
    buf_append(out, slice_cut(query, 0, 2));
    put16(out, 0x8180u | (cut ? 0x200u : 0) | (unsigned)s->code);
    put16(out, 1);
    put16(out, n);
    put16(out, 0);
    put16(out, 0);
    put_name(out, s->foreign_question ? "elsewhere.test" : name);
    put16(out, type);
    put16(out, 1);
    buf_append(out, buf_slice(&answers));
    buf_free(&answers);
    return true;
}

static void on_udp(void *arg, unsigned ready)
{
    struct server *s = arg;
    struct sockaddr_storage from;
    socklen_t len = sizeof from;
    char query[2048];
    ssize_t got = recvfrom(s->udp, query, sizeof query, 0, (struct sockaddr *)&from, &len);
    struct buf out = {0};

    (void)ready;
    assert_true(got > 12);
    s->asked++;
    addr_from_sockaddr(&s->from, (struct sockaddr *)&from);
    if (respond(s, slice_make(query, (size_t)got), false, &out))
        sendto(s->udp, buf_slice(&out).ptr, buf_len(&out), 0, (struct sockaddr *)&from, len);
    buf_free(&out);
}

static void end_talk(struct server *s)
{
    watch_free(s->watch_talk);
    s->watch_talk = NULL;
    if (s->talk >= 0)
        close(s->talk);
    s->talk = -1;
}

/* A question comes whole here: it is small, and this is loopback. */
static void on_talk(void *arg, unsigned ready)
{
    struct server *s = arg;
    unsigned char size[2];
    char query[2048];
    struct buf out = {0}, framed = {0};
    size_t len;

    (void)ready;
    if (recv(s->talk, size, 2, 0) != 2) {
        end_talk(s);
        return;
    }
    len = (size_t)size[0] << 8 | size[1];
    assert_true(len <= sizeof query && recv(s->talk, query, len, 0) == (ssize_t)len);
    s->asked_tcp++;
    if (respond(s, slice_make(query, len), true, &out)) {
        put16(&framed, (unsigned)buf_len(&out));
        buf_append(&framed, buf_slice(&out));
        send(s->talk, buf_slice(&framed).ptr, buf_len(&framed), MSG_NOSIGNAL);
    }
    buf_free(&framed);
    buf_free(&out);
}

static void on_tcp(void *arg, unsigned ready)
{
    struct server *s = arg;

    (void)ready;
    end_talk(s);
    s->talk = accept(s->tcp, NULL, NULL);
    s->watch_talk = watch_new(s->loop, s->talk, WATCH_READ, on_talk, s);
}

/* UDP and TCP with one port number. */
static void server_open(struct server *s, struct loop *l, const struct script *scripts)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof in;

    *s = (struct server){.loop = l, .scripts = scripts, .talk = -1};
    s->tcp = socket(AF_INET, SOCK_STREAM, 0);
    s->udp = socket(AF_INET, SOCK_DGRAM, 0);
    assert_int_equal(bind(s->tcp, (struct sockaddr *)&in, sizeof in), 0);
    assert_int_equal(getsockname(s->tcp, (struct sockaddr *)&in, &len), 0);
    assert_int_equal(bind(s->udp, (struct sockaddr *)&in, sizeof in), 0);
    assert_int_equal(listen(s->tcp, 4), 0);
    addr_from_sockaddr(&s->addr, (struct sockaddr *)&in);
    s->watch_udp = watch_new(l, s->udp, WATCH_READ, on_udp, s);
    s->watch_tcp = watch_new(l, s->tcp, WATCH_READ, on_tcp, s);
}

static void server_close(struct server *s)
{
    end_talk(s);
    watch_free(s->watch_udp);
    watch_free(s->watch_tcp);
    close(s->udp);
    close(s->tcp);
}

#endif
