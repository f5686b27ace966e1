"""Every key that a pipeline file may have: what is right for it, whether it must be there, what it is otherwise.

A kind of source or sink is a line in `SOURCES` or `SINKS` here, and one in the table of the same name in `spark/pipeline/query.py`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from penstock.core.duration import microseconds
from penstock.core.errors import PenstockError, choose
from penstock.core.value import OBJECTIVES
from penstock.generator.zipf import IMPORTANCE, RANKS, SPECIAL
from penstock.pipeline.ddl import check_schema
from penstock.policies.table import AUTO, POLICIES
from penstock.shard.division import shard_count
from penstock.shard.shard_plan import NAME, NO_NAMES
from penstock.shard.stream_window import window_of
from penstock.statistics.table import RUNNING

Read = Callable[[str, Any], Any]
"""The value of a key, given its dotted name and what the file has; raises a PenstockError that says what would be right."""


@dataclass(frozen=True)
class Key:
    """One key: how it is read, and what it is when the file does not have it."""

    read: Read
    needed: bool = False
    default: Any = None


def that(wanted: str, fits: Callable[[Any], bool], made: Callable[[Any], Any] = lambda got: got) -> Read:
    """A reader from a rule.

    >>> that("a number", lambda got: isinstance(got, int))("join.seed", "x")
    Traceback (most recent call last):
    ...
    penstock.core.errors.PenstockError: join.seed must be a number, got "x"
    """

    def read(path: str, got: Any) -> Any:
        if not fits(got):
            raise PenstockError(f"{path} must be {wanted}, got {shown(got)}")
        return made(got)

    return read


def shown(value: Any) -> str:
    """A value as a TOML file has it.

    >>> shown("a"), shown(True), shown([1, "b"])
    ('"a"', 'true', '[1, "b"]')
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, list):
        return f"[{', '.join(map(shown, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {shown(one)}" for name, one in value.items()) + "}"
    return str(value)


def one_of(names: Iterable[str]) -> Read:
    """A reader of one of these words."""
    choices = list(names)
    return lambda path, got: choose(path, got, choices)


def whole(least: int, what: str = "a whole number") -> Read:
    """A reader of whole numbers."""
    return that(f"{what} >= {least}", lambda got: _whole(got) and least <= got <= 1 << 60)


def length(least: int = 0) -> Read:
    """A reader of durations."""
    return lambda path, got: microseconds(got, path, least=least)


def _whole(got: Any) -> bool:
    return isinstance(got, int) and not isinstance(got, bool)


def _number(got: Any) -> bool:
    return isinstance(got, int | float) and not isinstance(got, bool) and math.isfinite(got)


def _text(got: Any) -> bool:
    return isinstance(got, str) and bool(got.strip())


def _texts(got: Any) -> bool:
    return _text(got) or (isinstance(got, list) and bool(got) and all(map(_text, got)))


def _as_list(got: Any) -> list[str]:
    return [got] if isinstance(got, str) else list(got)


def _size(got: Any) -> bool:
    return isinstance(got, str) and re.fullmatch(r"\s*\d+(\.\d+)?\s*[kmg]?i?b\s*", got.lower()) is not None


def _rows(got: Any) -> bool:
    if isinstance(got, list):
        return bool(got) and all(isinstance(step, list) and len(step) == 2 and (_whole(step[1]) or _size(step[1])) for step in got)
    return (_whole(got) and got > 0) or _size(got) or (isinstance(got, str) and ":" in got)


def _name(path: str, got: Any) -> Any:
    if not isinstance(got, str) or re.fullmatch(NAME, got) is None:
        raise PenstockError(f"{path} must be made of letters, digits, '_', '-' and '.', got {shown(got)}")
    return that("more than dots, which are folders", lambda name: name not in NO_NAMES)(path, got)


def _window(path: str, got: Any) -> Any:
    return window_of(got, argument=path)


def _links(got: Any) -> bool:
    return _text(got) or (isinstance(got, list) and bool(got) and all(map(_text, got)))


def _schema(path: str, got: Any) -> str:
    return check_schema(path, that('columns and types such as "ts timestamp, k string"', _text)(path, got))


