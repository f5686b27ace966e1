"""Which attempts count: those that the state of the last committed batch names, and those that they follow. Spark-free.

batch     5           6           7           8
shard 0   run 1 <──── run 1 <──── run 2       run 2     batch 7 is the last that is committed: run 1 failed in it,
                            ╰──── run 1                 and what there is of batch 8 does not count yet
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from penstock.core.errors import PenstockError
from penstock.ledger.epochs import runs
from penstock.ledger.ledger import BATCH_RUN, READERS, Page, Pages
from penstock.ledger.manifest import Attempt, Manifest

StateHeads = Callable[[int], Sequence[Attempt]]
"""The last attempts of all shards, as the state after a batch names them."""
_PIECE = 1 << 20
_NAMED = 5  # of what is wrong, in a message
_FOREIGN = "is of the query"


def manifests(pages: Pages, attempts: Iterable[Attempt]) -> tuple[dict[Attempt, Manifest], list[str]]:
    """The manifests of these attempts, and what is wrong with others."""

    def one(attempt: Attempt) -> Manifest | str:
        name = f"{pages.folder}/manifests/{attempt.stem}.json"
        try:
            made = Manifest.of(pages.store.read(name), name)
        except PenstockError as error:
            return str(error)
        return made if made.query in (None, pages.query) else f"manifest {name} {_FOREIGN} {made.query!r}, not {pages.query!r}"

    wanted = list(attempts)
    with ThreadPoolExecutor(READERS) as pool:
        found = dict(zip(wanted, pool.map(one, wanted), strict=True))
    good = {attempt: made for attempt, made in found.items() if isinstance(made, Manifest)}
    return good, [made for made in found.values() if isinstance(made, str)]


def strangers(pages: Pages, attempts: Iterable[Attempt]) -> list[str]:
    """What is said of manifests that another query wrote: somebody copied them here."""
    return sorted(text for text in manifests(pages, attempts)[1] if f".json {_FOREIGN} " in text)


def followed(
    pages: Pages, heads: Iterable[Attempt], first: int, there: Collection[Attempt]
) -> tuple[list[Manifest], set[Attempt], list[str]]:
    """The manifests that count from these attempts back to batch `first`; those attempts before it that they follow; and what is wrong."""
    heads = set(heads)
    newest = max((one.batch for one in heads), default=-1)
    near = [one for one in there if first <= one.batch <= newest]
    known, _ = manifests(pages, near)
    out: dict[Attempt, Manifest] = {}
    before: set[Attempt] = set()
    wrong: list[str] = []
    while heads:
        attempt = heads.pop()
        if attempt in out:
            continue
        if attempt.batch < first:
            before.add(attempt)
        elif attempt in known:
            out[attempt] = known[attempt]
            heads |= set(known[attempt].after)
        else:
            wrong += manifests(pages, [attempt])[1]
    return sorted(out.values(), key=lambda one: (one.batch, one.shard)), before, sorted(wrong)


def heads_of(pages: Pages, newest: int | None, there: Collection[Attempt], state: StateHeads) -> list[Attempt]:
    """The last attempts of all shards that count; `newest` is the last batch in the commit log, where there is one."""
    if pages.query.startswith(BATCH_RUN):
        return heads_of_run(pages, there) if there or pages.version > 1 else []
    if newest is None:
        return heads_before(pages, there) if there else []
    return heads_at(pages, newest, there, state) if newest >= 0 else []


def heads_at(pages: Pages, newest: int, there: Collection[Attempt], state: StateHeads) -> list[Attempt]:
    """The last attempts of all shards once batch `newest` is committed; none, where all of that is of release 0.1.0.

    Where a single run is known to have been at that batch, and all its shards have left one manifest each, these are the ones. In any
    doubt the state says it, which takes longer; after a rewind too, since the checkpoint may be one that was given up then.
    """
    here = [one for one in there if one.batch == newest]
    known, wrong = manifests(pages, here)
    epochs, began = {one.epoch for one in here}, runs(pages.store, pages.folder)
    latest = max((run.epoch for run in began if run.first <= newest), default=None)
    certain = len(epochs) == 1 and (latest is None or epochs == {latest}) and not any(run.is_rewind for run in began)
    if certain and not wrong and _whole(known.values()):
        return sorted(known)
    if not there and pages.version == 1:
        return []
    return _from_state(pages, newest, state)


def _from_state(pages: Pages, newest: int, state: StateHeads) -> list[Attempt]:
    """What the state says; a query that runs may have gone on meanwhile and dropped that state, but then its next batch names them."""
    try:
        return list(state(newest))
    except PenstockError:
        found = _named_after(pages, newest, pages.attempts())
        if not found:
            raise
        return found


def _named_after(pages: Pages, newest: int, there: Collection[Attempt]) -> list[Attempt]:
    following, _ = manifests(pages, [one for one in there if one.batch == newest + 1])
    return _named(pages, following.values(), newest, there)


def heads_before(pages: Pages, there: Collection[Attempt]) -> list[Attempt]:
    """Without a checkpoint: the last attempts that were committed when the newest batch began; none, where it was the first."""
    newest = max(one.batch for one in there)
    epoch = max(one.epoch for one in there if one.batch == newest)
    known, wrong = manifests(pages, [one for one in there if (one.batch, one.epoch) == (newest, epoch)])
    refuse(wrong)
    named = {attempt for one in known.values() for attempt in one.after}
    if not named:
        return []
    end = max(one.batch for one in named)
    return _named(pages, known.values(), end, there) or refuse(
        [f"which attempts at batch {end} count cannot be determined, since some are missing, damaged or doubled; pass the checkpoint"]
    )


def _named(pages: Pages, following: Collection[Manifest], batch: int, there: Collection[Attempt]) -> list[Attempt]:
    """The attempts of all shards at a batch, as those that follow it name them; none, where these do not agree or some are missing.

    A batch is played by one run, so what a single shard names is enough.
    """
    named = {attempt for one in following for attempt in one.after}
    epochs = {attempt.epoch for attempt in named}
    if {attempt.batch for attempt in named} != {batch} or len(epochs) != 1:
        return []
    known, wrong = manifests(pages, [one for one in there if one.batch == batch and one.epoch in epochs])
    return sorted(known) if not wrong and named <= set(known) and _whole(known.values()) else []


def heads_of_run(pages: Pages, there: Collection[Attempt]) -> list[Attempt]:
    """The last attempts of a run over DataFrames that do not stream: its manifests record it."""
    known, wrong = manifests(pages, there)
    last = [one for one in known.values() if one.last]
    if wrong or not _whole(last):
        refuse(wrong or [f"the last manifests of {len(last)} shards are there: the run has not ended, or some are missing or doubled"])
    return sorted(one.attempt for one in last)


def wrong_pages(pages: Pages, counted: Iterable[Manifest]) -> list[str]:
    """What is wrong with the pages of these manifests: each is read whole, some at a time."""

    def one(manifest: Manifest) -> str | None:
        page: Page = pages.page(manifest.attempt)
        try:
            digest, size = hashlib.sha256(), 0
            with pages.store.open(page.name) as file:
                while piece := file.read(_PIECE):
                    digest.update(piece)
                    size += len(piece)
        except PenstockError:
            return f"page {page.name} is missing or cannot be read"
        if size != manifest.size:
            return f"page {page.name} is damaged: it has {size:,} bytes, not {manifest.size:,}"
        return None if digest.hexdigest() == manifest.sha256 else f"page {page.name} is damaged: its checksum is not that of its manifest"

    with ThreadPoolExecutor(READERS) as pool:
        return sorted(text for text in pool.map(one, [one for one in counted if one.sha256 is not None]) if text is not None)


def refuse(wrong: Sequence[str]) -> list[Attempt]:
    """Refuse a damaged ledger by the names of what is wrong, if anything is."""
    if wrong:
        rest = f"; and {len(wrong) - _NAMED} more, which `penstock ledger verify` lists" if len(wrong) > _NAMED else ""
        raise PenstockError(f"archive must be a whole ledger, but {'; '.join(wrong[:_NAMED])}{rest}")
    return []


def _whole(found: Collection[Manifest]) -> bool:
    """Whether all shards are there, each once."""
    counts = {one.shards for one in found}
    return len(counts) == 1 and sorted(one.shard for one in found) == list(range(counts.pop()))
