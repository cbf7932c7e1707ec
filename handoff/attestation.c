/* Owns the form of attestations and what makes one count. Knows no checks: what they found comes as words. */
#include "handoff/attestation.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "authz/keyset.h"
#include "base/file.h"
#include "base/id.h"
#include "base/text.h"

enum { ATTESTATION_MAX = 64 * 1024, JWKS_MAX = 64 * 1024, LEAD_S = 60, FAILING_TOLD = 4 };

static const char type[] = "exeat-attestation+jwt";

static const struct conf_key keys[] = {
    {"jwks", CONF_PATH, NULL, NULL, "public keys (a JWK set) of a machine that audits for this gateway", CONF_REQUIRED},
    {"services", CONF_LIST, "", NULL, "the services it may speak for; empty: all", 0},
};

const struct conf_section attesters_section = {
    .name = "attesters",
    .named = true,
    .keys = keys,
    .n_keys = sizeof keys / sizeof *keys,
    .help = "Whose audits count, beside the gateway's own.",
};

/* ---- to write one ---- */

static json_t *texts(const char *const *list)
{
    json_t *out = json_array();

    for (; list && *list; list++)
        json_array_append_new(out, json_string(*list));
    return out;
}

static json_t *claims_of(const struct attestation *a)
{
    json_t *o = json_object(), *summary = a->summary ? json_loads(a->summary, JSON_REJECT_DUPLICATES, NULL) : NULL;
    struct buf digest = {0}, jti = {0};
    struct id id = id_new(a->at_s * 1000);

    id_text(&jti, &id);
    text_hex(&digest, slice_make((const char *)a->digest, SERVICE_DIGEST_SIZE));
    json_object_set_new(o, "iss", json_string(a->attester));
    json_object_set_new(o, "sub", json_string(a->service));
    json_object_set_new(o, "iat", json_integer((json_int_t)a->at_s));
    if (a->until_s)
        json_object_set_new(o, "exp", json_integer((json_int_t)a->until_s));
    json_object_set_new(o, "jti", json_stringn(buf_slice(&jti).ptr, buf_len(&jti)));
    json_object_set_new(o, "config", json_stringn(buf_slice(&digest).ptr, buf_len(&digest)));
    json_object_set_new(o, "probes", json_string(ATTESTATION_PROBES));
    json_object_set_new(o, "passing", json_boolean(a->is_passing));
    json_object_set_new(o, "failing", texts(a->failing));
    if (summary)
        json_object_set_new(o, "summary", summary);
    buf_free(&digest);
    buf_free(&jti);
    return o;
}

bool attestation_sign(const struct signer *key, const struct attestation *a, struct buf *out, struct fault *why)
{
    json_t *claims = claims_of(a);
    char *text = json_dumps(claims, JSON_COMPACT);
    struct buf header = {0};
    bool ok;

    json_decref(claims);
    if (!text)
        return fault_set(why, FAULT_SYNTAX, "the audit of %s has words that are not UTF-8", a->service);
    buf_printf(&header, "{\"typ\":\"%s\",\"alg\":\"ES256\",\"kid\":\"%s\"}", type, signer_kid(key));
    ok = signer_sign(key, buf_slice(&header), slice_of(text), out, why);
    buf_free(&header);
    free(text);
    return ok;
}

/* ---- its parts ---- */

struct reading {
    struct buf header_text, claims_text, signature;
    json_t *header, *claims;
    struct slice signed_part;
};

static json_t *read_object(struct slice part, struct buf *text)
{
    json_t *o = part.len && text_unbase64url(part, text)
                    ? json_loadb(buf_slice(text).ptr, buf_len(text), JSON_REJECT_DUPLICATES, NULL)
                    : NULL;

    if (json_is_object(o))
        return o;
    json_decref(o);
    return NULL;
}

static bool read_parts(struct reading *r, struct slice token)
{
    struct slice rest = token, header, claims, signature;

    if (!slice_next(&rest, '.', &header) || !slice_next(&rest, '.', &claims) || !slice_next(&rest, '.', &signature) || rest.ptr)
        return false;
    r->signed_part = slice_cut(token, 0, header.len + 1 + claims.len);
    r->header = read_object(header, &r->header_text);
    r->claims = read_object(claims, &r->claims_text);
    return r->header && r->claims && signature.len && text_unbase64url(signature, &r->signature);
}

