"""
`exeat firewall` in namespaces: what a sandbox reaches, by every way it could try, and that each rule is there for a reason. For
each rule of each ruleset: without it `firewall check` names it, and something that was refused is not, or what must work does not.
"""
import contextlib
import os
import socket
from types import SimpleNamespace

import pytest

import packets as p
from walled import ANOTHER, G4, G6, H4, H6, N4, N6, N_MAC, NOBODY, O4, O6, S4, S6, S_MAC, Walled, numbers

PLACES = {
    "veth": dict(kind="veth"),
    "veth-redirect": dict(kind="veth", steer="redirect", dhcp=True),
    "veth-tproxy": dict(kind="veth", steer="tproxy"),
    "tap": dict(kind="tap", steer="redirect"),
    "bridge": dict(kind="bridge", dhcp=True),
    "bridge-redirect": dict(kind="bridge", steer="redirect"),
    "bridge-tproxy": dict(kind="bridge", steer="tproxy"),
}
SETS = {4: SimpleNamespace(g=G4, s=S4, n=N4, h=H4, o=O4, broadcast="10.9.1.255", group="224.0.0.251", group_mac="01:00:5e:00:00:fb",
                           metadata="169.254.169.254", echo=p.ICMP),
        6: SimpleNamespace(g=G6, s=S6, n=N6, h=H6, o=O6, group="ff02::fb", group_mac="33:33:00:00:00:fb", metadata="fd00:ec2::254",
                           echo=p.ICMP6)}


