"""Bound listeners: one sandbox behind each, whose token the operator keeps; made by the configuration or while the gateway runs."""
import json
import os
import pwd
import signal
import socket
import stat
import time

import pytest

from conftest import BOTH, services
from gateway import EXEAT, PATIENCE, Gateway, Wire, connect_head, exeat, free_port, wait_until
from load import ready
from test_token import claims

N_WORKERS = 2
ROOT = os.geteuid() == 0


def listen(config, *lines):
    """Listeners beside the one that each gateway of the tests has."""
    text = config.read_text()
    config.write_text(text.replace("listen:\n", "listen:\n" + "".join(f"  {line}\n" for line in lines), 1))


def keep(path, token, mode=0o600):
    """As `exeat token renew` does: the file is replaced as a whole."""
    fresh = path.with_suffix(".new")
    fresh.touch(mode)
    fresh.chmod(mode)
    fresh.write_text(token + "\n")
    fresh.replace(path)


class Door:
    """A client of one listener, which carries nothing unless told so."""

    def __init__(self, gateway, address):
        self.gateway, self.address = gateway, address

    def connect(self):
        if isinstance(self.address, int):
            s = socket.create_connection(("127.0.0.1", self.address), PATIENCE)
        else:
            s = socket.socket(socket.AF_UNIX)
            s.settimeout(PATIENCE)
            s.connect(str(self.address))
        return Wire(s)

    def ask(self, path="/pkg/x", token=None, host="registry.test"):
        field = f"Proxy-Authorization: Bearer {token}\r\n" if token else ""
        wire = self.connect()
        try:
            wire.send(f"GET http://{host}{path} HTTP/1.1\r\nHost: {host}\r\n{field}\r\n")
            return wire.response()
        finally:
            wire.close()

    def tunnel(self, host="registry.test"):
        wire = self.connect()
        wire.send(connect_head(host, None))
        answer = wire.response(method="CONNECT")
        assert answer.status == 200, answer.line
        return wire.start_tls(host, self.gateway.root)


def inner(wire, path="/pkg/in"):
    wire.send(f"GET {path} HTTP/1.1\r\nHost: registry.test\r\n\r\n")
    return wire.response()


@pytest.fixture
def own(tmp_path, pki, origins):
    """Not started; with the paths of a socket and a token file."""
    g = Gateway(tmp_path / "state", services(origins[0].port, origins[1].port, pki[0]), workers=N_WORKERS)
    g.socket, g.file = tmp_path / "vm1.sock", tmp_path / "vm1.jwt"
    yield g
    if g.process and g.process.poll() is None:
        assert g.stop() == 0, g.output().decode()[-4000:]


@pytest.fixture
def vm1(own):
    """Started, with a token of vm1 at its listener."""
    listen(own.config, f'vm1: {{address: "unix:{own.socket}", sandbox: vm1, token-file: "{own.file}"}}')
    keep(own.file, own.token(BOTH, sandbox="vm1"))
    own.start()
    return Door(own, own.socket)


def eventually(door, status, reason=None):
    """The gateway looks at its token files twice a second."""
    return wait_until(lambda: (lambda a: a if (a.status, a.reason) == (status, reason) else None)(door.ask()),
                      f"{status} {reason}")


def list_of(g):
    lines = exeat("listener", "list", "--format", "json", config=g.config).stdout.splitlines()
    return {o["name"]: o for o in map(json.loads, lines)}


# ---- the client carries nothing


def test_a_client_that_carries_nothing_goes_out_as_its_sandbox(own, vm1):
    for _ in range(8):  # on both workers
        assert vm1.ask().status == 200
    wire = vm1.tunnel()
    assert inner(wire).status == 200 and inner(wire).status == 200
    for record in own.wait_for(10, kind="decision", action="allow"):
        assert (record["sandbox"], record["listener"], record["client"]) == ("vm1", "vm1", "unix")


