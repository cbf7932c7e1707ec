"""`exeat doctor`: one thing is broken at a time, and it is that line which says so, and what mends it."""
import email.utils
import json
import socket
import subprocess
import threading
import time

import pytest

from conftest import BOTH
from gateway import EXEAT, PATIENCE, clean_environment, exeat
from relay import Relay

POINT = "exeat env --client"


def environment(gateway, client, token, *words):
    """What a client has after `eval "$(exeat env ...)"`."""
    said = exeat("env", "--client", client, "--format", "json", *(("--with-token", "-") if token else ()), *words, config=gateway.config,
                 stdin=token).stdout
    return json.loads(said)["variables"]


def doctor(config, *words, program=EXEAT, **variables):
    env = {**clean_environment(), **variables}
    answer = subprocess.run([str(w) for w in (program, *(("-c", config) if config else ()), "doctor", "--format", "json", *words)], env=env,
                            capture_output=True, text=True, timeout=PATIENCE)
    said = json.loads(answer.stdout)
    assert said["schema"] == "exeat.doctor/1" and said["ok"] == (answer.returncode == 0), answer
    assert answer.returncode in (0, 1)
    return {c["check"]: c for c in said["checks"]}


def wrong(checks):
    assert all(bool(c.get("fix")) == (c["state"] != "ok") for c in checks.values())
    return [name for name, c in checks.items() if c["state"] == "wrong"]


@pytest.fixture
def sandbox(gateway, token):
    def run(client="curl", *words, config=gateway.config, without=(), **changed):
        variables = {k: v for k, v in environment(gateway, client, token).items() if k not in without}
        return doctor(config, "--client", client, *words, **{**variables, **changed})
    return run


@pytest.mark.parametrize("client", ["curl", "git", "pip", "npm", "node24", "cargo", "apt", "go", "wget", "skopeo", "python", "aws"])
def test_nothing_is_wrong_with_what_env_prints(sandbox, client):
    checks = sandbox(client)
    assert wrong(checks) == [] and all(c["state"] == "ok" for c in checks.values()), checks
    assert {"proxy", "no_proxy", "dns", "gateway", "clock", "token", "leave", "scope", "trust"} <= set(checks)


@pytest.mark.parametrize("client", ["java", "maven", "gradle"])
def test_nothing_is_wrong_with_java_behind_a_relay(gateway, token, tmp_path, client):
    (tmp_path / "t").write_text(token)
    with Relay(tmp_path, f"127.0.0.1:{gateway.port}", "--token-file", tmp_path / "t") as r:
        checks = doctor(gateway.config, "--client", client, **environment(gateway, client, None, "--relay", r.at))
    assert wrong(checks) == [] and "from the relay" in checks["leave"]["says"], checks


def test_the_clients_own_word_is_in_no_line(gateway, token, sandbox):
    lines = json.dumps(sandbox())
    assert token not in lines and token.split(".")[2] not in lines


def test_text_has_a_line_each_and_the_fix_below(gateway):
    answer = exeat("doctor", "--client", "git", config=gateway.config, check=False)
    lines = answer.stdout.splitlines()
    assert answer.returncode == 1 and lines[0].startswith("wrong     proxy     none of https_proxy HTTPS_PROXY is set")
    assert lines[1].strip().startswith("-> ") and POINT in lines[1]


def test_no_proxy_variable(sandbox):
    names = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")
    checks = sandbox("curl", without=names)
    assert wrong(checks) == ["proxy"] and POINT in checks["proxy"]["fix"]


@pytest.mark.parametrize("client,name", [("wget", "https_proxy"), ("go", "HTTPS_PROXY"), ("cargo", "CARGO_HTTP_PROXY")])
def test_the_variable_that_the_client_reads_first_counts(sandbox, gateway, client, name):
    checks = sandbox(client, **{name: "ftp://nowhere:1"})
    assert wrong(checks) == ["proxy"] and name in checks["proxy"]["says"]


@pytest.mark.parametrize("value", ["socks5://127.0.0.1:1080", "https://127.0.0.1:3128", "127.0.0.1", "http://127.0.0.1:", "http://:3128"])
def test_what_is_no_address_of_a_proxy(sandbox, value):
    checks = sandbox("curl", https_proxy=value)
    assert wrong(checks) == ["proxy"] and "is no address of a proxy" in checks["proxy"]["says"]


