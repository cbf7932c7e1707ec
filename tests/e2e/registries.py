"""
Registries of every kind on loopback, each at a host of its own: they publish, search, audit and delete for whoever asks, so that
only the gateway can be what stops it. docker-registry and git http-backend are the real ones; Maven's is what Debian has below
/usr/share/maven-repo.
"""
import base64
import gzip
import hashlib
import io
import json
import lzma
import subprocess
import time
import zipfile
from pathlib import Path
from urllib.parse import unquote

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from gateway import PATIENCE, clean_environment, free_port, wait_until
from origin import Origin
from store import answer, digest, packed

NPM, PYPI, DEBIAN, OCI = (f"{n}.registry.test" for n in ("npm", "pypi", "deb", "oci"))
GIT, CARGO, GO, MAVEN = (f"{n}.registry.test" for n in ("git", "cargo", "go", "maven"))
HOSTS = [NPM, PYPI, DEBIAN, OCI, GIT, CARGO, GO, MAVEN]
WHEEL = "exeat_hello-1.0-py3-none-any.whl"
DEBIAN_MAVEN = Path("/usr/share/maven-repo")
WORDS = "by your leave\n"


def run(*words, **more):
    return subprocess.run([str(w) for w in words], check=True, capture_output=True, timeout=PATIENCE, **more).stdout


def said(status, body=b"", kind="text/plain"):
    return answer(kind, body).replace(b"200 OK", status.encode(), 1)


class Shelf:
    """Files by path. What is written to it is taken: 201."""

    def __init__(self):
        self.files, self.written = {}, []

    def add(self, path, body, kind="application/octet-stream"):
        self.files[path] = (kind, body if isinstance(body, bytes) else body.encode())

    def look_up(self, path):
        return self.files.get(path)

    def script(self, request):
        path = unquote(request.target.split("?")[0])
        if request.method not in ("GET", "HEAD"):
            self.written.append(f"{request.method} {request.target}")
            return said("201 Created", b"{}", "application/json")
        found = self.look_up(path)
        whole = answer(*found) if found else said("404 Not Found")
        return whole[:whole.index(b"\r\n\r\n") + 4] if request.method == "HEAD" else whole


