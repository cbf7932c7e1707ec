"""
What the real programs of the lab answer, shown by plain requests: each row is a line of the tables that the answer sheet was read
off, with one answer for each setting. It proves the fixtures before the audit is judged on them.
"""
import hashlib
import json
from urllib.parse import urlsplit

import pytest

import acng
import nginx
import registry
import squid
import verdaccio
from fixture import basic
from tokens import Key, jwt

CANARY = "CANARY-0123456789abcdef"


def status(method, target, **more):
    return lambda f: f.ask(method, target, **more).status


def arrived(f, target, host, has=None, **fields):
    """(the status, whether host heard of it)"""
    before = len(f.upstream.seen(host, has))
    answer = f.ask("GET", target, **fields)
    return answer.status, len(f.upstream.seen(host, has)) > before


# ---- apt-cacher-ng: debian-default, pass-through, hardened

def acng_two_hosts(f):
    a = f.ask("GET", "/unlisted.test/pool/two/")
    return a.status, [len(s.fields("host")) for s in f.upstream.seen("unlisted.test", "/pool/two/")]


def acng_redirect(f):
    a = f.ask("GET", "/fxrep/pool/to/internal.test/r_1.0_all.deb")
    return a.status, a.field("location"), len(f.upstream.seen("internal.test", "/pool/r_1.0_all.deb"))


def acng_forwards_authorization(f):
    a = f.ask("GET", "/fxrep/pool/auth_1.0_all.deb", Authorization="Bearer " + CANARY)
    return a.status, [s.field("authorization") for s in f.upstream.seen("upstream.test", "/pool/auth_1.0_all.deb")]


ACNG = [
    ("an unlisted host in the path", lambda f: arrived(f, "/unlisted.test/pool/a_1.0_all.deb", "unlisted.test", "/pool/a_1"),
     (200, True), (200, True), (403, False)),
    ("an unlisted host in absolute form", lambda f: arrived(f, "http://unlisted.test/pool/b_1.0_all.deb", "unlisted.test", "/pool/b_1"),
     (200, True), (200, True), (403, False)),
    ("a loopback address", lambda f: arrived(f, "http://127.0.0.30/pool/c_1.0_all.deb", "127.0.0.30"), (200, True), (200, True), (403, False)),
    ("a redirect of the upstream to an internal host", acng_redirect, (200, None, 1), (200, None, 1),
     (302, "http://internal.test/pool/r_1.0_all.deb", 0)),
    ("a canary in the path of an index of an unlisted host",
     lambda f: arrived(f, f"/unlisted.test/dists/{CANARY}/InRelease", "unlisted.test", CANARY), (200, True), (200, True), (403, False)),
    ("port 9002", lambda f: arrived(f, "/unlisted.test:9002/pool/d_1.0_all.deb", "unlisted.test", "/pool/d_1"),
     (403, False), (200, True), (403, False)),
    ("CONNECT to port 443", status("CONNECT", "unlisted.test:443"), 403, 200, 403),
    ("CONNECT to port 9002", status("CONNECT", "unlisted.test:9002"), 403, 200, 403),
    ("a text file", status("GET", "/unlisted.test/pool/a.txt"), 403, 403, 403),
    ("a query", status("GET", "/unlisted.test/pool/q_1.0_all.deb?q=1"), 403, 403, 403),
    ("the report", status("GET", "/acng-report.html"), 200, 200, 403),
    ("the report's trace", status("GET", "/acng-report.html?doTraceStart=1"), 200, 200, 403),
    ("the report's removal", status("GET", "/acng-report.html?doJustRemove=1"), 200, 200, 403),
    ("a directory, passed on with two Host fields", acng_two_hosts, (200, [2]), (200, [2]), (403, [])),
    ("POST closes without a reply", status("POST", "/fxrep/pool/ok_1.0_all.deb", body="x"), 0, 0, 0),
    ("a package of the upstream", status("GET", "/fxrep/pool/ok_1.0_all.deb"), 200, 200, 200),
    ("a client's Authorization stays here", acng_forwards_authorization, (200, [None]), (200, [None]), (200, [None])),
]


# ---- squid: allow-all, example, hardened

