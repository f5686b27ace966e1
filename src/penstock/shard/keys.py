"""Key columns of any type -> one whole number per row, equal exactly where Spark calls the keys equal.

No hash decides equality: it only says which shard a row goes to, so a collision of hashes cannot join what does not match. Whole
numbers stand for themselves; whatever else is a key gets an odd number, and loses it when nothing refers to it any more.

In a *lasting* book that number comes from the bytes of the key, and the key has the same when it comes back: counts by number then need
no names. Two names whose hashes are the same still get different numbers while both are known.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.compiled import kernel
from penstock.core.errors import PenstockError
from penstock.core.trace import Ints

_DIRECT = 1 << 61
LASTING = 1 << 60
"""From here on, odd numbers come from the bytes of a key."""
_PRIME = (1 << 31) - 1
_FACTORS = (1_583_458_089, 784_588_716)  # primitive enough: a polynomial of the bytes by each, modulo the prime
_FEW = 1024
NOBODY = -1
"""The number of a key with a null in it, which matches nothing."""


class KeyBook:
    """The numbers of the keys that one shard knows.

    >>> book = KeyBook()
    >>> book.numbers([pa.array(["a", None, "b", "a"])]).tolist()
    [1, -1, 3, 1]
    >>> book.numbers([pa.array([7, -7, 7])]).tolist()
    [14, 5, 14]
    >>> book = KeyBook(lasting=True)
    >>> first = book.numbers([pa.array(["a", "b"])]).tolist()
    >>> book.prune(np.array(first[1:])), book.numbers([pa.array(["b", "a"])]).tolist() == first[::-1]
    (None, True)
    """

    def __init__(self, *, lasting: bool = False) -> None:
        self.lasting = lasting
        self.names = pa.array([], pa.large_binary())
        self.number = np.empty(0, dtype=np.int64)  # of each name
        self.next = 1
        self.calm = _FEW  # names up to which nobody looks for those without use

    def numbers(self, columns: Sequence[pa.Array]) -> Ints:
        """One number per row; -1 where a column is null."""
        columns = [plain(column) for column in columns]
        null = np.zeros(len(columns[0]), dtype=bool)
        for column in columns:
            if column.null_count:
                null |= np.asarray(column.is_null())
        if len(columns) == 1 and pa.types.is_integer(columns[0].type):
            value = np.asarray(columns[0].fill_null(0)).astype(np.int64, copy=False)
            out = value * 2
            rare = (value < 0) | (value >= _DIRECT)
            if rare.any():
                distinct, which = np.unique(value[rare], return_inverse=True)
                out[rare] = self.look_up(pa.array([v.tobytes() for v in distinct], pa.large_binary()))[which]
        else:
            out = np.empty(len(null), dtype=np.int64)
            if null.any():
                there = pa.array(~null)
                columns = [column.filter(there) for column in columns]
            out[~null] = self._entered(columns)
        out[null] = NOBODY
        return out

    def _entered(self, columns: list[pa.Array]) -> Ints:
        """The numbers of rows without nulls, from the names of their values."""
        which = first = np.zeros(len(columns[0]), dtype=np.int64)
        for column in columns:
            code = column.dictionary_encode()
            joint = which * len(code.dictionary) + np.asarray(code.indices)
            _, first, which = np.unique(joint, return_index=True, return_inverse=True)
        at = pa.array(first)
        return self.look_up(_names([column.take(at) for column in columns]))[which]

    def dictionary(self, column: Any) -> Ints:
        """One number per row that does not grow with the values themselves; -1 for a null.

        >>> KeyBook().dictionary(pa.array([1 << 60, None, 7])).tolist()
        [1, -1, 3]
        """
        column = plain(column)
        null = np.asarray(column.is_null())
        out = np.full(len(null), NOBODY)
        if not null.all():
            out[~null] = self._entered([column.drop_null()])
        return out

    def look_up(self, names: pa.Array) -> Ints:
        """The numbers of these names, all different; new ones are entered."""
        at = self._find(names) if self.lasting else _index_in(names, self.names)
        unknown = at < 0
        out = np.empty(len(names), dtype=np.int64)
        out[~unknown] = self.number[at[~unknown]]
        if unknown.any():
            names = names.filter(pa.array(unknown))
            new = self._lasting(names) if self.lasting else self.next + 2 * np.arange(len(names))
            out[unknown] = new
            self._append(names, new)
        return out

    def _find(self, names: pa.Array) -> Ints:
        """Where these names are, -1 for those that are not there: by their hashes, and those that have other numbers among their like."""
        wanted, found = hashed(names), np.full(len(names), NOBODY)
        if not len(self.number) or not len(names):
            return found
        order = np.argsort(self.number)
        at = order[np.minimum(np.searchsorted(self.number, wanted, sorter=order), len(order) - 1)]
        alike = np.flatnonzero(self.number[at] == wanted)
        same = np.asarray(pc.equal(names.take(pa.array(alike)), self.names.take(pa.array(at[alike]))))
        found[alike[same]] = at[alike[same]]
        strays = np.flatnonzero(self.number != hashed(self.names))  # from an older state, or with the hash of another
        rest = np.flatnonzero(found < 0)
        if len(strays) and len(rest):
            place = _index_in(names.take(pa.array(rest)), self.names.take(pa.array(strays)))
            found[rest] = np.where(place < 0, NOBODY, strays[place])
        return found

    def _lasting(self, names: pa.Array) -> Ints:
        """Numbers for new names, from their bytes; of those that would share one, all but the first get the next that is free."""
        new = hashed(names)
        _, first = np.unique(new, return_index=True)
        free = np.zeros(len(new), dtype=bool)
        free[first] = ~np.isin(new[first], self.number)
        if not free.all():
            taken = {*self.number.tolist(), *new[free].tolist()}
            for at in np.flatnonzero(~free):
                while int(new[at]) in taken:
                    new[at] = LASTING + (new[at] + 2 - LASTING) % LASTING
                taken.add(int(new[at]))
        return new

    @property
    def n_bytes(self) -> int:
        """What names and numbers take."""
        return self.name_bytes + 16 * len(self.number)

    @property
    def name_bytes(self) -> int:
        """The bytes of all names."""
        if not len(self.names):
            return 0
        ends = np.frombuffer(self.names.buffers()[1], np.int64)[self.names.offset :][: len(self.names) + 1]
        return int(ends[-1] - ends[0])

    def columns(self, numbers: Ints, types: Sequence[pa.DataType]) -> list[pa.Array]:
        """The key columns of these numbers, all known and none null: the way back from `numbers`.

        >>> book = KeyBook()
        >>> book.columns(book.numbers([pa.array(["a", "b"]), pa.array([1, 2])]), [pa.string(), pa.int64()])[1].to_pylist()
        [1, 2]
        """
        if any(pa.types.is_nested(kind) for kind in types):
            raise PenstockError(f"keys that are arrays or structs cannot be read back from a state, got {', '.join(map(str, types))}")
        odd = numbers % 2 == 1
        names = self.names.take(pa.array(self.places(numbers[odd]))).to_pylist()
        if len(types) > 1:
            parts = [_split(name) for name in names]
            return [_from_bytes([part[at] for part in parts], kind) for at, kind in enumerate(types)]
        if not _is_whole(types[0]):
            return [_from_bytes(names, types[0])]
        values = numbers // 2
        values[odd] = [int.from_bytes(name, sys.byteorder, signed=True) for name in names]
        return [_from_whole(values, types[0])]

    def places(self, numbers: Ints) -> Ints:
        """Where the names of these numbers are, all known."""
        order = np.argsort(self.number, kind="stable")
        return order[np.searchsorted(self.number, numbers, sorter=order)]

    def enter(self, names: pa.Array, numbers: Ints) -> None:
        """Take over names and their numbers from a state; of a name that is there already, the newer number counts.

        >>> book = KeyBook()
        >>> book.enter(pa.array([b"a", b"b", b"a"], pa.large_binary()), np.array([1, 3, 5]))
        >>> book.numbers([pa.array(["a", "b"])]).tolist()
        [5, 3]
        """
        if len(numbers):
            self._append(names, numbers)
            code = np.asarray(self.names.dictionary_encode().indices)
            last = len(code) - 1 - np.unique(code[::-1], return_index=True)[1]
            if len(last) < len(code):  # by a log that does not have the names which were forgotten in the batch that brought them
                last.sort()
                self.names, self.number = self.names.take(pa.array(last)), self.number[last]

    def _append(self, names: pa.Array, numbers: Ints) -> None:
        self.names = pa.concat_arrays([self.names, names])
        self.number = np.concatenate([self.number, numbers])
        if not self.lasting:
            self.next = int(numbers[-1]) + 2

    def since(self, place: int) -> tuple[pa.Array, Ints]:
        """The names that were entered from this place on."""
        return self.names.slice(place), self.number[place:]

    @property
    def is_crowded(self) -> bool:
        """Whether it is time to `prune`."""
        return len(self.number) > self.calm

    def prune(self, used: Ints) -> None:
        """Forget the names whose numbers nothing refers to."""
        alive = np.isin(self.number, used)
        self.names, self.number = self.names.filter(pa.array(alive)), self.number[alive]
        self.calm = _FEW + len(self.number) * 5 // 4


def _index_in(names: pa.Array, known: pa.Array) -> Ints:
    """Where names are among those known, -1 for those that are not."""
    return np.asarray(pc.index_in(names, value_set=known).fill_null(NOBODY)).astype(np.int64)


def hashed(names: pa.Array) -> Ints:
    """An odd number from LASTING on for each name, the same for the same bytes.

    >>> hashed(pa.array([b"a", b"b", b"a"], pa.large_binary())).tolist()
    [1700225227630280565, 1700225229240893303, 1700225227630280565]
    """
    out = np.empty(len(names), dtype=np.int64)
    if len(names):
        _, ends, text = names.buffers()
        begins = np.frombuffer(ends, np.int64)[names.offset :][: len(names) + 1]
        _hash(begins, np.frombuffer(text or b"", np.uint8), out)
    return out


@kernel
def _hash(begins: Ints, text: Any, out: Ints) -> None:
    for name in range(len(out)):
        one = two = begins[name + 1] - begins[name] + 1
        for at in range(begins[name], begins[name + 1]):
            one = (one * _FACTORS[0] + int(text[at]) + 1) % _PRIME
            two = (two * _FACTORS[1] + int(text[at]) + 1) % _PRIME
        out[name] = LASTING + 2 * ((one << 28) ^ two) + 1


def packed_names(names: pa.Array) -> Any:
    """Names as one value, for a state."""
    sink = pa.BufferOutputStream()
    table = pa.table({"name": names})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return np.frombuffer(sink.getvalue(), np.uint8)


def unpacked_names(raw: Any) -> pa.Array:
    """What `packed_names` was given."""
    column = pa.ipc.open_stream(pa.py_buffer(raw)).read_all()["name"]
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], pa.large_binary())


def _names(columns: list[pa.Array]) -> pa.Array:
    """One name per row: the only column, or all of them, each with its length before it."""
    texts = [as_bytes(column) for column in columns]
    if len(texts) == 1:
        return texts[0]
    parts = [part for text in texts for part in (as_bytes(pc.binary_length(text)), text)]
    return pc.binary_join_element_wise(*parts, pa.scalar(b":", pa.large_binary()))


def as_bytes(column: pa.Array) -> pa.Array:
    """The names of values that are no whole numbers.

    >>> as_bytes(pa.array([True])).to_pylist()
    [b'true']
    """
    kind = column.type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
        column = column.cast(pa.large_string())
    return column.cast(pa.large_binary())


def _split(name: bytes) -> list[bytes]:
    """The parts of a name that was made of several columns."""
    out = []
    while name:
        length, _, rest = name.partition(b":")
        out.append(rest[: int(length)])
        name = rest[int(length) + 1 :]
    return out


def _is_whole(kind: pa.DataType) -> bool:
    """Whether values of a type are numbered as whole numbers."""
    whole = (pa.types.is_integer, pa.types.is_boolean, pa.types.is_temporal, pa.types.is_floating)
    return any(is_kind(kind) for is_kind in whole)


def _from_bytes(names: list[bytes], kind: pa.DataType) -> pa.Array:
    if _is_whole(kind):
        return _from_whole(np.array([int(name) for name in names], dtype=np.int64), kind)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return pa.array(names, kind)
    return pa.array([name.decode() for name in names], pa.string()).cast(kind)


def _from_whole(values: Ints, kind: pa.DataType) -> pa.Array:
    """What `plain` made whole numbers of."""
    if pa.types.is_floating(kind):
        return pa.array(values.view(np.float64)).cast(kind)
    return pa.array(values).cast(pa.int32()).cast(kind) if pa.types.is_date32(kind) else pa.array(values).cast(kind)


def plain(column: Any) -> pa.Array:
    """A column whose values are equal where Spark calls them equal: dates and times as whole numbers, one zero, one NaN."""
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    kind = column.type
    if pa.types.is_boolean(kind):
        return column.cast(pa.int64())
    if pa.types.is_date(kind):
        return column.cast(pa.int32())
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind) or pa.types.is_time(kind):
        return column.cast(pa.int64())
    if pa.types.is_floating(kind):
        value = np.asarray(column.cast(pa.float64()).fill_null(0.0)) + 0.0
        bits = np.where(np.isnan(value), np.nan, value).view(np.int64)
        return pa.array(bits, mask=np.asarray(column.is_null()))
    if pa.types.is_nested(kind):
        return pa.array([None if value is None else repr(value) for value in column.to_pylist()], pa.string())
    return column.dictionary_decode() if pa.types.is_dictionary(kind) else column
