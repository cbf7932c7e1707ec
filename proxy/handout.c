/* Owns no process and nothing of what it hands out. */
#include "proxy/handout.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/pack.h"
#include "base/say.h"

/* Who asks whom: the second may say that the first broke its table. */
static const enum role wiring[][2] = {
    {ROLE_WORKER, ROLE_SCRIBE}, {ROLE_WORKER, ROLE_PORTER}, {ROLE_WORKER, ROLE_KEEPER},
    {ROLE_PORTER, ROLE_SCRIBE}, {ROLE_KEEPER, ROLE_SCRIBE}, {ROLE_KEEPER, ROLE_CLERK}, {ROLE_CLERK, ROLE_PORTER},
    {ROLE_CLERK, ROLE_SCRIBE},
    {ROLE_USHER, ROLE_SCRIBE},  {ROLE_USHER, ROLE_PORTER},
};

const char *process_name(const struct process *p)
{
    static char name[40];

    role_label(p->role, p->index, name, sizeof name);
    return name;
}

void process_tell(struct process *p, enum role_message type, const struct buf *payload, int fd)
{
    if (p->control && !channel_send(p->control, type, payload ? buf_slice(payload) : slice_make("", 0), fd))
        say_warning("%s does not take what it is sent", process_name(p));
}

void handout_config(struct process *p, enum role_message type, const struct gateway_config *config, uint64_t generation)
{
    struct buf message = {0};
    struct fault why = {0};
    struct bundle *files = gateway_bundle(config, p->role);
    int fd = bundle_seal(files, &why);

    bundle_free(files);
    if (fd < 0) {
        say_error("%s", why.text);
        return;
    }
    pack_u64(&message, generation);
    process_tell(p, type, &message, fd);
    buf_free(&message);
    close(fd);
}

static void give_named(struct process *p, enum role_message type, const char *name, int flag, int fd)
{
    struct buf message = {0};

    pack_bytes(&message, slice_of(name));
    if (flag >= 0)
        pack_u8(&message, (uint8_t)flag);
    process_tell(p, type, &message, fd);
    buf_free(&message);
}

/* Options belong to the socket, not to who has it: what a role that was taken over left there ends with it. */
static int as_new(int fd)
{
    struct linger none = {0};

    setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof none); /* connections inherit it: their ends would be cuts */
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    return fd;
}

void handout_token(struct process *worker, const struct listening *l)
{
    struct buf message = {0};

    pack_bytes(&message, slice_of(l->name));
    pack_bytes(&message, token_file_token(l->token));
    process_tell(worker, MSG_TOKEN, &message, -1);
    buf_wipe(&message);
}

/* Before its socket: whose it is. */
static void give_binding(struct process *worker, const struct listening *l)
{
    struct buf message = {0};

    pack_bytes(&message, slice_of(l->name));
    pack_bytes(&message, slice_of(l->sandbox));
    pack_u8(&message, l->token != NULL);
    pack_u8(&message, l->is_added);
    pack_u8(&message, l->is_transparent);
    pack_u32(&message, l->cid);
    process_tell(worker, MSG_BOUND, &message, -1);
    buf_free(&message);
}

static void give_questions(struct process *usher, const struct listening *l)
{
    for (size_t i = 0; i < l->n_fds; i++)
        give_named(usher, MSG_LISTENER, l->name, i == 0, as_new(l->fds[i]));
}

bool handout_is_for(const struct process *p, const struct listening *l)
{
    return p->role == (l->is_publish ? ROLE_CLERK : l->is_dns ? ROLE_USHER : ROLE_WORKER);
}

void handout_listener(struct process *p, const struct listening *l)
{
    if (l->is_dns) {
        give_questions(p, l);
        return;
    }
    if (l->sandbox || l->is_added)
        give_binding(p, l);
    give_named(p, MSG_LISTENER, l->name, l->is_publish, as_new(l->fds[l->n_fds > 1 ? p->index : 0]));
    if (l->token) {
        token_file_look(l->token);
        handout_token(p, l);
    }
}

static void give_listeners(struct supervisor *s, struct process *p)
{
    for (size_t i = 0; i < s->assets.listening.n; i++)
        if (handout_is_for(p, &s->assets.listening.list[i]))
            handout_listener(p, &s->assets.listening.list[i]);
}

static void give_counters(struct supervisor *s, struct process *p, int index)
{
    char name[40];

    if (index < s->assets.n_workers)
        snprintf(name, sizeof name, "counters/worker %d", index);
    else
        snprintf(name, sizeof name, "counters/usher");
    give_named(p, MSG_SHARED, name, -1, s->assets.counters[index]);
}

