"""
Every limit that counts: what is within it passes, what is over it is refused with the limit's reason and 429, and the
journal has one record of the first refusal and then sums. A gateway of its own for each row, with that limit small.
"""
import concurrent.futures
import json
import os
import re
import socket
import struct
import threading
import time
from types import SimpleNamespace

import pytest

from gateway import TREE, Gateway, Wire, connect_head, exeat, wait_until
from origin import Origin, ok
from test_reasons import NameServer, forge, other_key

SERVICES = """
  web:
    hosts: [web.test, "*.web.test"]
    plain-ports: [80]
    addresses: ["127.0.0.1:{plain}"]
    allow: ["GET /pkg/**", "POST /up/**"]
    scope: web
    body: 100m
    audit: "waived: test"
  tls:
    hosts: [registry.test]
    addresses: ["127.0.0.1:{tls}"]
    ca-file: {ca}
    allow: ["GET /pkg/**"]
    scope: web
    audit: "waived: test"
  slow:
    hosts: [slow.test]
    plain-ports: [80]
    allow: ["GET /pkg/**"]
    scope: web
    audit: "waived: test"
"""


class Held:
    """An origin that answers nothing until it is told to."""

    def __init__(self, origin):
        self.origin, self.go = origin, threading.Event()

    def __enter__(self):
        def script(request):
            self.go.wait(60)
            return ok(request)
        self.origin.script = script
        return self

    def __exit__(self, *_):
        self.go.set()
        self.origin.script = ok

    def asked(self, n):
        wait_until(lambda: len(self.origin.requests) >= n, f"{n} requests at the origin")


class Limited(Gateway):
    """A gateway with some limits small, everything else at its default."""

    def __init__(self, directory, origins, pki, limits, workers=1):
        self.names, self.origins = NameServer(), origins
        text = ", ".join(f"{k}: {v}" for k, v in limits.items())
        extra = f'limits: {{{text}}}\nresolver: {{servers: ["127.0.0.1:{self.names.port}"], timeout: 60s}}'
        listed = SERVICES.format(plain=origins[1].port, tls=origins[0].port, ca=pki[0])
        super().__init__(directory, listed, extra=extra, workers=workers, limits={})
        self.start()
        self.tokens, self.wires = {}, []

    def token_of(self, sandbox):
        if sandbox not in self.tokens:
            self.tokens[sandbox] = self.token("web", sandbox=sandbox)
        return self.tokens[sandbox]

    def wire(self, source="127.0.0.1"):
        s = socket.create_connection(("127.0.0.1", self.port), 60, source_address=(source, 0))
        wire = Wire(s)
        self.wires.append(wire)
        return wire

    def send(self, target="http://web.test/pkg/a", sandbox="sb-1", method="GET", fields="", body=b"", wire=None,
             credential=None, source="127.0.0.1"):
        wire = wire or self.wire(source)
        host = target.split("/")[2]
        credential = credential or self.token_of(sandbox)
        head = f"{method} {target} HTTP/1.1\r\nHost: {host}\r\n{fields}Proxy-Authorization: Bearer {credential}\r\n"
        if body:
            head += f"Content-Length: {len(body)}\r\n"
        wire.send(head.encode() + b"\r\n" + body)
        return wire

    def ask(self, *words, **more):
        wire = self.send(*words, **more)
        answer = wire.response()
        wire.close()
        return answer

    def connect_to(self, host="registry.test", sandbox="sb-1", source="127.0.0.1"):
        wire = self.wire(source)
        wire.send(connect_head(host, self.token_of(sandbox)))
        return wire, wire.response("CONNECT")

    def end(self):
        for wire in self.wires:
            wire.close()
        assert self.stop() == 0, self.output().decode()
        assert self.verify()


@pytest.fixture
def limited(tmp_path, origins, pki):
    made = []

    def make(limits, workers=1):
        made.append(Limited(tmp_path / f"state{len(made)}", origins, pki, limits, workers))
        return made[-1]

    yield make
    for g in made:
        if g.process and g.process.poll() is None:
            g.end()


