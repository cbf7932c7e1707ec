/* The one place that lists field names by what they mean. */
#include "authz/field.h"

#include <string.h>

#define CREDENTIAL(name) {SLICE(name), FIELD_CREDENTIAL}
#define AMBIENT(name) {SLICE(name), FIELD_AMBIENT}
#define HOP(name) {SLICE(name), FIELD_HOP}

/* In small letters, with hyphens. */
static const struct known {
    struct slice name;
    unsigned meaning;
} table[] = {
    HOP("connection"), HOP("proxy-connection"), HOP("keep-alive"), HOP("proxy-authorization"),
    HOP("proxy-authenticate"), HOP("proxy-authentication-info"), HOP("te"), HOP("trailer"), HOP("transfer-encoding"),
    HOP("upgrade"), HOP("http2-settings"),

    CREDENTIAL("authorization"), CREDENTIAL("cookie"), CREDENTIAL("cookie2"), CREDENTIAL("authentication"),
    CREDENTIAL("x-authorization"), CREDENTIAL("x-api-key"), CREDENTIAL("api-key"), CREDENTIAL("apikey"),
    CREDENTIAL("x-api-token"), CREDENTIAL("x-apikey"), CREDENTIAL("x-auth-token"), CREDENTIAL("x-auth-key"),
    CREDENTIAL("x-access-token"), CREDENTIAL("access-token"), CREDENTIAL("x-token"), CREDENTIAL("x-session-token"),
    CREDENTIAL("x-secret-key"), CREDENTIAL("dpop"), CREDENTIAL("private-token"), CREDENTIAL("job-token"),
    CREDENTIAL("deploy-token"), CREDENTIAL("x-gitlab-token"), CREDENTIAL("x-github-token"), CREDENTIAL("npm-otp"),
    CREDENTIAL("x-npm-token"), CREDENTIAL("x-jfrog-art-api"), CREDENTIAL("x-nuget-apikey"),
    CREDENTIAL("x-vault-token"), CREDENTIAL("x-consul-token"), CREDENTIAL("x-amz-security-token"),
    CREDENTIAL("x-goog-api-key"), CREDENTIAL("x-goog-iam-authorization-token"),
    CREDENTIAL("ocp-apim-subscription-key"), CREDENTIAL("x-ms-token-aad-access-token"), CREDENTIAL("x-registry-auth"),
    CREDENTIAL("x-functions-key"), CREDENTIAL("txn-token"),

    AMBIENT("forwarded"), AMBIENT("x-real-ip"), AMBIENT("true-client-ip"), AMBIENT("client-ip"),
    AMBIENT("x-client-ip"), AMBIENT("x-cluster-client-ip"), AMBIENT("cf-connecting-ip"), AMBIENT("fastly-client-ip"),
    AMBIENT("x-originating-ip"), AMBIENT("x-remote-ip"), AMBIENT("x-remote-addr"),
    AMBIENT("x-envoy-external-address"), AMBIENT("x-original-url"), AMBIENT("x-original-uri"),
    AMBIENT("x-rewrite-url"), AMBIENT("x-original-host"), AMBIENT("x-original-method"), AMBIENT("x-host"),
    AMBIENT("x-http-host-override"), AMBIENT("x-outside-url"), AMBIENT("x-http-method"),
    AMBIENT("x-http-method-override"), AMBIENT("x-method-override"), AMBIENT("remote-user"), AMBIENT("x-remote-user"),
    AMBIENT("x-webauth-user"), AMBIENT("x-authenticated-user"), AMBIENT("x-user"), AMBIENT("x-ssl-client-cert"),
    AMBIENT("x-ssl-client-verify"), AMBIENT("ssl-client-cert"), AMBIENT("ssl-client-verify"),
    AMBIENT("ssl-client-s-dn"), AMBIENT("x-client-cert"), AMBIENT("x-arr-clientcert"), AMBIENT("client-cert"),
    AMBIENT("client-cert-chain"), AMBIENT("x-accel-redirect"), AMBIENT("x-sendfile"), AMBIENT("x-proxy-user"),
    AMBIENT("proxy"), AMBIENT("surrogate-capability"), AMBIENT("x-forwarded"), AMBIENT("forwarded-for"),
    AMBIENT("x-original-forwarded-for"), AMBIENT("x-original-proto"), AMBIENT("cf-connecting-ipv6"),
    AMBIENT("cf-pseudo-ipv4"), AMBIENT("x-proxyuser-ip"), AMBIENT("proxy-client-ip"), AMBIENT("wl-proxy-client-ip"),
    AMBIENT("http-client-ip"), AMBIENT("x-azure-clientip"), AMBIENT("x-azure-socketip"),
    AMBIENT("x-custom-ip-authorization"), AMBIENT("x-http-path-override"), AMBIENT("x-http-destinationurl"),
    AMBIENT("x-override-url"), AMBIENT("x-backend-host"), AMBIENT("x-real-host"), AMBIENT("x-remote-host"),
    AMBIENT("x-scheme"), AMBIENT("x-url-scheme"), AMBIENT("front-end-https"), AMBIENT("x-client-verify"),
    AMBIENT("x-client-dn"), AMBIENT("x-internal-request"), AMBIENT("via"), AMBIENT("x-method"),
    AMBIENT("x-remote-group"), AMBIENT("x-remote-groups"), AMBIENT("x-remote-name"), AMBIENT("x-remote-email"),
    AMBIENT("x-auth-user"), AMBIENT("x-auth-username"), AMBIENT("x-auth-email"), AMBIENT("x-auth-groups"),
    AMBIENT("x-auth-roles"), AMBIENT("x-user-id"), AMBIENT("x-user-email"), AMBIENT("x-user-name"),
    AMBIENT("x-username"), AMBIENT("x-email"), AMBIENT("x-groups"), AMBIENT("x-roles"), AMBIENT("x-token-subject"),
    AMBIENT("x-authenticated-userid"), AMBIENT("x-authenticated-scope"), AMBIENT("x-anonymous-consumer"),
    AMBIENT("x-openam-username"), AMBIENT("iv-user"), AMBIENT("iv-groups"), AMBIENT("sm-user"), AMBIENT("remote-addr"),
    AMBIENT("remote-host"), AMBIENT("auth-user"), AMBIENT("sudo"), AMBIENT("x-jwt-assertion"),
    AMBIENT("x-goog-iap-jwt-assertion"), AMBIENT("x-endpoint-api-userinfo"), AMBIENT("x-apigateway-api-userinfo"),
    AMBIENT("x-artifactory-override-base-url"), AMBIENT("x-forward-for"), AMBIENT("x-real-port"),

    /* Written with an underscore, that is: what a server behind CGI's spelling takes for the real ones. */
    AMBIENT("host"), AMBIENT("content-length"),

    {SLICE("exeat-token"), FIELD_CREDENTIAL | FIELD_HOP},
};

