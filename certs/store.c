/* Owns the files of the state's ca/ directory: who may read them, that they fit each other, and their renewal. */
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/say.h"
#include "certs/ca.h"
#include "certs/cert.h"
#include "certs/constraint.h"

enum { DAY_S = 24 * 60 * 60, ROOT_DAYS = 3650, INTERMEDIATE_DAYS = 365, ORGANISATION_MAX = 64 };

static bool write_file(const char *directory, const char *name, mode_t mode, struct slice bytes, struct fault *why)
{
    char *path = file_join(directory, name);
    bool ok = file_replace(path, mode, bytes, why);

    free(path);
    return ok;
}

/* The key goes first: a crash in between leaves a pair that does not fit, which is noticed, and no key is lost unseen. */
static bool write_pair(const char *directory, const char *name, X509 *cert, EVP_PKEY *key, struct fault *why)
{
    struct secret *key_pem = cert_key_pem(key, why);
    struct buf cert_text = {0}, key_file = {0}, cert_file = {0};
    char *key_name, *cert_name_text;
    bool ok;

    buf_printf(&key_file, "%s.key", name);
    buf_printf(&cert_file, "%s.pem", name);
    key_name = buf_take_text(&key_file);
    cert_name_text = buf_take_text(&cert_file);
    ok = key_pem && cert_pem(cert, &cert_text, why) &&
         write_file(directory, key_name, 0600, secret_slice(key_pem), why) &&
         write_file(directory, cert_name_text, 0644, buf_slice(&cert_text), why);
    free(key_name);
    free(cert_name_text);
    buf_free(&cert_text);
    secret_free(key_pem);
    return ok;
}

static X509 *read_cert(const char *directory, const char *name, struct fault *why)
{
    char *path = file_join(directory, name);
    struct buf text = {0};
    X509 *x = file_read_regular(path, CERT_PEM_MAX, &text, why) ? cert_parse(buf_slice(&text), path, why) : NULL;

    buf_free(&text);
    free(path);
    return x;
}

bool ca_is_there(const char *directory, struct fault *why)
{
    char *path = file_join(directory, "root.pem");
    bool there = file_exists(path);

    if (!there)
        fault_set(why, FAULT_MISSING, "%s: no such file: there is no CA; put yours back, or make one: exeat ca init", path);
    free(path);
    return there;
}

static X509 *read_root(const char *directory, struct fault *why)
{
    return ca_is_there(directory, why) ? read_cert(directory, "root.pem", why) : NULL;
}

static EVP_PKEY *read_key(const char *directory, const char *name, struct fault *why)
{
    char *path = file_join(directory, name);
    struct secret *text = secret_read_file(path, CERT_PEM_MAX, why);
    EVP_PKEY *key = text ? cert_parse_key(secret_slice(text), path, why) : NULL;

    secret_free(text);
    free(path);
    return key;
}

static bool has_file(const char *directory, const char *name)
{
    char *path = file_join(directory, name);
    bool there = file_exists(path);

    free(path);
    return there;
}

static X509 *make_root(const char *name, EVP_PKEY *key, int64_t now_s, struct fault *why)
{
    X509_NAME *subject = cert_name(name, "Exeat root", key, why);
    X509 *x = subject ? cert_new(key, subject, NULL, now_s - DAY_S, now_s + (int64_t)ROOT_DAYS * DAY_S, why) : NULL;

    if (x && !(cert_add_authority(x, 1, why) && cert_sign(x, key, why))) {
        X509_free(x);
        x = NULL;
    }
    X509_NAME_free(subject);
    return x;
}