def is_refused(answer, reason, status=429):
    assert (answer.status, answer.reason) == (status, reason), (answer.line, answer.body)
    if status == 429:
        assert int(answer.field("Retry-After")) >= 1
    return True


def refusals(g, reason):
    """(records of single refusals, refusals in sums) after the end."""
    single = g.records(kind="decision", reason=reason)
    sums = g.records(kind="limit", reason=reason)
    return len(single), sum(r["limit"]["count"] for r in sums)


# ---- what goes by: n pass, what follows is refused


def urls(g, i):
    return g.ask(f"http://web.test/pkg/{i}")


def names(g, i):
    return g.ask(f"http://n{i}.web.test/pkg/a")


def denials(g, i):
    return g.ask("http://web.test/else")


def source_denials(g, i):
    wire = g.wire()
    wire.send("GET http://web.test/pkg/a HTTP/1.1\r\nHost: web.test\r\n\r\n")
    return wire.response()


def malformed(g, i):
    wire = g.wire()
    wire.send("GET http://web.test/pkg/a HTTP/1.1\r\nHost: web.test\r\nHost: b\r\n\r\n")
    return wire.response()


def sent_bytes(g, i):
    return g.ask("http://web.test/up/x", method="POST", body=bytes(300))


def records(g, i):
    return g.ask()


def junk(g, i):
    return g.ask(credential=forge(g, key=other_key()))


def failed_handshakes(g, i):
    wire, answer = g.connect_to()
    if answer.status == 200:
        wire.send(b"\x16\x03\x01\x00\x04\x01\x00\x00\x00")
        assert wire.is_closed()
    return answer


PACES = {
    "sandbox-urls": (urls, {"sandbox-urls": 5}, 5, "limit_urls", 200),
    "sandbox-names": (names, {"sandbox-names": 4}, 4, "limit_names", 200),
    "sandbox-denials": (denials, {"sandbox-denials": 3}, 3, "limit_denials", 403),
    "source-denials": (source_denials, {"source-denials": 3}, 3, "limit_denials", 407),
    "source-denials, malformed heads": (malformed, {"source-denials": 3}, 3, "limit_denials", 400),
    "sandbox-bytes": (sent_bytes, {"sandbox-bytes": 1800}, 4, "limit_bytes", 200),
    "sandbox-records": (records, {"sandbox-records": 1}, 5, "limit_records", 200),
    "records, a share of all": (records, {"records": 2}, 5, "limit_records", 200),
    "token-failures": (junk, {"token-failures": 3}, 3, "token_failures", 407),
    "failed-handshakes": (failed_handshakes, {"failed-handshakes": 3}, 3, "limit_handshakes", 200),
}
MORE = 6


@pytest.mark.parametrize("row", PACES)
def test_pace(limited, row):
    """Over the limit: one record at once, all others in a sum, and `why` tells of both by the id of any answer."""
    act, limits, most, reason, status = PACES[row]
    g = limited(limits)
    for i in range(most):
        answer = act(g, i)
        assert answer.status == status, (i, answer.line, answer.body)
    answers = [act(g, most + i) for i in range(MORE)]
    assert all(is_refused(a, reason) for a in answers)
    g.end()
    assert refusals(g, reason) == (1, MORE - 1)
    if answers[0].body:
        exchange, = {json.loads(a.body)["exchange"] for a in answers}
        told = exeat("why", exchange, config=g.config).stdout
        assert reason in told and f"{MORE - 1} further refusals" in told


def test_what_was_seen_is_not_new(limited):
    """The limit is on distinct URLs and names: asking again for what was asked for passes, also when it is used up."""
    g = limited({"sandbox-urls": 3, "sandbox-names": 3})
    for _ in range(3):
        for i in range(3):
            assert urls(g, i).status == 200
    is_refused(urls(g, 3), "limit_urls")
    is_refused(urls(g, 3), "limit_urls")  # refused is not seen
    assert urls(g, 0).status == 200