@pytest.fixture(scope="module", autouse=True)
def one_processor():
    """So that packets are seen in the order in which they were sent."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    yield
    os.sched_setaffinity(0, before)


@pytest.fixture(scope="module", params=PLACES, ids=list(PLACES))
def place(request, tmp_path_factory):
    w = Walled(tmp_path_factory.mktemp("firewall"), **PLACES[request.param])
    yield w
    w.close()


# ---- what is tried, and what comes of it ----


def answered(seen, k):
    """A SYN of that number was answered, and whether from outside."""
    far = any(f.sport == k for f in seen.far)
    if any(f.dport == k and f.flags and f.flags & p.SYN for f in seen.wire):
        return "answered" if not far else "answered from outside"
    return "went out" if far else "refused"


def arrived(seen, k):
    """What carries that number came to this host, to the outside, to the neighbour."""
    token = b"#%d#" % k
    if any(token in f.frame for f in seen.far):
        return "went out"
    if any(token in f.frame and f.by == S_MAC for f in seen.neighbour):
        return "reached the neighbour"
    if any(token in data for data in seen.local):
        return "came in"
    return "refused"


def replied(seen, k):
    token = b"#%d#" % k
    back = any(token in f.frame for f in seen.wire)
    return "answered" if back else arrived(seen, k)


def offered(text):
    def outcome(seen, k):
        return "answered" if any(b"#%d#" % k + text in f.frame for f in seen.wire) else arrived(seen, k)
    return outcome


class Probe:
    def __init__(self, name, want, send, outcome=arrived, when=True):
        self.name, self.want, self.send, self.outcome, self.when = name, want, send, outcome, when


def syn(w, a, target, port, flags=p.SYN, source=None, data=b"", **more):
    def send(k):
        s = source or a.s
        w.wire.send(w.frame(s, target, p.TCP, p.tcp(s, target, k, port, flags, data=b"#%d#" % k if data else b""), **more))
    return send


def datagram(w, a, target, port, source=None, sport=None, **more):
    def send(k):
        s = source or a.s
        w.wire.send(w.frame(s, target, p.UDP, p.udp(s, target, sport or k, port, b"#%d#" % k), **more))
    return send


def asks_for(w, address, sender=S4, sender_mac=S_MAC):
    return lambda k: w.wire.send(p.eth(S_MAC, p.BROADCAST, p.ARP, p.arp(1, sender_mac, sender, address)))


def solicits(w, address, source=S6):
    group, group_mac = p.group_of(address)
    return lambda k: w.wire.send(p.eth(S_MAC, group_mac, p.IP6, p.ip6(source, group, p.ICMP6, p.solicitation(source, S_MAC, address, group),
                                                                     hops=255)))


def by_settling(k):
    """Walled.settle asks this; an answer to another question of the kind could be taken for its own."""


def told(address):
    def outcome(seen, k):
        is_told = any(f.operation == 2 and f.source == address or f.icmp == p.NEIGHBOR_ADVERT and f.sought == address for f in seen.wire)
        return "answered" if is_told else "refused"
    return outcome


def in_pieces(w, a, target, port):
    """A datagram in two fragments."""
    def send(k):
        whole = p.udp(a.s, target, k, port, b"#%d#" % k + b"x" * 36)
        if ":" in target:
            for at, part, more in ((0, whole[:24], 1), (24, whole[24:], 0)):
                head = bytes([p.UDP, 0]) + (at | more).to_bytes(2, "big") + k.to_bytes(4, "big")
                w.wire.send(w.frame(a.s, target, p.FRAGMENT, head + part))
        else:
            w.wire.send(w.frame(a.s, target, p.UDP, whole[:24], fragment=0x2000, ident=k))
            w.wire.send(w.frame(a.s, target, p.UDP, whole[24:], fragment=3, ident=k))
    return send


def first_piece(w, a, target, port):
    """A fragment that has the whole TCP head: the ports are right."""
    def send(k):
        whole = p.tcp(a.s, target, k, port)
        if ":" in target:
            w.wire.send(w.frame(a.s, target, p.FRAGMENT, bytes([p.TCP, 0, 0, 1]) + k.to_bytes(4, "big") + whole + b"\0" * 4))
        else:
            w.wire.send(w.frame(a.s, target, p.TCP, whole + b"\0" * 4, fragment=0x2000, ident=k))
    return send


def behind(w, a, target, port, following):
    """IPv6: the segment behind one more header: a fragment that is the whole, options of each hop."""
    rest = {p.FRAGMENT: b"\0\0\0\0\0\1", p.HOP_BY_HOP: b"\0\1\4\0\0\0\0"}[following]

    def send(k):
        head = bytes([p.TCP, 0]) + rest if following == p.FRAGMENT else bytes([p.TCP]) + rest
        w.wire.send(w.frame(a.s, target, following, head + p.tcp(a.s, target, k, port)))
    return send


def ping(w, a, target):
    return lambda k: w.wire.send(w.frame(a.s, target, a.echo, p.echo(a.s, target, b"#%d#" % k)))


def both_families(w, v):
    """What is the same for IPv4 and IPv6."""
    a = SETS[v]
    steered = "answered" if w.steer else "refused"
    yield Probe("a listener", "answered", syn(w, a, a.g, 3128), answered)
    yield Probe("a listener bound to another sandbox", "refused", syn(w, a, a.g, 3140), answered)
    yield Probe("the transparent listener itself", steered, syn(w, a, a.g, 3129), answered, when=w.steer)
    yield Probe("DNS", "answered", datagram(w, a, a.g, 53), replied)
    yield Probe("DNS over TCP", "answered", syn(w, a, a.g, 53), answered)
    yield Probe("another port of the host", "refused", syn(w, a, a.g, 22), answered)
    yield Probe("a listener's port at another address of the host", "refused", syn(w, a, a.h, 3128), answered)
    yield Probe("a datagram to another port of the host", "refused", datagram(w, a, a.g, 5001))
    yield Probe("a server outside, HTTPS", steered, syn(w, a, a.o, 443), answered)
    yield Probe("a server outside, HTTP", steered, syn(w, a, a.o, 80), answered)
    yield Probe("a server outside, another port", "refused", syn(w, a, a.o, 5000), answered)
    yield Probe("DNS outside", "refused", datagram(w, a, a.o, 53))
    yield Probe("a datagram outside", "refused", datagram(w, a, a.o, 443))
    yield Probe("a reset outside, of no connection", "came in" if w.steer == "tproxy" else "refused", syn(w, a, a.o, 443, p.RST, data=b"!"))
    yield Probe("a reset to the host's own HTTPS", "refused", syn(w, a, a.h, 443, p.RST, data=b"!"), when=w.steer == "redirect")
    yield Probe("metadata", "refused", syn(w, a, a.metadata, 80), answered)
    yield Probe("an echo to the host", "refused", ping(w, a, a.g))
    yield Probe("an echo outside", "refused", ping(w, a, a.o))
    yield Probe("multicast", "refused", datagram(w, a, a.group, 5353, to=a.group_mac))
    yield Probe("a fragment outside", "refused", in_pieces(w, a, a.o, 5001))
    yield Probe("a fragment outside to a port that is steered", "refused", in_pieces(w, a, a.o, 443))
    yield Probe("a fragment to DNS", "refused", in_pieces(w, a, a.g, 53))
    yield Probe("a listener, from another address", "refused", syn(w, a, a.g, 3128, source=a.n), answered)
    yield Probe("a server outside, from another address", "refused", syn(w, a, a.o, 443, source=a.n, data=b"!"))
    yield Probe("a listener, from another hardware address", "refused", syn(w, a, a.g, 3128, by=ANOTHER), answered)
    yield Probe("a listener, tagged", "refused", syn(w, a, a.g, 3128, vlan=0), answered)
    yield Probe("DHCP's port, from an address that is the sandbox's", "came in" if w.dhcp and v == 4 else "refused",
                datagram(w, a, a.g, 67, sport=68), when=v == 4)


def of_ip4(w):
    a = SETS[4]
    yield Probe("who has the gateway's address", "answered", by_settling, told(G4))
    yield Probe("who has another address of the host", "refused", asks_for(w, H4), told(H4))
    yield Probe("who has it, for another address", "refused", asks_for(w, H4, sender=N4), told(H4))
    yield Probe("a listener, with IPv4 options", "refused", syn(w, a, G4, 3128, options=b"\1\1\1\1"), answered)
    yield Probe("broadcast", "refused", datagram(w, a, "255.255.255.255", 5001, to=p.BROADCAST))
    yield Probe("broadcast of the network", "refused", datagram(w, a, a.broadcast, 5001, to=p.BROADCAST))
    yield Probe("IGMP", "refused", lambda k: w.wire.send(w.frame(S4, "224.0.0.1", p.IGMP, b"\x16\0\0\0#%d#" % k,
                                                                to="01:00:5e:00:00:01")))
    for offer in (b"offer to all", b"offer to one"):
        yield Probe(f"DHCP, {offer.decode()}", "answered" if w.dhcp else "refused",
                    datagram(w, a, "255.255.255.255", 67, source="0.0.0.0", sport=68, to=p.BROADCAST), offered(offer))


def of_ip6(w):
    a = SETS[6]
    yield Probe("who has the gateway's address (IPv6)", "answered", by_settling, told(G6))
    yield Probe("who has another address of the host (IPv6)", "refused", solicits(w, H6), told(H6))
    yield Probe("who has it, for another address (IPv6)", "refused", solicits(w, H6, source=N6), told(H6))
    yield Probe("a listener, in a fragment that is the whole", "refused", behind(w, a, G6, 3128, p.FRAGMENT), answered)
    yield Probe("a listener, behind options of each hop", "refused", behind(w, a, G6, 3128, p.HOP_BY_HOP), answered)
    yield Probe("a router, please", "refused", lambda k: w.wire.send(w.frame(
        S6, "ff02::2", p.ICMP6, p.icmp6(S6, "ff02::2", p.ROUTER_SOLICIT, b"\0\0\0\0#%d#" % k), to="33:33:00:00:00:02", hops=255)))


def between_ports(w):
    """A bridge: by hardware address to the neighbour, with the gateway's address inside, and by all that is flooded."""
    for v, a in SETS.items():
        yield Probe(f"the neighbour, by its hardware address, IPv{v}", "refused", syn(w, a, a.g, 3128, p.ACK, data=b"!", to=N_MAC))
    yield Probe("the neighbour, by ARP", "refused", by_settling, lambda seen, k: "reached the neighbour" if any(
        f.kind == p.ARP and f.source == S4 for f in seen.neighbour) else "refused")


