"""
Services that misbehave: what cannot be read in one way is a 502, or a cut when the answer has begun; the client never
takes a part for the whole, and the connection is never used again. Each row is one raw answer of a service.
"""
import itertools
import os
import signal
import threading
import time

import pytest
from conftest import BOTH
from gateway import Closed, wait_until

EXTRA = "limits: {head: 16k, fields: 100, response-time: 20s}"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
POISON = b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\npoisons"
BEHIND = b"HTTP/1.1 302 Found\r\nLocation: http://evil.test/\r\nContent-Length: 0\r\n\r\n"


counter = itertools.count()


@pytest.fixture
def token(gateway):
    """Each of a sandbox of its own: nobody else's connections are used."""
    return gateway.token(BOTH, sandbox=f"sb-{next(counter)}")


@pytest.fixture(params=["tls", "plain"])
def service(request, gateway, token, origins):
    """The client's way to one origin: over TLS in a tunnel, or in plain."""
    s = Service(gateway, token, origins[request.param == "plain"], request.param == "tls")
    yield s
    s.close()


class Service:
    def __init__(self, gateway, token, origin, tls):
        self.gateway, self.token, self.origin, self.tls = gateway, token, origin, tls
        self.before, self.wire = origin.script, None

    def close(self):
        self.origin.script, self.origin.abrupt, self.origin.greeting = self.before, False, b""
        if self.wire:
            self.wire.close()

    def answers(self, *pieces, abrupt=False, ends=False):
        """What the origin says to each request from now on; ends: and then it closes."""
        def script(request):
            yield from pieces
            if ends:
                raise OSError("closes")

        self.origin.script, self.origin.abrupt = script, abrupt

    def send(self, path="/pkg/a", method="GET", fields="", version="1.1", host="registry.test"):
        if not self.wire:
            self.wire = self.gateway.tunnel(host, self.token) if self.tls else self.gateway.connect()
            if self.tls:
                self.wire.socket.suppress_ragged_eofs = False  # an end without close_notify is an error, not an end
        target = path if self.tls else f"http://{host}{path}"
        credential = "" if self.tls else f"Proxy-Authorization: Bearer {self.token}\r\n"
        self.wire.send(f"{method} {target} HTTP/{version}\r\nHost: {host}\r\n{credential}{fields}\r\n")

    def ask(self, method="GET", **more):
        """The final answer; the interim ones before it are in .interim."""
        self.send(method=method, **more)
        interim = []
        while (answer := self.wire.response(method)).status < 200:
            interim.append(answer)
        answer.interim = interim
        if answer.field("Connection") == "close":
            self.wire.close()
            self.wire = None
        return answer

    def is_cut(self, **more):
        """Something of an answer came, and no end of it that a client could believe."""
        asked = len(self.origin.requests)
        self.send(**more)
        try:
            answer = self.wire.response()
        except Closed as e:
            assert len(self.origin.requests) == asked + 1, f"{e}, and the service was not asked once"
            self.wire.close()
            self.wire = None
            return str(e) != "end" or not self.tls or "a plain end inside a framed message"
        pytest.fail(f"taken for whole: {answer.line} {answer.body[:80]}")

    def next_is_good(self, fresh):
        """Another request gets its own answer, over a connection that is new to the service, or the same one."""
        self.answers(OK)
        before = self.origin.connections
        answer = self.ask(path="/pkg/next")
        assert (answer.status, answer.body) == (200, b"ok")
        assert self.origin.connections == before + fresh, "re-used after it misbehaved" if fresh else "not re-used"


# ---- an answer that cannot be read: 502


def fields(*lines):
    return HEAD + b"".join(line + b"\r\n" for line in lines) + b"\r\n"


