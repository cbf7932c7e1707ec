"""
The audit against its answer sheet: `exeat audit` on every fixture of the lab, each in a network of its own, some at a time. What
it says of a check is held against what the program really does: a missed weakness and a false alarm both fail.

Real programs answer to tests/cases/audit.jsonl, which was given, audit-more.jsonl, which test_more.py shows, and audit-strangers.jsonl, which
test_strangers.py shows. The weak service answers to its setting: that check is `fail`, no other one is worse
than `pass` but for those that tests/cases/audit-weak.jsonl names, with the reason.
"""
import concurrent.futures
import json
import os
import shutil
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

import pytest

import manifest
from fixture import PROGRAMS, STRANGERS, Fixture, settings
from weak import WEAKNESSES

TREE = Path(__file__).resolve().parents[2]
EXEAT = Path(os.environ.get("EXEAT", TREE / "build" / "exeat")).absolute()
CASES = TREE / "tests" / "cases"
MODULE_OF = {"apt-cacher-ng 3.7.4": "acng", "squid 5.7": "squid", "nginx 1.22 proxy_cache": "nginx", "verdaccio": "verdaccio",
             "docker-registry 2.8.2": "registry", "strangers": "strangers", "weak service": "weak"}
ALL = settings()
SIDE_BY_SIDE = int(os.environ.get("AUDITS", "6"))  # most of their time is waiting
NAMED = {"AN-6", "RL-12", "FU-7", "CN-6"}  # run only when they are named: they may disturb
BAD = {"fail", "weak", "open", "inconclusive"}


def rows(name):
    return [json.loads(line) for line in (CASES / name).read_text().splitlines() if line]


def rows_of_sheet():
    return rows("audit.jsonl") + rows("audit-more.jsonl") + rows("audit-strangers.jsonl")


def sheet():
    """{(module, setting): {check: verdict}}"""
    wanted = {k: {} for k in ALL}
    for row in rows_of_sheet():
        wanted[MODULE_OF[row["program"]], row["setting"]][row["check"]] = row["verdict"]
    return wanted


# Checks of the sheet that the audit does not judge yet: it says `not-run` of them. A line goes when its check comes.
def ids_of(name):
    return {line.split("#")[0].strip() for line in (CASES / name).read_text().splitlines()} - {""}


UNJUDGED = ids_of("audit-unjudged")


class Audits:
    """All of them, each started once."""

    def __init__(self, keys):
        self.directory = Path(tempfile.mkdtemp(prefix="exeat-audit-"))
        self.directory.chmod(0o755)
        self.pool = concurrent.futures.ThreadPoolExecutor(SIDE_BY_SIDE)
        self.running = {k: self.pool.submit(self.run, *k) for k in keys}

    def run(self, module, setting):
        with Fixture(module, setting, self.directory / f"{module}-{setting}", leave=True) as f:
            path, service = manifest.write(f)
            alone = ["--check", setting] if setting in NAMED else []
            command = f.world.enter(EXEAT, "audit", service, "-m", path, "--format", "json", "--active", "--tenant2", "--issuer-key",
                                    "--beacon", "--rate", "100" if module in PROGRAMS else "500", "--requests", "1500", *alone)
            done = subprocess.run(command, pass_fds=[f.world.namespace], capture_output=True, text=True, timeout=240)
            assert done.returncode in (0, 1), f"status {done.returncode}\n{done.stderr}\n{done.stdout[-2000:]}"
            return json.loads(done.stdout)

    def get(self, key):
        return {c["check"]: c for c in self.running[key].result()["checks"]}

    def close(self):
        for future in self.running.values():
            future.cancel()
        self.pool.shutdown()
        shutil.rmtree(self.directory)


@pytest.fixture(scope="module")
def audits(request):
    """Those that the selected tests ask for."""
    asked = {item.callspec.params["key"] for item in request.session.items if "key" in getattr(item, "callspec", Empty).params}
    made = Audits([k for k in ALL if k in asked])
    yield made
    made.close()


class Empty:
    params = {}


def told(key, check, wanted, got):
    return f"{key[0]} {key[1]} {check}: wanted {wanted}, got {got['verdict']}: {got['note']}"


