"""
A sandbox that knows of no proxy, in a network namespace of its own: a gateway in another is its only way out, and takes what it
sends by REDIRECT (to 203.0.113.0/24 and 2001:db8:1::/64), by TPROXY (to 198.51.100.0/24 and 2001:db8:2::/64), or because a name
leads to the gateway itself (10.66.0.1).
"""
import socket
from contextlib import contextmanager

from gateway import EXEAT, PATIENCE, Gateway, Wire, basic, free_port
from netns import Network

WAYS = {"redirect": "203.0.113.10", "tproxy": "198.51.100.10", "direct": "10.66.0.1",
        "redirect6": "2001:db8:1::10", "tproxy6": "2001:db8:2::10"}
MEANT = {way: f"[{a}]" if ":" in a else a for way, a in WAYS.items()}

RULES = """
table inet steer {{
  chain nat {{
    type nat hook prerouting priority dstnat
    iif {dev} ip daddr 203.0.113.0/24 tcp dport {{ 1-65535 }} redirect to :3129
    iif {dev} ip6 daddr 2001:db8:1::/64 tcp dport {{ 1-65535 }} redirect to :3129
  }}
  chain mangle {{
    type filter hook prerouting priority mangle
    iif {dev} ip daddr 198.51.100.0/24 meta l4proto tcp meta mark set 1 tproxy ip to 10.66.0.1:3129
    iif {dev} ip6 daddr 2001:db8:2::/64 meta l4proto tcp meta mark set 1 tproxy ip6 to [fd66::1]:3129
  }}
}}
"""

LISTEN = """  steered: {{address: "10.66.0.1:3129", mode: transparent{extra}}}
  steered6: {{address: "[fd66::1]:3129", mode: transparent{extra}}}
  direct: {{address: "10.66.0.1:443", mode: transparent{extra}}}
  direct-plain: {{address: "10.66.0.1:80", mode: transparent{extra}}}
"""


def join(gateway, client):
    dev, _ = client.net.link(gateway, ["10.66.0.1/24", "fd66::1/64"], client, ["10.66.0.2/24", "fd66::2/64"])
    client.ip("route", "add", "default", "via", "10.66.0.1")
    client.ip("-6", "route", "add", "default", "via", "fd66::1")
    for family in ("-4", "-6"):
        gateway.ip(family, "rule", "add", "fwmark", "1", "lookup", "100")
        gateway.ip(family, "route", "add", "local", "default", "dev", "lo", "table", "100")
    gateway.run("nft", "-f", "-", input=RULES.format(dev=dev), check=True)


class Site:
    """Both hosts, and a gateway that runs in one of them. Make the services it lists inside(site.host)."""

    def __init__(self, net):
        self.net, self.host, self.client = net, net.host("gw"), net.host("sb")
        self.client.net = net
        join(self.host, self.client)
        self.gateway = None

    def start(self, directory, services, extra="", listen="", workers=1, command=None, **more):
        g = self.gateway = Gateway(directory, services, workers=workers, **more)
        text = g.config.read_text()
        g.config.write_text(text.replace("listen:\n", "listen:\n" + LISTEN.format(extra=extra) + listen, 1))
        g.start(command or self.host.command([EXEAT, "-c", g.config, "serve"]))
        return g

    def names(self, way, *hosts):
        """These lead that way, for whatever runs in the sandbox."""
        self.client.resolve("".join(f"{WAYS[way]} {h}\n" for h in hosts))

    def connect(self, way, port=443):
        with self.client.inside():
            s = socket.create_connection((WAYS[way], port), PATIENCE)
        return Wire(s)

    def tls(self, way, host="registry.test", port=443):
        return self.connect(way, port).start_tls(host, self.gateway.root)

    def curl(self, *words):
        return self.client.run("curl", "-sS", "--cacert", self.gateway.root, "-w", "\n%{http_code}", *words)


@contextmanager
def site(label="st"):
    with Network(label) as net:
        s = Site(net)
        try:
            yield s
        finally:
            if s.gateway and s.gateway.process:
                assert s.gateway.stop() == 0, s.gateway.output().decode()[-4000:]


def ask(host, path="/pkg/x", token=None, method="GET", more="", version="1.1"):
    """A request as of a client that knows of no proxy."""
    field = f"Authorization: {basic(token)}\r\n" if token else ""
    named = f"Host: {host}\r\n" if host else ""
    return f"{method} {path} HTTP/{version}\r\n{named}{field}{more}\r\n"
