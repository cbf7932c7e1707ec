"""
Least privilege, shown: what a role that was taken over can do. In the first part root stops the running, shipped processes
and makes them call the kernel (inject.py). In the second the worker of a real gateway is a hostile one (build/hostile, see
tests/hostile/worker.c), which says to the other roles what it likes.
"""
import contextlib
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

import inject
from conftest import BOTH, services
from gateway import EXEAT, PATIENCE, TREE, Gateway, clean_environment, exeat, wait_until
from inject import Ended, Prisoner
from names import Names

ROLES = ["worker", "porter", "keeper", "scribe", "clerk", "usher"]
APART = [r for r in ROLES if r != "porter"]
ROOT = os.geteuid() == 0
CLOSED = not os.environ.get("SANITIZED")  # a sanitizer's build closes no cell, and says so
HOSTILE = EXEAT.with_name("hostile")
AT_FDCWD = -100


@pytest.fixture(scope="module")
def gateway(tmp_path_factory, origins, pki):
    listed = services(origins[0].port, origins[1].port, pki[0])
    g = Gateway(tmp_path_factory.mktemp("jail") / "state", listed, workers=4)
    g.is_attacked = True
    g.start()
    yield g
    print(g.output().decode()[-6000:])
    assert g.stop() == 0


def ask(gateway, path="/pkg/a"):
    wire = gateway.connect()
    try:
        wire.send(f"GET http://registry.test{path} HTTP/1.1\r\nHost: registry.test\r\nConnection: close\r\n"
                  f"Proxy-Authorization: Bearer {gateway.token(BOTH)}\r\n\r\n")
        return wire.response()
    finally:
        wire.close()


def status(gateway):
    return json.loads(exeat("status", "--format", "json", config=gateway.config, check=False).stdout)


def role_of(gateway, role, index=None):
    """Of the workers the one that was started least often: who dies again and again is started more slowly."""
    return min((r for r in status(gateway)["roles"] if r["role"] == role and index in (None, r["index"])),
               key=lambda r: (r["restarts"], r["index"]))


def is_ready(gateway):
    return wait_until(lambda: status(gateway).get("ready"), "the gateway to be ready")


def pick(gateway, role):
    """One of its processes, as status tells it, while everything works."""
    is_ready(gateway)
    return role_of(gateway, role)


def pid_of(gateway, role):
    return pick(gateway, role)["pid"]


def network_of(pid):
    return os.readlink(f"/proc/{pid}/ns/net")


# ---- what stands around them


def test_status_tells_what_each_may_not_and_what_was_refused(gateway):
    is_ready(gateway)
    for role in status(gateway)["roles"]:
        cell = role["cell"]
        assert cell["may"] and cell["may_not"]
        if CLOSED:
            assert {"calls", "heard"} <= set(cell["walls"]), role
            assert ("network" in cell["walls"]) == (ROOT and role["role"] != "porter")
            assert ROOT is False or cell["missing"] == []
    text = exeat("status", config=gateway.config).stdout
    assert "MAY NOT" in text and "REFUSED" in text
    assert f"{'keeper':<12} {role_of(gateway, 'keeper')['cell']['may_not']}" in text


@pytest.mark.parametrize("role", ROLES)
def test_the_kernel_says_so_too(gateway, role):
    fields = dict(line.split(":\t", 1) for line in open(f"/proc/{pid_of(gateway, role)}/status") if ":\t" in line)
    assert fields["NoNewPrivs"].strip() == "1"
    assert fields["Seccomp"].strip() == ("2" if CLOSED else "0")


@pytest.mark.skipif(not ROOT, reason="network namespaces are made by root")
def test_all_but_the_porter_live_where_there_is_no_network(gateway):
    ours = network_of("self")
    networks = {role: network_of(pid_of(gateway, role)) for role in ROLES}
    assert networks["porter"] == ours
    assert len({networks[r] for r in APART} | {ours}) == len(APART) + 1  # each its own
    for role in APART:
        lines = open(f"/proc/{pid_of(gateway, role)}/net/dev").read().splitlines()[2:]
        assert [line.split(":")[0].strip() for line in lines] == ["lo"]
        assert open(f"/proc/{pid_of(gateway, role)}/net/route").read().count("\n") <= 1  # a head at most


