"""
What the real programs do beyond the tables of test_programs.py: the evidence of the answer sheet's further rows. A row has the check's
id, a probe that says whether the weakness is there, and for each setting whether it is. The sheet must say of each what the probe found:
`pass` where it is not, anything worse where it is.
"""
import json
from collections import namedtuple
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import acng
import nginx
import registry
import squid
import verdaccio
from fixture import basic
from test_programs import CANARY, good, npm_document, put, registered, twice, uploads
from tokens import b64
from upstream import digest
from world import SERVICE

CASES = Path(__file__).resolve().parents[1] / "cases"
Row = namedtuple("Row", "module check what probe found")
STRANGERS = ("unlisted.test", "internal.test", "127.0.0.30")


def login(f):
    """What a client of this service sends; squid's is a proxy's."""
    if f.module is squid:
        return {"Proxy_Authorization": basic(*f.basic)} if f.basic else {}
    return good(f)


def hits(target, host=None, method="GET", **fields):
    """Does a place that it has no business with hear of the request? (That docker-registry fetches its tokens there is FU-4's.)"""
    def probe(f):
        f.upstream.clear()
        f.ask(method, target, **({"Host": host} if host else {}), **fields, **login(f))
        return any(s.host in STRANGERS and not s.target.startswith("/token") for s in f.upstream.log)
    return probe


def any_of(*probes):
    return lambda f: any([p(f) for p in probes])


def relayed(target, text=CANARY, **fields):
    """Does the upstream hear the caller's text?"""
    def probe(f):
        f.upstream.clear()
        f.ask("GET", target, **fields)
        return bool(f.upstream.seen(None, text))
    return probe


def reflects(*targets, host=None):
    """Does an error page show a credential?"""
    def probe(f):
        fields = {"Authorization": "Bearer " + CANARY, "Cookie": "c=" + CANARY, "X-Api-Key": CANARY} | ({"Host": host} if host else {})
        answers = [f.send("GET", t, fields) for t in targets]
        return any(CANARY.encode() in a.body or any(CANARY in v for _, v in a.fields) for a in answers)
    return probe


def traces(target="/", host=None):
    def probe(f):
        fields = {"X-Canary": CANARY, "Max-Forwards": "0", "Cookie": "c=" + CANARY} | ({"Host": host} if host else {})
        fields |= {k.replace("_", "-"): v for k, v in login(f).items()}
        a = f.send("TRACE", target, fields)
        return a.status == 200 and CANARY.encode() in a.body
    return probe


def same_page(first, second, **fields):
    """Two requests that should be told apart get one answer of the upstream's."""
    def probe(f):
        a, b = (f.ask("GET", t, **fields, **login(f)) for t in (first, second))
        return a.status == b.status and a.body == b.body
    return probe


def asked_once(target, **fields):
    """The upstream is asked for it once in two times."""
    def probe(f):
        f.upstream.clear()
        for _ in range(2):
            f.ask("GET", target, **fields, **login(f))
        return len(f.upstream.log) == 1
    return probe


def poisoned(target, **fields):
    def probe(f):
        f.ask("GET", target, X_Forwarded_Host="evil.example", **fields, **login(f))
        return b"evil.example" in f.ask("GET", target, **fields, **login(f)).body
    return probe


def opens_tunnel(f):
    return f.ask("CONNECT", "unlisted.test:443", **login(f)).status == 200


def switches(target, host):
    return lambda f: f.ask("GET", target, Host=host, Connection="Upgrade", Upgrade="websocket", **login(f)).status == 101


def hands_on(target, **fields):
    """Is the client sent to a foreign host?"""
    return lambda f: "internal.test" in (f.ask("GET", target, **fields, **login(f)).field("location") or "")


UP = {"Host": "upstream.test"}
GO = "http://unlisted.test"


# ---- squid

