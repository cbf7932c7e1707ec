/*
 * Listeners that are added and removed while the gateway runs, as the supervisor has it: checked as the configuration's are, kept
 * in the state directory's listeners.conf before they are served, and nothing else is touched.
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/pack.h"
#include "base/text.h"
#include "proxy/handout.h"
#include "proxy/listen_check.h"
#include "proxy/reload.h"

enum { ADDED_MOST = 4096, N_KEYS = 5 };

#define HEAD "# Written by exeat listener add and remove; the gateway reads it when it starts.\nlisten:"

/* ---- what is kept ---- */

/* listeners.conf without the one called but; with line (may be empty). */
static void compose(struct buf *out, const struct conf *added, const char *but, struct slice line)
{
    size_t kept = 0;
    struct buf items = {0};

    for (size_t i = 0; i < conf_count(added, "listen"); i++) {
        const struct conf_item *item = conf_item(added, "listen", i);

        if (but && strcmp(conf_name(item), but) == 0)
            continue;
        listen_added_write(&items, item);
        kept++;
    }
    buf_append(&items, line);
    buf_text(out, HEAD);
    buf_text(out, kept || line.len ? "\n" : " {}\n");
    buf_append(out, buf_slice(&items));
    buf_free(&items);
}

static bool is_name(const char *name)
{
    size_t n = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-");

    return n > 0 && n <= 63 && !name[n];
}

/* The line of a new one, from an order. The words are judged by the table when the whole is read. */
static bool write_line(struct buf *line, const char *name, const json_t *request, struct fault *why)
{
    static const char *const keys[N_KEYS] = {"address", "mode", "sandbox", "token-file", "owner"};
    const char *before = "";

    if (!name || !is_name(name))
        return fault_set(why, FAULT_USAGE, "a listener's name has 1 to 63 letters, digits, dots, dashes and underscores");
    buf_printf(line, "  \"%s\": {", name);
    for (int i = 0; i < N_KEYS; i++) {
        const char *value = json_string_value(json_object_get(request, keys[i]));

        if (!value)
            continue;
        buf_printf(line, "%s%s: ", before, keys[i]);
        text_json(line, slice_of(value));
        before = ", ";
    }
    buf_text(line, "}\n");
    return true;
}

/* ---- carrying it out ---- */

static void tell_workers(struct supervisor *s, enum role_message type, const char *name)
{
    struct buf message = {0};

    pack_bytes(&message, slice_of(name));
    for (size_t i = 0; i < s->n_processes; i++)
        if (s->processes[i].role == ROLE_WORKER)
            process_tell(&s->processes[i], type, &message, -1);
    buf_free(&message);
}

static void hand_out(struct supervisor *s, const struct listening *l)
{
    for (size_t i = 0; i < s->n_processes; i++)
        if (s->processes[i].role == ROLE_WORKER && s->processes[i].control)
            handout_listener(&s->processes[i], l);
    tell_workers(s, MSG_OPEN, l->name);
}

/* No dial may go to a listener of ours: the porter knows before anybody can come in. */
static void tell_porter(struct supervisor *s, const struct listeners *plan)
{
    for (size_t i = 0; i < s->n_processes; i++)
        if (s->processes[i].role == ROLE_PORTER)
            handout_own(&s->processes[i], &s->assets.listening, plan);
}

static void record(struct supervisor *s, const struct asker *who, const char *name, const char *what, const char *address)
{
    struct record_writer w = recorder_begin(s->recorder, RECORD_LISTENER);

    record_text(&w, FIELD_LISTENER, slice_of(name));
    record_text(&w, FIELD_OUTCOME, slice_of(what));
    if (address)
        record_text(&w, FIELD_ADDRESS, slice_of(address));
    record_text(&w, FIELD_BY, SLICE("admin"));
    record_number(&w, FIELD_UID, (int64_t)who->uid);
    recorder_end(s->recorder, &w, NULL);
}

/*
 * Go over to listeners.conf with this text: sockets first, then the file, then everybody. Whatever fails before the file is
 * written leaves all as it was.
 */
static bool go_over(struct supervisor *s, struct slice text, struct listeners *left, struct fault *why)
{
    char *path = gateway_state(s->config, "listeners.conf");
    size_t n;
    const struct conf_section *const *sections = listen_sections(&n);
    struct conf *before = s->config->added, *next = conf_parse(text, "listeners.conf", s->config->state, sections, n, why);
    struct listeners plan = {0};
    bool ok = false;

    if (!next || !listen_check(s->config->conf, next, "the configuration", why))
        goto out;
    s->config->added = next;
    if (!listening_plan(&plan, &s->assets.listening, s->config, (size_t)s->assets.n_workers, why))
        goto out;
    tell_porter(s, &plan);
    if (!file_replace(path, 0600, text, why))
        goto out;
    listening_adopt(&s->assets.listening, &plan, left);
    ok = true;
out:
    if (!ok)
        listening_abandon(&plan);
    s->config->added = ok ? next : before;
    conf_free(ok ? before : next);
    free(path);
    return ok;
}

