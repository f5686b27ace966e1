"""The arguments of `ps.join` that are read by themselves: each as it is meant, or an error that says what would be right."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from penstock.core.budget import Memory, Pools
from penstock.core.clock_limit import Limit, read_limit
from penstock.core.duration import UNITS, microseconds
from penstock.core.errors import PenstockError, choose
from penstock.core.ticks import EVENT_TIME, in_ticks
from penstock.core.trace import LIMIT
from penstock.core.window import Window
from penstock.ledger.places import mixed
from penstock.ledger.store import folder_of
from penstock.shard.shard_plan import NAME, NO_NAMES
from penstock.shard.shares.joint_budget import Budget
from penstock.spark.join.condition import check_steady
from penstock.spark.join.stream import Stream, quoted
from penstock.spark.observe.folders import folders_of
from penstock.spark.session.first_line import first_line
from penstock.spark.session.quiet import unlogged

_TOKENS = r"""`((?:[^`]|``)*)`|'(?:[^'\\]|\\.)*'|"((?:[^"\\]|\\.)*)"|(\w+)"""
"""Of a condition: names in backticks, texts, what may be either, and words."""


def check_condition(spark: SparkSession, condition: str | None, schema: T.StructType, *, archived: bool) -> None:
    """Refuse a condition that Spark cannot evaluate on the joined row, that is not true or false, or that may give something else later."""
    if condition is None:
        return
    if not isinstance(condition, str) or not condition.strip():
        raise PenstockError(f"condition must be an SQL expression over {', '.join(schema.names)}, as a text, got {condition!r}")
    try:
        with unlogged():
            frame = spark.createDataFrame([], schema)
            found = frame.select(*(F.col(quoted(name)) for name in schema.names[:1]), F.expr(condition).alias("it")).schema[1].dataType
            if isinstance(found, T.BooleanType):
                judged = frame.where(F.expr(condition))
                _ = judged.schema
    except Exception as error:
        told = first_line(error)
        raise PenstockError(f"condition must be an SQL expression over {', '.join(schema.names)}, got {condition!r}: {told}") from None
    if not isinstance(found, T.BooleanType):
        raise PenstockError(f"condition must be true or false, got {condition!r} of type {found.simpleString()}")
    check_steady(spark, condition, schema.names, judged, archived=archived)


def check_filter(switches: Any, linked: bool) -> None:
    """Refuse to keep rows without facts, which are dropped where they are packed.

    >>> check_filter({"pre-filter": "static"}, linked=True)
    """
    if linked and isinstance(switches, Mapping) and switches.get("pre-filter") == "none":
        raise PenstockError(
            "switch pre-filter must be both or static on Spark, where rows without a fact are dropped before they reach a shard, got 'none'"
        )


def judged_columns(condition: str, schema: T.StructType, keys: int, out: list[dict[str, str]]) -> tuple[tuple[str, ...], ...]:
    """By stream, the columns that a condition may look at: those whose names are in it."""
    found = re.findall(_TOKENS, condition)
    words = {(ticked or double or word).replace("``", "`").lower() for ticked, double, word in found}
    if re.search(r"[(,]\s*(\w+\.)?\*", condition):  # all columns
        words = {name.lower() for name in schema.names}
    own = [[new for new in columns.values() if new.lower() in words] for columns in out]
    own[0] = [*(name for name in schema.names[:keys] if name.lower() in words), *own[0]]
    return tuple(tuple(names) for names in own)


def least_recall(min_recall: Any) -> tuple[float | None, str]:
    """The recall that every batch must reach, and what happens otherwise."""
    if min_recall is None:
        return None, "warn"
    least, action = min_recall if isinstance(min_recall, tuple | list) and len(min_recall) == 2 else (min_recall, "warn")
    if isinstance(least, bool) or not isinstance(least, int | float) or not 0 < least <= 1:
        raise PenstockError(f'min_recall must be a number in (0, 1], or such a number and "warn" or "fail", got {min_recall!r}')
    return float(least), choose("action of min_recall", action, ("warn", "fail"))


