/* `exeat token renew`: keeps a file with a fresh leave token, for jobs that are longer than tokens. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/say.h"
#include "cmd/token.h"
#include "proxy/notify.h"

#define RETRY_FIRST_MS 1000
#define RETRY_MOST_MS 30000

struct renewal {
    const struct invocation *inv;
    const char *output;
    int64_t interval_ms;    /* as asked for; 0: a third of the token's life */
    int64_t life_ms;        /* of the token in the file */
    int64_t expires_s;      /* when the token in the file ends; 0: none was written yet */
    int64_t retry_ms;       /* after the next failure */
    struct fault said;      /* the trouble that was last spoken of; kind 0: none */
    bool said_expired;
    int timer, signals;
};

/* One token into the file. */
static bool renew(struct renewal *r, struct fault *why)
{
    struct buf token = {0};
    int64_t life_ms = 0, issued_s = clock_wall_s();
    bool ok = token_make(r->inv, r->expires_s == 0, &token, &life_ms, why);

    if (ok && r->expires_s == 0 && r->interval_ms >= life_ms)
        ok = fault_set(why, FAULT_USAGE, "--interval is %lld s and the token is good for %lld s: it would lie there expired",
                       (long long)r->interval_ms / 1000, (long long)life_ms / 1000);
    ok = ok && file_replace(r->output, 0600, buf_slice(&token), why);
    if (ok) {
        r->life_ms = life_ms;
        r->expires_s = issued_s + life_ms / 1000;
    }
    buf_wipe(&token);
    return ok;
}

/* The same trouble is told once, and once more when the token in the file has come to its end over it. */
static void tell_trouble(struct renewal *r, const struct fault *why)
{
    struct buf until = {0};

    if (r->said.kind != why->kind || strcmp(r->said.text, why->text) != 0) {
        if (r->expires_s)
            clock_rfc3339(&until, r->expires_s * 1000000000);
        say_error("token renew: %s; trying again%s%.*s", why->text, r->expires_s ? "; the token that is there ends at " : "",
                  SLICE_ARG(slice_cut(buf_slice(&until), 0, strlen("2026-01-02T03:04:05"))));
        buf_free(&until);
    }
    r->said = *why;
    if (r->expires_s && clock_wall_s() >= r->expires_s && !r->said_expired) {
        say_error("token renew: the token in %s has expired", r->output);
        r->said_expired = true;
    }
}

static void tell_success(struct renewal *r)
{
    if (r->said.kind)
        say_note("token renew: %s is fresh again", r->output);
    else
        say_debug("token renew: %s is fresh", r->output);
    r->said = (struct fault){0};
    r->said_expired = false;
}

/* How long to leave the file alone. An issuer that has shortened its tokens since is followed. */
static int64_t next_ms(const struct renewal *r)
{
    int64_t third = r->life_ms / 3;

    return r->interval_ms && r->interval_ms < r->life_ms ? r->interval_ms : third > 0 ? third : 1;
}

static int64_t backoff_ms(struct renewal *r)
{
    int64_t wait = r->retry_ms;

    r->retry_ms = r->retry_ms * 2 < RETRY_MOST_MS ? r->retry_ms * 2 : RETRY_MOST_MS;
    return wait;
}

/*
 * Sleep by the wall clock, which is what tokens end by: a machine that was suspended, and one whose clock was
 * set, wake at once. False: told to stop.
 */
static bool sleep_ms(struct renewal *r, int64_t ms)
{
    int64_t at = clock_wall_ns() + ms * 1000000;
    struct itimerspec when = {.it_value = {.tv_sec = at / 1000000000, .tv_nsec = at % 1000000000}};
    struct pollfd p[2] = {{.fd = r->timer, .events = POLLIN}, {.fd = r->signals, .events = POLLIN}};
    struct signalfd_siginfo info;
    uint64_t rings;
    ssize_t got;

    timerfd_settime(r->timer, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &when, NULL);
    while (poll(p, 2, -1) < 0 && errno == EINTR)
        ;
    got = read(r->timer, &rings, sizeof rings);
    (void)got; /* ECANCELED when the clock was set: that is a reason to wake, too */
    if (!(p[1].revents & POLLIN) || read(r->signals, &info, sizeof info) != (ssize_t)sizeof info)
        return true;
    return info.ssi_signo == SIGHUP;
}

