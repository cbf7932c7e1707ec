/* Owns listening sockets. Accepts nothing and knows no workers but their number. */
#include "proxy/listening.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/text.h"
#include "net/addr.h"
#include "net/spread.h"
#include "net/steer.h"
#include "proxy/inherit.h"
#include "proxy/zone.h"

#define DNS_PREFIX "dns."

static const struct place_owner nobody_else = {(uid_t)-1, (gid_t)-1};

static void *must(void *p)
{
    if (!p)
        abort();
    return p;
}

static bool listen_fault(struct fault *why, const char *name, const char *address, int error)
{
    const char *help = "";

    if (error == EADDRINUSE)
        help = ": another program has it; stop that one or choose another address";
    else if (error == EACCES)
        help = ": ports under 1024 need root";
    else if (error == EADDRNOTAVAIL)
        help = ": no interface of this machine has that address";
    return fault_set(why, FAULT_IO, "%s%s: %s: %s%s", slice_starts(slice_of(name), SLICE(DNS_PREFIX)) ? "" : "listen.", name, address,
                     strerror(error), help);
}

static void real_address(int fd, struct addr *a)
{
    struct sockaddr_storage sa = {0};
    socklen_t len = sizeof sa;

    if (getsockname(fd, (struct sockaddr *)&sa, &len) == 0)
        addr_from_sockaddr(a, (struct sockaddr *)&sa);
}

/* Is a socket of ours on that port? Then only the kernel can say whether ours is the only one. */
static bool is_ours(const struct listeners *now, const struct addr *a)
{
    struct addr other;

    for (size_t i = 0; now && i < now->n; i++)
        if (addr_parse(slice_of(now->list[i].address), &other) && other.port == a->port && other.family == a->family)
            return true;
    return false;
}

/* Another gateway on the same port would share it silently by SO_REUSEPORT: look first, without it. */
static bool is_taken(const struct listeners *now, const struct place *p)
{
    int fd;

    if (p->addr.port == 0 || is_ours(now, &p->addr))
        return false;
    fd = place_listen(p, false, &nobody_else);
    if (fd < 0)
        return errno == EADDRINUSE;
    close(fd);
    return false;
}

static bool open_tcp(struct listening *l, struct place p, size_t n, const struct listeners *now, struct fault *why)
{
    struct buf text = {0};

    l->fds = must(calloc(n, sizeof *l->fds));
    if (is_taken(now, &p))
        return listen_fault(why, l->name, l->address, EADDRINUSE);
    for (; l->n_fds < n; l->n_fds++) {
        int fd = place_listen(&p, true, &nobody_else);

        if (fd < 0)
            return listen_fault(why, l->name, l->address, errno);
        l->fds[l->n_fds] = fd;
        real_address(fd, &p.addr);
    }
    free(l->address);
    addr_text(&text, &p.addr);
    l->address = buf_take_text(&text);
    return true;
}

/* All workers share the one socket: unix and vsock know no SO_REUSEPORT. */
static bool open_shared(struct listening *l, const struct place *p, struct fault *why)
{
    int fd = place_listen(p, false, &l->owner);

    if (fd < 0)
        return listen_fault(why, l->name, l->address, errno);
    l->fds = must(calloc(1, sizeof *l->fds));
    l->fds[0] = fd;
    l->n_fds = 1;
    l->cid = p->cid;
    return true;
}

enum { DNS_SOCKETS = 1 + SPREAD_SOCKETS, PORT_TRIES = 16 };

/* A port of the kernel's choice is free for datagrams, and not always for TCP. */
static bool open_both(struct listening *l, struct place *p, bool ours)
{
    struct addr any = p->addr;

    for (int i = 0; i < PORT_TRIES; i++) {
        if (!spread_open(&p->addr, ours, l->fds + 1))
            return false;
        if ((l->fds[0] = place_listen(p, false, &nobody_else)) >= 0)
            return true;
        for (int k = 1; k < DNS_SOCKETS; k++)
            close(l->fds[k]);
        if (any.port)
            return false;
        p->addr = any;
    }
    return false;
}

