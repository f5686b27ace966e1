"""The relations of a pipeline: which streams they link, checked before anything is read from them.

[relations.NAME]   facts that streams are joined through, where [join] says through = "NAME"
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.core.errors import PenstockError, choose
from penstock.core.facts import Through, check_tree
from penstock.ledger.store import local_path
from penstock.pipeline.catalog import shown
from penstock.relation.addresses import FORMS, is_address, is_feed

Tables = Mapping[str, Mapping[str, Any]]
"""The tables of a section, by name."""


def check_relations(
    relations: Mapping[str, Mapping[str, Any]], join: Mapping[str, Any], streams: Mapping[str, Mapping[str, Any]]
) -> list[str]:
    """What is wrong with the relations of a pipeline, and with what names them.

    >>> check_relations({"zones": {"source": "duckdb:city.duckdb#pairs"}}, {"through": None}, {})
    ['relations.zones must be used by join.through, got nothing']
    """
    named = join.get("through") or ()
    wrong = []
    for name in named:
        try:
            choose("join.through", name, relations)
        except PenstockError as error:
            wrong.append(str(error))
    for name, relation in relations.items():
        if "through" in join and name not in named:
            wrong.append(f"relations.{name} must be used by join.through, got {shown(list(named)) if named else 'nothing'}")
        source = relation.get("source")
        try:
            local = None if source is None or is_address(source) else local_path(source)
        except PenstockError as error:
            wrong.append(f"relations.{name}.source: {error}")
            continue
        if is_feed(source):
            wrong.append(f"relations.{name}.source must not be a feed, got {shown(source)}: keep its history by penstock relation record")
        if local is not None and not Path(local).is_file():
            wrong.append(f"relations.{name}.source must be a file that is there, or an address ({FORMS}), got {shown(source)}")
    if not named or wrong:
        return wrong
    left_out = {"join.on": join.get("on"), "join.predicate": join.get("predicate"), "join.cross": join.get("cross")}
    left_out |= {f"streams.{name}.key": stream.get("key") for name, stream in streams.items()}
    told = "must be left out where join.through names relations"
    wrong += [f"{key} {told}, got {shown(given)}" for key, given in left_out.items() if given]
    try:
        check_tree(linked(relations, join, streams), tuple(streams))
    except PenstockError as error:
        wrong.append(f"join.{error}" if str(error).startswith("through") else f"relations: {error}")
    return wrong


def linked(relations: Tables, join: Mapping[str, Any], streams: Tables) -> tuple[Through, ...]:
    """What the relations of a join link; weights only where the file says so.

    >>> zones = {"links": ["pickup.zone = a", "b = dropoff.zone"], "weight": None}
    >>> linked({"zones": zones}, {"through": ["zones"]}, {"pickup": {}, "dropoff": {}})[0].streams
    (0, 1)
    """
    found = [(name, relations[name]) for name in join.get("through") or () if {"links", "weight"} <= relations[name].keys()]
    return tuple(Through.parse(name, one["links"], tuple(streams), weighted=one["weight"] is not None) for name, one in found)
