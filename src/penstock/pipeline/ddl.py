"""Whether a schema as text names types that Spark has: its own parser needs Java, which does not run when a pipeline file is checked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain

from penstock.core.errors import PenstockError, choose

_TOKEN = re.compile(r"\s*(`(?:[^`]|``)+`|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|\w+|[^\s\w])")
_TEXTS = ("string", "char", "character", "varchar", "binary")
_NUMBERS = ("boolean", "tinyint", "byte", "smallint", "short", "int", "integer", "bigint", "long", "float", "real", "double")
_DECIMALS = ("decimal", "dec", "numeric")
_TIMES = ("date", "timestamp", "timestamp_ltz", "timestamp_ntz", "time", "interval")
_PLAIN = (*_TEXTS, *_NUMBERS, *_DECIMALS, *_TIMES, "variant", "void", "geometry", "geography")
_NESTED = {"array": 1, "map": 2}
_TYPES = (*_PLAIN, *_NESTED, "struct")
_OPEN, _SHUT = "(<", ")>"


def check_schema(path: str, text: str) -> str:
    """The text, if every column has a name and a type that Spark knows; what follows a type is left to Spark.

    >>> check_schema("schema", "ts timestamp not null, k array<struct<a: int, b: decimal(10, 2)>>")
    'ts timestamp not null, k array<struct<a: int, b: decimal(10, 2)>>'
    >>> check_schema("schema", "k bigint, ts")
    Traceback (most recent call last):
    ...
    penstock.core.errors.PenstockError: schema must have columns and types such as "ts timestamp, k string", got no type for ts
    """
    tokens = _Tokens(text)
    _columns(path, tokens)
    if tokens.next is not None:
        raise _wrong(path, f"{tokens.next!r} after the last column")
    return text


class _Tokens:
    """Words, names, texts and signs, one after the other."""

    def __init__(self, text: str) -> None:
        self._left: Iterator[str | None] = chain(_TOKEN.findall(text), [None])
        self.next = next(self._left)

    def take(self) -> str | None:
        taken = self.next
        self.next = next(self._left, None)
        return taken

    def took(self, sign: str) -> bool:
        """Whether this sign comes next; if so, it is behind us."""
        if self.next != sign:
            return False
        self.take()
        return True


def _columns(path: str, tokens: _Tokens) -> None:
    while True:
        name = tokens.take()
        if name is None or not re.match(r"[\w`]", name):
            raise _wrong(path, "nothing" if name is None else f"{name!r} in place of a column")
        tokens.took(":")
        _type(path, name.strip("`"), tokens)
        _skip(tokens)
        if not tokens.took(","):
            return


def _type(path: str, column: str, tokens: _Tokens) -> None:
    word = tokens.take()
    if word is None or not re.match(r"\w", word):
        raise _wrong(path, f"no type for {column}")
    kind = choose(f"{path}: the type of {column}", word.lower(), _TYPES)
    if kind in _PLAIN:
        return
    if not tokens.took("<"):
        raise _wrong(path, f"no <...> after {word} of {column}")
    inner = _NESTED.get(kind, 0)
    for place in range(inner):
        if place and not tokens.took(","):
            raise _wrong(path, f"one type in {word}<...> of {column}, which needs {inner}")
        _type(path, column, tokens)
        _skip(tokens)
    if not inner and tokens.next != ">":
        _columns(path, tokens)
    if not tokens.took(">"):
        raise _wrong(path, f"no > after the types in {word}<...> of {column}")


def _skip(tokens: _Tokens) -> None:
    """Go on to what ends this column: sizes in parentheses, `not null`, comments and defaults are for Spark to judge."""
    depth = 0
    while tokens.next is not None and (depth or tokens.next not in (",", ">")):
        depth += (tokens.next in _OPEN) - (tokens.next in _SHUT)
        tokens.take()


def _wrong(path: str, got: str) -> PenstockError:
    return PenstockError(f'{path} must have columns and types such as "ts timestamp, k string", got {got}')
