/*
 * The keeper: holds the key of the CA's intermediate and that of assertions. Answers two questions of workers: "a leaf for this
 * host", when they said first which key it is for, only for hosts that its own policy lists; and "a credential for this
 * service", for a leave token that it verifies itself (proxy/vault.h). Both only when the record is written. It builds all
 * that it signs: no byte of a worker's gets under a signature but a listed host, the worker's public key, and what a
 * verified token says.
 */
#include <openssl/err.h>
#include <openssl/x509.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/pack.h"
#include "base/say.h"
#include "certs/ca.h"
#include "net/name.h"
#include "proxy/desk.h"
#include "proxy/keyring.h"
#include "proxy/recorder.h"
#include "proxy/role.h"
#include "proxy/vault.h"

enum { ISSUES_MAX = 256, IDS_MAX = 1024, LATE_MS = 5000 };

/*
 * ISSUES_MAX: hosts one worker waits for at once. IDS_MAX: questions that wait for one host. LATE_MS:
 * so long after a change of the policy a question by the one before may still be on its way.
 */

struct client;

/* A leaf that was made and waits for its record. */
struct issue {
    struct issue *next, **link;
    struct client *client;
    struct record_wait wait;
    struct buf ids; /* u32 each: the questions it answers */
    char host[NAME_MAX_LEN + 1];
    struct buf chain;
    struct ca_issued issued;
};

/* A worker, as long as its channel lives. */
struct client {
    struct visitor visitor;
    EVP_PKEY *key;        /* NULL until it has said it */
    struct ca_form *form; /* for that key */
    struct ca_form *before; /* the same of keeper.before, when that has a CA of its own */
    struct issue *issues;
    size_t n_issues;
};

/* What is answered by: a policy, the CA whose intermediate permits its hosts, and what grants are made by. */
struct book {
    const struct policy *policy; /* the role's; NULL: there is no such book */
    struct ca *ca;
    struct strongbox *box;
};

static struct keeper {
    struct role_context *context;
    struct book now;
    struct book before; /* until no worker decides by its policy any more; its CA may be that of now */
    struct book next;   /* built; so may its */
    struct fault ca_fault; /* why there is none; told at start */
    int64_t settled_ms;
    struct recorder *recorder;
    struct desk desk;
    struct keyring *keyring; /* keys that issuers publish */
} keeper;

static void *must(void *p)
{
    if (!p)
        abort();
    return p;
}

/* ---- answers ---- */

static void answer_no(struct client *c, uint32_t id, const char *detail)
{
    struct buf out = {0};

    pack_u32(&out, id);
    pack_bytes(&out, slice_of(detail));
    desk_answer(&c->visitor, MSG_NOT_CERTIFIED, &out, -1);
    buf_free(&out);
}

static void answer_yes(struct client *c, uint32_t id, const struct issue *i)
{
    struct buf out = {0};

    pack_u32(&out, id);
    pack_u64(&out, (uint64_t)i->issued.not_after_s);
    pack_bytes(&out, buf_slice(&i->chain));
    desk_answer(&c->visitor, MSG_CERTIFIED, &out, -1);
    buf_free(&out);
}

/* ---- issues ---- */

static struct issue *issue_new(struct client *c, const char *host)
{
    struct issue *i = must(calloc(1, sizeof *i));

    i->client = c;
    memcpy(i->host, host, strlen(host) + 1);
    i->next = c->issues;
    i->link = &c->issues;
    if (i->next)
        i->next->link = &i->next;
    c->issues = i;
    c->n_issues++;
    return i;
}

static void issue_free(struct issue *i)
{
    recorder_cancel(keeper.recorder, &i->wait);
    *i->link = i->next;
    if (i->next)
        i->next->link = i->link;
    i->client->n_issues--;
    buf_free(&i->ids);
    buf_free(&i->chain);
    free(i);
}

static struct issue *issue_find(const struct client *c, const char *host)
{
    struct issue *i = c->issues;

    while (i && strcmp(i->host, host) != 0)
        i = i->next;
    return i;
}

