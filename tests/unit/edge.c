/* handoff/edge.h, and the readers below it: what is found in heads, in JSON and in HTML, however it is cut. */
#include "handoff/edge.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>

#include "handoff/html.h"
#include "handoff/json.h"

enum { NOW = 1767323045 };

static const struct reference page = {.scheme = "https", .host = "registry.test", .port = 443};

/* What was found, a line each; stop: at the first of them. */
struct found {
    struct buf text;
    bool stop;
};

static bool on_edge(void *arg, const struct edge *e)
{
    struct found *f = arg;

    if (e->kind == EDGE_UNREAD)
        buf_text(&f->text, "unread");
    else
        buf_printf(&f->text, "%s%s %s://%s:%u%s%s", e->unclear ? "?" : "", edge_kind_name(e->kind), e->to.scheme, e->to.host,
                   e->to.port, e->to.userinfo ? " @" : "", e->downgrade ? " down" : "");
    if (e->presigned)
        buf_printf(&f->text, " signed %lld", (long long)e->signature.lifetime_s);
    buf_char(&f->text, '\n');
    return !f->stop;
}

static struct edge_sink sink_of(struct found *f)
{
    return (struct edge_sink){&page, NOW, on_edge, f};
}

/* ---- heads ---- */

static const struct head_row {
    const char *requirement, *name, *value;
    int status;
    const char *found;
} heads[] = {
    {"a redirect", "Location", "https://files.test/x", 302, "location https://files.test:443\n"},
    {"case does not count", "LOCATION", "https://files.test/x", 302, "location https://files.test:443\n"},
    {"a redirect at home, by name", "Location", "https://registry.test/x", 302, "location https://registry.test:443\n"},
    {"a redirect at home, by path", "Location", "/x", 302, ""},
    {"what looks like a path", "Location", "/\\evil.test", 302, "location https://evil.test:443\n"},
    {"an upload goes on elsewhere", "Location", "https://up.test/v2/x/blobs/uploads/1", 202, "upload https://up.test:443\n"},
    {"down to plain HTTP", "Location", "http://registry.test/", 301, "location http://registry.test:80 down\n"},
    {"a signed URL", "Location", "https://s3.test/x?X-Amz-Expires=900&X-Amz-Signature=ab", 307,
     "location https://s3.test:443 signed 900\n"},
    {"content elsewhere", "Content-Location", "https://files.test/x", 200, "content-location https://files.test:443\n"},
    {"links", "Link", "<https://a.test/>; rel=next, <//b.test>; rel=\"prev\"", 200,
     "link https://a.test:443\nlink https://b.test:443\n"},
    {"a link without an end", "Link", "<https://a.test", 200, "?link https://a.test:0\n"},
    {"a link in quotes", "Link", "</x>; title=\"<https://a.test/>\"", 200, "link https://a.test:443\n"},
    {"no link", "Link", "https://a.test/", 200, ""},
    {"refresh", "Refresh", "5; url=https://a.test/", 200, "refresh https://a.test:443\n"},
    {"refresh in quotes", "Refresh", "0;URL = 'https://a.test/'", 200, "refresh https://a.test:443\n"},
    {"refresh without its word", "Refresh", "0, https://a.test/", 200, "refresh https://a.test:443\n"},
    {"refresh of itself", "Refresh", "5", 200, ""},
    {"an alternative elsewhere", "Alt-Svc", "h3=\":443\"; ma=60, h2=\"alt.test:8443\"; ma=60", 200,
     "alt-svc https://alt.test:8443\n"},
    {"no alternative", "Alt-Svc", "clear", 200, ""},
    {"a registry's realm", "WWW-Authenticate", "Bearer realm=\"https://auth.test/token\",service=\"r\"", 401,
     "authenticate https://auth.test:443\n"},
    {"two challenges", "WWW-Authenticate", "Negotiate abc==, Bearer scope=x, realm=\"https://auth.test/\"", 401,
     "authenticate https://auth.test:443\n"},
    {"metadata of a resource", "WWW-Authenticate", "Bearer resource_metadata=\"https://m.test/x\"", 401,
     "authenticate https://m.test:443\n"},
    {"a realm that is a name", "WWW-Authenticate", "Basic realm=\"a: b\"", 401, ""},
    {"a realm without an end", "WWW-Authenticate", "Basic realm=\"https://auth.test/", 401, "authenticate https://auth.test:443\n"},
    {"reports", "Report-To", "{\"group\":\"nel\",\"endpoints\":[{\"url\":\"https://r.test/\"}]}", 200, "report https://r.test:443\n"},
    {"endpoints of reports", "Reporting-Endpoints", "a=\"https://r.test/\", b=\"/x\"", 200, "report https://r.test:443\n"},
    {"a realm with escapes, which some read and some do not", "WWW-Authenticate", "Bearer realm=\"https:\\/\\/auth.test/\"", 401,
     "?authenticate https://auth.test:443\n"},
    {"a realm whose host ends where no escape is known", "WWW-Authenticate", "Bearer realm=\"https://good.test\\.evil.test/\"", 401,
     "?authenticate https://good.test.evil.test:443\n"},
    {"a name with escapes", "WWW-Authenticate", "Basic realm=\"a \\\"b\\\"\"", 401, ""},
    {"another field", "X-Location", "https://files.test/x", 200, ""},
};

