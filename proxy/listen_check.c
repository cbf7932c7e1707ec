#include "proxy/listen_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "proxy/config.h"

#define ADDED_FILE "listeners.conf"

const struct conf_section *const *listen_sections(size_t *n)
{
    static const struct conf_section *only[1];
    size_t all;
    const struct conf_section *const *sections = gateway_sections(&all);

    for (size_t i = 0; i < all; i++)
        if (strcmp(sections[i]->name, "listen") == 0)
            only[0] = sections[i];
    *n = 1;
    return only;
}

/* ---- listeners.conf ---- */

struct conf *listen_added_load(const char *state, struct fault *why)
{
    char *path = file_join(state, ADDED_FILE);
    size_t n;
    const struct conf_section *const *sections = listen_sections(&n);
    struct conf *c = file_exists(path) ? conf_load(path, sections, n, why)
                                       : conf_parse(SLICE("{}"), ADDED_FILE, "/", sections, n, why);

    free(path);
    return c;
}

bool listen_is_known(const struct conf *c, const char *name)
{
    struct conf *added;
    bool known = conf_find(c, "listen", name);

    if (known || !(added = listen_added_load(conf_text(conf_section(c, "gateway"), "state"), NULL)))
        return known;
    known = conf_find(added, "listen", name);
    conf_free(added);
    return known;
}

void listen_added_write(struct buf *out, const struct conf_item *l)
{
    static const char *const keys[] = {"address", "mode", "sandbox", "token-file", "owner"};
    const char *before = "";

    buf_text(out, "  ");
    text_json(out, slice_of(conf_name(l)));
    buf_text(out, ": {");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *value = conf_text(l, keys[i]);

        if (!value)
            continue;
        buf_printf(out, "%s%s: ", before, keys[i]);
        text_json(out, slice_of(value));
        before = ", ";
    }
    buf_text(out, "}\n");
}

/* ---- one ---- */

/* Who is behind a unix socket or a vsock is known to the operator alone: it is one sandbox. */
static bool check_binding(const struct conf_item *l, const struct place *p, struct fault *why)
{
    struct place_owner owner;
    struct fault inner = {0};

    if (p->kind != PLACE_TCP && !conf_has(l, "sandbox"))
        return conf_refuse(l, "address", -1, why, "listen.%s: a unix socket or vsock is for one sandbox: say which, sandbox: NAME",
                           conf_name(l));
    if (conf_has(l, "token-file") && !conf_has(l, "sandbox"))
        return conf_refuse(l, "token-file", -1, why, "listen.%s: token-file is for a listener of one sandbox: say which, "
                           "sandbox: NAME", conf_name(l));
    if (conf_has(l, "owner") && p->kind != PLACE_UNIX)
        return conf_refuse(l, "owner", -1, why, "listen.%s: only a unix socket has an owner", conf_name(l));
    return place_owner_find(conf_text(l, "owner"), &owner, &inner) ||
           conf_refuse(l, "owner", -1, why, "listen.%s: owner: %s", conf_name(l), inner.text);
}

static bool check_tls(const struct conf_item *l, struct fault *why)
{
    bool cert = conf_has(l, "tls.cert"), key = conf_has(l, "tls.key");

    if (cert != key)
        return conf_refuse(l, cert ? "tls.cert" : "tls.key", -1, why, "listen.%s: tls has cert and key, or neither", conf_name(l));
    return cert || !conf_has(l, "tls.client-ca") ||
           conf_refuse(l, "tls.client-ca", -1, why, "listen.%s: tls.client-ca needs tls.cert and tls.key", conf_name(l));
}

/* What came by another address, and knows nothing of us, speaks TLS with the service, not with the listener. */
static bool check_transparent(const struct conf_item *l, const struct place *p, struct fault *why)
{
    if (strcmp(conf_text(l, "mode"), "transparent") != 0)
        return true;
    if (p->kind != PLACE_TCP)
        return conf_refuse(l, "address", -1, why, "listen.%s: a transparent listener is a TCP address: only there a connection has "
                           "the port that its client meant", conf_name(l));
    return !conf_has(l, "tls.cert") ||
           conf_refuse(l, "tls.cert", -1, why, "listen.%s: a transparent listener shows the services' certificates; tls is for "
                       "explicit ones", conf_name(l));
}

static bool check_one(const struct conf_item *l, struct place *p, struct fault *why)
{
    struct fault inner = {0};

    if (!place_parse(conf_text(l, "address"), p, &inner))
        return conf_refuse(l, "address", -1, why, "listen.%s: %s", conf_name(l), inner.text);
    return check_binding(l, p, why) && check_transparent(l, p, why) && check_tls(l, why);
}

/* ---- all ---- */

struct taken {
    struct place place;
    char name[80]; /* as people write it */
    const struct conf_item *item;
    bool added;
};

static bool check_publish(const struct conf_item *publish, struct place *p, struct fault *why)
{
    const char *text = conf_text(publish, "address");

    *p = (struct place){.kind = PLACE_TCP};
    if (addr_parse(slice_of(text), &p->addr))
        return true;
    return conf_refuse(publish, "address", -1, why, "publish: only TCP addresses are served, such as 127.0.0.1:9464; found "
                       "\"%s\"", text);
}

/* Is the last one apart from those before it? */
static bool is_apart(const struct taken *all, size_t n, struct fault *why)
{
    const struct taken *last = &all[n - 1];

    for (size_t i = 0; i + 1 < n; i++) {
        if (place_collides(&last->place, &all[i].place))
            return conf_refuse(last->item, "address", -1, why, "%s: %s is taken already by %s", last->name,
                               conf_text(last->item, "address"), all[i].name);
        if (strcmp(last->name, all[i].name) == 0)
            return conf_refuse(last->added ? all[i].item : last->item, "address", -1, why,
                               "%s is also a listener that was added while the gateway ran; take another name, or exeat listener "
                               "remove %s first", last->name, conf_name(last->item));
    }
    return true;
}

static bool take_all(struct taken *all, size_t *n, const struct conf *c, bool added, struct fault *why)
{
    for (size_t i = 0; i < conf_count(c, "listen"); i++) {
        struct taken *t = &all[*n];

        *t = (struct taken){.item = conf_item(c, "listen", i), .added = added};
        snprintf(t->name, sizeof t->name, "listen.%s", conf_name(t->item));
        if (!check_one(t->item, &t->place, why) || !is_apart(all, ++*n, why))
            return false;
    }
    return true;
}

bool listen_check(const struct conf *c, const struct conf *added, const char *path, struct fault *why)
{
    const struct conf_item *publish = conf_section(c, "publish");
    struct taken *all = calloc(conf_count(c, "listen") + conf_count(added, "listen") + 1, sizeof *all);
    size_t n = 0;
    bool ok;

    if (!all)
        abort();
    if (conf_count(c, "listen") == 0)
        ok = fault_set(why, FAULT_SYNTAX, "%s: no listener: name one, such as listen: {explicit: {address: "
                       "\"127.0.0.1:3128\"}}", path);
    else
        ok = take_all(all, &n, c, false, why);
    if (ok && conf_has(publish, "address")) {
        all[n] = (struct taken){.name = "publish", .item = publish};
        ok = check_publish(publish, &all[n].place, why) && is_apart(all, ++n, why);
    }
    ok = ok && take_all(all, &n, added, true, why);
    free(all);
    return ok;
}