static void on_recorded(void *arg, bool ok)
{
    struct issue *i = arg;
    struct unpack ids = unpack_start(buf_slice(&i->ids));

    while (ids.left.len) {
        uint32_t id = unpack_u32(&ids);

        if (ok)
            answer_yes(i->client, id, i);
        else
            answer_no(i->client, id, "the journal does not accept records");
    }
    issue_free(i);
}

static struct record_writer begin_record(const struct client *c, const char *action, const char *host)
{
    struct record_writer w = recorder_begin(keeper.recorder, RECORD_CERTIFICATE);
    struct buf asker = {0};

    buf_printf(&asker, "worker %d", c->visitor.index);
    record_text(&w, FIELD_ACTION, slice_of(action));
    record_text(&w, FIELD_HOST, slice_of(host));
    record_text(&w, FIELD_DETAIL, buf_slice(&asker));
    buf_free(&asker);
    return w;
}

static void record_issue(struct issue *i, const struct service *s)
{
    struct record_writer w = begin_record(i->client, "allow", i->host);

    record_text(&w, FIELD_SERVICE, slice_of(service_name(s)));
    record_hex(&w, FIELD_SERIAL, slice_make(i->issued.serial, sizeof i->issued.serial));
    record_number(&w, FIELD_NOT_AFTER, i->issued.not_after_s);
    i->wait = (struct record_wait){.on_recorded = on_recorded, .arg = i};
    recorder_end(keeper.recorder, &w, &i->wait);
}

static void record_refusal(const struct client *c, const char *host)
{
    struct record_writer w = begin_record(c, "deny", host);

    record_reason(&w, FIELD_REASON, REASON_HOST_NOT_LISTED);
    recorder_end(keeper.recorder, &w, NULL);
}

/* ---- questions ---- */

/* The service that lists host on one of its TLS ports, as policy_find says for that port; NULL when none does. */
static const struct service *lists(const struct policy *p, const char *host)
{
    for (size_t i = 0; i < policy_count(p); i++) {
        const struct service *s = policy_service(p, i);
        uint16_t port;

        for (size_t k = 0; (port = service_tls_port(s, k)); k++)
            if (policy_find(p, host, port) == s)
                return s;
    }
    return NULL;
}

static void refuse_host(struct client *c, uint32_t id, const char *host)
{
    if (!desk_bears_unlisted(&c->visitor))
        return;
    if (c->visitor.unlisted == 1) /* the journal has the others */
        say_warning("worker %d asked for a certificate for %s, which no service lists", c->visitor.index, host);
    record_refusal(c, host);
    answer_no(c, id, "no service lists this host on a TLS port");
}

static void begin_issue(struct client *c, uint32_t id, const char *host, const struct service *s, struct ca_form *form)
{
    struct issue *i = issue_new(c, host);
    struct fault why = {0};

    pack_u32(&i->ids, id);
    if (ca_issue(form, host, loop_wall_s(keeper.context->loop), &i->chain, &i->issued, &why)) {
        record_issue(i, s);
        return;
    }
    say_warning("no certificate for %s: %s", host, why.text);
    answer_no(c, id, why.text);
    issue_free(i);
}

/* By the policy that the worker decided by, while it is here; by ours otherwise. */
static bool goes_by_before(uint64_t generation)
{
    return keeper.before.policy && policy_generation(keeper.before.policy) == generation;
}

static bool is_late(uint64_t generation)
{
    return generation < keeper.context->generation && keeper.settled_ms &&
           loop_now_ms(keeper.context->loop) - keeper.settled_ms < LATE_MS;
}

static void on_certify(struct client *c, struct slice payload)
{
    struct unpack u = unpack_start(payload);
    uint32_t id = unpack_u32(&u);
    uint64_t generation = unpack_u64(&u);
    bool old = goes_by_before(generation);
    struct slice host = unpack_bytes(&u);
    char canonical[NAME_MAX_LEN + 1];
    const struct service *s;
    struct issue *i;

    if (!unpack_done(&u) || !c->form || !name_canonical(host, canonical, NULL) || !slice_is(host, canonical))
        desk_expel(&c->visitor, "a malformed CERTIFY");
    else if (!(s = lists(old ? keeper.before.policy : keeper.now.policy, canonical)) && is_late(generation))
        answer_no(c, id, "no service lists this host any more");
    else if (!s)
        refuse_host(c, id, canonical);
    else if ((i = issue_find(c, canonical)) && buf_len(&i->ids) < IDS_MAX * sizeof id)
        pack_u32(&i->ids, id);
    else if (c->n_issues >= ISSUES_MAX)
        answer_no(c, id, "too many certificates are being made");
    else
        begin_issue(c, id, canonical, s, old && c->before ? c->before : c->form);
}

