"""
DNS listeners: listed names are answered with the steering addresses, everything else is refused with a reason and a record, in whatever
bytes a hostile client asks.
"""
import itertools
import json
import os
import signal
import struct
import subprocess
from base64 import b32encode, b64encode

import pytest

import dns
from dns import Client, Talk, addresses, question
from gateway import Gateway, clean_environment, exeat, free_port, wait_until

V4, V6 = "10.9.8.7", "fd00:9::7"
SERVICES = """
  npm:
    hosts: [npm.example]
    allow: ["GET /**"]
    scope: s
    audit: "waived: test"
  below:
    hosts: ["*.repo.example"]
    plain-ports: [80]
    allow: ["GET /**"]
    scope: s
    audit: "waived: test"
"""
LOOSE = {"dns-questions": 100000, "dns-questions-total": 1000000, "dns-names": 100000, "sandbox-names": 1000, "dns-connections": 1000}


def limits(**more):
    values = {**LOOSE, **{k.replace("_", "-"): v for k, v in more.items()}}
    return "limits: {" + ", ".join(f"{k}: {v}" for k, v in values.items()) + "}"


def gateway_with(directory, zones, **more):
    return Gateway(directory, SERVICES, extra=f"dns:\n{zones}\n{limits(**more)}")


@pytest.fixture(scope="module")
def ports():
    return {name: free_port() for name in ("steer", "old", "bound")}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory, ports):
    g = gateway_with(tmp_path_factory.mktemp("dns") / "state", f"""
  steer: {{address: "127.0.0.1:{ports["steer"]}", answer: [{V4}, "{V6}"], ttl: 30s}}
  old: {{address: "127.0.0.1:{ports["old"]}", answer: {V4}}}
  bound: {{address: "127.0.0.1:{ports["bound"]}", answer: {V4}, sandbox: vm1}}
""").start()
    yield g
    status = g.stop()
    print(g.output().decode()[-4000:])
    assert status == 0


@pytest.fixture(scope="module")
def client(gateway, ports):
    with Client(ports["steer"]) as c:
        yield c


@pytest.fixture
def own(tmp_path):
    """A gateway of a test's own, with one DNS listener."""
    started = []

    def start(zone=f"answer: {V4}", **more):
        port = free_port()
        g = gateway_with(tmp_path / "state", f'  steer: {{address: "127.0.0.1:{port}", {zone}}}', **more).start()
        started.append(g)
        return g, port

    yield start
    for g in started:
        print(g.output().decode()[-4000:])
        assert g.stop() == 0


def record_of(gateway, answer):
    """The record that the words of an answer name."""
    short = answer.words.split()[-1]
    return wait_until(lambda: [r for r in gateway.records(kind="question") if r["id"].endswith(short)], short)[0]


# ---- who is answered what


def dig(port, *words):
    return subprocess.run(["dig", "@127.0.0.1", "-p", str(port), "+tries=1", "+time=20", *words], capture_output=True, text=True,
                          env=clean_environment(), check=True).stdout


@pytest.mark.parametrize("words", [[], ["+tcp"], ["+dnssec"], ["+noedns"], ["+cookie"], ["+nsid"], ["+subnet=10.0.0.0/8"], ["+bufsize=4096"], ["+padding=128"]],
                         ids=lambda w: "".join(w) or "plain")
def test_dig_is_answered(gateway, ports, words):
    said = dig(ports["steer"], "npm.example", "A", *words)
    assert "status: NOERROR" in said and f"npm.example.\t\t30\tIN\tA\t{V4}" in said
    refused = dig(ports["steer"], "elsewhere.example", "A", *words)
    assert "status: NXDOMAIN" in refused
    assert ("EDE: 18 (Prohibited): (exeat host_not_listed" in refused) == (words != ["+noedns"])


LISTED = [("npm.example", "A", [V4]), ("npm.example", "AAAA", [V6]), ("a.repo.example", "A", [V4]), ("a.b.repo.example", "AAAA", [V6])]