TE = b"Transfer-Encoding: chunked"
END = b"0\r\n\r\n"
MALFORMED = {
    # two framings, or one that is none (RFC 9112 6.3)
    "length and coding": fields(b"Content-Length: 5", TE) + END,
    "coding and length": fields(TE, b"Content-Length: 5") + END,
    "length of zero and coding": fields(b"Content-Length: 0", TE) + END,
    "two equal lengths": fields(b"Content-Length: 2", b"Content-Length: 2") + b"ok",
    "two lengths": fields(b"Content-Length: 2", b"Content-Length: 1") + b"ok",
    "two lengths apart": fields(b"Content-Length: 2", b"X: y", b"content-length: 2") + b"ok",
    "list of equal lengths": fields(b"Content-Length: 2, 2") + b"ok",
    "list of lengths": fields(b"Content-Length: 1, 2") + b"ok",
    "empty length": fields(b"Content-Length:") + b"ok",
    "length with plus": fields(b"Content-Length: +2") + b"ok",
    "length with minus": fields(b"Content-Length: -2") + b"ok",
    "length in hexadecimal": fields(b"Content-Length: 0x2") + b"ok",
    "length with a blank inside": fields(b"Content-Length: 2 2") + b"ok",
    "length with letters": fields(b"Content-Length: 2x") + b"ok",
    "quoted length": fields(b'Content-Length: "2"') + b"ok",
    "length over 64 bits": fields(b"Content-Length: 18446744073709551618") + b"ok",
    "blank before the length's colon": fields(b"Content-Length : 2") + b"ok",
    "folded length": fields(b"Content-Length:", b" 2") + b"ok",
    "gzip, chunked": fields(b"Transfer-Encoding: gzip, chunked") + END,
    "chunked, gzip": fields(b"Transfer-Encoding: chunked, gzip") + END,
    "identity": fields(b"Transfer-Encoding: identity", b"Content-Length: 2") + b"ok",
    "identity alone": fields(b"Transfer-Encoding: identity") + b"ok",
    "xchunked": fields(b"Transfer-Encoding: xchunked") + END,
    "chunked twice in a list": fields(b"Transfer-Encoding: chunked, chunked") + END,
    "chunked twice in two lines": fields(TE, TE) + END,
    "chunked and nothing": fields(b"Transfer-Encoding: chunked,") + END,
    "empty coding": fields(b"Transfer-Encoding:") + b"ok",
    "chunked with a parameter": fields(b"Transfer-Encoding: chunked;a=b") + END,
    "vertical tab before chunked": fields(b"Transfer-Encoding: \x0bchunked") + END,
    "coding in HTTP/1.0": b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + END,
    "coding of 204": b"HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n" + END,
    "length of 204": b"HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\nok",
    "coding of 103": b"HTTP/1.1 103 Early Hints\r\nTransfer-Encoding: chunked\r\n\r\n" + END + OK,
    "length of 103": b"HTTP/1.1 103 Early Hints\r\nContent-Length: 2\r\n\r\nok" + OK,
    "Connection names the length": fields(b"Connection: content-length", b"Content-Length: 2") + b"ok",
    "Connection names the coding": fields(b"Connection: transfer-encoding", TE) + END,
    # status lines (RFC 9112 4)
    "two digits": b"HTTP/1.1 20 OK\r\n\r\n",
    "four digits": b"HTTP/1.1 2000 OK\r\n\r\n",
    "no blank behind the status": b"HTTP/1.1 200OK\r\n\r\n",
    "two blanks": b"HTTP/1.1  200 OK\r\n\r\n",
    "a tab": b"HTTP/1.1\t200 OK\r\n\r\n",
    "status 099": b"HTTP/1.1 099 OK\r\n\r\n",
    "status 600": b"HTTP/1.1 600 OK\r\n\r\n",
    "status 000": b"HTTP/1.1 000 OK\r\n\r\n",
    "status with a sign": b"HTTP/1.1 +20 OK\r\n\r\n",
    "status with a letter": b"HTTP/1.1 2O0 OK\r\n\r\n",
    "no status": b"HTTP/1.1\r\n\r\n",
    "no status but a blank": b"HTTP/1.1 \r\n\r\n",
    "no version": b"200 OK\r\nContent-Length: 2\r\n\r\nok",
    "HTTP/2.0": b"HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
    "HTTP/2": b"HTTP/2 200 OK\r\nContent-Length: 2\r\n\r\nok",
    "HTTP/1.2": b"HTTP/1.2 200 OK\r\nContent-Length: 2\r\n\r\nok",
    "HTTP/0.9": b"HTTP/0.9 200 OK\r\nContent-Length: 2\r\n\r\nok",
    "HTTP/1.10": b"HTTP/1.10 200 OK\r\nContent-Length: 2\r\n\r\nok",
    "HTTP/01.1": b"HTTP/01.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    "http/1.1": b"http/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    "ICY": b"ICY 200 OK\r\nContent-Length: 2\r\n\r\nok",
    "a page without a head (0.9)": b"<html>\r\n<body>hello</body>\r\n",
    "one line without a head (0.9)": b"hello\r\n",
    "another protocol": b"SSH-2.0-OpenSSH_9.2\r\n",
    "binary": b"\x15\x03\x01\x00\x02\x02\x28",
    "a request": b"GET / HTTP/1.1\r\nHost: registry.test\r\n\r\n",
    "NUL before the status line": b"\0" + OK,
    "blank before the status line": b" " + OK,
    "empty line before the status line": b"\r\n" + OK,
    "junk before the status line": b"junk" + OK,
    "NUL in the reason": b"HTTP/1.1 200 O\0K\r\nContent-Length: 2\r\n\r\nok",
    "CR in the reason": b"HTTP/1.1 200 O\rK\r\nContent-Length: 2\r\n\r\nok",
    "an escape in the reason": b"HTTP/1.1 200 \x1b[2J\r\nContent-Length: 2\r\n\r\nok",
    # fields: what would mean something else to the client (RFC 9112 2.2, 5)
    "bare LF everywhere": b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
    "bare LF behind the status line": b"HTTP/1.1 200 OK\nContent-Length: 2\r\n\r\nok",
    "bare LF between fields": HEAD + b"X: a\nSet-Cookie: a=b\r\nContent-Length: 2\r\n\r\nok",
    "bare LF for the empty line": HEAD + b"Content-Length: 2\r\n\nok",
    "bare CR between fields": HEAD + b"X: a\rSet-Cookie: a=b\r\nContent-Length: 2\r\n\r\nok",
    "CR twice": HEAD + b"X: a\r\r\nContent-Length: 2\r\n\r\nok",
    "a fold": fields(b"X: a", b" b", b"Content-Length: 2") + b"ok",
    "a fold with a tab": fields(b"X: a", b"\tSet-Cookie: a=b", b"Content-Length: 2") + b"ok",
    "a blank before the first field": fields(b" X: a", b"Content-Length: 2") + b"ok",
    "NUL in a value": fields(b"X: a\0b", b"Content-Length: 2") + b"ok",
    "a control in a value": fields(b"X: a\x01b", b"Content-Length: 2") + b"ok",
    "DEL in a value": fields(b"X: a\x7fb", b"Content-Length: 2") + b"ok",
    "NUL in a name": fields(b"X\0: a", b"Content-Length: 2") + b"ok",
    "a blank in a name": fields(b"X Y: a", b"Content-Length: 2") + b"ok",
    "a blank before a colon": fields(b"X : a", b"Content-Length: 2") + b"ok",
    "a high octet in a name": fields(b"X\xe9: a", b"Content-Length: 2") + b"ok",
    "an empty name": fields(b": a", b"Content-Length: 2") + b"ok",
    "no colon": fields(b"X", b"Content-Length: 2") + b"ok",
    # sizes
    "a head over the limit": fields(b"X: " + 17000 * b"y", b"Content-Length: 2") + b"ok",
    "a head over the limit in many fields": fields(*(90 * [b"X: " + 300 * b"y"]), b"Content-Length: 2") + b"ok",
    "a head without end": HEAD + b"X: " + 40000 * b"y",
    "a status line without end": b"HTTP/1.1 200 " + 40000 * b"y",
    "too many fields": fields(*(101 * [b"X: y"]), b"Content-Length: 2") + b"ok",
    "a name over the limit": fields(17000 * b"X" + b": y", b"Content-Length: 2") + b"ok",
    # interim responses (RFC 9110 15.2)
    "a flood of 103": 17 * b"HTTP/1.1 103 Early Hints\r\nX: y\r\n\r\n" + OK,
    "a flood of 100": 500 * b"HTTP/1.1 100 Continue\r\n\r\n" + OK,
    "101 that nobody asked for": b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
    "101 without fields": b"HTTP/1.1 101 Switching Protocols\r\n\r\n" + OK,
    "content behind 103": b"HTTP/1.1 103 Early Hints\r\n\r\nhello" + OK,
    "103 and something else": b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/2.0 200 OK\r\n\r\n",
}


