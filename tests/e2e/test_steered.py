"""Transparent listeners behind netfilter: what a sandbox in a network namespace sends by REDIRECT, by TPROXY, and to the gateway itself."""
import pytest

from conftest import BOTH, services
from origin import Origin
from steered import MEANT, WAYS, ask, site


@pytest.fixture(scope="module")
def here(tmp_path_factory, pki):
    with site() as s:
        with s.host.inside():
            s.origins = Origin(pki[1], pki[2]), Origin()
        s.start(tmp_path_factory.mktemp("steered") / "state", services(s.origins[0].port, s.origins[1].port, pki[0]))
        s.tokens = {False: s.gateway.token(BOTH, "sb-1"), True: s.gateway.token(BOTH, "sb-6")} # each is pinned to its first address
        yield s
        for o in s.origins:
            o.close()


def token(here, way="redirect"):
    return here.tokens[way.endswith("6")]


@pytest.mark.parametrize("way", WAYS)
def test_tls_goes_to_the_service_by_its_name(here, way):
    wire = here.tls(way)
    wire.send(ask("registry.test", f"/pkg/{way}", token(here, way)))
    assert wire.response().status == 200
    record = here.gateway.wait_for(kind="decision", action="allow")[-1]
    assert record["http"]["host"] == "registry.test" and record["http"]["path"] == f"/pkg/{way}"
    assert record["arrival"] == way.removesuffix("6") and record["meant"] == f"{MEANT[way]}:443"


@pytest.mark.parametrize("way", WAYS)
def test_plain_http_goes_to_the_service_by_its_host(here, way):
    port = 80
    wire = here.connect(way, port)
    wire.send(ask("registry.test", f"/pkg/plain-{way}", token(here, way)))
    assert wire.response().status == 200
    record = here.gateway.wait_for(kind="decision", action="allow")[-1]
    assert record["http"]["path"] == f"/pkg/plain-{way}" and record["meant"] == f"{MEANT[way]}:{port}"
