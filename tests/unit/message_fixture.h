/* Messages fed in pieces, and what came of it as a line of letters. For tests; included once by each program. */
#ifndef TESTS_UNIT_MESSAGE_FIXTURE_H
#define TESTS_UNIT_MESSAGE_FIXTURE_H

#include <string.h>

#include "net/head.h"

/* What came out: H head, a body bytes, T trailers, E end, ! bad; then M. */
static inline void feed(struct message *m, struct slice input, struct buf *out)
{
    for (;;) {
        struct fault why = {0};
        size_t used = 0;
        enum message_event event = message_feed(m, input, &used, &why);

        assert_true(used <= input.len);
        if (event == MESSAGE_HEAD)
            buf_char(out, 'H');
        else if (event == MESSAGE_BODY)
            buf_append(out, message_body(m));
        else if (event == MESSAGE_TRAILERS)
            buf_char(out, 'T');
        else if (event == MESSAGE_END)
            buf_char(out, 'E');
        else if (event == MESSAGE_BAD) {
            buf_char(out, '!');
            return;
        } else
            return;
        input = slice_from(input, used);
        if (event == MESSAGE_END) {
            message_reset(m);
            if (input.len == 0)
                return;
        }
    }
}

/* Whole, in two pieces at every place, and byte by byte: events is what comes of each. */
static inline void expect_bytes(const struct message_limits *limits, enum message_kind kind, bool head_request,
                         const char *name, struct slice raw, const char *events)
{
    size_t len = raw.len;

    for (size_t cut = 0; cut <= len + 1; cut++) {
        struct message *m = message_new(kind, limits);
        struct buf out = {0};

        message_expect(m, head_request);
        if (cut == len + 1) {
            for (size_t i = 0; i < len && !(buf_len(&out) && out.ptr[out.end - 1] == '!'); i++)
                feed(m, slice_make(raw.ptr + i, 1), &out);
        } else {
            feed(m, slice_make(raw.ptr, cut), &out);
            if (!(buf_len(&out) && out.ptr[out.end - 1] == '!'))
                feed(m, slice_make(raw.ptr + cut, len - cut), &out);
        }
        buf_char(&out, '\0');
        /* a refusal repeated after a refusal is one refusal */
        if (strcmp(buf_slice(&out).ptr, events) != 0)
            fail_msg("%s (cut %zu): expected %s, got %s", name, cut, events, buf_slice(&out).ptr);
        buf_free(&out);
        message_free(m);
    }
}

#endif
