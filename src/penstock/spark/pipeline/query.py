"""A checked pipeline file as a running query: sources, streams, join, sink."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from penstock.core.errors import PenstockError
from penstock.core.rates import read_rates
from penstock.ledger.store import local_path
from penstock.pipeline.recipe import Recipe, generator_arguments
from penstock.relation.addresses import is_address
from penstock.relation.relation import Relation, relation
from penstock.shard.stream_window import window_text
from penstock.spark.join.join import join, stream
from penstock.spark.session.first_line import first_line
from penstock.spark.session.presence import GENERATOR, too_old
from penstock.spark.session.quiet import unlogged
from penstock.spark.session.session import start_session


def open_session(recipe: Recipe) -> SparkSession:
    """The Spark session of a pipeline; one that is already there is used as it is."""
    settings = {"spark.log.level": recipe.spark["log_level"], "spark.sql.session.timeZone": "UTC"} | recipe.spark["settings"]
    with _about(recipe, "spark"):
        return start_session(f"penstock {Path(recipe.file).name}", settings, master=recipe.spark["master"] or None)


def build(recipe: Recipe, spark: SparkSession) -> DataFrame:
    """The joined stream of a pipeline, not yet running."""
    frames = {}
    for name, source in recipe.sources.items():
        with _about(recipe, f"sources.{name}"):
            frames[name] = SOURCES[source["kind"]](spark, source)
    sides = {}
    for name, said in recipe.streams.items():
        frame = frames[said["source"]]
        with _about(recipe, f"streams.{name}.where"):
            frame = frame.where(said["where"]) if said["where"] else frame
        with _about(recipe, f"streams.{name}.select"):
            frame = frame.selectExpr(*said["select"]) if said["select"] else frame
        kept = ("key", "importance", "order", "columns", "rows_per_key", "matches", "lifetime")
        options = {option: said[option] for option in kept if said[option] is not None}
        lengths: dict[str, Any] = {option: window_text(said[option]) for option in ("window", "lateness") if said[option] is not None}
        with _about(recipe, f"streams.{name}", joint="."):
            sides[name] = stream(frame, time=said["time"], **lengths, **options)
    with _about(recipe, "join", joint="."):
        options = {option: value for option, value in recipe.join.items() if value is not None}
        if "through" in options:
            options["through"] = [_relation(name, recipe.relations[name]) for name in options["through"]]
        if "given" in options:
            key = recipe.join["on"] or next(iter(recipe.streams.values()))["key"]
            options["given"] = read_rates(Path(_place(options["given"])), key, argument="given")
        return join(sides, **options | {name: _place(options[name]) for name in ("archive", "shared") if options.get(name)})


def start(recipe: Recipe, joined: DataFrame) -> StreamingQuery:
    """Start the query of a pipeline."""
    sink = recipe.sink
    writer = joined.writeStream.outputMode("append").queryName(sink.get("table") or recipe.join["name"])
    if sink["checkpoint"]:
        writer = writer.option("checkpointLocation", _place(sink["checkpoint"]))
    if sink["trigger"]:
        writer = writer.trigger(**sink["trigger"])
    with _about(recipe, "sink"):
        return SINKS[sink["kind"]](writer, sink).start()


@contextmanager
def _about(recipe: Recipe, key: str, *, joint: str = ": ") -> Iterator[None]:
    """Name the file and the key in whatever goes wrong in here."""
    try:
        with unlogged():
            yield
    except PenstockError as error:
        raise PenstockError(f"{recipe.file}: {key}{joint}{error}") from error
    except PySparkException as error:
        raise PenstockError(f"{recipe.file}: {key}: {first_line(error)}") from error


def _place(path: str) -> str:
    """A path seen from where we run, as Spark's processes may run elsewhere; a URI as it is."""
    local = local_path(path)
    return path if local is None or path.lower().startswith("file:") else local


def _relation(name: str, said: Mapping[str, Any]) -> Relation:
    """A relation of a pipeline."""
    source = said["source"]
    place = source if is_address(source) else _place(source)
    return relation(**{**said, "source": place, "name": name, "lateness": window_text(said["lateness"])})


def _files(spark: SparkSession, source: Mapping[str, Any]) -> DataFrame:
    """A folder of files, read as they appear."""
    kind, path, options = source["kind"], _place(source["path"]), source["options"]
    # A stream must know its columns before it reads; without a schema, it is read from the files that are there.
    schema = source["schema"] or spark.read.format(kind).options(**options).load(path).schema
    reader = spark.readStream.format(kind).options(**options).schema(schema)
    if source["files_per_batch"]:
        reader = reader.option("maxFilesPerTrigger", source["files_per_batch"])
    return reader.load(path)


def _generator(spark: SparkSession, source: Mapping[str, Any]) -> DataFrame:
    """The built-in generator: rows of all its streams, with the column `stream`."""
    lacking = too_old("kind 'generator'", GENERATOR)
    if lacking:
        raise PenstockError(f"{lacking}; use files, or Spark's 'rate'")

    from penstock.spark.pipeline import generator_source as generator

    generator.register(spark)
    settings = {"arguments": generator_arguments(source), "length": source["tick"]}
    settings |= {name: source[name] for name in ("ticks", "start", "ticks_per_batch", "rows_per_second")}
    return spark.readStream.format(generator.NAME).options(**generator.generator_options(settings)).load()


def _rate(spark: SparkSession, source: Mapping[str, Any]) -> DataFrame:
    """Spark's rate source: `timestamp` and a rising `value`."""
    reader = spark.readStream.format("rate").options(**source["options"]).option("rowsPerSecond", source["rows_per_second"])
    return (reader.option("numPartitions", source["partitions"]) if source["partitions"] else reader).load()


def _to_files(writer: DataStreamWriter, sink: Mapping[str, Any]) -> DataStreamWriter:
    writer = writer.format(sink["kind"]).options(**sink["options"]).option("path", _place(sink["path"]))
    return writer.partitionBy(*sink["partition_by"]) if sink["partition_by"] else writer


def _to_console(writer: DataStreamWriter, sink: Mapping[str, Any]) -> DataStreamWriter:
    return writer.format("console").option("numRows", sink["show"]).options(**sink["options"])


def _to_memory(writer: DataStreamWriter, sink: Mapping[str, Any]) -> DataStreamWriter:
    return writer.format("memory")


SOURCES: Mapping[str, Callable[[SparkSession, Mapping[str, Any]], DataFrame]] = {
    "parquet": _files, "json": _files, "csv": _files, "generator": _generator, "rate": _rate,
}  # fmt: skip
SINKS: Mapping[str, Callable[[DataStreamWriter, Mapping[str, Any]], DataStreamWriter]] = {
    "parquet": _to_files, "json": _to_files, "csv": _to_files, "console": _to_console, "memory": _to_memory,
}  # fmt: skip
