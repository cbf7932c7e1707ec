"""
Three hostile sandboxes beside an honest one. What must hold (docs/performance.md says it in words): the honest one has at
least 90 % of the requests a second that it has when the machine is shared fairly, and never less than its share.

  fairly shared   three neighbours do what it does: as many connections, the same requests, as fast as they are answered
  its share       of what it has alone: 1/(active+1)

Everything is measured in the same run, in turns of a second: whoever is not at work is stopped (SIGSTOP), so that all
that is said of one turn holds for the next, and the load generators take their part of the processors in both. A round is one
turn of each kind, right after one another; how many rounds there are is said beforehand, and the median of their ratios is judged
once. `make neighbours` takes 30 rounds and asks for the 90 %.

In `make check` there are five and NOISE: on two processors that others use too the turns of *fairly shared*
wander by 8 % (standard deviation), so the ratio of two turns by 11 %, and the median of five by 6 %. Three times that may be missing.
"""
import json
import os
import signal
import statistics
import subprocess
import time

import pytest

from gateway import EXEAT, Gateway, clean_environment, free_port, wait_until
from origin import make_pki

pytestmark = pytest.mark.alone

ROUNDS = int(os.environ.get("NEIGHBOURS_ROUNDS", 5))
TURN = float(os.environ.get("NEIGHBOURS_TURN", 1.0))
NOISE = float(os.environ.get("NEIGHBOURS_NOISE", 0.2))
CONNECTIONS = 16
KINDS = {"slow": 2000, "junk": 64, "denials": 64, "handshakes": 32}
SERVICES = """
  tls:
    hosts: [origin.test]
    addresses: ["127.0.0.1:{port}"]
    ca-file: {ca}
    allow: ["GET /1024"]
    scope: web
    audit: "waived: test"
  plain:
    hosts: [plain.test]
    plain-ports: [80]
    addresses: ["127.0.0.1:{port}"]
    allow: ["GET /1024"]
    scope: web
    audit: "waived: test"
"""


def program(name):
    return EXEAT.parent / "bench" / name


class Process:
    """One that can be stopped and let go on."""

    def __init__(self, *words, log=None, **more):
        self.child = subprocess.Popen([str(w) for w in words], env=clean_environment(), stderr=log, **more)

    def pause(self):
        self.child.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.child.send_signal(signal.SIGCONT)

    def end(self):
        self.child.kill()
        self.child.wait()


class Street:
    """A gateway, an origin, an honest sandbox, three like it and three that are not."""

    def __init__(self, directory, kinds):
        self.directory, self.processes = directory, []
        ca, cert, key = make_pki(directory, ["origin.test"])
        port = free_port()
        self.spawn(program("origin"), f"127.0.0.1:{port}", cert, key)
        # The rates of records and denials are limits of their own (test_limits.py); without them it is the lanes that hold.
        loose = {"sandbox-records": 1000000, "records": 10000000, "sandbox-bytes": "1024g", "sandbox-urls": 60000}
        self.gateway = Gateway(directory / "state", SERVICES.format(port=port, ca=ca), limits=loose)
        self.gateway.start()
        self.honest = self.load("honest", stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.answer()
        self.neighbours = [self.load(f"neighbour-{i}", "--requests", 10**9, stdout=subprocess.DEVNULL) for i in range(3)]
        self.hostile = []
        for i, kind in enumerate(kinds):
            token = self.gateway.token("web", sandbox=f"hostile-{i}")
            self.hostile.append(self.spawn(program("flood"), kind, self.proxy(), f"127.0.0.{10 + i}", KINDS[kind], token,
                                           "plain.test", "origin.test:443", self.gateway.root,
                                           stdout=open(directory / f"acts-{i}", "w+")))
        self.only([])

    def proxy(self):
        return f"127.0.0.1:{self.gateway.port}"

    def spawn(self, *words, **more):
        self.processes.append(Process(*words, log=open(self.directory / "load.log", "a"), **more))
        return self.processes[-1]

    def load(self, sandbox, *more, **how):
        token = self.directory / f"{sandbox}.jwt"
        token.write_text(self.gateway.token("web", sandbox=sandbox))
        steps = [] if more else ["--steps"]
        return self.spawn(program("load"), "--connect", self.proxy(), "--name", "origin.test", "--tunnel", "origin.test:443",
                          "--ca", self.gateway.root, "--token-file", token, "--connections", CONNECTIONS, *steps, *more, **how)

    def answer(self):
        line = self.honest.child.stdout.readline()
        assert line, (self.directory / "load.log").read_text()
        return json.loads(line)

    def only(self, working):
        for p in self.neighbours + self.hostile:
            p.go_on() if p in working else p.pause()

    def measure(self, working, requests):
        """Requests a second of the honest one while the others work."""
        self.only(working)
        time.sleep(0.3)  # until what the ones before have left behind is dealt with
        self.honest.child.stdin.write(f"{requests}\n")
        self.honest.child.stdin.flush()
        result = self.answer()
        assert result["failures"] == 0, (self.directory / "load.log").read_text()
        return result["requests"] / result["seconds"]

    def acts(self):
        """What each hostile one has done so far."""
        return [int((self.directory / f"acts-{i}").read_text() or 0) for i in range(len(self.hostile))]

    def round(self, requests):
        fair = self.measure(self.neighbours, requests)
        before = self.acts()
        beside = self.measure(self.hostile, requests)
        acts = [now - then for now, then in zip(self.acts(), before)]
        return fair, beside, self.measure([], requests), acts

    def end(self):
        for p in self.processes[::-1]:
            p.end()
        assert self.gateway.stop() == 0, self.gateway.output().decode()[-4000:]


@pytest.mark.parametrize("kinds", [("slow", "denials", "handshakes"), ("junk", "denials", "handshakes")], ids="-".join)
def test_an_honest_one_keeps_its_share(tmp_path, kinds):
    street = Street(tmp_path, kinds)
    try:
        street.measure([], 2000)  # everybody is warm
        requests = max(500, int(TURN * street.measure(street.neighbours, 1000)))
        rounds = [street.round(requests) for _ in range(ROUNDS)]
        of_fair = [beside / fair for fair, beside, _, _ in rounds]
        of_alone = [beside / alone for _, beside, alone, _ in rounds]
        for fair, beside, alone, acts in rounds:
            print(f"fairly shared {fair:.0f}, beside hostile ones {beside:.0f}, alone {alone:.0f}; acts of those: {acts}")
        print(f"of fairly shared: {spread(of_fair)}; of alone: {spread(of_alone)}")
        at_work(street, kinds, rounds)
        assert statistics.median(of_fair) >= 0.9 - NOISE, of_fair
        assert statistics.median(of_alone) >= (1 - NOISE) / 5, of_alone  # three and itself, and one more
    finally:
        street.end()
    assert street.gateway.verify()


def spread(ratios):
    return f"median {statistics.median(ratios):.3f}, from {min(ratios):.3f} to {max(ratios):.3f}, sd {statistics.stdev(ratios):.3f}"


def at_work(street, kinds, rounds):
    """The hostile ones were, in each round: most of their connections did something; and what they did is in the journal."""
    for _, _, _, acts in rounds:
        assert all(n >= KINDS[kind] / 2 for n, kind in zip(acts, kinds)), (kinds, acts)
    marks = {"junk": "token_failures", "denials": "limit_denials"}
    for kind in kinds:
        if kind in marks:
            assert wait_until(lambda: street.gateway.records(reason=marks[kind]), f"{kind} at work")
