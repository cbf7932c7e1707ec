"""The journal of a real gateway through `exeat log` and `exeat why`, and what happens when its scribe dies."""
import json
import os
import re
import signal
import subprocess

import pytest

from gateway import EXEAT, TREE, clean_environment, exeat, wait_until


def ask(gateway, host="nowhere.test", path="/x"):
    wire = gateway.connect()
    wire.send(f"GET http://{host}{path} HTTP/1.1\r\nHost: {host}\r\n\r\n")
    answer = wire.response()
    wire.close()
    return answer


def run(*words):
    return exeat(*words, check=False)


@pytest.fixture
def refusal(gateway):
    """One refused request; its id as the client was told."""
    return json.loads(ask(gateway).body)["exchange"]


@pytest.fixture
def copy(gateway, refusal, tmp_path):
    """The journal as it is now, in a place where it may be touched."""
    for _ in range(3):
        ask(gateway)
    for segment in (gateway.directory / "journal").glob("*.ndjson"):
        whole = segment.read_bytes()
        (tmp_path / segment.name).write_bytes(whole[: whole.rindex(b"\n") + 1])
    return tmp_path


def test_verify_says_intact_and_the_head(copy):
    verdict = run("log", "verify", "--directory", copy)
    assert verdict.returncode == 0
    first = verdict.stdout.splitlines()[0]
    assert first.startswith("intact: ") and " records in 1 segment, head " in first
    assert "keep the head" in verdict.stdout
    as_json = json.loads(run("log", "verify", "--directory", copy, "--format", "json").stdout)
    assert as_json["schema"] == "exeat.log-verify/1" and as_json["intact"] is True
    assert first.endswith(as_json["head"])
    kept = run("log", "verify", "--directory", copy, "--expect-head", as_json["head"])
    assert kept.returncode == 0 and "the head you kept is in it" in kept.stdout


def test_a_directory_without_records_is_not_called_intact(tmp_path):
    verdict = run("log", "verify", "--directory", tmp_path)
    assert verdict.returncode == 3 and verdict.stdout == "" and "holds no record" in verdict.stderr


def test_a_reason_is_explained_without_a_journal():
    one = run("why", "host_not_listed")
    assert one.returncode == 0 and one.stdout.startswith("host_not_listed (severity medium, status 403)\n")
    every = [json.loads(line) for line in run("why", "--reasons", "--format", "json").stdout.splitlines()]
    assert {"allowed", "canary_leak", "client_timeout"} <= {r["reason"] for r in every}
    assert {r["schema"] for r in every} == {"exeat.reason/1"}
    assert run("why", "host_not_liste").returncode == 2 and run("why", "--reasons", "--last").returncode == 2


@pytest.mark.parametrize("words, text", [
    (["--kind", "dail"], "there are boot, config, decision, dial,"),
    (["--reason", "canary_lek"], 'did you mean "canary_leak"?'),
    (["--reason", "nothing_like_it"], "see: exeat why --reasons"),
])
def test_a_question_that_cannot_be_meant_says_what_can(tmp_path, words, text):
    answer = run("log", "query", "--directory", tmp_path, *words)
    assert answer.returncode == 2 and text in answer.stderr


def test_a_question_that_nothing_fits_says_so(copy):
    answer = run("log", "query", "--directory", copy, "--sandbox", "nobody")
    assert answer.returncode == 1 and answer.stdout == "" and "no record fits" in answer.stderr


def test_the_head_is_what_sha256sum_says(copy):
    segment = max(copy.glob("*.ndjson"))
    last = segment.read_bytes().splitlines()[-1]
    summed = subprocess.run(["sha256sum"], input=last, capture_output=True).stdout.decode().split()[0]
    assert json.loads(run("log", "verify", "-d", copy, "--format", "json").stdout)["head"] == summed


def edit(text):
    return text.replace(b"token_missing", b"token_revoked", 1)


def remove(text):
    lines = text.splitlines(keepends=True)
    return b"".join(lines[:2] + lines[3:])


def exchange(text):
    lines = text.splitlines(keepends=True)
    return b"".join([lines[0], lines[2], lines[1]] + lines[3:])


@pytest.mark.parametrize("touch, says", [(edit, "prev is not the hash"), (remove, "seq 4 after 2"),
                                         (exchange, "seq 3 after 1"), (lambda t: t[:-5], "torn line")],
                         ids=["edited", "removed", "exchanged", "torn"])
def test_verify_names_place_and_reason(copy, touch, says):
    segment = min(copy.glob("*.ndjson"))
    segment.write_bytes(touch(segment.read_bytes()))
    verdict = run("log", "verify", "--directory", copy)
    assert verdict.returncode == 1
    assert verdict.stdout.startswith(f"not intact: {segment.name}:") and says in verdict.stdout
    as_json = json.loads(run("log", "verify", "--directory", copy, "--format", "json").stdout)
    assert as_json["intact"] is False and says in as_json["fault"] and as_json["place"].startswith(segment.name)


