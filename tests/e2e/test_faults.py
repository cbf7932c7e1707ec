"""
What breaks while the gateway is at work: a role dies or hangs, the journal cannot be written or is tampered with. In each
row there is mixed traffic all the time. Clients get an answer that says so or a cut, never half an answer that looks whole
and never silence; nothing reaches an origin that the journal has not allowed before, and no address is told by DNS that it has not;
the gateway closes and says why, serves again by itself, and the journal verifies.
"""
import contextlib
import os
import resource
import shutil
import signal
import subprocess
import threading
import time
from contextlib import closing

import pytest

from conftest import BOTH, services
from dns import Client, addresses
from gateway import PATIENCE, Gateway, exeat, free_port, wait_until
from load import Load, Watch, metric, readiness, ready
from resolver import GOOD, Resolver

ROOT = os.geteuid() == 0
N_WORKERS = 2
# Deadlines short enough to be waited for, none so short that a busy machine meets it by accident.
LIMITS = "limits: {hang-time: 2s, dial-time: 4s, handshake-time: 4s, response-time: 6s, body-time: 6s}"
STEERED = "10.9.8.7"
HANG = 30  # seconds in which every client has an answer or a cut, whatever happens


@pytest.fixture
def gateway(tmp_path, origins, pki):
    made = []

    def make(**more):
        listed = services(origins[0].port, origins[1].port, pki[0])
        dns = free_port()
        extra = f'{LIMITS}\ndns: {{steer: {{address: "127.0.0.1:{dns}", answer: {STEERED}}}}}'
        made.append(Gateway(tmp_path / "state", listed, extra=extra, workers=N_WORKERS, **more))
        made[0].dns = dns
        return made[0]

    yield make
    for g in made:
        if g.process and g.process.poll() is None:
            g.process.kill()
            g.process.wait(PATIENCE)
        print(g.output().decode()[-6000:])


class Questions:
    """Somebody who asks a DNS listener all the time: the code of each answer, "lost" for none."""

    def __init__(self, port, name):
        self.port, self.name, self.heard, self.told, self.stopped = port, name, [], 0, False
        self.thread = threading.Thread(target=self.ask, daemon=True)
        self.thread.start()

    def ask(self):
        while not self.stopped:
            with Client(self.port) as c:  # a late answer to the one before is not taken for this one's
                c.socket.settimeout(1)
                try:
                    answer = c.ask(self.name)
                except OSError:
                    self.heard.append("lost")
                    continue
                self.told += bool(addresses(answer))
                self.heard.append(answer.code)
            time.sleep(0.02)

    def wait_for(self, code, n=5):
        seen = len(self.heard)
        wait_until(lambda: self.heard[seen:].count(code) >= n, f"{code} from the DNS listener")

    def stop(self):
        self.stopped = True
        self.thread.join(PATIENCE)


# ---- what is done to it: each gives the way back, or None when the gateway finds that itself


def kill(role):
    def hit(g, _):
        for pid in g.pids(role):
            os.kill(pid, signal.SIGKILL)

    return hit


def hang(role):
    def hit(g, _):
        for pid in g.pids(role):
            os.kill(pid, signal.SIGSTOP)

    return hit


def die_in_a_line(g, watch):
    """What a write that was cut off leaves behind."""
    pid = g.pids("scribe")[0]
    os.kill(pid, signal.SIGSTOP)
    watch.allowed.catch_up()
    with open(last_segment(g), "ab") as f:
        f.write(b'{"schema":"exeat.record/1","seq":')
    os.kill(pid, signal.SIGKILL)


def fill(but):
    """All but so many bytes of the journal's file system."""
    def hit(g, _):
        filler = g.directory / "journal" / "filler"
        free = os.statvfs(filler.parent).f_bavail * os.statvfs(filler.parent).f_frsize
        with open(filler, "wb", buffering=0) as f:
            try:
                f.write(bytes(max(free - but, 0)))
                while not but:
                    f.write(bytes(4096))
            except OSError:
                pass
        return filler.unlink

    return hit


