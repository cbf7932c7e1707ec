"""
make demo: real clients go out through Exeat by leave of a token, or are stopped. Nothing leaves this machine. Every step
is judged by the client's exit status, by what the registry's own access log shows, and by the journal.

Usage: python3 demo/demo.py build/exeat [--keep]
"""
import base64
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from gateway import SCOPES, Gateway
from registry import FILES, GIT, NPM, PYPI, REPOSITORY, TARBALL, WHEEL, Registry

PATIENCE = 60  # seconds for one client
COLOUR = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(code, text):
    return f"\033[{code}m{text}\033[0m" if COLOUR else text


def heading(text):
    print("\n" + paint("1", text), flush=True)


class Failed(Exception):
    """A step did not go as it must."""


class Sandbox:
    """Where clients run: an empty home, no proxy, CA or configuration but what `exeat env` says."""

    def __init__(self, top):
        self.home = top / "home"
        (self.home / "tmp").mkdir(parents=True)
        self.environment = {
            "PATH": os.environ["PATH"], "HOME": str(self.home), "TMPDIR": str(self.home / "tmp"), "LANG": "C.UTF-8",
            "PIP_CONFIG_FILE": "/dev/null", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1",
            "PIP_RETRIES": "1", "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0",
            "npm_config_globalconfig": str(self.home / "npmrc"), "npm_config_audit": "false",
            "npm_config_fund": "false", "npm_config_fetch_retries": "0",
        }

    def run(self, words, lines=""):
        """The command with the lines of `exeat env` evaluated by a shell, as a person would do it."""
        script = 'eval "$0"; exec "$@"'
        return subprocess.run(["/bin/sh", "-c", script, lines, *(str(w) for w in words)], env=self.environment,
                              cwd=self.home, capture_output=True, text=True, timeout=PATIENCE, check=False,
                              stdin=subprocess.DEVNULL)


