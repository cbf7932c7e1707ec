"""Transparent listeners: what a client says that knows of no proxy, and what it hears. How connections get there: test_steered.py."""
import base64
import json
import os
import socket
import ssl
import subprocess

import pytest

from conftest import BOTH
from gateway import EXEAT, PATIENCE, Closed, Gateway, Wire, basic, exeat, free_port
from steered import ask

SERVICE = """
  {name}:
    hosts: ["{host}"]
    {ports}: [{port}]
    addresses: ["127.0.0.1:{origin}"]
    allow: ["GET,HEAD /**"]
    scope: registry:read
    audit: "waived: test"
    client-credentials: {credentials}
"""


class Door:
    """One transparent listener that a name leads to, and so the port that its clients mean."""

    def __init__(self, name, more=""):
        self.name, self.port, self.more = name, free_port(), more

    def line(self):
        return f'  {self.name}: {{address: "127.0.0.1:{self.port}", mode: transparent{self.more}}}\n'

    def connect(self):
        return Wire(socket.create_connection(("127.0.0.1", self.port), PATIENCE))

    def tls(self, root, host="registry.test"):
        return self.connect().start_tls(host, root)


class Doors:
    def __init__(self, directory, origins, ca):
        self.origins = origins
        token_file = directory / "vm1.jwt"
        self.secure, self.plain = Door("secure"), Door("plain")
        self.bound = Door("bound", f', sandbox: vm1, token-file: "{token_file}"')
        self.own = Door("own", ", sandbox: vm2")
        self.all = [self.secure, self.plain, self.bound, self.own]
        self.ca = ca
        g = self.gateway = Gateway(directory / "state", self.services())
        token_file.touch(0o600)
        token_file.write_text(g.token(BOTH, "vm1"))
        text = g.config.read_text()
        g.config.write_text(text.replace("listen:\n", "listen:\n" + "".join(d.line() for d in self.all), 1))
        g.start()
        self.token = g.token(BOTH)

    def services(self):
        def one(name, host, door, kind="ports", credentials="refuse"):
            text = SERVICE.format(name=name, host=host, port=door.port, ports=kind, credentials=credentials,
                                  origin=self.origins[kind == "plain-ports"].port)
            return text + (f"    ca-file: {self.ca}\n" if kind == "ports" else "")
        return "".join([one("registry", "registry.test", self.secure), one("below", "*.registry.test", self.secure),
                        one("strips", "upload.test", self.secure, credentials="strip"),
                        one("takes", "other.test", self.secure, credentials="allow"),
                        one("in-plain", "registry.test", self.plain, "plain-ports"),
                        one("below-in-plain", "*.registry.test", self.plain, "plain-ports"),
                        one("other-in-plain", "other.test", self.plain, "plain-ports"),
                        one("bound-refuses", "registry.test", self.bound),
                        one("bound-takes", "other.test", self.bound, credentials="allow"),
                        one("own", "registry.test", self.own)])

    def hear(self, wire, text, method="GET"):
        wire.send(text)
        return wire.response(method)

    def seen(self, path):
        return next(r for o in self.origins for r in o.requests if r.target == path)


@pytest.fixture(scope="module")
def here(tmp_path_factory, pki, origins):
    d = Doors(tmp_path_factory.mktemp("doors"), origins, pki[0])
    yield d
    assert d.gateway.stop() == 0, d.gateway.output().decode()[-4000:]


def host(door, name="registry.test"):
    return f"{name}:{door.port}"


# ---- the token


CARRIERS = {
    "Basic with the token as password": lambda t: f"Authorization: {basic(t)}\r\n",
    "Bearer": lambda t: f"Authorization: Bearer {t}\r\n",
    "Exeat-Token": lambda t: f"Exeat-Token: {t}\r\n",
}


@pytest.mark.parametrize("carrier", CARRIERS)
@pytest.mark.parametrize("door", ["secure", "plain"])
def test_the_token_comes_in_the_request_and_goes_no_further(here, door, carrier):
    d = getattr(here, door)
    path = f"/carried/{door}/{len(carrier)}"
    wire = d.tls(here.gateway.root) if door == "secure" else d.connect()
    answer = here.hear(wire, ask(host(d), path, more=CARRIERS[carrier](here.token)))
    assert answer.status == 200, answer.line
    raw = here.seen(path).head.decode()
    assert "uthorization" not in raw and "Exeat-Token" not in raw and here.token not in raw


