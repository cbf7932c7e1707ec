"""
The owner's manifest of each fixture, written beside it with the files that it names. The audit plays the upstream and the listener,
so that a fixture which is audited runs without an Upstream of the lab's own.
"""
import json

import acng
import nginx
import registry
import squid
import strangers
import verdaccio
import weak
from upstream import PORTS
from world import NAKED, NAMES, SERVICE, ZONE, ZONE_SERVER

HEAD = """\
owner:
  name: the lab
  statement: These programs run in a network of their own, to be tried.
listener:
  addresses: [{unlisted}, {internal}, {naked}]
  ports: {ports}
  outside: unlisted.test
  inside: internal.test
  bare: {naked}
  zone: {zone}
  zone-address: "{zone_server}:53"
upstream:
  host: upstream.test
  addresses: ["{upstream}:80"]
services:
  {name}:
    url: http://{service}:{port}
"""


def head(name, port):
    """What every manifest here begins with, up to the service's address."""
    return HEAD.format(name=name, port=port, ports=PORTS, service=SERVICE, naked=NAKED, upstream=NAMES["upstream.test"],
                       unlisted=NAMES["unlisted.test"], internal=NAMES["internal.test"], zone=ZONE, zone_server=ZONE_SERVER)


def secret(fixture, name, text):
    """A file that nobody else can read: the audit takes no other."""
    path = fixture.world.directory / name
    path.touch(0o600)
    path.write_text(text)


def login(fixture, prefix=""):
    """A credential and a second tenant's, as files of the manifest."""
    lines = ""
    for key, pair in (("credential", fixture.basic), ("tenant2", fixture.basic2)):
        if pair:
            secret(fixture, f"{key}.login", ":".join(pair))
            lines += f'    {key}: {{ from: "file:{key}.login", as: {prefix}basic }}\n'
    return lines


def of_acng(fixture):
    return """\
    kind: http
    protected: [/fxrep/pool/ok_1.0_all.deb]
    fetch: "/fxrep/pool/{nonce}_1.0_all.deb"
    write: "/fxrep/pool/{nonce}_2.0_all.deb"
    admin: [/acng-report.html]
"""


def of_squid(fixture):
    return """\
    kind: proxy
    protected: ["http://upstream.test/pool/ok"]
    fetch: "http://upstream.test/pool/{nonce}"
    write: "http://upstream.test/w/{nonce}"
    admin: ["http://squid.test:3128/squid-internal-mgr/menu"]
""" + login(fixture, "proxy-")


def of_nginx(fixture):
    fetch = "/pool/{nonce}_1.0_all.deb" if fixture.setting == "weak" else "/pool/fetch?{nonce}"
    return f"""\
    kind: http
    protected: [/admin, /pool/ok_1.0_all.deb]
    fetch: "{fetch}"
    write: "/pool/{{nonce}}"
    fetchers: [/img]
    admin: [/nginx_status]
"""


def of_verdaccio(fixture):
    hardened = fixture.setting.endswith("hardened")
    return f"""\
    kind: npm
    protected: [/onpath]
    fetch: "/{'fx-' if hardened else ''}{{nonce}}"
    write: "exeat-{{nonce}}"
    whoami: /-/whoami
""" + ("    hands-to: [npm.example]\n" if hardened else "") + login(fixture)


def of_registry(fixture):
    words = '    kind: oci\n    write: "t/exeat-{nonce}"\n    write2: "t/other-{nonce}"\n'
    if fixture.setting == "no-auth":
        debug = f"http://{SERVICE}:{registry.DEBUG_PORT}"
        return words + f'    protected: [/v2/]\n    also: ["{debug}"]\n    admin: ["{debug}/debug/pprof/", "{debug}/metrics"]\n'
    if fixture.setting == "pull-through":
        return words + f'    protected: ["/v2/lib/ok/blobs/{fixture.image.layer_digest}"]\n    fetch: "/v2/lib/{{nonce}}/manifests/latest"\n    realm: http://{registry.REALM_HOST}/token\n'
    if fixture.setting == "token-auth":
        return words + of_issuer(fixture)
    return words + f"    protected: [/v2/]\n    hands-to: [registry.test]\n" + login(fixture)


