"""Cases: one description of a run that the oracle and penstock both understand, and makers of random ones.

Numbers are dyadic (importances 1, 2, 4, 8; windows, half-lives, alpha and beta powers of two), so that sums of floats
are exact in any order and a tie on paper is a tie in the machine. Decayed weights are so only where the half-life is
one tick. With a longer one, sums that are equal on paper still tie, since they are rounded before they are compared;
but `life` multiplies them, and of products that are equal on paper rounding decides. So `life` has half-lives of 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate
from random import Random
from typing import Any

import numba
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st

import oracle
import penstock as ps
from oracle import Row
from penstock.core.batch import Batch
from penstock.core.budget import TUPLE_OVERHEAD
from penstock.core.problem import Problem
from penstock.engine.contract import Engine
from penstock.engine.opening import compiled_form, open_engine
from penstock.engine.run import memory_log
from penstock.policies.table import open_policy
from penstock.simulator.policy_checks import play_in_parts
from penstock.statistics.table import open_statistics
from policy_kinds import KEYED, NEEDS_BOUND, ON_STATS, ONE_CLOCK

COMPILED = not numba.config.DISABLE_JIT
DETERMINISTIC = tuple(oracle.SCORES)
"""Those that the oracle knows."""
DETERMINISTIC_ON_STATS = tuple(name for name in DETERMINISTIC if name in ON_STATS)


def later(*values: Any) -> Any:
    """A case like others that `make test` has, for `make test-all`."""
    return pytest.param(*values, marks=pytest.mark.slow)


ALLOCATIONS = ("variable", "fixed")
MODELS = ("buffered", "inplace")
STATS = ("whole", "window", "decayed", "given")
OBJECTIVES = tuple(oracle.VALUES)
IMPORTANCES = (1.0, 2.0, 4.0, 8.0)
EVERYTHING = ps.Keep(outputs=True, sheds=True, expired=True, retained=True, series=True)

Facts = dict[str, Any]


def examples(factor: int = 1) -> settings:
    """The settings of the profile with more examples where code is compiled, and as many as it says where it is not."""
    return settings(max_examples=settings.default.max_examples * (factor if COMPILED else 1))


# --------------------------------------------------------------------------------------------------------------- cases


@dataclass(frozen=True, kw_only=True)
class Case:
    """A run in the oracle's terms. `memory` is a number, a list of (time, number), or one of them per stream."""

    rows: Sequence[Row]
    windows: Sequence[oracle.Window]
    memory: Any = 4
    policy: Any = "fifo"
    twin: Any = None  # penstock's policy, where the oracle's is a function
    allocation: str = "variable"
    stats: str = "whole"
    objective: Any = "count"
    model: str = "buffered"
    clock: str = "global"
    lateness: Sequence[int] = ()
    predicate: Any = "="
    start: int | None = None
    alpha: float | None = None
    beta: float | None = None
    half_life: float | None = None
    given: Mapping[tuple[int, Any], float] | None = None
    weights: tuple[float, float, float] = (1, 1, 0)
    switches: Mapping[str, str] = field(default_factory=dict)
    in_bytes: bool = False
    importance: bool = True  # whether the trace has such a column
    batches: Sequence[int] = ()  # the rows at which a new batch begins
    matches: Sequence[int | None] = ()  # by stream

    @property
    def streams(self) -> tuple[str, ...]:
        return tuple("RSTUVW"[: len(self.windows)])

    @cached_property
    def trace(self) -> ps.Trace:
        """The rows as penstock takes them."""
        columns: dict[str, Any] = {
            "stream": pa.array([self.streams[row.stream] for row in self.rows], pa.string()),
            "time": pa.array([row.time for row in self.rows], pa.int64()),
        }
        keys = [row.key for row in self.rows]
        width = max((len(key) for key in keys if isinstance(key, tuple)), default=0)
        if width:
            parts = zip(*((None,) * width if key is None else key for key in keys), strict=True)
            columns |= {name: _column(part) for name, part in zip("ab", parts, strict=True)}
        else:
            columns["key"] = _column(keys)
        if self.importance:
            columns["importance"] = [row.importance for row in self.rows]
        if any(row.lifetime is not None for row in self.rows):
            columns["lifetime"] = [row.lifetime for row in self.rows]
        if self.in_bytes:
            columns["size"] = [row.size for row in self.rows]
        return ps.Trace(columns, key="a,b" if width else "key", streams=self.streams)

    def options(self) -> dict[str, Any]:
        """The arguments of `penstock.simulator.simulate`."""
        plain = (
            "allocation", "stats", "objective", "model", "clock", "start", "alpha", "beta", "half_life", "weights",
            "switches",
        )  # fmt: skip
        return {name: getattr(self, name) for name in plain} | {
            "window": {name: specification(window) for name, window in zip(self.streams, self.windows, strict=True)},
            "memory": self._budget(),
            "policy": self.policy if self.twin is None else self.twin,
            "lateness": dict(zip(self.streams, self.lateness, strict=True)) if self.lateness else 0,
            "matches": dict(zip(self.streams, self.matches, strict=True)) if self.matches else None,
            "predicate": f"eps:{self.predicate[1]}" if isinstance(self.predicate, tuple) else self.predicate,
            "given": self.given and {(self.streams[stream], key): rate for (stream, key), rate in self.given.items()},
        }

    def _budget(self) -> Any:
        def amount(size: Any) -> Any:
            if isinstance(size, Sequence):
                return [(time, amount(then)) for time, then in size]
            return f"{size} B" if self.in_bytes else size

        if not isinstance(self.memory, Sequence) or isinstance(self.memory[0], tuple):
            return amount(self.memory)
        return {name: amount(size) for name, size in zip(self.streams, self.memory, strict=True)}

    def expected(self) -> Facts:
        """What the oracle says."""
        same = (
            "windows", "memory", "policy", "allocation", "stats", "objective", "model", "clock", "predicate", "start",
            "alpha", "beta", "half_life", "given", "weights", "switches", "batches",
            "matches",
        )  # fmt: skip
        rows = [replace(row, size=row.size + TUPLE_OVERHEAD) for row in self.rows] if self.in_bytes else self.rows
        options = {name: getattr(self, name) for name in same}
        lateness = list(self.lateness) or 0
        result = oracle.simulate(rows, len(self.windows), lateness=lateness, weighted=self.in_bytes, **options)
        facts = {name: getattr(result, name) for name in COUNTS}
        if len(self.windows) > 2:  # an average of three is not dyadic
            facts["value"] = pytest.approx(facts["value"], rel=1e-12)
        outputs = sorted((time, *members) for time, members in result.outputs)
        facts |= {"n_done": result.n_done}
        return facts | {"outputs": outputs, "sheds": result.sheds, "memory": result.log, "series": result.series}

    def counted(self, *, stepwise: bool = False) -> Facts:
        """What penstock counts when nothing is to be written down: another path through the compiled engine."""
        run = ps.simulate(self.trace, stepwise=stepwise, **self.options())
        return {name: getattr(run, name) for name in COUNTS}

    def played(self, *, stepwise: bool = False) -> Facts:
        """What penstock does, in the form of `expected`."""
        if not self.batches:
            run = ps.simulate(self.trace, stepwise=stepwise, keep=EVERYTHING, **self.options())
            return facts(run, run.outputs, run.sheds, run.memory_log, run.series)
        engine, batch = opened(self.trace, keep=EVERYTHING, stepwise=stepwise, **self.options())
        played = play_in_parts(engine, batch, self.batches)
        log = memory_log(played.series, played.retained)
        return facts(engine.totals, played.outputs, played.sheds, log, played.series)


