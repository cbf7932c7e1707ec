"""
What the gateway lets through, a real nginx as origin reads as the same requests: as many, in the same order, each with
method, host, path and as much content. Thousands of variations of the conformance cases, each on a connection of its own, one
after another; then what the journal says was forwarded is held against nginx's log. `make differential` for more of them;
the seed is in the output, and SEED=N repeats it.
"""
import json
import os
import random
import re
import subprocess
from base64 import b64encode

import pytest
from conftest import BOTH, services
from gateway import PATIENCE, Closed, Gateway, basic, free_port, wait_until
from test_conformance import load, raw_of

COUNT = int(os.environ.get("COUNT", "1200"))
SEED = int(os.environ.get("SEED") or random.randrange(1 << 32))

# One sandbox says it all.
LIMITS = ", ".join(f"{name}: 100000" for name in ("token-failures", "sandbox-denials", "source-denials", "records", "sandbox-records"))

NGINX = """
daemon off; user root; pid nginx.pid; error_log error.log warn; worker_processes 1;
events {{ worker_connections 512; }}
http {{
    log_format seen escape=json '{{"status":"$status","method":"$request_method","target":"$request_uri","host":"$http_host",'
        '"case":"$http_x_case","body":"$request_body"}}';
    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path x; uwsgi_temp_path x; scgi_temp_path x;
    large_client_header_buffers 8 64k; merge_slashes off; client_max_body_size 4m; underscores_in_headers on;
    client_body_buffer_size 4m; client_body_in_single_buffer on; keepalive_requests 100000;
    server {{
        listen 127.0.0.1:{port}; access_log seen.log seen;
        location / {{ proxy_pass http://127.0.0.1:{back}; proxy_method POST; }}
    }}
    server {{ listen 127.0.0.1:{back}; access_log off; location / {{ return 200 ok; }} }}
}}
"""

# Pieces that parsers are known to disagree on.
LINE_ENDS = [b"\r\n", b"\n", b"\r", b"\r\r\n", b"\n\r\n", b"\0\r\n", b" \r\n", b"\t\r\n", b"\r\n "]
FIELDS = [b"Content-Length: 0", b"Content-Length: 5", b"Content-Length: +5", b"Content-Length: 5, 5", b"Content-Length: 0x5",
          b"Content-Length:5", b"Content-Length : 5", b"Transfer-Encoding: chunked", b"Transfer-Encoding: Chunked",
          b"Transfer-Encoding: identity", b"Transfer-Encoding: chunked, identity", b"Transfer-Encoding:\x0bchunked",
          b"Transfer-Encoding: gzip, chunked", b"Transfer_Encoding: chunked", b"Connection: close", b"Connection: keep-alive",
          b"Connection: content-length", b"Connection: x-a, transfer-encoding", b"Expect: 100-continue", b"Upgrade: h2c",
          b"Host: upload.test", b"Host: other.test", b"X-A: b", b"X A: b", b"X-A", b": x", b"Trailer: x", b"TE: trailers",
          b"X-Forwarded-Host: other.test", b"X-HTTP-Method-Override: DELETE"]
BODIES = [b"hello", b"5\r\nhello\r\n0\r\n\r\n", b"5;a=b\r\nhello\r\n0\r\nX-T: y\r\n\r\n", b"05\r\nhello\r\n0\r\n\r\n", b"0\r\n\r\n",
          b"5 \r\nhello\r\n0\r\n\r\n", b"5\nhello\r\n0\r\n\r\n", b"5\r\nhello\n0\r\n\r\n", b"fffffffffffffffff\r\n", b"-5\r\nhello\r\n0\r\n\r\n",
          b"5\r\nhello\r\n0\r\n\r\nGET /pkg/smuggled HTTP/1.1\r\nHost: registry.test\r\n\r\n",
          b"GET /pkg/smuggled HTTP/1.1\r\nHost: registry.test\r\n\r\n", b"0x5\r\nhello\r\n0\r\n\r\n", b"5\r\nhelloX0\r\n\r\n"]
TARGETS = [b"/pkg/a%2fb", b"/pkg/%41?x=%20", b"/pkg//x", b"/pkg/x;y", b"/pkg/x#y", b"/pkg/\xc3\xa9", b"/up/x?a=/../b", b"/pkg/%00", b"*",
           b"http://registry.test/pkg/x", b"/pkg/x%", b"/pkg/x HTTP/1.1", b"/up/x\ty", b"//registry.test/pkg/x", b"/pkg/|<>"]
