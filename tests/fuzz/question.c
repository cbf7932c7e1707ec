/*
 * DNS questions under libFuzzer. The first byte picks the zone; then each message has a byte of its length in front, 0 for all that is left. What
 * is answered is an answer to that question, whole and no longer than it may be; an address is told only of a listed name, whose letters are the
 * host's, one for one; and no name with the canary in it passes.
 */
#include <string.h>

#include "net/dns_reply.h"
#include "proxy/config.h"
#include "proxy/sift.h"
#include "proxy/zone.h"
#include "tests/fuzz/lib/fuzz.h"

#define CANARY "Canary0123456789abcdefghijklmnopXYZ"

enum { HEADER = DNS_HEADER, FLAG_QR = 0x80, FLAG_TC = 2, CODE = 15 };

static const char configuration[] =
    "gateway: {name: gw.test}\n"
    "listen: {in: {address: \"127.0.0.1:3128\"}}\n"
    "dns:\n"
    "  both: {address: \"127.0.0.1:53\", answer: [10.0.0.1, \"fd00::1\"]}\n"
    "  old: {address: \"127.0.0.2:53\", answer: 10.0.0.1}\n"
    "  real: {address: \"127.0.0.3:53\", answer: real}\n"
    "services:\n"
    "  a: {hosts: [a.test, \"*.b.test\"], scope: s, allow: [\"GET /**\"], audit: \"waived: test\"}\n";

static const char canaries[] = "{\"schema\":\"exeat.canaries/1\",\"canaries\":[{\"id\":\"c\",\"kind\":\"generic\",\"sandbox\":\"\",\"value\":\"" CANARY
                               "\",\"random_from\":0,\"random_len\":35,\"created\":\"2026-01-01T00:00:00Z\"}]}";

static struct {
    struct conf *conf;
    struct policy *policy;
    struct zones zones;
    struct sift *sift;
    struct limits limits;
} world;

static void open_world(void)
{
    struct fault why = {0};
    size_t n;
    const struct conf_section *const *sections = gateway_sections(&n);

    if (world.conf)
        return;
    world.conf = conf_parse(slice_of(configuration), "fuzz.conf", "/", sections, n, &why);
    assert(world.conf && (world.policy = policy_compile(world.conf, &why)) && zones_compile(world.conf, &world.zones, &why));
    world.sift = sift_new(slice_of(canaries), slice_make("", 0), slice_make("", 0), &why);
    assert(world.sift);
    world.limits = limits_read(world.conf);
}

static void on_sum(void *arg, const struct patron *p, const struct sum *s)
{
    (void)arg, (void)p, (void)s;
}

/* The host is the labels with dots between them, folded: nothing was in a label that could be taken for another thing. */
static void check_host(const struct dns_question *q, const char *host)
{
    struct slice label;
    size_t at = 0;

    while (dns_question_label(q, &at, &label)) {
        assert(slice_equals_nocase(label, slice_make(host, label.len)));
        assert(!memchr(label.ptr, '.', label.len) && !memchr(label.ptr, 0, label.len));
        host += label.len;
        assert(*host == '.' || !*host);
        host += *host == '.';
    }
    assert(!*host);
}

/* Who reads it finds the question, and no more than there is room for. */
static void check_answer(struct slice wire, const struct dns_question *q, const struct dns_answer *a, size_t most)
{
    const unsigned char *bytes = (const unsigned char *)wire.ptr;
    size_t n_answers;

    assert(wire.len >= HEADER && wire.len <= most);
    n_answers = (size_t)(bytes[6] << 8 | bytes[7]);
    assert((bytes[0] << 8 | bytes[1]) == q->id && (bytes[2] & FLAG_QR) && (bytes[3] & CODE) == ((int)a->code & CODE));
    assert(bytes[5] == q->named && (!q->named || memcmp(bytes + HEADER, q->name, q->name_len) == 0));
    assert(bytes[2] & FLAG_TC ? n_answers == 0 : n_answers == a->n_addresses + a->any);
}

