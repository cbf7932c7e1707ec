"""WebSocket: who may open one, what the service is asked, and which answers are none."""
import json

import pytest

from conftest import BOTH
from frames import KEY, handshake, switch
from gateway import exeat
from sockets import ask, gateway, open_socket, own, service, service_tls, token

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
