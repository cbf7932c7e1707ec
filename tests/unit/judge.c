/* Judges of the audit, on canned answers: what was sent is left out, what came back is here. No service, no network. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "audit/plain.h"
#include "audit/probes.h"
#include "audit/state.h"

#define MANIFEST                                                                                                                              \
    "owner: { name: us, statement: ours }\n"                                                                                                  \
    "listener: { addresses: [127.0.0.21], outside: unlisted.test, inside: internal.test, bare: 127.0.0.21 }\n"                                \
    "upstream: { host: upstream.test, addresses: [\"127.0.0.20:80\"] }\n"                                                                     \
    "services:\n  s: { url: \"http://127.0.0.1\", credential: { from: \"env:EXEAT_AUDIT_TEST\" }, hands-to: [friend.test] }\n"

#define SECRET "good-credential-0123456789"
#define NONCE "xabcdefghij012345678"
#define OTHER_NONCE "xnopqrstuvwxyz123456"
#define JSON "Content-Type: application/json\r\n"
#define BEARER "WWW-Authenticate: Bearer\r\n"
#define HIT "GET /" NONCE " HTTP/1.1\r\nHost: unlisted.test\r\n"

enum { TURNS = 6 };

struct canned {
    int status; /* 0: it ends the list; below 0: an outcome, negated */
    const char *fields, *body;
    int tag;
    enum who who;
};

/* A path with what was asked in it: for turns whose tag says so. */
enum { NAMED = 1 << 24 /* beside the tag */ };

struct row {
    const char *name, *check;
    struct canned none, good; /* baselines; status 0: there is none */
    struct canned turns[TURNS];
    const char *hit, *upstream_hit; /* NULL: nobody came */
    enum verdict verdict;
};

#define SHUT {401, BEARER, "", 0, WHO_NOBODY}
#define LET_IN {200, JSON, "{\"name\":\"x\"}", 0, WHO_NOBODY}
#define NO_GOOD {0, NULL, NULL, 0, WHO_NOBODY}

