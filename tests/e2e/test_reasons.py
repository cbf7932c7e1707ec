"""
Every code of base/reason.def, provoked: seen in the answer with the status the registry says, and in the journal. A
code without a row here fails a test; one that no test can bring about does not belong in the registry.
"""
import json
import os
import re
import signal
import socket
import struct
import subprocess
import threading
import time
from base64 import urlsafe_b64encode
from types import SimpleNamespace

import jwt
import pytest

from gateway import TREE, Gateway, Wire, connect_head, exeat, free_port, wait_until
from origin import ok

ENTRY = re.compile(r'^REASON\([A-Z_]+, (\w+), (\d+), "(\w*)"')
REGISTRY = {m[1]: SimpleNamespace(status=int(m[2]), error=m[3]) for m in
            map(ENTRY.match, (TREE / "base/reason.def").read_text().splitlines()) if m}
# What only a role out of its mind brings about: unit tests send its messages, and test_jail.py takes one over.
IN_UNIT_TESTS = {"dial_unlisted": "porter.c", "role_violation": "warden.c"}
# Each over a limit of its own, in a gateway where that is small.
IN_OTHER_TESTS = {"gateway_exhausted": "test_exhaustion.py", "sandbox_quarantined": "test_quarantine.py", "service_closed": "test_service.py", "token_spent": "test_single_use.py",
                  **{code: "test_transparent.py" for code in ("sni_missing", "protocol_unknown", "host_missing", "proxy_request")},
                  "handoff_undeclared": "test_handoffs.py", "handoff_unreadable": "test_handoffs.py",
                  "token_unmapped": "test_pipelines.py", "issuer_unavailable": "test_pipelines.py",
                  "token_key_unpublished": "test_pipelines.py",
                  **{code: "test_dns.py" for code in ("question_malformed", "question_not_supported", "limit_questions")},
                  **{code: "test_websocket.py" for code in ("websocket_frame", "websocket_message", "upstream_websocket")},
                  "websocket_handshake": "test_websocket_handshake.py", "stream_idle": "test_websocket_end.py",
                  "identity_shared": "test_credential.py", "credential_unavailable": "test_credential.py",
                  "exchange_failed": "test_exchange.py", "credential_reflected": "test_reflection.py", "answer_unscannable": "test_reflection.py",
                  **{"limit_" + what: "test_limits.py" for what in (
    "connections", "exchanges", "dials", "lookups", "handshakes", "records", "denials", "bytes", "urls", "names")}}

PLAIN = """
  {name}:
    hosts: [{name}.test]
    plain-ports: [80]
    {address}
    allow: ["GET,HEAD /pkg/**", "POST /up/**", "GET /team/{{team}}/x", "GET /query?a=*"]
    deny: ["GET /pkg/secret/**"]
    bind: {{ team: [red] }}
    scope: web
    target: 1k
    body: 100k
    audit: "{audit}"
"""
TLS = """
  {name}:
    hosts: [{host}]
    addresses: ["127.0.0.1:{port}"]
    ca-file: {ca}
    allow: ["GET /pkg/**"]
    scope: web
    audit: "waived: test"
"""
LIMITS = """limits: {header-time: 1s, response-time: 1s, body-time: 1s, handshake-time: 2s, dial-time: 5s, overrun: 0s,
         token-failures: 3, head: 8k, credential: 4k}
"""


class NameServer:
    """Answers NXDOMAIN to every question but those for slow.test, which it leaves unanswered."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            question, source = self.socket.recvfrom(4096)
            if b"\x04slow\x04test" not in question:
                end = question.index(b"\0", 12) + 5
                flags_and_counts = struct.pack(">5H", 0x8183, 1, 0, 0, 0)
                self.socket.sendto(question[:2] + flags_and_counts + question[12:end], source)


class Blunt:
    """Says something that is no TLS, and closes."""

    def __init__(self):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            connection, _ = self.socket.accept()
            connection.sendall(b"220 welcome\r\n")
            connection.close()


@pytest.fixture(scope="module")
def silent():
    """Accepts nothing: connections wait in its queue, and nothing is ever said."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as s:
        yield s.getsockname()[1]