def say(w, address, data):
    """The gateway's host sends a datagram; that its own firewall refuses it is an answer too."""
    with w.gateway.inside(), socket.socket(p.family(address), socket.SOCK_DGRAM) as s:
        with contextlib.suppress(PermissionError):
            s.sendto(data, (address, 9999))


def to_the_sandbox(w):
    """What others send: it does not come out at the sandbox's end."""
    def came(seen, k):
        return "came out" if any(b"#%d#" % k in f.frame or f.sport == k for f in seen.wire) else "refused"

    def from_host(a):
        return lambda k: say(w, a.s, b"#%d#" % k)

    def dialled(a):
        def send(k):
            with w.gateway.inside():
                s = socket.socket(p.family(a.s), socket.SOCK_STREAM)
            s.setblocking(False)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            s.bind(("", k))
            s.connect_ex((a.s, 9999))
            s.close()
        return send

    def from_outside(a):
        def send(k):
            gateway_mac = w.gateway.run("cat", "/sys/class/net/uplink/address").stdout.strip()
            w.far.send(w.frame(a.o, a.s, p.UDP, p.udp(a.o, a.s, 443, 9999, b"#%d#" % k), to=gateway_mac, by=NOBODY))
        return send

    for v, a in SETS.items():
        yield Probe(f"the host sends a datagram, IPv{v}", "refused", from_host(a), came)
        yield Probe(f"the host connects, IPv{v}", "refused", dialled(a), came)
        yield Probe(f"one outside sends a datagram, IPv{v}", "refused", from_outside(a), came)
        if w.neighbour:
            def from_neighbour(k, a=a):
                w.neighbour.send(w.frame(a.n, a.s, p.UDP, p.udp(a.n, a.s, 7, 9999, b"#%d#" % k), to=S_MAC, by=N_MAC))
            yield Probe(f"the neighbour sends a datagram, IPv{v}", "refused", from_neighbour, came)
    if w.neighbour:
        def flooded(k):
            w.gateway.ip("neigh", "replace", "10.9.1.9", "lladdr", NOBODY, "dev", "br0")
            say(w, "10.9.1.9", b"#%d#" % k)
        yield Probe("what is for one that the bridge does not know", "refused", flooded, came)
        yield Probe("the neighbour asks who has the sandbox's address", "refused", lambda k: w.neighbour.send(
            p.eth(N_MAC, p.BROADCAST, p.ARP, p.arp(1, N_MAC, N4, S4))), lambda seen, k: "came out" if any(
                f.operation == 1 and f.source == N4 for f in seen.wire) else "refused")


