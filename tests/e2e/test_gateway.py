"""The main path: what is let out, what is refused, and what the journal says of both."""
import hashlib
import json
import os
import threading
import time
from base64 import b64encode

import pytest
from conftest import BOTH
from gateway import Closed, basic, connect_head, exeat, wait_until

BODY_LIMIT = "64m"
GET = "GET {path} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n"


def get(path="/pkg/a", host="registry.test", fields=""):
    return GET.format(path=path, host=host, fields=fields)


def absolute(token, path="/pkg/a", host="registry.test", method="GET", fields="", version="1.1"):
    credential = f"Proxy-Authorization: Bearer {token}\r\n" if token else ""
    return f"{method} http://{host}{path} HTTP/{version}\r\nHost: {host}\r\n{credential}{fields}\r\n"


@pytest.fixture
def upload(gateway, token):
    wire = gateway.tunnel("upload.test", token)
    yield wire
    wire.close()


def post(body, fields="", path="/up/x", method="POST"):
    return f"{method} {path} HTTP/1.1\r\nHost: upload.test\r\nContent-Length: {len(body)}\r\n{fields}\r\n".encode() + body


# ---- let out


def test_get_through_a_tunnel(gateway, tunnel, origins):
    tunnel.send(get(fields="Accept: */*\r\n"))
    answer = tunnel.response()
    assert (answer.status, answer.body) == (200, b"ok")
    seen = origins[0].requests[0]
    assert seen.head.startswith(b"GET /pkg/a HTTP/1.1\r\nHost: registry.test\r\n")
    assert seen.field("via") == "1.1 gw.test" and seen.field("proxy-authorization") is None
    assert answer.field("via") == "1.1 gw.test"
    decision = gateway.wait_for(kind="decision", action="allow")[-1]
    assert decision["sandbox"] == "sb-1" and decision["service"] == "registry-tls"
    assert decision["http"]["path"] == "/pkg/a" and decision["reason"] == "allowed"
    result = wait_until(lambda: [r for r in gateway.records(kind="result") if r["id"] == decision["id"]], "its result")[0]
    assert result["http"]["status"] == 200 and result["outcome"] == "complete"
    assert gateway.wait_for(kind="dial")
    assert gateway.verify()


def test_plain_get_with_bearer_and_with_basic(gateway, token, origins):
    wire = gateway.connect()
    wire.send(absolute(token))
    assert wire.response().status == 200
    wire.send(absolute(None, fields=f"Proxy-Authorization: {basic(token)}\r\n"))
    assert wire.response().status == 200
    assert [r.target for r in origins[1].requests] == ["/pkg/a", "/pkg/a"]
    assert all(r.field("proxy-authorization") is None for r in origins[1].requests)


def test_plain_http_inside_connect_80(gateway, token, origins):
    wire = gateway.tunnel("registry.test", token, port=80, tls=False)
    wire.send(get())
    assert wire.response().status == 200
    assert len(origins[1].requests) == 1


def test_keep_alive_and_pipelining_with_a_refusal_in_the_middle(tunnel, origins):
    tunnel.send(get("/pkg/1") + get("/private") + get("/pkg/3"))
    answers = [tunnel.response() for _ in range(3)]
    assert [a.status for a in answers] == [200, 403, 200]
    assert answers[1].reason == "path_not_allowed"
    assert [r.target for r in origins[0].requests] == ["/pkg/1", "/pkg/3"]


def test_connect_as_pip_sends_it(gateway, token, origins):
    wire = gateway.connect()
    wire.send(f"CONNECT registry.test:443 HTTP/1.0\r\nProxy-Authorization: {basic(token)}\r\n\r\n")
    assert wire.response("CONNECT").status == 200
    inner = wire.start_tls("registry.test", gateway.root)
    inner.send(get())
    assert inner.response().status == 200


def test_upstream_connection_is_pooled_within_a_sandbox_only(gateway, origins):
    mine, other = gateway.token(BOTH, sandbox="pool-1"), gateway.token(BOTH, sandbox="pool-2")
    before = origins[0].connections
    for _ in range(3):
        wire = gateway.tunnel("registry.test", mine)
        wire.send(get())
        assert wire.response().status == 200
        wire.close()
    assert origins[0].connections == before + 1
    wire = gateway.tunnel("registry.test", other)
    wire.send(get())
    assert wire.response().status == 200
    assert origins[0].connections == before + 2


