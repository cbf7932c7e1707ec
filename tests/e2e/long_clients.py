"""
The clients that `make check` does without (make clients): Node 24 and verdaccio, a real npm registry, from $CLIENTS; Gradle, which takes long. Docker's engine: long_fronting.py.
"""
import json
import os
import shutil
import ssl
import subprocess
import urllib.request
from pathlib import Path

import pytest

from gateway import PATIENCE, Gateway, clean_environment, free_port, wait_until
from origin import make_pki
from registries import HOSTS, MAVEN, NPM, OCI, WORDS
from relay import Relay
from test_env import passed
from test_presets import SERVICE, Sandbox, gateway, registries, sandbox  # noqa: F401

PROGRAMS = Path(os.environ["CLIENTS"]) / "node_modules/.bin"


# ---- Node 24


@pytest.fixture
def node(sandbox):  # noqa: F811
    def run(program):
        return sandbox.run("node24", PROGRAMS / "node", "-e", program)

    assert sandbox.bare(PROGRAMS / "node", "-p", "process.versions.node").stdout.startswith("24.")
    return run


def test_node_24_goes_by_the_variables(sandbox, node):  # noqa: F811
    answer = node(f"fetch('https://{NPM}/exeat-hello').then(r => r.json()).then(d => console.log(d.name))")
    passed(answer)
    assert (answer.stdout, sandbox.seen()) == ("exeat-hello\n", ["GET /exeat-hello"])


def test_node_24_shows_the_reason(sandbox, node):  # noqa: F811
    answer = node(f"fetch('https://{NPM}/loot', {{method: 'PUT'}}).then(r => {{ console.log(r.status, r.statusText); process.exit(!r.ok) }})")
    sandbox.is_refused(answer, "method_not_allowed", f"PUT https://{NPM}/loot")


# ---- docker: the client of registries in its command line, where that is installed (Debian's would start an engine)


if shutil.which("docker"):
    def test_docker_reads_a_manifest(sandbox, relay):  # noqa: F811
        passed(answer := sandbox.run("docker", "docker", "manifest", "inspect", f"{OCI}/team/hello:1", ask=("--relay", relay.at)))
        assert sandbox.registries.images.layer in answer.stdout and sandbox.refused() == []

    def test_docker_is_refused_a_push(sandbox, relay):  # noqa: F811
        passed(sandbox.run("docker", "docker", "manifest", "create", f"{OCI}/team/loot:1", f"{OCI}/team/hello:1", ask=("--relay", relay.at)))
        answer = sandbox.run("docker", "docker", "manifest", "push", f"{OCI}/team/loot:1", ask=("--relay", relay.at))
        sandbox.is_refused(answer, "method_not_allowed", f"https://{OCI}/v2/team/loot/", shows=False)


# ---- Gradle


def gradle(sandbox, relay, text, *words):  # noqa: F811
    (sandbox.home / "settings.gradle").write_text("rootProject.name = 'loot'\n")
    (sandbox.home / "build.gradle").write_text(text)
    return sandbox.run("gradle", "gradle", "--no-daemon", "-q", "-g", "home", *words, ask=("--relay", relay.at))


@pytest.fixture
def relay(sandbox, gateway):  # noqa: F811
    (sandbox.home / "token.jwt").write_text(sandbox.token)
    with Relay(sandbox.home, f"127.0.0.1:{gateway.port}", "--token-file", sandbox.home / "token.jwt") as r:
        yield r


def test_gradle_resolves(sandbox, relay):  # noqa: F811
    passed(gradle(sandbox, relay, f"""
repositories {{ maven {{ url "https://{MAVEN}/maven2" }} }}
configurations {{ got }}
dependencies {{ got "test.exeat:hello:1" }}
task fetch(type: Copy) {{ from configurations.got; into "got" }}
""", "fetch"))
    assert (sandbox.home / "got/hello-1.jar").exists() and sandbox.refused() == []


def test_gradle_is_refused_an_upload(sandbox, relay):  # noqa: F811
    """By Ivy's layout: what Debian's Gradle publishes to Maven's with has no HTTP of its own."""
    answer = gradle(sandbox, relay, f"""
apply plugin: "ivy-publish"
publishing {{
    publications {{ loot(IvyPublication) {{ organisation "test.loot"; module "loot"; revision "1"; artifact file("build.gradle") }} }}
    repositories {{ ivy {{ url "https://{MAVEN}/maven2" }} }}
}}
""", "publish")
    sandbox.is_refused(answer, "method_not_allowed", f"PUT https://{MAVEN}/maven2/test.loot/loot/1/")


# ---- npm with verdaccio


