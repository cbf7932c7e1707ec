"""Another configuration in a running gateway: what stays, what ends, what is refused, and that nobody notices."""
import json
import os
import secrets
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time
from pathlib import Path

import pytest

from conftest import BOTH, services
from dns import Client, Talk, addresses
from gateway import (EXEAT, PATIENCE, Closed, Gateway, Wire, clean_environment, connect_head, exeat, free_port,
                     wait_until)
from origin import ok

N_RELOADS = int(os.environ.get("RELOADS", "100"))
SANITIZED = os.environ.get("SANITIZED") == "1"
if SANITIZED and "RELOADS" not in os.environ:
    N_RELOADS = 20
NO_RECORD = b"not reloaded: the journal takes no records"
ROLES = ["worker", "porter", "keeper", "scribe", "clerk", "usher"]


@pytest.fixture
def listed(origins, pki):
    return services(origins[0].port, origins[1].port, pki[0])


@pytest.fixture
def own(tmp_path, listed):
    g = Gateway(tmp_path / "state", listed, workers=2).start()
    yield g
    if g.process.poll() is None:
        status = g.stop()
        print(g.output().decode(errors="replace")[-4000:])
        assert status == 0


def edit(g, old, new, count=1):
    text = g.config.read_text()
    assert old in text, old
    g.config.write_text(text.replace(old, new, count))


def reload(g, status=0):
    result = exeat("reload", "--format", "json", config=g.config, check=False)
    assert result.returncode == status, result.stdout + result.stderr + g.output().decode()[-3000:]
    return json.loads(result.stdout)["generation"] if status == 0 else result.stderr


def generation(g):
    return json.loads(exeat("status", "--format", "json", config=g.config, check=False).stdout)["generation"]


def get(wire, path, host="registry.test", token=None):
    field = f"Proxy-Authorization: Bearer {token}\r\n" if token else ""
    target = f"http://{host}{path}" if token else path
    wire.send(f"GET {target} HTTP/1.1\r\nHost: {host}\r\n{field}\r\n")
    return wire.response()


def ask(g, path, token, host="registry.test"):
    wire = g.connect()
    try:
        return get(wire, path, host, token)
    finally:
        wire.close()


# ---- nobody notices


class Load:
    """Clients that go on until they are told to stop; what went wrong is kept."""

    def __init__(self, g, token):
        self.g, self.token, self.over = g, token, threading.Event()
        self.failed, self.done, self.threads = [], {}, []

    def start(self, name, step, n=1):
        for i in range(n):
            self.threads.append(threading.Thread(target=self.run, args=(name, step), daemon=True))
            self.threads[-1].start()

    def run(self, name, step):
        state = {}
        while not self.over.is_set():
            try:
                step(state)
                self.done[name] = self.done.get(name, 0) + 1
            except Exception as e:  # whatever it is, it is a failure
                self.failed.append(f"{name}: {type(e).__name__}: {e}")
                return

    def on_tunnel(self, state):
        if "wire" not in state:
            state["wire"] = self.g.tunnel("registry.test", self.token)
        answer = get(state["wire"], "/pkg/kept")
        assert answer.status == 200, answer.line

    def on_connection(self, state):
        if "wire" not in state:
            state["wire"] = self.g.connect()
        answer = get(state["wire"], "/pkg/kept", token=self.token)
        assert answer.status == 200, answer.line

    def anew_plain(self, state):
        assert (answer := ask(self.g, "/pkg/new", self.token)).status == 200, answer.line

    def anew_tunnel(self, state):
        wire = self.g.tunnel("registry.test", self.token)
        assert (answer := get(wire, "/pkg/new")).status == 200, answer.line
        wire.close()

    def everything(self):
        self.start("tunnel", self.on_tunnel, 3)
        self.start("connection", self.on_connection, 2)
        self.start("new connection", self.anew_plain, 2)
        self.start("new tunnel", self.anew_tunnel, 1)
        wait_until(lambda: len(self.done) == 4 or self.failed, "every client to have an answer")

    def stop(self):
        self.over.set()
        for t in self.threads:
            t.join(PATIENCE)
        assert not any(t.is_alive() for t in self.threads)


def test_reloads_under_load(own):
    """Each reload changes a service that is in use, so that its connections are made anew, and one that is not."""
    load = Load(own, own.token(BOTH, lifetime="1h"))
    load.everything()
    before = own.config.read_text()
    for i in range(N_RELOADS):
        if i % 2:
            own.config.write_text(before)
        elif i % 4:
            edit(own, "/pkg/**", f"/pkg/**\", \"GET /more/{i}", -1)
        else:
            edit(own, "/up/**", f"/up/**\", \"GET /more/{i}", -1)
        assert reload(own) == i + 2
        assert load.failed == []
    seen = dict(load.done)
    wait_until(lambda: all(load.done[k] > seen[k] for k in seen) or load.failed, "every client to go on")
    load.stop()
    assert load.failed == []
    told = [r["generation"] for r in own.records(kind="decision")]
    assert set(told) >= {1, N_RELOADS + 1} and len(set(told)) > N_RELOADS / 2
    assert all(r["action"] == "allow" for r in own.records(kind="decision"))
    reloads = own.records(kind="reload")
    assert [r["generation"] for r in reloads] == list(range(2, N_RELOADS + 2))
    assert all(r["outcome"] == "accepted" and r["by"] == "admin" and r["uid"] == os.getuid() for r in reloads)
    assert own.stop() == 0 and own.verify()


