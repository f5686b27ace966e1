"""Epochs: each run of a query takes the next number in its ledger, so that of two runs the older one fails. Spark-free.

    runs/0002-000000012-<run id>.json    the second run began with batch 12

The name has the run, so all shards of a run write the same file, and no store has to create a file exclusively: of two runs that take the
same number, the one whose name is larger wins.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from penstock.core.errors import PenstockError
from penstock.ledger.ledger import Ledger, Pages
from penstock.ledger.manifest import Attempt, attempt_in
from penstock.ledger.sealed import sealed
from penstock.ledger.settled_marks import marks, settled
from penstock.ledger.store import Store

_NAME = re.compile(r"(\d{4,})-(\d{9,})-([A-Za-z0-9-]+)\.json")
REWIND = "rewind-"
_OLD_PAGE = re.compile(r"batch-(\d+)-shard-(\d+)\.parquet")


class Run(NamedTuple):
    """A run of a query: its number, its first batch, its id."""

    epoch: int
    first: int
    run: str

    @property
    def is_rewind(self) -> bool:
        """Whether no query took it, but whoever went back behind the runs of before."""
        return self.run.startswith(REWIND)


def runs(store: Store, folder: str) -> list[Run]:
    """The runs that a ledger knows, the newest last."""
    found = (_NAME.fullmatch(name) for name in store.names(f"{folder}/runs"))
    return sorted((Run(int(match[1]), int(match[2]), match[3]) for match in found if match), key=lambda one: (one.epoch, one.run))


def enter(ledger: Ledger, run: str | None, batch: int, after: Sequence[Attempt]) -> int:
    """The epoch of a run that is at a batch; taken now, if this is its first. Refused, where the run is overtaken or comes from behind.

    `after` is what the state of the shard names as its last attempts. Where Spark does not give the run, it is taken for the last one.
    """
    store, folder = ledger.store, ledger.folder
    there = runs(store, folder)
    if run is None:
        return there[-1].epoch if there else 1
    mine = [one for one in there if one.run == run]
    if not mine:
        _check_front(store, folder, batch, settled(marks(Pages(store, folder))), after)
        take(store, folder, run, batch)
        there = runs(store, folder)
        mine = [one for one in there if one.run == run]
    if there[-1] != mine[-1]:
        raise PenstockError(
            f"run {run} of the query has been overtaken by run {there[-1].run}, which began with batch {there[-1].first} and writes the "
            f"ledger {store.given}/{folder} now: two queries cannot share a ledger; stop one of them, and give a copy a new checkpoint"
        )
    return mine[-1].epoch


def take(store: Store, folder: str, run: str, batch: int) -> None:
    """Register a run under the next number."""
    there = runs(store, folder)
    epoch = 1 + (there[-1].epoch if there else 0)
    store.put(f"{folder}/runs/{epoch:04}-{batch:09}-{run}.json", sealed({"epoch": epoch, "first_batch": batch, "run": run}))


def _check_front(store: Store, folder: str, batch: int, settled: int, after: Sequence[Attempt]) -> None:
    """Refuse a run whose first batch lies behind what is there: its checkpoint is a copy or an old one."""
    names = store.names(f"{folder}/manifests")
    attempts = [one for one in map(attempt_in, names) if one is not None]
    found = [one.batch for one in attempts]
    found += [int(match[1]) for match in map(_OLD_PAGE.fullmatch, store.names(f"{folder}/batches")) if match]
    newest = max(found, default=-1)
    where = f"{store.given}/{folder}"
    if settled >= batch:
        raise PenstockError(
            f"the checkpoint is behind its ledger {where}: it would play batch {batch}, but batches up to {settled} are settled, and their "
            "outputs would be made twice. Use the checkpoint that the ledger was written with, or a new one"
        )
    if newest > batch:
        raise PenstockError(
            f"the checkpoint is behind its ledger {where}: it would play batch {batch}, but batches up to {newest} are there; it is a copy "
            f"or an old one. Use the checkpoint that the ledger was written with; or take over with `penstock ledger rewind {store.given} "
            f"--to {batch - 1}`, which discards batches {batch} to {newest} of the ledger"
        )
    rivals = [(one.epoch, one.batch) for mine in after for one in attempts if one.batch == mine.batch and one.epoch > mine.epoch]
    if rivals:
        epoch, again = max(rivals)
        raise PenstockError(
            f"batch {again} of the ledger {where}, which this checkpoint has committed, has been played again by run {epoch}, from a copy "
            "of the checkpoint or an old one: two queries cannot share a ledger. Continue with that one, or use a new checkpoint"
        )
    lacking = [one.stem for one in after if f"{one.stem}.json" not in set(names)]
    if lacking:
        raise PenstockError(
            f"the ledger {where} lacks what the checkpoint names as its last: {', '.join(lacking)}. Bring back the whole ledger, or use a "
            "new checkpoint"
        )
