"""What a pipeline prints when it ends: what this run did, what the query has made, shed and lost in its life, and how to get that back."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from penstock.cli.output import number

if TYPE_CHECKING:
    from penstock.pipeline.recipe import Recipe

_COUNTED = {"n_input": "rows in", "n_output": "joined rows out"}


def summary(recipe: Recipe, events: Sequence[dict[str, Any]], *, stopped: bool = False) -> list[str]:
    """The lines, from the events of a run; of one that was `stopped` nobody knows whether there was anything new."""
    if not events:
        kept = recipe.sink["checkpoint"]
        nothing = f"nothing new in the sources{f' since the checkpoint in {kept}' if kept else ''}"
        return [*([] if stopped else [nothing]), *_unsettled(recipe)]
    counts = " and ".join(f"{number(sum(event.get(name) or 0 for event in events))} {what}" for name, what in _COUNTED.items())
    place = f" in {recipe.sink['path']}" if "path" in recipe.sink else ""
    run = f"{len(events)} batch{'' if len(events) == 1 else 'es'}: {counts}{place}"
    return [run, *life(events[-1]), *_debt(recipe, events[-1])]


def life(event: dict[str, Any]) -> list[str]:
    """The life of the query, as its last event knows it.

    >>> life(
    ...     {
    ...         "total_recall": 0.75,
    ...         "total_n_output": 3000,
    ...         "total_lost": 1000.0,
    ...         "total_lost_is_exact": True,
    ...         "total_n_input": 5000,
    ...         "total_n_shed": 4000,
    ...         "total_n_late": 2,
    ...     }
    ... )
    ['in the life of the query: recall 75.0 %, 3,000 joined rows made, 1,000 lost, 4,000 of 5,000 tuples shed, 2 late']
    """
    if event.get("total_recall") is None:
        return []
    exact = event.get("total_lost_is_exact") in (True, 1)
    ends = "" if exact else f" (between {100 * event['total_recall_low']:.1f} and {100 * event['total_recall_high']:.1f} %)"
    parts = [
        f"recall {100 * event['total_recall']:.1f} %{ends}",
        f"{number(int(event['total_n_output']))} joined rows made",
        f"{'' if exact else 'about '}{number(round(event['total_lost']))} lost",
        f"{number(int(event['total_n_shed']))} of {number(int(event['total_n_input']))} tuples shed",
    ]
    odd = {
        "total_n_done": "done, as promised",
        "total_n_late": "late",
        "total_n_ahead": "ahead of all others",
        "total_n_null": "without a time",
        "total_n_filtered": "that no fact links",
    }
    parts += [f"{number(int(event[name]))} {what}" for name, what in odd.items() if event.get(name)]
    return [f"in the life of the query: {', '.join(parts)}"]


def _debt(recipe: Recipe, event: dict[str, Any]) -> list[str]:
    """What is owed, and the command that writes it."""
    archive, checkpoint, lost = recipe.join["archive"], recipe.sink["checkpoint"], round(event.get("total_lost") or 0)
    if not lost:
        return []
    if archive is None:
        return ['what is lost cannot be made up for: with archive = "..." in [join], `penstock settle` could']
    owed = max(0, lost - _settled(archive, checkpoint))
    if not owed:
        return ["nothing is owed: what was lost has been settled"]
    about = "" if event.get("total_lost_is_exact") in (True, 1) else "about "
    return [f"{about}{number(owed)} outputs are owed; to get them: {_settle(recipe, '--to', _target(recipe))}"]


def _unsettled(recipe: Recipe) -> list[str]:
    """The batches of earlier runs whose outputs may be owed, and the commands: this run has no event that knows how many."""
    from penstock.core.errors import PenstockError
    from penstock.ledger.ledger import find
    from penstock.ledger.settled_marks import last_commit, marks, query_of, settled

    archive, checkpoint = recipe.join["archive"], recipe.sink["checkpoint"]
    if archive is None or checkpoint is None:
        return []
    try:
        first, last = settled(marks(find(archive, query=query_of(checkpoint)))) + 1, last_commit(checkpoint)
    except PenstockError:
        return []  # no query has written there yet
    if last < first:
        return []
    batches = f"batch {last} owes" if last == first else f"batches {first} to {last} owe"
    count, get = _settle(recipe, "--debt"), _settle(recipe, "--to", _target(recipe))
    return [f"what {batches} has not been settled; to count it: {count}; to get it: {get}"]


def _settle(recipe: Recipe, *options: str) -> str:
    """A command, as it is typed into a shell."""
    archive, checkpoint = recipe.join["archive"], recipe.sink["checkpoint"]
    return shlex.join(["penstock", "settle", archive, *(["--checkpoint", checkpoint] if checkpoint else []), *options])


def _target(recipe: Recipe) -> str:
    return f"{recipe.sink['path'].rstrip('/')}-settled" if "path" in recipe.sink else "settled"


def _settled(archive: str, checkpoint: str | None) -> int:
    """The outputs that settlements have written so far."""
    from penstock.core.errors import PenstockError
    from penstock.ledger.ledger import find
    from penstock.ledger.settled_marks import marks, query_of

    try:
        return sum(mark.rows or 0 for mark in marks(find(archive, query=None if checkpoint is None else query_of(checkpoint))))
    except PenstockError:
        return 0  # of several ledgers without a checkpoint nobody knows which it is
