"""Clients and services that do what they should not: nothing is lost, doubled, leaked or held for ever."""
import json
import os
import re
import resource
import signal
import socket
import ssl
import time

import pytest
from conftest import BOTH, services
from gateway import PATIENCE, Closed, Gateway, Wire, exeat, wait_until
from test_gateway import absolute, get, post, scripted

BODY_LIMIT = "8m"
EXTRA = "limits: {body-collect: 1k}"


@pytest.fixture
def token(gateway):
    return gateway.token(BOTH)


@pytest.fixture(scope="module")
def canary(gateway):
    """One that could be the name of a field."""
    listed = json.loads((gateway.directory / "canaries.json").read_text())["canaries"]
    return next(c["value"] for c in listed if re.fullmatch(r"[A-Za-z0-9_-]+", c["value"]))


def small_window(gateway, size=4096):
    """A client that takes little at a time."""
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)
    s.settimeout(60)
    s.connect(("127.0.0.1", gateway.port))
    return Wire(s)


def journal_text(gateway):
    return "".join(p.read_text() for p in sorted((gateway.directory / "journal").glob("*.ndjson")))


def sized(request):
    """A response as long as the target says, after which the service may close."""
    size = int(request.target.rsplit("/", 1)[1])
    closes = b"Connection: close\r\n" if "/close/" in request.target else b""
    return [b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n%s\r\n" % (size, closes), bytes(size)]


# ---- half-closed, slow, and both


def test_half_closed_client_gets_all_of_a_large_answer(gateway, token, origins):
    with scripted(origins[1], sized):
        wire = small_window(gateway, 65536)
        wire.send(absolute(token, path=f"/pkg/{20 << 20}"))
        wire.half_close()
        time.sleep(0.5)
        assert len(wire.response().body) == 20 << 20


@pytest.mark.parametrize("kind", ["keep", "close"])
def test_what_was_answered_reaches_a_slow_reader_who_half_closed(gateway, token, origins, kind):
    sizes = range(2 << 20, 4 << 20, 64 << 10)
    with scripted(origins[1], sized):
        wires = [small_window(gateway) for _ in sizes]
        for wire, size in zip(wires, sizes):
            wire.send(absolute(token, path=f"/pkg/{kind}/{size}"))
        time.sleep(1)
        for wire in wires:
            wire.half_close()
        time.sleep(0.3)
        assert [len(wire.response().body) for wire in wires] == list(sizes)


@pytest.mark.parametrize("size", [1024, 1025, 3000])
def test_body_and_half_close_at_once(gateway, token, origins, size):
    """More than is collected, whole, and then nothing further: not a request broken off."""
    wire = gateway.connect()
    fields = f"Content-Length: {size}\r\n"
    wire.send(absolute(token, path="/up/x", host="upload.test", method="POST", fields=fields).encode() + bytes(size))
    wire.half_close()
    assert wire.response().status == 200
    assert len(origins[1].requests[0].body) == size


def test_who_does_not_read_answers_is_asked_nothing_further(gateway):
    wire = small_window(gateway)
    wire.socket.settimeout(2)
    with pytest.raises(TimeoutError):
        for _ in range(400):
            wire.send(b"GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n" * 1000)
    wire.close()


def test_pipelined_answers_all_arrive_after_a_pause(gateway, token, origins):
    """Each is larger than a piece, so that back-pressure comes and goes inside and between them."""
    with scripted(origins[1], sized):
        wire = small_window(gateway)
        wire.send(absolute(token, path="/pkg/60000") * 120)
        time.sleep(1.5)
        for _ in range(120):
            assert len(wire.response().body) == 60000


def test_a_head_in_drops_has_one_deadline(tmp_path, pki, origins):
    """Each drop comes well within the time that a head may take; a deadline that begins anew with each would never end it."""
    g = Gateway(tmp_path / "state", services(origins[0].port, origins[1].port, pki[0]), extra="limits: {header-time: 1s}")
    g.start()
    try:
        wire = g.connect()
        wire.socket.settimeout(0.2)
        wire.send(b"GET http://registry.test/ HTTP/1.1\r\nX: ")
        for _ in range(5 * PATIENCE):
            try:
                wire.send(b"x")
                wire.more()
                break
            except TimeoutError:
                pass
        assert b" 408 " in wire.buffer
    finally:
        assert g.stop() == 0


# ---- services that break


def test_request_of_which_nothing_is_left_is_not_sent_again(gateway, token, origins):
    wire = gateway.tunnel("upload.test", token)
    wire.send(post(b"a", method="PUT"))
    assert wire.response().status == 200
    with scripted(origins[0], lambda r: None):
        whole = post(bytes(5000), method="PUT")
        wire.send(whole[:2000])
        wait_until(lambda: len(origins[0].requests) == 2, "the head at the service")
        wire.send(whole[2000:])
        assert wire.response().status == 502
    assert [len(r.body or b"") for r in origins[0].requests] == [1, 5000]


def test_whole_request_is_sent_again_once(gateway, token, origins):
    wire = gateway.tunnel("upload.test", token)
    wire.send(post(b"a", method="PUT"))
    assert wire.response().status == 200
    answers = [None, b"HTTP/1.1 201 X\r\nContent-Length: 0\r\n\r\n"]
    with scripted(origins[0], lambda r: answers.pop(0)):
        wire.send(post(b"once more", method="PUT"))
        assert wire.response().status == 201
    assert [r.body for r in origins[0].requests] == [b"a", b"once more", b"once more"]


def test_post_is_never_sent_again(gateway, token, origins):
    wire = gateway.tunnel("upload.test", token)
    wire.send(post(b"a"))
    assert wire.response().status == 200
    with scripted(origins[0], lambda r: None):
        wire.send(post(b"pay"))
        assert wire.response().status == 502
    assert [r.body for r in origins[0].requests] == [b"a", b"pay"]


def cut_after(size):
    def script(request):
        yield b"HTTP/1.1 200 OK\r\n\r\n"
        yield bytes(size)
        raise OSError("cut")
    return script


def test_a_cut_is_no_end_even_for_a_slow_reader(gateway, token, origins, monkeypatch):
    """TLS without close_notify, a response without a length: the client must not think it has all."""
    monkeypatch.setattr(ssl.SSLSocket, "unwrap", lambda s: (_ for _ in ()).throw(OSError("no close_notify")))
    with scripted(origins[0], cut_after(1 << 10)):
        for size in range(2600000, 3400000, 50000):
            origins[0].script = cut_after(size)
            plain = small_window(gateway)
            plain.send(f"CONNECT registry.test:443 HTTP/1.1\r\nHost: registry.test:443\r\n"
                       f"Proxy-Authorization: Bearer {token}\r\n\r\n")
            plain.until(b"\r\n\r\n")
            wire = plain.start_tls("registry.test", gateway.root)
            wire.send(get(fields="Connection: close\r\n"))
            time.sleep(0.1)
            with pytest.raises(Closed):
                wire.response()
            wire.close()


# ---- limits and leaks


def test_no_byte_over_the_limit_goes_out_in_chunks(gateway, token, origins):
    wire = gateway.tunnel("upload.test", token)
    try:
        wire.send(b"POST /up/x HTTP/1.1\r\nHost: upload.test\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(10):
            wire.send(b"%x\r\n%s\r\n" % (1 << 20, bytes(1 << 20)))
        wire.send(b"0\r\n\r\n")
    except OSError:
        pass
    try:
        assert wire.response().reason == "body_too_large"
    except Closed:
        pass
    wait_until(lambda: gateway.records(kind="result", reason="body_too_large"), "the result")
    assert sum(map(len, origins[0].raw)) <= (8 << 20) + 4096
    assert not origins[0].requests[0].complete


@pytest.mark.parametrize("trailer", ["X-Api-Key: secret", "X-Forwarded-For: 10.0.0.1", "Keep-Alive: 1"])
def test_a_trailer_is_no_way_round_what_a_field_may_be(gateway, token, origins, trailer):
    wire = gateway.tunnel("upload.test", token)
    wire.send("POST /up/x HTTP/1.1\r\nHost: upload.test\r\nTransfer-Encoding: chunked\r\n\r\n"
              f"3\r\nabc\r\n0\r\n{trailer}\r\nX-Sum: 1\r\n\r\n")
    assert wire.response().status == 200
    assert origins[0].requests[0].raw.endswith(b"0\r\nX-Sum: 1\r\n\r\n")


@pytest.mark.parametrize("target,fields", [
    ("http://registry.test/private/{}", ""),
    ("http://registry.test/private?{}=1", ""),
    ("http://{}.other.test/", ""),
    ("http://registry.test/private/{percent}", ""),
    ("http://registry.test/private", "User-Agent: {}\r\n"),
    ("http://registry.test/pkg/a", "X-Forwarded-{}: 1\r\n"),
])
def test_no_record_repeats_a_secret_that_was_refused_before_the_scan(gateway, token, canary, target, fields):
    percent = "".join("%%%02x" % ord(c) for c in canary)
    target, fields = (t.replace("{percent}", percent).replace("{}", canary) for t in (target, fields))
    host = target.split("/")[2]
    wire = gateway.connect()
    wire.send(f"GET {target} HTTP/1.1\r\nHost: {host}\r\nProxy-Authorization: Bearer {token}\r\n{fields}\r\n")
    wire.response()
    wire.send(absolute(token, path="/pkg/after"))
    wire.response()
    wait_until(lambda: "/pkg/after" in journal_text(gateway), "the next record")
    assert canary.lower() not in journal_text(gateway).lower()
    assert canary not in gateway.output().decode()


@pytest.mark.parametrize("target,fields,reason", [
    ("http://registry.test/private/{}", "", "path_not_allowed"),
    ("http://registry.test/pkg/{}", "", "token_leak"),
    ("http://registry.test/pkg/a?{}=1", "", "token_leak"),
    ("http://registry.test/pkg/a", "User-Agent: {}\r\n", "token_leak"),
    ("http://registry.test/pkg/a", "X-{}: 1\r\n", "token_leak"),
    ("http://registry.test/pkg/a", "Authorization: Bearer {}\r\n", "credential_foreign"),
])
def test_no_record_repeats_a_leave_token(gateway, token, target, fields, reason):
    """Nor its signature alone, which with the claims of any record would be the token again."""
    wire = gateway.connect()
    wire.send(f"GET {target.replace('{}', token)} HTTP/1.1\r\nHost: registry.test\r\nProxy-Authorization: Bearer {token}\r\n"
              f"{fields.replace('{}', token)}\r\n")
    answer = wire.response()
    assert answer.reason == reason
    short = answer.line.rsplit(" ", 1)[1]
    wait_until(lambda: short in journal_text(gateway), "its record")
    for text in (journal_text(gateway), gateway.output().decode(), answer.body.decode()):
        assert token.rsplit(".", 1)[1] not in text


# ---- authority that ends


def test_revocation_cuts_a_plain_exchange_in_flight(gateway, origins):
    pieces, said = 10 * PATIENCE, []

    def script(request):
        yield b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"
        for _ in range(pieces):
            yield bytes(10)
            said.append(1)
            time.sleep(0.1)

    with scripted(origins[1], script):
        wire = gateway.connect()
        wire.send(absolute(gateway.token(BOTH, sandbox="doomed")))
        wire.until(b"\r\n\r\n")
        exeat("token", "revoke", "--sandbox", "doomed", config=gateway.config)
        wire.rest()
        assert len(said) < pieces, "cut while the service still spoke"
    assert gateway.wait_for(kind="connection", reason="token_revoked", sandbox="doomed")


def test_a_revocation_is_recorded_even_after_the_scribe_came_back(gateway):
    for name in "first", "second":
        exeat("token", "revoke", "--sandbox", name, config=gateway.config)
        wait_until(lambda: [r for r in gateway.records(kind="revocation") if r["revocation"]["value"] == name], name)
        old = gateway.pids("scribe")
        os.kill(old[0], signal.SIGKILL)
        wait_until(lambda: gateway.pids("scribe") not in ([], old), "a new scribe")
    assert gateway.verify()


def test_a_scribe_that_hangs_holds_nobody_for_ever(gateway, token, origins):
    scribe = gateway.pids("scribe")[0]
    os.kill(scribe, signal.SIGSTOP)
    try:
        wire = gateway.connect()
        wire.send(absolute(token, path="/pkg/unwritten"))
        answer = wire.response()
        assert (answer.status, answer.reason) == (503, "record_unavailable")
    finally:
        os.kill(scribe, signal.SIGCONT)
    wire = gateway.connect()
    wire.send(absolute(token, path="/pkg/later"))
    assert wire.response().status == 200
    assert [r.target for r in origins[1].requests] == ["/pkg/later"]
    assert gateway.verify()


def test_a_flood_of_connections_costs_the_others_nothing_but_time(tmp_path, pki, origins):
    """More clients than descriptors: who came first is served, and the channel to the porter survives."""
    directory = tmp_path / "state"
    g = Gateway(directory, services(origins[0].port, origins[1].port, pki[0]), extra="limits: {upstream-idle-total: 8, header-time: 60s}")
    g.start(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (400, 400)))
    try:
        tokens = [g.token(BOTH, sandbox=f"sb-{i}") for i in range(3)]  # each has a share of a quarter
        first = g.connect()
        flood = [g.connect() for _ in range(500)]
        first.send(absolute(tokens[0], path="/pkg/first"))
        assert first.response().status == 200
        for i, wire in enumerate(flood):
            wire.send(absolute(tokens[i % 3], path="/pkg/flood"))
        served = sum(wire.response().status == 200 for wire in flood[:100])
        assert served == 100
        for wire in flood:
            wire.close()
        last = g.connect()
        last.send(absolute(g.token(BOTH, sandbox="sb-last"), path="/pkg/last"))
        assert last.response().status == 200
    finally:
        status = g.stop()
        print(g.output().decode()[-2000:])
    assert status == 0
