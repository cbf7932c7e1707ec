"""The gateway's own credential goes to the service in place of the sandbox's (inject), one for each sandbox."""
import re
import subprocess
import time

import pytest

from gateway import EXEAT, Gateway, clean_environment, connect_head, exeat, wait_until
from handing import INJECTED, STATIC, ask, gateway, injecting, inside, origin, refusal, service, tls, token, write_secret
from origin import ok


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
