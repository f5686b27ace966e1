"""Policies by what they need and how they decide, out of the table: a new one is tested with its kind without being named here."""

from __future__ import annotations

from penstock.policies.base import Sparing
from penstock.policies.table import POLICIES


def needing(what: str) -> tuple[str, ...]:
    """Those whose `needs` list this."""
    return tuple(name for name, policy in POLICIES.items() if what in policy.needs.split(", "))


ON_STATS = needing("stats")
WEIGHED = needing("importance")
NEEDS_BOUND = needing("a window")
BY_COUNT = needing("keys that repeat")
DRAWN = needing("a seed")
"""Who draws victims: the engines draw otherwise, and the oracle not at all."""
SPARING = tuple(name for name, policy in POLICIES.items() if issubclass(policy, Sparing))
LEARNING = needing("equal keys")
"""Who counts for itself, whatever the statistics."""
ONE_CLOCK = ("elife",)
"""Who needs one clock for all keys of a stream, and refuses `rows_per_key`."""
ON_EQUALITY = (*SPARING, *LEARNING)
KEYED = tuple(name for name in SPARING if name not in DRAWN)
"""Who looks at equal keys."""
