"""WebSocket: what is said passes as it was said; frames that RFC 6455 does not allow end it."""
import os

import pytest

from frames import (BINARY, CLOSE, CONTINUATION, KEY, PING, PONG, TEXT, Speaker, accept, client_frame, close_payload, frame, handshake,
                    switch)
from gateway import PATIENCE
from sockets import ask, gateway, open_socket, service, service_tls, token


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