# chown, dac_override, fowner, kill, setgid, setuid, net_bind_service, sys_admin
POWERS = sum(1 << n for n in (0, 1, 3, 5, 6, 7, 10, 21))


@pytest.mark.skipif(not ROOT, reason="root has powers to shed")
def test_the_supervisor_keeps_few_of_roots_powers_and_nothing_it_starts_has_others(gateway):
    fields = dict(line.split(":\t", 1) for line in open(f"/proc/{gateway.process.pid}/status") if ":\t" in line)
    assert {int(fields[f], 16) & ~POWERS for f in ("CapEff", "CapPrm", "CapInh", "CapBnd", "CapAmb")} == {0}
    assert fields["NoNewPrivs"].strip() == "1"
    told = status(gateway)["supervisor"]
    assert told["pid"] == gateway.process.pid and len(told["powers"]) == bin(int(fields["CapEff"], 16)).count("1")
    assert "supervisor   use other powers of root than " + ", ".join(told["powers"]) in exeat("status", config=gateway.config).stdout
    core = next(line for line in open(f"/proc/{gateway.process.pid}/limits") if line.startswith("Max core file size"))
    assert core.split()[4:6] == ["0", "0"]


def test_a_sanitizers_build_says_that_its_cells_are_open_and_no_other_does(gateway):
    assert (b"sanitizer build (EXEAT_SANITIZE)" in gateway.output()) != bool(CLOSED)
    told = status(gateway)
    assert any("EXEAT_SANITIZE" in note for note in told["notes"]) != bool(CLOSED)
    assert all("calls" in r["cell"]["missing"] for r in told["roles"]) != bool(CLOSED)


# ---- the shipped program, taken over


injection = pytest.mark.skipif(not inject.POSSIBLE or not CLOSED, reason="root takes over processes of a closed build on x86-64")


def sockaddr(port):
    return struct.pack("=HHI8x", socket.AF_INET, socket.htons(port), struct.unpack("=I", socket.inet_aton("127.0.0.1"))[0])


def calls_of(role, gateway):
    """Name, arguments: what nobody honest does in this role."""
    key = str(gateway.directory / "ca" / "intermediate.key").encode() + b"\0"
    other = gateway.pids("keeper" if role != "keeper" else "scribe")[0]
    rows = {
        "runs-a-program": ("execve", b"/bin/sh\0", 0, 0),
        "forks": ("fork",),
        "traces-another": ("ptrace", 16, other),
        "reads-anothers-memory": ("process_vm_readv", other, 0, 0, 0, 0, 0),
        "takes-a-handle-on-another": ("pidfd_open", other, 0),
        "signals-another": ("kill", other, 9),
        "takes-memory-for-code": ("mmap", 0, 4096, 7, 0x22, -1, 0),
        "changes-its-user": ("setuid", 0),
        "loads-bpf": ("bpf", 0, 0, 0),
        "makes-a-raw-socket": ("socket", socket.AF_INET, socket.SOCK_RAW, 1),
        "makes-a-unix-socket": ("socket", socket.AF_UNIX, socket.SOCK_STREAM, 0),
        "leaves-its-namespace": ("unshare", 0x40000000),
        "is-dumpable": ("prctl", 4, 1),
    }
    if role != "scribe":
        rows["opens-a-file"] = ("openat", AT_FDCWD, b"/etc/passwd\0", 0)
        rows["reads-a-key"] = ("openat", AT_FDCWD, key, 0)
        rows["reads-anothers-memory-file"] = ("openat", AT_FDCWD, b"/proc/%d/mem\0" % other, 0)
    if role != "porter":
        rows["makes-a-socket"] = ("socket", socket.AF_INET, socket.SOCK_STREAM, 0)
        rows["connects"] = ("connect", 3, sockaddr(gateway.port), 16)
        rows["binds"] = ("bind", 3, sockaddr(0), 16)
    return rows