@pytest.mark.parametrize("status,extra", [(200, b"Content-Length: 5\r\n"), (304, b"ETag: x\r\n"), (204, b"")])
def test_head_204_304_have_no_content(tunnel, origins, status, extra):
    origins[0].script = lambda r: b"HTTP/1.1 %d X\r\n%s\r\n" % (status, extra)
    try:
        method = "HEAD" if status == 200 else "GET"
        tunnel.send(get().replace("GET", method, 1) * 2)
        for _ in range(2):
            answer = tunnel.response(method)
            assert answer.status == status and answer.body == b""
        if status == 200:
            assert answer.field("content-length") == "5"
    finally:
        origins[0].script = __import__("origin").ok


def scripted(origin, script):
    class With:
        def __enter__(self):
            self.old, origin.script = origin.script, script

        def __exit__(self, *_):
            origin.script = self.old

    return With()


def test_chunked_response_with_trailers(tunnel, origins):
    raw = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\nX-Sum: 1\r\n\r\n"
    with scripted(origins[0], lambda r: raw):
        tunnel.send(get())
        answer = tunnel.response()
    assert answer.body == b"abcde" and b"X-Sum: 1" in answer.trailers


def test_response_until_close_becomes_chunked(tunnel, origins):
    def script(request):
        yield b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
        yield b"x" * 100000

    with scripted(origins[0], lambda r: script(r)):
        tunnel.send(get(fields="Connection: close\r\n"))
        answer = tunnel.response()
    assert answer.body == b"x" * 100000


def test_interim_responses_pass(upload, origins):
    raw = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    with scripted(origins[0], lambda r: raw):
        upload.send(post(b"abc"))
        assert upload.response().status == 103
        assert upload.response().status == 200


def test_expect_100_continue(upload, origins):
    upload.send("POST /up/x HTTP/1.1\r\nHost: upload.test\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n")
    assert upload.response().status == 100
    upload.send(b"abc")
    assert upload.response().status == 200
    assert origins[0].requests[0].body == b"abc"


def test_chunked_request_with_trailers(upload, origins):
    upload.send("POST /up/x HTTP/1.1\r\nHost: upload.test\r\nTransfer-Encoding: chunked\r\n\r\n"
                "3\r\nabc\r\n0\r\nX-Sum: 1\r\n\r\n")
    assert upload.response().status == 200
    assert origins[0].requests[0].body == b"abc"


def test_half_close_still_gets_its_answer(gateway, token):
    wire = gateway.connect()
    wire.send(absolute(token))
    wire.half_close()
    assert wire.response().status == 200
    assert wire.is_closed()


def test_http_1_0_client(gateway, token):
    wire = gateway.connect()
    wire.send(absolute(token, version="1.0"))
    assert wire.response().body == b"ok"
    assert wire.is_closed()


@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_ten_megabytes_up(upload, origins, framing):
    body = os.urandom(10 << 20)
    if framing == "length":
        upload.send(post(body))
    else:
        upload.send(b"PUT /up/x HTTP/1.1\r\nHost: upload.test\r\nTransfer-Encoding: chunked\r\n\r\n")
        for i in range(0, len(body), 50000):
            piece = body[i:i + 50000]
            upload.send(b"%x\r\n%s\r\n" % (len(piece), piece))
        upload.send(b"0\r\n\r\n")
    assert upload.response().status == 200
    assert hashlib.sha256(origins[0].requests[0].body).digest() == hashlib.sha256(body).digest()


def test_ten_megabytes_down(tunnel, origins):
    body = os.urandom(10 << 20)
    with scripted(origins[0], lambda r: [b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body), body]):
        tunnel.send(get())
        assert tunnel.response().body == body


# A sanitizer keeps freed memory for a while, to see who still uses it.
MEMORY_KIB = (64 if os.environ.get("SANITIZED") else 8) << 10


def resident_kib(pid):
    for line in open(f"/proc/{pid}/status"):
        if line.startswith("VmRSS"):
            return int(line.split()[1])


def wait_until_still(counted, n=10):
    """Until nothing was counted for n tenths of a second: back-pressure has reached who counts."""
    still = 0
    while still < n:
        before = len(counted)
        time.sleep(0.1)
        still = still + 1 if len(counted) == before else 0


def test_slow_reader_holds_no_memory(gateway, tunnel, origins):
    size = 200 << 20
    sent = []

    def script(request):
        yield b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size
        for _ in range(size >> 20):
            yield bytes(1 << 20)
            sent.append(1)

    worker = gateway.pids("worker")[0]
    before = resident_kib(worker)
    with scripted(origins[0], script):
        tunnel.send(get())
        tunnel.until(b"\r\n\r\n")
        wait_until_still(sent)
        assert len(sent) < size >> 20
        assert resident_kib(worker) - before < MEMORY_KIB
        tunnel.exactly(size)


