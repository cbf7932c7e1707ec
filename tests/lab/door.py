"""A gateway before a fixture: the policy that the audit printed, put into a proxy.conf as an operator would."""
import os
import shutil
import subprocess
from pathlib import Path

from world import PATIENCE, SERVICE

EXEAT = Path(os.environ.get("EXEAT", Path(__file__).resolve().parents[2] / "build" / "exeat")).absolute()
PORT = 3128
SANDBOX = "vm1"

HEAD = """\
gateway: {{ name: gw.test, state: . }}
listen:
  explicit: {{ address: "{service}:{port}" }}
issuers:
  local: {{ jwks: issuer/local.jwks, key: issuer/local.key }}
canaries: {{ file: canaries.json, on-leak: block }}
journal: {{ directory: journal }}
admin: {{ address: "unix:admin.sock" }}
"""
WAIVED = '    audit: "waived: for the audit through the gateway"\n'


class Door:
    """with Door(world, services) as d: services is what stands under `services:`, that line included."""

    def __init__(self, world, services, name="gateway"):
        self.world, self.state = world, world.directory / name
        subprocess.run([EXEAT, "-q", "init", self.state, "--name", "gw.test"], check=True)
        self.conf = self.state / "proxy.conf"
        self.conf.write_text(HEAD.format(service=SERVICE, port=PORT) + services)
        self.process = None

    def __enter__(self):
        self.process = self.world.run("gateway", EXEAT, "-c", self.conf, "serve")
        self.world.ready(PORT)
        return self

    def __exit__(self, *_):
        if self.process:
            self.process.terminate()
            self.process.wait(PATIENCE)
            self.world.processes = [(n, p) for n, p in self.world.processes if p is not self.process]
        shutil.rmtree(self.state, ignore_errors=True)

    def run(self, *words, status=0):
        done = subprocess.run([EXEAT, "-c", self.conf, *map(str, words)], capture_output=True, text=True)
        assert done.returncode == status, f"exeat {' '.join(map(str, words))}: {done.returncode}\n{done.stderr}{done.stdout}"
        return done.stdout

    def token(self, scope):
        return self.run("token", "issue", "--sandbox", SANDBOX, "--scope", scope).strip()
