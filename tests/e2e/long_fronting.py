"""
Registries fronted without a proxy, with what takes long: verdaccio (make programs), and docker's engine by both kinds of listener (make clients). Both
registries know who asks, so that only the gateway's own credential opens them.
"""
import ctypes
import json
import urllib.error
import urllib.request

import pytest

from engine import Engine
from fronted import SERVICE, WAYS, Sandbox, page
from gateway import EXEAT
from long_clients import Verdaccio
from origin import make_pki
from registries import HOSTS, NPM, OCI, WORDS, Images, Registries
from relay import Relay
from steered import site
from test_env import passed
from test_presets import GOT

CREDENTIALS = "gate:the-registrys-own"
OWN = "own.registry.test"  # a registry that takes what docker itself logs in with


def htpasswd(path):
    libcrypt = ctypes.PyDLL("libcrypt.so.1")
    libcrypt.crypt.restype = ctypes.c_char_p
    user, password = CREDENTIALS.split(":")
    path.write_text(f"{user}:{libcrypt.crypt(password.encode(), b'$2y$04$' + b'abcdefghijklmnopqrstuu').decode()}\n")
    return {"htpasswd": {"realm": "here", "path": str(path)}}


def secret(top, name, text):
    path = top / name
    path.touch(0o600)
    path.write_text(text)
    return path


def service(top, ca, name, preset, host, port, credential, how):
    return SERVICE.format(name=name, preset=preset, host=host, port=443, there=port, ca=ca, secret=secret(top, name, credential)).replace(
        "as: bearer", f"as: {how}")


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    top = tmp_path_factory.mktemp("fronting")
    pki = make_pki(top, [*HOSTS, OWN])
    with site("lf") as s:
        with s.host.inside():
            s.registries = Registries(top, pki)
            (top / "closed").mkdir()
            (top / "npm").mkdir()
            s.closed = Images(top / "closed", pki[1], pki[2], htpasswd(top / "htpasswd"), CREDENTIALS)
            s.verdaccio = Verdaccio(top / "npm", pki, closed=True)
        own = (f"\n  own: {{preset: oci-pull, hosts: [{OWN}], addresses: ['127.0.0.1:{s.closed.port}'], ca-file: {pki[0]}, scope: 'all:read', "
               "client-credentials: allow, audit: 'waived: test'}\n")
        s.start(top / "state", service(top, pki[0], "oci-pull", "oci-pull", OCI, s.closed.port, CREDENTIALS, "basic") +
                service(top, pki[0], "npm-read", "npm-read", NPM, s.verdaccio.port, s.verdaccio.token, "bearer") + own,
                listen='  proxy: {address: "10.66.0.1:3128"}\n')
        yield s
        s.verdaccio.stop()
        s.closed.stop()
        s.registries.stop()


# ---- npm with verdaccio


@pytest.mark.parametrize("way", WAYS)
def test_npm_installs_from_verdaccio(here, tmp_path, way):
    sandbox, before = Sandbox(here, way, tmp_path), here.verdaccio.said()
    passed(sandbox.type(page("npm")))
    assert (tmp_path / GOT["npm"]).exists() and sandbox.run("node", "-p", "require('exeat-hello')").stdout == WORDS
    seen = here.verdaccio.said().removeprefix(before)
    assert b"gate" in seen and sandbox.token.encode() not in seen
    assert {r["arrival"] for r in here.gateway.records(kind="decision", action="allow", sandbox=sandbox.name)} == {way}


def test_verdaccio_itself_gives_nothing_to_who_shows_nothing(here):
    with here.host.inside(), pytest.raises(urllib.error.HTTPError) as refused:
        here.verdaccio.ask("/exeat-hello")
    assert refused.value.code == 401


def test_npm_publishes_nothing_to_verdaccio(here, tmp_path):
    sandbox = Sandbox(here, "redirect", tmp_path)
    (tmp_path / "package.json").write_text(json.dumps({"name": "loot", "version": "1.0.0"}))
    assert "method_not_allowed" in sandbox.type(page("npm").replace("npm install some-package", "npm publish")).stderr


# ---- docker


@pytest.fixture(params=WAYS)
def sandbox(here, tmp_path, request):
    return Sandbox(here, request.param, tmp_path)


@pytest.fixture
def engine(here, sandbox):
    """A fresh one when names lead there: it remembers /etc/hosts for some seconds."""
    e = Engine(here.client)
    yield e
    e.stop()


def test_docker_logs_in_and_pulls(here, sandbox, engine, tmp_path):
    block = page("docker").replace("oci.example", OCI).replace("/etc/exeat/root.pem", str(here.gateway.root))
    logs_in, pulls = block.split("docker pull")
    assert "no basic auth credentials" in engine.type(f"{logs_in.split('docker login')[0]}docker pull{pulls}", tmp_path).stderr
    passed(engine.type(block, tmp_path))
    assert OCI in json.loads((tmp_path / ".docker/config.json").read_text())["auths"]
    passed(answer := engine.type(f"docker image inspect --format '{{{{.RepoDigests}}}}' {OCI}/team/hello:1", tmp_path))
    assert here.closed.digest in answer.stdout
    push = engine.type(f"docker tag {OCI}/team/hello:1 {OCI}/team/loot:1; docker push {OCI}/team/loot:1", tmp_path)
    assert push.returncode and here.gateway.wait_for(kind="decision", reason="method_not_allowed", sandbox=sandbox.name)
    assert {r["arrival"] for r in here.gateway.records(kind="decision", action="allow", sandbox=sandbox.name)} == {sandbox.way}


def test_docker_by_the_relay_needs_no_login_and_keeps_its_own(here, tmp_path):
    """The explicit listener: the engine has the lines of `env --client docker`, and Authorization is between it and the registry."""
    sandbox = Sandbox(here, "direct", tmp_path)
    with Relay(tmp_path, "10.66.0.1:3128", "--token-file", tmp_path / "vm1.jwt", namespace=here.client) as relay:
        passed(said := sandbox.run(EXEAT, "env", "--client", "docker", "--relay", relay.at, "--format", "json"))
        e = Engine(here.client, **json.loads(said.stdout)["variables"])
        try:
            passed(e.type(f"docker pull {OCI}/team/hello:1; docker image rm {OCI}/team/hello:1", tmp_path))
            log_in = f"printf %s {CREDENTIALS.split(':')[1]} | docker login --username gate --password-stdin "
            assert e.type(f"docker pull {OWN}/team/hello:1", tmp_path).returncode
            passed(e.type(f"{log_in}{OWN}; docker pull {OWN}/team/hello:1", tmp_path))
        finally:
            e.stop()
    arrived = here.gateway.records(kind="decision", action="allow", sandbox=sandbox.name)
    assert {r["listener"] for r in arrived} == {"proxy"}