static void heads_send_on(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        const struct head_row *r = &heads[i];
        struct field field = {slice_of(r->name), slice_of(r->value)};
        struct head h = {.status = r->status, .fields = &field, .n_fields = 1};
        struct found f = {0};
        struct edge_sink sink = sink_of(&f);

        assert_true(edge_glance(&h).sends == (slice_search(slice_of(r->name), SLICE("X-")) != 0));
        assert_true(edge_read_head(&h, &sink));
        if (!slice_is(buf_slice(&f.text), r->found))
            fail_msg("%s: %.*s", r->requirement, SLICE_ARG(buf_slice(&f.text)));
        buf_clear(&f.text);
        f.stop = true;
        assert_int_equal(edge_read_head(&h, &sink), *r->found == '\0');
        buf_free(&f.text);
    }
}

static const struct type_row {
    const char *type;
    enum edge_format format;
    bool wide;
} types[] = {
    {"application/json", EDGE_FORMAT_JSON, false},
    {"Application/JSON; charset=UTF-8", EDGE_FORMAT_JSON, false},
    {"application/json; charset=\"utf-16\"", EDGE_FORMAT_JSON, true},
    {"application/vnd.npm.install-v1+json; q=1", EDGE_FORMAT_JSON, false},
    {"application/vnd.pypi.simple.v1+json", EDGE_FORMAT_JSON, false},
    {"application/vnd.pypi.simple.v1+html", EDGE_FORMAT_HTML, false},
    {"application/vnd.oci.image.manifest.v1+json", EDGE_FORMAT_JSON, false},
    {"application/vnd.docker.distribution.manifest.v1+prettyjws", EDGE_FORMAT_JSON, false},
    {"application/vnd.git-lfs+json", EDGE_FORMAT_JSON, false},
    {"text/html;charset=ISO-8859-1", EDGE_FORMAT_HTML, false},
    {"text/html; charset=utf-7", EDGE_FORMAT_HTML, true},
    {"text/plain", EDGE_FORMAT_GUESS, false},
    {"application/octet-stream", EDGE_FORMAT_GUESS, false},
    {"", EDGE_FORMAT_SNIFF, false},
    {"*/*", EDGE_FORMAT_SNIFF, false},
    {"unknown/unknown", EDGE_FORMAT_SNIFF, false},
    {"html", EDGE_FORMAT_HTML, false},
    {"application/json, text/html", EDGE_FORMAT_HTML, true}, /* the one and the other are two ways to read it */
    {"image/png, text/html", EDGE_FORMAT_HTML, false},
    {"text/plain;a=b, application/json", EDGE_FORMAT_JSON, false},
    {"text/html, text/html;charset=utf-16", EDGE_FORMAT_HTML, true},
    {"text/htmlx", EDGE_FORMAT_HTML, false}, /* pip looks at the beginning */
    {"application/vnd.pypi.simple.v1+jsonx", EDGE_FORMAT_JSON, false},
    {"application/x-ndjson", EDGE_FORMAT_JSON, false},
    {"text/html; charset*0=utf; charset*1=\"-7\"", EDGE_FORMAT_HTML, true}, /* RFC 2231, which Python reads */
    {"text/html; charset*=us-ascii''utf-7", EDGE_FORMAT_HTML, true},
    {"image/png", EDGE_FORMAT_GUESS, false}, /* npm reads JSON of any type */
    {"application/zip", EDGE_FORMAT_GUESS, false},
    {"image/png; charset=binary", EDGE_FORMAT_GUESS, false},
};

