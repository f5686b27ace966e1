"""`penstock demo`: the same join with less and less memory, in under a minute."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.output import Bar, Files, FormatOption, print_json, print_table, share, wants_json
from penstock.cli.texts import integer
from penstock.core.errors import PenstockError

if TYPE_CHECKING:
    from penstock.experiments.demo import Demo


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command(epilog="Example: penstock demo --out demo-out --seed 7")(demo)


def demo(
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where the picture goes.")] = Path("demo-out"),
    seed: Annotated[str, typer.Option(metavar="N", help="Another seed gives other streams.")] = "0",
    form: FormatOption = "table",
) -> None:
    """Join two skewed, bursty streams in a fraction of the memory, and see what each policy keeps of the result."""
    as_json = wants_json(form)
    chosen = integer(seed, "--seed", least=0)
    if out.exists() and not out.is_dir():
        raise PenstockError(f"--out must be a folder, got the file {str(out)!r}")
    out.mkdir(parents=True, exist_ok=True)

    from penstock.experiments import demo as show
    from penstock.experiments import figures

    trace = show.streams(chosen)
    with Bar(show.n_runs() * len(trace), "loading the engine (compiled on first use, about a minute)") as bar:

        def watch(name: str) -> Callable[[int], None]:
            def progress(rows: int) -> None:
                bar.say(name)
                bar.advance(rows)

            return progress

        found = show.play(trace, seed=chosen, progress=watch)
        bar.say("drawing")
        picture = show.chart(found)
        with Files() as files:
            for name in ("demo.png", "demo.html"):
                figures.save(picture, files.new(out / name))
    if as_json:
        print_json({"pictures": [str(out / "demo.png"), str(out / "demo.html")], "points": [asdict(p) for p in found.points]})
        return
    _tell(found)
    typer.echo(f" picture: {out / 'demo.png'}, with tooltips: {out / 'demo.html'}")


def _tell(found: Demo) -> None:
    from penstock.experiments import demo as show

    counts = [int((found.trace.stream == place).sum()) for place in range(2)]
    typer.echo(
        f"\n {counts[0]:,} views and {counts[1]:,} orders, joined by product within {found.window:,} ticks.\n"
        f" The exact join makes {found.whole.n_output:,} outputs and holds up to {found.whole.peak_memory:,} tuples.\n"
    )
    tables = {
        "outputs": "What remains of the outputs in 5, 10, 20 and 50 % of that memory",
        "value": "What remains of the value, when rare products matter up to 100 times more",
    }
    for measure, title in tables.items():
        rows = [[p, *(share(found.recall(measure, p, part), 1) for part in show.SHARES)] for p in found.ranked(measure)]
        print_table(["policy", *(f"{100 * part:.0f} %" for part in show.SHARES)], rows, title=title)
    best = found.ranked("outputs")[0]
    kept, oldest = (found.recall("outputs", policy, show.TENTH) for policy in (best, "fifo"))
    typer.echo(
        f" In a tenth of the memory, dropping the oldest (fifo) keeps {100 * oldest:.0f} % of the result;"
        f" choosing what to keep ({best}) keeps {100 * kept:.0f} %."
    )