# Each in the worker; of the others, each does what it might want most.
ATTACKS = [("worker", a) for a in ("opens-a-file", "reads-a-key", "reads-anothers-memory-file", "makes-a-socket", "connects",
                                   "binds", "runs-a-program", "forks", "traces-another", "reads-anothers-memory",
                                   "takes-a-handle-on-another", "signals-another", "takes-memory-for-code",
                                   "changes-its-user", "loads-bpf", "leaves-its-namespace", "is-dumpable")]
ATTACKS += [("porter", a) for a in ("opens-a-file", "reads-a-key", "makes-a-raw-socket", "makes-a-unix-socket", "runs-a-program")]
ATTACKS += [("keeper", a) for a in ("opens-a-file", "makes-a-socket", "connects", "runs-a-program", "reads-anothers-memory")]
ATTACKS += [("scribe", a) for a in ("makes-a-socket", "connects", "runs-a-program", "signals-another")]
ATTACKS += [(r, a) for r in ("clerk", "usher") for a in ("opens-a-file", "reads-a-key", "makes-a-socket", "runs-a-program", "traces-another")]


@injection
@pytest.mark.parametrize("role,attack", ATTACKS, ids=[f"{r}-{a}" for r, a in ATTACKS])
def test_what_nobody_honest_does_never_happens_and_ends_the_role(gateway, role, attack):
    victim = pick(gateway, role)
    pid, before = victim["pid"], victim["cell"]
    name, *arguments = calls_of(role, gateway)[attack]
    others = {r: gateway.pids(r) for r in ROLES if r != role}
    seen = len(gateway.records(kind="finding", reason="role_violation"))
    with pytest.raises(Ended):
        with Prisoner(pid) as prisoner:
            assert prisoner.call(name, *arguments) < 0
            raise AssertionError("it goes on")
    wait_until(lambda: pid not in gateway.pids(role), "its end")
    is_ready(gateway)  # it was started again
    cell = role_of(gateway, role, victim["index"])["cell"]
    assert cell["refused"] == before["refused"] + 1 and cell["ended"] == before["ended"] + 1
    assert cell["refusals"][name] == before["refusals"].get(name, 0) + 1
    finding = gateway.wait_for(seen + 1, kind="finding", reason="role_violation")[-1]
    assert finding["role"] == "supervisor" and finding["severity"] == "critical"
    assert finding["violation"]["role"].split()[0] == role and finding["violation"]["what"] == name
    assert {r: gateway.pids(r) for r in others} == others  # nobody else went with it
    assert ask(gateway).status == 200


@injection
def test_the_scribe_opens_no_file_outside_the_journal(gateway):
    key = str(gateway.directory / "ca" / "intermediate.key").encode() + b"\0"
    pid = pid_of(gateway, "scribe")
    with Prisoner(pid) as prisoner:
        for path in (b"/etc/passwd\0", b"/etc/shadow\0", key, b"/proc/self/mem\0", b"/proc/%d/mem\0" % gateway.pids("keeper")[0]):
            assert prisoner.call("openat", AT_FDCWD, path, 0) == -13, path  # Landlock: EACCES
        assert prisoner.call("openat", AT_FDCWD, b"/tmp/exeat-scribe\0", os.O_CREAT | os.O_WRONLY, 0o600) == -13
        inside = str(gateway.directory / "journal" / "probe").encode() + b"\0"
        # Beneath the journal it may; that it cannot get there by the full path is the state directory's mode.
        assert prisoner.call("openat", AT_FDCWD, inside, os.O_RDONLY) in (-2, -13)
    assert gateway.pids("scribe") == [pid]


