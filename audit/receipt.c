#include "audit/receipt.h"

#include <jansson.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

struct leaf {
    char check[32];
    unsigned char hash[RECEIPT_HASH];
};

static void hash_of(unsigned char prefix, struct slice a, struct slice b, unsigned char out[RECEIPT_HASH])
{
    struct buf all = {0};

    buf_char(&all, (char)prefix);
    buf_append(&all, a);
    buf_append(&all, b);
    if (EVP_Digest(buf_slice(&all).ptr, buf_len(&all), out, NULL, EVP_sha256(), NULL) != 1)
        abort();
    buf_free(&all);
}

/* RFC 6962 2.1: split at the largest power of two below n. */
static void root_of(const struct leaf *leaves, size_t n, unsigned char out[RECEIPT_HASH])
{
    unsigned char left[RECEIPT_HASH], right[RECEIPT_HASH];
    size_t k = 1;

    if (n == 0 && EVP_Digest("", 0, out, NULL, EVP_sha256(), NULL) != 1)
        abort();
    if (n == 1)
        memcpy(out, leaves[0].hash, RECEIPT_HASH);
    if (n < 2)
        return;
    while (k * 2 < n)
        k *= 2;
    root_of(leaves, k, left);
    root_of(leaves + k, n - k, right);
    hash_of(1, slice_make((char *)left, RECEIPT_HASH), slice_make((char *)right, RECEIPT_HASH), out);
}

static bool read_leaf(struct slice line, struct leaf *out)
{
    json_t *j = json_loadb(line.ptr, line.len, JSON_REJECT_DUPLICATES, NULL);
    const char *schema = json_string_value(json_object_get(j, "schema")), *check = json_string_value(json_object_get(j, "check"));
    bool ok = schema && strcmp(schema, "exeat.audit-exchange/1") == 0 && check && strlen(check) < sizeof out->check && !strpbrk(check, "=,");

    if (ok)
        strncpy(out->check, check, sizeof out->check - 1);
    hash_of(0, line, SLICE(""), out->hash);
    json_decref(j);
    return ok;
}

static struct leaf *make_room(struct leaf *list, size_t n)
{
    struct leaf *more = reallocarray(list, n, sizeof *list);

    if (!more)
        abort();
    return more;
}

/* A file ends with a newline; one that does not was cut. NULL and why. */
static struct leaf *read_leaves(struct slice lines, size_t *n, struct fault *why)
{
    struct leaf *list = NULL;
    size_t room = 0;
    ptrdiff_t end;

    *n = 0;
    while ((end = slice_find(lines, '\n')) >= 0) {
        if (*n == room)
            list = make_room(list, room = room ? 2 * room : 256);
        list[*n] = (struct leaf){0};
        if (!read_leaf(slice_cut(lines, 0, (size_t)end), &list[*n]))
            break;
        lines = slice_from(lines, (size_t)end + 1);
        ++*n;
    }
    if (lines.len == 0 && *n)
        return list;
    free(list);
    fault_set(why, FAULT_SYNTAX, *n || lines.len ? "line %zu is no exchange of an audit, or was cut" : "there is no exchange in it", *n + 1);
    return NULL;
}

/* Those of a check lie together: it asks, and then the next. What it asks again at the end stands with the rest. */
static void put_checks(const struct leaf *leaves, size_t n, struct buf *out)
{
    for (size_t i = 0, end; i < n; i = end) {
        unsigned char root[RECEIPT_HASH];
        struct buf hex = {0};

        for (end = i + 1; end < n && strcmp(leaves[end].check, leaves[i].check) == 0; end++)
            continue;
        root_of(leaves + i, end - i, root);
        text_hex(&hex, slice_make((char *)root, RECEIPT_SHORT / 2));
        buf_printf(out, "%s%s=%.*s", i ? "," : "", leaves[i].check, SLICE_ARG(buf_slice(&hex)));
        buf_free(&hex);
    }
}

bool receipt_make(struct slice lines, struct receipt *out, struct fault *why)
{
    struct leaf *leaves;

    *out = (struct receipt){0};
    if (!(leaves = read_leaves(lines, &out->n, why)))
        return false;
    root_of(leaves, out->n, out->root);
    put_checks(leaves, out->n, &out->checks);
    free(leaves);
    return true;
}

void receipt_clear(struct receipt *r)
{
    buf_free(&r->checks);
    *r = (struct receipt){0};
}

/* ---- comparing ---- */

static struct slice name_of(struct slice entry)
{
    struct slice name;

    slice_next(&entry, '=', &name);
    return name;
}

static bool has(struct slice list, struct slice entry)
{
    struct slice one;

    while (slice_next(&list, ',', &one))
        if (slice_equals(one, entry))
            return true;
    return false;
}

static void put_missing(struct slice from, struct slice in, struct buf *out)
{
    struct slice one, name, said, rest;

    while (slice_next(&from, ',', &one)) {
        bool known = has(in, one);

        name = name_of(one);
        rest = buf_slice(out);
        while (!known && slice_next(&rest, ',', &said))
            known = slice_equals(slice_trim(said), name.len ? name : SLICE("the baselines"));
        if (!known)
            buf_printf(out, "%s%.*s", buf_len(out) ? ", " : "", SLICE_ARG(name.len ? name : SLICE("the baselines")));
    }
}

void receipt_compare(struct slice recorded, struct slice found, struct buf *out)
{
    put_missing(recorded, found, out);
    put_missing(found, recorded, out);
}
