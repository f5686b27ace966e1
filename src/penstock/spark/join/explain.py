"""`ps.explain`: how a join would run, said before it does: routing, shards, memory, engine, policy, columns, and an order of loops."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from penstock.core.duration import UNITS
from penstock.core.errors import PenstockError
from penstock.core.graph import Graph
from penstock.engine.opening import why_stepwise
from penstock.multiway.order import order_joins
from penstock.multiway.stats import WindowStats
from penstock.policies.learned import Learned
from penstock.policies.table import open_policy
from penstock.shard.stream_window import window_text
from penstock.spark.join.join import join
from penstock.spark.join.planning import PlannedJoin, plan_join
from penstock.spark.join.stream import Stream
from penstock.statistics.base import Source

_RATE, _DISTINCT = 1000.0, 1000.0  # of a stream of which nothing is given
_HOW = {
    "key": "by the hash of its key; no row is copied",
    "cells": "by cell, four epsilon wide; a row of {first} to its own cell, a row of the others to every cell near it",
    "matrix": "a matrix of {dimensions} shards, a dimension for each stream; a row goes to all shards with its coordinate",
    "facts": "by the facts that it has at its time; without one it goes nowhere",
    "one": "one shard",
}


def explain(
    streams: Mapping[str, Stream],
    *,
    rates: Mapping[str, float] | None = None,
    distinct: Mapping[str, float] | None = None,
    **arguments: Any,
) -> str:
    """How `ps.join` with these arguments would run, as text.

    `rates` (rows per second) and `distinct` (values of what is compared) by stream are for the order of loops of three and more streams; by
    default a thousand each.
    """
    usual = {name: one.default for name, one in inspect.signature(join).parameters.items() if one.default is not inspect.Parameter.empty}
    if "memory" not in arguments:
        raise PenstockError('memory must be a positive number of rows or a size such as "512 MB", got nothing')
    made = plan_join(streams, **usual | arguments)
    lines = [
        f"join of {', '.join(made.plan.streams)} where {_predicate(made)}",
        f"windows    {', '.join(f'{name} {_stay(side)}' for name, side in streams.items())}",
        *_promises(made),
        f"routing    {_routing(made)}",
        f"memory     {_memory(made)}",
        f"shares     {_shares(made)}",
        f"engine     {_engine(made)}",
        f"policy     {_policy(made)}",
        f"statistics {_statistics(made)}",
        f"columns    {'; '.join(_columns(streams, made))}",
        f"overhead   {_overhead(made)}",
        f"lost       counted, up to {made.shard.meter.ghosts * made.route.shards:,} ghosts; beyond that estimated",
    ]
    if made.plan.max_output is not None:
        lines.append(f"limit      a batch in which all shards make more than {made.plan.max_output:,} outputs fails")
    if made.plan.ahead is not None:
        what = "dropped" if made.plan.ahead.drop else "put aside until they do"
        lines.append(f"ahead      rows more than {_window(made.plan.ahead.length)} ahead of what others support are {what}")
    if made.plan.archive is not None:
        lines.append(f"ledger     every copy of a row is written to {made.plan.archive}")
    return "\n".join([*lines, *_order(streams, made, rates or {}, distinct or {})])


def _promises(made: PlannedJoin) -> list[str]:
    """After how many joined rows tuples leave, where streams promise it."""
    problem = made.shard.problem
    promised = [f"{name} after {most:,}" for name, most in zip(problem.streams, problem.matches, strict=False) if most is not None]
    return [f"matches    a row leaves with its last joined row: {', '.join(promised)}"] if promised else []


def _predicate(made: PlannedJoin) -> str:
    compared = made.comparison
    if compared.through:
        return "; ".join(f"{name}: {', '.join(links)}" for name, links in made.plan.facts["through"].items())
    if compared.graph is not None:
        return compared.text + (" (cross)" if compared.cross else "")
    named = " and ".join(", ".join(own) for own in dict.fromkeys(compared.columns))
    if compared.predicate.name == "eps":
        return f"{named} of every two are at most {compared.predicate.epsilon:g} apart"
    if compared.by_key:
        return f"{named} {'is' if len(compared.columns[0]) == 1 else 'are'} equal"
    return f"{named} of every two compare by {compared.predicate.name}"


def _stay(side: Stream) -> str:
    return _window(side.window) if side.lifetime is None else "lifetimes of the rows' own"


def _window(window: int | str) -> str:
    if isinstance(window, str):
        kind, _, rest = window_text(window).partition(":")
        said = {"none": "without end", "rows": "last {} rows", "rows_per_key": "last {} rows of a key"}
        said |= {"tumbling": "tumbling, {}", "landmark": "all from {} on"}
        return said[kind].format(rest) if kind in said else f"changing: {window_text(window)}"
    return window_text(window)


def _routing(made: PlannedJoin) -> str:
    route = made.route
    sides = " x ".join(map(str, route.dimensions))
    text = f"{route.shards} shard{'s' if route.shards > 1 else ''}, {_HOW[route.kind].format(first=made.plan.streams[0], dimensions=sides)}"
    if route.shards == 1:
        return "one shard"
    copies = [f"{name} {_copies(made, number):.3g}" for number, name in enumerate(made.plan.streams)]
    return text + (f"; copies of a row: {', '.join(copies)}" if route.replicates else "")


def _copies(made: PlannedJoin, stream: int) -> float:
    """The copies of a row of a stream; where a relation links it, the shards of a value on average."""
    if made.route.kind != "facts" or made.plan.through is None:
        return made.route.copies(stream)
    (one,) = made.plan.through.through
    return made.plan.through.open().coverage(one.streams.index(stream), made.route.shards).copies


def _memory(made: PlannedJoin) -> str:
    plan = made.plan
    budget = plan.budget
    unit = "bytes" if budget.in_bytes else "tuples"
    own = " + ".join(f"{int(cap):,}" for cap in budget.caps[0])
    copies = ", copies counted" if made.route.replicates else ""
    part = "" if made.budget is None else f"; of a Budget of {made.budget.memory} for {made.budget.parts} joins, in equal parts at first"
    return f"{own} {unit} per shard ({plan.options['allocation']} allocation{copies}){part}"


def _shares(made: PlannedJoin) -> str:
    if made.plan.joins:
        moves = "they move after each batch to where tuples are worth more"
        return f"equal at first; {moves}, also between the joins {', '.join(made.plan.joins)}, by summaries in {made.plan.shared}"
    if made.budget is None:
        return _own_shares(made)
    fixed = f"the joins {', '.join(made.budget.joins)} keep equal parts of their Budget, which names no folder (shared=)"
    return f"{fixed}; of shards, {_own_shares(made)}"


def _own_shares(made: PlannedJoin) -> str:
    if made.route.shards == 1:
        return "one shard has all"
    if made.plan.shared is not None:
        return f"equal at first; they move after each batch to where tuples are worth more, by summaries in {made.plan.shared}"
    if not made.frames[0].isStreaming:
        return "equal: shards of a batch query cannot wait for each other"
    return "equal, whatever tuples are worth: there is neither an archive nor a folder to share (shared=), or it was said so"


def _overhead(made: PlannedJoin) -> str:
    plan, shard = made.plan, made.shard
    assert plan.overhead is not None
    beyond = "then the keys that came least of late are forgotten" if shard.chosen == Learned.name else "then a sketch"
    counted = f"statistics {shard.room:,} bytes, {beyond}; " if shard.room else ""
    return f"{plan.overhead:,} bytes per shard: {counted}ghosts {plan.overhead - shard.room:,} bytes"


def _engine(made: PlannedJoin) -> str:
    if made.shard.engine.is_compiled:
        return "compiled"
    return f"stepwise, because of {why_stepwise(made.shard.problem)}: each instant looks at all of memory"


def _policy(made: PlannedJoin) -> str:
    policy = open_policy(made.plan.options["policy"], made.shard.problem)
    return f"{policy.name}: {getattr(policy, 'summary', '') or 'of your own'}"


def _statistics(made: PlannedJoin) -> str:
    source = made.shard.engine.statistics
    if type(source) is Source:
        return "none: the policy asks for none"
    half_life = source.units()[1]
    return made.shard.problem.stats + (f", half-life {_window(round(half_life))}" if half_life else "")


def _columns(streams: Mapping[str, Stream], made: PlannedJoin) -> list[str]:
    """What is carried of each stream: what is compared, what the result shows, and what orders and weighs rows."""
    out = []
    for (name, side), compared in zip(streams.items(), made.comparison.columns, strict=True):
        shown = side.frame.columns if side.columns is None else list(side.columns)
        kept = list(dict.fromkeys([*compared, *shown, side.time, *([side.order] if side.order else [])]))
        left = [column for column in side.frame.columns if column not in kept]
        out.append(f"{name} carries {', '.join(kept)}" + (f" and leaves {', '.join(left)}" if left else ""))
    return out


def _order(streams: Mapping[str, Stream], made: PlannedJoin, rates: Mapping[str, float], distinct: Mapping[str, float]) -> list[str]:
    """An order of loops, where there is more than one; by key there is none, since a hash finds its tuples in all streams."""
    for given, what in ((rates, "rates"), (distinct, "distinct")):
        unknown = [name for name in given if name not in streams]
        if unknown:
            raise PenstockError(f"{what} must be given for the streams {', '.join(streams)}, got {unknown[0]!r}")
    if len(streams) < 3 or made.shard.problem.predicate.is_equality or made.comparison.through:
        return []
    if not all(isinstance(side.window, int) or side.window.startswith("rows:") for side in streams.values()):
        return []
    stats = [
        WindowStats(
            name,
            rate=rates.get(name, _RATE),
            window=side.window if isinstance(side.window, str) else side.window / UNITS["second"],
            distinct=dict.fromkeys(columns, distinct.get(name, _DISTINCT)) or _DISTINCT,  # a crossed stream compares nothing
        )
        for (name, side), columns in zip(streams.items(), made.comparison.columns, strict=True)
    ]
    graph = Graph(tuple(streams), made.comparison.links())
    told = "the rates given" if rates else f"{_RATE:g} rows a second each, as none were given"
    plan = order_joins(stats, on=graph, cross=True)
    how = "At every arrival the engine takes the stream with the best link next, of equals the one with the fewest tuples."
    return [f"order      by {told}, in ticks of a second. {how}", *(f"  {line}" for line in plan.text().splitlines())]
