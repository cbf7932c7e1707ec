"""
Presets with the real clients: what each installs with, and what the same client is refused. Each refusal is answered: by what the
client shows, or else by `exeat why --refused`.
"""
import json
import re
import subprocess
import zipfile
from pathlib import Path

import pytest

from gateway import EXEAT, PATIENCE, TREE, Gateway, exeat
from origin import make_pki
from registries import CARGO, DEBIAN, GIT, GO, HOSTS, MAVEN, NPM, OCI, PYPI, WHEEL, WORDS, Registries
from relay import Relay
from test_env import Apt, passed
from test_env import Sandbox as Plain

PRESETS = {NPM: "npm-read", PYPI: "pypi-read", DEBIAN: "debian-read", OCI: "oci-pull", GIT: "git-clone", CARGO: "cargo-read",
           GO: "go-proxy", MAVEN: "maven-read"}
SERVICE = """
  {name}:
    preset: {preset}
    hosts: [{host}]
    addresses: ["127.0.0.1:{port}"]
    ca-file: {ca}
    scope: all:read
    audit: "waived: test"
"""


POM = ("<project><modelVersion>4.0.0</modelVersion><groupId>x</groupId><artifactId>x</artifactId><version>1</version><packaging>pom"
       "</packaging><build><extensions><extension><groupId>test.exeat</groupId><artifactId>hello</artifactId><version>1</version>"
       "</extension></extensions></build></project>")


@pytest.fixture(scope="module")
def registries(tmp_path_factory):
    directory = tmp_path_factory.mktemp("registries")
    pki = make_pki(directory, HOSTS)
    r = Registries(directory, pki)
    r.ca = pki[0]
    yield r
    r.stop()


@pytest.fixture(scope="module")
def gateway(tmp_path_factory, registries):
    listed = "".join(SERVICE.format(name=preset, preset=preset, host=host, port=registries.port(host), ca=registries.ca)
                     for host, preset in PRESETS.items())
    g = Gateway(tmp_path_factory.mktemp("presets") / "state", listed)
    g.start()
    yield g
    assert g.stop() == 0, g.output().decode()


class Sandbox(Plain):
    def __init__(self, home, gateway, registries):
        super().__init__(home, gateway, [registries.origin])
        self.registries = registries
        registries.origin.clear()
        self.environment |= {"npm_config_globalconfig": str(home / "npmrc"), "npm_config_fund": "false", "npm_config_fetch_retries": "0",
                             "npm_config_registry": f"https://{NPM}/", "PIP_NO_INPUT": "1", "PIP_NO_CACHE_DIR": "1", "PIP_RETRIES": "0",
                             "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_INDEX_URL": f"https://{PYPI}/simple/"}

    def seen(self):
        return self.registries.seen()

    def forget(self):
        self.registries.origin.clear()

    def why(self, *which):
        return exeat("why", *which, config=self.gateway.config).stdout

    def is_refused(self, answer, reason, request, shows=True):
        """It failed, what it shows leads to the reason, or else the journal does; and nothing of it was written anywhere."""
        text = answer.stdout + answer.stderr
        assert answer.returncode != 0, text
        told = self.why("--refused", "--sandbox", self.name)
        assert reason in told and request in told, told
        if shows:
            found = re.search(rf"exeat {reason} ([0-9a-f]{{6}})", text)
            assert found, text
            assert reason in self.why(found[1])
        else:
            assert "403" in text, text
        assert all(not shelf.written for shelf in self.registries.by_host.values())


@pytest.fixture
def sandbox(tmp_path, gateway, registries):
    return Sandbox(tmp_path, gateway, registries)


