"""README.md: the tour of five and of ten minutes, typed as it stands there (but for the ports, which are free ones)."""
import re
import subprocess

import pytest
from gateway import EXEAT, TREE, clean_environment, exeat, free_port, wait_until
from origin import Origin, make_pki
from test_docs import Reader, blocks


class Owner(Reader):
    """Somebody who has typed `make run` in one terminal and goes on in another."""

    def __init__(self, home):
        self.home, self.environment = home, clean_environment(HOME=str(home))
        exeat("-q", "init", home / "run")
        conf = home / "run/proxy.conf"
        conf.write_text(re.sub(r"127\.0\.0\.1:(3128|9464)", lambda m: f"127.0.0.1:{free_port()}", conf.read_text()))
        (home / "build").symlink_to(EXEAT.parent)
        self.log = open(home / "log", "ab+")
        self.gateway = subprocess.Popen([EXEAT, "-c", "run/proxy.conf", "serve"], cwd=home, stderr=self.log, stdout=self.log,
                                        env=clean_environment())
        wait_until(lambda: b"exeat: ready" in (home / "log").read_bytes(), "the gateway")

    def stop(self):
        self.gateway.terminate()
        assert self.gateway.wait() == 0


@pytest.fixture
def owner(tmp_path):
    o = Owner(tmp_path)
    yield o
    o.stop()


def section(title):
    page = (TREE / "README.md").read_text()
    return page[page.index(f"## {title}"):].split("\n## ")[0]


def tour(title):
    """The indented blocks of a section of the README."""
    return blocks("README.md", section(title))


def test_the_recipe_is_what_make_run_does():
    recipe = re.search(r"(?m)^run:.*\n((?:\t.*\n)+)", (TREE / "Makefile").read_text())[1]
    assert "exeat -q init run" in recipe and "exeat -c run/proxy.conf serve" in recipe


def test_five_minutes(owner):
    make, first, out, why = tour("Five minutes")
    assert make == "make run"
    exports, *lines = first.splitlines()
    answers = [owner.type(f"{exports}\n{line}") for line in lines]
    assert [a.returncode for a in answers] == [0, 0, 0, 1], answers
    assert answers[0].stdout.startswith("ready") and "path_not_allowed" not in answers[2].stdout
    assert "method_not_allowed" in answers[3].stdout
    refused = owner.type(f"{exports}\n{out}")
    digits = re.search(r" 403 exeat host_not_listed ([0-9a-f]{6})\b", refused.stdout)
    assert digits, refused
    told = [owner.type(f"{exports}\n{line}") for line in why.splitlines()]
    assert [a.returncode for a in told] == [0, 0, 0], told
    by_digits = owner.type(f"{exports}\nexeat why {digits[1]}")
    assert by_digits.returncode == 0 and by_digits.stdout == told[0].stdout and "elsewhere.example" in by_digits.stdout


def test_ten_minutes(owner, tmp_path):
    service, reload, *_ = tour("Ten minutes")
    exports = tour("Five minutes")[1].splitlines()[0]
    ca, cert, key = make_pki(tmp_path, ["artifacts.corp"])
    origin = Origin(cert, key)
    assert "/etc/ssl/corp.pem" in service and 'addresses: ["127.0.0.1:8443"]' in section("Ten minutes")
    service = service.replace("/etc/ssl/corp.pem", str(ca)) + f'\n  addresses: ["127.0.0.1:{origin.port}"]'
    conf = owner.home / "run/proxy.conf"
    conf.write_text(conf.read_text().replace("services:\n", "services:\n" + re.sub(r"(?m)^", "  ", service) + "\n"))
    check, go, token, install = reload.splitlines()
    assert install.startswith("npm install --registry https://artifacts.corp:8443/npm/ ")
    assert owner.type(f"{exports}\n{check}").returncode == 0
    assert owner.type(f"{exports}\n{go}").returncode == 0
    answer = owner.type(f"{exports}\n{token}\ncurl -sSf https://artifacts.corp:8443/npm/some-package")
    assert answer.returncode == 0, answer
    assert [r.target for r in origin.requests] == ["/npm/some-package"]
    origin.close()
