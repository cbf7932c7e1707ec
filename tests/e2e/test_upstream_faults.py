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

from gateway import PATIENCE, Closed, Gateway
from load import request
from names import Names
from origin import make_pki, stop_listening

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
        self.accepting = threading.Thread(target=self.accept, daemon=True)
        self.accepting.start()

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
        stop_listening(self.socket, self.accepting)
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


# Each row has a service of its own, plain and over TLS, so that all of them can fail at the same time.
PLACES = [(row, way) for row in ROWS for way in ("plain", "tls")]


def host_of(row, way):
    return f"row-{PLACES.index((row, way))}.test"


def listing(host, way, port, ca):
    kind = {"plain": "plain-ports: [80]", "tls": f"ports: [443]\n    ca-file: {ca}"}[way]
    return (f"  {host.split('.')[0]}:\n    hosts: [{host}]\n    {kind}\n" +
            (f'    addresses: ["127.0.0.1:{port}"]\n' if port else "") +
            '    allow: ["GET /**"]\n    scope: other:read\n    audit: "waived: test"\n')


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    hosts = [host_of(*place) for place in PLACES] + ["pool-plain.test", "pool-tls.test"]
    pki = make_pki(tmp_path_factory.mktemp("pki"), hosts)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pki[1], pki[2])
    names, deaf, ways = Names(), Deaf(), [way for _, way in PLACES] + ["plain", "tls"]
    services = {host: Service(context if way == "tls" else None) for host, way in zip(hosts, ways)}
    for (row, way), host in zip(PLACES, hosts):
        services[host].act = ROWS[row][0]
    listed = "".join(listing(host, way, services[host].port, pki[0]) for host, way in zip(hosts, ways))
    listed += listing("deaf.test", "plain", deaf.port, None) + listing("named.test", "plain", None, None)
    g = Gateway(tmp_path_factory.mktemp("upstream") / "state", listed, extra=LIMITS % names.address).start()
    g.names, g.services = names, services
    yield g
    status = g.stop()
    print(g.output().decode()[-4000:])
    for s in [*services.values(), names, deaf]:
        s.close()
    assert status == 0 and g.verify()


@pytest.fixture(scope="module")
def heard(world):
    """What the client of each row gets, and in how many seconds."""
    token, found = world.token("other:read"), {}

    def ask(row, way):
        before = time.monotonic()
        answer = {"plain": over_plain, "tls": over_tls}[way](world, token, host_of(row, way))
        found[row, way] = answer, time.monotonic() - before

    threads = [threading.Thread(target=ask, args=place) for place in PLACES]
    for t in threads:
        t.start()
    for t in threads:
        t.join(2 * HANG)
    return found


def outcome(wire):
    """(status, reason or body), or CUT when the connection ends or breaks before the answer's own end."""
    try:
        answer = wire.response()
    except (Closed, OSError, ValueError, IndexError):
        return CUT
    return answer.status, answer.reason or answer.body


def over_tls(world, token, host):
    try:
        wire = world.tunnel(host, token)
    except AssertionError as e:  # a refused CONNECT
        return int(str(e).split()[2]), str(e).split()[4]
    wire.send(f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n")
    return outcome(wire)


def over_plain(world, token, host):
    wire = world.connect()
    # A cut before an end that only the close marks shows in the framing: HTTP/1.1 gets chunks.
    wire.send(request("/", token, host=host, close=False))
    return outcome(wire)


@pytest.mark.parametrize("way", ["plain", "tls"])
@pytest.mark.parametrize("row", ROWS)
def test_a_service_that(world, heard, row, way):
    expected = ROWS[row][1 if way == "plain" else 2]
    answer, took = heard[row, way]
    assert answer in MAY_BE.get(expected, [expected])
    assert took < HANG
    if "stall" in row or "head, a byte" in row:
        assert took > DEADLINES - 1, "it did not wait for its deadline"
    it_is_recorded(world, host_of(row, way), answer)


def it_is_recorded(world, host, answer):
    """The decision came first; a result says how it ended, as the client saw it."""
    found = world.wait_for(kind="decision")
    found = [r for r in found if r.get("http", {}).get("host") == host][-1]  # the CONNECT's, if the request was never sent
    assert found["action"] == "allow"
    result = world.wait_for(kind="result", id=found["id"])[0]
    assert result["outcome"] == ("cut" if answer == CUT else "complete" if answer == WHOLE else "failed")
    if answer not in (CUT, WHOLE):
        assert result["reason"] == answer[1]


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
    host = f"pool-{way}.test"

    def act(s, c):
        c = s.begin(c)
        c.sendall(OK)
        if speak.wait(1 if spoken.is_set() else PATIENCE):
            speak.clear()
            c.sendall(UNASKED)
            spoken.set()
        time.sleep(HANG)

    world.services[host].act = act
    token = world.token("other:read", sandbox=f"sb-pool-{way}")
    if way == "tls":
        wire, text = world.tunnel(host, token), "GET /{} HTTP/1.1\r\nHost: " + host + "\r\n\r\n"
    else:
        wire, text = world.connect(), request("/{}", token, host=host, close=False)
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
