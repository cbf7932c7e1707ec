"""
`exeat audit` on what is no proper service: it stalls, dribbles, floods, redirects for ever, speaks something else, closes, changes its mind. The
audit ends, says why, and never says `pass` of a service that did not answer.
"""
import concurrent.futures
import itertools
import json
import os
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest

from upstream import reply
from world import SERVICE, World

TREE = Path(__file__).resolve().parents[2]
EXEAT = Path(os.environ.get("EXEAT", TREE / "build" / "exeat")).absolute()
PORT = 8090
PATIENCE = 150  # seconds for an audit that has every reason to give up

MANIFEST = """\
owner: {{ name: the lab, statement: A service of the test's own. }}
reach: {{ timeout: 1s }}
listener: {{ addresses: [127.0.0.21, 127.0.0.22], ports: [80, 8080], outside: unlisted.test, inside: internal.test }}
services:
  it:
    url: http://{service}:{port}
    protected: [/secret]
    credential: {{ from: "file:token", as: bearer }}
    write: "/w/{{nonce}}"
"""


def head(wire):
    """The request's head; empty at the end."""
    data = b""
    while b"\r\n\r\n" not in data and (more := wire.recv(65536)):
        data += more
    return data


def say(wire, *parts, pause=0.0):
    for part in parts:
        wire.sendall(part)
        time.sleep(pause)


# ---- what is done with a connection; the connection is closed afterwards

def stalls(wire, _):
    head(wire)
    wire.recv(1)


def stalls_in_the_head(wire, _):
    head(wire)
    say(wire, b"HTTP/1.1 200 OK\r\nContent-Le")
    wire.recv(1)


