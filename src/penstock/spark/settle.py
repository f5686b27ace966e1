"""`ps.settle`: the outputs that a join owes because tuples were shed, as an ordinary Spark batch join over its ledger.

A combination was emitted iff its members met: the last of them arrived (`arrived`) not after the first of them left (`left`). Settling is
the exact join under the opposite condition, so emitted and settled outputs together are the exact result, each once.

    instant   1   2   3   4   5
    R         a ──────┤             left = 3
    S             a       a         arrived = 2: emitted; arrived = 4 > 3: owed
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T  # noqa: N812

from penstock.core.errors import PenstockError
from penstock.spark.condition import check_harmless
from penstock.spark.ledger import Pages, find
from penstock.spark.marks import NOTHING, Mark, last_certain, last_commit, marks, query_of, reach, settled, stretches, together
from penstock.spark.owed import file_schema, named, owed_outputs, whole_rows, without_void
from penstock.spark.places import mixed
from penstock.spark.session import use_this_python
from penstock.spark.store import Store
from penstock.spark.terms import session_under
from penstock.spark.trusted import objective_of, schema_of

Folder = str | os.PathLike[str]


def settle(
    archive: Folder,
    *,
    checkpoint: Folder | None = None,
    name: str | None = None,
    query: str | None = None,
    to: Folder | None = None,
    since: int | None = None,
    through: int | None = None,
    objective: Any = None,
    trust: bool = False,
    spark: SparkSession | None = None,
) -> DataFrame:
    """The outputs that a join owes: those of the exact result that it did not emit, each once, with the columns of the joined DataFrame.

    * `archive`: the folder given to `ps.join`; `name` and `query` choose one of several ledgers in it.
    * `checkpoint`: the checkpoint folder of the query. Its commit log says which batches count; without it, the newest batch has to wait.
    * `to`: a folder to write them to, as Parquet, exactly once: the next call goes on behind them. The frame has what this call wrote.
    * `since`, `through`: without `to`, the outputs of the batches after `since` up to `through`. Nothing is marked as settled then: who
      writes the frame elsewhere passes the `through` of one call as the `since` of the next.
    * `objective`: the function that `ps.join` was given as its objective, where it was one: functions are not kept in files.
    * `trust`: the archive may bring code: a function of release 0.1.0, and any SQL in its condition (docs/trust.md).
    """
    return settlement(archive, checkpoint, name, query, to, since, through, objective, trust, spark).frame


def debt(
    archive: Folder,
    *,
    checkpoint: Folder | None = None,
    name: str | None = None,
    query: str | None = None,
    since: int | None = None,
    through: int | None = None,
    objective: Any = None,
    trust: bool = False,
    spark: SparkSession | None = None,
) -> int:
    """How many outputs a join owes that have not been settled; the options are those of `ps.settle`."""
    return settlement(archive, checkpoint, name, query, None, since, through, objective, trust, spark, counting=True).frame.count()


@dataclass(frozen=True)
class Settlement:
    """What one call settled: outputs whose last member arrived in the batches from `first` to `last` (none, where `last` is before it)."""

    frame: DataFrame
    name: str
    query: str
    first: int
    last: int
    to: str | None = None
    rows: int | None = None  # where they were written


def settlement(
    archive: Folder,
    checkpoint: Folder | None = None,
    name: str | None = None,
    query: str | None = None,
    to: Folder | None = None,
    since: int | None = None,
    through: int | None = None,
    objective: Any = None,
    trust: bool = False,
    spark: SparkSession | None = None,
    *,
    counting: bool = False,
) -> Settlement:
    """`settle`, with what it did."""
    others = {"archive": [os.fspath(archive)], "checkpoint": [] if checkpoint is None else [os.fspath(checkpoint)]}
    for told in mixed({"to": None if to is None else os.fspath(to)}, others):
        raise PenstockError(told)
    pages = ledger_of(archive, checkpoint, name, query)
    # What is committed must be known before pages are listed: a batch that commits in between would count without its pages.
    newest = None if checkpoint is None else last_commit(checkpoint)
    there, known = pages.all(), marks(pages)
    newest = last_certain([page.batch for page in there], pages.query) if newest is None else newest
    if settled(known) > newest and checkpoint is not None:
        raise PenstockError(f"checkpoint must have the batches that are settled, up to {settled(known)}, but it ends with {newest}")
    since, through = _range(known, newest, to, since, through)
    spark = spark or SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
    use_this_python(spark)
    schema = schema_of(pages.plan, trust=trust)
    if pages.plan.condition is not None and not trust:
        check_harmless(spark, pages.plan.condition, schema.names)
    spark = session_under(spark, pages.plan)
    function = objective_of(pages.plan, objective, trust=trust, counting=counting)
    new = [page for page in there if since < page.batch <= through]
    if not new:
        return Settlement(spark.createDataFrame([], schema), pages.plan.name, pages.query, since + 1, since)

    spans = pages.spans(new) if to is not None or since > NOTHING else {}
    times = together(spans.values())
    begin = reach(known, since, pages.plan.windows, times) if since > NOTHING else 0
    read = [f"{pages.store.url}/{page.name}" for page in there if begin <= page.batch <= through]
    owed = owed_outputs(_read(spark, file_schema(pages.plan, schema), read), pages.plan, schema, since, times, function)
    if to is None:
        return Settlement(owed, pages.plan.name, pages.query, since + 1, through)

    target = Store(to, "to")
    mark = Mark(since, through, target.url, None, stretches(spans))
    mark.write(pages)
    # Named by where it begins: a second attempt overwrites the first, even if it comes farther.
    folder = f"settlement={pages.folder}-{since + 1:09}"
    owed.select(*(named(field.name) for field in without_void(schema))).write.mode("overwrite").parquet(f"{target.url}/{folder}")
    rows = _rows(target, folder)
    replace(mark, rows=rows).write(pages)
    frame = whole_rows(_read(spark, without_void(schema), [f"{target.url}/{folder}"]), schema)
    return Settlement(frame, pages.plan.name, pages.query, since + 1, through, target.url, rows)


def ledger_of(archive: Folder, checkpoint: Folder | None = None, name: str | None = None, query: str | None = None) -> Pages:
    """The ledger to settle from."""
    own = None if checkpoint is None else query_of(checkpoint)
    if None not in (own, query) and own != query:
        raise PenstockError(f"query must be that of the checkpoint ({own}), got {query!r}")
    return find(archive, name=name, query=query if own is None else own)


def _rows(store: Store, folder: str) -> int:
    """How many rows have been written to a folder."""
    total = 0
    for name in store.names(folder):
        with store.open(f"{folder}/{name}") as file:
            total += pq.read_metadata(file).num_rows
    return total


def _range(known: list[Mark], newest: int, to: Folder | None, since: int | None, through: int | None) -> tuple[int, int]:
    """After which batch to begin, and with which to end."""
    for what, value in (("since", since), ("through", through)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < NOTHING):
            raise PenstockError(f"{what} must be the number of a batch, got {value!r}")
    if through is not None and through > newest:
        raise PenstockError(f"through must be a committed batch, up to {newest}, got {through}")
    if since is not None and since > newest:
        raise PenstockError(f"since must be a committed batch, up to {newest}, or -1 for all, got {since}")
    if since is not None and through is not None and since > through:
        raise PenstockError(f"since must not be after through ({through}), got {since}")
    if to is None:
        return settled(known) if since is None else since, newest if through is None else through
    if since is not None:
        raise PenstockError("since cannot be chosen with to, where each settlement goes on behind the last; leave one of them out")
    for mark in known:
        if mark.rows is None and mark.since == settled(known) and mark.to != Store(to, "to").url:
            raise PenstockError(f"to must be {mark.to!r}, where a settlement was begun and not finished, got {os.fspath(to)!r}")
    return settled(known), newest if through is None else through


def _read(spark: SparkSession, schema: T.StructType, paths: list[str]) -> DataFrame:
    return spark.read.schema(schema).option("datetimeRebaseMode", "CORRECTED").parquet(*paths)


__all__ = ["Settlement", "debt", "ledger_of", "settle", "settlement"]