static void on_grant(struct client *c, struct slice payload)
{
    struct unpack u = unpack_start(payload);
    uint32_t id = unpack_u32(&u);
    bool old = goes_by_before(unpack_u64(&u));

    if (!vault_grant(&c->visitor, id, &u, old ? keeper.before.box : keeper.now.box))
        desk_expel(&c->visitor, "a malformed GRANT");
}

/* What a worker says of its key is one SubjectPublicKeyInfo to its exact end. */
static EVP_PKEY *parse_key(struct slice payload)
{
    struct unpack u = unpack_start(payload);
    struct slice der = unpack_bytes(&u);
    const unsigned char *at = (const unsigned char *)der.ptr;
    EVP_PKEY *key = unpack_done(&u) ? d2i_PUBKEY(NULL, &at, (long)der.len) : NULL;

    ERR_clear_error();
    if (key && at != (const unsigned char *)der.ptr + der.len) {
        EVP_PKEY_free(key);
        key = NULL;
    }
    return key;
}

static void on_leaf_key(struct client *c, struct slice payload)
{
    if (c->key || !(c->key = parse_key(payload)) || !(c->form = ca_form_new(keeper.now.ca, c->key, NULL)))
        desk_expel(&c->visitor, "a leaf key that is malformed, of a wrong kind, or the second one");
}

static void on_message(struct visitor *v, uint16_t type, struct slice payload)
{
    struct client *c = (struct client *)v;

    if (!keeper.now.ca)
        return; /* start says why, and ends this process */
    if (type == MSG_LEAF_KEY)
        on_leaf_key(c, payload);
    else if (type == MSG_CERTIFY)
        on_certify(c, payload);
    else if (type == MSG_GRANT && keeper.now.box)
        on_grant(c, payload);
    else
        desk_expel(v, "a message that workers may not send to it");
}

static void on_leave(struct visitor *v)
{
    struct client *c = (struct client *)v;

    vault_left(v);
    while (c->issues)
        issue_free(c->issues);
    ca_form_free(c->form);
    ca_form_free(c->before);
    EVP_PKEY_free(c->key);
}

static const struct desk_rules rules = {.size = sizeof(struct client), .on_message = on_message, .on_leave = on_leave};

/* ---- the role ---- */

/* The files came before the first peer. A worker may ask before this role is told to go. */
static void take_context(struct role_context *c)
{
    struct role_set set = {c->generation, c->files, c->conf, c->policy};

    if (keeper.context)
        return;
    keeper.context = c;
    desk_open(&keeper.desk, c, &rules);
    keeper.recorder = recorder_new(c->loop);
    recorder_stamp(keeper.recorder, c->generation);
    vault_open(c, keeper.recorder);
    keeper.keyring = keyring_new();
    keeper.now = (struct book){c->policy, ca_load_files(c->files, &keeper.ca_fault), NULL};
    if (keeper.now.ca)
        keeper.now.box = strongbox_new(&set, &keeper.ca_fault);
}

static void keeper_on_peer(struct role_context *c, enum role peer, int index, int fd)
{
    take_context(c);
    if (peer == ROLE_SCRIBE)
        recorder_attach(keeper.recorder, fd);
    else if (peer == ROLE_WORKER)
        desk_seat(&keeper.desk, peer, index, fd);
    else if (peer == ROLE_CLERK)
        vault_attach_clerk(fd);
    else
        close(fd);
}

static void keeper_on_resource(struct role_context *c, enum role_message type, struct slice name, bool flag, int fd)
{
    (void)c, (void)flag;
    if (type == MSG_SHARED && slice_is(name, "revocations"))
        vault_take_revocations(fd);
    close(fd);
}

