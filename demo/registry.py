"""The internet of the demo: a package registry on loopback, in nginx, over TLS under a CA of its own."""
import base64
import hashlib
import http.server
import io
import json
import os
import socket
import socketserver
import subprocess
import sys
import tarfile
import threading
import time
import zipfile
from pathlib import Path

PYPI, NPM, GIT, FILES = "pypi.registry.test", "npm.registry.test", "git.registry.test", "files.registry.test"
HOSTS = (PYPI, NPM, GIT, FILES)
WHEEL = "exeat_hello-1.0-py3-none-any.whl"
TARBALL = "exeat-hello-1.0.0.tgz"
REPOSITORY = "hello.git"

NGINX = """
daemon off;
master_process off;
worker_processes 1;
pid {top}/nginx.pid;
error_log {top}/error.log warn;
events {{ worker_connections 256; }}
http {{
    log_format story escape=json '{{"host":"$host","method":"$request_method","uri":"$request_uri","status":$status,'
        '"token":"$http_proxy_authorization","via":"$http_via","agent":"$http_user_agent"}}';
    access_log {top}/access.log story;
    client_body_temp_path {top}/tmp; proxy_temp_path {top}/tmp; fastcgi_temp_path {top}/tmp;
    uwsgi_temp_path {top}/tmp; scgi_temp_path {top}/tmp;
    default_type application/octet-stream;
    types {{ text/html html; application/json json; text/plain txt; }}
    ssl_certificate {top}/origin.pem;
    ssl_certificate_key {top}/origin.key;
    server {{
        listen 127.0.0.1:{port} ssl;
        server_name {pypi};
        root {top}/pypi;
    }}
    server {{
        listen 127.0.0.1:{port} ssl;
        server_name {npm};
        root {top}/npm;
        location = /exeat-hello {{ default_type application/json; alias {top}/npm/exeat-hello.json; }}
    }}
    # Twice, so that a question which the CGI server dropped is asked again: fetching changes nothing.
    upstream git {{ server unix:{top}/git.sock max_fails=0; server unix:{top}/git.sock max_fails=0; }}
    server {{
        listen 127.0.0.1:{port} ssl;
        server_name {git};
        location / {{
            proxy_pass http://git;
            proxy_set_header Host $host;
            proxy_next_upstream error timeout non_idempotent;
            proxy_next_upstream_tries 4;
        }}
    }}
    server {{
        listen 127.0.0.1:{port} ssl;
        server_name {files};
        root {top}/files;
        location /inbox/ {{ return 201 "stored\\n"; }}
        location /mark/ {{ return 204; }}
    }}
}}
"""


def run(*words, **options):
    return subprocess.run([str(w) for w in words], check=True, capture_output=True, text=True, **options).stdout


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


def make_pki(top):
    """A CA that nothing but the gateway is told to trust, and one certificate for all hosts."""
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    (top / "origin.ext").write_text("subjectAltName=" + ",".join("DNS:" + h for h in HOSTS) + "\n")
    run("openssl", "req", "-x509", *key, "-days", "2", "-subj", "/CN=registry test CA",
        "-keyout", top / "ca.key", "-out", top / "ca.pem")
    run("openssl", "req", *key, "-subj", "/CN=registry.test", "-keyout", top / "origin.key", "-out", top / "origin.csr")
    run("openssl", "x509", "-req", "-in", top / "origin.csr", "-CA", top / "ca.pem", "-CAkey", top / "ca.key",
        "-set_serial", "1", "-days", "2", "-extfile", top / "origin.ext", "-out", top / "origin.pem")


def make_wheel(top):
    """A wheel (PEP 427) behind a simple index (PEP 503)."""
    info = "exeat_hello-1.0.dist-info"
    files = {
        "exeat_hello/__init__.py": "WORDS = 'by your leave'\n",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: exeat-hello\nVersion: 1.0\nSummary: a word from the registry\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: exeat-demo\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = ""
    for name, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(text)}\n"
    files[f"{info}/RECORD"] = record + f"{info}/RECORD,,\n"
    packages, index = top / "pypi/packages", top / "pypi/simple/exeat-hello"
    packages.mkdir(parents=True)
    index.mkdir(parents=True)
    with zipfile.ZipFile(packages / WHEEL, "w", zipfile.ZIP_DEFLATED) as z:
        for name, text in files.items():
            z.writestr(name, text)
    digest = hashlib.sha256((packages / WHEEL).read_bytes()).hexdigest()
    (index / "index.html").write_text(
        f'<!DOCTYPE html><html><body><a href="/packages/{WHEEL}#sha256={digest}">{WHEEL}</a></body></html>\n')


