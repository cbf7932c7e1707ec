"""`exeat firewall check` sees whatever is not as apply made it; apply replaces with no moment open; print, apply and remove agree."""
import ctypes
import errno
import json
import os
import socket
import struct
import subprocess

import pytest

import packets as p
from gateway import EXEAT, exeat
from test_firewall import SETS, answered, datagram, one_processor, syn  # noqa: F401 (a fixture)
from walled import G4, G6, N4, N6, N_MAC, S4, S_MAC, Walled, numbers

TABLE = "exeat_sb1"


def made(tmp_path_factory, **what):
    w = Walled(tmp_path_factory.mktemp("firewall"), **what)
    yield w
    w.close()


@pytest.fixture(scope="module")
def redirect(tmp_path_factory):
    yield from made(tmp_path_factory, kind="veth", steer="redirect")


@pytest.fixture(scope="module")
def tproxy(tmp_path_factory):
    yield from made(tmp_path_factory, kind="veth", steer="tproxy")


@pytest.fixture(scope="module")
def bridge(tmp_path_factory):
    yield from made(tmp_path_factory, kind="bridge", steer="redirect")


def handle_of(w, family, comment):
    return next(str(handle) for f, _, handle, c in w.rules() if f == family and comment in c)


def other(family, chain):
    return lambda w: w.nft(f"table {family} other {{\n chain c {{\n {chain}\n }}\n}}")


def put_last(w):
    w.nft("delete", "rule", "netdev", TABLE, "in", "handle", handle_of(w, "netdev", "no fragments"))
    w.nft("add", "rule", "netdev", TABLE, "in", "ip frag-off & 0x3fff != 0 counter goto refuse comment \"no fragments\"")


def widen(w):
    w.nft("replace", "rule", "inet", TABLE, "steer", "handle", handle_of(w, "inet", "to the transparent"), "accept")


LIBC = ctypes.CDLL(None, use_errno=True)


def bpf(command, attributes):
    return LIBC.syscall(321, command, ctypes.create_string_buffer(attributes.ljust(128, b"\0"), 128), 128)


def program(kind, gives):
    """Of two instructions: let it pass."""
    code = ctypes.create_string_buffer(bytes.fromhex(f"b7000000{gives:02x}0000009500000000000000"), 16)
    license = ctypes.create_string_buffer(b"GPL")
    fd = bpf(5, struct.pack("IIQQ", kind, 2, ctypes.addressof(code), ctypes.addressof(license)))  # BPF_PROG_LOAD
    assert fd >= 0, os.strerror(ctypes.get_errno())
    return fd


def tcx(w):
    """A program of traffic control, with no qdisc; it goes with its link."""
    fd = program(3, 0)
    with w.gateway.inside():
        w.link = bpf(28, struct.pack("IIII", fd, socket.if_nametoindex("sb1"), 46, 0))  # BPF_LINK_CREATE, BPF_TCX_INGRESS
    os.close(fd)
    if w.link < 0 and ctypes.get_errno() == errno.EINVAL:
        pytest.skip("this kernel has no tcx")
    assert w.link >= 0, os.strerror(ctypes.get_errno())


def xdp(w):
    fd = program(6, 2)
    with w.gateway.inside(), socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as s:
        body = struct.pack("BxHiII", 0, 0, socket.if_nametoindex("sb1"), 0, 0)
        body += struct.pack("HHHHiHHI", 20, 43 | 0x8000, 8, 1, fd, 8, 3, 2)  # IFLA_XDP: IFLA_XDP_FD, IFLA_XDP_FLAGS: generic
        s.send(struct.pack("IHHII", 16 + len(body), 19, 5, 1, 0) + body)  # RTM_SETLINK
        assert struct.unpack("i", s.recv(4096)[16:20])[0] == 0
    os.close(fd)


