"""
Does a planted secret come out? `exeat audit SERVICE --from SANDBOX` on a service of its own, behind a gateway that runs: every way it
finds is one by which the origin really got it, and what it calls stopped or closed never came there.
"""
import base64
import json
import os
import signal
import socket
import subprocess
import time
from urllib.parse import parse_qs, unquote, urlsplit
from xml.etree import ElementTree

import pytest

from gateway import PATIENCE, Gateway, clean_environment, exeat, free_port, wait_until
from origin import Origin

SCOPE = "notes:use"
HOST = "notes.test"
LOOSE = """
  notes:
    hosts: [notes.test]
    plain-ports: [80]
    addresses: ["127.0.0.1:{port}"]
    allow: ["GET,POST,PUT /**"]
    scope: notes:use
    body: 1m
    target: 4k
    unscannable: {unscannable}
    client-credentials: {credentials}
    audit: "waived: a test"
"""
TLS = """
  secure:
    hosts: [registry.test]
    ports: [443]
    addresses: ["127.0.0.1:{port}"]
    ca-file: {ca}
    allow: ["GET /pkg/*"]
    scope: notes:use
    audit: "waived: a test"
"""
TIGHT = """
  notes:
    hosts: [notes.test]
    plain-ports: [80]
    addresses: ["127.0.0.1:{port}"]
    allow: ["GET /notes/readme?"]
    forward-fields: [accept-encoding]
    scope: notes:use
    body: 0
    audit: "waived: a test"
"""
MANIFEST = """
owner: {{name: notes team, statement: We run it and want it tested.}}
reach: {{rate: 5, timeout: 3s}}
listener: {{addresses: [{listener}], ports: [{place}], outside: "unlisted.test:{place}", settle: 200ms}}
services:
  notes:
    url: http://{host}:80
    address: 127.0.0.1
    kind: http
    protected: [/notes/readme]
    fetch: none
    write: "/notes/{{nonce}}"
    listings: [/search]
    fetchers: [/preview]
    redirectors: [/go]
  secure:
    url: https://registry.test:443
    address: 127.0.0.1
    kind: npm
    protected: [/pkg/left-pad]
    fetch: none
"""


class Notes:
    """A service that nobody has seen before: it keeps notes, echoes searches, previews URLs and redirects."""

    def __init__(self, listener, place):
        self.listener, self.place = listener, place
        self.origin = Origin(script=self.answer)
        self.down, self.on_request = False, lambda: None

    @property
    def port(self):
        return self.origin.port

    def got(self):
        return b"".join(self.origin.raw)

    def answer(self, request):
        self.on_request()
        if self.down:
            return None
        url = urlsplit(request.target)
        query = parse_qs(url.query)
        if url.path == "/preview" and "url" in query:
            self.fetch(query["url"][0])
        if url.path == "/go" and "next" in query:
            return f"HTTP/1.1 302 Found\r\nLocation: {query['next'][0]}\r\nContent-Length: 0\r\n\r\n".encode()
        body = f"results for {query['q'][0]}".encode() if url.path == "/search" and "q" in query else b"a note"
        return b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)

    def fetch(self, url):
        to = urlsplit(url)
        with socket.create_connection((self.listener, self.place), PATIENCE) as s:
            s.sendall(f"GET {to.path} HTTP/1.1\r\nHost: {to.netloc}\r\nConnection: close\r\n\r\n".encode())
            s.recv(4096)