static bool open_dns(struct listening *l, struct place p, const struct listeners *now, struct fault *why)
{
    struct buf text = {0};

    l->fds = must(calloc(DNS_SOCKETS, sizeof *l->fds));
    if (!open_both(l, &p, is_ours(now, &p.addr)))
        return listen_fault(why, l->name, l->address, errno);
    l->n_fds = DNS_SOCKETS;
    free(l->address);
    addr_text(&text, &p.addr);
    l->address = buf_take_text(&text);
    return true;
}

/* ---- one listener ---- */

static char *copy_of(const char *text)
{
    return text && *text ? text_copy(slice_of(text)) : NULL;
}

static struct listening *add(struct listeners *to, const char *name, const char *address, bool is_publish)
{
    struct listening *l;

    to->list = must(realloc(to->list, (to->n + 1) * sizeof *to->list));
    l = &to->list[to->n++];
    *l = (struct listening){.name = text_copy(slice_of(name)), .written = text_copy(slice_of(address)),
                            .address = text_copy(slice_of(address)), .is_publish = is_publish, .owner = nobody_else};
    return l;
}

/* Whose it is, as the configuration, or who added it, has it. */
static bool bind_to(struct listening *l, const struct conf_item *item, bool is_added, struct fault *why)
{
    const char *token_file = conf_text(item, "token-file");

    l->sandbox = copy_of(conf_text(item, "sandbox"));
    l->is_added = is_added;
    l->is_transparent = strcmp(conf_text(item, "mode"), "transparent") == 0;
    if (token_file && *token_file)
        l->token = token_file_new(token_file);
    return place_owner_find(conf_text(item, "owner"), &l->owner, why);
}

/* The listener of now that has this address; of several on a port the kernel chose, the one with the name. */
static const struct listening *find_same(const struct listeners *now, const struct listening *l)
{
    const struct listening *found = NULL;

    for (size_t i = 0; now && i < now->n; i++) {
        const struct listening *other = &now->list[i];

        if (strcmp(other->written, l->written) != 0 || other->is_publish != l->is_publish || other->is_dns != l->is_dns)
            continue;
        if (strcmp(other->name, l->name) == 0)
            return other;
        if (!slice_ends(slice_of(l->written), SLICE(":0")))
            found = other;
    }
    return found;
}

static void keep_sockets(struct listening *l, const struct listening *of)
{
    free(l->address);
    l->address = text_copy(slice_of(of->address));
    l->fds = of->fds;
    l->n_fds = of->n_fds;
    l->cid = of->cid;
    l->is_kept = true;
    if (l->sandbox && slice_starts(slice_of(l->address), SLICE("unix:")))
        place_give(l->address + 5, &l->owner);
}

/* Where it really is. */
static void tell_address(struct listening *l)
{
    struct addr a = {0};
    struct buf text = {0};

    real_address(l->fds[0], &a);
    if (a.family != AF_INET && a.family != AF_INET6)
        return;
    addr_text(&text, &a);
    free(l->address);
    l->address = buf_take_text(&text);
}

static void take_stream(struct listening *l, bool *found)
{
    int fd = inherit_find(l->name, l->written, SOCK_STREAM);

    *found = fd >= 0;
    if (!*found)
        return;
    l->fds = must(calloc(1, sizeof *l->fds));
    l->fds[0] = fd;
    l->n_fds = 1;
    tell_address(l);
}

/* Clients ask by both, at one address, and are answered from it. */
static bool check_pair(const struct listening *l, int stream, int datagrams, struct fault *why)
{
    struct addr a = {0}, b = {0};

    if (stream < 0 || datagrams < 0)
        return fault_set(why, FAULT_SYNTAX, "LISTEN_FDS: %s has a socket for %s and none for %s: give both (ListenStream=, ListenDatagram=)", l->name,
                         stream < 0 ? "datagrams" : "connections", stream < 0 ? "connections" : "datagrams");
    real_address(stream, &a);
    real_address(datagrams, &b);
    if ((a.family != AF_INET && a.family != AF_INET6) || !addr_equals(&a, &b))
        return fault_set(why, FAULT_SYNTAX, "LISTEN_FDS: the two sockets of %s are at two addresses", l->name);
    if (addr_is_unspecified(&a))
        return fault_set(why, FAULT_SYNTAX, "LISTEN_FDS: the sockets of %s are at every address, and an answer would come from whichever the route has; "
                         "have them listen at one", l->name);
    return true;
}

