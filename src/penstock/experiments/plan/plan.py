"""`ps.plan`: plays a join of some streams in many memories, and says what it needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil
from typing import Any

from penstock.core.errors import PenstockError
from penstock.core.predicate import PredicateSpec
from penstock.core.ticks import in_ticks
from penstock.core.trace import Trace, check_trace
from penstock.core.value import ObjectiveSpec
from penstock.core.window import WindowSpec, whole
from penstock.experiments.plan.answer import Plan, Point
from penstock.experiments.plan.replays import Replays
from penstock.experiments.plan.sample import Sample, sampled
from penstock.experiments.plan.search import best_of, policies_of, sizes_of, smallest_memory
from penstock.experiments.plan.streams import Streams
from penstock.policies.table import best_policy
from penstock.simulator.simulate import simulate

ROWS = 1_000_000
"""Rows that are played, of a larger trace; each takes some microseconds for each memory and policy."""
_PACE = 100_000
"""Rows per second that a shard takes easily: two have played 516,000 together (docs/spark.md)."""
_HELD = 2_000_000
"""Tuples that one shard holds easily."""
_FEW = 100
"""Tuples that a shard must hold to be worth its while."""


def plan(
    trace: Trace,
    *,
    window: WindowSpec,
    recall: float = 0.95,
    policies: Sequence[str] | None = None,
    memories: Sequence[int] | None = None,
    shards: int | None = None,
    predicate: PredicateSpec = "=",
    objective: ObjectiveSpec = None,
    matches: Any = None,
    half_life: Any = None,
    switches: Mapping[str, str] | None = None,
    rows: int = ROWS,
    time: str | Mapping[str, str] = "time",
    progress: Callable[[str], object] | None = None,
) -> Plan:
    """How much memory a join needs to keep `recall` of its result, under which policy, in how many shards.

    The trace is played in memories from a 128th of what the exact join holds to all of it (or in `memories`), under some policies (or
    `policies`); then the smallest memory is looked for. Statistics are those of Spark (`decayed`). Where rows have an importance, shares
    are of the value of the result, else of the number of its rows. A trace of more than `rows` rows is sampled by its keys. What is found
    comes with the interval in which the recall of later data of the same kind lies, as far as this trace shows it. `time` is the column
    of times, or one by stream, for the code to paste; `progress` is called with what is played next.

    >>> import penstock as ps
    >>> trace = ps.generate(3000, keys=100, seed=1)
    >>> found = ps.plan(trace, window=200, recall=0.8, policies=["prob", "fifo"])
    >>> found.policy, found.memory < found.peak, round(found.kept.share, 1)
    ('prob', True, 0.8)
    """
    check_trace(trace)
    if isinstance(recall, bool) or not isinstance(recall, int | float) or not 0 < recall <= 1:
        raise PenstockError(f"recall must be a number above 0 and up to 1, such as 0.95, got {recall!r}")
    most = whole(rows, "rows", "a positive whole number")
    if most < 1:
        raise PenstockError(f"rows must be a positive whole number, got {rows!r}")
    given = in_ticks(trace, window=window, half_life=half_life)
    options = given | {"predicate": predicate, "objective": objective, "matches": matches, "switches": switches, "stats": "decayed"}
    chosen = sampled(trace, most) if predicate == "=" else Sample([trace], 1.0)
    replays = Replays(trace, chosen, options, progress or (lambda text: None))
    problem, least = replays.problem(1), trace.n_streams
    names = policies_of(problem, policies)
    sizes = sizes_of(replays.peak, least) if memories is None else sorted({_size(size) for size in memories})
    policy, _ = best_of(replays, names, sizes, recall)
    memory = smallest_memory(replays, policy, sizes, recall)
    kept = replays.recall(policy, memory)
    assert kept is not None, "the exact join has outputs"
    others = {name: found.share for name in names if (found := replays.recall(name, memory)) is not None}
    bounded = all(one.kind == "time" and one.is_constant for one in problem.windows)
    ttl, ttl_kept = replays.shorter(memory) if bounded else (None, None)
    optimum, why = replays.optimum(memory)
    streams = Streams.of(trace) if predicate == "=" else None
    count = _shards(memory, streams) if shards is None else whole(shards, "shards", "a positive whole number")
    divided = None
    if count > 1 and chosen.whole and predicate == "=":
        replays.say(f"{count} shards")
        taken = {name: value for name, value in options.items() if value is not None}
        run = simulate(trace, memory=memory, policy=policy, shards=count, start=replays.start, **taken)
        whole_of = sum(sum(one.values if replays.by_value else one.outputs) for one in replays.exact)
        divided = float((run.value if replays.by_value else run.n_output) / whole_of)
    points = [Point(name, size, found) for (name, size), found in replays.known.items() if found is not None]
    return Plan(
        wanted=float(recall), by_value=replays.by_value, memory=memory, policy=policy, usual=policy == best_policy(problem), shards=count,
        kept=kept, peak=replays.peak, points=sorted(points, key=lambda point: (point.memory, point.policy)), optimum=optimum,
        why_no_optimum=why, ttl=ttl, ttl_kept=None if ttl_kept is None else ttl_kept.share, divided=divided, streams=streams,
        sampled=1.0 if chosen.whole else chosen.share * len(chosen.parts), rows=sum(map(len, chosen.parts)), names=trace.streams,
        keys=tuple(trace.key_columns), window=window,
        times={name: time if isinstance(time, str) else time[name] for name in trace.streams}, others=others,
    )  # fmt: skip


def _size(given: Any) -> int:
    found = whole(given, "memories", "a positive number of rows")
    if found < 1:
        raise PenstockError(f"memories must be positive numbers of rows, got {given!r}")
    return found


def _shards(memory: int, streams: Streams | None) -> int:
    pace = 0.0 if streams is None or streams.rows_per_second is None else streams.rows_per_second
    return max(1, min(ceil(pace / _PACE), memory // _FEW), ceil(memory / _HELD))