def unwritable(g, _):
    directory = g.directory / "journal"
    directory.chmod(0o500)
    return lambda: directory.chmod(0o700)


def no_larger_files(g, watch):
    """As `ulimit -f` has it: a scribe that is started under such a limit."""
    def limit(n):
        resource.prlimit(g.process.pid, resource.RLIMIT_FSIZE, (n, resource.RLIM_INFINITY))
        kill("scribe")(g, watch)

    limit(last_segment(g).stat().st_size)
    return lambda: limit(resource.RLIM_INFINITY)


def last_segment(g):
    return sorted((g.directory / "journal").glob("*.ndjson"))[-1]


@contextlib.contextmanager
def still(g, watch):
    """The scribe does not write meanwhile, and what it has written was read: what is changed is one state and not a race."""
    pids = g.pids("scribe")
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    watch.allowed.catch_up()
    yield
    for pid in pids:
        os.kill(pid, signal.SIGCONT)


def take_segment_away(g, watch):
    segment = last_segment(g)
    kept = g.directory / "kept"
    with still(g, watch):
        segment.rename(kept)
    return lambda: kept.rename(segment)


def replace_segment(g, watch):
    segment = last_segment(g)
    kept = g.directory / "kept"
    with still(g, watch):
        segment.rename(kept)
        segment.write_bytes(b"")
        shutil.chown(segment, kept.stat().st_uid, kept.stat().st_gid)
    return lambda: kept.rename(segment)


def cut(bytes_left):
    def hit(g, watch):
        segment = last_segment(g)
        kept = g.directory / "kept"
        with still(g, watch):
            whole = segment.read_bytes()
            kept.write_bytes(whole)
            kept.chmod(0o600)
            shutil.chown(kept, segment.stat().st_uid, segment.stat().st_gid)
            os.truncate(segment, bytes_left(whole))
        return lambda: kept.rename(segment)

    return hit


def write_into_segment(g, watch):
    segment = last_segment(g)
    with still(g, watch):
        size = segment.stat().st_size
        with open(segment, "ab") as f:
            f.write(b'{"schema":"exeat.record/1","seq":1}\n')
    return lambda: os.truncate(segment, size)


def take_directory_away(g, _):
    directory = g.directory / "journal"
    kept = g.directory / "kept"
    directory.rename(kept)
    return lambda: kept.rename(directory)


def replace_directory(g, _):
    directory = g.directory / "journal"
    kept = g.directory / "kept"
    directory.rename(kept)
    directory.mkdir(0o700)

    def back():
        shutil.rmtree(directory)
        kept.rename(directory)

    return back


