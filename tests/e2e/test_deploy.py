"""What docs/deploy.md tells an operator to type, typed: on a machine of its own, network and mounts, with a gateway that runs there."""
import ctypes
import json
import os
import re
import signal
import subprocess
from contextlib import contextmanager

import pytest

import packets as p
from gateway import EXEAT, PATIENCE, TREE, Gateway, clean_environment, wait_until
from netns import CLONE_NEWNET, need_root
from test_docs import blocks
from walled import Tap

PAGE = (TREE / "docs" / "deploy.md").read_text()
SERVICES = """
  npm: {preset: npm-read, hosts: [npm.example], scope: "npm:read", audit: "waived: test"}
  here: {hosts: [here.test], plain-ports: [8080], addresses: ["10.7.7.2:8080"], allow-private: true, allow: ["GET /**"], scope: "npm:read",
    audit: "waived: test"}
"""
CONTAINER = """
code=$(curl -so /dev/null -w '%{http_code}' -x 10.0.4.1:3128 http://npm.example/)
curl -s --connect-timeout 1 telnet://10.0.4.1:22 </dev/null; [ $? = 28 ] || exit 3
curl -s --connect-timeout 1 http://192.0.2.1/; [ $? = 28 ] || exit 4
echo "container: $code"
"""


class Machine:
    """A namespace of networks and one of mounts: /run/netns and everything in it are the test's own."""

    def __init__(self, home):
        need_root()
        self.home = home
        ready = home / "ready"
        script = f"mount -t tmpfs none /run/netns && ip link set lo up && touch {ready} && exec sleep 86400"
        self.process = subprocess.Popen(["unshare", "--mount", "--net", "sh", "-c", script])
        wait_until(ready.exists, "a machine")

    def words(self, *words):
        return ["nsenter", "-t", str(self.process.pid), "--mount", "--net", *map(str, words)]

    def type(self, block, check=True, **environment):
        env = clean_environment(HOME=str(self.home), **environment)
        env["PATH"] = f"{EXEAT.parent}:{env['PATH']}:/usr/sbin:/sbin"
        done = subprocess.run(self.words("sh", "-ec", f"cd {self.home}\n{block}"), env=env, text=True, capture_output=True, timeout=PATIENCE,
                              stdin=subprocess.DEVNULL)
        assert not check or done.returncode == 0, f"{block}\n{done.stdout}{done.stderr}"
        return done

    @contextmanager
    def inside(self):
        """This thread is in its network."""
        libc = ctypes.CDLL(None, use_errno=True)
        old, new = (os.open(f"/proc/{who}/ns/net", os.O_RDONLY) for who in ("thread-self", self.process.pid))
        assert libc.setns(new, CLONE_NEWNET) == 0
        try:
            yield
        finally:
            libc.setns(old, CLONE_NEWNET)
            os.close(old)
            os.close(new)

    def close(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(PATIENCE)


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    """With a gateway on it, and a way out behind which a service is."""
    m = Machine(tmp_path_factory.mktemp("deploy"))
    m.type("""
        ip netns add far
        ip link add uplink type veth peer name eth0 netns far
        ip addr add 10.7.7.1/24 dev uplink; ip link set uplink up
        ip -n far addr add 10.7.7.2/24 dev eth0; ip -n far link set eth0 up; ip -n far link set lo up
        ip -n far addr add 192.0.2.1/32 dev lo
        ip -n far route add default via 10.7.7.1
        ip route add default via 10.7.7.2
        sysctl -qw net.ipv4.ip_forward=1""")
    service = subprocess.Popen(m.words("ip", "netns", "exec", "far", "/usr/bin/python3", "-c", """
import http.server
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        self.send_response(200); self.send_header("Content-Length", "2"); self.end_headers(); self.wfile.write(b"ok")
http.server.ThreadingHTTPServer(("", 8080), H).serve_forever()"""), stderr=subprocess.DEVNULL)
    m.gateway = Gateway(m.home / "state", SERVICES)
    m.gateway.start(m.words(EXEAT, "-c", m.gateway.config, "serve"))
    yield m
    if m.gateway.process.poll() is None:
        m.gateway.stop()
    service.kill()
    service.wait(PATIENCE)
    m.close()


def section(title):
    return re.search(rf"(?ms)^## {title}\n(.*?)(?=^## |\Z)", PAGE)[1]


def follow(machine, title, **environment):
    found = blocks("deploy.md", section(title))
    assert found
    return [machine.type(block, EXEAT_CONFIG=str(machine.gateway.config), **environment) for block in found]


def without_firewall(machine, title, name):
    """Of each command that verifies a recipe: does it hold when the firewall is gone? What cannot fail verifies nothing."""
    machine.type(f"exeat firewall remove --interface {name}")
    verify = re.sub(r"\n    +", " ", blocks("deploy.md", section(title))[-1])  # an indented line belongs to the one before it
    verify = verify.replace("\ndone", "; done")
    return [machine.type(line, check=False, EXEAT_CONFIG=str(machine.gateway.config)).returncode == 0 for line in verify.splitlines()]


def test_a_namespace(machine):
    follow(machine, "A namespace")
    assert without_firewall(machine, "A namespace", "vm1") == [False, True, False, False]


def test_a_bridge(machine):
    follow(machine, "A bridge")
    machine.type("exeat firewall remove --interface box3")
    machine.type("ip -n box3 neigh flush dev eth0; ip -n box2 neigh flush dev eth0")
    assert without_firewall(machine, "A bridge", "box2") == [False, False, False]


def test_a_tap(machine):
    follow(machine, "A tap")
    tap = Tap(None, machine, "tap1")
    mac, source, door = "02:00:00:00:03:02", "10.0.3.2", "10.0.3.1"
    heard = []

    def hear(wanted):
        heard.extend(p.read(f) for f in tap.take())
        for f in heard:
            if f.operation == 1 and f.target == source:
                tap.send(p.eth(mac, f.by, p.ARP, p.arp(2, mac, source, f.source, f.by)))
        return next((f for f in heard if wanted(f)), None)

    def ask():
        tap.send(p.eth(mac, p.BROADCAST, p.ARP, p.arp(1, mac, source, door)))
        return hear(lambda f: f.operation == 2 and f.source == door)

    gateway = wait_until(ask, "the gateway's address").by
    for sport, port in ((5001, 22), (5002, 3128)):
        tap.send(p.eth(mac, gateway, p.IP4, p.ip4(source, door, p.TCP, p.tcp(source, door, sport, port))))
    wait_until(lambda: hear(lambda f: f.dport == 5002 and f.flags == p.SYN | p.ACK), "an answer of the listener")
    assert not [f for f in heard if f.dport == 5001]
    tap.close()


def test_a_container_runtime(machine):
    bundle = machine.home / "bundle"
    (bundle / "rootfs").mkdir(parents=True)
    machine.type("cd bundle && mount --bind / rootfs && runc spec")
    config = json.loads((bundle / "config.json").read_text())
    config["process"].update(terminal=False, args=["sh", "-c", CONTAINER])
    (bundle / "config.json").write_text(json.dumps(config, indent=1))
    try:
        assert follow(machine, "A container runtime")[-1].stdout.splitlines()[-1] == "container: 407"
    finally:
        machine.type("umount bundle/rootfs")


def test_programs_that_know_no_proxy(machine):
    listen = re.search(r"(?s)```\n(listen:.*?)```", section("Programs that know no proxy"))[1]
    if machine.type("ip link show vm1", check=False).returncode:
        machine.type(blocks("deploy.md", section("A namespace"))[0])
    g = Gateway(machine.home / "other", SERVICES)
    g.config.write_text(re.sub(r"listen:\n.*\n", lambda _: listen, g.config.read_text(), count=1))
    (machine.home / "transparent.conf").write_text(g.config.read_text().replace("state: .", f"state: {g.directory}"))
    g.start(machine.words(EXEAT, "-c", g.config, "serve"))
    try:
        tproxy, redirect, added = blocks("deploy.md", section("Programs that know no proxy"))
        machine.type(tproxy)
        assert "tproxy" in machine.type("nft list ruleset").stdout
        machine.type(redirect)
        assert "tproxy" not in machine.type("nft list ruleset").stdout
        machine.type(added)
    finally:
        assert g.stop() == 0


def test_when_it_does_not_hold(machine):
    machine.type("ip link show vm1 || { ip netns add vm1; ip link add vm1 type veth peer name eth0 netns vm1; }")
    machine.type("nft flush ruleset; ip link set vm1 up")
    follow(machine, "When it does not hold")
    assert "state DOWN" in machine.type("ip link show vm1").stdout


def test_what_left_by_the_kernel(machine):
    g = machine.gateway
    count, compare = blocks("deploy.md", section("What left, by the kernel"))
    machine.type(count)
    token = g.token("npm:read")
    for path in ("a", "b"):
        machine.type(f"curl -sfx http://jwt:{token}@127.0.0.1:{g.port} http://here.test:8080/{path}")
    g.stop()
    machine.type(compare, EXEAT_CONFIG=str(g.config))
    assert int((machine.home / "kernel").read_text()) > 100
