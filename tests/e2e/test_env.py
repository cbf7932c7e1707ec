"""The lines that `exeat env --client` prints, and the helpers, with the real clients: what they want comes by the gateway's leave."""
import json
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from gateway import EXEAT, PATIENCE, TREE, Gateway, clean_environment, exeat
from origin import Origin
from relay import Relay
from store import Store

HOST = "registry.test"
SERVICE = """
  all:
    hosts: [registry.test]
    addresses: ["127.0.0.1:{port}"]
    ca-file: {ca}
    allow: ["GET,HEAD /**"]
    scope: all:read
    audit: "waived: test"
  plain:
    hosts: [other.test]
    plain-ports: [80]
    addresses: ["127.0.0.1:{plain}"]
    allow: ["GET,HEAD /**"]
    scope: all:read
    audit: "waived: test"
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return Store(HOST, tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def origins(pki, store):
    tls, plain = Origin(pki[1], pki[2], script=store.script), Origin(script=store.script)
    yield tls, plain
    tls.close()
    plain.close()


@pytest.fixture(scope="module")
def gateway(tmp_path_factory, pki, origins):
    g = Gateway(tmp_path_factory.mktemp("env") / "state", SERVICE.format(port=origins[0].port, plain=origins[1].port, ca=pki[0]))
    g.start()
    yield g
    assert g.stop() == 0, g.output().decode()


class Sandbox:
    def __init__(self, home, gateway, origins):
        self.home, self.gateway, self.origins = home, gateway, origins
        self.name = "sb-" + home.name[:40].replace("_", "-").strip("-")
        self.token = gateway.token("all:read", sandbox=self.name)
        self.environment = clean_environment(HOME=str(home), LANG="C.UTF-8", EXEAT_CONFIG=str(gateway.config), GIT_CONFIG_GLOBAL="/dev/null",
                                             CARGO_HOME=str(home / "cargo"), GOPATH=str(home / "go"), GOCACHE=str(home / "gocache"))
        self.environment |= {"CARGO_UNSTABLE_SPARSE_REGISTRY": "true", "RUSTC_BOOTSTRAP": "1"}  # Debian's cargo has it, not yet stable
        rust = os.environ.get("RUSTUP_HOME", str(Path.home() / ".rustup"))
        if Path(rust).exists():
            self.environment["RUSTUP_HOME"] = rust

    def lines(self, client, *words):
        token = () if words else ("--with-token", "-")
        return exeat("env", "--client", client, *token, *words, config=self.gateway.config, stdin=self.token).stdout

    def bare(self, *words, **more):
        return subprocess.run([str(w) for w in words], env={**self.environment, **more}, cwd=self.home, text=True, capture_output=True,
                              timeout=3 * PATIENCE, stdin=subprocess.DEVNULL)

    def run(self, client, *words, ask=(), **more):
        return self.bare("/bin/sh", "-c", 'eval "$0"; exec "$@"', self.lines(client, *ask), *words, **more)

    def got(self):
        """What reached the registry; all of it by the gateway, none with a token."""
        seen = [r for o in self.origins for r in o.requests]
        assert all(r.field("proxy-authorization") is None and r.field("via").endswith("gw.test") for r in seen)
        return [r.target for r in seen]

    def refused(self):
        return [r["reason"] for r in self.gateway.records(kind="decision", action="deny", sandbox=self.name)]


@pytest.fixture
def sandbox(tmp_path, gateway, origins):
    return Sandbox(tmp_path, gateway, origins)


@pytest.fixture
def relay(tmp_path, sandbox, gateway):
    (tmp_path / "token.jwt").write_text(sandbox.token)
    with Relay(tmp_path, f"127.0.0.1:{gateway.port}", "--token-file", tmp_path / "token.jwt") as r:
        yield r


def passed(answer):
    assert answer.returncode == 0, answer.stdout + answer.stderr


# ---- env

def test_every_client_has_its_lines_and_no_token_unless_asked(sandbox):
    names = exeat("env", "--client", "nosuch", config=sandbox.gateway.config, check=False)
    assert names.returncode == 2
    listed = names.stderr.split("one of ", 1)[1].split(",")[0].split("|")
    wanted = "curl git pip npm node20 node24 cargo apt go wget skopeo docker maven gradle java".split()
    assert set(wanted) <= set(listed)
    for name in listed:
        bare = sandbox.lines(name, "--listener", "explicit")
        assert sandbox.token not in bare and "export " in bare
        assert all(line.startswith(("export ", "# ")) for line in bare.splitlines())


@pytest.mark.parametrize("name", ["maven", "gradle", "java", "docker"])
def test_who_cannot_carry_a_token_is_told_of_the_relay_until_there_is_one(sandbox, name):
    notes = [json.loads(exeat("env", "--client", name, "--format", "json", *more, config=sandbox.gateway.config).stdout)["notes"]
             for more in ([], ["--relay", "127.0.0.1:3199"])]
    assert "exeat-relay" in notes[0][0] and "exeat-relay" not in "".join(notes[1])
    assert "exeat-relay" in sandbox.lines(name) and "exeat-relay" not in sandbox.lines(name, "--relay", "127.0.0.1:3199")


def test_json_has_the_same(sandbox):
    said = json.loads(exeat("env", "--client", "wget", "--format", "json", config=sandbox.gateway.config).stdout)
    assert said["client"] == "wget" and said["variables"]["WGETRC"].endswith("/ca/wgetrc")
    assert said["variables"]["https_proxy"] == f"http://127.0.0.1:{sandbox.gateway.port}"


def test_files_are_named_where_the_sandbox_has_them(sandbox):
    lines = sandbox.lines("java", "--ca-bundle", "/sandbox/ca/all.pem", "--relay", "127.0.0.1:3199")
    assert "trustStore=/sandbox/ca/trust.jks " in lines and "-Dhttps.proxyPort=3199" in lines
    assert "'/sandbox/ca/apt.conf'" in sandbox.lines("apt", "--ca-bundle", "/sandbox/ca/all.pem")
    answer = exeat("env", "--relay", "nowhere", config=sandbox.gateway.config, check=False)
    assert answer.returncode == 2 and "--relay: no address and port: nowhere" in answer.stderr


def test_curl(sandbox):
    answer = sandbox.run("curl", "curl", "-q", "-sS", "-f", f"https://{HOST}/data")
    passed(answer)
    assert (answer.stdout, sandbox.got()) == ("by your leave\n", ["/data"])


@pytest.mark.parametrize("url", [f"https://{HOST}/data", "http://other.test/data"])
def test_wget(sandbox, url):
    answer = sandbox.run("wget", "wget", "-q", "-O", "-", url)
    passed(answer)
    assert (answer.stdout, sandbox.got()) == ("by your leave\n", ["/data"])


def test_skopeo(sandbox):
    passed(sandbox.run("skopeo", "skopeo", "--insecure-policy", "--override-arch", "amd64", "copy", f"docker://{HOST}/hello:1", "dir:image"))
    assert (sandbox.home / "image/manifest.json").exists()
    assert "/v2/hello/manifests/1" in sandbox.got() and sandbox.refused() == []


def test_python(sandbox):
    """The system's, which reads the variables by itself."""
    program = f"import urllib.request as r; print(r.urlopen('https://{HOST}/data').read().decode(), end='')"
    passed(answer := sandbox.run("python", "/usr/bin/python3", "-c", program))
    assert (answer.stdout, sandbox.got()) == ("by your leave\n", ["/data"])