static bool take_questions(struct listening *l, bool *found, struct fault *why)
{
    int stream = inherit_find(l->name, l->written, SOCK_STREAM), datagrams = inherit_find(l->name, l->written, SOCK_DGRAM);

    *found = stream >= 0 || datagrams >= 0;
    if (!*found)
        return true;
    l->fds = must(calloc(2, sizeof *l->fds));
    for (int i = 0; i < 2; i++)
        if ((i ? datagrams : stream) >= 0)
            l->fds[l->n_fds++] = i ? datagrams : stream;
    if (!check_pair(l, stream, datagrams, why))
        return false;
    spread_use(datagrams);
    tell_address(l);
    return true;
}

/* *found: a service manager gave what it listens with. False and why: that is not what it takes. */
static bool take_inherited(struct listening *l, bool *found, struct fault *why)
{
    if (l->is_dns)
        return take_questions(l, found, why);
    take_stream(l, found);
    return true;
}

struct opening {
    struct listeners *to;
    const struct listeners *now; /* NULL: the start */
    size_t n_workers;
};

static bool open_one(const struct opening *o, struct listening *l, struct fault *why)
{
    const struct listening *same = find_same(o->now, l);
    struct fault inner = {0};
    struct place p;
    bool found;

    if (same) {
        keep_sockets(l, same);
        return true;
    }
    if (!take_inherited(l, &found, why))
        return false;
    if (found)
        return true;
    if (!place_parse(l->address, &p, &inner))
        return fault_set(why, FAULT_SYNTAX, "listen.%s: %s", l->name, inner.text);
    if (l->is_dns)
        return open_dns(l, p, o->now, why);
    if (p.kind != PLACE_TCP)
        return open_shared(l, &p, why);
    return open_tcp(l, p, l->is_publish ? 1 : o->n_workers, o->now, why);
}

static void take_steered(struct listening *l)
{
    l->no_tproxy = 0;
    for (size_t i = 0; i < l->n_fds; i++)
        if (!steer_take_tproxy(l->fds[i]))
            l->no_tproxy = errno;
}

void listening_note(const struct listeners *list, struct buf *lines)
{
    for (size_t i = 0; i < list->n; i++) {
        const struct listening *l = &list->list[i];

        if (!l->is_transparent)
            continue;
        if (l->no_tproxy)
            buf_printf(lines, "listen.%s: no TPROXY: %s%s\n", l->name, strerror(l->no_tproxy),
                       l->no_tproxy == EPERM ? ": it takes CAP_NET_RAW or CAP_NET_ADMIN, which is gone once the gateway runs; start it with that. REDIRECT and names that lead here work without" : "");
        if (l->n_fds && !steer_knows_redirect(l->fds[0]))
            buf_printf(lines, "listen.%s: no REDIRECT until the kernel has nf_conntrack (modprobe nf_conntrack)\n", l->name);
    }
}

static bool open_written(const struct opening *o, const struct conf *c, bool is_added, struct fault *why)
{
    for (size_t i = 0; i < conf_count(c, "listen"); i++) {
        const struct conf_item *item = conf_item(c, "listen", i);
        struct listening *l = add(o->to, conf_name(item), conf_text(item, "address"), false);

        if (!bind_to(l, item, is_added, why) || !open_one(o, l, why))
            return false;
        if (l->is_transparent)
            take_steered(l);
    }
    return true;
}

/* On a port that the kernel chose, or a socket that was given, it is known where it listens only now. */
static bool asks_others(const struct conf *c, const char *name, const struct listening *l, struct fault *why)
{
    struct addr a;

    return !addr_parse(slice_of(l->address), &a) || !zone_asks_itself(c, name, &a, why);
}

