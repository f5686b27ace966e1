"""Put a new state into a checkpoint so that an interruption, wherever it comes, loses nothing and does not pass unnoticed.

    <checkpoint>.rewriting             the draft: the checkpoint with the new rows of one operator
    <checkpoint>.rewriting/begun       which backup belongs to this attempt
    <checkpoint>.rewriting/ready       what is left to do, once draft and backup are whole
    <checkpoint>.before-rewrite-at-7   the backup: a copy of the old checkpoint

Until `ready` is there the checkpoint is untouched, and the next attempt removes what is left of this one. From then on it goes only
forward: the last commit is made unreadable, so that no query can start on a state that is half old, half new; the state is replaced; the
commit gets its text, and the draft is deleted. The next attempt does all of it again.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from penstock.core.errors import PenstockError
from penstock.spark.reshard.checkpoint import Checkpoint

UNREADABLE = "(a rewrite of this checkpoint was interrupted: run the same `penstock reshard` again, which completes it)"
"""In place of the version of a commit; Spark's error shows it."""
_BEGUN, _READY = "begun", "ready"


@dataclass(frozen=True)
class Swap:
    """What is left to do once draft and backup are whole."""

    batch: int
    operator: int
    commit: str  # the text that belongs to the new state
    backup: str
    purpose: str | None  # what the rewriting was for


def draft_of(files: Checkpoint) -> str:
    """Where the new state is made."""
    return f"{files.root}.rewriting"


def begin(files: Checkpoint, batch: int, operator: int) -> str:
    """A draft without rows, and where the backup will be."""
    abandon(files)
    backup = f"{files.root}.before-rewrite-at-{batch}"
    if files.exists(backup):
        raise PenstockError(f"checkpoint must have no backup of batch {batch} yet, got {backup}: move it away")
    _put(files, _BEGUN, backup)
    files.stage(draft_of(files), operator)
    return backup


def abandon(files: Checkpoint) -> None:
    """Remove what an attempt has left that did not come to change the checkpoint."""
    draft = draft_of(files)
    files.delete(f"{draft}/{_READY}")
    if files.exists(f"{draft}/{_BEGUN}"):
        files.delete(files.text(f"{draft}/{_BEGUN}"))
    files.delete(draft)


def unfinished(files: Checkpoint) -> Swap | None:
    """The swap that was interrupted; none where the query has gone on from the old state since."""
    name = f"{draft_of(files)}/{_READY}"
    found = Swap(**json.loads(files.text(name))) if files.exists(name) else None
    return found if found is not None and found.batch == files.last_committed() else None


def prepared(files: Checkpoint, swap: Swap) -> Swap:
    """A swap that can no longer fail for want of anything: the backup is made, and what is left to do is written down."""
    files.copy(files.root, swap.backup)
    _put(files, _READY, json.dumps(asdict(swap)))
    return swap


def carry_out(files: Checkpoint, swap: Swap) -> str:
    """Replace the state by that of the draft, for the first time or again; where the backup is."""
    draft, state = draft_of(files), f"state/{swap.operator}"
    commit = f"{files.root}/commits/{swap.batch}"
    files.write(commit, UNREADABLE + "\n")
    files.delete(f"{files.root}/{state}")
    files.copy(f"{draft}/{state}", f"{files.root}/{state}")
    files.write(commit, swap.commit)
    for name in (_BEGUN, _READY):  # from here on the backup is the user's, and the draft is of no use
        files.delete(f"{draft}/{name}")
    files.delete(draft)
    return swap.backup


def _put(files: Checkpoint, name: str, text: str) -> None:
    """Write a file of the draft that is whole or not there."""
    draft = draft_of(files)
    files.write(f"{draft}/{name}.part", text)
    files.rename(f"{draft}/{name}.part", f"{draft}/{name}")
