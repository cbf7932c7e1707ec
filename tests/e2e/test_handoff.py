"""What a service hears of whom: what the sandbox says about itself is taken away (strip); what is refused before it starts."""
import json
import re
import subprocess

import pytest

from gateway import EXEAT, TREE, Gateway, clean_environment, exeat
from handing import ask, asserting, gateway, origin, tls, token, write_secret


def dropped(gateway, seen):
    """What the newest decision says was dropped."""
    return gateway.wait_for(kind="decision")[-1].get("http", {}).get("dropped", "").split(",")


# ---- strip

# Never forwarded, whatever the service says of credentials; and recorded by name.
SELF_MADE = ["Forwarded: for=1.2.3.4", "X-Forwarded-For: 1.2.3.4", "X-Forwarded-Host: a", "X-Forwarded-User: root",
             "X-Real-IP: 1.2.3.4", "X-Remote-User: root", "X_Remote_User: root", "Remote-User: root",
             "Impersonate-User: root", "X-Auth-Request-User: root", "X-HTTP-Method-Override: DELETE", "X-HTTP-Method: PUT",
             "X-Method-Override: DELETE", "X-Original-URL: /admin", "X-Rewrite-URL: /admin", "Via: 1.1 other",
             "Client-Cert: x", "Sudo: root"]
# Between two neighbours only; no name of it is worth a record.
HOP = ["Keep-Alive: 5", "Proxy-Connection: keep-alive", "TE: trailers", "Trailer: X-A"]
CREDENTIALS = ["Authorization: Bearer abc", "Cookie: a=b", "X-Api-Key: abc", "Private-Token: abc", "X_Auth_Token: abc"]


@pytest.mark.parametrize("field", SELF_MADE)
@pytest.mark.parametrize("host", ["refuse.test", "strip.test", "allow.test"])
def test_what_a_sandbox_says_of_itself_does_not_pass(gateway, token, origin, host, field):
    name = field.partition(":")[0]
    answer, seen = ask(gateway, token, host, f"X-Mine: 1\r\n{field}\r\n", origin)
    assert answer.status == 200 and seen.field("X-Mine") == "1"
    assert seen.field("Via") == "1.1 gw.test" and (name == "Via" or seen.field(name) is None)
    assert b"1.2.3.4" not in seen.raw and b"root" not in seen.raw and b"other" not in seen.raw
    assert dropped(gateway, seen) == [name]


@pytest.mark.parametrize("field", HOP)
def test_what_belongs_to_one_connection_ends_there(gateway, token, origin, field):
    answer, seen = ask(gateway, token, "allow.test", field + "\r\n", origin)
    assert answer.status == 200 and seen.field(field.partition(":")[0]) is None
    assert dropped(gateway, seen) == [""]


def test_what_connection_names_ends_there_too(gateway, token, origin):
    answer, seen = ask(gateway, token, "allow.test", "Connection: X-Near\r\nX-Near: 1\r\nX-Far: 1\r\n", origin)
    assert answer.status == 200 and seen.field("X-Near") is None and seen.field("X-Far") == "1"


@pytest.mark.parametrize("field", CREDENTIALS)
def test_credentials_of_the_sandbox(gateway, token, origin, field):
    name, _, value = field.partition(": ")
    answer, seen = ask(gateway, token, "refuse.test", field + "\r\n", origin)
    assert (answer.reason, seen) == ("credential_foreign", None)
    answer, seen = ask(gateway, token, "strip.test", field + "\r\n", origin)
    assert answer.status == 200 and seen.field(name) is None and dropped(gateway, seen) == [name]
    answer, seen = ask(gateway, token, "allow.test", field + "\r\n", origin)
    assert answer.status == 200 and seen.field(name) == value and dropped(gateway, seen) == [""]


def test_a_list_of_fields_lets_no_other_pass(gateway, token, origin):
    answer, seen = ask(gateway, token, "listed.test", "X-Kept: 1\r\nAccept: a\r\nX-Other: 2\r\nUser-Agent: me\r\n", origin)
    assert answer.status == 200 and (seen.field("X-Kept"), seen.field("Accept")) == ("1", "a")
    assert seen.field("X-Other") is None and seen.field("User-Agent") is None
    assert dropped(gateway, seen) == ["X-Other", "User-Agent"]


def test_no_value_of_what_was_dropped_is_recorded(gateway, token, origin):
    ask(gateway, token, "strip.test", "Cookie: session=verysecretcookie\r\nX-Remote-User: somebody-else\r\n", origin)
    assert dropped(gateway, None) == ["Cookie", "X-Remote-User"]
    text = "".join(p.read_text() for p in (gateway.directory / "journal").glob("*.ndjson"))
    assert "verysecretcookie" not in text and "somebody-else" not in text


# ---- what is refused before it starts

