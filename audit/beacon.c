/* Owns the listening sockets, the thread that serves them, and who came. What is answered: audit/beacon_answer.c. */
#include "audit/beacon.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "audit/beacon_answer.h"
#include "audit/beacon_name.h"
#include "audit/turn.h"
#include "base/clock.h"
#include "base/text.h"

enum { GUESTS_MAX = 128, GUEST_MS = 3000, RULES_MAX = 512, TURN_MS = 50 };
enum { READ_SIZE = 64 * 1024, CONTENT_MAX = 2 * 1024 * 1024 /* as an upstream it reads what UP-1 sends to its end: who is answered before may break off */ };

struct rule {
    char nonce[NONCE_LEN + 1];
    enum act act;
    char *to;
    size_t asked; /* of ACT_REBIND */
};

struct guest {
    int fd; /* -1: free */
    size_t place;
    int64_t since_ms;
    struct buf in;
    bool is_continued;
};

struct beacon {
    const struct target *target;
    int fds[PLACES_MAX];
    int names; /* of the zone's name server; -1: none */
    struct guest guests[GUESTS_MAX];
    pthread_t thread;
    bool is_running;
    pthread_mutex_t lock; /* guards what follows */
    bool is_ending;
    struct rule rules[RULES_MAX];
    size_t n_rules;
    struct rule otherwise;
    struct hit *hits;
    size_t n_hits;
    uint64_t serial;
};

/* ---- who came ---- */

static void remember(struct beacon *b, const struct guest *g, bool is_tls)
{
    struct hit *h;

    pthread_mutex_lock(&b->lock);
    if (b->n_hits < HITS_MAX) {
        h = &b->hits[b->n_hits++];
        *h = (struct hit){.at = b->target->places[g->place].at, .is_upstream = b->target->places[g->place].is_upstream, .is_tls = is_tls, .at_ms = clock_mono_ms()};
        buf_append(&h->bytes, slice_cut(buf_slice(&g->in), 0, HIT_MAX));
    }
    pthread_mutex_unlock(&b->lock);
}

size_t beacon_hits(struct beacon *b, const char *nonce, bool is_upstream, struct hit **list)
{
    size_t n = 0;

    pthread_mutex_lock(&b->lock);
    *list = calloc(b->n_hits + 1, sizeof **list);
    if (!*list)
        abort();
    for (size_t i = 0; i < b->n_hits; i++) {
        const struct hit *h = &b->hits[i];

        if (h->is_upstream != is_upstream || (nonce && !text_holds_encoded(buf_slice(&h->bytes), slice_of(nonce))))
            continue;
        (*list)[n] = *h;
        (*list)[n].bytes = (struct buf){0};
        buf_append(&(*list)[n++].bytes, buf_slice(&h->bytes));
    }
    pthread_mutex_unlock(&b->lock);
    return n;
}

void beacon_hits_free(struct hit *list, size_t n)
{
    for (size_t i = 0; list && i < n; i++)
        buf_free(&list[i].bytes);
    free(list);
}

/* ---- what is answered ---- */

void beacon_act(struct beacon *b, const char *nonce, enum act act, const char *to)
{
    pthread_mutex_lock(&b->lock);
    if (b->n_rules < RULES_MAX) {
        struct rule *r = &b->rules[b->n_rules++];

        memcpy(r->nonce, nonce, NONCE_LEN);
        r->act = act;
        r->to = text_copy(slice_of(to));
    }
    pthread_mutex_unlock(&b->lock);
}

void beacon_act_otherwise(struct beacon *b, enum act act, const char *to)
{
    pthread_mutex_lock(&b->lock);
    free(b->otherwise.to);
    b->otherwise.act = act;
    b->otherwise.to = text_copy(slice_of(to));
    pthread_mutex_unlock(&b->lock);
}

/* The newest rule whose nonce is in the request line. */
static const struct rule *rule_of(const struct beacon *b, struct slice request, bool is_upstream)
{
    ptrdiff_t end = slice_find(request, '\n');
    struct slice line = slice_cut(request, 0, end < 0 ? request.len : (size_t)end);

    for (size_t i = b->n_rules; i-- > 0;)
        if (text_holds(line, slice_of(b->rules[i].nonce)))
            return &b->rules[i];
    return is_upstream ? &b->otherwise : NULL;
}

