"""The processes of the gateway: what each may, what happens when one dies, how they start and stop."""
import json
import os
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request

import pytest

from conftest import BOTH, services
from gateway import EXEAT, PATIENCE, Closed, Gateway, clean_environment, exeat, wait_until
from origin import ok

ROLES = ["worker", "porter", "keeper", "scribe", "clerk"]
N_WORKERS = 2
ROOT = os.geteuid() == 0


@pytest.fixture(scope="module")
def listed(origins, pki):
    return services(origins[0].port, origins[1].port, pki[0])


@pytest.fixture(scope="module")
def gateway(tmp_path_factory, listed):
    g = Gateway(tmp_path_factory.mktemp("processes") / "state", listed, workers=N_WORKERS).start()
    yield g
    status = g.stop()
    print(g.output().decode()[-4000:])
    assert status == 0


@pytest.fixture
def own(tmp_path, listed):
    """A gateway that a test may maltreat; not started."""
    g = Gateway(tmp_path / "state", listed)
    yield g
    if g.process and g.process.poll() is None:
        g.process.kill()
        g.process.wait(PATIENCE)


def request(path, token):
    return (f"GET http://registry.test{path} HTTP/1.1\r\nHost: registry.test\r\nConnection: close\r\n"
            f"Proxy-Authorization: Bearer {token}\r\n\r\n")


def ask(gateway, path, token):
    wire = gateway.connect()
    try:
        wire.send(request(path, token))
        return wire.response()
    finally:
        wire.close()


# ---- what they may


def status_of(pid):
    lines = open(f"/proc/{pid}/status").read().splitlines()
    return {k: v.split() for k, _, v in (line.partition(":") for line in lines)}


def all_pids(gateway):
    return {role: gateway.pids(role) for role in ROLES}


def test_each_role_is_a_process(gateway):
    counts = {role: len(pids) for role, pids in all_pids(gateway).items()}
    assert counts == {"worker": N_WORKERS, "porter": 1, "keeper": 1, "scribe": 1, "clerk": 1}


@pytest.mark.parametrize("role", ROLES)
def test_privileges_of_a_role(gateway, role):
    for pid in gateway.pids(role):
        status = status_of(pid)
        assert open(f"/proc/{pid}/environ", "rb").read() == b""
        assert status["NoNewPrivs"] == ["1"]
        core = next(line for line in open(f"/proc/{pid}/limits") if line.startswith("Max core file size"))
        assert core.split()[4:6] == ["0", "0"]
        if ROOT:
            assert "0" not in status["Uid"] + status["Gid"] + status["Groups"]
            assert {status[k][0] for k in ("CapEff", "CapPrm", "CapInh", "CapAmb")} == {"0" * 16}


@pytest.mark.skipif(not ROOT, reason="users of their own are given by root")
def test_roles_have_users_of_their_own(gateway):
    users = {role: {status_of(p)["Uid"][0] for p in pids} for role, pids in all_pids(gateway).items()}
    assert all(len(u) == 1 for u in users.values())
    assert len(set.union(*users.values())) == len(ROLES)


def open_files(pid):
    found = []
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            found.append(os.readlink(f"/proc/{pid}/fd/{name}"))
        except OSError:
            pass
    return found


@pytest.mark.parametrize("role", ROLES)
def test_only_the_scribe_holds_files_of_the_state(gateway, role):
    held = [f for pid in gateway.pids(role) for f in open_files(pid) if f.startswith(str(gateway.directory) + "/")]
    log = str(gateway.directory / "log")  # standard error
    held = [f for f in held if f != log]
    if role == "scribe":
        assert held and all(f.startswith(str(gateway.directory / "journal")) for f in held)
    else:
        assert held == []


# ---- when one dies