static bool open_questions(const struct opening *o, const struct conf *c, struct fault *why)
{
    for (size_t i = 0; i < conf_count(c, "dns"); i++) {
        const struct conf_item *item = conf_item(c, "dns", i);
        struct buf name = {0};
        struct listening *l;
        char *text;

        buf_printf(&name, DNS_PREFIX "%s", conf_name(item));
        text = buf_take_text(&name);
        l = add(o->to, text, conf_text(item, "address"), false);
        free(text);
        l->is_dns = true;
        if (!open_one(o, l, why) || !asks_others(c, conf_name(item), l, why))
            return false;
    }
    return true;
}

static bool open_all(const struct opening *o, const struct gateway_config *c, struct fault *why)
{
    return open_written(o, c->conf, false, why) && open_written(o, c->added, true, why) && open_questions(o, c->conf, why) &&
           (!c->publish || !c->publish[0] || open_one(o, add(o->to, "publish", c->publish, true), why)) &&
           (!c->admin || !c->admin[0] || open_one(o, add(o->to, "admin", c->admin, true), why));
}

static void close_one(struct listening *l)
{
    for (size_t i = 0; i < l->n_fds && !l->is_kept; i++)
        close(l->fds[i]);
    if (!l->is_kept && l->n_fds && slice_starts(slice_of(l->address), SLICE("unix:")))
        unlink(l->address + 5);
    if (!l->is_kept)
        free(l->fds);
    token_file_free(l->token);
    free(l->sandbox);
    free(l->name);
    free(l->written);
    free(l->address);
}

/* ---- all of them ---- */

bool listening_open(struct listeners *out, const struct gateway_config *config, size_t n_workers, struct fault *why)
{
    struct opening o = {out, NULL, n_workers};

    *out = (struct listeners){0};
    return inherit_begin(why) && open_all(&o, config, why) && inherit_end(why);
}

void listening_close(struct listeners *l)
{
    for (size_t i = 0; i < l->n; i++)
        close_one(&l->list[i]);
    free(l->list);
    *l = (struct listeners){0};
}

bool listening_plan(struct listeners *plan, const struct listeners *now, const struct gateway_config *config, size_t n_workers,
                    struct fault *why)
{
    struct opening o = {plan, now, n_workers};

    *plan = (struct listeners){0};
    return open_all(&o, config, why);
}

void listening_abandon(struct listeners *plan)
{
    listening_close(plan); /* what is kept is left alone */
}

void listening_adopt(struct listeners *now, struct listeners *plan, struct listeners *left)
{
    *left = *now;
    *now = *plan;
    *plan = (struct listeners){0};
    for (size_t i = 0; i < left->n; i++)
        for (size_t j = 0; j < now->n; j++)
            left->list[i].is_kept |= now->list[j].is_kept && now->list[j].fds == left->list[i].fds;
    for (size_t j = 0; j < now->n; j++)
        now->list[j].is_kept = false;
}

static bool is_same_text(const char *a, const char *b)
{
    return strcmp(a ? a : "", b ? b : "") == 0;
}

static bool is_bound_alike(const struct listening *a, const struct listening *b)
{
    return is_same_text(a->sandbox, b->sandbox) && a->is_added == b->is_added && !a->token == !b->token &&
           (!a->token || is_same_text(token_file_path(a->token), token_file_path(b->token)));
}

bool listening_is_news(const struct listeners *now, const struct listening *l)
{
    for (size_t i = 0; i < now->n; i++)
        if (now->list[i].fds == l->fds && strcmp(now->list[i].name, l->name) == 0)
            return !is_bound_alike(&now->list[i], l);
    return true;
}

struct listening *listening_find(const struct listeners *l, const char *name)
{
    for (size_t i = 0; i < l->n; i++)
        if (!l->list[i].is_publish && !l->list[i].is_dns && strcmp(l->list[i].name, name) == 0)
            return &l->list[i];
    return NULL;
}
