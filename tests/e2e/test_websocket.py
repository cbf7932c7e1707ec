"""
WebSocket: who may open one and how, and that everything in it is looked at as the content of a request is: what a frame
carries, whatever it is cut into and masked with; and how it ends.
"""
import asyncio
import json
import os
import socket
import ssl
import struct
import threading
import time

import pytest
import websockets

from conftest import BOTH
from frames import (BINARY, CLOSE, CONTINUATION, KEY, PING, PONG, TEXT, Service, Speaker, accept, client_frame, close_payload, frame,
                    handshake, switch, turned)
from gateway import PATIENCE, Closed, Gateway, Wire, connect_head, exeat, wait_until

SERVICE = """
  {name}-{kind}:
    hosts: [{name}.test]
    {ports}: [{port}]
    addresses: ["127.0.0.1:{origin}"]
    allow: ["GET /ws/**", "POST /ws/**"]
    scope: registry:read
    audit: "waived: test"
    {more}
"""


def listed(plain, tls, ca, more="websocket: allow"):
    out = SERVICE.format(name="registry", kind="plain", ports="plain-ports", port=80, origin=plain, more=more)
    out += SERVICE.format(name="registry", kind="tls", ports="ports", port=443, origin=tls, more=more) + f"    ca-file: {ca}\n"
    return out + SERVICE.format(name="upload", kind="plain", ports="plain-ports", port=80, origin=plain, more="")


@pytest.fixture(scope="module")
def service():
    s = Service()
    yield s
    s.close()


@pytest.fixture(scope="module")
def service_tls(pki):
    s = Service(pki[1], pki[2])
    yield s
    s.close()


@pytest.fixture(scope="module")
def gateway(tmp_path_factory, pki, service, service_tls):
    g = Gateway(tmp_path_factory.mktemp("ws") / "state", listed(service.port, service_tls.port, pki[0]),
                extra="limits: {websocket-message: 1m, websocket-idle: 1h}").start()
    yield g
    status = g.stop()
    print(g.output().decode()[-4000:])
    assert status == 0


@pytest.fixture
def token(gateway):
    return gateway.token(BOTH)


@pytest.fixture(scope="module")
def canary(gateway):
    return json.loads((gateway.directory / "canaries.json").read_text())["canaries"][0]["value"]


def ask(gateway, token, host="registry.test", path="/ws/a", fields="", request=None):
    """A handshake as a proxy's client sends it for ws://; the wire."""
    wire = gateway.connect()
    credential = f"Proxy-Authorization: Bearer {token}\r\n"
    wire.send(request or handshake(target=f"http://{host}{path}", host=host, fields=credential + fields))
    return wire


class Socket:
    """An open WebSocket through the gateway, and its end at the service."""

    def __init__(self, gateway, token, service, path="/ws/a", fields=""):
        self.wire = ask(gateway, token, path=path, fields=fields)
        self.answer = self.wire.response()
        assert self.answer.status == 101, self.answer.line
        self.client, self.service = Speaker(self.wire, True), service.next()
        self.gateway = gateway
        self.id = gateway.wait_for(kind="decision", action="allow")[-1]["id"]

    def result(self):
        return wait_until(lambda: [r for r in self.gateway.records(kind="result") if r["id"] == self.id], "its result")[0]


@pytest.fixture
def open_socket(gateway, token, service):
    opened = []

    def begin(**more):
        opened.append(Socket(gateway, more.pop("token", token), more.pop("service", service), **more))
        return opened[-1]

    yield begin
    for s in opened:
        s.wire.close()
        s.service.wire.close()


# ---- it works


def test_a_conversation_and_its_records(gateway, open_socket, service):
    s = open_socket()
    assert s.answer.field("Upgrade") == "websocket" and s.answer.field("Connection") == "Upgrade"
    assert s.answer.field("Sec-WebSocket-Accept") == accept(KEY)
    for text in ("hello", "", "a" * 200, "b" * 70000):
        s.client.text(text)
        assert s.service.message() == (TEXT, text.encode())
        s.service.say(BINARY, text.encode())
        assert s.client.message() == (BINARY, text.encode())
    s.client.close(1000, "done")
    assert s.service.closed() == (1000, "done")
    s.service.close(1000)
    assert s.client.closed() == (1000, "")
    assert s.wire.is_closed() and s.service.wire.is_closed()
    result = s.result()
    assert (result["outcome"], result["http"]["status"], result.get("reason")) == ("complete", 101, None)
    assert result["websocket"] == {"client_frames": 5, "service_frames": 5, "close": 1000}
    assert result["http"]["request_bytes"] == 70205 + 6 and result["http"]["response_bytes"] == 70205 + 2
    assert gateway.verify()


