"""Real clients, as `exeat env` sets them up: let out by a token, and stopped with a reason that they show themselves."""
import base64
import gzip
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import zlib

import pytest

from gateway import PATIENCE, TREE, Gateway, clean_environment, exeat, wait_until

sys.path.append(str(TREE / "demo"))
from registry import FILES, GIT, NPM, PYPI, REPOSITORY, TARBALL, WHEEL, Registry  # noqa: E402

PLAIN = "plain.registry.test"
SCOPES = "packages:read git:read files:use"
SERVICE = """
  {name}:
    {rules}
    hosts: [{host}]
    addresses: ["127.0.0.1:{port}"]
    {more}
    scope: {scope}
    audit: "waived: test"
"""


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    r = Registry(tmp_path_factory.mktemp("registry"))
    add_scoped_package(r)
    r.start()
    yield r
    r.stop()


@pytest.fixture(scope="module")
def gateway(tmp_path_factory, registry, origins):
    tls = {"port": registry.port, "more": f"ca-file: {registry.ca}"}
    rules = 'allow: ["GET /*", "POST /inbox/*"]'
    listed = "".join([
        SERVICE.format(name="pypi", host=PYPI, rules="preset: pypi-read", scope="packages:read", **tls),
        SERVICE.format(name="npm", host=NPM, rules="preset: npm-read", scope="packages:read", **tls),
        SERVICE.format(name="git", host=GIT, rules="preset: git-clone", scope="git:read", **tls),
        SERVICE.format(name="files", host=FILES, rules=rules, scope="files:use", **tls),
        SERVICE.format(name="plain", host=PLAIN, rules=rules, scope="files:use", port=origins[1].port,
                       more="plain-ports: [80]"),
    ])
    g = Gateway(tmp_path_factory.mktemp("clients") / "state", listed)
    g.start()
    yield g
    assert g.stop() == 0, g.output().decode()


def add_scoped_package(registry):
    """@corp/hello, whose metadata npm asks for as /@corp%2fhello."""
    manifest = {"name": "@corp/hello", "version": "2.0.0", "main": "index.js"}
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as t:
        for name, text in (("package.json", json.dumps(manifest)), ("index.js", "module.exports = 'scoped'\n")):
            entry = tarfile.TarInfo("package/" + name)
            entry.size, entry.mode = len(text), 0o644
            t.addfile(entry, io.BytesIO(text.encode()))
    tarball = registry.top / "npm/@corp/files/-/hello-2.0.0.tgz"
    tarball.parent.mkdir(parents=True)
    tarball.write_bytes(packed.getvalue())
    dist = {"tarball": f"https://{NPM}/@corp/files/-/hello-2.0.0.tgz",
            "integrity": "sha512-" + base64.b64encode(hashlib.sha512(packed.getvalue()).digest()).decode()}
    document = {"name": "@corp/hello", "dist-tags": {"latest": "2.0.0"},
                "versions": {"2.0.0": {**manifest, "dist": dist}}}
    (registry.top / "npm/@corp/hello").write_text(json.dumps(document))


