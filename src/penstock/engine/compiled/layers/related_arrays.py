"""Arrays of a join through relations: facts that may change, and rows whose partners they tell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from penstock.core.batch import Batch
from penstock.core.facts import Facts
from penstock.core.rounding import aged
from penstock.core.trace import Ints
from penstock.engine.compiled.batch_columns import BatchColumns, plain
from penstock.engine.compiled.class_prices import count_again
from penstock.engine.compiled.facts.compiled_facts import CompiledFacts
from penstock.engine.compiled.facts.fact_counts import count_all_through
from penstock.engine.compiled.facts.known_facts import fade, rate_columns, take_rates
from penstock.engine.compiled.facts.prefilter import end_of_chunk, leaving, prepare, weigh_rows
from penstock.engine.compiled.layers.portable import as_columns, slots_in_order
from penstock.engine.compiled.layers.rated_arrays import RatedArrays
from penstock.engine.compiled.linked.partners import weigh_streams
from penstock.engine.compiled.order.tournament import rebuild
from penstock.engine.contract import Played
from penstock.engine.fact_arrays import FILTERED, GROWS, STANDS

_ROWS = 4096  # whose facts are looked up at once: what is fetched is still near when they are played


class RelatedArrays(RatedArrays):
    """Tuples that facts link, where the problem has relations."""

    prepared = 0  # rows of the batch whose facts have been looked up

    def know(self, facts: Sequence[Facts]) -> None:
        """The facts from now on: what is in memory is linked anew."""
        if self.facts is None:
            return
        state = as_columns(self.memory, self.arrays) | rate_columns(self.memory, self.arrays)
        self.facts = CompiledFacts.of(self.problem, facts)
        self._move(state, straggling=True)
        if self.memory.dynamic and self.memory.live:
            place = slots_in_order(self.memory, self.arrays)
            self._move(as_columns(self.memory, self.arrays) | {"expiry": leaving(self.memory, place)})
        self._take_rates(state)
        self._count_again()

    def _named(self, played: Played) -> Played:
        """Outputs with the names of facts."""
        if self.facts is not None:
            members = 1 + self.problem.n_streams
            played.outputs[:, members:] = self.facts.names[played.outputs[:, members:]]
        return played

    def _sift(self, batch: Batch, columns: BatchColumns, begin: int) -> tuple[BatchColumns, int]:
        """Prepare the rows of some instants from row `begin` on; the columns with them, and where they end."""
        assert self.facts is not None and batch.values is not None
        stop, size = begin, len(batch)
        while stop == begin:
            reached, self.prepared = self.prepared, min(size, self.prepared + max(_ROWS, self.prepared - begin))
            seen = plain(batch.values)
            if prepare(self.memory, columns, seen, reached, self.prepared):
                self.facts.cells_by_link(batch.values[reached : self.prepared])
                self.facts.share(self.memory, self.arrays)
                prepare(self.memory, columns, seen, reached, self.prepared)
            stop = size if self.prepared == size else end_of_chunk(self.memory, columns, begin, self.prepared)
        kept = begin + np.flatnonzero(columns.leaves[begin:stop] != FILTERED)
        if not len(kept):
            return columns, stop
        if self.origin is None:
            self.origin = self.memory.dawn = int(batch.time[kept[0]])
            if self.ranking.column is not None:
                columns = columns._replace(score=plain(self.ranking.column(batch, self.origin)))
        if self.memory.tops:
            weigh_rows(self.memory, columns, columns.score, begin, stop)
        if self.memory.growing == GROWS:
            stop = self._weigh(batch, columns, kept, stop)
        return columns, stop

    def _weigh(self, batch: Batch, columns: BatchColumns, kept: Ints, stop: int) -> int:
        """Fill in what rows that are not filtered weigh; where that ends, because rates must age again, at the latest at `stop`."""
        assert self.facts is not None
        rows = Batch(batch.stream[kept], batch.time[kept], batch.key[kept])
        steps = self.statistics.age(rows, 0)
        if steps:
            fade(self.memory, self.arrays, self.facts, steps)
            self.arrays["slot_prices"]["used"] = aged(self.arrays["slot_prices"]["used"], steps * (self.problem.n_streams - 1))
            self._count_again()
        rates, span = self.statistics.rates(rows, 0)
        columns.rates[kept[:span]] = rates
        self.memory.origin, self.memory.half_life, self.memory.moved = self.statistics.units()
        return int(kept[span]) if span < len(kept) else stop

    def _count_again(self) -> None:
        """Facts or rates are others: take what tuples have counted anew."""
        if self.memory.paired:
            place = slots_in_order(self.memory, self.arrays)
            count_all_through(self.memory, place)
            count_again(self.memory, place)
            rebuild(self.memory)

    def _take_rates(self, state: dict[str, Any]) -> None:
        """Begin with the rates of a state, or with those that are known beforehand."""
        assert self.facts is not None
        if self.memory.growing == STANDS:
            state, self.arrays["lanes"]["mass"] = self.statistics.known_rates()
        if self.memory.growing:
            take_rates(self.memory, self.arrays, self.facts, state)
            weigh_streams(self.memory)
