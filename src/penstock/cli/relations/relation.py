"""`penstock relation`: check a relation, remove from it what does not matter, keep its history."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.output import (
    TABLES,
    Files,
    FormatOption,
    Stopped,
    check_different,
    check_target,
    note,
    number,
    print_json,
    print_table,
    wants_json,
)
from penstock.cli.texts import integer, words
from penstock.core.duration import microseconds, read_time
from penstock.core.errors import PenstockError

if TYPE_CHECKING:
    from penstock.relation.history import Version
    from penstock.relation.relation import Relation

_PATIENCE = 60.0  # seconds to ask a database again that went away in the middle

Source = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE",
        help="A file; duckdb:FILE#table, postgresql://user@host/database#table (a password goes into PGPASSWORD or ~/.pgpass), "
        'history:FOLDER or feed:FILE. Instead of a table, a query: "#SELECT ...".',
        show_default=False,
    ),
]
Links = Annotated[
    list[str], typer.Option("--link", metavar="LINK", help='A stream\'s column and its attribute, "pickup.zone = a"; once per stream.')
]
Columns = Annotated[str | None, typer.Option(metavar="NAMES", help="Other columns that are wanted in joined rows.")]
Identity = Annotated[
    str | None, typer.Option("--id", metavar="NAMES", help="The columns that tell facts apart; by default all that matter.")
]
_Begin = Annotated[str | None, typer.Option(metavar="COLUMN", help="When facts begin; by default the column begin, if there is one.")]
_End = Annotated[str | None, typer.Option(metavar="COLUMN", help="When facts end; by default the column end, if there is one.")]
_Weight = Annotated[str | None, typer.Option(metavar="COLUMN", help="What facts weigh; by default the column weight, if there is one.")]

_LINKS = '--link "pickup.zone = a" --link "b = dropoff.zone"'


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    group = typer.Typer(help="Check or prepare a relation that streams are joined through, or keep its history.", no_args_is_help=True)
    group.command(epilog=f"Example: penstock relation check duckdb:zones.duckdb#pairs {_LINKS}")(check)
    group.command(epilog=f"Example: penstock relation prepare pairs.csv {_LINKS} --out pairs.parquet")(prepare)
    group.command(epilog=f'Example: penstock relation record duckdb:zones.duckdb#pairs {_LINKS} --history pairs --every "10 seconds"')(
        record
    )
    app.add_typer(group, name="relation")


def check(
    source: Source,
    link: Links,
    columns: Columns = None,
    id_: Identity = None,
    begin: _Begin = None,
    end: _End = None,
    weight: _Weight = None,
    at: Annotated[
        str | None, typer.Option(metavar="TIME", help="When facts are counted as active: ticks or a date.", show_default="now")
    ] = None,
    form: FormatOption = "table",
) -> None:
    """Report what is in a relation, and what is wrong with it. The exit status is 1 if a join would refuse it."""
    as_json = wants_json(form)
    from penstock.relation.upkeep import check as read

    found = read(relation_of(source, link, columns, id_, begin, end, weight), _moment(at))
    if as_json:
        print_json(vars(found) | {"good": found.is_good})
    else:
        rows = {"facts": found.facts, **{f"different values of {name}": n for name, n in found.keys.items()}, "active": found.active}
        wrong = {"with a null key": found.null_keys, "that end before they begin": found.backwards}
        wrong |= {"there again": found.duplicates, "that overlap with themselves": found.overlapping}
        print_table(["", "number"], [[name, number(n)] for name, n in rows.items()])
        for what, n in wrong.items():
            if n:
                typer.echo(f"wrong: {n:,} facts {what}")
        if found.unneeded:
            typer.echo(f"columns that do not matter: {', '.join(found.unneeded)}")
        _print_indexes(found.missing_indexes)
    if not found.is_good:
        raise typer.Exit(1)


def prepare(
    source: Source,
    link: Links,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the relation, smaller and sorted: .parquet, .csv or .jsonl.")
    ] = None,
    columns: Columns = None,
    id_: Identity = None,
    begin: _Begin = None,
    end: _End = None,
    weight: _Weight = None,
    create_indexes: Annotated[bool, typer.Option("--create-indexes", help="In a database: create the indexes that look-ups need.")] = False,
    form: FormatOption = "table",
) -> None:
    """Remove the columns, duplicates and facts that do not matter, and sort; name or create the indexes that a database needs."""
    as_json = wants_json(form)
    if out is None and not create_indexes:
        raise PenstockError("prepare takes --out FILE, or --create-indexes for a database, got neither")
    check_target("--out", out, TABLES)
    check_different({"SOURCE": Path(source), "--out": out})
    from penstock.core.tables import write_table
    from penstock.relation.addresses import database_at
    from penstock.relation.upkeep import create_indexes as create
    from penstock.relation.upkeep import missing_indexes
    from penstock.relation.upkeep import prepare as smaller

    relation = relation_of(source, link, columns, id_, begin, end, weight)
    if create_indexes and database_at(source) is None:
        raise PenstockError(f"--create-indexes is for a table in a database, got {source!r}")
    statements = missing_indexes(relation)
    facts: dict[str, Any] = {"indexes": statements, "created": create_indexes}
    if out is not None:
        table, removed = smaller(relation)
        with Files() as files:
            write_table(table, files.new(out))
        facts |= {"file": str(out), "facts": len(table), "removed": removed}
    if create_indexes:
        create(relation, statements)
    if as_json:
        print_json(facts)
        return
    if out is not None:
        told = ", ".join(f"{removed[name]:,} {what}" for name, what in _REMOVED.items())
        typer.echo(f"{out}: {len(table):,} facts; removed: {told}")
    if create_indexes:
        typer.echo("\n".join(f"created: {statement}" for statement in statements) or "all indexes are there")
    else:
        _print_indexes(statements)


def record(
    source: Source,
    link: Links,
    history: Annotated[
        str, typer.Option(metavar="FOLDER", help="Where the history is kept; go on with the same options.", show_default=False)
    ],
    columns: Columns = None,
    id_: Identity = None,
    lateness: Annotated[str, typer.Option(metavar="LENGTH", help='How far a feed may go back: ticks, or "5 seconds".')] = "0",
    at: Annotated[
        str | None, typer.Option("--time", metavar="TIME", help="When a table was as it is: ticks or a date.", show_default="now")
    ] = None,
    every: Annotated[str | None, typer.Option(metavar="LENGTH", help='Go on until interrupted, every "10 seconds".')] = None,
    form: FormatOption = "table",
) -> None:
    """Keep the history of a relation that has no columns of its own for it: from what a table is now, or from a feed of changes."""
    as_json = wants_json(form)
    from penstock.relation.record import record as write

    if every is not None and at is not None:
        raise PenstockError(f"--time is for one table as it was, got {at!r} with --every")
    pause = 0.0 if every is None else microseconds(every, "--every", least=1) / 1e6
    relation = relation_of(source, link, columns, id_, None, None, None)
    late = integer(lateness, "--lateness", least=0) if lateness.isdecimal() else microseconds(lateness, "--lateness")
    told: int | None = None
    try:
        while True:
            # A database that is down at the start is a mistake; one that goes down later comes back.
            last = write(
                source,
                history,
                keys=relation.attributes,
                columns=relation.columns,
                id=relation.id,
                lateness=late,
                time=_moment_or_date(at),
                patience=0.0 if told is None else _PATIENCE,
            )
            if last.number != told:
                _print_version(last, history, as_json)
            told = last.number
            if every is None:
                return
            time.sleep(pause)
    except KeyboardInterrupt:
        if told is None:
            raise
        note(f"interrupted; {history} has version {told}")
        raise Stopped from None


def relation_of(
    source: str, links: list[str], columns: str | None, id_: str | None, begin: str | None, end: str | None, weight: str | None
) -> Relation:
    """The relation that the options speak of."""
    from penstock.relation.relation import relation

    def names(text: str | None, option: str) -> list[str] | None:
        return None if text is None else words(text, option)

    return relation(source, links, begin, end, weight, names(columns, "--columns"), names(id_, "--id"))


def _moment(text: str | None) -> int | None:
    if text is None or text.lstrip("-").isdecimal():
        return None if text is None else integer(text, "--at")
    found = read_time(text)
    if found is None:
        raise PenstockError(f"--at must be a whole number or a time such as 2026-01-31T12:00, got {text!r}")
    return found


def _moment_or_date(text: str | None) -> int | str | None:
    """A time of the kind that it is written in."""
    return integer(text, "--time") if text is not None and text.lstrip("-").isdecimal() else text


def _print_version(last: Version, history: str, as_json: bool) -> None:
    if as_json:
        print_json({"history": history, "version": last.number, "processed": last.processed, **last.counts})
    else:
        counts = ", ".join(f"{count:,} {name}" for name, count in last.counts.items())
        typer.echo(f"{history}: version {last.number}; facts in all: {counts or 'none'}")


def _print_indexes(statements: list[str]) -> None:
    for statement in statements:
        note(f"look-ups need an index: {statement}")


_REMOVED = {"columns": "columns that do not matter", "duplicates": "duplicates", "idle": "facts that can link nothing"}
