"""Leave tokens as an operator handles them: issue, inspect, revoke; and what holds on all workers at once."""
import json
import socket
import stat
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode

import pytest

from conftest import BOTH, services
from gateway import PATIENCE, Gateway, Wire, connect_head, exeat


@pytest.fixture
def state(tmp_path):
    directory = tmp_path / "state"
    exeat("init", "--name", "gw.test", "--service", "npm=npm.example,npm-read", directory)
    return directory


def issue(state, *words, sandbox="vm1", scope="npm:read", check=True):
    return exeat("token", "issue", "--sandbox", sandbox, "--scope", scope, *words, config=state / "proxy.conf",
                 check=check)


def inspect(state, token, *words):
    return exeat("token", "inspect", *words, config=state / "proxy.conf", stdin=token, check=False)


def claims(token):
    part = token.split(".")[1]
    return json.loads(urlsafe_b64decode(part + "=" * (-len(part) % 4)))


# ---- issue ----

def test_issue_prints_the_token_alone(state):
    r = issue(state)
    assert r.stdout.count("\n") == 1 and r.stdout.count(".") == 2 and r.stderr == ""
    said = claims(r.stdout)
    assert said["sub"] == "vm1" and said["aud"] == "gw.test" and said["scope"] == "npm:read"
    assert said["exp"] - said["iat"] == 15 * 60


def test_issue_writes_a_private_file(state, tmp_path):
    r = issue(state, "--output", tmp_path / "t.jwt")
    assert r.stdout == "" and stat.S_IMODE((tmp_path / "t.jwt").stat().st_mode) == 0o600
    assert inspect(state, (tmp_path / "t.jwt").read_text()).returncode == 0


def test_issue_says_all_it_was_asked_to(state, tmp_path):
    (tmp_path / "d.json").write_text('[{"type": "http_egress", "locations": ["npm.example"], "actions": ["GET"]}]')
    said = claims(issue(state, "--lifetime", "90s", "--client-id", "ci", "--listener", "explicit", "--details",
                        tmp_path / "d.json").stdout)
    assert said["exp"] - said["iat"] == 90 and said["client_id"] == "ci"
    assert said["cnf"] == {"exeat-listener": "explicit"}
    assert said["authorization_details"][0]["locations"] == ["npm.example"]


def test_issue_warns_of_a_scope_nobody_asks_for(state):
    r = issue(state, scope="npm:raed")
    assert "no service asks for scope npm:raed" in r.stderr and r.stdout.count(".") == 2


@pytest.mark.parametrize("words, text", [
    (["--lifetime", "16m"], "issuer local may give 1 s to 900 s"),
    (["--lifetime", "0"], "issuer local may give"),
    (["--issuer", "locla"], "did you mean local?"),
    (["--listener", "nobody"], "no listener is called nobody"),
    (["--details", "/nonexistent"], "/nonexistent: No such file"),
])
def test_issue_refuses_what_the_gateway_would(state, words, text):
    r = issue(state, *words, check=False)
    assert r.returncode == 2 and r.stdout == "" and text in r.stderr and r.stderr.count("\n") == 1


@pytest.mark.parametrize("odd", [{"sandbox": "a b"}, {"sandbox": "a\nb"}, {"scope": "a  b"}, {"scope": 'a"'}])
def test_issue_refuses_claims_that_the_gateway_would(state, odd):
    r = issue(state, **odd, check=False)
    assert r.returncode == 2 and r.stdout == "" and "the gateway would refuse such a token: token_claims" in r.stderr


def test_issue_refuses_a_key_that_others_can_read(state):
    (state / "issuer" / "local.key").chmod(0o640)
    r = issue(state, check=False)
    assert r.returncode == 2 and r.stdout == "" and "chmod 600" in r.stderr


def test_issue_refuses_a_key_that_is_not_in_the_set(state, tmp_path):
    exeat("init", "--name", "other", tmp_path / "other")
    (state / "issuer" / "local.key").write_bytes((tmp_path / "other" / "issuer" / "local.key").read_bytes())
    r = issue(state, check=False)
    assert r.returncode == 2 and r.stdout == "" and "token_key_unknown" in r.stderr
    assert f"{state}/issuer/local.key" in r.stderr  # what is to be looked at


# ---- inspect ----

def tampered(token, **changes):
    head, _, signature = token.strip().split(".")
    body = urlsafe_b64encode(json.dumps({**claims(token), **changes}).encode()).decode().rstrip("=")
    return f"{head}.{body}.{signature}\n"


def test_inspect_shows_words_and_checks(state):
    r = inspect(state, issue(state).stdout)
    assert r.returncode == 0 and '"sub": "vm1"' in r.stdout and "signature" in r.stdout
    assert "REFUSED" not in r.stdout and "The gateway would accept it" in r.stdout


def test_inspect_shows_every_check_that_fails(state):
    token = tampered(issue(state).stdout, aud="other", exp=2000000000)
    r = inspect(state, token, "--format", "json")
    answer = json.loads(r.stdout)
    assert r.returncode == 1 and answer["schema"] == "exeat.token-inspect/1" and not answer["accepted"]
    assert answer["reason"] == "token_audience" and answer["claims"]["aud"] == "other"
    failed = {c["name"]: c["reason"] for c in answer["checks"] if c["outcome"] == "refused"}
    assert failed == {"audience": "token_audience", "lifetime": "token_lifetime", "signature": "token_signature"}


