"""The arrays of a join through relations, as compiled code sees them.

Each value of each link is a *cell*: it has its facts, its tuples in memory, and the rate at which such tuples arrive. So whatever is asked
about a value lies in one cache line.
"""

from __future__ import annotations

from typing import Any

import numpy as np

CELL = np.dtype(  # a value of a link
    [
        ("name", "i8"),  # the value times the number of links, plus the link
        ("rate", "f8"),  # of arrivals
        ("first", "i4"),  # its facts in `listed`: from here,
        ("facts", "i4"),  # so many
        ("tail", "i4"),  # chain of its tuples, by time: the last
        ("members", "i4"),
    ],
    align=True,
)
LISTED = np.dtype(  # a fact among those of one of its values, by begin
    [
        ("begin", "i8"),
        ("end", "i8"),
        ("until", "i8"),  # the largest end of a run of facts that ends here (finding_facts.py)
        ("fact", "i4"),
        ("other", "i4"),  # its cell at the other link, where its relation has two
    ],
    align=True,
)
ENDING = np.dtype([("end", "i8"), ("begin", "i8"), ("fact", "i4"), ("link", "i4")], align=True)  # a deleted fact, and its first link
STRAND = np.dtype([("cell", "i4"), ("before", "i4"), ("after", "i4")], align=True)  # of a tuple in the chain of a cell, by slot and link
TIE = np.dtype(  # a link, by its number
    [
        ("stream", "i8"),
        ("relation", "i8"),
        ("rank", "i8"),  # among the links of its stream
        ("first", "i8"),  # the first link of its relation
        ("last", "i8"),  # and the one behind its last
    ],
    align=True,
)
HOP = np.dtype(  # a step from what is bound to a fact, or from a fact to a tuple; by pivot's stream
    [
        ("binds_fact", "i8"),
        ("link", "i8"),  # that is followed
        ("stream", "i8"),  # of that link: bound already, or to be bound
        ("relation", "i8"),
    ],
    align=True,
)
PAST = np.dtype([("importance", "f8"), ("weight", "f8"), ("next", "i8")], align=True)  # past arrivals with one value and importance
FACT_ARRAYS: dict[str, Any] = {
    "cells": CELL,
    "named": np.int32,  # hash table of cells by name, -1 where empty
    "listed": LISTED,  # by cell
    "fact_cells": np.int32,  # by fact and link of its relation
    "fact_weights": np.float64,
    "endings": ENDING,
    "ties": TIE,
    "own_links": np.int64,  # by stream and rank: the link, -1 if none
    "hops": HOP,
    "last_past": np.int64,  # by cell: the last entry of its chain, -1 if none
    "past": PAST,
    "strands": STRAND,  # by slot and rank
    "ends": np.int64,  # by slot: when its window ends; it may leave earlier
}
HELD = ("strands", "ends")
"""Those that are of tuples, and grow with the memory; the others are of what is known."""
FACT_RULES = ("related", "relations", "hopping", "most_links", "span", "facts_weigh", "tops", "dynamic", "filters", "n_endings")
FACT_CHAINS = ("ended",)
FACT_COUNTS = ("settled", "n_filtered", "n_past")
BY_FACTS = 3
"""Of `Memory.indexed`: partners are found through relations."""
GROWS, STANDS = 1, 2
"""Of `Memory.growing`, through relations: rates grow with each arrival, or are known beforehand."""
FILTERED = -(1 << 62) - 1
"""When a row leaves that never comes in."""
