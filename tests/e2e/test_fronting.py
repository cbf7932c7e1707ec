"""
Real clients with no proxy settings, in a namespace whose only way out is the gateway: they install by REDIRECT, by TPROXY, and from
names that lead to the gateway. They are set up as docs/clients.md says: with the leave token where they keep a registry's password; what
the registry sees is the gateway's own credential.
"""
import pytest

from fronted import WAYS, Sandbox, listed, page
from origin import Origin, make_pki
from registries import DEBIAN, HOSTS, MAVEN, NPM, OCI, PYPI, WORDS, Registries
from steered import site
from test_env import passed
from test_presets import GOT, POM, pip  # noqa: F401

PLAIN = """
  debian-plain: {{preset: debian-read, hosts: [{host}], plain-ports: [80], addresses: ["127.0.0.1:{port}"], scope: "all:read", audit: "waived: test"}}
"""


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    top = tmp_path_factory.mktemp("fronting")
    pki = make_pki(top, HOSTS)
    with site("fr") as s:
        with s.host.inside():
            s.registries = r = Registries(top, pki)
            plain = Origin(script=r[DEBIAN].script)
        s.start(top / "state", listed(top, r, pki[0]) + listed(top, r, pki[0], {NPM: "npm-read", OCI: "oci-pull"}, port=8443, mark="-ported") +
                PLAIN.format(host=DEBIAN, port=plain.port))
        s.plain = plain
        yield s
        r.stop()
        plain.close()


@pytest.fixture(params=WAYS)
def sandbox(here, tmp_path, request):
    s = Sandbox(here, request.param, tmp_path)
    yield s
    allowed = here.gateway.records(kind="decision", action="allow", sandbox=s.name)
    assert allowed and {r["arrival"] for r in allowed} == {s.way}


@pytest.fixture
def programs(sandbox, pip):  # noqa: F811
    sandbox.put_programs(pip)


def test_npm_installs(sandbox):
    passed(sandbox.type(page("npm")))
    assert (sandbox.home / GOT["npm"]).exists() and "GET /exeat-hello" in sandbox.seen()


def test_pip_installs(sandbox, programs):
    passed(sandbox.type(page("pip")))
    assert (sandbox.home / GOT["pip"]).exists() and "GET /simple/exeat-hello/" in sandbox.seen()


def test_apt_installs(sandbox, programs):
    passed(sandbox.type(page("apt")))
    assert list(sandbox.home.glob(GOT["apt"])) and sandbox.seen()


def test_git_clones_after_the_challenge(sandbox):
    """git's own default: no credential before a 401 has asked for it."""
    passed(sandbox.type(page("git")))
    assert (sandbox.home / GOT["git"]).read_text() == WORDS and sandbox.seen()


def test_skopeo_logs_in_and_pulls(sandbox, programs):
    passed(sandbox.type(page("skopeo")))
    assert (sandbox.home / "hello" / sandbox.registries.images.layer.split(":")[1]).exists()


def test_maven_resolves_after_the_challenge(sandbox):
    (sandbox.home / "pom.xml").write_text(POM)
    passed(sandbox.type(page("Maven"), MAVEN_OPTS=f"-XX:TieredStopAtLevel=1 -Duser.home={sandbox.home}"))
    assert list(sandbox.home.glob(GOT["Maven"])) and "GET /maven2/test/exeat/hello/1/hello-1.jar" in sandbox.seen()
    refused = sandbox.here.gateway.records(kind="decision", action="deny", reason="token_missing", arrival=sandbox.way)
    assert any(r["http"]["host"] == MAVEN for r in refused)


def test_curl_with_a_netrc(sandbox):
    (sandbox.home / ".netrc").write_text(f"machine {PYPI} login jwt password {sandbox.token}\n")
    passed(sandbox.run("curl", "-sS", "-n", "--fail-with-body", "--cacert", sandbox.here.gateway.root, f"https://{PYPI}/simple/exeat-hello/"))
    assert sandbox.seen() == ["GET /simple/exeat-hello/"]


def test_by_the_lines_of_env_at_another_port(here, tmp_path):
    """npm and skopeo keep a token for host and port: the line for 443 is none for 8443."""
    s = Sandbox(here, "redirect", tmp_path)
    view = f'eval "$(exeat env --client npm --transparent)"; npm view --registry=https://{NPM}:8443/ exeat-hello version'
    (tmp_path / ".npmrc").write_text(s.line("npm", f"//{NPM}/") + "\n")
    assert "E401" in s.type(view).stderr
    (tmp_path / ".npmrc").write_text(s.line("npm", f"//{NPM}:8443/") + "\n")
    passed(answer := s.type(view))
    assert answer.stdout == "1.0.0\n"
    inspect = 'eval "$(exeat env --client skopeo --transparent)"; skopeo inspect --raw docker://'
    passed(s.type(f'eval "$(exeat env --client skopeo --transparent)"; {s.line("skopeo", f"{OCI}:8443")} <vm1.jwt'))
    passed(s.type(f"{inspect}{OCI}:8443/team/hello:1"))
    assert s.type(f"{inspect}{OCI}/team/hello:1").returncode


def test_apt_by_plain_http(here, tmp_path, pip):  # noqa: F811
    """apt keeps a token for https, unless the line says that it is for http."""
    s = Sandbox(here, "redirect", tmp_path)
    s.put_programs(pip)
    said = page("apt").replace("https://", "http://")
    assert s.type(said).returncode == 100 and not here.plain.requests
    passed(s.type(said.replace('"machine ', '"machine http://')))
    assert s.line("apt", f"http://{DEBIAN}") == f"machine http://{DEBIAN} login jwt password {s.token}"
    assert list(tmp_path.glob(GOT["apt"])) and all(r.field("authorization") is None for r in here.plain.requests)


def test_what_no_service_lists_is_not_reached(here, tmp_path):
    """By name, by address, or in plain, and with a good token."""
    s = Sandbox(here, "redirect", tmp_path)
    before = here.registries.origin.connections
    for url, code in (("https://elsewhere.test/", 35), ("https://203.0.113.10/", 35), ("http://203.0.113.10/", 22)):
        r = s.run("curl", "-sS", "-f", "--cacert", here.gateway.root, "--resolve", "elsewhere.test:443:203.0.113.10", "-u", f"jwt:{s.token}", url)
        assert r.returncode == code, (url, r.returncode, r.stderr)
    assert here.registries.origin.connections == before
