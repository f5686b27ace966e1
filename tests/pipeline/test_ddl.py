"""Schemas as text: what Spark's own parser takes is never refused, and mistakes are found without it."""

from __future__ import annotations

from random import Random

import pytest

from penstock.core.errors import PenstockError
from penstock.pipeline.ddl import _PLAIN, check_schema

pytest.importorskip("pyspark")
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import types as T  # noqa: N812

from sparks import ON_SPARK

pytestmark = ON_SPARK

SIZED = {
    "char": "(3)",
    "character": "(3)",
    "varchar": "(9)",
    "decimal": "(10, 2)",
    "time": "(6)",
    "geometry": "(4326)",
    "geography": "(4326)",
}
AFTER = ("", "", " not null", " comment 'one, two > three'", ' COMMENT "it\'s"', " not null comment '<'")


def a_type(random: Random, depth: int) -> str:
    kind = random.choice([*_PLAIN, *(["array", "map", "struct"] * 6 if depth else [])])
    if kind == "array":
        return f"array<{a_type(random, depth - 1)}>"
    if kind == "map":
        return f"map<{a_type(random, 0)}, {a_type(random, depth - 1)}>"
    if kind == "struct":
        return f"struct<{columns(random, depth - 1, ':')}>"
    if kind == "interval":
        return random.choice(["interval day to second", "INTERVAL YEAR TO MONTH"])
    return random.choice([kind, kind.upper()]) + SIZED.get(kind, "")


def columns(random: Random, depth: int, sign: str = "") -> str:
    names = random.sample(["a", "b1", "_c", "`d e`", "`f``, g`", "Comment"], random.randint(1, 3))
    return ",".join(f" {name}{random.choice(['', sign])} {a_type(random, depth)}{random.choice(AFTER)}" for name in names)


def spark_takes(text: str) -> bool:
    try:
        T.StructType.fromDDL(text)
    except PySparkException:
        return False
    return True


def test_what_spark_takes_is_taken(spark: SparkSession) -> None:
    random = Random(11)
    texts = [columns(random, 2) for _ in range(150)]
    for text in texts[:50]:
        cut = random.randrange(len(text))
        texts.append(text[:cut] + random.choice(["", ",", "<", ">", "x", " "]) + text[cut + 1 :])
    taken = [text for text in texts if spark_takes(text)]
    assert len(taken) >= 150
    for text in taken:
        assert check_schema("schema", text) == text


@pytest.mark.parametrize(
    ("text", "said"),
    (
        ("ts timestmp", "schema: the type of ts must be one of .*got 'timestmp' .did you mean 'timestamp'"),
        ("a int, b array<strin>", "schema: the type of b must be .*did you mean 'string'"),
        ("a struct<b: map<string, struct<c: dbl>>>", "schema: the type of c must be .*got 'dbl'"),
        ("a int,", "got nothing"),
        ("a", "got no type for a"),
        ("a int, , b int", "got ',' in place of a column"),
        ("a map<string>", "one type in map<...> of a, which needs 2"),
        ("a array int", "no <...> after array of a"),
        ("a int>", "'>' after the last column"),
        ("a struct<b int", "no > after the types in struct<...> of a"),
    ),
)
def test_a_mistake_is_named(text: str, said: str) -> None:
    with pytest.raises(PenstockError, match=said):
        check_schema("schema", text)