def squid_presence(f):
    users = [{"Proxy_Authorization": basic(*u)} if u else {} for u in (f.basic, f.basic2)]
    answers = [f.ask("GET", "http://upstream.test/pool/presence-more", **UP, **u) for u in users]
    return (answers[1].field("x-cache") or "").startswith("HIT")


def squid_ftp(f):
    """It tries: nothing listens for FTP there."""
    return f.ask("GET", "ftp://unlisted.test/a", Host="unlisted.test", **login(f)).status == 503


# ---- verdaccio

def tags(f):
    who = registered(f, "tagger") or {"Authorization": basic(*f.basic)}
    put(f, "/tagged", npm_document("tagged"), **who)
    return f.ask("PUT", "/-/package/tagged/dist-tags/beta", '"1.0.0"', Content_Type="application/json", **who).status == 201


def tags_between(f):
    """One tenant's tag, read by the other."""
    a, b = {"Authorization": basic(*f.basic)}, {"Authorization": basic(*f.basic2)}
    put(f, "/tag-board", npm_document("tag-board"), **a)
    f.ask("PUT", "/-/package/tag-board/dist-tags/" + CANARY.lower(), '"1.0.0"', Content_Type="application/json", **a)
    return CANARY.lower().encode() in f.ask("GET", "/-/package/tag-board/dist-tags", **b).body


def board(f):
    """One tenant writes, the other reads."""
    a, b = {"Authorization": basic(*f.basic)}, {"Authorization": basic(*f.basic2)}
    put(f, "/between", npm_document("between", CANARY), **a)
    return CANARY.encode() in f.ask("GET", "/between", **b).body


def one_name(f):
    names = [f.ask("GET", "/-/whoami", Authorization=basic(*u)).json().get("username") for u in (f.basic, f.basic2)]
    return names[0] == names[1]


def described(f):
    a = {"Authorization": basic(*f.basic)}
    return put(f, "/described", npm_document("described", CANARY), **a).status == 201


def follows_with_token(code):
    """The upstream sends it elsewhere, and its token goes along."""
    def probe(f):
        f.upstream.clear()
        f.ask("GET", f"/fx-{code}-x", **good(f))
        return any(verdaccio.UPLINK_TOKEN in (s.field("authorization") or "") for s in f.upstream.seen("internal.test"))
    return probe


# ---- docker-registry

def upload_state(f):
    """Where an unfinished upload is, told to anybody."""
    start = f.ask("POST", "/v2/t/a/blobs/uploads/", **good(f))
    if start.status != 202:
        return False
    at = urlsplit(start.field("location"))
    at = urlsplit(f.ask("PATCH", f"{at.path}?{at.query}", CANARY, Content_Type="application/octet-stream", **good(f)).field("location"))
    return f.ask("GET", f"{at.path}?{at.query}").status == 204


def writes_anonymously(f):
    return f.ask("POST", "/v2/t/a/blobs/uploads/").status == 202


def reader_writes(f):
    """Who may pull, starts an upload."""
    who = {"Authorization": "Bearer " + f.issuer.token()} if f.setting == "token-auth" else good(f)
    return f.ask("POST", "/v2/t/a/blobs/uploads/", **who).status == 202


def foreign_realm(f):
    challenge = f.ask("GET", "/v2/").field("www-authenticate") or ""
    return "realm=\"http" in challenge and f"http://{SERVICE}:" not in challenge


def reader_deletes(f):
    """Who may pull, deletes."""
    who = {"Authorization": "Bearer " + f.issuer.token()} if f.setting == "token-auth" else good(f)
    name, start = digest(b"to be deleted"), f.ask("POST", "/v2/t/a/blobs/uploads/", **who)
    if start.status == 202:
        at = urlsplit(start.field("location"))
        f.ask("PUT", f"{at.path}?{at.query}&digest={name}", b"to be deleted", Content_Type="application/octet-stream", **who)
    return f.ask("DELETE", f"/v2/t/a/blobs/{name}", **who).status == 202