@pytest.mark.parametrize("host,method,target", [
    (NPM, "PUT", "/loot"), (NPM, "POST", "/-/npm/v1/security/advisories/bulk"), (PYPI, "POST", "/legacy/"), (DEBIAN, "PUT", "/queue/x.changes"),
    (CARGO, "PUT", "/api/v1/crates/new"), (GO, "PUT", "/x/@v/v1.zip"), (MAVEN, "PUT", "/maven2/x/y.jar"),
    (OCI, "POST", "/v2/loot/blobs/uploads/"), (GIT, "GET", "/team/hello.git/info/refs?service=git-receive-pack"),
])
def test_the_registries_themselves_take_what_they_are_sent(registries, host, method, target):
    """Whatever is refused below, it is the gateway that does."""
    port = registries.port(host)
    answer = subprocess.run(["curl", "-q", "-sS", "-f", "--noproxy", "*", "--cacert", registries.ca, "--resolve", f"{host}:{port}:127.0.0.1",
                             "-X", method, f"https://{host}:{port}{target}"], capture_output=True, text=True, timeout=PATIENCE)
    assert answer.returncode == 0, answer.stderr
    if host not in (GIT, OCI):
        assert registries[host].written == [f"{method} {target}"]
        registries[host].written.clear()


# ---- what docs/clients.md tells an operator to type


def test_the_services_of_the_page_are_a_configuration(tmp_path, gateway):
    listed = re.search(r"(?ms)^```yaml\n(services:.*?)^```", (TREE / "docs/clients.md").read_text())[1]
    (tmp_path / "proxy.conf").write_text(gateway.config.read_text().split("services:")[0].replace("state: .", f"state: {gateway.directory}")
                                         .replace("issuer/", f"{gateway.directory}/issuer/").replace("canaries.json", f"{gateway.directory}/canaries.json")
                                         + listed)
    exeat("config", "check", config=tmp_path / "proxy.conf")
    assert all(f"preset: {preset}," in listed for preset in PRESETS.values())


@pytest.mark.parametrize("words", [("init", "--help"), ("config", "help"), ("config", "schema")])
def test_every_preset_is_named_where_people_look(words):
    text = exeat(*words).stdout
    assert all(preset in text for preset in PRESETS.values())


def sections():
    page = (TREE / "docs/clients.md").read_text().split("## Installing from registries", 1)[1].split("## When something is refused", 1)[0]
    found = re.findall(r"(?ms)^### (\w+)\n.*?^```sh\n(.*?)^```", page)
    assert len(found) == len(PRESETS)
    return found


HERE_IS = {"npm.example": NPM, "pypi.example": PYPI, "deb.example": DEBIAN, "oci.example": OCI, "git.example": GIT, "cargo.example": CARGO,
           "go.example": GO, "maven.example": MAVEN, "some-package": "exeat-hello"}


def put_programs(sandbox, pip):
    """As a sandbox has them: pip's own environment, apt's own root, images that need no signature."""
    apt, programs = Apt(sandbox, "https://nowhere.test"), sandbox.home / "bin"
    programs.mkdir()
    apt.options += ["-o", "APT::Get::Download-Only=true"]
    for name, words in (("pip", (*pip, '"$@"', "--target", "lib")), ("apt-get", ("/usr/bin/apt-get", *apt.options, '"$@"'))):
        (programs / name).write_text("#!/bin/sh\nexec " + " ".join(str(w) for w in words) + "\n")
        (programs / name).chmod(0o755)
    (sandbox.home / ".config/containers").mkdir(parents=True)
    (sandbox.home / ".config/containers/policy.json").write_text('{"default": [{"type": "insecureAcceptAnything"}]}')
    sandbox.environment["PATH"] = f"{programs}:{EXEAT.parent}:{sandbox.environment['PATH']}"


def put_project(sandbox):
    """Something that needs something, of each kind."""
    make_crate(sandbox.home)
    (sandbox.home / "Cargo.toml").write_text((sandbox.home / "Cargo.toml").read_text().replace(', registry = "here"', ""))
    (sandbox.home / "go.mod").write_text(f"module x.test/x\n\ngo 1.19\n\nrequire {sandbox.registries[GO].module} v1.0.0\n")
    (sandbox.home / "pom.xml").write_text(POM)