DRIFT = {
    "a policy": (lambda w: w.nft("chain", "netdev", TABLE, "in", "{ policy accept; }"),
                 ["missing, line", "chain in: type filter hook ingress device \"sb1\" priority -1000; policy drop;", "added, ", "policy accept;"]),
    "a rule is added": (lambda w: w.nft("insert", "rule", "inet", TABLE, "forward", "accept"),
                        [f"added, table inet {TABLE}, chain forward: accept"]),
    "a rule is another": (widen, ["missing, line", f"added, table inet {TABLE}, chain steer: accept"]),
    "a rule has moved": (put_last, ["moved, line", "no fragments"]),
    "a chain is emptied": (lambda w: w.nft("flush", "chain", "inet", TABLE, "forward"),
                           ["nothing goes on from here", "nothing comes from elsewhere"]),
    "a chain is added": (lambda w: w.nft("chain", "inet", TABLE, "more"), [f"added, table inet {TABLE}, chain more"]),
    "a table sleeps": (lambda w: w.nft("add", "table", "inet", TABLE, "{ flags dormant; }"), [f"added, table inet {TABLE}: flags dormant"]),
    "a table is gone": (lambda w: w.nft("delete", "table", "inet", TABLE), [f"missing, line", f"table inet {TABLE}\n"]),
    "all is gone": (lambda w: w.nft("flush", "ruleset"), [f"table netdev {TABLE}\n", f"table inet {TABLE}\n"]),
    "another's chain is first at the interface": (other("netdev", 'type filter hook ingress device "sb1" priority -2000;'),
                                                  ["earlier, table netdev other, chain c: this chain sees the interface's frames"]),
    "another's chain is first among several interfaces'": (
        other("netdev", 'type filter hook ingress devices = { "uplink", "sb1" } priority -1000;'), ["earlier, table netdev other"]),
    "another's chain is first to send connections elsewhere": (other("ip", "type nat hook prerouting priority -150;"),
                                                               ["earlier, table ip other, chain c: this chain can send"]),
    "another's chain is first, in a table called as ours are": (
        lambda w: w.nft('table netdev exeat_other {\n chain c {\n type filter hook ingress device "sb1" priority -1001;\n }\n}'),
        ["earlier, table netdev exeat_other, chain c: this chain sees the interface's frames"]),
    "another's chain is first, in a table of our name and another family": (
        lambda w: w.nft("table ip exeat_sb1 {\n chain c {\n type nat hook prerouting priority -150;\n }\n}"),
        ["earlier, table ip exeat_sb1, chain c: this chain can send"]),
    "a helper": (lambda w: w.nft('table inet other {\n ct helper ftp {\n type "ftp" protocol tcp;\n }\n chain c {\n type filter '
                                 'hook prerouting priority 0;\n tcp dport 21 ct helper set "ftp"\n }\n}'), ["helper, table inet other, chain c: "]),
    "traffic control": (lambda w: w.gateway.run("tc", "qdisc", "add", "dev", "sb1", "clsact", check=True), ["earlier: traffic control"]),
    "traffic control without a qdisc": (tcx, ["earlier: traffic control"]),
    "an interface stands on it": (lambda w: w.gateway.ip("link", "add", "up9", "link", "sb1", "type", "macvlan", "mode", "bridge"),
                                  ["interface: up9 stands on sb1, and what comes to its hardware address is not seen as sb1's: ip link del up9"]),
    "an XDP program": (xdp, ["earlier: an XDP program at the interface sees frames before the firewall"]),
    "a bridge took the interface": (lambda w: (w.gateway.ip("link", "add", "br9", "type", "bridge"),
                                               w.gateway.ip("link", "set", "sb1", "master", "br9")),
                                    ["interface: sb1 is a port of the bridge br9; say so: --bridge br9"]),
}
KEEPS = {
    "another's chain comes later at the interface": other("netdev", 'type filter hook ingress device "sb1" priority 0;'),
    "another's chain is first at another interface": other("netdev", 'type filter hook ingress device "uplink" priority -2000;'),
    "another's chain sends connections elsewhere later": other("ip", "type nat hook prerouting priority -100;"),
    "an interface stands on another": lambda w: w.gateway.ip("link", "add", "up9", "link", "uplink", "type", "macvlan", "mode", "bridge"),
    "another's rules": other("inet", "type filter hook forward priority -300; accept"),
}


