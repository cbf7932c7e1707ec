"""Transparent listeners behind netfilter: what a sandbox in a network namespace sends by REDIRECT, by TPROXY, and to the gateway itself."""
import socket

import pytest

from conftest import BOTH, services
from gateway import PATIENCE, Wire
from origin import Origin
from steered import MEANT, WAYS, ask, site


# Addresses that the firewall steers, and that listeners of the gateway's own have.
OWN = {"redirect": "203.0.113.77", "tproxy": "198.51.100.77", "redirect6": "[2001:db8:1::77]", "tproxy6": "[2001:db8:2::77]"}
KINDS = {3140: "", 3141: ', tls: {{cert: "{cert}", key: "{key}"}}', 3142: ", sandbox: vm1", 3143: ", mode: transparent"}


@pytest.fixture(scope="module")
def here(tmp_path_factory, pki):
    with site() as s:
        with s.host.inside():
            s.origins = Origin(pki[1], pki[2]), Origin()
        for address in OWN.values():
            s.host.ip("addr", "add", f"{address.strip('[]')}/{128 if ':' in address else 32}", "dev", "lo", *(["nodad"] if ":" in address else []))
        s.start(tmp_path_factory.mktemp("steered") / "state", services(s.origins[0].port, s.origins[1].port, pki[0]),
                listen="".join(f'  own-{way}-{port}: {{address: "{address}:{port}"{more.format(cert=pki[1], key=pki[2])}}}\n'
                               for way, address in OWN.items() for port, more in KINDS.items()))
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


@pytest.mark.parametrize("port", KINDS, ids=["explicit", "tls", "bound", "transparent"])
@pytest.mark.parametrize("way", OWN)
def test_what_was_meant_for_a_listener_of_ours_goes_nowhere(here, way, port):
    """A rule steers to the transparent listener what is another listener's: to be mended there, not to be served as if it were meant."""
    meant, before = f"{OWN[way]}:{port}", sum(o.connections for o in here.origins)
    with here.client.inside():
        wire = Wire(socket.create_connection((OWN[way].strip("[]"), port), PATIENCE))
    wire.send(ask("registry.test", "/pkg/own", token(here, way)))
    assert wire.is_closed()
    record = here.gateway.wait_for(kind="connection", reason="loop_detected", meant=meant)[0]
    assert record["arrival"] == way.removesuffix("6") and record["detail"] == "it was meant for a listener of this gateway"
    assert sum(o.connections for o in here.origins) == before


@pytest.mark.parametrize("way", WAYS)
def test_plain_http_goes_to_the_service_by_its_host(here, way):
    port = 80
    wire = here.connect(way, port)
    wire.send(ask("registry.test", f"/pkg/plain-{way}", token(here, way)))
    assert wire.response().status == 200
    record = here.gateway.wait_for(kind="decision", action="allow")[-1]
    assert record["http"]["path"] == f"/pkg/plain-{way}" and record["meant"] == f"{MEANT[way]}:{port}"
