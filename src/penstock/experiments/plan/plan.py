"""`ps.plan`: plays a join of some streams in many memories, and says what it needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil
from typing import Any

import numpy as np

from penstock.core.errors import PenstockError
from penstock.core.predicate import PredicateSpec
from penstock.core.ticks import in_ticks
from penstock.core.trace import Trace, check_trace
from penstock.core.value import ObjectiveSpec
from penstock.core.window import WindowSpec, by_stream, whole
from penstock.experiments.plan.answer import Plan, Point
from penstock.experiments.plan.key_sample import Sample, sampled, taken
from penstock.experiments.plan.memory_search import cheapest, policies_of, sizes_of
from penstock.experiments.plan.replays import Replays
from penstock.experiments.plan.streams import Streams
from penstock.policies.table import best_policy
from penstock.shard.division import shard_count
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
    columns: Mapping[str, Mapping[str, Any]] | None = None,
    progress: Callable[[str], object] | None = None,
) -> Plan:
    """How much memory a join needs to keep `recall` of its result, under which policy, in how many shards.

    The trace is played in memories from a 128th of what the exact join holds to all of it (or in `memories`), under some policies (or
    `policies`); then the smallest memory is looked for. Statistics are those of Spark (`decayed`). Where rows have an importance, shares
    are of the value of the result, else of the number of its rows. A trace of more than `rows` rows is sampled by its keys. What is found
    comes with the interval in which the recall of later data of the same kind lies, as far as this trace shows it. `columns` is what
    `ps.stream` is told of each stream, such as {"R": {"time": "ts"}}, for the code to paste; `progress` is called with what comes next.

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
    names_of = _texts(policies, "policies")
    told = {
        "predicate": None if predicate == "=" else predicate,
        "objective": objective,
        "half_life": half_life,
        "switches": switches or None,
    }
    sides = {name: _side(trace, name, window, matches, (columns or {}).get(name, {})) for name in trace.streams}
    count = None if shards is None else shard_count(whole(shards, "shards", "a positive whole number"))
    trace = trace if not trace.n_backwards else taken(trace, np.argsort(trace.time, kind="stable"))
    options = in_ticks(trace, window=window, half_life=half_life)
    options |= {"predicate": predicate, "objective": objective, "matches": matches, "switches": switches, "stats": "decayed"}
    chosen = sampled(trace, most) if predicate == "=" else Sample([trace], 1.0)
    replays = Replays(trace, chosen, options, progress or (lambda text: None))
    problem = replays.problem(1)
    names = policies_of(problem, names_of)
    sizes = sizes_of(replays.peak) if memories is None else sorted({_size(size) for size in _list(memories, "memories")})
    policy, memory, others = cheapest(replays, names, sizes, recall)
    kept = replays.recall(policy, memory)
    assert kept is not None, "the exact join has outputs"
    bounded = trace.lifetime is None and all(one.kind == "time" and one.is_constant for one in problem.windows)
    ttl, ttl_kept = replays.shorter(memory) if bounded else (None, None)
    optimum, why = replays.optimum(memory)
    streams = Streams.of(trace) if predicate == "=" else None
    count = _shards(memory, streams) if count is None else count
    divided = None
    if count > 1 and chosen.whole and predicate == "=":
        replays.say(f"{count} shards")
        given = {name: value for name, value in options.items() if value is not None}
        run = simulate(trace, memory=memory, policy=policy, shards=count, start=replays.start, **given)
        whole_of = sum(sum(one.values if replays.by_value else one.outputs) for one in replays.exact)
        divided = float((run.value if replays.by_value else run.n_output) / whole_of)
    points = [Point(name, size, found) for (name, size), found in replays.known.items() if found is not None]
    return Plan(
        wanted=float(recall), by_value=replays.by_value, memory=memory, policy=policy, usual=policy == best_policy(problem), shards=count,
        kept=kept, peak=replays.peak, points=sorted(points, key=lambda point: (point.memory, point.policy)), optimum=optimum,
        why_no_optimum=why, ttl=ttl, ttl_kept=None if ttl_kept is None else ttl_kept.share, divided=divided, streams=streams,
        sampled=1.0 if chosen.whole else chosen.share * len(chosen.parts), rows=sum(map(len, chosen.parts)), names=trace.streams,
        keys=tuple(trace.key_columns), sides=sides, told={name: value for name, value in told.items() if value is not None}, others=others,
    )  # fmt: skip


def _side(trace: Trace, name: str, window: WindowSpec, matches: Any, told: Mapping[str, Any]) -> dict[str, Any]:
    """What `ps.stream` is told of a stream."""
    parts = by_stream(window, "window") if isinstance(window, str) and "=" in window else window
    if isinstance(parts, Mapping) and name not in parts:
        raise PenstockError(f"window must name each of the streams {', '.join(trace.streams)}, got {', '.join(map(str, parts))}")
    own = {"time": "time", "window": parts[name] if isinstance(parts, Mapping) else parts}
    own |= {} if trace.importance is None else {"importance": "importance"}
    own |= {} if trace.lifetime is None else {"lifetime": "lifetime"}
    promised = matches.get(name) if isinstance(matches, Mapping) else matches
    return own | ({} if promised is None else {"matches": promised}) | dict(told)


def _list(given: Any, name: str) -> list[Any]:
    if isinstance(given, str) or not isinstance(given, Sequence) or not given:
        raise PenstockError(f"{name} must be a list with something in it, got {given!r}")
    return list(given)


def _texts(given: Any, name: str) -> list[str] | None:
    return None if given is None else _list(given, name)


def _size(given: Any) -> int:
    found = whole(given, "memories", "a positive number of rows")
    if found < 1:
        raise PenstockError(f"memories must be positive numbers of rows, got {given!r}")
    return found


def _shards(memory: int, streams: Streams | None) -> int:
    pace = 0.0 if streams is None or streams.rows_per_second is None else streams.rows_per_second
    return max(1, min(ceil(pace / _PACE), memory // _FEW), ceil(memory / _HELD))
