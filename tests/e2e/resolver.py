"""
A name server that answers by script, over UDP and TCP on one port: truncated, late, forged, looped, huge. The first label of a
name says how.
"""
import itertools
import socket
import struct
import threading
import time

from names import read_name
from origin import stop_listening

A, CNAME, AAAA, IN = 1, 5, 28, 1
GOOD, BAD = "11.22.33.44", "127.0.0.1"


def packed(name):
    return b"".join(bytes([len(l)]) + l.encode() for l in name.split(".") if l) + b"\0"


def record(owner, kind, data, klass=IN, ttl=0):
    return packed(owner) + struct.pack("!HHIH", kind, klass, ttl, len(data)) + data


def address(owner, text, **more):
    v6 = ":" in text
    return record(owner, AAAA if v6 else A, socket.inet_pton(socket.AF_INET6 if v6 else socket.AF_INET, text), **more)


def alias(owner, target):
    return record(owner, CNAME, packed(target))


class Question:
    def __init__(self, packet, tcp):
        self.id, self.tcp = packet[:2], tcp
        self.name, end = read_name(packet)
        self.kind, = struct.unpack("!H", packet[end:end + 2])
        self.section = packet[12:end + 4]

    def reply(self, *records, flags=0x8180, id=None, section=None, count=None):
        head = struct.pack("!HHHHH", flags, 1, len(records) if count is None else count, 0, 0)
        return (id or self.id) + head + (section or self.section) + b"".join(records)

    def addresses(self, *texts, **more):
        mine = [t for t in texts if (":" in t) == (self.kind == AAAA)]
        return self.reply(*(address(self.name, t) for t in mine), **more)


def chain(q, n, last):
    names = [q.name] + [f"hop{i}.elsewhere.test" for i in range(n)]
    links = [alias(a, b) for a, b in zip(names, names[1:])]
    return q.reply(*links, *([address(names[-1], last)] if q.kind == A else []))


def wrong(q):
    return bytes([q.id[0] ^ 1, q.id[1]])


flips = itertools.count()

