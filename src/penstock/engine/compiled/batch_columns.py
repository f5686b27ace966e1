"""A batch as the compiled loop sees it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from penstock.core.compiled import kernel
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
    values: Ints  # what links compare, a line per row; of links to relations the cells
    leaves: Ints  # through relations: when each row leaves, FILTERED if it never comes in


def plain(array: Any) -> Any:
    """An array of the kind that the loop is compiled for. One that may not be written, as Arrow lends them, would be another."""
    return np.require(array, requirements=("C", "W"))


def rises(expiry: Ints, stream: Ints, ceilings: Ints) -> bool:
    """Whether expiries never fall along the rows of each stream, from these ceilings on."""
    return _climb(plain(expiry), plain(stream.astype(np.int64, copy=False)), ceilings.copy())


@kernel
def _climb(expiry: Ints, stream: Ints, ceilings: Ints) -> bool:
    for row in range(len(expiry)):
        if expiry[row] < ceilings[stream[row]]:
            return False
        ceilings[stream[row]] = expiry[row]
    return True


def instant_size(time: Ints, begin: int) -> int:
    """How many rows the instant that begins at row `begin` has."""
    end, span = begin + 1, 64
    while end < len(time) and time[end] == time[begin]:
        same = time[end : end + span] == time[begin]
        end += len(same) if same.all() else int(same.argmin())
        span *= 2
    return end - begin
