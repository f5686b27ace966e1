"""What settling must know of a join: the file plan.json of its ledger. Spark-free."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields

from penstock.core.errors import PenstockError
from penstock.ledger.plan_check import check_plan
from penstock.ledger.sealed import sealed, unsealed

NO_LINKS = "null"
"""In place of links, where keys are equal."""
FUNCTION = "a function"
"""An objective of the user's own, which settling must be given again."""
PICKLED = "pickle:"
"""Before such a function in ledgers of 0.1.0."""
VERSION = 5
"""Of the plan. In version 1, of release 0.1.0, pages have no manifests; from version 3 on they may say when each tuple expires;
in version 4 relations link the streams, whose facts are beside the pages (relation_pages.py); in version 5 one of them goes on."""
TEXTS = ("schema", "links", "counted")  # fields that are JSON


@dataclass(frozen=True)
class LedgerPlan:
    """All that settling must know of a join.

    >>> sides = (("k", "l_v"), ("r_v",))
    >>> LedgerPlan("penstock", ("l", "r"), 1, sides, (10, None), None, None, '{"type": "struct", "fields": []}', False).keys
    1
    """

    name: str
    streams: tuple[str, ...]
    keys: int  # columns of the key; the payload of the first stream begins with them
    payload: tuple[tuple[str, ...], ...]  # by stream: columns of the result
    windows: tuple[int | None, ...]  # microseconds that a tuple stays at most; None is unbounded
    objective: str | None  # a name, "a function", or None where there is no importance
    condition: str | None  # SQL over the columns of the result
    schema: str  # of the result, in Spark's JSON
    has_importance: bool
    links: str = NO_LINKS  # JSON: by stream the columns that are compared where it is not keys, their types, what links them
    counted: str = "null"  # JSON: by stream the kind and size of a window that counts rows
    expires: tuple[bool, ...] = ()  # by stream, whether each tuple comes with the time at which it is outside its window
    zone: str | None = None  # the time zone and the ANSI mode of the session that evaluated the condition; older ledgers have none
    ansi: bool | None = None

    def text(self, query: str) -> str:
        """As JSON, for people to read too."""
        facts = asdict(self) | {name: json.loads(getattr(self, name)) for name in TEXTS}
        if not self.expires:
            del facts["expires"]  # as before
        return sealed({"version": self.version, "query": query} | facts, indent=2).decode()

    @property
    def version(self) -> int:
        """The first that can say all of it."""
        linked = json.loads(self.links)
        if self.grows:
            return 5
        return 4 if linked is not None and linked.get("relations") else 3 if self.expires else 2

    @property
    def grows(self) -> bool:
        """Whether a relation goes on: then there are pages of its changes, and of rows that nothing linked when they came."""
        linked = json.loads(self.links)
        return linked is not None and any(one.get("grows") for one in linked.get("relations", []))

    @classmethod
    def of(cls, text: str | bytes | None, where: str = "plan.json") -> tuple[LedgerPlan, str, int]:
        """A plan, its query and its version, from the JSON of a file."""
        known = {"version", "query", *(field.name for field in fields(cls))}
        raw = text.encode() if isinstance(text, str) else text
        facts = unsealed(raw, where, bare=lambda found: found.get("version") == 1 and set(found) <= known)
        if facts.get("version") not in range(1, VERSION + 1):
            raise PenstockError(f"archive must have a ledger of version 1 to {VERSION}, got version {facts.get('version')!r} in {where}")
        facts = check_plan(facts)
        facts |= {name: tuple(facts[name]) for name in ("streams", "windows")}
        facts["expires"] = tuple(facts.get("expires") or ())
        facts |= {"payload": tuple(tuple(one) for one in facts["payload"])} | {name: json.dumps(facts.get(name)) for name in TEXTS}
        plan = cls(**{field.name: facts[field.name] for field in fields(cls) if field.name in facts})
        return plan, facts["query"], facts["version"]

    def columns(self, stream: int) -> dict[str, str]:
        """The payload of a stream: its columns in a page, and their names in the result."""
        names = [field["name"] for field in json.loads(self.schema)["fields"]]
        return {f"c{names.index(name)}": name for name in self.payload[stream] if name in names}

    def sent(self, stream: int) -> list[str]:
        """The columns that are compared, as they travel."""
        found = json.loads(self.links)
        return [f"key{number}" for number in range(self.keys)] if found is None else list(found["sent"][stream])


def is_function(objective: str | None) -> bool:
    """Whether the objective in a plan is a function of the user's own.

    >>> is_function("min"), is_function(FUNCTION)
    (False, True)
    """
    return objective is not None and (objective == FUNCTION or objective.startswith(PICKLED))