CUT = (None, "closed")
NO_RECORD = (503, "record_unavailable")
ROW = {
    # name: (what is done, what clients may hear besides 200, what /readyz says meanwhile; None: may be too short to see)
    "worker dies": (kill("worker"), {CUT}, None),
    "porter dies": (kill("porter"), {(503, "porter_unavailable")}, None),
    "keeper dies": (kill("keeper"), {(502, "certificate_unavailable")}, None),
    "scribe dies": (kill("scribe"), {NO_RECORD, CUT}, None),
    "clerk dies": (kill("clerk"), set(), None),
    "usher dies": (kill("usher"), set(), None),
    "scribe dies in a line": (die_in_a_line, {NO_RECORD, CUT}, None),
    "worker hangs": (hang("worker"), {CUT}, None),
    "porter hangs": (hang("porter"), {(503, "porter_unavailable"), (504, "connect_timeout")}, None),
    "keeper hangs": (hang("keeper"), {(502, "certificate_unavailable"), (504, "connect_timeout")}, None),
    "scribe hangs": (hang("scribe"), {NO_RECORD, CUT}, None),
    "clerk hangs": (hang("clerk"), set(), None),
    "usher hangs": (hang("usher"), set(), None),
    "disk full": (fill(0), {NO_RECORD, CUT}, "No space left on device"),
    "less than min-free": (fill(4 << 20), {NO_RECORD, CUT}, "journal.min-free"),
    "directory unwritable": (unwritable, {NO_RECORD, CUT}, "Permission denied"),
    "file size limit": (no_larger_files, {NO_RECORD, CUT}, "File too large"),
    "segment taken away": (take_segment_away, {NO_RECORD, CUT}, "took it away"),
    "segment replaced": (replace_segment, {NO_RECORD, CUT}, "was written: put back"),
    "segment cut at a line": (cut(lambda whole: whole[:-2000].rindex(b"\n") + 1), {NO_RECORD, CUT}, "put back"),
    "segment cut in a line": (cut(lambda whole: whole[:-2000].rindex(b"\n") - 7), {NO_RECORD, CUT}, "put back"),
    "segment emptied": (cut(lambda whole: 0), {NO_RECORD, CUT}, "put back"),
    "segment written into": (write_into_segment, {NO_RECORD, CUT}, "somebody changed it"),
    "directory taken away": (take_directory_away, {NO_RECORD, CUT}, "No such file or directory"),
    "directory replaced": (replace_directory, {NO_RECORD, CUT}, "put back"),
}
JOURNAL = {
    "disk full": "directory: journal, min-free: 0",
    "less than min-free": "directory: journal, min-free: 8m",
    "directory unwritable": "directory: journal, segment: 100k",
}
ON_A_SMALL_DISK = {"disk full", "less than min-free"}


@pytest.fixture
def mounted():
    """Mounts a small file system over a directory."""
    places = []

    def mount(directory):
        directory.mkdir(exist_ok=True)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m,mode=700", "none", directory]).returncode:
            pytest.skip("no mount here")
        places.append(directory)

    yield mount
    for p in places:
        subprocess.run(["umount", "-l", p], check=True)


def starved(g, says):
    state = readiness(g)
    return state and state[0] == 503 and says in state[1]


@pytest.mark.parametrize("row", ROW)
def test_under_load(gateway, origins, mounted, row):
    hit, may_hear, says = ROW[row]
    if not ROOT and row in ON_A_SMALL_DISK:
        pytest.skip("root mounts the small file system")
    g = gateway(journal=JOURNAL.get(row, "directory: journal"))
    if row in ON_A_SMALL_DISK:
        mounted(g.directory / "journal")
    g.start()
    watch, load, questions = Watch(g, origins), Load(g, BOTH), Questions(g.dns, "registry.test")
    try:
        load.wait_for_good(8)
        questions.wait_for("NOERROR")
        old = {role: g.pids(role) for role in ("worker", "porter", "keeper", "scribe", "clerk", "usher")}
        back = hit(g, watch)
        if says:
            wait_until(lambda: starved(g, says), f"/readyz to say: {says}")
            load.wait_for("record_unavailable")
            seen = len(watch.seen)
            time.sleep(0.5)
            assert len(watch.seen) <= seen + len(load.clients), "it goes on serving"
            back()
        else:
            role = row.split()[0]
            wait_until(lambda: len(g.pids(role)) == len(old[role]) and not set(old[role]) & set(g.pids(role)),
                       f"a new {role}")
        load.wait_for_good(8)
        questions.wait_for("NOERROR")
    finally:
        questions.stop()
        load.stop()
        watch.stop()
    assert set(questions.heard) <= {"NOERROR", "SERVFAIL", "lost"}
    outcomes = load.outcomes()
    heard = {(status, reason) for _, status, reason, _ in outcomes} - {(200, None)}
    assert heard <= may_hear, [o for o in outcomes if o[1:3] in heard - may_hear][:5]
    assert watch.unrecorded == []
    assert {path for path, status, _, _ in outcomes if status == 200} <= set(watch.seen)
    assert max(seconds for *_, seconds in outcomes) < HANG
    assert ready(g) == (200, {"ready": True})
    settled(g)
    assert g.stop() == 0
    assert questions.told <= len(g.records(kind="question", action="allow"))
    assert set(watch.seen) <= {r["http"]["path"] for r in g.records(kind="decision", action="allow") if "path" in r["http"]}
    verify = exeat("log", "verify", config=g.config, check=False)
    assert verify.returncode == 0, verify.stdout + verify.stderr
    if says is None:
        told = [r for r in g.records(kind="lost", role="supervisor") if r["lost"]["role"].split()[0] == row.split()[0]]
        assert len(told) == len(old[row.split()[0]]) and "signal 9" in told[0]["detail"]
    assert bool(g.records(kind="lost", role="scribe", detail=TORN)) == (row == "scribe dies in a line")


