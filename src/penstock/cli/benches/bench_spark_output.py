"""What the runs of `penstock bench spark` become: tables and JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from penstock.cli.output import NOTHING, number, print_table

if TYPE_CHECKING:
    from penstock.experiments.peers import PeerTiming
    from penstock.spark.bench.contenders import Job
    from penstock.spark.bench.contest import Timing

_SAME = {"ratio_to_pass_through": "pass-through", "ratio_to_spark_rocksdb": "spark-rocksdb", "ratio_to_spark_heap": "spark-heap"}
"""Whose throughput that of others is divided by, and what it is called then."""


def ratios(one: Timing | PeerTiming, timed: Sequence[Timing]) -> dict[str, float | None]:
    """The throughput of one, as it is and over that of others."""
    from penstock.experiments.stream_speed import ratio

    everyone = [timing for timing in timed if timing.contender != one.contender]
    to_all = {name: ratio([*everyone, one], one.contender, to) if one.contender != to else 1.0 for name, to in _SAME.items()}
    return {"rows_per_second": one.rows_per_second, **to_all}


def record(timing: Timing, timed: Sequence[Timing]) -> dict[str, Any]:
    """A run as a program may want it."""
    own = {name: getattr(timing, name) for name in ("cpu_microseconds_per_row", "median_seconds", "warm_up")}
    return asdict(timing) | own | {"batches": len(timing.seconds)} | ratios(timing, timed)


def sentence(verdict: Mapping[str, Any]) -> str:
    """A target, and whether it holds."""
    wish = f"{verdict['who']} at {verdict['wanted']:g} times {verdict['than']} or more"
    if verdict["got"] is None:
        return f"{wish}: not measured"
    return f"{wish}: {'holds' if verdict['holds'] else 'MISSED'}, {verdict['got']:.2f} times"


def print_timings(timed: Sequence[Timing], beside: Sequence[PeerTiming], job: Job, about: Mapping[str, Any]) -> None:
    """All there is to say of each contender in one job."""
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
                f"{one.cpu_microseconds_per_row:.2f}",
                *sizes,
                commit,
                str(len(one.seconds)),
            ]
        )
    for peer in beside:
        lines.append([*_paces(peer, timed), f"{peer.outputs / peer.rows:.3f}", *[NOTHING] * 7])
    matching = f"{job.facts:,} facts" if job.facts else f"keys {job.predicate}"
    print_table(
        columns,
        lines,
        title=f"{job.streams} streams, {matching}, batches of {job.rows:,} rows, window {job.window:,} rows per stream, "
        f"{job.keys:,} keys, {job.shards} shards, {about['cores']} cores, Spark {about['spark']}",
        caption=f"Results compared first: {about['rows_compared']:,} joined rows alike. {_warm_ups(timed)} "
        "CPU: Java and Python workers together. "
        f"Load of the machine {about['load'][0]:.1f} before, {about['load'][1]:.1f} after.",
    )


def _paces(one: Timing | PeerTiming, timed: Sequence[Timing]) -> list[str]:
    found = ratios(one, timed)
    paces = [found["ratio_to_pass_through"], found["ratio_to_spark_rocksdb"]]
    label = f"{one.contender} {one.version}" if hasattr(one, "version") else one.contender
    return [label, f"{one.rows_per_second:,.0f}", *map(_times, paces)]


def print_sizes(by_size: Mapping[int, Sequence[Timing]]) -> None:
    """What changes with the size of a batch."""
    lines = []
    for rows, timed in sorted(by_size.items()):
        for one in timed:
            found = ratios(one, timed)
            paces = [f"{one.median_seconds:.3f}", f"{one.rows_per_second:,.0f}", f"{one.cpu_microseconds_per_row:,.2f}"]
            lines.append([number(rows), one.contender, *paces, *(_times(found[name]) for name in _SAME), str(len(one.seconds))])
    print_table(
        ["rows of a batch", "contender", "seconds", "rows/s", "CPU us/row", *(f"of {name}" for name in _SAME.values()), "batches"],
        lines,
        left=2,
        title="The same job in batches of other sizes",
        caption="Seconds: the median of a batch. The exact joins made equally many rows of each batch.",
    )


def print_factors(found: Sequence[Mapping[str, Any]]) -> None:
    """What doubling changes."""
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


def _warm_ups(timed: Sequence[Timing]) -> str:
    usual = max((one.warm_up for one in timed), default=0)
    others = [f"{one.warm_up} of {one.contender}" for one in timed if one.warm_up != usual]
    return f"{usual} batches of warm-up are left out{''.join(f', {text}' for text in others)}."


def _times(ratio: float | None) -> str:
    return NOTHING if ratio is None else f"{ratio:.2f}"


def _or_nothing(count: int | None) -> str:
    return NOTHING if count is None else number(count)


def _megabytes(size: int | None) -> str:
    return NOTHING if size is None else f"{size / 1e6:,.1f}"
