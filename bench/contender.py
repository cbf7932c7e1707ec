"""What is compared: each starts itself, knows its processes, and says how the load generator reaches it."""

import os
import shutil
import socket
import subprocess
import time

import process

NAME = "origin.bench"


class Failure(Exception):
    """The benchmark cannot go on; one line for people."""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(port, child, log):
    for _ in range(200):
        if child.poll() is not None:
            break
        try:
            socket.create_connection(("127.0.0.1", port), 0.2).close()
            return
        except OSError:
            time.sleep(0.05)
    with open(log, encoding="utf-8", errors="replace") as f:
        raise Failure(f"{child.args[0]} did not start: {f.read()[-2000:]}")


class Server:
    """A program with a port of its own, in a directory of its own."""

    name = ""
    direct = True

    def __init__(self, bench, base):
        self.bench = bench
        self.directory = os.path.join(base, self.name)
        os.makedirs(self.directory, mode=0o700, exist_ok=True)
        self.port = free_port()
        self.log = os.path.join(self.directory, "log")
        self.child = None

    def spawn(self, *command):
        with open(self.log, "w", encoding="utf-8") as log:
            self.child = subprocess.Popen(command, cwd=self.directory, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        wait_for(self.port, self.child, self.log)

    def address(self):
        return f"127.0.0.1:{self.port}"

    def pids(self):
        return process.tree(self.child.pid)

    def worker(self):
        """The process that handles the bytes."""
        return self.child.pid

    def load(self):
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

    def start(self):
        self.spawn(self.bench.program("bench/relay"), self.address(), self.bench.cert, self.bench.key,
                   self.bench.origin.address(), self.bench.ca, NAME)


NGINX = """
daemon off; pid nginx.pid; error_log stderr; worker_processes 1; worker_rlimit_nofile 20000;
events {{ worker_connections 15000; }}
http {{
  access_log off; keepalive_requests 1000000000; keepalive_timeout 600s; client_max_body_size 0;
  client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3; uwsgi_temp_path t4; scgi_temp_path t5;
  upstream origin {{ server {origin}; keepalive 256; keepalive_requests 1000000000; }}
  server {{
    listen {address} ssl backlog=4096;
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
        with open(os.path.join(self.directory, "nginx.conf"), "w", encoding="utf-8") as f:
            f.write(NGINX.format(origin=self.bench.origin.address(), address=self.address(), cert=self.bench.cert,
                                 key=self.bench.key, ca=self.bench.ca, name=NAME))
        self.spawn(shutil.which("nginx") or "/usr/sbin/nginx", "-p", self.directory, "-c", "nginx.conf", "-e", "stderr")

    def worker(self):
        return process.tree(self.child.pid)[1]


# Everything on: a token, a policy, a scan for 100 canaries each way, the journal. One worker, as nginx.
EXEAT = """
gateway: {{ name: gw.bench, state: ., workers: 1 }}
listen:
  explicit: {{ address: "{address}" }}
issuers:
  local: {{ jwks: issuer/local.jwks, key: issuer/local.key, max-lifetime: 4h }}
services:
  origin:
    hosts: [{name}]
    ports: [{port}]
    addresses: ["{origin}"]
    ca-file: {ca}
    allow: ["GET,PUT /**"]
    body: 2g
    scope: origin:use
    audit: "waived: the benchmark's own origin"
canaries: {{ file: canaries.json, on-leak: block }}
journal: {{ directory: journal }}
limits: {{ upstream-idle: 256, idle-time: 10m }}
admin: {{ address: "unix:admin.sock" }}
"""


class Exeat(Server):
    name = "exeat"

    def command(self, *arguments, out=None):
        path = os.path.join(self.directory, "state")
        done = subprocess.run([self.bench.program("exeat"), "-c", os.path.join(path, "proxy.conf"), *arguments],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            raise Failure(f"exeat {' '.join(arguments)}: {done.stderr.strip()}")
        if out:
            with open(os.path.join(self.directory, out), "w", encoding="ascii") as f:
                f.write(done.stdout)

    def start(self):
        state = os.path.join(self.directory, "state")
        shutil.rmtree(state, ignore_errors=True)
        self.command("init", "--name", "gw.bench", "--service", f"origin={NAME}:{self.bench.origin.port}", state)
        with open(os.path.join(state, "proxy.conf"), "w", encoding="utf-8") as f:
            f.write(EXEAT.format(address=self.address(), origin=self.bench.origin.address(), ca=self.bench.ca,
                                 port=self.bench.origin.port, name=NAME))
        for kind in ("aws", "generic", "github", "npm"):
            self.command("canary", "new", "--kind", kind, "--number", "25")
        self.command("ca", "export", out="ca.pem")
        self.command("token", "issue", "--sandbox", "bench", "--scope", "origin:use", "--lifetime", "4h", out="token")
        self.spawn(self.bench.program("exeat"), "-c", os.path.join(state, "proxy.conf"), "serve")

    def load(self):
        return ["--connect", self.address(), "--name", NAME, "--ca", os.path.join(self.directory, "ca.pem"),
                "--tunnel", f"{NAME}:{self.bench.origin.port}", "--token-file", os.path.join(self.directory, "token")]

    def worker(self):
        for pid in self.pids():
            if "worker" in process.read(pid, "cmdline").split("\0"):
                return pid
        raise Failure("exeat has no process named worker")