def password_at_realm(f):
    f.ask("GET", "/v2/lib/another/manifests/latest")
    wanted = basic(registry.UPSTREAM_USER, registry.UPSTREAM_PASSWORD)
    return any(s.field("authorization") == wanted for s in f.upstream.seen("internal.test", "/token"))


def follows_upstream(f):
    f.upstream.clear()
    f.ask("GET", "/v2/lib/away/manifests/latest", Accept=f.upstream.image.kind)
    return bool(f.upstream.seen("internal.test", "/v2/lib/away/"))


def two_times(f):
    """The second of two exp decides."""
    text = json.dumps(f.issuer.claims(exp=1))
    signed = b64(json.dumps(f.issuer.header()).encode()) + "." + b64((text[:-1] + f', "exp": {f.issuer.now() + 300}}}').encode())
    token = signed + "." + b64(f.issuer.key.sign(signed.encode()))
    return f.ask("GET", "/v2/t/a/tags/list", Authorization="Bearer " + token).status == 404


def long_url(f):
    return f.ask("GET", "/" + "a" * 33000).status not in (0, 414, 431, 400)


def board_of_blobs(f):
    """What is written without a credential of anybody's, everybody reads."""
    return uploads(f) == (201, 200, True)


# ---- verdaccio's answers to browsers and auditors

def says_put(f):
    a = f.ask("OPTIONS", "/onpath", **good(f))
    return "PUT" in (a.field("access-control-allow-methods") or "")


def reads_reports(f):
    """It takes JSON from anybody, and does something with it, be it in vain."""
    return f.ask("POST", "/-/npm/v1/security/advisories/bulk", "{}", Content_Type="application/json").status in (200, 500)


# ---- content that is to be sent again elsewhere

def hands_content_on(target, **fields):
    def probe(f):
        a = f.ask("POST", target, "content", **fields, **login(f))
        return a.status == 307 and "internal.test" in (a.field("location") or "")
    return probe


# ---- names that nobody has, in others' pages

def lists_missing(*pages):
    """Do pages show a name that was asked for, and that neither it nor its upstream has?"""
    def probe(f):
        f.ask("GET", f"/nobody-has-{CANARY.lower()}", **good(f))
        return any(f"has-{CANARY.lower()}" in f.ask("GET", p).body.decode("latin-1").lower() for p in pages)
    return probe


def overrides(f):
    """A query that says PUT is answered otherwise than a query that says something else."""
    path = "/nobody-has-this"
    return f.ask("GET", path + "?_method=PUT").status != f.ask("GET", path + "?x=PUT").status


# ---- much content

def takes_a_package(f):
    return put(f, "/big", npm_document("big", "x" * 1048576), **good(f)).status == 201


def takes_a_blob(f):
    start, data = f.ask("POST", "/v2/t/big/blobs/uploads/", **good(f)), "x" * 1048576
    if start.status != 202:
        return False
    at = urlsplit(start.field("location"))
    return f.ask("PUT", f"{at.path}?{at.query}&digest={digest(data.encode())}", data, Content_Type="application/octet-stream", **good(f)).status == 201


NONE3, ALL3 = (False,) * 3, (True,) * 3
NONE4 = (False,) * 4

