"""`ps.settle`: the outputs that a join owes because tuples were shed, as an ordinary Spark batch join over its ledger.

A combination was emitted iff its members met: the last of them arrived (`arrived`) not after the first of them left (`left`). Settling is
the exact join under the opposite condition, so emitted and settled outputs together are the exact result, each once.

    instant   1   2   3   4   5
    R         a ──────┤             left = 3
    S             a       a         arrived = 2: emitted; arrived = 4 > 3: owed
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, replace

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from penstock.core.errors import PenstockError
from penstock.core.value import ObjectiveSpec
from penstock.ledger.ledger import Pages, find
from penstock.ledger.places import mixed
from penstock.ledger.relation_pages import version_of
from penstock.ledger.settled_marks import Folder, Mark, query_of, stretches
from penstock.ledger.settlement_pages import check_target, choose
from penstock.ledger.store import Store
from penstock.spark.join.condition import check_harmless
from penstock.spark.join.condition_settings import session_under
from penstock.spark.session.session import use_this_python
from penstock.spark.settle.by_facts import facts_frames
from penstock.spark.settle.heads import state_heads
from penstock.spark.settle.owed import named, owed_outputs, pages_frame, read_parquet, whole_rows, without_void
from penstock.spark.settle.trusted import objective_of, schema_of, using

logger = logging.getLogger("penstock")


def settle(
    archive: Folder,
    *,
    checkpoint: Folder | None = None,
    name: str | None = None,
    query: str | None = None,
    to: Folder | None = None,
    since: int | None = None,
    through: int | None = None,
    objective: ObjectiveSpec = None,
    trust: bool = False,
    spark: SparkSession | None = None,
) -> DataFrame:
    """The outputs that a join owes: those of the exact result that it did not emit, each once, with the columns of the joined DataFrame.

    * `archive`: the folder given to `ps.join`; `name` and `query` choose one of several ledgers in it.
    * `checkpoint`: the checkpoint folder of the query. Its commit log shows which batches count; without it, the newest batch has to wait.
    * `to`: a folder to write them to, as Parquet, exactly once: the next call continues after them. The frame has what this call wrote.
    * `since`, `through`: without `to`, the outputs of the batches after `since` up to `through`. Nothing is marked as settled then: to
      write the frame elsewhere, pass the `through` of one call as the `since` of the next.
    * `objective`: the function that `ps.join` was given as its objective, where it was one: functions are not kept in files.
    * `trust`: the archive may contain code to run: a function of release 0.1.0, and any SQL in its condition (docs/trust.md).
    """
    return _warned(settlement(archive, checkpoint, name, query, to, since, through, objective, trust, spark)).frame


def debt(
    archive: Folder,
    *,
    checkpoint: Folder | None = None,
    name: str | None = None,
    query: str | None = None,
    since: int | None = None,
    through: int | None = None,
    objective: ObjectiveSpec = None,
    trust: bool = False,
    spark: SparkSession | None = None,
) -> int:
    """How many outputs a join owes that have not been settled; the options are those of `ps.settle`."""
    done = settlement(archive, checkpoint, name, query, None, since, through, objective, trust, spark, counting=True)
    return _warned(done).frame.count()


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
    unverified: int = 0  # pages of a ledger of 0.1.0 that were read, for which nothing vouches
    lost: int = 0  # batches that tuples which came too late may have matched, had they not been pruned
    floor: int = 0  # the first batch that has not been pruned: those that are lost are before it
    ledger: str = ""  # its folder in the archive


def settlement(
    archive: Folder,
    checkpoint: Folder | None = None,
    name: str | None = None,
    query: str | None = None,
    to: Folder | None = None,
    since: int | None = None,
    through: int | None = None,
    objective: ObjectiveSpec = None,
    trust: bool = False,
    spark: SparkSession | None = None,
    *,
    counting: bool = False,
) -> Settlement:
    """`settle`, with what it did."""
    if not isinstance(archive, str | os.PathLike):
        raise PenstockError(f"archive must be the folder that ps.join wrote its ledger to, got {archive!r}")
    others = {"archive": [os.fspath(archive)], "checkpoint": [] if checkpoint is None else [os.fspath(checkpoint)]}
    for told in mixed({"to": None if to is None else os.fspath(to)}, others):
        raise PenstockError(told)
    pages = ledger_of(archive, checkpoint, name, query)
    # Not `start_session`, which is for commands: what the Spark of a program of the user's logs is the user's affair.
    spark = spark or SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
    use_this_python(spark)
    plan = f"{pages.store.given}/{pages.folder}"
    with using(plan):
        schema = schema_of(pages.plan, trust=trust)
        nothing = spark.createDataFrame([], schema)
        if pages.plan.condition is not None and not trust:
            check_harmless(spark, pages.plan.condition, schema.names)
    chosen = choose(pages, checkpoint, state_heads(spark, checkpoint, pages.plan.name), to, since, through)
    target = None if to is None else Store(to, "to")
    if target is not None:
        check_target(pages, target, chosen.since)
    spark = session_under(spark, pages.plan)
    function = objective_of(pages.plan, objective, trust=trust, counting=counting)
    done = Settlement(nothing, pages.plan.name, pages.query, chosen.since + 1, chosen.through)
    done = replace(done, unverified=len(chosen.bare), lost=chosen.lost, floor=chosen.floor, ledger=pages.folder)
    if chosen.through <= chosen.since:
        return done
    read = ([f"{pages.store.url}/{page.name}" for page in some] for some in (chosen.pages, chosen.bare))
    with using(plan):
        facts = facts_frames(spark, pages.store, pages.folder, pages.plan, schema, chosen.facts)
        frame = pages_frame(spark, pages.plan, schema, *read)
        owed = owed_outputs(
            frame, pages.plan, schema, chosen.since, chosen.times, function, facts, [version_of(page) for page in chosen.before]
        )
    if target is None:
        return replace(done, frame=owed)

    mark = Mark(chosen.since, chosen.through, target.url, None, stretches(chosen.spans), chosen.heads)
    mark.write(pages)
    # Named by where it begins: a second attempt overwrites the first, even if it comes farther.
    folder = f"settlement={pages.folder}-{chosen.since + 1:09}"
    owed.select(*(named(field.name) for field in without_void(schema))).write.mode("overwrite").parquet(f"{target.url}/{folder}")
    rows = _rows(target, folder)
    replace(mark, rows=rows).write(pages)
    frame = whole_rows(read_parquet(spark, without_void(schema), [f"{target.url}/{folder}"]), schema)
    return replace(done, frame=frame, to=target.url, rows=rows)


def _warned(done: Settlement) -> Settlement:
    """The same, once what pruning took has been told."""
    if done.lost:
        logger.warning(
            "archive: batches %d to %d of the ledger %s were pruned; what tuples that came later than their lateness allows would have "
            "matched in them is not settled",
            done.floor - done.lost,
            done.floor - 1,
            done.ledger,
        )
    return done


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


__all__ = ["Settlement", "debt", "ledger_of", "settle", "settlement"]
