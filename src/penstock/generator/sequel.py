"""Streams that change their character: one trace, and then another."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.core.errors import PenstockError
from penstock.core.trace import Trace, whole_numbers


def followed(first: Trace, second: Trace) -> Trace:
    """The rows of the first trace, and those of the second from the next tick on, with keys that the first has not.

    >>> rising = Trace.from_streams(R=[1, 2], S=[1, 2])
    >>> both = followed(rising, rising).table
    >>> both["time"].to_pylist(), both["key"].to_pylist()
    ([0, 0, 1, 1, 2, 2, 3, 3], [1, 1, 2, 2, 4, 4, 5, 5])
    """
    check_first(first, second.streams)
    begun, rest = first.table, second.table
    if set(begun.column_names) != set(rest.column_names):
        raise PenstockError(
            f"after must be a trace with the columns {', '.join(rest.column_names)}, as what follows, got {', '.join(begun.column_names)}"
        )
    time, key = second.time, np.asarray(rest["key"])
    columns = {
        "time": pa.array(time - min(0, int(time.min())) + int(first.time.max()) + 1),
        "key": pa.array(key - min(0, int(key.min())) + max(0, int(whole_numbers(begun["key"], "the key of after").max()) + 1)),
    }
    for name, column in columns.items():
        rest = rest.set_column(rest.column_names.index(name), name, column)
    return Trace(pa.concat_tables([begun, rest.select(begun.column_names).cast(begun.schema)]), streams=first.streams)


def check_first(first: object, streams: tuple[str, ...]) -> None:
    """Refuse what cannot be followed, before anything is drawn."""
    if not isinstance(first, Trace):
        raise PenstockError(f"after must be a trace, such as ps.generate(1000), got {first!r}")
    if first.timestamps:
        raise PenstockError("after must be a trace whose times are whole numbers of ticks, got timestamps")
    if first.key_columns != ("key",) or not pa.types.is_integer(first.table["key"].type) or first.table["key"].null_count:
        raise PenstockError("after must be a trace with whole numbers in the column key, got another one")
    if first.streams != streams:
        raise PenstockError(f"streams must be those of after, {first.streams!r}, got {streams!r}")
