"""The joined rows of a shard: the numbers of their members, looked up in the payload, some 64 MB at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.trace import Floats, Ints
from penstock.core.value import Objective
from penstock.shard.facts.shard_facts import ShardFacts
from penstock.shard.payload import Payload
from penstock.shard.shard_plan import IMPORTANCE, LOST, VALUE, ShardPlan

_PIECE = 64 << 20  # bytes of joined rows that are made at a time


class JoinedRows:
    """Makes the rows of the result from outputs: arrays of a time and a row per stream."""

    def __init__(self, plan: ShardPlan, objective: Objective, facts: ShardFacts | None = None) -> None:
        self.plan, self.objective, self.facts = plan, objective, facts
        self._worth = [IMPORTANCE] if plan.has_importance else []

    def made(self, payload: Payload, outputs: Ints) -> Iterator[pa.Table]:
        """The joined rows of these outputs."""
        return (self._made(payload, outputs[begin:end]) for begin, end in _pieces(payload, outputs, len(self.plan.streams)))

    def lost(self, judged: Payload, missed: Ints, weight: Floats) -> Iterator[pa.Table]:
        """Rows that were lost, as far as a condition looks at them, and how many each stands for."""
        return (self._lost(judged, missed[begin:end], weight[begin:end]) for begin, end in _pieces(judged, missed, len(self.plan.streams)))

    def _made(self, payload: Payload, outputs: Ints) -> pa.Table:
        if not len(outputs):
            return self.plan.schema.empty_table()
        wanted = [{name: name for name in names} for names in self.plan.payload]
        wanted[0] = {f"key{number}": name for number, name in enumerate(self.plan.key_names)} | wanted[0]
        columns = self._columns(payload, outputs, wanted) | self._of_facts(outputs) | {LOST: pa.array(np.zeros(len(outputs)))}
        return pa.table([columns[name] for name in self.plan.schema.names], schema=self.plan.schema)

    def _lost(self, judged: Payload, missed: Ints, weight: Floats) -> pa.Table:
        if not len(missed):
            return self.plan.schema.empty_table()
        assert self.plan.judged is not None
        columns = self._columns(judged, missed, [judged_names(self.plan, names) for names in self.plan.judged])
        columns |= self._of_facts(missed) | {LOST: pa.array(weight)}
        schema, size = self.plan.schema, len(missed)
        return pa.table([columns[f.name] if f.name in columns else pa.nulls(size, f.type) for f in schema], schema=schema)

    def _columns(self, payload: Payload, outputs: Ints, wanted: list[dict[str, str]]) -> dict[str, Any]:
        """By stream, columns of the payload under the names that they have in the result; and the value of each output."""
        columns: dict[str, Any] = {}
        worths = []
        for stream, names in enumerate(wanted):
            if names or self._worth:
                table = payload.fetch(stream, outputs[:, 1 + stream], [*names, *self._worth])
                columns |= {name: table[own] for own, name in names.items()}
                worths += [np.asarray(table[name]) for name in self._worth]
        return columns | ({VALUE: pa.array(self._values(worths) * self._weights(outputs))} if self._worth else {})

    def _of_facts(self, outputs: Ints) -> dict[str, Any]:
        """Columns of the facts that outputs are made by, under their names in the result."""
        if self.facts is None:
            return {}
        known = self.facts.known
        columns: dict[str, Any] = {}
        for which, numbers in enumerate(outputs[:, 1 + len(self.plan.streams) :].T):
            columns |= known.columns(which, numbers)
        return columns

    def _weights(self, outputs: Ints) -> Any:
        """What the facts of each output weigh together."""
        return 1.0 if self.facts is None else self.facts.known.weights(outputs[:, 1 + len(self.plan.streams) :])

    def _values(self, worths: list[Any]) -> Any:
        """The value of each output, from the importances of its members."""
        if len(worths) == 2:
            return self.objective.pairs(worths[0], worths[1])
        return np.array([self.objective.of(list(members)) for members in zip(*worths, strict=True)])


def judged_names(plan: ShardPlan, names: tuple[str, ...]) -> dict[str, str]:
    """The columns that a condition looks at: as they are held, and what they are called in the result."""
    return {f"key{plan.key_names.index(name)}" if name in plan.key_names else name: name for name in names}


def _pieces(payload: Payload, outputs: Ints, n_streams: int) -> Iterator[tuple[int, int]]:
    """From where to where outputs are made together."""
    streams = range(n_streams)
    if len(outputs) * sum(map(payload.widest, streams)) <= _PIECE:
        return iter([(0, len(outputs))])
    whole = np.cumsum(sum(payload.sizes(stream, outputs[:, 1 + stream]) for stream in streams))
    begins = [0, *(np.flatnonzero(np.diff(whole // _PIECE)) + 1).tolist()]
    return zip(begins, [*begins[1:], len(outputs)], strict=True)
