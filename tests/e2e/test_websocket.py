"""
WebSocket: who may open one and how, and that everything in it is looked at as the content of a request is: what a frame
carries, whatever it is cut into and masked with; and how it ends.
"""
import asyncio
import json
import os
import socket
import ssl
import subprocess
import threading
import time

import pytest
import websockets

from conftest import BOTH
from frames import (BINARY, CLOSE, CONTINUATION, KEY, PING, PONG, TEXT, Service, Speaker, accept, client_frame, close_payload, frame,
                    handshake, switch, turned)
from gateway import PATIENCE, Closed, Gateway, connect_head, exeat, free_port, wait_until
from relay import Relay
from test_bound import keep, listen

SANITIZED = os.environ.get("SANITIZED") == "1"
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


def test_check_warns_that_nobody_reads_where_messages_send_on_to(own):
    said = "handoff-edges: enforce does not reach into its WebSockets"
    g = own(more="websocket: allow\n    handoff-edges: enforce")
    assert exeat("config", "check", config=g.config).stderr.count(said) == 2
    g.config.write_text(g.config.read_text().replace("websocket: allow", "websocket: refuse"))
    assert said not in exeat("config", "check", config=g.config).stderr


# ---- limits and ends


@pytest.fixture
def own(tmp_path, pki, service, service_tls):
    """A gateway of the test's own, for other limits."""
    started = []

    def start(extra="", more="websocket: allow", before=None, **options):
        g = Gateway(tmp_path / f"own{len(started)}", listed(service.port, service_tls.port, pki[0], more), extra=extra, **options)
        if before:
            before(g)
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


def test_the_token_ends_and_what_it_may_be_overrun_by(own, service):
    s = opened(own("limits: {overrun: 1s}"), service, lifetime="2s")
    while True:  # a conversation that never pauses ends too
        s.client.text("tick")
        fin, opcode, payload = s.service.hear()
        if opcode == CLOSE:
            break
        assert payload == b"tick"
        time.sleep(0.05)
    code, reason = s.client.closed()
    assert code == 1008 and reason.startswith("exeat token_expired ")
    assert s.result()["reason"] == "token_expired"


def test_bytes_over_the_sandbox_s_limit_do_not_leave(own, service):
    s = opened(own("limits: {sandbox-bytes: 100k}"), service)
    got = 0
    for _ in range(40):
        try:
            s.client.say(BINARY, bytes(4096))
        except OSError:
            break
    while True:
        try:
            fin, opcode, payload = s.service.hear()
        except Closed:
            break
        got += len(payload) if opcode == BINARY else 0
    assert 50 << 10 < got < 100 << 10
    code, reason = s.client.closed()
    assert code == 1008 and reason.startswith("exeat limit_bytes ")


def test_pings_count_as_bytes_too(own, service):
    s = opened(own("limits: {sandbox-bytes: 20k}"), service)
    s.wire.send(client_frame(PING) * 5000)
    code, reason = s.client.closed()
    assert code == 1008 and reason.startswith("exeat limit_bytes ")


def test_frames_of_nothing_count_as_bytes_too(own, service):
    s = opened(own("limits: {sandbox-bytes: 20k}"), service)
    s.client.say(BINARY, b"x", fin=False)
    s.wire.send(client_frame(0, fin=False) * 5000)  # none of them goes on
    code, reason = s.client.closed()
    assert code == 1008 and reason.startswith("exeat limit_bytes ")


def test_it_is_an_exchange_in_flight(own, service):
    g = own("limits: {sandbox-exchanges: 2}")
    first, second = opened(g, service), opened(g, service)
    answer = ask(g, g.token(BOTH)).response()
    assert (answer.status, answer.reason) == (429, "limit_exchanges")
    first.client.close()
    assert first.service.closed() == (1000, "")
    first.service.close()
    assert first.client.closed()[0] == 1000
    third = opened(g, service)
    assert 'exeat_exchanges_open{role="worker 0"} 2\n' in metrics(g)
    assert 'exeat_websockets_open{role="worker 0"} 2\n' in metrics(g)
    for s in (second, third):
        s.wire.close()


