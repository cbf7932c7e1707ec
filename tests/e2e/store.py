"""A registry of everything on one host, as paths and bytes: Debian packages, images, Go modules, crates, Maven's files, a repository."""
import gzip
import hashlib
import io
import json
import subprocess
import tarfile
import zipfile


def answer(kind, body):
    return b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n" % (kind.encode(), len(body)) + body


MISSING = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"


def digest(body):
    return "sha256:" + hashlib.sha256(body).hexdigest()


def packed(files, top=""):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as t:
        for name, text in files.items():
            entry = tarfile.TarInfo(top + name)
            entry.size, entry.mode = len(text), 0o644
            t.addfile(entry, io.BytesIO(text.encode()))
    return out.getvalue()


class Store:
    def __init__(self, host, directory):
        self.host, self.paths = host, {"/data": ("text/plain", b"by your leave\n")}
        self.debian(directory)
        self.image()
        self.go()
        self.cargo()
        self.maven()

    def script(self, request):
        found = self.paths.get(request.target.split("?")[0])
        if not found:
            return MISSING
        whole = answer(*found)
        return whole[:whole.index(b"\r\n\r\n") + 4] if request.method == "HEAD" else whole

    def add(self, path, body, kind="application/octet-stream"):
        self.paths[path] = (kind, body if isinstance(body, bytes) else body.encode())

    def debian(self, directory):
        tree = directory / "deb"
        (tree / "DEBIAN").mkdir(parents=True)
        (tree / "DEBIAN/control").write_text("Package: exeat-hello\nVersion: 1.0\nArchitecture: all\nMaintainer: x <x@y.test>\n"
                                             "Description: a word from the registry\n")
        subprocess.run(["dpkg-deb", "--root-owner-group", "-b", tree, directory / "hello.deb"], check=True, capture_output=True)
        self.deb = (directory / "hello.deb").read_bytes()
        packages = ((tree / "DEBIAN/control").read_text() + f"Filename: pool/hello.deb\nSize: {len(self.deb)}\n"
                    f"SHA256: {hashlib.sha256(self.deb).hexdigest()}\n\n").encode()
        release = ("Origin: test\nSuite: stable\nCodename: stable\nArchitectures: all amd64\nComponents: main\n"
                   f"Date: Thu, 01 Jan 2026 00:00:00 UTC\nSHA256:\n {hashlib.sha256(packages).hexdigest()} {len(packages)} "
                   "main/binary-amd64/Packages\n")
        self.add("/debian/dists/stable/Release", release)
        self.add("/debian/dists/stable/main/binary-amd64/Packages", packages)
        self.add("/debian/pool/hello.deb", self.deb)

    def image(self):
        layer = packed({"hello": "by your leave\n"})
        config = json.dumps({"architecture": "amd64", "os": "linux", "config": {},
                             "rootfs": {"type": "layers", "diff_ids": [digest(gzip.decompress(layer))]}}).encode()
        kind = "application/vnd.oci.image."
        manifest = json.dumps({"schemaVersion": 2, "mediaType": kind + "manifest.v1+json",
                               "config": {"mediaType": kind + "config.v1+json", "digest": digest(config), "size": len(config)},
                               "layers": [{"mediaType": kind + "layer.v1.tar+gzip", "digest": digest(layer),
                                           "size": len(layer)}]}).encode()
        self.add("/v2/", "{}", "application/json")
        for name in ("1", digest(manifest)):
            self.add(f"/v2/hello/manifests/{name}", manifest, kind + "manifest.v1+json")
        for blob in (config, layer):
            self.add(f"/v2/hello/blobs/{digest(blob)}", blob)

    def go(self):
        module, base = "code.test/hello@v1.0.0", "/go/code.test/hello/@v/"
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as z:
            z.writestr(f"{module}/go.mod", "module code.test/hello\n")
            z.writestr(f"{module}/hello.go", 'package hello\n\nconst Words = "by your leave"\n')
        self.add(base + "v1.0.0.info", '{"Version":"v1.0.0","Time":"2026-01-01T00:00:00Z"}')
        self.add(base + "v1.0.0.mod", "module code.test/hello\n")
        self.add(base + "v1.0.0.zip", out.getvalue())

    def cargo(self):
        crate = packed({"Cargo.toml": '[package]\nname = "exeat-hello"\nversion = "1.0.0"\n', "src/lib.rs": "\n"}, "exeat-hello-1.0.0/")
        row = {"name": "exeat-hello", "vers": "1.0.0", "deps": [], "cksum": hashlib.sha256(crate).hexdigest(), "features": {},
               "yanked": False}
        self.add("/cargo/config.json", json.dumps({"dl": f"https://{self.host}/cargo/dl/{{crate}}/{{version}}"}))
        self.add("/cargo/ex/ea/exeat-hello", json.dumps(row) + "\n")
        self.add("/cargo/dl/exeat-hello/1.0.0", crate)

    def maven(self):
        pom = ('<project><modelVersion>4.0.0</modelVersion><groupId>test.exeat</groupId><artifactId>parent</artifactId>'
               '<version>1</version><packaging>pom</packaging></project>')
        base = "/maven/test/exeat/parent/1/parent-1.pom"
        self.add(base, pom)
        self.add(base + ".sha1", hashlib.sha1(pom.encode()).hexdigest())