@pytest.mark.parametrize("fields, reason", [
    ("", "token_missing"),
    ("Proxy-Authorization: Bearer {token}\r\n", "token_missing"),
    ("Authorization: Bearer nonsense\r\n", "token_malformed"),
    ("Authorization: Basic ????\r\n", "token_malformed"),
    ("Authorization: Digest abc\r\n", "token_malformed"),
    ("Authorization: Bearer {token}\r\nAuthorization: Bearer {token}\r\n", "token_malformed"),
    ("Exeat-Token: nonsense\r\n", "token_malformed"),
    ("Exeat-Token: {token}\r\nexeat-token: {token}\r\n", "token_malformed"),
    ("Authorization: Bearer {tampered}\r\n", "token_signature"),
])
def test_without_a_good_token_the_answer_is_401_with_a_challenge(here, fields, reason):
    wire = here.secure.tls(here.gateway.root)
    tampered = here.token[:-8] + ("A" if here.token[-8] != "A" else "B") + here.token[-7:]
    answer = here.hear(wire, ask(host(here.secure), "/pkg/a", more=fields.format(token=here.token, tampered=tampered)))
    assert (answer.status, answer.reason) == (401, reason)
    challenges = [v for k, v in answer.fields if k == "WWW-Authenticate"]
    assert challenges[0].startswith('Basic realm="gw.test"') and challenges[1].startswith('Bearer realm="gw.test"')
    assert answer.field("Proxy-Authenticate") is None
    again = here.hear(wire, ask(host(here.secure), "/pkg/a", here.token))  # and the connection is good for the second try
    assert again.status == 200


def test_a_registry_of_images_is_asked_by_basic_alone(here):
    answer = here.hear(here.secure.tls(here.gateway.root), ask(host(here.secure), "/v2/"))
    assert answer.status == 401 and [v.split()[0] for k, v in answer.fields if k == "WWW-Authenticate"] == ["Basic"]


def test_each_request_is_its_own_token_s(here):
    """Two sandboxes on one connection: each request is of whoever shows its token, and without one of nobody."""
    other = here.gateway.token(BOTH, "sb-2")
    wire = here.secure.tls(here.gateway.root)
    for n, (token, status) in enumerate([(here.token, 200), (other, 200), (None, 401), (here.token, 200)]):
        assert here.hear(wire, ask(host(here.secure), f"/each/{n}", token)).status == status
    decisions = {r["http"]["path"]: r.get("sandbox") for r in here.gateway.wait_for(4, kind="decision", listener="secure")
                 if r.get("http", {}).get("path", "").startswith("/each/")}
    assert decisions == {"/each/0": "sb-1", "/each/1": "sb-2", "/each/2": None, "/each/3": "sb-1"}


def test_with_exeat_token_authorization_is_the_client_s_own(here):
    for name, status, kept in (("registry.test", 403, None), ("upload.test", 200, None), ("other.test", 200, "Bearer mine")):
        path = f"/own/{name}"
        wire = here.secure.tls(here.gateway.root, name)
        answer = here.hear(wire, ask(host(here.secure, name), path, more=f"Exeat-Token: {here.token}\r\nAuthorization: Bearer mine\r\n"))
        assert answer.status == status and (status == 200 or answer.reason == "credential_foreign")
        if status == 200:
            assert here.seen(path).field("Authorization") == kept


def test_the_token_is_stripped_where_the_service_takes_the_client_s_credentials(here):
    wire = here.secure.tls(here.gateway.root, "other.test")
    assert here.hear(wire, ask(host(here.secure, "other.test"), "/strip", here.token)).status == 200
    assert here.seen("/strip").field("Authorization") is None


def test_the_token_elsewhere_is_a_leak(here):
    wire = here.secure.tls(here.gateway.root)
    answer = here.hear(wire, ask(host(here.secure), f"/pkg/a?t={here.token}", here.token))
    assert (answer.status, answer.reason) == (403, "token_leak")


