/* Owns the far ends of the three channels, the questions that wait, and the journal of this run. */
#include "tests/fuzz/lib/roles.h"

#include <assert.h>
#include <jansson.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/pack.h"
#include "journal/record.h"
#include "net/name.h"
#include "proxy/role.h"
#include "tests/fuzz/lib/world.h"
#include "tests/unit/record_fixture.h"

enum { WAITING = 64, ENTRIES = 4096 };

struct question {
    uint32_t id;
    struct id exchange; /* of a dial */
    char host[NAME_MAX_LEN + 1];
    uint16_t port;
};

struct questions {
    struct question list[WAITING];
    size_t count;
};

/* A record, and whether it is on disk. */
struct entry {
    json_t *record;
    enum record_kind kind;
    bool written;
};

struct roles {
    roles_attach *attach;
    void *arg;
    int fds[N_ROLES];
    struct questions dials, hosts;
    struct buf leaf_key;
    struct entry entries[ENTRIES];
    size_t n_entries, n_settled; /* those before n_settled have their answer */
    uint64_t seen;
    bool steered;
};

/* ---- channels ---- */

static void send_message(const struct roles *r, int role, uint16_t type, struct slice payload, int fd)
{
    unsigned char head[2] = {(unsigned char)(type & 0xff), (unsigned char)(type >> 8)};
    struct iovec parts[2] = {{head, sizeof head}, {(void *)payload.ptr, payload.len}};
    union {
        char space[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {0};
    struct msghdr m = {.msg_iov = parts, .msg_iovlen = 2};

    if (fd >= 0) {
        m.msg_control = control.space;
        m.msg_controllen = sizeof control.space;
        *CMSG_FIRSTHDR(&m) = (struct cmsghdr){CMSG_LEN(sizeof fd), SOL_SOCKET, SCM_RIGHTS};
        memcpy(CMSG_DATA(CMSG_FIRSTHDR(&m)), &fd, sizeof fd);
    }
    if (sendmsg(r->fds[role], &m, MSG_NOSIGNAL) < 0)
        assert(!"the worker has closed a channel");
}

static void connect_role(struct roles *r, int role)
{
    int fds[2];

    if (!channel_pair(fds, NULL))
        abort();
    r->fds[role] = fds[0];
    r->attach(r->arg, role, fds[1]);
}

struct roles *roles_new(roles_attach *attach, void *arg)
{
    struct roles *r = calloc(1, sizeof *r);

    r->attach = attach;
    r->arg = arg;
    connect_role(r, ROLE_SCRIBE);
    connect_role(r, ROLE_PORTER);
    connect_role(r, ROLE_KEEPER);
    return r;
}

static void drop(struct questions *q, size_t i)
{
    q->count--;
    memmove(&q->list[i], &q->list[i + 1], (q->count - i) * sizeof q->list[0]);
}

static struct question *add(struct questions *q)
{
    assert(q->count < WAITING);
    q->list[q->count] = (struct question){0};
    return &q->list[q->count++];
}

/* ---- scribe ---- */

static void forget_entry(struct roles *r, size_t i)
{
    json_decref(r->entries[i].record);
    r->n_entries--;
    memmove(&r->entries[i], &r->entries[i + 1], (r->n_entries - i) * sizeof r->entries[0]);
}

static const char *text_of(const struct entry *e, const char *name)
{
    const char *text = json_string_value(json_object_get(e->record, name));

    return text ? text : "";
}

static const char *request_text(const struct entry *e, const char *name)
{
    const char *text = json_string_value(json_object_get(json_object_get(e->record, "http"), name));

    return text ? text : "";
}

static void read_records(struct roles *r, struct slice payload)
{
    struct unpack u = unpack_start(payload);
    uint64_t first = unpack_u64(&u);
    uint32_t count = unpack_u32(&u), n = 0;
    struct buf members = {0};
    enum record_kind kind;
    bool bad = false;

    assert(count && (!r->seen || first == r->seen + 1));
    for (buf_text(&members, "{"); record_next(&u.left, &kind, &members, &bad); n++) {
        struct entry *e = &r->entries[r->n_entries++];

        assert(r->n_entries < ENTRIES);
        buf_text(&members, "}");
        *e = (struct entry){json_loadb(buf_slice(&members).ptr, buf_len(&members), 0, NULL), kind, false};
        assert(e->record);
        buf_clear(&members);
        buf_text(&members, "{");
    }
    assert(!bad && n == count);
    r->seen = first + count - 1;
    buf_free(&members);
}

static void tell_scribe(struct roles *r, bool written)
{
    struct buf out = {0};

    pack_u64(&out, r->seen);
    if (!written)
        pack_bytes(&out, SLICE("full"));
    send_message(r, ROLE_SCRIBE, written ? MSG_RECORDED : MSG_REFUSED, buf_slice(&out), -1);
    buf_free(&out);
}

void roles_write(struct roles *r)
{
    for (; r->n_settled < r->n_entries; r->n_settled++)
        r->entries[r->n_settled].written = true;
    tell_scribe(r, true);
}

static void forget_unwritten(struct roles *r)
{
    while (r->n_entries > r->n_settled)
        forget_entry(r, r->n_settled);
}

void roles_refuse(struct roles *r)
{
    forget_unwritten(r);
    tell_scribe(r, false);
}

static bool allows(const struct entry *e)
{
    return e->written && e->kind == RECORD_DECISION && strcmp(text_of(e, "action"), "allow") == 0;
}

bool roles_allowed(const struct roles *r, struct slice method, struct slice host, struct slice path)
{
    for (size_t i = 0; i < r->n_entries; i++) {
        const struct entry *e = &r->entries[i];

        if (allows(e) && slice_is(method, request_text(e, "method")) && slice_is(host, request_text(e, "host")) &&
            slice_is(path, request_text(e, "path")))
            return true;
    }
    return false;
}

static size_t count_results(const struct roles *r, const char *id)
{
    size_t n = 0;

    for (size_t i = 0; i < r->n_entries; i++)
        n += r->entries[i].kind == RECORD_RESULT && strcmp(text_of(&r->entries[i], "id"), id) == 0;
    return n;
}

void roles_close_books(struct roles *r)
{
    for (size_t i = 0; i < r->n_entries; i++) {
        const char *id = text_of(&r->entries[i], "id");

        if (allows(&r->entries[i]))
            assert(count_results(r, id) == 1);
    }
    while (r->n_entries)
        forget_entry(r, r->n_entries - 1);
    r->n_settled = 0;
    r->steered = false;
}

/* ---- porter ---- */

/* What allows a dial: the written decision of the same exchange. */
static const struct entry *decision_of(const struct roles *r, const struct id *exchange)
{
    struct buf text = {0};
    const struct entry *found = NULL;

    id_text(&text, exchange);
    for (size_t i = 0; i < r->n_entries && !found; i++)
        if (allows(&r->entries[i]) && slice_is(buf_slice(&text), text_of(&r->entries[i], "id")))
            found = &r->entries[i];
    buf_free(&text);
    return found;
}

static void read_dial(struct roles *r, struct unpack *u)
{
    struct question q = {.id = unpack_u32(u)};
    const struct entry *decision;
    struct slice host;

    assert(unpack_u64(u) == WORLD_GENERATION);
    memcpy(q.exchange.bytes, u->left.ptr, sizeof q.exchange.bytes);
    u->left = slice_from(u->left, sizeof q.exchange.bytes);
    unpack_bytes(u);
    host = unpack_bytes(u);
    q.port = unpack_u16(u);
    assert(unpack_done(u) && host.len < sizeof q.host);
    memcpy(q.host, host.ptr, host.len);
    for (size_t i = 0; i < r->dials.count; i++)
        assert(r->dials.list[i].id != q.id && !id_equals(&r->dials.list[i].exchange, &q.exchange));
    decision = decision_of(r, &q.exchange);
    assert(decision && slice_is(host, request_text(decision, "host")));
    *add(&r->dials) = q;
}

static void read_cancel(struct roles *r, struct unpack *u)
{
    uint32_t id = unpack_u32(u);

    assert(unpack_done(u));
    for (size_t i = 0; i < r->dials.count; i++)
        if (r->dials.list[i].id == id) {
            drop(&r->dials, i);
            return;
        }
}

size_t roles_dials(const struct roles *r)
{
    return r->dials.count;
}

void roles_dialled(struct roles *r, int near, char *host, uint16_t *port)
{
    struct buf out = {0};

    memcpy(host, r->dials.list[0].host, sizeof r->dials.list[0].host);
    *port = r->dials.list[0].port;
    pack_u32(&out, r->dials.list[0].id);
    pack_bytes(&out, SLICE("192.0.2.1:443"));
    drop(&r->dials, 0);
    send_message(r, ROLE_PORTER, MSG_DIALLED, buf_slice(&out), near);
    buf_free(&out);
}

void roles_not_dialled(struct roles *r, uint16_t reason)
{
    struct buf out = {0};

    pack_u32(&out, r->dials.list[0].id);
    pack_u16(&out, reason);
    pack_bytes(&out, SLICE("refused"));
    drop(&r->dials, 0);
    send_message(r, ROLE_PORTER, MSG_NOT_DIALLED, buf_slice(&out), -1);
    buf_free(&out);
}

/* ---- keeper ---- */

void roles_steered(struct roles *r)
{
    r->steered = true;
}

static void read_certify(struct roles *r, struct unpack *u)
{
    uint32_t id = unpack_u32(u);
    uint64_t generation = unpack_u64(u);
    struct slice host = unpack_bytes(u);
    struct question *q = add(&r->hosts);

    assert(generation == WORLD_GENERATION);
    assert(unpack_done(u) && host.len < sizeof q->host);
    assert(roles_allowed(r, SLICE("CONNECT"), host, SLICE("")) ||
           (r->steered && (slice_is(host, "registry.test") || slice_is(host, "upload.test"))));
    q->id = id;
    memcpy(q->host, host.ptr, host.len);
}

static void read_leaf_key(struct roles *r, struct unpack *u)
{
    buf_clear(&r->leaf_key);
    buf_append(&r->leaf_key, unpack_bytes(u));
    assert(unpack_done(u));
}

const char *roles_certify(const struct roles *r)
{
    return r->hosts.count ? r->hosts.list[0].host : "";
}

struct slice roles_leaf_key(const struct roles *r)
{
    return buf_slice(&r->leaf_key);
}

void roles_certified(struct roles *r, struct slice chain, int64_t not_after_s)
{
    struct buf out = {0};

    pack_u32(&out, r->hosts.list[0].id);
    if (chain.len)
        pack_u64(&out, (uint64_t)not_after_s);
    pack_bytes(&out, chain.len ? chain : SLICE("no"));
    drop(&r->hosts, 0);
    send_message(r, ROLE_KEEPER, chain.len ? MSG_CERTIFIED : MSG_NOT_CERTIFIED, buf_slice(&out), -1);
    buf_free(&out);
}

/* ---- reading ---- */

static void read_message(struct roles *r, int role, uint16_t type, struct slice payload)
{
    struct unpack u = unpack_start(payload);

    if (role == ROLE_SCRIBE && type == MSG_RECORDS)
        read_records(r, payload);
    else if (role == ROLE_PORTER && type == MSG_DIAL)
        read_dial(r, &u);
    else if (role == ROLE_PORTER && type == MSG_DIAL_CANCEL)
        read_cancel(r, &u);
    else if (role == ROLE_KEEPER && type == MSG_LEAF_KEY)
        read_leaf_key(r, &u);
    else if (role == ROLE_KEEPER && type == MSG_CERTIFY)
        read_certify(r, &u);
    else
        assert(!"a message that is in no table");
}

static void read_role(struct roles *r, int role)
{
    static unsigned char bytes[IPC_MAX + 2];
    ssize_t got;

    while ((got = recv(r->fds[role], bytes, sizeof bytes, MSG_DONTWAIT)) > 0) {
        assert(got >= 2);
        read_message(r, role, (uint16_t)(bytes[0] | bytes[1] << 8), slice_make(bytes + 2, (size_t)got - 2));
    }
}

/* The scribe first: what a question rests on was recorded in an earlier turn. */
void roles_read(struct roles *r)
{
    read_role(r, ROLE_SCRIBE);
    read_role(r, ROLE_PORTER);
    read_role(r, ROLE_KEEPER);
}

void roles_restart(struct roles *r, int role)
{
    close(r->fds[role]);
    if (role == ROLE_SCRIBE) {
        forget_unwritten(r);
        r->seen = 0;
    } else if (role == ROLE_PORTER) {
        r->dials.count = 0;
    } else {
        r->hosts.count = 0;
    }
    connect_role(r, role);
}
