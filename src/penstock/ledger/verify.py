"""Checking a whole ledger: all that counts in it; from when to when it is good, and what is wrong. Spark-free."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TypeVar

from penstock.core.errors import PenstockError
from penstock.ledger.attempts import StateHeads, followed, heads_of, strangers, wrong_pages
from penstock.ledger.epochs import followed_by, runs, since_rewind
from penstock.ledger.ledger import Page, Pages, hull
from penstock.ledger.manifest import Attempt, Manifest, Span, attempt_in
from penstock.ledger.pruning import pruned
from penstock.ledger.relation_pages import relations_of
from penstock.ledger.sealed import unsealed
from penstock.ledger.settled_marks import Folder, Mark, last_certain, last_commit, marks
from penstock.ledger.settlement_pages import check_commits

T = TypeVar("T")


@dataclass(frozen=True)
class Good:
    """Batches in a row of which everything is there and as it was written, and the times of the tuples in them (microseconds)."""

    first: int
    last: int
    times: Span | None


@dataclass(frozen=True)
class LedgerReport:
    """What is good and what is wrong in a ledger."""

    name: str
    query: str
    good: list[Good] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    unverified: int = 0  # pages of release 0.1.0
    pruned: int = 0  # batches


def verify(pages: Pages, checkpoint: Folder | None, state: StateHeads) -> LedgerReport:
    """Check a ledger from its last committed batch back to its beginning."""
    wrong: list[str] = []

    def tried(check: Callable[[], T], otherwise: T) -> T:
        try:
            return check()
        except PenstockError as error:
            wrong.append(str(error))
            return otherwise

    newest = None if checkpoint is None else last_commit(checkpoint)
    there, bare = pages.attempts(), pages.bare()
    tried(lambda: _small_files(pages), None)
    done: list[Mark] = tried(lambda: marks(pages), [])
    if newest is not None and checkpoint is not None:
        tried(lambda: check_commits(newest, checkpoint, there, bare, done), None)
    floor = tried(lambda: pruned(pages), 0)
    heads: list[Attempt] = tried(lambda: heads_of(pages, newest, there, state), _newest(there, newest))
    named, behind = _said_by_runs(pages, [one.batch for one in there] + [page.batch for page in bare], floor)
    named |= {one for mark in done for one in mark.heads}
    known, missing = _all_that_counts(pages, {*heads, *named}, floor, there)
    missing += _without_manifests(pages, floor, there, newest)
    damaged = wrong_pages(pages, known) + _facts(pages, known)
    old = [page for page in _unverified(known, bare, newest, pages.query, heads) if page.batch >= floor]
    bad = {one.batch for one in map(attempt_in, _files([*missing, *damaged])) if one is not None}
    counted = {one.attempt for one in known}
    others = [text for text in strangers(pages, [one for one in there if one not in counted]) if text not in missing]
    told = list(dict.fromkeys([*wrong, *behind, *missing, *damaged, *others]))
    return LedgerReport(pages.plan.name, pages.query, _good(known, bad), told, len(old), floor)


def _newest(there: Sequence[Attempt], newest: int | None) -> list[Attempt]:
    """The last attempts that are there, where it cannot be said which of them count: what they follow can be checked all the same."""
    near = [one for one in there if newest is None or one.batch <= newest]
    last = max(((one.batch, one.epoch) for one in near), default=None)
    return [one for one in near if (one.batch, one.epoch) == last]


def _said_by_runs(pages: Pages, batches: Sequence[int], floor: int) -> tuple[set[Attempt], list[str]]:
    """The attempts that the runs since a rewind followed, which were committed therefore; and what is wrong with their records."""
    named: set[Attempt] = set()
    wrong = []
    end = max(batches, default=-1)
    for run in since_rewind(runs(pages.store, pages.folder)):
        try:
            after = followed_by(pages.store, pages.folder, run)
        except PenstockError as error:
            wrong.append(str(error))
            continue
        named |= set(after or ())
        # A batch without data does not reach the join, so the last one before a run may have left nothing.
        if after is None and run.first - 2 > max(end, floor - 1):
            told = f"says that batches before {run.first} were committed, but the ledger ends with batch {end}"
            wrong.append(f"{pages.folder}/{run.file} {told}")
    return named, wrong


def _without_manifests(pages: Pages, floor: int, there: Sequence[Attempt], newest: int | None) -> list[str]:
    """Pages of batches that have no manifests at all. The last batch may have begun, and what was before a rewind is discarded."""
    orphans, epochs = pages.orphans(), [one.epoch for one in runs(pages.store, pages.folder) if one.is_rewind]
    end = max((one.batch for one in (*there, *orphans)), default=-1) - 1 if newest is None else newest
    batches = {one.batch for one in there}
    gone = [one for one in orphans if floor <= one.batch <= end and one.batch not in batches and one.epoch > max(epochs, default=0)]
    return [f"page {pages.page(one).name} has no manifest" for one in gone]


def _all_that_counts(pages: Pages, heads: Iterable[Attempt], floor: int, there: Sequence[Attempt]) -> tuple[list[Manifest], list[str]]:
    """The manifests that count. Behind one that is missing, it goes on with the newest of its shard that is there."""
    heads, wrong = set(heads), set[str]()
    while True:
        known, _, missing = followed(pages, heads, floor, there)
        lost = [one for one in map(attempt_in, _files(missing)) if one is not None]
        wrong |= set(missing)
        behind = set()
        for one in lost:
            older = [other for other in there if other.shard == one.shard and other.batch < one.batch]
            end = max((other.batch for other in older), default=0)
            behind |= {max((other for other in older if other.batch == end), key=lambda other: other.epoch)} if older else set()
        if behind <= heads:
            return known, sorted(wrong)
        heads |= behind


def _unverified(known: Sequence[Manifest], bare: Sequence[Page], newest: int | None, query: str, heads: Sequence[Attempt]) -> list[Page]:
    """The pages of release 0.1.0 that count: all before the first manifest."""
    if heads or known:
        first = min((one.batch for one in known if one.continues), default=0)
        return [page for page in bare if page.batch < first]
    last = last_certain((page.batch for page in bare), query) if newest is None else newest
    return [page for page in bare if page.batch <= last]


def _small_files(pages: Pages) -> None:
    """The registers of runs, of what was pruned and of what was discarded."""
    for folder in ("runs", "pruned", "rewound"):
        for name in pages.store.names(f"{pages.folder}/{folder}"):
            unsealed(pages.store.read(f"{pages.folder}/{folder}/{name}"), f"{pages.folder}/{folder}/{name}")


def _facts(pages: Pages, known: Sequence[Manifest]) -> list[str]:
    """What is wrong with the facts of relations; where they go on, as the last batch knew them."""
    last = max(((one.batch, one.facts) for one in known if one.facts), default=(0, ()))[1]
    wrong = []
    for which, one in enumerate(relations_of(pages.plan)):
        try:
            if known and not one.grows:
                one.pages(pages.store, pages.folder, None)
            elif last:
                one.pages(pages.store, pages.folder, last[which])
        except PenstockError as error:
            wrong.append(str(error))
    return wrong


def _files(texts: Sequence[str]) -> list[str]:
    """The names of files in sentences about them."""
    return [word.rpartition("/")[2] for text in texts for word in text.replace(": ", " ").split() if word.endswith((".json", ".parquet"))]


def _good(known: Sequence[Manifest], bad: set[int]) -> list[Good]:
    """Stretches of batches without damage.

    >>> of = lambda batch: Manifest(batch, 0, 1, 1, (), 1, 1, None, ((batch, batch + 1), None), (None, None))
    >>> _good([of(batch) for batch in range(5)], {1, 2})
    [Good(first=0, last=0, times=(0, 1)), Good(first=3, last=4, times=(3, 5))]
    """
    out = []
    for _, group in groupby((one for one in known if one.batch not in bad), key=lambda one: sum(batch < one.batch for batch in bad)):
        stretch = list(group)
        times: Span | None = None
        for one in stretch:
            for span in one.spans:
                times = hull(times, span)
        out.append(Good(stretch[0].batch, stretch[-1].batch, times))
    return out
