"""`exeat token renew`: a file that always holds a token that is good, whatever happens around it."""
import json
import signal
import socket
import stat
import subprocess
import time
from base64 import urlsafe_b64decode

import pytest

from gateway import EXEAT, PATIENCE, TREE, clean_environment, exeat, wait_until


@pytest.fixture
def state(tmp_path):
    directory = tmp_path / "state"
    exeat("init", "--name", "gw.test", "--service", "npm=npm.example,npm-read", directory)
    return directory


def claims(file):
    part = file.read_text().split(".")[1]
    return json.loads(urlsafe_b64decode(part + "=" * (-len(part) % 4)))


class Renewal:
    def __init__(self, state, *words, environment=None):
        self.file, self.log = state.parent / "vm1.jwt", state.parent / "renew.log"
        command = [EXEAT, "-c", state / "proxy.conf", "token", "renew", "--sandbox", "vm1", "--scope", "npm:read", "--output",
                   self.file, *words]
        with open(self.log, "wb") as out:
            self.process = subprocess.Popen(command, stderr=out, stdout=out, stdin=subprocess.DEVNULL,
                                            env=clean_environment(**(environment or {})))

    def said(self):
        return self.log.read_text()

    def jti(self):
        return claims(self.file)["jti"]

    def wait_for_file(self):
        wait_until(self.file.exists, "the first token")
        return self

    def wait_for_another(self, *seen):
        return wait_until(lambda: (lambda j: j not in seen and j)(self.jti()), "another token")

    def stop(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        return self.process.wait(PATIENCE)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def test_the_file_is_replaced_every_interval_and_never_seen_in_part(state):
    with Renewal(state, "--lifetime", "5s", "--interval", "100ms") as r:
        r.wait_for_file()
        seen = set()
        while len(seen) < 5:
            text = r.file.read_text()
            assert text.endswith("\n") and text.count(".") == 2
            info = r.file.stat()
            assert stat.S_IMODE(info.st_mode) == 0o600
            seen.add(r.jti())
        said = claims(r.file)
        assert (said["sub"], said["scope"], said["exp"] - said["iat"]) == ("vm1", "npm:read", 5)
        assert exeat("token", "inspect", config=state / "proxy.conf", stdin=r.file.read_text()).returncode == 0
        assert r.stop() == 0
        assert r.said() == ""
    assert [p.name for p in state.parent.iterdir() if "jwt" in p.name] == ["vm1.jwt"]


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_in_order(state, how):
    with Renewal(state) as r:
        r.wait_for_file()
        assert r.stop(how) == 0


def test_hup_renews_at_once(state):
    with Renewal(state) as r:
        first = r.wait_for_file().jti()
        r.process.send_signal(signal.SIGHUP)
        r.wait_for_another(first)


def test_without_an_interval_it_is_a_third_of_the_life(state):
    with Renewal(state, "--lifetime", "3s") as r:
        first = r.wait_for_file().jti()
        began = time.monotonic()
        r.wait_for_another(first)
        assert time.monotonic() - began > 0.5


def test_once(state):
    with Renewal(state, "--once") as r:
        assert r.process.wait(PATIENCE) == 0
        assert claims(r.file)["sub"] == "vm1"


@pytest.mark.parametrize("words,says", [
    (("--interval", "15m"), "--interval is 900 s and the token is good for 900 s: it would lie there expired"),
    (("--interval", "0s"), "--interval is no time to wait"),
    (("--lifetime", "2h"), "--lifetime is 7200 s; issuer local may give 1 s to 900 s"),
    (("--issuer", "locl"), "no issuer is called locl; did you mean local?"),
    (("--listener", "vm9"), "no listener is called vm9"),
])
@pytest.mark.parametrize("once", [(), ("--once",)])
def test_what_can_never_succeed_is_said_at_once(state, words, says, once):
    with Renewal(state, *words, *once) as r:
        assert r.process.wait(PATIENCE) == 2
        assert says in r.said() and not r.file.exists()


def test_an_output_is_needed(state):
    r = exeat("token", "renew", "--sandbox", "vm1", config=state / "proxy.conf", check=False)
    assert r.returncode == 2 and "--output FILE is needed" in r.stderr


def take_away_the_key(state, r):
    key = state / "issuer/local.key"
    key.rename(key.with_suffix(".away"))
    return lambda: key.with_suffix(".away").rename(key)


def break_the_configuration(state, r):
    config = state / "proxy.conf"
    good = config.read_text()
    config.write_text(good + "\nnonsense: 1\n")
    return lambda: config.write_text(good)


def put_a_directory_in_the_way(state, r):
    r.file.unlink()
    r.file.mkdir()
    return r.file.rmdir


@pytest.mark.parametrize("trouble,says", [
    (take_away_the_key, "no issuer of this configuration has a private key here"),
    (break_the_configuration, "nonsense"),
    (put_a_directory_in_the_way, "vm1.jwt: Is a directory"),
])
def test_trouble_is_said_once_and_waited_out(state, trouble, says):
    with Renewal(state, "--lifetime", "30s", "--interval", "100ms") as r:
        r.wait_for_file()
        mend = trouble(state, r)
        wait_until(lambda: says in r.said(), "a sentence about it")
        assert "trying again; the token that is there ends at 20" in r.said()
        time.sleep(1.5)  # it has been tried again by now, and that is no news
        assert r.said().count("trying again") == 1
        assert r.process.poll() is None
        mend()
        wait_until(lambda: "is fresh again" in r.said(), "it to be mended")
        assert claims(r.file)["sub"] == "vm1"
        assert r.stop() == 0


def test_a_token_that_ends_over_it_is_said(state):
    with Renewal(state, "--lifetime", "2s", "--interval", "100ms") as r:
        r.wait_for_file()
        take_away_the_key(state, r)
        wait_until(lambda: "has expired" in r.said(), "the word about the end")
        assert r.said().count("has expired") == 1 and r.process.poll() is None


def test_what_is_not_there_yet_is_waited_for(state):
    away = state / "proxy.conf.away"
    (state / "proxy.conf").rename(away)
    with Renewal(state) as r:
        wait_until(lambda: "trying again" in r.said(), "a sentence about it")
        away.rename(state / "proxy.conf")
        r.wait_for_file()
    away.write_text("")
    (state / "proxy.conf").unlink()
    with Renewal(state, "--once") as r:
        assert r.process.wait(PATIENCE) == 2 and "proxy.conf" in r.said()


def test_the_service_manager_is_told(state, tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        s.bind(str(tmp_path / "notify"))
        s.settimeout(PATIENCE)
        with Renewal(state, environment={"NOTIFY_SOCKET": str(tmp_path / "notify")}) as r:
            assert s.recv(100) == b"READY=1"
            assert r.file.exists()
            assert r.stop() == 0
            assert s.recv(100) == b"STOPPING=1"


def test_it_follows_an_issuer_that_shortens_its_tokens(state):
    with Renewal(state, "--interval", "500ms") as r:
        r.wait_for_file()
        config = state / "proxy.conf"
        config.write_text(config.read_text().replace("key: issuer/local.key", "key: issuer/local.key\n    max-lifetime: 1s"))
        wait_until(lambda: claims(r.file)["exp"] - claims(r.file)["iat"] == 1, "a shorter token")
        seen = r.jti()
        r.wait_for_another(seen)


# ---- the unit

@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    prefix = tmp_path_factory.mktemp("prefix")
    subprocess.run(["make", "-s", "-C", TREE, f"B={EXEAT.parent}", f"PREFIX={prefix}", "install"], check=True, timeout=600,
                   capture_output=True)
    return prefix


@pytest.mark.parametrize("name, runs", [("exeat-token@.service", "token renew --sandbox %i"), ("exeat-audit.service", "audit --all --attest"),
                                        ("exeat-audit.timer", None)])
def test_the_unit_is_installed_and_passes_its_check(installed, name, runs):
    unit = installed / "lib/systemd/system" / name
    assert not runs or f"ExecStart={installed}/bin/exeat {runs}" in unit.read_text()
    answer = subprocess.run(["systemd-analyze", "--man=no", "verify", unit], capture_output=True, text=True, timeout=PATIENCE)
    assert (answer.returncode, str(unit.name) in answer.stderr) == (0, False), answer.stderr


def test_the_units_command_is_one_that_works(installed, state, tmp_path):
    """As systemd reads the line: %i replaced, ${X} one word, $X split."""
    line = next(l for l in (installed / "lib/systemd/system/exeat-token@.service").read_text().splitlines() if l.startswith("ExecStart="))
    words = []
    for word in line.removeprefix("ExecStart=").replace("%i", "vm1").replace("/run/exeat-token", str(tmp_path)).split():
        word = word.replace("${SCOPE}", "npm:read").replace("${INTERVAL}", "5m")
        words += ["--once"] if word == "$OPTIONS" else [word]
    answer = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE,
                            env=clean_environment(EXEAT_CONFIG=str(state / "proxy.conf")))
    assert answer.returncode == 0, answer.stderr
    assert claims(tmp_path / "vm1.jwt")["scope"] == "npm:read"