def through(f, method, url, **fields):
    """As a client of a proxy asks, with the login when there is one."""
    login = {"Proxy_Authorization": basic(*f.basic)} if f.basic else {}
    return f.ask(method, url, **({"Host": urlsplit(url).netloc if "//" in url else url} | login | fields))


def by_proxy(method, *urls, **fields):
    return lambda f: [through(f, method, u, **fields).status for u in urls]


def squid_anonymous(f):
    a = f.ask("GET", "http://upstream.test/pool/an", Host="upstream.test")
    return a.status, (a.field("proxy-authenticate") or "").split(" ")[0]


def squid_trace(f):
    a = through(f, "TRACE", "http://upstream.test/x", Max_Forwards="0", Authorization="Bearer " + CANARY, Cookie="c=" + CANARY)
    return a.status, b"Authorization:" in a.body, f"Cookie: c={CANARY}".encode() in a.body


def twice(f, path, first, second):
    """What a second caller is told of a page that a first one has asked for: the status, whether it is the first one's."""
    a, b = (through(f, "GET", "http://upstream.test" + path, **fields) for fields in (first, second))
    return b.status, b.body == a.body, (b.field("x-cache") or "").split(" ")[0]


def squid_set_cookie(f):
    return twice(f, "/cookie/page", {"Cookie": "who=a"}, {"Cookie": "who=b"})


def squid_authorization(kind):
    return lambda f: twice(f, f"/auth/{kind}/page", {"Authorization": "Bearer A"}, {})


def squid_presence(f):
    for _ in range(2):
        a = through(f, "GET", "http://upstream.test/cookie/presence", Cookie="who=a")
    return (a.field("x-cache-lookup") or "").split(" ")[0]


def squid_reflects(f):
    a = through(f, "GET", f"http://nowhere.test/{'x'}", Authorization="Bearer " + CANARY, Cookie="c=" + CANARY)
    return a.status in (403, 502, 503), CANARY.encode() in a.body


SQUID = [
    ("no credential", squid_anonymous, (200, ""), (200, ""), (407, "Basic")),
    ("a listed host", by_proxy("GET", "http://upstream.test/pool/ok"), [200], [200], [200]),
    ("an unlisted host", by_proxy("GET", "http://unlisted.test/pool/a"), [200], [200], [403]),
    ("CONNECT to port 443 of an unlisted host", by_proxy("CONNECT", "unlisted.test:443"), [200], [200], [403]),
    ("CONNECT to ports 22 and 9002", by_proxy("CONNECT", "unlisted.test:22", "unlisted.test:9002"), [200, 200], [403, 403], [403, 403]),
    ("loopback on port 8080, by address and by name", by_proxy("GET", "http://127.0.0.30:8080/a", "http://internal.test:8080/pool/a"),
     [404, 200], [404, 200], [403, 403]),
    ("link-local is tried", by_proxy("GET", "http://169.254.9.9/"), [503], [503], [403]),
    ("TRACE reflects the Cookie (Debian's update masks Authorization)", squid_trace, (200, True, True), (200, True, True), (403, False, False)),
    ("the cache manager through the proxy", by_proxy("GET", "http://squid.test:3128/squid-internal-mgr/menu"), [200], [200], [403]),
    ("a page with Set-Cookie, for a second tenant", squid_set_cookie, (200, True, "HIT"), (200, True, "HIT"), (200, False, "MISS")),
    ("Authorization and `public`, then anonymous", squid_authorization("public"), (200, True, "HIT"), (200, True, "HIT"), (401, False, "MISS")),
    ("Authorization and only max-age, then anonymous", squid_authorization("max-age"),
     (401, False, "MISS"), (401, False, "MISS"), (401, False, "MISS")),
    ("whether others have fetched it shows", squid_presence, "HIT", "HIT", "MISS"),
    ("a credential in an error page", squid_reflects, (True, False), (True, False), (True, False)),
]


# ---- nginx: weak, hardened

def nginx_pair(path, first, second):
    def probe(f):
        a, b = f.ask("GET", path, **first), f.ask("GET", path, **second)
        return b.status, b.body == a.body, b.field("x-cache")
    return probe


def nginx_forwarded_host(f):
    path = "/pool/fetch?forwarded" if f.setting == "hardened" else "/pool/forwarded_1.0_all.deb"
    f.ask("GET", path, X_Forwarded_Host="evil.example")
    plain = f.ask("GET", path)
    return [s.field("x-forwarded-host") for s in f.upstream.seen("upstream.test", path)][-1:], plain.field("x-cache")


