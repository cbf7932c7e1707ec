"""Services whose answers send clients on to somewhere, asked through a gateway; and what its journal has of that."""
import itertools

import pytest

from gateway import Closed, wait_until
from origin import Origin

SERVICE = """
  {name}:
    hosts: [{name}.test]
    {ports}
    addresses: ["127.0.0.1:{port}"]
    allow: ["GET,HEAD /**", "POST,PUT /**"]
    scope: web
    audit: "waived: test"
    {more}
"""


def service(name, port, more="", ports="plain-ports: [80]"):
    return SERVICE.format(name=name, port=port, more=more, ports=ports)


counter = itertools.count()


@pytest.fixture(scope="module")
def origin():
    o = Origin()
    yield o
    o.close()


def answer(body=b"", kind="text/html", status="200 OK", fields=""):
    body = body if isinstance(body, bytes) else body.encode()
    kind = f"Content-Type: {kind}\r\n" if kind else ""
    return f"HTTP/1.1 {status}\r\n{kind}Content-Length: {len(body)}\r\n{fields}\r\n".encode() + body


def chunked(pieces, kind="application/json"):
    yield f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    for piece in pieces:
        yield b"%x\r\n%s\r\n" % (len(piece), piece)
    yield b"0\r\n\r\n"


class Answer:
    def __init__(self, answer, raw, request):
        self.answer, self.raw, self.request = answer, raw, request
        self.status, self.reason = (answer.status, answer.reason) if answer else (None, None)


def ask(gateway, token, origin, host, raw, method="GET", body=b"", fields=""):
    """One request that is answered with raw; what the client has of it. Its answer is None when that was cut."""
    origin.clear()
    origin.script = lambda request: raw
    path = f"/{next(counter)}"
    length = f"Content-Length: {len(body)}\r\n" if body else ""
    if host in ("registry.test", "upload.test"):
        wire = gateway.tunnel(host, token)
        wire.send(f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n{length}{fields}\r\n".encode() + body)
    else:
        wire = gateway.connect()
        wire.send(f"{method} http://{host}{path} HTTP/1.1\r\nHost: {host}\r\nProxy-Authorization: Bearer {token}\r\n"
                  f"{length}{fields}\r\n".encode() + body)
    seen = b""
    try:
        wire.more()
        while b"\r\n\r\n" not in wire.buffer:
            wire.more()
        result = wire.response(method)
        seen = result.body
    except Closed:
        result, seen = None, wire.buffer
    wire.close()
    return Answer(result, seen, origin.requests[0])


def edges(gateway, service, **want):
    found = [r["edge"] for r in gateway.records(kind="edge", service=service)]
    return [e for e in found if all(e.get(k) == v for k, v in want.items())]


def wait_for_edge(gateway, service, **want):
    return wait_until(lambda: edges(gateway, service, **want), f"an edge of {service}: {want}")[-1]


def result_of(gateway, path):
    [decision] = [r for r in gateway.records(kind="decision") if r.get("http", {}).get("path") == path]
    return wait_until(lambda: gateway.records(kind="result", id=decision["id"]), "the result")[0]
