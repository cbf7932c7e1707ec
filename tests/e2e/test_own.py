"""
Never ourselves: no name, no fixed address, no issuer's keys and no resolver leads to a listener of the gateway's own, of whatever kind, also by an
address that the host got a moment ago. All in network namespaces: the gateway's, with public addresses, and a neighbour's.
"""
import itertools
import json
import socket
import threading
from contextlib import closing
from types import SimpleNamespace

import pytest

from dns import Client
from gateway import EXEAT, PATIENCE, Gateway, Wire, exeat, free_port, wait_until
from netns import Network
from origin import Origin, make_pki
from resolver import Question, Resolver

HERE, HERE6, THERE = "198.41.0.4", "2606:4700::4", "198.41.0.9"
LATER = {"second": "198.41.0.77", "elsewhere": "11.22.33.44", "six": "2606:4700::77"}
KINDS = {"explicit": 3128, "tls": 3130, "transparent": 3129, "bound": 3131, "every IPv4 address": 3132, "every IPv6 address": 3133, "dns": 53, "publish": 9464}
ADDED = [3140, 3141, 3142]
NAMES = {"own": [HERE], "mapped": [f"::ffff:{HERE}"], "nat64": ["64:ff9b::c629:4"], "six": [HERE6], "there": [THERE], **{f"later-{k}": [a] for k, a in LATER.items()}}
LISTEN = """  shared: {{address: "198.41.0.4:3128"}}
  tls: {{address: "198.41.0.4:3130", tls: {{cert: "{cert}", key: "{key}"}}}}
  transparent: {{address: "198.41.0.4:3129", mode: transparent}}
  bound: {{address: "198.41.0.4:3131", sandbox: vm1}}
  wild: {{address: "0.0.0.0:3132"}}
  wild6: {{address: "[::]:3133"}}
"""


def service(name, more):
    return f'  {name}: {{{more}, allow: ["GET /**"], scope: s, audit: "waived: test"}}\n'


def services():
    ports = ", ".join(map(str, [80, *KINDS.values(), *ADDED]))
    fixed = "".join(service(f"fixed-{p}", f'hosts: [fixed{p}.test], plain-ports: [80], addresses: ["{HERE}:{p}"]') for p in KINDS.values())
    return service("named", f'hosts: ["*.own.test"], plain-ports: [{ports}]') + fixed


class Names(Resolver):
    """The first label says what a name is."""

    def replies(self, packet, tcp):
        q = Question(packet, tcp)
        self.asked.append((q.name, tcp))
        yield q.addresses(*NAMES[q.name.split(".")[0]])


@pytest.fixture(scope="module")
def street():
    with Network("own") as net:
        here, there = net.host("gw"), net.host("next")
        dev, _ = net.link(here, [f"{HERE}/24", f"{HERE6}/64"], there, [f"{THERE}/24", "2606:4700::9/64"])
        here.ip("route", "add", "default", "via", THERE)
        yield SimpleNamespace(here=here, there=there, dev=dev)


@pytest.fixture(scope="module")
def gateway(street, tmp_path_factory):
    directory = tmp_path_factory.mktemp("own")
    ca, cert, key = make_pki(directory, ["gw.test"])
    with street.here.inside(), closing(Names()) as names:
        g = Gateway(directory / "state", services(), extra=f"""
resolver: {{servers: ["{names.address}"], timeout: 1s}}
dns: {{own: {{address: "{HERE}:53", answer: real}}}}
""")
        text = g.config.read_text().replace(f"127.0.0.1:{g.publish}", f"{HERE}:9464")
        text = text.replace("listen:\n", "listen:\n" + LISTEN.format(cert=cert, key=key), 1)
        g.config.write_text(text.replace("issuers:\n", f"""issuers:
  named: {{issuer: "https://own.own.test", jwks-uri: "https://own.own.test:3130/keys", jwks-ca-file: {ca}}}
  fixed: {{issuer: "https://keys.test", jwks-uri: "https://keys.test:9464/jwks.json", jwks-addresses: ["{HERE}:9464"], jwks-ca-file: {ca}}}
""", 1))
        g.start(street.here.command([EXEAT, "-c", g.config, "serve"]))
        g.made = g.token("s")
        yield g
        assert g.stop() == 0, g.output().decode()


numbers = itertools.count()


def ask(street, g, host, port, head=None, connect=None):
    """The answer, and the record of its dial."""
    with street.here.inside():
        wire = g.connect() if not connect else connect()
    path = f"/x{next(numbers)}"
    wire.send(head(path) if head else f"GET http://{host}:{port}{path} HTTP/1.1\r\nHost: {host}:{port}\r\nProxy-Authorization: Bearer {g.made}\r\n\r\n")
    answer = wire.response()
    wire.close()
    id = json.loads(answer.body)["exchange"] if answer.reason else wait_until(
        lambda: [r for r in g.records(kind="decision") if r["http"].get("path") == path], "the decision")[0]["id"]
    return answer, g.wait_for(kind="dial", id=id)[0]


