/* `exeat token issue`: a leave token from an issuer whose private key is on this machine. */
#include <stdlib.h>
#include <string.h>

#include "authz/claims.h"
#include "authz/signer.h"
#include "base/clock.h"
#include "certs/thumbprint.h"
#include "base/file.h"
#include "base/guess.h"
#include "base/say.h"
#include "base/text.h"
#include "cmd/token.h"
#include "proxy/listen_check.h"

enum { DETAILS_MAX = 16384 };
#define LIFETIME_MS (15 * 60 * 1000)

/* `key`, or the key beside the set: ci.jwks, ci.key (give). NULL when the set has another name. */
static char *key_path(const struct conf_item *item)
{
    struct slice jwks = slice_of(conf_text(item, "jwks"));
    struct buf path = {0};

    if (conf_text(item, "key"))
        return text_copy(slice_of(conf_text(item, "key")));
    if (!slice_ends(jwks, SLICE(".jwks")))
        return NULL;
    buf_append(&path, slice_cut(jwks, 0, jwks.len - 5));
    buf_text(&path, ".key");
    return buf_take_text(&path);
}

static bool can_issue(const struct conf_item *item)
{
    char *path = key_path(item);
    bool there = path && file_exists(path);

    free(path);
    return there;
}

/* The issuer of that name, or the only one that can issue here. */
static const struct conf_item *choose_issuer(const struct conf *c, const char *name, struct fault *why)
{
    const struct conf_item *found = NULL;

    if (name) {
        struct guess near = {.word = name};

        for (size_t i = 0; i < conf_count(c, "issuers"); i++)
            guess_try(&near, conf_name(conf_item(c, "issuers", i)));
        if (!(found = conf_find(c, "issuers", name)))
            fault_set(why, FAULT_USAGE, "no issuer is called %.60s%s%s%s", name, near.best ? "; did you mean " : "",
                      near.best ? near.best : "", near.best ? "?" : "");
        return found;
    }
    for (size_t i = 0; i < conf_count(c, "issuers"); i++) {
        const struct conf_item *item = conf_item(c, "issuers", i);

        if (found && can_issue(item)) {
            fault_set(why, FAULT_USAGE, "%s and %s can both issue; say which: --issuer NAME", conf_name(found),
                      conf_name(item));
            return NULL;
        }
        if (can_issue(item))
            found = item;
    }
    if (!found)
        fault_set(why, FAULT_USAGE, "no issuer of this configuration has a private key here; its tokens come from "
                                    "elsewhere, or `key` is to be set");
    return found;
}

static void warn_of_scopes(const struct conf *c, const char *scope)
{
    struct slice all = slice_of(scope), one;

    if (!scope || !*scope)
        say_warning("without --scope no service is open to it");
    while (scope && slice_next(&all, ' ', &one)) {
        bool used = false;

        for (size_t i = 0; i < conf_count(c, "services"); i++)
            used = used || slice_is(one, conf_text(conf_item(c, "services", i), "scope"));
        if (!used)
            say_warning("no service asks for scope %.*s", SLICE_ARG(one));
    }
}

/* What the caller wants, against what would be refused later. */
static bool check_wishes(const struct invocation *inv, const struct conf *c, const struct issuer *issuer,
                         int64_t life_s, struct fault *why)
{
    const char *listener = option_text(inv->options, "listener");

    if (life_s < 1 || life_s > issuer_max_lifetime_s(issuer))
        return fault_set(why, FAULT_USAGE, "--lifetime is %lld s; issuer %s may give 1 s to %lld s", (long long)life_s,
                         issuer_name(issuer), (long long)issuer_max_lifetime_s(issuer));
    if (listener && !listen_is_known(c, listener))
        return fault_set(why, FAULT_USAGE, "no listener is called %.60s", listener);
    return true;
}

/* The verifier's own checks, so that nobody is handed a token that the gateway would refuse. */
static bool check_result(const struct token_config *c, struct slice token, int64_t now_s, struct fault *why)
{
    struct claims claims = {0};
    bool ok = claims_check(&claims, token, c->issuers, c->audience, now_s, NULL, why);

    claims_clear(&claims);
    if (ok)
        return true;
    why->kind = FAULT_USAGE;
    fault_prefix(why, "the gateway would refuse such a token: %s", reason_code(why->reason));
    return false;
}

/* The life that is asked for, or 15 minutes, or what the issuer may give. */
static int64_t choose_life_s(const struct invocation *inv, const struct issuer *issuer)
{
    int64_t most_ms = issuer_max_lifetime_s(issuer) * 1000;

    return option_number(inv->options, "lifetime", most_ms < LIFETIME_MS ? most_ms : LIFETIME_MS) / 1000;
}

/* The key that signs, which must be one of those that the gateway verifies by. */
static struct signer *load_signer(const struct conf_item *item, const struct issuer *issuer, struct fault *why)
{
    char *path = key_path(item);
    struct signer *signer = NULL;

    if (!path) {
        fault_set(why, FAULT_USAGE, "issuer %s has no `key`: it cannot issue on this machine", issuer_name(issuer));
    } else if ((signer = signer_load(path, why)) && !issuer_key(issuer, slice_of(signer_kid(signer)))) {
        fault_set(why, FAULT_USAGE, "the gateway would refuse what %s signs (%s): it belongs to no key in the set of issuer %s",
                  path, reason_code(issuer_no_key(issuer)), issuer_name(issuer));
        signer_free(signer);
        signer = NULL;
    }
    free(path);
    return signer;
}