def test_a_short_message_is_one_frame_and_masked_anew(open_socket):
    s = open_socket()
    for text in ("hello", "x" * 5000):
        s.wire.send(client_frame(TEXT, text.encode(), mask=b"abcd"))
        assert s.service.hear() == (True, TEXT, text.encode())
        s.service.text(text)
        assert s.client.hear() == (True, TEXT, text.encode())
    assert b"abcd" not in s.service.masks and len(set(s.service.masks)) == 2


def test_what_comes_right_behind_the_handshake_on_either_side(gateway, token, service, open_socket):
    """Bytes behind the 101, in the same packet; and what the client said before it had the 101."""
    service.answer = lambda head: switch(head) + frame(TEXT, b"first") + frame(TEXT, b"second")[:3]
    try:
        wire = ask(gateway, token)
        wire.send(client_frame(TEXT, b"eager"))
        assert wire.response().status == 101
        there, here = service.next(), Speaker(wire, True)
        assert here.message() == (TEXT, b"first")
        assert there.message() == (TEXT, b"eager")
        there.wire.send(frame(TEXT, b"second")[3:])
        assert here.message() == (TEXT, b"second")
        wire.close()
    finally:
        service.answer = switch


def test_what_the_client_says_before_the_101_waits_for_it(gateway, token, service):
    service.answer = None
    try:
        wire = ask(gateway, token)
        there = service.next()
        wire.send(client_frame(TEXT, b"eager"))
        there.wire.socket.settimeout(0.3)
        with pytest.raises(TimeoutError):
            there.wire.socket.recv(1)
        there.wire.socket.settimeout(PATIENCE)
        there.wire.send(switch(service.heads[-1]))
        assert there.message() == (TEXT, b"eager")
        assert wire.response().status == 101
        wire.close()
    finally:
        service.answer = switch


def test_an_answer_that_does_not_switch_is_an_answer_and_ends_the_connection(gateway, token, service):
    """What the client said behind its handshake was said in the hope of another protocol: it is read as nothing else."""
    before = len(service.heads)
    service.answer = lambda head: b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno"
    try:
        wire = ask(gateway, token)
        wire.send(f"GET http://registry.test/ws/smuggled HTTP/1.1\r\nHost: registry.test\r\nProxy-Authorization: Bearer {token}\r\n\r\n")
        answer = wire.response()
        assert (answer.status, answer.body, answer.field("Connection")) == (403, b"no", "close")
        assert wire.is_closed() and len(service.heads) == before + 1
        assert b"smuggled" not in service.heads[-1]
    finally:
        service.answer = switch


def test_inside_tls(gateway, token, service_tls):
    wire = gateway.tunnel("registry.test", token)
    wire.send(handshake())
    assert wire.response().status == 101
    here, there = Speaker(wire, True), service_tls.next()
    here.text("x" * 100000)
    assert there.message() == (TEXT, b"x" * 100000)
    there.text("y" * 100000)
    assert here.message() == (TEXT, b"y" * 100000)
    here.close()
    assert there.closed() == (1000, "")
    there.close()
    assert here.closed() == (1000, "")
    assert wire.is_closed()


def test_plain_inside_a_tunnel_to_port_80(gateway, token, service):
    wire = gateway.tunnel("registry.test", token, port=80, tls=False)
    wire.send(handshake())
    assert wire.response().status == 101
    here, there = Speaker(wire, True), service.next()
    here.text("hello")
    assert there.message() == (TEXT, b"hello")
    wire.close()


# ---- frames


