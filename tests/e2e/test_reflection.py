"""Nothing that the gateway put in comes back to a sandbox, however the service writes it."""
import gzip
import html
import json
import re
import urllib.request
from base64 import b64encode

import pytest

from gateway import Gateway
from handing import STATIC, ask, asserting, gateway, injecting, inside, origin, service, tls, token, write_secret
from origin import ok


def whole(body, fields=b""):
    return b"HTTP/1.1 200 OK\r\n%sContent-Length: %d\r\n\r\n%s" % (fields, len(body), body)


def chunked(*pieces, trailer=b""):
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    return [head, *(b"%x\r\n%s\r\n" % (len(p), p) for p in pieces), b"0\r\n" + trailer + b"\r\n"]


def secret_of(request):
    return request.field("Authorization").split()[-1].encode()


def alignments(secret):
    return [b64encode(b"x" * n + secret + b"tail") for n in range(3)]


# How a service may repeat what it was shown: (the answer, where that is found, whether its head has gone out by then).
REFLECTIONS = {
    "a body": (lambda s: whole(b"you are " + s + b", welcome"), "response body", True),
    "a body in base64, first alignment": (lambda s: whole(alignments(s)[0]), "response body", True),
    "a body in base64, second": (lambda s: whole(alignments(s)[1]), "response body", True),
    "a body in base64, third": (lambda s: whole(alignments(s)[2]), "response body", True),
    "a field": (lambda s: whole(b"ok", b"X-You: " + s + b"\r\n"), "response head", False),
    "a field in base64": (lambda s: whole(b"ok", b"X-You: " + alignments(s)[1] + b"\r\n"), "response head", False),
    "the status line": (lambda s: b"HTTP/1.1 200 " + s + b"\r\nContent-Length: 0\r\n\r\n", "response head", False),
    "a place to go on to": (lambda s: b"HTTP/1.1 302 F\r\nLocation: /?t=" + s + b"\r\nContent-Length: 0\r\n\r\n", "response head", False),
    "an interim answer": (lambda s: b"HTTP/1.1 103 Early\r\nLink: <" + s + b">\r\n\r\n" + whole(b"ok"), "response head", False),
    "pieces of a stream": (lambda s: chunked(b"a" * 5000, s[:7], s[7:20], s[20:] + b"b" * 5000), "response body", True),
    "a trailer": (lambda s: chunked(b"abc", trailer=b"X-You: " + s + b"\r\n"), "response trailer", True),
    "the end of a body": (lambda s: whole(b"z" * 70000 + s), "response body", True),
}


@pytest.fixture(params=["bearer", "asserted"])
def reflecting(request, injecting, asserting):
    return (injecting, "bearer") if request.param == "bearer" else (asserting, "mine")


@pytest.mark.parametrize("row", REFLECTIONS)
def test_a_credential_that_comes_back_is_stopped(reflecting, tls, row):
    g, name = reflecting
    answer_with, place, begun = REFLECTIONS[row]
    secrets = []

    def script(request):
        secrets.append(secret_of(request))
        return answer_with(secrets[-1])

    token, before = g.token("web", sandbox="sb-mirror"), len(g.records(kind="finding"))
    wire = g.tunnel(f"{name}.test", token)
    tls.script = script
    try:
        wire.send(f"GET /x HTTP/1.1\r\nHost: {name}.test\r\n\r\n")
        got = wire.rest() if begun else wire.response()
    finally:
        tls.script = ok
    if begun:
        for shape in (secrets[0], *alignments(secrets[0])):
            assert shape[:24] not in got and shape[-30:-6] not in got
        assert not got.endswith(b"0\r\n\r\n")  # no end that could be taken for one
    else:
        assert (got.status, got.reason) == (502, "credential_reflected") and secrets[0] not in got.body
    finding = g.wait_for(n=before + 1, kind="finding")[-1]
    assert (finding["reason"], finding["sandbox"]) == ("credential_reflected", "sb-mirror")
    assert finding["service"] == name and (finding["canary"]["id"], finding["canary"]["place"]) == ("credential", place)
    assert g.wait_for(kind="result", reason="credential_reflected", id=finding["id"])