def test_another_token_among_the_client_s_own_credentials_is_a_leak(here):
    other = here.gateway.token(BOTH, "sb-2")
    for door, more in (("secure", f"Exeat-Token: {here.token}\r\n"), ("bound", "")):
        d = getattr(here, door)
        for field in (f"Authorization: Bearer {other}", f"Authorization: {basic(other)}", f"Authorization: Token {other}",
                      f'Authorization: Token token="{other}"', f"Private-Token: {other}", f"Cookie: a=b; session={other}; c=d",
                      f"Cookie: eyJh={other}", f"X-Auth-Token: mine\r\nX-API-Key: {other}"):
            answer = here.hear(d.tls(here.gateway.root, "other.test"), ask(host(d, "other.test"), "/another", more=f"{more}{field}\r\n"))
            assert (answer.status, answer.reason) == (403, "token_leak"), field
        foreign = "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJub2JvZHkifQ." + "A" * 86
        for _ in range(25):  # somebody else's tokens are let through, and no strikes against the source or the listener
            assert here.hear(d.tls(here.gateway.root, "other.test"), ask(host(d, "other.test"), "/foreign", more=f"{more}Authorization: Bearer {foreign}\r\n")).status == 200
        fresh = here.gateway.token(BOTH, "vm1" if door == "bound" else "sb-1")
        assert here.hear(d.tls(here.gateway.root), ask(host(d), "/fresh", more=f"Exeat-Token: {fresh}\r\n")).status == 200
    assert not any(r.target == "/another" for o in here.origins for r in o.requests)


def test_a_token_that_is_shown_again_is_held_against_what_can_change(here):
    token = here.gateway.token(BOTH, "sb-3")
    wire = here.secure.tls(here.gateway.root)
    for _ in range(2):
        assert here.hear(wire, ask(host(here.secure), "/again", token)).status == 200
    exeat("quarantine", "add", "sb-3", config=here.gateway.config)
    with pytest.raises((Closed, OSError)):
        here.hear(wire, ask(host(here.secure), "/again", token))
        here.hear(wire, ask(host(here.secure), "/again", token))
    answer = here.hear(here.secure.tls(here.gateway.root), ask(host(here.secure), "/again", token))
    assert (answer.status, answer.reason) == (403, "sandbox_quarantined")


PLACES = """
  secure: {hosts: [registry.test, "*.below.test"], allow: ["GET /**"], scope: all:read, audit: "waived: test"}
  ported: {hosts: [registry.test], ports: [8443, 9443], allow: ["GET /**"], scope: all:read, audit: "waived: test"}
  plain: {hosts: [deb.test], plain-ports: [80, 8080], allow: ["GET /**"], scope: all:read, audit: "waived: test"}
"""


@pytest.mark.parametrize("client, lines", [
    ("npm", [f"~/.npmrc (mode 0600): //{p}/:_authToken={{token}}" for p in
             ("deb.test", "deb.test:8080", "registry.test", "registry.test:8443", "registry.test:9443")]),
    ("skopeo", [f"run, with the token on standard input: skopeo login --username jwt --password-stdin {p}" for p in
                ("deb.test", "deb.test:8080", "registry.test", "registry.test:8443", "registry.test:9443")]),
    ("docker", [f"run, with the token on standard input: docker login --username jwt --password-stdin {p}" for p in
                ("deb.test", "deb.test:8080", "registry.test", "registry.test:8443", "registry.test:9443")]),
    ("git", [f"~/.netrc (mode 0600): machine {h} login jwt password {{token}}" for h in ("deb.test", "registry.test")]),
    ("apt", [f"/etc/apt/auth.conf (mode 0600): machine {h} login jwt password {{token}}" for h in ("http://deb.test", "registry.test")]),
    ("maven", [f"~/.m2/settings.xml, among servers, with the repository's id: <server><id>{h}</id><username>jwt</username>"
               "<password>{token}</password></server>" for h in ("deb.test", "registry.test")]),
    ("node", ["keeps no password for a host by itself: give it a listener of its own with token-file, where it carries nothing"]),
])
def test_env_says_where_the_token_goes(tmp_path, client, lines):
    """For each place once, with its port where the client asks by port; a wildcard has no place."""
    g = Gateway(tmp_path / "state", PLACES)
    for token, more in (("TOKEN", ()), ("a.b.c", ("--with-token", "-"))):
        said = exeat("env", "--client", client, "--transparent", *more, config=g.config, stdin=token).stdout.splitlines()
        assert [x for x in said if x.startswith("# ")] == [f"# {client}: {line.format(token=token)}" for line in lines]
        assert not any("proxy" in x.lower() for x in said) and any(x.startswith("export ") for x in said)


# ---- bound listeners


