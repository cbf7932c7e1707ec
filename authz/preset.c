/* The table of presets. The queries are closed ("?"): reading needs none, and an open one is a way out. */
#include "authz/preset.h"

#include <stddef.h>
#include <string.h>

#define READ_FIELDS                                                                                                    \
    "Accept", "Accept-Encoding", "Accept-Language", "Cache-Control", "If-Match", "If-Modified-Since", "If-None-Match", \
        "If-Range", "If-Unmodified-Since", "Pragma", "Range", "User-Agent"

#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})

static const struct preset presets[] = {
    {
        .name = "npm-read",
        .help = "packages and tarballs of a registry at the root of its host; no search, no accounts, no publishing",
        .allow = LIST("GET,HEAD /*?",          /* metadata; "@scope%2Fname" is one segment */
                      "GET,HEAD /*/*?",        /* "@scope/name", and a version of a package */
                      "GET,HEAD /*/*/*?",      /* a version of a scoped package; a tarball "name/-/file" */
                      "GET,HEAD /*/*/-/*?",    /* a tarball of a scoped package */
                      "GET,HEAD /*/-/*/*?",    /* the same, for registries whose tarballs repeat the scope */
                      "GET,HEAD /*/*/-/*/*?"),
        .deny = LIST("GET,HEAD /-/**"),        /* search, users, tokens */
        .fields = LIST(READ_FIELDS),
        .body = 0,
        .target = 2048,
    },
    {
        .name = "pypi-read",
        .help = "the simple index (PEP 503, 691), metadata and files of a registry at the root of its host",
        .allow = LIST("GET,HEAD /simple/?", "GET,HEAD /simple/*?", "GET,HEAD /simple/*/?", "GET,HEAD /packages/**?",
                      "GET,HEAD /pypi/*/json?", "GET,HEAD /pypi/*/*/json?"),
        .deny = LIST(NULL),
        .fields = LIST(READ_FIELDS),
        .body = 0,
        .target = 2048,
    },
    {
        .name = "git-clone",
        .help = "clone and fetch by the smart HTTP protocol, repositories up to five levels deep; no push",
        .allow = LIST("GET /*/info/refs?service=git-upload-pack", "GET /*/*/info/refs?service=git-upload-pack",
                      "GET /*/*/*/info/refs?service=git-upload-pack",
                      "GET /*/*/*/*/info/refs?service=git-upload-pack",
                      "GET /*/*/*/*/*/info/refs?service=git-upload-pack", "POST /*/git-upload-pack?",
                      "POST /*/*/git-upload-pack?", "POST /*/*/*/git-upload-pack?", "POST /*/*/*/*/git-upload-pack?",
                      "POST /*/*/*/*/*/git-upload-pack?"),
        .deny = LIST(NULL),
        .fields = LIST(READ_FIELDS, "Content-Type", "Content-Encoding", "Git-Protocol"),
        .body = 1 << 20,
        .target = 2048,
    },
};

const struct preset *preset_find(const char *name)
{
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++)
        if (strcmp(presets[i].name, name) == 0)
            return &presets[i];
    return NULL;
}