COUNTS = ("n_input", "n_output", "value", "n_shed", "n_expired", "n_late", "peak_memory")


def facts(totals: Any, outputs: Any, sheds: Any, log: Any, series: Any) -> Facts:
    """Arrays as plain lists, outputs sorted: their order inside an instant is the engine's own."""
    return {name: getattr(totals, name) for name in COUNTS} | {
        "n_done": totals.n_done or 0,
        "outputs": sorted(map(tuple, outputs.tolist())),
        "sheds": sheds.tolist(),
        "memory": [(time, rows.tolist()) for time, rows in log],
        "series": [(time, held) for time, *held in series.tolist()],
    }


def _column(values: Sequence[Any]) -> pa.Array:
    """Values as Arrow infers them; NaN stays NaN, and nothing but nulls are integers."""
    return pa.array(values, None if any(value is not None for value in values) else pa.int64(), from_pandas=False)


def specification(window: oracle.Window) -> Any:
    """A window of the oracle as penstock takes it."""
    kind, *size = window
    if kind in ("time", "schedule"):
        return size[0]
    return f"{kind}:{size[0]}" if size else kind


def opened(
    trace: ps.Trace,
    *,
    policy: Any,
    keep: ps.Keep | None = None,
    stepwise: bool = False,
    given: Any = None,
    **options: Any,
) -> tuple[Engine, Batch]:
    """An engine with statistics and a policy of its own, and the whole trace as one batch."""
    columns = {"has_importance": trace.importance is not None, "has_lifetime": trace.lifetime is not None}
    problem = Problem.of(trace.streams, **columns, **options)
    chosen = open_policy(policy, problem)
    by_row = stepwise or compiled_form(problem, chosen) is None
    source, batch = open_statistics(problem, trace, Batch.of(trace, problem), given, by_row=by_row, policy=chosen)
    return open_engine(problem, chosen, source, keep or ps.Keep(), stepwise=stepwise), batch


