"""Conditions: what gives something else later is refused, and what an archive brings is evaluated only if it is listed."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

import penstock as ps
from ledgers import a_checkpoint
from shards import BATCHES, owed, plan_of, shards_of, write

pytest.importorskip("pyspark")

from held_shards import plan
from penstock.ledger.ledger import Ledger, find
from penstock.ledger.settled_marks import marks
from penstock.pipeline.sql_functions import KEYWORDS, PASSING, RANDOM, STEADY
from penstock.pipeline.sql_words import unsteady
from penstock.shard.state.state_settings import check_settings, settings
from penstock.spark.join.condition import _strange_words, check_harmless
from penstock.spark.join.condition_settings import ANSI, ZONE
from sparks import ON_SPARK, SCHEMA, at, bag_of_members, joined
from strategies import later

on_spark = [*ON_SPARK]
COLUMNS = ["k", "l_v", "r_ts", "user"]
STRANGE = (
    "reflect('java.lang.System', 'exit', '1') is null",
    "java_method('java.util.UUID', 'randomUUID') > l_v",
    "try_reflect('a', 'b') is null",
    "exists (select 1)",
    "l_v in (select id from range(3))",
    "(select max(id) from range(3)) > 1",
    "my_function(l_v)",
    "db.my_function(l_v)",
    "input_file_name() = ''",
    "current_user() = 'me'",
    "session_user = 'me'",
    "r_ts > current_timestamp",
    "r_ts > now()",
    "r_ts > timestamp 'now'",
    "r_ts > date'today'",
    "r_ts > cast('tomorrow' as timestamp)",
    "to_date('yesterday') < r_ts",
    "unix_timestamp() > 1",
    "rand() < 0.5",
    "uuid() > l_v",
    "raise_error('x') is null",
    "assert_true(false) is null",
    'from_json(l_v, \'{"type":"udt"}\') is null',
    "nobody > 1",
    "version() = ''",
    "row_number() over (order by l_v) > 1",
    "`reflect`('a', 'b') is null",
    "identifier('l_v') = 1",
)
HARMLESS = (
    "l_v % 3 = 0 and not k in ('a', 'b') or user is null",
    "case when l_v > 1 then k like 'a%' else upper(k) rlike '[a-z]' end",
    "exists(split(k, ','), x -> length(x) > 1)",
    "year(r_ts) between 2020 and 2030 and r_ts > timestamp_seconds(l_v)",
    "cast(l_v as string) <=> k and coalesce(l_v, 0) + 1 > abs(l_v)",
    "l_v is not null",
)


def test_the_lists_do_not_contradict_each_other():
    assert not STEADY & (PASSING | RANDOM) and not KEYWORDS & (PASSING | RANDOM) and not KEYWORDS & {"select", "with", "table", "values"}


@pytest.mark.parametrize("condition", STRANGE)
def test_the_words_alone_find_what_is_strange(condition):
    assert next(_strange_words(condition, COLUMNS), None) is not None


@pytest.mark.parametrize("condition", HARMLESS)
def test_the_words_alone_let_harmless_conditions_pass(condition):
    assert next(_strange_words(condition, COLUMNS), None) is None


@pytest.mark.parametrize(
    "hidden", ("-- '\n reflect('a') -- '", "k = '\\' or reflect('a') = '", "k = r'\\' or reflect('a') = '", "/* */ k = 1")
)
def test_what_could_hide_a_call_is_strange(hidden):
    assert next(_strange_words(hidden, COLUMNS), None) is not None


@pytest.mark.parametrize(
    ("condition", "archived", "found"),
    (
        ("rand() < 0.5", False, "deterministic"),
        ("UUID () = k", False, "deterministic"),
        ("k = 'rand()'", True, None),
        ("r_ts > current_timestamp()", False, None),
        ("r_ts > current_timestamp()", True, "'current_timestamp' with archive="),
        ("r_ts > CURRENT_DATE", True, "'current_date' with archive="),
        ("user = 'me'", True, None),
        ("session_user = 'me'", True, "'session_user'"),
        ("unix_timestamp() > 1", True, "'unix_timestamp'"),
        ("unix_timestamp(r_ts) > 1", True, None),
        ("r_ts < timestamp 'now'", True, "'now'"),
        ("r_ts < timestamp 'now'", False, None),
        ("r_ts < 'now'", True, "'now'"),
        ('r_ts < " NOW "', True, "'now'"),
        ("to_date(r_ts) < date'today'", True, "'today'"),
        ("r_ts < cast('Tomorrow UTC' as timestamp)", True, "'tomorrow'"),
        ("k = 'nowhere' or k = 'now and then it is so'", True, None),
        ("rand/**/() < 1", False, "deterministic"),
        ("rand/* ( */ /* ' */ ( ) < 1", False, "deterministic"),
        ("rand-- ' x\n() < 1", False, "deterministic"),
        ("k = '--' and rand() < 1", False, "deterministic"),
        ("k = '/*' and rand() < 1 or k = '*/'", False, "deterministic"),
        ("k = r'\\' or rand() < 1 or k = ''", False, "deterministic"),
        ("unix_timestamp(/* now */) > 1", True, "'unix_timestamp'"),
        ("l_v > 1 -- rand()", False, None),
        ("r_ts < current_timestamp/**/()", True, "'current_timestamp'"),
        ("identifier('rand')() < 1", False, "identifier"),
        ("IDENTIFIER /**/ ('l_v') < 1", False, "identifier"),
        ("aes_encrypt(k, '0000111122223333') is not null", False, "deterministic"),
    ),
)
def test_what_a_check_without_spark_finds(condition, archived, found):
    told = unsteady(condition, COLUMNS, archived=archived)
    assert (told is None) if found is None else (told is not None and found in told)


class TestOnSpark:
    """With Spark's own parser."""

    pytestmark = on_spark

    @pytest.mark.slow
    @pytest.mark.parametrize("condition", STRANGE)
    def test_what_is_strange_is_not_evaluated_for_an_archive(self, spark, condition):
        with pytest.raises(ps.PenstockError, match=r"the archive has a condition with .* trust=True"):
            check_harmless(spark, condition, COLUMNS)

    @pytest.mark.parametrize("condition", HARMLESS)
    def test_what_is_listed_is(self, spark, condition):
        check_harmless(spark, condition, COLUMNS)
        check_harmless(spark, f"({condition}) and k <> 'now'", COLUMNS)  # a text, where no time is wanted

    def frames(self, spark: Any) -> list[Any]:
        return [spark.createDataFrame([(at(0), "a", "1")], SCHEMA)] * 2

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "condition",
        (
            "rand() < 0.5",
            "uuid() > l_v",
            "l_v > 1 and shuffle(array(1, 2))[0] = 1",
            "aes_encrypt(l_v, '0000111122223333') is not null",
            "length(AES_ENCRYPT(l_v, '0000111122223333')) > 1",
            "system.builtin.aes_encrypt(l_v, '0000111122223333') is not null",
        ),
    )
    def test_a_join_refuses_what_is_not_deterministic(self, spark, condition):
        with pytest.raises(ps.PenstockError, match="condition must be deterministic"):
            joined(*self.frames(spark), condition=condition)

    @pytest.mark.parametrize(
        "condition",
        (
            "l_ts < current_timestamp()",
            later("l_ts < current_date"),
            later("l_ts < now()"),
            "current_user() = 'x'",
            "l_ts < 'now'",
            later("current_timezone() = 'x'"),
            "l_ts < cast(trim(' now ') as timestamp)",
            later("l_ts < to_timestamp(concat('no', 'w'))"),
            "to_date(l_ts) < cast(lower('TODAY') as date)",
            later("l_ts < cast(ifnull('now', 'x') as timestamp)"),
            later("l_ts < cast(nvl('now', 'x') as timestamp)"),
            later("l_ts < cast(left('nowx', 3) as timestamp)"),
            "l_ts < cast(concat(left('nox', 2), right('xw', 1)) as timestamp)",
            later("l_ts < to_timestamp(ifnull('now', 'y'))"),
            later("l_ts < try_to_timestamp(left('nowx', 3))"),
            later("to_date(l_ts) < to_date(left('todayx', 5))"),
        ),
    )
    def test_with_an_archive_it_refuses_what_settles_otherwise(self, spark, tmp_path, condition):
        joined(*self.frames(spark), condition=condition)
        with pytest.raises(ps.PenstockError, match=r"condition must not depend on .* with archive="):
            joined(*self.frames(spark), condition=condition, archive=str(tmp_path))

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "condition",
        (
            "l_ts < cast(left('2026-01-01x', 10) as timestamp) or ifnull(l_v, 'now') = 'now'",
            "l_ts < to_timestamp(ifnull('2026-01-01', 'y')) and k <> left('nowx', 3)",
            "exists(split(l_v, ','), x -> try_to_timestamp(x) < l_ts)",
        ),
    )
    def test_with_an_archive_it_takes_times_and_texts_that_stay(self, spark, tmp_path, condition):
        joined(*self.frames(spark), condition=condition, archive=str(tmp_path))

    def test_a_function_of_the_users_own_may_be_in_a_join_with_an_archive(self, spark, tmp_path):
        spark.udf.register("of_mine", lambda text: text == "1", "boolean")
        joined(*self.frames(spark), condition="of_mine(l_v)", archive=str(tmp_path))
        spark.udf.register("of_chance", spark.udf.register("of_mine", lambda text: True, "boolean").asNondeterministic())
        with pytest.raises(ps.PenstockError, match="condition must be deterministic"):
            joined(*self.frames(spark), condition="of_chance(l_v)")

    @pytest.mark.slow
    def test_a_crafted_condition_is_not_evaluated(self, spark, tmp_path):
        shards = shards_of((8, 8))[:1]
        crafted = "a_v >= 0 and reflect('java.lang.System', 'setProperty', 'penstock.trap', 'ran') is null"
        write(Ledger(tmp_path, plan_of((8, 8), condition=crafted), "batch-1"), shards, range(BATCHES), last=BATCHES - 1)
        with pytest.raises(ps.PenstockError, match="the function 'reflect'"):
            ps.settle(tmp_path, spark=spark)
        assert spark._jvm.java.lang.System.getProperty("penstock.trap") is None
        ps.settle(tmp_path, spark=spark, trust=True).collect()
        assert spark._jvm.java.lang.System.getProperty("penstock.trap") == "ran"
        spark._jvm.java.lang.System.clearProperty("penstock.trap")

    def test_a_condition_is_settled_under_the_time_zone_and_mode_of_the_join(self, spark, tmp_path):
        """Row numbers as seconds: which hour that is depends on the zone, and what a text that is no number gives on the mode."""
        shards = shards_of((8, 8))[:1]
        condition = "date_format(timestamp_seconds(a_v * 3600), 'H') < 6 and cast(concat('x', k) as int) is null"
        plan = plan_of((8, 8), condition=condition, zone="Pacific/Auckland", ansi=False)
        write(Ledger(tmp_path, plan, "batch-1"), shards, range(BATCHES), last=BATCHES - 1)
        before = spark.conf.get("spark.sql.session.timeZone"), spark.conf.get("spark.sql.ansi.enabled")
        got = bag_of_members(ps.settle(tmp_path, spark=spark))
        assert (spark.conf.get("spark.sql.session.timeZone"), spark.conf.get("spark.sql.ansi.enabled")) == before
        wanted = {members for members in owed(shards) if (members[0] + 12) % 24 < 6}  # in 1970 Auckland was 12 hours ahead all year
        assert set(got) == wanted and wanted

    def test_ranges_that_are_not_there_are_refused(self, spark, tmp_path):
        shards = shards_of((8, 8))[:1]
        write(Ledger(tmp_path / "a", plan_of((8, 8)), "q1"), shards, range(4))
        log = a_checkpoint(tmp_path / "c", 4)
        with pytest.raises(ps.PenstockError, match="since must be a committed batch, up to 3, or -1 for all, got 99"):
            ps.settle(tmp_path / "a", checkpoint=log, since=99, spark=spark)
        with pytest.raises(ps.PenstockError, match=r"since must not be after through \(1\), got 2"):
            ps.settle(tmp_path / "a", checkpoint=log, since=2, through=1, spark=spark)


