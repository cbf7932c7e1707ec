"""
CI identity: tokens of CI systems, with the claims that GitLab and GitHub document, their keys fetched from where the issuer
publishes them, scopes and sandboxes made of their claims. A real issuer (HTTPS, discovery, RS256), a real gateway.
"""
import base64
import gzip
import hmac
import json
import os
import re
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from gateway import PATIENCE, TREE, Gateway, clean_environment, connect_head, exeat, free_port, wait_until
from origin import Origin, make_pki

SERVICE = """
  {name}:
    hosts: [{name}.test]
    plain-ports: [80]
    addresses: ["127.0.0.1:{port}"]
    allow: ["GET /**"]
    scope: {name}:read
    audit: "waived: test"
"""
GITLAB, GITHUB = "https://gitlab.test", "https://actions.test"
SANDBOX = {"gitlab": "{project_id}:{job_id}", "github": "{repository_id}:{run_id}:{run_attempt}"}
MAP = {
    "gitlab": '{"project_path:my-group/my-project": web:read, "project_path:my-group/my-project & ref_protected:true": [git:read]}',
    "github": '{"repository:octo-org/* & ref:refs/heads/main": web:read}',
}
ISSUER = """
issuers:
  {name}: {{issuer: "{iss}", {source}, algorithms: [RS256], types: [JWT], max-lifetime: 1h, leeway: 5s,
    sandbox: "{sandbox}", map: {map}{more}}}
"""


def gitlab_claims(**more):
    """The payload of an ID token as docs.gitlab.com shows it ("ID token authentication")."""
    now = int(time.time())
    return {
        "namespace_id": "72", "namespace_path": "my-group", "project_id": "20", "project_path": "my-group/my-project",
        "user_id": "1", "user_login": "sample-user", "user_email": "sample-user@example.com",
        "user_identities": [{"provider": "github", "extern_uid": "2435223452345"}],
        "pipeline_id": "574", "pipeline_source": "push", "job_id": "302", "ref": "feature-branch-1", "ref_type": "branch",
        "ref_path": "refs/heads/feature-branch-1", "ref_protected": "false", "environment": "test-environment2",
        "environment_protected": "false", "deployment_tier": "testing", "runner_id": 1, "runner_environment": "self-hosted",
        "sha": "714a629c0b401fdce83e847fc9589983fc6f46bc", "jti": os.urandom(16).hex(), "iss": GITLAB, "iat": now,
        "nbf": now - 5, "exp": now + 3600, "sub": "project_path:my-group/my-project:ref_type:branch:ref:feature-branch-1",
        "aud": "gw.test", **more}


def github_claims(**more):
    """The payload of a token as docs.github.com lists its claims ("OpenID Connect reference")."""
    now = int(time.time())
    return {
        "jti": os.urandom(16).hex(), "sub": "repo:octo-org/octo-repo:ref:refs/heads/main", "aud": "gw.test",
        "ref": "refs/heads/main", "sha": "c040cae0f0dc81641728557b80f09cfa23b83fe5", "repository": "octo-org/octo-repo",
        "repository_owner": "octo-org", "actor_id": "12", "repository_visibility": "private", "repository_id": "74",
        "repository_owner_id": "65", "run_id": "22259804324", "run_number": "10", "run_attempt": "2",
        "runner_environment": "github-hosted", "actor": "octocat", "workflow": "ci", "head_ref": "", "base_ref": "",
        "event_name": "push", "ref_protected": "true", "ref_type": "branch",
        "workflow_ref": "octo-org/octo-repo/.github/workflows/ci.yml@refs/heads/main",
        "job_workflow_ref": "octo-org/octo-repo/.github/workflows/ci.yml@refs/heads/main", "iss": GITHUB,
        "nbf": now - 600, "exp": now + 300, "iat": now, **more}


CLAIMS = {"gitlab": gitlab_claims, "github": github_claims}
ISS = {"gitlab": GITLAB, "github": GITHUB}


class Key:
    def __init__(self, kid, bits=2048):
        self.kid, self.private = kid, rsa.generate_private_key(public_exponent=65537, key_size=bits)

    def jwk(self, **more):
        public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self.private.public_key()))
        return {**{k: public[k] for k in ("kty", "n", "e")}, "kid": self.kid, "use": "sig", "alg": "RS256", **more}

    def token(self, claims, **header):
        head = {"typ": "JWT", "kid": self.kid, **header}
        return jwt.encode({k: v for k, v in claims.items() if v is not None}, self.private, algorithm="RS256", headers=head)