# ----------------------------------------------------------------------------------------------- seeded random traces

Shape = Callable[[Random], list[Row]]


def _rows(random: Random, times: Iterable[int], key: Callable[[int], Any], stream: Callable[[], int] | None = None) -> list[Row]:
    choose = stream or (lambda: random.randrange(2))
    return [Row(choose(), time, key(number), random.choice(IMPORTANCES)) for number, time in enumerate(times)]


def _times(random: Random, length: int, steps: Sequence[int] = (0, 1, 1, 2)) -> list[int]:
    return list(accumulate(random.choices(steps, k=length), initial=random.randint(-3, 9)))


def _ties(random: Random) -> list[Row]:
    """Many rows with the same time and the same importance."""
    rows = _rows(random, _times(random, 18, (0, 0, 1)), lambda _: random.randrange(3))
    return [replace(row, importance=random.choice((2.0, 2.0, 4.0))) for row in rows]


def _bursts(random: Random) -> list[Row]:
    """Quiet times with instants between them that hold more rows than memory does."""
    times = [time for time in range(9) for _ in range(random.randint(9, 13) if time in (3, 6) else random.randrange(3))]
    return _rows(random, times, lambda _: random.randrange(6))


def _one_stream(random: Random) -> list[Row]:
    """The other stream is declared, and empty."""
    silent = random.randrange(2)
    return _rows(random, _times(random, 11), lambda _: random.randrange(3), lambda: 1 - silent)


def _one_key(random: Random) -> list[Row]:
    return _rows(random, _times(random, 14), lambda _: 7)


def _distinct(random: Random) -> list[Row]:
    return _rows(random, _times(random, 14), lambda number: number)


def _nulls(random: Random) -> list[Row]:
    return _rows(random, _times(random, 16), lambda _: random.choice((None, 0, 1)))


def _gaps(random: Random) -> list[Row]:
    """Long quiet times, in which everything expires and old statistics fade to nothing."""
    return _rows(random, _times(random, 16, (0, 1, 1, 3, 60, 5000)), lambda _: random.randrange(2))


def _skewed(random: Random) -> list[Row]:
    """A frequent key and rare ones, and one stream that is four times as fast as the other."""
    times = _times(random, 22, (0, 1))
    return _rows(random, times, lambda _: random.choice((0, 0, 0, 1, 2, 3)), lambda: int(random.random() < 0.2))


SHAPES: dict[str, Shape] = {
    "ties": _ties,
    "bursts": _bursts,
    "one stream": _one_stream,
    "one key": _one_key,
    "distinct": _distinct,
    "nulls": _nulls,
    "gaps": _gaps,
    "skewed": _skewed,
}