class Sandbox:
    """A home of its own and an environment with nothing of this machine in it but what `exeat env` prints."""

    def __init__(self, home, gateway, registry, name):
        self.home, self.gateway, self.registry, self.name = home, gateway, registry, name
        self.environment = clean_environment(
            HOME=str(home), LANG="C.UTF-8", PIP_DISABLE_PIP_VERSION_CHECK="1", PIP_NO_INPUT="1", PIP_RETRIES="1",
            PIP_NO_CACHE_DIR="1", GIT_CONFIG_GLOBAL="/dev/null", npm_config_globalconfig=str(home / "npmrc"),
            npm_config_audit="false", npm_config_fund="false", npm_config_fetch_retries="0",
            npm_config_registry=f"https://{NPM}/", PIP_INDEX_URL=f"https://{PYPI}/simple/")
        self.token = None

    def run(self, client, *words, **more):
        """`eval "$(exeat env --client ...)"` in a shell, then the command."""
        ask = ["env", "--client", client]
        lines = exeat(*ask, *(["--with-token", "-"] if self.token else []), config=self.gateway.config,
                      stdin=self.token).stdout
        return self.bare("/bin/sh", "-c", 'eval "$0"; exec "$@"', lines, *words, **more)

    def bare(self, *words, **more):
        answer = subprocess.run([str(w) for w in words], env={**self.environment, **more}, cwd=self.home, text=True,
                                capture_output=True, timeout=2 * PATIENCE, stdin=subprocess.DEVNULL)
        answer.gateway, answer.registry = self.gateway, self.registry
        return answer

    def saw(self):
        """What reached the registry since the last look; none of it with the token, all of it by the gateway."""
        seen = self.registry.requests()
        assert all(not r["token"] and r["via"].endswith("gw.test") for r in seen), seen
        return [f"{r['method']} {r['host']}{r['uri']}" for r in seen]

    def refused(self, reason):
        """The refusal of this sandbox in the journal; nothing but CONNECT was let through beside it."""
        name = {"sandbox": self.name} if self.token else {}
        found = self.gateway.wait_for(kind="decision", action="deny", reason=reason, **name)[-1]
        assert self.saw() == []
        return found

    def completed(self, *targets):
        def done():
            ended = {r["id"] for r in self.gateway.records(kind="result", outcome="complete")}
            allowed = self.gateway.records(kind="decision", action="allow", sandbox=self.name)
            return {f"{r['http']['host']}{r['http'].get('path', '')}" for r in allowed if r["id"] in ended}

        wait_until(lambda: set(targets) <= done(), f"results of {targets}")


@pytest.fixture
def sandbox(tmp_path, gateway, registry, request):
    registry.requests()
    name = "sb-" + hashlib.sha256(request.node.name.encode()).hexdigest()[:8]
    s = Sandbox(tmp_path, gateway, registry, name)
    s.token = gateway.token(SCOPES, sandbox=name)
    return s


def output(answer):
    return answer.stdout + answer.stderr


def passed(answer):
    if answer.returncode != 0:
        why = exeat("why", "--last", config=answer.gateway.config, check=False)
        failed = answer.gateway.records(outcome="failed") + answer.gateway.records(outcome="cut")
        raise AssertionError(f"{output(answer)}\n{why.stdout}\n{failed}\n{answer.registry.log()}")


# ---- curl


CURL = ("curl", "-q", "-sS")


def test_curl_with_basic_from_exeat_env(sandbox, registry):
    passed(sandbox.run("curl", *CURL, "-f", "-o", "data.bin", f"https://{FILES}/data.bin"))
    assert (sandbox.home / "data.bin").read_bytes() == registry.file
    assert sandbox.saw() == [f"GET {FILES}/data.bin"]
    sandbox.completed(f"{FILES}/data.bin")


def test_curl_with_bearer_as_proxy_header(sandbox):
    token, sandbox.token = sandbox.token, None
    words = ("--proxy-header", f"Proxy-Authorization: Bearer {token}")
    passed(sandbox.run("curl", *CURL, "-f", "-o", "data.bin", *words, f"https://{FILES}/data.bin"))
    assert sandbox.saw() == [f"GET {FILES}/data.bin"]
    sandbox.completed(f"{FILES}/data.bin")


def test_curl_that_waits_for_the_challenge(sandbox, gateway):
    """--proxy-anyauth: the first CONNECT is bare, the 407 must make the second carry the token."""
    before = len(gateway.records(reason="token_missing"))
    passed(sandbox.run("curl", *CURL, "-f", "-o", "data.bin", "--proxy-anyauth", f"https://{FILES}/data.bin"))
    assert sandbox.saw() == [f"GET {FILES}/data.bin"]
    assert len(gateway.wait_for(before + 1, reason="token_missing")) == before + 1


def test_curl_uploads(sandbox):
    passed(sandbox.run("curl", *CURL, "-f", "--data-binary", "x" * 20000, f"https://{FILES}/inbox/report"))
    assert sandbox.saw() == [f"POST {FILES}/inbox/report"]