def stalls_in_the_body(wire, _):
    head(wire)
    say(wire, b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf")
    wire.recv(1)


def dribbles(wire, _):
    head(wire)
    say(wire, b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", *[b"x"] * 1000, pause=0.1)


def floods_fields(wire, _):
    head(wire)
    say(wire, b"HTTP/1.1 200 OK\r\n", *(b"X-%d: %s\r\n" % (i, b"y" * 1000) for i in range(20000)))


def floods_content(wire, _):
    head(wire)
    say(wire, b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", *[b"z" * 65536] * 4000)


def says_continue_for_ever(wire, _):
    head(wire)
    say(wire, *[b"HTTP/1.1 100 Continue\r\n\r\n"] * 20000, pause=0.001)


def bad_chunks(wire, _):
    head(wire)
    say(wire, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\nx\r\n")


def greets_as_ssh(wire, _):
    say(wire, b"SSH-2.0-OpenSSH_9.2p1\r\n")
    wire.recv(1)


def greets_as_mail(wire, _):
    say(wire, b"220 mail.test ESMTP\r\n")
    head(wire)
    say(wire, b"500 5.5.2 what?\r\n")


def noise(wire, _):
    head(wire)
    say(wire, bytes(range(256)) * 16)


def closes(wire, _):
    pass


def closes_after_the_head(wire, _):
    head(wire)


def redirects_for_ever(wire, n):
    head(wire)
    say(wire, reply("302 Found", b"", Location=f"/{n}", Connection="close"))


def refuses_then_opens(wire, n):
    """A service that is changed while it is audited."""
    asked = head(wire)
    known = b"token-0123456789" in asked
    say(wire, reply("200 OK", b"the secret\n", Connection="close") if known or n > 60 else
        reply("401 Unauthorized", b"", WWW_Authenticate='Bearer realm="x"', Connection="close"))


def dies_midway(wire, n):
    asked = head(wire)
    if n < 60:
        known = b"token-0123456789" in asked
        say(wire, reply("200 OK" if known else "401 Unauthorized", b"", WWW_Authenticate='Bearer realm="x"', Connection="close"))
    else:
        wire.recv(1)


def refuses_unread(wire, _):
    """It does not wait for the content that it does not take: the connection is reset behind its answer."""
    data = b""
    while not data.endswith(b"\r\n\r\n") and (more := wire.recv(1)):
        data += more
    known = b"token-0123456789" in data and data.startswith(b"GET /secret ")
    status = "200 OK" if known else "401 Unauthorized"
    say(wire, f"HTTP/1.0 {status}\r\nWWW-Authenticate: Bearer\r\n\r\n".encode() + b"as it was said\n" * 50)


def takes_unread(wire, n):
    """The same with an answer that says it was taken, and breaks off."""
    data = b""
    while not data.endswith(b"\r\n\r\n") and (more := wire.recv(1)):
        data += more
    if data.startswith(b"GET "):
        say(wire, reply("401 Unauthorized", b"", WWW_Authenticate="Bearer", Connection="close"))
    else:
        say(wire, b"HTTP/1.1 201 Created\r\nContent-Length: 1000\r\n\r\nhalf")


SILENT = [stalls, stalls_in_the_head, stalls_in_the_body, dribbles, floods_fields, says_continue_for_ever, bad_chunks, greets_as_ssh,
          greets_as_mail, noise, closes, closes_after_the_head]
ANSWERING = [floods_content, redirects_for_ever, refuses_then_opens, dies_midway, takes_unread]


class Bad:
    def __init__(self, directory, act):
        self.world, self.act = World(directory), act
        self.listener, self.numbers = self.world.listen(SERVICE, PORT), itertools.count(1)
        threading.Thread(target=self.accept, daemon=True).start()
        path = self.world.directory / "token"
        path.touch(0o600)
        path.write_text("token-0123456789")
        self.manifest = self.world.directory / "manifest.yaml"
        self.manifest.write_text(MANIFEST.format(service=SERVICE, port=PORT))

    def accept(self):
        while True:
            try:
                wire, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(wire, next(self.numbers)), daemon=True).start()

    def serve(self, wire, n):
        with wire:
            wire.settimeout(30)
            try:
                self.act(wire, n)
            except OSError:
                pass

    def audit(self, *more):
        command = self.world.enter(EXEAT, "audit", "it", "-m", self.manifest, "--format", "json", "--active", "--beacon", "--rate", "100", *more)
        return subprocess.run(command, pass_fds=[self.world.namespace], capture_output=True, text=True, timeout=PATIENCE)

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.world.close()


@pytest.fixture
def bad(tmp_path, request):
    made = Bad(tmp_path / "bad", request.param)
    yield made
    made.close()


def audit_of(directory, act):
    made = Bad(directory / act.__name__, act)
    try:
        return made.audit()
    finally:
        made.close()


@pytest.fixture(scope="module")
def audits(tmp_path_factory):
    """One of each, some side by side: they wait most of their time. """
    directory = tmp_path_factory.mktemp("bad")
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        running = {act: pool.submit(audit_of, directory, act) for act in SILENT + ANSWERING + [refuses_unread]}
        yield lambda act: running[act].result()
        for future in running.values():
            future.cancel()


def verdicts(done):
    return {c["check"]: c for c in json.loads(done.stdout)["checks"]}


@pytest.mark.parametrize("act", SILENT, ids=lambda act: act.__name__)
def test_silence_is_no_pass(audits, act):
    done = audits(act)
    assert done.returncode in (1, 3), done.stderr
    if done.returncode == 3:
        assert done.stderr.startswith("exeat: error: audit:"), done.stderr
        return
    found = verdicts(done)
    passed = {c: v["note"] for c, v in found.items() if v["verdict"] in ("pass", "open")}
    assert not json.loads(done.stdout)["passing"]
    assert not passed, passed
    assert all(v["note"] for v in found.values())


@pytest.mark.parametrize("act", ANSWERING, ids=lambda act: act.__name__)
def test_an_odd_service_does_not_pass(audits, act):
    done = audits(act)
    assert done.returncode == 1, done.stderr
    found = verdicts(done)
    assert not json.loads(done.stdout)["passing"]
    assert found["AN-1"]["verdict"] != "pass" or any(v["verdict"] in ("inconclusive", "not-run") and v["severity"] == "critical" for v in found.values())
    assert all(v["note"] for v in found.values())


@pytest.mark.parametrize("act", [refuses_then_opens, dies_midway], ids=lambda act: act.__name__)
def test_what_changed_meanwhile_is_said(audits, act):
    notes = [v["note"] for v in verdicts(audits(act)).values() if v["verdict"] == "inconclusive"]
    assert any(word in note for note in notes for word in ("differently", "stopped answering", "no longer", "in time", "no answer")), notes


def test_a_refusal_that_did_not_wait_for_the_content_is_one(audits):
    found = verdicts(audits(refuses_unread))
    assert {c: found[c]["verdict"] for c in ("AN-1", "AN-3", "AN-4", "UP-1", "UP-4", "PW-1")} == dict.fromkeys(("AN-1", "AN-3", "AN-4", "UP-1", "UP-4", "PW-1"), "pass")


def test_a_write_that_was_taken_and_broke_off_is_no_pass(audits):
    found = verdicts(audits(takes_unread))
    assert not [c for c in ("AN-3", "PW-1") if found[c]["verdict"] == "pass"]


@pytest.mark.parametrize("bad", [closes], indirect=True, ids=["nobody"])
def test_nobody_is_there(bad):
    bad.listener.shutdown(socket.SHUT_RDWR)
    bad.listener.close()
    bad.listener = socket.socket()
    bad.listener.bind(("127.0.0.1", 0))
    bad.listener.listen()
    done = bad.audit()
    assert done.returncode == 3 and done.stderr.startswith("exeat: error: audit:"), (done.returncode, done.stderr)


# ---- a manifest that names what it may not

REFUSED = [
    ("an address out of range", "url: http://127.0.0.1:8090", "url: http://10.1.2.3:80"),
    ("cloud metadata", "url: http://127.0.0.1:8090", "url: http://169.254.169.254"),
    ("a listener out of range", "addresses: [127.0.0.21, 127.0.0.22]", "addresses: [192.0.2.1]"),
    ("no owner", "owner: { name: the lab, statement: A service of the test's own. }", "owner: { name: the lab }"),
    ("a credential that others can read", 'from: "file:token"', 'from: "file:open"'),
]


@pytest.mark.parametrize("bad", [stalls], indirect=True, ids=[""])
@pytest.mark.parametrize("name, old, new", REFUSED, ids=[r[0].replace(" ", "-") for r in REFUSED])
def test_refused_before_a_packet(bad, name, old, new):
    (bad.world.directory / "open").write_text("token")
    (bad.world.directory / "open").chmod(0o644)
    text = bad.manifest.read_text()
    assert old in text
    bad.manifest.write_text(text.replace(old, new))
    done = bad.audit()
    assert done.returncode == 2, (done.returncode, done.stderr, done.stdout[:300])
    assert next(bad.numbers) == 1, "somebody was asked"