static void reading_clear(struct reading *r)
{
    buf_free(&r->header_text);
    buf_free(&r->claims_text);
    buf_free(&r->signature);
    json_decref(r->header);
    json_decref(r->claims);
}

static const char *text_of(const json_t *o, const char *name)
{
    const char *text = json_string_value(json_object_get(o, name));

    return text ? text : "";
}

/* ---- the files ---- */

static bool add_file(const char *path, const char *name, size_t max, bool may_be_absent, struct bundle *files,
                     struct fault *why)
{
    struct buf bytes = {0};
    bool ok = true;

    if (!may_be_absent || file_exists(path)) {
        ok = file_read_regular(path, max, &bytes, why);
        if (ok)
            bundle_add(files, name, buf_slice(&bytes));
    }
    buf_free(&bytes);
    return ok;
}

static void name_attestation(char out[128], const char *service, const char *slot)
{
    snprintf(out, 128, "attestation.%s%s", service, slot);
}

static const char *const slots[] = {"", ".before"};

static char *path_of(const char *state, const char *service, const char *slot)
{
    char *directory = file_join(state, ATTESTATION_DIRECTORY), file[128], *path;

    snprintf(file, sizeof file, "%s%s.jwt", service, slot);
    path = file_join(directory, file);
    free(directory);
    return path;
}

static bool add_attestations(const char *state, const struct policy *p, struct bundle *files, struct fault *why)
{
    bool ok = true;

    for (size_t i = 0; i < 2 * policy_count(p) && ok; i++) {
        const char *service = service_name(policy_service(p, i / 2));
        char name[128], *path = path_of(state, service, slots[i % 2]);

        name_attestation(name, service, slots[i % 2]);
        ok = add_file(path, name, ATTESTATION_MAX, true, files, why);
        free(path);
    }
    return ok;
}

static void name_attester(char out[128], const struct conf_item *attester)
{
    if (attester)
        snprintf(out, 128, "attester.%s.jwks", conf_name(attester));
    else
        snprintf(out, 128, "attester.jwks");
}

bool attestation_add_files(const char *state, const struct conf *c, const struct policy *p, struct bundle *files,
                           struct fault *why)
{
    char *own = file_join(state, ATTESTATION_KEY ".jwks"), name[128];
    struct fault bad = {0};
    bool ok;

    name_attester(name, NULL);
    ok = add_attestations(state, p, files, why) && add_file(own, name, JWKS_MAX, true, files, why);
    for (size_t i = 0; i < conf_count(c, "attesters") && ok; i++) {
        const struct conf_item *item = conf_item(c, "attesters", i);

        name_attester(name, item);
        if (!add_file(conf_text(item, "jwks"), name, JWKS_MAX, false, files, &bad))
            ok = conf_refuse(item, "jwks", -1, why, "%s", bad.text);
    }
    free(own);
    return ok;
}

/* Is it, by its own words, of another configuration than the new one? Words that cannot be read are of none. */
static bool differs(struct slice old, struct slice new)
{
    struct reading a = {0}, b = {0};
    bool both = read_parts(&a, slice_trim(old)) && read_parts(&b, new);
    bool other = both && strcmp(text_of(a.claims, "config"), text_of(b.claims, "config")) != 0;

    reading_clear(&a);
    reading_clear(&b);
    return other;
}

static bool keep_before(const char *path, const char *before, struct slice token, struct fault *why)
{
    struct buf old = {0};
    bool ok = true;

    if (file_exists(path)) {
        ok = file_read_regular(path, ATTESTATION_MAX, &old, why);
        if (ok && differs(buf_slice(&old), token))
            ok = file_replace(before, 0644, buf_slice(&old), why);
    }
    buf_free(&old);
    return ok;
}