def test_every_record_carries_the_generation(own):
    ask(own, "/pkg/x", own.token(BOTH))
    reload(own)
    own.tunnel("registry.test", own.token(BOTH)).close()
    exeat("token", "revoke", "--jti", "nobody", config=own.config)
    own.wait_for(kind="revocation")
    assert own.stop() == 0
    records = own.records()
    assert {r["kind"] for r in records} >= {"boot", "config", "decision", "dial", "result", "certificate", "reload",
                                            "revocation", "shutdown"}
    told = [r.get("generation") for r in records]
    assert set(told) == {1, 2}


def test_a_connection_to_an_unchanged_service_is_kept(own, origins):
    token = own.token(BOTH)
    tunnel, upload = own.tunnel("registry.test", token), own.tunnel("upload.test", token)
    assert get(tunnel, "/pkg/a").status == 200 and get(upload, "/up/a", "upload.test").status == 200
    before = origins[0].connections
    edit(own, "/up/**", "/up/**\", \"GET /more", -1)
    reload(own)
    assert get(tunnel, "/pkg/b").status == 200
    assert origins[0].connections == before
    assert get(upload, "/up/b", "upload.test").status == 200
    assert origins[0].connections == before + 1


# ---- what is denied ends


def trickle(asked, go_on):
    """An answer that never ends by itself."""
    def script(request):
        def pieces():
            yield b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + b"x" * 1000
            asked.set()
            while not go_on.wait(0.05):
                yield b"x"
        return pieces()
    return script


def waits(asked, go_on):
    def script(request):
        asked.set()
        go_on.wait(PATIENCE)
        return ok(request)
    return script


@pytest.fixture
def scripted(origins):
    asked, go_on = threading.Event(), threading.Event()
    yield asked, go_on
    go_on.set()
    for o in origins:
        o.script = ok


def test_an_open_response_is_cut(own, origins, scripted):
    asked, _ = scripted
    origins[1].script = trickle(*scripted)
    wire, other = own.connect(), own.connect()
    wire.send(f"GET http://registry.test/pkg/long HTTP/1.1\r\nHost: registry.test\r\n"
              f"Proxy-Authorization: Bearer {own.token(BOTH)}\r\n\r\n")
    assert asked.wait(PATIENCE)
    wire.until(b"x" * 1000)
    edit(own, "/pkg/**", "/elsewhere/**", -1)
    reload(own)
    with pytest.raises(Closed):
        wire.exactly(99000)
    result = own.wait_for(kind="result", reason="policy_changed")[0]
    assert result["outcome"] == "cut" and "path_not_allowed" in result["detail"] and result["generation"] == 2
    assert get(other, "/pkg/long", token=own.token(BOTH)).reason == "path_not_allowed"


def test_a_request_that_waits_for_its_answer_is_refused(own, origins, scripted):
    asked, _ = scripted
    origins[1].script = waits(*scripted)
    wire = own.connect()
    wire.send(f"GET http://registry.test/pkg/slow HTTP/1.1\r\nHost: registry.test\r\n"
              f"Proxy-Authorization: Bearer {own.token(BOTH)}\r\n\r\n")
    assert asked.wait(PATIENCE)
    edit(own, "/pkg/**", "/elsewhere/**", -1)
    reload(own)
    assert wire.response().reason == "policy_changed"
    assert own.wait_for(kind="result", reason="policy_changed")[0]["outcome"] == "failed"


def test_an_open_exchange_that_is_still_allowed_goes_on(own, origins, scripted):
    asked, go_on = scripted
    origins[0].script = waits(asked, go_on)
    tunnel = own.tunnel("registry.test", own.token(BOTH))
    tunnel.send("GET /pkg/slow HTTP/1.1\r\nHost: registry.test\r\n\r\n")
    assert asked.wait(PATIENCE)
    edit(own, "/pkg/**", "/pkg/**\", \"GET /more", -1)
    reload(own)
    go_on.set()
    assert tunnel.response().status == 200
    assert get(tunnel, "/more").status == 200


def test_an_upload_over_the_new_limit_is_refused(own, origins):
    wire = own.connect()
    wire.send(f"POST http://upload.test/up/x HTTP/1.1\r\nHost: upload.test\r\nContent-Length: 500000\r\n"
              f"Proxy-Authorization: Bearer {own.token(BOTH)}\r\n\r\n" + "x" * 200000)
    wait_until(lambda: origins[1].requests, "the upload to begin")
    edit(own, "body: 1m", "body: 100k", -1)
    reload(own)
    assert wire.response().reason == "policy_changed"
    assert "body_too_large" in own.wait_for(kind="result", reason="policy_changed")[0]["detail"]