def nginx_admin(f):
    return f.ask("GET", "/admin").status, f.ask("GET", "/admin", X_Forwarded_For="10.1.2.3").status


NGINX = [
    ("an unlisted host in Host", lambda f: arrived(f, "/pool/h_1.0_all.deb", "unlisted.test", Host="unlisted.test"), (200, True), (421, False)),
    ("an unlisted host in absolute form",
     lambda f: arrived(f, "http://unlisted.test/pool/i_1.0_all.deb", "unlisted.test", Host="unlisted.test"), (200, True), (421, False)),
    ("a host in the path", lambda f: arrived(f, "/fetch/internal.test/adm", "internal.test"), (200, True), (404, False)),
    ("a URL as parameter", lambda f: arrived(f, "/img?url=http://internal.test/adm", "internal.test"), (200, True), (404, False)),
    ("PUT", status("PUT", "/pool/put_1.0_all.deb", body="x"), 200, 404),
    ("a redirect of the upstream to an internal host",
     lambda f: (f.ask("GET", "/pool/to/internal.test/x_1.0_all.deb").status, f.ask("GET", "/pool/to/internal.test/x_1.0_all.deb").field("location")),
     (302, "http://internal.test/pool/x_1.0_all.deb"), (502, None)),
    ("a page with cookies, for a second tenant", nginx_pair("/cookie/page", {"Cookie": "a=1"}, {"Cookie": "b=1"}),
     (200, True, "HIT"), (200, False, "BYPASS")),
    ("a private page, then anonymous", nginx_pair("/auth/public/page", {"Authorization": "Bearer A"}, {}),
     (200, True, "HIT"), (401, False, "MISS")),
    ("X-Forwarded-Host is forwarded, and no part of the key", nginx_forwarded_host, (["evil.example"], "HIT"), ([None], "HIT")),
    ("/admin, and with X-Forwarded-For", nginx_admin, (403, 200), (404, 404)),
    ("a path out of an alias", lambda f: (f.ask("GET", "/static../secret.txt").status, b"secret" in f.ask("GET", "/static../secret.txt").body),
     (200, True), (404, False)),
    ("the status page", status("GET", "/nginx_status"), 200, 404),
    ("CONNECT", status("CONNECT", "unlisted.test:443"), 400, 400),
    ("a package of the upstream", status("GET", "/pool/ok_1.0_all.deb"), 200, 200),
]


# ---- verdaccio: 6.1.6-default, 6.1.6-publish-all, 6.10.4-hardened

def npm_document(name, text="", tarball=None):
    data = "aGk="  # "hi"
    dist = {"tarball": tarball or f"http://npm.example/{name}/-/{name}-1.0.0.tgz", "shasum": hashlib.sha1(b"hi").hexdigest()}
    version = {"name": name, "version": "1.0.0", "description": text, "dist": dist}
    files = {} if tarball else {f"{name}-1.0.0.tgz": {"content_type": "application/octet-stream", "data": data, "length": 2}}
    return json.dumps({"_id": name, "name": name, "description": text, "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version},
                       "_attachments": files})


def put(f, path, document, **fields):
    return f.ask("PUT", path, document, Content_Type="application/json", **fields)


def register(f, user):
    return put(f, f"/-/user/org.couchdb.user:{user}", json.dumps({"name": user, "password": "a-password-1", "type": "user"}))


def registered(f, user):
    """The token of a user who came by himself, as a field; nothing when that is closed."""
    a = register(f, user)
    return {"Authorization": "Bearer " + a.json()["token"]} if a.status == 201 else {}


def self_register(f):
    a = register(f, "newcomer")
    return a.status, "token" in a.json(), a.json().get("error")


def read_uplink(f, path, host, **fields):
    """What a read made the uplink fetch, and whether its token went along."""
    path = path.replace("HOST", host)
    a = f.ask("GET", path, **fields)
    return a.status, [verdaccio.UPLINK_TOKEN in (s.field("authorization") or "") for s in f.upstream.seen(host, path)][:1]


