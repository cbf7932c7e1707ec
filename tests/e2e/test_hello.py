"""
ClientHellos made by hand, of every size and shape: which of them the gateway answers inside a tunnel, and by which alert it refuses
the others. The name in it decides (RFC 6066 3), and nothing but the CONNECT's own will do.
"""
import os
import struct
import subprocess
import time

import pytest
from conftest import BOTH
from gateway import Closed, clean_environment, connect_head

RETRY = bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")  # RFC 8446 4.1.3
ALERTS = {40: "handshake_failure", 47: "illegal_parameter", 50: "decode_error", 70: "protocol_version", 10: "unexpected_message",
          112: "unrecognized_name", 120: "no_application_protocol", 22: "record_overflow", 109: "missing_extension"}
X25519, P256, MLKEM768_X25519, MLKEM768_P256, MLKEM1024_P384, GREASE = 0x001D, 0x0017, 0x11EC, 0x11EB, 0x11ED, 0x3A3A
NAME = b"registry.test"


def sized(n, data):
    return len(data).to_bytes(n, "big") + data


def words(*values):
    return struct.pack(f">{len(values)}H", *values)


def extension(kind, data):
    return words(kind) + sized(2, data)


def sni(*names, kind=0):
    return extension(0, sized(2, b"".join(bytes([kind]) + sized(2, n) for n in names)))


def shares(**sizes):
    groups = {"x25519": X25519, "p256": P256, "mlkem": MLKEM768_X25519, "mlkem_p256": MLKEM768_P256, "mlkem1024": MLKEM1024_P384,
              "grease": GREASE}
    return extension(51, sized(2, b"".join(words(groups[g]) + sized(2, os.urandom(n)) for g, n in sizes.items())))


def hello(names=sni(NAME), share=shares(x25519=32), groups=(X25519, P256), versions=(0x0304, 0x0303), more=b"",
          suites=(0x1301, 0x1302, 0xC02B, 0xC02F), legacy=0x0303):
    """The handshake message; names: the whole extension of that name."""
    extensions = names + share + more
    extensions += extension(10, sized(2, words(*groups))) + extension(13, sized(2, words(0x0403, 0x0804, 0x0401)))
    extensions += extension(11, b"\x01\x00") + (extension(43, sized(1, words(*versions))) if versions else b"")
    body = words(legacy) + os.urandom(32) + sized(1, os.urandom(32)) + sized(2, words(*suites)) + b"\x01\x00" + sized(2, extensions)
    return b"\x01" + sized(3, body)


def in_records(message, size=16384, version=0x0301):
    pieces = [message[i:i + size] for i in range(0, len(message), size)]
    return b"".join(b"\x16" + words(version) + sized(2, p) for p in pieces)


def outcome(wire):
    """"hello", "retry", the alert's name, or "close"."""
    wire.socket.settimeout(30)
    try:
        while len(wire.buffer) < 5 or len(wire.buffer) < 5 + int.from_bytes(wire.buffer[3:5], "big"):
            wire.more()
    except Closed:
        return "close"
    kind, payload = wire.buffer[0], wire.buffer[5:]
    if kind == 21:
        return ALERTS.get(payload[1], payload[1])
    assert (kind, payload[0]) == (22, 2)
    return "retry" if payload[6:38] == RETRY else "hello"


@pytest.fixture
def token(gateway):
    return gateway.token(BOTH)


def tunnel(gateway, token):
    return gateway.tunnel("registry.test", token, tls=False)


PQ = dict(share=shares(grease=1, mlkem=1216, x25519=32), groups=(GREASE, MLKEM768_X25519, X25519, P256), versions=(GREASE, 0x0304, 0x0303),
          suites=(GREASE, 0x1301, 0x1302, 0x1303, 0xC02B, 0xC02F))
