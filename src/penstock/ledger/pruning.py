"""Deleting what no settlement can need any more, and going back behind what a checkpoint does not know; both leave a record. Spark-free."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import uuid4

from penstock.core.errors import PenstockError
from penstock.core.trace import LIMIT
from penstock.ledger.attempts import manifests, refuse
from penstock.ledger.epochs import REWIND, take
from penstock.ledger.ledger import Page, Pages
from penstock.ledger.manifest import Attempt
from penstock.ledger.relation_pages import beyond_begin
from penstock.ledger.sealed import sealed, unsealed
from penstock.ledger.settled_marks import Mark, marks, settled


@dataclass(frozen=True)
class Removed:
    """What was deleted of a ledger: batches from `first` to `last` (none, where `last` is before it), in so many files."""

    first: int
    last: int
    files: int


def pruned(pages: Pages) -> int:
    """The first batch that has not been pruned."""
    names = [name for name in pages.store.names(f"{pages.folder}/pruned") if name.endswith(".json")]
    found = []
    for name in names:
        where = f"{pages.folder}/pruned/{name}"
        before = unsealed(pages.store.read(where), where).get("before")
        if isinstance(before, bool) or not isinstance(before, int) or before < 0:
            raise PenstockError(f"archive must be a whole ledger: {where} is damaged, it must have the number of a batch, got {before!r}")
        found.append(before)
        if name != f"before-{found[-1]:09}.json":
            raise PenstockError(f"archive must be a whole ledger: {where} is the record of another pruning, before batch {found[-1]}")
    return max(found, default=0)


def prune(pages: Pages, before: int | None = None) -> Removed:
    """Delete the pages of batches before this one (default: of as many as can go), and record it.

    Refused, where they are not settled or may still match a tuple that keeps its promise of lateness. The last batch that is settled stays.
    """
    known = [mark for mark in marks(pages) if mark.rows is not None]
    done = settled(known)
    if before is not None and (isinstance(before, bool) or not isinstance(before, int) or before < 0):
        raise PenstockError(f"before must be the number of a batch, got {before!r}")
    if before is not None and before > done:
        raise PenstockError(f"before must be at most the last settled batch, {done}, got {before}: what is not settled cannot be pruned")
    idle = _unmatched(pages, known)
    if before is not None and before > idle:
        also = ", or facts link them" if pages.plan.grows else ""
        raise PenstockError(f"before must be at most {idle}, got {before}: later tuples may still match those of batch {idle}{also}")
    floor = pruned(pages)
    upto = max(floor, idle if before is None else before)
    gone = [one for one in _all(pages) if one.batch < upto]
    if not gone and upto == floor:
        return Removed(floor, floor - 1, 0)
    record = {"before": upto, "from": floor, "files": [one.stem if isinstance(one, Attempt) else one.name for one in gone]}
    pages.store.put(f"{pages.folder}/pruned/before-{upto:09}.json", sealed(record))
    return Removed(floor, upto - 1, _delete(pages, gone))


def _unmatched(pages: Pages, known: Sequence[Mark]) -> int:
    """The first batch that a later tuple may match, if promises are kept."""
    done = settled(known)
    if not known:
        return 0
    heads, wrong = manifests(pages, known[-1].heads)
    refuse(wrong)
    if not heads:
        raise PenstockError(
            "archive must have been settled by this release before it can be pruned: older marks do not name what they settled"
        )
    begins = _least([one.begins for one in heads.values()]) if pages.plan.grows else LIMIT  # of facts that are not known yet
    begins = None if begins is None else begins - beyond_begin(pages.plan)
    promised = [_least([one.promised[stream] for one in heads.values()]) for stream in range(len(pages.plan.streams))]
    for mark in known:
        for first, _, spans in mark.stretches:
            for i, (span, window) in enumerate(zip(spans, pages.plan.windows, strict=True)):
                earliest = _least([time for k, time in enumerate(promised) if k != i])
                meets = span is not None and (window is None or earliest is None or span[1] > earliest - window)
                if meets or (span is not None and (begins is None or span[1] >= begins)):
                    return min(first, done)
    return done


def _least(times: Sequence[int | None]) -> int | None:
    known = [time for time in times if time is not None]
    return min(known) if len(known) == len(times) else None


def rewind(pages: Pages, to: int) -> Removed:
    """Discard all that the ledger has of batches after `to`, so that a checkpoint of that batch may go on; and shut out runs of before."""
    known = marks(pages)
    if isinstance(to, bool) or not isinstance(to, int) or to < -1:
        raise PenstockError(f"to must be the number of a batch, got {to!r}")
    if settled(known) > to:
        raise PenstockError(
            f"to must be at least the last settled batch, {settled(known)}, got {to}: outputs that are settled would be made twice"
        )
    gone = [one for one in _all(pages) if one.batch > to]
    last = max((one.batch for one in gone), default=to)
    take(pages.store, pages.folder, f"{REWIND}{uuid4().hex[:8]}", to + 1)
    record = {"to": to, "files": [one.stem if isinstance(one, Attempt) else one.name for one in gone]}
    pages.store.put(f"{pages.folder}/rewound/to-{to:09}-from-{last:09}.json", sealed(record))
    for mark in known:
        if mark.rows is None and mark.through > to:
            pages.store.delete(f"{pages.folder}/settled/from-{mark.since + 1:09}.json")
    return Removed(to + 1, last, _delete(pages, gone))


def _all(pages: Pages) -> list[Attempt | Page]:
    return [*pages.attempts(), *pages.bare()]


def _delete(pages: Pages, gone: Sequence[Attempt | Page]) -> int:
    """Delete manifests after their pages: whoever is interrupted finds them again."""
    for one in gone:
        pages.store.delete(pages.page(one).name if isinstance(one, Attempt) else one.name)
        if isinstance(one, Attempt):
            pages.store.delete(f"{pages.folder}/manifests/{one.stem}.json")
    return len(gone)
