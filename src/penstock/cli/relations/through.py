"""What `--relation` and `--link` say: the relations that streams are joined through."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.cli.texts import words
from penstock.core.errors import PenstockError, choose

if TYPE_CHECKING:
    from penstock.relation.relation import Relation


def relation_sources(texts: Sequence[str]) -> dict[str, str]:
    """Files or addresses by the names of their relations: "pairs=zones.csv", or only where it is, which names it.

    >>> relation_sources(["pairs=a.csv", "b/zones.parquet", "duckdb:city.duckdb#roads"])
    {'pairs': 'a.csv', 'zones': 'b/zones.parquet', 'roads': 'duckdb:city.duckdb#roads'}
    """
    from penstock.relation.addresses import name_in

    found: dict[str, str] = {}
    for text in texts:
        named = re.fullmatch(r"(\w+)=(.+)", text)
        source = named[2] if named else text
        name = (named[1] if named else name_in(source)) or "facts"
        if name in found:
            raise PenstockError(f"--relation must have relations of different names, got {name} twice; name one as in {name}2={source}")
        found[name] = source
    return found


def read_relations(
    texts: Sequence[str], links: Sequence[str], *, begin: str | None, end: str | None, weight: str | None, id: str | None
) -> tuple[Relation, ...]:  # fmt: skip
    """The relations of `--relation`, each with its links: "pairs: R.x = a", or without a name where there is but one relation."""
    from penstock.relation.relation import relation

    sources = relation_sources(texts)
    columns = {"--relation-begin": begin, "--relation-end": end, "--relation-weight": weight, "--relation-id": id}
    if not sources:
        for option, given in {"--link": links or None, **columns}.items():
            if given is not None:
                raise PenstockError(f"{option} says something of a relation and needs --relation, got {given!r} without")
        return ()
    own: dict[str, list[str]] = {name: [] for name in sources}
    for text in links:
        for part in words(text, "--link"):
            name, colon, link = (piece.strip() for piece in part.rpartition(":"))
            if not colon and len(sources) > 1:
                raise PenstockError(
                    f"--link must name its relation where there are several, as in '{next(iter(sources))}: {link}', got {part!r}"
                )
            own[choose("relation of --link", name, sources) if colon else next(iter(sources))].append(link)
    chosen = {option: _by_relation(text, option, sources) for option, text in columns.items()}
    for name, found in own.items():
        if not found:
            raise PenstockError(f"--link must say what relation {name} links, as in --link 'R.x = a' --link 'b = S.y', got none")
    return tuple(
        relation(
            source,
            links=own[name],
            begin=chosen["--relation-begin"][name],
            end=chosen["--relation-end"][name],
            weight=chosen["--relation-weight"][name],
            id=chosen["--relation-id"][name],
            name=name,
        )
        for name, source in sources.items()
    )


def _by_relation(text: str | None, option: str, sources: dict[str, str]) -> dict[str, str | None]:
    """A column for all relations, or "pairs=since" for some."""
    out: dict[str, str | None] = dict.fromkeys(sources)
    for part in () if text is None else words(text, option):
        name, equals, column = (piece.strip() for piece in part.partition("="))
        for one in [choose(f"relation of {option}", name, sources)] if equals else sources:
            out[one] = column if equals else name
    return out