@pytest.fixture
def in_force(redirect):
    redirect.firewall("apply")
    redirect.firewall("check")
    redirect.link = -1
    yield redirect
    if redirect.link >= 0:
        os.close(redirect.link)
    redirect.gateway.ip("link", "del", "up9", check=False)
    for family in ("netdev", "ip", "inet"):
        for name in ("other", "exeat_other", *(["exeat_sb1"] if family == "ip" else [])):
            redirect.gateway.run("nft", "delete", "table", family, name)
    redirect.gateway.ip("link", "set", "sb1", "xdpgeneric", "off")
    redirect.gateway.run("tc", "qdisc", "del", "dev", "sb1", "clsact")
    redirect.gateway.ip("link", "set", "sb1", "nomaster", check=False)
    redirect.gateway.ip("link", "del", "br9", check=False)


@pytest.mark.parametrize("name", DRIFT)
def test_drift_is_named(in_force, name):
    change, says = DRIFT[name]
    change(in_force)
    done = in_force.firewall("check", check=False)
    assert done.returncode == 1, done
    for text in says:
        assert text in done.stdout


@pytest.mark.parametrize("name", KEEPS)
def test_what_changes_nothing_is_no_drift(in_force, name):
    KEEPS[name](in_force)
    in_force.firewall("check")


def test_the_line_is_that_of_print(in_force):
    in_force.nft("delete", "rule", "netdev", TABLE, "in", "handle", handle_of(in_force, "netdev", "no fragments"))
    found = json.loads(in_force.firewall("check", "--format", "json", check=False).stdout)
    (one,) = found["drift"]
    assert (found["schema"], found["holds"], one["what"], one["table"], one["in"]) == \
        ("exeat.firewall-check/1", False, "missing", f"netdev {TABLE}", "chain in")
    assert "no fragments" in in_force.firewall("print").stdout.splitlines()[one["line"] - 1]


def test_an_interface_that_is_gone_is_drift(tmp_path_factory):
    for w in made(tmp_path_factory, kind="veth"):
        w.firewall("apply")
        w.gateway.ip("link", "del", "sb1")
        done = w.firewall("check", check=False)
        assert done.returncode == 1 and "interface: there is no interface sb1" in done.stdout
        refused = w.firewall("apply", check=False)
        assert refused.returncode == 2 and "nothing was changed; a sandbox must not start at sb1" in refused.stderr


def test_past_an_interface_that_stands_on_it_nothing_is_let_in(tmp_path_factory):
    """Its frames have passed the rules at sb1, and are no more of sb1 where they are steered: apply says so before."""
    for w in made(tmp_path_factory, kind="veth", steer="redirect"):
        w.gateway.ip("link", "add", "up9", "link", "sb1", "type", "macvlan", "mode", "bridge")
        w.gateway.ip("link", "set", "up9", "up")
        refused = w.firewall("apply", check=False)
        assert refused.returncode == 2 and "up9 stands on sb1" in refused.stderr


SIMILAR = {
    "for another interface": ["fwmark", "0x65780001", "iif", "uplink", "lookup", "25976"],
    "of a part of the mark": ["fwmark", "0x65780001/0xffff0000", "lookup", "25976"],
    "for what has no such mark": ["not", "fwmark", "0x65780001", "lookup", "25976"],
    "from one source": ["from", "10.0.0.0/8", "fwmark", "0x65780001", "lookup", "25976"],
}
ROUTING = {"rule": ("rule", "del", "fwmark", "0x65780001"), "route": ("route", "flush", "table", "25976")}


@pytest.mark.parametrize("what", ROUTING)
@pytest.mark.parametrize("family", [4, 6])
def test_the_routing_that_tproxy_needs_is_checked(tproxy, what, family):
    tproxy.firewall("apply")
    tproxy.firewall("check")
    tproxy.gateway.ip(f"-{family}", *ROUTING[what])
    done = tproxy.firewall("check", check=False)
    assert done.returncode == 1 and f"routing: TPROXY's {what} is gone: ip{' -6' if family == 6 else ''} {what} add " in done.stdout
    fix = next(line.split(": ip ")[1] for line in done.stdout.splitlines() if line.startswith("routing"))
    tproxy.gateway.ip(*fix.split())
    tproxy.firewall("check")


@pytest.mark.parametrize("name", SIMILAR)
def test_a_rule_that_is_like_it_is_not_it(tproxy, name):
    tproxy.firewall("apply")
    tproxy.gateway.ip(*ROUTING["rule"])
    tproxy.gateway.ip("rule", "add", *SIMILAR[name])
    done = tproxy.firewall("check", check=False)
    tproxy.gateway.ip("rule", "del", *SIMILAR[name])
    assert done.returncode == 1 and "routing: TPROXY's rule is gone" in done.stdout
    tproxy.firewall("apply")
    tproxy.firewall("check")