def metrics(g):
    with socket.create_connection(("127.0.0.1", g.publish), PATIENCE) as s:
        s.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        return b"".join(iter(lambda: s.recv(65536), b"")).decode()


@pytest.mark.parametrize("how", ["revoked", "quarantined"])
@pytest.mark.parametrize("inside", ["plain", "tls"])
def test_authority_that_is_taken_away_cuts_it_at_once(gateway, service, service_tls, how, inside):
    sandbox = f"sb-{how}-{inside}"
    token = gateway.token(BOTH, sandbox=sandbox)
    wire = gateway.tunnel("registry.test", token) if inside == "tls" else ask(gateway, token)
    if inside == "tls":
        wire.send(handshake())
    assert wire.response().status == 101
    here, there = Speaker(wire, True), (service_tls if inside == "tls" else service).next()
    here.text("before")
    assert there.message() == (TEXT, b"before")
    if how == "revoked":
        exeat("token", "revoke", "--sandbox", sandbox, config=gateway.config)
    else:
        exeat("quarantine", "add", sandbox, config=gateway.config)
    reason = "token_revoked" if how == "revoked" else "sandbox_quarantined"
    try:
        code, said = here.closed()
        assert code == 1008 and said.startswith(f"exeat {reason} ")
        assert there.closed() == (1001, "")
        assert wire.is_closed() and there.wire.is_closed()
        result = gateway.wait_for(kind="result", sandbox=sandbox, outcome="cut")[0]
        assert (result["reason"], result["websocket"]["close"]) == (reason, 1008)
    finally:
        exeat("quarantine", "release", sandbox, config=gateway.config, check=False)


def test_a_reload_that_no_longer_allows_it_ends_it_and_another_does_not(own, service):
    g = own()
    s = opened(g, service)
    g.config.write_text(g.config.read_text() + "# the same\n")
    exeat("reload", config=g.config)
    s.client.text("still here")
    assert s.service.message() == (TEXT, b"still here")
    g.config.write_text(g.config.read_text().replace("websocket: allow", "websocket: refuse"))
    exeat("reload", config=g.config)
    code, reason = s.client.closed()
    assert code == 1008 and reason.startswith("exeat policy_changed ")
    assert s.service.wire.is_closed()
    result = s.result()
    assert result["reason"] == "policy_changed" and "upgrade_not_allowed" in result["detail"]


def test_a_gateway_that_stops_does_not_wait_for_it(own, service):
    g = own()
    s = opened(g, service)
    began = time.monotonic()
    g.process.send_signal(15)
    code, reason = s.client.closed()
    assert code == 1001 and reason.startswith("exeat gateway_stopping ")
    assert s.service.closed() == (1001, "")
    s.wire.close()
    assert g.process.wait(PATIENCE) == 0
    assert b"did not end in" not in g.output(), time.monotonic() - began


def test_a_worker_that_dies_takes_it_along_and_the_next_goes_on(own, service):
    g = own()
    s = opened(g, service)
    before = g.pids("worker")
    os.kill(before[0], 9)
    assert s.wire.is_closed() and s.service.wire.is_closed()
    wait_until(lambda: g.pids("worker") and g.pids("worker") != before, "another worker")
    again = opened(g, service)
    again.client.text("hello")
    assert again.service.message() == (TEXT, b"hello")
    again.wire.close()
    assert g.verify()


# ---- who goes


def test_a_client_that_goes_without_a_word_is_gone_for_the_service(open_socket):
    s = open_socket()
    s.client.text("half of")
    assert s.service.message() == (TEXT, b"half of")
    s.wire.close()
    assert s.service.closed() == (1001, "")
    assert s.service.wire.is_closed()
    assert s.result()["reason"] == "client_closed"


def test_a_client_that_half_closes_after_its_close_frame_hears_the_answer(open_socket):
    s = open_socket()
    s.client.close(1000, "enough")
    s.wire.half_close()
    assert s.service.closed() == (1000, "enough")
    s.service.text("one more thing")
    assert s.client.message() == (TEXT, b"one more thing")
    s.service.close(1000)
    assert s.client.closed() == (1000, "")
    assert s.wire.is_closed()
    assert s.result()["outcome"] == "complete"


