#include "cmd/client.h"

#include <string.h>

enum {
    CURL = 1, GIT = 2, PIP = 4, NPM = 8, NODE20 = 16, NODE24 = 32, CARGO = 64, APT = 128, GO = 256, WGET = 512, SKOPEO = 1024,
    DOCKER = 2048, JAVA = 4096, PYTHON = 8192, AWS = 16384,
    NODE = NODE20 | NODE24, READS_PROXY = CURL | GIT | PIP | NPM | NODE24 | CARGO | APT | GO | WGET | SKOPEO | DOCKER | PYTHON | AWS,
};

#define BOTH_CASES "https_proxy HTTPS_PROXY"

static const struct client clients[] = {
    {"curl", CURL, BOTH_CASES, "CURL_CA_BUNDLE SSL_CERT_FILE", false, true, true, NULL},
    {"git", GIT, BOTH_CASES, "GIT_SSL_CAINFO", false, true, true, NULL},
    {"pip", PIP, BOTH_CASES, "PIP_CERT REQUESTS_CA_BUNDLE CURL_CA_BUNDLE", false, false, true, NULL},
    {"npm", NPM, "npm_config_https_proxy HTTPS_PROXY https_proxy", "npm_config_cafile NODE_EXTRA_CA_CERTS", false, false, true, NULL},
    {"node", NODE24, BOTH_CASES, "NODE_EXTRA_CA_CERTS", true, false, true, "node before 24 reads no proxy variable: its fetch fails closed"},
    {"node20", NODE20, "", "NODE_EXTRA_CA_CERTS", true, false, false,
     "node 20 reads no proxy variable: its fetch fails closed; a program must be given the proxy's address, or exeat-relay's"},
    {"node24", NODE24, BOTH_CASES, "NODE_EXTRA_CA_CERTS", true, false, true, NULL},
    {"cargo", CARGO, "CARGO_HTTP_PROXY https_proxy HTTPS_PROXY", "CARGO_HTTP_CAINFO SSL_CERT_FILE", false, true, true, NULL},
    {"apt", APT, BOTH_CASES, "APT_CONFIG", false, true, true, NULL},
    {"go", GO, "HTTPS_PROXY https_proxy", "SSL_CERT_FILE", false, true, true, NULL},
    {"wget", WGET, "https_proxy", "WGETRC", false, true, true, NULL},
    {"skopeo", SKOPEO, "HTTPS_PROXY https_proxy", "SSL_CERT_FILE", false, true, true, NULL},
    {"docker", DOCKER, "HTTPS_PROXY https_proxy", "SSL_CERT_FILE", false, true, false,
     "these are for dockerd (its unit's Environment=, read at start)"},
    {"maven", JAVA, "JAVA_TOOL_OPTIONS", "JAVA_TOOL_OPTIONS", false, false, false, NULL},
    {"gradle", JAVA, "JAVA_TOOL_OPTIONS", "JAVA_TOOL_OPTIONS", false, false, false, NULL},
    {"java", JAVA, "JAVA_TOOL_OPTIONS", "JAVA_TOOL_OPTIONS", false, false, false, NULL},
    {"python", PYTHON, BOTH_CASES, "REQUESTS_CA_BUNDLE SSL_CERT_FILE", false, true, true, NULL},
    {"aws", AWS, BOTH_CASES, "AWS_CA_BUNDLE", false, false, true, NULL},
    {0},
};

static const struct client_variable variables[] = {
    {"http_proxy", READS_PROXY, CLIENT_PROXY, NULL},
    {"https_proxy", READS_PROXY, CLIENT_PROXY, NULL},
    {"HTTP_PROXY", READS_PROXY, CLIENT_PROXY, NULL},
    {"HTTPS_PROXY", READS_PROXY, CLIENT_PROXY, NULL},
    {"SSL_CERT_FILE", CURL | CARGO | GO | SKOPEO | DOCKER | PYTHON, CLIENT_BUNDLE, NULL},
    {"CURL_CA_BUNDLE", CURL, CLIENT_BUNDLE, NULL},
    {"REQUESTS_CA_BUNDLE", PIP | PYTHON, CLIENT_BUNDLE, NULL},
    {"PIP_CERT", PIP, CLIENT_BUNDLE, NULL},
    {"GIT_SSL_CAINFO", GIT, CLIENT_BUNDLE, NULL},
    {"CARGO_HTTP_CAINFO", CARGO, CLIENT_BUNDLE, NULL},
    {"AWS_CA_BUNDLE", AWS, CLIENT_BUNDLE, NULL},
    {"NODE_EXTRA_CA_CERTS", NODE | NPM, CLIENT_ROOT, NULL},
    {"NODE_USE_ENV_PROXY", NODE24, CLIENT_WITH_PROXY, "1"},
    /* a cafile elsewhere would hide NODE_EXTRA_CA_CERTS */
    {"npm_config_cafile", NPM, CLIENT_BUNDLE, NULL},
    {"npm_config_update_notifier", NPM, CLIENT_LITERAL, "false"},
    {"WGETRC", WGET, CLIENT_WGETRC, NULL},
    {"APT_CONFIG", APT, CLIENT_APT_CONF, NULL},
    {"JAVA_TOOL_OPTIONS", JAVA, CLIENT_JAVA, NULL},
    /* with the first CONNECT, not only after a 407 */
    {"GIT_CONFIG_COUNT", GIT, CLIENT_WITH_PROXY, "1"},
    {"GIT_CONFIG_KEY_0", GIT, CLIENT_WITH_PROXY, "http.proxyAuthMethod"},
    {"GIT_CONFIG_VALUE_0", GIT, CLIENT_WITH_PROXY, "basic"},
    {0},
};

const struct client *client_all(void)
{
    return clients;
}

const struct client *client_find(const char *name)
{
    for (const struct client *c = clients; c->name; c++)
        if (strcmp(c->name, name) == 0)
            return c;
    return NULL;
}

const struct client_variable *client_variables(void)
{
    return variables;
}