class Site:
    def __init__(self, directory):
        self.listener, self.place = f"127.{os.getpid() % 200 + 20}.{free_port() % 200 + 20}.7", free_port()
        self.notes = Notes(self.listener, self.place)
        directory.mkdir()
        self.bound = directory / "vm1.sock"
        self.token_file = directory / "vm1.jwt"
        self.token_file.touch(0o600)
        self.gateway = Gateway(directory / "state", self.loose())
        text = self.gateway.config.read_text()
        self.head = text[:text.index("issuers:")].rstrip() + \
            f'\n  vm1: {{address: "unix:{self.bound}", sandbox: vm1, token-file: {self.token_file}}}\n' + text[text.index("issuers:"):text.index("services:")]
        self.write(self.loose())
        self.token_file.write_text(self.gateway.token(SCOPE, sandbox="vm1"))
        self.other = directory / "other.jwt"
        self.other.touch(0o600)
        self.other.write_text(self.gateway.token(SCOPE, sandbox="vm2"))
        self.manifest = directory / "audit.yaml"
        self.manifest.write_text(MANIFEST.format(listener=self.listener, place=self.place, host=HOST))
        self.gateway.start()
        self.planted = None

    def loose(self, unscannable="refuse", credentials="refuse", port=None):
        return LOOSE.format(port=port or self.notes.port, unscannable=unscannable, credentials=credentials)

    def tight(self):
        return TIGHT.format(port=self.notes.port)

    def write(self, services, more=""):
        self.gateway.config.write_text(self.head + more + "services:\n" + services)

    def configure(self, services, more=""):
        self.write(services, more)
        exeat("reload", config=self.gateway.config)

    def words(self, *more, sandbox="vm1"):
        return ["audit", "notes", "-m", self.manifest, "--from", sandbox, "--rate", "400", *more]

    def run(self, *more, sandbox="vm1"):
        """Its answer; self.value is then what was planted, as the registry had it while it ran."""
        self.notes.origin.clear()
        self.notes.on_request = self.look
        r = exeat(*self.words("--format", "json", *more, sandbox=sandbox), config=self.gateway.config, check=False)
        return r, json.loads(r.stdout) if r.stdout else None

    def look(self):
        self.planted = next((c for c in self.canaries() if c["kind"] == "exeat-audit"), self.planted)

    @property
    def value(self):
        return self.planted["value"].encode()

    def canaries(self):
        return json.loads((self.gateway.directory / "canaries.json").read_text())["canaries"]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    s = Site(tmp_path_factory.mktemp("from") / "site")
    yield s
    assert s.gateway.stop() == 0, s.gateway.output().decode()[-4000:]
    s.notes.origin.close()


def by(answer, verdict):
    return {(r["route"], r["spelling"]): r for r in answer["routes"] if r["verdict"] == verdict}


SPELT = {
    "as it is": lambda v: v,
    "base64": base64.b64encode,
    "base64url": base64.urlsafe_b64encode,
    "base64 twice": lambda v: base64.b64encode(base64.b64encode(v)),
    "hexadecimal": lambda v: v.hex().encode(),
    "percent": lambda v: b"".join(b"%%%02X" % c for c in v),
    "percent twice": lambda v: b"".join(b"%%25%02X" % c for c in v),
}


def was_seen(site, route, spelling):
    """At the origin, as it was sent there."""
    raw, spelt = unquote(site.notes.got().decode("latin-1")).encode("latin-1") + site.notes.got(), SPELT[spelling](site.value).rstrip(b"=")
    half = len(site.value) // 2
    if route.startswith("two-"):
        return site.value[:half] in raw and site.value[half:] in raw
    if route == "json-escapes":
        return b"".join(b"\\u%04x" % c for c in site.value) in raw
    return spelt in raw or route == "archive"


def test_what_it_says_came_out_did_and_nothing_else(site):
    site.configure(site.loose())
    r, answer = site.run("--active", "--beacon")
    out, stopped, closed = by(answer, "out"), by(answer, "stopped"), by(answer, "closed")
    assert r.returncode == 1 and answer["verdict"] == "out" and not by(answer, "inconclusive")
    assert len(out) > 10 and len(stopped) > 10 and closed
    assert all(was_seen(site, *key) for key in out), [key for key in out if not was_seen(site, *key)]
    assert all("service" in row["seen"] and row["advice"] for row in out.values())
    got = site.notes.got()
    assert site.value not in got and base64.b64encode(site.value) not in got
    assert {spelling for route, spelling in stopped if route == "query"} == {"as it is", "base64", "base64url", "hexadecimal", "percent"}
    for row in stopped.values():
        record, = site.gateway.wait_for(kind="decision", id=row["record"])
        assert record["reason"] == row["reason"] == "canary_leak" and record["sandbox"] == "vm1"
    assert closed["cookie", "as it is"]["note"].endswith("credential_foreign")
    finding = site.gateway.records(kind="finding", reason="canary_leak")[-1]
    assert finding["canary"]["id"] == answer["canary"]


