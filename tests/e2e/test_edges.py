"""What the files of cases cannot say: the edges of TLS, whose token a request carries, ends at every stage."""
import contextlib
import ctypes
import os
import re
import select
import signal
import ssl
import time

import pytest
from conftest import BOTH
from gateway import basic, connect_head, wait_until

EXTRA = "limits: {header-time: 2s, head: 16k}"
UNRECOGNIZED_NAME, NO_APPLICATION_PROTOCOL = b"\x15\x03\x03\x00\x02\x02\x70", b"\x15\x03\x03\x00\x02\x02\x78"


def get(path="/pkg/a", host="registry.test", fields="", method="GET"):
    return f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n"


# ---- the ClientHello, byte by byte


class Hello:
    """A TLS client without a socket of its own: what it sends can be cut as one likes."""

    def __init__(self, gateway, name, alpn=None):
        context = ssl.create_default_context(cafile=str(gateway.root))
        if name != "registry.test":
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if alpn:
            context.set_alpn_protocols(alpn)
        self.to_us, self.from_us = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.to_us, self.from_us, server_hostname=name)
        self.step(self.tls.do_handshake)
        self.bytes = self.from_us.read()

    def step(self, call, *args):
        """One try: whether TLS had what it needed, and what it gave."""
        try:
            return True, call(*args)
        except ssl.SSLWantReadError:
            return False, None

    def finish(self, wire, call, *args):
        while True:
            done, value = self.step(call, *args)
            wire.send(self.from_us.read())
            if done:
                return value
            if not wire.buffer:
                wire.more()
            self.to_us.write(wire.buffer)
            wire.buffer = b""

    def request(self, wire, raw):
        self.finish(wire, self.tls.do_handshake)
        self.tls.write(raw.encode())
        return self.finish(wire, self.tls.read, 65536)


def records(data):
    """The payloads of handshake records."""
    found = b""
    while data:
        n = int.from_bytes(data[3:5], "big")
        assert data[0] == 0x16
        found, data = found + data[5:5 + n], data[5 + n:]
    return found


def in_records(payload, size):
    pieces = [payload[i:i + size] for i in range(0, len(payload), size)]
    return b"".join(b"\x16\x03\x01" + len(p).to_bytes(2, "big") + p for p in pieces)


def plain_tunnel(gateway, token):
    wire = gateway.tunnel("registry.test", token, tls=False)
    wire.socket.settimeout(15)
    return wire


@pytest.mark.parametrize("size", [16, 100])
def test_hello_over_many_records(gateway, token, size):
    hello, wire = Hello(gateway, "registry.test"), plain_tunnel(gateway, token)
    wire.send(in_records(records(hello.bytes), size))
    assert hello.request(wire, get()).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("size", [1, 50])
def test_hello_over_many_packets(gateway, token, size):
    hello, wire = Hello(gateway, "registry.test"), plain_tunnel(gateway, token)
    for i in range(0, len(hello.bytes), size):
        wire.send(hello.bytes[i:i + size])
        time.sleep(0.001)
    assert hello.request(wire, get()).startswith(b"HTTP/1.1 200")


def test_hello_in_the_packet_of_connect(gateway, token):
    hello, wire = Hello(gateway, "registry.test"), gateway.connect()
    wire.send(connect_head("registry.test", token) + hello.bytes)
    assert wire.response("CONNECT").status == 200
    assert hello.request(wire, get()).startswith(b"HTTP/1.1 200")


def test_hello_in_the_packet_of_a_refused_connect_is_not_read_as_a_request(gateway, token, origins):
    hello, wire = Hello(gateway, "other.test"), gateway.connect()
    wire.send(connect_head("other.test", token) + hello.bytes)
    answer = wire.response()
    assert (answer.status, answer.reason) == (403, "host_not_listed")
    assert all(o.raw == [] for o in origins)


@pytest.mark.parametrize("name", ["REGISTRY.test", "registry.test."])
def test_other_spellings_of_the_name(gateway, token, name):
    hello, wire = Hello(gateway, name), plain_tunnel(gateway, token)
    assert name.encode() in hello.bytes
    wire.send(hello.bytes)
    assert hello.request(wire, get()).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("name", [None, "upload.test", "registry.test.other.test", "xregistry.test", "registry.tes"])