GOT = {"npm": "node_modules/exeat-hello/index.js", "pip": "lib/exeat_hello/__init__.py", "apt": "apt/cache/archives/exeat-hello_1.*_all.deb",
       "skopeo": "hello/manifest.json", "git": "hello/README", "cargo": "cargo/registry/cache/*/exeat-hello-1.0.0.crate",
       "go": "go/pkg/mod/code.test/!team/hello@v1.0.0/hello.go", "Maven": ".m2/repository/test/exeat/hello/1/hello-1.jar"}


@pytest.mark.parametrize("client,block", sections(), ids=[name for name, _ in sections()])
def test_what_the_page_says_installs(sandbox, pip, gateway, client, block):
    put_programs(sandbox, pip)
    put_project(sandbox)
    archive, list_ = sandbox.registries[DEBIAN].key, sandbox.home / "apt/sources.list"
    (sandbox.home / "vm1.jwt").write_text(sandbox.token)
    for is_, here in {**HERE_IS, "/usr/share/keyrings/archive.gpg": str(archive), "/etc/apt/sources.list": str(list_)}.items():
        block = block.replace(is_, here)
    with Relay(sandbox.home, f"127.0.0.1:{gateway.port}", "--token-file", sandbox.home / "vm1.jwt") as relay:
        more = {"GOSUMDB": sandbox.registries[GO].sums.verifier, "GOFLAGS": "-modcacherw",
                "MAVEN_OPTS": f"-XX:TieredStopAtLevel=1 -Duser.home={sandbox.home}"}
        passed(sandbox.bare("/bin/sh", "-ec", block.replace("127.0.0.1:3199", relay.at), **more))
    assert list(sandbox.home.glob(GOT[client])), client
    assert sandbox.refused() == []


# ---- npm


def test_npm_installs(sandbox):
    passed(sandbox.run("npm", "npm", "install", "--no-audit", "exeat-hello"))
    assert sandbox.bare("node", "-p", "require('exeat-hello')").stdout == WORDS
    seen, tarballs = sandbox.seen(), ["GET /@corp/words/-/words-2.0.0.tgz", "GET /exeat-hello/-/exeat-hello-1.0.0.tgz"]
    assert seen[:2] == ["GET /exeat-hello", "GET /@corp%2fwords"] and sorted(seen[2:]) == tarballs
    assert sandbox.refused() == []
    sandbox.forget()
    passed(sandbox.run("npm", "npm", "ci", "--no-audit", "--prefer-online", npm_config_cache=str(sandbox.home / "empty")))
    assert sorted(sandbox.seen()) == tarballs


def test_what_npm_tells_of_its_run_is_dropped_and_recorded(sandbox):
    passed(sandbox.run("npm", "npm", "view", "exeat-hello", "version"))
    asked = sandbox.registries.origin.requests[0]
    told = sandbox.gateway.wait_for(kind="decision", sandbox=sandbox.name, action="allow")
    names = next(r["http"]["dropped"] for r in told if r["http"].get("method") == "GET").split(",")
    assert {"npm-command", "npm-auth-type"} <= set(names)
    assert asked.field("npm-command") is None and asked.field("accept") and asked.field("user-agent").startswith("npm/")


def test_npm_installs_though_its_audit_is_refused(sandbox):
    """An audit tells the registry all that is installed; npm asks for it by itself, and goes on without."""
    passed(sandbox.run("npm", "npm", "install", "--audit", "exeat-hello"))
    assert set(sandbox.refused()) == {"method_not_allowed"}
    assert sandbox.registries[NPM].written == []


@pytest.mark.parametrize("words,reason,request_", [
    (("publish",), "method_not_allowed", f"PUT https://{NPM}/loot"),
    (("search", "hello"), "denied_by_rule", f"GET https://{NPM}/-/v1/search"),
    (("audit", "--audit"), "method_not_allowed", f"POST https://{NPM}/-/npm/v1/security/"),
    (("whoami",), "denied_by_rule", f"GET https://{NPM}/-/whoami"),
])
def test_npm_is_refused(sandbox, words, reason, request_):
    (sandbox.home / "package.json").write_text(json.dumps({"name": "loot", "version": "1.0.0", "dependencies": {"exeat-hello": "1.0.0"}}))
    (sandbox.home / "package-lock.json").write_text(json.dumps({"name": "loot", "version": "1.0.0", "lockfileVersion": 3, "packages": {
        "": {"dependencies": {"exeat-hello": "1.0.0"}}, "node_modules/exeat-hello": {"version": "1.0.0"}}}))
    if words[0] in ("publish", "whoami"):
        (sandbox.home / ".npmrc").write_text(f"//{NPM}/:_authToken=somebody-elses\n")
    sandbox.is_refused(sandbox.run("npm", "npm", *words), reason, request_)