def test_slow_service_holds_no_memory(gateway, upload, origins):
    piece, n = os.urandom(1 << 20), 60
    sent = []

    def send():
        for _ in range(n):
            upload.send(piece)
            sent.append(1)

    worker = gateway.pids("worker")[0]
    before = resident_kib(worker)
    origins[0].reading.clear()
    try:
        upload.send(f"PUT /up/x HTTP/1.1\r\nHost: upload.test\r\nContent-Length: {n << 20}\r\n\r\n")
        sender = threading.Thread(target=send)
        sender.start()
        wait_until(lambda: origins[0].requests, "the head at the service")
        wait_until_still(sent)
        assert len(sent) < n
        assert resident_kib(worker) - before < MEMORY_KIB
    finally:
        origins[0].reading.set()
    sender.join()
    assert upload.response().status == 200
    assert origins[0].requests[0].body == piece * n


# ---- refused


@pytest.mark.parametrize("words,status,reason", [
    ("CONNECT registry.test:443 HTTP/1.1\r\nHost: registry.test:443\r\n\r\n", 407, "token_missing"),
    ("CONNECT registry.test:443 HTTP/1.1\r\nHost: registry.test:443\r\nProxy-Authorization: Bearer x\r\n\r\n", 407,
     "token_malformed"),
    ("GET http://registry.test/pkg/a HTTP/1.1\r\nHost: registry.test\r\n\r\n", 407, "token_missing"),
])
def test_407_with_challenges_on_a_connection_that_stays_open(gateway, token, origins, words, status, reason):
    wire = gateway.connect()
    wire.send(words)
    answer = wire.response()
    assert (answer.status, answer.reason) == (status, reason)
    assert [v.split(" ")[0] for k, v in answer.fields if k == "Proxy-Authenticate"] == ["Basic", "Bearer"]
    problem = json.loads(answer.body)
    assert problem["reason"] == reason
    record = gateway.wait_for(kind="decision", id=problem["exchange"])[0]
    assert record["action"] == "deny" and record["reason"] == reason
    wire.send(connect_head("registry.test", token))
    assert wire.response("CONNECT").status == 200
    assert origins[0].requests == [] and origins[1].requests == []


@pytest.mark.parametrize("host,port,reason", [("other.test", 443, "host_not_listed"),
                                              ("registry.test", 8443, "host_not_listed")])
def test_unlisted_destination(gateway, token, host, port, reason):
    wire = gateway.connect()
    wire.send(connect_head(host, token, port))
    answer = wire.response()
    assert (answer.status, answer.reason) == (403, reason)
    assert answer.field("Proxy-Status").startswith("gw.test; error=")


def test_wrong_method_and_missing_scope(gateway, tunnel, origins):
    tunnel.send("DELETE /pkg/a HTTP/1.1\r\nHost: registry.test\r\n\r\n")
    assert tunnel.response().reason == "method_not_allowed"
    wire = gateway.connect()
    wire.send(connect_head("registry.test", gateway.token("upload:write")))
    assert wire.response().reason == "scope_missing"
    assert origins[0].requests == []


def test_foreign_credentials_and_mismatched_host(tunnel, origins):
    tunnel.send(get(fields="Authorization: Bearer abc\r\n"))
    assert tunnel.response().reason == "credential_foreign"
    tunnel.send(get(host="upload.test"))
    assert tunnel.response().status == 421
    assert origins[0].requests == []


def test_expired_token_on_an_inner_request(gateway, origins):
    token = gateway.token(BOTH, lifetime="3s")
    wire = gateway.tunnel("registry.test", token)
    wire.send(get())
    assert wire.response().status == 200
    assert wire.is_closed()  # idle at expiry: closed, so that the next CONNECT gets 407
    again = gateway.connect()
    again.send(connect_head("registry.test", token))
    answer = again.response()
    assert (answer.status, answer.reason) == (407, "token_expired")


def test_revoked_token_is_cut_at_once(gateway):
    token = gateway.token(BOTH, sandbox="sb-revoked")
    wire = gateway.tunnel("registry.test", token)
    exeat("token", "revoke", "--sandbox", "sb-revoked", config=gateway.config)
    assert wire.is_closed()
    wait_until(lambda: [r for r in gateway.records(kind="revocation", role="supervisor")
                        if (r["revocation"]["key"], r["revocation"]["value"]) == ("sandbox", "sb-revoked")], "its record")
    again = gateway.connect()
    again.send(connect_head("registry.test", token))
    answer = again.response()
    assert answer.reason == "token_revoked"
    assert "of sandbox sb-revoked was revoked" in json.loads(answer.body)["detail"]