@injection
@pytest.mark.parametrize("role", ROLES)
def test_what_a_library_might_try_is_refused_counted_and_survived(gateway, role):
    victim = pick(gateway, role)
    pid, before = victim["pid"], victim["cell"]
    with Prisoner(pid) as prisoner:
        assert prisoner.call("getpid") == pid  # the injection works
        assert prisoner.call("times", 0) == -1  # EPERM
        assert prisoner.call("getcwd", 0, 0) == -1
    cell = role_of(gateway, role, victim["index"])["cell"]
    assert pid in gateway.pids(role)
    assert cell["refused"] == before["refused"] + 2 and cell["ended"] == before["ended"]
    assert cell["refusals"]["times"] and cell["refusals"]["getcwd"]
    assert f"refused: {role} {victim['index']}:" in exeat("status", config=gateway.config).stdout
    assert ask(gateway).status == 200


@injection
def test_the_porter_may_dial_and_nothing_more(gateway):
    pid = pid_of(gateway, "porter")
    with Prisoner(pid) as prisoner:
        fd = prisoner.call("socket", socket.AF_INET, socket.SOCK_STREAM, 0)
        assert fd >= 0
    with pytest.raises(Ended):
        with Prisoner(pid) as prisoner:
            prisoner.call("listen", fd, 1)
    is_ready(gateway)


def test_the_journal_is_whole_after_all_that(gateway):
    is_ready(gateway)
    assert gateway.verify()


# ---- machines that give less


@pytest.fixture
def own(tmp_path, origins, pki):
    g = Gateway(tmp_path / "state", services(origins[0].port, origins[1].port, pki[0]))
    yield g
    if g.process and g.process.poll() is None:
        g.process.kill()
        g.process.wait(PATIENCE)


@pytest.fixture
def elsewhere():
    """A directory that everybody can reach, and a copy of the program in it."""
    with tempfile.TemporaryDirectory(prefix="exeat-jail-") as path:
        os.chmod(path, 0o755)
        shutil.copy(EXEAT, path)
        yield Path(path)


@pytest.mark.skipif(not ROOT, reason="root becomes somebody else")
def test_without_root_the_rest_still_stands_and_one_line_says_what_does_not(elsewhere, origins, pki):
    nobody = dict(user=65534, group=65534, extra_groups=[])
    shutil.copy(pki[0], elsewhere / "ca.pem")
    g = Gateway(elsewhere / "state", services(origins[0].port, origins[1].port, elsewhere / "ca.pem"))
    for path in [g.directory, *g.directory.rglob("*")]:
        os.chown(path, 65534, 65534)
    g.start(command=[elsewhere / EXEAT.name, "-c", g.config, "serve"], **nobody)
    try:
        said = g.output().decode()
        assert "not started as root" in said
        told = json.loads(subprocess.run([elsewhere / EXEAT.name, "-c", g.config, "status", "--format", "json"], check=True,
                                         capture_output=True, env=clean_environment(), **nobody).stdout)
        for role in told["roles"] if CLOSED else []:
            assert {"calls", "heard"} <= set(role["cell"]["walls"])
            assert role["cell"]["missing"] == ([] if role["role"] == "porter" else ["network"])
            assert network_of(role["pid"]) == network_of("self")
        assert said.count("no network namespaces") == 1
        assert any("no network namespaces" in note for note in told["notes"])
        assert ask(g).status == 200
    finally:
        assert g.stop() == 0


LISTENED_TO = """
import ctypes, os, struct, sys
libc = ctypes.CDLL(None)
libc.prctl(38, 1, 0, 0, 0)
allow = ctypes.create_string_buffer(struct.pack("=HBBI", 6, 0, 0, 0x7fff0000))
program = ctypes.create_string_buffer(struct.pack("=HxxxxxxQ", 1, ctypes.addressof(allow)))
ear = libc.syscall(317, 1, 8, program)  # SECCOMP_SET_MODE_FILTER, with a listener
assert ear >= 0
os.set_inheritable(ear, True)
os.execv(sys.argv[1], sys.argv[1:])
"""


