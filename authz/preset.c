/*
 * The table of presets. Each rule is a question that the client was seen to ask while it installs (tests/e2e/test_presets.py),
 * in the form its registries document. A path must be allowed on every reading (authz/authorize.c: fits_loosely). The queries are closed ("?"): reading needs none, and an open one is a way out.
 */
#include "authz/preset.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})
#define NOTHING   ((const char *const[]){NULL})

/* What reading needs; no credential, cookie, referrer or session is among it, nor what a client tells of its own run. */
#define READ_FIELDS                                                                                                    \
    "Accept", "Accept-Encoding", "Accept-Language", "Cache-Control", "If-Match", "If-Modified-Since", "If-None-Match", \
        "If-Range", "If-Unmodified-Since", "Pragma", "Range", "User-Agent"

enum { READ_COUNT = sizeof LIST(READ_FIELDS) / sizeof(char *) - 1, READ_TARGET = 2048 };

/* A Debian archive stands at the root of its host or up to three folders below it. */
#define ARCHIVE(pattern)                                                                                               \
    "GET /" pattern, "GET /*/" pattern, "GET /*/*/" pattern, "GET /*/*/*/" pattern

/* A file of Maven's layout, of any group. */
#define MAVEN(name) "GET,HEAD /**/" name "?"

static const struct preset presets[] = {
    {
        .name = "npm-read",
        .help = "npm: packages and tarballs of a registry; no search, audit, accounts or publishing",
        .allow = LIST("GET /*?",                   /* metadata; "@scope%2Fname" is one segment */
                      "GET /@*/*?",                /* the same, with a slash */
                      "GET /*/-/*.tgz?",           /* a tarball; of "@scope%2Fname" too */
                      "GET /@*/*/-/*.tgz?",        /* of a scoped package */
                      "GET /@*/*/-/@*/*.tgz?"),    /* of a registry whose tarballs repeat the scope */
        .deny = LIST("GET /-/**",                  /* search, audit, users, tokens; those no package can be called */
                     "GET /_*", "GET /_*/**"),     /* the database below a registry */
        .fields = LIST(READ_FIELDS),
        .body = 0,
        .target = READ_TARGET,
    },
    {
        .name = "pypi-read",
        .help = "pip: the pages of projects in the simple index (PEP 503, 691), metadata and files of a registry; "
                "no search, no uploads",
        .allow = LIST("GET,HEAD /simple/*?", "GET,HEAD /simple/*/?",
                      "GET,HEAD /packages/**/*.whl?", "GET,HEAD /packages/**/*.whl.metadata?", /* PEP 658 */
                      "GET,HEAD /packages/**/*.tar.gz?", "GET,HEAD /packages/**/*.tar.gz.metadata?",
                      "GET,HEAD /packages/**/*.tar.bz2?", "GET,HEAD /packages/**/*.zip?",
                      "GET,HEAD /pypi/*/json?", "GET,HEAD /pypi/*/*/json?"),
        .deny = NOTHING,
        .fields = LIST(READ_FIELDS),
        .body = 0,
        .target = READ_TARGET,
    },
    {
        .name = "debian-read",
        .help = "apt: indices (below dists) and packages (.deb) of archives up to three folders deep; no sources, no uploads",
        .allow = LIST(ARCHIVE("dists/**?"), ARCHIVE("pool/**/*.deb?")),
        .deny = NOTHING,
        .fields = LIST(READ_FIELDS),
        .body = 0,
        .target = READ_TARGET,
    },
    {
        .name = "oci-pull",
        .help = "skopeo, docker, podman: manifests and blobs of images (OCI distribution); no catalogue, no lists of tags, no push. A registry that "
                "wants a token is given one by credential: a client's own would be refused",
        .allow = LIST("GET /v2/?", "GET,HEAD /v2/**/manifests/*?", "GET,HEAD /v2/**/blobs/sha256:*?",
                      "GET,HEAD /v2/**/blobs/sha512:*?"),
        .deny = NOTHING,
        .fields = LIST(READ_FIELDS),
        .body = 0,
        .target = READ_TARGET,
    },
    {
        .name = "git-clone",
        .help = "git: clone and fetch by the smart HTTP protocol; no push, no files beside it",
        .allow = LIST("GET /**/info/refs?service=git-upload-pack", "POST /**/git-upload-pack?"),
        .deny = NOTHING,
        .fields = LIST(READ_FIELDS, "Content-Type", "Content-Encoding", "Git-Protocol"),
        .body = 1 << 20,
        .target = READ_TARGET,
    },
    {
        .name = "cargo-read",
        .help = "cargo: the sparse index (RFC 2789), at the root or in /index/, and crates; no search, owners, yanking or "
                "publishing",
        .allow = LIST("GET /config.json?", "GET /1/*?", "GET /2/*?", "GET /*/*/*?", /* "3/a/abc", "ex/ea/exeat-hello" */
                      "GET /index/config.json?", "GET /index/*/*/*?", /* shorter names there: see above */
                      "GET /**/crates/*/*/download?", "GET /**/*.crate?"),
        .deny = LIST("GET /api/v1/*"), /* search and accounts, which look like crates of an index */
        .fields = LIST(READ_FIELDS, "Cargo-Protocol"),
        .body = 0,
        .target = READ_TARGET,
    },
    {
        .name = "go-proxy",
        .help = "go: modules of a module proxy (GOPROXY) and the checksum database through it; no version control, no searching",
        .allow = LIST("GET /**/@v/list?", "GET /**/@v/*.info?", "GET /**/@v/*.mod?", "GET /**/@v/*.zip?", "GET /**/@latest?",
                      "GET /sumdb/*/supported?", "GET /sumdb/*/latest?", "GET /sumdb/*/lookup/**?", "GET /sumdb/*/tile/**?"),
        .deny = NOTHING,
        .fields = LIST(READ_FIELDS),
        .body = 0,
        .target = READ_TARGET,
    },
    {
        .name = "maven-read",
        .help = "Maven, Gradle: artifacts, their POMs, metadata and checksums in Maven's layout; no listings, no search, no deploying",
        .allow = LIST(MAVEN("maven-metadata.xml"), MAVEN("*.pom"), MAVEN("*.module"), MAVEN("*.jar"), MAVEN("*.war"),
                      MAVEN("*.aar"), MAVEN("*.zip"), MAVEN("*.tar.gz"), MAVEN("*.exe"), MAVEN("*.md5"), MAVEN("*.sha1"),
                      MAVEN("*.sha256"), MAVEN("*.sha512"), MAVEN("*.asc")),
        .deny = NOTHING,
        .fields = LIST(READ_FIELDS),
        .body = 0,
        .target = READ_TARGET,
    },
};