TORN = "the last line was torn by a crash; it was never acknowledged, and is kept beside the segment as .torn"


def is_alive(pid):
    try:
        return open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def test_the_supervisor_dies_under_load(gateway, origins):
    """Everything of the gateway ends with it; what starts it again (a service manager) finds all in order."""
    g = gateway().start()
    watch, load = Watch(g, origins), Load(g, BOTH)
    try:
        load.wait_for_good(8)
        roles = [p for role in ("worker", "porter", "keeper", "scribe", "clerk", "usher") for p in g.pids(role)]
        g.process.kill()
        g.process.wait(PATIENCE)
        wait_until(lambda: not any(is_alive(p) for p in roles), "the roles to end")
        with open(last_segment(g), "ab") as f:
            f.write(b'{"schema":"exeat.re')
        (g.directory / "log").rename(g.directory / "log.before")
        g.start()
        load.wait_for_good(8)
    finally:
        load.stop()
        watch.stop()
    assert {(status, reason) for _, status, reason, _ in load.outcomes()} <= {(200, None), CUT}
    assert watch.unrecorded == []
    assert ready(g) == (200, {"ready": True})
    assert g.stop() == 0 and g.verify()
    assert len(g.records(kind="boot")) == 2 and g.records(kind="lost", role="scribe", detail=TORN)


def test_a_name_server_dies_under_load(tmp_path):
    """What is told meanwhile is that nobody knows; the rest of the DNS listener and of the gateway does not notice."""
    real, steer = free_port(), free_port()
    names = Resolver()
    g = Gateway(tmp_path / "state", """
  named: {hosts: ["*.named.test"], plain-ports: [80], allow: ["GET /**"], scope: s, audit: "waived: test"}
""", extra=f"""
resolver: {{servers: ["{names.address}"], timeout: 400ms}}
dns:
  steer: {{address: "127.0.0.1:{steer}", answer: {STEERED}}}
  real: {{address: "127.0.0.1:{real}", answer: real}}
{LIMITS}""").start()
    at_real, at_steer = Questions(real, "good.named.test"), Questions(steer, "good.named.test")
    try:
        at_real.wait_for("NOERROR")
        names.close()
        at_real.wait_for("SERVFAIL")
        at_steer.wait_for("NOERROR")
        assert ready(g) == (200, {"ready": True})
        with closing(Resolver(port=int(names.address.rsplit(":")[-1]))):
            at_real.wait_for("NOERROR")
    finally:
        at_real.stop()
        at_steer.stop()
    assert set(at_steer.heard) == {"NOERROR"} and set(at_real.heard) == {"NOERROR", "SERVFAIL"}
    assert g.stop() == 0 and g.verify()
    lookups = g.records(kind="lookup")
    assert {r["reason"] for r in lookups if r["outcome"] == "failed"} <= {"name_timeout", "name_not_resolved"}
    assert {r["addresses"] for r in lookups if r["outcome"] == "complete"} == {GOOD}
    assert at_real.told <= len([r for r in lookups if r["outcome"] == "complete"])


def settled(g):
    def even():
        return metric(g, "exeat_connections_accepted_total") == metric(g, "exeat_connections_closed_total")

    wait_until(even, "every accepted connection to be closed")