@pytest.mark.parametrize("name, type, found", LISTED, ids=lambda v: v if isinstance(v, str) else "")
def test_a_listed_name_is_steered(gateway, client, name, type, found):
    answer = client.ask(name, type)
    assert (answer.code, addresses(answer)) == ("NOERROR", found)
    assert [r.ttl for r in answer.answers] == [30]
    record = gateway.wait_for(kind="question", action="allow")[-1]
    assert record["listener"] == "steer" and record["role"] == "usher" and record["addresses"] in (V4, V6)


NOTHING = ["HTTPS", "SVCB", "MX", "TXT", "SRV", "NS", "SOA", "CNAME", 65280]


@pytest.mark.parametrize("type", NOTHING)
def test_a_listed_name_has_nothing_else(client, type):
    """Above all no HTTPS record, by which a client would move to ECH or HTTP/3; the SOA says how long that holds."""
    answer = client.ask(type=type)
    assert (answer.code, answer.answers) == ("NOERROR", [])
    assert [(r.type, r.name, r.ttl) for r in answer.authority] == [(dns.TYPES["SOA"], "npm.example", 30)]


def test_where_there_is_only_ipv4_there_is_no_ipv6(gateway, ports):
    with Client(ports["old"]) as c:
        answer = c.ask(type="AAAA")
        assert (answer.code, answer.answers, len(answer.authority)) == ("NOERROR", [], 1)
        assert addresses(c.ask()) == [V4]


def test_any_is_told_little(client):
    answer = client.ask(type="ANY")
    assert [(r.type, r.value) for r in answer.answers] == [(dns.TYPES["HINFO"], b"\x07RFC8482\0")]


REFUSED = {
    "a name that is not listed": (dict(name="elsewhere.example"), "host_not_listed"),
    "below an exact name": (dict(name="a.npm.example"), "host_not_listed"),
    "the suffix itself": (dict(name="repo.example"), "host_not_listed"),
    "the end of a listed name": (dict(name="xnpm.example"), "host_not_listed"),
    "a listed name and a search domain": (dict(name="npm.example.corp.local"), "host_not_listed"),
    "a label too long below a suffix": (dict(name="a" * 41 + ".repo.example"), "host_not_listed"),
    "the root": (dict(name="."), "host_invalid"),
    "an underscore": (dict(name="_https._tcp.npm.example", type="SRV"), "host_invalid"),
    "a dot in a label": (dict(name=[b"npm.example"]), "host_invalid"),
    "a dot in a label below a suffix": (dict(name=[b"a.b", b"repo", b"example"]), "host_invalid"),
    "a NUL in a label": (dict(name=[b"npm\0", b"example"]), "host_invalid"),
    "a NUL behind the name": (dict(name=[b"npm", b"example\0", b"evil"]), "host_invalid"),
    "a backslash": (dict(name=[b"npm\\", b"example"]), "host_invalid"),
    "a space": (dict(name=[b"npm ", b"example"]), "host_invalid"),
    "bytes over 127": (dict(name=[b"\xc3\xbcber", b"example"]), "host_invalid"),
    "an IPv4 address": (dict(name="10.0.0.1"), "host_invalid"),
    "another address's name": (dict(name="1.0.0.10.in-addr.arpa", type="PTR"), "host_not_listed"),
    "class CHAOS": (dict(name="version.bind", type="TXT", klass=3), "question_not_supported"),
    "class ANY": (dict(klass=255), "question_not_supported"),
    "a zone transfer": (dict(type="AXFR"), "question_not_supported"),
    "a part of one": (dict(type="IXFR"), "question_not_supported"),
}


@pytest.mark.parametrize("asked, reason", REFUSED.values(), ids=REFUSED)
def test_everything_else_is_refused_and_recorded(gateway, client, asked, reason):
    answer = client.ask(**asked)
    code = "REFUSED" if reason == "question_not_supported" else "NXDOMAIN"
    assert (answer.code, answer.answers, answer.authority) == (code, [], [])
    assert answer.words.split()[:2] == ["exeat", reason]
    assert answer.error == {"question_not_supported": 21}.get(reason, 18)
    record = record_of(gateway, answer)
    assert (record["reason"], record["action"], record["dns"]["code"]) == (reason, "deny", code)
    assert (record["dns"]["name"], record["dns"]["transport"]) == (shown(asked.get("name", "npm.example")), "udp")


