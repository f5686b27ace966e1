"""The compiled engine: arrays around the loop of play.py, their growth, and snapshots."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import numpy as np

from penstock.core.batch import Batch, check_order
from penstock.core.budget import OVERHEAD
from penstock.core.engine import Bands, Engine, Keep, Played, Progress, Ranking, Statistics, Totals
from penstock.core.errors import PenstockError
from penstock.core.memory import live_slots, relink
from penstock.core.passage import regroup
from penstock.core.play import Columns, Logs, dismiss, expire, play, trim
from penstock.core.problem import Problem
from penstock.core.ranking import ARRIVAL, DRAW, GAIN_LOSS, LIFE, MATCHES, PATTERNS, RATES, SCORE, STAY, TOTALS, TUPLES
from penstock.core.rounding import aged
from penstock.core.state import ARRAYS, COUNTS, RECORD, SUMS, Memory, attach
from penstock.core.tournament import BLOCK, LAST, PATIENCE, rebuild, shape
from penstock.core.trace import Ints
from penstock.core.window import DEAD, NEVER, expiries

_LINE = 64  # bytes of a cache line
_FEW = 1024  # bands
TUPLE = ("row", "stream", "time", "expiry", "key", "importance")
_CHUNK = 1 << 18  # rows between two calls of the progress function


class FastEngine:
    """Plays batches with compiled code; see `penstock.core.engine`."""

    def __init__(self, problem: Problem, ranking: Ranking, statistics: Statistics, keep: Keep) -> None:
        self.problem, self.ranking, self.statistics, self.keep = problem, ranking, statistics, keep
        self.bands = self._find_bands()
        self.arrays, self.memory = _allocate(problem, ranking, self.bands, slots=64, groups=64)
        self.origin: int | None = None
        seeds = np.random.SeedSequence(problem.seed).generate_state(2)
        self.memory.random1 = 1 + int(seeds[0]) % 2147483561
        self.memory.random2 = 1 + int(seeds[1]) % 2147483397

    def _find_bands(self) -> Bands | None:
        """The bands: those of `ep`, or where prices never change and there are few of them."""
        if self.ranking.prices == PATTERNS:
            return _pattern_bands(self.problem.n_streams)
        if self.ranking.prices != RATES:
            return None
        found = self.statistics.bands()
        return found if found is not None and len(found.price) <= max(_FEW, self.problem.budget.most // 4) else None

    @property
    def totals(self) -> Totals:
        """The counts so far."""
        at = self.memory
        counts = {name: int(at[name]) for name in ("n_input", "n_output", "n_shed", "n_expired", "n_late")}
        rest = {
            "peak_memory": int(at.peak),
            "retained": int(at.live),
            "used": int(self.arrays["pools"].sum()),
            "instant": int(at.instant),
            "next_row": int(at.next_row),
            "n_steps": int(at.steps),
            "n_gains": int(at.gains),
            "n_attempts": int(at.attempts),
        }
        return Totals(**counts, **rest, value=float(at.value))

    @property
    def seen(self) -> Ints:
        """The largest time of each stream."""
        return self.arrays["lanes"]["seen"].copy()

    @property
    def held(self) -> Ints:
        """The tuples in memory, by stream."""
        return self.arrays["lanes"]["held"].copy()

    @property
    def structure_bytes(self) -> int:
        """What the engine's own arrays take beside the tuples' numbers: time, row, expiry, stream, key, importance, size."""
        arrays = self.arrays
        own = len(arrays["slots"]) * 25 + len(arrays["groups"]) * 8
        own += sum(len(arrays[name]) * 8 for name in ("ranks", "weights") if len(arrays[name]) > 1)
        return sum(array.nbytes for array in arrays.values()) - own

    def number_from(self, row: int) -> None:
        """Give rows numbers from this one on."""
        self.memory.next_row = row

    def play(self, batch: Batch, progress: Progress | None = None) -> Played:
        """Play the next rows."""
        columns = self._columns(batch)
        n, budget = self.problem.n_streams, self.problem.budget
        logs = self._open_logs()
        position, stop, size = 0, 0, len(batch)
        while position < size:
            if position >= stop:
                columns, stop = self._price(batch, columns, position)
            target = min(stop, position + _CHUNK) if progress else stop
            width = len(self.arrays["slots"]) + size if n > 2 or self.memory.inplace else max(n, 1)
            scratch = np.empty((n + 2, width), dtype=np.int64)
            reached = play(self.memory, budget.times, budget.caps, columns, position, target, logs, scratch)
            if reached < target:
                self._make_room(_instant_size(batch.time, reached), straggling=bool(self.memory.straggling))
                logs = _with_room(logs)
            if progress:
                progress(reached - position)
            position = reached
        self.memory.next_row += size
        kept = [log[:length].copy() for log, length in zip(logs[:5], logs.lengths, strict=True)]
        (sheds, shed_at), (expired, expired_at) = ((log[:, :1].reshape(-1), log[:, 1:].reshape(-1)) for log in kept[1:3])
        return Played(kept[0], sheds, expired, kept[3], kept[4], shed_at, expired_at)

    def advance(self, seen: Ints) -> Ints:
        """Take note of how far the streams have come elsewhere."""
        lanes = self.arrays["lanes"]
        lanes["seen"] = np.maximum(lanes["seen"], seen)
        self.memory.now = max(int(self.memory.now), int(lanes["seen"].max()))
        log = np.empty((int(self.memory.live), 2), dtype=np.int64)
        return log[: expire(self.memory, int(self.memory.instant), log, 0, True), 0]

    def trim(self) -> Ints:
        """Shed down to the budget."""
        log = np.empty((int(self.memory.live), 2), dtype=np.int64)
        return log[: trim(self.memory, self.problem.budget.caps[int(self.memory.budget_step)], log), 0]

    def dismiss(self, rows: Ints) -> None:
        """Let go of these rows, as if they had never come; they are counted nowhere."""
        live = live_slots(self.memory)
        dismiss(self.memory, live[np.isin(self.arrays["slots"]["row"][live], rows)])

    def retained(self) -> Ints:
        """The rows in memory."""
        return np.sort(self.arrays["slots"]["row"][live_slots(self.memory)])

    def tuples(self) -> dict[str, Any]:
        """The tuples in memory as columns."""
        state = _export(self.memory, self.arrays)
        return {name: state.get(name, np.ones(len(state["row"]))) for name in TUPLE}

    def adopt(self, other: Engine) -> None:
        """Begin with the tuples of another engine; what happened before counts nowhere."""
        tuples, seen, totals = other.tuples(), other.seen, other.totals
        stream, expiry = tuples["stream"], tuples["expiry"]
        ordered = _rises(expiry, stream, np.full(len(seen), -NEVER))
        state = _export(self.memory, self.arrays)
        none = np.zeros(len(stream))
        state |= tuples | {"ground": none.astype(np.int8), "price": none, "score": none, "marks": none.astype(np.int64)}
        if "band" in state:
            state["band"] = stream.astype(np.int64) * int(self.memory.patterns)  # nothing is known of their partners
        state["lane.seen"] = seen
        state["lane.ceiling"] = np.array([max(expiry[stream == number], default=-NEVER) for number in range(len(seen))])
        state |= {"count.now": seen.max(), "count.instant": totals.instant, "count.next_row": totals.next_row}
        size = max(64, len(stream))
        self.arrays, self.memory = _import(self.problem, self.ranking, self.bands, state, slots=size, groups=size, straggling=not ordered)

    def snapshot(self) -> bytes:
        """The state between two batches."""
        file = io.BytesIO()
        state = {f"memory.{name}": array for name, array in _export(self.memory, self.arrays).items()}
        state |= {f"statistics.{name}": np.asarray(array) for name, array in self.statistics.snapshot().items()}
        state["origin"] = np.array([NEVER if self.origin is None else self.origin])
        np.savez(file, **state)
        return file.getvalue()

    def restore(self, state: bytes) -> None:
        """Go on from a snapshot."""
        try:
            with np.load(io.BytesIO(state), allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
        except (EOFError, ValueError, OSError, zipfile.BadZipFile):
            raise PenstockError(f"state must be a snapshot of this engine, got {len(state)} bytes that are none") from None
        self.statistics.restore(_part(arrays, "statistics."))
        origin = int(arrays["origin"][0])
        self.origin = None if origin == NEVER else origin
        part = _part(arrays, "memory.")
        live = max(64, len(part["time"]))
        straggling = bool(part["straggling"])
        self.arrays, self.memory = _import(self.problem, self.ranking, self.bands, part, slots=live, groups=live, straggling=straggling)

    def freeze(self) -> dict[str, Any]:
        """The state as it lies in memory: larger than a snapshot and bound to this version, but nothing has to be linked anew."""
        record = {name: self.memory[name] for name in RECORD}
        return {"arrays": dict(self.arrays), "record": record, "origin": self.origin, "statistics": self.statistics.snapshot()}

    def thaw(self, state: dict[str, Any]) -> None:
        """Go on from what `freeze` gave."""
        self.arrays = _in_one_block({name: len(array) for name, array in state["arrays"].items()})
        for name, array in state["arrays"].items():
            self.arrays[name][:] = array
        self.memory = attach(self.arrays)
        for name, value in state["record"].items():
            self.memory[name] = value
        self.origin = state["origin"]
        self.statistics.restore(state["statistics"])

    def _open_logs(self) -> Logs:
        n, keep = self.problem.n_streams, self.keep
        kept = [(keep.outputs, n + 1), (keep.sheds, 2), (keep.expired, 2), (keep.retained, 2), (keep.series, n + 1)]
        logs = [np.empty((256, width if wanted else 0), dtype=np.int64) for wanted, width in kept]
        return Logs(*logs, *(np.zeros(5, dtype=np.int64) for _ in range(2)))

    def _columns(self, batch: Batch) -> Columns:
        problem, ranking = self.problem, self.ranking
        if self.origin is None and len(batch):
            self.origin = int(batch.time[0])
            self.memory.dawn = self.origin
        check_order(problem, batch.time, int(self.memory.now))
        expiry = expiries(
            problem.windows, batch.stream, batch.time, batch.lifetime, self.arrays["lanes"]["arrivals"],
            instantly=problem.switch("varying-window") == "instant",
        )  # fmt: skip
        if not self.memory.straggling and not _rises(expiry, batch.stream, self.arrays["lanes"]["ceiling"]):
            self._make_room(0, straggling=True)
        row = np.arange(len(batch), dtype=np.int64) + self.memory.next_row
        nobody = (batch.key < 0) | (expiry == DEAD)
        one = np.ones(1)
        column = ranking.column
        return Columns(
            stream=np.ascontiguousarray(batch.stream, dtype=np.int64),
            time=np.ascontiguousarray(batch.time, dtype=np.int64),
            key=np.where(nobody, -1 - row, batch.key) if nobody.any() else np.ascontiguousarray(batch.key),
            expiry=expiry,
            importance=np.ones(len(batch)) if batch.importance is None else np.ascontiguousarray(batch.importance),
            score=one if column is None else column(batch, self.origin or 0),
            weight=(batch.size + OVERHEAD) if problem.budget.in_bytes and batch.size is not None else np.ones(1, np.int64),
            rates=np.empty((1, problem.n_streams)),
            band=np.empty(1, np.int64) if self.bands is None or ranking.prices == PATTERNS else self.bands.of(batch),
        )

    def _price(self, batch: Batch, columns: Columns, begin: int) -> tuple[Columns, int]:
        """Fill in the rates from row `begin` on; the columns with them, and where they end."""
        if self.ranking.prices not in (RATES, TOTALS) or self.memory.banded:
            return columns, len(batch)
        steps = self.statistics.age(batch, begin)
        if steps:
            groups, tolls = self.arrays["groups"], self.arrays["tolls"]
            if self.ranking.prices == TOTALS:
                groups["price"] = self.statistics.totals(groups["key"])
            else:
                groups["price"] = self.statistics.reprice(groups["price"], groups["key"], groups["stream"])
            tolls["used"] = aged(tolls["used"], steps * (self.problem.n_streams - 1))
            rebuild(self.memory)
        rates, stop = self.statistics.rates(batch, begin)
        self.memory.origin, self.memory.half_life, self.memory.moved = self.statistics.units()
        if begin == 0 and stop == len(batch):
            return columns._replace(rates=rates), stop
        if len(columns.rates) < len(batch):
            columns = columns._replace(rates=np.empty((len(batch), self.problem.n_streams)))
        columns.rates[begin:stop] = rates
        return columns, stop

    def _make_room(self, arrivals: int, *, straggling: bool) -> None:
        """Move into larger arrays: twice as large, but not beyond what the budget can ever need."""
        memory, arrays, budget = self.memory, self.arrays, self.problem.budget
        sizes = {"slots": len(arrays["slots"]), "groups": len(arrays["groups"]), "fresh": len(arrays["fresh"])}
        old = dict(sizes)
        needed = int(memory.live) + arrivals
        if sizes["slots"] < needed:
            limit = needed if budget.in_bytes else budget.most + arrivals
            sizes["slots"] = max(needed, min(2 * sizes["slots"], limit))
        needed = int(memory.live_groups) + arrivals
        if sizes["groups"] < needed:
            sizes["groups"] = max(needed, min(sizes["groups"] * 3 // 2, (sizes["groups"] + sizes["slots"]) // 2))
        sizes["fresh"] = max(sizes["fresh"], arrivals)
        if sizes != old or straggling != bool(memory.straggling):
            state = _export(memory, arrays)
            self.arrays, self.memory = _import(self.problem, self.ranking, self.bands, state, **sizes, straggling=straggling)


def _allocate(
    problem: Problem, ranking: Ranking, bands: Bands | None, *, slots: int, groups: int, fresh: int = 64, straggling: bool = False
) -> tuple[dict[str, Any], Memory]:
    """Empty memory with room for `slots` tuples in `groups` classes; arrays that are not needed have length 1."""
    n, kind = problem.n_streams, ranking.kind
    levels = 2 if kind == GAIN_LOSS else 1
    tree = _trees(problem, ranking)
    if straggling and ranking.prices != PATTERNS:
        bands = None  # late tuples would have far to go
    leaves, inner = shape(groups if bands is None else len(bands.price))
    nodes = (max(tree) + 1) * (inner + BLOCK - 1)  # of each level
    kinetic = kind in (LIFE, STAY)
    planes = max(tree) + 1 if kinetic else levels
    entries = planes * leaves + levels * nodes
    sizes = {
        "lanes": n,
        "tolls": problem.budget.caps.shape[1],
        "pools": problem.budget.caps.shape[1],
        "slots": slots,
        "ranks": slots if kind >= SCORE or not problem.steady else 1,
        "marks": slots if kind in (ARRIVAL, DRAW) else 1,
        "weights": slots if problem.budget.in_bytes else 1,
        "places": slots if straggling else 1,
        "stragglers": slots if straggling else 1,
        "draws": slots * n if kind == DRAW else 1,
        "groups": groups,
        "bands": 1 if bands is None else len(bands.price),
        "ladder": 1 if bands is None else slots,
        "floors": groups if kind == GAIN_LOSS else 1,
        "table": 1 << max(4, (groups * 3 // 2).bit_length()),
        "stale_queue": 64 + groups // 16 if ranking.prices in (MATCHES, TUPLES) else 1,
        "holders": entries if kind > DRAW else 1,
        "keys": entries if kind > DRAW and not kinetic else 1,
        "worths": entries if kinetic else 1,
        "moments": entries if kinetic else 1,
        "owns": nodes if kinetic else 1,
        "dues": nodes if kinetic else 1,
        "stack": 128,
        "fresh": fresh,
        "arrived": fresh if ranking.prices == PATTERNS else 1,
        "waiting": 4 * PATIENCE * n,
    }
    arrays = _in_one_block(sizes)
    for name in ("table", "floors", "holders"):
        arrays[name][:] = -1
    for name in ("owns", "dues", "moments"):
        arrays[name][:] = NEVER
    arrays["keys"][:] = LAST
    arrays["worths"][:] = np.inf
    arrays["slots"]["after"] = np.arange(1, slots + 1)
    arrays["groups"]["head"] = np.arange(1, groups + 1)
    for name in ("tail", "top", "kin"):
        arrays["groups"][name] = -1
    lanes = arrays["lanes"]
    lanes["seen"] = lanes["ceiling"] = -NEVER
    lanes["oldest"] = lanes["newest"] = -1
    lanes["length"] = [w.length for w in problem.windows]
    lanes["in_rows"] = [w.kind == "rows" for w in problem.windows]
    lanes["lateness"] = problem.lateness
    lanes["pool"] = problem.budget.pool
    lanes["tree"] = tree
    lanes["leads"] = [number not in tree[:stream] for stream, number in enumerate(tree)]
    tolls = arrays["tolls"]
    tolls["used"] = np.inf
    tolls["first"] = tolls["last"] = tolls["changed"] = -NEVER
    for which in range(len(tolls)):
        tolls["leader"][which] = problem.leader(which)
    if bands is not None:
        arrays["bands"]["price"], arrays["bands"]["stream"] = bands.price, bands.stream
        arrays["bands"]["head"] = arrays["bands"]["tail"] = -1
    memory = attach(arrays)
    memory.banded = bands is not None
    memory.now = -NEVER
    memory.levels, memory.planes, memory.trees, memory.leaves, memory.inner = levels, planes, max(tree) + 1, leaves, inner
    memory.straggling = straggling
    memory.streams, memory.kind, memory.prices = n, kind, ranking.prices
    memory.first_score, memory.tied = ranking.first_score, ranking.ties
    memory.objective = 0 if problem.steady else problem.objective.code
    memory.inplace = problem.model == "inplace"
    memory.by_stream = problem.clock == "streams"
    memory.less = problem.switch("life-remaining") == "less-one"
    memory.newcomer_safe = ranking.spares
    memory.spared = NEVER
    memory.full = (1 << n) - 1 if n < 63 else 0
    memory.patterns = 1 << (n - 1) if ranking.prices == PATTERNS else 1
    if ranking.prices == PATTERNS:
        memory.pattern_first = problem.switch("ep-ties") == "smallest-pattern"
        memory.youngest = problem.switch("ep-drops") == "newest"
    memory.mn_of_memory = ranking.prices == MATCHES and problem.switch("mn") == "memory"
    memory.weighted = problem.budget.in_bytes
    memory.alpha = np.nan if problem.alpha is None else problem.alpha
    memory.beta = np.nan if problem.beta is None else problem.beta
    memory.match_weight = problem.weights[1]
    memory.value_of_one = problem.objective.of([1.0] * n)
    memory.start = problem.start
    return arrays, memory


def _pattern_bands(streams: int) -> Bands:
    """New tables of existence patterns: a band per stream and pattern. What has met all its partners is worth less than nothing."""
    price = np.zeros((streams, 1 << (streams - 1)))
    price[:, -1] = -1.0
    stream = np.repeat(np.arange(streams), price.shape[1])
    return Bands(np.empty((0, streams), np.int64), price.reshape(-1), stream)


def _trees(problem: Problem, ranking: Ranking) -> list[int]:
    """The tournament of each stream: one per pool, unless its streams lose at different rates or count time differently."""
    found: dict[tuple[int, float, int], int] = {}
    out = []
    for stream, window in enumerate(problem.windows):
        loses = float(window.length) if ranking.kind == GAIN_LOSS and problem.beta is None else 0.0
        clock = stream if ranking.kind in (LIFE, STAY) and window.kind == "rows" else -1
        out.append(found.setdefault((int(problem.budget.pool[stream]), loses, clock), len(found)))
    return out


def _in_one_block(sizes: dict[str, int]) -> dict[str, Any]:
    """Arrays of zeros, each at the start of a cache line, in one block: large enough for large pages where the machine has them."""
    begins, end = {}, 0
    for name, dtype in ARRAYS.items():
        begins[name] = end
        end += -(-sizes[name] * np.dtype(dtype).itemsize // _LINE) * _LINE
    block = np.zeros(end + _LINE, dtype=np.uint8)
    start = -block.ctypes.data % _LINE
    return {name: block[start + begins[name] :][: sizes[name] * np.dtype(dtype).itemsize].view(dtype) for name, dtype in ARRAYS.items()}


_SLOT = ("time", "row", "expiry", "stream", "ground")
_RANK = ("importance", "score")
_SLOT_ARRAYS = ("marks", "weights")
_BAND = ("price", "made", "seen")
_LANE = ("seen", "arrivals", "clock", "ceiling", "drawable", "offset")


def _export(memory: Memory, arrays: dict[str, Any]) -> dict[str, Any]:
    """The live tuples as columns in order of arrival, and the counts; independent of how they are linked."""
    live = live_slots(memory)
    age = arrays["marks"][live] if memory.kind == ARRIVAL else np.zeros(len(live), np.int64)
    live = live[np.lexsort((arrays["slots"]["row"][live], age))]
    group = arrays["slots"]["group"][live]
    state: dict[str, Any] = {name: arrays["slots"][name][live] for name in _SLOT}
    if len(arrays["ranks"]) == len(arrays["slots"]):
        state |= {name: arrays["ranks"][name][live] for name in _RANK}
    for name in _SLOT_ARRAYS:
        if len(arrays[name]) == len(arrays["slots"]):
            state[name] = arrays[name][live]
    state["key"] = arrays["groups"]["key"][group]
    state["price"] = arrays["bands"]["price"][arrays["ladder"]["band"][live]] if memory.banded else arrays["groups"]["price"][group]
    if memory.prices == PATTERNS:
        state |= {"band": arrays["ladder"]["band"][live]} | {f"band.{name}": arrays["bands"][name].copy() for name in _BAND}
    state |= {f"lane.{name}": arrays["lanes"][name].copy() for name in _LANE}
    state |= {f"count.{name}": np.array(memory[name]) for name in COUNTS + SUMS}
    return state | {name: arrays[name].copy() for name in ("pools", "tolls")} | {"straggling": np.array(memory.straggling)}


def _import(problem: Problem, ranking: Ranking, bands: Bands | None, state: dict[str, Any], **sizes: Any) -> tuple[dict[str, Any], Memory]:
    """Memory with these tuples linked anew."""
    arrays, memory = _allocate(problem, ranking, bands, **sizes)
    where = relink(memory, *(state[name] for name in ("stream", "key", "time", "row", "expiry")))
    arrays["slots"]["ground"][where] = state["ground"]
    for name in _RANK:
        if name in state and len(arrays["ranks"]) == len(arrays["slots"]):
            arrays["ranks"][name][where] = state[name]
    for name in _SLOT_ARRAYS:
        if name in state:
            arrays[name][where] = state[name]
    arrays["groups"]["price"][arrays["slots"]["group"][where]] = state["price"]
    if "band" in state:
        arrays["ladder"]["band"][where] = state["band"]
        for name in _BAND:
            arrays["bands"][name] = state[f"band.{name}"]
    elif bands is not None and memory.banded:
        arrays["ladder"]["band"][where] = bands.priced(state["stream"], state["price"])
    for name in _LANE:
        arrays["lanes"][name] = state[f"lane.{name}"]
    for name in COUNTS + SUMS:
        memory[name] = state[f"count.{name}"]
    if len(state["pools"]) == len(arrays["pools"]):
        for name in ("pools", "tolls"):
            arrays[name][:] = state[name]
    else:  # the budget has been divided anew
        weight = state["weights"] if memory.weighted else np.ones(len(where), dtype=np.int64)
        np.add.at(arrays["pools"], problem.budget.pool[state["stream"]], weight)
    regroup(memory, where)
    rebuild(memory)
    return arrays, memory


def _rises(expiry: Ints, stream: Ints, ceilings: Ints) -> bool:
    """Whether expiries never fall along the rows of each stream."""
    return all((np.diff(np.concatenate([[ceiling], expiry[stream == number]])) >= 0).all() for number, ceiling in enumerate(ceilings))


def _with_room(logs: Logs) -> Logs:
    """The logs, those that are too short doubled."""
    longer = logs._asdict()
    for name, needed in zip(Logs._fields[:5], logs.needed, strict=True):
        log = longer[name]
        if log.shape[1] and len(log) < needed:
            longer[name] = np.empty((max(2 * len(log), int(needed)), log.shape[1]), dtype=np.int64)
            longer[name][: len(log)] = log
    return Logs(**longer)


def _instant_size(time: Ints, begin: int) -> int:
    """How many rows the instant that begins at row `begin` has."""
    end, span = begin + 1, 64
    while end < len(time) and time[end] == time[begin]:
        same = time[end : end + span] == time[begin]
        end += len(same) if same.all() else int(same.argmin())
        span *= 2
    return end - begin


def _part(arrays: dict[str, Any], prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