# ---- pip, twine


PYTHON = "/usr/bin/python3"


@pytest.fixture(scope="module")
def pip(tmp_path_factory):
    """The one that venv puts into each environment, which takes longer."""
    directory = tmp_path_factory.mktemp("pip")
    with zipfile.ZipFile(next(Path("/usr/share/python-wheels").glob("pip-*.whl"))) as z:
        z.extractall(directory)
    return PYTHON, directory / "pip"


def test_pip_installs(sandbox, pip):
    passed(sandbox.run("pip", *pip, "install", "-q", "--target", "lib", "exeat-hello"))
    assert sandbox.bare(PYTHON, "-c", "import exeat_hello; print(end=exeat_hello.WORDS)", PYTHONPATH=str(sandbox.home / "lib")).stdout == WORDS
    assert set(sandbox.seen()) == {"GET /simple/exeat-hello/", f"GET /packages/ab/cd/{WHEEL}.metadata", f"GET /packages/ab/cd/{WHEEL}"}
    assert sandbox.refused() == []


def test_pip_is_refused_a_search(sandbox, pip):
    answer = sandbox.run("pip", *pip, "search", "--index", f"https://{PYPI}/pypi", "hello")
    sandbox.is_refused(answer, "method_not_allowed", f"POST https://{PYPI}/pypi")


def test_twine_is_refused_an_upload(sandbox):
    (sandbox.home / WHEEL).write_bytes(sandbox.registries[PYPI].wheel)
    trust = {"REQUESTS_CA_BUNDLE": str(sandbox.gateway.directory / "ca/bundle.pem")}
    answer = sandbox.run("pip", "/usr/bin/twine", "upload", "--non-interactive", "--disable-progress-bar", "-u", "x", "-p", "y",
                         "--repository-url", f"https://{PYPI}/legacy/", WHEEL, **trust)
    sandbox.is_refused(answer, "method_not_allowed", f"POST https://{PYPI}/legacy/")


# ---- apt


class SignedApt(Apt):
    """With sources, translations and the archive's key."""

    def __init__(self, sandbox):
        super().__init__(sandbox, f"https://{DEBIAN}/debian")
        top, key = sandbox.home / "apt", sandbox.registries[DEBIAN].key
        (top / "sources.list").write_text("".join(f"{kind} [signed-by={key} arch=amd64] https://{DEBIAN}/debian stable main\n"
                                                  for kind in ("deb", "deb-src")))
        self.options += ["-o", "Acquire::Languages=en"]


def test_apt_installs(sandbox):
    apt, archive = SignedApt(sandbox), sandbox.registries[DEBIAN]
    passed(sandbox.run("apt", *apt.run("update", "-q")))
    seen = sandbox.seen()
    assert seen[0] == "GET /debian/dists/stable/InRelease" and all("/by-hash/SHA256/" in s for s in seen[1:]) and len(seen) == 4
    sandbox.forget()
    passed(sandbox.run("apt", *apt.run("install", "-q", "-y", "--download-only", "exeat-hello")))
    assert sandbox.seen() == ["GET /debian/pool/main/e/exeat-hello/exeat-hello_1.0_all.deb"]
    assert (sandbox.home / "apt/cache/archives/exeat-hello_1.0_all.deb").read_bytes() == archive.debs["1.0"]
    sandbox.forget()
    archive.publish_again()
    passed(sandbox.run("apt", *apt.run("update", "-q", "-o", "Acquire::PDiffs=true")))
    assert any("/Packages.diff/" in s and s.endswith((".gz", "SHA256/" + s[-64:])) for s in sandbox.seen()), sandbox.seen()
    sandbox.forget()
    passed(sandbox.run("apt", *apt.run("download", "-q", "exeat-hello")))
    assert (sandbox.home / "exeat-hello_1.1_all.deb").read_bytes() == archive.debs["1.1"]
    assert sandbox.refused() == []


