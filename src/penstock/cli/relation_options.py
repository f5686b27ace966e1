"""Options that join streams through relations: every command that plays a trace takes them from here."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.core.errors import PenstockError, choose

if TYPE_CHECKING:
    from penstock.relation.relation import Relation

_PANEL = "Relations"
_NAMED = re.compile(r"\s*(\w+)\s*([:=])\s*(.*\S)\s*", re.DOTALL)


def _option(metavar: str, text: str, *names: str, default: str = "") -> Any:
    return typer.Option(*names, metavar=metavar, help=text, rich_help_panel=_PANEL, show_default=default or False)


RelationFiles = Annotated[
    list[str] | None,
    _option(
        "FILE", "Join through the facts in this file instead of directly; NAME=FILE, once for each, where there are several.", "--relation"
    ),
]
Links = Annotated[
    list[str] | None,
    _option(
        "LINK", "A stream's column and an attribute of the relation: 'R.zone = a'; with several relations 'NAME: R.zone = a'.", "--link"
    ),
]
RelationBegin = Annotated[
    list[str] | None, _option("COLUMN", "From when a fact is active, or NAME=COLUMN.", "--relation-begin", default="begin, if there is one")
]
RelationEnd = Annotated[
    list[str] | None, _option("COLUMN", "Until when it is active, or NAME=COLUMN.", "--relation-end", default="end, if there is one")
]
RelationWeight = Annotated[
    list[str] | None,
    _option(
        "COLUMN", "How much what joins through a fact is worth, or NAME=COLUMN.", "--relation-weight", default="weight, if there is one"
    ),
]
RelationId = Annotated[
    list[str] | None,
    _option("COLUMN", "What tells facts with equal links apart, or NAME=COLUMN.", "--relation-id", default="the linked attributes"),
]


def read_relations(
    files: Sequence[str] | None,
    links: Sequence[str] | None,
    begin: Sequence[str] | None = None,
    end: Sequence[str] | None = None,
    weight: Sequence[str] | None = None,
    id: Sequence[str] | None = None,
) -> list[Relation] | None:
    """The relations that the options name; None where they name none.

    >>> [one.called for one in read_relations(["pairs=a.csv", "zones=b.csv"], ["pairs: R.x = a", "pairs: b = S.x", "zones: S.y = a"])]
    ['pairs', 'zones']
    """
    columns = {"--link": links, "--relation-begin": begin, "--relation-end": end, "--relation-weight": weight, "--relation-id": id}
    if not files:
        for option, texts in columns.items():
            if texts:
                raise PenstockError(f"{option} is about a relation and needs --relation FILE, got {texts[0]!r} without")
        return None

    from penstock.relation.relation import relation

    sources = dict(_source(text, several=len(files) > 1) for text in files)
    if len(sources) < len(files):
        raise PenstockError(f"--relation must name each relation once, got {', '.join(files)}")
    names = list(sources)
    linked = _by_name(links or (), "--link", ":", names)
    told = {option: _by_name(texts or (), option, "=", names) for option, texts in columns.items() if option != "--link"}
    found = []
    for name, source in sources.items():
        if not linked[name]:
            raise PenstockError(f"--link must say how relation {name or source} links the streams, such as 'R.zone = a', got none")
        own = {option.removeprefix("--relation-"): _one(texts[name], option) for option, texts in told.items()}
        found.append(relation(source, linked[name], name=name or None, **own))
    return found


def _source(text: str, *, several: bool) -> tuple[str, str]:
    named = _NAMED.fullmatch(text)
    if named and named[2] == "=":
        return named[1], named[3]
    if several:
        raise PenstockError(f"--relation must be NAME=FILE where there are several, got {text!r}")
    return "", text


def _by_name(texts: Sequence[str], option: str, sign: str, names: list[str]) -> dict[str, list[str]]:
    """The texts for each relation: NAME, a sign and the text, or the text alone: for the only relation, or else for all."""
    found: dict[str, list[str]] = {name: [] for name in names}
    for text in texts:
        named = _NAMED.fullmatch(text)
        if named and named[2] == sign:
            if names == [""]:
                raise PenstockError(f"{option} names relation {named[1]}, which --relation {named[1]}=FILE would be, got {text!r}")
            found[choose(f"relation of {option}", named[1], names)].append(named[3])
        elif sign == ":" and len(names) > 1:
            raise PenstockError(f"{option} must name its relation where there are several, such as '{names[0]}: R.zone = a', got {text!r}")
        else:
            for name in names:
                found[name].append(text)
    return found


def _one(texts: list[str], option: str) -> str | None:
    if len(texts) > 1:
        raise PenstockError(f"{option} must name one column, got {' and '.join(texts)}")
    return texts[0] if texts else None
