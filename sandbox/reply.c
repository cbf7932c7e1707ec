#include "sandbox/reply.h"

/* "HTTP/1.1 200" or "HTTP/1.0 200", then a space or the end of the line. */
static const char line[] = "HTTP/1.x ddd";

enum { LINE_LEN = sizeof line - 1 };

static bool fits(struct reply *r, unsigned char c)
{
    switch (line[r->n]) {
    case 'x':
        return c == '0' || c == '1';
    case 'd':
        r->code = r->code * 10 + (c - '0');
        return c >= '0' && c <= '9';
    default:
        return c == (unsigned char)line[r->n];
    }
}

static enum reply_says judge(struct reply *r)
{
    if (r->connect ? r->code >= 200 && r->code <= 299 : r->code == 101)
        return REPLY_YES;
    r->interim = r->code >= 100 && r->code <= 199 && r->code != 101;
    return r->interim ? REPLY_NOT_YET : REPLY_NO;
}

/* An interim head goes by up to its empty line; then another status line follows. */
static void pass_interim(struct reply *r, unsigned char c)
{
    unsigned char wanted = r->end % 2 ? '\n' : '\r';

    r->end = c == wanted ? (unsigned char)(r->end + 1) : c == '\r' ? 1 : 0;
    if (r->end == 4)
        *r = (struct reply){.connect = r->connect};
}

static enum reply_says step(struct reply *r, unsigned char c)
{
    enum reply_says says = REPLY_NOT_YET;

    if (r->n < LINE_LEN) {
        if (!fits(r, c))
            return REPLY_NO;
        r->n++;
        return REPLY_NOT_YET;
    }
    if (!r->interim) {
        says = c == ' ' || c == '\r' ? judge(r) : REPLY_NO;
        r->end = 0;
    }
    if (r->interim)
        pass_interim(r, c);
    return says;
}

enum reply_says reply_feed(struct reply *r, const unsigned char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        enum reply_says says = step(r, bytes[i]);

        if (says != REPLY_NOT_YET)
            return says;
    }
    return REPLY_NOT_YET;
}
