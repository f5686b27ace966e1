"""`penstock reshard` and `penstock explain`: the state of a query, in another number of shards or as text."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli.output import FormatOption, note, print_json, wants_json
from penstock.cli.texts import integer
from penstock.core.slow_notice import saying


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command(epilog="Example: penstock reshard checkpoint --shards 8")(reshard)
    app.command(epilog="Example: penstock explain checkpoint")(explain)


def reshard(
    checkpoint: Annotated[str, typer.Argument(metavar="CHECKPOINT", help="The checkpoint of a query that is stopped.", show_default=False)],
    shards: Annotated[str, typer.Option(metavar="N", help="The new number of shards.", show_default=False)],
    form: FormatOption = "table",
) -> None:
    """Rewrite the state of a stopped query for another number of shards. The old checkpoint is kept next to it."""
    as_json = wants_json(form)
    from penstock.shard.division import shard_count

    count = shard_count(integer(shards, "--shards", least=1), "--shards")

    from penstock.spark.reshard.reshard import reshard as rewrite
    from penstock.spark.session.session import quiet_session

    spark = quiet_session()
    with saying("rewriting the state", note):
        backup = rewrite(spark, checkpoint, count)
    if as_json:
        print_json({"checkpoint": checkpoint, "shards": count, "backup": backup})
    else:
        typer.echo(f"{checkpoint} is ready for shards={count}; the old checkpoint is {backup}")


def explain(
    checkpoint: Annotated[str, typer.Argument(metavar="CHECKPOINT", help="The checkpoint of a query.", show_default=False)],
) -> None:
    """Show what a query's state says of its joins: settings, what memory holds, and how soon keys come again, as the policy learned it."""
    from penstock.spark.reshard.state_report import explain_checkpoint
    from penstock.spark.session.session import quiet_session

    spark = quiet_session()
    with saying("reading the state", note):
        text = explain_checkpoint(spark, checkpoint)
    typer.echo(text)
