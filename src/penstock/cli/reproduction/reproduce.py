"""`penstock reproduce`: every figure and table of the papers, by name; `list` shows them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from penstock.cli.output import Bar, Files, FormatOption, Stopped, check_target, complain, note, print_json, print_table, wants_json
from penstock.cli.reproduction import studies
from penstock.cli.texts import integer
from penstock.core.errors import PenstockError, choose

if TYPE_CHECKING:
    from penstock.experiments.cells.experiment import Experiment
    from penstock.experiments.reproduce.verdicts import Verdict

_EXAMPLE = "Example: penstock reproduce das-fig07 ojewole-table1 --quick --out reproduction"
_ALL = "all"
_MOST_SEEDS = 11
_FEW = 50  # cells are played sooner than Spark starts


class _ByName(TyperGroup):
    """A group whose first argument may be the name of an experiment: then the command is to play it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the command before the names."""
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = ["run", *args]
        return super().parse_args(ctx, args)


def register(app: typer.Typer) -> None:
    """Add the group to the command line."""
    group = typer.Typer(help="Repeat the experiments of the papers: `list`, or names, or all.", invoke_without_command=True, cls=_ByName)
    group.command("list", epilog="Example: penstock reproduce list --format json")(listed)
    group.command("run", epilog=_EXAMPLE)(run)
    studies.register(group)
    group.callback()(_reproduce)
    app.add_typer(group, name="reproduce")


def listed(form: FormatOption = "table") -> None:
    """Every figure and table that can be repeated: its setting, and what the paper says of it."""
    as_json = wants_json(form)

    from penstock.experiments.catalog.table import CATALOG, PAPERS
    from penstock.experiments.reproduce.runner import lacking

    if as_json:
        print_json([_described(one) | {"lacks": lacking(one) or None} for one in CATALOG.values()])
        return
    for paper, title in PAPERS.items():
        rows = [
            [one.name if at == 0 else "", f"{one.title}. {one.setting}" if at == 0 else "", claim.text]
            for one in CATALOG.values()
            if one.paper == paper
            for at, claim in enumerate(one.claims)
        ]
        print_table(["experiment", "what is played", "what is claimed"], rows, title=title, left=3)
    gone = [f"{one.name} {lacking(one)}" for one in CATALOG.values() if lacking(one)]
    for line in gone:
        note(line)


def run(
    names: Annotated[list[str], typer.Argument(metavar="NAME", help="Experiments, as `penstock reproduce list` names them, or all.")],
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer places on the axes; smaller streams where those of the papers are large.")
    ] = False,
    seeds: Annotated[str, typer.Option(metavar="N", help=f"Of each cell, 1 to {_MOST_SEEDS}; below 5, intervals are wide.")] = "5",
    out: Annotated[
        Path, typer.Option(metavar="FOLDER", help="For the cells, the figures and the report; a second run goes on in it.")
    ] = Path("reproduction"),
    page: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also the table of claims as Markdown: .md.", show_default=False)
    ] = None,
    here: Annotated[bool, typer.Option("--here", help="Play everything in this process, without Spark, as few cells are.")] = False,
    form: FormatOption = "table",
) -> None:
    """Play experiments of the papers, draw their figures, and check their claims: a report in a folder, a table here."""
    as_json = wants_json(form)
    check_target("--page", page, (".md",))
    n_seeds = integer(seeds, "--seeds", least=1)
    if n_seeds > _MOST_SEEDS:
        raise PenstockError(f"--seeds must be at most {_MOST_SEEDS}, got {n_seeds}")

    from penstock.experiments.catalog.table import CATALOG

    named = [choose("NAME", name, (*CATALOG, _ALL)) for name in dict.fromkeys(names)]
    wanted = list(CATALOG) if _ALL in named else named

    from penstock.experiments.reproduce import cell_store, report, runner, verdicts

    kept = cell_store.CellStore(out)
    made = runner.cells_to_play(wanted, kept, seeds=n_seeds, quick=quick)
    for name, why in made.absent.items():
        note(f"{name} is left out: it {why}")
    if not made.wanted:
        raise PenstockError(f"none of the experiments named can be played here, got {', '.join(wanted)}")
    total = sum(map(len, made.wanted.values()))
    if made.n_missing < total:
        note(f"{total - made.n_missing:,} of {total:,} cells are in {out} already")
    try:
        with Bar(made.n_missing + len(made.wanted), "loading the engine (compiled on first use)") as bar:
            apart = sum(len(cells) for name, cells in made.missing.items() if not CATALOG[name].timed)
            spread, slots = _workers(here=here or apart < _FEW)
            runner.run(made, kept, spread=spread, slots=slots, bar=bar)
            found = runner.results(made, kept)
            checked = verdicts.verdicts(found)

            def say(label: str) -> None:
                bar.say(label)
                bar.advance()

            file = report.write(out, found, checked, made.absent, cell_store.versions(), quick=quick, say=say)
    except KeyboardInterrupt:
        complain(f"interrupted; what was played is in {out}, and the same command goes on from there")
        raise Stopped from None
    if page is not None:
        with Files() as files:
            files.new(page).write_text(verdicts.page(checked, cell_store.versions(), made.absent), encoding="utf-8")
    if as_json:
        print_json(
            {"report": str(file), "versions": cell_store.versions(), "claims": [one.summary() for one in checked], "absent": made.absent}
        )
        return
    _print(checked)
    typer.echo(f" report: {file}")


def _workers(*, here: bool) -> tuple[Any, int]:
    """How cells are spread over Spark, and how many at a time; nothing where they are played in this process."""
    if here:
        return None, 1

    from penstock.spark.session.java import missing_java
    from penstock.spark.session.presence import missing_pyspark

    lacking = missing_pyspark() or missing_java()
    if lacking:
        note(f"cells are played in this process, one after the other: {lacking}")
        return None, 1

    from penstock.spark.session.session import quiet_session
    from penstock.spark.session.spread import slots, spread

    spark = quiet_session()
    return partial(spread, spark), slots(spark)


def _print(found: Sequence[Verdict]) -> None:
    from penstock.experiments.reproduce.verdicts import score

    rows = [[one.experiment, one.claim, one.word, one.figure] for one in found]
    print_table(["experiment", "claim", "holds?", "our figure"], rows, title=score(found), left=4)
    reasons: dict[str, list[str]] = {}
    for one in found:
        if one.because:
            reasons.setdefault(one.because, []).append(one.experiment)
    for because, names in reasons.items():
        typer.echo(f" {', '.join(dict.fromkeys(names))}: {because}")


def _described(one: Experiment) -> dict[str, Any]:
    return {
        "name": one.name, "paper": one.paper, "title": one.title, "setting": one.setting, "changed": one.changed or None,
        "lines": one.lines, "claims": [claim.text for claim in one.claims],
    }  # fmt: skip


def _reproduce(context: typer.Context) -> None:
    """Repeat the experiments of the papers: `list` names them; `all` plays every one; others are larger studies."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
