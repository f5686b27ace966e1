"""A shard <-> Spark's state: cost follows what has changed, not what is held.

The truth is in the state: the blocks of payload, each written once; a snapshot of the engine, now and then; and since then a log of the
rows that were played, which the engine plays again when it must be rebuilt. An engine is deterministic, so that gives the same
memory. A snapshot is written when the log would become larger than it. local_copy.py spares most batches the reading.
"""

from __future__ import annotations

import io
import json
import uuid
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from penstock.core.batch import Batch
from penstock.core.errors import PenstockError
from penstock.core.trace import Ints
from penstock.ledger.manifest import Attempt
from penstock.policies.ep import Ep
from penstock.policies.table import POLICIES
from penstock.shard.keys import packed_names, unpacked_names
from penstock.shard.shard import Result, Shard
from penstock.shard.shard_plan import ShardPlan
from penstock.shard.shares.next_shares import equal_share
from penstock.shard.state import local_copy as local
from penstock.shard.state.state_settings import FINISHES, check_settings, made_with, settings, with_free
from penstock.shard.waiting_rows import FACTS, ROWS

_CHUNK = 8 << 20  # bytes of a snapshot or log in one cell
_TUPLE = 100  # bytes of a tuple in a snapshot, about
_PAST = 25  # bytes of a row of the past in a snapshot, about
_ENTRY = 17  # bytes of a row in a log, at least
_LEAST = 1 << 16  # a log of so many bytes needs no snapshot
_FILTERED, _SEEN = "filtered", "relations seen"


def is_join(properties: str) -> bool:
    """Whether the properties of a stateful operator, as Spark keeps them, are those of a join of ours."""
    found = json.loads(properties) if properties else {}
    return {one["stateName"] for one in found.get("stateVariables", [])} == {"head", "cells"}


class Cells(Protocol):
    """A map of binary cells by kind and number, as Spark's map state is."""

    def updateValue(self, key: tuple[str, int], value: tuple[bytes]) -> None: ...  # noqa: N802
    def removeKey(self, key: tuple[str, int]) -> None: ...  # noqa: N802
    def iterator(self) -> Iterator[tuple[Any, Any]]: ...


class ShardState:
    """The state of one shard: `open` it, `save` it after each batch."""

    def __init__(self, plan: ShardPlan, number: int, get_head: Callable[[], Any], set_head: Callable[[Any], None], cells: Cells) -> None:
        self.plan, self.number = plan, number
        self.get_head, self.set_head, self.cells = get_head, set_head, cells
        self.head: Any = None  # as it was read

    def open(self, nearby: Path | None) -> Shard:
        """The shard as it was after the last committed batch, under the settings of now."""
        head = self.head = self.get_head()
        if head is None:
            return Shard(self.plan, self.number)
        was = made_with(head)
        policy, named = was["fixed"]["policy"], self.plan.options.get("switches") or {}
        if self.plan.auto and policy in POLICIES:
            self.plan = _played_by(self.plan, policy=policy)
        if self.plan.options["policy"] == policy == Ep.name and FINISHES not in named:
            self.plan = _played_by(self.plan, switches={**named, FINISHES: was["fixed"]["switches"][FINISHES]})
        now = settings(self.plan)
        check_settings(was, now)
        changed = was["free"] != now["free"]
        shard = None if nearby is None or changed else local.pick_up(nearby, str(head[0]), self.plan, self.number)
        if shard is None:
            shard = self._rebuild(head, was["free"])
        if "holding" in was:
            shard.holding.restore(was["holding"])
        shard.n_null, shard.n_filtered = int(head[6]), int(was.get(_FILTERED, 0))
        if shard.facts is not None:
            shard.facts.restore(was.get(_SEEN, {}))
        if changed:
            shard = _moved(shard, self.plan, self.number)
        shard.attempts = [Attempt(*one) for one in was.get("attempts", [])]
        return shard

    def _rebuild(self, head: Any, free: dict[str, Any]) -> Shard:
        """Read everything: the last snapshot, the log since then, the blocks."""
        found: dict[str, dict[int, bytes]] = {kind: {} for kind in ("snapshot", "log", "block", "judged", FACTS, ROWS)}
        for (kind, number), (cell,) in self.cells.iterator():
            found[kind][int(number)] = bytes(cell)
        shard = Shard(with_free(self.plan, free), self.number)
        if found["snapshot"]:
            _restore(shard, b"".join(_cell(found["snapshot"], number, "snapshot") for number in range(int(head[2]))))
        for number in range(int(head[3]), int(head[4])):
            _replay(shard, _cell(found["log"], number, "log"))
        shard.aside.restore(found[FACTS].get(0), found[ROWS])
        shard.reserve(shard.aside.used(shard.problem.budget))
        shard.payload.restore(found["block"], shard.engine.retained())
        shard.judged.restore(found["judged"], shard.meter.watched(shard.engine))
        return shard

    def save(self, shard: Shard, result: Result, clocks: Ints, nearby: Path | None) -> None:
        """Write what a batch has changed since `open`."""
        head = self.head
        _, _, n_snapshot, first_log, next_log, log_bytes = (head or ("", "", 0, 0, 0, 0))[:6]
        for kind, changes in result.changes.items():
            for number, cell in changes.items():
                self._put(kind, number, cell)
        held = shard.engine.totals.retained + (0 if shard.meter.shadow is None else shard.meter.shadow.totals.retained)
        room = min(_CHUNK, max(_LEAST, _TUPLE * held + _PAST * len(shard.meter.past)) - log_bytes)
        alike = shard.engine.is_repeatable and (head is None or _settings_in(head[1]) == settings(shard.plan))
        entry = _log_entry(shard, result, clocks) if alike and _ENTRY * len(result.batch) <= room else b""
        if entry and len(entry) <= room:
            self._put("log", next_log, entry)
            next_log, log_bytes = next_log + 1, log_bytes + len(entry)
        else:
            chunks = _chunks(shard)
            for number in range(max(len(chunks), n_snapshot)):
                self._put("snapshot", number, chunks[number] if number < len(chunks) else None)
            for number in range(first_log, next_log):
                self._put("log", number, None)
            n_snapshot, first_log, log_bytes = len(chunks), next_log, 0
        mark = uuid.uuid4().hex
        self.set_head((mark, _settings_text(shard), n_snapshot, first_log, next_log, log_bytes, shard.n_null))
        if nearby is not None:
            local.leave(nearby, mark, shard, result.changes)

    def _put(self, kind: str, number: int, cell: bytes | None) -> None:
        if cell is None:
            self.cells.removeKey((kind, number))
        else:
            self.cells.updateValue((kind, number), (cell,))