static char fold(char c)
{
    if (c >= 'A' && c <= 'Z')
        return (char)(c - 'A' + 'a');
    return c == '_' ? '-' : c;
}

static bool is(struct slice name, struct slice known)
{
    if (name.len != known.len)
        return false;
    for (size_t i = 0; i < name.len; i++)
        if (fold(name.ptr[i]) != known.ptr[i])
            return false;
    return true;
}

bool field_is_same(struct slice a, struct slice b)
{
    if (a.len != b.len)
        return false;
    for (size_t i = 0; i < a.len; i++)
        if (fold(a.ptr[i]) != fold(b.ptr[i]))
            return false;
    return true;
}

enum { CHAINS = 512, N_KNOWN = sizeof table / sizeof *table };

static size_t chain_of(struct slice name)
{
    return (name.len * 31 + (unsigned char)fold(name.ptr[0]) * 7 + (unsigned char)fold(name.ptr[name.len - 1])) % CHAINS;
}

/* Finds in the table by length, first and last letter; the chains are made at the first question. */
static const struct known *find(struct slice name)
{
    static uint8_t first[CHAINS], next[N_KNOWN + 1]; /* 1 and up: place in the table; 0: the end */
    static bool made;

    _Static_assert(N_KNOWN < UINT8_MAX, "chains have bytes");
    for (size_t i = N_KNOWN; !made && i > 0; i--) {
        next[i] = first[chain_of(table[i - 1].name)];
        first[chain_of(table[i - 1].name)] = (uint8_t)i;
    }
    made = true;
    for (size_t i = first[chain_of(name)]; i; i = next[i])
        if (is(name, table[i - 1].name))
            return &table[i - 1];
    return NULL;
}

static bool is_family(struct slice name)
{
    static const struct slice families[] = {
        SLICE("x-forwarded-"),        SLICE("x-auth-request-"),   SLICE("x-amzn-oidc-"),
        SLICE("x-envoy-"),            SLICE("x-ssl-"),            SLICE("x-appengine-"),
        SLICE("x-ms-client-principal"), SLICE("x-goog-authenticated-user-"), SLICE("x-pomerium-"),
        SLICE("x-tailscale-"),        SLICE("tailscale-"),        SLICE("cf-access-authenticated-"),
        SLICE("x-remote-extra-"),     SLICE("impersonate-"),      SLICE("x-consumer-"),
        SLICE("x-credential-"),       SLICE("x-authentik-"),      SLICE("x-vouch-"),
        SLICE("x-webauth-"),          SLICE("oidc-claim-"),       SLICE("x-shib-"),
    };
    static const char initials[] = "xtcio"; /* of all of them: most names begin otherwise */

    if (!memchr(initials, fold(name.ptr[0]), sizeof initials - 1))
        return false;
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (name.len >= families[i].len && is(slice_cut(name, 0, families[i].len), families[i]))
            return true;
    return false;
}

unsigned field_meaning(struct slice name)
{
    const struct known *known;

    if (name.len == 0)
        return 0;
    if ((known = find(name)))
        return known->meaning;
    return is_family(name) ? FIELD_AMBIENT : 0;
}

bool field_is_name(struct slice name)
{
    for (size_t i = 0; i < name.len; i++)
        if (name.ptr[i] <= 0x20 || name.ptr[i] >= 0x7f || strchr("\"(),/:;<=>?@[\\]{}", name.ptr[i]))
            return false;
    return name.len > 0;
}