def test_curl_plain_http(sandbox, origins):
    answer = sandbox.run("curl", *CURL, "-f", f"http://{PLAIN}/a")
    assert (answer.returncode, answer.stdout) == (0, "ok")
    assert [r.target for r in origins[1].requests] == ["/a"]
    assert origins[1].requests[0].field("proxy-authorization") is None


@pytest.mark.parametrize("url,with_token,number,reason", [
    (f"https://{FILES}/data.bin", False, 407, "token_missing"),
    ("https://elsewhere.test/", True, 403, "host_not_listed"),
])
def test_curl_shows_the_number_of_a_refused_connect(sandbox, url, with_token, number, reason):
    sandbox.token = sandbox.token if with_token else None
    answer = sandbox.run("curl", *CURL, url)
    assert answer.returncode == 56 and f"CONNECT tunnel failed, response {number}" in answer.stderr
    sandbox.refused(reason)


@pytest.mark.parametrize("words,with_token,line", [
    ((f"http://{PLAIN}/a",), False, "HTTP/1.1 407 exeat token_missing "),
    ((f"http://{PLAIN}/a/b",), True, "HTTP/1.1 403 exeat path_not_allowed "),
    (("-X", "DELETE", f"https://{FILES}/data.bin"), True, "HTTP/1.1 403 exeat method_not_allowed "),
])
def test_curl_shows_the_reason_phrase(sandbox, origins, words, with_token, line):
    sandbox.token = sandbox.token if with_token else None
    answer = sandbox.run("curl", *CURL, "-i", "--fail-with-body", *words)
    assert answer.returncode == 22 and line in answer.stdout
    record = sandbox.refused(line.split()[-1])
    assert record["id"] in answer.stdout  # the problem document names the record
    assert origins[1].requests == []


def test_curl_without_the_gateways_ca_stops_itself(sandbox, gateway):
    answer = sandbox.bare(*CURL, "--cacert", sandbox.registry.ca, "-x", gateway.proxy_url(sandbox.token),
                          f"https://{FILES}/data.bin")
    assert answer.returncode == 60
    assert gateway.wait_for(kind="connection", reason="client_unknown_ca")
    assert sandbox.saw() == []


def test_curl_with_a_canary(sandbox, gateway):
    canary = json.loads((gateway.directory / "canaries.json").read_text())["canaries"][0]["value"]
    answer = sandbox.run("curl", *CURL, "-i", "--data-binary", f"it is {canary}", f"https://{FILES}/inbox/report")
    assert " 403 exeat canary_leak " in answer.stdout
    sandbox.refused("canary_leak")


@pytest.mark.parametrize("encoding,pack,reason", [
    ("gzip", gzip.compress, "canary_leak"),
    ("x-gzip", gzip.compress, "canary_leak"),
    ("gzip", lambda b: gzip.compress(b"x") + gzip.compress(b), "canary_leak"),
    ("deflate", zlib.compress, "unscannable"),
    ("gzip, gzip", gzip.compress, "unscannable"),
    ("gzip", lambda b: gzip.compress(b) + b"more", "unscannable"),
    ("gzip", lambda b: gzip.compress(os.urandom(900000)), "unscannable"),
    ("gzip", lambda b: gzip.compress(bytes(20 << 20) + b), "unscannable"),
])
def test_curl_with_a_canary_in_a_compressed_body(sandbox, gateway, encoding, pack, reason):
    canary = json.loads((gateway.directory / "canaries.json").read_text())["canaries"][0]["value"]
    (sandbox.home / "packed").write_bytes(pack(canary.encode()))
    answer = sandbox.run("curl", *CURL, "-i", "-H", f"Content-Encoding: {encoding}", "-H", "Expect:", "--data-binary",
                         "@packed", f"https://{FILES}/inbox/report")
    assert f" 403 exeat {reason} " in answer.stdout, output(answer)
    sandbox.refused(reason)