def whole(shard: Shard) -> tuple[tuple[Any, ...], dict[tuple[str, int], bytes]]:
    """All of a shard as a state that nobody has written yet: its head and its cells."""
    chunks = _chunks(shard)
    cells = {("snapshot", number): chunk for number, chunk in enumerate(chunks)}
    for kind, store in (("block", shard.payload), ("judged", shard.judged)):
        cells |= {(kind, number): block.pack() for number, block in store.blocks.items()}
    cells |= {(kind, number): cell for kind, found in shard.aside.cells().items() for number, cell in found.items()}
    return (uuid.uuid4().hex, _settings_text(shard), len(chunks), 0, 0, 0, shard.n_null), cells


def _settings_text(shard: Shard) -> str:
    """What is in the head beside numbers: the settings, the last attempts in the ledger, and what the shard holds of the memory."""
    beside: dict[str, Any] = {"attempts": shard.attempts} if shard.attempts else {}
    if shard.plan.shared is not None or not shard.holding.is_equal:
        beside["holding"] = shard.holding.facts()
    if shard.n_filtered:
        beside[_FILTERED] = shard.n_filtered
    if shard.facts is not None and shard.facts.versions:
        beside[_SEEN] = shard.facts.told()
    return json.dumps(settings(shard.plan) | beside)


def _settings_in(text: str) -> dict[str, Any]:
    return {name: value for name, value in json.loads(text).items() if name not in ("attempts", "holding", _FILTERED, _SEEN)}


def _played_by(plan: ShardPlan, **options: Any) -> ShardPlan:
    """The plan with other options of the engine: those that a state keeps where nobody names them."""
    return replace(plan, options=plan.options | options)


def _moved(old: Shard, plan: ShardPlan, number: int) -> Shard:
    """The same shard under other free settings: what a smaller budget has no room for is shed at once."""
    new = Shard(plan, number)
    if old.problem.budget.in_bytes != new.problem.budget.in_bytes:
        was, now = ("bytes" if one.problem.budget.in_bytes else "rows" for one in (old, new))
        raise PenstockError(
            f"memory must stay in {was} over a restart, got {plan.options['memory']!r} per shard, which is in {now}; use a new checkpoint"
        )
    new.holding.restore(old.holding.facts())
    new.caps = new.holding.caps
    new.go_on(old.engine.snapshot())
    new.meter.restore(old.meter.snapshot())
    new.book, new.payload, new.judged, new.trimmed = old.book, old.payload, old.judged, old.trimmed
    new.n_null, new.n_filtered = old.n_null, old.n_filtered
    if new.facts is not None and old.facts is not None:
        new.facts.restore(old.facts.told())
    new.aside = old.aside.under(plan)
    new.reserve(new.aside.used(new.problem.budget))
    new.trim()
    return new


