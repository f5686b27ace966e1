"""Pipeline files: every mistake is found before Spark starts, and named by its key."""

from __future__ import annotations

import copy
import datetime as dt
import re
import subprocess
import sys
from inspect import signature
from typing import Any

import pytest

import penstock as ps
from penstock.cli import run
from penstock.experiments.demo import SAMPLE
from penstock.generator.zipf import Generator
from penstock.pipeline.catalog import JOIN, RELATION, SINKS, SOURCES, SPARK, STREAM
from penstock.pipeline.recipe import RecipeError, changed, check_recipe, read_recipe
from places import ROOT
from policy_kinds import BY_COUNT, LEARNING, NEEDS_BOUND, ON_STATS, WEIGHED
from recipes import FILES, GOOD


def mistakes(changes: dict[str, Any], found: dict[str, Any] = GOOD) -> list[str]:
    try:
        check_recipe(changed(found, changes))
    except RecipeError as error:
        return [mistake.removeprefix("pipeline.toml: ") for mistake in error.mistakes]
    return []


def test_a_good_file_has_durations_in_microseconds_and_defaults():
    recipe = check_recipe(GOOD)
    assert recipe.streams["v"]["window"] == 600_000_000
    assert recipe.streams["o"] == recipe.streams["o"] | {"window": "none", "lateness": 1_500_000, "key": ["key"], "where": None}
    assert recipe.join["name"] == "penstock" and recipe.join["on"] == ["key"] and recipe.join["policy"] is None
    assert recipe.sources["shop"]["keys"] == 50 and recipe.sink["trigger"] == {}


def test_windows_and_memories_of_every_kind_can_be_said():
    moments = [dt.datetime(2024, 1, 1, tzinfo=dt.UTC), dt.datetime(2024, 2, 1)]
    steps = [[at, size] for at, size in zip(moments, ("10 minutes", "5 minutes"), strict=True)]
    for given, window in (
        ("tumbling:10 minutes", "tumbling:600000000"),
        ("landmark:2024-01-01 00:00:00", "landmark:1704067200000000"),
        (steps, "1704067200000000:600000000,1706745600000000:300000000"),
        ("2024-01-01:10 minutes,2024-02-01:5 minutes", "1704067200000000:600000000,1706745600000000:300000000"),
    ):
        assert check_recipe(changed(GOOD, {"streams.v.window": given})).streams["v"]["window"] == window
    mortal = {"source": "shop", "time": "time", "lifetime": "interval 5 minutes"}
    recipe = check_recipe(GOOD | {"streams": GOOD["streams"] | {"v": mortal}})
    assert recipe.streams["v"]["lifetime"] == "interval 5 minutes" and recipe.streams["v"]["window"] is None
    sizes = [[at, rows] for at, rows in zip(moments, (100, 50), strict=True)]
    for memory in (sizes, {"v": sizes, "o": 30}, "2024-01-01:100,2024-02-01:50", {"v": "2024-01-01:100,2024-02-01:50", "o": 30}):
        assert check_recipe(changed(GOOD, {"join.memory": memory})).join["memory"] == memory


def test_a_policy_without_statistics_needs_no_half_life():
    for policy in ps.POLICIES:
        if policy in (*ON_STATS, *BY_COUNT, *NEEDS_BOUND, *LEARNING):  # o has a window that nothing leaves
            continue
        weighed = {"streams.v.importance": "1.5"} if policy in WEIGHED else {}
        assert mistakes({"join": {"on": "key", "memory": 100, "policy": policy}} | weighed) == []
        counting = {f"streams.{name}": {"source": "shop", "time": "time", "rows_per_key": 3} for name in "vo"}
        assert mistakes({"join": {"on": "key", "memory": 100, "policy": policy}} | counting | weighed) == []


def test_the_default_policy_is_that_of_a_join():
    """Which asks for no statistics, and so for no half-life, where no window ends; others are refused with what a pipeline has."""
    endless = {"join": {"on": "key", "memory": 100}, "streams.v.window": "none"}
    linked = {"join": {"memory": 100, "predicate": ["v.key <= o.key"]}, "streams.v.window": "none", "streams.o": {**GOOD["streams"]["o"]}}
    del linked["streams.o"]["key"]
    for own in (endless, linked, endless | {"streams.o": GOOD["streams"]["o"] | {"lateness": "0 s", "window": "rows:5"}}):
        assert mistakes(own) == mistakes(own | {"streams.v.importance": "1.5"}) == []
    for policy in ("prob", "learned"):
        (found,) = mistakes({**endless, "join": {**endless["join"], "policy": policy}})
        assert found.startswith("join.half_life must be given") and "--" not in found and "'auto'" in found


