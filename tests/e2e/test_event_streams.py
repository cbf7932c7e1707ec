"""
Streams of events (text/event-stream and its like): each event arrives when it is sent, the stream is not cut while it stands
still, what is in it is looked at, and who goes is gone.
"""
import contextlib
import itertools
import json
import signal
import subprocess
import time

import pytest

from conftest import BOTH
from frames import Service
from gateway import PATIENCE, Closed, Gateway, clean_environment, exeat, wait_until

SERVICE = """
  {name}-{kind}:
    hosts: [{name}.test]
    {ports}: [{port}]
    addresses: ["127.0.0.1:{origin}"]
    allow: ["GET /pkg/**"]
    scope: registry:read
    audit: "waived: test"
    {more}
"""
SECRET = "s3cr3t-of-the-gateway-0123456789"


@pytest.fixture(scope="module")
def service():
    s = Service()
    s.answer = None
    yield s
    s.close()


@pytest.fixture(scope="module")
def service_tls(pki):
    s = Service(pki[1], pki[2])
    s.answer = None
    yield s
    s.close()


@pytest.fixture
def own(tmp_path, pki, service, service_tls):
    started = []

    def start(limits="", more=""):
        directory = tmp_path / f"own{len(started)}"
        services = SERVICE.format(name="registry", kind="plain", ports="plain-ports", port=80, origin=service.port, more=more)
        services += SERVICE.format(name="registry", kind="tls", ports="ports", port=443, origin=service_tls.port, more=f"ca-file: {pki[0]}")
        g = Gateway(directory, services, extra=f"limits: {{{limits}}}" if limits else "")
        (directory / "secret").write_text(SECRET)
        (directory / "secret").chmod(0o600)
        started.append(g.start())
        return g

    yield start
    for g in started:
        assert g.stop() == 0, g.output().decode()


@pytest.fixture(scope="module")
def gateway(tmp_path_factory, pki, service, service_tls):
    services = SERVICE.format(name="registry", kind="plain", ports="plain-ports", port=80, origin=service.port, more="")
    services += SERVICE.format(name="registry", kind="tls", ports="ports", port=443, origin=service_tls.port, more=f"ca-file: {pki[0]}")
    g = Gateway(tmp_path_factory.mktemp("sse") / "state", services).start()
    yield g
    assert g.stop() == 0, g.output().decode()


serial = itertools.count()


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


class Stream:
    """A request whose answer goes on for as long as the test likes."""

    def __init__(self, g, service, type="text/event-stream", framing="Transfer-Encoding: chunked", fields="", sandbox=None, inside=None, lifetime="10m"):
        # Each a sandbox of its own: none is given a connection that another left in the pool, where nobody listens.
        token = g.token(BOTH, sandbox=sandbox or f"sb-{next(serial)}", lifetime=lifetime)
        if inside:
            self.wire = g.tunnel("registry.test", token)
            self.wire.send(f"GET /pkg/events HTTP/1.1\r\nHost: registry.test\r\n{fields}\r\n")
        else:
            self.wire = g.connect()
            self.wire.send(f"GET http://registry.test/pkg/events HTTP/1.1\r\nHost: registry.test\r\nProxy-Authorization: Bearer {token}\r\n{fields}\r\n")
        self.there, self.gateway, self.chunked = service.next().wire, g, "chunked" in framing
        self.asked = service.heads[-1].decode()
        self.there.send(f"HTTP/1.1 200 OK\r\nContent-Type: {type}\r\n{framing}\r\n\r\n")
        self.head = self.wire.until(b"\r\n\r\n").decode()
        self.id = g.wait_for(kind="decision", action="allow")[-1]["id"]

    def say(self, data):
        self.there.send(chunk(data) if self.chunked else data)

    def hears(self, data):
        got = b""
        while len(got) < len(data):
            size = int(self.wire.until(b"\r\n"), 16)
            assert size
            got += self.wire.exactly(size)
            assert self.wire.exactly(2) == b"\r\n"
        assert got == data

    def passes(self, data):
        self.say(data)
        self.hears(data)

    def result(self):
        return wait_until(lambda: [r for r in self.gateway.records(kind="result") if r["id"] == self.id], "its result")[0]

    def findings(self):
        return [f for f in self.gateway.records(kind="finding") if f["id"] == self.id]


