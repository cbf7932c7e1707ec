"""
What a service hears of whom: what the sandbox says about itself is taken away (strip), what the gateway says in its
place is put in (inject, assert, exchange), once for each sandbox, and none of it comes back.
"""
import gzip
import html
import json
import re
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from base64 import b64encode, urlsafe_b64decode, urlsafe_b64encode

import jwt
import pytest

from gateway import EXEAT, TREE, Gateway, clean_environment, connect_head, exeat, free_port, wait_until
from origin import Origin, make_pki, ok

PLAIN = """
  {name}:
    hosts: [{name}.test]
    plain-ports: [80]
    addresses: ["127.0.0.1:{port}"]
    allow: ["GET /**", "POST /**"]
    scope: web
    audit: "waived: test"
    {more}
"""


def service(name, port, more=""):
    return PLAIN.format(name=name, port=port, more=more)


@pytest.fixture(scope="module")
def origin():
    o = Origin()
    yield o
    o.close()


@pytest.fixture(scope="module")
def gateway(tmp_path_factory, origin):
    listed = "".join(service(name, origin.port, f"client-credentials: {name}") for name in ("refuse", "strip", "allow"))
    listed += service("listed", origin.port, "forward-fields: [X-Kept, Accept]")
    g = Gateway(tmp_path_factory.mktemp("handoff") / "state", listed).start()
    yield g
    assert g.stop() == 0, g.output().decode()


@pytest.fixture(scope="module")
def token(gateway):
    return gateway.token("web")


def ask(gateway, token, host, fields, origin, path="/x", method="GET", body=b""):
    """One request; the answer, and what the service saw of it (None when it did not)."""
    origin.clear()
    wire = gateway.connect()
    head = f"{method} http://{host}{path} HTTP/1.1\r\nHost: {host}\r\nProxy-Authorization: Bearer {token}\r\n"
    head += f"Content-Length: {len(body)}\r\n" if body else ""
    wire.send(head.encode() + fields.encode() + b"\r\n" + body)
    answer = wire.response()
    wire.close()
    return answer, (origin.requests[0] if origin.requests else None)


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


# ---- inject

STATIC = "s3cr3t-static-credential-0123"
SHARED = "shared-identity: accepted"
INJECTED = {
    "bearer": ("credential: {from: \"file:cred/static\"}", "Authorization", f"Bearer {STATIC}"),
    "basic": ("credential: {from: \"file:cred/pair\", as: basic}", "Authorization",
              "Basic " + b64encode(b"user:pass-word-1").decode()),
    "header": ("credential: {from: \"file:cred/static\", as: \"header:X-Service-Key\"}", "X-Service-Key", STATIC),
    "scheme": ("credential: {from: \"file:cred/scheme\", as: \"header:Authorization\"}", "Authorization",
               "token " + STATIC),
    "variable": ("credential: {from: \"env:SERVICE_TOKEN\"}", "Authorization", "Bearer from-the-environment"),
    "program": ("credential: {from: \"exec:/usr/bin/printf printed-%s once\"}", "Authorization", "Bearer printed-once"),
}
TLS = """
  {name}:
    hosts: [{name}.test]
    addresses: ["127.0.0.1:{port}"]
    ca-file: {ca}
    allow: ["GET /**", "POST /**"]
    scope: web
    audit: "waived: test"
    {more}
"""


def write_secret(path, text):
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o600)


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    names = [f"{n}.test" for n in [*INJECTED, "mine", "changing", "kept", "brief", "failing", "private", "one", "endless", "whoami",
                                   "exchanged", "sts"]]
    ca, cert, key = make_pki(tmp_path_factory.mktemp("pki"), names)
    o = Origin(cert, key)
    o.ca = ca
    yield o
    o.close()