def probes(w):
    """All of them that are sent at once."""
    for v in SETS:
        for probe in both_families(w, v):
            probe.name += f", IPv{v}"
            yield probe
    yield from of_ip4(w)
    yield from of_ip6(w)
    if w.neighbour:
        yield from between_ports(w)
    yield from to_the_sandbox(w)


# ---- all of it at once ----


def tell_logs(w):
    """In each table a refusal is counted where it is logged. Before all else: it is a few a second."""
    seen = w.watch()
    ping(w, SETS[4], G4)(next(numbers))
    say(w, S4, b"?")
    if w.neighbour:
        syn(w, SETS[4], G4, 3128, p.ACK, to=N_MAC)(next(numbers))
    w.settle(seen)
    families = ["netdev", "inet"] + (["bridge"] if w.neighbour else [])
    return {f"a refusal is logged, {f}": "logged" if w.logged(f) else "not logged" for f in families}


def ask_all(w):
    """Every probe, then one wait for all of them."""
    seen, sent = w.watch(), []
    before = w.reassembled()
    for probe in probes(w):
        if probe.when:
            k = next(numbers)
            probe.send(k)
            sent.append((probe, k))
            w.look(seen)
    for v, a in SETS.items():
        first_piece(w, a, a.g, 3128)(next(numbers))
    w.settle(seen)
    found = {probe.name: probe.outcome(seen, k) for probe, k in sent}
    found["a fragment is put together by nobody"] = "refused" if w.reassembled() == before else "put together"
    return found


def seek_sandbox(w):
    """The gateway, which has forgotten where the sandbox is, has to ask."""
    found = {}
    for v, a in SETS.items():
        seen, k = w.watch(), next(numbers)
        w.forget_neighbours()
        syn(w, a, a.g, 3128)(k)
        w.wait(seen, lambda: answered(seen, k) == "answered", 0.4)
        found[f"a sandbox that has to be looked for, IPv{v}"] = answered(seen, k)
    return found


def without_listener(w):
    """The transparent listener is down: the host's own service of that port is not what answers."""
    if not w.steer:
        return {}
    found, sent, seen = {}, [], w.watch()
    w.close_steered()
    for v, a in SETS.items():
        sent.append((v, next(numbers)))
        syn(w, a, a.h, 443)(sent[-1][1])
    w.settle(seen)
    for v, k in sent:
        found[f"the host's own HTTPS, while the transparent listener is down, IPv{v}"] = answered(seen, k)
    w.open_steered()
    return found