@pytest.mark.parametrize("cut", [0, 11], ids=["whole", "begun before, and held back"])
def test_an_upload_with_a_canary_planted_since_it_began_is_refused(own, origins, cut):
    wire, size = own.connect(), 200000
    minted = exeat("canary", "new", "--sandbox", "sb-1", "--kind", "generic", config=own.config).stdout.split()[-1]
    wire.send(f"POST http://upload.test/up/x HTTP/1.1\r\nHost: upload.test\r\nContent-Length: {size + len(minted)}\r\n"
              f"Proxy-Authorization: Bearer {own.token(BOTH)}\r\n\r\n" + "x" * size + minted[:cut])
    wait_until(lambda: origins[1].requests, "the upload to begin")
    reload(own)
    wire.send(minted[cut:])
    assert wire.response().reason == "canary_leak"
    wait_until(lambda: origins[1].requests[-1].over, "its end at the service")
    assert minted[:8].encode() not in origins[1].requests[-1].raw
    own.wait_for(kind="finding", reason="canary_leak")


def without_registry(g, origins, pki):
    text = services(origins[0].port, origins[1].port, pki[0])
    cut = text.index("  registry-tls:"), text.index("  registry-plain:")
    edit(g, text[cut[0]:cut[1]], "")


def test_a_tunnel_to_a_service_that_is_gone(own, origins, pki, scripted):
    asked, go_on = scripted
    token = own.token(BOTH)
    idle, other = own.tunnel("registry.test", token), own.tunnel("upload.test", token)
    without_registry(own, origins, pki)
    reload(own)
    assert idle.is_closed()
    assert own.wait_for(kind="connection", reason="policy_changed")[0]["http"]["host"] == "registry.test"
    assert get(other, "/up/x", "upload.test").status == 200
    with pytest.raises(AssertionError, match="host_not_listed"):
        own.tunnel("registry.test", token)


def test_keys_that_are_gone(own, tmp_path):
    """The verified tokens that were remembered go with their keys, and so do open tunnels."""
    token = own.token(BOTH)
    assert ask(own, "/pkg/x", token).status == 200
    tunnel = own.tunnel("registry.test", token)
    exeat("init", tmp_path / "other", "--name", "gw.test")
    for name in ("local.jwks", "local.key"):
        if (tmp_path / "other" / "issuer" / name).exists():
            shutil.copy(tmp_path / "other" / "issuer" / name, own.directory / "issuer" / name)
    reload(own)
    assert tunnel.is_closed()
    assert ask(own, "/pkg/x", token).reason == "token_key_unknown"
    assert ask(own, "/pkg/x", own.token(BOTH)).status == 200


def test_a_canary_minted_since_the_start_is_caught(own):
    token = own.token(BOTH)
    planted = exeat("canary", "new", "--sandbox", "sb-1", "--kind", "generic", config=own.config).stdout.split()[-1]
    assert ask(own, f"/pkg/{planted}", token).status == 200
    reload(own)
    assert ask(own, f"/pkg/{planted}", token).reason == "canary_leak"


def plant_many(g, n):
    """A registry of the operator's own."""
    path = g.directory / "canaries.json"
    made = [{"id": f"own-{i}", "kind": "own", "sandbox": "", "value": secrets.token_urlsafe(30), "random_from": 0, "random_len": 40,
             "created": "2026-01-01T00:00:00Z"} for i in range(n)]
    path.write_text(json.dumps({"schema": "exeat.canaries/1", "canaries": made}))
    return made[-1]["value"]


