/*
 * The supervisor: owns sockets and state, starts the roles, wires them, restarts
 * what dies, stops everything in order. Parses no network input.
 */
#ifndef PROXY_SUPERVISOR_H
#define PROXY_SUPERVISOR_H

#include "base/buf.h"
#include "proxy/assets.h"
#include "proxy/config.h"
#include "proxy/recorder.h"

enum process_state { PROCESS_DOWN, PROCESS_STARTING, PROCESS_UP };

struct process {
    enum role role;
    int index;
    pid_t pid; /* 0: not running */
    uid_t uid;
    gid_t gid;
    enum process_state state;
    struct channel *control;
    unsigned restarts;
    int64_t started_ms;
    struct timer *timer; /* back-off before the next start */
    bool told_stop;
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
    struct timer *stop_timer;
    struct recorder *recorder; /* what people order is recorded too */
    struct buf notes; /* what is off, one line each */
};

/* Run the gateway until SIGTERM or SIGINT. Takes config. Returns the exit status (0 after an orderly stop). */
int supervisor_run(struct gateway_config *config, bool debug);

/* Every role up? */
bool supervisor_is_ready(const struct supervisor *s);

/* proxy/orders.c: one JSON request from the admin socket, one JSON answer (docs/admin.md). */
void supervisor_answer(struct supervisor *s, struct slice request, struct buf *out);

#endif
