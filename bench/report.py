"""What the figures say: medians with their spread, a table, and for each bound whether it holds."""

import random
import statistics

import measure

IDLE_KIB = 20
PEAK_KIB = 2048
TRANSPARENT = 1.05  # of CPU a request, to the explicit listener
HANDOFF_BOUNDS = {"keep-alive": 1.45}  # exeat with the gateway's credential, strip, and edges that are held to a list
RESAMPLES = 4000


def summary(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def interval(values):
    """The 95 % interval of the median, by bootstrap; the same for the same values."""
    chance = random.Random(1)
    medians = sorted(statistics.median(chance.choices(values, k=len(values))) for _ in range(RESAMPLES))
    return [medians[int(RESAMPLES * 0.025)], medians[int(RESAMPLES * 0.975)]]


def slice_ratios(rounds, key, to):
    """Of each slice to the one beside it: what both had of the machine's weather falls out."""
    return [mine["cpu"] / its["cpu"] for r in rounds for mine, its in zip(r[key], r[to])]


def compared(rounds, key, to="relay"):
    """CPU and its ratio: of rounds the median, lowest and highest; of slices the 95 % interval of the median."""
    return {"cpu": summary([measure.mean_cpu(r[key]) for r in rounds]),
            "ratio": {**summary([measure.mean_cpu(r[key]) / measure.mean_cpu(r[to]) for r in rounds]),
                      "interval": interval(slice_ratios(rounds, key, to))},
            "p99": summary([s["us"]["p99"] for r in rounds for s in r[key]]),
            "rate": summary([s["rate"] for r in rounds for s in r[key]])}


def answer_of(results, names):
    """The answer as one object."""
    rows = [{"row": name, "title": title, "bound": bound,
             "contenders": {n: compared(results["cpu"][name], n) for n in names}}
            for name, title, _, _, _, bound in measure.ROWS if name in results["cpu"]]
    answer = {"schema": "exeat.bench/2", "rows": rows,
              **{k: v for k, v in results.items() if k not in ("cpu", "workers", "transparent")}}
    if "workers" in results:
        answer["workers"] = {n: {"one": compared(results["workers"], n, n),
                                 "two": compared(results["workers"], f"{n} 2", n)}
                             for n in names if n in results["workers"][0]}
    if "transparent" in results:
        answer["transparent"] = compared(results["transparent"], "transparent", "exeat")
    answer["verdicts"] = verdicts(answer) if "exeat" in names or not names else []
    return answer


# ---- for people ----

def ratio_cell(c):
    return f"{c['cpu']['median']:.2f}, x {c['ratio']['median']:.2f} ({c['ratio']['min']:.2f}-{c['ratio']['max']:.2f})"


def p99_cell(c):
    return f"{c['p99']['median'] / 1000:.1f} ({c['p99']['min'] / 1000:.1f}-{c['p99']['max'] / 1000:.1f})"


def workers_cell(w):
    if w is None:
        return "-"
    return (f"{w['one']['rate']['median'] / 1000:.1f}k, {w['two']['rate']['median'] / 1000:.1f}k; "
            f"CPU x {w['two']['ratio']['median']:.2f} ({w['two']['ratio']['min']:.2f}-{w['two']['ratio']['max']:.2f})")


def lines_of(answer, names):
    """(what, a cell for each contender, bound)"""
    for row in answer["rows"]:
        yield row["title"], [ratio_cell(row["contenders"][n]) for n in names], f"x {row['bound']}"
        if row["row"] == "keep-alive":
            yield "the same, p99 in ms", [p99_cell(row["contenders"][n]) for n in names], ""
    if "workers" in answer:
        yield ("the same with one worker and with two: requests a second; CPU a request",
               [workers_cell(answer["workers"].get(n)) for n in names], "")
    if "latency" in answer:
        yield ("added latency at one connection, us p50", [f"{answer['latency'][n]:.0f}" for n in names], "")
    if "idle" in answer:
        yield (f"KiB per idle TLS connection, {answer['tunnels']} of them (upstream connections)",
               [f"{answer['idle'][n]['kib']:.1f} ({answer['idle'][n]['upstream']})" for n in names], f"{IDLE_KIB}")
    if "memory" in answer:
        yield ("peak of the worker, 1 GB body less 10 MB body, KiB down, up",
               ["{down}, {up}".format(**answer["memory"][n]) for n in names], f"{PEAK_KIB}")


def table(answer, names):
    """Markdown."""
    if not names:
        return f"transparent to explicit, keep-alive: {ratio_cell(answer['transparent'])}"
    lines = ["| what | " + " | ".join(names) + " | at most |", "|---|" + "---|" * (len(names) + 1)]
    lines += [f"| {what} | " + " | ".join(cells) + f" | {bound} |" for what, cells, bound in lines_of(answer, names)]
    return "\n".join(lines)


def verdict(name, value, bound, least=None, most=None):
    """least and most: the interval, of what has one. A bound inside it is neither held nor broken for sure."""
    holds = value <= bound
    sure = least is None or most <= bound or least > bound
    return {"row": name, "value": value, "bound": bound, "interval": least and [least, most], "holds": holds, "sure": sure}


def verdicts(answer):
    found = []
    for row in answer["rows"]:
        for name, bound in (("exeat", row["bound"]), ("handoff", HANDOFF_BOUNDS.get(row["row"]))):
            if bound and name in row["contenders"]:
                ratio = row["contenders"][name]["ratio"]
                found.append(verdict(row["row"] if name == "exeat" else name, ratio["median"], bound, *ratio["interval"]))
    if "transparent" in answer:
        ratio = answer["transparent"]["ratio"]
        found.append(verdict("transparent", ratio["median"], TRANSPARENT, *ratio["interval"]))
    if "idle" in answer:
        found.append(verdict("idle", answer["idle"]["exeat"]["kib"], IDLE_KIB))
    if "memory" in answer:
        found.append(verdict("memory", max(answer["memory"]["exeat"].values()), PEAK_KIB))
    return found


def sentences(found):
    """Which row holds, which does not, and by how much."""
    for v in found:
        by = abs(v["value"] / v["bound"] - 1) * 100
        text = f"{'holds ' if v['holds'] else 'BROKEN'}  {v['row']:<10}  {v['value']:.2f}, at most {v['bound']:.2f}: " + \
            f"{by:.0f} % {'under' if v['holds'] else 'over'}"
        if v["interval"]:
            text += f"; 95 % interval of the slices' median {v['interval'][0]:.2f} to {v['interval'][1]:.2f}"
        yield text + ("" if v["sure"] else ", the bound inside it: more rounds would tell")
