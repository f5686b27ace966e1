"""What a settlement reads: the pages that count, of what is to be settled and of what may match it, all of them checked. Spark-free."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from penstock.core.errors import PenstockError
from penstock.ledger.attempts import StateHeads, followed, heads_of, manifests, refuse, wrong_pages
from penstock.ledger.ledger import Page, Pages
from penstock.ledger.manifest import Attempt, Manifest, Span
from penstock.ledger.pruning import pruned
from penstock.ledger.relation_pages import first_time
from penstock.ledger.settled_marks import NOTHING, Folder, Mark, last_certain, last_commit, marks, reach, settled, together
from penstock.ledger.store import Store


@dataclass(frozen=True)
class Choice:
    """The pages to read for the outputs of the batches after `since` up to `through`."""

    since: int
    through: int
    pages: list[Page] = field(default_factory=list)
    bare: list[Page] = field(default_factory=list)  # of release 0.1.0: nothing vouches for them
    spans: dict[int, list[Span | None]] = field(default_factory=dict)  # by batch, of what is new
    heads: list[Attempt] = field(default_factory=list)  # the last attempts that are settled
    lost: int = 0  # batches that were pruned, but may match: the last before `floor`
    floor: int = 0  # the first batch that has not been pruned
    facts: tuple[str, ...] = ()  # the last pages of relations that go on, by relation
    before: tuple[str, ...] = ()  # and those that were the last when it was settled before

    @property
    def times(self) -> list[Span | None]:
        """By stream, the times of what is new."""
        return together(self.spans.values())


def choose(
    pages: Pages,
    checkpoint: Folder | None,
    state: StateHeads,
    to: Folder | None = None,
    since: int | None = None,
    through: int | None = None,
) -> Choice:
    """Which pages to read; refused, where one that counts is missing or damaged."""
    # What is committed must be known before anything is listed: a batch that commits in between would count without its pages.
    newest = None if checkpoint is None else last_commit(checkpoint)
    there, bare, known = pages.attempts(), pages.bare(), marks(pages)
    if newest is not None and checkpoint is not None:
        check_commits(newest, checkpoint, there, bare, known)
    heads = heads_of(pages, newest, there, state)
    if newest is None:
        newest = max((one.batch for one in heads), default=last_certain((page.batch for page in bare), pages.query))
    asked, floor = since, pruned(pages)
    since, through = wanted(known, newest, to, since, through)
    if since + 1 < floor:
        _refuse_pruned(pages, asked, since, floor)
    if through <= since:
        _check_settled(known, since, heads)
        return Choice(since, since)
    new, before, wrong = followed(pages, heads, max(since + 1, floor), there)
    refuse(wrong)
    _check_follows(known, since, before, new)
    bottom = min((one.batch for one in new if one.continues), default=None if new or before else newest + 1)
    fresh = [one for one in new if one.batch <= through]
    loose = [] if bottom is None else [page for page in bare if since < page.batch <= min(bottom - 1, through)]
    spans = pages.spans(loose)
    for one in fresh:
        spans[one.batch] = together([*([spans[one.batch]] if one.batch in spans else []), one.spans])
    if not fresh and not loose:
        return Choice(since, since)
    facts, earlier = _last_facts(fresh), _last_facts(manifests(pages, before)[0].values())
    first = first_time(pages, facts, earlier) if earlier and facts != earlier else None
    begin = reach(known, since, pages.plan.windows, together(spans.values()), first) if since > NOTHING else 0
    old, _, wrong = followed(pages, before, max(begin, floor), there) if begin <= since else ([], set(), [])
    refuse(wrong)
    if begin <= since:
        bottom = min((one.batch for one in old if one.continues), default=bottom if old or before else newest + 1)
        loose = [] if bottom is None else [page for page in bare if begin <= page.batch <= min(bottom - 1, through)]
    counted = [one for one in (*old, *fresh) if one.sha256 is not None]
    refuse(wrong_pages(pages, counted))
    last = _last(fresh, before)
    chosen = [pages.page(one.attempt) for one in counted]
    return Choice(since, through, chosen, loose, spans, last, max(0, floor - begin), floor, facts, earlier)


def _last_facts(known: Iterable[Manifest]) -> tuple[str, ...]:
    """The last pages of facts in the last of these batches, by relation."""
    return max(((one.batch, one.facts) for one in known if one.facts), default=(NOTHING, ()))[1]


def _refuse_pruned(pages: Pages, asked: int | None, since: int, floor: int) -> None:
    if asked is not None:
        raise PenstockError(f"since must be at least {floor - 1}, got {asked}: the batches before {floor} were pruned")
    raise PenstockError(
        f"archive must be a whole ledger, but batches before {floor} were pruned, and hence settled, while the marks in "
        f"{pages.folder}/settled end with batch {since}: bring these back"
    )


def _last(fresh: list[Manifest], before: set[Attempt]) -> list[Attempt]:
    """The attempts among these that no other of them follows."""
    passed = {attempt for one in fresh for attempt in one.after}
    return sorted({*(one.attempt for one in fresh), *before} - passed)


def check_commits(newest: int, checkpoint: Folder, there: list[Attempt], bare: list[Page], known: list[Mark]) -> None:
    """Refuse a commit log that ends before what the ledger shows."""
    if settled(known) > newest:
        raise PenstockError(f"checkpoint must have the batches that are settled, up to {settled(known)}, but it ends with {newest}")
    begun, file = max([(NOTHING, ""), *((one.batch, one.stem) for one in there), *((page.batch, page.name) for page in bare)])
    if begun > newest + 1 and begun > (newest := last_commit(checkpoint)) + 1:  # the query may have gone on meanwhile
        raise PenstockError(
            f"checkpoint must have the commits of all batches that the ledger shows, got {Store(checkpoint, 'checkpoint').given!r}: {file} "
            f"says that {begun - 1} was committed, but the commit log ends with {newest}. It is an old one or a copy, or commits are gone"
        )


def _check_follows(known: list[Mark], since: int, before: set[Attempt], new: list[Manifest]) -> None:
    """What is to be settled must go on where the last settlement ended."""
    own = [mark for mark in known if mark.rows is not None and mark.through == since and mark.heads]
    if own and new and before != set(own[-1].heads):
        raise PenstockError(
            f"archive must go on after what is settled, up to batch {since}, but the batches after it follow others: "
            f"{', '.join(sorted(one.stem for one in before ^ set(own[-1].heads)))}"
        )


def _check_settled(known: list[Mark], since: int, heads: list[Attempt]) -> None:
    """What was settled must have been what this checkpoint committed."""
    own = [mark for mark in known if mark.rows is not None and mark.through == since and mark.heads]
    here = {one for one in heads if one.batch == since}
    if own and here and here != {one for one in own[-1].heads if one.batch == since}:
        raise PenstockError(
            f"checkpoint must be the one whose batches were settled, up to batch {since}, but it committed others: "
            f"{', '.join(sorted(one.stem for one in here))}. It is a copy, or one that was copied"
        )


def wanted(known: list[Mark], newest: int, to: Folder | None, since: int | None, through: int | None) -> tuple[int, int]:
    """After which batch to begin, and with which to end."""
    for what, value in (("since", since), ("through", through)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < NOTHING):
            raise PenstockError(f"{what} must be the number of a batch, got {value!r}")
    if through is not None and through > newest:
        raise PenstockError(f"through must be a committed batch, up to {newest}, got {through}")
    if since is not None and since > newest:
        raise PenstockError(f"since must be a committed batch, up to {newest}, or -1 for all, got {since}")
    if since is not None and through is not None and since > through:
        raise PenstockError(f"since must not be after through ({through}), got {since}")
    if to is None:
        return settled(known) if since is None else since, newest if through is None else through
    if since is not None:
        raise PenstockError("since cannot be chosen with to, where each settlement goes on behind the last; leave one of them out")
    target = Store(to, "to")
    for mark in known:
        if mark.rows is None and mark.since == settled(known) and mark.to != target.url:
            raise PenstockError(f"to must be {mark.to!r}, where a settlement was begun and not finished, got {target.given!r}")
    return settled(known), newest if through is None else through


def check_target(pages: Pages, target: Store, since: int) -> None:
    """Refuse to write beside outputs of this ledger that no mark knows of: its mark was lost, and they would be made again."""
    prefix = f"settlement={pages.folder}-"
    own = {f"{prefix}{mark.since + 1:09}" for mark in marks(pages) if mark.since <= since}
    strange = [name for name in target.names() if name.startswith(prefix) and name not in own]
    if strange:
        raise PenstockError(
            f"archive must be a whole ledger, but {target.given} has {', '.join(strange)}, which no mark in {pages.folder}/settled knows: "
            "bring the marks back, or move these outputs away to have them settled again"
        )
