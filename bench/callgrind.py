"""Reads what callgrind wrote: what each function cost by itself, and what calls from one to another cost altogether."""

import collections
import os
import re

NAMED = re.compile(r"(ob|fl|fi|fe|fn|cob|cfi|cfl|cfn)=(?:\((\d+)\))?\s*(.*)$")
COST = re.compile(r"(?:[+-]?\d+|\*) (\d+)$")
KIND = {"ob": "object", "fl": "file", "fi": "file", "fe": "file", "fn": "function",
        "cob": "object", "cfl": "file", "cfi": "file", "cfn": "function"}
CLONE = re.compile(r"(\.(lto_priv|isra|part|constprop|cold)(\.\d+)?)+$|'\d+$")

Place = collections.namedtuple("Place", "object file function")
NOWHERE = Place("", "", "")


def read(path):
    """(Counter {Place: instructions}, {(caller, callee): [calls, instructions altogether]})"""
    own, calls, names = collections.Counter(), collections.defaultdict(lambda: [0, 0]), {}
    here, there = NOWHERE, {}
    with open(path, encoding="utf-8", errors="replace") as f:
        lines = iter(f)
        for line in lines:
            if cost := COST.match(line):
                own[here] += int(cost[1])
            elif line.startswith("calls="):
                call = calls[here, here._replace(**there)]
                call[0] += int(line[6:].split()[0])
                call[1] += int(COST.match(next(lines))[1])
                there = {}
            elif named := NAMED.match(line.rstrip("\n")):
                kind = KIND[named[1]]
                name = names.setdefault((kind, named[2]), named[3]) if named[2] else named[3]
                if named[1].startswith("c"):
                    there[kind] = name
                else:
                    here = here._replace(**{kind: name})
    return own, calls


def our_file(place, root):
    """The path of the file, relative to root; None of one that is not ours."""
    file = place.file[len(root) + 1:] if place.file.startswith(root + os.sep) else place.file
    file = os.path.normpath(file)
    ours = file and not file.startswith("..") and not os.path.isabs(file) and os.path.exists(os.path.join(root, file))
    return file if ours else None


def library(place):
    return re.sub(r"(-[0-9.]+)?\.so[.0-9]*$", "", os.path.basename(place.object)) or "?"


def owner(place, root):
    """The file of ours; else the library, or the header that the code was inlined from."""
    if file := our_file(place, root):
        return file
    if "llhttp" in place.file:
        return "llhttp"
    if place.file.startswith(("/usr/include", "/usr/lib/gcc")):
        return f"<{os.path.basename(place.file)}>"
    return library(place)


def group(place, root):
    """The room of a file of ours; else as above."""
    name = owner(place, root)
    return name.split("/")[0] + "/" if "/" in name else name


def short(function):
    return "without a symbol" if function.startswith("0x") else CLONE.sub("", function)


def function_of(place, root):
    return f"{short(place.function)} ({owner(place, root)})"


def into_libraries(calls, root):
    """{what is called by whom of ours: [calls, instructions]}: into each library from our code."""
    found = collections.defaultdict(lambda: [0, 0])
    for (caller, callee), (number, cost) in calls.items():
        if caller.object != callee.object and our_file(caller, root):
            entry = found[f"{short(callee.function)} ({library(callee)}), from {short(caller.function)}"]
            entry[0] += number
            entry[1] += cost
    return found