ECH_GREASE = extension(0xFE0D, b"\x00" + words(1, 1) + b"\x07" + sized(2, os.urandom(32)) + sized(2, os.urandom(208)))
ROWS = {
    # the name
    "the CONNECT's name": (hello(), "hello"),
    "in capitals": (hello(sni(b"REGISTRY.Test")), "hello"),
    "with the root's dot": (hello(sni(b"registry.test.")), "hello"),
    "no name": (hello(b""), "unrecognized_name"),
    "an empty list of names": (hello(extension(0, words(0))), {"decode_error", "unrecognized_name"}),
    "an empty extension": (hello(extension(0, b"")), {"decode_error", "unrecognized_name"}),
    "an empty name": (hello(sni(b"")), {"decode_error", "unrecognized_name"}),
    "a name of another type": (hello(sni(NAME, kind=1)), {"decode_error", "unrecognized_name"}),
    "another listed name": (hello(sni(b"upload.test")), "unrecognized_name"),
    "a name nobody lists": (hello(sni(b"other.test")), "unrecognized_name"),
    "a name below": (hello(sni(b"a.registry.test")), "unrecognized_name"),
    "the name above": (hello(sni(b"test")), "unrecognized_name"),
    "a name that ends like it": (hello(sni(b"xregistry.test")), "unrecognized_name"),
    "a name that begins like it": (hello(sni(b"registry.test.other.test")), "unrecognized_name"),
    "two dots": (hello(sni(b"registry.test..")), "unrecognized_name"),
    "a dot in front": (hello(sni(b".registry.test")), "unrecognized_name"),
    "NUL behind": (hello(sni(NAME + b"\0")), {"decode_error", "unrecognized_name"}),
    "NUL and another": (hello(sni(NAME + b"\0.other.test")), {"decode_error", "unrecognized_name"}),
    "a port behind": (hello(sni(b"registry.test:443")), "unrecognized_name"),
    "a blank behind": (hello(sni(b"registry.test ")), "unrecognized_name"),
    "an address": (hello(sni(b"127.0.0.1")), "unrecognized_name"),
    "a name that is too long": (hello(sni(b"a." * 200 + NAME)), {"decode_error", "unrecognized_name"}),
    "two names": (hello(sni(NAME, b"other.test")), {"decode_error", "unrecognized_name"}),
    "two names, ours second": (hello(sni(b"other.test", NAME)), {"decode_error", "unrecognized_name"}),
    "two extensions": (hello(sni(NAME) + sni(b"other.test")), {"illegal_parameter", "decode_error", "unrecognized_name"}),
    "two extensions, ours second": (hello(sni(b"other.test") + sni(NAME)), {"illegal_parameter", "decode_error", "unrecognized_name"}),
    # ECH: the outer name is the name
    "GREASE ECH, as browsers send it": (hello(more=ECH_GREASE), "hello"),
    "GREASE ECH and another name": (hello(sni(b"other.test"), more=ECH_GREASE), "unrecognized_name"),
    "ECH that says it is inner": (hello(more=extension(0xFE0D, b"\x01")), "hello"),
    # sizes: keys of ML-KEM (draft-ietf-tls-ecdhe-mlkem)
    "a browser's, with ML-KEM-768": (hello(**PQ), "hello"),
    "and GREASE ECH": (hello(more=ECH_GREASE + extension(GREASE, b"\0"), **PQ), "hello"),
    "three hybrid keys, 4 KB": (hello(share=shares(mlkem=1216, mlkem_p256=1249, mlkem1024=1665, x25519=32),
                                         groups=(MLKEM768_X25519, MLKEM768_P256, MLKEM1024_P384, X25519)), "hello"),
    "ML-KEM alone, others offered": (hello(share=shares(mlkem=1216), groups=(MLKEM768_X25519, X25519)), "retry"),
    "ML-KEM and no other": (hello(share=shares(mlkem=1216), groups=(MLKEM768_X25519,)), "handshake_failure"),
    "padding of 12 KB": (hello(more=extension(21, bytes(12000))), "hello"),
    "padding of 60 KB": (hello(more=extension(21, bytes(60000))), {"hello", "close", "illegal_parameter", "decode_error"}),
    # versions
    "TLS 1.3 alone": (hello(versions=(0x0304,)), "hello"),
    "TLS 1.2 alone": (hello(versions=(0x0303,)), "hello"),
    "TLS 1.2 as it was said before 1.3": (hello(share=b"", versions=()), "hello"),
    "TLS 1.1": (hello(share=b"", versions=(), legacy=0x0302), "protocol_version"),
    "TLS 1.0": (hello(share=b"", versions=(), legacy=0x0301), "protocol_version"),
    "SSL 3": (hello(share=b"", versions=(), legacy=0x0300), {"protocol_version", "handshake_failure"}),
    "TLS 1.1 among the versions": (hello(share=b"", versions=(0x0302, 0x0301)), "protocol_version"),
    "a version of tomorrow alone": (hello(versions=(0x0305,)), "protocol_version"),
    "no suite of ours": (hello(suites=(0x0005, 0x000A, 0xC011)), "handshake_failure"),
    # protocols
    "h2 alone": (hello(more=extension(16, sized(2, sized(1, b"h2")))), "no_application_protocol"),
    "h2 and http/1.1": (hello(more=extension(16, sized(2, sized(1, b"h2") + sized(1, b"http/1.1")))), "hello"),
    "an empty list of protocols": (hello(more=extension(16, words(0))), "decode_error"),
    # a message that is none
    "no extensions": (b"\x01" + sized(3, words(0x0303) + os.urandom(32) + b"\0" + sized(2, words(0xC02B)) + b"\x01\x00"), "unrecognized_name"),
    "a key of a group it does not offer": (hello(share=shares(mlkem=1216, x25519=32)), "illegal_parameter"),
    "cut short, and it says so": (b"\x01" + sized(3, hello()[4:60]), "decode_error"),
    "another handshake message": (b"\x02" + hello()[1:], "unexpected_message"),
}


@pytest.mark.parametrize("name", ROWS)
def test_a_client_hello(gateway, token, origins, name):
    message, want = ROWS[name]
    wire = tunnel(gateway, token)
    wire.send(in_records(message))
    seen = outcome(wire)
    assert seen in want if isinstance(want, set) else seen == want
    assert origins[0].requests == []
    wire.close()


