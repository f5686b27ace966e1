"""Late rows: those that come after what their stream's `lateness` promised. Here it is decided how many there are (`n_late`).

The engine counts a row whose own window has passed. A row that breaks the promise while its window is still open is counted here; so is
one that is refused, because a window that counts rows depends on the order of arrival. `Shard.pieces` adds up the two counts. What late
rows have missed is another question (meter/past_rows.py).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.core.batch import Batch
from penstock.core.problem import Problem
from penstock.core.trace import Ints
from penstock.core.window import COUNTING
from penstock.shard.cells import ticks


def without_refused(
    tables: Sequence[pa.Table | None], times: Sequence[str], problem: Problem, seen: Ints
) -> tuple[Sequence[pa.Table | None], int]:
    """The rows that are played, and how many are refused: where a window counts rows, those that come after a later row.

    `seen` are the clocks of all shards, so that what is late does not depend on the number of shards.
    """
    if not any(window.kind in COUNTING for window in problem.windows):
        return tables, 0
    now, kept, refused = int(seen.max()), [], 0
    for table, time in zip(tables, times, strict=True):
        if table is not None:
            timely = ticks(table[time]) >= now
            refused += int(np.count_nonzero(~timely))
            table = table if timely.all() else table.filter(pa.array(timely))
        kept.append(table)
    return kept, refused


def broken_promises(batch: Batch, seen: Ints, problem: Problem) -> int:
    """How many rows of a batch are further behind their stream than its lateness; `seen` is how far streams had come before."""
    return int(np.count_nonzero(batch.time < (seen - problem.lateness)[batch.stream]))
