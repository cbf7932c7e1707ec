"""exeat-relay: bytes as they are, ends as ends, and a fresh token in each head that lacks one, nowhere else."""
import os
import random
import select
import socket
import stat
import struct
import subprocess
import threading
import time

import pytest

from conftest import BOTH
from gateway import PATIENCE, Wire, clean_environment, connect_head, wait_until
from relay import RELAY, Far, Relay

TOKEN = "eyJh.eyJz.c2ln-_x"
FIELD = f"Proxy-Authorization: Bearer {TOKEN}\r\n".encode()


@pytest.fixture
def far():
    f = Far()
    yield f
    f.close()


@pytest.fixture
def token_file(tmp_path):
    f = tmp_path / "token.jwt"
    f.write_text(TOKEN + "\n")
    return f


@pytest.fixture
def carrier(tmp_path, far, token_file):
    with Relay(tmp_path, far.to, "--token-file", token_file) as r:
        yield r


def rest(wire):
    """What comes up to the end; an end, not a cut."""
    data = wire.buffer
    while more := wire.socket.recv(65536):
        data += more
    return data


def is_cut(wire):
    try:
        while wire.socket.recv(65536):
            pass
    except ConnectionResetError:
        return True
    return False


# ---- the program

def test_it_is_static_and_small():
    if os.environ.get("SANITIZED"):
        return
    assert RELAY.stat().st_size < 200 * 1024
    headers = subprocess.run(["readelf", "-lW", RELAY], capture_output=True, text=True, check=True).stdout
    assert "INTERP" not in headers and "Elf file type is DYN" in headers and "GNU_RELRO" in headers
    assert "GNU_STACK" in headers and "RWE" not in headers
    needed = subprocess.run(["readelf", "-d", RELAY], capture_output=True, text=True, check=True).stdout
    assert "NEEDED" not in needed
    # in a root directory where there is nothing but itself
    answer = subprocess.run([RELAY, "--version"], env={}, capture_output=True, text=True, timeout=PATIENCE)
    assert answer.stdout.startswith("exeat-relay ")


def run(*words):
    return subprocess.run([RELAY, *words], capture_output=True, text=True, timeout=PATIENCE, env=clean_environment())


@pytest.mark.parametrize("words,says", [
    ((), "--to ADDRESS is needed"),
    (("--to", "gw.test:3128"), "this is no address: gw.test:3128"),
    (("--to", "127.0.0.1"), "this is no address"),
    (("--to", "127.0.0.1:65536"), "this is no address"),
    (("--to", "127.0.0.1:-1"), "this is no address"),
    (("--to", "127.0.0.1: 80"), "this is no address"),
    (("--to", "::1:80"), "this is no address"),
    (("--to", "[127.0.0.1]:80"), "this is no address"),
    (("--to", "unix:"), "this is no address"),
    (("--to", "unix:" + "x" * 200), "this is no address"),
    (("--to", "vsock:2"), "this is no address"),
    (("--to", "vsock:2:4294967296"), "this is no address"),
    (("--to", "127.0.0.1:1", "--listen", "vsock:2:1"), "no address to listen at"),
    (("--to", "127.0.0.1:1", "--connections", "0"), "a number from 1 to 100000"),
    (("--to", "127.0.0.1:1", "more"), "one word too many: more"),
    (("--to", "127.0.0.1:1", "--token", "x"), "no such option: --token"),
    (("--to", "127.0.0.1:1", "--stdio=1"), "no such option: --stdio=1"),
    (("--to",), "it wants a value: --to"),
    (("--to", "127.0.0.1:1", "--token-file", "x", "--listen", "0.0.0.0:0"), "whoever reaches it gets the token's leave"),
    (("--to", "127.0.0.1:1", "--token-file", "x", "--listen", "[::]:0"), "whoever reaches it gets the token's leave"),
])
def test_what_cannot_be_meant_is_said(words, says):
    answer = run(*words)
    assert answer.returncode == 2 and says in answer.stderr, answer


