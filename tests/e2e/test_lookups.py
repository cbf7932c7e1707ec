"""
Answers of name servers that are late, forged, cut, looped, huge or change from one to the next: each look-up is checked anew, and
only a good address of the name that was asked for is dialled. As root, in a network namespace of its own.
"""
import itertools
import socket
from contextlib import closing

import pytest

from resolver import GOOD, Resolver
from test_names import addresses, ask, check_refused, gateway_with, network, no_connections_yet, origin  # noqa: F401: fixtures
from gateway import free_port

TIMEOUT = "900ms"
counter = itertools.count()


@pytest.fixture(scope="module")
def resolver(network):  # noqa: F811
    with closing(Resolver()) as r:
        yield r


@pytest.fixture(scope="module")
def gateway(tmp_path_factory, origin, resolver):  # noqa: F811
    g = gateway_with(tmp_path_factory.mktemp("lookups"), origin, resolver.address, timeout=TIMEOUT)
    yield g
    assert g.stop() == 0, g.output().decode()


def look_up(gateway, origin, label):  # noqa: F811
    """A sandbox of its own each time: no pooled connection spares the look-up."""
    token = gateway.token("s", sandbox=f"looker-{next(counter)}")
    return ask(gateway, f"{label}.strict.test", origin.port, token)


@pytest.mark.parametrize("label", ["good", "v6-fails-v4-good", "cut", "slow", "wrong-id-first", "wrong-question-first", "other-owner-beside", "alias-good",
                                   "alias-long", "alias-endless"])
def test_the_right_answer_is_found(addresses, gateway, origin, label):  # noqa: F811
    seen = look_up(gateway, origin, label)
    assert seen.answer.status == 200
    assert (seen.dial["outcome"], seen.dial["address"]) == ("complete", f"{GOOD}:{origin.port}")
    assert origin.connections == 1


@pytest.mark.parametrize("label", ["mixed", "v6-bad-v4-good"])
def test_bad_ones_are_left_out_and_told(addresses, gateway, origin, label):  # noqa: F811
    seen = look_up(gateway, origin, label)
    assert seen.answer.status == 200 and seen.dial["address"] == f"{GOOD}:{origin.port}"
    assert gateway.wait_for(kind="finding", id=seen.id)[0]["reason"] == "address_denied"


@pytest.mark.parametrize("label", ["bad", "alias-bad", "alias-long-bad", "cut-bad", "huge-bad"])
def test_a_bad_answer_is_refused_however_it_comes(gateway, origin, label):  # noqa: F811
    seen = look_up(gateway, origin, label)
    check_refused(seen, origin, 403, "address_denied", "refused")
    assert "loopback" in seen.dial["detail"]


@pytest.mark.parametrize("label", ["nodata", "nxdomain", "servfail", "refused", "notimp", "alias-nowhere", "alias-loop", "alias-self",
                                   "other-owner", "other-class", "rdata-short", "rdata-beyond", "count-lies", "pointer-loop", "wrong-id",
                                   "wrong-question", "short", "silent", "cut-for-ever"])
def test_no_answer_is_no_address(gateway, origin, label):  # noqa: F811
    """502 when a server said that there is none, 504 when nobody said anything that counts."""
    seen = look_up(gateway, origin, label)
    assert (seen.answer.status, seen.answer.reason) in ((502, "name_not_resolved"), (504, "name_timeout"))
    if label in ("silent", "wrong-id"):
        assert seen.answer.reason == "name_timeout"
    if label in ("nodata", "nxdomain"):
        assert seen.answer.reason == "name_not_resolved"
    assert seen.dial["outcome"] == "failed" and origin.connections == 0


def test_a_cut_answer_is_asked_for_again_over_tcp(addresses, gateway, origin, resolver):  # noqa: F811
    resolver.asked.clear()
    assert look_up(gateway, origin, "cut").answer.status == 200
    assert ("cut.strict.test", True) in resolver.asked and ("cut.strict.test", False) in resolver.asked


def test_a_thousand_addresses_are_no_thousand_dials(addresses, gateway, origin):  # noqa: F811
    seen = look_up(gateway, origin, "huge")
    assert seen.answer.status in (200, 502, 504)
    assert len(seen.dial["addresses"].split(", ")) <= 64 and origin.connections <= 1


def test_answers_that_change_are_checked_each_time(addresses, gateway, origin):  # noqa: F811
    """DNS rebinding: good, then loopback, then good again, without a time to live."""
    seen = [look_up(gateway, origin, "flip") for _ in range(6)]
    good, bad = seen[0::2], seen[1::2]
    if seen[0].answer.status != 200:
        good, bad = bad, good
    assert [s.answer.status for s in good] == [200, 200, 200]
    assert [s.answer.reason for s in bad] == ["address_denied"] * 3
    assert origin.connections == 3


@pytest.mark.parametrize("kind", ["nobody listens", "silent"])
@pytest.mark.parametrize("dead_first", [True, False])
def test_one_dead_server_among_two(addresses, tmp_path, origin, resolver, kind, dead_first):  # noqa: F811
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        port = silent.getsockname()[1] if kind == "silent" else free_port()
        both = [f"127.0.0.1:{port}", resolver.address]
        g = gateway_with(tmp_path, origin, '", "'.join(both if dead_first else both[::-1]), timeout="4s")
        try:
            seen = look_up(g, origin, "good")
            assert seen.answer.status == 200 and seen.dial["address"] == f"{GOOD}:{origin.port}"
        finally:
            assert g.stop() == 0