def test_inspect_cannot_be_made_to_write_controls(state):
    r = inspect(state, tampered(issue(state).stdout, sub="\x1b[2J\u202e\x9b"))
    assert r.returncode == 1 and r.stdout.isascii() and "\x1b" not in r.stdout + r.stderr


@pytest.mark.parametrize("text, status", [("", 2), ("\n", 2), ("eyJh.b\n", 1), ("not a token", 1), ("a.b.c", 1)])
def test_inspect_of_what_is_no_token(state, text, status):
    assert inspect(state, text).returncode == status


def test_inspect_says_of_a_text_without_dots_that_there_is_nothing_to_read(state):
    assert inspect(state, "not a token").stdout.startswith("HEADER\nnot there\n\nCLAIMS\nnot there\n")


def test_inspect_without_a_configuration_still_shows_the_words(state, tmp_path):
    r = exeat("token", "inspect", config=tmp_path / "none.conf", stdin=issue(state).stdout, check=False)
    assert r.returncode == 2 and '"sub": "vm1"' in r.stdout and "CHECKS" not in r.stdout


# ---- revoke, without a gateway ----

def revoke(state, *words, **more):
    return exeat("token", "revoke", *words, config=state / "proxy.conf", check=False, **more)


@pytest.mark.parametrize("how", ["jti", "file", "stdin", "sandbox", "issued-before"])
def test_revoked_while_no_gateway_runs(state, tmp_path, how):
    token = issue(state).stdout
    (tmp_path / "t.jwt").write_text(token)
    words = {"jti": ["--jti", claims(token)["jti"]], "file": [tmp_path / "t.jwt"], "stdin": ["-"],
             "sandbox": ["--sandbox", "vm1"], "issued-before": ["--issued-before", "now"]}[how]
    assert inspect(state, token).returncode == 0
    r = revoke(state, *words, stdin=token if how == "stdin" else None)
    assert r.returncode == 0 and "no gateway runs; written to" in r.stdout
    seen = inspect(state, token)
    assert seen.returncode == 1 and "token_revoked" in seen.stdout


@pytest.mark.parametrize("words, text", [
    ([], "say one of --jti"),
    (["--jti", "a", "--sandbox", "b"], "say one of --jti"),
    (["--jti", "a b"], "visible ASCII"),
    (["--issued-before", "tomorrow"], "expected now"),
    (["--issued-before", "2100-01-01T00:00:00Z"], "in the future"),
    (["/nonexistent"], "No such file"),
])
def test_revoke_refuses_what_names_nothing(state, words, text):
    r = revoke(state, *words)
    assert r.returncode == 2 and r.stdout == "" and text in r.stderr
    assert not (state / "revocations").exists()


# ---- with a gateway of two workers ----

@pytest.fixture(scope="module")
def pair(tmp_path_factory, pki, origins):
    listed = services(origins[0].port, origins[1].port, pki[0])
    g = Gateway(tmp_path_factory.mktemp("pair") / "state", listed, workers=2).start()
    yield g
    assert g.stop() == 0, g.output().decode()[-4000:]


def ask(gateway, token, source="127.0.0.1"):
    s = socket.create_connection(("127.0.0.1", gateway.port), PATIENCE, source_address=(source, 0))
    wire = Wire(s)
    wire.send(connect_head("registry.test", token))
    answer = wire.response(method="CONNECT")
    wire.close()
    return answer


def stop(gateway):
    assert gateway.stop() == 0
    (gateway.directory / "log").unlink()  # or its old "ready" would be taken for the new one


def test_a_token_belongs_to_its_first_source_on_all_workers(pair):
    token = pair.token(BOTH, sandbox="sb-pinned")
    assert ask(pair, token).status == 200
    for _ in range(16):
        assert ask(pair, token, "127.0.0.2").reason == "token_binding"
        assert ask(pair, token).status == 200
    bound = pair.token(BOTH, sandbox="sb-bound", listener="explicit")
    assert ask(pair, bound).status == 200 and ask(pair, bound, "127.0.0.2").status == 200


def test_a_revocation_holds_on_all_workers_and_after_a_restart(pair):
    token = pair.token(BOTH, sandbox="sb-gone")
    other = pair.token(BOTH, sandbox="sb-stays")
    assert all(ask(pair, token).status == 200 for _ in range(8))
    r = exeat("token", "revoke", "--jti", claims(token)["jti"], config=pair.config)
    assert "the running gateway holds to it" in r.stdout
    assert all(ask(pair, token).reason == "token_revoked" for _ in range(16))
    assert ask(pair, other).status == 200
    stop(pair)
    pair.start()
    assert ask(pair, token).reason == "token_revoked"
    assert ask(pair, other).status == 200


def test_what_was_revoked_while_it_was_down_holds_when_it_is_up(pair):
    token = pair.token(BOTH, sandbox="sb-down")
    stop(pair)
    r = exeat("token", "revoke", "--sandbox", "sb-down", "--for", "1h", "--format", "json", config=pair.config)
    answer = json.loads(r.stdout)
    assert answer["by"] == "file" and 3590 < answer["until"] - time.time() <= 3601
    pair.start()
    assert ask(pair, token).reason == "token_revoked"
