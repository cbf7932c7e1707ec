/*
 * Patrons: who asks a DNS listener. The sandbox that a listener is for, or a source address (the /64 of an IPv6 one); how many questions
 * and distinct names it may ask, against its own limits and its share of what all may (share.h). One that nobody holds is kept while
 * what it did still counts. Sends and records nothing.
 */
#ifndef PROXY_PATRON_H
#define PROXY_PATRON_H

#include <sys/queue.h>

#include "base/buf.h"
#include "net/addr.h"
#include "net/dns_question.h"
#include "proxy/limits.h"
#include "proxy/pace.h"
#include "proxy/sums.h"

struct patrons;
struct seen;

enum { PATRONS_MAX = 4096, PATRON_PENDING = 256, PENDING_ALL = 4096, PATRON_TAIL = 2048, PATRON_TAILS = 6 };

struct patron {
    char name[80];   /* the sandbox (cut), or the address as text */
    bool is_sandbox;
    struct sums sums;
    size_t pending;  /* questions that are not answered yet */
    size_t conns;
    struct buf tails[PATRON_TAILS]; /* letters of the names it asked for last (proxy/sift.h) */
    unsigned char last[DNS_NAME_MAX]; /* the name before, as it came */
    size_t last_len;
    /* the list's own */
    struct pace questions, names, below;
    struct seen *seen;
    size_t refs;
    int64_t last_ms;
    TAILQ_ENTRY(patron) link;
    struct slice key;
};

/* tell gets every sum that is due, and those of a patron before it goes. */
typedef void patrons_tell(void *arg, const struct patron *p, const struct sum *s);
struct patrons *patrons_new(patrons_tell *tell, void *arg);
void patrons_free(struct patrons *ps);

/* A reference, to be given back by patron_unref. sandbox NULL: whoever has that source address. */
struct patron *patrons_find(struct patrons *ps, const char *sandbox, const struct addr *source, int64_t now_ms);
struct patron *patron_ref(struct patron *p);
void patron_unref(struct patron *p);

enum patron_pace {
    PATRON_WITHIN,
    PATRON_OVER, /* refused, and told so */
    PATRON_FAR,  /* over twice as many: not worth an answer */
};

/* One more question. detail (160 bytes) gets what it is over. */
enum patron_pace patrons_count(struct patrons *ps, struct patron *p, const struct limits *l, int64_t now_ms, char *detail);
/* May one more of its questions wait for an answer? */
bool patrons_have_room(const struct patrons *ps, const struct patron *p);
void patrons_hold(struct patrons *ps, struct patron *p, int by);
/*
 * A name it asks for (bytes of whatever case), below a listed suffix or not. limit_names, limit_questions: it is a new one, and one
 * too many; detail as above. *is_new: it was not asked for within the hour.
 */
enum reason patrons_name(struct patrons *ps, struct patron *p, struct slice name, bool below_suffix, const struct limits *l,
                         int64_t now_ms, bool *is_new, char *detail);

/* Each second: sums that are due (all: that there are) are told, and who did nothing lately is forgotten. */
void patrons_tick(struct patrons *ps, int64_t now_ms, bool all);
size_t patrons_number(const struct patrons *ps);

#endif
