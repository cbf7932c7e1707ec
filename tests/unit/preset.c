/* Presets: what each lets its client ask, and what lies next to that and is refused. */
#include <stdio.h>

#include "authz/preset.h"
#include "tests/unit/services.h"

#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static const struct row {
    const char *preset, *name, *method, *target;
    enum reason reason;
} rows[] = {
    {"npm-read", "metadata", "GET", "/left-pad", REASON_ALLOWED},
    {"npm-read", "metadata of a scoped package, as npm asks", "GET", "/@corp%2fhello", REASON_ALLOWED},
    {"npm-read", "metadata of a scoped package, with a slash", "GET", "/@corp/hello", REASON_ALLOWED},
    {"npm-read", "a tarball", "GET", "/left-pad/-/left-pad-1.3.0.tgz", REASON_ALLOWED},
    {"npm-read", "a tarball of a scoped package", "GET", "/@corp/hello/-/hello-2.0.0.tgz", REASON_ALLOWED},
    {"npm-read", "a tarball of a scoped package, encoded", "GET", "/@corp%2fhello/-/hello-2.0.0.tgz", REASON_ALLOWED},
    {"npm-read", "a tarball that repeats the scope", "GET", "/@corp/hello/-/@corp/hello-2.0.0.tgz", REASON_ALLOWED},
    {"npm-read", "search", "GET", "/-/v1/search?text=x", REASON_DENIED_BY_RULE},
    {"npm-read", "search, encoded slashes", "GET", "/-%2Fv1%2Fsearch", REASON_DENIED_BY_RULE},
    {"npm-read", "search, an empty segment", "GET", "//-/v1/search", REASON_DENIED_BY_RULE},
    {"npm-read", "search, a parameter", "GET", "/-;x/v1/search", REASON_DENIED_BY_RULE},
    {"npm-read", "ping", "GET", "/-/ping", REASON_DENIED_BY_RULE},
    {"npm-read", "who am I", "GET", "/-/whoami", REASON_DENIED_BY_RULE},
    {"npm-read", "the list of tags", "GET", "/-/package/left-pad/dist-tags", REASON_DENIED_BY_RULE},
    {"npm-read", "an audit", "POST", "/-/npm/v1/security/advisories/bulk", REASON_METHOD_NOT_ALLOWED},
    {"npm-read", "a quick audit", "POST", "/-/npm/v1/security/audits/quick", REASON_METHOD_NOT_ALLOWED},
    {"npm-read", "publishing", "PUT", "/left-pad", REASON_METHOD_NOT_ALLOWED},
    {"npm-read", "publishing a scoped package", "PUT", "/@corp%2fhello", REASON_METHOD_NOT_ALLOWED},
    {"npm-read", "unpublishing", "DELETE", "/left-pad/-/left-pad-1.3.0.tgz/-rev/1", REASON_METHOD_NOT_ALLOWED},
    {"npm-read", "logging in", "PUT", "/-/user/org.couchdb.user:x", REASON_METHOD_NOT_ALLOWED},
    {"npm-read", "every document", "GET", "/_all_docs", REASON_DENIED_BY_RULE},
    {"npm-read", "every document, encoded", "GET", "/%5fall_docs", REASON_DENIED_BY_RULE},
    {"npm-read", "a view of the database", "GET", "/_design/app/_view/x", REASON_DENIED_BY_RULE},
    {"npm-read", "a query", "GET", "/left-pad?write=true", REASON_QUERY_NOT_ALLOWED},
    {"npm-read", "an empty pair", "GET", "/left-pad?&", REASON_QUERY_NOT_ALLOWED},
    {"npm-read", "a page of something else", "GET", "/api/v1/things", REASON_PATH_NOT_ALLOWED},
    {"npm-read", "two segments without a scope", "GET", "/left-pad/latest", REASON_PATH_NOT_ALLOWED},
    {"npm-read", "a page of something else, to who decodes slashes", "GET", "/api%2Fv1%2Fthings", REASON_PATH_NOT_ALLOWED},
    {"npm-read", "the same below a scope", "GET", "/@corp%2Fhello%2Fx", REASON_PATH_NOT_ALLOWED},
    {"npm-read", "the same as a package of a tarball", "GET", "/a%2Fb/-/x.tgz", REASON_PATH_NOT_ALLOWED},
    {"npm-read", "a parameter that ends like a tarball, to who drops it", "GET", "/left-pad/-/x;.tgz", REASON_PATH_NOT_ALLOWED},
    {"npm-read", "a package with a parameter", "GET", "/left-pad;x", REASON_ALLOWED},
    {"npm-read", "a file that is no tarball", "GET", "/left-pad/-/left-pad.exe", REASON_PATH_NOT_ALLOWED},
    {"npm-read", "a tarball's name with an encoded slash more", "GET", "/left-pad/-%2Fx/y.tgz", REASON_PATH_NOT_ALLOWED},
    {"npm-read", "the root", "GET", "/", REASON_PATH_NOT_ALLOWED},

    {"pypi-read", "a project", "GET", "/simple/exeat-hello/", REASON_ALLOWED},
    {"pypi-read", "a project without its slash", "GET", "/simple/exeat-hello", REASON_ALLOWED},
    {"pypi-read", "a wheel, looked at before it is fetched", "HEAD", "/packages/a/b/c/x-1.0-py3-none-any.whl", REASON_ALLOWED},
    {"pypi-read", "a wheel", "GET", "/packages/x-1.0-py3-none-any.whl", REASON_ALLOWED},
    {"pypi-read", "a wheel's metadata", "GET", "/packages/a/b/x-1.0-py3-none-any.whl.metadata", REASON_ALLOWED},
    {"pypi-read", "sources", "GET", "/packages/a/b/x-1.0.tar.gz", REASON_ALLOWED},
    {"pypi-read", "sources' metadata", "GET", "/packages/a/b/x-1.0.tar.gz.metadata", REASON_ALLOWED},
    {"pypi-read", "old sources", "GET", "/packages/a/b/x-1.0.tar.bz2", REASON_ALLOWED},
    {"pypi-read", "zipped sources", "GET", "/packages/a/b/x-1.0.zip", REASON_ALLOWED},
    {"pypi-read", "metadata of a project", "GET", "/pypi/x/json", REASON_ALLOWED},
    {"pypi-read", "metadata of a release", "GET", "/pypi/x/1.0/json", REASON_ALLOWED},
    {"pypi-read", "the list of all projects", "GET", "/simple/", REASON_PATH_NOT_ALLOWED},
    {"pypi-read", "another page, to who decodes slashes", "GET", "/pypi/a%2Fb%2Fc/json", REASON_PATH_NOT_ALLOWED},
    {"pypi-read", "an upload that ends like a file, to who drops parameters", "GET", "/packages/admin;.whl", REASON_PATH_NOT_ALLOWED},
    {"pypi-read", "a file with an escape that it needs not", "GET", "/packages/x%2B1.whl", REASON_ALLOWED},
    {"pypi-read", "search", "POST", "/pypi", REASON_METHOD_NOT_ALLOWED},
    {"pypi-read", "search by page", "GET", "/search/?q=x", REASON_PATH_NOT_ALLOWED},
    {"pypi-read", "an upload", "POST", "/legacy/", REASON_METHOD_NOT_ALLOWED},
    {"pypi-read", "an upload to the index", "POST", "/simple/", REASON_METHOD_NOT_ALLOWED},
    {"pypi-read", "a file put in its place", "PUT", "/packages/x.whl", REASON_METHOD_NOT_ALLOWED},
    {"pypi-read", "a query", "GET", "/simple/x/?next=1", REASON_QUERY_NOT_ALLOWED},
    {"pypi-read", "a file of another kind", "GET", "/packages/a/b/x.exe", REASON_PATH_NOT_ALLOWED},
    {"pypi-read", "a deeper page", "GET", "/simple/x/y/", REASON_PATH_NOT_ALLOWED},
    {"pypi-read", "a way around", "GET", "/packages/../admin/x.whl", REASON_PATH_INVALID},
    {"pypi-read", "an encoded way around", "GET", "/packages/%2e%2e/admin/x.whl", REASON_PATH_INVALID},
    {"pypi-read", "an empty segment", "GET", "/packages//x.whl", REASON_PATH_NOT_ALLOWED},

    {"debian-read", "a suite", "GET", "/debian/dists/bookworm/InRelease", REASON_ALLOWED},
    {"debian-read", "a suite of an archive at the root", "GET", "/dists/stable/Release.gpg", REASON_ALLOWED},
    {"debian-read", "an index by its hash", "GET", "/debian/dists/x/main/binary-amd64/by-hash/SHA256/" HASH, REASON_ALLOWED},
    {"debian-read", "a translation", "GET", "/debian/dists/x/main/i18n/Translation-en.xz", REASON_ALLOWED},
    {"debian-read", "differences of an index", "GET", "/debian/dists/x/main/binary-amd64/Packages.diff/Index", REASON_ALLOWED},
    {"debian-read", "a package", "GET", "/debian/pool/main/h/hello/hello_1.0_all.deb", REASON_ALLOWED},
    {"debian-read", "a package at the root", "GET", "/pool/hello.deb", REASON_ALLOWED},
    {"debian-read", "an archive two folders deep", "GET", "/linux/debian/dists/x/InRelease", REASON_ALLOWED},
    {"debian-read", "a package two folders deep", "GET", "/linux/debian/pool/x.deb", REASON_ALLOWED},
    {"debian-read", "an archive three folders deep", "GET", "/team/ppa/ubuntu/dists/x/InRelease", REASON_ALLOWED},
    {"debian-read", "a package three folders deep", "GET", "/team/ppa/ubuntu/pool/x.deb", REASON_ALLOWED},
    {"debian-read", "a package of a suite's folder", "GET", "/linux/debian/dists/x/pool/y.deb", REASON_ALLOWED},
    {"debian-read", "an upload", "PUT", "/debian/pool/main/h/hello/hello_1.0_all.deb", REASON_METHOD_NOT_ALLOWED},
    {"debian-read", "an upload to the queue", "PUT", "/UploadQueue/hello_1.0_amd64.changes", REASON_METHOD_NOT_ALLOWED},
    {"debian-read", "a suite posted", "POST", "/debian/dists/x/InRelease", REASON_METHOD_NOT_ALLOWED},
    {"debian-read", "sources", "GET", "/debian/pool/main/h/hello/hello_1.0.tar.xz", REASON_PATH_NOT_ALLOWED},
    {"debian-read", "another page", "GET", "/debian/doc/x.deb", REASON_PATH_NOT_ALLOWED},
    {"debian-read", "search", "GET", "/search?keywords=x", REASON_PATH_NOT_ALLOWED},
    {"debian-read", "a query", "GET", "/debian/dists/x/InRelease?x=1", REASON_QUERY_NOT_ALLOWED},
    {"debian-read", "four folders deep", "GET", "/a/b/c/d/dists/x/InRelease", REASON_PATH_NOT_ALLOWED},
    {"cargo-read", "owners, to who decodes slashes", "GET", "/api%2Fv1/crates%2Fserde/owners", REASON_PATH_NOT_ALLOWED},
    {"maven-read", "a parameter that ends like an artifact", "GET", "/service/rest;.jar", REASON_PATH_NOT_ALLOWED},
    {"debian-read", "a folder with an encoded slash", "GET", "/debian/dists%2Fx/InRelease", REASON_PATH_NOT_ALLOWED},

    {"oci-pull", "is this a registry?", "GET", "/v2/", REASON_ALLOWED},
    {"oci-pull", "a manifest by tag", "GET", "/v2/hello/manifests/latest", REASON_ALLOWED},
    {"oci-pull", "a manifest by digest", "GET", "/v2/team/a/hello/manifests/sha256:" HASH, REASON_ALLOWED},
    {"oci-pull", "a tag's digest", "HEAD", "/v2/team/hello/manifests/1.0", REASON_ALLOWED},
    {"oci-pull", "a blob", "GET", "/v2/team/hello/blobs/sha256:" HASH, REASON_ALLOWED},
    {"oci-pull", "a blob's size", "HEAD", "/v2/team/hello/blobs/sha256:" HASH, REASON_ALLOWED},
    {"oci-pull", "a blob of the longer hash", "GET", "/v2/team/hello/blobs/sha512:" HASH HASH, REASON_ALLOWED},
    {"oci-pull", "the catalogue", "GET", "/v2/_catalog", REASON_PATH_NOT_ALLOWED},
    {"oci-pull", "the list of tags", "GET", "/v2/team/hello/tags/list", REASON_PATH_NOT_ALLOWED},
    {"oci-pull", "what refers to an image", "GET", "/v2/hello/referrers/sha256:" HASH, REASON_PATH_NOT_ALLOWED},
    {"oci-pull", "an upload", "POST", "/v2/hello/blobs/uploads/", REASON_METHOD_NOT_ALLOWED},
    {"oci-pull", "an upload from another image", "POST", "/v2/hello/blobs/uploads/?mount=sha256:x&from=y", REASON_METHOD_NOT_ALLOWED},
    {"oci-pull", "the state of an upload", "GET", "/v2/hello/blobs/uploads/1234", REASON_PATH_NOT_ALLOWED},
    {"oci-pull", "a piece of an upload", "PATCH", "/v2/hello/blobs/uploads/1234", REASON_METHOD_NOT_ALLOWED},
    {"oci-pull", "a manifest pushed", "PUT", "/v2/hello/manifests/latest", REASON_METHOD_NOT_ALLOWED},
    {"oci-pull", "a manifest deleted", "DELETE", "/v2/hello/manifests/latest", REASON_METHOD_NOT_ALLOWED},
    {"oci-pull", "a token for whatever one likes", "GET", "/token?service=x&scope=repository:x:push", REASON_PATH_NOT_ALLOWED},
    {"oci-pull", "the first protocol", "GET", "/v1/search?q=x", REASON_PATH_NOT_ALLOWED},
    {"oci-pull", "a query", "GET", "/v2/hello/manifests/latest?x=1", REASON_QUERY_NOT_ALLOWED},
    {"oci-pull", "a blob by an encoded slash", "GET", "/v2/hello/blobs%2Fsha256:" HASH, REASON_PATH_NOT_ALLOWED},

    {"git-clone", "what there is", "GET", "/hello.git/info/refs?service=git-upload-pack", REASON_ALLOWED},
    {"git-clone", "what there is, deeper", "GET", "/a/b/c/d/e/f/hello/info/refs?service=git-upload-pack", REASON_ALLOWED},
    {"git-clone", "a pack", "POST", "/team/hello.git/git-upload-pack", REASON_ALLOWED},
    {"git-clone", "what there is, to push", "GET", "/hello.git/info/refs?service=git-receive-pack", REASON_QUERY_NOT_ALLOWED},
    {"git-clone", "what there is, for both", "GET", "/h.git/info/refs?service=git-upload-pack&service=git-receive-pack",
     REASON_QUERY_NOT_ALLOWED},
    {"git-clone", "what there is, as files", "GET", "/hello.git/info/refs", REASON_QUERY_NOT_ALLOWED},
    {"git-clone", "a push", "POST", "/hello.git/git-receive-pack", REASON_PATH_NOT_ALLOWED},
    {"git-clone", "a push by an encoded name", "POST", "/hello.git/git%2Dreceive-pack", REASON_PATH_NOT_ALLOWED},
    {"git-clone", "an object", "GET", "/hello.git/objects/aa/bb", REASON_PATH_NOT_ALLOWED},
    {"git-clone", "large files", "POST", "/hello.git/info/lfs/objects/batch", REASON_PATH_NOT_ALLOWED},
    {"git-clone", "a pack with a query", "POST", "/hello.git/git-upload-pack?x=1", REASON_QUERY_NOT_ALLOWED},
    {"git-clone", "a pack got", "GET", "/hello.git/git-upload-pack", REASON_METHOD_NOT_ALLOWED},
    {"git-clone", "search", "GET", "/api/v4/projects?search=x", REASON_PATH_NOT_ALLOWED},
    {"git-clone", "an empty segment", "POST", "/a//git-upload-pack", REASON_PATH_NOT_ALLOWED},

    {"cargo-read", "the index's settings", "GET", "/config.json", REASON_ALLOWED},
    {"cargo-read", "a crate of one letter", "GET", "/1/a", REASON_ALLOWED},
    {"cargo-read", "a crate of two", "GET", "/2/ab", REASON_ALLOWED},
    {"cargo-read", "a crate of three", "GET", "/3/a/abc", REASON_ALLOWED},
    {"cargo-read", "a crate", "GET", "/ex/ea/exeat-hello", REASON_ALLOWED},
    {"cargo-read", "the settings, in a folder", "GET", "/index/config.json", REASON_ALLOWED},
    {"cargo-read", "a crate of one letter, in a folder", "GET", "/index/1/a", REASON_ALLOWED},
    {"cargo-read", "a crate of two, in a folder", "GET", "/index/2/ab", REASON_ALLOWED},
    {"cargo-read", "a crate of three, in a folder", "GET", "/index/3/a/abc", REASON_ALLOWED},
    {"cargo-read", "a crate, in a folder", "GET", "/index/ex/ea/exeat-hello", REASON_ALLOWED},
    {"cargo-read", "a download", "GET", "/crates/exeat-hello/1.0.0/download", REASON_ALLOWED},
    {"cargo-read", "a download from the registry itself", "GET", "/api/v1/crates/exeat-hello/1.0.0/download", REASON_ALLOWED},
    {"cargo-read", "a download by file name", "GET", "/crates/exeat-hello/exeat-hello-1.0.0.crate", REASON_ALLOWED},
    {"cargo-read", "a download by file name, deeper", "GET", "/a/cargo/ex/ea/exeat-hello-1.0.0.crate", REASON_ALLOWED},
    {"cargo-read", "search", "GET", "/api/v1/crates?q=x&per_page=10", REASON_DENIED_BY_RULE},
    {"cargo-read", "search for nothing", "GET", "/api/v1/crates", REASON_DENIED_BY_RULE},
    {"cargo-read", "whose token is this", "GET", "/api/v1/me", REASON_DENIED_BY_RULE},
    {"cargo-read", "a crate's page", "GET", "/api/v1/crates/exeat-hello", REASON_PATH_NOT_ALLOWED},
    {"cargo-read", "a crate's owners", "GET", "/api/v1/crates/exeat-hello/owners", REASON_PATH_NOT_ALLOWED},
    {"cargo-read", "publishing", "PUT", "/api/v1/crates/new", REASON_METHOD_NOT_ALLOWED},
    {"cargo-read", "yanking", "DELETE", "/api/v1/crates/exeat-hello/1.0.0/yank", REASON_METHOD_NOT_ALLOWED},
    {"cargo-read", "unyanking", "PUT", "/api/v1/crates/exeat-hello/1.0.0/unyank", REASON_METHOD_NOT_ALLOWED},
    {"cargo-read", "a query", "GET", "/ex/ea/exeat-hello?x=1", REASON_QUERY_NOT_ALLOWED},
    {"cargo-read", "asking for the head", "HEAD", "/ex/ea/exeat-hello", REASON_METHOD_NOT_ALLOWED},

    {"go-proxy", "versions", "GET", "/code.test/hello/@v/list", REASON_ALLOWED},
    {"go-proxy", "a version", "GET", "/code.test/hello/@v/v1.0.0.info", REASON_ALLOWED},
    {"go-proxy", "what it needs", "GET", "/code.test/!upper/hello/v2/@v/v2.0.0.mod", REASON_ALLOWED},
    {"go-proxy", "the module, behind a prefix", "GET", "/go/code.test/hello/@v/v1.0.0.zip", REASON_ALLOWED},
    {"go-proxy", "the latest", "GET", "/code.test/hello/@latest", REASON_ALLOWED},
    {"go-proxy", "is the database here?", "GET", "/sumdb/sum.test/supported", REASON_ALLOWED},
    {"go-proxy", "the database's head", "GET", "/sumdb/sum.test/latest", REASON_ALLOWED},
    {"go-proxy", "a checksum", "GET", "/sumdb/sum.test/lookup/code.test/hello@v1.0.0", REASON_ALLOWED},
    {"go-proxy", "a tile", "GET", "/sumdb/sum.test/tile/8/0/x001/067.p/13", REASON_ALLOWED},
    {"go-proxy", "posting a module", "POST", "/code.test/hello/@v/v1.0.0.zip", REASON_METHOD_NOT_ALLOWED},
    {"go-proxy", "putting a module", "PUT", "/code.test/hello/@v/v1.0.0.zip", REASON_METHOD_NOT_ALLOWED},
    {"go-proxy", "deleting a module", "DELETE", "/code.test/hello/@v/v1.0.0.zip", REASON_METHOD_NOT_ALLOWED},
    {"go-proxy", "where a module's repository is", "GET", "/code.test/hello?go-get=1", REASON_PATH_NOT_ALLOWED},
    {"go-proxy", "search", "GET", "/search?q=x", REASON_PATH_NOT_ALLOWED},
    {"go-proxy", "the index of what is new", "GET", "/index?since=2026", REASON_PATH_NOT_ALLOWED},
    {"go-proxy", "telemetry", "POST", "/upload/2026-01-01", REASON_METHOD_NOT_ALLOWED},
    {"go-proxy", "a query", "GET", "/code.test/hello/@v/list?x=1", REASON_QUERY_NOT_ALLOWED},
    {"go-proxy", "a file of another kind", "GET", "/code.test/hello/@v/v1.0.0.exe", REASON_PATH_NOT_ALLOWED},
    {"go-proxy", "an encoded slash", "GET", "/code.test%2F@v/list", REASON_PATH_NOT_ALLOWED},
    {"go-proxy", "a page of the database of another kind", "GET", "/sumdb/sum.test/search/x", REASON_PATH_NOT_ALLOWED},

    {"maven-read", "a POM", "GET", "/maven/org/x/y/1/y-1.pom", REASON_ALLOWED},
    {"maven-read", "is there a POM?", "HEAD", "/org/x/y/1/y-1.pom", REASON_ALLOWED},
    {"maven-read", "an artifact", "GET", "/maven/org/x/y/1/y-1.jar", REASON_ALLOWED},
    {"maven-read", "metadata", "GET", "/maven/org/x/y/maven-metadata.xml", REASON_ALLOWED},
    {"maven-read", "Gradle's metadata", "GET", "/maven/org/x/y/1/y-1.module", REASON_ALLOWED},
    {"maven-read", "a web archive", "GET", "/maven/org/x/y/1/y-1.war", REASON_ALLOWED},
    {"maven-read", "an Android archive", "GET", "/maven/org/x/y/1/y-1.aar", REASON_ALLOWED},
    {"maven-read", "a zip", "GET", "/maven/org/x/y/1/y-1-bin.zip", REASON_ALLOWED},
    {"maven-read", "a tarball", "GET", "/maven/org/x/y/1/y-1-bin.tar.gz", REASON_ALLOWED},
    {"maven-read", "a program", "GET", "/maven/org/x/y/1/y-1-linux-x86_64.exe", REASON_ALLOWED},
    {"maven-read", "MD5", "GET", "/maven/org/x/y/1/y-1.jar.md5", REASON_ALLOWED},
    {"maven-read", "SHA-1", "GET", "/maven/org/x/y/maven-metadata.xml.sha1", REASON_ALLOWED},
    {"maven-read", "SHA-256", "GET", "/maven/org/x/y/1/y-1.jar.sha256", REASON_ALLOWED},
    {"maven-read", "SHA-512", "GET", "/maven/org/x/y/1/y-1.jar.sha512", REASON_ALLOWED},
    {"maven-read", "a signature", "GET", "/maven/org/x/y/1/y-1.jar.asc", REASON_ALLOWED},
    {"maven-read", "deploying", "PUT", "/maven/org/x/y/1/y-1.jar", REASON_METHOD_NOT_ALLOWED},
    {"maven-read", "deploying metadata", "PUT", "/maven/org/x/y/maven-metadata.xml", REASON_METHOD_NOT_ALLOWED},
    {"maven-read", "deleting", "DELETE", "/maven/org/x/y/1/y-1.jar", REASON_METHOD_NOT_ALLOWED},
    {"maven-read", "a listing", "GET", "/maven/org/x/y/", REASON_PATH_NOT_ALLOWED},
    {"maven-read", "search", "GET", "/solrsearch/select?q=x", REASON_PATH_NOT_ALLOWED},
    {"maven-read", "search of a manager", "GET", "/service/rest/v1/search?q=x", REASON_PATH_NOT_ALLOWED},
    {"maven-read", "telemetry", "POST", "/org/x/y/1/y-1.pom", REASON_METHOD_NOT_ALLOWED},
    {"maven-read", "a query", "GET", "/maven/org/x/y/1/y-1.jar?x=1", REASON_QUERY_NOT_ALLOWED},
    {"maven-read", "a name with a parameter", "GET", "/maven/org/x/admin;y.jsp", REASON_PATH_NOT_ALLOWED},
    {"maven-read", "an empty segment", "GET", "/maven//y-1.jar", REASON_PATH_NOT_ALLOWED},
};

