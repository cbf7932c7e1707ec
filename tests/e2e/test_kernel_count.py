"""
Completeness, by the kernel's own word: what nftables and connection tracking on the gateway's host have counted on the way to the
services, to name servers and to where issuers publish their keys is what the journal says left: the same connections, and on them the
same bytes.
"""
import json
import socket
import ssl
import threading
import time

import pytest

from gateway import PATIENCE, Gateway, Wire, connect_head, wait_until
from netns import Network
from origin import make_pki
from resolver import GOOD, Resolver

GATEWAY, SANDBOX, UP, SERVICE = "10.8.1.1", "10.8.1.2", "10.8.2.1", "10.8.2.2"
UP6, SERVICE6 = "fd08:2::1", "fd08:2::2"
TLS, PLAIN, RUDE, SIX, NOBODY, KEYS = 8443, 8080, 8081, 8082, 8083, 8444

# TCP's own heads have 5 to 15 words of 4 bytes: a counter for each, so that heads can be taken off to the byte.
COUNTERS = "table inet count {\n chain out {\n type filter hook postrouting priority 300;\n" + "".join(
    f' oifname "up0" meta nfproto {v} tcp doff {n} counter comment "{v} {n}"\n' for v in ("ipv4", "ipv6") for n in range(5, 16)) + \
    ' oifname "up0" meta l4proto udp counter comment "udp"\n' \
    ' oifname "up0" meta l4proto != { tcp, udp, ipv6-icmp } counter comment "other"\n' \
    ' oifname "up0" tcp flags & (syn | ack) == syn counter comment "begun"\n }\n}\n'


def services(ca):
    rows = [("tls", "ports", TLS, SERVICE), ("plain", "plain-ports", PLAIN, SERVICE), ("rude", "plain-ports", RUDE, SERVICE),
            ("six", "plain-ports", SIX, f"[{SERVICE6}]"), ("nobody", "plain-ports", NOBODY, SERVICE)]
    return "".join(f"""
  {name}: {{hosts: [{name}.test], {ports}: [{port}], addresses: ["{address}:{port}"], allow-private: true, allow: ["GET,POST /**"], scope: all,
    body: 8m, audit: "waived: test"{f', ca-file: {ca}' if name == "tls" else ""}}}""" for name, ports, port, address in rows) + f"""
  named: {{hosts: ["*.named.test"], plain-ports: [{PLAIN}], allow: ["GET /**"], scope: all, audit: "waived: test"}}"""


class Service:
    """A server in the service's namespace: keeps connections, answers what the path says, or is rude: ends, resets, is silent."""

    def __init__(self, host, address, port, context=None):
        with host.inside():
            self.listening = socket.create_server((address, port), family=socket.AF_INET6 if ":" in address else socket.AF_INET)
        self.context, self.received, self.accepted = context, [], 0
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                s, _ = self.listening.accept()
            except OSError:
                return
            self.accepted += 1
            threading.Thread(target=self.serve, args=(s,), daemon=True).start()

    def serve(self, s):
        try:
            if self.context:
                s = self.context.wrap_socket(s, server_side=True)
            f = s.makefile("rb")
            while self.exchange(s, f):
                pass
        except OSError:
            pass
        finally:
            s.close()

    def exchange(self, s, f):
        line = f.readline()
        length = 0
        while (field := f.readline().strip()):
            if field.lower().startswith(b"content-length:"):
                length = int(field.split(b":")[1])
        if not line:
            return False
        if b"/reset" in line:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            return False
        f.read(length)
        if b"/end" in line:
            return False
        body = b"x" * (200000 if b"/large" in line else 10)
        if b"/short" in line:
            s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + body)
            return False
        s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        return b"/last" not in line

    def close(self):
        self.listening.close()