def _trigger(path: str, got: Any) -> dict[str, Any]:
    """What `DataStreamWriter.trigger` takes; nothing for Spark's default."""
    if isinstance(got, str) and got in TRIGGERS:
        return TRIGGERS[got]
    if isinstance(got, str) and got.startswith(_EVERY):
        return {"processingTime": f"{microseconds(got.removeprefix(_EVERY), path, least=1000) // 1000} milliseconds"}
    kinds = ", ".join(f'"{name}"' for name in TRIGGERS)
    raise PenstockError(f'{path} must be {kinds} or "processing time 5 seconds", got {shown(got)}')


def _start(path: str, got: Any) -> int:
    if not isinstance(got, datetime):
        raise PenstockError(f"{path} must be a time such as 2026-01-31T12:00:00Z, without quotation marks, got {shown(got)}")
    return round(got.replace(tzinfo=got.tzinfo or UTC).timestamp() * 1_000_000)


def _stretch(path: str, got: Any) -> float:
    """A time in the scores of policies: a duration."""
    return float(microseconds(got, path, least=1))


def _shared(path: str, got: Any) -> str | bool:
    return False if got is False else a_place(path, got)


def _min_recall(path: str, got: Any) -> Any:
    """What `ps.join` takes: a number, or a number and an action."""
    table = got if isinstance(got, dict) and got.keys() <= {"recall", "action"} else {"recall": got}
    least: Any = table.get("recall")
    if not (_number(least) and 0 < least <= 1):
        raise PenstockError(f'{path} must be a number above 0 and up to 1, or {{ recall = 0.9, action = "fail" }}, got {shown(got)}')
    return (least, choose(f"{path}.action", table["action"], ("warn", "fail"))) if "action" in table else least


def _ahead(path: str, got: Any) -> Any:
    """What `ps.join` takes: a duration, "none", or a duration and an action."""
    table = got if isinstance(got, dict) and got.keys() <= {"limit", "action"} else {"limit": got}
    if table.get("limit") == "none" and "action" not in table:
        return "none"
    limit = f"{microseconds(table.get('limit'), f'{path}.limit' if table is got else path, least=1)} microseconds"
    return (limit, choose(f"{path}.action", table["action"], ("wait", "drop"))) if "action" in table else limit


_EVERY = "processing time "
TRIGGERS: dict[str, dict[str, Any]] = {"available now": {"availableNow": True}, "as soon as possible": {}}

a_text = that("a text", _text)
a_place = that("the path of a file or folder", _text)
a_column = that("the name of a column", _text)
columns = that("the name of a column or a list of them", _texts, _as_list)
sql = that("an SQL expression", _text)
number = that("a number", _number)
yes_or_no = that("true or false", lambda got: isinstance(got, bool))
per_stream = that("a number or a list with one per stream", lambda got: _number(got) or (isinstance(got, list) and all(map(_number, got))))
settings = that(
    "a table of texts, numbers and true or false",
    lambda got: isinstance(got, dict) and all(isinstance(value, str | int | float) for value in got.values()),
    lambda got: {name: shown(value) if isinstance(value, bool) else str(value) for name, value in got.items()},
)
memory = that(
    'a positive number of rows, a size such as "512 MB", or a table with one for each stream; where it changes, pairs [time, rows]',
    lambda got: _rows(got) or (isinstance(got, dict) and bool(got) and all(map(_rows, got.values()))),
)

SPARK: Mapping[str, Key] = {
    "master": Key(a_text),
    "log_level": Key(one_of(("OFF", "ERROR", "WARN", "INFO", "DEBUG")), default="ERROR"),
    "settings": Key(settings, default={}),
}


def _importance(path: str, got: Any) -> Any:
    return got if isinstance(got, str) and got.startswith(SPECIAL) else choose(path, got, [*IMPORTANCE, f"{SPECIAL}SHARE"])


