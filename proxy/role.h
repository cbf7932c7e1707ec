/*
 * Roles: the processes of the gateway, what each is handed, and the
 * tables of what they may ask of each other. Anything not in a table is fatal to the asker.
 */
#ifndef PROXY_ROLE_H
#define PROXY_ROLE_H

#include "authz/policy.h"
#include "base/bundle.h"
#include "base/conf.h"
#include "net/ipc.h"

enum role { ROLE_SUPERVISOR, ROLE_WORKER, ROLE_PORTER, ROLE_KEEPER, ROLE_SCRIBE, ROLE_CLERK, ROLE_USHER, N_ROLES };
const char *role_name(enum role r);
/* "keeper", "worker 0": a process among those of its kind. */
void role_label(enum role r, int index, char *out, size_t size);

/*
 * Messages. Payloads are written with base/pack.h in the order given.
 */
enum role_message {
    /* supervisor -> any role */
    MSG_CONFIG = 1,  /* u64 generation; fd: the role's bundle. First message a role gets */
    MSG_PEER,        /* u8 role, u16 index; fd: a channel to that role. Comes again when that role was restarted */
    MSG_LISTENER,    /* bytes name, u8 is_publish; fd: listening socket (workers; clerk: publish and admin). Usher: u8 takes TCP; fd: that, or a datagram socket */
    MSG_SHARED,      /* bytes name ("revocations", "pins", "spent", "counters/worker 0", "tally/worker 0"); fd: shared memory */
    MSG_DIRECTORY,   /* bytes name ("journal"); fd: directory (scribe) */
    MSG_OWN,         /* porter: u16 n, n times bytes address: all that the gateway listens on; again when that changed */
    MSG_GO,          /* everything is there: start work */
    MSG_STOP,        /* finish what is open, then exit 0 */
    MSG_PING,        /* are you there? Answered by MSG_PONG from the loop */
    /*
     * Another configuration while the role runs (proxy/reload.h says in which order). Each but MSG_ABANDON is answered by
     * MSG_DID; MSG_RELOAD may be answered by MSG_CANNOT. New listening sockets come before MSG_RELOAD, as MSG_LISTENER.
     */
    MSG_RELOAD,      /* u64 generation; fd: the role's bundle. Build all of it beside what is in force */
    MSG_SWITCH,      /* u64 generation: what was built is in force; what was before is kept */
    MSG_SETTLE,      /* u64 generation: no process works by what was before: drop it */
    MSG_ABANDON,     /* u64 generation: drop what was built */
    MSG_BOUND,       /* worker, before the MSG_LISTENER it is of: bytes name, bytes sandbox ("": shared), u8 has a token file, u8 was added, u8 is transparent, u32 CID */
    MSG_TOKEN,       /* worker: bytes name of a bound listener, bytes token ("": none now). Again when it changes */
    MSG_OPEN,        /* worker: bytes name: accept on that listener, which was added while the gateway runs */
    MSG_UNLISTEN,    /* worker: bytes name: that one goes */
    MSG_KEYS,        /* worker, keeper, clerk: bytes issuer, bytes URL, i64 fetched (s), bytes JWK set: what is published there (proxy/keyring.h). Again when it is fetched */
    MSG_AUTHORITY,   /* worker: authority was taken away (shared memory says whose): cut what is open by it */
    /* any role -> supervisor */
    MSG_READY,       /* the role works; sent once after GO */
    MSG_FAILED,      /* bytes text: cannot start (one line for people); the role exits */
    MSG_DID,         /* u16 type of the message that is done, u64 generation */
    MSG_CANNOT,      /* u64 generation, bytes text: why it cannot be built, for people */
    MSG_ADMIN,       /* clerk: u32 id, u32 uid of who asks, bytes json request; answered by MSG_ADMIN_ANSWER */
    MSG_ADMIN_ANSWER, /* supervisor -> clerk: u32 id, bytes json answer */
    MSG_PONG,        /* the answer to PING */
    MSG_TROUBLE,     /* bytes text: why the role cannot do its work for now; empty: it can again. For status and readyz */
    MSG_CLOSED,      /* u32 walls (proxy/cell.h); fd: the ear of the jail, if any. Once, before READY */
    MSG_VIOLATION,   /* u8 role, u16 index, bytes what: this peer broke its table; only from those it asks (the wiring) */

