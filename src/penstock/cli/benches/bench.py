"""`penstock bench`: how fast Penstock is on this machine; `core`, policy by policy, and `spark`, which has a file of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.benches import bench_spark
from penstock.cli.output import NOTHING, Bar, FormatOption, announcing, number, print_json, print_table, wants_json
from penstock.cli.texts import integer, words
from penstock.core.errors import choose

if TYPE_CHECKING:
    from penstock.experiments.fact_speed import FactSpeed
    from penstock.experiments.link_speed import LinkSpeed
    from penstock.experiments.multiway_speed import Pace
    from penstock.experiments.speed import Speed


def register(app: typer.Typer) -> None:
    """Add the group to the command line."""
    group = typer.Typer(help="Measure the speed of Penstock on this machine.", invoke_without_command=True)
    group.command(epilog="Example: penstock bench core --rows 200000 --window 10000 --memory 2000 --policies fifo,prob,life")(core)
    group.command(epilog=bench_spark.EXAMPLE)(bench_spark.spark)
    group.callback()(_bench)
    app.add_typer(group, name="bench")


def core(
    rows: Annotated[str, typer.Option(metavar="COUNT", help="Tuples of both streams together.")] = "2000000",
    window: Annotated[str, typer.Option(metavar="TICKS", help="Length of the window.")] = "100000",
    memory: Annotated[str, typer.Option(metavar="ROWS", help="Memories to try, with commas.")] = "20000,100000",
    keys: Annotated[str, typer.Option(metavar="COUNT", help="Different keys, Zipf(1).")] = "100000",
    repeat: Annotated[str, typer.Option(metavar="N", help="Runs of each, in turns; the best counts.")] = "3",
    policies: Annotated[str, typer.Option(metavar="NAMES", help="all, or names with commas.")] = "all",
    stats: Annotated[str, typer.Option(metavar="NAME", help="Statistics: decayed, window, sketch or whole.")] = "decayed",
    growth: Annotated[bool, typer.Option("--growth", help="Also count steps per tuple in memories from 1,000 to 1,000,000 rows.")] = False,
    seed: Annotated[str, typer.Option(metavar="N", help="Of the streams.")] = "0",
    form: FormatOption = "table",
) -> None:
    """Time every policy on two skewed streams (tuples per second, and as a ratio to fifo), joins other than equality, joins
    through a relation, and four streams."""
    as_json = wants_json(form)
    sizes = {
        name: integer(text, f"--{name}", least=1) for name, text in {"rows": rows, "window": window, "keys": keys, "repeat": repeat}.items()
    }
    memories = [integer(part, "--memory", least=1) for part in words(memory, "--memory")]
    seed_number = integer(seed, "--seed", least=0)
    choose("--stats", stats, ("decayed", "window", "sketch", "whole"))

    from penstock.experiments import fact_speed, link_speed, multiway_speed, speed
    from penstock.policies.table import POLICIES

    names = list(POLICIES) if policies == "all" else [choose("--policies", name, POLICIES) for name in words(policies, "--policies")]
    runs = len(names) * (1 + len(memories) * sizes["repeat"] + (len(speed.GROWTH) if growth else 0))
    runs += sizes["repeat"] * (1 + ("dgl" in names)) + multiway_speed.n_runs(sizes["repeat"])
    runs += link_speed.n_runs(sizes["repeat"]) + fact_speed.n_runs(sizes["repeat"]) + (9 * len(speed.GROWTH) if growth else 0)
    scale = max(1, min(100, sizes["rows"] // 10_000))
    with Bar(runs, "making the streams") as bar:
        say = announcing(bar)
        trace = speed.bench_trace(sizes["rows"], sizes["keys"], seed=seed_number)
        speed.warm_up(names, say=say, stats=stats)
        timed = speed.speeds(trace, names, window=sizes["window"], memories=memories, repeat=sizes["repeat"], say=say, stats=stats)
        small = {
            "rows": min(100_000, sizes["rows"]),
            "window": min(20_000, sizes["window"]),
            "repeat": sizes["repeat"],
            "seed": seed_number,
        }
        pairs = speed.dense("prob", outputs=True, say=say, **small)
        gains = speed.dense("dgl", outputs=False, say=say, **small) if "dgl" in names else None
        four = multiway_speed.paces(min(1_000_000, sizes["rows"]), scale, repeat=sizes["repeat"], seed=seed_number, say=say)
        linked = min(100_000, max(10, sizes["rows"] // 20))
        others = link_speed.link_speeds(linked, min(100_000, sizes["rows"]), repeat=sizes["repeat"], seed=seed_number, say=say)
        known = min(fact_speed.FACTS, sizes["rows"])
        timed_rows = min(1_000_000, sizes["rows"])
        related = fact_speed.fact_speeds(linked, timed_rows, facts=known, repeat=sizes["repeat"], seed=seed_number, say=say)
        grown = speed.growth(names, speed.GROWTH, seed=seed_number, say=say) if growth else []
        others_grown = link_speed.link_growth(seed=seed_number, say=say) if growth else []
    if as_json:
        found: dict[str, Any] = {
            "core": [_record(s) | {"ratio_to_fifo": _ratio(s, timed)} for s in timed],
            "outputs": _record(pairs),
            "gains": _record(gains) if gains else None,
            "four_streams": [asdict(p) | {"tuples_per_second": p.tuples_per_second, "scale": scale} for p in four],
            "joins": [link_speed.record(s) for s in (*others, *others_grown)],
            "through_relations": [fact_speed.record(s) for s in related],
            "growth": [_record(s) | {"per_log2": speed.per_log(s)} for s in grown],
        }
        print_json(found)
        return
    for size in memories:
        _print_speeds([s for s in timed if s.memory == size], timed, sizes, stats)
    typer.echo(f" outputs kept as pairs of row numbers: {_pace(pairs, pairs.totals.n_output)}")
    if gains:
        typer.echo(f" gains of dgl: {_pace(gains, gains.totals.n_gains)}")
    typer.echo("")
    _print_four(four, scale)
    _print_joins(others, f"Joins other than equality: memory {linked:,}, about one match per arrival, statistics decayed")
    _print_related(related, f"Joins through a relation of {known:,} facts: memory {linked:,}, about one fact per tuple, statistics decayed")
    if grown:
        _print_joins(others_grown, "The same joins in growing memories")
        _print_growth(grown)


def _bench(context: typer.Context) -> None:
    """Measure the speed of Penstock on this machine."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def _ratio(speed: Speed, timed: Sequence[Speed]) -> float | None:
    """Against fifo in the same memory."""
    fifo = next((s for s in timed if s.policy == "fifo" and s.memory == speed.memory), None)
    return speed.tuples_per_second / fifo.tuples_per_second if fifo else None