_FILES = {
    "path": Key(a_place, needed=True),
    "schema": Key(_schema),
    "files_per_batch": Key(whole(1)),
    "options": Key(settings, default={}),
}
_GENERATOR = {
    "streams": Key(that("a list of different names", lambda got: _texts(got) and isinstance(got, list)), needed=True),
    "keys": Key(whole(1), default=50),
    "skew": Key(per_stream, default=1.0),
    "ranks": Key(one_of(RANKS), default="uncorrelated"),
    "rate": Key(per_stream, default=1.0),
    "burst": Key(a_text),
    "drift": Key(whole(1)),
    "disorder": Key(whole(0), default=0),
    "importance": Key(_importance),
    "groups": Key(whole(1), default=5),
    "top": Key(whole(1), default=100),
    "seed": Key(whole(0), default=0),
    "ticks": Key(whole(1)),
    "tick": Key(length(1), default=1_000_000),
    "start": Key(_start, default=1_767_225_600_000_000),  # 2026-01-01
    "ticks_per_batch": Key(whole(1)),
    "rows_per_second": Key(that("a number > 0", lambda got: _number(got) and got > 0)),
}
_RATE = {
    "rows_per_second": Key(whole(1), default=1),
    "partitions": Key(whole(1)),
    "options": Key(settings, default={}),
}
SOURCES: Mapping[str, Mapping[str, Key]] = {"parquet": _FILES, "json": _FILES, "csv": _FILES, "generator": _GENERATOR, "rate": _RATE}

STREAM: Mapping[str, Key] = {
    "source": Key(that("the NAME of a [sources.NAME]", _text), needed=True),
    "where": Key(sql),
    "select": Key(that("an SQL expression or a list of them", _texts, _as_list)),
    "time": Key(a_column, needed=True),
    "window": Key(_window),
    "rows_per_key": Key(whole(1)),
    "lifetime": Key(sql),
    "lateness": Key(length(), default=0),
    "key": Key(columns),
    "importance": Key(sql),
    "order": Key(a_column),
    "columns": Key(columns),
    "matches": Key(whole(1)),
}

RELATION: Mapping[str, Key] = {
    "source": Key(that("a file of facts, or an address", _text), needed=True),
    "links": Key(that('a list of links such as ["pickup.zone = a", "b = dropoff.zone"]', _links, _as_list), needed=True),
    "begin": Key(a_column),
    "end": Key(a_column),
    "weight": Key(a_column),
    "columns": Key(columns, default=[]),
    "id": Key(columns, default=[]),
    "lateness": Key(length(), default=0),
}

JOIN: Mapping[str, Key] = {
    "on": Key(columns),
    "through": Key(that("the NAME of a [relations.NAME] or a list of them", _texts, _as_list)),
    "predicate": Key(that('a comparison such as "<" or "eps:0.5", or a list of links such as "R.a = S.a"', _links)),
    "cross": Key(yes_or_no),
    "memory": Key(memory, needed=True),
    "policy": Key(one_of((AUTO, *POLICIES))),
    "allocation": Key(one_of(("variable", "fixed"))),
    "stats": Key(one_of((*RUNNING, "given"))),
    "given": Key(a_place),
    "objective": Key(one_of(OBJECTIVES)),
    "shards": Key(lambda path, got: shard_count(whole(1)(path, got), path)),
    "condition": Key(sql),
    "archive": Key(a_place),
    "shared": Key(_shared),
    "min_recall": Key(_min_recall),
    "max_output_per_batch": Key(whole(1, "a number of rows")),
    "ghosts": Key(whole(1, "a number of rows")),
    "ahead": Key(_ahead),
    "overhead": Key(that('a size such as "256 MB"', _size)),
    "name": Key(_name, default="penstock"),
    "trust": Key(yes_or_no),
    "seed": Key(whole(0)),
    "alpha": Key(_stretch),
    "beta": Key(number),
    "half_life": Key(_stretch),
    "weights": Key(that("a list of three numbers", lambda got: isinstance(got, list) and len(got) == 3 and all(map(_number, got)))),
    "switches": Key(settings),
}

_EVERY_SINK = {"checkpoint": Key(a_place), "trigger": Key(_trigger, default=TRIGGERS["as soon as possible"])}
_TO_FILES = _EVERY_SINK | {
    "checkpoint": Key(a_place, needed=True),
    "path": Key(a_place, needed=True),
    "partition_by": Key(columns),
    "options": Key(settings, default={}),
}
_TO_CONSOLE = _EVERY_SINK | {"show": Key(whole(1), default=20), "options": Key(settings, default={})}
_TO_MEMORY = _EVERY_SINK | {"show": Key(whole(1), default=20), "table": Key(a_text, default="joined")}
SINKS: Mapping[str, Mapping[str, Key]] = {
    "parquet": _TO_FILES, "json": _TO_FILES, "csv": _TO_FILES, "console": _TO_CONSOLE, "memory": _TO_MEMORY,
}  # fmt: skip