def spent(pid, of_children=False):
    """Ticks of the processor."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(int(f) for f in (fields[13:15] if of_children else fields[11:13]))


@pytest.fixture
def many(tmp_path, listed):
    """Ten thousand would take a dozen seconds."""
    g = Gateway(tmp_path / "state", listed, workers=2)
    plant_many(g, 1500)
    yield g.start()
    assert g.stop() == 0


def test_other_canaries_hold_nobody_up(many):
    """Thousands take seconds to compile: one process does it for all roles, and who serves goes on."""
    token, served = many.token(BOTH), many.pids("worker")
    before, compiled = {p: spent(p) for p in served}, spent(many.process.pid, of_children=True)
    planted = plant_many(many, 1500)
    reload(many)
    compiled = spent(many.process.pid, of_children=True) - compiled
    assert many.pids("worker") == served and all(3 * (spent(p) - before[p]) < compiled for p in served)
    assert ask(many, f"/pkg/{planted}", token).reason == "canary_leak"
    os.kill(served[0], signal.SIGKILL)  # nor does one that starts again compile anything
    wait_until(lambda: len(many.pids("worker")) == 2 and served[0] not in many.pids("worker"), "another worker")
    (new,) = set(many.pids("worker")) - set(served)
    wait_until(lambda: all(r["state"] == "up" for r in json.loads(exeat("status", "--format", "json", config=many.config,
                                                                       check=False).stdout or '{"roles": [{"state": ""}]}')["roles"]), "all roles")
    assert 3 * spent(new) < compiled


def compiler_of(g):
    """A child of the supervisor that is no role (it has its words still), once it has nothing left but stderr and its answer."""
    for entry in Path("/proc").iterdir():
        try:
            parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            if parent == g.process.pid and b"serve" in (entry / "cmdline").read_bytes().split(b"\0") and \
                    len(list((entry / "fd").iterdir())) == 4 and "NoNewPrivs:\t1" in (entry / "status").read_text():
                return int(entry.name)
        except (OSError, ValueError, IndexError):
            continue
    return None


def test_what_compiles_canaries_is_no_way_past_them(many):
    """It dies: nothing changes."""
    token, before = many.token(BOTH), generation(many)
    planted, refused = plant_many(many, 1500), []
    waiting = threading.Thread(target=lambda: refused.append(reload(many, status=1)))
    waiting.start()
    pid = wait_until(lambda: compiler_of(many), "what compiles")
    os.kill(pid, signal.SIGKILL)
    waiting.join(PATIENCE)
    assert "the process that compiles canaries was ended by signal 9" in refused[0] and generation(many) == before
    assert ask(many, f"/pkg/{planted}", token).status == 200
    reload(many)
    assert ask(many, f"/pkg/{planted}", token).reason == "canary_leak"


def test_revocations_hold_through_it(own):
    token = own.token(BOTH)
    tunnel = own.tunnel("registry.test", token)
    exeat("token", "revoke", "--sandbox", "sb-1", config=own.config)
    reload(own)
    assert tunnel.is_closed()
    assert ask(own, "/pkg/x", token).reason == "token_revoked"


# ---- what is refused leaves everything as it is


def garble(name, text="{ this is nothing"):
    return lambda g: (g.directory / name).write_text(text)


def change(old, new):
    return lambda g: edit(g, old, new)


def overlap(g):
    edit(g, "  registry-plain:\n    hosts: [registry.test]\n    plain-ports: [80]",
         "  registry-plain:\n    hosts: [registry.test]\n    plain-ports: [443]")


def bad_ca(g):
    (g.directory / "bad.pem").write_text("-----BEGIN NOTHING-----\n")
    text = g.config.read_text()
    at = text.index("ca-file: ")
    g.config.write_text(text[:at] + "ca-file: bad.pem" + text[text.index("\n", at):])


def take_port(g):
    g.taken = socket.create_server(("127.0.0.1", 0))
    edit(g, "listen:\n", f"listen:\n  more: {{address: \"127.0.0.1:{g.taken.getsockname()[1]}\"}}\n")


def fifo(name):
    """Who opens it waits for a writer, and the supervisor waits for nobody."""
    def do(g):
        (g.directory / name).unlink()
        os.mkfifo(g.directory / name, 0o600)
    return do


REFUSED = {
    "a-fifo-for-jwks": (fifo("issuer/local.jwks"), 1, ["local.jwks", "not a regular file"]),
    "a-fifo-for-canaries": (fifo("canaries.json"), 2, ["canaries.json", "not a regular file"]),
    "a-fifo-for-a-key": (fifo("ca/intermediate.key"), 1, ["intermediate.key", "not a regular file"]),
    "yaml": (garble("proxy.conf", "gateway: {"), 2, ["proxy.conf:2:", "not YAML", "goes on as it is"]),
    "unknown-key": (change("workers: 2", "workers: 2, colour: red"), 2, ["proxy.conf:2:", "colour"]),
    "no-jwks": (lambda g: (g.directory / "issuer/local.jwks").unlink(), 2, ["local.jwks", "No such file"]),
    "bad-jwks": (garble("issuer/local.jwks"), 2, ["local.jwks"]),
    "no-ca-file": (change("ca-file: ", "ca-file: /nowhere"), 2, ["proxy.conf:", "/nowhere"]),
    "bad-ca-file": (bad_ca, 2, ["proxy.conf:", "bad.pem", "certificate"]),
    "bad-canaries": (garble("canaries.json"), 2, ["canaries.json"]),
    "overlapping-hosts": (overlap, 2, ["proxy.conf:", "lists registry.test"]),
    "port-taken": (take_port, 1, ["in use"]),
    "workers": (change("workers: 2", "workers: 3"), 2, ["proxy.conf:2:", "restart"]),
    "state": (change("state: .", "state: /tmp"), 2, ["restart"]),
    "resolver": (change("listen:\n", "resolver: {timeout: 3s}\nlisten:\n"), 2, ["proxy.conf:", "resolver", "restart"]),
    "admin": (change("admin.sock", "other.sock"), 3, ["no gateway answers"]),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_refused(own, kind):
    touch, status, words = REFUSED[kind]
    token = own.token(BOTH)
    tunnel = own.tunnel("registry.test", token)
    kept = {f: f.read_bytes() for f in own.directory.rglob("*") if f.is_file() and "journal" not in str(f) and f.name != "log"}
    touch(own)
    said = reload(own, status)
    assert said.count("error:") == 1 and all(w in said for w in words), said
    own.process.send_signal(signal.SIGHUP)
    record = own.wait_for(kind="reload", outcome="refused", by="signal")[0]
    assert record["generation"] == 1 and record["detail"]
    if kind != "yaml" and kind != "unknown-key" and kind != "admin":  # there the socket's name cannot be read
        told = exeat("status", config=own.config, check=False).stdout
        assert "policy generation 1" in told and "last reload REFUSED: " in told
    assert get(tunnel, "/pkg/x").status == 200 and ask(own, "/pkg/x", token).status == 200
    for f, data in kept.items():
        if f.is_fifo():
            f.unlink()
            f.touch(0o600)
        f.write_bytes(data)
    if hasattr(own, "taken"):
        own.taken.close()
    assert generation(own) == 1
    assert reload(own) >= 2
    assert get(tunnel, "/pkg/x").status == 200 and own.stop() == 0 and own.verify()


def test_nobody_to_ask(own):
    own.stop()
    assert "no gateway answers" in reload(own, 3)


# ---- hosts


def test_a_new_host_gets_a_new_intermediate(own, origins, pki):
    token = own.token(BOTH + " registry:read")
    tunnel = own.tunnel("upload.test", token)
    before = (own.directory / "ca/intermediate.pem").read_bytes()
    edit(own, "hosts: [registry.test]", "hosts: [registry.test, other.test]", -1)
    reload(own)
    assert (own.directory / "ca/intermediate.pem").read_bytes() != before
    assert get(own.tunnel("other.test", token), "/pkg/x", "other.test").status == 200
    assert get(own.tunnel("registry.test", token), "/pkg/x").status == 200
    assert get(tunnel, "/up/x", "upload.test").status == 200


def test_with_the_root_offline(own, origins, pki):
    """A host more is refused, with what to do; a host less is not."""
    token = own.token(BOTH)
    (own.directory / "ca/root.key").rename(own.directory / "ca.away")
    text = own.config.read_text()
    edit(own, "hosts: [registry.test]", "hosts: [registry.test, other.test]", -1)
    said = reload(own, 2)
    assert "other.test" in said and "put root.key back" in said
    own.config.write_text(text)
    without_registry(own, origins, pki)
    reload(own)
    assert get(own.tunnel("upload.test", token), "/up/x", "upload.test").status == 200
    with pytest.raises(AssertionError, match="host_not_listed"):
        own.tunnel("registry.test", token)


# ---- listeners


def speaks(port, token):
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as s:
        return get(Wire(s), "/pkg/x", token=token).status == 200


def test_listeners_come_and_go(own):
    token, old = own.token(BOTH), own.port
    more, moved = free_port(), free_port()
    kept = own.connect()
    assert get(kept, "/pkg/x", token=token).status == 200
    edit(own, "listen:\n", f"listen:\n  more: {{address: \"127.0.0.1:{more}\"}}\n")
    reload(own)
    assert speaks(more, token) and speaks(old, token)
    assert get(kept, "/pkg/x", token=token).status == 200
    added = Wire(socket.create_connection(("127.0.0.1", more), PATIENCE))
    assert get(added, "/pkg/x", token=token).status == 200
    edit(own, f"127.0.0.1:{more}", f"127.0.0.1:{moved}")
    reload(own)
    assert speaks(moved, token) and get(kept, "/pkg/x", token=token).status == 200
    assert added.is_closed()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", more), PATIENCE)
    edit(own, f"  more: {{address: \"127.0.0.1:{moved}\"}}\n", "")
    reload(own)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", moved), PATIENCE)
    assert speaks(old, token) and get(kept, "/pkg/x", token=token).status == 200


def test_a_listener_is_renamed_on_its_socket(own):
    """Its socket stays: what waits in its queue is served, under the new name."""
    token = own.token(BOTH)
    load = Load(own, token)
    load.start("new connection", load.anew_plain, 2)
    wait_until(lambda: load.done or load.failed, "an answer")
    for old, new in (("explicit:", "inside:"), ("inside:", "explicit:"), ("explicit:", "last:")):
        edit(own, old, new)
        reload(own)
        assert load.failed == []
    load.stop()
    assert load.failed == []
    ask(own, "/pkg/named", token)
    assert own.wait_for(kind="decision")[-1]["listener"] == "last"


def test_listening_sockets_outlive_their_workers(own):
    """Open connections of a killed worker break; no new one is refused or reset before it was accepted."""
    tokens = [own.token(BOTH, sandbox=f"sb-{i}") for i in range(16)]  # who is there at three crashes is quarantined
    refused, served, over, kills = [], [], threading.Event(), []

    def knock():
        while not over.is_set():
            try:
                wire = own.connect()
            except OSError as e:
                refused.append(e)
                return
            try:
                served.append(get(wire, "/pkg/x", token=tokens[len(kills)]).status)
            except (Closed, ConnectionError):
                pass  # it was accepted by one that died
            wire.close()

    threads = [threading.Thread(target=knock, daemon=True) for _ in range(3)]
    for t in threads:
        t.start()
    for _ in range(3):
        for pid in own.pids("worker"):
            n = len(served)
            os.kill(pid, signal.SIGKILL)
            kills.append(pid)
            wait_until(lambda: len(served) > n + 20 or refused, "requests to be served")
    over.set()
    for t in threads:
        t.join(PATIENCE)
    assert refused == [] and set(served) == {200}


def test_what_is_queued_waits_for_the_next_worker(tmp_path, listed):
    g = Gateway(tmp_path / "state", listed, workers=1).start()
    token = g.token(BOTH)
    pid = g.pids("worker")[0]
    os.kill(pid, signal.SIGSTOP)
    wires = [g.connect() for _ in range(20)]
    for wire in wires:
        wire.send(f"GET http://registry.test/pkg/queued HTTP/1.1\r\nHost: registry.test\r\n"
                  f"Proxy-Authorization: Bearer {token}\r\n\r\n")
    os.kill(pid, signal.SIGKILL)
    assert [wire.response().status for wire in wires] == [200] * 20
    assert g.stop() == 0 and g.verify()


# ---- signals, and roles that come back


def test_a_storm_of_signals_is_a_few_reloads(own):
    edit(own, "/pkg/**", "/pkg/**\", \"GET /stormy", -1)
    for _ in range(300):
        own.process.send_signal(signal.SIGHUP)
        time.sleep(0.002)
    edit(own, "/stormy", "/calm", -1)
    own.process.send_signal(signal.SIGHUP)
    token = own.token(BOTH)
    wait_until(lambda: ask(own, "/calm", token).status == 200, "the last one to be in force")
    reloads = own.records(kind="reload")
    assert all(r["by"] == "signal" and r["outcome"] == "accepted" for r in reloads)
    assert len(reloads) < 60
    assert own.stop() == 0 and own.verify()


def test_two_who_ask_at_once_are_both_answered(own):
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(reload(own))) for _ in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(PATIENCE)
    assert len(answers) == 6 and max(answers) == generation(own)


@pytest.mark.parametrize("role", ROLES)
def test_reload_while_a_role_starts_again(own, role):
    token = own.token(BOTH)
    for i in range(3):
        edit(own, "/pkg/**", f"/pkg/**\", \"GET /more/{i}", -1)
        os.kill(own.pids(role)[0], signal.SIGKILL)
        own.process.send_signal(signal.SIGHUP)
        own.wait_for(n=i + 1, kind="reload", outcome="accepted")
        wait_until(lambda: ask(own, f"/more/{i}", token).status == 200, "the new rule")
    ready = wait_until(lambda: (lambda s: s if s["ready"] else None)(json.loads(
        exeat("status", "--format", "json", config=own.config, check=False).stdout or '{"ready": false}')), "all roles")
    assert {r["generation"] for r in ready["roles"]} == {ready["generation"]}
    assert own.stop() == 0 and own.verify()


@pytest.mark.parametrize("role", ROLES)
def test_a_role_dies_while_it_reloads(own, role):
    """At whatever moment: it ends with every role on one generation."""
    token = own.token(BOTH)
    for i in range(4):
        refused = own.output().count(NO_RECORD)
        edit(own, "/pkg/**", f"/pkg/**\", \"GET /more/{i}", -1)
        own.process.send_signal(signal.SIGHUP)
        time.sleep(0.006 * i)
        for pid in own.pids(role):
            os.kill(pid, signal.SIGKILL)

        def is_new():
            """Without the scribe nothing may change; then the operator asks again."""
            nonlocal refused
            if own.output().count(NO_RECORD) > refused:
                refused += 1
                own.process.send_signal(signal.SIGHUP)
            return ask(own, f"/more/{i}", token).status == 200

        wait_until(is_new, "the new rule")
    status = wait_until(lambda: (lambda s: s if s["ready"] else None)(json.loads(
        exeat("status", "--format", "json", config=own.config, check=False).stdout or '{"ready": false}')), "all roles")
    assert {r["generation"] for r in status["roles"]} == {status["generation"]}
    assert own.stop() == 0 and own.verify()


def test_a_role_that_hangs_is_waited_for(tmp_path, listed):
    """It is ended and started again (limits.hang-time), and takes part; until then nobody goes over."""
    g = Gateway(tmp_path / "state", listed, extra="limits: {hang-time: 2s}").start()
    token = g.token(BOTH)
    edit(g, "/pkg/**", "/pkg/**\", \"GET /more", -1)
    os.kill(g.pids("porter")[0], signal.SIGSTOP)
    waiting = threading.Thread(target=lambda: reload(g))
    waiting.start()
    assert ask(g, "/more", token).reason == "path_not_allowed"
    waiting.join(PATIENCE)
    assert ask(g, "/more", token).status == 200
    assert g.stop() == 0


# ---- service managers


class Manager:
    """Listens as systemd does."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(path))
        self.socket.settimeout(PATIENCE)
        self.path = str(path)

    def next(self):
        return dict(line.split("=", 1) for line in self.socket.recv(4096).decode().splitlines())


