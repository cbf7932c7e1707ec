"""The leave token is exchanged for one of the service's (exchange): once for each sandbox, in time, and a failure is a reason."""
import json
import time
import urllib.request
from base64 import b64encode

import jwt
import pytest

from gateway import Gateway, connect_head, wait_until
from handing import TLS, gateway, inside, origin, refusal, tls, token, write_secret
from origin import Origin, make_pki
from test_assertion import verify


class TokenService:
    """A token endpoint (RFC 8693); answer(form) gives status and JSON."""

    def __init__(self, origin):
        self.origin, self.forms, self.answer = origin, [], self.grant
        origin.script = self.script

    def script(self, request):
        form = {k: v[0] for k, v in urllib.parse.parse_qs(request.body.decode()).items()}
        self.forms.append((request, form))
        status, body = self.answer(form)
        text = json.dumps(body).encode()
        return b"HTTP/1.1 %d X\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (status, len(text), text)

    def grant(self, form):
        said = jwt.decode(form["subject_token"], options={"verify_signature": False})
        return 200, {"access_token": f"exchanged-for-{said['sub']}-{len(self.forms)}", "token_type": "Bearer",
                     "issued_token_type": "urn:ietf:params:oauth:token-type:access_token", "expires_in": 3600}


@pytest.fixture(scope="module")
def sts(tmp_path_factory):
    ca, cert, key = make_pki(tmp_path_factory.mktemp("sts-pki"), ["sts.test"])
    o = Origin(cert, key)
    o.ca = ca
    yield TokenService(o)
    o.close()


@pytest.fixture(scope="module")
def exchanging(tmp_path_factory, tls, sts):
    g = Gateway(tmp_path_factory.mktemp("exchange") / "state", "  {}", workers=2)
    write_secret(g.directory / "cred" / "client", "client-secret-1")
    listed = TLS.format(name="sts", port=sts.origin.port, ca=sts.origin.ca, more="").replace("scope: web", "scope: nobody")
    listed += TLS.format(name="exchanged", port=tls.port, ca=tls.ca, more="""exchange:
      at: https://sts.test/oauth/token
      client: the gateway
      secret: "file:cred/client"
      audience: https://api.test
      scope: api:read""")
    g.write(listed)
    g.start()
    yield g
    assert g.stop() == 0, g.output().decode()
    text = g.output().decode() + "".join(p.read_text() for p in (g.directory / "journal").glob("*.ndjson"))
    assert "client-secret-1" not in text and "exchanged-for" not in text and "eyJ" not in text


def test_a_token_is_exchanged_once_for_many_requests(exchanging, tls, sts):
    sts.forms.clear()
    for _ in range(3):
        answer, seen = inside(exchanging, "exchanged", tls, "ex-1")
        assert answer.status == 200 and seen.field("Authorization") == "Bearer exchanged-for-ex-1-1"
    [(request, form)] = sts.forms
    assert request.target == "/oauth/token" and request.field("Content-Type") == "application/x-www-form-urlencoded"
    assert request.field("Authorization") == "Basic " + b64encode(b"the%20gateway:client-secret-1").decode()
    assert form["grant_type"] == "urn:ietf:params:oauth:grant-type:token-exchange"
    assert (form["audience"], form["scope"]) == ("https://api.test", "api:read")
    said = verify(exchanging, form["subject_token"], "https://sts.test/oauth/token")
    assert said["sub"] == "ex-1" and said["act"] == {"sub": "gw.test"}
    assert exchanging.wait_for(kind="grant", service="exchanged", sandbox="ex-1")[0]["grant"]["kind"] == "exchange"
    dial = exchanging.wait_for(kind="dial", sandbox="ex-1")
    assert any(d["http"]["host"] == "sts.test" for d in dial), dial  # the porter's, as every other


def test_each_sandbox_has_its_own_exchange(exchanging, tls, sts):
    assert inside(exchanging, "exchanged", tls, "ex-2")[1].field("Authorization").startswith("Bearer exchanged-for-ex-2-")
    assert inside(exchanging, "exchanged", tls, "ex-3")[1].field("Authorization").startswith("Bearer exchanged-for-ex-3-")


def test_many_at_once_are_one_exchange_on_all_workers(exchanging, sts):
    sts.forms.clear()
    token = exchanging.token("web", sandbox="ex-rush")
    wires = [exchanging.connect() for _ in range(20)]
    for w in wires:
        w.send(connect_head("exchanged.test", token))
    assert all(w.response("CONNECT").status == 200 for w in wires)
    assert len(sts.forms) == 1


def test_a_token_is_exchanged_anew_before_it_ends(exchanging, tls, sts):
    def short(form):
        status, body = sts.grant(form)
        return status, {**body, "expires_in": 2}

    sts.answer = short
    try:
        first = inside(exchanging, "exchanged", tls, "ex-short")[1].field("Authorization")
        wait_until(lambda: inside(exchanging, "exchanged", tls, "ex-short")[1].field("Authorization") != first, "another token")
    finally:
        sts.answer = sts.grant


BAD_ANSWERS = {
    "an error of RFC 6749": (lambda f: (400, {"error": "invalid_grant", "error_description": "x"}), "answered 400 invalid_grant"),
    "an error of its own": (lambda f: (500, {"error": "weird words"}), "answered 500"),
    "no token": (lambda f: (200, {"token_type": "Bearer"}), "has no access_token"),
    "a token of another type": (lambda f: (200, {"access_token": "abcdefgh1", "token_type": "mac"}), "token_type"),
    "a token that cannot be sent": (lambda f: (200, {"access_token": "abc\r\nX: defgh", "token_type": "Bearer"}), "cannot be sent"),
    "a refresh token": (lambda f: (200, {"access_token": "abcdefgh1", "token_type": "Bearer", "issued_token_type":
                                         "urn:ietf:params:oauth:token-type:refresh_token"}), "refresh token"),
    "an end in the past": (lambda f: (200, {"access_token": "abcdefgh1", "token_type": "Bearer", "expires_in": -5}), "expires_in"),
    "too long an answer": (lambda f: (200, {"access_token": "abcdefgh1", "token_type": "Bearer", "x": "y" * 100000}), "too long"),
}


@pytest.mark.parametrize("row", BAD_ANSWERS)
def test_an_exchange_that_fails_is_a_reason(exchanging, tls, sts, row):
    sts.answer, words = BAD_ANSWERS[row]
    sandbox = "bad-" + str(list(BAD_ANSWERS).index(row))
    try:
        assert refusal(exchanging, "exchanged", sandbox) == "exchange_failed"
    finally:
        sts.answer = sts.grant
    result = exchanging.wait_for(kind="result", sandbox=sandbox)[-1]
    assert result["reason"] == "exchange_failed" and words in result["detail"] and "weird" not in result["detail"]
    time.sleep(1.1)  # the failure stands for a second
    assert inside(exchanging, "exchanged", tls, sandbox)[0].status == 200  # then it is tried anew


def test_who_asks_again_and_again_does_not_make_the_gateway_do_so(exchanging, sts):
    sts.answer, _ = BAD_ANSWERS["an error of its own"]
    sts.forms.clear()
    try:
        assert [refusal(exchanging, "exchanged", "bad-often") for _ in range(5)] == ["exchange_failed"] * 5
    finally:
        sts.answer = sts.grant
    assert len(sts.forms) <= 2  # one, and one more when the five take over a second


def test_nothing_of_it_was_outside_a_cell(exchanging):
    assert exchanging.records(kind="finding", reason="role_violation") == []
