/* Owns the question whether a role still lives. Starts nothing: what it ends, the supervisor starts again. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/say.h"
#include "proxy/counters.h"
#include "proxy/handout.h"
#include "proxy/reload.h"
#include "proxy/supervisor.h"

enum { LOOK_MS = 500, SILENT_LOOKS = 4, PINS_LOOKS = 8 };

const char *process_state_name(const struct process *p)
{
    static const char *const names[] = {"down", "starting", "up"};

    return p->state == PROCESS_UP && p->silent >= SILENT_LOOKS ? "silent" : names[p->state];
}

bool supervisor_is_ready(const struct supervisor *s)
{
    for (size_t i = 0; i < s->n_processes; i++)
        if (strcmp(process_state_name(&s->processes[i]), "up") != 0 || s->processes[i].trouble[0])
            return false;
    return true;
}

void pulse_answered(struct process *p)
{
    p->pinged = false;
    p->silent = 0;
}

void pulse_trouble(struct process *p, struct slice text)
{
    p->troubled = p->pid;
    snprintf(p->trouble, sizeof p->trouble, "%.*s", SLICE_ARG(slice_cut(text, 0, sizeof p->trouble - 1)));
}

/*
 * Looks are counted, not time: when the whole gateway was stopped for a while (a terminal's Ctrl-Z, a suspended machine),
 * nobody has been asked in vain.
 */
static void look_at(struct supervisor *s, struct process *p)
{
    int64_t most = conf_number(conf_section(s->config->conf, "limits"), "hang-time") / LOOK_MS;

    if (p->state != PROCESS_UP || !p->control)
        return;
    if (!p->pinged) {
        p->pinged = channel_send(p->control, MSG_PING, slice_make("", 0), -1);
    } else if (++p->silent > most) {
        say_error("%s (pid %d) has not answered for %u ms: ending it", process_name(p), (int)p->pid,
                  p->silent * LOOK_MS);
        kill(p->pid, SIGKILL);
        p->silent = SILENT_LOOKS;
    }
}

/* A scribe that writes into a directory which nobody finds any more writes nothing. */
static void look_at_journal(struct supervisor *s, struct process *scribe)
{
    struct fault why = {0};

    if (scribe->state == PROCESS_DOWN || assets_journal_is_in_place(&s->assets, &why))
        return;
    say_error("%s: the scribe is ended until it can go on there", why.text);
    pulse_trouble(scribe, slice_of(why.text));
    scribe->troubled = 0;
    kill(scribe->pid, SIGKILL);
}

/* A fresh token of a bound listener goes to every worker. */
static void look_at_token(struct supervisor *s, const struct listening *l)
{
    bool changed = token_file_look(l->token);
    const char *news = token_file_news(l->token);

    if (news && *news)
        say_warning("listen.%s has no token: %s", l->name, news);
    else if (news)
        say_note("listen.%s has a token again", l->name);
    for (size_t i = 0; i < s->n_processes && changed; i++)
        if (s->processes[i].role == ROLE_WORKER)
            handout_token(&s->processes[i], l);
}

static void on_look(void *arg)
{
    struct supervisor *s = arg;

    if (s->looks++ % PINS_LOOKS == 0)
        pins_look(s->assets.pins);
    for (size_t i = 0; i < s->n_processes && !s->stopping; i++) {
        look_at(s, &s->processes[i]);
        if (s->processes[i].role == ROLE_SCRIBE)
            look_at_journal(s, &s->processes[i]);
    }
    for (size_t i = 0; i < s->assets.listening.n && !s->stopping; i++)
        if (s->assets.listening.list[i].token)
            look_at_token(s, &s->assets.listening.list[i]);
    timer_set(s->pulse, LOOK_MS);
}

void pulse_start(struct supervisor *s)
{
    s->pulse = timer_new(s->loop, on_look, s);
    timer_set(s->pulse, LOOK_MS);
}

static int64_t exchanges_open(const struct supervisor *s, const struct process *p)
{
    const struct counters *page = counters_map(s->assets.counters[p->index], false, NULL);
    int64_t n = page ? (int64_t)page->values[COUNTER_EXCHANGES_OPEN] : 0;

    counters_unmap(page);
    return n;
}

/* What it had not sent yet died with it; of a worker that is known in number: the results of its open exchanges. */
void pulse_death(struct supervisor *s, const struct process *p, const char *how)
{
    struct record_writer w = recorder_begin(s->recorder, RECORD_LOST);
    char detail[160];

    snprintf(detail, sizeof detail, "the role %s; what it had not sent yet is not here", how);
    record_text(&w, FIELD_DETAIL, slice_of(detail));
    record_text(&w, FIELD_ROLE, slice_of(process_name(p)));
    if (p->role == ROLE_WORKER)
        record_number(&w, FIELD_LOST_RECORDS, exchanges_open(s, p));
    recorder_end(s->recorder, &w, NULL);
}