bool attestation_write(const char *state, const char *service, struct slice token, struct fault *why)
{
    char *directory = file_join(state, ATTESTATION_DIRECTORY), *path = path_of(state, service, slots[0]),
         *before = path_of(state, service, slots[1]);
    bool ok = (file_exists(directory) || file_make_directory(directory, 0755, why)) &&
              keep_before(path, before, token, why) && file_replace(path, 0644, token, why);

    free(directory);
    free(path);
    free(before);
    return ok;
}

static void copy(struct bundle *to, const struct bundle *from, const char *name)
{
    struct slice bytes;

    if (bundle_get(from, name, &bytes))
        bundle_add(to, name, bytes);
}

void attestation_copy(struct bundle *to, const struct bundle *from, const struct conf *c)
{
    char name[128];

    name_attester(name, NULL);
    copy(to, from, name);
    for (size_t i = 0; i < conf_count(c, "attesters"); i++) {
        name_attester(name, conf_item(c, "attesters", i));
        copy(to, from, name);
    }
    for (size_t i = 0; i < 2 * conf_count(c, "services"); i++) {
        name_attestation(name, conf_name(conf_item(c, "services", i / 2)), slots[i % 2]);
        copy(to, from, name);
    }
}

/* ---- whose keys count ---- */

struct attester {
    const struct conf_item *item; /* NULL: the gateway itself */
    struct keyset *keys;
};

struct attesters {
    struct attester *list;
    size_t count;
};

static bool read_attester(struct attesters *all, const struct conf_item *item, const struct bundle *files, struct fault *why)
{
    char name[128];
    struct slice json;
    struct fault bad = {0};
    struct attester *a = &all->list[all->count];

    name_attester(name, item);
    if (!bundle_get(files, name, &json))
        return true;
    *a = (struct attester){item, keyset_parse(json, item ? conf_text(item, "jwks") : ATTESTATION_KEY ".jwks",
                                              1u << ALGORITHM_ES256, KEYSET_FILE, &bad)};
    if (!a->keys)
        return item ? conf_refuse(item, "jwks", -1, why, "%s", bad.text)
                    : fault_set(why, FAULT_SYNTAX, "%s", bad.text);
    all->count++;
    return true;
}

static bool read_attesters(struct attesters *all, const struct conf *c, const struct bundle *files, struct fault *why)
{
    size_t n = conf_count(c, "attesters");
    bool ok;

    if (!(all->list = calloc(n + 1, sizeof *all->list)))
        abort();
    ok = read_attester(all, NULL, files, why);
    for (size_t i = 0; i < n && ok; i++)
        ok = read_attester(all, conf_item(c, "attesters", i), files, why);
    return ok;
}

static void free_attesters(struct attesters *all)
{
    for (size_t i = 0; i < all->count; i++)
        keyset_free(all->list[i].keys);
    free(all->list);
}

static bool may_speak_for(const struct attester *a, const char *service)
{
    size_t n = a->item ? conf_list_count(a->item, "services") : 0;

    for (size_t i = 0; i < n; i++)
        if (strcmp(conf_list_text(a->item, "services", i), service) == 0)
            return true;
    return n == 0;
}

/* ---- to judge one ---- */

static bool is_signed(const struct reading *r, const struct attesters *all, const char *service)
{
    struct slice kid = slice_of(text_of(r->header, "kid"));

    if (strcmp(text_of(r->header, "alg"), "ES256") != 0 || json_object_size(r->header) != 3)
        return false;
    for (size_t i = 0; i < all->count; i++) {
        const struct key *key = keyset_find(all->list[i].keys, kid);

        if (key && may_speak_for(&all->list[i], service) && key_verify(key, r->signed_part, buf_slice(&r->signature)))
            return true;
    }
    return false;
}

