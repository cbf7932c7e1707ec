"""
What the services of the lab fetch from, and what they should not reach: one origin that listens as upstream.test, unlisted.test,
internal.test and an address without a name, keeps every byte it was sent, and answers by the path. The paths are data for whoever writes a
manifest: PATHS says what each is for.
"""
import base64
import contextlib
import email.utils
import hashlib
import itertools
import json
import selectors
import socket
import threading
from dataclasses import dataclass
from urllib.parse import parse_qs, unquote, urlsplit

from world import NAKED, NAMES

ADDRESSES = {NAMES[n]: n for n in ("upstream.test", "unlisted.test", "internal.test")} | {NAKED: NAKED}
PORTS = [22, 25, 80, 443, 8080, 9002]

PATHS = {
    "/pool/**": "a package, the same for everybody",
    "/fx-307*": "npm: 307 to internal.test",
    "/pool/fetch?fresh, ?missing": "as /fresh/**, and as what is not there",
    "/pool/to/HOST/**": "302 to /pool/** of HOST",
    "/dists/**": "an index",
    "/adm": "something internal",
    "/whoami": "says who asks, 401 without a credential",
    "/auth/public/**": "401 without Authorization; with it a body of one's own and `Cache-Control: public`",
    "/auth/max-age/**": "the same with `max-age` alone, which no shared cache may keep",
    "/cookie/**": "a page that sets a fresh cookie and may be kept",
    "/fresh/**, /pool/fresh*": "a page that is another each time, and may not be kept",
    "/link/HOST/**": "a page whose next one is on HOST",
    "/echo-host/**": "a link made of X-Forwarded-Host, or of Host",
    "/NAME, /NAME/-/NAME-1.0.0.tgz": "npm: `onpath`, `offpath` (its tarball is on internal.test), `fx-*`",
    "/-/v1/search": "npm: finds what is asked for",
    "/v2/lib/away/**": "302 to internal.test, for who has a token",
    "/v2/lib/ok/manifests/latest": "an image, for who has a token; who has none is sent to the host `realm` for one",
}
PACKAGES = ("onpath", "offpath", "fx-")


@dataclass
class Seen:
    host: str  # who was asked: a name of the lab
    port: int
    head: bytes
    body: bytes
    peer: str = ""  # who asked: an address

    @property
    def line(self):
        return self.head.split(b"\r\n", 1)[0].decode("latin-1")

    @property
    def target(self):
        return (self.line.split(" ") + ["", ""])[1]

    def fields(self, name):
        pairs = (line.partition(b":") for line in self.head.split(b"\r\n")[1:])
        return [v.strip().decode("latin-1") for k, _, v in pairs if k.strip().lower() == name.lower().encode()]

    def field(self, name):
        return next(iter(self.fields(name)), None)


def reply(status, body=b"", **fields):
    body = body.encode() if isinstance(body, str) else body
    head = "".join(f"{k.replace('_', '-')}: {v}\r\n" for k, v in fields.items())
    date = email.utils.formatdate(usegmt=True)  # without it nothing is fresh for a cache
    return f"HTTP/1.1 {status}\r\nDate: {date}\r\nContent-Length: {len(body)}\r\n{head}\r\n".encode() + body


def answer_json(status, value, **fields):
    return reply(status, json.dumps(value), Content_Type="application/json", **fields)


def tarball(name):
    """Not a package, but bytes whose sum its metadata can name."""
    return b"tarball of " + name.encode() + b"\n"


def packument(name, host):
    data = tarball(name)
    sri = "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode()
    dist = {"tarball": f"http://{host}/{name}/-/{name}-1.0.0.tgz", "shasum": hashlib.sha1(data).hexdigest(), "integrity": sri}
    return {"_id": name, "name": name, "dist-tags": {"latest": "1.0.0"}, "time": {"1.0.0": "2020-01-01T00:00:00.000Z"},
            "versions": {"1.0.0": {"name": name, "version": "1.0.0", "description": name, "dist": dist}}}


def npm(path):
    name, _, file = path[1:].partition("/-/")
    if file:
        return reply("200 OK", tarball(name), Content_Type="application/octet-stream")
    return answer_json("200 OK", packument(name, "internal.test" if name == "offpath" else "upstream.test"))


