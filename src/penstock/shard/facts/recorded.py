"""What becomes known of the relations of a join, written to its ledger: from it settling knows which facts a batch saw."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.ledger.ledger import Ledger
from penstock.ledger.relation_pages import relations_of
from penstock.shard.cells import SHARD
from penstock.shard.facts.known import END, Known, key
from penstock.shard.facts.shard_facts import ShardFacts

FACT, KNOWN = "fact", "known"


def changed_facts(which: int, now: Known, before: Known | None, shards: int) -> pa.Table:
    """The facts of a relation that are new since, or have ended since, with their numbers, their shards and the values of their links.

    >>> from penstock.core.facts import Through
    >>> from penstock.shard.facts.known import cells_of
    >>> through = [Through.parse("f", ["R.x = a", "b = S.y"], "RS")]
    >>> facts = pa.table({"key0": ["p", "q"], "key1": [7, 7], "begin": [0, 5], "end": [9, 9]})
    >>> was = facts.slice(0, 1).set_column(3, "end", pa.array([99]))
    >>> was, now = (Known(through, cells_of([table], through)) for table in (was, facts))
    >>> changed_facts(0, now, was, 1).select(["fact", "key0", "end"]).to_pydict()
    {'fact': [0, 1], 'key0': ['p', 'q'], 'end': [9, 9]}
    """
    table = now.tables[which]
    there = 0 if before is None else len(before.tables[which])
    ended = np.empty(0, np.int64)
    if before is not None:
        ended = np.flatnonzero(np.asarray(table[END])[:there] != np.asarray(before.tables[which][END]))
    chosen = np.concatenate([ended, np.arange(there, len(table))])
    taken = table.take(pa.array(chosen))
    for link, slot in enumerate(now.slots[which]):
        at = taken.column_names.index(key(link))
        taken = taken.set_column(at, key(link), now.distinct[slot].take(taken[key(link)].combine_chunks()))
    taken = taken.append_column(SHARD, pa.array(now.places(which, shards)[chosen]))
    return taken.append_column(FACT, pa.array(chosen)).append_column(KNOWN, pa.array(chosen < there))


def write_changes(ledger: Ledger, facts: ShardFacts) -> None:
    """Write what has changed in the relations of a shard since the batch before, and take note of the last pages."""
    before = facts.sent.open(facts.before) if facts.before else None
    last = []
    for which, pages in enumerate(relations_of(ledger.plan)):
        page = facts.pages[which] if facts.pages else None
        if page is None or facts.versions[which] != facts.before[which]:
            table = changed_facts(which, facts.known, before, facts.shards)
            page = pages.write_changes(ledger.store, ledger.folder, ledger.plan, table, facts.versions[which], page)
        last.append(page)
    facts.pages = tuple(last)
