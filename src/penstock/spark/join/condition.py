"""What an SQL condition does: whether it gives the same for the same row, now and when an archive is settled.

Spark's own parser says which functions are called. A client of Spark Connect has no parser at hand: there, and in `penstock run --check`,
the words of the text do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pyspark.sql import DataFrame, SparkSession

from penstock.core.errors import PenstockError
from penstock.pipeline.sql_functions import KEYWORDS, MOMENTS, NEEDS_ARGUMENT, NODES, PASSING, RANDOM, STEADY, TIMELY
from penstock.pipeline.sql_words import unsteady, words
from penstock.spark.session.java import Java

_TYPED = re.compile(rf"\b(date|timestamp\w*)\s*(['\"])\s*({'|'.join(MOMENTS)})\b[^'\"]*\2", re.IGNORECASE)
_REPLAY = "a batch that is played again must give the same outputs"
_LATER = "an archive is settled later, and must give the same then"


def check_steady(spark: SparkSession, condition: str, columns: Sequence[str], judged: DataFrame, *, archived: bool) -> None:
    """Refuse a condition that is not deterministic; with an archive, one that settles otherwise. `judged` is a frame that it filters."""
    if not hasattr(spark, "_jsparkSession"):
        trouble = unsteady(condition, columns, archived=archived)
        if trouble is not None:
            raise PenstockError(f"condition {trouble}")
        return
    analysed = judged._jdf.queryExecution().analyzed().condition()
    if not analysed.deterministic() or _draws(spark, condition):
        raise PenstockError(f"condition must be deterministic, because {_REPLAY}, got {condition!r}")
    if not archived:
        return
    found = next(_strange(spark, condition, columns), None)
    if found is not None and not (found[0] == "function" and _is_own(spark, found[1])):
        raise PenstockError(f"condition must not depend on {_told(*found)} with archive=, because {_LATER}, got {condition!r}")
    if any(_is_now(node) for tree in (analysed, _replaced(spark, judged)) for node in _nodes(tree)):
        raise PenstockError(f"condition must not depend on the time of now with archive=, because {_LATER}, got {condition!r}")


def check_harmless(spark: SparkSession, condition: str, columns: Sequence[str]) -> None:
    """Refuse the condition of an archive that is not trusted where it has anything but listed functions of the columns in it."""
    found = next(_strange(spark, condition, columns) if hasattr(spark, "_jsparkSession") else _strange_words(condition, columns), None)
    if found is not None:
        raise PenstockError(
            f"the archive has a condition with {_told(*found)} in it, which settling evaluates only if you trust all who could write to "
            f"the archive: pass trust=True (on the command line --trust; docs/trust.md), got {condition!r}"
        )


Found = tuple[str, str]
"""What kind of thing, and its name."""


def _told(kind: str, name: str) -> str:
    return name if kind in ("a subquery", "what") else f"the {kind} {name!r}"


def _draws(spark: SparkSession, condition: str) -> bool:
    """Whether a condition calls a function that gives something else each time: of some, Spark itself does not say so."""
    for node in _nodes(spark._jsparkSession.sessionState().sqlParser().parseExpression(condition)):
        if _kind(node) == "UnresolvedFunction":
            *where, name = [str(part).lower() for part in _sequence(node.nameParts())]
            if name in RANDOM and where in ([], ["builtin"], ["system", "builtin"]):
                return True
    return False


def _replaced(spark: SparkSession, judged: DataFrame) -> Java:
    """The condition that a frame is filtered by, with what Spark plays for functions that it replaces (ifnull, left): these do not fold."""
    rule = spark._jvm.org.apache.spark.sql.catalyst.optimizer.ReplaceExpressions  # type: ignore[union-attr]
    return rule.apply(judged._jdf.queryExecution().analyzed()).condition()


def _strange(spark: SparkSession, condition: str, columns: Sequence[str]) -> Iterator[Found]:
    """What is in a condition beside steady functions of these columns."""
    known = {name.lower() for name in columns}
    try:
        tree = spark._jsparkSession.sessionState().sqlParser().parseExpression(condition)
    except Exception:
        yield "what", "what Spark cannot read"
        return
    if _TYPED.search(condition):
        yield "what", "the time of now"
    for node in _nodes(tree):
        kind = _kind(node)
        if kind == "UnresolvedFunction":
            parts = [str(part).lower() for part in _sequence(node.nameParts())]
            if len(parts) > 1 or parts[0] not in STEADY or (parts[0] in NEEDS_ARGUMENT and not _sequence(node.children())):
                yield "function", ".".join(parts)
            elif parts[0] in TIMELY and any(_is_moment(child) for child in _sequence(node.children())):
                yield "what", "the time of now"
        elif kind == "UnresolvedAttribute":
            name = str(_sequence(node.nameParts())[0])
            if name.lower() not in known:
                yield "name", name
        elif kind in ("ScalarSubquery", "Exists", "ListQuery", "InSubquery") or "Subquery" in kind:
            yield "a subquery", "a subquery"
        elif kind == "Cast" and _is_now(node):
            yield "what", "the time of now"
        elif kind not in NODES:
            yield "expression", kind


def _strange_words(condition: str, columns: Sequence[str]) -> Iterator[Found]:
    """The same by the words alone; what may be read in two ways is strange."""
    known = {name.lower() for name in columns}
    moments = rf"""['"]\s*({"|".join(MOMENTS)})\b"""
    if re.search(rf"""--|/\*|\\|\$|\br['"]|{moments}|\b({"|".join(NEEDS_ARGUMENT)})\s*\(\s*\)""", condition, re.IGNORECASE):
        yield "what", "comments, escapes or times of now"
        return
    variables = {name.lower() for name in re.findall(r"(\w+)\s*(?:,\s*\w+\s*\)\s*)?->", condition)}
    for word, quoted, is_call in words(condition):
        if is_call and (quoted or word not in STEADY) and word not in KEYWORDS:
            yield "function", word
        elif not is_call and word not in known and not (word in KEYWORDS | variables or word[0].isdigit()):
            yield "name", word


def _nodes(tree: Java) -> Iterator[Java]:
    yield tree
    for child in _sequence(tree.children()):
        yield from _nodes(child)


def _sequence(found: Java) -> list[Java]:
    return [found.apply(number) for number in range(found.size())]


def _kind(node: Java) -> str:
    return str(node.getClass().getSimpleName())


def _is_moment(node: Java) -> bool:
    """Whether an expression is a text such as 'now', written or made of constants."""
    if _kind(node) == "Literal":
        text = node.value()
    elif node.resolved() and node.foldable():
        try:
            text = node.eval(None)
        except Exception:  # Spark will report it where it evaluates the condition
            return False
    else:
        return False
    return str(text).strip().lower().split(" ")[0] in MOMENTS


def _is_now(node: Java) -> bool:
    """Whether a text such as 'now' is made a time."""
    if _kind(node) in ("ParseToTimestamp", "ParseToDate"):
        return any(_is_moment(child) for child in _sequence(node.children()))
    return _kind(node) == "Cast" and str(node.dataType().typeName()).startswith(("date", "timestamp")) and _is_moment(node.child())


def _is_own(spark: SparkSession, name: str) -> bool:
    """Whether a function is not Spark's, but of the user's own."""
    if name in STEADY | PASSING | RANDOM:
        return False
    return name not in {row[0] for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect()}