static void the_type_says_how_to_read(void **state)
{
    struct head none = {0};

    (void)state;
    assert_int_equal(edge_glance(&none).format, EDGE_FORMAT_SNIFF);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        struct field field = {SLICE("content-type"), slice_of(types[i].type)};
        struct head h = {.fields = &field, .n_fields = 1};
        struct edge_glance g = edge_glance(&h);

        if (g.format != types[i].format || g.wide != types[i].wide || g.sends)
            fail_msg("%s: %d %d", types[i].type, (int)g.format, g.wide);
    }
}

static void several_types_are_read_together(void **state)
{
    struct field fields[] = {{SLICE("Content-Type"), SLICE("text/html")}, {SLICE("Content-Type"), SLICE("text/html; charset=utf-7")}};
    struct head h = {.fields = fields, .n_fields = 2};

    (void)state;
    assert_true(edge_glance(&h).format == EDGE_FORMAT_HTML && edge_glance(&h).wide);
    fields[1].value = SLICE("application/json");
    assert_true(edge_glance(&h).wide);
    fields[1].value = SLICE("image/png");
    assert_true(edge_glance(&h).format == EDGE_FORMAT_HTML && !edge_glance(&h).wide);
}

static void the_first_letter_says_what_nothing_else_does(void **state)
{
    const enum edge_format guess = EDGE_FORMAT_GUESS, sniff = EDGE_FORMAT_SNIFF;

    (void)state;
    assert_int_equal(edge_guess(guess, SLICE("{")), EDGE_FORMAT_JSON);
    assert_int_equal(edge_guess(guess, SLICE("\xef\xbb\xbf \r\n[1")), EDGE_FORMAT_JSON);
    assert_int_equal(edge_guess(guess, SLICE(" \n")), EDGE_FORMAT_GUESS);
    assert_int_equal(edge_guess(guess, SLICE("")), EDGE_FORMAT_GUESS);
    assert_int_equal(edge_guess(guess, SLICE("x{")), EDGE_FORMAT_NONE);
    assert_int_equal(edge_guess(guess, SLICE("\0{")), EDGE_FORMAT_NONE);
    assert_int_equal(edge_guess(guess, SLICE("<a")), EDGE_FORMAT_NONE);
    assert_int_equal(edge_guess(sniff, SLICE("\n")), EDGE_FORMAT_SNIFF);
    assert_int_equal(edge_guess(sniff, SLICE("\n{")), EDGE_FORMAT_JSON);
    assert_int_equal(edge_guess(sniff, SLICE(" <a")), EDGE_FORMAT_HTML);
}

/* ---- contents ---- */

#define J EDGE_FORMAT_JSON
#define H EDGE_FORMAT_HTML