def test_a_service_manager_is_told(tmp_path, listed):
    g = Gateway(tmp_path / "state", listed)
    manager = Manager(tmp_path / "notify")
    os.environ["NOTIFY_SOCKET"] = manager.path
    try:
        g.log = open(g.directory / "log", "ab+")
        g.process = subprocess.Popen([EXEAT, "-c", g.config, "serve"], stderr=g.log, stdout=g.log,
                                     env=clean_environment(NOTIFY_SOCKET=manager.path))
    finally:
        del os.environ["NOTIFY_SOCKET"]
    assert manager.next() == {"READY": "1"}
    before = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
    g.process.send_signal(signal.SIGHUP)
    told = manager.next()
    assert told["RELOADING"] == "1" and before <= int(told["MONOTONIC_USEC"])
    assert manager.next() == {"READY": "1"}
    garble("proxy.conf")(g)
    g.process.send_signal(signal.SIGHUP)
    assert manager.next()["RELOADING"] == "1" and manager.next() == {"READY": "1"}
    g.process.send_signal(signal.SIGTERM)
    assert manager.next() == {"STOPPING": "1"}
    assert g.process.wait(PATIENCE) == 0


def serve_with(g, sockets, names):
    """exeat serve with these sockets as descriptors 3 and on."""
    def arrange():
        copies = [os.dup(s.fileno()) for s in sockets]
        high = [os.dup2(c, 100 + i) for i, c in enumerate(copies)]
        for i, fd in enumerate(high):
            os.dup2(fd, 3 + i)
            os.set_inheritable(3 + i, True)
        os.environ["LISTEN_PID"] = str(os.getpid())

    g.log = open(g.directory / "log", "ab+")
    command = f"LISTEN_PID=$$ exec {EXEAT} -c {g.config} serve"
    g.process = subprocess.Popen(["/bin/sh", "-c", command], stderr=g.log, stdout=g.log, close_fds=False,
                                 preexec_fn=arrange,
                                 env=clean_environment(LISTEN_FDS=str(len(sockets)), LISTEN_FDNAMES=":".join(names)))