def _log_entry(shard: Shard, result: Result, clocks: Ints) -> bytes:
    names, numbers = result.names
    columns = {name: column for name, column in vars(result.batch).items() if column is not None}
    columns["stream"] = columns["stream"].astype(np.int8)
    used = shard.aside.used(shard.problem.budget)
    columns |= {"aside": used} if used.any() else {}
    columns |= {} if shard.holding.is_equal else {"share": shard.holding.share}
    columns |= {} if shard.facts is None or not shard.facts.versions else {"versions": np.array(shard.facts.versions)}
    return zipped(
        columns
        | {
            "clocks": clocks,
            "names": packed_names(names),
            "numbers": numbers,
            "next": np.array([shard.book.next, result.late]),
        }
    )


def _replay(shard: Shard, cell: bytes) -> None:
    entry = unzipped(cell)
    clocks, names, numbers, after = (entry.pop(name) for name in ("clocks", "names", "numbers", "next"))
    shard.book.enter(unpacked_names(names), numbers)
    shard.see(tuple(entry.pop("versions", np.empty(0)).tolist()))
    shard.book.next, late = (int(value) for value in (*after.reshape(-1), 0)[:2])  # older logs have no second number
    shard.hold(entry.pop("share", equal_share(len(shard.holding.share))))
    shard.reserve(entry.pop("aside", np.zeros(1, np.int64)))
    shard.replay(Batch(**entry | {"stream": entry["stream"].astype(np.int64)}), clocks)
    shard.engine.count_late(late)


def _chunks(shard: Shard) -> list[bytes]:
    state = _snapshot(shard)
    return [state[at : at + _CHUNK] for at in range(0, len(state), _CHUNK)]


def _snapshot(shard: Shard) -> bytes:
    meter = shard.meter.snapshot()
    state: dict[str, Any] = {"engine": np.frombuffer(shard.engine.snapshot(), np.uint8)}
    shadow, total = meter.pop("shadow"), meter.pop("total")
    state |= {f"meter.{name}": np.asarray(value) for name, value in meter.items()}
    state |= {f"total.{name}": np.asarray(value) for name, value in total.items()}
    state["shadow"] = np.frombuffer(shadow or b"", np.uint8)
    book = shard.book
    state |= {} if shard.holding.is_equal else {"share": shard.holding.share}
    state |= {"trimmed": shard.trimmed, "trimmed_at": np.array(shard.trimmed_at)}  # by reshard; the next batch reports them
    return zipped(state | {"names": packed_names(book.names), "numbers": book.number, "next": np.array([book.next, book.calm])})


def _restore(shard: Shard, cell: bytes) -> None:
    state = unzipped(cell)
    trust = shard.plan.trust
    if "share" in state:
        shard.hold(state["share"])
        shard.reserve(np.zeros(1, np.int64))  # nothing is held yet
    shard.go_on(state["engine"].tobytes(), trust=trust)
    meter: dict[str, Any] = {name.removeprefix("meter."): value for name, value in state.items() if name.startswith("meter.")}
    meter["total"] = {name.removeprefix("total."): float(value) for name, value in state.items() if name.startswith("total.")}
    shard.meter.restore(meter | {"shadow": state["shadow"].tobytes() or None}, trust=trust)
    shard.book.enter(unpacked_names(state["names"]), state["numbers"])
    shard.book.next, shard.book.calm = (int(value) for value in state["next"])
    if "trimmed" in state:  # older snapshots have none
        shard.trimmed, shard.trimmed_at = state["trimmed"], int(state["trimmed_at"])


def zipped(arrays: dict[str, Any]) -> bytes:
    """Arrays by name as one value."""
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def unzipped(cell: bytes) -> dict[str, Any]:
    """The arrays in a value."""
    try:
        with np.load(io.BytesIO(cell), allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (ValueError, OSError, EOFError, KeyError, NotImplementedError, zipfile.BadZipFile) as error:
        raise PenstockError(f"the state is damaged: a snapshot or log of a shard cannot be read ({error})") from None


def _cell(found: dict[int, bytes], number: int, kind: str) -> bytes:
    if number not in found:
        raise PenstockError(f"the state is damaged: {kind} {number} of a shard is missing")
    return found[number]
