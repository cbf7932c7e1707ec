"""Quarantine: nothing of a sandbox goes out, at once, on all workers, until it is released."""
import json
import os
import signal
import threading
import time

import pytest

from conftest import BOTH, services
from gateway import PATIENCE, Closed, Gateway, exeat, wait_until
from load import ready, request
from origin import ok

N_WORKERS = 2


@pytest.fixture
def own(tmp_path, pki, origins):
    g = Gateway(tmp_path / "state", services(origins[0].port, origins[1].port, pki[0]), workers=N_WORKERS).start()
    yield g
    if g.process.poll() is None:
        assert g.stop() == 0, g.output().decode()[-4000:]


def quarantine(g, *words, check=True):
    return exeat("quarantine", *words, config=g.config, check=check)


def ask(g, token, path="/pkg/x"):
    wire = g.connect()
    try:
        wire.send(request(path, token))
        return wire.response()
    finally:
        wire.close()


def listed(g):
    return [json.loads(line) for line in quarantine(g, "list", "--format", "json").stdout.splitlines()]


def restart(g):
    assert g.stop() == 0
    (g.directory / "log").unlink()
    g.start()


def canary(g):
    return json.loads((g.directory / "canaries.json").read_text())["canaries"][0]


def post(g, token, body):
    wire = g.connect()
    wire.send(f"POST http://upload.test/up/x HTTP/1.1\r\nHost: upload.test\r\nProxy-Authorization: Bearer {token}\r\n"
              f"Content-Length: {len(body)}\r\n\r\n{body}")
    answer = wire.response()
    wire.close()
    return answer


@pytest.fixture
def strict(tmp_path, pki, origins):
    g = Gateway(tmp_path / "state", services(origins[0].port, origins[1].port, pki[0]), workers=N_WORKERS)
    g.config.write_text(g.config.read_text().replace("canaries: {file: canaries.json}", "canaries: {file: canaries.json, on-leak: quarantine}"))
    g.start()
    yield g
    assert g.stop() == 0, g.output().decode()[-4000:]


def test_who_sends_a_canary_is_put_in_where_that_is_said(strict, origins):
    token, other = strict.token(BOTH, sandbox="bad"), strict.token(BOTH, sandbox="good")
    planted = canary(strict)
    assert post(strict, token, "nothing").status == 200 and listed(strict) == []
    try:  # quarantine cuts what is open at once, this connection with its answer on the way too
        answer = post(strict, token, planted["value"])
        assert (answer.status, answer.reason) == (403, "canary_leak")
    except Closed:
        pass
    assert strict.wait_for(kind="decision", reason="canary_leak", sandbox="bad")
    entry = wait_until(lambda: listed(strict), "the sandbox to be put in")[0]
    assert (entry["sandbox"], entry["by"], entry["why"]) == ("bad", "gateway", f"it sent canary {planted['id']}")
    assert all(ask(strict, token).reason == "sandbox_quarantined" for _ in range(12))
    assert ask(strict, other).status == 200
    record = strict.wait_for(kind="revocation", sandbox="bad")[0]
    assert record["by"] == "gateway" and record["revocation"]["key"] == "quarantine"
    assert planted["value"] not in json.dumps(strict.records())


def test_who_sends_one_without_a_good_token_accuses_nobody(strict, origins):
    expired = strict.token(BOTH, sandbox="victim", lifetime="1s")
    planted = canary(strict)["value"]
    head = f"POST http://upload.test/up/x HTTP/1.1\r\nHost: upload.test\r\nContent-Length: {len(planted)}\r\n"
    for line in ("", "Proxy-Authorization: Bearer x.y.z\r\n", f"Proxy-Authorization: Bearer {expired[:-6]}AAAAAA\r\n"):
        wire = strict.connect()
        wire.send(head + line + "\r\n" + planted)
        assert wire.response().status in (403, 407)
        wire.close()
    # What a service answers accuses the service, and a token in a wrong place is no planted secret.
    token = strict.token(BOTH, sandbox="good")
    origins[1].script = lambda request: ok(request).replace(b"Length: 2", b"Length: %d" % len(planted)).replace(b"ok", planted.encode())
    try:
        post(strict, token, "nothing")
    finally:
        origins[1].script = ok
    assert post(strict, token, token).reason == "token_leak"
    assert ask(strict, token).status == 200 and listed(strict) == []


