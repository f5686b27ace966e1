"""`stats="given"` on Spark: a user's table of rates, from the driver to the shards, where keys have numbers of their own."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.errors import PenstockError
from penstock.core.problem import Problem
from penstock.core.trace import Floats
from penstock.shard.keys import KeyBook
from penstock.statistics.known_beforehand import KnownRates, checked_rate

GIVEN = "given"
"""The setting by which a state knows the table that it was made with."""
_WHAT = "given must be a table of rates such as {(stream, key): rate}, a key of several columns as a tuple"


def read_given(given: Any, streams: Sequence[str], kinds: Sequence[pa.DataType]) -> pa.Table:
    """A table with a row for each key: its columns, key0, key1, ..., and its rate in each stream, rate0, rate1, ...

    >>> read_given({("l", "a"): 2, ("r", "a"): 0.5, ("r", "b"): 1}, ("l", "r"), [pa.string()]).to_pylist()
    [{'key0': 'a', 'rate0': 2.0, 'rate1': 0.5}, {'key0': 'b', 'rate0': 0.0, 'rate1': 1.0}]
    """
    if not isinstance(given, Mapping) or not all(isinstance(place, tuple) and len(place) == 2 for place in given):
        raise PenstockError(f"{_WHAT}, got {given!r:.80}")
    rates: dict[tuple[Any, ...], Floats] = {}
    for (stream, key), rate in given.items():
        checked = checked_rate(streams, stream, key, rate)
        place = key if isinstance(key, tuple) else (key,)
        if len(place) != len(kinds):
            raise PenstockError(f"{_WHAT}; keys have {len(kinds)} columns here, got {key!r}")
        rates.setdefault(place, np.zeros(len(streams)))[list(streams).index(stream)] = checked
    keys = sorted(rates, key=repr)
    columns = {f"key{number}": _column([key[number] for key in keys], kind) for number, kind in enumerate(kinds)}
    found = np.array([rates[key] for key in keys], dtype=np.float64).reshape(-1, len(streams))
    return pa.table(columns | {f"rate{number}": pa.array(column) for number, column in enumerate(found.T)})


def _column(values: list[Any], kind: pa.DataType) -> pa.Array:
    try:
        return pa.array(values).cast(kind) if values else pa.array([], kind)
    except pa.ArrowException:
        raise PenstockError(f"{_WHAT}; keys are of type {kind} here, got {values[0]!r}") from None


def mark_of(table: pa.Table) -> str:
    """What a state keeps of a table, so that it goes on with no other.

    >>> mark_of(read_given({("l", "a"): 2}, ("l", "r"), [pa.string()]))
    '1 keys, 09916e2b'
    """
    digest = hashlib.sha256("\n".join(map(repr, table.to_pylist())).encode()).hexdigest()
    return f"{table.num_rows} keys, {digest[:8]}"


def source_of(table: pa.Table | None, problem: Problem) -> KnownRates:
    """The rates by the numbers that keys have in every shard; none where only the state is at hand, as for `penstock reshard`."""
    n = problem.n_streams
    if table is None or not table.num_rows:
        return KnownRates(np.empty(0, np.int64), np.empty((0, n)))
    number = KeyBook(lasting=True).numbers([table[f"key{at}"] for at in range(table.num_columns - n)])
    return KnownRates(number, np.column_stack([table[f"rate{at}"].to_numpy() for at in range(n)]))