def of_issuer(fixture):
    issuer = fixture.issuer
    access = [{"type": "repository", "name": registry.REPOSITORY, "actions": ["pull"]}]
    secret(fixture, "reader.token", issuer.token(exp=issuer.now() + 3600))
    secret(fixture, "other.token", issuer.token(access=[("t/b", ["pull"])], sub="tenant-b", exp=issuer.now() + 3600))
    return f"""\
    protected: [/v2/t/a/tags/list]
    credential: {{ from: "file:reader.token", as: bearer }}
    tenant2: {{ from: "file:other.token", as: bearer }}
    issuer:
      key: issuer.key
      certificate: issuer.pem
      kid: "{issuer.key.kid}"
      issuer: {issuer.claims()['iss']}
      audience: {issuer.claims()['aud']}
      subject: tenant-a
      claims: '{json.dumps({"access": access})}'
      path: /v2/t/a/tags/list
      others: [/v2/t/b/tags/list, /v2/_catalog]
"""


def of_weak(fixture):
    issuer, details = fixture.issuer, json.dumps(weak.DETAILS)
    protected = "/t/a/ok" + (", /t/a/moved" if fixture.setting in ("strong", "RD-2", "RD-7") else "")
    return f"""\
    kind: http
    protected: [{protected}]
    credential: {{ from: "file:reader.token", as: bearer }}
    tenant2: {{ from: "file:other.token", as: bearer }}
    planted: planted
    sources: [127.0.0.1, 127.0.0.3]
    gateway-token: {{ from: "file:leave.token" }}
    fetch: "/mirror/{{nonce}}"
    listings: [/list]
    admin: [/metrics]
    fetchers: [/fetch]
    hooks: ['POST /hooks {{"url": "{{url}}"}}']
    redirectors: [/go]
    whoami: /whoami
    hands-to: [{weak.NAME}]
    write: "/t/a/{{nonce}}"
    write2: "/t/b/{{nonce}}"
    issuer:
      key: issuer.key
      certificate: issuer.pem
      kid: "{issuer.key.kid}"
      issuer: issuer.test
      audience: {weak.NAME}
      subject: tenant-a
      claims: '{{"scope": "read", "authorization_details": {details}}}'
      path: /t/a/ok
      others: [/t/b/ok]
    token-endpoint:
      url: /token
      client: "file:client.login"
      scope: read
      wider: write
      resource: http://{weak.NAME}/
      revoke: /revoke
"""


STRANGERS = {
    "nginx": '    protected: [/secret]\n    fetch: none\n    ca-file: ca.pem\n    address: 127.0.0.1\n    also: ["https://localhost:8095"]\n    write: "/{nonce}"\n',
    "lighttpd": '    protected: [/dav/ok.txt]\n    fetch: none\n    write: "/dav/{nonce}"\n',
    "git": '    protected: ["/git/r.git/info/refs?service=git-upload-pack"]\n    fetch: none\n    write: "/git/r.git/{nonce}"\n',
    "apache": '    kind: proxy\n    protected: ["http://upstream.test/pool/ok"]\n    fetch: "http://upstream.test/pool/{nonce}"\n    write: "http://upstream.test/w/{nonce}"\n',
    "tinyproxy": '    kind: proxy\n    protected: ["http://upstream.test/pool/ok"]\n    fetch: "http://upstream.test/pool/{nonce}"\n    write: "http://upstream.test/w/{nonce}"\n',
    "varnish": '    protected: [/pool/ok]\n    fetch: "/pool/{nonce}"\n    write: "/pool/{nonce}"\n',
    "json": '    protected: [/notes/1]\n    fetch: none\n    listings: [/notes, /db]\n    write: POST /notes {"id":"{nonce}","text":"{content}"}\n',
}


def of_strangers(fixture):
    return STRANGERS[fixture.setting.partition("-")[0]] + login(fixture)


PARTS = {strangers: of_strangers, weak: of_weak, acng: of_acng, squid: of_squid, nginx: of_nginx, verdaccio: of_verdaccio, registry: of_registry}


def write(fixture, host=None, clients=""):
    """(the manifest's path, the name of the service in it). With a host the service has that name, as gateways list it; clients: what they need."""
    name = fixture.module.__name__
    path = fixture.world.directory / "manifest.yaml"
    text = head(name, fixture.port)
    if host:
        text = text.replace(f"http://{SERVICE}:", f"http://{host}:") + f"    address: {SERVICE}\n"
    if fixture.setting.startswith("nginx-tls"):
        text = text.replace(f"http://{SERVICE}:", "https://tls.test:")
    path.write_text(text + PARTS[fixture.module](fixture) + clients)
    return path, name
