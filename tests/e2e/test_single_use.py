"""Tokens for one use (issuers.NAME.single-use): one request, or one tunnel with all that goes through it."""
import os
import signal
import threading

import pytest

from conftest import BOTH, services
from gateway import PATIENCE, Gateway, connect_head, exeat, wait_until
from load import ask, ready

N_WORKERS = 2


@pytest.fixture
def own(tmp_path, pki, origins):
    g = Gateway(tmp_path / "state", services(origins[0].port, origins[1].port, pki[0]), workers=N_WORKERS)
    text = g.config.read_text().replace("leeway: 0s", "leeway: 0s, single-use: true")
    g.config.write_text(text.replace("listen:\n", 'listen:\n  elsewhere: {address: "127.0.0.1:0"}\n', 1))
    g.start()
    yield g
    if g.process.poll() is None:
        assert g.stop() == 0, g.output().decode()[-4000:]


def outcome(g, token):
    answer = ask(g, "/pkg/once", token)
    return answer.status, answer.reason


def test_it_is_good_once_on_all_workers(own, origins):
    for _ in range(4):
        token = own.token(BOTH)
        assert outcome(own, token) == (200, None)
        for _ in range(8):
            assert outcome(own, token) == (407, "token_spent")
    assert len(origins[1].requests) == 4
    assert own.wait_for(kind="decision", action="deny", reason="token_spent")


def test_of_many_at_once_one_gets_through(own, origins):
    token, seen, at_once = own.token(BOTH), [], threading.Barrier(16)

    def run():
        at_once.wait(PATIENCE)
        seen.append(outcome(own, token))

    threads = [threading.Thread(target=run) for _ in range(16)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(PATIENCE)
    assert sorted(seen, key=str) == [(200, None)] + [(407, "token_spent")] * 15
    assert len(origins[1].requests) == 1


def test_a_tunnel_is_one_use_and_all_in_it_goes_through(own):
    token = own.token(BOTH)
    wire = own.tunnel("registry.test", token)
    for _ in range(3):
        wire.send("GET /pkg/in HTTP/1.1\r\nHost: registry.test\r\n\r\n")
        assert wire.response().status == 200
    # apt repeats the CONNECT's token on inner requests
    wire.send(f"GET /pkg/in HTTP/1.1\r\nHost: registry.test\r\nProxy-Authorization: Bearer {token}\r\n\r\n")
    assert wire.response().status == 200
    again = own.connect()
    again.send(connect_head("registry.test", token))
    assert again.response(method="CONNECT").reason == "token_spent"


def test_it_stays_used_after_a_crash_and_a_restart(own):
    token, fresh = own.token(BOTH), own.token(BOTH)
    assert outcome(own, token) == (200, None)
    old = own.pids("worker")
    for pid in old:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: len(set(own.pids("worker")) - set(old)) == N_WORKERS, "new workers")
    ready(own)
    assert outcome(own, token) == (407, "token_spent")
    own.process.kill()
    own.process.wait(PATIENCE)
    wait_until(lambda: not own.pids("worker"), "the roles to end")
    (own.directory / "log").unlink()
    own.start()
    assert outcome(own, token) == (407, "token_spent")
    assert outcome(own, fresh) == (200, None)


def test_what_is_refused_for_another_reason_is_not_used_up(own):
    token = own.token(BOTH, listener="elsewhere")
    assert outcome(own, token) == (407, "token_binding")
    token = own.token(BOTH, sandbox="vm1")
    exeat("quarantine", "add", "vm1", config=own.config)
    assert outcome(own, token) == (403, "sandbox_quarantined")
    exeat("quarantine", "release", "vm1", config=own.config)
    assert outcome(own, token) == (200, None)


def test_to_look_at_it_does_not_use_it_up(own):
    token, kept = own.token(BOTH), own.directory / "t.jwt"
    kept.touch(0o600)
    kept.write_text(token)
    for _ in range(2):
        exeat("token", "inspect", config=own.config, stdin=token)
        exeat("explain", "--token-file", kept, "GET", "http://registry.test/pkg/x", config=own.config)
    assert outcome(own, token) == (200, None)


def test_a_file_of_spent_tokens_that_is_none_stops_the_start(own):
    assert own.stop() == 0
    (own.directory / "log").unlink()
    (own.directory / "spent").write_text("precious")
    with pytest.raises(AssertionError, match="not a file of spent tokens"):
        own.start()
