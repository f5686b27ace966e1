"""All that a worker has of the relations of a join: facts by number, the values behind the numbers, and when these are active where."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.facts import Facts, Through, slots_of
from penstock.core.trace import Floats, Ints
from penstock.shard.cells import from_cell, to_cell
from penstock.shard.facts.coverage import Coverage
from penstock.shard.facts.values import Values, numbered
from penstock.shard.facts.weights import weights_of
from penstock.shard.spark_hash import placed

BEGIN, END, WEIGHT = "begin", "end", "weight"
SHOWN = "="
"""Before the name of a column that the joined row shows."""
_FEW = 20_000
"""Facts that are told to an engine as they are: to choose among them would take as long."""


def key(number: int) -> str:
    """The column of a link in a table of facts, and on its way that of a slot in a row.

    >>> key(1)
    'key1'
    """
    return f"key{number}"


def slot_of(name: str) -> int:
    """The slot of the column that `key` names.

    >>> slot_of("key1")
    1
    """
    return int(name.removeprefix("key"))


class Known:
    """The facts of some relations, by relation and by slot.

    A fact goes by its number, its place in the table of its relation, and belongs to the shard of the value that its first link has.
    """

    def __init__(self, through: Sequence[Through], cells: Sequence[bytes]) -> None:
        self.through, self.slots = tuple(through), slots_of(through)
        left = iter(cells)
        self.tables: list[pa.Table] = []
        self.distinct: list[pa.Array] = []
        for one in through:
            self.tables.append(from_cell(next(left)))
            self.distinct += [from_cell(next(left)).column(0).combine_chunks() for _ in one.links]
        self._values: dict[int, Values] = {}
        self._coverages: dict[tuple[int, int], Coverage] = {}
        self._facts: dict[tuple[int, int], list[Facts]] = {}
        self._orders: dict[tuple[int, int, int], tuple[Ints, Ints]] = {}

    def values(self, slot: int) -> Values:
        """The values that a link compares."""
        if slot not in self._values:
            self._values[slot] = Values(self.distinct[slot])
        return self._values[slot]

    def coverage(self, slot: int, shards: int) -> Coverage:
        """Where the values of a link have active facts."""
        if (slot, shards) not in self._coverages:
            which = self._relation(slot)
            facts = self.whole[which]
            own = facts.keys[:, slot - self.slots[which].start]
            self._coverages[slot, shards] = Coverage(len(self.distinct[slot]), own, self.places(which, shards), facts.begin, facts.end)
        return self._coverages[slot, shards]

    def facts(self, place: int, shards: int) -> list[Facts]:
        """The facts of a shard, by relation; always the same objects, so that what is made of them need not be made again."""
        if (place, shards) not in self._facts:
            chosen = [np.flatnonzero(self.places(which, shards) == place) for which in range(len(self.through))]
            self._facts[place, shards] = [_taken(facts, some) for facts, some in zip(self.whole, chosen, strict=True)]
        return self._facts[place, shards]

    def columns(self, which: int, numbers: Ints) -> dict[str, Any]:
        """What the joined row shows of facts of a relation."""
        table = self.tables[which]
        taken = table.select([SHOWN + name for name in self.shown(which)]).take(pa.array(numbers))
        return {name.removeprefix(SHOWN): taken[name] for name in taken.column_names}

    def shown(self, which: int) -> tuple[str, ...]:
        """The names of these columns in the joined row."""
        return tuple(name.removeprefix(SHOWN) for name in self.tables[which].column_names if name.startswith(SHOWN))

    def weights(self, numbers: Ints) -> Floats:
        """What facts weigh together, a line for each output with a number for each relation."""
        return weights_of(self.whole, numbers)

    def in_use(self, place: int, shards: int, values: Ints) -> list[Facts]:
        """The facts of a shard that have a value of these tuples, a line for each by slot; all of them, where others would save little."""
        facts = self.facts(place, shards)
        if sum(map(len, facts)) <= _FEW:
            return facts
        return [self._in_use(place, shards, which, one, values) for which, one in enumerate(facts)]

    def _in_use(self, place: int, shards: int, which: int, facts: Facts, values: Ints) -> Facts:
        chosen = np.zeros(len(facts), bool)
        for link, slot in enumerate(self.slots[which]):
            if (place, shards, slot) not in self._orders:
                order = np.argsort(facts.keys[:, link], kind="stable")
                self._orders[place, shards, slot] = order, np.searchsorted(facts.keys[order, link], np.arange(len(self.distinct[slot]) + 1))
            order, first = self._orders[place, shards, slot]
            used = np.zeros(len(self.distinct[slot]), bool)
            used[values[values[:, slot] >= 0, slot]] = True
            low, high = first[:-1][used], first[1:][used]
            chosen[order[np.repeat(low - np.cumsum(high - low) + (high - low), high - low) + np.arange((high - low).sum())]] = True
        some = np.flatnonzero(chosen)
        return facts if 2 * len(some) > len(facts) else _taken(facts, some)

    @cached_property
    def whole(self) -> list[Facts]:
        """All facts, by relation."""
        found = []
        for one, table in zip(self.through, self.tables, strict=True):
            keys = [np.asarray(table[key(link)]) for link in range(len(one.links))]
            weight = np.asarray(table[WEIGHT]) if one.weighted else None
            found.append(Facts(np.stack(keys, axis=1), np.asarray(table[BEGIN]), np.asarray(table[END]), weight))
        return found

    def _relation(self, slot: int) -> int:
        return next(which for which, own in enumerate(self.slots) if slot in own)

    def places(self, which: int, shards: int) -> Ints:
        """The shard of each fact of a relation."""
        own = self.tables[which][key(0)]
        return np.zeros(len(own), np.int64) if shards == 1 else placed([own], len(own), shards)


def cells_of(tables: Sequence[pa.Table], through: Sequence[Through]) -> list[bytes]:
    """What `Known` is made from: tables of facts with columns `key0`, ... (values without nulls), `begin` and `end` in ticks,
    `weight` where the relation has one, and what joined rows show.

    >>> through = [Through.parse("f", ["R.x = a", "b = S.y"], "RS")]
    >>> facts = pa.table({"key0": ["p", "q"], "key1": [7, 7], "begin": [0, 5], "end": [9, 9], "=f_fare": ["low", "high"]})
    >>> known = Known(through, cells_of([facts], through))
    >>> known.whole[0].keys.tolist(), known.values(0).numbers(pa.array(["q", "r"])).tolist()
    ([[0, 0], [1, 0]], [1, -1])
    >>> known.columns(0, np.array([1, 0, 1]))["f_fare"].to_pylist()
    ['high', 'low', 'high']
    >>> known.coverage(1, 1).active(np.array([0, 0]), np.array([8, 9])).tolist()
    [True, False]
    """
    out = []
    for one, table in zip(through, tables, strict=True):
        columns: dict[str, Any] = {name: table[name] for name in table.column_names}
        values = []
        for link in range(len(one.links)):
            distinct, number = numbered(table[key(link)])
            columns[key(link)] = pa.array(number)
            values.append(to_cell(pa.table({"value": distinct})))
        out += [to_cell(pa.table(columns)), *values]
    return out


def _taken(facts: Facts, some: Ints) -> Facts:
    weight = None if facts.weight is None else facts.weight[some]
    return Facts(facts.keys[some], facts.begin[some], facts.end[some], weight, facts.numbers[some])