def test_a_service_that_closes_first(open_socket):
    s = open_socket()
    s.service.close(4001, "go away")
    assert s.client.closed() == (4001, "go away")
    s.client.text("too late")
    s.client.close(4001)
    seen = []
    while not seen or seen[-1][1] != CLOSE:
        seen.append(s.service.hear())
    assert seen[-1][2] == close_payload(4001)
    result = s.result()
    assert (result["outcome"], result["websocket"]["close"]) == ("complete", 4001)


def test_a_service_that_goes_without_a_close_frame_is_no_end(open_socket):
    s = open_socket()
    s.service.say(TEXT, b"half", fin=False)
    s.service.wire.close()
    assert s.client.hear() == (False, TEXT, b"half")
    code, reason = s.client.closed()
    assert code == 1011 and reason.startswith("exeat upstream_closed ")
    result = s.result()
    assert (result["outcome"], result["reason"]) == ("cut", "upstream_closed")


def test_who_does_not_answer_a_close_frame_is_not_waited_for(own, service):
    g = own("limits: {body-time: 1s, body-rate: 0}")
    s = opened(g, service)
    s.service.close(1000)
    assert s.client.closed() == (1000, "")
    assert s.service.wire.is_closed() and s.wire.is_closed()
    assert s.result()["outcome"] == "complete"
    s = opened(g, service)
    s.client.close(1000)
    code, reason = s.client.closed()
    assert code == 1011 and reason.startswith("exeat upstream_timeout ")


def test_a_client_that_does_not_read_is_cut(own, service):
    g = own("limits: {body-time: 1s, body-rate: 1m, websocket-idle: 1h}")
    s = opened(g, service)
    stop = threading.Event()

    def pour():
        try:
            while not stop.is_set():
                s.service.say(BINARY, bytes(60000))
        except OSError:
            pass

    thread = threading.Thread(target=pour)
    thread.start()
    try:
        assert s.result()["reason"] == "client_timeout"
    finally:
        stop.set()
        s.wire.close()
        thread.join()


def memory_of(g):
    return sum(int(line.split()[1]) for pid in g.pids("worker") for line in open(f"/proc/{pid}/smaps_rollup") if line.startswith("Rss:"))


def test_a_message_of_many_megabytes_is_not_held(own, service):
    """One frame of 24 MB each way, more than sockets take; a reader that pauses holds the writer, not memory."""
    g = own("limits: {websocket-message: 32m}")
    s = opened(g, service)
    s.client.text("warm")
    assert s.service.message() == (TEXT, b"warm")
    before, payload = memory_of(g), os.urandom(24 << 20)
    for here, there in ((s.client, s.service), (s.service, s.client)):
        thread = threading.Thread(target=here.say, args=(BINARY, payload))
        thread.start()
        time.sleep(0.5)
        assert thread.is_alive()
        assert memory_of(g) - before < 4096 or SANITIZED  # which keeps what was freed
        assert there.message() == (BINARY, payload)
        thread.join()
    s.wire.close()


# ---- what is looked for


def encoded(secret):
    from base64 import b64encode, urlsafe_b64encode
    return {"plain": secret.encode(), "base64": b64encode(secret.encode()), "base64url": urlsafe_b64encode(b"x" + secret.encode())}


def leak_ends(s, secret, reason="canary_leak", front=b""):
    """The client is told; the service has heard nothing of the secret but what is in front of it."""
    while True:
        fin, opcode, payload = s.client.hear()
        if opcode == CLOSE:
            break
    assert payload[:2] == close_payload(1008) and payload[2:].startswith(f"exeat {reason} ".encode())
    assert s.wire.is_closed()
    heard = b""
    try:
        while True:
            fin, opcode, piece = s.service.hear()
            heard += piece
    except Closed:
        pass
    assert secret not in heard and heard == front, heard
    finding = wait_until(lambda: [f for f in s.gateway.records(kind="finding") if f["id"] == s.id], "its finding")[0]
    assert (finding["reason"], finding["canary"]["place"]) == (reason, "frame")
    result = s.result()
    assert (result["outcome"], result["reason"], result["websocket"]["close"]) == ("cut", reason, 1008)
    assert secret.decode(errors="replace") not in s.gateway.output().decode(errors="replace")


