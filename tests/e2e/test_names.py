"""
Names and addresses: a real dnsmasq answers the gateway, and only what is checked is dialled. As root all of this is in
a network namespace of its own, where public and private addresses can be had; the origin listens on each of them.
"""
import ctypes
import itertools
import json
import os
import re
import signal
import socket
import subprocess
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from gateway import Gateway, clean_environment, exeat, free_port, wait_until
from origin import Origin

CLONE_NEWNET = 0x40000000
HERE = ["11.22.33.44/32", "10.9.8.7/32", "100.64.9.8/32", "fd12:3456::7/128"]

# label: addresses. Each is under strict.test, and under private.test, whose service says allow-private.
PUBLIC = {"public": ["11.22.33.44"]}
PRIVATE = {"ten": ["10.9.8.7"], "carrier": ["100.64.9.8"], "unique-local": ["fd12:3456::7"]}
NEVER = {
    "loopback": ["127.0.0.1"], "loopback-other": ["127.9.9.9"], "loopback-v6": ["::1"],
    "mapped": ["::ffff:127.0.0.1"], "nat64": ["64:ff9b::7f00:1"], "6to4": ["2002:7f00:1::1"],
    "teredo": ["2001:0:4136:e378:8000:63bf:80ff:fffe"], "zero": ["0.0.0.0"], "zero-v6": ["::"],
    "metadata": ["169.254.169.254"], "metadata-mapped": ["::ffff:169.254.169.254"], "metadata-v6": ["fd00:ec2::254"],
    "link-local": ["169.254.7.7"], "link-local-v6": ["fe80::7"], "multicast": ["224.0.0.1"],
    "broadcast": ["255.255.255.255"], "documentation": ["192.0.2.1"], "two-bad": ["127.0.0.1", "169.254.169.254"],
    # The first and the last of every range of the IANA special-purpose registries that no service may have (RFC 6890)
    "this-network-last": ["0.255.255.255"], "loopback-last": ["127.255.255.255"], "link-local-first": ["169.254.0.0"],
    "link-local-last": ["169.254.255.255"], "protocol-first": ["192.0.0.0"], "protocol-last": ["192.0.0.255"], "dummy": ["192.0.0.8"],
    "port-control": ["192.0.0.9"], "dns64-discovery": ["192.0.0.170"], "documentation-1-last": ["192.0.2.255"],
    "documentation-2": ["198.51.100.0"], "documentation-3": ["203.0.113.255"], "as112": ["192.31.196.1"], "amt": ["192.52.193.1"],
    "6to4-relay": ["192.88.99.1"], "as112-direct": ["192.175.48.1"], "benchmark-first": ["198.18.0.0"],
    "benchmark-last": ["198.19.255.255"], "multicast-last": ["239.255.255.255"], "reserved-first": ["240.0.0.0"],
    "reserved-last": ["255.255.255.254"],
    "compatible": ["::127.0.0.1"], "compatible-global": ["::11.22.33.44"], "mapped-zero": ["::ffff:0.0.0.0"],
    "mapped-link-local": ["::ffff:169.254.7.7"], "mapped-multicast": ["::ffff:224.0.0.1"], "translated": ["::ffff:0:127.0.0.1"],
    "nat64-metadata": ["64:ff9b::a9fe:a9fe"], "nat64-zero": ["64:ff9b::"], "nat64-local": ["64:ff9b:1::7f00:1"],
    "nat64-local-global": ["64:ff9b:1::b16:212c"], "discard-only": ["100::1"], "dummy-v6": ["100:0:0:1::1"], "teredo-first": ["2001::"],
    "benchmark-v6": ["2001:2::1"], "amt-v6": ["2001:3::1"], "as112-v6": ["2001:4:112::1"], "orchid": ["2001:10::1"],
    "orchid-2": ["2001:20::1"], "drone": ["2001:30::1"], "protocol-v6-last": ["2001:1ff:ffff::1"], "documentation-v6": ["2001:db8::1"],
    "6to4-metadata": ["2002:a9fe:a9fe::1"], "6to4-global": ["2002:b16:212c::1"], "as112-direct-v6": ["2620:4f:8000::1"],
    "documentation-v6-new": ["3fff:fff::1"], "segment-routing": ["5f00::1"], "unallocated": ["4000::1"],
    "link-local-v6-last": ["febf:ffff::1"], "site-local": ["fec0::1"], "multicast-v6": ["ff02::1"], "multicast-v6-last": ["ffff::1"],
    "metadata-other-clouds": ["100.100.100.200"], "metadata-azure": ["168.63.129.16"], "metadata-containers": ["169.254.170.2"],
    "metadata-v6-other": ["fd20:ce::254"], "metadata-nat64": ["64:ff9b::6464:64c8"],
}
MIXED = {"mixed": ["127.0.0.1", "11.22.33.44"], "mixed-v6": ["::1", "11.22.33.44"]}
EVERY = {**PUBLIC, **PRIVATE, **NEVER, **MIXED, "moving": ["11.22.33.44"]}