def limit_of(ahead: str | tuple[str, str] | None, sides: Sequence[Stream]) -> Limit | None:
    """How far a row may be ahead of what others support; by default as long as two windows, or two days."""
    if ahead == "auto":
        lengths = [(Window.parse(side.window).longest or 0) + side.lateness for side in sides]
        return Limit(max(2 * UNITS["day"], *(min(2 * length, LIMIT - 1) for length in [0, *lengths])))
    return read_limit(ahead, lambda length, argument: microseconds(length, argument, least=1))


def name_of(name: Any) -> str:
    """A name that metrics, folders and files can have."""
    if not isinstance(name, str) or not re.fullmatch(NAME, name):
        raise PenstockError(f"name must be made of letters, digits, '_', '-' and '.', got {name!r}")
    if name in NO_NAMES:
        raise PenstockError(f"name must be more than dots, which are folders, got {name!r}")
    return name


def whole_number(argument: str, value: Any) -> int:
    """A whole number from 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise PenstockError(f"{argument} must be a whole number >= 1, got {value!r}")
    return value


def yes_or_no(argument: str, value: Any) -> bool:
    """True or False, and nothing that counts as such."""
    if not isinstance(value, bool):
        raise PenstockError(f"{argument} must be True or False, got {value!r}")
    return value


def usual_shards(spark: SparkSession) -> int:
    """As many shards as there are cores, and partitions for them."""
    return max(1, min(_partitions(spark), _parallelism(spark)))


def _partitions(spark: SparkSession) -> int:
    return int(spark.conf.get("spark.sql.shuffle.partitions") or 200)


def _parallelism(spark: SparkSession) -> int:
    try:
        return int(spark.sparkContext.defaultParallelism)
    except Exception:
        return 4  # Spark Connect does not say


def shared_folder(shared: Any, archive: str | None, streams: dict[str, Stream], *, shards: int, budget: Budget | None) -> str | None:
    """The folder through which shards exchange what their tuples are worth; None: they do not, and shares stay equal."""
    streaming = next(iter(streams.values())).frame.isStreaming
    if budget is not None and budget.shared is not None:
        if shared is not None:
            raise PenstockError(f"shared must be left out of a join whose Budget names the folder ({budget.shared}), got {shared!r}")
        shared, shards = budget.shared, shards * budget.parts
    if shared is False or (shared is None and not (streaming and shards > 1)):
        return None
    place = archive if shared is None else folder_of(shared, "shared")
    if shared is not None and not streaming:
        raise PenstockError(f"shared must be left out of a batch query, whose shards cannot wait for each other, got {shared!r}")
    check_archive(None if shared is None else place, streams, "shared")
    return place if shards > 1 else None


def memory_of(memory: Memory | Budget, streams: Sequence[str], allocation: str, overhead: str | None) -> tuple[Pools, Budget | None]:
    """The memory of a join; where it is a part of that of several joins, all of theirs, and what they share."""
    if not isinstance(memory, Budget):
        return Pools.parse(in_ticks(EVENT_TIME, memory=memory)["memory"], streams, allocation=allocation), None
    if allocation != "variable":
        raise PenstockError(f"allocation must be 'variable' in a join of a Budget, which has one pool for all, got {allocation!r}")
    whole = memory.pools(streams)
    if whole.in_bytes and overhead is not None:
        raise PenstockError(
            f"overhead must be left out of a join whose Budget is in bytes, of which it is a quarter in all joins alike, got {overhead!r}"
        )
    return whole, memory


def check_archive(archive: str | None, streams: dict[str, Stream], argument: str = "archive") -> None:
    """Refuse an archive in a folder that a stream reads, or around it: pages of the ledger would be read as rows."""
    if archive is not None:
        for name, side in streams.items():
            for told in mixed({argument: archive}, {f"what stream {name} reads": folders_of(side.frame)}):
                raise PenstockError(told)
