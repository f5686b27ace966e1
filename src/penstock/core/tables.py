"""Tables in files: Parquet, CSV (header; empty = null) or JSON Lines, by suffix."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet

from penstock.core.errors import PenstockError

SUFFIXES = (".parquet", ".csv", ".jsonl", ".json")


def read_table(path: Path) -> pa.Table:
    """Read a flat table from a file, by its suffix; every failure is one sentence."""
    suffix = check_suffix(path, "the file to read")
    if path.is_dir():
        raise PenstockError(f"{str(path)!r} is a folder, not a file; name one file")
    if not path.is_file():
        raise PenstockError(f"there is no file {str(path)!r}")
    try:
        if suffix == ".parquet":
            return pyarrow.parquet.ParquetFile(path).read()  # read_table would import pandas, for a second
        if suffix == ".csv":
            options = pyarrow.csv.ConvertOptions(strings_can_be_null=True, null_values=[""], quoted_strings_can_be_null=False)
            return pyarrow.csv.read_csv(path, convert_options=options)
        return pyarrow.json.read_json(path)
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise PenstockError(f"{str(path)!r} is not a readable {suffix[1:]} table: {reason}") from None


def write_table(table: pa.Table, path: Path) -> None:
    """Write a table to a file, by its suffix. Lists become space-separated text in CSV."""
    suffix = check_suffix(path, "the file to write")
    if not path.parent.is_dir():
        raise PenstockError(f"cannot write {str(path)!r}: there is no folder {str(path.parent)!r}")
    if suffix == ".parquet":
        pyarrow.parquet.write_table(table, path, compression="zstd")
    elif suffix == ".csv":
        for number, field in enumerate(table.schema):
            if pa.types.is_list(field.type):
                texts = [" ".join(map(str, items)) for items in table[field.name].to_pylist()]
                table = table.set_column(number, field.name, pa.array(texts, pa.string()))
        pyarrow.csv.write_csv(table, path, pyarrow.csv.WriteOptions(quoting_style="needed"))
    else:
        with path.open("w") as file:
            for batch in table.to_batches(max_chunksize=65536):
                for row in batch.to_pylist():
                    file.write(json.dumps(row, default=str) + "\n")


def check_suffix(path: Path, what: str) -> str:
    """The suffix of `path` if a table can be kept in such a file."""
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise PenstockError(f"{what} must end in {', '.join(SUFFIXES)}, got {str(path)!r}")
    return suffix