def listed(gateway, origins, pki, silent):
    def plain(name, where, audit="waived: test"):
        return PLAIN.format(name=name, audit=audit, address=f'addresses: ["{where}"]' if where else "")

    def tls(name, host, port, ca=pki[0]):
        return TLS.format(name=name, host=host, port=port, ca=ca)

    here = f"127.0.0.1:{origins[1].port}"
    return "".join([
        plain("web", here), plain("closed", here, audit=""), plain("self", f"127.0.0.1:{gateway.publish}"),
        plain("refusing", f"127.0.0.1:{free_port()}"), plain("failing", "[fe80::1]:80"),
        plain("gone", ""), plain("slow", ""),
        tls("tls", "registry.test", origins[0].port), tls("distrusted", "other.test", origins[0].port, "ca/root.pem"),
        tls("not-tls", "upload.test", Blunt().port), tls("silent", "pypi.registry.test", silent),
        tls("fresh", "npm.registry.test", origins[0].port),
    ])


@pytest.fixture(scope="module")
def gateway(tmp_path_factory, origins, pki, silent):
    names = NameServer()
    extra = LIMITS + f'resolver: {{servers: ["127.0.0.1:{names.port}"], timeout: 1s}}'
    g = Gateway(tmp_path_factory.mktemp("reasons") / "state", "  {}", extra=extra)
    g.write(listed(g, origins, pki, silent))
    g.start()
    g.origins, g.names = origins, names
    g.wide = g.token("web")
    yield g
    assert g.stop() == 0, g.output().decode()


# ---- speaking


def ask(g, target="http://web.test/pkg/a", token="wide", method="GET", fields="", body=b"", source="127.0.0.1",
        host=None, version="1.1"):
    """One request in absolute form, and the answer."""
    credential = g.wide if token == "wide" else token
    host = host or target.split("/")[2]
    head = f"{method} {target} HTTP/{version}\r\nHost: {host}\r\n{fields}"
    if credential:
        head += f"Proxy-Authorization: Bearer {credential}\r\n"
    if body:
        head += f"Content-Length: {len(body)}\r\n"
    wire = connect(g, source)
    wire.send(head.encode() + b"\r\n" + body)
    answer = wire.response()
    wire.close()
    return answer


def connect(g, source="127.0.0.1"):
    s = socket.create_connection(("127.0.0.1", g.port), 60, source_address=(source, 0))
    return Wire(s)


def plain_get(g):
    return f"GET http://web.test/pkg/a HTTP/1.1\r\nHost: web.test\r\nProxy-Authorization: Bearer {g.wide}\r\n\r\n"


def connect_to(g, host, port=443):
    wire = connect(g)
    wire.send(connect_head(host, g.wide, port))
    return wire.response("CONNECT")


def recorded(g, kind, code):
    return lambda: g.wait_for(kind=kind, reason=code)


class Script:
    def __init__(self, origin, script):
        self.origin, self.script = origin, script

    def __enter__(self):
        self.origin.script = self.script

    def __exit__(self, *_):
        self.origin.script = ok


def with_answer(g, raw, **more):
    with Script(g.origins[1], lambda r: raw):
        return ask(g, **more)


# ---- forged tokens: everything right but one thing


def forge(g, key=None, header=None, **claims):
    private = (g.directory / "issuer/local.key").read_text()
    kid = json.loads((g.directory / "issuer/local.jwks").read_text())["keys"][0]["kid"]
    now = int(time.time())
    body = {"iss": "https://gw.test/local", "aud": "gw.test", "sub": "sb-1", "client_id": "x",
            "jti": os.urandom(8).hex(), "iat": now, "exp": now + 600, "scope": "web", **claims}
    head = {"typ": "at+jwt", "kid": kid, **(header or {})}
    return jwt.encode({k: v for k, v in body.items() if v is not None}, key or private, algorithm="ES256", headers=head)


def other_key():
    words = ["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout"]
    return subprocess.run(words, capture_output=True, check=True, text=True).stdout


def unsigned(g):
    head, body, _ = forge(g).split(".")
    none = urlsafe_b64encode(b'{"alg":"none","typ":"at+jwt","kid":"x"}').rstrip(b"=").decode()
    return f"{none}.{body}.AAAA"


