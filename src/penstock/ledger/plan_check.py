"""Whether the plan of a ledger is what Penstock writes: settling makes names and numbers of it part of a query."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from penstock.core.errors import PenstockError

_LIMIT = 1 << 62


def check_plan(facts: Any) -> dict[str, Any]:
    """The facts of a plan.json; an error names the first that is not of its kind.

    >>> check_plan({"name": "penstock", "streams": ["l", 7]})
    Traceback (most recent call last):
    ...
    penstock.core.errors.PenstockError: plan.json of the archive must have a list of texts as streams, got ['l', 7]: the ledger is damaged
    """
    if not isinstance(facts, dict):
        raise PenstockError(f"plan.json of the archive must be a table of facts, got a {type(facts).__name__}: the ledger is damaged")
    for name, (wanted, fits) in _KINDS.items():
        if not fits(facts.get(name)):
            raise PenstockError(f"plan.json of the archive must have {wanted} as {name}, got {facts.get(name)!r}: the ledger is damaged")
    n = len(facts["streams"])
    for name in ("payload", "windows", "expires"):
        if len(facts.get(name) or ()) != n and (name != "expires" or facts.get(name)):
            raise PenstockError(f"plan.json of the archive must have {name} for {n} streams, got {facts[name]!r}: the ledger is damaged")
    return facts


def _whole(got: Any, least: int = 0) -> bool:
    return isinstance(got, int) and not isinstance(got, bool) and least <= got < _LIMIT


def _texts(got: Any) -> bool:
    return isinstance(got, list) and all(isinstance(one, str) for one in got)


def _yes_or_no(got: Any) -> bool:
    return isinstance(got, list) and all(isinstance(one, bool) for one in got)


def _maybe(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda got: got is None or fits(got)


def _text(got: Any) -> bool:
    return isinstance(got, str)


def _counted(got: Any) -> bool:
    return isinstance(got, list) and all(
        one is None or (isinstance(one, list) and len(one) == 2 and isinstance(one[0], str) and _whole(one[1], 1)) for one in got
    )


def _links(got: Any) -> bool:
    if not isinstance(got, Mapping) or not isinstance(got.get("sent"), list) or not all(map(_texts, got["sent"])):
        return False
    types, links = got.get("types"), got.get("links")
    if not isinstance(types, Mapping) or not all(map(_text, types.values())) or not isinstance(links, list):
        return False
    relations = got.get("relations", [])
    if not isinstance(relations, list) or not all(map(_relation, relations)):
        return False
    return all(isinstance(link, Mapping) and _link(link) for link in links)


def _relation(got: Any) -> bool:
    return (
        isinstance(got, Mapping)
        and _text(got.get("name"))
        and isinstance(got.get("file"), str)
        and re.fullmatch("[0-9a-f]{64}", got["file"]) is not None
        and all(isinstance(got.get(name), list) and all(map(_whole, got[name])) for name in ("streams", "slots"))
        and len(got["streams"]) == len(got["slots"])
        and isinstance(got.get("weighted"), bool)
        and _texts(got.get("shown"))
        and isinstance(got.get("grows", False), bool)
    )


def _link(link: Mapping[str, Any]) -> bool:
    ends = link.get("streams")
    return (
        _texts(link.get("low"))
        and _texts(link.get("high"))
        and isinstance(ends, list)
        and len(ends) == 2
        and all(map(_whole, ends))
        and link.get("predicate") in ("=", "!=", "<", "<=", ">", ">=", "eps")
        and isinstance(link.get("epsilon"), int | float)
    )


_KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "name": ("a text", _text),
    "streams": ("a list of texts", _texts),
    "query": ("a text", _text),
    "keys": ("a whole number", _whole),
    "payload": ("a list of lists of texts", lambda got: isinstance(got, list) and all(map(_texts, got))),
    "windows": ("a list of whole numbers and nulls", lambda got: isinstance(got, list) and all(map(_maybe(_whole), got))),
    "objective": ("a text or null", _maybe(_text)),
    "condition": ("a text or null", _maybe(_text)),
    "schema": ("a schema of Spark", lambda got: isinstance(got, dict)),
    "has_importance": ("true or false", lambda got: isinstance(got, bool)),
    "links": ("links between columns or null", _maybe(_links)),
    "expires": ("a list of true and false or null", _maybe(_yes_or_no)),
    "zone": ("a text or null", _maybe(_text)),
    "ansi": ("true, false or null", _maybe(lambda got: isinstance(got, bool))),
    "counted": ("windows of rows or null", _maybe(_counted)),
}