def search(query):
    text = parse_qs(query).get("text", [""])[0]
    found = {"package": {"name": "onpath", "version": "1.0.0", "description": f"for {text}", "date": "2020-01-01T00:00:00.000Z",
                         "links": {}, "publisher": {"username": "u", "email": "u@x.test"}, "maintainers": []},
             "score": {"final": 1, "detail": {"quality": 1, "popularity": 1, "maintenance": 1}}, "searchScore": 1}
    return answer_json("200 OK", {"objects": [found], "total": 1, "time": "Mon, 01 Jan 2024 00:00:00 GMT"})


class Image:
    """One image of one layer."""

    def __init__(self):
        self.layer, self.config = b"a layer\n", b'{"architecture":"amd64","os":"linux","rootfs":{"type":"layers","diff_ids":[]}}'
        kind = "application/vnd.docker.distribution.manifest.v2+json"
        self.layer_digest, self.config_digest = digest(self.layer), digest(self.config)
        self.manifest = json.dumps({
            "schemaVersion": 2, "mediaType": kind,
            "config": {"mediaType": "application/vnd.docker.container.image.v1+json", "size": len(self.config), "digest": self.config_digest},
            "layers": [{"mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip", "size": len(self.layer),
                        "digest": self.layer_digest}]}).encode()
        self.kind = kind
        blobs = {f"blobs/{digest(b)}": (b, "application/octet-stream") for b in (self.layer, self.config)}
        self.parts = blobs | {f"manifests/{t}": (self.manifest, kind) for t in ("latest", digest(self.manifest))}

    def answer(self, path):
        if path.startswith("/v2/lib/away/"):
            return reply("302 Found", Location="http://internal.test" + path)
        name, _, rest = path.removeprefix("/v2/").partition("/ok/")
        if name != "lib" or rest not in self.parts:
            return answer_json("404 Not Found", {"errors": [{"code": "NAME_UNKNOWN", "message": "no such name"}]})
        data, kind = self.parts[rest]
        return reply("200 OK", data, Content_Type=kind, Docker_Content_Digest=digest(data), Docker_Distribution_Api_Version="registry/2.0")


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def challenge(host):
    return reply("401 Unauthorized", b"{}", WWW_Authenticate=f'Bearer realm="http://{host}/token",service="upstream.test"',
                 Docker_Distribution_Api_Version="registry/2.0")