def test_a_listener_with_a_token_of_its_own_leaves_authorization_to_the_client(here):
    wire = here.bound.tls(here.gateway.root)
    assert here.hear(wire, ask(host(here.bound), "/bound/a")).status == 200
    refused = here.hear(wire, ask(host(here.bound), "/bound/b", more="Authorization: Bearer mine\r\n"))
    assert (refused.status, refused.reason) == (403, "credential_foreign")
    wire = here.bound.tls(here.gateway.root, "other.test")
    assert here.hear(wire, ask(host(here.bound, "other.test"), "/bound/c", more="Authorization: Bearer mine\r\n")).status == 200
    assert here.seen("/bound/c").field("Authorization") == "Bearer mine"
    assert here.gateway.wait_for(3, kind="decision", listener="bound", sandbox="vm1")


def test_a_listener_of_one_sandbox_takes_no_other_s_token(here):
    wire = here.own.tls(here.gateway.root)
    refused = here.hear(wire, ask(host(here.own), "/own/a", here.token))
    assert (refused.status, refused.reason) == (401, "token_binding")
    assert here.hear(wire, ask(host(here.own), "/own/a", here.gateway.token(BOTH, "vm2"))).status == 200


# ---- names


@pytest.mark.parametrize("door, text, status, reason", [
    ("secure", lambda d, t: ask("other.test:%d" % d.port, token=t), 421, "authority_mismatch"),
    ("secure", lambda d, t: ask("registry.test", token=t), 421, "authority_mismatch"),
    ("secure", lambda d, t: ask("", token=t), 400, "host_missing"),
    ("secure", lambda d, t: ask("127.0.0.1:%d" % d.port, token=t), 400, "host_invalid"),
    ("secure", lambda d, t: ask(host(d), "https://" + host(d) + "/pkg", t), 400, "proxy_request"),
    ("secure", lambda d, t: ask(host(d), host(d), t, "CONNECT"), 400, "proxy_request"),
    ("plain", lambda d, t: ask("", token=t), 400, "host_missing"),
    ("plain", lambda d, t: ask("", token=t, version="1.0"), 400, "host_missing"),
    ("plain", lambda d, t: ask("registry.test", token=t), 421, "authority_mismatch"),
    ("plain", lambda d, t: ask("127.0.0.1:%d" % d.port, token=t), 400, "host_invalid"),
    ("plain", lambda d, t: ask("[::1]:%d" % d.port, token=t), 400, "host_invalid"),
    ("plain", lambda d, t: ask("elsewhere.test:%d" % d.port, token=t), 403, "host_not_listed"),
    ("plain", lambda d, t: ask(host(d), "http://" + host(d) + "/pkg", t), 400, "proxy_request"),
    ("plain", lambda d, t: ask(host(d), host(d), t, "CONNECT"), 400, "proxy_request"),
    ("plain", lambda d, t: ask(host(d), token=t, more="Via: 1.1 gw.test\r\n"), 508, "loop_detected"),
    ("secure", lambda d, t: ask(host(d), token=t, more="Via: 1.1 gw.test\r\n"), 508, "loop_detected"),
], ids=lambda v: v if isinstance(v, str) else None)
def test_what_is_not_one_name_is_refused(here, door, text, status, reason):
    d = getattr(here, door)
    wire = d.tls(here.gateway.root) if door == "secure" else d.connect()
    answer = here.hear(wire, text(d, here.token), "GET")
    assert (answer.status, answer.reason) == (status, reason), answer.line


def test_hosts_of_one_plain_connection_may_differ(here):
    wire = here.plain.connect()
    for name in ("registry.test", "other.test", "registry.test"):
        assert here.hear(wire, ask(host(here.plain, name), f"/hosts/{name}", here.token)).status == 200
        assert here.seen(f"/hosts/{name}").field("Host").split(":")[0] == name


def test_http_1_0_needs_no_host_within_tls(here):
    answer = here.hear(here.secure.tls(here.gateway.root), ask("", "/old", here.token, version="1.0"))
    assert answer.status == 200


