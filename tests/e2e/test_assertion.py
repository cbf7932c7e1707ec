"""The gateway tells the service who asks (assert): whom it is for, what it may, by which key; and that nobody changes it."""
import json
import subprocess
import urllib.request
from base64 import urlsafe_b64decode, urlsafe_b64encode

import jwt
import pytest

from gateway import exeat, free_port, wait_until
from handing import asserting, gateway, inside, origin, tls, token


def published(g):
    with urllib.request.urlopen(f"http://127.0.0.1:{g.publish}/jwks.json", timeout=60) as answer:
        assert answer.headers["Content-Type"] == "application/jwk-set+json"
        return json.loads(answer.read())


def verify(g, token, audience):
    """As a service does that knows nothing of the gateway but its published keys."""
    key = {k["kid"]: jwt.PyJWK(k) for k in published(g)["keys"]}[jwt.get_unverified_header(token)["kid"]]
    return jwt.decode(token, key.key, algorithms=["ES256"], audience=audience, issuer="gw.test",
                      options={"require": ["exp", "iat", "nbf", "jti", "sub", "aud", "iss"]})


def changed(token, **claims):
    head, body, signature = token.split(".")
    said = json.loads(urlsafe_b64decode(body + "=="))
    body = urlsafe_b64encode(json.dumps({**said, **claims}).encode()).rstrip(b"=").decode()
    return f"{head}.{body}.{signature}"


def test_an_assertion_says_who_asks_and_to_whom(asserting, tls):
    answer, seen = inside(asserting, "mine", tls, "sb-9")
    scheme, token = seen.field("Authorization").split()
    said = verify(asserting, token, "mine")
    assert (answer.status, scheme) == (200, "Bearer") and said["sub"] == "sb-9" and said["act"] == {"sub": "gw.test"}
    assert said["scope"] == "web" and 0 < said["exp"] - said["iat"] <= 60
    grant = asserting.wait_for(kind="grant", service="mine", sandbox="sb-9")[0]["grant"]
    assert (grant["kind"], grant["jti"]) == ("assert", said["jti"]) and grant["kid"] == jwt.get_unverified_header(token)["kid"]


def test_audience_field_and_lifetime_are_the_services(asserting, tls):
    _, seen = inside(asserting, "one", tls)
    said = verify(asserting, seen.field("X-Who"), "https://one.test")
    assert said["exp"] - said["iat"] <= 30 and seen.field("Authorization") is None


def test_scope_is_narrowed_to_the_service(asserting, tls):
    tls.clear()
    wire = asserting.tunnel("mine.test", asserting.token("web other:write admin", sandbox="sb-wide"))
    wire.send("GET /x HTTP/1.1\r\nHost: mine.test\r\n\r\n")
    assert wire.response().status == 200
    assert verify(asserting, tls.requests[0].field("Authorization")[7:], "mine")["scope"] == "web"


@pytest.mark.parametrize("claims", [{"sub": "sb-2"}, {"aud": "one"}, {"exp": 9999999999}, {"scope": "admin"}])
def test_a_changed_assertion_is_refused(asserting, tls, claims):
    token = inside(asserting, "mine", tls)[1].field("Authorization")[7:]
    verify(asserting, token, "mine")
    with pytest.raises(jwt.InvalidTokenError):
        verify(asserting, changed(token, **claims), claims.get("aud", "mine"))
    with pytest.raises(jwt.InvalidAudienceError):
        verify(asserting, token, "one")


def test_each_request_has_a_token_of_its_own_where_the_service_takes_it_once(asserting, tls):
    token, seen = asserting.token("web", sandbox="sb-once"), set()
    wire = asserting.tunnel("changing.test", token)
    for _ in range(5):
        tls.clear()
        wire.send("GET /x HTTP/1.1\r\nHost: changing.test\r\n\r\n")
        assert wire.response().status == 200
        seen.add(verify(asserting, tls.requests[0].field("Authorization")[7:], "changing")["jti"])
    assert len(seen) == 5


def test_access_as_container_registries_read_it(asserting, tls):
    said = verify(asserting, inside(asserting, "private", tls)[1].field("Authorization")[7:], "private")
    assert said["access"] == [{"type": "repository", "name": "team/app", "actions": ["pull"]},
                              {"type": "registry", "name": "catalog", "actions": ["*"]}]


def test_keys_are_the_gateways_own_and_nobody_elses_to_read(asserting):
    directory = asserting.directory / "assertion"
    assert directory.stat().st_mode & 0o777 == 0o700
    assert [(p.name, p.stat().st_mode & 0o777) for p in directory.iterdir()] == [("signing.key", 0o600)]
    assert all("d" not in key for key in published(asserting)["keys"])


def test_the_key_changes_by_way_of_a_second_one(asserting, tls):
    first = published(asserting)["keys"]
    exeat("assertion", "prepare", config=asserting.config)
    exeat("reload", config=asserting.config)
    both = published(asserting)["keys"]
    assert len(both) == 2 and both[0] == first[0]
    assert jwt.get_unverified_header(inside(asserting, "mine", tls, "sb-r1")[1].field("Authorization")[7:])["kid"] == both[0]["kid"]
    exeat("assertion", "rotate", config=asserting.config)
    exeat("reload", config=asserting.config)
    token = inside(asserting, "mine", tls, "sb-r2")[1].field("Authorization")[7:]
    assert jwt.get_unverified_header(token)["kid"] == both[1]["kid"] and verify(asserting, token, "mine")["sub"] == "sb-r2"
    assert {k["kid"] for k in published(asserting)["keys"]} == {k["kid"] for k in both}
    assert exeat("assertion", "rotate", config=asserting.config, check=False).returncode == 3


def test_a_container_registry_takes_it_and_refuses_a_changed_one(asserting, tls, tmp_path):
    """Debian's docker-registry with its token authentication, which trusts the certificate of the key."""
    certificate, port = tmp_path / "assertion.pem", free_port()
    certificate.write_text(exeat("assertion", "certificate", config=asserting.config).stdout)
    config = tmp_path / "registry.yml"
    config.write_text(f"""version: 0.1
storage: {{filesystem: {{rootdirectory: {tmp_path}/data}}}}
http: {{addr: "127.0.0.1:{port}"}}
auth: {{token: {{realm: "http://127.0.0.1/none", service: private, issuer: gw.test, rootcertbundle: {certificate}}}}}
""")
    token = inside(asserting, "private", tls, "sb-oci")[1].field("Authorization")[7:]
    registry = subprocess.Popen(["docker-registry", "serve", config], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def status(credential, path="/v2/team/app/tags/list"):
        request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers={"Authorization": f"Bearer {credential}"})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status
        except urllib.error.HTTPError as e:
            return e.code
        except urllib.error.URLError:
            return None

    try:
        wait_until(lambda: status(token), "the registry to listen")
        assert status(token) == 404  # it is let in, and there is no such repository
        assert status(changed(token, sub="sb-2")) == 401
        assert status(token, "/v2/other/app/tags/list") == 401  # not within its access
        assert status("x.y.z") == 401
    finally:
        registry.terminate()
        registry.wait(60)
