"""The line that a running pipeline shows: rows per second, memory against budget, recall, what was shed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from penstock.cli.output import NOTHING, number

if TYPE_CHECKING:
    from penstock.pipeline.recipe import Recipe

_CELLS = 12  # of the bar


class Live:
    """One line that is written over and over on a terminal, and a line per batch elsewhere."""

    def __init__(self, recipe: Recipe, *, shown: bool = True) -> None:
        from rich.live import Live as RichLive

        from penstock.core.budget import Pools

        budget = Pools.parse(recipe.join["memory"], tuple(recipe.streams))
        self.budget, self.unit = budget.most, "bytes" if budget.in_bytes else "rows"
        console = Console(file=sys.stdout, markup=False, highlight=False, emoji=False)
        self.shown = shown
        # The console sink writes between our lines, from another process.
        over = shown and console.is_terminal and recipe.sink["kind"] != "console"
        self._live = RichLive(Text(" starting …"), console=console, auto_refresh=False) if over else None

    def __enter__(self) -> Live:
        if self._live:
            self._live.start(refresh=True)
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()

    def show(self, event: dict[str, Any]) -> None:
        """Show the state after a batch."""
        if self._live:
            self._live.update(Text(f" {line(event, self.budget, self.unit, bar=True)}", overflow="ellipsis", no_wrap=True), refresh=True)
        elif self.shown:
            print(line(event, self.budget, self.unit), flush=True)


def line(event: dict[str, Any], budget: int, unit: str = "rows", *, bar: bool = False) -> str:
    """A batch in one line; what is not known yet is a dash.

    >>> line({"batch": 3, "rows_per_second": 41234.5, "retained_rows": 50.0, "total_n_shed": 7, "total_recall": 0.5}, 100)
    'batch 3 | 41,234 rows/s | memory 50 of 100 rows | recall 50.0 % | shed 7 | joined –'
    """
    held = event.get(f"retained_{unit}")
    filled = f"{_bar(held / budget)} " if bar and held is not None else ""
    recall = event.get("total_recall")
    known = "" if event.get("total_lost_is_exact", True) in (True, 1, None) else "about "
    parts = [
        f"batch {event['batch']}",
        f"{_count(event.get('rows_per_second'))} rows/s",
        f"memory {filled}{_count(held)} of {number(budget)} {unit}",
        f"recall {NOTHING if recall is None else f'{known}{100 * recall:.1f} %'}",
        f"shed {_count(event.get('total_n_shed'))}",
        f"joined {_count(event.get('total_n_output'))}",
    ]
    return " | ".join(parts)


def _count(value: float | None) -> str:
    return NOTHING if value is None else number(int(value))


def _bar(share: float) -> str:
    full = round(min(1.0, share) * _CELLS)
    return "█" * full + "░" * (_CELLS - full)
