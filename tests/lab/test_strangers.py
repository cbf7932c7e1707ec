"""
What the strangers of the lab do, shown by plain requests: of each row of audit-strangers.jsonl, whether the weakness is there. The sheet must say
`pass` where it is not, and anything worse where it is.
"""
import json
import shutil
import ssl
import tempfile
from pathlib import Path

import pytest

from fixture import Fixture, basic
from strangers import PASSWORD2, SETTINGS, USER2

SHEET = Path(__file__).resolve().parents[1] / "cases" / "audit-strangers.jsonl"
CANARY = "CANARY0123456789abcdef"
UP = "http://upstream.test"


def rows():
    return [json.loads(line) for line in SHEET.read_text().splitlines()]


def login(f):
    return {"Authorization": basic(*f.basic)} if f.basic else {}


def is_ok(method, target, body=None, **fields):
    return lambda f: f.ask(method, target, body, **{**login(f), **fields}).status in range(200, 300)


def anonymous(method, target, body=None, **fields):
    return lambda f: f.ask(method, target, body, **fields).status in range(200, 300)


def holds(method, target, text, **fields):
    return lambda f: text.encode() in f.ask(method, target, **{**login(f), **fields}).body


def reaches(host, method, target, **fields):
    def probe(f):
        f.upstream.clear()
        f.ask(method, target, **{**login(f), **fields})
        return bool(f.upstream.seen(host))
    return probe


def written_then(method, target, text=CANARY, path="/dav/x", **fields):
    """What was written shows in this answer."""
    def probe(f):
        f.ask("PUT", path, CANARY, **login(f))
        return text.encode() in f.ask(method, target, **{**login(f), **fields}).body
    return probe


def made(f):
    return f.ask("POST", "/notes", json.dumps({"id": "x1", "text": CANARY}), Content_Type="application/json").status == 201


def made_shows(target):
    return lambda f: (made(f) or True) and b"x1" in f.ask("GET", target).body


def other_opens(target):
    return lambda f: f.ask("GET", target, Authorization=basic(USER2, PASSWORD2)).status == 200


def tunnels_by_upgrade(f):
    """A 101 behind which no HTTP/2 of its own comes."""
    with f.world.connect("127.0.0.1", f.port) as wire:
        wire.settimeout(10)
        wire.sendall(b"GET /x HTTP/1.1\r\nHost: x.test\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n" +
                     (f"Authorization: {login(f)['Authorization']}\r\n" if f.basic else "").encode() + b"\r\n")
        data = b""
        while b"\r\n\r\n" not in data and (more := wire.recv(4096)):
            data += more
        if not data.startswith(b"HTTP/1.1 101"):
            return False
        while len(data.partition(b"\r\n\r\n")[2]) < 9 and (more := wire.recv(4096)):
            data += more
    return data.partition(b"\r\n\r\n")[2][3] != 4  # SETTINGS (RFC 9113 6.5)


def presence(f):
    """Two numbers in X-Varnish, or a difference in what others fetched."""
    f.ask("GET", "/pool/p", **login(f))
    return any(" " in (f.ask("GET", p, Authorization=basic(USER2, PASSWORD2)).field("x-varnish") or "") for p in ("/pool/p", "/pool/q"))


def taken(f, method, target, body):
    return f.ask(method, target, body, **login(f)).status in range(200, 300)


def served(f, name, host):
    """The page for this Host on a connection for that name."""
    context = ssl.create_default_context(cafile=f.world.directory / "ca.pem")
    with f.world.connect("127.0.0.1", f.port) as plain, context.wrap_socket(plain, server_hostname=name) as wire:
        wire.sendall(f"GET / HTTP/1.1\r\nHost: {host}:{f.port}\r\nConnection: close\r\n\r\n".encode())
        data = b""
        while more := wire.recv(65536):
            data += more
    return data


def answers_for_neighbour(f):
    assert b"the service" in served(f, "tls.test", "tls.test") and b"the neighbour" in served(f, "localhost", "localhost")
    return b"the neighbour" in served(f, "tls.test", "localhost")