def test_no_token_of_the_file_reaches_the_service(own, vm1, origins):
    token = own.file.read_text().strip()
    assert vm1.ask().status == 200 and inner(vm1.tunnel()).status == 200
    seen = b"".join(b"".join(o.raw) if isinstance(o.raw, list) else o.raw for o in origins)
    assert token.encode() not in seen


def test_what_is_not_allowed_is_not_allowed_there_either(vm1):
    answer = vm1.ask(host="elsewhere.test")
    assert (answer.status, answer.reason) == (403, "host_not_listed")


def test_by_tcp(own):
    port = free_port()
    listen(own.config, f'vm1: {{address: "127.0.0.1:{port}", sandbox: vm1, token-file: "{own.file}"}}')
    keep(own.file, own.token(BOTH, sandbox="vm1"))
    own.start()
    assert all(Door(own, port).ask().status == 200 for _ in range(8))


def test_as_firecracker_and_cloud_hypervisor_connect(own, tmp_path):
    """The guest connects to port 3128 of CID 2; the VMM to its socket's path with the port behind it."""
    device = tmp_path / "vm1.vsock"
    listen(own.config, f'vm1: {{address: "unix:{device}_3128", sandbox: vm1, token-file: "{own.file}"}}')
    keep(own.file, own.token(BOTH, sandbox="vm1"))
    own.start()
    assert Door(own, f"{device}_{3128}").ask().status == 200


# ---- which token


def test_a_token_of_another_sandbox_in_the_file_is_refused(own, vm1):
    keep(own.file, own.token(BOTH, sandbox="vm2"))
    answer = eventually(vm1, 403, "token_binding")
    assert "vm2" in json.loads(answer.body)["detail"] and answer.field("Proxy-Authenticate") is None
    keep(own.file, own.token(BOTH, sandbox="vm1"))
    eventually(vm1, 200)


@pytest.mark.parametrize("listener, status", [("vm1", 200), ("explicit", 403)])
def test_a_token_bound_to_a_listener_is_good_there_alone(own, vm1, listener, status):
    token = own.token(BOTH, sandbox="vm1", listener=listener)
    keep(own.file, token)
    assert eventually(vm1, status, None if status == 200 else "token_binding")
    shared = Door(own, own.port).ask(token=token)
    assert (shared.status, shared.reason) == ((407, "token_binding") if listener == "vm1" else (200, None))


def test_without_a_token_nothing_goes_out_and_a_token_mends_it(own):
    listen(own.config, f'vm1: {{address: "unix:{own.socket}", sandbox: vm1, token-file: "{own.file}"}}')
    own.start()
    door = Door(own, own.socket)
    answer = door.ask()
    assert (answer.status, answer.reason) == (403, "token_missing") and answer.field("Proxy-Authenticate") is None
    assert "No such file" in list_of(own)["vm1"]["token"]
    keep(own.file, own.token(BOTH, sandbox="vm1"), mode=0o644)  # anybody could read it
    wait_until(lambda: "chmod 600" in list_of(own)["vm1"]["token"], "the refusal of a file for everybody")
    assert door.ask().reason == "token_missing"
    keep(own.file, own.token(BOTH, sandbox="vm1"))
    eventually(door, 200)
    assert list_of(own)["vm1"]["token"] == ""
    own.file.unlink()
    eventually(door, 403, "token_missing")


def test_an_expired_token_is_told_as_that(own, vm1):
    keep(own.file, own.token(BOTH, sandbox="vm1", lifetime="1s"))
    eventually(vm1, 403, "token_expired")


def test_a_bad_token_in_the_file_does_not_lock_the_good_one_out(own, vm1):
    good = own.token(BOTH, sandbox="vm1")
    keep(own.file, good[:-4] + "AAAA")
    eventually(vm1, 403, "token_signature")
    for _ in range(60):
        assert vm1.ask().reason == "token_signature"
    keep(own.file, good)
    eventually(vm1, 200)


