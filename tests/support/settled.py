"""Settling in plain Python, from the pages that a settlement chooses: the slow twin of `owed.py`, without Spark."""

from __future__ import annotations

from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from penstock.ledger.ledger import ARRIVED, BATCH, GONE, LEFT, ROW, STREAM, TIME, Pages, find
from penstock.ledger.manifest import Attempt
from penstock.ledger.settled_marks import Mark, stretches
from penstock.ledger.settlement_pages import Choice, check_target, choose
from penstock.ledger.store import Store

Outputs = Counter[tuple[int, ...]]


def outputs(pages: Pages, chosen: Choice) -> Outputs:
    """What is owed of the batches after `since`, by the rows of the members; keys in the first column of the key."""
    arrivals: list[list[dict[str, Any]]] = [[] for _ in pages.plan.streams]
    left: dict[int, int] = {}
    for page in (*chosen.pages, *chosen.bare):
        for row in pq.read_table(Path(pages.store.root) / page.name).to_pylist():
            if row[STREAM] == GONE:
                left[row[ROW]] = min(row[LEFT], left.get(row[ROW], row[LEFT]))
            else:
                arrivals[row[STREAM]].append(row)
    found: Outputs = Counter()
    for members in product(*arrivals):
        now = max(one[TIME] for one in members)
        alive = all(w is None or now - w < one[TIME] for w, one in zip(pages.plan.windows, members, strict=True))
        same = members[0]["_key0"] is not None and len({one["_key0"] for one in members}) == 1
        if alive and same and max(one[BATCH] for one in members) > chosen.since:
            if max(one[ARRIVED] for one in members) > min(left.get(one[ROW], 1 << 62) for one in members):
                found[tuple(one[ROW] for one in members)] += 1
    return found


def no_state(batch: int) -> list[Attempt]:
    raise AssertionError(f"the state after batch {batch} was asked for")


def settle(archive: Path, checkpoint: Path | None, to: Path, state: Any = no_state, through: int | None = None) -> tuple[Outputs, Choice]:
    """A settlement, with its marks; each of its outputs is a file in its folder."""
    pages = find(archive)
    chosen = choose(pages, checkpoint, state, to, None, through)
    target = Store(to, "to")
    check_target(pages, target, chosen.since)
    if chosen.through <= chosen.since:
        return Counter(), chosen
    mark = Mark(chosen.since, chosen.through, target.url, None, stretches(chosen.spans), chosen.heads)
    mark.write(pages)
    made = outputs(pages, chosen)
    target.put(f"settlement={pages.folder}-{chosen.since + 1:09}/rows", repr(sorted(made.elements())).encode())
    Mark(chosen.since, chosen.through, target.url, sum(made.values()), stretches(chosen.spans), chosen.heads).write(pages)
    return made, chosen