def test_routing_goes_with_the_last_that_steers_so(tproxy):
    def rules():
        return tproxy.gateway.ip("rule").stdout + tproxy.gateway.ip("-6", "rule").stdout

    tproxy.firewall("apply")
    tproxy.firewall("apply", "--name", "second")
    assert rules().count("fwmark 0x65780001 lookup 25976") == 2
    tproxy.firewall("remove")
    assert rules().count("fwmark 0x65780001") == 2
    done = tproxy.gateway.run(EXEAT, "firewall", "remove", "--name", "second")
    assert (done.stdout, done.stderr) == ("removed firewall second\n", "")
    assert "fwmark" not in rules() and "exeat" not in tproxy.nft("list", "ruleset")
    assert tproxy.gateway.ip("route", "show", "table", "25976", check=False).stdout == ""


def test_what_cannot_be_done_changes_nothing(tproxy):
    tproxy.firewall("remove", check=False)
    tproxy.gateway.ip("link", "set", "lo", "down")
    done = tproxy.firewall("apply", check=False)
    tproxy.gateway.ip("link", "set", "lo", "up")
    assert done.returncode == 3 and "nothing was changed" in done.stderr and "a route for what is steered" in done.stderr
    assert "fwmark" not in tproxy.gateway.ip("rule").stdout and "exeat" not in tproxy.nft("list", "ruleset")


def test_it_is_replaced_with_no_moment_open(redirect):
    """Frames of every kind that is refused, without a pause, while one ruleset replaces the other."""
    redirect.firewall("apply")
    seen, tries = redirect.watch(), [(SETS[v], target) for v in SETS for target in ("o", "g")]
    sent = []
    for turn in range(8):
        redirect.firewall("apply") if turn == 0 else None
        with redirect.gateway.inside():
            process = subprocess.Popen(redirect.words("apply") + ([] if turn % 2 else ["--dhcp"]), stdout=subprocess.DEVNULL)
        while process.poll() is None:
            for a, target in tries:
                sent.append(next(numbers) % 40000 + 20000)
                datagram(redirect, a, getattr(a, target), 5001)(sent[-1])
            redirect.look(seen)
        assert process.returncode == 0
    redirect.settle(seen)
    assert len(sent) > 100
    assert not [f for f in seen.far if f.source in (S4, SETS[6].s)] and not [d for d in seen.local if d.startswith(b"udp:")]


def test_a_name_is_not_taken_from_another_interface(redirect, bridge):
    """Whoever is behind that one would be let out, and nobody told."""
    for w, inner, other in ((redirect, [], "uplink"), (bridge, ["--bridge", "br0", "--mac", N_MAC], "sb2")):
        w.firewall("apply")
        words = [EXEAT, "-c", w.config, "firewall", "apply", "--interface", other, "--source", N4, *inner]
        done = w.gateway.run(*words, "--name", "sb1")
        assert done.returncode == 2 and "firewall sb1 is in force at sb1, and this would take it away from there" in done.stderr
        w.firewall("check")
        assert w.gateway.run(*words, "--name", "apart").returncode == 0
        assert w.gateway.run(EXEAT, "firewall", "remove", "--name", "apart").returncode == 0
    redirect.gateway.ip("link", "add", "gone", "type", "veth", "peer", "name", "gone2")
    words = [EXEAT, "-c", redirect.config, "firewall", "apply", "--source", N4, "--name", "left"]
    assert redirect.gateway.run(*words, "--interface", "gone").returncode == 0
    redirect.gateway.ip("link", "del", "gone")
    assert redirect.gateway.run(*words, "--interface", "uplink").returncode == 0  # nobody is behind what is not there
    assert redirect.gateway.run(EXEAT, "firewall", "remove", "--name", "left").returncode == 0


def test_the_text_of_print_does_what_apply_does(redirect):
    redirect.firewall("remove", check=False)
    text = redirect.firewall("print").stdout
    assert text == redirect.firewall("print").stdout
    subprocess.run(redirect.gateway.command(["nft", "-f", "-"]), input=text, text=True, check=True)
    redirect.firewall("check")
    assert json.loads(redirect.firewall("print", "--format", "json").stdout)["ruleset"] == text