bool ca_init(const char *directory, const char *name, struct fault *why)
{
    EVP_PKEY *key = NULL;
    X509 *root = NULL;
    bool ok = false;

    if (strlen(name) < 1 || strlen(name) > ORGANISATION_MAX)
        return fault_set(why, FAULT_USAGE, "the gateway's name must have 1 to %d characters", ORGANISATION_MAX);
    if (!file_make_directory(directory, 0700, why))
        return false;
    if (has_file(directory, "root.pem") || has_file(directory, "root.key"))
        return fault_set(why, FAULT_REFUSED,
                         "%s: a root is there already; sandboxes trust it. To start anew, move the directory away",
                         directory);
    if (!(key = cert_new_key(why)) || !(root = make_root(name, key, clock_wall_s(), why)))
        goto out;
    ok = write_pair(directory, "root", root, key, why);
out:
    X509_free(root);
    EVP_PKEY_free(key);
    return ok;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static X509 *make_intermediate(const char *name, EVP_PKEY *key, X509 *root, EVP_PKEY *root_key,
                               const struct constraint *hosts, struct fault *why)
{
    int64_t now_s = clock_wall_s();
    int64_t end_s = least(now_s + (int64_t)INTERMEDIATE_DAYS * DAY_S, cert_not_after(root));
    X509_NAME *subject = cert_name(name, "Exeat intermediate", key, why);
    X509 *x = subject ? cert_new(key, subject, root, now_s - DAY_S, end_s, why) : NULL;

    if (x && !(cert_add_authority(x, 0, why) && cert_add_server_auth(x, why) && constraint_add(x, hosts, why) &&
               cert_sign(x, root_key, why))) {
        X509_free(x);
        x = NULL;
    }
    X509_NAME_free(subject);
    return x;
}

/* root.key fits root.pem, and the root still lives. */
static bool check_root(const char *directory, const X509 *root, EVP_PKEY *key, struct fault *why)
{
    if (X509_check_private_key(root, key) != 1)
        return fault_set(why, FAULT_REFUSED, "%s: root.key is not the key of root.pem", directory);
    if (cert_not_after(root) <= clock_wall_s())
        return fault_set(why, FAULT_REFUSED,
                         "%s: root.pem has ended; move the directory away, run: exeat ca init, and give the new root "
                         "to the sandboxes", directory);
    return true;
}

static bool issue_intermediate(const char *directory, const char *name, X509 *root, const struct constraint *hosts,
                               struct fault *why)
{
    EVP_PKEY *root_key = read_key(directory, "root.key", why);
    EVP_PKEY *key = NULL;
    X509 *x = NULL;
    bool ok = false;

    if (!root_key || !check_root(directory, root, root_key, why))
        goto out;
    if (!(key = cert_new_key(why)) || !(x = make_intermediate(name, key, root, root_key, hosts, why)))
        goto out;
    ok = write_pair(directory, "intermediate", x, key, why);
out:
    X509_free(x);
    EVP_PKEY_free(key);
    EVP_PKEY_free(root_key);
    return ok;
}

/* What is there, measured against what is wanted. */
struct standing {
    bool sound;  /* readable, of this root, with its key */
    bool fits;   /* sound, and exactly these names */
    bool ended;
    bool ending; /* less than a third of its life is left */
    char lacks[300];
};

static void judge_dates(const X509 *x, struct standing *out)
{
    int64_t now_s = clock_wall_s();
    int64_t left_s = cert_not_after(x) - now_s, life_s = cert_not_after(x) - cert_not_before(x);

    out->ended = left_s <= 0;
    out->ending = left_s < life_s / 3;
}

/* False only when a key is readable by others: that is for a person to mend, not for us to overwrite. */
static bool judge(const char *directory, X509 *root, const struct constraint *want, struct standing *out,
                  struct fault *why)
{
    struct fault local = {0};
    struct constraint have = {0};
    X509 *x = read_cert(directory, "intermediate.pem", NULL);
    EVP_PKEY *key = read_key(directory, "intermediate.key", &local);
    const char *lacks;

    *out = (struct standing){0};
    if (local.kind == FAULT_PERMISSION) {
        if (why)
            *why = local;
        X509_free(x);
        return false;
    }
    if (x && key && X509_check_private_key(x, key) == 1 && X509_verify(x, X509_get0_pubkey(root)) == 1 &&
        constraint_of_cert(x, &have)) {
        out->sound = true;
        out->fits = constraint_equals(&have, want);
        judge_dates(x, out);
    }
    if ((lacks = constraint_lacks(&have, want)))
        snprintf(out->lacks, sizeof out->lacks, "%s", lacks);
    constraint_clear(&have);
    EVP_PKEY_free(key);
    X509_free(x);
    cert_forget_errors();
    return true;
}

static bool refuse_offline(const char *directory, const struct standing *s, struct fault *why)
{
    if (!s->sound)
        return fault_set(why, FAULT_MISSING,
                         "%s: intermediate.pem and intermediate.key are not a pair that root.pem signed, or not there, and "
                         "root.key is not here to sign a new one; put root.key back for one start or reload", directory);
    if (s->lacks[0])
        return fault_set(why, FAULT_MISSING,
                         "%s: the intermediate does not permit %.80s and root.key is not here to sign one that does; put "
                         "root.key back for one start or reload (this version cannot sign elsewhere), or take the host out "
                         "of services", directory, s->lacks);
    return fault_set(why, FAULT_MISSING,
                     "%s: the intermediate has ended and root.key is not here to sign a new one; put root.key back for one "
                     "start or reload", directory);
}

/* Good enough without the root: every listed host is permitted. What it permits beyond, the keeper does not sign. */
static bool suffices(const struct standing *s)
{
    return s->sound && !s->lacks[0] && !s->ended;
}

static void warn_offline(const char *directory, const struct standing *s)
{
    if (!s->fits)
        say_warning("%s: the intermediate permits hosts that services no longer list, and root.key is not here to sign a "
                    "narrower one; put it back for one start or reload", directory);
    else if (s->ending)
        say_warning("%s: the intermediate ends soon and root.key is not here; put it back for one start or reload", directory);
}

/* What is there for hosts: root (give, also on failure), what is wanted (to be cleared), and how what is there stands to it. */
static bool look(const char *directory, const char *const *hosts, size_t n, X509 **root, struct constraint *want,
                 struct standing *s, struct fault *why)
{
    return constraint_of_hosts(hosts, n, want, why) && (*root = read_root(directory, why)) &&
           judge(directory, *root, want, s, why);
}

bool ca_ensure_intermediate(const char *directory, const char *name, const char *const *hosts, size_t n, bool *issued,
                            struct fault *why)
{
    struct constraint want = {0};
    struct standing s = {0};
    X509 *root = NULL;
    bool ok = false;

    *issued = false;
    if (!look(directory, hosts, n, &root, &want, &s, why))
        goto out;
    if (s.fits && !s.ending) {
        ok = true;
    } else if (has_file(directory, "root.key")) {
        ok = *issued = issue_intermediate(directory, name, root, &want, why);
    } else if (suffices(&s)) {
        warn_offline(directory, &s);
        ok = true;
    } else {
        refuse_offline(directory, &s, why);
    }
out:
    X509_free(root);
    constraint_clear(&want);
    return ok;
}

/* Could it sign a new one? */
static bool check_signer(const char *directory, const X509 *root, struct fault *why)
{
    EVP_PKEY *key = read_key(directory, "root.key", why);
    bool ok = key && check_root(directory, root, key, why);

    EVP_PKEY_free(key);
    return ok;
}

bool ca_check(const char *directory, const char *const *hosts, size_t n, struct fault *why)
{
    struct constraint want = {0};
    struct standing s = {0};
    X509 *root = NULL;
    bool ok = look(directory, hosts, n, &root, &want, &s, why);

    if (ok && (!s.fits || s.ending)) {
        if (has_file(directory, "root.key"))
            ok = check_signer(directory, root, why);
        else
            ok = suffices(&s) || refuse_offline(directory, &s, why);
    }
    X509_free(root);
    constraint_clear(&want);
    return ok;
}

static bool add_file(const char *directory, const char *name, bool secret, struct bundle *files, struct fault *why)
{
    char *path = file_join(directory, name), *entry = file_join("ca", name);
    struct secret *private = NULL;
    struct buf text = {0};
    bool ok;

    if (secret)
        ok = (private = secret_read_file(path, CERT_PEM_MAX, why));
    else
        ok = file_read_regular(path, CERT_PEM_MAX, &text, why);
    if (ok)
        bundle_add(files, entry, private ? secret_slice(private) : buf_slice(&text));
    secret_free(private);
    buf_free(&text);
    free(path);
    free(entry);
    return ok;
}

bool ca_add_files(const char *directory, struct bundle *files, struct fault *why)
{
    return add_file(directory, "intermediate.pem", false, files, why) &&
           add_file(directory, "intermediate.key", true, files, why) &&
           add_file(directory, "root.pem", false, files, why);
}

bool ca_export(const char *directory, struct buf *out, struct fault *why)
{
    X509 *root = read_root(directory, why);
    bool ok = false;

    if (root && X509_check_ca(root) != 1)
        fault_set(why, FAULT_REFUSED, "%s/root.pem is not the certificate of an authority", directory);
    else if (root)
        ok = cert_pem(root, out, why);
    X509_free(root);
    return ok;
}
