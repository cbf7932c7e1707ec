"""
Services that fail: at each stage they stall, reset, end early or dribble. The client gets 502, 504 or a cut, within the
deadlines, and never half an answer that looks whole; the journal says which; the next request passes.
"""
import os
import signal
import socket
import ssl
import struct
import threading
import time

import pytest

from conftest import SERVICE
from gateway import PATIENCE, Closed, Gateway, wait_until
from load import request
from names import Names

DEADLINES = 4  # seconds; every one of the gateway's, below
LIMITS = ("limits: {dial-time: 4s, handshake-time: 4s, response-time: 4s, body-time: 4s}\n"
          'resolver: {servers: ["%s"], timeout: 2s}')
HANG = 30

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwhole"
HALF = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + b"x" * 500
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nwhole\r\n"
UNTIL_CLOSE = b"HTTP/1.1 200 OK\r\n\r\nwhole"


class Service:
    """Accepts, and does with each connection what act says; over TLS when it has a context."""

    def __init__(self, context=None):
        self.context, self.act, self.held = context, None, []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                c, _ = self.socket.accept()
            except OSError:
                return
            self.held.append(c)  # nothing is closed by being forgotten
            threading.Thread(target=self.serve, args=(c,), daemon=True).start()

    def serve(self, c):
        try:
            c.settimeout(PATIENCE)
            self.act(self, c)
        except OSError:
            pass

    def begin(self, c):
        """TLS where there is any, and the request's head."""
        if self.context:
            c = self.context.wrap_socket(c, server_side=True, suppress_ragged_eofs=False)
            self.held.append(c)
        seen = b""
        while b"\r\n\r\n" not in seen:
            data = c.recv(65536)
            if not data:
                raise OSError("no request")
            seen += data
        return c

    def close(self):
        self.socket.close()
        for c in self.held:
            c.close()


def reset(c):
    c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    socket.socket(fileno=c.detach()).close()


# ---- what a service does


def stall_at_once(service, c):
    time.sleep(HANG)


def end_at_once(service, c):
    c.close()


def reset_at_once(service, c):
    reset(c)


def garbage_at_once(service, c):
    c.sendall(b"220 mail.test ESMTP\r\n")
    time.sleep(HANG)


def says(*pieces, then):
    """The pieces, a second apart; then stall, end, reset, or (in TLS) a FIN without a close_notify."""
    def act(service, c):
        c = service.begin(c)
        for i, piece in enumerate(pieces):
            time.sleep(1 if i else 0)
            c.sendall(piece)
        if then == "stall":
            time.sleep(HANG)
        elif then == "reset":
            time.sleep(0.1)
            reset(c)
        elif then == "end" and isinstance(c, ssl.SSLSocket):
            c.unwrap()
        else:
            c.shutdown(socket.SHUT_RDWR)

    return act


def dribble(text):
    return [text[i:i + 1] for i in range(len(text))]


CUT = "cut"
RESET = "reset"  # before or after the gateway knows that it is connected
MAY_BE = {RESET: [(502, "connect_failed"), (502, "upstream_closed"), (502, "upstream_tls")]}
WHOLE = (200, b"whole")
# name: (what it does, what the client of a plain request gets, of one through TLS: at CONNECT or inside)
ROWS = {
    "stalls at accept, or in the handshake": (stall_at_once, (504, "upstream_timeout"), (504, "connect_timeout")),
    "ends at accept": (end_at_once, (502, "upstream_closed"), (502, "upstream_tls")),
    "resets at accept": (reset_at_once, RESET, RESET),
    "speaks something else": (garbage_at_once, (502, "upstream_malformed"), (502, "upstream_tls")),
    "stalls before the head": (says(then="stall"), (504, "upstream_timeout"), (504, "upstream_timeout")),
    "stalls in the head": (says(OK[:20], then="stall"), (504, "upstream_timeout"), (504, "upstream_timeout")),
    "dribbles the head, a byte a second": (says(*dribble(OK), then="end"), (504, "upstream_timeout"),
                                           (504, "upstream_timeout")),
    "ends before the head": (says(then="end"), (502, "upstream_closed"), (502, "upstream_closed")),
    "ends in the head": (says(OK[:20], then="end"), (502, "upstream_closed"), (502, "upstream_closed")),
    "resets before the head": (says(then="reset"), (502, "upstream_closed"), (502, "upstream_closed")),
    "resets in the head": (says(OK[:20], then="reset"), (502, "upstream_closed"), (502, "upstream_closed")),
    "stalls in the body": (says(HALF, then="stall"), CUT, CUT),
    "ends in the body": (says(HALF, then="end"), CUT, CUT),
    "resets in the body": (says(HALF, then="reset"), CUT, CUT),
    "stalls between chunks": (says(CHUNKED, then="stall"), CUT, CUT),
    "ends between chunks": (says(CHUNKED, then="end"), CUT, CUT),
    "resets between chunks": (says(CHUNKED, then="reset"), CUT, CUT),
    "stalls before its end": (says(UNTIL_CLOSE, then="stall"), CUT, CUT),
    "resets before its end": (says(UNTIL_CLOSE, then="reset"), CUT, CUT),
    "cut before its end (no close_notify in TLS)": (says(UNTIL_CLOSE, then="fin"), WHOLE, CUT),
    "ends as it should": (says(UNTIL_CLOSE, then="end"), WHOLE, WHOLE),
    "dribbles the body, a byte a second": (says(OK[:-5], *dribble(b"whole"), then="stall"), WHOLE, WHOLE),
}


