"""Which policy, and the smallest memory in which it keeps as much as is wanted: a few sizes for all policies, then halving for the best."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.core.errors import PenstockError
from penstock.core.problem import Problem
from penstock.experiments.plan.replays import Replays
from penstock.policies.table import best_policy, open_policy
from penstock.statistics.table import open_running

HALVINGS = 7
_CLOSE = 1.03  # sizes are not told apart below this ratio
_USUAL = ("fifo", "prob", "life", "dgl")
_WEIGHED = ("fifo", "prob", "dimpprob", "dgl")


def policies_of(problem: Problem, wanted: Sequence[str] | None) -> list[str]:
    """The policies to play: those that are wanted, or the one that `auto` is and some others, as far as they are defined.

    >>> policies_of(Problem.of(("R", "S"), window=10, memory=4, stats="decayed"), None)
    ['learned', 'fifo', 'prob', 'life', 'dgl']
    """
    if wanted is not None:
        return list(dict.fromkeys(open_policy(name, problem).name for name in wanted))
    found = [best_policy(problem)]
    for name in _USUAL if problem.steady else _WEIGHED:
        try:
            open_running(problem, open_policy(name, problem))
        except PenstockError:
            continue
        found += [name] if name not in found else []
    return found


def sizes_of(peak: int) -> list[int]:
    """Memories from a small part of what the exact join holds to all of it.

    >>> sizes_of(1000)
    [8, 16, 31, 62, 125, 250, 500, 1000]
    """
    return sorted({max(1, round(peak / (1 << step))) for step in range(HALVINGS + 1)})


def cheapest(replays: Replays, policies: Sequence[str], sizes: Sequence[int], wanted: float) -> tuple[str, int, dict[str, float]]:
    """The policy that keeps so much in the smallest memory, that memory, and what every policy keeps in it: none keeps more there."""
    policy, tried = _first(replays, policies, sizes, wanted), set[str]()
    while True:
        memory = smallest_memory(replays, policy, sizes, wanted)
        others = {name: _kept(replays, name, memory) for name in policies}
        tried.add(policy)
        better = max(others, key=lambda name: (others[name], name == policy))
        if others[better] <= others[policy] or better in tried:
            return max(others, key=lambda name: (others[name], name == policy)), memory, others
        policy = better


def _first(replays: Replays, policies: Sequence[str], sizes: Sequence[int], wanted: float) -> str:
    """The policy that keeps so much in the smallest of these memories; of equals the one that keeps most in the next."""

    def rank(policy: str) -> tuple[int, float]:
        at = next((at for at, size in enumerate(sizes) if _kept(replays, policy, size) >= wanted), len(sizes) - 1)
        return at, -_kept(replays, policy, sizes[max(0, at - 1)])

    return min(policies, key=rank)


def smallest(kept: Callable[[int], float], low: int, high: int, wanted: float) -> int:
    """The smallest memory that keeps so much, between one that does not and one that does.

    >>> smallest(lambda memory: memory / 100, 50, 100, 0.9)
    90
    """
    while high - low > 1 and high > _CLOSE * low:
        middle = (low + high) // 2
        low, high = (low, middle) if kept(middle) >= wanted else (middle, high)
    return high


def smallest_memory(replays: Replays, policy: str, sizes: Sequence[int], wanted: float) -> int:
    """The smallest memory in which a policy keeps so much; the largest of the sizes, where none of them does."""
    enough = [size for size in sizes if _kept(replays, policy, size) >= wanted]
    if not enough:
        return sizes[-1]
    below = [size for size in sizes if size < enough[0]]
    return smallest(lambda memory: _kept(replays, policy, memory), below[-1], enough[0], wanted) if below else enough[0]


def _kept(replays: Replays, policy: str, memory: int) -> float:
    found = replays.recall(policy, memory)
    return 1.0 if found is None else found.share
