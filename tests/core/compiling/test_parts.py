"""What a function calls is compiled as a part of it, once, for any processor of the kind."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from numba import njit, types

from penstock.core.compiled import inlined, kernel

pytestmark = pytest.mark.jit_only


@kernel
def _once(number: int) -> int:
    return number + 1


@inlined
def _twice(number: int) -> int:
    return _once(_once(number))


@kernel
def _often(number: int, times: int) -> int:
    for _ in range(times):
        number = _twice(number)
    return number


def test_parts_of_parts_are_linked():
    assert _often(1, 3) == 7 and _once(1) == 2 and _twice(1) == 3


def test_a_part_is_not_optimised_by_itself():
    _often(1, 3)
    (whole,) = (result.library for result in _often.overloads.values())
    assert {part.name for part in whole.parts} == {"_once", "_twice"}
    assert not any(part._compiled_object for part in whole.parts)


def test_only_what_says_so_is_compiled_into_its_callers():
    """Numba hands the wish on to all that such a function calls, which made code of megabytes."""
    _often(1, 3)
    (whole,) = (result.library for result in _often.overloads.values())
    forced = {part.name: "alwaysinline" in str(part._final_module) for part in whole.parts}
    assert forced == {"_once": False, "_twice": True}


def test_compiled_code_of_others_can_call_it():
    @njit
    def theirs(number):
        return _often(number, 2) * 10

    assert theirs(1) == 50


def test_one_version_serves_whole_numbers_of_all_widths():
    @kernel
    def both(number: int, small: int) -> int:
        return _once(number) + _once(small)

    both.compile((types.int64, types.int32))
    (whole,) = (result.library for result in both.overloads.values())
    assert len(whole.parts) == 1


ROUND = "from penstock.core import rounding; rounding.rounded(1.5); print(sum(rounding.rounded.stats.cache_hits.values()))"


def test_code_that_another_processor_has_compiled_is_used(tmp_path):
    found = []
    for processor in ({"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}, {}):
        environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)} | processor
        found.append(subprocess.run([sys.executable, "-c", ROUND], env=environment, check=True, capture_output=True, text=True).stdout)
    assert found == ["0\n", "1\n"]