def alert(door, name):
    """What TLS says to a client that asks for this name."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    s = socket.create_connection(("127.0.0.1", door.port), PATIENCE)
    with pytest.raises((ssl.SSLError, OSError)) as caught:
        context.wrap_socket(s, server_hostname=name)
    s.close()
    return str(caught.value)


@pytest.mark.parametrize("door, name, reason", [
    ("secure", "elsewhere.test", "host_not_listed"),
    ("secure", None, "sni_missing"),
    ("secure", "a" * 41 + ".registry.test", "host_not_listed"),
    ("plain", "registry.test", "scheme_not_allowed"),
    ("own", "other.test", "host_not_listed"),
])
def test_tls_for_no_listed_name_ends_in_an_alert_and_a_record(here, door, name, reason):
    before = len(here.gateway.records(kind="connection", reason=reason, listener=door))
    assert "UNRECOGNIZED_NAME" in alert(getattr(here, door), name).upper()
    record = here.gateway.wait_for(before + 1, kind="connection", reason=reason, listener=door)[-1]
    assert record["arrival"] == "direct" and record["meant"].endswith(f":{getattr(here, door).port}")


@pytest.mark.parametrize("bytes_", [b"\x00", b"\x80\x2e\x01", b"\r\n", b" GET / HTTP/1.1\r\n\r\n", b"\x05\x01\x00"])
def test_what_is_neither_tls_nor_http_is_refused(here, bytes_):
    before = len(here.gateway.records(kind="connection", reason="protocol_unknown"))
    wire = here.secure.connect()
    wire.send(bytes_)
    assert wire.is_closed()
    here.gateway.wait_for(before + 1, kind="connection", reason="protocol_unknown")


def test_nothing_is_dialled_before_a_request_is_allowed(here):
    """No handshake, and no request that is refused, reaches the service's machine; the record comes before the dial."""
    dials = len(here.gateway.records(kind="dial"))
    connections = here.origins[0].connections
    wire = here.secure.tls(here.gateway.root, "fresh.registry.test")
    assert here.hear(wire, ask(host(here.secure, "fresh.registry.test"), "/dial")).status == 401
    assert here.hear(wire, ask(host(here.secure, "fresh.registry.test"), "/dial", here.token, "DELETE")).status == 403
    assert len(here.gateway.records(kind="dial")) == dials and here.origins[0].connections == connections
    here.hear(wire, ask(host(here.secure, "fresh.registry.test"), "/dial", here.token))
    here.gateway.wait_for(dials + 1, kind="dial")
    allowed = next(r for r in here.gateway.records(kind="decision", action="allow") if r["http"]["host"] == "fresh.registry.test")
    kinds = [r["kind"] for r in here.gateway.records(id=allowed["id"])]
    assert kinds.index("decision") < kinds.index("dial")


def test_a_session_of_tls_is_resumed_for_its_name_and_listener_alone(here):
    def connect(door, session=None, name="registry.test"):
        context = ssl.create_default_context(cafile=str(here.gateway.root))
        s = context.wrap_socket(socket.create_connection(("127.0.0.1", door.port), PATIENCE), server_hostname=name) if session is None \
            else session[0].wrap_socket(socket.create_connection(("127.0.0.1", door.port), PATIENCE), server_hostname=name, session=session[1])
        here.hear(Wire(s), ask(host(door, name), "/resume", here.token))
        return s, (s.context, s.session)

    first, session = connect(here.secure)
    while not session[1].has_ticket:  # who has not shown one for long gets one now and then
        first, session = connect(here.secure)
    assert not first.session_reused
    assert connect(here.secure, session)[0].session_reused
    assert not connect(here.own, session)[0].session_reused
    assert not connect(here.secure, session, "other.test")[0].session_reused


def canary(here):
    """One that could be a label."""
    found = json.loads((here.gateway.directory / "canaries.json").read_text())["canaries"]
    return next(c["value"] for c in found if c["value"].isalnum() and len(c["value"]) <= 40)


@pytest.mark.parametrize("suffix", ["registry.test", "elsewhere.test"])
def test_a_canary_in_the_name_that_tls_asks_for_is_refused_and_in_no_record(here, suffix):
    before = len(here.gateway.records(kind="connection", reason="canary_leak"))
    r = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{here.secure.port}", "-servername", f"{canary(here)}.{suffix}"],
                       stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE)
    assert "unrecognized name" in r.stderr
    here.gateway.wait_for(before + 1, kind="connection", reason="canary_leak")
    assert canary(here).lower() not in json.dumps(here.gateway.records()).lower()


def cut(text, size):
    return ".".join(text[i:i + size] for i in range(0, len(text), size))


