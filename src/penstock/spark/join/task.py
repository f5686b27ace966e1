"""The task that a Python worker of Spark works for."""

from __future__ import annotations

import re

from pyspark import TaskContext

from penstock.shard.facts.followed import Versions
from penstock.shard.facts.sent import SentFacts

_RUN = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""The id of a run, which Spark gives its jobs for a group; a function for `foreachBatch` may have given them another."""


def running() -> tuple[str | None, str | None, int]:
    """The id of the streaming query, of its run (None: not known) and of its batch; no query where it is a batch query."""
    context = TaskContext.get()
    found = [
        context.getLocalProperty(name) if context else None
        for name in ("sql.streaming.queryId", "spark.jobGroup.id", "streaming.sql.batchId")
    ]
    query, group, batch = found
    return query, group if group and _RUN.fullmatch(group) else None, int(batch or 0)


def versions_seen(facts: SentFacts | None, name: str) -> Versions:
    """The versions of relations that the batch of this task sees, in the join of this name; nothing where all stand still."""
    if facts is None or not facts.followed:
        return ()
    query, _, batch = running()
    return facts.seen(f"{name}-{query}", batch)
