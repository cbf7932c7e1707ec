"""docs/architecture.md against the tree: each file, function and noun that it names is there."""
import re

from gateway import TREE

PAGE = (TREE / "docs/architecture.md").read_text()
ROOMS = ["base", "net", "authz", "certs", "canary", "journal", "handoff", "proxy"]
FILE = r"(?:base|net|authz|certs|canary|journal|handoff|proxy|cmd|tests)/[\w/.-]+\.\w+"


def nouns():
    """What the table of rooms lists: room -> words."""
    rows = re.findall(r"^\| `(\w+)/` \| ([^|]*) \|", PAGE, re.M)
    return {room: set(re.findall(r"[a-z_]+", words)) for room, words in rows if room in ROOMS}


def functions():
    """(file, function) pairs: `file: f`, `g`, or `f` (`file`)."""
    for file, first, more in re.findall(rf"`({FILE}): (\w+)`((?:, `\w+`)*)", PAGE):
        yield from ((file, name) for name in [first, *re.findall(r"\w+", more)])
    yield from ((file, name) for name, file in re.findall(rf"`(\w+_\w+)` \(`({FILE})`\)", PAGE))


def test_files_are_there():
    named = set(re.findall(rf"`({FILE})", PAGE))
    assert len(named) > 30
    assert not [f for f in sorted(named) if f != "cmd/NAME.c" and not (TREE / f).exists()]


def test_functions_are_where_the_page_says():
    pairs = list(functions())
    assert len(pairs) >= 20
    missing = [(file, name) for file, name in pairs
               if not re.search(rf"^\w[\w *]*\b{name}\(", (TREE / file).read_text(), re.M)]
    assert not missing


def test_each_noun_is_a_file():
    listed = nouns()
    assert set(listed) >= {"base", "net", "proxy"}
    for room, words in listed.items():
        files = {p.stem for p in (TREE / room).iterdir() if p.suffix in (".c", ".h")}
        assert not words - files, f"{room}/: names that are no files"


def test_each_file_has_its_noun_in_the_table():
    """By its name, or by what stands before an underscore: conf_read is of conf."""
    for room, nouns in re.findall(r"^\| `(\w+)/` \| ([^|]*) \|", PAGE, re.M):
        named = set(re.findall(r"[a-z_]+", nouns))
        files = {f.stem for f in (TREE / room).glob("*.c")}
        assert "subcommand" in named or not {f for f in files if f not in named and f.rsplit("_", 1)[0] not in named}, room