def test_revocation_and_quarantine_hold_there(own, vm1):
    wire = vm1.tunnel()
    exeat("quarantine", "add", "vm1", config=own.config)
    assert wire.is_closed()
    assert vm1.ask().reason == "sandbox_quarantined"
    exeat("quarantine", "release", "vm1", config=own.config)
    exeat("token", "revoke", "--jti", claims(own.file.read_text())["jti"], config=own.config)
    assert vm1.ask().reason == "token_revoked"


def test_a_tunnel_outlives_its_token_when_a_fresh_one_comes(own, vm1):
    keep(own.file, own.token(BOTH, sandbox="vm1", lifetime="3s"))
    first = claims(own.file.read_text())["exp"]
    wait_until(lambda: own.records() is not None and vm1.ask().status == 200, "the short token")
    time.sleep(0.6)  # twice a second the file is looked at: the tunnel begins by the short one
    wire, idle = vm1.tunnel(), vm1.tunnel()
    keep(own.file, own.token(BOTH, sandbox="vm1", lifetime="10m"))
    while time.time() < first + 1.5:
        assert inner(wire).status == 200
        time.sleep(0.2)
    assert inner(idle).status == 200  # it was not closed at the first one's end


def test_without_a_fresh_one_it_ends_with_its_token(own, vm1):
    keep(own.file, own.token(BOTH, sandbox="vm1", lifetime="2s"))
    time.sleep(0.8)
    wire = vm1.tunnel()
    begin = time.monotonic()
    assert wire.is_closed()
    assert time.monotonic() - begin < PATIENCE / 2


# ---- a client that shows a token of its own


def test_a_shown_token_is_judged_in_place_of_the_files(own, vm1):
    assert vm1.ask(token=own.token("upload:write", sandbox="vm1")).reason == "scope_missing"  # narrower
    assert vm1.ask(token=own.token(BOTH, sandbox="vm1")).status == 200
    answer = vm1.ask(token=own.token(BOTH, sandbox="vm2"))
    assert (answer.status, answer.reason) == (407, "token_binding")
    assert vm1.ask(token="garbage").reason == "token_malformed"  # refused, and not replaced by the good one


def test_a_listener_of_one_sandbox_without_a_token_file_wants_that_sandboxs_token(own):
    listen(own.config, f'vm1: {{address: "unix:{own.socket}", sandbox: vm1}}')
    own.start()
    door = Door(own, own.socket)
    assert door.ask(token=own.token(BOTH, sandbox="vm1")).status == 200
    assert door.ask(token=own.token(BOTH, sandbox="vm2")).reason == "token_binding"
    answer = door.ask()
    assert (answer.status, answer.reason) == (407, "token_missing")


# ---- who may connect


def test_the_socket_is_for_its_owner(own, vm1):
    assert stat.S_IMODE(own.socket.stat().st_mode) == 0o600 and own.socket.stat().st_uid == os.geteuid()


@pytest.mark.skipif(not ROOT, reason="users of their own are given by root")
@pytest.mark.parametrize("owner, uid, gid, mode", [("daemon", 1, 0, 0o600), ("daemon:1", 1, 1, 0o660), (":1", 0, 1, 0o660)])
def test_an_owner_may_be_given(own, owner, uid, gid, mode):
    listen(own.config, f'vm1: {{address: "unix:{own.socket}", sandbox: vm1, owner: "{owner}"}}')
    own.start()
    st = own.socket.stat()
    assert (st.st_uid, st.st_gid, stat.S_IMODE(st.st_mode)) == (uid, gid, mode)
    assert pwd.getpwnam("daemon").pw_uid == 1


def test_the_socket_goes_when_the_gateway_stops_and_one_left_behind_is_replaced(own, vm1):
    own.process.kill()
    own.process.wait(PATIENCE)
    assert own.socket.exists()
    (own.directory / "log").unlink()
    wait_until(lambda: not own.pids("worker"), "the roles to end")
    own.start()
    assert vm1.ask().status == 200
    assert own.stop() == 0
    assert not own.socket.exists()