REFUSED = {
    "an unknown source": ('credential: {from: "vault:x"}', "expected \"file:NAME\""),
    "the secret itself": ('credential: {from: "s3cr3t"}', "does not stand in a configuration"),
    "a file that is not there": ('credential: {from: "file:cred/none"}', "No such file"),
    "a file that others can read": ('credential: {from: "file:cred/open"}', "chmod 600"),
    "a secret that is too short": ('credential: {from: "file:cred/short"}', "less than 8"),
    "a secret of two lines": ('credential: {from: "file:cred/lines"}', "cannot be sent"),
    "basic without a colon": ('credential: {from: "file:cred/good", as: basic}', "USER:PASSWORD"),
    "a variable for each": ('credential: {from: "env:{sandbox}"}', "name of a variable"),
    "a program without a path": ('credential: {from: "exec:printf x"}', "absolute path"),
    "a program that is not there": ('credential: {from: "exec:/nowhere/x"}', "no program"),
    "a program that others can write": ('credential: {from: "exec:CRED/program"}', "others can write it"),
    "a form that is none": ('credential: {from: "file:cred/good", as: digest}', "expected bearer"),
    "a field that frames": ('credential: {from: "file:cred/good", as: "header:Transfer-Encoding"}', "cannot hold"),
    "Host": ('credential: {from: "file:cred/good", as: "header:Host"}', "cannot hold"),
    "a form without a source": ("credential: {as: bearer}", "credential.from"),
    "the sandbox's own let through too": ('credential: {from: "file:cred/good"}\n    client-credentials: allow', "which of the two"),
    "a plain port": ('credential: {from: "file:cred/good"}\n    plain-ports: [80]', "inject-plain: accepted"),
    "two ways": ('credential: {from: "file:cred/good"}\n    assert: {as: bearer}', "one of credential, assert and exchange"),
    "an assertion that lives long": ("assert: {as: bearer, lifetime: 5m}", "1s to 60s"),
    "an assertion as basic": ("assert: {as: basic}", "expected bearer"),
    "an access that is none": ("assert: {as: bearer, access: [pull]}", "TYPE:NAME:ACTION"),
    "a token endpoint over plain HTTP": ('exchange: {at: "http://sts.test/token"}', "expected a URL"),
    "a token endpoint that no service lists": ('exchange: {at: "https://sts.test/token"}', "no service lists"),
}


@pytest.mark.parametrize("row", REFUSED)
def test_a_configuration_that_is_refused(tmp_path, row):
    words, why = REFUSED[row]
    g = Gateway(tmp_path / "state", "  {}")
    cred = g.directory / "cred"
    for name, text in {"good": "good-credential", "open": "open-credential", "short": "1234567", "lines": "two\nlines-of-it"}.items():
        write_secret(cred / name, text)
    (cred / "open").chmod(0o640)
    write_secret(cred / "program", "#!/bin/sh\n")
    (cred / "program").chmod(0o777)
    g.write("  s:\n    hosts: [s.test]\n    ports: [443]\n    allow: [\"GET /**\"]\n    scope: web\n"
            f"    audit: \"waived: test\"\n    {words.replace('CRED', str(cred))}\n")
    result = exeat("config", "check", config=g.config, check=False)
    assert result.returncode == 2 and why in result.stderr, result.stderr
    assert re.search(r"proxy\.conf:\d+:\d+: ", result.stderr), result.stderr


# ---- the page


def test_the_commands_of_the_page_work(asserting, tmp_path):
    """docs/credentials.md: its shell lines, and its configuration, as they stand there."""
    page = (TREE / "docs" / "credentials.md").read_text()
    g = Gateway(tmp_path / "state", "  {}")
    blocks = {kind: [b for k, b in re.findall(r"```(\w+)\n(.*?)```", page, re.DOTALL) if k == kind] for kind in ("sh", "yaml")}
    (g.directory / "creds").mkdir()
    write_secret(g.directory / "sts.secret", "client-secret-1")
    services = [b for b in blocks["yaml"] if b.startswith("services:\n")]
    assert len(services) == 2
    g.write("".join(b.removeprefix("services:\n") for b in services))
    environment = clean_environment(PATH=f"{EXEAT.parent}:/usr/bin:/bin", EXEAT_CONFIG=str(g.config))
    g.start()
    try:
        for block in blocks["sh"]:
            done = subprocess.run(["bash", "-ec", block], cwd=g.directory, env=environment, input="secret-of-vm1\n",
                                  capture_output=True, text=True, timeout=60)
            assert done.returncode == 0, block + done.stderr
    finally:
        g.stop()
    assert (g.directory / "creds" / "vm1.token").stat().st_mode & 0o777 == 0o600
    assert len(json.loads((g.directory / "gateway.jwks").read_text())["keys"]) == 1