def test_remove_says_whether_there_was_one(redirect):
    redirect.firewall("apply")
    assert redirect.firewall("remove").stdout == "removed firewall sb1\n"
    again = redirect.firewall("remove", check=False)
    assert (again.returncode, again.stdout) == (1, "there is no firewall sb1\n")
    assert "exeat" not in redirect.nft("list", "ruleset")


def test_two_sandboxes_of_one_bridge_never_see_each_other(bridge):
    """Both behind a firewall: each has the gateway, neither the other, whatever it writes into its frames."""
    w, found = bridge, []
    w.firewall("apply")
    second = [EXEAT, "-c", w.config, "firewall", "apply", "--interface", "sb2", "--bridge", "br0", "--mac", N_MAC, "--source", N4,
              "--source", N6]
    assert w.gateway.run(*second).returncode == 0
    w.firewall("check")
    seen, k = w.watch(), next(numbers)
    for v, a in SETS.items():
        syn(w, a, a.g, 3128)(k + v)
        w.neighbour.send(w.frame(a.n, a.g, p.TCP, p.tcp(a.n, a.g, k + 10 + v, 3128), by=N_MAC))
        for to in (N_MAC, p.BROADCAST):
            for target in (a.n, a.g):
                datagram(w, a, target, 5001, to=to)(k)
        w.neighbour.send(w.frame(a.n, a.s, p.UDP, p.udp(a.n, a.s, 53, 5001, b"#%d#" % k), to=S_MAC, by=N_MAC))
        # In each other's name, to have the bridge and the gateway send the other's frames here.
        w.wire.send(w.frame(a.n, a.g, p.UDP, p.udp(a.n, a.g, 53, 5001, b"#%d#" % k), by=N_MAC))
    w.wire.send(p.eth(S_MAC, p.BROADCAST, p.ARP, p.arp(2, S_MAC, N4, G4)))
    w.wire.send(p.eth(S_MAC, N_MAC, p.ARP, p.arp(2, S_MAC, G4, N4)))
    w.wire.send(p.eth(S_MAC, N_MAC, p.IP6, p.ip6(G6, N6, p.ICMP6, p.advertisement(G6, S_MAC, G6, N6), hops=255)))

    def both():
        return all(any(f.dport == k + more + v and f.flags == p.SYN | p.ACK for f in place)
                   for v in SETS for more, place in ((0, seen.wire), (10, seen.neighbour)))

    def help_neighbour():
        for f in seen.neighbour:
            if f.operation == 1 and f.target == N4 and f.frame not in found:
                found.append(f.frame)
                w.neighbour.send(p.eth(N_MAC, f.by, p.ARP, p.arp(2, N_MAC, N4, f.source, f.by)))
            if f.icmp == p.NEIGHBOR_SOLICIT and f.sought == N6 and f.frame not in found:
                found.append(f.frame)
                w.neighbour.send(p.eth(N_MAC, f.by, p.IP6, p.ip6(N6, f.source, p.ICMP6, p.advertisement(N6, N_MAC, N6, f.source), hops=255)))
        return both()
    w.wait(seen, help_neighbour, 20)
    assert both()
    mine = {S4, SETS[6].s}
    assert not [f for f in seen.neighbour if f.by == S_MAC or f.source in mine or f.target in mine or b"#%d#" % k in f.frame]
    assert not [f for f in seen.wire if f.by == N_MAC or f.source in (N4, N6) or f.target in (N4, N6) or b"#%d#" % k in f.frame]
    assert N_MAC not in w.gateway.run("bridge", "fdb", "show", "br", "br0", "brport", "sb1").stdout
    assert w.gateway.run(EXEAT, "firewall", "remove", "--interface", "sb2").returncode == 0
    w.firewall("check")


# ---- words ----

