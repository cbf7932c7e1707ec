#include "firewall/kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <nftables/libnftables.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "firewall/link.h"
#include "firewall/ruleset.h"

/* ---- what went wrong ---- */

/* What a rule takes of the kernel, by a word of its own. The first that fits. */
static const struct need {
    const char *word, *module, *option;
} needs[] = {
    {"tproxy ", "nft_tproxy", "NFT_TPROXY"},
    {"dnat ", "nft_nat", "NFT_NAT"},
    {"nat hook", "nft_chain_nat", "NFT_NAT"},
    {" hook ingress", "nf_tables", "NETFILTER_INGRESS and NF_TABLES_NETDEV"},
    {"table netdev", "nf_tables", "NF_TABLES_NETDEV"},
    {"table bridge", "nf_tables", "NF_TABLES_BRIDGE"},
    {"table inet", "nf_tables", "NF_TABLES_INET"},
    {"log ", "nft_log", "NFT_LOG, NF_LOG_SYSLOG"},
    {"ct ", "nft_ct", "NFT_CT"},
    {"limit ", "nft_limit", "NFT_LIMIT"},
};

static struct slice line_of(struct slice text, size_t number)
{
    struct slice left = text, line = {"", 0};

    while (number-- > 0)
        if (!slice_next(&left, '\n', &line))
            return slice_make("", 0);
    return slice_trim(line);
}

/* "<cmdline>:12:3-40: Error: ...": 12. */
static size_t error_line(struct slice said)
{
    struct slice left = said, part;
    uint64_t n = 0;

    slice_next(&left, ':', &part);
    return slice_next(&left, ':', &part) && slice_decimal(part, 1000000, &n) ? (size_t)n : 0;
}

static const struct need *needed(struct slice line)
{
    for (size_t i = 0; i < sizeof needs / sizeof *needs; i++)
        if (slice_search(line, slice_of(needs[i].word)) >= 0)
            return &needs[i];
    return NULL;
}

bool kernel_refused(struct slice said, struct slice text, struct fault *why)
{
    struct slice left = said, first;
    size_t number = error_line(said);
    struct slice line = line_of(text, number);
    const struct need *need = needed(line);
    ptrdiff_t at;

    slice_next(&left, '\n', &first);
    if (slice_search(said, SLICE("Operation not permitted")) >= 0)
        return fault_set(why, FAULT_PERMISSION, "the kernel's rules are root's to see and to change (CAP_NET_ADMIN): run it as root");
    if ((at = slice_search(first, SLICE("Error: "))) >= 0)
        first = slice_from(first, (size_t)at + 7);
    if (number == 0 || !need)
        return fault_set(why, FAULT_IO, "nftables: %.*s", SLICE_ARG(first));
    return fault_set(why, FAULT_IO, "nftables, line %zu: %.*s; does this kernel have it? modprobe %s (CONFIG_%s). Line: %.60s", number,
                     SLICE_ARG(first), need->module, need->option, line.ptr);
}

/* ---- running ---- */

static bool run(const char *commands, struct buf *out, struct fault *why)
{
    struct nft_ctx *nft = nft_ctx_new(NFT_CTX_DEFAULT);
    bool ok = false;

    if (!nft)
        return fault_set(why, FAULT_IO, "libnftables does not start: %s", strerror(errno));
    nft_ctx_output_set_flags(nft, NFT_CTX_OUTPUT_STATELESS | NFT_CTX_OUTPUT_NUMERIC_PRIO);
    if (nft_ctx_buffer_output(nft) != 0 || nft_ctx_buffer_error(nft) != 0) {
        fault_set(why, FAULT_IO, "libnftables has no memory");
        goto out;
    }
    if (nft_run_cmd_from_buffer(nft, commands) != 0) {
        kernel_refused(slice_of(nft_ctx_get_error_buffer(nft)), slice_of(commands), why);
        goto out;
    }
    if (out)
        buf_text(out, nft_ctx_get_output_buffer(nft));
    ok = true;
out:
    nft_ctx_free(nft);
    return ok;
}

bool kernel_run(struct slice text, struct fault *why)
{
    char *commands = text_copy(text);
    bool ok = run(commands, NULL, why);

    free(commands);
    return ok;
}

bool kernel_list_all(struct buf *out, struct fault *why)
{
    return run("list ruleset", out, why);
}

static bool list_one(const char *family, const char *table, struct slice tables, struct buf *out, struct fault *why)
{
    struct buf name = {0};
    char *command;
    bool ok = true;

    buf_printf(&name, "table %s %s\n", family, table);
    if (slice_search(tables, buf_slice(&name)) >= 0) {
        buf_clear(&name);
        buf_printf(&name, "list table %s %s", family, table);
        command = buf_take_text(&name);
        ok = run(command, out, why);
        free(command);
    }
    buf_free(&name);
    return ok;
}

bool kernel_list(const char *table, struct buf *out, struct fault *why)
{
    struct buf tables = {0};
    bool ok = run("list tables", &tables, why);

    for (size_t i = 0; ok && ruleset_families[i]; i++)
        ok = list_one(ruleset_families[i], table, buf_slice(&tables), out, why);
    buf_free(&tables);
    return ok;
}

/* ---- rehearsing ---- */

bool kernel_rehearse(struct slice text, const char *table, const char *interface, struct buf *out, struct fault *why)
{
    int here = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    bool ok;

    if (here < 0)
        return fault_set(why, FAULT_IO, "/proc/thread-self/ns/net: %s", strerror(errno));
    if (unshare(CLONE_NEWNET) != 0) {
        fault_set(why, errno == EPERM ? FAULT_PERMISSION : FAULT_IO,
                  "a network namespace to try the rules in: %s%s", strerror(errno), errno == EPERM ? "; run it as root" : "");
        close(here);
        return false;
    }
    ok = link_make(interface, why) && kernel_run(text, why) && kernel_list(table, out, why);
    if (setns(here, CLONE_NEWNET) != 0)
        abort(); /* whatever came next would be done in the wrong place */
    close(here);
    return ok;
}