static void answer(struct beacon *b, struct guest *g)
{
    bool is_upstream = b->target->places[g->place].is_upstream;
    const struct rule *r;
    struct buf out = {0};
    struct slice left;

    pthread_mutex_lock(&b->lock);
    r = rule_of(b, buf_slice(&g->in), is_upstream);
    beacon_answer(buf_slice(&g->in), r ? r->act : ACT_PAGE, r && r->act != ACT_PAGE ? r->to : target_upstream(b->target), ++b->serial, clock_wall_s(), &out);
    pthread_mutex_unlock(&b->lock);
    left = buf_slice(&out);
    while (left.len) {
        ssize_t n = send(g->fd, left.ptr, left.len, MSG_NOSIGNAL);

        if (n <= 0)
            break;
        left = slice_from(left, (size_t)n);
    }
    buf_free(&out);
}

/* ---- guests ---- */

static void dismiss(struct guest *g)
{
    close(g->fd);
    g->fd = -1;
    buf_free(&g->in);
}

static void finish(struct beacon *b, struct guest *g)
{
    remember(b, g, false);
    answer(b, g);
    shutdown(g->fd, SHUT_WR);
    dismiss(g);
}

static void on_guest(struct beacon *b, struct guest *g)
{
    ssize_t n = recv(g->fd, buf_reserve(&g->in, READ_SIZE), READ_SIZE, MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0)
        buf_commit(&g->in, (size_t)n);
    if (n <= 0) { /* it came and went without asking */
        remember(b, g, false);
        dismiss(g);
    } else if ((unsigned char)buf_slice(&g->in).ptr[0] == 0x16) {
        remember(b, g, true);
        dismiss(g);
    } else if (beacon_is_whole(buf_slice(&g->in)) || buf_len(&g->in) > CONTENT_MAX) {
        finish(b, g);
    } else if (!g->is_continued && beacon_wants_continue(buf_slice(&g->in))) {
        g->is_continued = true;
        if (send(g->fd, "HTTP/1.1 100 Continue\r\n\r\n", 25, MSG_NOSIGNAL) < 0)
            dismiss(g);
    }
}

static void on_place(struct beacon *b, size_t place)
{
    int fd = accept4(b->fds[place], NULL, NULL, SOCK_CLOEXEC);

    if (fd < 0)
        return;
    for (size_t i = 0; i < GUESTS_MAX; i++)
        if (b->guests[i].fd < 0) {
            b->guests[i] = (struct guest){.fd = fd, .place = place, .since_ms = clock_mono_ms()};
            return;
        }
    close(fd);
}

/* Who says nothing in time has come all the same. */
static void send_away(struct beacon *b)
{
    int64_t now_ms = clock_mono_ms();

    for (size_t i = 0; i < GUESTS_MAX; i++)
        if (b->guests[i].fd >= 0 && now_ms - b->guests[i].since_ms > GUEST_MS) {
            remember(b, &b->guests[i], false);
            dismiss(&b->guests[i]);
        }
}

/* ---- names ---- */

/* Who asks for a name has looked it up; the address is the listener's, or what the rule says. */
static bool address_of(struct beacon *b, const struct dns_question *q, const char *host, struct addr *out)
{
    struct rule *r = (struct rule *)rule_of(b, slice_of(host), false);
    bool has = r && r->act == ACT_REBIND && q->type == DNS_A && beacon_name_pick(r->to, r->asked++, out);

    if (r && r->act == ACT_REBIND)
        return has;
    for (size_t i = 0; i < b->target->n_places && !has; i++)
        if ((has = !b->target->places[i].is_upstream && b->target->places[i].at.family == AF_INET))
            *out = b->target->places[i].at;
    return has;
}

static void on_name(struct beacon *b)
{
    unsigned char query[DNS_ASKED_MAX];
    struct sockaddr_storage from;
    socklen_t len = sizeof from;
    ssize_t n = recvfrom(b->names, query, sizeof query, MSG_DONTWAIT, (struct sockaddr *)&from, &len);
    struct dns_question q;
    char host[NAME_MAX_LEN + 1];
    struct buf out = {0};
    struct addr at;
    bool has;

    if (n <= 0 || !beacon_name_read(slice_make(query, (size_t)n), b->target->zone, &q, host))
        return;
    pthread_mutex_lock(&b->lock);
    if (b->n_hits < HITS_MAX) {
        struct hit *h = &b->hits[b->n_hits++];

        *h = (struct hit){.at = b->target->zone_at, .is_name = true, .at_ms = clock_mono_ms()};
        buf_text(&h->bytes, host);
    }
    has = address_of(b, &q, host, &at);
    pthread_mutex_unlock(&b->lock);
    beacon_name_write(&q, has ? &at : NULL, &out);
    if (sendto(b->names, buf_slice(&out).ptr, buf_len(&out), MSG_NOSIGNAL, (struct sockaddr *)&from, len) < 0)
        errno = 0; /* who asked asks again */
    buf_free(&out);
}