    MSG_LEAKED,      /* worker: bytes sandbox, bytes canary id: that sandbox, by a verified token, sent that canary; where on-leak says quarantine */

    /* about the keys that issuers publish (proxy/locksmith.h) */
    MSG_WANT_KEYS,    /* worker -> supervisor -> clerk: bytes issuer: it has none of that kid */
    MSG_FETCHED_KEYS, /* clerk -> supervisor: bytes issuer, bytes JWK set, bytes words for the record */

    /* keeper -> supervisor, which reads what the operator keeps somewhere (proxy/sources.h) */
    MSG_FETCH,       /* u32 id, bytes service, bytes issuer, bytes sandbox, i64 until: the end of what its leave token allows */
    MSG_FETCHED,     /* supervisor -> keeper: u32 id, i64 until (0: it does not say), bytes credential, bytes secret of an exchange's client */
    MSG_NOT_FETCHED, /* supervisor -> keeper: u32 id, u16 reason, bytes detail */

    /*
     * any -> scribe. The sender numbers its records; the first number on a channel is its choice, from there on each record
     * takes the next one, refused or not: a hole or a repetition is a violation. The scribe answers once per turn, in order:
     * RECORDED n: the records up to n are written (those refused before stay refused), and the scribe is open.
     * REFUSED n: the records after the last answer up to n are not written and never will be, and the scribe is closed;
     * what comes while it is closed is refused too. When it has written again (it tries every 500 ms) it says RECORDED to
     * everybody, with the last number it has seen (0: none): that opens. Refused records are told by a record of kind lost.
     */
    MSG_RECORDS = 100, /* u64 first role_seq, u32 count, then a batch of records (journal/record.h) */
    MSG_RECORDED,      /* scribe: u64 role_seq */
    MSG_REFUSED,       /* scribe: u64 role_seq, bytes text: why, for people */

    /*
     * worker -> porter, and clerk -> porter for token endpoints. generation: of the policy that the worker decided by. The porter judges by the same one while it
     * has it, that is until every worker has another, and by its newest otherwise.
     */
    MSG_DIAL = 200, /* u32 id, u64 generation, 16 bytes exchange id, bytes sandbox, bytes host (canonical), u16 port */
    MSG_DIAL_KEYS, /* clerk alone: u32 id, u64 generation, 16 bytes exchange id, bytes issuer: to where it publishes its keys */
    MSG_DIAL_CANCEL, /* u32 id; no answer follows */
    MSG_DIALLED,     /* porter: u32 id, bytes address as text; fd: connected, non-blocking */
    MSG_NOT_DIALLED, /* porter: u32 id, u16 reason, bytes detail */

    /*
     * usher -> porter: the addresses of a listed name, for a question that is recorded. The porter checks name and addresses and
     * records what it finds. generation: as in MSG_DIAL.
     */
    MSG_LOOKUP,    /* u32 id, u64 generation, 16 bytes question id, bytes who asks, bytes from where, bytes host (canonical), u8 IPv6 */
    MSG_FOUND,     /* porter: u32 id, u32 seconds it holds, u16 n, n times bytes address; none: it has none of that family */
    MSG_NOT_FOUND, /* porter: u32 id, u16 reason, bytes detail */