METHODS = [b"GET", b"HEAD", b"POST", b"PUT", b"get", b"GET\t", b"G ET", b"OPTIONS", b"POST\0"]


class Mutator:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def of(self, raw, other):
        for _ in range(self.random.choice((1, 1, 1, 2, 3))):
            raw = self.random.choice((self.line_end, self.field, self.field, self.body, self.body, self.target, self.method, self.byte,
                                      self.drop_line, self.twice, lambda r: self.follow(r, other)))(raw)
        return raw

    def lines(self, raw):
        head, mark, rest = raw.partition(b"\r\n\r\n")
        return head.split(b"\r\n"), mark + rest

    def field(self, raw):
        lines, rest = self.lines(raw)
        lines.insert(self.random.randint(1, len(lines)), self.random.choice(FIELDS))
        return b"\r\n".join(lines) + rest

    def drop_line(self, raw):
        lines, rest = self.lines(raw)
        if len(lines) > 2:
            del lines[self.random.randrange(1, len(lines))]
        return b"\r\n".join(lines) + rest

    def twice(self, raw):
        lines, rest = self.lines(raw)
        lines.insert(self.random.randint(1, len(lines)), self.random.choice(lines))
        return b"\r\n".join(lines) + rest

    def body(self, raw):
        head, _, _ = raw.partition(b"\r\n\r\n")
        body, kind = self.random.choice(BODIES), self.random.random()
        framing = b"" if kind < 0.3 else b"\r\nTransfer-Encoding: chunked" if kind < 0.7 else b"\r\nContent-Length: %d" % len(body)
        return head + framing + b"\r\n\r\n" + body

    def first_line(self, raw, place, words):
        line, mark, rest = raw.partition(b"\r\n")
        parts = line.split(b" ")
        parts[min(place, len(parts) - 1)] = self.random.choice(words)
        return b" ".join(parts) + mark + rest

    def target(self, raw):
        return self.first_line(raw, 1, TARGETS)

    def method(self, raw):
        return self.first_line(raw, 0, METHODS)

    def line_end(self, raw):
        ends = [m.start() for m in re.finditer(rb"\r\n", raw)]
        if not ends:
            return raw
        at = self.random.choice(ends)
        return raw[:at] + self.random.choice(LINE_ENDS) + raw[at + 2:]

    def byte(self, raw):
        at = self.random.randrange(len(raw) + 1)
        return raw[:at] + bytes([self.random.choice(b"\0\t\n\r \"%,/0:;?\x7f\x80\xff")]) + raw[at + self.random.randint(0, 1):]

    def follow(self, raw, other):
        return raw + other


@pytest.fixture(scope="module")
def nginx(tmp_path_factory):
    directory, port = tmp_path_factory.mktemp("nginx"), free_port()
    (directory / "nginx.conf").write_text(NGINX.format(port=port, back=free_port()))
    process = subprocess.Popen(["nginx", "-p", directory, "-c", "nginx.conf", "-e", "error.log"])
    wait_until(lambda: (directory / "nginx.pid").exists() and (directory / "nginx.pid").read_text().strip(), "nginx")
    yield port, directory / "seen.log"
    process.terminate()
    process.wait(PATIENCE)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory, nginx, pki):
    listed = services(nginx[0], nginx[0], pki[0])
    g = Gateway(tmp_path_factory.mktemp("gw") / "state", listed, extra=f"limits: {{{LIMITS}}}")
    g.start()
    yield g
    g.stop()


def fill(raw, token):
    return raw.replace(b"{TOKEN}", token).replace(b"{TOKEN-1}", token[:-1]).replace(
        b"{BASIC}", basic(token.decode()).encode()).replace(b"{BASIC64}", b64encode(b"jwt:" + token))


def marked(raw, number):
    line, mark, rest = raw.partition(b"\r\n")
    return line + mark + b"X-Case: %d\r\n" % number + rest if mark else raw


def say(gateway, case, raw, token):
    """All of it, and the end; until the gateway has closed."""
    inside = case["mode"] != "plain"
    wire = gateway.tunnel(case["host"], token, port=80, tls=False) if inside else gateway.connect()
    try:
        wire.send(raw)
        wire.half_close()
        while True:
            wire.more()
    except (Closed, OSError):
        pass
    wire.close()


