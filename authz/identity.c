/* Owns copies of a token's words, counted by reference. Must not know the token text or any key. */
#include "authz/identity.h"

#include <assert.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/text.h"

enum word {
    WORD_SANDBOX,
    WORD_SUBJECT,
    WORD_ISSUER,
    WORD_ISSUER_NAME,
    WORD_JTI,
    WORD_KID,
    WORD_CLIENT_ID,
    WORD_SCOPE,
    WORD_LISTENER,
    WORD_CERTIFICATE,
    N_WORDS
};

struct identity {
    unsigned refs;
    char *words[N_WORDS];
    struct details *details;
    int64_t issued_s, expires_s;
    uint64_t key_mark;
    unsigned char fingerprint[32];
    struct identity_mark jti_mark, sandbox_mark, quarantine_mark;
};

struct identity_mark identity_mark_of(const char *kind, struct slice value)
{
    unsigned char digest[32];
    struct identity_mark mark;
    struct buf text = {0};

    buf_printf(&text, "%s:", kind);
    buf_append(&text, value);
    if (!EVP_Q_digest(NULL, "SHA256", NULL, buf_slice(&text).ptr, buf_len(&text), digest, NULL))
        abort();
    memcpy(mark.words, digest, sizeof mark.words);
    buf_free(&text);
    return mark;
}

struct identity *identity_make(const struct identity_claims *c, struct fault *why)
{
    const char *const words[N_WORDS] = {
        [WORD_SANDBOX] = c->sandbox, [WORD_ISSUER] = c->issuer,       [WORD_ISSUER_NAME] = c->issuer_name,
        [WORD_JTI] = c->jti,         [WORD_KID] = c->kid,             [WORD_CLIENT_ID] = c->client_id,
        [WORD_SCOPE] = c->scope,     [WORD_LISTENER] = c->listener, [WORD_SUBJECT] = c->subject,
        [WORD_CERTIFICATE] = c->certificate,
    };
    struct details *details = NULL;
    struct identity *i;

    if (c->details && !(details = details_parse(slice_of(c->details), why)))
        return NULL;
    if (!(i = calloc(1, sizeof *i)))
        abort();
    i->refs = 1;
    i->details = details;
    for (int w = 0; w < N_WORDS; w++)
        i->words[w] = text_copy(slice_of(words[w]));
    i->issued_s = c->issued_s;
    i->expires_s = c->expires_s;
    i->key_mark = c->key_mark;
    if (c->fingerprint)
        memcpy(i->fingerprint, c->fingerprint, sizeof i->fingerprint);
    i->jti_mark = identity_mark_of("jti", slice_of(c->jti));
    i->sandbox_mark = identity_mark_of("sandbox", slice_of(c->sandbox));
    i->quarantine_mark = identity_mark_of("quarantine", slice_of(c->sandbox));
    return i;
}

struct identity *identity_ref(struct identity *i)
{
    assert(i->refs > 0);
    i->refs++;
    return i;
}

void identity_unref(struct identity *i)
{
    if (!i)
        return;
    assert(i->refs > 0);
    if (--i->refs)
        return;
    for (int w = 0; w < N_WORDS; w++)
        free(i->words[w]);
    details_free(i->details);
    free(i);
}

const char *identity_sandbox(const struct identity *i)
{
    return i->words[WORD_SANDBOX];
}

const char *identity_subject(const struct identity *i)
{
    return i->words[WORD_SUBJECT];
}

const char *identity_issuer(const struct identity *i)
{
    return i->words[WORD_ISSUER];
}

const char *identity_issuer_name(const struct identity *i)
{
    return i->words[WORD_ISSUER_NAME];
}

const char *identity_jti(const struct identity *i)
{
    return i->words[WORD_JTI];
}

const char *identity_kid(const struct identity *i)
{
    return i->words[WORD_KID];
}

const char *identity_client_id(const struct identity *i)
{
    return i->words[WORD_CLIENT_ID];
}

const char *identity_scope(const struct identity *i)
{
    return i->words[WORD_SCOPE];
}

const char *identity_listener(const struct identity *i)
{
    return i->words[WORD_LISTENER];
}

const char *identity_certificate(const struct identity *i)
{
    return i->words[WORD_CERTIFICATE];
}

bool identity_has_scope(const struct identity *i, const char *scope)
{
    struct slice all = slice_of(i->words[WORD_SCOPE]), one;

    while (slice_next(&all, ' ', &one))
        if (one.len && slice_is(one, scope))
            return true;
    return false;
}

int64_t identity_expires_s(const struct identity *i)
{
    return i->expires_s;
}

int64_t identity_issued_s(const struct identity *i)
{
    return i->issued_s;
}

const unsigned char *identity_fingerprint(const struct identity *i)
{
    return i->fingerprint;
}

uint64_t identity_key_mark(const struct identity *i)
{
    return i->key_mark;
}

bool identity_has_details(const struct identity *i)
{
    return i->details != NULL;
}

size_t identity_detail_count(const struct identity *i)
{
    return details_count(i->details);
}

const struct detail *identity_detail(const struct identity *i, size_t n)
{
    return details_get(i->details, n);
}

struct identity_mark identity_jti_mark(const struct identity *i)
{
    return i->jti_mark;
}

struct identity_mark identity_sandbox_mark(const struct identity *i)
{
    return i->sandbox_mark;
}

struct identity_mark identity_quarantine_mark(const struct identity *i)
{
    return i->quarantine_mark;
}
