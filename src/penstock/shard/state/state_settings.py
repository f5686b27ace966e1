"""What a shard's state was made with: written beside it, compared with the settings of now at a restart, and made a plan again."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import replace
from typing import Any

import pyarrow as pa

from penstock.core.clock_limit import Limit
from penstock.core.duration import in_units
from penstock.core.errors import PenstockError
from penstock.core.problem import SWITCHES
from penstock.policies.ep import Ep
from penstock.shard.given_rates import GIVEN
from penstock.shard.shard_ids import shard_ids
from penstock.shard.shard_plan import ShardPlan
from penstock.shard.stream_window import window_text

FORMAT = 2
"""Of what is written into the state. A release reads the formats up to its own."""
_MADE = ("keys", "payload", "times", "has_importance", "name", "judged")
_OPTIONS = ("window", "policy", "stats", "objective", "half_life", "switches", "matches")
_LENGTHS = ("window", "half_life")
"""Which of them are lengths of time."""
_FREE = ("memory", "allocation", "lateness", "seed", "alpha", "beta", "weights", "ghosts", "overhead", "ahead")
"""What may change at a restart."""
FINISHES = "ep-finishes"
"""The switch of `ep` that a state keeps where nobody names it."""
_OWN = ("ghosts", "overhead", "ahead")
"""What of it are fields of a plan, and no options of the engine."""
_FACTS = ("name", "archive", "time and key columns", "spark.sql.session.timeZone", "spark.sql.ansi.enabled")
"""What older states do not have."""
RELATION = "facts of relation "
"""Before the name of a relation: a digest of what it has."""
JOINS = "joins of the budget"
"""Which joins share the memory, where it is a `ps.Budget`: each must know how many shares there are."""


def settings(plan: ShardPlan) -> dict[str, Any]:
    """What a state was made with, in a form that outlives a release."""
    options = {name: value for name, value in plan.options.items() if value is not None and name not in _FREE}
    options["policy"] = getattr(options["policy"], "name", options["policy"])
    if options["policy"] == Ep.name:
        options["switches"] = {FINISHES: SWITCHES[FINISHES][0]} | dict(options.get("switches") or {})
    if callable(options.get("objective")):
        options["objective"] = "a function"
    fixed = options | {
        "streams": list(plan.streams),
        "keys": [str(field) for field in plan.schema][: plan.keys],
        "schema": [str(field) for field in plan.schema][plan.keys :],
        "condition": plan.condition,
        "lifetimes": list(plan.lifetimes) or None,
        "shards": len(plan.shards),
        "compared": [list(own) for own in plan.sent] or None,
        **plan.facts,
    }
    free = {name: getattr(plan, name) if name in _OWN else plan.options.get(name) for name in _FREE}
    made = {name: getattr(plan, name) for name in _MADE} | {"arrow": base64.b64encode(plan.schema.serialize()).decode()}
    return json.loads(json.dumps({"format": FORMAT, "fixed": fixed, "free": free, "made": made}, default=str))


def made_with(head: Any) -> dict[str, Any]:
    """What a state was made with, as its head says; of `ep` older ones do not say who is finished by an output: only the last was."""
    found: dict[str, Any] = json.loads(head[1])
    fixed = found["fixed"]
    if fixed["policy"] == Ep.name:
        fixed["switches"] = {FINISHES: "last"} | (fixed.get("switches") or {})
    return found


def plan_of(found: dict[str, Any]) -> ShardPlan:
    """The plan that a state was made with, but for functions of the user."""
    fixed, made = found["fixed"], found["made"]
    options = {name: value for name, value in (fixed | found["free"]).items() if value is not None}
    options = {name: options[name] for name in (*_OPTIONS, *_FREE) if name in options and name not in _OWN}
    return ShardPlan(
        streams=tuple(fixed["streams"]),
        keys=made["keys"],
        payload=tuple(map(tuple, made["payload"])),
        options=options,
        schema=pa.ipc.read_schema(pa.py_buffer(base64.b64decode(made["arrow"]))),
        times=tuple(made["times"]),
        has_importance=made["has_importance"],
        lifetimes=tuple(fixed.get("lifetimes") or ()),
        name=made["name"],
        shards=tuple(int(i) for i in shard_ids(fixed["shards"])),
        ghosts=found["free"]["ghosts"],
        ahead=_limit(found["free"]),
        overhead=found["free"].get("overhead"),
        condition=fixed["condition"],
        judged=None if made["judged"] is None else tuple(map(tuple, made["judged"])),
        facts={name: fixed[name] for name in (*_FACTS, JOINS, GIVEN) if name in fixed},
    )


def check_settings(old: dict[str, Any], new: dict[str, Any]) -> None:
    """Refuse to go on with a state that was made with other settings."""
    if old["format"] > new["format"]:
        which = f"format {old['format']}, this one reads up to {new['format']}"
        raise PenstockError(f"the checkpoint was written by a newer release of Penstock ({which}); use that release")
    names = sorted(set(old["fixed"]) | (set(new["fixed"]) - set(_FACTS)))
    differences = {name: (old["fixed"].get(name), new["fixed"].get(name)) for name in names}
    other = {name: (was, now) for name, (was, now) in differences.items() if was != now}
    if other:
        told = "; ".join(f"{name} was {_told(name, was)}, now it is {_told(name, now)}" for name, (was, now) in other.items())
        raise PenstockError(f"the checkpoint was made with other settings: {told}. {_remedy(set(other))}")


def with_free(plan: ShardPlan, free: dict[str, Any]) -> ShardPlan:
    """The plan with the free settings of another."""
    options = {name: value for name, value in plan.options.items() if name not in _FREE}
    options |= {name: value for name, value in free.items() if name not in _OWN and value is not None}
    return replace(plan, options=options, ghosts=free["ghosts"], overhead=free.get("overhead"), ahead=_limit(free))


def _remedy(names: set[str]) -> str:
    """What to do where these settings differ."""
    if any(name.startswith("spark.sql.") for name in names):
        return "Set that in the session as it was, or use a new checkpoint"
    if any(name.startswith(RELATION) for name in names):
        return "Give the relation the facts that it had, or use a new checkpoint"
    return f"Use a new checkpoint{', or for another number of shards `penstock reshard`' if names == {'shards'} else ''}"


def _told(name: str, setting: Any) -> str:
    """A setting as users write it.

    >>> _told("window", {"l": 90_000_000, "r": "none"}), _told("half_life", 60e6), _told("policy", "prob")
    ('l: 90 seconds, r: none', '1 minute', 'prob')
    """
    if name in _LENGTHS and isinstance(setting, dict):
        return ", ".join(f"{stream}: {window_text(length)}" for stream, length in setting.items())
    return in_units(int(setting)) if name in _LENGTHS and isinstance(setting, int | float) else _plain(setting)


def _plain(setting: Any) -> str:
    """A setting without the name of a class around the columns in it.

    >>> _plain(["pyarrow.Field<user: string>"])
    '[user: string]'
    """
    return re.sub(r"'pyarrow\.Field<(.*?)>'", r"\1", str(setting))


def _limit(free: dict[str, Any]) -> Limit | None:
    """How far rows might be ahead; older states had no limit."""
    return None if free.get("ahead") is None else Limit(*free["ahead"])