static bool add(struct supervisor *s, const struct asker *who, const char *name, const json_t *request, struct fault *why)
{
    struct buf line = {0}, text = {0};
    struct listeners left = {0};
    const struct listening *l;
    bool ok;

    if (!write_line(&line, name, request, why))
        return false;
    if (conf_count(s->config->added, "listen") >= ADDED_MOST)
        ok = fault_set(why, FAULT_LIMIT, "%d listeners were added already", ADDED_MOST);
    else if (listening_find(&s->assets.listening, name))
        ok = fault_set(why, FAULT_REFUSED, "there is a listener called %s already", name);
    else {
        compose(&text, s->config->added, NULL, buf_slice(&line));
        ok = go_over(s, buf_slice(&text), &left, why);
    }
    if (ok && (l = listening_find(&s->assets.listening, name))) {
        record(s, who, name, "added", l->address);
        hand_out(s, l);
    }
    listening_close(&left);
    tell_porter(s, NULL);
    buf_free(&line);
    buf_free(&text);
    return ok;
}

static bool remove_one(struct supervisor *s, const struct asker *who, const char *name, struct fault *why)
{
    const struct listening *l = name ? listening_find(&s->assets.listening, name) : NULL;
    struct listeners left = {0};
    struct buf text = {0};
    bool ok;

    if (!l)
        return fault_set(why, FAULT_REFUSED, "there is no listener called %.63s", name ? name : "");
    if (!l->is_added)
        return fault_set(why, FAULT_REFUSED, "listener %s is the configuration's: take it out there, then exeat reload", name);
    compose(&text, s->config->added, name, slice_make("", 0));
    ok = go_over(s, buf_slice(&text), &left, why);
    if (ok) {
        record(s, who, name, "removed", NULL);
        tell_workers(s, MSG_UNLISTEN, name);
    }
    listening_close(&left);
    tell_porter(s, NULL);
    buf_free(&text);
    return ok;
}

/* ---- by the admin socket ---- */

json_t *listener_list(const struct supervisor *s)
{
    json_t *list = json_array();

    for (size_t i = 0; i < s->assets.listening.n; i++) {
        const struct listening *l = &s->assets.listening.list[i];
        json_t *one = json_pack("{s:s, s:s, s:b}", "name", l->name, "address", l->address, "added", l->is_added);

        if (l->is_transparent)
            json_object_set_new(one, "mode", json_string("transparent"));
        if (l->is_transparent && l->no_tproxy)
            json_object_set_new(one, "no-tproxy", json_string(strerror(l->no_tproxy)));
        if (l->sandbox)
            json_object_set_new(one, "sandbox", json_string(l->sandbox));
        if (l->token) {
            json_object_set_new(one, "token-file", json_string(token_file_path(l->token)));
            json_object_set_new(one, "token", json_string(token_file_trouble(l->token)));
        }
        json_array_append_new(list, one);
    }
    return list;
}

static json_t *tell_added(const struct listening *l)
{
    json_t *answer = json_pack("{s:b, s:s}", "ok", 1, "address", l->address);

    if (l->is_transparent && l->no_tproxy)
        json_object_set_new(answer, "no-tproxy", json_string(strerror(l->no_tproxy)));
    return answer;
}

json_t *listener_order(struct supervisor *s, const struct asker *who, const json_t *request)
{
    const char *action = json_string_value(json_object_get(request, "action"));
    const char *name = json_string_value(json_object_get(request, "name"));
    const struct listening *l;
    struct fault why = {0};
    bool ok;

    if (action && strcmp(action, "list") == 0)
        return json_pack("{s:b, s:o}", "ok", 1, "listeners", listener_list(s));
    if (s->stopping || reload_is_busy(s->reload))
        ok = fault_set(&why, FAULT_BUSY, "the gateway is going over to another configuration, or stopping; try again in a moment");
    else if (action && strcmp(action, "add") == 0)
        ok = add(s, who, name, request, &why);
    else if (action && strcmp(action, "remove") == 0)
        ok = remove_one(s, who, name, &why);
    else
        ok = fault_set(&why, FAULT_USAGE, "listener wants action (list, add, remove) and name");
    if (!ok)
        return orders_refuse(&why);
    l = listening_find(&s->assets.listening, name);
    return l ? tell_added(l) : json_pack("{s:b}", "ok", 1);
}