# label: what is sent, one packet after another; None: nothing. A float: wait so long first.
SCRIPTS = {
    "good": lambda q: [q.addresses(GOOD)],
    "bad": lambda q: [q.addresses(BAD)],
    "flip": lambda q: [q.addresses(GOOD if next(flips) % 2 == 0 else BAD) if q.kind == A else q.addresses()],
    "mixed": lambda q: [q.addresses(BAD, GOOD, "::1", "169.254.169.254", "fe80::1")],
    "v6-bad-v4-good": lambda q: [q.addresses("::1", GOOD)],
    "v6-fails-v4-good": lambda q: [q.addresses(GOOD) if q.kind == A else q.reply(flags=0x8182)],
    "nodata": lambda q: [q.reply()],
    "nxdomain": lambda q: [q.reply(flags=0x8183)],
    "servfail": lambda q: [q.reply(flags=0x8182)],
    "refused": lambda q: [q.reply(flags=0x8185)],
    "notimp": lambda q: [q.reply(flags=0x8184)],
    "cut": lambda q: [q.addresses(GOOD) if q.tcp else q.reply(flags=0x8380)],
    "cut-bad": lambda q: [q.addresses(BAD) if q.tcp else q.addresses(GOOD, flags=0x8380)],
    "cut-for-ever": lambda q: None if q.tcp else [q.reply(flags=0x8380)],
    "huge": lambda q: [q.addresses(*[f"11.22.{i // 250}.{i % 250 + 1}" for i in range(1000)]) if q.tcp else q.reply(flags=0x8380)],
    "huge-bad": lambda q: [q.addresses(*[f"127.1.{i // 250}.{i % 250 + 1}" for i in range(1000)]) if q.tcp else q.reply(flags=0x8380)],
    "slow": lambda q: [0.3, q.addresses(GOOD)],
    "silent": lambda q: None,
    "wrong-id": lambda q: [q.addresses(GOOD, id=wrong(q))],
    "wrong-id-first": lambda q: [q.addresses(BAD, id=wrong(q)), q.addresses(GOOD)],
    "wrong-question": lambda q: [q.addresses(GOOD, section=packed("elsewhere.test") + q.section[-4:])],
    "wrong-question-first": lambda q: [q.addresses(BAD, section=packed("elsewhere.test") + q.section[-4:]), q.addresses(GOOD)],
    "other-owner": lambda q: [q.reply(*[address("elsewhere.test", GOOD)] * (q.kind == A))],
    "other-owner-beside": lambda q: [q.reply(*[address("elsewhere.test", BAD), address(q.name, GOOD)] * (q.kind == A))],
    "other-class": lambda q: [q.reply(*[address(q.name, GOOD, klass=3)] * (q.kind == A))],
    "short": lambda q: [q.id + b"\x81"],
    "count-lies": lambda q: [q.addresses(GOOD, count=9)],
    "rdata-short": lambda q: [q.reply(record(q.name, A, b"\x0b\x16"))],
    "rdata-beyond": lambda q: [q.reply(packed(q.name) + struct.pack("!HHIH", A, IN, 0, 400) + b"\x0b\x16\x21\x2c")],
    "pointer-loop": lambda q: [q.reply(b"\xc0" + bytes([12 + len(q.section)]) + struct.pack("!HHIH", A, IN, 0, 4) + b"\x0b\x16\x21\x2c")],
    "alias-good": lambda q: [chain(q, 1, GOOD)],
    "alias-bad": lambda q: [chain(q, 1, BAD)],
    "alias-long": lambda q: [chain(q, 8, GOOD)],
    "alias-long-bad": lambda q: [chain(q, 8, BAD)],
    "alias-endless": lambda q: [chain(q, 40, GOOD)],
    "alias-loop": lambda q: [q.reply(alias(q.name, "b.elsewhere.test"), alias("b.elsewhere.test", q.name))],
    "alias-self": lambda q: [q.reply(alias(q.name, q.name))],
    "alias-nowhere": lambda q: [q.reply(alias(q.name, "gone.elsewhere.test"), flags=0x8183)],
}


class Resolver:
    def __init__(self, ip="127.0.0.1", port=0):
        self.tcp = socket.create_server((ip, port))
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind(self.tcp.getsockname())
        self.address = "%s:%d" % self.tcp.getsockname()
        self.asked = []  # (name, over TCP)
        self.serving = [threading.Thread(target=serve, daemon=True) for serve in (self.serve_udp, self.serve_tcp)]
        for thread in self.serving:
            thread.start()

    def close(self):
        stop_listening(self.tcp, self.serving[1])
        self.udp.sendto(b"", self.udp.getsockname())  # no question: the end
        self.serving[0].join()
        self.udp.close()

    def replies(self, packet, tcp):
        q = Question(packet, tcp)
        self.asked.append((q.name, tcp))
        for piece in SCRIPTS[q.name.split(".")[0]](q) or []:
            if isinstance(piece, float):
                time.sleep(piece)
            else:
                yield piece

    def answer_udp(self, packet, peer):
        for piece in self.replies(packet, False):
            self.udp.sendto(piece, peer)

    def serve_udp(self):
        while True:
            packet, peer = self.udp.recvfrom(4096)
            if not packet:
                return
            threading.Thread(target=self.answer_udp, args=(packet, peer), daemon=True).start()

    def serve_tcp(self):
        while True:
            try:
                connection, _ = self.tcp.accept()
            except OSError:
                return
            threading.Thread(target=self.answer_tcp, args=(connection,), daemon=True).start()

    def answer_tcp(self, connection):
        with connection:
            while len(size := connection.recv(2)) == 2:
                packet = connection.recv(int.from_bytes(size, "big"))
                for piece in self.replies(packet, True):
                    connection.sendall(len(piece).to_bytes(2, "big") + piece)
