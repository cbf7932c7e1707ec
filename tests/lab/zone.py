"""Names below ZONE: a name server for tests, and the look-up of a service that has no resolver of the machine's."""
import socket
import struct
import threading

from world import SERVICE, ZONE, ZONE_SERVER


def question(name, number=1):
    labels = b"".join(bytes([len(l)]) + l.encode() for l in name.split("."))
    return struct.pack(">HHHHHH", number, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">HH", 1, 1)


def lookup(world, name):
    """The address of a name below the zone; None when nobody answers."""
    with world.inside():
        wire = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with wire:
        wire.settimeout(2)
        wire.sendto(question(name), (ZONE_SERVER, 53))
        try:
            answer = wire.recv(4096)
        except OSError:
            return None
    at = len(question(name))
    count, = struct.unpack(">H", answer[6:8])
    return socket.inet_ntoa(answer[at + 12:at + 16]) if count else None


class Zone:
    """with Zone(world, addresses) as z: the name server; each look-up gets the next address, the last one stays. z.names: who was asked for."""

    def __init__(self, world, addresses=(SERVICE,)):
        self.names, self.addresses = [], list(addresses)
        with world.inside():
            self.wire = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self.wire.bind((ZONE_SERVER, 53))
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.wire.sendto(b"", self.wire.getsockname())  # a word to itself ends it, and the address is free
        self.thread.join()
        self.wire.close()

    def serve(self):
        while True:
            query, peer = self.wire.recvfrom(4096)
            if not query:
                return
            end = query.index(b"\0", 12)
            at, labels = 12, []
            while at < end:
                labels.append(query[at + 1:at + 1 + query[at]].decode())
                at += 1 + query[at]
            self.names.append(".".join(labels))
            address = self.addresses.pop(0) if len(self.addresses) > 1 else self.addresses[0]
            answer = query[:2] + struct.pack(">HHHHH", 0x8400, 1, 1, 0, 0) + query[12:end + 5]
            self.wire.sendto(answer + b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 0, 4) + socket.inet_aton(address), peer)


def is_below(host):
    return (host or "").endswith("." + ZONE)