DETAILS = [{"type": "http_egress", "locations": ["elsewhere.test"], "actions": ["GET"]}]
TOKENS = {
    "token_missing": lambda g: None,
    "token_malformed": lambda g: "not-a-token",
    "token_oversize": lambda g: "x" * 5000,
    "token_algorithm": unsigned,
    "token_key_unknown": lambda g: forge(g, header={"kid": "nobody"}),
    "token_signature": lambda g: forge(g, key=other_key()),
    "token_issuer": lambda g: forge(g, iss="https://else.test"),
    "token_audience": lambda g: forge(g, aud="gw.else"),
    "token_type": lambda g: forge(g, header={"typ": "dpop+jwt"}),
    "token_claims": lambda g: forge(g, sub=None),
    "token_lifetime": lambda g: forge(g, exp=int(time.time()) + 90000),
    "token_not_yet_valid": lambda g: forge(g, nbf=int(time.time()) + 300),
    "token_expired": lambda g: forge(g, iat=int(time.time()) - 900, exp=int(time.time()) - 300),
    "token_binding": lambda g: forge(g, cnf={"exeat-listener": "elsewhere"}),
    "scope_missing": lambda g: forge(g, scope="other"),
    "details_not_allowed": lambda g: forge(g, authorization_details=DETAILS),
}


def token_revoked(g):
    token = g.token("web", sandbox="sb-revoked")
    exeat("token", "revoke", "--sandbox", "sb-revoked", config=g.config)
    return ask(g, token=token)


def token_failures(g):
    for _ in range(4):
        answer = ask(g, token=forge(g, key=other_key()), source="127.0.0.99")
    return answer


def token_foreign(g):
    wire = g.tunnel("registry.test", g.wide)
    other = g.token("web", sandbox="sb-2")
    wire.send(f"GET /pkg/a HTTP/1.1\r\nHost: registry.test\r\nProxy-Authorization: Bearer {other}\r\n\r\n")
    return wire.response()


def canary(g):
    return json.loads((g.directory / "canaries.json").read_text())["canaries"][0]["value"]


# ---- requests


REQUESTS = {
    "host_not_listed": dict(target="http://elsewhere.test/pkg/a"),
    "host_invalid": dict(target="http://10.1.2.3/pkg/a"),
    "authority_mismatch": dict(host="other.test"),
    "scheme_not_allowed": dict(target="http://registry.test:443/pkg/a"),
    "method_not_allowed": dict(method="DELETE"),
    "path_not_allowed": dict(target="http://web.test/else"),
    "path_invalid": dict(target="http://web.test/pkg/../a"),
    "query_not_allowed": dict(target="http://web.test/query?b=1"),
    "denied_by_rule": dict(target="http://web.test/pkg/secret/a"),
    "bind_not_allowed": dict(target="http://web.test/team/blue/x"),
    "credential_foreign": dict(fields="Authorization: Bearer abc\r\n"),
    "handoff_unattested": dict(target="http://closed.test/pkg/a"),
    "upgrade_not_allowed": dict(fields="Connection: upgrade\r\nUpgrade: websocket\r\n"),
    "trace_refused": dict(method="TRACE"),
    "loop_detected": dict(fields="Via: 1.1 gw.test\r\n"),
    "request_malformed": dict(fields="Content-Length: 1\r\nTransfer-Encoding: chunked\r\n"),
    "not_a_proxy_request": dict(target="/", host="gw.test"),
    "head_too_large": dict(fields="X-Long: " + "x" * 9000 + "\r\n"),
    "target_too_long": dict(target="http://web.test/pkg/" + "a" * 1100),
    "body_too_large": dict(target="http://web.test/up/x", method="POST", body=bytes(200_000)),
    "version_not_supported": dict(version="2.0"),
    "expectation_failed": dict(target="http://web.test/up/x", method="POST", fields="Expect: the-best\r\n", body=b"x"),
    "unscannable": dict(target="http://web.test/up/x", method="POST", fields="Content-Encoding: br\r\n", body=b"x"),
    "address_denied": dict(target="http://self.test/pkg/a"),
    "connect_refused": dict(target="http://refusing.test/pkg/a"),
    "connect_failed": dict(target="http://failing.test/pkg/a"),
    "name_not_resolved": dict(target="http://gone.test/pkg/a"),
    "name_timeout": dict(target="http://slow.test/pkg/a"),
}