@pytest.mark.parametrize("encoding", ["plain", "base64", "base64url"])
@pytest.mark.parametrize("opcode", [TEXT, BINARY])
def test_a_canary_in_one_frame(open_socket, canary, encoding, opcode):
    s = open_socket()
    secret = encoded(canary)[encoding]
    s.client.say(opcode, b"before " + secret + b" after")
    leak_ends(s, secret)


def test_a_canary_that_the_wire_never_shows(open_socket, canary):
    """Masked byte by byte with keys of the client's own; and in frames of one byte, each under another."""
    s = open_socket()
    raw = client_frame(TEXT, canary.encode(), mask=b"\xff\x80\x7f\x01")
    assert canary.encode() not in raw
    s.wire.send(raw)
    leak_ends(s, canary.encode())


def test_the_wire_shows_a_canary_that_the_frame_does_not_carry(open_socket, canary):
    """What the client masks so that its raw bytes are the canary goes out under a mask of ours: it is not there any more."""
    s = open_socket()
    payload = turned(canary.encode(), b"abcd")
    raw = client_frame(BINARY, payload, mask=b"abcd")
    assert canary.encode() in raw
    s.wire.send(raw)
    assert s.service.message() == (BINARY, payload)
    assert s.service.masks != [b"abcd"]


@pytest.mark.parametrize("cut", [1, 8, 20])
def test_a_canary_over_two_frames_of_a_message(open_socket, canary, cut):
    s = open_socket()
    secret = canary.encode()
    s.client.say(TEXT, secret[:cut], fin=False)
    s.client.say(PING, b"in between")
    assert s.service.hear() == (True, PING, b"in between")
    s.client.say(CONTINUATION, secret[cut:])
    leak_ends(s, secret)


def test_a_canary_in_frames_of_one_byte(open_socket, canary):
    s = open_socket()
    secret = canary.encode()
    for i in range(len(secret)):
        s.client.say(TEXT if i == 0 else CONTINUATION, secret[i:i + 1], fin=False)
    leak_ends(s, secret)


def test_a_canary_over_two_messages_is_cut_in_the_second(open_socket, canary):
    """At the end of a message all of it goes that nothing was found in, or a conversation would stand still."""
    s = open_socket()
    secret = canary.encode()
    s.client.say(TEXT, b"x" + secret[:10])
    assert s.service.message() == (TEXT, b"x" + secret[:10])
    s.client.say(TEXT, secret[10:] + b"y")
    leak_ends(s, secret)


def test_a_canary_late_in_a_long_message_never_arrives(open_socket, canary):
    s = open_socket()
    secret, noise = canary.encode(), bytes(300000)
    s.client.say(BINARY, noise, fin=False)
    s.client.say(CONTINUATION, b"y" * 100 + secret + bytes(5000), fin=True)
    heard = b""
    try:
        while True:
            heard += s.service.hear()[2]
    except Closed:
        pass
    assert secret[:8] not in heard and len(heard) <= 300100  # what was under way went with the connection
    assert s.result()["reason"] == "canary_leak"


@pytest.mark.parametrize("opcode", [PING, PONG, CLOSE])
def test_a_canary_in_a_control_frame(open_socket, canary, opcode):
    s = open_socket()
    s.client.say(opcode, (close_payload(1000) if opcode == CLOSE else b"") + canary.encode())
    leak_ends(s, canary.encode())


def test_a_canary_over_two_pings(open_socket, canary):
    s = open_socket()
    secret = canary.encode()
    s.client.say(PING, secret[:12])
    assert s.service.hear() == (True, PING, secret[:12])
    s.client.say(TEXT, b"something between")
    assert s.service.message() == (TEXT, b"something between")
    s.client.say(PING, secret[12:])
    leak_ends(s, secret)