class Place:
    def __init__(self, directory):
        self.net = Network("k")
        self.host, self.sandbox, self.far = (self.net.host(n) for n in ("gw", "sb", "svc"))
        self.net.link(self.host, [f"{GATEWAY}/24"], self.sandbox, [f"{SANDBOX}/24"], "sb0", "eth0")
        self.net.link(self.host, [f"{UP}/24", f"{UP6}/64"], self.far, [f"{SERVICE}/24", f"{SERVICE6}/64"], "up0", "eth0")
        self.far.run("ip", "address", "add", f"{GOOD}/32", "dev", "eth0", check=True)
        self.host.run("ip", "route", "add", f"{GOOD}/32", "via", SERVICE, check=True)
        with self.far.inside():
            self.names = Resolver(SERVICE)
        ca, cert, key = make_pki(directory, ["tls.test", "keys.test"])
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cert, key)
        self.services = {"tls": Service(self.far, SERVICE, TLS, context), "plain": Service(self.far, SERVICE, PLAIN),
                         "good": Service(self.far, GOOD, PLAIN), "keys": Service(self.far, SERVICE, KEYS, context),
                         "rude": Service(self.far, SERVICE, RUDE), "six": Service(self.far, SERVICE6, SIX)}
        self.host.run("nft", "-f", "-", input=COUNTERS, check=True)
        # Tracking begins with a rule that asks for it.
        self.host.run("nft", "-f", "-", input="table inet track { chain c { type filter hook output priority 0; ct state new counter; }; }",
                      check=True)
        self.host.sysctl(net__netfilter__nf_conntrack_acct=1, net__netfilter__nf_conntrack_udp_timeout=600)
        self.gateway = Gateway(directory / "state", services(ca), workers=2)
        text = self.gateway.config.read_text().replace(f'explicit: {{address: "127.0.0.1:{self.gateway.port}"}}',
                                                       f'explicit: {{address: "{GATEWAY}:3128"}}')
        text = text.replace("issuers:\n", f'''issuers:
  ci: {{issuer: "https://keys.test", jwks-uri: "https://keys.test:{KEYS}/keys", jwks-addresses: ["{SERVICE}:{KEYS}"], jwks-ca-file: {ca}, algorithms: [RS256]}}
''', 1)
        self.gateway.config.write_text(text + f'resolver: {{servers: ["{self.names.address}"], timeout: 1s}}\n')
        with self.host.inside():
            self.gateway.start()
        self.token = self.gateway.token("all")

    def close(self):
        status = self.gateway.stop()
        for s in self.services.values():
            s.close()
        self.names.close()
        self.net.__exit__()
        assert status == 0

    # ---- the sandbox

    def connect(self):
        with self.sandbox.inside():
            return Wire(socket.create_connection((GATEWAY, 3128), PATIENCE))

    def ask(self, wire, name, path, method="GET", body=b"", port=None):
        port = port or {"plain": PLAIN, "rude": RUDE, "six": SIX, "nobody": NOBODY}.get(name, PLAIN)
        head = f"{method} http://{name}.test:{port}{path} HTTP/1.1\r\nHost: {name}.test:{port}\r\nProxy-Authorization: Bearer {self.token}\r\n"
        if body:
            head += f"Content-Length: {len(body)}\r\n"
        wire.send(head.encode() + b"\r\n" + body)

    def tunnel(self):
        wire = self.connect()
        wire.send(connect_head("tls.test", self.token, TLS))
        assert wire.response(method="CONNECT").status == 200
        return wire.start_tls("tls.test", self.gateway.root)

    # ---- what the kernel has counted

    def counters(self):
        listed = json.loads(self.host.run("nft", "-j", "list", "table", "inet", "count", check=True).stdout)["nftables"]
        for r in (x["rule"] for x in listed if "rule" in x):
            yield r["comment"], next(e["counter"] for e in r["expr"] if "counter" in e)

    def content(self):
        """Bytes of TCP's content that went out to the services: what the packets have without the heads of IP and TCP."""
        heads = {"ipv4": 20, "ipv6": 40}
        return sum(c["bytes"] - c["packets"] * (heads[name.split()[0]] + 4 * int(name.split()[1]))
                   for name, c in self.counters() if name.split()[0] in heads)

    def messages(self):
        """Datagrams that went out, and bytes of messages in them."""
        c = next(c for name, c in self.counters() if name == "udp")
        return c["packets"], c["bytes"] - c["packets"] * (20 + 8)

    def packets(self, kind):
        return next(c["packets"] for name, c in self.counters() if name == kind)

    def tracked(self, protocol="tcp"):
        """(this end, the other) of each connection that connection tracking has seen set up to a service or a name server."""
        found = []
        for family in ("ipv4", "ipv6"):
            for line in self.host.run("conntrack", "-L", "-f", family, "-p", protocol, check=True).stdout.splitlines():
                words = dict(w.split("=") for w in reversed(line.split()) if "=" in w)  # the first of each name: as it was begun
                if words["dst"] in (SERVICE, SERVICE6, GOOD):
                    brackets = "[{}]:{}" if ":" in words["src"] else "{}:{}"
                    found.append((brackets.format(words["src"], words["sport"]), brackets.format(words["dst"], words["dport"])))
        return found


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    p = Place(tmp_path_factory.mktemp("kernel"))
    yield p
    p.close()


