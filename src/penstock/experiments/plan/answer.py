"""What a join needs: the figures, the answer in sentences, and the join in Python and for a pipeline."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from keyword import iskeyword
from typing import Any

from penstock.experiments.plan.estimate import KeptShare
from penstock.experiments.plan.streams import Streams

_FEW = 0.1


@dataclass(frozen=True)
class Point:
    """What a policy keeps in a memory."""

    policy: str
    memory: int
    kept: KeptShare


@dataclass(frozen=True)
class Plan:
    """What a join needs: `memory` rows under `policy` in so many `shards` keep `kept.share` of the result."""

    wanted: float
    by_value: bool  # shares are of the value of outputs, not of their number
    memory: int
    policy: str
    usual: bool  # whether the policy is the one that a join has where none is named
    shards: int
    kept: KeptShare
    peak: int  # what the exact join holds
    points: list[Point]  # all that was played, by memory
    optimum: float | None  # what the best schedule keeps in that memory
    why_no_optimum: str
    ttl: float | None  # the part of the window that has room in that memory without shedding; None: the windows have no length to shorten
    ttl_kept: float | None
    divided: float | None  # what the same memory keeps in so many shards
    streams: Streams | None  # None where keys are not compared for equality
    sampled: float  # the share of the keys that were played
    rows: int  # that were played
    names: tuple[str, ...]
    keys: tuple[str, ...]
    sides: dict[str, dict[str, Any]]  # by stream, what `ps.stream` is told: time, window, and what else there is
    told: dict[str, Any]  # what `ps.join` is told beside keys, memory, policy and shards
    others: dict[str, float]  # by policy, what it keeps in that memory

    @property
    def regret(self) -> float | None:
        """What the optimum keeps beyond the policy."""
        return None if self.optimum is None else max(0.0, self.optimum - self.kept.share)

    def sentences(self) -> list[str]:
        """The answer."""
        return _sentences(self)

    def reasons(self) -> list[str]:
        """Why it is so, as far as the streams say it."""
        return _reasons(self)

    def code(self) -> str:
        """The join, to paste into a program."""
        return _code(self)

    def snippet(self) -> str:
        """The join, for the file of a pipeline."""
        return _snippet(self)

    def summary(self) -> dict[str, Any]:
        """All of it, for a program."""
        own = {name: value for name, value in vars(self).items() if name not in ("points", "streams")}
        points = [asdict(point) for point in self.points]
        texts = {"answer": self.sentences(), "reasons": self.reasons(), "code": self.code(), "pipeline": self.snippet()}
        about = {"streams": None if self.streams is None else asdict(self.streams)}
        return own | {"kept": asdict(self.kept), "regret": self.regret, "points": points} | about | texts

    def __str__(self) -> str:
        return "\n".join(self.sentences())


def _sentences(plan: Plan) -> list[str]:
    """What to do, how good it is, and what else would do."""
    what = "value of the result" if plan.by_value else "result"
    reached = "" if plan.kept.share >= plan.wanted else f", less than the {plan.wanted:.1%} that were wanted"
    later = f"later data of this kind: {plan.kept.low:.1%} to {plan.kept.high:.1%}"
    part = f"{plan.memory / plan.peak:.1%} of the {plan.peak:,} rows that the exact join holds at its peak"
    first = f"{plan.memory:,} rows of memory keep {plan.kept.share:.1%} of the {what}{reached} ({later}); that is {part}."
    rest = {name: share for name, share in plan.others.items() if name != plan.policy}
    second = f"The best policy is {plan.policy}{', which a join has by default' if plan.usual else ''}"
    if rest:
        next_one = max(rest, key=lambda name: rest[name])
        second += f"; in that memory {next_one} keeps {rest[next_one]:.1%}"
    if plan.optimum is None:
        second += f". What is the best that could be is not known: {plan.why_no_optimum}."
    else:
        second += f", and no policy can keep more than {plan.optimum:.1%}."
    return [first, second, _third(plan)]


def _third(plan: Plan) -> str:
    parts = []
    if plan.ttl is not None and plan.ttl_kept is not None:
        parts.append(f"A TTL that needs no more memory is {plan.ttl:.0%} of the window and loses {1 - plan.ttl_kept:.1%}")
    elif plan.ttl is not None:
        parts.append("No TTL needs so little memory")
    many = f"{plan.shards} shards are enough" if plan.shards > 1 else "one shard is enough"
    if plan.divided is not None:
        many += f", and keep {plan.divided:.1%}"
    return "; ".join([*parts, many]) + "."


def _reasons(plan: Plan) -> list[str]:
    """Why it is as it is."""
    own = plan.streams
    if own is None:
        return []
    found = [f"{own.keys:,} keys in {own.rows:,} rows; {own.half:.1%} of the keys have half of the rows."]
    if own.once > 0.5:
        found.append(f"{own.once:.0%} of the rows have a key that comes once in its stream: what counts is when a partner is due.")
    elif own.half < _FEW:
        found.append("Few keys have most of the rows: a policy that keeps the frequent ones keeps most of the result.")
    else:
        found.append("Keys are much alike: a policy has little to choose by, and memory decides.")
    if own.alone > _FEW:
        found.append(f"{own.alone:.0%} of the rows have a key that comes in no other stream: they need no memory at all.")
    if plan.sampled < 1:
        found.append(f"Played: {plan.rows:,} rows, those of {plan.sampled:.1%} of the keys; the interval has the error of that.")
    return found


def _code(plan: Plan) -> str:
    """The join in Python; the streams are frames with these names.

    The window is the one that was asked for: where it is a number it counts ticks, and on Spark it must be a duration.
    """
    lines = [f"    {_python(name)}: ps.stream({_plain(name)}, {_told(own)})," for name, own in plan.sides.items()]
    return "\n".join(["ps.join({", *lines, f"}}, {_told(_options(plan))})"])


def _snippet(plan: Plan) -> str:
    """The tables `[streams.NAME]` and `[join]` of a pipeline; the sources, which have the names of the streams, are the user's."""
    tables = [
        f"[streams.{_plain(name)}]\n" + "\n".join(f"{key} = {_toml(value)}" for key, value in ({"source": _plain(name)} | own).items())
        for name, own in plan.sides.items()
    ]
    return "\n\n".join([*tables, "[join]\n" + "\n".join(f"{key} = {_toml(value)}" for key, value in _options(plan).items())])