def key_set(*keys):
    return json.dumps({"keys": [k if isinstance(k, dict) else k.jwk() for k in keys]})


@pytest.fixture(scope="module")
def keys():
    return Key("key-1"), Key("key-2")


@pytest.fixture(scope="module")
def web():
    o = Origin()
    yield o
    o.close()


def listed(web):
    return SERVICE.format(name="web", port=web.port) + SERVICE.format(name="git", port=web.port)


def ask(gateway, token, host="web.test", source=None):
    wire = gateway.connect()
    wire.send(f"GET http://{host}/x HTTP/1.1\r\nHost: {host}\r\nProxy-Authorization: Bearer {token}\r\n\r\n")
    answer = wire.response()
    wire.close()
    return answer


def write(gateway, web, *issuers):
    """The services, and these issuers beside the gateway's own."""
    gateway.write(listed(web))
    text = gateway.config.read_text()
    body = "".join(i.replace("\nissuers:\n", "") for i in issuers)
    gateway.config.write_text(text.replace("issuers:\n", "issuers:\n" + body, 1))


def issuer(name, source, more=""):
    return ISSUER.format(name=name, iss=ISS[name], source=source, sandbox=SANDBOX[name], map=MAP[name], more=more)


# ---- with keys from a file


@pytest.fixture(scope="module")
def offline(tmp_path_factory, web, keys):
    g = Gateway(tmp_path_factory.mktemp("pipelines") / "state", "  {}")
    for name in CLAIMS:
        (g.directory / f"{name}.jwks").write_text(key_set(keys[0]))
    write(g, web, issuer("gitlab", "jwks: gitlab.jwks"), issuer("github", "jwks: github.jwks"))
    g.start()
    yield g
    assert g.stop() == 0, g.output().decode()


def test_a_gitlab_job_reads_what_its_project_may(offline, keys):
    answer = ask(offline, keys[0].token(gitlab_claims()))
    assert answer.status == 200
    record = offline.wait_for(kind="decision", sandbox="gitlab:20:302")[-1]
    assert record["token"]["sub"] == "project_path:my-group/my-project:ref_type:branch:ref:feature-branch-1"
    assert (record["token"]["iss"], record["token"]["scope"]) == (GITLAB, "web:read")
    assert ask(offline, keys[0].token(gitlab_claims()), "git.test").reason == "scope_missing"
    assert ask(offline, keys[0].token(gitlab_claims(ref_protected="true")), "git.test").status == 200


def test_a_github_run_reads_what_its_repository_may(offline, keys):
    assert ask(offline, keys[0].token(github_claims(), x5t="ATxVAuAbDF2GMGKmNQ")).status == 200
    assert offline.wait_for(kind="decision", sandbox="github:74:22259804324:2")
    assert ask(offline, keys[0].token(github_claims(ref="refs/pull/1/merge"))).reason == "token_unmapped"


def test_who_is_not_in_the_map_has_no_leave(offline, keys):
    answer = ask(offline, keys[0].token(gitlab_claims(project_path="else/where")))
    assert (answer.status, answer.reason) == (403, "token_unmapped")
    assert offline.wait_for(kind="decision", reason="token_unmapped", action="deny")
    forged = Key("key-1").token(gitlab_claims(project_path="else/where"))
    assert ask(offline, forged).reason == "token_signature"  # of the map only who has a sound token hears


def test_inspect_says_which_entry_fits(offline, keys, tmp_path):
    path = tmp_path / "job.jwt"
    path.write_text(keys[0].token(gitlab_claims(ref_protected="true")))
    said = exeat("token", "inspect", path, config=offline.config).stdout
    assert "issuer       gitlab" in said and "sandbox      gitlab:20:302" in said and "scopes       web:read git:read" in said
    assert '"project_path:my-group/my-project & ref_protected:true"' in said
    told = json.loads(exeat("token", "inspect", path, "--format", "json", config=offline.config).stdout)
    assert (told["issuer"], told["sandbox"], told["scope"]) == ("gitlab", "gitlab:20:302", "web:read git:read")
    path.write_text(keys[0].token(gitlab_claims(project_path="my-group/other")))
    refused = exeat("token", "inspect", path, config=offline.config, check=False)
    assert refused.returncode == 1 and "token_unmapped: no entry of map of issuer gitlab fits" in refused.stdout


