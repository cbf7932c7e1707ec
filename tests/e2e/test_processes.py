"""The processes of the gateway: what each may, how they start and stop. What happens when one dies: test_faults.py."""
import json
import os
import signal
import socket
import subprocess
import threading
import time

import pytest

from conftest import BOTH, services
from gateway import EXEAT, PATIENCE, Gateway, clean_environment, exeat, wait_until
from load import ask, fetch, metric, ready, request
from origin import ok

ROLES = ["worker", "porter", "keeper", "scribe", "clerk", "usher"]
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


# ---- what they may


def status_of(pid):
    lines = open(f"/proc/{pid}/status").read().splitlines()
    return {k: v.split() for k, _, v in (line.partition(":") for line in lines)}


def all_pids(gateway):
    return {role: gateway.pids(role) for role in ROLES}


def test_each_role_is_a_process(gateway):
    counts = {role: len(pids) for role, pids in all_pids(gateway).items()}
    assert counts == {"worker": N_WORKERS, "porter": 1, "keeper": 1, "scribe": 1, "clerk": 1, "usher": 1}


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


# ---- how it ends


def is_alive(pid):
    try:
        return open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def test_roles_end_with_the_supervisor(own):
    own.start()
    pids = [p for list_ in all_pids(own).values() for p in list_]
    assert len(pids) == len(ROLES)
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