def translated(w):
    """Rules of somebody else's send all that goes to a listener's port, and to DNS, to another of this host."""
    found, sent, seen = {}, [], w.watch()
    w.nft("table inet other {\n chain c {\n type nat hook prerouting priority -100;\n tcp dport 3128 redirect to :22\n"
          " udp dport 53 redirect to :5001\n }\n"
          " chain m {\n type filter hook prerouting priority 10;\n meta mark set ct mark\n }\n}")  # as rules do that route by marks
    for v, a in SETS.items():
        sent.append((v, next(numbers), next(numbers)))
        syn(w, a, a.g, 3128)(sent[-1][1])
        datagram(w, a, a.g, 53)(sent[-1][2])
    w.settle(seen)
    w.nft("delete", "table", "inet", "other")
    for v, tcp, udp in sent:
        found[f"another port of the host, where others translate a listener's, IPv{v}"] = answered(seen, tcp)
        found[f"another port of the host, where others translate DNS's, IPv{v}"] = arrived(seen, udp)
    return found


def moved(w):
    """The gateway's address has gone to another machine, and the way there leads through this host."""
    sent, seen = [], w.watch()
    for v, a in SETS.items():
        w.gateway.ip("addr", "del", f"{a.g}/{24 if v == 4 else 64}", "dev", w.inner)
        w.gateway.ip(f"-{v}", "route", "replace", a.g, "via", a.o)
        sent.append((v, next(numbers)))
        syn(w, a, a.g, 3128)(sent[-1][1])
    w.settle(seen, 0.05)
    for v, a in SETS.items():
        w.gateway.ip(f"-{v}", "route", "del", a.g, "via", a.o)
    w.net.configure(w.gateway, w.inner, [x for x in w.addresses if x.split("/")[0] in (G4, G6)])
    return {f"a listener whose address has moved, IPv{v}": answered(seen, k) for v, k in sent}


def without_netdev(w):
    """The interface was made anew, and its rules went with the old one, as before Linux 6.16."""
    seen, k = w.watch(), next(numbers)
    w.nft("delete", "table", "netdev", "exeat_sb1")
    syn(w, SETS[4], G4, 3128)(k)
    w.settle(seen, 0.05)
    return {"a listener, when the interface has lost its rules": answered(seen, k)}


PHASES = [tell_logs, ask_all, seek_sandbox, without_listener, translated, moved, without_netdev]


def outcomes(w):
    """Of one phase after the other."""
    w.look(w.watch())
    for phase in PHASES:
        yield phase(w)


def expected(w):
    want = {f"a refusal is logged, {f}": "logged" for f in ["netdev", "inet"] + (["bridge"] if w.neighbour else [])}
    want |= {probe.name: probe.want for probe in probes(w) if probe.when}
    want |= {"a fragment is put together by nobody": "refused", "a listener, when the interface has lost its rules": "refused"}
    for v in SETS:
        want |= {f"a sandbox that has to be looked for, IPv{v}": "answered", f"a listener whose address has moved, IPv{v}": "refused"}
        for name in ("a listener's", "DNS's"):
            want[f"another port of the host, where others translate {name}, IPv{v}"] = "refused"
        if w.steer:
            want[f"the host's own HTTPS, while the transparent listener is down, IPv{v}"] = "refused"
    return want


def test_only_the_gateways_doors_are_reachable(place):
    place.firewall("apply")
    assert place.firewall("check").stdout.endswith("is as it should be\n")
    found, want = {k: v for found in outcomes(place) for k, v in found.items()}, expected(place)
    assert {k: (found.get(k), want[k]) for k in want if found.get(k) != want[k]} == {}


def test_without_a_firewall_all_that_is_refused_gets_through(place):
    """The probes themselves: each refusal above is the firewall's doing."""
    assert place.firewall("remove", check=False).returncode in (0, 1)
    assert "exeat" not in place.nft("list", "ruleset")
    found, want = ask_all(place), expected(place)
    assert {name for name in found if want[name] == "refused" and found[name] == "refused"} == set()


def test_each_rule_is_needed_and_missed(place):
    if place.kind == "tap":
        return  # its rules are those of a veth, word for word
    place.firewall("apply")
    want, useless = expected(place), []
    rules = [(family, chain, comment) for family, chain, _, comment in place.rules()]
    for at, (family, chain, comment) in enumerate(rules):
        place.firewall("apply")
        handle = place.rules()[at][2]
        place.nft("delete", "rule", family, f"exeat_{place.interface}", chain, "handle", str(handle))
        done = place.firewall("check", check=False)
        assert done.returncode == 1, (family, chain, comment)
        assert f"table {family} exeat_{place.interface}, chain {chain}: " in done.stdout and comment in done.stdout
        if not any(want[name] != outcome for found in outcomes(place) for name, outcome in found.items()):
            useless.append((family, chain, comment))
    assert useless == []