def test_help_names_every_option():
    text = run("--help").stdout
    for option in ("--to", "--listen", "--stdio", "--token-file", "--connections", "vsock:"):
        assert option in text


def test_a_taken_port_is_said(far):
    answer = run("--to", "127.0.0.1:1", "--listen", far.to)
    assert answer.returncode == 3 and "n use" in answer.stderr


# ---- bytes as they are

def test_bytes_pass_both_ways(tmp_path, far):
    far.echo()
    data = random.Random(1).randbytes(3_000_000)
    with Relay(tmp_path, far.to) as r:
        wire = r.connect()
        threading.Thread(target=lambda: (wire.send(data), wire.half_close()), daemon=True).start()
        assert rest(wire) == data
        wait_until(lambda: r.descriptors() < 7, "descriptors to be closed")


@pytest.mark.parametrize("who", ["client", "gateway"])
def test_an_end_of_one_way_leaves_the_other_open(tmp_path, far, who):
    with Relay(tmp_path, far.to) as r:
        client, gateway = r.connect(), None
        client.send(b"a")
        gateway = far.accept()
        one, other = (client, gateway) if who == "client" else (gateway, client)
        assert gateway.exactly(1) == b"a"
        one.send(b"last words")
        one.half_close()
        assert rest(other) == b"last words"
        for n in range(3):
            other.send(b"x%d" % n)
            assert one.exactly(2) == b"x%d" % n
        other.half_close()
        assert rest(one) == b""


@pytest.mark.parametrize("who", ["client", "gateway"])
def test_a_cut_is_passed_on_as_a_cut(tmp_path, far, who):
    with Relay(tmp_path, far.to) as r:
        client = r.connect()
        client.send(b"a")
        gateway = far.accept()
        assert gateway.exactly(1) == b"a"
        one, other = (client, gateway) if who == "client" else (gateway, client)
        one.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        one.close()
        assert is_cut(other)


def test_late_words_to_a_gateway_that_has_gone_cut_nothing_off(tmp_path, far):
    """As a TLS client's last alert, behind an answer that closed the connection."""
    with Relay(tmp_path, far.to) as r:
        client = r.connect()
        client.send(b"a")
        gateway = far.accept()
        assert gateway.exactly(1) == b"a"
        gateway.send(b"the answer")
        gateway.close()
        assert client.exactly(10) == b"the answer"
        for _ in range(3):
            client.send(b"late")
            time.sleep(0.1)
        assert rest(client) == b""
        client.half_close()
        wait_until(lambda: r.descriptors() < 7, "descriptors to be closed")


def test_a_reader_that_sleeps_holds_the_writer_and_no_memory(tmp_path, far):
    with Relay(tmp_path, far.to) as r:
        client = r.connect()
        client.send(b"a")
        gateway = far.accept()
        before, sent = r.memory(), 0
        client.socket.setblocking(False)
        while select.select([], [client.socket], [], 0.5)[1]:
            sent += client.socket.send(bytes(1 << 16))
        assert r.memory() - before < 1 << 20
        client.socket.settimeout(PATIENCE)
        assert len(gateway.exactly(sent + 1)) == sent + 1
        client.send(b"b")
        assert gateway.exactly(1) == b"b"


def test_one_that_sleeps_does_not_hold_others(tmp_path, far):
    with Relay(tmp_path, far.to) as r:
        slow = r.connect()
        slow.send(b"a")
        sleeper = far.accept()
        slow.socket.setblocking(False)
        while select.select([], [slow.socket], [], 0.5)[1]:
            slow.socket.send(bytes(1 << 16))
        quick = r.connect()
        quick.send(b"q")
        gateway = far.accept()
        gateway.send(b"r")
        assert (gateway.exactly(1), quick.exactly(1), sleeper.exactly(1)) == (b"q", b"r", b"a")


