"""docker-registry as Debian ships it: open, as a cache of another registry, with tokens, and hardened."""
import shutil

from tokens import Issuer

PROGRAM = "docker-registry 2.8.2"
PORT, DEBUG_PORT, TOKEN_PORT = 5000, 5001, 5002
USER, PASSWORD = "tenant-a", "pass-a-0123456789"
USER2, PASSWORD2 = "tenant-b", "pass-b-0123456789"
UPSTREAM_USER, UPSTREAM_PASSWORD = "uplink", "UPLINKSECRET-0123456789"
REALM_HOST = "internal.test"  # whom the upstream of `pull-through` sends for its tokens
REPOSITORY = "t/a"

COMMON = """\
version: 0.1
log: {{level: warn}}
storage:
  filesystem: {{rootdirectory: {directory}/data}}
"""

SETTINGS = {
    "no-auth": """\
  delete: {{enabled: true}}
http:
  addr: 127.0.0.1:{port}
  debug: {{addr: "127.0.0.1:{debug}", prometheus: {{enabled: true, path: /metrics}}}}
validation:
  manifests: {{urls: {{allow: ["^https?://"]}}}}
""",
    "pull-through": """\
http:
  addr: 127.0.0.1:{port}
proxy: {{remoteurl: "http://upstream.test", username: {user}, password: {password}}}
""",
    "token-auth": """\
  delete: {{enabled: true}}
http:
  addr: 127.0.0.1:{port}
auth:
  token: {{realm: "http://127.0.0.1:{token}/token", service: registry.test, issuer: issuer.test, rootcertbundle: {directory}/issuer.pem}}
""",
    "hardened": """\
  delete: {{enabled: false}}
  maintenance: {{readonly: {{enabled: true}}}}
  redirect: {{disable: true}}
http:
  addr: 127.0.0.1:{port}
  host: https://registry.test
  relativeurls: true
auth:
  htpasswd: {{realm: registry, path: {directory}/htpasswd}}
""",
}


def serve(fixture):
    world, directory = fixture.world, fixture.world.directory
    process = world.run("docker-registry", shutil.which("docker-registry"), "serve", directory / "config.yml")
    world.ready(PORT)
    return process


def start(fixture):
    from fixture import bcrypt

    world, directory = fixture.world, fixture.world.directory
    words = dict(directory=directory, port=PORT, debug=DEBUG_PORT, token=TOKEN_PORT, user=UPSTREAM_USER, password=UPSTREAM_PASSWORD)
    (directory / "config.yml").write_text((COMMON + SETTINGS[fixture.setting]).format(**words))
    (directory / "htpasswd").write_text("".join(f"{u}:{bcrypt(p, '$2y$')}\n" for u, p in ((USER, PASSWORD), (USER2, PASSWORD2))))
    fixture.port = PORT
    if fixture.setting == "token-auth":
        fixture.issuer = Issuer(directory)
    if fixture.setting == "hardened":
        fixture.basic, fixture.basic2 = (USER, PASSWORD), (USER2, PASSWORD2)
    process = serve(fixture)
    if fixture.setting == "pull-through":
        warm(fixture, process)


def warm(fixture, process):
    """One image comes in while the upstream behaves; then a registry that has yet to ask for a token meets another realm."""
    for target in ("/v2/lib/ok/manifests/latest", "/v2/lib/ok/blobs/" + fixture.upstream.image.layer_digest):
        assert (a := fixture.ask("GET", target, Accept=fixture.upstream.image.kind)).status == 200, f"{target}: {a}"
    fixture.upstream.realm = REALM_HOST
    fixture.world.stop(process)
    serve(fixture)
