/* exeat-relay: the loop, and what is said on its command line. Links do the work (sandbox/link.h). */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "sandbox/helper.h"
#include "sandbox/link.h"
#include "sandbox/words.h"

enum { CONNECTIONS = 1000, CONNECTIONS_MOST = 100000, BACKLOG = 1024, PAUSE_MS = 100, STATUS_USAGE = 2, STATUS_FAILED = 3 };

struct relay {
    struct link_terms terms;
    struct endpoint gateway, listen;
    struct pass pass;
    size_t most;
    bool stdio;
    int listener;
    int64_t accept_ms; /* when the listener is looked at again: descriptors had run out */
    struct link **links;
    size_t n_links;
    struct pollfd *polls; /* the listener's, then LINK_POLLS of each link */
};

static volatile sig_atomic_t told_to_stop;

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Each trouble once a minute, however many connections meet it. */
static void say(const char *what, const char *detail)
{
    static char before[256];
    static int64_t at_ms;
    char text[256];
    int64_t now = now_ms();

    snprintf(text, sizeof text, "%s%s%s", what, *detail ? ": " : "", detail);
    if (strcmp(text, before) == 0 && now < at_ms + 60000)
        return;
    memcpy(before, text, sizeof before);
    at_ms = now;
    fprintf(stderr, "exeat-relay: %s\n", text);
}

/* ---- the loop ---- */

static void add_link(struct relay *r, int in, int out)
{
    struct link *l = link_new(in, out, &r->terms, now_ms());

    if (l)
        r->links[r->n_links++] = l;
    else
        say("no memory for one more connection", "");
}

static void accept_some(struct relay *r)
{
    while (r->n_links < r->most) {
        int fd = accept4(r->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd >= 0) {
            add_link(r, fd, fd);
            continue;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
            say("no more connections for now", strerror(errno));
            r->accept_ms = now_ms() + PAUSE_MS;
        }
        if (errno != ECONNABORTED && errno != EINTR)
            return;
    }
}

static int64_t sooner(int64_t a, int64_t b)
{
    return a < 0 || (b >= 0 && b < a) ? b : a;
}

/* Fill polls; returns when to wake at the latest, -1 for no matter. */
static int64_t prepare(struct relay *r, int64_t now)
{
    bool listens = r->listener >= 0 && r->n_links < r->most && now >= r->accept_ms;
    int64_t wake = now < r->accept_ms ? r->accept_ms : -1;

    r->polls[0] = (struct pollfd){.fd = listens ? r->listener : -1, .events = POLLIN};
    for (size_t i = 0; i < r->n_links; i++)
        wake = sooner(wake, link_wants(r->links[i], r->polls + 1 + i * LINK_POLLS));
    return wake;
}

/* Every link has its turn; those that are over make room. */
static void turn(struct relay *r)
{
    int64_t now = now_ms();
    size_t n = 0;

    for (size_t i = 0; i < r->n_links; i++) {
        if (link_turn(r->links[i], r->polls + 1 + i * LINK_POLLS, now))
            r->links[n++] = r->links[i];
        else
            link_free(r->links[i]);
    }
    r->n_links = n;
    if (r->polls[0].revents)
        accept_some(r);
}

static void serve(struct relay *r, const sigset_t *while_waiting)
{
    while (!told_to_stop && (r->listener >= 0 || r->n_links)) {
        int64_t now = now_ms(), wake = prepare(r, now), ms = wake - now > 0 ? wake - now : 0;
        struct timespec wait = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

        if (ppoll(r->polls, 1 + r->n_links * LINK_POLLS, wake < 0 ? NULL : &wait, while_waiting) >= 0)
            turn(r);
        else if (errno != EINTR)
            return;
    }
}

static void close_links(struct relay *r)
{
    while (r->n_links)
        link_free(r->links[--r->n_links]);
    free(r->links);
    free(r->polls);
    r->links = NULL;
    r->polls = NULL;
}

/* ---- start ---- */

static void on_signal(int number)
{
    (void)number;
    told_to_stop = 1;
}

/* SIGTERM and SIGINT come only while it waits. */
static void set_signals(sigset_t *while_waiting)
{
    struct sigaction stop = {.sa_handler = on_signal}, ignore = {.sa_handler = SIG_IGN};
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigprocmask(SIG_BLOCK, &set, while_waiting);
    sigdelset(while_waiting, SIGTERM);
    sigdelset(while_waiting, SIGINT);
    sigaction(SIGTERM, &stop, NULL);
    sigaction(SIGINT, &stop, NULL);
    sigaction(SIGPIPE, &ignore, NULL);
}

/* Two descriptors a connection, and some. */
static void raise_limit(size_t connections)
{
    struct rlimit limit;
    rlim_t wanted = (rlim_t)connections * 2 + 16;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= wanted)
        return;
    limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur < wanted)
        say("the limit of open files leaves fewer connections than --connections", "");
}