@pytest.mark.parametrize("cut", [None, 15])
def test_the_leave_token_in_a_frame(open_socket, token, cut):
    """At the very end of a message, where nothing more comes to look at; and over two messages, each too short to tell."""
    s = open_socket()
    signature = token.rsplit(".", 1)[1].encode()
    front = b""
    if cut:
        front = b"!" + signature[:cut]
        s.client.say(TEXT, front)
        assert s.service.message() == (TEXT, front)
        front = b""
    s.client.say(TEXT, signature[cut or 0:40])
    leak_ends(s, signature[cut or 0:40], "token_leak", front)


def test_a_canary_that_comes_back_accuses_the_service(gateway, open_socket, canary):
    s = open_socket()
    for piece in (b"x" + canary.encode()[:9], canary.encode()[9:]):
        s.service.say(TEXT, piece)
        assert s.client.message() == (TEXT, piece)
    finding = wait_until(lambda: [f for f in gateway.records(kind="finding") if f["id"] == s.id], "its finding")[0]
    assert (finding["reason"], finding["canary"]["place"]) == ("canary_response", "response frame")
    s.client.text("goes on")
    assert s.service.message() == (TEXT, b"goes on")


SECRET = "s3cr3t-of-the-gateway-0123456789"


@pytest.mark.parametrize("how", ["a message", "two frames", "a ping", "base64"])
def test_the_gateways_credential_does_not_come_back(own, service, how):
    more = 'websocket: allow\n    inject-plain: accepted\n    shared-identity: accepted\n    credential: {from: "file:secret"}'
    g = own_with_secret(own, more)
    s = opened(g, service)
    assert f"authorization: bearer {SECRET}" in service.heads[-1].decode().lower().replace(SECRET.lower(), SECRET)
    s.service.text("clean")
    assert s.client.message() == (TEXT, b"clean")
    secret = SECRET.encode()
    if how == "two frames":
        s.service.say(TEXT, b"x" + secret[:12], fin=False)
        s.service.say(CONTINUATION, secret[12:])
    elif how == "base64":
        s.service.say(TEXT, encoded(SECRET)["base64"])
    else:
        s.service.say(PING if how == "a ping" else TEXT, secret)
    heard = b""
    while True:
        fin, opcode, piece = s.client.hear()
        if opcode == CLOSE:
            break
        heard += piece
    assert piece[:2] == close_payload(1008) and b"credential_reflected" in piece
    assert heard in (b"", b"x")
    assert s.result()["reason"] == "credential_reflected"


def own_with_secret(own, more):
    return own(more=more, before=lambda g: (g.directory / "secret").write_text(SECRET) and (g.directory / "secret").chmod(0o600))


# ---- by way of a bound listener and of exeat-relay


def test_on_a_bound_listener_by_the_relay(tmp_path, own, service):
    """The client carries nothing; the relay in the guest passes bytes on, after the switch too."""
    address, file = tmp_path / "vm1.sock", tmp_path / "vm1.jwt"

    def before(g):
        listen(g.config, f'vm1: {{address: "unix:{address}", sandbox: vm1, token-file: "{file}"}}')
        keep(file, g.token(BOTH, sandbox="vm1"))

    g = own(before=before)
    with Relay(tmp_path, f"unix:{address}") as relay:
        wire = relay.connect()
        wire.send(handshake(target="http://registry.test/ws/a"))
        assert wire.response().status == 101
        here, there = Speaker(wire, True), service.next()
        here.text("x" * 100000)
        assert there.message() == (TEXT, b"x" * 100000)
        there.text("answer")
        assert here.message() == (TEXT, b"answer")
        assert g.wait_for(kind="decision", action="allow")[-1]["sandbox"] == "vm1"
        exeat("token", "revoke", "--sandbox", "vm1", config=g.config)
        code, reason = here.closed()
        assert code == 1008 and reason.startswith("exeat token_revoked ")


