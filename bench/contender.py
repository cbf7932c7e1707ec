"""What is compared: each starts itself, knows its processes, and says how the load generator reaches it."""

import os
import shutil
import socket
import subprocess
import time

import process

NAME = "origin.bench"
PARTS = 2  # of many tunnels: one sandbox alone may have half of what there is, and two a third each


class Failure(Exception):
    """The benchmark cannot go on; one line for people."""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def accepts(port):
    try:
        socket.create_connection(("127.0.0.1", port), 0.2).close()
        return True
    except OSError:
        return False


def wait_until(done, server):
    """Until it is done; its process must live."""
    for _ in range(600):
        if server.child.poll() is not None:
            break
        if done():
            return
        time.sleep(0.05)
    with open(server.log, encoding="utf-8", errors="replace") as f:
        raise Failure(f"{server.child.args[0]} did not start: {f.read()[-2000:]}")


def program(name):
    """Where it is: /usr/sbin is not in everybody's PATH."""
    path = shutil.which(name) or f"/usr/sbin/{name}"
    if not os.path.exists(path):
        raise Failure(f"{name} is missing: tests/install bench")
    return path


class Server:
    """A program with a port of its own, in a directory of its own."""

    name = ""
    has_workers = True

    def __init__(self, bench, base, workers=1):
        self.bench = bench
        self.workers = workers
        self.directory = os.path.join(base, self.name if workers == 1 else f"{self.name}-{workers}")
        os.makedirs(self.directory, mode=0o700, exist_ok=True)
        self.port = free_port()
        self.log = os.path.join(self.directory, "log")
        self.child = None

    def key(self):
        return self.name if self.workers == 1 else f"{self.name} {self.workers}"

    def spawn(self, *command):
        with open(self.log, "w", encoding="utf-8") as log:
            self.child = subprocess.Popen(command, cwd=self.directory, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        wait_until(lambda: accepts(self.port), self)

    def write(self, name, text):
        with open(os.path.join(self.directory, name), "w", encoding="utf-8") as f:
            f.write(text)

    def address(self):
        return f"127.0.0.1:{self.port}"

    def pids(self):
        return process.tree(self.child.pid)

    def worker(self):
        """The process that handles the bytes."""
        return self.child.pid

    def load(self, _part=0):
        """How the load generator reaches it; part: which of PARTS sandboxes it is."""
        return ["--connect", self.address(), "--name", NAME, "--ca", self.bench.ca]

    def stop(self):
        if self.child and self.child.poll() is None:
            self.child.terminate()
            try:
                self.child.wait(10)
            except subprocess.TimeoutExpired:
                self.child.kill()
                self.child.wait()


class Origin(Server):
    name = "origin"

    def start(self):
        self.spawn(self.bench.program("bench/origin"), self.address(), self.bench.cert, self.bench.key)


class Relay(Server):
    name = "relay"
    has_workers = False

    def start(self):
        self.spawn(self.bench.program("bench/relay"), self.address(), self.bench.cert, self.bench.key,
                   self.bench.origin.address(), self.bench.ca, NAME)


NGINX = """
daemon off; pid nginx.pid; error_log stderr; worker_processes {workers}; worker_rlimit_nofile 20000;
events {{ worker_connections 15000; }}
http {{
  access_log off; keepalive_requests 1000000000; keepalive_timeout 600s; client_max_body_size 0;
  client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3; uwsgi_temp_path t4; scgi_temp_path t5;
  upstream origin {{ server {origin}; keepalive 256; keepalive_requests 1000000000; }}
  server {{
    listen {address} ssl backlog=4096 reuseport;
    ssl_certificate {cert}; ssl_certificate_key {key}; ssl_protocols TLSv1.3; ssl_ecdh_curve prime256v1;
    location / {{
      proxy_pass https://origin; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_ssl_protocols TLSv1.3;
      proxy_ssl_name {name}; proxy_ssl_server_name on; proxy_ssl_trusted_certificate {ca}; proxy_ssl_verify on;
      proxy_request_buffering off; proxy_max_temp_file_size 0;
    }}
  }}
}}
"""


class Nginx(Server):
    name = "nginx"

    def start(self):
        self.write("nginx.conf", NGINX.format(origin=self.bench.origin.address(), address=self.address(),
                                              cert=self.bench.cert, key=self.bench.key, ca=self.bench.ca, name=NAME,
                                              workers=self.workers))
        self.spawn(program("nginx"), "-p", self.directory, "-c", "nginx.conf", "-e", "stderr")

    def worker(self):
        return process.tree(self.child.pid)[1]


HAPROXY = """
global
  nbthread {workers}
  maxconn 7000
defaults
  mode http
  timeout client 600s
  timeout server 600s
  timeout connect 10s
  timeout http-keep-alive 600s
frontend in
  bind {address} ssl crt pair.pem ssl-min-ver TLSv1.3 ciphersuites TLS_AES_128_GCM_SHA256 curves P-256
  default_backend origin
backend origin
  http-reuse always
  server origin {origin} ssl verify required ca-file {ca} sni str({name}) verifyhost {name} ssl-min-ver TLSv1.3
"""


class HAProxy(Server):
    """A TLS-to-TLS reverse proxy: one process, workers are its threads."""

    name = "haproxy"

    def start(self):
        with open(self.bench.cert, encoding="ascii") as cert, open(self.bench.key, encoding="ascii") as key:
            self.write("pair.pem", cert.read() + key.read())
        self.write("haproxy.conf", HAPROXY.format(origin=self.bench.origin.address(), address=self.address(),
                                                  ca=self.bench.ca, name=NAME, workers=self.workers))
        self.spawn(program("haproxy"), "-db", "-f", "haproxy.conf")


# Client first: the tunnel is answered before the origin is reached, and connections to it are pooled. It is the cheaper
# of Squid's two ways; the other needs an origin connection and its handshake for each tunnel.
SQUID = """
http_port {address} ssl-bump tls-cert={directory}/ca-pair.pem generate-host-certificates=on tls-min-version=1.3
sslcrtd_program /usr/lib/squid/security_file_certgen -s {directory}/certificates -M 4MB
sslcrtd_children 1
ssl_bump bump all
http_access allow all
tls_outgoing_options cafile={ca} min-version=1.3
hosts_file {directory}/hosts
cache deny all
cache_mem 0
memory_pools off
access_log none
cache_log stdio:{directory}/cache.log
cache_store_log none
pid_filename {directory}/squid.pid
coredump_dir {directory}
cache_effective_user proxy
max_filedescriptors 20000
client_idle_pconn_timeout 10 minutes
server_idle_pconn_timeout 10 minutes
client_request_buffer_max_size 1 MB
pinger_enable off
visible_hostname bench
workers {workers}
shutdown_lifetime 1 second
"""


class Squid(Server):
    """The proxy that terminates TLS, as we do; without token, rules, scan and record."""

    name = "squid"

    def start(self):
        with open(self.bench.ca, encoding="ascii") as cert, open(self.bench.ca_key, encoding="ascii") as key:
            self.write("ca-pair.pem", cert.read() + key.read())
        self.write("hosts", f"127.0.0.1 {NAME}\n")
        self.write("squid.conf", SQUID.format(address=self.address(), directory=self.directory, ca=self.bench.ca,
                                              workers=self.workers))
        made = subprocess.run(["/usr/lib/squid/security_file_certgen", "-c", "-s",
                               os.path.join(self.directory, "certificates"), "-M", "4MB"],
                              capture_output=True, text=True, check=False)
        if made.returncode:
            raise Failure(f"security_file_certgen: {made.stderr}")
        self.give_away()
        self.spawn(program("squid"), "-f", "squid.conf", "-n", f"bench{self.port}",
                   "-N" if self.workers == 1 else "--foreground")

    def give_away(self):
        """Started as root it becomes Debian's user for it, and has to reach its files."""
        if os.geteuid() == 0:
            os.chmod(self.bench.directory, 0o711)
            for path, _, files in os.walk(self.directory):
                for name in [path] + [os.path.join(path, f) for f in files]:
                    shutil.chown(name, "proxy", "proxy")

    def load(self, _part=0):
        return super().load() + ["--tunnel", f"{NAME}:{self.bench.origin.port}"]


# Everything on: a token, a policy, a scan for 100 canaries each way, the journal, every limit: those that one sandbox which
# takes the whole machine would meet are so high that it does not.
EXEAT = """
gateway: {{ name: gw.bench, state: ., workers: {workers} }}
listen:
  explicit: {{ address: "{address}"{mode} }}
issuers:
  local: {{ jwks: issuer/local.jwks, key: issuer/local.key, max-lifetime: 4h }}
services:
  origin:
    hosts: [{name}]
    ports: [{ports}]
    addresses: ["{origin}"]
    ca-file: {ca}
    allow: ["GET,PUT /**"]
    body: 2g
    scope: origin:use
    audit: "waived: the benchmark's own origin"{more}
canaries: {{ file: canaries.json, on-leak: block }}
journal: {{ directory: journal }}
limits:
  upstream-idle: 256
  idle-time: 10m
  connections: 12000
  sandbox-connections: 12000
  exchanges: 65536
  sandbox-exchanges: 32768
  records: 10000000
  sandbox-records: 5000000
  handshakes: 65536
  sandbox-handshakes: 32768
  handshake-rate: 1000000
  sandbox-bytes: 1000g
admin: {{ address: "unix:admin.sock" }}
"""


class Exeat(Server):
    name = "exeat"
    more = ""  # of its service
    mode = ""  # of its listener

    def command(self, *arguments, out=None):
        path = os.path.join(self.directory, "state")
        done = subprocess.run([self.bench.program("exeat"), "-c", os.path.join(path, "proxy.conf"), *arguments],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            raise Failure(f"exeat {' '.join(arguments)}: {done.stderr.strip()}")
        if out:
            self.write(out, done.stdout)

    def start(self):
        state = os.path.join(self.directory, "state")
        shutil.rmtree(state, ignore_errors=True)
        self.command("init", "--name", "gw.bench", "--service", f"origin={NAME}:{self.bench.origin.port}", state)
        with open(os.path.join(state, "proxy.conf"), "w", encoding="utf-8") as f:
            f.write(EXEAT.format(address=self.address(), origin=self.bench.origin.address(), ca=self.bench.ca,
                                 ports=f"{self.bench.origin.port}, {self.port}", name=NAME, mode=self.mode, workers=self.workers, more=self.more))
        for kind in ("aws", "generic", "github", "npm"):
            self.command("canary", "new", "--kind", kind, "--number", "25")
        self.command("ca", "export", out="ca.pem")
        for part in range(PARTS):
            self.command("token", "issue", "--sandbox", f"bench-{part}", "--scope", "origin:use", "--lifetime", "4h",
                         out=f"token-{part}")
        self.spawn(self.bench.program("exeat"), "-c", os.path.join(state, "proxy.conf"), "serve")
        wait_until(self.is_ready, self)

    def is_ready(self):
        with open(self.log, encoding="utf-8", errors="replace") as f:
            return "exeat: ready" in f.read()

    def load(self, part=0):
        return ["--connect", self.address(), "--name", NAME, "--ca", os.path.join(self.directory, "ca.pem"),
                "--tunnel", f"{NAME}:{self.bench.origin.port}", "--token-file",
                os.path.join(self.directory, f"token-{part}")]

    def worker(self):
        for pid in self.pids():
            if "worker" in process.read(pid, "cmdline").split("\0"):
                return pid
        raise Failure("exeat has no process named worker")


class Handoff(Exeat):
    """The same, and each request goes on with the gateway's credential, each answer is looked through for it and for where it leads."""
    name = "handoff"
    more = """
    credential: { from: "file:credential", as: bearer }
    shared-identity: accepted
    hands-off-to: [elsewhere.bench]
    handoff-edges: enforce"""

    def command(self, *arguments, out=None):
        super().command(*arguments, out=out)
        path = os.path.join(self.directory, "state", "credential")
        if arguments[0] == "init":
            with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="utf-8") as f:
                f.write("bench-credential-0123456789\n")


class Transparent(Exeat):
    """The same for clients that know of no proxy: no CONNECT, and the token in each request."""
    name = "transparent"
    mode = ", mode: transparent"

    def load(self, part=0):
        return ["--connect", self.address(), "--name", NAME, "--ca", os.path.join(self.directory, "ca.pem"),
                "--authority", f"{NAME}:{self.port}", "--token-file", os.path.join(self.directory, f"token-{part}")]


ALL = {c.name: c for c in (Relay, Nginx, HAProxy, Squid, Exeat, Handoff, Transparent)}
USUAL = [name for name in ALL if name not in (Handoff.name, Transparent.name)]