def test_explain_decides_by_the_claims(offline, keys, tmp_path):
    path = tmp_path / "job.jwt"
    path.write_text(keys[0].token(gitlab_claims()))
    path.chmod(0o600)
    assert exeat("explain", "--token-file", path, "GET", "http://web.test/x", config=offline.config).returncode == 0
    refused = exeat("explain", "--token-file", path, "GET", "http://git.test/x", config=offline.config, check=False)
    assert refused.returncode == 1 and "scope_missing" in refused.stdout


# ---- with keys that are fetched

WHERE = {"gitlab": "/oauth/discovery/keys", "github": "/.well-known/jwks"}
HOSTS = {"gitlab": "gitlab.test", "github": "actions.test"}


def http(body, status="200 OK", kind="application/json", more=""):
    body = body.encode() if isinstance(body, str) else body
    return f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n{more}Content-Length: {len(body)}\r\n\r\n".encode() + body


class Issuer(Origin):
    """Publishes what CI systems do: a discovery document and a key set, over TLS."""

    def __init__(self, name, pki, *keys):
        self.name, self.keys, self.answer, self.fields = name, list(keys), None, ""
        super().__init__(pki[1], pki[2], script=self.publish)

    def publish(self, request):
        if request.target == "/.well-known/openid-configuration":
            return http(json.dumps({"issuer": ISS[self.name], "jwks_uri": ISS[self.name] + WHERE[self.name],
                                    "id_token_signing_alg_values_supported": ["RS256"]}))
        if request.target != WHERE[self.name]:
            return http("{}", "404 Not Found")
        if self.answer is not None:
            return self.answer(request) if callable(self.answer) else self.answer
        return http(key_set(*self.keys), more=self.fields)

    def fetches(self):
        with self.lock:
            return sum(r.target == WHERE[self.name] for r in self.requests)

    def source(self, refresh="1s", more=""):
        return (f'jwks-uri: "{ISS[self.name]}{WHERE[self.name]}", jwks-addresses: ["127.0.0.1:{self.port}"], '
                f"jwks-ca-file: {self.ca}, jwks-refresh: {refresh}{more}")


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return make_pki(tmp_path_factory.mktemp("authority"), list(HOSTS.values()))


@pytest.fixture
def publish(authority):
    made = []

    def make(name, *keys):
        made.append(Issuer(name, authority, *keys))
        made[-1].ca = authority[0]
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def start(tmp_path, web):
    """A gateway with these issuers beside its own; it stops in order."""
    made = []

    def make(*issuers, services="", extra="", alone=False):
        g = Gateway(tmp_path / "state", "  {}", extra=extra, workers=2)
        write(g, web, *issuers)
        if alone:
            g.config.write_text(re.sub(r"(?m)^  local: .*\n", "", g.config.read_text()))
        if services:
            g.config.write_text(g.config.read_text() + services)
        made.append(g)
        return g.start()

    yield make
    for g in made:
        assert g.stop() == 0, g.output().decode()


def status(gateway):
    told = exeat("status", "--format", "json", config=gateway.config, check=False)
    return {i["issuer"]: i for i in json.loads(told.stdout)["issuers"]}


def ready(gateway):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{gateway.publish}/readyz") as r:
            return r.status, json.loads(r.read())
    except urllib.error.HTTPError as e:
        return e.code, json.loads(e.read())


def gauge(gateway, name, issuer):
    with urllib.request.urlopen(f"http://127.0.0.1:{gateway.publish}/metrics") as r:
        text = r.read().decode()
    return int(re.search(rf'^{name}{{issuer="{issuer}"}} (\d+)$', text, re.M)[1])


def accepted(gateway, key, **claims):
    return lambda: ask(gateway, key.token(gitlab_claims(**claims))).status == 200


def again(gateway):
    gateway.stop()
    (gateway.directory / "log").write_bytes(b"")  # its ready of before
    gateway.start()


def all_workers_say(gateway, key, reason, n=12):
    """Each connection may be another worker's."""
    return lambda: all(ask(gateway, key.token(gitlab_claims())).reason == reason for _ in range(n))


def test_an_issuer_whose_keys_were_never_fetched_is_closed(start, keys):
    g = start(issuer("gitlab", f'jwks-uri: "{GITLAB}/oauth/discovery/keys", jwks-addresses: ["127.0.0.1:{free_port()}"]'))
    answer = ask(g, keys[0].token(gitlab_claims()))
    assert (answer.status, answer.reason) == (503, "issuer_unavailable")
    assert ask(g, g.token("web:read")).status == 200  # who has other keys is not concerned


