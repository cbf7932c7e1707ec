"""
Real clients with no proxy settings, in a namespace whose only way out is the gateway: they install by REDIRECT, by TPROXY, and from
names that lead to the gateway. They are set up as docs/clients.md says: with the leave token where they keep a registry's password; what
the registry sees is the gateway's own credential.
"""
import base64
import json
import socket
import subprocess
import time
import uuid
from contextlib import closing
from urllib.parse import parse_qs

import jwt
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from fronted import WAYS, Sandbox, listed, page
from gateway import PATIENCE, clean_environment, exeat, free_port, wait_until
from names import Names
from origin import Origin, make_pki
from registries import DEBIAN, HOSTS, MAVEN, NPM, OCI, PYPI, WORDS, Registries
from steered import site
from store import answer
from test_env import passed
from test_presets import GOT, POM, pip  # noqa: F401

PLAIN = """
  debian-plain: {{preset: debian-read, hosts: [{host}], plain-ports: [80], addresses: ["127.0.0.1:{port}"], scope: "all:read", audit: "waived: test"}}
"""


REALM, AUTH = "realm.registry.test", "auth.registry.test"
WITH_REALM = """
  realm: {{preset: oci-pull, hosts: [{realm}], addresses: ["127.0.0.1:{port}"], ca-file: {ca}, client-credentials: allow, scope: "all:read", audit: "waived: test"}}
  tokens: {{hosts: [{auth}], addresses: ["127.0.0.1:{tokens}"], ca-file: {ca}, allow: ["GET /token?scope=*&service=*"], scope: "all:read", audit: "waived: test"}}
"""


class RealmRegistry:
    """The images again, behind docker-registry's token authentication and the server that gives out its tokens."""

    def __init__(self, top, pki, images):
        self.certificate, self.key, self.port = x509.load_pem_x509_certificate(pki[1].read_bytes()), pki[2].read_bytes(), free_port()
        token = {"realm": f"https://{AUTH}/token", "service": REALM, "issuer": AUTH, "rootcertbundle": str(pki[0])}
        config = {"version": 0.1, "storage": {"filesystem": {"rootdirectory": str(images.directory / "images")}}, "auth": {"token": token},
                  "http": {"addr": f"127.0.0.1:{self.port}", "secret": "x", "tls": {"certificate": str(pki[1]), "key": str(pki[2])}}}
        (top / "realm.yml").write_text(json.dumps(config))
        self.log = open(top / "realm.log", "wb")
        self.process = subprocess.Popen(["docker-registry", "serve", top / "realm.yml"], stdout=self.log, stderr=self.log,
                                        env=clean_environment(HOME=str(top)))
        wait_until(lambda: b"listening on" in (top / "realm.log").read_bytes() or self.process.poll() is not None, "docker-registry")
        self.tokens = Origin(pki[1], pki[2], script=self.give)

    def give(self, request):
        scope = parse_qs(request.target.partition("?")[2]).get("scope", [""])[0].split(":")
        access = [{"type": scope[0], "name": scope[1], "actions": scope[2].split(",")}] if len(scope) == 3 else []
        now = int(time.time())
        said = {"iss": AUTH, "aud": REALM, "sub": "", "iat": now, "nbf": now - 5, "exp": now + 300, "jti": str(uuid.uuid4()), "access": access}
        chain = [base64.b64encode(self.certificate.public_bytes(Encoding.DER)).decode()]
        return answer("application/json", json.dumps({"token": jwt.encode(said, self.key, "ES256", {"x5c": chain})}).encode())

    def stop(self):
        self.process.terminate()
        self.process.wait(PATIENCE)
        self.tokens.close()
        self.log.close()


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    top = tmp_path_factory.mktemp("fronting")
    pki = make_pki(top, [*HOSTS, REALM, AUTH])
    with site("fr") as s:
        with s.host.inside():
            s.registries = r = Registries(top, pki)
            plain = Origin(script=r[DEBIAN].script)
            realm = RealmRegistry(top, pki, r.images)
        s.host.ip("addr", "add", "10.66.0.9/32", "dev", "lo")
        s.file = top / "bound.jwt"
        s.file.touch(0o600)
        s.start(top / "state", listed(top, r, pki[0]) + listed(top, r, pki[0], {NPM: "npm-read", OCI: "oci-pull"}, port=8443, mark="-ported") +
                PLAIN.format(host=DEBIAN, port=plain.port) +
                WITH_REALM.format(realm=REALM, auth=AUTH, port=realm.port, tokens=realm.tokens.port, ca=pki[0]) +
                'dns:\n  own: {address: "10.66.0.1:53", answer: 10.66.0.1}\n  six: {address: "10.66.0.9:53", answer: "fd66::1"}\n',
                listen=f'  bound: {{address: "10.66.0.9:443", mode: transparent, sandbox: bound, token-file: "{s.file}"}}\n')
        s.plain, s.realm, s.pki = plain, realm, pki
        yield s
        realm.stop()
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


