"""WebSocket: by way of a bound listener and of exeat-relay, and with real implementations."""
import asyncio
import json
import os
import socket
import ssl
import subprocess
import threading
import time

import pytest
import websockets

from conftest import BOTH
from frames import TEXT, Speaker, handshake
from gateway import PATIENCE, Gateway, connect_head, exeat, free_port, wait_until
from relay import Relay
from sockets import gateway, listed, own, service, service_tls, token
from test_bound import keep, listen


# ---- by way of a bound listener and of exeat-relay


def test_on_a_bound_listener_by_the_relay(tmp_path, own, service):
    """The client carries nothing; the relay in the guest passes bytes on, after the switch too."""
    address, file = tmp_path / "vm1.sock", tmp_path / "vm1.jwt"

    def before(g):
        listen(g.config, f'vm1: {{address: "unix:{address}", sandbox: vm1, token-file: "{file}"}}')
        keep(file, g.token(BOTH, sandbox="vm1"))

    g = own(before=before)
    with Relay(tmp_path, f"unix:{address}") as relay:
        wire = relay.connect()
        wire.send(handshake(target="http://registry.test/ws/a"))
        assert wire.response().status == 101
        here, there = Speaker(wire, True), service.next()
        here.text("x" * 100000)
        assert there.message() == (TEXT, b"x" * 100000)
        there.text("answer")
        assert here.message() == (TEXT, b"answer")
        assert g.wait_for(kind="decision", action="allow")[-1]["sandbox"] == "vm1"
        exeat("token", "revoke", "--sandbox", "vm1", config=g.config)
        code, reason = here.closed()
        assert code == 1008 and reason.startswith("exeat token_revoked ")


@pytest.mark.parametrize("inside", ["plain", "tunnel"])
def test_on_a_bound_listener_it_outlives_a_token_but_not_the_last(tmp_path, own, service, inside):
    """A job of hours with tokens of minutes: the operator's file has the next one; without it the end comes."""
    address, file = tmp_path / "vm1.sock", tmp_path / "vm1.jwt"

    def before(g):
        listen(g.config, f'vm1: {{address: "unix:{address}", sandbox: vm1, token-file: "{file}"}}')
        keep(file, g.token(BOTH, sandbox="vm1", lifetime="6s"))

    g = own("limits: {overrun: 0s}", before=before)
    with Relay(tmp_path, f"unix:{address}") as relay:
        wire = relay.connect()
        if inside == "tunnel":
            wire.send(connect_head("registry.test", None, 80))
            assert wire.response("CONNECT").status == 200
        wire.send(handshake(target=None if inside == "tunnel" else "http://registry.test/ws/a"))
        assert wire.response().status == 101
        here, there = Speaker(wire, True), service.next()
        began = time.monotonic()
        for _ in range(3):
            time.sleep(2.5)
            keep(file, g.token(BOTH, sandbox="vm1", lifetime="6s"))
            here.text("tick")
            assert there.message() == (TEXT, b"tick")
        keep(file, g.token("upload:write", sandbox="vm1", lifetime="10m"))  # it would not open one
        code, reason = here.closed()
        assert code == 1008 and reason.startswith("exeat token_expired ") and time.monotonic() - began > 7
        assert there.closed() == (1001, "")
        wire.close()


def test_the_relay_s_token_opens_one(tmp_path, gateway, service):
    file = tmp_path / "token.jwt"
    file.write_text(gateway.token(BOTH, sandbox="sb-relayed"))
    file.chmod(0o600)
    with Relay(tmp_path, f"127.0.0.1:{gateway.port}", "--token-file", file) as relay:
        wire = relay.connect()
        wire.send(handshake(target="http://registry.test/ws/a"))
        assert wire.response().status == 101
        here, there = Speaker(wire, True), service.next()
        here.text("hello")
        assert there.message() == (TEXT, b"hello")
        assert b"proxy-authorization" not in service.heads[-1].lower()
        wire.close()


# ---- with real implementations


class Echo:
    """Debian's python3-websockets as a service: says everything back; a text that is a number, so many messages."""

    def __init__(self, pki):
        self.loop, self.ready, self.codes = asyncio.new_event_loop(), threading.Event(), []
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(pki[1], pki[2])
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()
        assert self.ready.wait(PATIENCE)

    def run(self):
        asyncio.set_event_loop(self.loop)
        self.loop.run_until_complete(self.start())
        self.loop.run_forever()

    async def start(self):
        options = {"max_size": None, "subprotocols": ["echo.v1"], "ping_interval": 0.2}
        self.tls = await websockets.serve(self.talk, "127.0.0.1", 0, ssl=self.context, **options)
        self.plain = await websockets.serve(self.talk, "127.0.0.1", 0, **options)
        self.ports = [s.sockets[0].getsockname()[1] for s in (self.plain, self.tls)]
        self.ready.set()

    async def talk(self, connection):
        async for message in connection:
            if isinstance(message, str) and message.isdigit():
                for i in range(int(message)):
                    await connection.send(f"message {i}")
            else:
                await connection.send(message)
        self.codes.append(connection.close_code)

    def close(self):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()