def test_pings_and_pongs_both_ways_and_inside_a_message(open_socket):
    s = open_socket()
    s.client.say(PING, b"p1")
    assert s.service.hear() == (True, PING, b"p1")
    s.service.say(PONG, b"p1")
    assert s.client.hear() == (True, PONG, b"p1")
    s.service.say(PING)
    assert s.client.hear() == (True, PING, b"")
    s.client.say(TEXT, b"a", fin=False)
    s.client.say(PING, b"between")
    assert s.service.hear() == (True, PING, b"between")
    s.client.say(CONTINUATION, b"b")
    assert s.service.message() == (TEXT, b"ab")


def test_frames_of_one_byte(open_socket):
    s = open_socket()
    text = os.urandom(3000)
    s.wire.send(b"".join(client_frame(BINARY if i == 0 else CONTINUATION, text[i:i + 1], i == len(text) - 1) for i in range(len(text))))
    assert s.service.message() == (BINARY, text)
    for i in range(0, len(text), 1000):
        s.service.say(BINARY if i == 0 else CONTINUATION, text[i:i + 1000], fin=i == 2000)
    assert s.client.message() == (BINARY, text)


def test_a_frame_byte_by_byte(open_socket):
    s = open_socket()
    for byte in client_frame(TEXT, b"h" * 130):
        s.wire.send(bytes([byte]))
    assert s.service.message() == (TEXT, b"h" * 130)


FRAMES = {
    "unmasked": frame(TEXT, b"a"),
    "rsv1": client_frame(TEXT, b"a", rsv=4),
    "rsv2": client_frame(TEXT, b"a", rsv=2),
    "rsv3": client_frame(TEXT, b"a", rsv=1),
    "opcode 3": client_frame(3, b"a"),
    "opcode 11": client_frame(11),
    "a continuation of nothing": client_frame(CONTINUATION, b"a"),
    "a message inside another": client_frame(TEXT, b"a", fin=False) + client_frame(TEXT, b"b"),
    "a ping in pieces": client_frame(PING, b"a", fin=False),
    "a ping of 126 bytes": client_frame(PING, bytes(126)),
    "a long length for a short frame": b"\x81\xfe\x00\x01abcda",
    "close of one byte": client_frame(CLOSE, b"\x03"),
    "close 1005": client_frame(CLOSE, close_payload(1005)),
    "close 1006": client_frame(CLOSE, close_payload(1006)),
    "close 5000": client_frame(CLOSE, close_payload(5000)),
    "a reason that is not UTF-8": client_frame(CLOSE, close_payload(1000) + b"\xff"),
}


@pytest.mark.parametrize("what", FRAMES)
def test_a_client_s_frame_that_rfc_6455_does_not_allow(open_socket, what):
    s = open_socket()
    s.client.text("before")
    assert s.service.message() == (TEXT, b"before")
    s.wire.send(FRAMES[what] + client_frame(TEXT, b"after"))
    code, reason = s.client.closed()
    assert code == 1002 and reason.startswith("exeat websocket_frame ")
    assert s.wire.is_closed()
    seen = []
    while not seen or seen[-1][1] != CLOSE:
        seen.append(s.service.hear())
    assert seen[-1][2] == close_payload(1001) and all(piece not in (b"b", b"after") for _, _, piece in seen)
    assert s.service.wire.is_closed()
    result = s.result()
    assert (result["outcome"], result["reason"], result["websocket"]["close"]) == ("cut", "websocket_frame", 1002)


SERVICE_FRAMES = {
    "masked": frame(TEXT, b"a", mask=b"abcd"),
    "rsv1": frame(TEXT, b"a", rsv=4),
    "opcode 5": frame(5, b"a"),
    "a continuation of nothing": frame(CONTINUATION, b"a"),
    "a ping in pieces": frame(PING, b"a", fin=False),
    "close 1015": frame(CLOSE, close_payload(1015)),
}


@pytest.mark.parametrize("what", SERVICE_FRAMES)
def test_a_service_s_frame_that_rfc_6455_does_not_allow(open_socket, what):
    s = open_socket()
    s.service.wire.send(SERVICE_FRAMES[what] + frame(TEXT, b"after"))
    code, reason = s.client.closed()
    assert code == 1011 and reason.startswith("exeat upstream_websocket ")
    assert s.wire.is_closed()
    assert s.service.closed() == (1002, "")
    assert s.result()["reason"] == "upstream_websocket"