def message_board(f):
    token = registered(f, "writer")
    published = put(f, "/board", npm_document("board", CANARY), **token).status
    read = f.ask("GET", "/board"), f.ask("GET", "/-/v1/search?text=board"), f.ask("GET", "/-/verdaccio/data/packages")
    return published, [CANARY.encode() in a.body for a in read]


def delete_own(f):
    token = registered(f, "remover")
    put(f, "/gone", npm_document("gone"), **token)
    return f.ask("DELETE", "/gone/-rev/1", **token).status


def foreign_tarball(f):
    login = {"Authorization": basic(*f.basic)} if f.setting.endswith("hardened") else {}
    f.ask("GET", "/offpath", **login)
    return read_uplink(f, "/offpath/-/offpath-1.0.0.tgz", "internal.test", **login)


def published_tarball(f):
    token = registered(f, "pointer")
    put(f, "/pointer", npm_document("pointer", tarball="http://internal.test/pointer/-/pointer-1.0.0.tgz"), **token)
    login = token or {"Authorization": basic(*f.basic)}
    a = f.ask("GET", "/pointer/-/pointer-1.0.0.tgz", **login)
    return a.status in (403, 404), len(f.upstream.seen("internal.test", "/pointer/"))


def reflected_host(f):
    a = f.ask("GET", "/onpath", Host="evil.example", Authorization=basic(*f.basic))
    return a.status, b"evil.example" in a.body


VERDACCIO = [
    ("metadata, anonymous", status("GET", "/onpath"), 200, 200, 401),
    ("a tarball, anonymous", status("GET", "/onpath/-/onpath-1.0.0.tgz"), 200, 200, 401),
    ("a canary as a name goes upstream with the uplink's token", lambda f: read_uplink(f, "/canary-0123-exfil", "upstream.test"),
     (404, [True]), (404, [True]), (401, [])),
    ("anonymous publish", lambda f: put(f, "/anon", npm_document("anon")).status, 401, 201, 401),
    ("self-registration", self_register, (201, True, None), (201, True, None), (409, False, "user registration disabled")),
    ("what a self-made account publishes, anonymously in metadata, search, pages", message_board,
     (201, [True, True, True]), (201, [True, True, True]), (401, [False, False, False])),
    ("delete by that account", delete_own, 201, 201, 401),
    ("a tarball that the upstream's metadata puts on another host, and the token there", foreign_tarball,
     (200, [True]), (200, [True]), (200, [False])),
    ("a tarball that a client's metadata puts there", published_tarball, (True, 0), (True, 0), (True, 0)),
    ("Host in the links to tarballs", reflected_host, (200, True), (200, True), (200, False)),
    ("the text of a search goes upstream", lambda f: arrived(f, "/-/v1/search?text=" + CANARY, "upstream.test", CANARY),
     (200, True), (200, True), (200, True)),
    ("the audit endpoint", status("POST", "/-/npm/v1/security/advisories/bulk", body="{}", Content_Type="application/json"), 500, 404, 404),
    ("metadata, with a login", status("GET", "/onpath", Authorization=basic(verdaccio.USER, verdaccio.PASSWORD)), 200, 200, 200),
]


# ---- docker-registry: no-auth, pull-through, token-auth, hardened

def good(f):
    if f.setting == "token-auth":
        return {"Authorization": "Bearer " + f.issuer.token(access=[("t/a", ["pull", "push"])])}
    return {"Authorization": basic(*f.basic)} if f.basic else {}


def uploads(f):
    """Start, finish, read back anonymously; as anonymous as the setting lets it get."""
    start = f.ask("POST", "/v2/t/a/blobs/uploads/")
    if start.status != 202:
        return start.status, None, None
    at = urlsplit(start.field("location"))
    name = "sha256:" + hashlib.sha256(CANARY.encode()).hexdigest()
    put_blob = f.ask("PUT", f"{at.path}?{at.query}&digest={name}", CANARY, Content_Type="application/octet-stream")
    back = f.ask("GET", f"/v2/t/a/blobs/{name}")
    return put_blob.status, back.status, back.body == CANARY.encode()


def mounts(f):
    name = "sha256:" + hashlib.sha256(CANARY.encode()).hexdigest()
    uploads(f)
    before = f.ask("GET", f"/v2/t/b/blobs/{name}").status
    mount = f.ask("POST", f"/v2/t/b/blobs/uploads/?mount={name}&from=t/a").status
    return before, mount, f.ask("GET", f"/v2/t/b/blobs/{name}").status


