"""A small trace of two streams, and what refusals look like: for the tests of the nouns."""

from __future__ import annotations

from typing import Any

import pytest

import penstock as ps

STREAMS = ("R", "S")


def trace(**columns: Any) -> ps.Trace:
    """Two streams of two rows each unless told otherwise."""
    return ps.Trace({"stream": list("RSRS"), "time": [0, 0, 1, 1], "key": [1, 2, 2, 1]} | columns)


def refused(match: str) -> Any:
    """For `with`: an error of ours with this in it."""
    return pytest.raises(ps.PenstockError, match=match)