static void set_trouble(struct attested *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void set_trouble(struct attested *out, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(out->trouble, sizeof out->trouble, format, args);
    va_end(args);
}

static bool is_of(const json_t *claims, const struct service *s)
{
    struct buf digest = {0};
    bool same;

    text_hex(&digest, slice_make((const char *)service_digest(s), SERVICE_DIGEST_SIZE));
    same = slice_is(buf_slice(&digest), text_of(claims, "config"));
    buf_free(&digest);
    return same;
}

/* "AN-1, RL-4 and 3 more" */
static void name_failing(const json_t *claims, char *out, size_t size)
{
    const json_t *list = json_object_get(claims, "failing"), *one;
    size_t i, n = json_array_size(list), used = 0;

    snprintf(out, size, "%s", n ? "" : "it does not say why");
    json_array_foreach(list, i, one) {
        if (i == FAILING_TOLD) {
            snprintf(out + used, size - used, " and %zu more", n - i);
            break;
        }
        used += (size_t)snprintf(out + used, size - used, "%s%.8s", i ? ", " : "",
                                 json_is_string(one) ? json_string_value(one) : "?");
    }
}

/* What is signed is read with care all the same: the other machine may be of another version. */
static bool judge_claims(const json_t *claims, const struct service *s, int64_t now_s, struct attested *out)
{
    int64_t at_s = json_integer_value(json_object_get(claims, "iat")), until_s = json_integer_value(json_object_get(claims, "exp"));
    char failing[80];
    struct buf day = {0};
    bool is_of_it = is_of(claims, s);

    attested_day(at_s, &day);
    buf_char(&day, '\0');
    out->at_s = at_s;
    out->until_s = at_s + service_audit_max_age_s(s);
    if (until_s && until_s < out->until_s)
        out->until_s = until_s;
    name_failing(claims, failing, sizeof failing);
    if (strcmp(text_of(claims, "sub"), service_name(s)) != 0)
        set_trouble(out, "its attestation is of service \"%.40s\"", text_of(claims, "sub"));
    else if (at_s <= 0 || at_s > now_s + LEAD_S)
        set_trouble(out, "its attestation is from the future (iat %lld): whose clock is wrong?", (long long)at_s);
    else if (strcmp(text_of(claims, "probes"), ATTESTATION_PROBES) != 0)
        set_trouble(out, "its audit of %s was made with another version of the probes", buf_slice(&day).ptr);
    else if (!is_of_it)
        set_trouble(out, "its audit of %s was of another configuration of it", buf_slice(&day).ptr);
    else if (!json_is_true(json_object_get(claims, "passing")))
        set_trouble(out, "it did not pass its audit of %s: %s", buf_slice(&day).ptr, failing);
    buf_free(&day);
    return is_of_it;
}

/* False when it is believed, and speaks of another configuration. */
static bool judge(struct slice token, const struct attesters *all, const struct service *s, int64_t now_s,
                  struct attested *out)
{
    struct reading r = {0};
    bool is_of_it = true;

    if (!read_parts(&r, slice_trim(token)) || strcmp(text_of(r.header, "typ"), type) != 0)
        set_trouble(out, "its attestation cannot be read");
    else if (!is_signed(&r, all, service_name(s)))
        set_trouble(out, "its attestation is signed by nobody who may speak for it");
    else
        is_of_it = judge_claims(r.claims, s, now_s, out);
    reading_clear(&r);
    return is_of_it;
}

/* The older of the two counts only when the newer one is of something else. */
static void judge_service(struct policy *p, size_t i, const struct attesters *all, const struct bundle *files, int64_t now_s)
{
    const struct service *s = policy_service(p, i);
    struct attested found = {0}, before = {0};
    struct slice token;
    char name[128];
    bool is_of_it = true;

    name_attestation(name, service_name(s), slots[0]);
    if (bundle_get(files, name, &token))
        is_of_it = judge(token, all, s, now_s, &found);
    name_attestation(name, service_name(s), slots[1]);
    if (!is_of_it && bundle_get(files, name, &token) && judge(token, all, s, now_s, &before))
        found = before;
    policy_set_attested(p, i, &found);
}

bool attestation_use(struct policy *p, const struct conf *c, const struct bundle *files, int64_t now_s, struct fault *why)
{
    struct attesters all = {0};
    bool ok = read_attesters(&all, c, files, why);

    for (size_t i = 0; i < policy_count(p) && ok; i++)
        judge_service(p, i, &all, files, now_s);
    free_attesters(&all);
    return ok;
}
