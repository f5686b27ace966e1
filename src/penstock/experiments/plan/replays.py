"""A join of a trace, or of groups of its keys, in any memory and under any policy: each played once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.core.errors import PenstockError
from penstock.core.problem import Problem
from penstock.core.trace import Trace
from penstock.core.window import longest
from penstock.experiments.plan.blocks import Blocks, PlayedBlocks, play, play_exact, together
from penstock.experiments.plan.estimate import KeptShare, estimate
from penstock.experiments.plan.key_sample import Sample
from penstock.optimum.optimum import check, find_optimum

_SOLVED = 250_000
"""Rows up to which the optimum is looked for: it takes some seconds then."""
_ROOM = "2 GiB"


@dataclass
class Replays:
    """What was played of a sample; memories are those of the whole join."""

    whole: Trace
    sample: Sample
    options: dict[str, Any]  # of Problem.of
    say: Callable[[str], object] = print
    known: dict[tuple[str, int], KeptShare | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Play the exact join, with which all else is compared."""
        first = self.sample.parts[0]
        window = longest(self.problem(1).windows)
        self.blocks = Blocks.of(max(self.sample.parts, key=len), min(window, 1 << 60))
        self.start = int(self.blocks.times[0])
        self.by_value = first.importance is not None
        self.say("the exact join")
        self.exact = [play_exact(part, self.problem(1), self.blocks) for part in self.sample.parts]
        if together(self.exact, "outputs").sum() == 0:
            raise PenstockError("trace must have rows that are joined after the first window, got none: look at the window and the keys")
        together_held = self.exact if self.sample.whole else [play_exact(self.whole, self.problem(1), self.blocks)]
        self.peak = together_held[0].peak  # that of the whole join: groups have peaks of their own, at other times

    def problem(self, memory: int, **other: Any) -> Problem:
        """The join of one part in its share of a memory."""
        first = self.sample.parts[0]
        own = max(1, round(memory * self.sample.share))
        facts = {"has_importance": first.importance is not None, "has_lifetime": first.lifetime is not None}
        return Problem.of(first.streams, memory=own, **self.options | facts | other)

    def _peak(self, played: list[PlayedBlocks]) -> int:
        """The most that is held, as groups show it."""
        return round(self.peak * sum(one.peak for one in played) / sum(one.peak for one in self.exact))

    def recall(self, policy: str, memory: int) -> KeptShare | None:
        """What a policy keeps in a memory, of the value where rows have an importance."""
        if (policy, memory) not in self.known:
            self.say(f"{policy} in {memory:,}")
            problem = self.problem(memory)
            self.known[policy, memory] = self._estimate([play(part, problem, policy, self.blocks) for part in self.sample.parts])
        return self.known[policy, memory]

    def shorter(self, memory: int) -> tuple[float, KeptShare | None]:
        """The largest part of the window in which the exact join fits into a memory, and what it keeps: a TTL of the same memory."""
        low, high, found = 0.0, 1.0, None
        for _ in range(9):
            middle = (low + high) / 2
            self.say(f"a window of {middle:.0%}")
            played = self._shortened(middle)
            if self._peak(played) <= memory:
                low, found = middle, self._estimate(played)
            else:
                high = middle
        return low, found

    def _shortened(self, part: float) -> list[PlayedBlocks]:
        problem = self.problem(1)
        windows = tuple(replace(one, length=max(1, round(one.length * part))) for one in problem.windows)
        return [play_exact(trace, replace(problem, windows=windows), self.blocks) for trace in self.sample.parts]

    def optimum(self, memory: int) -> tuple[float | None, str]:
        """What the best schedule keeps in a memory, or why nobody knows."""
        rows = sum(map(len, self.sample.parts))
        if rows > _SOLVED:
            return None, f"it is looked for up to {_SOLVED:,} rows, and {rows:,} are played"
        self.say(f"the optimum in {memory:,}")
        problem = replace(self.problem(memory), start=self.start)
        try:
            for part in self.sample.parts:
                check(part, problem)
            values = [find_optimum(part, problem, limit=_ROOM).value for part in self.sample.parts]
        except PenstockError as error:
            return None, str(error)
        return sum(values) / together(self.exact, "values" if self.by_value else "outputs").sum(), ""

    def _estimate(self, played: list[PlayedBlocks]) -> KeptShare | None:
        what = "values" if self.by_value else "outputs"
        return estimate(together(played, what), together(self.exact, what))
