"""The values that a link of a relation has, each with a number: 0, 1, 2, ... as they come first.

A row of a stream finds its number here, before it travels; one with another value is linked by nothing. So shards compare numbers, and
equal numbers mean equal values: a hash only says where to look.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.compiled import kernel
from penstock.core.trace import Ints
from penstock.shard.keys import as_bytes, hashed, plain

NONE = -1
"""The number of a null, and of a value that no fact has."""
_PRIME = (1 << 31) - 1
_FACTOR = 1_583_458_089


class Values:
    """The different values of a column, none of them null.

    >>> zones = Values(pa.array(["b", "a"]))
    >>> zones.numbers(pa.array(["a", "c", None, "b"])).tolist()
    [1, -1, -1, 0]
    """

    def __init__(self, distinct: pa.Array) -> None:
        column = plain(distinct)
        self.names = None if pa.types.is_integer(column.type) else as_bytes(column)
        self.hashes = self._hashes(column)
        self.table = np.full(1 << (2 * len(self.hashes)).bit_length(), NONE)
        self.strays = np.empty(len(self.hashes), np.int64)  # names whose hash another has
        self.strays = self.strays[: _enter(self.table, self.hashes, self.strays)]

    def __len__(self) -> int:
        return len(self.hashes)

    def _hashes(self, column: pa.Array) -> Ints:
        if self.names is None:
            return np.asarray(column.cast(pa.int64()))
        return hashed(as_bytes(column))

    def numbers(self, column: Any) -> Ints:
        """The number of each row; `NONE` where it has none."""
        column = plain(column)
        out = np.full(len(column), NONE)
        if self.names is None:
            there = np.asarray(column.is_valid())
            _find(self.table, self.hashes, self._hashes(column.fill_null(0)), out)
            out[~there] = NONE
            return out
        code = column.dictionary_encode()
        found = np.append(self._of_names(as_bytes(code.dictionary)), NONE)
        return found[np.asarray(code.indices.fill_null(len(found) - 1))]

    def _of_names(self, names: pa.Array) -> Ints:
        """The numbers of different names."""
        assert self.names is not None
        out = np.full(len(names), NONE)
        _find(self.table, self.hashes, hashed(names), out)
        at = np.flatnonzero(out >= 0)
        same = np.asarray(pc.equal(names.take(pa.array(at)), self.names.take(pa.array(out[at]))))
        out[at[~same]] = NONE
        if len(self.strays):
            found = pc.index_in(names, value_set=self.names.take(pa.array(self.strays)))
            there = np.asarray(found.is_valid())
            out[there] = self.strays[np.asarray(found.drop_null())]
        return out


def numbered(column: Any) -> tuple[pa.Array, Ints]:
    """The different values of a column without nulls, as they come first, and the number of each row.

    >>> values, numbers = numbered(pa.array(["b", "a", "b"]))
    >>> values.to_pylist(), numbers.tolist()
    (['b', 'a'], [0, 1, 0])
    """
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    code = plain(column).dictionary_encode()
    number = np.asarray(code.indices).astype(np.int64)
    _, first = np.unique(number, return_index=True)
    return column.take(pa.array(first)), number


@kernel
def _slot(hash_: int, mask: int) -> int:
    """Where to look first."""
    mixed = ((hash_ % _PRIME) ^ (hash_ >> 31) % _PRIME) * _FACTOR % _PRIME
    return (mixed ^ (mixed >> 15)) & mask


@kernel
def _enter(table: Ints, hashes: Ints, strays: Ints) -> int:
    """Put every hash into a table of more than twice as many places; those that are there already are strays. How many these are."""
    mask, n_strays = len(table) - 1, 0
    for number in range(len(hashes)):
        at = _slot(hashes[number], mask)
        while table[at] >= 0 and hashes[table[at]] != hashes[number]:
            at = (at + 1) & mask
        if table[at] >= 0:
            strays[n_strays] = number
            n_strays += 1
        else:
            table[at] = number
    return n_strays


@kernel
def _find(table: Ints, hashes: Ints, wanted: Ints, out: Ints) -> None:
    """The number that has each of the wanted hashes, where there is one."""
    mask = len(table) - 1
    for row in range(len(wanted)):
        at = _slot(wanted[row], mask)
        while table[at] >= 0 and hashes[table[at]] != wanted[row]:
            at = (at + 1) & mask
        out[row] = table[at]
