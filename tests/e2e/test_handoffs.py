"""
Where answers send their clients on to: recorded always, refused before the client hears of it where the service says
enforce; and the graph that `exeat handoffs` prints of it.
"""
import base64
import gzip
import hashlib
import io
import itertools
import json
import re
import subprocess
import tarfile
import threading
import urllib.request
import zipfile
import zlib

import pytest

from gateway import PATIENCE, Closed, Gateway, clean_environment, exeat, free_port, wait_until
from origin import Origin
from registries import Images

SERVICE = """
  {name}:
    hosts: [{name}.test]
    {ports}
    addresses: ["127.0.0.1:{port}"]
    allow: ["GET,HEAD /**", "POST,PUT /**"]
    scope: web
    audit: "waived: test"
    {more}
"""
DECLARED = 'hands-off-to: ["files.test", "*.cdn.test", "http://plain.test", "odd.test:8443"]'


def service(name, port, more="", ports="plain-ports: [80]"):
    return SERVICE.format(name=name, port=port, more=more, ports=ports)


@pytest.fixture(scope="module")
def origin():
    o = Origin()
    yield o
    o.close()


@pytest.fixture(scope="module")
def secure(pki):
    o = Origin(pki[1], pki[2])
    yield o
    o.close()


@pytest.fixture(scope="module")
def gateway(tmp_path_factory, origin, secure, pki):
    tls = f"ca-file: {pki[0]}"
    listed = service("observed", origin.port) + service("enforced", origin.port, f"handoff-edges: enforce\n    {DECLARED}")
    listed += service("lax", origin.port, "handoff-edges: enforce\n    unscannable: allow")
    listed += service("other", origin.port)
    listed += service("registry", secure.port, f"{tls}\n    handoff-edges: enforce\n    {DECLARED}", "ports: [443, 8443]")
    listed += service("upload", secure.port, tls, "ports: [443]")
    g = Gateway(tmp_path_factory.mktemp("handoffs") / "state", listed)
    exeat("canary", "new", "--sandbox", "sb-1", "--kind", "npm", config=g.config)
    g.canary = json.loads((g.directory / "canaries.json").read_text())["canaries"][0]["value"]
    g.start()
    yield g
    assert g.stop() == 0, g.output().decode()


@pytest.fixture(scope="module")
def token(gateway):
    return gateway.token("web")


counter = itertools.count()


def answer(body=b"", kind="text/html", status="200 OK", fields=""):
    body = body if isinstance(body, bytes) else body.encode()
    kind = f"Content-Type: {kind}\r\n" if kind else ""
    return f"HTTP/1.1 {status}\r\n{kind}Content-Length: {len(body)}\r\n{fields}\r\n".encode() + body


def chunked(pieces, kind="application/json"):
    yield f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    for piece in pieces:
        yield b"%x\r\n%s\r\n" % (len(piece), piece)
    yield b"0\r\n\r\n"


class Answer:
    def __init__(self, answer, raw, request):
        self.answer, self.raw, self.request = answer, raw, request
        self.status, self.reason = (answer.status, answer.reason) if answer else (None, None)