if shutil.which("aws"):  # nothing that tests/install brings
    def test_aws(sandbox, store):
        passed(sandbox.run("aws", "aws", "s3api", "get-object", "--no-sign-request", "--endpoint-url", f"https://{HOST}", "--bucket", "debian",
                           "--key", "dists/stable/Release", "got", PATH=os.environ["PATH"], AWS_DEFAULT_REGION="us-east-1"))
        assert sandbox.got() == ["/debian/dists/stable/Release"] and b"stable" in (sandbox.home / "got").read_bytes()


def test_go(sandbox):
    (sandbox.home / "go.mod").write_text("module x.test/x\n\ngo 1.19\n\nrequire code.test/hello v1.0.0\n")
    (sandbox.home / "main.go").write_text('package main\n\nimport "code.test/hello"\n\nfunc main() { println(hello.Words) }\n')
    passed(sandbox.run("go", "go", "mod", "download", "code.test/hello", GOPROXY=f"https://{HOST}/go", GONOSUMDB="*", GONOSUMCHECK="1",
                       GOFLAGS="-mod=mod -modcacherw"))
    assert sandbox.got()[-1] == "/go/code.test/hello/@v/v1.0.0.zip"


def test_cargo(sandbox):
    (sandbox.home / "src").mkdir()
    (sandbox.home / "src/main.rs").write_text("fn main() {}\n")
    (sandbox.home / "Cargo.toml").write_text('[package]\nname = "x"\nversion = "0.1.0"\nedition = "2021"\n\n[dependencies]\n'
                                             'exeat-hello = { version = "1", registry = "here" }\n')
    passed(sandbox.run("cargo", "cargo", "fetch", CARGO_REGISTRIES_HERE_INDEX=f"sparse+https://{HOST}/cargo/"))
    assert "/cargo/dl/exeat-hello/1.0.0" in sandbox.got()


