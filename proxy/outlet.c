#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/text.h"
#include "proxy/door.h"
#include "proxy/usher.h"

enum { AT_ONCE = 64, TALKS_MAX = 512 };

/* One socket. A datagram's is drained some at a time, so that the other sockets have their turn in a flood. */
struct port {
    struct port *next;
    struct outlet *outlet;
    int fd;
    bool takes_tcp;
    struct watch *watch; /* of datagrams */
    struct door *door;   /* of connections; owns fd */
};

static void *must(void *p)
{
    if (!p)
        abort();
    return p;
}

struct outlet *outlet_new(struct usher *u, struct slice name)
{
    struct outlet *o = must(calloc(1, sizeof *o));

    *o = (struct outlet){.usher = u, .name = text_copy(name), .refs = 1};
    return o;
}

void outlet_add(struct outlet *o, int fd, bool takes_tcp)
{
    struct port *p = must(calloc(1, sizeof *p));

    *p = (struct port){.next = o->ports, .outlet = o, .fd = fd, .takes_tcp = takes_tcp};
    o->ports = p;
}

/* False: nothing is there. */
static bool take_datagram(struct port *p)
{
    struct asked from = {.outlet = p->outlet, .fd = p->fd, .peer_len = sizeof from.peer};
    char message[DNS_ASKED_MAX + 1];
    ssize_t n = recvfrom(p->fd, message, sizeof message, MSG_TRUNC, (struct sockaddr *)&from.peer, &from.peer_len);

    if (n < 0)
        return errno == EINTR || errno == ECONNREFUSED; /* an answer before that went nowhere */
    if (n > DNS_ASKED_MAX)
        usher_count(p->outlet->usher, COUNTER_DNS_DROPPED, 1);
    else
        inquiry_take(&from, slice_make(message, (size_t)n));
    return true;
}

static void on_datagrams(void *arg, unsigned ready)
{
    struct port *p = arg;

    (void)ready;
    for (int i = 0; i < AT_ONCE && p->outlet->zone; i++)
        if (!take_datagram(p))
            return;
}

static void on_visitor(void *arg, int fd)
{
    struct port *p = arg;

    door_left(p->door); /* talk.c counts who is inside, over all doors */
    talk_start(p->outlet, fd);
}

void outlet_open(struct outlet *o, const struct zone *zone)
{
    struct loop *l = o->usher->role->loop;

    o->zone = zone;
    for (struct port *p = o->ports; p; p = p->next)
        if (p->takes_tcp && !p->door)
            p->door = door_new(l, p->fd, TALKS_MAX, on_visitor, p);
        else if (!p->takes_tcp && !p->watch)
            p->watch = watch_new(l, p->fd, WATCH_READ, on_datagrams, p);
}

void outlet_close(struct outlet *o)
{
    o->zone = NULL;
    for (struct port *p = o->ports; p; p = p->next) {
        watch_free(p->watch);
        p->watch = NULL;
    }
    talks_close(o->usher, o);
    outlet_unref(o);
}

struct outlet *outlet_ref(struct outlet *o)
{
    o->refs++;
    return o;
}

void outlet_unref(struct outlet *o)
{
    struct port *p;

    if (--o->refs)
        return;
    while ((p = o->ports)) {
        o->ports = p->next;
        watch_free(p->watch);
        if (p->door)
            door_free(p->door);
        else
            close(p->fd);
        free(p);
    }
    free(o->name);
    free(o);
}
