"""WebSocket: how one ends: by limits, by authority that is taken away, by who goes; and what goes on."""
import os
import socket
import threading
import time

import pytest

from conftest import BOTH
from frames import BINARY, CLOSE, PING, TEXT, Speaker, client_frame, close_payload, handshake
from gateway import PATIENCE, Closed, exeat, wait_until
from sockets import SANITIZED, ask, gateway, open_socket, opened, own, service, service_tls, token


# ---- limits and ends


def test_it_may_stand_still_longer_than_a_body_and_not_longer_than_its_own_limit(own, service):
    s = opened(own("limits: {websocket-idle: 3s, body-time: 300ms, idle-time: 300ms, response-time: 300ms}"), service)
    time.sleep(1.2)
    s.client.say(PING)  # a frame is enough
    assert s.service.hear() == (True, PING, b"")
    began = time.monotonic()
    code, reason = s.client.closed()
    assert time.monotonic() - began > 2.5
    assert code == 1001 and reason.startswith("exeat stream_idle ")
    assert s.service.closed() == (1001, "")
    assert s.result()["reason"] == "stream_idle"


def test_the_token_ends_and_what_it_may_be_overrun_by(own, service):
    s = opened(own("limits: {overrun: 1s}"), service, lifetime="2s")
    while True:  # a conversation that never pauses ends too
        s.client.text("tick")
        fin, opcode, payload = s.service.hear()
        if opcode == CLOSE:
            break
        assert payload == b"tick"
        time.sleep(0.05)
    code, reason = s.client.closed()
    assert code == 1008 and reason.startswith("exeat token_expired ")
    assert s.result()["reason"] == "token_expired"


def test_bytes_over_the_sandbox_s_limit_do_not_leave(own, service):
    s = opened(own("limits: {sandbox-bytes: 100k}"), service)
    got = 0
    for _ in range(40):
        try:
            s.client.say(BINARY, bytes(4096))
        except OSError:
            break
    while True:
        try:
            fin, opcode, payload = s.service.hear()
        except Closed:
            break
        got += len(payload) if opcode == BINARY else 0
    assert 50 << 10 < got < 100 << 10
    code, reason = s.client.closed()
    assert code == 1008 and reason.startswith("exeat limit_bytes ")


def test_pings_count_as_bytes_too(own, service):
    s = opened(own("limits: {sandbox-bytes: 20k}"), service)
    s.wire.send(client_frame(PING) * 5000)
    code, reason = s.client.closed()
    assert code == 1008 and reason.startswith("exeat limit_bytes ")


def test_frames_of_nothing_count_as_bytes_too(own, service):
    s = opened(own("limits: {sandbox-bytes: 20k}"), service)
    s.client.say(BINARY, b"x", fin=False)
    s.wire.send(client_frame(0, fin=False) * 5000)  # none of them goes on
    code, reason = s.client.closed()
    assert code == 1008 and reason.startswith("exeat limit_bytes ")


def test_it_is_an_exchange_in_flight(own, service):
    g = own("limits: {sandbox-exchanges: 2}")
    first, second = opened(g, service), opened(g, service)
    answer = ask(g, g.token(BOTH)).response()
    assert (answer.status, answer.reason) == (429, "limit_exchanges")
    first.client.close()
    assert first.service.closed() == (1000, "")
    first.service.close()
    assert first.client.closed()[0] == 1000
    third = opened(g, service)
    assert 'exeat_exchanges_open{role="worker 0"} 2\n' in metrics(g)
    assert 'exeat_websockets_open{role="worker 0"} 2\n' in metrics(g)
    for s in (second, third):
        s.wire.close()


def metrics(g):
    with socket.create_connection(("127.0.0.1", g.publish), PATIENCE) as s:
        s.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        return b"".join(iter(lambda: s.recv(65536), b"")).decode()


@pytest.mark.parametrize("how", ["revoked", "quarantined"])
@pytest.mark.parametrize("inside", ["plain", "tls"])
def test_authority_that_is_taken_away_cuts_it_at_once(gateway, service, service_tls, how, inside):
    sandbox = f"sb-{how}-{inside}"
    token = gateway.token(BOTH, sandbox=sandbox)
    wire = gateway.tunnel("registry.test", token) if inside == "tls" else ask(gateway, token)
    if inside == "tls":
        wire.send(handshake())
    assert wire.response().status == 101
    here, there = Speaker(wire, True), (service_tls if inside == "tls" else service).next()
    here.text("before")
    assert there.message() == (TEXT, b"before")
    if how == "revoked":
        exeat("token", "revoke", "--sandbox", sandbox, config=gateway.config)
    else:
        exeat("quarantine", "add", sandbox, config=gateway.config)
    reason = "token_revoked" if how == "revoked" else "sandbox_quarantined"
    try:
        code, said = here.closed()
        assert code == 1008 and said.startswith(f"exeat {reason} ")
        assert there.closed() == (1001, "")
        assert wire.is_closed() and there.wire.is_closed()
        result = gateway.wait_for(kind="result", sandbox=sandbox, outcome="cut")[0]
        assert (result["reason"], result["websocket"]["close"]) == (reason, 1008)
    finally:
        exeat("quarantine", "release", sandbox, config=gateway.config, check=False)