static const struct body_row {
    const char *requirement;
    enum edge_format format;
    struct slice text;
    const char *found;
} bodies[] = {
    {"npm", J, SLICE("{\"versions\":{\"1.0.0\":{\"dist\":{\"tarball\":\"https://files.test/a.tgz\"}}}}"),
     "dist.tarball https://files.test:443\n"},
    {"npm, of one version", J, SLICE("{\"dist\":{\"shasum\":\"x\",\"tarball\":\"http://files.test/a.tgz\"}}"),
     "dist.tarball http://files.test:80 down\n"},
    {"a tarball that is not in dist", J, SLICE("{\"x\":{\"tarball\":\"https://files.test/\"}}"), ""},
    {"names that lead nowhere", J, SLICE("{\"homepage\":\"https://a.test\",\"repository\":{\"url\":\"https://b.test\"}}"), ""},
    {"escaped in the name", J, SLICE("{\"di\\u0073t\":{\"t\\u0061rball\":\"https://files.test/\"}}"),
     "dist.tarball https://files.test:443\n"},
    {"escaped in the value", J, SLICE("{\"dist\":{\"tarball\":\"\\u0068ttps:\\/\\/files.test\\/\"}}"),
     "dist.tarball https://files.test:443\n"},
    {"a member twice is read twice", J, SLICE("{\"dist\":{\"tarball\":\"/a\",\"tarball\":\"https://files.test/\"}}"),
     "dist.tarball https://files.test:443\n"},
    {"white space anywhere", J, SLICE(" {\n\"dist\" : {\t\"tarball\" : \"https://files.test/\" } } "),
     "dist.tarball https://files.test:443\n"},
    {"behind a byte order mark", J, SLICE("\xef\xbb\xbf{\"dist\":{\"tarball\":\"https://files.test/\"}}"),
     "dist.tarball https://files.test:443\n"},
    {"several in a row", J, SLICE("{\"dist\":{\"tarball\":\"https://a.test/\"}}\n{\"dist\":{\"tarball\":\"https://b.test/\"}}"),
     "dist.tarball https://a.test:443\ndist.tarball https://b.test:443\n"},
    {"not quite JSON: comments, bare names", J, SLICE("{/* \\ */a:1,'b':2,\"dist\":{\"tarball\":\"https://a.test/\"},}"),
     "dist.tarball https://a.test:443\n"},
    {"bytes that are no UTF-8", J, SLICE("{\"\xff\":\"\xc0\",\"dist\":{\"tarball\":\"https://a.test/\xff\"}}"),
     "dist.tarball https://a.test:443\n"},
    {"an unknown escape", J, SLICE("{\"dist\":{\"tarball\":\"https\\:\\/\\/a.test/\"}}"), "dist.tarball https://a.test:443\n"},
    {"an escape cut short", J, SLICE("{\"dist\":{\"tarball\":\"https://a.test/\\u12\"}}"), "dist.tarball https://a.test:443\n"},
    {"pairs and halves of pairs", J, SLICE("{\"dist\":{\"tarball\":\"//\\ud83d\\ude00.a.test\\ud83d/\"}}"),
     "?dist.tarball https://????.a.test???:443\n"},
    {"simple index", J, SLICE("{\"files\":[{\"filename\":\"a\",\"url\":\"https://f.test/a.whl\"},{\"url\":\"../b.whl\"}]}"),
     "files.url https://f.test:443\n"},
    {"the older form of it", J, SLICE("{\"releases\":{\"1.0\":[{\"url\":\"https://f.test/\"}]},\"urls\":[{\"url\":\"https://g.test/\"}]}"),
     "files.url https://f.test:443\nfiles.url https://g.test:443\n"},
    {"cargo", J, SLICE("{\"dl\":\"https://d.test/{crate}\",\"api\":\"https://api.test\"}"),
     "cargo.dl https://d.test:443\ncargo.dl https://api.test:443\n"},
    {"dl deeper inside is another thing", J, SLICE("{\"x\":{\"dl\":\"https://d.test/\"}}"), ""},
    {"Git LFS", J, SLICE("{\"objects\":[{\"actions\":{\"download\":{\"href\":\"https://l.test/x?X-Amz-Signature=a&X-Amz-Expires=9\"}}}]}"),
     "lfs.href https://l.test:443 signed 9\n"},
    {"a manifest's layer", J, SLICE("{\"layers\":[{\"urls\":[\"https://a.test/\",\"https://b.test/\"],\"size\":1}]}"),
     "manifest.urls https://a.test:443\nmanifest.urls https://b.test:443\n"},
    {"Composer", J, SLICE("{\"packages\":{\"a/b\":[{\"dist\":{\"url\":\"https://z.test/a.zip\"},\"source\":{\"url\":\"https://git.test/\"}}]}}"),
     "dist.url https://z.test:443\n"},
    {"an authorization server", J, SLICE("{\"issuer\":\"https://as.test\",\"token_endpoint\":\"https://t.test/\"}"),
     "metadata https://as.test:443\nmetadata https://t.test:443\n"},
    {"names in capitals, which Go takes for the same", J, SLICE("{\"Layers\":[{\"URLS\":[\"https://a.test/\"]}]}"),
     "manifest.urls https://a.test:443\n"},
    {"letters that fold to ASCII: long s, Kelvin", J,
     SLICE("{\"layer\xc5\xbf\":[{\"url\\u017f\":[\"https://a.test/\"]}],\"to\xe2\x84\xaa\x65n_endpoint\":\"https://t.test/\"}"),
     "manifest.urls https://a.test:443\nmetadata https://t.test:443\n"},
    {"a name that folds to none of them", J, SLICE("{\"layers\xc5\xbf\":[{\"urls\":[\"https://a.test/\"]}],\"\xc5\":\"https://a.test\"}"), ""},
    {"brackets that do not match", J, SLICE("{\"a\":[1}"), "unread\n"},
    {"a bracket more", J, SLICE("{}}"), "unread\n"},
    {"another encoding", J, SLICE("{\0\"\0a\0"), "unread\n"},
    {"an end in the middle", J, SLICE("{\"dist\":{\"tarball\":\"https://a.te"), "?dist.tarball https://a.te:0\n"},
    {"a number, a word, nothing", J, SLICE("12 true "), ""},


    {"a link", H, SLICE("<a href=\"https://f.test/a.whl#sha256=0\">a.whl</a>"), "html.a https://f.test:443\n"},
    {"in single quotes", H, SLICE("<A HREF='https://f.test/'>"), "html.a https://f.test:443\n"},
    {"without quotes", H, SLICE("<a href=https://f.test/>"), "html.a https://f.test:443\n"},
    {"white space about it", H, SLICE("<a\n title = x\thref\n=\n \"https://f.test/\" >"), "html.a https://f.test:443\n"},
    {"a slash for a space", H, SLICE("<a/href=\"https://f.test/\">"), "html.a https://f.test:443\n"},
    {"no space between attributes", H, SLICE("<a title=\"\"href=\"https://f.test/\">"), "html.a https://f.test:443\n"},
    {"an attribute twice", H, SLICE("<a href=/x href=https://f.test/>"), "html.a https://f.test:443\n"},
    {"a relative link", H, SLICE("<a href=\"../../packages/a.whl\">"), ""},
    {"an attribute of a like name", H, SLICE("<a hreflang=https://f.test/ xhref=https://f.test/>"), ""},
    {"a tag of a like name", H, SLICE("<abbr href=https://f.test/><ax href=https://f.test/>"), ""},
    {"a reference by number", H, SLICE("<a href=\"https&#58;&#x2F;&#X002f;f.test/\">"), "html.a https://f.test:443\n"},
    {"by number without a semicolon", H, SLICE("<a href=\"https&#58//f.test/\">"), "html.a https://f.test:443\n"},
    {"with many zeros", H, SLICE("<a href=\"&#00000000000000000000000000000000000000104;ttps://f.test/\">"), "html.a https://f.test:443\n"},
    {"by name", H, SLICE("<a href=\"https&colon;&sol;&bsol;f&period;test/?a&amp;b\">"), "html.a https://f.test:443\n"},
    {"a name that is none", H, SLICE("<a href=\"https://f.test/?a&b&c;&\">"), "html.a https://f.test:443\n"},
    {"a name without end", H, SLICE("<a href=\"//f.test/&aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa;\">"), "html.a https://f.test:443\n"},
    {"a character that is no ASCII", H, SLICE("<a href=\"//&#x4e00;.test/\">"), "?html.a https://???.test:443\n"},
    {"base", H, SLICE("<base href=\"http://b.test/\"><a href=x>"), "html.base http://b.test:80 down\n"},
    {"link elements, scripts and forms", H, SLICE("<link href=//l.test/><script src=//s.test/></script><form action=//f.test/>"),
     "html.link https://l.test:443\nhtml.src https://s.test:443\nhtml.form https://f.test:443\n"},
    {"refresh", H, SLICE("<meta content=\"0; url=https://r.test/\" http-equiv=refresh>"), "refresh https://r.test:443\n"},
    {"refresh with a blank for a semicolon", H, SLICE("<meta http-equiv=refresh content=\"0 url=https://r.test/\">"), "refresh https://r.test:443\n"},
    {"refresh with a blank and no word", H, SLICE("<meta http-equiv=refresh content=\"0\nhttps://r.test/\">"), "refresh https://r.test:443\n"},
    {"other meta elements", H, SLICE("<meta name=viewport content=\"width=1\"><meta content=\"https://r.test/\">"), ""},
    {"a Go module", H, SLICE("<meta name=\"go-import\" content=\"go.test/m git https://g.test/m\">"), "go-import https://g.test:443\n"},
    {"data attributes", H, SLICE("<a href=x data-core-metadata=\"sha256=0\" data-mirror=\"https://m.test/\">"), "html.data https://m.test:443\n"},
    {"several in one attribute", H, SLICE("<a ping=\"/x //p.test/\"><img srcset=\"/a 1x, //s.test/b 2x\"><source src=//v.test>"),
     "html.a https://p.test:443\nhtml.src https://s.test:443\nhtml.src https://v.test:443\n"},
    {"names with a prefix, as XML has them", H, SLICE("<h:a href=//f.test/><_x:a href=//g.test/><image xlink:href=//i.test/>"),
     "html.a https://f.test:443\nhtml.a https://g.test:443\nhtml.src https://i.test:443\n"},
    {"an entity of its own", H, SLICE("<!DOCTYPE html [<!ENTITY x \"https://f.test/\">]><a href=\"&x;\">"), "unread\n"},
    {"references that Python drops", H, SLICE("<a href=\"/&#1;/f.test/\"><a href=\"ht&#x7f;tps&#xfdd0;://g.test/\">"),
     "html.a https://f.test:443\nhtml.a https://g.test:443\n"},
    {"two equals signs, of which Python makes one", H, SLICE("<a href==\"//f.test/\">"), "unread\nhtml.a https://f.test:443\n"},
    {"what is white space to Python alone, between attributes", H, SLICE("<a title=\"\"\xa0href=//f.test/>"), "unread\n"},
    {"the same, behind a value without quotes", H, SLICE("<a title=x\vhref=//f.test/>"), "unread\n"},
    {"the same, before a value", H, SLICE("<a href=\x1c\"//f.test/\">"), "unread\n"},
    {"any letter in a value in quotes", H, SLICE("<a title=\"gr\xc3\xb6\xc3\x9f\x65r\" href='/x'>"), ""},
    {"in a comment", H, SLICE("<!-- <a href=\"https://f.test/\"> -->"), "html.a https://f.test:443\n"},
    {"in a script", H, SLICE("<script>if(a<b)x='<a href=\"https://f.test/\">'</script>"), "html.a https://f.test:443\n"},
    {"in a tag nobody wants", H, SLICE("<p title=\"<a href=https://f.test/>\">"), "html.a https://f.test:443\n"},
    {"hidden by a quote that nothing closes", H, SLICE("<!-- <a title=\" --><a href=https://f.test/>"),
     "unread\nhtml.a https://f.test:443\n"},
    {"less-than that begins no tag", H, SLICE("<a data-requires-python=\"<3, <=2\" href=https://f.test/>"), "html.a https://f.test:443\n"},
    {"two of them", H, SLICE("<<a href=https://f.test/>"), "html.a https://f.test:443\n"},
    {"another encoding", H, SLICE("<\0a\0 \0h\0"), "unread\n"},
    {"an end in the middle", H, SLICE("<a href=\"https://f.te"), "?html.a https://f.te:0\n"},
};

/* All of text in pieces of this many bytes; 0: at once. */
static void read_text(enum edge_format format, struct slice text, size_t step, struct found *f, uint64_t *safe)
{
    struct edge_sink sink = sink_of(f);
    struct edge_reader *r = edge_reader_new(format, false, &sink);
    uint64_t before = 0, fed = 0;

    *safe = 0;
    for (bool on = true; on && text.len;) {
        struct slice piece = slice_cut(text, 0, step ? step : text.len);

        text = slice_from(text, piece.len);
        fed += piece.len;
        on = edge_reader_feed(r, piece, safe);
        assert_true(*safe >= before && *safe <= fed);
        before = *safe;
    }
    edge_reader_end(r);
    edge_reader_free(r);
}

static void contents_send_on_however_they_are_cut(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++)
        for (size_t step = 0; step < 8; step++) {
            const struct body_row *r = &bodies[i];
            struct found f = {0};
            uint64_t safe;

            read_text(r->format, r->text, step, &f, &safe);
            if (!slice_is(buf_slice(&f.text), r->found))
                fail_msg("%s, by %zu: %.*s", r->requirement, step, SLICE_ARG(buf_slice(&f.text)));
            buf_free(&f.text);
        }
}

/* Where the host of what is found first stands in the text; -1: it does not, letter for letter, or nothing is found. */
static ptrdiff_t place_of(const struct body_row *r)
{
    struct slice host = slice_of(r->found);
    ptrdiff_t at = slice_search(host, SLICE("://"));

    if (at < 0 || r->found[0] == '?' || slice_starts(host, SLICE("unread")))
        return -1;
    host = slice_from(host, (size_t)at + 3);
    return slice_search(r->text, slice_cut(host, 0, (size_t)slice_find(host, ':')));
}

