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
    take(arg, (struct spelling){.view = name, .literal = text_copy(secret), .len = secret.len});
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

static void put_byte(struct buf *out, unsigned char c, const char *digits)
{
    buf_char(out, digits[c >> 4]);
    buf_char(out, digits[c & 15]);
}

/* Byte by byte in hexadecimal digits, whose case says nothing. */
static struct spelling spell_digits(const char *name, struct slice secret, const char *before)
{
    struct buf out = {0};
    struct spelling s = {.view = name, .any_case = true};

    for (size_t i = 0; i < secret.len; i++) {
        buf_text(&out, before);
        put_byte(&out, (unsigned char)secret.ptr[i], "0123456789abcdef");
    }
    s.len = buf_len(&out);
    s.literal = text_copy(buf_slice(&out));
    buf_wipe(&out);
    return s;
}

static void spell_hex(const char *name, struct slice secret, spelling_take *take, void *arg)
{
    take(arg, spell_digits(name, secret, ""));
}

/* RFC 3986 2.3: who encodes only what must be leaves these as they are. */
static bool is_unreserved(char c)
{
    return c && strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~", c);
}

/* In the other bytes case means something, so there is one spelling for each case of the digits. */
static void spell_needed(const char *name, struct slice secret, const char *digits, spelling_take *take, void *arg)
{
    struct buf out = {0};

    for (size_t i = 0; i < secret.len; i++) {
        bool as_it_is = is_unreserved(secret.ptr[i]);

        buf_char(&out, as_it_is ? secret.ptr[i] : '%');
        if (!as_it_is)
            put_byte(&out, (unsigned char)secret.ptr[i], digits);
    }
    if (buf_len(&out) != secret.len)
        take(arg, (struct spelling){.view = name, .literal = text_copy(buf_slice(&out)), .len = buf_len(&out)});
    buf_wipe(&out);
}

/* Every byte, as who hides does, and only those that must be, as forms and clients do. */
static void spell_percent(const char *name, struct slice secret, spelling_take *take, void *arg)
{
    take(arg, spell_digits(name, secret, "%"));
    spell_needed(name, secret, "0123456789ABCDEF", take, arg);
    spell_needed(name, secret, "0123456789abcdef", take, arg);
}

static const struct view views[] = {
    {"identity", spell_identity}, {"base64", spell_base64}, {"base64url", spell_base64url},
    {"hex", spell_hex},           {"percent", spell_percent},
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
