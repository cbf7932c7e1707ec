/* What a service's part of the configuration comes to, in few bytes: its mark and its digest. */
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "authz/service.h"

/* How it is audited, and who answers for what was found: an audit is for what the others say. */
static const char *const about_audits[] = {"audit", "audit-max-age", NULL};

static void digest(struct buf *text, unsigned char out[SERVICE_DIGEST_SIZE])
{
    if (!EVP_Q_digest(NULL, "SHA256", NULL, buf_slice(text).ptr, buf_len(text), out, NULL))
        abort();
    buf_free(text);
}

static void add_rules(struct buf *text, const char *name, const struct rules *rules)
{
    for (size_t i = 0; i < rules->count; i++)
        buf_printf(text, "%s %.*s\n", name, (int)rules->list[i].len, rules->list[i].text);
}

void service_make_marks(struct service *s, const struct conf_item *item)
{
    unsigned char whole[SERVICE_DIGEST_SIZE];
    struct buf text = {0};

    buf_printf(&text, "%s\n", s->name);
    conf_print_item(item, &text);
    digest(&text, whole);
    memcpy(&s->mark, whole, sizeof s->mark);
    text = (struct buf){0};
    buf_printf(&text, "%s\n", s->name);
    conf_print_written(item, about_audits, &text);
    add_rules(&text, "allow", &s->rules.allow); /* those of the preset with them, which other versions may have others of */
    add_rules(&text, "deny", &s->rules.deny);
    digest(&text, s->digest);
}
