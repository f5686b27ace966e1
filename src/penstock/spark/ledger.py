"""Placeholder until the ledger lands from its branch."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class LedgerPlan:
    """What settling must know."""

    name: str
    streams: tuple[str, ...]
    keys: int
    payload: tuple[tuple[str, ...], ...]
    windows: tuple[int | None, ...]
    objective: str | None
    condition: str | None
    schema: str
    has_importance: bool


class Ledger:
    """Not here yet."""

    def __init__(self, archive: str, plan: Any, query: str) -> None:
        raise NotImplementedError

    def write(self, batch: int, shard: int, arrived: Any, left: Any) -> None:
        """Not here yet."""
