"""The commands that need no gateway running: help, init, config, env, manual."""
import os
import json
import re
import shutil
import stat
import subprocess

import pytest

from gateway import TREE, clean_environment, exeat


@pytest.fixture
def state(tmp_path):
    directory = tmp_path / "state"
    exeat("init", "--name", "gw.test", "--service", "npm=npm.example,npm-read", directory)
    return directory


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


# ---- the frame ----

REFUSED = [
    (["cofnig"], 'no command "cofnig"; did you mean "config"?; see: exeat --help'),
    (["config", "chekc"], 'config: no command "chekc"; did you mean "check"?; see: exeat config --help'),
    (["config", "check", "--frmat", "json"], "config check: no option --frmat; did you mean --format?"),
    (["config"], "config: it wants a command; see: exeat config --help"),
    ([], "it wants a command; see: exeat --help"),
    (["help", "cofnig"], 'no command "cofnig"; did you mean "config"?'),
    (["init", "--service", "a=a.test,npm-raed", "x"], 'there is no preset "npm-raed"; there are npm-read,'),
    (["init"], "init: it wants DIR; see: exeat init --help"),
    (["init", "a", "b"], 'init: "b" is one word too many'),
    (["-q", "-v", "config", "check"], "--quiet and --verbose at once"),
    (["init", "--format", "json", "x"], "init: there is no JSON form of this"),
    (["--format", "xml", "config", "check"], 'one of text|json, not "xml"'),
]


@pytest.mark.parametrize("words, text", REFUSED, ids=[" ".join(r[0]) or "nothing" for r in REFUSED])
def test_misuse_is_one_line_and_status_2(words, text):
    r = exeat(*words, check=False)
    assert r.returncode == 2 and r.stdout == ""
    assert text in r.stderr and r.stderr.count("\n") == 1


@pytest.mark.parametrize("words", [("status",), ("env",), ("service", "list"), ("explain", "GET", "https://a.test/"), ("firewall", "print", "-i", "vm1")], ids=" ".join)
def test_who_names_no_configuration_is_told_how(tmp_path, words):
    r = exeat(*words, config=tmp_path / "none.conf", check=False)
    assert r.returncode == 2 and f"{tmp_path}/none.conf: " in r.stderr and "-c FILE" in r.stderr and "exeat init DIR" in r.stderr


def commands():
    return re.findall(r"^  ([a-z]+)", exeat("--help").stdout.split("everywhere:")[0], re.M)


def test_help_before_a_command_is_help_behind_it():
    assert exeat("help").stdout == exeat("--help").stdout
    assert exeat("help", "token").stdout == exeat("token", "--help").stdout
    assert exeat("help", "log", "query").stdout == exeat("log", "query", "--help").stdout
    assert exeat("config", "help").stdout.startswith("<!-- written by")


def test_help_lists_commands_and_each_has_its_own():
    names = commands()
    assert {"init", "serve", "config", "env"} <= set(names)
    for name in names:
        text = exeat(name, "--help").stdout
        assert text.startswith(f"usage: exeat {name}")
        for sub in re.findall(r"^  ([a-z-]+)", text.split("\ncommands:\n")[1].split("\n\n")[0], re.M) \
                if "\ncommands:\n" in text else []:
            assert exeat(name, sub, "--help").stdout.startswith(f"usage: exeat {name} {sub}")


def test_version():
    assert re.fullmatch(r"exeat \d+\.\d+\.\d+\n", exeat("--version").stdout)


def test_manual_has_a_page_for_every_command(tmp_path):
    exeat("man", tmp_path)
    helpers = {"exeat-relay.1", "exeat-credential.1"}
    assert {p.name for p in tmp_path.iterdir()} == {"exeat.1"} | {f"exeat-{c}.1" for c in commands()} | helpers
    if shutil.which("groff"):
        for page in tmp_path.iterdir():
            r = subprocess.run(["groff", "-man", "-ww", "-Tutf8", page], capture_output=True, text=True)
            assert r.returncode == 0 and r.stderr == "", f"{page.name}: {r.stderr}"


# ---- where the configuration is found ----


def test_configuration_from_the_environment_and_never_from_here(state):
    at = {"cwd": state, "capture_output": True, "text": True}
    exe = [exeat_path(), "config", "check"]
    assert subprocess.run(exe, env=clean_environment(EXEAT_CONFIG=str(state / "proxy.conf")), **at).returncode == 0
    r = subprocess.run(exe, env=clean_environment(EXEAT_CONFIG=""), **at)
    assert r.returncode == 2 and "/etc/exeat/proxy.conf: no such file" in r.stderr