@injection
def test_where_nobody_can_listen_the_kernel_ends_who_breaks_its_cell(own):
    """A gateway that was started under another's listener has no ear of its own."""
    serve = [sys.executable, "-c", LISTENED_TO, str(EXEAT), "-c", str(own.config), "serve"]
    own.is_attacked = True
    own.start(command=serve)
    assert b"seccomp tells nobody here" in own.output()
    pid, before = pid_of(own, "worker"), role_of(own, "worker")["cell"]
    assert before["missing"] == ["heard"]
    with pytest.raises(Ended) as ended:
        with Prisoner(pid) as prisoner:
            prisoner.call("openat", AT_FDCWD, b"/etc/passwd\0", 0)
    assert os.WTERMSIG(ended.value.args[0]) == 31  # SIGSYS
    wait_until(lambda: pid not in own.pids("worker"), "its end")
    is_ready(own)
    cell = role_of(own, "worker")["cell"]
    assert (cell["refused"], cell["ended"], cell["refusals"]) == (1, 1, {"a call": 1})
    assert own.wait_for(kind="finding", reason="role_violation")
    assert ask(own).status == 200
    assert own.stop() == 0


# ---- a worker that is not ours any more


def numbers(path, pattern):
    """What the tables of the tree call by names, numbered as they are there."""
    found = re.findall(pattern, (TREE / path).read_text(), re.M)
    out, at = {}, -1
    for name, value in found:
        at = int(value) if value else at + 1
        out[name] = at
    return out


M = numbers("proxy/role.h", r"^    MSG_(\w+)(?: = (\d+))?,")
KIND = numbers("journal/record.def", r"^KIND\((\w+),()")
ROLE = {"supervisor": 0, "worker": 1, "porter": 2, "keeper": 3, "scribe": 4, "clerk": 5, "usher": 6}
EXCHANGE = bytes(range(16))
GENERATION = 1  # of the policy


def u8(n):
    return struct.pack("<B", n)


def u16(n):
    return struct.pack("<H", n)


def u32(n):
    return struct.pack("<I", n)


def u64(n):
    return struct.pack("<Q", n)


def data(b):
    b = b if isinstance(b, bytes) else b.encode()
    return u32(len(b)) + b


def dial(host, port, number=1, generation=GENERATION):
    return u32(number) + u64(generation) + EXCHANGE + data("sb-taken") + data(host) + u16(port)


def certify(host, number=1, generation=GENERATION):
    return u32(number) + u64(generation) + data(host)


def records(kind, first=1, count=1):
    return u64(first) + u32(count) + (u32(2) + u16(KIND[kind])) * count


def public_key(curve=ec.SECP256R1()):
    key = ec.generate_private_key(curve)
    return data(key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))


class Taken:
    """One worker of the hostile kind, and what we make it say."""

    def __init__(self, gateway):
        self.socket = socket.create_connection(("127.0.0.1", gateway.port), PATIENCE)
        self.file = self.socket.makefile("r")

    def order(self, peer, message, payload=b"", descriptor=""):
        line = f"{peer} {M[message]} {payload.hex()} {descriptor}\n"
        with contextlib.suppress(ConnectionError):  # it may be ended while it still speaks
            self.socket.sendall(line.encode())

    def hear(self, peer, *messages):
        """The first of these that the peer says: its name, its payload, and whether a descriptor came."""
        by_number = {M[m]: m for m in messages}
        with contextlib.suppress(ConnectionError):
            for line in self.file:
                words = line.split()
                if words[0] == peer and len(words) > 2 and int(words[1]) in by_number:
                    return by_number[int(words[1])], bytes.fromhex(words[2].strip("-")), words[-1] == "fd"
        return "end", b"", False

    def ask(self, peer, message, payload, *answers):
        self.order(peer, message, payload)
        return self.hear(peer, *answers)

    def is_ended(self):
        try:
            while self.file.readline():
                pass
        except ConnectionError:
            pass
        return True

    def close(self):
        self.file.close()
        self.socket.close()


@pytest.fixture
def taken(hostile):
    t = Taken(hostile)
    yield t
    t.close()


UNCHECKED = """
  rebound:
    hosts: [rebound.test]
    plain-ports: [80]
    allow: ["GET /**"]
    scope: web
    audit: "waived: test"
"""