static void answer(const struct dns_question *q, const struct dns_answer *a)
{
    const size_t rooms[] = {dns_answer_room(q), DNS_TCP_MOST};
    struct buf out = {0};

    for (size_t i = 0; i < 2; i++) {
        buf_clear(&out);
        dns_answer_write(&out, q, a, rooms[i]);
        check_answer(buf_slice(&out), q, a, rooms[i]);
    }
    buf_free(&out);
}

static bool holds_canary(const struct dns_question *q)
{
    return slice_search(slice_make(q->name, q->name_len), SLICE(CANARY)) >= 0;
}

static void judge(const struct zone *z, struct patrons *ps, struct patron *p, const struct dns_question *q)
{
    struct zone_verdict v = zone_judge(z, world.policy, q, NULL);
    struct addr addresses[DNS_ADDRESSES_MAX];
    struct dns_answer a = {.code = zone_code(v.reason), .ttl_s = z->ttl_s, .explained = true, .text = v.detail};
    char detail[160];
    bool is_new;
    struct sift_find find;

    assert((v.kind == ZONE_REFUSED) == (v.reason != REASON_ALLOWED) && (v.kind == ZONE_REFUSED || (v.service && q->class == DNS_IN)));
    if (v.host[0])
        check_host(q, v.host);
    patrons_name(ps, p, slice_make(q->name, q->name_len), v.below_suffix, &world.limits, 1, &is_new, detail);
    find = sift_look(world.sift, p, q, sift_varying(q, 2), is_new);
    assert(find.canary || !holds_canary(q));
    if (v.kind == ZONE_ADDRESSES) {
        a.n_addresses = zone_addresses(z, q->type, addresses);
        a.addresses = addresses;
        assert(a.n_addresses && !z->real);
    }
    a.any = v.kind == ZONE_LITTLE;
    a.nothing = v.kind == ZONE_NOTHING;
    answer(q, &a);
}

static void ask(const struct zone *z, struct patrons *ps, struct patron *p, struct slice message)
{
    struct dns_answer refused = {.explained = true, .error = 18, .text = "exeat question_malformed 000000"};
    struct dns_question q;
    struct fault why = {0};
    enum dns_reading reading = dns_question_read(message, &q, &why);
    struct buf text = {0};

    if (reading == DNS_DROPPED)
        return;
    assert((reading == DNS_READ) == !why.reason);
    dns_question_text(&text, &q);
    for (size_t i = 0; i < buf_len(&text); i++)
        assert(buf_slice(&text).ptr[i] > ' ' && buf_slice(&text).ptr[i] < 0x7f);
    buf_free(&text);
    refused.code = reading == DNS_MALFORMED ? DNS_FORMERR : reading == DNS_UNKNOWN ? DNS_NOTIMP : DNS_BADVERS;
    if (reading == DNS_READ)
        judge(z, ps, p, &q);
    else
        answer(&q, &refused);
}

/* `exeat doctor` reads what a name server says. */
static void read_as_reply(struct slice message)
{
    struct dns_reply r;

    if (message.len >= 2 && dns_reply_read(message, (uint16_t)((unsigned char)message.ptr[0] << 8 | (unsigned char)message.ptr[1]), &r))
        assert(r.n <= DNS_ADDRESSES_MAX && strlen(r.text) < sizeof r.text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice input = slice_make(data, size);
    struct addr source = {.family = AF_INET, .ip = {10, 0, 0, 1}};
    struct patrons *ps;
    struct patron *p;
    const struct zone *z;

    open_world();
    z = &world.zones.list[fuzz_byte(&input) % world.zones.n];
    ps = patrons_new(on_sum, NULL);
    p = patrons_find(ps, NULL, &source, 1);
    while (input.len) {
        size_t len = fuzz_byte(&input);

        struct slice message = fuzz_take(&input, len ? len : input.len);

        ask(z, ps, p, message);
        read_as_reply(message);
    }
    patrons_free(ps);
    return 0;
}