# ---- through the relay, for those who cannot carry a token

JAVA = """
import java.net.*; import java.net.http.*; import java.nio.charset.*;
class Get { public static void main(String[] a) throws Exception {
  var u = new URL(a[0]).openConnection();
  System.out.print(new String(u.getInputStream().readAllBytes(), StandardCharsets.UTF_8));
  var c = HttpClient.newBuilder().proxy(ProxySelector.getDefault()).build();
  System.out.print(c.send(HttpRequest.newBuilder(URI.create(a[0])).build(), HttpResponse.BodyHandlers.ofString()).body());
} }
"""


@pytest.mark.parametrize("url", [f"https://{HOST}/data", "http://other.test/data"])
def test_java_through_the_relay(sandbox, relay, url):
    (sandbox.home / "Get.java").write_text(JAVA)
    answer = sandbox.run("java", "java", "Get.java", url, ask=("--relay", relay.at))
    passed(answer)
    assert (answer.stdout, sandbox.got()) == ("by your leave\n" * 2, ["/data"] * 2)


def test_maven_through_the_relay(sandbox, relay):
    (sandbox.home / "pom.xml").write_text(
        "<project><modelVersion>4.0.0</modelVersion><parent><groupId>test.exeat</groupId><artifactId>parent</artifactId><version>1</version>"
        f"<relativePath/></parent><artifactId>x</artifactId><packaging>pom</packaging><repositories><repository><id>central</id>"
        f"<url>https://{HOST}/maven</url></repository></repositories></project>")
    answer = sandbox.run("maven", "mvn", "-B", "-q", "-Dmaven.repo.local=repo", "validate", ask=("--relay", relay.at))
    passed(answer)
    assert sandbox.got()[0] == "/maven/test/exeat/parent/1/parent-1.pom"


def test_node_20_through_the_relay(sandbox, relay):
    """It reads no variable: a program that is told where the relay is needs no token of its own."""
    program = f"""
const http = require('http'), tls = require('tls');
const ask = http.request({{host: '127.0.0.1', port: {relay.port}, method: 'CONNECT', path: '{HOST}:443', headers: {{Host: '{HOST}:443'}}}});
ask.on('connect', (answer, socket) => {{
  const s = tls.connect({{socket, servername: '{HOST}'}}, () => s.write('GET /data HTTP/1.1\\r\\nHost: {HOST}\\r\\nConnection: close\\r\\n\\r\\n'));
  s.on('data', d => process.stdout.write(d));
}});
ask.end();
"""
    answer = sandbox.run("node20", "node", "-e", program, ask=("--relay", relay.at))
    passed(answer)
    assert answer.stdout.endswith("by your leave\n") and sandbox.got() == ["/data"]