UNRESERVED = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
IN_PATHS = UNRESERVED + b"!$&'()*+,;=:@/"


def canonical(path):
    """As authz/path.h says, of a path that was accepted."""
    decoded = re.sub(rb"%([0-9A-Fa-f]{2})", lambda m: c if (c := bytes([int(m[1], 16)])) in [bytes([u]) for u in UNRESERVED]
                     else b"%" + m[1].upper(), path)
    return b"".join(bytes([c]) if c in IN_PATHS or c == 37 else b"%%%02X" % c for c in decoded).decode()


def forwarded(gateway):
    """Of every exchange that was allowed, as the journal has it: in order, with what came of it."""
    results = {r["id"]: r for r in gateway.records(kind="result")}
    allowed = [d for d in gateway.records(kind="decision", action="allow") if d["http"]["method"] != "CONNECT"]
    return [(d, results.get(d["id"])) for d in allowed]


def is_path(recorded, path):
    """Records cut texts at 4096 bytes, and say so by dots."""
    return recorded == path or (len(recorded) == 4096 and recorded.endswith("...") and path.startswith(recorded[:-3]))


def is_same(decision, result, seen):
    path = canonical(seen["target"].encode("latin-1").partition(b"?")[0])
    return (seen["case"] in ("", str(decision["conn"])) and
            decision["http"]["method"] == seen["method"] and decision["http"]["host"] == seen["host"] and
            is_path(decision["http"]["path"], path) and result["http"]["request_bytes"] == len(seen["body"]))


def is_broken_off(seen):
    """nginx's word for a request that it refuses, or of which the rest did not come (500: nobody took its 100 Continue)."""
    return seen["status"] in ("400", "408", "499", "500")


def is_refusal(result, seen):
    """It was nginx that said so."""
    return result["outcome"] == "complete" and result["http"].get("status") == int(seen["status"])


def has_twins(raw):
    """Fields that stand twice: nginx refuses most of those (and reads none of them in another way than we do)."""
    names = [line.partition(b":")[0].lower() for line in raw.partition(b"\r\n\r\n")[0].split(b"\r\n")[1:]]
    return len(set(names)) < len(names)


def differences(ours, theirs):
    """
    The cases where the two do not agree. What was broken off need not have arrived whole; all else is there, in order. Each
    connection has the number of its case, and its first request says it.
    """
    ours = list(ours)
    for seen in theirs:
        if is_broken_off(seen) and not (ours and is_refusal(ours[0][1], seen)):
            continue
        while ours and ours[0][1]["outcome"] != "complete" and not is_same(*ours[0], seen):
            ours.pop(0)
        if not ours or not is_same(*ours[0], seen):
            yield seen["case"], f"nginx reads {seen}; the gateway forwarded {ours[:1]}"
            return
        if is_broken_off(seen):
            yield seen["case"], f"nginx refuses {seen}"
        ours.pop(0)
    yield from (("", f"nginx has not read {o}") for o in ours if o[1]["outcome"] == "complete")


def test_nginx_reads_what_the_gateway_forwards(gateway, nginx):
    cases = [c for c in load() if c["mode"] != "connect"]
    cases += [c for c in cases if c["expect"] == "allow"] * 15
    token, said = gateway.token(BOTH, lifetime="1h"), {}
    mutator = Mutator(SEED)
    print(f"SEED={SEED} COUNT={COUNT}")
    for number in range(COUNT):
        case, other = mutator.random.choice(cases), mutator.random.choice(cases)
        said[str(number)] = raw = marked(fill(mutator.of(raw_of(case), raw_of(other)), token.encode()), number)
        say(gateway, case, raw, token)
    wait_until(lambda: all(result for _, result in forwarded(gateway)), "results")
    ours = forwarded(gateway)
    theirs = [json.loads(line) for line in nginx[1].read_text("latin-1").splitlines()]
    print(f"{len(ours)} allowed, {len(theirs)} read by nginx, {sum(map(is_broken_off, theirs))} of them broken off")
    assert len(ours) > COUNT / 8, "hardly anything was let through: nothing is shown"
    found = [f"{text}\nthe client said {said.get(case)}" for case, text in differences(ours, theirs)
             if not (text.startswith("nginx refuses") and has_twins(said[case]))]
    assert not found, "\n\n".join(found)[:8000]