def _record(speed: Speed) -> dict[str, Any]:
    derived = ("tuples_per_second", "steps_per_tuple", "bytes_per_tuple")
    plain = {name: value for name, value in asdict(speed).items() if name != "totals"}
    paces = {
        "outputs_per_second": speed.totals.n_output / speed.seconds,
        "gains_per_second": speed.totals.n_gains / speed.seconds,
    }
    return plain | asdict(speed.totals) | {name: getattr(speed, name) for name in derived} | paces


def _pace(speed: Speed, count: int) -> str:
    million = count / speed.seconds / 1e6
    return f"{million:.1f} million/s ({count:,} by {speed.policy}, {speed.rows:,} tuples, memory {speed.memory:,})"


def _print_speeds(speeds: Sequence[Speed], timed: Sequence[Speed], sizes: dict[str, int], stats: str) -> None:
    columns = [
        "policy",
        "million tuples/s",
        "of fifo",
        "steps/tuple",
        "outputs/tuple",
        "peak memory",
        "bytes/tuple",
    ]
    lines = []
    for s in speeds:
        ratio = _ratio(s, timed)
        lines.append(
            [
                s.policy,
                f"{s.tuples_per_second / 1e6:.2f}",
                NOTHING if ratio is None else f"{ratio:.2f}",
                f"{s.steps_per_tuple:.1f}",
                f"{s.totals.n_output / s.rows:.2f}",
                number(s.totals.peak_memory),
                NOTHING if s.bytes_per_tuple is None else f"{s.bytes_per_tuple:.0f}",
            ]
        )
    rows, memory = speeds[0].rows, speeds[0].memory
    print_table(
        columns,
        lines,
        title=f"{rows:,} tuples, {sizes['keys']:,} keys, window {sizes['window']:,}, memory {memory:,}, statistics {stats}",
        caption=f"Best of {sizes['repeat']}, in turns; outputs are counted, not kept. "
        "bytes/tuple: what the engine's own arrays take, over peak memory.",
    )


