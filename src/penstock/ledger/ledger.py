"""The ledger: what arrived in a shard, and what left it when, one Parquet file per batch and shard. Spark-free.

    <archive>/<name>-<query>/plan.json                      what settling must know of the join
                             batches/batch-…-shard-….parquet what one attempt at a batch did in one shard
                             manifests/batch-…-shard-….json  what it wrote, and which attempts it followed (manifest.py)
                             runs/0002-000000012-….json      the runs of the query (epochs.py)
                             settled/from-000000000.json     what has been settled (settled_marks.py)

A file is written whole or not at all, and an attempt that does the same writes the same files. In a page each stream has row groups
of its own, and so have the departures, so that a reader of one of them skips the others by their statistics. Our own columns begin
with an underscore; payload columns are called c0, c1, ... by their positions in the result, so that no name can meet one of ours.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.core.errors import PenstockError
from penstock.ledger.ledger_plan import TEXTS, LedgerPlan, is_function
from penstock.ledger.manifest import Attempt, Manifest, Span, attempt_in
from penstock.ledger.store import Store

BATCH, SHARD, STREAM, ROW, ARRIVED, LEFT, TIME, KEY, IMPORTANCE, EXPIRY = (
    "_batch", "_shard", "_stream", "_row", "_arrived", "_left", "_time", "_key", "_importance", "_expiry",
)  # fmt: skip
GONE = -1
"""The stream of rows that record departures."""
PLACES, SEEN = "_places", "_seen"
UNLINKED = -(1 << 20)
"""The stream of rows of the first stream that no fact linked when they came; one less of the second, and so on."""
ASIDE = -2
"""The stream of rows of the first stream that wait because they are ahead; -3 of the second, and so on."""
BATCH_RUN = "batch-"
"""Before the id of a run over DataFrames that do not stream: it has no commit log."""
_FILE = re.compile(r"batch-(\d+)-shard-(\d+)\.parquet")
READERS = 16
"""Files that are read at the same time."""


class Ledger:
    """The ledger of one query, to write.

    >>> from tempfile import TemporaryDirectory
    >>> plan = LedgerPlan("penstock", ("l", "r"), 1, (("k",), ()), (10, 10), None, None, '{"type": "struct", "fields": []}', False)
    >>> came = pa.table({"row": [0], "arrived": [1], "time": [5], "key0": ["a"], "k": ["a"]})
    >>> with TemporaryDirectory() as archive:
    ...     made = Ledger(archive, plan, "7f3a").write(12, 3, [came, None], pa.table({"row": [0], "left": [4]}), shards=4)
    ...     made.batch, made.shard, find(archive).attempts() == [made]
    (12, 3, True)
    """

    def __init__(self, archive: str | os.PathLike[str], plan: LedgerPlan, query: str, *, begins: bool = True) -> None:
        """Open it; a new one only where the query `begins`: what came before would be missing in it."""
        self.plan, self.query = plan, query
        self.store = Store(archive)
        self.folder = folder_of_query(plan.name, query)
        name = f"{self.folder}/plan.json"
        there = self.store.read(name)
        if there is None and not begins:
            raise PenstockError(
                f"archive must be the folder with the ledger of this query, {self.folder}, for as long as the query lives, got "
                f"{self.store.given!r}, where it is not: copy it there, or use a new checkpoint"
            )
        if there is None or _check_same(there, plan, query, f"{self.store.given}/{self.folder}") < plan.version:
            self.store.put(name, plan.text(query).encode())

    def write(
        self,
        batch: int,
        shard: int,
        arrived: Sequence[pa.Table | None],
        left: pa.Table,
        *,
        shards: int = 1,
        epoch: int = 1,
        after: Sequence[Attempt] = (),
        promised: Sequence[int | None] | None = None,
        continues: bool = False,
        last: bool = False,
        aside: Sequence[pa.Table | None] = (),
        unlinked: Sequence[pa.Table | None] = (),
        versions: Sequence[int] = (),
        facts: Sequence[str] = (),
        begins: int | None = None,
    ) -> Attempt:
        """Record what a whole batch did in a shard: a page, unless nothing happened, and then its manifest, which makes it count.

        * `arrived`, by stream: `row`, `arrived` (the instant, rising over the life of the shard), `time`, `key0`, ..., `importance` and
          `expiry` where there is one, and the payload.
        * `left`: `row` and `left`, the last instant in which it took part, for all that is no longer in memory.
        * `aside`, like `arrived`: what has come and waits because it is ahead. It arrives when it is played, or dropped.
        * `unlinked`, like `arrived`: rows that no fact linked when they came; `versions` of relations are those that the batch saw.
        * The rest is for the manifest.
        """
        seen = {f"{SEEN}{which}": version for which, version in enumerate(versions)}
        parts = [
            self._arrivals(stream, table)
            | ({STREAM: _constant(kind - stream, table.num_rows)} if kind else {})
            | {name: _constant(version, table.num_rows) for name, version in seen.items()}
            for kind, tables in ((0, arrived), (ASIDE, aside), (UNLINKED, unlinked))
            for stream, table in enumerate(tables)
            if table is not None and table.num_rows
        ]
        if left.num_rows:
            parts.append({STREAM: _constant(GONE, left.num_rows), ROW: left["row"], LEFT: left["left"]})
        page = _parquet([{BATCH: _constant(batch, n), SHARD: _constant(shard, n)} | part for n, part in _sized(parts)]) if parts else None
        manifest = Manifest(
            batch,
            shard,
            shards,
            epoch,
            tuple(after),
            rows=sum(n for n, _ in _sized(parts)),
            size=0 if page is None else page.size,
            sha256=None if page is None else hashlib.sha256(page).hexdigest(),
            spans=tuple(hull(_span(own), _span(other)) for own, other in zip(arrived, unlinked or [None] * len(arrived), strict=True)),
            promised=tuple(promised or [None] * len(arrived)),
            continues=continues,
            last=last,
            query=self.query,
            facts=tuple(facts),
            begins=begins,
        )
        made = manifest.attempt
        if page is not None:
            self.store.put(f"{self.folder}/batches/{made.stem}.parquet", page)
        self.store.put(f"{self.folder}/manifests/{made.stem}.json", manifest.text())
        return made

    def _arrivals(self, stream: int, table: pa.Table) -> dict[str, Any]:
        # A payload column may be called as one of those that travel with it, which come first.
        def column(name: str, at: int = 0) -> pa.ChunkedArray:
            return table.column(table.schema.get_all_field_indices(name)[at])

        ours = {STREAM: _constant(stream, table.num_rows), ROW: column("row"), ARRIVED: column("arrived"), TIME: column("time")}
        ours |= {f"_{name}": column(name) for name in self.plan.sent(stream)}
        if self.plan.has_importance:
            ours[IMPORTANCE] = column("importance")
        if self.plan.expires:
            ours[EXPIRY] = column("expiry")
        if self.plan.grows:
            ours[PLACES] = column("~places")
        return ours | {own: column(name, -1) for own, name in self.plan.columns(stream).items()}


class Page(NamedTuple):
    """A page of the ledger: what a batch did in a shard."""

    batch: int
    shard: int
    name: str


class Pages:
    """The ledger of one query, to read."""

    def __init__(self, store: Store, folder: str) -> None:
        self.store, self.folder = store, folder
        self.plan, self.query, self.version = LedgerPlan.of(store.read(f"{folder}/plan.json"), f"{folder}/plan.json")

    def attempts(self) -> list[Attempt]:
        """The attempts that have manifests, whether they count or not, by batch and shard."""
        found = (attempt_in(name) for name in self.store.names(f"{self.folder}/manifests") if name.endswith(".json"))
        return sorted(one for one in found if one is not None)

    def page(self, attempt: Attempt) -> Page:
        """The page of an attempt."""
        return Page(attempt.batch, attempt.shard, f"{self.folder}/batches/{attempt.stem}.parquet")

    def orphans(self) -> list[Attempt]:
        """The attempts that have a page and no manifest: it is written last."""
        found = (attempt_in(name) for name in self.store.names(f"{self.folder}/batches") if name.endswith(".parquet"))
        return sorted({one for one in found if one is not None} - set(self.attempts()))

    def bare(self) -> list[Page]:
        """The pages of release 0.1.0, which have no manifests, by batch and shard."""
        found = ((name, _FILE.fullmatch(name)) for name in self.store.names(f"{self.folder}/batches"))
        return sorted(Page(int(m[1]), int(m[2]), f"{self.folder}/batches/{name}") for name, m in found if m)

    def spans(self, bare: Iterable[Page]) -> dict[int, list[Span | None]]:
        """By batch, and in it by stream: the times of what arrived in pages without manifests, from the footers of the files."""
        found: dict[int, list[Span | None]] = {}
        bare = list(bare)
        with ThreadPoolExecutor(READERS) as pool:
            for page, own in zip(bare, pool.map(self._spans, bare), strict=True):
                known = found.setdefault(page.batch, [None] * len(self.plan.streams))
                found[page.batch] = [hull(*pair) for pair in zip(known, own, strict=True)]
        return found

    def _spans(self, page: Page) -> list[Span | None]:
        out: list[Span | None] = [None] * len(self.plan.streams)
        try:
            with self.store.open(page.name) as file:
                footer = pq.read_metadata(file)
        except pa.ArrowInvalid as error:
            raise PenstockError(f"archive must be a whole ledger: {page.name} is damaged: {error}") from None
        at = {footer.schema.column(number).path: number for number in range(footer.num_columns)}
        for number in range(footer.num_row_groups if TIME in at else 0):
            stream, time = (footer.row_group(number).column(at[name]).statistics for name in (STREAM, TIME))
            if stream.min >= 0:
                out[stream.min] = hull(out[stream.min], (time.min, time.max))
        return out


def hull(one: Span | None, other: Span | None) -> Span | None:
    """The span of both.

    >>> hull((3, 5), (4, 9)), hull(None, (1, 2))
    ((3, 9), (1, 2))
    """
    if one is None or other is None:
        return one or other
    return min(one[0], other[0]), max(one[1], other[1])


def find(archive: str | os.PathLike[str], *, name: str | None = None, query: str | None = None) -> Pages:
    """The one ledger of an archive, or the one of a join's name or a query's id."""
    store = Store(archive)
    if not store.exists():
        raise PenstockError(f"archive must be the folder that ps.join wrote its ledger to, got {store.given!r}: no such folder")
    ledgers, damaged = _ledgers(store)
    if not ledgers and not damaged:
        raise PenstockError(f"archive must be the folder that ps.join wrote its ledger to, got {store.given!r}: no ledger is in it")
    chosen = [one for one in ledgers if name in (None, one.plan.name) and query in (None, one.query)]
    for folder, error in damaged.items():
        if _may_be(folder, name, query):
            raise error
    if len(chosen) == 1:
        return chosen[0]
    wanted = " and ".join(f"{what} {value!r}" for what, value in (("name", name), ("query", query)) if value is not None)
    there = "; ".join(f"name {one.plan.name!r}, query {one.query!r}" for one in chosen or ledgers)
    if chosen:
        raise PenstockError(f"name and query must choose one of the {len(chosen)} ledgers in {store.given!r}: {there}")
    raise PenstockError(f"name and query must be those of a ledger in {store.given!r}, got {wanted}; there: {there}")


def _ledgers(store: Store) -> tuple[list[Pages], dict[str, PenstockError]]:
    """The ledgers of an archive; and the folders of those whose plan cannot be read, with what is wrong."""
    found: list[Pages] = []
    damaged = {}
    for folder in store.folders():
        if "plan.json" in store.names(folder):
            try:
                found.append(Pages(store, folder))
            except PenstockError as error:
                damaged[folder] = error
    return found, damaged


def _may_be(folder: str, name: str | None, query: str | None) -> bool:
    """Whether a folder may be that of a join's name and a query's id, as far as these are given.

    >>> [_may_be("one-q1", *wanted) for wanted in ((None, None), ("one", None), (None, "q1"), ("two", None), ("one", "q2"))]
    [True, True, True, False, False]
    """
    begin, end = ("" if text is None else _plain(text) for text in (name, query))
    return folder.startswith(begin and f"{begin}-") and folder.endswith(end and f"-{end}")


def folder_of_query(name: str, query: str) -> str:
    """The folder of a query's ledger: its plan has the names as they are.

    >>> folder_of_query("orders / clicks", "7f-1")
    'orders-clicks-7f-1'
    """
    return f"{_plain(name)}-{_plain(query)}"


def _plain(text: str) -> str:
    return re.sub("[^A-Za-z0-9._-]+", "-", text).strip("-._") or "join"


def _check_same(there: bytes, plan: LedgerPlan, query: str, where: str) -> int:
    """Refuse a plan that is not the one that was written; of which version that is. A function is not compared."""
    old, owner, version = LedgerPlan.of(there, f"{where}/plan.json")
    for name in ["query", *(field.name for field in fields(LedgerPlan))]:
        before, now = (owner, query) if name == "query" else (getattr(old, name), getattr(plan, name))
        if name in TEXTS:
            before, now = json.loads(before), json.loads(now)
        elif (name == "objective" and all(is_function(one) for one in (before, now))) or (name in ("zone", "ansi") and before is None):
            continue
        if before != now:
            raise PenstockError(
                f"{name} must stay as it is in the ledger {where!r} ({before!r}), got {now!r}; a changed join needs a new checkpoint"
            )
    return version


def _constant(value: int, n: int) -> pa.Array:
    return pa.array(np.full(n, value, dtype=np.int64))


def _span(table: pa.Table | None) -> Span | None:
    if table is None or not table.num_rows:
        return None
    found = pc.min_max(table.column(table.schema.get_all_field_indices("time")[0])).as_py()
    return found["min"], found["max"]


def _sized(parts: list[dict[str, Any]]) -> list[tuple[int, dict[str, Any]]]:
    return [(len(part[ROW]), part) for part in parts]


def _parquet(parts: list[dict[str, Any]]) -> pa.Buffer:
    """Columns of several kinds of rows as one file: each kind has its own row groups, in which the columns of the others are null."""
    kinds = {
        name: column.type for part in parts for name, column in part.items() if not pa.types.is_null(column.type)
    }  # no void in Parquet
    schema = pa.schema(list(kinds.items()))
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, schema, compression="zstd") as writer:
        for part in parts:
            n = len(part[ROW])
            columns = [part[name] if name in part else pa.nulls(n, kind) for name, kind in kinds.items()]
            writer.write_table(pa.table(columns, schema=schema))
    return sink.getvalue()