class Traffic:
    """Requests one after another, each with a path of its own, until told to stop."""

    def __init__(self, gateway, name, token):
        self.gateway, self.name, self.token = gateway, name, token
        self.answers, self.running = [], True
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while self.running:
            path = f"/pkg/{self.name}-{len(self.answers)}"
            self.answers.append((path, self.once(path, tunnel=len(self.answers) % 2 == 0)))

    def once(self, path, tunnel):
        try:
            if not tunnel:
                answer = ask(self.gateway, path, self.token)
                return answer.status, answer.reason
            wire = self.gateway.tunnel("registry.test", self.token)
            wire.send(f"GET {path} HTTP/1.1\r\nHost: registry.test\r\n\r\n")
            answer = wire.response()
            wire.close()
            return answer.status, answer.reason
        except AssertionError as e:  # a refused CONNECT
            line = str(e).split()
            return int(line[2]), line[4]
        except (Closed, OSError):
            return None, "closed"

    def good(self):
        return sum(1 for _, (status, _) in self.answers if status == 200)

    def wait_for_good(self, n):
        want = self.good() + n
        wait_until(lambda: self.good() >= want, f"{n} more requests to pass")

    def stop(self):
        self.running = False
        self.thread.join(PATIENCE)


def watch_egress(gateway, origins):
    """What reaches an origin although no record allows it yet."""
    unrecorded = []

    def script(r):
        marks = [b'"path":"' + r.target.encode() + b'"', b'"action":"allow"']
        lines = [line for s in (gateway.directory / "journal").glob("*.ndjson") for line in s.read_bytes().splitlines()]
        if not any(all(m in line for m in marks) for line in lines):
            unrecorded.append(r.target)
        return ok(r)

    for o in origins:
        o.script = script
    return unrecorded


MAY_SAY = {
    "worker": {(None, "closed")},
    "porter": {(503, "porter_unavailable")},
    "keeper": {(502, "certificate_unavailable")},
    "scribe": {(503, "record_unavailable"), (None, "closed")},
    "clerk": set(),
}


@pytest.mark.parametrize("role", ROLES)
def test_a_role_is_killed_under_way(gateway, origins, role):
    unrecorded = watch_egress(gateway, origins)
    traffic = Traffic(gateway, role, gateway.token(BOTH, sandbox=f"sb-{role}"))
    try:
        traffic.wait_for_good(10)
        for _ in range(2):
            old = gateway.pids(role)
            for pid in old:
                os.kill(pid, signal.SIGKILL)
            wait_until(lambda: len(gateway.pids(role)) == len(old) and not set(old) & set(gateway.pids(role)),
                       f"a new {role}")
            traffic.wait_for_good(10)
    finally:
        traffic.stop()
        for o in origins:
            o.script = ok
    bad = {answer for _, answer in traffic.answers} - {(200, None)}
    assert bad <= MAY_SAY[role]
    assert unrecorded == []
    seen = {r.target for o in origins for r in o.requests}
    assert {path for path, answer in traffic.answers if answer == (200, None)} <= seen
    assert ready(gateway) == (200, {"ready": True})
    assert gateway.verify()


# ---- how it ends


def is_alive(pid):
    try:
        return open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def test_roles_end_with_the_supervisor(own):
    own.start()
    pids = [p for list_ in all_pids(own).values() for p in list_]
    assert len(pids) == 5
    own.process.kill()
    own.process.wait(PATIENCE)
    wait_until(lambda: not any(is_alive(p) for p in pids), "the roles to end")


def test_stop_lets_an_open_exchange_finish(own, origins):
    own.start()
    asked, go_on = threading.Event(), threading.Event()

    def script(r):
        asked.set()
        go_on.wait(PATIENCE)
        return ok(r)

    origins[1].script = script
    try:
        wire = own.connect()
        wire.send(request("/pkg/late", own.token(BOTH)))
        assert asked.wait(PATIENCE)
        own.process.send_signal(signal.SIGTERM)
        wait_until(lambda: b"stopping" in own.output(), "the stop to begin")
        time.sleep(0.2)
        assert own.process.poll() is None
        go_on.set()
        assert wire.response().body == b"ok"
    finally:
        go_on.set()
        origins[1].script = ok
    assert own.process.wait(PATIENCE) == 0
    assert own.records(kind="result")[-1]["outcome"] == "complete"
    assert own.records()[-1]["kind"] == "shutdown"
    assert own.verify()