class Verdaccio:
    """closed: for its users alone; then it has one, with this token."""

    def __init__(self, directory, pki, closed=False):
        self.port, self.directory = free_port(), directory
        config = {"storage": str(directory / "storage"), "listen": f"https://127.0.0.1:{self.port}", "uplinks": {},
                  "https": {"key": str(pki[2]), "cert": str(pki[1])}, "log": {"type": "stdout", "level": "http"},
                  "packages": {"**": dict.fromkeys(("access", "publish", "unpublish"), "$authenticated" if closed else "$all")},
                  "auth": {"htpasswd": {"file": str(directory / "htpasswd")}}}
        (directory / "config.yaml").write_text(json.dumps(config))
        self.log = open(directory / "log", "wb")
        self.environment = clean_environment(HOME=str(directory), npm_config_globalconfig="/dev/null")
        self.process = subprocess.Popen([PROGRAMS / "verdaccio", "-c", directory / "config.yaml"], stdout=self.log, stderr=self.log,
                                        env=self.environment)
        wait_until(lambda: b"http address" in self.said() or self.process.poll() is not None, "verdaccio")
        self.ca = pki[0]
        self.token = self.log_in() if closed else "x"
        self.publish("@corp/words", "2.0.0", f"module.exports = {json.dumps(WORDS.strip())}", {})
        self.publish("exeat-hello", "1.0.0", "module.exports = require('@corp/words')", {"@corp/words": "^2.0.0"})

    def said(self):
        return (self.directory / "log").read_bytes()

    def ask(self, path, method="GET", body=None):
        context = ssl.create_default_context(cafile=str(self.ca))
        context.check_hostname = False
        request = urllib.request.Request(f"https://127.0.0.1:{self.port}{path}", body, {"Content-Type": "application/json"}, method=method)
        with urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)).open(
                request, timeout=PATIENCE) as answer:
            return json.load(answer)

    def log_in(self):
        body = json.dumps({"name": "gate", "password": "its-own-password"}).encode()
        return self.ask("/-/user/org.couchdb.user:gate", "PUT", body)["token"]

    def publish(self, name, version, program, needs):
        top = self.directory / name
        top.mkdir(parents=True)
        (top / "package.json").write_text(json.dumps({"name": name, "version": version, "dependencies": needs}))
        (top / "index.js").write_text(program)
        registry = f"//127.0.0.1:{self.port}/"
        subprocess.run(["npm", "publish", f"--registry=https:{registry}", f"--{registry}:_authToken={self.token}", "--strict-ssl=false", "--access=public"],
                       cwd=top, env=self.environment, check=True, capture_output=True, timeout=PATIENCE)

    def stop(self):
        self.process.terminate()
        self.process.wait(PATIENCE)
        self.log.close()


@pytest.fixture(scope="module")
def verdaccio(tmp_path_factory):
    directory = tmp_path_factory.mktemp("verdaccio")
    pki = make_pki(directory, HOSTS)
    v = Verdaccio(directory, pki)
    yield v
    v.stop()


@pytest.fixture
def before_verdaccio(tmp_path, verdaccio, registries):  # noqa: F811
    g = Gateway(tmp_path / "state", SERVICE.format(name="npm-read", preset="npm-read", host=NPM, port=verdaccio.port, ca=verdaccio.ca))
    g.start()
    yield Sandbox(tmp_path, g, registries)
    assert g.stop() == 0, g.output().decode()


def test_npm_installs_from_verdaccio(before_verdaccio):
    passed(before_verdaccio.run("npm", "npm", "install", "--no-audit", "exeat-hello"))
    assert before_verdaccio.bare("node", "-p", "require('exeat-hello')").stdout == WORDS
    assert before_verdaccio.refused() == []


@pytest.mark.parametrize("words,reason,request_", [
    (("publish",), "method_not_allowed", f"PUT https://{NPM}/loot"),
    (("search", "hello"), "denied_by_rule", f"GET https://{NPM}/-/v1/search"),
    (("unpublish", "--force", "exeat-hello"), "query_not_allowed", f"GET https://{NPM}/exeat-hello"),
    (("dist-tag", "add", "exeat-hello@1.0.0", "loot"), "denied_by_rule", f"GET https://{NPM}/-/package/exeat-hello/dist-tags"),
])
def test_npm_is_refused_before_verdaccio(before_verdaccio, verdaccio, words, reason, request_):
    home, before = before_verdaccio.home, verdaccio.said()
    (home / "package.json").write_text(json.dumps({"name": "loot", "version": "1.0.0"}))
    (home / ".npmrc").write_text(f"//{NPM}/:_authToken=x\n")
    before_verdaccio.is_refused(before_verdaccio.run("npm", "npm", *words), reason, request_)
    assert b"PUT" not in verdaccio.said().removeprefix(before) and b"DELETE" not in verdaccio.said().removeprefix(before)