SERVICES = """
  strict: {{hosts: ["*.strict.test"], plain-ports: [{port}], allow: ["GET /**"], scope: s, audit: "waived: test"}}
  private: {{hosts: ["*.private.test"], plain-ports: [{port}], allow: ["GET /**"], scope: s, audit: "waived: test",
            allow-private: true}}
"""


def enter_namespace():
    """A new network namespace for this thread and its children; how to leave it, or None without the right to."""
    libc = ctypes.CDLL(None, use_errno=True)
    old = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    if libc.unshare(CLONE_NEWNET) != 0:
        os.close(old)
        return None
    return lambda: (libc.setns(old, CLONE_NEWNET), os.close(old))


@pytest.fixture(scope="module")
def network():
    leave = enter_namespace()
    try:
        for words in [["link", "set", "lo", "up"]] + [["addr", "add", a, "dev", "lo"] for a in HERE] if leave else []:
            subprocess.run(["ip"] + words, check=True)
        yield leave is not None
    finally:
        if leave:
            leave()


@pytest.fixture
def addresses(network):
    if not network:
        pytest.skip("needs a network namespace of its own: run as root")


@pytest.fixture(scope="module")
def origin(network):
    o = Origin(everywhere=True)
    yield o
    o.close()


class NameServer:
    """dnsmasq that knows strict.test and private.test by a hosts file, and asks nobody."""

    def __init__(self, directory):
        self.hosts, self.port = directory / "hosts", free_port()
        self.write(EVERY)
        words = ["--keep-in-foreground", "--conf-file=/dev/null", "--no-resolv", "--no-hosts",
                 f"--addn-hosts={self.hosts}", f"--port={self.port}", "--listen-address=127.0.0.1", "--bind-interfaces", "--local=/test/",
                 "--pid-file=", "--user=", "--group=", "--txt-record=empty.strict.test,no address",
                 "--cname=alias.strict.test,loopback.strict.test", "--cname=alias-good.strict.test,public.strict.test"]
        path = os.environ["PATH"] + ":/usr/sbin"
        self.log = open(directory / "dnsmasq.log", "wb")
        self.process = subprocess.Popen(["dnsmasq"] + words, env=clean_environment(PATH=path), stdout=self.log,
                                        stderr=self.log)
        wait_until(self.answers, "dnsmasq")

    def write(self, names):
        lines = [f"{a} {label}.{zone}.test\n" for label, list_ in names.items() for a in list_
                 for zone in ("strict", "private")]
        self.hosts.write_text("".join(lines))
        self.hosts.chmod(0o644)

    def rewrite(self, names):
        self.write(names)
        self.process.send_signal(signal.SIGHUP)

    def answers(self):
        try:
            socket.create_connection(("127.0.0.1", self.port), 5).close()
            return True
        except ConnectionRefusedError:
            assert self.process.poll() is None, "dnsmasq does not start"
            return False

    def stop(self):
        self.process.terminate()
        self.process.wait(30)


@pytest.fixture(scope="module")
def name_server(network, tmp_path_factory):
    s = NameServer(tmp_path_factory.mktemp("dns"))
    yield s
    s.stop()


def gateway_with(directory, origin, server, timeout="10s", services=SERVICES):
    extra = f'resolver: {{servers: ["{server}"], timeout: {timeout}}}'
    return Gateway(directory / "state", services.format(port=origin.port), extra=extra).start()


@pytest.fixture(scope="module")
def gateway(tmp_path_factory, origin, name_server):
    g = gateway_with(tmp_path_factory.mktemp("names"), origin, f"127.0.0.1:{name_server.port}")
    yield g
    assert g.stop() == 0, g.output().decode()


@pytest.fixture(scope="module")
def token(gateway):
    return gateway.token("s")


counter = itertools.count()


def allowed(gateway, path):
    def find():
        return [r for r in gateway.records(kind="decision", action="allow") if r["http"].get("path") == path]

    return wait_until(find, f"the decision on {path}")[0]["id"]


def ask(gateway, host, port, token, dialled=True):
    """The answer, and the record of its dial; dialled=False: no dial is expected."""
    path = f"/x{next(counter)}"
    wire = gateway.connect()
    wire.send(f"GET http://{host}:{port}{path} HTTP/1.1\r\nHost: {host}:{port}\r\n"
              f"Proxy-Authorization: Bearer {token}\r\n\r\n")
    answer = wire.response()
    wire.close()
    id = json.loads(answer.body)["exchange"] if answer.reason else allowed(gateway, path)
    dials = gateway.wait_for(kind="dial", id=id) if dialled else gateway.records(kind="dial", id=id)
    return SimpleNamespace(answer=answer, id=id, dial=dials[0] if dials else None)


