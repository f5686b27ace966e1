"""`penstock simulate`: play archived streams under one or several policies and memories, and report what came out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from penstock.cli import options as opt
from penstock.cli.inputs import read_input
from penstock.cli.output import (
    PICTURES,
    TABLES,
    Bar,
    Files,
    FormatOption,
    check_different,
    check_target,
    note,
    print_json,
    wants_json,
)
from penstock.cli.relations.through import read_relations, relation_sources
from penstock.cli.simulate_output import Sized, as_json, check_chart, memory_table, outputs_table, print_runs, sizes_chart, write
from penstock.cli.texts import check_size, integer, memories, moment, real, settings, span, words
from penstock.core.errors import PenstockError
from penstock.core.rates import read_rates

if TYPE_CHECKING:
    from penstock.core.problem import Problem
    from penstock.core.trace import Trace
    from penstock.engine.run import JoinRun

OPT = "opt"


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    example = "penstock simulate pickups.parquet dropoffs.parquet --time ts --key zone --window '10 minutes' --memory 1000,10000 --shards 2"
    app.command(epilog=f"Example: {example}")(simulate)


def simulate(
    traces: opt.TraceFiles,
    window: opt.Window,
    memory: opt.Memories,
    policy: opt.Policies = "auto",
    allocation: opt.Allocation = "variable",
    shards: opt.Shards = None,
    batch: opt.BatchLength = None,
    shared: opt.SharedShares = True,
    stats: opt.Stats = "decayed",
    rates: opt.Rates = None,
    objective: opt.Objective = None,
    start: opt.Start = None,
    seed: opt.Seed = "0",
    alpha: opt.Alpha = None,
    beta: opt.Beta = None,
    weights: opt.Weights = "1,1,0",
    half_life: opt.HalfLife = None,
    model: opt.Model = "buffered",
    clock: opt.Clock = None,
    lateness: opt.Lateness = "0",
    matches: opt.Matches = None,
    ahead: opt.Ahead = "none",
    predicate: opt.Predicate = "=",
    cross: opt.Cross = False,
    relation: opt.Relations = None,
    link: opt.Links = None,
    relation_begin: opt.FactBegin = None,
    relation_end: opt.FactEnd = None,
    relation_weight: opt.FactWeight = None,
    relation_id: opt.FactId = None,
    switch: opt.Switches = None,
    key: opt.Key = None,
    time: opt.TimeColumn = None,
    importance: opt.ImportanceColumn = None,
    size: opt.SizeColumn = None,
    streams: opt.Streams = None,
    time_unit: opt.TimeUnit = None,
    outputs: opt.Outputs = None,
    memory_log: opt.MemoryLog = None,
    plot: opt.Plot = None,
    exact: opt.Recalled = True,
    form: FormatOption = "table",
) -> None:
    """Join archived streams in bounded memory: how much comes out, under which policy, in which memory?"""
    in_json = wants_json(form)
    check_target("--outputs", outputs, TABLES)
    check_target("--memory-log", memory_log, TABLES)
    check_target("--plot", plot, PICTURES)
    for trace in traces:
        check_different({"TRACE": trace, "--rates": rates, "--outputs": outputs, "--memory-log": memory_log, "--plot": plot})
    for source in relation_sources(relation or ()).values():
        check_different({"--relation": Path(source), "--outputs": outputs, "--memory-log": memory_log, "--plot": plot})
    through = read_relations(
        relation or (), link or (), begin=relation_begin, end=relation_end, weight=relation_weight, id=relation_id
    )  # fmt: skip
    if (rates is not None) != (stats == "given"):
        raise PenstockError("--rates FILE and --stats given belong together, got only one of them")
    sizes = memories(memory)
    if len(sizes) > 1 and (outputs or memory_log):
        raise PenstockError(f"{'--outputs' if outputs else '--memory-log'} is about one memory, got {len(sizes)}: {', '.join(sizes)}")
    for option, text in [("--window", window), ("--lateness", lateness), *(("--memory", size) for size in sizes)]:
        check_size(text, option)
    names = words(policy, "--policy")
    if len(set(names)) < len(names):
        raise PenstockError(f"--policy must name each policy once, got {policy!r}")
    from penstock.shard.division import shard_count

    count = None if shards is None else shard_count(integer(shards, "--shards", least=1), "--shards")
    clock = clock or ("global" if count is None else "streams")
    options: dict[str, Any] = {
        "window": window,
        "allocation": allocation,
        "stats": stats,
        "objective": objective,
        "seed": integer(seed, "--seed", least=0),
        "alpha": None if alpha is None else span(alpha, "--alpha"),
        "beta": None if beta is None else real(beta, "--beta"),
        "half_life": None if half_life is None else span(half_life, "--half-life"),
        "weights": [real(weight, "--weights") for weight in words(weights, "--weights")],
        "model": model,
        "clock": clock,
        "lateness": lateness,
        "matches": matches,
        "predicate": predicate,
        "cross": cross,
        "switches": settings(switch or ()),
    }

    from penstock.core.ticks import in_ticks
    from penstock.relation.numbered import open_through

    columns = {"time": time, "key": key, "importance": importance, "size": size}
    found = read_input(traces, **columns, predicate=predicate, through=through, streams=streams, time_unit=time_unit)
    rows = found.trace
    options["through"] = numbered = open_through(rows, through or None)
    options["start"] = None if start is None else moment(start, "--start", rows)
    options = in_ticks(rows, **options)
    if numbered is not None and count is not None:
        raise PenstockError(f"--shards must be left out in a join through relations, got {shards}")
    linked = {"through": () if numbered is None else numbered.through}
    problems = {text: _check(rows, names, options | linked | in_ticks(rows, memory=text), count) for text in sizes}
    options |= {"ahead": _ahead(ahead), "shards": count, "batch": batch, "shared": shared}
    if clock != "streams" and next(iter(problems.values())).lateness.any():
        raise PenstockError(f"--lateness {lateness} needs --clock streams, got --clock {clock}")
    if rates is not None:
        options["given"] = read_rates(rates, rows.key_columns, [rows.key_values(name).type for name in rows.key_columns])
    curve = bool(plot) and len(sizes) > 1
    if curve:
        check_chart(problems.values(), exact)
    keep = {"outputs": outputs is not None, "retained": memory_log is not None, "series": bool(memory_log or (plot and not curve))}
    runs, whole = _play(rows, problems, names, options, keep, compared=exact)

    with Files() as files:
        if outputs:
            write(outputs_table(found, runs), files.new(outputs))
        if memory_log:
            write(memory_table(found, runs), files.new(memory_log))
        if plot:
            from penstock.experiments import figures

            budget = runs[0].problem.budget
            over_time = None if curve else figures.memory_over_time([one.run for one in runs], budget=budget, timestamps=rows.timestamps)
            figures.save(over_time or sizes_chart(runs, whole, count), files.new(plot))
    if rows.n_backwards and count is None:
        which = "1 row is earlier than the row before it"
        if rows.n_backwards > 1:
            which = f"{rows.n_backwards:,} rows are earlier than the row before them"
        note(f"{which}; rows are played as they come, and with --clock {clock} what has expired by then may be missed")
    if in_json:
        print_json(as_json(runs, whole))
    else:
        print_runs(found, runs, whole, count)


def _ahead(text: str) -> Any:
    """What `ps.simulate` takes: a length, or a length and what happens."""
    from penstock.core.clock_limit import read_limit

    length, colon, action = text.rpartition(":")
    given = (length, action) if colon and action.isalpha() else text
    read_limit(given, argument="--ahead")
    return given


def _check(trace: Trace, names: Sequence[str], options: dict[str, Any], shards: int | None) -> Problem:
    """Everything that can be wrong with the options, for each policy, before the first one is played."""
    from penstock.core.problem import Problem
    from penstock.optimum.optimum import check
    from penstock.policies.opt import Opt
    from penstock.policies.table import AUTO, best_policy, open_policy
    from penstock.shard.overhead import for_statistics, overhead_of
    from penstock.simulator.sharded import check_divisible
    from penstock.statistics.table import RUNNING, open_running

    columns = {"has_importance": trace.importance is not None, "has_lifetime": trace.lifetime is not None}
    problem = Problem.of(trace.streams, **(options | columns))
    for name in names if shards is not None else ():
        check_divisible(problem, shards, name)
    room = None if shards is None else for_statistics(overhead_of(None, problem.budget, shards))
    opened = [open_policy(name, problem, also=(Opt.name,), room=room) for name in names if name != Opt.name]
    if AUTO in names and len({one.name for one in opened}) < len(opened):
        raise PenstockError(f"--policy must name each policy once, got {best_policy(problem, room)!r} and {AUTO!r}, which it is here")
    if Opt.name in names:
        check(trace, problem)
    for policy in opened if problem.stats in RUNNING else ():
        open_running(problem, policy, room)
    return problem


def _play(
    trace: Trace, problems: dict[str, Problem], names: Sequence[str], options: dict[str, Any], keep: dict[str, bool], *, compared: bool
) -> tuple[list[Sized], JoinRun | None]:
    """A run for each memory and policy and, if wanted, the exact result. Beside several memories the optimum is played too."""
    from penstock.core.ticks import in_ticks
    from penstock.engine.contract import Keep
    from penstock.simulator.simulate import exact
    from penstock.simulator.simulate import simulate as play

    runs, whole, best = [], None, len(problems) > 1 and OPT not in names
    with Bar(len(trace) * (len(problems) * (len(names) + best) + compared), "loading the engine (compiled on first use)") as bar:

        def follow(name: str) -> Any:
            def progress(rows: int) -> None:
                bar.say(name)
                bar.advance(rows)

            return progress

        for text, problem in problems.items():
            mine = options | in_ticks(trace, memory=text)
            if best:
                found = list(_optimum(trace, mine, follow(f"the optimum in {text}")))
                best = bool(found)
                runs += [Sized(text, problem, run) for run in found]
            for name in names:
                run = play(trace, policy=name, keep=Keep(**keep), progress=follow(f"{name} in {text}"), **mine)
                runs.append(Sized(text, problem, run))
        if compared:
            kept = {name: options[name] for name in ("window", "objective", "start", "predicate", "cross", "through", "switches")}
            whole = exact(trace, progress=follow("exact"), **kept)
    return runs, whole


def _optimum(trace: Trace, options: dict[str, Any], progress: Any) -> Iterator[JoinRun]:
    """The optimum in one memory, whatever the shards; where it is out of reach, a note instead."""
    from penstock.simulator.simulate import simulate as play

    taken = ("window", "memory", "allocation", "objective", "model", "predicate", "cross", "through", "start", "switches")
    try:
        yield play(trace, policy=OPT, progress=progress, **{name: options[name] for name in taken})
    except PenstockError as error:
        note(f"the optimum is left out: {error}")
