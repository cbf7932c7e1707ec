"""WebSockets for tests: a service that takes them, a gateway before it, and one that is open, with both of its ends."""
import json
import os

import pytest

from conftest import BOTH
from frames import Service, Speaker, handshake
from gateway import Gateway, wait_until

SANITIZED = os.environ.get("SANITIZED") == "1"
SERVICE = """
  {name}-{kind}:
    hosts: [{name}.test]
    {ports}: [{port}]
    addresses: ["127.0.0.1:{origin}"]
    allow: ["GET /ws/**", "POST /ws/**"]
    scope: registry:read
    audit: "waived: test"
    {more}
"""


def listed(plain, tls, ca, more="websocket: allow"):
    out = SERVICE.format(name="registry", kind="plain", ports="plain-ports", port=80, origin=plain, more=more)
    out += SERVICE.format(name="registry", kind="tls", ports="ports", port=443, origin=tls, more=more) + f"    ca-file: {ca}\n"
    return out + SERVICE.format(name="upload", kind="plain", ports="plain-ports", port=80, origin=plain, more="")


@pytest.fixture(scope="module")
def service():
    s = Service()
    yield s
    s.close()


@pytest.fixture(scope="module")
def service_tls(pki):
    s = Service(pki[1], pki[2])
    yield s
    s.close()


@pytest.fixture(scope="module")
def gateway(tmp_path_factory, pki, service, service_tls):
    g = Gateway(tmp_path_factory.mktemp("ws") / "state", listed(service.port, service_tls.port, pki[0]),
                extra="limits: {websocket-message: 1m, websocket-idle: 1h}").start()
    yield g
    status = g.stop()
    print(g.output().decode()[-4000:])
    assert status == 0


@pytest.fixture
def token(gateway):
    return gateway.token(BOTH)


@pytest.fixture(scope="module")
def canary(gateway):
    return json.loads((gateway.directory / "canaries.json").read_text())["canaries"][0]["value"]


def ask(gateway, token, host="registry.test", path="/ws/a", fields="", request=None):
    """A handshake as a proxy's client sends it for ws://; the wire."""
    wire = gateway.connect()
    credential = f"Proxy-Authorization: Bearer {token}\r\n"
    wire.send(request or handshake(target=f"http://{host}{path}", host=host, fields=credential + fields))
    return wire


class Socket:
    """An open WebSocket through the gateway, and its end at the service."""

    def __init__(self, gateway, token, service, path="/ws/a", fields=""):
        self.wire = ask(gateway, token, path=path, fields=fields)
        self.answer = self.wire.response()
        assert self.answer.status == 101, self.answer.line
        self.client, self.service = Speaker(self.wire, True), service.next()
        self.gateway = gateway
        self.id = gateway.wait_for(kind="decision", action="allow")[-1]["id"]

    def result(self):
        return wait_until(lambda: [r for r in self.gateway.records(kind="result") if r["id"] == self.id], "its result")[0]


@pytest.fixture
def open_socket(gateway, token, service):
    opened = []

    def begin(**more):
        opened.append(Socket(gateway, more.pop("token", token), more.pop("service", service), **more))
        return opened[-1]

    yield begin
    for s in opened:
        s.wire.close()
        s.service.wire.close()


@pytest.fixture
def own(tmp_path, pki, service, service_tls):
    """A gateway of the test's own, for other limits."""
    started = []

    def start(extra="", more="websocket: allow", before=None, **options):
        g = Gateway(tmp_path / f"own{len(started)}", listed(service.port, service_tls.port, pki[0], more), extra=extra, **options)
        if before:
            before(g)
        started.append(g.start())
        return g

    yield start
    for g in started:
        assert g.stop() == 0, g.output().decode()


def opened(gateway, service, **more):
    return Socket(gateway, gateway.token(BOTH, **more), service)
