"""Parts of the tests that take turns leave none out."""

from __future__ import annotations

import pytest

from turns import is_due

NAMES = [f"tests/engine/test_a.py::test_b[{number}]" for number in range(300)]


@pytest.mark.parametrize("parts", (1, 2, 3))
def test_each_test_is_in_one_part(parts):
    due = [[name for name in NAMES if is_due(name, f"{part}/{parts}")] for part in range(1, parts + 1)]
    assert sorted(name for part in due for name in part) == sorted(NAMES)
    assert all(len(part) > len(NAMES) / parts * 0.8 for part in due)


def test_what_kills_is_in_each_part():
    assert all(is_due("tests/whole/test_chaos.py::test_a", turn) for turn in ("1/3", "2/3", "3/3"))
