"""
What an audit sent and received can be shown from the journal: the exchanges stay in a file, and the record of the audit has the hash
that stands for them. A file that was changed is no longer the one.
"""
import json

import pytest

from gateway import Gateway, exeat
from origin import Origin

SERVICE = """
  files:
    hosts: [files.test]
    plain-ports: [80]
    addresses: ["127.0.0.1:{port}"]
    allow: ["GET /**"]
    scope: files:read
    audit-max-age: 1h
"""
MANIFEST = """
owner: {{name: package team, statement: We run it and want it tested.}}
services:
  files: {{url: "http://127.0.0.1:{port}", kind: http, protected: [/secret]}}
"""


class Site:
    def __init__(self, directory):
        self.origin = Origin()
        self.gateway = Gateway(directory, SERVICE.format(port=self.origin.port)).start()
        self.manifest = directory / "audit.yaml"
        self.manifest.write_text(MANIFEST.format(port=self.origin.port))
        self.said = self.audit()
        self.exchanges = directory / "attestations" / "files.exchanges"
        self.record = self.gateway.wait_for(kind="audit", service="files")[-1]

    def audit(self, *words):
        return exeat("audit", "files", "-m", self.manifest, "--attest", "--rate", "400", *words, config=self.gateway.config, check=False)

    def check(self, path, *words):
        return exeat("audit", "files", "--check-exchanges", path, *words, config=self.gateway.config, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    s = Site(tmp_path_factory.mktemp("receipts") / "state")
    yield s
    if s.gateway.process.poll() is None:
        assert s.gateway.stop() == 0
    s.origin.close()


def test_the_record_says_who_audited_and_what_stands_for_the_exchanges(site):
    lines = site.exchanges.read_text().splitlines()
    record = site.record
    assert record["audit"]["exchanges"] == len(lines) > 20 and len(record["audit"]["root"]) == 64
    assert record["by"] == "admin" and record["outcome"] == "did not pass" and "AN-" in record["detail"]
    assert f"exeat why {record['id']}" in site.said.stderr
    assert {entry.split("=")[0] for entry in record["audit"]["checks"].split(",")} == {json.loads(line)["check"] for line in lines}
    assert record["audit"]["root"] in exeat("log", "query", "--kind", "audit", config=site.gateway.config).stdout
    why = exeat("why", record["id"], config=site.gateway.config).stdout
    assert why.startswith("Audit ") and record["audit"]["root"] in why and "--check-exchanges" in why


def test_the_file_that_was_kept_is_the_one(site):
    r = site.check(site.exchanges)
    assert r.returncode == 0 and r.stdout.startswith(f"the same: these are the {site.record['audit']['exchanges']} exchanges of the audit of files")
    answer = json.loads(site.check(site.exchanges, "--format", "json").stdout)
    assert answer["same"] and answer["record"] == site.record["id"] and answer["root"] == site.record["audit"]["root"]
    r = exeat("log", "verify", config=site.gateway.config)
    assert r.stdout.startswith("intact")


@pytest.mark.parametrize("name, change, differs", [
    ("an answer", lambda lines: [line.replace('"response": "', '"response": "0', 1).replace('"response":"', '"response":"0', 1) if '"check": "AN-1"' in line or '"check":"AN-1"' in line
                                 else line for line in lines], "AN-1"),
    ("a line less", lambda lines: lines[:-1], None),
    ("a line more", lambda lines: lines + [lines[-1]], None),
    ("two lines", lambda lines: lines[1:2] + lines[:1] + lines[2:], "the baselines"),
])
def test_a_file_that_was_changed_is_not(site, tmp_path, name, change, differs):
    lines = site.exchanges.read_text().splitlines()
    changed = change(lines)
    assert changed != lines
    (tmp_path / "x").write_text("".join(line + "\n" for line in changed))
    r = site.check(tmp_path / "x")
    assert r.returncode == 1 and r.stdout.startswith("NOT the same") and site.record["id"] in r.stdout
    if differs:
        assert f"they differ in {differs}\n" in r.stdout
    assert json.loads(site.check(tmp_path / "x", "--format", "json").stdout)["same"] is False


def test_what_is_no_such_file_is_refused(site, tmp_path):
    (tmp_path / "x").write_text(site.exchanges.read_text()[:-10])
    r = site.check(tmp_path / "x")
    assert r.returncode == 1 and "is no exchange of an audit, or was cut" in r.stderr
    r = site.check(tmp_path / "none")
    assert r.returncode == 2


def test_without_a_gateway_it_says_that_the_journal_has_nothing(site):
    assert site.gateway.stop() == 0
    r = site.audit()
    assert "the journal has no record of this audit: no gateway listens" in r.stderr
    r = site.check(site.exchanges)
    assert r.returncode == 1 and "NOT the same as any audit" in r.stdout