PULL = f'eval "$(exeat env --client skopeo --transparent)"; skopeo copy docker://{REALM}/team/hello:1 dir:hello'


def test_a_registry_with_a_token_server_wants_the_field_that_the_leave_token_is_in(here, tmp_path, pip):  # noqa: F811
    """Its own 401 comes through, for who shows the leave token in Authorization can show it no other; nothing asks the token server."""
    s = Sandbox(here, "redirect", tmp_path)
    s.put_programs(pip)
    here.names("redirect", REALM, AUTH)
    login = s.type(f'eval "$(exeat env --client skopeo --transparent)"; {s.line("skopeo", REALM)} <vm1.jwt')
    assert login.returncode and "invalid username/password" in login.stderr
    assert s.type(PULL).returncode and not here.realm.tokens.requests
    allowed = here.gateway.records(kind="decision", action="allow", sandbox=s.name)
    assert allowed and {r["http"]["path"] for r in allowed} == {"/v2/"}


def test_a_listener_with_a_token_file_leaves_the_field_to_the_registry(here, tmp_path, pip):  # noqa: F811
    s = Sandbox(here, "redirect", tmp_path)
    s.put_programs(pip)
    here.client.resolve(f"10.66.0.9 {REALM}\n10.66.0.9 {AUTH}\n")
    here.file.write_text(here.gateway.token("all:read", "bound"))
    wait_until(lambda: s.type(PULL).returncode == 0, "the token of the file")
    assert (tmp_path / "hello" / s.registries.images.layer.split(":")[1]).exists()
    assert all(r.field("authorization") is None for r in here.realm.tokens.requests) and here.realm.tokens.requests
    allowed = here.gateway.records(kind="decision", action="allow", sandbox="bound")
    assert {r["http"]["host"] for r in allowed} == {REALM, AUTH} and {r["listener"] for r in allowed} == {"bound"}


# ---- exeat doctor


class Examined(Sandbox):
    def doctor(self, url=f"https://{NPM}", client="npm", token="vm1.jwt", before="", **more):
        words = f"exeat doctor --client {client} --transparent {url} {f'--with-token {token}' if token else ''} --format json"
        answer = self.type(f'eval "$(exeat env --client {client} --transparent)"; {before}{words}', **more)
        said = json.loads(answer.stdout)
        assert said["ok"] == (answer.returncode == 0) and self.token not in answer.stdout
        found = {c["check"]: c for c in said["checks"]}
        assert all(bool(c.get("fix")) == (c["state"] != "ok") for c in found.values())
        return found, [name for name, c in found.items() if c["state"] == "wrong"]


@pytest.mark.parametrize("way, client", [("redirect", "npm"), ("tproxy", "git"), ("direct", "maven"), ("direct", "skopeo")])
def test_doctor_finds_nothing_wrong(here, tmp_path, way, client):
    found, wrong = Examined(here, way, tmp_path).doctor(client=client)
    assert wrong == [] and {"proxy", "dns", "leaf", "gateway", "clock", "token", "leave", "scope", "trust"} <= set(found)


