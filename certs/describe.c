/* Owns how the CA is shown to people and programs. Reads certificates, never a key. */
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "certs/ca.h"
#include "certs/cert.h"
#include "certs/constraint.h"

/* What is shown of one certificate, as text. */
struct portrait {
    struct buf subject, fingerprint, serial, from, to;
};

static void portrait_clear(struct portrait *p)
{
    buf_free(&p->subject);
    buf_free(&p->fingerprint);
    buf_free(&p->serial);
    buf_free(&p->from);
    buf_free(&p->to);
}

static void write_subject(struct buf *out, const X509 *x)
{
    BIO *memory = BIO_new(BIO_s_mem());
    char *bytes;
    long len;

    if (memory && X509_NAME_print_ex(memory, X509_get_subject_name(x), 0, XN_FLAG_RFC2253) >= 0) {
        len = BIO_get_mem_data(memory, &bytes);
        buf_append(out, slice_make(bytes, (size_t)len));
    }
    BIO_free(memory);
}

/* 2026-01-02T03:04:05Z: certificates know no fractions. */
static void write_time(struct buf *out, int64_t at_s)
{
    struct buf text = {0};

    clock_rfc3339(&text, at_s * 1000000000);
    buf_append(out, slice_cut(buf_slice(&text), 0, 19));
    buf_char(out, 'Z');
    buf_free(&text);
}

static void portrait_take(struct portrait *p, const X509 *x)
{
    unsigned char digest[EVP_MAX_MD_SIZE], serial[CERT_SERIAL_LEN];
    unsigned int len = 0;

    write_subject(&p->subject, x);
    if (X509_digest(x, EVP_sha256(), digest, &len) == 1)
        text_hex(&p->fingerprint, slice_make(digest, len));
    cert_serial(x, serial);
    text_hex(&p->serial, slice_make(serial, sizeof serial));
    write_time(&p->from, cert_not_before(x));
    write_time(&p->to, cert_not_after(x));
}

static void line(struct buf *out, const char *label, const struct buf *value)
{
    buf_printf(out, "  %-12s %.*s\n", label, SLICE_ARG(buf_slice(value)));
}

static void write_text(struct buf *out, const char *what, const struct portrait *p, const struct constraint *hosts)
{
    buf_printf(out, "%s\n", what);
    line(out, "subject", &p->subject);
    line(out, "sha256", &p->fingerprint);
    line(out, "serial", &p->serial);
    line(out, "from", &p->from);
    line(out, "to", &p->to);
    if (!hosts)
        return;
    for (size_t i = 0; i < hosts->n; i++)
        buf_printf(out, "  %-12s %s and names below it\n", i ? "" : "permits", hosts->names[i]);
    buf_text(out, "  excludes     all IP addresses\n");
}

static void member(struct buf *out, const char *name, const struct buf *value)
{
    buf_printf(out, "\"%s\":", name);
    text_json(out, buf_slice(value));
}

static void write_json(struct buf *out, const char *what, const struct portrait *p, const struct constraint *hosts)
{
    buf_printf(out, "\"%s\":{", what);
    member(out, "subject", &p->subject);
    buf_char(out, ',');
    member(out, "sha256", &p->fingerprint);
    buf_char(out, ',');
    member(out, "serial", &p->serial);
    buf_char(out, ',');
    member(out, "not_before", &p->from);
    buf_char(out, ',');
    member(out, "not_after", &p->to);
    for (size_t i = 0; hosts && i < hosts->n; i++) {
        buf_text(out, i ? "," : ",\"permitted\":[");
        text_json(out, slice_of(hosts->names[i]));
    }
    buf_text(out, hosts ? "],\"excluded\":[\"0.0.0.0/0\",\"::/0\"]}" : "}");
}

static bool describe(const char *directory, const char *what, bool json, struct buf *out, struct fault *why)
{
    struct buf file = {0}, pem = {0};
    struct portrait p = {0};
    struct constraint hosts = {0};
    X509 *x = NULL;
    char *path;
    bool constrained, ok = false;

    buf_printf(&file, "%s/%s.pem", directory, what);
    path = buf_take_text(&file);
    if (file_read(path, CERT_PEM_MAX, &pem, why) && (x = cert_parse(buf_slice(&pem), path, why))) {
        constrained = constraint_of_cert(x, &hosts);
        portrait_take(&p, x);
        (json ? write_json : write_text)(out, what, &p, constrained ? &hosts : NULL);
        ok = true;
    }
    constraint_clear(&hosts);
    portrait_clear(&p);
    buf_free(&pem);
    free(path);
    X509_free(x);
    return ok;
}

bool ca_describe(const char *directory, bool json, struct buf *out, struct fault *why)
{
    char *intermediate = file_join(directory, "intermediate.pem");
    bool both = file_exists(intermediate);
    bool ok;

    free(intermediate);
    if (!ca_is_there(directory, why))
        return false;
    if (json)
        buf_text(out, "{\"schema\":\"exeat.ca/1\",");
    ok = describe(directory, "root", json, out, why);
    if (json && both)
        buf_char(out, ',');
    ok = ok && (!both || describe(directory, "intermediate", json, out, why));
    if (json)
        buf_text(out, "}\n");
    else if (ok && !both)
        buf_text(out, "intermediate\n  none yet: exeat serve makes it for the hosts in services\n");
    return ok;
}