HIDDEN = {
    "in lower case": str.lower,
    "in upper case": str.upper,
    "over two labels": lambda v: cut(v, 20),
    "over single letters": lambda v: cut(v, 1),
    "in hexadecimal": lambda v: cut(v.encode().hex(), 40),
    "in base32": lambda v: cut(base64.b32encode(b"x" + v.encode()).decode().rstrip("=").lower(), 33),
    "in base64, folded": lambda v: cut(base64.b64encode(v.encode()).decode().rstrip("=").lower(), 30),
}


@pytest.mark.parametrize("how", HIDDEN)
def test_what_a_label_can_say_of_a_canary_is_not_looked_up(here, how):
    """Below a suffix the client chooses the name, and a name server would hear it: by SNI, by Host, by CONNECT."""
    name = HIDDEN[how](canary(here)) + ".registry.test"
    dials = len(here.gateway.records(kind="dial"))
    before = len(here.gateway.records(kind="connection", reason="canary_leak"))
    assert "UNRECOGNIZED_NAME" in alert(here.secure, name).upper()
    here.gateway.wait_for(before + 1, kind="connection", reason="canary_leak")
    answer = here.hear(here.plain.connect(), ask(host(here.plain, name), "/leak", here.token))
    assert (answer.status, answer.reason) == (403, "canary_leak")
    wire = here.gateway.connect()
    wire.send(f"CONNECT {name}:{here.secure.port} HTTP/1.1\r\nHost: {name}\r\nProxy-Authorization: Bearer {here.token}\r\n\r\n")
    assert wire.response("CONNECT").reason == "canary_leak"
    assert len(here.gateway.records(kind="dial")) == dials
    assert canary(here).lower() not in json.dumps(here.gateway.records()).lower() and name.lower() not in json.dumps(here.gateway.records()).lower()


@pytest.mark.parametrize("suffix", ["registry.test", "elsewhere.test"])
def test_a_canary_in_the_host_of_plain_http_is_a_leak(here, suffix):
    answer = here.hear(here.plain.connect(), ask(host(here.plain, f"{canary(here)}.{suffix}"), "/leak", here.token))
    assert (answer.status, answer.reason) == ((403, "canary_leak") if suffix == "registry.test" else (403, "host_not_listed"))
    assert canary(here).lower() not in json.dumps(here.gateway.records()).lower()


def test_silence_is_closed_silently(here):
    wire = here.secure.connect()
    wire.half_close()
    assert wire.is_closed() and not wire.buffer


def test_handshakes_of_a_source_that_has_shown_no_token_are_limited(tmp_path, pki, origins):
    d = Door("steered")
    g = Gateway(tmp_path / "state", SERVICE.format(name="registry", host="registry.test", port=d.port, ports="ports", credentials="refuse",
                                                   origin=origins[0].port) + f"    ca-file: {pki[0]}\n", extra="limits: {failed-handshakes: 3}")
    g.config.write_text(g.config.read_text().replace("listen:\n", "listen:\n" + d.line(), 1))
    g.start()
    for _ in range(3):
        assert "UNRECOGNIZED_NAME" in alert(d, "elsewhere.test").upper()
    assert "UNRECOGNIZED_NAME" not in alert(d, "registry.test").upper()  # not even looked at
    g.wait_for(kind="limit", reason="limit_handshakes")
    assert g.stop() == 0


def test_what_is_not_given_for_tproxy_is_said_at_the_start_and_in_status(tmp_path, pki, origins):
    d = Door("steered")
    g = Gateway(tmp_path / "state", SERVICE.format(name="registry", host="registry.test", port=d.port, ports="ports", credentials="refuse",
                                                   origin=origins[0].port) + f"    ca-file: {pki[0]}\n")
    g.config.write_text(g.config.read_text().replace("listen:\n", "listen:\n" + d.line(), 1))
    serve = [str(EXEAT), "-c", str(g.config), "serve"]
    g.start(["setpriv", "--bounding-set", "-net_raw,-net_admin", "--", *serve] if os.geteuid() == 0 else serve)
    line = "listen.steered: no TPROXY: Operation not permitted"
    assert line in g.output().decode() and line in exeat("status", config=g.config, check=False).stdout
    wire = d.tls(g.root)  # and the rest of it works
    wire.send(ask(host(d), "/pkg/a", g.token(BOTH)))
    assert wire.response().status == 200
    assert g.stop() == 0


def test_the_journal_is_whole(here):
    assert here.gateway.verify()
