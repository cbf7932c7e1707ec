/* Owns nothing: the supervisor's keyring, and what of it lies in the state directory. Parses no set. */
#include <openssl/evp.h>

#include "base/pack.h"
#include "base/say.h"
#include "proxy/handout.h"
#include "proxy/supervisor.h"

void keybox_open(struct supervisor *s)
{
    struct fault why = {0};

    s->keyring = keyring_new();
    if (!keyring_load(s->keyring, s->config->conf, s->config->state, &why))
        say_warning("%s; the keys are fetched anew", why.text);
}

static bool verifies(const struct process *p)
{
    return p->role == ROLE_WORKER || p->role == ROLE_KEEPER;
}

static void give(void *arg, struct slice message)
{
    struct process *p = arg;

    if (p->control)
        channel_send(p->control, MSG_KEYS, message, -1);
}

void keybox_hand(const struct supervisor *s, struct process *p)
{
    if (verifies(p) || p->role == ROLE_CLERK)
        keyring_send(s->keyring, give, p);
}

static void record(struct supervisor *s, struct slice issuer, struct slice set, struct slice words)
{
    struct record_writer w = recorder_begin(s->recorder, RECORD_KEYS);
    unsigned char hash[32];

    record_text(&w, FIELD_ISSUER, issuer);
    record_text(&w, FIELD_DETAIL, words);
    if (EVP_Q_digest(NULL, "SHA256", NULL, set.ptr, set.len, hash, NULL))
        record_hex(&w, FIELD_HASH, slice_make(hash, sizeof hash));
    recorder_end(s->recorder, &w, NULL);
}

static void store(struct supervisor *s, const struct conf_item *item, struct slice uri, int64_t now_s, struct slice set)
{
    struct fault why = {0};

    if (!keyring_store(s->config->state, conf_name(item), uri, now_s, set, &why))
        say_warning("keys of issuer %s are in force, but not stored: %s", conf_name(item), why.text);
}

/* The issuer of that name, when it publishes keys. */
static const struct conf_item *find(const struct supervisor *s, struct slice issuer)
{
    for (size_t i = 0; i < conf_count(s->config->conf, "issuers"); i++) {
        const struct conf_item *item = conf_item(s->config->conf, "issuers", i);

        if (slice_is(issuer, conf_name(item)) && conf_has(item, "jwks-uri"))
            return item;
    }
    return NULL;
}

bool keybox_fetched(struct supervisor *s, struct slice payload)
{
    struct unpack u = unpack_start(payload);
    struct slice issuer = unpack_bytes(&u), set = unpack_bytes(&u), words = unpack_bytes(&u), uri;
    const struct conf_item *item = find(s, issuer);
    int64_t now_s = loop_wall_s(s->loop);
    struct buf message = {0};

    if (!unpack_done(&u) || set.len > KEYRING_SET_MAX)
        return false;
    if (!item) /* it went with a reload */
        return true;
    uri = slice_of(conf_text(item, "jwks-uri"));
    keyring_keep(s->keyring, s->config->conf);
    if (keyring_put(s->keyring, issuer, uri, now_s, set))
        record(s, issuer, set, words);
    store(s, item, uri, now_s, set);
    keyring_pack(&message, issuer, uri, now_s, set);
    for (size_t i = 0; i < s->n_processes; i++)
        if (verifies(&s->processes[i]))
            give(&s->processes[i], buf_slice(&message));
    buf_free(&message);
    return true;
}

bool keybox_wanted(struct supervisor *s, struct slice payload)
{
    struct unpack u = unpack_start(payload);
    bool known = find(s, unpack_bytes(&u)) != NULL;

    for (size_t i = 0; i < s->n_processes && known && unpack_done(&u); i++)
        if (s->processes[i].role == ROLE_CLERK && s->processes[i].control)
            channel_send(s->processes[i].control, MSG_WANT_KEYS, payload, -1);
    return unpack_done(&u);
}