def test_a_cut_end_shows_against_a_kept_head(copy):
    head = json.loads(run("log", "verify", "-d", copy, "--format", "json").stdout)["head"]
    segment = max(copy.glob("*.ndjson"))
    segment.write_bytes(b"".join(segment.read_bytes().splitlines(keepends=True)[:-1]))
    assert run("log", "verify", "-d", copy).returncode == 0
    assert run("log", "verify", "-d", copy, "--expect-head", head).returncode == 1


@pytest.mark.parametrize("words, status, says", [
    (["log", "verify", "-d", "/nowhere/at/all"], 2, "/nowhere/at/all"),
    (["log", "verify", "--expect-head", "abc"], 2, "64 hexadecimal digits"),
    (["log", "query", "--kind", "decisions"], 2, "kind"),
    (["log", "query", "--since", "soon"], 2, "--since"),
    (["log", "query", "--id", "xyz"], 2, "exchange id"),
    (["why"], 2, "--last"),
    (["why", "123456", "--last"], 2, "--last"),
])
def test_misuse(words, status, says):
    answer = run(*words)
    assert answer.returncode == status and says in answer.stderr and not answer.stdout


def test_query_finds_and_says_when_nothing_fits(gateway, refusal):
    gateway.wait_for(id=refusal)
    found = exeat("log", "query", "--id", refusal[-6:], "--format", "json", config=gateway.config).stdout
    assert [json.loads(line)["kind"] for line in found.splitlines()][0] == "decision"
    for line in found.splitlines():
        assert json.loads(line)["id"] == refusal
    assert found.splitlines()[0] in (gateway.directory / "journal" / "000000000001.ndjson").read_text()
    text = exeat("log", "query", "--action", "deny", "--last", "1", config=gateway.config).stdout
    assert text.count("\n") == 1 and refusal[-6:] in text and "token_missing" in text
    nothing = exeat("log", "query", "--sandbox", "nobody", config=gateway.config, check=False)
    assert nothing.returncode == 1 and nothing.stdout == ""


def test_why_by_the_id_the_client_was_shown(gateway):
    answer = ask(gateway, path="/\x7f%1b")
    short = answer.line.split()[-1]
    text = exeat("why", short, config=gateway.config).stdout
    assert "A client without a verified leave token" in text
    assert text == exeat("why", "--last", config=gateway.config).stdout
    assert exeat("why", "0" * 6, config=gateway.config, check=False).returncode == 1


def test_a_dead_scribe_is_replaced_and_the_chain_goes_on(gateway, refusal):
    old = gateway.pids("scribe")[0]
    os.kill(old, signal.SIGKILL)
    seen = set()

    def back():
        seen.add(ask(gateway).status)
        return gateway.pids("scribe") not in ([], [old]) and 407 in seen and ask(gateway).status == 407

    wait_until(back, "the scribe to come back")
    assert seen <= {407, 503}
    after = json.loads(ask(gateway).body)["exchange"]
    gateway.wait_for(id=after)
    assert gateway.verify()
    assert len(gateway.records(kind="boot")) == 2 and not gateway.records(kind="shutdown")


def test_query_ends_quietly_when_nobody_reads(gateway, refusal):
    with subprocess.Popen([EXEAT, "-c", gateway.config, "log", "query"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env=clean_environment()) as p:
        p.stdout.close()
        p.stderr.read()
        assert p.wait() in (0, 3)


def test_the_page_says_who_may_write_what():
    """docs/journal.md beside the table by which the scribe accepts records."""
    table = re.findall(r"\[ROLE_(\w+)\] = ((?:MAY\(\w+\)(?: \| )?)+)", (TREE / "proxy/scribe.c").read_text())
    may = {}
    for role, kinds in table:
        for kind in re.findall(r"MAY\((\w+)\)", kinds):
            may.setdefault(kind.lower(), set()).add(role.lower())
    assert {role for roles in may.values() for role in roles} == {"supervisor", "worker", "porter", "keeper", "usher", "clerk"}
    page = (TREE / "docs/journal.md").read_text()
    page = page[page.index("### Kinds"):page.index("### Members")]
    rows = {kind: set(roles.split(", ")) for kind, roles in re.findall(r"^\| `(\w+)` \| ([\w ,]+) \|", page, re.M)}
    assert {k: r for k, r in rows.items() if not r & {"scribe", "any role"}} == {k: r for k, r in may.items() if k not in ("finding", "lost")}
