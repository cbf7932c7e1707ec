"""
Real clients with no proxy settings, in a namespace whose only way out is the gateway: they install by REDIRECT, by TPROXY, and from
names that lead to the gateway. What they are configured with is the leave token, where they keep a registry's password; what the
registry sees is the gateway's own credential.
"""
import re
import subprocess

import pytest

from gateway import PATIENCE, TREE, clean_environment
from origin import make_pki
from registries import DEBIAN, GIT, HOSTS, NPM, OCI, PYPI, WORDS, Registries
from steered import site
from test_env import Apt, passed
from test_presets import GOT, pip  # noqa: F401

PRESETS = {NPM: "npm-read", PYPI: "pypi-read", DEBIAN: "debian-read", OCI: "oci-pull", GIT: "git-clone"}
SECRET = "the-registrys-own-secret"
SERVICE = """
  {name}:
    preset: {name}
    hosts: [{host}]
    addresses: ["127.0.0.1:{port}"]
    ca-file: {ca}
    scope: all:read
    credential: {{from: "file:{secret}", as: bearer}}
    shared-identity: accepted
    audit: "waived: test"
"""
WAYS = ["redirect", "tproxy", "direct"]


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    top = tmp_path_factory.mktemp("fronting")
    pki = make_pki(top, HOSTS)
    secret = top / "secret"
    secret.touch(0o600)
    secret.write_text(SECRET)
    with site("fr") as s:
        with s.host.inside():
            s.registries = Registries(top, pki)
        listed = "".join(SERVICE.format(name=preset, host=host, port=s.registries.port(host), ca=pki[0], secret=secret)
                         for host, preset in PRESETS.items())
        s.start(top / "state", listed)
        yield s
        s.registries.stop()


class Sandbox:
    """A home in the namespace; nothing in its environment names a proxy."""

    def __init__(self, here, way, home):
        self.here, self.home, self.registries = here, home, here.registries
        here.names(way, *PRESETS)
        here.registries.origin.clear()
        self.name = "sb-" + home.name[:40].replace("_", "-").strip("-")
        self.token = here.gateway.token("all:read", self.name)
        bundle = here.gateway.root
        self.environment = clean_environment(
            HOME=str(home), LANG="C.UTF-8", GIT_CONFIG_GLOBAL="/dev/null", GIT_SSL_CAINFO=str(bundle), PIP_CERT=str(bundle),
            SSL_CERT_FILE=str(bundle), NODE_EXTRA_CA_CERTS=str(here.gateway.root), PIP_NO_INPUT="1", PIP_NO_CACHE_DIR="1",
            PIP_RETRIES="0", PIP_DISABLE_PIP_VERSION_CHECK="1", npm_config_globalconfig=str(home / "none"), npm_config_fund="false",
            npm_config_audit="false", npm_config_fetch_retries="0", npm_config_registry=f"https://{NPM}/")
        assert not any("proxy" in k.lower() for k in self.environment)

    def run(self, *words, **more):
        return self.here.client.run(*words, env={**self.environment, **more}, cwd=self.home, patience=2 * PATIENCE, stdin=subprocess.DEVNULL)

    def seen(self):
        """What reached the registries: none of it with the token, all of it with the gateway's credential."""
        found = self.registries.origin.requests
        for r in found:
            assert r.field("authorization") == f"Bearer {SECRET}" and r.field("via").endswith("gw.test") and self.token not in str(r.head)
        return [f"{r.method} {r.target}" for r in found]


@pytest.fixture(params=WAYS)
def sandbox(here, tmp_path, request):
    s = Sandbox(here, request.param, tmp_path)
    s.way = request.param
    yield s
    allowed = here.gateway.records(kind="decision", action="allow", sandbox=s.name)
    assert allowed and {r["arrival"] for r in allowed} == {s.way}


def test_npm_installs(sandbox):
    (sandbox.home / ".npmrc").write_text(f"//{NPM}/:_authToken={sandbox.token}\n")
    passed(sandbox.run("npm", "install", "exeat-hello"))
    assert (sandbox.home / GOT["npm"]).exists() and "GET /exeat-hello" in sandbox.seen()


def test_pip_installs(sandbox, pip):  # noqa: F811
    passed(sandbox.run(*pip, "install", "-q", "--target", "lib", "--index-url", f"https://jwt:{sandbox.token}@{PYPI}/simple/", "exeat-hello"))
    assert (sandbox.home / GOT["pip"]).exists() and "GET /simple/exeat-hello/" in sandbox.seen()


def test_apt_installs(sandbox):
    apt = Apt(sandbox, f"https://{DEBIAN}/debian")
    (sandbox.home / "apt/etc/apt/auth.conf").write_text(f"machine {DEBIAN} login jwt password {sandbox.token}\n")
    ca = ("-o", f"Acquire::https::CaInfo={sandbox.environment['PIP_CERT']}")
    passed(sandbox.run(*apt.run("update", "-q", *ca)))
    passed(sandbox.run(*apt.run("download", "-q", "exeat-hello", *ca)))
    assert list(sandbox.home.glob("exeat-hello_*_all.deb")) and sandbox.seen()


def test_git_clones_after_the_challenge(sandbox):
    """git's own default: no credential before a 401 has asked for it."""
    (sandbox.home / ".netrc").write_text(f"machine {GIT} login jwt password {sandbox.token}\n")
    passed(sandbox.run("git", "clone", "-q", f"https://{GIT}/team/hello.git", "clone"))
    assert (sandbox.home / "clone/README").read_text() == WORDS and sandbox.seen()


def test_skopeo_logs_in_and_pulls(sandbox):
    (sandbox.home / "policy.json").write_text('{"default": [{"type": "insecureAcceptAnything"}]}')
    auth = f"--authfile={sandbox.home / 'auth.json'}"
    login = sandbox.here.client.run("skopeo", "login", auth, "--username", "jwt", "--password-stdin", OCI, env=sandbox.environment,
                                    cwd=sandbox.home, input=sandbox.token)
    passed(login)
    passed(sandbox.run("skopeo", "--policy", "policy.json", "copy", f"--src-authfile={sandbox.home / 'auth.json'}",
                       f"docker://{OCI}/team/hello:1", "dir:image"))
    assert (sandbox.home / "image" / sandbox.registries.images.layer.split(":")[1]).exists()


def test_curl_with_a_netrc(sandbox):
    (sandbox.home / ".netrc").write_text(f"machine {PYPI} login jwt password {sandbox.token}\n")
    r = passed(sandbox.run("curl", "-sS", "-n", "--fail-with-body", "--cacert", sandbox.here.gateway.root, f"https://{PYPI}/simple/exeat-hello/"))
    assert sandbox.seen() == ["GET /simple/exeat-hello/"], r


def test_what_no_service_lists_is_not_reached(here, tmp_path):
    """By name, by address, or in plain, and with a good token."""
    s = Sandbox(here, "redirect", tmp_path)
    before = here.registries.origin.connections
    for url, code in (("https://elsewhere.test/", 35), ("https://203.0.113.10/", 35), ("http://203.0.113.10/", 22)):
        r = s.run("curl", "-sS", "-f", "--cacert", here.gateway.root, "--resolve", "elsewhere.test:443:203.0.113.10", "-u", f"jwt:{s.token}", url)
        assert r.returncode == code, (url, r.returncode, r.stderr)
    assert here.registries.origin.connections == before