static const struct row rows[] = {
    {"a protected page that nobody gets", "AN-1", SHUT, LET_IN, {SHUT}, NULL, NULL, VERDICT_PASS},
    {"everybody gets it", "AN-1", LET_IN, LET_IN, {LET_IN}, NULL, NULL, VERDICT_OPEN},
    {"everybody gets it, and no credential exists", "AN-1", LET_IN, NO_GOOD, {LET_IN}, NULL, NULL, VERDICT_OPEN},
    {"everybody gets another page", "AN-1", SHUT, LET_IN, {{200, "Content-Type: text/html\r\n", "hi", 0, WHO_NOBODY}}, NULL, NULL, VERDICT_FAIL},
    {"nobody gets it, with the credential neither", "AN-1", SHUT, SHUT, {SHUT}, NULL, NULL, VERDICT_INCONCLUSIVE},
    {"no answer in time", "AN-1", SHUT, LET_IN, {{-OUTCOME_TIMEOUT, "", "", 0, WHO_NOBODY}}, NULL, NULL, VERDICT_INCONCLUSIVE},

    {"a catalogue", "AN-2", SHUT, LET_IN, {{200, JSON, "{\"repositories\":[]}", 0, WHO_NOBODY}}, NULL, NULL, VERDICT_FAIL},
    {"an empty search", "AN-2", SHUT, LET_IN, {{200, JSON, "{\"objects\":[],\"total\":0}", 1, WHO_NOBODY}}, NULL, NULL, VERDICT_PASS},
    {"a search that finds", "AN-2", SHUT, LET_IN, {{200, JSON, "{\"objects\":[1]}", 1, WHO_NOBODY}}, NULL, NULL, VERDICT_FAIL},
    {"a page that is no listing", "AN-2", SHUT, LET_IN, {{200, "Content-Type: text/html\r\n", "<p>welcome", 0, WHO_NOBODY}}, NULL, NULL, VERDICT_PASS},
    {"a directory of another program's", "AN-2", SHUT, LET_IN, {{200, "Content-Type: text/html\r\n", "<title>Directory listing for /</title>", 2, WHO_NOBODY}}, NULL, NULL, VERDICT_FAIL},
    {"a page that links to what is protected", "AN-2", SHUT, LET_IN, {{200, "Content-Type: text/x-nowhere\r\n", "<pre><a href=\"x\">x</a>", 2, WHO_NOBODY}}, NULL, NULL, VERDICT_FAIL},
    {"a page that links elsewhere", "AN-2", SHUT, LET_IN, {{200, "Content-Type: text/html\r\n", "<pre><a href=\"y\">x</a>", 2, WHO_NOBODY}}, NULL, NULL, VERDICT_PASS},
    {"a directory", "AN-2", SHUT, LET_IN, {{200, "Content-Type: text/html\r\n", "<h1>Index of /pool", 0, WHO_NOBODY}}, NULL, NULL, VERDICT_FAIL},

    {"an upload begun", "AN-3", SHUT, LET_IN, {{202, "Location: /u/1\r\n", "", TAG_WRITE, WHO_NOBODY}}, NULL, NULL, VERDICT_FAIL},
    {"an upload refused", "AN-3", SHUT, LET_IN, {{401, "", "", TAG_WRITE, WHO_NOBODY}}, NULL, NULL, VERDICT_PASS},
    {"an upload closed upon", "AN-3", SHUT, LET_IN, {{-OUTCOME_CLOSED, "", "", TAG_WRITE, WHO_NOBODY}}, NULL, NULL, VERDICT_PASS},
    {"an upload that breaks it", "AN-3", SHUT, LET_IN, {{500, "", "", TAG_WRITE, WHO_NOBODY}}, NULL, NULL, VERDICT_INCONCLUSIVE},

    {"an account made", "AN-4", SHUT, LET_IN, {{201, JSON, "{\"ok\":1,\"token\":\"t\"}", 0, WHO_NOBODY}}, NULL, NULL, VERDICT_FAIL},
    {"registration off", "AN-4", SHUT, LET_IN, {{409, JSON, "{}", 0, WHO_NOBODY}}, NULL, NULL, VERDICT_PASS},

    {"metrics", "AN-7", SHUT, LET_IN, {{200, "Content-Type: text/plain\r\n", "up 1", 0, WHO_NOBODY}}, NULL, NULL, VERDICT_FAIL},
    {"nothing listens", "AN-7", SHUT, LET_IN, {{-OUTCOME_REFUSED, "", "", 0, WHO_NOBODY}}, NULL, NULL, VERDICT_PASS},
    {"a page for every path", "AN-7", SHUT, LET_IN, {{200, "Content-Type: text/x-nowhere\r\n", "", 0, WHO_NOBODY}}, NULL, NULL, VERDICT_PASS},

    {"a token refused", "TV-1", SHUT, LET_IN, {SHUT}, NULL, NULL, VERDICT_PASS},
    {"a token accepted", "TV-1", SHUT, LET_IN, {SHUT, LET_IN}, NULL, NULL, VERDICT_FAIL},
    {"accepted, where what it opens is not there", "TV-10", SHUT, {404, JSON, "{\"errors\":[{\"code\":\"NAME_UNKNOWN\"}]}", 0, WHO_NOBODY}, {{404, JSON, "{\"errors\":[{\"code\":\"NAME_UNKNOWN\"}]}", 0, WHO_NOBODY}}, NULL, NULL, VERDICT_FAIL},
    {"refused with a body of the same form", "TV-10", {404, JSON, "{\"errors\":[{\"code\":\"DENIED\"}]}", 0, WHO_NOBODY}, {404, JSON, "{\"errors\":[{\"code\":\"NAME_UNKNOWN\"}]}", 0, WHO_NOBODY}, {{404, JSON, "{\"errors\":[{\"code\":\"DENIED\"}]}", 0, WHO_NOBODY}}, NULL, NULL, VERDICT_PASS},
    {"a token that breaks it", "TV-8", SHUT, LET_IN, {{500, "", "", 0, WHO_NOBODY}}, NULL, NULL, VERDICT_WEAK},
    {"expired: refused at once", "TV-2", SHUT, LET_IN, {SHUT, SHUT, SHUT}, NULL, NULL, VERDICT_PASS},
    {"expired: a leeway of less than 61 s", "TV-2", SHUT, LET_IN, {LET_IN, SHUT, SHUT}, NULL, NULL, VERDICT_PASS},
    {"expired: accepted at 61 s", "TV-2", SHUT, LET_IN, {LET_IN, LET_IN, SHUT}, NULL, NULL, VERDICT_WEAK},
    {"expired: accepted at 301 s", "TV-2", SHUT, LET_IN, {LET_IN, LET_IN, LET_IN}, NULL, NULL, VERDICT_FAIL},
    {"good in 300 s: accepted", "TV-3", SHUT, LET_IN, {LET_IN, LET_IN, LET_IN}, NULL, NULL, VERDICT_FAIL},
    {"issued in the future: not looked at", "TV-3", SHUT, LET_IN, {LET_IN, SHUT, LET_IN}, NULL, NULL, VERDICT_PASS},
    {"24 hours", "TV-15", SHUT, LET_IN, {LET_IN, SHUT}, NULL, NULL, VERDICT_WEAK},
    {"ten years", "TV-15", SHUT, LET_IN, {LET_IN, LET_IN}, NULL, NULL, VERDICT_FAIL},
    {"the unused last bits", "TV-7", SHUT, LET_IN, {SHUT, SHUT, {200, JSON, "{\"name\":\"x\"}", 1, WHO_NOBODY}}, NULL, NULL, VERDICT_PASS},
    {"claims edited", "TV-7", SHUT, LET_IN, {LET_IN, SHUT, SHUT}, NULL, NULL, VERDICT_FAIL},
    {"a key fetched from where the token says", "TV-9", SHUT, LET_IN, {SHUT}, HIT, NULL, VERDICT_FAIL},
    {"own keys refused, and nobody called", "TV-9", SHUT, LET_IN, {SHUT}, NULL, NULL, VERDICT_PASS},

    {"for another service too", "AS-2", SHUT, LET_IN, {LET_IN}, NULL, NULL, VERDICT_WEAK},
    {"a list is refused", "AS-2", SHUT, LET_IN, {SHUT}, NULL, NULL, VERDICT_PASS},

    {"a field that opens", "NT-1", {403, "", "", 0, WHO_NOBODY}, NO_GOOD, {{403, "", "", 0, WHO_NOBODY}, LET_IN}, NULL, NULL, VERDICT_FAIL},
    {"a field that changes nothing", "NT-1", {403, "", "", 0, WHO_NOBODY}, NO_GOOD, {{403, "", "", 0, WHO_NOBODY}}, NULL, NULL, VERDICT_PASS},
    {"a field that breaks it", "NT-1", SHUT, LET_IN, {{500, "", "", 0, WHO_NOBODY}}, NULL, NULL, VERDICT_WEAK},
    {"a field, and it is open anyway", "NT-1", LET_IN, LET_IN, {LET_IN}, NULL, NULL, VERDICT_PASS},
    {"a query is refused whatever it says", "NT-8", SHUT, LET_IN, {{503, "", "", 0, WHO_NOBODY}, {403, "", "", 2, WHO_NOBODY}, {503, "", "", 0, WHO_NOBODY}, {403, "", "", 1, WHO_NOBODY}}, NULL, NULL, VERDICT_PASS},
    {"a query makes it a PUT", "NT-8", SHUT, LET_IN, {{404, "", "", 0, WHO_NOBODY}, {404, "", "", 2, WHO_NOBODY}, {404, "", "", 0, WHO_NOBODY}, {201, "", "", 1, WHO_NOBODY}}, NULL, NULL, VERDICT_FAIL},
    {"a field makes it something that fails", "NT-8", SHUT, LET_IN, {{404, "", "", 0, WHO_NOBODY}, {404, "", "", 2, WHO_NOBODY}, {500, "", "", 0, WHO_NOBODY}, {404, "", "", 1, WHO_NOBODY}}, NULL, NULL, VERDICT_WEAK},
    {"the name in a link", "NT-3", SHUT, LET_IN, {{200, JSON, "{\"tarball\":\"http://" NONCE ".example/x\"}", 0, WHO_NOBODY}}, NULL, NULL, VERDICT_FAIL},
    {"the name in Location", "NT-3", SHUT, LET_IN, {{202, "Location: http://" NONCE ".example/u\r\n", "", 0, WHO_NOBODY}}, NULL, NULL, VERDICT_FAIL},
    {"the name in the words of an error", "NT-3", SHUT, LET_IN, {{421, "", "unknown host " NONCE ".example", 0, WHO_NOBODY}}, NULL, NULL, VERDICT_PASS},

    {"a whole URL: the listener is called", "RL-1", SHUT, LET_IN, {{200, "", "", 0, WHO_NOBODY}}, HIT "\r\n", NULL, VERDICT_FAIL},
    {"a whole URL: refused", "RL-1", SHUT, LET_IN, {{403, "", "", 0, WHO_NOBODY}}, NULL, NULL, VERDICT_PASS},
    {"a tunnel", "RL-2", SHUT, LET_IN, {{200, "", "", 0, WHO_NOBODY}}, NULL, NULL, VERDICT_FAIL},
    {"a page for every request is no tunnel", "RL-2", SHUT, LET_IN, {{200, "Content-Type: text/html\r\nContent-Length: 5\r\n", "hello", 0, WHO_NOBODY}}, NULL, NULL, VERDICT_PASS},
    {"with a length, and yet the listener was called", "RL-2", SHUT, LET_IN, {{200, "Content-Length: 0\r\n", "", 0, WHO_NOBODY}}, HIT "\r\n", NULL, VERDICT_FAIL},
    {"no tunnel", "RL-2", SHUT, LET_IN, {{405, "", "", 0, WHO_NOBODY}}, NULL, NULL, VERDICT_PASS},
    {"a tunnel that could not be made", "RL-2", SHUT, LET_IN, {{503, "", "", 0, WHO_NOBODY}}, NULL, NULL, VERDICT_INCONCLUSIVE},
    {"TRACE repeats", "RL-9", SHUT, LET_IN, {{200, "", "TRACE / HTTP/1.1\r\nX-Exeat: " NONCE, 0, WHO_NOBODY}}, NULL, NULL, VERDICT_FAIL},
    {"TRACE is refused with the same words", "RL-9", SHUT, LET_IN, {{405, "", NONCE, 0, WHO_NOBODY}}, NULL, NULL, VERDICT_PASS},
    {"ftp: it tried", "RL-10", SHUT, LET_IN, {{502, "", "", 0, WHO_NOBODY}}, NULL, NULL, VERDICT_WEAK},
    {"a search goes upstream", "RL-11", SHUT, LET_IN, {{200, "", "", 0, WHO_NOBODY}}, NULL, "GET /search?q=" NONCE " HTTP/1.1\r\n\r\n", VERDICT_FAIL},
    {"a search stays", "RL-11", SHUT, LET_IN, {{200, "", "", 0, WHO_NOBODY}}, NULL, NULL, VERDICT_PASS},

    {"fetched, with nothing of its own", "FU-2", SHUT, LET_IN, {{200, "", "", 0, WHO_NOBODY}}, HIT "\r\n", NULL, VERDICT_WEAK},
    {"fetched, with a credential of its own", "FU-2", SHUT, LET_IN, {{200, "", "", 0, WHO_NOBODY}}, HIT "Authorization: Bearer UPLINK\r\n\r\n", NULL, VERDICT_FAIL},
    {"fetched, with the caller's credential", "FU-2", SHUT, LET_IN, {{200, "", "", 0, WHO_NOBODY}}, HIT "Authorization: Bearer " SECRET "\r\n\r\n", NULL, VERDICT_WEAK},
    {"not fetched", "FU-2", SHUT, LET_IN, {{200, "", "", 0, WHO_NOBODY}}, NULL, NULL, VERDICT_PASS},
    {"a URL in a parameter", "FU-1", SHUT, LET_IN, {{200, "", "", 0, WHO_NOBODY}}, HIT "\r\n", NULL, VERDICT_FAIL},
    {"a redirect followed", "FU-6", SHUT, LET_IN, {{200, "", "", 0, WHO_NOBODY}}, HIT "\r\n", NULL, VERDICT_FAIL},

    {"Location elsewhere", "RD-1", SHUT, LET_IN, {{302, "Location: http://internal.test/x\r\n", "", 0, WHO_NOBODY}}, NULL, NULL, VERDICT_WEAK},
    {"Location without a scheme, elsewhere", "RD-1", SHUT, LET_IN, {{302, "Location: //internal.test/x\r\n", "", 0, WHO_NOBODY}}, NULL, NULL, VERDICT_WEAK},
    {"Location with a user in front of the host", "RD-1", SHUT, LET_IN, {{302, "Location: http://friend.test@internal.test/x\r\n", "", 0, WHO_NOBODY}}, NULL, NULL, VERDICT_WEAK},
    {"Location that would clear a terminal", "RD-1", SHUT, LET_IN, {{302, "Location: http://in\x1b[2J\x07ternal.test/x\r\n", "", 0, WHO_NOBODY}}, NULL, NULL, VERDICT_WEAK},
    {"Location that is no UTF-8", "RD-1", SHUT, LET_IN, {{302, "Location: http://int\xff\xc0\xaf.test/x\r\n", "", 0, WHO_NOBODY}}, NULL, NULL, VERDICT_WEAK},
    {"Location that turns what follows", "RD-1", SHUT, LET_IN, {{302, "Location: http://int\u202eernal.test/x\r\n", "", 0, WHO_NOBODY}}, NULL, NULL, VERDICT_WEAK},
    {"Location at a declared host", "RD-1", SHUT, LET_IN, {{302, "Location: http://friend.test:8080/x\r\n", "", 0, WHO_NOBODY}}, NULL, NULL, VERDICT_PASS},
    {"Location of its own", "RD-1", SHUT, LET_IN, {{302, "Location: /x\r\n", "", 0, WHO_NOBODY}}, NULL, NULL, VERDICT_PASS},
    {"Alt-Svc elsewhere", "RD-1", SHUT, LET_IN, {{200, "Alt-Svc: h2=\"other.test:443\"\r\n", "", 0, WHO_NOBODY}}, NULL, NULL, VERDICT_WEAK},
    {"Alt-Svc of its own", "RD-1", SHUT, LET_IN, {{200, "Alt-Svc: h2=\":443\"\r\n", "", 0, WHO_NOBODY}}, NULL, NULL, VERDICT_PASS},
    {"Link elsewhere, the second one", "RD-1", SHUT, LET_IN, {{200, "Link: </a>\r\nLink: <https://other.test/>; rel=next\r\n", "", 0, WHO_NOBODY}}, NULL, NULL, VERDICT_WEAK},
    {"signed for a day", "RD-2", SHUT, LET_IN, {{307, "Location: http://s.test/?X-Amz-Expires=86400&X-Amz-Signature=0\r\n", "", 0, WHO_NOBODY}}, NULL, NULL, VERDICT_WEAK},
    {"signed for five minutes", "RD-2", SHUT, LET_IN, {{307, "Location: http://s.test/?X-Amz-Expires=300&X-Amz-Signature=0\r\n", "", 0, WHO_NOBODY}}, NULL, NULL, VERDICT_PASS},
    {"a tarball elsewhere", "RD-3", SHUT, LET_IN, {{200, JSON, "{\"dist\":{\"tarball\":\"http://other.test/x\"}}", 0, WHO_NOBODY}}, NULL, NULL, VERDICT_WEAK},
    {"a home page elsewhere is no handoff", "RD-3", SHUT, LET_IN, {{200, JSON, "{\"homepage\":\"http://other.test/x\"}", 0, WHO_NOBODY}}, NULL, NULL, VERDICT_PASS},
    {"realm elsewhere", "RD-6", SHUT, LET_IN, {{401, "WWW-Authenticate: Bearer realm=\"http://other.test/t\"\r\n", "", 0, WHO_NOBODY}}, NULL, NULL, VERDICT_FAIL},
    {"realm of a friend's", "RD-6", SHUT, LET_IN, {{401, "WWW-Authenticate: Bearer realm=\"http://friend.test/t\"\r\n", "", 0, WHO_NOBODY}}, NULL, NULL, VERDICT_PASS},

    {"a redirect followed with its own credential", "RD-5", SHUT, LET_IN, {{200, "", "", 0, WHO_NOBODY}}, HIT "Authorization: Bearer UPLINK\r\n\r\n", NULL, VERDICT_FAIL},
    {"a redirect followed without", "RD-5", SHUT, LET_IN, {{200, "", "", 0, WHO_NOBODY}}, HIT "\r\n", NULL, VERDICT_PASS},

    {"what one wrote, the other reads", "XT-1", SHUT, LET_IN, {{201, "", "", TAG_WRITE, WHO_NOBODY}, {200, "", "exeat-audit-canary-" NONCE, TAG_READ, WHO_SECOND}}, NULL, NULL, VERDICT_FAIL},
    {"the name is in the path, and the content in the answer", "XT-1", SHUT, LET_IN, {{201, "", "", NAMED + TAG_WRITE, WHO_NOBODY}, {200, "", "exeat-audit-canary-" OTHER_NONCE, NAMED + TAG_READ, WHO_SECOND}}, NULL, NULL, VERDICT_FAIL},
    {"an answer repeats its path, which the other gave", "XT-1", SHUT, LET_IN, {{200, "", "", NAMED + TAG_WRITE, WHO_NOBODY}, {200, "", "the auditor's page for /w/" NONCE, NAMED + TAG_READ, WHO_SECOND}}, NULL, NULL, VERDICT_PASS},
    {"anybody gets a page that repeats the path", "CN-3", SHUT, LET_IN, {{200, "", "", NAMED + TAG_WRITE, WHO_NOBODY}, {200, "Content-Type: text/x-nowhere\r\n", "no page /w/" NONCE, NAMED + TAG_READ, WHO_NOBODY}}, NULL, NULL, VERDICT_PASS},
    {"the writer reads it, anybody a login page", "CN-3", SHUT, LET_IN, {{200, "", "", NAMED + TAG_WRITE, WHO_FIRST}, {200, "", "log in", NAMED + TAG_READ, WHO_NOBODY}, {200, "", OTHER_NONCE, NAMED + TAG_WRITER, WHO_FIRST}}, NULL, NULL, VERDICT_PASS},
    {"taken, and nobody sees where it is", "CN-3", SHUT, LET_IN, {{200, "", "", NAMED + TAG_WRITE, WHO_FIRST}, {200, "", "?", NAMED + TAG_READ, WHO_NOBODY}, {200, "", "?", NAMED + TAG_WRITER, WHO_FIRST}}, NULL, NULL, VERDICT_INCONCLUSIVE},
    {"what one wrote, the other does not read", "XT-1", SHUT, LET_IN, {{201, "", "", TAG_WRITE, WHO_NOBODY}, {404, "", "", TAG_READ, WHO_SECOND}}, NULL, NULL, VERDICT_PASS},
    {"nothing could be written", "XT-1", SHUT, LET_IN, {{403, "", "", TAG_WRITE, WHO_NOBODY}}, NULL, NULL, VERDICT_PASS},
    {"the write broke it", "XT-1", SHUT, LET_IN, {{500, "", "", TAG_WRITE, WHO_NOBODY}}, NULL, NULL, VERDICT_INCONCLUSIVE},
    {"mounted", "XT-3", SHUT, LET_IN, {{201, "", "", 1, WHO_NOBODY}}, NULL, NULL, VERDICT_FAIL},
    {"an upload of its own instead", "XT-3", SHUT, LET_IN, {{202, "", "", 1, WHO_NOBODY}}, NULL, NULL, VERDICT_PASS},
    {"X-Cache tells", "XT-4", SHUT, LET_IN, {{200, "", "", 0, WHO_NOBODY}, {200, "X-Cache: HIT\r\n", "", 0, WHO_NOBODY}, {200, "X-Cache: MISS\r\n", "", 0, WHO_NOBODY}}, NULL, NULL, VERDICT_WEAK},
    {"X-Cache says the same of both", "XT-4", SHUT, LET_IN, {{200, "", "", 0, WHO_NOBODY}, {200, "X-Cache: MISS\r\n", "", 0, WHO_NOBODY}, {200, "X-Cache: MISS\r\n", "", 0, WHO_NOBODY}}, NULL, NULL, VERDICT_PASS},
    {"one principal", "XT-5", SHUT, LET_IN, {{200, "", "me", 0, WHO_NOBODY}, {200, "", "me", 0, WHO_NOBODY}}, NULL, NULL, VERDICT_FAIL},
    {"two principals", "XT-5", SHUT, LET_IN, {{200, "", "me", 0, WHO_NOBODY}, {200, "", "you", 0, WHO_NOBODY}}, NULL, NULL, VERDICT_PASS},

    {"published", "PW-1", SHUT, LET_IN, {{201, "", "", TAG_WRITE, WHO_NOBODY}}, NULL, NULL, VERDICT_FAIL},
    {"a page for every path and method", "PW-1", SHUT, LET_IN, {{200, "Content-Type: text/x-nowhere\r\n", "", TAG_WRITE, WHO_NOBODY}}, NULL, NULL, VERDICT_INCONCLUSIVE},
    {"the same, and the upstream heard of it", "PW-1", SHUT, LET_IN, {{200, "Content-Type: text/x-nowhere\r\n", "", TAG_WRITE, WHO_NOBODY}}, NULL, "PUT /" NONCE " HTTP/1.1\r\n\r\n", VERDICT_FAIL},
    {"a DELETE gets the page for every path", "PW-3", SHUT, LET_IN, {{200, "Content-Type: text/x-nowhere\r\n", "", 1, WHO_FIRST}}, NULL, NULL, VERDICT_INCONCLUSIVE},
    {"content gets the page for every path", "UP-1", SHUT, LET_IN, {{200, "Content-Type: text/x-nowhere\r\n", "", 1048576, WHO_FIRST}}, NULL, NULL, VERDICT_INCONCLUSIVE},
    {"not published", "PW-1", SHUT, LET_IN, {{403, "", "", TAG_WRITE, WHO_NOBODY}}, NULL, NULL, VERDICT_PASS},
    {"deleted", "PW-3", SHUT, LET_IN, {{202, "", "", 1, WHO_FIRST}}, NULL, NULL, VERDICT_FAIL},
    {"404 where nobody gets 401", "PW-3", SHUT, LET_IN, {{404, "", "", 1, WHO_FIRST}, {401, "", "", 0, WHO_NOBODY}}, NULL, NULL, VERDICT_WEAK},
    {"PUT advertised", "PW-6", SHUT, LET_IN, {{200, "Allow: GET, PUT\r\n", "", 0, WHO_NOBODY}}, NULL, NULL, VERDICT_WEAK},
    {"GET advertised", "PW-6", SHUT, LET_IN, {{200, "Allow: GET, HEAD\r\n", "", 0, WHO_NOBODY}}, NULL, NULL, VERDICT_PASS},
    {"100 alone", "PW-7", SHUT, LET_IN, {{100, "", "", 0, WHO_NOBODY}}, NULL, NULL, VERDICT_INCONCLUSIVE},

    {"an error page repeats the credential", "CR-1", SHUT, LET_IN, {{404, "", "you said exeat-audit-canary-" NONCE, 0, WHO_NOBODY}}, NULL, NULL, VERDICT_FAIL},
    {"in percent signs", "CR-1", SHUT, LET_IN, {{404, "", "%63%61%6e%61%72%79%2d%78%61%62%63%64%65%66%67%68%69%6a%30%31%32%33%34%35%36%37%38", 0, WHO_NOBODY}}, NULL, NULL, VERDICT_FAIL},
    {"an error page", "CR-1", SHUT, LET_IN, {{404, "", "not found", 0, WHO_NOBODY}}, NULL, NULL, VERDICT_PASS},

    {"kept against max-age alone", "CI-1", SHUT, LET_IN, {{200, "", "private to a", 1, WHO_NOBODY}, {200, "", "private to b", 1, WHO_NOBODY}, {200, "", "private to a", 1, WHO_NOBODY}}, NULL, NULL, VERDICT_FAIL},
    {"kept because it is public", "CI-1", SHUT, LET_IN, {{200, "", "private to a", 2, WHO_NOBODY}, {200, "", "private to b", 2, WHO_NOBODY}, {200, "", "private to a", 2, WHO_NOBODY}}, NULL, NULL, VERDICT_WEAK},
    {"each asked anew", "CI-1", SHUT, LET_IN, {{200, "", "private to a", 1, WHO_NOBODY}, {200, "", "private to b", 1, WHO_NOBODY}, {401, "", "", 1, WHO_NOBODY}}, NULL, NULL, VERDICT_PASS},
    {"one cookie for two", "CI-2", SHUT, LET_IN, {{200, "Set-Cookie: a=1\r\n", "cookie 1", 0, WHO_NOBODY}, {200, "Set-Cookie: a=1\r\n", "cookie 1", 0, WHO_NOBODY}}, NULL, NULL, VERDICT_FAIL},
    {"the page without its cookie", "CI-2", SHUT, LET_IN, {{200, "Set-Cookie: a=1\r\n", "cookie 1", 0, WHO_NOBODY}, {200, "", "cookie 1", 0, WHO_NOBODY}}, NULL, NULL, VERDICT_FAIL},
    {"a cookie each", "CI-2", SHUT, LET_IN, {{200, "Set-Cookie: a=1\r\n", "cookie 1", 0, WHO_NOBODY}, {200, "Set-Cookie: a=2\r\n", "cookie 2", 0, WHO_NOBODY}}, NULL, NULL, VERDICT_PASS},
    {"no-store kept", "CI-5", SHUT, LET_IN, {{200, "", "fresh 1", 0, WHO_NOBODY}, {200, "", "fresh 1", 0, WHO_NOBODY}}, NULL, NULL, VERDICT_FAIL},
    {"no-store honoured", "CI-5", SHUT, LET_IN, {{200, "", "fresh 1", 0, WHO_NOBODY}, {200, "", "fresh 2", 0, WHO_NOBODY}}, NULL, NULL, VERDICT_PASS},

    {"a mebibyte is taken", "UP-1", SHUT, LET_IN, {{201, "", "", 1024, WHO_FIRST}, {200, "", "", TAG_REMOVE, WHO_FIRST}, {201, "", "", 1048576, WHO_FIRST}}, NULL, NULL, VERDICT_FAIL},
    {"a kibibyte is taken", "UP-1", SHUT, LET_IN, {{201, "", "", 1024, WHO_FIRST}, {413, "", "", 65536, WHO_FIRST}}, NULL, NULL, VERDICT_WEAK},
    {"an upload begun and refused then", "UP-1", SHUT, LET_IN, {{202, "", "", TAG_WRITE, WHO_FIRST}, {413, "", "", 1024, WHO_FIRST}}, NULL, NULL, VERDICT_PASS},
    {"content that breaks it", "UP-1", SHUT, LET_IN, {{500, "", "", 1024, WHO_FIRST}}, NULL, NULL, VERDICT_INCONCLUSIVE},
    {"any JSON", "UP-4", SHUT, LET_IN, {{404, "", "", 0, WHO_NOBODY}, {200, "", "", 0, WHO_NOBODY}}, NULL, NULL, VERDICT_FAIL},
    {"JSON that fails behind it", "UP-4", SHUT, LET_IN, {{404, "", "", 0, WHO_NOBODY}, {500, "", "", 0, WHO_NOBODY}}, NULL, NULL, VERDICT_WEAK},
    {"no JSON", "UP-4", SHUT, LET_IN, {{404, "", "", 0, WHO_NOBODY}, {404, "", "", 0, WHO_NOBODY}}, NULL, NULL, VERDICT_PASS},
    {"another's page shows what another tenant asked for", "XT-7", SHUT, LET_IN, {{404, "", "", 0, WHO_FIRST}, {200, "", NONCE, 1, WHO_SECOND}}, NULL, NULL, VERDICT_FAIL},
    {"another's page shows the name", "CN-1", SHUT, LET_IN, {{200, "", NONCE, 2, WHO_NOBODY}}, NULL, NULL, VERDICT_FAIL},
    {"one's own error page shows it", "CN-1", SHUT, LET_IN, {{404, "", NONCE, 1, WHO_NOBODY}, {200, "", "", 2, WHO_NOBODY}}, NULL, NULL, VERDICT_PASS},
    {"a canary came out", "CN-4", SHUT, LET_IN, {{200, "", "", 0, WHO_NOBODY}}, HIT "\r\n", NULL, VERDICT_FAIL},
};