def test_far_ends_beyond_the_service_are_named(site):
    site.configure(site.loose())
    _, answer = site.run("--beacon")
    out = by(answer, "out")
    assert "answer" in out["search", "base64 twice"]["seen"]
    assert "listener" in out["url", "base64 twice"]["seen"] and "listener" not in out["search", "base64 twice"]["seen"]
    assert "unlisted.test" in out["url", "base64 twice"]["note"]
    assert "answer" in out["redirect", "base64 twice"]["seen"]  # in Location
    assert by(answer, "not-run")["body", "as it is"]["note"] == "it needs --active"


def test_rules_that_leave_nothing_to_choose_let_nothing_out(site):
    site.configure(site.tight())
    r, answer = site.run("--active", "--beacon")
    assert r.returncode == 0 and answer["verdict"] == "stopped", by(answer, "out") | by(answer, "inconclusive")
    assert not by(answer, "out") and by(answer, "closed")["query", "hexadecimal"]["note"].endswith("query_not_allowed")
    raw = site.notes.got()
    assert raw and not any(spell(site.value).rstrip(b"=") in raw for spell in SPELT.values()) and site.value[:16] not in raw
    text = exeat(*site.words(), config=site.gateway.config).stdout
    assert "it did not come out" in text.splitlines()[0] and "closed: query, path" in text


def test_what_the_gateway_is_told_not_to_look_into_comes_out_where_that_is_allowed(site):
    site.configure(site.loose(unscannable="allow"))
    r, answer = site.run("--active")
    assert r.returncode == 1 and "service" in by(answer, "out")["coding", "as it is"]["seen"]
    assert bytes(255 - c for c in site.value) in site.notes.got()
    site.configure(site.loose())
    _, answer = site.run("--active")
    assert by(answer, "closed")["coding", "as it is"]["note"].endswith("unscannable")
    assert bytes(255 - c for c in site.value) not in site.notes.got()


def test_credentials_that_are_let_through_are_a_way_out(site):
    site.configure(site.loose(credentials="allow"))
    _, answer = site.run()
    assert ("cookie", "as it is") in by(answer, "stopped") and ("basic-user", "as it is") in by(answer, "stopped")
    site.configure(site.loose(credentials="strip"))
    _, answer = site.run()
    assert ("cookie", "as it is") in by(answer, "stopped") | by(answer, "closed")


def test_the_canary_is_known_while_it_runs_and_taken_back(site):
    site.configure(site.loose())
    before = site.canaries()
    r, answer = site.run()
    assert site.planted["id"] == answer["canary"] and site.planted["sandbox"] == "vm1"
    assert site.canaries() == before
    wire = site.gateway.connect()
    wire.send(b"GET http://notes.test/notes/" + site.value + b" HTTP/1.1\r\nHost: notes.test\r\nProxy-Authorization: Bearer "
              + site.other.read_bytes() + b"\r\n\r\n")
    assert wire.response().status == 200  # nobody looks for it any more
    wire.close()
    text = exeat(*site.words("-v"), config=site.gateway.config, check=False)
    for said in r.stdout, r.stderr, text.stdout, text.stderr, json.dumps(site.gateway.records()):
        assert site.planted["value"] not in said


def test_what_a_killed_run_left_behind_is_swept_by_the_next(site):
    site.configure(site.loose())
    registry = json.loads((site.gateway.directory / "canaries.json").read_text())
    old = {**site.planted, "id": "exeat-audit-000001", "created": "2026-01-02T03:04:05Z"}
    registry["canaries"].append(old)
    (site.gateway.directory / "canaries.json").write_text(json.dumps(registry))
    site.run()
    assert not [c for c in site.canaries() if c["kind"] == "exeat-audit"]


