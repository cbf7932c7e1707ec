"""
The wall clock of a running gateway is set forward and back: tokens, revocations, pins, certificates, deadlines, time stamps.
The program under test is linked with a clock that a signal sets (tests/clock/clock.c); all else is the real one.
"""
import ctypes
import os
import signal
import socket
import ssl
import subprocess
import threading
import time
from pathlib import Path

import pytest

from conftest import BOTH, services
from gateway import EXEAT, PATIENCE, Closed, Gateway, Wire, clean_environment, exeat, wait_until
from load import Load, Watch, ask, ready, request
from origin import ok

PROGRAM = Path(EXEAT).parent / "tests" / "exeat-clock"
HOUR, DAY = 3600, 86400
HANG = 30
ROLES = ["worker", "porter", "keeper", "scribe", "clerk", "usher"]


class Value(ctypes.Union):
    _fields_ = [("number", ctypes.c_int), ("pointer", ctypes.c_void_p)]


class Clocked(Gateway):
    program = PROGRAM

    def set_clock(self, seconds):
        """So far from the true time, in every process."""
        libc = ctypes.CDLL(None, use_errno=True)
        for pid in [self.process.pid] + [p for role in ROLES for p in self.pids(role)]:
            assert libc.sigqueue(pid, signal.SIGRTMIN, Value(number=seconds)) == 0, os.strerror(ctypes.get_errno())
        time.sleep(0.1)


@pytest.fixture
def gateway(tmp_path, origins, pki):
    listed = services(origins[0].port, origins[1].port, pki[0])
    g = Clocked(tmp_path / "state", listed, extra="limits: {header-time: 4s, hang-time: 5s}").start()
    yield g
    status = g.stop()
    print(g.output().decode()[-4000:])
    assert status == 0 and g.verify()


def refused(gateway, token):
    wire = gateway.connect()
    wire.send(f"CONNECT registry.test:443 HTTP/1.1\r\nHost: registry.test:443\r\nProxy-Authorization: Bearer {token}\r\n\r\n")
    return wire.response("CONNECT").reason


def inside(wire, path="/pkg/inside"):
    wire.send(f"GET {path} HTTP/1.1\r\nHost: registry.test\r\n\r\n")
    return wire.response()


@pytest.mark.parametrize("jump,reason", [(HOUR, "token_expired"), (-HOUR, "token_not_yet_valid"),
                                         (30 * DAY, "token_expired"), (-30 * DAY, "token_not_yet_valid")])
def test_a_token_counts_only_in_its_time(gateway, jump, reason):
    token = gateway.token(BOTH, lifetime="10m")
    gateway.set_clock(jump)
    assert refused(gateway, token) == reason
    gateway.set_clock(0)
    assert ask(gateway, "/pkg/after", token).status == 200


def test_a_token_in_use_ends_in_its_tunnel(gateway):
    wire = gateway.tunnel("registry.test", gateway.token(BOTH, lifetime="10m"))
    assert inside(wire).status == 200
    gateway.set_clock(HOUR)
    scribe = gateway.pids("scribe")[0]
    os.kill(scribe, signal.SIGSTOP)  # the record of the refusal takes a moment
    threading.Timer(0.2, os.kill, (scribe, signal.SIGCONT)).start()
    answer = inside(wire)
    assert (answer.status, answer.reason) == (403, "token_expired") and wire.is_closed()


def test_a_token_that_has_ended_is_not_brought_back_by_less_than_its_age(gateway):
    """Set back by less than what has passed since its end, it stays ended."""
    token = gateway.token(BOTH, lifetime="1s")
    wait_until(lambda: refused(gateway, token) == "token_expired", "the token to end")
    gateway.set_clock(HOUR)
    assert refused(gateway, token) == "token_expired"
    gateway.set_clock(0)
    assert refused(gateway, token) == "token_expired"


@pytest.mark.parametrize("jump", [HOUR, 30 * DAY, -HOUR, -30 * DAY])
def test_what_was_revoked_stays_revoked(gateway, jump):
    token, other = gateway.token(BOTH, sandbox="sb-bad"), gateway.token(BOTH, sandbox="sb-good")
    exeat("token", "revoke", "--sandbox", "sb-bad", config=gateway.config)
    assert refused(gateway, token) == "token_revoked"
    gateway.set_clock(jump)
    assert refused(gateway, token) is not None
    gateway.set_clock(0)
    assert refused(gateway, token) == "token_revoked"
    assert ask(gateway, "/pkg/good", other).status == 200


def test_what_was_revoked_stays_revoked_over_a_start_with_a_clock_that_is_ahead(gateway):
    token = gateway.token(BOTH, sandbox="sb-bad")
    exeat("token", "revoke", "--sandbox", "sb-bad", "--for", "2h", config=gateway.config)
    assert refused(gateway, token) == "token_revoked"
    assert gateway.stop() == 0
    for ahead in (30 * DAY, 0):
        (gateway.directory / "log").unlink()
        gateway.start(command=["env", f"EXEAT_TEST_CLOCK={ahead}", PROGRAM, "-c", gateway.config, "serve"])
        assert refused(gateway, token) == "token_revoked"  # the clock is the supervisor's, who reads the file
        assert gateway.stop() == 0


