"""Mixed traffic from many clients at once, each request with a path of its own, and the comparison of what the origins received with the journal."""
import json
import re
import socket
import ssl
import threading
import time
import urllib.error
import urllib.request

from gateway import PATIENCE, Closed, wait_until
from origin import ok

BIG = 200_000  # bytes of a download


def request(path, token, method="GET", host="registry.test", close=True, body=None):
    """A plain request through the proxy, as text; the body is sent by its length."""
    end = "Connection: close\r\n" if close else ""
    length = f"Content-Length: {len(body)}\r\n" if body is not None else ""
    return (f"{method} http://{host}{path} HTTP/1.1\r\nHost: {host}\r\n{end}{length}"
            f"Proxy-Authorization: Bearer {token}\r\n\r\n{body or ''}")


def ask(gateway, path, token):
    wire = gateway.connect()
    try:
        wire.send(request(path, token))
        return wire.response()
    finally:
        wire.close()


# ---- what the gateway says of itself


def fetch(gateway, path, method="GET"):
    question = urllib.request.Request(f"http://127.0.0.1:{gateway.publish}{path}", method=method)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(question, timeout=PATIENCE) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as e:
        return e.code, e.read().decode()


def readiness(gateway):
    """Status and what is missing, as one text; None while nobody answers."""
    try:
        status, body = fetch(gateway, "/readyz")
    except OSError:
        return None
    return status, "; ".join(json.loads(body).get("missing", []))


def ready(gateway):
    def asked():
        status, body = fetch(gateway, "/readyz")
        return (status, json.loads(body)) if status == 200 else None

    return wait_until(asked, "/readyz to be 200")


def metric(gateway, name):
    lines = [line for line in fetch(gateway, "/metrics")[1].splitlines() if line.startswith(name)]
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines)


# ---- the journal beside the origins


class Allowed:
    """
    The paths that the journal allows so far. Reads only what is new, remembers what was there once, and finds the segments in
    whichever of the directories they are.
    """

    def __init__(self, *directories):
        self.directories, self.paths, self.offsets = directories, set(), {}
        self.lock = threading.Lock()

    def read(self):
        for segment in sorted(s for d in self.directories for s in d.glob("*.ndjson")):
            have = self.offsets.get(segment.name, 0)
            try:
                with open(segment, "rb") as f:
                    f.seek(have)
                    data = f.read()
            except OSError:
                continue
            whole = data[:data.rfind(b"\n") + 1]
            self.offsets[segment.name] = have + len(whole)
            for line in whole.splitlines():
                if b'"kind":"decision"' in line and b'"action":"allow"' in line:
                    found = re.search(rb'"path":"([^"]*)"', line)
                    self.paths.add(found.group(1).decode() if found else "")

    def has(self, path):
        with self.lock:
            if path not in self.paths:
                self.read()
            return path in self.paths

    def catch_up(self):
        with self.lock:
            self.read()


class Watch:
    """
    The origins' script while it is on: answers by the path, and holds each request against the journal at the moment it
    arrives. unrecorded: what came although no record allowed it.
    """

    def __init__(self, gateway, origins):
        self.allowed = Allowed(gateway.directory / "journal", gateway.directory / "kept")
        self.origins, self.unrecorded, self.seen = origins, [], []
        for o in origins:
            o.script = self.answer

    def answer(self, r):
        path = r.target.split("?")[0]
        self.seen.append(path)
        if not self.allowed.has(path):
            self.unrecorded.append(path)
        return content(path)

    def stop(self):
        for o in self.origins:
            o.script = ok


def content(path):
    if "/big" not in path:
        return ok(None)
    body = big(path)
    if path.endswith("-chunked"):
        pieces = [body[i:i + 30_000] for i in range(0, len(body), 30_000)]
        return (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" +
                b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in pieces) + b"0\r\n\r\n")
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body


