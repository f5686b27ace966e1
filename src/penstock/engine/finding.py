"""How the partners of a tuple are found: by the ring of its key, in an index by links, or by looking at all of memory (stepwise)."""

from __future__ import annotations

from penstock.core.problem import Problem
from penstock.engine.contract import Ranking
from penstock.engine.ranking_codes import Kind, Prices


def needs_index(problem: Problem, ranking: Ranking) -> bool:
    """Whether tuples with one key cannot stand for each other: not keys are compared, or tuples have prices or lives of their own."""
    if not problem.predicate.is_equality or (ranking.kind in (Kind.LIFE, Kind.STAY) and not problem.ages_in_order):
        return True
    by_tuple = ranking.kind in (Kind.PRICE, Kind.LIFE, Kind.STAY) and ranking.prices in (Prices.RATES, Prices.MATCHES)
    return by_tuple and not problem.priced_by_key


def can_index(problem: Problem, ranking: Ranking) -> bool:
    """Whether the compiled engine can find partners in an index, and rank by what it counts there."""
    if problem.through and ranking.prices == Prices.MATCHES and problem.switch("mn") == "memory":
        return False
    return problem.predicate.function is None and ranking.prices in (Prices.NONE, Prices.MATCHES, Prices.RATES)


def rated_by_key(problem: Problem) -> bool:
    """Whether statistics know the rate of a key, and not of each tuple for itself."""
    return problem.predicate.is_equality and (problem.priced_by_key or problem.stats == "sketch")


def linked_pairs(problem: Problem) -> int:
    """How many ordered pairs of streams have something to compare.

    >>> linked_pairs(Problem.of(("R", "S", "T"), window=4, memory=4, predicate="R.a = S.a, S.b < T.b"))
    4
    """
    n = problem.n_streams
    if problem.through:
        return sum(len(one.links) * (len(one.links) - 1) for one in problem.through)
    if problem.graph is None or problem.predicate.is_equality:
        return n * (n - 1)
    return sum(bool(problem.graph.between(i, j)) for i in range(n) for j in range(n) if i != j)


def all_linked(problem: Problem) -> bool:
    """Whether every two streams have something to compare."""
    return linked_pairs(problem) == problem.n_streams * (problem.n_streams - 1)