def test_an_answer_without_end_ends_with_its_token(gateway, origins):
    """Each piece of it puts its deadline off, but never beyond what the token allows."""
    over = threading.Event()

    def script(_):
        yield b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (1 << 50)
        while not over.is_set():
            yield bytes(1 << 20)

    origins[1].script = script
    wire = gateway.connect()
    try:
        wire.send(request("/pkg/endless", gateway.token(BOTH, lifetime="10m")))
        wire.exactly(8 << 20)
        gateway.set_clock(DAY)
        deadline = time.monotonic() + PATIENCE
        with pytest.raises(Closed):  # and not for want of patience
            while time.monotonic() < deadline:
                wire.exactly(1 << 20)
        assert gateway.wait_for(kind="result", outcome="cut", reason="token_expired")
    finally:
        over.set()
        origins[1].script = ok
        wire.close()


@pytest.mark.parametrize("jump", [HOUR, 30 * DAY, -HOUR, -30 * DAY])
def test_a_token_stays_with_its_first_source(gateway, jump):
    token = gateway.token(BOTH)
    assert ask(gateway, "/pkg/pinned", token).status == 200

    def from_elsewhere():
        wire = Wire(socket.create_connection(("127.0.0.1", gateway.port), PATIENCE, source_address=("127.0.0.2", 0)))
        wire.send(request("/pkg/stolen", token))
        return wire.response().reason

    assert from_elsewhere() == "token_binding"
    gateway.set_clock(jump)
    assert from_elsewhere() is not None
    gateway.set_clock(0)
    assert from_elsewhere() == "token_binding"
    assert ask(gateway, "/pkg/still", token).status == 200


@pytest.mark.parametrize("jump", [DAY, -DAY])
def test_deadlines_do_not_move(gateway, jump):
    """Neither is one met by a jump, nor does one go away."""
    early, late = gateway.connect(), gateway.connect()
    token = gateway.token(BOTH)
    text = request("/pkg/deadline", token)
    early.send(text[:30])
    late.send(text[:30])
    gateway.set_clock(jump)
    gateway.set_clock(0)
    early.send(text[30:])
    assert early.response().status == 200
    gateway.set_clock(jump)
    before = time.monotonic()
    assert late.response().status == 408
    assert time.monotonic() - before < HANG
    gateway.set_clock(0)


@pytest.mark.parametrize("jump", [2 * DAY, -2 * DAY])
def test_a_certificate_of_another_time_is_not_kept(gateway, jump):
    """While the clock is wrong, clients refuse what is issued; when it is right again they get one that is good."""
    token = gateway.token(BOTH, lifetime="10m")
    gateway.set_clock(jump)
    then = exeat_at(gateway, jump, "token", "issue", "--sandbox", "sb-then", "--scope", BOTH, "--lifetime", "10m")
    with pytest.raises((ssl.SSLError, AssertionError)) as refusal:
        gateway.tunnel("registry.test", then)
    assert "not yet valid" in str(refusal.value) or "certificate_unavailable" in str(refusal.value)
    gateway.set_clock(0)
    assert inside(gateway.tunnel("registry.test", token)).status == 200


def exeat_at(gateway, jump, *words):
    """A command whose own clock is off by so much."""
    return subprocess.run([PROGRAM, "-c", gateway.config, *words], capture_output=True, text=True, timeout=PATIENCE, check=True,
                          env=clean_environment(EXEAT_TEST_CLOCK=str(jump))).stdout.strip()


def test_the_journal_tells_when_the_clock_was_set(gateway):
    token = gateway.token(BOTH, lifetime="10m")
    assert ask(gateway, "/pkg/a", token).status == 200
    for jump in (HOUR, -HOUR, 0):
        gateway.set_clock(jump)
        ask(gateway, "/pkg/b", token)
    told = [r["detail"] for r in gateway.wait_for(3, kind="finding", role="scribe")]
    assert [t.split(" by ")[0].rsplit(" ", 1)[1] for t in told] == ["forward", "back", "forward"]
    assert [round(float(t.split(" by ")[1].split(" ")[0]) / HOUR) for t in told] == [1, 2, 1]
    monos = [r["mono"] for r in gateway.records()]
    assert monos == sorted(monos)


def test_jumps_under_load_stop_nobody_for_good(gateway, origins):
    watch, load = Watch(gateway, origins), Load(gateway, BOTH)
    try:
        load.wait_for_good(5)
        for jump in (DAY, 0, -DAY, 0, 30 * DAY, 0):
            gateway.set_clock(jump)
        load.wait_for_good(5)
    finally:
        load.stop()
        watch.stop()
    assert watch.unrecorded == []
    assert ready(gateway) == (200, {"ready": True})