# ---- exeat-credential

CREDENTIAL = EXEAT.parent / "exeat-credential"


def ask(question, *words, **more):
    return subprocess.run([str(w) for w in (CREDENTIAL, *words)], input=question, capture_output=True, text=True, timeout=PATIENCE,
                          env=clean_environment(**more))


@pytest.fixture
def token_file(tmp_path):
    f = tmp_path / "token.jwt"
    f.write_text("a.b.c\n")
    return f


HERE = "protocol=http\nhost=127.0.0.1:3128\n"


@pytest.mark.parametrize("what,question,says", [
    ("the gateway", HERE + "\n", "username=jwt\npassword=a.b.c\n"),
    ("without the empty line", HERE, "username=jwt\npassword=a.b.c\n"),
    ("a user's name is kept", HERE + "username=vm1\n\n", "username=vm1\npassword=a.b.c\n"),
    ("what it does not know is passed over", "capability[]=authtype\nwwwauth[]=Basic realm=\"x=y\"\n" + HERE + "\n", "username=jwt\npassword=a.b.c\n"),
    ("another port", "protocol=http\nhost=127.0.0.1:3129\n\n", ""),
    ("another host", "protocol=http\nhost=evil.test\n\n", ""),
    ("a host that starts like it", "protocol=http\nhost=127.0.0.1:3128.evil.test\n\n", ""),
    ("another protocol", "protocol=https\nhost=127.0.0.1:3128\n\n", ""),
    ("a host too long to be it", "protocol=http\nhost=127.0.0.1:3128" + "x" * 300 + "\n\n", ""),
    ("no host", "protocol=http\n\n", ""),
    ("nothing", "", ""),
])
def test_git_is_answered_for_the_gateway_alone(token_file, what, question, says):
    answer = ask(question, "--gateway", "127.0.0.1:3128", "--token-file", token_file, "get")
    assert (answer.returncode, answer.stdout) == (0, says), answer


@pytest.mark.parametrize("question", ["nonsense\n", "host=" + "x" * 2000 + "\n", "a=b\n" * 200])
def test_what_is_not_gits_way_of_asking_is_refused(token_file, question):
    assert ask(question, "--gateway", "127.0.0.1:3128", "--token-file", token_file, "get").returncode == 2


@pytest.mark.parametrize("word", ["store", "erase"])
def test_nothing_is_stored_or_erased(token_file, word):
    answer = ask(HERE + "password=x\n", "--gateway", "127.0.0.1:3128", "--token-file", token_file, word)
    assert (answer.returncode, answer.stdout, token_file.read_text()) == (0, "", "a.b.c\n")


def test_apt_is_told_the_proxy_with_the_token(token_file):
    settings = {"EXEAT_GATEWAY": "gw.test:3128", "EXEAT_TOKEN_FILE": str(token_file)}
    assert ask("", "https://deb.test/", **settings).stdout == "http://jwt:a.b.c@gw.test:3128/\n"
    token_file.write_text("d.e.f")
    assert ask("", "http://deb.test/", **settings).stdout == "http://jwt:d.e.f@gw.test:3128/\n"
    token_file.unlink()
    assert ask("", "http://deb.test/", **settings).returncode == 3  # and never DIRECT


