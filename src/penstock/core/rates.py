"""A table of rates in a file, for `stats="given"`: how often keys come in each stream."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.core.errors import PenstockError
from penstock.core.tables import read_table

Rates = dict[tuple[str, Any], float]
"""By stream and key; a key of several columns is a tuple."""


def read_rates(path: Path, key: Sequence[str], kinds: Sequence[pa.DataType] | None = None, argument: str = "--rates") -> Rates:
    """The rates in a file with the columns `stream`, those of the key and `rate`; keys of these types, or as they are.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder) / "rates.csv"
    ...     _ = file.write_text("stream,user,rate\\nclick,a,2\\nview,a,0.5\\n")
    ...     read_rates(file, ["user"])
    {('click', 'a'): 2.0, ('view', 'a'): 0.5}
    """
    table = read_table(path)
    wanted = ("stream", *key, "rate")
    missing = [name for name in wanted if name not in table.column_names]
    if missing:
        raise PenstockError(f"{argument} needs the columns {', '.join(wanted)}; {str(path)!r} lacks {', '.join(missing)}")
    columns = []
    for name, kind in zip(wanted, [pa.string(), *(kinds or [table[name].type for name in key]), pa.float64()], strict=True):
        got = table[name]
        if got.null_count:
            raise PenstockError(f"{argument} must have no nulls, column {name!r} of {str(path)!r} has one")
        try:
            columns.append(got.cast(kind).to_pylist())
        except pa.ArrowException:
            raise PenstockError(f"{argument} needs {name!r} as {kind}, got {got.type} in {str(path)!r}") from None
    rates: Rates = {}
    for stream, *own, rate in zip(*columns, strict=True):
        place = (stream, tuple(own) if len(own) > 1 else own[0])
        if place in rates:
            raise PenstockError(f"{argument} must have one rate per stream and key, got two for {stream} {place[1]!r}")
        rates[place] = rate
    return rates
