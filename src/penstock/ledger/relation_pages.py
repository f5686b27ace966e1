"""The facts of relations in a ledger: what linked the tuples, written once, so that settling joins through the same. Spark-free.

facts/3fa94c….parquet    the facts of a relation: a number for each value that a link compares, times, weight, what joined rows show
      3fa94c….json       its checksum, written last

Where a relation goes on, there is a page for each version of it that a batch saw: the facts that are new since the version before, and
those that have ended since, with the values that links compare. Each names the page before it:

facts/3fa94c…-000000007.parquet
      3fa94c…-000000007.json    its checksum, and the version before: 4
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
        if store.read(f"{self._stem(folder)}.json") is None:
            self._put(store, self._stem(folder), self._columns(plan, table), {})

    def write_changes(self, store: Store, folder: str, plan: LedgerPlan, table: pa.Table, version: int, before: int | None) -> None:
        """Write what has changed from the version `before` on, where it is not there yet.

        `table` also has `fact`, `shard`, and whether the fact was `known` before, and has ended.
        """
        numbers = {FACT: table["fact"], PLACE: table["shard"], VERSION: pa.array([version] * len(table), pa.int64())}
        begins = pc.min(table["begin"].filter(pc.invert(table["known"]))).as_py()
        if store.read(f"{self._stem(folder, version)}.json") is None:
            told = {"before": before, "begins": begins}
            self._put(store, self._stem(folder, version), numbers | self._columns(plan, table), told)

    def _columns(self, plan: LedgerPlan, table: pa.Table) -> dict[str, Any]:
        columns = {f"_key{slot}": table[f"key{at}"] for at, slot in enumerate(self.slots)}
        columns |= {BEGIN: table["begin"], END: table["end"]} | ({WEIGHT: table["weight"]} if self.weighted else {})
        shown = {own: table[f"={name}"] for own, name in self.columns(plan).items()}
        return columns | {own: column for own, column in shown.items() if not pa.types.is_null(column.type)}  # no void in Parquet

    def _put(self, store: Store, stem: str, columns: dict[str, Any], told: dict[str, Any]) -> None:
        sink = pa.BufferOutputStream()
        pq.write_table(pa.table(columns), sink, compression="zstd")
        page = sink.getvalue()
        store.put(f"{stem}.parquet", page)
        store.put(f"{stem}.json", sealed({"sha256": hashlib.sha256(page).hexdigest()} | told))

    def _stem(self, folder: str, version: int | None = None) -> str:
        return f"{folder}/facts/{self.file}" + ("" if version is None else f"-{version:09}")

    def pages(self, store: Store, folder: str, version: int | None, since: int | None = None) -> list[tuple[str, dict[str, Any]]]:
        """The pages that have its facts, and what is recorded of them; refused, where one is not what was written.

        Where it goes on, those of the versions up to one, after the version `since`.
        """
        if version is None:
            return [(f"{self._stem(folder)}.parquet", self._checked(store, self._stem(folder)))]
        found = []
        last: int | None = version
        while last is not None and last != since:
            told = self._checked(store, self._stem(folder, last))
            found.append((f"{self._stem(folder, last)}.parquet", told))
            before = told.get("before", last)
            if before is not None and not (isinstance(before, int) and before < last):
                self._refuse(found[-1][0], "damaged: its record does not say what it goes on from")
            last = before
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


def first_begin(pages: Pages, versions: Sequence[int], since: Sequence[int]) -> int | None:
    """The first begin of a fact that became known after some versions, up to others; None where there is none."""
    found = [
        told.get("begins")
        for one, now, was in zip(relations_of(pages.plan), versions, since, strict=True)
        for _, told in one.pages(pages.store, pages.folder, now, was)
    ]
    return min((begin for begin in found if isinstance(begin, int)), default=None)


def relations_of(plan: LedgerPlan) -> list[RelationPages]:
    """The relations that link the streams of a ledger.

    >>> relations_of(LedgerPlan("j", ("l", "r"), 1, (("k",), ()), (10, 10), None, None, "{}", False))
    []
    """
    found: Any = json.loads(plan.links)
    told = [] if found is None else found.get("relations", [])
    ours = [{field.name: one[field.name] for field in fields(RelationPages) if field.name in one} for one in told]
    return [RelationPages(**one | {name: tuple(one[name]) for name in ("streams", "slots", "shown")}) for one in ours]