enum { N_PRESETS = sizeof presets / sizeof *presets };

const struct preset *preset_find(const char *name)
{
    for (size_t i = 0; i < N_PRESETS; i++)
        if (strcmp(presets[i].name, name) == 0)
            return &presets[i];
    return NULL;
}

const struct preset *preset_at(size_t i)
{
    return i < N_PRESETS ? &presets[i] : NULL;
}

void preset_names(struct buf *out)
{
    for (size_t i = 0; i < N_PRESETS; i++)
        buf_printf(out, "%s%s", i == 0 ? "" : i + 1 < N_PRESETS ? ", " : " and ", presets[i].name);
}

static void put_list(struct buf *out, const char *label, const char *const *list)
{
    if (!*list)
        return;
    buf_printf(out, "- %s: ", label);
    for (size_t i = 0; list[i]; i++)
        buf_printf(out, "%s`%s`", i ? ", " : "", list[i]);
    buf_text(out, "\n");
}

void preset_help(struct buf *out)
{
    buf_text(out, "\n## Presets\n\n"
                  "What `preset` of a service stands for; with `preset-path: /npm`, below /npm. Request fields that are not among the forwarded\n"
                  "ones are dropped and recorded.\n"
                  "\nEvery preset forwards: ");
    for (size_t i = 0; presets[0].fields[i]; i++)
        buf_printf(out, "%s`%s`", i ? ", " : "", presets[0].fields[i]);
    buf_text(out, ".\n\n");
    for (size_t i = 0; i < N_PRESETS; i++) {
        const struct preset *p = &presets[i];

        buf_printf(out, "%s### `%s`\n\nFor %s.\n\n", i ? "\n" : "", p->name, p->help);
        put_list(out, "allow", p->allow);
        put_list(out, "deny", p->deny);
        put_list(out, "forwarded besides", p->fields + READ_COUNT);
        if (p->body)
            buf_printf(out, "- request body: at most %" PRIu64 " bytes\n", p->body);
        buf_printf(out, "- %starget: at most %" PRIu64 " bytes\n", p->body ? "" : "no request body; ", p->target);
    }
}
