#include "tests/fuzz/lib/heard.h"

#include <assert.h>

#include "net/frame.h"
#include "net/upgrade.h"

const struct message_limits heard_limits = {32 << 10, 8 << 10, 100};

struct asked {
    struct message *parser;
    struct slice left;
    bool last; /* nothing can follow: a bad request, or one that is not whole */
    bool handshake; /* it is one of WebSocket */
    bool tunnel;    /* it is a CONNECT to where TLS is spoken */
};

static bool has_no_body(const struct head *h, struct slice answer)
{
    return slice_is(h->method, "HEAD") ||
           (slice_is(h->method, "CONNECT") && slice_starts(slice_from(answer, 8), SLICE(" 200")));
}

/* The next request, and whether the answer to it, which begins with these bytes, has no body. False when there is none. */
static bool next_asked(struct asked *a, struct slice answer, bool *no_body)
{
    size_t used;

    *no_body = false;
    if (a->last || (a->left.len == 0 && !message_is_open(a->parser)))
        return false;
    for (;;) {
        enum message_event event = message_feed(a->parser, a->left, &used, NULL);

        a->left = slice_from(a->left, used);
        a->last = event == MESSAGE_BAD || event == MESSAGE_MORE;
        if (event == MESSAGE_HEAD) {
            *no_body = has_no_body(message_head(a->parser), answer);
            a->handshake = upgrade_check_request(message_head(a->parser), NULL);
            a->tunnel = *no_body && slice_is(message_head(a->parser)->method, "CONNECT") && slice_ends(message_head(a->parser)->target, SLICE(":443"));
        }
        if (event == MESSAGE_END)
            message_reset(a->parser);
        if (event == MESSAGE_END || a->last)
            return true;
    }
}

/* One answer, or the part of it that is there; false when it is not whole. */
static bool next_heard(struct message *answers, struct slice *heard, bool *interim)
{
    enum message_event event;
    size_t used;

    do {
        event = message_feed(answers, *heard, &used, NULL);
        *heard = slice_from(*heard, used);
        assert(event != MESSAGE_BAD);
        if (event == MESSAGE_HEAD)
            *interim = message_head(answers)->status < 200;
    } while (event != MESSAGE_END && event != MESSAGE_MORE);
    return event == MESSAGE_END;
}

static void check_frames(struct slice heard, bool whole)
{
    struct frame_reader r = {.message_max = UINT32_MAX};
    enum frame_event event;
    struct frame f;
    size_t used;

    do {
        event = frame_read(&r, heard, &used, &f, NULL);
        heard = slice_from(heard, used);
        assert(event != FRAME_BAD);
    } while (event != FRAME_MORE);
    assert(!whole || r.closed);
}

void heard_check_tls(struct slice heard)
{
    enum { HEADER = 5, FIRST_TYPE = 20, LAST_TYPE = 23 };

    while (heard.len) {
        const unsigned char *at = (const unsigned char *)heard.ptr;

        assert(at[0] >= FIRST_TYPE && at[0] <= LAST_TYPE);
        heard = slice_from(heard, heard.len < HEADER ? heard.len : HEADER + (size_t)(at[3] << 8 | at[4]));
    }
}

/* The last answer. Who sent it may not have read the method yet that says whether it has content. */
static bool is_timeout(struct slice answer)
{
    return slice_starts(slice_from(answer, 8), SLICE(" 408"));
}

void heard_check(struct slice said, struct slice heard, bool whole)
{
    struct message *answers = message_new(MESSAGE_RESPONSE, &heard_limits);
    struct asked asked = {message_new(MESSAGE_REQUEST, &heard_limits), said, false, false, false};
    bool interim = false, no_body = false, more = true, switched = false;

    while (more && heard.len) {
        if (!interim)
            assert(next_asked(&asked, heard, &no_body));
        if (is_timeout(heard))
            break;
        message_expect(answers, no_body);
        more = next_heard(answers, &heard, &interim);
        switched = more && message_head(answers)->status == 101;
        if (switched || (more && asked.tunnel))
            break;
        if (more)
            message_reset(answers);
    }
    if (switched) {
        assert(asked.handshake);
        check_frames(heard, whole);
    } else if (more && asked.tunnel) {
        heard_check_tls(heard);
    } else if (whole)
        assert(message_finish(answers, NULL) != MESSAGE_BAD);
    message_free(answers);
    message_free(asked.parser);
}
