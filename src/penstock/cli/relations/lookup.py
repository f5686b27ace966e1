"""`penstock lookup`: the rows of an archived stream with the facts of a relation that are active at their times."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.output import TABLES, Files, FormatOption, check_different, check_target, print_json, wants_json
from penstock.cli.relations.relation import Columns, Identity, Links, relation_of

_Relation = Annotated[str, typer.Option(metavar="SOURCE", help="A file, or an address as of penstock relation check.", show_default=False)]


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    example = 'penstock lookup rides.parquet --relation fares.csv --link "rides.zone = zone" --columns fare --out priced.parquet'
    app.command(epilog=f"Example: {example}")(lookup)


def lookup(
    trace: Annotated[
        Path, typer.Argument(metavar="TRACE", help="A trace, or one stream with a time: a file, or a folder of files.", show_default=False)
    ],
    relation: _Relation,
    link: Links,
    out: Annotated[Path, typer.Option(metavar="FILE", help="Write the rows with their facts.", show_default=False)],
    columns: Columns = None,
    id_: Identity = None,
    begin: Annotated[str | None, typer.Option(metavar="COLUMN", help="When facts begin.", show_default="begin, if there is one")] = None,
    end: Annotated[str | None, typer.Option(metavar="COLUMN", help="When facts end.", show_default="end, if there is one")] = None,
    access: Annotated[str, typer.Option(metavar="HOW", help="How facts are found: scan, hash, index or auto.")] = "auto",
    time: Annotated[str, typer.Option(metavar="COLUMN", help="The time of one stream.")] = "time",
    stream: Annotated[str | None, typer.Option(metavar="NAME", help="Which of the linked streams one stream is.")] = None,
    form: FormatOption = "table",
) -> None:
    """Look each row up in a relation that changes: enrichment, without windows or memory. A row without an active fact is left out."""
    as_json = wants_json(form)
    check_target("--out", out, TABLES)
    check_different({"TRACE": trace, "--relation": Path(relation), "--out": out})

    from penstock.core.stream_files import read_files
    from penstock.core.tables import write_table
    from penstock.core.trace import Trace
    from penstock.relation.lookup import look_up

    table = read_files(trace)
    given = Trace(table, key=()) if "stream" in table.column_names and stream is None else table
    found = look_up(given, relation_of(relation, link, columns, id_, begin, end, None), access=access, time=time, name=stream)
    with Files() as files:
        write_table(found.table, files.new(out))
    read = {"access": found.access, "n_facts": found.n_facts, "examined": found.examined, "compared": found.compared}
    if as_json:
        print_json({"file": str(out), "n_input": found.n_input, "n_output": len(found.table), **read})
        return
    typer.echo(
        f"{out}: {len(found.table):,} rows, of {found.n_input:,}; by {found.access}, which examined {found.examined:,} "
        f"of {found.n_facts:,} facts"
    )
