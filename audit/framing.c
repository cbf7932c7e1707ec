/*
 * Owns RL-12. Each request has a second one in what is its content by one reading and not by the other: two answers, or the second
 * request at the upstream, say that it was taken out. What is told by one answer is only whether such requests are taken at all.
 */
#include "audit/framing.h"

#include "audit/probes.h"
#include "base/text.h"

enum { TAG_MUST_REFUSE = 1 /* RFC 9112 demands 400 */, TAG_MAY_TAKE /* in one of the readings, and nothing behind it */ };

static void send_one(struct evidence *e, const char *variant, int tag, const char *other, const char *before)
{
    struct buf authority = {0};
    const char *tail, *length;

    target_authority(e->target, 0, &authority);
    tail = words(e, "%sGET /%s HTTP/1.1\r\nHost: %.*s\r\nConnection: close\r\n\r\n", before, nonce_new(e), SLICE_ARG(buf_slice(&authority)));
    length = words(e, "Content-Length: %zu", strlen(tail));
    ask(e, (struct probe){.method = "POST", .path = baseline_at(e, 0)->path, .who = good_or_nobody(e), .is_by_hand = true, .reads_on = true, .fields = {length, other, "Connection: keep-alive"}, .body = slice_of(tail),
                          .body_type = "application/octet-stream", .variant = variant, .tag = tag});
    buf_free(&authority);
}

void send_framings(struct evidence *e)
{
    static const char end[] = "0\r\n\r\n"; /* of chunked content */

    send_one(e, "a length and chunks", TAG_MAY_TAKE, "Transfer-Encoding: chunked", end);
    send_one(e, "a blank before the colon of Transfer-Encoding", TAG_MUST_REFUSE, "Transfer-Encoding : chunked", end);
    send_one(e, "chunks that are not the last coding", TAG_MUST_REFUSE, "Transfer-Encoding: chunked, identity", end);
    send_one(e, "a bare CR before Transfer-Encoding", TAG_MAY_TAKE, "X-Exeat: a\rTransfer-Encoding: chunked", end);
    send_one(e, "two lengths", TAG_MUST_REFUSE, "Content-Length: 0", "");
}

/* Status lines in all that came. */
static size_t count_answers(const struct turn *x)
{
    size_t n = 0;

    for (int part = 0; part < 2; part++) {
        struct slice rest = part ? buf_slice(&x->body) : buf_slice(&x->head), line;

        while (slice_next(&rest, '\n', &line)) {
            ptrdiff_t at = slice_search(line, SLICE("HTTP/1.1 ")); /* content before it need not end its line */

            n += at >= 0 && line.len >= (size_t)at + 12 && line.ptr[at + 9] >= '2' && line.ptr[at + 9] <= '5' && (line.len == (size_t)at + 12 || strchr(" \r", line.ptr[at + 12]));
        }
    }
    return n;
}

/* Its line names the second request: what only has it in its content was read as it should be. */
static bool came_as_request(const struct evidence *e, const struct hit *h)
{
    struct slice bytes = buf_slice(&h->bytes), line;

    if (!slice_next(&bytes, '\n', &line))
        return false;
    for (size_t i = 0; i < e->n_nonces; i++)
        if (text_holds(line, slice_of(e->nonces[i])))
            return true;
    return false;
}

void judge_framings(const struct evidence *e, struct finding *f)
{
    finding_set(f, VERDICT_PASS, "requests that can be read in two ways are refused, or read in one");
    for (size_t i = 0; i < e->n; i++) {
        const struct turn *x = e->list[i];

        if (count_answers(x) > 1)
            finding_worsen(f, VERDICT_FAIL, "one request, two answers: %s", x->variant);
        else if (turn_is_2xx(x) && x->tag == TAG_MUST_REFUSE)
            finding_worsen(f, VERDICT_WEAK, "taken, though it can be read in two ways: %s (%d)", x->variant, x->status);
    }
    for (size_t i = 0; i < e->n_upstream_hits; i++)
        if (came_as_request(e, &e->upstream_hits[i]))
            finding_set(f, VERDICT_FAIL, "a request within a request came to the upstream");
}