def test_sandboxes_and_sources_are_counted_apart(limited):
    g = limited({"sandbox-denials": 1, "source-denials": 1, "sandbox-urls": 1})
    assert denials(g, 0).status == 403
    is_refused(denials(g, 0), "limit_denials")
    assert g.ask("http://web.test/else", sandbox="sb-2").status == 403
    assert g.ask("http://web.test/pkg/a", sandbox="sb-2").status == 200
    assert g.ask("http://web.test/pkg/a", sandbox="sb-1").status == 200  # denials are limited, not what is allowed
    is_refused(g.ask("http://web.test/pkg/b", sandbox="sb-1"), "limit_urls")
    assert source_denials(g, 0).status == 407
    is_refused(source_denials(g, 0), "limit_denials")
    wire = g.wire("127.0.0.9")
    wire.send("GET http://web.test/pkg/a HTTP/1.1\r\nHost: web.test\r\n\r\n")
    assert wire.response().status == 407


def test_a_leak_is_always_recorded(limited):
    """Denials over the rate are summed; a canary that leaves is not one of them."""
    g = limited({"sandbox-denials": 1})
    value = json.loads((g.directory / "canaries.json").read_text())["canaries"][0]["value"]
    for _ in range(4):
        is_refused(g.ask("http://web.test/up/x", method="POST", body=value.encode()), "canary_leak", 403)
    g.end()
    assert len(g.records(kind="decision", reason="canary_leak")) == 4
    assert len(g.records(kind="finding", reason="canary_leak")) == 4


def test_sums_come_every_10_seconds(limited):
    """While refusals go on: one record of them in 10 s, however many there are."""
    g = limited({"sandbox-denials": 1})
    denials(g, 0)
    wire, began, n = g.wire(), time.monotonic(), 0
    while len(g.records(kind="limit")) < 2:
        g.send("http://web.test/else", wire=wire)
        is_refused(wire.response(), "limit_denials")
        n += 1
        assert time.monotonic() - began < 60
    took = time.monotonic() - began
    g.end()
    single, summed = refusals(g, "limit_denials")
    assert (single, summed) == (1, n - 1)
    assert len(g.records(kind="limit")) <= took / 10 + 2
    assert n > 15


# ---- what is held: n at once, the next is refused until one is given back


def exchanges(g, n, sandbox="sb-1"):
    """n requests that the origin does not answer yet, one after another."""
    before = len(g.origins[1].requests)
    wires = []
    for i in range(n):
        wires.append(g.send(sandbox=sandbox))
        wait_until(lambda: len(g.origins[1].requests) >= before + i + 1, "the origin to be asked")
    return wires


def test_sandbox_exchanges(limited, origins):
    g = limited({"sandbox-exchanges": 3})
    with Held(origins[1]) as held:
        wires = exchanges(g, 3)
        is_refused(g.ask(), "limit_exchanges")
        held.go.set()
        assert [w.response().status for w in wires] == [200] * 3
    assert g.ask().status == 200  # given back


def test_a_share_of_all_exchanges(limited, origins):
    """Alone: half. With another: a third each, and who held more keeps it but gets nothing further."""
    g = limited({"exchanges": 6})
    with Held(origins[1]) as held:
        wires = exchanges(g, 3)
        is_refused(g.ask(), "limit_exchanges")
        wires += exchanges(g, 2, sandbox="sb-2")
        is_refused(g.ask(sandbox="sb-2"), "limit_exchanges")
        wires += exchanges(g, 1, sandbox="sb-3")
        held.go.set()
        assert [w.response().status for w in wires] == [200] * 6


def test_counts_hold_for_all_workers(limited, origins):
    """Connections are spread over the workers by the kernel; the count is one."""
    g = limited({"sandbox-exchanges": 5, "sandbox-urls": 7, "token-failures": 4}, workers=3)
    with Held(origins[1]) as held:
        wires = exchanges(g, 5)
        time.sleep(0.5)  # a sandbox that has come to another worker is seen there within 100 ms
        for _ in range(12):
            is_refused(g.ask(), "limit_exchanges")
        held.go.set()
        assert [w.response().status for w in wires] == [200] * 5
    pids = len(g.pids("worker"))
    assert pids == 3
    good = sum(urls(g, i).status == 200 for i in range(30))
    assert 6 <= good <= 8, good  # /pkg/a was the first
    for _ in range(12):  # what one worker has seen is new to none
        assert urls(g, 0).status == 200
    refused = [junk(g, i).reason for i in range(16)]
    assert 4 <= refused.count("token_signature") <= 6 and set(refused[6:]) == {"token_failures"}