def random_case(seed: str, shape: str, **fixed: Any) -> Case:
    """A two-stream case with the options in `fixed`; the rest is drawn."""
    random = Random(f"{shape} {seed}")
    rows = SHAPES[shape](random)
    length = random.choice((2, 4, 8, 16))
    keys = sorted({row.key for row in rows if row.key is not None})
    drawn: dict[str, Any] = {
        "windows": [("time", length), ("time", random.choice((length, length, 4)))],
        "memory": random.randint(2, 7),
        "alpha": random.choice((None, 2.0, 4.0)),
        "beta": random.choice((0.0, 0.25, 0.5)),
        "half_life": 1.0 if fixed.get("policy") == "life" else random.choice((None, 1.0, 2.0, 4.0)),
        "weights": random.choice(((1, 1, 0), (1, 0.5, 0.25), (-0.5, 2, 1))),
    }
    if fixed.get("stats") == "given":
        pairs = [(stream, key) for stream in range(2) for key in keys]
        drawn["given"] = {pair: random.choice((0, 0.5, 1, 3)) for pair in pairs if random.random() < 0.8}
    return Case(rows=rows, **(drawn | fixed))


# ---------------------------------------------------------------------------------------------- Hypothesis strategies

POWERS = st.sampled_from((1, 2, 4, 8))


def schedules(values: st.SearchStrategy[int]) -> st.SearchStrategy[list[tuple[int, int]]]:
    """Pairs (time, value) with rising times; the first may begin after the trace does."""
    starts = st.lists(st.integers(-2, 24), min_size=1, max_size=4, unique=True).map(sorted)
    return starts.flatmap(lambda at: st.tuples(*(values for _ in at)).map(lambda v: list(zip(at, v, strict=True))))


TIME = st.tuples(st.just("time"), POWERS)
ROWS = st.tuples(st.just("rows"), POWERS)
PER_KEY = st.tuples(st.just("rows_per_key"), POWERS)
TUMBLING = st.tuples(st.just("tumbling"), POWERS)
LANDMARK = st.tuples(st.just("landmark"), st.integers(-1, 12))
NO_WINDOW = st.just(("none",))
SCHEDULE = st.tuples(st.just("schedule"), schedules(POWERS))
WINDOWS = {
    "time": TIME, "rows": ROWS, "tumbling": TUMBLING, "landmark": LANDMARK, "none": NO_WINDOW, "schedule": SCHEDULE,
}  # fmt: skip
BOUNDED = TIME | TUMBLING | SCHEDULE
ANY_WINDOW = BOUNDED | ROWS | LANDMARK | NO_WINDOW
PLAYED_WINDOW = ANY_WINDOW | PER_KEY  # the optimum and the strategies know no windows of the rows of each key

KEYS = st.none() | st.integers(0, 3)
SWITCHES = st.fixed_dictionaries(
    {},
    optional={
        "life-remaining": st.sampled_from(("full", "less-one")),
        "varying-window": st.sampled_from(("arrival", "instant")),
        "dgl-init": st.sampled_from(("importance", "simpprob")),
        "mn": st.sampled_from(("memory+arrivals", "memory")),
        "rates": st.sampled_from(("tick", "arrival")),
        "ep-ties": st.sampled_from(("oldest", "smallest-pattern")),
        "ep-drops": st.sampled_from(("oldest", "newest")),
        "ep-finishes": st.sampled_from(("all", "last")),
        "output-counts": st.sampled_from(("present", "ever")),
    },
)


def memories(n: int) -> st.SearchStrategy[Any]:
    """Budgets in rows: constant, changing over time, one per stream."""
    rows = st.integers(n, n + 6)
    own = st.integers(1, 5)
    return rows | schedules(rows) | st.tuples(*(own | schedules(own) for _ in range(n)))


