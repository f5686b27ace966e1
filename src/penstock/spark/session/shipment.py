"""What workers read when they need it, and no sooner: a broadcast, or where there is none, what travels with each task."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

from pyspark import cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from penstock.shard.facts.sent import InHand, Parcel


def shipped(spark: SparkSession, cells: Sequence[bytes]) -> Parcel:
    """Cells on their way to the workers of a session."""
    if is_remote():
        return InHand(tuple(cells))
    return Shipment(spark.sparkContext.broadcast(tuple(cells)))


class Shipment:
    """A broadcast, unpacked by who looks at it.

    Spark asks what the state of an operator is in a process that has no broadcasts, and unpickles the operator there.
    """

    def __init__(self, broadcast: Any) -> None:
        self.broadcast = broadcast

    def __getstate__(self) -> bytes:
        packed: bytes = cloudpickle.dumps(self.broadcast)  # type: ignore[no-untyped-call]  # while Spark pickles a step, so that it knows of this one
        return packed

    def __setstate__(self, packed: bytes) -> None:
        self.packed = packed

    @property
    def value(self) -> Sequence[bytes]:
        """The cells."""
        if not hasattr(self, "broadcast"):
            self.broadcast = pickle.loads(self.packed)
        found: Sequence[bytes] = self.broadcast.value
        return found
