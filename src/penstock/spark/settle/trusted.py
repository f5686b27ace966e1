"""What settling takes from the plan of a ledger, which anybody may have written: names and types as data, and code only if trusted."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar, cast

from pyspark.errors import PySparkException
from pyspark.sql import types as T  # noqa: N812

from penstock.core.errors import PenstockError
from penstock.core.value import Objective
from penstock.engine.pickled import unpickled_function
from penstock.ledger.ledger_plan import PICKLED, LedgerPlan, is_function
from penstock.spark.session.first_line import first_line

Kind = TypeVar("Kind", bound=T.DataType)


@contextmanager
def using(plan: str) -> Iterator[None]:
    """Say in a sentence that a plan cannot be used where its parts do not fit each other, or Spark does not take them.

    >>> with using("archive/penstock-7f3a"):
    ...     {}["k"]
    Traceback (most recent call last):
    ...
    penstock.core.errors.PenstockError: plan.json of the archive archive/penstock-7f3a cannot be used: its parts do not fit (KeyError: 'k')
    """
    told = f"plan.json of the archive {plan} cannot be used:"
    try:
        yield
    except PenstockError:
        raise
    except PySparkException as error:
        if "PATH_NOT_FOUND" in str(error):  # a page, which is not the plan's fault
            raise
        raise PenstockError(f"{told} {first_line(error)}") from None
    except (LookupError, AssertionError, ValueError, TypeError, AttributeError) as error:
        raise PenstockError(f"{told} its parts do not fit ({type(error).__name__}: {error})") from None


def objective_of(plan: LedgerPlan, given: object, *, trust: bool, counting: bool = False) -> Objective | None:
    """The objective of a join: by its name, or the function that is given again. None where a value is not needed, when `counting`.

    >>> plan = LedgerPlan("penstock", ("l", "r"), 1, (("k",), ()), (10, 10), "max", None, '{"type": "struct", "fields": []}', True)
    >>> objective_of(plan, None, trust=False).of([2.0, 5.0])
    5.0
    """
    own = is_function(plan.objective)
    if given is not None:
        if not own or not callable(given):
            there = "a function" if own else f"{plan.objective or 'none'}, which is known"
            raise PenstockError(f"objective must be the function that ps.join was given, where it was one; it was {there}, got {given!r}")
        return Objective.parse(given)
    if not own:
        return Objective.parse(plan.objective or "min")
    if str(plan.objective).startswith(PICKLED) and trust:
        return Objective.parse(unpickled_function(base64.b64decode(str(plan.objective)[len(PICKLED) :])))
    if counting and plan.condition is None:
        return None
    also = ", or trust=True for the copy of release 0.1.0 in the archive, which can run code" if plan.objective != "a function" else ""
    raise PenstockError(
        "objective must be given again to settle this archive, as ps.settle(..., objective=f): the join was given a function of its own, "
        f"and functions are not kept in files{also} (docs/trust.md); got none"
    )


def schema_of(plan: LedgerPlan, *, trust: bool) -> T.StructType:
    """The columns of the result, without metadata. A type of the user's own names a module or holds a pickle: only if trusted."""
    found = json.loads(plan.schema)
    if not trust and _has_own_types(found):
        raise PenstockError(
            "the archive has a column of a user-defined type, which runs code of its own when it is read: pass trust=True if you trust all "
            "who could write to the archive (docs/trust.md)"
        )
    try:
        return plain(T.StructType.fromJson(found))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise PenstockError(f"plan.json of the archive must have the schema of the result, got one that cannot be read: {error}") from None


def plain(kind: Kind) -> Kind:
    """A type without the metadata of its fields, in which there may be SQL: the default of a column, which Spark evaluates.

    >>> plain(T.StructType([T.StructField("a", T.LongType(), metadata={"EXISTS_DEFAULT": "1"})]))["a"].metadata
    {}
    """
    found: T.DataType = kind
    if isinstance(kind, T.StructType):
        found = T.StructType([T.StructField(field.name, plain(field.dataType), field.nullable) for field in kind])
    elif isinstance(kind, T.ArrayType):
        found = T.ArrayType(plain(kind.elementType), kind.containsNull)
    elif isinstance(kind, T.MapType):
        found = T.MapType(plain(kind.keyType), plain(kind.valueType), kind.valueContainsNull)
    return cast(Kind, found)


def _has_own_types(found: object) -> bool:
    """Whether a schema in JSON has a user-defined type anywhere.

    >>> _has_own_types({"type": "array", "elementType": {"type": "udt", "pyClass": "a.B"}})
    True
    """
    if isinstance(found, dict):
        return any(name in found for name in ("pyClass", "serializedClass")) or any(
            value == "udt" if name == "type" and isinstance(value, str) else _has_own_types(value) for name, value in found.items()
        )
    return isinstance(found, list) and any(map(_has_own_types, found))