def wheel():
    info = "exeat_hello-1.0.dist-info"
    metadata = "Metadata-Version: 2.1\nName: exeat-hello\nVersion: 1.0\nSummary: a word from the registry\n"
    files = {"exeat_hello/__init__.py": f"WORDS = {WORDS!r}\n", f"{info}/METADATA": metadata,
             f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: exeat\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
    rows = "".join(f"{n},sha256={base64.urlsafe_b64encode(hashlib.sha256(t.encode()).digest()).rstrip(b'=').decode()},{len(t)}\n"
                   for n, t in files.items())
    files[f"{info}/RECORD"] = rows + f"{info}/RECORD,,\n"
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        for name, text in files.items():
            z.writestr(name, text)
    return out.getvalue(), metadata


class PyPI(Shelf):
    """A simple index (PEP 503) with metadata of its own (PEP 658)."""

    def __init__(self):
        super().__init__()
        self.wheel, metadata = wheel()
        of_file, of_metadata = (hashlib.sha256(b).hexdigest() for b in (self.wheel, metadata.encode()))
        self.add("/simple/exeat-hello/", f'<!DOCTYPE html><html><body><a href="/packages/ab/cd/{WHEEL}#sha256={of_file}" '
                 f'data-dist-info-metadata="sha256={of_metadata}" data-core-metadata="sha256={of_metadata}">{WHEEL}</a></body></html>\n',
                 "text/html")
        self.add(f"/packages/ab/cd/{WHEEL}", self.wheel)
        self.add(f"/packages/ab/cd/{WHEEL}.metadata", metadata)


class Npm(Shelf):
    def __init__(self):
        super().__init__()
        self.package("exeat-hello", "1.0.0", "module.exports = require('@corp/words')", "/exeat-hello/-/exeat-hello-1.0.0.tgz",
                     {"@corp/words": "^2.0.0"})
        self.package("@corp/words", "2.0.0", f"module.exports = {json.dumps(WORDS.strip())}", "/@corp/words/-/words-2.0.0.tgz", {})
        self.add("/-/v1/search", json.dumps({"objects": [], "total": 0, "time": "x"}), "application/json")
        self.add("/-/whoami", json.dumps({"username": "x"}), "application/json")

    def package(self, name, version, program, path, needs):
        manifest = {"name": name, "version": version, "main": "index.js", "dependencies": needs}
        body = packed({"package.json": json.dumps(manifest), "index.js": program}, "package/")
        dist = {"tarball": f"https://{NPM}{path}", "shasum": hashlib.sha1(body).hexdigest(),
                "integrity": "sha512-" + base64.b64encode(hashlib.sha512(body).digest()).decode()}
        document = {"name": name, "dist-tags": {"latest": version}, "versions": {version: {**manifest, "dist": dist}}}
        self.add("/" + name, json.dumps(document), "application/json")
        self.add(path, body)


class Debian(Shelf):
    """An archive signed with a key of its own, by-hash, with translations and differences between its indices."""

    def __init__(self, directory):
        super().__init__()
        self.directory, self.key = directory, directory / "archive.gpg"
        self.gpg = ("gpg", "--homedir", directory / "gnupg", "--batch", "--quiet", "--passphrase", "")
        (directory / "gnupg").mkdir(mode=0o700)
        run(*self.gpg, "--quick-gen-key", "archive@registry.test", "ed25519", "sign", "never")
        self.key.write_bytes(run(*self.gpg, "--export"))
        self.debs = {v: self.package(v) for v in ("1.0", "1.1")}
        self.publish(["1.0"], {})

    def stop(self):
        """gpg has left an agent behind."""
        run("gpgconf", "--homedir", self.directory / "gnupg", "--kill", "gpg-agent")

    def package(self, version):
        tree = self.directory / f"deb-{version}"
        (tree / "DEBIAN").mkdir(parents=True)
        (tree / "DEBIAN/control").write_text(f"Package: exeat-hello\nVersion: {version}\nArchitecture: all\nMaintainer: x <x@y.test>\n"
                                             "Description: a word from the registry\n")
        run("dpkg-deb", "--root-owner-group", "-Znone", "-b", tree, self.directory / "x.deb")
        return (self.directory / "x.deb").read_bytes()

    def stanza(self, version):
        path, deb = f"pool/main/e/exeat-hello/exeat-hello_{version}_all.deb", self.debs[version]
        self.add("/debian/" + path, deb)
        return ((self.directory / f"deb-{version}/DEBIAN/control").read_text() +
                f"Filename: {path}\nSize: {len(deb)}\nSHA256: {hashlib.sha256(deb).hexdigest()}\n\n")

    def publish(self, versions, more):
        """more: further files of the suite by name."""
        self.packages = "".join(self.stanza(v) for v in versions).encode()
        sources = (b"Package: exeat-hello\nBinary: exeat-hello\nVersion: 1.0\nMaintainer: x <x@y.test>\nArchitecture: all\n"
                   b"Format: 3.0 (native)\nDirectory: pool/main/e/exeat-hello\nChecksums-Sha256:\n " + b"0" * 64 +
                   b" 10 exeat-hello_1.0.dsc\nFiles:\n " + b"0" * 32 + b" 10 exeat-hello_1.0.dsc\n\n")
        words = b"Package: exeat-hello\nDescription-md5: %s\nDescription-en: a word from the registry\n\n" % (
            hashlib.md5(b"a word from the registry\n").hexdigest().encode())
        files = {"main/binary-amd64/Packages": self.packages, "main/binary-amd64/Packages.xz": lzma.compress(self.packages),
                 "main/source/Sources": sources, "main/i18n/Translation-en": words,
                 "main/i18n/Translation-en.xz": lzma.compress(words), **more}
        rows = ""
        for name, body in files.items():
            top, _, file = ("/debian/dists/stable/" + name).rpartition("/")
            self.add(f"{top}/{file}", body)
            self.add(f"{top}/by-hash/SHA256/{hashlib.sha256(body).hexdigest()}", body)
            if "/T-" not in name:
                rows += f" {hashlib.sha256(body).hexdigest()} {len(body)} {name}\n"
        date = time.strftime("%a, %d %b %Y %H:%M:%S UTC", time.gmtime())
        release = ("Origin: test\nSuite: stable\nCodename: stable\nArchitectures: all amd64\nComponents: main\nAcquire-By-Hash: yes\n"
                   f"Date: {date}\nSHA256:\n{rows}")
        self.add("/debian/dists/stable/InRelease", run(*self.gpg, "--clearsign", input=release.encode()))

    def publish_again(self):
        """The second version; what has changed in the index is there as a patch too."""
        old = self.packages
        new = old + self.stanza("1.1").encode()
        (self.directory / "old").write_bytes(old)
        (self.directory / "new").write_bytes(new)
        patch = subprocess.run(["diff", "--ed", self.directory / "old", self.directory / "new"], capture_output=True).stdout
        small, name = gzip.compress(patch), "T-1-F-0"

        def row(body, name=""):
            return f" {hashlib.sha256(body).hexdigest()} {len(body)} {name}".rstrip()

        index = (f"SHA256-Current:{row(new)}\nSHA256-History:\n{row(old, name)}\nSHA256-Patches:\n{row(patch, name)}\n"
                 f"SHA256-Download:\n{row(small, name + '.gz')}\n").encode()
        self.publish(["1.0", "1.1"], {"main/binary-amd64/Packages.diff/Index": index, f"main/binary-amd64/Packages.diff/{name}.gz": small})


class Git(Shelf):
    """git http-backend; pushing is allowed."""

    def __init__(self, directory):
        super().__init__()
        self.directory = directory
        self.environment = clean_environment(HOME=str(directory), GIT_CONFIG_GLOBAL="/dev/null")
        git = ("git", "-c", "user.name=x", "-c", "user.email=x@y.test", "-c", "init.defaultBranch=main")
        work, bare = directory / "work", directory / "team/hello.git"
        run(*git, "init", "-q", work, env=self.environment)
        (work / "README").write_text(WORDS)
        run(*git, "-C", work, "add", "README", env=self.environment)
        run(*git, "-C", work, "commit", "-q", "-m", "a word", env=self.environment)
        run(*git, "clone", "-q", "--bare", work, bare, env=self.environment)
        run(*git, "-C", bare, "config", "http.receivepack", "true", env=self.environment)

    def script(self, request):
        path, _, query = request.target.partition("?")
        more = {"GIT_PROJECT_ROOT": str(self.directory), "GIT_HTTP_EXPORT_ALL": "1", "REMOTE_ADDR": "127.0.0.1", "REMOTE_USER": "x",
                "REQUEST_METHOD": request.method, "PATH_INFO": path, "QUERY_STRING": query,
                "CONTENT_TYPE": request.field("content-type") or "", "CONTENT_LENGTH": str(len(request.body)),
                "HTTP_CONTENT_ENCODING": request.field("content-encoding") or "", "GIT_PROTOCOL": request.field("git-protocol") or ""}
        head, _, body = run("git", "http-backend", input=request.body, env={**self.environment, **more}).partition(b"\r\n\r\n")
        fields = [line for line in head.split(b"\r\n") if line]
        status = next((line.split(b": ", 1)[1] for line in fields if line.startswith(b"Status:")), b"200 OK")
        kept = b"".join(line + b"\r\n" for line in fields if not line.startswith((b"Status:", b"Content-Length:")))
        return b"HTTP/1.1 " + status + b"\r\n" + kept + b"Content-Length: %d\r\n\r\n" % len(body) + body


class Cargo(Shelf):
    """A sparse index and its crates, named as long as crates are: their paths differ."""

    def __init__(self):
        super().__init__()
        self.add("/config.json", json.dumps({"dl": f"https://{CARGO}/api/v1/crates", "api": f"https://{CARGO}"}), "application/json")
        for name, path in (("a", "/1/a"), ("bc", "/2/bc"), ("def", "/3/d/def"), ("exeat-hello", "/ex/ea/exeat-hello")):
            crate = packed({"Cargo.toml": f'[package]\nname = "{name}"\nversion = "1.0.0"\n', "src/lib.rs": "\n"}, f"{name}-1.0.0/")
            self.add(path, json.dumps({"name": name, "vers": "1.0.0", "deps": [], "cksum": hashlib.sha256(crate).hexdigest(),
                                       "features": {}, "yanked": False}) + "\n")
            self.add(f"/api/v1/crates/{name}/1.0.0/download", crate)
        self.add("/api/v1/crates", json.dumps({"crates": [], "meta": {"total": 0}}), "application/json")


class SumDB:
    """A checksum database of one record: its note is signed, and its tree has one leaf."""

    name = "sum.test"

    def __init__(self, shelf, module, version, hashes):
        key = Ed25519PrivateKey.generate()
        public = b"\x01" + key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        mark = hashlib.sha256(self.name.encode() + b"\n" + public).digest()[:4]
        self.verifier = f"{self.name}+{mark.hex()}+{base64.b64encode(public).decode()}"
        record = "".join(f"{module} {version}{part} {h}\n" for part, h in hashes)
        leaf = hashlib.sha256(b"\0" + record.encode()).digest()
        tree = f"go.sum database tree\n1\n{base64.b64encode(leaf).decode()}\n"
        note = f"{tree}\n\u2014 {self.name} {base64.b64encode(mark + key.sign(tree.encode())).decode()}\n"
        top = f"/sumdb/{self.name}"
        shelf.add(f"{top}/supported", "")
        shelf.add(f"{top}/latest", note)
        shelf.add(f"{top}/lookup/{module}@{version}", f"0\n{record}\n{note}")
        shelf.add(f"{top}/tile/8/0/000.p/1", leaf)


def dirhash(files):
    """Go's h1: of a zip's files, or of go.mod alone."""
    rows = "".join(f"{hashlib.sha256(body).hexdigest()}  {name}\n" for name, body in sorted(files.items()))
    return "h1:" + base64.b64encode(hashlib.sha256(rows.encode()).digest()).decode()


class Go(Shelf):
    module, version = "code.test/Team/hello", "v1.0.0"

    def __init__(self):
        super().__init__()
        mod = f"module {self.module}\n".encode()
        files = {f"{self.module}@{self.version}/{n}": b for n, b in
                 {"go.mod": mod, "hello.go": f"package hello\n\nconst Words = {json.dumps(WORDS)}\n".encode()}.items()}
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as z:
            for name, body in files.items():
                z.writestr(name, body)
        base, info = "/code.test/!team/hello/", json.dumps({"Version": self.version, "Time": "2026-01-01T00:00:00Z"})
        self.add(base + "@v/list", self.version + "\n")
        self.add(base + "@latest", info)
        for end, body in ((".info", info), (".mod", mod), (".zip", out.getvalue())):
            self.add(base + f"@v/{self.version}{end}", body)
        self.sums = SumDB(self, "code.test/!team/hello", self.version, [("", dirhash(files)), ("/go.mod", dirhash({"go.mod": mod}))])


class Maven(Shelf):
    """Debian's repository below /maven2/, and an artifact of our own in it."""

    def __init__(self):
        super().__init__()
        pom = ("<project><modelVersion>4.0.0</modelVersion><groupId>test.exeat</groupId><artifactId>hello</artifactId>"
               "<version>1</version><dependencies><dependency><groupId>org.codehaus.plexus</groupId><artifactId>plexus-utils</artifactId>"
               "<version>debian</version></dependency></dependencies></project>").encode()
        jar = io.BytesIO()
        with zipfile.ZipFile(jar, "w") as z:
            z.writestr("hello.txt", WORDS)
        for end, body in ((".pom", pom), (".jar", jar.getvalue())):
            self.add(f"/maven2/test/exeat/hello/1/hello-1{end}", body)
            self.add(f"/maven2/test/exeat/hello/1/hello-1{end}.sha1", hashlib.sha1(body).hexdigest())

    def look_up(self, path):
        file = DEBIAN_MAVEN / path.removeprefix("/maven2/").removesuffix(".sha1")
        if not path.startswith("/maven2/") or ".." in path or not file.is_file():
            return super().look_up(path)
        body = file.read_bytes()
        return "application/octet-stream", hashlib.sha1(body).hexdigest().encode() if path.endswith(".sha1") else body


class Images:
    """docker-registry, with one image in it. auth: as its configuration has it; credentials: "user:password", for that."""

    def __init__(self, directory, cert, key, auth=None, credentials=None):
        self.port, self.directory = free_port(), directory
        config = {"version": 0.1, "log": {"level": "info"}, "storage": {"filesystem": {"rootdirectory": str(directory / "images")},
                  "delete": {"enabled": True}}, "http": {"addr": f"127.0.0.1:{self.port}", "secret": "x",
                                                         "tls": {"certificate": str(cert), "key": str(key)}}}
        if auth:
            config["auth"] = auth
        (directory / "registry.yml").write_text(json.dumps(config))
        self.log = open(directory / "registry.log", "wb")
        self.process = subprocess.Popen(["docker-registry", "serve", directory / "registry.yml"], stdout=self.log, stderr=self.log,
                                        env=clean_environment(HOME=str(directory)))
        wait_until(lambda: b"listening on" in self.said() or self.process.poll() is not None, "docker-registry")
        assert self.process.poll() is None, self.said()
        self.layout()
        self.put(*(("--dest-creds", credentials) if credentials else ()))

    def put(self, *words):
        run("skopeo", "--insecure-policy", "copy", "--dest-tls-verify=false", *words, f"dir:{self.directory / 'image'}",
            f"docker://127.0.0.1:{self.port}/team/hello:1", env=clean_environment(HOME=str(self.directory)))

    def said(self):
        return (self.directory / "registry.log").read_bytes()

    def layout(self):
        """skopeo's "dir:"."""
        top, kind = self.directory / "image", "application/vnd.oci.image."
        layer = packed({"hello": WORDS})
        config = json.dumps({"architecture": "amd64", "os": "linux", "config": {},
                             "rootfs": {"type": "layers", "diff_ids": [digest(gzip.decompress(layer))]}}).encode()
        manifest = json.dumps({"schemaVersion": 2, "mediaType": kind + "manifest.v1+json",
                               "config": {"mediaType": kind + "config.v1+json", "digest": digest(config), "size": len(config)},
                               "layers": [{"mediaType": kind + "layer.v1.tar+gzip", "digest": digest(layer), "size": len(layer)}]})
        top.mkdir()
        (top / "version").write_text("Directory Transport Version: 1.1\n")
        (top / "manifest.json").write_text(manifest)
        for blob in (config, layer):
            (top / digest(blob).split(":")[1]).write_bytes(blob)
        self.layer, self.digest = digest(layer), digest(manifest.encode())

    def stop(self):
        self.process.terminate()
        self.process.wait(PATIENCE)
        self.log.close()


class Registries:
    """All of them behind one port, but the images, which have their own."""

    def __init__(self, directory, pki):
        self.by_host = {NPM: Npm(), PYPI: PyPI(), CARGO: Cargo(), GO: Go(), MAVEN: Maven()}
        for host, make in ((DEBIAN, Debian), (GIT, Git)):
            (directory / host).mkdir()
            self.by_host[host] = make(directory / host)
        self.images = Images(directory, pki[1], pki[2])
        self.origin = Origin(pki[1], pki[2], script=lambda r: self.by_host[r.field("host").split(":")[0]].script(r))

    def __getitem__(self, host):
        return self.by_host[host]

    def port(self, host):
        return self.images.port if host == OCI else self.origin.port

    def seen(self):
        """What reached them, all of it by the gateway, none with a token; the images' have a log of their own."""
        assert all(r.field("proxy-authorization") is None and r.field("via").endswith("gw.test") for r in self.origin.requests)
        return [f"{r.method} {r.target}" for r in self.origin.requests]

    def stop(self):
        self.by_host[DEBIAN].stop()
        self.images.stop()
        self.origin.close()
