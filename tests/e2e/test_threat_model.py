"""docs/threat-model.md: each claim stands in a table and names tests that exist."""
import os
import pathlib
import re
import subprocess
import sys

import pytest

TREE = pathlib.Path(__file__).parents[2]
PAGE = TREE / "docs" / "threat-model.md"
HEAD = "| claim | shown by |"
REFERENCE = re.compile(r"`([^`]+)`")
ROW = re.compile(r'\{\s*"((?:[^"\\]|\\.)*)"')
FUNCTION = re.compile(r"\b(?:cmocka_unit_test\w*|ROW)\((\w+)")


def claims(text):
    """[(claim, [reference])] of every section that is called claims; its prose is no place for a claim."""
    found = []
    for section in re.split(r"^## ", text, flags=re.MULTILINE):
        if section.startswith("Claims"):
            lines = [line for line in section.splitlines() if line.startswith("|")]
            assert lines[:1] == [HEAD], section.splitlines()[0]
            assert not re.search(r"^[-*] ", section, flags=re.MULTILINE), "a claim outside the table"
            for line in lines[2:]:
                claim, shown_by = line.strip("|").split("|")
                found.append((claim.strip(), REFERENCE.findall(shown_by)))
    return found


def rows_of(source):
    """The names of a unit program: its functions, and the first word of each row of its tables."""
    text = source.read_text()
    return set(FUNCTION.findall(text)) | {n.replace('\\"', '"') for n in ROW.findall(text)}


@pytest.fixture(scope="module")
def end_to_end():
    """Every test of tests/e2e, with its row and without."""
    done = subprocess.run([sys.executable, "-B", "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider",
                           "tests/e2e"], cwd=TREE, capture_output=True, text=True, check=True, env=os.environ)
    ids = {line.removeprefix("tests/e2e/") for line in done.stdout.splitlines() if "::" in line}
    return ids | {i.split("[")[0] for i in ids}


def exists(reference, end_to_end):
    if "::" in reference:
        return reference in end_to_end
    file, _, name = reference.partition(": ")
    source = TREE / "tests" / "unit" / file
    return source.is_file() and name in rows_of(source)


def missing(text, end_to_end):
    """A sentence for each claim that names none, and for each name that nothing has."""
    for claim, references in claims(text):
        if not references:
            yield f"names no test: {claim}"
        for reference in references:
            if not exists(reference, end_to_end):
                yield f"{reference} is no test: {claim}"


def test_every_claim_names_tests_that_exist(end_to_end):
    assert len(claims(PAGE.read_text())) > 30
    found = list(missing(PAGE.read_text(), end_to_end))
    assert not found, "\n".join(["docs/threat-model.md:"] + found)


@pytest.mark.parametrize("shown_by, says", [
    ("`porter.c: a host that no service lists`", None),
    ("`test_names.py::test_an_alias_of_loopback`", None),
    ("`test_names.py::test_no_name_and_no_address[empty]`", None),
    ("", "names no test"),
    ("by thought", "names no test"),
    ("`porter.c: a row that is not there`", "is no test"),
    ("`nothing.c: a row`", "is no test"),
    ("`porter.c`", "is no test"),
    ("`test_names.py::test_that_is_not_there`", "is no test"),
    ("`test_names.py::test_no_name_and_no_address[nobody]`", "is no test"),
    ("`test_names.py`", "is no test"),
    ("`porter.c: a host that no service lists`, `test_names.py::test_gone`", "is no test"),
])
def test_a_claim_without_its_test_is_found(end_to_end, shown_by, says):
    found = list(missing(f"## Claims\n\n{HEAD}\n|---|---|\n| It holds. | {shown_by} |\n", end_to_end))
    assert len(found) == (says is not None) and all(says in f for f in found)
