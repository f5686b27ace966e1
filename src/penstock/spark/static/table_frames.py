"""Tables in files as DataFrames: Parquet, CSV (header; empty = null) or JSON Lines, by suffix."""

from __future__ import annotations

from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from penstock.core.errors import PenstockError
from penstock.core.tables import check_suffix


def check_file(path: Path) -> None:
    """Refuse what `read_frame` could not read, before Spark starts, which takes a while."""
    if path.is_dir():  # of files that Spark wrote
        return
    check_suffix(path, "the file to read")
    if not path.is_file():
        raise PenstockError(f"there is no file {str(path)!r}")


def read_frame(spark: SparkSession, path: Path) -> DataFrame:
    """A table as a DataFrame; a folder is one of Parquet files. Every failure is one sentence."""
    check_file(path)
    suffix = ".parquet" if path.is_dir() else path.suffix.lower()
    where = str(path.resolve())
    try:
        if suffix == ".parquet":
            return spark.read.parquet(where)
        if suffix == ".csv":
            return spark.read.csv(where, header=True, inferSchema=True)
        return spark.read.json(where)
    except PySparkException as error:
        reason = str(error).strip().splitlines()[0]
        raise PenstockError(f"{str(path)!r} is not a readable {suffix[1:]} table: {reason}") from None


def write_frame(frame: DataFrame, folder: Path) -> None:
    """Write a DataFrame to a new folder, as Parquet."""
    try:
        frame.write.parquet(str(folder.resolve()))
    except PySparkException as error:
        raise PenstockError(f"cannot write {str(folder)!r}: {str(error).strip().splitlines()[0]}") from None