@pytest.fixture(scope="module")
def injecting(tmp_path_factory, origin, tls):
    g = Gateway(tmp_path_factory.mktemp("inject") / "state", "  {}")
    cred = g.directory / "cred"
    write_secret(cred / "static", STATIC + "\n")
    write_secret(cred / "pair", "user:pass-word-1")
    write_secret(cred / "scheme", "token " + STATIC)
    write_secret(cred / "changing", "the-first-credential")
    write_secret(cred / "sb-1.token", "credential-of-sb-1")
    write_secret(cred / "sb-2.token", "credential-of-sb-2")
    write_secret(cred / "sb-bare.token", "readable-by-others")
    (cred / "sb-bare.token").chmod(0o644)
    write_secret(cred / "sb-odd.token", "two\nlines-of-text")
    listed = "".join(TLS.format(name=name, port=tls.port, ca=tls.ca, more=f"{row[0]}\n    {SHARED}")
                     for name, row in INJECTED.items())
    more = {
        "mine": 'credential: {from: "file:cred/{sandbox}.token"}',
        "changing": f'credential: {{from: "file:cred/changing", lifetime: 1s}}\n    {SHARED}',
        "kept": f'credential: {{from: "exec:/usr/bin/date +printed-at-%s.%N", lifetime: 1h}}\n    {SHARED}',
        "brief": f'credential: {{from: "exec:/usr/bin/date +printed-at-%s.%N", lifetime: 1s}}\n    {SHARED}',
        "failing": f'credential: {{from: "exec:/bin/false"}}\n    {SHARED}',
        "endless": f'credential: {{from: "exec:/usr/bin/yes"}}\n    {SHARED}',
        "one": 'credential: {from: "file:cred/static"}',
        "whoami": 'credential: {from: "exec:/usr/bin/printf credential-of-%s {sandbox}"}\n    client-credentials: strip',
    }
    for name, words in more.items():
        listed += TLS.format(name=name, port=tls.port, ca=tls.ca, more=words)
    listed += service("open", origin.port, f'credential: {{from: "file:cred/static"}}\n    {SHARED}\n    inject-plain: accepted')
    g.write(listed)
    g.start(["env", "SERVICE_TOKEN=from-the-environment", g.program, "-c", g.config, "serve"])
    yield g
    assert g.stop() == 0, g.output().decode()
    text = g.output().decode() + "".join(p.read_text() for p in (g.directory / "journal").glob("*.ndjson"))
    for secret in (STATIC, "pass-word-1", "from-the-environment", "printed-once", "credential-of-sb", "the-first-cred"):
        assert secret not in text, "a credential stands in a log"


def inside(g, name, origin, sandbox="sb-1", fields="", path="/x"):
    """One request in a tunnel of its own; the answer, and what the service saw."""
    origin.clear()
    wire = g.tunnel(f"{name}.test", g.token("web", sandbox=sandbox))
    wire.send(f"GET {path} HTTP/1.1\r\nHost: {name}.test\r\n{fields}\r\n")
    answer = wire.response()
    wire.close()
    return answer, (origin.requests[0] if origin.requests else None)


def refusal(g, name, sandbox="sb-1"):
    """The reason for which a tunnel is refused; it stands in the journal too."""
    wire = g.connect()
    wire.send(connect_head(f"{name}.test", g.token("web", sandbox=sandbox)))
    answer = wire.response("CONNECT")
    wire.close()
    return answer.reason


@pytest.mark.parametrize("name", INJECTED)
def test_the_gateways_credential_goes_to_the_service(injecting, tls, name):
    _, field, value = INJECTED[name]
    answer, seen = inside(injecting, name, tls)
    assert answer.status == 200 and seen.field(field) == value
    assert seen.head.lower().count(field.lower().encode() + b":") == 1
    grant = injecting.wait_for(kind="grant", action="allow", service=name)[-1]
    assert grant["sandbox"] == "sb-1" and grant["grant"]["kind"] == "inject" and grant["role"] == "keeper"
    assert 0 < grant["grant"]["until"] - time.time() <= 60


@pytest.mark.parametrize("field", ["X-Service-Key: mine", "X_SERVICE_KEY: mine", "Authorization: Bearer mine"])
def test_a_sandbox_cannot_put_its_own_beside_it(injecting, tls, field):
    answer, seen = inside(injecting, "header", tls, fields=field + "\r\n")
    assert (answer.reason, seen) == ("credential_foreign", None)


