"""What a soak measures: memory and descriptors of each process, and the gateway's own counters."""
import os
import statistics

from load import fetch

ROLES = ["supervisor", "worker", "porter", "keeper", "scribe", "clerk", "usher"]


def pids(gateway):
    found = {role: gateway.pids(role) for role in ROLES if role != "supervisor"}
    return {"supervisor": [gateway.process.pid], **found}


def rss_kib(pid):
    try:
        return next(int(line.split()[1]) for line in open(f"/proc/{pid}/status") if line.startswith("VmRSS:"))
    except (OSError, StopIteration):
        return None


def descriptors(pid):
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return None


class Gauges:
    """Samples of every process, kept by pid: a role that was started again is another process."""

    def __init__(self, gateway):
        self.gateway, self.samples = gateway, {}

    def take(self, now):
        for role, ids in pids(self.gateway).items():
            for pid in ids:
                rss, n = rss_kib(pid), descriptors(pid)
                if rss is not None and n is not None:
                    self.samples.setdefault((role, pid), []).append((now, rss, n))

    def rss_mib(self):
        return sum(s[-1][1] for (_, pid), s in self.samples.items() if os.path.exists(f"/proc/{pid}")) / 1024

    def trend(self, role, pid, since):
        """Median of memory (KiB) in the first and in the last third of what was sampled since then; None for too little."""
        rss = [kib for at, kib, _ in self.samples.get((role, pid), []) if at >= since]
        if len(rss) < 6:
            return None
        third = len(rss) // 3
        return statistics.median(rss[:third]), statistics.median(rss[-third:])

    def most_descriptors(self, role):
        return max((n for (r, _), s in self.samples.items() if r == role for _, _, n in s), default=0)


def counters(gateway):
    """The metrics that have no labels but the role, summed over the roles."""
    sums = {}
    for line in fetch(gateway, "/metrics")[1].splitlines():
        if line.startswith("exeat_") and "reason=" not in line:
            name = line.split("{")[0].split(" ")[0]
            sums[name] = sums.get(name, 0) + float(line.rsplit(" ", 1)[1])
    return sums
