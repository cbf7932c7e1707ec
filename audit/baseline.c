/* Owns what every answer is held against: how the protected paths answer everybody. */
#include "audit/state.h"
#include "base/text.h"

static struct turn *ask_as(struct audit *a, const char *path, enum who who, const char *variant)
{
    return ask(&a->own, (struct probe){.path = path, .who = who, .variant = variant, .tag = who});
}

static void take(struct audit *a, const char *path)
{
    struct baseline *b = &a->baselines[a->n_baselines++];

    b->path = text_copy(slice_of(path));
    b->none = ask_as(a, path, WHO_NOBODY, "baseline B0");
    if (a->target->first.secret) {
        b->good = ask_as(a, path, WHO_FIRST, "baseline B1");
        b->junk = ask_as(a, path, WHO_JUNK, "baseline Bx");
    }
    if (a->target->second.secret)
        b->second = ask_as(a, path, WHO_SECOND, "baseline B2");
}

static bool nothing_there(const struct base_url *u, struct fault *why)
{
    struct buf at = {0};

    addr_text(&at, &u->at);
    fault_set(why, FAULT_IO, "nothing listens at %s, %.*s; does the service run? See url and address of the manifest", u->host, SLICE_ARG(buf_slice(&at)));
    buf_free(&at);
    return false;
}

bool baselines_take(struct audit *a, struct fault *why)
{
    size_t n = target_count(a->target, "protected");
    const char *path = target_text(a->target, "fetch");

    for (size_t i = 0; i < n && i < BASELINES_MAX; i++)
        take(a, target_text_at(a->target, "protected", i));
    if (n == 0 && path && a->beacon)
        take(a, fill(&a->own, path, nonce_new(&a->own)));
    else if (n == 0)
        take(a, a->target->dialect == DIALECT_OCI ? "/v2/" : "/");
    if (a->baselines[0].none->outcome == OUTCOME_REFUSED)
        return nothing_there(&a->target->base[0], why);
    a->nowhere = ask_as(a, words(&a->own, "/%s", nonce_new(&a->own)), WHO_NOBODY, "a path that nobody has");
    return true;
}

bool baselines_hold(struct audit *a)
{
    const struct baseline *b = &a->baselines[0];
    const struct turn *again;

    if (!turn_answered(b->none) || a->is_dead || a->sent >= a->budget)
        return true; /* said elsewhere */
    again = ask_as(a, b->path, WHO_NOBODY, "baseline B0 again");
    return turn_alike(b->none, again);
}

void baselines_version(struct audit *a)
{
    const struct turn *x = a->baselines[0].none;
    struct slice value;
    size_t n = 0;

    if (!turn_field(x, "Server", 0, &value) && !turn_field(x, "X-Powered-By", 0, &value))
        return;
    for (size_t i = 0; i < value.len && n + 1 < sizeof a->version; i++)
        if (value.ptr[i] >= ' ' && value.ptr[i] <= '~')
            a->version[n++] = value.ptr[i];
}