def shown(name):
    """A name as the journal has it: a dot in a label cannot be taken for its end."""
    def escaped(c):
        return "\\" + chr(c) if chr(c) in ".\\" else chr(c) if 0x20 < c < 0x7f else f"\\{c:03}"
    return name if isinstance(name, str) else ".".join("".join(map(escaped, label)) for label in name)


def test_a_search_domain_is_told_from_a_name_that_is_missing(gateway, client):
    assert "npm.example is listed" in record_of(gateway, client.ask("npm.example.corp.local"))["detail"]


def test_letters_come_back_as_they_were_sent(client):
    """A resolver that mixes cases (0x20) holds the answer against its question."""
    answer = client.ask("nPm.ExAMPle")
    assert answer.questions == [("nPm.ExAMPle", 1, 1)] and answer.answers[0].name == "nPm.ExAMPle" and addresses(answer) == [V4]


def test_the_sandbox_of_a_listener_stands_in_the_record(gateway, ports):
    with Client(ports["bound"], source="127.0.0.9") as c:
        record = record_of(gateway, c.ask("elsewhere.example"))
    assert (record["sandbox"], record["listener"]) == ("vm1", "bound") and record["client"].startswith("127.0.0.9:")


# ---- messages that are none

MALFORMED = {
    "no question": dict(raw=b"", counts=(0, 0, 0, 1)),
    "two questions": dict(raw=dns.labels("npm.example") + b"\0\1\0\1" + dns.labels("npm.example") + b"\0\1\0\1", counts=(2, 0, 0, 1)),
    "a pointer to itself": dict(raw=b"\xc0\x0c\0\1\0\1"),
    "a pointer into the header": dict(raw=b"\3npm\xc0\x04\0\1\0\1"),
    "a pointer forward": dict(raw=b"\3npm\xc0\x20\0\1\0\1"),
    "a pointer behind the end": dict(raw=b"\3npm\xff\xff\0\1\0\1"),
    "half a pointer": dict(raw=b"\3npm\xc0", edns=None),
    "a label of the 0x40 kind": dict(raw=b"\x43npm\0\0\1\0\1"),
    "a label of the 0x80 kind": dict(raw=b"\x83npm\0\0\1\0\1"),
    "a label longer than the message": dict(raw=b"\x3fnpm", edns=None),
    "a name without an end": dict(raw=b"\3npm\7example", edns=None),
    "a name of 256 bytes": dict(raw=b"\x3f" + b"a" * 63 + (b"\x3f" + b"a" * 63) * 3 + b"\0\0\1\0\1"),
    "no type": dict(raw=dns.labels("npm.example"), edns=None),
    "half a class": dict(raw=dns.labels("npm.example") + b"\0\1\0", edns=None),
    "an answer in the question": dict(counts=(1, 1, 0, 0), edns=None, tail=b"\xc0\x0c\0\1\0\1\0\0\0\1\0\4\1\2\3\4"),
    "more records than there are": dict(counts=(1, 0, 0, 3)),
    "hundreds of records": dict(counts=(1, 0, 0, 300)),
    "two OPT": dict(extra=[dns.opt()]),
    "an OPT of a name": dict(edns=dns.opt(owner=b"\3npm\0")),
    "an OPT cut short": dict(edns=dns.opt()[:-4]),
    "an option longer than the message": dict(edns=dns.opt()[:-2] + b"\xff\xff"),
    "bytes behind the end": dict(tail=b"x"),
}


@pytest.mark.parametrize("asked", MALFORMED.values(), ids=MALFORMED)
def test_what_is_no_question_is_told_so(gateway, client, asked):
    before = len(gateway.records(kind="question", reason="question_malformed"))
    answer = client.ask(**asked)
    assert (answer.code, answer.answers) == ("FORMERR", [])
    assert len(gateway.wait_for(before + 1, kind="question", reason="question_malformed")) == before + 1
    assert addresses(client.ask()) == [V4]


@pytest.mark.parametrize("opcode", [1, 2, 4, 5, 6, 15])
def test_only_questions_are_answered(gateway, client, opcode):
    answer = client.ask(flags=opcode << 11 | 0x0100)
    assert answer.code == "NOTIMP" and answer.flags >> 11 & 15 == opcode
    assert gateway.wait_for(kind="question", reason="question_not_supported")[-1]["dns"]["code"] == "NOTIMP"


