"""The tuples of the stepwise engine as columns: what is known of a row, when it leaves, and who is shed."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.core.batch import Batch
from penstock.core.budget import TUPLE_OVERHEAD, Pools
from penstock.core.problem import Problem
from penstock.core.trace import Bools, Ints
from penstock.core.window import DEAD, expiries, followers
from penstock.engine.binding import Columns


def columns_of(problem: Problem, batch: Batch, arrivals: Ints, next_row: int) -> Columns:
    """The columns of a batch, of whose streams so many rows have come before."""
    size = len(batch)
    expiry = expiries(
        problem.windows, batch.stream, batch.time, batch.lifetime, arrivals,
        instantly=problem.switch("varying-window") == "instant",
    )  # fmt: skip
    if problem.counts_keys:  # without a key there is no window
        expiry = np.where(np.array([w.kind == "rows_per_key" for w in problem.windows])[batch.stream] & (batch.key < 0), DEAD, expiry)
    row = np.arange(size) + next_row
    return {
        "stream": batch.stream,
        "time": batch.time,
        "row": row,
        "expiry": expiry,
        "key": np.where((batch.key < 0) | (expiry == DEAD), -1 - row, batch.key),
        "importance": np.ones(size) if batch.importance is None else batch.importance,
        "weight": batch.size + TUPLE_OVERHEAD if problem.budget.in_bytes and batch.size is not None else np.ones(size, np.int64),
        "price": np.zeros(size) if batch.price is None else batch.price,
        "values": batch.key[:, None] if batch.values is None else batch.values,
        "rates": np.zeros((size, problem.n_streams)),
        "arrived": np.zeros(size, np.int64),
        "produced": np.zeros(size, np.int64),
        "produced_value": np.zeros(size),
        "memo": np.zeros(size),
        "followers": np.zeros(size, np.int64),
    }


def pick(columns: Columns, chosen: Bools | Ints) -> Columns:
    """Some tuples."""
    return {name: column[chosen] for name, column in columns.items()}


def leaving(columns: Columns) -> Ints:
    """When tuples leave: as they leave their windows or, where relations link streams, when their last chance has ended."""
    return np.minimum(columns["expiry"], columns["last_chance"]) if "last_chance" in columns else columns["expiry"]


def shed(budget: Pools, columns: Columns, order: Ints, stay: Bools, step: int, due: Bools | None = None) -> Ints:
    """Take those that are due, then the lowest ranks, out of `stay` until every pool is within its budget; their rows, in order."""
    sheds: list[int] = []
    due = stay & False if due is None else stay & due
    order = order[np.argsort(~due[order], kind="stable")]
    for which, cap in enumerate(budget.caps[step]):
        mine = order[stay[order] & (budget.pool[columns["stream"][order]] == which)]
        weight = columns["weight"][mine]
        left = weight.sum() - np.cumsum(weight)
        excess = max(0 if weight.sum() <= cap else int(np.argmax(left <= cap)) + 1, int(due[mine].sum()))
        stay[mine[:excess]] = False
        sheds += columns["row"][mine[:excess]].tolist()
    return np.array(sheds, dtype=np.int64)


def follow(memory: Columns, new: Columns) -> None:
    """Count the arrivals of an instant as followers of those that came before, in memory and in the instant itself."""
    arrived = new["stream"], new["key"]
    memory["followers"] = memory["followers"] + followers(memory["stream"], memory["key"], *arrived)
    same = (arrived[0][:, None] == arrived[0]) & (arrived[1][:, None] == arrived[1])
    new["followers"] = np.triu(same, 1).sum(axis=1)


def copied(value: Any) -> Any:
    """A value whose arrays nobody else has."""
    if isinstance(value, dict):
        return {name: copied(one) for name, one in value.items()}
    return value.copy() if isinstance(value, np.ndarray) else value
