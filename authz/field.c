/* The one place that lists field names by what they mean. */
#include "authz/field.h"

#include <string.h>

#define NAMES(...) static const struct slice list[] = {__VA_ARGS__}
#define HOLDS(name) holds(list, sizeof list / sizeof *list, name)

static char fold(char c)
{
    if (c >= 'A' && c <= 'Z')
        return (char)(c - 'A' + 'a');
    return c == '_' ? '-' : c;
}

/* known is in small letters with hyphens. */
static bool is(struct slice name, struct slice known)
{
    if (name.len != known.len)
        return false;
    for (size_t i = 0; i < name.len; i++)
        if (fold(name.ptr[i]) != known.ptr[i])
            return false;
    return true;
}

static bool holds(const struct slice *list, size_t n, struct slice name)
{
    for (size_t i = 0; i < n; i++)
        if (is(name, list[i]))
            return true;
    return false;
}

bool field_is_credential(struct slice name)
{
    NAMES(SLICE("authorization"), SLICE("cookie"), SLICE("cookie2"), SLICE("authentication"), SLICE("x-authorization"),
          SLICE("x-api-key"), SLICE("api-key"), SLICE("apikey"), SLICE("x-api-token"), SLICE("x-apikey"),
          SLICE("x-auth-token"), SLICE("x-auth-key"), SLICE("x-access-token"), SLICE("access-token"),
          SLICE("x-token"), SLICE("x-session-token"), SLICE("x-secret-key"), SLICE("dpop"),
          SLICE("private-token"), SLICE("job-token"), SLICE("deploy-token"), SLICE("x-gitlab-token"),
          SLICE("x-github-token"), SLICE("npm-otp"), SLICE("x-npm-token"), SLICE("x-jfrog-art-api"),
          SLICE("x-nuget-apikey"), SLICE("x-vault-token"), SLICE("x-consul-token"), SLICE("x-amz-security-token"),
          SLICE("x-goog-api-key"), SLICE("x-goog-iam-authorization-token"), SLICE("ocp-apim-subscription-key"),
          SLICE("x-ms-token-aad-access-token"), SLICE("x-registry-auth"), SLICE("x-functions-key"),
          SLICE("exeat-token"), SLICE("txn-token"));

    return HOLDS(name);
}

bool field_is_ambient(struct slice name)
{
    NAMES(SLICE("forwarded"), SLICE("x-real-ip"), SLICE("true-client-ip"), SLICE("client-ip"), SLICE("x-client-ip"),
          SLICE("x-cluster-client-ip"), SLICE("cf-connecting-ip"), SLICE("fastly-client-ip"),
          SLICE("x-originating-ip"), SLICE("x-remote-ip"), SLICE("x-remote-addr"), SLICE("x-envoy-external-address"),
          SLICE("x-original-url"), SLICE("x-original-uri"), SLICE("x-rewrite-url"), SLICE("x-original-host"),
          SLICE("x-original-method"), SLICE("x-host"), SLICE("x-http-host-override"), SLICE("x-outside-url"),
          SLICE("x-http-method"), SLICE("x-http-method-override"), SLICE("x-method-override"),
          SLICE("remote-user"), SLICE("x-remote-user"), SLICE("x-webauth-user"), SLICE("x-authenticated-user"),
          SLICE("x-user"), SLICE("x-ssl-client-cert"), SLICE("x-ssl-client-verify"), SLICE("ssl-client-cert"),
          SLICE("ssl-client-verify"), SLICE("ssl-client-s-dn"), SLICE("x-client-cert"), SLICE("x-arr-clientcert"),
          SLICE("client-cert"), SLICE("client-cert-chain"), SLICE("x-accel-redirect"), SLICE("x-sendfile"),
          SLICE("x-proxy-user"), SLICE("proxy"), SLICE("surrogate-capability"));
    static const struct slice families[] = {SLICE("x-forwarded-"), SLICE("x-auth-request-"), SLICE("x-amzn-oidc-")};

    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (name.len > families[i].len && is(slice_cut(name, 0, families[i].len), families[i]))
            return true;
    return HOLDS(name);
}

bool field_is_hop(struct slice name)
{
    NAMES(SLICE("connection"), SLICE("proxy-connection"), SLICE("keep-alive"), SLICE("proxy-authorization"),
          SLICE("proxy-authenticate"), SLICE("proxy-authentication-info"), SLICE("te"), SLICE("trailer"),
          SLICE("transfer-encoding"), SLICE("upgrade"), SLICE("http2-settings"), SLICE("exeat-token"));

    return HOLDS(name);
}

bool field_is_name(struct slice name)
{
    for (size_t i = 0; i < name.len; i++)
        if (name.ptr[i] <= 0x20 || name.ptr[i] >= 0x7f || strchr("\"(),/:;<=>?@[\\]{}", name.ptr[i]))
            return false;
    return name.len > 0;
}
