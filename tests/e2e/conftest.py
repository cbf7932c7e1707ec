from pathlib import Path

import pytest

from gateway import Gateway, free_port
from origin import Origin, make_pki

ALLOWED = Path(__file__).parent.parent / "skips.allowed"
skipped = []  # for a reason that is not allowed

# What takes longest begins first, so that at the end no process is left working alone.
LONGEST = ["limits", "firewall", "jail", "pipelines", "lifetimes", "clients", "presets", "faults", "bound", "clock", "hostile", "conformance",
           "firewall_drift", "dns", "handoff", "env", "exhaustion", "quarantine", "processes", "audit", "reload", "event_streams", "fronting"]


def pytest_configure(config):
    config.addinivalue_line("markers", "alone: it measures, so nothing else may run beside it")


def pytest_collection_modifyitems(items):
    places = {f"test_{name}": place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path.stem, len(places)))


def pytest_runtest_logreport(report):
    if report.skipped and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2].removeprefix("Skipped: ")
        if reason not in ALLOWED.read_text().splitlines():
            skipped.append(f"{report.nodeid}: {reason}")


def pytest_sessionfinish(session):
    if skipped:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter):
    for line in skipped:
        terminalreporter.write_line(f"skipped for a reason that tests/skips.allowed does not name: {line}", red=True)


NAMES = ["registry.test", "upload.test", "other.test", "pypi.registry.test", "npm.registry.test", "git.registry.test"]

# A fixed address has one port, so that each host is two services: one for TLS, one for plain HTTP.
SERVICE = """
  {name}-{kind}:
    hosts: [{name}.test]
    {ports}: [{port}]
    addresses: ["127.0.0.1:{origin}"]
    allow: {rules}
    scope: {scope}
    audit: "waived: test"
"""
RULES = {"registry": '["GET,HEAD /pkg/**"]', "upload": '["POST,PUT /up/**", "GET /up/**"]'}
SCOPES = {"registry": "registry:read", "upload": "upload:write"}
BOTH = "registry:read upload:write"


def services(tls_port, plain_port, ca, body="1m"):
    out = ""
    for name in RULES:
        limit = f"    body: {body}\n" if name == "upload" else ""
        common = {"name": name, "rules": RULES[name], "scope": SCOPES[name]}
        out += SERVICE.format(kind="tls", ports="ports", port=443, origin=tls_port, **common)
        out += f"    ca-file: {ca}\n" + limit
        out += SERVICE.format(kind="plain", ports="plain-ports", port=80, origin=plain_port, **common) + limit
    return out


@pytest.fixture(scope="session")
def pki(tmp_path_factory):
    return make_pki(tmp_path_factory.mktemp("pki"), NAMES)


@pytest.fixture(scope="module")
def origins(pki):
    tls, plain = Origin(pki[1], pki[2]), Origin()
    yield tls, plain
    tls.close()
    plain.close()


@pytest.fixture(scope="module")
def gateway(tmp_path_factory, pki, origins, request):
    directory = tmp_path_factory.mktemp("gw") / "state"
    body = getattr(request.module, "BODY_LIMIT", "1m")
    listed = services(origins[0].port, origins[1].port, pki[0], body)
    g = Gateway(directory, listed, extra=getattr(request.module, "EXTRA", ""))
    g.start()
    yield g
    status = g.stop()
    print(g.output().decode()[-4000:])
    assert status == 0, "the gateway did not stop in order"


@pytest.fixture
def token(gateway):
    return gateway.token(BOTH)


@pytest.fixture
def tunnel(gateway, token):
    wire = gateway.tunnel("registry.test", token)
    yield wire
    wire.close()


@pytest.fixture(autouse=True)
def fresh(origins):
    for origin in origins:
        origin.clear()