def test_token_of_another_sandbox_inside_a_tunnel(gateway, tunnel, origins):
    other = gateway.token(BOTH, sandbox="sb-2")
    tunnel.send(get(fields=f"Proxy-Authorization: Bearer {other}\r\n"))
    answer = tunnel.response()
    assert (answer.status, answer.reason) == (403, "token_foreign")
    assert origins[0].requests == []


def test_newer_token_of_the_same_sandbox_inside_a_tunnel(gateway, tunnel, origins):
    newer = gateway.token(BOTH, lifetime="20m")
    tunnel.send(get(fields=f"Proxy-Authorization: {basic(newer)}\r\n"))
    assert tunnel.response().status == 200
    assert origins[0].requests[0].field("proxy-authorization") is None


# ---- canaries


@pytest.fixture(scope="module")
def canary(gateway):
    """One of those that init has planted."""
    return json.loads((gateway.directory / "canaries.json").read_text())["canaries"][0]["value"]


def encodings(value):
    raw = value.encode()
    return {"identity": raw, "base64": b64encode(raw), "base64+1": b64encode(b"x" + raw), "base64+2": b64encode(b"xy" + raw),
            "hex": raw.hex().encode(), "hex, capitals": raw.hex().upper().encode(), "percent": b"".join(b"%%%02x" % c for c in raw)}


@pytest.mark.parametrize("encoding", ["identity", "base64", "base64+1", "base64+2", "hex", "hex, capitals", "percent"])
def test_canary_in_a_body(gateway, upload, origins, canary, encoding):
    upload.send(post(b"before " + encodings(canary)[encoding] + b" after"))
    answer = upload.response()
    assert (answer.status, answer.reason) == (403, "canary_leak")
    assert origins[0].requests == []
    problem = json.loads(answer.body)
    finding = gateway.wait_for(kind="finding", id=problem["exchange"])[0]
    assert finding["canary"]["place"] == "body" and finding["sandbox"] == "sb-1"
    assert canary not in gateway.output().decode()
    assert all(canary not in p.read_text() for p in (gateway.directory / "journal").glob("*.ndjson"))


@pytest.mark.parametrize("encoding", ["identity", "hex", "hex, capitals"])
def test_canary_in_target_and_field(tunnel, origins, canary, encoding):
    spelt = encodings(canary)[encoding].decode()
    tunnel.send(get(fields=f"X-Note: {spelt}\r\n"))
    assert tunnel.response().reason == "canary_leak"
    assert origins[0].requests == []


def test_canary_late_in_a_stream_never_arrives(gateway, upload, origins, canary):
    body = os.urandom(300000).replace(b"\n", b"x") + canary.encode() + bytes(1000)
    upload.send(post(body))
    with pytest.raises((Closed, AssertionError)):
        answer = upload.response()
        assert answer.status == 200
    time.sleep(0.1)
    seen = b"".join(origins[0].raw)
    assert canary.encode()[:8] not in seen
    assert gateway.wait_for(kind="finding")


@pytest.mark.parametrize("trailer", ["X-Note: {}", "{}: note"])
def test_canary_in_a_trailer(upload, origins, canary, trailer):
    upload.send("POST /up/x HTTP/1.1\r\nHost: upload.test\r\nTransfer-Encoding: chunked\r\n\r\n"
                f"3\r\nabc\r\n0\r\n{trailer.format(canary)}\r\n\r\n")
    assert upload.response().reason == "canary_leak"
    assert origins[0].requests == []


@pytest.mark.parametrize("piece", [slice(None), slice(-30, None), slice(-60, -30)])
def test_own_token_in_a_field(tunnel, origins, token, piece):
    tunnel.send(get(fields=f"X-Note: {token[piece]}\r\n"))
    assert tunnel.response().reason == "token_leak"
    assert origins[0].requests == []


def test_own_token_in_a_body(upload, origins, token):
    upload.send(post(token.encode()))
    assert upload.response().reason == "token_leak"
    assert origins[0].requests == []


# ---- the service misbehaves


