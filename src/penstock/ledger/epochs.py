"""Epochs: each run of a query takes the next number in its ledger, so that of two runs the older one fails. Spark-free.

    runs/0002-000000012-<run id>.json    the second run began with batch 12

The name has the run, so all shards of a run write the same file, and no store has to create a file exclusively: of two runs that take the
same number, the one whose name is larger wins.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from penstock.core.errors import PenstockError
from penstock.ledger.ledger import Ledger, Pages
from penstock.ledger.manifest import Attempt, attempt_in
from penstock.ledger.sealed import sealed, unsealed
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
    def file(self) -> str:
        """The name of its record in the ledger."""
        return f"runs/{self.epoch:04}-{self.first:09}-{self.run}.json"

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
        _check_front(store, folder, batch, settled(marks(Pages(store, folder))), after, {one.epoch: one.run for one in there})
        take(store, folder, run, batch, after)
        there = runs(store, folder)
        mine = [one for one in there if one.run == run]
    if there[-1] != mine[-1]:
        raise PenstockError(
            f"run {run} of the query has been overtaken by run {there[-1].run}, which began with batch {there[-1].first} and writes the "
            f"ledger {store.given}/{folder} now: two queries cannot share a ledger; stop one of them, and give a copy a new checkpoint"
        )
    return mine[-1].epoch


def take(store: Store, folder: str, run: str, batch: int, after: Sequence[Attempt] = ()) -> None:
    """Register a run under the next number, with the attempts that it follows, as far as the shard that takes it knows them.

    Its shards start together, so another one may have registered it a moment ago: a second number would make two runs of one.
    """
    there = runs(store, folder)
    if any(one.run == run for one in there):
        return
    epoch = 1 + (there[-1].epoch if there else 0)
    record = {"epoch": epoch, "first_batch": batch, "run": run, "after": [one.stem for one in after]}
    store.put(f"{folder}/{Run(epoch, batch, run).file}", sealed(record))


def since_rewind(there: Sequence[Run]) -> list[Run]:
    """The runs after the last rewind: what older ones wrote may have been discarded."""
    last = max((one.epoch for one in there if one.is_rewind), default=0)
    return [one for one in there if one.epoch > last]


def followed_by(store: Store, folder: str, run: Run) -> list[Attempt] | None:
    """The attempts that a run followed, as its record names them; None: it was written before they were named."""
    where = f"{folder}/{run.file}"
    facts = unsealed(store.read(where), where)
    if "after" not in facts:
        return None
    named = facts["after"] if isinstance(facts["after"], list) else [facts["after"]]
    found = [attempt for attempt in (attempt_in(f"{stem}.json") for stem in named) if attempt is not None]
    if len(found) != len(named):
        raise PenstockError(f"archive must be a whole ledger: {where} is damaged, it is no record of a run as Penstock writes them")
    return found


def _check_front(store: Store, folder: str, batch: int, settled: int, after: Sequence[Attempt], ran: Mapping[int, str]) -> None:
    """Refuse a run whose first batch lies behind what is there: its checkpoint is a copy or an old one. `ran` is the run of each epoch."""
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
    again = ((mine, one) for mine in after for one in attempts if one.batch == mine.batch and one.epoch > mine.epoch)
    # An earlier release could give one run two numbers.
    rivals = [(one.epoch, one.batch) for mine, one in again if ran.get(one.epoch, "") != ran.get(mine.epoch)]
    if rivals:
        epoch, played = max(rivals)
        raise PenstockError(
            f"batch {played} of the ledger {where}, which this checkpoint has committed, has been played again by run {epoch}, from a copy "
            "of the checkpoint or an old one: two queries cannot share a ledger. Continue with that one, or use a new checkpoint"
        )
    lacking = [one.stem for one in after if f"{one.stem}.json" not in set(names)]
    if lacking:
        raise PenstockError(
            f"the ledger {where} lacks what the checkpoint names as its last: {', '.join(lacking)}. Bring back the whole ledger, or use a "
            "new checkpoint"
        )
