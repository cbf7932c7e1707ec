/* Owns what a probe says. Must not know how it is sent. */
#include "audit/wording.h"

#include <string.h>

#include "base/text.h"

static void credentials_of(const struct way *w, const struct probe *p, struct buf *out)
{
    const struct credential *first = &w->target->first;
    bool to_proxy = first->form == CREDENTIAL_PROXY_BASIC || first->form == CREDENTIAL_PROXY_BEARER;

    if (w->is_bare && p->who != WHO_TOKEN && p->who != WHO_JUNK)
        return;
    if (p->who == WHO_FIRST) {
        credential_field(first, out);
    } else if (p->who == WHO_SECOND) {
        credential_field(&w->target->second, out);
    } else if (p->who == WHO_TOKEN) {
        buf_printf(out, "%sAuthorization: Bearer %s", to_proxy ? "Proxy-" : "", p->token);
    } else if (p->who == WHO_JUNK) {
        const char *form = first->form == CREDENTIAL_BASIC || first->form == CREDENTIAL_PROXY_BASIC ? "Basic ZXhlYXQ6bm9ib2R5LWdhdmUtdGhpcy1vdXQ="
                                                                                                      : "Bearer nobody-gave-this-out-0123456789";

        if (first->form == CREDENTIAL_FIELD)
            buf_printf(out, "%s: nobody-gave-this-out-0123456789", first->field);
        else
            buf_printf(out, "%sAuthorization: %s", to_proxy ? "Proxy-" : "", form);
    }
}

/* It begins with a scheme: one within a path is the path's. */
static bool is_whole_url(const char *path)
{
    return slice_starts(slice_of(path), SLICE("http://")) || slice_starts(slice_of(path), SLICE("https://"));
}

bool wording_is_whole(const struct way *w)
{
    return w->gateway && !w->base->tls;
}

void wording_authority(const struct way *w, struct buf *out)
{
    target_authority(w->target, (unsigned)(w->base - w->target->base), out);
}

void wording_target(const struct way *w, const struct probe *p, struct buf *out)
{
    if (wording_is_whole(w) && p->path[0] == '/') {
        buf_text(out, "http://");
        wording_authority(w, out);
    }
    if (!p->is_bare && !is_whole_url(p->path))
        buf_text(out, w->base->path);
    buf_text(out, p->path);
}

static void host_of(const struct way *w, const struct probe *p, struct buf *out)
{
    struct slice url = slice_of(p->path);

    if (p->host) {
        buf_text(out, p->host);
    } else if (!p->is_bare && is_whole_url(p->path)) {
        ptrdiff_t slash;

        url = slice_from(url, (size_t)slice_search(url, SLICE("://")) + 3);
        slash = slice_find(url, '/');
        buf_append(out, slice_cut(url, 0, slash < 0 ? url.len : (size_t)slash));
    } else {
        wording_authority(w, out);
    }
}

static bool has_field(const struct probe *p, const char *name)
{
    for (size_t i = 0; i < TURN_FIELDS_MAX && p->fields[i]; i++)
        if (slice_starts_nocase(slice_of(p->fields[i]), slice_of(name)) && p->fields[i][strlen(name)] == ':')
            return true;
    return false;
}

/* Texts end with a NUL, as all of them do: what a field holds otherwise is the probe's business. */
static void add(struct buf *out, const char *line)
{
    buf_append(out, slice_make(line, strlen(line) + 1));
}

void wording_fields(const struct way *w, const struct probe *p, struct buf *out)
{
    size_t before;

    buf_text(out, "Host: ");
    host_of(w, p, out);
    buf_char(out, '\0');
    before = buf_len(out);
    credentials_of(w, p, out);
    if (buf_len(out) > before)
        buf_char(out, '\0');
    if (wording_is_whole(w) && w->leave_token) {
        buf_printf(out, "Proxy-Authorization: Bearer %s", w->leave_token);
        buf_char(out, '\0');
    }
    if (p->body_type) {
        buf_printf(out, "Content-Type: %s", p->body_type);
        buf_char(out, '\0');
    }
    for (size_t i = 0; i < TURN_FIELDS_MAX && p->fields[i]; i++)
        add(out, p->fields[i]);
    if (!has_field(p, "Connection"))
        add(out, "Connection: close"); /* some end an answer of unknown length only then */
    if (!has_field(p, "Expect"))
        add(out, "Expect:"); /* libcurl's own is left out */
}

void wording_head(const struct way *w, const struct probe *p, const char *method, const char *agent, struct buf *out)
{
    struct buf fields = {0};
    struct slice left, line;

    buf_printf(out, "%s ", method);
    wording_target(w, p, out);
    buf_text(out, " HTTP/1.1\r\n");
    wording_fields(w, p, &fields);
    left = buf_slice(&fields);
    while (slice_next(&left, '\0', &line) && line.len) {
        if (slice_find(line, ':') + 1 == (ptrdiff_t)line.len)
            continue;
        buf_append(out, line);
        buf_text(out, "\r\n");
    }
    buf_printf(out, "User-Agent: %s\r\n\r\n", agent);
    buf_wipe(&fields);
}
