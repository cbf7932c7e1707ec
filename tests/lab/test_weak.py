"""
The weak service is weak where its setting says, and nowhere else: every probe of this table is sent to it in every setting, and finds
just the weakness of that setting. "strong" has none.
"""
import base64
import json
import time
from urllib.parse import urlencode

import pytest

from fixture import Fixture, basic
from tokens import Key, b64, jwt
from weak import NAME, SETTINGS, WEAKNESSES
from weak_tokens import CLIENT, CLIENT_SECRET, EXCHANGE
from world import NAMES, SERVICE, ZONE
from zone import Zone

CANARY = "CANARY0123456789abcdef"
OK = "/t/a/ok"


def good(f, **changes):
    return f.issuer.token(**({"access": None, "aud": NAME, "scope": "read"} | changes))


def bearer(token):
    return {"Authorization": "Bearer " + token}


def opens(make, target=OK, method="GET", **more):
    """The token that make(f) makes is taken."""
    return lambda f: f.ask(method, target, **bearer(make(f)), **more).status < 300


def claims(**changes):
    return opens(lambda f: good(f, **{k: v() if callable(v) else v for k, v in changes.items()}))


def header(**changes):
    return opens(lambda f: f.issuer.token(access=None, aud=NAME, scope="read", header=changes))


def now(seconds):
    return int(time.time()) + seconds


def trusted(**fields):
    return lambda f: f.ask("GET", OK, **fields).status < 300


def has(method, target, text=CANARY, **fields):
    """text is anywhere in the answer."""
    def probe(f):
        a = f.ask(method, target, **fields)
        return text.encode() in a.body or any(text in v for _, v in a.fields)
    return probe


def reaches(target, host="unlisted.test", method="GET", **fields):
    """host hears of the request."""
    def probe(f):
        f.upstream.clear()
        f.ask(method, target, **fields)
        return bool(f.upstream.seen(host))
    return probe


def reader(f):
    return bearer((f.world.directory / "reader.token").read_text())


def other(f):
    return bearer((f.world.directory / "other.token").read_text())


def as_reader(probe):
    return lambda f: probe(**reader(f))(f)


def payload_edited(f):
    head, _, mark = good(f).split(".")
    return ".".join((head, b64(json.dumps(f.issuer.claims(access=None, aud=NAME, scope="read", extra=1)).encode()), mark))


def own_key(**head):
    """A token under a key that nobody knows, named by the header."""
    def make(f):
        key = Key()
        return jwt(key, f.issuer.claims(access=None, aud=NAME, scope="read"), {"typ": "JWT", "alg": "ES256", "jwk": key.jwk})
    return make


def twice_sub(f):
    text = json.dumps(f.issuer.claims(access=None, aud=NAME, scope="read", sub="tenant-b"))
    signed = b64(json.dumps(f.issuer.header()).encode()) + "." + b64((text[:-1] + ', "sub": "tenant-a"}').encode())
    return signed + "." + b64(f.issuer.key.sign(signed.encode()))


def public_pem(f):
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
    return f.issuer.key.private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def written(f, path):
    """A tenant writes and reads back what he wrote; None when he may not."""
    status = f.ask("PUT", path, CANARY, **reader(f)).status
    return status == 201 or None


def readable_by(who):
    def probe(f):
        return written(f, "/t/a/board") and CANARY.encode() in f.ask("GET", "/t/a/board", **who(f)).body
    return probe


def after_delete(f):
    if not written(f, "/t/a/gone"):
        return False
    return f.ask("DELETE", "/t/a/gone", **reader(f)).status == 204 and f.ask("GET", "/t/a/gone", **reader(f)).status == 200


def kept(path, first, second):
    """The second caller gets the first one's page."""
    def probe(f):
        f.service.mirror.kept.clear()
        a, b = f.ask("GET", path, **first), f.ask("GET", path, **second)
        return a.status == 200 and a.body == b.body
    return probe


def poisoned(f):
    f.service.mirror.kept.clear()
    f.ask("GET", "/mirror/echo-host/x", X_Forwarded_Host="evil.example")
    return b"evil.example" in f.ask("GET", "/mirror/echo-host/x").body


