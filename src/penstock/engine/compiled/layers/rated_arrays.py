"""Arrays whose tuples have rates, taken from statistics as rows come."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from penstock.core.batch import Batch
from penstock.core.problem import Problem
from penstock.core.rounding import aged
from penstock.engine.compiled.batch_columns import BatchColumns, plain
from penstock.engine.compiled.class_prices import count_again
from penstock.engine.compiled.layers.portable import as_columns, slots_in_order
from penstock.engine.compiled.layers.tuple_arrays import TupleArrays
from penstock.engine.compiled.order.tournament import rebuild
from penstock.engine.contract import Bands, Ranking, Statistics
from penstock.engine.ranking_codes import Prices


class RatedArrays(TupleArrays):
    """Tuples with the rates at which partners come, where keys or links are compared."""

    def __init__(self, problem: Problem, ranking: Ranking, bands: Bands | None, statistics: Statistics) -> None:
        super().__init__(problem, ranking, bands)
        self.statistics = statistics
        self.origin: int | None = None  # the first time

    def _price(self, batch: Batch, columns: BatchColumns, begin: int) -> tuple[BatchColumns, int]:
        """Fill in the rates from row `begin` on; the columns with them, and where they end."""
        if self.ranking.prices not in (Prices.RATES, Prices.TOTALS, Prices.CHANCES) or self.memory.banded:
            return columns, len(batch)
        if self.memory.indexed and not self.memory.growing:
            return columns, len(batch)
        steps = self.statistics.age(batch, begin)
        if steps:
            groups, slot_prices = self.arrays["groups"], self.arrays["slot_prices"]
            if self.memory.indexed:
                self._weigh_again()
            elif self.ranking.prices == Prices.TOTALS:
                groups["price"] = self.statistics.totals(groups["key"])
            else:
                groups["price"] = self.statistics.reprice(groups["key"], groups["stream"])
            slot_prices["used"] = aged(slot_prices["used"], steps * (self.problem.n_streams - 1))
            rebuild(self.memory)
        if self.ranking.prices == Prices.CHANCES:
            batch = replace(batch, key=columns.key)  # rows that are in no window are of no key
        if self.memory.indexed:
            batch = replace(batch, key=np.where(columns.key < 0, -1, batch.key))
        rates, stop = self.statistics.rates(batch, begin)
        chances = self.statistics.take_chances()
        if chances is not None:
            self.arrays["chances"][:] = chances
            self.memory.renewed = 1
        self.memory.origin, self.memory.half_life, self.memory.moved = self.statistics.units()
        if begin == 0 and stop == len(batch):
            return columns._replace(rates=plain(rates)), stop
        if len(columns.rates) < len(batch):
            columns = columns._replace(rates=np.empty((len(batch), rates.shape[1])))
        columns.rates[begin:stop] = rates
        return columns, stop

    def _weigh_again(self) -> None:
        """Statistics have forgotten what is old: take the rates of all tuples from what they still know."""
        place, tuples = slots_in_order(self.memory, self.arrays), as_columns(self.memory, self.arrays)
        counts = self.arrays["counts"].reshape(-1, self.problem.n_streams)
        counts[place], self.arrays["lanes"]["mass"] = self.statistics.weigh(
            tuples["stream"], tuples["key"], tuples["values"], tuples.get("importance")
        )
        count_again(self.memory, place)