@pytest.mark.parametrize("side", ["client", "service"])
def test_a_message_over_the_limit(open_socket, side):
    s = open_socket()
    sender, other = (s.client, s.service) if side == "client" else (s.service, s.client)
    half = bytes(600 << 10)
    sender.say(BINARY, half[:500 << 10], fin=False)
    got = b""
    while len(got) < 400 << 10:
        got += other.hear()[2]
    try:
        sender.say(CONTINUATION, half)
    except OSError:
        pass  # it was announced, and refused
    while (heard := s.client.hear())[1] != CLOSE:
        pass
    assert heard[2][:2] == close_payload(1009) and b"websocket_message" in heard[2]
    assert s.result()["reason"] == "websocket_message"


# ---- who may open one

HEAD = "GET http://registry.test/ws/a HTTP/1.1\r\nHost: registry.test\r\n"
GOOD = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Key": KEY, "Sec-WebSocket-Version": "13"}
HANDSHAKES = {
    "connection does not say so": {"Connection": "keep-alive"},
    "no connection": {"Connection": None},
    "another protocol beside it": {"Upgrade": "websocket, h2c"},
    "no key": {"Sec-WebSocket-Key": None},
    "a short key": {"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25j"},
    "a key that is no base64": {"Sec-WebSocket-Key": "!" * 24},
    "no version": {"Sec-WebSocket-Version": None},
    "version 8": {"Sec-WebSocket-Version": "8"},
    "a subprotocol twice": {"Sec-WebSocket-Protocol": "a, a"},
    "a body": {"Content-Length": "1"},
    "HTTP/1.0": {},
    "POST": {},
}


@pytest.mark.parametrize("what", HANDSHAKES)
def test_a_handshake_that_is_none(gateway, token, service, what):
    fields = {k: v for k, v in {**GOOD, **HANDSHAKES[what]}.items() if v is not None}
    head = HEAD.replace("1.1", "1.0") if what == "HTTP/1.0" else HEAD.replace("GET", "POST") if what == "POST" else HEAD
    head += f"Proxy-Authorization: Bearer {token}\r\n" + "".join(f"{k}: {v}\r\n" for k, v in fields.items())
    before = len(service.heads)
    answer = ask(gateway, token, request=head + "\r\n" + ("x" if what == "a body" else "")).response()
    assert (answer.status, answer.reason) == (400, "websocket_handshake")
    assert len(service.heads) == before
    short = answer.line.rsplit(" ", 1)[1]
    decision = [d for d in gateway.wait_for(kind="decision", action="deny") if d["id"].endswith(short)]
    assert decision and decision[0]["reason"] == "websocket_handshake"


def test_a_service_that_does_not_say_so_is_asked_for_none(gateway, token, service):
    before = len(service.heads)
    answer = ask(gateway, token, host="upload.test").response()
    assert (answer.status, answer.reason) == (403, "upgrade_not_allowed")
    assert len(service.heads) == before


def test_a_path_that_no_rule_allows(gateway, token, service):
    assert ask(gateway, token, path="/elsewhere").response().reason == "path_not_allowed"


def test_without_a_token(gateway, service):
    request = handshake(target="http://registry.test/ws/a")
    assert ask(gateway, None, request=request).response().reason == "token_missing"


def test_what_the_service_is_asked(gateway, token, service, open_socket):
    """No extension, or what is compressed could not be looked into; its subprotocols; and no token."""
    s = open_socket(fields="Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\nSec-WebSocket-Protocol: chat, "
                    "superchat\r\nOrigin: http://registry.test\r\nX-Mine: 1\r\n")
    head = service.heads[-1].decode().lower()
    assert "extensions" not in head and "proxy-authorization" not in head
    for line in ("sec-websocket-protocol: chat, superchat", f"sec-websocket-key: {KEY.lower()}", "sec-websocket-version: 13",
                 "upgrade: websocket", "connection: upgrade", "origin: http://registry.test", "x-mine: 1", "via: 1.1 gw.test"):
        assert head.count(line + "\r\n") == 1, line
    decision = next(d for d in gateway.records(kind="decision") if d["id"] == s.id)
    assert decision["http"]["dropped"] == "Sec-WebSocket-Extensions"


