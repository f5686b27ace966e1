"""What the runs of `penstock bench spark` say: ratios, targets, and what doubling changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from penstock.spark.bench.contenders import Job
    from penstock.spark.bench.contest import Timing


class HasPace(Protocol):
    """Whatever has a name and a throughput."""

    @property
    def contender(self) -> str:
        """Its name."""
        ...

    @property
    def rows_per_second(self) -> float:
        """Its throughput."""
        ...


@dataclass(frozen=True)
class Target:
    """How many times another contender's throughput Penstock must reach with ample memory, or with a condition too."""

    than: str
    wanted: float
    who: str = "penstock"


_CONDITION = Target("penstock", 0.85, who="penstock-condition")
TARGETS = (Target("spark-rocksdb", 10.0), Target("spark-heap", 3.0), Target("pass-through", 0.6), _CONDITION)
"""Set for batches of 500,000 rows of 30 bytes, a window of 20,000 rows per stream and 0.4 outputs per input, on 2 cores."""
CASCADE = (Target("spark-rocksdb", 5.0), Target("spark-heap", 5.0))
"""For three streams and more, where Spark's own join is a cascade."""
DISTANCE = (Target("spark-rocksdb", 5.0), Target("spark-heap", 5.0))
"""For a join by distance, which is written by hand with Spark's own."""
RELATION = (Target("spark-rocksdb", 5.0), Target("spark-heap", 5.0))
"""For a join through a relation, which is a stream-static join and then one of two streams."""
SMALL = (Target("spark-rocksdb", 1.0), Target("spark-heap", 1.0), _CONDITION)
"""For batches of some thousand rows, of which most is what Spark does for a batch, however few rows there are."""
DOUBLED = ("window", "rows", "shards")


def ratio(timings: Sequence[HasPace], name: str, to: str) -> float | None:
    """The throughput of one contender over that of another; None where one of them did not run.

    >>> from penstock.experiments.peers import PeerTiming
    >>> ratio([PeerTiming("a", "1", 100, 0, 1.0), PeerTiming("b", "1", 100, 0, 2.0)], "a", "b")
    2.0
    """
    paces = {timing.contender: timing.rows_per_second for timing in timings}
    return paces[name] / paces[to] if name in paces and to in paces else None


def targets_of(job: Job) -> tuple[Target, ...]:
    """The targets of a job."""
    if not job.is_long:
        return SMALL
    if job.facts:
        return RELATION
    if job.reach:
        return DISTANCE
    return TARGETS if job.streams == 2 else CASCADE


def verdicts(timings: Sequence[HasPace], targets: Sequence[Target] = TARGETS) -> list[dict[str, Any]]:
    """Whether each target holds: `who`, `than`, `wanted`, `got` and `holds`; the last two None where it was not measured.

    >>> verdicts([])[0]
    {'than': 'spark-rocksdb', 'wanted': 10.0, 'who': 'penstock', 'got': None, 'holds': None}
    """
    found = []
    for target in targets:
        got = ratio(timings, target.who, target.than)
        found.append(asdict(target) | {"got": got, "holds": None if got is None else got >= target.wanted})
    return found


def doubled(job: Job, what: str) -> Job:
    """The job with one thing doubled. Keys grow with the window, so that outputs per input stay alike."""
    more = replace(job, **{what: 2 * getattr(job, what)})
    return replace(more, keys=2 * job.keys) if what == "window" else more


def measure_doubling(measure: Callable[[str, Job, str], Timing], names: Sequence[str], job: Job) -> dict[str, list[Timing]]:
    """Every contender once more with the window, the rows of a batch and the shards doubled, one at a time.

    `measure` takes the contender, the job and what to say of it.
    """
    return {what: [measure(name, doubled(job, what), f"{what} doubled: ") for name in names] for what in DOUBLED}


def factors(base: Sequence[Timing], more: dict[str, list[Timing]]) -> list[dict[str, Any]]:
    """By contender and what was doubled: throughput, CPU time per row, bytes and commit time over those of the first run."""
    first = {timing.contender: timing for timing in base}
    found = []
    for what, timings in more.items():
        for timing in timings:
            before = first[timing.contender]
            found.append(
                {
                    "contender": timing.contender,
                    "doubled": what,
                    "rows_per_second": timing.rows_per_second / before.rows_per_second,
                    "cpu_per_row": _over(timing.cpu_microseconds_per_row, before.cpu_microseconds_per_row),
                    "state_bytes": _over(timing.state_bytes, before.state_bytes),
                    "checkpoint_bytes": _over(timing.checkpoint_bytes, before.checkpoint_bytes),
                    "commit_seconds": _over(timing.commit_seconds, before.commit_seconds),
                }
            )
    return found


def _over(new: float | None, old: float | None) -> float | None:
    return new / old if new is not None and old else None
