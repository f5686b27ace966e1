"""What a shard may take beside its tuples, in bytes: statistics, ghosts, and the places of tuples in the arrays of its engines.

Half of it is for statistics, where they are counted by key, and the rest for ghosts. What a tuple in memory takes in the arrays of the
engine, and again in those of the shadow (meter.py), grows with the budget alone: in a budget of bytes each tuple weighs it.
"""

from __future__ import annotations

from typing import Any

from penstock.core.budget import Pools, read_size
from penstock.core.errors import PenstockError
from penstock.core.problem import Problem
from penstock.engine.contract import PolicyContract
from penstock.engine.finding import linked_pairs, needs_index
from penstock.engine.opening import compiled_form
from penstock.engine.ranking_codes import Kind, Prices

DEFAULT_OVERHEAD = "512 MB"
"""For all shards together, where memory is in rows."""
PLACE = 256
"""Bytes that a tuple in memory takes beside its Arrow bytes, where memory is in bytes: its places in the engine and in the shadow."""
_RANK = 40  # bytes more for an importance and a score of its own, in a heap of its class
_CLUE, _CLUES = 40, 20  # more for a class that `learned` prices: its place in a queue; what is known of its key, by stream
GHOST = 256
"""Bytes of their part that are set aside for a ghost: its place in the shadow, and room to move when the shadow grows."""
_INDEXED = 136  # bytes more for each index, all of which have room for every tuple and a quarter more,
_COMPARED = 64  # and for what is compared and counted there
_NAME = 32  # bytes that a name takes beside its own
_LEAST = 64_000  # bytes of a shard: the smallest sketch and shadow take about as much
_SHARE = 4  # of a memory in bytes, one part in so many
MOST_SHARE = 2


def overhead_of(overhead: Any, budget: Pools, shards: int) -> int:
    """The bytes of one of so many shards; of a memory in bytes they are a part, a quarter by default.

    >>> overhead_of(None, Pools.parse(1000, ("l", "r")), 2), overhead_of(None, Pools.parse("1 MB", ("l", "r")), 2)
    (256000000, 125000)
    >>> overhead_of("8 MB", Pools.parse("12 MB", ("l", "r")), 2)
    Traceback (most recent call last):
    ...
    penstock.core.errors.PenstockError: overhead is a part of a memory in bytes and must be at most half of it (6000000 bytes), got '8 MB'
    """
    least = int(budget.caps.sum(axis=1).min())
    if overhead is None:
        amount = least // _SHARE if budget.in_bytes else read_size(DEFAULT_OVERHEAD, "overhead")
    else:
        amount = read_size(overhead, "overhead")
        if not budget.in_bytes and amount < _LEAST * shards:
            raise PenstockError(
                f"overhead must be at least {_LEAST // 1000} KB for each shard ({_LEAST * shards} bytes), got {overhead!r}: less does not "
                "bound what statistics and ghosts take"
            )
        if budget.in_bytes and amount > least // MOST_SHARE:
            raise PenstockError(
                f"overhead is a part of a memory in bytes and must be at most half of it ({least // MOST_SHARE} bytes), got {overhead!r}"
            )
    return max(1, amount // shards)


def for_statistics(overhead: int) -> int:
    """What of it statistics may take, where they are counted by key."""
    return overhead // 2


def place_of(problem: Problem, policy: PolicyContract) -> int:
    """The bytes that a tuple takes beside its Arrow bytes under a policy, each with a key of its own.

    >>> from penstock.policies.table import open_policy
    >>> problem = Problem.of(("l", "r"), window=10, memory="1 MB", stats="decayed")
    >>> [place_of(problem, open_policy(name, problem)) for name in ("fifo", "prob", "learned")]
    [256, 256, 376]
    """
    ranking = compiled_form(problem, policy)
    if ranking is None:
        return PLACE
    rank = _RANK if ranking.kind >= Kind.SCORE or not problem.steady else 0
    rank += 2 * index_bytes(problem) if needs_index(problem, ranking) else 0  # in the engine and in the shadow
    return PLACE + rank + (_CLUE + _CLUES * problem.n_streams if ranking.prices == Prices.CHANCES else 0)


def index_bytes(problem: Problem) -> int:
    """What a tuple takes in the indexes of an engine, where partners are found by links.

    >>> index_bytes(Problem.of(("l", "r"), window=10, memory=4, predicate="<"))
    336
    """
    return _INDEXED * linked_pairs(problem) + _COMPARED


def ghost_of(problem: Problem) -> int:
    """What a ghost takes."""
    return GHOST + (0 if problem.predicate.is_equality else index_bytes(problem))


def ghosts_in(room: int, names: int, name_bytes: int, ghost: int = GHOST) -> int:
    """How many ghosts have room, where so many names take so many bytes.

    >>> ghosts_in(1_000_000, 0, 0), ghosts_in(1_000_000, 10, 120)
    (3906, 3333)
    """
    return max(1, room * names // (names * (ghost + _NAME) + name_bytes) if names else room // ghost)
