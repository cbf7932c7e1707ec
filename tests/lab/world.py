"""
A network of its own for one fixture: a namespace with nothing but loopback, where the names of the lab are known and no other is.
The program under test, what it fetches from and whoever probes it live in there; the machine's own ports, hosts file and resolver
stay as they are.
"""
import contextlib
import ctypes
import fcntl
import os
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time
from pathlib import Path

PATIENCE = 60  # seconds: generous, a busy machine is no failure
POSSIBLE = os.geteuid() == 0
IMPOSSIBLE = "network namespaces are made by root"

# upstream.test is what a service may fetch from; the others it may not. listener.test is left to whoever audits.
NAMES = {"upstream.test": "127.0.0.20", "unlisted.test": "127.0.0.21", "internal.test": "127.0.0.22", "listener.test": "127.0.0.40"}
NAKED = "127.0.0.30"  # an address without a name
SERVICE = "127.0.0.1"
RESOLVER = "127.0.0.53"
ZONE, ZONE_SERVER = "zone.test", "127.0.0.54"  # a zone whose name server is whoever audits

CLONE_NEWNET = 0x40000000
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
libc = ctypes.CDLL(None, use_errno=True)


def call(function, *args):
    if function(*args) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


def loopback_up():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        fcntl.ioctl(s, SIOCSIFFLAGS, struct.pack("16sH", b"lo", IFF_UP) + bytes(22))


def new_namespace():
    """A descriptor of a fresh network namespace whose loopback is up."""
    made = []

    def make():
        call(libc.unshare, CLONE_NEWNET)
        loopback_up()
        made.append(os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC))

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    assert made, "no network namespace could be made"
    return made[0]


def wait_until(question, what, patience=PATIENCE):
    end = time.monotonic() + patience
    while time.monotonic() < end:
        if answer := question():
            return answer
        time.sleep(0.02)
    raise AssertionError(f"waited {patience} s for {what}")


class World:
    """with World(directory) as w: w.run(...); w.connect(address, port)."""

    def __init__(self, directory, names=NAMES):
        self.directory, self.names = Path(directory), names
        self.directory.mkdir(parents=True, exist_ok=True)
        self.processes, self.closers = [], []
        self.namespace = new_namespace()
        self.hosts = self.directory / "hosts"
        self.hosts.write_text("".join(f"{a} {n}\n" for n, a in {"localhost": SERVICE, **names}.items()))
        self.resolv = self.directory / "resolv.conf"
        self.resolv.write_text(f"nameserver {RESOLVER}\noptions timeout:1 attempts:1\n")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    @contextlib.contextmanager
    def inside(self):
        """This thread is in the namespace; sockets made meanwhile stay there."""
        home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        call(libc.setns, self.namespace, CLONE_NEWNET)
        try:
            yield
        finally:
            call(libc.setns, home, CLONE_NEWNET)
            os.close(home)

    def connect(self, address, port, timeout=PATIENCE, source=None):
        with self.inside():
            return socket.create_connection((self.names.get(address, address), port), timeout,
                                            source_address=(source, 0) if source else None)

    def listen(self, address, port):
        with self.inside():
            return socket.create_server((self.names.get(address, address), port), backlog=128)

    def is_open(self, port, address=SERVICE):
        try:
            self.connect(address, port, 5).close()
            return True
        except OSError:
            return False

    def enter(self, *command):
        """The command as it is started by somebody who has the namespace as its descriptor: with the lab's names, and no others."""
        mount = 'mount --bind "$1" /etc/hosts && mount --bind "$2" /etc/resolv.conf && shift 2 && exec "$@"'
        return ["nsenter", f"--net=/proc/self/fd/{self.namespace}", "unshare", "--mount", "sh", "-c", mount, "sh",
                str(self.hosts), str(self.resolv), *map(str, command)]

    def popen(self, *command, **more):
        return subprocess.Popen(self.enter(*command), pass_fds=[self.namespace], stdin=subprocess.DEVNULL, **more)

    def run(self, name, *command, **more):
        """Start a program that runs until close(); its output goes to NAME.log."""
        log = open(self.directory / f"{name}.log", "ab")
        process = self.popen(*command, stdout=log, stderr=log, start_new_session=True, **more)
        log.close()
        self.processes.append((name, process))
        return process

    def stop(self, process):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        self.processes = [(n, p) for n, p in self.processes if p is not process]

    def ready(self, port, address=SERVICE):
        """Wait for the port; a program that ended meanwhile is told with its log."""
        def open_or_dead():
            for name, process in self.processes:
                assert process.poll() is None, f"{name} ended with {process.returncode}:\n{self.log(name)}"
            return self.is_open(port, address)
        wait_until(open_or_dead, f"port {port}")

    def log(self, name):
        return (self.directory / f"{name}.log").read_text(errors="replace")[-4000:]

    def join(self, other, mine, theirs):
        """A wire between two networks, with an address at each end: nothing else leads from one to the other."""
        def ip(world, *words):
            subprocess.run(["nsenter", f"--net=/proc/self/fd/{world.namespace}", "ip", *words], check=True,
                           pass_fds=[self.namespace, other.namespace])
        ip(self, "link", "add", "wire0", "type", "veth", "peer", "name", "wire0", "netns", f"/proc/self/fd/{other.namespace}")
        for world, address in ((self, mine), (other, theirs)):
            ip(world, "address", "add", f"{address}/30", "dev", "wire0")
            ip(world, "link", "set", "wire0", "up")

    def resolver(self):
        """A name server for programs that do not read the hosts file."""
        program = shutil.which("dnsmasq", path=os.environ.get("PATH", "") + ":/usr/sbin")
        self.run("dnsmasq", program, "--keep-in-foreground", "--conf-file=/dev/null", "--no-resolv", "--no-hosts", "--user=root",
                 f"--addn-hosts={self.hosts}", f"--listen-address={RESOLVER}", "--bind-interfaces", "--pid-file=")
        self.ready(53, RESOLVER)

    def close(self):
        for _, process in reversed(self.processes):
            self.stop(process)
        for closer in reversed(self.closers):
            closer()
        if self.namespace >= 0:
            os.close(self.namespace)
        self.processes, self.closers, self.namespace = [], [], -1