@pytest.mark.parametrize("words,says", [
    (("get",), "--token-file FILE or $EXEAT_TOKEN_FILE is needed"),
    (("--token-file", "x", "get"), "--gateway HOST:PORT or $EXEAT_GATEWAY is needed"),
    (("--token-file", "x", "--gateway", "u@h:1", "get"), "--gateway HOST:PORT"),
    (("--token-file", "x", "--gateway", "h", "get"), "--gateway HOST:PORT"),
    (("--token-file", "x", "--gateway", "h:1"), "it wants get, store or erase"),
    (("--token-file", "x", "--gateway", "h:1", "ftp://x"), "not ftp://x"),
])
def test_what_the_helper_lacks_is_said(words, says):
    answer = ask("", *words)
    assert answer.returncode == 2 and says in answer.stderr


@pytest.fixture
def repository(sandbox, store):
    """Served as files ("dumb"), which git reads too."""
    git = ("git", "-c", "user.name=x", "-c", "user.email=x@y.test", "-c", "init.defaultBranch=main")
    for words in ((*git, "init", "-q", "work"), (*git, "-C", "work", "commit", "-q", "--allow-empty", "-m", "hello"),
                  (*git, "clone", "-q", "--bare", "work", "bare.git"), (*git, "-C", "bare.git", "update-server-info")):
        passed(sandbox.bare(*words))
    for file in (sandbox.home / "bare.git").rglob("*"):
        if file.is_file():
            store.add("/bare.git/" + str(file.relative_to(sandbox.home / "bare.git")), file.read_bytes())


def test_git_asks_the_helper_for_a_fresh_token(sandbox, repository):
    file, proxy = sandbox.home / "token.jwt", f"127.0.0.1:{sandbox.gateway.port}"
    file.write_text(sandbox.token)
    words = ("git", "-c", f"http.proxy=http://jwt@{proxy}", "-c",
             f"credential.http://{proxy}.helper={CREDENTIAL} --gateway {proxy} --token-file {file}")
    trust = {"GIT_SSL_CAINFO": str(sandbox.gateway.directory / "ca/root.pem")}
    passed(sandbox.bare(*words, "clone", "-q", f"https://{HOST}/bare.git", "clone", **trust))
    assert (sandbox.home / "clone/.git").exists()
    file.write_text(sandbox.gateway.token("all:read", sandbox=sandbox.name, lifetime="1s"))
    answer = sandbox.bare("sh", "-c", 'sleep 1.2; exec "$@"', "sh", *words, "-C", "clone", "fetch", "-q", **trust)
    assert answer.returncode != 0 and "407" in answer.stderr
    file.write_text(sandbox.token)
    passed(sandbox.bare(*words, "-C", "clone", "fetch", "-q", **trust))
    assert "token" not in (sandbox.home / "clone/.git/config").read_text()


def of_the_page(heading, sandbox, file, **elsewhere):
    """The shell lines of docs/clients.md below a heading, with this sandbox's places in place of the page's."""
    page = (TREE / "docs/clients.md").read_text().split(f"## {heading}\n", 1)[1]
    lines = re.search(r"(?ms)^```sh\n(.*?)^```", page)[1]
    places = {"127.0.0.1:3128": f"127.0.0.1:{sandbox.gateway.port}", "/usr/local/bin/exeat-credential": str(CREDENTIAL),
              "/run/exeat/token.jwt": str(file), "/etc/exeat/bundle.pem": str(sandbox.gateway.directory / "ca/root.pem"), **elsewhere}
    for there, here in places.items():
        assert there in lines, f"the page no longer says {there}"
        lines = lines.replace(there, here)
    return lines


def test_the_lines_for_git_and_the_helper(sandbox, repository):
    file, home = sandbox.home / "token.jwt", {"GIT_CONFIG_GLOBAL": str(sandbox.home / ".gitconfig")}
    passed(sandbox.bare("sh", "-ec", of_the_page("git, with a fresh token each run", sandbox, file), **home))
    assert sandbox.bare("git", "clone", "-q", f"https://{HOST}/bare.git", "clone", **home).returncode != 0  # there is no token yet
    file.write_text(sandbox.token)
    passed(sandbox.bare("git", "clone", "-q", f"https://{HOST}/bare.git", "clone", **home))
    assert (sandbox.home / "clone/.git").exists()


