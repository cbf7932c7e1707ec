"""A real gateway in a directory of its own, and the ways to speak to it."""
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import time
from base64 import b64encode
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
EXEAT = Path(os.environ.get("EXEAT", TREE / "build" / "exeat"))
PATIENCE = 60  # seconds: generous, a busy machine is no failure


# Tests are a sandbox that asks for everything that is denied, as fast as it can: only test_limits.py has the defaults.
LOOSE = {"sandbox-denials": 1000000, "source-denials": 1000000, "sandbox-records": 1000000, "records": 10000000,
         "failed-handshakes": 100000, "handshake-rate": 100000, "sandbox-connections": 10000, "source-connections": 10000, "sandbox-names": 1000}


def with_limits(extra, limits):
    """Add limits to what a test configures; those it names itself stay."""
    more = ", ".join(f"{k}: {v}" for k, v in limits.items() if f"{k}:" not in extra)
    if "limits: {" in extra:
        return extra.replace("limits: {", "limits: {" + more + ", " if more else "limits: {", 1)
    return f"{extra}\nlimits: {{{more}}}"


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


def clean_environment(**more):
    """No proxy, CA or configuration of the machine's own reaches the client under test."""
    keep = {k: os.environ[k] for k in ("PATH", "LANG", "TMPDIR", "ASAN_OPTIONS", "UBSAN_OPTIONS") if k in os.environ}
    return {**keep, "PIP_CONFIG_FILE": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0", **more}


def exeat(*words, config=None, stdin=None, check=True, patience=PATIENCE):
    command = [EXEAT] + (["-c", str(config)] if config else []) + [str(w) for w in words]
    result = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=patience,
                            env=clean_environment())
    if check and result.returncode:
        raise AssertionError(f"{words}: status {result.returncode}\n{result.stdout}\n{result.stderr}")
    return result


REFUSALS = (b"which its cell does not have", b"what its table does not allow")


class Gateway:
    program = EXEAT

    is_attacked = False  # a test takes roles over, so that refusals are expected

    def __init__(self, directory, services, extra="", workers=1, journal="directory: journal", limits=LOOSE):
        self.directory = Path(directory)
        self.port, self.publish = free_port(), free_port()
        self.extra, self.workers, self.journal = with_limits(extra, limits), workers, journal
        self.process = None
        exeat("init", self.directory, "--name", "gw.test")
        self.config = self.directory / "proxy.conf"
        self.write(services)
        self.root = self.directory / "ca" / "root.pem"

    def write(self, services):
        self.config.write_text(f"""
gateway: {{name: gw.test, state: ., workers: {self.workers}}}
listen:
  explicit: {{address: "127.0.0.1:{self.port}"}}
issuers:
  local: {{issuer: "https://gw.test/local", jwks: issuer/local.jwks, algorithms: [ES256], max-lifetime: 1h, leeway: 0s}}
canaries: {{file: canaries.json}}
journal: {{{self.journal}}}
publish: {{address: "127.0.0.1:{self.publish}"}}
admin: {{address: "unix:{self.directory}/admin.sock"}}
{self.extra}
services:
{services}
""")

    def start(self, command=None, **more):
        self.log = open(self.directory / "log", "ab+")
        self.process = subprocess.Popen(command or [self.program, "-c", self.config, "serve"], stderr=self.log, stdout=self.log,
                                        env=clean_environment(), **more)
        deadline = time.monotonic() + PATIENCE
        while b"exeat: ready" not in self.output():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError("the gateway does not start:\n" + self.output().decode())
            time.sleep(0.02)
        return self

    def output(self):
        return (self.directory / "log").read_bytes()

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(PATIENCE)
            self.check_for_reports()
        return self.process.returncode if self.process else None

    def check_for_reports(self):
        """What a sanitizer found in any role stands in the log, and what its cell refused; nothing honest is refused."""
        for mark in (b"Sanitizer", b"runtime error:", b"Assertion", *(() if self.is_attacked else REFUSALS)):
            assert mark not in self.output(), self.output().decode(errors="replace")[-20000:]

    # ---- tokens

    def token(self, scope, sandbox="sb-1", lifetime="10m", **more):
        words = ["token", "issue", "--sandbox", sandbox, "--scope", scope, "--lifetime", lifetime]
        for key, value in more.items():
            words += ["--" + key, value]
        return exeat(*words, config=self.config).stdout.strip()

    # ---- speaking

    def connect(self):
        s = socket.create_connection(("127.0.0.1", self.port), PATIENCE)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return Wire(s)

    def tunnel(self, host, token, port=443, tls=True):
        wire = self.connect()
        wire.send(connect_head(host, token, port))
        answer = wire.response(method="CONNECT")
        if answer.status != 200:
            raise AssertionError(f"CONNECT: {answer.line}")
        return wire.start_tls(host, self.root) if tls else wire

    def proxy_url(self, token):
        return f"http://jwt:{token}@127.0.0.1:{self.port}"

    # ---- looking

    def records(self, **want):
        found = []
        for segment in sorted((self.directory / "journal").glob("*.ndjson")):
            whole, _, _ = segment.read_text().rpartition("\n")  # what is being written has no end yet
            for line in whole.splitlines():
                record = json.loads(line)
                if all(record.get(k) == v for k, v in want.items()):
                    found.append(record)
        return found

    def wait_for(self, n=1, **want):
        """Records are written a moment after the client has its answer."""
        return wait_until(lambda: (lambda r: r if len(r) >= n else None)(self.records(**want)), f"{n} records {want}")

    def verify(self):
        size = sum(p.stat().st_size for p in (self.directory / "journal").glob("*.ndjson"))
        patience = PATIENCE + size / (4 << 20)  # a long run writes some gigabytes
        return exeat("log", "verify", config=self.config, check=False, patience=patience).returncode == 0

    def pids(self, role):
        found = []
        for entry in Path("/proc").iterdir():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (OSError, ValueError, IndexError):
                continue
            if parent == self.process.pid and words[1:3] == [b"role", role.encode()]:
                found.append(int(entry.name))
        return found


