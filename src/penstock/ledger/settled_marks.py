"""Which batches of a ledger may be settled, which have been, and how far back the next settlement must look. Spark-free.

batch     0   1   2   3   4   5   6
          settled | to be settled | not committed
                  since           through
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from penstock.core.errors import PenstockError
from penstock.ledger.ledger import BATCH_RUN, Pages, hull
from penstock.ledger.manifest import Attempt, Span, attempt_in
from penstock.ledger.sealed import sealed, unsealed
from penstock.ledger.store import Store

NOTHING = -1
"""Before the first batch."""
_STRETCHES = 64  # that a mark describes at most

Folder = str | os.PathLike[str]
Stretch = tuple[int, int, list[Span | None]]
"""Some batches, first and last, and by stream the times of what arrived in them."""


@dataclass(frozen=True)
class Mark:
    """A settlement: the outputs of the batches after `since` up to `through` are in `to`; `rows` is None until they all are."""

    since: int
    through: int
    to: str
    rows: int | None
    stretches: list[Stretch]
    heads: list[Attempt] = field(default_factory=list)  # the last attempts that are settled

    def write(self, pages: Pages) -> None:
        """Set the mark in the ledger; a second attempt at the same settlement overwrites it.

        One that is finished has a second copy, set first: whoever loses one of them has the other.
        """
        for kind in ("done", "from") if self.rows is not None else ("from",):
            pages.store.put(f"{pages.folder}/settled/{kind}-{self.since + 1:09}.json", sealed(asdict(self)))


def marks(pages: Pages) -> list[Mark]:
    """The settlements so far, in order; the last of them may be unfinished."""
    names = {kind: [name for name in pages.store.names(f"{pages.folder}/settled") if name.startswith(kind)] for kind in ("from", "done")}
    found = [_mark(pages, name) for name in names["from"]]
    receipts = [_mark(pages, name) for name in names["done"]]
    for receipt in receipts:  # finished, even if the mark itself does not know yet
        own = [mark for mark in found if mark.since == receipt.since]
        if not own:
            raise PenstockError(f"archive must be a whole ledger: {pages.folder}/settled/from-{receipt.since + 1:09}.json is missing")
        found = [receipt if mark.rows is None and mark.since == receipt.since else mark for mark in found]
    found = sorted(found, key=lambda mark: mark.since)
    for before, after in zip([None, *found], found, strict=False):
        end = NOTHING if before is None else before.through
        if after.since != end and (before is None or before.rows is not None):
            raise PenstockError(f"archive must be a whole ledger: {pages.folder}/settled/from-{end + 1:09}.json is missing")
    return found


def _mark(pages: Pages, name: str) -> Mark:
    where = f"{pages.folder}/settled/{name}"
    facts = unsealed(pages.store.read(where), where, bare=lambda found: set(found) == {"since", "through", "to", "rows", "stretches"})
    try:
        found = _read(facts, len(pages.plan.streams))
    except (ValueError, TypeError, KeyError, AttributeError):
        raise PenstockError(f"archive must be a whole ledger: {where} is damaged, it is no mark as Penstock writes them") from None
    if f"{found.since + 1:09}" != name[5:].removesuffix(".json"):
        raise PenstockError(f"archive must be a whole ledger: {where} is of another settlement, from batch {found.since + 1} on")
    return found


def _read(facts: Any, streams: int) -> Mark:
    """A mark from its JSON; any error where it is none."""
    spans = [(first, last, [None if span is None else (span[0], span[1]) for span in by]) for first, last, by in facts["stretches"]]
    mark = Mark(**(facts | {"stretches": spans, "heads": [Attempt(*one) for one in facts.get("heads", [])]}))
    whole = [mark.since, mark.through, *([] if mark.rows is None else [mark.rows])]
    whole += [number for first, last, by in spans for number in (first, last, *(end for span in by if span is not None for end in span))]
    if any(type(number) is not int for number in whole) or type(mark.to) is not str or any(len(by) != streams for _, _, by in spans):
        raise ValueError
    if any(attempt_in(f"{one.stem}.json") != one for one in mark.heads):
        raise ValueError
    return mark


def settled(found: Iterable[Mark]) -> int:
    """The last batch that is settled."""
    return max((mark.through for mark in found if mark.rows is not None), default=NOTHING)


def query_of(checkpoint: str | os.PathLike[str]) -> str:
    """The id of the query that writes to this checkpoint."""
    store = Store(checkpoint, "checkpoint")
    text = store.read("metadata")
    try:
        found = json.loads(text or b"{}")["id"]
        if not isinstance(found, str) or not found:
            raise TypeError
        return found
    except (ValueError, KeyError, TypeError, RecursionError):
        trouble = "no query has written there" if text is None else "its file metadata names no query"
        raise PenstockError(f"checkpoint must be the checkpoint folder of a query, got {store.given!r}: {trouble}") from None


def last_commit(checkpoint: str | os.PathLike[str]) -> int:
    """The last batch in the commit log of a query."""
    return max((int(name) for name in Store(checkpoint, "checkpoint").names("commits") if name.isdecimal()), default=NOTHING)


def last_certain(batches: Iterable[int], query: str) -> int:
    """The last of these batches that counts where no commit log is at hand.

    A batch is known to be committed once a later one has begun; and a run over DataFrames that do not stream is one batch, which counts.

    >>> last_certain([0, 1, 4], "7f3a"), last_certain([0, 1, 4], "batch-7f3a"), last_certain([0], "7f3a")
    (1, 4, -1)
    """
    known = [NOTHING, *sorted(set(batches))]
    return known[-1] if query.startswith(BATCH_RUN) else known[-2] if len(known) > 2 else NOTHING


def stretches(spans: dict[int, list[Span | None]]) -> list[Stretch]:
    """The times of batches, a few together where there are many.

    >>> stretches({3: [(1, 2), None], 4: [(0, 1), (5, 5)]})
    [(3, 3, [(1, 2), None]), (4, 4, [(0, 1), (5, 5)])]
    """
    batches = sorted(spans)
    size = -(-len(batches) // _STRETCHES)
    groups = [batches[begin : begin + size] for begin in range(0, len(batches), size or 1)]
    return [(group[0], group[-1], together(spans[batch] for batch in group)) for group in groups]


def together(spans: Iterable[Sequence[Span | None]]) -> list[Span | None]:
    """By stream, the span of all."""
    out: list[Span | None] = []
    for own in spans:
        out = [hull(one, other) for one, other in zip(out, own, strict=True)] if out else list(own)
    return out


def reach(found: Iterable[Mark], since: int, windows: Sequence[int | None], new: Sequence[Span | None], begins: int | None = None) -> int:
    """The earliest batch with a tuple that may match a new one, or by a fact that begins at `begins`; `since + 1` where there is none.

    Of what no mark describes, anything may match.
    """
    known = sorted(stretch for mark in found if mark.through <= since for stretch in mark.stretches)
    after = 0  # the first batch that has not been looked at
    for mark in sorted((mark for mark in found if mark.through <= since), key=lambda mark: mark.since):
        after = mark.through + 1 if mark.since < after else after
    near = [first for first, _, spans in known if first < after and (_meet(spans, windows, new) or _goes_on(spans, begins))]
    return min(near) if near else min(after, since + 1)


def _goes_on(old: Sequence[Span | None], begins: int | None) -> bool:
    """Whether there is a tuple of this time or a later one."""
    return begins is not None and any(span is not None and span[1] >= begins for span in old)


def _meet(old: Sequence[Span | None], windows: Sequence[int | None], new: Sequence[Span | None]) -> bool:
    """Whether a tuple of these times and a new one, of another stream, may be in one combination."""
    for i, mine in enumerate(old):
        for k, theirs in enumerate(new):
            if i != k and mine is not None and theirs is not None:
                low, high = bounds(theirs, windows[k], windows[i])
                if (low is None or mine[1] > low) and (high is None or mine[0] < high):
                    return True
    return False


def bounds(new: Span, own: int | None, other: int | None) -> tuple[int | None, int | None]:
    """Between which times (both excluded) the partners of new tuples are, given the windows of these and of the partners.

    >>> bounds((100, 110), 5, 20)
    (80, 115)
    """
    return None if other is None else new[0] - other, None if own is None else new[1] + own
