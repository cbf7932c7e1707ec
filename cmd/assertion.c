/* `exeat assertion`: the keys by which the gateway says to services who asks. */
#include <stdlib.h>

#include "base/file.h"
#include "base/say.h"
#include "base/text.h"
#include "cmd/command.h"
#include "handoff/assertion.h"
#include "proxy/config.h"

/* STATE/assertion (give), or NULL and why. */
static char *directory_of(const struct invocation *inv, char **name, struct fault *why)
{
    size_t n;
    const struct conf_section *const *sections = gateway_sections(&n);
    struct conf *conf = conf_load(inv->config, sections, n, why);
    const struct conf_item *gateway;
    char *directory;

    if (!conf)
        return NULL;
    gateway = conf_section(conf, "gateway");
    directory = file_join(conf_text(gateway, "state"), ASSERTION_DIRECTORY);
    if (name)
        *name = text_copy(slice_of(conf_text(gateway, "name")));
    conf_free(conf);
    return directory;
}

static bool write_certificate(const char *directory, const char *name, struct buf *out, struct fault *why)
{
    struct bundle *files = bundle_new();
    struct assertion_key *key = NULL;
    struct slice pem;
    bool ok = assertion_ensure(directory, why) && assertion_add_files(directory, files, why) &&
              bundle_get(files, ASSERTION_SIGNING, &pem) && (key = assertion_key_parse(pem, ASSERTION_SIGNING, why)) &&
              assertion_certificate(key, name, out, why);

    assertion_key_free(key);
    bundle_free(files);
    return ok;
}

static int run_certificate(const struct invocation *inv)
{
    struct fault why = {0};
    struct buf out = {0};
    char *name = NULL, *directory = directory_of(inv, &name, &why);
    int status;

    if (directory && write_certificate(directory, name, &out, &why))
        status = command_print(inv, &out);
    else
        status = command_fail(inv, &why);
    buf_free(&out);
    free(directory);
    free(name);
    return status;
}

static bool write_keys(const char *directory, struct buf *out, struct fault *why)
{
    struct bundle *files = bundle_new();
    struct slice jwks;
    bool ok = assertion_ensure(directory, why) && assertion_add_files(directory, files, why) &&
              bundle_get(files, ASSERTION_JWKS, &jwks);

    if (ok)
        buf_append(out, jwks);
    bundle_free(files);
    return ok;
}

static int run_keys(const struct invocation *inv)
{
    struct fault why = {0};
    struct buf out = {0};
    char *directory = directory_of(inv, NULL, &why);
    int status;

    if (directory && write_keys(directory, &out, &why))
        status = command_print(inv, &out);
    else
        status = command_fail(inv, &why);
    buf_free(&out);
    free(directory);
    return status;
}

static int run_prepare(const struct invocation *inv)
{
    struct fault why = {0};
    char *directory = directory_of(inv, NULL, &why);
    int status = STATUS_YES;

    if (!directory || !assertion_prepare(directory, &why))
        status = command_fail(inv, &why);
    else if (!inv->quiet)
        say_note("a second key is in %s; it is published after exeat reload, and signs after exeat assertion rotate", directory);
    free(directory);
    return status;
}

static int run_rotate(const struct invocation *inv)
{
    struct fault why = {0};
    char *directory = directory_of(inv, NULL, &why);
    int status = STATUS_YES;

    if (!directory || !assertion_rotate(directory, &why)) {
        command_fail(inv, &why);
        status = STATUS_FAILED;
    } else if (!inv->quiet) {
        say_note("the second key signs after exeat reload; the first is published on");
    }
    free(directory);
    return status;
}

static const struct command command_certificate = {
    .name = "certificate",
    .summary = "a certificate of the key that signs, as PEM, for services that take no JWKS",
    .help = "Self-signed and no secret. A container registry with token authentication takes it as rootcertbundle. It "
            "changes with the key.",
    .examples = "  exeat assertion certificate > assertion.pem\n",
    .run = run_certificate,
};

static const struct command command_keys = {
    .name = "keys",
    .summary = "the public keys as a JWKS, as /jwks.json of the publish listener has them after a reload",
    .examples = "  exeat assertion keys > gateway.jwks\n",
    .run = run_keys,
};

static const struct command command_prepare = {
    .name = "prepare",
    .summary = "make the key that will sign next, and publish it from the next reload on",
    .help = "Then wait until every service has read /jwks.json anew, and run exeat assertion rotate.",
    .examples = "  exeat assertion prepare && exeat reload\n",
    .run = run_prepare,
};

static const struct command command_rotate = {
    .name = "rotate",
    .summary = "let the prepared key sign from the next reload on",
    .help = "The key that signed until then is published on as the previous one, and the one before that is gone.",
    .examples = "  exeat assertion rotate && exeat reload\n",
    .run = run_rotate,
};

static const struct command *const subcommands[] = {&command_certificate, &command_keys, &command_prepare, &command_rotate, NULL};

const struct command command_assertion = {
    .name = "assertion",
    .summary = "the keys by which the gateway tells services who asks",
    .subcommands = subcommands,
    .topic = TOPIC_SECRETS,
};
