"""
Closed until an audit that passed is on record: by the gateway's own key or an attester's, for this configuration, fresh. The audit
itself is held against real programs in tests/lab; here is what the gateway makes of its result.
"""
import json
import time
import urllib.request

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from gateway import Gateway, exeat, wait_until
from origin import Origin

SERVICE = """
  files:
    hosts: [files.test]
    plain-ports: [80]
    addresses: ["127.0.0.1:{port}"]
    allow: {rules}
    scope: files:read
    {more}
"""
ATTESTERS = "attesters: {ci: {jwks: ci.jwks}}"


def keys_of(key, kid):
    return {"keys": [{**json.loads(jwt.algorithms.ECAlgorithm.to_jwk(key.public_key())), "kid": kid, "alg": "ES256", "use": "sig"}]}


class Site:
    def __init__(self, directory):
        self.origin = Origin()
        self.gateway = Gateway(directory, self.services(), extra=ATTESTERS)
        self.ci = ec.generate_private_key(ec.SECP256R1())
        (directory / "ci.jwks").write_text(json.dumps(keys_of(self.ci, "ci-1")))
        self.manifest = directory / "audit.yaml"
        self.manifest.write_text(f"""
owner: {{name: package team, statement: We run it and want it tested.}}
services:
  files: {{url: "http://127.0.0.1:{self.origin.port}", kind: http, protected: [/secret]}}
""")
        self.gateway.start()
        self.refused = 0

    def services(self, rules='["GET /**"]', more="audit-max-age: 1h"):
        return SERVICE.format(port=self.origin.port, rules=rules, more=more)

    def configure(self, **how):
        self.gateway.write(self.services(**how))
        self.reload()

    def reload(self):
        exeat("reload", config=self.gateway.config)

    @property
    def attestation(self):
        return self.gateway.directory / "attestations" / "files.jwt"

    def audit(self, *words):
        return exeat("audit", "files", "-m", self.manifest, "--attest", "--rate", "100", *words, config=self.gateway.config, check=False)

    def claims(self):
        return jwt.decode(self.attestation.read_text(), options={"verify_signature": False})

    def attest(self, key=None, kid="ci-1", typ="exeat-attestation+jwt", **claims):
        """As another machine that may do so would, after an audit that passed."""
        all_claims = {**self.base, "iat": int(time.time()) - 5, "passing": True, "failing": [], **claims}
        self.attestation.write_text(jwt.encode(all_claims, key or self.ci, "ES256", headers={"kid": kid, "typ": typ}))
        self.reload()

    def ask(self):
        wire = self.gateway.connect()
        token = self.gateway.token("files:read")
        wire.send(f"GET http://files.test/a HTTP/1.1\r\nHost: files.test\r\nProxy-Authorization: Bearer {token}\r\n\r\n".encode())
        answer = wire.response()
        wire.close()
        return answer

    def why_closed(self):
        answer = self.ask()
        assert answer.status == 503, answer.status
        assert answer.reason == "handoff_unattested"
        self.refused += 1
        return self.gateway.wait_for(self.refused, reason="handoff_unattested")[-1]["detail"]

    def is_open(self):
        status = self.ask().status
        self.refused += status == 503
        return status == 200

    def metrics(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.gateway.publish}/metrics", timeout=30) as f:
            return f.read().decode()


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    site = Site(tmp_path_factory.mktemp("attested") / "state")
    assert "nobody has audited it" in site.why_closed()
    result = site.audit()
    assert result.returncode == 1, result.stdout + result.stderr  # it answers everybody: an origin for tests
    site.base = site.claims()
    yield site
    assert site.gateway.stop() == 0
    site.origin.close()


@pytest.fixture(autouse=True)
def plain(site):
    site.configure()


def test_an_audit_that_does_not_pass_closes(site):
    site.attest()
    assert site.is_open()
    assert site.audit().returncode == 1
    assert site.is_open()  # until the reload
    site.reload()
    assert "it did not pass its audit of" in site.why_closed()
    claims = site.claims()
    assert claims["iss"] == "gw.test" and claims["sub"] == "files" and not claims["passing"] and "AN-1" in claims["failing"]
    assert claims["summary"]["counts"]["open"] >= 1


def test_an_attester_opens(site):
    site.attest()
    assert site.is_open()
    text = exeat("status", config=site.gateway.config).stdout
    assert "files is closed" not in text
    assert 'exeat_service_open{service="files"} 1' in site.metrics()
    exeat("explain", "--sandbox", "a", "--scope", "files:read", "GET", "http://files.test/a", config=site.gateway.config)


