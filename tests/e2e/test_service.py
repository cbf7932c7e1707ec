"""A service closed by hand: nothing goes there, at once, on all workers, until it is opened; and opening gives no audit that is missing."""
import json
import os
import threading
import time
import urllib.request

import pytest

from conftest import BOTH, services
from gateway import PATIENCE, Gateway, exeat, wait_until
from load import request
from origin import ok

N_WORKERS = 2
UNAUDITED = """
  closed-by-audit:
    hosts: [unaudited.test]
    plain-ports: [80]
    addresses: ["127.0.0.1:{port}"]
    allow: ["GET /**"]
    scope: registry:read
"""


@pytest.fixture(scope="module")
def running(tmp_path_factory, pki, origins):
    g = Gateway(tmp_path_factory.mktemp("service") / "state", services(origins[0].port, origins[1].port, pki[0]) + UNAUDITED.format(port=origins[1].port),
                workers=N_WORKERS).start()
    yield g
    if g.process.poll() is None:
        assert g.stop() == 0, g.output().decode()[-4000:]


@pytest.fixture
def own(running):
    """All open before and after."""
    yield running
    for one in listed(running):
        if one["closed"]:
            service(running, "open", one["service"], check=False)


def service(g, *words, check=True):
    return exeat("service", *words, config=g.config, check=check)


def listed(g):
    return [json.loads(line) for line in service(g, "list", "--format", "json").stdout.splitlines()]


def one_of(g, name):
    return next(one for one in listed(g) if one["service"] == name)


def ask(g, token, path="/pkg/x", host="registry.test"):
    wire = g.connect()
    try:
        wire.send(request(path, token).replace("registry.test", host))
        return wire.response()
    finally:
        wire.close()


def connect(g, token, host="registry.test"):
    wire = g.connect()
    try:
        wire.send(f"CONNECT {host}:443 HTTP/1.1\r\nHost: {host}:443\r\nProxy-Authorization: Bearer {token}\r\n\r\n".encode())
        return wire.response("CONNECT")
    finally:
        wire.close()


def gauge(g, name):
    text = urllib.request.urlopen(f"http://127.0.0.1:{g.publish}/metrics", timeout=PATIENCE).read().decode()
    return [line.rsplit(" ", 1)[1] for line in text.splitlines() if line.startswith(f'exeat_service_open{{service="{name}"}}')]


def test_new_requests_are_refused_on_all_workers_until_it_is_opened(own, origins):
    token = own.token(BOTH)
    assert ask(own, token).status == 200
    said = service(own, "close", "registry-plain", "--reason", "it relays, ticket 131").stdout
    assert "registry-plain is closed" in said
    origins[1].clear()
    for _ in range(16):
        answer = ask(own, token)
        assert (answer.status, answer.reason) == (503, "service_closed")
        assert b"ticket 131" not in answer.body  # why is the operator's
    assert not origins[1].requests
    assert connect(own, token).status == 200  # another service of the same host stays open
    assert gauge(own, "registry-plain") == ["0"] and gauge(own, "registry-tls") == ["1"]
    said = service(own, "open", "registry-plain")
    assert "registry-plain is open (audit waived: test)" in said.stdout
    assert all(ask(own, token).status == 200 for _ in range(8))


def test_a_tunnel_to_it_is_not_opened(own):
    service(own, "close", "registry-tls")
    answer = connect(own, own.token(BOTH))
    assert (answer.status, answer.reason) == (503, "service_closed")
    assert own.wait_for(kind="decision", action="deny", reason="service_closed", service="registry-tls")


def test_open_exchanges_and_tunnels_to_it_are_cut_at_once(own, origins):
    go_on = threading.Event()

    def script(r):
        yield b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"
        while not go_on.wait(0.1):
            yield bytes(10)

    origins[1].script = script
    try:
        token = own.token(BOTH)
        busy, tunnel = own.connect(), own.tunnel("registry.test", token)
        bystander = own.tunnel("upload.test", token)
        busy.send(request("/pkg/slow", token))
        busy.until(b"\r\n\r\n")
        begin = time.monotonic()
        service(own, "close", "registry-plain")
        busy.rest()
        service(own, "close", "registry-tls")
        assert tunnel.is_closed()
        assert time.monotonic() - begin < PATIENCE / 2
        bystander.send("GET /up/on HTTP/1.1\r\nHost: upload.test\r\n\r\n")
        assert bystander.response().status == 200
        bystander.close()
    finally:
        go_on.set()
        origins[1].script = ok
    assert own.wait_for(2, kind="connection", reason="service_closed")


def test_opening_it_gives_no_audit_that_is_missing(own):
    token = own.token(BOTH)
    assert ask(own, token, "/", "unaudited.test").reason == "handoff_unattested"
    service(own, "close", "closed-by-audit")
    assert ask(own, token, "/", "unaudited.test").reason == "service_closed"
    said = service(own, "open", "closed-by-audit", check=False)
    assert said.returncode == 1
    assert "stays closed: nobody has audited it; this opens no service without an audit: exeat audit closed-by-audit --attest" in said.stdout
    assert ask(own, token, "/", "unaudited.test").reason == "handoff_unattested"
    service(own, "close", "closed-by-audit")
    answer = json.loads(service(own, "open", "closed-by-audit", "--format", "json", check=False).stdout)
    assert (answer["open"], answer["why"]) == (False, "nobody has audited it")


