"""`penstock generate`: write a synthetic trace."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.cli.output import TABLES, Files, FormatOption, check_different, check_target, print_json, wants_json
from penstock.cli.texts import integer, per_stream, real, words
from penstock.core.errors import PenstockError

_OF_FACTS = "With --relation: "


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command(epilog="Example: penstock generate trace.parquet --n 10000 --ranks anti-correlated --importance rare --seed 7")(generate)


def generate(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The trace to write: .parquet, .csv or .jsonl.", show_default=False)],
    n: Annotated[str, typer.Option("--n", "-n", metavar="TICKS", help="How long the trace is.")] = "5600",
    streams: Annotated[str, typer.Option(metavar="NAMES", help="Names of the streams.")] = "R,S",
    keys: Annotated[str, typer.Option(metavar="COUNT", help="How many different keys there are: one, or by stream as 50,80.")] = "50",
    skew: Annotated[str, typer.Option(metavar="X", help="Zipf exponent, 0 is uniform: one, or by stream as 1,0 or R=1,S=0.")] = "1.0",
    ranks: Annotated[
        str,
        typer.Option(metavar="HOW", help="The frequent keys of the streams: correlated, uncorrelated, anti-correlated."),
    ] = "uncorrelated",
    rate: Annotated[str, typer.Option(metavar="X", help="Tuples per tick: one, or by stream as 1,0.2 or R=1,S=0.2.")] = "1.0",
    burst: Annotated[str | None, typer.Option(metavar="P:L:F", help="period:length:factor, such as 100:10:5: five times the rate.")] = None,
    disorder: Annotated[str, typer.Option(metavar="TICKS", help="How late tuples may arrive.")] = "0",
    importance: Annotated[
        str | None,
        typer.Option(
            metavar="HOW", help="rare (rare keys matter), special:0.05 (a twentieth does), uniform, or key (by ranks of the first stream)."
        ),
    ] = None,
    groups: Annotated[str, typer.Option(metavar="COUNT", help="Levels of importance, for rare and key.")] = "5",
    top: Annotated[str, typer.Option(metavar="X", help="The highest importance.")] = "100",
    drift: Annotated[str | None, typer.Option(metavar="TICKS", help="Every so many ticks all keys get new names.")] = None,
    orders: Annotated[
        str | None,
        typer.Option(metavar="X", help="Keys that visit each stream once: the Zipf exponent of their orders, or listed (first to last)."),
    ] = None,
    alone: Annotated[str, typer.Option(metavar="X", help="With --orders: the share of keys without a partner, 0 to 1.")] = "0",
    repeats: Annotated[
        str | None, typer.Option(metavar="X", help="With --orders: keys repeat, by a normal distribution of this variance.")
    ] = None,
    first: Annotated[str, typer.Option(metavar="HOW", help="With --orders: the most frequent order is any, or a complete one.")] = "any",
    sessions: Annotated[
        str | None, typer.Option(metavar="L:M", help="Keys that live for least:most clicks, such as 5:20, and never come back.")
    ] = None,
    delay: Annotated[
        str | None,
        typer.Option(metavar="TICKS", help="With --orders and --sessions, between two visits: a mean, fixed:60, gamma:2:60, uniform:5:60."),
    ] = None,
    after: Annotated[Path | None, typer.Option(metavar="FILE", help="A trace to go on from, with new keys; FILE has both.")] = None,
    relation: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write a relation that joins the streams: facts about their keys, drawn anew.")
    ] = None,
    facts: Annotated[str | None, typer.Option(metavar="COUNT", help=_OF_FACTS + "how many different facts; 250.")] = None,
    facts_skew: Annotated[
        str | None, typer.Option(metavar="X", help=_OF_FACTS + "Zipf exponent of keys among the facts, one or by stream; 0.")
    ] = None,
    facts_active: Annotated[
        str | None, typer.Option(metavar="X", help=_OF_FACTS + "the share of facts that is there; below 1 they come and go; 1.")
    ] = None,
    facts_lifetime: Annotated[
        str | None, typer.Option(metavar="TICKS", help=_OF_FACTS + "how long a fact stays, on average; a tenth of the trace.")
    ] = None,
    facts_rate: Annotated[str | None, typer.Option(metavar="X", help=_OF_FACTS + "or how many facts are inserted per tick.")] = None,
    facts_weight: Annotated[
        str | None, typer.Option(metavar="TOP", help=_OF_FACTS + "a column weight, with whole numbers from 1 to this one.")
    ] = None,
    seed: Annotated[str, typer.Option(metavar="N", help="The same seed and options give the same trace.")] = "0",
    form: FormatOption = "table",
) -> None:
    """Write a trace of synthetic streams: skewed keys, bursts, disorder, importances; orders, sessions, keys that drift."""
    as_json = wants_json(form)
    check_target("FILE", file, TABLES)
    check_target("--relation", relation, TABLES)
    check_different({"FILE": file, "--relation": relation})
    names = words(streams, "--streams")
    of_facts = {
        "--facts": facts, "--facts-skew": facts_skew, "--facts-active": facts_active, "--facts-lifetime": facts_lifetime,
        "--facts-rate": facts_rate, "--facts-weight": facts_weight,
    }  # fmt: skip
    for option, text in of_facts.items():
        if text is not None and relation is None:
            raise PenstockError(f"{option} says what a relation is like and needs --relation FILE, got {text!r} without")

    from penstock.core.tables import write_table
    from penstock.core.trace import read_trace
    from penstock.generator.facts import ATTRIBUTES, generate_facts
    from penstock.generator.generate import generate as make
    from penstock.generator.orders import LISTED

    trace = make(
        integer(n, "--n", least=1),
        streams=names,
        keys=_keys(keys, names),
        skew=per_stream(skew, "--skew", names),
        ranks=ranks,
        rate=per_stream(rate, "--rate", names),
        burst=burst,
        disorder=integer(disorder, "--disorder", least=0),
        importance=importance,
        groups=integer(groups, "--groups", least=1),
        top=integer(top, "--top", least=1),
        drift=None if drift is None else integer(drift, "--drift", least=1),
        orders=None if orders is None else orders if orders == LISTED else real(orders, "--orders"),
        alone=real(alone, "--alone"),
        repeats=None if repeats is None else real(repeats, "--repeats"),
        first=first,
        sessions=sessions,
        delay=delay,
        after=None if after is None else read_trace(after, streams=names),
        seed=integer(seed, "--seed", least=0),
    )
    table = None
    if relation is not None:
        wanted: dict[str, Any] = {
            "skew": per_stream(facts_skew or "0", "--facts-skew", names),
            "active": real(facts_active or "1", "--facts-active"),
            "lifetime": None if facts_lifetime is None else real(facts_lifetime, "--facts-lifetime"),
            "rate": None if facts_rate is None else real(facts_rate, "--facts-rate"),
            "weight": None if facts_weight is None else integer(facts_weight, "--facts-weight", least=1),
        }
        count = integer(facts or "250", "--facts", least=1)
        try:
            table = generate_facts(trace, count, **wanted, seed=integer(seed, "--seed", least=0))
        except PenstockError as error:
            told = str(error)
            raise PenstockError(f"--facts-{told}" if told.split()[0] in wanted else told) from None
    with Files() as files:
        trace.write(files.new(file))
        if table is not None and relation is not None:
            write_table(table, files.new(relation))
    rows = {name: int((trace.stream == place).sum()) for place, name in enumerate(trace.streams)}
    begin, end = int(trace.time.min()), int(trace.time.max())
    if as_json:
        more = {} if table is None else {"relation": str(relation), "n_facts": len(table)}
        print_json({"file": str(file), "n_rows": len(trace), "streams": rows, "first_time": begin, "last_time": end} | more)
        return
    parts = ", ".join(f"{name} {count:,}" for name, count in rows.items())
    typer.echo(f"{file}: {len(trace):,} rows ({parts}), times {begin:,} to {end:,}")
    if table is not None:
        links = " ".join(f'--link "{name}.key = {attribute}"' for name, attribute in zip(names, ATTRIBUTES, strict=False))
        typer.echo(f"{relation}: {len(table):,} rows of facts; join with --relation {relation} {links}")


def _keys(text: str, streams: list[str]) -> int | list[int]:
    """One number of keys, or one per stream."""
    if "," not in text and "=" not in text:
        return integer(text, "--keys", least=1)
    found = per_stream(text, "--keys", streams)
    return [integer(str(one).removesuffix(".0"), "--keys", least=1) for one in (found if isinstance(found, list) else [found])]
