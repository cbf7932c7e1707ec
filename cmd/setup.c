#include "cmd/setup.h"

#include <stdio.h>
#include <string.h>

#include "authz/preset.h"
#include "base/file.h"
#include "base/text.h"
#include "net/addr.h"

enum { SERVERS_MOST = 3 };

static bool is_name(struct slice s)
{
    for (size_t i = 0; i < s.len; i++)
        if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-", s.ptr[i]))
            return false;
    return s.len >= 1 && s.len <= 63;
}

static bool read_host(struct slice host, struct setup_service *out, struct fault *why)
{
    bool below = slice_starts(host, SLICE("*."));
    char canonical[NAME_MAX_LEN + 1];

    if (!name_canonical(below ? slice_from(host, 2) : host, canonical, why)) {
        if (why)
            why->kind = FAULT_USAGE;
        return false;
    }
    snprintf(out->host, sizeof out->host, "%s%s", below ? "*." : "", canonical);
    return true;
}

static bool read_preset(struct slice name, struct setup_service *out, struct fault *why)
{
    int n = snprintf(out->preset, sizeof out->preset, "%.*s", SLICE_ARG(name));
    struct buf names = {0};

    if ((size_t)n < sizeof out->preset && preset_find(out->preset))
        return true;
    preset_names(&names);
    fault_set(why, FAULT_USAGE, "there is no preset \"%.*s\"; there are %.*s", SLICE_ARG(name), SLICE_ARG(buf_slice(&names)));
    buf_free(&names);
    return false;
}

bool setup_service_parse(const char *text, struct setup_service *out, struct fault *why)
{
    struct slice left = slice_of(text), name, place, port, preset = {"", 0};
    uint64_t n = 443;
    ptrdiff_t colon;

    *out = (struct setup_service){0};
    slice_next(&left, '=', &name);
    if (!left.ptr || !is_name(name))
        return fault_set(why, FAULT_USAGE, "--service wants NAME=HOST[:PORT][,PRESET], not \"%s\"", text);
    slice_next(&left, ',', &place);
    if (left.ptr)
        preset = left;
    if (slice_find(place, '/') >= 0)
        return fault_set(why, FAULT_USAGE, "--service %s: it wants a host, artifacts.corp or artifacts.corp:8443, not a URL", text);
    if ((colon = slice_find(place, ':')) >= 0) {
        port = slice_from(place, (size_t)colon + 1);
        place = slice_cut(place, 0, (size_t)colon);
        if (!slice_decimal(port, 65535, &n) || n == 0)
            return fault_set(why, FAULT_USAGE, "--service %s: \"%.*s\" is no port", text, SLICE_ARG(port));
    }
    if (!read_host(place, out, why)) {
        fault_prefix(why, "--service %s", text);
        return false;
    }
    if (left.ptr && !read_preset(preset, out, why)) {
        fault_prefix(why, "--service %s", text);
        return false;
    }
    snprintf(out->name, sizeof out->name, "%.*s", SLICE_ARG(name));
    out->port = (uint16_t)n;
    return true;
}

/* The machine's own name servers, so that the first look-up works; the usual local one when there are none. */
static void servers(struct buf *out)
{
    struct buf text = {0};
    struct slice left, line;
    size_t n = 0;

    if (file_read("/etc/resolv.conf", 64 << 10, &text, NULL)) {
        left = buf_slice(&text);
        while (n < SERVERS_MOST && slice_next(&left, '\n', &line)) {
            struct addr a;

            if (!slice_starts(line, SLICE("nameserver")) || !addr_parse_ip(slice_trim(slice_from(line, 10)), &a))
                continue;
            a.port = 53;
            buf_text(out, n++ ? ", \"" : "\"");
            addr_text(out, &a);
            buf_char(out, '"');
        }
    }
    if (n == 0)
        buf_text(out, "\"127.0.0.53:53\"");
    buf_free(&text);
}

static void service(struct buf *out, const struct setup_service *s)
{
    enum { REMARK_COLUMN = 36 };
    size_t start;

    buf_printf(out, "  %s:\n", s->name);
    if (s->preset[0])
        buf_printf(out, "    preset: %s\n", s->preset);
    buf_printf(out, "    hosts: [\"%s\"]\n    ports: [%u]\n", s->host, (unsigned)s->port);
    if (!s->preset[0])
        buf_text(out, "    allow: [\"GET,HEAD /**\"]        # reading, every path; narrow it when you can\n");
    start = buf_len(out);
    buf_printf(out, "    scope: \"%s:read\"", s->name);
    do
        buf_char(out, ' ');
    while (buf_len(out) - start < REMARK_COLUMN);
    buf_text(out, "# what a leave token must carry\n");
    buf_text(out, "    # allow-private: true           # when the host has an address of 10/8, 172.16/12, 192.168/16\n"
                  "    # addresses: [\"10.1.2.3:8443\"]  # or dial exactly this, without a look-up\n"
                  "    # ca-file: corp-ca.pem          # when its certificate is not from a public CA\n"
                  "    audit: \"waived: written by exeat init, nobody has looked yet\"\n");
}

void setup_write(const struct setup *s, struct buf *out)
{
    buf_printf(out,
               "# Exeat, written by `exeat init`. Every key: exeat config help\n"
               "\n"
               "gateway:\n"
               "  name: \"%s\"   # what leave tokens are for (aud)\n"
               "  state: .\n"
               "\n"
               "resolver:\n"
               "  servers: [",
               s->name);
    servers(out);
    buf_printf(out,
               "]\n"
               "\n"
               "listen:\n"
               "  explicit: { address: \"%s\" }\n"
               "\n"
               "issuers:\n"
               "  local:   # its key makes tokens: exeat token issue\n"
               "    jwks: issuer/local.jwks\n"
               "    key: issuer/local.key\n"
               "\n"
               "# Nothing is reachable but what stands here.\n"
               "services:\n",
               s->listen);
    for (size_t i = 0; i < s->n_services; i++)
        service(out, &s->services[i]);
    buf_text(out, "\n"
                  "canaries: { file: canaries.json, on-leak: block }\n"
                  "journal: { directory: journal }\n");
    if (s->publish)
        buf_printf(out, "publish: { address: \"%s\" }   # /metrics /healthz /readyz\n", s->publish);
    buf_text(out, "admin: { address: \"unix:admin.sock\" }\n");
}
