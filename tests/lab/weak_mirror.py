"""What the weak service fetches: from its upstream for whoever asks, keeping nothing; and, where it is weak, from anywhere."""
import re
import socket
import threading
from dataclasses import dataclass
from urllib.parse import urlsplit

from upstream import reply
from world import NAMES

UPSTREAM = "upstream.test"
PASSED_ON = ("authorization", "cookie", "accept", "accept-language", "user-agent")


@dataclass
class Fetched:
    status: int
    head: bytes
    body: bytes

    def field(self, name):
        for line in self.head.split(b"\r\n")[1:]:
            k, _, v = line.partition(b":")
            if k.lower() == name.encode():
                return v.strip().decode("latin-1")
        return None

    def whole(self, **more):
        """It as our own answer: its status, its fields that a client needs, its body."""
        kept = {n: v for n in ("Content-Type", "Cache-Control", "Set-Cookie", "Vary", "WWW-Authenticate") if (v := self.field(n.lower()))}
        return reply(f"{self.status} From-Upstream", self.body, **kept, **more)


def number_of(host):
    """The address that an odd spelling means (decimal, hexadecimal, mapped), or None."""
    try:
        return socket.inet_ntoa(socket.inet_aton(host))
    except OSError:
        mapped = re.fullmatch(r"\[?::ffff:(\d+\.\d+\.\d+\.\d+)\]?", host)
        return mapped and mapped[1]