enum { N_ROWS = sizeof rows / sizeof *rows };

static struct policy *compile_in_folder(const char *name, const char *folder)
{
    struct fault why = {0};
    struct policy *p;
    char text[300];

    snprintf(text, sizeof text, "services:\n  a:\n    preset: %s\n    preset-path: \"%s\"\n    hosts: [a.test]\n    scope: a\n"
             "    audit: \"waived: a test\"\n", name, folder);
    if (!(p = compile(text, &why)))
        fail_msg("%s: %s", name, why.text);
    return p;
}

static struct policy *compile_preset(const char *name)
{
    return compile_in_folder(name, "");
}

static struct decision ask(const struct policy *p, const struct row *r)
{
    struct identity *i = make_identity("a", NULL);
    struct decision d = {0};
    struct request q = {0};
    struct fault why = {0};
    char url[400];

    snprintf(url, sizeof url, "https://a.test%s", r->target);
    if (request_from_url(&q, slice_of(r->method), slice_of(url), &why))
        d = authorize(p, i, &q, NOW, NULL);
    else
        d.reason = why.reason;
    request_clear(&q);
    identity_unref(i);
    return d;
}

static void what_a_client_asks_is_allowed_and_what_is_near_it_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_ROWS; i++) {
        struct policy *p = compile_preset(rows[i].preset);
        struct decision d = ask(p, &rows[i]);

        if (d.reason != rows[i].reason)
            fail_msg("%s, %s: %s %s: %s (%s)", rows[i].preset, rows[i].name, rows[i].method, rows[i].target,
                     reason_get(d.reason)->code, d.detail);
        policy_free(p);
    }
}