def differences(key, wanted, found):
    return [told(key, check, verdict, found[check]) for check, verdict in wanted.items()
            if found[check]["verdict"] != verdict and not (check in UNJUDGED and found[check]["verdict"] == "not-run")]


REAL = [k for k in ALL if k[0] in PROGRAMS + STRANGERS]
OURS = [k for k in ALL if k[0] == "weak"]


@pytest.mark.parametrize("key", REAL, ids="-".join)
def test_real_program(audits, key):
    wrong = differences(key, sheet()[key], audits.get(key))
    assert not wrong, "\n" + "\n".join(wrong)


def weak_wanted(setting):
    """What is wanted of the checks that are not to pass."""
    named = {setting: "fail"} if setting in WEAKNESSES else {}
    return named | {r["check"]: r["verdict"] for r in rows("audit-weak.jsonl") if setting in r["settings"]}


@pytest.mark.parametrize("key", OURS, ids="-".join)
def test_weak_service(audits, key):
    found, wanted = audits.get(key), weak_wanted(key[1])
    wrong = differences(key, wanted, found)
    wrong += [told(key, check, "no alarm", got) for check, got in found.items() if check not in wanted and got["verdict"] in BAD]
    assert not wrong, "\n" + "\n".join(wrong)


@pytest.mark.parametrize("key", [("weak", "strong")], ids="-".join)
def test_each_check_has_a_fixture_or_a_reason(audits, key):
    """Somewhere it is answered badly, or audit-without-fixture says why not."""
    shown = {r["check"] for r in rows_of_sheet() if r["verdict"] in BAD} | WEAKNESSES.keys()
    shown |= {r["check"] for r in rows("audit-weak.jsonl")}
    without = ids_of("audit-without-fixture")
    assert not shown & without, "these have one now"
    assert audits.get(key).keys() == shown | without


@pytest.mark.parametrize("module, setting, check, verdict", [
    ("weak", "strong", "AN-6", "pass"), ("weak", "strong", "RL-12", "pass"), ("weak", "strong", "FU-7", "pass"), ("weak", "strong", "CN-6", "pass"),
    ("nginx", "weak", "RL-12", "pass"),
    # These take the chunks, and go on behind them, where RFC 9112 6.3 has them close: squid takes the second request upstream.
    ("registry", "no-auth", "RL-12", "fail"), ("squid", "allow-all", "RL-12", "fail"),
])
def test_what_is_asked_only_when_it_is_named(request, module, setting, check, verdict):
    directory = Path(tempfile.mkdtemp(prefix="exeat-named-"))
    request.addfinalizer(lambda: shutil.rmtree(directory))
    directory.chmod(0o755)
    with Fixture(module, setting, directory / module, leave=True) as f:
        path, service = manifest.write(f)
        command = f.world.enter(EXEAT, "audit", service, "-m", path, "--format", "json", "--beacon", "--rate", "500", "--check", check)
        done = subprocess.run(command, pass_fds=[f.world.namespace], capture_output=True, text=True, timeout=120)
    (got,) = [c for c in json.loads(done.stdout)["checks"] if c["check"] == check]
    assert got["verdict"] == verdict, got["note"]


def test_what_is_not_judged_yet(capsys):
    """It is known by name, and how much of the sheet it is."""
    open_rows = [r for r in rows_of_sheet() if r["check"] in UNJUDGED]
    with capsys.disabled():
        print(f"\nthe audit does not judge {len(open_rows)} of {len(rows_of_sheet())} rows yet: {', '.join(sorted(UNJUDGED)) or 'none'}")


@pytest.mark.parametrize("key", REAL, ids="-".join)
def test_what_is_judged_is_no_longer_listed(audits, key):
    judged = [c for c, got in audits.get(key).items() if c in UNJUDGED and got["verdict"] != "not-run"]
    assert not judged, f"take out of tests/cases/audit-unjudged: {judged}"


def test_the_sheet_is_one_verdict_a_row():
    counts = Counter((r["program"], r["setting"], r["check"]) for r in rows_of_sheet())
    assert max(counts.values()) == 1
    assert {(MODULE_OF[p], s) for p, s, _ in counts} <= set(ALL)