@pytest.fixture(scope="module")
def hostile(tmp_path_factory, origins, pki):
    names = Names()
    listed = services(origins[0].port, origins[1].port, pki[0]) + UNCHECKED
    g = Gateway(tmp_path_factory.mktemp("hostile") / "state", listed, workers=8,
                extra=f"resolver: {{servers: [\"{names.address}\"]}}\n")
    g.is_attacked = True
    g.start(command=[str(HOSTILE), "-c", str(g.config), "serve"])
    yield g
    print(g.output().decode()[-6000:])
    assert g.stop() == 0
    names.close()


def test_the_porter_dials_what_is_listed(hostile, taken):
    answer, payload, came = taken.ask("porter", "DIAL", dial("registry.test", 80), "DIALLED", "NOT_DIALLED")
    assert (answer, came) == ("DIALLED", True)
    assert hostile.wait_for(kind="dial", outcome="complete", sandbox="sb-taken")


@pytest.mark.parametrize("host,port", [
    ("evil.test", 443), ("evil.test", 80), ("registry.test", 22), ("registry.test", 8080), ("sub.registry.test", 80),
    ("localhost", 22), ("metadata.google.internal", 80),
])
def test_the_porter_refuses_and_records_what_is_not_listed(hostile, taken, host, port):
    seen = len(hostile.records(kind="dial", reason="dial_unlisted"))
    answer, payload, came = taken.ask("porter", "DIAL", dial(host, port), "DIALLED", "NOT_DIALLED")
    assert (answer, came) == ("NOT_DIALLED", False)
    record = hostile.wait_for(seen + 1, kind="dial", reason="dial_unlisted")[-1]
    assert (record["role"], record["outcome"], record["sandbox"]) == ("porter", "refused", "sb-taken")
    assert record["http"] == {"host": host, "port": port}


@pytest.mark.parametrize("generation", [0, 2, 2**64 - 1])
def test_a_generation_that_is_not_in_force_gives_a_worker_nothing(hostile, taken, generation):
    """The one it names is looked up among those that the porter still has; any other counts as today's (tests/unit/keeper.c)."""
    seen = len(hostile.records(kind="dial", reason="dial_unlisted"))
    answer, _, came = taken.ask("porter", "DIAL", dial("evil.test", 443, 1, generation), "DIALLED", "NOT_DIALLED")
    assert (answer, came) == ("NOT_DIALLED", False)
    assert hostile.wait_for(seen + 1, kind="dial", reason="dial_unlisted")


def test_the_porter_refuses_and_records_a_special_address_behind_a_listed_name(hostile, taken):
    answer, payload, came = taken.ask("porter", "DIAL", dial("rebound.test", 80), "DIALLED", "NOT_DIALLED")
    assert (answer, came) == ("NOT_DIALLED", False)
    record = hostile.wait_for(kind="dial", reason="address_denied")[-1]
    assert (record["role"], record["outcome"], record["addresses"]) == ("porter", "refused", "127.0.0.1:80")
    assert record["sandbox"] == "sb-taken"


def test_the_keeper_signs_listed_names_only_and_records_both(hostile, taken):
    taken.order("keeper", "LEAF_KEY", public_key())
    answer, payload, _ = taken.ask("keeper", "CERTIFY", certify("registry.test"), "CERTIFIED", "NOT_CERTIFIED")
    assert answer == "CERTIFIED" and len(payload) > 400
    assert hostile.wait_for(kind="certificate", action="allow")[-1]["role"] == "keeper"
    for n, host in enumerate(["evil.test", "sub.registry.test", "test", "rebound.test"], 2):
        seen = len(hostile.records(kind="certificate", action="deny"))
        answer, payload, _ = taken.ask("keeper", "CERTIFY", certify(host, n), "CERTIFIED", "NOT_CERTIFIED")
        assert answer == "NOT_CERTIFIED", host
        record = hostile.wait_for(seen + 1, kind="certificate", action="deny")[-1]
        assert (record["role"], record["http"]["host"], record["reason"]) == ("keeper", host, "host_not_listed")