def test_a_grant_serves_many_requests_of_one_sandbox(injecting, tls):
    wire = injecting.tunnel("bearer.test", injecting.token("web", sandbox="sb-many"))
    for _ in range(20):
        wire.send("GET /x HTTP/1.1\r\nHost: bearer.test\r\n\r\n")
        assert wire.response().status == 200
    assert len(injecting.records(kind="grant", service="bearer", sandbox="sb-many")) == 1


def test_many_at_once_are_one_question_to_the_keeper(injecting, tls):
    token = injecting.token("web", sandbox="sb-rush")
    wires = [injecting.connect() for _ in range(20)]
    for w in wires:
        w.send(connect_head("bearer.test", token))
    assert all(w.response("CONNECT").status == 200 for w in wires)
    assert len(injecting.records(kind="grant", service="bearer", sandbox="sb-rush")) == 1


def test_every_sandbox_has_a_credential_of_its_own(injecting, tls):
    for sandbox in ("sb-1", "sb-2"):
        answer, seen = inside(injecting, "mine", tls, sandbox)
        assert answer.status == 200 and seen.field("Authorization") == f"Bearer credential-of-{sandbox}"
    assert refusal(injecting, "mine", "sb-3") == "credential_unavailable"  # there is none for it


@pytest.mark.parametrize("sandbox", ["../static", "a+b", "-x"])
def test_a_sandboxs_name_is_no_way_to_another_file(injecting, sandbox):
    assert refusal(injecting, "mine", sandbox) == "credential_unavailable"


@pytest.mark.parametrize("sandbox, words", [("sb-bare", "chmod 600"), ("sb-odd", "cannot be sent")])
def test_what_others_can_read_or_cannot_be_sent_is_not_used(injecting, sandbox, words):
    assert refusal(injecting, "mine", sandbox) == "credential_unavailable"
    assert words in injecting.wait_for(kind="result", sandbox=sandbox)[-1]["detail"]


def test_a_changed_file_counts(injecting, tls):
    assert inside(injecting, "changing", tls)[1].field("Authorization") == "Bearer the-first-credential"
    write_secret(injecting.directory / "cred" / "changing", "the-second-credential")
    wait_until(lambda: inside(injecting, "changing", tls)[1].field("Authorization") == "Bearer the-second-credential",
               "the other credential")


def test_a_401_has_it_read_again(injecting, tls):
    """It is granted for a minute; the service says before that it is no good."""
    def script(request):
        if request.field("Authorization") == "Bearer credential-of-sb-401":
            return b"HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n"
        return b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

    path = injecting.directory / "cred" / "sb-401.token"
    write_secret(path, "credential-of-sb-401")
    tls.script = script
    try:
        assert inside(injecting, "mine", tls, "sb-401")[0].status == 401
        write_secret(path, "another-credential-of-sb-401")
        wait_until(lambda: inside(injecting, "mine", tls, "sb-401")[0].status == 200, "the other credential to be used")
    finally:
        tls.script = ok


@pytest.mark.parametrize("name", ["failing", "endless"])
def test_a_program_that_gives_no_credential(injecting, name):
    assert refusal(injecting, name) == "credential_unavailable"


def test_what_a_program_gave_is_kept_for_its_lifetime_and_no_longer(injecting, tls):
    def given(name, sandbox):
        return inside(injecting, name, tls, sandbox)[1].field("Authorization")

    first = given("kept", "sb-kept-0")
    assert first.startswith("Bearer printed-at-")
    assert {given("kept", f"sb-kept-{i}") for i in range(1, 6)} == {first}  # each has a grant of its own, and the program ran once
    # The same program for another service, which does not let it be used so long.
    first = given("brief", "sb-kept-0")
    wait_until(lambda: given("brief", "sb-kept-0") != first, "the program to be asked again")


def test_plain_http_only_where_that_is_accepted(injecting, origin):
    answer, seen = ask(injecting, injecting.token("web"), "open.test", "", origin)
    assert answer.status == 200 and seen.field("Authorization") == f"Bearer {STATIC}"


