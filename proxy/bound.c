#include "proxy/bound.h"

#include <assert.h>
#include <stdlib.h>

#include "base/text.h"

struct bound *bound_new(struct slice name, struct slice sandbox)
{
    struct bound *b = calloc(1, sizeof *b);

    if (!b)
        abort();
    *b = (struct bound){.refs = 1, .name = text_copy(name), .sandbox = text_copy(sandbox)};
    return b;
}

struct bound *bound_ref(struct bound *b)
{
    assert(b->refs > 0);
    b->refs++;
    return b;
}

void bound_unref(struct bound *b)
{
    if (!b)
        return;
    assert(b->refs > 0);
    if (--b->refs)
        return;
    secret_free(b->token);
    free(b->name);
    free(b->sandbox);
    free(b);
}

bool bound_set_token(struct bound *b, struct slice token)
{
    if (secret_equals(token, b->token ? secret_slice(b->token) : slice_make("", 0)))
        return false;
    secret_free(b->token);
    b->token = token.len ? secret_new(token) : NULL;
    b->bad_until_s = 0;
    return true;
}
