"""The facts of relations in a ledger: what linked the tuples, written once, so that settling joins through the same. Spark-free.

facts/3fa94c….parquet    the facts of a relation: a number for each value that a link compares, times, weight, what joined rows show
      3fa94c….json       its checksum, written last

Where a relation goes on, there is a page for each version of it that a batch saw: the facts that are new since the version before, and
those that have ended since, with the values that links compare. Each names the page before it:

facts/3fa94c…-000000007-5b1e….parquet
      3fa94c…-000000007-5b1e….json    its checksum, and the page before: 3fa94c…-000000004-c07d…

The name bears the digest of what is in it, so that what an attempt has written that failed is in nobody's way: the manifests of the first
shard say which page is the last.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.core.errors import PenstockError
from penstock.core.trace import LIMIT
from penstock.ledger.ledger import Pages
from penstock.ledger.ledger_plan import LedgerPlan
from penstock.ledger.sealed import sealed, unsealed
from penstock.ledger.store import Store

BEGIN, END, WEIGHT = "_begin", "_end", "_weight"
FACT, VERSION, KNOWN, PLACE = "_fact", "_version", "_known", "_shard"
"""Where a relation goes on: the number of a fact, the version of its line, the version since which it is known, and its shard."""


@dataclass(frozen=True)
class RelationPages:
    """One relation in a ledger: the streams that it links, the slots of these links, and the columns that joined rows show."""

    name: str
    file: str  # which names what is in it
    streams: tuple[int, ...]
    slots: tuple[int, ...]
    weighted: bool
    shown: tuple[str, ...]
    grows: bool = False  # or another relation of the join does

    def columns(self, plan: LedgerPlan) -> dict[str, str]:
        """What joined rows show of it: columns of its page, and their names in the result."""
        names = [field["name"] for field in json.loads(plan.schema)["fields"]]
        return {f"c{names.index(name)}": name for name in self.shown}

    def write(self, store: Store, folder: str, plan: LedgerPlan, table: pa.Table) -> None:
        """Write its facts, where they are not there yet; columns are as in a page, those of links `key` and the slot."""
        stem = f"{folder}/facts/{self.file}"
        if store.read(f"{stem}.json") is None:
            self._put(store, stem, self._columns(plan, table), {})

    def write_changes(self, store: Store, folder: str, plan: LedgerPlan, table: pa.Table, version: int, before: str | None) -> str:
        """Write what has changed from the page `before` on, where it is not there yet; the name of the page.

        `table` also has `fact`, `shard`, and whether the fact was `known` before, and has ended.
        """
        numbers = {FACT: table["fact"], PLACE: table["shard"], VERSION: pa.array([version] * len(table), pa.int64())}
        columns = numbers | self._columns(plan, table)
        told = {"before": before, "version": version, "begins": pc.min(table["begin"].filter(pc.invert(table["known"]))).as_py()}
        digest = hashlib.sha256(json.dumps(told).encode() + _page(columns)).hexdigest()
        name = f"{self.file}-{version:09}-{digest[:32]}"
        if store.read(f"{folder}/facts/{name}.json") is None:
            self._put(store, f"{folder}/facts/{name}", columns, told)
        return name

    def _columns(self, plan: LedgerPlan, table: pa.Table) -> dict[str, Any]:
        columns = {f"_key{slot}": table[f"key{at}"] for at, slot in enumerate(self.slots)}
        columns |= {BEGIN: table["begin"], END: table["end"]} | ({WEIGHT: table["weight"]} if self.weighted else {})
        shown = {own: table[f"={name}"] for own, name in self.columns(plan).items()}
        return columns | {own: column for own, column in shown.items() if not pa.types.is_null(column.type)}  # no void in Parquet

    def _put(self, store: Store, stem: str, columns: dict[str, Any], told: dict[str, Any]) -> None:
        page = _page(columns)
        store.put(f"{stem}.parquet", page)
        store.put(f"{stem}.json", sealed({"sha256": hashlib.sha256(page).hexdigest()} | told))

    def pages(self, store: Store, folder: str, last: str | None, since: str | None = None) -> list[tuple[str, dict[str, Any]]]:
        """The pages that have its facts, and what is recorded of them; refused, where one is not what was written.

        Where it goes on, those up to the page `last`, after the page `since`.
        """
        if last is None:
            stem = f"{folder}/facts/{self.file}"
            return [(f"{stem}.parquet", self._checked(store, stem))]
        found: list[tuple[str, dict[str, Any]]] = []
        name: str | None = last
        while name is not None and name != since:
            told = self._checked(store, f"{folder}/facts/{name}")
            found.append((f"{folder}/facts/{name}.parquet", told))
            before, version = told.get("before", name), version_of(name)
            if before is not None and not (isinstance(before, str) and version_of(before) < version):
                self._refuse(found[-1][0], "damaged: its record does not say what it goes on from")
            name = before
        return found[::-1]

    def _checked(self, store: Store, stem: str) -> dict[str, Any]:
        """What is recorded of a page that is there and whole."""
        page, where = store.read(f"{stem}.parquet"), f"{stem}.json"
        told = unsealed(store.read(where), where)
        if page is None:
            self._refuse(f"{stem}.parquet", "missing")
        elif hashlib.sha256(page).hexdigest() != told.get("sha256"):
            self._refuse(f"{stem}.parquet", "damaged: its checksum is not the one that it was written with")
        return told

    def _refuse(self, page: str, trouble: str) -> None:
        raise PenstockError(f"archive must be a whole ledger: {page}, the facts of relation {self.name}, is {trouble}")


def _page(columns: dict[str, Any]) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink, compression="zstd")
    return sink.getvalue().to_pybytes()


def version_of(page: str) -> int:
    """The version of a relation that a page brings its facts to, by its name.

    >>> version_of(f"{'3f' * 32}-000000007-{'5b' * 16}")
    7
    """
    parts = page.split("-")
    return int(parts[1]) if len(parts) == 3 and parts[1].isdecimal() else -1


def first_time(pages: Pages, last: Sequence[str], since: Sequence[str]) -> int | None:
    """The first time of a row that may be in an output of a fact that became known after some pages, up to others; None: of none.

    What another relation links may come before the fact begins, by a window at most.
    """
    found = [
        told.get("begins")
        for one, now, was in zip(relations_of(pages.plan), last, since, strict=True)
        for _, told in one.pages(pages.store, pages.folder, now, was)
    ]
    begins = [begin for begin in found if isinstance(begin, int)]
    return min(begins) - beyond_begin(pages.plan) if begins else None


def beyond_begin(plan: LedgerPlan) -> int:
    """How long before a fact begins a row may come that is in an output of it: where several relations link the streams, a window.

    >>> beyond_begin(LedgerPlan("j", ("l", "r"), 1, (("k",), ()), (10, 10), None, None, "{}", False))
    0
    """
    if len(relations_of(plan)) < 2:
        return 0
    return LIMIT if None in plan.windows else max(window for window in plan.windows if window is not None)


def relations_of(plan: LedgerPlan) -> list[RelationPages]:
    """The relations that link the streams of a ledger.

    >>> relations_of(LedgerPlan("j", ("l", "r"), 1, (("k",), ()), (10, 10), None, None, "{}", False))
    []
    """
    found: Any = json.loads(plan.links)
    told = [] if found is None else found.get("relations", [])
    ours = [{field.name: one[field.name] for field in fields(RelationPages) if field.name in one} for one in told]
    return [RelationPages(**one | {name: tuple(one[name]) for name in ("streams", "slots", "shown")}) for one in ours]