class Demo:
    def __init__(self, program, top):
        self.top, self.steps = top, 0
        self.sandbox = Sandbox(top)
        self.registry = Registry(top / "registry")
        clean = {k: os.environ[k] for k in ("PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS") if k in os.environ}
        self.gateway = Gateway(program, top / "gateway", clean)

    # ---- one step

    def lines_for(self, client, token):
        words = ["env", "--client", client] + (["--with-token", token] if token else [])
        return self.gateway.must(*words)

    def client(self, title, client, words, token, expect):
        """Run a client and hold its exit status to what is expected: a number, or None for any but 0."""
        self.steps += 1
        self.registry.requests()
        self.gateway.records()
        answer = self.sandbox.run(words, self.lines_for(client, token))
        good = answer.returncode != 0 if expect is None else answer.returncode == expect
        print(f"\n{self.steps:2}  {paint('1', title)}")
        self.check("client", good, f"{client} ended with status {answer.returncode}", answer.stderr + answer.stdout)
        return answer

    def check(self, who, good, text, more=""):
        print(f"      {paint('32', 'ok    ') if good else paint('31', 'FAILED')} {who:9} {text}", flush=True)
        if not good:
            raise Failed(more)

    def origin_saw(self, *wanted):
        seen = self.registry.requests()
        short = [f"{r['method']} {r['host']}{r['uri'].split('?')[0]}" for r in seen if r["status"] == 200]
        missing = [w for w in wanted if w not in short]
        self.check("registry", not missing, "its log shows " + ", ".join(wanted), f"missing {missing} in {seen}")
        clean = all(not r["token"] and "gw.example" in r["via"] for r in seen)
        self.check("registry", clean, "each of them came by the gateway, and without the token", str(seen))

    def origin_saw_nothing(self):
        seen = self.registry.requests()
        self.check("registry", not seen, "its log shows nothing", str(seen))

    def journal_allows(self, sandbox, *wanted):
        def of(found):
            ended = {r["id"] for r in found if r["kind"] == "result" and r.get("outcome") == "complete"}
            return [f"{r['http']['method']} {r['http']['host']}{r['http'].get('path', '')}" for r in found
                    if r["kind"] == "decision" and r["action"] == "allow" and r.get("sandbox") == sandbox
                    and r["id"] in ended]

        found = self.gateway.records(lambda f: all(w in of(f) for w in wanted))
        missing = [w for w in wanted if w not in of(found)]
        self.check("journal", not missing, f"{len(wanted)} allowed for {sandbox} and completed",
                   f"missing {missing} in {found}")

    def journal_refuses(self, reason, sandbox=None, finding=False):
        def refusals(found):
            return [r for r in found if r["kind"] == "decision" and r["action"] == "deny" and r["reason"] == reason
                    and r.get("sandbox") == sandbox]

        found = self.gateway.records(refusals)
        self.check("journal", bool(refusals(found)), f"refused: {reason}" + (f", sandbox {sandbox}" if sandbox else ""),
                   str(found))
        allowed = [r for r in found if r["kind"] == "decision" and r["action"] == "allow" and r["http"]["method"] != "CONNECT"]
        self.check("journal", not allowed, "and nothing allowed beside it", str(allowed))
        if finding:
            self.check("journal", any(r["kind"] == "finding" for r in found), "a finding names the canary", str(found))

    @staticmethod
    def client_shows(answer):
        """For people; nothing is judged by it."""
        text = answer.stdout + answer.stderr
        found = re.search(r"\b\d{3} exeat \w+ [0-9a-f]{6}|response:? 4\d\d|error: 4\d\d", text)
        if found:
            print(f"             {paint('2', 'what it shows: ' + found.group())}")

    # ---- the story

    def prepare(self):
        heading("A registry stands in for the internet; a gateway stands before it.")
        self.registry.start()
        self.gateway.init(self.registry)
        self.gateway.start()
        self.token = self.gateway.issue("vm1", SCOPES)
        self.narrow = self.gateway.issue("vm2", "packages:read")
        self.python = self.sandbox.home / "venv/bin/python"
        self.sandbox.run(["/usr/bin/python3", "-m", "venv", self.sandbox.home / "venv"])
        self.check("registry", True, f"nginx, TLS under a CA of its own, 127.0.0.1:{self.registry.port}")
        self.check("gateway", True, f"exeat serve, {self.gateway.address}; tokens issued to sandboxes vm1 and vm2")

    def allowed(self):
        heading("By leave of a token")
        self.client("pip install exeat-hello", "pip", [self.python, "-m", "pip", "install", "-q", "--no-cache-dir",
                    "--index-url", f"https://{PYPI}/simple/", "exeat-hello"], self.token, 0)
        works = self.sandbox.run([self.python, "-c", "import exeat_hello; assert exeat_hello.WORDS == 'by your leave'"])
        self.check("client", works.returncode == 0, "the module can be imported", works.stderr)
        wanted = f"GET {PYPI}/simple/exeat-hello/", f"GET {PYPI}/packages/{WHEEL}"
        self.origin_saw(*wanted)
        self.journal_allows("vm1", *wanted)

        project = self.sandbox.home / "project"
        project.mkdir()
        self.client("npm install exeat-hello", "npm", ["npm", "install", "--prefix", project, "--registry",
                    f"https://{NPM}/", "exeat-hello"], self.token, 0)
        works = self.sandbox.run(["node", "-e", f"process.exit(require('{project}/node_modules/exeat-hello') === 'by your leave' ? 0 : 1)"])
        self.check("client", works.returncode == 0, "the package can be required", works.stderr)
        wanted = f"GET {NPM}/exeat-hello", f"GET {NPM}/exeat-hello/-/{TARBALL}"
        self.origin_saw(*wanted)
        self.journal_allows("vm1", *wanted)

        clone = self.sandbox.home / "clone"
        self.client("git clone", "git", ["git", "clone", "-q", f"https://{GIT}/{REPOSITORY}", clone], self.token, 0)
        head = self.sandbox.run(["git", "-C", clone, "rev-parse", "HEAD"]).stdout.strip()
        self.check("client", head == self.registry.commit, "the clone is at the registry's commit", head)
        wanted = f"GET {GIT}/{REPOSITORY}/info/refs", f"POST {GIT}/{REPOSITORY}/git-upload-pack"
        self.origin_saw(*wanted)
        self.journal_allows("vm1", *wanted)

        self.client("curl, a file", "curl", ["curl", "-q", "-sSf", "-o", "data.bin", f"https://{FILES}/data.bin"],
                    self.token, 0)
        same = hashlib.sha256((self.sandbox.home / "data.bin").read_bytes()).digest()
        self.check("client", same == hashlib.sha256(self.registry.file).digest(), "the file is whole")
        self.origin_saw(f"GET {FILES}/data.bin")
        self.journal_allows("vm1", f"GET {FILES}/data.bin")

    def curl(self, *words):
        return ["curl", "-q", "-sSi", "--fail-with-body", *words]

    def refused(self):
        heading("Without leave")
        self.stop("curl, without a token", "curl", self.curl(f"https://{FILES}/data.bin"), None, "token_missing", None, 56)
        self.stop("git clone, without a token", "git", ["git", "clone", "-q", f"https://{GIT}/{REPOSITORY}", "no"], None,
                  "token_missing", None, 128)
        self.stop("git clone, with a token for packages alone", "git",
                  ["git", "clone", "-q", f"https://{GIT}/{REPOSITORY}", "no"], self.narrow, "scope_missing", "vm2", 128)
        self.stop("curl, a host that is not listed", "curl", self.curl("https://elsewhere.test/"), self.token,
                  "host_not_listed", "vm1", 56)
        self.stop("pip install, from an index that is not listed", "pip",
                  [self.python, "-m", "pip", "install", "--no-cache-dir", "--index-url",
                   "https://elsewhere.test/simple/", "exeat-bye"], self.token, "host_not_listed", "vm1", 1)
        self.stop("curl, a method that no rule allows", "curl", self.curl("-X", "DELETE", f"https://{FILES}/data.bin"),
                  self.token, "method_not_allowed", "vm1", 22)
        self.stop("npm search, a path that is denied", "npm",
                  ["npm", "search", "--registry", f"https://{NPM}/", "anything"], self.token, "denied_by_rule", "vm1", 1)
        self.push()

    def push(self):
        """The registry itself would take it: `allowed` has cloned from there, and receive-pack is on."""
        clone = self.sandbox.home / "clone"
        who = ["-c", "user.name=vm1", "-c", "user.email=vm1@sandbox.test"]
        self.sandbox.run(["git", "-C", clone, *who, "commit", "-q", "--allow-empty", "-m", "out with it"])
        self.stop("git push, to a service that may be cloned from", "git", ["git", "-C", clone, "push", "-q"], self.token,
                  "query_not_allowed", "vm1", 128)

    def stop(self, title, client, words, token, reason, sandbox, status, finding=False):
        answer = self.client(title, client, words, token, status)
        self.client_shows(answer)
        self.origin_saw_nothing()
        self.journal_refuses(reason, sandbox, finding)

    def leaks(self):
        heading("With a secret in hand")
        canary = self.gateway.canary()
        once, twice = base64.b64encode(canary.encode()).decode(), base64.b64encode(b"x" + canary.encode()).decode()
        self.client("curl, an upload without a secret", "curl",
                    self.curl("-d", "fine", f"https://{FILES}/inbox/report"), self.token, 0)
        seen = self.registry.requests()
        self.check("registry", [r["status"] for r in seen] == [201], "its log shows the upload", str(seen))
        self.journal_allows("vm1", f"POST {FILES}/inbox/report")
        for title, words in (
            ("curl, an upload with a planted canary", ["--data-binary", f"here it is: {canary}"]),
            ("curl, the same in base64", ["--data-binary", f"nothing to see: {once}"]),
            ("curl, in base64 at another alignment, in a header field", ["-H", f"X-Build: {twice}", "-d", "fine"]),
        ):
            self.stop(title, "curl", self.curl(*words, f"https://{FILES}/inbox/report"), self.token, "canary_leak", "vm1",
                      22, finding=True)
        self.secrets = canary, once, twice

    def evidence(self):
        heading("What the journal tells")
        refused = self.gateway.must("log", "query", "--action", "deny", "--last", "12")
        print("\n".join("      " + (line if len(line) <= 150 else line[:147] + "...") for line in refused.splitlines()))
        found = self.gateway.exeat("log", "query", "--reason", "canary_leak", "--format", "json").stdout.splitlines()
        self.check("journal", len(found) >= 3, "the leaks can be found by their reason")
        last = self.gateway.must("why", "--last")
        print("\n      exeat why --last\n" + "\n".join("        " + line for line in last.splitlines()))

        heading("What it holds")
        text = self.gateway.journal()
        held = [s for s in (*self.secrets, self.token.read_text().strip()) if s in text]
        self.check("journal", not held, "neither a token nor a canary stands in it")
        self.check("journal", self.gateway.exeat("log", "verify").returncode == 0, "exeat log verify finds it whole")
        copy = self.top / "copy"
        shutil.copytree(self.gateway.directory / "journal", copy)
        segment = next(p for p in sorted(copy.glob("*.ndjson")) if "canary_leak" in p.read_text())
        segment.write_text(segment.read_text().replace('"reason":"canary_leak"', '"reason":"all_is_well"', 1))
        answer = self.gateway.exeat("log", "verify", "--directory", copy)
        self.check("journal", answer.returncode == 1, "and finds a copy in which one word was changed", answer.stderr)

    def finish(self):
        status = self.gateway.stop()
        self.check("gateway", status == 0, f"stopped, status {status}", self.gateway.log())

    def close(self):
        for part in (self.gateway, self.registry):
            if getattr(part, "process", None) and part.process.poll() is None:
                part.stop()