static struct turn *make(const struct canned *c)
{
    struct turn *x;

    if (!c->status)
        return NULL;
    x = turn_new(&(struct probe){.path = c->tag >= NAMED ? "/w/" NONCE : "/x", .tag = c->tag % NAMED, .who = c->who, .variant = "v"});
    x->outcome = c->status < 0 ? (enum outcome)-c->status : OUTCOME_ANSWERED;
    if (c->status < 0)
        return x;
    x->status = c->status;
    buf_printf(&x->head, "HTTP/1.1 %d X\r\n%s\r\n", c->status, c->fields);
    buf_text(&x->body, c->body);
    return x;
}

static const struct check *find(const char *id)
{
    const struct check_group *g;

    for (size_t i = 0; (g = check_group_at(i)); i++)
        for (size_t j = 0; j < g->n; j++)
            if (slice_is(slice_of(g->checks[j].id), id))
                return &g->checks[j];
    fail_msg("no check %s", id);
    return NULL;
}

static struct hit *one_hit(const char *text)
{
    struct hit *h = calloc(1, sizeof *h);

    addr_parse(SLICE("127.0.0.21:80"), &h->at);
    buf_text(&h->bytes, text);
    return h;
}

static void try_row(const struct row *r, const struct target *t)
{
    struct audit a = {.target = t, .n_baselines = 1};
    struct evidence e = {.audit = &a, .target = t, .n_nonces = 2, .nonces = {NONCE, OTHER_NONCE}};
    struct finding f = {0};
    const struct check *c = find(r->check);

    a.baselines[0] = (struct baseline){.path = (char *)"/x", .none = make(&r->none), .good = make(&r->good)};
    a.nowhere = make(&(struct canned){200, "Content-Type: text/x-nowhere\r\n", "", 0, WHO_NOBODY});
    a.own = (struct evidence){.n = 3, .list = {a.baselines[0].none, a.nowhere, a.baselines[0].good}};
    for (size_t i = 0; i < TURNS && r->turns[i].status; i++)
        e.list[e.n++] = make(&r->turns[i]);
    if (r->hit)
        e.hits = one_hit(r->hit), e.n_hits = 1;
    if (r->upstream_hit)
        e.upstream_hits = one_hit(r->upstream_hit), e.n_upstream_hits = 1;
    c->judge(&e, &f);
    if (f.verdict != r->verdict)
        fail_msg("%s: %s: %s, not %s: %s", r->check, r->name, verdict_name(f.verdict), verdict_name(r->verdict), f.note);
    for (const char *at = f.note; *at; at += plain_character(at))
        if (!plain_character(at))
            fail_msg("%s: %s: its note is no plain text: %s", r->check, r->name, f.note);
    evidence_clear(&e);
    evidence_clear(&a.own);
}