@pytest.fixture(scope="module")
def world(tmp_path_factory, pki):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pki[1], pki[2])
    plain, tls, names, deaf = Service(), Service(context), Names(), Deaf()
    rule, common = '["GET,POST /**"]', {"rules": '["GET,POST /**"]', "scope": "other:read"}
    listed = SERVICE.format(name="other", kind="plain", ports="plain-ports", port=80, origin=plain.port, **common)
    listed += SERVICE.format(name="other", kind="tls", ports="ports", port=443, origin=tls.port, **common)
    listed += f"    ca-file: {pki[0]}\n"
    listed += SERVICE.format(name="deaf", kind="plain", ports="plain-ports", port=80, origin=deaf.port, **common)
    listed += (f"  named:\n    hosts: [named.test]\n    plain-ports: [80]\n    allow: {rule}\n    scope: other:read\n"
               '    audit: "waived: test"\n')
    g = Gateway(tmp_path_factory.mktemp("upstream") / "state", listed, extra=LIMITS % names.address).start()
    g.names, g.tls_service, g.plain_service, g.deaf = names, tls, plain, deaf
    yield g
    status = g.stop()
    print(g.output().decode()[-4000:])
    for s in (plain, tls, names, deaf):
        s.close()
    assert status == 0


def outcome(wire):
    """(status, reason or body), or CUT when the connection ends or breaks before the answer's own end."""
    try:
        answer = wire.response()
    except (Closed, OSError, ValueError, IndexError):
        return CUT
    return answer.status, answer.reason or answer.body


def over_tls(world, path, sandbox="sb-1"):
    try:
        wire = world.tunnel("other.test", world.token("other:read", sandbox=sandbox))
    except AssertionError as e:  # a refused CONNECT
        return int(str(e).split()[2]), str(e).split()[4]
    wire.send(f"GET {path} HTTP/1.1\r\nHost: other.test\r\n\r\n")
    return outcome(wire)


def over_plain(world, path, sandbox="sb-1"):
    wire = world.connect()
    # A cut before an end that only the close marks shows in the framing: HTTP/1.1 gets chunks.
    wire.send(request(path, world.token("other:read", sandbox=sandbox), host="other.test", close=False))
    return outcome(wire)


@pytest.mark.parametrize("way", ["plain", "tls"])
@pytest.mark.parametrize("row", ROWS)
def test_a_service_that(world, row, way):
    act, plain, tls = ROWS[row]
    expected, ask = (plain, over_plain) if way == "plain" else (tls, over_tls)
    service = world.plain_service if way == "plain" else world.tls_service
    path = f"/{abs(hash((row, way)))}"
    service.act = act
    before = time.monotonic()
    heard = ask(world, path)
    took = time.monotonic() - before
    assert heard in MAY_BE.get(expected, [expected])
    assert took < HANG
    if "stall" in row or "head, a byte" in row:
        assert took > DEADLINES - 1, "it did not wait for its deadline"
    wire_has_a_record(world, path, heard)
    service.act = says(OK, then="end")
    assert ask(world, "/after", "sb-after") == WHOLE