def test_another_version_of_edns(client):
    answer = client.ask(edns=dns.opt(version=1))
    assert answer.code == 16 and answer.words.startswith("exeat question_not_supported")


DROPPED = {"nothing": b"", "one byte": b"x", "half a header": bytes(11), "an answer": question(flags=0x8180), "an error": question(flags=0x8105),
           "a long message": question(tail=bytes(5000))}


@pytest.mark.parametrize("message", DROPPED.values(), ids=DROPPED)
def test_what_asks_nothing_is_left_alone(gateway, ports, message):
    with Client(ports["steer"]) as c:
        c.send(message)
        assert addresses(c.ask()) == [V4]  # this is the first answer that comes
        c.socket.setblocking(False)
        with pytest.raises(BlockingIOError):
            c.socket.recv(1)


def test_flags_of_the_question_and_no_more_come_back(client):
    answer = client.ask(flags=0x0110 | 0x0020, edns=dns.opt(size=512, flags=0x8000))
    assert answer.flags == 0x8000 | 0x0100 | 0x0080 | 0x0010  # QR, RD, RA, CD
    assert (answer.edns.klass, answer.edns.ttl) == (1232, 0x8000)
    assert client.ask(edns=None).edns is None
    assert client.ask(flags=0).flags == 0x8080


# ---- TCP


def test_many_questions_on_one_connection(gateway, ports):
    with Talk(ports["steer"]) as t:
        t.send(*(question(id=i) for i in range(100)))
        answers = [t.receive() for _ in range(100)]
    assert sorted(a.id for a in answers) == list(range(100))
    assert all(addresses(a) == [V4] for a in answers)
    assert gateway.wait_for(kind="question")[-1]["dns"]["transport"] == "tcp"


def test_a_question_in_single_bytes(ports):
    with Talk(ports["steer"]) as t:
        message = question()
        for byte in struct.pack(">H", len(message)) + message:
            t.socket.sendall(bytes([byte]))
        assert addresses(t.receive()) == [V4]


@pytest.mark.parametrize("size", [0, 11, 4097, 65535])
def test_a_length_that_no_question_has_ends_the_connection(ports, size):
    with Talk(ports["steer"]) as t:
        t.socket.sendall(struct.pack(">H", size) + bytes(32))
        assert t.receive() is None


def test_who_ends_gets_what_it_asked_for(ports):
    with Talk(ports["steer"]) as t:
        t.send(question(), question(type="AAAA"))
        t.socket.shutdown(1)
        assert sorted(sum((addresses(t.receive()) for _ in range(2)), [])) == [V4, V6]
        assert t.receive() is None


# ---- the journal


def test_without_the_scribe_there_is_no_answer_with_an_address(own):
    g, port = own()
    scribe = g.pids("scribe")[0]
    with Client(port) as c:
        assert addresses(c.ask()) == [V4]
        os.kill(scribe, signal.SIGSTOP)
        try:
            answer = c.ask()
        finally:
            os.kill(scribe, signal.SIGCONT)
        assert (answer.code, answer.answers) == ("SERVFAIL", []) and answer.words.startswith("exeat record_unavailable")
        wait_until(lambda: addresses(c.ask()) == [V4], "an answer again")


def test_every_question_is_one_record(own):
    g, port = own()
    with Client(port) as c:
        for i in range(50):
            c.ask("npm.example" if i % 2 else f"n{i}.example")
    found = g.wait_for(50, kind="question")
    assert len(found) == 50 and len({r["id"] for r in found}) == 50
    assert g.verify()


# ---- limits


def test_questions_over_the_rate_are_refused_then_ignored_and_summed(own):
    g, port = own(dns_questions=2)  # 20 in 10 s
    with Client(port) as c, Client(port, source="127.0.0.2") as other:
        answers = [c.ask() for _ in range(40)]
        assert [a.code for a in answers] == ["NOERROR"] * 20 + ["REFUSED"] * 20
        over = [a for a in answers if a.code == "REFUSED"]
        assert {a.words for a in over} == {over[0].words} and over[0].words.startswith("exeat limit_questions")
        for _ in range(200):
            c.send(question())
        assert addresses(other.ask()) == [V4]
        c.socket.setblocking(False)
        with pytest.raises(BlockingIOError):
            c.socket.recv(1)
    assert len(g.records(kind="question", reason="limit_questions")) == 1
    total = wait_until(lambda: sum(r["limit"]["count"] for r in g.records(kind="limit", reason="limit_questions")), "the sum")
    assert total == 19 + 200