class Mirror:
    def __init__(self, world, is_weak, secret):
        self.world, self.is_weak, self.secret = world, is_weak, secret
        self.kept, self.seen, self.lock = {}, set(), threading.Lock()

    # ---- fetching

    def fetch(self, host, port, target, fields=None, method="GET", body=b""):
        """One request; a place that cannot be reached is a 502 of its own."""
        head = f"{method} {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n"
        head += "".join(f"{k}: {v}\r\n" for k, v in (fields or {}).items())
        try:
            with self.world.connect(number_of(host) or host, port, 5) as wire:
                wire.sendall(head.encode("latin-1") + (f"Content-Length: {len(body)}\r\n" if body else "").encode() + b"\r\n" + body)
                data = b""
                while more := wire.recv(65536):
                    data += more
            head, _, body = data.partition(b"\r\n\r\n")
            return Fetched(int(head.split(b" ")[1]), head, body)
        except (OSError, ValueError, IndexError):
            return Fetched(502, b"HTTP/1.1 502 Unreachable", b"")

    def follow(self, url, **more):
        at = urlsplit(url)
        if not at.hostname:
            return Fetched(502, b"HTTP/1.1 502 Unreachable", b"")
        return self.fetch(at.hostname, at.port or 80, at._replace(scheme="", netloc="").geturl() or "/", **more)

    def conduit(self, r, method, target, hosts):
        """The answer of somewhere else, when the request asks for that and this service does it; None otherwise."""
        at = urlsplit(target) if not target.startswith("/") else urlsplit("")
        if at.hostname and at.netloc not in hosts:
            if self.is_weak("RL-1") and at.scheme == "http" and not number_of(at.hostname) and at.hostname != "internal.test":
                return self.follow(target, method=method, body=r.body).whole()
            if self.is_weak("RL-8") and (number_of(at.hostname) or at.hostname == "internal.test"):
                return self.follow(target, method=method, body=r.body).whole()
            if self.is_weak("RL-10") and at.scheme in ("ftp", "gopher"):
                return self.fetch(at.hostname, 80, at.path or "/").whole()
            return None
        if self.is_weak("RL-3") and target.startswith("/") and (host := r.field("host")) not in hosts:
            return self.follow(f"http://{host}{target}").whole()
        found = re.match(r"/(?:proxy/|fetch/)?(?:https?:/+)?([a-z0-9.-]+\.test)(?::(\d+))?(/.*)", target, re.I)
        if self.is_weak("RL-4") and found:
            return self.fetch(found[1], int(found[2] or 80), found[3]).whole()
        return None

    def tunnel(self, connection, target):
        host, _, port = target.rpartition(":")
        try:
            far = self.world.connect(host, int(port), 5)
        except (OSError, ValueError):
            connection.sendall(reply("502 Bad Gateway"))
            return
        connection.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
        back = threading.Thread(target=pump, args=(far, connection), daemon=True)
        back.start()
        pump(connection, far)
        back.join()
        far.close()

    def read_file(self, path):
        try:
            with open(path, "rb") as file:
                return reply("200 OK", file.read(4096))
        except OSError:
            return reply("404 Not Found")

    # ---- the mirror

    def answer(self, r, path):
        """GET /mirror/X is upstream's /X, for everybody as upstream gives it to him."""
        target = r.target[r.target.index("/mirror/") + 7:]
        first = target in self.seen
        self.seen.add(target)
        more = {"X_Cache": "HIT" if first else "MISS"} if self.is_weak("XT-4") else {}
        if kept := self.kept.get(self.key(target)):
            return kept.whole(**more)
        got = self.from_upstream(r, target)
        if self.may_keep(r, target, got):
            with self.lock:
                self.kept[self.key(target)] = got
        if self.is_weak("CR-4"):
            more["X_Upstream_Authorization"] = "Bearer " + self.secret
        return got.whole(**more)

    def from_upstream(self, r, target):
        fields = {n: v for n in PASSED_ON if (v := r.field(n))}
        if self.is_weak("CI-3") and (host := r.field("x-forwarded-host")):
            fields["X-Forwarded-Host"] = host
        if self.is_weak("CR-4"):
            fields["authorization"] = "Bearer " + self.secret
        got = self.fetch(UPSTREAM, 80, target, fields, r.line.split(" ")[0], r.body)
        return self.onward(r, got) or got

    def onward(self, r, got):
        """What is fetched from where upstream's answer points to; a foreign place is refused."""
        if got.status in (301, 302, 303, 307, 308):
            if self.is_weak("FU-6") or self.is_weak("RD-8") and r.body:
                return self.follow(got.field("location"), method=r.line.split(" ")[0], body=r.body)
            return Fetched(502, b"HTTP/1.1 502 Handoff", b"upstream named another place\n")
        challenge = re.search(r'realm="(http[^"]*)"', got.field("www-authenticate") or "")
        if challenge and self.is_weak("FU-4"):
            self.follow(challenge[1], fields={"Authorization": "Bearer " + self.secret})
        link = re.search(r"<(http[^>]*)>", got.field("link") or "")
        if link and self.is_weak("FU-5"):
            self.follow(link[1], fields={"Authorization": "Bearer " + self.secret})
        return None

    # ---- a cache, where it is weak

    def key(self, target):
        return target.partition("?")[0] if self.is_weak("CI-4") else target

    def may_keep(self, r, target, got):
        control = (got.field("cache-control") or "").lower()
        is_private = bool(r.field("authorization") or r.field("cookie"))
        has_state = bool(got.field("set-cookie")) or "no-store" in control or "private" in control or bool(got.field("vary"))
        if self.is_weak("CI-1"):
            return got.status == 200 and bool(r.field("authorization"))
        if self.is_weak("CI-2"):
            return got.status == 200 and bool(got.field("set-cookie"))
        if self.is_weak("CI-5"):
            return got.status == 200 and ("no-store" in control or bool(got.field("vary"))) and not is_private
        if self.is_weak("CI-6"):
            return got.status == 200 and target.partition("?")[0].endswith((".css", ".js", ".png"))
        if self.is_weak("CI-7"):
            return got.status in (403, 404)
        if self.is_weak("CI-3") or self.is_weak("CI-4"):
            return got.status == 200 and not is_private and not has_state
        return False


def pump(source, sink):
    try:
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass
