"""The documents: lines that fit beside code in an editor, and files that are where they are said to be."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from places import ROOT

MOST = 120
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")] + sorted((ROOT / "docs").rglob("*.md"))


def test_lines_of_prose_are_wrapped():
    assert not [(path.name, number) for path in PAGES for number, line in _prose(path) if len(line) > MOST and " " in line[80:]]


def test_the_files_that_contributing_names_are_there():
    files = {path.relative_to(ROOT).as_posix() for room in ("src", "tests", "docs") for path in (ROOT / room).rglob("*.py")}
    named = re.findall(r"`([\w/]+\.py)`", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    assert not [name for name in named if not any(f"/{path}".endswith(f"/{name}") for path in files)]


def test_a_broken_link_fails_the_site():
    """A quiet build does not hear of its warnings, so that `--strict` has nothing to count."""
    build = re.search(r"mkdocs build .*", (ROOT / "Makefile").read_text(encoding="utf-8"))
    assert build is not None and "--strict" in build[0] and "--quiet" not in build[0]
    rules = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert "links: {not_found: warn, anchors: warn, unrecognized_links: warn}" in rules


def _prose(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a page with their numbers, without tables, code and drawings."""
    is_code, is_drawing, before = False, False, ""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.lstrip().startswith("```"):
            is_code = not is_code
        elif not before:
            is_drawing = line.startswith("    ")
        if not is_code and not is_drawing and not line.startswith(("|", "<")):
            yield number, line
        before = line.strip()
