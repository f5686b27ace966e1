"""The facts of relations in a ledger: what linked the tuples, written once, so that settling joins through the same. Spark-free.

facts/3fa94c….parquet    the facts of a relation: a number for each value that a link compares, times, weight, what joined rows show
      3fa94c….json       its checksum, written last
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.core.errors import PenstockError
from penstock.ledger.ledger import LedgerPlan
from penstock.ledger.sealed import sealed, unsealed
from penstock.ledger.store import Store

BEGIN, END, WEIGHT = "_begin", "_end", "_weight"


@dataclass(frozen=True)
class RelationPages:
    """One relation in a ledger: the streams that it links, the slots of these links, and the columns that joined rows show."""

    name: str
    file: str  # which names what is in it
    streams: tuple[int, ...]
    slots: tuple[int, ...]
    weighted: bool
    shown: tuple[str, ...]

    def columns(self, plan: LedgerPlan) -> dict[str, str]:
        """What joined rows show of it: columns of its page, and their names in the result."""
        names = [field["name"] for field in json.loads(plan.schema)["fields"]]
        return {f"c{names.index(name)}": name for name in self.shown}

    def write(self, store: Store, folder: str, plan: LedgerPlan, table: pa.Table) -> None:
        """Write its facts, where they are not there yet; columns are as in a page, those of links `key` and the slot."""
        if store.read(f"{folder}/facts/{self.file}.json") is not None:
            return
        columns = {f"_key{slot}": table[f"key{at}"] for at, slot in enumerate(self.slots)}
        columns |= {BEGIN: table["begin"], END: table["end"]} | ({WEIGHT: table["weight"]} if self.weighted else {})
        shown = {own: table[f"={name}"] for own, name in self.columns(plan).items()}
        columns |= {own: column for own, column in shown.items() if not pa.types.is_null(column.type)}  # no void in Parquet
        sink = pa.BufferOutputStream()
        pq.write_table(pa.table(columns), sink, compression="zstd")
        page = sink.getvalue()
        store.put(self.place(folder), page)
        store.put(f"{folder}/facts/{self.file}.json", sealed({"sha256": hashlib.sha256(page).hexdigest()}))

    def place(self, folder: str) -> str:
        """Where its facts are."""
        return f"{folder}/facts/{self.file}.parquet"

    def check(self, store: Store, folder: str) -> None:
        """Refuse facts that are not what was written."""
        page, where = store.read(self.place(folder)), f"{folder}/facts/{self.file}.json"
        wanted = unsealed(store.read(where), where).get("sha256")
        if page is None or hashlib.sha256(page).hexdigest() != wanted:
            told = "missing" if page is None else "damaged: its checksum is not the one that it was written with"
            raise PenstockError(f"archive must be a whole ledger: {self.place(folder)}, the facts of relation {self.name}, is {told}")


def relations_of(plan: LedgerPlan) -> list[RelationPages]:
    """The relations that link the streams of a ledger.

    >>> relations_of(LedgerPlan("j", ("l", "r"), 1, (("k",), ()), (10, 10), None, None, "{}", False))
    []
    """
    found: Any = json.loads(plan.links)
    return [
        RelationPages(one["name"], one["file"], tuple(one["streams"]), tuple(one["slots"]), one["weighted"], tuple(one["shown"]))
        for one in ([] if found is None else found.get("relations", []))
    ]