def test_a_restarted_worker_holds_nothing_and_forgets_nothing(limited, origins):
    g = limited({"sandbox-exchanges": 2, "sandbox-urls": 2})
    assert g.ask().status == 200
    with Held(origins[1]):
        exchanges(g, 2)
        os.kill(g.pids("worker")[0], 9)
        wait_until(lambda: len(g.pids("worker")) == 1, "a worker")
    wait_until(lambda: ready(g), "the gateway to be ready")
    assert g.ask().status == 200  # the places of the dead are free
    assert urls(g, 1).status == 200
    is_refused(urls(g, 2), "limit_urls")  # and what it counted still counts


def ready(g):
    return publish(g, "/readyz")[0] == 200


def publish(g, path):
    s = socket.create_connection(("127.0.0.1", g.publish), 60)
    s.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    answer = Wire(s).response()
    s.close()
    return answer.status, answer.body.decode()


def test_sandbox_connections(limited):
    g = limited({"sandbox-connections": 3})
    kept = []
    for _ in range(3):
        kept.append(g.send(wire=g.wire()))
        assert kept[-1].response().status == 200
    answer = g.ask()
    is_refused(answer, "limit_connections")
    assert answer.field("Connection") == "close"
    assert g.ask(sandbox="sb-2").status == 200
    kept[0].close()
    wait_until(lambda: g.ask().status == 200, "a place to be free")


def test_the_oldest_stranger_makes_room(limited):
    """Connections that show no token do not keep others out: the oldest of their source is told so and closed."""
    g = limited({"source-connections": 3})
    silent = [g.wire() for _ in range(3)]
    wait_until(lambda: sum_of(g, "exeat_connections_accepted_total") == 3, "three connections")
    other = g.wire("127.0.0.9")
    wait_until(lambda: sum_of(g, "exeat_connections_accepted_total") == 4, "one from elsewhere")
    assert g.ask().status == 200
    is_refused(silent[0].response(), "limit_connections")
    for wire, sandbox in zip(silent[1:] + [other], ("sb-1", "sb-1", "sb-2")):
        assert g.send(wire=wire, sandbox=sandbox).response().status == 200
    g.end()
    record, = g.records(kind="limit", reason="limit_connections")
    assert record["client"] == "127.0.0.1" and record["limit"]["count"] == 1


def sum_of(g, name):
    return sum(int(n) for n in re.findall(rf"^{name}{{[^}}]*}} (\d+)$", publish(g, "/metrics")[1], re.M))


def test_handshakes(limited):
    g = limited({"sandbox-handshakes": 2})
    wires = [g.connect_to() for _ in range(2)]
    assert [a.status for _, a in wires] == [200, 200]
    is_refused(g.connect_to()[1], "limit_handshakes")
    assert g.connect_to(sandbox="sb-2")[1].status == 200
    wires[0][0].start_tls("registry.test", g.root)
    wait_until(lambda: g.connect_to()[1].status == 200, "a handshake to be over")


def test_handshake_rate(limited):
    """Many at once: so many as there may be in a second, and a second later again."""
    g = limited({"handshake-rate": 3})
    wires = [g.wire() for _ in range(12)]
    for wire in wires:
        wire.send(connect_head("registry.test", g.token_of("sb-1")))
    answers = [wire.response("CONNECT") for wire in wires]
    refused = [a for a in answers if a.status != 200]
    assert 3 <= len(answers) - len(refused) <= 6 and all(is_refused(a, "limit_handshakes") for a in refused)
    assert g.connect_to(sandbox="sb-2")[1].status == 200
    wait_until(lambda: g.connect_to()[1].status == 200, "the next second")


