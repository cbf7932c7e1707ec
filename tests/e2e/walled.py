"""
A gateway's host with one sandbox behind a veth, a tap or a port of a bridge, a neighbour on that bridge, and a host outside that
all of them could reach. The sandbox speaks frames that are made by hand; what came of them is looked for everywhere at once.
"""
import contextlib
import fcntl
import itertools
import json
import os
import select
import socket
import struct
import time
from types import SimpleNamespace

import packets as p
from gateway import EXEAT
from netns import Network

G4, S4, N4, H4, O4 = "10.9.1.1", "10.9.1.2", "10.9.1.3", "10.9.1.77", "10.9.9.2"
G6, S6, N6, H6, O6 = "fd09:1::1", "fd09:1::2", "fd09:1::3", "fd09:1::77", "fd09:9::2"
S_MAC, N_MAC, NOBODY, ANOTHER = (f"02:00:00:00:09:{n}" for n in ("02", "03", "98", "99"))
ALL, IP_TRANSPARENT, IPV6_TRANSPARENT = 0x0003, 19, 75
numbers = itertools.count(20000)


class Wire:
    """The sandbox's end: frames in and out."""

    def __init__(self, lab):
        self.lab = lab

    def answer(self, f):
        """What any sandbox says when it is asked for its address."""
        if f.operation == 1 and f.target == S4:
            self.send(p.eth(S_MAC, f.by, p.ARP, p.arp(2, S_MAC, S4, f.source, f.by)))
        if f.icmp == p.NEIGHBOR_SOLICIT and f.sought == S6:
            self.send(p.eth(S_MAC, f.by, p.IP6, p.ip6(S6, f.source, p.ICMP6, p.advertisement(S6, S_MAC, S6, f.source), hops=255)))


class Socket(Wire):
    """An interface of a namespace, read and written whole."""

    def __init__(self, lab, host, interface):
        super().__init__(lab)
        with host.inside():
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL))
            self.socket.bind((interface, ALL))
        self.socket.setblocking(False)

    def fileno(self):
        return self.socket.fileno()

    def send(self, frame):
        self.socket.send(frame)

    def take(self):
        while True:
            try:
                frame, (_, _, kind, *_) = self.socket.recvfrom(65535)
            except BlockingIOError:
                return
            if kind != socket.PACKET_OUTGOING:
                yield frame

    def close(self):
        self.socket.close()


class Tap(Wire):
    """What a virtual machine's monitor holds: /dev/net/tun."""

    TUNSETIFF, TAP_NO_PI = 0x400454CA, 0x1002

    def __init__(self, lab, host, interface):
        super().__init__(lab)
        with host.inside():
            self.fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
            fcntl.ioctl(self.fd, self.TUNSETIFF, struct.pack("16sH22x", interface.encode(), self.TAP_NO_PI))

    def fileno(self):
        return self.fd

    def send(self, frame):
        os.write(self.fd, frame)

    def take(self):
        while True:
            try:
                yield os.read(self.fd, 65535)
            except BlockingIOError:
                return

    def close(self):
        os.close(self.fd)


