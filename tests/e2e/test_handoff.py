"""
What a service hears of whom: what the sandbox says about itself is taken away (strip), what the gateway says in its
place is put in (inject, assert, exchange), once for each sandbox, and none of it comes back.
"""
import pytest

from gateway import Gateway
from origin import Origin

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