def test_keys_are_fetched_from_where_they_are_published(start, publish, keys):
    gitlab, github = publish("gitlab", keys[0]), publish("github", keys[1])
    g = start(issuer("gitlab", gitlab.source("1h")), issuer("github", github.source("1h")))
    wait_until(accepted(g, keys[0]), "the keys of gitlab")
    wait_until(lambda: ask(g, keys[1].token(github_claims())).status == 200, "the keys of github")
    seen = gitlab.requests[0]
    assert seen.raw.startswith(b"GET /oauth/discovery/keys HTTP/1.1\r\nHost: gitlab.test\r\n") and seen.field("Authorization") is None
    assert {r["issuer"] for r in g.wait_for(2, kind="keys")} == {"gitlab", "github"}
    assert g.records(kind="keys", issuer="gitlab")[0]["detail"] == "kid key-1"
    dial = g.wait_for(kind="dial", issuer="gitlab")[0]
    assert (dial["http"]["host"], dial["outcome"], dial.get("sandbox")) == ("gitlab.test", "complete", None)
    assert (status(g)["gitlab"]["good"], status(g)["gitlab"]["keys"], status(g)["gitlab"]["error"]) == (True, 1, "")
    assert ready(g) == (200, {"ready": True}) and gauge(g, "exeat_issuer_keys", "gitlab") == 1
    # Who asks the gateway for its keys' place gets there no more than before.
    wire = g.connect()
    wire.send(connect_head("gitlab.test", g.token("web:read")))
    assert wire.response("CONNECT").reason == "host_not_listed"


def test_the_same_kid_of_another_issuer_is_another_key(start, publish, keys):
    other = Key("key-1")
    gitlab, github = publish("gitlab", keys[0]), publish("github", other)
    g = start(issuer("gitlab", gitlab.source("1h")), issuer("github", github.source("1h")))
    wait_until(accepted(g, keys[0]), "the keys of gitlab")
    wait_until(lambda: ask(g, other.token(github_claims())).status == 200, "the keys of github")
    assert ask(g, other.token(gitlab_claims())).reason == "token_signature"
    assert ask(g, keys[0].token(github_claims())).reason == "token_signature"
    assert ask(g, keys[0].token(github_claims(iss=GITLAB, project_id="20", job_id="1"))).reason == "token_unmapped"


def hmac_token(secret, claims, kid="key-1"):
    """HS256 by hand: PyJWT refuses to sign with a public key."""
    def part(value):
        return base64.urlsafe_b64encode(value).rstrip(b"=")

    text = part(json.dumps({"typ": "JWT", "alg": "HS256", "kid": kid}).encode()) + b"." + part(json.dumps(claims).encode())
    return (text + b"." + part(hmac.digest(secret, text, "sha256"))).decode()


def test_tokens_that_are_off(start, publish, keys):
    gitlab = publish("gitlab", keys[0])
    g = start(issuer("gitlab", gitlab.source("1h")))
    wait_until(accepted(g, keys[0]), "the keys")
    now = int(time.time())
    pem = keys[0].private.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    rows = {
        "token_audience": keys[0].token(gitlab_claims(aud="https://vault.example.com")),
        "token_expired": keys[0].token(gitlab_claims(iat=now - 900, nbf=now - 900, exp=now - 300)),
        "token_not_yet_valid": keys[0].token(gitlab_claims(nbf=now + 300)),
        "token_lifetime": keys[0].token(gitlab_claims(exp=now + 7200)),
        "token_algorithm": hmac_token(pem, gitlab_claims()),
        "token_type": keys[0].token(gitlab_claims(), typ="at+jwt"),
        "token_claims": keys[0].token(gitlab_claims(job_id=None)),
        "token_signature": Key("key-1").token(gitlab_claims()),
        "token_issuer": keys[0].token(gitlab_claims(iss="https://gitlab.com")),
        "token_unmapped": keys[0].token(gitlab_claims(project_path="my-group/my-project/fork")),
    }
    assert {reason: ask(g, token).reason for reason, token in rows.items()} == {reason: reason for reason in rows}


