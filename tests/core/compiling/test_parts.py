"""What a function calls is compiled as a part of it, once, for any processor of the kind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from numba import njit, types

from penstock.core import compiled
from penstock.core.compiled import inlined, kernel

pytestmark = pytest.mark.jit_only


class Three(NamedTuple):
    """Functions that call each other: `often` calls `twice`, which is compiled into its callers and calls `once`."""

    once: Any
    twice: Any
    often: Any

    @property
    def whole(self) -> Any:
        """The code of `often`."""
        self.often(1, 3)
        (result,) = self.often.overloads.values()
        return result.library


@pytest.fixture
def three(monkeypatch) -> Three:
    """Compiled here and now: what was kept has no parts any more."""
    monkeypatch.setattr(compiled, "_cache_folder", lambda: None)

    @kernel
    def once(number: int) -> int:
        return number + 1

    @inlined
    def twice(number: int) -> int:
        return once(once(number))

    @kernel
    def often(number: int, times: int) -> int:
        for _ in range(times):
            number = twice(number)
        return number

    return Three(once, twice, often)


def test_parts_of_parts_are_linked(three):
    assert three.often(1, 3) == 7 and three.once(1) == 2 and three.twice(1) == 3


def test_a_part_is_not_optimised_by_itself(three):
    parts = three.whole.parts
    assert sorted(part.name.rpartition(".")[2] for part in parts) == ["once", "twice"]
    assert not any(part._compiled_object for part in parts)


def test_only_what_says_so_is_compiled_into_its_callers(three):
    """Numba hands the wish on to all that such a function calls, which made code of megabytes."""
    forced = {part.name.rpartition(".")[2]: "alwaysinline" in str(part._final_module) for part in three.whole.parts}
    assert forced == {"once": False, "twice": True}


def test_compiled_code_of_others_can_call_it(three):
    often = three.often

    @njit
    def theirs(number):
        return often(number, 2) * 10

    assert theirs(1) == 50


def test_one_version_serves_whole_numbers_of_all_widths(three):
    once = three.once

    @kernel
    def both(number: int, small: int) -> int:
        return once(number) + once(small)

    both.compile((types.int64, types.int32))
    (result,) = both.overloads.values()
    assert len(result.library.parts) == 1


def test_code_that_was_kept_still_serves_as_a_part(tmp_path):
    """A function that Python has called, and whose code came from disk, is then called by compiled code."""
    for _ in range(2):
        command = [sys.executable, str(written(tmp_path)), str(tmp_path)]
        assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == "3.0 6.0\n"


def written(folder: Path) -> Path:
    """A program with a compiled function that calls one which Python calls too."""
    file = folder / "program.py"
    file.write_text(PROGRAM)
    return file


PROGRAM = """
import sys
from penstock.core import compiled
compiled._cache_folder = lambda: sys.argv[1]

@compiled.kernel
def inner(number):
    return number + 1.0

@compiled.kernel
def outer(number):
    return inner(number) * 2

print(inner(2.0), outer(2.0))
"""
ROUND = "from penstock.core import rounding; rounding.rounded(1.5); print(sum(rounding.rounded.stats.cache_hits.values()))"


def test_code_that_another_processor_has_compiled_is_used(tmp_path):
    found = []
    for processor in ({"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}, {}):
        environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)} | processor
        found.append(subprocess.run([sys.executable, "-c", ROUND], env=environment, check=True, capture_output=True, text=True).stdout)
    assert found == ["0\n", "1\n"]
