"""As many partitions as shards: each partition of a stateful stage has a store of its own, and a task in every batch.

Spark takes their number from `spark.sql.shuffle.partitions`, 200 by default, when a query starts for the first time, and keeps it in the
checkpoint. A setting of stateful stages alone is made when a join is, and taken back when its query has started: other queries keep theirs.
Spark 4.0 has no such setting: there it is the one of all shuffles that is made and taken back.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from weakref import ref

from pyspark import __version__
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import QueryStartedEvent, QueryTerminatedEvent, StreamingQueryProgress
from pyspark.sql.utils import is_remote

from penstock.spark.observe.folders import joins
from penstock.spark.observe.listener import follower_of
from penstock.spark.observe.progress import joins_in
from penstock.spark.session.presence import version_of

logger = logging.getLogger("penstock")

SHUFFLE = "spark.sql.shuffle.partitions"
STATEFUL = "spark.sql.streaming.internal.stateStore.partitions" if version_of(__version__) >= (4, 1) else SHUFFLE
_FAR_MORE = 4  # times the shards


def match_partitions(spark: SparkSession, name: str, shards: int) -> None:
    """Let the query of the join `name` have as many partitions as shards, where nobody has said how many; warn where they are far more."""
    chosen = spark.conf.get(SHUFFLE, None)
    if is_remote():  # nobody hears there that the query has started: the setting stays
        if chosen is None:
            _set(spark, str(shards))
        return
    follower = follower_of(spark, Partitions)
    follower.shards[name] = shards
    if chosen is None or (STATEFUL == SHUFFLE and follower.expected):
        follower.expect(spark, name)
    elif int(chosen) > _FAR_MORE * shards:
        follower.warn(name, f"{SHUFFLE} is {chosen}", int(chosen))


class Partitions:
    """Takes the setting back when a query has started, and warns once of one whose checkpoint has far more partitions than shards."""

    def __init__(self, spark: SparkSession) -> None:
        self.session = ref(spark)
        self.shards: dict[str, int] = {}  # of the joins of the session
        self.expected: set[str] = set()  # those whose query has not started
        self.told: set[str] = set()

    def expect(self, spark: SparkSession, name: str) -> None:
        """Have the setting until the query of this join has started."""
        if spark.conf.get(STATEFUL, None) is None or self.expected:
            self.expected.add(name)
            _set(spark, str(max(self.shards[one] for one in self.expected)))

    def started(self, event: QueryStartedEvent) -> None:
        """Take the setting back, if this query has the join for which it was made: it has a copy of all settings by now."""
        spark = self.session()
        if spark is None or not self.expected:
            return
        self.expected -= {name for name in self.expected if joins(spark, str(event.id), name)}
        _set(spark, str(max(self.shards[one] for one in self.expected)) if self.expected else None)

    def progressed(self, progress: StreamingQueryProgress) -> None:
        """Look at the partitions that a query really has."""
        most = max((state.numShufflePartitions for state in progress.stateOperators), default=0)
        for name in joins_in(progress):
            if name in self.shards and most > _FAR_MORE * self.shards[name]:
                self.warn(name, f"the checkpoint of query {progress.id} keeps {most} partitions", most)

    def ended(self, event: QueryTerminatedEvent) -> None:
        """Nothing is to be said."""

    def warn(self, name: str, why: str, partitions: int) -> None:
        """Say, once for each join, that there are far more partitions than shards, and what helps."""
        if name not in self.told:
            self.told.add(name)
            logger.warning(
                "join %s: %s, so every batch runs %d tasks for %d shards, most of them for nothing. Leave %s unset, or set it to %d, and "
                "begin with a new checkpoint: the old one keeps its number",
                name, why, partitions, self.shards[name], SHUFFLE, self.shards[name],
            )  # fmt: skip


def _set(spark: SparkSession, value: str | None) -> None:
    with suppress(PySparkException):  # functions of a declarative pipeline may not
        if value is None:
            spark.conf.unset(STATEFUL)
        else:
            spark.conf.set(STATEFUL, value)