def test_distinct_names_are_counted(own):
    g, port = own(dns_names=3)
    with Client(port) as c:
        for i in range(3):
            assert c.ask(f"n{i}.example").words.startswith("exeat host_not_listed")
        assert c.ask().words.startswith("exeat limit_questions")
        assert c.ask("N0.example").words.startswith("exeat host_not_listed")  # that one was asked for before
    with Client(port, source="127.0.0.2") as c:
        assert addresses(c.ask()) == [V4]


def test_new_names_below_a_suffix_are_counted(own):
    g, port = own(sandbox_names=2)
    with Client(port) as c:
        assert [c.ask(f"{x}.repo.example").code for x in "abba"] == ["NOERROR"] * 4
        assert c.ask("c.repo.example").words.startswith("exeat limit_names")
        assert addresses(c.ask()) == [V4]


def test_connections_of_one_client_are_counted(own):
    g, port = own(dns_connections=2)
    talks = [Talk(port) for _ in range(2)]
    assert all(addresses(t.ask()) == [V4] for t in talks)
    with Talk(port) as third, Talk(port, source="127.0.0.2") as other:
        assert third.receive() is None
        assert addresses(other.ask()) == [V4]
    for t in talks:
        t.close()
    wait_until(lambda: "exeat_dns_connections_open{role=\"usher\"} 0" in metrics(g), "closed connections")


def metrics(g):
    from urllib.request import urlopen
    with urlopen(f"http://127.0.0.1:{g.publish}/metrics", timeout=30) as page:
        return page.read().decode()


@pytest.mark.parametrize("begin", [b"", b"\0", b"\0\x20abc"], ids=["silent", "half a length", "half a question"])
def test_who_says_nothing_whole_is_let_go(own, begin):
    g, port = own(header_time="1s")
    with Talk(port) as t:
        t.socket.sendall(begin)
        assert t.receive() is None


# ---- canaries

SECRET = "sk-CanaryForNames0123456789abcdefXYZq"


def plant(directory, value=SECRET):
    """A registry with one canary, of a value that the test chooses; its random part is behind the prefix."""
    canary = {"id": "c1", "kind": "generic", "sandbox": "vm1", "value": value, "random_from": 3, "random_len": len(value) - 3,
              "created": "2026-01-01T00:00:00Z"}
    path = directory / "canaries.json"
    path.write_text(json.dumps({"schema": "exeat.canaries/1", "canaries": [canary]}))
    path.chmod(0o600)


def cut(text, size):
    return [text[i:i + size] for i in range(0, len(text), size)]


def base32(text, before=0):
    return b32encode(b"x" * before + text.encode()).decode().rstrip("=")