def make_tarball(top):
    """An npm tarball and its metadata document."""
    manifest = {"name": "exeat-hello", "version": "1.0.0", "description": "a word from the registry", "main": "index.js"}
    files = {"package.json": json.dumps(manifest), "index.js": "module.exports = 'by your leave'\n"}
    directory = top / "npm/exeat-hello/-"
    directory.mkdir(parents=True)
    with tarfile.open(directory / TARBALL, "w:gz") as t:
        for name, text in files.items():
            entry = tarfile.TarInfo("package/" + name)
            entry.size, entry.mode, entry.mtime = len(text), 0o644, int(time.time())
            t.addfile(entry, io.BytesIO(text.encode()))
    bytes_ = (directory / TARBALL).read_bytes()
    dist = {
        "tarball": f"https://{NPM}/exeat-hello/-/{TARBALL}",
        "integrity": "sha512-" + base64.b64encode(hashlib.sha512(bytes_).digest()).decode(),
        "shasum": hashlib.sha1(bytes_).hexdigest(),
    }
    document = {"name": "exeat-hello", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": {**manifest, "dist": dist}}}
    (top / "npm/exeat-hello.json").write_text(json.dumps(document))


def make_repository(top):
    """A bare repository; pushing to it is allowed, so that only the gateway can be what stops it."""
    work, bare = top / "work", top / "git" / REPOSITORY
    who = ["-c", "user.name=demo", "-c", "user.email=demo@registry.test", "-c", "commit.gpgSign=false"]
    environment = {**os.environ, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null"}
    run("git", "init", "-q", "-b", "main", work, env=environment)
    (work / "README").write_text("by your leave\n")
    run("git", "-C", work, "add", "README", env=environment)
    run("git", "-C", work, *who, "commit", "-q", "-m", "a word from the registry", env=environment)
    run("git", "clone", "-q", "--bare", work, bare, env=environment)
    run("git", "-C", bare, "config", "http.receivepack", "true", env=environment)
    return run("git", "-C", work, "rev-parse", "HEAD", env=environment).strip()


class GitHandler(http.server.BaseHTTPRequestHandler):
    """git http-backend as CGI, behind nginx."""

    def answer(self):
        path, _, query = self.path.partition("?")
        length = int(self.headers.get("Content-Length", 0))
        environment = {
            "PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": str(self.server.root), "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null", "REMOTE_ADDR": "127.0.0.1",
            "REQUEST_METHOD": self.command, "PATH_INFO": path, "QUERY_STRING": query,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""), "CONTENT_LENGTH": str(length),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
        }
        answer = subprocess.run(["git", "http-backend"], input=self.rfile.read(length), env=environment,
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False).stdout
        head, _, body = answer.partition(b"\r\n\r\n")
        fields = [line.split(": ", 1) for line in head.decode("latin-1").split("\r\n") if ": " in line]
        self.send_response(next((int(v.split()[0]) for k, v in fields if k == "Status"), 200))
        for name, value in fields:
            if name != "Status":
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = answer

    def log_request(self, *_):
        pass

    def log_message(self, words, *values):
        sys.stderr.write(f"git server: {words % values}\n")


class GitServer(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    request_queue_size = 128  # git asks for several things at once

    def __init__(self, top):
        self.root = top / "git"
        super().__init__(str(top / "git.sock"), GitHandler)
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Registry:
    def __init__(self, top):
        self.top, self.port, self.marks = Path(top), free_port(), 0
        for name in ("tmp", "files"):
            (self.top / name).mkdir(parents=True)
        make_pki(self.top)
        make_wheel(self.top)
        make_tarball(self.top)
        self.commit = make_repository(self.top)
        self.file = os.urandom(256 * 1024)
        (self.top / "files/data.bin").write_bytes(self.file)
        self.ca = self.top / "ca.pem"

    def start(self):
        self.git = GitServer(self.top)
        names = {"pypi": PYPI, "npm": NPM, "git": GIT, "files": FILES}
        config = self.top / "nginx.conf"
        config.write_text(NGINX.format(top=self.top, port=self.port, **names))
        program = "/usr/sbin/nginx" if Path("/usr/sbin/nginx").exists() else "nginx"
        with open(self.top / "nginx.out", "wb") as out:
            self.process = subprocess.Popen([program, "-c", config, "-p", self.top, "-e", self.top / "error.log"],
                                            stdout=out, stderr=out, stdin=subprocess.DEVNULL)
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                if self.process.poll() is not None:
                    break
                time.sleep(0.02)
        raise RuntimeError("nginx does not start:\n" + self.log())

    def stop(self):
        self.git.shutdown()
        self.git.server_close()
        self.process.terminate()
        self.process.wait(10)

    def log(self):
        parts = [self.top / "nginx.out", self.top / "error.log"]
        return "".join(p.read_text() for p in parts if p.exists())

    def requests(self):
        """
        What came in since the last call. A mark of our own is sent behind it: nginx logs in order, so when the mark is
        in the log, everything that reached it before is there too.
        """
        self.marks += 1
        mark = f"/mark/{self.marks}"
        run("curl", "-q", "-sS", "--noproxy", "*", "--cacert", self.ca, "--resolve", f"{FILES}:{self.port}:127.0.0.1",
            f"https://{FILES}:{self.port}{mark}", env={"PATH": os.environ["PATH"]})
        for _ in range(250):
            lines = [json.loads(line) for line in (self.top / "access.log").read_text().splitlines()]
            uris = [line["uri"] for line in lines]
            if mark in uris:
                start = uris.index(f"/mark/{self.marks - 1}") + 1 if self.marks > 1 else 0
                return lines[start:uris.index(mark)]
            time.sleep(0.02)
        raise RuntimeError("the registry does not log")
