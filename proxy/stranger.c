/* Connections that have not shown a good token: how many a source may have, and which of them makes room. */
#include <assert.h>
#include <stdio.h>

#include "proxy/answer.h"
#include "proxy/arrival.h"
#include "proxy/exchange.h"

void session_is_known(struct session *s)
{
    TAILQ_REMOVE(&s->source_party->strangers, s, stranger_link);
    TAILQ_REMOVE(&s->worker->strangers, s, any_stranger_link);
}

/* The first is told why, when it is between requests: then nothing of an answer is on its way. */
void session_evict(struct session *s)
{
    struct worker *w = s->worker;
    int64_t wall_s = loop_wall_s(w->loop);
    struct sum first = {.reason = REASON_LIMIT_CONNECTIONS, .count = 1, .first_s = wall_s, .last_s = wall_s};
    struct answer a = {.reason = REASON_LIMIT_CONNECTIONS, .gateway = w->gateway, .id = &first.id, .minor = 1};
    bool is_first;

    assert(!s->party);
    first.id = id_new(loop_wall_ns(w->loop) / 1000000);
    snprintf(first.detail, sizeof first.detail, "of connections without a token the oldest makes room");
    a.detail = first.detail;
    w->counters->decisions[first.reason]++;
    is_first = sums_add(&s->source_party->sums, first.reason, first.detail, loop_now_ms(w->loop), wall_s, &first.id);
    if (is_first)
        evidence_sum(w, s->source_party, &first);
    if (!is_first || s->state != SESSION_HEAD || (s->arrival && !s->arrival->decided)) { /* one of many costs no more than its end */
        session_close(s, false);
        return;
    }
    answer_write(&a, wall_s, stream_out(s->client));
    stream_flush(s->client);
    session_close(s, true);
}

/* One source does not crowd out the others, nor itself: who says nothing goes first. */
static void make_room(struct worker *w, struct party *source)
{
    struct verdict v;

    if (!TAILQ_EMPTY(&source->strangers) &&
        !quota_room(&w->quota, source, HOLD_CONNECTIONS, loop_now_ms(w->loop), &v))
        session_evict(TAILQ_FIRST(&source->strangers));
}

void session_count_stranger(struct session *s)
{
    s->source_party = parties_source(s->worker->parties, &s->source, s->listener);
    make_room(s->worker, s->source_party);
    tally_hold(s->source_party->seat, HOLD_CONNECTIONS, 1);
    TAILQ_INSERT_TAIL(&s->source_party->strangers, s, stranger_link);
    TAILQ_INSERT_TAIL(&s->worker->strangers, s, any_stranger_link);
    stream_set_lane(s->client, &s->source_party->lane);
}
