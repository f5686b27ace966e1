"""A batch as the compiled loop sees it."""

from __future__ import annotations

from typing import NamedTuple

from penstock.core.trace import Floats, Ints


class BatchColumns(NamedTuple):
    """A batch for the compiled loop. BatchColumns that are not needed have length 1."""

    stream: Ints
    time: Ints
    key: Ints
    expiry: Ints
    importance: Floats
    score: Floats
    weight: Ints
    rates: Floats  # one column per stream
    band: Ints  # instead of rates, where prices never change
    values: Ints  # what links compare, a line per row
