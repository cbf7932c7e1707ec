"""
A sandbox that knows of no proxy, before registries whose names lead to the gateway: what docs/clients.md tells it to type, and what then
reaches the registries.
"""
import re
import subprocess

from gateway import EXEAT, PATIENCE, TREE, clean_environment, exeat
from registries import DEBIAN, GIT, MAVEN, NPM, OCI, PYPI
from test_presets import HERE_IS, put_programs

PRESETS = {NPM: "npm-read", PYPI: "pypi-read", DEBIAN: "debian-read", OCI: "oci-pull", GIT: "git-clone", MAVEN: "maven-read"}
SECRET = "the-registrys-own-secret"
SERVICE = """
  {name}:
    preset: {preset}
    hosts: [{host}]
    ports: [{port}]
    addresses: ["127.0.0.1:{there}"]
    ca-file: {ca}
    scope: all:read
    credential: {{from: "file:{secret}", as: bearer}}
    shared-identity: accepted
    audit: "waived: test"
"""
WAYS = ["redirect", "tproxy", "direct"]


def listed(top, registries, ca, presets=PRESETS, port=443, mark=""):
    """The services of these registries; each is given the gateway's own credential."""
    secret = top / "secret"
    secret.touch(0o600)
    secret.write_text(SECRET)
    return "".join(SERVICE.format(name=preset + mark, preset=preset, host=host, port=port, there=registries.port(host), ca=ca, secret=secret)
                   for host, preset in presets.items())


def page(client):
    """What docs/clients.md says for a client without a proxy."""
    return re.search(rf"(?ms)^### {client}, no proxy\n.*?^```sh\n(.*?)^```", (TREE / "docs/clients.md").read_text())[1]


class Sandbox:
    """A home in the namespace; nothing in its environment names a proxy."""

    def __init__(self, here, way, home):
        self.here, self.home, self.way, self.registries = here, home, way, here.registries
        here.names(way, *PRESETS)
        here.registries.origin.clear()
        self.name = "sb-" + home.name[:40].replace("_", "-").strip("-")
        self.token = here.gateway.token("all:read", self.name)
        (home / "vm1.jwt").write_text(self.token)
        self.environment = clean_environment(
            HOME=str(home), LANG="C.UTF-8", EXEAT_CONFIG=str(here.gateway.config), GIT_CONFIG_GLOBAL="/dev/null", PIP_NO_INPUT="1",
            PIP_NO_CACHE_DIR="1", PIP_RETRIES="0", npm_config_globalconfig=str(home / "none"), npm_config_fund="false",
            npm_config_fetch_retries="0", REGISTRY_AUTH_FILE=str(home / "auth.json"))
        self.environment["PATH"] = f"{EXEAT.parent}:{self.environment['PATH']}"
        assert not any("proxy" in k.lower() for k in self.environment)

    def put_programs(self, pip):
        put_programs(self, pip)

    def run(self, *words, input=None, **more):
        return self.here.client.run(*words, env={**self.environment, **more}, cwd=self.home, patience=2 * PATIENCE,
                                    **({"input": input} if input else {"stdin": subprocess.DEVNULL}))

    def here_is(self):
        """What the page calls each, and what it is here."""
        return {**HERE_IS, "/usr/share/keyrings/archive.gpg": self.registries[DEBIAN].key, "/etc/apt/sources.list": self.home / "apt/sources.list",
                "/etc/apt/auth.conf": self.home / "apt/etc/apt/auth.conf", "/etc/exeat/root.pem": self.here.gateway.root}

    def type(self, block, **more):
        for is_, here in self.here_is().items():
            block = block.replace(is_, str(here))
        return self.run("/bin/sh", "-ec", block, **more)

    def line(self, client, place):
        """Of what `exeat env` says, what is to be written or run for this place."""
        said = exeat("env", "--client", client, "--transparent", "--with-token", "-", config=self.here.gateway.config, stdin=self.token).stdout
        return next(x.split(": ", 2)[2] for x in said.splitlines() if x.startswith(f"# {client}: ") and place in x.split(": ", 2)[2])

    def seen(self):
        """What reached the registries: none of it with the token, all of it with the gateway's credential."""
        found = self.registries.origin.requests
        for r in found:
            assert r.field("authorization") == f"Bearer {SECRET}" and r.field("via").endswith("gw.test") and self.token not in str(r.head)
        return [f"{r.method} {r.target}" for r in found]