    /* worker -> keeper */
    MSG_LEAF_KEY = 300, /* bytes SubjectPublicKeyInfo DER; once, first */
    MSG_CERTIFY,        /* u32 id, u64 generation (as in MSG_DIAL), bytes host */
    MSG_CERTIFIED,      /* keeper: u32 id, i64 not_after, bytes chain (certs/ca.h) */
    MSG_NOT_CERTIFIED,  /* keeper: u32 id, bytes detail */
    MSG_GRANT,          /* u32 id, u64 generation (as in MSG_DIAL), bytes service, bytes leave token, bytes listener it came to, bytes certificate shown with it */
    MSG_GRANTED,        /* keeper: u32 id, i64 until (s), u64 mark of the identity (0: the sandbox's own), u8 once, bytes value, bytes secret in it */
    MSG_NOT_GRANTED,    /* keeper: u32 id, u16 reason, bytes detail */

    /* keeper -> clerk, which speaks to token endpoints by the porter's descriptors */
    MSG_EXCHANGE = 400, /* u32 id, u64 generation, bytes service, bytes sandbox, bytes authorization, bytes form */
    MSG_EXCHANGED,      /* clerk: u32 id, i64 lives (s; 0: it does not say), bytes token */
    MSG_NOT_EXCHANGED,  /* clerk: u32 id, bytes detail */
};

/* One configuration, as a role is handed it. */
struct role_set {
    uint64_t generation;
    struct bundle *files;
    struct conf *conf;
    struct policy *policy; /* compiled in all but the scribe, where it is NULL */
};

/* What every role works with. The last four are the set in force. */
struct role_context {
    enum role role;
    int index;
    struct loop *loop;
    struct channel *control; /* to the supervisor */
    struct bundle *files;
    struct conf *conf;
    struct policy *policy;   /* compiled in all but the scribe, where it is NULL */
    uint64_t generation;
    int directory;   /* of MSG_DIRECTORY (borrowed from the role that took it); -1: none */
    unsigned walls;  /* that stood before it came (proxy/cell.h) */
    bool closed;     /* in its cell */
};

/*
 * A role's own part. Each is called from the loop. Failing start or gather sends MSG_FAILED and exits.
 * gather: once, before the cell closes: the last moment to ask for what its table does not have. Then no peer has spoken yet.
 * on_peer takes fd. on_resource: MSG_LISTENER, MSG_SHARED and MSG_DIRECTORY, before start; takes fd.
 */
struct role_ops {
    bool (*gather)(struct role_context *c, struct fault *why); /* NULL: nothing */
    bool (*start)(struct role_context *c, struct fault *why); /* on MSG_GO */
    void (*on_peer)(struct role_context *c, enum role peer, int index, int fd);
    void (*on_resource)(struct role_context *c, enum role_message type, struct slice name, bool flag, int fd);
    void (*on_control)(struct role_context *c, enum role_message type, struct slice payload);
    void (*stop)(struct role_context *c); /* MSG_STOP; the role calls loop_stop when done */
    /*
     * Reload; NULL: the role needs nothing but the set itself. prepare builds from next (kept) beside what is in force, or
     * fails and leaves nothing; abandon drops what it built. adopt: the context holds the new set; before lives on until
     * settle has returned.
     */
    bool (*prepare)(struct role_context *c, const struct role_set *next, struct fault *why);
    void (*abandon)(struct role_context *c);
    void (*adopt)(struct role_context *c, const struct role_set *before);
    void (*settle)(struct role_context *c);
};

extern const struct role_ops worker_ops, porter_ops, keeper_ops, scribe_ops, clerk_ops, usher_ops;

/* Tell the supervisor what keeps the role from its work; "" when that is over. */
void role_trouble(struct role_context *c, const char *text);
/*
 * The supervisor broke the table: nothing can be trusted then, and this process ends.
 */
void role_distrust(struct role_context *c, const char *what) __attribute__((noreturn));

/*
 * A peer broke the table of requests (what: one line): the supervisor is told, and ends it. The caller drops the channel at
 * once and reads no more of it; it goes on with its other peers.
 */
void role_violation(struct role_context *c, enum role peer, int index, const char *what);

#endif
