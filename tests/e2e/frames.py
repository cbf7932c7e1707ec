"""WebSocket by hand (RFC 6455): frames as a test wants them, right or wrong, and a service that says what it is told to."""
import hashlib
import os
import queue
import socket
import ssl
import struct
import threading
from base64 import b64encode

from gateway import PATIENCE, Closed, Wire

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
KEY = "dGhlIHNhbXBsZSBub25jZQ=="


def accept(key):
    return b64encode(hashlib.sha1(key.encode() + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()).decode()


def turned(payload, mask):
    if not payload:
        return b""
    key = (mask * (len(payload) // 4 + 1))[:len(payload)]
    return (int.from_bytes(payload, "big") ^ int.from_bytes(key, "big")).to_bytes(len(payload), "big")


def frame(opcode, payload=b"", fin=True, mask=None, rsv=0):
    """mask: four bytes; None: an unmasked frame."""
    n, bit = len(payload), 0x80 if mask else 0
    head = bytes([(0x80 if fin else 0) | rsv << 4 | opcode])
    if n < 126:
        head += bytes([bit | n])
    elif n < 65536:
        head += struct.pack(">BH", bit | 126, n)
    else:
        head += struct.pack(">BQ", bit | 127, n)
    return head + (mask + turned(payload, mask) if mask else payload)


def client_frame(opcode, payload=b"", fin=True, **more):
    return frame(opcode, payload, fin, more.pop("mask", None) or os.urandom(4), **more)


def close_payload(code, reason=""):
    return struct.pack(">H", code) + reason.encode()


class Speaker:
    """One end of a WebSocket over a Wire. A client's frames are masked."""

    def __init__(self, wire, is_client):
        self.wire, self.is_client, self.masks, self.frames = wire, is_client, [], 0

    def say(self, opcode, payload=b"", fin=True):
        self.wire.send((client_frame if self.is_client else frame)(opcode, payload, fin))

    def text(self, text):
        self.say(TEXT, text.encode())

    def close(self, code=1000, reason=""):
        self.say(CLOSE, close_payload(code, reason))

    def hear(self):
        """One frame: (fin, opcode, payload). What the gateway masks it masks for the service alone."""
        first, second = self.wire.exactly(2)
        n = second & 0x7f
        if n == 126:
            n, = struct.unpack(">H", self.wire.exactly(2))
            assert n >= 126
        elif n == 127:
            n, = struct.unpack(">Q", self.wire.exactly(8))
            assert n >= 65536
        assert first & 0x70 == 0
        assert bool(second & 0x80) is not self.is_client
        self.frames += 1
        if not second & 0x80:
            return bool(first & 0x80), first & 15, self.wire.exactly(n)
        self.masks.append(mask := self.wire.exactly(4))
        return bool(first & 0x80), first & 15, turned(self.wire.exactly(n), mask)

    def message(self, controls=None):
        """The next message: (opcode, payload). Control frames before its end go to controls; None: there are none."""
        kind, pieces = None, []
        while True:
            fin, opcode, piece = self.hear()
            if opcode >= CLOSE:
                assert controls is not None and fin, (opcode, piece)
                controls.append((opcode, piece))
                continue
            assert (opcode == CONTINUATION) is (kind is not None), opcode
            kind = opcode if kind is None else kind
            pieces.append(piece)
            if fin:
                return kind, b"".join(pieces)

    def closed(self):
        """The next frame is a close frame: (code, reason)."""
        fin, opcode, payload = self.hear()
        assert fin and opcode == CLOSE, (opcode, payload)
        return (struct.unpack(">H", payload[:2])[0], payload[2:].decode()) if payload else (1005, "")


def handshake(path="/ws/a", host="registry.test", fields="", key=KEY, target=None):
    return (f"GET {target or path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n{fields}\r\n")


def switch(head, fields=""):
    """The right answer to the head of a handshake."""
    key = next(line.split(b":", 1)[1].strip().decode() for line in head.split(b"\r\n") if line.lower().startswith(b"sec-websocket-key:"))
    return (f"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Accept: {accept(key)}\r\n{fields}\r\n").encode()


class Service:
    """Answers each handshake with answer(head) and hands its end to whoever calls next(); None: the test answers itself."""

    def __init__(self, cert=None, key=None):
        self.answer, self.heads, self.waiting = switch, [], queue.Queue()
        self.context = None
        if cert:
            self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.context.load_cert_chain(cert, key)
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        connection.settimeout(PATIENCE)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            if self.context:
                connection = self.context.wrap_socket(connection, server_side=True)
            wire = Wire(connection)
            head = wire.until(b"\r\n\r\n") + b"\r\n\r\n"
            self.heads.append(head)
            answer = self.answer(head) if self.answer else None
            if answer:
                wire.send(answer)
            if answer and not answer.startswith(b"HTTP/1.1 101 "):
                connection.close()
            else:
                self.waiting.put(Speaker(wire, False))
        except (OSError, Closed):  # the gateway went: the test sees that nobody comes
            connection.close()

    def next(self):
        return self.waiting.get(timeout=PATIENCE)

    def close(self):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.socket.close()


class Echo(Service):
    """Says every message back, and its close frame, for as long as the client likes."""

    def serve(self, connection):
        super().serve(connection)
        try:
            self.talk(self.waiting.get_nowait())
        except (OSError, Closed, queue.Empty):
            pass
        finally:
            connection.close()

    def talk(self, here):
        opcode = None
        while opcode != CLOSE:
            fin, opcode, payload = here.hear()
            if opcode != PONG:
                here.say(PONG if opcode == PING else opcode, payload, fin)
