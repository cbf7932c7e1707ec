#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "cmd/doctor.h"

#define SYSTEM_TRUST "/etc/ssl/certs/ca-certificates.crt"
#define POINT "eval \"$(exeat env --client NAME)\" on the gateway's machine prints what is to be set here"

enum { TRUST_MOST = 16 << 20 };

/* The first certificate of the file (give), or NULL. */
static X509 *read_root(const char *path)
{
    BIO *in = BIO_new_file(path, "r");
    X509 *x = in ? PEM_read_bio_X509(in, NULL, NULL, NULL) : NULL;

    BIO_free(in);
    ERR_clear_error();
    return x;
}

/* One of the PEM certificates in text is x. */
static bool pem_has(struct slice text, const X509 *x)
{
    BIO *in = BIO_new_mem_buf(text.ptr, (int)text.len);
    bool found = false;
    X509 *one;

    while (in && !found && (one = PEM_read_bio_X509(in, NULL, NULL, NULL))) {
        found = X509_cmp(one, x) == 0;
        X509_free(one);
    }
    BIO_free(in);
    ERR_clear_error();
    return found;
}

/* Its DER stands somewhere in text, as in a Java store. */
static bool der_has(struct slice text, X509 *x)
{
    unsigned char *der = NULL;
    int len = i2d_X509(x, &der);
    bool found = len > 0 && slice_search(text, slice_make(der, (size_t)len)) >= 0;

    OPENSSL_free(der);
    return found;
}

/* What stands between before and one of the characters of after, in a small file; give; NULL: it does not stand there. */
static char *read_setting(const char *file, const char *before, const char *after)
{
    struct buf text = {0};
    ptrdiff_t at = -1;
    char *out = NULL;
    size_t n = 0;

    if (file_read(file, 65536, &text, NULL) && (at = slice_search(buf_slice(&text), slice_of(before))) >= 0) {
        struct slice rest = slice_from(buf_slice(&text), (size_t)at + strlen(before));

        while (n < rest.len && !strchr(after, rest.ptr[n]))
            n++;
        out = text_copy(slice_trim(slice_cut(rest, 0, n)));
    }
    buf_free(&text);
    return out;
}

/* The file of certificates that a variable leads to (give). */
static char *file_of(const char *variable, const char *value)
{
    static const char java[] = "-Djavax.net.ssl.trustStore=";
    const char *at;

    if (strcmp(variable, "WGETRC") == 0)
        return read_setting(value, "ca_certificate = ", "\n");
    if (strcmp(variable, "APT_CONFIG") == 0)
        return read_setting(value, "Acquire::https::CaInfo \"", "\"");
    if (strcmp(variable, "JAVA_TOOL_OPTIONS") != 0)
        return text_copy(slice_of(value));
    at = strstr(value, java);
    return at ? text_copy(slice_make(at + strlen(java), strcspn(at + strlen(java), " "))) : NULL;
}

static void judge(const char *file, const char *from, X509 *root, bool is_java, struct findings *f)
{
    struct buf text = {0};

    if (!file_read(file, TRUST_MOST, &text, NULL))
        findings_add(f, "trust", FINDING_WRONG, POINT, "%s names %s, which cannot be read", from, file);
    else if (!root)
        findings_add(f, "trust", FINDING_UNKNOWN, "--root FILE names the gateway's root: exeat ca export prints it",
                     "%s names %s; whether the gateway's root is in it cannot be told here", from, file);
    else if (is_java ? der_has(buf_slice(&text), root) : pem_has(buf_slice(&text), root))
        findings_add(f, "trust", FINDING_OK, NULL, "%s names %s, and the gateway's root is in it", from, file);
    else
        findings_add(f, "trust", FINDING_WRONG, POINT, "the gateway's root is not in %s, which %s names", file, from);
    buf_free(&text);
}

/* The first of its variables that is set is the one it reads. */
static bool judge_variables(const struct client *c, X509 *root, struct findings *f)
{
    struct slice names = slice_of(c->trust), name;
    bool done = false;

    while (!done && slice_next(&names, ' ', &name)) {
        char *variable = text_copy(name);
        const char *value = getenv(variable);
        char *file = value && *value ? file_of(variable, value) : NULL;

        done = file != NULL;
        if (done)
            judge(file, variable, root, strcmp(variable, "JAVA_TOOL_OPTIONS") == 0, f);
        free(file);
        free(variable);
    }
    return done;
}

void doctor_check_trust(const struct client *c, const char *path, struct findings *f)
{
    X509 *root = path ? read_root(path) : NULL;

    if (path && !root)
        findings_add(f, "root", FINDING_WRONG, "exeat ca export prints it", "%s is no certificate", path);
    if (!judge_variables(c, root, f)) {
        if (c->system_trust)
            judge(SYSTEM_TRUST, "the system", root, false, f);
        else
            findings_add(f, "trust", FINDING_WRONG, POINT, "none of %s is set: %s trusts a list of its own", c->trust, c->name);
    }
    X509_free(root);
}