def check_own(answer, dial, where):
    assert (answer.status, answer.reason) == (403, "address_denied")
    assert (dial["outcome"], dial["reason"]) == ("refused", "address_denied") and f"{where} (own listener)" in dial["detail"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_name_does_not_lead_to_a_listener_of_ours(street, gateway, kind):
    check_own(*ask(street, gateway, "own.own.test", KINDS[kind]), f"{HERE}:{KINDS[kind]}")


@pytest.mark.parametrize("kind", KINDS)
def test_nor_does_a_fixed_address(street, gateway, kind):
    check_own(*ask(street, gateway, f"fixed{KINDS[kind]}.test", 80), f"{HERE}:{KINDS[kind]}")


@pytest.mark.parametrize("label, port, where", [("six", 3133, f"[{HERE6}]"), ("six", 3132, f"[{HERE6}]"), ("mapped", 3128, f"[::ffff:{HERE}]"),
                                                ("mapped", 3132, f"[::ffff:{HERE}]"), ("nat64", 3132, "[64:ff9b::c629:4]"), ("nat64", 3130, "[64:ff9b::c629:4]")])
def test_however_it_is_written(street, gateway, label, port, where):
    check_own(*ask(street, gateway, f"{label}.own.test", port), f"{where}:{port}")


def test_nor_from_a_transparent_listener_to_itself(street, gateway):
    def connect():
        return Wire(socket.create_connection((HERE, 3129), PATIENCE))

    token = gateway.token("s", sandbox="sb-2")  # held to the address that it comes from

    def head(path):
        return f"GET {path} HTTP/1.1\r\nHost: own.own.test:3129\r\nAuthorization: Bearer {token}\r\n\r\n"

    check_own(*ask(street, gateway, "own.own.test", 3129, head, connect), f"{HERE}:3129")


def test_the_same_port_of_a_neighbour_is_reached(street, gateway):
    with street.there.inside():
        origin = Origin(listener=socket.create_server((THERE, 3132)))
    try:
        answer, dial = ask(street, gateway, "there.own.test", 3132)
        assert answer.status == 200 and dial["address"] == f"{THERE}:3132"
    finally:
        origin.close()


@pytest.mark.parametrize("label", LATER)
@pytest.mark.parametrize("kind", ["every IPv4 address", "every IPv6 address"])
def test_an_address_that_the_host_got_since_is_ours(street, gateway, label, kind):
    """One more of a network that it is in, one of another, one of IPv6; the gateway is told of none."""
    address, port = LATER[label], KINDS[kind]
    street.here.ip("addr", "add", f"{address}/{64 if ':' in address else 24}", "dev", street.dev, *(["nodad"] if ":" in address else []))
    try:
        check_own(*ask(street, gateway, f"later-{label}.own.test", port), f"[{address}]:{port}" if ":" in address else f"{address}:{port}")
    finally:
        street.here.ip("addr", "del", f"{address}/{64 if ':' in address else 24}", "dev", street.dev)


@pytest.mark.parametrize("address, words", [("0.0.0.0:3140", []), (f"{HERE}:3141", ["--sandbox", "vm2"]), (f"{HERE}:3142", ["--transparent"])])
def test_a_listener_that_was_added_is_ours_until_it_is_taken_away(street, gateway, address, words):
    port = int(address.rpartition(":")[2])
    assert ask(street, gateway, "own.own.test", port)[0].reason == "connect_refused"
    exeat("listener", "add", "added", address, *words, config=gateway.config)
    check_own(*ask(street, gateway, "own.own.test", port), f"{HERE}:{port}")
    exeat("listener", "remove", "added", config=gateway.config)
    wait_until(lambda: ask(street, gateway, "own.own.test", port)[0].reason == "connect_refused", "the end of the listener")


@pytest.mark.parametrize("issuer, where", [("named", f"{HERE}:3130"), ("fixed", f"{HERE}:9464")])
def test_nobody_s_keys_are_fetched_from_us(gateway, issuer, where):
    dial = wait_until(lambda: [r for r in gateway.records(kind="dial") if r.get("issuer") == issuer], "the dial for its keys")[0]
    assert dial["reason"] == "address_denied" and f"{where} (own listener)" in dial["detail"]


# ---- the resolver


class Forwarder:
    """A resolver that asks somebody else, each time anew."""

    def __init__(self, to):
        self.to, self.asked = to, 0
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.socket.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                question, peer = self.socket.recvfrom(4096)
            except OSError:
                return
            self.asked += 1
            threading.Thread(target=self.forward, args=(question, peer), daemon=True).start()

    def forward(self, question, peer):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.settimeout(PATIENCE)
            s.sendto(question, self.to)
            try:
                self.socket.sendto(s.recv(4096), peer)
            except OSError:
                pass

    def close(self):
        self.socket.close()


def test_another_resolver_that_leads_back_here_goes_round_once(tmp_path):
    """It is not known for what it is; but what comes back waits for itself, and ends with the time of the first."""
    port = free_port()
    with closing(Forwarder(("127.0.0.1", port))) as other:
        g = Gateway(tmp_path / "state", services(), extra=f"""
resolver: {{servers: ["{other.address}"], timeout: 300ms}}
dns: {{own: {{address: "127.0.0.1:{port}", answer: real}}}}
""").start()
        with Client(port, source="127.0.0.9") as client:
            assert client.ask("own.own.test").code == "SERVFAIL"
        assert {r["reason"] for r in g.wait_for(kind="lookup")} <= {"name_timeout", "name_not_resolved"}
        assert g.stop() == 0
        assert other.asked <= 2 * 2 * 2 * 2  # by the client's question and the forwarder's, two families, each asked twice


@pytest.mark.parametrize("command", [["config", "check"], ["serve"], ["reload"]], ids=" ".join)
def test_a_dns_listener_where_the_resolver_asks_is_refused(street, gateway, command):
    text = gateway.config.read_text()
    place = next(n for n, line in enumerate(text.split("\n"), 1) if line.startswith("resolver:"))
    server = text.split("resolver: {servers: [\"")[1].split('"')[0]
    gateway.config.write_text(text.replace("dns: {", f'dns: {{second: {{address: "{server}", answer: real}}, ', 1))
    try:
        done = street.here.run(EXEAT, "-c", gateway.config, *command)
    finally:
        gateway.config.write_text(text)
    assert done.returncode == 2
    assert f"{gateway.config}:{place}:22: resolver.servers: {server} is dns.second, and the gateway would ask itself; name a server" in done.stderr


def test_a_dns_listener_where_the_resolver_asks_is_refused_on_a_port_of_the_kernel_s_choice_too(street, tmp_path):
    g = Gateway(tmp_path / "state", services(), extra="""
resolver: {servers: ["127.0.0.1:45000"]}
dns: {own: {address: "127.0.0.1:0", answer: real}}
""")
    assert exeat("config", "check", config=g.config, check=False).returncode == 0
    street.there.sysctl(net__ipv4__ip_local_port_range="45000 45000")
    done = street.there.run(EXEAT, "-c", g.config, "serve")
    street.there.sysctl(net__ipv4__ip_local_port_range="32768 60999")
    place = next(n for n, line in enumerate(g.config.read_text().split("\n"), 1) if line.startswith("resolver:"))
    assert done.returncode == 2 and f"{g.config}:{place}:22: resolver.servers: 127.0.0.1:45000 is dns.own, and the gateway would ask itself" in done.stderr


LOOP = f"""
table inet loop {{
  chain c {{
    type nat hook output priority -100
    ip daddr 9.9.9.9 meta l4proto {{ tcp, udp }} th dport 53 dnat ip to {HERE}:5354
  }}
}}
"""


def test_a_question_of_its_own_that_comes_back_goes_no_second_way_round(street, tmp_path):
    with street.here.inside():
        g = Gateway(tmp_path / "state", services(), extra=f"""
resolver: {{servers: ["9.9.9.9:53"], timeout: 1s}}
dns: {{own: {{address: "{HERE}:5354", answer: real}}}}
""")
    street.here.run("nft", "-f", "-", input=LOOP, check=True)
    try:
        g.start(street.here.command([EXEAT, "-c", g.config, "serve"]))
        with street.here.inside(), Client(5354, source=HERE, host=HERE) as client:
            assert client.ask("own.own.test").code == "SERVFAIL"
        answer, dial = ask(street, SimpleNamespace(connect=g.connect, made=g.token("s"), records=g.records, wait_for=g.wait_for), "six.own.test", 80)
        assert (answer.status, answer.reason) == (502, "name_not_resolved")
        looped = g.wait_for(kind="lookup", reason="loop_detected")
        assert all("resolver.servers" in r["detail"] for r in looped)
        assert {r["reason"] for r in g.records(kind="lookup")} == {"loop_detected", "name_not_resolved"}
        assert len(g.records(kind="question")) <= 1 + 2 * 2 * 2  # the client's; two names, two families, each asked twice at most
        assert g.output().count(b"comes to a DNS listener of the gateway's own") == 1
    finally:
        street.here.run("nft", "delete", "table", "inet", "loop")
        assert g.stop() == 0, g.output().decode()
