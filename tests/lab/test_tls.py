"""
`exeat audit` of a service behind TLS: with a good certificate it is asked as without TLS; with one that does not verify nothing is asked, nothing passes,
and the note says what was wrong. No credential goes to who is not shown to be the service.
"""
import contextlib
import json
import os
import ssl
import subprocess
import threading
from pathlib import Path

import pytest

import certificates
from upstream import reply
from world import SERVICE, World

TREE = Path(__file__).resolve().parents[2]
EXEAT = Path(os.environ.get("EXEAT", TREE / "build" / "exeat")).absolute()
PORT, TOKEN = 8096, "token-0123456789abcdef"

MANIFEST = """\
owner: {{ name: the lab, statement: A service of the test's own. }}
reach: {{ timeout: 3s }}
services:
  it:
    url: https://tls.test:{port}
    address: {service}
    ca-file: ca.pem
    protected: [/secret]
    credential: {{ from: "file:token", as: bearer }}
"""


def serve(listener, context, heads):
    while True:
        try:
            plain, _ = listener.accept()
        except OSError:
            return
        with contextlib.suppress(OSError), plain:
            plain.settimeout(10)
            with context.wrap_socket(plain, server_side=True) if context else contextlib.nullcontext(plain) as wire:
                data = b""
                while b"\r\n\r\n" not in data and not (data and not context) and (more := wire.recv(65536)):
                    data += more
                heads.append(data)
                known = TOKEN.encode() in data
                path = (data.split(b" ") + [b"", b""])[1]
                wire.sendall(reply("200 OK", b"the secret\n", Connection="close") if known and path == b"/secret" else
                             reply("404 Not Found", b"", Connection="close") if known else
                             reply("401 Unauthorized", b"", WWW_Authenticate='Basic realm="x"', Connection="close"))


def audit(directory, names=("tls.test",), days=30, other_ca=False, newest=None, plain=False):
    """(the report, every head that came)"""
    authority, heads = certificates.Authority(), []
    (certificates.Authority() if other_ca else authority).write(directory / "ca.pem")
    authority.server(directory, list(names), days)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "server.pem", directory / "server.key")
    if newest:
        context.set_ciphers("ALL:@SECLEVEL=0")
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = newest
    (directory / "token").touch(0o600)
    (directory / "token").write_text(TOKEN)
    (directory / "manifest.yaml").write_text(MANIFEST.format(port=PORT, service=SERVICE))
    with World(directory) as world:
        listener = world.listen(SERVICE, PORT)
        threading.Thread(target=serve, args=(listener, None if plain else context, heads), daemon=True).start()
        command = world.enter(EXEAT, "audit", "it", "-m", directory / "manifest.yaml", "--format", "json", "--rate", "1000")
        done = subprocess.run(command, pass_fds=[world.namespace], capture_output=True, text=True, timeout=120)
        listener.close()
    return json.loads(done.stdout), heads


BAD = [
    ("of another CA", {"other_ca": True}, "certificate"),
    ("for another name", {"names": ("other.test",)}, "tls.test"),
    ("expired", {"days": -1}, "expired"),
    ("for the address alone", {"names": (SERVICE,)}, "tls.test"),
    ("no TLS", {"plain": True}, "TLS failed"),
    ("TLS 1.1 at most", {"newest": ssl.TLSVersion.TLSv1_1}, "TLS failed"),
]


@pytest.mark.parametrize("server, said", [(s, w) for _, s, w in BAD], ids=[n for n, _, _ in BAD])
def test_what_does_not_verify_is_not_asked_and_passes_nothing(tmp_path, server, said):
    report, heads = audit(tmp_path, **server)
    checks = {c["check"]: c for c in report["checks"]}
    assert checks["AN-1"]["verdict"] == "inconclusive" and said in checks["AN-1"]["note"], checks["AN-1"]["note"]
    assert not [c for c, got in checks.items() if got["verdict"] == "pass"] and not report["passing"]
    assert not any(TOKEN.encode() in head for head in heads)


@pytest.mark.parametrize("server", [{}, {"newest": ssl.TLSVersion.TLSv1_2}, {"names": ("other.test", "tls.test")}],
                         ids=["TLS 1.3", "TLS 1.2", "two names"])
def test_what_verifies_is_asked(tmp_path, server):
    report, heads = audit(tmp_path, **server)
    checks = {c["check"]: c["verdict"] for c in report["checks"]}
    assert checks["AN-1"] == "pass" and checks["TV-1"] == "pass" and "inconclusive" not in {v for c, v in checks.items() if c != "RD-5" and c != "PW-7" and c != "AS-5"}, checks
    assert any(TOKEN.encode() in head for head in heads)
