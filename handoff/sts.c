/* Knows RFC 8693 as text. Owns nothing. */
#include "handoff/sts.h"

#include <jansson.h>
#include <string.h>

#include "base/text.h"

enum { LIVES_MAX_S = 24 * 3600 };

/* application/x-www-form-urlencoded (WHATWG URL 5.2), all but letters and digits escaped. */
static void put_escaped(struct buf *out, struct slice s)
{
    static const char digits[] = "0123456789ABCDEF";

    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];

        if ((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '-' || c == '.' || c == '_') {
            buf_char(out, (char)c);
        } else {
            buf_char(out, '%');
            buf_char(out, digits[c >> 4]);
            buf_char(out, digits[c & 15]);
        }
    }
}

static void put(struct buf *out, const char *name, struct slice value)
{
    if (value.len == 0)
        return;
    buf_printf(out, "&%s=", name);
    put_escaped(out, value);
}

void sts_form(const struct handoff *h, struct slice subject_token, struct buf *out)
{
    buf_text(out, "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange");
    put(out, "subject_token", subject_token);
    put(out, "subject_token_type", SLICE("urn:ietf:params:oauth:token-type:jwt"));
    put(out, "requested_token_type", SLICE("urn:ietf:params:oauth:token-type:access_token"));
    put(out, "audience", slice_of(h->wants_audience));
    put(out, "resource", slice_of(h->wants_resource));
    put(out, "scope", slice_of(h->wants_scope));
    if (h->secret.kind == SOURCE_NONE)
        put(out, "client_id", slice_of(h->client));
}

void sts_authorization(const struct handoff *h, struct slice secret, struct buf *out)
{
    struct buf pair = {0};

    if (secret.len == 0)
        return;
    put_escaped(&pair, slice_of(h->client));
    buf_char(&pair, ':');
    put_escaped(&pair, secret);
    buf_text(out, "Basic ");
    text_base64(out, buf_slice(&pair));
    buf_wipe(&pair);
}

/* The error codes of RFC 6749 5.2 and RFC 8693 2.2.2; any other word is the endpoint's own, and not repeated. */
static bool fail(int status, const json_t *root, struct fault *why)
{
    static const char *const codes[] = {"invalid_request", "invalid_client", "invalid_grant", "unauthorized_client",
                                        "unsupported_grant_type", "invalid_scope", "invalid_target"};
    const char *error = json_string_value(json_object_get(root, "error"));

    for (size_t i = 0; error && i < sizeof codes / sizeof *codes; i++)
        if (strcmp(error, codes[i]) == 0)
            return fault_reason(why, REASON_EXCHANGE_FAILED, "the token endpoint answered %d %s", status, codes[i]);
    return fault_reason(why, REASON_EXCHANGE_FAILED, "the token endpoint answered %d", status);
}

static bool is_text(const json_t *root, const char *name, const char *want)
{
    const char *text = json_string_value(json_object_get(root, name));

    return text && slice_is_nocase(slice_of(text), want);
}

static bool read_token(const json_t *root, struct sts_token *out, struct fault *why)
{
    const json_t *token = json_object_get(root, "access_token"), *lives = json_object_get(root, "expires_in");
    struct slice text = slice_make(json_string_value(token), json_string_length(token));

    if (text.len == 0 || text.len > CREDENTIAL_MAX)
        return fault_reason(why, REASON_EXCHANGE_FAILED, "its answer has no access_token of at most %d characters",
                            CREDENTIAL_MAX);
    if (!is_text(root, "token_type", "bearer") && !is_text(root, "token_type", "n_a"))
        return fault_reason(why, REASON_EXCHANGE_FAILED, "its token is of a token_type that cannot be sent");
    if (is_text(root, "issued_token_type", "urn:ietf:params:oauth:token-type:refresh_token"))
        return fault_reason(why, REASON_EXCHANGE_FAILED, "it gave a refresh token, which is not for services");
    if (lives && (!json_is_integer(lives) || json_integer_value(lives) < 1))
        return fault_reason(why, REASON_EXCHANGE_FAILED, "its expires_in is no time from now on");
    out->lives_s = lives ? json_integer_value(lives) : 0;
    if (out->lives_s > LIVES_MAX_S)
        out->lives_s = LIVES_MAX_S;
    out->token = secret_new(text);
    return true;
}

bool sts_read(int status, struct slice body, struct sts_token *out, struct fault *why)
{
    json_t *root = json_loadb(body.ptr, body.len, JSON_REJECT_DUPLICATES, NULL);
    bool ok;

    *out = (struct sts_token){0};
    if (status != 200)
        ok = fail(status, root, why);
    else if (!json_is_object(root))
        ok = fault_reason(why, REASON_EXCHANGE_FAILED, "the token endpoint's answer is not JSON");
    else
        ok = read_token(root, out, why);
    json_decref(root);
    return ok;
}
