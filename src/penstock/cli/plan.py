"""`penstock plan`: how much memory a join of these streams needs, which policy, how many shards."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli import options as opt
from penstock.cli.inputs import by_stream, read_input
from penstock.cli.output import (
    NOTHING,
    PICTURES,
    Bar,
    Files,
    FormatOption,
    announcing,
    check_different,
    check_target,
    note,
    number,
    print_json,
    print_table,
    wants_json,
)
from penstock.cli.texts import check_size, integer, real, settings, span, words
from penstock.core.errors import PenstockError

if TYPE_CHECKING:
    from penstock.core.trace import Trace
    from penstock.experiments.plan.answer import Plan

_STEPS = 60
"""About so many joins are played."""


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    example = "penstock plan pickups.parquet dropoffs.parquet --time ts --key zone --window '10 minutes' --recall 0.9 --plot plan.png"
    app.command(epilog=f"Example: {example}")(plan)


def plan(
    traces: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="TRACE",
            help="A trace, or a file or folder per stream, as for `penstock simulate`; nothing with --archive.",
            show_default=False,
        ),
    ] = None,
    window: Annotated[
        str | None,
        typer.Option(metavar="LENGTH", help="As for `penstock simulate`.  [default: with --archive that of the join]"),
    ] = None,
    recall: Annotated[str, typer.Option(metavar="SHARE", help="How much of the result is wanted, or of its value.")] = "0.95",
    archive: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Plan for the rows in the ledger of a join that runs.")] = None,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="Of the join, where the archive has several.")] = None,
    policy: Annotated[str | None, typer.Option(metavar="NAMES", help="The policies to try.  [default: auto and the usual ones]")] = None,
    memory: Annotated[
        str | None, typer.Option(metavar="SIZES", help="Rows to try, 100,1000.  [default: from a 128th of what the exact join holds]")
    ] = None,
    shards: opt.Shards = None,
    rows: Annotated[str, typer.Option(metavar="N", help="Of more rows a sample is played, by keys.")] = "1000000",
    objective: opt.Objective = None,
    matches: opt.Matches = None,
    half_life: opt.HalfLife = None,
    predicate: opt.Predicate = "=",
    switch: opt.Switches = None,
    key: opt.Key = None,
    time: opt.TimeColumn = None,
    importance: opt.ImportanceColumn = None,
    size: opt.SizeColumn = None,
    streams: opt.Streams = None,
    time_unit: opt.TimeUnit = None,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw it: .png, .svg or .html.")] = None,
    form: FormatOption = "table",
) -> None:
    """Play archived streams in many memories: how much does this join need, under which policy, in how many shards?"""
    as_json = wants_json(form)
    check_target("--plot", plot, PICTURES)
    for trace in traces or ():
        check_different({"TRACE": trace, "--plot": plot})
    share = real(recall, "--recall")
    sizes = None if memory is None else [integer(text, "--memory", least=1) for text in words(memory, "--memory")]
    if (archive is None) == (not traces):
        raise PenstockError("penstock plan needs a TRACE, or --archive FOLDER, " + ("got neither" if archive is None else "got both"))
    if archive is not None:
        from penstock.ledger.archived_rows import archived_trace

        given = {"--key": key, "--time": time, "--importance": importance, "--size": size, "--streams": streams, "--time-unit": time_unit}
        for option, text in given.items():
            if text is not None:
                raise PenstockError(f"{option} must be left out with --archive, whose ledger says it, got {text!r}")
        found, windows = archived_trace(archive, name=name)
        said: dict[str, dict[str, Any]] = {}
        length: Any = windows if window is None else window
    else:
        if window is None:
            raise PenstockError("--window must say how long tuples wait for partners, such as '10 minutes', got nothing")
        check_size(window, "--window")
        columns = {"time": time, "key": key, "importance": importance, "size": size}
        found = read_input(traces or [], **columns, predicate=predicate, through=(), streams=streams, time_unit=time_unit).trace
        length = window
        said = _said(found, time=time, key=key, importance=importance) if len(traces or []) > 1 else {}

    from penstock.experiments.plan.plan import plan as planned

    with Bar(_STEPS, "loading the engine (compiled on first use)") as bar:
        made = planned(
            found, window=length, recall=share, policies=None if policy is None else words(policy, "--policy"), memories=sizes,
            shards=None if shards is None else integer(shards, "--shards", least=1), predicate=predicate, objective=objective,
            matches=matches, half_life=None if half_life is None else span(half_life, "--half-life"), switches=settings(switch or ()),
            rows=integer(rows, "--rows", least=1), columns=said, progress=announcing(bar),
        )  # fmt: skip
    if plot:
        from penstock.experiments.figures import save
        from penstock.experiments.plan.picture import picture

        with Files() as files:
            save(picture(made), files.new(plot))
    if as_json:
        print_json(made.summary())
    else:
        _print(made)
    if archive is not None and not as_json:
        note("a ledger does not say how streams call their times: put your column in the place of time")
    if made.kept.share < share:
        note(f"no memory that was tried keeps {share:.1%}")


def _said(trace: Trace, **columns: str | None) -> dict[str, dict[str, Any]]:
    """What is told of streams that have a file each: the names that columns have there."""
    said: dict[str, dict[str, Any]] = {name: {} for name in trace.streams}
    for what, text in columns.items():
        own = by_stream(text, f"--{what}", trace.streams) if text is not None else []
        for name, names in zip(trace.streams, own, strict=False):
            if what != "key" or tuple(names) != tuple(trace.key_columns):
                said[name][what] = names[0] if len(names) == 1 else names
    return said


def _print(made: Plan) -> None:
    for sentence in made.sentences():
        typer.echo(sentence)
    typer.echo("")
    policies = sorted(made.others, key=lambda name: -made.others[name])
    kept = {(one.policy, one.memory): one.kept for one in made.points}
    lines = []
    for memory in sorted({one.memory for one in made.points}):
        shares = [_share(kept.get((name, memory))) for name in policies]
        best = kept.get((made.policy, memory))
        low = NOTHING if best is None else f"{best.low:.1%} to {best.high:.1%}"
        lines.append([number(memory) + (" *" if memory == made.memory else ""), *shares, low])
    what = "value" if made.by_value else "result"
    print_table(
        ["memory", *policies, f"later, {made.policy}"],
        lines,
        title=f"How much of the {what} is kept",
        caption="* what is recommended. Later: where 95 % of later data of this kind lie.",
    )
    for reason in made.reasons():
        typer.echo(f" {reason}")
    typer.echo(f"\n{made.code()}\n\n{made.snippet()}")


def _share(kept: Any) -> str:
    return NOTHING if kept is None else f"{kept.share:.1%}"