def ask_often(t):
    t.order("keeper", "LEAF_KEY", public_key())
    for n in range(80):
        t.order("keeper", "CERTIFY", certify(f"name-{n}.test", n + 1))


def dial_often(t):
    for n in range(80):
        if t.ask("porter", "DIAL", dial(f"name-{n}.test", 443, n + 1), "DIALLED", "NOT_DIALLED")[0] == "end":
            return


def two_keys(t):
    t.order("keeper", "LEAF_KEY", public_key())
    t.order("keeper", "LEAF_KEY", public_key())


def says(peer, message, payload=b"", descriptor=""):
    return lambda t: t.order(peer, message, payload, descriptor)


ACCUSES = u8(ROLE["keeper"]) + u16(0) + data("it is I who lies")

# What it says, who notices, and of which role a word of the finding must be.
VIOLATIONS = {
    "keeper-asked-for-a-dial": (says("keeper", "DIAL", dial("registry.test", 80)), "keeper"),
    "keeper-asked-to-sign-bytes": (says("keeper", "RECORDS", b"sign this"), "keeper"),
    "keeper-given-two-keys": (two_keys, "keeper"),
    "keeper-given-garbage-as-key": (says("keeper", "LEAF_KEY", data("no key")), "keeper"),
    "keeper-given-another-curve": (says("keeper", "LEAF_KEY", public_key(ec.SECP521R1())), "keeper"),
    "keeper-given-a-descriptor": (says("keeper", "LEAF_KEY", public_key(), "fd"), "keeper"),
    "keeper-given-descriptors": (says("keeper", "LEAF_KEY", public_key(), "fds"), "keeper"),
    "keeper-asked-for-many-names": (ask_often, "keeper"),
    "porter-asked-for-a-certificate": (says("porter", "CERTIFY", certify("registry.test")), "porter"),
    "porter-asked-for-loopback": (says("porter", "DIAL", dial("127.0.0.1", 22)), "porter"),
    "porter-asked-for-metadata": (says("porter", "DIAL", dial("169.254.169.254", 80)), "porter"),
    "porter-asked-for-an-ipv6-address": (says("porter", "DIAL", dial("[::1]", 22)), "porter"),
    "porter-asked-for-a-short-number": (says("porter", "DIAL", dial("127.1", 22)), "porter"),
    "porter-asked-for-port-0": (says("porter", "DIAL", dial("registry.test", 0)), "porter"),
    "porter-given-half-a-message": (says("porter", "DIAL", dial("registry.test", 80)[:-1]), "porter"),
    "porter-given-a-descriptor": (says("porter", "DIAL", dial("registry.test", 80), "fd"), "porter"),
    "porter-given-descriptors": (says("porter", "DIAL", dial("registry.test", 80), "fds"), "porter"),
    "porter-asked-for-many-unlisted": (dial_often, "porter"),
    "scribe-given-another-role's-record": (says("scribe", "RECORDS", records("DIAL")), "scribe"),
    "scribe-given-its-own-record": (says("scribe", "RECORDS", records("SHUTDOWN")), "scribe"),
    "scribe-given-a-revocation": (says("scribe", "RECORDS", records("REVOCATION")), "scribe"),
    "scribe-given-descriptors": (says("scribe", "RECORDS", records("DECISION"), "fds"), "scribe"),
    "scribe-given-a-damaged-record": (says("scribe", "RECORDS", u64(1) + u32(1) + b"garbage"), "scribe"),
    "scribe-given-fewer-than-said": (says("scribe", "RECORDS", u64(1) + u32(9)), "scribe"),
    "scribe-asked-to-dial": (says("scribe", "DIAL", dial("registry.test", 80)), "scribe"),
    "supervisor-told-of-the-keeper": (says("supervisor", "VIOLATION", ACCUSES), "supervisor"),
    "supervisor-told-ready-twice": (says("supervisor", "READY"), "supervisor"),
    "supervisor-told-failed": (says("supervisor", "FAILED", data("stop it all")), "supervisor"),
    "supervisor-given-another-ear": (says("supervisor", "CLOSED", u32(15), "fd"), "supervisor"),
    "supervisor-given-descriptors": (says("supervisor", "PONG", b"", "fds"), "supervisor"),
    "supervisor-ordered-to-revoke": (says("supervisor", "ADMIN", u32(1) + data('{"command":"revoke"}')), "supervisor"),
    "supervisor-given-records": (says("supervisor", "RECORDS", records("DECISION")), "supervisor"),
    "supervisor-told-to-stop": (says("supervisor", "STOP"), "supervisor"),
}