def test_a_service_that_is_down_proves_nothing(site):
    site.configure(site.tight())
    site.notes.down = True
    try:
        r, answer = site.run()
        assert r.returncode == 3 and answer["verdict"] == "inconclusive" and "upstream_closed" in answer["trouble"]
        assert len(by(answer, "not-run")) == len(answer["routes"])
    finally:
        site.notes.down = False


def test_one_that_goes_away_in_the_middle_proves_nothing_either(site):
    frail = Origin(script=site.notes.answer)
    left = iter([*range(10, -1, -1), *[1] * 1000])
    site.notes.on_request = lambda: next(left) or (setattr(site.notes, "down", True), frail.close())
    site.configure(site.loose(port=frail.port))
    r = exeat(*site.words("--format", "json"), config=site.gateway.config, check=False)
    answer = json.loads(r.stdout)
    assert by(answer, "inconclusive") and answer["verdict"] in ("out", "inconclusive") and r.returncode in (1, 3)
    assert not by(answer, "stopped").keys() - {("query", spelling) for spelling in SPELT}
    site.notes.on_request, site.notes.down = lambda: None, False


def test_by_a_leave_token_when_no_listener_is_bound(site):
    site.configure(site.loose())
    r, _ = site.run(sandbox="vm2")
    assert r.returncode == 2 and "exeat token issue --sandbox vm2" in r.stderr
    r, _ = site.run("--leave-token", site.other, sandbox="vm3")
    assert r.returncode == 2 and "a leave token of sandbox vm2, not of vm3" in r.stderr
    r, answer = site.run("--leave-token", site.other, sandbox="vm2")
    assert answer["listener"] == "explicit" and r.returncode == 1
    assert site.gateway.wait_for(kind="decision", reason="canary_leak", sandbox="vm2")


def test_a_configuration_that_is_not_in_force_is_not_put_in_force(site):
    site.configure(site.loose())
    site.write(site.tight())
    r, _ = site.run()
    assert r.returncode == 2 and "is not what the gateway works by" in r.stderr and "exeat reload" in r.stderr
    assert not [c for c in site.canaries() if c["kind"] == "exeat-audit"]


def test_its_own_canary_puts_no_sandbox_in_quarantine(site):
    site.write(site.loose())
    text = site.gateway.config.read_text()
    site.gateway.config.write_text(text.replace("canaries: {file: canaries.json}", "canaries: {file: canaries.json, on-leak: quarantine}"))
    exeat("reload", config=site.gateway.config)
    r, answer = site.run()
    assert by(answer, "stopped") and not by(answer, "inconclusive")
    assert exeat("quarantine", "list", config=site.gateway.config).stdout == "no sandbox is in quarantine\n"