@pytest.mark.parametrize("inside", [None, "tls"])
def test_each_event_arrives_before_the_next_is_sent(gateway, service, service_tls, inside):
    s = Stream(gateway, service_tls if inside else service, inside=inside)
    for i in range(50):
        s.passes(b"id: %d\ndata: event %d\n\n" % (i, i))
    s.passes(b": a comment\n\n")
    s.passes(b"data: half of ")  # an event in pieces does not wait either
    s.passes(b"an event\n\n")
    s.there.send(b"0\r\n\r\n")
    assert s.wire.until(b"\r\n") == b"0"
    assert s.result()["outcome"] == "complete"


def test_one_that_lasts_until_the_close(gateway, service):
    s = Stream(gateway, service, framing="Connection: close")
    s.passes(b"data: 1\n\n")
    s.passes(b"data: 2\n\n")
    s.there.close()
    assert s.wire.until(b"\r\n") == b"0"


def test_last_event_id_passes(gateway, service):
    s = Stream(gateway, service, fields="Last-Event-ID: 42\r\nAccept: text/event-stream\r\n")
    assert "Last-Event-ID: 42\r\n" in s.asked and "Accept: text/event-stream\r\n" in s.asked
    s.wire.close()


IDLE = "body-time: 500ms, response-time: 500ms, idle-time: 500ms"


@pytest.mark.parametrize("type", ["text/event-stream", "text/event-stream; charset=utf-8", "Text/Event-Stream", "application/x-ndjson", "application/json-seq"])
def test_it_may_stand_still_longer_than_a_body(own, service, type):
    s = Stream(own(IDLE), service, type=type)
    s.passes(b"data: 1\n\n")
    time.sleep(1.5)
    s.passes(b"data: 2\n\n")
    s.wire.close()


@pytest.mark.parametrize("type, framing", [("text/plain", "Transfer-Encoding: chunked"), ("text/event-stream", "Content-Length: 1000")])
def test_any_other_body_may_not(own, service, type, framing):
    s = Stream(own(IDLE), service, type=type, framing=framing)
    s.say(b"data: 1\n\n")
    assert s.wire.is_closed()
    assert s.result()["reason"] == "upstream_timeout"


def test_its_own_limit_ends_it_and_it_is_no_end_for_the_client(own, service):
    s = Stream(own("event-stream-idle: 1s"), service)
    began = time.monotonic()
    s.passes(b"data: 1\n\n")
    assert b"0\r\n" not in s.wire.rest()
    assert time.monotonic() - began > 0.9
    assert s.there.is_closed()
    result = s.result()
    assert (result["outcome"], result["reason"]) == ("cut", "stream_idle")


@pytest.mark.parametrize("how", ["close", "half close"])
def test_a_client_that_goes_is_gone_for_the_service_at_once(gateway, service, how):
    """Though nothing is said: an end may be noticed by a write alone, and there may be none for an hour."""
    s = Stream(gateway, service)
    s.passes(b"data: 1\n\n")
    if how == "close":
        s.wire.close()
    else:
        s.wire.half_close()
    assert s.there.is_closed()
    assert s.result()["reason"] == "client_closed"


def test_a_client_that_does_not_read_is_cut(own, service):
    s = Stream(own("body-time: 1s, body-rate: 1m"), service)
    s.there.socket.settimeout(PATIENCE)
    with pytest.raises(OSError):
        while True:
            s.say(b"data: " + bytes(60000) + b"\n\n")
    assert s.result()["reason"] == "client_timeout"