def test_no_other_file_is_replaced_by_a_socket(own):
    own.socket.write_text("precious")
    listen(own.config, f'vm1: {{address: "unix:{own.socket}", sandbox: vm1}}')
    with pytest.raises(AssertionError, match="File exists"):
        own.start()
    assert own.socket.read_text() == "precious"


# ---- the configuration


@pytest.mark.parametrize("line, text", [
    ('vm1: {address: "unix:/run/x.sock"}', "is for one sandbox: say which"),
    ('vm1: {address: "vsock:3:3128"}', "is for one sandbox: say which"),
    ('vm1: {address: "127.0.0.1:1", token-file: t.jwt}', "token-file is for a listener of one sandbox"),
    ('vm1: {address: "127.0.0.1:1", sandbox: vm1, owner: root}', "only a unix socket has an owner"),
    ('vm1: {address: "unix:/run/x.sock", sandbox: vm1, owner: nosuchuser}', 'there is no user "nosuchuser"'),
    ('vm1: {address: "vsock:2:3128", sandbox: vm1}', "expected vsock:CID:PORT"),
    ('vm1: {address: "unix:/run/x.sock", sandbox: vm1, mode: transparent}', "a transparent listener is a TCP address"),
    ('vm1: {address: "unix:/run/x.sock", sandbox: vm1}\n  vm2: {address: "unix:/run/x.sock", sandbox: vm2}', "is taken already by listen.vm1"),
])
def test_what_the_configuration_refuses(own, line, text):
    listen(own.config, line)
    r = exeat("config", "check", config=own.config, check=False)
    assert r.returncode == 2 and text in r.stderr and "proxy.conf:" in r.stderr


def test_config_check_warns_of_unbound_tokens_on_a_shared_listener_alone(own):
    listen(own.config, 'wide: {address: "0.0.0.0:1"}', 'vm1: {address: "0.0.0.0:2", sandbox: vm1}')
    r = exeat("config", "check", config=own.config)
    assert "listen.wide is shared by sandboxes: tokens without cnf" in r.stderr and "vm1" not in r.stderr


def test_a_reload_changes_whose_a_listener_is_and_ends_what_was_open(own, vm1):
    wire = vm1.tunnel()
    own.config.write_text(own.config.read_text().replace("sandbox: vm1", "sandbox: vm2"))
    exeat("reload", config=own.config)
    assert wire.is_closed()
    assert vm1.ask().reason == "token_binding"
    keep(own.file, own.token(BOTH, sandbox="vm2"))
    eventually(vm1, 200)


def test_a_reload_lets_a_bound_tunnel_be(own, vm1):
    wire = vm1.tunnel()
    exeat("reload", config=own.config)
    assert inner(wire).status == 200 and vm1.ask().status == 200


def test_a_worker_that_starts_again_has_socket_and_token(own, vm1):
    old = own.pids("worker")
    for pid in old:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: len(set(own.pids("worker")) - set(old)) == N_WORKERS, "new workers")
    ready(own)
    assert all(vm1.ask().status == 200 for _ in range(8))


# ---- while the gateway runs


def order(g, *words, check=True):
    return exeat("listener", *words, config=g.config, check=check)


def restart(g):
    assert g.stop() == 0
    (g.directory / "log").unlink()
    g.start()


def test_listeners_come_and_go_without_touching_anybody(own, vm1, tmp_path):
    bystander = vm1.tunnel()
    keep(tmp_path / "vm2.jwt", own.token(BOTH, sandbox="vm2"))
    said = order(own, "add", "vm2", f"unix:{tmp_path}/vm2.sock", "--sandbox", "vm2", "--token-file", tmp_path / "vm2.jwt")
    assert said.stdout == f"listening: vm2: unix:{tmp_path}/vm2.sock\n"
    vm2 = Door(own, tmp_path / "vm2.sock")
    assert all(vm2.ask().status == 200 for _ in range(8))
    keep(tmp_path / "vm2.jwt", own.token(BOTH, sandbox="vm2", listener="vm2"))  # its name is known
    eventually(vm2, 200)
    tunnel = vm2.tunnel()
    one = list_of(own)["vm2"]
    assert (one["sandbox"], one["added"], one["token"]) == ("vm2", True, "") and list_of(own)["vm1"]["added"] is False
    order(own, "remove", "vm2")
    assert tunnel.is_closed() and not (tmp_path / "vm2.sock").exists() and "vm2" not in list_of(own)
    assert inner(bystander).status == 200
    added, removed = own.wait_for(2, kind="listener", listener="vm2")
    assert (added["outcome"], removed["outcome"], added["by"], added["uid"]) == ("added", "removed", "admin", os.geteuid())
    assert own.verify()


