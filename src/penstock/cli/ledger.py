"""`penstock ledger`: check an archive, delete what is settled, discard what is newer than a checkpoint."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.output import FormatOption, note, print_json, wants_json
from penstock.cli.texts import integer
from penstock.core.slow_notice import saying

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.ledger.ledger import Pages
    from penstock.ledger.manifest import Span
    from penstock.ledger.pruning import Removed

_Archive = Annotated[str, typer.Argument(metavar="ARCHIVE", help="The folder that the join was given as archive.", show_default=False)]
_Name = Annotated[str | None, typer.Option(metavar="NAME", help="The join's name, where the archive has ledgers of several.")]
_Query = Annotated[str | None, typer.Option(metavar="ID", help="The query's id, where the archive has ledgers of several.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    group = typer.Typer(help="Check, prune or rewind the ledger of a join.", no_args_is_help=True)
    group.command(epilog="Example: penstock ledger verify archive --checkpoint checkpoint")(verify)
    group.command(epilog="Example: penstock ledger prune archive --before 1200")(prune)
    group.command(epilog="Example: penstock ledger rewind archive --to 1199")(rewind)
    app.add_typer(group, name="ledger")


def verify(
    archive: _Archive,
    checkpoint: Annotated[str | None, typer.Option(metavar="DIR", help="The query's checkpoint: it shows which batches count.")] = None,
    name: _Name = None,
    query: _Query = None,
    form: FormatOption = "table",
) -> None:
    """Check every page of a ledger: which batches are intact, and what is wrong. The exit status is 1 if anything is wrong."""
    as_json = wants_json(form)
    from penstock.ledger.ledger import find
    from penstock.ledger.settled_marks import query_of
    from penstock.ledger.verify import verify as check

    pages = find(archive, name=name, query=query if checkpoint is None else query_of(checkpoint))
    with saying("reading all pages of the ledger", note):
        found = check(pages, checkpoint, _state(checkpoint, pages.plan.name))
    good = [{"first_batch": one.first, "last_batch": one.last} | _times(one.times) for one in found.good]
    if as_json:
        facts = {"name": found.name, "query": found.query, "whole": not found.wrong, "good": good, "wrong": found.wrong}
        print_json(facts | {"unverified_pages": found.unverified, "pruned_before": found.pruned})
    else:
        for one in good:
            when = f", of {one['from']} to {one['to']}" if one["from"] else ""
            typer.echo(f"{found.name} ({found.query}): batches {one['first_batch']} to {one['last_batch']} are good{when}")
        for text in found.wrong:
            typer.echo(f"wrong: {text}")
        if found.unverified:
            typer.echo(f"unverified: {found.unverified:,} pages of release 0.1.0, which have no manifests to check them by")
        if found.pruned:
            typer.echo(f"pruned: batches before {found.pruned}")
    if found.wrong:
        raise typer.Exit(1)


def prune(
    archive: _Archive,
    before: Annotated[
        str | None, typer.Option(metavar="BATCH", help="Delete the batches before this one; default: all that may go.", show_default=False)
    ] = None,
    name: _Name = None,
    query: _Query = None,
    form: FormatOption = "table",
) -> None:
    """Delete pages that are settled and that no tuple within its lateness can match any more, and record which."""
    from penstock.ledger.pruning import prune as remove

    batch = None if before is None else integer(before, "--before", least=0)
    _remove("pruned", archive, name, query, form, lambda pages: remove(pages, batch))


def rewind(
    archive: _Archive,
    to: Annotated[
        str, typer.Option(metavar="BATCH", help="The last batch to keep: that of the checkpoint to continue with.", show_default=False)
    ],
    name: _Name = None,
    query: _Query = None,
    form: FormatOption = "table",
) -> None:
    """Discard later batches of a ledger, so that an older checkpoint may continue, and record them. The run that wrote them fails."""
    from penstock.ledger.pruning import rewind as remove

    batch = integer(to, "--to", least=-1)
    _remove("discarded", archive, name, query, form, lambda pages: remove(pages, batch))


def _remove(done: str, archive: str, name: str | None, query: str | None, form: str, remove: Callable[[Pages], Removed]) -> None:
    """Remove a part of a ledger, and print what was."""
    as_json = wants_json(form)
    from penstock.ledger.ledger import find

    removed = remove(find(archive, name=name, query=query))
    if as_json:
        print_json({"first_batch": removed.first, "last_batch": removed.last, "files": removed.files})
    elif removed.last < removed.first:
        typer.echo(f"nothing is to be {done}")
    else:
        typer.echo(f"{done} batches {removed.first} to {removed.last}: {removed.files:,} attempts of shards")


def _times(span: Span | None) -> dict[str, str | None]:
    """Event times as people write them; times of traces may be beyond what a calendar has."""

    def text(ticks: int) -> str:
        try:
            return (dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=ticks)).isoformat()
        except OverflowError:
            return f"{ticks} microseconds"

    return {"from": None, "to": None} if span is None else {"from": text(span[0]), "to": text(span[1])}


def _state(checkpoint: str | None, name: str) -> Any:
    """How the state is read, which starts Spark only if it must be."""

    def read(batch: int) -> Any:
        from penstock.spark.session.session import quiet_session
        from penstock.spark.settle.heads import state_heads

        return state_heads(quiet_session(), checkpoint, name)(batch)

    return read