def exeat_path():
    from gateway import EXEAT
    return EXEAT


# ---- init ----


def test_init_writes_a_whole_state(state):
    assert mode(state) == 0o700
    for name in ["ca", "issuer", "journal"]:
        assert mode(state / name) == 0o700, name
    for name in ["canaries.json", "ca/root.key", "ca/intermediate.key", "issuer/local.key"]:
        assert mode(state / name) == 0o600, name
    for name in ["proxy.conf", "ca/root.pem", "ca/intermediate.pem", "issuer/local.jwks"]:
        assert mode(state / name) == 0o644, name
    key = json.loads((state / "issuer/local.jwks").read_text())["keys"][0]
    assert key["kty"] == "EC" and "d" not in key
    assert len(json.loads((state / "canaries.json").read_text())["canaries"]) == 3


def test_init_says_what_to_do_next(tmp_path):
    out = exeat("init", tmp_path / "a").stdout
    for text in ["serve", "token issue", "env --with-token", "why --last", "npm.example"]:
        assert text in out
    assert exeat("-q", "init", tmp_path / "b").stdout == ""


def test_init_refuses_a_directory_with_something_in_it(tmp_path):
    (tmp_path / "mine").write_text("precious")
    r = exeat("init", tmp_path, check=False)
    assert r.returncode == 2 and "is not empty" in r.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["mine"]


def test_init_takes_an_empty_directory_and_closes_it(tmp_path):
    tmp_path.chmod(0o755)
    exeat("init", tmp_path)
    assert mode(tmp_path) == 0o700


BAD = [["--service", "x"], ["--service", "x=10.0.0.1"], ["--service", "a=b.example", "--service", "a=c.example"],
       ["--listen", "localhost:1"], ["--publish", "x"], ["--name", "a b"], ["--service", "a=b.example,no-preset"]]


@pytest.mark.parametrize("words", BAD, ids=[" ".join(w) for w in BAD])
def test_init_refuses(words, tmp_path):
    r = exeat("init", *words, tmp_path / "new", check=False)
    assert r.returncode == 2 and r.stderr.startswith("exeat: error: init: ")


# ---- config ----


def test_check_warns_of_what_init_waives_and_quiet_is_silent(state):
    r = exeat("config", "check", config=state / "proxy.conf")
    assert r.stdout == "" and "services.npm is open without an audit" in r.stderr
    assert re.search(r"proxy\.conf:\d+:\d+: ", r.stderr)
    assert exeat("-q", "config", "check", config=state / "proxy.conf").stderr == ""


def spoil_nothing_there(state):
    shutil.rmtree(state / "ca")


def spoil_pair(state):
    shutil.copy(state / "ca/root.key", state / "ca/intermediate.key")
    (state / "ca/root.key").unlink()


def spoil_fifo(name):
    def do(state):
        (state / name).unlink()
        os.mkfifo(state / name, 0o600)
    return do


SPOILED = [
    ("a FIFO for the configuration", spoil_fifo("proxy.conf"), "proxy.conf: not a regular file"),
    ("a FIFO for a key", spoil_fifo("ca/intermediate.key"), "intermediate.key: not a regular file"),
    ("the CA is not there", spoil_nothing_there, "there is no CA; put yours back, or make one: exeat ca init"),
    ("a key of the CA others can read", lambda s: (s / "ca/intermediate.key").chmod(0o644), "run: chmod 600"),
    ("a pair that does not fit, and no root.key", spoil_pair, "not a pair that root.pem signed"),
    ("a state that everybody can write", lambda s: s.chmod(0o777), "anybody can write it (mode 0777); run: chmod o-w"),
    ("a CA that everybody can write", lambda s: (s / "ca").chmod(0o777), "ca: anybody can write it"),
    ("keys of an issuer that everybody can write", lambda s: (s / "issuer/local.jwks").chmod(0o666),
     "local.jwks: anybody can write it (mode 0666)"),
]


@pytest.mark.parametrize("spoil, text", [r[1:] for r in SPOILED], ids=[r[0] for r in SPOILED])
@pytest.mark.parametrize("words", [["config", "check"], ["serve"]], ids=" ".join)
def test_check_refuses_the_files_that_serve_refuses(state, spoil, text, words):
    spoil(state)
    r = exeat(*words, config=state / "proxy.conf", check=False)
    assert r.returncode == 2 and text in r.stderr, r.stderr