CARRIED = {
    "as a label": [[SECRET.encode(), b"evil", b"test"]],
    "in lower case": [[SECRET.lower().encode(), b"evil", b"test"]],
    "in upper case": [[SECRET.upper().encode(), b"evil", b"test"]],
    "in the middle of a label": [[b"x" + SECRET.encode() + b"y", b"evil", b"test"]],
    "over two labels": [[SECRET[:20].encode(), SECRET[20:].encode(), b"evil", b"test"]],
    "over single letters": [[c.encode() for c in SECRET] + [b"evil", b"test"]],
    "with a dot in the label": [[("a." + SECRET).encode(), b"evil", b"test"]],
    "with a label's length for one of its digits": [[SECRET[:17].encode(), SECRET[18:].ljust(ord(SECRET[17]), "x").encode(), b"evil", b"test"]],
    "in hexadecimal": ["{}.{}.evil.test".format(*cut(SECRET.encode().hex(), 40))],
    "in base64": [[b64encode(SECRET.encode()).rstrip(b"="), b"evil", b"test"]],
    "in base64, folded": [[b64encode(b"a" + SECRET.encode()).rstrip(b"=").lower(), b"evil", b"test"]],
    "in base32": [[base32(SECRET).encode(), b"evil", b"test"]],
    "in base32, folded, at another place": [[base32(SECRET, 2).lower().encode(), b"evil", b"test"]],
    "below a listed suffix": [".".join(cut(SECRET, 10)) + ".repo.example"],
    "over questions": [f"{piece}.evil.test" for piece in cut(SECRET, 8)],
    "over questions below a listed suffix": [f"{piece}.repo.example" for piece in cut(SECRET, 8)],
    "over first labels of long names": [f"{piece}.a.b.c.evil.test" for piece in cut(SECRET, 8)],
    "over questions, in hexadecimal": [f"{piece}.repo.example" for piece in cut(SECRET.encode().hex(), 16)],
    "over questions, each behind its number": [f"{i}.{piece}.repo.example" for i, piece in enumerate(cut(SECRET, 8))],
    "over questions, each before its number": [f"{piece}.{i}.repo.example" for i, piece in enumerate(cut(SECRET, 8))],
    "over questions of single letters": [f"{c}.repo.example" for c in SECRET],
    "over questions of single digits": [f"{c}.repo.example" for c in SECRET.encode().hex()],
    "over questions, asked twice each": [f"{piece}.repo.example" for piece in cut(SECRET, 8) for _ in range(2)],
}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    port = free_port()
    g = gateway_with(tmp_path_factory.mktemp("guarded") / "state", f'  steer: {{address: "127.0.0.1:{port}", answer: {V4}}}')
    plant(g.directory)
    g.start()
    g.dns = port
    g.sources = itertools.count(10)
    yield g
    assert g.stop() == 0


@pytest.mark.parametrize("names", CARRIED.values(), ids=CARRIED)
def test_a_canary_in_names_is_refused_and_recorded(guarded, names):
    with Client(guarded.dns, source=f"127.0.1.{next(guarded.sources)}") as c:
        answers = [c.ask(name) for name in names]
        assert addresses(c.ask("npm.example")) == [V4]
    leak = next(a for a in answers if a.words.startswith("exeat canary_leak"))
    assert leak.code == "REFUSED" and all("canary_leak" not in a.words for a in answers[:answers.index(leak)])
    record = record_of(guarded, leak)
    finding = guarded.wait_for(kind="finding", id=record["id"])[0]
    assert (finding["reason"], finding["canary"]["id"]) == ("canary_leak", "c1") and "name" not in record["dns"]
    assert finding["canary"]["place"] == ("names" if len(names) > 1 else finding["canary"]["place"])


def test_names_that_carry_none_pass(guarded):
    with Client(guarded.dns, source="127.0.1.9") as c:
        for name in (SECRET[:-4] + ".repo.example", "a.repo.example", SECRET[-4:-1] + ".repo.example"):
            assert addresses(c.ask(name)) == [V4]
        assert c.ask(".", "NS").words.startswith("exeat host_invalid")  # the name of no letters


def test_pieces_of_two_clients_are_nobodys(guarded):
    with Client(guarded.dns, source="127.0.1.7") as one, Client(guarded.dns, source="127.0.1.8") as other:
        pieces = cut(SECRET, 8)
        answers = [(one if i % 2 else other).ask(f"{piece}.evil.test") for i, piece in enumerate(pieces)]
    assert all(a.words.startswith("exeat host_not_listed") for a in answers)


def test_no_record_repeats_the_canary(guarded):
    text = "".join(p.read_text() for p in (guarded.directory / "journal").glob("*.ndjson"))
    assert SECRET not in text and SECRET.lower() not in text.replace(SECRET, "") and guarded.records(kind="finding", reason="canary_leak")


# ---- the operator's side

EXPLAINED = [("npm.example", "A"), ("npm.example", "AAAA"), ("npm.example", "HTTPS"), ("npm.example", "ANY"), ("npm.example", "AXFR"), ("a.repo.example", "A"),
             ("repo.example", "A"), ("npm.example.corp.local", "A"), ("elsewhere.example", "A"), ("a_b.example", "A")]