def test_an_added_listener_survives_reload_worker_and_restart_and_a_removed_one_stays_away(own, vm1, tmp_path):
    doors = {}
    for name in "vm2", "vm3":
        keep(tmp_path / f"{name}.jwt", own.token(BOTH, sandbox=name))
        order(own, "add", name, f"unix:{tmp_path}/{name}.sock", "--sandbox", name, "--token-file", tmp_path / f"{name}.jwt")
        doors[name] = Door(own, tmp_path / f"{name}.sock")
    order(own, "remove", "vm3")
    wire = doors["vm2"].tunnel()
    exeat("reload", config=own.config)
    assert inner(wire).status == 200 and doors["vm2"].ask().status == 200
    old = own.pids("worker")
    for pid in old:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: len(set(own.pids("worker")) - set(old)) == N_WORKERS, "new workers")
    ready(own)
    assert all(doors["vm2"].ask().status == 200 for _ in range(8))
    restart(own)
    assert doors["vm2"].ask().status == 200 and vm1.ask().status == 200
    assert set(list_of(own)) >= {"vm1", "vm2"} and "vm3" not in list_of(own)
    keep(tmp_path / "vm2.jwt", own.token("upload:write", sandbox="vm2"))  # still looked at
    eventually(doors["vm2"], 403, "scope_missing")


def test_by_tcp_with_a_port_the_kernel_chooses_and_for_everybody(own):
    own.start()
    port = int(order(own, "add", "more", "127.0.0.1:0").stdout.strip().rsplit(":", 1)[1])
    token = own.token(BOTH)
    assert all(Door(own, port).ask(token=token).status == 200 for _ in range(8))
    assert Door(own, port).ask().status == 407


def test_a_transparent_one_is_added_and_is_one_after_worker_and_restart(own):
    """What its clients hear tells which it is: 401, where an explicit one says 407."""
    own.start(["setpriv", "--bounding-set", "-net_raw,-net_admin", "--", str(EXEAT), "-c", str(own.config), "serve"] if os.geteuid() == 0 else None)
    said = order(own, "add", "front", "127.0.0.1:0", "--transparent").stdout.splitlines()
    assert said[1].startswith("no TPROXY there (Operation not permitted) until the gateway starts again")
    order(own, "add", "plain", "127.0.0.1:0")
    port, other = (int(list_of(own)[n]["address"].rsplit(":", 1)[1]) for n in ("front", "plain"))
    assert list_of(own)["front"]["mode"] == "transparent" and "mode" not in list_of(own)["plain"]

    def ask(port):
        wire = Door(own, port).connect()
        wire.send(f"GET / HTTP/1.1\r\nHost: registry.test:{port}\r\n\r\n")
        answer = wire.response()
        wire.close()
        return answer.status, answer.reason

    assert all(ask(port) == (401, "token_missing") and ask(other)[0] == 400 for _ in range(4))
    old = own.pids("worker")
    for pid in old:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: len(set(own.pids("worker")) - set(old)) == N_WORKERS, "new workers")
    ready(own)
    assert all(ask(port) == (401, "token_missing") and ask(other)[0] == 400 for _ in range(4))
    assert "127.0.0.1:0" in (own.directory / "listeners.conf").read_text()
    assert "front" in order(own, "list").stdout and ", transparent without TPROXY" in order(own, "list").stdout
    exeat("reload", config=own.config)
    assert ask(port) == (401, "token_missing")
    restart(own)
    assert ask(int(list_of(own)["front"]["address"].rsplit(":", 1)[1])) == (401, "token_missing")