def test_check_names_the_place(state):
    conf = state / "proxy.conf"
    conf.write_text(conf.read_text().replace("    ports: [443]", "    prots: [443]"))
    line = conf.read_text()[:conf.read_text().index("prots")].count("\n") + 1
    r = exeat("config", "check", config=conf, check=False)
    assert r.returncode == 2
    assert f'proxy.conf:{line}:5: no key "prots" in services; did you mean "ports"?' in r.stderr
    verdict = json.loads(exeat("config", "check", "--format", "json", config=conf, check=False).stdout)
    assert verdict["schema"] == "exeat.config-check/1" and verdict["ok"] is False
    assert f"{line}:5" in verdict["error"]


def test_print_is_read_again_and_gives_the_same(state, tmp_path):
    first = exeat("config", "print", config=state / "proxy.conf").stdout
    assert "  workers: auto  # default\n" in first and str(state / "canaries.json") in first
    (tmp_path / "again.conf").write_text(first)
    second = exeat("config", "print", config=tmp_path / "again.conf").stdout
    assert second == first.replace("  # default", "")


def test_schema_is_a_json_object_of_all_sections():
    schema = json.loads(exeat("config", "schema").stdout)
    assert {"gateway", "listen", "issuers", "services", "limits", "include"} <= set(schema["properties"])
    assert schema["additionalProperties"] is False


def test_documentation_is_what_the_tables_say():
    assert (TREE / "docs/configuration.md").read_text() == exeat("config", "help").stdout, "run: make docs"


# ---- env ----


def shell(lines, *names):
    script = lines + "".join(f'printf "%s\\n" "${n}"\n' for n in names)
    return subprocess.run(["sh", "-euc", script], capture_output=True, text=True, check=True).stdout.splitlines()


def test_env_is_what_a_shell_can_read(state):
    out = exeat("env", config=state / "proxy.conf").stdout
    proxy, bundle, git, node = shell(out, "https_proxy", "SSL_CERT_FILE", "GIT_SSL_CAINFO", "NODE_EXTRA_CA_CERTS")
    assert proxy == "http://127.0.0.1:3128" and bundle == git == str(state / "ca/bundle.pem")
    assert node == str(state / "ca/root.pem")
    text = (state / "ca/bundle.pem").read_text()
    assert text.endswith((state / "ca/root.pem").read_text()) and text.count("BEGIN CERTIFICATE") > 1


def test_env_has_a_token_only_when_asked(state, tmp_path):
    (tmp_path / "token").write_text("aa.bb-_.cc\n")
    config = state / "proxy.conf"
    assert "jwt:" not in exeat("env", config=config).stdout
    from_file = exeat("env", "--with-token", tmp_path / "token", config=config).stdout
    from_stdin = exeat("env", "--with-token", "-", config=config, stdin="aa.bb-_.cc\n").stdout
    assert from_file == from_stdin and shell(from_file, "http_proxy") == ["http://jwt:aa.bb-_.cc@127.0.0.1:3128"]


@pytest.mark.parametrize("token", ["", "a b", "a'b", "$(id)", "a@b", "a\nb", "é"])
def test_env_refuses_what_is_no_token(state, token):
    r = exeat("env", "--with-token", "-", config=state / "proxy.conf", stdin=token, check=False)
    assert r.returncode == 2 and r.stdout == "" and "this is no leave token" in r.stderr


def test_env_for_one_client(state):
    config = state / "proxy.conf"
    r = json.loads(exeat("env", "--client", "git", "--format", "json", config=config).stdout)
    assert r["schema"] == "exeat.env/1" and r["client"] == "git"
    assert r["variables"]["GIT_CONFIG_VALUE_0"] == "basic" and "PIP_CERT" not in r["variables"]
    there = exeat("env", "--client", "pip", "--ca-bundle", "/sandbox/it's.pem", config=config).stdout
    assert shell(there, "PIP_CERT") == ["/sandbox/it's.pem"]


def test_env_for_a_listener_on_all_addresses_uses_the_gateways_name(state):
    conf = state / "proxy.conf"
    conf.write_text(conf.read_text().replace("127.0.0.1:3128", "0.0.0.0:3128"))
    assert shell(exeat("env", config=conf).stdout, "https_proxy") == ["http://gw.test:3128"]
    r = exeat("env", "--listener", "none", config=conf, check=False)
    assert r.returncode == 2 and 'no listener "none"' in r.stderr
