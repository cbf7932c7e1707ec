"""The measurements: what each row does to each contender, in turn, and the figures as they came."""

import contextlib
import statistics
import sys
import time

import contender
import process
from bench import opened

MIB = 1 << 20
GIB = 1 << 30
SLICES = 6  # of a round, each contender

# name, what it is, options of the load generator, requests (quick, full), what CPU is divided by, bound on the ratio
ROWS = [
    ("keep-alive", "1 KB GET, keep-alive, 64 connections, CPU s / 10k",
     ["--path", "/1024", "--connections", "64"], (24000, 120000), 10000, 1.4),
    ("new", "new connection per request, CPU s / 10k",
     ["--path", "/1024", "--connections", "16", "--new"], (900, 4800), 10000, 0.45),
    ("down", "10 MB download, CPU s / GiB",
     ["--path", f"/{10 * MIB}", "--connections", "4"], (48, 192), GIB / (10 * MIB), 1.6),
    ("up", "10 MB upload, CPU s / GiB",
     ["--upload", str(10 * MIB), "--connections", "4"], (48, 192), GIB / (10 * MIB), 1.6),
]
KEEP_ALIVE = ROWS[0]


def tell(text):
    print(text, file=sys.stderr, flush=True)


def in_turn(servers, number):
    """The servers, beginning with another each time."""
    return servers[number % len(servers):] + servers[:number % len(servers)]


def one_slice(generator, server, requests, unit):
    """{"cpu", "us", "rate"} of so many requests."""
    pids = server.pids()
    before = process.cpu_seconds(pids)
    answer = generator.run(requests)
    cpu = (process.cpu_seconds(pids) - before) * unit / answer["requests"]
    return {"cpu": cpu, "us": answer["us"], "rate": answer["requests"] / answer["seconds"]}


def one_round(bench, servers, options, requests, unit):
    """{server: [slice]}: each gets its requests in slices, in turn, so that all see one weather."""
    slices = {s.key(): [] for s in servers}
    with contextlib.ExitStack() as stack:
        loads = {s.key(): stack.enter_context(opened(bench, s, options)) for s in servers}
        for number in range(SLICES):
            for server in in_turn(servers, number):
                slices[server.key()].append(one_slice(loads[server.key()], server, requests // SLICES, unit))
    return slices


def mean_cpu(slices):
    return statistics.fmean(s["cpu"] for s in slices)


def cpu(bench, servers, rounds, quick, chosen):
    """{row: [round]}, a round {server: [slice]}"""
    results = {row[0]: [] for row in ROWS if row[0] in chosen}
    for number in range(rounds):
        for name, _, options, requests, unit, _ in ROWS:
            if name in chosen:
                found = one_round(bench, in_turn(servers, number), options, requests[not quick], unit)
                results[name].append(found)
                tell(f"round {number + 1} of {rounds}, {name}: " +
                     ", ".join(f"{s.name} {mean_cpu(found[s.key()]):.2f}" for s in servers))
    return results


def workers(bench, pairs, rounds, quick):
    """[round]: the keep-alive row for each contender with one worker and with two."""
    _, _, options, requests, unit, _ = KEEP_ALIVE
    servers, found = [s for pair in pairs for s in pair], []
    for number in range(rounds):
        found.append(one_round(bench, in_turn(servers, number), options, requests[not quick] // 2, unit))
        tell(f"round {number + 1} of {rounds}, workers: " +
             ", ".join(f"{s.key()} {mean_cpu(found[-1][s.key()]):.2f}" for s in servers))
    return found


def pairs(bench, pair, rounds, quick):
    """[round]: the keep-alive row for two that are alike but for one thing, interleaved."""
    _, _, options, requests, unit, _ = KEEP_ALIVE
    found = []
    for number in range(rounds):
        found.append(one_round(bench, in_turn(pair, number), options, requests[not quick] // 4, unit))
        tell(f"pair {number + 1} of {rounds}: " + ", ".join(f"{s.key()} {mean_cpu(found[-1][s.key()]):.2f}" for s in pair))
    return found


def latency(bench, servers, rounds):
    """Microseconds that each adds to the origin's own p50 at one connection."""
    added = {s.name: [] for s in servers}
    for _ in range(rounds):
        p50 = {}
        for server in [bench.origin] + servers:
            with opened(bench, server, ["--path", "/1024", "--connections", "1"]) as generator:
                p50[server.name] = generator.run(3000)["us"]["p50"]
        for server in servers:
            added[server.name].append(p50[server.name] - p50["origin"])
    return {name: statistics.median(values) for name, values in added.items()}


def idle(bench, server, tunnels):
    """KiB of each of so many connections that made one request and wait."""
    before = process.pss_kib(server.pids())
    with contextlib.ExitStack() as stack:
        for part in range(contender.PARTS):
            options = ["--path", "/1024", "--connections", str(tunnels // contender.PARTS)]
            stack.enter_context(opened(bench, server, options, part))
        time.sleep(2)
        held = process.pss_kib(server.pids()) - before
        upstream = process.connections_to(server.pids(), bench.origin.port)
    tell(f"{tunnels} idle connections, {server.name}: {held / tunnels:.1f} KiB each")
    return {"kib": held / tunnels, "upstream": upstream}


def memory(bench, server):
    """Growth of the worker's peak, in KiB, over a body of 10 MB and of 1 GB, each way."""
    peaks = {}
    for way, option in (("down", "--path=/{}"), ("up", "--upload={}")):
        for name, size in (("10m", 10 * MIB), ("1g", GIB)):
            pid = server.worker()
            process.reset_peak(pid)
            with opened(bench, server, [option.format(size), "--connections", "1"]):
                peaks[f"{way} {name}"] = process.peak_kib(pid)
        tell(f"peak of the worker, {server.name}, {way}: " +
             ", ".join(f"{n} {peaks[f'{way} {n}']} KiB" for n in ("10m", "1g")))
    return {way: peaks[f"{way} 1g"] - peaks[f"{way} 10m"] for way in ("down", "up")}