def upload_location(**fields):
    def probe(f):
        a = f.ask("POST", "/v2/t/a/blobs/uploads/", **fields, **good(f))
        return a.status, "evil.example" in (a.field("location") or "")
    return probe


def foreign_layer(f):
    config, layer = b"{}", b"elsewhere"
    digests = ["sha256:" + hashlib.sha256(b).hexdigest() for b in (config, layer)]
    if (start := f.ask("POST", "/v2/t/f/blobs/uploads/")).status == 202:
        at = urlsplit(start.field("location"))
        f.ask("PUT", f"{at.path}?{at.query}&digest={digests[0]}", config, Content_Type="application/octet-stream")
    kind = "application/vnd.docker.distribution.manifest.v2+json"
    manifest = json.dumps({"schemaVersion": 2, "mediaType": kind,
                           "config": {"mediaType": "application/vnd.docker.container.image.v1+json", "size": 2, "digest": digests[0]},
                           "layers": [{"mediaType": "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip", "size": len(layer),
                                       "digest": digests[1], "urls": ["http://internal.test/layer"]}]})
    made = f.ask("PUT", "/v2/t/f/manifests/one", manifest, Content_Type=kind).status
    back = f.ask("GET", "/v2/t/f/manifests/one", Accept=kind)
    return made, b"http://internal.test/layer" in back.body


def realm_elsewhere(f):
    a = f.ask("GET", "/v2/lib/other/manifests/latest")
    wanted = basic(registry.UPSTREAM_USER, registry.UPSTREAM_PASSWORD)
    return a.status, {s.field("authorization") == wanted for s in f.upstream.seen("internal.test", "/token")}


def debug_page(path):
    def probe(f):
        return f.ask("GET", path, port=registry.DEBUG_PORT).status if f.world.is_open(registry.DEBUG_PORT) else "closed"
    return probe


REGISTRY = [
    ("GET /v2/, anonymous", status("GET", "/v2/"), 200, 200, 401, 401),
    ("the catalogue, anonymous", status("GET", "/v2/_catalog"), 200, 200, 401, 401),
    ("an upload, read back anonymously", uploads, (201, 200, True), (405, None, None), (401, None, None), (401, None, None)),
    ("an upload with a good login", lambda f: f.ask("POST", "/v2/t/a/blobs/uploads/", **good(f)).status, 202, 405, 202, 405),
    ("a blob of another repository, before and after a mount", mounts, (404, 201, 200), (404, 405, 404), (401, 401, 401), (401, 401, 401)),
    ("X-Forwarded-Host in Location", upload_location(X_Forwarded_Host="evil.example"), (202, True), (405, False), (202, True), (405, False)),
    ("Host in Location", upload_location(Host="evil.example"), (202, True), (405, False), (202, True), (405, False)),
    ("a manifest whose layer is elsewhere", foreign_layer, (201, True), (405, False), (401, False), (401, False)),
    ("the password for the upstream goes to the host of its realm", realm_elsewhere, (404, set()), (404, {True}), (401, set()), (401, set())),
    ("/debug/pprof", debug_page("/debug/pprof/"), 200, "closed", "closed", "closed"),
    ("/metrics", debug_page("/metrics"), 200, "closed", "closed", "closed"),
]


# ---- docker-registry's tokens

def bearer(make):
    return lambda i: "Bearer " + make(i)


def rogue(header):
    def make(i):
        key = Key()
        return jwt(key, i.claims(), i.header(kid=None, **header(key)))
    return make


def tampered(i):
    head, claims, mark = i.token().split(".")
    return ".".join((head, jwt(None, i.claims(access=[("t/b", ["push"])]), {}).split(".")[1], mark))


def der(certificate):
    import base64

    from cryptography.hazmat.primitives.serialization import Encoding
    return base64.b64encode(certificate.public_bytes(Encoding.DER)).decode()


def now():
    import time
    return int(time.time())