def test_connections_of_two_credentials_are_two(injecting, tls):
    """A connection that was opened with one credential carries no other."""
    before = tls.connections
    write_secret(injecting.directory / "cred" / "sb-pool.token", "pool-credential-one")
    token = injecting.token("web", sandbox="sb-pool")

    def get():
        wire = injecting.tunnel("mine.test", token)
        wire.send("GET /x HTTP/1.1\r\nHost: mine.test\r\n\r\n")
        assert wire.response().status == 200
        wire.close()

    get(), get()
    assert tls.connections == before + 1
    write_secret(injecting.directory / "cred" / "sb-pool.token", "pool-credential-two")
    tls.script = lambda r: b"HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n"
    time.sleep(1.1)  # a grant that is younger is kept
    wire = injecting.tunnel("mine.test", token)
    wire.send("GET /x HTTP/1.1\r\nHost: mine.test\r\n\r\n")
    assert wire.response().status == 401
    tls.script = ok
    get()
    assert tls.connections == before + 2


# ---- one principal for each sandbox


def test_ten_sandboxes_each_see_only_their_own_identity(injecting, tls):
    def whoami(request):
        who = request.field("Authorization").removeprefix("Bearer credential-of-").encode()
        return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(who), who)

    tls.script = whoami
    try:
        for _ in range(2):
            for n in range(10):
                answer, _ = inside(injecting, "whoami", tls, f"who-{n}", fields="Authorization: Bearer credential-of-who-3\r\n")
                assert answer.body == f"who-{n}".encode()
    finally:
        tls.script = ok


def test_one_credential_is_not_shared_by_two_sandboxes(injecting, tls):
    assert inside(injecting, "one", tls, "sb-1")[0].status == 200
    assert refusal(injecting, "one", "sb-2") == "identity_shared"
    assert inside(injecting, "one", tls, "sb-1")[0].status == 200
    assert inside(injecting, "bearer", tls, "sb-2")[0].status == 200  # where it says so
    check = exeat("config", "check", config=injecting.config, check=False).stderr
    line = next(n for n, text in enumerate(injecting.config.read_text().splitlines(), 1) if text == "  one:")
    assert re.search(rf"proxy\.conf:{line + 7}:\d+: services\.one has one credential", check), check
    assert "SERVICE_TOKEN is not in the environment here" in check
    assert "services.mine" not in [w for w in check.splitlines() if "credential" in w]


def test_who_holds_a_credential_holds_it_after_a_restart(tmp_path, pki, origins):
    g = Gateway(tmp_path / "state", "  {}")
    (g.directory / "cred").write_text(STATIC)
    (g.directory / "cred").chmod(0o600)
    g.write(service("one", origins[1].port, '\n    credential: {from: "file:cred"}\n    inject-plain: accepted').replace("    \n", ""))
    g.start()
    first, second = g.token("web", sandbox="sb-1"), g.token("web", sandbox="sb-2")
    assert ask(g, first, "one.test", "", origins[1])[0].status == 200
    stored = (g.directory / "holders").read_text()
    assert (g.directory / "holders").stat().st_mode & 0o777 == 0o600 and "sb-1" in stored and STATIC not in stored and "cred" not in stored
    assert g.stop() == 0
    (g.directory / "log").write_bytes(b"")
    g.start()
    answer, seen = ask(g, second, "one.test", "", origins[1])
    assert (answer.reason, seen) == ("identity_shared", None)
    assert ask(g, first, "one.test", "", origins[1])[0].status == 200
    assert g.stop() == 0
    # What cannot be read says nothing of who holds what: it does not start.
    (g.directory / "holders").write_text(stored + "x\n")
    done = subprocess.run([EXEAT, "-c", g.config, "serve"], capture_output=True, text=True, env=clean_environment(), timeout=60)
    assert done.returncode == 2 and re.search(r"holders:3: says nothing that was written here; remove the file", done.stderr)


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


# ---- assert


