/* Owns the set of names an intermediate is held to, in memory and as an extension. */
#include "certs/constraint.h"

#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "certs/cert.h"

/* An iPAddress constraint is address and mask: all zero is every address. */
enum { ANY_IPV4_LEN = 8, ANY_IPV6_LEN = 32 };

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void add_name(struct constraint *c, struct slice name)
{
    c->names = realloc(c->names, (c->n + 1) * sizeof *c->names);
    if (!c->names)
        abort();
    c->names[c->n++] = text_copy(name);
}

static void sort(struct constraint *c)
{
    size_t kept = 0;

    if (c->n)
        qsort(c->names, c->n, sizeof *c->names, compare);
    for (size_t i = 0; i < c->n; i++) {
        if (kept && strcmp(c->names[kept - 1], c->names[i]) == 0)
            free(c->names[i]);
        else
            c->names[kept++] = c->names[i];
    }
    c->n = kept;
}

bool constraint_of_hosts(const char *const *hosts, size_t n, struct constraint *out, struct fault *why)
{
    *out = (struct constraint){0};
    for (size_t i = 0; i < n; i++) {
        struct slice host = slice_of(hosts[i]);

        add_name(out, slice_starts(host, SLICE("*.")) ? slice_from(host, 2) : host);
    }
    if (n == 0)
        add_name(out, SLICE("invalid"));
    sort(out);
    if (out->n <= CONSTRAINT_MOST)
        return true;
    fault_set(why, FAULT_LIMIT, "%zu host names are listed, one intermediate takes %d", out->n, CONSTRAINT_MOST);
    constraint_clear(out);
    return false;
}

static bool is_any_address(const GENERAL_NAME *name, int len)
{
    static const unsigned char zero[ANY_IPV6_LEN];

    return name->type == GEN_IPADD && ASN1_STRING_length(name->d.iPAddress) == len &&
           memcmp(ASN1_STRING_get0_data(name->d.iPAddress), zero, (size_t)len) == 0;
}

static bool excludes_addresses(const NAME_CONSTRAINTS *value)
{
    return sk_GENERAL_SUBTREE_num(value->excludedSubtrees) == 2 &&
           is_any_address(sk_GENERAL_SUBTREE_value(value->excludedSubtrees, 0)->base, ANY_IPV4_LEN) &&
           is_any_address(sk_GENERAL_SUBTREE_value(value->excludedSubtrees, 1)->base, ANY_IPV6_LEN);
}

bool constraint_of_cert(const X509 *x, struct constraint *out)
{
    int critical = 0;
    NAME_CONSTRAINTS *value = X509_get_ext_d2i(x, NID_name_constraints, &critical, NULL);
    bool ok = value && critical == 1 && excludes_addresses(value);

    *out = (struct constraint){0};
    for (int i = 0; ok && i < sk_GENERAL_SUBTREE_num(value->permittedSubtrees); i++) {
        const GENERAL_NAME *name = sk_GENERAL_SUBTREE_value(value->permittedSubtrees, i)->base;

        ok = name->type == GEN_DNS;
        if (ok)
            add_name(out, slice_make(ASN1_STRING_get0_data(name->d.dNSName),
                                     (size_t)ASN1_STRING_length(name->d.dNSName)));
    }
    ok = ok && out->n > 0;
    NAME_CONSTRAINTS_free(value);
    if (ok)
        sort(out);
    else
        constraint_clear(out);
    return ok;
}

bool constraint_equals(const struct constraint *a, const struct constraint *b)
{
    return a->n == b->n && !constraint_lacks(a, b);
}

const char *constraint_lacks(const struct constraint *have, const struct constraint *want)
{
    for (size_t i = 0; i < want->n; i++)
        if (!have->n || !bsearch(&want->names[i], have->names, have->n, sizeof *have->names, compare))
            return want->names[i];
    return NULL;
}

void constraint_clear(struct constraint *c)
{
    for (size_t i = 0; i < c->n; i++)
        free(c->names[i]);
    free(c->names);
    *c = (struct constraint){0};
}

/* Push a subtree of one name; bytes are copied. */
static bool push(STACK_OF(GENERAL_SUBTREE) *list, int type, const void *bytes, size_t len)
{
    GENERAL_SUBTREE *tree = GENERAL_SUBTREE_new();
    ASN1_STRING *value = ASN1_STRING_type_new(type == GEN_DNS ? V_ASN1_IA5STRING : V_ASN1_OCTET_STRING);

    if (!tree || !value || !ASN1_STRING_set(value, bytes, (int)len)) {
        ASN1_STRING_free(value);
        GENERAL_SUBTREE_free(tree);
        return false;
    }
    GENERAL_NAME_set0_value(tree->base, type, value);
    if (sk_GENERAL_SUBTREE_push(list, tree) > 0)
        return true;
    GENERAL_SUBTREE_free(tree);
    return false;
}

bool constraint_add(X509 *x, const struct constraint *c, struct fault *why)
{
    static const unsigned char zero[ANY_IPV6_LEN];
    NAME_CONSTRAINTS *value = NAME_CONSTRAINTS_new();
    bool ok = value && (value->permittedSubtrees = sk_GENERAL_SUBTREE_new_null()) &&
              (value->excludedSubtrees = sk_GENERAL_SUBTREE_new_null());

    for (size_t i = 0; ok && i < c->n; i++)
        ok = push(value->permittedSubtrees, GEN_DNS, c->names[i], strlen(c->names[i]));
    ok = ok && push(value->excludedSubtrees, GEN_IPADD, zero, ANY_IPV4_LEN) &&
         push(value->excludedSubtrees, GEN_IPADD, zero, ANY_IPV6_LEN) &&
         X509_add1_ext_i2d(x, NID_name_constraints, value, 1, X509V3_ADD_DEFAULT) == 1;
    NAME_CONSTRAINTS_free(value);
    return ok || cert_fault(why, "name constraints");
}