def test_a_new_key_is_found_and_one_that_is_gone_is_good_no_more(start, publish, keys):
    gitlab = publish("gitlab", keys[0])
    g = start(issuer("gitlab", gitlab.source("1h")))
    wait_until(accepted(g, keys[0]), "the keys")
    gitlab.keys = [keys[0], keys[1]]  # published before it is used; an unknown kid has them fetched an hour before it is time
    wait_until(accepted(g, keys[1]), "the new key")
    assert ask(g, keys[0].token(gitlab_claims())).status == 200
    old = keys[0].token(gitlab_claims())
    assert ask(g, old).status == 200  # verified, and remembered as such
    gitlab.keys = [keys[1], Key("key-3")]
    wait_until(lambda: ask(g, gitlab.keys[1].token(gitlab_claims())).status == 200, "the third key")
    wait_until(all_workers_say(g, keys[0], "token_key_unpublished"), "the first key to be gone")
    assert ask(g, old).reason == "token_key_unpublished"
    assert [r["detail"] for r in g.wait_for(3, kind="keys")] == ["kid key-1", "kid key-1, key-2", "kid key-2, key-3"]


def over_tls(origins, pki):
    text = SERVICE.format(name="npm", port=0).replace("hosts: [npm.test]\n    plain-ports: [80]", "hosts: [registry.test]\n    ports: [443]")
    return text.replace("127.0.0.1:0", f"127.0.0.1:{origins[0].port}") + f"    ca-file: {pki[0]}\n"


def test_a_tunnel_by_a_key_that_is_gone_carries_nothing_more(start, publish, keys, origins, pki):
    gitlab = publish("gitlab", keys[0], keys[1])
    g = start(issuer("gitlab", gitlab.source("1s")).replace("web:read,", "[web:read, npm:read],"), services=over_tls(origins, pki))
    wait_until(accepted(g, keys[0]), "the keys")
    gone, stays = (g.tunnel("registry.test", k.token(gitlab_claims(job_id=str(n)))) for n, k in enumerate(keys))
    get = "GET /x HTTP/1.1\r\nHost: registry.test\r\n\r\n"
    for wire in (gone, stays):
        wire.send(get)
        assert wire.response().status == 200
    gitlab.keys = [keys[1]]
    assert gone.is_closed()  # it is idle
    stays.send(get)
    assert stays.response().status == 200


def test_keys_are_fetched_again_in_time(start, publish, keys):
    gitlab = publish("gitlab", keys[0], keys[1])
    g = start(issuer("gitlab", gitlab.source("1s")))
    wait_until(accepted(g, keys[0]), "the keys")
    assert ask(g, keys[1].token(gitlab_claims())).status == 200
    gitlab.keys = [keys[1]]  # nobody shows an unknown kid: the hour alone finds out
    wait_until(all_workers_say(g, keys[0], "token_key_unpublished"), "the key to be gone")
    assert ask(g, keys[1].token(gitlab_claims())).status == 200


def test_kids_that_somebody_makes_up_do_not_have_the_issuer_asked_each_time(start, publish, keys):
    gitlab = publish("gitlab", keys[0])
    g = start(issuer("gitlab", gitlab.source("1h")))
    wait_until(accepted(g, keys[0]), "the keys")
    begun, before = time.monotonic(), gitlab.fetches()
    for i in range(100):
        assert ask(g, keys[0].token(gitlab_claims(), kid=f"junk-{i}")).reason == "token_key_unpublished"
    assert ask(g, keys[0].token(gitlab_claims())).status == 200  # whoever shows them, its good tokens are good
    spent = time.monotonic() - begun
    assert gitlab.fetches() - before <= 1 + spent / 5  # one in five seconds at most, and more seldom from then on


def test_an_issuer_that_comes_later_is_found(start, publish, keys):
    gitlab = publish("gitlab", keys[0])
    gitlab.answer = lambda request: None  # it closes without a word
    g = start(issuer("gitlab", gitlab.source("1s")))
    assert ask(g, keys[0].token(gitlab_claims())).reason == "issuer_unavailable"
    wait_until(lambda: status(g)["gitlab"]["error"], "an attempt to fail")
    assert ready(g) == (200, {"ready": True})  # for the sandboxes of the issuer whose keys are in a file
    told = exeat("status", config=g.config)
    assert "warning: issuer gitlab is closed, its keys were not fetched yet; " in told.stdout
    gitlab.answer = None
    wait_until(accepted(g, keys[0]), "the keys")
    assert ready(g)[0] == 200


def test_a_gateway_none_of_whose_issuers_has_keys_is_not_ready(start, publish, keys):
    gitlab = publish("gitlab", keys[0])
    gitlab.answer = http("{}", "503 Service Unavailable")
    g = start(issuer("gitlab", gitlab.source("1s")), alone=True)
    wait_until(lambda: status(g)["gitlab"]["error"], "an attempt to fail")
    code, body = ready(g)
    assert code == 503 and body["missing"] == ["issuer gitlab: its keys were not fetched yet: it answered 503"]
    told = exeat("status", config=g.config, check=False)
    assert told.returncode == 1 and told.stdout.startswith("NOT READY: ")
    gitlab.answer = None
    wait_until(accepted(g, keys[0]), "the keys")
    assert ready(g) == (200, {"ready": True})