def test_apt_is_refused_sources(sandbox):
    apt = SignedApt(sandbox)
    passed(sandbox.run("apt", *apt.run("update", "-q")))
    answer = sandbox.run("apt", *apt.run("source", "-q", "--download-only", "exeat-hello"))
    sandbox.is_refused(answer, "path_not_allowed", f"GET https://{DEBIAN}/debian/pool/main/e/exeat-hello/exeat-hello_1.0.dsc")


@pytest.mark.parametrize("path", ["UploadQueue/hello_1.0_amd64.changes", "debian/pool/main/e/exeat-hello/exeat-hello_1.0_all.deb"])
def test_an_upload_to_an_archive_is_refused(sandbox, path):
    """As dput sends it, which itself knows no proxy; apt writes nothing."""
    (sandbox.home / "x").write_text("loot\n")
    answer = sandbox.run("curl", "curl", "-q", "-sS", "-i", "--fail-with-body", "-T", "x", f"https://{DEBIAN}/{path}")
    sandbox.is_refused(answer, "method_not_allowed", f"PUT https://{DEBIAN}/{path}")


# ---- skopeo


SKOPEO = ("skopeo", "--insecure-policy")


def allowed(sandbox):
    """The requests of this sandbox that were let through, CONNECT aside."""
    found = sandbox.gateway.records(kind="decision", action="allow", sandbox=sandbox.name)
    return [f"{r['http']['method']} {r['http']['path']}" for r in found if r["http"]["method"] != "CONNECT"]


@pytest.mark.parametrize("by_digest", [False, True], ids=["by tag", "by digest"])
def test_skopeo_pulls(sandbox, by_digest):
    name = f"docker://{OCI}/team/hello"
    known = sandbox.registries.images.digest
    passed(sandbox.run("skopeo", *SKOPEO, "copy", f"{name}@{known}" if by_digest else f"{name}:1", "dir:image"))
    layer = sandbox.registries.images.layer
    assert (sandbox.home / "image" / layer.split(":")[1]).exists()
    asked = allowed(sandbox)
    assert asked[0] == "GET /v2/" and f"GET /v2/team/hello/manifests/{known if by_digest else '1'}" in asked
    assert f"GET /v2/team/hello/blobs/{layer}" in asked and sandbox.refused() == []


@pytest.mark.parametrize("words,reason,request_,shows", [
    (("copy", "dir:{image}", f"docker://{OCI}/team/loot:1"), "method_not_allowed", f"POST https://{OCI}/v2/team/loot/blobs/uploads/", False),
    (("delete", f"docker://{OCI}/team/hello:1"), "method_not_allowed", f"DELETE https://{OCI}/v2/team/hello/manifests/", True),
    (("list-tags", f"docker://{OCI}/team/hello"), "path_not_allowed", f"GET https://{OCI}/v2/team/hello/tags/list", False),
])
def test_skopeo_is_refused(sandbox, words, reason, request_, shows):
    image = sandbox.registries.images.directory / "image"
    answer = sandbox.run("skopeo", *SKOPEO, *(w.format(image=image) for w in words))
    sandbox.is_refused(answer, reason, request_, shows)
    assert not [a for a in allowed(sandbox) if not a.startswith(("GET ", "HEAD "))]


# ---- git


def test_git_clones_and_fetches(sandbox):
    passed(sandbox.run("git", "git", "clone", "-q", f"https://{GIT}/team/hello.git", "clone"))
    assert (sandbox.home / "clone/README").read_text() == WORDS
    passed(sandbox.run("git", "git", "-C", "clone", "fetch", "-q"))
    assert set(sandbox.seen()) == {"GET /team/hello.git/info/refs?service=git-upload-pack", "POST /team/hello.git/git-upload-pack"}
    assert sandbox.refused() == []