def test_who_closed_it_and_why_stands_in_list_status_explain_why_and_journal(own):
    before = len(own.records(kind="revocation", service="upload-tls"))
    service(own, "close", "upload-tls", "--reason", "ticket 7")
    one = one_of(own, "upload-tls")
    assert (one["schema"], one["open"], one["waived"]) == ("exeat.service/1", False, "waived: test")
    assert (one["closed"]["by"], one["closed"]["uid"], one["closed"]["why"]) == ("admin", os.geteuid(), "ticket 7")
    lines = {line.split()[0]: line for line in service(own, "list").stdout.splitlines()}
    assert "closed  by hand since" in lines["upload-tls"] and lines["upload-tls"].endswith("ticket 7")
    assert "open    audit waived: test" in lines["upload-plain"] and "closed  nobody has audited it" in lines["closed-by-audit"]
    status = exeat("status", config=own.config).stdout
    assert "warning: service upload-tls is closed: by hand, since " in status and "ticket 7" in status
    assert json.loads(exeat("status", "--format", "json", config=own.config).stdout)["closed_by_hand"][0]["service"] == "upload-tls"
    told = exeat("explain", "--sandbox", "a", "--scope", BOTH, "GET", "https://upload.test/up/x", config=own.config, check=False)
    assert told.returncode == 1 and "service_closed" in told.stdout
    service(own, "close", "upload-tls", "--reason", "ticket 8")
    assert one_of(own, "upload-tls")["closed"] == {**one["closed"], "why": "ticket 7; ticket 8"}  # the first stands
    answer = connect(own, own.token(BOTH), "upload.test")
    record = own.wait_for(kind="decision", reason="service_closed", service="upload-tls")[-1]
    why = exeat("why", record["id"], config=own.config, check=False).stdout
    assert answer.reason == "service_closed" and "exeat service open" in why
    service(own, "open", "upload-tls")
    put, again, out = own.wait_for(before + 3, kind="revocation", service="upload-tls")[before:]
    assert put["revocation"] == {"key": "close", "value": "upload-tls"} and put["detail"] == "ticket 7"
    assert (put["by"], put["uid"]) == ("admin", os.geteuid())
    assert again["revocation"]["key"] == "close" and again["detail"] == "ticket 8"
    assert out["revocation"]["key"] == "open" and out["by"] == "admin"


@pytest.mark.parametrize("words, status, text", [
    (["open", "upload-tls"], 1, "was not closed by hand"),
    (["open", "nobody"], 1, "was not closed by hand"),
    (["close", "upload-tsl"], 2, "did you mean upload-tls?"),
    (["close", "nobody"], 2, "no service is called"),
    (["close", "a b"], 2, "visible ASCII"),
    (["close", ""], 2, "1 to 128"),
    (["close"], 2, "NAME"),
])
def test_what_names_no_service_is_refused(own, words, status, text):
    r = service(own, *words, check=False)
    assert r.returncode == status and text in r.stderr and r.stdout == ""
    assert not any(one["closed"] for one in listed(own))


def test_one_that_is_called_otherwise_after_a_reload_is_told_of(own):
    service(own, "close", "registry-plain")
    text = own.config.read_text()
    own.config.write_text(text.replace("  registry-plain:", "  registry-renamed:"))
    exeat("reload", config=own.config)
    own.config.write_text(text)
    told = "service registry-plain was closed by hand, and the configuration has none of that name any more"
    assert wait_until(lambda: told in own.output().decode(), "the warning")
    before = own.output().decode().count(told)
    exeat("reload", config=own.config)
    assert own.output().decode().count(told) == before and one_of(own, "registry-plain")["closed"]


def test_it_survives_a_reload_and_a_restart_and_is_written_down_without_a_gateway(own):
    token = own.token(BOTH)
    service(own, "close", "registry-plain", "--reason", "kept")
    exeat("reload", config=own.config)
    assert ask(own, token).reason == "service_closed"
    assert own.stop() == 0
    (own.directory / "log").unlink()
    assert one_of(own, "registry-plain")["closed"]["why"] == "kept"
    told = exeat("explain", "--sandbox", "a", "--scope", BOTH, "GET", "http://registry.test/pkg/x", config=own.config, check=False)
    assert told.returncode == 1 and "service_closed" in told.stdout
    r = service(own, "close", "upload-plain", "--reason", "at night")
    assert "no running gateway was told" in r.stderr
    for words, code, text in ((["open", "upload-tls"], 1, "was not closed by hand"), (["close", "nobody"], 2, "no service is called")):
        r = service(own, *words, check=False)
        assert r.returncode == code and text in r.stderr
    own.start()
    assert ask(own, token).reason == "service_closed"
    assert [(one["service"], one["closed"]["by"]) for one in listed(own) if one["closed"]] == \
        [("registry-plain", "admin"), ("upload-plain", "file")]
    assert "is open" in service(own, "open", "registry-plain").stdout
    assert ask(own, token).status == 200
    wait_until(lambda: own.records(kind="revocation", service="registry-plain"), "the record")
