"""What `exeat handoffs` tells of where services send their clients on to; and real clients that are sent on, or kept from it."""
import base64
import gzip
import hashlib
import io
import json
import subprocess
import tarfile
import zipfile

import pytest

from gateway import PATIENCE, Gateway, clean_environment, exeat, free_port, wait_until
from origin import Origin
from registries import Images
from sends import answer, ask, origin, service, wait_for_edge

# ---- the graph


@pytest.fixture(scope="module")
def graph(tmp_path_factory, origin):
    """A gateway of its own, with some edges, which has stopped."""
    listed = service("npm", origin.port, 'hands-off-to: ["files.test"]') + service("held", origin.port, "handoff-edges: enforce")
    listed += service("files", origin.port, "hosts: [files.test]").replace("    hosts: [files.test]\n", "", 1)
    g = Gateway(tmp_path_factory.mktemp("graph") / "state", listed).start()
    token = g.token("web")
    tarballs = {"versions": {str(n): {"dist": {"tarball": f"http://files.test/{n}.tgz"}} for n in range(100)}}
    for fields in ("Location: https://files.test/a\r\n", "Location: http://u:p@odd.test:81/?X-Amz-Signature=a&X-Amz-Expires=900\r\n",
                   'Location: https://a"b\r\n', "Alt-Svc: h2=\"alt.test:443\"\r\n"):
        ask(g, token, origin, "npm.test", answer(fields=fields, status="302 Found", kind=""))
    ask(g, token, origin, "npm.test", answer(json.dumps(tarballs), "application/json"))
    ask(g, token, origin, "npm.test", answer("{]", "application/json"))
    ask(g, token, origin, "held.test", answer(fields="Location: https://evil.test/\r\n", status="302 Found"))
    assert g.stop() == 0
    return g


def handoffs(gateway, *words, status=0):
    ran = exeat("handoffs", *words, config=gateway.config, check=False)
    assert ran.returncode == status, ran.stdout + ran.stderr
    return ran.stdout


def test_the_graph_as_text(graph):
    lines = handoffs(graph).splitlines()
    assert lines[:4] == [
        "held", "  location          https://evil.test                               1  refused; no service lists it",
        '  to declare them: hands-off-to: ["evil.test"]', "npm"]
    assert "  dist.tarball      http://files.test                             100  declared; service files lists it" in lines
    assert "  location          https://files.test                              1  declared; no service lists it" in lines
    assert any(line.startswith("  location          http://odd.test:81") and line.endswith(
        "enforce would refuse it; no service lists it; with a user name in it; signed, for any method, 900 s") for line in lines)
    assert any("where it leads cannot be told for sure" in line for line in lines)
    assert any("alt.test" in line and "taken away by the gateway" in line for line in lines)
    assert any(line.startswith("  unread") and "brackets do not match" in line for line in lines)


def test_the_graph_as_json_and_dot(graph):
    found = [json.loads(line) for line in handoffs(graph, "--format", "json").splitlines()]
    assert {e["schema"] for e in found} == {"exeat.handoff/1"}
    [tarballs] = [e for e in found if e["kind"] == "dist.tarball"]
    assert (tarballs["host"], tarballs["count"], tarballs["listed"], tarballs["declared"]) == ("files.test", 100, "files", True)
    [evil] = [e for e in found if e["service"] == "held"]
    assert evil["refused"] and evil["enforce_would_refuse"] and not evil["declared"]
    dot = handoffs(graph, "--dot")
    assert dot.startswith("digraph") and '"npm" -> "http://files.test" [label="dist.tarball"];' in dot
    assert '"held" -> "https://evil.test" [label="location", color=red];' in dot and dot.count('"') % 2 == 0


def test_a_part_of_the_graph(graph):
    assert set(handoffs(graph, "--service", "held").split()) & {"npm", "files.test"} == set()
    assert handoffs(graph, "--since", "1h") == handoffs(graph) == handoffs(graph, "-d", graph.directory / "journal")
    assert handoffs(graph, "--since", "2099-01-01T00:00:00Z") == ""
    undeclared = handoffs(graph, "--undeclared", status=1)
    assert "evil.test" in undeclared and "alt.test" not in undeclared and "https://files.test" not in undeclared
    assert handoffs(graph, "--undeclared", "--service", "files") == ""


@pytest.mark.parametrize("words", [["--dot", "--format", "json"], ["--since", "yesterday"], ["-d", "/nowhere"], ["x"]])
def test_questions_that_make_no_sense(graph, words):
    ran = exeat("handoffs", *words, config=graph.config, check=False)
    assert ran.returncode in (2, 3) and ran.stdout == "" and ran.stderr.count("\n") == 1