CONF = """
gateway: {name: gw.test, state: STATE}
listen:
  explicit: {address: "10.0.0.1:3128"}
  everywhere: {address: "0.0.0.0:3130"}
  mine: {address: "10.0.0.1:3140", sandbox: vm1}
  anothers: {address: "10.0.0.1:3141", sandbox: vm2}
  takes-all: {address: "10.0.0.1:3129", mode: transparent}
  socket: {address: "unix:/run/x.sock", sandbox: vm1}
dns:
  asked: {address: "10.0.0.1:53", answer: 10.0.0.1}
  asked-by-one: {address: "10.0.0.1:5301", answer: 10.0.0.1, sandbox: vm1}
  asked-by-another: {address: "10.0.0.1:5302", answer: 10.0.0.1, sandbox: vm2}
services:
  a: {hosts: [a.test], ports: [8443, 443], allow: ["GET /**"], scope: a, audit: "waived: test"}
  b: {hosts: [b.test], allow: ["GET /**"], scope: b, audit: "waived: test"}
  c: {hosts: [c.test], plain-ports: [8080], allow: ["GET /**"], scope: c, audit: "waived: test"}
"""
BASE = ["--interface", "vm1", "--source", "10.0.0.2"]
PRINTED = {
    "all but what is another's": ([], "10.0.0.1:53, 10.0.0.1:3128, 10.0.0.1:3129, 10.0.0.1:3130, 10.0.0.1:53/udp"),
    "with its own": (["--sandbox", "vm1"], "10.0.0.1:53, 10.0.0.1:3128, 10.0.0.1:3129, 10.0.0.1:3130, 10.0.0.1:3140, "
                     "10.0.0.1:5301, 10.0.0.1:53/udp, 10.0.0.1:5301/udp"),
    "one that is named": (["--listener", "explicit"], "10.0.0.1:3128"),
    "another's that is named": (["--listener", "anothers"], "10.0.0.1:3141"),
    "at another address": (["--gateway", "10.9.9.9"], "10.9.9.9:3130"),
}
REFUSED = {
    "a listener that is not there": (["--listener", "nobody"], "--listener: "),
    "an interface that is more": (["--interface", 'vm1" accept'], "--interface: "),
    "a name that is more": (["--name", "a; flush ruleset"], "--name: "),
    "a source that is a name": (["--source", "sandbox"], "--source: "),
    "a port that is none": (["--redirect", "80;443"], "--redirect: "),
    "a bridge without a hardware address": (["--bridge", "br0"], "--mac"),
    "TPROXY to nobody": (["--tproxy", "--listener", "explicit"], "--tproxy: no transparent listener"),
    "ports that are steered to nobody": (["--redirect", "443", "--listener", "explicit"], "--redirect: no transparent listener"),
}


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    path = tmp_path_factory.mktemp("words") / "proxy.conf"
    path.write_text(CONF.replace("STATE", str(path.parent)))
    return path


@pytest.mark.parametrize("name", PRINTED)
def test_the_doors_are_of_the_configuration(config, name):
    more, doors = PRINTED[name]
    assert f"only these are reachable: {doors}.\n" in exeat("firewall", "print", *BASE, *more, config=config).stdout


def test_ports_of_services_are_steered_unless_others_are_named(config):
    assert "tcp dport { 443, 8080, 8443 }" in exeat("firewall", "print", *BASE, config=config).stdout
    assert "tcp dport { 80 }" in exeat("firewall", "print", *BASE, "--redirect", "80", config=config).stdout
    assert "dnat" not in exeat("firewall", "print", *BASE, "--redirect", "none", config=config).stdout


@pytest.mark.parametrize("name", REFUSED)
def test_words_that_are_off_are_refused(config, name):
    more, says = REFUSED[name]
    done = exeat("firewall", "print", *(BASE[2:] if "--interface" in more else BASE), *more, config=config, check=False)
    assert done.returncode == 2 and says in done.stderr and done.stdout == ""


def test_an_interface_that_is_not_there_is_named_before_anything_else(config):
    done = exeat("firewall", "apply", "--interface", "nosuch9", config=config, check=False)
    assert done.returncode == 2 and "there is no interface nosuch9" in done.stderr and "--source" not in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="root becomes somebody else")
def test_who_is_not_root_is_told(config):
    os.chmod(config.parent, 0o755)
    for verb in ("apply", "check", "remove"):
        words = [EXEAT, "-c", config, "firewall", verb] + (BASE[:2] if verb == "remove" else BASE)
        done = subprocess.run(words, capture_output=True, text=True, user=65534, group=65534, extra_groups=[])
        assert done.returncode in (2, 3) and ("root" in done.stderr or "no interface vm1" in done.stdout + done.stderr), (verb, done)