BIG = "x" * 1048576
PUSH, PULL = ("/git/r.git/info/refs?service=git-%s-pack" % s for s in ("receive", "upload"))
OPEN_PROXY = {
    "AN-1": anonymous("GET", UP + "/pool/ok", Host="upstream.test"),
    "RL-1": reaches("unlisted.test", "GET", "http://unlisted.test/x", Host="unlisted.test"),
    "RL-2": lambda f: f.ask("CONNECT", "unlisted.test:9002").status == 200,
    "RL-8": reaches("internal.test", "GET", "http://internal.test/x", Host="internal.test"),
    "PW-1": reaches("upstream.test", "PUT", UP + "/w/x", Host="upstream.test"),
}
FACTS = {
    "nginx-tls": {"RL-6": answers_for_neighbour},
    "nginx-tls-421": {"RL-6": answers_for_neighbour},
    "lighttpd-dav": {
        "AN-1": anonymous("GET", "/dav/ok.txt"), "AN-2": holds("GET", "/", "Index of"), "AN-3": anonymous("PUT", "/dav/an", "x"), "AN-7": anonymous("GET", "/server-status"), "RL-7": tunnels_by_upgrade,
        "XT-1": written_then("GET", "/dav/x"), "XT-2": written_then("GET", "/dav/", '"x"'), "PW-1": anonymous("PUT", "/dav/pw", "x"), "PW-3": anonymous("DELETE", "/dav/pw"), "PW-4": anonymous("MKCOL", "/dav/m"),
        "CN-3": written_then("GET", "/dav/x"), "UP-1": lambda f: taken(f, "PUT", "/dav/big", BIG), "RL-1": reaches("unlisted.test", "GET", "http://unlisted.test/x", Host="unlisted.test"),
    },
    "lighttpd-read-only": {
        "AN-1": anonymous("GET", "/dav/ok.txt"), "AN-3": anonymous("PUT", "/dav/an", "x"), "AS-10": other_opens("/dav/ok.txt"), "RL-7": tunnels_by_upgrade, "PW-1": is_ok("PUT", "/dav/pw", "x"),
        "PW-3": is_ok("DELETE", "/dav/ok.txt"), "XT-1": written_then("GET", "/dav/x"), "UP-1": lambda f: taken(f, "PUT", "/dav/big", BIG),
    },
    "git-push": {"AN-1": anonymous("GET", PULL), "AN-3": anonymous("GET", PUSH), "PW-1": anonymous("GET", PUSH), "RL-7": tunnels_by_upgrade},
    "git-read": {"AN-1": anonymous("GET", PULL), "AN-3": anonymous("GET", PUSH), "PW-1": anonymous("GET", PUSH), "RL-7": tunnels_by_upgrade},
    "apache-forward": {
        **OPEN_PROXY, "RL-3": reaches("unlisted.test", "GET", "/x", Host="unlisted.test"), "RL-9": holds("TRACE", "/", CANARY, X_Canary=CANARY), "CR-2": holds("TRACE", "/", CANARY, Authorization=CANARY),
        "RL-10": reaches("unlisted.test", "GET", "ftp://unlisted.test/x", Host="unlisted.test"), "AN-7": anonymous("GET", "/server-status"),
    },
    "tinyproxy": {
        **OPEN_PROXY, "RL-3": reaches("unlisted.test", "GET", "/x", Host="unlisted.test"), "AN-7": holds("GET", "http://tinyproxy.stats/", "statistics", Host="tinyproxy.stats"),
        "RL-9": holds("TRACE", UP + "/", CANARY, X_Canary=CANARY, Host="upstream.test"),
    },
    "varnish-hardened": {
        "AN-1": anonymous("GET", "/pool/ok"), "XT-4": presence, "AS-10": other_opens("/pool/ok"), "RL-3": reaches("unlisted.test", "GET", "/pool/x", Host="unlisted.test"), "PW-1": is_ok("PUT", "/pool/x", "x"),
        "RL-11": reaches("upstream.test", "GET", "/pool/" + CANARY, Host="127.0.0.1:8095"), "CI-1": anonymous("GET", "/pool/ok"),
    },
    "json-server": {
        "AN-1": anonymous("GET", "/notes/1"), "AN-2": holds("GET", "/notes", "hello"), "AN-3": made, "XT-1": made_shows("/notes/x1"), "XT-2": made_shows("/notes"), "CN-3": made_shows("/notes/x1"),
        "PW-1": lambda f: taken(f, "POST", "/notes", ""), "PW-3": anonymous("DELETE", "/notes/1"),
    },
    "json-server-read-only": {
        "AN-1": anonymous("GET", "/notes/1"), "AN-2": holds("GET", "/notes", "hello"), "AN-3": made, "XT-1": made_shows("/notes/x1"), "PW-1": lambda f: taken(f, "POST", "/notes", ""),
        "PW-3": anonymous("DELETE", "/notes/1"),
    },
}


def test_each_row_has_its_fact():
    assert FACTS.keys() == SETTINGS.keys()
    assert {(s, c) for s, facts in FACTS.items() for c in facts} == {(r["setting"], r["check"]) for r in rows()}


@pytest.mark.parametrize("setting", SETTINGS)
def test_the_sheet_says_what_is_so(setting):
    directory = Path(tempfile.mkdtemp(prefix="exeat-stranger-"))
    directory.chmod(0o755)
    wanted = {r["check"]: r["verdict"] for r in rows() if r["setting"] == setting}
    try:
        with Fixture("strangers", setting, directory / setting) as f:
            found = {check: bool(probe(f)) for check, probe in FACTS[setting].items()}
    finally:
        shutil.rmtree(directory)
    assert found == {check: verdict != "pass" for check, verdict in wanted.items()}