static void what_answers_mean(void **state)
{
    struct fault why = {0};
    struct manifest *m;
    struct target *t;

    (void)state;
    setenv("EXEAT_AUDIT_TEST", SECRET, 1);
    m = manifest_parse(SLICE(MANIFEST), "manifest.yaml", "/", &why);
    t = m ? target_open(m, "s", &why) : NULL;
    if (!t)
        fail_msg("%s", why.text);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        try_row(&rows[i], t);
    target_free(t);
    manifest_free(m);
}

static void the_catalogue(void **state)
{
    const struct check_group *g;
    size_t reads_only = 0;

    (void)state;
    assert_int_equal(check_count(), 129);
    for (size_t i = 0; (g = check_group_at(i)); i++)
        for (size_t j = 0; j < g->n; j++) {
            const struct check *c = &g->checks[j];
            char prefix[8];

            snprintf(prefix, sizeof prefix, "%s-", g->prefix);
            assert_true(slice_starts(slice_of(c->id), slice_of(prefix)));
            if ((size_t)strtoul(c->id + strlen(prefix), NULL, 10) != j + 1)
                fail_msg("%s is out of order", c->id);
            if (!c->title[0] || c->title[strlen(c->title) - 1] != '?')
                fail_msg("%s: what is asked?", c->id);
            reads_only += (c->run & ~RUN_LAST) == 0;
        }
    assert_int_equal(reads_only, 46);
}