@pytest.fixture(scope="module")
def echo(pki):
    e = Echo(pki)
    yield e
    e.close()


NGINX = """
daemon off; user root; pid nginx.pid; error_log error.log warn; worker_processes 1;
events {{}}
http {{
    access_log off;
    client_body_temp_path b; proxy_temp_path p; fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;
    map $http_upgrade $connection_upgrade {{ default upgrade; '' close; }}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://127.0.0.1:{behind};
            proxy_http_version 1.1;
            proxy_set_header Upgrade $http_upgrade;
            proxy_set_header Connection $connection_upgrade;
            proxy_set_header Host $host;
        }}
    }}
}}
"""


@pytest.fixture(scope="module")
def real(tmp_path_factory, pki, echo):
    """Plain by way of nginx, TLS straight."""
    directory, port = tmp_path_factory.mktemp("nginx"), free_port()
    (directory / "nginx.conf").write_text(NGINX.format(port=port, behind=echo.ports[0]))
    nginx = subprocess.Popen(["nginx", "-p", directory, "-c", directory / "nginx.conf", "-e", directory / "error.log"], stderr=subprocess.DEVNULL)
    wait_until(lambda: socket.socket().connect_ex(("127.0.0.1", port)) == 0, "nginx")
    g = Gateway(tmp_path_factory.mktemp("real") / "state", listed(port, echo.ports[1], pki[0])).start()
    yield g
    assert g.stop() == 0, g.output().decode()
    nginx.terminate()
    nginx.wait(PATIENCE)


def tunnel_socket(gateway, token, port):
    wire = gateway.connect()
    wire.send(connect_head("registry.test", token, port))
    assert wire.response("CONNECT").status == 200
    return wire.socket


def connect(gateway, token, port, **more):
    """python3-websockets as the client, which offers permessage-deflate; through a tunnel made by hand."""
    more = {"compression": "deflate", "subprotocols": ["echo.v1"], "max_size": None, **more}
    if port == 443:
        more.update(ssl=ssl.create_default_context(cafile=str(gateway.root)), server_hostname="registry.test")
    scheme = "wss" if port == 443 else "ws"
    return websockets.connect(f"{scheme}://registry.test/ws/echo", sock=tunnel_socket(gateway, token, port), **more)


@pytest.mark.parametrize("port", [80, 443])
def test_a_real_client_and_a_real_service(real, echo, port):
    token = real.token(BOTH, sandbox=f"sb-real-{port}")
    payload = os.urandom(3 << 20)

    async def talk():
        async with connect(real, token, port, ping_interval=0.1) as c:
            assert c.subprotocol == "echo.v1" and c.extensions == []
            await c.send("hello")
            assert await c.recv() == "hello"
            await c.send(payload)
            assert await c.recv() == payload
            await c.send(piece for piece in ["in ", "three ", "frames"])
            assert await c.recv() == "in three frames"
            await c.send("2000")
            assert [await c.recv() for _ in range(2000)] == [f"message {i}" for i in range(2000)]
            await asyncio.sleep(0.5)  # pings of both sides
            await asyncio.wait_for(await c.ping(b"are you there"), PATIENCE)
        assert c.close_code == 1000

    asyncio.run(talk())
    result = real.wait_for(kind="result", sandbox=f"sb-real-{port}", outcome="complete")[-1]
    assert result["http"]["status"] == 101 and result["websocket"]["close"] == 1000
    wait_until(lambda: echo.codes and echo.codes[-1] == 1000, "the service's end")


def test_a_real_client_is_told_why(real, canary_of_real):
    async def talk():
        async with connect(real, real.token(BOTH), 443) as c:
            await c.send("hello")
            assert await c.recv() == "hello"
            await c.send("x" + canary_of_real)
            with pytest.raises(websockets.ConnectionClosedError):
                await c.recv()
            return c.close_code, c.close_reason

    code, reason = asyncio.run(talk())
    assert code == 1008 and reason.startswith("exeat canary_leak ")
    digits = reason.rsplit(" ", 1)[1]
    story = exeat("why", digits, config=real.config).stdout
    assert "canary_leak" in story and "It was a WebSocket: 2 frames came from the client, 1 from the service; it was closed with 1008." in story


@pytest.fixture
def canary_of_real(real):
    return json.loads((real.directory / "canaries.json").read_text())["canaries"][0]["value"]


def test_a_real_client_is_refused_with_a_status(real):
    async def talk():
        sock = tunnel_socket(real, real.token(BOTH), 80)
        with pytest.raises(websockets.InvalidStatusCode) as refused:
            async with websockets.connect("ws://registry.test/elsewhere", sock=sock):
                pass
        assert refused.value.status_code == 403

    asyncio.run(talk())
