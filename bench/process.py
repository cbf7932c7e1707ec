"""What a tree of processes has used, from /proc."""

import os

TICK = os.sysconf("SC_CLK_TCK")


def read(pid, name):
    with open(f"/proc/{pid}/{name}", encoding="ascii", errors="replace") as f:
        return f.read()


def tree(root):
    """root and everything below it, children that were reaped not among them."""
    parents = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                parents.setdefault(stat_fields(int(entry))[1], []).append(int(entry))
            except (FileNotFoundError, ProcessLookupError):
                pass
    found, queue = [], [root]
    while queue:
        pid = queue.pop()
        found.append(pid)
        queue += parents.get(pid, [])
    return found


def stat_fields(pid):
    """/proc/PID/stat from the state on: [state, ppid, ...]; utime is 11, stime is 12."""
    fields = read(pid, "stat").rpartition(")")[2].split()
    return [fields[0], int(fields[1])] + [int(x) for x in fields[2:22]]


def cpu_seconds(pids):
    """User and system time, all threads: to the nanosecond where the kernel tells it, else in ticks."""
    try:
        tasks = [(p, t) for p in pids for t in os.listdir(f"/proc/{p}/task")]
        return sum(int(read(p, f"task/{t}/schedstat").split()[0]) for p, t in tasks) / 1e9
    except FileNotFoundError:
        return sum(sum(stat_fields(p)[11:13]) for p in pids) / TICK


def _field(pid, file, name):
    for line in read(pid, file).splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1])
    raise ValueError(f"/proc/{pid}/{file} has no {name}")


def pss_kib(pids):
    """Memory, what is shared counted once."""
    return sum(_field(p, "smaps_rollup", "Pss") for p in pids)


def reset_peak(pid):
    with open(f"/proc/{pid}/clear_refs", "w", encoding="ascii") as f:
        f.write("5")


def peak_kib(pid):
    return _field(pid, "status", "VmHWM")


def connections_to(pids, port):
    """How many established TCP connections to this port the processes hold."""
    inodes = set()
    for p in pids:
        for fd in os.listdir(f"/proc/{p}/fd"):
            try:
                inodes.add(os.readlink(f"/proc/{p}/fd/{fd}"))
            except FileNotFoundError:
                pass
    with open("/proc/net/tcp", encoding="ascii") as f:
        rows = [line.split() for line in f.readlines()[1:]]
    return sum(1 for r in rows if r[3] == "01" and int(r[2].split(":")[1], 16) == port and f"socket:[{r[9]}]" in inodes)
