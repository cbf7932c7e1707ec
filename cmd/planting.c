#include "cmd/planting.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "canary/store.h"
#include "cmd/admin.h"

enum { RELOAD_MS = 240 * 1000, STALE_S = 3600 };

struct planting {
    const struct gateway_config *config;
    char *file;
    struct registry *spare; /* nobody looks for what is in it */
    char *id, *canary, *control;
};

/* ---- the running gateway ---- */

static bool is_same(const struct gateway_config *c, const json_t *status)
{
    const char *running = json_string_value(json_object_get(status, "configuration"));
    unsigned char digest[32];
    struct buf hex = {0};
    bool same;

    gateway_digest(c, digest);
    text_hex(&hex, slice_make((const char *)digest, sizeof digest));
    same = running && slice_is(buf_slice(&hex), running);
    buf_free(&hex);
    return same;
}

json_t *planting_ask(const struct gateway_config *c, const char *path, struct fault *why)
{
    json_t *answer, *status;

    if (!c->admin) {
        fault_set(why, FAULT_USAGE, "%s has no admin.address, by which the gateway could be told of a canary", path);
        return NULL;
    }
    if (!(answer = admin_call(c->admin, SLICE("{\"command\":\"status\"}"), why))) {
        if (why->kind == FAULT_MISSING)
            fault_set(why, FAULT_IO, "no gateway answers on %s; start it: exeat serve -c %s", c->admin, path);
        return NULL;
    }
    status = json_incref(json_object_get(answer, "status"));
    json_decref(answer);
    if (is_same(c, status))
        return status;
    json_decref(status);
    fault_set(why, FAULT_REFUSED, "%s is not what the gateway works by, and this would put it in force; reload it first (exeat reload -c %s), or undo the change", path, path);
    return NULL;
}

static bool reload(const struct planting *p, struct fault *why)
{
    struct buf line = {0};
    json_t *answer = NULL;
    const char *error;
    bool ok = false;

    if (!admin_ask_within(p->config->admin, SLICE("{\"command\":\"reload\"}"), RELOAD_MS, &line, why))
        goto out;
    answer = json_loadb(buf_slice(&line).ptr, buf_len(&line), JSON_REJECT_DUPLICATES, NULL);
    ok = json_is_true(json_object_get(answer, "ok"));
    error = json_string_value(json_object_get(answer, "error"));
    if (!ok)
        fault_set(why, FAULT_REFUSED, "the gateway does not load its canaries: %s", error ? error : "no reason was given");
out:
    json_decref(answer);
    buf_free(&line);
    return ok;
}

/* ---- the registry ---- */

/* Of runs that were killed. */
static void sweep(struct registry *r)
{
    for (size_t i = registry_count(r); i-- > 0;) {
        const struct canary *c = registry_get(r, i);
        int64_t at_ns = 0;

        if (strcmp(c->kind, CANARY_AUDIT_KIND) == 0 && clock_parse(slice_of(c->created), &at_ns) && clock_wall_s() - at_ns / 1000000000 > STALE_S)
            registry_remove(r, c->id);
    }
}

static bool put_in(struct planting *p, const char *sandbox, struct fault *why)
{
    struct store *store = store_open(p->file, why);
    const struct canary *c = NULL, *spare;
    bool ok = false;

    if (!store)
        return false;
    sweep(store_registry(store));
    if ((c = registry_mint(store_registry(store), CANARY_AUDIT_KIND, sandbox, clock_wall_s(), why)) &&
        (spare = registry_mint(p->spare, CANARY_AUDIT_KIND, sandbox, clock_wall_s(), why)) && store_save(store, why)) {
        p->id = text_copy(slice_of(c->id));
        p->canary = text_copy(slice_make(c->value, c->value_len));
        p->control = text_copy(slice_make(spare->value, spare->value_len));
        ok = true;
    }
    store_close(store);
    return ok;
}

static bool take_out(const struct planting *p, struct fault *why)
{
    struct store *store = store_open(p->file, why);
    bool ok = store && (!registry_remove(store_registry(store), p->id) || store_save(store, why));

    store_close(store);
    return ok;
}

/* ---- all of it ---- */

static void planting_free(struct planting *p)
{
    if (p->canary)
        explicit_bzero(p->canary, strlen(p->canary));
    registry_free(p->spare);
    free(p->canary);
    free(p->control);
    free(p->id);
    free(p->file);
    free(p);
}

struct planting *planting_begin(const struct gateway_config *c, const char *sandbox, struct fault *why)
{
    struct planting *p = calloc(1, sizeof *p);
    struct fault again = {0};

    if (!p)
        abort();
    p->config = c;
    p->spare = registry_new();
    p->file = text_copy(slice_of(conf_text(conf_section(c->conf, "canaries"), "file")));
    if (put_in(p, sandbox, why) && reload(p, why))
        return p;
    if (p->id)
        take_out(p, &again);
    planting_free(p);
    return NULL;
}

const char *planting_id(const struct planting *p)
{
    return p->id;
}

struct slice planting_canary(const struct planting *p)
{
    return slice_of(p->canary);
}

struct slice planting_control(const struct planting *p)
{
    return slice_of(p->control);
}

bool planting_end(struct planting *p, struct fault *why)
{
    bool ok = !p || (take_out(p, why) && reload(p, why));

    if (p)
        planting_free(p);
    return ok;
}