def ask(gateway, token, origin, host, raw, method="GET", body=b"", fields=""):
    """One request that is answered with raw; what the client has of it. Its answer is None when that was cut."""
    origin.clear()
    origin.script = lambda request: raw
    path = f"/{next(counter)}"
    length = f"Content-Length: {len(body)}\r\n" if body else ""
    if host in ("registry.test", "upload.test"):
        wire = gateway.tunnel(host, token)
        wire.send(f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n{length}{fields}\r\n".encode() + body)
    else:
        wire = gateway.connect()
        wire.send(f"{method} http://{host}{path} HTTP/1.1\r\nHost: {host}\r\nProxy-Authorization: Bearer {token}\r\n"
                  f"{length}{fields}\r\n".encode() + body)
    seen = b""
    try:
        wire.more()
        while b"\r\n\r\n" not in wire.buffer:
            wire.more()
        result = wire.response(method)
        seen = result.body
    except Closed:
        result, seen = None, wire.buffer
    wire.close()
    return Answer(result, seen, origin.requests[0])


def edges(gateway, service, **want):
    found = [r["edge"] for r in gateway.records(kind="edge", service=service)]
    return [e for e in found if all(e.get(k) == v for k, v in want.items())]


def wait_for_edge(gateway, service, **want):
    return wait_until(lambda: edges(gateway, service, **want), f"an edge of {service}: {want}")[-1]


def result_of(gateway, path):
    [decision] = [r for r in gateway.records(kind="decision") if r.get("http", {}).get("path") == path]
    return wait_until(lambda: gateway.records(kind="result", id=decision["id"]), "the result")[0]


# ---- heads

FIELDS = [  # the field, the kind of edge
    ("Location: https://{host}/a", "location", "302 Found"),
    ("Location: //{host}/a", "location", "301 Moved"),
    ("Location: /\\{host}/a", "location", "302 Found"),
    ("Location: https://{host}/v2/x/blobs/uploads/1", "upload", "202 Accepted"),
    ("Content-Location: https://{host}/a", "content-location", "200 OK"),
    ("Link: </x>; rel=prev, <https://{host}/a>; rel=next", "link", "200 OK"),
    ("Refresh: 0; url=https://{host}/", "refresh", "200 OK"),
    ('WWW-Authenticate: Bearer realm="https://{host}/token",service="x"', "authenticate", "401 Unauthorized"),
    ('Report-To: {{"endpoints":[{{"url":"https://{host}/"}}]}}', "report", "200 OK"),
]


@pytest.mark.parametrize("field,kind,status", FIELDS)
def test_a_head_that_sends_on_is_recorded(gateway, token, origin, field, kind, status):
    host = f"a{next(counter)}.test"
    got = ask(gateway, token, origin, "observed.test", answer(status=status, fields=field.format(host=host) + "\r\n", kind="image/png"))
    assert got.status == int(status[:3])
    edge = wait_for_edge(gateway, "observed", host=host)
    assert edge["kind"] == kind and edge["declared"] is False and edge["count"] == 1
    assert "refused" not in edge and "listed" not in edge


@pytest.mark.parametrize("field,kind,status", FIELDS)
def test_a_head_that_sends_on_to_nowhere_declared_is_refused(gateway, token, origin, field, kind, status):
    host = f"a{next(counter)}.test"
    raw = answer(b"body", status=status, fields=field.format(host=host) + "\r\n", kind="image/png")
    got = ask(gateway, token, origin, "enforced.test", raw)
    assert (got.status, got.reason) == (502, "handoff_undeclared") and host.encode() in got.raw and b"body" not in got.raw
    edge = wait_for_edge(gateway, "enforced", host=host)
    assert edge["kind"] == kind and edge["refused"] is True
    assert host in result_of(gateway, got.request.target)["detail"]


@pytest.mark.parametrize("field,kind,status", FIELDS)
@pytest.mark.parametrize("host", ["files.test", "x.cdn.test"])
def test_a_head_that_sends_on_to_where_it_may_passes(gateway, token, origin, field, kind, status, host):
    got = ask(gateway, token, origin, "enforced.test", answer(status=status, fields=field.format(host=host) + "\r\n", kind="image/png"))
    assert got.status == int(status[:3])
    assert wait_for_edge(gateway, "enforced", host=host, kind=kind)["declared"] is True


PLACES = [  # from, Location, may it pass?
    ("enforced.test", "/next", True),
    ("enforced.test", "http://enforced.test/next", True),
    ("enforced.test", "https://enforced.test/next", False),  # it lists no port for TLS
    ("enforced.test", "http://enforced.test:81/next", False),
    ("enforced.test", "http://files.test/", True),  # the client came by plain HTTP
    ("enforced.test", "https://files.test:444/", False),
    ("enforced.test", "https://odd.test:8443/", True),
    ("enforced.test", "https://odd.test/", False),
    ("enforced.test", "https://cdn.test/", False),
    ("enforced.test", "https://files.test.evil.test/", False),
    ("enforced.test", "https://files.test@evil.test/", False),
    ("enforced.test", "https://evil.test@files.test/", False),  # user information never
    ("enforced.test", "https://files.test\\@evil.test/", True),  # every reader stops at the backslash, or goes nowhere
    ("enforced.test", "https://10.0.0.1/", False),
    ("enforced.test", "https://files%2etest/", False),
    ("enforced.test", "ftp://files.test/", False),
    ("enforced.test", "mailto:a@files.test", True),
    ("registry.test", "https://registry.test/next", True),
    ("registry.test", "https://registry.test:8443/next", True),
    ("registry.test", "http://registry.test/next", False),
    ("registry.test", "https://files.test/", True),
    ("registry.test", "http://files.test/", False),  # down to what can be read on the way
    ("registry.test", "http://plain.test/", True),   # declared to be so
    ("registry.test", "https://plain.test/", False),
    ("registry.test", "ws://files.test/", False),
    ("registry.test", "wss://files.test/", True),
    ("observed.test", "ftp://a:b@nowhere.test/", True),
]


@pytest.mark.parametrize("host,place,passes", PLACES)
def test_where_a_redirect_may_lead(gateway, token, origin, secure, host, place, passes):
    raw = answer(status="302 Found", fields=f"Location: {place}\r\n", kind="")
    got = ask(gateway, token, secure if host == "registry.test" else origin, host, raw)
    assert (got.status, got.reason) == ((302, None) if passes else (502, "handoff_undeclared"))


def test_what_else_is_recorded_of_a_place(gateway, token, secure):
    query = "X-Amz-Expires=900&X-Amz-Signature=0123456789abcdef"
    raw = answer(status="307 Temporary Redirect", fields=f"Location: http://u:p@observed.test/x?{query}\r\n")
    assert ask(gateway, token, secure, "upload.test", raw).status == 307
    edge = wait_for_edge(gateway, "upload", kind="location")
    del edge["first"], edge["last"]
    assert edge == {"kind": "location", "scheme": "http", "host": "observed.test", "port": 80, "listed": "observed", "declared": False,
                    "downgrade": True, "userinfo": True, "signed": "unknown", "lifetime_s": 900, "count": 1}
    assert "0123456789abcdef" not in (gateway.directory / "journal").glob("*.ndjson").__next__().read_text()


def test_alt_svc_is_recorded_and_goes_no_further(gateway, token, origin):
    got = ask(gateway, token, origin, "enforced.test", answer(fields='Alt-Svc: h3="alt.test:443"\r\n', kind=""))
    assert got.status == 200 and got.answer.field("Alt-Svc") is None
    assert wait_for_edge(gateway, "enforced", kind="alt-svc")["host"] == "alt.test"


@pytest.mark.parametrize("status", [307, 308])
def test_a_body_is_not_sent_on_to_another_host(gateway, token, origin, status):
    """Not even to one that is declared: it would have what was meant for this one (RD-8)."""
    there = answer(status=f"{status} Go", fields="Location: https://files.test/\r\n", kind="")
    here = answer(status=f"{status} Go", fields="Location: http://enforced.test/x\r\n", kind="")
    got = ask(gateway, token, origin, "enforced.test", there, method="POST", body=b"secret plans")
    assert (got.status, got.reason) == (502, "handoff_undeclared")
    assert "request's body" in result_of(gateway, got.request.target)["detail"]
    assert ask(gateway, token, origin, "enforced.test", here, method="POST", body=b"secret plans").status == status
    assert ask(gateway, token, origin, "enforced.test", there).status == status  # there is no body
    assert ask(gateway, token, origin, "observed.test", there, method="POST", body=b"secret plans").status == status


@pytest.mark.parametrize("place", ["https://{secret}/", "https://{secret}.test/", "https://x.test/{secret}"])
@pytest.mark.parametrize("host", ["observed.test", "enforced.test"])
def test_a_secret_in_a_place_is_not_repeated(gateway, token, origin, host, place):
    """A canary that a service sends clients on to: neither the record nor the refusal has it."""
    secret = gateway.canary
    raw = answer(status="302 Found", fields=f"Location: {place.format(secret=secret)}\r\n", kind="")
    got = ask(gateway, token, origin, host, raw)
    assert got.status == (302 if host == "observed.test" else 502) and (got.status == 302 or secret.encode() not in got.raw)
    wait_for_edge(gateway, host[:-5], host="(withheld)")
    text = "".join(p.read_text() for p in (gateway.directory / "journal").glob("*.ndjson"))
    assert secret not in text and secret.lower() not in text.lower()


def test_edges_are_counted(gateway, token, origin):
    def counts():
        text = urllib.request.urlopen(f"http://127.0.0.1:{gateway.publish}/metrics", timeout=PATIENCE).read().decode()
        return [sum(int(n) for n in re.findall(rf'^exeat_handoff_edges{name}_total\{{[^}}]*\}} (\d+)$', text, re.M))
                for name in ("", "_undeclared", "_refused")]

    before = counts()
    for host, place in [("observed.test", "//x.test"), ("enforced.test", "//x.test"), ("enforced.test", "//files.test")]:
        ask(gateway, token, origin, host, answer(status="302 Found", fields=f"Location: {place}\r\n", kind=""))
    assert [b - a for a, b in zip(before, counts())] == [3, 2, 1]


def test_early_hints_are_read_too(gateway, token, origin):
    hints = b"HTTP/1.1 103 Early Hints\r\nLink: <https://hint.test/>; rel=preload\r\n\r\n"
    got = ask(gateway, token, origin, "enforced.test", [hints + answer(kind="")])
    assert (got.status, got.reason) == (502, "handoff_undeclared")


# ---- contents

CONTENTS = [  # content type, text around a URL, the kind of edge
    ("application/json", '{{"versions":{{"1.0.0":{{"dist":{{"tarball":"{url}"}}}}}}}}', "dist.tarball"),
    ("application/vnd.npm.install-v1+json", '{{"dist":{{"tarball":"{url}"}}}}', "dist.tarball"),
    ("application/json; charset=utf-8", '{{"dist":{{"t\\u0061rball":"{url}"}}}}', "dist.tarball"),
    ("text/plain", '{{"dl":"{url}","api":"/x"}}', "cargo.dl"),
    ("", ' {{"dl":"{url}"}}', "cargo.dl"),
    ("application/octet-stream", '{{"dl":"{url}"}}', "cargo.dl"),
    ("application/vnd.pypi.simple.v1+json", '{{"files":[{{"url":"{url}"}}]}}', "files.url"),
    ("application/vnd.pypi.simple.v1+html", '<a href="{url}#sha256=0">x</a>', "html.a"),
    ("text/html", "<A HREF={url}>x</A>", "html.a"),
    ("text/html", '<base href="{url}">', "html.base"),
    ("text/html", '<meta http-equiv=refresh content="0;url={url}">', "refresh"),
    ("application/vnd.git-lfs+json", '{{"objects":[{{"actions":{{"upload":{{"href":"{url}"}}}}}}]}}', "lfs.href"),
    ("application/vnd.oci.image.manifest.v1+json", '{{"layers":[{{"urls":["{url}"]}}]}}', "manifest.urls"),
    ("application/vnd.docker.distribution.manifest.v2+json", '{{"layers":[{{"urls":["{url}"]}}]}}', "manifest.urls"),
]


def pieces(text, size):
    return [text[i:i + size] for i in range(0, len(text), size)]


@pytest.mark.parametrize("kind,text,edge", CONTENTS)
def test_a_content_that_sends_on_is_recorded(gateway, token, origin, kind, text, edge):
    host = f"a{next(counter)}.test"
    text = text.format(url=f"https://{host}/a").encode()
    assert ask(gateway, token, origin, "observed.test", answer(text, kind)).raw == text
    assert wait_for_edge(gateway, "observed", host=host)["kind"] == edge


@pytest.mark.parametrize("size", [1, 7, 100000])
@pytest.mark.parametrize("kind,text,edge", CONTENTS)
def test_a_content_is_cut_before_it_sends_on_to_nowhere_declared(gateway, token, origin, kind, text, edge, size):
    host = f"a{next(counter)}.test"
    text = text.format(url=f"https://{host}/a").encode()
    got = ask(gateway, token, origin, "enforced.test", chunked(pieces(text, size), kind))
    assert (got.status, got.reason) == (502, "handoff_undeclared")
    assert wait_for_edge(gateway, "enforced", host=host)["refused"] is True
    result = result_of(gateway, got.request.target)
    assert result["reason"] == "handoff_undeclared" and host in result["detail"] and edge in result["detail"]


@pytest.mark.parametrize("kind,text", [("application/json", '{"dl":"https://half.test/a'), ("text/html", "<a href=https://half.test/a")])
def test_a_content_that_ends_inside_a_reference_is_judged_by_what_is_there(gateway, token, origin, kind, text):
    got = ask(gateway, token, origin, "enforced.test", answer(text, kind))
    assert (got.status, got.reason) == (502, "handoff_undeclared")


@pytest.mark.parametrize("size", [99, 1000, 100000])
@pytest.mark.parametrize("framed", ["chunked", "length", "close"])
def test_a_long_content_is_cut_before_the_reference(gateway, token, origin, size, framed):
    """What is longer than 64 KiB has begun to go out: nothing of the reference does, and it does not look whole."""
    text = b'{"readme":"%s","dist":{"tarball":"https://far.test/a"}}' % (b"z" * 500000)
    if framed == "chunked":
        raw = chunked(pieces(text, size))
    else:
        length = f"Content-Length: {len(text)}\r\n" if framed == "length" else "Connection: close\r\n"
        raw = [f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n{length}\r\n".encode()] + pieces(text, size)
    origin.script, path = lambda request: raw, f"/{next(counter)}"
    wire = gateway.connect()
    wire.send(f"GET http://enforced.test{path} HTTP/1.1\r\nHost: enforced.test\r\nProxy-Authorization: Bearer {token}\r\n\r\n")
    seen = wire.rest()
    wire.close()
    assert seen.startswith(b"HTTP/1.1 200") and b"zzz" in seen and b"https" not in seen and not seen.endswith(b"0\r\n\r\n")
    assert (b"Content-Length" in seen) == (framed == "length") and (b"chunked" in seen) == (framed != "length")
    result = result_of(gateway, path)
    assert (result["outcome"], result["reason"]) == ("cut", "handoff_undeclared")


def test_a_content_that_comes_slowly_is_not_kept(gateway, token, origin):
    """The first of it goes out after a while, before there is more; a refusal later is a cut."""
    more = threading.Event()

    def raw():
        yield b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n{\"a\"\r\n"
        assert more.wait(PATIENCE)
        yield b'1f\r\n:1,"dl":"https://late.test/xxxx"\r\n0\r\n\r\n'

    origin.script = lambda request: raw()
    wire = gateway.connect()
    wire.send(f"GET http://enforced.test/slow HTTP/1.1\r\nHost: enforced.test\r\nProxy-Authorization: Bearer {token}\r\n\r\n")
    wire.until(b'4\r\n{"a"')
    more.set()
    assert b"https" not in wire.rest()
    wire.close()


def test_a_service_that_fails_while_its_head_waits_is_told_so(gateway, token, origin):
    def raw():
        yield b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
        raise OSError("closes")

    got = ask(gateway, token, origin, "enforced.test", raw())
    assert (got.status, got.reason) == (502, "upstream_closed")


@pytest.mark.parametrize("size", [1, 7, 100000])
@pytest.mark.parametrize("kind,text,edge", CONTENTS)
def test_a_content_that_sends_on_to_where_it_may_is_whole(gateway, token, origin, kind, text, edge, size):
    text = text.format(url="https://files.test/a").encode()
    got = ask(gateway, token, origin, "enforced.test", chunked(pieces(text, size), kind))
    assert got.raw == text and got.status == 200


def test_what_nobody_follows_passes(gateway, token, origin):
    """Names beside those that clients follow, relative links, types that send nobody on."""
    for kind, text in [("application/json", '{"homepage":"https://x.test","dist":{"tarball":"../a.tgz"}}'), ("text/html", "<a href=../x>"),
                       ("image/png", "<a href=https://x.test>"), ("text/plain", "<a href=https://x.test>"), ("application/json", ""),
                       ("application/zip", '{"dl":"https://x.test"}'), ("text/plain", "[a] (b]] {c"), ("application/octet-stream", "{[}")]:
        got = ask(gateway, token, origin, "enforced.test", answer(text, kind))
        assert (got.status, got.raw) == (200, text.encode()), kind


UNREADABLE = [
    answer('{"a":[}', "application/json"),
    answer('{"a":' * 70, "application/json"),
    answer('{"dl":"x"}'.encode("utf-16"), "application/json"),
    answer('{"dl":"x"}', "application/json; charset=utf-16"),
    answer('{"a":' * 70, "text/plain"),
    answer('<a title="<a href=x>', "text/html"),
    answer('"x"', "application/json", status="206 Partial Content", fields="Content-Range: bytes 3-5/9\r\n"),
    answer(gzip.compress(b'{"dl":"x"}'), "application/json", fields="Content-Encoding: gzip\r\n"),
    answer(b"whatever", "application/json", fields="Content-Encoding: br\r\n"),
    answer(b"whatever", "text/plain", fields="Content-Encoding: br\r\n"),
]


@pytest.mark.parametrize("raw", UNREADABLE)
def test_what_cannot_be_looked_through_is_refused_where_that_is_enforced(gateway, token, origin, raw):
    got = ask(gateway, token, origin, "enforced.test", raw)
    assert result_of(gateway, got.request.target)["reason"] == "handoff_unreadable"
    assert ask(gateway, token, origin, "observed.test", raw).status == int(raw[9:12])


def test_answers_to_be_looked_through_are_asked_for_plain(gateway, token, origin):
    got = ask(gateway, token, origin, "enforced.test", answer(), fields="Accept-Encoding: gzip\r\n")
    assert got.request.field("Accept-Encoding") == "identity"
    got = ask(gateway, token, origin, "lax.test", answer(), fields="Accept-Encoding: gzip\r\n")
    assert got.request.field("Accept-Encoding") == "gzip"


def test_a_packed_answer_is_opened_to_be_observed(gateway, token, origin):
    text = json.dumps({"dist": {"tarball": "https://packed.test/a"}, "readme": "x" * 100000}).encode()
    packed = gzip.compress(text[:50]) + gzip.compress(text[50:])
    for host in ("observed", "lax"):
        got = ask(gateway, token, origin, f"{host}.test", answer(packed, "application/json", fields="Content-Encoding: gzip\r\n"))
        assert gzip.decompress(got.raw) == text
        assert wait_for_edge(gateway, host, host="packed.test")["kind"] == "dist.tarball"


def test_a_packed_answer_that_is_none_is_told(gateway, token, origin):
    for body in (b"no gzip at all", gzip.compress(bytes(30_000_000))):
        got = ask(gateway, token, origin, "observed.test", answer(body, "application/json", fields="Content-Encoding: gzip\r\n"))
        assert got.raw == body
    details = {r.get("detail") for r in gateway.wait_for(kind="edge", service="observed") if r["edge"]["kind"] == "unread"}
    assert "gzip that is damaged, or opens to too much" in details


def test_a_thousand_links_are_one_record(gateway, token, origin):
    """And its sum, told when the gateway stops or a minute has passed."""
    document = {"versions": {f"1.0.{n}": {"dist": {"tarball": f"https://many.test/a-{n}.tgz"}} for n in range(1000)}}
    got = ask(gateway, token, origin, "observed.test", answer(json.dumps(document), "application/json"))
    assert got.status == 200
    wait_for_edge(gateway, "observed", host="many.test")
    assert len(edges(gateway, "observed", host="many.test")) == 1


def test_more_places_than_are_kept_apart_are_counted_together(gateway, token, origin):
    document = {"versions": {str(n): {"dist": {"tarball": f"https://h{n}.flood.test/"}} for n in range(3000)}}
    got = ask(gateway, token, origin, "observed.test", answer(json.dumps(document), "application/json"))
    assert got.status == 200
    wait_for_edge(gateway, "observed", kind="others")
    assert len([e for e in edges(gateway, "observed") if e.get("host", "").endswith("flood.test")]) <= 512


def test_ten_megabytes_pass_as_they_are(gateway, token, origin):
    document = {"versions": {str(n): {"dist": {"tarball": f"https://files.test/{n}"}, "readme": "y" * 9000} for n in range(1100)}}
    text = json.dumps(document).encode()
    for host in ("observed.test", "enforced.test"):
        got = ask(gateway, token, origin, host, chunked(pieces(text, 50000)))
        assert zlib.crc32(got.raw) == zlib.crc32(text)


# ---- the graph


@pytest.fixture(scope="module")
def graph(tmp_path_factory, origin):
    """A gateway of its own, with some edges, which has stopped."""
    listed = service("npm", origin.port, 'hands-off-to: ["files.test"]') + service("held", origin.port, "handoff-edges: enforce")
    listed += service("files", origin.port, "hosts: [files.test]").replace("    hosts: [files.test]\n", "", 1)
    g = Gateway(tmp_path_factory.mktemp("graph") / "state", listed).start()
    token = g.token("web")
    tarballs = {"versions": {str(n): {"dist": {"tarball": f"http://files.test/{n}.tgz"}} for n in range(100)}}
    for fields in ("Location: https://files.test/a\r\n", "Location: http://u:p@odd.test:81/?X-Amz-Signature=a&X-Amz-Expires=900\r\n",
                   'Location: https://a"b\r\n', "Alt-Svc: h2=\"alt.test:443\"\r\n"):
        ask(g, token, origin, "npm.test", answer(fields=fields, status="302 Found", kind=""))
    ask(g, token, origin, "npm.test", answer(json.dumps(tarballs), "application/json"))
    ask(g, token, origin, "npm.test", answer("{]", "application/json"))
    ask(g, token, origin, "held.test", answer(fields="Location: https://evil.test/\r\n", status="302 Found"))
    assert g.stop() == 0
    return g


def handoffs(gateway, *words, status=0):
    ran = exeat("handoffs", *words, config=gateway.config, check=False)
    assert ran.returncode == status, ran.stdout + ran.stderr
    return ran.stdout


def test_the_graph_as_text(graph):
    lines = handoffs(graph).splitlines()
    assert lines[:4] == [
        "held", "  location          https://evil.test                               1  refused; no service lists it",
        '  to declare them: hands-off-to: ["evil.test"]', "npm"]
    assert "  dist.tarball      http://files.test                             100  declared; service files lists it" in lines
    assert "  location          https://files.test                              1  declared; no service lists it" in lines
    assert any(line.startswith("  location          http://odd.test:81") and line.endswith(
        "enforce would refuse it; no service lists it; with a user name in it; signed, for any method, 900 s") for line in lines)
    assert any("where it leads cannot be told for sure" in line for line in lines)
    assert any("alt.test" in line and "taken away by the gateway" in line for line in lines)
    assert any(line.startswith("  unread") and "brackets do not match" in line for line in lines)


def test_the_graph_as_json_and_dot(graph):
    found = [json.loads(line) for line in handoffs(graph, "--format", "json").splitlines()]
    assert {e["schema"] for e in found} == {"exeat.handoff/1"}
    [tarballs] = [e for e in found if e["kind"] == "dist.tarball"]
    assert (tarballs["host"], tarballs["count"], tarballs["listed"], tarballs["declared"]) == ("files.test", 100, "files", True)
    [evil] = [e for e in found if e["service"] == "held"]
    assert evil["refused"] and evil["enforce_would_refuse"] and not evil["declared"]
    dot = handoffs(graph, "--dot")
    assert dot.startswith("digraph") and '"npm" -> "http://files.test" [label="dist.tarball"];' in dot
    assert '"held" -> "https://evil.test" [label="location", color=red];' in dot and dot.count('"') % 2 == 0


def test_a_part_of_the_graph(graph):
    assert set(handoffs(graph, "--service", "held").split()) & {"npm", "files.test"} == set()
    assert handoffs(graph, "--since", "1h") == handoffs(graph) == handoffs(graph, "-d", graph.directory / "journal")
    assert handoffs(graph, "--since", "2099-01-01T00:00:00Z") == ""
    undeclared = handoffs(graph, "--undeclared", status=1)
    assert "evil.test" in undeclared and "alt.test" not in undeclared and "https://files.test" not in undeclared
    assert handoffs(graph, "--undeclared", "--service", "files") == ""


@pytest.mark.parametrize("words", [["--dot", "--format", "json"], ["--since", "yesterday"], ["-d", "/nowhere"], ["x"]])
def test_questions_that_make_no_sense(graph, words):
    ran = exeat("handoffs", *words, config=graph.config, check=False)
    assert ran.returncode in (2, 3) and ran.stdout == "" and ran.stderr.count("\n") == 1


def test_a_place_that_nobody_lists_is_warned_of(graph):
    ran = exeat("config", "check", config=graph.config)
    assert "services.npm sends clients on to files.test, which no service lists: they are refused there" in ran.stderr


def test_explain_says_where_answers_may_lead(gateway):
    words = ["explain", "--sandbox", "s", "--scope", "web", "GET"]
    text = exeat(*words, "http://enforced.test/x", config=gateway.config).stdout
    assert "own hosts, files.test, *.cdn.test, http://plain.test, odd.test:8443; others are refused" in text
    assert "others are refused" not in exeat(*words, "http://observed.test/x", config=gateway.config).stdout


@pytest.mark.parametrize("more,says", [
    ('hands-off-to: ["https://a.test/x"]', '"https://a.test/x": expected a host'),
    ('hands-off-to: ["*.test"]', "too wide"),
    ('hands-off-to: ["10.0.0.1"]', "10.0.0.1"),
    ("handoff-edges: off", "one of observe, enforce"),
])
def test_what_is_no_destination_is_a_configuration_error(gateway, tmp_path, more, says):
    config = tmp_path / "proxy.conf"
    whole = gateway.config.read_text()
    config.write_text(whole[:whole.index("services:")] + "services:\n" + service("a", 80, more))
    ran = exeat("config", "check", config=config, check=False)
    assert ran.returncode == 2 and says in ran.stderr, ran.stderr


# ---- real clients

OBSERVED, HELD, DECLARED_NPM, ELSEWHERE = "npm.registry.test", "git.registry.test", "registry.test", "other.test"
PIP, PIP_HELD = "pypi.registry.test", "upload.test"


def tarball():
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as t:
        for name, text in (("package.json", '{"name":"hello","version":"1.0.0"}'), ("index.js", "module.exports = 1\n")):
            entry = tarfile.TarInfo("package/" + name)
            entry.size, entry.mode = len(text), 0o644
            t.addfile(entry, io.BytesIO(text.encode()))
    return out.getvalue()


def wheel():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        z.writestr("hello_away.py", "WORD = 'away'\n")
        z.writestr("hello_away-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: hello-away\nVersion: 1.0\n")
        z.writestr("hello_away-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        z.writestr("hello_away-1.0.dist-info/RECORD", "")
    return out.getvalue()


TGZ, WHL = tarball(), wheel()
PACKUMENT = json.dumps({"name": "hello", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": {
    "name": "hello", "version": "1.0.0", "dist": {
        "tarball": f"https://{ELSEWHERE}/hello-1.0.0.tgz",
        "integrity": "sha512-" + base64.b64encode(hashlib.sha512(TGZ).digest()).decode()}}}})
INDEX = f'<html><body><a href="https://{ELSEWHERE}/hello_away-1.0-py3-none-any.whl">hello_away-1.0-py3-none-any.whl</a></body></html>'


def packed_if_wanted(request, body, kind):
    if "gzip" in (request.field("Accept-Encoding") or ""):
        return answer(gzip.compress(body.encode()), kind, fields="Content-Encoding: gzip\r\n")
    return answer(body, kind)


def registry_script(request):
    if request.field("Host").split(":")[0] == ELSEWHERE:
        return answer(TGZ if request.target.endswith("tgz") else WHL, "application/octet-stream")
    if request.target.startswith("/simple/"):
        return packed_if_wanted(request, INDEX, "text/html")
    return packed_if_wanted(request, PACKUMENT, "application/json")


@pytest.fixture(scope="module")
def clients(tmp_path_factory, pki):
    origin = Origin(pki[1], pki[2], script=registry_script)
    listed = ""
    for name, host, more in [
            ("npm", OBSERVED, "preset: npm-read"), ("npm-held", HELD, "preset: npm-read\n    handoff-edges: enforce"),
            ("npm-declared", DECLARED_NPM, f"preset: npm-read\n    handoff-edges: enforce\n    hands-off-to: [{ELSEWHERE}]"),
            ("elsewhere", ELSEWHERE, 'allow: ["GET,HEAD /**"]'), ("pypi", PIP, "preset: pypi-read"),
            ("pypi-held", PIP_HELD, "preset: pypi-read\n    handoff-edges: enforce")]:
        listed += f"""
  {name}:
    hosts: [{host}]
    addresses: ["127.0.0.1:{origin.port}"]
    ca-file: {pki[0]}
    scope: web
    audit: "waived: test"
    {more}
"""
    g = Gateway(tmp_path_factory.mktemp("handoff-clients") / "state", listed).start()
    g.origin = origin
    yield g
    assert g.stop() == 0, g.output().decode()
    origin.close()


def run_client(gateway, home, client, *words, **more):
    lines = exeat("env", "--client", client, "--with-token", "-", config=gateway.config, stdin=gateway.token("web", sandbox=home.name)).stdout
    environment = clean_environment(HOME=str(home), npm_config_audit="false", npm_config_fund="false", npm_config_fetch_retries="0",
                                    PIP_DISABLE_PIP_VERSION_CHECK="1", PIP_NO_CACHE_DIR="1", PIP_RETRIES="0", **more)
    gateway.origin.clear()
    return subprocess.run(["/bin/sh", "-c", 'eval "$0"; exec "$@"', lines, *words], env=environment, cwd=home, text=True,
                          capture_output=True, timeout=2 * PATIENCE, stdin=subprocess.DEVNULL)


def asked(gateway):
    return [f"{r.field('Host')}{r.target}" for r in gateway.origin.requests]


@pytest.mark.parametrize("host", [OBSERVED, DECLARED_NPM])
def test_npm_installs_from_where_it_is_sent_on_to(clients, tmp_path, host):
    ran = run_client(clients, tmp_path, "npm", "npm", "install", "hello", npm_config_registry=f"https://{host}/")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert asked(clients) == [f"{host}/hello", f"{ELSEWHERE}/hello-1.0.0.tgz"]
    name = "npm" if host == OBSERVED else "npm-declared"
    edge = wait_for_edge(clients, name, kind="dist.tarball")
    assert (edge["host"], edge["listed"], edge["declared"]) == (ELSEWHERE, "elsewhere", host == DECLARED_NPM)


def test_npm_hears_of_no_place_that_is_not_declared(clients, tmp_path):
    ran = run_client(clients, tmp_path, "npm", "npm", "install", "hello", npm_config_registry=f"https://{HELD}/")
    assert ran.returncode != 0 and not (tmp_path / "node_modules/hello").exists()
    assert "502 exeat handoff_undeclared" in ran.stderr and not [a for a in asked(clients) if a.startswith(ELSEWHERE)]
    [result] = wait_until(lambda: clients.records(kind="result", service="npm-held", reason="handoff_undeclared"), "the refusal")[:1]
    why = exeat("why", result["id"], config=clients.config).stdout
    assert f"dist.tarball to https://{ELSEWHERE}" in why and "hands-off-to" in why, why


def test_pip_installs_from_where_it_is_sent_on_to(clients, tmp_path):
    ran = run_client(clients, tmp_path, "pip", "/usr/bin/python3", "-m", "pip", "install", "--target", "here", "hello-away",
                     PIP_INDEX_URL=f"https://{PIP}/simple/")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert (tmp_path / "here/hello_away.py").exists()
    assert wait_for_edge(clients, "pypi", kind="html.a")["host"] == ELSEWHERE


def test_pip_hears_of_no_place_that_is_not_declared(clients, tmp_path):
    ran = run_client(clients, tmp_path, "pip", "/usr/bin/python3", "-m", "pip", "install", "--target", "here", "hello-away",
                     PIP_INDEX_URL=f"https://{PIP_HELD}/simple/")
    assert ran.returncode != 0 and not [a for a in asked(clients) if a.startswith(ELSEWHERE)]
    assert wait_for_edge(clients, "pypi-held", kind="html.a")["refused"] is True


def test_an_upload_goes_on_where_the_registry_says(pki, tmp_path):
    """docker-registry that names another host for its uploads: skopeo follows, unless that is not declared."""
    images = Images.__new__(Images)
    images.directory, port = tmp_path, free_port()
    images.layout()
    (tmp_path / "registry.yml").write_text(json.dumps({
        "version": 0.1, "storage": {"filesystem": {"rootdirectory": str(tmp_path / "images")}},
        "http": {"addr": f"127.0.0.1:{port}", "host": f"https://{ELSEWHERE}", "secret": "x",
                 "tls": {"certificate": str(pki[1]), "key": str(pki[2])}}}))
    listed = "".join(f"""
  {name}:
    hosts: [{host}]
    addresses: ["127.0.0.1:{port}"]
    ca-file: {pki[0]}
    allow: ["GET,HEAD,POST,PUT,PATCH /v2/**"]
    handoff-edges: {mode}
    scope: web
    audit: "waived: test"
""" for name, host, mode in [("images", "registry.test", "observe"), ("held", "upload.test", "enforce"), ("elsewhere", ELSEWHERE, "enforce")])
    with open(tmp_path / "registry.log", "wb") as log:
        registry = subprocess.Popen(["docker-registry", "serve", tmp_path / "registry.yml"], stdout=log, stderr=log)
    g = Gateway(tmp_path / "state", listed).start()
    g.origin = Origin()  # nobody asks it
    try:
        wait_until(lambda: b"listening on" in (tmp_path / "registry.log").read_bytes(), "docker-registry")
        held = run_client(g, tmp_path, "skopeo", "skopeo", "--insecure-policy", "copy", "dir:image", "docker://upload.test/team/hello:1")
        assert held.returncode != 0 and not (tmp_path / "images/docker/registry/v2/blobs").exists(), held.stderr
        assert wait_for_edge(g, "held", kind="upload", refused=True)["host"] == ELSEWHERE
        ran = run_client(g, tmp_path, "skopeo", "skopeo", "--insecure-policy", "copy", "dir:image", "docker://registry.test/team/hello:1")
        assert ran.returncode == 0, ran.stdout + ran.stderr
        edge = wait_for_edge(g, "images", kind="upload")
        assert (edge["host"], edge["listed"], edge["declared"]) == (ELSEWHERE, "elsewhere", False)
        assert wait_for_edge(g, "elsewhere", kind="upload")["declared"] is True  # its own host
    finally:
        registry.terminate()
        registry.wait(PATIENCE)
        g.origin.close()
        assert g.stop() == 0, g.output().decode()