static bool is_ending(struct beacon *b)
{
    bool ending;

    pthread_mutex_lock(&b->lock);
    ending = b->is_ending;
    pthread_mutex_unlock(&b->lock);
    return ending;
}

static void *serve(void *arg)
{
    struct beacon *b = arg;
    struct pollfd fds[PLACES_MAX + GUESTS_MAX + 1];

    while (!is_ending(b)) {
        fds[PLACES_MAX + GUESTS_MAX] = (struct pollfd){.fd = b->names, .events = POLLIN};
        for (size_t i = 0; i < PLACES_MAX + GUESTS_MAX; i++)
            fds[i] = (struct pollfd){.fd = i < PLACES_MAX ? b->fds[i] : b->guests[i - PLACES_MAX].fd, .events = POLLIN};
        if (poll(fds, PLACES_MAX + GUESTS_MAX + 1, TURN_MS) > 0)
            for (size_t i = 0; i <= PLACES_MAX + GUESTS_MAX; i++) {
                if (!fds[i].revents)
                    continue;
                if (i == PLACES_MAX + GUESTS_MAX)
                    on_name(b);
                else if (i < PLACES_MAX)
                    on_place(b, i);
                else
                    on_guest(b, &b->guests[i - PLACES_MAX]);
            }
        send_away(b);
    }
    return NULL;
}

/* ---- start and end ---- */

static int listen_at(const struct addr *a, int type, struct fault *why)
{
    struct sockaddr_storage ss;
    socklen_t len = addr_to_sockaddr(a, &ss);
    int one = 1, fd = socket(a->family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct buf text = {0};

    if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0 && bind(fd, (struct sockaddr *)&ss, len) == 0 &&
        (type == SOCK_DGRAM || listen(fd, 64) == 0))
        return fd;
    addr_text(&text, a);
    fault_set(why, FAULT_IO, "cannot listen at %.*s: %s; the manifest's listener and upstream are addresses of this machine that nobody else uses",
              SLICE_ARG(buf_slice(&text)), strerror(errno));
    buf_free(&text);
    if (fd >= 0)
        close(fd);
    return -1;
}

struct beacon *beacon_start(const struct target *t, struct fault *why)
{
    struct beacon *b = calloc(1, sizeof *b);
    bool ok = true;

    if (!b || !(b->hits = calloc(HITS_MAX, sizeof *b->hits)) || pthread_mutex_init(&b->lock, NULL) != 0)
        abort();
    b->target = t;
    b->names = -1;
    for (size_t i = 0; i < PLACES_MAX; i++)
        b->fds[i] = -1;
    for (size_t i = 0; i < GUESTS_MAX; i++)
        b->guests[i].fd = -1;
    for (size_t i = 0; i < t->n_places && ok; i++)
        ok = (b->fds[i] = listen_at(&t->places[i].at, SOCK_STREAM, why)) >= 0;
    if (ok && t->zone)
        ok = (b->names = listen_at(&t->zone_at, SOCK_DGRAM, why)) >= 0;
    if (ok && pthread_create(&b->thread, NULL, serve, b) == 0) {
        b->is_running = true;
        return b;
    }
    if (ok)
        fault_set(why, FAULT_IO, "cannot start the listener's thread");
    beacon_free(b);
    return NULL;
}

void beacon_free(struct beacon *b)
{
    if (!b)
        return;
    if (b->is_running) {
        pthread_mutex_lock(&b->lock);
        b->is_ending = true;
        pthread_mutex_unlock(&b->lock);
        pthread_join(b->thread, NULL);
    }
    for (size_t i = 0; i < PLACES_MAX; i++)
        if (b->fds[i] >= 0)
            close(b->fds[i]);
    if (b->names >= 0)
        close(b->names);
    for (size_t i = 0; i < GUESTS_MAX; i++)
        if (b->guests[i].fd >= 0)
            dismiss(&b->guests[i]);
    for (size_t i = 0; i < b->n_rules; i++)
        free(b->rules[i].to);
    free(b->otherwise.to);
    for (size_t i = 0; i < b->n_hits; i++)
        buf_free(&b->hits[i].bytes);
    free(b->hits);
    pthread_mutex_destroy(&b->lock);
    free(b);
}
