"""`penstock bench spark`: how fast joins are on Spark on this machine, and whether Penstock meets its targets."""

from __future__ import annotations

import os
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.benches.bench_spark_output import print_factors, print_sizes, print_timings, ratios, record, sentence
from penstock.cli.output import Bar, FormatOption, announcing, print_json, wants_json
from penstock.cli.texts import integer, words
from penstock.core.errors import PenstockError

if TYPE_CHECKING:
    from penstock.spark.bench.contenders import Job
    from penstock.spark.bench.contest import Timing

EXAMPLE = "Example: penstock bench spark --rows 100000 --window 5000 --keys 12500 --doubling"
_USUAL = {"rows": "500000,2000,20000", "batches": "10", "own-batches": "3", "warm-up": "40", "window": "20000"}
_QUICK = {"rows": "20000", "batches": "2", "own-batches": "2", "warm-up": "1", "window": "2000"}
_PEER_ROWS = 1_000_000


def spark(
    rows: Annotated[
        str | None,
        typer.Option(
            metavar="COUNTS",
            help="Of a batch, all streams together: the size in full, then others to compare.  [default: 500000,2000,20000]",
        ),
    ] = None,
    batches: Annotated[str | None, typer.Option(metavar="N", help="Batches that count.  [default: 10]")] = None,
    own_batches: Annotated[
        str | None, typer.Option(metavar="N", help="The same for Spark's own join where batches are long.  [default: 3]")
    ] = None,
    warm_up: Annotated[
        str | None, typer.Option(metavar="N", help="Batches before; where they are long, fewer of Spark's join.  [default: 40]")
    ] = None,
    window: Annotated[str | None, typer.Option(metavar="ROWS", help="Of each stream.  [default: 20000]")] = None,
    keys: Annotated[str | None, typer.Option(metavar="COUNT", help="Different keys, uniform.  [default: for 0.4 outputs per row]")] = None,
    streams: Annotated[str, typer.Option(metavar="N", help="Streams to join; of 3 and more, Spark's own join is a cascade.")] = "2",
    predicate: Annotated[str, typer.Option(metavar="=|eps:N", help="Which keys match: equal ones, or those at most so far apart.")] = "=",
    facts: Annotated[str | None, typer.Option(metavar="N", help="Join through a relation of so many facts, not on keys.")] = None,
    shards: Annotated[str | None, typer.Option(metavar="N", help="Shards and shuffle partitions.  [default: the cores]")] = None,
    heap: Annotated[bool, typer.Option(help="Also Spark's own join on its heap store.")] = True,
    doubling: Annotated[bool, typer.Option("--doubling", help="Also double window, rows and shards, one at a time.")] = False,
    peer: Annotated[list[str] | None, typer.Option(metavar="flink|pathway", help="Also this engine; see benchmarks/peers/.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A small run of about a minute; its figures are rough.")] = False,
    form: FormatOption = "table",
) -> None:
    """Time Penstock on Spark, Spark's own join and a bare pass-through: same rows, same window, one run.

    Before the clock runs, the joined rows are compared: with ample memory Penstock must give the rows of Spark's own join. With a distance
    Spark's own join is the one that a user would write: rows of one stream go into three cells, cells are equal, a condition does the rest.
    Through a relation it is a stream-static join with the facts, and then a join of the streams with conditions on times.
    """
    as_json = wants_json(form)
    given = {"batches": batches, "own-batches": own_batches, "warm-up": warm_up, "window": window}
    usual = _QUICK if quick else _USUAL
    sizes = {name: integer(text or usual[name], f"--{name}", least=0 if name == "warm-up" else 1) for name, text in given.items()}
    sizes["rows"], *other_rows = (integer(text, "--rows", least=_MOST) for text in words(rows or usual["rows"], "--rows"))
    cores = os.cpu_count() or 1
    count = integer(streams, "--streams", least=2)
    if count > _MOST:
        raise PenstockError(f"--streams must be at most {_MOST}, got {count}")
    if count > 2 and peer:
        raise PenstockError(f"--peer joins two streams, got --streams {count}; leave one of them out")
    from penstock.experiments import peers, stream_speed
    from penstock.shard.division import shard_count

    parts = cores if shards is None else shard_count(integer(shards, "--shards", least=1), "--shards")

    others = list(dict.fromkeys(peer or []))
    for name in others:
        peers.interpreter(name)  # refuse before minutes of work
    from penstock.spark.bench import contest as bench
    from penstock.spark.bench.contenders import CONTENDERS, Job, keys_for, reach_of, relation_keys, sample
    from penstock.spark.session.presence import too_old

    lacking = too_old("penstock bench spark, for the state format 4 of Spark's own join,", (4, 2))
    if lacking:
        raise PenstockError(lacking)

    reach = reach_of(predicate)
    linking = 0 if facts is None else integer(facts, "--facts", least=1)
    for option, wanted in (("--streams", count > 2), ("--peer", bool(peer)), ("--facts", bool(linking))):
        if reach and wanted:
            raise PenstockError(f"{option} has no join by distance to compare with, got --predicate {predicate}; leave one of them out")
        if linking and wanted and option != "--facts":
            raise PenstockError(f"{option} has no join through a relation to compare with, got --facts {linking}; leave one of them out")
    usual_keys = relation_keys(linking) if linking else keys_for(sizes["window"], count, reach)
    different = usual_keys if keys is None else integer(keys, "--keys", least=1)
    job = Job(
        shards=parts,
        streams=count,
        predicate=predicate,
        facts=linking,
        keys=different,
        **{name.replace("-", "_"): size for name, size in sizes.items()},
    )
    names = [name for name in CONTENDERS if heap or name != "spark-heap"]
    rounds = 1 + len(stream_speed.DOUBLED) * doubling
    steps = rounds * _steps(names, job)
    whole = [name for name in names if CONTENDERS[name].exact or not CONTENDERS[name].joins]
    resized = [replace(job, rows=size) for size in dict.fromkeys(other_rows) if size != job.rows]
    steps += sum(_steps(whole, other) for other in resized)
    before = os.getloadavg()[0]
    with Bar(steps + len(names) + len(others), "starting Spark") as bar:
        say = announcing(bar)
        session = bench.open_session(cores)
        compared = bench.check_agreement(session, names, job, say=say)

        def measure(name: str, job: Job, prefix: str = "") -> Timing:
            return bench.measure(session, name, job, say=lambda text: say(prefix + text))

        timed = [measure(name, job) for name in names]
        bench.check_counts(timed)
        by_size = {job.rows: timed}
        for other in resized:
            by_size[other.rows] = [measure(name, other, f"batches of {other.rows:,} rows: ") for name in whole]
            bench.check_counts(by_size[other.rows])
        more = stream_speed.measure_doubling(measure, names, job) if doubling else {}
        beside = []
        for name in others:
            say(name)
            left, right = sample(session, job, min(_PEER_ROWS, job.rows * job.batches))
            beside.append(peers.measure_peer(name, left, right, window=job.window, parallelism=job.shards))
        engine = session.version
        session.stop()
    about = {"spark": engine, "cores": cores, "load": [before, os.getloadavg()[0]], "rows_compared": compared}
    verdicts = {size: stream_speed.verdicts(found, stream_speed.targets_of(replace(job, rows=size))) for size, found in by_size.items()}
    if as_json:
        print_json(
            {
                "job": asdict(job),
                **about,
                "contenders": [record(timing, timed) for timing in timed],
                "peers": [asdict(one) | ratios(one, timed) for one in beside],
                "targets": verdicts[job.rows],
                "sizes": [
                    {"rows": size, "contenders": [record(timing, found) for timing in found], "targets": verdicts[size]}
                    for size, found in by_size.items()
                ],
                "doubling": stream_speed.factors(timed, more),
            }
        )
        return
    print_timings(timed, beside, job, about)
    for verdict in verdicts.pop(job.rows):
        typer.echo(f" {sentence(verdict)}")
    if job.is_long and (job.rows, job.window) != (Job.rows, Job.window):
        typer.echo(f" (The targets are set for batches of {Job.rows:,} rows and a window of {Job.window:,}.)")
    typer.echo("")
    if len(by_size) > 1:
        print_sizes(by_size)
        for size, found in verdicts.items():
            for verdict in found:
                typer.echo(f" Batches of {size:,} rows: {sentence(verdict)}")
        typer.echo("")
    if more:
        print_factors(stream_speed.factors(timed, more))


def _steps(names: list[str], job: Job) -> int:
    """How many batches that takes."""
    from penstock.spark.bench.contenders import CONTENDERS

    return sum(sum(CONTENDERS[name].batches(job)) for name in names)


_MOST = 5  # streams