@pytest.fixture(scope="module")
def asserting(tmp_path_factory, tls):
    g = Gateway(tmp_path_factory.mktemp("assert") / "state", "  {}")
    rows = {"mine": "assert: {as: bearer}", "one": "assert: {as: \"header:X-Who\", audience: \"https://one.test\", lifetime: 30s}",
            "changing": "assert: {as: bearer, once: true}",
            "private": 'assert: {as: bearer, access: ["repository:team/app:pull", "registry:catalog:*"]}'}
    g.write("".join(TLS.format(name=name, port=tls.port, ca=tls.ca, more=more) for name, more in rows.items()))
    g.start()
    yield g
    assert g.stop() == 0, g.output().decode()
    assert "eyJ" not in g.output().decode() + "".join(p.read_text() for p in (g.directory / "journal").glob("*.ndjson"))


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


# ---- reflection


def whole(body, fields=b""):
    return b"HTTP/1.1 200 OK\r\n%sContent-Length: %d\r\n\r\n%s" % (fields, len(body), body)


def chunked(*pieces, trailer=b""):
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    return [head, *(b"%x\r\n%s\r\n" % (len(p), p) for p in pieces), b"0\r\n" + trailer + b"\r\n"]


def secret_of(request):
    return request.field("Authorization").split()[-1].encode()


def alignments(secret):
    return [b64encode(b"x" * n + secret + b"tail") for n in range(3)]


# How a service may repeat what it was shown: (the answer, where that is found, whether its head has gone out by then).
REFLECTIONS = {
    "a body": (lambda s: whole(b"you are " + s + b", welcome"), "response body", True),
    "a body in base64, first alignment": (lambda s: whole(alignments(s)[0]), "response body", True),
    "a body in base64, second": (lambda s: whole(alignments(s)[1]), "response body", True),
    "a body in base64, third": (lambda s: whole(alignments(s)[2]), "response body", True),
    "a field": (lambda s: whole(b"ok", b"X-You: " + s + b"\r\n"), "response head", False),
    "a field in base64": (lambda s: whole(b"ok", b"X-You: " + alignments(s)[1] + b"\r\n"), "response head", False),
    "the status line": (lambda s: b"HTTP/1.1 200 " + s + b"\r\nContent-Length: 0\r\n\r\n", "response head", False),
    "a place to go on to": (lambda s: b"HTTP/1.1 302 F\r\nLocation: /?t=" + s + b"\r\nContent-Length: 0\r\n\r\n", "response head", False),
    "an interim answer": (lambda s: b"HTTP/1.1 103 Early\r\nLink: <" + s + b">\r\n\r\n" + whole(b"ok"), "response head", False),
    "pieces of a stream": (lambda s: chunked(b"a" * 5000, s[:7], s[7:20], s[20:] + b"b" * 5000), "response body", True),
    "a trailer": (lambda s: chunked(b"abc", trailer=b"X-You: " + s + b"\r\n"), "response trailer", True),
    "the end of a body": (lambda s: whole(b"z" * 70000 + s), "response body", True),
}


@pytest.fixture(params=["bearer", "asserted"])
def reflecting(request, injecting, asserting):
    return (injecting, "bearer") if request.param == "bearer" else (asserting, "mine")


@pytest.mark.parametrize("row", REFLECTIONS)
def test_a_credential_that_comes_back_is_stopped(reflecting, tls, row):
    g, name = reflecting
    answer_with, place, begun = REFLECTIONS[row]
    secrets = []

    def script(request):
        secrets.append(secret_of(request))
        return answer_with(secrets[-1])

    token, before = g.token("web", sandbox="sb-mirror"), len(g.records(kind="finding"))
    wire = g.tunnel(f"{name}.test", token)
    tls.script = script
    try:
        wire.send(f"GET /x HTTP/1.1\r\nHost: {name}.test\r\n\r\n")
        got = wire.rest() if begun else wire.response()
    finally:
        tls.script = ok
    if begun:
        for shape in (secrets[0], *alignments(secrets[0])):
            assert shape[:24] not in got and shape[-30:-6] not in got
        assert not got.endswith(b"0\r\n\r\n")  # no end that could be taken for one
    else:
        assert (got.status, got.reason) == (502, "credential_reflected") and secrets[0] not in got.body
    finding = g.wait_for(n=before + 1, kind="finding")[-1]
    assert (finding["reason"], finding["sandbox"]) == ("credential_reflected", "sb-mirror")
    assert finding["service"] == name and (finding["canary"]["id"], finding["canary"]["place"]) == ("credential", place)
    assert g.wait_for(kind="result", reason="credential_reflected", id=finding["id"])


