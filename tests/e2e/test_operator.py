"""What an operator sees of a running gateway: status, the publish listener, the admin socket; and how it mends itself."""
import json
import os
import signal
import socket
import urllib.error
import urllib.request

import pytest
from conftest import services
from gateway import PATIENCE, Gateway, connect_head, exeat, wait_until

ROLES = ["clerk", "keeper", "porter", "scribe", "usher", "worker"]


def publish(gateway, path, method="GET"):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    request = urllib.request.Request(f"http://127.0.0.1:{gateway.publish}{path}", method=method)
    try:
        with opener.open(request, timeout=PATIENCE) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as e:
        return e.code, e.read().decode()


def metrics(gateway):
    lines = publish(gateway, "/metrics")[1].splitlines()
    return {k: int(v) for k, v in (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))}


def ask(gateway, line):
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(PATIENCE)
        s.connect(str(gateway.directory / "admin.sock"))
        s.sendall(line.encode() + b"\n")
        return json.loads(s.makefile().readline())


def ready(gateway):
    """Whether it is, said alike by everybody who says it."""
    wait_until(lambda: gateway.output().count(b"ready") and publish(gateway, "/healthz")[0] == 200, "the clerk")
    return publish(gateway, "/readyz")[0] == 200


def test_status_for_people(gateway):
    text = exeat("status", config=gateway.config).stdout
    assert text.startswith("ready: exeat ")
    for word in ROLES + ["journal open", f"127.0.0.1:{gateway.port}", "registry-tls is open without an audit"]:
        assert word in text


def test_status_for_programs(gateway):
    status = json.loads(exeat("status", "--format", "json", config=gateway.config).stdout)
    assert status["schema"] == "exeat.status/1" and status["ready"] is True and status["journal"] == {"open": True}
    assert sorted({r["role"] for r in status["roles"]}) == ROLES
    assert {r["state"] for r in status["roles"]} == {"up"}
    for role in status["roles"]:
        assert os.path.exists(f"/proc/{role['pid']}")
    assert {"name": "explicit", "address": f"127.0.0.1:{gateway.port}", "added": False} in status["listeners"]
    assert {"service": "registry-tls", "audit": "waived: test"} in status["waived"]


def test_status_when_no_gateway_runs(gateway, tmp_path):
    config = tmp_path / "proxy.conf"
    config.write_text(gateway.config.read_text().replace(str(gateway.directory) + "/admin.sock", str(tmp_path / "no.sock")))
    result = exeat("status", config=config, check=False)
    assert result.returncode == 3 and "exeat serve" in result.stderr and not result.stdout


def test_publish(gateway):
    assert publish(gateway, "/healthz") == (200, "ok\n")
    status, body = publish(gateway, "/readyz")
    assert status == 200 and json.loads(body) == {"ready": True}
    assert publish(gateway, "/elsewhere")[0] == 404
    assert publish(gateway, "/metrics", "HEAD") == (200, "")
    assert publish(gateway, "/metrics", "DELETE")[0] == 405


def test_metrics_count_decisions_by_reason(gateway):
    before = metrics(gateway)
    wire = gateway.connect()
    wire.send(connect_head("unlisted.test", gateway.token("registry:read")))
    assert wire.response().reason == "host_not_listed"
    wire.close()
    key = 'exeat_decisions_total{reason="host_not_listed"}'
    wait_until(lambda: metrics(gateway)[key] == before[key] + 1, "the decision to be counted")
    assert metrics(gateway)['exeat_journal_open{role="worker 0"}'] == 1
    assert metrics(gateway)['exeat_service_audit_waived{service="registry-tls"}'] == 1
    assert 'exeat_build_info{version="' in publish(gateway, "/metrics")[1]


@pytest.mark.parametrize("line", ['{"command":"shutdown"}', "{}", "[]", "status", '{"command":7}', ""])
def test_admin_refuses_what_it_does_not_know(gateway, line):
    answer = ask(gateway, line)
    assert answer["ok"] is False and answer["error"]


def test_admin_socket_is_the_owners_alone(gateway):
    """The file keeps strangers off; that the clerk looks again behind it is shown by tests/unit/console.c."""
    assert (gateway.directory / "admin.sock").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("role", ROLES)
def test_a_killed_role_comes_back(gateway, role):
    old = gateway.pids(role)
    assert old
    os.kill(old[0], signal.SIGKILL)
    wait_until(lambda: set(gateway.pids(role)) != set(old) and len(gateway.pids(role)) == len(old), f"a new {role}")
    wait_until(lambda: exeat("status", config=gateway.config, check=False).returncode == 0, "ready again")
    status = json.loads(exeat("status", "--format", "json", config=gateway.config).stdout)
    assert next(r["restarts"] for r in status["roles"] if r["role"] == role) >= 1
    assert ready(gateway)
    with_token = gateway.token("registry:read")
    wire = gateway.tunnel("registry.test", with_token)
    wire.send("GET /pkg/after HTTP/1.1\r\nHost: registry.test\r\n\r\n")
    assert wire.response().status == 200
    wire.close()


def test_not_ready_while_a_role_is_missing(gateway):
    os.kill(gateway.pids("porter")[0], signal.SIGKILL)
    status, body = wait_until(lambda: (lambda a: a if a[0] == 503 else None)(publish(gateway, "/readyz")), "503")
    assert any(word.startswith("porter is ") for word in json.loads(body)["missing"])
    wait_until(lambda: publish(gateway, "/readyz")[0] == 200, "ready again")


def test_a_closed_journal_closes_the_gateway_and_everybody_says_so(tmp_path, pki, origins):
    g = Gateway(tmp_path / "state", services(origins[0].port, origins[1].port, pki[0]))
    text = g.config.read_text()
    g.config.write_text(text.replace("directory: journal", "directory: journal, min-free: 4000000g"))
    g.start()
    try:
        wire = g.connect()
        wire.send(connect_head("registry.test", g.token("registry:read")))
        answer = wire.response()
        assert (answer.status, answer.reason) == (503, "record_unavailable")
        missing = wait_until(lambda: (lambda m: m if "the journal is closed" in m else None)(
            json.loads(publish(g, "/readyz")[1]).get("missing", [])), "/readyz to say that the journal is closed")
        assert len(missing) == 2 and "scribe: " in missing[0] and "min-free" in missing[0]
        assert publish(g, "/healthz")[0] == 200
        result = exeat("status", config=g.config, check=False)
        assert result.returncode == 1 and result.stdout.startswith("NOT READY") and "journal CLOSED" in result.stdout
        assert not origins[0].requests and not origins[1].requests
    finally:
        g.stop()