def test_git_is_refused_a_push(sandbox):
    """It shows a number only, and goes on: the reason is still found."""
    passed(sandbox.run("git", "git", "clone", "-q", f"https://{GIT}/team/hello.git", "clone"))
    passed(sandbox.bare("git", "-C", "clone", "-c", "user.name=x", "-c", "user.email=x@y.test", "commit", "-q", "--allow-empty", "-m", "loot"))
    answer = sandbox.run("git", "git", "-C", "clone", "push", "-q")
    passed(sandbox.run("git", "git", "-C", "clone", "fetch", "-q"))
    sandbox.is_refused(answer, "query_not_allowed", f"GET https://{GIT}/team/hello.git/info/refs", shows=False)
    assert not any("receive-pack" in s for s in sandbox.seen())


def test_git_is_refused_what_is_served_as_files(sandbox):
    answer = sandbox.run("git", "git", "clone", f"https://{GIT}/team/hello.git", "clone", GIT_SMART_HTTP="0")
    sandbox.is_refused(answer, "query_not_allowed", f"GET https://{GIT}/team/hello.git/info/refs", shows=False)


# ---- cargo


def make_crate(home):
    (home / "src").mkdir()
    (home / "src/main.rs").write_text("fn main() {}\n")
    needs = "".join(f'{n} = {{ version = "1", registry = "here" }}\n' for n in ("a", "bc", "def", "exeat-hello"))
    (home / "Cargo.toml").write_text('[package]\nname = "loot"\nversion = "0.1.0"\nedition = "2021"\ndescription = "x"\nlicense = "MIT"\n'
                                     f"\n[dependencies]\n{needs}")


HERE = {"CARGO_REGISTRIES_HERE_INDEX": f"sparse+https://{CARGO}/", "CARGO_REGISTRIES_HERE_TOKEN": "somebody-elses", "CARGO_NET_RETRY": "0"}


def test_cargo_fetches(sandbox):
    make_crate(sandbox.home)
    passed(sandbox.run("cargo", "cargo", "fetch", **HERE))
    seen = sandbox.seen()
    assert seen[0] == "GET /config.json"
    assert set(seen[1:]) == {"GET /1/a", "GET /2/bc", "GET /3/d/def", "GET /ex/ea/exeat-hello"} | {
        f"GET /api/v1/crates/{n}/1.0.0/download" for n in ("a", "bc", "def", "exeat-hello")}
    assert sandbox.refused() == []
    assert all(r.field("cargo-protocol") in ("version=1", None) for r in sandbox.registries.origin.requests)  # None: Debian's cargo
    told = sandbox.gateway.records(kind="decision", sandbox=sandbox.name)
    assert not any("cargo-protocol" in r["http"].get("dropped", "").lower() for r in told)


@pytest.mark.parametrize("words,reason,request_", [
    (("publish", "--no-verify", "--allow-dirty"), "method_not_allowed", f"PUT https://{CARGO}/api/v1/crates/new"),
    (("yank", "exeat-hello@1.0.0"), "method_not_allowed", f"DELETE https://{CARGO}/api/v1/crates/exeat-hello/1.0.0/yank"),
    (("search", "hello"), "denied_by_rule", f"GET https://{CARGO}/api/v1/crates"),
    (("owner", "--list", "exeat-hello"), "path_not_allowed", f"GET https://{CARGO}/api/v1/crates/exeat-hello/owners"),
])
def test_cargo_is_refused(sandbox, words, reason, request_):
    make_crate(sandbox.home)
    sandbox.is_refused(sandbox.run("cargo", "cargo", words[0], "--registry", "here", *words[1:], **HERE), reason, request_)


# ---- go


