"""What docs/tokens.md and docs/clients.md tell people to type works as it stands there."""
import re
import signal
import subprocess

import pytest

from gateway import EXEAT, PATIENCE, TREE, Gateway, clean_environment, wait_until


def blocks(page, text=None):
    """The indented blocks of a page (or of text, a part of it), in order; what is fenced is for elsewhere."""
    text = re.sub(r"(?ms)^```.*?^```", "", text or (TREE / "docs" / page).read_text())
    return [re.sub(r"(?m)^    ", "", b).strip() for b in re.findall(r"(?m)(?:^    .*\n)+", text)]


SERVICES = """
  npm: {preset: npm-read, hosts: [npm.registry.test], scope: "npm:read", audit: "waived: test"}
  git: {preset: git-clone, hosts: [git.registry.test], scope: "git:read", audit: "waived: test"}
"""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    g = Gateway(tmp_path_factory.mktemp("docs") / "state", SERVICES)
    g.start()
    yield g
    assert g.stop() == 0


class Reader:
    """Somebody with a shell who types what the page says."""

    def __init__(self, home, gateway):
        self.home = home
        self.environment = clean_environment(HOME=str(home), EXEAT_CONFIG=str(gateway.config))
        self.environment["PATH"] = f"{EXEAT.parent}:{self.environment['PATH']}"

    def type(self, block):
        return subprocess.run(["/bin/sh", "-ec", block], env=self.environment, cwd=self.home, text=True, capture_output=True,
                              timeout=PATIENCE, stdin=subprocess.DEVNULL)

    def start(self, block):
        return subprocess.Popen(["/bin/sh", "-ec", "exec " + block], env=self.environment, cwd=self.home, stdin=subprocess.DEVNULL)


@pytest.fixture
def reader(tmp_path, gateway):
    return Reader(tmp_path, gateway)


def test_tokens(reader):
    for block in blocks("tokens.md"):
        if "token renew" in block:
            (reader.home / "vm1.jwt").unlink(missing_ok=True)
            process = reader.start(block)
            wait_until((reader.home / "vm1.jwt").exists, "a token that is kept fresh")
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == 0
        else:
            answer = reader.type(block)
            assert (answer.returncode, answer.stderr) == (0, ""), (block, answer)


PAGES = ["README.md", *(f"docs/{p.name}" for p in sorted((TREE / "docs").glob("*.md")))]


@pytest.mark.parametrize("page", PAGES)
def test_tables_are_whole(page):
    """Each row on one line, with as many cells as the first; a bar within code is none."""
    rows = re.sub(r"(?ms)^```.*?^```", "", (TREE / page).read_text())
    for table in re.findall(r"(?m)(?:^\|.*\n)+", rows):
        lines = [re.sub(r"\\\||`[^`]*`", "", line) for line in table.splitlines()]
        assert [line for line in lines if not line.endswith("|") or line.count("|") != lines[0].count("|")] == []


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    def anchors(text):
        return {re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-") for heading in re.findall(r"(?m)^#+ (.*)", text)}

    for link in re.findall(r"\]\(([^)\s]+)\)", (TREE / page).read_text()):
        file, _, anchor = link.partition("#")
        target = (TREE / page).parent / file if file else TREE / page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target.read_text()), link


def test_clients(reader):
    for block in blocks("clients.md"):
        answer = reader.type(block)
        assert (answer.returncode, answer.stderr) == (0, ""), (block, answer)
    assert "npm_config_cafile" in (reader.home / "npm.env").read_text()