@pytest.mark.parametrize("client, file", [("npm", ".npmrc"), ("git", ".netrc"), ("maven", ".m2/settings.xml")])
def test_doctor_looks_where_the_client_keeps_its_token(here, tmp_path, client, file):
    s = Examined(here, "redirect", tmp_path)
    (tmp_path / file).parent.mkdir(exist_ok=True)
    kept = s.line(client, NPM)
    (tmp_path / file).write_text(kept + "\n")
    found, wrong = s.doctor(client=client, token=None)
    assert wrong == [] and file in found["kept"]["says"] and found["token"]["state"] == "ok"
    (tmp_path / file).write_text(kept.replace(NPM, "other.test") + "\n")
    found, wrong = s.doctor(client=client, token=None)
    assert wrong == ["leave"] and found["kept"]["state"] == "unknown" and "exeat env" in found["kept"]["fix"]


AUTHS = {
    "docker": ({}, ".docker/config.json"),
    "docker elsewhere": ({"DOCKER_CONFIG": "{home}/d"}, "d/config.json"),
    "skopeo": ({"XDG_RUNTIME_DIR": "{home}/run"}, "run/containers/auth.json"),
    "skopeo by a variable": ({"REGISTRY_AUTH_FILE": "{home}/own.json"}, "own.json"),
    "skopeo with docker's": ({"XDG_RUNTIME_DIR": "{home}/run"}, ".docker/config.json"),
}