def test_curl_with_a_compressed_body(sandbox):
    (sandbox.home / "packed").write_bytes(gzip.compress(b"nothing to see" * 100))
    passed(sandbox.run("curl", *CURL, "-f", "-H", "Content-Encoding: gzip", "--data-binary", "@packed",
                       f"https://{FILES}/inbox/report"))
    assert sandbox.saw() == [f"POST {FILES}/inbox/report"]


# ---- pip


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    directory = tmp_path_factory.mktemp("venv")
    subprocess.run(["/usr/bin/python3", "-m", "venv", directory], check=True, env=clean_environment(),
                   timeout=2 * PATIENCE)
    return directory / "bin/python"


def test_pip_install(sandbox, python):
    passed(sandbox.run("pip", python, "-m", "pip", "install", "-q", "--target", "lib", "exeat-hello"))
    program = "import exeat_hello; print(exeat_hello.WORDS)"
    says = sandbox.bare(python, "-c", program, PYTHONPATH=str(sandbox.home / "lib"))
    assert says.stdout == "by your leave\n"
    assert sandbox.saw() == [f"GET {PYPI}/simple/exeat-hello/", f"GET {PYPI}/packages/{WHEEL}"]
    sandbox.completed(f"{PYPI}/simple/exeat-hello/", f"{PYPI}/packages/{WHEEL}")


@pytest.mark.parametrize("words,with_token,shows,reason", [
    (("exeat-hello",), False, "407 exeat token_missing ", "token_missing"),
    (("--index-url", "https://elsewhere.test/simple/", "exeat-hello"), True, "403 exeat host_not_listed ",
     "host_not_listed"),
    ((f"https://{PYPI}/private/{WHEEL}",), True, "403 Client Error: exeat path_not_allowed ", "path_not_allowed"),
])
def test_pip_shows_the_reason_phrase(sandbox, python, words, with_token, shows, reason):
    sandbox.token = sandbox.token if with_token else None
    answer = sandbox.run("pip", python, "-m", "pip", "install", "--target", "lib", *words)
    assert answer.returncode == 1 and shows in output(answer), output(answer)
    sandbox.refused(reason)


# ---- npm


def test_npm_install(sandbox):
    passed(sandbox.run("npm", "npm", "install", "exeat-hello"))
    says = sandbox.bare("node", "-p", "require('./node_modules/exeat-hello')")
    assert says.stdout == "by your leave\n"
    assert sandbox.saw() == [f"GET {NPM}/exeat-hello", f"GET {NPM}/exeat-hello/-/{TARBALL}"]
    sandbox.completed(f"{NPM}/exeat-hello", f"{NPM}/exeat-hello/-/{TARBALL}")


def test_npm_install_of_a_scoped_package(sandbox):
    passed(sandbox.run("npm", "npm", "install", "@corp/hello"))
    assert sandbox.bare("node", "-p", "require('@corp/hello')").stdout == "scoped\n"
    assert sandbox.saw() == [f"GET {NPM}/@corp%2fhello", f"GET {NPM}/@corp/files/-/hello-2.0.0.tgz"]


@pytest.mark.parametrize("words,scopes,shows,reason", [
    (("search", "hello"), SCOPES, "403 exeat denied_by_rule ", "denied_by_rule"),
    (("install", "exeat-hello"), "git:read", "403 exeat scope_missing ", "scope_missing"),
    (("install", "exeat-hello"), None, "407 exeat token_missing ", "token_missing"),
    (("install", "--registry", "https://elsewhere.test/", "exeat-hello"), SCOPES, "403 exeat host_not_listed ",
     "host_not_listed"),
])
def test_npm_shows_the_reason_phrase(sandbox, gateway, words, scopes, shows, reason):
    sandbox.token = gateway.token(scopes, sandbox=sandbox.name) if scopes else None
    answer = sandbox.run("npm", "npm", *words)
    assert answer.returncode != 0 and shows in output(answer), output(answer)
    sandbox.refused(reason)