@pytest.mark.parametrize("inside", ["plain", "tunnel"])
def test_on_a_bound_listener_it_outlives_a_token_but_not_the_last(tmp_path, own, service, inside):
    """A job of hours with tokens of minutes: the operator's file has the next one; without it the end comes."""
    address, file = tmp_path / "vm1.sock", tmp_path / "vm1.jwt"

    def before(g):
        listen(g.config, f'vm1: {{address: "unix:{address}", sandbox: vm1, token-file: "{file}"}}')
        keep(file, g.token(BOTH, sandbox="vm1", lifetime="6s"))

    g = own("limits: {overrun: 0s}", before=before)
    with Relay(tmp_path, f"unix:{address}") as relay:
        wire = relay.connect()
        if inside == "tunnel":
            wire.send(connect_head("registry.test", None, 80))
            assert wire.response("CONNECT").status == 200
        wire.send(handshake(target=None if inside == "tunnel" else "http://registry.test/ws/a"))
        assert wire.response().status == 101
        here, there = Speaker(wire, True), service.next()
        began = time.monotonic()
        for _ in range(3):
            time.sleep(2.5)
            keep(file, g.token(BOTH, sandbox="vm1", lifetime="6s"))
            here.text("tick")
            assert there.message() == (TEXT, b"tick")
        keep(file, g.token("upload:write", sandbox="vm1", lifetime="10m"))  # it would not open one
        code, reason = here.closed()
        assert code == 1008 and reason.startswith("exeat token_expired ") and time.monotonic() - began > 7
        assert there.closed() == (1001, "")
        wire.close()


def test_the_relay_s_token_opens_one(tmp_path, gateway, service):
    file = tmp_path / "token.jwt"
    file.write_text(gateway.token(BOTH, sandbox="sb-relayed"))
    file.chmod(0o600)
    with Relay(tmp_path, f"127.0.0.1:{gateway.port}", "--token-file", file) as relay:
        wire = relay.connect()
        wire.send(handshake(target="http://registry.test/ws/a"))
        assert wire.response().status == 101
        here, there = Speaker(wire, True), service.next()
        here.text("hello")
        assert there.message() == (TEXT, b"hello")
        assert b"proxy-authorization" not in service.heads[-1].lower()
        wire.close()


# ---- with real implementations


class Echo:
    """Debian's python3-websockets as a service: says everything back; a text that is a number, so many messages."""

    def __init__(self, pki):
        self.loop, self.ready, self.codes = asyncio.new_event_loop(), threading.Event(), []
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(pki[1], pki[2])
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()
        assert self.ready.wait(PATIENCE)

    def run(self):
        asyncio.set_event_loop(self.loop)
        self.loop.run_until_complete(self.start())
        self.loop.run_forever()

    async def start(self):
        options = {"max_size": None, "subprotocols": ["echo.v1"], "ping_interval": 0.2}
        self.tls = await websockets.serve(self.talk, "127.0.0.1", 0, ssl=self.context, **options)
        self.plain = await websockets.serve(self.talk, "127.0.0.1", 0, **options)
        self.ports = [s.sockets[0].getsockname()[1] for s in (self.plain, self.tls)]
        self.ready.set()

    async def talk(self, connection):
        async for message in connection:
            if isinstance(message, str) and message.isdigit():
                for i in range(int(message)):
                    await connection.send(f"message {i}")
            else:
                await connection.send(message)
        self.codes.append(connection.close_code)

    def close(self):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()


@pytest.fixture(scope="module")
def echo(pki):
    e = Echo(pki)
    yield e
    e.close()


NGINX = """
daemon off; user root; pid nginx.pid; error_log error.log warn; worker_processes 1;
events {{}}
http {{
    access_log off;
    client_body_temp_path b; proxy_temp_path p; fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;
    map $http_upgrade $connection_upgrade {{ default upgrade; '' close; }}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://127.0.0.1:{behind};
            proxy_http_version 1.1;
            proxy_set_header Upgrade $http_upgrade;
            proxy_set_header Connection $connection_upgrade;
            proxy_set_header Host $host;
        }}
    }}
}}
"""


