"""The CA's commands, and what real clients make of a CA whose intermediate key was stolen."""
import datetime
import ipaddress
import json
import shutil
import ssl
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from gateway import clean_environment, exeat

LISTED, BELOW = "npm.example", "a.files.example"


@pytest.fixture
def state(tmp_path):
    directory = tmp_path / "state"
    exeat("init", "--name", "gw.test", "--service", f"npm={LISTED},npm-read", "--service", "files=*.files.example",
          directory)
    return directory


def ca(state, *words, check=True):
    return exeat("ca", *words, config=state / "proxy.conf", check=check)


# ---- show, export, init


def test_show(state):
    shown = json.loads(ca(state, "show", "--format", "json").stdout)
    assert shown["schema"] == "exeat.ca/1"
    assert shown["intermediate"]["permitted"] == ["files.example", LISTED]
    assert shown["intermediate"]["excluded"] == ["0.0.0.0/0", "::/0"]
    root = x509.load_pem_x509_certificate((state / "ca/root.pem").read_bytes())
    assert shown["root"]["sha256"] == root.fingerprint(hashes.SHA256()).hex()
    assert int(shown["root"]["serial"], 16) == root.serial_number
    text = ca(state, "show").stdout
    assert f"{LISTED} and names below it" in text and shown["root"]["sha256"] in text


def test_export_is_the_root_and_no_key(state, tmp_path):
    pem = ca(state, "export").stdout
    assert pem == (state / "ca/root.pem").read_text() and "PRIVATE" not in pem
    assert ca(state, "export", "--output", tmp_path / "root.pem").stdout == ""
    assert (tmp_path / "root.pem").read_text() == pem


def test_init_refuses_to_overwrite_and_begins_anew_when_moved_away(state):
    before = (state / "ca/root.pem").read_text()
    refused = ca(state, "init", check=False)
    assert refused.returncode == 1 and "a root is there already" in refused.stderr
    assert (state / "ca/root.pem").read_text() == before
    (state / "ca").rename(state / "ca.old")
    assert ca(state, "show", check=False).returncode == 2
    assert ca(state, "init").stdout == ""
    assert (state / "ca/root.pem").read_text() != before
    assert json.loads(ca(state, "show", "--format", "json").stdout)["intermediate"]["permitted"]


# ---- a stolen key


def pkt(line):
    return f"{len(line) + 4:04x}".encode() + line


# What an empty repository says first.
REFS = pkt(b"# service=git-upload-pack\n") + b"0000" + pkt(b"0" * 40 + b" capabilities^{}\0agent=test\n") + b"0000"


class Answer(BaseHTTPRequestHandler):
    def do_GET(self):
        body = REFS if "git-upload-pack" in self.path else b"ok"
        self.send_response(200)
        self.send_header("Content-Type", "application/x-git-upload-pack-advertisement")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def mint(state, directory, name):
    """What a thief with the intermediate's key would make: a leaf for any name or address."""
    issuer = x509.load_pem_x509_certificate((state / "ca/intermediate.pem").read_bytes())
    issuer_key = serialization.load_pem_private_key((state / "ca/intermediate.key").read_bytes(), None)
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.utcnow()
    key_id = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    is_address = name[0].isdigit()
    entry = x509.IPAddress(ipaddress.ip_address(name)) if is_address else x509.DNSName(name)
    leaf = (x509.CertificateBuilder().subject_name(x509.Name([])).issuer_name(issuer.subject)
            .public_key(key.public_key()).serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1)).not_valid_after(now + datetime.timedelta(hours=1))
            .add_extension(x509.SubjectAlternativeName([entry]), True)
            .add_extension(x509.BasicConstraints(False, None), True)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(key_id), False)
            .add_extension(x509.ExtendedKeyUsage([x509.oid.ExtendedKeyUsageOID.SERVER_AUTH]), False)
            .add_extension(x509.KeyUsage(True, *[False] * 8), True).sign(issuer_key, hashes.SHA256()))
    file = directory / f"{name}.pem"
    pem = serialization.Encoding.PEM
    file.write_bytes(leaf.public_bytes(pem) + issuer.public_bytes(pem) + key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    return file


@pytest.fixture
def serve(state, tmp_path):
    servers = []

    def start(name):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(mint(state, tmp_path, name))
        server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        server.daemon_threads = True
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return server.server_address[1]

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def curl(name, port, root):
    return ["curl", "-q", "-sSf", "--noproxy", "*", "--cacert", root, "--resolve", f"{name}:{port}:127.0.0.1",
            f"https://{name}:{port}/"]


def git(name, port, root):
    return ["git", "-c", f"http.curloptResolve={name}:{port}:127.0.0.1", "-c", f"http.sslCAInfo={root}", "ls-remote",
            f"https://{name}:{port}/x.git"]


def python(name, port, root):
    return ["/usr/bin/python3", "-c", f"""
import socket, ssl
c = ssl.create_default_context(cafile={str(root)!r})
c.verify_flags |= ssl.VERIFY_X509_STRICT
c.wrap_socket(socket.create_connection(("127.0.0.1", {port})), server_hostname={name!r}).close()"""]


def node(name, port, root):
    sni = "" if name[0].isdigit() else f"servername: {name!r},"
    return ["node", "-e", f"""
require('tls').connect({{host: '127.0.0.1', port: {port}, {sni} ca: require('fs').readFileSync({str(root)!r})}},
    () => process.exit(0)).on('error', () => process.exit(1))"""]


NAMES = [(LISTED, True), (BELOW, True), ("other.example", False), ("evil-npm.example", False), ("127.0.0.1", False)]


@pytest.mark.parametrize("client", [curl, git, python, node], ids=lambda c: c.__name__)
@pytest.mark.parametrize("name, accepted", NAMES, ids=[n for n, _ in NAMES])
def test_a_stolen_key_is_good_for_listed_names_alone(state, serve, client, name, accepted):
    assert shutil.which(client.__name__) or client is python, "make test-deps installs it"
    words = client(name, serve(name), state / "ca/root.pem")
    r = subprocess.run([str(w) for w in words], env=clean_environment(), capture_output=True, text=True, timeout=60)
    assert (r.returncode == 0) == accepted, r.stderr