WRONG = {
    "unknown section": ({"jion": {}}, "jion is no section of a pipeline (did you mean 'join'?)"),
    "unknown key": ({"streams.v.windw": "1 hour"}, "streams.v.windw is no key of [streams] (did you mean 'window'?)"),
    "key of another kind": ({"sources.shop.path": "x"}, "sources.shop.path is no key of a generator source"),
    "duration": ({"streams.v.window": 10}, 'streams.v.window must be a duration such as "10 minutes" above 0, got 10'),
    "rates that are not given": ({"join.stats": "given"}, 'join.given must be a file of rates exactly where join.stats is "given"'),
    "rates for others": ({"join.given": "rates.csv"}, 'join.given must be a file of rates exactly where join.stats is "given"'),
    "no file of rates": ({"join.stats": "given", "join.given": "rates.csv"}, "join.given must be a file on this machine that is there"),
    "a lifetime beside rows": (
        {"streams.v.window": "rows:5", "streams.v.lifetime": "interval 5 minutes"},
        "streams.v.window must not count rows where each has a lifetime of its own",
    ),
    "windows that go back": (
        {"streams.v.window": "2024-02-01:10 minutes,2024-01-01:5 minutes"},
        "streams.v.window over time must have rising times",
    ),
    "tumbling": ({"streams.v.window": "tumbling:10"}, 'streams.v.window must be a duration such as "10 minutes" above 0, got \'10\''),
    "landmark": ({"streams.v.window": "landmark:noon"}, 'streams.v.window must be a time such as "2024-01-01 12:00:00", in UTC'),
    "unit": ({"streams.v.lateness": "3 fortnights"}, 'streams.v.lateness must be a duration such as "10 minutes", got \'3 fortnights\''),
    "comparison": ({"join.predicate": "~"}, "join.predicate must be one of =, !=, <, <=, >, >=,"),
    "comparison of two columns": (
        {"join.predicate": "<", "join.on": ["key", "n"], "streams.o.key": ["key", "n"]},
        "join.predicate '<' compares one key column, got key, n; links compare several",
    ),
    "a stream that is not there": (
        {"join": {"memory": 9, "predicate": ["v.key = q.key"]}, "streams.o": GOOD["streams"]["v"]},
        "join.predicate: stream of the predicate must be one of v, o, got 'q'",
    ),
    "switches": ({"join.switches": {"foo": "bar"}}, "join.switches: switch must be one of"),
    "shared": ({"join.shared": "a*b"}, "join.shared must be a folder or URL without any of {}[]*?\\ in it, got 'a*b'"),
    "shared and archive": ({"join.shared": "there", "join.archive": "there"}, "join.shared"),
    "archive": ({"join.archive": "a*b"}, "join.archive must be a folder or URL without any of {}[]*?\\ in it, got 'a*b'"),
    "chance": ({"join.condition": "rand() < 0.5"}, "join.condition must be deterministic, because a batch that is played again"),
    "the time of now": (
        {"join.condition": "v_time > current_date", "join.archive": "archive"},
        "join.condition must not depend on 'current_date' with archive=",
    ),
    "trust": ({"join.trust": "yes"}, 'join.trust must be true or false, got "yes"'),
    "no links": ({"join.predicate": 3}, "join.predicate must be a comparison such as"),
    "links and keys": (
        {"join": {"memory": 9, "predicate": ["v.key = o.key"]}},
        "streams.o.key must be left out where join.predicate names the linked columns",
    ),
    "cross": ({"join.cross": True}, "join.cross=True lets the parts of a join graph match freely and needs links"),
    "promise": ({"streams.v.matches": 0}, "streams.v.matches must be a whole number >= 1, got 0"),
    "two windows": ({"streams.v.rows_per_key": 3}, "streams.v.window must be left out where rows_per_key is given"),
    "no window": ({"streams.v": {"source": "shop", "time": "time"}}, "streams.v.window must be a duration"),
    "rows and shards": ({"streams.v.window": "rows:5", "join.shards": 3, "join.half_life": "5 s"}, "join.shards must be 1"),
    "rows and statistics": ({"join": {"on": "key", "memory": 100, "policy": "prob"}}, "join.half_life must be given where a window is not"),
    "rows and lateness": ({"streams.o.window": "rows:5"}, "streams.o.lateness must be 0 where a window counts rows"),
    "missing key": ({"streams.v": {"source": "shop", "window": "none"}}, "streams.v.time must be the name of a column, got nothing"),
    "no such source": ({"streams.v.source": "shpo"}, "streams.v.source must be one of shop, got 'shpo' (did you mean 'shop'?)"),
    "unused source": ({"sources.idle": {"kind": "rate"}}, 'sources.idle must be used by a stream, got none with source = "idle"'),
    "kind of source": ({"sources.shop.kind": "kafak"}, "sources.shop.kind must be one of parquet, json, csv, generator, rate, got 'kafak'"),
    "no kind": ({"sink": {}}, "sink.kind must be one of parquet, json, csv, console, memory, got nothing"),
    "no table": ({"join": 3}, "join must be a table, got 3"),
    "name": ({"sources.a b": {"kind": "rate"}, "streams.v.source": "a b"}, 'sources must have names of letters, digits and _, got "a b"'),
    "one stream": ({"streams": {"v": GOOD["streams"]["v"]}}, "streams must be at least two tables [streams.NAME], got only v"),
    "memory": ({"join.memory": "lots"}, 'join.memory must be a positive number of rows, a size such as "512 MB", or a table'),
    "overhead": ({"join.overhead": 256}, 'join.overhead must be a size such as "256 MB", got 256'),
    "overhead of bytes": ({"join.memory": "1 MB", "join.overhead": "2 MB"}, "join.overhead is a part of a memory in bytes and must be at"),
    "memory of a stranger": ({"join.memory": {"v": 5, "x": 5}}, "join.memory must"),
    "policy": ({"join.policy": "porb"}, "did you mean 'prob'?"),
    "stats": ({"join.stats": "whole"}, "join.stats must be one of window, decayed, sketch, given, got 'whole'"),
    "policy without a window": ({"join.policy": "life"}, "join.policy 'life' needs a window that tuples leave, stream o has 'none'"),
    "no key": ({"join": {"memory": 5}}, "join.on must name the key columns, got nothing, and streams.v has no key of its own"),
    "unequal keys": ({"join.on": ["a", "b"]}, "join.on must have as many columns as the key of each stream, got 2 for v, 1 for o"),
    "too many shards": ({"join.shards": 10**9}, "join.shards must be at most 10,000, got 1,000,000,000: each shard has an engine and a"),
    "fewer rows than cores": ({"join.memory": 1, "spark.master": "local[4]"}, "join.memory must hold at least one row per shard (4)"),
    "importance": (
        {"join.policy": "dgl", "streams.o.window": "5 s"},
        "join.policy 'dgl' goes by importance, got no stream that has it; say streams.NAME.importance or use 'prob'",
    ),
    "unknown store": ({"join.archive": "s4://a/b"}, "join.archive must be a folder, or a URL of one of file, s3, s3a,"),
    "no shard": ({"join.shards": 0}, "join.shards must be a whole number >= 1, got 0"),
    "max_output": ({"join.max_output_per_batch": 0}, "join.max_output_per_batch must be a number of rows >= 1, got 0"),
    "min_recall": ({"join.min_recall": 90}, "join.min_recall must be a number above 0 and up to 1"),
    "action": ({"join.min_recall": {"recall": 0.9, "action": "fial"}}, "join.min_recall.action must be one of warn, fail"),
    "ahead": ({"join.ahead": "soon"}, "join.ahead must be a duration such as"),
    "what is done ahead": ({"join.ahead": {"limit": "1 day", "action": "fial"}}, "join.ahead.action must be one of wait, drop, got 'fial'"),
    "generator": ({"sources.shop.skew": [1, 2, 3]}, "sources.shop.skew must be a number >= 0 or one per stream, got [1, 2, 3]"),
    "burst": ({"sources.shop.burst": "5"}, "sources.shop.burst must be period:length:factor"),
    "start": ({"sources.shop.start": "2026-01-01"}, "sources.shop.start must be a time such as 2026-01-31T12:00:00Z, without quot"),
    "trigger": ({"sink.trigger": "daily"}, 'sink.trigger must be "available now", "as soon as possible" or "processing time 5 seconds"'),
    "trigger without a length": ({"sink.trigger": "processing time 5"}, 'sink.trigger must be a duration such as "10 minutes" above 0'),
    "a list for a trigger": ({"sink.trigger": ["available now"]}, 'sink.trigger must be "available now", "as soon as possible" or'),
    "too short a trigger": ({"sink.trigger": "processing time 0.1 ms"}, 'sink.trigger must be a duration such as "10 minutes" above 0'),
    "a number for a name": ({"join.name": 5}, "join.name must be made of letters, digits, '_', '-' and '.', got 5"),
    "a name of dots": ({"join.name": ".."}, 'join.name must be more than dots, which are folders, got ".."'),
    "overhead without room": ({"join.overhead": "1 B"}, "join.overhead must be at least 64 KB for each shard"),
    "a name with an umlaut": ({"join.name": "größe"}, 'join.name must be made of letters, digits, \'_\', \'-\' and \'.\', got "größe"'),
    "a key twice": ({"join.on": ["key", "Key"], "streams.o.key": ["key", "n"]}, 'join.on must name each column once, got ["key", "Key"]'),
    "a key of its own twice": ({"streams.o.key": ["n", "n"]}, 'streams.o.key must name each column once, got ["n", "n"]'),
    "one place by two ways": ({"sink": FILES["sink"] | {"checkpoint": "./x/../out"}}, "sink.checkpoint must be another place"),
    "streams alike": ({"streams.V": GOOD["streams"]["v"]}, "streams must have names that differ by more than their case, got v, o, V"),
    "no end": (
        {"sources.shop": {"kind": "generator", "streams": ["v", "o"]}, "sink.trigger": "available now"},
        'sources.shop.ticks must be a number of ticks, because sink.trigger is "available now", got nothing',
    ),
    "no pace": ({"sources.shop": {"kind": "generator", "streams": ["v", "o"]}}, "sources.shop.rows_per_second or ticks_per_batch must be"),
    "no checkpoint": ({"sink": {"kind": "json", "path": "x"}}, "sink.checkpoint must be the path of a file or folder, got nothing"),
    "one place for two": ({"sink": FILES["sink"] | {"checkpoint": "out/"}}, 'sink.checkpoint must be another place than sink.path, got "o'),
    "no such URL": ({"sources.shop": {"kind": "csv", "path": "file:///no/where"}}, "sources.shop.path must be a file or folder that is"),
    "no such type": (
        {"sources.shop": {"kind": "csv", "path": ".", "schema": "ts timestmp"}},
        "sources.shop.schema: the type of ts must be one of string, ",
    ),
    "no such folder": ({"sources.shop": {"kind": "csv", "path": "no/where"}}, "sources.shop.path must be a file or folder that is there"),
    "settings": ({"spark": {"settings": {"a": []}}}, "spark.settings must be a table of texts, numbers and true or false, got {a = []}"),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "said"), WRONG.values(), ids=WRONG)