def big(path):
    mark = path.encode() + b"|"
    return mark * (BIG // len(mark))


# ---- clients


class Client:
    """
    Requests one after another until told to stop; kinds alternate. outcomes: (path, status or None for a cut, reason,
    seconds). An answer of 200 whose body is not what the origin said is a failure of its own: status "false end".
    """

    KINDS = ["close", "keep", "tunnel", "big", "upload", "big-chunked", "pipelined", "tunnel-big"]

    def __init__(self, gateway, name, token):
        self.gateway, self.name, self.token = gateway, name, token
        self.outcomes, self.running, self.wire = [], True, None
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        n = 0
        while self.running:
            kind = self.KINDS[n % len(self.KINDS)]
            path = f"/{'up' if kind == 'upload' else 'pkg'}/{self.name}-{n}"
            path += {"big": "/big", "big-chunked": "/big-chunked", "tunnel-big": "/big"}.get(kind, "")
            before = time.monotonic()
            for outcome in self.guarded(kind, path):
                self.outcomes.append((*outcome, time.monotonic() - before))
            n += 1

    def guarded(self, kind, path):
        try:
            return self.once(kind, path)
        except AssertionError as e:  # a refused CONNECT
            line = str(e).split()
            return [(path, int(line[2]), line[4] if len(line) > 4 else "")]
        except socket.timeout:
            return [(path, "hang", None)]
        except (Closed, OSError, ssl.SSLError, IndexError, ValueError):
            self.drop()
            return [(path, None, "closed")]

    def once(self, kind, path):
        if kind == "keep":
            return [self.kept(path)]
        if kind == "pipelined":
            return self.pipelined(path)
        tunnel = kind.startswith("tunnel")
        wire = self.gateway.tunnel("registry.test", self.token) if tunnel else self.gateway.connect()
        try:
            if tunnel:
                wire.send(f"GET {path} HTTP/1.1\r\nHost: registry.test\r\n\r\n")
            elif kind == "upload":
                wire.send(request(path, self.token, "POST", "upload.test", body="x" * 100_000))
            else:
                wire.send(request(path, self.token))
            return [self.judge(path, wire.response())]
        finally:
            wire.close()

    def kept(self, path):
        """Over one connection as long as it lasts; an end between requests is no failure of a request."""
        for fresh in (False, True):
            if fresh or not self.wire:
                self.drop()
                self.wire = self.gateway.connect()
            try:
                self.wire.send(request(path, self.token, close=False))
                answer = self.wire.response()
            except (Closed, OSError):
                if fresh or not self.wire or self.wire.buffer:
                    raise
                continue
            if answer.field("Connection") == "close":
                self.drop()
            return self.judge(path, answer)
        raise AssertionError("unreachable")

    def pipelined(self, path):
        wire, paths = self.gateway.connect(), [f"{path}-{i}" for i in range(3)]
        outcomes = []
        try:
            wire.send("".join(request(p, self.token, close=False) for p in paths))
            for p in paths:
                outcomes.append(self.judge(p, wire.response()))
        except (Closed, OSError, IndexError, ValueError):
            outcomes += [(p, None, "closed") for p in paths[len(outcomes):]]
        finally:
            wire.close()
        return outcomes

    def judge(self, path, answer):
        whole = big(path) if "/big" in path else b"ok"
        status = "false end" if answer.status == 200 and answer.body != whole else answer.status
        return path, status, answer.reason

    def drop(self):
        if self.wire:
            self.wire.close()
        self.wire = None


class Load:
    """Several clients, each a sandbox of its own."""

    def __init__(self, gateway, scope, clients=4, name="load"):
        self.clients = [Client(gateway, f"{name}{i}", gateway.token(scope, sandbox=f"sb-{name}-{i}"))
                        for i in range(clients)]

    def outcomes(self):
        return [o for c in self.clients for o in list(c.outcomes)]

    def good(self):
        return [sum(1 for o in list(c.outcomes) if o[1] == 200) for c in self.clients]

    def wait_for_good(self, n):
        """n more for each client."""
        want = [g + n for g in self.good()]
        wait_until(lambda: all(g >= w for g, w in zip(self.good(), want)), f"{n} more requests of each client to pass")

    def wait_for(self, reason):
        have = len(self.outcomes())
        wait_until(lambda: any(o[2] == reason for o in self.outcomes()[have:]), f"an answer {reason}")

    def stop(self):
        for c in self.clients:
            c.running = False
        for c in self.clients:
            c.thread.join(PATIENCE)
            assert not c.thread.is_alive(), "a client hangs"
            c.drop()