static void nothing_of_a_refused_reference_is_safe(void **state)
{
    size_t n = 0;

    (void)state;
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++)
        for (size_t step = 0; step < 8; step++) {
            const struct body_row *r = &bodies[i];
            struct found f = {.stop = true};
            ptrdiff_t at = place_of(r);
            uint64_t safe;

            read_text(r->format, r->text, step, &f, &safe);
            if (at >= 0 && safe > (uint64_t)at)
                fail_msg("%s, by %zu: %llu bytes are safe", r->requirement, step, (unsigned long long)safe);
            n += at >= 0;
            buf_free(&f.text);
        }
    assert_true(n > 300);
}

/* ---- what is hostile ---- */

static void a_value_without_end_is_judged_by_its_beginning(void **state)
{
    static const char *const fronts[] = {"{\"dl\":\"https://d.test/", "{\"dl\":\"", "<a href=\"https://d.test/", "<a href=\""};
    static const char *const found[] = {"cargo.dl https://d.test:443\n", "?", "html.a https://d.test:443\n", "?"};

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct found f = {0};
        struct buf text = {0};
        uint64_t safe;

        buf_text(&text, fronts[i]);
        for (int n = 0; n < 100000; n++)
            buf_char(&text, i % 2 ? ' ' : 'x');
        read_text(i < 2 ? J : H, buf_slice(&text), 1000, &f, &safe);
        assert_true(slice_starts(buf_slice(&f.text), slice_of(found[i]))); /* "?": where that leads nobody knows */
        assert_true(safe == buf_len(&text));
        buf_free(&text);
        buf_free(&f.text);
    }
}