/* Its own to write, the others' to read. */
static void give_tallies(struct supervisor *s, struct process *p)
{
    char name[40];

    for (int i = 0; i < s->assets.n_workers; i++) {
        snprintf(name, sizeof name, "tally/worker %d", i);
        give_named(p, MSG_SHARED, name, -1, i == p->index ? s->assets.tallies[i] : s->assets.tallies_to_read[i]);
    }
}

/* With the ports that the kernel gave. */
void handout_own(struct process *porter, const struct listeners *now, const struct listeners *plan)
{
    struct buf list = {0}, message = {0};
    struct addr a;
    uint16_t n = 0;

    for (size_t i = 0; i < now->n + (plan ? plan->n : 0); i++) {
        const struct listening *l = i < now->n ? &now->list[i] : &plan->list[i - now->n];

        if (!addr_parse(slice_of(l->address), &a))
            continue;
        pack_bytes(&list, slice_of(l->address));
        n++;
    }
    pack_u16(&message, n);
    buf_append(&message, buf_slice(&list));
    process_tell(porter, MSG_OWN, &message, -1);
    buf_free(&message);
    buf_free(&list);
}

void handout_assets(struct supervisor *s, struct process *p)
{
    give_listeners(s, p);
    if (p->role == ROLE_USHER || p->role == ROLE_CLERK)
        give_counters(s, p, s->assets.n_workers);
    if (p->role == ROLE_WORKER) {
        give_counters(s, p, p->index);
        give_tallies(s, p);
        give_named(p, MSG_SHARED, "revocations", -1, revocations_fd(s->assets.revocations));
        give_named(p, MSG_SHARED, "pins", -1, pins_fd(s->assets.pins));
        give_named(p, MSG_SHARED, "spent", -1, spent_fd(s->assets.spent));
    }
    if (p->role == ROLE_KEEPER || p->role == ROLE_PORTER || p->role == ROLE_CLERK)
        give_named(p, MSG_SHARED, "revocations", -1, revocations_fd(s->assets.revocations));
    keybox_hand(s, p);
    for (int i = 0; (p->role == ROLE_CLERK || p->role == ROLE_SCRIBE) && i < s->assets.n_workers; i++)
        give_counters(s, p, i);
    if (p->role == ROLE_PORTER)
        handout_own(p, &s->assets.listening, NULL);
    if (p->role == ROLE_SCRIBE) {
        give_named(p, MSG_DIRECTORY, "journal", -1, s->assets.journal_fd);
        give_named(p, MSG_SHARED, "journal-end", -1, s->assets.journal_end);
    }
}

/* ---- wiring ---- */

static void give_peer(struct process *to, const struct process *peer, int fd)
{
    struct buf message = {0};

    pack_u8(&message, (uint8_t)peer->role);
    pack_u16(&message, (uint16_t)peer->index);
    process_tell(to, MSG_PEER, &message, fd);
    buf_free(&message);
}

void handout_channel(struct process *a, struct process *b)
{
    struct fault why = {0};
    int pair[2];

    if (!a->control || !b->control)
        return;
    if (!channel_pair(pair, &why)) {
        say_error("%s", why.text);
        return;
    }
    give_peer(a, b, pair[0]);
    give_peer(b, a, pair[1]);
    close(pair[0]);
    close(pair[1]);
}

bool handout_is_wired(enum role a, enum role b)
{
    for (size_t i = 0; i < sizeof wiring / sizeof *wiring; i++)
        if ((wiring[i][0] == a && wiring[i][1] == b) || (wiring[i][0] == b && wiring[i][1] == a))
            return true;
    return false;
}

bool handout_serves(enum role server, enum role asker)
{
    for (size_t i = 0; i < sizeof wiring / sizeof *wiring; i++)
        if (wiring[i][0] == asker && wiring[i][1] == server)
            return true;
    return false;
}

/* Our own line to the scribe: for revocations. */
void handout_ourselves(struct supervisor *s, struct process *scribe)
{
    static const struct process we = {.role = ROLE_SUPERVISOR};
    struct fault why = {0};
    int pair[2];

    if (!channel_pair(pair, &why)) {
        say_error("%s", why.text);
        return;
    }
    give_peer(scribe, &we, pair[1]);
    close(pair[1]);
    recorder_attach(s->recorder, pair[0]);
}