@pytest.mark.parametrize("name", AUTHS)
def test_doctor_reads_what_docker_and_skopeo_login_wrote(here, tmp_path, name):
    s, (variables, file), client = Examined(here, "redirect", tmp_path), AUTHS[name], name.split()[0]
    before = "".join(f"export {k}={v.format(home=tmp_path)}; " for k, v in variables.items())

    def keep(host, password, key="auth"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(json.dumps({"auths": {"elsewhere.test": {"auth": "eA=="}, host: {key: base64.b64encode(f"jwt:{password}".encode()).decode()}}}))

    is_first = name == "docker"  # what is in the file is read alike, wherever it is
    for host in (NPM, f"https://{NPM}") if is_first else (NPM,):
        keep(host, s.token)
        found, wrong = s.doctor(client=client, token=None, before=before)
        assert wrong == [] and file in found["kept"]["says"] and found["token"]["state"] == "ok"
    for host, password, key in (("other.test", s.token, "auth"), (NPM, s.token, "identitytoken"), (f"{NPM}:8443", s.token, "auth")) if is_first else ():
        keep(host, password, key)
        found, wrong = s.doctor(client=client, token=None, before=before)
        assert wrong == ["leave"] and found["kept"]["state"] == "unknown" and file in found["kept"]["says"]
    for text in () if not is_first else ("", "[]", '{"auths": []}', '{"auths": {"%s": {"auth": "%%%%"}}}' % NPM, '{"auths": {"%s": {"auth": "and0"}}}' % NPM):
        (tmp_path / file).write_text(text)
        found, wrong = s.doctor(client=client, token=None, before=before)
        assert wrong == ["leave"] and found["kept"]["state"] == "unknown"
    keep(NPM, "hunter2")
    found, wrong = s.doctor(client=client, token=None, before=before)
    assert set(wrong) == {"token", "leave"}, found


def test_doctor_names_the_one_thing_that_is_wrong(here, tmp_path):
    s = Examined(here, "redirect", tmp_path)
    (tmp_path / "old.jwt").write_text(here.gateway.token("all:read", "sb-old", lifetime="1s"))
    (tmp_path / "odd.jwt").write_text(here.gateway.token("other:read", "sb-odd"))
    (tmp_path / "bad.jwt").write_text(here.gateway.token("all:read", "sb-bad"))
    exeat("token", "revoke", "-", config=here.gateway.config, stdin=(tmp_path / "bad.jwt").read_text())
    for wanted, says, more in [
        ("proxy", "https_proxy names a proxy", {"https_proxy": "http://127.0.0.1:1"}),
        ("proxy", "JAVA_TOOL_OPTIONS names a proxy", {"client": "maven", "before": 'JAVA_TOOL_OPTIONS="$JAVA_TOOL_OPTIONS -Dhttps.proxyHost=x"; '}),
        ("dns", "nowhere.registry.test", {"url": "https://nowhere.registry.test"}),
        ("gateway", "no TLS with that name", {"url": f"https://{NPM}:9443"}),
        ("gateway", "no TLS with that name", {"url": f"https://{NPM}:80"}),
        ("leave", "token_revoked", {"token": "bad.jwt"}),
        ("leave", "token_missing", {"token": None}),
        ("scope", "no service", {"token": "odd.jwt"}),
        ("trust", "is not in", {"before": f"export npm_config_cafile={here.pki[0]}; "}),
    ]:
        found, wrong = s.doctor(**more)
        assert wrong == [wanted] and says in found[wanted]["says"], (wanted, found)
    wait_until(lambda: s.doctor(token="old.jwt")[1] == ["token"], "the end of a token")


def test_doctor_asks_the_name_servers(here, tmp_path):
    s = Examined(here, "direct", tmp_path)
    here.client.resolve(servers=["10.66.0.1"])
    found, wrong = s.doctor()
    assert wrong == [] and found["resolver"]["says"] == f"10.66.0.1 is a DNS listener of the gateway's, and leads {NPM} to 10.66.0.1"
    found, wrong = s.doctor(url="https://Elsewhere.test")
    assert wrong == ["resolver", "dns"] and found["resolver"]["says"] == "10.66.0.1, a DNS listener of the gateway's, says host_not_listed of elsewhere.test"
    assert "resolver" not in s.doctor(url="https://10.66.0.1")[0]
    here.client.resolve(servers=["10.66.0.9"])
    assert "leads " + NPM + " to fd66::1" in s.doctor()[0]["resolver"]["says"]
    hosts = f"10.66.0.1 {NPM}\n"
    with here.client.inside(), closing(Names(port=53)), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.2", 53))
        for server, says in (("127.0.0.1", "127.0.0.1 is no DNS listener of a gateway's"), ("127.0.0.2", "127.0.0.2: no answer")):
            here.client.resolve(hosts, servers=[server])
            found, wrong = s.doctor()
            assert wrong == [] and found["resolver"]["state"] == "unknown" and found["resolver"]["says"] == says
    here.client.resolve(hosts)
    found, wrong = s.doctor()
    assert wrong == [] and found["resolver"]["state"] == "unknown" and "names no server" in found["resolver"]["says"]


def test_doctor_knows_when_a_name_leads_past_the_gateway(here, tmp_path):
    s = Examined(here, "redirect", tmp_path)
    with here.client.inside():
        other = Origin(here.pki[1], here.pki[2])
    here.client.resolve(f"127.0.0.1 {NPM}\n")
    found, wrong = s.doctor(url=f"https://{NPM}:{other.port}")
    assert wrong == ["leaf", "gateway"] and "something else answers" in found["gateway"]["says"]
    other.close()
    found, wrong = s.doctor(url=f"https://{NPM}:{other.port}")
    assert wrong == ["gateway"] and "refused" in found["gateway"]["says"]


def test_what_no_service_lists_is_not_reached(here, tmp_path):
    """By name, by address, or in plain, and with a good token."""
    s = Sandbox(here, "redirect", tmp_path)
    before = here.registries.origin.connections
    for url, code in (("https://elsewhere.test/", 35), ("https://203.0.113.10/", 35), ("http://203.0.113.10/", 22)):
        r = s.run("curl", "-sS", "-f", "--cacert", here.gateway.root, "--resolve", "elsewhere.test:443:203.0.113.10", "-u", f"jwt:{s.token}", url)
        assert r.returncode == code, (url, r.returncode, r.stderr)
    assert here.registries.origin.connections == before
