"""`ps.lookup` on Spark: each row of a DataFrame with the facts that are active at its time (Towne 2.1, formula 5).

It keeps nothing, so it is exact, and a streaming query may have it anywhere. The facts travel as they do for a join.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as T  # noqa: N812

from penstock.core.errors import PenstockError, choose
from penstock.core.facts import FactLink, Through, link_parts
from penstock.relation.access import ACCESSES, Access, open_access
from penstock.relation.lookup import other_columns
from penstock.relation.relation import Relation
from penstock.shard.cells import Batches, ticks
from penstock.shard.facts.fact_columns import fact_columns
from penstock.shard.facts.known import SHOWN
from penstock.shard.facts.sent import SentFacts
from penstock.shard.worker_start import acknowledge_at_once
from penstock.spark.join.arrow_types import arrow_schema
from penstock.spark.join.stream import Stream, check_columns
from penstock.spark.join.through import fact_types, shown_fields, table_of
from penstock.spark.session.session import use_this_package, use_this_python
from penstock.spark.session.shipment import shipped


def lookup(
    stream: Stream | DataFrame, relation: Relation, *, access: str = "auto", time: str = "time", name: str | None = None
) -> DataFrame:
    """Each row of a stream with the facts that are active at its time: its columns, then the relation's as `<relation>_<column>`.

    * `stream`: what `ps.stream` made, or a DataFrame, streaming or not, with its times in the column `time`.
    * `name`: which of the streams in the links it is, where there are several.
    * `access`: how facts are found, "scan", "hash", "index" or "auto".

    The relation's `columns` are shown, or all others if it names none. It stands still: it is read now.
    """
    if not isinstance(relation, Relation):
        raise PenstockError(f"relation must be one made by ps.relation(...), got {type(relation).__name__}")
    choose("access", access, ("auto", *ACCESSES))
    frame, time = (stream.frame, stream.time) if isinstance(stream, Stream) else (stream, time)
    check_columns("time", [time], tuple(frame.columns))
    if not isinstance(frame.schema[time].dataType, T.TimestampType | T.TimestampNTZType):
        kind = frame.schema[time].dataType.simpleString()
        raise PenstockError(f"time must be a column of timestamps, got {time!r} of type {kind}")
    column, attribute = _link(relation, name)
    table = table_of(relation)
    relation = relation if relation.columns else replace(relation, columns=other_columns(relation, table.schema))
    one = Through(relation.called, (FactLink(0, column, attribute),))
    fields = shown_fields(relation, table, one)
    taken = [field.name for field in fields if field.name.lower() in {there.lower() for there in frame.columns}]
    if taken:
        raise PenstockError(f"stream must have no column {taken[0]!r}, which is what one of the relation is called: give it another name")
    facts = SentFacts.of([one], [fact_columns(relation, one, table, *fact_types(relation, table, one, [frame], fields))])
    use_this_python(frame.sparkSession)
    use_this_package(frame.sparkSession)
    facts = replace(facts, parcel=shipped(frame.sparkSession, facts.parcel.value))
    schema = T.StructType([*frame.schema.fields, *fields])
    numbers = [f"c{number}" for number in range(len(schema))]
    plain = T.StructType([T.StructField(number, field.dataType) for number, field in zip(numbers, schema, strict=True)])
    step = _LookUp(facts, access, frame.columns.index(column), frame.columns.index(time), arrow_schema(plain))
    return frame.toDF(*numbers[: len(frame.columns)]).mapInArrow(step.run, plain).toDF(*schema.names)


def _link(relation: Relation, name: str | None) -> tuple[str, str]:
    """The column of the stream and the attribute that are compared."""
    parts = {stream: (column, attribute) for stream, column, attribute in (link_parts(relation.called, text) for text in relation.links)}
    if name is None and len(parts) > 1:
        raise PenstockError(f"name must say which of the streams {', '.join(parts)} this is, got nothing")
    return parts[choose("name", name or next(iter(parts)), parts)]


@dataclass(frozen=True)
class _LookUp:
    """What a task does: the facts, how they are found, where value and time are among the columns, and the columns of the result."""

    facts: SentFacts
    access: str
    column: int
    time: int
    schema: pa.Schema

    def run(self, batches: Batches) -> Batches:
        """For `mapInArrow`: rows with their facts."""
        acknowledge_at_once()
        known = self.facts.open()
        table, values = known.tables[0], known.values(0)
        shown = [name for name in table.column_names if name.startswith(SHOWN)]
        found = self._opened(known.whole)
        for batch in batches:
            time = batch.column(self.time)
            number = np.where(np.asarray(time.is_valid()), values.numbers(batch.column(self.column)), -1)
            rows, facts = found.find(0, number, ticks(time.fill_null(0) if time.null_count else time))
            columns: list[Any] = list(batch.take(pa.array(rows)).columns)
            columns += [column.combine_chunks() for column in table.select(shown).take(pa.array(facts)).columns]
            yield from pa.table(columns, schema=self.schema).to_batches()

    def _opened(self, facts: Sequence[Any]) -> Access:
        """For as many look-ups as will ever come."""
        return open_access(self.access, facts[0], {0: sys.maxsize})
