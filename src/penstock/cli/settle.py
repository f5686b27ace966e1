"""`penstock settle`: write the outputs that a join owes."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli.output import FormatOption, note, print_json, wants_json
from penstock.core.errors import PenstockError
from penstock.core.slow_notice import saying


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command(epilog="Example: penstock settle archive --checkpoint checkpoint --to settled")(settle)


def settle(
    archive: Annotated[str, typer.Argument(metavar="ARCHIVE", help="The folder that the join was given as archive.", show_default=False)],
    checkpoint: Annotated[
        str | None,
        typer.Option(
            metavar="DIR", help="The query's checkpoint: its commit log shows which batches count. Without it, all but the newest."
        ),
    ] = None,
    to: Annotated[str | None, typer.Option(metavar="DIR", help="Where to write what is owed, as Parquet, exactly once.")] = None,
    debt: Annotated[bool, typer.Option("--debt", help="Only count what is owed.")] = False,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="The join's name, where the archive has ledgers of several.")] = None,
    query: Annotated[str | None, typer.Option(metavar="ID", help="The query's id, where the archive has ledgers of several.")] = None,
    trust: Annotated[
        bool, typer.Option("--trust", help="The archive may contain code to run: a function of release 0.1.0, any SQL in its condition.")
    ] = False,
    form: FormatOption = "table",
) -> None:
    """Join what was shed, later: write the outputs that a join owes, those of the exact result that it did not emit."""
    as_json = wants_json(form)
    if (to is None) != debt:
        raise PenstockError(f"settle takes --to DIR or --debt, got {'both' if debt else 'neither'}")

    from penstock.spark.session.session import quiet_session
    from penstock.spark.settle.settle import ledger_of, settlement

    ledger_of(archive, checkpoint, name, query)  # what is wrong with these is said before Spark starts, which takes a while
    spark = quiet_session()
    with saying("joining what is owed", note):
        done = settlement(archive, checkpoint, name, query, to, trust=trust, spark=spark, counting=debt)
        count = done.rows if done.rows is not None else done.frame.count() if done.last >= done.first else 0
    ledger = {"name": done.name, "query": done.query}
    batches = {"first_batch": done.first, "last_batch": done.last}
    notes = {"unverified_pages": done.unverified, "pruned_batches": done.lost}
    where = f"{done.name} ({done.query})"
    if as_json:
        print_json(ledger | batches | notes | ({"debt": count} if debt else {"rows": count, "to": done.to or to}))
    elif done.last < done.first:
        typer.echo(f"{where}: nothing to settle, no batch from {done.first} on is committed")
    elif debt:
        typer.echo(f"{where}: {count:,} outputs are owed, of batches {done.first} to {done.last}")
    else:
        typer.echo(f"{where}: {count:,} outputs settled, of batches {done.first} to {done.last}, in {to}")
    if not as_json and done.unverified:
        typer.echo(f"unverified: {done.unverified:,} pages of release 0.1.0, which have no manifests to check them by")
    if not as_json and done.lost:
        typer.echo(f"not settled: what tuples that came too late may have matched in {done.lost:,} pruned batches")
