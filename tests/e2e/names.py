"""A name server on a port of its own: every name is 127.0.0.1, and it remembers who was asked for."""
import socket
import struct
import threading

A, IN = 1, 1


def read_name(packet, at=12):
    labels = []
    while n := packet[at]:
        labels.append(packet[at + 1:at + 1 + n].decode("latin-1"))
        at += 1 + n
    return ".".join(labels), at + 1


def answer(packet):
    name, end = read_name(packet)
    kind, = struct.unpack("!H", packet[end:end + 2])
    found = kind == A
    head = packet[:2] + struct.pack("!HHHHH", 0x8180, 1, int(found), 0, 0)
    record = b"\xc0\x0c" + struct.pack("!HHIH", A, IN, 60, 4) + socket.inet_aton("127.0.0.1")
    return name, head + packet[12:end + 4] + (record if found else b"")


class Names:
    def __init__(self, port=0):
        self.asked = []
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", port))
        self.address = "127.0.0.1:%d" % self.socket.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                packet, peer = self.socket.recvfrom(4096)
                name, reply = answer(packet)
            except OSError:
                return
            except (IndexError, struct.error):
                continue
            self.asked.append(name.lower())
            try:
                self.socket.sendto(reply, peer)
            except OSError:
                return

    def close(self):
        self.socket.close()
