"""`penstock simulate`: play an archived trace under one or several policies, and say what came out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from penstock.cli import options as opt
from penstock.cli.output import (
    PICTURES,
    TABLES,
    Bar,
    Files,
    FormatOption,
    check_different,
    check_target,
    note,
    number,
    print_json,
    print_table,
    share,
    wants_json,
)
from penstock.cli.texts import check_size, integer, key_columns, moment, read_rates, real, settings, span, words
from penstock.core.errors import PenstockError

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.core.problem import Problem
    from penstock.core.run import JoinRun
    from penstock.core.trace import Trace


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command(epilog="Example: penstock simulate trace.parquet --window 400 --memory 100 --policy prob,fifo --plot memory.png")(simulate)


def simulate(
    trace: opt.TraceFile,
    window: opt.Window,
    memory: opt.Memory,
    policy: opt.Policies = "prob",
    allocation: opt.Allocation = "variable",
    shards: opt.Shards = None,
    batch: opt.BatchLength = None,
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
    ahead: opt.Ahead = "none",
    predicate: opt.Predicate = "=",
    cross: opt.Cross = False,
    switch: opt.Switches = None,
    key: opt.Key = None,
    streams: opt.Streams = None,
    time_unit: opt.TimeUnit = None,
    outputs: opt.Outputs = None,
    memory_log: opt.MemoryLog = None,
    plot: opt.Plot = None,
    exact: opt.Compared = None,
    form: FormatOption = "table",
) -> None:
    """Join the streams of a trace in bounded memory: how much comes out, under which policy?"""
    as_json = wants_json(form)
    check_target("--outputs", outputs, TABLES)
    check_target("--memory-log", memory_log, TABLES)
    check_target("--plot", plot, PICTURES)
    check_different({"TRACE": trace, "--rates": rates, "--outputs": outputs, "--memory-log": memory_log, "--plot": plot})
    if (rates is not None) != (stats == "given"):
        raise PenstockError("--rates FILE and --stats given belong together, got only one of them")
    for option, text in {"--window": window, "--memory": memory, "--lateness": lateness}.items():
        check_size(text, option)
    names = words(policy, "--policy")
    if len(set(names)) < len(names):
        raise PenstockError(f"--policy must name each policy once, got {policy!r}")
    from penstock.core.shards import shard_count

    count = None if shards is None else shard_count(integer(shards, "--shards", least=1), "--shards")
    clock = clock or ("global" if count is None else "streams")
    options: dict[str, Any] = {
        "window": window,
        "memory": memory,
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
        "predicate": predicate,
        "cross": cross,
        "switches": settings(switch or ()),
    }

    from penstock.core.timing import in_ticks
    from penstock.core.trace import read_trace

    named = None if streams is None else words(streams, "--streams")
    rows = read_trace(trace, key=key_columns(key, predicate), streams=named, time_unit=time_unit)
    options["start"] = None if start is None else moment(start, "--start", timestamps=rows.timestamps)
    options = in_ticks(rows, **options)
    problem = _check(rows, names, options, count)
    options |= {"ahead": _ahead(ahead), "shards": count, "batch": batch}
    if clock != "streams" and problem.lateness.any():
        raise PenstockError(f"--lateness {lateness} needs --clock streams, got --clock {clock}")
    if rates is not None:
        options["given"] = read_rates(rates, rows)
    compared = not as_json if exact is None else exact
    keep = {"outputs": outputs is not None, "retained": memory_log is not None, "series": bool(memory_log or plot)}
    runs, whole = _play(rows, names, options, keep, compared)

    with Files() as files:
        if outputs:
            _write(_outputs(rows, runs), files.new(outputs))
        if memory_log:
            _write(_memory_log(rows, runs), files.new(memory_log))
        if plot:
            from penstock.experiments import figures

            chart = figures.memory_over_time(runs, budget=problem.budget, timestamps=rows.timestamps)
            figures.save(chart, files.new(plot))
    if rows.n_backwards and count is None:
        which = "1 row is earlier than the row before it"
        if rows.n_backwards > 1:
            which = f"{rows.n_backwards:,} rows are earlier than the row before them"
        note(f"{which}; rows are played as they come, and with --clock {clock} what has expired by then may be missed")
    if as_json:
        print_json([run.summary() | _recall(run, whole) for run in runs])
    else:
        _print(rows, runs, whole, problem, count)


def _ahead(text: str) -> Any:
    """What `ps.simulate` takes: a length, or a length and what happens."""
    from penstock.core.ahead import read_limit

    length, colon, action = text.rpartition(":")
    given = (length, action) if colon else text
    read_limit(given, argument="--ahead")
    return given


def _check(trace: Trace, names: Sequence[str], options: dict[str, Any], shards: int | None) -> Problem:
    """Everything that can be wrong with the options, for each policy, before the first one is played."""
    from penstock.core.problem import Problem
    from penstock.optimum.optimum import check
    from penstock.policies.opt import Opt
    from penstock.policies.table import open_policy
    from penstock.sharded import check_shards
    from penstock.statistics.table import RUNNING, open_running

    columns = {"has_importance": trace.importance is not None, "has_lifetime": trace.lifetime is not None}
    problem = Problem.of(trace.streams, **(options | columns))
    for name in names if shards is not None else ():
        check_shards(problem, shards, name)
    opened = [open_policy(name, problem, also=(Opt.name,)) for name in names if name != Opt.name]
    if Opt.name in names:
        check(trace, problem)
    for policy in opened if problem.stats in RUNNING else ():
        open_running(problem, policy)
    return problem


def _play(
    trace: Trace, names: Sequence[str], options: dict[str, Any], keep: dict[str, bool], compared: bool
) -> tuple[list[JoinRun], JoinRun | None]:
    """A run for each policy and, if wanted, the exact result."""
    from penstock.core.engine import Keep
    from penstock.simulate import exact
    from penstock.simulate import simulate as play

    runs, whole = [], None
    with Bar(len(trace) * (len(names) + compared), "loading the engine (compiled on first use)") as bar:

        def follow(name: str) -> Any:
            def progress(rows: int) -> None:
                bar.say(name)
                bar.advance(rows)

            return progress

        for name in names:
            runs.append(play(trace, policy=name, keep=Keep(**keep), progress=follow(name), **options))
        if compared:
            kept = {name: options[name] for name in ("window", "objective", "start", "predicate", "cross", "switches")}
            whole = exact(trace, progress=follow("exact"), **kept)
    return runs, whole


def _outputs(trace: Trace, runs: Sequence[JoinRun]) -> pa.Table:
    """One row per output: policy, time, the row number of each member."""
    import pyarrow as pa

    parts = []
    for run in runs:
        assert run.outputs is not None
        members = {_column(name): run.outputs[:, 1 + place] for place, name in enumerate(run.streams)}
        parts.append(pa.table({"policy": pa.repeat(run.policy, len(run.outputs)), "time": _times(trace, run.outputs[:, 0]), **members}))
    return pa.concat_tables(parts)


def _memory_log(trace: Trace, runs: Sequence[JoinRun]) -> pa.Table:
    """One row per policy and instant: its time and the rows retained after it."""
    import numpy as np
    import pyarrow as pa

    parts = []
    for run in runs:
        assert run.memory_log is not None
        times = np.array([time for time, _ in run.memory_log], dtype=np.int64)
        retained = [rows for _, rows in run.memory_log]
        offsets = np.concatenate([[0], np.cumsum([len(rows) for rows in retained])]).astype(np.int32)
        rows = pa.ListArray.from_arrays(offsets, np.concatenate(retained))
        parts.append(pa.table({"policy": pa.repeat(run.policy, len(times)), "time": _times(trace, times), "rows": rows}))
    return pa.concat_tables(parts)


def _column(stream: str) -> str:
    return f"row_{stream}" if stream in ("policy", "time") else stream


def _times(trace: Trace, ticks: Any) -> pa.Array:
    """Times as the trace has them: ticks, or timestamps."""
    import pyarrow as pa

    return pa.array(ticks).cast(pa.timestamp("us", tz=trace.table["time"].type.tz)) if trace.timestamps else pa.array(ticks)


def _write(table: pa.Table, path: Path) -> None:
    from penstock.core.tables import write_table

    write_table(table, path)


def _print(trace: Trace, runs: Sequence[JoinRun], whole: JoinRun | None, problem: Problem, shards: int | None) -> None:
    """One line per policy; columns that would say nothing are left out."""
    lines = [_line(run, whole, problem) for run in runs]
    shown = [name for name in lines[0] if name != "late" or any(run.n_late for run in runs)]
    rows = ", ".join(f"{name} {int((trace.stream == place).sum()):,}" for place, name in enumerate(trace.streams))
    unit = "bytes" if problem.budget.in_bytes else "rows"
    in_shards = "" if shards is None else f", in {number(shards)} shard{'s' if shards > 1 else ''}"
    print_table(
        shown,
        [[line[name] for name in shown] for line in lines],
        title=f"{len(trace):,} rows ({rows}) in a memory of {problem.budget.most:,} {unit}{in_shards}",
        caption=f"The exact result has {whole.n_output:,} outputs." if whole else "",
    )


def _line(run: JoinRun, whole: JoinRun | None, problem: Problem) -> dict[str, str]:
    line = {"policy": run.policy, "outputs": number(run.n_output)}
    if whole:
        line["of exact"] = share(run.n_output, whole.n_output)
    if problem.objective.name != "count":
        line[f"value ({problem.objective.name})"] = number(run.value)
        if whole:
            line["of exact value"] = share(run.value, whole.value)
    counts = {"shed": run.n_shed, "expired": run.n_expired, "late": run.n_late, "peak memory": run.peak_memory}
    counts |= {} if run.n_ahead is None else {"ahead": run.n_ahead}
    return line | {name: number(count) for name, count in counts.items()}


def _recall(run: JoinRun, whole: JoinRun | None) -> dict[str, float | None]:
    if whole is None:
        return {}
    return {
        "recall": run.n_output / whole.n_output if whole.n_output else None,
        "value_recall": run.value / whole.value if whole.value else None,
    }