def test_a_place_that_nobody_lists_is_warned_of(graph):
    ran = exeat("config", "check", config=graph.config)
    assert "services.npm sends clients on to files.test, which no service lists: they are refused there" in ran.stderr


# ---- real clients

OBSERVED, HELD, DECLARED_NPM, ELSEWHERE = "npm.registry.test", "git.registry.test", "registry.test", "other.test"
PIP, PIP_HELD = "pypi.registry.test", "upload.test"


def tarball():
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as t:
        for name, text in (("package.json", '{"name":"hello","version":"1.0.0"}'), ("index.js", "module.exports = 1\n")):
            entry = tarfile.TarInfo("package/" + name)
            entry.size, entry.mode = len(text), 0o644
            t.addfile(entry, io.BytesIO(text.encode()))
    return out.getvalue()


def wheel():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        z.writestr("hello_away.py", "WORD = 'away'\n")
        z.writestr("hello_away-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: hello-away\nVersion: 1.0\n")
        z.writestr("hello_away-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        z.writestr("hello_away-1.0.dist-info/RECORD", "")
    return out.getvalue()


TGZ, WHL = tarball(), wheel()
PACKUMENT = json.dumps({"name": "hello", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": {
    "name": "hello", "version": "1.0.0", "dist": {
        "tarball": f"https://{ELSEWHERE}/hello-1.0.0.tgz",
        "integrity": "sha512-" + base64.b64encode(hashlib.sha512(TGZ).digest()).decode()}}}})
INDEX = f'<html><body><a href="https://{ELSEWHERE}/hello_away-1.0-py3-none-any.whl">hello_away-1.0-py3-none-any.whl</a></body></html>'


def packed_if_wanted(request, body, kind):
    if "gzip" in (request.field("Accept-Encoding") or ""):
        return answer(gzip.compress(body.encode()), kind, fields="Content-Encoding: gzip\r\n")
    return answer(body, kind)


def registry_script(request):
    if request.field("Host").split(":")[0] == ELSEWHERE:
        return answer(TGZ if request.target.endswith("tgz") else WHL, "application/octet-stream")
    if request.target.startswith("/simple/"):
        return packed_if_wanted(request, INDEX, "text/html")
    return packed_if_wanted(request, PACKUMENT, "application/json")


@pytest.fixture(scope="module")
def clients(tmp_path_factory, pki):
    origin = Origin(pki[1], pki[2], script=registry_script)
    listed = ""
    for name, host, more in [
            ("npm", OBSERVED, "preset: npm-read"), ("npm-held", HELD, "preset: npm-read\n    handoff-edges: enforce"),
            ("npm-declared", DECLARED_NPM, f"preset: npm-read\n    handoff-edges: enforce\n    hands-off-to: [{ELSEWHERE}]"),
            ("elsewhere", ELSEWHERE, 'allow: ["GET,HEAD /**"]'), ("pypi", PIP, "preset: pypi-read"),
            ("pypi-held", PIP_HELD, "preset: pypi-read\n    handoff-edges: enforce")]:
        listed += f"""
  {name}:
    hosts: [{host}]
    addresses: ["127.0.0.1:{origin.port}"]
    ca-file: {pki[0]}
    scope: web
    audit: "waived: test"
    {more}
"""
    g = Gateway(tmp_path_factory.mktemp("handoff-clients") / "state", listed).start()
    g.origin = origin
    yield g
    assert g.stop() == 0, g.output().decode()
    origin.close()


def run_client(gateway, home, client, *words, **more):
    lines = exeat("env", "--client", client, "--with-token", "-", config=gateway.config, stdin=gateway.token("web", sandbox=home.name)).stdout
    environment = clean_environment(HOME=str(home), npm_config_audit="false", npm_config_fund="false", npm_config_fetch_retries="0",
                                    PIP_DISABLE_PIP_VERSION_CHECK="1", PIP_NO_CACHE_DIR="1", PIP_RETRIES="0", **more)
    gateway.origin.clear()
    return subprocess.run(["/bin/sh", "-c", 'eval "$0"; exec "$@"', lines, *words], env=environment, cwd=home, text=True,
                          capture_output=True, timeout=2 * PATIENCE, stdin=subprocess.DEVNULL)


def asked(gateway):
    return [f"{r.field('Host')}{r.target}" for r in gateway.origin.requests]