def without_query(f):
    f.service.mirror.kept.clear()
    f.upstream.clear()
    for query in "ab":
        f.ask("GET", "/mirror/pool/x?" + query)
    return len(f.upstream.log) == 1


def missing_is_kept(f):
    f.service.mirror.kept.clear()
    f.upstream.clear()
    for _ in range(2):
        f.ask("GET", "/mirror/nothing-here")
    return len(f.upstream.seen("upstream.test", "/nothing-here")) == 1


def lists_both(f):
    return {"/t/a/ok", "/t/b/ok"} <= set(f.ask("GET", "/list", **reader(f)).json().get("objects", []))


def one_name(f):
    return f.ask("GET", "/whoami", **reader(f)).json() == f.ask("GET", "/whoami", **other(f)).json()


def presence(f):
    f.ask("GET", "/mirror/pool/presence")
    return f.ask("GET", "/mirror/pool/presence").field("x-cache") == "HIT"


def home_shows(f):
    f.ask("GET", "/" + CANARY)
    return CANARY.encode() in f.ask("GET", "/").body


def metrics_show(f):
    f.ask("GET", "/t/a/" + CANARY)
    return CANARY.encode() in f.ask("GET", "/metrics").body


def others_paths(f):
    f.ask("GET", "/t/b/" + CANARY, **other(f))
    return CANARY.encode() in f.ask("GET", "/missing", **reader(f)).body


def content_sent_on(f):
    f.upstream.clear()
    f.ask("POST", "/mirror/fx-307", CANARY)
    return bool(f.upstream.seen("internal.test", CANARY))


def big_body(f):
    return f.ask("PUT", "/t/a/big", "x" * 70000, **reader(f)).status == 201


def secret_at(path, host):
    def probe(f):
        f.upstream.clear()
        f.ask("GET", path)
        return any("UPLINKSECRET" in (s.field("authorization") or "") for s in f.upstream.seen(host))
    return probe


def challenged(f):
    f.upstream.realm = "internal.test"
    return secret_at("/mirror/v2/x", "internal.test")(f)


def continues(f):
    with f.world.connect("127.0.0.1", f.port) as wire:
        wire.sendall(f"PUT /t/a/x HTTP/1.1\r\nHost: {NAME}\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n".encode())
        return wire.recv(64).startswith(b"HTTP/1.1 100")


def reads_file(f):
    planted = f.world.directory / "planted"
    planted.write_text(CANARY)
    return CANARY.encode() in f.ask("GET", f"/fetch?url=file://{planted}").body


def in_field(name, text):
    return lambda f: text in (f.ask("GET", OK, **reader(f)).field(name) or "")


def sent_to(text):
    return lambda f: text in (f.ask("GET", "/t/a/moved", **reader(f)).field("location") or "")


def looked_up(f):
    """A name in a parameter; nothing is fetched from where it leads."""
    with Zone(f.world, [NAMES["internal.test"]]) as z:
        f.upstream.clear()
        f.ask("GET", f"/fetch?url=http://canary.{ZONE}/x")
        return bool(z.names) and not f.upstream.seen("internal.test")


def rebound(f):
    """The first address is one that it may fetch from, the second is not."""
    with Zone(f.world, [NAMES["upstream.test"], NAMES["internal.test"]]):
        f.upstream.clear()
        f.ask("GET", f"/fetch?url=http://changes.{ZONE}/x")
        return bool(f.upstream.seen("internal.test"))


def hooked(f):
    f.upstream.clear()
    f.ask("POST", "/hooks", json.dumps({"url": "http://unlisted.test/x"}), **bearer(good(f)))
    return bool(f.upstream.seen("unlisted.test"))


def answered_twice(f):
    """A length, and chunks that end before it."""
    rest = b"0\r\n\r\nGET / HTTP/1.1\r\nHost: weak.test\r\nConnection: close\r\n\r\n"
    with f.world.connect(SERVICE, f.port) as wire:
        wire.sendall(b"POST / HTTP/1.1\r\nHost: weak.test\r\nContent-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n" % len(rest) + rest)
        wire.settimeout(10)
        data = b""
        while more := wire.recv(65536):
            data += more
    return data.count(b"HTTP/1.1 ") == 2