def test_a_mistake_is_named_by_its_key_and_is_the_only_one(changes, said):
    (found,) = mistakes(changes)
    assert said in found


def test_all_mistakes_are_reported_together():
    found = mistakes({"streams.v.window": 10, "streams.o.time": 5, "join.policy": "best", "sink.kind": "sqlite", "spark": {"mastre": "x"}})
    assert [mistake.split()[0] for mistake in found] == ["spark.mastre", "streams.v.window", "streams.o.time", "join.policy", "sink.kind"]


def test_no_value_makes_the_check_fall_over():
    for odd in (True, -1, 1.5, "", [], {}, [1]):
        for section, keys in (("streams.v", STREAM), ("join", JOIN), ("sources.shop", SOURCES["generator"]), ("sink", SINKS["memory"])):
            for name in keys:
                assert all(mistake.startswith((section, "sources", "join", "streams")) for mistake in mistakes({f"{section}.{name}": odd}))


def test_a_generator_source_takes_whatever_the_generator_takes():
    assert set(signature(Generator).parameters) <= set(SOURCES["generator"])
    assert check_recipe(changed(GOOD, {"sources.shop.drift": 30})).generator("shop").drift == 30
    assert check_recipe(GOOD).generator("shop").drift is None


def test_a_file_that_is_no_toml_is_told_with_its_line(tmp_path):
    file = tmp_path / "p.toml"
    file.write_text("[join\nmemory = 3")
    with pytest.raises(RecipeError, match=r"p\.toml: .*line 1"):
        read_recipe(file)
    with pytest.raises(ps.PenstockError, match="cannot be read"):
        read_recipe(tmp_path / "none.toml")


