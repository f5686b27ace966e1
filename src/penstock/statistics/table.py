"""The table of sources, and the one that a problem asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from penstock.core.batch import Batch
from penstock.core.errors import PenstockError
from penstock.core.facts import Facts
from penstock.core.link_columns import on_key
from penstock.core.problem import Problem
from penstock.core.trace import Trace
from penstock.engine.contract import PolicyContract
from penstock.engine.fact_index import FactIndex, sift
from penstock.engine.ranking_codes import Prices
from penstock.statistics.base import Ageless, Source
from penstock.statistics.bounded import Bounded
from penstock.statistics.decayed import Decayed
from penstock.statistics.fact_rates import FactRates
from penstock.statistics.known_beforehand import Fixed, given_table, whole_prices, whole_table
from penstock.statistics.matches import DecayedMatches
from penstock.statistics.returns import Returns
from penstock.statistics.sketch import Sketch
from penstock.statistics.window import WindowCounts

RUNNING = {"window": lambda problem: WindowCounts(), "decayed": Decayed, "sketch": Sketch}
"""Sources that learn as rows arrive. `whole` and `given` are known beforehand; see `open_statistics`."""


def open_running(problem: Problem, policy: PolicyContract, room: int | None = None, given: Source | None = None) -> Source:
    """The source that learns as rows arrive; one that knows nothing where it would be decayed rates and the policy asks for none.

    With `room`, decayed counts take at most so many bytes. With `given` those rates are used where the problem asks for given ones.
    """
    if _learns(problem, policy):
        return Returns(problem, room)
    if problem.stats == "given":
        return given or Source()
    ranking = policy.ranking(problem)
    if problem.stats == "window" or ranking is None or ranking.prices in (Prices.RATES, Prices.TOTALS):
        if ranking is None and problem.stats != "window" and problem.ageless:
            return Ageless(problem)
        if problem.stats == "decayed" and problem.through:
            return FactRates(problem)
        if problem.stats == "decayed" and not problem.priced_by_key:
            return DecayedMatches(problem, room)
        if problem.stats == "decayed" and room is not None:
            return Bounded(problem, room)
        return RUNNING[problem.stats](problem)
    return Source()


def open_statistics(
    problem: Problem,
    trace: Trace,
    batch: Batch,
    given: Mapping[tuple[str, Any], float] | None = None,
    *,
    by_row: bool = True,
    policy: PolicyContract | None = None,
    facts: Sequence[Facts] = (),
) -> tuple[Source, Batch]:
    """The source for `problem.stats`, and the batch with p by row where it is known beforehand (unless `by_row` is not needed).

    With `policy`, counts that it does not ask for are not kept. `facts` are those of the relations that link the streams.

    >>> trace = Trace.from_streams(R="aab", S="aba")
    >>> problem = Problem.of(trace.streams, window=2, memory=2)
    >>> source, _ = open_statistics(problem, trace, Batch.of(trace, problem))
    >>> source.table.tolist()
    [[2.0, 2.0], [1.0, 1.0]]
    """
    if (given is None) != (problem.stats != "given"):
        raise PenstockError(f"given must be a table of rates exactly when stats is 'given', got stats {problem.stats!r}")
    if policy is not None and _learns(problem, policy):
        return Returns(problem), batch
    if problem.stats in RUNNING:
        return RUNNING[problem.stats](problem) if policy is None else open_running(problem, policy), batch
    if problem.through:
        return FactRates.of_all(problem, sift(FactIndex(problem, facts), batch).batch), batch
    if given is not None:
        if not problem.predicate.is_equality:
            raise PenstockError(f"stats 'given' holds rates by key; for predicate {problem.predicate.name!r} use whole, window or decayed")
        if problem.graph is not None and not on_key(trace, problem.graph):
            raise PenstockError("stats 'given' holds rates by the key of the trace, got links on other columns: name these as its key")
        source = Fixed(given_table(problem, trace, given))
        if not by_row and problem.priced_by_key:
            return source, batch
        return source, source.priced(problem, batch)
    if problem.priced_by_key:
        source = Fixed(whole_table(problem, batch.stream, batch.key))
        return source, source.priced(problem, batch) if by_row else batch
    return Source(), replace(batch, price=whole_prices(problem, batch))


def _learns(problem: Problem, policy: PolicyContract) -> bool:
    """Whether a policy counts for itself, whatever the statistics."""
    ranking = policy.ranking(problem)
    return ranking is not None and ranking.prices == Prices.CHANCES