@pytest.mark.parametrize("name", MALFORMED)
def test_an_answer_with_no_or_two_meanings(service, name):
    service.answers(MALFORMED[name])
    answer = service.ask()
    assert (answer.status, answer.reason) == (502, "upstream_malformed")
    assert b"evil" not in answer.body and b"poisons" not in answer.body
    service.next_is_good(fresh=1)


def test_proxy_authentication_is_no_answer_of_a_service(service):
    service.answers(b"HTTP/1.1 407 X\r\nProxy-Authenticate: Basic realm=x\r\nContent-Length: 0\r\n\r\n")
    answer = service.ask()
    assert (answer.status, answer.reason, answer.field("Proxy-Authenticate")) == (502, "upstream_proxy_auth", None)
    service.next_is_good(fresh=1)


# ---- an end before the answer is one: 502

EARLY = {
    "nothing": [],
    "half a status line": [b"HTTP/1.1 20"],
    "a status line": [HEAD],
    "half a head": [HEAD + b"Content-Length: 2\r\n"],
    "a head without its last LF": [HEAD + b"Content-Length: 0\r\n\r"],
    "an interim response alone": [b"HTTP/1.1 103 Early Hints\r\nX: y\r\n\r\n"],
    "100 alone": [b"HTTP/1.1 100 Continue\r\n\r\n"],
    "an interim response and half a head": [b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\n"],
}


@pytest.mark.parametrize("abrupt", [False, True], ids=["end", "reset"])
@pytest.mark.parametrize("name", EARLY)
def test_an_end_before_the_answer(service, name, abrupt):
    service.answers(*EARLY[name], abrupt=abrupt, ends=True)
    answer = service.ask()
    assert (answer.status, answer.reason) == (502, "upstream_closed")
    service.next_is_good(fresh=1)


# ---- content that is not what the head said: a cut


CUT = {
    "a length cut short": [HEAD + b"Content-Length: 10\r\n\r\nabc"],
    "a length with nothing": [HEAD + b"Content-Length: 10\r\n\r\n"],
    "a length one short": [HEAD + b"Content-Length: 4\r\n\r\nabc"],
    "a huge length": [HEAD + b"Content-Length: 9223372036854775807\r\n\r\nabc"],
    "no chunk": [CHUNKED],
    "inside a chunk": [CHUNKED + b"5\r\nabc"],
    "behind a chunk": [CHUNKED + b"3\r\nabc\r\n"],
    "behind a chunk's CR": [CHUNKED + b"3\r\nabc\r"],
    "inside a size": [CHUNKED + b"3\r\nabc\r\n0"],
    "behind the last size": [CHUNKED + b"3\r\nabc\r\n0\r\n"],
    "behind the last size and CR": [CHUNKED + b"3\r\nabc\r\n0\r\n\r"],
    "inside a trailer": [CHUNKED + b"3\r\nabc\r\n0\r\nX-Sum"],
    "behind a trailer": [CHUNKED + b"3\r\nabc\r\n0\r\nX-Sum: 1\r\n"],
}
BROKEN = {
    "no size": b"\r\nabc\r\n",
    "a size with minus": b"-3\r\nabc\r\n",
    "a size with plus": b"+3\r\nabc\r\n",
    "a size with 0x": b"0x3\r\nabc\r\n",
    "a size with a blank in front": b" 3\r\nabc\r\n",
    "a size with a blank behind": b"3 \r\nabc\r\n",
    "a size that is no number": b"zz\r\nabc\r\n",
    "a size over 64 bits": b"10000000000000003\r\nabc\r\n",
    "a size that ends in LF": b"3\nabc\r\n",
    "a size that ends in CR": b"3\rabc\r\n",
    "data that ends in LF": b"3\r\nabc\n",
    "data that ends in nothing": b"3\r\nabc",
    "data that is longer": b"3\r\nabcd\r\n",
    "data that is shorter": b"3\r\nab\r\n",
    "LF in an extension": b"3;a\nb\r\nabc\r\n",
    "CR in an extension": b"3;a\rb\r\nabc\r\n",
    "NUL in an extension": b"3;a\0b\r\nabc\r\n",
    "an endless extension": b"3;" + 70000 * b"a" + b"\r\nabc\r\n",
    "much in small extensions": 40 * (b"1;" + 60 * b"e" + b"\r\na\r\n"),
}
TRAILERS = {
    "a fold": b"X: a\r\n b\r\n",
    "bare LF": b"X: a\n",
    "NUL": b"X: a\0b\r\n",
    "no colon": b"X\r\n",
    "a blank before the colon": b"X : a\r\n",
    "a length": b"Content-Length: 2\r\n",
    "a coding": b"Transfer-Encoding: chunked\r\n",
    "a cookie": b"Set-Cookie: a=b\r\n",
    "a response": b"HTTP/1.1 200 OK\r\n",
    "too many": 150 * b"X: y\r\n",
    "too large": b"X: " + 40000 * b"y" + b"\r\n",
}
CUT.update({"chunks: " + name: [CHUNKED + b"2\r\nab\r\n" + raw + END] for name, raw in BROKEN.items()})
CUT.update({"trailers: " + name: [CHUNKED + b"2\r\nab\r\n0\r\n" + raw + b"\r\n"] for name, raw in TRAILERS.items()})


@pytest.mark.parametrize("abrupt", [False, True], ids=["end", "reset"])
@pytest.mark.parametrize("name", CUT)
def test_content_that_breaks_off_is_a_cut(service, name, abrupt):
    service.answers(*CUT[name], abrupt=abrupt, ends=True)
    assert service.is_cut()
    service.next_is_good(fresh=1)


@pytest.mark.parametrize("raw", [CHUNKED + b"2\r\nab\r\nzz\r\n", CHUNKED + b"2\r\nab\r\n3\nabc\r\n"])
def test_broken_chunks_are_a_cut_for_an_old_client_too(service, raw):
    """HTTP/1.0 knows no chunks: to such a client only the end of the connection ends the content, so it may not look like one."""
    service.answers(raw)
    service.send(version="1.0")
    with pytest.raises(Closed, match="EOF|reset"):
        service.wire.response()
    service.wire = None
    service.next_is_good(fresh=1)


# ---- whole answers, behind which the connection is not used again, or is


def whole(raw, body=b"ok", method="GET", status=200, fresh=1, ends=False, tls=True):
    return dict(raw=raw, body=body, method=method, status=status, fresh=fresh, ends=ends)


NOT_EMPTY = HEAD + b"Content-Length: 2\r\n\r\nok"
WHOLE = {
    "in order": whole(OK, fresh=0),
    "chunks in order": whole(CHUNKED + b"2\r\nok\r\n0\r\n\r\n", fresh=0),
    "chunks with an extension": whole(CHUNKED + b"2;a=b\r\nok\r\n0\r\n\r\n", fresh=0),
    "no reason": whole(b"HTTP/1.1 200 \r\nContent-Length: 2\r\n\r\nok", fresh=0),
    "HEAD in order": whole(HEAD + b"Content-Length: 40\r\n\r\n", b"", "HEAD", fresh=0),
    "HEAD, chunked": whole(CHUNKED, b"", "HEAD", fresh=0),
    "HEAD without framing": whole(HEAD + b"\r\n", b"", "HEAD", fresh=0),
    "204 in order": whole(b"HTTP/1.1 204 No Content\r\n\r\n", b"", status=204, fresh=0),
    "304 in order": whole(b"HTTP/1.1 304 Not Modified\r\nContent-Length: 40\r\n\r\n", b"", status=304, fresh=0),
    "100 that nobody asked for": whole(b"HTTP/1.1 100 Continue\r\n\r\n" + OK, fresh=0),
    "as many interim responses as may be": whole(16 * b"HTTP/1.1 103 Early Hints\r\n\r\n" + OK, fresh=0),
    "close": whole(HEAD + b"Connection: close\r\nContent-Length: 2\r\n\r\nok"),
    "close in a list": whole(HEAD + b"Connection: x, CLOSE\r\nContent-Length: 2\r\n\r\nok"),
    "close in a second line": whole(HEAD + b"Connection: keep-alive\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"),
    "HTTP/1.0": whole(b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok"),
    "HTTP/1.0 that stays": whole(b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok", fresh=0),
    "HTTP/1.0 until the end": whole(b"HTTP/1.0 200 OK\r\n\r\nok", ends=True),
    "until the end": whole(HEAD + b"\r\nok", ends=True),
    "until the end, and it says stay": whole(HEAD + b"Connection: keep-alive\r\n\r\nok", ends=True),
    "content of HEAD": whole(NOT_EMPTY, b"", "HEAD"),
    "chunks of HEAD": whole(CHUNKED + b"2\r\nok\r\n0\r\n\r\n", b"", "HEAD"),
    "content of 204": whole(b"HTTP/1.1 204 No Content\r\n\r\nok", b"", status=204),
    "a length of zero and content of 204": whole(b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\nok", b"", status=204),
    "content of 304": whole(b"HTTP/1.1 304 Not Modified\r\nContent-Length: 2\r\n\r\nok", b"", status=304),
    "chunks of 304": whole(b"HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", b"", status=304),
    "bytes behind a length": whole(OK + b"x"),
    "an empty line behind a length": whole(OK + b"\r\n"),
    "NUL behind a length": whole(OK + b"\0"),
    "bytes behind chunks": whole(CHUNKED + b"2\r\nok\r\n0\r\n\r\nx"),
    "a response behind a length": whole(OK + POISON),
    "a response behind chunks": whole(CHUNKED + b"2\r\nok\r\n0\r\n\r\n" + BEHIND),
    "a response behind 204": whole(b"HTTP/1.1 204 No Content\r\n\r\n" + POISON, b"", status=204),
    "a response behind 304": whole(b"HTTP/1.1 304 Not Modified\r\n\r\n" + POISON, b"", status=304),
    "a response behind HEAD": whole(HEAD + b"Content-Length: 2\r\n\r\n" + POISON, b"", "HEAD"),
    "interim responses behind": whole(OK + b"HTTP/1.1 100 Continue\r\n\r\n"),
    "a length of zero and bytes": whole(HEAD + b"Content-Length: 0\r\n\r\nabc", b""),
    "an end behind": whole(OK, ends=True),
}


@pytest.mark.parametrize("name", WHOLE)
def test_a_whole_answer(service, name):
    row = WHOLE[name]
    service.answers(row["raw"], ends=row["ends"])
    answer = service.ask(method=row["method"])
    assert (answer.status, answer.body) == (row["status"], row["body"])
    if row["fresh"]:
        time.sleep(0.02)  # what is behind may come a moment later
    service.next_is_good(fresh=row["fresh"])


def test_the_end_of_a_tls_connection_without_close_notify_ends_no_content(gateway, token, origins):
    s = Service(gateway, token, origins[0], True)
    try:
        s.answers(HEAD + b"\r\nok", abrupt=True, ends=True)
        assert s.is_cut()
        s.next_is_good(fresh=1)
    finally:
        s.close()


# ---- unasked for


@pytest.mark.parametrize("late", [POISON, b"x", b"\r\n", b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n"])
def test_bytes_on_an_idle_connection(service, late):
    say, said = threading.Event(), threading.Event()

    def script(request):
        yield OK
        say.wait(30)
        yield late
        said.set()

    service.origin.script = script
    assert service.ask().body == b"ok"
    say.set()
    said.wait(30)
    service.next_is_good(fresh=1)


@pytest.mark.parametrize("abrupt", [False, True], ids=["end", "reset"])
def test_an_end_of_an_idle_connection(service, abrupt):
    gone = threading.Event()

    def script(request):
        yield OK
        gone.set()
        raise OSError("closes")

    service.origin.script, service.origin.abrupt = script, abrupt
    assert service.ask().body == b"ok"
    gone.wait(30)
    service.next_is_good(fresh=1)


@pytest.mark.parametrize("greeting", [POISON, b"220 smtp.test ESMTP\r\n", b"\r\n"])
def test_a_service_that_speaks_first(service, greeting):
    """
    When it came before the request it is no answer (tests/unit/upstream.c); on its heels it may pass for one. Either way the
    real one, behind it, is nobody's.
    """
    service.origin.greeting = greeting
    service.answers(OK)
    answer = service.ask()
    assert answer.reason == "upstream_malformed" or greeting == POISON and answer.body == b"poisons"
    service.origin.greeting = b""
    service.next_is_good(fresh=1)


@pytest.mark.parametrize("raw", [OK, b"HTTP/1.1 413 X\r\nContent-Length: 0\r\n\r\n", b"HTTP/1.1 204 X\r\n\r\n"])
def test_an_answer_before_the_request_is_whole(gateway, token, origins, raw):
    """It is passed on; neither connection is used for another request, whose start would be in the middle of this one."""
    s = Service(gateway, token, origins[0], True)
    origins[0].early = raw
    try:
        s.send("/up/x", "PUT", "Content-Length: 500000\r\n", host="upload.test")
        s.wire.send(200000 * b"x")
        assert s.wire.response().status == int(raw.split(b" ")[1])
        assert s.wire.is_closed()
        origins[0].early, s.wire = None, None
        s.next_is_good(fresh=1)
    finally:
        origins[0].early = None
        s.close()


# ---- what a service may not tell the client


DROPPED = {
    "Alt-Svc": b'h2=":443"', "Proxy-Authenticate": b"Basic realm=x", "Proxy-Connection": b"close", "Keep-Alive": b"timeout=5", "Upgrade": b"h2c",
    "Proxy-Status": b"gw.test; error=none", "Trailer": b"X", "TE": b"trailers", "Proxy-Authorization": b"Basic YTpi",
}


@pytest.mark.parametrize("name", DROPPED)
def test_a_field_that_is_not_the_services_to_say(service, name):
    service.answers(fields(name.encode() + b": " + DROPPED[name], b"Content-Length: 2") + b"ok")
    answer = service.ask()
    assert (answer.status, answer.body, answer.field(name)) == (200, b"ok", None)


def test_fields_that_connection_names_stay_behind(service):
    service.answers(fields(b"Connection: X-Hop, x-other", b"X-Hop: 1", b"X-OTHER: 2", b"X-End: 3", b"Content-Length: 2") + b"ok")
    answer = service.ask()
    assert (answer.field("X-Hop"), answer.field("X-Other"), answer.field("X-End")) == (None, None, "3")
    assert answer.field("Via") == "1.1 gw.test"


@pytest.mark.parametrize("method,raw,length", [("GET", OK, "2"), ("HEAD", HEAD + b"Content-Length: 40\r\n\r\n", "40"),
                                               ("GET", b"HTTP/1.1 304 X\r\nContent-Length: 40\r\n\r\n", "40"),
                                               ("GET", HEAD + b"Content-Length:  0002 \r\n\r\nok", "2")])
def test_one_length_is_said_once(service, method, raw, length):
    service.answers(raw)
    answer = service.ask(method)
    assert [v for k, v in answer.fields if k.lower() == "content-length"] == [length]
    assert answer.field("Transfer-Encoding") is None


def test_interim_answers_reach_who_can_read_them(service):
    service.answers(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nConnection: x-hop\r\nX-Hop: 1\r\n\r\n" + OK)
    first = service.ask().interim[0]
    assert (first.status, first.field("Link"), first.field("X-Hop")) == (103, "</a>", None)
    assert service.ask(version="1.0").interim == []


# ---- slow, and stuck


@pytest.mark.parametrize("raw", [OK, CHUNKED + b"2\r\nok\r\n0\r\nX: y\r\n\r\n", b"HTTP/1.1 103 X\r\n\r\n" + OK])
def test_an_answer_byte_by_byte(service, raw):
    service.answers(*(raw[i:i + 1] for i in range(len(raw))))
    assert service.ask().body == b"ok"
    service.next_is_good(fresh=0)


def test_what_misbehaved_is_in_the_journal(gateway):
    reasons = {r.get("reason") for r in gateway.records(kind="result")}
    assert {"upstream_malformed", "upstream_closed", "upstream_proxy_auth"} <= reasons
    wait_until(gateway.verify, "the chain")


# ---- a reset that comes together with the last bytes is announced by nothing of its own


@pytest.mark.parametrize("said", [b"Content-Length: 0\r\n\r", b"Content-Length: 9\r\n\r\nhalf",
                                  b"Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"], ids=["head", "length", "chunks"])
def test_a_reset_right_behind_the_last_bytes_is_noticed(service, gateway, said):
    workers = gateway.pids("worker")

    def script(request):
        for pid in workers:
            os.kill(pid, signal.SIGSTOP)
        threading.Timer(0.5, lambda: [os.kill(pid, signal.SIGCONT) for pid in workers]).start()
        yield HEAD + said
        raise OSError("closes")

    service.origin.script, service.origin.abrupt = script, True
    if b"half" in said:
        service.is_cut()
    else:
        answer = service.ask()
        assert (answer.status, answer.reason) == (502, "upstream_closed")