@pytest.fixture
def asked(gateway, origin, token):
    return lambda host, dialled=True: ask(gateway, host, origin.port, token, dialled)


def check_refused(seen, origin, status, reason, outcome):
    assert (seen.answer.status, seen.answer.reason) == (status, reason)
    assert (seen.dial["outcome"], seen.dial["reason"]) == (outcome, reason)
    assert origin.connections == 0, "something was dialled"


@pytest.fixture(autouse=True)
def no_connections_yet(origin):
    origin.clear()
    origin.connections = 0


# ---- reached


@pytest.mark.parametrize("host,address", [("public.strict.test", "11.22.33.44"), ("public.private.test", "11.22.33.44"),
                                          ("alias-good.strict.test", "11.22.33.44"), ("ten.private.test", "10.9.8.7"),
                                          ("carrier.private.test", "100.64.9.8"),
                                          ("unique-local.private.test", "[fd12:3456::7]")])
def test_an_address_that_may_be_reached(addresses, asked, origin, host, address):
    seen = asked(host)
    assert seen.answer.status == 200
    assert (seen.dial["outcome"], seen.dial["address"]) == ("complete", f"{address}:{origin.port}")
    assert origin.requests[0].field("host") == f"{host}:{origin.port}"


@pytest.mark.parametrize("label", MIXED)
def test_bad_addresses_are_left_out_and_the_good_one_dialled(addresses, gateway, asked, origin, label):
    seen = asked(f"{label}.strict.test")
    assert seen.answer.status == 200
    assert (seen.dial["outcome"], seen.dial["address"]) == ("complete", f"11.22.33.44:{origin.port}")
    finding = gateway.wait_for(kind="finding", id=seen.id)[0]
    assert finding["reason"] == "address_denied" and "loopback" in finding["detail"]
    assert origin.connections == 1


def test_a_name_that_moves_to_loopback_is_refused(addresses, gateway, name_server, origin):
    """DNS rebinding: each dial looks up and checks anew."""
    assert ask(gateway, "moving.strict.test", origin.port, gateway.token("s")).answer.status == 200
    name_server.rewrite({**EVERY, "moving": ["127.0.0.1"]})

    def refused():
        token = gateway.token("s", sandbox=f"mover-{next(counter)}")  # a fresh sandbox has no pooled connection
        return ask(gateway, "moving.strict.test", origin.port, token).answer.reason == "address_denied"

    wait_until(refused, "a refusal after the name has moved")


# ---- refused


@pytest.mark.parametrize("label", NEVER)
@pytest.mark.parametrize("zone", ["strict", "private"])
def test_an_address_that_may_never_be_reached_by_name(asked, origin, label, zone):
    seen = asked(f"{label}.{zone}.test")
    check_refused(seen, origin, 403, "address_denied", "refused")


@pytest.mark.parametrize("label", PRIVATE)
def test_a_private_address_without_allow_private(asked, origin, label):
    seen = asked(f"{label}.strict.test")
    check_refused(seen, origin, 403, "address_denied", "refused")
    assert "private" in seen.dial["detail"]


def test_an_alias_of_loopback(asked, origin):
    check_refused(asked("alias.strict.test"), origin, 403, "address_denied", "refused")


@pytest.mark.parametrize("label", ["nowhere", "empty"])
def test_no_name_and_no_address(asked, origin, label):
    check_refused(asked(f"{label}.strict.test"), origin, 502, "name_not_resolved", "failed")


def test_a_name_that_is_not_listed_is_not_looked_up(gateway, asked, origin):
    seen = asked("ten.elsewhere.test", dialled=False)
    assert seen.answer.reason == "host_not_listed" and seen.dial is None
    assert origin.connections == 0


def test_an_address_instead_of_a_name(gateway, asked, origin):
    seen = asked("127.0.0.1", dialled=False)
    assert (seen.answer.status, seen.answer.reason) == (400, "host_invalid") and seen.dial is None
    assert gateway.wait_for(kind="decision", id=seen.id, action="deny")
    assert origin.connections == 0


# ---- fixed addresses


FIXED = """
  fixed: {{hosts: [fixed.test], plain-ports: [80], addresses: ["127.0.0.1:{port}"], allow: ["GET /**"], scope: s,
          audit: "waived: test"}}
  self: {{hosts: [self.test], plain-ports: [80], addresses: ["127.0.0.1:{publish}"], allow: ["GET /**"], scope: s,
         audit: "waived: test"}}
"""


