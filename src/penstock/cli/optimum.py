"""`penstock optimum`: the best that any policy could have done on an archived trace."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from penstock.cli import options as opt
from penstock.cli.output import (
    NOTHING,
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
from penstock.cli.relations.through import read_relations, relation_sources
from penstock.cli.texts import check_size, integer, key_columns, moment, settings, words
from penstock.core.errors import PenstockError

if TYPE_CHECKING:
    from penstock.core.problem import Problem
    from penstock.core.trace import Trace
    from penstock.engine.run import JoinRun
    from penstock.optimum.schedule import Optimum
    from penstock.optimum.sweep import CurvePoint


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command(epilog="Example: penstock optimum trace.parquet --window 400 --memory 100 --verify")(optimum)


def optimum(
    trace: opt.TraceFile,
    window: opt.Window,
    memory: opt.Memory,
    allocation: opt.Allocation = "variable",
    objective: opt.Objective = None,
    start: opt.Start = None,
    model: opt.Model = "buffered",
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
    streams: opt.Streams = None,
    time_unit: opt.TimeUnit = None,
    method: opt.Method = "auto",
    least: opt.Least = False,
    limit: opt.Limit = "4 GiB",
    verify: opt.Verify = False,
    curve: opt.Curve = False,
    sizes: opt.Sizes = None,
    display: opt.Display = False,
    schedule: opt.ScheduleFile = None,
    plot: opt.CurvePlot = None,
    exact: opt.Compared = None,
    form: FormatOption = "table",
) -> None:
    """Find the best value that any policy could have reached in this memory, and the schedule that reaches it."""
    as_json = wants_json(form)
    check_target("--schedule", schedule, TABLES)
    check_target("--plot", plot, PICTURES)
    check_different({"TRACE": trace, "--schedule": schedule, "--plot": plot})
    if not curve and (plot is not None or sizes is not None):
        raise PenstockError(f"{'--plot' if plot else '--sizes'} belongs to --curve, got it without")
    if curve and (verify or display or least or schedule is not None):
        raise PenstockError("--curve gives values for many memories; --verify, --display, --least and --schedule are about one, got both")
    for option, text in {"--window": window, "--memory": memory}.items():
        check_size(text, option)
    wanted = None if sizes is None else [integer(size, "--sizes", least=1) for size in words(sizes, "--sizes")]
    for source in relation_sources(relation or ()).values():
        check_different({"--relation": Path(source), "--schedule": schedule, "--plot": plot})
    through = read_relations(
        relation or (), link or (), begin=relation_begin, end=relation_end, weight=relation_weight, id=relation_id
    )  # fmt: skip

    from penstock.core.problem import Problem
    from penstock.core.ticks import in_ticks
    from penstock.core.trace import read_trace
    from penstock.optimum.optimum import check, to_play, told
    from penstock.relation.numbered import open_through

    named = None if streams is None else words(streams, "--streams")
    archived = read_trace(trace, key=key_columns(key, predicate, through), streams=named, time_unit=time_unit)
    begin = None if start is None else moment(start, "--start", archived)
    numbered = open_through(archived, through or None)
    problem = Problem.of(
        archived.streams, **in_ticks(archived, window=window, memory=memory, start=begin), allocation=allocation, objective=objective,
        model=model, predicate=predicate, cross=cross, through=() if numbered is None else numbered.through,
        switches=settings(switch or ()),
        has_importance=archived.importance is not None, has_lifetime=archived.lifetime is not None,
    )  # fmt: skip
    goal = "min" if least else "max"
    check(archived, problem, method, goal)
    rows = to_play(archived, problem, numbered)
    whole = _whole(rows, problem) if (not as_json if exact is None else exact) else None
    if curve:
        _curve(rows, problem, wanted, plot, whole, as_json=as_json, method=method, limit=limit)
        return

    from penstock.optimum.optimum import find_optimum

    with Bar(len(rows), "solving (compiled on first use)") as bar:
        found = find_optimum(rows, problem, method=method, goal=goal, limit=limit, progress=bar.advance, announce=note)
    report = _verify(rows, problem, found) if verify else None
    with Files() as files:
        if schedule:
            _write_schedule(archived, told(rows, found), files.new(schedule))
    if as_json:
        states = _states_json(rows, problem, found) if display else {}
        print_json(found.summary() | _filtered(rows) | _shares(found, whole) | (report or {}) | states)
    else:
        if display:
            _print_states(rows, problem, found)
        _print(found, whole, problem, report, _filtered(rows))
    if report and not report["verified"]:
        raise typer.Exit(1)


def _whole(trace: Trace, problem: Problem) -> JoinRun:
    """The exact result."""
    from penstock.engine.run import record
    from penstock.optimum.gains import ample
    from penstock.optimum.linked import batch_of, facts_of
    from penstock.policies.fifo import Fifo
    from penstock.statistics.base import Source

    with Bar(len(trace), "the exact join") as bar:
        batch, facts = batch_of(trace, problem), facts_of(trace)
        return record(ample(trace, problem), Fifo(), Source(), batch, None, stepwise=False, progress=bar.advance, facts=facts)


def _curve(
    trace: Trace, problem: Problem, sizes: Sequence[int] | None, plot: Path | None, whole: JoinRun | None, *, as_json: bool, **how: Any
) -> None:
    """OPT(M), as numbers and as a picture."""
    from time import perf_counter

    from penstock.optimum.sweep import A_FEW, find_curve

    began = perf_counter()
    with Bar(len(sizes or range(A_FEW)), "solving (compiled on first use)") as bar:
        points = find_curve(trace, problem, sizes, announce=note, progress=bar.advance, **how)
    seconds = perf_counter() - began
    worth = "outputs" if problem.objective.name == "count" else f"value ({problem.objective.name})"
    if plot:
        from penstock.experiments import figures
        from penstock.experiments.optimum_curve import optimum_curve

        chart = optimum_curve(
            [p.memory for p in points], [p.value for p in points], whole=None if whole is None else whole.value, worth=worth
        )
        with Files() as files:
            figures.save(chart, files.new(plot))
    if as_json:
        curve = [{"memory": p.memory, "value": p.value} for p in points]
        print_json(
            {"curve": curve, "method": points[-1].method, "seconds": seconds}
            | _filtered(trace)
            | ({"exact_value": whole.value} if whole else {})
        )
        return
    _print_curve(points, whole, worth, seconds)


def _print_curve(points: Sequence[CurvePoint], whole: JoinRun | None, worth: str, seconds: float) -> None:
    shown = points if len(points) <= 25 else [points[len(points) * part // 25] for part in range(25)] + [points[-1]]
    lines = [[number(p.memory), number(p.value), *([share(p.value, whole.value)] if whole else []), p.method] for p in shown]
    columns = ["memory", worth, *(["of exact"] if whole else []), "method"]
    rest = f" {len(shown)} of {len(points)} sizes are shown." if len(shown) < len(points) else ""
    print_table(columns, lines, title="The optimum by memory", caption=f"{seconds:.2f} s.{rest}", left=0)


def _verify(trace: Trace, problem: Problem, found: Optimum) -> dict[str, Any]:
    """What an independent check says."""
    from penstock.optimum.certificate import verify

    if found.method == "exact":  # nothing is shed, and no output costs
        return {"verified": True, "bound": found.value, "faults": []}
    solution = found.solution
    if solution is None:
        solution = _priced(trace, problem, found)
    certificate = verify(trace, problem, solution)
    return {"verified": certificate.ok, "bound": certificate.bound, "faults": list(certificate.faults)}


def _priced(trace: Trace, problem: Problem, found: Optimum) -> Any:
    """The schedule of `states` with the prices of a flow, which prove or refute it all the same."""
    from dataclasses import replace

    from penstock.optimum.optimum import METHODS
    from penstock.optimum.solve import solve_chain

    refusal = METHODS["chain"].refusal(trace, problem, found.goal)
    if refusal:
        raise PenstockError(f"--verify checks by the prices of a flow, and there is none: {refusal}")
    return replace(solve_chain(trace, problem), value=found.value, leaves=found.schedule)


def _write_schedule(trace: Trace, found: Optimum, path: Path) -> None:
    """Row, and the instant in which it leaves; empty for those that stay until they expire."""
    import pyarrow as pa

    from penstock.core.tables import write_table
    from penstock.optimum.schedule import NEVER

    if not found.exact:
        raise PenstockError("--schedule needs an optimum, got an upper bound, which has none")
    table = pa.table({"row": pa.array(range(len(trace))), "leaves": pa.array(found.schedule, mask=found.schedule == NEVER)})
    write_table(table, path)


def _filtered(trace: Trace) -> dict[str, int]:
    """How many rows have no fact; nothing where no relation links the streams."""
    from penstock.optimum.linked import LinkedTrace

    return {"n_filtered": len(trace.filtered)} if isinstance(trace, LinkedTrace) else {}


def _shares(found: Optimum, whole: JoinRun | None) -> dict[str, Any]:
    if whole is None:
        return {}
    recall = found.n_output / whole.n_output if whole.n_output and found.n_output is not None else None
    return {"recall": recall, "value_recall": found.value / whole.value if whole.value else None}


def _print(found: Optimum, whole: JoinRun | None, problem: Problem, report: dict[str, Any] | None, filtered: dict[str, int]) -> None:
    """One line, and a word about what it means."""
    counting = problem.objective.name == "count"
    line = {"method": found.method, "outputs": NOTHING if found.n_output is None else number(found.n_output)}
    if whole and found.n_output is not None:
        line["of exact"] = share(found.n_output, whole.n_output)
    if not counting or not found.exact:
        line["value" if counting else f"value ({problem.objective.name})"] = number(found.value)
        if whole:
            line["of exact value"] = share(found.value, whole.value)
    line |= {name.removeprefix("n_"): number(count) for name, count in (filtered | found.size).items()}
    line["seconds"] = f"{found.seconds:.3f}"
    unit = "bytes" if problem.budget.in_bytes else "rows"
    title = f"The {'least value in a full' if found.goal == 'min' else 'optimum in a'} memory of {problem.budget.most:,} {unit}"
    print_table(list(line), [list(line.values())], title=title, caption=_meaning(found, whole))
    if report and report["verified"]:
        typer.echo(f" Verified: the schedule keeps to the budget, and prices prove that none is worth more than {number(report['bound'])}.")
    elif report:
        typer.echo(f" NOT verified: {'; '.join(report['faults'])}.")


def _meaning(found: Optimum, whole: JoinRun | None) -> str:
    if found.method == "exact":
        return "Memory holds all that the exact join needs: the optimum is the exact result."
    if not found.exact:
        return "An upper bound: no policy does better, and the best may do worse."
    return f"The exact result has {whole.n_output:,} outputs." if whole else ""


def _states(trace: Trace, problem: Problem, found: Optimum) -> list[Any]:
    from penstock.optimum.display import memory_states

    if not found.exact:
        raise PenstockError("--display needs a schedule, got an upper bound, which has none")
    return memory_states(trace, problem, found.schedule)


def _states_json(trace: Trace, problem: Problem, found: Optimum) -> dict[str, Any]:
    states = _states(trace, problem, found)
    memory = [dict(zip(problem.streams, state.held, strict=True)) for state in states]
    fields = [
        {"time": s.time, "memory": m, "together": s.together, "n_output": s.n_output, "value": s.value}
        for s, m in zip(states, memory, strict=True)
    ]
    return {"states": fields}


def _print_states(trace: Trace, problem: Problem, found: Optimum) -> None:
    """The memory after each instant, stream by stream."""
    lines = [
        [
            str(state.time),
            *(" ".join(held) or NOTHING for held in state.held),
            " ".join(state.together),
            number(state.n_output),
            number(state.value),
        ]
        for state in _states(trace, problem, found)
    ]
    columns = ["time", *problem.streams, "arrive together", "outputs", "value"]
    print_table(columns, lines, title="Memory after each instant, and what came out in it", left=2 + problem.n_streams)
