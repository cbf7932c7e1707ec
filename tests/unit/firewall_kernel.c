/* What is said of rules that the kernel does not take: the line, and the module or option that it lacks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "firewall/kernel.h"

#define NO_SUCH ": Error: Could not process rule: No such file or directory"

/* Each thing that our rules take of a kernel: a line as they have it, the second of a text, and what stands in the fault. */
static const struct row {
    const char *name, *line, *module, *option;
} rows[] = {
    {"TPROXY", "iifname \"vm1\" ip daddr . tcp dport != { 10.0.0.1 . 443 } counter tproxy ip to 10.0.0.1:3129 meta mark set 0x1 accept", "nft_tproxy", "NFT_TPROXY"},
    {"REDIRECT", "iifname \"vm1\" ip daddr . tcp dport != { 10.0.0.1 . 443 } counter dnat ip to 10.0.0.1:3129", "nft_nat", "NFT_NAT"},
    {"a chain that translates", "type nat hook prerouting priority -101; policy accept;", "nft_chain_nat", "NFT_NAT"},
    {"a chain of a device", "type filter hook ingress device \"vm1\" priority -500; policy accept;", "nf_tables", "NETFILTER_INGRESS and NF_TABLES_NETDEV"},
    {"a table of devices", "table netdev exeat-vm1 {", "nf_tables", "NF_TABLES_NETDEV"},
    {"a table of bridges", "table bridge exeat-vm1 {", "nf_tables", "NF_TABLES_BRIDGE"},
    {"a table of addresses", "table inet exeat-vm1 {", "nf_tables", "NF_TABLES_INET"},
    {"a log", "limit rate 5/second burst 10 packets counter log prefix \"exeat-vm1 \"", "nft_log", "NFT_LOG, NF_LOG_SYSLOG"},
    {"tracked connections", "ct state established,related counter accept", "nft_ct", "NFT_CT"},
    {"a limit", "limit rate 5/second burst 10 packets counter drop", "nft_limit", "NFT_LIMIT"},
};

static void fail_with(const char *name, const char *want, const struct fault *why)
{
    fail_msg("%s: expected %s\nhave %s", name, want, why->text);
}

static void a_module_that_is_missing_is_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *r = &rows[i];
        struct fault why = {0};
        char text[300], want[300];

        snprintf(text, sizeof text, "flush ruleset\n    %s\n}\n", r->line);
        assert_false(kernel_refused(SLICE("<cmdline>:2:5-20" NO_SUCH "\n    the line again\n    ^^^^^\n"), slice_of(text), &why));
        snprintf(want, sizeof want, "nftables, line 2: Could not process rule: No such file or directory; does this kernel have it? modprobe %s (CONFIG_%s). "
                 "Line: %.60s", r->module, r->option, r->line);
        if (strncmp(why.text, want, strlen(want) < sizeof why.text ? strlen(want) : sizeof why.text - 1) != 0 || why.kind != FAULT_IO)
            fail_with(r->name, want, &why);
    }
}

static void what_else_is_said(void **state)
{
    static const struct {
        const char *name, *said, *fault;
        enum fault_kind kind;
    } others[] = {
        {"no right to", "<cmdline>:2:5-20: Error: Could not process rule: Operation not permitted\n", "the kernel's rules are root's to see and to change (CAP_NET_ADMIN)", FAULT_PERMISSION},
        {"a line that takes nothing of its own", "<cmdline>:3:1-1" NO_SUCH "\n", "nftables: Could not process rule: No such file or directory", FAULT_IO},
        {"a line that is not there", "<cmdline>:9:1-1" NO_SUCH "\n", "nftables: Could not process rule", FAULT_IO},
        {"no line", "netlink: Error: cache initialization failed: Protocol not supported\n", "nftables: cache initialization failed: Protocol not supported", FAULT_IO},
        {"a number that is none", "<cmdline>:x:1-1" NO_SUCH "\n", "nftables: Could not process rule", FAULT_IO},
        {"nothing", "", "nftables: ", FAULT_IO},
    };

    (void)state;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        struct fault why = {0};

        assert_false(kernel_refused(slice_of(others[i].said), SLICE("flush ruleset\ntable inet x {\n}\n"), &why));
        if (strncmp(why.text, others[i].fault, strlen(others[i].fault)) != 0 || why.kind != others[i].kind || strstr(why.text, "modprobe"))
            fail_with(others[i].name, others[i].fault, &why);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_module_that_is_missing_is_named),
        cmocka_unit_test(what_else_is_said),
    };

    return cmocka_run_group_tests_name("firewall_kernel", tests, NULL, NULL);
}