static const struct row in_folder[] = {
    {"npm-read", "metadata", "GET", "/api/npm/all/left-pad", REASON_ALLOWED},
    {"npm-read", "a tarball of a scoped package", "GET", "/api/npm/all/@corp/hello/-/hello-2.0.0.tgz", REASON_ALLOWED},
    {"npm-read", "search", "GET", "/api/npm/all/-/v1/search", REASON_DENIED_BY_RULE},
    {"npm-read", "publishing", "PUT", "/api/npm/all/left-pad", REASON_METHOD_NOT_ALLOWED},
    {"npm-read", "at the root", "GET", "/left-pad", REASON_PATH_NOT_ALLOWED},
    {"npm-read", "beside the folder", "GET", "/api/npm/other/left-pad", REASON_PATH_NOT_ALLOWED},
    {"npm-read", "above it", "GET", "/api/npm/all", REASON_PATH_NOT_ALLOWED},
    {"git-clone", "a repository of the group", "POST", "/api/npm/all/hello.git/git-upload-pack", REASON_ALLOWED},
    {"git-clone", "a repository of another group", "POST", "/api/hello.git/git-upload-pack", REASON_PATH_NOT_ALLOWED},
};

static void in_a_folder_the_rules_are_for_that_alone(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof in_folder / sizeof *in_folder; i++) {
        struct policy *p = compile_in_folder(in_folder[i].preset, "/api/npm/all");
        struct decision d = ask(p, &in_folder[i]);

        if (d.reason != in_folder[i].reason)
            fail_msg("%s, %s: %s (%s)", in_folder[i].preset, in_folder[i].name, reason_get(d.reason)->code, d.detail);
        policy_free(p);
    }
}

