/*
 * Small readers under libFuzzer: what they accept is what their writers write. The first byte picks which: encodings, ids,
 * times, addresses, names, authorities.
 */
#include "base/clock.h"
#include "base/conf.h"
#include "base/id.h"
#include "base/text.h"
#include "net/addr.h"
#include "net/name.h"
#include "tests/fuzz/lib/fuzz.h"

typedef bool reader(struct slice in, struct buf *out);
typedef void writer(struct buf *out, struct slice bytes);

static void there_and_back(struct slice in, reader *read, writer *write, bool folds)
{
    struct buf bytes = {0}, again = {0};

    if (read(in, &bytes)) {
        write(&again, buf_slice(&bytes));
        assert((folds ? slice_equals_nocase : slice_equals)(buf_slice(&again), in));
    }
    buf_clear(&bytes);
    buf_clear(&again);
    write(&again, in);
    assert(read(buf_slice(&again), &bytes) && slice_equals(buf_slice(&bytes), in));
    buf_free(&bytes);
    buf_free(&again);
}

static void read_id(struct slice in)
{
    struct buf text = {0};
    struct id id;

    if (id_parse(in, &id)) {
        id_text(&text, &id);
        assert(slice_equals_nocase(buf_slice(&text), in));
    }
    buf_free(&text);
}

static void read_time(struct slice in)
{
    struct buf text = {0};
    int64_t ns, again, ms;

    if (clock_parse(in, &ns) && ns >= 0) {
        clock_rfc3339(&text, ns);
        assert(clock_parse(buf_slice(&text), &again) && again == ns);
    }
    if (conf_parse_time(in, &ms))
        assert(ms >= 0);
    if (conf_parse_size(in, &ms))
        assert(ms >= 0);
    buf_free(&text);
}

/* A v4 address in v6's clothes is what the v4 address is. */
static void classify(const struct addr *a)
{
    struct addr mapped = {.family = AF_INET6};

    assert(*addr_class_name(addr_classify(a)));
    if (a->family != AF_INET)
        return;
    mapped.ip[10] = mapped.ip[11] = 0xff;
    memcpy(mapped.ip + 12, a->ip, 4);
    assert(addr_classify(&mapped) == addr_classify(a));
}

static void read_address(struct slice in)
{
    struct buf text = {0};
    struct addr a, again;

    if (addr_parse(in, &a)) {
        addr_text(&text, &a);
        assert(addr_parse(buf_slice(&text), &again) && addr_equals(&a, &again));
        classify(&a);
    }
    buf_clear(&text);
    if (addr_parse_ip(in, &a)) {
        char name[NAME_MAX_LEN + 1];

        addr_ip_text(&text, &a);
        assert(addr_parse_ip(buf_slice(&text), &again) && addr_ip_equals(&a, &again));
        assert(!name_canonical(in, name, NULL));
        classify(&a);
    }
    buf_free(&text);
}

static void read_name(struct slice in)
{
    char name[NAME_MAX_LEN + 1], again[NAME_MAX_LEN + 1];
    struct slice host;
    uint16_t port;

    if (name_canonical(in, name, NULL)) {
        assert(name_canonical(slice_of(name), again, NULL) && strcmp(name, again) == 0);
        assert(name_matches(slice_of(name), slice_of(name)));
    }
    if (name_split_authority(in, 80, &host, &port, NULL))
        assert(port && slice_find(host, '@') < 0 && host.ptr >= in.ptr && host.ptr + host.len <= in.ptr + in.len);
}

static void put_json(struct slice in)
{
    struct buf out = {0};
    struct slice text;

    text_json(&out, in);
    text = buf_slice(&out);
    assert(text.len >= 2 && text.ptr[0] == '"' && text.ptr[text.len - 1] == '"' && slice_is_utf8(text));
    for (size_t i = 0; i < text.len; i++)
        assert((unsigned char)text.ptr[i] >= ' ' && text.ptr[i] != 0x7f);
    buf_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice input = slice_make(data, size);

    switch (fuzz_byte(&input) % 8) {
    case 0:
        there_and_back(input, text_unhex, text_hex, true);
        break;
    case 1:
        there_and_back(input, text_unbase64, text_base64, false);
        break;
    case 2:
        there_and_back(input, text_unbase64url, text_base64url, false);
        break;
    case 3:
        put_json(input);
        break;
    case 4:
        read_id(input);
        break;
    case 5:
        read_time(input);
        break;
    case 6:
        read_address(input);
        break;
    default:
        read_name(input);
    }
    return 0;
}