def test_keys_are_good_for_so_long_when_the_issuer_is_away(start, publish, keys):
    gitlab = publish("gitlab", keys[0])
    g = start(issuer("gitlab", gitlab.source("1s", ", jwks-max-age: 6s")))
    wait_until(accepted(g, keys[0]), "the keys")
    gitlab.answer = http("{}", "503 Service Unavailable")
    wait_until(lambda: status(g)["gitlab"]["error"] == "it answered 503", "an attempt to fail")
    if status(g)["gitlab"]["good"]:
        told = exeat("status", config=g.config)
        assert "warning: issuer gitlab's keys cannot be fetched from https://gitlab.test/oauth/discovery/keys: it answered 503" in told.stdout
    wait_until(all_workers_say(g, keys[0], "issuer_unavailable"), "the keys to be too old")
    assert not status(g)["gitlab"]["good"] and gauge(g, "exeat_issuer_keys", "gitlab") == 0
    gitlab.answer = None
    wait_until(accepted(g, keys[0]), "the keys again")
    assert gauge(g, "exeat_issuer_keys", "gitlab") == 1


BAD = {
    "redirect": (lambda o, k: http("", "302 Found", more=f"Location: https://gitlab.test:{o.port}/elsewhere\r\n"), "no redirect is followed"),
    "not found": (lambda o, k: http("{}", "404 Not Found"), "it answered 404"),
    "a page": (lambda o, k: http("<html>", kind="text/html"), "no application/json"),
    "no type": (lambda o, k: http(key_set(k)).replace(b"Content-Type: application/json\r\n", b""), "no application/json"),
    "no JSON": (lambda o, k: http("keys"), "its answer:1:"),
    "no set": (lambda o, k: http("[]"), "expected a JWK set"),
    "an empty set": (lambda o, k: http(key_set()), "no key to verify with"),
    "a kid twice": (lambda o, k: http(key_set(k, Key("key-2").jwk(kid=k.kid))), "stands there twice"),
    "keys of another kind": (lambda o, k: http(key_set({"kty": "oct", "k": "AAAA", "kid": "key-1"})), "can be used"),
    "short keys": (lambda o, k: http(key_set(Key("key-1", 1024))), "can be used"),
    "many keys": (lambda o, k: http(key_set(*[k.jwk(kid=str(i)) for i in range(65)])), "more than 64 keys"),
    "too much": (lambda o, k: http(key_set(k) + " " * (300 << 10)), "too long"),
    "without end": (lambda o, k: endless(), "too long"),
    "encoded": (lambda o, k: http(gzip.compress(key_set(k).encode()), more="Content-Encoding: gzip\r\n"), "encoded although"),
    "cut": (lambda o, k: http(key_set(k))[:-5] + b"", "before its answer was complete"),
    "no HTTP": (lambda o, k: b"220 welcome\r\n", "no HTTP message"),
}


def endless():
    yield b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    for _ in range(1000):
        yield b"1000\r\n" + b" " * 4096 + b"\r\n"


@pytest.fixture(scope="module")
def judged(tmp_path_factory, web, keys, authority):
    """A gateway that has good keys of an issuer."""
    gitlab = Issuer("gitlab", authority, keys[0])
    gitlab.ca = authority[0]
    g = Gateway(tmp_path_factory.mktemp("judged") / "state", "  {}")
    write(g, web, issuer("gitlab", gitlab.source("1s", ", jwks-max-age: 1h")))
    g.start()
    wait_until(accepted(g, keys[0]), "the keys")
    yield g, gitlab
    assert g.stop() == 0, g.output().decode()
    gitlab.close()


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_set_of_keys_changes_nothing(judged, keys, name):
    g, gitlab = judged
    answer, says = BAD[name]
    changes = len(g.records(kind="keys"))
    if name in ("cut", "no HTTP"):
        gitlab.early = answer(gitlab, keys[0]).replace(b"200 OK", b"200 OK\r\nConnection: close")
    else:
        gitlab.answer = lambda request: answer(gitlab, keys[0])
    wait_until(lambda: says in status(g)["gitlab"]["error"], f"{name}: to be refused")
    assert status(g)["gitlab"]["good"] and ask(g, keys[0].token(gitlab_claims())).status == 200
    gitlab.answer = gitlab.early = None
    wait_until(lambda: not status(g)["gitlab"]["error"], "the keys again")
    assert len(g.records(kind="keys")) == changes
    assert all(r.target == WHERE["gitlab"] for r in gitlab.requests)