@pytest.mark.parametrize("raw,reason", [
    (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc", "upstream_malformed"),
    (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", "upstream_malformed"),
    (b"hello\r\n\r\n", "upstream_malformed"),
    (b"HTTP/1.1 407 X\r\nContent-Length: 0\r\n\r\n", "upstream_proxy_auth"),
    (None, "upstream_closed"),
])
def test_bad_answers_of_the_service(tunnel, origins, raw, reason):
    with scripted(origins[0], lambda r: raw):
        tunnel.send(get())
        answer = tunnel.response()
    assert (answer.status, answer.reason) == (502, reason)


def test_early_end_is_a_cut_not_an_end(tunnel, origins):
    with scripted(origins[0], lambda r: iter([b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\nConnection: close\r\n\r\nabc"])):
        tunnel.send(get(fields="Connection: close\r\n"))
        with pytest.raises(Closed):
            tunnel.response()


# ---- the edges of TLS


def test_sni_must_be_the_connect_host(gateway, token):
    wire = gateway.connect()
    wire.send(connect_head("registry.test", token))
    assert wire.response("CONNECT").status == 200
    with pytest.raises(OSError):
        wire.start_tls("upload.test", gateway.root, check=False)
    assert gateway.wait_for(kind="connection", reason="sni_mismatch")


def test_a_client_that_does_not_trust_us_is_recorded(gateway, token, pki):
    wire = gateway.connect()
    wire.send(connect_head("registry.test", token))
    assert wire.response("CONNECT").status == 200
    with pytest.raises(OSError):
        wire.start_tls("registry.test", pki[0])
    assert gateway.wait_for(kind="connection", reason="client_unknown_ca")


def test_tls_in_a_plain_tunnel_and_plain_http_in_a_tls_tunnel(gateway, token):
    wire = gateway.tunnel("registry.test", token, port=80, tls=False)
    with pytest.raises(OSError):
        wire.start_tls("registry.test", gateway.root)
    assert gateway.wait_for(kind="connection", reason="tunnel_not_plain")
    wire = gateway.tunnel("registry.test", token, tls=False)
    wire.send(get())
    assert wire.is_closed()
    assert gateway.wait_for(kind="connection", reason="tunnel_not_tls")


# ---- answers from the logs


def test_why_and_verify(gateway, tunnel):
    tunnel.send(get("/nowhere"))
    answer = tunnel.response()
    problem = json.loads(answer.body)
    gateway.wait_for(kind="decision", id=problem["exchange"])
    told = exeat("why", problem["exchange"], config=gateway.config).stdout
    assert "sb-1" in told and "/nowhere" in told and "registry.test" in told
    assert gateway.verify()


def test_a_malformed_inner_request_is_recorded_with_its_sandbox(gateway, tunnel):
    tunnel.send(get("/pkg/../x"))
    answer = tunnel.response()
    assert answer.reason == "path_invalid"
    record = gateway.wait_for(kind="decision", id=json.loads(answer.body)["exchange"])[0]
    assert record["sandbox"] == "sb-1" and record["token"]["jti"]


def of_length(body, fields=b""):
    return b"HTTP/1.1 200 OK\r\n%sContent-Length: %d\r\n\r\n" % (fields, len(body)) + body


ACCUSED = {  # how the canary is sent, where it is found, and at which offset when that is known
    "a field, no content": (lambda c: of_length(b"", b"X-Note: %s\r\n" % c), "response head", None),
    "a field, little content": (lambda c: of_length(b"nothing here", b"X-Note: %s\r\n" % c), "response head", None),
    "a field, much content": (lambda c: of_length(b"z" * 9000, b"X-Note: %s\r\n" % c), "response head", None),
    "little content begins with it": (of_length, "response body", 0),
    "little content ends with it": (lambda c: of_length(b"z" * 99 + b"," + c), "response body", 100),
    "much content ends with it": (lambda c: of_length(b"z" * 8999 + b"," + c), "response body", 9000),
    "a chunk": (lambda c: b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n40\r\n%-64s\r\n0\r\n\r\n" % c, "response body", 0),
    "a trailer": (lambda c: b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Sum: %s\r\n\r\n" % c, "response trailer", None),
}


@pytest.mark.parametrize("row", sorted(ACCUSED))
def test_a_canary_in_a_response_accuses_the_service(gateway, tunnel, origins, canary, row):
    make, place, offset = ACCUSED[row]
    assert len(canary) <= 64
    before = len(gateway.records(kind="finding", reason="canary_response"))
    with scripted(origins[0], lambda r: make(canary.encode())):
        tunnel.send(get(fields=f"X-Mark: {row}\r\n"))
        assert tunnel.response().status == 200
    found = wait_until(lambda: gateway.records(kind="finding", reason="canary_response")[before:], "the finding")
    assert [r["canary"]["place"] for r in found] == [place]
    assert offset is None or found[0]["canary"]["offset"] == offset
    assert found[0]["service"] == "registry-tls" and found[0]["sandbox"] == "sb-1"