@pytest.fixture(scope="module")
def real(tmp_path_factory, pki, echo):
    """Plain by way of nginx, TLS straight."""
    directory, port = tmp_path_factory.mktemp("nginx"), free_port()
    (directory / "nginx.conf").write_text(NGINX.format(port=port, behind=echo.ports[0]))
    nginx = subprocess.Popen(["nginx", "-p", directory, "-c", directory / "nginx.conf", "-e", directory / "error.log"], stderr=subprocess.DEVNULL)
    wait_until(lambda: socket.socket().connect_ex(("127.0.0.1", port)) == 0, "nginx")
    g = Gateway(tmp_path_factory.mktemp("real") / "state", listed(port, echo.ports[1], pki[0])).start()
    yield g
    assert g.stop() == 0, g.output().decode()
    nginx.terminate()
    nginx.wait(PATIENCE)


def tunnel_socket(gateway, token, port):
    wire = gateway.connect()
    wire.send(connect_head("registry.test", token, port))
    assert wire.response("CONNECT").status == 200
    return wire.socket


def connect(gateway, token, port, **more):
    """python3-websockets as the client, which offers permessage-deflate; through a tunnel made by hand."""
    more = {"compression": "deflate", "subprotocols": ["echo.v1"], "max_size": None, **more}
    if port == 443:
        more.update(ssl=ssl.create_default_context(cafile=str(gateway.root)), server_hostname="registry.test")
    scheme = "wss" if port == 443 else "ws"
    return websockets.connect(f"{scheme}://registry.test/ws/echo", sock=tunnel_socket(gateway, token, port), **more)


@pytest.mark.parametrize("port", [80, 443])
def test_a_real_client_and_a_real_service(real, echo, port):
    token = real.token(BOTH, sandbox=f"sb-real-{port}")
    payload = os.urandom(3 << 20)

    async def talk():
        async with connect(real, token, port, ping_interval=0.1) as c:
            assert c.subprotocol == "echo.v1" and c.extensions == []
            await c.send("hello")
            assert await c.recv() == "hello"
            await c.send(payload)
            assert await c.recv() == payload
            await c.send(piece for piece in ["in ", "three ", "frames"])
            assert await c.recv() == "in three frames"
            await c.send("2000")
            assert [await c.recv() for _ in range(2000)] == [f"message {i}" for i in range(2000)]
            await asyncio.sleep(0.5)  # pings of both sides
            await asyncio.wait_for(await c.ping(b"are you there"), PATIENCE)
        assert c.close_code == 1000

    asyncio.run(talk())
    result = real.wait_for(kind="result", sandbox=f"sb-real-{port}", outcome="complete")[-1]
    assert result["http"]["status"] == 101 and result["websocket"]["close"] == 1000
    wait_until(lambda: echo.codes and echo.codes[-1] == 1000, "the service's end")


def test_a_real_client_is_told_why(real, canary_of_real):
    async def talk():
        async with connect(real, real.token(BOTH), 443) as c:
            await c.send("hello")
            assert await c.recv() == "hello"
            await c.send("x" + canary_of_real)
            with pytest.raises(websockets.ConnectionClosedError):
                await c.recv()
            return c.close_code, c.close_reason

    code, reason = asyncio.run(talk())
    assert code == 1008 and reason.startswith("exeat canary_leak ")
    digits = reason.rsplit(" ", 1)[1]
    story = exeat("why", digits, config=real.config).stdout
    assert "canary_leak" in story and "It was a WebSocket: 2 frames came from the client, 1 from the service; it was closed with 1008." in story


@pytest.fixture
def canary_of_real(real):
    return json.loads((real.directory / "canaries.json").read_text())["canaries"][0]["value"]


def test_a_real_client_is_refused_with_a_status(real):
    async def talk():
        sock = tunnel_socket(real, real.token(BOTH), 80)
        with pytest.raises(websockets.InvalidStatusCode) as refused:
            async with websockets.connect("ws://registry.test/elsewhere", sock=sock):
                pass
        assert refused.value.status_code == 403

    asyncio.run(talk())