def test_an_answer_that_only_looks_alike_passes(injecting, tls):
    near = (STATIC[:23] + "-and-so-on").encode()
    tls.script = lambda r: whole(near, b"X-You: " + near + b"\r\n")
    try:
        answer, _ = inside(injecting, "header", tls)
    finally:
        tls.script = ok
    assert answer.body == near and answer.field("X-You") == near.decode()


def test_an_answer_of_many_pieces_arrives_whole(injecting, tls):
    pieces = [bytes([65 + n % 26]) * (n * 37 % 4000 + 1) for n in range(200)]
    tls.script = lambda r: chunked(*pieces, trailer=b"X-Sum: 1\r\n")
    try:
        answer, _ = inside(injecting, "bearer", tls)
    finally:
        tls.script = ok
    assert answer.body == b"".join(pieces) and b"X-Sum: 1" in answer.trailers


def test_answers_are_asked_for_without_an_encoding(injecting, tls):
    answer, seen = inside(injecting, "bearer", tls, fields="Accept-Encoding: gzip, br\r\n")
    assert answer.status == 200 and seen.field("Accept-Encoding") == "identity"
    tls.script = lambda r: whole(gzip.compress(secret_of(r)), b"Content-Encoding: gzip\r\n")
    try:
        answer, _ = inside(injecting, "bearer", tls)
    finally:
        tls.script = ok
    assert (answer.status, answer.reason) == (502, "answer_unscannable")


def partial(request):
    """A service that gives parts of what it was shown (RFC 9110 14.2), to who asks for parts."""
    text = request.field("Authorization").encode()
    if not request.field("Range"):
        return b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwhole"
    return b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 8-11/%d\r\nContent-Length: 4\r\n\r\n%s" % (len(text), text[8:12])


def test_it_does_not_come_back_range_by_range(injecting, tls, gateway, token, origin):
    tls.script = partial
    try:
        for fields in ("Range: bytes=8-11\r\n", "range: bytes=8-11\r\nIf-Range: \"a\"\r\n", "Range: bytes=0-1, 8-11\r\n"):
            answer, seen = inside(injecting, "bearer", tls, fields=fields)
            assert (answer.status, answer.body) == (200, b"whole") and seen.field("Range") is None and seen.field("If-Range") is None
        assert injecting.wait_for(kind="decision", service="bearer")[-1]["http"]["dropped"] == "Range"
        tls.script = lambda r: partial(r).replace(b"200 OK", b"206 Partial Content")  # by itself
        answer, _ = inside(injecting, "bearer", tls)
        assert (answer.status, answer.reason) == (502, "upstream_malformed")
    finally:
        tls.script = ok
    # Where no credential of ours goes, parts are had as ever.
    answer, seen = ask(gateway, token, "allow.test", "Range: bytes=0-1\r\n", origin)
    assert answer.status == 200 and seen.field("Range") == "bytes=0-1"


def test_trace_would_show_it_and_is_refused(injecting, tls):
    wire = injecting.tunnel("bearer.test", injecting.token("web"))
    wire.send("TRACE /x HTTP/1.1\r\nHost: bearer.test\r\n\r\n")
    assert wire.response().reason == "trace_refused"


ODD = "k3y/with+odd=chars&\"<'\\,~`!*" + "0123456789"


def swapped(text, **swaps):
    """In JSON or HTML, as one writer escapes: `u` characters as \\u00xx, `U` in capitals, `d` as &#n;, `x` as &#xXX;."""
    forms = {"u": "\\u%04x", "U": "\\u%04X", "d": "&#%d;", "x": "&#x%X;"}
    return "".join(next((forms[how] % ord(c) for how, which in swaps.items() if c in which), c) for c in text)


def tags(text):
    return text.replace("&", "&amp;").replace("<", "&lt;")