@pytest.mark.parametrize("what, claims, why", [
    ("not passing", {"passing": False, "failing": ["RL-1"]}, "RL-1"),
    ("too old", {"iat": 0}, "counted until"),
    ("from the future", {"iat": 1}, "from the future"),
    ("another configuration", {"config": "00" * 32}, "of another configuration"),
    ("another service", {"sub": "other"}, 'of service "other"'),
    ("other probes", {"probes": "0"}, "another version of the probes"),
], ids=lambda x: x if isinstance(x, str) else "")
def test_what_does_not_open(site, what, claims, why):
    if "iat" in claims:
        claims = {"iat": int(time.time()) + (3600 if claims["iat"] else -3601)}
    site.attest(**claims)
    assert why in site.why_closed()
    assert 'exeat_service_open{service="files"} 0' in site.metrics()
    assert "service files is closed" in exeat("status", config=site.gateway.config).stdout
    assert why in exeat("config", "check", config=site.gateway.config, check=False).stderr
    refused = exeat("explain", "--sandbox", "a", "--scope", "files:read", "GET", "http://files.test/a", config=site.gateway.config, check=False)
    assert refused.returncode == 1 and why in refused.stdout


@pytest.mark.parametrize("how", ["a stranger's key", "a key by another name", "another kind of token"])
def test_who_does_not_open(site, how):
    stranger = ec.generate_private_key(ec.SECP256R1())
    site.attest(**{"a stranger's key": {"key": stranger}, "a key by another name": {"kid": "ci-2"},
                   "another kind of token": {"typ": "JWT"}}[how])
    assert "attestation" in site.why_closed()


def test_an_open_tunnel_is_no_way_around(site):
    """What is open when the service is closed hears so with its next request."""
    site.attest()
    wire = site.gateway.connect()
    token = site.gateway.token("files:read")
    request = f"GET http://files.test/a HTTP/1.1\r\nHost: files.test\r\nProxy-Authorization: Bearer {token}\r\n\r\n".encode()
    wire.send(request)
    assert wire.response().status == 200
    site.attest(passing=False)
    wire.send(request)
    assert wire.response().status == 503
    site.refused += 1
    wire.close()


def test_it_closes_by_itself_when_its_time_is_over(site):
    site.attest(exp=int(time.time()) + 3)
    assert site.is_open()
    wait_until(lambda: not site.is_open(), "the end of what was accepted")
    assert "counted until" in site.why_closed()


def test_a_change_of_the_service_closes_it(site):
    site.attest()
    assert site.is_open()
    site.configure(rules='["GET /**", "HEAD /**"]')
    assert "of another configuration" in site.why_closed()
    site.configure(more="audit-max-age: 2h")  # says nothing of what it does
    assert site.is_open()


def test_an_audit_for_the_next_configuration_closes_nothing_now(site, tmp_path):
    site.attest()
    other = site.gateway.directory / "next.conf"
    other.write_text(site.gateway.config.read_text().replace('["GET /**"]', '["GET /a"]'))
    result = exeat("audit", "files", "-m", site.manifest, "--attest", "--rate", "100", config=other, check=False)
    assert result.returncode == 1 and "an audit that did not pass, so that the service is closed, is on record" in result.stderr
    site.reload()
    assert site.is_open()
    site.configure(rules='["GET /a"]')
    assert "it did not pass its audit of" in site.why_closed()


def test_what_is_accepted_is_said_and_ends(site):
    """By the gateway's configuration alone, and as a part of it."""
    site.configure(more='accept: {AN-1: "everybody may read it until 2199-12-31"}')
    result = site.audit()
    assert "accepted" in result.stdout and "everybody may read it" in result.stdout
    claims = site.claims()
    assert "AN-1" not in claims["failing"] and claims["config"] != site.base["config"]
    assert claims["summary"]["accepted"][0]["check"] == "AN-1"
    assert "accepts AN-1 until 2199-12-31" in exeat("config", "check", config=site.gateway.config, check=False).stderr
    site.configure(more='accept: {AN-1: "everybody may read it until 2020-12-31"}')
    assert site.audit().returncode == 1
    assert "AN-1" in site.claims()["failing"]


def test_words_that_do_not_go_together(site):
    for words, said in ((["--check", "AN-1"], "--attest wants a whole audit"), (["--all"], "name the SERVICE, or say --all")):
        result = site.audit(*words)
        assert result.returncode == 2 and said in result.stderr
    result = exeat("audit", "--all", "-m", site.manifest, "--attest", "--rate", "100", "--format", "json",
                   config=site.gateway.config, check=False)
    assert result.returncode == 1 and json.loads(result.stdout)["service"] == "files"
