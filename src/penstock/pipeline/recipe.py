"""pipeline.toml, read and checked: all of its mistakes together, each under its key. Needs neither PySpark nor Java.

[spark]            where and how Spark runs
[sources.NAME]     where rows come from
[streams.NAME]     rows of a source as a side of the join
[relations.NAME]   facts that streams are joined through
[join]             ps.join
[sink]             where joined rows go
"""

from __future__ import annotations

import copy
import difflib
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.core.budget import Pools
from penstock.core.errors import PenstockError, choose
from penstock.core.graph import is_graph
from penstock.core.problem import Problem
from penstock.core.ticks import EVENT_TIME, in_ticks
from penstock.generator.zipf import Generator
from penstock.ledger.places import mixed
from penstock.ledger.store import folder_of, local_path
from penstock.pipeline.catalog import JOIN, RELATION, SINKS, SOURCES, SPARK, STREAM, Key, shown
from penstock.pipeline.relations import check_relations, linked
from penstock.pipeline.sql_words import unsteady
from penstock.policies.table import AUTO, open_policy
from penstock.shard.division import part_of
from penstock.shard.overhead import for_statistics, overhead_of
from penstock.shard.shard_plan import check_width
from penstock.shard.stream_window import NOT_GIVEN, check_lateness, check_shards, window_of, window_text
from penstock.statistics.table import open_running

SECTIONS = ("spark", "sources", "streams", "relations", "join", "sink")
ON_SPARK_ALONE = (
    "on",
    "shards",
    "condition",
    "archive",
    "shared",
    "given",
    "min_recall",
    "max_output_per_batch",
    "ghosts",
    "overhead",
    "ahead",
    "name",
    "trust",
)
"""Keys of [join] that the engine does not know."""
_ABOUT = {"stream of the predicate": "predicate", "window rows_per_key": "predicate", "switch ": "switches"}
NOT_FOR_GENERATE = ("kind", "ticks", "tick", "start", "ticks_per_batch", "rows_per_second")
"""Keys of a generator that are no arguments of `Generator`."""


class RecipeError(PenstockError):
    """A pipeline file with mistakes: one line for each in `mistakes`."""

    def __init__(self, mistakes: Iterable[str]) -> None:
        self.mistakes = list(mistakes)
        super().__init__("\n".join(self.mistakes))


@dataclass(frozen=True)
class Recipe:
    """A checked pipeline: what each section says, durations in microseconds, defaults filled in."""

    file: str
    spark: dict[str, Any]
    sources: dict[str, dict[str, Any]]
    streams: dict[str, dict[str, Any]]
    join: dict[str, Any]
    sink: dict[str, Any]
    relations: dict[str, dict[str, Any]] = field(default_factory=dict)

    def generator(self, name: str) -> Generator:
        """The generator of a source of that kind."""
        return Generator(**generator_arguments(self.sources[name]))


def read_recipe(file: Path | str, changes: Mapping[str, Any] | None = None) -> Recipe:
    """Read a pipeline file; `changes` replace what stands under dotted keys, such as {"join.memory": 500}."""
    try:
        text = Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise PenstockError(f"{str(file)!r} cannot be read: {reason}") from None
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise RecipeError([f"{file}: {_plain(error)}"]) from None
    return check_recipe(changed(found, changes or {}), str(file))


def check_recipe(found: Mapping[str, Any], file: str = "pipeline.toml") -> Recipe:
    """A recipe from what a file has, or an error with every mistake in it.

    >>> check_recipe({"sink": {"kind": "consle"}, "jion": {}})
    Traceback (most recent call last):
    ...
    penstock.pipeline.recipe.RecipeError: pipeline.toml: jion is no section of a pipeline (did you mean 'join'?)
    pipeline.toml: sources must be at least one table [sources.NAME], got nothing
    pipeline.toml: streams must be at least two tables [streams.NAME], got nothing
    pipeline.toml: join must be a table, got nothing
    pipeline.toml: sink.kind must be one of parquet, json, csv, console, memory, got 'consle' (did you mean 'console'?)
    """
    check = _Check()
    check.names("", found, SECTIONS, "section of a pipeline")
    spark = check.table("spark", found.get("spark", {}), SPARK)
    sources = {name: check.kind(f"sources.{name}", got, SOURCES) for name, got in check.many("sources", found, 1, "at least one table")}
    streams = {name: check.table(f"streams.{name}", got, STREAM) for name, got in check.many("streams", found, 2, "at least two tables")}
    join = check.table("join", found.get("join"), JOIN)
    sink = check.kind("sink", found.get("sink"), SINKS)
    tables = check.many("relations", {"relations": {}, **found}, 0, "tables")
    relations = {name: check.table(f"relations.{name}", got, RELATION) for name, got in tables}
    recipe = Recipe(file, spark, sources, streams, join, sink, relations)
    for rule in (_sources_and_streams, _windows, _keys, _generators, _paths, _given):
        check.mistakes += rule(recipe)
    if not check.mistakes:
        check.mistakes += _engine(recipe)
    if check.mistakes:
        raise RecipeError(f"{file}: {mistake}" for mistake in check.mistakes)
    return recipe