def test_a_thousand_connections_at_once(tmp_path, far):
    far.echo()
    with Relay(tmp_path, far.to) as r:
        wires = [r.connect() for _ in range(1000)]
        for n, wire in enumerate(wires):
            wire.send(b"%06d" % n)
        for n, wire in enumerate(wires):
            assert wire.exactly(6) == b"%06d" % n
        # one more waits until another goes
        more = r.connect()
        more.send(b"more")
        waiting = select.poll()
        waiting.register(more.socket, select.POLLIN)
        assert waiting.poll(500) == []
        wires.pop().close()
        assert more.exactly(4) == b"more"
        for wire in wires + [more]:
            wire.close()
        wait_until(lambda: r.descriptors() < 10, "descriptors to be closed")


def test_the_processor_is_left_alone_when_nothing_happens(tmp_path, far):
    """Half-closed, dead and waiting connections must not keep the loop awake."""
    with Relay(tmp_path, far.to) as r:
        client, other = r.connect(), r.connect()
        client.send(b"a")
        gateway = far.accept()
        client.half_close()
        other.send(b"b")
        far.accept().half_close()
        assert gateway.exactly(1) == b"a" and rest(gateway) == b""
        stat_line = lambda: sum(int(x) for x in open(f"/proc/{r.process.pid}/stat").read().rsplit(")", 1)[1].split()[11:13])
        before = stat_line()
        time.sleep(1)
        assert stat_line() - before <= 5  # hundredths of a second


# ---- places

def test_unix_sockets_on_both_sides(tmp_path):
    far = Far(str(tmp_path / "far.sock"), socket.AF_UNIX).echo()
    near = tmp_path / "near.sock"
    with Relay(tmp_path, f"unix:{tmp_path}/far.sock", listen=f"unix:{near}") as r:
        assert stat.S_IMODE(near.stat().st_mode) == 0o600
        wire = r.connect()
        wire.send(b"hello")
        assert wire.exactly(5) == b"hello"
        again = run("--to", far_text(tmp_path), "--listen", f"unix:{near}")
        assert again.returncode == 3 and "n use" in again.stderr
        r.process.kill()
        r.process.wait()
    assert near.exists()  # it was killed; the next one takes its place
    with Relay(tmp_path, f"unix:{tmp_path}/far.sock", listen=f"unix:{near}") as r:
        wire = r.connect()
        wire.send(b"again")
        assert wire.exactly(5) == b"again"
    assert not near.exists()
    far.close()


def far_text(tmp_path):
    return f"unix:{tmp_path}/far.sock"


def test_a_file_that_is_no_socket_stays(tmp_path):
    (tmp_path / "near.sock").write_text("mine")
    answer = run("--to", "127.0.0.1:1", "--listen", f"unix:{tmp_path}/near.sock")
    assert answer.returncode == 3 and (tmp_path / "near.sock").read_text() == "mine"


def test_ipv6(tmp_path):
    far = Far(("::1", 0), socket.AF_INET6).echo()
    with Relay(tmp_path, f"[::1]:{far.port}", listen="[::1]:0") as r:
        s = socket.create_connection(("::1", r.port), PATIENCE)
        s.sendall(b"hello")
        assert Wire(s).exactly(5) == b"hello"
    far.close()


def test_vsock(tmp_path):
    """CID 1 is this machine; where the kernel has no loopback, the attempt itself is what is seen."""
    far = socket.socket(socket.AF_VSOCK)
    far.bind((socket.VMADDR_CID_ANY, socket.VMADDR_PORT_ANY if hasattr(socket, "VMADDR_PORT_ANY") else 0xffffffff))
    far.listen(5)
    with Relay(tmp_path, f"vsock:1:{far.getsockname()[1]}") as r:
        wire = r.connect()
        wire.send(b"hello")
        if select.select([far], [], [], 2)[0]:
            s, _ = far.accept()
            assert s.recv(10) == b"hello"
        else:
            assert wire.response().status == 502 and "no gateway at vsock:1:" in r.said()
    far.close()


