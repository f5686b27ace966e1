"""Which tests are due today, where there is no time for all of them each day: parts take turns, and none is left out for good."""

from __future__ import annotations

from zlib import crc32


def is_due(name: str, turn: str) -> bool:
    """Whether a test is in the part "i/n". Tests of the whole product (kills, clusters, the wheel) are in each part.

    >>> [is_due("tests/engine/test_a.py::test_b", turn) for turn in ("1/1", "1/2", "2/2")]
    [True, True, False]
    """
    part, parts = map(int, turn.split("/"))
    return name.startswith("tests/whole/") or crc32(name.encode()) % parts == part - 1
