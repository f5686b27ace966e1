"""`penstock policies`: the table of policies."""

from __future__ import annotations

import typer

from penstock.cli.output import FormatOption, print_json, print_table, wants_json


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command(epilog="Example: penstock policies --format json")(policies)


def policies(form: FormatOption = "table") -> None:
    """List the policies: who leaves first, what each one needs to know, and the paper it comes from."""
    as_json = wants_json(form)

    from penstock.policies.table import AUTO, POLICIES

    best = "the default: learned where keys are equal, else prob or, with importance, dimpprob (docs/spark.md)"
    rows = [{"name": AUTO, "summary": best, "needs": "", "paper": "ours"}]
    rows += [{"name": p.name, "summary": p.summary, "needs": p.needs, "paper": p.paper} for p in POLICIES.values()]
    if as_json:
        print_json(rows)
        return
    print_table(["name", "who leaves first", "needs", "paper"], [list(row.values()) for row in rows], left=4)