def test_an_issuer_that_does_not_answer_has_its_time(start, publish, keys):
    gitlab = publish("gitlab", keys[0])
    held = threading.Event()
    gitlab.answer = lambda request: (held.wait(60), None)[1]
    g = start(issuer("gitlab", gitlab.source("1s")))
    wait_until(lambda: status(g)["gitlab"]["error"] == "it did not answer in time", "the time to be over")
    gitlab.answer = None
    held.set()
    wait_until(accepted(g, keys[0]), "the keys")


def test_an_issuer_with_another_name_or_ca_is_none(start, publish, keys, tmp_path):
    gitlab = publish("gitlab", keys[0])
    gitlab.ca = make_pki(tmp_path, ["gitlab.test"])[0]
    g = start(issuer("gitlab", gitlab.source("1s")))
    wait_until(lambda: status(g)["gitlab"]["error"], "the certificate to be refused")
    assert "certificate" in status(g)["gitlab"]["error"]
    assert gitlab.fetches() == 0 and ask(g, keys[0].token(gitlab_claims())).reason == "issuer_unavailable"


def test_keys_that_were_fetched_survive_a_restart_without_the_issuer(start, publish, keys, web):
    gitlab = publish("gitlab", keys[0])
    g = start(issuer("gitlab", gitlab.source("1h")))
    wait_until(accepted(g, keys[0]), "the keys")
    stored = g.directory / "keys" / "gitlab"
    wait_until(stored.exists, "the keys to be stored")
    assert stored.stat().st_mode & 0o777 == 0o600 and '"d"' not in stored.read_text()
    (g.directory / "job.jwt").write_text(keys[0].token(gitlab_claims()))
    told = exeat("token", "inspect", g.directory / "job.jwt", config=g.config).stdout  # by the same keys
    assert "The gateway would accept it" in told and "sandbox      gitlab:20:302" in told
    gitlab.answer = http("{}", "503 Service Unavailable")
    again(g)
    assert ask(g, keys[0].token(gitlab_claims())).status == 200
    # Not those of another place, and not what is older than it may be.
    text = stored.read_text()
    stored.write_text(text.replace("https://gitlab.test/oauth", "https://other.test/oauth"))
    again(g)
    assert ask(g, keys[0].token(gitlab_claims())).reason == "issuer_unavailable"
    head, rest = text.split("\n", 1)
    schema, at, uri = head.split(" ")
    stored.write_text(f"{schema} {int(at) - 2 * 86400} {uri}\n{rest}")
    again(g)
    assert ask(g, keys[0].token(gitlab_claims())).reason == "issuer_unavailable"


def test_roles_that_start_again_have_the_keys(start, publish, keys):
    gitlab = publish("gitlab", keys[0])
    g = start(issuer("gitlab", gitlab.source("1h")))
    wait_until(accepted(g, keys[0]), "the keys")
    for role in ("worker", "clerk"):
        before = g.pids(role)
        for pid in before:
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: len(g.pids(role)) == len(before) and not set(g.pids(role)) & set(before), f"another {role}")

    def good():
        try:
            return ask(g, keys[0].token(gitlab_claims())).status == 200
        except OSError:
            return False

    wait_until(good, "a worker with the keys")
    gitlab.keys = [keys[1]]
    wait_until(accepted(g, keys[1]), "the new keys, by the clerk that is there now")


def test_an_issuer_that_comes_and_goes_with_a_reload(start, publish, keys, web):
    gitlab, github = publish("gitlab", keys[0]), publish("github", keys[0])
    g = start(issuer("gitlab", gitlab.source("1h")))
    wait_until(accepted(g, keys[0]), "the keys")
    write(g, web, issuer("gitlab", gitlab.source("1h")), issuer("github", github.source("1h")))
    exeat("reload", config=g.config)
    assert ask(g, keys[0].token(gitlab_claims())).status == 200
    wait_until(lambda: ask(g, keys[0].token(github_claims())).status == 200, "the keys of the new one")
    assert gitlab.fetches() == 1  # what was fetched stays
    write(g, web, issuer("github", github.source("1h")))
    exeat("reload", config=g.config)
    assert ask(g, keys[0].token(gitlab_claims())).reason == "token_issuer"
    assert ask(g, keys[0].token(github_claims())).status == 200 and "gitlab" not in status(g)