static bool is_decided_by(const struct preset *preset, const struct policy *p, const char *rule)
{
    for (size_t i = 0; i < N_ROWS; i++)
        if (strcmp(rows[i].preset, preset->name) == 0 && strcmp(ask(p, &rows[i]).rule, rule) == 0)
            return true;
    return false;
}

/* A rule that no row needs is one too many. */
static void every_rule_has_its_row(void **state)
{
    const struct preset *preset;

    (void)state;
    for (size_t i = 0; (preset = preset_at(i)) != NULL; i++) {
        struct policy *p = compile_preset(preset->name);

        for (const char *const *rule = preset->allow; *rule; rule++)
            if (!is_decided_by(preset, p, *rule))
                fail_msg("%s: %s", preset->name, *rule);
        for (const char *const *rule = preset->deny; *rule; rule++)
            if (!is_decided_by(preset, p, *rule))
                fail_msg("%s: deny %s", preset->name, *rule);
        policy_free(p);
    }
}

static void the_choices_are_the_table(void **state)
{
    struct buf text = {0};
    const struct preset *preset;

    (void)state;
    buf_text(&text, "none");
    for (size_t i = 0; (preset = preset_at(i)) != NULL; i++) {
        buf_printf(&text, "|%s", preset->name);
        assert_ptr_equal(preset_find(preset->name), preset);
    }
    assert_true(slice_is(buf_slice(&text), PRESET_CHOICES));
    assert_null(preset_find("none"));
    buf_free(&text);
}