def test_a_reload_that_no_longer_allows_it_ends_it_and_another_does_not(own, service):
    g = own()
    s = opened(g, service)
    g.config.write_text(g.config.read_text() + "# the same\n")
    exeat("reload", config=g.config)
    s.client.text("still here")
    assert s.service.message() == (TEXT, b"still here")
    g.config.write_text(g.config.read_text().replace("websocket: allow", "websocket: refuse"))
    exeat("reload", config=g.config)
    code, reason = s.client.closed()
    assert code == 1008 and reason.startswith("exeat policy_changed ")
    assert s.service.wire.is_closed()
    result = s.result()
    assert result["reason"] == "policy_changed" and "upgrade_not_allowed" in result["detail"]


def test_a_gateway_that_stops_does_not_wait_for_it(own, service):
    g = own()
    s = opened(g, service)
    began = time.monotonic()
    g.process.send_signal(15)
    code, reason = s.client.closed()
    assert code == 1001 and reason.startswith("exeat gateway_stopping ")
    assert s.service.closed() == (1001, "")
    s.wire.close()
    assert g.process.wait(PATIENCE) == 0
    assert b"did not end in" not in g.output(), time.monotonic() - began


def test_a_worker_that_dies_takes_it_along_and_the_next_goes_on(own, service):
    g = own()
    s = opened(g, service)
    before = g.pids("worker")
    os.kill(before[0], 9)
    assert s.wire.is_closed() and s.service.wire.is_closed()
    wait_until(lambda: g.pids("worker") and g.pids("worker") != before, "another worker")
    again = opened(g, service)
    again.client.text("hello")
    assert again.service.message() == (TEXT, b"hello")
    again.wire.close()
    assert g.verify()


# ---- who goes


def test_a_client_that_goes_without_a_word_is_gone_for_the_service(open_socket):
    s = open_socket()
    s.client.text("half of")
    assert s.service.message() == (TEXT, b"half of")
    s.wire.close()
    assert s.service.closed() == (1001, "")
    assert s.service.wire.is_closed()
    assert s.result()["reason"] == "client_closed"


def test_a_client_that_half_closes_after_its_close_frame_hears_the_answer(open_socket):
    s = open_socket()
    s.client.close(1000, "enough")
    s.wire.half_close()
    assert s.service.closed() == (1000, "enough")
    s.service.text("one more thing")
    assert s.client.message() == (TEXT, b"one more thing")
    s.service.close(1000)
    assert s.client.closed() == (1000, "")
    assert s.wire.is_closed()
    assert s.result()["outcome"] == "complete"


def test_a_service_that_closes_first(open_socket):
    s = open_socket()
    s.service.close(4001, "go away")
    assert s.client.closed() == (4001, "go away")
    s.client.text("too late")
    s.client.close(4001)
    seen = []
    while not seen or seen[-1][1] != CLOSE:
        seen.append(s.service.hear())
    assert seen[-1][2] == close_payload(4001)
    result = s.result()
    assert (result["outcome"], result["websocket"]["close"]) == ("complete", 4001)


def test_a_service_that_goes_without_a_close_frame_is_no_end(open_socket):
    s = open_socket()
    s.service.say(TEXT, b"half", fin=False)
    s.service.wire.close()
    assert s.client.hear() == (False, TEXT, b"half")
    code, reason = s.client.closed()
    assert code == 1011 and reason.startswith("exeat upstream_closed ")
    result = s.result()
    assert (result["outcome"], result["reason"]) == ("cut", "upstream_closed")


def test_who_does_not_answer_a_close_frame_is_not_waited_for(own, service):
    g = own("limits: {body-time: 1s, body-rate: 0}")
    s = opened(g, service)
    s.service.close(1000)
    assert s.client.closed() == (1000, "")
    assert s.service.wire.is_closed() and s.wire.is_closed()
    assert s.result()["outcome"] == "complete"
    s = opened(g, service)
    s.client.close(1000)
    code, reason = s.client.closed()
    assert code == 1011 and reason.startswith("exeat upstream_timeout ")


def test_a_client_that_does_not_read_is_cut(own, service):
    g = own("limits: {body-time: 1s, body-rate: 1m, websocket-idle: 1h}")
    s = opened(g, service)
    stop = threading.Event()

    def pour():
        try:
            while not stop.is_set():
                s.service.say(BINARY, bytes(60000))
        except OSError:
            pass

    thread = threading.Thread(target=pour)
    thread.start()
    try:
        assert s.result()["reason"] == "client_timeout"
    finally:
        stop.set()
        s.wire.close()
        thread.join()


def memory_of(g):
    return sum(int(line.split()[1]) for pid in g.pids("worker") for line in open(f"/proc/{pid}/smaps_rollup") if line.startswith("Rss:"))


def test_a_message_of_many_megabytes_is_not_held(own, service):
    """One frame of 24 MB each way, more than sockets take; a reader that pauses holds the writer, not memory."""
    g = own("limits: {websocket-message: 32m}")
    s = opened(g, service)
    s.client.text("warm")
    assert s.service.message() == (TEXT, b"warm")
    before, payload = memory_of(g), os.urandom(24 << 20)
    for here, there in ((s.client, s.service), (s.service, s.client)):
        thread = threading.Thread(target=here.say, args=(BINARY, payload))
        thread.start()
        time.sleep(0.5)
        assert thread.is_alive()
        assert memory_of(g) - before < 4096 or SANITIZED  # which keeps what was freed
        assert there.message() == (BINARY, payload)
        thread.join()
    s.wire.close()
