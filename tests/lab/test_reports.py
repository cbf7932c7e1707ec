"""
The reports that other programs show: SARIF by its schema, by the validator of those who wrote it, and by what code scanning demands; the page in
Chromium, which loads nothing else and keeps its layout whatever the service said. The service is as bad to a report as one can be.
"""
import collections
import contextlib
import html.parser
import http.server
import json
import os
import re
import shutil
import subprocess
import threading
from pathlib import Path

import jsonschema
import pytest

import npm
from world import SERVICE, World, wait_until

TREE = Path(__file__).resolve().parents[2]
EXEAT = Path(os.environ.get("EXEAT", TREE / "build" / "exeat")).absolute()
PORT = 8091
SECRET, SECRET2 = "reader-credential-0123456789abcdef", "other-credential-0123456789abcdef"

# The service's own words: a script, a way out of an attribute, letters that turn the line round, one that is no UTF-8.
SCRIPT = "<script>document.title='taken'</script>\"><img src=http://unlisted.test/x onerror=alert(1)>"
TURNS = "\u202efdp.exe\u2066\u200b"

MANIFEST = """\
owner: {{ name: "the lab <b>&</b> Łódź \u202eturned", statement: "ours, to be tried </p><script>alert(2)</script>" }}
listener: {{ addresses: [127.0.0.21, 127.0.0.22], ports: [80, 8080], outside: unlisted.test, inside: internal.test }}
services:
  other: {{ url: "http://{service}:1" }}
  it:
    url: http://{service}:{port}
    protected: [/secret]
    credential: {{ from: "file:reader.token", as: bearer }}
    tenant2: {{ from: "file:other.token", as: bearer }}
    listings: ["/<script>list</script>", "/{long}"]
    accept: {{ AN-1: "known <i>since</i> {long} until 2099-12-31", RD-1: "no date" }}
    write: "/w/{{nonce}}"
"""


