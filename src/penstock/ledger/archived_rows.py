"""The rows that a join has taken in so far, from its ledger: a trace to plan with. Spark-free."""

from __future__ import annotations

import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.core.duration import in_units
from penstock.core.errors import PenstockError
from penstock.core.trace import Trace
from penstock.ledger.attempts import followed
from penstock.ledger.ledger import IMPORTANCE, STREAM, TIME, Pages, find
from penstock.ledger.ledger_plan import NO_LINKS
from penstock.ledger.manifest import Attempt


def archived_trace(archive: str | os.PathLike[str], *, name: str | None = None, query: str | None = None) -> tuple[Trace, dict[str, str]]:
    """All rows of the ledger of a join on equal keys, in the order of their times, and the windows of its streams.

    Which attempt at the newest batch counts only a checkpoint says, so that batch is left out, unless it is the only one.

    >>> from tempfile import TemporaryDirectory
    >>> from penstock.ledger.ledger import Ledger
    >>> from penstock.ledger.ledger_plan import LedgerPlan
    >>> plan = LedgerPlan("penstock", ("l", "r"), 1, (("k",), ()), (10, 10), None, None, '{"type": "struct", "fields": []}', False)
    >>> came = pa.table({"row": [0], "arrived": [1], "time": [5], "key0": ["a"], "k": ["a"]})
    >>> with TemporaryDirectory() as archive:
    ...     made = Ledger(archive, plan, "7f3a").write(0, 0, [came, came], pa.table({"row": [0], "left": [4]}))
    ...     trace, windows = archived_trace(archive)
    >>> trace.streams, trace.time.tolist(), trace.key.tolist(), windows
    (('l', 'r'), [5, 5], [0, 0], {'l': '10 microseconds', 'r': '10 microseconds'})
    """
    pages = find(archive, name=name, query=query)
    plan = pages.plan
    if plan.links != NO_LINKS or any(window is None for window in plan.windows) or plan.expires:
        raise PenstockError(
            f"archive must be of a join on equal keys with windows of constant lengths, to plan with it, got that of {plan.name!r}: give "
            "its streams as files"
        )
    manifests, _, wrong = followed(pages, _newest(pages.attempts()), 0, pages.attempts())
    if wrong:
        raise PenstockError(f"archive must be a whole ledger: {wrong[0]}")
    keys = [f"_key{number}" for number in range(plan.keys)]
    columns = [STREAM, TIME, *keys, *([IMPORTANCE] if plan.has_importance else [])]
    parts = [_arrivals(pages, one.attempt, columns) for one in manifests if one.sha256 is not None]
    found = pa.concat_tables(parts, promote_options="permissive") if parts else pa.table({})
    if not found.num_rows:
        raise PenstockError(f"archive must have rows that count, to plan with them, got none in the ledger of {plan.name!r}")
    streams = pa.array(plan.streams).take(found[STREAM].combine_chunks())
    names = list(plan.payload[0][: plan.keys])
    names = [f"key_{one}" if one in ("stream", "time", "importance") else one for one in names]
    columns_of_key = dict(zip(names, map(found.column, keys), strict=True))
    table = pa.table({"stream": streams, "time": found[TIME].cast(pa.timestamp("us", "UTC"))} | columns_of_key)
    if plan.has_importance:
        table = table.append_column("importance", found[IMPORTANCE])
    order = np.lexsort((np.asarray(found[STREAM]), np.asarray(found[TIME])))
    trace = Trace(table.take(pa.array(order)), key=names, streams=plan.streams)
    return trace, {stream: in_units(window) for stream, window in zip(plan.streams, plan.windows, strict=True) if window is not None}


def _newest(there: list[Attempt]) -> list[Attempt]:
    """The attempts of the newest batch that is sure to count: those that the batch after it followed, or the only batch."""
    batches = sorted({one.batch for one in there})
    if not batches:
        return []
    last = batches[-2] if len(batches) > 1 else batches[-1]
    here = [one for one in there if one.batch == last]
    epoch = max(one.epoch for one in here)
    return [one for one in here if one.epoch == epoch]


def _arrivals(pages: Pages, attempt: Attempt, columns: list[str]) -> pa.Table:
    """The rows of a page that have come; not those that have left, nor those that wait."""
    with pages.store.open(pages.page(attempt).name) as file:
        there = pq.ParquetFile(file)
        if not set(columns) <= set(there.schema_arrow.names):
            return pa.table({name: pa.array([], pa.int64()) for name in columns[:2]})
        table = there.read(columns)
    return table.filter(pa.array(np.asarray(table[STREAM]) >= 0))
