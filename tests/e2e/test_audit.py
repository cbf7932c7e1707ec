"""`exeat audit` against services that misbehave, and what it promises whoever they are: no packet elsewhere, no secret in a report, an end."""
import base64
import contextlib
import http.server
import json
import os
import re
import socket
import subprocess
import threading
import time
import xml.etree.ElementTree
from pathlib import Path

import pytest
import yaml

from gateway import EXEAT, PATIENCE, Gateway, clean_environment, exeat

SECRET = "reader-credential-0123456789abcdef"
SECRET2 = "other-credential-0123456789abcdef"
ALL = ["--active", "--tenant2", "--issuer-key", "--beacon"]
LISTENER = "127.0.93.7"


def audit(directory, port, *words, reach="", service="", sections="", host="127.0.0.1", name="s"):
    """(exit status, the report or the words on stderr)"""
    for key, secret in (("reader", SECRET), ("other", SECRET2)):
        (directory / f"{key}.token").write_text(secret)
        (directory / f"{key}.token").chmod(0o600)
    (directory / "manifest.yaml").write_text(
        "owner: { name: tests, statement: ours }\n"
        f"reach: {{ timeout: 300ms, requests: 1000{reach} }}\n{sections}"
        f"services:\n  {name}:\n    url: http://{host}:{port}\n"
        "    credential: { from: \"file:reader.token\" }\n    tenant2: { from: \"file:other.token\" }\n" + service)
    p = subprocess.run([str(w) for w in (EXEAT, "audit", "s", "-m", directory / "manifest.yaml", "--format", "json", "--rate", 1000, *words)],
                       capture_output=True, text=True, timeout=PATIENCE, env=clean_environment())
    return p.returncode, json.loads(p.stdout) if p.stdout else p.stderr