@pytest.mark.parametrize("name, type", EXPLAINED)
def test_explain_says_what_the_listener_does(gateway, client, name, type):
    done = exeat("explain", "--dns", name, "--type", type, "--listener", "steer", "--format", "json", config=gateway.config, check=False)
    said, answer = json.loads(done.stdout), client.ask(name, type)
    assert done.returncode == (0 if answer.code == "NOERROR" else 1)
    assert (said["code"], said["ede"]) == (answer.code, answer.error or 0)
    assert said["addresses"] == ([] if type == "ANY" else addresses(answer))
    assert said["reason"] == (answer.words.split()[1] if answer.words else "allowed")


@pytest.mark.parametrize("words, told", [(["--dns", "npm.example"], "several DNS listeners"), (["--dns", "a..b", "--listener", "steer"], "is no name"),
                                         (["--dns", "npm.example", "--listener", "none"], "is called none"), (["GET"], "METHOD URL, or --dns NAME"),
                                         (["--dns", "npm.example", "--type", "NONE"], "there is no type"), (["--dns", "a.b", "GET", "x"], "in place of"),
                                         (["--dns", "npm.example", "--sandbox", "s"], "says nothing")], ids=lambda v: v if isinstance(v, str) else "")
def test_explain_says_what_is_off(gateway, words, told):
    done = exeat("explain", *words, config=gateway.config, check=False)
    assert done.returncode == 2 and told in done.stderr


def test_why_tells_of_a_question(gateway, client):
    answer = client.ask("elsewhere.example")
    record_of(gateway, answer)
    told = exeat("why", answer.words.split()[-1], config=gateway.config).stdout
    for words in ("Question ", "on listener steer, asked for DNS A elsewhere.example", "host_not_listed", "It was answered NXDOMAIN, by udp", "List it under services"):
        assert words in told
    assert "under way" not in told


def test_status_and_metrics_know_it(gateway, ports):
    status = json.loads(exeat("status", "--format", "json", config=gateway.config).stdout)
    assert {"name": "dns.steer", "address": f"127.0.0.1:{ports['steer']}", "added": False} in status["listeners"]
    assert status["counters"]["exeat_dns_questions_total"] > 0
    told = metrics(gateway)
    assert 'exeat_dns_refused_total{role="usher"}' in told and 'exeat_dns_connections_open{role="usher"} ' in told


BAD = {
    "every address": ('address: "0.0.0.0:53", answer: 10.0.0.1', "name one"),
    "every IPv6 address": ('address: "[::]:53", answer: 10.0.0.1', "name one"),
    "no port": ('address: "10.0.0.1", answer: 10.0.0.1', "address and port"),
    "a unix socket": ('address: "unix:/run/dns.sock", answer: 10.0.0.1', "address and port"),
    "no answer": ('address: "127.0.0.1:53"', "answer"),
    "an answer that is a name": ('address: "127.0.0.1:53", answer: gw.example', "expected an address"),
    "an answer with a port": ('address: "127.0.0.1:53", answer: "10.0.0.1:443"', "expected an address"),
    "real beside an address": ('address: "127.0.0.1:53", answer: [real, 10.0.0.1]', "real alone"),
    "an answer of none": ('address: "127.0.0.1:53", answer: []', "1 to 8 addresses"),
    "the address of all": ('address: "127.0.0.1:53", answer: 0.0.0.0', "expected an address"),
    "a ttl of a week": ('address: "127.0.0.1:53", answer: 10.0.0.1, ttl: 7d', "a day is the most"),
    "a key that there is not": ('address: "127.0.0.1:53", answer: 10.0.0.1, upstream: 9.9.9.9', "upstream"),
}


@pytest.mark.parametrize("zone, told", BAD.values(), ids=BAD)
def test_check_names_what_is_off(gateway, tmp_path, zone, told):
    text = gateway.config.read_text()
    begin = text.index("dns:\n")
    end = text.index("limits:", begin)
    path = gateway.directory / f"bad-{abs(hash(zone))}.conf"
    path.write_text(text[:begin] + f"dns:\n  steer: {{{zone}}}\n" + text[end:])
    done = exeat("config", "check", config=path, check=False)
    path.unlink()
    assert done.returncode == 2 and told in done.stderr and f"{path}:" in done.stderr


