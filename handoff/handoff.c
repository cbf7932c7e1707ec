/* Owns the compiled handoffs of one configuration. Reads no secret. */
#include "handoff/handoff.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "net/name.h"

enum { SECRET_MIN = 8 /* shorter ones are guessed, and stand in any answer by chance */ };

struct handoffs {
    struct handoff *list; /* by service_index */
    size_t n;
};

static const char *text_of(const struct conf_item *item, const char *key)
{
    const char *text = conf_text(item, key);

    return text ? text : "";
}

static enum handoff_form form_of(const char *as)
{
    if (!as || strcmp(as, "bearer") == 0)
        return FORM_BEARER;
    return strcmp(as, "basic") == 0 ? FORM_BASIC : FORM_BARE;
}

static bool read_source(const struct conf_item *item, const char *key, struct source *out, struct fault *why)
{
    struct fault bad = {0};

    return source_parse(conf_text(item, key), out, &bad) || conf_refuse(item, key, -1, why, "%s", bad.text);
}

static bool read_lifetime(const struct conf_item *item, const char *key, int64_t most_s, struct handoff *h,
                          struct fault *why)
{
    int64_t ms = conf_number(item, key);

    h->lifetime_s = ms / 1000;
    if (h->lifetime_s >= 1 && (most_s == 0 || h->lifetime_s <= most_s))
        return true;
    return conf_refuse(item, key, -1, why, most_s ? "expected a time from 1s to %llds" : "expected at least 1s",
                       (long long)most_s);
}

static bool read_inject(const struct conf_item *item, struct handoff *h, struct fault *why)
{
    h->kind = HANDOFF_INJECT;
    h->form = form_of(conf_text(item, "credential.as"));
    if (!read_source(item, "credential.from", &h->source, why))
        return false;
    return read_lifetime(item, "credential.lifetime", 0, h, why);
}

/* "repository:team/app:pull,push" */
static bool check_access(const struct conf_item *item, struct fault *why)
{
    for (size_t i = 0; i < conf_list_count(item, "assert.access"); i++) {
        struct slice text = slice_of(conf_list_text(item, "assert.access", i)), rest = text, piece;
        size_t n = 0;

        while (slice_next(&rest, ':', &piece))
            n += piece.len > 0 ? 1 : 4;
        if (n != 3 || !slice_is_utf8(text))
            return conf_refuse(item, "assert.access", (int)i, why, "expected TYPE:NAME:ACTION,ACTION such as "
                               "repository:team/app:pull, found \"%.*s\"", SLICE_ARG(slice_cut(text, 0, 60)));
    }
    return true;
}

static bool read_assert(const struct conf_item *item, struct handoff *h, struct fault *why)
{
    h->kind = HANDOFF_ASSERT;
    h->form = form_of(conf_text(item, "assert.as"));
    h->audience = conf_has(item, "assert.audience") ? conf_text(item, "assert.audience") : h->service;
    h->once = conf_bool(item, "assert.once");
    return read_lifetime(item, "assert.lifetime", GRANT_MAX_S, h, why) && check_access(item, why);
}

/* https://host[:port]/path, which a service lists with TLS. */
static bool read_endpoint(const struct conf_item *item, const struct policy *p, struct handoff *h, struct fault *why)
{
    struct slice rest = slice_of(h->at), host = {"", 0};
    ptrdiff_t slash;

    if (!slice_starts(rest, SLICE("https://")) || (slash = slice_find(slice_from(rest, 8), '/')) < 0 ||
        !name_split_authority(slice_cut(rest, 8, 8 + (size_t)slash), 443, &host, &h->port, NULL) ||
        !name_canonical(host, h->host, NULL) || strpbrk(h->at, " ?#\\\"") || !slice_is_utf8(rest))
        return conf_refuse(item, "exchange.at", -1, why, "expected a URL such as https://sts.example/token, found \"%.80s\"",
                           h->at);
    h->target = h->at + 8 + slash;
    h->endpoint = policy_find(p, h->host, h->port);
    if (h->endpoint && service_is_tls_port(h->endpoint, h->port))
        return true;
    return conf_refuse(item, "exchange.at", -1, why, "no service lists %.80s port %u for TLS: what is said there of its "
                       "addresses and ca-file holds here too", h->host, h->port);
}

static bool read_exchange(const struct conf_item *item, const struct policy *p, struct handoff *h, struct fault *why)
{
    h->kind = HANDOFF_EXCHANGE;
    h->form = form_of(conf_text(item, "exchange.as"));
    h->at = h->audience = conf_text(item, "exchange.at");
    h->client = text_of(item, "exchange.client");
    h->wants_audience = conf_has(item, "exchange.audience") ? conf_text(item, "exchange.audience") : h->service;
    h->wants_resource = text_of(item, "exchange.resource");
    h->wants_scope = conf_has(item, "exchange.scope") ? conf_text(item, "exchange.scope") : h->scope;
    h->lifetime_s = GRANT_MAX_S;
    if (conf_has(item, "exchange.secret") && !read_source(item, "exchange.secret", &h->secret, why))
        return false;
    if (h->secret.kind == SOURCE_EXEC || source_is_per_sandbox(&h->secret))
        return conf_refuse(item, "exchange.secret", -1, why, "the client is the gateway: one file: or env:");
    if (h->secret.kind != SOURCE_NONE && !h->client[0])
        return conf_refuse(item, "exchange.secret", -1, why, "whose is it? Name the client: exchange.client");
    return read_endpoint(item, p, h, why);
}