@pytest.mark.parametrize("key, reason", [("sandbox-dials", "limit_dials"), ("sandbox-lookups", "limit_lookups")])
def test_dials_and_lookups(limited, key, reason):
    """Names that are never answered: two wait, the third is refused, before anything is recorded as allowed."""
    g = limited({key: 2, "dial-time": "60s"})
    for _ in range(2):
        g.send("http://slow.test/pkg/a")
    g.wait_for(n=2, kind="decision", action="allow")
    is_refused(g.ask("http://slow.test/pkg/a"), reason)
    assert g.ask().status == (429 if key == "sandbox-dials" else 200)  # a fixed address needs no look-up, but a dial


# ---- sizes: what just fits, and one byte more


def sized(name):
    def make(g, n):
        wire = g.wire()
        token = g.token_of("sb-1")
        target, fields = "http://web.test/pkg/a", ""
        if name == "target":
            target = target[:-1] + "a" * (n - len(target) + 1)
        credential = f"Proxy-Authorization: Bearer {token}\r\n"
        if name == "credential":
            user = "u" * 8
            raw = f"{user}:{token}".encode()
            pad = n - len("Basic ")
            import base64
            while len(base64.b64encode(raw)) < pad:
                raw = b"u" + raw
            credential = "Proxy-Authorization: Basic " + base64.b64encode(raw).decode() + "\r\n"
        if name == "fields":
            fields = "".join(f"X-{i}: a\r\n" for i in range(n - 2))
        head = f"GET {target} HTTP/1.1\r\nHost: web.test\r\n{credential}{fields}"
        if name == "head":
            head += "X-Long: " + "x" * (n - len(head) - len("X-Long: ") - 4) + "\r\n"
        wire.send(head + "\r\n")
        return wire.response()
    return make


SIZES = [("head", "4k", 4096, 1, "head_too_large", 431), ("target", "1k", 1024, 1, "target_too_long", 414),
         ("credential", "4k", 4094, 4, "token_oversize", 431), ("fields", "20", 20, 1, "head_too_large", 431)]


@pytest.mark.parametrize("name, value, fits, more, reason, status", SIZES)
def test_size(limited, name, value, fits, more, reason, status):
    g = limited({name: value})
    answer = sized(name)(g, fits)
    assert answer.status == 200, (answer.line, answer.body)
    is_refused(sized(name)(g, fits + more), reason, status)


def test_body_collect(limited, origins):
    """Up to the limit nothing goes out before the whole body was looked through; above it, its beginning does."""
    g = limited({"body-collect": "1k", "body-time": "2s"})
    for size, asked in ((1000, 0), (5000, 1)):
        origins[1].clear()
        wire = g.send("http://web.test/up/x", method="POST", fields=f"Content-Length: {size}\r\n")
        wire.send(bytes(size - 100))
        if asked:
            wait_until(lambda: len(origins[1].requests) == 1, "the head at the origin")
        answer = wire.response()
        assert answer.status == 408 and len(origins[1].requests) == asked


# ---- times and rates


def test_body_rate_of_a_sender(limited):
    """A byte now and then does not keep an exchange alive; who keeps the rate may take as long as it likes."""
    g = limited({"body-rate": 50, "body-time": "2s"})
    slow = g.send("http://web.test/up/x", method="POST", fields="Content-Length: 100000\r\n")
    steady = g.send("http://web.test/up/x", method="POST", fields="Content-Length: 2000\r\n")
    with concurrent.futures.ThreadPoolExecutor() as pool:
        dribbled = pool.submit(dribble, slow, 1, 100000)
        kept = pool.submit(dribble, steady, 40, 50)
        assert kept.result() == 50
        answer = slow.response()
        is_refused(answer, answer.reason, 408)
        assert answer.reason in ("request_timeout", "client_timeout")
        assert dribbled.result() < 1000
    assert steady.response().status == 200


def dribble(wire, n, times):
    """n bytes each tenth of a second; how often it went well."""
    for i in range(times):
        try:
            wire.send(b"x" * n)
        except OSError:
            return i
        time.sleep(0.1)
    return times