def test_sockets_of_a_service_manager_are_used(tmp_path, listed):
    g = Gateway(tmp_path / "state", listed, workers=2)
    by_address, by_name = socket.create_server(("127.0.0.1", g.port)), socket.create_server(("127.0.0.1", 0))
    edit(g, "listen:\n", "listen:\n  named: {address: \"127.0.0.1:0\"}\n")
    waiting = Wire(socket.create_connection(by_name.getsockname(), PATIENCE))
    serve_with(g, [by_address, by_name], ["", "named"])
    token = g.token(BOTH)
    assert get(waiting, "/pkg/x", token=token).status == 200
    assert speaks(g.port, token)
    reload(g)
    assert speaks(g.port, token) and speaks(by_name.getsockname()[1], token)
    assert g.stop() == 0


DNS = 'dns: {{steer: {{address: "127.0.0.1:{port}", answer: {answer}}}}}'


def datagrams(address):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind(address)
    return s


@pytest.mark.parametrize("named", [True, False])
def test_a_dns_listener_has_the_sockets_that_it_is_given(tmp_path, listed, named):
    """By its name, wherever they are; or by its address. They are there for the next reload too."""
    stream = socket.create_server(("127.0.0.1", 0))
    port = stream.getsockname()[1]
    g = Gateway(tmp_path / "state", listed, extra=DNS.format(port=0 if named else port, answer="10.9.8.7"))
    serve_with(g, [datagrams(("127.0.0.1", port)), stream], ["dns.steer"] * 2 if named else ["", ""])
    for turn in range(2):
        with Client(port) as c, Talk(port) as t:
            assert addresses(c.ask("registry.test")) == addresses(t.ask("registry.test")) == ["10.9.8.7"]
        os.kill(g.pids("usher")[0], signal.SIGKILL)  # they outlive the usher
        reload(g)
    assert f"127.0.0.1:{port}" in exeat("status", config=g.config, check=False).stdout
    assert g.stop() == 0