/* Whether AS-10 applies, without a request: {answer of nobody's, n/a or not-run}. */
static void tenants_without_credentials(void **state)
{
    static const struct {
        struct canned none;
        bool applies;
    } services[] = {{{200, "", "", 0, WHO_NOBODY}, false}, {{403, "", "", 0, WHO_NOBODY}, false}, {SHUT, true}, {{407, "", "", 0, WHO_NOBODY}, true}, {{-OUTCOME_TIMEOUT, "", "", 0, WHO_NOBODY}, true}};
    static const struct target bare;

    (void)state;
    for (size_t i = 0; i < sizeof services / sizeof *services; i++) {
        struct audit a = {.target = &bare, .n_baselines = 1, .baselines = {{.path = (char *)"/x", .none = make(&services[i].none)}}};
        struct evidence e = {.audit = &a, .target = &bare};

        find("AS-10")->send(&e);
        assert_int_equal(e.n, 0);
        assert_int_equal(e.not_applicable[0] == 0, services[i].applies);
        assert_int_equal(e.missing[0] != 0, services[i].applies);
        turn_free(a.baselines[0].none);
        evidence_clear(&e);
    }
}

static void hosts_in_urls(void **state)
{
    static const struct {
        const char *url, *host;
    } urls[] = {{"http://a.test/x", "a.test"}, {"https://a.test:8443", "a.test"}, {"//a.test/x", "a.test"}, {"/x//a.test", ""}, {"/x", ""}, {"http://u:p@a.test/", "a.test"}, {"http://[::1]:80/", "::1"}, {"http://a.test\\@b.test/", "a.test"}, {"", ""}};

    (void)state;
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++)
        if (!slice_is(host_of_url(slice_of(urls[i].url)), urls[i].host))
            fail_msg("%s", urls[i].url);
}