@contextlib.contextmanager
def serve(handle, address="127.0.0.1"):
    """handle(socket, the first bytes that came, how many came before): one thread for each connection."""
    server = socket.create_server((address, 0), backlog=256)
    heads, open_ = [], []

    def one(client):
        with contextlib.suppress(OSError), client:
            head = client.recv(65536)
            heads.append(head)
            handle(client, head, len(heads) - 1)

    def accept():
        with contextlib.suppress(OSError):
            while True:
                client, _ = server.accept()
                open_.append(client)
                threading.Thread(target=one, args=(client,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield server.getsockname()[1], heads
    finally:
        server.close()
        for c in open_:
            c.close()


def verdicts(report):
    return {c["check"]: c["verdict"] for c in report["checks"]}


def answer(status, body=b"", **fields):
    lines = "".join(f"{k.replace('_', '-')}: {v}\r\n" for k, v in fields.items())
    return f"HTTP/1.1 {status} X\r\n{lines}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body


def honest(client, head, _):
    """Demands its credential, and has nothing else to say."""
    lines = head.decode("latin1").split("\r\n")
    ours = any(line == f"Authorization: Bearer {SECRET}" for line in lines)
    if not ours:
        client.sendall(answer(401, b"{}", WWW_Authenticate="Bearer", Content_Type="application/json"))
    elif lines[0] == "GET /ok HTTP/1.1":
        client.sendall(answer(200, b'{"ok":1}', Content_Type="application/json"))
    else:
        client.sendall(answer(404 if lines[0].startswith(("GET", "HEAD")) else 405, b"{}", Content_Type="application/json"))


# ---- bad input: a verdict with why, never a hang, never a pass


def stall(client, head, _):
    time.sleep(PATIENCE)


def flood(client, head, _):
    client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        client.sendall(b"x" * 65536)


def flood_head(client, head, _):
    client.sendall(b"HTTP/1.1 200 OK\r\n")
    while True:
        client.sendall(b"X-Field: " + b"x" * 1000 + b"\r\n")


def drip(client, head, _):
    for byte in answer(200, b"x" * 1000):
        client.sendall(bytes([byte]))
        time.sleep(0.05)


def another_protocol(client, head, _):
    client.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")
    time.sleep(0.05)


@pytest.mark.parametrize("bad", [stall, flood_head, drip, another_protocol], ids=lambda f: f.__name__)
def test_what_is_no_answer_is_no_pass(tmp_path, bad):
    with serve(bad) as (port, heads):
        status, report = audit(tmp_path, port, *ALL, service="    protected: [/ok]\n")
    assert status == 1 and not report["passing"]
    assert not [c["check"] for c in report["checks"] if c["verdict"] == "pass"]
    assert {"AN-1"} <= {c["check"] for c in report["checks"] if c["verdict"] == "inconclusive"}
    assert all(c["note"] for c in report["checks"])
    if bad in (stall, drip):
        assert len(heads) < 20, "it went on asking somebody who does not answer"


def test_a_flood_ends(tmp_path):
    with serve(flood) as (port, _):
        status, report = audit(tmp_path, port, service="    protected: [/ok]\n")
    assert status == 1 and verdicts(report)["AN-1"] == "open"


def test_a_redirect_is_not_followed(tmp_path):
    with serve(lambda c, h, n: c.sendall(answer(302, Location="/again"))) as (port, heads):
        status, report = audit(tmp_path, port, service="    protected: [/ok]\n")
    assert status == 1 and not any(b"/again" in h.split(b"\r\n")[0] for h in heads)


def test_a_service_that_changes_while_it_is_audited(tmp_path):
    def changing(client, head, n):
        honest(client, head, n) if n < 60 else client.sendall(answer(503))

    with serve(changing) as (port, _):
        status, report = audit(tmp_path, port, service="    protected: [/ok]\n")
    assert status == 1 and "pass" not in verdicts(report).values()
    assert any("differently now" in c["note"] for c in report["checks"])


def test_nothing_listens(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as s:
        port = s.getsockname()[1]
    status, said = audit(tmp_path, port)
    assert status == 3 and "nothing listens" in said and "See url and address" in said


# ---- promises


@pytest.mark.parametrize("host, address", [("localhost", ""), ("127.0.0.1", ""), ("name.test", "    address: 127.0.0.1\n")], ids=["looked up", "an address", "a name with its address"])
def test_a_service_by_its_name(tmp_path, host, address):
    with serve(honest) as (port, heads):
        _, report = audit(tmp_path, port, "--check", "AN-1", host=host, service=address + "    protected: [/ok]\n")
    assert verdicts(report)["AN-1"] == "pass"
    assert all(f"\r\nHost: {host}:{port}\r\n".encode() in head for head in heads)


def test_no_packet_to_an_address_that_is_not_named(tmp_path):
    with serve(honest, "127.0.93.9") as (port, heads):
        for words, reach, service, host in [
            ("another address", ', ranges: ["127.0.0.1/32"]', "", "127.0.93.9"),
            ("a name that is there", ', ranges: ["127.0.0.1/32"]', "    address: 127.0.93.9\n", "named.test"),
            ("a further URL", ', ranges: ["127.0.0.1/32"]', f'    also: ["http://127.0.93.9:{port}"]\n', "127.0.0.1"),
        ]:
            status, said = audit(tmp_path, port, reach=reach, service=service, host=host)
            assert status == 2 and "reach.ranges" in said and "manifest.yaml:" in said, words
        assert not heads
        assert audit(tmp_path, port, "--check", "AN-1", host="127.0.93.9", service="    protected: [/ok]\n")[0] == 1 and heads  # it would have been heard


def test_only_methods_that_are_allowed(tmp_path):
    with serve(honest) as (port, heads):
        _, report = audit(tmp_path, port, *ALL, service="    protected: [/ok]\n    methods: [GET]\n    write: \"/{nonce}\"\n")
    assert {h.split()[0] for h in heads} == {b"GET"}
    assert verdicts(report)["PW-4"] == "not-run" and verdicts(report)["RL-9"] == "not-run" and verdicts(report)["AN-1"] == "pass"


def test_nothing_is_written_unless_asked_for(tmp_path):
    with serve(honest) as (port, heads):
        _, report = audit(tmp_path, port, service="    protected: [/ok]\n    write: \"/{nonce}\"\n")
    assert not {h.split()[0] for h in heads} & {b"DELETE", b"MKCOL", b"PROPPATCH", b"LOCK", b"COPY", b"MOVE", b"PATCH"}
    assert all(verdicts(report)[c] == "not-run" for c in ("AN-3", "AN-4", "PW-1", "PW-4", "XT-1", "CN-3"))


def test_the_budget_is_kept(tmp_path):
    with serve(honest) as (port, heads):
        status, report = audit(tmp_path, port, "--requests", 25, service="    protected: [/ok]\n")
    assert len(heads) == report["requests"] == 25 and status == 1
    assert any("budget of 25 requests" in c["note"] for c in report["checks"])


OF_AN_UPSTREAM = ("FU-4", "FU-6", "RL-11", "CR-4", "CI-2", "XT-4")


@pytest.mark.parametrize("fetch, verdict", [("", "not-run"), ("    fetch: none\n", "n/a")], ids=["not-said", "none"])
def test_what_needs_an_upstream(tmp_path, fetch, verdict):
    listener = f"listener: {{ addresses: [{LISTENER}], ports: [{free_port()}], outside: out.test, inside: in.test }}\n"
    with serve(honest) as (port, _):
        _, report = audit(tmp_path, port, *ALL, sections=listener, service="    protected: [/ok]\n" + fetch)
    assert {verdicts(report)[c] for c in OF_AN_UPSTREAM} == {verdict}
    assert verdicts(report)["RL-1"] == "pass"


def free_port():
    with socket.create_server((LISTENER, 0)) as s:
        return s.getsockname()[1]


class Files(http.server.SimpleHTTPRequestHandler):
    """A file server that was not written for any audit."""

    def log_message(self, *_):
        pass


@pytest.mark.parametrize("title", ["Directory listing for /", "My things"], ids=["as-it-is", "in-other-words"])
def test_a_directory_is_a_listing(tmp_path, title):
    (tmp_path / "www" / "things").mkdir(parents=True)
    (tmp_path / "www" / "things" / "ok").write_text("ok")
    if title == "My things":
        (tmp_path / "www" / "index.html").write_text("<p>welcome")
        (tmp_path / "www" / "things" / "index.html").write_text("<a href='ok'>one</a>")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), lambda *a: Files(*a, directory=tmp_path / "www")) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        _, report = audit(tmp_path, server.server_port, service="    protected: [/things/ok]\n")
        (tmp_path / "www" / "things" / "index.html").write_text("<p>nothing to see")
        (tmp_path / "www" / "index.html").write_text("<p>welcome")
        _, closed = audit(tmp_path, server.server_port, service="    protected: [/things/ok]\n")
        server.shutdown()
    assert verdicts(report)["AN-2"] == "fail" and verdicts(closed)["AN-2"] == "pass"


def test_every_request_says_who_asks(tmp_path):
    with serve(honest) as (port, heads):
        audit(tmp_path, port, service="    protected: [/ok]\n")
    agents = {m.group(1) for h in heads if (m := re.search(rb"\r\nUser-Agent: (exeat-audit/\S+ \(x[a-z0-9]{19}\))\r\n", h))}
    assert len(agents) == 1 and sum(b"exeat-audit" in h for h in heads) == len(heads)


def test_no_secret_in_any_report(tmp_path):
    def mirror(client, head, _):
        client.sendall(answer(200 if SECRET.encode() in head else 401, head, Content_Type="text/plain", X_Said=head.split(b"\r\n")[0].decode("latin1")))

    files = {k: tmp_path / f"report.{k}" for k in ("html", "sarif", "junit", "exchanges")}
    with serve(mirror) as (port, _):
        status, report = audit(tmp_path, port, *ALL, *(w for k, f in files.items() for w in (f"--{k}", f)), service="    protected: [/ok]\n    write: \"/{nonce}\"\n")
    assert status == 1
    said = json.dumps(report) + "".join(f.read_text() for f in files.values())
    for secret in (SECRET, SECRET2):
        for form in (secret, base64.b64encode(secret.encode()).decode().rstrip("="), secret.encode().hex()):
            assert form not in said
    # What it looked for it found: the mirror is no good service.
    assert verdicts(report)["CR-3"] == "fail" and verdicts(report)["TV-14"] == "fail"


# ---- passing, and what the owner accepts


def test_passing_is_what_the_owner_accepts_with_a_date(tmp_path):
    service = "    protected: [/ok]\n    write: \"/{nonce}\"\n"
    with serve(honest) as (port, _):
        status, first = audit(tmp_path, port, *ALL, service=service)
        against = [c["check"] for c in first["checks"] if c["against"]]
        assert status == 1 and against
        accept = ", ".join(f'{c}: "no fixture here until 2099-12-31"' for c in against)
        status, report = audit(tmp_path, port, *ALL, service=service + f"    accept: {{ {accept} }}\n")
        assert status == 0 and report["passing"], [c for c in report["checks"] if c["against"]]
        assert [a["check"] for a in report["accepted"]] == against
        for reason in ("for ever", "no fixture here until 2020-01-01"):
            status, report = audit(tmp_path, port, *ALL, service=service + f"    accept: {{ {accept.replace('no fixture here until 2099-12-31', reason)} }}\n")
            assert status == 1 and not report["accepted"], reason


def test_the_listener_says_who_came(tmp_path):
    """A service that fetches what `url` says, with a credential of its own."""
    def fetcher(client, head, n):
        m = re.search(rb"[?&]url=http://([^/ &]+)(/[^ &]*)", head.split(b"\r\n")[0])
        if m and m.group(1).decode() == "listener.test":
            with socket.create_connection((LISTENER, port_of["listener"]), 5) as s:
                s.sendall(b"GET " + m.group(2) + b" HTTP/1.1\r\nHost: listener.test\r\nAuthorization: Bearer the-services-own\r\n\r\n")
                s.recv(100)
        honest(client, head, n)

    with socket.create_server((LISTENER, 0)) as s:
        port_of = {"listener": s.getsockname()[1]}
    sections = f"listener: {{ addresses: [{LISTENER}], ports: [{port_of['listener']}], outside: listener.test, inside: listener.test, bare: {LISTENER} }}\n"
    with serve(fetcher) as (port, _):
        _, report = audit(tmp_path, port, *ALL, sections=sections, service="    protected: [/ok]\n")
        _, without = audit(tmp_path, port, sections=sections, service="    protected: [/ok]\n")
    checks = {c["check"]: c for c in report["checks"]}
    assert checks["FU-1"]["verdict"] == "fail" and checks["FU-9"]["verdict"] == checks["CR-5"]["verdict"] == "fail"
    assert "Authorization" in checks["FU-9"]["note"] and checks["FU-1"]["listener"]
    assert report["capabilities"]["relays"] and report["capabilities"]["relays-to"] == ["listener.test"]
    assert checks["RL-1"]["verdict"] == "pass"
    assert {c["check"]: c["verdict"] for c in without["checks"]}["FU-1"] == "not-run"


# ---- a token endpoint that gives nonsense

@pytest.mark.parametrize("body", ['{"access_token": "", "refresh_token": ""}', '{"access_token": "x", "refresh_token": ""}', '{"access_token": 1, "refresh_token": {}}', '{"access_token": "..", "refresh_token": "x", "expires_in": -1}',
                                  "[1]", "not JSON", '{"access_token": "e30.e30.", "scope": 7, "refresh_token": "' + "r" * 100000 + '"}'],
                         ids=["empty texts", "an empty refresh token", "other types", "no JWT", "a list", "no JSON", "an endless one"])
def test_a_token_endpoint_that_gives_nonsense(tmp_path, body):
    def handle(client, head, n):
        client.sendall(answer(200, body.encode(), Content_Type="application/json")) if head.startswith(b"POST /token ") else honest(client, head, n)

    with serve(handle) as (port, _):
        status, report = audit(tmp_path, port, *ALL, *(w for c in ("TV-16", "TV-18", "AS-4", "DE-1", "DE-2", "DE-3", "DE-4") for w in ("--check", c)),
                               service="    protected: [/ok]\n    token-endpoint: { url: /token, client: \"file:reader.token\", scope: read, revoke: /revoke }\n")
    assert status == 1, report
    found = {c["check"]: c["verdict"] for c in report["checks"] if c["verdict"] != "not-run"}
    assert "pass" not in found.values(), found


@pytest.mark.parametrize("challenge, shown", [("Bearer realm=\"http://auth.test/token\"", True), ("Bearer", False), ("Basic realm=\"http://auth.test/token\"", False)],
                         ids=["a realm that is a URL", "none", "a realm of Basic"])
def test_a_token_endpoint_that_the_service_names_is_not_run(tmp_path, challenge, shown):
    with serve(lambda client, head, n: client.sendall(answer(401, b"{}", WWW_Authenticate=challenge))) as (port, _):
        _, report = audit(tmp_path, port, *ALL, "--check", "TV-18", "--check", "DE-1", service="    protected: [/ok]\n")
    assert {verdicts(report)[c] for c in ("TV-18", "DE-1")} == {"not-run" if shown else "n/a"}


# ---- two tenants, and no page that says who asks

def two_tenants(a, b):
    """a(n), b(n): (status, body, fields) for the nth request with each one's credential; nobody else gets anything."""
    def handle(client, head, n):
        who = a if SECRET.encode() in head else b if SECRET2.encode() in head else None
        status, body, fields = who(n) if who and head.startswith(b"GET /ok ") else (401, b"{}", {"WWW_Authenticate": "Bearer"})
        client.sendall(answer(status, body, **fields))
    return handle


@pytest.mark.parametrize("a, b, verdict", [
    (lambda n: (200, b"ok", {}), lambda n: (403, b"no", {}), "pass"),
    (lambda n: (200, b"for a", {}), lambda n: (200, b"for b", {}), "pass"),
    (lambda n: (200, b"%d" % n, {}), lambda n: (200, b"%d" % n, {}), "not-run"),
    (lambda n: (200, b"ok", {}), lambda n: (200, b"ok", {}), "not-run"),
    (lambda n: (200, b"ok", {}), lambda n: (401, b"{}", {"WWW_Authenticate": "Bearer"}), "not-run"),
    (lambda n: (200, b"ok", {"X_RateLimit_Remaining": 900 - n}), lambda n: (200, b"ok", {"X_RateLimit_Remaining": 900 - n}), "fail"),
    (lambda n: (200, b"ok", {"RateLimit_Remaining": 900 - n // 2}), lambda n: (200, b"ok", {"RateLimit_Remaining": 500 - n // 2}), "not-run"),
], ids=["one is let in", "a page for each", "a page for each time", "no difference", "the second is nobody's", "one count of requests", "a count for each"])
def test_whether_two_tenants_are_two_is_told_from_what_differs(tmp_path, a, b, verdict):
    with serve(two_tenants(a, b)) as (port, _):
        _, report = audit(tmp_path, port, *ALL, "--check", "XT-5", service="    protected: [/ok]\n")
    (got,) = [c for c in report["checks"] if c["check"] == "XT-5"]
    assert got["verdict"] == verdict, got["note"]


# ---- through the gateway

WEAK_SERVICE = """
  s:
    hosts: [weak.test]
    plain-ports: [{port}]
    addresses: ["127.0.0.1:{port}"]
    allow: {allow}
    body: 4k
    scope: weak:read
    audit: "waived: test"
    credential: {{ from: "file:injected", as: bearer }}
    inject-plain: accepted
    shared-identity: accepted
"""


def weak(client, head, _):
    """Its pages of administration are open, and who has its credential writes."""
    if head.startswith(b"GET /metrics ") or head.startswith(b"PUT /") and SECRET.encode() in head:
        client.sendall(answer(200, b"up 1", Content_Type="text/plain"))
    else:
        honest(client, head, 0)


@pytest.mark.parametrize("allow, covered", [('["GET /ok"]', True), ('["GET /ok", "GET /metrics", "PUT /**"]', False)], ids=["rules that cover it", "rules that do not"])
def test_what_is_weak_is_covered_by_the_rules_or_not(tmp_path, allow, covered):
    with serve(weak) as (port, _):
        gateway = Gateway(tmp_path / "gw", WEAK_SERVICE.format(port=port, allow=allow))
        injected = tmp_path / "gw" / "injected"
        injected.touch(0o600)
        injected.write_text(SECRET)
        leave = tmp_path / "leave.jwt"
        leave.touch(0o600)
        leave.write_text(gateway.token("weak:read"))
        try:
            gateway.start()
            status, report = audit(tmp_path, port, "--active", "--through", f"127.0.0.1:{gateway.port}", "--leave-token", leave, "--check", "AN-7", "--check", "PW-1", host="weak.test",
                                   service=f"    address: 127.0.0.1\n    protected: [/ok]\n    write: \"/{{nonce}}\"\n")
        finally:
            gateway.stop()
    checks = {c["check"]: c for c in report["checks"]}
    for c in ("AN-7", "PW-1"):
        assert checks[c]["verdict"] == "fail", checks[c]
        assert checks[c]["covered"] == covered and checks[c]["through"]["note"], checks[c]
        assert checks[c]["against"] != covered
    assert leave.read_text() not in json.dumps(report)


@pytest.mark.parametrize("listed", [False, True], ids=["it lets nothing through", "it lets the first path through"])
def test_a_gateway_that_lets_nothing_through_is_told_of(tmp_path, listed):
    with serve(weak) as (port, _):
        gateway = Gateway(tmp_path / "gw", WEAK_SERVICE.format(port=port, allow='["GET /ok"]' if listed else '["GET /other"]'))
        for name, text in (("injected", SECRET), ("leave.jwt", gateway.token("weak:read"))):
            (tmp_path / "gw" / name).touch(0o600)
            (tmp_path / "gw" / name).write_text(text)
        audit(tmp_path, port, "--check", "AN-7", host="weak.test", service="    address: 127.0.0.1\n    protected: [/ok]\n")  # for its manifest
        try:
            gateway.start()
            told = exeat("audit", "s", "-m", tmp_path / "manifest.yaml", "--check", "AN-7", "--through", f"127.0.0.1:{gateway.port}",
                         "--leave-token", tmp_path / "gw/leave.jwt", check=False).stderr
        finally:
            gateway.stop()
    shut = "s: the gateway let nothing through (HTTP/1.1 403 exeat path_not_allowed "
    assert (shut in told) == (not listed) and (listed or ", so nothing is covered" in told), told


# ---- reports


def test_reports_can_be_read(tmp_path):
    files = {k: tmp_path / f"report.{k}" for k in ("html", "sarif", "junit", "exchanges")}
    with serve(honest) as (port, heads):
        _, report = audit(tmp_path, port, *ALL, *(w for k, f in files.items() for w in (f"--{k}", f)), service="    protected: [/ok]\n")
    assert report["schema"] == "exeat.audit/1" and len(report["checks"]) == 129 == sum(report["counts"].values())
    junit = xml.etree.ElementTree.parse(files["junit"]).getroot()
    assert len(junit.findall(".//testcase")) == 129
    assert len(junit.findall(".//failure")) == sum(c["against"] for c in report["checks"]) == sum(int(s.get("failures")) for s in junit)
    assert len(junit.findall(".//skipped")) == sum(int(s.get("skipped")) for s in junit)
    run = json.loads(files["sarif"].read_text())["runs"][0]
    rules = [r["id"] for r in run["tool"]["driver"]["rules"]]
    assert len(rules) == len(set(rules)) == 129 and all(rules[r["ruleIndex"]] == r["ruleId"] and r["message"]["text"] for r in run["results"])
    assert all((r["level"] == "none") == (r["kind"] != "fail") for r in run["results"])
    page = files["html"].read_text()
    against = [c for s in ("critical", "high") for asked in (True, False) for c in report["checks"]
               if c["against"] and c["severity"] == s and (c["verdict"] != "not-run") == asked]
    assert [c["check"] for c in against if c["verdict"] != "not-run"] and [c["check"] for c in against if c["verdict"] == "not-run"]
    assert re.findall(r'<article id="([A-Z]+-\d+)"', page)[:len(against)] == [c["check"] for c in against]
    assert "does not pass" in page and "<script" not in page and not re.search(r"(src|href)=\"(?!#|data:,\")", page)
    exchanges = [json.loads(line) for line in files["exchanges"].read_text().splitlines()]
    assert len([x for x in exchanges if x["answer"] != "not sent" and "shared" not in x]) == report["requests"] == len(heads)
    assert all(re.fullmatch("[0-9a-f]{64}", x["request"]) for x in exchanges)


def recipes():
    """{name of the file: its YAML} of the page's recipes for CI."""
    page = (Path(__file__).parents[2] / "docs/handoff.md").read_text()
    blocks = re.findall(r"```yaml\n# (\S+)\n(.*?)```", page[page.index("## In CI"):], re.S)
    return {name: yaml.safe_load(text) for name, text in blocks}


def run_as_job(tmp_path, port, script, env):
    """The lines of a job, as a runner's shell has them; its exit status."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "exeat").symlink_to(EXEAT)
    (tmp_path / "other.token").touch(0o600)
    (tmp_path / "other.token").write_text(SECRET2)
    (tmp_path / "audit.yaml").write_text("owner: { name: tests, statement: ours }\nreach: { rate: 1000, requests: 1000 }\nservices:\n"
                                         f"  packages:\n    url: http://127.0.0.1:{port}\n    protected: [/ok]\n    credential: {{ from: \"env:READER_TOKEN\" }}\n"
                                         "    tenant2: { from: \"file:other.token\" }\n    write: \"/{nonce}\"\n")
    return subprocess.run(["sh", "-e", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE,
                          env={**clean_environment(), **env, "PATH": f"{tmp_path}/bin:/usr/bin:/bin"})


def test_the_recipe_for_gitlab(tmp_path):
    job = recipes()[".gitlab-ci.yml"]["audit"]
    with serve(weak) as (port, _):
        done = run_as_job(tmp_path, port, "\n".join(job["script"]), {"READER_TOKEN": SECRET})
    assert done.returncode == 1 and "does not pass" in done.stdout, done.stderr
    assert job["artifacts"]["when"] == "always" and all((tmp_path / f).stat().st_size for f in job["artifacts"]["paths"])
    suites = xml.etree.ElementTree.parse(tmp_path / job["artifacts"]["reports"]["junit"]).getroot()
    assert suites.tag == "testsuites" and len(suites.findall("./testsuite/testcase/failure")) > 3
    assert all(f.get("message") and f.get("message") in f.text for f in suites.iter("failure")), "GitLab shows the text alone"
    assert all(float(c.get("time")) >= 0 for c in suites.iter("testcase"))


def test_the_recipe_for_github(tmp_path):
    workflow = recipes()[".github/workflows/audit.yml"]
    (job,) = workflow["jobs"].values()
    run = [s for s in job["steps"] if "run" in s]
    upload = job["steps"][-1]
    assert workflow["permissions"]["security-events"] == "write" and job["steps"][0]["uses"].startswith("actions/checkout@")
    assert run[0]["env"] == {"READER_TOKEN": "${{ secrets.READER_TOKEN }}"}
    with serve(weak) as (port, _):
        done = run_as_job(tmp_path, port, "\n".join(s["run"] for s in run), {"READER_TOKEN": SECRET})
    assert done.returncode == 1, done.stderr
    assert upload["if"] == "always()" and upload["uses"].startswith("github/codeql-action/upload-sarif@")
    (sarif,) = json.loads((tmp_path / upload["with"]["sarif_file"]).read_text())["runs"]
    assert {r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for r in sarif["results"]} == {"audit.yaml"}
    assert {r["locations"][0]["physicalLocation"]["region"]["startLine"] for r in sarif["results"]} == {5}


def test_the_page_of_checks_is_the_programs():
    page = (Path(__file__).parents[2] / "docs/checks.md").read_text()
    assert exeat("audit", "--catalogue").stdout == page, "make docs"


def test_what_is_to_be_done_at_the_gateway_names_keys_that_there_are():
    docs = Path(__file__).parents[2] / "docs"
    keys = set(re.findall(r"(?m)^\| `([a-z.-]+)` \|", (docs / "configuration.md").read_text()))
    keys |= {k.split(".")[0] for k in keys}
    advice = re.findall(r"(?m)^- At the gateway: (.*)", (docs / "checks.md").read_text())
    named = {k for line in advice for k in re.findall(r"(?<![\w.-])([a-z][a-z-]*(?:\.[a-z-]+)?)(?=: |, exchange)", line)}
    assert {"allow", "client-credentials", "exchange.scope", "handoff-edges"} <= named and named <= keys, named - keys


def test_a_check_that_there_is_not(tmp_path):
    status, said = audit(tmp_path, 1, "--check", "XX-1")
    assert status == 2 and "no check" in said


@pytest.mark.parametrize("option", ["html", "sarif", "junit", "exchanges", "policy"])
@pytest.mark.parametrize("path, says", [("nowhere/report", "No such file"), ("www", "Is a directory"), ("/dev/null", "no regular file")])
def test_where_nothing_can_be_written_nothing_is_sent(tmp_path, option, path, says):
    (tmp_path / "www").mkdir(exist_ok=True)
    with serve(honest) as (port, heads):
        status, said = audit(tmp_path, port, f"--{option}", tmp_path / path)
    assert status == 2 and f"--{option}: {tmp_path / path}" in said and says in said and not heads
    assert os.path.exists("/dev/null") and not os.path.isfile("/dev/null")
    assert [f.name for f in tmp_path.iterdir() if ".new." in f.name] == []


def again(directory, *words):
    """By the manifest that the last audit() left, for people."""
    p = subprocess.run([EXEAT, "audit", "s", "-m", directory / "manifest.yaml", "--rate", "1000", *words], capture_output=True, text=True, timeout=PATIENCE, env=clean_environment())
    return p.stdout + p.stderr


def test_a_beacon_without_a_listener_is_told_of(tmp_path):
    with serve(honest) as (port, _):
        audit(tmp_path, port, "--check", "AN-1", service="    protected: [/ok]\n")
        with_it, without = again(tmp_path, "--check", "AN-1", "--beacon"), again(tmp_path, "--check", "AN-1")
    assert "nowhere to listen" in with_it and "listener: { addresses:" in with_it and "nowhere to listen" not in without


HOSTILE = b"http://in\x1b[2J\x07t\xff\xc0\xaf.test/<script>alert(1)</script>"


def test_what_the_service_says_breaks_no_report(tmp_path):
    """Bytes that move a terminal's cursor, that are no UTF-8, that would be markup: told of as text, and each report is whole."""
    def speak(client, head, _):
        client.sendall(b"HTTP/1.1 302 Found\r\nServer: \xff\x1b[31m<b>\r\nLocation: " + HOSTILE + b"\r\nWWW-Authenticate: Bearer realm=\"" + HOSTILE +
                       b"\"\r\nLink: <" + HOSTILE + b">; rel=next\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

    files = {k: tmp_path / f"report.{k}" for k in ("html", "sarif", "junit", "exchanges", "policy")}
    with serve(speak) as (port, _):
        status, report = audit(tmp_path, port, *ALL, *(w for k, f in files.items() for w in (f"--{k}", f)), service="    protected: [/ok]\n")
        text = again(tmp_path, "-v", "--check", "RD-1", "--check", "RD-10")
    assert status == 1 and len(report["checks"]) == 129 and "[2J" in next(c["note"] for c in report["checks"] if c["check"] == "RD-1")
    json.loads(files["sarif"].read_text())
    xml.etree.ElementTree.parse(files["junit"])
    whole = "".join(f.read_text() for f in files.values()) + text + json.dumps(report, ensure_ascii=False)
    assert not re.findall(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", whole) and "<script>alert" not in files["html"].read_text()


def test_a_name_that_was_nearly_right(tmp_path):
    status, said = audit(tmp_path, 1, name="ss")
    assert status == 2 and "did you mean ss?" in said