def wire_has_a_record(world, path, heard):
    """The decision came first; where a request went out, a result says how it ended, as the client saw it."""
    if heard in [(504, "connect_timeout"), (502, "upstream_tls"), (502, "connect_failed")]:
        found = world.records(kind="decision")[-1]  # the CONNECT's: the path was never sent
    else:
        found = wait_until(lambda: next((r for r in world.records(kind="decision")
                                         if r.get("http", {}).get("path") == path), None), "the decision")
    assert found["action"] == "allow"
    result = world.wait_for(kind="result", id=found["id"])[0]
    assert result["outcome"] == ("cut" if heard == CUT else "complete" if heard == WHOLE else "failed")
    if heard not in (CUT, WHOLE):
        assert result["reason"] == heard[1]


class Deaf:
    """Its queue of connections is full: what else comes is not answered at all."""

    def __init__(self):
        self.socket = socket.socket()
        self.socket.bind(("127.0.0.1", 0))
        self.socket.listen(0)
        self.port = self.socket.getsockname()[1]
        self.queue = []
        for _ in range(64):
            c = socket.socket()
            c.setblocking(False)
            c.connect_ex(("127.0.0.1", self.port))
            self.queue.append(c)
        time.sleep(0.2)

    def close(self):
        for c in [self.socket, *self.queue]:
            c.close()


def test_a_service_that_does_not_answer_a_connect(world):
    wire = world.connect()
    before = time.monotonic()
    wire.send(request("/deaf", world.token("other:read"), host="deaf.test"))
    assert outcome(wire) == (504, "connect_timeout")
    assert time.monotonic() - before < HANG


def test_name_servers_that_die_and_come_back(world):
    """127.0.0.1 is never an answer that is dialled; so a living name server shows by another refusal."""
    def ask():
        wire = world.connect()
        wire.send(request("/named", world.token("other:read"), host="named.test"))
        return outcome(wire)

    assert ask()[1] == "address_denied"
    world.names.close()
    assert ask() in [(504, "name_timeout"), (502, "name_not_resolved")]
    where = world.names.address.split(":")
    world.names = Names(int(where[1]))
    assert ask()[1] == "address_denied"


# ---- a connection in the pool that says something between two requests


UNASKED = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison"


@pytest.mark.parametrize("way", ["plain", "tls"])
def test_what_a_pooled_connection_says_unasked_is_no_answer(world, way):
    """
    The service speaks when the second request is recorded and the worker has not heard of either yet: it learns of both in
    one turn of its loop, of the record first.
    """
    speak, spoken = threading.Event(), threading.Event()
    service = world.plain_service if way == "plain" else world.tls_service

    def act(s, c):
        c = s.begin(c)
        c.sendall(OK)
        if speak.wait(1 if spoken.is_set() else PATIENCE):
            speak.clear()
            c.sendall(UNASKED)
            spoken.set()
        time.sleep(HANG)

    service.act = act
    token = world.token("other:read", sandbox=f"sb-pool-{way}")
    if way == "tls":
        wire, text = world.tunnel("other.test", token), "GET /{} HTTP/1.1\r\nHost: other.test\r\n\r\n"
    else:
        wire, text = world.connect(), request("/{}", token, host="other.test", close=False)
    wire.send(text.format("first"))
    assert outcome(wire) == WHOLE
    world.wait_for(kind="result", outcome="complete", sandbox=f"sb-pool-{way}")
    worker, scribe = world.pids("worker")[0], world.pids("scribe")[0]
    try:
        for what, pid in ((signal.SIGSTOP, scribe), ("ask", 0), (signal.SIGSTOP, worker), (signal.SIGCONT, scribe), ("speak", 0)):
            if what == "ask":
                wire.send(text.format("second"))
            elif what == "speak":
                speak.set()
                assert spoken.wait(PATIENCE)
            else:
                os.kill(pid, what)
            time.sleep(0.1)
    finally:
        os.kill(scribe, signal.SIGCONT)
        os.kill(worker, signal.SIGCONT)
    assert outcome(wire) == WHOLE
