"""The compiled engine: arrays around the loop of play.py, their growth, and snapshots."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from penstock.core.batch import Batch
from penstock.core.budget import OVERHEAD
from penstock.core.engine import Keep, Played, Progress, Ranking, Statistics, Totals
from penstock.core.errors import PenstockError
from penstock.core.memory import live_slots, relink
from penstock.core.play import Columns, Logs, play
from penstock.core.problem import Problem
from penstock.core.ranking import DRAW, GAIN_LOSS, MATCHES, PATIENCE, RATES, SCORE, rebuild, regroup
from penstock.core.state import ARRAYS, COUNTS, SUMS, Memory, attach
from penstock.core.trace import Ints
from penstock.core.window import DEAD, NEVER, expiries

_CHUNK = 1 << 18  # rows between two calls of the progress function


class FastEngine:
    """Plays batches with compiled code; see `penstock.core.engine`."""

    def __init__(self, problem: Problem, ranking: Ranking, statistics: Statistics, keep: Keep) -> None:
        self.problem, self.ranking, self.statistics, self.keep = problem, ranking, statistics, keep
        self.arrays, self.memory = _allocate(problem, ranking, slots=64, keys=64)
        self.origin: int | None = None
        seeds = np.random.SeedSequence(problem.seed).generate_state(2)
        self.memory.random1 = 1 + int(seeds[0]) % 2147483561
        self.memory.random2 = 1 + int(seeds[1]) % 2147483397

    @property
    def totals(self) -> Totals:
        """The counts so far."""
        at = self.memory
        counts = {name: int(at[name]) for name in ("n_input", "n_output", "n_shed", "n_expired", "n_late")}
        rest = {"peak_memory": int(at.peak), "retained": int(at.live), "n_steps": int(at.steps), "n_gains": int(at.gains)}
        return Totals(**counts, **rest, value=float(at.value))

    @property
    def structure_bytes(self) -> int:
        """What the engine's own arrays take, the tuples' own numbers (time, row, expiry, importance, key) included."""
        return sum(array.nbytes for array in self.arrays.values())

    def play(self, batch: Batch, progress: Progress | None = None) -> Played:
        """Play the next rows."""
        columns = self._columns(batch)
        n, budget = self.problem.n_streams, self.problem.budget
        logs = self._open_logs()
        position, stop, size = 0, 0, len(batch)
        while position < size:
            if position >= stop:
                stop = self._price(batch, columns, position)
            target = min(stop, position + _CHUNK) if progress else stop
            width = len(self.arrays["slots"]) + size if n > 2 or self.memory.inplace else max(n, 1)
            scratch = np.empty((n + 2, width), dtype=np.int64)
            reached = play(self.memory, budget.times, budget.caps, columns, position, target, logs, scratch)
            if reached < target:
                self._make_room(_instant_size(batch.time, reached))
                logs = _with_room(logs)
            if progress:
                progress(reached - position)
            position = reached
        self.memory.next_row += size
        kept = [log[:length].copy() for log, length in zip(logs[:5], logs.lengths, strict=True)]
        return Played(kept[0], kept[1].reshape(-1), kept[2].reshape(-1), kept[3], kept[4])

    def snapshot(self) -> bytes:
        """The state between two batches."""
        file = io.BytesIO()
        state = {f"memory.{name}": array for name, array in _export(self.memory, self.arrays).items()}
        state |= {f"statistics.{name}": np.asarray(array) for name, array in self.statistics.snapshot().items()}
        state["origin"] = np.array([NEVER if self.origin is None else self.origin])
        np.savez(file, **state)  # type: ignore[arg-type]
        return file.getvalue()

    def restore(self, state: bytes) -> None:
        """Go on from a snapshot."""
        with np.load(io.BytesIO(state), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        self.statistics.restore(_part(arrays, "statistics."))
        origin = int(arrays["origin"][0])
        self.origin = None if origin == NEVER else origin
        part = _part(arrays, "memory.")
        live = max(64, len(part["time"]))
        self.arrays, self.memory = _import(self.problem, self.ranking, part, slots=live, keys=live)

    def _open_logs(self) -> Logs:
        n, keep = self.problem.n_streams, self.keep
        kept = [(keep.outputs, n + 1), (keep.sheds, 1), (keep.expired, 1), (keep.retained, 2), (keep.series, n + 1)]
        logs = (np.empty((256, width if wanted else 0), dtype=np.int64) for wanted, width in kept)
        return Logs(*logs, lengths=np.zeros(5, dtype=np.int64), needed=np.zeros(5, dtype=np.int64))

    def _columns(self, batch: Batch) -> Columns:
        problem, ranking = self.problem, self.ranking
        if self.origin is None and len(batch):
            self.origin = int(batch.time[0])
        check_order(problem, batch.time, int(self.memory.now))
        expiry = expiries(
            problem.windows, batch.stream, batch.time, batch.lifetime, self.arrays["lanes"]["arrivals"],
            instantly=problem.switch("varying-window") == "instant",
        )  # fmt: skip
        row = np.arange(len(batch), dtype=np.int64) + self.memory.next_row
        nobody = (batch.key < 0) | (expiry == DEAD)
        one = np.ones(1)
        column = ranking.column
        return Columns(
            stream=np.ascontiguousarray(batch.stream, dtype=np.int64),
            time=np.ascontiguousarray(batch.time, dtype=np.int64),
            key=np.where(nobody, -1 - row, batch.key),
            expiry=expiry,
            importance=np.ones(len(batch)) if batch.importance is None else np.ascontiguousarray(batch.importance),
            score=one if column is None else column(batch, self.origin or 0),
            weight=(batch.size + OVERHEAD) if problem.budget.in_bytes and batch.size is not None else np.ones(1, np.int64),
            rates=np.empty((len(batch) if ranking.prices == RATES else 1, problem.n_streams)),
        )

    def _price(self, batch: Batch, columns: Columns, begin: int) -> int:
        """Fill in the rates from row `begin` on; where they end."""
        if self.ranking.prices != RATES:
            return len(batch)
        rates, stop, factor = self.statistics.rates(batch, begin)
        if factor != 1.0:
            self.arrays["groups"]["price"] *= factor ** (self.problem.n_streams - 1)
            self.memory.toll *= factor ** (self.problem.n_streams - 1)
        columns.rates[begin:stop] = rates
        return stop

    def _make_room(self, arrivals: int) -> None:
        """Move into larger arrays: twice as large, but not beyond what the budget can ever need."""
        memory, problem = self.memory, self.problem
        slots = len(self.arrays["slots"])
        needed = int(memory.live) + arrivals
        limit = needed if problem.budget.in_bytes else problem.budget.most + arrivals
        if slots < needed:
            slots = max(needed, min(2 * slots, limit))
        keys = len(self.arrays["keys"])
        needed = int(memory.live_keys) + arrivals
        if keys < needed:
            keys = max(needed, min(keys * 3 // 2, slots))
        if slots == len(self.arrays["slots"]) and keys == len(self.arrays["keys"]):
            return
        state = _export(memory, self.arrays)
        self.arrays, self.memory = _import(problem, self.ranking, state, slots=slots, keys=keys)


def check_order(problem: Problem, time: Ints, now: int) -> None:
    """Windows counted in rows depend on the order of arrival: refuse rows whose time decreases."""
    if any(w.kind == "rows" for w in problem.windows) and len(time):
        previous = np.concatenate([[now], time[:-1]])
        bad = np.flatnonzero(time < previous)
        if len(bad):
            at = bad[0]
            raise PenstockError(f"window rows:C needs times that do not decrease, got {time[at]} after {previous[at]} in row {at}")


def _allocate(problem: Problem, ranking: Ranking, *, slots: int, keys: int) -> tuple[dict[str, Any], Memory]:
    """Empty memory with room for `slots` tuples of `keys` keys; arrays that are not needed have length 1."""
    n, kind = problem.n_streams, ranking.kind
    levels = 2 if kind == GAIN_LOSS else 1
    leaves = max(2, keys)
    stale = keys * n if ranking.prices == MATCHES else 1
    sizes = {
        "lanes": n,
        "pools": problem.budget.caps.shape[1],
        "slots": slots,
        "ranks": slots if kind >= SCORE or not problem.steady else 1,
        "stragglers": slots,
        "draws": slots * n if kind == DRAW else 1,
        "keys": keys,
        "table": 1 << max(4, (2 * keys - 1).bit_length()),
        "groups": keys * n,
        "stale": stale,
        "stale_queue": stale,
        "nodes": levels * n * 2 * leaves if kind > DRAW else 1,
        "stack": 128,
        "fresh": slots,
        "waiting": 4 * PATIENCE * n,
    }
    arrays: dict[str, Any] = {name: np.zeros(sizes[name], dtype=dtype) for name, dtype in ARRAYS.items()}
    arrays["keys"][:] = np.arange(1, keys + 1)
    arrays["table"][:] = -1
    arrays["nodes"]["winner"] = -1
    arrays["nodes"]["due"] = NEVER
    arrays["slots"]["after"] = np.arange(1, slots + 1)
    for name in ("head", "tail", "top", "floor", "gained"):
        arrays["groups"][name] = -1
    lanes = arrays["lanes"]
    lanes["seen"] = -NEVER
    lanes["oldest"] = lanes["newest"] = -1
    lanes["length"] = [w.length for w in problem.windows]
    lanes["in_rows"] = [w.kind == "rows" for w in problem.windows]
    lanes["lateness"] = problem.lateness
    lanes["pool"] = problem.budget.pool
    memory = attach(arrays)
    memory.now = -NEVER
    memory.leaves = leaves
    memory.streams, memory.kind, memory.prices = n, kind, ranking.prices
    memory.first_score, memory.tied = ranking.first_score, ranking.ties
    memory.objective = 0 if problem.steady else problem.objective.code
    memory.inplace = problem.model == "inplace"
    memory.by_stream = problem.clock == "streams"
    memory.less = problem.switch("life-remaining") == "less-one"
    memory.newcomer_safe = problem.switch("rand-newcomer") == "safe"
    memory.mn_of_memory = ranking.prices == MATCHES and problem.switch("mn") == "memory"
    memory.weighted = problem.budget.in_bytes
    memory.alpha = np.nan if problem.alpha is None else problem.alpha
    memory.beta = np.nan if problem.beta is None else problem.beta
    memory.match_weight = problem.weights[1]
    memory.value_of_one = problem.objective.of([1.0] * n)
    memory.start = problem.start
    return arrays, memory


_SLOT = ("time", "row", "expiry", "mark", "weight", "stream", "ground")
_RANK = ("importance", "score")
_LANE = ("seen", "arrivals", "clock", "drawable", "offset")


def _export(memory: Memory, arrays: dict[str, Any]) -> dict[str, Any]:
    """The live tuples as columns in order of arrival, and the counts; independent of how they are linked."""
    live = live_slots(memory)
    live = live[np.argsort(arrays["slots"]["row"][live], kind="stable")]
    number = arrays["slots"]["key_of"][live].astype(np.int64)
    state: dict[str, Any] = {name: arrays["slots"][name][live] for name in _SLOT}
    if len(arrays["ranks"]) == len(arrays["slots"]):
        state |= {name: arrays["ranks"][name][live] for name in _RANK}
    state["key"] = arrays["keys"][number]
    state["price"] = arrays["groups"]["price"][number * len(arrays["lanes"]) + state["stream"]]
    state |= {f"lane.{name}": arrays["lanes"][name].copy() for name in _LANE}
    state |= {f"count.{name}": np.array(memory[name]) for name in COUNTS + SUMS}
    return state | {"pools": arrays["pools"].copy()}


def _import(
    problem: Problem, ranking: Ranking, state: dict[str, Any], *, slots: int, keys: int
) -> tuple[dict[str, Any], Memory]:
    """Memory with these tuples linked anew."""
    arrays, memory = _allocate(problem, ranking, slots=slots, keys=keys)
    where = relink(memory, *(state[name] for name in ("stream", "key", "time", "row", "expiry")))
    for name in _SLOT:
        arrays["slots"][name][where] = state[name]
    for name in _RANK:
        if name in state:
            arrays["ranks"][name][where] = state[name]
    number = arrays["slots"]["key_of"][where].astype(np.int64)
    arrays["groups"]["price"][number * problem.n_streams + state["stream"]] = state["price"]
    for name in _LANE:
        arrays["lanes"][name] = state[f"lane.{name}"]
    for name in COUNTS + SUMS:
        memory[name] = state[f"count.{name}"]
    arrays["pools"][:] = state["pools"]
    regroup(memory, where)
    rebuild(memory)
    return arrays, memory


def _with_room(logs: Logs) -> Logs:
    """The logs, those that are too short doubled."""
    out = []
    for log, needed in zip(logs[:5], logs.needed, strict=True):
        if log.shape[1] and len(log) < needed:
            longer = np.empty((max(2 * len(log), int(needed)), log.shape[1]), dtype=np.int64)
            longer[: len(log)] = log
            log = longer
        out.append(log)
    return Logs(*out, lengths=logs.lengths, needed=logs.needed)


def _instant_size(time: Ints, begin: int) -> int:
    """How many rows the instant that begins at row `begin` has."""
    later = np.flatnonzero(time[begin:] != time[begin])
    return int(later[0]) if len(later) else len(time) - begin


def _part(arrays: dict[str, Any], prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
