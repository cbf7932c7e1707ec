/*
 * Configuration under libFuzzer: the whole of proxy.conf against the gateway's tables. What is accepted prints as something that
 * reads and prints the same, and compiles to a policy or is refused with its place.
 */
#include "proxy/config.h"
#include "tests/fuzz/lib/fuzz.h"

static void compile(const struct conf *c)
{
    struct fault why = {0};
    struct policy *p = policy_compile(c, &why);
    size_t n = 0;

    if (p)
        assert(policy_hosts(p, &n) || n == 0);
    else
        assert(slice_starts(slice_of(why.text), SLICE("proxy.conf:")));
    policy_free(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t n;
    const struct conf_section *const *sections = gateway_sections(&n);
    struct fault why = {0};
    struct conf *c = conf_parse(slice_make(data, size), "proxy.conf", "/etc/exeat", sections, n, &why), *again;
    struct buf first = {0}, second = {0};

    if (!c) {
        assert(why.kind != FAULT_NONE && slice_starts(slice_of(why.text), SLICE("proxy.conf")));
        return 0;
    }
    conf_print(c, false, &first);
    again = conf_parse(buf_slice(&first), "proxy.conf", "/elsewhere", sections, n, &why);
    assert(again);
    conf_print(again, false, &second);
    assert(slice_equals(buf_slice(&first), buf_slice(&second)));
    buf_clear(&second);
    conf_print(c, true, &second); /* what people see: defaults are marked */
    conf_free(again);
    again = conf_parse(buf_slice(&second), "proxy.conf", "/elsewhere", sections, n, &why);
    assert(again);
    compile(c);
    conf_free(again);
    conf_free(c);
    buf_free(&first);
    buf_free(&second);
    return 0;
}