@pytest.mark.parametrize("answer, given, told", [
    ("10.9.8.7", ["stream"], "dns.steer has a socket for connections and none for datagrams: give both"),
    ("10.9.8.7", ["datagrams"], "dns.steer has a socket for datagrams and none for connections: give both"),
    ("10.9.8.7", ["stream", "elsewhere"], "the two sockets of dns.steer are at two addresses"),
    ("10.9.8.7", ["every", "every datagrams"], "the sockets of dns.steer are at every address"),
    ("10.9.8.7", ["unix", "datagrams"], "the two sockets of dns.steer are at two addresses"),
    ("10.9.8.7", ["stream", "datagrams", "more"], "datagrams) is no listener of the configuration"),
    ("10.9.8.7", ["unbound"], "descriptor 3 is neither a stream socket that listens nor a bound datagram socket"),
    ("10.9.8.7", ["idle"], "descriptor 3 is neither a stream socket that listens nor a bound datagram socket"),
    ("real", ["stream", "datagrams"], "is dns.steer, and the gateway would ask itself"),
], ids=str)
def test_sockets_that_no_dns_listener_can_use_are_refused(tmp_path, listed, answer, given, told):
    stream = socket.create_server(("127.0.0.1", 0))
    here = stream.getsockname()
    every = socket.create_server(("0.0.0.0", 0))
    make = {"stream": lambda: stream, "datagrams": lambda: datagrams(here), "elsewhere": lambda: datagrams(("127.0.0.2", here[1])),
            "every": lambda: every, "every datagrams": lambda: datagrams(("0.0.0.0", every.getsockname()[1])), "unix": lambda: unix_server(tmp_path / "s"),
            "more": lambda: datagrams(("127.0.0.3", here[1])), "unbound": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
            "idle": lambda: socket.socket()}
    resolver = f'\nresolver: {{servers: ["127.0.0.1:{here[1]}"]}}' if answer == "real" else ""
    g = Gateway(tmp_path / "state", listed, extra=DNS.format(port=0, answer=answer) + resolver)
    made = [make[name]() for name in given]
    serve_with(g, made, ["dns.steer"] * len(made))
    assert g.process.wait(PATIENCE) == 2
    assert told in g.output().decode()
    for s in {stream, every, *made}:
        s.close()


