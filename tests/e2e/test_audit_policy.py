"""
The tighter policy that `exeat audit` prints: it is configuration, it keeps sandboxes from what it says (shown by the audit again, through a gateway with it), and
without it the same probes come through. Over plain HTTP and behind TLS. tests/lab/test_policy.py does it with real programs and their clients.
"""
import json
import re
import subprocess

import pytest

from gateway import EXEAT, PATIENCE, Gateway, clean_environment, exeat
from origin import Origin, make_pki

HOST, SECRET = "weak.test", "reader-credential-0123456789abcdef"
CHECKS = ["AN-1", "AN-2", "AN-7", "NT-1", "PW-1", "PW-6", "UP-2", "CN-2", "RL-9", "TV-1", "RD-4"]
MANIFEST = """\
owner: {{ name: tests, statement: ours }}
reach: {{ timeout: 10s, requests: 1000 }}
services:
  s:
    url: {scheme}://{host}:{port}
    address: 127.0.0.1
    protected: [/ok]
    listings: [/ok/list]
    write: "/{{nonce}}"
    credential: {{ from: "file:reader.token" }}
"""
WAIVED = '    audit: "waived: for the audit through the gateway"\n    shared-identity: accepted\n'
LAX = """\
    hosts: ["weak.test"]
    {ports}
    addresses: ["127.0.0.1:{port}"]
    scope: "s:read"
    allow: ["GET,HEAD,PUT,DELETE,OPTIONS,POST /**"]
    client-credentials: allow
    body: 1m
"""


def reply(status, body=b"", **fields):
    lines = "".join(f"{k.replace('_', '-')}: {v}\r\n" for k, v in fields.items())
    return f"HTTP/1.1 {status} X\r\n{lines}Content-Length: {len(body)}\r\n\r\n".encode() + body


def weak(request):
    """Anything goes: it lists, shows its metrics, takes what is put, repeats User-Agent, advertises, and any token is good enough."""
    agent = request.field("user-agent") or ""
    if request.method == "TRACE":
        return reply(200, request.head, Content_Type="message/http")
    if request.method in ("PUT", "DELETE"):
        return reply(201, b"{}")
    if request.method == "OPTIONS":
        return reply(204, Allow="GET, PUT, DELETE")
    if request.target == "/metrics":
        return reply(200, b"up 1", Content_Type="text/plain")
    if request.target == "/ok/list":
        return reply(200, b'["a", "b"]', Content_Type="application/json")
    if request.target != "/ok":
        return reply(404, b"nothing here")
    if not request.field("authorization"):
        return reply(401, b"{}", WWW_Authenticate="Bearer")
    return reply(200, b"for " + (agent.encode() if "canary" in agent else b"you"), Content_Type="text/plain")


class Service:
    """The weak service, plain or behind TLS, and its manifest."""

    def __init__(self, directory, tls):
        self.directory, self.tls = directory, tls
        ca, cert, key = make_pki(directory, [HOST]) if tls else (None, None, None)
        self.origin = Origin(cert, key, script=weak)
        self.manifest = directory / "manifest.yaml"
        self.secret("reader.token", SECRET)
        self.manifest.write_text(MANIFEST.format(scheme="https" if tls else "http", host=HOST, port=self.origin.port) + (f"    ca-file: {ca}\n" if tls else ""))
        self.lax = LAX.format(ports=f"ports: [{self.origin.port}]\n    ca-file: {ca}" if tls else f"plain-ports: [{self.origin.port}]", port=self.origin.port)

    def secret(self, name, text):
        path = self.directory / name
        path.touch(0o600)
        path.write_text(text)
        return path

    def audit(self, *words, text=False, checks=CHECKS):
        named = [w for c in checks for w in ("--check", c)]
        p = subprocess.run([str(w) for w in (EXEAT, "audit", "s", "-m", self.manifest, "--rate", 1000, "--active", *named, *words, *([] if text else ["--format", "json"]))],
                           capture_output=True, text=True, timeout=PATIENCE, env=clean_environment())
        assert p.returncode in (0, 1), p.stderr
        return p.stdout if text else json.loads(p.stdout)

    def through(self, gateway):
        leave = self.secret("leave.jwt", gateway.token("s:read"))
        report = self.audit("--through", f"127.0.0.1:{gateway.port}", "--leave-token", leave, "--gateway-ca", gateway.root)
        assert gateway.verify()
        return {c["check"]: c for c in report["checks"]}


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "TLS"])
def service(request, tmp_path_factory):
    made = Service(tmp_path_factory.mktemp("service"), request.param)
    yield made
    made.origin.close()


