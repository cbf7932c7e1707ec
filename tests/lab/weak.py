"""
A service of our own: right in everything the audit asks, or wrong in just one thing. The setting is the id of the check that it gets
wrong; what else goes wrong with it cannot be had apart, and WITH says so.
"""
import base64
import json
import socket
import threading
import time
from urllib.parse import parse_qs, unquote, urlsplit

from tokens import Issuer, Key, jwt
from upstream import read_request, reply
from verifier import Denied, Verifier
from weak_mirror import Mirror
from weak_tokens import CLIENT, CLIENT_SECRET, Tokens
from world import NAMES, SERVICE
from zone import is_below, lookup

PROGRAM = "weak service"
PORT, NAME = 8099, "weak.test"
HOSTS = {NAME, f"{NAME}:{PORT}", f"{SERVICE}:{PORT}"}
URL_MAX, HEAD_MAX, BODY_MAX = 4096, 16384, 1024
UPLINK_SECRET = "UPLINKSECRET-0123456789"
DETAILS = [{"type": "weak-service", "actions": ["read"], "locations": [f"http://{NAME}/"]}]  # what its tokens are for (RFC 9396)

WEAKNESSES = {
    "AN-2": "lists everybody's objects to anybody",
    "AN-5": "gives tokens to anybody",
    "AN-6": "has the vendor's login",
    "AN-7": "shows its metrics to anybody",
    "AN-8": "names an authorization server on a foreign host",
    "TV-1": "takes any bearer that is no JWT",
    "TV-2": "ten minutes of leeway",
    "TV-3": "does not look at nbf and iat",
    "TV-4": "needs no exp",
    "TV-5": "takes alg none",
    "TV-6": "takes HS256 under its public key",
    "TV-7": "does not verify signatures",
    "TV-8": "looks for the kid as a file",
    "TV-9": "trusts the key in the header",
    "TV-10": "ignores crit",
    "TV-11": "ignores typ",
    "TV-12": "takes any issuer",
    "TV-13": "takes the second of two claims, and strings for numbers",
    "TV-14": "takes the token from the query",
    "TV-15": "takes tokens for ten years",
    "TV-16": "takes revoked tokens",
    "TV-17": "takes HS256 under an empty key",
    "TV-18": "renews for anybody, as often and for what he likes",
    "AS-1": "ignores aud",
    "AS-2": "takes a list of audiences",
    "AS-3": "needs no aud",
    "AS-4": "gives tokens for itself whatever resource is named",
    "AS-5": "lets a reader write",
    "AS-6": "lets every scope open every path",
    "AS-7": "takes * and ADMIN for scopes",
    "AS-8": "ignores authorization_details",
    "AS-9": "takes the gateway's own tokens",
    "AS-10": "takes another tenant's token",
    "DE-1": "exchanges a token for a wider one",
    "DE-2": "leaves the actor out of exchanged tokens",
    "DE-3": "does not look at may_act",
    "DE-4": "exchanges a token for one that lives longer",
    "RP-6": "takes bound tokens without proof",
    "NT-1": "believes X-Forwarded-For",
    "NT-2": "believes Forwarded",
    "NT-3": "makes links of Host",
    "NT-4": "believes Remote-User",
    "NT-5": "routes by X-Original-URL",
    "NT-6": "believes X-SSL-Client-Verify",
    "NT-7": "asks for no credential at 127.0.0.3",
    "NT-8": "obeys X-HTTP-Method-Override",
    "NT-9": "asks for no credential under X-Forwarded-Proto: https",
    "RL-1": "fetches absolute targets",
    "RL-2": "tunnels",
    "RL-3": "fetches from Host",
    "RL-4": "fetches from a host in the path",
    "RL-7": "switches to any protocol",
    "RL-8": "fetches from addresses that are spelt oddly",
    "RL-9": "echoes TRACE, without the credentials",
    "RL-10": "fetches ftp: and gopher:",
    "RL-11": "sends search texts upstream",
    "RL-12": "reads on behind a request that says its length in two ways",
    "FU-1": "fetches URLs from parameters",
    "FU-3": "tries a webhook out wherever it is to go",
    "FU-4": "logs in wherever the upstream's challenge says",
    "FU-5": "follows Link wherever it goes",
    "FU-6": "follows redirects wherever they go",
    "FU-7": "looks a name up to check it, and again to fetch from it",
    "FU-8": "reads file: URLs",
    "FU-9": "fetches URLs from parameters, with its password",
    "RD-1": "names a foreign host in Link",
    "RD-2": "hands out URLs that are good for a week",
    "RD-3": "names a foreign host in metadata",
    "RD-4": "redirects to wherever ?next= says",
    "RD-6": "names a foreign host in its challenge",
    "RD-7": "redirects to another port with a user in the URL",
    "RD-8": "sends content on to where a 307 of the upstream says",
    "XT-1": "lets tenants read each other's objects",
    "XT-2": "lists all tenants' names",
    "XT-4": "tells whether others have fetched it",
    "XT-5": "calls everybody by one name",
    "XT-7": "shows other tenants' paths in error pages",
    "PW-1": "lets a reader publish",
    "PW-3": "lets a reader delete",
    "PW-6": "says that a reader may write",
    "PW-7": "says 100 before it looks",
    "CR-1": "shows the credential in error pages",
    "CR-2": "echoes TRACE",
    "CR-3": "shows requests at /headers",
    "CR-4": "shows its own password for the upstream",
    "CR-6": "takes Proxy-Authorization for Authorization, and shows it",
    "CI-1": "keeps private pages for everybody",
    "CI-2": "keeps pages that set cookies",
    "CI-3": "forwards what is no part of its key",
    "CI-4": "has no query in its key",
    "CI-5": "keeps what must not be kept",
    "CI-6": "keeps private pages whose names end in .css",
    "CI-7": "keeps that something is missing",
    "UP-1": "takes bodies of any size",
    "UP-2": "takes URLs of any length",
    "UP-3": "keeps encoded bodies as they are",
    "UP-4": "takes reports from anybody",
    "CN-1": "shows what was asked for",
    "CN-2": "shows User-Agent, Referer and query in error pages",
    "CN-3": "shows a tenant's objects to anybody",
    "CN-5": "has paths in metrics that anybody reads",
    "CN-6": "looks names up that it does not fetch from",
    "CN-7": "shows objects after they were deleted",
}
# Whoever fetches by name tells its upstream the name (RL-11), so that "strong" has no mirror and "mirror" is right in all but that.
CREDENTIALS = (b"authorization", b"cookie", b"proxy-authorization", b"x-api-key")
SETTINGS = {"strong": "right in everything", "mirror": "right in everything, and fetches from its upstream"} | WEAKNESSES
MIRRORS = {"mirror", "FU-4", "FU-5", "FU-6", "RD-8", "CR-4", "XT-4"} | {c for c in WEAKNESSES if c.startswith("CI-")}
WRITERS = {"XT-1", "XT-2", "CN-3", "CN-7", "UP-1", "UP-3"}  # there the tenants' tokens may write, or it could not be shown


