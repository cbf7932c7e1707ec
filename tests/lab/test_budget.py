"""`exeat audit` with fewer requests than it has questions: what weighs most is asked first, and the report says what was left, and how many would do."""
import json
import os
import subprocess
from pathlib import Path

import pytest

import manifest
from fixture import Fixture

TREE = Path(__file__).resolve().parents[2]
EXEAT = Path(os.environ.get("EXEAT", TREE / "build" / "exeat")).absolute()
WEIGHTS = ["critical", "high", "medium", "low", "info"]


@pytest.fixture(scope="module")
def audit(tmp_path_factory):
    """Of the strong service, with so many requests."""
    directory = tmp_path_factory.mktemp("budget")
    directory.chmod(0o755)
    with Fixture("weak", "strong", directory / "strong", leave=True) as f:
        path, service = manifest.write(f)

        def run(*options):
            command = f.world.enter(EXEAT, "audit", service, "-m", path, "--active", "--tenant2", "--issuer-key", "--beacon", "--rate", "500", *options)
            return subprocess.run(command, pass_fds=[f.world.namespace], capture_output=True, text=True, timeout=120).stdout
        yield run


@pytest.fixture(scope="module")
def default(audit):
    return json.loads(audit("--format", "json"))


def unsent(check):
    return [e for e in check["evidence"] if e["answer"] == "not sent"]


def test_the_default_is_300_and_what_it_leaves_is_named(default):
    left = {c["check"] for c in default["checks"] if unsent(c)}
    assert left and default["requests"] == default["unasked"]["budget"] == 300
    assert set(default["unasked"]["checks"]) == left


def test_nothing_is_said_of_what_was_not_sent(default):
    assert {c["verdict"] for c in default["checks"] if unsent(c)} == {"inconclusive"}


def test_what_weighs_most_is_asked_first(default):
    first = {}  # what a heavier check has asked costs a lighter one nothing
    for c in sorted(default["checks"], key=lambda c: WEIGHTS.index(c["severity"])):
        for e in c["evidence"]:
            first.setdefault(e["request"], c["check"])
    asked = [WEIGHTS.index(c["severity"]) for c in default["checks"] if c["evidence"] and not unsent(c) and any(first[e["request"]] == c["check"] for e in c["evidence"])]
    left = [WEIGHTS.index(c["severity"]) for c in default["checks"] if c["evidence"] and len(unsent(c)) == len(c["evidence"])]
    assert max(asked) <= min(left)
    assert not [c["check"] for c in default["checks"] if c["severity"] == "critical" and unsent(c)]


def test_the_number_that_it_names_would_do(audit, default):
    enough = json.loads(audit("--format", "json", "--requests", str(default["unasked"]["would-do"])))
    assert enough["unasked"] is None and enough["requests"] <= default["unasked"]["would-do"]
    assert enough["passing"]


@pytest.mark.parametrize("requests", [40, 10, 1])
def test_it_is_named_from_any_budget(audit, requests):
    report = json.loads(audit("--format", "json", "--requests", str(requests)))
    assert report["requests"] <= requests and not report["passing"]
    assert not [c["check"] for c in report["checks"] if unsent(c) and c["verdict"] != "inconclusive"]


def test_people_are_told(audit, tmp_path):
    page = tmp_path / "page.html"
    text = audit("--requests", "100", "--html", page)
    sentence = next(line for line in text.splitlines() if line.startswith("The budget of 100 requests left "))
    assert "critical or high: " in sentence and sentence.endswith(" would do for all.")
    assert sentence in page.read_text()