def test_check_prints_a_line_per_mistake_and_leaves_with_2(tmp_path, capsys):
    file = tmp_path / "p.toml"
    file.write_text(SAMPLE.read_text().replace('window = "2 minutes"', "window = 2"))
    assert run(["run", str(file), "--check"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [re.search(r"streams\.\w+\.window must be", line) is not None for line in lines] == [True, True]
    assert all(line.startswith(f"penstock: {file}: ") for line in lines)


def test_the_sample_has_no_mistakes_and_check_does_not_load_spark():
    code = f"""
import sys
from penstock.cli import run
status = run(["run", {str(SAMPLE)!r}, "--check", "--set", "join.memory=5", "--set", "join.policy=life"])
sys.exit(status or 10 * ("pyspark" in sys.modules))
"""
    assert subprocess.run([sys.executable, "-c", code], check=False, capture_output=True).returncode == 0
    assert (ROOT / "examples" / "demo.toml").read_text() == SAMPLE.read_text()


def test_every_key_stands_in_the_documentation():
    text = (ROOT / "docs" / "pipelines.md").read_text()
    tables = [SPARK, STREAM, RELATION, JOIN, *SOURCES.values(), *SINKS.values()]
    names = {name for table in tables for name in table} | {*SOURCES, *SINKS}
    assert sorted(name for name in names if f"`{name}`" not in text) == []


def test_changes_leave_what_they_were_made_from():
    before = copy.deepcopy(GOOD)
    changed(GOOD, {"join.memory": 5, "new.table.key": 1})
    assert before == GOOD
    with pytest.raises(ps.PenstockError, match=r"join\.memory\.x cannot be set: memory is no table"):
        changed(GOOD, {"join.memory.x": 5})


def test_every_source_and_sink_of_the_catalog_can_be_opened():
    """The two tables are in two rooms, because a file is checked without Spark."""
    pytest.importorskip("pyspark")
    from penstock.spark.pipeline import query

    assert set(query.SOURCES) == set(SOURCES) and set(query.SINKS) == set(SINKS)


def test_mistakes_about_relations_are_named_by_their_keys(tmp_path):
    (tmp_path / "pairs.csv").write_text("a,b\n1,2\n")
    zones = {"source": str(tmp_path / "pairs.csv"), "links": ["v.key = a", "b = o.key"]}
    sides = {name: {key: value for key, value in side.items() if key != "key"} for name, side in GOOD["streams"].items()}
    good = GOOD | {"streams": sides, "relations": {"zones": zones}, "join": {"memory": 100, "through": "zones", "half_life": "5 minutes"}}
    recipe = check_recipe(good)
    assert recipe.join["through"] == ["zones"] and recipe.relations["zones"] == zones | recipe.relations["zones"]
    late = check_recipe(changed(good, {"relations.zones.lateness": "1 hour"}))
    assert (late.relations["zones"]["lateness"], recipe.relations["zones"]["lateness"]) == (3_600_000_000, 0)
    for changes, said in (
        ({"join.through": "zonse"}, "join.through must be one of zones, got 'zonse' (did you mean 'zones'?)"),
        ({"join.on": "key"}, 'join.on must be left out where join.through names relations, got ["key"]'),
        ({"streams.o.key": "key"}, 'streams.o.key must be left out where join.through names relations, got ["key"]'),
        ({"relations.zones.source": "pairs.parquet"}, "relations.zones.source must be a file that is there, or an address (duckdb:"),
        ({"relations.zones.links": ["v.key = a", "b = w.key"]}, "relations: stream in the links of relation zones must be one of v, o"),
        ({"relations.zones.source": "postgresql://me:pw@h/d#t"}, "relations.zones.source: the address of a relation must have no pass"),
        ({"relations.zones.source": "feed:changes.jsonl"}, "relations.zones.source must not be a feed, got"),
        ({"relations.zones.lateness": "soon"}, "relations.zones.lateness must be a duration"),
        ({"relations.zones.begins": "t"}, "relations.zones.begins is no key of [relations]"),
        ({"join.policy": "ep"}, "join"),
        ({"join.stats": "sketch"}, "join.stats must be decayed, window or whole in a join through relations"),
    ):
        assert mistakes(changes, good)[0].startswith(said), mistakes(changes, good)