def changed(found: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """What a file has, with other values under some dotted keys.

    >>> changed({"join": {"memory": 100}}, {"join.memory": 50, "sink.kind": "console"})
    {'join': {'memory': 50}, 'sink': {'kind': 'console'}}
    """
    result = copy.deepcopy(dict(found))
    for path, value in changes.items():
        *tables, last = path.split(".")
        place = result
        for name in tables:
            inner = place.setdefault(name, {})
            if not isinstance(inner, dict):
                raise PenstockError(f"{path} cannot be set: {name} is no table")
            place = inner
        place[last] = value
    return result


def generator_arguments(source: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `Generator` in a source of that kind."""
    return {name: value for name, value in source.items() if name not in NOT_FOR_GENERATE}


class _Check:
    """Reads tables by the catalog and collects what is wrong."""

    def __init__(self) -> None:
        self.mistakes: list[str] = []

    def names(self, path: str, got: Iterable[str], known: Iterable[str], what: str) -> None:
        """Refuse names that nobody knows."""
        known = list(known)
        for name in got:
            if name not in known:
                near = difflib.get_close_matches(name.lower(), known, n=1)
                hint = f" (did you mean {near[0]!r}?)" if near else f"; there are {', '.join(known)}"
                self.mistakes.append(f"{path}{'.' if path else ''}{name} is no {what}{hint}")

    def many(self, path: str, found: Mapping[str, Any], least: int, wanted: str) -> list[tuple[str, Any]]:
        """The tables of a section that has several, by name."""
        got = found.get(path)
        if not isinstance(got, dict) or len(got) < least:
            some = "nothing" if got is None else f"only {', '.join(got) or 'an empty one'}" if isinstance(got, dict) else shown(got)
            self.mistakes.append(f"{path} must be {wanted} [{path}.NAME], got {some}")
        tables = list(got.items()) if isinstance(got, dict) else []
        for name, _ in tables:
            if not re.fullmatch(r"[A-Za-z_]\w*", name):
                self.mistakes.append(f"{path} must have names of letters, digits and _, got {shown(name)}")
        if path == "streams" and len({name.lower() for name, _ in tables}) < len(tables):  # they begin names of columns
            self.mistakes.append(f"{path} must have names that differ by more than their case, got {', '.join(got or ())}")
        return tables

    def kind(self, path: str, got: Any, kinds: Mapping[str, Mapping[str, Key]]) -> dict[str, Any]:
        """A table whose `kind` says which keys it has."""
        if not isinstance(got, dict):
            self.mistakes.append(f"{path} must be a table, got {'nothing' if got is None else shown(got)}")
            return {}
        if "kind" not in got:
            self.mistakes.append(f"{path}.kind must be one of {', '.join(kinds)}, got nothing")
            return {}
        try:
            kind = choose(f"{path}.kind", got["kind"], kinds)
        except PenstockError as error:
            self.mistakes.append(str(error))
            return {}
        rest = {name: value for name, value in got.items() if name != "kind"}
        return {"kind": kind} | self.table(path, rest, kinds[kind], f"key of a {kind} {path.partition('.')[0].removesuffix('s')}")

    def table(self, path: str, got: Any, keys: Mapping[str, Key], what: str = "") -> dict[str, Any]:
        """The values of a table. A key that is wrong is missing from them."""
        if not isinstance(got, dict):
            self.mistakes.append(f"{path} must be a table, got {'nothing' if got is None else shown(got)}")
            return {}
        self.names(path, got, keys, what or f"key of [{path.partition('.')[0]}]")
        values: dict[str, Any] = {}
        for name, key in keys.items():
            if name not in got and not key.needed:
                values[name] = key.default
                continue
            try:
                values[name] = key.read(f"{path}.{name}", got.get(name))
            except PenstockError as error:
                self.mistakes.append(str(error).replace("got None", "got nothing"))
        return values


def _sources_and_streams(recipe: Recipe) -> list[str]:
    """Every stream has a source that is there, and every source is used."""
    wrong = []
    for name, stream in recipe.streams.items():
        source = stream.get("source")
        if source is not None and source not in recipe.sources:
            try:
                choose(f"streams.{name}.source", source, recipe.sources)
            except PenstockError as error:
                wrong.append(str(error))
    used = {stream.get("source") for stream in recipe.streams.values()}
    return wrong + [
        f"sources.{name} must be used by a stream, got none with source = {shown(name)}" for name in recipe.sources.keys() - used
    ]


def _windows(recipe: Recipe) -> list[str]:
    """Every stream has a window, in time or in rows, and not both."""
    wrong = []
    for name, stream in recipe.streams.items():
        if not {"window", "rows_per_key", "lifetime", "lateness"} <= stream.keys():
            continue
        window, rows, mortal = stream["window"], stream["rows_per_key"], stream["lifetime"] is not None
        try:
            given = NOT_GIVEN if window is None else window_text(window)
            window = window_of(given, rows, f"streams.{name}.window", mortal=mortal)
            check_lateness(window, stream["lateness"], f"streams.{name}.lateness")
        except PenstockError as error:
            wrong.append(str(error))
    return wrong


def _keys(recipe: Recipe) -> list[str]:
    """Every stream knows its key columns, as many as the others; where links name columns, none has any."""
    if "on" not in recipe.join or "predicate" not in recipe.join:
        return []
    if recipe.relations or recipe.join.get("through"):
        return check_relations(recipe.relations, recipe.join, recipe.streams)
    on = recipe.join["on"]
    if is_graph(recipe.join["predicate"]):
        named = {"join.on": on} | {f"streams.{name}.key": stream.get("key") for name, stream in recipe.streams.items()}
        told = "must be left out where join.predicate names the linked columns"
        return [f"{key} {told}, got {shown(own)}" for key, own in named.items() if own]
    keys = {name: stream["key"] or on for name, stream in recipe.streams.items() if "key" in stream}
    without = [name for name, key in keys.items() if key is None]
    if without:
        return [f"join.on must name the key columns, got nothing, and streams.{without[0]} has no key of its own"]
    twice = [name for name, key in keys.items() if len({column.lower() for column in key}) < len(key)]
    if twice:
        which = f"streams.{twice[0]}.key" if recipe.streams[twice[0]]["key"] else "join.on"
        return [f"{which} must name each column once, got {shown(keys[twice[0]])}"]
    if len({len(key) for key in keys.values()}) > 1:
        counts = ", ".join(f"{len(key)} for {name}" for name, key in keys.items())
        return [f"join.on must have as many columns as the key of each stream, got {counts}"]
    return []


def _generators(recipe: Recipe) -> list[str]:
    """What a generator cannot make, and what would never end."""
    wrong = []
    for name, source in recipe.sources.items():
        if source.get("kind") != "generator" or "streams" not in source:
            continue
        try:
            recipe.generator(name)
        except PenstockError as error:
            wrong.append(f"sources.{name}.{error}")
        endless = source.get("ticks", 1) is None
        if endless and "availableNow" in (recipe.sink.get("trigger") or {}):
            wrong.append(f'sources.{name}.ticks must be a number of ticks, because sink.trigger is "available now", got nothing')
        elif endless and source.get("ticks_per_batch", 1) is None and source.get("rows_per_second", 1) is None:
            wrong.append(f"sources.{name}.rows_per_second or ticks_per_batch must be given where ticks is not, got nothing")
    return wrong


def _paths(recipe: Recipe) -> list[str]:
    """Local files that are read must be there; no place has two purposes, nor lies inside another."""
    wrong = []
    for name, source in recipe.sources.items():
        path = source.get("path")
        local = None if path is None else local_path(path)
        if local is not None and not re.search(r"[*?\[{]", local) and not Path(local).exists():
            wrong.append(f"sources.{name}.path must be a file or folder that is there, got {shown(path)}")
    read = {f"sources.{name}.path": [source["path"]] for name, source in recipe.sources.items() if source.get("path")}
    ours = {
        "sink.path": recipe.sink.get("path"),
        "sink.checkpoint": recipe.sink.get("checkpoint"),
        "join.archive": recipe.join.get("archive"),
        "join.shared": recipe.join.get("shared") or None,
    }
    for number, (key, place) in enumerate(ours.items()):
        written = {name: [other] for name, other in list(ours.items())[:number] if other is not None}
        wrong += mixed({key: place}, read | written)
    return wrong


def _given(recipe: Recipe) -> list[str]:
    """A file of rates is there where statistics are given, and nowhere else."""
    if not {"given", "stats"} <= recipe.join.keys():
        return []
    file, stats = recipe.join["given"], recipe.join["stats"]
    if (file is None) == (stats == "given"):
        return [f'join.given must be a file of rates exactly where join.stats is "given", got {shown(file or "nothing")}']
    local = None if file is None else local_path(file)
    missing = file is not None and (local is None or not Path(local).is_file())
    return [f"join.given must be a file on this machine that is there, got {shown(file)}"] if missing else []


def has_importance(recipe: Recipe) -> bool:
    """Whether a stream of a pipeline gives its rows an importance."""
    return any(stream["importance"] is not None for stream in recipe.streams.values())


def _window(stream: Mapping[str, Any]) -> int | str:
    """The window of a stream, in time or in rows; without end where its rows have lifetimes of their own, and it has none beside them."""
    rows = stream["rows_per_key"]
    return stream["window"] or ("none" if rows is None else f"rows_per_key:{rows}")


def _engine(recipe: Recipe) -> list[str]:
    """What the engine and the policy refuse."""
    options = {name: value for name, value in recipe.join.items() if value is not None and name not in ON_SPARK_ALONE}
    options["through"] = through = linked(recipe.relations, recipe.join, recipe.streams)
    weighed = has_importance(recipe) or any(one.weighted for one in through)
    policy = options.pop("policy", None) or AUTO
    options.setdefault("stats", "decayed")
    windows = {name: _window(stream) for name, stream in recipe.streams.items()}
    options["window"] = windows
    options["has_lifetime"] = [stream["lifetime"] is not None for stream in recipe.streams.values()]
    try:
        folder_of(recipe.join["archive"])
        folder_of(recipe.join["shared"] or None, "shared")
        _check_condition(recipe)
        alone = check_shards(windows, recipe.join.get("shards")) or is_graph(recipe.join["predicate"]) or len(through) > 1
        shards = recipe.join.get("shards") or (1 if alone else _cores(recipe.spark.get("master")))
        options |= in_ticks(EVENT_TIME, memory=recipe.join["memory"])
        budget = Pools.parse(options["memory"], tuple(recipe.streams), allocation=recipe.join.get("allocation") or "variable")
        if shards is not None:
            part_of(budget, tuple(recipe.streams), shards)
        overhead = overhead_of(recipe.join.get("overhead"), budget, shards or 1)
        room = None if shards is None else for_statistics(overhead)  # elsewhere Spark says how many shards there are
        problem = Problem.of(tuple(recipe.streams), clock="streams", has_importance=weighed, **options)
        for stream in recipe.streams.values() if not through else ():
            check_width(problem.predicate, stream["key"] or recipe.join["on"] or ())
        chosen = open_policy(policy, problem, room=room)
        if "importance" in chosen.needs and not weighed and policy != AUTO:
            raise PenstockError(
                f"policy {policy!r} goes by importance, got no stream that has it; say streams.NAME.importance or use 'prob'"
            )
        open_running(problem, chosen, room)
    except PenstockError as error:
        said = str(error)
        about = [key for words, key in _ABOUT.items() if said.startswith(words)]
        known = re.match(r"\w+", said)
        return [f"join.{about[0]}: {said}" if about else f"join.{said}" if known and known[0] in JOIN else f"join: {said}"]
    return []


def _cores(master: str | None) -> int | None:
    """The shards that Spark would take on this machine, one for each core that it may use; None where it runs elsewhere."""
    found = re.fullmatch(r"local(?:\[(\d+|\*)(?:,.*)?\])?", master or "local[*]")
    if found is None:
        return None
    return os.cpu_count() if found[1] == "*" else int(found[1] or 1)


def _check_condition(recipe: Recipe) -> None:
    """Whether a condition, by its words, may give another result when it is evaluated again."""
    keys = [*(recipe.join["on"] or ()), *(name for stream in recipe.streams.values() for name in stream["key"] or ())]
    condition = recipe.join["condition"]
    trouble = None if condition is None else unsteady(condition, keys, archived=recipe.join["archive"] is not None)
    if trouble is not None:
        raise PenstockError(f"condition {trouble}")


def _plain(error: Exception) -> str:
    said = str(error)
    return said[:1].lower() + said[1:]