static bool compile(const struct conf_item *item, const struct policy *p, const struct service *s, struct handoff *h,
                    struct fault *why)
{
    if (!service_own_field(s))
        return true;
    *h = (struct handoff){.service = service_name(s), .field = service_own_field(s), .scope = service_scope(s), .item = item};
    h->shared = strcmp(conf_text(item, "shared-identity"), "accepted") == 0;
    h->audience = h->at = h->client = h->wants_audience = h->wants_resource = h->wants_scope = "";
    if (conf_has(item, "credential.from"))
        return read_inject(item, h, why);
    return conf_has(item, "exchange.at") ? read_exchange(item, p, h, why) : read_assert(item, h, why);
}

struct handoffs *handoffs_compile(const struct conf *c, const struct policy *p, struct fault *why)
{
    struct handoffs *h = calloc(1, sizeof *h);

    if (!h || !(h->list = calloc(policy_count(p) + 1, sizeof *h->list)))
        abort();
    for (h->n = 0; h->n < policy_count(p); h->n++) {
        const struct service *s = policy_service(p, h->n);

        if (!compile(conf_find(c, "services", service_name(s)), p, s, &h->list[h->n], why)) {
            handoffs_free(h);
            return NULL;
        }
    }
    return h;
}

void handoffs_free(struct handoffs *h)
{
    if (!h)
        return;
    free(h->list);
    free(h);
}

const struct handoff *handoffs_of(const struct handoffs *h, const struct service *s)
{
    const struct handoff *found = &h->list[service_index(s)];

    return found->kind ? found : NULL;
}

const struct handoff *handoffs_named(const struct handoffs *h, struct slice service)
{
    for (size_t i = 0; i < h->n; i++)
        if (h->list[i].kind && slice_is(service, h->list[i].service))
            return &h->list[i];
    return NULL;
}

static bool has(const struct handoffs *h, unsigned kinds)
{
    for (size_t i = 0; i < h->n; i++)
        if (1u << h->list[i].kind & kinds)
            return true;
    return false;
}

bool handoffs_any(const struct handoffs *h)
{
    return has(h, ~(1u << HANDOFF_NONE));
}

bool handoffs_sign(const struct handoffs *h)
{
    return has(h, 1u << HANDOFF_ASSERT | 1u << HANDOFF_EXCHANGE);
}

bool handoffs_exchange(const struct handoffs *h)
{
    return has(h, 1u << HANDOFF_EXCHANGE);
}

void handoff_value(const struct handoff *h, struct slice secret, struct buf *out)
{
    if (h->form == FORM_BEARER)
        buf_text(out, "Bearer ");
    if (h->form == FORM_BASIC) {
        buf_text(out, "Basic ");
        text_base64(out, secret);
    } else {
        buf_append(out, secret);
    }
}

/* Basic: behind the colon. A bare one may have a scheme in front. */
struct slice handoff_secret_part(const struct handoff *h, struct slice secret)
{
    size_t from = 0;

    if (h->form == FORM_BASIC)
        from = (size_t)(slice_find(secret, ':') + 1);
    for (size_t i = 0; h->form == FORM_BARE && i < secret.len; i++)
        if (secret.ptr[i] == ' ')
            from = i + 1;
    return slice_from(secret, from);
}

bool handoff_check(const struct handoff *h, struct slice secret, struct fault *why)
{
    bool blanks = h->form != FORM_BEARER;

    for (size_t i = 0; i < secret.len; i++)
        if ((unsigned char)secret.ptr[i] < (blanks && i > 0 && i + 1 < secret.len ? 0x20 : 0x21) ||
            (unsigned char)secret.ptr[i] > 0x7e)
            return fault_set(why, FAULT_SYNTAX, "the credential has a character that cannot be sent, at offset %zu", i);
    if (secret.len > CREDENTIAL_MAX)
        return fault_set(why, FAULT_LIMIT, "the credential is longer than %d characters", CREDENTIAL_MAX);
    if (h->form == FORM_BASIC && slice_find(secret, ':') < 0)
        return fault_set(why, FAULT_SYNTAX, "the credential is sent as basic, and is not USER:PASSWORD");
    if (handoff_secret_part(h, secret).len < SECRET_MIN)
        return fault_set(why, FAULT_SYNTAX, "the secret of the credential has less than %d characters", SECRET_MIN);
    return true;
}