def test_an_answer_that_only_looks_alike_passes(injecting, tls):
    near = (STATIC[:23] + "-and-so-on").encode()
    tls.script = lambda r: whole(near, b"X-You: " + near + b"\r\n")
    try:
        answer, _ = inside(injecting, "header", tls)
    finally:
        tls.script = ok
    assert answer.body == near and answer.field("X-You") == near.decode()


def test_an_answer_of_many_pieces_arrives_whole(injecting, tls):
    pieces = [bytes([65 + n % 26]) * (n * 37 % 4000 + 1) for n in range(200)]
    tls.script = lambda r: chunked(*pieces, trailer=b"X-Sum: 1\r\n")
    try:
        answer, _ = inside(injecting, "bearer", tls)
    finally:
        tls.script = ok
    assert answer.body == b"".join(pieces) and b"X-Sum: 1" in answer.trailers


def test_answers_are_asked_for_without_an_encoding(injecting, tls):
    answer, seen = inside(injecting, "bearer", tls, fields="Accept-Encoding: gzip, br\r\n")
    assert answer.status == 200 and seen.field("Accept-Encoding") == "identity"
    tls.script = lambda r: whole(gzip.compress(secret_of(r)), b"Content-Encoding: gzip\r\n")
    try:
        answer, _ = inside(injecting, "bearer", tls)
    finally:
        tls.script = ok
    assert (answer.status, answer.reason) == (502, "answer_unscannable")


def partial(request):
    """A service that gives parts of what it was shown (RFC 9110 14.2), to who asks for parts."""
    text = request.field("Authorization").encode()
    if not request.field("Range"):
        return b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwhole"
    return b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 8-11/%d\r\nContent-Length: 4\r\n\r\n%s" % (len(text), text[8:12])


def test_it_does_not_come_back_range_by_range(injecting, tls, gateway, token, origin):
    tls.script = partial
    try:
        for fields in ("Range: bytes=8-11\r\n", "range: bytes=8-11\r\nIf-Range: \"a\"\r\n", "Range: bytes=0-1, 8-11\r\n"):
            answer, seen = inside(injecting, "bearer", tls, fields=fields)
            assert (answer.status, answer.body) == (200, b"whole") and seen.field("Range") is None and seen.field("If-Range") is None
        assert injecting.wait_for(kind="decision", service="bearer")[-1]["http"]["dropped"] == "Range"
        tls.script = lambda r: partial(r).replace(b"200 OK", b"206 Partial Content")  # by itself
        answer, _ = inside(injecting, "bearer", tls)
        assert (answer.status, answer.reason) == (502, "upstream_malformed")
    finally:
        tls.script = ok
    # Where no credential of ours goes, parts are had as ever.
    answer, seen = ask(gateway, token, "allow.test", "Range: bytes=0-1\r\n", origin)
    assert answer.status == 200 and seen.field("Range") == "bytes=0-1"


def test_trace_would_show_it_and_is_refused(injecting, tls):
    wire = injecting.tunnel("bearer.test", injecting.token("web"))
    wire.send("TRACE /x HTTP/1.1\r\nHost: bearer.test\r\n\r\n")
    assert wire.response().reason == "trace_refused"


ODD = "k3y/with+odd=chars&\"<'\\,~`!*" + "0123456789"


def swapped(text, **swaps):
    """In JSON or HTML, as one writer escapes: `u` characters as \\u00xx, `U` in capitals, `d` as &#n;, `x` as &#xXX;."""
    forms = {"u": "\\u%04x", "U": "\\u%04X", "d": "&#%d;", "x": "&#x%X;"}
    return "".join(next((forms[how] % ord(c) for how, which in swaps.items() if c in which), c) for c in text)


def tags(text):
    return text.replace("&", "&amp;").replace("<", "&lt;")


