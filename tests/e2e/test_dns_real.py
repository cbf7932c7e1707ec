"""
DNS listeners with `answer: real`: a listed name is looked up by the porter, checked and recorded, and only then told; whatever the name
server says. And where a listener steers, no question travels anywhere.
"""
import time
from contextlib import closing

import pytest

from dns import Client, addresses, question
from gateway import Gateway, exeat, free_port
from resolver import GOOD, Resolver
from test_dns import limits, metrics, record_of

SERVICES = """
  strict: {hosts: ["*.strict.test"], plain-ports: [80], allow: ["GET /**"], scope: s, audit: "waived: test"}
  exact: {hosts: [good.exact.test], plain-ports: [80], allow: ["GET /**"], scope: s, audit: "waived: test"}
  fixed: {hosts: [fixed.test], addresses: ["10.1.2.3:8443"], allow-private: true, allow: ["GET /**"], scope: s, audit: "waived: test"}
  here: {hosts: [here.test], addresses: ["127.0.0.1:8443"], allow: ["GET /**"], scope: s, audit: "waived: test"}
"""


@pytest.fixture(scope="module")
def resolver():
    with closing(Resolver()) as r:
        yield r


@pytest.fixture(scope="module")
def gateway(tmp_path_factory, resolver):
    steer, real = free_port(), free_port()
    g = Gateway(tmp_path_factory.mktemp("real") / "state", SERVICES, extra=f"""
resolver: {{servers: ["{resolver.address}"], timeout: 900ms}}
dns:
  steer: {{address: "127.0.0.1:{steer}", answer: 10.9.8.7}}
  real: {{address: "127.0.0.1:{real}", answer: real, ttl: 20s}}
{limits()}""").start()
    g.steer, g.real = steer, real
    yield g
    status = g.stop()
    print(g.output().decode()[-4000:])
    assert status == 0


@pytest.fixture(scope="module")
def client(gateway):
    with Client(gateway.real) as c:
        yield c


FOUND = ["good", "v6-fails-v4-good", "alias-good", "cut", "slow", "mixed", "v6-bad-v4-good", "wrong-id-first", "other-owner-beside"]


@pytest.mark.parametrize("label", FOUND)
def test_good_addresses_are_told(gateway, client, label):
    answer = client.ask(f"{label}.strict.test")
    assert (answer.code, addresses(answer)) == ("NOERROR", [GOOD])
    assert answer.answers[0].ttl == 0  # the name server's, which is shorter than the zone's
    lookup = gateway.wait_for(kind="lookup", outcome="complete", service="strict")[-1]
    question = gateway.records(kind="question", id=lookup["id"])[0]
    assert lookup["role"] == "porter" and question["action"] == "allow" and question["seq"] < lookup["seq"]
    assert question["dns"]["name"] == f"{label}.strict.test" == lookup["http"]["host"]


@pytest.mark.parametrize("label", ["good", "v6-bad-v4-good"])
def test_a_name_without_the_family_has_nothing(client, label):
    """Nor has one whose addresses of that family are all denied: a resolver that has the others waits for no more (musl)."""
    answer = client.ask(f"{label}.strict.test", "AAAA")
    assert (answer.code, answer.answers, len(answer.authority)) == ("NOERROR", [], 1)


REFUSED = {"bad": ("NXDOMAIN", "address_denied", 17), "alias-bad": ("NXDOMAIN", "address_denied", 17), "cut-bad": ("NXDOMAIN", "address_denied", 17),
           "huge-bad": ("NXDOMAIN", "address_denied", 17), "nxdomain": ("SERVFAIL", "name_not_resolved", 22),
           "servfail": ("SERVFAIL", "name_not_resolved", 22), "silent": ("SERVFAIL", "name_timeout", 22), "pointer-loop": ("SERVFAIL", "name_not_resolved", 22),
           "other-owner": ("SERVFAIL", "name_not_resolved", 22)}


@pytest.mark.parametrize("label, expected", REFUSED.items(), ids=REFUSED)
def test_nothing_else_is(gateway, client, label, expected):
    answer = client.ask(f"{label}.strict.test")
    assert answer.answers == [] and answer.words.split()[:1] == ["exeat"]
    assert (answer.code, answer.words.split()[1], answer.error) == expected or label in ("pointer-loop", "other-owner") and answer.code == "SERVFAIL"
    lookup = gateway.wait_for(kind="lookup", id=record_of(gateway, answer)["id"])[0]
    assert lookup["reason"] == answer.words.split()[1] and lookup["outcome"] in ("refused", "failed")


def test_many_addresses_are_cut_to_what_an_answer_takes(client):
    answer = client.ask("huge.strict.test")
    assert answer.code == "NOERROR" and len(answer.answers) == 8 and answer.size <= 512


def test_a_fixed_destination_is_told_as_it_stands(resolver, client):
    before = len(resolver.asked)
    assert addresses(client.ask("fixed.test")) == ["10.1.2.3"]
    assert len(resolver.asked) == before


def test_a_fixed_destination_on_this_machine_is_not_told(client):
    answer = client.ask("here.test")
    assert (answer.code, answer.answers) == ("NXDOMAIN", []) and answer.words.startswith("exeat address_denied")


@pytest.mark.parametrize("name, type", [("good.elsewhere.test", "A"), ("good.exact.test.evil.test", "A"), ("good.exact.test", "HTTPS"), ("good.exact.test", "TXT"),
                                        ("good.exact.test", "ANY"), ("a" * 41 + ".strict.test", "A")])
def test_what_is_not_listed_or_no_address_is_not_looked_up(resolver, client, name, type):
    before = len(resolver.asked)
    assert client.ask(name, type).code in ("NXDOMAIN", "NOERROR", "REFUSED")
    assert len(resolver.asked) == before


def test_of_a_service_that_was_closed_by_hand_nothing_is_looked_up(gateway, resolver, client):
    exeat("service", "close", "exact", config=gateway.config)
    try:
        before = len(resolver.asked)
        answer = client.ask("good.exact.test")
        assert (answer.code, answer.words.split()[1]) == ("SERVFAIL", "service_closed") and len(resolver.asked) == before
        assert gateway.wait_for(kind="lookup", id=record_of(gateway, answer)["id"])[0]["reason"] == "service_closed"
    finally:
        exeat("service", "open", "exact", config=gateway.config)
    assert addresses(client.ask("good.exact.test")) == [GOOD]


def test_where_it_steers_no_question_travels(gateway, resolver):
    with Client(gateway.steer) as c:
        before = len(resolver.asked)
        assert addresses(c.ask("good.exact.test")) == ["10.9.8.7"]
        assert addresses(c.ask("new.strict.test")) == ["10.9.8.7"]
        assert c.ask("good.elsewhere.test").code == "NXDOMAIN"
        assert c.ask("good.exact.test", "AAAA").code == "NOERROR"
    time.sleep(0.2)  # a question on its way would be there by then
    assert len(resolver.asked) == before


def test_a_silent_name_server_holds_up_its_own_questions_alone(gateway):
    with Client(gateway.real) as slow, Client(gateway.real, source="127.0.0.2") as quick:
        for i in range(20):
            slow.send(question("silent.strict.test", id=i))
        assert addresses(quick.ask("good.exact.test")) == [GOOD]
        assert {slow.receive().code for _ in range(20)} <= {"SERVFAIL", "REFUSED"}
    assert 'exeat_dns_questions_total{role="usher"}' in metrics(gateway)
