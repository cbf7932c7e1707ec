"""
Out of descriptors, full of connections: the gateway says so (/readyz), waits without spinning, keeps its journal, loses
no process, and goes on by itself.
"""
import json
import os
import resource
import subprocess
import time

import pytest

from gateway import wait_until
from test_limits import Limited, is_refused, limited, publish, ready, sum_of  # noqa: F401 (a fixture)


def allow(pid, n):
    """From now on n open files; asked for as the user the role runs as, who alone may."""
    status = dict(line.split(":", 1) for line in open(f"/proc/{pid}/status"))
    user = int(status["Uid"].split()[0])
    words = ["prlimit", "--pid", str(pid), f"--nofile={n}:"]
    subprocess.run(words, check=True, **({"user": user, "group": int(status["Gid"].split()[0])} if os.geteuid() == 0 else {}))


def squeeze(pid):
    """No descriptor beyond those it has. Gives how many it may have, and how many numbers below the highest are free."""
    may = next(int(line.split()[3]) for line in open(f"/proc/{pid}/limits") if line.startswith("Max open files"))
    used = [int(n) for n in os.listdir(f"/proc/{pid}/fd")]
    allow(pid, max(used) + 1)
    return may, max(used) + 1 - len(used)


def cpu_seconds(pid):
    words = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def not_ready(g):
    status, body = publish(g, "/readyz")
    return json.loads(body)["missing"] if status == 503 else None


def test_no_descriptors_to_accept(limited):  # noqa: F811
    g = limited({})
    worker, = g.pids("worker")
    open_before = g.send(wire=g.wire())
    assert open_before.response().status == 200
    was, gaps = squeeze(worker)
    waiting = [g.send(wire=g.wire()) for _ in range(gaps + 40)]
    missing = wait_until(lambda: not_ready(g), "/readyz to be red")
    assert missing == ["no new connections: Too many open files"]
    assert sum_of(g, "exeat_exhausted") == 24  # EMFILE
    spent, began = cpu_seconds(worker), time.monotonic()
    time.sleep(3)
    assert cpu_seconds(worker) - spent < (time.monotonic() - began) / 4, "it spins"
    assert not_ready(g)
    assert g.send(wire=open_before).response().status in (200, 503)
    assert g.pids("worker") == [worker]
    allow(worker, was)
    assert [w.response().status for w in waiting][-1] == 200
    wait_until(lambda: ready(g), "/readyz to be green by itself")
    assert g.ask().status == 200
    g.end()


def test_no_descriptors_to_dial(limited):  # noqa: F811
    g = limited({})
    porter, = g.pids("porter")
    was, gaps = squeeze(porter)
    assert gaps == 0
    is_refused(g.ask(), "gateway_exhausted", 503)
    assert wait_until(lambda: not_ready(g), "/readyz to be red") == ["no new connections: Too many open files"]
    assert g.wait_for(kind="dial", reason="gateway_exhausted")
    allow(porter, was)
    assert g.ask().status == 200
    wait_until(lambda: ready(g), "/readyz to be green by itself")
    assert g.pids("porter") == [porter]
    g.end()


def test_no_room_for_a_dialled_descriptor(limited):  # noqa: F811
    """The porter has connected, and the worker has no room for the descriptor."""
    g = limited({})
    worker, = g.pids("worker")
    wire = g.wire()
    wait_until(lambda: sum_of(g, "exeat_connections_accepted_total") == 1, "the connection")
    was, gaps = squeeze(worker)
    kept = [g.wire() for _ in range(gaps)]
    if kept:
        wait_until(lambda: sum_of(g, "exeat_connections_accepted_total") == 1 + gaps, "the gaps to be filled")
    is_refused(g.send(wire=wire).response(), "gateway_exhausted", 503)
    allow(worker, was)
    assert g.send(wire=wire).response().status == 200
    wait_until(lambda: ready(g), "/readyz to be green by itself")


def test_full_of_connections(limited):  # noqa: F811
    """A full worker lets clients wait in its queue; who has shown no token for half of header-time makes room."""
    g = limited({"connections": 3, "sandbox-connections": 3, "header-time": "3s"})
    held = []
    for n in range(3):
        held.append(g.send(wire=g.wire(), sandbox=f"sb-{n}"))
        assert held[-1].response().status == 200
    waits = g.send(wire=g.wire(), sandbox="sb-9")
    waits.socket.settimeout(1)
    with pytest.raises(TimeoutError):
        waits.response()
    waits.socket.settimeout(60)
    held[0].close()
    assert waits.response().status == 200
    held[1].close()
    silent = g.wire()
    wait_until(lambda: sum_of(g, "exeat_connections_accepted_total") == 5, "the silent one")
    assert g.send(wire=g.wire(), sandbox="sb-8").response().status == 200
    is_refused(silent.response(), "limit_connections")



def test_full_of_memory(limited):  # noqa: F811
    """A worker that holds as much as it may accepts nobody until it holds less; what is open goes on."""
    if os.environ.get("SANITIZED"):
        return  # a sanitizer has a memory of its own, which nobody counts
    g = limited({"memory": "24m", "sandbox-exchanges": 1000, "body-collect": "64k", "sandbox-connections": 1000})
    held = []
    for n in range(400):  # each leaves a body that is collected and not whole: 25 MB in all
        wire = g.wire()
        wire.send(f"POST http://web.test/up/{n} HTTP/1.1\r\nHost: web.test\r\nProxy-Authorization: Bearer {g.token_of('sb-1')}\r\n"
                  f"Content-Length: 65536\r\n\r\n" + 65000 * "x")
        held.append(wire)
    wait_until(lambda: not_ready(g), "/readyz to turn red")
    assert any("memory" in m for m in not_ready(g))
    pids = g.pids("worker")
    waits = g.send(wire=g.wire(), sandbox="sb-2")
    waits.socket.settimeout(1)
    with pytest.raises(TimeoutError):
        waits.response()
    before, began = cpu_seconds(pids[0]), time.monotonic()
    time.sleep(1)
    assert cpu_seconds(pids[0]) - before < 0.5 * (time.monotonic() - began)  # it waits, and does not spin
    held[0].send(536 * "x")
    assert held[0].response().status
    for wire in held:
        wire.close()
    waits.socket.settimeout(60)
    assert waits.response().status == 200
    wait_until(lambda: ready(g), "/readyz to turn green")
    assert g.pids("worker") == pids


def test_fewer_descriptors_than_the_limits_need(tmp_path, origins, pki):
    """What will not fit is said at the start, with what to do."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    class Few(Limited):
        def start(self):
            return super().start(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024)))

    g = Few(tmp_path / "few", origins, pki, {"connections": 5000})
    assert b"limits.connections" in g.output() and b"LimitNOFILE" in g.output()
    assert g.ask().status == 200
    g.end()
    assert (soft, hard) == resource.getrlimit(resource.RLIMIT_NOFILE)
