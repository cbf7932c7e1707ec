"""
Hosts in network namespaces that the test makes: on a link of two, or on a bridge. Made by root; names are of this process,
and go with the `with` that made them.

    with Network("b") as net:
        gateway, client = net.host("gw"), net.host("c1")
        net.link(gateway, "10.9.0.1/24", client, "10.9.0.2/24")
        client.run("ping", "-c1", "10.9.0.1")
"""
import ctypes
import itertools
import os
import subprocess
from contextlib import contextmanager

import pytest

from gateway import PATIENCE, clean_environment

CLONE_NEWNET = 0x40000000
_numbers = itertools.count()


def need_root():
    if os.geteuid() != 0:
        pytest.skip("network namespaces are made by root")


def ip(*words, check=True):
    return subprocess.run(["ip", *map(str, words)], check=check, capture_output=True, text=True, timeout=PATIENCE)


class Host:
    """One namespace, with lo up. Its resolver is what resolve() wrote, never the machine's."""

    def __init__(self, name):
        self.name = f"ex{os.getpid()}-{name}"
        self.etc = f"/etc/netns/{self.name}"
        ip("netns", "add", self.name)
        ip("-n", self.name, "link", "set", "lo", "up")

    def ip(self, *words, check=True):
        return ip("-n", self.name, *words, check=check)

    def command(self, words):
        return ["ip", "netns", "exec", self.name, *map(str, words)]

    def run(self, *words, check=False, env=None, patience=PATIENCE, **more):
        return subprocess.run(self.command(words), capture_output=True, text=True, check=check, timeout=patience,
                              env=env or clean_environment(), **more)

    def popen(self, *words, env=None, **more):
        return subprocess.Popen(self.command(words), env=env or clean_environment(), **more)

    def sysctl(self, **settings):
        """net.ipv4.ip_forward as net__ipv4__ip_forward."""
        for key, value in settings.items():
            self.run("sysctl", "-qw", f"{key.replace('__', '.')}={value}", check=True)

    def resolve(self, hosts="", servers=()):
        """Its /etc/hosts beyond localhost, and its name servers; `ip netns exec` mounts both."""
        os.makedirs(self.etc, exist_ok=True)
        with open(f"{self.etc}/hosts", "w") as f:
            f.write(f"127.0.0.1 localhost\n::1 localhost\n{hosts}\n")
        with open(f"{self.etc}/resolv.conf", "w") as f:
            f.writelines(f"nameserver {s}\n" for s in servers)
        with open(f"{self.etc}/nsswitch.conf", "w") as f:
            f.write("hosts: files dns\n")

    @contextmanager
    def inside(self):
        """This thread, and what it starts meanwhile, is in the namespace: sockets made here stay in it."""
        libc = ctypes.CDLL(None, use_errno=True)
        old = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        new = os.open(f"/run/netns/{self.name}", os.O_RDONLY)
        try:
            if libc.setns(new, CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), f"setns {self.name}")
            yield self
        finally:
            libc.setns(old, CLONE_NEWNET)
            os.close(new)
            os.close(old)

    def remove(self):
        for pid in ip("netns", "pids", self.name, check=False).stdout.split():
            try:
                os.kill(int(pid), 9)
            except ProcessLookupError:
                pass
        ip("netns", "del", self.name, check=False)
        for f in ("hosts", "resolv.conf", "nsswitch.conf"):
            if os.path.exists(f"{self.etc}/{f}"):
                os.unlink(f"{self.etc}/{f}")
        if os.path.isdir(self.etc):
            os.rmdir(self.etc)


class Network:
    def __init__(self, label="n"):
        need_root()
        self.label, self.hosts = f"{label}{next(_numbers)}", []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for h in self.hosts:
            h.remove()

    def host(self, name):
        h = Host(f"{self.label}-{name}")
        self.hosts.append(h)
        h.resolve()
        return h

    def link(self, a, a_addresses, b, b_addresses, a_name=None, b_name=None):
        """A veth between two hosts; addresses are "10.9.0.1/24" or a list of such. Gives the names of its ends."""
        n = next(_numbers)
        a_name, b_name = a_name or f"v{n}a", b_name or f"v{n}b"
        ip("link", "add", a_name, "netns", a.name, "type", "veth", "peer", "name", b_name, "netns", b.name)
        for host, name, addresses in ((a, a_name, a_addresses), (b, b_name, b_addresses)):
            self.configure(host, name, addresses)
        return a_name, b_name

    @staticmethod
    def configure(host, name, addresses):
        for address in [addresses] if isinstance(addresses, str) else addresses or []:
            nodad = ["nodad"] if ":" in address else []
            host.ip("addr", "add", address, "dev", name, *nodad)
        host.ip("link", "set", name, "up")

    def bridge(self, host, addresses, members, name="br0"):
        """A bridge in `host`; members are (host, addresses). Gives the names of its ports, one a member."""
        host.ip("link", "add", name, "type", "bridge")
        self.configure(host, name, addresses)
        ports = []
        for member, member_addresses in members:
            port, _ = self.link(host, None, member, member_addresses)
            host.ip("link", "set", port, "master", name)
            ports.append(port)
        return ports