def test_go_downloads_and_checks_sums_through_the_proxy(sandbox):
    module, sums = sandbox.registries[GO].module, sandbox.registries[GO].sums
    (sandbox.home / "go.mod").write_text("module x.test/x\n\ngo 1.19\n")
    (sandbox.home / "main.go").write_text(f'package main\n\nimport "{module}"\n\nfunc main() {{ print(hello.Words) }}\n')
    more = {"GOPROXY": f"https://{GO}", "GOSUMDB": sums.verifier, "GOFLAGS": "-modcacherw"}
    passed(sandbox.run("go", "go", "get", f"{module}@latest", **more))
    assert (sandbox.home / "go.sum").read_text().count("h1:") == 2
    answer = sandbox.run("go", "go", "mod", "download", "-json", module, **more)
    passed(answer)
    assert json.loads(answer.stdout)["Version"] == "v1.0.0"
    base, sumdb = "GET /code.test/%21team/hello/@v/", f"GET /sumdb/{sums.name}"
    assert {base + "list", base + "v1.0.0.info", base + "v1.0.0.mod", base + "v1.0.0.zip", f"{sumdb}/supported",
            f"{sumdb}/lookup/code.test/!team/hello@v1.0.0", f"{sumdb}/tile/8/0/000.p/1"} <= set(sandbox.seen())
    assert sandbox.refused() == []


def test_go_is_refused_what_is_not_a_module_proxy(sandbox):
    """It asks the module's host itself when it is told to: for where the repository is."""
    (sandbox.home / "go.mod").write_text("module x.test/x\n\ngo 1.19\n")
    answer = sandbox.run("go", "go", "get", f"{GO}/hello@latest", GOPROXY="direct", GONOSUMDB="*", GOFLAGS="-modcacherw")
    sandbox.is_refused(answer, "path_not_allowed", f"GET https://{GO}/")  # and of what is above it


def test_a_module_posted_is_refused(sandbox):
    """go has no command that publishes; registries take a zip."""
    (sandbox.home / "x").write_text("loot\n")
    url = f"https://{GO}/code.test/loot/@v/v1.0.0.zip"
    answer = sandbox.run("curl", "curl", "-q", "-sS", "-i", "--fail-with-body", "-T", "x", url)
    sandbox.is_refused(answer, "method_not_allowed", f"PUT {url}")


# ---- Maven


def test_maven_resolves_and_is_refused_a_deployment(sandbox, gateway):
    """In one run: a plugin with all it needs, from Debian's repository, and an artifact of ours; then what the plugin is for."""
    home, url = sandbox.home, f"https://{MAVEN}/maven2"
    (home / "token.jwt").write_text(sandbox.token)
    (home / "settings.xml").write_text(f"<settings><mirrors><mirror><id>here</id><mirrorOf>*</mirrorOf><url>{url}</url></mirror></mirrors>"
                                       "</settings>")
    (home / "pom.xml").write_text(POM)
    (home / "loot.jar").write_text("loot\n")
    with Relay(home, f"127.0.0.1:{gateway.port}", "--token-file", home / "token.jwt") as relay:
        answer = sandbox.run("maven", "mvn", "-B", "-q", "-C", "-s", "settings.xml", "-Dmaven.repo.local=repo",
                             "org.apache.maven.plugins:maven-deploy-plugin:3.0.0:deploy-file", "-Dfile=loot.jar", "-DgroupId=test.loot",
                             "-DartifactId=loot", "-Dversion=1", "-Dpackaging=jar", "-DgeneratePom=false", "-DrepositoryId=here",
                             f"-Durl={url}", ask=("--relay", relay.at), MAVEN_OPTS="-XX:TieredStopAtLevel=1")
    sandbox.is_refused(answer, "method_not_allowed", f"PUT {url}/test/loot/loot/1/loot-1.jar")
    assert (home / "repo/test/exeat/hello/1/hello-1.jar").exists()
    seen = sandbox.seen()
    assert {f"GET /maven2/test/exeat/hello/1/hello-1{end}" for end in (".pom", ".jar", ".jar.sha1")} <= set(seen)
    assert sum(s.endswith(".jar") for s in seen) >= 5 and set(sandbox.refused()) == {"method_not_allowed"}