def test_npm_cannot_publish(sandbox):
    (sandbox.home / "package.json").write_text(json.dumps({"name": "exeat-loot", "version": "1.0.0"}))
    (sandbox.home / ".npmrc").write_text(f"//{NPM}/:_authToken=somebody-elses\n")
    answer = sandbox.run("npm", "npm", "publish")
    assert answer.returncode != 0 and "403 exeat " in output(answer), output(answer)
    assert sandbox.saw() == []


# ---- git


def test_git_clone(sandbox, registry):
    passed(sandbox.run("git", "git", "clone", "-q", f"https://{GIT}/{REPOSITORY}", "clone"))
    assert sandbox.bare("git", "-C", "clone", "rev-parse", "HEAD").stdout.strip() == registry.commit
    seen = sandbox.saw()
    assert seen[0] == f"GET {GIT}/{REPOSITORY}/info/refs?service=git-upload-pack"
    assert set(seen[1:]) == {f"POST {GIT}/{REPOSITORY}/git-upload-pack"}
    sandbox.completed(f"{GIT}/{REPOSITORY}/info/refs", f"{GIT}/{REPOSITORY}/git-upload-pack")


def test_git_clone_of_many_branches(sandbox, registry):
    """git then compresses what it asks for; it is opened, looked into and let out as it was."""
    bare = registry.top / "git/many.git"
    if not bare.exists():
        git = ("git", "-C", str(registry.top / "work"), "-c", "user.name=x", "-c", "user.email=x@y.test")
        for n in range(40):
            passed(sandbox.bare(*git, "commit", "-q", "--allow-empty", "-m", f"branch {n}"))
            passed(sandbox.bare(*git, "branch", f"b{n}"))
        passed(sandbox.bare("git", "clone", "-q", "--bare", registry.top / "work", bare))
    trace = sandbox.home / "trace"
    passed(sandbox.run("git", "git", "clone", "-q", f"https://{GIT}/many.git", "clone", GIT_TRACE_CURL=str(trace)))
    assert "content-encoding: gzip" in trace.read_text().lower()
    assert sandbox.bare("git", "-C", "clone", "branch", "-r").stdout.count("origin/b") == 40


def test_git_clone_that_waits_for_the_challenge(sandbox, gateway, registry):
    """git's own default: no credential before a 407 has asked for it."""
    before = len(gateway.records(reason="token_missing"))
    passed(sandbox.run("git", "git", "-c", "http.proxyAuthMethod=anyauth", "clone", "-q", f"https://{GIT}/{REPOSITORY}",
                       "clone"))
    assert sandbox.bare("git", "-C", "clone", "rev-parse", "HEAD").stdout.strip() == registry.commit
    assert len(gateway.wait_for(before + 1, reason="token_missing")) == before + 1


@pytest.mark.parametrize("scopes,number,reason", [(None, 407, "token_missing"), ("packages:read", 403, "scope_missing")])
def test_git_clone_shows_the_number_of_a_refused_connect(sandbox, gateway, scopes, number, reason):
    sandbox.token = gateway.token(scopes, sandbox=sandbox.name) if scopes else None
    answer = sandbox.run("git", "git", "clone", f"https://{GIT}/{REPOSITORY}", "clone")
    assert answer.returncode == 128 and f"CONNECT tunnel failed, response {number}" in answer.stderr, answer.stderr
    sandbox.refused(reason)


def test_git_cannot_push(sandbox):
    """The registry itself would take the push: only the gateway stops it."""
    who = ("-c", "user.name=x", "-c", "user.email=x@y.test")
    passed(sandbox.run("git", "git", "clone", "-q", f"https://{GIT}/{REPOSITORY}", "clone"))
    passed(sandbox.bare("git", "-C", "clone", *who, "commit", "-q", "--allow-empty", "-m", "loot"))
    sandbox.saw()
    answer = sandbox.run("git", "git", "-C", "clone", "push", "-q")
    assert answer.returncode == 128 and "403" in answer.stderr, answer.stderr
    sandbox.refused("query_not_allowed")