def unix_server(path):
    s = socket.socket(socket.AF_UNIX)
    s.bind(str(path))
    s.listen()
    return s


def test_datagrams_for_a_listener_that_takes_none_are_refused(tmp_path, listed):
    g = Gateway(tmp_path / "state", listed)
    with datagrams(("127.0.0.1", g.port)) as stray:
        serve_with(g, [stray], ["explicit"])
        assert g.process.wait(PATIENCE) == 2
    assert f"(\"explicit\", 127.0.0.1:{g.port}, datagrams) is no listener" in g.output().decode()


def test_a_socket_that_nobody_asked_for_is_refused(tmp_path, listed):
    g = Gateway(tmp_path / "state", listed)
    with socket.create_server(("127.0.0.1", 0)) as stray:
        serve_with(g, [stray], ["stray"])
        assert g.process.wait(PATIENCE) == 2
    assert b"LISTEN_FDS" in g.output() and b"stray" in g.output()


# ---- the end


class Slow:
    """A service that accepts, and says nothing until it is let."""

    def __init__(self, pki):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(pki[1], pki[2])
        self.listener, self.go, self.is_asked = socket.create_server(("127.0.0.1", 0)), threading.Event(), threading.Event()
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        connection, _ = self.listener.accept()
        connection.recv(1, socket.MSG_PEEK)
        self.is_asked.set()
        self.go.wait(PATIENCE)
        with self.context.wrap_socket(connection, server_side=True) as s:
            while s.recv(4096):
                pass


def test_a_stop_waits_for_no_handshake(tmp_path, pki, origins, listed):
    """Of a client that has not begun with TLS, or is in the middle of it, to a tunnel, a listener, or a transparent one; and none is without its record."""
    slow, ports = Slow(pki), [free_port() for _ in range(2)]
    g = Gateway(tmp_path / "state", listed + f"""  slow: {{hosts: [other.test], addresses: ["127.0.0.1:{slow.port}"], ports: [443], ca-file: {pki[0]}, allow: ["GET /**"],
          scope: "registry:read", audit: "waived: test"}}
""")
    edit(g, "listen:\n", f"""listen:
  secure: {{address: "127.0.0.1:{ports[0]}", tls: {{cert: "{pki[1]}", key: "{pki[2]}"}}}}
  steered: {{address: "127.0.0.1:{ports[1]}", mode: transparent}}
""")
    g.start()
    token = g.token(BOTH)
    silent, begun = g.tunnel("registry.test", token, tls=False), g.tunnel("registry.test", token, tls=False)
    late, met, steered = g.connect(), *(Wire(socket.create_connection(("127.0.0.1", p), PATIENCE)) for p in ports)
    late.send(connect_head("other.test", token))
    begun.send(b"\x16\x03\x01\x01\x00\x01")
    met.send(b"\x16\x03\x01")
    steered.send(b"\x16\x03\x01")
    assert slow.is_asked.wait(PATIENCE)
    wait_until(lambda: g.records(kind="decision", action="allow")[2:] or None, "what all of them begin with")
    g.process.send_signal(signal.SIGTERM)
    assert all(w.is_closed() for w in (silent, begun, met, steered))
    slow.go.set()
    assert late.response("CONNECT").status == 200 and late.is_closed()
    assert g.process.wait(PATIENCE) == 0 and b"did not end" not in g.output()
    assert len(g.records(kind="connection", reason="gateway_stopping")) == 5 == len(g.records(kind="connection"))
    assert g.records(kind="lost") == [] and g.records()[-1]["kind"] == "shutdown" and g.verify()


def test_records_of_the_last_moment_are_written(tmp_path, listed, origins):
    """What a worker says as it stops is in the journal, not told as lost."""
    g = Gateway(tmp_path / "state", listed, workers=2).start()
    token = g.token(BOTH)
    tunnels = [g.tunnel("registry.test", token) for _ in range(40)]
    for t in tunnels:  # so that each handshake is over for the gateway too
        t.send("GET /pkg/a HTTP/1.1\r\nHost: registry.test\r\n\r\n")
        assert t.response().status == 200
    assert g.stop() == 0
    assert all(t.is_closed() for t in tunnels)
    assert len(g.records(kind="connection", reason="gateway_stopping")) == 40
    assert g.records(kind="lost") == [] and g.records()[-1]["kind"] == "shutdown" and g.verify()