def wait_until(probe, what):
    deadline = time.monotonic() + PATIENCE
    while True:
        value = probe()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError("waited in vain for " + what)
        time.sleep(0.02)


def connect_head(host, token, port=443, version="1.1"):
    head = f"CONNECT {host}:{port} HTTP/{version}\r\n"
    if version == "1.1":
        head += f"Host: {host}:{port}\r\n"
    if token:
        head += f"Proxy-Authorization: Bearer {token}\r\n"
    return head.encode() + b"\r\n"


def basic(token, user="jwt"):
    return "Basic " + b64encode(f"{user}:{token}".encode()).decode()


class Response:
    def __init__(self, line, fields, body, trailers=b""):
        self.line, self.fields, self.body, self.trailers = line, fields, body, trailers
        self.status = int(line.split(" ")[1])

    def field(self, name):
        return next((v for k, v in self.fields if k.lower() == name.lower()), None)

    @property
    def reason(self):
        found = re.match(r"HTTP/1\.1 \d+ exeat (\w+) [0-9a-f]{6}$", self.line)
        return found.group(1) if found else None


class Closed(Exception):
    """The peer closed where an answer was expected."""


class Wire:
    """One connection: raw bytes out, responses in."""

    def __init__(self, s):
        self.socket, self.buffer = s, b""

    def start_tls(self, host, root, check=True):
        context = ssl.create_default_context(cafile=str(root))
        if not check:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return Wire(context.wrap_socket(self.socket, server_hostname=host))

    def send(self, data):
        self.socket.sendall(data if isinstance(data, bytes) else data.encode())

    def close(self):
        self.socket.close()

    def half_close(self):
        self.socket.shutdown(socket.SHUT_WR)

    def more(self):
        try:
            data = self.socket.recv(65536)
        except (ConnectionError, ssl.SSLError) as e:
            raise Closed(str(e)) from e
        if not data:
            raise Closed("end")
        self.buffer += data

    def until(self, mark):
        while mark not in self.buffer:
            self.more()
        piece, self.buffer = self.buffer.split(mark, 1)
        return piece

    def exactly(self, n):
        chunks, have = [self.buffer[:n]], len(self.buffer[:n])
        self.buffer = self.buffer[n:]
        while have < n:
            try:
                data = self.socket.recv(min(1 << 20, n - have))
            except (ConnectionError, ssl.SSLError) as e:
                raise Closed(str(e)) from e
            if not data:
                raise Closed("end")
            chunks.append(data)
            have += len(data)
        return b"".join(chunks)

    def response(self, method="GET"):
        head = self.until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        fields = [tuple(p.strip() for p in line.split(":", 1)) for line in head[1:]]
        answer = Response(head[0], fields, b"")
        if method in ("HEAD", "CONNECT") and answer.status < 300 or method == "HEAD" or answer.status in (204, 304) or answer.status < 200:
            return answer
        if (answer.field("Transfer-Encoding") or "").lower() == "chunked":
            while size := int(self.until(b"\r\n").split(b";")[0], 16):
                answer.body += self.exactly(size)
                self.exactly(2)
            while line := self.until(b"\r\n"):
                answer.trailers += line + b"\n"
        elif answer.field("Content-Length") is not None:
            answer.body = self.exactly(int(answer.field("Content-Length")))
        else:
            answer.body = self.rest()
        return answer

    def rest(self):
        try:
            while True:
                self.more()
        except Closed:
            data, self.buffer = self.buffer, b""
            return data

    def is_closed(self):
        """Waits for the peer's end."""
        try:
            while True:
                self.more()
        except Closed:
            return True
