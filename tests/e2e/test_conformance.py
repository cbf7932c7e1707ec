"""Exact bytes in; the answers, and what the origin received of them, out: tests/cases (its README.md has the format)."""
import json
import re
import ssl
import time
from base64 import b64decode, b64encode
from pathlib import Path

import pytest
from conftest import BOTH, services
from gateway import Closed, Gateway, basic, wait_until
from names import Names

CASES = Path(__file__).resolve().parents[1] / "cases"
WAIT = 10      # seconds for an answer: every refusal here is due at once
SETTLE = 0.02  # seconds that bytes may still be under way to an origin


# Listed, but without a fixed address: shows that the name server is asked, and so that silence means something.
LOOKED_UP = """
  looked-up:
    hosts: [looked-up.test]
    plain-ports: [80]
    allow: ["GET /**"]
    scope: registry:read
    audit: "waived: test"
"""


def load():
    files = CASES / "conformance.jsonl", CASES / "conformance-more.jsonl"
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def raw_of(case):
    """The bytes of a case, what stands for a token still in them."""
    return b64decode(case["raw_b64"]) if "raw_b64" in case else expand(case["raw"].encode("latin-1"))


def expand(text):
    return re.sub(rb"\{(\d+)\*(.)\}", lambda m: int(m[1]) * m[2], text, flags=re.DOTALL)


@pytest.fixture(scope="module")
def names():
    server = Names()
    yield server
    server.close()


@pytest.fixture(scope="module")
def gateway(tmp_path_factory, pki, origins, names):
    listed = services(origins[0].port, origins[1].port, pki[0]) + LOOKED_UP
    g = Gateway(tmp_path_factory.mktemp("gw") / "state", listed, extra=f'resolver: {{servers: ["{names.address}"]}}\nlimits: {{token-failures: 1000}}')
    g.start()
    yield g
    assert g.stop() == 0, g.output().decode()[-4000:]
    assert "Sanitizer" not in g.output().decode()


@pytest.fixture(scope="module")
def token(gateway):
    return gateway.token(BOTH, lifetime="30m")


def open_wire(gateway, token, case):
    mode = case["mode"]
    if mode in ("plain", "connect"):
        return gateway.connect()
    return gateway.tunnel(case["host"], token, port=80 if mode == "tunnel80" else 443, tls=mode == "tls")


@pytest.fixture(scope="module")
def refusals():
    """{short id: reason} of every refusal that a client of this module heard."""
    return {}


def read_answers(wire, methods, refusals):
    """The statuses in order; "close" ends the list when the peer does, "silence" when nothing comes, which no case accepts."""
    seen = []
    try:
        for method in methods:
            while (answer := wire.response(method)).status < 200:
                seen.append(answer.status)
            seen.append(answer.status)
            if answer.reason:
                refusals[answer.line.rsplit(" ", 1)[1]] = answer.reason
    except TimeoutError:
        seen.append("silence")
    except (Closed, OSError):
        seen.append("close")
    return seen


def settle(origins):
    """Until no origin is still reading a request; one that was begun is finished or cut off."""
    time.sleep(SETTLE)
    wait_until(lambda: all(r.over for o in origins for r in o.requests), "the origins")


def check_origin(case, origins, fill):
    want = case.get("origin") or {}
    requests = [r for o in origins for r in o.requests]
    raw = b"".join(piece for o in origins for piece in o.raw)
    if "requests" in want:
        assert len(requests) == want["requests"], [r.head for r in requests]
    if "complete" in want:
        assert sum(r.complete for r in requests) == want["complete"]
    if case["expect"] == "reject" and "requests" not in want and "complete" not in want:
        assert raw == b""
    for text in want.get("exact", []):
        assert raw == fill(expand(text.encode("latin-1")))
    for text in want.get("has", []):
        assert fill(text.encode()) in raw
    for text in want.get("hasnt", []):
        assert fill(text.encode()).lower() not in raw.lower()


@pytest.mark.parametrize("case", load(), ids=lambda c: c["id"])
def test_case(gateway, token, origins, names, refusals, case):
    def fill(raw):
        return raw.replace(b"{TOKEN}", token.encode()).replace(b"{TOKEN-1}", token[:-1].encode()).replace(
            b"{BASIC}", basic(token).encode()).replace(b"{BASIC64}", b64encode(f"jwt:{token}".encode()))

    raw = fill(raw_of(case))
    wire = open_wire(gateway, token, case)
    wire.socket.settimeout(WAIT)
    try:
        wire.send(raw)
    except (OSError, ssl.SSLError):
        pass  # refused before all was sent: the answer may be there all the same
    expected = case.get("answers") or [case["status"]]
    methods = case.get("methods") or [raw.split(b" ", 1)[0].decode("latin-1")] * len(expected)
    seen = read_answers(wire, methods, refusals)
    if case["expect"] == "allow":
        assert "close" not in seen
    finals = [s for s in seen if isinstance(s, str) or s >= 200]
    assert all(s in expected[0] for s in seen if not isinstance(s, str) and s < 200)
    assert len(finals) == len(expected), seen
    for status, acceptable in zip(finals, expected):
        assert status in acceptable, f"{case['why']} ({case.get('ref', '')})"
    wire.close()
    settle(origins)
    check_origin(case, origins, fill)
    assert names.asked == [], "a name was looked up: every listed one has a fixed address"


def test_every_refusal_is_recorded_and_the_chain_holds(gateway, token, refusals):
    """Of all that clients heard so far, and of one here."""
    wire = gateway.connect()
    wire.send(f"GET http://other.test/ HTTP/1.1\r\nHost: other.test\r\nProxy-Authorization: Bearer {token}\r\n\r\n")
    read_answers(wire, ["GET"], refusals)
    assert "host_not_listed" in refusals.values()
    recorded = {(r["id"][-6:], r["reason"]) for r in gateway.records() if r.get("reason") and r.get("id")}
    assert set(refusals.items()) <= recorded, set(refusals.items()) - recorded
    assert gateway.verify()


def test_only_a_listed_name_is_looked_up_and_an_address_of_this_machine_is_refused(gateway, token, origins, names):
    wire = gateway.connect()
    for host, reason in (("other.test", "host_not_listed"), ("looked-up.test", "address_denied")):
        wire.send(f"GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\nProxy-Authorization: Bearer {token}\r\n\r\n")
        assert wire.response().reason == reason
    assert set(names.asked) == {"looked-up.test"}
    assert all(o.raw == [] for o in origins)
