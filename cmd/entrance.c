#include "cmd/entrance.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "authz/token.h"
#include "base/clock.h"
#include "base/text.h"
#include "cmd/admin.h"
#include "net/place.h"

enum { TOKEN_MOST = 16 * 1024 };

static const char *text_of(const json_t *o, const char *key)
{
    const char *text = json_string_value(json_object_get(o, key));

    return text ? text : "";
}

static bool use(struct entrance *e, const json_t *listener, struct fault *why)
{
    struct place place;

    e->name = text_copy(slice_of(text_of(listener, "name")));
    e->address = text_copy(slice_of(text_of(listener, "address")));
    if (!place_parse(e->address, &place, why))
        return false;
    if (place.kind == PLACE_VSOCK)
        return fault_set(why, FAULT_USAGE, "listener %.63s is a vsock port that only its guest can reach; name a leave token of the sandbox with --leave-token, and another listener is used", e->name);
    e->is_unix = place.kind == PLACE_UNIX;
    if (!e->is_unix)
        e->at = place.addr;
    return e->is_unix || e->at.port != 0 || fault_set(why, FAULT_USAGE, "listener %.63s has no port yet", e->name);
}

/* The sandbox's own; one that has a token before one that has none. */
static const json_t *find_bound(const json_t *status, const char *sandbox, bool with_token)
{
    json_t *one;
    size_t i;

    json_array_foreach(json_object_get(status, "listeners"), i, one)
        if (strcmp(text_of(one, "sandbox"), sandbox) == 0 && (!with_token || json_object_get(one, "token-file")))
            return one;
    return NULL;
}

/* Clients speak plain HTTP to it, and say themselves where they want to go. */
static bool is_plain(const struct gateway_config *c, const char *name)
{
    const struct conf_item *item = conf_find(c->conf, "listen", name);

    return item && !conf_text(item, "tls.cert") && strcmp(conf_text(item, "mode"), "explicit") == 0;
}

static const json_t *find_open(const struct gateway_config *c, const json_t *status)
{
    json_t *one;
    size_t i;

    json_array_foreach(json_object_get(status, "listeners"), i, one)
        if (!*text_of(one, "sandbox") && is_plain(c, text_of(one, "name")))
            return one;
    return NULL;
}

/* Whose it is, by the keys that stand in files; NULL when they do not prove it. */
static struct identity *identify(const struct gateway_config *c, struct slice token)
{
    const struct token_context context = {.now_s = clock_wall_s()};
    struct fault unproven = {0};
    struct issuers *issuers = issuers_compile(c->conf, c->files, &unproven);
    struct verifier *v = issuers ? verifier_new(issuers, c->name, NULL, 1) : NULL;
    struct identity *i = v ? verifier_check(v, token, &context, &unproven) : NULL;

    verifier_free(v);
    issuers_free(issuers);
    return i;
}

/* Whether it is good the gateway says; but one of another sandbox would show what that one can do. */
static bool is_of(const struct gateway_config *c, const struct secret *token, const char *sandbox, const char *path, struct fault *why)
{
    struct slice text = secret_slice(token);
    struct identity *i = identify(c, slice_ends(text, SLICE("\n")) ? slice_cut(text, 0, text.len - 1) : text);
    bool ok = !i || strcmp(identity_sandbox(i), sandbox) == 0 ||
              fault_set(why, FAULT_USAGE, "%s is a leave token of sandbox %.63s, not of %.63s; one of that: exeat token issue --sandbox %.63s --scope ... --output F", path, identity_sandbox(i), sandbox, sandbox);

    identity_unref(i);
    return ok;
}

bool entrance_find(struct entrance *e, const struct gateway_config *c, const json_t *status, const char *sandbox, const char *token_file, struct fault *why)
{
    const json_t *bound = find_bound(status, sandbox, !token_file);

    *e = (struct entrance){0};
    addr_parse(SLICE("127.0.0.1:80"), &e->at);
    if (bound && !token_file)
        return use(e, bound, why);
    if (!token_file)
        return fault_set(why, FAULT_USAGE, "no listener with a token-file is bound to sandbox %.63s; show a leave token of it: exeat token issue --sandbox %.63s --scope ... --output F, then --leave-token F",
                         sandbox, sandbox);
    if (!(e->token = secret_read_file(token_file, TOKEN_MOST, why)) || !is_of(c, e->token, sandbox, token_file, why))
        return false;
    if (!bound && !(bound = find_open(c, status)))
        return fault_set(why, FAULT_USAGE, "no listener without TLS takes tokens: the configuration has no explicit one that is not bound to another sandbox");
    return use(e, bound, why);
}

void entrance_clear(struct entrance *e)
{
    secret_free(e->token);
    free(e->name);
    free(e->address);
    *e = (struct entrance){0};
}

int entrance_connect(void *arg)
{
    const struct entrance *e = arg;
    struct fault why = {0};

    return admin_connect(e->address, &why);
}