static void what_is_found_in_a_text(void **state)
{
    static const struct {
        const char *name, *hay, *needle;
        bool found;
    } texts[] = {
        {"as it is", "a secret-0123 b", "secret-0123", true},
        {"in capitals", "a SECRET-0123 b", "secret-0123", true},
        {"in base64, at each place of three: first", "c2VjcmV0LTAxMjM=", "secret-0123", true},
        {"second", "eHNlY3JldC0wMTIzeA==", "secret-0123", true},
        {"third", "eHhzZWNyZXQtMDEyM3g=", "secret-0123", true},
        {"in hexadecimal", "7365637265742d30313233", "secret-0123", true},
        {"in percent signs", "%73%65%63%72%65%74%2D%30%31%32%33", "secret-0123", true},
        {"a part of it", "secret-012", "secret-0123", false},
        {"nothing", "", "secret-0123", false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (text_holds_encoded(slice_of(texts[i].hay), slice_of(texts[i].needle)) != texts[i].found)
            fail_msg("%s", texts[i].name);
}

static void what_is_made_plain(void **state)
{
    static const struct {
        const char *name, *text, *plain;
    } texts[] = {
        {"as it is", "it says \"no\": 403", "it says \"no\": 403"},
        {"letters beyond ASCII", "gr\u00fc\u00df \u4f60 \U0001f600", "gr\u00fc\u00df \u4f60 \U0001f600"},
        {"controls", "a\x1b[2J\r\n\x7f", "a?[2J???"},
        {"a C1 control", "a\xc2\x9b" "2J", "a??2J"},
        {"no UTF-8", "a\xff\xc0\xaf z", "a??? z"},
        {"a surrogate", "a\xed\xa0\x80z", "a???z"},
        {"the direction of what follows", "a\u202ez", "a???z"},
        {"what is cut off in two, three and four bytes", "a\xc3", "a"},
        {"after one of three", "a\xe4", "a"},
        {"after two of three", "a\xe4\xbd", "a"},
        {"after three of four", "a\xf0\x9f\x98", "a"},
        {"what only looks cut off", "a\xe4z", "a?z"},
        {"nothing", "", ""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char text[64];

        snprintf(text, sizeof text, "%s", texts[i].text);
        plain_make(text);
        if (strcmp(text, texts[i].plain) != 0)
            fail_msg("%s: %s", texts[i].name, text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_answers_mean), cmocka_unit_test(the_catalogue), cmocka_unit_test(tenants_without_credentials), cmocka_unit_test(hosts_in_urls), cmocka_unit_test(what_is_found_in_a_text), cmocka_unit_test(what_is_made_plain)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
