"""The words of an SQL expression, where no parser is at hand. Spark-free."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from penstock.pipeline.sql_functions import MOMENTS, NEEDS_ARGUMENT, PASSING, RANDOM

_RAW = r"""(?<!\w)[rR](?:'[^']*'|"[^"]*")"""  # no backslash escapes in these
_TEXT = r"""'(?:[^'\\]|\\.)*'"""
_TOKEN = re.compile(rf"""{_RAW}|`((?:[^`]|``)*)`|({_TEXT})|"((?:[^"\\]|\\.)*)"|(\w+)""", re.DOTALL)
_COMMENT = re.compile(rf"""({_RAW}|`[^`]*`|{_TEXT}|"(?:[^"\\]|\\.)*")|--[^\r\n]*|/\*.*?(?:\*/|\Z)""", re.DOTALL)
_MOMENT = re.compile(rf"""\s*({"|".join(MOMENTS)})(?:\s+\S+)?\s*""", re.IGNORECASE)


_WITH_BRACKETS = frozenset({"now", "version", "curdate", "current_path", "current_timezone"})
"""Functions that are none without brackets."""


def words(text: str) -> Iterator[tuple[str, bool, bool]]:
    """The words outside of texts: each in small letters, whether it is quoted, and whether a bracket follows as after a function.

    >>> list(words("abs(l_v) > 'now()' and `a b` = 1"))
    [('abs', False, True), ('l_v', False, False), ('and', False, False), ('a b', True, False), ('1', False, False)]
    """
    for match in _TOKEN.finditer(text):
        ticked, _, double, plain = match.groups()
        is_call = text[match.end() :].lstrip()[:1] == "("
        if plain is not None:
            yield plain.lower(), False, is_call
        elif ticked is not None:
            yield ticked.replace("``", "`").lower(), True, is_call
        elif double is not None and is_call:
            yield double.lower(), True, True


def called(text: str) -> set[str]:
    """The names before brackets.

    >>> sorted(called("rand () < 0.5 and abs(x) > 1"))
    ['abs', 'rand']
    """
    return {word for word, _, is_call in words(text) if is_call}


def without_comments(text: str) -> str:
    """An expression with a space in place of each comment. Of comments in each other it leaves a part, so it hides nothing.

    >>> without_comments("rand/* ( */() < 1 -- or more")
    'rand () < 1  '
    """
    return _COMMENT.sub(lambda match: match[1] or " ", text)


def moments(text: str) -> Iterator[str]:
    """Texts such as 'now', which are times of now where a time is wanted.

    >>> list(moments("t < ' NOW' and k = 'nowhere'"))
    ['now']
    """
    for match in _TOKEN.finditer(text):
        found = _MOMENT.fullmatch(match[2][1:-1] if match[2] is not None else match[3] or "")
        if found is not None:
            yield found[1].lower()


def unsteady(condition: str, columns: Sequence[str], *, archived: bool) -> str | None:
    """What is wrong with a condition that calls a function which is not deterministic, or with an archive one of the time of now.

    >>> unsteady("rand() < 0.5", ["a"], archived=False)
    "must be deterministic, because a batch that is played again must give the same outputs, got the function 'rand'"
    >>> unsteady("a > current_date", ["a"], archived=False), unsteady("user = 'me'", ["user"], archived=True)
    (None, None)
    >>> unsteady("a in (SELECT 1)", ["a"], archived=True)
    'must not depend on a subquery with archive=, because an archive is settled later, and must give the same then'
    """
    condition = without_comments(condition)
    functions = called(condition)
    if "identifier" in functions:
        return "must name its functions and columns itself, got identifier(...), behind which there may be any"
    drawn = sorted(functions & RANDOM)
    if drawn:
        return f"must be deterministic, because a batch that is played again must give the same outputs, got the function {drawn[0]!r}"
    if not archived:
        return None
    known = {name.lower() for name in columns}
    empty = {name for name in NEEDS_ARGUMENT if re.search(rf"\b{name}\s*\(\s*\)", condition, re.IGNORECASE)}
    bare = {word for word, quoted, is_call in words(condition) if not quoted and not is_call} & PASSING - _WITH_BRACKETS
    passing = sorted((bare - known) | functions & PASSING | empty)
    if any(word == "select" and not quoted for word, quoted, _ in words(condition)):
        return "must not depend on a subquery with archive=, because an archive is settled later, and must give the same then"
    moment = next(moments(condition), None)
    if moment is not None:
        told = "because an archive is settled later, and where a time is wanted, it is the time of then"
        return f"must not depend on the text {moment!r} with archive=, {told}"
    if passing:
        return f"must not depend on {passing[0]!r} with archive=, because an archive is settled later, and must give the same then"
    return None