def test_the_subprotocol_that_was_chosen_is_passed_on(token, service, open_socket):
    service.answer = lambda head: switch(head, "Sec-WebSocket-Protocol: superchat\r\n")
    try:
        s = open_socket(fields="Sec-WebSocket-Protocol: chat, superchat\r\n")
        assert s.answer.field("Sec-WebSocket-Protocol") == "superchat"
    finally:
        service.answer = switch


def without(name, head, fields=""):
    return b"\r\n".join(line for line in switch(head, fields).split(b"\r\n") if not line.lower().startswith(name))


ANSWERS = {
    "the accept of another key": lambda head: switch(head).replace(b"Sec-WebSocket-Accept: ", b"Sec-WebSocket-Accept: A"),
    "no accept": lambda head: without(b"sec-websocket-accept", head),
    "no upgrade": lambda head: without(b"upgrade", head),
    "no connection": lambda head: without(b"connection", head),
    "another protocol": lambda head: switch(head).replace(b"Upgrade: websocket", b"Upgrade: h2c"),
    "an extension": lambda head: switch(head, "Sec-WebSocket-Extensions: permessage-deflate\r\n"),
    "a subprotocol that was not offered": lambda head: switch(head, "Sec-WebSocket-Protocol: other\r\n"),
}


@pytest.mark.parametrize("what", ANSWERS)
def test_a_101_that_is_not_what_was_asked_for(gateway, token, service, what):
    service.answer = ANSWERS[what]
    try:
        wire = ask(gateway, token, fields="Sec-WebSocket-Protocol: chat\r\n")
        answer = wire.response()
        assert (answer.status, answer.reason) == (502, "upstream_websocket")
        assert service.next().wire.is_closed()
    finally:
        service.answer = switch


def test_a_101_to_an_ordinary_request(gateway, token, service):
    service.answer = lambda head: switch(b"Sec-WebSocket-Key: x\r\n")
    try:
        wire = gateway.connect()
        wire.send(f"GET http://registry.test/ws/a HTTP/1.1\r\nHost: registry.test\r\nProxy-Authorization: Bearer {token}\r\n\r\n")
        answer = wire.response()
        assert (answer.status, answer.reason) == (502, "upstream_malformed")
        assert service.next().wire.is_closed()
    finally:
        service.answer = switch


def test_explain_knows_ws_and_wss(gateway):
    for url, status, reason in (("wss://registry.test/ws/a", 0, "allowed"), ("ws://upload.test/ws/a", 1, "upgrade_not_allowed"),
                                ("ws://registry.test/other", 1, "path_not_allowed")):
        done = exeat("explain", "--format", "json", "--sandbox", "s", "--scope", BOTH, "GET", url, config=gateway.config, check=False)
        assert (done.returncode, json.loads(done.stdout)["reason"]) == (status, reason), url


# ---- limits and ends


@pytest.fixture
def own(tmp_path, pki, service, service_tls):
    """A gateway of the test's own, for other limits."""
    started = []

    def start(extra="", more="websocket: allow", **options):
        g = Gateway(tmp_path / f"own{len(started)}", listed(service.port, service_tls.port, pki[0], more), extra=extra, **options)
        started.append(g.start())
        return g

    yield start
    for g in started:
        assert g.stop() == 0, g.output().decode()


def opened(gateway, service, **more):
    return Socket(gateway, gateway.token(BOTH, **more), service)


def test_it_may_stand_still_longer_than_a_body_and_not_longer_than_its_own_limit(own, service):
    s = opened(own("limits: {websocket-idle: 3s, body-time: 300ms, idle-time: 300ms, response-time: 300ms}"), service)
    time.sleep(1.2)
    s.client.say(PING)  # a frame is enough
    assert s.service.hear() == (True, PING, b"")
    began = time.monotonic()
    code, reason = s.client.closed()
    assert time.monotonic() - began > 2.5
    assert code == 1001 and reason.startswith("exeat stream_idle ")
    assert s.service.closed() == (1001, "")
    assert s.result()["reason"] == "stream_idle"
