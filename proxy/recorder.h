/*
 * The sending side of the journal: used by worker, porter and keeper alike. Builds records into a batch,
 * sends it to the scribe at the end of a turn, and tells who waits whether theirs is written.
 * Knows nothing of files; what happens on the wire is written in proxy/role.h (MSG_RECORDS, MSG_RECORDED, MSG_REFUSED).
 */
#ifndef PROXY_RECORDER_H
#define PROXY_RECORDER_H

#include "journal/record.h"
#include "net/loop.h"

struct recorder;

/*
 * Embedded in the struct of whoever waits; zero it, set on_recorded and arg, and give it to recorder_end. From then until
 * on_recorded is called or recorder_cancel, it belongs to the recorder and must stay where it is.
 * on_recorded comes once, from the loop, never from inside a call to the recorder. ok: the record is written. Not ok: it
 * is not, or nobody knows (the scribe died): what it would have allowed must not happen.
 * It may call anything here, free the struct that holds the wait, or wait again.
 */
struct record_wait {
    void (*on_recorded)(void *arg, bool ok);
    void *arg;
    /* the recorder's own */
    struct record_wait *next, *prev;
    uint64_t role_seq;
};

/* loop is kept. Begins without a scribe: closed. */
struct recorder *recorder_new(struct loop *loop);
/* Only once the loop no longer turns. Who still waits is not called. */
void recorder_free(struct recorder *r);

/*
 * The channel to a scribe (takes fd), the first one or that of a restarted scribe. Whoever still waits on the one before
 * gets false; records nobody waits for and that were not acknowledged are sent again, first.
 */
void recorder_attach(struct recorder *r, int fd);
/* False while there is no scribe or it refuses: no record, no egress. */
bool recorder_is_open(const struct recorder *r);
/* Nothing is left to send and every answer is here: before a role exits. */
bool recorder_is_settled(const struct recorder *r);
/*
 * Before a role exits: done(arg) once, from the loop, when the recorder is settled, or after two seconds when the
 * scribe does not let it be.
 */
void recorder_settle(struct recorder *r, void (*done)(void *arg), void *arg);
/* Every record from now on carries this generation of the policy; 0: none. */
void recorder_stamp(struct recorder *r, uint64_t generation);
/* Records acknowledged so far, for the counters. */
uint64_t recorder_written(const struct recorder *r);

/*
 * Build one record; the functions of journal/record.h put the fields in. Between begin and end nothing else of this
 * recorder is called.
 *
 *     struct record_writer w = recorder_begin(r, RECORD_DECISION);
 *     record_id(&w, FIELD_ID, &x->id);
 *     recorder_end(r, &w, &x->wait);
 *
 * Records of kind result, connection and upstream, which tell of an end that nobody waits for, and those of recorder_ride go with
 * the next other record, or after some milliseconds; all others at the end of the turn, or a moment later when more is ready.
 * wait NULL: nobody waits (results). Such a record is kept until it is acknowledged, through refusals and restarts of
 * the scribe; above 4 MiB of them new ones are lost, counted, and told by a record of kind lost.
 * A record that somebody waits for is not kept: while the recorder is closed it is dropped and on_recorded(false) comes
 * at the end of the turn.
 */
struct record_writer recorder_begin(struct recorder *r, enum record_kind kind);
void recorder_end(struct recorder *r, struct record_writer *w, struct record_wait *wait);
/* The same, for a record whose acknowledgement is needed no sooner than that of one yet to come. */
void recorder_ride(struct recorder *r, struct record_writer *w, struct record_wait *wait);
/* Wait no longer; the record itself goes its way. Fine when nothing is pending. */
void recorder_cancel(struct recorder *r, struct record_wait *wait);
static inline bool record_is_waiting(const struct record_wait *wait)
{
    return wait->prev != NULL;
}

#endif