def test_steering_to_no_transparent_listener_is_warned_of(gateway):
    path = gateway.directory / "steering.conf"
    text = gateway.config.read_text()
    assert "mode: transparent" not in text
    path.write_text(text)
    told = exeat("config", "check", config=path).stderr
    assert "dns.steer leads clients to " in told and "no listener here is transparent" in told
    path.write_text(text.replace("listen:\n", 'listen:\n  taker: {address: "127.0.0.1:1", mode: transparent}\n', 1))
    told = exeat("config", "check", config=path).stderr
    path.unlink()
    assert "no listener here is transparent" not in told


def test_one_address_is_for_one_listener(gateway, ports):
    text = gateway.config.read_text()
    path = gateway.directory / "twice.conf"
    for old, new in ((f'127.0.0.1:{ports["old"]}', f'127.0.0.1:{ports["steer"]}'), (f'127.0.0.1:{ports["old"]}', f"127.0.0.1:{gateway.port}")):
        path.write_text(text.replace(old, new))
        done = exeat("config", "check", config=path, check=False)
        assert done.returncode == 2 and "is taken already by" in done.stderr


# ---- what changes while it runs


def test_a_reload_changes_what_is_listed_and_where_it_leads(own):
    g, port = own()
    more = free_port()
    with Client(port) as c, Client(more) as d, Talk(port) as t:
        assert addresses(c.ask()) == addresses(t.ask()) == [V4] and c.ask("new.example").code == "NXDOMAIN"
        text = g.config.read_text()
        g.config.write_text(text.replace("[npm.example]", "[new.example]").replace(f"answer: {V4}}}", f"answer: 10.9.8.8}}\n  second: {{address: \"127.0.0.1:{more}\", answer: real}}"))
        exeat("reload", config=g.config)
        assert addresses(c.ask("new.example")) == addresses(t.ask("new.example")) == ["10.9.8.8"]
        assert c.ask().words.startswith("exeat host_not_listed") and d.ask().words.startswith("exeat host_not_listed")
        g.config.write_text(text)
        exeat("reload", config=g.config)
        assert addresses(c.ask()) == [V4]
        d.socket.settimeout(1)
        with pytest.raises((ConnectionRefusedError, TimeoutError)):
            d.ask()
        g.config.write_text(text.replace(f"answer: {V4}", "answer: nobody"))
        assert exeat("reload", config=g.config, check=False).returncode != 0
        assert addresses(c.ask()) == [V4]
    assert g.records(kind="question")[-1]["generation"] == 3


def test_its_sockets_outlive_the_usher(own):
    """What is asked while it is started again waits in the socket."""
    g, port = own()
    with Client(port) as c:
        assert addresses(c.ask()) == [V4]
        old = g.pids("usher")
        os.kill(old[0], signal.SIGKILL)
        wait_until(lambda: g.pids("usher") != old, "its end")
        assert addresses(c.ask()) == [V4]
    assert g.pids("usher") != old and [r for r in g.records(kind="lost") if r["lost"]["role"] == "usher"]


def test_with_the_usher_dead_requests_go_on(own):
    g, port = own()
    usher = g.pids("usher")[0]
    os.kill(usher, signal.SIGSTOP)
    try:
        wire = g.connect()
        wire.send("GET http://npm.example/ HTTP/1.1\r\nHost: npm.example\r\n\r\n")
        assert wire.response().status == 407
        wire.close()
    finally:
        os.kill(usher, signal.SIGCONT)


def test_answers_are_small_beside_questions(gateway, ports):
    """Who sends in another's name has little sent there."""
    with Client(ports["steer"]) as c:
        for name, type in EXPLAINED:
            for edns in (True, None):
                message = question(name, type, edns=edns)
                c.send(message)
                assert c.receive().size <= 4 * len(message)


def test_who_reads_no_answers_is_asked_nothing_further_and_let_go(own):
    g, port = own(header_time="1s", dns_questions=100000)
    with Talk(port, room=2048) as t:
        message = question()
        many = (struct.pack(">H", len(message)) + message) * 1000
        t.socket.settimeout(0.5)
        sent = 0
        with pytest.raises((TimeoutError, ConnectionError)):
            while sent < 64 << 20:
                sent += t.socket.send(many)
        wait_until(lambda: 'exeat_dns_connections_open{role="usher"} 0' in metrics(g), "its end")
        with Client(port) as c:
            assert addresses(c.ask()) == [V4]
    assert len(g.records(kind="question")) * len(message) < sent  # what is not read is not asked