def others(gateway):
    return {role: gateway.pids(role) for role in ROLES if role != "worker"}


def descriptors(gateway):
    """How many each role that outlives a worker has open, and the supervisor."""
    pids = [gateway.process.pid, *(pid for found in others(gateway).values() for pid in found)]
    return [len(os.listdir(f"/proc/{pid}/fd")) for pid in pids]


@pytest.mark.parametrize("violation", VIOLATIONS)
def test_a_message_outside_the_table_is_fatal_to_the_asker_alone(hostile, taken, violation):
    do, by = VIOLATIONS[violation]
    before, workers = others(hostile), set(hostile.pids("worker"))
    open_before = descriptors(hostile)
    seen = len(hostile.records(kind="finding", reason="role_violation"))
    do(taken)
    finding = hostile.wait_for(seen + 1, kind="finding", reason="role_violation")[-1]
    assert finding["role"] == "supervisor" and finding["violation"]["what"] == "message"
    assert f"sent the {by} what its table does not allow" in finding["detail"]
    assert taken.is_ended()
    wait_until(lambda: len(set(hostile.pids("worker")) - workers) == 1, "one new worker")
    assert others(hostile) == before  # the receiver and everybody else work on
    wait_until(lambda: descriptors(hostile) == open_before, "what came with it to be closed")
    name, index = finding["violation"]["role"].split()
    role = next(r for r in status(hostile)["roles"] if r["role"] == name and r["index"] == int(index))
    assert role["cell"]["refusals"]["message"] >= 1 and role["cell"]["ended"] >= 1


@pytest.mark.parametrize("how", ["shut", "wait", "linger"] if CLOSED else ["linger"])
def test_a_listening_socket_is_as_it_was_for_the_worker_that_follows(hostile, how):
    """It is the supervisor's, and outlives who has it: what is done to it would be done to everybody after."""
    first = Taken(hostile)
    first.socket.sendall(f"listener {how}\n".encode())
    assert first.file.readline() == ("spoilt\n" if how == "linger" else "not spoilt\n")
    before, workers = others(hostile), set(hostile.pids("worker"))
    says("keeper", "DIAL")(first)
    assert first.is_ended()
    first.close()
    wait_until(lambda: len(set(hostile.pids("worker")) - workers) == 1, "one new worker")
    wait_until(lambda: all(r["state"] == "up" for r in status(hostile)["roles"]), "the workers to be there again")
    for _ in range(40):  # enough to meet each worker
        t = Taken(hostile)
        t.socket.sendall(b"supervisor nonsense\n")
        assert t.file.readline() == "not sent\n"
        t.close()
    assert others(hostile) == before


def test_again_and_again_the_gateway_stays_open(hostile):
    before = others(hostile)
    for do in [VIOLATIONS[v][0] for v in ("scribe-given-a-damaged-record", "keeper-given-two-keys", "porter-given-half-a-message")] * 3:
        t = Taken(hostile)
        do(t)
        assert t.is_ended()
        t.close()
    assert others(hostile) == before
    wait_until(lambda: all(r["state"] == "up" for r in status(hostile)["roles"]), "the workers to be there again")
    t = Taken(hostile)
    assert t.ask("porter", "DIAL", dial("registry.test", 80), "DIALLED", "NOT_DIALLED")[0] == "DIALLED"
    t.close()
    assert hostile.verify()


def test_the_shipped_program_has_no_such_worker():
    program = EXEAT.read_bytes()
    assert b"not sent\n" in HOSTILE.read_bytes() and b"not sent\n" not in program
    assert b"session_" in program or b"CONNECT" in program