def test_stop_while_tunnels_are_idle(own):
    own.start()
    wire = own.tunnel("registry.test", own.token(BOTH))
    own.process.send_signal(signal.SIGINT)
    assert own.process.wait(PATIENCE) == 0
    assert wire.is_closed()


# ---- how it does not start


def serve(gateway):
    return subprocess.run([EXEAT, "-c", gateway.config, "serve"], capture_output=True, text=True, timeout=PATIENCE,
                          env=clean_environment())


def said(result):
    """The lines that are errors."""
    return [line for line in result.stderr.splitlines() if "error" in line]


def edit(old, new):
    def touch(gateway):
        text = gateway.config.read_text()
        assert old in text
        gateway.config.write_text(text.replace(old, new, 1))

    return touch


def readable(name):
    return lambda gateway: (gateway.directory / name).chmod(0o644)


def remove(name):
    return lambda gateway: (gateway.directory / name).unlink()


def garble(name):
    return lambda gateway: (gateway.directory / name).write_text("{ this is nothing")


@pytest.mark.parametrize("touch,words", [
    (edit("workers: 1", "workers: 1, colour: red"), ["proxy.conf:2:", "colour"]),
    (edit("scope: registry:read", "scope:"), ["proxy.conf:", "scope"]),
    (edit("workers: 1", "workers: many"), ["proxy.conf:2:", "workers"]),
    (edit("local.jwks", "nowhere.jwks"), ["nowhere.jwks", "No such file"]),
    (readable("ca/intermediate.key"), ["intermediate.key", "chmod"]),
    (readable("canaries.json"), ["canaries.json", "chmod"]),
    (garble("issuer/local.jwks"), ["local.jwks"]),
    (garble("canaries.json"), ["canaries.json"]),
    (garble("ca/root.pem"), ["root.pem"]),
    (garble("ca/root.key"), ["root.key"]),
    (remove("canaries.json"), ["canaries.json", "No such file"]),
    (remove("proxy.conf"), ["proxy.conf", "no such file", "-c FILE"]),
], ids=["unknown-key", "missing-value", "no-number", "no-jwks", "key-readable", "canaries-readable", "bad-jwks",
        "bad-canaries", "bad-root", "bad-root-key", "no-canaries", "no-config"])
def test_one_line_and_status_2(own, touch, words):
    touch(own)
    result = serve(own)
    assert result.returncode == 2, result.stderr
    assert len(said(result)) == 1, result.stderr
    assert all(w in said(result)[0] for w in words), result.stderr
    assert "ready" not in result.stderr


def test_a_port_in_use(own):
    with socket.create_server(("127.0.0.1", own.port)):
        result = serve(own)
    assert result.returncode == 3, result.stderr
    assert len(said(result)) == 1 and f"127.0.0.1:{own.port}" in said(result)[0] and "in use" in said(result)[0]


def test_a_second_gateway_with_the_same_state(own):
    own.start()
    second = own.config.with_name("second.conf")
    text = own.config.read_text().replace(str(own.port), "0").replace(str(own.publish), "0")
    second.write_text(text.replace("admin.sock", "second.sock"))
    result = subprocess.run([EXEAT, "-c", second, "serve"], capture_output=True, text=True, timeout=PATIENCE,
                            env=clean_environment())
    assert result.returncode == 3 and len(said(result)) == 1
    assert "another gateway uses this state" in said(result)[0]
    assert own.stop() == 0 and own.verify()


# ---- what it says of itself


def fetch(gateway, path, method="GET"):
    question = urllib.request.Request(f"http://127.0.0.1:{gateway.publish}{path}", method=method)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(question, timeout=PATIENCE) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as e:
        return e.code, e.read().decode()


def ready(gateway):
    def asked():
        status, body = fetch(gateway, "/readyz")
        return (status, json.loads(body)) if status == 200 else None

    return wait_until(asked, "/readyz to be 200")


