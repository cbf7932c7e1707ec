"""exeat explain: the decision from the command line, from the same function as the gateway's."""
import json
import time

import jwt
import pytest

from gateway import exeat

CONFIG = """
gateway: {name: gw.test, state: .}
listen:
  explicit: {address: "127.0.0.1:3128"}
issuers:
  local: {issuer: "https://gw.test/local", jwks: issuer/local.jwks, algorithms: [ES256], max-lifetime: 1h}
canaries: {file: canaries.json}
journal: {directory: journal}
admin: {address: "unix:admin.sock"}
services:
  npm:
    preset: npm-read
    hosts: [npm.example]
    plain-ports: [80]
    ports: [443]
    scope: npm:read
    audit: "waived: test"
  closed:
    hosts: [closed.example]
    allow: ["GET /**"]
    scope: npm:read
"""
AS_IF = ["--sandbox", "s1", "--scope", "npm:read"]


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    directory = tmp_path_factory.mktemp("explain") / "state"
    exeat("init", directory, "--name", "gw.test")
    (directory / "proxy.conf").write_text(CONFIG)
    return directory / "proxy.conf"


@pytest.mark.parametrize("words, status, reason, last", [
    (AS_IF + ["GET", "https://npm.example/left-pad"], 0, "allowed", "client credentials"),
    (AS_IF + ["GET", "http://npm.example/left-pad"], 0, "allowed", "client credentials"),
    (AS_IF + ["CONNECT", "npm.example:443"], 0, "allowed", "scope"),
    (AS_IF + ["PUT", "https://npm.example/left-pad"], 1, "method_not_allowed", "allow rules"),
    (AS_IF + ["GET", "https://npm.example/-/whoami"], 1, "denied_by_rule", "deny rules"),
    (AS_IF + ["GET", "https://npm.example/a/../b"], 1, "path_invalid", "request"),
    (AS_IF + ["GET", "https://npm.example:8443/x"], 1, "host_not_listed", "destination"),
    (AS_IF + ["GET", "https://other.example/x"], 1, "host_not_listed", "destination"),
    (AS_IF + ["GET", "https://127.0.0.1/x"], 1, "host_invalid", "request"),
    (AS_IF + ["GET", "https://closed.example/x"], 1, "handoff_unattested", "service open"),
    (AS_IF + ["-f", "Authorization: Basic eA==", "GET", "https://npm.example/x"], 1, "credential_foreign",
     "client credentials"),
    (["--sandbox", "s1", "GET", "https://npm.example/x"], 1, "scope_missing", "scope"),
    (["GET", "https://npm.example/x"], 1, "token_missing", "token"),
    (["GET", "https://other.example/x"], 1, "token_missing", "token"),
])
def test_the_answer_and_the_step_that_gave_it(config, words, status, reason, last):
    result = exeat("explain", "--format", "json", *words, config=config, check=False)
    answer = json.loads(result.stdout)
    assert result.returncode == status, result.stderr
    assert answer["schema"] == "exeat.explain/1"
    assert (answer["reason"], answer["allowed"]) == (reason, status == 0)
    assert answer["steps"][-1]["step"] == last
    assert [s["ok"] for s in answer["steps"]] == [True] * (len(answer["steps"]) - 1) + [status == 0]


def test_an_https_url_is_a_connect_and_a_request(config):
    answer = json.loads(exeat("explain", "--format", "json", *AS_IF, "GET", "https://npm.example/x",
                              config=config).stdout)
    asked = [s["target"] for s in answer["steps"] if s["step"] == "token"]
    assert asked == ["npm.example:443", "https://npm.example/x"]


def test_text_is_aligned_and_names_the_rule(config):
    lines = exeat("explain", *AS_IF, "GET", "http://npm.example/left-pad", config=config).stdout.splitlines()
    assert lines[0] == "GET http://npm.example/left-pad"
    assert lines[1].startswith("  yes  token ")
    assert lines[-1] == 'allowed by service npm, rule "GET /*?".'
    assert len({line.index(line[7:].split("  ")[0], 7) for line in lines[1:-2]}) == 1
    assert "\x1b" not in "".join(lines)


def test_fields_that_would_not_go_out_are_named(config):
    out = exeat("explain", *AS_IF, "-f", "npm-session: 1", "-f", "Accept: */*", "GET", "http://npm.example/x",
                config=config).stdout
    assert out.endswith("not forwarded: npm-session\n")