@pytest.fixture(scope="module")
def found(service):
    service.policy = service.directory / "policy.yaml"
    service.page = service.directory / "audit.html"
    return service.audit("--policy", service.policy, "--html", service.page)


def lines_of(policy):
    """{the key: the checks that its line covers}, and those that no line does."""
    keys = {m[1]: set(m[2].split()) for m in re.finditer(r"^    ([a-z-]+):.*# covers (.*)$", policy, re.M)}
    itself = re.search(r"^# By itself .* from (.*)\.$", policy, re.M)
    return keys, set(itself[1].split()) if itself else set(), set(re.findall(r"^#   ([A-Z]+-\d+): ", policy, re.M))


def test_each_line_says_what_it_covers(service, found):
    keys, itself, only_service = lines_of(service.policy.read_text())
    assert keys == {"allow": {"AN-2", "AN-7", "PW-1", "PW-6"}, "client-credentials": {"TV-1"}, "forward-fields": {"CN-2"}}, service.policy.read_text()
    assert itself == {"RL-9", "UP-2"} and not only_service
    policy = found["policy"]
    assert policy["yaml"] == service.policy.read_text()
    assert set(policy["covers"]) == set().union(*keys.values()) and set(policy["by-itself"]) == itself and policy["only-service"] == []
    assert "User-Agent" not in policy["yaml"] and SECRET not in policy["yaml"]


def test_every_report_shows_it(service, found):
    text, yaml = service.audit(text=True, checks=["AN-7"]), service.policy.read_text()
    assert "A gateway with this policy keeps sandboxes from 1 of the 1 weaknesses found" in text and "\n    s:\n      hosts: [\"weak.test\"]\n" in text
    assert text.splitlines()[-1].startswith("s does not pass")
    assert "<code># services.s, tighter" in service.page.read_text() and "handoff-edges" not in yaml
    alone = service.audit("--policy", "-", text=True, checks=["AN-7"])
    assert alone.startswith("# services.s, tighter: ") and "covers AN-7" in alone and "does not pass" not in alone


def test_nothing_weak_leaves_nothing_to_close(service):
    assert service.audit("--policy", "-", text=True, checks=["RD-4"]).count("\n") == 1
    assert service.audit(checks=["RD-4"])["policy"] is None


@pytest.mark.parametrize("tight", [True, False], ids=["with the policy", "without it"])
def test_what_it_claims_is_covered_with_it_and_not_without(service, found, tmp_path, tight):
    policy = service.policy.read_text()
    services = policy.partition("services:\n")[2] if tight else "  s:\n" + service.lax
    gateway = Gateway(tmp_path / "gw", services + WAIVED)
    exeat("config", "check", config=gateway.config)
    try:
        gateway.start()
        checks = service.through(gateway)
        if tight:
            url = f"{'https' if service.tls else 'http'}://{HOST}:{service.origin.port}/ok"
            told = exeat("explain", "--sandbox", "sb-1", "--scope", "s:read", "GET", url, config=gateway.config).stdout
            assert "allowed" in told.lower(), told
    finally:
        gateway.stop()
    for c in found["policy"]["covers"]:
        assert checks[c]["covered"] == tight, checks[c]
        assert checks[c]["through"]["verdict"] == ("pass" if tight else checks[c]["verdict"]), checks[c]
    for c in found["policy"]["by-itself"]:
        assert checks[c]["covered"], checks[c]
    if tight:
        assert any(r.field("authorization") == "Bearer " + SECRET and r.field("via") for r in service.origin.requests), "the gateway puts the credential in"
    assert SECRET not in json.dumps(checks)


def test_a_gateway_that_refuses_who_asks_covers_nothing(service, found, tmp_path):
    """Its token is good for one request, the first: what is refused afterwards says nothing of the rules."""
    gateway = Gateway(tmp_path / "gw", service.policy.read_text().partition("services:\n")[2] + WAIVED)
    gateway.config.write_text(gateway.config.read_text().replace("leeway: 0s}", "leeway: 0s, single-use: true}"))
    try:
        gateway.start()
        checks = service.through(gateway)
    finally:
        gateway.stop()
    for c in found["policy"]["covers"] + found["policy"]["by-itself"]:
        assert not checks[c]["covered"] and checks[c]["through"]["note"].startswith("the gateway refused who asked, not what was asked: 407"), checks[c]