/* What file holds (give); NULL stays NULL. */
static bool read_details(const char *file, char **text, struct fault *why)
{
    struct buf details = {0};

    if (!file)
        return true;
    if (!file_read(file, DETAILS_MAX, &details, why)) {
        buf_free(&details);
        return false;
    }
    *text = buf_take_text(&details);
    return true;
}

/* What the client's certificate is called in a token (give); NULL when none was named. */
static bool read_certificate(const char *file, char **text, struct fault *why)
{
    struct buf pem = {0}, thumbprint = {0};
    bool ok = true;

    if (!file)
        return true;
    ok = file_read(file, DETAILS_MAX, &pem, why);
    if (ok && !thumbprint_of(buf_slice(&pem), &thumbprint, why)) {
        fault_prefix(why, "%s", file);
        ok = false;
    }
    if (ok)
        *text = buf_take_text(&thumbprint);
    buf_free(&thumbprint);
    buf_free(&pem);
    return ok;
}

static bool issue(const struct invocation *inv, const struct token_config *c, struct buf *token, int64_t *life_ms,
                  struct fault *why)
{
    const struct conf_item *item = choose_issuer(c->conf, option_text(inv->options, "issuer"), why);
    const struct issuer *issuer = item ? issuers_named(c->issuers, conf_name(item)) : NULL;
    const char *client_id = option_text(inv->options, "client-id");
    struct signer_claims claims = {.audience = c->audience, .issued_s = clock_wall_s()};
    struct signer *signer = NULL;
    char *details = NULL, *certificate = NULL;
    bool ok = false;

    if (!issuer)
        return false;
    claims.issuer = issuer_claim(issuer);
    claims.sandbox = option_text(inv->options, "sandbox");
    claims.client_id = client_id ? client_id : "exeat-cli";
    claims.scope = option_text(inv->options, "scope");
    claims.listener = option_text(inv->options, "listener");
    claims.expires_s = claims.issued_s + choose_life_s(inv, issuer);
    *life_ms = (claims.expires_s - claims.issued_s) * 1000;
    if (!check_wishes(inv, c->conf, issuer, *life_ms / 1000, why) || !(signer = load_signer(item, issuer, why)) ||
        !read_details(option_text(inv->options, "details"), &details, why) ||
        !read_certificate(option_text(inv->options, "certificate"), &certificate, why))
        goto out;
    claims.details = details;
    claims.certificate = certificate;
    ok = signer_issue(signer, &claims, token, why) && check_result(c, buf_slice(token), claims.issued_s, why);
out:
    signer_free(signer);
    free(details);
    free(certificate);
    return ok;
}

bool token_make(const struct invocation *inv, bool warn, struct buf *token, int64_t *life_ms, struct fault *why)
{
    struct token_config c = {0};
    bool ok;

    if (!token_config_load(&c, inv->config, why))
        return false;
    ok = issue(inv, &c, token, life_ms, why);
    if (ok && warn)
        warn_of_scopes(c.conf, option_text(inv->options, "scope"));
    if (ok)
        buf_char(token, '\n');
    else
        why->kind = why->kind == FAULT_REFUSED ? FAULT_USAGE : why->kind;
    token_config_clear(&c);
    return ok;
}

static int run(const struct invocation *inv)
{
    const char *output = option_text(inv->options, "output");
    struct fault why = {0};
    struct buf token = {0};
    int status = STATUS_YES;
    int64_t life_ms;

    if (!token_make(inv, true, &token, &life_ms, &why)) {
        status = command_fail(inv, &why);
        goto out;
    }
    if (!output)
        status = command_print(inv, &token);
    else if (!file_replace(output, 0600, buf_slice(&token), &why))
        status = command_fail(inv, &why);
out:
    buf_wipe(&token);
    return status;
}

const struct command token_issue = {
    .name = "issue",
    .summary = "a fresh leave token, alone on stdout",
    .help = "The issuer's private key must be on this machine: the file that its `key` names, or NAME.key beside "
            "NAME.jwks, as exeat init made it. The token is checked as the gateway would check it before it is handed "
            "out.\n"
            "\n"
            "A token narrows what the configuration allows and never widens it: --details names a file with "
            "authorization_details (RFC 9396), for example\n"
            "\n"
            "  [{\"type\": \"http_egress\", \"locations\": [\"npm.example\"], \"actions\": [\"GET\"]}]\n",
    .examples = "  exeat token issue --sandbox vm1 --scope npm:read\n"
                "  exeat token issue --sandbox vm1 --scope 'npm:read git:read' --lifetime 5m --output vm1.jwt\n"
                "  exeat token issue --sandbox vm1 --scope npm:read --details only-get.json | exeat token inspect\n",
    .options =
        (const struct option_spec[]){
            TOKEN_OPTIONS,
            {"output", 'o', OPTION_TEXT, "FILE", NULL, "write it there (mode 0600), replaced as a whole", false, false},
            {0},
        },
    .run = run,
};
