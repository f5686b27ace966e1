"""What relations link on Spark: from `through=` to the columns that travel and the facts that workers have, checked.

A relation stands still, unless it is a history whose version is not named: the driver reads it once, when the join is planned, and it
travels to every worker as a whole. What is in it may begin and end at any time, also in the future. Its facts are in the settings of the
state, so that a restart finds the same. Of a history that goes on, workers read the versions that batches see.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_type

from penstock.core.errors import PenstockError
from penstock.core.facts import Through, check_tree, slots_of
from penstock.core.predicate import Predicate
from penstock.core.ticks import EVENT_TIME, length
from penstock.ledger.relation_pages import RelationPages
from penstock.ledger.store import local_path
from penstock.relation.addresses import history_at, is_feed
from penstock.relation.checks import check_columns as check_facts
from penstock.relation.history import History
from penstock.relation.relation import Relation, read_through
from penstock.shard.facts.fact_columns import fact_columns
from penstock.shard.facts.followed import Followed
from penstock.shard.facts.sent import SentFacts
from penstock.shard.state.state_settings import RELATION
from penstock.spark.join.arrow_types import arrow_type
from penstock.spark.join.join_columns import Comparison
from penstock.spark.join.stream import Stream, check_columns, unfit
from penstock.spark.session.shipment import shipped

_WHOLE = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
_FRACTION = (T.FloatType, T.DoubleType)


@dataclass(frozen=True)
class Linked:
    """The relations of a join, read: what they link, their facts, and what the joined row shows of them."""

    relations: tuple[Relation, ...]
    facts: SentFacts
    shown: tuple[T.StructField, ...]

    @property
    def through(self) -> tuple[Through, ...]:
        """What they link."""
        return self.facts.through

    @property
    def settings(self) -> dict[str, Any]:
        """What a state keeps of them: their links by name, and a digest of their facts."""
        links = {one.name: list(relation.links) for one, relation in zip(self.through, self.relations, strict=True)}
        return {"through": links} | {RELATION + name: digest for name, digest in zip(links, self.facts.digests, strict=True)}

    @property
    def in_ledger(self) -> list[dict[str, Any]]:
        """What settling must know of them, beside their facts (ledger/relation_pages.py)."""
        parts = zip(self.through, slots_of(self.through), self.facts.digests, strict=True)
        grows = {"grows": True} if self.facts.followed else {}
        found = [
            asdict(RelationPages(one.name, digest, one.streams, tuple(slots), one.weighted, self.facts.open().shown(which)))
            for which, (one, slots, digest) in enumerate(parts)
        ]
        return [{name: value for name, value in one.items() if name != "grows"} | grows for one in found]

    @property
    def values_in_ledger(self) -> list[str]:
        """The types of the values that links compare, by slot, where the ledger has values and not their numbers."""
        distinct = self.facts.open().distinct if self.facts.followed else []
        return [from_arrow_type(own.type, prefer_timestamp_ntz=True).simpleString() for own in distinct]

    def shipped(self, spark: SparkSession) -> SentFacts:
        """The facts on their way to the workers of a session."""
        return replace(self.facts, parcel=shipped(spark, self.facts.parcel.value))


def read_relations(through: Any, streams: Mapping[str, Stream]) -> Linked | None:
    """Read the relations of `through=`, and refuse what is wrong with them; None where there are none."""
    relations = read_through(through)
    if not relations:
        return None
    names = tuple(streams)
    streaming = any(side.frame.isStreaming for side in streams.values())
    growing = [relation for relation in relations if streaming and _grows(relation)]
    read = [(relation, table := table_of(relation), relation.through(names, table)) for relation in relations]
    check_tree([own for *_, own in read], names)
    tables, shown = [], []
    for relation, table, own in read:
        fields = shown_fields(relation, table, own)
        types = fact_types(relation, table, own, [side.frame for side in streams.values()], fields)
        columns = fact_columns(relation, own, table, *types)
        tables.append(_followed(relation, own, *types) if relation in growing else columns)
        shown += fields
    return Linked(relations, SentFacts.of([own for *_, own in read], tables), tuple(shown))


def compare_through(streams: Mapping[str, Stream], on: Any, predicate: Any, cross: bool, linked: Linked) -> Comparison:
    """What is compared of streams that relations link: by stream the linked columns, by slot."""
    for name, given in {"on": on, "cross": cross or None, "predicate": None if predicate == "=" else predicate}.items():
        if given is not None:
            raise PenstockError(f"{name} must be left out where streams are joined through relations, got {given!r}")
    for name, side in streams.items():
        if side.key is not None:
            raise PenstockError(f"key of stream {name} must be left out where relations link the streams, got {side.key!r}")
    links = [link for one in linked.through for link in one.links]
    columns = tuple(tuple(link.column for link in links if link.stream == stream) for stream in range(len(streams)))
    kinds = tuple(tuple(side.frame.schema[name].dataType for name in own) for side, own in zip(streams.values(), columns, strict=True))
    return Comparison(Predicate("through"), columns, kinds, numeric=tuple((False,) * len(own) for own in columns), through=linked.through)


def table_of(relation: Relation) -> pa.Table:
    """The facts of a relation as a table; those of a DataFrame in an order that does not depend on how it was computed."""
    source = relation.source
    if not isinstance(source, DataFrame):
        return relation.load()
    if source.isStreaming:
        raise PenstockError(f"source of relation {relation.called} must be a table, a file or a batch DataFrame, got a streaming DataFrame")
    table = source.toArrow()
    orderly = [field.name for field in table.schema if not pa.types.is_nested(field.type)]
    return table.take(pc.sort_indices(table, [(name, "ascending") for name in orderly])) if orderly else table


def _grows(relation: Relation) -> bool:
    """Whether streams are joined through versions as they come; a feed, of which nobody keeps any, is refused."""
    if is_feed(relation.source):
        raise PenstockError(
            f"source of relation {relation.called} must not be a feed where streams are joined, got {relation.source!r}: keep its history "
            "(penstock relation record --every), and give that, history:FOLDER"
        )
    kept = history_at(relation.source)
    return kept is not None and kept[1] is None


def _followed(relation: Relation, through: Through, links: tuple[pa.DataType, ...], shown: dict[str, pa.DataType]) -> Followed:
    """A history that goes on."""
    given, _ = history_at(relation.source) or ("", None)
    folder = local_path(given)
    if folder is None:
        raise PenstockError(
            f"source of relation {through.name} must be a history on a file system that all workers share, where streams are joined "
            f"through it, got {relation.source!r}: name a version of it, history:FOLDER@12"
        )
    for meaning in ("begin", "end"):
        if getattr(relation, meaning) not in (None, meaning):
            raise PenstockError(
                f"{meaning} of relation {through.name} must be left out, as its history has it, got {getattr(relation, meaning)!r}"
            )
    late = length(EVENT_TIME, relation.lateness, f"lateness of relation {through.name}")
    return Followed(folder, relation, through, links, tuple(shown.items()), History(folder).version().number, late)


def shown_fields(relation: Relation, table: pa.Table, through: Through) -> list[T.StructField]:
    """What the joined row shows of a relation."""
    return [T.StructField(f"{through.name}_{name}", _kind(table, name, through)) for name in relation.columns]


def fact_types(
    relation: Relation, table: pa.Table, through: Through, frames: Sequence[DataFrame], shown: Sequence[T.StructField]
) -> tuple[tuple[pa.DataType, ...], dict[str, pa.DataType]]:
    """The types of the facts of a relation that links some frames: of what links compare, and of what rows show, by its name there."""
    check_facts(relation, through, table)
    linked = tuple(_linked(table, through, number, frames) for number in range(len(through.links)))
    return linked, {field.name: arrow_type(field.dataType) for field in shown}


def _linked(table: pa.Table, through: Through, number: int, frames: Sequence[DataFrame]) -> pa.DataType:
    """The type of the stream's column that an attribute is compared with."""
    link = through.links[number]
    frame = frames[link.stream]
    check_columns(f"links of relation {through.name}", [link.column], tuple(frame.columns))
    own, other = frame.schema[link.column].dataType, _kind(table, link.attribute, through)
    text = f"link {link.column} = {link.attribute} of relation {through.name}"
    trouble = unfit(own)
    if trouble is not None:
        raise PenstockError(f"{text} {trouble[0]}, got {own.simpleString()}{trouble[1]}")
    for wide, kinds in ((pa.int64(), _WHOLE), (pa.float64(), _FRACTION), (None, type(own))):
        if isinstance(own, kinds) and isinstance(other, kinds) and (wide is not None or own.simpleString() == other.simpleString()):
            return wide or arrow_type(own)
    raise PenstockError(
        f"{text} must compare columns of one type, got {own.simpleString()} and {other.simpleString()}; cast one of them"
    )  # fmt: skip


def _kind(table: pa.Table, name: str, through: Through) -> T.DataType:
    """The type that a column of a relation has on Spark."""
    if name not in table.column_names:
        raise PenstockError(f"relation {through.name} must have the column {name!r}, it has: {', '.join(table.column_names)}")
    kind = table.schema.field(name).type
    try:
        return from_arrow_type(kind.value_type if pa.types.is_dictionary(kind) else kind, prefer_timestamp_ntz=True)
    except Exception as error:
        raise PenstockError(f"column {name!r} of relation {through.name} must be of a type that Spark has, got {kind}: {error}") from None