def request_timeout(g):
    wire = connect(g)
    wire.send("GET http://web.test/pkg/a HTTP/1.1\r\nHost: web")
    return wire.response()


def canary_leak(g):
    return ask(g, target="http://web.test/up/x", method="POST", body=canary(g).encode())


def token_leak(g):
    return ask(g, target="http://web.test/up/x", method="POST", body=g.wide.encode())


# ---- the gateway's own parts


def killed(g, role, request):
    """The role is killed again and again, so that its restart waits longer, until a request meets its absence."""
    def absent():
        for pid in g.pids(role):
            os.kill(pid, signal.SIGKILL)
        answer = request()
        return answer if answer.status != 200 else None

    answer = wait_until(absent, f"a request without {role}")
    wait_until(lambda: g.pids(role) and request().status == 200, f"{role} to be back")
    return answer


def fresh_sandbox(g):
    """No connection of another exchange is at hand: it must be dialled."""
    return ask(g, token=g.token("web", sandbox=os.urandom(4).hex()))


def record_unavailable(g):
    return killed(g, "scribe", lambda: ask(g))


def porter_unavailable(g):
    return killed(g, "porter", lambda: fresh_sandbox(g))


def certificate_unavailable(g):
    """A host that nobody has asked for yet: its leaf is not in the cache."""
    return killed(g, "keeper", lambda: connect_to(g, "npm.registry.test"))


def policy_changed(g):
    """Allowed when it was asked, and no longer when the answer comes."""
    asked, go_on, before = threading.Event(), threading.Event(), g.config.read_text()

    def script(r):
        asked.set()
        go_on.wait(60)
        return ok(r)

    with Script(g.origins[1], script):
        wire = connect(g)
        wire.send(plain_get(g))
        assert asked.wait(60)
        g.config.write_text(before.replace("/pkg/**", "/else/**"))
        exeat("reload", config=g.config)
        answer = wire.response()
        go_on.set()
    g.config.write_text(before)
    exeat("reload", config=g.config)
    return answer


# ---- the service


def upstream_timeout(g):
    with Script(g.origins[1], lambda r: time.sleep(3)):
        return ask(g)


# ---- recorded only


def canary_response(g):
    value = canary(g).encode()
    assert with_answer(g, b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(value), value)).status == 200
    return recorded(g, "finding", "canary_response")


def tunnelled(g, host="registry.test", port=443):
    wire = connect(g)
    wire.send(connect_head(host, g.wide, port))
    assert wire.response("CONNECT").status == 200
    return wire


def sni_mismatch(g):
    with pytest.raises(OSError):
        tunnelled(g).start_tls("upload.test", g.root, check=False)
    return recorded(g, "connection", "sni_mismatch")


def client_tls(g):
    wire = tunnelled(g)
    wire.send(b"\x16\x03\x01\x00\x04\x01\x00\x00\x00")  # a ClientHello of no length
    assert wire.is_closed()
    return recorded(g, "connection", "client_tls")


def client_unknown_ca(g):
    with pytest.raises(OSError):
        tunnelled(g).start_tls("registry.test", "/etc/ssl/certs/ca-certificates.crt")
    return recorded(g, "connection", "client_unknown_ca")


def tunnel_not_tls(g):
    wire = tunnelled(g)
    wire.send("GET /pkg/a HTTP/1.1\r\nHost: registry.test\r\n\r\n")
    assert wire.is_closed()
    return recorded(g, "connection", "tunnel_not_tls")


def tunnel_not_plain(g):
    with pytest.raises(OSError):
        tunnelled(g, "web.test", 80).start_tls("web.test", g.root)
    return recorded(g, "connection", "tunnel_not_plain")


def client_closed(g):
    asked = threading.Event()

    def script(r):
        asked.set()
        time.sleep(0.5)
        return ok(r)

    with Script(g.origins[1], script):
        wire = connect(g)
        wire.send(plain_get(g))
        assert asked.wait(60)
        wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
        wire.close()
        found = g.wait_for(kind="result", reason="client_closed")
    return lambda: found


