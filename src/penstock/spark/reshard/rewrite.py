"""Rewrite the state of a stopped query: read all rows, let a function change them, and leave a checkpoint that has exactly the new rows.

Spark's own classes do the work (those of its offline repartitioning, `StateRewriter`), so whatever version writes the state can read it:

    checkpoint  -- rows of the last committed batch -->  transform  --> new rows --\
    checkpoint  -- logs and schemas, as they are ------------------------------------+-->  staged copy
    at last: copy checkpoint to backup, state of the staged copy to checkpoint (swap.py)

The new state takes the place of the old one *at the same batch*. So the logs of offsets and commits stay as they are: no batch is added,
and one that was planned but not committed is planned still. Until the new state is whole nothing in the checkpoint is touched.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from penstock.core.errors import PenstockError
from penstock.spark.reshard.checkpoint import Checkpoint
from penstock.spark.reshard.swap import Swap, abandon, begin, carry_out, draft_of, prepared, unfinished
from penstock.spark.reshard.unsafe_row import Row, decode, encode
from penstock.spark.session.java import Java
from penstock.spark.session.presence import too_old

StateRows = dict[str, list[tuple[Row, Row | None, Row]]]
"""By name of the state variable: grouping key, key of the map (None in a variable of one value), value."""

_LEAST = (4, 2)
"""The first version of Spark that has a StateRewriter."""
_FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"
_STATE = "org.apache.spark.sql.execution.streaming.state"
_ROWS = "rows-to-write"
_Stored = tuple[Row, bytes, bytes, str]
_Schemas = tuple[T.StructType, T.StructType | None, T.StructType]  # grouping key, key of the map, value
_CHUNK = 64 << 20  # bytes that are handed to Spark together


def rewrite_state(
    spark: SparkSession,
    checkpoint: str,
    transform: Callable[[StateRows], StateRows],
    *,
    operator: int | None = None,
    variables: Sequence[str] = (),
    purpose: str | None = None,
) -> str:
    """Replace the state of a stopped query's `transformWithState` by what `transform` makes of it; return where the old checkpoint is now.

    `transform` gets the rows of the last committed batch and returns the new rows; keys and values are
    tuples, as a stateful processor has them. It runs on the driver, which must have the memory for all of them. `operator` chooses among
    several such operators, or `variables` does: the only one with these state variables.
    Whatever fails, the checkpoint is still the old one; what was interrupted while the new state took its place is completed by the next
    call, which does no more than that if it has the same `purpose`.

    ```python
    rewrite_state(spark, "checkpoint", lambda rows: {name: [((7,), at, value) for _, at, value in kept] for name, kept in rows.items()})
    ```
    """
    lacking = too_old("rewriting the state of a query, as penstock reshard does,", _LEAST)
    if lacking:
        raise PenstockError(f"{lacking}; nothing was changed")
    if not hasattr(spark, "_jsparkSession"):
        raise PenstockError("spark must be a classic session, got one of Spark Connect, which does not reach the state")
    files = Checkpoint(spark, checkpoint)
    _let_go(spark)
    left = unfinished(files)
    if left is not None:
        backup = carry_out(files, left)
        if purpose is not None and left.purpose == purpose:
            return backup
    batch, staged = files.last_committed(), draft_of(files)
    commit = files.read(f"commits/{batch}")
    with _format_of(spark, commit):
        target = _target(spark, files.root, batch, operator, set(variables))
        try:
            backup = begin(files, batch, target.operator)
            wanted = _encoded(transform(_decoded(spark, files.root, target)), target)
            ids = _write(spark, files, staged, target, wanted)
            if ids:
                commit = _with_ids(commit, ids)
                files.write(f"{staged}/commits/{batch}", commit)
            _check(spark, staged, target, wanted)
            swap = prepared(files, Swap(batch, target.operator, commit, backup, purpose))
        except BaseException:
            abandon(files)
            raise
    return carry_out(files, swap)


@dataclass(frozen=True)
class _Target:
    """The state that is rewritten: one operator at one batch."""

    batch: int
    operator: int
    partitions: int
    place: int  # among the stores of the checkpoint, in the order in which Spark visits them
    variables: dict[str, _Schemas]
    stored: T.StructType


def _target(spark: SparkSession, root: str, batch: int, operator: int | None, wanted: set[str]) -> _Target:
    stores = spark.read.format("state-metadata").option("batchId", batch).load(root).collect()
    ours = [row["operatorId"] for row in stores if str(row["operatorName"]).startswith("transformWithState")]
    if wanted:
        found = {row["operatorId"]: json.loads(row["operatorProperties"])["stateVariables"] for row in stores if row["operatorId"] in ours}
        ours = [number for number, kinds in found.items() if {kind["stateName"] for kind in kinds} == wanted]
    if operator is None and len(ours) == 1:
        operator = ours[0]
    if operator is None or operator not in ours:
        raise PenstockError(f"operator must be one of the stateful processors {ours} of {root}, got {operator!r}")
    place = next(number for number, row in enumerate(stores) if row["operatorId"] == operator)
    kinds = {one["stateName"]: one for one in json.loads(stores[place]["operatorProperties"])["stateVariables"]}
    variables: dict[str, _Schemas] = {}
    for name, kind in kinds.items():
        if kind["stateVariableType"] not in ("ValueState", "MapState") or kind["ttlEnabled"]:
            raise PenstockError(f"state must be values and maps without time to live, got {name!r}: {kind['stateVariableType']}")
        schema = _reader(spark, root, batch, operator).option("stateVarName", name).load().schema
        parts = {field.name: field.dataType for field in schema if isinstance(field.dataType, T.StructType)}
        variables[name] = parts["key"], parts.get("user_map_key"), parts["value" if "value" in parts else "user_map_value"]
    stored = _all_rows(spark, root, batch, operator).schema
    return _Target(batch, operator, int(stores[place]["numPartitions"]), place, variables, stored)


def _reader(spark: SparkSession, root: str, batch: int, operator: int) -> DataFrameReader:
    return spark.read.format("statestore").option("batchId", batch).option("operatorId", operator).option("path", root)


def _all_rows(spark: SparkSession, root: str, batch: int, operator: int) -> DataFrame:
    """The rows of all variables, in their binary form: partition_key, key_bytes, value_bytes, column_family_name."""
    return _reader(spark, root, batch, operator).option("_readAllColumnFamilies", "true").load()


def _decoded(spark: SparkSession, root: str, target: _Target) -> StateRows:
    found: StateRows = {name: [] for name in target.variables}
    for _, stored_key, stored_value, name in _all_rows(spark, root, target.batch, target.operator).toLocalIterator():
        if name not in found:
            raise PenstockError(f"state must be values and maps, got rows of {name!r}: timers and the like cannot be rewritten")
        key, at, value = target.variables[name]
        row = decode(bytes(stored_value), value)
        keys = decode(bytes(stored_key), _key_schema(key, at))
        if encode(row, value) != stored_value or encode(keys, _key_schema(key, at)) != stored_key:
            raise PenstockError(f"state must be in Spark's binary form, got other rows in {name!r}: this version of Spark is not supported")
        found[name].append((keys, None, row) if at is None else (keys[0], keys[1], row))
    return found


def _encoded(rows: StateRows, target: _Target) -> list[_Stored]:
    unknown = sorted(set(rows) - set(target.variables))
    if unknown:
        raise PenstockError(f"transform must return rows of {', '.join(target.variables)}, got {', '.join(unknown)}")
    out: list[_Stored] = []
    for name, new in rows.items():
        key, at, value = target.variables[name]
        for group, inner, row in new:
            if (inner is None) != (at is None):
                raise PenstockError(f"transform must return {'no' if at is None else 'a'} map key in rows of {name!r}, got {inner!r}")
            out.append((group, encode(group if at is None else (group, inner), _key_schema(key, at)), encode(row, value), name))
    if len({(key, name) for _, key, _, name in out}) < len(out):
        twice = Counter((name, group) for group, _, _, name in out).most_common(1)[0][0]
        raise PenstockError(f"transform must return each key once, got some twice, such as in {twice[0]!r} of {twice[1]!r}")
    if not out:
        raise PenstockError("transform must return some rows, got none: to start from nothing, delete the checkpoint")
    return out


def _key_schema(key: T.StructType, at: T.StructType | None) -> T.StructType:
    return key if at is None else T.StructType().add("key", key).add("userKey", at)


def _write(spark: SparkSession, files: Checkpoint, staged: str, target: _Target, rows: list[_Stored]) -> dict[str, Any]:
    """Write the rows as the state of the batch, and return the ids of the stores where the checkpoint's format has them."""
    size, chunk = 0, []
    for number, row in enumerate(rows, 1):
        chunk.append(row)
        size += len(row[1]) + len(row[2])
        if size >= _CHUNK or number == len(rows):  # through files, since the JVM of the driver may be small
            spark.createDataFrame(chunk, target.stored).write.mode("append").parquet(f"{staged}/{_ROWS}")
            size, chunk = 0, []
    new = spark.read.parquet(f"{staged}/{_ROWS}").repartition(target.partitions, "partition_key")
    jvm: Java = spark._jvm
    option = jvm.scala.Option
    ensure_callback_server_started(spark.sparkContext._gateway)  # type: ignore[no-untyped-call]
    swap = _Swap(spark, target.place, new)
    rewriter = getattr(jvm, f"{_STATE}.StateRewriter")(
        spark._jsparkSession, target.batch, target.batch, staged, files.conf, option.apply(files.root), option.apply(swap), option.empty()
    )
    ids = rewriter.run()
    if ids.isEmpty():
        return {}
    by_operator = jvm.scala.jdk.javaapi.CollectionConverters.asJava(ids.get())
    return {str(one): [[str(store) for store in stores] for stores in by_operator[one]] for one in by_operator}