def test_the_token_ends(own, service):
    s = Stream(own("overrun: 1s"), service, lifetime="2s")
    with pytest.raises((Closed, ValueError)):
        while True:
            s.passes(b"data: tick\n\n")
            time.sleep(0.05)
    assert s.result()["reason"] == "token_expired"


def test_revoked_it_is_cut_at_once(gateway, service):
    s = Stream(gateway, service, sandbox="sb-revoked")
    s.passes(b"data: 1\n\n")
    exeat("token", "revoke", "--sandbox", "sb-revoked", config=gateway.config)
    assert s.wire.is_closed() and s.there.is_closed()
    assert s.result()["reason"] == "token_revoked"


def test_a_gateway_that_stops_does_not_wait_for_it(own, service):
    g = own()
    s = Stream(g, service)
    s.passes(b"data: 1\n\n")
    g.process.send_signal(signal.SIGTERM)
    assert s.wire.is_closed() and s.there.is_closed()
    assert g.process.wait(PATIENCE) == 0
    assert b"did not end in" not in g.output()
    assert s.result()["reason"] == "gateway_stopping"


# ---- what is looked for


def test_a_canary_over_two_events_chunks_accuses_the_service(gateway, service):
    canary = json.loads((gateway.directory / "canaries.json").read_text())["canaries"][0]["value"].encode()
    s = Stream(gateway, service)
    s.passes(b"data: " + canary[:10])
    assert not s.findings()
    s.passes(canary[10:] + b"\n\n")
    finding = wait_until(s.findings, "the finding")[0]
    assert (finding["reason"], finding["canary"]["place"]) == ("canary_response", "response body")
    s.passes(b"data: goes on\n\n")
    s.wire.close()


INJECT = 'inject-plain: accepted\n    shared-identity: accepted\n    credential: {from: "file:secret"}'


@pytest.fixture
def injecting(own):
    return own(more=INJECT)


def test_where_a_credential_is_looked_for_an_event_does_not_wait_for_the_next(injecting, service):
    """What might be its front is held back, but not over the end of an event."""
    s = Stream(injecting, service)
    assert f"Bearer {SECRET}" in s.asked and "Accept-Encoding: identity" in s.asked
    for i in range(20):
        s.passes(b"data: event %d\n\n" % i)
    s.passes(b"data: with other ends\r\n\r\n")
    s.passes(b"data: and others\r\r")
    s.wire.close()


@pytest.mark.parametrize("pieces", [(SECRET.encode(),), (SECRET.encode()[:14], SECRET.encode()[14:])], ids=["one chunk", "two chunks"])
def test_the_credential_does_not_come_back(injecting, service, pieces):
    s = Stream(injecting, service)
    s.passes(b"data: clean\n\n")
    for piece in pieces:
        s.say(b"data: " * (piece is pieces[0]) + piece)
    with contextlib.suppress(OSError):  # it may be gone already
        s.say(b"\n\n")
    rest = s.wire.rest()
    assert SECRET[:8].encode() not in rest and b"\r\n0\r\n" not in rest
    assert s.there.is_closed()
    assert wait_until(s.findings, "the finding")[0]["reason"] == "credential_reflected"
    assert s.result()["reason"] == "credential_reflected"


# ---- a real client


def test_curl_shows_each_event_as_it_comes(gateway, service_tls):
    token = gateway.token(BOTH, sandbox="sb-curl")
    curl = subprocess.Popen(["curl", "-sN", "--proxy", gateway.proxy_url(token), "--cacert", gateway.root, "https://registry.test/pkg/events"],
                            stdout=subprocess.PIPE, env=clean_environment())
    there = service_tls.next().wire
    there.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
    for i in range(20):
        there.send(chunk(b"data: %d\n\n" % i))
        assert curl.stdout.readline() == b"data: %d\n" % i
        assert curl.stdout.readline() == b"\n"
    curl.terminate()
    curl.wait(PATIENCE)
    assert there.is_closed()
    result = gateway.wait_for(kind="result", sandbox="sb-curl", outcome="cut")[-1]
    assert result["reason"] == "client_closed"
