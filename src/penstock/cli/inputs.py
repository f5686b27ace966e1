"""What `penstock simulate` reads: a trace, or a stream per file or folder with columns by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.cli.output import note
from penstock.cli.texts import key_columns, words
from penstock.core.errors import PenstockError

if TYPE_CHECKING:
    from penstock.core.trace import Ints, Trace
    from penstock.relation.relation import Relation

_TAKEN = ("stream", "time", "importance", "size", "lifetime")


@dataclass(frozen=True)
class Input:
    """A trace; and where it was made of several files, the number of each row in its own."""

    trace: Trace
    row: Ints | None = None


def read_input(
    paths: Sequence[Path],
    *,
    time: str | None,
    key: str | None,
    importance: str | None,
    size: str | None,
    predicate: str,
    through: Sequence[Relation],
    streams: str | None,
    time_unit: str | None,
) -> Input:
    """The rows to play. Of several files only the columns that are named are read."""
    from penstock.core.stream_files import read_streams
    from penstock.core.trace import read_trace

    named = None if streams is None else words(streams, "--streams")
    if len(paths) == 1:
        given = {"--time": time, "--importance": importance, "--size": size}
        for option, text in given.items():
            if text is not None:
                raise PenstockError(
                    f"{option} names a column of streams that have a file each, got {text!r} with one file: a trace calls it {option[2:]}"
                )
        return Input(read_trace(paths[0], key=key_columns(key, predicate, through), streams=named, time_unit=time_unit))
    found = _named(paths, named)
    columns = _columns(list(found), time=time, key=key, importance=importance, size=size, predicate=predicate, through=through)
    keys = [] if through else _keys(columns[0])
    read = read_streams(found, dict(zip(found, columns, strict=True)), key=keys, time_unit=time_unit)
    for stream, count in read.untimed.items():
        note(f"rows of {stream} without a time are left out, as on Spark: {count:,}")
    return Input(read.trace, read.row)


def _named(paths: Sequence[Path], names: Sequence[str] | None) -> dict[str, Path]:
    """The streams: by the names given, else by those of their files."""
    if names is not None and len(names) != len(paths):
        raise PenstockError(f"--streams must name each of the {len(paths)} files, got {', '.join(names)}")
    called = list(names or (path.resolve().name.removesuffix(path.suffix) for path in paths))
    twice = sorted({name for name in called if called.count(name) > 1})
    if twice:
        raise PenstockError(f"streams must have different names, got {twice[0]} more than once: name them by --streams")
    return dict(zip(called, paths, strict=True))


def _columns(
    streams: Sequence[str],
    *,
    time: str | None,
    key: str | None,
    importance: str | None,
    size: str | None,
    predicate: str,
    through: Sequence[Relation],
) -> list[dict[str, str]]:
    """For each stream, which column of the trace is which of its own; keys have the names of the first stream's."""
    from penstock.core.facts import Through
    from penstock.core.graph import Graph, is_graph

    times = by_stream(time or "time", "--time", streams, one=True)
    out = [{"time": own[0]} for own in times]
    if key is not None and (through or is_graph(predicate)):
        raise PenstockError(f"--key must be left out where links name the columns, got {key!r}")
    if through:
        for relation in through:
            for link in Through.parse(relation.called, relation.links, streams).links:
                out[link.stream][link.column] = link.column
    elif is_graph(predicate):
        graph = Graph.parse(predicate, streams, cross=True)
        for number, own in enumerate(out):
            own |= {name: name for name in graph.columns(number)}
    else:
        keys = by_stream(key or "key", "--key", streams)
        names = [f"key_{name}" if name in _TAKEN else name for name in keys[0]]
        for own, mine in zip(out, keys, strict=True):
            own |= dict(zip(names, mine, strict=True))
    for name, text in {"importance": importance, "size": size}.items():
        for own, mine in zip(out, by_stream(text, f"--{name}", streams, one=True) if text else (), strict=False):
            own[name] = mine[0]
    return out


def _keys(columns: dict[str, str]) -> list[str]:
    return [name for name in columns if name not in _TAKEN]


def by_stream(text: str, option: str, streams: Sequence[str], *, one: bool = False) -> list[list[str]]:
    """The columns of each stream: "a,b" for all alike, or "R=a,S=c" by stream; several of one stream as "R=a,R=b,S=c,S=d".

    >>> by_stream("zone", "--key", ["R", "S"]), by_stream("R=a,R=b,S=c,S=d", "--key", ["R", "S"])
    ([['zone'], ['zone']], [['a', 'b'], ['c', 'd']])
    """
    found: dict[str, list[str]] = {name: [] for name in streams}
    for part in words(text, option):
        stream, equals, column = (piece.strip() for piece in part.rpartition("="))
        if equals and stream not in found:
            raise PenstockError(f"{option} must name columns, or columns by stream ({', '.join(streams)}), got {part!r}")
        for name in [stream] if equals else streams:
            found[name].append(column)
    lengths = {len(columns) for columns in found.values()}
    if len(lengths) > 1 or lengths == {0} or (one and lengths != {1}):
        wanted = "one column" if one else "as many columns"
        raise PenstockError(f"{option} must name {wanted} for each of the streams {', '.join(streams)}, got {text!r}")
    return list(found.values())