@pytest.mark.parametrize("host", [OBSERVED, DECLARED_NPM])
def test_npm_installs_from_where_it_is_sent_on_to(clients, tmp_path, host):
    ran = run_client(clients, tmp_path, "npm", "npm", "install", "hello", npm_config_registry=f"https://{host}/")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert asked(clients) == [f"{host}/hello", f"{ELSEWHERE}/hello-1.0.0.tgz"]
    name = "npm" if host == OBSERVED else "npm-declared"
    edge = wait_for_edge(clients, name, kind="dist.tarball")
    assert (edge["host"], edge["listed"], edge["declared"]) == (ELSEWHERE, "elsewhere", host == DECLARED_NPM)


def test_npm_hears_of_no_place_that_is_not_declared(clients, tmp_path):
    ran = run_client(clients, tmp_path, "npm", "npm", "install", "hello", npm_config_registry=f"https://{HELD}/")
    assert ran.returncode != 0 and not (tmp_path / "node_modules/hello").exists()
    assert "502 exeat handoff_undeclared" in ran.stderr and not [a for a in asked(clients) if a.startswith(ELSEWHERE)]
    [result] = wait_until(lambda: clients.records(kind="result", service="npm-held", reason="handoff_undeclared"), "the refusal")[:1]
    why = exeat("why", result["id"], config=clients.config).stdout
    assert f"dist.tarball to https://{ELSEWHERE}" in why and "hands-off-to" in why, why


def test_pip_installs_from_where_it_is_sent_on_to(clients, tmp_path):
    ran = run_client(clients, tmp_path, "pip", "/usr/bin/python3", "-m", "pip", "install", "--target", "here", "hello-away",
                     PIP_INDEX_URL=f"https://{PIP}/simple/")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert (tmp_path / "here/hello_away.py").exists()
    assert wait_for_edge(clients, "pypi", kind="html.a")["host"] == ELSEWHERE


def test_pip_hears_of_no_place_that_is_not_declared(clients, tmp_path):
    ran = run_client(clients, tmp_path, "pip", "/usr/bin/python3", "-m", "pip", "install", "--target", "here", "hello-away",
                     PIP_INDEX_URL=f"https://{PIP_HELD}/simple/")
    assert ran.returncode != 0 and not [a for a in asked(clients) if a.startswith(ELSEWHERE)]
    assert wait_for_edge(clients, "pypi-held", kind="html.a")["refused"] is True


def test_an_upload_goes_on_where_the_registry_says(pki, tmp_path):
    """docker-registry that names another host for its uploads: skopeo follows, unless that is not declared."""
    images = Images.__new__(Images)
    images.directory, port = tmp_path, free_port()
    images.layout()
    (tmp_path / "registry.yml").write_text(json.dumps({
        "version": 0.1, "storage": {"filesystem": {"rootdirectory": str(tmp_path / "images")}},
        "http": {"addr": f"127.0.0.1:{port}", "host": f"https://{ELSEWHERE}", "secret": "x",
                 "tls": {"certificate": str(pki[1]), "key": str(pki[2])}}}))
    listed = "".join(f"""
  {name}:
    hosts: [{host}]
    addresses: ["127.0.0.1:{port}"]
    ca-file: {pki[0]}
    allow: ["GET,HEAD,POST,PUT,PATCH /v2/**"]
    handoff-edges: {mode}
    scope: web
    audit: "waived: test"
""" for name, host, mode in [("images", "registry.test", "observe"), ("held", "upload.test", "enforce"), ("elsewhere", ELSEWHERE, "enforce")])
    with open(tmp_path / "registry.log", "wb") as log:
        registry = subprocess.Popen(["docker-registry", "serve", tmp_path / "registry.yml"], stdout=log, stderr=log)
    g = Gateway(tmp_path / "state", listed).start()
    g.origin = Origin()  # nobody asks it
    try:
        wait_until(lambda: b"listening on" in (tmp_path / "registry.log").read_bytes(), "docker-registry")
        held = run_client(g, tmp_path, "skopeo", "skopeo", "--insecure-policy", "copy", "dir:image", "docker://upload.test/team/hello:1")
        assert held.returncode != 0 and not (tmp_path / "images/docker/registry/v2/blobs").exists(), held.stderr
        assert wait_for_edge(g, "held", kind="upload", refused=True)["host"] == ELSEWHERE
        ran = run_client(g, tmp_path, "skopeo", "skopeo", "--insecure-policy", "copy", "dir:image", "docker://registry.test/team/hello:1")
        assert ran.returncode == 0, ran.stdout + ran.stderr
        edge = wait_for_edge(g, "images", kind="upload")
        assert (edge["host"], edge["listed"], edge["declared"]) == (ELSEWHERE, "elsewhere", False)
        assert wait_for_edge(g, "elsewhere", kind="upload")["declared"] is True  # its own host
    finally:
        registry.terminate()
        registry.wait(PATIENCE)
        g.origin.close()
        assert g.stop() == 0, g.output().decode()
