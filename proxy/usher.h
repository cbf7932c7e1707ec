/*
 * The usher: the one role that answers DNS questions, and so parses packets of anybody who reaches it. It has no file, no key, no token and
 * no way out: a name is looked up by the porter. Inside: outlets (sockets), talks (TCP connections), inquiries (questions under way).
 */
#ifndef PROXY_USHER_H
#define PROXY_USHER_H

#include <sys/queue.h>

#include "proxy/asks.h"
#include "proxy/counters.h"
#include "proxy/limits.h"
#include "proxy/patron.h"
#include "proxy/recorder.h"
#include "proxy/role.h"
#include "proxy/sift.h"
#include "proxy/zone.h"

struct inquiry;
struct talk;

struct usher {
    struct role_context *role;
    struct recorder *recorder;
    struct limits limits;
    struct zones zones;
    struct sift *sift; /* NULL: nobody asks */
    struct patrons *patrons;
    struct asks *porter;
    struct counters *counters;
    TAILQ_HEAD(inquiry_list, inquiry) inquiries; /* the oldest first */
    TAILQ_HEAD(talk_list, talk) talks; /* who said something last is last */
    size_t n_talks;
    bool stopping;
};

/* ---- proxy/outlet.c: the sockets of one DNS listener ---- */

struct outlet {
    struct outlet *next;
    struct usher *usher;
    char *name;              /* "steer" */
    const struct zone *zone; /* of the configuration in force; NULL: the listener is gone */
    struct port *ports;      /* its sockets */
    size_t refs;
};

/* Nothing is read before outlet_open. outlet_add takes fd. */
struct outlet *outlet_new(struct usher *u, struct slice name);
void outlet_add(struct outlet *o, int fd, bool takes_tcp);
void outlet_open(struct outlet *o, const struct zone *zone);
/* It is read no more; the sockets close when no answer is due on them. */
void outlet_close(struct outlet *o);
struct outlet *outlet_ref(struct outlet *o);
void outlet_unref(struct outlet *o);

/* ---- proxy/talk.c: one client's TCP connection (RFC 7766) ---- */

/* Takes fd. Holds the outlet. */
void talk_start(struct outlet *o, int fd);
/* An answer (borrowed), its length in front of it. */
void talk_answer(struct talk *t, struct slice message);
/* One of its questions is over. */
void talk_done(struct talk *t);
/* Each second: those that say nothing, or too slowly, go. */
void talks_tick(struct usher *u);
void talks_close(struct usher *u, const struct outlet *of); /* NULL: all */

/* ---- proxy/inquiry.c: one question, from its bytes to its answer ---- */

/* Where it came from, and where its answer goes. */
struct asked {
    struct outlet *outlet;
    struct talk *talk; /* NULL: by a datagram, on fd */
    int fd;
    struct sockaddr_storage peer;
    socklen_t peer_len;
};

/* message is borrowed. False: there will be no answer. */
bool inquiry_take(const struct asked *from, struct slice message);
/* Each second: those that the scribe or the porter left waiting for too long are given up. */
void inquiries_tick(struct usher *u);
/* The connection is gone: its questions go their way, and are answered to nobody. */
void inquiries_forget(struct usher *u, const struct talk *t);
/* The record of refusals that were summed. */
void inquiry_sum(struct usher *u, const struct patron *p, const struct sum *s);

static inline void usher_count(struct usher *u, enum counter c, int by)
{
    u->counters->values[c] += (uint64_t)by;
}

#endif
