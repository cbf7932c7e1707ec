/* Knows encodings as they look from outside; knows no database and no stream. */
#include "canary/view.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"

typedef void spelling_take(void *arg, struct spelling s);

struct view {
    const char *name;
    void (*spell)(const char *name, struct slice secret, spelling_take *take, void *arg);
};

static void spell_identity(const char *name, struct slice secret, spelling_take *take, void *arg)
{
    take(arg, (struct spelling){name, text_copy(secret), secret.len, 0, 0});
}

/*
 * Base64 of a text in which the secret begins at byte `at` of a group of three.
 * Character i carries bits [6i, 6i+6); the secret is bits [8at, 8at+8len). The literal is the characters wholly
 * inside; one more at either end carries the rest of a byte, mixed with a neighbour's bits.
 */
static struct spelling spell_at(struct slice secret, size_t at, void (*encode)(struct buf *, struct slice))
{
    size_t from_bit = 8 * at, to_bit = from_bit + 8 * secret.len;
    size_t first = (from_bit + 5) / 6, end = to_bit / 6;
    struct buf plain = {0}, encoded = {0};
    struct spelling s;

    buf_append(&plain, slice_make("\0\0", at));
    buf_append(&plain, secret);
    encode(&encoded, buf_slice(&plain));
    s = (struct spelling){
        .literal = text_copy(slice_cut(buf_slice(&encoded), first, end)),
        .len = end - first,
        .lead = (unsigned)(first - from_bit / 6),
        .trail = (unsigned)((to_bit + 5) / 6 - end),
    };
    buf_wipe(&plain);
    buf_wipe(&encoded);
    return s;
}

static void spell_base64(const char *name, struct slice secret, spelling_take *take, void *arg)
{
    for (size_t at = 0; at < 3; at++) {
        struct spelling s = spell_at(secret, at, text_base64);

        s.view = name;
        take(arg, s);
    }
}

/* Only where the alphabets differ: most secrets spell the same in both. */
static void spell_base64url(const char *name, struct slice secret, spelling_take *take, void *arg)
{
    for (size_t at = 0; at < 3; at++) {
        struct spelling s = spell_at(secret, at, text_base64url);

        s.view = name;
        if (memchr(s.literal, '-', s.len) || memchr(s.literal, '_', s.len))
            take(arg, s);
        else
            free(s.literal);
    }
}

static const struct view views[] = {
    {"identity", spell_identity},
    {"base64", spell_base64},
    {"base64url", spell_base64url},
};

void view_spell(struct slice secret, void (*take)(void *arg, struct spelling s), void *arg)
{
    for (size_t i = 0; i < sizeof views / sizeof views[0]; i++)
        views[i].spell(views[i].name, secret, take, arg);
}

void view_spell_plain(struct slice secret, void (*take)(void *arg, struct spelling s), void *arg)
{
    spell_identity(views[0].name, secret, take, arg);
}
