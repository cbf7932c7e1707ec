"""listen.NAME.tls: clients that speak TLS to the gateway itself, their certificates, and tokens that are bound to one (RFC 8705)."""
import datetime
import re
import socket
import ssl
import subprocess
import threading

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from conftest import BOTH, services
from gateway import EXEAT, PATIENCE, TREE, Gateway, Wire, clean_environment, exeat, free_port
from load import request
from origin import ok


def key_and_cert(directory, name, ca=None, hosts=(), is_ca=False):
    """NAME.key and NAME.pem; signed by ca, another of these, or by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.timezone.utc)
    built = (x509.CertificateBuilder().subject_name(subject).issuer_name(ca[1].subject if ca else subject).public_key(key.public_key())
             .serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(days=1))
             .not_valid_after(now + datetime.timedelta(days=1)).add_extension(x509.BasicConstraints(is_ca, None), True))
    if hosts:
        built = built.add_extension(x509.SubjectAlternativeName([x509.DNSName(h) for h in hosts]), False)
    cert = built.sign(ca[0] if ca else key, hashes.SHA256())
    (directory / f"{name}.key").touch(0o600)
    (directory / f"{name}.key").write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                                                              serialization.NoEncryption()))
    (directory / f"{name}.pem").write_bytes(cert.public_bytes(serialization.Encoding.PEM))
    return key, cert


@pytest.fixture(scope="module")
def certs(tmp_path_factory):
    directory = tmp_path_factory.mktemp("certs")
    ca = key_and_cert(directory, "ca", is_ca=True)
    clients = key_and_cert(directory, "clients", is_ca=True)
    key_and_cert(directory, "gw", ca, hosts=["gw.test", "localhost"])
    key_and_cert(directory, "vm1", clients)
    key_and_cert(directory, "vm2", clients)
    key_and_cert(directory, "foreign", key_and_cert(directory, "others", is_ca=True))
    return directory


def listen(g, name, certs, extra=""):
    port = free_port()
    line = f'  {name}: {{address: "127.0.0.1:{port}", tls: {{cert: "{certs}/gw.pem", key: "{certs}/gw.key"{extra}}}}}\n'
    g.config.write_text(g.config.read_text().replace("listen:\n", "listen:\n" + line, 1))
    return port


@pytest.fixture(scope="module")
def own(tmp_path_factory, pki, origins, certs):
    g = Gateway(tmp_path_factory.mktemp("tls") / "state", services(origins[0].port, origins[1].port, pki[0]), workers=2)
    g.tls = listen(g, "tls", certs)
    g.mutual = listen(g, "mutual", certs, f', client-ca: "{certs}/clients.pem"')
    g.start()
    yield g
    assert g.stop() == 0, g.output().decode()[-4000:]


def curl(g, port, certs, url, token, *words, client=None, check=True):
    """Through the proxy, by TLS to it; its output is the body and the status."""
    command = ["curl", "-sS", "--http1.1", "--proxy", f"https://localhost:{port}", "--proxy-cacert", f"{certs}/ca.pem", "--cacert", g.root,
               "--proxy-header", f"Proxy-Authorization: Bearer {token}", "-w", "\n%{http_code} %{http_connect}", *words, url]
    if client:
        command[1:1] = ["--proxy-cert", f"{certs}/{client}.pem", "--proxy-key", f"{certs}/{client}.key"]
    r = subprocess.run([str(w) for w in command], capture_output=True, timeout=PATIENCE, env=clean_environment())
    if check:
        assert r.returncode == 0, r.stderr.decode()
    return r


def status_of(r):
    return r.stdout.rsplit(b"\n", 1)[1].decode().split()


# ---- TLS to the gateway, and TLS in that


def test_a_plain_request_by_tls(own, certs):
    r = curl(own, own.tls, certs, "http://registry.test/pkg/x", own.token(BOTH))
    assert status_of(r) == ["200", "000"] and r.stdout.startswith(b"ok")


def test_a_tunnel_by_tls_has_its_own_tls_within(own, certs):
    url = "https://registry.test/pkg/x"
    r = curl(own, own.tls, certs, url, own.token(BOTH), url, url)  # three on one connection
    assert status_of(r)[0] == "200" and r.stdout.count(b"ok") == 3 and b"200 200" in r.stdout


def test_much_goes_both_ways(own, certs, origins, tmp_path):
    big = bytes(range(256)) * 4000
    (tmp_path / "big").write_bytes(big)
    token = own.token(BOTH)
    for origin, scheme in (origins[0], "https"), (origins[1], "http"):
        origin.script = lambda r: b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(big) + big
        try:
            r = curl(own, own.tls, certs, f"{scheme}://registry.test/pkg/big", token)
            assert r.stdout.rsplit(b"\n", 1)[0] == big
        finally:
            origin.script = ok
        origin.clear()
        r = curl(own, own.tls, certs, f"{scheme}://upload.test/up/big", token, "--data-binary", f"@{tmp_path}/big", "-H", "Expect:")
        assert status_of(r)[0] == "200", r.stdout[-300:]
        assert origin.requests[-1].body == big


def test_a_refusal_can_be_read(own, certs):
    r = curl(own, own.tls, certs, "https://elsewhere.test/", own.token(BOTH), check=False)
    assert status_of(r)[1] == "403"
    r = curl(own, own.tls, certs, "http://registry.test/pkg/x", "garbage")
    assert status_of(r)[0] == "407"


def test_who_does_not_speak_tls_is_told_nothing(own):
    before = len(own.records(kind="connection", reason="client_tls"))
    wire = Wire(socket.create_connection(("127.0.0.1", own.tls), PATIENCE))
    wire.send(request("/pkg/x", own.token(BOTH)))
    assert b"HTTP/1.1" not in wire.rest()
    assert own.wait_for(before + 1, kind="connection", reason="client_tls")


# ---- clients' certificates


@pytest.mark.parametrize("client", [None, "foreign"])
def test_without_a_certificate_of_the_listed_ca_nobody_comes_in(own, certs, client):
    before = len(own.records(kind="connection", listener="mutual"))
    r = curl(own, own.mutual, certs, "http://registry.test/pkg/x", own.token(BOTH), client=client, check=False)
    assert r.returncode != 0 and status_of(r)[0] == "000"
    assert own.wait_for(before + 1, kind="connection", listener="mutual")


def test_with_one_a_client_goes_out(own, certs):
    for scheme in "http", "https":
        r = curl(own, own.mutual, certs, f"{scheme}://registry.test/pkg/x", own.token(BOTH), client="vm1")
        assert status_of(r)[0] == "200"


def bound_token(g, certs, client, **more):
    return g.token(BOTH, sandbox=client, certificate=str(certs / f"{client}.pem"), **more)


def test_a_token_bound_to_a_certificate_is_good_with_that_one_alone(own, certs):
    token = bound_token(own, certs, "vm1")
    for url in "http://registry.test/pkg/x", "https://registry.test/pkg/x":
        assert status_of(curl(own, own.mutual, certs, url, token, client="vm1"))[0] == "200"
        stolen = status_of(curl(own, own.mutual, certs, url, token, client="vm2", check=False))
        assert "407" in stolen
    assert own.wait_for(2, kind="decision", action="deny", reason="token_binding", listener="mutual")


def test_what_the_page_says_goes_out(own, certs, tmp_path):
    """docs/tokens.md: the two commands, with this gateway's places in place of the page's."""
    page = (TREE / "docs/tokens.md").read_text().split("## TLS to the gateway", 1)[1]
    lines = re.search(r"(?ms)^```sh\n(.*?)^```", page)[1]
    places = {"npm:read": f"'{BOTH}'", "https://gw.example:3128": f"https://localhost:{own.mutual}", "gw-ca.pem": f"{certs}/ca.pem",
              "vm1.pem": f"{certs}/vm1.pem", "vm1.key": f"{certs}/vm1.key", "/etc/exeat/bundle.pem": str(own.root),
              "https://npm.example/left-pad": "https://registry.test/pkg/x"}
    for there, here in places.items():
        assert there in lines, f"the page no longer says {there}"
        lines = lines.replace(there, here)
    environment = clean_environment(PATH=f"{EXEAT.parent}:/usr/bin:/bin", EXEAT_CONFIG=str(own.config))
    said = subprocess.run(["sh", "-ec", lines], cwd=tmp_path, capture_output=True, timeout=PATIENCE, env=environment)
    assert said.stdout == b"ok", said.stderr.decode()


@pytest.mark.parametrize("port", ["tls", "port"])
def test_it_is_refused_where_no_certificate_is_shown(own, certs, port):
    token = bound_token(own, certs, "vm1")
    if port == "tls":  # curl shows one only when it is asked to
        assert status_of(curl(own, own.tls, certs, "http://registry.test/pkg/x", token, client="vm1"))[0] == "407"
    else:
        wire = own.connect()
        wire.send(request("/pkg/x", token))
        assert wire.response().reason == "token_binding"


def test_bound_to_listener_and_certificate_it_needs_both(own, certs):
    token = bound_token(own, certs, "vm1", listener="mutual")
    assert status_of(curl(own, own.mutual, certs, "http://registry.test/pkg/x", token, client="vm1"))[0] == "200"
    token = bound_token(own, certs, "vm1", listener="tls")
    assert status_of(curl(own, own.mutual, certs, "http://registry.test/pkg/x", token, client="vm1"))[0] == "407"


# ---- the configuration


@pytest.mark.parametrize("tls, text", [
    ('{{cert: "{0}/gw.pem"}}', "tls has cert and key, or neither"),
    ('{{key: "{0}/gw.key"}}', "tls has cert and key, or neither"),
    ('{{client-ca: "{0}/clients.pem"}}', "tls.client-ca needs tls.cert and tls.key"),
    ('{{cert: "{0}/gw.pem", key: "{0}/vm1.key"}}', "the key: key values mismatch"),
    ('{{cert: "{0}/gw.key", key: "{0}/gw.key"}}', "the certificate:"),
    ('{{cert: "{0}/none.pem", key: "{0}/gw.key"}}', "none.pem"),
    ('{{cert: "{0}/gw.pem", key: "{0}/gw.pem"}}', "chmod 600"),
])
def test_what_the_configuration_refuses(tmp_path, certs, tls, text):
    g = Gateway(tmp_path / "state", "  {}")
    g.config.write_text(g.config.read_text().replace("listen:\n", f'listen:\n  t: {{address: "127.0.0.1:1", tls: {tls.format(certs)}}}\n', 1))
    r = exeat("config", "check", config=g.config, check=False)
    assert r.returncode == 2 and text in r.stderr and "proxy.conf:" in r.stderr, r.stderr


def client_of(port, certs, client=None):
    """A connection to the listener by TLS; it is kept."""
    context = ssl.create_default_context(cafile=str(certs / "ca.pem"))
    if client:
        context.load_cert_chain(certs / f"{client}.pem", certs / f"{client}.key")
    return Wire(context.wrap_socket(socket.create_connection(("127.0.0.1", port), PATIENCE), server_hostname="localhost"))


def test_who_came_in_by_a_ca_that_is_gone_is_let_go(tmp_path, certs, pki, origins):
    """Idle or in a tunnel; an exchange that is open ends first. Who was asked for nothing stays."""
    g = Gateway(tmp_path / "state", services(origins[0].port, origins[1].port, pki[0]))
    shown = tmp_path / "clients.pem"
    shown.write_bytes((certs / "clients.pem").read_bytes())
    mutual, other = listen(g, "mutual", certs, f', client-ca: "{shown}"'), listen(g, "tls", certs)
    token = g.start().token(BOTH)
    idle, asking, stays = client_of(mutual, certs, "vm1"), client_of(mutual, certs, "vm1"), client_of(other, certs)
    for wire in idle, stays:
        wire.send(request("/pkg/x", token, close=False))
        assert wire.response().status == 200
    begun, go = threading.Event(), threading.Event()

    def late(r):
        begun.set()
        go.wait(PATIENCE)
        return ok(r)
    origins[1].script = late
    try:
        asking.send(request("/pkg/y", token, close=False))
        assert begun.wait(PATIENCE)
        shown.write_bytes((certs / "others.pem").read_bytes())
        exeat("reload", config=g.config)
        assert idle.is_closed()
    finally:
        go.set()
        origins[1].script = ok
    assert asking.response().status == 200 and asking.is_closed()
    stays.send(request("/pkg/x", token, close=False))
    assert stays.response().status == 200
    fresh = client_of(mutual, certs, "foreign")
    fresh.send(request("/pkg/x", g.token(BOTH, sandbox="sb-2"), close=False))
    assert fresh.response().status == 200
    assert g.stop() == 0


def test_a_reload_takes_another_certificate_and_lets_connections_be(tmp_path, certs, pki, origins):
    g = Gateway(tmp_path / "state", services(origins[0].port, origins[1].port, pki[0]))
    for name in "gw.pem", "gw.key":
        (tmp_path / name).touch(0o600)
        (tmp_path / name).write_bytes((certs / name).read_bytes())
    port = listen(g, "tls", tmp_path)
    g.start()
    try:
        token = g.token(BOTH)
        assert status_of(curl(g, port, certs, "http://registry.test/pkg/x", token))[0] == "200"
        ca = key_and_cert(tmp_path, "ca", is_ca=True)
        key_and_cert(tmp_path, "gw", ca, hosts=["localhost"])
        exeat("reload", config=g.config)
        assert curl(g, port, certs, "http://registry.test/pkg/x", token, check=False).returncode != 0
        assert status_of(curl(g, port, tmp_path, "http://registry.test/pkg/x", token))[0] == "200"
    finally:
        assert g.stop() == 0
