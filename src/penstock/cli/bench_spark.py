"""`penstock bench spark`: how fast joins are on Spark on this machine, and whether Penstock meets its targets."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.output import NOTHING, Bar, FormatOption, announcing, number, print_json, print_table, wants_json
from penstock.cli.texts import integer
from penstock.core.errors import PenstockError

if TYPE_CHECKING:
    from penstock.experiments.peers import PeerTiming
    from penstock.spark.bench.contenders import Job
    from penstock.spark.bench.contest import Timing

EXAMPLE = "Example: penstock bench spark --rows 100000 --window 5000 --keys 12500 --doubling"
_USUAL = {"rows": "500000", "batches": "10", "own-batches": "3", "warm-up": "40", "window": "20000"}
_QUICK = {"rows": "20000", "batches": "2", "own-batches": "2", "warm-up": "1", "window": "2000"}
_PEER_ROWS = 1_000_000


def spark(
    rows: Annotated[str | None, typer.Option(metavar="COUNT", help="Of a batch, all streams together.  [default: 500000]")] = None,
    batches: Annotated[str | None, typer.Option(metavar="N", help="Batches that count.  [default: 10]")] = None,
    own_batches: Annotated[str | None, typer.Option(metavar="N", help="The same for Spark's own, slow join.  [default: 3]")] = None,
    warm_up: Annotated[str | None, typer.Option(metavar="N", help="Batches before; of Spark's join an eighth.  [default: 40]")] = None,
    window: Annotated[str | None, typer.Option(metavar="ROWS", help="Of each stream.  [default: 20000]")] = None,
    keys: Annotated[str | None, typer.Option(metavar="COUNT", help="Different keys, uniform.  [default: for 0.4 outputs per row]")] = None,
    streams: Annotated[str, typer.Option(metavar="N", help="Streams to join; of 3 and more, Spark's own join is a cascade.")] = "2",
    shards: Annotated[str | None, typer.Option(metavar="N", help="Shards and shuffle partitions.  [default: the cores]")] = None,
    heap: Annotated[bool, typer.Option(help="Also Spark's own join on its heap store.")] = True,
    doubling: Annotated[bool, typer.Option("--doubling", help="Also double window, rows and shards, one at a time.")] = False,
    peer: Annotated[list[str] | None, typer.Option(metavar="flink|pathway", help="Also this engine; see benchmarks/peers/.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A small run of about a minute; its figures are rough.")] = False,
    form: FormatOption = "table",
) -> None:
    """Time Penstock on Spark, Spark's own join and a bare pass-through: same rows, same window, one run.

    Before the clock runs, the joined rows are compared: with ample memory Penstock must give the rows of Spark's own join.
    """
    as_json = wants_json(form)
    given = {"rows": rows, "batches": batches, "own-batches": own_batches, "warm-up": warm_up, "window": window}
    usual = _QUICK if quick else _USUAL
    sizes = {name: integer(text or usual[name], f"--{name}", least=_LEAST.get(name, 1)) for name, text in given.items()}
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
    from penstock.spark.bench.contenders import CONTENDERS, Job, keys_for, sample
    from penstock.spark.session.presence import too_old

    lacking = too_old("penstock bench spark, for the state format 4 of Spark's own join,", (4, 2))
    if lacking:
        raise PenstockError(lacking)

    different = keys_for(sizes["window"], count) if keys is None else integer(keys, "--keys", least=1)
    job = Job(shards=parts, streams=count, keys=different, **{name.replace("-", "_"): size for name, size in sizes.items()})
    names = [name for name in CONTENDERS if heap or name != "spark-heap"]
    rounds = 1 + len(stream_speed.DOUBLED) * doubling
    steps = sum(sum(CONTENDERS[name].batches(job)) for name in names)
    before = os.getloadavg()[0]
    with Bar(rounds * steps + len(names) + len(others), "starting Spark") as bar:
        say = announcing(bar)
        session = bench.open_session(cores)
        compared = bench.check_agreement(session, names, job, say=say)

        def measure(name: str, job: Job, prefix: str = "") -> Timing:
            return bench.measure(session, name, job, say=lambda text: say(prefix + text))

        timed = [measure(name, job) for name in names]
        more = stream_speed.measure_doubling(measure, names, job) if doubling else {}
        beside = []
        for name in others:
            say(name)
            left, right = sample(session, job, min(_PEER_ROWS, job.rows * job.batches))
            beside.append(peers.measure_peer(name, left, right, window=job.window, parallelism=job.shards))
        engine = session.version
        session.stop()
    about = {"spark": engine, "cores": cores, "load": [before, os.getloadavg()[0]], "rows_compared": compared}
    verdicts = stream_speed.verdicts(timed, count)
    if as_json:
        print_json(
            {
                "job": asdict(job),
                **about,
                "contenders": [_record(timing, timed) for timing in timed],
                "peers": [asdict(one) | _ratios(one, timed) for one in beside],
                "targets": verdicts,
                "doubling": stream_speed.factors(timed, more),
            }
        )
        return
    _print_timings(timed, beside, job, about)
    for verdict in verdicts:
        typer.echo(f" {_sentence(verdict)}")
    if (job.rows, job.window) != (int(_USUAL["rows"]), int(_USUAL["window"])):
        typer.echo(f" (The targets are set for batches of {int(_USUAL['rows']):,} rows and a window of {int(_USUAL['window']):,}.)")
    typer.echo("")
    if more:
        _print_factors(stream_speed.factors(timed, more))


_LEAST = {"rows": 5, "warm-up": 0}
_MOST = 5  # streams


def _ratios(one: Timing | PeerTiming, timed: Sequence[Timing]) -> dict[str, float | None]:
    from penstock.experiments.stream_speed import ratio

    everyone = [timing for timing in timed if timing.contender != one.contender]
    wanted = {"ratio_to_pass_through": "pass-through", "ratio_to_spark_rocksdb": "spark-rocksdb"}
    to_all = {name: ratio([*everyone, one], one.contender, to) if one.contender != to else 1.0 for name, to in wanted.items()}
    return {"rows_per_second": one.rows_per_second, **to_all}


def _record(timing: Timing, timed: Sequence[Timing]) -> dict[str, Any]:
    return (
        asdict(timing)
        | {"batches": len(timing.seconds), "cpu_microseconds_per_row": 1e6 * timing.cpu_seconds / timing.rows}
        | _ratios(timing, timed)
    )


def _sentence(verdict: dict[str, Any]) -> str:
    wish = f"penstock at {verdict['wanted']:g} times {verdict['than']} or more"
    if verdict["got"] is None:
        return f"{wish}: not measured"
    return f"{wish}: {'holds' if verdict['holds'] else 'MISSED'}, {verdict['got']:.2f} times"


def _print_timings(timed: Sequence[Timing], beside: Sequence[PeerTiming], job: Job, about: dict[str, Any]) -> None:
    columns = ["contender", "rows/s", "of pass-through", "of spark-rocksdb", "outputs/row", "CPU us/row"]
    columns += ["memory", "state rows", "state MB", "checkpoint MB/batch", "commit ms", "batches"]
    lines = []
    for one in timed:
        sizes = [_or_nothing(one.memory), _or_nothing(one.state_rows), _megabytes(one.state_bytes), _megabytes(one.checkpoint_bytes)]
        commit = NOTHING if one.state_bytes is None else f"{1000 * one.commit_seconds:,.0f}"
        lines.append(
            [
                *_paces(one, timed),
                f"{one.outputs / one.rows:.3f}",
                f"{1e6 * one.cpu_seconds / one.rows:.2f}",
                *sizes,
                commit,
                str(len(one.seconds)),
            ]
        )
    for peer in beside:
        lines.append([*_paces(peer, timed), f"{peer.outputs / peer.rows:.3f}", *[NOTHING] * 7])
    print_table(
        columns,
        lines,
        title=f"{job.streams} streams, batches of {job.rows:,} rows, window {job.window:,} rows per stream, {job.keys:,} keys, "
        f"{job.shards} shards, {about['cores']} cores, Spark {about['spark']}",
        caption=f"Results compared first: {about['rows_compared']:,} joined rows alike. {job.warm_up} batches of warm-up "
        "(of Spark's own join an eighth) are left out. "
        "CPU: Java and Python workers together. "
        f"Load of the machine {about['load'][0]:.1f} before, {about['load'][1]:.1f} after.",
    )


def _paces(one: Timing | PeerTiming, timed: Sequence[Timing]) -> list[str]:
    found = _ratios(one, timed)
    ratios = [found["ratio_to_pass_through"], found["ratio_to_spark_rocksdb"]]
    label = f"{one.contender} {one.version}" if hasattr(one, "version") else one.contender
    return [label, f"{one.rows_per_second:,.0f}", *(NOTHING if r is None else f"{r:.2f}" for r in ratios)]


def _print_factors(found: Sequence[dict[str, Any]]) -> None:
    lines = [
        [
            one["contender"],
            one["doubled"],
            *(
                NOTHING if one[name] is None else f"{one[name]:.2f}"
                for name in ("rows_per_second", "cpu_per_row", "state_bytes", "checkpoint_bytes", "commit_seconds")
            ),
        ]
        for one in sorted(found, key=lambda one: [x["contender"] for x in found].index(one["contender"]))
    ]
    print_table(
        ["contender", "doubled", "rows/s", "CPU per row", "state bytes", "checkpoint bytes", "commit time"],
        lines,
        left=2,
        title="What doubling changes, as factors",
        caption="Keys double with the window, so that outputs per input stay alike.",
    )


def _or_nothing(count: int | None) -> str:
    return NOTHING if count is None else number(count)


def _megabytes(size: int | None) -> str:
    return NOTHING if size is None else f"{size / 1e6:,.1f}"
