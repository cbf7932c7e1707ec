/* Owns what a minted canary looks like, kind by kind, and the mark that tells it synthetic. */
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/secret.h"
#include "base/text.h"
#include "canary/registry.h"

#define MARK_LEN 6
#define BASE62 "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

/* value = front, n_random characters of the alphabet, the mark in the same alphabet. */
struct kind {
    const char *name;
    void (*front)(struct buf *out, int64_t now_s); /* NULL: prefix */
    const char *prefix;
    const char *alphabet;
    size_t n_random;
    const char *where;
};

static void jwt_front(struct buf *out, int64_t now_s)
{
    struct buf claims = {0};

    buf_printf(&claims, "{\"iss\":\"https://login.corp\",\"sub\":\"svc-deploy\",\"iat\":%lld,\"exp\":%lld}",
               (long long)now_s, (long long)now_s + 31536000);
    text_base64url(out, SLICE("{\"alg\":\"HS384\",\"typ\":\"JWT\"}"));
    buf_char(out, '.');
    text_base64url(out, buf_slice(&claims));
    buf_char(out, '.');
    buf_free(&claims);
}

/* HS384, because its 48 bytes fill 64 characters exactly: any characters decode. */
static const struct kind kinds[] = {
    {"aws", NULL, "", BASE62, 34, "~/.aws/credentials, as aws_secret_access_key"},
    {CANARY_AUDIT_KIND, NULL, "exeat_", BASE62, 30, "nowhere: exeat audit --from plants and retires it"},
    {"generic", NULL, "", "0123456789abcdef", 34, "an environment variable or .env file, as API_KEY"},
    {"github", NULL, "ghp_", BASE62, 30, "~/.git-credentials, as the password; or GITHUB_TOKEN"},
    {"jwt", jwt_front, "", BASE62, 58, "a service's configuration, as its access token"},
    {"npm", NULL, "npm_", BASE62, 30, "~/.npmrc, as _authToken"},
    {"password", NULL, "", BASE62, 16, "~/.netrc or a database URL, as the password"},
};
#define N_KINDS (sizeof kinds / sizeof kinds[0])

static const struct kind *kind_find(const char *name)
{
    for (size_t i = 0; i < N_KINDS; i++)
        if (strcmp(kinds[i].name, name) == 0)
            return &kinds[i];
    return NULL;
}

const char *registry_kinds(void)
{
    return "aws|generic|github|jwt|npm|password";
}

const char *registry_where(const char *kind)
{
    const struct kind *k = kind_find(kind);

    return k ? k->where : "wherever its like would be found";
}

bool canary_is_audits(struct slice id)
{
    return slice_starts(id, SLICE(CANARY_AUDIT_KIND "-"));
}

/* The mark: what SHA-256 makes of the random part, in the alphabet of the kind. */
static void make_mark(const struct kind *k, struct slice random, char mark[MARK_LEN])
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    struct buf text = {0};
    unsigned len = 0;

    buf_text(&text, "exeat canary ");
    buf_append(&text, random);
    if (EVP_Digest(buf_slice(&text).ptr, buf_len(&text), digest, &len, EVP_sha256(), NULL) != 1)
        abort();
    for (size_t i = 0; i < MARK_LEN; i++)
        mark[i] = k->alphabet[digest[i] % strlen(k->alphabet)];
    buf_wipe(&text);
}

bool canary_is_marked(const struct canary *c)
{
    const struct kind *k = kind_find(c->kind);
    char mark[MARK_LEN];

    if (!k || c->random_from + c->random_len + MARK_LEN != c->value_len)
        return false;
    make_mark(k, slice_make(c->value + c->random_from, c->random_len), mark);
    return memcmp(c->value + c->value_len - MARK_LEN, mark, MARK_LEN) == 0;
}

/* n characters, each equally likely: bytes beyond the last whole multiple are drawn again. */
static void put_random(struct buf *out, const char *alphabet, size_t n)
{
    size_t size = strlen(alphabet);

    while (n) {
        unsigned char byte;

        secret_random(&byte, 1);
        if (byte >= 256 - 256 % size)
            continue;
        buf_char(out, alphabet[byte % size]);
        n--;
    }
}

static char *make_id(const struct registry *r, const char *kind)
{
    for (;;) {
        struct buf id = {0};
        char *text;

        buf_printf(&id, "%s-", kind);
        put_random(&id, "0123456789abcdef", 6);
        text = buf_take_text(&id);
        if (!registry_has(r, text))
            return text;
        free(text);
    }
}

/* A random part that happens to look poor (a digit or letter too often) is drawn again. */
static void make_value(const struct kind *k, int64_t now_s, struct buf *value, struct canary *c)
{
    struct slice random;
    char mark[MARK_LEN];

    do {
        buf_clear(value);
        if (k->front)
            k->front(value, now_s);
        else
            buf_text(value, k->prefix);
        c->random_from = buf_len(value);
        c->random_len = k->n_random;
        put_random(value, k->alphabet, k->n_random);
        random = slice_from(buf_slice(value), c->random_from);
    } while (canary_bits(random) < CANARY_BITS_MIN);
    make_mark(k, random, mark);
    buf_append(value, slice_make(mark, MARK_LEN));
    c->value = buf_slice(value).ptr;
    c->value_len = buf_len(value);
}

const struct canary *registry_mint(struct registry *r, const char *kind, const char *sandbox, int64_t now_s,
                                   struct fault *why)
{
    const struct kind *k = kind_find(kind);
    struct buf value = {0}, created = {0};
    const struct canary *added;
    struct canary c = {.kind = kind, .sandbox = sandbox};
    char *id, *created_text;

    if (!k)
        return fault_set(why, FAULT_USAGE, "no canary kind \"%.40s\"; there are %s", kind, registry_kinds()), NULL;
    id = make_id(r, kind);
    clock_rfc3339(&created, now_s * 1000000000);
    created_text = buf_take_text(&created);
    make_value(k, now_s, &value, &c);
    c.id = id;
    c.created = created_text;
    added = registry_add(r, &c, why);
    free(id);
    free(created_text);
    buf_wipe(&value);
    return added;
}
