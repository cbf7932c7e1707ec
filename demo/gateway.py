"""The gateway of the demo: set up as the README says, asked by its own commands."""
import json
import re
import subprocess
import time
from pathlib import Path

import registry
from registry import free_port

# What `exeat init` writes for services is replaced by these. A fixed address, since no name server knows these names.
SERVICE = """  {name}:
    {rules}
    hosts: [{host}]
    addresses: ["127.0.0.1:{port}"]
    ca-file: {ca}
    scope: {scope}
    audit: "waived: the demo's own registry"
"""
SERVICES = (
    ("pypi", registry.PYPI, "preset: pypi-read", "packages:read"),
    ("npm", registry.NPM, "preset: npm-read", "packages:read"),
    ("git", registry.GIT, "preset: git-clone", "git:read"),
    ("files", registry.FILES, 'allow: ["GET /*", "POST /inbox/*"]', "files:use"),
)
SCOPES = "packages:read git:read files:use"


class Gateway:
    def __init__(self, program, directory, environment):
        self.program, self.directory, self.environment = str(Path(program).resolve()), Path(directory), environment
        self.config, self.output = self.directory / "proxy.conf", self.directory / "output"
        self.process, self.seen = None, 0

    def exeat(self, *words, text=None):
        return subprocess.run([self.program, "-c", str(self.config), *(str(w) for w in words)], input=text, text=True,
                              capture_output=True, env=self.environment, timeout=60, check=False)

    def must(self, *words, text=None):
        answer = self.exeat(*words, text=text)
        if answer.returncode != 0:
            raise RuntimeError(f"exeat {' '.join(map(str, words))}: status {answer.returncode}\n{answer.stderr}")
        return answer.stdout

    def init(self, origin):
        self.address = f"127.0.0.1:{free_port()}"
        self.must("init", self.directory, "--name", "gw.example", "--listen", self.address, "--publish", "off")
        services = "".join(SERVICE.format(name=name, rules=rules, host=host, port=origin.port, ca=origin.ca, scope=scope)
                           for name, host, rules, scope in SERVICES)
        text, n = re.subn(r"(?m)^services:\n(?:[ #].*\n|\n)*", "services:\n" + services.replace("\\", "\\\\") + "\n",
                          self.config.read_text())
        text, m = re.subn(r"(?m)^journal: \{", "journal: { min-free: 16m,", text)
        if (n, m) != (1, 1):
            raise RuntimeError("exeat init wrote a configuration that the demo does not know")
        self.config.write_text(text)
        self.must("config", "check")

    def start(self):
        with open(self.output, "wb") as out:
            self.process = subprocess.Popen([self.program, "-c", str(self.config), "serve"], stdout=out, stderr=out,
                                            stdin=subprocess.DEVNULL, env=self.environment)
        for _ in range(1000):
            if "exeat: ready" in self.log():
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        raise RuntimeError("the gateway does not start:\n" + self.log())

    def stop(self):
        """Its exit status."""
        self.process.terminate()
        try:
            return self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait(10)

    def log(self):
        return self.output.read_text(errors="replace") if self.output.exists() else ""

    def issue(self, sandbox, scope):
        """A leave token; the file that holds it."""
        file = self.directory / f"{sandbox}-{len(scope)}.jwt"
        file.touch(0o600)
        file.write_text(self.must("token", "issue", "--sandbox", sandbox, "--scope", scope))
        return file

    def canary(self):
        """The value of the first canary that init has minted: what a curious sandbox would have found."""
        return json.loads((self.directory / "canaries.json").read_text())["canaries"][0]["value"]

    def journal(self):
        return "".join(p.read_text() for p in sorted((self.directory / "journal").glob("*.ndjson")))

    def records(self, complete=lambda found: True):
        """Records since the last call; waits until they are complete, since results are written a moment after the answer."""
        for _ in range(250):
            answer = self.exeat("log", "query", "--format", "json")
            every = [json.loads(line) for line in answer.stdout.splitlines()]
            found = [r for r in every if r["seq"] > self.seen]
            if complete(found):
                break
            time.sleep(0.02)
        self.seen = max([self.seen] + [r["seq"] for r in found])
        return found
