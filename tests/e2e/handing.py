"""Gateways that hand something on to services, for tests: what a sandbox says stripped, credentials injected, assertions made."""
from base64 import b64encode

import pytest

from gateway import Gateway, connect_head
from origin import Origin, make_pki
from sends import origin  # noqa: F401  for those who import from here

PLAIN = """
  {name}:
    hosts: [{name}.test]
    plain-ports: [80]
    addresses: ["127.0.0.1:{port}"]
    allow: ["GET /**", "POST /**"]
    scope: web
    audit: "waived: test"
    {more}
"""


def service(name, port, more=""):
    return PLAIN.format(name=name, port=port, more=more)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory, origin):
    listed = "".join(service(name, origin.port, f"client-credentials: {name}") for name in ("refuse", "strip", "allow"))
    listed += service("listed", origin.port, "forward-fields: [X-Kept, Accept]")
    g = Gateway(tmp_path_factory.mktemp("handoff") / "state", listed).start()
    yield g
    assert g.stop() == 0, g.output().decode()


@pytest.fixture(scope="module")
def token(gateway):
    return gateway.token("web")


def ask(gateway, token, host, fields, origin, path="/x", method="GET", body=b""):
    """One request; the answer, and what the service saw of it (None when it did not)."""
    origin.clear()
    wire = gateway.connect()
    head = f"{method} http://{host}{path} HTTP/1.1\r\nHost: {host}\r\nProxy-Authorization: Bearer {token}\r\n"
    head += f"Content-Length: {len(body)}\r\n" if body else ""
    wire.send(head.encode() + fields.encode() + b"\r\n" + body)
    answer = wire.response()
    wire.close()
    return answer, (origin.requests[0] if origin.requests else None)


STATIC = "s3cr3t-static-credential-0123"
SHARED = "shared-identity: accepted"
INJECTED = {
    "bearer": ("credential: {from: \"file:cred/static\"}", "Authorization", f"Bearer {STATIC}"),
    "basic": ("credential: {from: \"file:cred/pair\", as: basic}", "Authorization",
              "Basic " + b64encode(b"user:pass-word-1").decode()),
    "header": ("credential: {from: \"file:cred/static\", as: \"header:X-Service-Key\"}", "X-Service-Key", STATIC),
    "scheme": ("credential: {from: \"file:cred/scheme\", as: \"header:Authorization\"}", "Authorization",
               "token " + STATIC),
    "variable": ("credential: {from: \"env:SERVICE_TOKEN\"}", "Authorization", "Bearer from-the-environment"),
    "program": ("credential: {from: \"exec:/usr/bin/printf printed-%s once\"}", "Authorization", "Bearer printed-once"),
}
TLS = """
  {name}:
    hosts: [{name}.test]
    addresses: ["127.0.0.1:{port}"]
    ca-file: {ca}
    allow: ["GET /**", "POST /**"]
    scope: web
    audit: "waived: test"
    {more}
"""


def write_secret(path, text):
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o600)


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    names = [f"{n}.test" for n in [*INJECTED, "mine", "changing", "kept", "brief", "failing", "private", "one", "endless", "whoami",
                                   "exchanged", "sts"]]
    ca, cert, key = make_pki(tmp_path_factory.mktemp("pki"), names)
    o = Origin(cert, key)
    o.ca = ca
    yield o
    o.close()


@pytest.fixture(scope="module")
def injecting(tmp_path_factory, origin, tls):
    g = Gateway(tmp_path_factory.mktemp("inject") / "state", "  {}")
    cred = g.directory / "cred"
    write_secret(cred / "static", STATIC + "\n")
    write_secret(cred / "pair", "user:pass-word-1")
    write_secret(cred / "scheme", "token " + STATIC)
    write_secret(cred / "changing", "the-first-credential")
    write_secret(cred / "sb-1.token", "credential-of-sb-1")
    write_secret(cred / "sb-2.token", "credential-of-sb-2")
    write_secret(cred / "sb-bare.token", "readable-by-others")
    (cred / "sb-bare.token").chmod(0o644)
    write_secret(cred / "sb-odd.token", "two\nlines-of-text")
    listed = "".join(TLS.format(name=name, port=tls.port, ca=tls.ca, more=f"{row[0]}\n    {SHARED}")
                     for name, row in INJECTED.items())
    more = {
        "mine": 'credential: {from: "file:cred/{sandbox}.token"}',
        "changing": f'credential: {{from: "file:cred/changing", lifetime: 1s}}\n    {SHARED}',
        "kept": f'credential: {{from: "exec:/usr/bin/date +printed-at-%s.%N", lifetime: 1h}}\n    {SHARED}',
        "brief": f'credential: {{from: "exec:/usr/bin/date +printed-at-%s.%N", lifetime: 1s}}\n    {SHARED}',
        "failing": f'credential: {{from: "exec:/bin/false"}}\n    {SHARED}',
        "endless": f'credential: {{from: "exec:/usr/bin/yes"}}\n    {SHARED}',
        "one": 'credential: {from: "file:cred/static"}',
        "whoami": 'credential: {from: "exec:/usr/bin/printf credential-of-%s {sandbox}"}\n    client-credentials: strip',
    }
    for name, words in more.items():
        listed += TLS.format(name=name, port=tls.port, ca=tls.ca, more=words)
    listed += service("open", origin.port, f'credential: {{from: "file:cred/static"}}\n    {SHARED}\n    inject-plain: accepted')
    g.write(listed)
    g.start(["env", "SERVICE_TOKEN=from-the-environment", g.program, "-c", g.config, "serve"])
    yield g
    assert g.stop() == 0, g.output().decode()
    text = g.output().decode() + "".join(p.read_text() for p in (g.directory / "journal").glob("*.ndjson"))
    for secret in (STATIC, "pass-word-1", "from-the-environment", "printed-once", "credential-of-sb", "the-first-cred"):
        assert secret not in text, "a credential stands in a log"


def inside(g, name, origin, sandbox="sb-1", fields="", path="/x"):
    """One request in a tunnel of its own; the answer, and what the service saw."""
    origin.clear()
    wire = g.tunnel(f"{name}.test", g.token("web", sandbox=sandbox))
    wire.send(f"GET {path} HTTP/1.1\r\nHost: {name}.test\r\n{fields}\r\n")
    answer = wire.response()
    wire.close()
    return answer, (origin.requests[0] if origin.requests else None)


def refusal(g, name, sandbox="sb-1"):
    """The reason for which a tunnel is refused; it stands in the journal too."""
    wire = g.connect()
    wire.send(connect_head(f"{name}.test", g.token("web", sandbox=sandbox)))
    answer = wire.response("CONNECT")
    wire.close()
    return answer.reason


@pytest.fixture(scope="module")
def asserting(tmp_path_factory, tls):
    g = Gateway(tmp_path_factory.mktemp("assert") / "state", "  {}")
    rows = {"mine": "assert: {as: bearer}", "one": "assert: {as: \"header:X-Who\", audience: \"https://one.test\", lifetime: 30s}",
            "changing": "assert: {as: bearer, once: true}",
            "private": 'assert: {as: bearer, access: ["repository:team/app:pull", "registry:catalog:*"]}'}
    g.write("".join(TLS.format(name=name, port=tls.port, ca=tls.ca, more=more) for name, more in rows.items()))
    g.start()
    yield g
    assert g.stop() == 0, g.output().decode()
    assert "eyJ" not in g.output().decode() + "".join(p.read_text() for p in (g.directory / "journal").glob("*.ndjson"))