def on_signal(number, _):
    """Once: what is started is ended in peace."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise SystemExit(128 + number)


def tell(demo, failure):
    print(paint("31", f"\nThe demo failed: {failure}"), file=sys.stderr)
    print("\n--- the gateway said\n" + demo.gateway.log()[-3000:], file=sys.stderr)
    print("--- the registry said\n" + demo.registry.log()[-3000:], file=sys.stderr)


def play(program, top):
    started = time.monotonic()
    demo = Demo(program, top)
    try:
        for act in (demo.prepare, demo.allowed, demo.refused, demo.leaks, demo.evidence, demo.finish):
            act()
    except (Failed, RuntimeError, OSError, subprocess.SubprocessError) as failure:
        tell(demo, failure)
        return 1
    finally:
        demo.close()
    print(paint("1;32", f"\n{demo.steps} steps, all as they must be, in {time.monotonic() - started:.0f} s.")
          + " Next: make run, and README.md.")
    return 0


def main(words):
    keep = "--keep" in words
    names = [w for w in words if not w.startswith("--")]
    if len(names) != 1 or any(w.startswith("--") and w != "--keep" for w in words):
        print(__doc__.strip(), file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, on_signal)
    top = Path(tempfile.mkdtemp(prefix="exeat-demo-"))
    try:
        return play(names[0], top)
    finally:
        if keep:
            print(f"kept: {top}")
        else:
            shutil.rmtree(top, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