class Walled:
    """`kind` is veth, tap or bridge; `steer` is None, redirect or tproxy."""

    def __init__(self, directory, kind, steer=None, dhcp=False):
        self.kind, self.steer, self.dhcp, self.interface = kind, steer, dhcp, "sb1"
        self.inner = "br0" if kind == "bridge" else self.interface
        self.config = directory / "proxy.conf"
        self.write_config(directory)
        self.net = Network("w")
        self.gateway, self.outside = self.net.host("gw"), self.net.host("out")
        self.open = []
        try:
            self.make_links()
            self.listen()
        except BaseException:
            self.close()
            raise

    # ---- the place

    def write_config(self, directory):
        names = {"explicit": (3128, ""), "bound": (3140, ", sandbox: vm2")}
        if self.steer:
            names["transparent"] = (3129, ", mode: transparent")
        lines = [f'  {name}{n}: {{address: "{host}:{port}"{more}}}' for name, (port, more) in names.items()
                 for n, host in ((4, G4), (6, f"[{G6}]"))]
        self.config.write_text(f"gateway: {{name: gw.test, state: {directory}}}\nlisten:\n" + "\n".join(lines) + """
  nowhere: {address: "127.0.0.1:3127"}
dns:
  four: {address: "G4:53", answer: "G4"}
  six: {address: "[G6]:53", answer: "G6"}
services:
  web: {hosts: [web.test], ports: [443], plain-ports: [80], allow: ["GET /**"], scope: w, audit: "waived: test"}
""".replace("G4", G4).replace("G6", G6))

    def make_links(self):
        for host in (self.gateway, self.outside):
            host.sysctl(net__ipv6__conf__default__accept_dad=0, net__ipv6__conf__all__accept_dad=0,
                        net__ipv4__conf__all__rp_filter=0, net__ipv4__conf__default__rp_filter=0)
        self.gateway.sysctl(net__ipv4__ip_forward=1, net__ipv6__conf__all__forwarding=1)
        self.addresses = [f"{a}/24" for a in (H4, G4)] + [f"{a}/64" for a in (H6, G6)]
        if self.kind == "bridge":
            self.gateway.ip("link", "add", "br0", "type", "bridge", "mcast_snooping", "0")
            if self.steer == "tproxy":
                self.gateway.sysctl(**{"net.bridge.bridge-nf-call-iptables": 0, "net.bridge.bridge-nf-call-ip6tables": 0})
            self.net.configure(self.gateway, "br0", self.addresses)
        if self.kind == "tap":
            self.wire = self.keep(Tap(self, self.gateway, self.interface))
            self.net.configure(self.gateway, self.interface, self.addresses)
        else:
            self.wire = self.plug("sb", self.interface, S_MAC)
        self.neighbour = self.plug("nb", "sb2", N_MAC) if self.kind == "bridge" else None
        self.net.link(self.gateway, ["10.9.9.1/24", "fd09:9::1/64"], self.outside, [f"{O4}/24", f"{O6}/64"], "uplink", "eth0")
        for six, via in (("-4", O4), ("-6", O6)):
            self.gateway.ip(six, "route", "add", "default", "via", via)
            self.outside.ip(six, "route", "add", "default", "via", via[:-1] + "1")
        self.mac = self.gateway.run("cat", f"/sys/class/net/{self.inner}/address").stdout.strip()
        self.far = self.keep(Socket(self, self.outside, "eth0"))

    def plug(self, name, port, mac):
        """A namespace whose only voice is ours, at the other end of a veth."""
        host = self.net.host(name)
        host.sysctl(net__ipv6__conf__all__disable_ipv6=1, net__ipv6__conf__default__disable_ipv6=1)
        self.net.link(self.gateway, None if self.kind == "bridge" else self.addresses, host, None, port, "eth0")
        host.ip("link", "set", "eth0", "address", mac)
        if self.kind == "bridge":
            self.gateway.ip("link", "set", port, "master", "br0")
        return self.keep(Socket(self, host, "eth0"))

    def keep(self, thing):
        self.open.append(thing)
        return thing

    def close(self):
        for thing in self.open:
            thing.close()
        self.net.__exit__()

    # ---- the gateway's host: its doors, and what else it listens on

    def tcp(self, address, port, transparent=False):
        six = ":" in address
        with self.gateway.inside():
            s = socket.socket(p.family(address), socket.SOCK_STREAM)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if six:
            s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        if transparent:
            s.setsockopt(socket.IPPROTO_IPV6 if six else socket.IPPROTO_IP, IPV6_TRANSPARENT if six else IP_TRANSPARENT, 1)
        s.bind((address, port))
        s.listen(4096)
        return s

    def dhcp_server(self):
        with self.gateway.inside():
            s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, self.inner.encode())
            s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
            s.bind(("", 67))
        s.setblocking(False)
        return s

    def dns_server(self, address):
        """At its own address: an answer from another would be none."""
        with self.gateway.inside():
            s = socket.socket(p.family(address), socket.SOCK_DGRAM)
        s.bind((address, 53))
        s.setblocking(False)
        return s

    def udp(self, port):
        with self.gateway.inside():
            s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
            s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            s.bind(("::", port))
            index = socket.if_nametoindex(self.inner)
            if port == 5353:
                s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, p.ip("ff02::fb") + struct.pack("@I", index))
                s.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, p.ip("224.0.0.251") + p.ip(G4))
        s.setblocking(False)
        return s

    def raw(self, six, protocol):
        with self.gateway.inside():
            s = socket.socket(socket.AF_INET6 if six else socket.AF_INET, socket.SOCK_RAW, protocol)
        s.setblocking(False)
        return s

    def listen(self):
        own = [(a, n) for a in (G4, G6) for n in (3128, 3140, 53)] + [(H4, 3128), (H6, 3128)]
        for address, port in own + [(a, n) for a in ("0.0.0.0", "::") for n in (22, 80, 443)]:
            self.keep(self.tcp(address, port))
        self.steered = []
        self.open_steered()
        self.datagrams = {port: self.keep(self.udp(port)) for port in (5001, 5353)}
        self.datagrams |= {67: self.keep(self.dhcp_server())} | {(53, a): self.keep(self.dns_server(a)) for a in (G4, G6)}
        self.raws = [self.keep(self.raw(six, n)) for six, n in
                     ((False, p.TCP), (True, p.TCP), (False, p.ICMP), (True, p.ICMP6), (False, p.IGMP))]

    def open_steered(self):
        if self.steer:
            self.steered = [self.tcp(a, 3129, transparent=self.steer == "tproxy") for a in (G4, G6)]

    def close_steered(self):
        for s in self.steered:
            s.close()

    # ---- the firewall

    def words(self, verb):
        words = [EXEAT, "-c", self.config, "firewall", verb, "--interface", self.interface]
        if verb == "remove":
            return words
        words += ["--source", S4, "--source", S6, "--mac", S_MAC]
        words += ["--bridge", "br0"] if self.kind == "bridge" else []
        words += ["--tproxy"] if self.steer == "tproxy" else []
        return words + (["--dhcp"] if self.dhcp else [])

    def firewall(self, verb, *more, check=True):
        done = self.gateway.run(*self.words(verb), *more)
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done

    def nft(self, *words):
        return self.gateway.run("nft", *words, check=True).stdout

    def rules(self):
        """Every rule in force: (family, chain, handle, comment)."""
        listed = json.loads(self.nft("-j", "list", "ruleset"))["nftables"]
        return [(r["family"], r["chain"], r["handle"], r["comment"]) for r in (x["rule"] for x in listed if "rule" in x)]

    def logged(self, family):
        """How many packets the rule that logs in this table has seen; None: it is not there."""
        listed = json.loads(self.nft("-j", "list", "ruleset"))["nftables"]
        for r in (x["rule"] for x in listed if "rule" in x):
            if r["family"] == family and any("log" in e for e in r["expr"]):
                return next(e["counter"]["packets"] for e in r["expr"] if "counter" in e)
        return None

    def forget_neighbours(self):
        self.gateway.ip("neigh", "flush", "dev", self.inner)

    def reassembled(self):
        """How many fragments this host has tried to put together."""
        with self.gateway.inside():
            four = open("/proc/thread-self/net/snmp").read().splitlines()
            six = open("/proc/thread-self/net/snmp6").read()
        names, values = (line.split() for line in four if line.startswith("Ip:"))
        return int(values[names.index("ReasmReqds")]) + int(six.split("Ip6ReasmReqds")[1].split()[0])

    # ---- sending and looking

    def watch(self):
        return SimpleNamespace(wire=[], far=[], neighbour=[], local=[])

    def look(self, seen):
        """Take in what has come, everywhere; answer as a sandbox does, and as the gateway's DNS."""
        for frame in self.wire.take():
            seen.wire.append(f := p.read(frame))
            self.wire.answer(f)
            if f.flags == p.SYN | p.ACK:
                self.wire.send(self.frame(f.target, f.source, p.TCP, p.tcp(f.target, f.source, f.dport, f.sport, p.RST, seq=1001)))
        for name, place in (("far", self.far), ("neighbour", self.neighbour)):
            if place:
                getattr(seen, name).extend(p.read(frame) for frame in place.take())
        for s in self.raws:
            seen.local.extend(data for data in self.received(s))
        for port, s in self.datagrams.items():
            for data, source in self.received(s, True):
                seen.local.append(b"udp:" + data)
                if port in ((53, G4), (53, G6)):
                    with contextlib.suppress(PermissionError):
                        s.sendto(b"answer:" + data, source)
                if port == 67:
                    with contextlib.suppress(PermissionError):
                        s.sendto(data + b"offer to all", ("255.255.255.255", 68))
                    with contextlib.suppress(PermissionError):
                        s.sendto(data + b"offer to one", (S4, 68))

    @staticmethod
    def received(s, sources=False):
        while True:
            try:
                data, source = s.recvfrom(65535)
            except BlockingIOError:
                return
            yield (data, source) if sources else data

    def frame(self, source, target, protocol, segment, to=None, by=S_MAC, vlan=None, **more):
        kind = p.IP6 if ":" in source else p.IP4
        return p.eth(by, to or self.mac, kind, p.packet(source, target, protocol, segment, **more), vlan=vlan)

    def settle(self, seen, patience=1.0):
        """Until all that was sent before has come to its end: a question that is always answered stands behind it in the queue."""
        group, group_mac = p.group_of(G6)
        before = len(seen.wire)
        self.wire.send(p.eth(S_MAC, p.BROADCAST, p.ARP, p.arp(1, S_MAC, S4, G4)))
        self.wire.send(p.eth(S_MAC, group_mac, p.IP6, p.ip6(S6, group, p.ICMP6, p.solicitation(S6, S_MAC, G6, group), hops=255)))

        def is_answered():
            return any(f.operation == 2 and f.source == G4 or f.icmp == p.NEIGHBOR_ADVERT and f.sought == G6 for f in seen.wire[before:])
        self.wait(seen, is_answered, patience)

    def wait(self, seen, until, patience):
        deadline = time.monotonic() + patience
        places = [x for x in (self.wire, self.far, self.neighbour) if x] + self.raws + list(self.datagrams.values())
        while not until():
            left = deadline - time.monotonic()
            if left <= 0:
                break
            select.select(places, [], [], min(left, 0.05))
            self.look(seen)
        self.look(seen)