def test_another_name_is_recorded(gateway, token):
    before = len(gateway.records(kind="connection", reason="sni_mismatch"))
    wire = tunnel(gateway, token)
    wire.send(in_records(hello(sni(b"other.test"))))
    assert outcome(wire) == "unrecognized_name"
    gateway.wait_for(before + 1, kind="connection", reason="sni_mismatch")


@pytest.mark.parametrize("way", ["one packet with CONNECT", "a byte a packet", "a byte a record", "records of 16 bytes", "two packets"])
@pytest.mark.parametrize("names,want", [(sni(NAME), "hello"), (sni(b"other.test"), "unrecognized_name")], ids=["ours", "another"])
def test_a_large_hello_however_it_comes(gateway, token, way, names, want):
    message = hello(names, more=ECH_GREASE, **PQ)
    if way == "one packet with CONNECT":
        wire = gateway.connect()
        wire.send(connect_head("registry.test", token) + in_records(message))
        assert wire.response("CONNECT").status == 200
    else:
        wire = tunnel(gateway, token)
        raw = in_records(message, {"a byte a record": 1, "records of 16 bytes": 16}.get(way, 16384))
        for piece in {"a byte a packet": [raw[i:i + 1] for i in range(len(raw))], "two packets": [raw[:700], raw[700:]]}.get(way, [raw]):
            wire.send(piece)
            time.sleep(0 if way == "a byte a packet" else 0.02)
    assert outcome(wire) == want


@pytest.mark.parametrize("raw", [
    pytest.param(b"\x14\x03\x03\x00\x01\x01" + in_records(hello()), id="ChangeCipherSpec first"),
    pytest.param(b"\x15\x03\x01\x00\x02\x02\x28", id="an alert first"),
    pytest.param(b"\x17\x03\x03\x00\x05hello", id="data first"),
    pytest.param(b"\x16\x03\x01\xff\xff" + bytes(300), id="a record that is too long"),
    pytest.param(b"\x16\x09\x09\x00\x05hello", id="a record of no version"),
    pytest.param(b"\x18\x03\x03\x00\x03\x01\xff\xff", id="a heartbeat"),
    pytest.param(64 * b"\x16\x03\x01\x00\x00", id="records of nothing"),
    pytest.param(b"\x80\x2e\x01\x03\x01\x00\x15\x00\x00\x00\x10" + 40 * b"\x01", id="SSL 2"),
    pytest.param(b"GET /pkg/a HTTP/1.1\r\nHost: registry.test\r\n\r\n", id="HTTP"),
])
def test_no_client_hello(gateway, token, origins, raw):
    wire = tunnel(gateway, token)
    wire.send(raw)
    assert outcome(wire) not in ("hello", "retry")
    assert origins[0].requests == []


# ---- what OpenSSL's own client is told


def s_client(gateway, token, *words, typed=b"", seconds=15):
    """What it says; typed goes through the connection."""
    command = ["openssl", "s_client", "-connect", "registry.test:443", "-servername", "registry.test", "-proxy", f"127.0.0.1:{gateway.port}",
               "-proxy_user", "jwt", "-proxy_pass", "env:TOKEN", "-CAfile", str(gateway.root), "-verify_return_error", *words]
    done = subprocess.run(command, input=typed, capture_output=True, timeout=4 * seconds, env=clean_environment(TOKEN=token))
    return (done.stdout + done.stderr).decode(errors="replace")


REQUEST = b"GET /pkg/%s HTTP/1.1\r\nHost: registry.test\r\nConnection: close\r\n\r\n"


@pytest.mark.parametrize("version", ["-tls1_2", "-tls1_3"])
def test_both_versions_and_no_others(gateway, token, version):
    assert "HTTP/1.1 200" in s_client(gateway, token, version, "-ign_eof", typed=REQUEST % b"a")


def test_no_renegotiation(gateway, token, origins):
    """R at the start of a line asks for it; the gateway's no_renegotiation ends OpenSSL's client."""
    seen = s_client(gateway, token, "-tls1_2", typed=b"R\n" + REQUEST % b"again")
    assert "RENEGOTIATING" in seen and "HTTP/1.1 200" not in seen
    assert origins[0].requests == []


def test_no_early_data(gateway, token, origins, tmp_path):
    """0-RTT could be played again: tickets allow none of it, and what is sent all the same is not read (RFC 8446 8)."""
    session, early = tmp_path / "session", tmp_path / "early"
    early.write_bytes(REQUEST % b"early")
    for _ in range(20):  # a ticket comes now and then, to who has never shown one
        first = s_client(gateway, token, "-tls1_3", "-sess_out", session, "-ign_eof", typed=REQUEST % b"first")
        assert "HTTP/1.1 200" in first
        if session.exists():
            break
    seen = s_client(gateway, token, "-tls1_3", "-sess_in", session, "-early_data", early, "-ign_eof", typed=REQUEST % b"later")
    assert "HTTP/1.1 200" in seen and "Early data was accepted" not in seen
    assert "/pkg/early" not in [r.target for r in origins[0].requests]
