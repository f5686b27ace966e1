"""`penstock run`: a pipeline from a file, with a live line while it runs."""

from __future__ import annotations

import json
import logging
import signal
import threading
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.live import Live
from penstock.cli.output import FormatOption, Stopped, complain, finite, note, wants_json
from penstock.cli.summary import summary
from penstock.core.errors import PenstockError

if TYPE_CHECKING:
    from penstock.pipeline.recipe import Recipe


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command(epilog="Example: penstock run examples/demo.toml --set join.memory=2000")(run)


def run(
    pipeline: Annotated[
        Path, typer.Argument(metavar="PIPELINE.toml", help="What to join; docs/pipelines.md has every key.", show_default=False)
    ],
    check: Annotated[bool, typer.Option("--check", help="Only look for mistakes in the file; Spark is not started.")] = False,
    change: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Another value for a key of the file, such as join.memory=2000.", show_default=False
        ),
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option(
            metavar="PORT", help="Serve the metrics for Prometheus and a live page there; 0.0.0.0:PORT for others too.", show_default=False
        ),
    ] = None,
    form: FormatOption = "table",
) -> None:
    """Run the streaming join that a file describes: sources, streams, join, sink.

    A live line shows rows per second, memory against budget, recall and what was shed; --format json prints an object per batch instead.
    Ctrl-C stops the query; started again, it goes on from its checkpoint.
    """
    as_json = wants_json(form)
    recipe = read(pipeline, changes(change or ()))
    if check:
        streams = ", ".join(recipe.streams)
        typer.echo(f"{pipeline}: no mistakes; it joins {streams} and writes to {recipe.sink['kind']}")
        return

    from penstock.spark.pipeline import query as on_spark

    with served(metrics) as shown:
        spark = on_spark.open_session(recipe)
        shown(spark)
        events = watch(recipe, spark, as_json=as_json)
    if recipe.sink["kind"] == "memory" and not as_json:
        spark.table(recipe.sink["table"]).show(recipe.sink["show"], truncate=False)
    _conclude(recipe, events, as_json=as_json)


@contextmanager
def served(metrics: str | None) -> Iterator[Callable[[Any], Any]]:
    """While it lasts, what `--metrics` asks for: a function that takes the session whose queries are shown."""
    if metrics is None:
        yield lambda spark: None
        return
    from penstock.spark.watch import Watch

    address, _, port = metrics.rpartition(":")
    if not (port.isascii() and port.isdigit()):
        raise PenstockError(f"--metrics must be a port such as 9108, or an address and a port such as 0.0.0.0:9108, got {metrics!r}")
    with Watch(int(port), *([address.strip("[]")] if address else [])) as server:
        note(f"watch it at {server.url}; Prometheus finds its metrics at {server.url}metrics")
        yield server.of


def _conclude(recipe: Recipe, events: Sequence[dict[str, Any]], *, as_json: bool, stopped: bool = False) -> None:
    for text in summary(recipe, events, stopped=stopped):
        if as_json:  # what is printed is for a program
            note(text)
        else:
            typer.echo(text)


def read(file: Path, replaced: dict[str, Any]) -> Recipe:
    """The checked pipeline; the mistakes of a wrong one, a line each, and then the end."""
    from penstock.pipeline.recipe import RecipeError, read_recipe

    try:
        return read_recipe(file, replaced)
    except RecipeError as error:
        for mistake in error.mistakes:
            complain(mistake)
        raise typer.Exit(2) from None


def watch(recipe: Recipe, spark: Any, *, as_json: bool = False, quiet: bool = False) -> list[dict[str, Any]]:
    """Run a pipeline to its end, or to Ctrl-C, and show every batch; the events are returned."""
    from penstock.spark.observe.follow import follow
    from penstock.spark.pipeline import query as on_spark

    logging.getLogger("penstock.failures").disabled = True  # we say it ourselves
    query = on_spark.start(recipe, on_spark.build(recipe, spark))
    events: list[dict[str, Any]] = []
    with _Interrupt() as interrupt, Live(recipe, shown=not (as_json or quiet)) as live:
        for event in follow(query, recipe.join["name"], lambda: interrupt.came):
            events.append(event)
            live.show(event)
            if as_json:
                print(json.dumps(finite(event)), flush=True)
    if interrupt.came:
        kept = "; run it again to go on from there" if recipe.sink["checkpoint"] else ""
        note(f"stopped after {len(events)} batch{'' if len(events) == 1 else 'es'}{kept}")
        if not quiet:
            _conclude(recipe, events, as_json=as_json, stopped=True)
        raise Stopped
    return events


class _Interrupt:
    """The first Ctrl-C asks the query to stop between two batches; the second interrupts it."""

    came = False

    def __enter__(self) -> _Interrupt:
        # PySpark's own handler would fail the batch at hand. Only the main thread may handle signals.
        self.before = signal.signal(signal.SIGINT, self._note) if threading.current_thread() is threading.main_thread() else None
        return self

    def __exit__(self, *_: object) -> None:
        if self.before is not None:
            signal.signal(signal.SIGINT, self.before)

    def _note(self, number: int, frame: object) -> None:
        self.came = True
        signal.signal(signal.SIGINT, signal.default_int_handler)


def changes(texts: Sequence[str]) -> dict[str, Any]:
    """The values of `--set`, by key, as TOML reads them; what is no TOML is a text.

    >>> changes(["join.memory=2000", "sink.path=out/here", 'join.on=["a", "b"]'])
    {'join.memory': 2000, 'sink.path': 'out/here', 'join.on': ['a', 'b']}
    """
    found: dict[str, Any] = {}
    for text in texts:
        key, equals, value = (part.strip() for part in text.partition("="))
        if not (key and equals and value):
            raise PenstockError(f"--set must read like join.memory=2000, got {text!r}")
        try:
            found[key] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            found[key] = value
    return found