static bool open_listener(struct relay *r)
{
    char text[160];

    r->listener = endpoint_listen(&r->listen, BACKLOG);
    endpoint_text(&r->listen, text, sizeof text);
    if (r->listener < 0) {
        fprintf(stderr, "exeat-relay: %s: %s\n", text, strerror(errno));
        return false;
    }
    fprintf(stderr, "exeat-relay: ready %s\n", text);
    return true;
}

static void open_stdio(struct relay *r)
{
    fcntl(STDIN_FILENO, F_SETFL, fcntl(STDIN_FILENO, F_GETFL) | O_NONBLOCK);
    fcntl(STDOUT_FILENO, F_SETFL, fcntl(STDOUT_FILENO, F_GETFL) | O_NONBLOCK);
    add_link(r, STDIN_FILENO, STDOUT_FILENO);
}

static int run(struct relay *r)
{
    sigset_t while_waiting;
    int status = STATUS_FAILED;

    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    set_signals(&while_waiting);
    raise_limit(r->most);
    r->links = calloc(r->most, sizeof *r->links);
    r->polls = calloc(1 + r->most * LINK_POLLS, sizeof *r->polls);
    if (!r->links || !r->polls) {
        fprintf(stderr, "exeat-relay: no memory for %zu connections\n", r->most);
        goto out;
    }
    r->terms.say = say;
    if (r->terms.pass && !pass_refresh(r->terms.pass))
        say("no token yet", r->terms.pass->trouble);
    if (r->stdio)
        open_stdio(r);
    else if (!open_listener(r))
        goto out;
    serve(r, &while_waiting);
    if (!r->stdio)
        endpoint_remove(&r->listen);
    status = 0;
out:
    close_links(r);
    return status;
}

/* ---- the command line ---- */

static int misuse(const char *what, const char *detail)
{
    fprintf(stderr, "exeat-relay: %s%s; see: exeat-relay --help\n", what, detail);
    return STATUS_USAGE;
}

static void print_option(const char *name, const char *value, const char *text)
{
    printf("  --%s%s%s\n        %s\n", name, value ? " " : "", value ? value : "", text);
}

static int print_help(void)
{
    puts("usage: exeat-relay " RELAY_USAGE "\n       " RELAY_SUMMARY "\n\n" RELAY_HELP "\noptions:");
#define OPTION(name, value, text) print_option(name, value, text);
    RELAY_OPTIONS(OPTION)
#undef OPTION
    puts("\nexamples:\n" RELAY_EXAMPLES);
    return 0;
}

static bool take_number(struct relay *r, const char *text)
{
    char *end;
    long n;

    errno = 0;
    n = strtol(text, &end, 10);
    if (errno || *end || end == text || n < 1 || n > CONNECTIONS_MOST)
        return false;
    r->most = (size_t)n;
    return true;
}

/* 0 to go on, -1 when all is answered, else the status. */
static int take_option(struct relay *r, int which, const char *value)
{
    switch (which) {
    case 't':
        return endpoint_parse(value, &r->gateway) ? 0 : misuse("--to: this is no address: ", value);
    case 'l':
        return endpoint_parse(value, &r->listen) && r->listen.address.any.sa_family != AF_VSOCK
                   ? 0
                   : misuse("--listen: this is no address to listen at: ", value);
    case 's':
        r->stdio = true;
        return 0;
    case 'f':
        r->pass.path = value;
        r->terms.pass = &r->pass;
        return 0;
    case 'c':
        return take_number(r, value) ? 0 : misuse("--connections: a number from 1 to 100000 is wanted, not ", value);
    case 'h':
        print_help();
        return -1;
    case 'v':
        puts("exeat-relay " EXEAT_VERSION);
        return -1;
    case WORD_BARE:
        return misuse("one word too many: ", value);
    case WORD_NO_VALUE:
        return misuse("it wants a value: ", value);
    default:
        return misuse("no such option: ", value);
    }
}

static int read_options(struct relay *r, int argc, char **argv)
{
    static const struct word_spec options[] = {
        {"to", true, 't'},          {"listen", true, 'l'}, {"stdio", false, 's'},   {"token-file", true, 'f'},
        {"connections", true, 'c'}, {"help", false, 'h'},  {"version", false, 'v'}, {0},
    };
    const char *value = "";
    int at = 1, which, status;

    while ((which = words_next(argc, argv, &at, options, &value)) != WORD_END)
        if ((status = take_option(r, which, value)) != 0)
            return status;
    if (!r->gateway.len)
        return misuse("--to ADDRESS is needed", "");
    if (r->terms.pass && !r->stdio && !endpoint_is_local(&r->listen))
        return misuse("with --token-file it listens on a loopback address or a unix: socket only, for whoever reaches it "
                      "gets the token's leave",
                      "");
    return 0;
}

int main(int argc, char **argv)
{
    struct relay r = {.most = CONNECTIONS, .listener = -1};
    int status;

    endpoint_parse("127.0.0.1:3128", &r.listen);
    r.terms.gateway = &r.gateway;
    status = read_options(&r, argc, argv);
    if (status)
        return status < 0 ? 0 : status;
    return run(&r);
}
