"""The drawing of the rooms in CONTRIBUTING.md is that of the code, and the tests lie in the same rooms."""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path

import pytest

from places import ROOT

SOURCE, TESTS = ROOT / "src" / "penstock", ROOT / "tests"


def test_the_drawing_is_true():
    pytest.importorskip("grimp")
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        import rooms
    finally:
        sys.path.pop(0)
    page = rooms.PAGE.read_text(encoding="utf-8")
    assert rooms.with_drawing(page) == page, "run python docs/rooms.py --write"


def test_no_room_is_a_corridor():
    rooms = Counter(path.parent for path in SOURCE.rglob("*.py") if path.name != "__init__.py")
    assert not {room: files for room, files in rooms.items() if files > 22}


def test_each_room_says_what_lives_in_it_and_what_it_imports():
    for path in SOURCE.rglob("__init__.py"):
        if path.parent != SOURCE:
            said = path.read_text(encoding="utf-8")
            assert said.count("\n") >= 4 and "mports" in said, path


def test_each_test_lies_in_a_room_of_the_source_and_imports_from_no_other():
    rooms = {path.parent.relative_to(SOURCE) for path in SOURCE.rglob("__init__.py")} - {Path()} | {Path("whole")}
    files = list(TESTS.rglob("test_*.py"))
    assert not [path for path in files if path.parent.relative_to(TESTS) not in rooms]
    assert not [path for path in TESTS.rglob("*.py") if re.search(r"^\s*(from|import) test_", path.read_text(encoding="utf-8"), re.M)]
    assert len({path.name for path in files}) == len(files)