ROWS = [
    Row(acng, "RL-3", "a host in Host", hits("/pool/h3_1.0_all.deb", "unlisted.test"), NONE3),
    Row(acng, "RL-7", "an upgrade to another host", switches(GO + "/pool/u_1.0_all.deb", "unlisted.test"), NONE3),
    Row(acng, "RL-9", "TRACE", traces(), NONE3),
    Row(acng, "RL-10", "ftp:", hits("ftp://unlisted.test/pool/f_1.0_all.deb", "unlisted.test"), NONE3),
    Row(acng, "RL-11", "names go upstream", relayed(f"/fxrep/pool/{CANARY}_1.0_all.deb"), ALL3),
    Row(acng, "FU-1", "URLs as parameters", hits(f"/?url={GO}/x_1.0_all.deb"), NONE3),
    Row(acng, "CR-1", "credentials in error pages", reflects("/nothing", "/unlisted.test/x.txt", "/nowhere.test/x_1.0_all.deb"), NONE3),
    Row(acng, "CR-2", "TRACE", traces(), NONE3),
    Row(acng, "RD-1", "sends clients on", hands_on("/fxrep/pool/to/internal.test/m_1.0_all.deb"), (False, False, True)),

    Row(acng, "NT-8", "a query that says PUT", overrides, NONE3),
    Row(acng, "CI-5", "keeps what must not be kept", same_page(*["/fxrep/pool/fresh_1.0_all.deb"] * 2), ALL3),

    Row(squid, "AN-3", "passes an upload on for anybody",
        lambda f: f.ask("PUT", "http://upstream.test/pool/put", "x", **UP).status == 200, (True, True, False)),
    Row(squid, "CN-4", "a canary at another host", hits(f"{GO}/pool/{CANARY}-4", "unlisted.test"), (True, True, False)),
    Row(squid, "RD-8", "sends clients on with their content", hands_content_on("http://upstream.test/fx-307-c", **UP), (True, True, False)),
    Row(squid, "RL-3", "a host in Host", hits("/pool/h3", "unlisted.test"), NONE3),
    Row(squid, "RL-4", "a host in the path", any_of(hits("/unlisted.test/x"), hits(f"/{GO}/x")), NONE3),
    Row(squid, "RL-9", "TRACE", traces("http://upstream.test/", "upstream.test"), (True, True, False)),
    Row(squid, "RL-10", "ftp: is tried", squid_ftp, (True, True, False)),
    Row(squid, "FU-6", "follows its upstream", hits("http://upstream.test/pool/to/internal.test/m", "upstream.test"), NONE3),
    Row(squid, "RD-1", "sends clients on", hands_on("http://upstream.test/pool/to/internal.test/m", **UP), ALL3),
    Row(squid, "CI-3", "forwards X-Forwarded-Host, which is no part of its key", poisoned("http://upstream.test/echo-host/m", **UP), ALL3),
    Row(squid, "CI-4", "takes variants of a path for one", same_page("http://upstream.test/pool/Vv", "http://upstream.test/pool/vV", **UP), NONE3),
    Row(squid, "CI-5", "keeps what must not be kept", same_page(*["http://upstream.test/fresh/m"] * 2, **UP), NONE3),
    Row(squid, "CI-6", "keeps private pages by their suffix",
        lambda f: twice(f, "/auth/max-age/m.css", {"Authorization": "Bearer A"}, {"Authorization": "Bearer B"})[1], NONE3),
    Row(squid, "CI-7", "keeps that something is missing", asked_once("http://upstream.test/missing-m", **UP), NONE3),
    Row(squid, "XT-4", "tells that another tenant has fetched it", squid_presence, ALL3),

    Row(nginx, "AN-1", "anybody is answered", lambda f: f.ask("GET", "/pool/ok_1.0_all.deb").status == 200, (True, True)),
    Row(nginx, "RD-8", "sends clients on with their content", hands_content_on("/fx-307-c"), (True, False)),
    Row(nginx, "RL-5", "other ports", any_of(*(hits(f"/pool/port{p}", f"unlisted.test:{p}") for p in (22, 25, 8080))), (True, False)),
    Row(nginx, "RL-7", "an upgrade to another host", switches(GO + "/pool/u", "unlisted.test"), (False, False)),
    Row(nginx, "RL-8", "places inside", any_of(hits("/pool/in1", "internal.test"), hits("/pool/in2", "127.0.0.30")), (True, False)),
    Row(nginx, "RL-9", "TRACE", traces(), (False, False)),
    Row(nginx, "RL-11", "text goes upstream", any_of(relayed(f"/pool/{CANARY}"), relayed(f"/pool/fetch?{CANARY}")), (True, True)),
    Row(nginx, "FU-6", "follows its upstream", hits("/pool/to/internal.test/x_1.0_all.deb"), (False, False)),
    Row(nginx, "CI-4", "takes two queries for one", same_page("/pool/fetch?fresh-a", "/pool/fetch?fresh-b"), (True, False)),
    Row(nginx, "CI-5", "keeps what must not be kept", same_page("/pool/fetch?fresh-c", "/pool/fetch?fresh-c"), (True, False)),
    Row(nginx, "CI-7", "keeps that something is missing",
        lambda f: asked_once("/missing-m" if f.setting == "weak" else "/pool/fetch?missing-m")(f), (True, False)),
    Row(nginx, "CR-1", "credentials in error pages", reflects("/nothing-at-all", "/static/nothing"), (False, False)),
    Row(nginx, "CR-2", "TRACE", traces(), (False, False)),
    Row(nginx, "UP-2", "long URLs", lambda f: f.ask("GET", "/" + "a" * 9000).status != 414, (False, False)),
    Row(nginx, "CN-4", "a canary at another host", hits(f"/pool/{CANARY}-4", "unlisted.test"), (True, False)),

    Row(verdaccio, "RL-1", "whole URLs", hits(GO + "/x", "unlisted.test"), NONE3),
    Row(verdaccio, "RL-2", "tunnels", opens_tunnel, NONE3),
    Row(verdaccio, "RL-3", "a host in Host", hits("/x", "unlisted.test"), NONE3),
    Row(verdaccio, "RL-4", "a host in the path", any_of(hits("/unlisted.test/x"), hits(f"/{GO}/x")), NONE3),
    Row(verdaccio, "RL-8", "places inside", any_of(hits("http://internal.test/x", "internal.test"), hits("http://127.0.0.30/x", "127.0.0.30")), NONE3),
    Row(verdaccio, "RL-9", "TRACE", traces(), NONE3),
    Row(verdaccio, "FU-1", "URLs as parameters", hits(f"/?url={GO}/x"), NONE3),
    Row(verdaccio, "CR-1", "credentials in error pages", reflects("/nothing-at-all", "/-/nothing"), NONE3),
    Row(verdaccio, "CR-2", "TRACE", traces(), NONE3),
    Row(verdaccio, "FU-6", "follows its upstream with 307", hits("/fx-307-f"), ALL3),
    # 6.10.4 keeps its token from the host of `dist.tarball` (FU-9), and takes it along to where a redirect sends it that keeps the method.
    Row(verdaccio, "FU-6", "takes its token along to where a 307 sends it", follows_with_token(307), (True, True, True)),
    Row(verdaccio, "RD-5", "follows to another host with its token", follows_with_token(307), ALL3),
    Row(verdaccio, "XT-6", "one tenant's tags, read by the other", tags_between, (True, True, False)),
    Row(verdaccio, "PW-2", "tags by who came by himself", tags, (True, True, False)),
    Row(verdaccio, "XT-1", "what one tenant writes, the other reads", board, (True, True, False)),
    Row(verdaccio, "XT-5", "one name for both tenants", one_name, NONE3),
    Row(verdaccio, "XT-7", "shows what another asked for", lists_missing("/-/v1/search?text=x", "/metrics", "/status"), NONE3),
    Row(verdaccio, "CN-1", "shows names that were asked for", lists_missing("/-/v1/search?text=nobody", "/-/all", "/"), NONE3),
    Row(verdaccio, "CN-5", "shows names in pages of its own", lists_missing("/-/v1/search?text=nobody", "/metrics", "/status"), NONE3),
    Row(verdaccio, "UP-1", "takes a mebibyte", takes_a_package, (True, True, False)),
    Row(verdaccio, "PW-6", "says that anybody may PUT", says_put, ALL3),
    Row(verdaccio, "UP-4", "reads reports from anybody", reads_reports, (True, False, False)),
    Row(verdaccio, "UP-6", "keeps descriptions", described, (True, True, False)),

    Row(registry, "RL-1", "whole URLs", hits(GO + "/x", "unlisted.test"), NONE4),
    Row(registry, "RL-2", "tunnels", opens_tunnel, NONE4),
    Row(registry, "RL-3", "a host in Host", hits("/v2/x", "unlisted.test"), NONE4),
    Row(registry, "RL-4", "a host in the path", any_of(hits("/unlisted.test/x"), hits(f"/{GO}/x"), hits("/v2/unlisted.test/x/tags/list")), NONE4),
    Row(registry, "RL-9", "TRACE", traces(), NONE4),
    Row(registry, "FU-1", "URLs as parameters", hits(f"/?url={GO}/x"), NONE4),
    Row(registry, "CR-1", "credentials in error pages", reflects("/nothing-at-all", "/v2/nothing/tags/list"), NONE4),
    Row(registry, "CR-2", "TRACE", traces(), NONE4),
    Row(registry, "PW-1", "a reader starts an upload", reader_writes, (True, False, False, False)),
    Row(registry, "PW-3", "a reader deletes", reader_deletes, (True, False, False, False)),
    Row(registry, "PW-5", "a reader starts an upload", reader_writes, (True, False, False, False)),
    Row(registry, "XT-1", "what one writes, all read", board_of_blobs, (True, False, False, False)),
    Row(registry, "FU-6", "follows its upstream", follows_upstream, (None, True, None, None)),
    Row(registry, "CR-5", "the password for the upstream is elsewhere", password_at_realm, (None, True, None, None)),
    Row(registry, "TV-13", "takes the second of two exp", two_times, (None, None, True, None)),
    Row(registry, "RL-11", "names go upstream", relayed(f"/v2/lib/{CANARY.lower()}/manifests/latest", text=CANARY.lower()), (None, True, None, None)),
    Row(registry, "UP-1", "takes a mebibyte", takes_a_blob, (True, False, False, False)),
    Row(registry, "UP-2", "long URLs", long_url, (True,) * 4),
    Row(registry, "UP-5", "the state of an unfinished upload, for anybody", upload_state, (True, False, False, False)),
    Row(registry, "RD-6", "sends clients elsewhere for tokens", foreign_realm, NONE4),
    Row(registry, "AN-3", "an upload without a credential", writes_anonymously, (True, False, False, False)),
]

CELLS = [(row, setting, row.found[i]) for row in ROWS for i, setting in enumerate(row.module.SETTINGS) if row.found[i] is not None]


def test_each_row_has_an_answer_for_each_setting():
    assert all(len(row.found) == len(row.module.SETTINGS) for row in ROWS)


@pytest.mark.parametrize("row, setting, found", CELLS, ids=[f"{r.module.__name__}-{s}-{r.check}-{r.what.replace(' ', '-')}" for r, s, _ in CELLS])
def test_fact(lab, row, setting, found):
    assert row.probe(lab.get(row.module.__name__, setting)) == found


def sheet():
    rows = [json.loads(line) for name in ("audit.jsonl", "audit-more.jsonl") for line in (CASES / name).read_text().splitlines()]
    return {(r["program"], r["setting"], r["check"]): r["verdict"] for r in rows}


def test_the_sheet_says_what_was_found():
    verdicts, wrong = sheet(), []
    for row, setting, found in CELLS:
        verdict = verdicts[row.module.PROGRAM, setting, row.check]
        if (verdict not in ("pass", "n/a")) != found:
            wrong.append(f"{row.module.PROGRAM} {setting} {row.check}: the sheet says {verdict}, {row.what}: {found}")
    assert not wrong, wrong
