"""WebSocket: everything in it is looked at as the content of a request is, whatever it is cut into and masked with."""
import pytest

from frames import BINARY, CLOSE, CONTINUATION, PING, PONG, TEXT, client_frame, close_payload, turned
from gateway import Closed, exeat, wait_until
from sockets import canary, gateway, open_socket, opened, own, service, service_tls, token


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


def planted_now(gateway):
    secret = exeat("canary", "new", "--kind", "generic", config=gateway.config).stdout.split()[-1]
    exeat("reload", config=gateway.config)
    return secret.encode()


@pytest.mark.parametrize("within", [False, True], ids=["between messages", "within a message"])
@pytest.mark.parametrize("opcode", [TEXT, PING], ids=["text", "ping"])
def test_a_canary_that_was_planted_when_it_was_open(open_socket, opcode, within):
    """It may be open for days. Of a message that is under way the rest is looked at as it began."""
    s = open_socket()
    s.client.say(TEXT, b"one ", fin=not within)
    secret = planted_now(s.gateway)
    if within:
        s.client.say(CONTINUATION, b"two")
    assert s.service.message() == (TEXT, b"one two" if within else b"one ")
    s.client.say(TEXT, b"three")
    assert s.service.message() == (TEXT, b"three")
    s.client.say(opcode, secret)
    leak_ends(s, secret)


def test_an_answer_with_a_canary_that_was_planted_when_it_was_open(open_socket):
    s = open_socket()
    s.service.say(TEXT, b"one")
    assert s.client.message() == (TEXT, b"one")
    secret = planted_now(s.gateway)
    s.service.say(TEXT, secret)
    assert s.client.message() == (TEXT, secret)
    assert s.gateway.wait_for(kind="finding", id=s.id, reason="canary_response")


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