def _print_four(four: Sequence[Pace], scale: int) -> None:
    nested = next(p for p in four if p.name == "eager, nested loops").tuples_per_second
    lines = []
    for p in sorted(four, key=lambda p: -p.tuples_per_second):
        compared = NOTHING if p.comparisons is None else number(round(p.comparisons / p.rows))
        pace = p.tuples_per_second
        lines.append([p.name, number(round(pace)), f"{pace / nested:,.1f}", compared, f"{p.outputs / p.rows:.1f}", number(p.rows)])
    print_table(
        ["join of four streams", "tuples/s", "of nested loops", "comparisons/tuple", "outputs/tuple", "tuples timed"],
        lines,
        title=f"Golab's Table 5, windows and values {scale} times",
        caption="Windows are full before the clock runs; seconds are the process's own. exact: our hash join; engine: the one that sheds, "
        "with memory for all; eager: Golab's algorithm, in its best order.",
    )


def _print_joins(speeds: Sequence[LinkSpeed], title: str) -> None:
    lines = []
    for s in speeds:
        offered = NOTHING if s.examined is None or s.kind in ("equality", "rows_per_key") else f"{s.examined / s.rows:.1f}"
        pace = [number(round(s.tuples_per_second)), number(round(s.outputs_per_second))]
        lines.append([s.kind, s.policy, number(s.memory), *pace, f"{s.outputs / s.rows:.2f}", offered])
    print_table(
        ["join", "policy", "memory", "tuples/s", "outputs/s", "outputs/tuple", "examined/tuple"],
        lines,
        title=title,
        caption="Seconds are the process's own; outputs are counted, not kept. examined: candidates that indexes offered.",
    )


def _print_related(speeds: Sequence[FactSpeed], title: str) -> None:
    lines = []
    for s in speeds:
        pace = [number(round(s.tuples_per_second)), number(round(s.outputs_per_second))]
        lines.append([s.kind, s.policy, *pace, f"{s.outputs / s.rows:.2f}", f"{s.filtered / s.rows:.0%}", f"{s.told:.2f} s"])
    print_table(
        ["values", "policy", "tuples/s", "outputs/s", "outputs/tuple", "filtered", "facts indexed in"],
        lines,
        title=title,
        caption="Seconds are the process's own; outputs are counted, not kept. filtered: tuples that have no fact.",
    )


def _print_growth(grown: Sequence[Speed]) -> None:
    from penstock.experiments.speed import per_log

    memories = list(dict.fromkeys(s.memory for s in grown))
    lines = []
    for policy in dict.fromkeys(s.policy for s in grown):
        mine = [s for s in grown if s.policy == policy]
        lines.append([policy, *(f"{s.steps_per_tuple:.1f} ({per_log(s):.2f}) {s.seconds / s.rows * 1e9:,.0f} ns" for s in mine)])
    print_table(
        ["policy", *(f"{memory:,}" for memory in memories)],
        lines,
        title="Steps per tuple by memory (over its binary logarithm), and time per tuple",
        caption="Window 2 x memory, keys 1 x memory, tuples 4 x memory; one run each.",
    )