class Upstream:
    def __init__(self, world):
        self.log, self.lock, self.count, self.open = [], threading.Lock(), 0, set()
        self.realm = "upstream.test"  # the host that the image registry sends people to for a token
        self.image = Image()
        self.pages = {}  # more of them: path to body
        self.listeners = selectors.DefaultSelector()
        for address, port in itertools.product(ADDRESSES, PORTS):
            self.listeners.register(world.listen(address, port), selectors.EVENT_READ, (address, port))
        self.bell, ring = socket.socketpair()
        self.listeners.register(ring, selectors.EVENT_READ, None)
        self.thread = threading.Thread(target=self.accept, daemon=True)
        self.thread.start()
        world.closers.append(self.close)

    def close(self):
        """From here on the addresses are free, and nobody keeps a connection that he could go on with."""
        self.bell.close()
        self.thread.join()
        with self.lock:
            for connection in self.open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def clear(self):
        with self.lock:
            self.log = []

    def seen(self, host=None, has=None):
        """What arrived at host (any), if its bytes have a text in them."""
        with self.lock:
            return [s for s in self.log if host in (None, s.host) and (has is None or has.encode() in s.head + s.body)]

    def accept(self):
        with self.listeners:
            while self.accept_all(self.listeners.select()):
                pass
            for key in list(self.listeners.get_map().values()):
                key.fileobj.close()

    def accept_all(self, ready):
        for key, _ in ready:
            if key.data is None:
                return False
            connection, _ = key.fileobj.accept()
            threading.Thread(target=self.serve, args=(*key.data, connection), daemon=True).start()
        return True

    def serve(self, address, port, connection):
        with self.lock:
            self.open.add(connection)
        with connection, connection.makefile("rb") as reader:
            connection.settimeout(60)
            try:
                while seen := read_request(reader, ADDRESSES[address], port):
                    with self.lock:
                        self.log.append(seen)
                    answer = self.answer(seen)
                    if seen.line.startswith("HEAD "):
                        answer = answer[:answer.index(b"\r\n\r\n") + 4]
                    connection.sendall(answer)
                    if (seen.field("connection") or "").lower() == "close":
                        return
            except (OSError, ValueError):
                pass
            finally:
                with self.lock:
                    self.open.discard(connection)

    def answer(self, seen):
        url = urlsplit(seen.target)
        path = unquote(url.path)
        if path in self.pages:
            return reply("200 OK", self.pages[path], Content_Type="application/octet-stream")
        if path.startswith("/pool/to/"):
            host, _, rest = path.removeprefix("/pool/to/").partition("/")
            return reply("302 Found", Location=f"http://{host}/pool/{rest}")
        if path == "/pool/fetch" and url.query.startswith(("fresh", "missing")):
            path = "/fresh/" if url.query.startswith("fresh") else "/nothing"
        if path.startswith(("/pool/", "/dists/")) and not path.startswith("/pool/fresh"):
            return reply("200 OK", f"{path} of {seen.host}\n", Content_Type="application/octet-stream",
                         Last_Modified="Mon, 01 Jan 2024 00:00:00 GMT")
        if path in ("/adm", "/admin"):
            return reply("200 OK", f"internal page of {seen.host}\n")
        if path == "/whoami" or path.startswith("/auth/"):
            return self.private(seen, path)
        if path.startswith("/cookie/"):
            with self.lock:
                self.count += 1
            return reply("200 OK", f"session {self.count}\n", Set_Cookie=f"session=s{self.count}; Path=/", Cache_Control="max-age=600")
        if path.startswith(("/fresh/", "/pool/fresh")):
            with self.lock:
                self.count += 1
            return reply("200 OK", f"fresh {self.count}\n", Cache_Control="no-store, private")
        if path.startswith("/link/"):
            host, _, rest = path.removeprefix("/link/").partition("/")
            return reply("200 OK", b"page 1\n", Link=f'<http://{host}/{rest}>; rel="next"', Cache_Control="no-store")
        if path.startswith("/echo-host/"):
            host = seen.field("x-forwarded-host") or seen.field("host")
            return reply("200 OK", f"<a href=\"http://{host}/next\">next</a>\n", Content_Type="text/html", Cache_Control="max-age=600")
        if path == "/-/v1/search":
            return search(url.query)
        if path.startswith("/v2/"):
            return self.image.answer(path) if seen.field("authorization") else challenge(self.realm)
        if path == "/token":
            return answer_json("200 OK", {"token": "given-by-" + seen.host, "expires_in": 300})
        if path.startswith("/fx-307"):
            return reply("307 Temporary Redirect", Location="http://internal.test" + path)
        if path[1:].startswith(PACKAGES):
            return npm(path)
        return answer_json("404 Not Found", {"error": "not found"})

    def private(self, seen, path):
        if not (who := seen.field("authorization")):
            return reply("401 Unauthorized", b"who are you\n", WWW_Authenticate='Basic realm="lab"')
        control = {"public": "public, max-age=600", "max-age": "max-age=600"}.get((path.split("/") + ["", ""])[2], "no-store")
        return reply("200 OK", f"private page of {hashlib.sha256(who.encode()).hexdigest()[:12]}\n", Cache_Control=control)


def read_request(reader, host, port, before_body=lambda seen: True):
    """The next request, or None. before_body(request) may answer after the head; False from it: there is no more."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        line = reader.readline(65536)
        if not line:
            if head:
                return Seen(host, port, head, b"")  # not HTTP, or cut: kept all the same
            return None
        head += line
    seen = Seen(host, port, head, b"")
    if not before_body(seen):
        return None
    if length := seen.field("content-length"):
        seen.body = reader.read(int(length))
    elif "chunked" in (seen.field("transfer-encoding") or ""):
        while size := int(reader.readline(64).split(b";")[0], 16):
            seen.body += reader.read(size)
            reader.readline(8)
        reader.readline(8)
    return seen
