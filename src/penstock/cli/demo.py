"""`penstock demo`: the sample pipeline through Spark, compared with the exact join and with dropping the oldest."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.output import Files, FormatOption, note, number, print_json, print_table, share, wants_json
from penstock.cli.run import changes, read, watch
from penstock.cli.texts import integer
from penstock.core.errors import PenstockError

if TYPE_CHECKING:
    from penstock.experiments.demo import Contestant, Demo
    from penstock.pipeline.recipe import Recipe


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command(epilog="Example: penstock demo --out demo-out --set join.policy=life")(demo)


def demo(
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where rows and picture go; what a demo left there is replaced.")] = Path(
        "demo-out"
    ),
    seed: Annotated[str, typer.Option(metavar="N", help="Another seed gives other streams.")] = "0",
    change: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Another value for a key of the pipeline, as in penstock run.", show_default=False),
    ] = None,
    form: FormatOption = "table",
) -> None:
    """Join two skewed, bursty streams on Spark in a tenth of the memory, and see how much of the exact result comes out.

    It runs examples/demo.toml. Without PySpark or Java the simulator plays the same rows.
    """
    as_json = wants_json(form)
    replaced = {"sink.path": str(out / "joined"), "sink.checkpoint": str(out / "checkpoint")}
    replaced |= {"sources.shop.seed": integer(seed, "--seed", least=0)} | changes(change or ())
    if out.exists() and not out.is_dir():
        raise PenstockError(f"--out must be a folder, got the file {str(out)!r}")

    from penstock.experiments import demo as show
    from penstock.experiments import figures
    from penstock.experiments.timeline import timeline
    from penstock.spark.session.java import missing_java
    from penstock.spark.session.presence import GENERATOR, missing_pyspark, too_old

    recipe = read(show.SAMPLE, replaced)
    out.mkdir(parents=True, exist_ok=True)
    lacking = missing_pyspark() or missing_java() or too_old("the demo's source of rows", GENERATOR)
    if lacking:
        note(f"{lacking}; until then the simulator plays the same rows, without Spark")
        found = show.compare(recipe, None)
    else:
        found = show.compare(recipe, *show.on_spark(recipe, _run(recipe, quiet=as_json)))
    with Files() as files:
        picture = timeline(found)
        for name in ("demo.png", "demo.html"):
            figures.save(picture, files.new(out / name))
    if as_json:
        print_json(_record(found) | {"pictures": [str(out / "demo.png"), str(out / "demo.html")]})
        return
    _tell(found)
    typer.echo(f" picture: {out / 'demo.png'}, with tooltips: {out / 'demo.html'}")


def _run(recipe: Recipe, *, quiet: bool) -> Sequence[dict[str, Any]]:
    """The pipeline from its beginning to its end."""
    _clear(Path(recipe.sink["path"]), "_spark_metadata")
    _clear(Path(recipe.sink["checkpoint"]), "metadata")

    from penstock.spark.pipeline import query as pipeline

    return watch(recipe, pipeline.open_session(recipe), quiet=quiet)


def _clear(folder: Path, sign: str) -> None:
    """Remove what an earlier run of Spark has left, and nothing else."""
    if not folder.exists():
        return
    if not (folder / sign).exists() and any(folder.iterdir()):
        raise PenstockError(
            f"--out must not hold a {folder.name!r} that is not of a demo, got {str(folder)!r}; remove it or choose another place"
        )
    shutil.rmtree(folder)


def _ways(found: Demo) -> list[Contestant]:
    """Best first."""
    return sorted([found.whole, found.run, *found.rivals], key=lambda one: -one.n_output)


def _record(found: Demo) -> dict[str, Any]:
    ways = [
        {"name": one.name, "n_output": one.n_output, "recall": found.recall(one), "n_shed": one.n_shed, "most_held": one.most}
        for one in _ways(found)
    ]
    return {"n_input": found.n_input, "memory": found.memory, "batches": len(found.batches), "runs": ways}


def _tell(found: Demo) -> None:
    rows = [[one.name, number(one.n_output), share(found.recall(one), 1), number(one.n_shed), number(one.most)] for one in _ways(found)]
    part = share(found.memory, found.whole.most)
    print_table(
        ["", "joined rows", "of exact", "shed", "most held"],
        rows,
        title=f"{found.n_input:,} rows joined in a memory of {found.memory:,}, {part} of what the exact join takes",
        caption="All but this run: the simulator on the same rows." if found.batches else "All by the simulator, in one piece.",
    )
    kept, oldest, best = (f"{100 * found.recall(one):.0f} %" for one in (found.run, *found.rivals))
    typer.echo(f" Dropping the oldest keeps {oldest} of the result; {found.run.policy} keeps {kept}. At best: {best}.")