def test_whoever_ends_it_has_the_canary_taken_back(site):
    site.configure(site.loose())
    site.notes.on_request = site.look
    words = [str(w) for w in site.words("--format", "json")]
    words[words.index("400")] = "10"
    p = subprocess.Popen([site.gateway.program, "-c", site.gateway.config, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=clean_environment(), text=True)
    site.planted = None
    wait_until(lambda: site.planted, "the canary")
    p.send_signal(signal.SIGINT)
    out, _ = p.communicate(timeout=PATIENCE)
    assert p.returncode in (1, 3) and json.loads(out)["counts"]["not-run"] > 10
    assert not [c for c in site.canaries() if c["kind"] == "exeat-audit"]


def test_junit_has_a_test_for_each_route(site, tmp_path):
    site.configure(site.loose())
    r, answer = site.run("--junit", tmp_path / "leak.xml")
    suite = ElementTree.parse(tmp_path / "leak.xml").getroot()[0]
    assert int(suite.get("tests")) == len(suite) == len(answer["routes"])
    assert int(suite.get("failures")) == len(by(answer, "out")) == len(suite.findall("testcase/failure"))


def test_a_service_behind_tls_by_the_unix_socket_of_the_sandbox(site, pki):
    origin = Origin(*pki[1:])
    ca, site.planted = pki[0], None

    def script(request):
        site.look()
        return b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

    origin.script = script
    site.configure(site.tight() + TLS.format(port=origin.port, ca=ca))
    words = ["secure" if w == "notes" else w for w in site.words("--format", "json")]
    r = exeat(*words, config=site.gateway.config, check=False)
    answer = json.loads(r.stdout)
    assert r.returncode == 1 and answer["listener"] == "vm1", r.stderr
    assert by(answer, "stopped")["path", "as it is"]["reason"] == "canary_leak" and "service" in by(answer, "out")["path", "base64 twice"]["seen"]
    raw = b"".join(origin.raw)
    assert SPELT["base64 twice"](site.value).rstrip(b"=") in raw and site.value not in raw and site.value.hex().encode() not in raw
    exeat("service", "close", "secure", config=site.gateway.config)  # the tunnel itself is refused: its reason is read there
    try:
        answer = json.loads(exeat(*words, config=site.gateway.config, check=False).stdout)
        assert answer["verdict"] == "inconclusive" and "service_closed; see: exeat why " in answer["trouble"]
        assert exeat("why", answer["trouble"].rsplit(" ", 1)[1], config=site.gateway.config, check=False).returncode == 0
    finally:
        exeat("service", "open", "secure", config=site.gateway.config)
        origin.close()


@pytest.mark.parametrize("words, text", [
    (["--attest"], "--attest does not go with it"),
    (["--sarif", "x"], "--sarif does not go with it"),
    (["--check", "AN-1"], "--check does not go with it"),
])
def test_what_does_not_go_with_it_is_said(site, words, text):
    r = exeat(*site.words(*words), config=site.gateway.config, check=False)
    assert r.returncode == 2 and text in r.stderr


def test_a_url_that_the_gateway_does_not_list_is_said(site):
    site.configure(site.loose())
    other = site.manifest.with_name("other.yaml")
    other.write_text(site.manifest.read_text().replace("http://notes.test:80", "http://elsewhere.test:80"))
    words = [other if w == site.manifest else w for w in site.words()]
    r = exeat(*words, config=site.gateway.config, check=False)
    assert r.returncode == 2 and "lists no service for elsewhere.test port 80" in r.stderr


def test_a_service_that_is_closed_is_not_called_safe(site):
    site.configure(site.loose())
    exeat("service", "close", "notes", config=site.gateway.config)
    try:
        r, answer = site.run()
        assert r.returncode == 3 and answer["verdict"] == "inconclusive" and "service_closed" in answer["trouble"]
    finally:
        exeat("service", "open", "notes", config=site.gateway.config)


def test_a_canary_is_retired_by_its_id(site):
    made = json.loads(exeat("canary", "new", "--kind", "npm", "--format", "json", config=site.gateway.config).stdout)
    r = exeat("canary", "retire", made["id"], config=site.gateway.config)
    assert made["id"] in r.stdout and made["id"] not in [c["id"] for c in site.canaries()]
    r = exeat("canary", "retire", made["id"], config=site.gateway.config, check=False)
    assert r.returncode == 1 and "exeat canary list" in r.stderr


def test_the_run_is_on_record_with_its_exchanges(site, tmp_path):
    site.configure(site.loose())
    r, answer = site.run("--exchanges", tmp_path / "x")
    record = site.gateway.wait_for(kind="audit", service="notes", outcome="out")[-1]
    assert (record["sandbox"], record["canary"]["id"]) == ("vm1", answer["canary"]) and record["id"] in r.stderr
    assert "canary" in exeat("why", record["id"], config=site.gateway.config).stdout
    r = exeat("audit", "notes", "--check-exchanges", tmp_path / "x", config=site.gateway.config, check=False)
    assert r.returncode == 0, r.stdout
    (tmp_path / "x").write_text((tmp_path / "x").read_text().replace('"answer":403', '"answer":200').replace('"answer": 403', '"answer": 200'))
    r = exeat("audit", "notes", "--check-exchanges", tmp_path / "x", config=site.gateway.config, check=False)
    assert r.returncode == 1 and "they differ in query/as it is" in r.stdout
