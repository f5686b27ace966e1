"""What a join makes, block by block of time: how much that changes from block to block says how sure its recall is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from penstock.core.batch import Batch
from penstock.core.problem import Problem
from penstock.core.trace import Floats, Ints, Trace
from penstock.engine.contract import Engine, Keep
from penstock.engine.opening import compiled_form, open_engine
from penstock.optimum.gains import ample
from penstock.policies.fifo import Fifo
from penstock.policies.table import open_policy
from penstock.statistics.base import Source
from penstock.statistics.table import open_statistics

BLOCKS = 20
_WINDOWS = 5  # that a trace must last, so that the first of them need not count


@dataclass(frozen=True)
class PlayedBlocks:
    """What came out in each block, what that is worth, and the most that was held."""

    outputs: Floats
    values: Floats
    peak: int


@dataclass(frozen=True)
class Blocks:
    """Where blocks begin and end: times, the first of which is where counting begins."""

    times: Ints

    @classmethod
    def of(cls, trace: Trace, window: float) -> Blocks:
        """Blocks with about equally many rows, after a first window where the trace lasts long enough.

        >>> trace = Trace.from_streams(R=range(100), S=range(100))
        >>> Blocks.of(trace, 10).times[:3].tolist(), len(Blocks.of(trace, 10).times)
        ([10, 14, 19], 21)
        """
        time = np.maximum.accumulate(trace.time)
        warm = time[0] + window if time[-1] - time[0] > _WINDOWS * window else time[0]
        rest = time[time >= warm]
        at = rest[np.arange(BLOCKS) * len(rest) // BLOCKS]
        return cls(np.append(np.unique(at), time[-1] + 1))

    def cuts(self, trace: Trace) -> Ints:
        """The rows with which they begin, in a trace of these times, and where the last ends."""
        return np.searchsorted(np.maximum.accumulate(trace.time), self.times)


def play(trace: Trace, problem: Problem, policy: str, blocks: Blocks) -> PlayedBlocks:
    """A join in the memory of the problem."""
    chosen = open_policy(policy, problem)
    compiled = compiled_form(problem, chosen) is not None
    source, rows = open_statistics(problem, trace, Batch.of(trace, problem), None, by_row=not compiled, policy=chosen)
    return _counted(open_engine(problem, chosen, source, Keep()), rows, blocks.cuts(trace))


def play_exact(trace: Trace, problem: Problem, blocks: Blocks) -> PlayedBlocks:
    """The join with memory for everything.

    >>> trace = Trace.from_streams(R="abab", S="baba")
    >>> problem = Problem.of(trace.streams, window=2, memory=1)
    >>> found = play_exact(trace, problem, Blocks.of(trace, 2))
    >>> found.outputs.tolist(), found.peak
    ([0.0, 2.0, 2.0, 2.0], 4)
    """
    whole = replace(ample(trace, problem), matches=(None,) * problem.n_streams)  # a broken promise costs outputs
    return _counted(open_engine(whole, Fifo(), Source(), Keep()), Batch.of(trace, whole), blocks.cuts(trace))


def _counted(engine: Engine, rows: Batch, cuts: Ints) -> PlayedBlocks:
    engine.play(rows.cut(0, int(cuts[0])))
    totals = [engine.totals]
    for begin, end in pairwise(cuts.tolist()):
        engine.play(rows.cut(begin, end))
        totals.append(engine.totals)
    outputs = np.diff([float(one.n_output) for one in totals])
    return PlayedBlocks(outputs, np.diff([one.value for one in totals]), engine.totals.peak_memory)


def together(played: Sequence[PlayedBlocks], what: str) -> Floats:
    """The counts of parts of a trace, a line for each."""
    return np.stack([getattr(one, what) for one in played])