def client_timeout(g):
    """A client that asks for much and reads nothing of it."""
    def script(r):
        yield b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (64 << 20)
        for _ in range(64):
            yield bytes(1 << 20)

    with Script(g.origins[1], lambda r: script(r)):
        wire = connect(g)
        wire.send(plain_get(g))
        found = g.wait_for(kind="result", reason="client_timeout")
        wire.close()
    return lambda: found


def gateway_stopping(g):
    wire = g.tunnel("registry.test", g.wide)
    wire.send("GET /pkg/a HTTP/1.1\r\nHost: registry.test\r\n\r\n")
    wire.response()  # the handshake is over for the gateway, too
    assert g.stop() == 0
    assert wire.is_closed()
    return recorded(g, "connection", "gateway_stopping")


RESPONSES = {
    "upstream_malformed": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc",
    "upstream_closed": None,
    "upstream_proxy_auth": b"HTTP/1.1 407 X\r\nContent-Length: 0\r\n\r\n",
}
CONNECTS = {"upstream_certificate": "other.test", "upstream_tls": "upload.test",
            "connect_timeout": "pypi.registry.test"}
OTHERS = [token_revoked, token_failures, token_foreign, request_timeout, canary_leak, token_leak, upstream_timeout,
          canary_response, sni_mismatch, client_tls, client_unknown_ca, tunnel_not_tls, tunnel_not_plain, client_closed,
          client_timeout, policy_changed, porter_unavailable, certificate_unavailable,
          record_unavailable, gateway_stopping]


def rows():
    """Those that end a process or the gateway come last."""
    table = {"allowed": ask}
    for n, (code, token) in enumerate(TOKENS.items()):  # a source each: failures are counted by source
        table[code] = lambda g, t=token, s=f"127.0.1.{n + 1}": ask(g, token=t(g), source=s)
    for code, words in REQUESTS.items():
        table[code] = lambda g, w=words: ask(g, **w)
    for code, raw in RESPONSES.items():
        table[code] = lambda g, r=raw: with_answer(g, r)
    for code, host in CONNECTS.items():
        table[code] = lambda g, h=host: connect_to(g, h)
    table.update({f.__name__: f for f in OTHERS})
    return table


ROWS = rows()


def check_answer(gateway, code, answer):
    if code == "allowed":
        assert answer.status == 200
        assert gateway.wait_for(kind="decision", action="allow", reason="allowed")
        return
    entry = REGISTRY[code]
    assert (answer.status, answer.reason) == (entry.status, code), answer.line
    assert answer.field("Proxy-Status").startswith(f"gw.test; error={entry.error}")
    if not answer.body:  # of a refused CONNECT the client in these tests reads the head alone
        assert gateway.wait_for(reason=code) if code != "record_unavailable" else True
        return
    problem = json.loads(answer.body)
    assert problem["reason"] == code
    if code == "record_unavailable":
        assert gateway.records(id=problem["exchange"], action="allow") == []
    else:  # what was allowed and failed later has its reason in the result
        assert gateway.wait_for(id=problem["exchange"], reason=code)


@pytest.mark.parametrize("code", ROWS)
def test_reason(gateway, code):
    seen = ROWS[code](gateway)
    if callable(seen):
        assert REGISTRY[code].status in (0, 408, 429, 503)
        assert seen()
    else:
        check_answer(gateway, code, seen)


def test_every_reason_has_a_row():
    assert set(REGISTRY) - {"none"} == set(ROWS) | set(IN_UNIT_TESTS) | set(IN_OTHER_TESTS)
    for code, file in IN_OTHER_TESTS.items():
        assert f'"{code}"' in (TREE / "tests/e2e" / file).read_text()
    for code, file in IN_UNIT_TESTS.items():
        assert f'\\"{code}\\"' in (TREE / "tests/unit" / file).read_text()


def test_the_page_of_reasons_follows_the_registry():
    page = (TREE / "docs/reasons.md").read_text()
    assert re.findall(r"^\| `(\w+)` ", page, re.M) == [code for code in REGISTRY if code != "none"]
