"""
Jobs that are longer than their tokens: a clone and an install, throttled, behind `exeat token renew` and exeat-relay, without one
request that fails. LIFETIMES="SECONDS LIFE" makes it longer (make lifetimes: three minutes, tokens of thirty seconds).
"""
import base64
import hashlib
import json
import os
import signal
import subprocess
import threading
import time

import pytest

from gateway import EXEAT, PATIENCE, Gateway, clean_environment, exeat, wait_until
from origin import Origin
from relay import Relay
from store import MISSING, answer, packed

SECONDS, LIFE = (int(w) for w in os.environ.get("LIFETIMES", "20 5").split())
PIECES = 8  # packs of the repository, one after the other, each its share of the time; packages, side by side, each nearly all of it
HOST = "registry.test"
SERVICE = """
  all:
    hosts: [registry.test]
    addresses: ["127.0.0.1:{port}"]
    ca-file: {ca}
    allow: ["GET,HEAD /**"]
    scope: all:read
    audit: "waived: test"
"""


def slowly(whole, seconds):
    """In pieces, the first at once."""
    step = max(1, len(whole) // 20)
    for at in range(0, len(whole), step):
        yield whole[at:at + step]
        time.sleep(seconds * step / len(whole))


class Slow:
    """Packs and packages at a crawl, the rest at once."""

    def __init__(self):
        self.files = {}
        self.share = 0.9  # of the time, for a package
        self.raw = {}  # whole answers by path, in pieces

    def script(self, request):
        if request.target in self.raw:
            return self.raw[request.target]()
        body = self.files.get(request.target.split("?")[0])
        if body is None:
            return MISSING
        whole = answer("application/octet-stream", body)
        if request.target.endswith(".tgz"):
            return slowly(whole, SECONDS * self.share)
        return slowly(whole, SECONDS / PIECES) if request.target.endswith(".pack") else whole


@pytest.fixture(scope="module")
def slow(pki):
    s = Slow()
    s.origin = Origin(pki[1], pki[2], script=s.script)
    yield s
    s.origin.close()


@pytest.fixture(scope="module")
def gateway(tmp_path_factory, pki, slow):
    g = Gateway(tmp_path_factory.mktemp("lifetimes") / "state", "")
    g.write(SERVICE.format(port=slow.origin.port, ca=pki[0]))
    g.config.write_text(g.config.read_text().replace("max-lifetime: 1h", f"max-lifetime: {LIFE}s"))
    g.start()
    yield g
    assert g.stop() == 0, g.output().decode()


@pytest.fixture
def carried(tmp_path, gateway):
    """A file kept fresh, and a relay that reads it."""
    file = tmp_path / "token.jwt"
    renew = subprocess.Popen([EXEAT, "-c", gateway.config, "token", "renew", "--sandbox", "sb-long", "--scope", "all:read", "--output", file],
                             env=clean_environment())
    wait_until(file.exists, "a token")
    with Relay(tmp_path, f"127.0.0.1:{gateway.port}", "--token-file", file) as relay:
        yield relay
    renew.send_signal(signal.SIGTERM)
    assert renew.wait(PATIENCE) == 0


def make_repository(home, slow):
    """Of several packs, which a client of plain files fetches one after the other."""
    git = ("git", "-c", "user.name=x", "-c", "user.email=x@y.test", "-c", "init.defaultBranch=main")

    def run(*words):
        subprocess.run(words, cwd=home, check=True, capture_output=True, env=clean_environment(HOME=str(home), GIT_CONFIG_GLOBAL="/dev/null"))

    run(*git, "init", "-q", "--bare", "bare.git")
    run(*git, "-C", "bare.git", "config", "receive.unpackLimit", "1")
    run(*git, "init", "-q", "work")
    for n in range(PIECES):
        (home / "work" / f"f{n}").write_bytes(os.urandom(40000))
        run(*git, "-C", "work", "add", f"f{n}")
        run(*git, "-C", "work", "commit", "-q", "-m", f"{n}")
        run(*git, "-C", "work", "push", "-q", "../bare.git", "HEAD:main")
    run(*git, "-C", "bare.git", "update-server-info")
    for file in (home / "bare.git").rglob("*"):
        if file.is_file():
            slow.files["/bare.git/" + str(file.relative_to(home / "bare.git"))] = file.read_bytes()


def make_packages(home, slow):
    packages = {"": {"dependencies": {f"p{n}": "1.0.0" for n in range(PIECES)}}}
    for n in range(PIECES):
        body = packed({"package.json": json.dumps({"name": f"p{n}", "version": "1.0.0"}), "x.txt": os.urandom(20000).hex()}, "package/")
        slow.files[f"/p{n}/-/p{n}-1.0.0.tgz"] = body
        integrity = "sha512-" + base64.b64encode(hashlib.sha512(body).digest()).decode()
        packages[f"node_modules/p{n}"] = {"version": "1.0.0", "resolved": f"https://{HOST}/p{n}/-/p{n}-1.0.0.tgz", "integrity": integrity}
    (home / "package.json").write_text(json.dumps({"name": "x", "version": "1.0.0", **packages[""]}))
    (home / "package-lock.json").write_text(json.dumps({"name": "x", "version": "1.0.0", "lockfileVersion": 3, "packages": packages}))


def start(home, gateway, relay, client, *words, **more):
    lines = exeat("env", "--client", client, "--relay", relay.at, config=gateway.config).stdout
    env = clean_environment(HOME=str(home), GIT_CONFIG_GLOBAL="/dev/null", **more)
    return subprocess.Popen(["/bin/sh", "-c", 'eval "$0"; exec "$@"', lines, *words], env=env, cwd=home, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def test_a_clone_and_an_install_longer_than_tokens(tmp_path, gateway, slow, carried):
    make_repository(tmp_path, slow)
    make_packages(tmp_path, slow)
    began = time.monotonic()
    git = start(tmp_path, gateway, carried, "git", "git", "-c", "http.maxRequests=1", "clone", "-q", f"https://{HOST}/bare.git", "clone")
    npm = start(tmp_path, gateway, carried, "npm", "npm", "ci", npm_config_registry=f"https://{HOST}/",
                npm_config_audit="false", npm_config_fund="false", npm_config_fetch_retries="0")
    said = {}
    readers = [threading.Thread(target=lambda n=n, p=p: said.update({n: p.communicate(timeout=SECONDS + 3 * PATIENCE)[0]}))
               for n, p in (("git", git), ("npm", npm))]
    for r in readers:
        r.start()
    for r in readers:
        r.join()
    assert (git.returncode, npm.returncode) == (0, 0), (said, [r for r in gateway.records(kind="decision", action="deny")])
    assert len(list((tmp_path / "clone").glob("f*"))) == PIECES and len(list((tmp_path / "node_modules").iterdir())) >= PIECES
    assert time.monotonic() - began > 3 * LIFE  # or it has shown nothing

    assert gateway.records(kind="decision", action="deny", sandbox="sb-long") == []
    assert gateway.records(outcome="cut", sandbox="sb-long") == []
    used = {r["token"]["jti"] for r in gateway.records(kind="decision", action="allow", sandbox="sb-long")}
    assert len(used) >= 3, used


def test_an_install_on_one_connection_longer_than_tokens(tmp_path, gateway, slow, carried):
    """
    npm that has one connection puts the next request on it in the moment an answer ends. It must know by then that the tunnel ends
    with the answer: the answer's head has said so.
    """
    make_packages(tmp_path, slow)
    slow.share = 0.5 / PIECES  # one after the other
    npm = start(tmp_path, gateway, carried, "npm", "npm", "ci", npm_config_registry=f"https://{HOST}/", npm_config_maxsockets="1",
                npm_config_audit="false", npm_config_fund="false", npm_config_fetch_retries="0")
    said = npm.communicate(timeout=SECONDS + 3 * PATIENCE)[0]
    assert npm.returncode == 0, said
    assert len(list((tmp_path / "node_modules").iterdir())) >= PIECES


@pytest.fixture
def longer_tokens(gateway):
    gateway.config.write_text(gateway.config.read_text().replace(f"max-lifetime: {LIFE}s", "max-lifetime: 1h"))
    exeat("reload", config=gateway.config)


def in_pieces(*pieces):
    """The next when the one before has been read."""
    for piece in pieces:
        yield piece
        time.sleep(0.3)


HEAD = b"HTTP/1.1 200 OK\r\n"
FIXED, CHUNKED = HEAD + b"Content-Length: 2\r\n\r\n", HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize("name,lifetime,pieces,says", [
    ("all of it there", "50s", (FIXED + b"ok",), None),
    ("all of it there, in chunks", "50s", (CHUNKED + b"2\r\nok\r\n0\r\n\r\n",), None),
    ("nothing to come", "50s", (HEAD + b"Content-Length: 0\r\n\r\n",), None),
    ("some of it to come", "50s", (FIXED + b"o", b"k"), "close"),
    ("all of it to come", "50s", (FIXED, b"ok"), "close"),
    ("chunks to come", "50s", (CHUNKED + b"2\r\nok\r\n", b"0\r\n\r\n"), "close"),
    ("some of it to come, long before the end", "10m", (FIXED + b"o", b"k"), None),
    ("chunks to come, long before the end", "10m", (CHUNKED + b"2\r\nok\r\n", b"0\r\n\r\n"), None),
])
def test_an_answer_that_may_outlast_the_token_is_the_last_of_its_tunnel(gateway, slow, longer_tokens, name, lifetime, pieces, says):
    slow.raw["/pieces"] = lambda: in_pieces(*pieces)
    wire = gateway.tunnel(HOST, gateway.token("all:read", lifetime=lifetime, sandbox="sb-pieces"))
    wire.send(f"GET /pieces HTTP/1.1\r\nHost: {HOST}\r\n\r\n")
    assert wire.response().field("connection") == says
    if says:
        assert wire.is_closed()
    wire.close()


def test_a_tunnel_is_left_before_its_token_ends(gateway, slow, longer_tokens):
    """The answer says so, in the last tenth of the token's life: the next request is not late, it is elsewhere."""
    slow.files["/x"] = b"x"
    ends = time.time() + 20
    wire = gateway.tunnel(HOST, gateway.token("all:read", lifetime="20s", sandbox="sb-last"))
    said = []
    while "close" not in said:
        wire.send(f"GET /x HTTP/1.1\r\nHost: {HOST}\r\n\r\n")
        r = wire.response()
        assert r.status == 200
        said.append(r.field("connection") or "")
        time.sleep(0.1)
    assert ends - 4 < time.time() < ends + 1 and len(said) > 10
    assert wire.is_closed()