def test_standard_input_and_output(far):
    far.echo()
    p = subprocess.Popen([RELAY, "--to", far.to, "--stdio"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=clean_environment())
    out, _ = p.communicate(b"x" * 300000, PATIENCE)
    assert (p.returncode, out) == (0, b"x" * 300000)


def test_no_gateway_there(tmp_path, far):
    to = far.to
    far.close()
    with Relay(tmp_path, to) as r:
        wire = r.connect()
        wire.send(b"CONNECT a.test:443 HTTP/1.1\r\n\r\n")
        answer = wire.response()
        assert answer.line == "HTTP/1.1 502 exeat-relay gateway_unreachable"
        assert f"no gateway at {to}: Connection refused" in answer.body.decode()
        r.connect().response()
        assert r.said().count("no gateway at") == 1  # said once


# ---- the token

HEADS = [
    ("CONNECT", b"CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n", True),
    ("CONNECT of HTTP/1.0 without a field", b"CONNECT a.test:443 HTTP/1.0\r\n", True),
    ("absolute form", b"GET http://a.test/x HTTP/1.1\r\nHost: a.test\r\n", True),
    ("absolute form, any case", b"GET HTTP://A.test/x HTTP/1.1\r\nHost: a.test\r\n", True),
    ("origin form goes as it is", b"GET /x HTTP/1.1\r\nHost: a.test\r\n", False),
    ("one that has a token", b"CONNECT a.test:443 HTTP/1.1\r\nproxy-AUTHORIZATION: Bearer own\r\n", False),
    ("one with another's name in a value", b"GET http://a.test/ HTTP/1.1\r\nX: proxy-authorization: no\r\n", True),
    ("a field that starts like it", b"GET http://a.test/ HTTP/1.1\r\nProxy-Authorization-Info: no\r\n", True),
]


@pytest.mark.parametrize("cut", [0, 1, 7])
@pytest.mark.parametrize("what,head,added", HEADS, ids=[h[0] for h in HEADS])
def test_a_head_that_lacks_a_token_is_given_one(carrier, far, what, head, added, cut):
    client, data = carrier.connect(), head + b"\r\n"
    for at in range(0, len(data), cut or len(data)):
        client.send(data[at:at + (cut or len(data))])
    gateway = far.accept()
    wanted = head + (FIELD if added else b"") + b"\r\n"
    assert gateway.exactly(len(wanted)) == wanted


def test_each_request_of_a_connection_is_given_one(carrier, far):
    client, gateway, wanted = carrier.connect(), None, b""
    bodies = [b"", b"Content-Length: 5\r\n\r\nGET /", b"Transfer-Encoding: chunked\r\n\r\n5;a=b\r\n\r\n\r\nG\r\n00\r\nX: y\r\n\r\n",
              b"Content-Length: 0\r\n\r\n"]
    for n in range(40):
        rest_of_it = bodies[n % 4] or b"\r\n"
        line = b"POST http://a.test/%d HTTP/1.1\r\nHost: a.test\r\n" % n
        head, _, body = rest_of_it.partition(b"\r\n\r\n")
        client.send(line + rest_of_it)
        if rest_of_it == b"\r\n":
            wanted += line + FIELD + b"\r\n"
        else:
            wanted += line + head + b"\r\n" + FIELD + b"\r\n" + body
    gateway = far.accept()
    assert gateway.exactly(len(wanted)) == wanted


def test_many_requests_at_once(carrier, far):
    """More tokens to add than the buffer has room for."""
    request = b"GET http://a.test/ HTTP/1.1\r\n"
    client = carrier.connect()
    threading.Thread(target=lambda: (client.send((request + b"\r\n") * 5000), client.half_close()), daemon=True).start()
    assert rest(far.accept()) == (request + FIELD + b"\r\n") * 5000


@pytest.mark.parametrize("answer", [b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.0 200 fine\r\nA: b\r\n\r\n", b"HTTP/1.1 204\r\n\r\n"])
def test_nothing_is_added_inside_a_tunnel(carrier, far, answer):
    client = carrier.connect()
    inside = b"GET http://a.test/ HTTP/1.1\r\n\r\nCONNECT b.test:1 HTTP/1.1\r\n\r\n\0\xff"
    client.send(b"CONNECT a.test:80 HTTP/1.1\r\n\r\n" + inside)  # it does not wait for the answer
    gateway = far.accept()
    assert gateway.until(b"\r\n\r\n").endswith(TOKEN.encode())
    assert select.select([gateway.socket], [], [], 0.3)[0] == [] and gateway.buffer == b""
    for at in range(len(answer)):
        gateway.send(answer[at:at + 1])
    assert client.exactly(len(answer)) == answer
    assert gateway.exactly(len(inside)) == inside
    client.send(inside)
    assert gateway.exactly(len(inside)) == inside


def test_nothing_is_added_after_an_upgrade(carrier, far):
    client = carrier.connect()
    client.send(b"GET http://a.test/ HTTP/1.1\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n")
    gateway = far.accept()
    assert TOKEN.encode() in gateway.until(b"\r\n\r\n")
    gateway.send(b"HTTP/1.1 103 Early\r\nX: HTTP/1.1 200\r\n\r\nHTTP/1.1 101 Switching\r\n\r\n")
    client.until(b"101 Switching\r\n\r\n")
    client.send(b"GET http://a.test/ HTTP/1.1\r\n\r\n")
    assert gateway.exactly(31) == b"GET http://a.test/ HTTP/1.1\r\n\r\n"


@pytest.mark.parametrize("answer", [b"HTTP/1.1 403 no\r\nContent-Length: 0\r\n\r\n", b"HTTP/1.1 407 who\r\nContent-Length: 0\r\n\r\n",
                                    b"HTTP/1.1 2000 OK\r\n\r\n", b"HTTP/2 200 OK\r\n\r\n", b"nonsense that is none\r\n\r\n"])
def test_after_a_refused_connect_heads_are_heads_again(carrier, far, answer):
    client = carrier.connect()
    client.send(b"CONNECT a.test:443 HTTP/1.1\r\n\r\n")
    gateway = far.accept()
    gateway.until(b"\r\n\r\n")
    gateway.send(answer)
    assert client.exactly(len(answer)) == answer
    client.send(b"GET http://a.test/ HTTP/1.1\r\n\r\n")
    assert gateway.until(b"\r\n\r\n").endswith(FIELD.strip())
    client.send(b"CONNECT a.test:443 HTTP/1.1\r\n\r\n")  # the answer to this one could not be told from others
    assert is_cut(client)


BAD = [
    ("TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
    ("an empty line first", b"\r\nGET http://a.test/ HTTP/1.1\r\n\r\n", 400),
    ("a bare LF ends a line", b"GET http://a.test/ HTTP/1.1\nHost: a\r\n\r\n", 400),
    ("a bare CR in a value", b"GET http://a.test/ HTTP/1.1\r\nHost: a\rb\r\n\r\n", 400),
    ("NUL in a value", b"GET http://a.test/ HTTP/1.1\r\nHost: a\0b\r\n\r\n", 400),
    ("a folded field", b"GET http://a.test/ HTTP/1.1\r\nA: b\r\n c\r\n\r\n", 400),
    ("a blank before the colon", b"GET http://a.test/ HTTP/1.1\r\nA : b\r\n\r\n", 400),
    ("two blanks", b"GET  http://a.test/ HTTP/1.1\r\n\r\n", 400),
    ("another version", b"GET http://a.test/ HTTP/1.2\r\n\r\n", 400),
    ("no version", b"GET http://a.test/\r\n\r\n", 400),
    ("HTTP/2's preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    ("two lengths", b"POST http://a.test/ HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\n", 400),
    ("a list of lengths", b"POST http://a.test/ HTTP/1.1\r\nContent-Length: 3, 3\r\n\r\n", 400),
    ("a signed length", b"POST http://a.test/ HTTP/1.1\r\nContent-Length: +3\r\n\r\n", 400),
    ("a length that overflows", b"POST http://a.test/ HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n", 400),
    ("an empty length", b"POST http://a.test/ HTTP/1.1\r\nContent-Length: \r\n\r\n", 400),
    ("a length and a coding", b"POST http://a.test/ HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
    ("a coding and a length", b"POST http://a.test/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n", 400),
    ("another coding", b"POST http://a.test/ HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 400),
    ("a coding in HTTP/1.0", b"POST http://a.test/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
    ("two codings", b"POST http://a.test/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
    ("a chunk without a size", b"POST http://a.test/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n\r\n", 400),
    ("a chunk of signed size", b"POST http://a.test/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n", 400),
    ("a chunk that is longer than it says", b"POST http://a.test/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nxx\r\n", 400),
    ("an endless chunk line", b"POST http://a.test/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1;" + b"a" * 300, 431),
    ("CONNECT with content", b"CONNECT a.test:443 HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", 400),
    ("CONNECT behind a request", b"GET http://a.test/ HTTP/1.1\r\n\r\nCONNECT a.test:443 HTTP/1.1\r\n\r\n", 400),
    ("an upgrade behind a request", b"GET http://a.test/ HTTP/1.1\r\n\r\nGET http://a.test/ HTTP/1.1\r\nUpgrade: x\r\n\r\n", 400),
    ("a method that does not end", b"G" * 40, 400),
    ("a head that does not end", b"GET http://a.test/ HTTP/1.1\r\n" + b"A: " + b"b" * 40000, 431),
    ("fields that do not end", b"GET http://a.test/ HTTP/1.1\r\n" + b"A: b\r\n" * 8000, 431),
]


@pytest.mark.parametrize("what,data,status", BAD, ids=[b[0] for b in BAD])
def test_what_is_not_beyond_doubt_gets_no_token_and_an_answer(carrier, far, what, data, status):
    client = carrier.connect()
    client.send(data)
    answer = client.response()
    assert answer.status == status and "exeat-relay" in answer.line
    assert client.is_closed()
    # what went up was cut, not ended, and no token follows what is doubtful
    gateway = far.accept()
    seen = b""
    try:
        while more := gateway.socket.recv(65536):
            seen += more
    except ConnectionResetError:
        pass
    assert seen.count(TOKEN.encode()) <= (1 if "behind" in what or "chunk" in what else 0)


def test_doubt_after_the_gateway_has_spoken_is_a_cut(carrier, far):
    """Our answer would be read as part of the gateway's."""
    client = carrier.connect()
    client.send(b"GET http://a.test/ HTTP/1.1\r\n\r\n")
    gateway = far.accept()
    gateway.until(b"\r\n\r\n")
    gateway.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
    client.until(b"half")
    client.send(b"\0")
    assert is_cut(client)


def test_the_file_is_read_again_when_it_has_changed(carrier, far, token_file):
    client = carrier.connect()
    request = b"GET http://a.test/ HTTP/1.1\r\n\r\n"
    client.send(request)
    gateway = far.accept()
    assert TOKEN.encode() in gateway.until(b"\r\n\r\n")
    for n in range(20):
        new = token_file.with_suffix(".new")
        new.write_text(f"fresh.{n}.x")
        new.rename(token_file)
        client.send(request)
        assert f"Bearer fresh.{n}.x\r\n".encode() in gateway.until(b"\r\n\r\n") + b"\r\n"


@pytest.mark.parametrize("break_it", [lambda f: f.unlink(), lambda f: f.write_text(""), lambda f: f.write_text("a b"),
                                      lambda f: f.write_text("x\r\nEvil: 1"), lambda f: f.write_text("x" * 9000),
                                      lambda f: (f.unlink(), f.mkdir())], ids=["gone", "empty", "blank", "lines", "long", "directory"])
def test_a_file_that_broke_leaves_the_token_that_was_read(carrier, far, token_file, break_it):
    client = carrier.connect()
    client.send(b"GET http://a.test/ HTTP/1.1\r\n\r\n")
    gateway = far.accept()
    gateway.until(b"\r\n\r\n")
    break_it(token_file)
    client.send(b"GET http://a.test/ HTTP/1.1\r\n\r\n")
    assert gateway.until(b"\r\n\r\n").endswith(FIELD.strip())
    assert "the token that was read before stays in use" in carrier.said()


@pytest.mark.parametrize("content", [None, "", "a b", "x\nEvil: 1\n"])
def test_without_a_token_a_request_is_answered_and_a_later_one_carried(tmp_path, far, content):
    file = tmp_path / "token.jwt"
    if content is not None:
        file.write_text(content)
    with Relay(tmp_path, far.to, "--token-file", file) as r:
        client = r.connect()
        client.send(b"CONNECT a.test:443 HTTP/1.1\r\n\r\n")
        assert client.response().line == "HTTP/1.1 503 exeat-relay no_token"
        far.accept()
        file.write_text(TOKEN)
        client = r.connect()
        client.send(b"CONNECT a.test:443 HTTP/1.1\r\n\r\n")
        assert far.accept().until(b"\r\n\r\n").endswith(FIELD.strip())


# ---- with the gateway

def test_through_the_gateway_with_tokens_that_end(tmp_path, gateway, origins):
    """Requests for longer than a token lives, all of them allowed."""
    file = tmp_path / "token.jwt"
    renew = subprocess.Popen([RELAY.parent / "exeat", "-c", gateway.config, "token", "renew", "--sandbox", "sb-relay", "--scope", BOTH,
                              "--lifetime", "3s", "--interval", "500ms", "--output", file], env=clean_environment())
    try:
        wait_until(file.exists, "a token")
        with Relay(tmp_path, f"127.0.0.1:{gateway.port}", "--token-file", file) as r:
            began, n = time.monotonic(), 0
            plain = r.connect()
            while time.monotonic() < began + 8:
                plain.send(b"GET http://registry.test/pkg/a HTTP/1.1\r\nHost: registry.test\r\n\r\n")
                assert plain.response().status == 200
                wire = r.connect()
                wire.send(connect_head("registry.test", None))
                assert wire.response(method="CONNECT").status == 200
                tls = wire.start_tls("registry.test", gateway.root)
                tls.send(b"GET /pkg/b HTTP/1.1\r\nHost: registry.test\r\n\r\n")
                assert tls.response().status == 200
                tls.close()
                n += 1
                time.sleep(0.05)
            assert n > 10
        assert all("proxy-authorization" not in q.head.decode().lower() for o in origins for q in o.requests)
        assert gateway.records(kind="decision", action="deny", sandbox="sb-relay") == []
    finally:
        renew.terminate()
        assert renew.wait(PATIENCE) == 0


def test_the_gateways_refusal_reaches_the_client(tmp_path, gateway):
    file = tmp_path / "token.jwt"
    file.write_text(gateway.token("registry:read", lifetime="1s", sandbox="sb-relay-2"))
    time.sleep(1.2)
    with Relay(tmp_path, f"127.0.0.1:{gateway.port}", "--token-file", file) as r:
        wire = r.connect()
        wire.send(connect_head("registry.test", None))
        answer = wire.response()
        assert answer.status == 407 and answer.reason == "token_expired"