def traffic(p):
    """Of every kind there is: kept connections, large bodies, ends and resets in the middle, refusals, retries, TLS, IPv6."""
    kept = p.connect()
    for path in ("/a", "/large", "/b"):
        p.ask(kept, "plain", path)
        assert kept.response().status == 200
    p.ask(kept, "plain", "/upload", "POST", b"y" * 300000)
    assert kept.response().status == 200
    p.ask(kept, "plain", "/elsewhere", port=9)
    assert kept.response().status == 403
    kept.close()
    six = p.connect()
    p.ask(six, "six", "/a", "POST", b"z" * 70000)
    assert six.response().status == 200
    six.close()
    for _ in range(2):
        inside = p.tunnel()
        for path in ("/a", "/large", "/last"):
            inside.send(f"GET {path} HTTP/1.1\r\nHost: tls.test:{TLS}\r\n\r\n".encode())
            assert inside.response().status == 200
        inside.close()
    for path, status in (("/reset", 502), ("/end", 502), ("/last", 200), ("/a", 200)):
        wire = p.connect()
        p.ask(wire, "rude", path)
        assert wire.response().status == status
        wire.close()
    again = p.connect()  # the connection that is kept was ended meanwhile: the request goes out on a new one
    p.ask(again, "rude", "/last")
    assert again.response().status == 200
    p.ask(again, "rude", "/a")
    assert again.response().status == 200
    again.close()
    cut = p.connect()
    p.ask(cut, "rude", "/short")
    with pytest.raises(Exception):
        cut.response()
    cut.close()
    gone = p.connect()  # a client that goes in the middle of its body
    p.ask(gone, "plain", "/gone", "POST", b"w" * 200000)
    gone.close()
    for name, status in (("good", 200), ("cut", 200), ("cut-for-ever", 504), ("nxdomain", 502), ("silent", 504), ("slow", 200)):
        wire = p.connect()  # by name: told, told over TCP, never, not there, not told at all, late
        p.ask(wire, f"{name}.named", "/a")
        assert wire.response().status == status, name
        wire.close()
    nobody = p.connect()
    p.ask(nobody, "nobody", "/a")
    assert nobody.response().status in (502, 504)
    nobody.close()


def test_the_kernel_has_counted_what_the_journal_says_left(place):
    p = place
    traffic(p)
    p.gateway.stop()
    dials = [d for d in p.gateway.records(kind="dial") if "address" in d or d["outcome"] == "complete" or d["reason"] == "connect_refused"]
    ends = p.gateway.records(kind="upstream")
    lines = [e for e in ends if "dns" in e]
    by_tcp = [e for e in lines if e["dns"]["transport"] == "tcp"]
    opened = [d for d in dials if d["outcome"] == "complete"]
    assert len(opened) > 8 and len(dials) == len(opened) + 1
    # Each says by whom: workers, the clerk for keys, the porter for names.
    assert {e["role"] for e in lines} == {"porter"} and by_tcp and len(lines) > len(by_tcp)
    keys = [e for e in ends if e.get("issuer") == "ci"]
    assert keys and {e["role"] for e in keys} == {"clerk"} and {e["exchanges"] for e in keys} == {1}
    assert {d.get("asked_by") for d in opened} == {None, "clerk"}
    # Connections: each one that was begun has a record of its dial; each one that was set up is known to both, by its two ends.
    assert p.packets("begun") == len(dials) + len(by_tcp)
    tracked = p.tracked()
    both = {(e["local"], e["address"]) for e in ends if e not in lines}
    assert sorted((d["local"], d["address"]) for d in opened) == sorted((e["local"], e["address"]) for e in ends if e not in lines)
    assert both | {(e["local"], e["address"]) for e in by_tcp} <= set(tracked)
    assert len(tracked) - len(opened) - len(by_tcp) in (0, 1)  # and the one that nobody took, as long as it is remembered
    # Bytes: to the last one.
    assert not [e for e in ends if "unsent" in e.get("tcp", {})]
    said = sum(e["tcp"]["sent"] + e["tcp"].get("resent", 0) for e in ends if "tcp" in e)
    assert said > 370000
    assert p.content() == said
    assert p.packets("other") == 0
    # Questions: each datagram, those that were sent again among them; each socket one that was tracked.
    by_udp = [e for e in lines if e["dns"]["transport"] == "udp"]
    assert p.messages() == (sum(e["dns"]["questions"] for e in by_udp), sum(e["udp"]["sent"] for e in by_udp))
    assert {(e["local"], e["address"]) for e in by_udp} == set(p.tracked("udp"))
    assert sum(e["dns"]["questions"] for e in by_tcp) == sum(tcp for _, tcp in p.names.asked)
    # And what goes out beside the gateway is one connection and five bytes more: the counters see everything.
    with p.host.inside(), socket.create_connection((SERVICE, PLAIN)) as s:
        s.sendall(b"hello")
        s.shutdown(socket.SHUT_WR)
        s.recv(1)
    assert (p.packets("begun"), p.content()) == (len(dials) + len(by_tcp) + 1, said + 5)
