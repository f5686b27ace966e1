"""The drawing of the rooms in CONTRIBUTING.md is that of the code."""

from __future__ import annotations

import sys
from collections import Counter

import pytest

from places import ROOT

SOURCE = ROOT / "src" / "penstock"


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