def test_node_must_be_told_to_look(sandbox):
    checks = sandbox("node24", without=("NODE_USE_ENV_PROXY",))
    assert wrong(checks) == ["switch"] and checks["switch"]["fix"] == "export NODE_USE_ENV_PROXY=1"


def test_node_20_reads_none(sandbox):
    checks = sandbox("node20")
    assert wrong(checks) == ["proxy"] and "fails closed" in checks["proxy"]["fix"]


def test_java_without_its_options(sandbox):
    assert wrong(sandbox("java", without=("JAVA_TOOL_OPTIONS",))) == ["proxy", "trust"]


@pytest.mark.parametrize("name", ["no_proxy", "NO_PROXY"])
@pytest.mark.parametrize("value,bad", [("*", "*"), ("localhost,registry.test", "registry.test"), (".test", ".test"), ("10.0.0.0/8", "10.0.0.0/8")])
def test_what_goes_around(sandbox, name, value, bad):
    checks = sandbox("curl", **{name: value})
    assert wrong(checks) == ["no_proxy"] and checks["no_proxy"]["says"] == f'{name} has "{bad}"'


def test_what_is_on_this_machine_may_go_around(sandbox):
    assert wrong(sandbox("curl", no_proxy="localhost, 127.0.0.1,::1")) == []


def test_a_name_that_has_no_address(sandbox, gateway, token):
    url = gateway.proxy_url(token).replace("127.0.0.1", "gw.exeat.invalid")
    checks = sandbox("curl", https_proxy=url)
    assert wrong(checks) == ["dns"] and "gw.exeat.invalid" in checks["dns"]["says"]


def answering(*answers):
    """A listener that says this to whoever connects."""
    s = socket.create_server(("127.0.0.1", 0))

    def serve():
        while True:
            try:
                c, _ = s.accept()
            except OSError:
                return
            with c:
                c.recv(65536)
                for a in answers:
                    c.sendall(a)
    threading.Thread(target=serve, daemon=True).start()
    return s


@pytest.mark.parametrize("answers,says", [
    ((), "closes without an answer"),
    ((b"SSH-2.0-x\r\n",), "speaks no HTTP"),
    ((b"HTTP/1.1 403 Forbidden\r\n\r\n",), "something else answers"),
    ((b"HTTP/1.1 200 exeat\r\n\r\n",), "something else answers"),
    ((b"\x15\x03\x01\x00\x02\x02\x46",), "speaks no HTTP"),
])
def test_who_answers_is_no_gateway(sandbox, gateway, token, answers, says):
    s = answering(*answers)
    checks = sandbox("curl", https_proxy=gateway.proxy_url(token).replace(str(gateway.port), str(s.getsockname()[1])))
    s.close()
    assert wrong(checks) == ["gateway"] and says in checks["gateway"]["says"], checks


def test_nobody_listens_there(sandbox, gateway, token):
    s = socket.create_server(("127.0.0.1", 0))
    port = s.getsockname()[1]
    s.close()
    checks = sandbox("curl", https_proxy=gateway.proxy_url(token).replace(str(gateway.port), str(port)))
    assert wrong(checks) == ["gateway"] and "Connection refused" in checks["gateway"]["says"]


def test_a_relay_without_a_gateway(gateway, tmp_path, sandbox):
    with Relay(tmp_path, "127.0.0.1:1") as r:
        checks = sandbox("curl", https_proxy=f"http://{r.at}")
    assert wrong(checks) == ["gateway"] and "gateway_unreachable" in checks["gateway"]["says"]


@pytest.mark.parametrize("hours,says", [(-2, "behind"), (2, "ahead of")])
def test_a_clock_that_is_off(sandbox, gateway, token, hours, says):
    date = email.utils.formatdate(time.time() - hours * 3600, usegmt=True)
    s = answering(f"HTTP/1.1 403 exeat host_not_listed 123456\r\nDate: {date}\r\n\r\n".encode())
    checks = sandbox("curl", https_proxy=gateway.proxy_url(token).replace(str(gateway.port), str(s.getsockname()[1])))
    s.close()
    assert wrong(checks) == ["clock"] and says in checks["clock"]["says"]


def test_no_token(sandbox, gateway):
    checks = sandbox("curl", https_proxy=f"http://127.0.0.1:{gateway.port}")
    assert wrong(checks) == ["leave"] and checks["leave"]["says"] == "the gateway says token_missing"
    assert "exeat token issue" in checks["leave"]["fix"]


def test_a_password_that_is_no_token(sandbox, gateway):
    checks = sandbox("curl", https_proxy=f"http://me:secret@127.0.0.1:{gateway.port}")
    assert wrong(checks) == ["token", "leave"]
    assert "secret" not in json.dumps(checks)