static bool open_waits(struct renewal *r, struct fault *why)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, NULL);
    r->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    r->timer = timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (r->signals < 0 || r->timer < 0)
        return fault_set(why, FAULT_IO, "no timer: %s", strerror(errno));
    return true;
}

/* A command line or configuration that is wrong from the start is said at once; what comes later is waited out. */
static bool is_hopeless(const struct renewal *r, const struct fault *why)
{
    return r->expires_s == 0 && (why->kind == FAULT_USAGE || why->kind == FAULT_SYNTAX);
}

static int keep_fresh(struct renewal *r)
{
    struct fault why = {0};
    int64_t wait;

    if (!open_waits(r, &why))
        return command_fail(r->inv, &why);
    do {
        bool first = r->expires_s == 0;

        why = (struct fault){0};
        if (renew(r, &why)) {
            tell_success(r);
            if (first)
                notify_ready();
            r->retry_ms = RETRY_FIRST_MS;
            wait = next_ms(r);
        } else if (is_hopeless(r, &why)) {
            return command_fail(r->inv, &why);
        } else {
            tell_trouble(r, &why);
            wait = backoff_ms(r);
        }
    } while (sleep_ms(r, wait));
    notify_stopping();
    return STATUS_YES;
}

static int run(const struct invocation *inv)
{
    struct renewal r = {
        .inv = inv,
        .output = option_text(inv->options, "output"),
        .interval_ms = option_number(inv->options, "interval", 0),
        .retry_ms = RETRY_FIRST_MS,
        .timer = -1,
        .signals = -1,
    };
    struct fault why = {0};
    int status = STATUS_YES;

    if (option_count(inv->options, "interval") && r.interval_ms < 1)
        return command_misuse(inv, "--interval is no time to wait");
    if (option_flag(inv->options, "once"))
        status = renew(&r, &why) ? STATUS_YES : command_fail(inv, &why);
    else
        status = keep_fresh(&r);
    if (r.timer >= 0)
        close(r.timer);
    if (r.signals >= 0)
        close(r.signals);
    return status;
}

const struct command token_renew = {
    .name = "renew",
    .summary = "keep a file with a fresh leave token",
    .help = "For jobs that are longer than tokens: writes a token as exeat token issue makes it into FILE, and a new one "
            "every interval, until SIGTERM. Who reads the file sees one token or the next, whole; its mode is 0600.\n"
            "\n"
            "The configuration is read anew each time. What goes wrong is said, and tried again after a second, then more "
            "seldom, at least every 30 s. SIGHUP, a clock that is set and a machine that wakes from sleep make a token at "
            "once. A service manager is told when the first token is there (Type=notify); "
            "exeat-token@.service is such a unit.\n",
    .examples = "  exeat token renew --sandbox vm1 --scope npm:read --output /run/exeat/vm1.jwt\n"
                "  exeat token renew --sandbox vm1 --scope npm:read --lifetime 15m --interval 5m --output vm1.jwt\n"
                "  exeat token renew --sandbox vm1 --scope npm:read --output vm1.jwt --once\n",
    .options =
        (const struct option_spec[]){
            {"output", 'o', OPTION_TEXT, "FILE", NULL, "the file to keep fresh (mode 0600), replaced as a whole", false,
             true},
            {"interval", 0, OPTION_TIME, "TIME", NULL, "how often; a third of the token's life", false, false},
            {"once", 0, OPTION_FLAG, NULL, NULL, "one token, then end", false, false},
            TOKEN_OPTIONS,
            {0},
        },
    .run = run,
};