SPELLINGS = {
    "by Python's quote": urllib.parse.quote(ODD),
    "by encodeURIComponent": urllib.parse.quote(ODD, safe="!'()*"),
    "by encodeURI": urllib.parse.quote(ODD, safe=";,/?:@&=+$#!'()*"),
    "by a browser's form": urllib.parse.quote(ODD, safe="*").replace("~", "%7E"),
    "by a browser in a query": re.sub("[\"<>'#]", lambda m: f"%{ord(m[0]):02X}", ODD),
    "by .NET's UrlEncode": re.sub("%..", lambda m: m[0].lower(), urllib.parse.quote(ODD, safe="!()*").replace("~", "%7e")),
    "by PHP's urlencode": urllib.parse.quote(ODD, safe="").replace("~", "%7E"),
    "by Go's PathEscape": urllib.parse.quote(ODD, safe="$&+=:@"),
    "by Go's EscapedPath": urllib.parse.quote(ODD, safe="$&+,/:;=@"),
    "by Go's JSON": swapped(json.dumps(ODD)[1:-1], u="<>&"),
    "by Django's JSON": swapped(json.dumps(ODD)[1:-1], U="<>&"),
    "by Gson": swapped(json.dumps(ODD)[1:-1], u="<>&'="),
    "by .NET's JSON": swapped(ODD.replace("\\", "\\\\"), U="\"<>&'+`"),
    "by Newtonsoft's JSON": swapped(ODD.replace("\\", "\\\\"), u="\"<>&'"),
    "by PHP's JSON": swapped(ODD.replace("\\", "\\\\").replace("/", "\\/"), U="\"<>&'"),
    "by Python in HTML": html.escape(ODD),
    "by PHP in HTML": tags(ODD).replace('"', "&quot;").replace("'", "&#039;"),
    "by Jinja": swapped(tags(ODD), d="\"'"),
    "by Go's templates": swapped(tags(ODD), d="\"'+"),
    "by Razor": swapped(tags(ODD).replace('"', "&quot;"), x="'+`"),
    "by mustache": swapped(tags(ODD).replace('"', "&quot;"), d="'", x="/`="),
    "by handlebars": swapped(tags(ODD).replace('"', "&quot;"), x="'`="),
    "as it is": ODD,
    "percent-encoded": urllib.parse.quote(ODD, safe=""),
    "percent-encoded, in lower case": re.sub("%..", lambda m: m[0].lower(), urllib.parse.quote(ODD, safe="")),
    "in a path": urllib.parse.quote(ODD, safe="/+=:@!$&'()*,;"),
    "in JSON": json.dumps(ODD)[1:-1],
    "in JSON with its slashes escaped": json.dumps(ODD)[1:-1].replace("/", "\\/"),
    "in JSON that suits HTML": re.sub("[<>&'=+\"/\\\\]", lambda m: f"\\u{ord(m[0]):04x}", ODD),
    "in HTML": ODD.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;").replace("'", "&#39;"),
    "in hexadecimal": ODD.encode().hex(),
    "in hexadecimal, in capitals": ODD.encode().hex().upper(),
}


@pytest.fixture(scope="module")
def odd(tmp_path_factory, origin):
    g = Gateway(tmp_path_factory.mktemp("odd") / "state", "  {}")
    write_secret(g.directory / "cred", ODD)
    more = 'credential: {from: "file:cred"}\n    inject-plain: accepted\n    shared-identity: accepted'
    g.write(service("odd", origin.port, more))
    g.start()
    yield g
    assert g.stop() == 0, g.output().decode()


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_however_a_service_writes_it_a_credential_is_stopped(odd, origin, spelling):
    text = SPELLINGS[spelling].encode()
    wire = odd.connect()
    origin.script = lambda r: whole(b"you are " + text + b", welcome")
    try:
        wire.send(f"GET http://odd.test/x HTTP/1.1\r\nHost: odd.test\r\nConnection: close\r\nProxy-Authorization: Bearer {odd.token('web')}\r\n\r\n")
        got = wire.rest()
        origin.script = lambda r: whole(b"you are " + text[::-1] + b", welcome")
        assert ask(odd, odd.token("web"), "odd.test", "", origin)[0].status == 200  # what only looks like it passes
    finally:
        origin.script = ok
    assert text not in got and text[:20] not in got


# ---- exchange


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