def test_body_rate_of_a_reader(limited, origins):
    """A reader that takes a little at a time is cut; the one beside it is not."""
    g = limited({"body-rate": "64k", "body-time": "2s"})
    size = 8 << 20

    def script(_):
        yield b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size
        for _ in range(8):
            yield bytes(1 << 20)

    origins[1].script = script
    try:
        slow, quick = g.wire(), g.wire()
        slow.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        g.send(wire=slow)
        g.send(wire=quick)
        assert len(quick.response().body) == size
        stop = threading.Event()
        reader = threading.Thread(target=sip, args=(slow.socket, stop))
        reader.start()
        assert g.wait_for(kind="result", reason="client_timeout")
        stop.set()
        reader.join()
    finally:
        origins[1].script = ok


def sip(s, stop):
    try:
        while not stop.is_set() and s.recv(64):
            time.sleep(0.05)
    except OSError:
        pass


def test_a_slow_service_is_not_the_clients_fault(limited, origins):
    """The rate is the client's: an answer that comes in drops, read as it comes, goes on."""
    g = limited({"body-rate": "64k", "body-time": "2s"})

    def script(_):
        yield b"HTTP/1.1 200 OK\r\nContent-Length: 60\r\n\r\n"
        for _ in range(60):
            time.sleep(0.1)
            yield b"x"

    origins[1].script = script
    try:
        assert len(g.ask().body) == 60
    finally:
        origins[1].script = ok


TIMES = {
    "header-time": ("header-time", lambda g: begin(g, "GET http://web.test/pkg/a HTTP/1.1\r\nHost: web")),
    "header-time, drop by drop": ("header-time", lambda g: begin(g, "GET http://", drops=True)),
    "header-time, nothing at all": ("header-time", lambda g: begin(g, "")),
    "header-time, an empty line and nothing more": ("header-time", lambda g: begin(g, "\r\n")),
    "idle-time": ("idle-time", lambda g: after(g)),
    "handshake-time": ("handshake-time", lambda g: g.connect_to()[0]),
}


def begin(g, text, drops=False):
    wire = g.wire()
    wire.send(text)
    if drops:
        threading.Thread(target=dribble, args=(wire, 1, 10000), daemon=True).start()
    return wire


def after(g):
    wire = g.send()
    assert wire.response().status == 200
    return wire


@pytest.mark.parametrize("row", TIMES)
def test_time(limited, row):
    """Each wait ends, and not before it should."""
    key, start = TIMES[row]
    g = limited({key: "1500ms", "linger-time": "1s"})
    began = time.monotonic()
    wire = start(g)
    assert wire.is_closed()
    assert time.monotonic() - began > 1.2
    assert g.ask().status == 200


# ---- the table


def test_every_limit_is_tried():
    """Each key of limits stands in a test here, or is named with the file that tries it."""
    elsewhere = {"dial-time": "e2e/test_reasons.py", "response-time": "e2e/test_reasons.py", "overrun": "e2e/test_reasons.py",
                 "hang-time": "e2e/test_faults.py", "upstream-idle-total": "e2e/test_hostile.py", "connections": "e2e/test_exhaustion.py",
                 "memory": "e2e/test_exhaustion.py", "websocket-idle": "e2e/test_websocket_end.py",
                 "websocket-message": "e2e/test_websocket.py", "event-stream-idle": "e2e/test_event_streams.py",
                 "upstream-idle": "unit/upstream.c", "upstream-idle-time": "unit/upstream.c",
                 "token-cache": "unit/verifier.c", "leaf-cache": "unit/leaf.c", "handshakes": "unit/tally.c",
                 "dials": "unit/tally.c", "lookups": "unit/tally.c", "names": "unit/porter_names.c",
                 **{k: "e2e/test_dns.py" for k in ("dns-questions", "dns-names", "dns-connections")}, "dns-questions-total": "unit/patron.c"}
    table = (TREE / "proxy/limits.c").read_text()
    keys = re.findall(r'^    \{"([a-z-]+)", CONF_', table, re.M)
    here = (TREE / "tests/e2e/test_limits.py").read_text()
    missing = [k for k in keys if f'"{k}"' not in here and k not in elsewhere]
    assert len(keys) > 30 and not missing, missing
    for key, file in elsewhere.items():
        assert (TREE / "tests" / file).exists(), (key, file)