static bool take_keys(struct slice message)
{
    bool changed;

    if (!keyring_take(keeper.keyring, message, &changed))
        return false;
    strongbox_use_keys(keeper.now.box, keeper.keyring);
    strongbox_use_keys(keeper.before.box, keeper.keyring);
    strongbox_use_keys(keeper.next.box, keeper.keyring);
    return true;
}

static void keeper_on_control(struct role_context *c, enum role_message type, struct slice payload)
{
    take_context(c);
    if (type == MSG_KEYS) {
        if (!take_keys(payload))
            role_distrust(c, "a damaged KEYS");
        return;
    }
    if ((type != MSG_FETCHED && type != MSG_NOT_FETCHED) || !vault_fetched(type, payload))
        role_distrust(c, "a message the keeper does not know");
}

static bool keeper_start(struct role_context *c, struct fault *why)
{
    take_context(c);
    if (!keeper.now.box && why)
        *why = keeper.ca_fault;
    return keeper.now.box;
}

static void on_settled(void *arg)
{
    struct role_context *c = arg;

    loop_stop(c->loop);
}

static void keeper_stop(struct role_context *c)
{
    take_context(c);
    desk_close(&keeper.desk);
    recorder_settle(keeper.recorder, on_settled, c);
}

/* ---- another configuration ---- */

static bool is_same_file(const struct bundle *a, const struct bundle *b, const char *name)
{
    struct slice one, other;

    return bundle_get(a, name, &one) && bundle_get(b, name, &other) && slice_equals(one, other);
}

static void keeper_abandon(struct role_context *c)
{
    (void)c;
    strongbox_free(keeper.next.box);
    if (keeper.next.ca != keeper.now.ca)
        ca_free(keeper.next.ca);
    keeper.next = (struct book){0};
}

static bool keeper_prepare(struct role_context *c, const struct role_set *next, struct fault *why)
{
    bool same = is_same_file(c->files, next->files, "ca/intermediate.pem") &&
                is_same_file(c->files, next->files, "ca/intermediate.key") &&
                is_same_file(c->files, next->files, "ca/root.pem");

    keeper.next = (struct book){next->policy, same ? keeper.now.ca : ca_load_files(next->files, why), NULL};
    if (keeper.next.ca && (keeper.next.box = strongbox_new(next, why))) {
        strongbox_use_keys(keeper.next.box, keeper.keyring);
        return true;
    }
    keeper_abandon(c);
    return false;
}

static void renew_form(struct client *c)
{
    if (!c->key)
        return;
    c->before = c->form;
    if (!(c->form = ca_form_new(keeper.now.ca, c->key, NULL)))
        desk_expel(&c->visitor, "a leaf key that the CA no longer takes");
}

static void keeper_adopt(struct role_context *c, const struct role_set *before)
{
    (void)before;
    keeper.before = keeper.now;
    keeper.now = keeper.next;
    keeper.next = (struct book){0};
    keyring_keep(keeper.keyring, c->conf);
    recorder_stamp(keeper.recorder, c->generation);
    for (struct visitor *v = keeper.desk.first, *next; v && keeper.now.ca != keeper.before.ca; v = next) {
        next = v->next;
        renew_form((struct client *)v);
    }
}

static void keeper_settle(struct role_context *c)
{
    for (struct visitor *v = keeper.desk.first; v; v = v->next) {
        struct client *w = (struct client *)v;

        ca_form_free(w->before);
        w->before = NULL;
    }
    strongbox_free(keeper.before.box);
    if (keeper.before.ca != keeper.now.ca)
        ca_free(keeper.before.ca);
    keeper.before = (struct book){0};
    keeper.settled_ms = loop_now_ms(c->loop);
}

const struct role_ops keeper_ops = {
    .start = keeper_start,
    .on_peer = keeper_on_peer,
    .on_resource = keeper_on_resource,
    .on_control = keeper_on_control,
    .stop = keeper_stop,
    .prepare = keeper_prepare,
    .abandon = keeper_abandon,
    .adopt = keeper_adopt,
    .settle = keeper_settle,
};