def test_a_token_that_has_expired(sandbox, gateway):
    old = gateway.token(BOTH, lifetime="1s")
    time.sleep(1.5)
    checks = sandbox("curl", https_proxy=gateway.proxy_url(old))
    assert wrong(checks) == ["token"] and "expired" in checks["token"]["says"] and "token renew" in checks["token"]["fix"]


def test_a_token_that_was_revoked(sandbox, gateway):
    revoked = gateway.token(BOTH, sandbox="sb-revoked")
    exeat("token", "revoke", "-", config=gateway.config, stdin=revoked)
    checks = sandbox("curl", https_proxy=gateway.proxy_url(revoked))
    assert wrong(checks) == ["leave"] and checks["leave"]["says"] == "the gateway says token_revoked"


def test_a_token_that_opens_nothing(sandbox, gateway):
    checks = sandbox("curl", https_proxy=gateway.proxy_url(gateway.token("other:read")))
    assert wrong(checks) == ["scope"]


TRUST = [("curl", "CURL_CA_BUNDLE"), ("git", "GIT_SSL_CAINFO"), ("pip", "PIP_CERT"), ("npm", "npm_config_cafile"),
         ("node24", "NODE_EXTRA_CA_CERTS"), ("cargo", "CARGO_HTTP_CAINFO"), ("go", "SSL_CERT_FILE")]


@pytest.mark.parametrize("client,name", TRUST)
def test_a_bundle_without_the_root(sandbox, pki, client, name):
    checks = sandbox(client, **{name: str(pki[0])})
    assert wrong(checks) == ["trust"] and name in checks["trust"]["says"] and POINT in checks["trust"]["fix"]


@pytest.mark.parametrize("client,name", TRUST)
def test_a_bundle_that_is_not_there(sandbox, client, name):
    checks = sandbox(client, **{name: "/nowhere/ca.pem"})
    assert wrong(checks) == ["trust"] and "cannot be read" in checks["trust"]["says"]


@pytest.mark.parametrize("client,names", [("git", ("GIT_SSL_CAINFO",)), ("apt", ("APT_CONFIG",)), ("wget", ("WGETRC",)),
                                          ("pip", ("PIP_CERT", "REQUESTS_CA_BUNDLE")), ("node24", ("NODE_EXTRA_CA_CERTS",))])
def test_without_its_variable_it_trusts_something_else(sandbox, client, names):
    assert wrong(sandbox(client, without=names)) == ["trust"]


@pytest.mark.parametrize("client,name,text", [("apt", "APT_CONFIG", 'Acquire::https::CaInfo "{}";'), ("wget", "WGETRC", "ca_certificate = {}\n")])
def test_a_file_that_names_another_bundle(sandbox, tmp_path, pki, client, name, text):
    (tmp_path / "rc").write_text(text.format(pki[0]))
    checks = sandbox(client, **{name: str(tmp_path / "rc")})
    assert wrong(checks) == ["trust"] and str(pki[0]) in checks["trust"]["says"]


def test_in_a_sandbox_there_is_no_configuration(sandbox, gateway):
    checks = sandbox("curl", config="/nowhere/proxy.conf")
    assert wrong(checks) == [] and checks["trust"]["state"] == "unknown" and "scope" not in checks
    checks = sandbox("curl", "--root", gateway.root, config="/nowhere/proxy.conf")
    assert wrong(checks) == [] and checks["trust"]["state"] == "ok"
    checks = sandbox("curl", "--root", "/nowhere.pem", config="/nowhere/proxy.conf")
    assert wrong(checks) == ["root"]


def test_status_says_that_clients_do_not_trust_the_ca(gateway, token):
    before = exeat("status", config=gateway.config).stdout
    subprocess.run(["curl", "-q", "-sS", "-x", gateway.proxy_url(token), "https://registry.test/pkg/a"], capture_output=True,
                   env=clean_environment(), timeout=PATIENCE)
    assert gateway.wait_for(kind="connection", reason="client_unknown_ca")
    line = next(l for l in exeat("status", config=gateway.config).stdout.splitlines() if "do not trust" in l)
    assert line.startswith("warning: ") and "exeat log query --reason client_unknown_ca" in line
    assert "do not trust" not in before
    found = exeat("log", "query", "--reason", "client_unknown_ca", config=gateway.config).stdout
    assert "client_unknown_ca" in found
