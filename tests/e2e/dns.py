"""DNS messages as a hostile client writes them, and as anybody reads them: bytes, no library."""
import secrets
import socket
import struct
from types import SimpleNamespace

TYPES = {"A": 1, "NS": 2, "CNAME": 5, "SOA": 6, "PTR": 12, "HINFO": 13, "MX": 15, "TXT": 16, "AAAA": 28, "SRV": 33, "OPT": 41, "SVCB": 64, "HTTPS": 65,
         "IXFR": 251, "AXFR": 252, "ANY": 255}
CODES = {0: "NOERROR", 1: "FORMERR", 2: "SERVFAIL", 3: "NXDOMAIN", 4: "NOTIMP", 5: "REFUSED"}
EDE = 15
PATIENCE = 30


def labels(name):
    """The wire form; a list of bytes stands for labels that no text has."""
    parts = name if isinstance(name, list) else [p.encode() for p in name.split(".") if p]
    return b"".join(bytes([len(p)]) + p for p in parts) + b"\0"


def opt(size=1232, flags=0, version=0, options=b"", owner=b"\0"):
    return owner + struct.pack(">HHBBHH", TYPES["OPT"], size, 0, version, flags, len(options)) + options


def question(name="npm.example", type="A", klass=1, id=None, flags=0x0100, counts=None, extra=(), edns=True, tail=b"", raw=None):
    number = TYPES.get(type, type)
    extra = [opt(), *extra] if edns is True else [edns, *extra] if edns else list(extra)
    body = raw if raw is not None else labels(name) + struct.pack(">HH", number, klass)
    counts = counts or (1, 0, 0, len(extra))
    id = secrets.randbelow(65536) if id is None else id
    return struct.pack(">HHHHHH", id, flags, *counts) + body + b"".join(extra) + tail


def read_name(data, at):
    parts, end = [], None
    while True:
        n = data[at]
        if n >= 0xC0:
            end = end or at + 2
            at = (n & 0x3F) << 8 | data[at + 1]
        elif n == 0:
            return ".".join(parts), end or at + 1
        else:
            parts.append(data[at + 1:at + 1 + n].decode("latin-1"))
            at += 1 + n


def read_record(data, at):
    name, at = read_name(data, at)
    type, klass, ttl, size = struct.unpack_from(">HHIH", data, at)
    value = data[at + 10:at + 10 + size]
    if type == TYPES["A"]:
        value = socket.inet_ntoa(value)
    elif type == TYPES["AAAA"]:
        value = socket.inet_ntop(socket.AF_INET6, value)
    return SimpleNamespace(name=name, type=type, klass=klass, ttl=ttl, value=value), at + 10 + size


def read(data):
    id, flags, *counts = struct.unpack_from(">HHHHHH", data)
    at, names, sections = 12, [], []
    for _ in range(counts[0]):
        name, at = read_name(data, at)
        names.append((name, *struct.unpack_from(">HH", data, at)))
        at += 4
    for n in counts[1:]:
        records = []
        for _ in range(n):
            record, at = read_record(data, at)
            records.append(record)
        sections.append(records)
    assert at == len(data), "bytes behind the end"
    extra = [r for r in sections[2] if r.type == TYPES["OPT"]]
    code = flags & 15 | (extra[0].ttl >> 24) << 4 if extra else flags & 15
    answer = SimpleNamespace(id=id, flags=flags, code=CODES.get(code, code), questions=names, answers=sections[0], authority=sections[1],
                             edns=extra[0] if extra else None, error=None, words="", size=len(data), truncated=bool(flags & 0x0200))
    options = extra[0].value if extra else b""
    while options:
        number, size = struct.unpack_from(">HH", options)
        if number == EDE:
            answer.error, answer.words = struct.unpack_from(">H", options, 4)[0], options[6:4 + size].decode()
        options = options[4 + size:]
    return answer


def addresses(answer):
    return [r.value for r in answer.answers]


class Client:
    """A client with a socket of its own, from an address of its own."""

    def __init__(self, port, source="127.0.0.1", host="127.0.0.1"):
        self.to = (host, port)
        self.socket = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((source, 0))
        self.socket.settimeout(PATIENCE)

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def send(self, message):
        self.socket.sendto(message, self.to)

    def receive(self):
        data, source = self.socket.recvfrom(65536)
        assert source[:2] == self.to
        return read(data)

    def ask(self, name="npm.example", type="A", **more):
        message = question(name, type, **more)
        self.send(message)
        answer = self.receive()
        assert answer.id == struct.unpack_from(">H", message)[0] and answer.flags & 0x8000
        return answer


class Talk:
    """The same by TCP: messages with their length in front."""

    def __init__(self, port, source="127.0.0.1", host="127.0.0.1", room=None):
        self.socket = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        self.socket.settimeout(PATIENCE)
        if room:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
        self.socket.bind((source, 0))
        self.socket.connect((host, port))
        self.buffer = b""

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def send(self, *messages):
        self.socket.sendall(b"".join(struct.pack(">H", len(m)) + m for m in messages))

    def more(self):
        data = self.socket.recv(65536)
        self.buffer += data
        return data

    def receive(self):
        """None: the other side ended."""
        while len(self.buffer) < 2 or len(self.buffer) < 2 + struct.unpack_from(">H", self.buffer)[0]:
            if not self.more():
                return None
        size = struct.unpack_from(">H", self.buffer)[0]
        data, self.buffer = self.buffer[2:2 + size], self.buffer[2 + size:]
        return read(data)

    def ask(self, name="npm.example", type="A", **more):
        self.send(question(name, type, **more))
        return self.receive()