def metric(gateway, name):
    lines = [line for line in fetch(gateway, "/metrics")[1].splitlines() if line.startswith(name)]
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines)


def test_publish_answers(gateway):
    assert fetch(gateway, "/healthz")[0] == 200
    assert ready(gateway) == (200, {"ready": True})
    assert fetch(gateway, "/nothing")[0] == 404
    assert fetch(gateway, "/metrics", method="POST")[0] == 405


def test_metrics_count(gateway):
    allowed = 'exeat_decisions_total{reason="allowed"}'
    refused = 'exeat_decisions_total{reason="path_not_allowed"}'
    before = metric(gateway, allowed), metric(gateway, refused)
    token = gateway.token(BOTH)
    assert ask(gateway, "/pkg/counted", token).status == 200
    assert ask(gateway, "/elsewhere", token).status == 403
    after = before[0] + 1, before[1] + 1
    wait_until(lambda: (metric(gateway, allowed), metric(gateway, refused)) == after, "the counts")
    wait_until(lambda: metric(gateway, "exeat_connections_accepted_total") > 0, "connections")


def test_status_tells_the_roles(gateway):
    ready(gateway)
    text = exeat("status", config=gateway.config).stdout
    assert text.startswith("ready: exeat ") and "journal open" in text and str(gateway.port) in text
    told = json.loads(exeat("status", "--format", "json", config=gateway.config).stdout)
    assert told["schema"] == "exeat.status/1"
    told = told.get("status", told)
    roles = {(r["role"], r["pid"]) for r in told["roles"]}
    assert roles == {(role, pid) for role, pids in all_pids(gateway).items() for pid in pids}


def test_status_of_a_gateway_that_does_not_run(own):
    result = exeat("status", config=own.config, check=False)
    assert result.returncode == 3 and len(result.stderr.splitlines()) == 1


# ---- no record, no egress


@pytest.fixture
def small_journal(tmp_path, listed):
    """The journal in a file system of 32 MiB, of which 8 must stay free."""
    if not ROOT:
        pytest.skip("root mounts the small file system")
    g = Gateway(tmp_path / "state", listed, journal="directory: journal, min-free: 8m")
    mounted = g.directory / "journal"
    mounted.mkdir(exist_ok=True)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32m,mode=700", "none", mounted]).returncode:
        pytest.skip("no mount here")
    yield g
    g.stop()
    subprocess.run(["umount", "-l", mounted], check=True)


def test_a_full_disk_closes_the_gateway_and_space_opens_it(small_journal, origins):
    g = small_journal.start()
    token = g.token(BOTH)
    assert ask(g, "/pkg/before", token).status == 200
    filler = g.directory / "journal" / "filler"
    filler.write_bytes(bytes(28 << 20))
    for o in origins:
        o.clear()

    def closed():
        answer = ask(g, "/pkg/during", token)
        return answer.status == 503 and answer.reason == "record_unavailable"

    wait_until(closed, "503 record_unavailable")
    seen = len(origins[1].requests)
    tunnel = g.connect()
    tunnel.send("CONNECT registry.test:443 HTTP/1.1\r\nHost: registry.test:443\r\n"
                f"Proxy-Authorization: Bearer {token}\r\n\r\n")
    assert tunnel.response("CONNECT").reason == "record_unavailable"
    assert closed() and len(origins[1].requests) == seen and origins[0].requests == []
    status, body = wait_until(lambda: (lambda a: a if a[0] == 503 else None)(fetch(g, "/readyz")), "/readyz to be 503")
    assert "the journal is closed" in json.loads(body)["missing"]
    assert exeat("status", config=g.config, check=False).stdout.startswith("NOT READY")
    filler.unlink()
    wait_until(lambda: ask(g, "/pkg/after", token).status == 200, "the gateway to open again")
    assert ready(g) == (200, {"ready": True})
    allowed = [r["http"]["path"] for r in g.records(kind="decision", action="allow")]
    assert [r.target for r in origins[1].requests] == [p for p in allowed if p != "/pkg/before"]
    assert g.stop() == 0 and g.verify()