def test_a_bad_token_is_the_first_step(config, tmp_path):
    token = tmp_path / "token"
    token.write_text("e30.e30.e30")
    token.chmod(0o600)
    result = exeat("explain", "--format", "json", "-t", token, "GET", "https://npm.example/x", config=config,
                   check=False)
    answer = json.loads(result.stdout)
    assert result.returncode == 1
    assert answer["reason"].startswith("token_") and answer["reason"] != "token_missing"
    assert [s["step"] for s in answer["steps"]] == ["token"]
    again = exeat("explain", "-t", "-", "GET", "https://npm.example/x", config=config, check=False,
                  stdin="e30.e30.e30\n")
    assert again.returncode == 1 and answer["reason"] in again.stdout


def make_token(config, path, **claims):
    now = int(time.time())
    kid = json.loads((config.parent / "issuer" / "local.jwks").read_text())["keys"][0]["kid"]
    words = {"iss": "https://gw.test/local", "aud": "gw.test", "sub": "sb-1", "client_id": "c", "jti": "j1",
             "iat": now - 60, "exp": now + 60, "scope": "npm:read", **claims}
    key = (config.parent / "issuer" / "local.key").read_text()
    path.touch(0o600)
    path.write_text(jwt.encode(words, key, "ES256", {"kid": kid, "typ": "at+jwt"}))
    return path


ONLY_LEFT_PAD = [{"type": "http_egress", "locations": ["npm.example"], "paths": ["/left-pad"]}]


@pytest.mark.parametrize("claims, path, reason, last", [
    ({}, "left-pad", "allowed", "client credentials"),
    ({"scope": "other"}, "left-pad", "scope_missing", "scope"),
    ({"exp": int(time.time()) - 600, "iat": int(time.time()) - 900}, "left-pad", "token_expired", "token"),
    ({"aud": "gw.other"}, "left-pad", "token_audience", "token"),
    ({"authorization_details": ONLY_LEFT_PAD}, "left-pad", "allowed", "client credentials"),
    ({"authorization_details": ONLY_LEFT_PAD}, "right-pad", "details_not_allowed", "authorization details"),
])
def test_a_real_token_is_verified_as_the_workers_do(config, tmp_path, claims, path, reason, last):
    token = make_token(config, tmp_path / "token", **claims)
    result = exeat("explain", "--format", "json", "-t", token, "GET", f"https://npm.example/{path}", config=config,
                   check=False)
    answer = json.loads(result.stdout)
    assert (answer["reason"], answer["steps"][-1]["step"]) == (reason, last), result.stderr
    assert result.returncode == (reason != "allowed")
    assert answer["sandbox"] == ("" if last == "token" else "sb-1")
    assert token.read_text() not in result.stdout + result.stderr


@pytest.mark.parametrize("words, message", [
    (["GET"], "URL"),
    (["GET", "npm.example/x"], "https://"),
    (["--scope", "x", "GET", "https://npm.example/x"], "--sandbox"),
    (["-t", "x", "--sandbox", "s", "GET", "https://npm.example/x"], "--token-file"),
    (["-f", "no colon", "GET", "https://npm.example/x"], "--field"),
    (["G T", "https://npm.example/x"], "method"),
    (["-t", "/nonexistent", "GET", "https://npm.example/x"], "/nonexistent"),
])
def test_usage(config, words, message):
    result = exeat("explain", *words, config=config, check=False)
    assert result.returncode == 2
    assert message in result.stderr and result.stdout == ""


def test_a_token_that_others_can_read_is_refused(config, tmp_path):
    token = tmp_path / "token"
    token.write_text("e30.e30.e30")
    token.chmod(0o644)
    result = exeat("explain", "-t", token, "GET", "https://npm.example/x", config=config, check=False)
    assert result.returncode == 2
    assert "chmod 600" in result.stderr


def test_a_bad_configuration_has_a_place(config, tmp_path):
    bad = config.with_name("bad.conf")
    bad.write_text(CONFIG + '  twice:\n    hosts: [npm.example]\n    allow: ["GET /**"]\n    scope: x\n')
    result = exeat("explain", *AS_IF, "GET", "https://npm.example/x", config=bad, check=False)
    assert result.returncode == 2
    assert "bad.conf:23:13: service npm lists npm.example port 443 too" in result.stderr
