"""Frames made by hand, and read: Ethernet, ARP, IPv4, IPv6, TCP, UDP, ICMP; right in every checksum, wrong where a test says so."""
import socket
import struct
from types import SimpleNamespace

ARP, IP4, IP6, VLAN = 0x0806, 0x0800, 0x86DD, 0x8100
TCP, UDP, ICMP, ICMP6, IGMP, FRAGMENT, HOP_BY_HOP = 6, 17, 1, 58, 2, 44, 0
FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16
BROADCAST = "ff:ff:ff:ff:ff:ff"
ECHO, ECHO6, ROUTER_SOLICIT, NEIGHBOR_SOLICIT, NEIGHBOR_ADVERT, MLD_REPORT = 8, 128, 133, 135, 136, 143


def mac(text):
    return bytes.fromhex(text.replace(":", ""))


def family(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def ip(address):
    return socket.inet_pton(family(address), address)


def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total & 0xFFFF) + (total >> 16)
    return ~(total + (total >> 16)) & 0xFFFF


def eth(source, target, kind, payload, vlan=None):
    tag = struct.pack("!HH", VLAN, vlan) if vlan is not None else b""
    return (mac(target) + mac(source) + tag + struct.pack("!H", kind) + payload).ljust(60, b"\0")


def arp(operation, sender_mac, sender, target, target_mac="00:00:00:00:00:00"):
    return struct.pack("!HHBBH", 1, IP4, 6, 4, operation) + mac(sender_mac) + ip(sender) + mac(target_mac) + ip(target)


def ip4(source, target, protocol, payload, fragment=0, options=b"", ident=1):
    length = 20 + len(options)
    head = struct.pack("!BBHHHBBH", 0x40 | length // 4, 0, length + len(payload), ident, fragment, 64, protocol, 0)
    head += ip(source) + ip(target) + options
    return head[:10] + struct.pack("!H", checksum(head)) + head[12:] + payload


def ip6(source, target, following, payload, hops=64):
    return struct.pack("!IHBB", 6 << 28, len(payload), following, hops) + ip(source) + ip(target) + payload


def packet(source, target, protocol, payload, **more):
    return (ip6 if ":" in source else ip4)(source, target, protocol, payload, **more)


def summed(source, target, protocol, segment, at):
    """The segment with the checksum that its addresses give it."""
    if ":" in source:
        pseudo = ip(source) + ip(target) + struct.pack("!II", len(segment), protocol)
    else:
        pseudo = ip(source) + ip(target) + struct.pack("!HH", protocol, len(segment))
    return segment[:at] + struct.pack("!H", checksum(pseudo + segment)) + segment[at + 2:]


def tcp(source, target, sport, dport, flags=SYN, seq=1000, ack=0, data=b""):
    return summed(source, target, TCP, struct.pack("!HHIIBBHHH", sport, dport, seq, ack, 0x50, flags, 8192, 0, 0) + data, 16)


def udp(source, target, sport, dport, data=b"?"):
    return summed(source, target, UDP, struct.pack("!HHHH", sport, dport, 8 + len(data), 0) + data, 6)


def echo(source, target, data):
    if ":" in source:
        return icmp6(source, target, ECHO6, b"\0\1\0\1" + data)
    whole = struct.pack("!BBHHH", ECHO, 0, 0, 1, 1) + data
    return whole[:2] + struct.pack("!H", checksum(whole)) + whole[4:]


def icmp6(source, target, kind, rest):
    return summed(source, target, ICMP6, struct.pack("!BBH", kind, 0, 0) + rest, 2)


def solicitation(source, source_mac, sought, target):
    return icmp6(source, target, NEIGHBOR_SOLICIT, b"\0" * 4 + ip(sought) + b"\x01\x01" + mac(source_mac))


def advertisement(source, source_mac, address, target):
    return icmp6(source, target, NEIGHBOR_ADVERT, b"\x60\0\0\0" + ip(address) + b"\x02\x01" + mac(source_mac))


def group_of(address):
    """The solicited-node group of an address, and the hardware address of that."""
    tail = ip(address)[-3:]
    return socket.inet_ntop(socket.AF_INET6, bytes.fromhex("ff0200000000000000000001ff") + tail), "33:33:ff:" + tail.hex(":")


def read(frame):
    """What is in a frame: kind, and what of source, target, protocol, sport, dport, flags, icmp, operation, sought there is."""
    f = SimpleNamespace(frame=frame, to=frame[:6].hex(":"), by=frame[6:12].hex(":"), kind=struct.unpack("!H", frame[12:14])[0],
                        source=None, target=None, protocol=None, sport=None, dport=None, flags=None, icmp=None, operation=None, sought=None)
    body = frame[14:]
    if f.kind == ARP and len(body) >= 28:
        f.operation, f.source, f.target = struct.unpack("!H", body[6:8])[0], socket.inet_ntoa(body[14:18]), socket.inet_ntoa(body[24:28])
    elif f.kind == IP4 and len(body) >= 20:
        f.protocol, f.source, f.target = body[9], socket.inet_ntoa(body[12:16]), socket.inet_ntoa(body[16:20])
        segment(f, body[(body[0] & 15) * 4:])
    elif f.kind == IP6 and len(body) >= 40:
        f.protocol = body[6]
        f.source, f.target = (socket.inet_ntop(socket.AF_INET6, body[at:at + 16]) for at in (8, 24))
        segment(f, body[40:])
    return f


def segment(f, body):
    if f.protocol in (TCP, UDP) and len(body) >= 8:
        f.sport, f.dport = struct.unpack("!HH", body[:4])
        f.flags = body[13] if f.protocol == TCP and len(body) > 13 else None
    elif f.protocol in (ICMP, ICMP6) and len(body) >= 8:
        f.icmp = body[0]
        if f.icmp in (NEIGHBOR_SOLICIT, NEIGHBOR_ADVERT) and len(body) >= 24:
            f.sought = socket.inet_ntop(socket.AF_INET6, body[8:24])
