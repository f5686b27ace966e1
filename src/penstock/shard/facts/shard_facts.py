"""What a shard knows of the relations of its join: the versions that its batches see, and the facts that become known late.

A fact is late where it becomes known after rows were played that its begin or its end concerns. The join does not wait for it: it links
from then on, and an end ends it from then on. What it would have made before with rows that have gone, or never came here, nobody counts;
until rows of that time can meet nobody any more, what a batch loses is unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from penstock.core.facts import Facts
from penstock.core.trace import Ints
from penstock.core.window import NEVER
from penstock.shard.facts.followed import Versions, check_later
from penstock.shard.facts.known import Known
from penstock.shard.facts.sent import SentFacts


class ShardFacts:
    """The facts of one shard, as of the versions that its last batch saw."""

    def __init__(self, sent: SentFacts, number: int, shards: int, stays: Sequence[int | None]) -> None:
        self.sent, self.number, self.shards = sent, number, shards
        self.stay = max(NEVER if stay is None else stay for stay in stays)
        self.versions: Versions = ()
        self.before: Versions = ()  # that the batch before saw
        self.pages: tuple[str, ...] = ()  # the last of each relation in the ledger, which the first shard writes
        self.n_late = 0  # all over
        self.n_came = 0  # in this batch
        self.doubt = -NEVER  # before this time what is lost is unknown

    @property
    def known(self) -> Known:
        """All facts."""
        return self.sent.open(self.versions)

    def in_use(self, values: Ints) -> list[Facts]:
        """The facts of this shard that have these values (`Known.in_use`)."""
        return self.known.in_use(self.number, self.shards, values)

    def see(self, versions: Versions, seen: int) -> None:
        """Before a batch that sees these versions, where rows were played up to the time `seen`."""
        check_later(self.versions, versions)
        self.n_came = 0
        if self.versions and versions != self.versions:
            before = self.known.facts(self.number, self.shards)
            now = self.sent.open(versions).facts(self.number, self.shards)
            self.n_came = sum(late_facts(old, new, seen) for old, new in zip(before, now, strict=True))
            if self.n_came:
                self.n_late += self.n_came
                self.doubt = min(seen + self.stay, NEVER)
        self.before, self.versions = self.versions, versions

    def late(self, horizon: int) -> tuple[int, int, bool]:
        """The facts that came late in this batch, and all over; and whether rows after this horizon may have lost what nobody counts."""
        return self.n_came, self.n_late, self.n_late > 0 and self.doubt > horizon

    def begins(self, promised: Sequence[int | None]) -> int | None:
        """The time before which no later fact begins, where these are the times before which streams promise no more rows."""
        late = max((one.lateness for one in self.sent.followed if one is not None), default=0)
        known = [time for time in promised if time is not None]
        return min(known) - late if len(known) == len(promised) else None

    def told(self) -> dict[str, Any]:
        """What a state keeps of it, as JSON; nothing where no history goes on."""
        told = {"versions": self.versions, "n_late": self.n_late, "doubt": self.doubt, "pages": self.pages}
        return told if self.versions else {}

    def restore(self, told: dict[str, Any]) -> None:
        """Take over what `told` gave."""
        if told:
            self.versions, self.n_late, self.doubt = tuple(told["versions"]), told["n_late"], told["doubt"]
            self.pages = tuple(told.get("pages", ()))


def late_facts(before: Facts, now: Facts, seen: int) -> int:
    """The facts that are new or have ended since, and begin, or end, at times up to which rows have been played.

    >>> late_facts(Facts.of([[0, 1], [0, 2]]), Facts.of([[0, 1], [0, 2], [3, 3], [3, 4]], [None, None, 5, 8], [None, 4, None, None]), 5)
    2
    """
    old = np.isin(now.numbers, before.numbers, assume_unique=True)
    ended = now.end[old] != before.end
    late = int(np.count_nonzero(ended & (now.end[old] <= seen)))
    return late + int(np.count_nonzero(~old & (now.begin <= seen) & (now.begin < now.end)))
