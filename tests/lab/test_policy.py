"""
The tighter policy against real programs in weak settings: the audit prints it, a gateway has it, the audit through that gateway finds covered what the
policy says that it covers and nothing else, and the real client still installs. Through a gateway without it the same probes do their work.
"""
import base64
import concurrent.futures
import contextlib
import gzip
import json
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

import installs
import manifest
from door import EXEAT, PORT, WAIVED, Door
from fixture import Fixture
from scenario import debian_archive
from upstream import Upstream
from world import SERVICE

HOST = "packages.test"
ARCHIVE = f"http://{HOST}:3142/fxrep/debian"
BAD = {"fail", "weak", "open", "inconclusive"}
LAX = """\
services:
  {name}:
    hosts: ["{host}"]
    plain-ports: [{port}]
    addresses: ["{service}:{port}"]
    scope: "{name}:read"
    allow: ["GET,HEAD,POST,PUT,PATCH,DELETE,OPTIONS,PROPFIND,MKCOL,PROPPATCH,LOCK,COPY,MOVE /**"]
    client-credentials: allow
    body: 2m
"""


# ---- each program: what its owner has put in before, and its client


@contextlib.contextmanager
def upstream(f, pages={}):
    """The lab's, while a client is at work; else the audit plays it."""
    made = Upstream(f.world)
    made.pages.update(pages)
    try:
        yield
    finally:
        made.close()


class Apt:
    key, clients = ("acng", "debian-default"), "    clients: { preset: debian-read, preset-path: /fxrep }\n"

    def prepare(self, f, home):
        self.home, self.pages = home, debian_archive(home)

    def install(self, f, proxy):
        with upstream(f, self.pages):
            for verb in (["update"], ["install", "-y", "--download-only", "exeat-hello"]):
                installs.must(installs.apt(f.world, self.home / "apt", ARCHIVE, proxy, *verb))
        got = self.home / "apt/cache/archives/exeat-hello_1.0_all.deb"
        assert got.read_bytes() == self.pages["/debian/pool/main/exeat-hello_1.0_all.deb"]

    def abuse(self, f, proxy):
        return installs.run(f.world, "curl", "-q", "-sS", "-i", "-x", proxy, f"http://{HOST}:3142/unlisted.test/pool/x_1.0_all.deb")[1]


class Npm:
    key, clients = ("verdaccio", "6.1.6-default"), ""

    def prepare(self, f, home):
        self.home, self.login = home, base64.b64encode(":".join(f.basic).encode()).decode()
        with upstream(f):
            installs.npm_publish(f.world, home / "publish", f.port, self.login)

    def install(self, f, proxy):
        top = self.home / "install"
        with upstream(f):
            installs.must(installs.npm(f.world, top, f"{HOST}:{f.port}", proxy, "install", "exeat-hello"))
        assert (top / "node_modules/exeat-hello/index.js").exists()

    def abuse(self, f, proxy):
        return installs.npm(f.world, self.home / "publish", f"{HOST}:{f.port}", proxy, "publish", "--tag", "loot", login=self.login)[1]


class Skopeo:
    key, clients = ("registry", "no-auth"), ""

    def prepare(self, f, home):
        self.home = home
        installs.skopeo_push(f.world, home, f.port, f.image)

    def install(self, f, proxy):
        got = self.home / "got"
        installs.must(installs.skopeo(f.world, self.home, proxy, "copy", "--src-tls-verify=false", f"docker://{HOST}:{f.port}/team/hello:1", f"dir:{got}"))
        layer = json.loads((got / "manifest.json").read_text())["layers"][0]["digest"]  # skopeo has packed it
        assert gzip.decompress((got / layer.split(":")[1]).read_bytes()) == f.image.layer

    def abuse(self, f, proxy):
        return installs.skopeo(f.world, self.home, proxy, "copy", "--dest-tls-verify=false", f"dir:{self.home / 'image'}", f"docker://{HOST}:{f.port}/team/loot:1")[1]


CLIENTS = [Apt, Npm, Skopeo]
NAMES = [c.__name__.lower() for c in CLIENTS]


# ---- what is done with it