def test_the_keeper_verifies_by_the_keys_that_are_fetched(start, publish, keys, web):
    gitlab = publish("gitlab", keys[0])
    told = SERVICE.format(name="told", port=web.port) + "    assert: {as: bearer}\n    inject-plain: accepted\n"
    g = start(issuer("gitlab", gitlab.source("1h")).replace("{\"project_path:my-group/my-project\": web:read",
                                                              "{\"project_path:my-group/my-project\": [web:read, told:read]"), services=told)
    wait_until(accepted(g, keys[0]), "the keys")
    web.clear()
    assert ask(g, keys[0].token(gitlab_claims()), "told.test").status == 200
    word = web.requests[-1].field("Authorization").removeprefix("Bearer ")
    claims = jwt.decode(word, options={"verify_signature": False})
    assert (claims["sub"], claims["scope"]) == ("gitlab:20:302", "told:read")
    gitlab.keys = [keys[1]]
    wait_until(accepted(g, keys[1]), "the new key")
    wait_until(lambda: ask(g, keys[1].token(gitlab_claims(job_id="303")), "told.test").status == 200, "the keeper to have it too")
    assert ask(g, keys[0].token(gitlab_claims()), "told.test").reason == "token_key_unpublished"


# ---- docs/tokens.md

PAGE = (TREE / "docs/tokens.md").read_text()
FENCED = re.findall(r"(?ms)^```yaml\n(.*?)^```", PAGE)


def fenced(mark):
    return next(b for b in FENCED if mark in b)


@pytest.fixture
def recipes(start, publish, keys, tmp_path, web, origins, pki):
    """A gateway by the page's issuers; its names are those of the test."""
    issuers = {"gitlab": publish("gitlab", keys[0]), "github": publish("github", keys[1])}
    text = fenced("jwks-uri").replace("issuers:\n", "").replace("https://token.actions.example", GITHUB).replace("https://gitlab.example", GITLAB)
    for one in issuers.values():
        where = f"    jwks-uri: {ISS[one.name]}{WHERE[one.name]}\n"
        assert where in text
        text = text.replace(where, where + f'    jwks-addresses: ["127.0.0.1:{one.port}"]\n    jwks-ca-file: {one.ca}\n')
    g = start(text, services=over_tls(origins, pki))
    assert exeat("config", "check", config=g.config).stderr.count("issuers.") == 0
    g.issuers = issuers
    return g


def run_job(gateway, script, tmp_path, **environment):
    script = script.replace("gw.example:3128", f"127.0.0.1:{gateway.port}").replace("npm.example", "registry.test")
    script = script.replace("/etc/exeat/bundle.pem", str(gateway.root))
    return subprocess.run(["/bin/sh", "-ec", script], cwd=tmp_path, env=clean_environment(**environment), capture_output=True, text=True,
                          timeout=PATIENCE)


def test_the_job_of_the_page_for_gitlab(recipes, keys, tmp_path):
    lines = re.findall(r"^    - (.*)$", fenced(".gitlab-ci.yml"), re.M)
    token = keys[0].token(gitlab_claims(project_path="acme/x"))

    def passes():
        return run_job(recipes, "\n".join(lines), tmp_path, LEAVE=token).returncode == 0

    wait_until(passes, "the job to pass")
    assert (tmp_path / "left-pad.json").read_text() == "ok"
    refused = run_job(recipes, "\n".join(lines), tmp_path, LEAVE=keys[0].token(gitlab_claims(project_path="acme/y")))
    assert refused.returncode != 0 and "403" in refused.stderr


def test_the_job_of_the_page_for_github(recipes, keys, tmp_path):
    script = re.sub(r"(?m)^          ", "", fenced("test.yml").split("- run: |\n")[1])
    asked = []

    def give(request):
        asked.append(request)
        return http(json.dumps({"count": 1984, "value": keys[1].token(github_claims(repository="acme/x"))}))

    runner = Origin(script=give)
    environment = {"ACTIONS_ID_TOKEN_REQUEST_TOKEN": "runner-secret",
                   "ACTIONS_ID_TOKEN_REQUEST_URL": f"http://127.0.0.1:{runner.port}/token?api-version=2.0"}
    wait_until(lambda: run_job(recipes, script, tmp_path, **environment).returncode == 0, "the job to pass")
    runner.close()
    assert asked[0].target == "/token?api-version=2.0&audience=gw.example" and asked[0].field("Authorization") == "Bearer runner-secret"
    assert (tmp_path / "left-pad.json").read_text() == "ok"