# 404: the token was accepted, and the repository is empty.
TOKENS = [
    ("good", lambda i: i.token(), 404),
    ("expired for 5 s", lambda i: i.token(exp=now() - 5), 404),
    ("expired for 50 s", lambda i: i.token(exp=now() - 50), 404),
    ("expired for 90 s", lambda i: i.token(exp=now() - 90), 401),
    ("not before in 30 s", lambda i: i.token(nbf=now() + 30), 404),
    ("not before in 120 s", lambda i: i.token(nbf=now() + 120), 401),
    ("for another audience", lambda i: i.token(aud="other.test"), 401),
    ("of another issuer", lambda i: i.token(iss="other.test"), 401),
    ("alg none", lambda i: i.token(key=None, header={"alg": "none"}), 401),
    ("HS256 keyed with the certificate", lambda i: i.token(key=i.pem.read_bytes(), header={"alg": "HS256"}), 401),
    ("a rogue x5c", rogue(lambda key: {"x5c": [der(key.certificate())]}), 401),
    ("a rogue jwk", rogue(lambda key: {"jwk": key.jwk}), 401),
    ("an odd kid", lambda i: i.token(header={"kid": "../../etc/passwd"}), 401),
    ("tampered with", tampered, 401),
    ("without exp", lambda i: i.token(exp=None), 401),
    ("an audience list that has us", lambda i: i.token(aud=["registry.test", "other.test"]), 401),
    ("an unknown crit", lambda i: i.token(header={"crit": ["unknown"], "unknown": 1}), 404),
    ("typ at+jwt", lambda i: i.token(header={"typ": "at+jwt"}), 404),
    ("typ secevent+jwt", lambda i: i.token(header={"typ": "secevent+jwt"}), 404),
    ("bound by cnf, unproven", lambda i: i.token(cnf={"x5t#S256": "bm90LXRoaXMtb25l"}), 404),
    ("for ten years", lambda i: i.token(exp=now() + 10 * 365 * 86400), 404),
]


def ask_with(f, token, method="GET", target="/v2/t/a/tags/list", **more):
    return f.ask(method, target, Authorization="Bearer " + token, **more)


@pytest.mark.parametrize("name, make, wanted", TOKENS, ids=[t[0].replace(" ", "-") for t in TOKENS])
def test_token(lab, name, make, wanted):
    f = lab.get("registry", "token-auth")
    assert ask_with(f, make(f.issuer)).status == wanted


def test_the_same_token_three_times(lab):
    f = lab.get("registry", "token-auth")
    token = f.issuer.token()
    assert [ask_with(f, token).status for _ in range(3)] == [404] * 3


SCOPES = [
    ("pull opens no push", "POST", "/v2/t/a/blobs/uploads/"),
    ("repository a opens no b", "GET", "/v2/t/b/tags/list"),
    ("b may not mount from a", "POST", "/v2/t/b/blobs/uploads/?mount=sha256:" + "0" * 64 + "&from=t/a"),
    ("nor the catalogue", "GET", "/v2/_catalog"),
]


@pytest.mark.parametrize("name, method, target", SCOPES, ids=[s[0].replace(" ", "-") for s in SCOPES])
def test_scope(lab, name, method, target):
    f = lab.get("registry", "token-auth")
    a = ask_with(f, f.issuer.token(), method, target)
    assert a.status == 401 and 'error="insufficient_scope"' in a.field("www-authenticate")


def test_a_token_in_the_query(lab):
    f = lab.get("registry", "token-auth")
    assert f.ask("GET", "/v2/t/a/tags/list?access_token=" + f.issuer.token()).status == 401


# ---- the tables

TABLES = {acng: ACNG, squid: SQUID, nginx: NGINX, verdaccio: VERDACCIO, registry: REGISTRY}
ROWS = [(module.__name__, setting, name, probe, wanted[i])
        for module, table in TABLES.items() for name, probe, *wanted in table for i, setting in enumerate(module.SETTINGS)]


def test_each_row_has_an_answer_for_each_setting():
    assert all(len(row) == 2 + len(module.SETTINGS) for module, table in TABLES.items() for row in table)


@pytest.mark.parametrize("module, setting, name, probe, wanted", ROWS,
                         ids=[f"{m}-{s}-{n.replace(' ', '-')}" for m, s, n, _, _ in ROWS])
def test_program(lab, module, setting, name, probe, wanted):
    assert probe(lab.get(module, setting)) == wanted
