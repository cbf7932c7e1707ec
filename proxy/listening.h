/*
 * Listening sockets. The supervisor owns them: one a worker for TCP (SO_REUSEPORT), so that what is queued in one outlives
 * its worker, and none is closed while its listener is configured.
 */
#ifndef PROXY_LISTENING_H
#define PROXY_LISTENING_H

#include "net/place.h"
#include "proxy/config.h"
#include "proxy/token_file.h"

struct listening {
    char *name;
    char *written;   /* its address in the configuration */
    char *address;   /* as text, with the port the kernel gave */
    int *fds;        /* one a worker for TCP; one for unix, vsock, publish, and where a service manager gave one; DNS: two then */
    size_t n_fds;
    char *sandbox;   /* the one behind it; NULL: whoever shows a token */
    struct token_file *token; /* NULL: its clients show one */
    struct place_owner owner; /* of a unix socket */
    uint32_t cid;    /* vsock: the guest's */
    bool is_transparent; /* mode: transparent */
    int no_tproxy;   /* of such: the errno for which it does not take what TPROXY brings; 0: it does */
    bool is_added;   /* by exeat listener add */
    bool is_publish; /* publish and admin: the clerk's */
    bool is_dns;     /* the usher's: the first of fds takes TCP, the others datagrams (net/spread.h); its name begins with "dns." */
    bool is_kept;    /* in a plan: the sockets are those of the listener it was */
};

struct listeners {
    struct listening *list;
    size_t n;
};

/*
 * Open what the configuration lists, and what was added to it; sockets that a service manager gave (LISTEN_FDS, taken from the environment
 * with the first call) are used for the listener they are named after, or bound to the address of. False and why, with
 * what to do; listening_close() then closes what was opened.
 */
bool listening_open(struct listeners *out, const struct gateway_config *config, size_t n_workers, struct fault *why);
void listening_close(struct listeners *l);

/* A line for each transparent listener that cannot have all it could, for want of kernel or capability. */
void listening_note(const struct listeners *l, struct buf *lines);

/*
 * The same for another configuration while these are open. What has the same address keeps its sockets, whatever its name.
 * Nothing of now changes until listening_adopt(); listening_abandon() closes what the plan opened.
 */
bool listening_plan(struct listeners *plan, const struct listeners *now, const struct gateway_config *config,
                    size_t n_workers, struct fault *why);
void listening_abandon(struct listeners *plan);
/* The plan takes the place of now; *left gets what is in it no more, to be closed by listening_close(). */
void listening_adopt(struct listeners *now, struct listeners *plan, struct listeners *left);
/* Has the plan's listener a name that this address did not have before, or is it bound otherwise: must workers be handed it? */
bool listening_is_news(const struct listeners *now, const struct listening *l);
/* The sandboxes' one of this name; NULL: none. Borrowed. */
struct listening *listening_find(const struct listeners *l, const char *name);

#endif
