"""
Where answers send their clients on to: recorded always, and refused before the client hears of it where the service says
enforce. What comes of it: test_handoff_graph.py.
"""
import gzip
import json
import re
import threading
import urllib.request
import zlib

import pytest

from gateway import PATIENCE, Gateway, exeat
from origin import Origin
from sends import answer, ask, chunked, counter, edges, origin, result_of, service, wait_for_edge

DECLARED = 'hands-off-to: ["files.test", "*.cdn.test", "http://plain.test", "odd.test:8443"]'


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
                       ("application/zip", '{"homepage":"https://x.test"}'), ("text/plain", "[a] (b]] {c"), ("application/octet-stream", "{[}")]:
        got = ask(gateway, token, origin, "enforced.test", answer(text, kind))
        assert (got.status, got.raw) == (200, text.encode()), kind


UNDECLARED = [  # what clients read all the same: the content, its type, the status
    ('{{"dl":"https://{host}/"}}', "application/zip", "200 OK"),  # cargo and npm look at no type
    ('{{"dl":"https://{host}/"}}', "image/png", "206 Partial Content"),  # which nobody asked for
    ('{{"Layers":[{{"URLS":["https://{host}/"]}}]}}', "application/json", "200 OK"),  # Go
    ("<a href=https://{host}/>", "text/htmlx", "200 OK"),  # pip
    ("<a href=https://{host}/>", "image/png, text/html", "200 OK"),
    ("<a href=https://{host}/>", "", "200 OK"),  # browsers
    ('<meta http-equiv=refresh content="0 https://{host}/">', "text/html", "200 OK"),
]


@pytest.mark.parametrize("text,kind,status", UNDECLARED)
def test_what_some_client_follows_is_held_to_the_list(gateway, token, origin, text, kind, status):
    host = f"u{next(counter)}.test"
    got = ask(gateway, token, origin, "enforced.test", answer(text.format(host=host), kind, status=status))
    assert result_of(gateway, got.request.target)["reason"] == "handoff_undeclared"
    assert got.status == 502


@pytest.mark.parametrize("field", ["Location: https://{host}/", "Link: <//{host}/>", "Refresh: 0;//{host}/"])
def test_trailers_are_read_too(gateway, token, origin, field):
    host = f"t{next(counter)}.test"
    raw = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: image/png\r\n\r\n1\r\nx\r\n0\r\n" + field.format(host=host).encode() + b"\r\n\r\n"
    got = ask(gateway, token, origin, "observed.test", raw)
    assert got.status == 200
    wait_for_edge(gateway, "observed", host=host)
    got = ask(gateway, token, origin, "enforced.test", raw)
    assert result_of(gateway, got.request.target)["reason"] == "handoff_undeclared"


UNREADABLE = [
    answer('{"dl":"x"}', "application/json, text/html"),
    answer('<a>', "text/html; charset*0=utf-7"),
    answer('<a title="x"\xa0href=y>', "text/html"),
    answer('<a href=="y">', "text/html"),
    answer('{"a":[}', "application/json"),
    answer('{"a":' * 70, "application/json"),
    answer('{"dl":"x"}'.encode("utf-16"), "application/json"),
    answer('{"dl":"x"}', "application/json; charset=utf-16"),
    answer('{"a":' * 70, "text/plain"),
    answer('<a title="<a href=x>', "text/html"),
    answer('"x"', "application/json", status="206 Partial Content", fields="Content-Range: bytes 3-5/9\r\n"),
    answer(gzip.compress(b'{"dl":"x"}', mtime=0), "application/json", fields="Content-Encoding: gzip\r\n"),
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


# ---- what is said of it beforehand


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