def answer_json(status, value, **fields):
    return reply(status, json.dumps(value), Content_Type="application/json", **fields)


def two_readings(r):
    """RFC 9112 6.3, 5.1, 2.2: where one reader ends the request here, another may go on."""
    lines = r.head.rstrip(b"\r\n").split(b"\r\n")[1:]
    coding, lengths = r.fields("transfer-encoding"), r.fields("content-length")
    return (bool(coding) and (bool(lengths) or coding != ["chunked"]) or len(set(lengths)) > 1
            or any(b"\r" in l or l[:1] in b" \t" or l.partition(b":")[0] != l.partition(b":")[0].strip() for l in lines))


class Weak:
    def __init__(self, fixture):
        self.weakness, self.world = fixture.setting, fixture.world
        self.lock, self.asked = threading.Lock(), []
        self.objects = {"/t/a/ok": ("tenant-a", b"an object of tenant a\n"), "/t/b/ok": ("tenant-b", b"an object of tenant b\n")}
        self.issuer = Issuer(fixture.world.directory)
        self.gateway = Key()
        keys = {("issuer.test", self.issuer.key.kid): self.issuer.key.private.public_key()}
        if self.is_weak("AS-9"):
            keys["gw.test", "gateway-1"] = self.gateway.private.public_key()
        self.verifier = Verifier(keys, NAME, self.is_weak)
        self.tokens = Tokens(self.issuer, self.verifier, NAME, {f"http://{NAME}/", f"http://{SERVICE}:{PORT}"}, self.is_weak)
        self.mirror = Mirror(self.world, self.is_weak, UPLINK_SECRET)
        self.listener = self.world.listen(SERVICE, PORT)
        threading.Thread(target=self.accept, daemon=True).start()
        self.world.closers.append(self.close)

    def is_weak(self, check):
        return self.weakness == check

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    # ---- the wire

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        with connection, connection.makefile("rb") as reader:
            connection.settimeout(30)
            try:
                while r := read_request(reader, SERVICE, PORT, lambda seen: self.before_body(connection, seen)):
                    r.peer = connection.getpeername()[0]
                    self.exchange(connection, r)
                    if (r.field("connection") or "").lower() == "close":
                        return
            except (OSError, ValueError):
                pass

    def before_body(self, connection, r):
        """False: it was answered, and the body is not read."""
        if two_readings(r):
            if not self.is_weak("RL-12"):
                connection.sendall(reply("400 Bad Request", b"this can be read in two ways\n", Connection="close"))
                return False
            if "chunked" in (r.field("transfer-encoding") or ""):
                r.head = r.head.replace(b"Content-Length", b"X-Not-Length")
        if (r.field("expect") or "").lower() != "100-continue":
            return True
        if self.is_weak("PW-7"):
            connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
            return True
        connection.sendall(self.answer(r, b"Connection: close\r\n"))
        return False

    def exchange(self, connection, r):
        if r.line.startswith("CONNECT ") and self.is_weak("RL-2"):
            return self.mirror.tunnel(connection, r.target)
        connection.sendall(self.answer(r))

    def answer(self, r, more=b""):
        try:
            whole = self.route(r)
        except Denied as e:
            whole = self.unauthorized(r, e)
        except RecursionError:
            whole = reply("500 Internal Server Error", b"too deep\n")
        except RuntimeError as e:
            whole = reply("500 Internal Server Error", f"{e}\n")
        head, _, body = whole.partition(b"\r\n\r\n")
        return head + b"\r\n" + more + b"\r\n" + (b"" if r.line.startswith("HEAD ") else body)

    # ---- who asks

    def unauthorized(self, r, denied):
        if denied.status != 401:
            return answer_json(f"{denied.status} Refused", {"error": "invalid_request"})
        realm = "http://elsewhere.test/token" if self.is_weak("RD-6") else f"http://{SERVICE}:{PORT}/token"
        error = ', error="invalid_token"' if self.carried(r) else ""
        return answer_json("401 Unauthorized", {"error": "invalid_token" if error else "credential_required"},
                           WWW_Authenticate=f'Bearer realm="{realm}"{error}')

    def carried(self, r):
        """Every token that the request carries where this service looks."""
        found = [v for v in r.fields("authorization")]
        if self.is_weak("CR-6"):
            found += r.fields("proxy-authorization")
        tokens = [v[7:].strip() for v in found if v.lower().startswith("bearer ")]
        if self.is_weak("TV-14"):
            tokens += parse_qs(urlsplit(r.target).query).get("access_token", [])
        return tokens

    def believes(self, r):
        """Fields that anybody may send, and that grant what only a credential should."""
        def any_of(check, *names):
            return self.is_weak(check) and any(r.field(n) for n in names)

        inside = ("127.", "10.", "192.168.", "172.16.", "::1")
        return (self.is_weak("NT-1") and any((r.field(n) or "").startswith(inside) for n in
                                             ("x-forwarded-for", "x-real-ip", "true-client-ip", "cf-connecting-ip"))
                or self.is_weak("NT-2") and "for=127.0.0.1" in (r.field("forwarded") or "").lower()
                or any_of("NT-4", "remote-user", "x-remote-user", "x-webauth-user", "x-forwarded-user", "x-auth-request-user")
                or any_of("NT-6", "client-cert", "x-ssl-client-verify", "x-client-dn")
                or self.is_weak("NT-7") and r.peer == "127.0.0.3"
                or self.is_weak("NT-9") and r.field("x-forwarded-proto") == "https")

    def caller(self, r, path):
        """The claims of who asks; Denied when nobody does that may."""
        vendor = self.is_weak("AN-6") and r.field("authorization") == "Basic " + base64.b64encode(b"admin:admin").decode()
        if self.believes(r) or vendor:
            return {"sub": "tenant-a", "scope": "read"}
        tokens = self.carried(r)
        if len(tokens) > 1:
            raise Denied("two credentials", 400)
        if not tokens or r.field("authorization") and "," in r.field("authorization"):
            raise Denied("no credential")
        return self.verifier.verify(tokens[0])

    def has_scope(self, claims, wanted):
        scopes = claims.get("scope", "").split(" ")
        if self.is_weak("AS-7"):
            scopes = [s.lower() for s in claims.get("scope", "").replace(",", " ").split()]
            return wanted in scopes or "*" in scopes or "admin" in scopes
        if "scope" not in claims:
            return any(self.is_weak("AS-8") or wanted in d["actions"] for d in claims.get("authorization_details", []))
        return wanted in scopes

    def own_name(self, r):
        """What this service calls itself in links."""
        if self.is_weak("NT-3"):
            return r.field("x-forwarded-host") or r.field("host") or NAME
        return NAME

    # ---- what is asked

    def route(self, r):
        method, target = (r.line.split(" ") + ["", ""])[:2]
        if method == "TRACE":
            return self.trace(r)
        if method == "CONNECT":
            return reply("405 Method Not Allowed", b"", Allow="GET, HEAD")
        if len(target) > URL_MAX and not self.is_weak("UP-2"):
            return reply("414 URI Too Long")
        if len(r.head) > HEAD_MAX + URL_MAX and not self.is_weak("UP-2"):
            return reply("431 Request Header Fields Too Large")
        if self.is_weak("RL-7") and r.field("upgrade"):
            return b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + r.field("upgrade").encode() + b"\r\n\r\n"
        if elsewhere := self.mirror.conduit(r, method, target, HOSTS):
            return elsewhere
        if not target.startswith("/"):
            if urlsplit(target).netloc not in HOSTS:
                return reply("421 Misdirected Request")
            target = urlsplit(target)._replace(scheme="", netloc="").geturl() or "/"
        elif r.field("host") not in HOSTS and not self.is_weak("NT-3"):
            return reply("421 Misdirected Request")
        if self.is_weak("NT-8") and (r.field("x-http-method-override") or r.field("x-method-override")) == "PUT":
            return reply("201 Created")
        url = urlsplit(target)
        return self.page(r, method, unquote(url.path), parse_qs(url.query, keep_blank_values=True))

    def trace(self, r):
        if not (self.is_weak("CR-2") or self.is_weak("RL-9")):
            return reply("405 Method Not Allowed", b"", Allow="GET, HEAD")
        lines = [l for l in r.head.rstrip().split(b"\r\n")
                 if self.is_weak("CR-2") or l.split(b":")[0].lower() not in CREDENTIALS]
        return reply("200 OK", b"\r\n".join(lines) + b"\r\n", Content_Type="message/http")

    def page(self, r, method, path, query):
        with self.lock:
            self.asked.append(path)
        if self.is_weak("NT-5") and not path.startswith("/t/") and (other := r.field("x-original-url") or r.field("x-rewrite-url")):
            return reply("200 OK", self.objects.get(other, ("", b"served by X-Original-URL\n"))[1])
        if path.startswith("/mirror/") and self.weakness in MIRRORS and (method in ("GET", "HEAD") or self.is_weak("RD-8")):
            return self.mirror.answer(r, path)
        if method == "OPTIONS":
            return reply("204 No Content", b"", Allow="GET, HEAD" + (", PUT, DELETE" if self.is_weak("PW-6") else ""))
        handler = {"/": self.home, "/.well-known/oauth-protected-resource": self.metadata, "/whoami": self.whoami, "/list": self.listing,
                   "/search": self.search, "/go": self.go, "/fetch": self.fetch, "/hooks": self.hooks, "/token": self.token, "/revoke": self.revoke, "/metrics": self.metrics,
                   "/headers": self.headers, "/csp-report": self.reports}.get(path)
        if handler:
            return handler(r, method, query)
        if path.startswith("/t/"):
            return self.object(r, method, path)
        return self.missing(r)

    def missing(self, r):
        """The page for what is not there says nothing of who asked, or for what."""
        text = "not found\n"
        if self.is_weak("CR-1"):
            text += f"you sent {r.field('authorization')} {r.field('cookie')} {r.field('x-api-key')}\n"
        if self.is_weak("CN-2"):
            text += f"{r.target} {r.field('user-agent')} {r.field('referer')}\n"
        if self.is_weak("CR-6"):
            text += f"you sent {r.field('proxy-authorization')}\n"
        if self.is_weak("XT-7") and self.carried(r):
            self.caller(r, r.target)
            text += "recently: " + " ".join(self.asked[-200:]) + "\n"
        return reply("404 Not Found", text)

    def home(self, r, method, query):
        text = f"<a href=\"http://{self.own_name(r)}/t/a/ok\">objects</a>\n"
        if self.is_weak("CN-1"):
            text += "recently: " + " ".join(self.asked[-200:]) + "\n"
        return reply("200 OK", text, Content_Type="text/html", Cache_Control="no-store")

    def metadata(self, r, method, query):
        return answer_json("200 OK", {"resource": f"http://{NAME}/", "scopes_supported": ["read"], "authorization_servers": [
            "http://elsewhere.test" if self.is_weak("AN-8") else f"http://{NAME}"]})

    def whoami(self, r, method, query):
        claims = self.caller(r, "/whoami")
        return answer_json("200 OK", {"sub": "service" if self.is_weak("XT-5") else claims["sub"]}, Cache_Control="no-store")

    def listing(self, r, method, query):
        if self.is_weak("AN-2"):
            return answer_json("200 OK", {"objects": sorted(self.objects)})
        who = self.caller(r, "/list")["sub"]
        return answer_json("200 OK", {"objects": sorted(p for p, (o, _) in self.objects.items() if o == who or self.is_weak("XT-2"))})

    def search(self, r, method, query):
        text = (query.get("q") or query.get("text") or [""])[0]
        if self.is_weak("RL-11"):
            self.mirror.fetch("upstream.test", 80, "/search?q=" + text)
            return answer_json("200 OK", {"found": []})
        self.caller(r, "/search")
        return answer_json("200 OK", {"found": []})

    def go(self, r, method, query):
        to = next((query[k][0] for k in ("next", "url", "to", "redirect", "return", "continue") if k in query), "/")
        if self.is_weak("RD-4") or to.startswith("/") and to[1:2] not in ("/", "\\"):
            return reply("302 Found", b"", Location=to)
        return reply("400 Bad Request", b"only places here\n")

    def fetch(self, r, method, query):
        url = urlsplit(next((v[0] for v in query.values()), ""))
        if (self.is_weak("FU-1") or self.is_weak("FU-9")) and url.hostname:
            own = {"Authorization": "Bearer " + UPLINK_SECRET} if self.is_weak("FU-9") else {}
            return reply("200 OK", self.mirror.fetch(url.hostname, url.port or 80, url.path or "/", own).body)
        if self.is_weak("CN-6") and is_below(url.hostname):
            lookup(self.world, url.hostname)
        if self.is_weak("FU-7") and is_below(url.hostname) and lookup(self.world, url.hostname) == NAMES["upstream.test"]:
            return reply("200 OK", self.mirror.fetch(lookup(self.world, url.hostname), 80, url.path or "/").body)
        if self.is_weak("FU-8") and url.scheme.lower() == "file":
            return self.mirror.read_file(url.path)
        return reply("400 Bad Request", b"nothing is fetched for you\n")

    def hooks(self, r, method, query):
        """A webhook of the caller's; it is tried out when it is made."""
        self.caller(r, "/hooks")
        try:
            to = urlsplit(json.loads(r.body)["url"])
        except (ValueError, KeyError, TypeError):
            return reply("400 Bad Request", b"no url\n")
        if not self.is_weak("FU-3"):
            return reply("422 Unprocessable Content", b"webhooks go to hosts of a list\n")
        self.mirror.fetch(to.hostname, to.port or 80, to.path, method="POST", body=b'{"event": "ping"}')
        return reply("201 Created", b"", Location="/hooks/1")

    def token(self, r, method, query):
        if self.is_weak("AN-5") and not r.field("authorization") and b"refresh_token" not in r.body:
            return answer_json("200 OK", {"access_token": self.issuer.token(aud=NAME, access=None, scope="read write"), "token_type": "Bearer"})
        return self.tokens.answer(r)

    def revoke(self, r, method, query):
        return self.tokens.revoke(r)

    def metrics(self, r, method, query):
        if self.is_weak("AN-7"):
            return reply("200 OK", f"requests_total {len(self.asked)}\n", Content_Type="text/plain; version=0.0.4")
        if self.is_weak("CN-5"):
            return reply("200 OK", "".join(f'requests_total{{path="{p}"}} 1\n' for p in self.asked[-200:]), Content_Type="text/plain; version=0.0.4")
        return self.missing(r)

    def headers(self, r, method, query):
        return reply("200 OK", r.head) if self.is_weak("CR-3") else self.missing(r)

    def reports(self, r, method, query):
        return reply("204 No Content") if self.is_weak("UP-4") and method == "POST" else self.missing(r)

    # ---- objects

    def object(self, r, method, path):
        tenant = "tenant-" + path.split("/")[2]
        if self.is_weak("CN-3") and method in ("GET", "HEAD") and path in self.objects and not path.endswith("/ok"):
            return reply("200 OK", self.objects[path][1])
        claims = self.caller(r, path)
        others = self.is_weak("AS-10") or self.is_weak("AS-6") or self.is_weak("XT-1") and path not in ("/t/a/ok", "/t/b/ok")
        if claims["sub"] != tenant and not others:
            return answer_json("403 Forbidden", {"error": "not_yours"})
        if method in ("GET", "HEAD"):
            return self.read(r, claims, path)
        wanted = "read" if self.is_weak("AS-5") or self.is_weak("PW-1") and method == "PUT" or self.is_weak("PW-3") and method == "DELETE" else "write"
        if not self.has_scope(claims, wanted):
            return answer_json("403 Forbidden", {"error": "insufficient_scope"},
                               WWW_Authenticate='Bearer error="insufficient_scope", scope="write"')
        return self.write(r, method, path, claims)

    def read(self, r, claims, path):
        if not self.has_scope(claims, "read"):
            return answer_json("403 Forbidden", {"error": "insufficient_scope"}, WWW_Authenticate='Bearer error="insufficient_scope", scope="read"')
        if path not in self.objects and path != "/t/a/moved":
            return reply("404 Not Found", b"not found\n")
        if path.endswith("/moved"):
            return reply("302 Found", b"", Location=self.moved(path))
        fields = {"Cache_Control": "no-store", "Content_Location": f"http://{self.own_name(r)}{path}"}
        if self.is_weak("RD-1"):
            fields["Link"] = '<http://cdn.elsewhere.test/ok>; rel="alternate"'
        if self.is_weak("RD-3"):
            return answer_json("200 OK", {"name": "ok", "dist": {"tarball": "http://cdn.elsewhere.test/ok.tgz"}}, **fields)
        return reply("200 OK", self.objects[path][1], **fields)

    def moved(self, path):
        """Where an object is kept that this service hands on."""
        if self.is_weak("RD-7"):
            return f"http://user:pass@{NAME}:8100{path}"
        seconds = 604800 if self.is_weak("RD-2") else 60
        return f"http://{NAME}/kept{path}?X-Amz-Expires={seconds}&X-Amz-SignedHeaders=host&X-Amz-Signature={'0' * 64}"

    def write(self, r, method, path, claims):
        if method == "DELETE":
            if not self.is_weak("CN-7"):
                self.objects.pop(path, None)
            return reply("204 No Content")
        if method != "PUT" and not (method == "POST" and self.is_weak("UP-1")):
            return reply("405 Method Not Allowed", b"", Allow="GET, HEAD, PUT, DELETE")
        if len(r.body) > BODY_MAX and not self.is_weak("UP-1"):
            return reply("413 Content Too Large")
        if r.field("content-encoding") and not self.is_weak("UP-3"):
            return reply("415 Unsupported Media Type", b"", Accept_Encoding="identity")
        with self.lock:
            self.objects[path] = (claims["sub"], r.body)
        return reply("201 Created")


def write_secret(path, text):
    path.touch(0o600)
    path.write_text(text)


def start(fixture):
    service = fixture.service = Weak(fixture)
    (fixture.world.directory / "planted").write_text("planted-0123456789abcdef-to-be-kept-here\n")
    issuer, directory = service.issuer, fixture.world.directory
    scope = "read write" if fixture.setting in WRITERS else "read"
    for name, tenant in (("reader", "tenant-a"), ("other", "tenant-b")):
        write_secret(directory / f"{name}.token", issuer.token(access=None, aud=NAME, sub=tenant, scope=scope, exp=issuer.now() + 1800,
                     authorization_details=DETAILS))
    write_secret(directory / "client.login", f"{CLIENT}:{CLIENT_SECRET}")
    now = int(time.time())
    claims = {"iss": "gw.test", "aud": "gw.test" if fixture.setting != "AS-9" else NAME, "sub": "tenant-a", "client_id": "tenant-a",
              "jti": "1", "iat": now, "exp": now + 600, "scope": "read"}
    write_secret(directory / "leave.token", jwt(service.gateway, claims, {"alg": "ES256", "typ": "at+jwt", "kid": "gateway-1"}))
    fixture.port = PORT
    fixture.issuer = issuer
