"""Who asks during a soak: honest clients of every kind, and beside them the hostile, the slow and those who hang up."""
import json
import random
import socket
import time

import load
from frames import BINARY, CLOSE, Speaker, handshake
from gateway import Wire, connect_head

OK = {200}
ELSEWHERE = "127.0.0.2"  # tokens that do not verify count against their source


class Mixed(load.Client):
    """
    Like load.Client with more kinds, at a pace. surprises: outcomes that nothing explains: neither the kind of request nor a
    fault of these moments.
    """

    KINDS = ["close", "keep", "tunnel", "big", "upload", "big-chunked", "pipelined", "tunnel-big", "keep", "resets", "halves",
             "unlisted", "denied", "canary", "junk", "aborted", "slow", "malformed", "expect", "socket", "socket-leak", "socket-left"]
    # What each may hear. 502 and cuts of "resets" and "halves" are the origin's doing.
    MEANT = {"resets": {502}, "halves": {None}, "unlisted": {403}, "denied": {403}, "canary": {403}, "junk": {407, 429},
             "malformed": {400}, "aborted": {"gone"}, "socket": {101}, "socket-leak": {403}, "socket-left": {"gone"}}
    # A close frame of the gateway's, as the status that an answer would have had.
    CLOSED = {1001: 503, 1008: 403, 1011: 502}
    # A role was just ended: what else may be heard then.
    IN_A_FAULT = {None, 502, 503, 504}

    def __init__(self, gateway, name, token, canary, pace, trouble):
        self.canary, self.pace, self.trouble = canary, pace, trouble
        self.surprises, self.counts, self.longest = [], {}, 0
        self.random = random.Random(name)
        super().__init__(gateway, name, token)

    def run(self):
        n = 0
        while self.running:
            kind = self.KINDS[n % len(self.KINDS)]
            service = "up" if kind in ("upload", "canary", "expect") else "pkg"
            path = f"/{service}/{self.name}-{n}"
            path += {"big": "/big", "big-chunked": "/big-chunked", "tunnel-big": "/big", "aborted": "/big",
                     "resets": "/resets", "halves": "/halves"}.get(kind, "")
            began = time.monotonic()
            for outcome in self.guarded(kind, path):
                self.note(kind, outcome, began)
            n += 1
            time.sleep(self.pace * (0.5 + self.random.random()))

    def note(self, kind, outcome, began):
        path, status, reason = outcome
        ended = time.monotonic()
        self.longest = max(self.longest, ended - began)
        what = {200: "passed", None: "cut", "gone": "hung up"}.get(status, f"{status} {reason or ''}".strip())
        self.counts[what] = self.counts.get(what, 0) + 1
        if status not in self.MEANT.get(kind, OK) and not (status in self.IN_A_FAULT and self.trouble.was_in(began, ended)):
            self.surprises.append((kind, path, status, reason))
        if status == 200:
            self.outcomes.append((path, status, reason, ended - began))

    def once(self, kind, path):
        special = getattr(self, "do_" + kind.replace("-", "_"), None)
        return [special(path)] if special else super().once("close" if kind in ("resets", "halves") else kind, path)

    def plain(self, path, text):
        wire = self.gateway.connect()
        try:
            wire.send(text)
            return self.judge(path, wire.response())
        finally:
            wire.close()

    def do_unlisted(self, path):
        return self.plain(path, connect_head("elsewhere.test", self.token))

    def do_denied(self, path):
        return self.plain(path, load.request(path.replace("/pkg/", "/private/"), self.token))

    def do_canary(self, path):
        return self.plain(path, load.request(path, self.token, "POST", "upload.test", body="x" * 3000 + self.canary))

    def do_malformed(self, path):
        return self.plain(path, f"GET http://registry.test{path} HTTP/1.1\r\nHost: registry.test\r\nHost: other.test\r\n"
                                f"Proxy-Authorization: Bearer {self.token}\r\n\r\n")

    def do_junk(self, path):
        s = socket.create_connection(("127.0.0.1", self.gateway.port), 60, source_address=(ELSEWHERE, 0))
        wire = Wire(s)
        try:
            wire.send(load.request(path, self.token[:-8] + "AAAAAAAA"))
            return self.judge(path, wire.response())
        finally:
            wire.close()

    def do_aborted(self, path):
        """Takes a little of a large answer, or none, and resets."""
        wire = self.gateway.connect()
        wire.send(load.request(path, self.token))
        if self.random.random() < 0.5:
            wire.more()
        wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        wire.close()
        return path, "gone", None

    def do_slow(self, path):
        """A head in small pieces."""
        text = load.request(path, self.token)
        wire = self.gateway.connect()
        try:
            for i in range(0, len(text), len(text) // 8 + 1):
                wire.send(text[i:i + len(text) // 8 + 1])
                time.sleep(0.05)
            return self.judge(path, wire.response())
        finally:
            wire.close()

    def do_expect(self, path):
        wire = self.gateway.connect()
        try:
            wire.send(load.request(path, self.token, "POST", "upload.test", body="x" * 100).replace(
                "Content-Length", "Expect: 100-continue\r\nContent-Length"))
            answer = wire.response()
            return self.judge(path, wire.response() if answer.status == 100 else answer)
        finally:
            wire.close()


    def socket(self, path, talk):
        """A WebSocket to the service that says everything back."""
        wire = self.gateway.connect()
        try:
            wire.send(handshake(target=f"http://other.test/ws{path}", host="other.test", fields=f"Proxy-Authorization: Bearer {self.token}\r\n"))
            answer = wire.response()
            return talk(path, Speaker(wire, True)) if answer.status == 101 else self.judge(path, answer)
        finally:
            wire.close()

    def say(self, here, payload):
        """None, or the code of the close frame that came in place of an answer."""
        here.say(BINARY, payload)
        heard = b""
        while len(heard) < len(payload):
            fin, opcode, piece = here.hear()
            if opcode == CLOSE:
                return self.CLOSED[int.from_bytes(piece[:2], "big")]
            heard += piece
        return None if heard == payload else "false end"

    def do_socket(self, path):
        def talk(path, here):
            for n in (1, 300, 70000):
                if status := self.say(here, self.random.randbytes(n)):
                    return path, status, None
            here.close()
            code, _ = here.closed()
            return path, self.CLOSED.get(code, 101), "switched and closed"

        return self.socket(path, talk)

    def do_socket_leak(self, path):
        return self.socket(path, lambda path, here: (path, self.say(here, self.canary.encode()), "in a close frame"))

    def do_socket_left(self, path):
        def talk(path, here):
            here.say(BINARY, self.random.randbytes(50000), fin=False)
            return path, "gone", None

        return self.socket(path, talk)


class Watch(load.Watch):
    """Origins that sometimes reset, or say half of what they promise."""

    def answer(self, r):
        answer = super().answer(r)
        if r.target.endswith("/resets"):
            return None
        if r.target.endswith("/halves"):
            return [b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\nConnection: close\r\n\r\n" + b"x" * 2000]
        return answer


def canary_of(gateway):
    return json.loads((gateway.directory / "canaries.json").read_text())["canaries"][0]["value"]