def answer(wire):
    """Everything to everybody, with what was asked in it."""
    head = b""
    while b"\r\n\r\n" not in head and (more := wire.recv(65536)):
        head += more
    target = (head.split(b" ") + [b"", b""])[1][:2000]
    body = (SCRIPT + TURNS).encode() + target + b"\xff\xfe" + b"A" * 300000
    wire.sendall(b"HTTP/1.1 200 OK\r\nServer: " + (SCRIPT + TURNS).encode() + b"\xff " + b"B" * 3000 + b"\r\nLocation: javascript:alert(3)\r\nLink: <http://" +
                 SCRIPT.encode() + b">; rel=next\r\nWWW-Authenticate: Bearer realm=\"http://" + TURNS.encode() + b"/\"\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(body) + body)


def serve(listener):
    while True:
        try:
            wire, _ = listener.accept()
        except OSError:
            return
        with contextlib.suppress(OSError), wire:
            wire.settimeout(30)
            answer(wire)


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """{sarif, html, junit: Path}, and the directory that the audit ran in."""
    directory = tmp_path_factory.mktemp("reports")
    (directory / "conf").mkdir()
    (directory / "conf" / "an audit.yaml").write_text(MANIFEST.format(service=SERVICE, port=PORT, long="L" * 150))
    for name, text in (("reader", SECRET), ("other", SECRET2)):
        (directory / "conf" / f"{name}.token").touch(0o600)
        (directory / "conf" / f"{name}.token").write_text(text)
    files = {k: directory / f"report.{k}" for k in ("sarif", "html", "junit")}
    with World(directory) as world:
        listener = world.listen(SERVICE, PORT)
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
        command = world.enter(EXEAT, "audit", "it", "-m", "conf/an audit.yaml", "--active", "--tenant2", "--beacon", "--rate", "1000", "--requests", "1500", "--format", "json",
                              *(w for k, f in files.items() for w in (f"--{k}", f)))
        done = subprocess.run(command, cwd=directory, pass_fds=[world.namespace], capture_output=True, text=True, timeout=120)
        listener.close()
    assert done.returncode == 1, done.stderr
    return {**files, "directory": directory, "json": json.loads(done.stdout)}


# ---- SARIF

MULTITOOL = {"@microsoft/sarif-multitool-linux": "5.7.0"}
NOWHERE = {"SARIF2005"}  # there is no page of this program's that `informationUri` could name


@pytest.fixture(scope="module")
def multitool():
    home = npm.installed("sarif-multitool", MULTITOOL) / "node_modules/@microsoft/sarif-multitool-linux"
    (home / "Sarif.Multitool").chmod(0o755)  # npm left out its script that would
    return home


@pytest.fixture(scope="module")
def schema(multitool):
    text = json.loads((multitool / "sarif-2.1.0.json").read_text())
    return jsonschema.Draft202012Validator(text, format_checker=jsonschema.FormatChecker())


def by_schema(schema, log):
    return [f"{'/'.join(map(str, e.absolute_path))}: {e.message[:120]}" for e in schema.iter_errors(log)]


def by_validator(multitool, log, directory):
    """Rules that it breaks: errors and warnings of SARIF's own and of code scanning's."""
    path, found = directory / "tried.sarif", directory / "found.sarif"
    path.write_text(json.dumps(log))
    environment = {"PATH": os.environ["PATH"], "HOME": str(directory), "DOTNET_SYSTEM_GLOBALIZATION_INVARIANT": "1", "DOTNET_CLI_TELEMETRY_OPTOUT": "1"}
    done = subprocess.run([multitool / "Sarif.Multitool", "validate", path, "--rule-kind", "Sarif;Ghas", "--level", "Error;Warning", "--output", found, "--log", "ForceOverwrite"],
                          env=environment, capture_output=True, text=True, timeout=120)
    assert "files scanned" in done.stdout, done.stdout[-2000:] + done.stderr[-2000:]
    results = json.loads(found.read_text(encoding="utf-8-sig"))["runs"][0].get("results", [])
    return sorted({r["ruleId"].split("/")[0] for r in results if r.get("level", "warning") in ("error", "warning")} - NOWHERE)


def by_code_scanning(log, root):
    """What its uploads are refused or shown wrongly for, and no schema says."""
    wrong, (run,) = [], log["runs"]
    ids = [r["id"] for r in run["tool"]["driver"]["rules"]]
    prints = [r.get("partialFingerprints", {}).get("primaryLocationLineHash") for r in run["results"]]
    if len(set(ids)) != len(ids):
        wrong.append("a rule twice")
    if None in prints or len(set(prints)) != len(prints):
        wrong.append("no fingerprint of its own")
    if not re.fullmatch(r"exeat-audit/\S+/", run.get("automationDetails", {}).get("id", "")):
        wrong.append("no category of its own")
    for rule in run["tool"]["driver"]["rules"]:
        if not 0 < float(rule["properties"]["security-severity"]) <= 10 or "security" not in rule["properties"]["tags"]:
            wrong.append("a rule without its severity")
    for r in run["results"]:
        at = r["locations"][0]["physicalLocation"]
        uri = at["artifactLocation"]["uri"]
        file = root / uri.replace("%20", " ")
        if r["kind"] != "fail" or r["level"] not in ("error", "warning", "note"):
            wrong.append("an alert of what is no finding")
        if not r["message"]["text"] or ids[r["ruleIndex"]] != r["ruleId"]:
            wrong.append("a result without a rule or words")
        if ":" in uri or uri.startswith("/") or not file.is_file():
            wrong.append("a place that is not in the tree")
        elif f"http://{SERVICE}:{PORT}" != file.read_text().splitlines()[at["region"]["startLine"] - 1][at["region"]["startColumn"] - 1:at["region"]["endColumn"] - 1]:
            wrong.append("a line that does not name the service")
    return sorted(set(wrong))


def test_sarif_is_valid(reports, schema, multitool):
    log = json.loads(reports["sarif"].read_text())
    assert by_schema(schema, log) == []
    assert by_validator(multitool, log, reports["directory"]) == []
    assert by_code_scanning(log, reports["directory"]) == []


def test_sarif_says_what_the_audit_found(reports):
    (run,) = json.loads(reports["sarif"].read_text())["runs"]
    bad = {c["check"]: c for c in reports["json"]["checks"] if c["verdict"] in ("fail", "weak", "open", "inconclusive") or c["against"]}
    assert {r["ruleId"] for r in run["results"]} == bad.keys() and len(bad) > 10
    for r in run["results"]:
        c = bad[r["ruleId"]]
        assert (r["level"] == "error") == c["against"] and r["properties"]["verdict"] == c["verdict"]
        assert ("suppressions" in r) == c["accepted"]
    assert bad["AN-1"]["accepted"] and not bad["RD-1"]["accepted"], "the one with a date is accepted, the other is not"


def result(log):
    return log["runs"][0]["results"][0]


def change(of, **fields):
    def broken(log):
        of(log).update(fields)
    return broken


def without(of, name):
    return lambda log: of(log).pop(name)


def rule(log):
    return log["runs"][0]["tool"]["driver"]["rules"][0]


def place(log):
    return result(log)["locations"][0]["physicalLocation"]


# How it would be broken, and who is to see it.
BROKEN = [
    ("another version", change(lambda log: log, version="2.0.0"), "schema"),
    ("a level that there is not", change(result, level="critical"), "schema"),
    ("no message", without(result, "message"), "schema"),
    ("a key that there is not", change(result, verdict="fail"), "schema"),
    ("line 0", lambda log: place(log)["region"].update(startLine=0), "schema"),
    ("a result that is good", change(result, kind="pass"), "code scanning"),
    ("a rule without a description", without(rule, "fullDescription"), "validator"),
    ("an index of another rule", change(result, ruleIndex=1), "code scanning"),
    ("a result at a URL", lambda log: place(log)["artifactLocation"].update(uri="http://127.0.0.1:8091/"), "code scanning"),
    ("two results with one fingerprint", lambda log: log["runs"][0]["results"].append({**result(log), "ruleId": rule(log)["id"], "ruleIndex": 0}), "code scanning"),
    ("a place in no file", lambda log: place(log)["artifactLocation"].update(uri="elsewhere.yaml"), "code scanning"),
    ("an alert of what is no finding", change(result, kind="review", level="none"), "code scanning"),
    ("no category", without(lambda log: log["runs"][0], "automationDetails"), "code scanning"),
]


@pytest.mark.parametrize("broken, who", [(b, w) for _, b, w in BROKEN], ids=[name for name, _, _ in BROKEN])
def test_broken_sarif_is_seen(reports, schema, multitool, broken, who):
    log = json.loads(reports["sarif"].read_text())
    broken(log)
    see = {"schema": lambda: by_schema(schema, log), "validator": lambda: by_validator(multitool, log, reports["directory"]),
           "code scanning": lambda: by_code_scanning(log, reports["directory"])}
    assert see[who]()


# ---- the page, read

class Page(html.parser.HTMLParser):
    VOID = {"meta", "link", "br", "img", "hr", "input"}

    def __init__(self, text):
        super().__init__()
        self.tags, self.stack, self.text, self.bad = [], [], collections.defaultdict(str), []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.stack.append(tag)

    def handle_endtag(self, tag):
        if not self.stack or self.stack.pop() != tag:
            self.bad.append(tag)

    def handle_data(self, data):
        for tag in self.stack:
            self.text[tag] += data

    def named(self, *names):
        return [attrs for tag, attrs in self.tags if tag in names]


@pytest.fixture(scope="module")
def page(reports):
    return Page(reports["html"].read_text())


def test_the_page_is_whole(page):
    assert page.bad == [] and page.stack == []
    ids = [a["id"] for _, a in page.tags if "id" in a]
    assert len(set(ids)) == len(ids)
    assert {a["href"][1:] for a in page.named("a")} <= set(ids), "every link leads somewhere on the page"
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
    assert levels.count(1) == 1 and levels[0] == 1 and all(b <= a + 1 for a, b in zip(levels, levels[1:])), "headings skip no level"
    assert len(page.named("table")) == len(page.named("caption")) > 5
    assert all("scope" in a for a in page.named("th"))
    assert page.named("html")[0]["lang"] == "en" and len(page.named("main")) == 1


def test_the_first_paragraph_says_whether_it_passes_and_why(reports):
    first = re.sub(r"<[^>]*>", "", re.search(r"<p>(.*?)</p>", reports["html"].read_text(), re.S)[1])
    against = sum(c["against"] for c in reports["json"]["checks"])
    assert first.startswith(f"The service it does not pass. {against} findings stand against it, "), first


def test_every_check_is_there_once_with_its_verdict(reports, page):
    ids = [a["id"] for _, a in page.tags if "id" in a]
    assert all(ids.count(c["check"]) == 1 for c in reports["json"]["checks"])
    cells = [int(n) for n in re.findall(r'<td class="n[^>]*>(\d+)</td>', reports["html"].read_text())]
    assert sum(cells) == len(reports["json"]["checks"]) and len(cells) == 5 * 7


def test_nothing_of_the_services_words_is_markup(reports, page):
    """Nor of the manifest's; letters that turn or hide others are no letters there."""
    text = reports["html"].read_text()
    assert not page.named("script", "img", "iframe", "object", "b", "i", "form", "base")
    assert not re.search("[\u200b-\u200f\u2028-\u202e\u2066-\u2069\x00-\x08\x7f]", text) and "Łódź" in text and "?turned" in text
    assert "&lt;script&gt;" in text, "the service's name of itself is shown as text"
    assert max(map(len, text.splitlines())) < 12000, "what is endless is cut"
    assert not [v for _, a in page.tags for k, v in a.items() if k.startswith("on") or k in ("src", "style", "action") or k == "href" and not v.startswith(("#", "data:,"))]
    for secret in (SECRET, SECRET2):
        assert secret not in text


def luminance(colour):
    parts = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)] if len(colour) == 7 else [int(c * 2, 16) / 255 for c in colour[1:]]
    r, g, b = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(a, b):
    light, dark = sorted((luminance(a), luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_colours_can_be_told_apart(reports):
    """WCAG 2.1, 1.4.3, in light, dark and print."""
    assert contrast("#777777", "#fff") < 4.5 < contrast("#767676", "#ffffff")
    sets = re.findall(r":root\{(?:color-scheme:[^;]*;)?([^}]*)\}", reports["html"].read_text())
    assert len(sets) == 3
    for one in sets:
        c = dict(pair[2:].split(":") for pair in one.split(";"))
        pairs = [(t, b) for t in ("text", "soft") for b in ("back", "card")] + [(v, b) for v in ("bad", "warn", "maybe", "good") for b in ("back", "card")]
        pairs += [("text", "badback"), ("text", "goodback"), ("bad", "badback"), ("good", "goodback")]
        low = [p for p in pairs if contrast(c[p[0]], c[p[1]]) < 4.5]
        assert not low, low


# ---- the page, in Chromium

CHROMIUM = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
            "--disable-dev-shm-usage", "--enable-logging=stderr", "--v=0"]


@contextlib.contextmanager
def site(text):
    """(its URL, the paths that were asked for)"""
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer((SERVICE, 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://{SERVICE}:{server.server_port}/", asked
    finally:
        server.shutdown()
        server.server_close()


def browse(text, tmp_path, *more):
    """(the page as it stands in the browser, what its console said, what it asked for)"""
    with site(text) as (url, asked):
        done = subprocess.run([*CHROMIUM, f"--user-data-dir={tmp_path}/profile", *more, "--dump-dom", url], env={**os.environ, "HOME": str(tmp_path)}, capture_output=True, text=True, timeout=120)
    shutil.rmtree(tmp_path / "profile", ignore_errors=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line], asked


def test_chromium_shows_it_and_it_asks_for_nothing_else(reports, tmp_path):
    shown, console, asked = browse(reports["html"].read_text(), tmp_path)
    assert asked == ["/"] and console == []
    assert "<strong>it does not pass.</strong>" in shown and "<title>Audit of it: does not pass</title>" in shown
    for c in reports["json"]["checks"]:
        assert f'id="{c["check"]}"' in shown
    assert shown.count("<article ") == sum(c["accepted"] or c["covered"] or c["against"] or c["verdict"] in ("fail", "weak", "open", "inconclusive") for c in reports["json"]["checks"])


PICTURE, SCRIPTED = '<img src="/x.png">', "<script>document.title='taken'</script>"


@pytest.mark.parametrize("policy", [True, False], ids=["with its policy", "without it"])
def test_the_pages_policy_stops_what_would_have_got_in(reports, tmp_path, policy):
    """Of a page with a mistake in it; without the policy the same mistake is seen, so that the test could fail."""
    text = reports["html"].read_text().replace("</main>", PICTURE + SCRIPTED + "</main>")
    if not policy:
        text, n = re.subn(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)
        assert n == 1
    shown, console, asked = browse(text, tmp_path)
    assert ("/x.png" in asked) == ("<title>taken</title>" in shown) == (not policy)
    assert bool(console) == policy


@pytest.mark.parametrize("wraps", [True, False], ids=["as it is", "did it not break long words"])
def test_it_is_no_wider_than_a_telephone(reports, tmp_path, wraps):
    """Whatever unbroken text there is: measured by the page around a frame that is 390 wide."""
    text = reports["html"].read_text()
    if not wraps:
        text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text).replace("overflow-wrap:anywhere", "overflow-wrap:normal")
    frame = f"""<iframe style="width:390px;height:900px;border:0" srcdoc="{text.replace('&', '&amp;').replace('"', '&quot;')}"></iframe>
<p id="w"></p><script>onload = () => {{ document.getElementById("w").textContent = "too wide by " + (frames[0].document.documentElement.scrollWidth - frames[0].document.documentElement.clientWidth) }}</script>"""
    shown, _, _ = browse(frame, tmp_path)
    assert ('<p id="w">too wide by 0</p>' in shown) == wraps, re.findall(r'<p id="w">.*?</p>', shown)