SPELLINGS = {
    "by Python's quote": urllib.parse.quote(ODD),
    "by encodeURIComponent": urllib.parse.quote(ODD, safe="!'()*"),
    "by encodeURI": urllib.parse.quote(ODD, safe=";,/?:@&=+$#!'()*"),
    "by a browser's form": urllib.parse.quote(ODD, safe="*").replace("~", "%7E"),
    "by a browser in a query": re.sub("[\"<>'#]", lambda m: f"%{ord(m[0]):02X}", ODD),
    "by .NET's UrlEncode": re.sub("%..", lambda m: m[0].lower(), urllib.parse.quote(ODD, safe="!()*").replace("~", "%7e")),
    "by PHP's urlencode": urllib.parse.quote(ODD, safe="").replace("~", "%7E"),
    "by Go's PathEscape": urllib.parse.quote(ODD, safe="$&+=:@"),
    "by Go's EscapedPath": urllib.parse.quote(ODD, safe="$&+,/:;=@"),
    "by Go's JSON": swapped(json.dumps(ODD)[1:-1], u="<>&"),
    "by Django's JSON": swapped(json.dumps(ODD)[1:-1], U="<>&"),
    "by Gson": swapped(json.dumps(ODD)[1:-1], u="<>&'="),
    "by .NET's JSON": swapped(ODD.replace("\\", "\\\\"), U="\"<>&'+`"),
    "by Newtonsoft's JSON": swapped(ODD.replace("\\", "\\\\"), u="\"<>&'"),
    "by PHP's JSON": swapped(ODD.replace("\\", "\\\\").replace("/", "\\/"), U="\"<>&'"),
    "by Python in HTML": html.escape(ODD),
    "by PHP in HTML": tags(ODD).replace('"', "&quot;").replace("'", "&#039;"),
    "by Jinja": swapped(tags(ODD), d="\"'"),
    "by Go's templates": swapped(tags(ODD), d="\"'+"),
    "by Razor": swapped(tags(ODD).replace('"', "&quot;"), x="'+`"),
    "by mustache": swapped(tags(ODD).replace('"', "&quot;"), d="'", x="/`="),
    "by handlebars": swapped(tags(ODD).replace('"', "&quot;"), x="'`="),
    "as it is": ODD,
    "percent-encoded": urllib.parse.quote(ODD, safe=""),
    "percent-encoded, in lower case": re.sub("%..", lambda m: m[0].lower(), urllib.parse.quote(ODD, safe="")),
    "in a path": urllib.parse.quote(ODD, safe="/+=:@!$&'()*,;"),
    "in JSON": json.dumps(ODD)[1:-1],
    "in JSON with its slashes escaped": json.dumps(ODD)[1:-1].replace("/", "\\/"),
    "in JSON that suits HTML": re.sub("[<>&'=+\"/\\\\]", lambda m: f"\\u{ord(m[0]):04x}", ODD),
    "in HTML": ODD.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;").replace("'", "&#39;"),
    "in hexadecimal": ODD.encode().hex(),
    "in hexadecimal, in capitals": ODD.encode().hex().upper(),
}


@pytest.fixture(scope="module")
def odd(tmp_path_factory, origin):
    g = Gateway(tmp_path_factory.mktemp("odd") / "state", "  {}")
    write_secret(g.directory / "cred", ODD)
    more = 'credential: {from: "file:cred"}\n    inject-plain: accepted\n    shared-identity: accepted'
    g.write(service("odd", origin.port, more))
    g.start()
    yield g
    assert g.stop() == 0, g.output().decode()


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_however_a_service_writes_it_a_credential_is_stopped(odd, origin, spelling):
    text = SPELLINGS[spelling].encode()
    wire = odd.connect()
    origin.script = lambda r: whole(b"you are " + text + b", welcome")
    try:
        wire.send(f"GET http://odd.test/x HTTP/1.1\r\nHost: odd.test\r\nConnection: close\r\nProxy-Authorization: Bearer {odd.token('web')}\r\n\r\n")
        got = wire.rest()
        origin.script = lambda r: whole(b"you are " + text[::-1] + b", welcome")
        assert ask(odd, odd.token("web"), "odd.test", "", origin)[0].status == 200  # what only looks like it passes
    finally:
        origin.script = ok
    assert text not in got and text[:20] not in got
