/* Owns the names of its parts in a bundle, and the process while it runs. Knows no role. */
#include "proxy/lexicon.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "canary/scan.h"
#include "proxy/sift.h"
#include "proxy/spawn.h"

#define CANARIES "canaries.json"
#define SCAN "canaries.scan"
#define NAMES "canaries.names"
#define FAULT "fault"

static struct slice part(const struct bundle *files, const char *name)
{
    struct slice bytes = {"", 0};

    if (files)
        bundle_get(files, name, &bytes);
    return bytes;
}

struct lexicon lexicon_of(const struct bundle *files)
{
    return (struct lexicon){part(files, SCAN), part(files, NAMES)};
}

void lexicon_drop(struct bundle *files)
{
    bundle_drop(files, SCAN);
    bundle_drop(files, NAMES);
}

void lexicon_copy(struct bundle *to, const struct bundle *from)
{
    struct lexicon all = lexicon_of(from);

    if (all.scan.len)
        bundle_add(to, SCAN, all.scan);
    if (all.names.len)
        bundle_add(to, NAMES, all.names);
}

/* Hosts are looked through in DNS questions, and where a client chooses what stands below a suffix. */
static bool needs_names(const struct gateway_config *c)
{
    return conf_count(c->conf, "dns") || policy_lists_suffix(c->policy);
}

bool lexicon_share(struct gateway_config *c, const struct gateway_config *before)
{
    struct slice canaries = part(c->files, CANARIES);

    if (!canaries.len)
        return true;
    if (!before || !before->patterns || !slice_equals(canaries, part(before->files, CANARIES)) ||
        (needs_names(c) && !needs_names(before)))
        return false;
    c->patterns = bundle_new();
    lexicon_copy(c->patterns, before->patterns);
    return true;
}

/* ---- the process ---- */

static void add_packed(struct bundle *out, const char *name, struct buf *packed)
{
    if (buf_len(packed))
        bundle_add(out, name, buf_slice(packed));
    buf_wipe(packed);
}

static bool compile(const struct gateway_config *c, struct bundle *out, struct fault *why)
{
    struct registry *canaries = registry_parse(part(c->files, CANARIES), CANARIES, why);
    struct scanner *scanner = canaries ? scanner_new(canaries, why) : NULL;
    struct sift *sift = NULL;
    struct buf packed = {0};
    bool ok = scanner;

    if (ok && needs_names(c))
        ok = (sift = sift_over(scanner, canaries, slice_make("", 0), why));
    if (ok) {
        scanner_pack(scanner, &packed);
        add_packed(out, SCAN, &packed);
    }
    if (sift) {
        sift_pack(sift, &packed);
        add_packed(out, NAMES, &packed);
    }
    sift_free(sift);
    scanner_free(scanner);
    registry_free(canaries);
    return ok;
}

static int work(const void *arg, int output)
{
    struct bundle *out = bundle_new();
    struct fault why = {0};
    bool ok = compile(arg, out, &why);

    if (!ok)
        bundle_add(out, FAULT, slice_of(why.text));
    return bundle_write(out, output, &why) && ok ? 0 : 1;
}

bool lexicon_start(struct lexicon_work *w, const struct gateway_config *c, struct fault *why)
{
    w->fd = bundle_memory(why);
    if (w->fd < 0)
        return false;
    if ((w->pid = spawn_work(work, c, w->fd, why)) > 0)
        return true;
    close(w->fd);
    w->pid = 0;
    return false;
}

static bool refuse(const struct bundle *said, int status, struct fault *why)
{
    struct slice text = part(said, FAULT);

    if (text.len)
        return fault_set(why, FAULT_REFUSED, "%.*s", SLICE_ARG(text));
    return fault_set(why, FAULT_REFUSED, "the process that compiles canaries %s %d", WIFSIGNALED(status) ? "was ended by signal" : "ended with status",
                     WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

bool lexicon_finish(struct lexicon_work *w, int status, struct gateway_config *c, struct fault *why)
{
    struct bundle *made = bundle_open(w->fd, NULL);
    bool ok = WIFEXITED(status) && WEXITSTATUS(status) == 0 && made;

    close(w->fd);
    w->pid = 0;
    if (ok) {
        c->patterns = made;
        return true;
    }
    refuse(made, status, why);
    bundle_free(made);
    return false;
}

void lexicon_stop(struct lexicon_work *w)
{
    if (!w->pid)
        return;
    kill(w->pid, SIGKILL);
    close(w->fd);
    w->pid = 0;
}

bool lexicon_make(struct gateway_config *c, struct fault *why)
{
    struct lexicon_work w = {0};
    int status = 0;

    if (lexicon_share(c, NULL))
        return true;
    if (!lexicon_start(&w, c, why))
        return false;
    while (waitpid(w.pid, &status, 0) < 0)
        if (errno != EINTR)
            return fault_set(why, FAULT_IO, "waiting for what compiles canaries: %s", strerror(errno));
    return lexicon_finish(&w, status, c, why);
}