/* What they have in common, and what none may ever have. */
static void presets_only_read(void **state)
{
    const struct preset *preset;

    (void)state;
    for (size_t i = 0; (preset = preset_at(i)) != NULL; i++) {
        struct policy *p = compile_preset(preset->name);
        const struct service *s = policy_service(p, 0);

        if (preset->body && strcmp(preset->name, "git-clone") != 0)
            fail_msg("%s has a body", preset->name);
        if (preset->target != 2048)
            fail_msg("%s: a target of %u", preset->name, (unsigned)preset->target);
        for (const char *const *rule = preset->allow; *rule; rule++)
            if (!strchr(*rule, '?'))
                fail_msg("%s: %s: any query will do", preset->name, *rule);
        if (!service_forwards_field(s, SLICE("Accept")) || !service_forwards_field(s, SLICE("Range")))
            fail_msg("%s: reading is not possible", preset->name);
        for (const char *const *name = (const char *const[]){"Authorization", "Cookie", "Referer", "X-Custom", "npm-session",
                                                             "X-Forwarded-For", "X-Clacks-Overhead", NULL}; *name; name++)
            if (service_forwards_field(s, slice_of(*name)))
                fail_msg("%s forwards %s", preset->name, *name);
        policy_free(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_client_asks_is_allowed_and_what_is_near_it_refused),
        cmocka_unit_test(in_a_folder_the_rules_are_for_that_alone),
        cmocka_unit_test(every_rule_has_its_row),
        cmocka_unit_test(the_choices_are_the_table),
        cmocka_unit_test(presets_only_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
