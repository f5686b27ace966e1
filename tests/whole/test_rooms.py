"""The drawing of the rooms in CONTRIBUTING.md is that of the code, and the tests lie in the same rooms."""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from places import ROOT

SOURCE, TESTS = ROOT / "src" / "penstock", ROOT / "tests"
ROOMS = {path.parent for path in SOURCE.rglob("__init__.py")} - {SOURCE}


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
            if "Imports every other room" in said:  # by files of its own, or of rooms in it
                found = {name for room in ROOMS if room.is_relative_to(path.parent) for name in _imported(room)}
                assert {room.name for room in ROOMS if room.parent == SOURCE and room != path.parent} <= found, path
            else:
                assert _said_to_be_imported(path) == _imported(path.parent), path


def test_what_a_room_says_of_its_files_is_there():
    for path in SOURCE.rglob("__init__.py"):
        room = path.parent
        near = [room, *(one for one in ROOMS if _name(room, one) in _imported(room))]
        for word in re.findall(r"`([a-z][a-z_]*)/?(?:\.[A-Z]\w*)?`", ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""):
            assert any((one / word).is_dir() or (one / f"{word}.py").is_file() for one in near), (room, word)


def test_each_class_has_a_name_of_its_own():
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in SOURCE.rglob("*.py")]
    names = Counter(node.name for tree in trees for node in tree.body if isinstance(node, ast.ClassDef))
    assert not {name for name, count in names.items() if count > 1}


def _said_to_be_imported(path: Path) -> set[str]:
    """The rooms that are named after "Imports" in what a room says of itself."""
    said = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").rpartition("Imports")[2]
    return set(re.findall(r"\w+", said)) & {_name(path.parent, room) for room in ROOMS}


@cache
def _imported(room: Path) -> set[str]:
    """The rooms that the files of one import, itself and what lies in it apart."""
    found = set()
    for file in room.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [f"{node.module}.{alias.name}" for alias in node.names] if isinstance(node, ast.ImportFrom) and node.module else []
            found |= {_room_of(name) for name in names if name.startswith("penstock.")}
    return {_name(room, one) for one in found if one != SOURCE and not one.is_relative_to(room)}


def _room_of(module: str) -> Path:
    """The room that a module, or a name in it, lies in."""
    room = SOURCE
    for part in module.split(".")[1:]:
        if room / part in ROOMS:
            room /= part
    return room


def _name(room: Path, other: Path) -> str:
    """The name of another room, seen from this one: of those in it, the outermost that is not around both."""
    whole, shared = other.relative_to(SOURCE).parts, 0
    while shared < len(whole) - 1 and whole[: shared + 1] == room.relative_to(SOURCE).parts[: shared + 1]:
        shared += 1
    return whole[shared]


def test_each_test_lies_in_a_room_of_the_source_and_imports_from_no_other():
    rooms = {room.relative_to(SOURCE) for room in ROOMS} | {Path("whole")}
    files = list(TESTS.rglob("test_*.py"))
    assert not [path for path in files if path.parent.relative_to(TESTS) not in rooms]
    assert not [path for path in TESTS.rglob("*.py") if re.search(r"^\s*(from|import) test_", path.read_text(encoding="utf-8"), re.M)]
    assert len({path.name for path in files}) == len(files)