def test_no_name_or_another(gateway, token, origins, name):
    before = len(gateway.records(kind="connection", reason="sni_mismatch"))
    hello, wire = Hello(gateway, name), plain_tunnel(gateway, token)
    wire.send(hello.bytes)
    assert wire.rest().endswith(UNRECOGNIZED_NAME)
    gateway.wait_for(before + 1, kind="connection", reason="sni_mismatch")
    assert origins[0].requests == []


@pytest.mark.parametrize("size", [2000, 6000, 30000])
def test_hello_as_large_as_post_quantum_keys_make_it(gateway, token, size):
    names = [f"proto-{i:010}" for i in range(size // 17)] + ["http/1.1"]
    hello, wire = Hello(gateway, "registry.test", alpn=names), plain_tunnel(gateway, token)
    assert len(hello.bytes) > size
    wire.send(hello.bytes)
    assert hello.request(wire, get()).startswith(b"HTTP/1.1 200")


def test_h2_alone_is_refused_and_with_http_1_1_it_is_not_chosen(gateway, token):
    hello, wire = Hello(gateway, "registry.test", alpn=["h2"]), plain_tunnel(gateway, token)
    wire.send(hello.bytes)
    assert wire.rest().endswith(NO_APPLICATION_PROTOCOL)
    gateway.wait_for(kind="connection", reason="client_tls")
    hello, wire = Hello(gateway, "registry.test", alpn=["h2", "http/1.1"]), plain_tunnel(gateway, token)
    wire.send(hello.bytes)
    assert hello.request(wire, get()).startswith(b"HTTP/1.1 200")
    assert hello.tls.selected_alpn_protocol() == "http/1.1"


def test_a_hello_that_never_ends_is_given_up(gateway, token):
    wire = plain_tunnel(gateway, token)
    wire.send(b"\x16\x03\x01\x40\x00\x01\xff\xff\xff" + bytes(20000))
    assert wire.is_closed()


# ---- whose token


def test_two_sandboxes_on_one_plain_connection(gateway, origins):
    first, second = gateway.token(BOTH, sandbox="edge-1"), gateway.token(BOTH, sandbox="edge-2")
    before = origins[1].connections
    wire = gateway.connect()
    for i, token in enumerate((first, second, None, first)):
        credential = f"Proxy-Authorization: Bearer {token}\r\n" if token else ""
        wire.send(get(f"http://registry.test/pkg/{i}", fields=credential))
        assert wire.response().status == (200 if token else 407)
    assert origins[1].connections == before + 2, "one connection to the service for each sandbox, and the first re-used"
    decided = {r.get("http", {}).get("path"): r.get("sandbox") for r in gateway.records(kind="decision")}
    assert [decided.get(f"/pkg/{i}") for i in (0, 1, 3)] == ["edge-1", "edge-2", "edge-1"]


def test_another_sandbox_gets_no_tls_session_of_the_first(gateway):
    """Tickets are bound to who asked (net/tls.h): a stolen one is worth a full handshake."""
    context = ssl.create_default_context(cafile=str(gateway.root))
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    session, reused = None, []
    for sandbox in ("ticket-1", "ticket-1", "ticket-2"):
        wire = gateway.tunnel("registry.test", gateway.token(BOTH, sandbox=sandbox), tls=False)
        tls = context.wrap_socket(wire.socket, server_hostname="registry.test", session=session)
        reused.append(tls.session_reused)
        session = session or tls.session
        tls.close()
    assert reused == [False, True, False]


def tickets_of(gateway, token, handshakes, session=None):
    """Of so many handshakes one after another, the sessions that a ticket came for; each shows the one of the last ticket when it is given one."""
    context, found = (session[0] if session else ssl.create_default_context(cafile=str(gateway.root))), []
    for _ in range(handshakes):
        tls = context.wrap_socket(gateway.tunnel("registry.test", token, tls=False).socket, server_hostname="registry.test",
                                  session=session and session[1])
        tls.sendall(get().encode())
        assert tls.recv(4096).startswith(b"HTTP/1.1 200")
        if tls.session.has_ticket and not (session and tls.session == session[1]):
            found.append((context, tls.session))
        tls.close()
    return found


def test_tickets_go_to_who_uses_them(gateway):
    """One costs a tenth of a handshake: eight in a row that nobody shows are followed by few, and one that is shown by more."""
    token = gateway.token(BOTH, sandbox="ticket-3")
    assert len(tickets_of(gateway, token, 8)) == 8
    few = tickets_of(gateway, token, 16)
    assert len(few) == 1
    assert len(tickets_of(gateway, token, 1, few[0])) == 1, "who shows one gets another"
    assert len(tickets_of(gateway, token, 7)) == 7


# ---- a tunnel to where a connection lies open


@pytest.fixture
def opened(gateway, origins):
    """A tunnel of a new sandbox beside one that left an open connection, while the scribe stands still; then what becomes of the scribe."""
    token = gateway.token(BOTH, sandbox=f"opened-{time.monotonic_ns()}")
    first = gateway.tunnel("registry.test", token)
    first.send(get("/pkg/first"))
    assert first.response().status == 200
    scribe = gateway.pids("scribe")[0]
    os.kill(scribe, signal.SIGSTOP)
    try:
        wire = gateway.tunnel("registry.test", token)
        wire.send(get("/pkg/early"))
        patience = wire.socket.gettimeout()
        wire.socket.settimeout(0.3)
        with pytest.raises(TimeoutError):
            wire.socket.recv(1)
        wire.socket.settimeout(patience)
        assert "/pkg/early" not in [r.target for r in origins[0].requests]
        yield wire, scribe
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(scribe, signal.SIGCONT)


def test_a_tunnel_to_an_open_connection_waits_for_no_record_but_what_goes_through_it_does(gateway, opened):
    wire, scribe = opened
    os.kill(scribe, signal.SIGCONT)
    assert wire.response().status == 200
    inner = next(r for r in gateway.records(kind="decision") if r.get("http", {}).get("path") == "/pkg/early")
    outer = gateway.records(kind="decision", id=inner["tunnel"])[0]
    assert outer["seq"] < inner["seq"] and outer["action"] == "allow" and outer["token"]["sha256"]


def test_a_tunnel_whose_record_is_lost_is_cut(gateway, origins, opened):
    wire, scribe = opened
    lost = len(gateway.records(kind="connection", reason="record_unavailable"))
    os.kill(scribe, signal.SIGKILL)
    assert wire.is_closed()
    gateway.wait_for(lost + 1, kind="connection", reason="record_unavailable")
    assert "/pkg/early" not in [r.target for r in origins[0].requests]
    wait_until(lambda: gateway.pids("scribe") not in ([], [scribe]), "another scribe")


# ---- key updates (RFC 8446 4.6.3), which cost who sends them nothing


class Updates:
    """What OpenSSL does for a connection of Python's ssl module that the module has no word for."""

    def __init__(self, wire):
        self.library = ctypes.CDLL("libssl.so.3")
        held = id(wire.socket._sslobj)  # PyObject_HEAD, the socket, and then the SSL
        self.ssl = ctypes.c_void_p.from_address(held + 3 * ctypes.sizeof(ctypes.c_void_p))
        assert self.library.SSL_version(self.ssl) == 0x0304

    def send(self, n):
        """How many of n went out before the gateway had enough."""
        for i in range(n):
            if not self.library.SSL_key_update(self.ssl, 0) or self.library.SSL_do_handshake(self.ssl) != 1:
                return i
        return n


def test_key_updates_now_and_then(gateway, token):
    wire = gateway.tunnel("registry.test", token)
    for _ in range(30):
        assert Updates(wire).send(100) == 100
        wire.send(get("/pkg/a"))
        assert wire.response().status == 200


def test_key_updates_and_nothing_else(gateway, token):
    wire = gateway.tunnel("registry.test", token)
    assert Updates(wire).send(100000) < 100000
    assert wire.is_closed()


# ---- requests that come in pieces, or with something behind them


def test_a_head_in_drops_is_late_all_the_same(gateway):
    wire = gateway.connect()
    for piece in get("http://registry.test/pkg/a", fields="X: " + 100 * "y"):  # 15 s in all
        wire.send(piece)
        if select.select([wire.socket], [], [], 0.1)[0]:
            break
    answer = wire.response()
    assert (answer.status, answer.reason) == (408, "request_timeout")


def test_nothing_behind_a_malformed_head_is_read(tunnel, origins):
    tunnel.send(get("/pkg/1") + "GET /pkg/2 HTTP/1.1\r\nHost : x\r\n\r\n" + get("/pkg/3"))
    assert [tunnel.response().status for _ in range(2)] == [200, 400]
    assert tunnel.is_closed()
    assert [r.target for r in origins[0].requests] == ["/pkg/1"]


@pytest.mark.parametrize("framing", ["Content-Length: {n}", "Transfer-Encoding: chunked"])
def test_the_body_of_a_refused_request_is_no_request(gateway, token, origins, framing):
    wire = gateway.tunnel("upload.test", token)
    body = get("/up/hidden", "upload.test")
    sent = body if "n" in framing and "{" in framing else f"{len(body):x}\r\n{body}\r\n0\r\n\r\n"
    wire.send(get("/nowhere", "upload.test", framing.format(n=len(body)) + "\r\n", "POST") + sent)
    assert wire.response().reason == "path_not_allowed"
    rest = wire.rest()
    assert b"200" not in rest
    assert origins[0].requests == []


def test_a_client_that_goes_in_the_middle_of_a_body(gateway, token, origins):
    wire = gateway.tunnel("upload.test", token)
    wire.send(get("/up/x", "upload.test", "Content-Length: 200000\r\n", "PUT") + 100000 * "x")
    wait_until(lambda: origins[0].requests, "the head at the origin")
    wire.close()
    wait_until(lambda: origins[0].requests[0].over, "the end at the origin")
    assert not origins[0].requests[0].complete


def test_trailers_pass_the_same_list_as_fields(gateway, token, origins):
    wire = gateway.tunnel("upload.test", token)
    wire.send(get("/up/x", "upload.test", "Transfer-Encoding: chunked\r\n", "PUT") +
              "3\r\nabc\r\n0\r\nX-Sum: 1\r\nX-Forwarded-For: ::1\r\nX-HTTP-Method-Override: DELETE\r\n\r\n")
    assert wire.response().status == 200
    raw = origins[0].requests[0].raw
    assert raw.endswith(b"0\r\nX-Sum: 1\r\n\r\n") and b"X-Forwarded-For" not in raw


# ---- a tunnel is one sandbox's


INNER = {
    "the same": (lambda g, own: f"Bearer {own}", 200, None),
    "the same, as Basic": (lambda g, own: basic(own), 200, None),
    "another of the sandbox": (lambda g, own: f"Bearer {g.token(BOTH, sandbox='inner', lifetime='20m')}", 200, None),
    "an older one of the sandbox": (lambda g, own: f"Bearer {g.token(BOTH, sandbox='inner', lifetime='1m')}", 200, None),
    "another sandbox's": (lambda g, own: f"Bearer {g.token(BOTH, sandbox='helper')}", 403, "token_foreign"),
    "another sandbox's, as Basic": (lambda g, own: basic(g.token(BOTH, sandbox="helper")), 403, "token_foreign"),
    "one that does not verify": (lambda g, own: f"Bearer {own[:-8]}AAAAAAAA", 403, "token_signature"),
    "no token": (lambda g, own: "Bearer abc", 403, "token_malformed"),
    "a scheme we do not speak": (lambda g, own: "Negotiate YII=", 403, "token_malformed"),
}


@pytest.mark.parametrize("port", [443, 80])
@pytest.mark.parametrize("name", INNER)
def test_a_token_inside_a_tunnel(gateway, origins, name, port):
    make, status, reason = INNER[name]
    own = gateway.token(BOTH, sandbox="inner")
    wire = gateway.tunnel("registry.test", own, port=port, tls=port == 443)
    wire.send(get("/pkg/1", fields=f"Proxy-Authorization: {make(gateway, own)}\r\n") + get("/pkg/2"))
    answer = wire.response()
    assert (answer.status, answer.reason) == (status, reason)
    if status == 200:
        assert wire.response().status == 200
    else:
        assert wire.rest() == b"", "nothing more is answered in a tunnel that somebody else spoke in"
        assert gateway.wait_for(kind="decision", reason=reason)[-1]["sandbox"] == "inner"
    seen = [r for o in origins for r in o.requests]
    assert [r.target for r in seen] == (["/pkg/1", "/pkg/2"] if status == 200 else [])
    assert all(r.field("proxy-authorization") is None for r in seen)


# ---- the client has nothing more to say: at every stage


def half_closed(wire, sent):
    wire.socket.settimeout(15)
    wire.send(sent)
    wire.half_close()
    return wire


PLAIN = get("http://registry.test/pkg/a", fields="Proxy-Authorization: Bearer {token}\r\n")
PUT = get("http://upload.test/up/x", "upload.test", "Proxy-Authorization: Bearer {token}\r\nContent-Length: 10\r\n", "PUT")
CONNECT = "CONNECT registry.test:{port} HTTP/1.1\r\nHost: registry.test:{port}\r\nProxy-Authorization: Bearer {token}\r\n\r\n"


@pytest.mark.parametrize("sent,statuses,complete", [
    pytest.param("", [], 0, id="nothing sent"),
    pytest.param("GET http://registry.te", [400], 0, id="half a request line"),
    pytest.param(PLAIN[:-2], [400], 0, id="a head without its empty line"),
    pytest.param(PLAIN, [200], 1, id="a request"),
    pytest.param(PLAIN + PLAIN, [200, 200], 2, id="two requests"),
    pytest.param(PLAIN + PLAIN[:-30], [200, 400], 1, id="a request and a half"),
    pytest.param(PUT + "0123456789", [200], 1, id="a request with its content"),
    pytest.param(PUT, [], 0, id="a request without its content"),
    pytest.param(PUT + "012", [], 0, id="a request with a part of its content"),
    pytest.param(CONNECT.format(port=443, token="{token}")[:-2], [400], 0, id="half a CONNECT"),
    pytest.param(CONNECT.format(port=443, token="{token}"), [200], 0, id="CONNECT and no TLS"),
    pytest.param(CONNECT.format(port=80, token="{token}"), [200], 0, id="CONNECT and no request"),
    pytest.param(CONNECT.format(port=80, token="{token}") + "GET /pk", [200, 400], 0, id="CONNECT and half a request"),
    pytest.param(CONNECT.format(port=80, token="{token}") + get(), [200, 200], 1, id="CONNECT and a request"),
    pytest.param(CONNECT.format(port=443, token="{token}") + "\x16\x03\x01\x02", [200], 0, id="CONNECT and half a ClientHello"),
])
def test_a_half_close_in_plain(gateway, token, origins, sent, statuses, complete):
    wire = half_closed(gateway.connect(), sent.replace("{token}", token).encode("latin-1"))
    for status in statuses:
        assert wire.response("CONNECT" if sent.startswith("CONNECT") and status == 200 and status is statuses[0] else "GET").status == status
    rest = wire.rest()
    assert not re.search(rb"HTTP/1\.1 \d", rest), rest
    wait_until(lambda: all(r.over for o in origins for r in o.requests), "the origins")
    assert sum(r.complete for o in origins for r in o.requests) == complete


@pytest.mark.parametrize("sent,status,complete", [
    pytest.param("", None, 0, id="nothing sent"),
    pytest.param(get()[:-2], 400, 0, id="half a head"),
    pytest.param(get(), 200, 1, id="a request"),
    pytest.param(get("/nowhere"), 403, 0, id="a request that is refused"),
])
@pytest.mark.parametrize("how", ["close_notify", "end"])
def test_a_half_close_in_tls(gateway, token, origins, sent, status, complete, how):
    """close_notify ends what the client says, and the answer still comes; an end of TCP alone is a cut, and nobody hangs."""
    hello, wire = Hello(gateway, "registry.test"), plain_tunnel(gateway, token)
    wire.send(hello.bytes)
    hello.finish(wire, hello.tls.do_handshake)
    hello.step(hello.tls.write, sent.encode())
    if how == "close_notify":
        hello.step(hello.tls.unwrap)
    wire.send(hello.from_us.read())
    if how == "end":
        wire.half_close()
    data = wire.rest()
    hello.to_us.write(data)
    answer = b""
    while True:
        try:
            done, piece = hello.step(hello.tls.read, 65536)
        except ssl.SSLError:
            break
        if not done or not piece:
            break
        answer += piece
    if how == "close_notify" and status:
        assert answer.startswith(b"HTTP/1.1 %d" % status)
    assert len(re.findall(rb"HTTP/1\.1 \d", answer)) <= 1
    wait_until(lambda: all(r.over for o in origins for r in o.requests), "the origins")
    assert sum(r.complete for o in origins for r in o.requests) <= complete


def test_a_cut_inside_a_body_in_tls_is_no_end_of_it(gateway, token, origins):
    wire = gateway.tunnel("upload.test", token)
    wire.send(get("/up/x", "upload.test", "Content-Length: 200000\r\n", "PUT") + 100000 * "x")
    wait_until(lambda: origins[0].requests, "the head at the origin")
    wire.half_close()
    assert wire.is_closed()
    wait_until(lambda: origins[0].requests[0].over, "the end at the origin")
    assert not origins[0].requests[0].complete