def test_where_leaks_are_only_blocked_nobody_is_put_in(own):
    token = own.token(BOTH, sandbox="bad")
    assert post(own, token, canary(own)["value"]).reason == "canary_leak"
    assert ask(own, token).status == 200 and listed(own) == []


def test_new_requests_are_refused_on_all_workers_until_it_is_released(own):
    token, other = own.token(BOTH, sandbox="bad"), own.token(BOTH, sandbox="good")
    assert ask(own, token).status == 200
    said = quarantine(own, "add", "bad", "--why", "it sent a canary").stdout
    assert "in quarantine: bad" in said
    for _ in range(16):
        answer = ask(own, token)
        assert (answer.status, answer.reason) == (403, "sandbox_quarantined")
    assert ask(own, own.token(BOTH, sandbox="bad")).reason == "sandbox_quarantined"  # a fresh token mends nothing
    assert ask(own, other).status == 200
    assert "released: bad" in quarantine(own, "release", "bad").stdout
    assert all(ask(own, token).status == 200 for _ in range(8))


def test_open_exchanges_and_tunnels_are_cut_at_once(own, origins):
    go_on = threading.Event()

    def script(r):
        yield b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"
        while not go_on.wait(0.1):
            yield bytes(10)

    origins[1].script = script
    try:
        token = own.token(BOTH, sandbox="bad")
        busy, tunnel = own.connect(), own.tunnel("registry.test", token)
        bystander = own.tunnel("registry.test", own.token(BOTH, sandbox="good"))
        busy.send(request("/pkg/slow", token))
        busy.until(b"\r\n\r\n")
        quarantine(own, "add", "bad")
        begin = time.monotonic()
        busy.rest()
        assert tunnel.is_closed()
        assert time.monotonic() - begin < PATIENCE / 2
        bystander.send("GET /pkg/on HTTP/1.1\r\nHost: registry.test\r\n\r\n")
        assert bystander.response().status == 200
    finally:
        go_on.set()
        origins[1].script = ok
    assert own.wait_for(2, kind="connection", reason="sandbox_quarantined", sandbox="bad")
    assert not own.records(kind="connection", reason="sandbox_quarantined", sandbox="good")


def test_who_did_it_and_why_stands_in_list_status_and_journal(own):
    quarantine(own, "add", "vm1", "--why", "ticket 7")
    one = listed(own)[0]
    assert (one["schema"], one["sandbox"], one["by"], one["uid"], one["why"]) == \
        ("exeat.quarantine/1", "vm1", "admin", os.geteuid(), "ticket 7")
    assert "vm1" in quarantine(own, "list").stdout and "ticket 7" in quarantine(own, "list").stdout
    status = exeat("status", config=own.config).stdout
    assert "quarantine: sandbox vm1, since " in status and "ticket 7" in status
    assert json.loads(exeat("status", "--format", "json", config=own.config).stdout)["quarantined"][0]["sandbox"] == "vm1"
    quarantine(own, "release", "vm1")
    assert listed(own) == [] and "quarantine:" not in exeat("status", config=own.config).stdout
    put, out = own.wait_for(2, kind="revocation", sandbox="vm1")
    assert put["revocation"] == {"key": "quarantine", "value": "vm1"} and put["detail"] == "ticket 7"
    assert (put["by"], put["uid"]) == ("admin", os.geteuid())
    assert out["revocation"]["key"] == "release" and out["by"] == "admin"


def test_a_refusal_is_recorded_as_the_sandboxs(own):
    token = own.token(BOTH, sandbox="vm1")
    quarantine(own, "add", "vm1")
    assert ask(own, token).status == 403
    assert own.wait_for(kind="decision", action="deny", reason="sandbox_quarantined", sandbox="vm1")