class Case:
    """Audited, closed by the printed policy and by none, audited through both; the client has been at work."""

    def __init__(self, client, directory):
        self.client = client()
        with Fixture(*self.client.key, directory / "fixture", leave=True) as self.f:
            (directory / "client").mkdir()
            self.client.prepare(self.f, directory / "client")
            self.manifest, self.name = manifest.write(self.f, host=HOST, clients=self.client.clients)
            self.policy = directory / "policy.yaml"
            self.found = self.audit("--policy", self.policy)
            weak = [c["check"] for c in self.found["checks"] if c["verdict"] in BAD]
            with Door(self.f.world, self.policy.read_text() + WAIVED) as door:
                self.check = subprocess.run([EXEAT, "-c", door.conf, "config", "check"], capture_output=True, text=True)
                self.closed = self.through(door, weak)
            with Door(self.f.world, self.policy.read_text() + WAIVED, "second") as door:  # the credential of the first is the audit's
                proxy = f"http://jwt:{door.token(self.name + ':read')}@{SERVICE}:{PORT}"
                self.client.install(self.f, proxy)
                self.abuse = self.client.abuse(self.f, proxy)
                self.journal = door.run("log", "verify")
            with Door(self.f.world, LAX.format(name=self.name, host=HOST, port=self.f.port, service=SERVICE) + WAIVED, "lax") as door:
                self.open = self.through(door, self.found["policy"]["covers"])

    def audit(self, *words):
        command = self.f.world.enter(EXEAT, "audit", self.name, "-m", self.manifest, "--format", "json", "--active", "--tenant2", "--beacon",
                                     "--rate", "500", "--requests", "1500", *words)
        done = subprocess.run(command, pass_fds=[self.f.world.namespace], capture_output=True, text=True, timeout=240)
        assert done.returncode in (0, 1) and not done.stderr, f"status {done.returncode}\n{done.stderr}\n{done.stdout[-2000:]}"
        return json.loads(done.stdout)

    def through(self, door, checks):
        leave = self.f.world.directory / "leave.jwt"
        leave.touch(0o600)
        leave.write_text(door.token(self.name + ":read"))
        report = self.audit("--through", f"{SERVICE}:{PORT}", "--leave-token", leave, *(w for c in checks for w in ("--check", c)))
        return {c["check"]: c for c in report["checks"]}


@pytest.fixture(scope="module")
def cases():
    directory = Path(tempfile.mkdtemp(prefix="exeat-policy-"))
    directory.chmod(0o755)
    with concurrent.futures.ThreadPoolExecutor(len(CLIENTS)) as pool:
        yield {c.__name__.lower(): pool.submit(Case, c, directory / c.__name__) for c in CLIENTS}
    shutil.rmtree(directory)


@pytest.fixture(params=NAMES)
def case(request, cases):
    return cases[request.param].result()


def told(check):
    return f"{check['check']}: {check['verdict']}: {check['note']}; through: {check.get('through')}"


def test_it_is_configuration(case):
    assert case.check.returncode == 0 and "error" not in case.check.stderr, case.check.stderr
    assert case.policy.read_text() == case.found["policy"]["yaml"]


def test_every_weakness_is_in_it(case):
    """Covered by a line, by the gateway itself, or said to be the service's alone: with the reason."""
    policy = case.found["policy"]
    weak = [c["check"] for c in case.found["checks"] if c["verdict"] in BAD]
    assert sorted(policy["covers"] + policy["by-itself"] + [o["check"] for o in policy["only-service"]]) == sorted(weak)
    assert all(o["why"] for o in policy["only-service"]) and len(policy["covers"]) >= 3, policy


def test_what_it_says_is_covered_and_nothing_else(case):
    policy = case.found["policy"]
    for c in policy["covers"] + policy["by-itself"]:
        assert case.closed[c]["covered"], told(case.closed[c])
    for o in policy["only-service"]:
        assert not case.closed[o["check"]]["covered"], told(case.closed[o["check"]])


def test_the_real_client_installs_and_nothing_more(case):
    """install() raised nothing; what only an abuser asks for is the gateway's refusal."""
    assert "403" in case.abuse or "not_allowed" in case.abuse, case.abuse
    assert "verified" in case.journal.lower() or case.journal


def test_without_it_the_probes_do_their_work(case):
    for c in case.found["policy"]["covers"]:
        assert not case.open[c]["covered"], told(case.open[c])
