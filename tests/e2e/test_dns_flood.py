"""
One sandbox asks 20,000 DNS questions a second, each for another name; another looks names up and makes requests. What must hold: all its
look-ups are answered, about as soon as without the flood, and its requests go on.

Measured in turns of the same run, the flood going to the listener or to a socket that nobody reads: sending it costs the machine as much in
both. The medians of the turns are compared, once, with room for what else the machine does.
"""
import itertools
import json
import os
import socket
import statistics
import subprocess
import time

import pytest

from dns import Client, addresses
from gateway import Gateway, free_port, wait_until
from origin import make_pki
from test_dns import V4, metrics
from test_neighbours import SERVICES, Process, program

pytestmark = pytest.mark.alone

RATE = 20000
ROUNDS, LOOKUPS, REQUESTS, CONNECTIONS = 3, 150, 8000, 8


class Street:
    def __init__(self, directory):
        self.directory, self.processes, self.sources = directory, [], itertools.count(100)
        ca, cert, key = make_pki(directory, ["origin.test"])
        port, self.dns = free_port(), free_port()
        self.spawn(program("origin"), f"127.0.0.1:{port}", cert, key)
        self.gateway = Gateway(directory / "state", SERVICES.format(port=port, ca=ca), extra=f"""
dns:
  steer: {{address: "127.0.0.1:{self.dns}", answer: {V4}}}
""").start()
        token = directory / "honest.jwt"
        token.write_text(self.gateway.token("web", sandbox="honest"))
        self.honest = self.spawn(program("load"), "--connect", f"127.0.0.1:{self.gateway.port}", "--name", "origin.test", "--tunnel", "origin.test:443",
                                 "--ca", self.gateway.root, "--token-file", token, "--connections", CONNECTIONS, "--steps",
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.answer()
        self.sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sink.bind(("127.0.0.1", 0))
        self.floods = {to: self.flood(to, port) for to, port in (("sink", self.sink.getsockname()[1]), ("listener", self.dns))}

    def spawn(self, *words, **more):
        self.processes.append(Process(*words, log=open(self.directory / "load.log", "a"), **more))
        return self.processes[-1]

    def flood(self, name, port):
        self.spawn(program("questions"), f"127.0.0.1:{port}", "127.0.0.66", RATE, "flood.example", stdout=open(self.directory / name, "w+"))
        self.processes[-1].pause()
        return self.processes[-1]

    def sent(self, name):
        return int((self.directory / name).read_text() or 0)

    def answer(self):
        line = self.honest.child.stdout.readline()
        assert line, (self.directory / "load.log").read_text()
        return json.loads(line)

    def look_up(self, source):
        """How long each look-up takes, over all its tries, and how many needed another than the first."""
        times, again = [], 0
        with Client(self.dns, source=source) as c:
            c.socket.settimeout(1)
            for _ in range(LOOKUPS):
                began = time.monotonic()
                while True:
                    try:
                        assert addresses(c.ask("plain.test")) == [V4]
                        break
                    except TimeoutError:
                        again += 1
                        assert time.monotonic() - began < 15
                times.append(time.monotonic() - began)
                time.sleep(0.002)
        return statistics.median(times), again

    def turn(self, to):
        before, began, used = self.sent(to), time.monotonic(), self.cpu()
        self.floods[to].go_on()
        try:
            self.honest.child.stdin.write(f"{REQUESTS}\n")
            self.honest.child.stdin.flush()
            median, again = self.look_up(f"127.0.0.{next(self.sources)}")  # each has a rate of its own
            result = self.answer()
        finally:
            self.floods[to].pause()
        took = time.monotonic() - began
        assert result["failures"] == 0
        return {"look-up": median, "again": again, "requests": result["requests"] / result["seconds"], "flood": (self.sent(to) - before) / took,
                "usher": (self.cpu() - used) / took}

    def cpu(self):
        """Of the usher, in seconds."""
        fields = open(f"/proc/{self.gateway.pids('usher')[0]}/stat").read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.fixture(scope="module")
def street(tmp_path_factory):
    s = Street(tmp_path_factory.mktemp("flood"))
    yield s
    for p in s.processes:
        p.go_on()
        p.end()
    s.sink.close()
    assert s.gateway.stop() == 0


def test_a_flood_of_questions_leaves_others_unharmed(street):
    street.turn("sink")  # connections and caches
    turns = [(street.turn("sink"), street.turn("listener")) for _ in range(ROUNDS)]
    for quiet, flooded in turns:
        print(quiet, flooded)
    median = {k: [statistics.median(t[i][k] for t in turns) for i in range(2)] for k in turns[0][0]}
    print(median)
    assert median["flood"][1] > RATE / 2, "the flood was none"
    assert sum(t[1]["again"] for t in turns) <= ROUNDS * LOOKUPS // 50, "its datagrams are lost in the flood"
    assert median["look-up"][1] < 5 * median["look-up"][0] + 0.01
    assert median["requests"][1] > 0.5 * median["requests"][0]
    assert median["usher"][1] < 0.25, "the flood has a processor of its own"


def test_the_journal_has_sums_of_it(street):
    """Not a record for each: as many as the rate allows, and one each 10 s."""
    sent = street.sent("listener")
    g = street.gateway
    told = wait_until(lambda: g.records(kind="limit", reason="limit_questions", client="127.0.0.66"), "sums")
    recorded = [r for r in g.records(kind="question") if r["client"].startswith("127.0.0.66:")]
    assert sent > RATE / 4 and len(recorded) < sent / 4 and told[0]["limit"]["count"] > RATE / 20
    assert 'exeat_dns_dropped_total{role="usher"}' in metrics(g)