@st.composite
def cases(
    draw: st.DrawFn,
    *,
    n: st.SearchStrategy[int] = st.just(2),  # noqa: B008
    policies: Sequence[str] = DETERMINISTIC,
    stats: Sequence[str] = STATS,
    windows: st.SearchStrategy[oracle.Window] = TIME,
    mixed: bool = True,
    keys: st.SearchStrategy[Any] = KEYS,
    predicates: st.SearchStrategy[Any] = st.just("="),  # noqa: B008
    lifetimes: st.SearchStrategy[int] | None = None,
    memory: Callable[[int], st.SearchStrategy[Any]] | None = None,
    switches: st.SearchStrategy[dict[str, str]] = st.just({}),  # noqa: B008
    disorder: int = 0,
    clocks: Sequence[str] = ("global",),
    in_bytes: bool = False,
    starts: st.SearchStrategy[int | None] = st.none(),  # noqa: B008
    batches: bool = False,
    longest: int = 24,
    matches: st.SearchStrategy[int | None] | None = None,
) -> Case:
    """A case of which only what a test asks for is out of the ordinary."""
    streams = draw(n)
    policy = draw(st.sampled_from(policies))
    per_stream = draw(st.booleans()) if mixed else False
    chosen = [draw(windows) for _ in range(streams)] if per_stream else [draw(windows)] * streams
    if policy == "dgl" or (lifetimes is None and policy in NEEDS_BOUND):
        chosen = [window if window[0] not in ("none", "landmark") else ("time", 4) for window in chosen]
    predicate = draw(predicates)
    if predicate != "=" and policy in KEYED:
        policy = "dimpprob"
    if predicate != "=" or policy in ONE_CLOCK:
        chosen = [("rows", *size) if kind == "rows_per_key" else (kind, *size) for kind, *size in chosen]
    source = draw(st.sampled_from(stats if predicate == "=" else [name for name in stats if name != "given"]))
    importance = draw(st.booleans())
    late = st.integers(0, disorder)
    if any(window[0].startswith("rows") for window in chosen):
        late = st.just(0)
    row = st.tuples(
        st.integers(0, streams - 1), st.sampled_from((0, 0, 1, 1, 2, 6)), keys, st.sampled_from(IMPORTANCES), late,
        st.integers(1, 60), st.none() if lifetimes is None else lifetimes,
    )  # fmt: skip
    drawn = draw(st.lists(row, min_size=1, max_size=longest))
    times = accumulate(step for _, step, *_ in drawn)
    rows = [
        Row(stream, time - delay, key, weight if importance else 1.0, lifetime, size)
        for time, (stream, _, key, weight, delay, size, lifetime) in zip(times, drawn, strict=True)
    ]
    budget: Any
    if in_bytes:
        size = st.integers(streams, 600)
        budget = draw(size | schedules(size) | st.tuples(*(size for _ in range(streams))))
    else:
        budget = draw(st.integers(streams, streams + 5) if memory is None else memory(streams))
    given = None
    if source == "given":
        known = sorted({row.key for row in rows if not oracle.null(row.key)})
        rate = st.sampled_from((0, 0.5, 1, 3))
        given = {(stream, key): draw(rate) for stream in range(streams) for key in known}
    return Case(
        rows=rows,
        windows=chosen,
        memory=budget,
        policy=policy,
        allocation=draw(st.sampled_from(ALLOCATIONS)),
        stats=source,
        objective=draw(st.sampled_from(OBJECTIVES)),
        model=draw(st.sampled_from(MODELS)),
        clock=draw(st.sampled_from(clocks)),
        lateness=draw(st.tuples(*(st.integers(0, disorder) for _ in range(streams)))),
        predicate=predicate,
        start=draw(starts),
        alpha=draw(st.sampled_from((2.0, 4.0))),
        beta=draw(st.sampled_from((0.0, 0.25, 0.5))),
        half_life=1.0 if policy == "life" else draw(st.sampled_from((1.0, 2.0, 4.0))),
        given=given,
        weights=draw(st.sampled_from(((1, 1, 0), (1, 0.5, 0.25), (-0.5, 2, 1)))),
        switches=draw(switches),
        in_bytes=in_bytes,
        importance=importance,
        matches=() if matches is None else draw(st.tuples(*(matches for _ in range(streams)))),
        batches=sorted(draw(st.sets(st.integers(1, len(rows) - 1), max_size=4))) if batches and len(rows) > 1 else (),
    )


def kept_promise(rows: Sequence[Row], n: int) -> tuple[int, ...]:
    """The smallest lateness of each stream under which no row of it is too late."""
    lateness = [0] * n
    latest = [-math.inf] * n
    for row in rows:
        latest[row.stream] = max(latest[row.stream], row.time)
        lateness[row.stream] = max(lateness[row.stream], int(latest[row.stream] - row.time))
    return tuple(lateness)
