/*
 * The supervisor: owns sockets and state, starts the roles, wires them, restarts
 * what dies, stops everything in order. Parses no network input.
 */
#ifndef PROXY_SUPERVISOR_H
#define PROXY_SUPERVISOR_H

#include "base/buf.h"
#include "proxy/assets.h"
#include "proxy/config.h"
#include "proxy/keyring.h"
#include "proxy/recorder.h"
#include "proxy/warden.h"

enum process_state { PROCESS_DOWN, PROCESS_STARTING, PROCESS_UP };

struct process {
    enum role role;
    int index;
    pid_t pid; /* 0: not running */
    uid_t uid;
    gid_t gid;
    enum process_state state;
    uint64_t generation; /* of the configuration it works by */
    bool did;            /* its part of the step of a reload */
    struct channel *control;
    unsigned restarts;
    int64_t started_ms;
    struct timer *timer; /* back-off before the next start */
    struct warden *warden; /* what is known of its cell */
    bool told_stop;
    bool pinged;       /* and has not answered yet */
    unsigned silent;   /* looks without an answer */
    char trouble[FAULT_TEXT_SIZE]; /* what keeps it from its work, in its own words; "" for nothing */
    pid_t troubled;    /* who said so */
};

struct json_t;
struct reload;
struct suspects;
struct sources;

/* Who asked for something through the admin socket; its id is of the question that is answered. clerk NULL: a signal. */
struct asker {
    struct process *clerk;
    uint32_t id; /* 0: the clerk that had it is gone */
    uid_t uid;
};

struct supervisor {
    struct loop *loop;
    struct gateway_config *config;
    struct assets assets;
    struct process *processes;
    size_t n_processes;
    uint64_t generation;
    int64_t started_ms;
    bool debug, was_ready, stopping;
    int exit_status;
    struct timer *stop_timer, *pulse;
    unsigned looks; /* of the pulse */
    struct recorder *recorder; /* what people order is recorded too */
    struct reload *reload;
    struct suspects *suspects; /* sandboxes that were there when workers crashed */
    struct sources *sources;
    struct keyring *keyring; /* keys that issuers publish */
    struct buf notes; /* what is off, one line each */
};

/*
 * Run the gateway until SIGTERM or SIGINT. Takes config, which was read from path (kept). Returns the exit status (0
 * after an orderly stop).
 */
int supervisor_run(struct gateway_config *config, const char *path, bool debug);

/* Every role up, answering, and able to work? */
bool supervisor_is_ready(const struct supervisor *s);
const char *process_name(const struct process *p); /* until the next call */
/* "down", "starting", "up", "silent" */
const char *process_state_name(const struct process *p);

/*
 * proxy/pulse.c: whether the roles live. A role that has not answered for limits.hang-time is ended, and so started
 * again; so is the scribe when the journal's directory is no longer where its path leads. A death is recorded.
 */
void pulse_start(struct supervisor *s);
void pulse_answered(struct process *p);
void pulse_trouble(struct process *p, struct slice text);
void pulse_death(struct supervisor *s, const struct process *p, const char *how);

/* proxy/orders.c: one JSON request from the admin socket, one JSON answer (docs/admin.md); false: it comes later. */
bool orders_take(struct supervisor *s, const struct asker *who, struct slice request, struct buf *out);
/* The answer that says no (give); words that are off are told apart. */
struct json_t *orders_refuse(const struct fault *why);

/*
 * proxy/quarantine.c: sandboxes that nothing goes out of. The order of an admin and its answer (give); who is there (give); and
 * what a crash of a worker means for those it served, before it starts again.
 */
struct json_t *quarantine_order(struct supervisor *s, const struct asker *who, const struct json_t *request);
struct json_t *quarantine_list(const struct supervisor *s);
void quarantine_crash(struct supervisor *s, const struct process *worker);
/* MSG_LEAKED: in, when canaries.on-leak says so. False: it is malformed. */
bool quarantine_leak(struct supervisor *s, struct slice payload);
/*
 * proxy/closure.c: services that are closed by hand. The order of an admin and its answer (give); those that are (give). A service
 * that is opened is what its audit says.
 */
struct json_t *closure_order(struct supervisor *s, const struct asker *who, const struct json_t *request);
struct json_t *closure_list(const struct supervisor *s);
/* Of a service that is closed by hand and is called otherwise now, people are told: what it listed may be open again. */
void closure_remind(const struct supervisor *s);
/* proxy/receipts.c: an audit was made, and what stands for its exchanges goes into the journal. The order and its answer (give). */
struct json_t *receipt_order(struct supervisor *s, const struct asker *who, const struct json_t *request);
/* proxy/listener.c: listeners that come and go while the gateway runs. The order of an admin and its answer; all there are (give). */
struct json_t *listener_order(struct supervisor *s, const struct asker *who, const struct json_t *request);
struct json_t *listener_list(const struct supervisor *s);
/*
 * proxy/keybox.c: keys that issuers publish. Open: what was stored when the gateway ran last. Hand: all there are to a process
 * that starts. Fetched: the clerk has a set; it is stored, handed to who verifies, and recorded when it is another. Wanted: a
 * worker met an unknown kid. The last two are false when the message breaks the table.
 */
void keybox_open(struct supervisor *s);
void keybox_hand(const struct supervisor *s, struct process *p);
bool keybox_fetched(struct supervisor *s, struct slice payload);
bool keybox_wanted(struct supervisor *s, struct slice payload);
/* Something was added to the revocations: workers cut what is open by it, now. */
void authority_changed(struct supervisor *s);

/* ---- for reload.c and orders.c ---- */

void supervisor_answer(const struct asker *who, struct slice answer);

#endif