static void what_lies_too_deep_is_not_read(void **state)
{
    struct found f = {0};
    struct buf text = {0};
    uint64_t safe;

    (void)state;
    for (int n = 0; n < 100000; n++)
        buf_text(&text, "[{\"a\":");
    buf_text(&text, "{\"dist\":{\"tarball\":\"https://a.test/\"}}");
    read_text(J, buf_slice(&text), 0, &f, &safe);
    assert_true(slice_is(buf_slice(&f.text), "unread\n"));
    buf_free(&text);
    buf_free(&f.text);
}

static void a_name_without_end_is_none_of_ours(void **state)
{
    struct found f = {0};
    struct buf text = {0};
    uint64_t safe;

    (void)state;
    buf_text(&text, "{\"dist\":{\"");
    for (int n = 0; n < 100000; n++)
        buf_text(&text, "tarball");
    buf_text(&text, "\":\"https://a.test/\",\"tarball\":\"https://b.test/\"}}");
    read_text(J, buf_slice(&text), 7, &f, &safe);
    assert_true(slice_is(buf_slice(&f.text), "dist.tarball https://b.test:443\n"));
    buf_free(&text);
    buf_free(&f.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads_send_on),
        cmocka_unit_test(the_type_says_how_to_read),
        cmocka_unit_test(several_types_are_read_together),
        cmocka_unit_test(the_first_letter_says_what_nothing_else_does),
        cmocka_unit_test(contents_send_on_however_they_are_cut),
        cmocka_unit_test(nothing_of_a_refused_reference_is_safe),
        cmocka_unit_test(a_value_without_end_is_judged_by_its_beginning),
        cmocka_unit_test(what_lies_too_deep_is_not_read),
        cmocka_unit_test(a_name_without_end_is_none_of_ours),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
