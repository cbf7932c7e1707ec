"""
CI identity: tokens of CI systems, with the claims that GitLab and GitHub document, their keys fetched from where the issuer
publishes them, scopes and sandboxes made of their claims. A real issuer (HTTPS, discovery, RS256), a real gateway.
"""
import json
import os
import time

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from gateway import Gateway, exeat, free_port, wait_until
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


def test_an_issuer_whose_keys_were_never_fetched_is_closed(tmp_path, web, keys):
    g = Gateway(tmp_path / "state", "  {}")
    write(g, web, issuer("gitlab", f'jwks-uri: "{GITLAB}/oauth/discovery/keys", jwks-addresses: ["127.0.0.1:{free_port()}"]'))
    g.start()
    answer = ask(g, keys[0].token(gitlab_claims()))
    assert (answer.status, answer.reason) == (503, "issuer_unavailable")
    assert ask(g, g.token("web:read")).status == 200  # who has other keys is not concerned
    assert g.stop() == 0