@pytest.mark.parametrize(
    "text", (b"", b"{", b"null", b"[]", b'{"since": 1}', b'{"since": "a", "through": 1, "to": "x", "rows": 1, "stretches": []}')
)
def test_a_damaged_mark_is_told_in_a_sentence(tmp_path, text):
    Ledger(tmp_path, plan_of((8, 8)), "q1")
    pages = find(tmp_path)
    pages.store.put(f"{pages.folder}/settled/from-000000000.json", text)
    with pytest.raises(ps.PenstockError, match=r"settled/from-000000000\.json is damaged"):
        marks(pages)


@pytest.mark.parametrize(
    ("was", "now"),
    (
        ('"version": 1', '"version": '),
        ('"windows"', '"widnows"'),
        ('"keys": 1', '"keys": "1"'),
        ("8,", '"1) or (1 = 1",'),
        ('"streams"', '"x"'),
        ('"condition": null', '"condition": 7'),
    ),
)
def test_a_damaged_plan_is_told_in_a_sentence(tmp_path, was, now):
    Ledger(tmp_path, plan_of((8, 8)), "q1")
    file = tmp_path / "test-q1" / "plan.json"
    facts = json.loads(file.read_text()) | {"version": 1}
    text = json.dumps({name: fact for name, fact in facts.items() if name != "checksum"}, indent=2)  # no checksum
    assert was in text
    file.write_text(text.replace(was, now))
    with pytest.raises(ps.PenstockError, match=r"plan\.json (of the archive must|is damaged)"):
        find(tmp_path)


def test_a_ledger_of_0_1_0_does_not_tell_its_terms_and_goes_on(tmp_path):
    plan = plan_of((8, 8), condition="a_v > 1", zone="UTC", ansi=True)
    Ledger(tmp_path, replace(plan, zone=None, ansi=None), "q1")
    Ledger(tmp_path, plan, "q1")
    Ledger(tmp_path, plan, "q2")
    with pytest.raises(ps.PenstockError, match="zone must stay"):
        Ledger(tmp_path, replace(plan, zone="CET"), "q2")


def test_a_restart_under_another_time_zone_is_refused_with_the_remedy():
    def made(**terms: Any) -> dict[str, Any]:
        return settings(plan(15, "prob", condition="l_v > 1", facts=terms))

    was = made(**{ZONE: "UTC", ANSI: True})
    check_settings(was, was)
    for now in ({ZONE: "CET", ANSI: True}, {ZONE: "UTC", ANSI: False}):
        with pytest.raises(ps.PenstockError, match=r"spark\.sql\.\S+ was .*, now it is .*\. Set that in the session as it was"):
            check_settings(was, made(**now))
    check_settings(made(), was)  # a checkpoint of 0.1.0 does not tell