def test_the_lines_for_apt_and_the_helper(sandbox):
    apt, file, settings = Apt(sandbox, f"https://{HOST}/debian"), sandbox.home / "token.jwt", sandbox.home / "30exeat"
    lines = of_the_page("apt, with a fresh token each run", sandbox, file,
                        **{"/etc/apt/apt.conf.d/30exeat": str(settings), "apt-get update": shlex.join(apt.run("update", "-q", "--error-on=any"))})
    assert sandbox.bare("sh", "-ec", lines, APT_CONFIG=str(settings)).returncode != 0  # there is no token yet
    file.write_text(sandbox.token)
    passed(sandbox.bare("sh", "-ec", lines, APT_CONFIG=str(settings)))
    assert "/debian/dists/stable/InRelease" in sandbox.got() and sandbox.refused() == []


class Apt:
    """apt with nothing of this machine's: its own state, cache, sources and settings."""

    def __init__(self, sandbox, url):
        self.sandbox, top = sandbox, sandbox.home / "apt"
        for name in ("etc/apt/apt.conf.d", "state/lists/partial", "cache/archives/partial", "log"):
            (top / name).mkdir(parents=True)
        (top / "status").write_text("")
        (top / "sources.list").write_text(f"deb [trusted=yes arch=amd64] {url} stable main\n")
        settings = {"Dir": top, "Dir::Etc": top / "etc/apt", "Dir::Etc::sourcelist": top / "sources.list", "Dir::Etc::sourceparts": "-",
                    "Dir::State": top / "state", "Dir::State::status": top / "status", "Dir::Cache": top / "cache", "Dir::Log": top / "log",
                    "APT::Architecture": "amd64", "APT::Sandbox::User": "root", "Acquire::Languages": "none", "Acquire::Retries": "0",
                    "Debug::NoLocking": "true"}
        self.options = [w for k, v in settings.items() for w in ("-o", f"{k}={v}")]

    def run(self, *words, **more):
        return ("apt-get", *self.options, *words)


@pytest.mark.parametrize("url", [f"https://{HOST}/debian", "http://other.test/debian"])
def test_apt(sandbox, store, url):
    apt = Apt(sandbox, url)
    passed(sandbox.run("apt", *apt.run("update", "-q")))
    passed(sandbox.run("apt", *apt.run("download", "-q", "exeat-hello")))
    assert (sandbox.home / "exeat-hello_1.0_all.deb").read_bytes() == store.deb
    assert sandbox.refused() == []


@pytest.mark.parametrize("url", [f"https://{HOST}/debian", "http://other.test/debian"])
def test_apt_asks_the_helper_for_a_fresh_token(sandbox, store, url):
    apt, file = Apt(sandbox, url), sandbox.home / "token.jwt"
    lines = "\n".join(line for line in sandbox.lines("apt", "--listener", "explicit").splitlines() if "proxy" not in line.lower())
    more = {"EXEAT_GATEWAY": f"127.0.0.1:{sandbox.gateway.port}", "EXEAT_TOKEN_FILE": str(file)}
    detect = ("-o", f"Acquire::http::Proxy-Auto-Detect={CREDENTIAL}", "-o", f"Acquire::https::Proxy-Auto-Detect={CREDENTIAL}")
    file.write_text(sandbox.token)
    passed(sandbox.bare("/bin/sh", "-c", 'eval "$0"; exec "$@"', lines, *apt.run("update", "-q", *detect), **more))
    file.write_text(sandbox.gateway.token("all:read", sandbox=sandbox.name))
    passed(sandbox.bare("/bin/sh", "-c", 'eval "$0"; exec "$@"', lines, *apt.run("download", "-q", "exeat-hello", *detect), **more))
    assert (sandbox.home / "exeat-hello_1.0_all.deb").read_bytes() == store.deb
    assert sandbox.refused() == []