def _options(plan: Plan) -> dict[str, Any]:
    """What the join is told beside its streams."""
    keys = list(plan.keys) if len(plan.keys) != 1 else plan.keys[0]
    policy = {} if plan.usual else {"policy": plan.policy}
    return {"on": keys} | plan.told | {"memory": plan.memory} | policy | {"shards": plan.shards}


def _told(options: dict[str, Any]) -> str:
    return ", ".join(f"{name}={_python(value)}" for name, value in options.items())


def _python(value: Any) -> str:
    """A value in Python.

    >>> print(_python(["user", "rider's"]))
    ["user", "rider's"]
    """
    if isinstance(value, list):
        return f"[{', '.join(map(_python, value))}]"
    return _toml(value) if isinstance(value, str) else repr(value).replace("'", '"')


def _toml(value: Any) -> str:
    return json.dumps(value, default=str, ensure_ascii=False)


def _plain(name: str) -> str:
    """A name for the frame of a stream, or for the stream in a pipeline: both take letters, digits and _ alone.

    >>> _plain("clicks"), _plain("from"), _plain("2026-01.clicks")
    ('clicks', 'from_', '_2026_01_clicks')
    """
    found = re.sub(r"\W", "_", name, flags=re.ASCII)
    found = f"_{found}" if not found or found[0].isdigit() else found
    return f"{found}_" if iskeyword(found) else found