def test_it_survives_a_restart_a_reload_and_a_worker(own):
    token = own.token(BOTH, sandbox="vm1")
    quarantine(own, "add", "vm1", "--why", "kept")
    exeat("reload", config=own.config)
    assert ask(own, token).reason == "sandbox_quarantined"
    old = own.pids("worker")
    for pid in old:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: len(set(own.pids("worker")) - set(old)) == N_WORKERS, "new workers")
    ready(own)
    assert ask(own, token).reason == "sandbox_quarantined"
    restart(own)
    assert ask(own, token).reason == "sandbox_quarantined"
    assert [(q["sandbox"], q["why"]) for q in listed(own)] == [("vm1", "kept")]
    quarantine(own, "release", "vm1")
    restart(own)
    assert listed(own) == [] and ask(own, token).status == 200


def test_without_a_gateway_it_is_written_down_for_the_next(own):
    token = own.token(BOTH, sandbox="vm1")
    assert own.stop() == 0
    assert "no running gateway was told" in quarantine(own, "add", "vm1", "--why", "at night").stdout
    assert [(q["sandbox"], q["by"]) for q in listed(own)] == [("vm1", "file")]
    said = exeat("token", "inspect", config=own.config, stdin=token, check=False)
    assert said.returncode == 1 and "sandbox_quarantined" in said.stdout
    kept = own.directory / "t.jwt"
    kept.touch(0o600)
    kept.write_text(token)
    for words in ["--token-file", kept], ["--sandbox", "vm1", "--scope", BOTH]:
        told = exeat("explain", *words, "GET", "http://registry.test/pkg/x", config=own.config, check=False)
        assert told.returncode == 1 and "sandbox_quarantined" in told.stdout
    (own.directory / "log").unlink()
    own.start()
    assert ask(own, token).reason == "sandbox_quarantined"


@pytest.mark.parametrize("words, status, text", [
    (["release", "nobody"], 1, "not in quarantine"),
    (["add", "a b"], 2, "visible ASCII"),
    (["add", ""], 2, "1 to 128"),
    (["add"], 2, "SANDBOX"),
])
@pytest.mark.parametrize("runs", [True, False])
def test_what_names_nobody_is_refused(own, words, status, text, runs):
    if not runs:
        assert own.stop() == 0
    r = quarantine(own, *words, check=False)
    assert r.returncode == status and text in r.stderr and r.stdout == ""
    assert listed(own) == []


# ---- by itself


def crash(g, tokens, origins):
    """A worker dies while each of these tokens has a request in flight there."""
    before = {pid: 0 for pid in g.pids("worker")}
    ready(g)
    origins[1].clear()
    wires = []
    for token in tokens:
        wire = g.connect()
        wire.send(request("/pkg/held", token))
        wires.append(wire)
    wait_until(lambda: len(origins[1].requests) >= len(tokens), "the requests at the origin")
    for pid in before:
        os.kill(pid, signal.SIGABRT)
    for wire in wires:
        with pytest.raises(Closed):
            wire.response()
    wait_until(lambda: len(set(g.pids("worker")) - set(before)) == len(before), "new workers")
    ready(g)


def test_in_flight_at_three_crashes_it_is_quarantined(own, origins):
    hold = threading.Event()
    origins[1].script = lambda r: (hold.wait(PATIENCE), ok(r))[1]
    bad, late = own.token(BOTH, sandbox="bad"), own.token(BOTH, sandbox="late")
    try:
        crash(own, [bad], origins)
        crash(own, [bad, late], origins)
        assert listed(own) == []
        crash(own, [bad, late], origins)
    finally:
        hold.set()
        origins[1].script = ok
    one, = listed(own)
    assert (one["sandbox"], one["by"]) == ("bad", "gateway") and "three crashes" in one["why"] and "uid" not in one
    assert ask(own, bad).reason == "sandbox_quarantined"
    assert ask(own, late).status == 200
    record, = own.wait_for(kind="revocation", sandbox="bad")
    assert record["by"] == "gateway" and record["revocation"]["key"] == "quarantine"
    restart(own)
    assert ask(own, bad).reason == "sandbox_quarantined"
    quarantine(own, "release", "bad")
    assert ask(own, bad).status == 200


def test_a_crash_with_nobody_in_flight_counts_for_nobody(own, origins):
    token = own.token(BOTH, sandbox="idle")
    for _ in range(4):
        assert ask(own, token).status == 200
        crash(own, [], origins)
    assert listed(own) == [] and ask(own, token).status == 200