@pytest.mark.parametrize("words, status, text", [
    (["add", "vm2", "unix:{socket}2", "--sandbox", "vm2", "--transparent"], 1, "a transparent listener is a TCP address"),
    (["add", "explicit", "127.0.0.1:0"], 1, "there is a listener called explicit already"),
    (["add", "vm2", "unix:{socket}", "--sandbox", "vm2"], 1, "is taken already by listen.vm1"),
    (["add", "vm2", "unix:/nonexistent/x.sock", "--sandbox", "vm2"], 1, "No such file"),
    (["add", "vm2", "unix:/run/vm2.sock"], 1, "is for one sandbox"),
    (["add", "a b", "127.0.0.1:0"], 2, "a listener's name"),
    (["add", "vm2", "nowhere"], 1, "expected an address"),
    (["add", "vm2"], 2, "NAME ADDRESS"),
    (["remove", "vm1"], 1, "is the configuration's"),
    (["remove", "nobody"], 1, "there is no listener called nobody"),
])
def test_what_cannot_be_is_refused_and_changes_nothing(own, vm1, words, status, text):
    before = list_of(own)
    r = order(own, *(w.format(socket=own.socket) for w in words), check=False)
    assert r.returncode == status and text in r.stderr and r.stdout == ""
    assert list_of(own) == before and not (own.directory / "listeners.conf").exists()
    assert vm1.ask().status == 200


def test_a_configuration_that_takes_an_added_ones_name_is_refused(own, vm1, tmp_path):
    order(own, "add", "vm2", f"unix:{tmp_path}/vm2.sock", "--sandbox", "vm2")
    listen(own.config, f'vm2: {{address: "127.0.0.1:{free_port()}"}}')
    r = exeat("reload", config=own.config, check=False)
    assert r.returncode == 2 and "exeat listener remove vm2" in r.stderr


def test_many_are_added_and_all_serve(own, tmp_path):
    own.start()
    names = [f"vm{i}" for i in range(20)]
    for name in names:
        keep(tmp_path / f"{name}.jwt", own.token(BOTH, sandbox=name))
        order(own, "add", name, f"unix:{tmp_path}/{name}.sock", "--sandbox", name, "--token-file", tmp_path / f"{name}.jwt")
    for name in names:
        assert Door(own, tmp_path / f"{name}.sock").ask(path=f"/pkg/{name}").status == 200
    seen = own.wait_for(20, kind="decision", action="allow")
    assert {(r["sandbox"], r["http"]["path"]) for r in seen} == {(name, f"/pkg/{name}") for name in names}


# ---- vsock


def has_vsock():
    try:
        socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM).close()
        return True
    except OSError:
        return False


@pytest.mark.skipif(not has_vsock(), reason="this kernel has no vsock")
def test_a_vsock_listener_opens(own):
    own.start()
    assert order(own, "add", "vm9", "vsock:9:31280", "--sandbox", "vm9").stdout == "listening: vm9: vsock:9:31280\n"
    with socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM) as s, pytest.raises(OSError):
        s.bind((socket.VMADDR_CID_ANY, 31280))  # it is taken
        s.listen()
    order(own, "remove", "vm9")


def test_a_guest_comes_in_by_vsock(own):
    if not has_vsock():
        pytest.skip("this kernel has no vsock")
    own.start()
    order(own, "add", "vm9", "vsock:9:31281", "--sandbox", "vm9")
    with socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM) as s:
        s.settimeout(3)
        try:
            s.connect((1, 31281))  # VMADDR_CID_LOCAL
        except OSError:
            pytest.skip("this kernel has no loopback for vsock")
        assert s.recv(1) == b""  # CID 1 is not the guest 9
        assert b"refused the guest with CID 1" in own.output()