def post(f, path, client=True, **form):
    login = {"Authorization": basic(CLIENT, CLIENT_SECRET)} if client else {}
    return f.ask("POST", path, urlencode(form), Content_Type="application/x-www-form-urlencoded", **login)


def granted(f, **form):
    return post(f, "/token", **({"grant_type": "client_credentials"} | form))


def exchanged(f, subject, **form):
    """The claims of what an exchange gives; None when it is refused."""
    a = post(f, "/token", grant_type=EXCHANGE, subject_token=subject, **form)
    return json.loads(unb64(a.json()["access_token"].split(".")[1])) if a.status == 200 else None


def unb64(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def revoked_is_taken(f):
    token = granted(f).json()["access_token"]
    return f.ask("GET", OK, **bearer(token)).status == 200 and post(f, "/revoke", token=token).status == 200 and f.ask("GET", OK, **bearer(token)).status == 200


def renews_too_much(f):
    token = granted(f).json()["refresh_token"]
    wide = post(f, "/token", grant_type="refresh_token", refresh_token=token, scope="read write").status
    nobody = post(f, "/token", client=False, grant_type="refresh_token", refresh_token=token).status
    once, again = (post(f, "/token", grant_type="refresh_token", refresh_token=token).status for _ in range(2))
    assert once == 200
    return 200 in (wide, nobody, again)


PROBES = {
    "AN-2": has("GET", "/list", OK),
    "AN-5": lambda f: "access_token" in f.ask("POST", "/token", "grant_type=client_credentials").json(),
    "AN-6": lambda f: f.ask("GET", OK, Authorization=basic("admin", "admin")).status == 200,
    "AN-8": has("GET", "/.well-known/oauth-protected-resource", "elsewhere.test"),
    "AN-7": lambda f: f.ask("GET", "/metrics").status == 200 and b"path=" not in f.ask("GET", "/metrics").body,
    "TV-1": opens(lambda f: "random-0123456789"),
    "TV-2": claims(exp=lambda: now(-301)),
    "TV-3": lambda f: claims(nbf=lambda: now(300))(f) or claims(iat=lambda: now(300))(f),
    "TV-4": claims(exp=None),
    "TV-5": opens(lambda f: f.issuer.token(None, {"alg": "nOnE"}, access=None, aud=NAME, scope="read")),
    "TV-6": opens(lambda f: f.issuer.token(public_pem(f), {"alg": "HS256"}, access=None, aud=NAME, scope="read")),
    "TV-7": opens(payload_edited),
    "TV-8": lambda f: f.ask("GET", OK, **bearer(f.issuer.token(header={"kid": "../../dev/null"}, access=None, aud=NAME))).status == 500,
    "TV-9": opens(own_key()),
    "TV-10": header(crit=["unknown"], unknown=1),
    "TV-11": header(typ="secevent+jwt"),
    "TV-12": claims(iss="other.test"),
    "TV-13": lambda f: claims(exp=lambda: str(now(60)))(f) and opens(twice_sub)(f),
    "TV-14": lambda f: f.ask("GET", f"{OK}?access_token={good(f)}").status == 200,
    "TV-15": claims(exp=lambda: now(10 * 365 * 86400)),
    "TV-16": revoked_is_taken,
    "TV-18": renews_too_much,
    "TV-17": opens(lambda f: f.issuer.token(b"", {"alg": "HS256"}, access=None, aud=NAME, scope="read")),
    "AS-1": claims(aud="other.test"),
    "AS-2": claims(aud=[NAME, "other.test"]),
    "AS-3": claims(aud=None),
    "AS-4": lambda f: granted(f, resource="https://other.example/").status == 200,
    "DE-1": lambda f: (exchanged(f, good(f), scope="read write") or {}).get("scope") == "read write",
    "DE-2": lambda f: "act" not in exchanged(f, good(f)),
    "DE-3": lambda f: exchanged(f, good(f, may_act={"sub": "somebody"})) is not None,
    "DE-4": lambda f: exchanged(f, good(f, exp=now(60)))["exp"] > now(100),
    "AS-5": lambda f: f.ask("POST", "/t/a/x", **bearer(good(f))).status == 405,  # past the scope, on to the method
    "AS-6": lambda f: f.ask("GET", "/t/b/ok", **reader(f)).status == 200,
    "AS-7": lambda f: claims(scope="*")(f) and claims(scope="READ")(f),
    "AS-8": claims(authorization_details=[{"type": "other", "actions": ["read"]}]),
    "AS-9": lambda f: f.ask("GET", OK, **bearer((f.world.directory / "leave.token").read_text())).status == 200,
    "AS-10": lambda f: f.ask("GET", OK, **other(f)).status == 200,
    "RP-6": claims(cnf={"x5t#S256": "bm90LXRoaXMtb25l"}),
    "NT-1": trusted(X_Forwarded_For="127.0.0.1"),
    "NT-2": trusted(Forwarded="for=127.0.0.1;proto=https"),
    "NT-3": has("GET", "/", "evil.example", X_Forwarded_Host="evil.example"),
    "NT-4": trusted(Remote_User="admin"),
    "NT-5": has("GET", "/", "an object of tenant a", X_Original_URL=OK),
    "NT-6": trusted(X_SSL_Client_Verify="SUCCESS"),
    "NT-7": lambda f: f.ask("GET", OK, source="127.0.0.3").status == 200,
    "NT-8": lambda f: f.ask("GET", "/overridden", X_HTTP_Method_Override="PUT", **bearer(good(f))).status == 201,
    "NT-9": trusted(X_Forwarded_Proto="https"),
    "RL-1": reaches("http://unlisted.test/x", Host="unlisted.test"),
    "RL-2": lambda f: f.ask("CONNECT", "unlisted.test:443").status == 200,
    "RL-3": reaches("/x", Host="unlisted.test"),
    "RL-4": reaches("/unlisted.test/x"),
    "RL-7": lambda f: f.ask("GET", "/x", Connection="Upgrade", Upgrade="websocket").status == 101,
    "RL-10": reaches("ftp://unlisted.test/x", Host="unlisted.test"),
    "RL-8": reaches("http://2130706462/x", "127.0.0.30", Host="2130706462"),
    "RL-9": has("TRACE", "/x", X_Canary=CANARY),
    "RL-11": reaches("/search?q=" + CANARY, "upstream.test"),
    "RL-12": answered_twice,
    "FU-1": reaches("/fetch?url=http://unlisted.test/x"),
    "FU-3": hooked,
    "FU-4": challenged,
    "FU-5": reaches("/mirror/link/internal.test/next", "internal.test"),
    "FU-6": reaches("/mirror/pool/to/internal.test/x", "internal.test"),
    "FU-7": rebound,
    "FU-8": reads_file,
    "FU-9": secret_at("/fetch?url=http://unlisted.test/x", "unlisted.test"),
    "RD-1": in_field("link", "http://cdn.elsewhere.test/"),
    "RD-2": sent_to("X-Amz-Expires=604800"),
    "RD-3": lambda f: b"http://cdn.elsewhere.test/" in f.ask("GET", OK, **reader(f)).body,
    "RD-4": lambda f: f.ask("GET", "/go?next=//unlisted.test/x").field("location") == "//unlisted.test/x",
    "RD-6": lambda f: "elsewhere.test" in f.ask("GET", OK).field("www-authenticate") if f.ask("GET", OK).status == 401 else False,
    "RD-7": sent_to("user:pass@"),
    "RD-8": content_sent_on,
    "XT-1": readable_by(other),
    "XT-2": lists_both,
    "XT-4": presence,
    "XT-5": one_name,
    "XT-7": others_paths,
    "PW-1": lambda f: f.ask("PUT", "/t/a/published", "x", **bearer(good(f))).status == 201,
    "PW-3": lambda f: f.ask("DELETE", "/t/a/nothing", **bearer(good(f))).status == 204,
    "PW-6": lambda f: "PUT" in f.ask("OPTIONS", OK, **reader(f)).field("allow"),
    "PW-7": continues,
    "CR-1": has("GET", "/missing", **bearer(CANARY)),
    "CR-2": lambda f: CANARY.encode() in f.ask("TRACE", "/x", Authorization=CANARY).body,
    "CR-3": has("GET", "/headers", X_Canary=CANARY),
    "CR-4": has("GET", "/mirror/pool/x", "UPLINKSECRET"),
    "CR-6": lambda f: f.ask("GET", OK, Proxy_Authorization="Bearer " + good(f)).status == 200,
    "CI-1": kept("/mirror/auth/public/x", {"Authorization": "Bearer A"}, {}),
    "CI-2": kept("/mirror/cookie/x", {"Cookie": "a=1"}, {"Cookie": "b=1"}),
    "CI-3": poisoned,
    "CI-4": without_query,
    "CI-5": kept("/mirror/fresh/x", {}, {}),
    "CI-6": kept("/mirror/auth/max-age/x.css", {"Authorization": "Bearer A"}, {"Authorization": "Bearer B"}),
    "CI-7": missing_is_kept,
    "UP-1": big_body,
    "UP-2": lambda f: f.ask("GET", "/" + "x" * 9000).status == 404,
    "UP-3": lambda f: f.ask("PUT", "/t/a/packed", "xx", Content_Encoding="gzip", **reader(f)).status == 201,
    "UP-4": lambda f: f.ask("POST", "/csp-report", '{"csp-report": {}}').status == 204,
    "CN-1": home_shows,
    "CN-2": has("GET", "/missing", User_Agent=CANARY),
    "CN-3": readable_by(lambda f: {}),
    "CN-5": metrics_show,
    "CN-6": looked_up,
    "CN-7": after_delete,
}

# What cannot be had apart from it.
WITH = {
    "FU-7": {"CN-6"},  # who looks a name up twice has looked it up
    "AN-2": {"XT-2"},
    "CN-3": {"XT-1"},
    "AS-5": {"PW-1", "PW-3"},  # a reader who may write
    "AS-6": {"AS-10"},
    "AS-10": {"AS-6"},
    "CI-1": {"CI-6"},
    "CR-4": {"CI-1", "CI-6"},  # to the upstream all callers are one
    "FU-9": {"FU-1"},
    "CR-2": {"RL-9"},
}


@pytest.fixture(scope="module")
def weak(tmp_path_factory):
    """One of them at a time."""
    running = {}

    def get(setting):
        if setting not in running:
            for f in running.values():
                f.world.close()
            running.clear()
            running[setting] = Fixture("weak", setting, tmp_path_factory.mktemp("weak"))
        return running[setting]
    yield get
    for f in running.values():
        f.world.close()


def test_each_weakness_has_a_probe():
    assert PROBES.keys() == WEAKNESSES.keys()


@pytest.mark.parametrize("setting", SETTINGS)
def test_weak_there_and_nowhere_else(weak, setting):
    f = weak(setting)
    found = {check for check, probe in PROBES.items() if probe(f)}
    assert found == ({setting} | WITH.get(setting, set()) if setting in WEAKNESSES else set())


def test_the_mirror_fetches(weak):
    f = weak("mirror")
    assert f.ask("GET", "/mirror/pool/x").body == b"/pool/x of upstream.test\n"
    assert f.ask("GET", "/mirror/pool/to/internal.test/x").status == 502


def test_strong_opens_to_who_may(weak):
    f = weak("strong")
    assert f.ask("GET", OK, **reader(f)).body == b"an object of tenant a\n"
    assert f.ask("GET", "/t/b/ok", **other(f)).body == b"an object of tenant b\n"
    assert f.ask("GET", "/mirror/pool/x").status == 404
    assert f.ask("GET", "/go?next=/list").field("location") == "/list"
    assert f.ask("GET", "/list", **reader(f)).json() == {"objects": [OK]}
    assert f.ask("PUT", "/t/a/new", CANARY, **bearer(good(f, scope="read write"))).status == 201
    assert f.ask("GET", "/t/a/new", **bearer(good(f))).body == CANARY.encode()