class _Swap:
    """The function that Spark asks for the new rows of each store: ours at one place, the old ones elsewhere."""

    def __init__(self, spark: SparkSession, place: int, new: DataFrame) -> None:
        self.spark, self.place, self.new, self.calls = spark, place, new, 0

    def apply(self, old: Java) -> Java:
        """New rows, under exactly the schema of the old ones."""
        self.calls += 1
        if self.calls - 1 != self.place:
            return old
        return self.spark._jsparkSession.createDataFrame(self.new._jdf.toJavaRDD(), old.schema())

    class Java:
        """What Py4J has to know."""

        implements = ("scala.Function1",)


def _check(spark: SparkSession, staged: str, target: _Target, wanted: list[_Stored]) -> None:
    """The staged state has exactly the wanted rows, each in the partition where the query will look for it."""
    home = F.pmod(F.hash("partition_key"), F.lit(target.partitions)) == F.spark_partition_id()
    found = _all_rows(spark, staged, target.batch, target.operator)
    found = found.select("column_family_name", "key_bytes", F.sha2("value_bytes", 256), home)
    got = Counter((name, bytes(key), digest, at_home) for name, key, digest, at_home in found.toLocalIterator())
    if got != Counter((name, key, hashlib.sha256(value).hexdigest(), True) for _, key, value, name in wanted):
        raise PenstockError("the state that was written is not what was wanted: this version of Spark is not supported")


def _let_go(spark: SparkSession) -> None:
    """Close what an earlier run in this session still has open: Spark would put its last snapshot over ours, minutes later."""
    active = [query.name or str(query.id) for query in spark.streams.active]
    if active:
        raise PenstockError(f"spark must run no query while state is rewritten, got {', '.join(active)}: stop it, or use another session")
    getattr(spark._jvm, f"{_STATE}.StateStore").stop()


@contextmanager
def _format_of(spark: SparkSession, commit: str) -> Iterator[None]:
    """The session's format of checkpoints is that of the query, which its logs do not record."""
    before = spark.conf.get(_FORMAT)
    spark.conf.set(_FORMAT, "2" if json.loads(commit.splitlines()[1]).get("stateUniqueIds") else "1")
    try:
        yield
    finally:
        spark.conf.set(_FORMAT, str(before))


def _with_ids(commit: str, ids: dict[str, Any]) -> str:
    version, body, *rest = commit.split("\n")
    return "\n".join([version, json.dumps(json.loads(body) | {"stateUniqueIds": ids}, separators=(",", ":")), *rest])