def test_loopback_by_addresses_but_never_the_gateway_itself(tmp_path, origin):
    g = Gateway(tmp_path / "state", "  {}")
    g.write(FIXED.format(port=origin.port, publish=g.publish))
    g.start()
    try:
        token = g.token("s")
        seen = ask(g, "fixed.test", 80, token)
        assert seen.answer.status == 200 and seen.dial["address"] == f"127.0.0.1:{origin.port}"
        seen = ask(g, "self.test", 80, token)
        assert (seen.answer.status, seen.answer.reason) == (403, "address_denied")
        assert "own listener" in seen.dial["detail"]
    finally:
        assert g.stop() == 0


# ---- the gateway itself, wherever it listens


PORTS = range(41000, 41040)  # what the kernel chooses from, for a listener on port 0
OWN = """
  open: {{hosts: ["*.strict.test"], plain-ports: [{ports}], allow: ["GET /**"], scope: s, audit: "waived: test"}}
  private: {{hosts: ["*.private.test"], plain-ports: [{ports}], allow: ["GET /**"], scope: s, audit: "waived: test",
            allow-private: true}}
"""


@contextmanager
def kernel_chooses_from(ports):
    path = Path("/proc/sys/net/ipv4/ip_local_port_range")
    before = path.read_text()
    path.write_text(f"{ports[0]} {ports[-1]}")
    try:
        yield
    finally:
        path.write_text(before)


@pytest.mark.parametrize("listener", ["0.0.0.0:0", "11.22.33.44:0", "[fd12:3456::7]:0", "[::]:0"])
def test_no_listener_is_reached_by_any_name(tmp_path, addresses, name_server, listener):
    """One on a port that the kernel chose, one on every interface: what they are is known when they are open, not before."""
    ports = ", ".join(map(str, PORTS))
    g = Gateway(tmp_path / "state", OWN.format(ports=ports), extra=f'resolver: {{servers: ["127.0.0.1:{name_server.port}"]}}')
    g.config.write_text(g.config.read_text().replace("listen:\n", f'listen:\n  other: {{address: "{listener}"}}\n'))
    with kernel_chooses_from(PORTS):
        g.start()
    try:
        port = int(re.search(rb"other \S+:(\d+)", g.output())[1])
        token = g.token("s")
        every = ["public.strict.test", "ten.private.test", "carrier.private.test", "unique-local.private.test"]
        for host in {"11.22.33.44:0": every[:1], "[fd12:3456::7]:0": every[3:]}.get(listener, every):
            seen = ask(g, host, port, token)
            assert (seen.answer.status, seen.answer.reason) == (403, "address_denied")
            assert "own listener" in seen.dial["detail"]
    finally:
        assert g.stop() == 0


def test_a_listener_that_a_reload_opened_is_not_reached_either(tmp_path, addresses, name_server):
    port = free_port()
    g = Gateway(tmp_path / "state", OWN.format(ports=port), extra=f'resolver: {{servers: ["127.0.0.1:{name_server.port}"]}}').start()
    try:
        assert ask(g, "public.strict.test", port, g.token("s")).answer.reason == "connect_refused"
        g.config.write_text(g.config.read_text().replace("listen:\n", f'listen:\n  other: {{address: "0.0.0.0:{port}"}}\n'))
        exeat("reload", config=g.config)
        seen = ask(g, "public.strict.test", port, g.token("s"))
        assert seen.answer.reason == "address_denied" and "own listener" in seen.dial["detail"]
    finally:
        assert g.stop() == 0


# ---- bad name servers


def test_a_silent_name_server(tmp_path, origin):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        g = gateway_with(tmp_path, origin, "127.0.0.1:%d" % silent.getsockname()[1], timeout="300ms")
        try:
            seen = ask(g, "public.strict.test", origin.port, g.token("s"))
            check_refused(seen, origin, 504, "name_timeout", "failed")
            assert 250_000 <= seen.dial["duration_us"]
        finally:
            assert g.stop() == 0


def test_no_name_server_there(tmp_path, origin):
    g = gateway_with(tmp_path, origin, f"127.0.0.1:{free_port()}", timeout="2s")
    try:
        seen = ask(g, "public.strict.test", origin.port, g.token("s"))
        assert seen.answer.reason in ("name_not_resolved", "name_timeout") and seen.dial["outcome"] == "failed"
        assert origin.connections == 0
    finally:
        assert g.stop() == 0


def test_a_name_server_that_refuses(tmp_path, origin, name_server):
    """Outside test. dnsmasq has nobody to ask: REFUSED, which is an answer like NXDOMAIN."""
    services = SERVICES.replace('"*.strict.test"', "name.example")
    g = gateway_with(tmp_path, origin, f"127.0.0.1:{name_server.port}", services=services)
    try:
        check_refused(ask(g, "name.example", origin.port, g.token("s")), origin, 502, "name_not_resolved", "failed")
    finally:
        assert g.stop() == 0
