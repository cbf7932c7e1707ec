"""README.md and docs/*.md as pages: tables are whole, and links lead to a page and a heading that are there."""
import re

import pytest

from gateway import TREE

PAGES = ["README.md", *sorted(f"docs/{p.name}" for p in (TREE / "docs").glob("*.md"))]
LINK = re.compile(r"\]\(([\w./-]+\.md)?(#[\w-]+)?\)")


def lines_of(page):
    """The lines that are not fenced, with their numbers."""
    fenced = False
    for number, line in enumerate((TREE / page).read_text().splitlines(), 1):
        if line.startswith("```"):
            fenced = not fenced
        elif not fenced:
            yield number, line


def anchors(page):
    """What a link may name behind #, as they are made of headings."""
    heads = (line.lstrip("# ") for _, line in lines_of(page) if re.match("#+ ", line))
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


def cells(line):
    return len(re.sub(r"\\\||`[^`]*`", "", line).split("|"))


@pytest.mark.parametrize("page", PAGES)
def test_tables_are_whole(page):
    width = None
    for number, line in lines_of(page):
        if not line.startswith("|"):
            width = None
            continue
        width = width or cells(line)
        assert line.endswith("|") and cells(line) == width, f"{page}:{number}"


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    for number, line in lines_of(page):
        for target, anchor in LINK.findall(line):
            other = ((TREE / page).parent / target).resolve() if target else TREE / page
            assert other.is_file(), f"{page}:{number}: {target}"
            assert not anchor or anchor[1:] in anchors(other.relative_to(TREE)), f"{page}:{number}: {target}{anchor}"
